"""From outside: names with power over terminals and markup, sizes beyond limits, places not writable."""

import json
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from dcadl.cli.terminal import cell, printable

EVIL = "\x1b[31mred\x07[bold]b[/bold]\u202egpj"


@pytest.fixture
def evil_folder(tmp_path, arrays):
    """Two classes, one with a name that would colour, ring and turn the reading."""
    root = tmp_path / "evil"
    for i, (image, label) in enumerate(zip(*arrays)):
        name = EVIL if label == "across" else label
        (root / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(root / name / f"{i:02}.png")
    return root


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [b] ü 漢", "plain [b] ü 漢"),
        ("\x1b[2J", "\\u001b[2J"),
        ("a\rb\x08", "a\\u000db\\u0008"),
        ("\x9b31m", "\\u009b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("\udcff.png", "\\udcff.png"),
        ("one\ntwo\tthree", "one\ntwo\tthree"),
    ],
)
def test_what_has_power_over_a_terminal_is_written_out(text, shown):
    assert printable(text) == shown
    assert cell(text).plain == shown


def test_json_stays_the_same_json():
    assert json.loads(printable(json.dumps(EVIL, ensure_ascii=False))) == EVIL


def test_no_command_lets_a_class_name_through(call, evil_folder, tmp_path):
    model = tmp_path / "m.safetensors"
    few = ("--patch", 6, "--atoms", 4, "--param", "max_iter=2", "--param", "tol=0")
    results = [
        call("fit", evil_folder, "-o", model, *few),
        call("info", model),
        call("info", model, "--json"),
        call("evaluate", model, evil_folder),
        call("evaluate", model, evil_folder, "--json"),
        call("predict", model, *sorted(evil_folder.rglob("*.png"))[:2]),
        call("predict", model, *sorted(evil_folder.rglob("*.png"))[:2], "--json"),
        call("data", "check", evil_folder),
        call("fit", evil_folder / EVIL, "-o", model),
    ]
    shown = "".join(result.stdout + result.stderr for result in results)

    assert [result.exit_code for result in results] == [0] * 8 + [2]
    assert not set(shown) & set("\x1b\x07\u202e")
    assert "[bold]b[/bold]" in shown  # no markup either


def test_a_picture_beyond_the_limit_is_refused_with_the_option_that_allows_it(refused, model, folder):
    line = refused("predict", model, next(folder.rglob("*.png")), "--max-pixels", 100)

    assert "at most 100 pixels; got 12×12" in line
    assert "--max-pixels" in line


def test_arrays_beyond_the_limit_are_refused_with_the_option_that_allows_them(refused, tmp_path, arrays):
    np.savez(tmp_path / "a.npz", images=arrays[0], labels=arrays[1])

    line = refused("fit", tmp_path / "a.npz", "-o", tmp_path / "m", "--max-bytes", 1000)

    assert "more than the limit of 1000" in line
    assert "--max-bytes" in line


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "{data}", "-o", "{file}/m"),
        ("evaluate", "{model}", "{data}", "--plot", "{file}/p.png"),
        ("features", "{data}", "-o", "{file}/f.npz", "--per-class", "3"),
        ("bench", "digits", "-o", "{file}/r.jsonl"),
        ("tune", "digits", "-o", "{file}/t.toml"),
    ],
    ids=lambda words: words[0],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_work(refused, model, folder, tmp_path, words):
    (tmp_path / "file").touch()
    places = {"data": folder, "model": model, "file": tmp_path / "file"}

    assert str(tmp_path / "file") in refused(*(word.format(**places) for word in words))


def test_an_output_in_a_read_only_place_is_refused_before_the_work(refused, folder, tmp_path, monkeypatch):
    def deny(path):
        raise PermissionError(13, "Permission denied", str(path))

    module = sys.modules["dcadl.cli.fit"]  # the package has a command of that name
    monkeypatch.setattr(module, "check_writable", deny)
    monkeypatch.setattr(module, "read_data", lambda *_, **__: pytest.fail("data was read first"))

    assert "Permission denied" in refused("fit", folder, "-o", tmp_path / "m")


@pytest.fixture
def full_disk():
    """No file may have more than a hundred bytes."""
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    @contextmanager
    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return full


@pytest.mark.parametrize(
    "words",
    [
        ("show", "{model}", "-o", "{out}"),
        ("explain", "{model}", "{picture}", "-o", "{out}"),
        ("evaluate", "{model}", "{data}", "--plot", "{out}"),
        ("export", "{model}", "--c", "{out}"),
        ("card", "{model}", "-o", "{out}.md"),
        ("predict", "{model}", "{data}", "-o", "{out}.csv"),
        ("predict", "{model}", "{picture}", "--sort-into", "{folder}"),
    ],
    ids=lambda words: words[0],
)
def test_a_full_disk_is_said_with_the_file_and_leaves_nothing(
    refused, full_disk, model, folder, tmp_path, words
):
    picture = max(folder.rglob("*.png"), key=lambda path: path.stat().st_size)
    (tmp_path / "big").mkdir()
    out = {"out": tmp_path / "big" / "a.png", "folder": tmp_path / "big"}
    places = {"model": model, "data": folder, "picture": picture, **out}
    typed = [word.format(**places) for word in words]
    with full_disk():
        line = refused(*typed)

    assert str(tmp_path / "big") in line
    assert [path for path in (tmp_path / "big").rglob("*") if path.is_file()] == []
