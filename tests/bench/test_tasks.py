"""Task lines: the loader's clear errors, the filters, the data set's rules and its replays."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema_rs import validator_for

from bench.check import check_each, check_rules, check_tasks, damage, gold_replay, mask, spoil
from bench.tasks import CATEGORIES, choose_tasks, list_task_files, load_tasks, task_from_row
from bench.tools import load_tools
from bench.types import AnswerPart, Gold, Task, WantedCall, Wording, WorkbenchError

DATASETS = Path(__file__).parents[2] / "datasets"

ROW = {
    "id": "single-01-en",
    "pair": "single-01",
    "lang": "en",
    "category": "single",
    "toolset": "weather",
    "question": "How warm is it in Beijing?",
    "gold": {
        "calls": [{"tool": "get_weather", "arguments": {"city": ["Beijing", "北京"]}}],
        "contains": [{"number": 25}],
    },
}


def write(folder: Path, *lines: str) -> Path:
    path = folder / "mine.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def line(**changes) -> str:
    row = {key: value for key, value in {**ROW, **changes}.items() if value is not None}
    return json.dumps(row, ensure_ascii=False)


def with_gold(**gold) -> str:
    return line(gold={**ROW["gold"], **gold})


def call(**changes) -> list[dict]:
    return [{**ROW["gold"]["calls"][0], **changes}]


# ---------------------------------------------------------------- the loader

BAD_LINES = {
    "not JSON": ("{", "is not JSON"),
    "no object": ("[1]", "wrong type; expected: object"),
    "nested too deeply": ("[" * 100_000, "is not JSON"),
    "a field is missing": (line(toolset=None), "missing field: toolset; required: id, pair"),
    "an unknown field": (line(tols="x"), "unknown field: tols"),
    "a near field is suggested": (line(toolsets="x"), "did you mean: toolset"),
    "an unknown category": (
        line(category="simple"),
        "value not allowed in category; allowed: single",
    ),
    "an unknown language": (line(lang="fr"), "value not allowed in lang; allowed: en, zh"),
    "an unknown toolset": (line(toolset="wether"), "unknown toolset 'wether'; use one of weather"),
    "an empty question": (line(question=""), "minLength"),
    "an id that is a path": (line(id="../x"), "pattern"),
    "an unknown field of the gold": (with_gold(answer=1), "unknown field: answer in gold"),
    "an unknown tool": (
        with_gold(calls=call(tool="get_wether")),
        "unknown tool 'get_wether' in toolset 'weather'; use one of get_weather",
    ),
    "a tool of another toolset": (
        with_gold(calls=call(tool="get_order")),
        "unknown tool 'get_order' in toolset 'weather'",
    ),
    "an unknown forbidden tool": (
        with_gold(forbidden=["get_wether"]),
        "in forbidden; use one of get_weather",
    ),
    "a call without tool": (with_gold(calls=[{}]), "missing field: tool in gold.calls.0"),
    "a value that is no list": (
        with_gold(calls=call(arguments={"city": "Beijing"})),
        "wrong type in gold.calls.0.arguments.city",
    ),
    "no acceptable value": (with_gold(calls=call(arguments={"city": []})), "minItems"),
    "free wording without an example": (
        with_gold(calls=call(arguments={"city": [{"$words": ["x"]}]})),
        "gold.calls.0.arguments.city.0",
    ),
    "an empty answer part": (with_gold(contains=[{}]), "minProperties"),
    "a tolerance without number": (
        with_gold(contains=[{"tolerance": 1, "any": ["x"]}]),
        "missing field: number in gold.contains.0",
    ),
    "a text for a number": (
        with_gold(contains=[{"number": "25"}]),
        "wrong type in gold.contains.0.number",
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_told_with_file_line_and_fix(tmp_path, bad, message):
    path = write(tmp_path, line(id="single-02-en"), "", bad)
    with pytest.raises(WorkbenchError) as caught:
        load_tasks([path])
    told = str(caught.value)
    assert told.startswith(f"{path}:3: ")
    assert message in told
    assert "\n" not in told


def test_a_repeated_id_is_told(tmp_path):
    path = write(tmp_path, line(), line())
    with pytest.raises(WorkbenchError, match=r"mine\.jsonl:2: id 'single-01-en' is there already"):
        load_tasks([path])
    one, other = write(tmp_path, line()), tmp_path / "other.jsonl"
    other.write_text(line(), encoding="utf-8")
    with pytest.raises(WorkbenchError, match="two task files have the id"):
        load_tasks([one, other])


FILES = {
    "no file": (None, "cannot be read: No such file"),
    "an empty file": (b"\n\n", "holds no task"),
    "no UTF-8": ('{"id": "北"}'.encode("gb18030"), "is not UTF-8"),
    "a folder": ("folder", "cannot be read"),
}


@pytest.mark.parametrize(("content", "message"), FILES.values(), ids=FILES)
def test_a_bad_file_is_told(tmp_path, content, message):
    path = tmp_path / "mine.jsonl"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(WorkbenchError, match=re.escape(message)):
        load_tasks([path])


def test_a_line_becomes_a_task(tmp_path):
    odd = call(
        arguments={
            "city": [{"$like": "in Beijing", "$words": ["in", ["Beijing", "北京"]]}, {"a": [1]}],
        },
        optional=["unit"],
    )
    text = with_gold(
        calls=odd,
        ordered=True,
        excludes=["rain"],
        unsolvable=False,
        contains=[{"number": 25, "tolerance": 0.5}, {"any": ["a", "b"]}],
    )
    (task,) = load_tasks([write(tmp_path, f"\ufeff{text}\u2028".replace("\u2028", ""))])
    wording = Wording("in Beijing", (("in",), ("Beijing", "北京")))
    assert task == Task(
        id="single-01-en",
        pair="single-01",
        lang="en",
        category="single",
        toolset="weather",
        question="How warm is it in Beijing?",
        gold=Gold(
            calls=(
                WantedCall("get_weather", {"city": (wording, {"a": [1]})}, frozenset({"unit"})),
            ),
            ordered=True,
            contains=(AnswerPart(25, 0.5), AnswerPart(any=("a", "b"))),
            excludes=("rain",),
        ),
    )


def test_a_line_separator_inside_a_string_ends_no_line(tmp_path):
    (task,) = load_tasks([write(tmp_path, line(question="a\u2028b"))])
    assert task.question == "a\u2028b"


def test_a_user_s_own_toolsets_replace_the_bundled_ones(tmp_path):
    path = write(tmp_path, line(toolset="mine", gold={"calls": [{"tool": "ping"}]}))
    (task,) = load_tasks([path], toolsets={"mine": ["ping"]})
    assert task.gold.calls == (WantedCall("ping"),)


# ---------------------------------------------------------------- filters

SOME = tuple(
    task_from_row({**ROW, "id": f"{c}-{n}-{g}", "pair": f"{c}-{n}", "lang": g, "category": c})
    for c in ("single", "typed")
    for n in (1, 2, 3)
    for g in ("en", "zh")
)

FILTERS = {
    "all": ({}, 12),
    "a category": ({"categories": ["typed"]}, 6),
    "a language": ({"langs": ["zh"]}, 6),
    "both": ({"categories": ["typed"], "langs": ["zh"]}, 3),
    "a task": ({"ids": ["typed-2-en"]}, 1),
    "a pair": ({"ids": ["typed-2", "single-1-en"]}, 3),
    "a limit": ({"limit": 5}, 5),
    "a limit beyond": ({"limit": 99}, 12),
}


@pytest.mark.parametrize(("chosen", "count"), FILTERS.values(), ids=FILTERS)
def test_filters_keep(chosen, count):
    kept = choose_tasks(SOME, **chosen)
    assert len(kept) == count
    assert list(kept) == [task for task in SOME if task in kept]


def test_a_limit_spreads_over_categories_and_keeps_pairs():
    kept = [task.id for task in choose_tasks(SOME, limit=6)]
    assert kept == [
        "single-1-en",
        "single-1-zh",
        "single-2-en",
        "single-2-zh",
        "typed-1-en",
        "typed-1-zh",
    ]


EMPTY = {
    "no such category": ({"categories": ["simple"]}, "no category 'simple'"),
    "no such language": ({"langs": ["fr"]}, "no language 'fr'; use one of en, zh"),
    "no such task": ({"ids": ["typed-9"]}, "no task 'typed-9'; use one of typed-"),
    "nothing left": (
        {"ids": ["typed-1"], "langs": ["en"], "categories": ["single"]},
        "no task passes",
    ),
    "a limit of nothing": ({"limit": 0}, "--limit 0 keeps no task"),
}


@pytest.mark.parametrize(("chosen", "message"), EMPTY.values(), ids=EMPTY)
def test_a_filter_that_names_nothing_is_told(chosen, message):
    with pytest.raises(WorkbenchError, match=re.escape(message)):
        choose_tasks(SOME, **chosen)


# ---------------------------------------------------------------- the bundled tasks


@pytest.fixture(scope="module")
def bundled():
    return load_tasks()


def test_every_category_has_its_file():
    assert [path.stem for path in list_task_files()] == list(CATEGORIES)


def test_the_schema_knows_the_categories():
    schema = json.loads((DATASETS / "schema" / "task.json").read_text(encoding="utf-8"))
    assert schema["properties"]["category"]["enum"] == list(CATEGORIES)
    validator_for(schema).validate(ROW)


def test_all_gold_scores_1_all_damaged_gold_0_and_every_rule_holds(bundled):
    found = check_tasks(bundled)
    assert found.problems == ()
    assert found.gold_right == found.tasks == len(bundled) >= 250
    assert found.damaged_wrong == found.damaged > 4 * found.tasks


def test_a_pair_asks_the_same_of_both_languages(bundled):
    chinese = re.compile("[一-鿿]")
    for task in bundled:
        if task.lang == "zh":
            assert chinese.search(task.question), task.id


# ---------------------------------------------------------------- the check itself


def make(**changes) -> Task:
    return task_from_row({**ROW, **changes})


def gold(**changes) -> dict:
    return {**ROW["gold"], **changes}


FAULTY = {
    "a wrong figure": (gold(contains=[{"number": 26.5}]), "26.5 is in no result of its calls"),
    "a wrong text": (gold(contains=[{"any": ["snow"]}]), "('snow',) is in no result"),
    "a call that fails": (gold(calls=call(arguments={"city": ["Atlantis"]})), "get_weather fails"),
    "an unknown parameter": (
        gold(calls=call(arguments={"city": ["Beijing"], "days": [1]})),
        "get_weather has no parameter days",
    ),
    "an answer in the question": (gold(contains=[{"any": ["Beijing"]}]), "stands in the question"),
    "a contradiction": (gold(excludes=["25"]), "its own gold scores 0"),
}


@pytest.mark.parametrize(("changed", "message"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_gold_is_found(changed, message):
    found = check_tasks([make(gold=changed)], complete=False)
    assert message in "\n".join(found.problems)


def test_a_damage_that_scores_1_is_found():
    lax = gold(calls=call(arguments={"city": [{"$like": "Beijing", "$words": ["zzqx"]}]}))
    found = check_tasks([make(gold=lax)], complete=False)
    assert "single-01-en: scores 1 with a wrong city in call 1" in found.problems
    assert found.damaged_wrong < found.damaged


def test_every_kind_of_damage_is_tried():
    names = {harm.name for harm in damage(make(), load_tools("weather"))}
    assert names == {
        "an empty answer",
        "a wrong answer",
        "a missing call",
        "a wrong tool",
        "a wrong city in call 1",
    }
    nothing = make(gold={"unsolvable": True, "forbidden": ["get_weather"]})
    names = {harm.name for harm in damage(nothing, load_tools("weather"))}
    assert names == {"an empty answer", "an invented figure", "a call to get_weather"}
    talk = make(gold={"contains": [{"any": ["hello"]}]})
    names = {harm.name for harm in damage(talk, load_tools("weather"))}
    assert names == {"an empty answer", "a wrong answer", "a needless call"}


def test_the_replay_takes_first_values_and_examples():
    wanted = gold(
        calls=call(arguments={"city": [{"$like": "Beijing", "$words": ["Beijing"]}, "x"]})
    )
    way = gold_replay(make(gold=wanted))
    assert way.calls[0].arguments == {"city": "Beijing"}
    assert way.final == "25"


def test_a_spoilt_value_is_another_of_its_type():
    assert spoil("a") == "zzqx"
    assert spoil(3) == 10
    assert spoil(True) is False
    assert spoil([1, 2]) == [8, 2]
    assert spoil({"a": {"b": "c"}, "d": 1}) == {"a": {"b": "zzqx"}, "d": 1}
    assert spoil([]) == "zzqx"


ALIKE = {
    "cities": ("How warm is it in Beijing?", "How warm is it in New York?"),
    "cities in Chinese": ("北京现在多少度？", "旧金山现在多少度？"),
    "numbers": ("What are 500 EUR in yuan?", "What are 1,250.75 USD in yuan?"),
    "numbers in Chinese": ("三百美元是多少？", "一千二百日元是多少？"),
    "orders and dates": ("Is A1001 from 2026-03-16?", "Is A1002 from 2026-03-02?"),
    "people": ("Call Anna Schmidt, please.", "call Li Wei please"),
    "quoted texts": ('Count "a b".', 'Count "something (else)".'),
}


@pytest.mark.parametrize(("one", "other"), ALIKE.values(), ids=ALIKE)
def test_questions_that_differ_only_in_names_and_numbers_are_alike(one, other):
    assert mask(one) == mask(other)


def test_questions_that_ask_otherwise_are_not_alike():
    assert mask("How warm is it in Beijing?") != mask("Is it warm in Beijing?")


def test_the_rules_of_the_set_are_checked():
    rows = [
        make(id=f"single-0{n}-en", pair=f"single-0{n}", question=f"How warm is it in {city}?")
        for n, city in ((3, "Paris"), (1, "Tokyo"), (2, "Seoul"))
    ]
    told = "\n".join(check_rules(rows))
    assert "single-03: needs one task in English and one in Chinese" in told
    assert "single: has 3 pairs, needs 16" in told
    assert "single-03-en, single-01-en, single-02-en: differ only in names and numbers" in told
    assert "get_weather: is wanted by 3 tasks, needs 4" in told
    assert "get_time: distracts in 3 tasks, needs 8" in told
    assert "single: its lines are not sorted by id" in told


def test_the_two_languages_must_want_the_same():
    other = make(id="single-01-zh", lang="zh", gold=gold(contains=[{"number": 24}]))
    assert "single-01: its two languages want different things" in check_rules([make(), other])


def test_names_are_checked():
    assert "bad-en: its pair must be single-NN" in check_each([make(id="bad-en", pair="bad")])
    told = check_each([replace(make(), id="single-02-en")])
    assert told == ["single-02-en: its id must be single-01-en"]


def test_recovery_needs_a_call_that_is_refused():
    row = {"id": "recovery-01-en", "pair": "recovery-01", "category": "recovery"}
    told = check_tasks([make(**row)], complete=False).problems
    assert told == ("recovery-01-en: none of the calls in `also` is refused by its tool",)
    first_try = [{"tool": "get_weather", "arguments": {"city": ["Bejing"]}}]
    assert check_tasks([make(**row, gold=gold(also=first_try))], complete=False).problems == ()
