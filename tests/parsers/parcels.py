"""What the tests of the native side share: three tools, messages, streams, and what was read."""

import json
from collections.abc import Iterator
from typing import Any

from parsers.types import Reading
from parsers.wire import DONE


def make_tool(name: str, required: list[str], **properties: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": required,
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [
    make_tool("track_parcel", ["code"], code="string"),
    make_tool("book_room", ["room", "guests"], room="string", guests="integer", quiet="boolean"),
    make_tool("list_rooms", []),
]

K1 = [("track_parcel", {"code": "K1"})]
K1_K2 = [("track_parcel", {"code": "K1"}), ("track_parcel", {"code": "K2"})]


def make_entry(arguments: Any = '{"code": "K1"}', **other: Any) -> dict[str, Any]:
    """Make a call as it stands in `tool_calls`; a field given as `...` is left out."""
    entry = {"id": "a", "type": "function", "name": "track_parcel", **other}
    function = {"name": entry.pop("name"), "arguments": arguments}
    return {k: v for k, v in {**entry, "function": function}.items() if v is not ...}


# ---------------------------------------------------------------- the same, plain and streamed


def make_plain(message: Any, finish: Any = "stop", **other: Any) -> dict[str, Any]:
    return {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        **other,
    }


def make_chunk(delta: Any = None, finish: Any = None, **other: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice], **other}


def make_calls(*entries: Any, finish: str | None = "tool_calls") -> list[Any]:
    """Make a stream with one entry a chunk."""
    pieces = [make_chunk({"role": "assistant", "content": None})]
    pieces += [make_chunk({"tool_calls": [entry]}) for entry in entries]
    return [*pieces, make_chunk(finish=finish), DONE]


def make_piece(arguments: Any, **other: Any) -> dict[str, Any]:
    return {**other, "function": {"arguments": arguments}}


def send(chunks: list[Any]) -> bytes:
    """Frame the chunks of a stream; a text is sent as an event's data."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in chunks]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def make_stream(message: dict[str, Any], finish: Any = "stop", size: int = 5) -> list[Any]:
    """Make the stream that says what a message says, its texts in pieces of so many characters."""
    deltas = [delta for key, value in message.items() for delta in _deltas(key, value, size)]
    return [*(make_chunk(delta) for delta in deltas), make_chunk(finish=finish), DONE]


def _deltas(key: str, value: Any, size: int) -> Iterator[dict[str, Any]]:
    if key == "tool_calls" and isinstance(value, list):
        for index, entry in enumerate(value):
            yield from ({key: [one]} for one in _pieces(entry, index, size))
    elif key == "content" and isinstance(value, list):
        yield from ({key: [part]} for part in value)
    elif isinstance(value, str) and key != "role":
        yield from ({key: text} for text in _cut(value, size))
    else:
        yield {key: value}


def _pieces(entry: Any, index: int, size: int) -> Iterator[Any]:
    function = entry.get("function") if isinstance(entry, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        yield {**entry, "index": index} if isinstance(entry, dict) else entry
        return
    yield {**entry, "index": index, "function": {**function, "arguments": ""}}
    for text in _cut(function["arguments"], size):
        yield make_piece(text, index=index)


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


# ---------------------------------------------------------------- what was read


def outcome_of(reading: Reading) -> Any:
    """Give a kind, an answer as [text], or the calls as (name, arguments or kind)."""
    if reading.failure is not None:
        return reading.failure.kind
    if reading.final is not None:
        return [reading.final]
    return [(c.name, c.failure.kind if c.failure else c.arguments) for c in reading.calls]


def repairs_of(reading: Reading) -> set[str]:
    return {one.name for one in reading.repairs}


def holds_one(reading: Reading) -> bool:
    """Say whether exactly one holds: a good call, a final answer, a failure."""
    good = any(call.failure is None for call in reading.calls)
    return (reading.failure is not None) + (reading.final is not None) + good == 1
