"""Read the events of a stream as they arrive: bytes in, payloads out.

Knows how streams are framed, and mends it where servers frame them oddly; may not know what a
payload means.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from parsers.faults import decode_json

DONE = "[DONE]"
"""The payload that ends a stream."""

_LINE_END = re.compile(rb"\r\n|\r|\n")


class EventReader:
    """Take the bytes of an event stream as they arrive, give the payloads of its events.

    A payload is the decoded JSON of an event's data, `[DONE]`, or the text of data that is no
    JSON. Stands CRLF, CR, comments, ids, blank events, a BOM, no space after the colon, data over
    several lines, events without a blank line between them and a last event without its end.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._after_return = False
        self._first = True
        self._name = ""
        self._data: list[str] = []
        self.replaced = False
        """Bytes came that are no UTF-8."""

    def feed(self, piece: bytes) -> list[Any]:
        """Take the next bytes, cut anywhere; return the payloads that they complete."""
        if self._after_return and piece[:1] == b"\n":
            piece = piece[1:]
            self._after_return = False
        if not piece:
            return []
        self._after_return = piece.endswith(b"\r")
        *ended, rest = _LINE_END.split(piece)
        payloads: list[Any] = []
        for line in ended:
            payloads += self._line(b"".join([*self._rest, line]))
            self._rest = []
        self._rest.append(rest)
        return payloads

    def finish(self) -> list[Any]:
        """Return the payloads of an event that nothing ended."""
        payloads = self._line(b"".join(self._rest)) if any(self._rest) else []
        self._rest = []
        return [*payloads, *self._dispatch()]

    def _line(self, raw: bytes) -> list[Any]:
        if self._first:
            self._first = False
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        line = self._decode(raw).lstrip(" \t")
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        match name.rstrip():
            case "data":
                self._data.append(value.removeprefix(" "))
            case "event":
                self._name = value.strip()
            case _ if line[0] == "{" or line.rstrip() == DONE:
                return self._bare(line)
        return []

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.replaced = True
            return raw.decode(errors="replace")

    def _bare(self, line: str) -> list[Any]:
        """Take a line without a field name; half an object is given as text, not passed over."""
        return [*self._dispatch(), _payload(line)]

    def _dispatch(self) -> list[Any]:
        data, name = self._data, self._name
        self._data, self._name = [], ""
        return [_named(name, one) for one in _payloads(data)]


def sse_events(data: bytes | str) -> list[Any]:
    r"""Return the payloads of a whole event stream; see `EventReader`.

    >>> from parsers import sse_events
    >>> sse_events('data: {"choices": []}\n\ndata: [DONE]\n\n')
    [{'choices': []}, '[DONE]']
    """
    reader = EventReader()
    return [*reader.feed(as_bytes(data)), *reader.finish()]


def as_bytes(data: bytes | bytearray | str) -> bytes:
    """Return a text as the bytes it came in."""
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)


def _payloads(lines: list[str]) -> Iterator[Any]:
    whole = _payload("\n".join(lines))
    if not isinstance(whole, str) or len(lines) == 1:
        if whole is not None and whole != "":
            yield whole
        return
    alone = [_payload(line) for line in lines if line.strip()]
    if all(isinstance(one, Mapping) or one == DONE for one in alone):
        yield from alone
    else:
        yield whole


def _payload(text: str) -> Any:
    text = text.strip()
    while text.startswith("data:"):
        text = text[5:].lstrip()
    if text.strip("\"'").upper() == DONE:
        return DONE
    try:
        return decode_json(text) if text else None
    except ValueError:
        return text


def _named(name: str, payload: Any) -> Any:
    if name.lower() != "error" or payload == DONE:
        return payload
    if isinstance(payload, Mapping):
        return payload if payload.get("error") else {"error": dict(payload)}
    return {"error": {"message": payload if isinstance(payload, str) else json.dumps(payload)}}
