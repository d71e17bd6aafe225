"""The endpoint that `bench.perf` measures against: fixed answers, at once or after a while.

A process of its own, so that its work counts for no side; as small as HTTP allows, so that what is
measured is the client. Its answers are scripted. One JSON line on standard input says what to
serve, one line on standard output gives the port; it ends with its standard input.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
NUMBER = "0000000000"
"""Stands in every answer, once, for its number: no two are alike, as with a model."""


def key_of(body: Mapping[str, Any]) -> str:
    """Return what an answer is found by: the question, how far its episode is, and the way."""
    messages = body["messages"]
    return f"{len(messages)} {'tools' in body} {messages[1]['content']}"


class _Connection(asyncio.Protocol):
    """HTTP as the SDK speaks it: one request after the other, each with its length."""

    def __init__(
        self, answers: Mapping[str, bytes], latency: float, numbers: Iterator[int]
    ) -> None:
        self._answers, self._latency, self._numbers = answers, latency, numbers
        self._got = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 (what a TCP server gives)
        self._out = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        head = self._got.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self._got.lower().index(_LENGTH, 0, head) + len(_LENGTH)
        end = head + 4 + int(self._got[at : self._got.index(b"\r\n", at)])
        if len(self._got) >= end:
            self._answer(json.loads(self._got[head + 4 : end]))
            del self._got[:end]

    def _answer(self, body: Mapping[str, Any]) -> None:
        number = b"%010d" % next(self._numbers)
        answer = self._answers[key_of(body)].replace(NUMBER.encode(), number, 1)
        if self._latency:
            asyncio.get_running_loop().call_later(self._latency, self._out.write, answer)
        else:
            self._out.write(answer)


async def _serve(order: Mapping[str, Any]) -> None:
    answers = {
        key: _HEAD % len(text.encode()) + text.encode() for key, text in order["answers"].items()
    }
    numbers = count(1)
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(answers, order["latency"], numbers), "127.0.0.1", 0, backlog=1024
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.stdin.readline())))
