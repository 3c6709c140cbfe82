"""The list of methods: each has a class, a group and a title of its own."""

import pytest

from dcadl.bench import methods


@pytest.mark.parametrize("name", methods.method_names())
def test_every_method_that_can_be_run_is_a_classifier_in_a_group(name):
    assert methods.method(name).group in methods.GROUPS
    assert {"fit", "predict"} <= set(dir(methods.find_class(name)))


def test_titles_are_distinct():
    titles = [each.title for each in methods.METHODS.values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(
    ("label", "name", "title"),
    [
        ("LOOADL", "LOOADL", "LOO-ADL"),
        ("LOOADL-8", "LOOADL", "LOO-ADL-8"),
        ("LCKSVD-1216", "LCKSVD", "LC-KSVD-1216"),
        ("my own", "DCADL", "my own"),
    ],
)
def test_a_row_is_called_by_its_method_and_what_its_label_adds(label, name, title):
    assert methods.row_title(label, name) == title


def test_rows_that_depart_from_their_papers_say_where():
    assert all(methods.METHODS[name].differs for name in ("LCKSVD", "SADL", "DADL"))
