"""Answer reading requests with one parser, a line of JSON each: what a peer's own Python runs.

`python runner.py ADAPTORS.py NAME`. The first line out says `ready` with the versions, or `failed`
with the reason. A request is `{"text", "tools", "limit", "seconds", …}`; its answer `{"read", "first"}` and,
where `seconds` asks for timing, `microseconds`. Standard library only: no part of the workbench is
installed where this runs. A parser that takes longer than `limit` takes its process with it.
"""

import contextlib
import json
import os
import runpy
import signal
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any, TextIO

MEMORY = 8 << 30
"""Bytes of address space that a parser may take before it fails."""
ROUNDS = 5

Read = Callable[[dict[str, Any]], dict[str, Any]]
Make = Callable[[list[dict[str, Any]]], Read]


def main(adaptors: str, name: str) -> None:
    """Serve requests until standard input ends."""
    out = _own_output()
    _fence_in()
    try:
        make: Make = runpy.run_path(adaptors)["READERS"][name]
        make([])  # what is missing shows here
    except Exception as error:  # noqa: BLE001 (why a peer can't start is the answer)
        _say(out, {"failed": _describe(error)})
        return
    _say(out, {"ready": True, "python": sys.version.split()[0], "versions": _versions()})
    serve(make, out)


def serve(make: Make, out: TextIO) -> None:
    """Answer every line of standard input; a reader is made anew where the tools change."""
    tools: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        if tools is None or request["tools"] != tools:
            tools = request["tools"]
            read = _prepare(make, tools)
        _say(out, answer(read, request))


def _prepare(make: Make, tools: list[dict[str, Any]]) -> Read:
    """Make a reader; one that can't be made for these tools refuses every reply."""
    try:
        return make(tools)
    except Exception as error:  # noqa: BLE001 (a peer's failure is a finding)
        reason = _describe(error)
        return lambda _: {"refused": reason}


def answer(read: Read, request: dict[str, Any]) -> dict[str, Any]:
    """Read once, within `limit` seconds of the processor; time more readings if asked to.

    Times are of the processor, not of the clock: other work on the machine must not count. They are
    of this thread, since a timer makes the clock of the whole process coarse.
    """
    _limit(request.get("limit", 0.0))
    began = time.thread_time()
    found = attempt(read, request)
    first = time.thread_time() - began
    _limit(0.0)
    seconds = request.get("seconds", 0.0)
    timed = {"microseconds": _fastest(read, request, seconds, first) * 1e6} if seconds else {}
    return {"read": found, "first": first, **timed}


def _limit(seconds: float) -> None:
    """Have the system end this process after so many seconds of work; 0 takes that back.

    A signal's handler would wait for a regular expression to come back; its default doesn't.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def attempt(read: Read, request: dict[str, Any]) -> dict[str, Any]:
    """Read; what is raised is the answer: an `Exception` a refusal, anything else a crash."""
    try:
        return read(request)
    except Exception as error:  # noqa: BLE001 (a peer's failure is a finding)
        return {"refused": _describe(error)}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 (a panic escapes `except Exception`)
        return {"crash": _describe(error)}


def _fastest(read: Read, request: dict[str, Any], seconds: float, first: float) -> float:
    """Give the best mean of several rounds, in seconds for one reading."""
    if first > seconds:
        return first
    count, best = 1, first
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(count):
            attempt(read, request)
        mean = (time.thread_time() - began) / count
        best = min(best, mean)
        count = max(1, int(seconds / ROUNDS / max(mean, 1e-7)))
    return best


def _describe(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"


def _own_output() -> TextIO:
    """Keep standard output for answers: what a parser prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    return out


def _fence_in() -> None:
    """Bound the memory, and refuse connections: a parser needs no network."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 (not on every system)

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.addaudithook(_no_connection)


def _no_connection(event: str, _: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        raise PermissionError("a parser needs no network")


def _versions() -> dict[str, str]:
    found = {}
    for item in metadata.distributions():
        with contextlib.suppress(Exception):
            found[item.metadata["Name"].lower().replace("_", "-")] = item.version
    return found


def _say(out: TextIO, value: dict[str, Any]) -> None:
    out.write(json.dumps(value, default=repr) + "\n")
    out.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
