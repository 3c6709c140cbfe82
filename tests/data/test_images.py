"""Decoding: what each kind of file must become, and what broken ones must say."""

import numpy as np
import pytest
from PIL import Image

from dcadl.data import read_images
from dcadl.data.images import conform, decode


def test_a_grey_png_comes_back_pixel_by_pixel(tmp_path, draw):
    values = draw(tmp_path / "a.png")
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), values)


def test_exif_orientation_is_applied(tmp_path, rng):
    values = rng.integers(0, 256, (6, 9), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: show it rotated by 90° clockwise
    Image.fromarray(values).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), np.rot90(values, -1))


def test_transparent_pixels_become_white(tmp_path):
    values = np.zeros((4, 4, 4), dtype=np.uint8)
    values[:2, :, 3] = 255
    Image.fromarray(values).save(tmp_path / "a.png")
    image = decode(tmp_path / "a.png")
    assert (image[:2] == 0).all()
    assert (image[2:] == 255).all()


def test_grey_with_alpha_is_laid_over_white(tmp_path):
    Image.fromarray(np.full((4, 4, 2), (100, 0), dtype=np.uint8)).save(tmp_path / "a.png")
    assert (decode(tmp_path / "a.png") == 255).all()


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_sixteen_bits_keep_black_white_and_order(tmp_path, suffix):
    values = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)
    Image.fromarray(values).save(tmp_path / f"a.{suffix}")
    np.testing.assert_array_equal(decode(tmp_path / f"a.{suffix}").ravel(), np.arange(256))


def test_float_pictures_of_zero_to_one_are_scaled(tmp_path):
    Image.fromarray(np.linspace(0, 1, 256, dtype=np.float32).reshape(16, 16)).save(tmp_path / "a.tif")
    np.testing.assert_array_equal(decode(tmp_path / "a.tif").ravel(), np.arange(256))


def test_float_pictures_out_of_range_are_refused_by_name(tmp_path):
    Image.fromarray(np.full((4, 4), 7.0, dtype=np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ValueError, match=r"a\.tif.*0\.\.1"):
        decode(tmp_path / "a.tif")


def test_cmyk_white_stays_white(tmp_path):
    Image.new("CMYK", (8, 8), (0, 0, 0, 0)).save(tmp_path / "a.jpg")
    assert (decode(tmp_path / "a.jpg") == 255).all()
    assert decode(tmp_path / "a.jpg", color=True).shape == (8, 8, 3)


def test_of_an_animation_the_first_frame_is_taken(tmp_path):
    black, white = Image.new("L", (5, 5), 0), Image.new("L", (5, 5), 255)
    black.save(tmp_path / "a.gif", save_all=True, append_images=[white])
    assert (decode(tmp_path / "a.gif") == 0).all()


def test_lossless_webp_comes_back_pixel_by_pixel(tmp_path, draw):
    values = draw(tmp_path / "a.webp", (8, 8, 3), lossless=True)
    np.testing.assert_array_equal(decode(tmp_path / "a.webp", color=True), values)


def test_palette_and_one_bit_pictures_become_grey(tmp_path):
    Image.new("1", (4, 4), 1).save(tmp_path / "a.png")
    Image.new("P", (4, 4), 0).save(tmp_path / "b.png")
    assert (decode(tmp_path / "a.png") == 255).all()
    assert decode(tmp_path / "b.png").shape == (4, 4)


def test_area_averages_over_whole_blocks_are_rounded_once(tmp_path, draw):
    values = draw(tmp_path / "a.png", (12, 8))
    means = values.reshape(4, 3, 4, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(decode(tmp_path / "a.png", size=(4, 4)), means, rtol=0, atol=0.5)


def test_size_is_height_then_width(tmp_path, draw):
    draw(tmp_path / "a.png", (30, 20))
    assert decode(tmp_path / "a.png", size=(7, 5)).shape == (7, 5)
    assert decode(tmp_path / "a.png", size=6, color=True).shape == (6, 6, 3)


def test_a_truncated_jpeg_is_a_value_error_with_its_name(tmp_path, draw):
    draw(tmp_path / "cut.jpg", (64, 64))
    content = (tmp_path / "cut.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"cut\.jpg"):
        decode(tmp_path / "cut.jpg")


def test_text_that_claims_to_be_a_picture_is_a_value_error_with_its_name(tmp_path):
    (tmp_path / "note.png").write_text("not a picture")
    with pytest.raises(ValueError, match=r"note\.png"):
        decode(tmp_path / "note.png")


def test_a_picture_of_absurd_size_is_refused(tmp_path, draw, monkeypatch):
    draw(tmp_path / "big.png", (40, 40))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match=r"big\.png"):
        decode(tmp_path / "big.png")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        decode(tmp_path / "nowhere.png")


@pytest.mark.parametrize("options", [{"size": 0}, {"size": (4, -1)}, {"size": 4, "filter": "magic"}])
def test_impossible_options_are_refused(tmp_path, draw, options):
    draw(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"size|filter"):
        decode(tmp_path / "a.png", **options)


def test_loose_files_are_stacked(tmp_path, draw):
    values = [draw(tmp_path / f"{i}.png") for i in range(3)]
    np.testing.assert_array_equal(read_images([tmp_path / f"{i}.png" for i in range(3)]), np.stack(values))


def test_loose_files_of_two_sizes_need_a_size(tmp_path, draw):
    draw(tmp_path / "a.png", (8, 8))
    draw(tmp_path / "b.png", (9, 8))
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    with pytest.raises(ValueError, match=r"b\.png is 9×8.*size="):
        read_images(paths)
    assert read_images(paths, size=5).shape == (2, 5, 5)


def test_no_files_at_all_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        read_images([])


def test_arrays_are_brought_to_size_and_grey_like_files(tmp_path, draw):
    values = draw(tmp_path / "a.png", (12, 8, 3))
    np.testing.assert_allclose(
        conform(values[None], (4, 4), color=False)[0], decode(tmp_path / "a.png", size=4), atol=1
    )


def test_float_arrays_are_averaged_without_rounding():
    images = np.arange(16.0).reshape(1, 4, 4)
    np.testing.assert_allclose(conform(images, (2, 2), color=False)[0], [[2.5, 4.5], [10.5, 12.5]])


def test_grey_arrays_asked_for_in_colour_have_three_equal_channels(rng):
    images = conform(rng.random((2, 4, 4)), None, color=True)
    assert images.shape == (2, 4, 4, 3)
    np.testing.assert_array_equal(images[..., 0], images[..., 2])
