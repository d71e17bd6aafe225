"""What is written comes back, whole lines only, and nobody writes twice."""

import json
from dataclasses import replace

import jsonschema_rs
import pytest

from bench.paths import find_datasets
from bench.recordings import Recording, write_lines
from bench.records import (
    RunFolder,
    dump_line,
    episode_from_json,
    episode_to_json,
    hash_of,
    key_of,
    list_runs,
    now,
)
from bench.types import Attempt, Episode, Reply, ToolResult, Turn, Usage, WorkbenchError
from parsers import Call, Dropped, Failure, Reading, Repair

REPLY = Reply(
    status=200,
    headers={"content-type": "application/json"},
    body='{"choices": []}',
    usage=Usage(10, 2, 0, None),
    first_token=0.5,
    seconds=1.25,
    attempts=(Attempt("rate_limited", 429, 0.5),),
    model="m",
    fingerprint="f",
)
BAD = Failure("bad_arguments_syntax", "x", "not JSON", 3, "calls[1].arguments")
READINGS = {
    "a call": Reading("I look", (Call("add", {"a": 1, "b": None}, "c1", '{"a": 1}'),)),
    "an answer": Reading(final="25", repairs=(Repair("unlabelled_final", 0),)),
    "an empty answer": Reading(final=""),
    "a failure": Reading(failure=BAD, calls=(Call("add", None, "c1", "{", BAD),)),
    "something dropped": Reading(final="x", dropped=(Dropped(1, 2, "observation"),)),
    "nothing": Reading(),
}
RESULT = ToolResult("c1", "add", {"a": 1}, '{"sum": 1}', leave="flag", seconds=0.1)


def make_episode(reading=READINGS["a call"], **changes):
    turn = Turn(({"role": "user", "content": "hi\u2028 你好"},), REPLY, reading, (RESULT,), True)
    episode = Episode(
        task_id="t-en",
        pair="t",
        lang="en",
        category="single",
        driver="react",
        dialect="json",
        endpoint="here",
        model="m",
        variant="full",
        trial=0,
        level="hardened",
        stop="answered",
        turns=(turn, Turn((), Reply(0, {}, "connection: x"), reading)),
        seconds=1.25,
    )
    return replace(episode, **changes)


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_an_episode_comes_back_from_its_line(reading):
    episode = make_episode(reading)
    line = json.loads(dump_line(episode_to_json(episode, {"success": 1})))
    assert episode_from_json(line) == episode
    assert line["score"] == {"success": 1}


def test_a_native_episode_comes_back():
    episode = make_episode(driver="native", dialect=None)
    line = episode_to_json(episode)
    assert line["dialect"] == ""
    assert episode_from_json(line) == episode


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_a_line_fits_its_schema(reading):
    schema = json.loads((find_datasets() / "schema" / "episode.json").read_text())
    line = json.loads(dump_line(episode_to_json(make_episode(reading), {"success": 1})))
    jsonschema_rs.validator_for(schema).validate(line)


def test_the_top_level_is_text_and_numbers():
    line = episode_to_json(make_episode(driver="native", dialect=None))
    rest = {name: value for name, value in line.items() if name not in ("turns", "score")}
    assert all(type(value) in (str, int, float) for value in rest.values())


def test_a_lone_surrogate_is_written_and_comes_back():
    line = dump_line({"text": "\ud83d"})
    assert json.loads(line) == {"text": "\ud83d"}


def test_a_hash_rests_on_the_value_alone():
    assert hash_of({"b": 1, "a": ("x", 2)}) == hash_of({"a": ["x", 2], "b": 1})
    assert hash_of({"a": 1}) != hash_of({"a": "1"})


def test_the_clock_can_be_stopped(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert now() == "1970-01-01T00:00:00Z"


# ------------------------------------------------------------ run folders


@pytest.fixture
def folder(tmp_path):
    run = RunFolder.create(tmp_path, "compare", {"format": 1, "finished": None})
    yield run
    run.close()


def test_a_run_keeps_its_episodes(folder):
    folder.append(make_episode(), {"success": 1})
    folder.append(make_episode(trial=1))
    assert [episode.trial for episode in folder.episodes()] == [0, 1]
    assert [line["score"] for line in folder.lines()] == [{"success": 1}, None]


def test_a_line_can_be_read_when_append_returns(folder):
    folder.append(make_episode())
    assert (folder.path / "episodes.jsonl").read_bytes().count(b"\n") == 1


def test_the_end_is_noted(folder):
    folder.finish(stops={"answered": 1})
    assert folder.manifest["stops"] == {"answered": 1}
    assert folder.manifest["finished"]


def test_of_an_episode_written_twice_the_last_counts(folder):
    folder.append(make_episode(stop="endpoint"))
    folder.append(make_episode(trial=1))
    folder.append(make_episode(stop="answered"))
    assert [(e.trial, e.stop) for e in folder.episodes()] == [(1, "answered"), (0, "answered")]


def test_a_half_written_line_is_passed_over_and_then_dropped(folder):
    folder.append(make_episode())
    folder.close()
    path = folder.path / "episodes.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"task_id": "ha')
    again = RunFolder(folder.path)
    assert len(list(again.episodes())) == 1
    assert again.resume() == 15
    again.append(make_episode(trial=1))
    again.close()
    assert len(list(again.episodes())) == 2
    assert path.read_bytes().startswith(whole)


def test_a_second_process_is_kept_out(folder):
    with pytest.raises(WorkbenchError, match="another process"):
        RunFolder(folder.path).resume()


def test_two_runs_of_one_second_have_two_folders(tmp_path):
    runs = [RunFolder.create(tmp_path, "compare", {"format": 1}) for _ in range(3)]
    assert len({run.path for run in runs}) == 3
    assert len(list_runs(tmp_path)) == 3
    for run in runs:
        run.close()


def test_a_run_is_found_by_name_path_and_as_the_latest(folder, tmp_path):
    for name in (folder.path.name, str(folder.path), "latest"):
        assert RunFolder.find(tmp_path, name).path == folder.path


def spoil_manifest(folder, text):
    (folder.path / "manifest.json").write_text(text)
    return folder


MISTAKES = {
    "no such run": lambda f: RunFolder.find(f.path.parent, "nowhere"),
    "no run at all": lambda f: RunFolder.find(f.path, "latest"),
    "results that are a file": lambda f: RunFolder.create(f.path / "manifest.json", "x", {}),
    "a manifest that is no JSON": lambda f: spoil_manifest(f, "{").manifest,
    "a manifest of a later version": lambda f: spoil_manifest(f, '{"format": 9}').manifest,
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_in_one_line(folder, mistake):
    with pytest.raises(WorkbenchError) as caught:
        mistake(folder)
    assert "\n" not in str(caught.value)


def test_keys_tell_episodes_apart():
    changes = [
        {},
        {"trial": 1},
        {"driver": "native", "dialect": None},
        {"dialect": "call"},
        {"level": "rescue"},
        {"endpoint": "there"},
        {"variant": "name"},
        {"task_id": "t-zh"},
    ]
    keys = {key_of(episode_to_json(make_episode(**change))) for change in changes}
    assert len(keys) == len(changes)


# ------------------------------------------------------------ hostile recordings

HEAD = {"type": "manifest", "format": 1, "endpoint": "e", "model": "m", "settings": {}}
REFUSED = {
    "a part without a hash": {"type": "part"},
    "a step without a reply": {"type": "step", "task_id": "t"},
    "a reply that is a list": {"type": "step", "reply": []},
    "an unknown kind of line": {"type": "other"},
    "a line without a kind": {},
    "a later format": {**HEAD, "format": 2},
}


@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_a_line_that_is_none_is_refused(tmp_path, line, name):
    path = tmp_path / name
    write_lines(path, [HEAD, line], packed=name.endswith(".gz"))
    with pytest.raises(WorkbenchError, match=r"r\.jsonl"):
        Recording.read(path)


UNREADABLE = {
    "no JSON": b"{]\n",
    "deep nesting": b"[" * 100_000 + b"\n",
    "no object": b"3\n",
    "nothing": b"",
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_is_no_recording_is_refused(tmp_path, data):
    path = tmp_path / "r.jsonl"
    path.write_bytes(data)
    with pytest.raises(WorkbenchError, match=r"r\.jsonl"):
        Recording.read(path)


def test_a_missing_recording_is_told(tmp_path):
    with pytest.raises(WorkbenchError, match="can't be read"):
        Recording.read(tmp_path / "none.jsonl")


def test_a_gzip_bomb_is_refused(tmp_path):
    import gzip

    path = tmp_path / "r.jsonl.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(80):
            file.write(b" " * (1 << 20))
    with pytest.raises(WorkbenchError, match="refused"):
        Recording.read(path)


def test_every_line_of_a_recording_fits_the_schema(tmp_path):
    import asyncio

    from bench.clients import RecordingClient, ScriptedClient
    from bench.recordings import Recorder
    from bench.types import Request, StepKey

    request = Request(({"role": "user", "content": "hi"},), {}, StepKey("t", "react", "full", 0, 0))
    path = tmp_path / "r.jsonl"
    client = RecordingClient(
        ScriptedClient([REPLY]), Recorder(path, {k: v for k, v in HEAD.items() if k != "type"})
    )
    asyncio.run(client.complete(request))
    schema = json.loads((find_datasets() / "schema" / "recording.json").read_text())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["type"] == "manifest"
    for line in lines:
        jsonschema_rs.validator_for(schema).validate(line)
    asyncio.run(client.close())
