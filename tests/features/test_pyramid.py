"""SpatialPyramid: same rows from files and arrays, learned from what it is given, resumable, saved."""

import pickle
import warnings

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline

import dcadl.features.pyramid as pyramid_module
from dcadl.features import SpatialPyramid
from dcadl.features.pca import project
from dcadl.features.pyramid import unit_rows


def small(**changes):
    """A pyramid that takes a moment."""
    return SpatialPyramid(**{"n_words": 12, "levels": (1, 2), "n_descriptors": 400, "n_jobs": 2} | changes)


@pytest.fixture
def pictures(rng):
    """Textures of differing sizes and two kinds: fine ones, then coarse ones."""
    images = []
    for i in range(12):
        texture = gaussian_filter(rng.standard_normal((40 + 2 * i, 60 - i)), 1 + 2 * (i >= 6))
        images.append((255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8))
    return images


@pytest.fixture
def files(pictures, tmp_path):
    paths = [tmp_path / f"{i:02d}.png" for i in range(len(pictures))]
    for path, picture in zip(paths, pictures):
        Image.fromarray(picture).save(path)
    return paths


def test_rows_have_one_entry_per_cell_and_word_and_length_one(pictures):
    F = small().fit_transform(pictures)
    assert F.shape == (12, 5 * 12)
    assert F.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(F, axis=1), 1, rtol=1e-5)


def test_files_and_arrays_give_the_same(pictures, files):
    np.testing.assert_array_equal(small().fit_transform(pictures), small().fit_transform(files))
    np.testing.assert_array_equal(
        small().fit_transform(pictures), small().fit_transform(np.array([str(f) for f in files]))
    )


def test_workers_do_not_change_the_result(pictures):
    np.testing.assert_allclose(
        small(n_jobs=1).fit_transform(pictures), small(n_jobs=3).fit_transform(pictures), atol=1e-5
    )


@pytest.mark.parametrize("n_components", [None, 4])
def test_fit_transform_equals_fit_then_transform(pictures, n_components):
    one, two = small(n_components=n_components), small(n_components=n_components)
    np.testing.assert_allclose(one.fit_transform(pictures), two.fit(pictures).transform(pictures), atol=1e-6)


def test_chunks_do_not_change_the_result(pictures, monkeypatch):
    fitted = small(n_components=4).fit(pictures)
    whole = fitted.transform(pictures)
    monkeypatch.setattr(pyramid_module, "CHUNK", 5)
    np.testing.assert_allclose(fitted.transform(pictures), whole, atol=1e-6)


def test_a_row_depends_on_its_own_image_only(pictures):
    fitted = small(n_components=4).fit(pictures[:8])
    np.testing.assert_allclose(fitted.transform(pictures)[9], fitted.transform([pictures[9]])[0], atol=1e-6)


def test_pca_is_that_of_the_pooled_rows(pictures):
    plain, reduced = small().fit(pictures), small(n_components=5).fit(pictures)
    expected = unit_rows(project(plain.transform(pictures), reduced.directions_))
    np.testing.assert_allclose(reduced.transform(pictures), expected, atol=1e-5)


def test_more_components_than_images_span_are_cut_with_a_warning(pictures):
    with pytest.warns(UserWarning, match="12 images span 11 directions"):
        fitted = small(n_components=3000).fit(pictures)
    assert fitted.transform(pictures).shape == (12, 11)


@pytest.mark.parametrize("coding", ["llc", "hard"])
@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_every_recipe_tells_fine_from_coarse_textures(pictures, coding, pooling):
    y = np.repeat([0, 1], 6)
    train, test = [0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]
    model = make_pipeline(small(coding=coding, pooling=pooling), RidgeClassifier())
    model.fit([pictures[i] for i in train], y[train])
    assert model.score([pictures[i] for i in test], y[test]) == 1


def test_hard_codes_with_max_pooling_are_ones_and_zeros(pictures):
    F = small(coding="hard").fit_transform(pictures)
    assert all(len(np.unique(np.round(row, 6))) <= 2 for row in F)


def test_test_images_do_not_change_the_inductive_features(pictures):
    fitted = small(n_components=3).fit(pictures[:6])
    before = fitted.transform(pictures[:6])
    fitted.transform(pictures[6:])
    np.testing.assert_allclose(fitted.transform(pictures[:6]), before, atol=1e-7)
    assert fitted.protocol_ == "inductive"


def test_the_transductive_variant_learns_from_unlabelled_images_and_says_so(pictures):
    seen = small(n_components=3, transductive=True)
    F = seen.fit_transform(pictures[:6], unlabelled=pictures[6:])
    everything = small(n_components=3).fit(pictures)
    np.testing.assert_allclose(F, everything.transform(pictures[:6]), atol=1e-5)
    assert seen.protocol_ == "transductive"
    assert seen.get_feature_names_out()[0] == "pyramid_transductive_0"


def test_unlabelled_images_need_the_transductive_option(pictures):
    with pytest.raises(ValueError, match="transductive=True"):
        small().fit(pictures[:6], unlabelled=pictures[6:])


def test_an_interrupted_run_goes_on_where_it_stopped(pictures, tmp_path, monkeypatch):
    real, calls = pyramid_module.pool, []

    def stops_after_seven(*arguments):
        calls.append(1)
        if len(calls) > 7:
            raise KeyboardInterrupt
        return real(*arguments)

    fitted = small(cache_dir=tmp_path / "kept", n_jobs=1).fit(pictures)
    monkeypatch.setattr(pyramid_module, "pool", stops_after_seven)
    with pytest.raises(KeyboardInterrupt):
        fitted.transform(pictures)
    calls.clear()  # five are left: a sixth call would be work done twice
    resumed = fitted.transform(pictures)
    assert len(calls) == 5
    monkeypatch.setattr(pyramid_module, "pool", real)
    np.testing.assert_array_equal(resumed, small(n_jobs=1).fit(pictures).transform(pictures))


def test_the_codebook_is_learned_once(pictures, tmp_path, monkeypatch):
    first = small(cache_dir=tmp_path).fit(pictures)
    monkeypatch.setattr(pyramid_module, "learn_words", None)  # calling it again would fail
    np.testing.assert_array_equal(small(cache_dir=tmp_path).fit(pictures).codebook_, first.codebook_)


@pytest.mark.parametrize("change", [{"pooling": "mean"}, {"step": 4}, {"levels": (1,)}, {"root": True}])
def test_other_parameters_never_find_old_features(pictures, tmp_path, change):
    small(cache_dir=tmp_path).fit_transform(pictures)
    cached = small(cache_dir=tmp_path, **change).fit_transform(pictures)
    np.testing.assert_array_equal(cached, small(**change).fit_transform(pictures))


def test_a_changed_image_never_finds_old_features(pictures, tmp_path):
    fitted = small(cache_dir=tmp_path).fit(pictures)
    before = fitted.transform(pictures)
    changed = [np.rot90(pictures[0]), *pictures[1:]]
    after = fitted.transform(changed)
    np.testing.assert_array_equal(after[1:], before[1:])
    assert np.abs(after[0] - before[0]).max() > 0.01


@pytest.mark.bits
@pytest.mark.parametrize("n_components", [None, 4])
def test_a_saved_pyramid_gives_the_same_rows(pictures, tmp_path, n_components):
    fitted = small(n_components=n_components, coding="hard", pooling="mean").fit(pictures)
    fitted.save(tmp_path / "pyramid.npz")
    loaded = SpatialPyramid.load(tmp_path / "pyramid.npz", n_jobs=1)
    np.testing.assert_allclose(loaded.transform(pictures), fitted.transform(pictures), atol=1e-6)
    assert loaded.protocol_ == fitted.protocol_


def test_other_files_are_not_taken_for_a_pyramid(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.ones(3))
    with pytest.raises(ValueError, match=r"not a saved SpatialPyramid.*X"):
        SpatialPyramid.load(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "parameters", ["[" * 100_000, '{"a":' * 50_000, "[]", "null", '{"levels": 5}', "NaN"]
)
def test_parameters_that_are_none_are_refused_in_one_line(tmp_path, parameters):
    np.savez(tmp_path / "p.npz", codebook=np.zeros((8, 128), np.float32), parameters=np.array(parameters))
    with pytest.raises(ValueError, match=r"^\S*p\.npz is not a saved SpatialPyramid; [^\n]*$"):
        SpatialPyramid.load(tmp_path / "p.npz")


def test_directions_too_large_to_compute_with_are_a_value_error(pictures):
    fitted = small(n_components=3).fit(pictures)
    components = np.full_like(fitted.directions_.components, 3e38)
    fitted.directions_ = fitted.directions_._replace(components=components)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="features overflowed"):
        fitted.transform(pictures)


def test_a_pyramid_is_saved_to_npz_files_only(pictures, tmp_path):
    with pytest.raises(ValueError, match=r"\.npz"):
        small().fit(pictures).save(tmp_path / "pyramid.bin")
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_numpy_are_numbers(pictures, tmp_path):
    fitted = small(n_words=np.int64(12), contrast=np.float32(0.5)).fit(pictures)
    fitted.save(tmp_path / "pyramid.npz")
    assert SpatialPyramid.load(tmp_path / "pyramid.npz").n_words == 12


def test_it_can_be_cloned_and_pickled(pictures):
    fitted = small().fit(pictures)
    assert clone(fitted).get_params()["n_words"] == 12
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.transform(pictures), fitted.transform(pictures))


def test_large_pictures_are_shrunk_first(rng):
    large = (255 * rng.random((80, 60))).astype(np.uint8)
    shrunk = np.asarray(Image.fromarray(large).resize((30, 40), Image.Resampling.BICUBIC))
    fitted = small(max_side=40).fit([large])
    np.testing.assert_array_equal(fitted.transform([large]), fitted.transform([shrunk]))


def test_colour_float_and_sixteen_bit_arrays_are_taken_on_one_scale(pictures):
    fitted, grey = small().fit(pictures), pictures[0]
    expected = fitted.transform([grey])
    for image in (np.dstack([grey] * 3), grey / 255, grey.astype(np.uint16) * 257):
        np.testing.assert_allclose(fitted.transform([image]), expected, atol=2e-3)


def test_a_flat_picture_has_finite_features(pictures):
    F = small().fit(pictures).transform([np.zeros((40, 40), dtype=np.uint8)])
    assert np.isfinite(F).all()


def test_transform_before_fit_is_refused(pictures):
    with pytest.raises(NotFittedError):
        small().transform(pictures)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coding": "soft"}, "coding must be one of llc, hard"),
        ({"pooling": "sum"}, "pooling must be one of max, mean"),
        ({"n_words": 0}, "n_words must be an integer of at least 1"),
        ({"n_words": 3}, "neighbours must not exceed n_words"),
        ({"patch": 15}, "multiple of 4"),
        ({"levels": ()}, "levels"),
        ({"levels": (0, 2)}, "levels"),
        ({"n_components": 0}, "n_components"),
        ({"n_words": 100_000}, "needs at least as many descriptors"),
    ],
)
def test_impossible_parameters_are_refused(pictures, change, message):
    with pytest.raises(ValueError, match=message):
        small(**change).fit(pictures)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "at least one image"),
        ("one.png", "Put it in a list"),
        (np.ones((4, 9)), "rows of numbers"),
        ([np.ones((4, 4), dtype=np.uint8)], "image 0: 4×4 pixels"),
        ([np.full((40, 40), 7.0)], "image 0: .*floats in 0..1"),
        ([np.ones((40, 40, 7))], "image 0: .*shape"),
    ],
)
def test_what_is_no_image_is_refused(images, message):
    with pytest.raises(ValueError, match=message):
        small().fit(images)


def test_an_unreadable_file_is_named(files):
    files[3].write_text("x")
    with pytest.raises(ValueError, match=r"03\.png"):
        small().fit(files)


def test_nothing_is_warned_about_in_ordinary_use(pictures):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small(n_components=4).fit_transform(pictures)
