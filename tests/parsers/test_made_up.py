"""Replies made up from the contract, in the form of the cases, read at the three levels."""

import json
from pathlib import Path

import pytest

from parsers import ReactStream, parse_react
from parsers.types import LEVELS

HERE = Path(__file__).parent / "made_up"
CASES = Path(__file__).parents[2] / "datasets" / "cases"
TOOLS = {
    "replies": json.loads((CASES / "react_tools.json").read_text("utf-8")),
    "other_replies": json.loads((HERE / "other_tools.json").read_text("utf-8")),
}


def load(name):
    for line in (HERE / f"{name}.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        yield pytest.param(case, TOOLS[name], id=case["id"])


REPLIES = [case for name in TOOLS for case in load(name)]


def said(reading):
    if reading.failure is not None:
        return [{"failure": reading.failure.kind}]
    if reading.final is not None:
        return [{"final": reading.final}]
    return [{"call": one.name, "arguments": one.arguments} for one in reading.good_calls]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("case", "tools"), REPLIES)
def test_it_is_read_by_the_contract(case, tools, level):
    reading = parse_react(case["text"], tools, level=level, finish_reason=case.get("finish_reason"))
    assert said(reading) == case.get(level, case["hardened"])


@pytest.mark.parametrize(("case", "tools"), REPLIES)
def test_it_is_read_by_pieces_as_whole(case, tools):
    finish = case.get("finish_reason")
    for tail in ("", "<|im_end|>", "\nObservation: x\nFinal Answer: y"):
        text = case["text"] + tail
        stream = ReactStream(tools)
        for character in text:
            stream.feed(character)
        assert stream.finish(finish) == parse_react(text, tools, finish_reason=finish)
