"""`lint --ask`: what a model is shown, how its answer is read, what is counted. Answers scripted."""

import asyncio
import json

import jsonschema_rs
import pytest

from bench.__main__ import main
from bench.clients import RecordingClient, ScriptedClient, reply_with
from bench.lab.ask import (
    ORDERS,
    Sheet,
    ask_sheets,
    find_sheets,
    read_choice,
    read_questions,
    read_trial,
    write_prompt,
)
from bench.lab.ask_report import report_ask
from bench.lint import find_sources
from bench.paths import find_datasets
from bench.recordings import Recorder
from bench.records import FORMAT, RunFolder, json_lines, list_runs, to_json
from bench.status import MISTAKE, OK
from bench.tasks import load_tasks
from bench.tools import load_tools
from bench.types import Reply, WantedCall
from parsers import Tool

FILE = find_datasets() / "lint" / "questions.json"
ROWS = read_questions(FILE)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
SHEET = Sheet(
    Tool("get_weather", "The weather in a city.", CITY),
    "en",
    "Is it raining in Bonn?",
    ("A?", "B?", "C?", "D?", "E?"),
    WantedCall("get_weather", {"city": ("Bonn",)}),
)
SETTINGS = {"temperature": 0, "max_tokens": 64}


# ---------------------------------------------------------------- the questions


def test_every_bundled_tool_has_questions_in_both_languages():
    names = [tool.name for tool in load_tools().tools]
    assert [(row["tool"], row["lang"]) for row in ROWS] == [
        (name, lang) for name in names for lang in ("en", "zh")
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['tool']}-{row['lang']}")
def test_a_row_has_six_different_questions_and_arguments_that_the_tool_takes(row):
    assert len({row["fits"], *row["others"]}) == 6
    schema = load_tools().table[row["tool"]].tool.parameters
    validator = jsonschema_rs.validator_for(dict(schema))
    first = {name: values[0] for name, values in row["arguments"].items()}
    plain = {k: v["$like"] if isinstance(v, dict) and "$like" in v else v for k, v in first.items()}
    validator.validate(plain)


def test_no_task_asks_a_bundled_question():
    asked = {task.question for task in load_tasks()}
    assert not asked & {text for row in ROWS for text in (row["fits"], *row["others"])}


# ---------------------------------------------------------------- what is shown


def test_a_model_is_shown_the_description_and_never_the_name():
    prompt = write_prompt(SHEET, 0)
    assert "The weather in a city." in prompt
    assert "get_weather" not in prompt
    assert '"city"' in prompt
    assert all(text in prompt for text in (SHEET.fits, *SHEET.others))


def test_the_right_question_stands_in_each_place_once():
    places = [SHEET.order(number)[1] for number in range(ORDERS)]
    assert sorted(places) == list(range(6))
    for number in range(ORDERS):
        questions, place = SHEET.order(number)
        assert questions[place] == SHEET.fits
        assert set(questions) == {SHEET.fits, *SHEET.others}


# ---------------------------------------------------------------- how an answer is read

CHOICES = {
    "plain": ('{"question": 2, "arguments": {"city": "Bonn"}}', (2, {"city": "Bonn"})),
    "a number as a text": ('{"question": "2", "arguments": {}}', (2, {})),
    "fenced, with chatter": ('Sure!\n```json\n{"question": 2}\n```\nDone.', (2, None)),
    "prose": ("It is for question 2.", (None, None)),
    "no number": ('{"question": "the second"}', (None, None)),
    "a huge number": ('{"question": "222222222222"}', (None, None)),
    "nothing": ("", (None, None)),
}


@pytest.mark.parametrize(("text", "expected"), CHOICES.values(), ids=CHOICES)
def test_an_answer_is_read_by_the_reader_of_arguments(text, expected):
    assert read_choice(text) == expected


def answer(number, city="Bonn"):
    return reply_with(json.dumps({"question": number, "arguments": {"city": city}}))


TRIALS = {
    "right": (answer(1), ("right", True)),
    "right, with other arguments": (answer(1, "Rome"), ("right", False)),
    "right, without arguments": (reply_with('{"question": 1}'), ("right", False)),
    "wrong": (answer(3), ("wrong", None)),
    "no such question": (answer(7), ("unreadable", None)),
    "none": (answer(0), ("unreadable", None)),
    "unreadable": (reply_with("No idea."), ("unreadable", None)),
    "no answer": (Reply(503, {}, "busy"), ("failed", None)),
}


@pytest.mark.parametrize(("reply", "expected"), TRIALS.values(), ids=TRIALS)
def test_an_answer_is_judged(reply, expected):
    trial = read_trial(SHEET, 0, reply)
    assert (trial.outcome, trial.arguments) == expected
    assert trial.place == 1


def test_what_was_not_recorded_is_no_answer():
    trials = asyncio.run(ask_sheets(ScriptedClient([None]), [SHEET], count=1, settings=SETTINGS))
    assert [trial.outcome for trial in trials] == ["not_recorded"]


# ---------------------------------------------------------------- what is counted


def first_place(_):
    return '{"question": 1, "arguments": {"city": "Bonn"}}'


def test_a_model_that_always_names_the_first_place_is_right_once_in_six():
    client = ScriptedClient(first_place, name="e")
    trials = asyncio.run(ask_sheets(client, [SHEET], settings=SETTINGS))
    lines = [{"endpoint": "e", **to_json(trial)} for trial in trials]
    sections = {section.id: section for section in report_ask(lines)}
    said = sections["answer"].blocks[0].items
    assert "1 of 6 answers" in said[0]
    assert "get_weather: right 1 of 6" in said[1]
    assert "arguments 1 of 1" in said[1]
    rows = sections["places"].blocks[0].rows
    assert [row[1].text for row in rows] == ["6", "0", "0", "0", "0", "0"]


def test_a_report_without_any_answer_says_so():
    client = ScriptedClient([Reply(503, {}, "busy")] * 6, name="e")
    trials = asyncio.run(ask_sheets(client, [SHEET], settings=SETTINGS))
    lines = [{"endpoint": "e", **to_json(trial)} for trial in trials]
    assert "nothing is known" in report_ask(lines)[0].blocks[0].items[0]


# ---------------------------------------------------------------- the command


def knows(sheets):
    """Play a model that finds the right question where the description speaks of a chance of rain."""

    shown = {write_prompt(sheet, n): (sheet, n) for sheet in sheets for n in range(ORDERS)}

    def script(request):
        sheet, number = shown[request.messages[0]["content"]]
        place = sheet.order(number)[1] + 1
        picked = place if "chance of rain" in sheet.tool.description else 1
        return json.dumps({"question": picked, "arguments": {}})

    return script


@pytest.fixture
def recording(tmp_path):
    """Record a scripted model on a target's sheets."""

    def go(target, questions=None):
        path = tmp_path / "ask.jsonl"
        settings = {"temperature": 0, "max_tokens": 256}
        manifest = {"format": FORMAT, "experiment": "ask", "endpoint": "scripted"}
        manifest |= {"model": "scripted", "settings": settings, "trials": 1, "notes": {}}
        sheets = find_sheets(find_sources(target), questions)
        client = RecordingClient(ScriptedClient(knows(sheets)), Recorder(path, manifest))

        async def play():
            await ask_sheets(client, sheets, settings=settings)
            await client.close()

        asyncio.run(play())
        return path

    return go


def test_a_toolset_is_asked_about_in_both_languages(recording, tmp_path, capsys):
    file = recording("weather")
    words = ["lint", "weather", "--ask", "--replay", str(file)]
    assert main([*words, "--results", str(tmp_path / "runs")]) == OK
    out = capsys.readouterr().out
    assert "get_forecast: right 7 of 12" in out, "all in English, one in six in Chinese"
    assert "get_time: right 2 of 12" in out
    folder = RunFolder(list_runs(tmp_path / "runs")[-1])
    assert folder.manifest["experiment"] == "ask"
    assert len(list(json_lines(folder.path / "trials.jsonl"))) == 6 * 2 * ORDERS
    report = (folder.path / "report.md").read_text(encoding="utf-8")
    assert "Is a description enough" in report
    (folder.path / "report.md").unlink()
    assert main(["report", str(folder.path)]) == OK
    assert (folder.path / "report.md").read_text(encoding="utf-8") == report


OWN = [{"name": "find_song", "description": "Find the chance of rain in a song."}]
QUESTIONS = [{"tool": "find_song", "fits": "Which song?", "others": ["A", "B", "C", "D", "E"]}]


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.json").write_text(json.dumps(OWN), encoding="utf-8")
    (tmp_path / "questions.json").write_text(json.dumps(QUESTIONS), encoding="utf-8")
    return tmp_path


def test_own_tools_are_asked_about_with_own_questions(own, recording, capsys):
    file = recording("tools.json", own / "questions.json")
    words = ["lint", "--tools", "tools.json", "--ask", "--questions", "questions.json"]
    status = main([*words, "--replay", str(file), "--results", str(own / "runs")])
    out = capsys.readouterr().out
    assert status == 1, "the linter has findings, whatever the model says"
    assert "nothing says when to use it" in out
    assert "find_song: right 6 of 6 (100.0 %); arguments 0 of 0" in out


def test_in_chinese_no_sentence_is_left_in_english(own, recording, english_left):
    file = recording("tools.json", own / "questions.json")
    words = ["lint", "tools.json", "--ask", "--questions", "questions.json", "--replay", str(file)]
    main([*words, "--results", str(own / "runs"), "--report-lang", "zh"])
    folder = RunFolder(list_runs(own / "runs")[-1])
    text = (folder.path / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# 仅凭描述能知道工具的用途吗？\n")
    assert english_left(text, folder.manifest) == []


MISTAKES = {
    "no questions for these tools": (None, "--questions FILE"),
    "four others": ([{**QUESTIONS[0], "others": list("ABCD")}], "questions.json:1: entry 1"),
    "no tool": ([{"fits": "Which?", "others": list("ABCDE")}], "missing field: tool"),
    "no list": ({"tool": "find_song"}, "questions.json:1"),
    "no JSON": ("[", "not JSON"),
}


@pytest.mark.parametrize(("value", "told"), MISTAKES.values(), ids=MISTAKES)
def test_questions_that_cannot_be_used_are_one_line(own, capsys, value, told):
    words = ["lint", "tools.json", "--ask"]
    if value is not None:
        text = value if isinstance(value, str) else json.dumps(value)
        (own / "questions.json").write_text(text, encoding="utf-8")
        words += ["--questions", "questions.json"]
    assert main(words) == MISTAKE
    assert told in capsys.readouterr().err.splitlines()[-1]


def test_lint_without_a_target_is_one_line(capsys):
    assert main(["lint"]) == MISTAKE
    assert "name tools" in capsys.readouterr().err
