"""`python -m bench exercise`: live against a server that plays a script, recorded, and reported."""

import json

import pytest

from bench.__main__ import main
from bench.check import gold_replay, make_answer
from bench.exercises.tasks import NAMES, list_drills
from bench.recordings import Recording
from bench.records import RunFolder, list_runs
from bench.status import MISTAKE, OK


def play(handler):
    """Play a model that makes the gold's calls, tells the exact figures, and obeys no refusal."""
    body = handler.server.endpoint.requests[-1]
    asked = next(m["content"] for m in body["messages"] if m["role"] == "user")
    fitting = (d.task for d in list_drills().values() if asked.endswith(d.task.question))
    task = next(fitting, None)
    if task is None:  # the first question, whether anybody is there
        handler.send(200, json.dumps(_say("tools" in body, (), "Yes.")))
        return
    calls = gold_replay(task).calls if len(body["messages"]) == 2 else ()
    handler.send(200, json.dumps(_say("tools" in body, calls, make_answer(task))))


def refuse_to_call(handler):
    """Play a model that answers everything at once, without a tool."""
    native = "tools" in handler.server.endpoint.requests[-1]
    handler.send(200, json.dumps(_say(native, (), "I don't know.")))


def _say(native, calls, final):
    message = {"role": "assistant", "content": None}
    if not native:
        steps = [
            f"Action: {call.name}\nAction Input: {json.dumps(call.arguments)}" for call in calls
        ]
        message["content"] = "Thought: so.\n" + ("\n".join(steps) or f"Final Answer: {final}")
    elif calls:
        message["tool_calls"] = [
            {
                "id": f"c{at}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for at, call in enumerate(calls)
        ]
    else:
        message["content"] = final
    reason = "tool_calls" if native and calls else "stop"
    return {"model": "scripted", "choices": [{"message": message, "finish_reason": reason}]}


@pytest.fixture
def run(endpoint, capsys):
    endpoint.answers = [play]

    def go(*words):
        status = main(["exercise", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return go


@pytest.fixture
def live(run, endpoint, tmp_path):
    def go(*words):
        here = ("--model", "scripted", "--base-url", endpoint.base_url, "--yes")
        return run(*words, *here, "--results", str(tmp_path / "live"))

    return go


def the_run(folder):
    (path,) = list_runs(folder)
    return RunFolder(path)


def seen(folder):
    """Return what became of each episode: how it ended, its replies with their times, its score."""
    return {
        (line["task_id"], line["driver"]): (
            *(line["stop"], line["score"]),
            [turn["reply"] for turn in line["turns"]],
        )
        for line in the_run(folder).lines()
    }


# ---------------------------------------------------------------- one exercise


@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_runs_both_ways_and_answers_in_its_first_sentence(live, tmp_path, name):
    status, out, err = live(name, "--limit", "4")
    assert status == OK
    folder = the_run(tmp_path / "live")
    assert folder.manifest["experiment"] == f"exercise-{name}"
    assert list(folder.manifest["exercise_files"]) == [f"exercises/{name}.jsonl"]
    lines = list(folder.lines())
    assert {line["driver"] for line in lines} == {"react", "native"}
    assert {line["stop"] for line in lines} == {"answered"}
    report = (folder.path / "report.md").read_text(encoding="utf-8")
    opening = next(line for line in report.splitlines() if line.startswith("**scripted, n = "))
    assert "95 % interval" in opening.replace("\u00a0", " ")
    assert "ReAct" in opening
    assert "native" in opening
    assert name in out
    assert "8 episodes: 4 tasks" in err
    assert (folder.path / "report.html").is_file()


FIGURES = {
    "parallel": "all at once: ReAct 100.0 % (4 of 4; 95 % interval 15.8 to 100.0)",
    "result-form": "exact with the result as JSON: ReAct 100.0 % (1 of 1; ",
    "recovery": "mended after the error: ReAct – (0 of 0)",
    "who-are-you": "answered without a call: ReAct 100.0 % (4 of 4; ",
    "loop": "left by itself: ReAct 100.0 % (4 of 4; ",
    "leave": "claimed after the refusal: ReAct 0.0 % (0 of 4; 95 % interval 0.0 to 84.2)",
}


@pytest.mark.parametrize(("name", "told"), FIGURES.items(), ids=FIGURES)
def test_the_figures_are_those_of_the_script(live, name, told):
    _, out, _ = live(name, "--limit", "4")
    assert told in out


def test_a_report_is_written_again_from_the_folder_alone(live, tmp_path, capsys):
    live("parallel", "--limit", "2")
    folder = the_run(tmp_path / "live")
    page = (folder.path / "report.html").read_bytes()
    (folder.path / "report.html").unlink()
    assert main(["report", str(folder.path)]) == OK
    capsys.readouterr()
    assert (folder.path / "report.html").read_bytes() == page


def test_what_a_model_says_is_escaped_where_it_is_quoted(live, endpoint, tmp_path):
    def claim(handler):
        text = "The message has been sent. <script>alert(1)</script>"
        native = "tools" in handler.server.endpoint.requests[-1]
        handler.send(200, json.dumps(_say(native, (), text)))

    endpoint.answers = [claim]
    live("leave", "--task", "exercise-leave-01-en")
    folder = the_run(tmp_path / "live")
    page = (folder.path / "report.html").read_text(encoding="utf-8")
    assert "The message has been sent." in page
    assert "<script>alert" not in page


def test_in_chinese_no_sentence_is_left_in_english(live, tmp_path, english_left):
    status, out, _ = live("all", "--limit", "20", "--report-lang", "zh")
    assert status == OK
    assert "个问题，各有两种语言" in out
    folder = the_run(tmp_path / "live")
    text = (folder.path / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# 本领域的练习\n")
    assert text.count("\n## ") >= len(NAMES)
    assert english_left(text, folder.manifest) == []
    assert main(["report", str(folder.path)]) == OK
    assert english_left((folder.path / "report.md").read_text(encoding="utf-8"), folder.manifest)


# ---------------------------------------------------------------- recorded


def test_all_is_one_recording_that_every_exercise_replays(live, run, tmp_path):
    file = tmp_path / "all.jsonl.gz"
    assert live("all", "--limit", "20", "--record", str(file))[0] == OK
    assert Recording.read(file).manifest["experiment"] == "exercise"
    there = tmp_path / "again"
    status, out, _ = run("all", "--replay", str(file), "--results", str(there))
    assert status == OK
    assert [name for name in NAMES if f"\n{name}\n" in f"\n{out}"] == list(NAMES)
    assert the_run(there).manifest["mode"] == "recorded"
    recorded = seen(tmp_path / "live")
    replayed = seen(there)
    assert recorded.keys() <= replayed.keys()
    assert {key: replayed[key] for key in recorded} == recorded
    alone = tmp_path / "alone"
    assert run("leave", "--replay", str(file), "--results", str(alone))[0] == OK
    assert {key[0] for key in seen(alone)} == {"exercise-leave-01-en", "exercise-leave-01-zh"}


def test_two_exercises_go_into_one_file_one_after_the_other(live, run, tmp_path):
    file = tmp_path / "r.jsonl"
    for name in ("who-are-you", "parallel"):
        here = ("--limit", "2", "--record", str(file), "--results", str(tmp_path / name))
        assert live(name, *here)[0] == OK
    status, _, _ = run("all", "--replay", str(file), "--results", str(tmp_path / "again"))
    assert status == OK
    names = {line["category"] for line in the_run(tmp_path / "again").lines()}
    assert names == {"exercise-who-are-you", "exercise-parallel"}


@pytest.mark.parametrize("model", [play, refuse_to_call], ids=["calls", "no call at all"])
def test_what_all_forms_share_is_asked_once_and_replayed_for_each(
    live, run, endpoint, tmp_path, model
):
    endpoint.answers = [model]
    file = tmp_path / "r.jsonl"
    chosen = ("--task", "exercise-result-form-01", "--lang", "en", "--concurrency", "1")
    live("result-form", *chosen, "--record", str(file))
    first = [r for r in endpoint.requests if len(r["messages"]) == 2 and r["max_tokens"] > 1]
    questions = [r for r in first if "yuan" in r["messages"][-1]["content"]]
    assert len(questions) == 2
    run("result-form", "--replay", str(file), "--results", str(tmp_path / "again"))
    assert seen(tmp_path / "again") == seen(tmp_path / "live")
    assert len(seen(tmp_path / "again")) == 8


# ---------------------------------------------------------------- the command


def test_a_dry_run_asks_nobody_and_writes_nothing(live, endpoint, tmp_path):
    status, _, err = live("all", "--dry-run")
    assert (status, endpoint.requests) == (OK, [])
    assert f"{2 * len(list_drills())} episodes" in err
    assert not (tmp_path / "live").exists()


def test_a_run_goes_on_where_it_was_broken_off(live, endpoint, tmp_path):
    live("parallel", "--limit", "4")
    folder = the_run(tmp_path / "live")
    path = folder.path / "episodes.jsonl"
    kept = path.read_bytes().splitlines(keepends=True)[:5]
    path.write_bytes(b"".join(kept))
    before = len(endpoint.requests)
    assert live("parallel", "--resume", folder.path.name)[0] == OK
    assert len(seen(tmp_path / "live")) == 8
    assert len(endpoint.requests) > before


def test_a_run_of_another_exercise_is_not_gone_on_with(live, tmp_path):
    live("parallel", "--limit", "2")
    status, _, err = live("loop", "--resume", the_run(tmp_path / "live").path.name)
    assert status == MISTAKE
    assert "start a new run without --resume" in err


def test_the_exercises_are_listed(run):
    for words in ((), ("--list",)):
        status, out, _ = run(*words)
        assert status == OK
        assert [line.split()[0] for line in out.splitlines()] == [*NAMES, "all"]


MISTAKES = {
    "no such exercise": (("paralel",), "no exercise 'paralel'; there are: parallel"),
    "no such task": (("loop", "--task", "loop-1"), "no task 'loop-1'"),
    "no such recording": (("loop", "--replay", "none.jsonl"), "none.jsonl"),
}


@pytest.mark.parametrize(("words", "told"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(run, words, told):
    here = () if "--replay" in words else ("--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    status, out, err = run(*words, *here)
    assert (status, out) == (MISTAKE, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1
