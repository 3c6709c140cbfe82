"""`dcadl explain`: a picture of the reasons."""

from __future__ import annotations

from PIL import Image


def test_a_picture_is_written_and_the_label_said(call, tmp_path, model, folder):
    pictures = sorted(folder.rglob("*.png"))[:2]

    result = call("explain", model, *pictures, "-o", tmp_path / "why.png")

    assert result.exit_code == 0, result.output
    assert f"{pictures[0]}: across, " in result.stdout.replace("\n", "")
    with Image.open(tmp_path / "why.png") as picture:
        assert picture.height > 300


def test_many_pictures_are_refused(refused, tmp_path, model, folder):
    assert "at most 12 pictures" in refused("explain", model, folder, "-o", tmp_path / "why.png")


def test_a_picture_that_is_explained_is_never_overwritten(refused, model, folder):
    picture = next(folder.rglob("*.png"))

    assert "would overwrite" in refused("explain", model, picture, "-o", picture)
