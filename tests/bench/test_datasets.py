"""Data sets and protocols: who trains, who tests."""

import numpy as np
import pytest
from PIL import Image

from dcadl.bench import datasets, settings
from dcadl.bench.datasets import Dataset, fold


@pytest.fixture
def parts(rng):
    """Forty samples of two classes; the first thirty are the set's own training part."""
    y = np.arange(40) % 2
    return Dataset("few", rng.random((40, 2)), y, ("a", "b"), 30)


def _protocol(monkeypatch, **known):
    monkeypatch.setattr(datasets, "dataset_config", lambda name: known)


def test_a_set_with_a_test_part_is_tested_on_it_alone(monkeypatch, parts):
    _protocol(monkeypatch, per_class=5, tested_on="its test part")

    first, second = fold(parts, 0), fold(parts, 1)

    assert first.test.tolist() == second.test.tolist() == list(range(30, 40))
    assert np.bincount(first.y_train).tolist() == [5, 5]
    assert not np.array_equal(first.X_train, second.X_train)
    assert all((row == parts.X[:30]).all(axis=1).any() for row in first.X_train)


def test_without_a_number_for_each_class_the_whole_training_part_trains(monkeypatch, parts):
    _protocol(monkeypatch, tested_on="its test part")

    found = fold(parts, 3)

    np.testing.assert_array_equal(found.X_train, parts.X[:30])
    assert len(found.y_test) == 10


def test_without_a_test_part_all_the_rest_is_tested(monkeypatch, parts):
    _protocol(monkeypatch, per_class=5)

    assert len(fold(parts, 0).y_test) == 30


def test_pictures_of_differing_sizes_are_brought_to_one_and_decoded_once(tmp_path, monkeypatch, draw):
    for i, shape in enumerate([(8, 6), (30, 20)]):
        draw(tmp_path / f"{i}.png", shape)
    files = np.array([str(tmp_path / f"{i}.png") for i in range(2)])

    images = datasets._pictures(files, (4, 5))
    monkeypatch.setattr(datasets, "decode", lambda *_: pytest.fail("decoded again"))

    assert images.shape == (2, 4, 5)
    np.testing.assert_array_equal(datasets._pictures(files, (4, 5)), images)


def test_a_picture_that_changed_is_decoded_again(tmp_path, draw):
    draw(tmp_path / "0.png")
    files = np.array([str(tmp_path / "0.png")])
    before = datasets._pictures(files, (4, 5))
    Image.new("L", (9, 9), 255).save(tmp_path / "0.png")

    assert not np.array_equal(datasets._pictures(files, (4, 5)), before)


@pytest.mark.parametrize("name", list(settings.benchmark_config()["datasets"]))
def test_every_protocol_names_a_known_data_set(name):
    from dcadl.data import registry

    assert settings.dataset_config(name).get("data", name) in registry.names()
