"""BFCL's rows through our pipeline, on a small folder written here in BFCL's format.

The checker in that folder is a stand-in of a few lines, with BFCL's signature. The real wheel is
tried where it is found: installed, or named by BFCL_WHEEL.
"""

import importlib.util
import json
import os
import zipfile
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.bfcl.data import (
    CATEGORIES,
    acceptable_form,
    find_source,
    flatten,
    load_known_bad,
    load_rows,
    make_gold,
    make_task,
    make_tools,
    read_categories,
    to_schema,
)
from bench.bfcl.judge import Checker, calls_of, is_right, judge_episode, kept_quiet
from bench.bfcl.replay import replay, say_native, truth_of
from bench.bfcl.run import agreement
from bench.clients import reply_with
from bench.drivers import NativeDriver
from bench.paths import find_datasets
from bench.scoring import same
from bench.status import FOUND, MISTAKE, OK
from bench.transcripts import rescore_transcripts
from bench.types import Episode, Turn, WorkbenchError
from parsers import Call

CHECKER = '''
from bfcl_eval.constants.enums import Language
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING

def ast_checker(functions, calls, truth, language, category, model):
    """A stand-in: every wanted call once, texts compared without case, objects not at all."""
    assert language == Language.PYTHON
    if any("hang" in arguments for call in calls for arguments in call.values()):
        while True:
            pass
    dots = MODEL_CONFIG_MAPPING[model].underscore_to_dot
    if len(calls) != len(truth):
        return {"valid": False, "error_type": "stand_in:wrong_count"}
    def low(value):
        return value.lower() if isinstance(value, str) else "{}" if isinstance(value, dict) else value

    for wanted in truth:
        ((name, values),) = wanted.items()
        shown = name.replace(".", "_") if dots else name
        for call in calls:
            given = call.get(shown)
            if given is not None and all(
                low(given[key]) in map(low, listed) if key in given else "" in listed
                for key, listed in values.items()
            ) and set(given) <= set(values):
                break
        else:
            return {"valid": False, "error_type": "stand_in:no_match"}
    return {"valid": True, "error": []}
'''


def function(name, required=(), **properties):
    parameters = {"type": "dict", "properties": properties, "required": list(required)}
    return {"name": name, "description": f"Do {name}.", "parameters": parameters}


FACTORIAL = function("math.factorial", ["number"], number={"type": "integer"})
ROUTE = function(
    "get_route",
    ["start"],
    start={"type": "string", "description": "From where."},
    stops={"type": "tuple", "items": {"type": "any"}},
    options={"type": "dict", "properties": {"toll": {"type": "boolean"}, "km": {"type": "float"}}},
    mode={"type": "string", "enum": ["car", "bus"], "default": "car"},
    note={"type": "string", "default": None, "optional": True},
)
WEATHER = function("weather", ["city"], city={"type": "string"})
ROWS = {
    "simple_python": [
        (
            "simple_python_0",
            "What is 5 factorial?",
            [FACTORIAL],
            [{"math.factorial": {"number": [5]}}],
        ),
        (
            "simple_python_1",
            "A route from Bath, by Wells.",
            [ROUTE],
            [
                {
                    "get_route": {
                        "start": ["Bath, UK", "Bath"],
                        "stops": [["Wells"]],
                        "options": [{"toll": [True], "km": ["", 40.5]}],
                        "mode": ["", "car"],
                        "note": [""],
                    }
                }
            ],
        ),
        (
            "simple_python_2",
            "By train.",
            [ROUTE],
            [{"get_route": {"start": ["X"], "mode": ["train"]}}],
        ),
    ],
    "parallel": [
        (
            "parallel_0",
            "Weather in Rome and Oslo?",
            [WEATHER],
            [{"weather": {"city": ["Rome"]}}, {"weather": {"city": ["Oslo"]}}],
        ),
    ],
    "irrelevance": [("irrelevance_0", "Sing a song.", [WEATHER], None)],
}


@pytest.fixture
def folder(tmp_path):
    """Write a folder that looks like an unpacked bfcl-eval, with rows and a checker of our own."""
    package = tmp_path / "bfcl" / "bfcl_eval"
    data = package / "data"
    (data / "possible_answer").mkdir(parents=True)
    for category, rows in ROWS.items():
        lines, truths = [], []
        for name, question, functions, truth in rows:
            turn = [{"role": "user", "content": question}]
            lines.append({"id": name, "question": [turn], "function": functions})
            truths += [] if truth is None else [{"id": name, "ground_truth": truth}]
        write(data / f"BFCL_v4_{category}.json", lines)
        if truths:
            write(data / "possible_answer" / f"BFCL_v4_{category}.json", truths)
    files = {
        "__init__.py": "",
        "constants/__init__.py": "",
        "constants/enums.py": "from enum import Enum\n\nLanguage = Enum('Language', 'PYTHON')\n",
        "constants/model_config.py": "raise ImportError('this imports every vendor')\n",
        "eval_checker/__init__.py": "",
        "eval_checker/ast_eval/__init__.py": "",
        "eval_checker/ast_eval/ast_checker.py": CHECKER,
    }
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return package.parent


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def wheel(folder, tmp_path):
    path = tmp_path / "bfcl_eval-2026.3.23-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*.*")):
            archive.write(file, file.relative_to(folder).as_posix())
    return path


def rows_of(place, *categories):
    return load_rows(find_source(place), categories)


# ------------------------------------------------------------ finding and reading


def test_a_folder_a_checkout_and_a_wheel_hold_the_same_rows(folder, wheel):
    inner = folder / "bfcl_eval"
    wanted = rows_of(folder, "simple_python", "irrelevance")

    assert [row.id for row in wanted][-1] == "irrelevance_0"
    for place in (inner, inner / "data", wheel):
        assert rows_of(place, "simple_python", "irrelevance") == wanted
    assert find_source(wheel).version == "2026.3.23"
    assert find_source(folder).version is None


WRONG = {
    "no BFCL there": (lambda f: f.parent, "no BFCL data there"),
    "a file that is no wheel": (lambda f: f / "bfcl_eval" / "__init__.py", "no BFCL data there"),
}


@pytest.mark.parametrize(("place", "words"), WRONG.values(), ids=WRONG)
def test_a_place_without_bfcl_is_told(folder, place, words):
    with pytest.raises(WorkbenchError, match=words):
        find_source(place(folder))


SPOILED = {
    "not JSON": ("{", r"simple_python\.json:1: not JSON"),
    "several turns": (
        json.dumps({"id": "x", "question": [[], []], "function": []}),
        "not a single-turn row",
    ),
    "a function without parameters": (
        json.dumps({"id": "simple_python_0", "question": [[]], "function": [{"name": "f"}]}),
        "not a single-turn row",
    ),
    "no answer for a row": (
        json.dumps({"id": "new", "question": [[]], "function": []}),
        "new has no possible answer",
    ),
}


@pytest.mark.parametrize(("line", "words"), SPOILED.values(), ids=SPOILED)
def test_a_bad_row_is_told_with_its_line(folder, line, words):
    file = folder / "bfcl_eval" / "data" / "BFCL_v4_simple_python.json"
    file.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(WorkbenchError, match=words):
        rows_of(folder, "simple_python")


def test_categories_are_read_in_one_word_or_several():
    assert read_categories(["bfcl:multiple,parallel"]) == ("multiple", "parallel")
    assert read_categories(["bfcl:multiple", "bfcl:parallel,multiple"]) == ("multiple", "parallel")
    with pytest.raises(WorkbenchError, match="bfcl:multi_turn_base: no such category"):
        read_categories(["bfcl:multi_turn_base"])


# ------------------------------------------------------------ tools and gold


def test_types_and_names_are_what_endpoints_take(folder):
    factorial, route = (rows_of(folder, "simple_python")[at] for at in (0, 1))

    assert make_tools(factorial)[0].name == "math_factorial"
    schema = make_tools(route)[0].parameters
    assert schema["type"] == "object"
    assert schema["required"] == ["start"]
    assert schema["properties"]["stops"] == {"type": "array", "items": {"type": "string"}}
    assert schema["properties"]["options"]["properties"]["km"] == {"type": "number"}
    assert schema["properties"]["note"] == {"type": "string"}
    assert schema["properties"]["mode"]["default"] == "car"


def test_what_a_schema_lacks_is_not_invented():
    assert to_schema({}) == {"type": "string"}
    assert to_schema({"type": "array"}) == {"type": "array"}


QUESTIONS = {
    "one turn": ([("user", "Hi")], "Hi"),
    "with a system message": ([("system", "Be kind."), ("user", "Hi")], "Be kind.\n\nHi"),
    "several turns": (
        [("user", "Hi"), ("assistant", "Yes?"), ("user", "Bye")],
        "user: Hi\n\nassistant: Yes?\n\nuser: Bye",
    ),
}


@pytest.mark.parametrize(("turns", "text"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_is_one_text(turns, text):
    assert flatten([{"role": role, "content": content} for role, content in turns]) == text


SPELLED = {
    "case": ("New York", "new york", True),
    "commas and spaces": ("New York, NY", "new york NY", True),
    "dashes and slashes": ("2023-10-01", "2023/10/01", True),
    "quotes": ("the 'Best'", 'The "best"', True),
    "another word": ("New York", "York", False),
    "numbers are numbers": ("1.5", "15", False),
    "the same number": ("5", "5.0", True),
    "no text": ("5", 5, False),
}


@pytest.mark.parametrize(("wanted", "given", "right"), SPELLED.values(), ids=SPELLED)
def test_texts_are_the_same_as_bfcl_means_it(wanted, given, right):
    assert same(given, acceptable_form(wanted)) is right


FORMS = {
    "a list in order": (["a", "b"], ["A", "b"], True),
    "a list in another order": (["a", "b"], ["b", "a"], False),
    "an object": ({"x": [1, 2], "y": ["", "z"]}, {"x": 2, "y": "Z"}, True),
    "an object's key left out": ({"x": [1], "y": ["", "z"]}, {"x": 1}, True),
    "an object's key missing": ({"x": [1], "y": ["z"]}, {"x": 1}, False),
    "an object's key too many": ({"x": [1]}, {"x": 1, "y": 1}, False),
    "objects in a list": ([{"x": [1]}], [{"x": 1}], True),
    "an object inside an object": ({"x": [{"y": 1}]}, {"x": {"y": 1}}, True),
    "an integer is a number": (2.0, 2, True),
    "a truth is no number": (1, True, False),
    "null": (None, None, True),
}


@pytest.mark.parametrize(("form", "given", "right"), FORMS.values(), ids=FORMS)
def test_an_acceptable_value_is_taken(form, given, right):
    assert same(given, acceptable_form(form)) is right


def test_gold_names_what_may_be_left_out(folder):
    wanted = make_gold(rows_of(folder, "simple_python")[1]).calls[0]

    assert wanted.optional == {"mode", "note"}
    assert truth_of(
        make_task(rows_of(folder, "simple_python")[1]),
        make_tools(rows_of(folder, "simple_python")[1]),
    )[0].arguments == {
        "start": "Bath, UK",
        "stops": ["Wells"],
        "options": {"toll": True, "km": 40.5},
        "mode": "car",
        "note": "",
    }


# ------------------------------------------------------------ two judges

ROME, OSLO = ("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"})
JUDGED = {
    "both calls": ([ROME, OSLO], True, True),
    "in another order": ([OSLO, ROME], True, True),
    "one is missing": ([ROME], False, False),
    "one too many": ([ROME, OSLO, OSLO], False, False),
    "another value": ([ROME, ("weather", {"city": "Bonn"})], False, False),
    "where the stand-in is stricter": ([ROME, ("weather", {"city": "Os-lo"})], True, False),
}


@pytest.mark.parametrize(("calls", "ours", "official"), JUDGED.values(), ids=JUDGED)
def test_both_judges_see_the_same_calls(folder, calls, ours, official):
    source = find_source(folder)
    (row,) = load_rows(source, ["parallel"])
    made = [Call(name, arguments) for name, arguments in calls]

    assert is_right(make_task(row), made, make_tools(row)) is ours
    with Checker(source) as checker:
        assert checker.check(row, made).valid is official


def test_a_checker_that_hangs_or_is_not_there_gives_no_verdict(folder):
    source = find_source(folder)
    (row,) = load_rows(source, ["parallel"])

    with Checker(source, seconds=0.5) as checker:
        assert checker.check(row, [Call("weather", {"hang": 1})] * 2).valid is None
        assert checker.check(row, [Call(*ROME), Call(*OSLO)]).valid is True
    (folder / "bfcl_eval/eval_checker/ast_eval/ast_checker.py").unlink()
    with Checker(find_source(folder)) as checker:
        assert checker.check(row, []).why == "the checker is not there, only the data"


def test_the_stub_of_the_models_stays_in_its_process(folder):
    import sys

    with Checker(find_source(folder)) as checker:
        checker.check(rows_of(folder, "parallel")[0], [])

    assert not [name for name in sys.modules if name.startswith("bfcl_eval")]


def episode(row, *messages, stop="answered"):
    driver, tools = NativeDriver(), make_tools(row)
    turns = [Turn((), reply, driver.read(reply, tools)) for reply in map(reply_with, messages)]
    return Episode(
        *(row.id, row.id, "en", row.category, "native", None, "e", "m", "full", 0, "hardened"),
        stop,
        tuple(turns),
    )


def message(*calls):
    return say_native([Call(name, arguments) for name, arguments in calls])


def test_first_is_the_first_reply_and_all_counts_a_repeated_call_once(folder):
    (row,) = rows_of(folder, "parallel")
    one = episode(row, message(ROME), message(ROME, OSLO), "Done.")

    assert [call.arguments["city"] for call in calls_of(one, "first")] == ["Rome"]
    assert [call.arguments["city"] for call in calls_of(one, "all")] == ["Rome", "Oslo"]


def test_bfcl_sees_a_call_that_the_schema_refuses(folder):
    (row,) = rows_of(folder, "parallel")
    one = episode(row, message(ROME, ("weather", {"city": 5})), "Done.")

    assert [call.arguments for call in calls_of(one, "first")] == [{"city": "Rome"}, {"city": 5}]
    assert [call.arguments for call in calls_of(one, "all")] == [{"city": "Rome"}]


def test_an_endpoints_failure_is_never_charged(folder):
    source = find_source(folder)
    (row,) = load_rows(source, ["parallel"])
    lost = episode(row, stop="endpoint")
    later = episode(row, message(ROME), stop="endpoint")

    with Checker(source) as checker:
        scopes = [
            [
                j.scope
                for j in judge_episode(row, make_task(row), e, make_tools(row), checker, "native")
            ]
            for e in (lost, later)
        ]
    assert scopes == [[], ["first"]]


SILENT = {
    "an answer": (["La la la."], "abstained", True),
    "a call": ([message(ROME), "Done."], "called", False),
    "a broken call": (
        [
            {
                **message(ROME),
                "tool_calls": [{"id": "1", "function": {"name": "weather", "arguments": "{"}}],
            }
        ],
        "malformed",
        True,
    ),
    "a call that the schema refuses": ([message(("weather", {}))], "malformed", False),
    "no reply": ([], "endpoint", True),
}


@pytest.mark.parametrize(("messages", "outcome", "official"), SILENT.values(), ids=SILENT)
def test_no_call_wanted_has_four_outcomes_beside_bfcls_rule(folder, messages, outcome, official):
    source = find_source(folder)
    (row,) = load_rows(source, ["irrelevance"])
    one = episode(row, *messages)

    with Checker(source) as checker:
        (judged,) = judge_episode(row, make_task(row), one, make_tools(row), checker, "native")

    assert kept_quiet(one) == judged.outcome == outcome
    assert judged.ours is (outcome == "abstained")
    assert judged.official is official


# ------------------------------------------------------------ the commands


def test_the_truth_is_replayed_and_only_listed_rows_may_be_refused(folder, capsys):
    check = replay(find_source(folder), ["simple_python", "parallel", "irrelevance"])

    assert list(check.refused) == ["simple_python_2"]  # its own schema does not take its truth
    assert check.unknown == ("simple_python_2",)
    counts = {name: (c.rows, c.react, c.native, c.official) for name, c in check.counts.items()}
    assert counts == {
        "simple_python": (3, 2, 2, 3),
        "parallel": (1, 1, 1, 1),
        "irrelevance": (1, 1, 1, 1),
    }
    words = ["tasks", "--bfcl", str(folder), "--tasks"]
    assert main([*words, "bfcl:parallel,irrelevance"]) == OK
    assert main([*words, "bfcl:simple_python"]) == FOUND
    told = capsys.readouterr().out
    assert told.startswith("Scripted:")
    assert "simple_python_2: refused (react: schema_violation" in told
    assert "NOT LISTED" in told


def test_bfcl_is_compared_through_both_drivers(folder, tmp_path, capsys):
    script = tmp_path / "script.jsonl"
    done = {"answer": "Done."}
    replies = {
        "simple_python_0": [{"call": "math_factorial", "arguments": {"number": 5}}, done],
        "simple_python_1": [{"call": "get_route", "arguments": {"start": "Bath"}}, done],
        "parallel_0": [
            {
                "calls": [
                    {"call": n, "arguments": a} for n, a in (ROME, ("weather", {"city": "Os-lo"}))
                ]
            },
            done,
        ],
        "irrelevance_0": [done],
    }
    write(script, [{"task": name, "replies": told} for name, told in replies.items()])
    words = ["compare", "--tasks", "bfcl:simple_python,parallel,irrelevance", "--bfcl", str(folder)]
    words += ["--task", *replies, "--script", str(script), "--results", str(tmp_path / "runs")]

    assert main(words) == OK

    told = capsys.readouterr().out
    (run,) = (tmp_path / "runs").iterdir()
    assert "they agree on 4 of 6" in told
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["bfcl"]["judge"] == "bfcl_eval==unknown"
    assert len(manifest["bfcl"]["files"]["BFCL_v4_parallel.json"]) == 64
    lines = [json.loads(line) for line in (run / "bfcl.jsonl").read_text().splitlines()]
    verdicts = {(j["task_id"], j["driver"]): (j["ours"], j["official"]) for j in lines}
    assert verdicts == {
        (name, driver): verdict
        for driver in ("react", "native")
        for name, verdict in {
            "simple_python_0": (True, True),
            "simple_python_1": (False, False),
            "parallel_0": (True, False),
            "irrelevance_0": (True, True),
        }.items()
    }
    page = (run / "bfcl.md").read_text(encoding="utf-8")
    assert "## Where they disagree: 4" in page
    assert (
        "- parallel_0, react, first: ours and theirs right, wrong (stand\\_in:no\\_match)" in page
    )
    assert main(["compare", "--resume", str(run)]) == OK
    assert main(["rescore", str(run), "--results", str(tmp_path / "again")]) == OK
    (again,) = (tmp_path / "again").iterdir()
    assert (again / "bfcl.md").read_text(encoding="utf-8") == page


LEFT_OUT = {
    "a toolset": (["--toolset", "all"], "--toolset: BFCL's rows bring their own tools"),
    "a variant": (["--variant", "bare"], "--variant: BFCL's rows bring their own tools"),
    "no model": ([], "none of the chosen tasks is recorded there"),
}


@pytest.mark.parametrize(("words", "told"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_does_not_go_with_bfcl_is_a_mistake(folder, capsys, words, told):
    status = main(["compare", "--tasks", "bfcl:parallel", "--bfcl", str(folder), *words])

    assert status == MISTAKE
    assert told in capsys.readouterr().err


def test_agreement_is_undefined_where_there_is_one_verdict_only(folder):
    source = find_source(folder)
    (row,) = load_rows(source, ["parallel"])
    one = episode(row, message(ROME, OSLO), "Done.")
    with Checker(source) as checker:
        judged = list(judge_episode(row, make_task(row), one, make_tools(row), checker, "native"))

    assert agreement(judged) == (2, 2, None)


# ------------------------------------------------------------ BFCL's stored results

RESULTS = {
    "the list": ("[math.factorial(number=5)]", "ccc"),
    "in a fence": ("```python\n[math.factorial(number=5)]\n```", "mcc"),
    "behind chatter": ("Sure! Here you go: [math.factorial(number=5)]", "acc"),
    "an object": ('{"name": "math.factorial", "arguments": {"number": 5}}', "mmc"),
    "cut off": ("[math.factorial(number=5", "mmm"),
    "an answer": ("It is 120.", "aaa"),
}
NATIVE_RESULTS = {
    "a call": ([{"math_factorial": '{"number": 5}'}], "ccc"),
    "a trailing comma": ([{"math.factorial": '{"number": 5,}'}], "mcc"),
    "an answer instead": ("It is 120.", "aaa"),
}
LETTERS = {"c": "call", "a": "answer", "m": "unreadable"}


@pytest.mark.parametrize(("result", "wanted"), RESULTS.values(), ids=RESULTS)
def test_a_text_result_is_read_at_three_levels(folder, tmp_path, result, wanted):
    check_result(folder, tmp_path, [result], wanted)


@pytest.mark.parametrize(("result", "wanted"), NATIVE_RESULTS.values(), ids=NATIVE_RESULTS)
def test_a_native_result_is_read_at_three_levels(folder, tmp_path, result, wanted):
    check_result(folder, tmp_path, [result, [{"math_factorial": '{"number": 5}'}]], wanted)


def check_result(folder, tmp_path, results, wanted):
    path = tmp_path / "BFCL_v4_simple_python_result.json"
    write(path, [{"id": "simple_0", "result": result} for result in results])

    found = rescore_transcripts(path, "bfcl-results", bfcl=folder)

    rest = len(results) - 1
    for count, letter in zip(found.levels.values(), wanted, strict=True):
        got = (count.call - rest, count.answer, count.unreadable)
        assert got == tuple(int(letter == other) for other in "cam")
        assert count.right - rest == int(letter == "c")


def test_results_of_a_folder_are_summed_up(folder, tmp_path, capsys):
    write(
        tmp_path / "BFCL_v4_simple_python_result.json",
        [
            {"id": "simple_python_0", "result": "```\n[math.factorial(number=5)]\n```"},
            {"id": "simple_python_0", "result": "Error during inference: time-out"},
            {"id": "multi_turn_base_0", "result": [["f()"]]},
        ],
    )
    write(tmp_path / "BFCL_v4_irrelevance_result.json", [{"id": "irrelevance_0", "result": "No."}])

    status = main(
        ["rescore", str(tmp_path), "--format", "bfcl-results", "--bfcl", str(folder), "--json"]
    )

    found = json.loads(capsys.readouterr().out)
    assert status == OK
    assert (found["replies"], found["endpoint"], found["gold"]) == (3, 1, 2)
    assert found["unreadable_at_strict"] == {"hardened": 1, "rescue": 0, "never": 0}
    assert found["levels"]["strict"]["right"] == 1
    assert found["levels"]["hardened"]["right"] == 2
    assert sum(found["left_out"].values()) == 1


# ------------------------------------------------------------ the list of bad rows, the real wheel


def test_the_list_of_bad_rows_is_sound():
    rows = json.loads((find_datasets() / "bfcl_known_bad.json").read_text(encoding="utf-8"))["rows"]

    assert all(set(row) == {"id", "version", "reason"} and row["reason"] for row in rows)
    assert len({(row["id"], row["version"]) for row in rows}) == len(rows)
    assert load_known_bad("2026.3.23") == load_known_bad(None)
    assert load_known_bad("1.0") == {}


def test_the_real_truth_is_refused_only_where_it_is_listed():
    named = os.environ.get("BFCL_WHEEL")
    if named is None and importlib.util.find_spec("bfcl_eval") is None:
        pytest.skip("no bfcl-eval is installed, and BFCL_WHEEL names none")
    source = find_source(Path(named) if named else None)
    if load_known_bad(source.version) == {}:
        pytest.skip(f"no bad rows are listed for bfcl-eval {source.version}")

    check = replay(source, CATEGORIES[:5])

    assert check.unknown == ()
    assert all(count.rows for count in check.counts.values())
