"""Errors with advice: what they say, and that they survive the way between two processes."""

import pickle

from dcadl.data.errors import MixedSizesError, unreadable


def test_the_message_is_the_fault_and_the_advice():
    assert str(MixedSizesError("Two sizes.", "Give size=.")) == "Two sizes. Give size=."


def test_a_copy_from_another_process_says_the_same():
    error = unreadable([ValueError("a.png"), ValueError("b.png")], "Skip them.")

    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), str(copy), copy.fault) == (type(error), str(error), error.fault)


def test_many_unreadable_files_are_counted():
    text = str(unreadable([ValueError(f"{i}.png") for i in range(25)], "Skip them."))

    assert text.startswith("25 files cannot be read:")
    assert "19.png" in text
    assert "20.png" not in text
    assert "… and 5 more" in text
