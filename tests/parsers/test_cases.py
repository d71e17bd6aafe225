import json
from pathlib import Path

import pytest

from parsers import parse_react, parse_response
from parsers.types import LEVELS

CASES = Path(__file__).parents[2] / "datasets" / "cases"


def load(name):
    with (CASES / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def tools(name):
    return json.loads((CASES / name).read_text("utf-8"))


def moves(reading):
    if reading.failure is not None:
        return [{"failure": reading.failure.kind}]
    if reading.final is not None:
        return [{"final": reading.final}]
    return [{"call": one.name, "arguments": one.arguments} for one in reading.good_calls]


def same(got, expected):
    """Compare as JSON text: there 1 is not 1.0 and not True."""
    return json.dumps(got, sort_keys=True) == json.dumps(expected, sort_keys=True)


def right(case, level, reading):
    given = [case.get(level, case["hardened"]), *([case["also"]] if "also" in case else [])]
    return any(same(moves(reading), one) for one in given)


REACT, REACT_TOOLS = load("react.jsonl"), tools("react_tools.json")
NATIVE, NATIVE_TOOLS = load("native.jsonl"), tools("native_tools.json")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", REACT, ids=[case["id"] for case in REACT])
def test_react(case, level):
    reading = parse_react(
        case["text"],
        case.get("tools", REACT_TOOLS),
        level=level,
        dialect=case.get("dialect", "json"),
        finish_reason=case.get("finish_reason"),
    )
    assert right(case, level, reading), (moves(reading), reading.failure)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", NATIVE, ids=[case["id"] for case in NATIVE])
def test_native(case, level):
    request = case.get("_request", {})
    reading = parse_response(
        case["wire"],
        case.get("tools", NATIVE_TOOLS),
        level=level,
        finish_reason=case.get("finish_reason"),
        tool_choice=request.get("tool_choice", "auto"),
        parallel_tool_calls=request.get("parallel_tool_calls", True),
    )
    assert right(case, level, reading), (moves(reading), reading.failure)


def test_the_cases_cover_both_languages():
    assert {case["lang"] for case in REACT} == {"en", "zh"}
