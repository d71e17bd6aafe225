"""What the strict endpoint answers: scripted answers, faults, and a policy where there is no script.

Pure: a request and an item of a script give the bytes to write and how to end. No network. An
answer is made from the request and its number alone, so the same run gets the same answers.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from email.utils import formatdate
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from bench.endpoint.checks import (
    calls_of,
    choice_kind,
    estimate_tokens,
    example,
    in_words_of,
    messages_of,
    refusal,
    render_error,
    tools_of,
)
from bench.profiles import MAX_FILE, Profile, make_id
from bench.types import WorkbenchError

ErrorFault = Literal[
    "rate_limit",
    "quota",
    "no_credit",
    "overloaded",
    "overloaded_529",
    "loading",
    "server_error",
    "unreadable_output",
    "no_tool_support",
    "no_template",
    "no_auto_choice",
    "context",
]
BodyFault = Literal["bad_gateway", "empty_body", "not_json", "no_choices"]
WireFault = Literal["hang", "stall", "reset", "drop", "cut"]
StreamFault = Literal["error_event", "no_done", "no_finish", "no_end"]
Fault = Literal[ErrorFault, BodyFault, WireFault, StreamFault]
RetryAfter = Literal["seconds", "date", "ms", "body", "none"]
Ending = Literal["end", "hang", "reset", "drop"]

FAULTS: tuple[Fault, ...] = get_args(Fault)
CREATED = 1_750_000_000
"""The time that every answer bears: a constant, so that answers can be compared."""
HTML = (
    "<html><head><title>502 Bad Gateway</title></head>"
    "<body><center><h1>502 Bad Gateway</h1></center></body></html>"
)


@dataclass(frozen=True, slots=True)
class StreamStyle:
    """How the bytes of a stream look; the defaults are OpenAI's."""

    chunk: int = 0
    """Bytes of one write, also inside a character; 0: whatever is ready."""
    pieces: int = 16
    """Characters of text or arguments in one delta; 0: all in one."""
    crlf: bool = False
    """Lines end with CR LF."""
    space: bool = True
    """A space follows `data:`."""
    comments: bool = False
    """Keep-alive comments stand between events, and empty lines before a plain body."""
    event_ids: bool = False
    """Every event has an `id:` line."""
    index: Literal["normal", "missing", "null", "one", "zero"] = "normal"
    """The index of calls: from 0, none, null, from 1, or 0 for all."""
    ids: Literal["first", "repeat", "empty"] = "first"
    """Later deltas of a call: without id and name, with the id again, or with both empty."""
    usage: Literal["profile", "last_chunk", "finish_chunk", "choice", "none"] = "profile"
    """Where the usage stands."""
    first_empty: bool = False
    """The first chunk has no choices."""
    finish: bool = True
    """There is a finish_reason."""
    done: bool = True
    """`[DONE]` ends the stream."""
    last_blank: bool = True
    """A blank line ends the last event."""
    pace: float = 0.0
    """Seconds between two writes."""


@dataclass(frozen=True, slots=True)
class Scripted:
    """One item of a script: an answer, a fault, or both (a fault within that answer)."""

    text: str | None = None
    """The answer's content."""
    reasoning: str | None = None
    """Its reasoning; None: the profile's own habit; "": none."""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    """Calls, as {name, arguments, id} or as the wire has them."""
    message: Mapping[str, Any] | None = None
    """The whole message as it is; the four fields above are then not looked at."""
    finish_reason: str | None = "auto"
    usage: Mapping[str, Any] | None = None
    """None: estimated."""
    body: Any = None
    """A body as it is (a text, or JSON), in place of an answer; or what an error event says."""
    wire: Any = None
    """A case of `datasets/cases`: a list (a stream), a body, or `{"_http": …}`."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Fault | None = None
    retry_after: RetryAfter = "none"
    """How a 429 or 503 says when to come again."""
    wait: float = 1.0
    """Seconds: what Retry-After says."""
    after: int = 0
    """Bytes (wire faults) or events (error_event) that go out before the fault."""
    stream: Mapping[str, Any] = field(default_factory=dict)
    """What differs in `StreamStyle`."""
    latency: float = 0.0
    """Seconds before the first byte."""
    times: int = 1
    """How often this item is played."""


@dataclass(frozen=True, slots=True)
class Played:
    """What the server writes, one write each, and how it ends."""

    status: int
    headers: Mapping[str, str]
    writes: tuple[bytes, ...]
    ending: Ending = "end"
    latency: float = 0.0
    pace: float = 0.0


# ---------------------------------------------------------------- reading a script

CASE_KEYS = frozenset(
    {"id", "kind", "stream", "hardened", "strict", "rescue", "note", "source"}
    | {"_request", "_history", "expected"}
)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "text": (str, type(None)),
    "reasoning": (str, type(None)),
    "tool_calls": (list,),
    "message": (dict,),
    "finish_reason": (str, type(None)),
    "usage": (dict, type(None)),
    "status": (int,),
    "headers": (dict,),
    "wait": (int, float),
    "after": (int,),
    "stream": (dict,),
    "latency": (int, float),
    "times": (int,),
}


def load_script(path: Path) -> tuple[Scripted, ...]:
    """Load a script: a JSON list, or one JSON object a line.

    Raises `WorkbenchError` with file, line and what is wrong.
    """
    try:
        if path.stat().st_size > MAX_FILE:
            raise WorkbenchError(
                f"{path}: is larger than {MAX_FILE // 10**6} MB; give a script's file"
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorkbenchError(f"{path}: cannot be read ({error}); give a script's file") from None
    return tuple(read_item(raw, f"{path}:{line}") for line, raw in _items(text, path))


def _items(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    if text.lstrip().startswith("["):
        yield from ((1, item) for item in _decode(text, f"{path}"))
        return
    for line, part in enumerate(text.split("\n"), 1):
        if part.strip():
            yield line, _decode(part, f"{path}:{line}")


def _decode(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WorkbenchError(f"{place}: not JSON ({error}); mend the script") from None


def read_item(raw: Any, place: str = "script") -> Scripted:
    """Read one item; `place` names it in an error."""
    if isinstance(raw, Scripted):
        return raw
    if not isinstance(raw, Mapping):
        raise WorkbenchError(f"{place}: an item of a script is an object")
    if "wire" in raw:
        raw = {key: value for key, value in raw.items() if key not in CASE_KEYS}
    known = {item.name: None for item in fields(Scripted)}
    for key, value in raw.items():
        if key not in known:
            names = ", ".join(known)
            raise WorkbenchError(f"{place}: unknown key {key!r}; known are {names}")
        _check_value(key, value, place)
    calls = tuple(raw.get("tool_calls", ()))
    return Scripted(**{**raw, "tool_calls": calls})


def _check_value(key: str, value: Any, place: str) -> None:
    if key == "fault" and value is not None and value not in FAULTS:
        raise WorkbenchError(f"{place}: unknown fault {value!r}; known are {', '.join(FAULTS)}")
    if key == "retry_after" and value not in get_args(RetryAfter):
        forms = ", ".join(get_args(RetryAfter))
        raise WorkbenchError(f"{place}: unknown retry_after {value!r}; known are {forms}")
    if key == "stream":
        read_style(value, place)
    if key == "tool_calls" and isinstance(value, tuple):
        return
    if key in _TYPES and not isinstance(value, _TYPES[key]):
        wanted = " or ".join(kind.__name__ for kind in _TYPES[key])
        raise WorkbenchError(f"{place}: {key!r} must be {wanted}, not {type(value).__name__}")


def read_style(raw: Mapping[str, Any], place: str = "script") -> StreamStyle:
    """Read the knobs of a stream."""
    kinds = get_type_hints(StreamStyle)
    for name, value in raw.items():
        if name not in kinds:
            names = ", ".join(kinds)
            raise WorkbenchError(f"{place}: 'stream' has no {name!r}; known are {names}")
        if not _is_kind(value, kinds[name]):
            wanted = ", ".join(map(repr, get_args(kinds[name]))) or kinds[name].__name__
            raise WorkbenchError(f"{place}: 'stream' takes {wanted} as {name!r}, not {value!r}")
    return StreamStyle(**raw)


def _is_kind(value: Any, kind: Any) -> bool:
    """Tell whether a value is of a knob's type: a word of a list, a number not below 0, a bool."""
    if get_args(kind):
        return value in get_args(kind)
    if kind is bool:
        return isinstance(value, bool)
    return type(value) in {int, kind} and value >= 0


# ---------------------------------------------------------------- the policy without a script


def choose_answer(body: Mapping[str, Any], profile: Profile) -> Scripted:
    """Answer without a script: call the first tool once, then answer in words.

    tool_choice is honoured in the forms that the profile takes; another form counts as auto.
    """
    tools = tools_of(body)
    name = _wanted_tool(body, profile)
    if name is None:
        return Scripted(text=_answer_text(body))
    tool = next((tool for tool in tools if tool["name"] == name), tools[0])
    arguments = example(tool.get("parameters") or {"type": "object"})
    return Scripted(tool_calls=({"name": tool["name"], "arguments": arguments},))


def _wanted_tool(body: Mapping[str, Any], profile: Profile) -> str | None:
    tools, choice = tools_of(body), body.get("tool_choice", "auto")
    if not tools:
        return None
    kind = choice_kind(choice)
    match kind if kind in profile.choices else "auto":
        case "named":
            return str(choice["function"]["name"])
        case "required":
            return str(tools[0]["name"])
        case "auto" if not _results(body):
            return str(tools[0]["name"])
        case _:
            return None


def _results(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give the tool messages since the last user message."""
    found: list[Mapping[str, Any]] = []
    for _, message in messages_of(body):
        if message.get("role") == "user":
            found.clear()
        elif message.get("role") == "tool":
            found.append(message)
    return found


def _answer_text(body: Mapping[str, Any]) -> str:
    results = _results(body)
    text = "This is a scripted answer."
    if results:
        text = f"This is a scripted answer to: {str(results[-1].get('content'))[:200]}"
    prompt = str(messages_of(body)[0][1].get("content")) if messages_of(body) else ""
    return f"Thought: I can answer now.\nFinal Answer: {text}" if "Final Answer" in prompt else text


# ---------------------------------------------------------------- an answer


def make_completion(
    item: Scripted, body: Mapping[str, Any], profile: Profile, number: int
) -> dict[str, Any]:
    """Make the whole body of an answer; `number` is the request's, and makes ids unique."""
    message = dict(item.message) if item.message else _message(item, body, profile, number)
    finish = item.finish_reason
    if finish == "auto":
        finish = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": f"chatcmpl-scripted-{number}",
        "object": "chat.completion",
        "created": CREATED,
        "model": f"scripted:{str(body.get('model'))[:100]}",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": dict(item.usage) if item.usage else _usage(body, message, profile),
    }


def _message(
    item: Scripted, body: Mapping[str, Any], profile: Profile, number: int
) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": item.text}
    reasoning = item.reasoning
    if reasoning is None and profile.reasoning == "must":
        reasoning = "This is scripted reasoning."
    if reasoning:
        message[profile.reasoning_field] = reasoning
    if item.tool_calls:
        earlier = sum(len(calls_of(message)) for _, message in messages_of(body))
        message["tool_calls"] = [
            _call(call, profile, f"{number}.{at}", earlier + at)
            for at, call in enumerate(item.tool_calls)
        ]
        if profile.server.signature:
            message["tool_calls"][0].setdefault("extra_content", _signature(number))
    return message


def _signature(number: int) -> dict[str, Any]:
    return {"google": {"thought_signature": f"c2NyaXB0ZWQ{number}"}}


def _call(call: Mapping[str, Any], profile: Profile, seed: str, index: int) -> dict[str, Any]:
    if "function" in call:
        return dict(call)
    name, arguments = str(call.get("name", "")), call.get("arguments", {})
    text = arguments if isinstance(arguments, str) else _dump(arguments)
    identity = call.get("id", make_id(profile, seed, name, index))
    function = {"name": name, "arguments": text}
    return {"id": identity, "type": "function", "function": function}


def _usage(body: Mapping[str, Any], message: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    prompt = estimate_tokens(body)
    if profile.server.overflow == "cut":
        prompt = min(prompt, profile.server.window)
    completion = len(_dump(message)) // 4
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- a stream


def make_chunks(
    completion: Mapping[str, Any], style: StreamStyle, usage_place: str
) -> Iterator[Mapping[str, Any]]:
    """Cut an answer into the chunks of a stream; `usage_place` says where its usage stands."""
    shared = {key: completion[key] for key in ("id", "created", "model")}
    base = {**shared, "object": "chat.completion.chunk"}
    choice = completion["choices"][0]
    if style.first_empty:
        yield {**base, "choices": []}
    for delta in _deltas(choice["message"], style):
        yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    if usage_place == "choice":
        last["usage"] = completion["usage"]
    top = {"usage": completion["usage"]}
    if style.finish:
        yield {**base, "choices": [last], **(top if usage_place == "finish_chunk" else {})}
    if usage_place == "last_chunk":
        yield {**base, "choices": [], **top}


def _deltas(message: Mapping[str, Any], style: StreamStyle) -> Iterator[Mapping[str, Any]]:
    yield {"role": message.get("role", "assistant"), "content": None}
    for name, value in message.items():
        if name == "tool_calls" and isinstance(value, list):
            for at, call in enumerate(value):
                yield from _call_deltas(call, at, style)
        elif isinstance(value, str) and name != "role":
            yield from ({name: piece} for piece in _pieces(value, style.pieces))
        elif value is not None and name != "role":
            yield {name: value}


def _call_deltas(call: Any, at: int, style: StreamStyle) -> Iterator[Mapping[str, Any]]:
    function = call.get("function") if isinstance(call, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(arguments, str) or not style.pieces:
        yield _delta(call if isinstance(call, dict) else {}, at, style)
        return
    yield _delta({**call, "function": {**(function or {}), "arguments": ""}}, at, style)
    for piece in _pieces(arguments, style.pieces):
        later: dict[str, Any] = {"function": {"arguments": piece}}
        match style.ids:
            case "repeat":
                later["id"] = call.get("id")
            case "empty":
                later = {"id": "", "function": {"name": "", "arguments": piece}}
            case "first":
                pass
        yield _delta(later, at, style)


def _delta(call: Mapping[str, Any], at: int, style: StreamStyle) -> dict[str, Any]:
    index: dict[str, Any] = {}
    match style.index:
        case "normal":
            index = {"index": at}
        case "one":
            index = {"index": at + 1}
        case "zero":
            index = {"index": 0}
        case "null":
            index = {"index": None}
        case "missing":
            pass
    return {"tool_calls": [{**index, **call}]}


def _pieces(text: str, size: int) -> Iterator[str]:
    step = size or len(text)
    yield from (text[at : at + step] for at in range(0, len(text), step or 1))


def make_events(items: Sequence[Any], style: StreamStyle) -> list[bytes]:
    """Give the bytes of each event: an object as `data:`, a text as it is."""
    line = "\r\n" if style.crlf else "\n"
    gap = " " if style.space else ""
    events = []
    for number, item in enumerate(items):
        if isinstance(item, str) and item != "[DONE]":
            events.append(item.encode("utf-8", "surrogatepass"))
            continue
        head = f": keep-alive{line}{line}" if style.comments else ""
        head += f"id: {number}{line}" if style.event_ids else ""
        data = item if isinstance(item, str) else _dump(item)
        text = f"{head}data:{gap}{data}{line}{line}"
        events.append(text.encode("utf-8", "backslashreplace"))
    if events and not style.last_blank:
        events[-1] = events[-1].removesuffix(line.encode())
    return events


# ---------------------------------------------------------------- playing an item


def play(item: Scripted | None, body: Mapping[str, Any], profile: Profile, number: int) -> Played:
    """Turn an item (None: the policy) into what is written for this request."""
    if item is None or (item.fault is not None and not _has_answer(item)):
        chosen = choose_answer(_seen(body, profile), profile)
        answer = ("text", "tool_calls", "reasoning")
        item = replace(item or chosen, **{name: getattr(chosen, name) for name in answer})
    match item.fault:
        case None | "hang" | "stall" | "reset" | "drop" | "cut":
            return _end(item, _answer(item, body, profile, number))
        case "error_event" | "no_done" | "no_finish" | "no_end":
            return _play_stream_fault(item, body, profile, number)
        case "bad_gateway":
            return _with_body(item, 502, HTML)
        case "empty_body":
            return _with_body(item, 200, "")
        case "not_json":
            return _with_body(item, 200, "<html>busy</html>")
        case "no_choices":
            completion = make_completion(item, body, profile, number)
            return _with_body(item, 200, {**completion, "choices": []})
        case _:
            return _play_error(item, body, profile)


def _has_answer(item: Scripted) -> bool:
    body = None if item.fault == "error_event" else item.body
    given = (item.text, item.message, body, item.wire)
    return bool(item.tool_calls) or any(part is not None for part in given)


def _seen(body: Mapping[str, Any], profile: Profile) -> Mapping[str, Any]:
    """Give what the model sees: where a long prompt is cut, its front (the tools) is gone."""
    server = profile.server
    if server.overflow == "cut" and estimate_tokens(body) > server.window:
        return {**body, "tools": []}
    return body


def _answer(item: Scripted, body: Mapping[str, Any], profile: Profile, number: int) -> Played:
    if item.wire is not None:
        return _play_wire(item)
    if item.body is not None:
        return _with_body(item, item.status, item.body)
    completion, style = make_completion(item, body, profile, number), _style(item, profile)
    if body.get("stream") is not True:
        played = _with_body(item, item.status, completion)
        return replace(played, writes=(b"\n\n", *played.writes)) if style.comments else played
    items = [*make_chunks(completion, style, _usage_place(style, body, profile))]
    return _with_events(item, [*items, *(["[DONE]"] if style.done else [])], style)


def _style(item: Scripted, profile: Profile) -> StreamStyle:
    return read_style({**profile.server.stream, **item.stream})


def _usage_place(style: StreamStyle, body: Mapping[str, Any], profile: Profile) -> str:
    place = profile.usage if style.usage == "profile" else style.usage
    options = body.get("stream_options")
    asked = isinstance(options, dict) and options.get("include_usage") is True
    return "none" if place == "last_chunk" and not asked else place


def _with_body(item: Scripted, status: int, body: Any) -> Played:
    is_text = isinstance(body, str)
    kind = "text/html; charset=utf-8" if is_text else "application/json"
    data = body if is_text else json.dumps(body)
    headers = {"content-type": kind, **item.headers}
    writes = _split(data.encode("utf-8", "backslashreplace"), int(item.stream.get("chunk", 0)))
    return Played(status, headers, writes, latency=item.latency, pace=_pace(item))


def _pace(item: Scripted) -> float:
    return float(item.stream.get("pace", 0.0))


def _split(data: bytes, size: int) -> tuple[bytes, ...]:
    if not size or not data:
        return (data,)
    return tuple(data[at : at + size] for at in range(0, len(data), size))


def _with_events(item: Scripted, items: Sequence[Any], style: StreamStyle) -> Played:
    events = make_events(items, style)
    joined = _split(b"".join(events), style.chunk)
    writes = tuple(events) if style.pace and not style.chunk else joined
    headers = {"content-type": "text/event-stream; charset=utf-8", **item.headers}
    return Played(item.status, headers, writes, latency=item.latency, pace=style.pace)


def _play_wire(item: Scripted) -> Played:
    """Play a case: a list is a stream, texts in it stand as they are."""
    wire = item.wire
    if isinstance(wire, list):
        return _with_events(item, wire, read_style(item.stream))
    http = wire.get("_http") if isinstance(wire, dict) else None
    if isinstance(http, dict):
        played = _with_body(item, int(http.get("status", 200)), http.get("body", ""))
        return replace(played, headers={**played.headers, **http.get("headers", {})})
    body = wire.get("_body", wire) if isinstance(wire, dict) else wire
    if isinstance(body, dict):
        body = {key: value for key, value in body.items() if not key.startswith("_")}
    return _with_body(item, item.status, body)


def _end(item: Scripted, played: Played) -> Played:
    """Break an answer off after `after` bytes, in the way that the fault says."""
    match item.fault:
        case "hang":
            return replace(played, writes=(), ending="hang")
        case "stall":
            return replace(played, writes=_first(played.writes, item.after), ending="hang")
        case "reset":
            return replace(played, writes=_first(played.writes, item.after), ending="reset")
        case "drop":
            return replace(played, writes=_first(played.writes, item.after), ending="drop")
        case "cut":
            return replace(played, writes=_first(played.writes, item.after))
        case _:
            return played


def _first(writes: Sequence[bytes], count: int) -> tuple[bytes, ...]:
    kept = []
    for write in writes:
        if count > 0:
            kept.append(write[:count])
        count -= len(write)
    return tuple(kept)


def _play_stream_fault(
    item: Scripted, body: Mapping[str, Any], profile: Profile, number: int
) -> Played:
    """Play a fault of a stream; a plain answer has it as an error body or without its finish."""
    error = render_error(in_words_of(refusal("server_error"), profile), profile.server.errors)
    error = error if item.body is None else item.body
    if body.get("stream") is not True:
        if item.fault == "error_event":
            return _with_body(item, 200, error)
        finish = item.finish_reason if item.fault == "no_done" else None
        return _answer(replace(item, finish_reason=finish), body, profile, number)
    style = _style(item, profile)
    style = replace(
        style,
        done=item.fault == "no_finish",
        finish=item.fault == "no_done",
    )
    completion = make_completion(item, body, profile, number)
    chunks = [*make_chunks(completion, style, _usage_place(style, body, profile))]
    if item.fault == "error_event":
        chunks = [*chunks[: item.after], error[0] if isinstance(error, list) else error]
    return _with_events(item, [*chunks, *(["[DONE]"] if style.done else [])], style)


def _play_error(item: Scripted, body: Mapping[str, Any], profile: Profile) -> Played:
    again = f"Please try again in {item.wait:g}s." if item.retry_after == "body" else ""
    words = {"again": again, "model": str(body.get("model"))[:100]}
    if item.fault == "context":
        limit = profile.server.window
        found = refusal("context_length", "messages", count=limit + 1000, limit=limit)
    else:
        found = refusal(str(item.fault), **words)
    found = in_words_of(found, profile)
    error = render_error(found, profile.server.errors)
    if item.fault == "unreadable_output" and isinstance(error, dict) and found.status == 400:
        generation = item.text or '<function=get_weather{"city": "Oslo"}</function>'
        error["error"] = {**error["error"], "failed_generation": generation}
    played = _with_body(item, found.status, error)
    return replace(played, headers={**played.headers, **retry_headers(item)})


def retry_headers(item: Scripted) -> dict[str, str]:
    """Say when to come again, in the item's form."""
    match item.retry_after:
        case "seconds":
            return {"retry-after": f"{item.wait:g}"}
        case "date":
            return {"retry-after": formatdate(time.time() + item.wait, usegmt=True)}
        case "ms":
            return {"retry-after-ms": f"{item.wait * 1000:g}"}
        case "body" | "none":
            return {}
