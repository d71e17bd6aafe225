"""Stored replies read again: what today's readers and judge say, and what the run kept stays."""

import asyncio
import json

import pytest

from bench.__main__ import main
from bench.clients import ScriptedClient
from bench.drivers import make_driver
from bench.loop import DEFAULT_BUDGET
from bench.manifest import hash_datasets, hash_tasks
from bench.paths import find_datasets
from bench.records import RunFolder, episode_from_json
from bench.rescore import reread
from bench.run import bundled_toolbox, plan_jobs, run_all
from bench.tasks import load_tasks

TASKS = load_tasks(ids=["single-01", "no_tool-01"])
CALL = 'Thought: I look.\nAction: get_weather\nAction Input: {"city": "Beijing"}'
WRONG = CALL.replace("}", "")


def react(request):
    """Call once, after one unreadable try in English; then answer."""
    key = request.key
    if key.task_id.startswith("no_tool"):
        return "Final Answer: I am an assistant."
    said = [CALL, "Final Answer: 25 degrees and sunny."]
    if key.task_id.endswith("en"):
        said = ["Action: get_wether\nAction Input: {}", *said]
    return said[key.step]


def native(request):
    text = react(request)
    if not text.startswith(("Thought", "Action")):
        return text.removeprefix("Final Answer: ")
    name, value = ("get_wether", "{}") if "wether" in text else ("get_weather", CALL[-19:])
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": value}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def model(request):
    return (react if request.key.driver.startswith("react") else native)(request)


@pytest.fixture
def run(tmp_path):
    manifest = {
        "format": 1,
        "experiment": "compare",
        "mode": "recorded",
        "started": "2026-01-01T00:00:00Z",
        "budget": {"steps": 8, "corrections": 2},
        "datasets": hash_datasets(find_datasets()),
        "golds": hash_tasks(TASKS),
        "notes": ["a note of the run"],
    }
    folder = RunFolder.create(tmp_path, "mine", manifest)
    drivers = [make_driver("react"), make_driver("native")]
    asyncio.run(run_all(plan_jobs(TASKS, drivers, [ScriptedClient(model)]), folder))
    folder.finish(stops={})
    return folder


@pytest.fixture
def rescored(run, tmp_path, capsys):
    def go():
        status = main(["rescore", run.path.name, "--results", str(tmp_path)])
        said = capsys.readouterr()
        made = RunFolder(tmp_path / f"{run.path.name}-rescored")
        return status, said, made

    return go


def tellable(folder):
    return {
        (line["task_id"], line["driver"]): (line["stop"], line["score"], line["turns"])
        for line in folder.lines()
    }


def change(run, edit):
    """Let the run's lines be as an older reader would have left them."""
    path = run.path / "episodes.jsonl"
    lines = [edit(json.loads(text)) for text in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_with_the_same_reader_all_stays_the_same(run, rescored):
    before = (run.path / "episodes.jsonl").read_bytes(), (run.path / "manifest.json").read_bytes()
    status, said, made = rescored()
    assert status == 0
    assert tellable(made) == tellable(run)
    after = (run.path / "episodes.jsonl").read_bytes(), (run.path / "manifest.json").read_bytes()
    assert before == after
    assert "0 of 14 readings are others than before" in said.out


def test_the_new_folder_says_what_it_was_made_from(run, rescored):
    _, _, made = rescored()
    manifest = made.manifest
    told = manifest["rescored"]
    assert told["from"] == run.path.name
    assert (told["episodes"], told["replies"], told["changed"], told["left"]) == (8, 14, 0, 0)
    assert manifest["finished"]
    assert manifest["notes"][0] == "a note of the run"
    assert manifest["notes"][1].startswith(f"Rescored: the replies are those of {run.path.name}")
    assert "Rescored: the replies are those of" in (made.path / "report.md").read_text("utf-8")


def test_a_second_time_makes_a_second_folder(run, rescored, tmp_path):
    rescored()
    rescored()
    names = {path.name for path in tmp_path.iterdir()}
    assert f"{run.path.name}-rescored-2" in names


def test_scores_are_made_anew(run, rescored):
    """As after a change of the judge: the stored scores count for nothing."""
    right = tellable(run)
    change(run, lambda line: line | {"score": {"success": 0, "replies": 99}})
    _, _, made = rescored()
    assert tellable(made) == right


NO_MOVE = {"failure": {"kind": "no_move", "message": "…"}}
READ_OTHERWISE = {
    "an answer that was no move": (
        lambda line: line["task_id"].startswith("no_tool"),
        lambda turns: turns[:1],
        NO_MOVE,
        "malformed",
        ("answered", 1),
    ),
    "a call that was no move ends where the run went another way": (
        lambda line: line["task_id"] == "single-01-zh",
        lambda turns: turns,
        NO_MOVE,
        "answered",
        ("left_recording", 0),
    ),
    "a call with other arguments": (
        lambda line: line["task_id"] == "single-01-zh",
        lambda turns: turns,
        {"calls": [{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "c1"}]},
        "answered",
        ("left_recording", 0),
    ),
    "an unreadable call that was read": (
        lambda line: line["task_id"] == "single-01-en",
        lambda turns: turns,
        {"calls": [{"name": "get_weather", "arguments": {"city": "Rome"}, "id": "c1"}]},
        "answered",
        ("left_recording", 0),
    ),
}


@pytest.mark.parametrize(
    ("which", "keep", "reading", "stop", "now"), READ_OTHERWISE.values(), ids=READ_OTHERWISE
)
def test_a_reply_that_is_read_otherwise_today(run, rescored, which, keep, reading, stop, now):
    def older(line):
        if not which(line):
            return line
        turns = keep(line["turns"])
        turns[0] = {**turns[0], "reading": reading}
        return line | {"turns": turns, "stop": stop}

    change(run, older)
    _, said, made = rescored()
    changed = [line for line in made.lines() if which(line)]
    assert changed
    for line in changed:
        assert (line["stop"], line["score"].get("success", 0)) == now
        assert len(line["turns"]) == 1
    assert f"{len(changed)} of " in said.out
    left = len(changed) if now[0] == "left_recording" else 0
    assert made.manifest["rescored"]["left"] == left


def test_another_kind_of_failure_is_no_other_way(run, rescored):
    """A correction was sent either way, so the rest of the episode still holds."""

    def older(line):
        if line["task_id"] == "single-01-en":
            line["turns"][0]["reading"] = {"failure": {"kind": "empty_turn", "message": "…"}}
        return line

    change(run, older)
    _, _, made = rescored()
    for line in made.lines():
        if line["task_id"] == "single-01-en":
            assert line["stop"] == "answered"
            assert line["score"]["first_failures"] == {"unknown_tool": 1}
    assert made.manifest["rescored"]["changed"] == 2


def test_too_many_unreadable_replies_end_it_as_they_would_have(run):
    task = next(task for task in TASKS if task.id == "single-01-en")
    toolbox = bundled_toolbox(task, "full")
    line = next(
        line for line in run.lines() if (line["task_id"], line["driver"]) == (task.id, "react")
    )
    first = line["turns"][0]
    stored = {**first, "reading": {"failure": {"kind": "no_move", "message": "…"}}}
    read = {**first, "reading": {"final": "as an older reader said"}}
    turns = [stored, {**stored, "corrects": True}, {**read, "corrects": True}]
    episode = episode_from_json(line | {"turns": turns, "stop": "answered"})
    found = reread(episode, make_driver("react"), toolbox.tools, DEFAULT_BUDGET)
    assert found.episode.stop == "malformed"
    assert not found.left


REFUSED = {
    "no such run": ("nothing", lambda _: None, "no such run"),
    "another experiment": (
        "",
        lambda run: run.write_manifest({**run.manifest, "experiment": "pairing"}),
        "a run of pairing has no scores to make again",
    ),
    "a task that is gone": (
        "",
        lambda run: change(run, lambda line: line | {"task_id": "gone-01-en"}),
        "its task 'gone-01-en' is not among today's",
    ),
}


@pytest.mark.parametrize(("name", "spoil", "why"), REFUSED.values(), ids=REFUSED)
def test_what_can_not_be_read_again_is_refused(run, tmp_path, capsys, name, spoil, why):
    spoil(run)
    assert main(["rescore", name or run.path.name, "--results", str(tmp_path)]) == 2
    assert why in capsys.readouterr().err


def test_data_that_changed_since_are_named(run, rescored):
    manifest = run.manifest
    manifest["datasets"]["tasks/single.jsonl"] = "0" * 64
    run.write_manifest(manifest)
    _, _, made = rescored()
    assert made.manifest["rescored"]["data_changed"] == ["tasks/single.jsonl"]
    assert "which changed since: tasks/single.jsonl" in made.manifest["notes"][-1]
    assert made.manifest["datasets"] == hash_datasets(find_datasets())
