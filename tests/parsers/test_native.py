"""An assistant message with native calls: names, arguments, shapes, ids, content, choice, leaks."""

import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parcels import (
    K1,
    K1_K2,
    TOOLS,
    holds_one,
    make_entry,
    make_plain,
    make_stream,
    outcome_of,
    repairs_of,
    send,
)

from parsers.content import read_content
from parsers.explain import SENTENCES
from parsers.native import parse_native
from parsers.types import LEVELS, Level, Reading
from parsers.wire import parse_response

CASES = Path(__file__).parents[2] / "datasets" / "cases"


def _says(*entries: Any, **other: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(entries), **other}


def _with(name: Any, arguments: Any) -> dict[str, Any]:
    return _says(make_entry(arguments, name=name))


def _room(**other: Any) -> list[Any]:
    return [("book_room", {"room": "R1", "guests": 2, **other})]


SYNTAX = "bad_arguments_syntax"
SHAPE = "bad_arguments_shape"
SCHEMA = "schema_violation"
CUT = "truncated_output"

ARGUMENTS: dict[str, tuple[str, Any, Any, Any]] = {
    # tool, arguments, hardened, strict (None: the same)
    "an object": ("track_parcel", '{"code": "K1"}', K1, None),
    "white space around": ("track_parcel", ' \n{"code": "K1"}\n', K1, None),
    "an empty text, nothing needed": ("list_rooms", "", [("list_rooms", {})], SYNTAX),
    "blanks, nothing needed": ("list_rooms", "  ", [("list_rooms", {})], SYNTAX),
    "the word null, nothing needed": ("list_rooms", "null", [("list_rooms", {})], SYNTAX),
    "the word None, nothing needed": ("list_rooms", "None", [("list_rooms", {})], SYNTAX),
    "an empty object, nothing needed": ("list_rooms", "{}", [("list_rooms", {})], None),
    "null itself, nothing needed": ("list_rooms", None, [("list_rooms", {})], None),
    "an empty text, something needed": ("track_parcel", "", SCHEMA, SYNTAX),
    "an empty object, something needed": ("track_parcel", "{}", SCHEMA, None),
    "null itself, something needed": ("track_parcel", None, SCHEMA, None),
    "an object that came decoded": ("track_parcel", {"code": "K1"}, K1, None),
    "an object encoded twice": ("track_parcel", '"{\\"code\\": \\"K1\\"}"', K1, SYNTAX),
    "an object with every quote escaped": ("track_parcel", '{\\"code\\": \\"K1\\"}', K1, SYNTAX),
    "cut inside a key": ("book_room", '{"room": "R1", "gue', CUT, None),
    "cut inside a text": ("track_parcel", '{"code": "K', CUT, None),
    "cut inside a number": ("book_room", '{"room": "R1", "guests": 2', CUT, None),
    "cut behind a comma": ("book_room", '{"room": "R1",', CUT, None),
    "only the last brace is missing": ("track_parcel", '{"code": "K1"', K1, CUT),
    "a brace missing, a field too": ("book_room", '{"room": "R1"', CUT, None),
    "the same object twice": ("track_parcel", '{"code":"K1"}{"code":"K1"}', K1, SYNTAX),
    "two different objects": (
        "track_parcel",
        '{"code":"K1"}{"code":"K2"}',
        "ambiguous_calls",
        None,
    ),
    "closers behind": ("track_parcel", '{"code":"K1"}]}', K1, SYNTAX),
    "a template token behind": ("track_parcel", '{"code":"K1"}<|eot_id|>', K1, SYNTAX),
    "a fence around": ("track_parcel", '```json\n{"code":"K1"}\n```', K1, SYNTAX),
    "single quotes": ("track_parcel", "{'code': 'K1'}", K1, SYNTAX),
    "Python's words": (
        "book_room",
        '{"room": "R1", "guests": 2, "quiet": True}',
        _room(quiet=True),
        SYNTAX,
    ),
    "a trailing comma": ("track_parcel", '{"code": "K1",}', K1, SYNTAX),
    "a bare line break in a text": (
        "track_parcel",
        '{"code": "K\n1"}',
        [("track_parcel", {"code": "K\n1"})],
        SYNTAX,
    ),
    "a backslash that escapes nothing": (
        "track_parcel",
        '{"code": "\\d+"}',
        [("track_parcel", {"code": "\\d+"})],
        SYNTAX,
    ),
    "good and bad escapes mixed": ("track_parcel", '{"code": "\\d\\n"}', SYNTAX, None),
    "inner quotes": (
        "track_parcel",
        '{"code": "the "red" one"}',
        [("track_parcel", {"code": 'the "red" one'})],
        SYNTAX,
    ),
    "a sum": ("book_room", '{"room": "R1", "guests": 1+1}', SYNTAX, None),
    "prose": ("track_parcel", "the parcel K1, please", SYNTAX, None),
    "a list": ("track_parcel", '["K1"]', SHAPE, None),
    "a list that came decoded": ("track_parcel", ["K1"], SHAPE, None),
    "a list with one object": ("track_parcel", '[{"code": "K1"}]', K1, SYNTAX),
    "a text in quotes": ("track_parcel", '"K1"', SHAPE, None),
    "a number": ("track_parcel", "7", SHAPE, None),
    "a number that came decoded": ("track_parcel", 7, SHAPE, None),
    "a truth that came decoded": ("track_parcel", True, SHAPE, None),
    "a number as text": ("book_room", '{"room": "R1", "guests": "2"}', SCHEMA, None),
    "a truth as text": ("book_room", '{"room":"R1","guests":2,"quiet":"true"}', SCHEMA, None),
    "a whole number with a point": ("book_room", '{"room":"R1","guests":2.0}', _room(), None),
    "an escaped letter": (
        "track_parcel",
        '{"code": "\\u897f"}',
        [("track_parcel", {"code": "西"})],
        None,
    ),
    "a letter escaped twice": (
        "track_parcel",
        '{"code": "\\\\u897f"}',
        [("track_parcel", {"code": "\\u897f"})],
        None,
    ),
    "a NUL": ("track_parcel", '{"code": "K\\u00001"}', K1, SYNTAX),
    "a lone surrogate": (
        "track_parcel",
        '{"code": "K\\ud83d"}',
        [("track_parcel", {"code": "K\ufffd"})],
        SYNTAX,
    ),
    "a key twice": ("track_parcel", '{"code": "K1", "code": "K2"}', SYNTAX, None),
    "NaN": ("book_room", '{"room": "R1", "guests": NaN}', SYNTAX, None),
    "Infinity": ("book_room", '{"room": "R1", "guests": Infinity}', SYNTAX, None),
    "NaN that came decoded": ("book_room", {"room": "R1", "guests": float("nan")}, SYNTAX, None),
    "a field too many": ("track_parcel", '{"code": "K1", "fast": 1}', SCHEMA, None),
    "the call's own envelope": (
        "track_parcel",
        '{"name": "track_parcel", "arguments": {"code": "K1"}}',
        K1,
        SYNTAX,
    ),
    "the envelope of another tool": (
        "track_parcel",
        '{"name": "list_rooms", "arguments": {"code": "K1"}}',
        "ambiguous_calls",
        None,
    ),
    "prose behind": ("track_parcel", '{"code": "K1"} as you asked', K1, SYNTAX),
    "prose before": ("track_parcel", 'Sure: {"code": "K1"}', K1, SYNTAX),
    "cumulative pieces, joined": ("track_parcel", '{"co{"code": "K1"}', K1, SYNTAX),
    "an empty object before another": ("track_parcel", '{}{"code": "K1"}', "ambiguous_calls", None),
    "a wrapper key": ("track_parcel", '{"arguments": {"code": "K1"}}', K1, SYNTAX),
    "nested beyond the cap": (
        "track_parcel",
        '{"code": ' + "[" * 300 + "]" * 300 + "}",
        SYNTAX,
        None,
    ),
    "nested beyond every decoder": ("track_parcel", "[" * 100_000, SYNTAX, None),
    "an object encoded thrice": (
        "track_parcel",
        json.dumps(json.dumps(json.dumps({"code": "K1"}))),
        SHAPE,
        None,
    ),
    "a semicolon behind": ("track_parcel", '{"code": "K1"};', K1, SYNTAX),
    "an end tag behind": ("track_parcel", '{"code": "K1"}</tool_call>', K1, SYNTAX),
    "DeepSeek's end token behind": (
        "track_parcel",
        '{"code": "K1"}<｜tool▁call▁end｜>',
        K1,
        SYNTAX,
    ),
    "the same object in another order": (
        "book_room",
        '{"room": "R1", "guests": 2}{"guests": 2, "room": "R1"}',
        _room(),
        SYNTAX,
    ),
    "a truth cut short": ("book_room", '{"room": "R1", "guests": 2, "quiet": tru', CUT, None),
    "only the last brace is missing, behind a truth": (
        "book_room",
        '{"room": "R1", "guests": 2, "quiet": true',
        _room(quiet=True),
        CUT,
    ),
    "a word that is no value": (
        "book_room",
        '{"room": "R1", "guests": 2, "quiet": yes}',
        SYNTAX,
        None,
    ),
    "a brace too many, a field too few": ("book_room", '{"room": "R1"}}', SCHEMA, SYNTAX),
    "a key in another case": ("track_parcel", '{"Code": "K1"}', SCHEMA, None),
    "an empty list, nothing needed": ("list_rooms", "[]", SHAPE, None),
    "curly quotes": ("track_parcel", "{“code”: “K1”}", K1, SYNTAX),
    "a fullwidth colon": ("track_parcel", '{"code"："K1"}', K1, SYNTAX),
    "a missing comma": ("book_room", '{"room": "R1" "guests": 2}', SYNTAX, None),
    "a wrapper of text": ("track_parcel", '{"parameters": "{\\"code\\": \\"K1\\"}"}', K1, SYNTAX),
    "a wrapper beside a field": ("track_parcel", '{"input": {"code": "K1"}, "x": 1}', SCHEMA, None),
    "a BOM before": ("track_parcel", '\ufeff{"code": "K1"}', K1, SYNTAX),
    "markup": ("track_parcel", "<code>K1</code>", SYNTAX, None),
    "a key and its value, flat": ("track_parcel", "code: K1", SYNTAX, None),
    "call syntax, which is the text driver's": (
        "track_parcel",
        'track_parcel(code="K1")',
        SYNTAX,
        None,
    ),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_read_or_refused(name: str) -> None:
    tool, arguments, hardened, strict = ARGUMENTS[name]
    message = _with(tool, arguments)
    assert outcome_of(parse_native(message, TOOLS)) == hardened
    assert outcome_of(parse_native(message, TOOLS, level="rescue")) == hardened
    strictly = hardened if strict is None else strict
    assert outcome_of(parse_native(message, TOOLS, level="strict")) == strictly


NAMES: dict[str, tuple[Any, Any, Any]] = {
    # name, hardened, strict (None: the same)
    "exact": ("track_parcel", K1, None),
    "empty": ("", "missing_tool_name", None),
    "blank": ("  ", "missing_tool_name", None),
    "null": (None, "missing_tool_name", None),
    "white space around": (" track_parcel\n", K1, "unknown_tool"),
    "quotes around": ('"track_parcel"', K1, "unknown_tool"),
    "the namespace": ("functions.track_parcel", K1, "unknown_tool"),
    "an index behind": ("track_parcel:0", K1, "unknown_tool"),
    "the namespace and an index": ("functions.track_parcel:3", K1, "unknown_tool"),
    "a channel token behind": ("track_parcel<|channel|>commentary", K1, "unknown_tool"),
    "another namespace": ("tools.track_parcel", "unknown_tool", None),
    "another case": ("Track_Parcel", "unknown_tool", None),
    "another separator": ("track-parcel", "unknown_tool", None),
    "a letter missing": ("track_parce", "unknown_tool", None),
    "the name twice": ("track_parceltrack_parcel", "unknown_tool", None),
    "markup inside": ("track_parcel<arg_key>code</arg_key>", "unknown_tool", None),
    "the id in its place": ("call_77", "unknown_tool", None),
    "a call expression": ("track_parcel(code='K1')", "unknown_tool", None),
    "another tool": ("send_money", "unknown_tool", None),
    "a number": (7, "unknown_tool", None),
    "an object": ({"name": "track_parcel"}, "unknown_tool", None),
    "a list": (["track_parcel"], "unknown_tool", None),
    "a truth": (True, "unknown_tool", None),
    "backticks around": ("`track_parcel`", "unknown_tool", None),
    "a token, then another tool": ("track_parcel<|channel|>list_rooms", K1, "unknown_tool"),
    "a token before": ("<|start|>track_parcel", "missing_tool_name", None),
    "Gemini's namespace": ("default_api.track_parcel", "unknown_tool", None),
    "the namespace twice": ("functions.functions.track_parcel", "unknown_tool", None),
    "the namespace alone": ("functions.", "unknown_tool", None),
    "an index that is a word": ("track_parcel:first", "unknown_tool", None),
    "a zero-width space before": ("\u200btrack_parcel", "unknown_tool", None),
    "two names": ("track_parcel, list_rooms", "unknown_tool", None),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_cleaned_never_guessed(name: str) -> None:
    written, hardened, strict = NAMES[name]
    message = _with(written, '{"code": "K1"}')
    assert outcome_of(parse_native(message, TOOLS)) == hardened
    strictly = hardened if strict is None else strict
    assert outcome_of(parse_native(message, TOOLS, level="strict")) == strictly


SHAPES: dict[str, tuple[dict[str, Any], Any]] = {
    "the usual": (_says(make_entry()), K1),
    "two calls": (_says(make_entry(), make_entry('{"code": "K2"}', id="b")), K1_K2),
    "no function around": (
        _says({"id": "a", "name": "track_parcel", "arguments": '{"code": "K1"}'}),
        K1,
    ),
    "the function's name as text, arguments beside": (
        _says({"id": "a", "function": "track_parcel", "arguments": {"code": "K1"}}),
        K1,
    ),
    "the function as a text of JSON": (
        _says({"id": "a", "function": '{"name": "track_parcel", "arguments": {"code": "K1"}}'}),
        K1,
    ),
    "no type": (_says(make_entry(type=...)), K1),
    "null entries": (_says(None, make_entry(), None), K1),
    "only null entries": (_says(None, content="Here."), ["Here."]),
    "no list around": ({"tool_calls": make_entry()}, K1),
    "a mapping of calls": (
        {"tool_calls": {"0": make_entry(), "1": make_entry('{"code":"K2"}', id="b")}},
        K1_K2,
    ),
    "calls as a text of JSON": ({"tool_calls": json.dumps([make_entry()])}, K1),
    "an empty list": (_says(content="Here."), ["Here."]),
    "null in place of the list": ({"tool_calls": None, "content": "Here."}, ["Here."]),
    "false in place of the list": ({"tool_calls": False, "content": "Here."}, ["Here."]),
    "an empty text in place of the list": ({"tool_calls": "", "content": "Here."}, ["Here."]),
    "parameters in place of arguments": (
        _says({"id": "a", "function": {"name": "track_parcel", "parameters": {"code": "K1"}}}),
        K1,
    ),
    "no arguments, none needed": (
        _says({"id": "a", "function": {"name": "list_rooms"}}),
        [("list_rooms", {})],
    ),
    "no arguments, some needed": (_says({"id": "a", "function": {"name": "track_parcel"}}), SCHEMA),
    "an entry that is a text": (_says("track_parcel"), "missing_tool_name"),
    "an entry that is a number": (_says(3), "missing_tool_name"),
    "an entry that is empty": (_says({}), "missing_tool_name"),
    "a custom call with an object": (
        _says(
            {
                "id": "a",
                "type": "custom",
                "custom": {"name": "track_parcel", "input": '{"code": "K1"}'},
            }
        ),
        K1,
    ),
    "a custom call with text": (
        _says(
            {"id": "a", "type": "custom", "custom": {"name": "track_parcel", "input": "find K1"}}
        ),
        SYNTAX,
    ),
    "the legacy field": (
        {"content": None, "function_call": {"name": "track_parcel", "arguments": '{"code": "K1"}'}},
        K1,
    ),
    "the legacy field as a text of JSON": (
        {
            "content": "One moment.",
            "function_call": '{"name": "track_parcel", "arguments": {"code": "K1"}}',
        },
        K1,
    ),
    "the legacy field is null": ({"content": "Here.", "function_call": None}, ["Here."]),
    "the legacy field is empty": ({"content": "Here.", "function_call": {}}, ["Here."]),
    "the legacy field repeats the new one": (
        _says(make_entry(), function_call={"name": "track_parcel", "arguments": '{"code":"K1"}'}),
        K1,
    ),
    "the legacy field says another call": (
        _says(make_entry(), function_call={"name": "track_parcel", "arguments": '{"code":"K2"}'}),
        K1_K2,
    ),
    "the legacy field is blank beside an answer": (
        {"content": "Here.", "function_call": {"name": "", "arguments": ""}},
        ["Here."],
    ),
    "the legacy field is blank, and nothing else": (
        {"content": None, "function_call": {"name": "", "arguments": ""}},
        "missing_tool_name",
    ),
    "a block of Anthropic's": (
        _says({"type": "tool_use", "id": "a", "name": "track_parcel", "input": {"code": "K1"}}),
        K1,
    ),
    "a part of Gemini's, whose name nothing gives": (
        _says({"functionCall": {"name": "track_parcel", "args": {"code": "K1"}}}),
        "missing_tool_name",
    ),
    "a list inside the list": (_says([make_entry()]), "missing_tool_name"),
    "a text of no JSON in place of the list": (
        {"tool_calls": "track_parcel", "content": "Here."},
        "missing_tool_name",
    ),
    "an empty mapping in place of the list": ({"tool_calls": {}, "content": "Here."}, ["Here."]),
    "one call without its list, by its index": (
        {"tool_calls": {"index": 0, "function": make_entry()["function"]}},
        K1,
    ),
    "unknown fields": (_says(make_entry(extra_content={"sign": "s"}, index=3)), K1),
    "the same call twice": (_says(make_entry(), make_entry()), K1),
    "the same call twice, spaced otherwise": (_says(make_entry(), make_entry('{"code":"K1"}')), K1),
    "one id, two calls": (_says(make_entry(), make_entry('{"code": "K2"}')), K1_K2),
    "two ids, one call": (_says(make_entry(), make_entry(id="b")), [*K1, *K1]),
    "one good, one bad": (
        _says(make_entry(), make_entry("[1]", id="b")),
        [*K1, ("track_parcel", SHAPE)],
    ),
    "one bad, one good": (
        _says(make_entry(name="fly", id="b"), make_entry()),
        [("fly", "unknown_tool"), *K1],
    ),
    "two bad, the first of the order": (
        _says(make_entry("[1]"), make_entry(name="fly", id="b")),
        "unknown_tool",
    ),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SHAPES)
def test_every_layout_of_a_call_is_read_at_every_level(name: str, level: Level) -> None:
    message, wanted = SHAPES[name]
    assert outcome_of(parse_native(message, TOOLS, level=level)) == wanted


def _wrapped(*uses: Any, **other: Any) -> dict[str, Any]:
    return _says(
        make_entry(json.dumps({"tool_uses": uses}), name="multi_tool_use.parallel", **other)
    )


def _use(code: str) -> dict[str, Any]:
    return {"recipient_name": "functions.track_parcel", "parameters": {"code": code}}


def test_the_parallel_wrapper_is_unpacked_but_not_strictly() -> None:
    message = _wrapped(_use("K1"), _use("K2"))
    reading = parse_native(message, TOOLS)
    assert outcome_of(reading) == K1_K2
    assert "parallel_wrapper" in repairs_of(reading)
    assert reading.calls[0].id == "a"
    assert len({call.id for call in reading.calls}) == 2
    assert outcome_of(parse_native(message, TOOLS, level="strict")) == "unknown_tool"


WRAPPERS: dict[str, tuple[list[Any], Any]] = {
    "an unknown tool inside": (
        [_use("K1"), {"recipient_name": "fly"}],
        [*K1, ("fly", "unknown_tool")],
    ),
    "no name inside": ([{"parameters": {"code": "K1"}}], "missing_tool_name"),
    "no object inside": ([3], "missing_tool_name"),
    "nothing inside": ([], "unknown_tool"),
    "arguments as text": ([{"recipient_name": "track_parcel", "parameters": '{"code":"K1"}'}], K1),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_the_parallel_wrapper_may_hold_anything(name: str) -> None:
    uses, wanted = WRAPPERS[name]
    assert outcome_of(parse_native(_wrapped(*uses), TOOLS)) == wanted


IDS: dict[str, tuple[list[Any], list[str | None], set[str]]] = {
    # ids as given, ids as read (None: made), repairs
    "its own": (["a", "b"], ["a", "b"], set()),
    "missing": ([...], [None], {"id_made"}),
    "null": ([None], [None], {"id_made"}),
    "empty": ([""], [None], {"id_made"}),
    "blank": ([" "], [None], {"id_made"}),
    "a number": ([7], ["7"], {"id_coerced"}),
    "Kimi's form": (["functions.track_parcel:0"], ["functions.track_parcel:0"], set()),
    "repeated": (["a", "a"], ["a", None], {"id_renamed"}),
    "repeated thrice": (["a", "a", "a"], ["a", None, None], {"id_renamed"}),
    "all missing": ([..., ..., None], [None, None, None], {"id_made"}),
    "very long": (["x" * 80], ["x" * 80], set()),
}


@pytest.mark.parametrize("name", IDS)
def test_each_call_has_an_id_to_echo(name: str) -> None:
    given_ids, wanted, repairs = IDS[name]
    entries = [make_entry(f'{{"code": "K{n}"}}', id=id_) for n, id_ in enumerate(given_ids)]
    for level in LEVELS:
        reading = parse_native(_says(*entries), TOOLS, level=level)
        ids = [call.id for call in reading.calls]
        assert len(set(ids)) == len(ids)
        assert all(ids)
        assert all(want in {None, got} for want, got in zip(wanted, ids, strict=True))
        assert repairs_of(reading) == repairs
        assert reading == parse_native(_says(*entries), TOOLS, level=level)


def test_a_made_id_is_never_one_that_is_taken() -> None:
    made = parse_native(_says(make_entry(id=...)), TOOLS).calls[0].id
    reading = parse_native(_says(make_entry(id=...), make_entry('{"code": "K2"}', id=made)), TOOLS)
    assert len({call.id for call in reading.calls}) == 2
    assert reading.calls[1].id == made


def test_an_unreadable_call_stands_in_calls_with_its_id_and_failure() -> None:
    for entry in (
        make_entry("nonsense", id="z"),
        make_entry(name=None, id="z"),
        make_entry(name="fly", id="z"),
    ):
        reading = parse_native(_says(entry), TOOLS)
        assert [call.id for call in reading.calls] == ["z"]
        assert reading.calls[0].failure == reading.failure
        assert reading.calls[0].arguments is None
    assert reading.calls[0].raw == '{"code": "K1"}'


CONTENTS: dict[str, tuple[dict[str, Any], Any, str]] = {
    # message, outcome, thought
    "an answer": ({"content": "It is here."}, ["It is here."], ""),
    "white space around": ({"content": "\n It is\n\nhere. \n"}, ["It is\n\nhere."], ""),
    "text parts": (
        {"content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "here."}]},
        ["It is here."],
        "",
    ),
    "parts of plain text": ({"content": ["It is ", "here."]}, ["It is here."], ""),
    "a part without its list": ({"content": {"type": "text", "text": "Here."}}, ["Here."], ""),
    "output text": ({"content": [{"type": "output_text", "text": "Here."}]}, ["Here."], ""),
    "a thinking part": (
        {"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Here."}]},
        ["Here."],
        "Hm.",
    ),
    "a thinking part of parts": (
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "Here."},
            ]
        },
        ["Here."],
        "Hm.",
    ),
    "a reasoning part": (
        {"content": [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "Here."}]},
        ["Here."],
        "Hm.",
    ),
    "a part of another type": (
        {"content": [{"type": "image_url", "image_url": {}}, {"type": "text", "text": "Here."}]},
        ["Here."],
        "",
    ),
    "only a part of another type": (
        {"content": [{"type": "image_url", "image_url": {}}]},
        "empty_turn",
        "",
    ),
    "null parts": ({"content": [None, {"type": "text", "text": "Here."}, None]}, ["Here."], ""),
    "a part with null text": (
        {"content": [{"type": "text", "text": None}, {"type": "text", "text": "A"}]},
        ["A"],
        "",
    ),
    "no parts": ({"content": []}, "empty_turn", ""),
    "null": ({"content": None}, "empty_turn", ""),
    "missing": ({}, "empty_turn", ""),
    "empty": ({"content": ""}, "empty_turn", ""),
    "blank": ({"content": " \n\t"}, "empty_turn", ""),
    "only zero-width characters": ({"content": "\u200b\n\ufeff"}, "empty_turn", ""),
    "a number": ({"content": 7}, "empty_turn", ""),
    "a template token and nothing else": ({"content": "<|im_end|>"}, "empty_turn", ""),
    "a template token behind": ({"content": "Here.<|im_end|>\n"}, ["Here."], ""),
    "a template token inside": (
        {"content": "The <|im_end|> token."},
        ["The <|im_end|> token."],
        "",
    ),
    "struck out text at the end": ({"content": "<s>old</s>"}, ["<s>old</s>"], ""),
    "an unpaired fence behind": ({"content": "It is here.\n```"}, ["It is here."], ""),
    "a paired fence behind": ({"content": "```\ncode\n```"}, ["```\ncode\n```"], ""),
    "reasoning alone": ({"content": None, "reasoning_content": "Done."}, "empty_turn", "Done."),
    "reasoning by its other name": ({"content": "", "reasoning": "Done."}, "empty_turn", "Done."),
    "reasoning under both names": (
        {"content": "A", "reasoning": "Hm.", "reasoning_content": "Hm."},
        ["A"],
        "Hm.",
    ),
    "reasoning in details": (
        {"content": "A", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
        ["A"],
        "Hm.",
    ),
    "a think block": ({"content": "<think>Hm.</think>Here."}, ["Here."], "Hm."),
    "an empty think block": ({"content": "<think>\n</think>\n\nHere."}, ["Here."], ""),
    "two think blocks": (
        {"content": "<think>A</think>\n<think>B</think>\nHere."},
        ["Here."],
        "A\nB",
    ),
    "an orphan closer": ({"content": "Hm. So.\n</think>\n\nHere."}, ["Here."], "Hm. So."),
    "a think block and nothing else": ({"content": "<think>Hm.</think>"}, "empty_turn", "Hm."),
    "an open think block": ({"content": "<think>Hm. I should"}, CUT, "Hm. I should"),
    "a think tag in prose": (
        {"content": "Models write `<think>` and `</think>` tags."},
        ["Models write `<think>` and `</think>` tags."],
        "",
    ),
    "a think block beside a call": (
        _says(make_entry(), content="<think>Hm.</think>One moment."),
        K1,
        "Hm.\nOne moment.",
    ),
    "text beside a call": (_says(make_entry(), content="One moment."), K1, "One moment."),
    "an empty text beside a call": (_says(make_entry(), content=""), K1, ""),
    "no content beside a call": ({"tool_calls": [make_entry()]}, K1, ""),
    "parts beside a call": (_says(make_entry(), content=[{"type": "text", "text": "A"}]), K1, "A"),
    "an open think block beside a call": (_says(make_entry(), content="<think>Hm."), K1, "Hm."),
    "a filled refusal": ({"content": None, "refusal": "I can't."}, "refused_or_filtered", ""),
    "a refusal part": (
        {"content": [{"type": "refusal", "refusal": "I can't."}]},
        "refused_or_filtered",
        "",
    ),
    "an empty refusal": ({"content": "Here.", "refusal": ""}, ["Here."], ""),
    "words of refusal that nothing marks": ({"content": "I can't."}, ["I can't."], ""),
    "a lone surrogate": ({"content": "A\ud83d"}, ["A\ufffd"], ""),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CONTENTS)
def test_content_is_sorted_at_every_level(name: str, level: Level) -> None:
    message, wanted, thought = CONTENTS[name]
    reading = parse_native(message, TOOLS, level=level)
    assert (outcome_of(reading), reading.thought) == (wanted, thought)


def test_what_was_left_out_is_reported() -> None:
    image = {"content": [{"type": "image_url"}, {"type": "text", "text": "A"}]}
    assert [one.reason for one in parse_native(image, TOOLS).dropped] == ["content_part"]
    token = parse_native({"content": "A<|im_end|>"}, TOOLS).dropped
    assert [(one.start, one.end, one.reason) for one in token] == [(1, 11, "template_token")]
    behind = parse_native({"content": "<think>B</think>A\n<|im_end|>\n"}, TOOLS).dropped
    assert [(one.start, one.end) for one in behind] == [(17, 28)]


def test_content_has_one_text_and_one_reasoning() -> None:
    content = read_content(
        {"content": ["A", {"type": "thinking", "thinking": "B"}], "reasoning": "C"}
    )
    assert (content.text, content.reasoning) == ("A", "C\nB")


FINISHES: dict[str, tuple[dict[str, Any], str | None, Any]] = {
    "stop with a call": (_says(make_entry()), "stop", K1),
    "null with a call": (_says(make_entry()), None, K1),
    "an unknown word with a call": (_says(make_entry()), "eos_token", K1),
    "tool_calls without one": (_says(content="Here."), "tool_calls", ["Here."]),
    "tool_calls and nothing": (_says(), "tool_calls", "empty_turn"),
    "length behind a whole call": (_says(make_entry()), "length", K1),
    "length in a call": (_says(make_entry('{"code": "K')), "length", CUT),
    "length where only a brace is missing": (_says(make_entry('{"code": "K1"')), "length", CUT),
    "length before the arguments": (_says(make_entry("", name="list_rooms")), "length", CUT),
    "length in the name": (_says(make_entry("", name="list_ro")), "length", CUT),
    "length in the second call": (
        _says(make_entry(), make_entry('{"code": "K', id="b")),
        "length",
        [*K1, ("track_parcel", CUT)],
    ),
    "length in an answer": ({"content": "It is he"}, "length", ["It is he"]),
    "length and nothing": ({"content": ""}, "length", CUT),
    "length in blanks": ({"content": "\n\n\n\n"}, "length", CUT),
    "length in the reasoning": ({"content": None, "reasoning_content": "Hm"}, "length", CUT),
    "length in a think block": ({"content": "<think>Hm"}, "length", CUT),
    "length by another name": (_says(make_entry('{"code": "K')), "MAX_TOKENS", CUT),
    "a cut call of an unknown tool": (_says(make_entry('{"co', name="fly")), "stop", CUT),
    "a filter": ({"content": ""}, "content_filter", "refused_or_filtered"),
    "a filter with text": ({"content": "It is"}, "content_filter", "refused_or_filtered"),
    "a filter with a call": (_says(make_entry()), "content_filter", "refused_or_filtered"),
    "GLM's filter": ({"content": ""}, "sensitive", "refused_or_filtered"),
    "Gemini's filter": ({"content": ""}, "SAFETY", "refused_or_filtered"),
    "Gemini's filter, said at length": (
        {"content": ""},
        "content_filter: PROHIBITED_CONTENT",
        "refused_or_filtered",
    ),
    "Gemini's malformed call": (
        {"content": ""},
        "MALFORMED_FUNCTION_CALL",
        "server_rejected_output",
    ),
    "the same, prefixed": (
        {"content": None},
        "function_call_filter: MALFORMED_FUNCTION_CALL",
        "server_rejected_output",
    ),
    "a network error": ({"content": ""}, "network_error", "endpoint_error"),
    "a network error with a call": (_says(make_entry()), "network_error", "endpoint_error"),
    "an error": ({"content": "It is"}, "error", "endpoint_error"),
    "no resources": (_says(make_entry()), "insufficient_system_resource", "endpoint_error"),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FINISHES)
def test_calls_decide_but_for_words_of_failure(name: str, level: Level) -> None:
    message, finish, wanted = FINISHES[name]
    assert outcome_of(parse_native(message, TOOLS, level=level, finish_reason=finish)) == wanted


def test_a_filtered_call_is_listed_with_its_id_to_be_answered() -> None:
    reading = parse_native(_says(make_entry(id="z")), TOOLS, finish_reason="content_filter")
    assert [(call.id, call.failure) for call in reading.calls] == [("z", reading.failure)]


TWINS: dict[str, tuple[Any, str | None]] = {
    **{f"arguments, {name}": (_with(t, a), "tool_calls") for name, (t, a, *_) in ARGUMENTS.items()},
    **{f"name, {n}": (_with(said, "{}"), "tool_calls") for n, (said, *_) in NAMES.items()},
    **{f"shape, {name}": (message, "stop") for name, (message, _) in SHAPES.items()},
    **{f"content, {name}": (message, "stop") for name, (message, *_) in CONTENTS.items()},
    **{f"finish, {n}": (message, f) for n, (message, f, _) in FINISHES.items() if f},
}


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("name", [name for name in TWINS if "every decoder" not in name])
def test_a_message_in_pieces_is_the_same_message(name: str, size: int) -> None:
    message, finish = TWINS[name]
    data = send(make_stream(message, finish, size))
    for level in LEVELS:
        whole = parse_response(make_plain(message, finish), TOOLS, level=level)
        pieces = parse_response(data, TOOLS, level=level)
        assert (outcome_of(pieces), pieces.thought) == (outcome_of(whole), whole.thought)


def test_cuts_and_mismatches_are_flagged() -> None:
    cut = parse_native({"content": "It is he"}, TOOLS, finish_reason="length")
    assert repairs_of(cut) == {"answer_cut"}
    behind = parse_native(_says(make_entry()), TOOLS, finish_reason="length")
    assert repairs_of(behind) == {"cut_after_call"}
    mismatch = parse_native({"content": "Here."}, TOOLS, finish_reason="tool_calls")
    assert repairs_of(mismatch) == {"finish_mismatch"}


NAMED = {"type": "function", "function": {"name": "track_parcel"}}
ALLOWED = {
    "type": "allowed_tools",
    "allowed_tools": {"mode": "required", "tools": [{"type": "function", "name": "list_rooms"}]},
}
ALLOWED_AUTO = {"type": "allowed_tools", "mode": "auto", "tools": [NAMED]}
TWO = _says(make_entry(), make_entry('{"code": "K2"}', id="b"))
ROOMS = _says(make_entry("{}", name="list_rooms"))
VIOLATION = "choice_violation"

CHOICES: dict[str, tuple[dict[str, Any], Any, bool | None, Any]] = {
    # message, tool_choice, parallel_tool_calls, outcome
    "auto with a call": (_says(make_entry()), "auto", True, K1),
    "auto with an answer": ({"content": "A"}, "auto", True, ["A"]),
    "null with a call": (_says(make_entry()), None, None, K1),
    "none with an answer": ({"content": "A"}, "none", True, ["A"]),
    "none with a call": (_says(make_entry()), "none", True, VIOLATION),
    "none with a bad call": (_says(make_entry("[]")), "none", True, VIOLATION),
    "none with a cut call": (_says(make_entry('{"c')), "none", True, CUT),
    "required with a call": (_says(make_entry()), "required", True, K1),
    "required with an answer": ({"content": "A"}, "required", True, VIOLATION),
    "required with nothing": ({"content": ""}, "required", True, VIOLATION),
    "any is required": ({"content": "A"}, "any", True, VIOLATION),
    "named with its call": (_says(make_entry()), NAMED, True, K1),
    "named with another call": (ROOMS, NAMED, True, VIOLATION),
    "named with both": (
        _says(make_entry(), make_entry("{}", name="list_rooms", id="b")),
        NAMED,
        True,
        VIOLATION,
    ),
    "named with an answer": ({"content": "A"}, NAMED, True, VIOLATION),
    "named flat": (ROOMS, {"type": "function", "name": "track_parcel"}, True, VIOLATION),
    "named by its bare name": (ROOMS, "track_parcel", True, VIOLATION),
    "named with its call, badly": (_says(make_entry("[]")), NAMED, True, SHAPE),
    "named with a call of no name": (
        _says(make_entry(name=None)),
        NAMED,
        True,
        "missing_tool_name",
    ),
    "allowed with its call": (ROOMS, ALLOWED, True, [("list_rooms", {})]),
    "allowed with another call": (_says(make_entry()), ALLOWED, True, VIOLATION),
    "allowed and required with an answer": ({"content": "A"}, ALLOWED, True, VIOLATION),
    "allowed and auto with an answer": ({"content": "A"}, ALLOWED_AUTO, True, ["A"]),
    "allowed and auto with another call": (ROOMS, ALLOWED_AUTO, True, VIOLATION),
    "parallel off with one call": (_says(make_entry()), "auto", False, K1),
    "parallel off with two calls": (TWO, "auto", False, VIOLATION),
    "parallel off with one call given twice": (
        _says(make_entry(), make_entry()),
        "auto",
        False,
        K1,
    ),
    "parallel off with one good and one bad": (
        _says(make_entry(), make_entry("[]", id="b")),
        "auto",
        False,
        VIOLATION,
    ),
    "parallel off with a wrapper of two": (
        _wrapped(_use("K1"), _use("K2")),
        "auto",
        False,
        VIOLATION,
    ),
    "an unknown choice": (_says(make_entry()), {"type": "strange"}, True, K1),
    "a choice of nonsense": (_says(make_entry()), 7, True, K1),
}


@pytest.mark.parametrize("name", CHOICES)
def test_what_the_request_allowed_is_checked(name: str) -> None:
    message, choice, parallel, wanted = CHOICES[name]
    reading = parse_native(message, TOOLS, tool_choice=choice, parallel_tool_calls=parallel)
    assert outcome_of(reading) == wanted
    if wanted == VIOLATION:
        assert all(call.failure is not None and call.id for call in reading.calls)


def test_required_and_cut_before_the_call_is_a_cut() -> None:
    for content in ("", "\n\n\n", "First I will think about"):
        reading = parse_native(
            {"content": content}, TOOLS, tool_choice="required", finish_reason="length"
        )
        assert outcome_of(reading) == CUT


CALL = '{"name": "track_parcel", "arguments": {"code": "K1"}}'
LEAKS: dict[str, tuple[str, str]] = {
    # content, detail
    "Hermes": (f"<tool_call>\n{CALL}\n</tool_call>", "content"),
    "Hermes behind prose": (f"I will look.\n<tool_call>{CALL}</tool_call>", "content"),
    "Mistral": (f"[TOOL_CALLS][{CALL}]", "content"),
    "a fenced object": (f"```json\n{CALL}\n```", "content"),
    "a fenced list under its key": (f'```json\n{{"tool_calls": [{CALL}]}}\n```', "content"),
    "a bare object": (CALL, "content"),
    "a bare object with parameters": (
        '{"name": "track_parcel", "parameters": {"code": "K1"}}',
        "content",
    ),
    "Llama": (
        '<|python_tag|>{"name": "track_parcel", "parameters": {"code": "K1"}}',
        "content",
    ),
    "Llama's function": ('<function=track_parcel>{"code": "K1"}</function>', "content"),
    "Qwen-Coder": (
        (
            "<tool_call>\n<function=track_parcel>\n<parameter=code>\nK1\n</parameter>\n</function>\n"
            "</tool_call>"
        ),
        "content",
    ),
    "GLM": (
        "<tool_call>track_parcel\n<arg_key>code</arg_key>\n<arg_value>K1</arg_value>\n</tool_call>",
        "content",
    ),
    "DeepSeek": (
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>track_parcel\n```json\n"
            '{"code": "K1"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
        ),
        "content",
    ),
    "Kimi": (
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.track_parcel:0"
            '<|tool_call_argument_begin|>{"code":"K1"}<|tool_call_end|><|tool_calls_section_end|>'
        ),
        "content",
    ),
    "MiniMax": (
        (
            '<minimax:tool_call><invoke name="track_parcel"><parameter name="code">K1</parameter>'
            "</invoke></minimax:tool_call>"
        ),
        "content",
    ),
    "a pythonic list": ('[track_parcel(code="K1")]', "content"),
    "one call expression": ('track_parcel(code="K1")', "content"),
    "Harmony": (
        (
            "<|channel|>commentary to=functions.track_parcel <|constrain|>json<|message|>"
            '{"code": "K1"}<|call|>'
        ),
        "content",
    ),
    "a ReAct step": ('Thought: hm\nAction: track_parcel\nAction Input: {"code": "K1"}', "text"),
    "a ReAct step in Chinese": ('思考：查\n行动：track_parcel\n行动输入：{"code": "K1"}', "text"),
    "a ReAct step with its invented result": (
        'Action: track_parcel\nAction Input: {"code": "K1"}\nObservation: sent\nFinal Answer: sent',
        "text",
    ),
    "behind a think block": (f"<think>Hm.</think>\n<tool_call>{CALL}</tool_call>", "content"),
    "inside a think block": (f"<think>Hm. <tool_call>{CALL}</tool_call></think>", "reasoning"),
    "before an orphan closer": (f"Hm. <tool_call>{CALL}</tool_call>\n</think>", "reasoning"),
}


@pytest.mark.parametrize("name", LEAKS)
def test_calls_out_of_their_channel_are_failures_below_rescue(name: str) -> None:
    content, detail = LEAKS[name]
    for level in ("strict", "hardened"):
        failure = parse_native({"content": content}, TOOLS, level=level).failure
        assert failure is not None
        assert (failure.kind, failure.detail) == ("out_of_channel_call", detail)
        assert failure.position is not None
    reading = parse_native({"content": content}, TOOLS, level="rescue")
    assert outcome_of(reading) == K1
    assert all(call.id for call in reading.calls)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_a_call_in_the_reasoning_counts_only_where_nothing_else_is_said(key: str) -> None:
    leaked = {key: f"I need it.\n<tool_call>{CALL}</tool_call>"}
    failure = parse_native({"content": None, **leaked}, TOOLS).failure
    assert failure is not None
    assert (failure.kind, failure.detail, failure.field) == (
        "out_of_channel_call",
        "reasoning",
        "reasoning_content",
    )
    assert outcome_of(parse_native({"content": None, **leaked}, TOOLS, level="rescue")) == K1
    for level in LEVELS:
        assert outcome_of(parse_native({"content": "Here.", **leaked}, TOOLS, level=level)) == [
            "Here."
        ]
        real = _says(make_entry('{"code": "K2"}'), **leaked)
        assert outcome_of(parse_native(real, TOOLS, level=level)) == K1_K2[1:]


TRAPS: dict[str, str] = {
    "prose about markup": "To call a tool, wrap it in <tool_call> tags.",
    "prose with a marker and a name": "Models write [TOOL_CALLS] before track_parcel.",
    "prose with an example of no payload": 'Write <tool_call>{"name": …}</tool_call> for track_parcel.',
    "a tool described": '{"name": "track_parcel", "description": "Finds a parcel."}',
    "JSON that is an answer": '{"code": "K1", "state": "sent"}',
    "a person with a name": '{"name": "Ada", "age": 36}',
    "the tool's name in prose": "I used track_parcel to find it.",
    "a label in prose": "Action: call the post office tomorrow.",
    "a label with another tool": "Tool: hammer\nInput: nail",
    "code in an answer": "```python\nprint('track')\n```",
}


@pytest.mark.parametrize("name", TRAPS)
def test_prose_is_an_answer_at_every_level(name: str) -> None:
    for level in LEVELS:
        assert outcome_of(parse_native({"content": TRAPS[name]}, TOOLS, level=level)) == [
            TRAPS[name]
        ]


def test_a_cut_call_in_the_text_is_no_answer() -> None:
    content = '<tool_call>\n{"name": "track_parcel", "arguments": {"code": "K'
    for level in LEVELS:
        reading = parse_native({"content": content}, TOOLS, level=level, finish_reason="length")
        assert outcome_of(reading) == CUT


def test_markup_of_a_tool_not_offered_is_no_answer() -> None:
    content = '<tool_call>{"name": "fly", "arguments": {}}</tool_call>'
    for level in LEVELS:
        assert outcome_of(parse_native({"content": content}, TOOLS, level=level)) == "unknown_tool"


def test_a_call_part_in_the_content_is_a_call_out_of_channel() -> None:
    part = {"type": "tool_use", "id": "a", "name": "track_parcel", "input": {"code": "K1"}}
    message = {"content": [{"type": "text", "text": "One moment."}, part]}
    assert outcome_of(parse_native(message, TOOLS)) == "out_of_channel_call"
    assert outcome_of(parse_native(message, TOOLS, level="rescue")) == K1


def test_a_rescued_call_is_still_held_to_the_choice() -> None:
    message = {"content": f"<tool_call>{CALL}</tool_call>"}
    read = parse_native(message, TOOLS, level="rescue", tool_choice="none")
    assert outcome_of(read) == VIOLATION
    assert outcome_of(parse_native(message, TOOLS, level="rescue", tool_choice="required")) == K1
    assert outcome_of(parse_native(message, TOOLS, tool_choice="required")) == "out_of_channel_call"


def test_call_text_beside_a_call_is_dropped_and_reported() -> None:
    for content, thought in (
        (CALL, ""),
        (f"One moment.\n<tool_call>{CALL}</tool_call>", "One moment."),
    ):
        reading = parse_native(_says(make_entry('{"code": "K2"}'), content=content), TOOLS)
        assert outcome_of(reading) == K1_K2[1:]
        assert reading.thought == thought
        assert [one.reason for one in reading.dropped] == ["call_text"]


def test_failures_say_in_a_sentence_where_they_are() -> None:
    messages = [
        _says(make_entry("nonsense")),
        _says(make_entry("[]")),
        _says(make_entry('{"code": 1}')),
        _says(make_entry(), make_entry('{"code": "K', id="b")),
        _says(make_entry(name=None)),
        _says(make_entry(name="fly")),
        {"content": ""},
        {"content": "<think>x"},
        {"content": CALL},
    ]
    for message in messages:
        reading = parse_native(message, TOOLS)
        failures = [call.failure for call in reading.calls if call.failure]
        failures += [reading.failure] if reading.failure else []
        assert failures
        for failure in failures:
            assert failure.message.endswith(".")
            assert "\n" not in failure.message
            assert failure.field != "text"
    bad = (
        parse_native(_says(make_entry(), make_entry('{"code": K', id="b")), TOOLS).calls[1].failure
    )
    assert bad is not None
    assert bad.field == "calls[1].arguments"


def test_every_repair_has_its_sentence() -> None:
    known = SENTENCES
    messages = [message for message, *_ in (*SHAPES.values(), *CONTENTS.values())]
    messages += [_with(tool, arguments) for tool, arguments, *_ in ARGUMENTS.values()]
    messages += [_with(name, '{"code": "K1"}') for name, *_ in NAMES.values()]
    made = {name for message in messages for name in repairs_of(parse_native(message, TOOLS))}
    assert len(made) > 20
    assert made <= known.keys()


def _cases() -> list[dict[str, Any]]:
    lines = (CASES / "native.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", _cases(), ids=lambda case: f"{case['id']} {case['kind']}")
def test_every_case_is_read_as_given(case: dict[str, Any], level: Level) -> None:
    tools = json.loads((CASES / "native_tools.json").read_text(encoding="utf-8"))
    asked = case.get("_request", {})
    allowed = {k: asked[k] for k in ("tool_choice", "parallel_tool_calls") if k in asked}
    reading = parse_response(case["wire"], tools, level=level, **allowed)
    if reading.failure is not None:
        read: list[Any] = [{"failure": reading.failure.kind}]
    elif reading.final is not None:
        read = [{"final": reading.final}]
    else:
        read = [{"call": call.name, "arguments": call.arguments} for call in reading.calls]
    assert read == case.get(level, case["hardened"])


def _good(reading: Reading) -> Any:
    if reading.failure is not None:
        return None
    return (
        reading.final
        if reading.final is not None
        else [(call.name, call.arguments) for call in reading.good_calls]
    )


KEYS = [
    *("role", "content", "tool_calls", "function", "name", "arguments", "id", "index", "type"),
    *("function_call", "reasoning_content", "refusal", "text", "thinking", "custom", "input"),
    *("tool_uses", "recipient_name", "parameters", "code", "room", "guests"),
]
WORDS = st.sampled_from(
    [
        *(
            "track_parcel",
            "list_rooms",
            "functions.track_parcel:0",
            "multi_tool_use.parallel",
            "text",
        ),
        *('{"code": "K1"}', '{"code": "K', "{'code': 'K1'}", "", "thinking", "tool_use", CALL),
        *(
            "<think>",
            "</think>",
            f"<tool_call>{CALL}</tool_call>",
            "Action: track_parcel",
            "\ud83d",
        ),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=40,
)
ENTRIES = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": WORDS, "arguments": JSON})},
    optional={"id": st.sampled_from(["a", "b", "", None])},
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "content": JSON,
        "reasoning_content": JSON,
        "tool_calls": st.lists(ENTRIES, max_size=4),
    },
)
ASKED = st.fixed_dictionaries(
    {
        "finish_reason": st.sampled_from([None, "stop", "length", "tool_calls", "content_filter"]),
        "tool_choice": st.sampled_from(["auto", "none", "required", NAMED, ALLOWED, ALLOWED_AUTO]),
        "parallel_tool_calls": st.booleans(),
    }
)


@settings(max_examples=150, deadline=None)
@given(JSON | MESSAGES, ASKED)
def test_any_message_gives_exactly_one_outcome(message: Any, asked: dict[str, Any]) -> None:
    for level in LEVELS:
        reading = parse_native(message, TOOLS, level=level, **asked)
        assert holds_one(reading)
        if isinstance(message, dict) and "tool_calls" in message:
            ids = [call.id for call in reading.calls]
            assert len(set(ids)) == len(ids)
        json.dumps([call.arguments for call in reading.calls], allow_nan=False).encode()


@settings(max_examples=150, deadline=None)
@given(MESSAGES, ASKED)
def test_a_level_only_adds_readings(message: Any, asked: dict[str, Any]) -> None:
    readings = [_good(parse_native(message, TOOLS, level=level, **asked)) for level in LEVELS]
    for lower, higher in itertools.pairwise(readings):
        if isinstance(lower, str):
            assert higher == lower
        elif lower is not None:
            assert higher is not None
            assert all(call in higher for call in lower)


def test_deep_values_are_values() -> None:
    deep: Any = "x"
    for _ in range(50_000):
        deep = [deep]
    for message in (
        {"content": deep},
        {"tool_calls": deep},
        _says(make_entry(deep)),
        _says(make_entry({"code": deep})),
    ):
        assert holds_one(parse_native(message, TOOLS))
    assert (
        outcome_of(parse_native(_says(make_entry({"a": deep}, name="list_rooms")), TOOLS)) == SYNTAX
    )


def _seconds(message: Any) -> float:
    start = time.process_time()
    parse_native(message, TOOLS)
    return time.process_time() - start


GROWING: dict[str, Any] = {
    "calls": lambda n: _says(*[make_entry(f'{{"code": "K{k}"}}', id=str(k)) for k in range(n)]),
    "the same call": lambda n: _says(*[make_entry()] * n),
    "calls of one id": lambda n: _says(*[make_entry(f'{{"code": "K{k}"}}') for k in range(n)]),
    "think tags": lambda n: {"content": "<think></think>" * n},
    "think tags that open": lambda n: {"content": "<think>" * n},
    "think tags that close": lambda n: {"content": "</think>" * n},
    "parts": lambda n: {"content": [{"type": "text", "text": "a"}] * n},
    "parts of another type": lambda n: {"content": [{"type": "x"}] * n},
    "braces": lambda n: {"content": "{" * n},
    "tokens": lambda n: {"content": "<|a|>" * n + "x"},
    "labels": lambda n: {"content": "Action: x\n" * n},
}


@pytest.mark.parametrize("name", GROWING)
def test_time_grows_with_size_not_faster(name: str) -> None:
    make = GROWING[name]
    _seconds(make(200))
    small = min(_seconds(make(2_000)) for _ in range(2))
    large = _seconds(make(16_000))
    assert large < 8 * 4 * max(small, 0.01)
