"""A run that was broken off goes on: which one, whether it is the same, and nothing lost meanwhile."""

import json
import os
import resource
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.compare import COMPARE, Ending, compare
from bench.endpoint import StrictEndpoint
from bench.lab.ab import Pair, kind_of
from bench.plan import Order
from bench.recordings import Recorder, Recording
from bench.records import RunFolder, json_lines, list_runs
from bench.resume import find_changes, note_resumed, tell_of_unfinished
from bench.status import MISTAKE, OK, Interrupted
from bench.types import WorkbenchError


def answer(handler):
    """Play a model that answers everything at once, in the form that it was asked for."""
    native = "tools" in handler.server.endpoint.requests[-1]
    text = "I can't say." if native else "Thought: so.\nFinal Answer: I can't say."
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    handler.send(200, json.dumps({"choices": [{**choice, "finish_reason": "stop"}]}))


@pytest.fixture
def bench(endpoint, capsys, tmp_path):
    """Run a command on few tasks; give its status, its output and its complaints."""
    endpoint.answers = [answer]

    def go(*words):
        status = main([*words, "--results", str(tmp_path / "runs")])
        out, err = capsys.readouterr()
        return status, out, err

    return go


QUICK = replace(COMPARE, end=lambda _: Ending("", ()))
"""A comparison that draws no report, which takes more time than all the rest."""


@pytest.fixture
def run(endpoint, tmp_path):
    """Run a comparison, or go on with the newest run; give its status."""
    endpoint.answers = [answer]

    def go(resume=None, record=None, kind=QUICK, **values):
        here = {} if resume else {"model": "m", "base_url": endpoint.base_url, "limit": 2}
        order = Order(tmp_path / "runs", yes=True, resume=resume, record=record)
        return compare({**here, **values}, order, kind)

    return go


@pytest.fixture
def done(run, endpoint, tmp_path):
    """Give a finished run of two tasks, both ways; nobody has been asked since."""
    assert run() == OK
    endpoint.requests.clear()
    return the_run(tmp_path)


def the_run(tmp_path):
    return RunFolder(list_runs(tmp_path / "runs")[-1])


def break_off(run, keep=None):
    """Leave a run as a kill would have left it: `keep` whole lines, and a part of the next."""
    path = run.path / "episodes.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    if keep is not None:
        path.write_bytes(b"".join(lines[:keep]) + lines[keep][:40])
    run.write_manifest({**run.manifest, "finished": None})


def keys(run):
    return sorted((line["task_id"], line["driver"]) for line in run.lines())


# ------------------------------------------------------------ which run


def make_run(root, name, **manifest):
    path = root / name
    path.mkdir(parents=True)
    (path / "episodes.jsonl").touch()
    (path / "manifest.json").write_text(json.dumps({"format": 1, **manifest}))
    return path


def test_the_newest_run_is_the_one_begun_last_whatever_was_written_since(tmp_path):
    begun = ["20260101T000001-compare", "20260101T000002-compare", "20260101T000003-exercise-all"]
    paths = [make_run(tmp_path, name) for name in reversed(begun)]
    os.utime(paths[-1])
    assert [path.name for path in list_runs(tmp_path)] == begun
    assert RunFolder.find(tmp_path, "latest").path == paths[0]


LEFT = {
    "nothing in it": None,
    "a half-written manifest": '{"format": 1, "exp',
    "an empty manifest": "",
    "deep nesting": "[" * 100_000,
    "no object": "3",
}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_a_folder_without_a_manifest_is_passed_over(tmp_path, bench, text):
    run = make_run(tmp_path / "runs", "20260101T000001-compare", experiment="compare")
    broken = tmp_path / "runs" / "20260101T000002-compare"
    broken.mkdir()
    if text is not None:
        (broken / "manifest.json").write_text(text)
    assert RunFolder.find(tmp_path / "runs", "latest").path == run
    status, out, err = bench("list")
    assert (status, err) == (OK, "")
    assert f"unfinished: compare --resume {run.name}" in out
    assert tell_of_unfinished(tmp_path / "runs", "compare") == (
        f"{run.name} is unfinished; --resume {run.name} goes on with it"
    )


UNFINISHED = {
    "the newest": ({}, True),
    "a finished one": ({"finished": "x"}, False),
    "one of another experiment": ({"experiment": "exercise-loop"}, False),
    "one that was rescored": ({"rescored": {"from": "x"}}, False),
}


@pytest.mark.parametrize(("manifest", "told"), UNFINISHED.values(), ids=UNFINISHED)
def test_an_unfinished_run_of_this_experiment_is_told(tmp_path, manifest, told):
    make_run(tmp_path, "20260101T000001-compare", **{"experiment": "compare", **manifest})
    make_run(tmp_path, "20260101T000002-ab", experiment="ab")
    assert bool(tell_of_unfinished(tmp_path, "compare")) is told


def test_a_run_that_is_being_written_is_not_told(tmp_path):
    run = RunFolder.create(tmp_path, "compare", {"format": 1, "experiment": "compare"})
    assert run.held
    assert tell_of_unfinished(tmp_path, "compare") is None
    run.close()
    assert not run.held
    assert tell_of_unfinished(tmp_path, "compare")


OTHERS = {
    "an exercise": ({"experiment": "exercise-two-tools"}, "python -m bench exercise two-tools"),
    "descriptions": ({"experiment": "descriptions"}, "python -m bench descriptions"),
    "ab": ({"experiment": "ab"}, "python -m bench ab OLD NEW"),
    "what was rescored": ({"experiment": "compare", "rescored": {"from": "r"}}, "--resume r"),
}


@pytest.mark.parametrize(("manifest", "told"), OTHERS.values(), ids=OTHERS)
def test_a_run_of_another_kind_names_the_command_that_goes_on(bench, tmp_path, manifest, told):
    make_run(tmp_path / "runs", "20260101T000001-x", **manifest)
    status, _, err = bench("compare", "--resume", "latest")
    assert status == MISTAKE
    assert told in err
    assert err.count("\n") == 1


def test_ab_says_how_it_goes_on_with_all_that_must_be_said_again():
    pair = Pair((Path("an old.json"), Path("new.json")), None, None, ())
    assert kind_of(pair, "t.csv").command == "ab 'an old.json' new.json --tasks t.csv"


# ------------------------------------------------------------ the same run

CHANGES = {
    "a value": ({"t": 0}, {"t": 1}, "settings.t changed since it was begun: was 0, is 1"),
    "a new one": ({}, {"t": 1}, "settings.t changed since it was begun: was not there, is 1"),
    "deeper": (
        {"a": {"b": [1]}},
        {"a": {"b": [2]}},
        "settings.a.b changed since it was begun: now ",
    ),
    "less": ({"a": ["x", "y"]}, {"a": ["y"]}, 'now without "x"'),
    "more": ({"a": ["x"]}, {"a": ["x", "y"]}, 'now with "y"'),
    "both": ({"a": ["x"]}, {"a": ["y"]}, 'now without "x" and with "y"'),
    "order": ({"a": ["x", "y"]}, {"a": ["y", "x"]}, "now in another order"),
    "long": ({"a": "x" * 10_000}, {"a": list(range(10_000))}, "is [0, 1, 2"),
}


@pytest.mark.parametrize(("before", "after", "told"), CHANGES.values(), ids=CHANGES)
def test_what_changed_is_told_with_both_values_in_a_line(before, after, told):
    [change] = find_changes("settings", before, after)
    assert told in change
    assert len(change) < 300


def test_what_is_equal_is_no_change():
    assert not list(find_changes("x", {"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}))


SPOILT = {
    "the settings": ("settings", lambda had: {**had, "temperature": 0.5}, "was 0.5, is 0"),
    "the tasks": ("tasks", lambda had: [*had, "gone-en"], 'without "gone-en"'),
    "the data": (
        "datasets",
        lambda had: {**had, "tasks/old.jsonl": "01"},
        'was "01", is not there',
    ),
    "an endpoint": ("endpoints", lambda had: [{**had[0], "model": "n"}], 'was "n", is "m"'),
    "the number of endpoints": (
        "endpoints",
        lambda _: [],
        "endpoints.m changed since it was begun",
    ),
}


@pytest.mark.parametrize(("name", "change", "told"), SPOILT.values(), ids=SPOILT)
def test_a_run_whose_configuration_changed_says_how(run, done, endpoint, name, change, told):
    before = (done.path / "episodes.jsonl").read_bytes()
    had = done.manifest
    done.write_manifest({**had, "finished": None, name: change(had[name])})
    with pytest.raises(WorkbenchError) as raised:
        run("latest")
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    assert endpoint.requests == []
    assert (done.path / "episodes.jsonl").read_bytes() == before


def test_another_version_is_noted_and_every_start_is_kept():
    manifest = note_resumed({"version": "0.0.1", "git": None, "finished": "x", "notes": ["n"]}, "c")
    assert manifest["finished"] is None
    assert manifest["resumed"][0]["command"] == "c"
    assert manifest["notes"][0] == "n"
    assert "Begun with version 0.0.1, gone on with version" in manifest["notes"][1]
    again = note_resumed(manifest, "c")
    assert (len(again["resumed"]), again["notes"]) == (2, manifest["notes"])


# ------------------------------------------------------------ killed, wherever it was


def test_what_is_kept_is_counted_and_the_manifest_holds_the_whole_run(run, done, capsys):
    before, stops = keys(done), done.manifest["stops"]
    break_off(done, 1)
    assert run("latest") == OK
    err = capsys.readouterr().err
    assert "1 of 4 episodes are kept" in err
    assert "a half-written last line (40 bytes) was dropped" in err
    assert keys(done) == before
    assert done.manifest["stops"] == stops == {"answered": 4}
    assert len((done.path / "episodes.jsonl").read_bytes().splitlines()) == 4


def test_a_run_killed_before_its_first_line_goes_on(run, done):
    break_off(done)
    (done.path / "episodes.jsonl").write_bytes(b"")
    assert run("latest") == OK
    assert len(keys(done)) == 4


def end_with(error):
    def end(_):
        raise error

    return replace(COMPARE, end=end)


ENDS = {
    "Ctrl-C": (KeyboardInterrupt(), Interrupted),
    "a full disk": (OSError(28, "No space left on device"), WorkbenchError),
    "a report that can't be written": (WorkbenchError("no report"), WorkbenchError),
}


@pytest.mark.parametrize(("error", "told"), ENDS.values(), ids=ENDS)
def test_a_run_stopped_while_its_report_is_written_is_not_finished(run, tmp_path, error, told):
    with pytest.raises(told, match="--resume"):
        run(kind=end_with(error))
    made = the_run(tmp_path)
    assert (made.manifest["finished"], made.held) == (None, False)
    assert len(keys(made)) == 4
    assert run("latest") == OK
    assert made.manifest["finished"]


def test_a_report_that_was_not_written_is_and_says_when_the_run_ended(bench, done):
    break_off(done)
    status, out, _ = bench("compare", "--resume", "latest", "--yes")
    assert status == OK
    assert str(done.path / "report.md") in out
    report = (done.path / "report.md").read_text()
    assert done.manifest["finished"] in report
    assert bench("report", "latest")[0] == OK
    assert (done.path / "report.md").read_text() == report


def test_a_second_process_is_refused_before_it_asks_anybody(run, done, endpoint):
    break_off(done, 2)
    done.resume()
    with pytest.raises(WorkbenchError, match="another process is writing to this run"):
        run("latest")
    assert endpoint.requests == []
    done.close()
    assert run("latest") == OK


def test_a_dry_run_of_a_run_that_goes_on_changes_nothing(bench, done):
    break_off(done, 2)
    before = [path.read_bytes() for path in sorted(done.path.glob("*.json*"))]
    status, _, err = bench("compare", "--resume", "latest", "--dry-run")
    assert status == OK
    assert "2 episodes: 2 tasks" in err
    assert [path.read_bytes() for path in sorted(done.path.glob("*.json*"))] == before


# ------------------------------------------------------------ a full disk


@contextmanager
def files_no_longer_than(size):
    """Let the system refuse, as a full disk does, what makes a file longer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_within_a_line_loses_no_other(tmp_path):
    run = RunFolder.create(tmp_path, "x", {"format": 1})
    run.append_line({"n": 1})
    with files_no_longer_than(12), pytest.raises(WorkbenchError, match="can't be written"):
        run.append_line({"n": 2})
    with pytest.raises(WorkbenchError, match="can't be written"):
        run.append_line({"n": 3})
    run.close()
    path = run.path / "episodes.jsonl"
    assert path.read_bytes() == b'{"n":1}\n{"n"'
    assert list(json_lines(path)) == [{"n": 1}]
    assert run.resume() == 4
    run.append_line({"n": 2})
    run.close()
    assert list(json_lines(path)) == [{"n": 1}, {"n": 2}]


def test_a_run_on_a_full_disk_ends_in_one_line_and_goes_on(run, bench, tmp_path):
    run(limit=16)
    made = the_run(tmp_path)
    size = (made.path / "episodes.jsonl").stat().st_size
    break_off(made, 4)
    with files_no_longer_than(size - 3000):
        status, _, err = bench("compare", "--resume", "latest", "--yes")
    assert status == MISTAKE
    told = err.splitlines()[-1]
    assert "can't be written (File too large); what was finished is kept" in told
    assert f"go on with: python -m bench compare --resume {made.path}" in told
    assert 4 < len(keys(made)) < 32
    assert run("latest") == OK
    assert len(keys(made)) == len(set(keys(made))) == 32


def test_what_power_left_of_a_last_line_is_dropped(tmp_path):
    run = RunFolder.create(tmp_path, "x", {"format": 1})
    run.append_line({"n": 1})
    run.close()
    with (run.path / "episodes.jsonl").open("ab") as file:
        file.write(b"\0" * 70_000 + b"\n\0\0")
    assert run.resume() == 70_003
    run.close()
    assert list(json_lines(run.path / "episodes.jsonl")) == [{"n": 1}]


# ------------------------------------------------------------ what is recorded meanwhile


def test_a_run_that_was_recorded_goes_on_recording(run, endpoint, tmp_path):
    file = tmp_path / "r.jsonl.gz"
    run(record=file)
    made = the_run(tmp_path)
    break_off(made, 1)
    endpoint.requests.clear()
    assert run("latest") == OK
    assert len(endpoint.requests) == 1, "the first question alone: the rest was recorded"
    assert len(keys(made)) == len(Recording.read(file).steps) == 4
    file.unlink()
    break_off(made, 1)
    assert run("latest") == OK
    assert not file.exists()


def test_a_finished_run_leaves_its_recording_alone(run, tmp_path, capsys):
    file = tmp_path / "r.jsonl"
    run(record=file)
    before = file.read_bytes()
    assert run("latest") == OK
    assert "nothing left to do" in capsys.readouterr().out
    assert file.read_bytes() == before


HEAD = {"format": 1, "endpoint": "e", "model": "m", "settings": {}}


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_a_second_recorder_is_refused_and_harms_nothing(tmp_path, name):
    path = tmp_path / name
    first = Recorder(path, HEAD)
    before = path.read_bytes()
    with pytest.raises(WorkbenchError, match="another process"):
        Recorder(path, HEAD)
    assert path.read_bytes() == before
    first.close()
    Recorder(path, HEAD).close()


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
@pytest.mark.parametrize("cut", [0, 5, 12, 30])
def test_a_recording_of_which_there_is_only_a_beginning_is_begun_again(tmp_path, name, cut):
    path = tmp_path / name
    Recorder(path, HEAD).close()
    path.write_bytes(path.read_bytes()[:cut])
    Recorder(path, HEAD).close()
    assert Recording.read(path).manifest == HEAD


def test_a_file_that_is_no_recording_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(WorkbenchError, match="not a recording"):
        Recorder(path, HEAD)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_a_recording_on_a_full_disk_keeps_what_it_has(tmp_path, name):
    path = tmp_path / name
    recorder = Recorder(path, HEAD)
    recorder._write({"type": "part", "hash": "a", "value": 1})
    with files_no_longer_than(path.stat().st_size + 5):
        for _ in range(2):
            with pytest.raises(WorkbenchError, match="what was recorded is kept"):
                recorder._write({"type": "part", "hash": "b", "value": os.urandom(40).hex()})
    recorder.close()
    Recorder(path, HEAD).close()
    assert Recording.read(path).parts["a"] == 1


# ------------------------------------------------------------ experiments on the wire


def ask_strict(bench, endpoint, name, *words):
    here = ("--model", "m", "--base-url", endpoint.base_url, "--profile", "openai", "--yes")
    return bench(name, "--count", "2", *here, *words)


@pytest.mark.parametrize("name", ["pairing", "choice", "streaming"])
def test_an_experiment_on_the_wire_goes_on_from_its_replies(bench, tmp_path, name):
    with StrictEndpoint("openai") as strict:
        assert ask_strict(bench, strict, name)[0] == OK
        run = the_run(tmp_path)
        lines = (run.path / "trials.jsonl").read_bytes()
        report = (run.path / "report.md").read_text()
        replies = run.path / "replies-1.jsonl.gz"
        whole = len(Recording.read(replies).steps)
        replies.write_bytes(replies.read_bytes()[: replies.stat().st_size * 9 // 10])
        left = whole - len(Recording.read(replies).steps)
        (run.path / "trials.jsonl").write_bytes(lines[:50])
        run.write_manifest({**run.manifest, "finished": None})
        asked = len(strict.requests)
        status, _, err = bench(name, "--resume", "latest", "--yes")
        assert status == OK
        assert "half-written" in err
        assert len(strict.requests) - asked == 1 + left
        assert 0 < left < whole
    assert (run.path / "trials.jsonl").read_bytes().count(b"\n") == lines.count(b"\n")
    assert run.manifest["finished"]
    assert (run.path / "report.md").read_text().splitlines()[0] == report.splitlines()[0]
    status, out, _ = bench(name, "--resume", "latest")
    assert (status, "nothing left to do" in out) == (OK, True)


def test_an_experiment_of_another_size_does_not_go_on(bench, tmp_path):
    assert bench("pairing", "--profile", "openai", "--count", "1")[0] == OK
    run = the_run(tmp_path)
    run.write_manifest({**run.manifest, "finished": None})
    status, _, err = bench("pairing", "--resume", "latest", "--count", "2")
    assert status == MISTAKE
    assert "count changed since it was begun: was 1, is 2" in err
    assert (
        f"{run.path.name} is unfinished" in bench("pairing", "--profile", "glm", "--count", "1")[2]
    )
    assert bench("pairing", "--resume", str(run.path))[0] == OK
    assert Path(run.path / "report.md").is_file()
