"""The endpoint that `bench.perf.soak` asks: the strict one, which fails now and then.

A process of its own, so that its memory and its work are its own. Its answers are scripted. One
JSON line on standard input says what to serve, one line on standard output gives the port; at the
next line of input it stops, and writes down what it did.
"""

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, get_args

from bench.endpoint import StrictEndpoint
from bench.endpoint.script import BodyFault, ErrorFault, Fault, RetryAfter, StreamFault, WireFault
from bench.perf.replay import peak_memory
from bench.perf.server import key_of

FAMILIES: tuple[tuple[Fault, ...], ...] = (
    get_args(ErrorFault),
    get_args(BodyFault),
    get_args(WireFault),
    get_args(StreamFault),
)
"""Refusals; answers that are none; what happens to a connection; what is missing from a stream."""
_AFTER = (0, 60, 200)
"""Bytes that go out before a connection fails."""
_LET_GO = 10.0
"""Seconds in which the client's connections must have gone when it has closed them."""


class Faulty:
    """A script: fails at random, in a share of the requests for each family of faults, else answers."""

    def __init__(self, answers: Mapping[str, Mapping[str, Any]], share: float, seed: str) -> None:
        self._answers, self._share = answers, share
        self._chance = random.Random(seed)  # noqa: S311 (which request fails is no secret)
        self._lock = threading.Lock()
        self.requests = 0
        self.injected: Counter[str] = Counter()
        """By fault, streamed answers apart."""

    def __call__(self, body: Mapping[str, Any], _number: int) -> Mapping[str, Any] | None:
        """Give the item for a request; None: what the endpoint answers of itself."""
        if len(body["messages"]) == 1:  # the first question, which is no part of a run
            return None
        known = self._answers.get(key_of(body))
        answer = {} if known is None else {"message": known}
        with self._lock:
            self.requests += 1
            fault = self._draw()
            if fault is None:
                return answer or None
            self.injected[fault + (" streamed" if body.get("stream") else "")] += 1
            return {**answer, "fault": fault, **self._details(fault)}

    def _draw(self) -> Fault | None:
        place = self._chance.random() / self._share
        family = FAMILIES[int(place)] if place < len(FAMILIES) else None
        return None if family is None else self._chance.choice(family)

    def _details(self, fault: Fault) -> Mapping[str, Any]:
        if fault == "error_event":
            return {"after": self._chance.randrange(3)}
        if fault in get_args(WireFault):
            return {"after": self._chance.choice(_AFTER)}
        if fault in ("rate_limit", "overloaded", "overloaded_529"):
            return {"retry_after": self._chance.choice(get_args(RetryAfter)), "wait": 0.1}
        return {}


def _serve(order: Mapping[str, Any]) -> None:
    script = Faulty(order["answers"], order["share"], order["seed"])
    with StrictEndpoint("openai", script, keep=1) as endpoint:
        sys.stdout.write(f"{endpoint.port}\n")
        sys.stdout.flush()
        sys.stdin.readline()
        end = time.monotonic() + _LET_GO
        while endpoint.connections and time.monotonic() < end:
            time.sleep(0.01)
        told = {"requests": script.requests, "injected": script.injected}
        told |= {"open": endpoint.connections, "memory": peak_memory()}
        sys.stdout.write(f"{json.dumps(told)}\n")


if __name__ == "__main__":
    _serve(json.loads(sys.stdin.readline()))
