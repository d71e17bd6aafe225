"""Two versions of descriptions: what is planted is found, what is not there isn't. Replies scripted."""

import json
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.lab.ab import kind_of, pick_tasks, read_pair
from bench.records import RunFolder, list_runs
from bench.status import FOUND, MISTAKE, OK, UNSURE
from bench.tasks import load_tasks
from bench.tools import list_toolsets, load_tools
from bench.variants import apply_variant

MONEY = load_tools("money").tools
NAMED = apply_variant(MONEY, "name", "en").tools
TOUCHED = tuple(
    replace(tool, description=tool.description + " Offline.")
    if tool.name == "get_exchange_rate"
    else tool
    for tool in MONEY
)


def save(path, tools):
    path.write_text(json.dumps([tool.to_openai() for tool in tools]), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write two versions of tools, and give the way from them to an exit status."""
    monkeypatch.chdir(tmp_path)

    def go(old, new):
        return save(tmp_path / "old.json", old), save(tmp_path / "new.json", new)

    return go


def slips(share, task, driver, variant):
    """Let so many of a hundred questions go wrong with a version; `share` takes driver and version."""
    return zlib.crc32(task.pair.encode()) % 100 < share(driver, variant)


def when_short(_, variant, short, *, of=50):
    return of if variant == short else 5


CASES = {
    "a planted improvement": (NAMED, MONEY, partial(when_short, short="old"), OK, "are better."),
    "a planted regression": (MONEY, NAMED, partial(when_short, short="new"), FOUND, "are worse."),
    "a regression with one driver only": (
        MONEY,
        NAMED,
        lambda driver, variant: 60 if (driver, variant) == ("native", "new") else 5,
        FOUND,
        "are worse.",
    ),
}
TASKS = {"category": ("single", "lookalike", "repeated", "typed", "near_miss", "no_tool")}


@pytest.mark.parametrize(("old", "new", "share", "status", "told"), CASES.values(), ids=CASES)
def test_what_is_planted_is_found(files, record, tmp_path, capsys, old, new, share, status, told):
    paths = files(old, new)
    plan = kind_of(read_pair(*paths)).plan
    file, player = record(plan, partial(slips, share), tools=MONEY, **TASKS)
    assert {key.variant for key in player.asked} == {"old", "new"}
    words = ["ab", *map(str, paths), "--replay", str(file), "--results", str(tmp_path / "runs")]
    assert main(words) == status
    out = capsys.readouterr().out
    assert told in out.splitlines()[0]
    assert "task success" in out
    folder = RunFolder(list_runs(tmp_path / "runs")[-1])
    text = (folder.path / "report.md").read_text(encoding="utf-8")
    for title in ("What was changed", "For which questions", "For which tools", "The answer"):
        assert f"## {title}" in text
    assert "find\\_exchange\\_banks" in text or "find_exchange_banks" in text
    assert folder.manifest["versions"]["old"]["file"] == "old.json"
    assert len(folder.manifest["told_otherwise"]) == 7


def test_where_nothing_is_planted_there_is_not_enough_data(files, record, tmp_path, capsys):
    paths = files(MONEY, TOUCHED)

    def share(_, variant):
        return 12 if variant == "new" else 9

    options = {"category": ("single", "lookalike")}
    file, _ = record(kind_of(read_pair(*paths)).plan, partial(slips, share), tools=MONEY, **options)
    words = ["ab", *map(str, paths), "--replay", str(file), "--results", str(tmp_path / "runs")]
    assert main(words) == UNSURE
    assert capsys.readouterr().out.startswith("Not enough data to say")


def test_in_chinese_no_sentence_is_left_in_english(files, record, tmp_path, capsys, english_left):
    paths = files(NAMED, MONEY)
    plan = kind_of(read_pair(*paths)).plan
    share = partial(when_short, short="old")
    file, _ = record(plan, partial(slips, share), tools=MONEY, category=("single", "typed"))
    words = ["ab", *map(str, paths), "--replay", str(file), "--results", str(tmp_path / "runs")]
    main([*words, "--report-lang", "zh"])
    folder = RunFolder(list_runs(tmp_path / "runs")[-1])
    text = (folder.path / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# 旧描述和新描述，哪个更好？\n")
    assert "任务成功" in capsys.readouterr().out
    questions = [task.question for task in load_tasks()]
    assert english_left(text, folder.manifest, questions) == []


def test_the_same_texts_need_no_model(files, capsys):
    paths = files(MONEY, tuple(reversed(MONEY)))
    assert main(["ab", *map(str, paths)]) == OK
    assert "the same words" in capsys.readouterr().err


def test_bundled_tasks_are_those_that_the_tools_can_solve():
    money, basic = list_toolsets()["money"], list_toolsets()["money_basic"]
    tasks = pick_tasks(money)
    needed = {call.tool for task in tasks for call in task.gold.calls}
    assert needed == set(money)
    without_calls = {task.pair for task in tasks if not task.gold.calls}
    lacking = {task.pair for task in pick_tasks(basic) if not task.gold.calls}
    assert without_calls < lacking, "what can't be done without the rate history is no miss with it"
    assert pick_tasks(["my_tool"]) == ()


# ---------------------------------------------------------------- tools of one's own


OWN = {"name": "find_song", "description": "Find a song.", "parameters": {"type": "object"}}
RESULTS = [{"tool": "find_song", "result": {"song": "La Mer", "year": 1945}}]


def write_own(folder, **changes):
    for name, more in (("old", {}), ("new", changes)):
        value = {"tools": [{**OWN, **more}], "results": RESULTS}
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    lines = [
        {"question": f"Song {n}?", "expected_tool": "find_song", "expected_answer": "1945"}
        for n in range(3)
    ]
    text = "\n".join(map(json.dumps, lines))
    (folder / "tasks.jsonl").write_text(text, encoding="utf-8")
    return ("old.json", "new.json")


def test_own_tools_answer_from_their_own_results(record, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = write_own(tmp_path, description="Find a song by what is sung.")
    pair = read_pair(*map(Path, paths), tmp_path / "tasks.jsonl")
    assert [task.toolset for task in pair.tasks] == ["own"] * 3
    file, _ = record(kind_of(pair).plan, lambda *_: False, tools=pair.old.tools)
    words = ["ab", *paths, "--tasks", "tasks.jsonl", "--replay", str(file)]
    assert main([*words, "--results", str(tmp_path / "runs")]) == UNSURE
    out = capsys.readouterr().out
    assert "under 15" in out
    lines = list(RunFolder(list_runs(tmp_path / "runs")[-1]).lines())
    assert all(line["score"]["success"] for line in lines)
    assert "La Mer" in json.dumps([line["turns"] for line in lines])


MISTAKES = {
    "a tool that is missing": (MONEY, MONEY[1:], "lacks get_exchange_rate"),
    "a tool too many": (MONEY[1:], MONEY, "lacks get_exchange_rate"),
    "nothing to try them on": (
        [replace(MONEY[0], name="x")],
        [replace(NAMED[0], name="x")],
        "--tasks FILE",
    ),
}


@pytest.mark.parametrize(("old", "new", "told"), MISTAKES.values(), ids=MISTAKES)
def test_what_cannot_be_compared_is_one_line(files, capsys, old, new, told):
    assert main(["ab", *map(str, files(old, new))]) == MISTAKE
    err = capsys.readouterr().err
    assert told in err
    assert len(err.splitlines()) == 1


def test_a_file_that_is_not_there_is_one_line(capsys, tmp_path):
    assert main(["ab", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == MISTAKE
    assert "no such file" in capsys.readouterr().err
