"""`dcadl bench`, `tune` and `report` as processes: killed in the middle, started again, shown."""

import os
import signal
import subprocess
import sys
import time

import pytest

from dcadl.bench import records
from dcadl.bench.settings import read_tuned
from dcadl.cli.bench import _present

COMMAND = [sys.executable, "-m", "dcadl.cli"]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _dcadl(*words):
    return subprocess.run(
        [*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=600, env=ONE_THREAD
    )


def _until(condition, process):
    end = time.monotonic() + 300
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)


def _lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _size(group):
    """Processes in a group."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return sum(_group(pid) == group for pid in pids)


def _group(pid):
    try:
        return os.getpgid(pid)
    except ProcessLookupError:  # it has ended in the meantime
        return None


def _all_end(group):
    """Whether all processes of a group come to their end in a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


# the command as it is, but it waits once two records are written, so that the signal meets it there
STOPPED = """
import sys
from threading import Event
from dcadl.bench import records
from dcadl.cli import app

append, written = records.append, []

def waiting(path, record):
    append(path, record)
    written.append(record)
    if len(written) == 2:
        print("here", flush=True)
        Event().wait()

records.append = waiting
app(sys.argv[1:])
"""


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_stopped_benchmark_goes_on_with_nothing_lost_or_run_twice(tmp_path, stop, jobs):
    path = tmp_path / "records.jsonl"
    words = ["bench", "digits", "-m", "DCADL", "-m", "PatchRidge", "--repeats", 4, "--threads", 1, "-o", path]
    words += ["--jobs", jobs]
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, *map(str, words)],
        env=ONE_THREAD,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert "here\n" in process.stdout
    process.send_signal(stop)
    process.communicate()
    before = path.read_bytes()
    assert _all_end(process.pid)

    again = _dcadl(*words)

    found = records.read(path)
    keys = [(r["label"], r["seed"]) for r in found]
    assert before.count(b"\n") == 2
    assert again.returncode == 0, again.stderr
    assert sorted(keys) == sorted((label, seed) for label in ("DCADL", "PatchRidge") for seed in range(4))
    assert path.read_bytes().startswith(before[: before.rfind(b"\n") + 1])


def test_searches_end_with_the_command_that_began_them(tmp_path):
    words = ["tune", "digits", "-m", "SADL", "--jobs", 2, "--budget", 60, "-o", tmp_path / "tuned.toml"]
    process = subprocess.Popen([*COMMAND, *map(str, words)], env=ONE_THREAD, start_new_session=True)
    _until(lambda: _size(process.pid) >= 5, process)  # the command, the server and its helper, two searches
    process.kill()
    process.wait()

    assert _all_end(process.pid)


def test_two_methods_and_two_seeds_become_a_report(call, tmp_path):
    path = tmp_path / "records.jsonl"
    call(
        "bench", "digits", "-m", "RandomAtoms", "-m", "patchridge", "--repeats", 2, "--threads", 1, "-o", path
    )

    result = call("report", path, "-o", tmp_path / "report")

    assert result.stdout.split() == [str(tmp_path / "report" / name) for name in ("tables.md", "index.html")]
    assert "| Patch ridge ‡ |" in (tmp_path / "report" / "tables.md").read_text()


def test_what_tune_wrote_bench_reads(call, tmp_path):
    path, tuned = tmp_path / "records.jsonl", tmp_path / "tuned.toml"
    few = ("digits", "-m", "PatchRidge", "--repeats", 1, "--threads", 1)
    told = call("tune", *few, "--budget", 0.1, "--folds", 3, "-o", tuned)

    call("bench", *few, "--tuned", tuned, "-o", path)

    chosen = read_tuned(tuned)["digits"]["PatchRidge"]["seed0"]
    (record,) = records.read(path)
    assert "PatchRidge seed 0" in told.stderr
    assert chosen.items() <= record["params"].items()
    assert record["source"] == "tuned"


def test_a_search_that_fails_is_not_a_success(call, tmp_path):
    result = call("tune", "digits", "-m", "PatchRidge", "--repeats", 1, "--folds", 1000, "-o", tmp_path / "t")

    assert result.exit_code == 2
    assert "failed: ValueError" in result.stderr
    assert "1 searches failed" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_run_tried_again_is_counted_once(call, tmp_path):
    path, tuned = tmp_path / "records.jsonl", tmp_path / "tuned.toml"
    tuned.write_text('[tuned.digits."PatchRidge"]\nseed0 = { lam = -1.0 }\n')
    words = (
        "bench",
        "digits",
        "-m",
        "PatchRidge",
        "--repeats",
        1,
        "--threads",
        1,
        "--tuned",
        tuned,
        "-o",
        path,
    )
    for _ in range(2):
        result = call(*words, "--retry-failed")

    assert len(records.read(path)) == 2
    assert result.exit_code == 1
    shown = " ".join(result.stderr.split())  # a long line is wrapped, not cut
    assert "0/1" in shown  # a run that failed is not done
    assert "1 failed: ValueError: lam must be a number of more than 0; got -1.0." in shown
    assert "error: 1 runs failed" in shown


def test_a_report_does_not_write_over_what_it_is_made_of(call, tmp_path):
    path = tmp_path / "tables.md"
    call("bench", "digits", "-m", "PatchRidge", "--repeats", 1, "--threads", 1, "-o", path)
    before = path.read_bytes()

    result = call("report", path, "-o", tmp_path)

    assert result.exit_code == 2
    assert "would overwrite RECORDS" in result.stderr
    assert path.read_bytes() == before


def test_ctrl_c_while_processes_start_is_one_line(tmp_path):
    words = ["bench", "digits", "-m", "ADLSVM", "--threads", 1, "-o", tmp_path / "records.jsonl"]
    process = subprocess.Popen(
        [*COMMAND, *map(str, words)],
        env=ONE_THREAD,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _until(lambda: _size(process.pid) > 1, process)  # the server of its processes imports the library
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=120)

    assert process.returncode == 130
    assert told.splitlines()[-1] == "interrupted"
    assert "Traceback" not in told


def test_all_means_the_data_sets_whose_files_are_here(monkeypatch, capsys):
    monkeypatch.delenv("DCADL_DATA", raising=False)

    assert _present(["all"]) == ["digits"]
    assert "scene15 was not found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bench", "nowhere"), "data set must be one of"),
        (("bench", "digits", "-m", "nobody"), "methods of digits must be among"),
        (("bench", "digits", "-o", "nowhere/records.jsonl"), "folder of --output"),
        (("bench", "digits", "--tuned", "nowhere.toml"), "cannot be read"),
        (("report", "nowhere.jsonl"), "no records"),
        (("tune", "digits", "-m", "nobody"), "methods of digits must be among"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else None,
)
def test_bad_words_are_refused_in_one_line(call, words, message):
    result = call(*words)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
