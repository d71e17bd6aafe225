"""Turn what came over the wire, a body or the bytes of a stream, into one reading.

Here the endpoint kinds are told apart. May not judge a move: names, arguments and schemas are
`parsers.native`'s. No network, no clock.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parsers.assembly import (
    Assembled,
    as_entries,
    as_index,
    assemble,
    find_error,
    finish_word,
    later_finish,
    list_choices,
    take_facts,
)
from parsers.content import find_refusal, read_content
from parsers.events import DONE, EventReader, as_bytes, sse_events
from parsers.faults import (
    Complaint,
    classify,
    decode_json,
    find_complaint,
    judge_finish,
    judge_words,
    names_status,
    retry_after,
)
from parsers.native import parse_native
from parsers.types import Failure, Level, Reading, Repair, ToolLike
from parsers.usage import Usage, as_usage, count_tokens

__all__ = [
    "DONE",
    "Assembled",
    "Envelope",
    "EventReader",
    "Usage",
    "assemble",
    "open_response",
    "parse_response",
    "read_envelope",
    "retry_after",
    "sse_events",
]

WIRE_REPAIRS: dict[str, str] = {
    "content_cumulative": "Each piece of the text repeated all before it; the last one was taken.",
    "extra_choices": "The answer held more than one choice; the first was taken.",
    "finish_missing": "The answer has no finish_reason.",
    "index_missing": "A piece of a call came without its index.",
    "index_reassigned": "One index was used for two calls.",
    "message_in_chunk": "A chunk of the stream carried a whole message.",
    "not_streamed": "A plain body came where a stream was asked for.",
    "null_entry": "A null among the entries was passed over.",
    "odd_entry": "An entry of the calls was no object.",
    "sse_noise": "An event of the stream was no JSON.",
    "utf8_replaced": "Bytes that are no UTF-8 were replaced by U+FFFD.",
}
"""Everything that can be mended on the wire, with a sentence for people."""

_FRAMED = re.compile(rb"(?:^|[\r\n])[ \t]*(?:data|event|id|retry)?:")


@dataclass(frozen=True, slots=True)
class Envelope:
    """An answer without its wrapping: the message, or why there is none."""

    message: dict[str, Any] | None = None
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    fingerprint: str | None = None
    failure: Failure | None = None
    """An endpoint kind, a refusal, or that the server could not parse the model's move."""
    repairs: tuple[Repair, ...] = ()
    streamed: bool = False

    @property
    def text(self) -> str:
        """The message's content as one text, parts joined."""
        said = (self.message or {}).get("content")
        return said if isinstance(said, str) else read_content(self.message or {}).text

    @property
    def reasoning(self) -> str:
        """The message's reasoning as one text, whatever field it came in."""
        return read_content(self.message or {}).reasoning


def open_response(wire: Any) -> Envelope:
    """Unwrap an answer: `{status, headers, body}`, the bytes or text of a stream, or a case's wire.

    Of a case, a list is a stream (mappings are events, texts are sent as they stand) and a mapping
    is a plain body, `{"_body": …}` or `{"_http": {status, headers, body}}`.
    """
    status, streaming, body = _unpack(wire)
    events, replaced, body = _body(body, streaming)
    if status == 0 or status >= 300:
        found = find_complaint(_first_error(events) if events is not None else body)
        return Envelope(failure=_http_failure(found, status), streamed=events is not None)
    envelope = _open_plain(body, streaming) if events is None else _open_stream(events)
    if not replaced:
        return envelope
    return replace(envelope, repairs=(*envelope.repairs, Repair("utf8_replaced", field="body")))


def parse_response(
    wire: Any,
    tools: Sequence[ToolLike],
    *,
    level: Level = "hardened",
    finish_reason: str | None = None,
    tool_choice: Any = "auto",
    parallel_tool_calls: bool | None = True,
) -> Reading:
    """Read a whole answer as it came: endpoint kinds first, then the message.

    `wire` is what `open_response` takes; a given `finish_reason` goes before the answer's own.

    >>> from parsers import parse_response
    >>> body = {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}
    >>> parse_response(body, []).final
    'Hello.'
    """
    return read_envelope(
        open_response(wire),
        tools,
        level=level,
        finish_reason=finish_reason,
        tool_choice=tool_choice,
        parallel_tool_calls=parallel_tool_calls,
    )


def read_envelope(
    envelope: Envelope,
    tools: Sequence[ToolLike],
    *,
    level: Level = "hardened",
    finish_reason: str | None = None,
    tool_choice: Any = "auto",
    parallel_tool_calls: bool | None = True,
) -> Reading:
    """Read an answer that is open already; the rest is `parse_response`'s."""
    if envelope.message is None:
        return Reading(failure=envelope.failure, repairs=envelope.repairs)
    reading = parse_native(
        envelope.message,
        tools,
        level=level,
        finish_reason=finish_reason or envelope.finish_reason,
        tool_choice=tool_choice,
        parallel_tool_calls=parallel_tool_calls,
    )
    return replace(reading, repairs=(*envelope.repairs, *reading.repairs))


def _unpack(wire: Any) -> tuple[int, bool, Any]:
    """Return the status, whether a stream is what was asked for, and the body."""
    if isinstance(wire, Mapping):
        held = wire.get("_http")
        if isinstance(held, Mapping):
            wire = held
        elif "_body" in wire:
            return 200, False, wire["_body"]
        elif not ("status" in wire and "body" in wire):
            return 200, False, wire
        return _http_status(wire.get("status")), _asks_stream(wire.get("headers")), wire.get("body")
    return 200, isinstance(wire, str | bytes | bytearray | list | tuple), wire


def _http_status(value: Any) -> int:
    status = as_index(value)
    return status if status is not None and 0 <= status <= 999 else 200


def _asks_stream(headers: Any) -> bool:
    if not isinstance(headers, Mapping):
        return False
    return any(
        str(key).lower() == "content-type" and "event-stream" in str(value).lower()
        for key, value in headers.items()
    )


def _body(body: Any, streaming: bool) -> tuple[list[Any] | None, bool, Any]:
    """Return the events if the body is a stream, whether bytes were replaced, else the body."""
    if isinstance(body, list | tuple) and (streaming or any(isinstance(b, str) for b in body)):
        return _listed_events(body)
    if not isinstance(body, str | bytes | bytearray):
        return None, False, body
    raw = as_bytes(body)
    head = raw.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] in {b"{", b"["}:
        text = head.decode(errors="replace")
        try:
            return None, "\ufffd" in text and b"\xef\xbf\xbd" not in head, decode_json(text)
        except ValueError:
            pass
    framed = _is_chunk_a_line(head) or (head[:1] != b"<" and _FRAMED.search(raw) is not None)
    if framed or (streaming and not _is_text(head)):
        return _read_events([raw])
    return None, False, raw.decode(errors="replace")


def _is_chunk_a_line(head: bytes) -> bool:
    """Say whether bytes that are no JSON begin with a line that is a chunk: a stream unframed."""
    line, _, more = head.partition(b"\n")
    if not more.strip() or b'"delta"' not in line:
        return False
    try:
        return isinstance(decode_json(line.decode(errors="replace")), Mapping)
    except ValueError:
        return False


def _is_text(head: bytes) -> bool:
    """Say whether bytes without a frame are a text of their own, no beginning of a frame."""
    begun = (b"data:", b"event:", b"id:", b"retry:")
    return bool(head) and not any(one.startswith(head) for one in begun)


def _listed_events(items: Sequence[Any]) -> tuple[list[Any] | None, bool, Any]:
    """Send a listed stream: mappings as events, texts as they stand."""
    if all(
        not isinstance(one, str) or one.strip("\ufeff \t\r\n")[:1] in {"{", "["} for one in items
    ):
        plain = "".join(one for one in items if isinstance(one, str))
        if plain and not any(isinstance(one, Mapping) for one in items):
            return _body(plain, streaming=True)
    pieces: list[bytes | Mapping[Any, Any]] = []
    for one in items:
        if isinstance(one, str | bytes):
            pieces.append(as_bytes(one))
        elif isinstance(one, Mapping):
            pieces.append(one)
    return _read_events(pieces)


def _read_events(pieces: Iterable[bytes | Mapping[Any, Any]]) -> tuple[list[Any], bool, Any]:
    reader = EventReader()
    events: list[Any] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            events += reader.feed(piece)
        else:
            events += [*reader.finish(), piece]
    return [*events, *reader.finish()], reader.replaced, None


def _first_error(events: list[Any]) -> Any:
    for one in events:
        if isinstance(one, Mapping) and (one.get("error") or not one.get("choices")):
            return one
    return next((one for one in events if isinstance(one, str) and one != DONE), None)


def _http_failure(complaint: Complaint | None, status: int) -> Failure:
    if 300 <= status < 400:
        said = f"The endpoint answered {status}, a redirection: the base URL is not its address."
        return Failure("bad_envelope", "redirect", said, field="body")
    return classify(complaint, status)


def _open_stream(events: list[Any]) -> Envelope:
    got = assemble(events)
    failure = _stream_failure(got) or _message_failure(got.message, got.finish_reason)
    usable = failure is None or failure.kind in {"refused_or_filtered", "server_rejected_output"}
    message = got.message if usable and got.choices and got.error is None else None
    return Envelope(
        message,
        got.finish_reason,
        got.usage,
        got.model,
        got.fingerprint,
        failure,
        got.repairs,
        streamed=True,
    )


def _stream_failure(got: Assembled) -> Failure | None:
    if got.error is not None:
        return classify(find_complaint(got.error), 200, in_stream=True)
    if got.broken or not got.complete:
        what = "holds an event that is not JSON" if got.broken else "has no finish_reason or [DONE]"
        said = f"The stream {what}, so a part of the answer may be missing."
        return Failure("stream_interrupted", message=said, field="body", retryable=True)
    if not got.choices:
        return _bad_envelope("The stream holds no choice.")
    return None


def _bad_envelope(said: str) -> Failure:
    return Failure("bad_envelope", message=said, field="body", retryable=True)


def _message_failure(message: Mapping[str, Any], finish: str | None) -> Failure | None:
    judged = judge_finish(finish)
    if judged is not None and judged.kind != "server_rejected_output":
        return judged
    return find_refusal(message) or judged


def _open_plain(body: Any, streaming: bool) -> Envelope:
    if isinstance(body, list | tuple):
        if len(body) > 1 and any(isinstance(b, Mapping) and b.get("choices") for b in body):
            return _open_stream(list(body))
        body = next((one for one in body if isinstance(one, Mapping)), None)
    if not isinstance(body, Mapping):
        return Envelope(failure=_no_completion(body))
    error = find_error(body)
    noise: dict[str, None] = {"not_streamed": None} if streaming else {}
    choice = _first_choice(list_choices(body, noise), noise) if error is None else None
    if choice is not None:
        error = find_error(choice)
    failure = _plain_failure(body, choice, error)
    return _plain_envelope(body, choice, failure, noise)


def _plain_failure(
    body: Mapping[Any, Any], choice: Mapping[Any, Any] | None, error: Any
) -> Failure | None:
    if error is not None:
        return classify(find_complaint(error), 200)
    if choice is None:
        return _no_completion(body)
    message, finish = _message_of(choice), finish_word(choice)
    judged = _message_failure(message or {}, finish)
    if message is None and judged is None:
        return _bad_envelope("The answer's choice holds no message.")
    return judged


def _no_completion(body: Any) -> Failure:
    """Name the failure of a success without a completion: its own words or code, if it has any."""
    complaint = find_complaint(body)
    told = judge_words(complaint, 200) if complaint else None
    if told is not None:
        return told
    if complaint is not None and isinstance(body, Mapping) and names_status(complaint):
        return classify(complaint, 200)
    said = complaint.text.rstrip(".") if complaint else ""
    return _bad_envelope(f"The answer is no completion{f': {said}' if said else ''}.")


def _message_of(choice: Mapping[Any, Any]) -> Mapping[Any, Any] | None:
    for key in ("message", "delta"):
        value = choice.get(key)
        if isinstance(value, Mapping):
            return value
    text = choice.get("text")
    return {"role": "assistant", "content": text} if isinstance(text, str) else None


def _first_choice(
    choices: list[Mapping[Any, Any]], noise: dict[str, None]
) -> Mapping[Any, Any] | None:
    """Return the first choice, with the calls of others that carry the same index.

    Without indexes, choices belong together where only one has calls: one move in two halves.
    """
    if not choices:
        return None
    first = next((one for one in choices if as_index(one.get("index")) == 0), choices[0])
    index = as_index(first.get("index"))
    same = [c for c in choices if as_index(c.get("index")) == index]
    if index is None and sum(_has_calls(one) for one in same) != 1:
        same = []
    if len(choices) > max(1, len(same)):
        noise["extra_choices"] = None
    if len(same) < 2:
        return first
    messages = [message for one in same if (message := _message_of(one)) is not None]
    texts = [m["content"] for m in messages if isinstance(m.get("content"), str)]
    calls = [call for m in messages for call in as_entries(m.get("tool_calls"))]
    merged = {k: v for m in reversed(messages) for k, v in m.items()}
    merged |= {"content": "".join(texts), "tool_calls": calls}
    finish: str | None = None
    for one in same:
        finish = later_finish(finish, finish_word(one))
    return {**first, "message": merged, "finish_reason": finish}


def _has_calls(choice: Mapping[Any, Any]) -> bool:
    message = _message_of(choice) or {}
    return bool(as_entries(message.get("tool_calls")))


def _plain_envelope(
    body: Mapping[Any, Any],
    choice: Mapping[Any, Any] | None,
    failure: Failure | None,
    noise: dict[str, None],
) -> Envelope:
    counts: dict[str, int] = {}
    facts: dict[str, str] = {}
    count_tokens(body, counts)
    take_facts(body, facts)
    message, finish = None, None
    if choice is not None:
        count_tokens(choice, counts)
        finish = finish_word(choice)
        own = failure is None or failure.kind in {"refused_or_filtered", "server_rejected_output"}
        held = _message_of(choice) if own and find_error(choice) is None else None
        message = None if held is None else {str(key): value for key, value in held.items()}
        if finish is None and failure is None:
            noise["finish_missing"] = None
    return Envelope(
        message,
        finish,
        as_usage(counts),
        facts.get("model"),
        facts.get("system_fingerprint"),
        failure,
        tuple(Repair(name, field="body") for name in noise),
    )
