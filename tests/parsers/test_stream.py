import json
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from parsers import ReactStream, parse_react
from parsers.types import LEVELS

CASES = Path(__file__).parents[2] / "datasets" / "cases"
TOOLS = json.loads((CASES / "react_tools.json").read_text("utf-8"))
with (CASES / "react.jsonl").open(encoding="utf-8") as _lines:
    TEXTS = [json.loads(line)["text"] for line in _lines]
STEP = 'Thought: x\nAction: get_weather\nAction Input: {"city": "北京"}'


def feed(data, size, tools=TOOLS, **options):
    stream = ReactStream(tools, **options)
    given = [stream.feed(data[at : at + size]) for at in range(0, len(data), size)]
    return stream, given


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_every_case_reads_as_the_whole_text_does(kind, size, level):
    for text in TEXTS:
        for tail in ("", "\nObservation: fine\nThought: done\nFinal Answer: 12"):
            whole = parse_react(text + tail, TOOLS, level=level)
            data = (text + tail).encode() if kind == "bytes" else text + tail
            stream, given = feed(data, size, level=level)
            assert stream.finish() == whole
            assert {id(one) for one in given if one is not None} <= {id(stream.finish())}


PIECES = strategies.sampled_from(
    [
        *(
            "Thought: ",
            "Action: ",
            "Action Input: ",
            "Final Answer: ",
            "Observation:",
            "Question: ",
        ),
        *(
            "\n",
            "\n",
            "\n",
            "### Observation",
            "**Observation:**",
            "观察",
            "：",
            "```",
            "```json",
            "~~~",
        ),
        *(
            "<think>",
            "</think>",
            "<|im_end|>",
            "</s>",
            "get_weather",
            "get_time",
            '{"city": "Oslo"}',
        ),
        *(
            '"',
            "{",
            "}",
            "'",
            "[",
            "(",
            ")",
            "\\",
            " ",
            "x",
            "北京",
            "\r\n",
            "\r",
            "obs",
            "> ",
            "- ",
        ),
    ]
)
MIXED = strategies.lists(PIECES, max_size=24).map("".join)
CUTS = strategies.lists(strategies.integers(1, 12), min_size=1, max_size=8)
EXAMPLES = hypothesis.settings(max_examples=400, deadline=None)


@EXAMPLES
@hypothesis.given(MIXED, CUTS, strategies.sampled_from([None, "length"]), strategies.booleans())
def test_any_cutting_gives_the_same_reading(text, cuts, finish, as_bytes):
    data = text.encode() if as_bytes else text
    stream, at, turn, given = ReactStream(TOOLS), 0, 0, []
    while at < len(data):
        size = cuts[turn % len(cuts)]
        given.append(stream.feed(data[at : at + size]))
        at, turn = at + size, turn + 1
    whole = parse_react(text, TOOLS, finish_reason=finish)
    assert stream.finish(finish) == whole
    assert all(one in (None, whole) for one in given)


SETTLED = {
    "the first Observation": f"{STEP}\nObservation:",
    "an Observation in Chinese": f"{STEP}\n观察：",
    "an Observation in bold": f"{STEP}\n**Observation:",
    "a next question behind an action": f"{STEP}\nQuestion:",
    "a next question behind an answer": "Final Answer: 42\nQuestion:",
    "an end token behind an action": f"{STEP}<|im_end|>",
    "an end token behind an answer, once its line ends": "Final Answer: 42<|im_end|>\n",
    "an Observation before any move": "Thought: x\nObservation:",
    "an Observation behind an open brace": f"{STEP[:-1]}\nObservation:",
}


@pytest.mark.parametrize("text", SETTLED.values(), ids=SETTLED)
def test_a_reading_is_given_at(text):
    stream, given = feed(text, 1)
    assert given[:-1] == [None] * (len(given) - 1)
    assert given[-1] == stream.finish() == parse_react(f"{text} and more\nAction: get_time", TOOLS)


OPEN = {
    "the end of a value": STEP,
    "the end of a value's line": f"{STEP}\n",
    "a thought behind a value": f"{STEP}\nThought: and",
    "an Observation in an open string": 'Action: search\nAction Input: {"query": "a\nObservation: b',
    "an Observation in an open think block": "<think>\nObservation: b",
    "an Observation in an open fence": "Final Answer: so\n```\nObservation: b",
    "a question before any move": "Question: what?\nThought: x",
    "the word in a sentence": f"{STEP}\nThe Observation: comes",
    "an end token in an answer's sentence": "Final Answer: <|im_end|> is a token",
    "an end token in an answer's open fence": "Final Answer:\n```\n<|im_end|>\n",
}


@pytest.mark.parametrize("text", OPEN.values(), ids=OPEN)
def test_no_reading_is_given_at(text):
    stream, given = feed(text, 3)
    assert set(given) == {None}
    assert stream.finish() == parse_react(text, TOOLS)


QUERY = "Action: search\nAction Input: "
FOUND = {
    "an end token in an open value, then a label": 'Input:{""<|im_end|>\nTool:"',
    "an end token in an open value, then another step": f'{QUERY}{{"query": "a"\n<|im_end|>\n{STEP}',
    "an end token before the last brace": f'{QUERY}{{"query": "a"<|im_end|>}}',
    "an end token before a list's end": f'{QUERY}[{{"query": "a"}}<|im_end|>]',
    "an end token in a string": f'{QUERY}{{"query": "a<|im_end|>"}}',
    "an end token in a string with quotes inside": f'{QUERY}{{"query": "a<|im_end|>": "b"}}',
    "an end token in single quotes": f"{QUERY}{{'query': 'a<|im_end|>'}}",
    "an end token in a call": 'Action: search("a"<|im_end|>)',
    "an end token in a string of a call": f'{QUERY}search("a<|im_end|>")',
    "an end token before a label on its line": "ActioN:{\n<|eot_id|>观察：",
    "a name behind a label on the next line": "FinalAnswer:\nAction:\nObservation:get_wEATher",
}


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND)
def test_what_a_fuzz_found_reads_by_pieces_as_whole(text):
    for size in (1, 2, 5):
        stream, _ = feed(text, size)
        assert stream.finish() == parse_react(text, TOOLS)


@pytest.mark.parametrize("rest", ["(x)", "()", "\n(x)", '{"city": "Rome"}'])
def test_what_follows_an_end_token_changes_nothing(rest):
    text = f"{STEP}<|im_end|>{rest}"
    stream, given = feed(text, 1)
    assert given[-1] == stream.finish() == parse_react(text, TOOLS)


def test_text_and_bytes_may_mix():
    stream = ReactStream(TOOLS)
    data = STEP.encode()
    stream.feed(STEP[:20])
    stream.feed(data[20:-3])
    stream.feed(data[-3:])
    assert stream.finish() == parse_react(STEP, TOOLS)


def test_bytes_that_are_no_text_are_replaced():
    stream = ReactStream(TOOLS)
    stream.feed(b"Final Answer: \xff\xe4")
    assert stream.finish().final == "\ufffd\ufffd"


def test_feeding_after_the_reading_changes_nothing():
    stream, given = feed(f"{STEP}\nObservation: 12", 5)
    settled = next(one for one in given if one)
    assert stream.feed("\nFinal Answer: 42") is settled
    assert stream.finish("length") is settled


def test_a_level_and_a_dialect_may_be_asked_for():
    text = "Action: get_weather[Oslo]"
    stream, _ = feed(text, 4, level="strict", dialect="bracket")
    assert stream.finish() == parse_react(text, TOOLS, level="strict", dialect="bracket")
    assert stream.finish().failure is None


def test_feeding_stays_linear_where_every_line_could_end_the_reply():
    line = "it said x, then\nObservation: no\n"
    text = 'Action: search\nAction Input: {"query": "' + line * 2000
    stream, given = feed(text, 9)
    assert set(given) == {None}
    assert stream._spent <= 3 * len(text) + 100_000
