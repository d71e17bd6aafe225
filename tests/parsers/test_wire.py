"""What comes over the wire: events, streams put together, envelopes, refusals, waiting, usage."""

import json
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parcels import (
    K1,
    K1_K2,
    TOOLS,
    holds_one,
    make_calls,
    make_chunk,
    make_entry,
    make_piece,
    make_plain,
    outcome_of,
    repairs_of,
    send,
)

from parsers.explain import SENTENCES
from parsers.types import LEVELS
from parsers.wire import (
    DONE,
    EventReader,
    Usage,
    assemble,
    open_response,
    parse_response,
    retry_after,
    sse_events,
)

EVENTS: dict[str, tuple[bytes, list[Any]]] = {
    "one event": (b'data: {"a": 1}\n\n', [{"a": 1}]),
    "no space after the colon": (b'data:{"a": 1}\n\n', [{"a": 1}]),
    "CRLF": (b'data: {"a": 1}\r\n\r\ndata: [DONE]\r\n\r\n', [{"a": 1}, DONE]),
    "CR alone": (b'data: {"a": 1}\r\rdata: [DONE]\r\r', [{"a": 1}, DONE]),
    "a BOM in front": (b'\xef\xbb\xbfdata: {"a": 1}\n\n', [{"a": 1}]),
    "a comment between": (b': ping\n\ndata: {"a": 1}\n\n: ping\n\n', [{"a": 1}]),
    "a comment inside an event": (b'data: {"a":\n: x\ndata: 1}\n\n', [{"a": 1}]),
    "an id and a blank event": (b'id: 7\n\nid: 8\ndata: {"a": 1}\n\n', [{"a": 1}]),
    "an event of empty data": (b'data:\n\ndata: \n\ndata: {"a": 1}\n\n', [{"a": 1}]),
    "data of null": (b'data: null\n\ndata: {"a": 1}\n\n', [{"a": 1}]),
    "data over several lines": (b'data: {"a":\ndata: 1}\n\n', [{"a": 1}]),
    "no blank line between events": (b'data: {"a": 1}\ndata: {"b": 2}\n\n', [{"a": 1}, {"b": 2}]),
    "no blank line before the end mark": (b'data: {"a": 1}\ndata: [DONE]\n', [{"a": 1}, DONE]),
    "a last event with one newline": (b'data: {"a": 1}\n', [{"a": 1}]),
    "a last event with no newline": (b'data: {"a": 1}', [{"a": 1}]),
    "a comment as data": (b'data: : keep-alive\n\ndata: {"a": 1}\n\n', [": keep-alive", {"a": 1}]),
    "the prefix twice": (b'data: data: {"a": 1}\n\n', [{"a": 1}]),
    "the end mark in lower case": (b"data: [done]\n\n", [DONE]),
    "the end mark in quotes": (b'data: "[DONE]"\n\n', [DONE]),
    "an error event": (
        b'event: error\ndata: {"message": "no"}\n\n',
        [{"error": {"message": "no"}}],
    ),
    "an error event of text": (b"event: error\ndata: no\n\n", [{"error": {"message": "no"}}]),
    "an error event with its key": (b'event: error\ndata: {"error": "no"}\n\n', [{"error": "no"}]),
    "an event name ends with its event": (
        b'event: error\n\ndata: {"a": 1}\n\n',
        [{"a": 1}],
    ),
    "an object without a frame": (
        b'data: {"a": 1}\n\n{"error": "no"}\n',
        [{"a": 1}, {"error": "no"}],
    ),
    "half an object without a frame": (
        b'data: {"a": 1}\n\n{"b": \n\n',
        [{"a": 1}, '{"b":'],
    ),
    "objects on lines, and the end mark": (
        b'{"a": 1}\n{"b": 2}\n[DONE]\n',
        [{"a": 1}, {"b": 2}, DONE],
    ),
    "named events": (
        b'event: chunk\ndata: {"a": 1}\n\nevent: done\ndata: [DONE]\n\n',
        [{"a": 1}, DONE],
    ),
    "two objects in one event": (b'data: {"a": 1}{"b": 2}\n\n', ['{"a": 1}{"b": 2}']),
    "white space before the field": (b' data: {"a": 1}\n\n', [{"a": 1}]),
    "a line separator inside a text": (
        'data: {"a": "x\u2028y"}\n\n'.encode(),
        [{"a": "x\u2028y"}],
    ),
    "a cut event": (b'data: {"a": 1}\n\ndata: {"b', [{"a": 1}, '{"b']),
    "nothing": (b"", []),
    "nested beyond the decoder": (
        b"data: " + b"[" * 50_000 + b"\n\n",
        ["[" * 50_000],
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_events_are_read_however_framed(name: str) -> None:
    data, wanted = EVENTS[name]
    assert sse_events(data) == wanted
    if len(data) < 1000:
        assert sse_events(data.decode()) == wanted


@pytest.mark.parametrize("name", [name for name in EVENTS if len(EVENTS[name][0]) < 1000])
def test_events_are_the_same_however_their_bytes_arrive(name: str) -> None:
    data, wanted = EVENTS[name]
    for cut in range(len(data) + 1):
        reader = EventReader()
        assert [*reader.feed(data[:cut]), *reader.feed(data[cut:]), *reader.finish()] == wanted
    reader = EventReader()
    singly = [one for n in range(len(data)) for one in reader.feed(data[n : n + 1])]
    assert [*singly, *reader.finish()] == wanted


def test_an_event_is_given_as_soon_as_it_ends() -> None:
    reader = EventReader()
    assert reader.feed(b'data: {"a": 1}\n') == []
    assert reader.feed(b"\n") == [{"a": 1}]


def test_bytes_that_are_no_utf8_are_replaced_and_reported() -> None:
    envelope = open_response(
        b'data: {"choices":[{"delta":{"content":"a\xff"},"finish_reason":"stop"}]}\n\n'
    )
    assert envelope.message is not None
    assert envelope.text == "a\ufffd"
    assert "utf8_replaced" in {one.name for one in envelope.repairs}


STREAMS: dict[str, tuple[list[Any], Any]] = {
    "arguments in pieces": (
        make_calls(
            make_entry("", index=0), make_piece('{"code":', index=0), make_piece(' "K1"}', index=0)
        ),
        K1,
    ),
    "an index that is missing": (make_calls(make_entry(""), make_piece('{"code": "K1"}')), K1),
    "an index that is null": (make_calls(make_entry(index=None)), K1),
    "an index that is text": (
        make_calls(make_entry("", index="0"), make_piece('{"code":"K1"}', index="0")),
        K1,
    ),
    "an index from one": (
        make_calls(make_entry("", index=1), make_piece('{"code":"K1"}', index=1)),
        K1,
    ),
    "an index that leaps and turns": (
        make_calls(make_entry(index=7), make_entry('{"code": "K2"}', index=2, id="b")),
        K1_K2,
    ),
    "no index, two whole calls": (
        make_calls(make_entry(), make_entry('{"code": "K2"}', id="b")),
        K1_K2,
    ),
    "no index, two calls in pieces": (
        make_calls(
            make_entry(""),
            make_piece('{"code": "K1"}'),
            make_entry("", id="b"),
            make_piece('{"code": "K2"}'),
        ),
        K1_K2,
    ),
    "no index and no id, two whole calls": (
        make_calls(make_entry(id=...), make_entry('{"code": "K2"}', id=...)),
        K1_K2,
    ),
    "no index, the id in every piece": (
        make_calls(make_entry('{"code":'), make_piece(' "K1"}', id="a")),
        K1,
    ),
    "no index, id and name in every piece": (
        make_calls(make_entry('{"code":'), make_entry(' "K1"}')),
        K1,
    ),
    "no index, one id for two whole calls": (
        make_calls(make_entry(), make_entry('{"code": "K2"}')),
        K1_K2,
    ),
    "no index, the same call twice": (make_calls(make_entry(), make_entry()), K1),
    "no index, pieces of two ids mixed": (
        make_calls(
            make_entry(""),
            make_entry("", id="b"),
            make_piece('{"code": "K1"}', id="a"),
            make_piece('{"code": "K2"}', id="b"),
        ),
        K1_K2,
    ),
    "no index, the name before the id": (
        make_calls(
            {"function": {"name": "track_parcel"}},
            {"id": "a", "function": {"arguments": '{"code": "K1"}'}},
        ),
        K1,
    ),
    "no index, the id before the name": (
        make_calls(
            {"id": "a", "function": {"name": None}},
            {"function": {"name": "track_parcel", "arguments": '{"code": "K1"}'}},
        ),
        K1,
    ),
    "the index only in later pieces": (
        make_calls(make_entry(""), make_piece('{"code":"K1"}', index=0)),
        K1,
    ),
    "the index only in the first piece": (
        make_calls(make_entry("", index=0), make_piece('{"code":"K1"}')),
        K1,
    ),
    "the index always zero, whole calls": (
        make_calls(make_entry(index=0), make_entry('{"code": "K2"}', index=0, id="b")),
        K1_K2,
    ),
    "the index always zero, pieces with an empty id": (
        make_calls(
            make_entry("", index=0),
            make_piece('{"code": "K1"}', index=0, id=""),
            make_entry("", index=0, id="b"),
            make_piece('{"code": "K2"}', index=0, id=""),
        ),
        K1_K2,
    ),
    "two indexes mixed": (
        make_calls(
            make_entry("", index=0),
            make_entry("", index=1, id="b"),
            make_piece('{"code":', index=0),
            make_piece('{"code":', index=1),
            make_piece(' "K1"}', index=0),
            make_piece(' "K2"}', index=1),
        ),
        K1_K2,
    ),
    "both calls in one chunk": (
        [
            make_chunk(
                {"tool_calls": [make_entry(index=0), make_entry('{"code": "K2"}', index=1, id="b")]}
            ),
            make_chunk(finish="tool_calls"),
        ],
        K1_K2,
    ),
    "the id again in every piece": (
        make_calls(make_entry("", index=0), make_piece('{"code": "K1"}', index=0, id="a")),
        K1,
    ),
    "another id in every piece": (
        make_calls(make_entry("", index=0), make_piece('{"code": "K1"}', index=0, id="x9")),
        K1,
    ),
    "the id first in a later piece": (
        make_calls(make_entry("", index=0, id=None), make_piece('{"code": "K1"}', index=0, id="a")),
        K1,
    ),
    "id and name blank in later pieces": (
        make_calls(
            make_entry("", index=0),
            {"index": 0, "id": "", "function": {"name": "", "arguments": '{"code": "K1"}'}},
        ),
        K1,
    ),
    "the name null at first": (
        make_calls(make_entry("", index=0, name=None), make_entry('{"code": "K1"}', index=0)),
        K1,
    ),
    "the name behind the arguments": (
        make_calls(make_piece('{"code": "K1"}', index=0, id="a"), make_entry("", index=0)),
        K1,
    ),
    "the name again in every piece": (
        make_calls(make_entry('{"code":', index=0), make_entry(' "K1"}', index=0)),
        K1,
    ),
    "the name in pieces": (
        make_calls(
            make_entry("", index=0, name="track_"),
            {"index": 0, "function": {"name": "parcel", "arguments": '{"code": "K1"}'}},
        ),
        K1,
    ),
    "an index below zero": (
        make_calls(make_entry("", index=-1), make_piece('{"code":"K1"}', index=-1)),
        K1,
    ),
    "an index with a point": (
        make_calls(make_entry("", index=0.0), make_piece('{"code":"K1"}', index=0)),
        K1,
    ),
    "an index of true": (
        make_calls(make_entry("", index=True), make_piece('{"code":"K1"}', index=True)),
        K1,
    ),
    "the index always zero, no ids": (
        make_calls(make_entry(index=0, id=...), make_entry('{"code":"K2"}', index=0, id=...)),
        "ambiguous_calls",
    ),
    "a part of the name, then the whole": (
        make_calls(
            make_entry("", index=0, name="track_"),
            {"index": 0, "function": {"name": "track_parcel", "arguments": '{"code": "K1"}'}},
        ),
        "unknown_tool",
    ),
    "a name that is a list": (
        make_calls(make_entry(index=0, name=["track_parcel"])),
        "unknown_tool",
    ),
    "an odd name, then the name": (
        make_calls(make_entry("", index=0, name=7), make_entry(index=0)),
        K1,
    ),
    "an id that is an object": (make_calls(make_entry(index=0, id={"x": 1})), K1),
    "the entry opened by its type alone": (
        make_calls({"index": 0, "id": "a", "type": "function"}, make_entry(index=0)),
        K1,
    ),
    "text between the pieces": (
        [
            make_chunk({"content": "One "}),
            make_chunk({"tool_calls": [make_entry("", index=0)]}),
            make_chunk({"content": "moment."}),
            make_chunk({"tool_calls": [make_piece('{"code": "K1"}', index=0)]}),
            make_chunk(finish="tool_calls"),
        ],
        K1,
    ),
    "the finish before the arguments": (
        [
            make_chunk({"tool_calls": [make_entry("", index=0)]}, "tool_calls"),
            make_chunk({"tool_calls": [make_piece('{"code": "K1"}', index=0)]}),
            DONE,
        ],
        K1,
    ),
    "length, then stop": (
        [
            *make_calls(make_entry('{"code": "K', index=0), finish="length")[:-1],
            make_chunk(finish="stop"),
        ],
        "truncated_output",
    ),
    "a number among the pieces": (
        make_calls(
            make_entry('{"code":', index=0), make_piece(7, index=0), make_piece("}", index=0)
        ),
        "schema_violation",
    ),
    "objects that grow": (
        make_calls(make_entry({"code": "K"}, index=0), make_piece({"code": "K1"}, index=0)),
        "ambiguous_calls",
    ),
    "an empty mapping in place of the list": (
        [make_chunk({"content": "Here.", "tool_calls": {}}), make_chunk(finish="stop")],
        ["Here."],
    ),
    "a mapping of calls": (
        [
            make_chunk(
                {"tool_calls": {"0": make_entry(), "1": make_entry('{"code":"K2"}', id="b")}}
            ),
            make_chunk(finish="tool_calls"),
        ],
        K1_K2,
    ),
    "calls as a text of JSON": (
        [make_chunk({"tool_calls": json.dumps([make_entry()])}), make_chunk(finish="tool_calls")],
        K1,
    ),
    "calls as a text of JSON in pieces": (
        [
            make_chunk({"tool_calls": json.dumps([make_entry()])[:20]}),
            make_chunk({"tool_calls": json.dumps([make_entry()])[20:]}),
            make_chunk(finish="tool_calls"),
        ],
        K1,
    ),
    "a text of no JSON in place of the list": (
        [make_chunk({"content": "Here.", "tool_calls": "track_parcel"}), make_chunk(finish="stop")],
        "missing_tool_name",
    ),
    "no name ever": (make_calls(make_entry(index=0, name=None)), "missing_tool_name"),
    "an entry that is null": (make_calls(None, make_entry(index=0)), K1),
    "entries without their list": (
        [make_chunk({"tool_calls": make_entry(index=0)}), make_chunk(finish="tool_calls")],
        K1,
    ),
    "a call without its function": (
        make_calls({"index": 0, "id": "a", "name": "track_parcel", "arguments": '{"code": "K1"}'}),
        K1,
    ),
    "a type that is missing": (make_calls(make_entry(index=0, type=...)), K1),
    "null pieces": (
        make_calls(
            make_entry(index=0), {"index": 0, "function": {"name": None, "arguments": None}}
        ),
        K1,
    ),
    "a function that is null in a later piece": (
        make_calls(make_entry(index=0), {"index": 0, "function": None}),
        K1,
    ),
    "arguments as an object": (make_calls(make_entry({"code": "K1"}, index=0)), K1),
    "an empty text, then the object": (
        make_calls(make_entry("", index=0), make_piece({"code": "K1"}, index=0)),
        K1,
    ),
    "an empty object, then the text": (
        make_calls(make_entry({}, index=0), make_piece('{"code": "K1"}', index=0)),
        K1,
    ),
    "the same object twice": (
        make_calls(make_entry({"code": "K1"}, index=0), make_piece({"code": "K1"}, index=0)),
        K1,
    ),
    "two different objects": (
        make_calls(make_entry({"code": "K1"}, index=0), make_piece({"code": "K2"}, index=0)),
        "ambiguous_calls",
    ),
    "an object that names a key twice": (
        [
            (
                '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":'
                '{"name":"track_parcel","arguments":{"code":"K1","code":"K2"}}}]},'
                '"finish_reason":"tool_calls"}]}'
            )
        ],
        "bad_arguments_syntax",
    ),
    "letters that repeat": (
        make_calls(
            make_entry('{"code": "a', index=0),
            make_piece("a", index=0),
            make_piece("a", index=0),
            make_piece('"}', index=0),
        ),
        [("track_parcel", {"code": "aaa"})],
    ),
    "a surrogate pair cut in two": (
        make_calls(make_entry('{"code": "\ud83d', index=0), make_piece('\ude80"}', index=0)),
        [("track_parcel", {"code": "🚀"})],
    ),
    "an escaped surrogate pair cut in two": (
        make_calls(make_entry('{"code": "\\ud83d', index=0), make_piece('\\ude80"}', index=0)),
        [("track_parcel", {"code": "🚀"})],
    ),
    "no arguments, a tool that needs none": (
        make_calls({"index": 0, "id": "a", "function": {"name": "list_rooms"}}),
        [("list_rooms", {})],
    ),
    "the legacy field": (
        [
            make_chunk({"function_call": {"name": "track_parcel", "arguments": ""}}),
            make_chunk({"function_call": {"arguments": '{"code": "K1"}'}}),
            make_chunk(finish="function_call"),
        ],
        K1,
    ),
    "the legacy field beside the new one": (
        [
            make_chunk({"function_call": {"name": "track_parcel", "arguments": '{"code": "K1"}'}}),
            make_chunk({"tool_calls": [make_entry(index=0)]}),
            make_chunk(finish="tool_calls"),
        ],
        K1,
    ),
    "a chunk that carries a message": (
        [{"choices": [{"message": {"tool_calls": [make_entry()]}, "finish_reason": "tool_calls"}]}],
        K1,
    ),
    "deltas, then the whole message": (
        [
            make_chunk({"content": "Your parcel "}),
            make_chunk({"content": "is on its way."}),
            {
                "choices": [
                    {
                        "message": {"content": "Your parcel is on its way."},
                        "finish_reason": "stop",
                    }
                ]
            },
        ],
        ["Your parcel is on its way."],
    ),
    "deltas, then the whole message with its calls": (
        [
            *make_calls(make_entry("", index=0), make_piece('{"code": "K1"}', index=0))[:-2],
            {
                "choices": [
                    {
                        "message": {"tool_calls": [make_entry(index=0)]},
                        "finish_reason": "tool_calls",
                    }
                ]
            },
        ],
        K1,
    ),
    "deltas, then the whole message without ids": (
        [
            *make_calls(make_entry(index=0), make_entry('{"code": "K2"}', index=1, id="b"))[:-2],
            {
                "choices": [
                    {
                        "message": {
                            "tool_calls": [
                                make_entry('{"code":"K1"}', id=...),
                                make_entry({"code": "K2"}, id=...),
                            ]
                        },
                        "finish_reason": "tool_calls",
                    }
                ]
            },
        ],
        K1_K2,
    ),
    "deltas, then a whole message with one call more": (
        [
            *make_calls(make_entry(index=0))[:-2],
            {
                "choices": [
                    {
                        "message": {
                            "tool_calls": [make_entry(), make_entry('{"code": "K2"}', id="b")]
                        },
                        "finish_reason": "tool_calls",
                    }
                ]
            },
        ],
        K1_K2,
    ),
    "a message a piece, of a call": (
        [
            {"choices": [{"message": {"tool_calls": [make_entry('{"code":', index=0)]}}]},
            {
                "choices": [
                    {
                        "message": {"tool_calls": [make_piece(' "K1"}', index=0)]},
                        "finish_reason": "tool_calls",
                    }
                ]
            },
        ],
        K1,
    ),
    "a message a piece": (
        [
            {"choices": [{"message": {"content": "Your parcel "}}]},
            {"choices": [{"message": {"content": "is here."}, "finish_reason": "stop"}]},
        ],
        ["Your parcel is here."],
    ),
    "an answer given cumulatively": (
        [
            make_chunk({"content": "Your"}),
            make_chunk({"content": "Your parcel"}),
            make_chunk({"content": "Your parcel is here."}, "stop"),
        ],
        ["Your parcel is here."],
    ),
    "an answer that only begins alike": (
        [
            make_chunk({"content": "ha"}),
            make_chunk({"content": "ha"}),
            make_chunk({"content": "haha"}, "stop"),
        ],
        ["hahahaha"],
    ),
    "text of the completions kind": (
        [{"choices": [{"text": "It is here.", "finish_reason": "stop"}]}],
        ["It is here."],
    ),
    "content in parts": (
        [
            make_chunk({"content": [{"type": "thinking", "thinking": "Hm."}]}),
            make_chunk({"content": [{"type": "text", "text": "It is "}]}),
            make_chunk({"content": "here."}, "stop"),
        ],
        ["It is here."],
    ),
    "the legacy field as a text of JSON": (
        [
            make_chunk({"function_call": '{"name": "track_parcel", "arguments": {"code": "K1"}}'}),
            make_chunk(finish="function_call"),
        ],
        K1,
    ),
    "an empty legacy field in every piece": (
        [
            make_chunk({"content": "Here.", "function_call": {}}),
            make_chunk({"function_call": {"name": None, "arguments": None}}, "stop"),
        ],
        ["Here."],
    ),
    "a delta that is a list": (
        [make_chunk(["x"]), make_chunk({"content": "Here."}, "stop")],
        ["Here."],
    ),
    "a first chunk without choices": (
        [{"choices": [], "prompt_filter_results": []}, *make_calls(make_entry(index=0))],
        K1,
    ),
    "a null choice": ([{"choices": [None]}, *make_calls(make_entry(index=0))], K1),
    "choices of null": ([{"choices": None}, *make_calls(make_entry(index=0))], K1),
    "a null delta": (
        [
            {"choices": [{"delta": None}]},
            make_chunk({"content": "Here."}),
            make_chunk(finish="stop"),
        ],
        ["Here."],
    ),
    "usage behind the finish": (
        [
            *make_calls(make_entry(index=0))[:-1],
            {"choices": [], "usage": {"prompt_tokens": 3}},
            DONE,
        ],
        K1,
    ),
    "the end mark without a finish": (
        [make_chunk({"tool_calls": [make_entry(index=0)]}), DONE],
        K1,
    ),
    "a finish without the end mark": (make_calls(make_entry(index=0))[:-1], K1),
    "a finish that is blanked later": (
        [make_chunk({"content": "Here."}, "stop"), make_chunk(finish="")],
        ["Here."],
    ),
    "deltas behind the end mark": (
        [make_chunk({"content": "Here."}, "stop"), DONE, make_chunk({"content": " More."})],
        ["Here."],
    ),
    "neither finish nor end mark": (
        make_calls(make_entry(index=0), finish=None)[:-1],
        "stream_interrupted",
    ),
    "a cut in the arguments": (
        make_calls(make_entry('{"co', index=0), finish=None)[:-1],
        "stream_interrupted",
    ),
    "a cut text, masked by its finish": (
        make_calls(make_entry('{"co', index=0)),
        "truncated_output",
    ),
    "nothing at all": ([], "stream_interrupted"),
    "an end mark and nothing else": ([DONE], "bad_envelope"),
    "no choice ever": ([{"choices": []}, DONE], "bad_envelope"),
    "an empty answer": (
        [make_chunk({"content": ""}), make_chunk(finish="stop"), DONE],
        "empty_turn",
    ),
    "reasoning and nothing else": (
        [make_chunk({"reasoning_content": "Hm."}), make_chunk(finish="stop"), DONE],
        "empty_turn",
    ),
    "a piece of noise": (["hello", *make_calls(make_entry(index=0))], K1),
    "a chunk that cannot be decoded": (
        [make_chunk({"content": "a"}), '{"choices": [{"del', make_chunk(finish="stop"), DONE],
        "stream_interrupted",
    ),
    "broken usage behind the finish": (
        [make_chunk({"content": "Here."}, "stop"), '{"usage": {"pro', DONE],
        ["Here."],
    ),
    "an error event": (
        [make_chunk({"content": "Let"}), {"error": {"message": "worker died", "code": 500}}, DONE],
        "stream_interrupted",
    ),
    "an error event behind the finish": (
        [*make_calls(make_entry(index=0))[:-1], {"error": "worker died"}],
        "stream_interrupted",
    ),
    "an error of null": ([make_chunk({"content": "Here."}, "stop", error=None)], ["Here."]),
    "an error with nothing in it": (
        [make_chunk({"content": "Here."}, "stop", error={"message": None})],
        ["Here."],
    ),
    "an error event with a code of its own": (
        [{"error": {"message": "slow down", "code": 429}}],
        "rate_limited",
    ),
    "an error event that says the context is too long": (
        [
            make_chunk({"role": "assistant"}),
            {"error": {"message": "Maximum context length is 4096"}},
        ],
        "context_overflow",
    ),
    "an error event about the model's call": (
        [{"error": {"message": "no", "code": "tool_use_failed", "failed_generation": "<f>"}}],
        "server_rejected_output",
    ),
    "an error inside a choice": (
        [{"choices": [{"delta": {}, "finish_reason": "error", "error": {"message": "upstream"}}]}],
        "stream_interrupted",
    ),
    "an error in Groq's place": (
        [make_chunk({"content": "a"}, x_groq={"error": "over capacity"})],
        "stream_interrupted",
    ),
    "a filter": (
        [make_chunk({"content": "I"}), make_chunk(finish="content_filter"), DONE],
        "refused_or_filtered",
    ),
    "a refusal": (
        [
            make_chunk({"refusal": "I can't "}),
            make_chunk({"refusal": "help."}),
            make_chunk(finish="stop"),
        ],
        "refused_or_filtered",
    ),
    "a network error as finish": ([make_chunk(finish="network_error"), DONE], "endpoint_error"),
    "two choices, the first counts": (
        [
            {"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": "stop"}]},
            {"choices": [{"index": 0, "delta": {"content": "A"}, "finish_reason": "stop"}]},
        ],
        ["A"],
    ),
    "a list of chunks in one event": (
        ["[" + json.dumps(make_chunk({"content": "A"}, "stop")) + "]"],
        ["A"],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_put_together(name: str) -> None:
    chunks, wanted = STREAMS[name]
    assert outcome_of(parse_response(send(chunks), TOOLS)) == wanted


@pytest.mark.parametrize("name", [name for name in STREAMS if "deep" not in name])
def test_a_stream_is_the_same_as_text_as_list_and_over_http(name: str) -> None:
    chunks, _ = STREAMS[name]
    data = send(chunks)
    reading = parse_response(data, TOOLS)
    headers = {"Content-Type": "text/event-stream; charset=utf-8"}
    listed = [f"data: {one}\n\n" if isinstance(one, str) else one for one in chunks]
    for wire in (
        data.decode(),
        {"status": 200, "headers": headers, "body": data.decode()},
        {"_http": {"status": 200, "headers": headers, "body": data.decode()}},
        listed,
    ):
        assert parse_response(wire, TOOLS) == reading


SMALL = (
    "arguments in pieces",
    "the index always zero, whole calls",
    "content in parts",
    "the legacy field",
)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SMALL)
def test_a_stream_cut_anywhere_is_whole_or_interrupted(name: str, level: Any) -> None:
    data = send(STREAMS[name][0])
    whole = parse_response(data, TOOLS, level=level)
    seen = set()
    for cut in range(len(data)):
        reading = parse_response(data[:cut], TOOLS, level=level)
        same = (reading.calls, reading.final, reading.failure) == (
            whole.calls,
            whole.final,
            whole.failure,
        )
        assert same or (reading.failure and reading.failure.kind == "stream_interrupted"), cut
        seen.add(same)
    assert seen == {True, False}


PLAIN_TWINS: dict[str, tuple[dict[str, Any], str, list[Any]]] = {
    "a call": (
        {"content": None, "tool_calls": [make_entry()]},
        "tool_calls",
        make_calls(make_entry(index=0)),
    ),
    "a call beside text": (
        {"content": "One moment.", "reasoning_content": "Hm.", "tool_calls": [make_entry()]},
        "tool_calls",
        [
            make_chunk({"reasoning_content": "H"}),
            make_chunk({"reasoning_content": "m."}),
            make_chunk({"content": "One "}),
            make_chunk({"content": "moment."}),
            make_chunk({"tool_calls": [make_entry('{"code"', index=0)]}),
            make_chunk({"tool_calls": [make_piece(': "K1"}', index=0)]}),
            make_chunk(finish="tool_calls"),
        ],
    ),
    "an answer": (
        {"content": "It is here."},
        "stop",
        [
            make_chunk({"content": "It is"}),
            make_chunk({"content": " here."}),
            make_chunk(finish="stop"),
            DONE,
        ],
    ),
    "a cut call": (
        {"content": None, "tool_calls": [make_entry('{"code": "K')]},
        "length",
        make_calls(make_entry('{"code": "K', index=0), finish="length"),
    ),
    "a refusal": (
        {"content": None, "refusal": "No."},
        "stop",
        [make_chunk({"refusal": "No."}), make_chunk(finish="stop")],
    ),
    "an empty text": (
        {"content": ""},
        "stop",
        [make_chunk({"content": ""}), make_chunk(finish="stop")],
    ),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PLAIN_TWINS)
def test_streamed_and_plain_are_the_same(name: str, level: Any) -> None:
    message, finish, chunks = PLAIN_TWINS[name]
    plain = parse_response(make_plain(message, finish), TOOLS, level=level)
    assert parse_response(send(chunks), TOOLS, level=level) == plain


BODIES: dict[str, tuple[int, Any, str]] = {
    # status, body, kind:detail, with ! where a retry makes no sense
    "no choices": (200, {"choices": []}, "bad_envelope"),
    "choices of null": (200, {"choices": None}, "bad_envelope"),
    "null as the only choice": (200, {"choices": [None]}, "bad_envelope"),
    "some other JSON": (200, {"status": "ok"}, "bad_envelope"),
    "a page": (200, "<!DOCTYPE html><html><title>Welcome</title></html>", "bad_envelope"),
    "a number": (200, "42", "bad_envelope"),
    "an empty body": (200, "", "bad_envelope"),
    "half a body": (200, '{"choices": [{"mess', "bad_envelope"),
    "a choice without a message": (200, {"choices": [{"finish_reason": "stop"}]}, "bad_envelope"),
    "a body nested beyond the decoder": (200, '{"choices": ' + "[" * 100_000, "bad_envelope"),
    "an error in a success": (200, {"error": {"message": "upstream"}}, "endpoint_error"),
    "an error of text in a success": (200, {"error": "upstream"}, "endpoint_error"),
    "an error of true in a success": (
        200,
        {"error": True, "message": "upstream"},
        "endpoint_error",
    ),
    "an error beside choices": (
        200,
        {"error": {"message": "upstream", "code": 502}, **make_plain({"content": "x"})},
        "endpoint_error",
    ),
    "an inner code of 429": (200, {"error": {"message": "slow", "code": 429}}, "rate_limited"),
    "an inner code in text": (200, {"error": {"message": "slow", "code": "429"}}, "rate_limited"),
    "an inner code in a flat body": (
        200,
        {"object": "error", "message": "x", "code": 400},
        "request_rejected!",
    ),
    "an inner type": (200, {"error": {"message": "x", "type": "rate_limit_error"}}, "rate_limited"),
    "an error inside a choice": (
        200,
        {"choices": [{"message": {"content": ""}, "error": {"message": "x", "code": 502}}]},
        "endpoint_error",
    ),
    "a redirection": (302, "", "bad_envelope:redirect!"),
    "429": (429, {"error": {"message": "slow down"}}, "rate_limited"),
    "429 with a page": (429, "<html><h1>Too many</h1></html>", "rate_limited"),
    "429 that only money cures": (
        429,
        {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}},
        "rate_limited!",
    ),
    "529": (529, {"type": "error", "error": {"type": "overloaded_error"}}, "rate_limited"),
    "503": (503, "upstream overloaded", "rate_limited"),
    "402": (402, {"error": {"message": "Insufficient Balance"}}, "rate_limited!"),
    "413 for tokens a minute": (
        413,
        {
            "error": {
                "message": "Request too large: tokens per minute (TPM)",
                "code": "rate_limit_exceeded",
            }
        },
        "rate_limited",
    ),
    "503 while loading": (503, {"error": {"message": "Loading model"}}, "endpoint_error:loading"),
    "500": (500, {"error": {"message": "boom"}}, "endpoint_error"),
    "500 without a body": (500, "", "endpoint_error"),
    "502 with a page": (502, "<html><title>Bad Gateway</title></html>", "endpoint_error"),
    "504": (504, "", "endpoint_error:timeout"),
    "408": (408, "", "endpoint_error:timeout"),
    "501": (501, {"error": {"message": "no"}}, "endpoint_error!"),
    "no answer": (0, "Connection refused", "endpoint_error:connection"),
    "no answer in time": (0, "Request timed out", "endpoint_error:timeout"),
    "the context by its code": (
        400,
        {"error": {"message": "too long", "code": "context_length_exceeded"}},
        "context_overflow!",
    ),
    "the context by its type": (
        400,
        {"error": {"type": "exceed_context_size_error"}},
        "context_overflow!",
    ),
    "the context in words": (
        400,
        {"message": "prompt is too long: 9000 tokens > 8192 maximum"},
        "context_overflow!",
    ),
    "the context in a 500": (
        500,
        {"error": "the input exceeds the context window"},
        "context_overflow!",
    ),
    "the context in a 200": (
        200,
        {"error": {"message": "context length exceeded"}},
        "context_overflow!",
    ),
    "the context in a list": (
        400,
        [{"error": {"message": "maximum context"}}],
        "context_overflow!",
    ),
    "a call llama.cpp cannot parse": (
        500,
        {"error": {"code": 500, "message": "Failed to parse input at pos 9: <tool_call>"}},
        "server_rejected_output!",
    ),
    "a call Ollama cannot parse": (
        500,
        {"error": "error parsing tool call: raw='{code}', err=invalid character"},
        "server_rejected_output!",
    ),
    "the context in vLLM's other words": (
        400,
        {
            "error": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."
        },
        "context_overflow!",
    ),
    "the context in TGI's words": (
        422,
        {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 and 500"},
        "context_overflow!",
    ),
    "the context in GLM's words": (
        400,
        {"error": {"code": "1261", "message": "Prompt 超长"}},
        "context_overflow!",
    ),
    "the context in LM Studio's words": (
        400,
        {"error": "The number of tokens to keep is greater than the context length."},
        "context_overflow!",
    ),
    "429 of an account in arrears": (
        429,
        {"error": {"code": "1113", "message": "您的账户已欠费，请充值后重试"}},
        "rate_limited!",
    ),
    "429 of a used up quota, by its type": (
        429,
        {"error": {"message": "check your balance", "type": "exceeded_current_quota_error"}},
        "rate_limited!",
    ),
    "429 of a quota that comes back": (
        429,
        {"error": {"message": "You exceeded your current quota. Please retry in 41.2s."}},
        "rate_limited",
    ),
    "a limit in a success, without an error": (
        200,
        {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}, "choices": None},
        "rate_limited!",
    ),
    "a status of 500 in a flat success": (
        200,
        {"code": 500, "msg": "404 NOT_FOUND", "success": False},
        "endpoint_error",
    ),
    "a filter in Chinese": (
        400,
        {"error": {"code": "1301", "message": "输入或生成内容可能包含不安全或敏感内容"}},
        "refused_or_filtered!",
    ),
    "a template that fails": (
        500,
        {"error": {"code": 500, "message": "Value is not callable: null at row 3, column 12:"}},
        "request_rejected:set-up!",
    ),
    "a reply of the model that the server finds invalid": (
        500,
        {"error": {"message": "The model produced invalid content.", "type": "model_error"}},
        "server_rejected_output!",
    ),
    "a header that Harmony does not stand": (
        500,
        {"error": {"message": "unexpected tokens remaining in message header: to=functions.x"}},
        "server_rejected_output!",
    ),
    "a call of markup that Ollama cannot parse": (
        500,
        {"error": "XML syntax error on line 3: element <parameter> closed by </function>"},
        "server_rejected_output!",
    ),
    "a call Groq refuses": (
        400,
        {"error": {"message": "Failed to call a function", "code": "tool_use_failed"}},
        "server_rejected_output!",
    ),
    "a failed generation": (
        400,
        {"error": {"message": "no", "failed_generation": "the context length is 3"}},
        "server_rejected_output!",
    ),
    "our tools cannot be parsed": (
        500,
        {"error": {"message": "Failed to parse tools: x"}},
        "request_rejected:schema!",
    ),
    "our messages cannot be parsed": (
        400,
        {"error": {"message": "Failed to parse messages: Missing 'content'"}},
        "request_rejected:content!",
    ),
    "a template is missing": (
        500,
        {"error": {"message": "requires --jinja flag"}},
        "request_rejected:set-up!",
    ),
    "a parser is missing": (
        400,
        {"message": '"auto" requires --enable-auto-tool-choice and --tool-call-parser to be set'},
        "request_rejected:set-up!",
    ),
    "a model without tools": (
        400,
        {"error": "m:1b does not support tools"},
        "request_rejected:set-up!",
    ),
    "no endpoint with tools": (
        404,
        {"error": {"message": "No endpoints found that support tool use", "code": 404}},
        "request_rejected:set-up!",
    ),
    "a wrong key": (401, {"error": {"message": "Incorrect API key"}}, "request_rejected:access!"),
    "an unknown model": (404, {"error": {"message": "no such model"}}, "request_rejected:access!"),
    "an error of text": (
        400,
        {"error": "temperature must be below 1"},
        "request_rejected:setting!",
    ),
    "a body of text": (400, "stop sequences are not taken here", "request_rejected:stop!"),
    "a bare detail": (
        422,
        {"detail": "tool_call_ids without response: a"},
        "request_rejected:pairing!",
    ),
    "a detail of pydantic": (
        422,
        {"detail": [{"loc": ["body", "messages", 1, "content"], "msg": "str type expected"}]},
        "request_rejected:content!",
    ),
    "an error that is a list": (
        400,
        {"error": [{"path": [0, "function", "parameters", "properties"], "message": "Required"}]},
        "request_rejected:schema!",
    ),
    "a list with one": (
        400,
        [{"error": {"code": 400, "message": "function_response.name is empty"}}],
        "request_rejected:pairing!",
    ),
    "a signature is missing": (
        400,
        [{"error": {"code": 400, "message": "missing a thought_signature in functionCall parts"}}],
        "request_rejected:reasoning!",
    ),
    "the reasoning is missing": (
        400,
        {"error": {"message": "The reasoning_content must be passed back"}},
        "request_rejected:reasoning!",
    ),
    "the reasoning is refused": (
        400,
        {"error": {"message": "property 'messages.1.reasoning_content' is unsupported"}},
        "request_rejected:reasoning!",
    ),
    "a choice is refused": (
        400,
        {"error": {"message": "Thinking mode does not support this tool_choice"}},
        "request_rejected:tool_choice!",
    ),
    "an id of the wrong form": (
        400,
        {"message": "Tool call id was x but must be a-z, A-Z, 0-9, with a length of 9."},
        "request_rejected:ids!",
    ),
    "an id that is too long": (
        400,
        {"error": {"message": "string too long", "param": "messages[1].tool_calls[0].id"}},
        "request_rejected:ids!",
    ),
    "results are missing": (
        400,
        {"error": {"message": "insufficient tool messages following tool_calls message"}},
        "request_rejected:pairing!",
    ),
    "a schema is refused": (
        400,
        {
            "error": {
                "message": "Invalid schema for function 'f'",
                "param": "tools[0].function.parameters",
            }
        },
        "request_rejected:schema!",
    ),
    "empty tools": (
        400,
        {"error": {"message": "[] is too short - 'tools'"}},
        "request_rejected:schema!",
    ),
    "null content is refused": (
        400,
        {"error": {"message": "invalid message content type: <nil>"}},
        "request_rejected:content!",
    ),
    "a list of parts is refused": (
        422,
        {"error": {"message": "messages[1]: invalid type: sequence, expected a string"}},
        "request_rejected:content!",
    ),
    "a name on a result is refused": (
        400,
        {"error": {"message": "'name' does not belong on a tool message"}},
        "request_rejected:pairing!",
    ),
    "empty calls are refused": (
        400,
        {"error": {"message": "Invalid 'messages[2].tool_calls': empty array"}},
        "request_rejected:content!",
    ),
    "old arguments are no object": (
        400,
        {"object": "error", "message": "Expecting ',' delimiter: line 1 column 9", "code": 400},
        "request_rejected!",
    ),
    "a choice that is taken by no server": (
        400,
        {"error": {"message": "m-1 does not support tool choice required", "param": "tool_choice"}},
        "request_rejected:tool_choice!",
    ),
    "grammar and tools": (
        400,
        {"error": {"code": 400, "message": "Cannot use custom grammar constraints with tools."}},
        "request_rejected:schema!",
    ),
    "429 that overflows a minute": (
        429,
        {"error": {"message": "tokens per min limit; reduce the length of the messages"}},
        "rate_limited",
    ),
    "a setting is unknown": (
        400,
        {
            "error": {
                "message": "Unsupported parameter: 'max_tokens'",
                "code": "unsupported_parameter",
            }
        },
        "request_rejected:setting!",
    ),
    "an upstream's words inside": (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "metadata": {"raw": '{"error": {"message": "maximum context length"}}'},
            }
        },
        "context_overflow!",
    ),
    "a prompt that a filter stops": (
        400,
        {"error": {"message": "blocked", "code": "content_filter"}},
        "refused_or_filtered!",
    ),
    "an error status over a completion": (500, make_plain({"content": "x"}), "endpoint_error"),
    "an error status over a stream": (
        400,
        'data: {"error": {"message": "context length exceeded"}}\n\n',
        "context_overflow!",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_refusals_are_told_apart(name: str) -> None:
    status, body, wanted = BODIES[name]
    kind, _, detail = wanted.rstrip("!").partition(":")
    text = body if isinstance(body, str) else json.dumps(body)
    for wire in (
        {"status": status, "headers": {"content-type": "application/json"}, "body": text},
        {"_http": {"status": status, "headers": {}, "body": body}},
    ):
        envelope = open_response(wire)
        failure = envelope.failure
        assert failure is not None
        assert (failure.kind, failure.detail or "") == (kind, detail or failure.detail or "")
        assert failure.retryable is not wanted.endswith("!")
        assert failure.message.endswith(".")
        assert "\n" not in failure.message
        assert envelope.message is None
        assert outcome_of(parse_response(wire, TOOLS)) == kind


def test_the_failed_generation_is_kept_in_the_message() -> None:
    body = {"error": {"message": "no", "code": "tool_use_failed", "failed_generation": "<f>K1"}}
    failure = open_response({"status": 400, "headers": {}, "body": body}).failure
    assert failure is not None
    assert "<f>K1" in failure.message


PLAIN: dict[str, tuple[Any, Any]] = {
    "a call": (make_plain({"tool_calls": [make_entry()]}, "tool_calls"), K1),
    "a body held apart": ({"_body": make_plain({"content": "Here."})}, ["Here."]),
    "a body in a list": ({"_body": [make_plain({"content": "Here."})]}, ["Here."]),
    "a body as text": (json.dumps(make_plain({"content": "Here."})), ["Here."]),
    "a body as bytes behind blank lines": (
        b"\n\n\r\n" + json.dumps(make_plain({"content": "Here."})).encode(),
        ["Here."],
    ),
    "a body behind a BOM": (
        b"\xef\xbb\xbf" + json.dumps(make_plain({"content": "A"})).encode(),
        ["A"],
    ),
    "chunks in a JSON list": (
        {"_body": json.dumps([make_chunk({"content": "A"}), make_chunk({"content": "B"}, "stop")])},
        ["AB"],
    ),
    "a body where a stream was asked for": (
        [json.dumps(make_plain({"content": "Here."}))],
        ["Here."],
    ),
    "the same over several lines": (
        [json.dumps(make_plain({"content": "Here."}), indent=1)],
        ["Here."],
    ),
    "choices without their list": (
        {"choices": {"message": {"content": "Here."}, "finish_reason": "stop"}},
        ["Here."],
    ),
    "a null choice before": (
        {"choices": [None, {"message": {"content": "Here."}, "finish_reason": "stop"}]},
        ["Here."],
    ),
    "a delta in a plain body": (
        {"choices": [{"delta": {"content": "A"}, "finish_reason": "stop"}]},
        ["A"],
    ),
    "text of the completions kind": ({"choices": [{"text": "A", "finish_reason": "stop"}]}, ["A"]),
    "chunks on lines, without a frame": (
        "\n".join(json.dumps(one) for one in make_calls(make_entry(index=0))[:-1]),
        K1,
    ),
    "whole bodies on lines": (
        "\n".join([json.dumps(make_plain({"content": "Here."}))] * 2),
        "bad_envelope",
    ),
    "a body and more behind it": (
        json.dumps(make_plain({"content": "Here."})) + "\n<!-- end -->",
        "bad_envelope",
    ),
    "one choice in two halves, without indexes": (
        {
            "choices": [
                {"message": {"content": "One moment."}, "finish_reason": "tool_calls"},
                {"message": {"tool_calls": [make_entry()]}, "finish_reason": "tool_calls"},
            ]
        },
        K1,
    ),
    "two choices, without indexes": (
        {
            "choices": [
                {"message": {"content": "A"}, "finish_reason": "stop"},
                {"message": {"content": "B"}, "finish_reason": "stop"},
            ]
        },
        ["A"],
    ),
    "one choice in two halves": (
        {
            "choices": [
                {"index": 0, "message": {"content": "One moment."}, "finish_reason": "stop"},
                {
                    "index": 0,
                    "message": {"tool_calls": [make_entry()]},
                    "finish_reason": "tool_calls",
                },
            ]
        },
        K1,
    ),
    "an error of null": (make_plain({"content": "A"}, error=None), ["A"]),
    "a finish of null": (make_plain({"tool_calls": [make_entry()]}, None), K1),
    "a malformed call by the native finish": (
        {
            "choices": [
                {
                    "message": {"content": ""},
                    "finish_reason": "stop",
                    "native_finish_reason": "MALFORMED_FUNCTION_CALL",
                }
            ]
        },
        "server_rejected_output",
    ),
    "a failure finish without a message": (
        {"choices": [{"message": None, "finish_reason": "error"}]},
        "endpoint_error",
    ),
    "a filter without a message": (
        {"choices": [{"message": None, "finish_reason": "content_filter"}]},
        "refused_or_filtered",
    ),
    "arguments that name a key twice": (
        (
            '{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"track_parcel",'
            '"arguments":{"code":"K1","code":"K2"}}}]},"finish_reason":"tool_calls"}]}'
        ),
        "bad_arguments_syntax",
    ),
    "arguments with NaN": (
        (
            '{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"track_parcel",'
            '"arguments":{"code":NaN}}}]},"finish_reason":"tool_calls"}]}'
        ),
        "bad_arguments_syntax",
    ),
    "nothing": (None, "bad_envelope"),
    "a page as bytes": (b"<html></html>", "bad_envelope"),
    "a text as bytes": (b"hello", "bad_envelope"),
    "no bytes": (b"", "stream_interrupted"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_answers_are_unwrapped(name: str) -> None:
    wire, wanted = PLAIN[name]
    assert outcome_of(parse_response(wire, TOOLS)) == wanted


def test_a_body_in_place_of_a_stream_is_reported() -> None:
    wire = {
        "status": 200,
        "headers": {"content-type": "text/event-stream"},
        "body": json.dumps(make_plain({"content": "A"})),
    }
    assert "not_streamed" in repairs_of(parse_response(wire, TOOLS))
    assert open_response(wire).streamed is False


def test_what_was_mended_on_the_wire_is_reported() -> None:
    chunks = make_calls(None, make_entry(""), make_piece('{"code": "K1"}'))
    assert {"null_entry", "index_missing"} <= repairs_of(parse_response(send(chunks), TOOLS))
    chunks = make_calls(make_entry(index=0), make_entry(index=0, id="b"))
    assert "index_reassigned" in repairs_of(parse_response(send(chunks), TOOLS))


def test_every_repair_has_its_sentence() -> None:
    known = SENTENCES
    made = {
        name
        for chunks, _ in STREAMS.values()
        for name in repairs_of(parse_response(send(chunks), TOOLS))
    }
    assert len(made) > 8
    assert made <= known.keys()
    assert all(text.endswith(".") for text in known.values())


def test_clean_answers_carry_no_repair() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    for wire in (
        make_plain({"content": None, "tool_calls": [make_entry()]}, "tool_calls"),
        make_plain({"content": "Here."}),
        send([*make_calls(make_entry(index=0))[:-1], usage, DONE]),
    ):
        assert parse_response(wire, TOOLS).repairs == ()


def test_the_message_of_a_stream_keeps_unknown_fields_to_be_sent_back() -> None:
    signed = make_entry("", index=0, extra_content={"google": {"thought_signature": "s1"}})
    chunks = [
        make_chunk({"reasoning_details": [{"type": "reasoning.text", "text": "H"}]}),
        make_chunk({"reasoning_details": [{"type": "reasoning.text", "text": "m"}]}),
        *make_calls(signed, make_piece('{"code": "K1"}', index=0)),
    ]
    message = assemble(chunks).message
    assert message["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s1"}}
    assert message["tool_calls"][0]["type"] == "function"
    assert message["tool_calls"][0]["function"]["arguments"] == '{"code": "K1"}'
    assert [one["text"] for one in message["reasoning_details"]] == ["H", "m"]
    assert parse_response(send(chunks), TOOLS).thought == "Hm"


def test_the_envelope_names_model_and_fingerprint() -> None:
    wire = make_plain({"content": "A"}, model="m-1", system_fingerprint="fp")
    assert (open_response(wire).model, open_response(wire).fingerprint) == ("m-1", "fp")
    chunks = [make_chunk({"content": "A"}, "stop", model="m-1", system_fingerprint="fp")]
    envelope = open_response(send(chunks))
    assert (envelope.model, envelope.fingerprint, envelope.streamed) == ("m-1", "fp", True)


def test_the_envelope_gives_the_text_for_the_text_driver() -> None:
    parts = [{"type": "text", "text": "Thought: hm\n"}, {"type": "text", "text": "Action: x"}]
    envelope = open_response(make_plain({"content": parts, "reasoning": "deep"}))
    assert (envelope.text, envelope.reasoning) == ("Thought: hm\nAction: x", "deep")


USAGES: dict[str, tuple[dict[str, Any], Usage]] = {
    "OpenAI": (
        {
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 2},
            }
        },
        Usage(9, 5, 4, 2),
    ),
    "DeepSeek": (
        {"usage": {"prompt_tokens": 9, "completion_tokens": 5, "prompt_cache_hit_tokens": 8}},
        Usage(9, 5, 8),
    ),
    "Kimi, inside the choice": (
        {"choices": [{"usage": {"prompt_tokens": 9, "completion_tokens": 5, "cached_tokens": 3}}]},
        Usage(9, 5, 3),
    ),
    "llama.cpp's timings": (
        {"timings": {"prompt_n": 6, "cache_n": 3, "predicted_n": 5}},
        Usage(9, 5, 3),
    ),
    "usage goes before timings": (
        {"usage": {"prompt_tokens": 9, "completion_tokens": 5}, "timings": {"prompt_n": 1}},
        Usage(9, 5),
    ),
    "Anthropic's names": (
        {"usage": {"input_tokens": 9, "output_tokens": 5, "cache_read_input_tokens": 2}},
        Usage(9, 5, 2),
    ),
    "Gemini's names": (
        {
            "usageMetadata": {
                "promptTokenCount": 9,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 4,
            }
        },
        Usage(9, 5, None, 4),
    ),
    "Groq's place": (
        {"x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 5}}},
        Usage(9, 5),
    ),
    "nulls and nonsense": (
        {"usage": {"prompt_tokens": None, "completion_tokens": "5", "prompt_tokens_details": None}},
        Usage(),
    ),
    "none": ({"usage": None}, Usage()),
}


@pytest.mark.parametrize("name", USAGES)
def test_usage_is_read_whatever_its_name_and_place(name: str) -> None:
    body, wanted = USAGES[name]
    choice = {"index": 0, "message": {"content": "A"}, "finish_reason": "stop"}
    choices = [{**choice, **(body.get("choices") or [{}])[0]}]
    assert open_response({**body, "choices": choices}).usage == wanted
    assert open_response(send([{**body, "choices": choices}])).usage == wanted


def test_cumulative_usage_is_never_summed() -> None:
    chunks = [
        make_chunk({"content": "A"}, usage={"prompt_tokens": 9, "completion_tokens": 1}),
        make_chunk({"content": "B"}, usage={"prompt_tokens": 9, "completion_tokens": 2}),
        make_chunk(finish="stop", usage={"prompt_tokens": 9, "completion_tokens": 3}),
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}},
    ]
    assert open_response(send(chunks)).usage == Usage(9, 3)


def test_usage_survives_an_interrupted_stream() -> None:
    chunks = [make_chunk({"content": "A"}, usage={"prompt_tokens": 9, "completion_tokens": 1})]
    assert open_response(send(chunks)).usage == Usage(9, 1)


NOON = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
LATER = format_datetime(datetime(2025, 6, 1, 12, 0, 30, tzinfo=UTC), usegmt=True)
WAITS: dict[str, tuple[dict[str, str], Any, float | None]] = {
    "seconds": ({"retry-after": "7"}, "", 7.0),
    "parts of a second": ({"Retry-After": "1.5"}, "", 1.5),
    "milliseconds": ({"retry-after-ms": "250", "retry-after": "9"}, "", 0.25),
    "a date": ({"retry-after": LATER, "date": format_datetime(NOON, usegmt=True)}, "", 30.0),
    "a date that is past": (
        {"retry-after": format_datetime(NOON, usegmt=True), "date": LATER},
        "",
        0.0,
    ),
    "a date and no clock": ({"retry-after": LATER}, "", None),
    "a unit": ({"retry-after": "20s"}, "", 20.0),
    "nonsense": ({"retry-after": "soon"}, "", None),
    "minus": ({"retry-after": "-3"}, "", 0.0),
    "nothing": ({}, "", None),
    "words of OpenAI": ({}, {"error": {"message": "Please try again in 20s. Visit x"}}, 20.0),
    "words with minutes": ({}, {"error": {"message": "try again in 1m20.5s."}}, 80.5),
    "words with hours": ({}, {"error": {"message": "Please try again in 1h2m3s."}}, 3723.0),
    "words with milliseconds": ({}, {"error": {"message": "try again in 120ms"}}, 0.12),
    "words in full": ({}, {"error": {"message": "Retry after 5 seconds"}}, 5.0),
    "words of Gemini": ({}, [{"error": {"message": "quota. Please retry in 41.2s."}}], 41.2),
    "Gemini's delay": ({}, [{"error": {"details": [{"@type": "x"}, {"retryDelay": "34s"}]}}], 34.0),
    "a delay in parts": ({}, {"error": {"details": [{"retryDelay": {"seconds": 3}}]}}, 3.0),
    "a number in the body": ({}, {"error": {"message": "x", "retry_after": 2.5}}, 2.5),
    "words that name no time": ({}, {"error": {"message": "try again later"}}, None),
    "a page": ({}, "<html>try again in a moment</html>", None),
    "the header goes first": ({"retry-after": "2"}, {"error": {"message": "try again in 9s"}}, 2.0),
}


@pytest.mark.parametrize("name", WAITS)
def test_the_wait_is_read_in_each_of_its_forms(name: str) -> None:
    headers, body, wanted = WAITS[name]
    for form in (body, body if isinstance(body, str) else json.dumps(body)):
        found = retry_after(headers, form)
        assert found == (None if wanted is None else pytest.approx(wanted))


def test_a_date_can_be_counted_from_a_given_time() -> None:
    assert retry_after({"retry-after": LATER}, "", now=NOON.timestamp()) == pytest.approx(30.0)


def test_a_given_finish_reason_goes_before_the_answers_own() -> None:
    wire = make_plain({"content": None, "tool_calls": [make_entry("")]}, "tool_calls")
    assert outcome_of(parse_response(wire, TOOLS, finish_reason="length")) == "truncated_output"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "message",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "error",
                    "arguments",
                    "id",
                    "index",
                    "finish_reason",
                    "usage",
                    "code",
                    "type",
                    "text",
                    "detail",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_and_the_same_in_two_pieces(data: bytes) -> None:
    whole = sse_events(data)
    reader = EventReader()
    half = len(data) // 2
    pieces = [*reader.feed(data[:half]), *reader.feed(data[half:]), *reader.finish()]
    assert json.dumps(pieces) == json.dumps(whole)
    assert holds_one(parse_response(data, TOOLS))


@settings(max_examples=150, deadline=None)
@given(st.lists(JSON, max_size=5), st.booleans())
def test_any_chunks_give_exactly_one_outcome(chunks: list[Any], done: bool) -> None:
    chunks = [*chunks, f"data: {DONE}\n\n"] if done else chunks
    assert holds_one(parse_response(chunks, TOOLS))


@settings(max_examples=150, deadline=None)
@given(JSON, st.sampled_from([0, 200, 302, 400, 429, 500]))
def test_any_body_gives_exactly_one_outcome(body: Any, status: int) -> None:
    assert holds_one(parse_response({"_http": {"status": status, "body": body}}, TOOLS))
    assert holds_one(parse_response(body, TOOLS))
    retry_after({}, body)


@pytest.mark.parametrize("opener", ['{"choices":', "[", '{"error":', '{"detail":['])
def test_nesting_beyond_every_decoder_is_a_value(opener: str) -> None:
    deep = opener * 100_000
    for wire in (deep, [deep], f"data: {deep}\n\n", {"status": 500, "headers": {}, "body": deep}):
        assert holds_one(parse_response(wire, TOOLS))


def test_deep_values_that_came_decoded_are_values() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"error": deep, "choices": [{"message": deep}]} if deep == {} else {"error": deep}
    assert holds_one(parse_response(deep, TOOLS))
