"""Sentences about the tables, from records made by hand."""

import pytest

from dcadl.bench.report.findings import findings
from dcadl.bench.report.summary import summarise


def _records(dataset, **accuracies):
    return [
        {
            "dataset": dataset,
            "group": "table",
            "status": "ok",
            "params": {},
            "n_train": 90,
            "n_test": 10,
            "label": label,
            "method": label,
            "seed": seed,
            "accuracy": accuracy,
            "test_batch_s": 1e-5 * len(label),
        }
        for label, accuracy in accuracies.items()
        for seed in range(5)
    ]


def _said(*records):
    return findings(summarise([r for each in records for r in each]))


@pytest.mark.parametrize(("other", "first"), [(0.97, "DPL"), (0.90, "LOO-ADL")])
def test_the_winner_is_named_with_its_data_set(other, first):
    assert _said(_records("digits", LOOADL=0.95, DPL=other))[0] == f"{first} has the highest mean on Digits."


def test_where_somebody_elses_method_wins_is_said_first():
    said = _said(_records("digits", LOOADL=0.95, DPL=0.9), _records("scene15", LOOADL=0.7, DPL=0.8))

    assert said[0] == "DPL has the highest mean on Scene15; LOO-ADL has the highest mean on Digits."


def test_learned_atoms_are_weighed_against_each_control():
    said = _said(_records("digits", DCADL=0.95, RandomAtoms=0.9, PCAAtoms=0.96))

    assert (
        "DCADL's learned atoms are worth +5.0 points (Digits) over Random atoms and -1.0 points (Digits) "
        "over PCA atoms."
    ) in said


def test_what_of_ours_ties_with_the_winner_is_said_beside_it():
    records = _records("digits", DPL=0.95, DCADL=0.949)
    for record in records:  # apart by more than their mean difference, now one way, now the other
        record["accuracy"] += 0.01 * (-1) ** record["seed"] * (record["label"] == "DPL")

    assert _said(records)[0] == "DPL has the highest mean on Digits (DCADL within one standard error)."


def test_unlearned_atoms_are_a_control_and_no_win_of_ours():
    records = _records("digits", **{"LOOADL": 0.95, "LOOADL-unlearned": 0.97, "DCADL": 0.9})
    for record in records:
        record["method"] = record["label"].partition("-")[0]
    few, all_of_them = (
        [{**r, "dataset": name} for r in records] for name in ("extended_yaleb-5", "extended_yaleb")
    )

    said = _said(few, all_of_them, _records("scene15", DCADL=0.9))

    assert said[0].index("LOO-ADL-unlearned has") < said[0].index("DCADL has")
    assert (
        "LOO-ADL's learned atoms are worth -2.0 points (Extended YaleB (5 per class)) over unlearned ones."
        in said
    )
    assert any(
        "LOO-ADL-unlearned errs in 3.0 % and DCADL, the next method, in 10.0 %" in each for each in said
    )


def test_the_leader_of_the_fewest_images_need_not_have_been_run_with_more():
    few = _records("extended_yaleb-5", LOOADL=0.99, HOGSVM=0.9)

    said = _said(few, _records("extended_yaleb", HOGSVM=0.98))

    assert any(
        each.startswith("With 5 images of each class on Extended YaleB, LOO-ADL errs") for each in said
    )


def test_the_leader_with_few_images_is_said_where_there_is_a_curve():
    few = _records("extended_yaleb-5", LOOADL=0.99, HOGSVM=0.9)
    said = _said(few, _records("extended_yaleb", LOOADL=0.99, HOGSVM=0.98))

    assert (
        "With 5 images of each class on Extended YaleB, LOO-ADL errs in 1.0 % and HOG + linear SVM, the "
        "next method, in 10.0 %."
    ) in said


def test_the_fastest_is_sought_among_those_near_the_best():
    said = _said(_records("digits", DPL=0.90, PatchRidge=0.95, RandomAtoms=0.955))

    assert "Patch ridge on Digits (100 µs)." in said[-1]  # DPL is faster, and five points behind


def test_rows_of_few_seeds_give_no_finding():
    lucky = [r for r in _records("digits", DPL=0.99) if r["seed"] < 4]

    assert _said(lucky) == []
    assert _said(lucky, _records("digits", DCADL=0.9))[0].startswith("DCADL has")


def test_a_curve_of_few_seeds_gives_no_finding():
    found = [_records(name, LOOADL=0.99, HOGSVM=0.9) for name in ("extended_yaleb-5", "extended_yaleb")]
    few = [[r for r in each if r["seed"] < 4] for each in found]

    assert not any("images of each class" in said for said in _said(*few))


def test_controls_that_are_ahead_of_learned_atoms_are_counted():
    said = _said(
        _records("digits", DCADL=0.95, PCAAtoms=0.96, PatchRidge=0.97),
        _records("scene15", DCADL=0.7, PCAAtoms=0.6, PatchRidge=0.8),
    )

    assert (
        "Ahead of DCADL without learning an atom: PCA atoms on 1 of 2 data sets and "
        "Patch ridge on 2 of 2 data sets."
    ) in said
