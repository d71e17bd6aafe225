"""The catalogue of texts: nothing missing, nothing left over, every place in braces kept."""

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from bench import findings, pairing, rescore, stats, streaming, texts, tool_choice
from bench.calibrate.damage import DAMAGES
from bench.calibrate.intervals import CONDITIONS, RUNS
from bench.exercises.measures import EXERCISES
from bench.lab import ab_report, effects
from bench.manifest import LIMITED, scripted_note
from bench.status import FOUND, MEANINGS, OK, UNSURE
from bench.tables import MEASURES
from bench.texts import catalogue, retell, say, speaking
from bench.variants import list_variants

BENCH = Path(texts.__file__).parent.parent
SOURCES = (
    *(BENCH / name for name in ("findings.py", "charts.py", "wire_report.py", "diff_page.py")),
    *(
        path
        for name in ("report", "lab", "exercises", "calibrate")
        for path in sorted((BENCH / name).glob("*.py"))
    ),
)
SAYING = ("say", "mark", "label")


def fixed_texts():
    """Yield every text that a report says, from the code, the templates and the tables."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if called and node.func.id in SAYING and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value
    for path in (BENCH / "templates").rglob("*.jinja"):
        found = re.findall(r"""say\((["'])(.+?)\1\)""", path.read_text(encoding="utf-8"))
        yield from (text for _, text in found)
    for measure in (*MEASURES, *effects.MEASURES):
        yield from (measure.label, measure.meaning)
    yield from (*findings.KINDS.values(), *findings.STOPS.values())
    yield from texts_of_exercises()
    yield from (*list_variants().values(), *get_args(ab_report.Word), *get_args(stats.Word))
    yield from texts_of_the_wire()
    yield from (MEANINGS[status] for status in (OK, FOUND, UNSURE))
    yield from (condition.name for condition in (*CONDITIONS, *RUNS))
    yield from (damage.name for damage in DAMAGES)


def texts_of_exercises():
    for exercise in EXERCISES.values():
        yield from (exercise.title, exercise.about, *exercise.meaning)
        yield from (name.replace("_", " ") for name in exercise.shown)
        for measure in exercise.measures:
            yield from (measure.label, measure.meaning)


def texts_of_the_wire():
    """Yield what is said of outcomes and verdicts, which are made up of counts."""
    yield from (name.replace("_", " ") for name in get_args(pairing.Outcome))
    yield from (
        *(name for name in get_args(streaming.Outcome) if name != "answered"),
        *streaming.PARTS,
    )
    for module in (pairing, tool_choice):
        yield from verdicts_of(ast.parse(Path(module.__file__).read_text(encoding="utf-8")))


def verdicts_of(tree):
    functions = (node for node in ast.walk(tree) if getattr(node, "name", "") == "verdict")
    told = (node for function in functions for node in ast.walk(function))
    for node in (inner for one in told if isinstance(one, ast.Return) for inner in ast.walk(one)):
        if isinstance(node, ast.Constant):
            yield node.value


def places(text):
    return sorted(re.findall(r"{(\w+)}", text))


@pytest.mark.parametrize("language", sorted({*texts.LANGUAGES} - {"en"}))
def test_a_catalogue_holds_every_text_and_no_other(language):
    wanted, held = set(fixed_texts()), catalogue(language)
    assert len(wanted) > 250
    assert wanted - set(held) == set()
    assert set(held) - wanted == set()
    assert [text for text in held if places(text) != places(held[text])] == []


def test_a_text_is_said_in_the_language_of_the_block():
    assert say("{n} units", n=3) == "3 units"
    with speaking("zh"):
        assert say("{n} units", n="{x}") == "{x} 个单元"
        assert say("not in the catalogue: {n}", n=1) == "not in the catalogue: 1"
    assert say("Answer") == "Answer"


def test_a_language_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="'fr' is none of"), speaking("fr"):
        pass


LEFT = {
    "a sentence": ("## 结论\n\nNothing is left of it.\n", ["Nothing is left of it"]),
    "in a cell": ("| 是 | what the tool does (3 of 4) |", ["what the tool does"]),
    "names": ("**ReAct**：Clopper-Pearson, native@rescue, get_weather → none（BCa）", []),
    "what a model said": ("`````text\nI am not quite sure\n`````\n", []),
    "what a dataset says": ("| How warm \\[C\\] is it? |", []),
    "the manifest": ("## 清单\n\nsome words of its own\n", []),
}


@pytest.mark.parametrize(("text", "left"), LEFT.values(), ids=LEFT)
def test_english_is_found_in_a_report_in_chinese(english_left, text, left):
    assert english_left(f"# 报告\n\n{text}", {"question": "How warm [C] is it?"}) == left


COUNTS = {"changed": 2, "replies": 9, "left": 0}
NOTES = {
    "scripted": (scripted_note("replies.jsonl"), "没有询问任何模型"),
    "a part": (LIMITED, "只有部分任务"),
    "rescored": (rescore._note("r1", {}, COUNTS, []), "9 个读取结果中有 2 个与之前不同"),
    "by other gold": (
        rescore._note("r1", {}, COUNTS, ["tasks/single.jsonl"]),
        "tasks/single.jsonl。",
    ),
    "one's own": ("server: mine", "server: mine"),
    "too long to be looked at": ("Seconds of m: " + "9" * 2_000 + ".", "Seconds of m"),
}


@pytest.mark.parametrize(("note", "told"), NOTES.values(), ids=NOTES)
def test_what_a_run_notes_is_said_again(note, told):
    assert findings.tell_note(note) == note
    with speaking("zh"):
        assert told in findings.tell_note(note)


RETOLD = {
    "a form": ("9 units, under 15: counts only", "只有 9 个单元，少于 15 个：只报告计数"),
    "none": ("something new", "something new"),
}


@pytest.mark.parametrize(("text", "told"), RETOLD.values(), ids=RETOLD)
def test_a_text_made_elsewhere_is_said_again(text, told):
    with speaking("zh"):
        assert retell(text, findings._NOTES) == told
