"""`paper.toml`: its figures are the paper's, and every setting fits its class."""

import pytest

from dcadl.bench import settings

DATASETS = list(settings.benchmark_config()["datasets"])


@pytest.mark.parametrize("name", DATASETS)
def test_every_setting_names_a_class_and_parameters_that_it_has(name):
    for row in settings.settings(name, ablations=True):
        assert set(row.params) <= set(settings.find_class(row.method)().get_params()), row.label


def test_every_space_names_parameters_that_its_class_has():
    rows = {row.label: row.method for name in DATASETS for row in settings.settings(name)}
    for label, space in settings.benchmark_config()["spaces"].items():
        assert set(space) <= set(settings.find_class(rows.get(label, label))().get_params()), label


@pytest.mark.parametrize(
    ("name", "atoms"), [("extended_yaleb", 50), ("ar", 50), ("caltech101", 152), ("scene15", 50)]
)
def test_dcadl_runs_with_the_atoms_that_the_papers_table_reports(name, atoms):
    reported = next(r for r in settings.dataset_config(name)["results"] if r["name"] == "DCADL")
    ours = next(row for row in settings.settings(name) if row.label == "DCADL")

    assert reported["atoms"] == ours.params["n_atoms"] == atoms


@pytest.mark.parametrize(
    "name", [n for n in DATASETS if "DCADL-paper" in settings.dataset_config(n)["settings"]]
)
def test_the_papers_algorithm_sees_what_dcadl_sees(name):
    """All but the solver and its end is the same, so that a difference is theirs."""
    ours, theirs = (dict(row.params) for row in settings.settings(name, ["DCADL", "DCADL-paper"]))

    assert theirs.pop("solver") == "paper"
    theirs.pop("max_iter")  # the paper's T; DCADL's passes end by leave-one-out error
    assert ours == theirs


def test_scene15_is_run_with_both_numbers_of_atoms():
    rows = {row.label: row.params["n_atoms"] for row in settings.settings("scene15", ["dcadl", "dcadl-100"])}

    assert rows == {"DCADL": 50, "DCADL-100": 100}


def test_a_choice_of_another_seed_is_not_used():
    row = settings.settings("digits", ["PatchRidge"])[0]
    tuned = {"digits": {"PatchRidge": {"seed1": {"lam": 9.0}}}}

    assert settings.with_tuned(row, tuned, "digits", 0) == row
    changed = settings.with_tuned(row, tuned, "digits", 1)
    assert (changed.params["lam"], changed.source) == (9.0, "tuned")


@pytest.mark.parametrize(("name", "wanted"), [("digits", ["nobody"]), ("nowhere", None)])
def test_an_unknown_name_is_refused_with_the_known_ones(name, wanted):
    with pytest.raises(ValueError, match="must be"):
        settings.settings(name, wanted)


def test_a_damaged_file_of_choices_is_refused(tmp_path):
    (tmp_path / "t.toml").write_text("[tuned")

    with pytest.raises(ValueError, match="cannot be read"):
        settings.read_tuned(tmp_path / "t.toml")


@pytest.mark.parametrize(
    "text", ["[digits.PatchRidge]\nseed0 = { lam = 3.0 }", "tuned = 5", "[tuned]\ndigits = 5", ""]
)
def test_a_file_of_something_else_is_no_file_of_choices(tmp_path, text):
    (tmp_path / "t.toml").write_text(text)

    with pytest.raises(ValueError, match="tuned"):
        settings.read_tuned(tmp_path / "t.toml")


def test_a_row_that_one_data_set_has_may_be_asked_for_with_others():
    rows = settings.rows_of(["digits", "scene15"], ["dcadl-100", "pcanet"])

    assert {name: [row.label for row in found] for name, found in rows.items()} == {
        "digits": ["PCANet"],
        "scene15": ["DCADL-100"],
    }


def test_ablations_are_asked_for_by_class():
    rows = settings.settings("digits", ["randomatoms"], ablations=True)

    assert {row.method for row in rows} == {"RandomAtoms"}
    assert {row.group for row in rows} == {"table", "ablation"}


def test_a_search_that_had_no_time_leaves_the_setting_the_papers():
    row = settings.settings("digits", ["PatchRidge"])[0]

    assert settings.with_tuned(row, {"digits": {"PatchRidge": {"seed0": {}}}}, "digits", 0) == row


def test_a_data_set_has_like_another_one_what_it_does_not_say_itself():
    few, many = (settings.dataset_config(name) for name in ("extended_yaleb-10", "extended_yaleb"))

    assert (few["per_class"], few["data"], few["divide_by"]) == (10, "extended_yaleb", 255)
    assert few["settings"]["PatchRidge"] == many["settings"]["PatchRidge"]
    assert few["settings"]["DPL"]["n_atoms"] == 10
    assert "LCKSVD-1216" in many["settings"]
    assert "LCKSVD-1216" not in few["settings"]
    assert few["results"] == []


@pytest.mark.parametrize("name", DATASETS)
def test_controls_and_outsiders_stand_in_every_table(name):
    rows = set(settings.dataset_config(name)["settings"])

    assert {"PatchRidge", "PCAAtoms", "RandomAtoms", "RBFSVM", "LogisticRegression"} <= rows
    assert ("HOGSVM" in rows) is not settings.dataset_config(name).get("features", False)


def test_the_range_of_dpls_ridge_reaches_what_features_need():
    assert settings.benchmark_config()["spaces"]["DPL"]["lam"][0] <= 1e-5


def test_the_order_of_tables_names_every_data_set_once():
    files = [settings._read_toml(name) for name in ("paper.toml", "pictures.toml")]
    every = [name for file in files for name in file["datasets"]]

    assert sorted(files[1]["order"]) == sorted(every)
