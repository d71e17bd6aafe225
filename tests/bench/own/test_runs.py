"""Whole runs with one's own tools and tasks: the example, live, recorded, replayed, taken up again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.init import FILES
from bench.records import RunFolder, list_runs
from bench.status import MISTAKE, OK

ROOT = Path(__file__).parents[3]
SCRIPTED = "SCRIPTED: no model was asked."


def bench(*words, cwd):
    """Run the command in a process of its own, as a user does."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Make the example in an empty folder and run it, by the three commands that people type."""
    root = tmp_path_factory.mktemp("empty")
    made = bench("init", "demo", cwd=root)
    assert made.returncode == OK, made.stderr
    done = bench(cwd=root / "demo")
    assert done.returncode == OK, done.stderr
    return root / "demo", done


def test_the_example_runs_offline_and_says_first_that_it_is_scripted(ran):
    folder, done = ran
    assert done.stderr.startswith(SCRIPTED)
    assert done.stdout.startswith(SCRIPTED)
    [path] = list_runs(folder / "results")
    run = RunFolder(path)
    assert run.manifest["mode"] == "scripted"
    assert {line["model"] for line in run.lines()} == {"no model"}
    report = (path / "report.md").read_text(encoding="utf-8")
    title, about, heading, first = [line for line in report.splitlines() if line][:4]
    assert (title[0], heading[0]) == ("#", "#")
    assert "no model" in about
    assert first.strip("*").startswith(SCRIPTED)
    assert SCRIPTED in (path / "report.html").read_text(encoding="utf-8")


def test_the_example_shows_a_correction_a_wrong_pick_and_leave(ran):
    folder, _ = ran
    run = RunFolder(list_runs(folder / "results")[0])
    scores = [line["score"] for line in run.lines()]
    assert sum(score.get("corrected", 0) for score in scores) == 1
    assert sum(score.get("wrong", 0) for score in scores) == 1
    assert run.manifest["own"]["changes"] == ["book_table"]
    assert set(run.manifest["own"]["files"]) == {*FILES} - {"bench.toml"}
    assert set(run.manifest["own"]["config"]) == {"bench.toml"}


def test_the_examples_tasks_and_descriptions_hold(ran, monkeypatch, capsys):
    folder, _ = ran
    monkeypatch.chdir(folder)
    assert main(["tasks"]) == OK
    assert "gold that scores 1: 6" in capsys.readouterr().out
    assert main(["lint", "tools.py"]) == OK, capsys.readouterr().out


CHANGED = ["tools.py", "tasks.csv", "variants.json", "script.jsonl"]


@pytest.mark.parametrize("name", CHANGED)
def test_a_run_does_not_go_on_with_another_file(name, ran, monkeypatch, capsys):
    folder, _ = ran
    monkeypatch.chdir(folder)
    before = Path(name).read_bytes()
    Path(name).write_bytes(before + b"\n")
    try:
        status = main(["--resume", "latest"])
    finally:
        Path(name).write_bytes(before)
    assert status == MISTAKE
    assert f"{name} changed since it was begun" in capsys.readouterr().err
    assert main(["--resume", "latest"]) == OK
    assert "nothing left to do" in capsys.readouterr().out


@pytest.mark.parametrize("there", ["a file in it", "a file of that name"])
def test_nothing_is_overwritten(there, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    place = Path("demo") if there == "a file of that name" else Path("demo") / "mine.txt"
    place.parent.mkdir(exist_ok=True)
    place.write_text("mine", encoding="utf-8")
    assert main(["init", "demo"]) == MISTAKE
    assert (
        capsys.readouterr().err == "bench: demo: is there already; name a new or an empty folder\n"
    )
    assert place.read_text(encoding="utf-8") == "mine"


# ------------------------------------------------------------ live, recorded, replayed


def play(handler):
    """Play a model that asks for a price and then tells it."""
    asked = handler.server.endpoint.requests[-1]
    if asked["messages"][-1]["content"] == "Say OK.":
        message = {"content": "OK."}
    elif "tools" in asked:
        message = _native(asked)
    else:
        said = asked["messages"][-1]["content"]
        message = {
            "content": "Thought: I know.\nFinal Answer: 8.50 euros"
            if "Observation" in said
            else 'Thought: I look.\nAction: get_price\nAction Input: {"restaurant": "Noodle House"}'
        }
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 7}
    handler.send(200, json.dumps({"model": "m-1", "choices": [choice], "usage": usage}))


def _native(asked):
    if asked["messages"][-1]["role"] == "tool":
        return {"content": "8.50 euros"}
    function = {"name": "get_price", "arguments": '{"restaurant": "Noodle House"}'}
    return {"content": None, "tool_calls": [{"id": "a", "type": "function", "function": function}]}


def test_the_example_runs_live_is_recorded_and_replayed(endpoint, tmp_path, monkeypatch, capsys):
    endpoint.answers = [play]
    monkeypatch.chdir(tmp_path)
    assert main(["init", "demo"]) == OK
    monkeypatch.chdir(tmp_path / "demo")
    here = ["--task", "price", "--base-url", endpoint.base_url, "--model", "m", "--yes"]
    assert main([*here, "--record", "mine.jsonl"]) == OK
    assert SCRIPTED not in "".join(capsys.readouterr())
    offered = next(r["tools"] for r in endpoint.requests if "tools" in r)
    names = [entry["function"]["name"] for entry in offered]
    assert names == ["find_restaurant", "get_price", "book_table"]
    first = json.loads(Path("mine.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert set(first["own"]) == {"tools.py", "tasks.csv", "variants.json"}

    asked = len(endpoint.requests)
    assert main(["--task", "price", "--replay", "mine.jsonl"]) == OK
    assert len(endpoint.requests) == asked
    live, replayed = (RunFolder(path) for path in list_runs(Path("results")))
    assert (live.manifest["mode"], replayed.manifest["mode"]) == ("live", "recorded")
    for run in (live, replayed):
        assert [line["score"]["success"] for line in run.lines()] == [1, 1]


def test_a_run_with_own_tasks_says_what_to_replay(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("question,tool\nHow warm is Beijing?,get_weather\n", encoding="utf-8")
    assert main(["--tasks", "t.csv", "--dry-run"]) == MISTAKE
    assert "no recording holds your tasks; name a model" in capsys.readouterr().err


def test_own_tasks_may_use_the_bundled_tools(endpoint, tmp_path, monkeypatch, capsys):
    endpoint.answers = [play]
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(
        "question,tool,toolset\nHow warm is Beijing?,get_weather,weather\n", encoding="utf-8"
    )
    here = ["--tasks", "t.csv", "--base-url", endpoint.base_url, "--model", "m", "--dry-run"]
    assert main(here) == OK
    assert "2 episodes: 1 tasks" in capsys.readouterr().err
