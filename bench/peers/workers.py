"""Ask parsers in processes of their own: peers' Pythons for peers, ours for ours, one runner for all.

A parser that hangs is killed, one that dies is started again; both are answers. The environment a
worker gets holds no variable of the user's but where programs are: no keys, no settings.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Self

from bench.paths import is_checkout

HERE = Path(__file__).resolve().parent
RUNNER = HERE / "runner.py"
ADAPTORS = HERE / "adaptors.py"
START = 180.0
"""Seconds that a parser may take to import itself."""
PATIENCE = 60.0
"""How many times its limit a parser may take by the clock, on a machine with other work."""
_TIMED_OUT = -int(getattr(signal, "SIGVTALRM", 0)) or None

Reads = Literal["react", "native", "arguments"]


@dataclass(frozen=True, slots=True)
class Peer:
    """A project whose parsers are compared: what `make peers` installs for it."""

    name: str
    title: str
    requires: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parser:
    """One row of a league table; `peer` is None for ours, and then `level` may be set."""

    id: str
    title: str
    reads: Reads
    reader: str
    peer: Peer | None = None
    level: str | None = None
    one_call: bool = False
    """Its interface holds one call for a reply."""
    calls_only: bool = False
    """It reads calls and leaves answers to others."""
    environment: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def load_peers() -> tuple[Peer, ...]:
    """Load the peers from the data file beside this module."""
    entries = _data()["peers"]
    return tuple(Peer(n, e["title"], tuple(e["requires"])) for n, e in entries.items())


def load_parsers() -> tuple[Parser, ...]:
    """Load the rows of the league tables, ours first."""
    peers = {peer.name: peer for peer in load_peers()}
    return tuple(
        Parser(**{"reader": entry["id"], **entry, "peer": peers.get(entry.get("peer"))})
        for entry in _data()["parsers"]
    )


def load_examples() -> tuple[dict[Path, str], tuple[str, ...]]:
    """Load the examples, each with the peer whose environment runs it, and what our reader needs."""
    entry = _data()["examples"]
    files = {HERE / "examples" / name: peer for name, peer in entry["files"].items()}
    return files, tuple(entry["reader"])


def _data() -> Any:
    return json.loads((HERE / "peers.json").read_text(encoding="utf-8"))


def default_environments() -> Path:
    """Return the folder of the peers' virtual environments: of the checkout, else `./.peers`."""
    return HERE.parents[1] / ".peers" if is_checkout() else Path(".peers")


def find_python(parser: Parser, environments: Path) -> Path:
    """Return the Python that a parser runs in; it need not exist."""
    if parser.peer is None:
        return Path(sys.executable)
    folder = "Scripts" if os.name == "nt" else "bin"
    return environments / parser.peer.name / folder / "python"


class Worker:
    """One parser in a process of its own, started when it is first asked."""

    def __init__(
        self,
        parser: Parser,
        *,
        environments: Path,
        adaptors: Path = ADAPTORS,
        patience: float = PATIENCE,
    ) -> None:
        self.parser = parser
        self._python = find_python(parser, environments)
        self._adaptors = adaptors
        self._patience = patience
        self._home = tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True)
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._home.cleanup()

    def start(self) -> dict[str, Any]:
        """Start it; give what it said of itself: `ready` with versions, or `failed` with why."""
        if not self._python.exists():
            return {"failed": "not installed; make peers installs it"}
        self._process = subprocess.Popen(
            [self._python, str(RUNNER), str(self._adaptors), self.parser.reader],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env=self._environment(),
            cwd=self._home.name,
        )
        self._lines = queue.SimpleQueue()
        threading.Thread(
            target=_copy_lines, args=(self._process.stdout, self._lines), daemon=True
        ).start()
        return self._next(START, "failed")

    def ask(self, request: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """Ask for one reading that may take `limit` seconds of the processor.

        Gives the runner's answer, or `{"read": {"timeout": …}}` or `{"read": {"crash": …}}`.
        """
        if self._process is None:
            said = self.start()
            if "failed" in said:
                return {"read": {"crash": f"no start: {said['failed']}"}}
        self._write(json.dumps({**request, "limit": limit}) + "\n")
        found = self._next(limit * self._patience, "read")
        return found if "first" in found else {"read": found}

    def _write(self, line: str) -> None:
        pipe = self._process.stdin if self._process else None
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # whoever waits for the answer finds out
                pipe.write(line)
                pipe.flush()

    def _next(self, limit: float, key: str) -> dict[str, Any]:
        """Wait for a line; a process that gives none in time is ended."""
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            self._stop()
            said = f"no answer in {limit:g} s by the clock"
            return {"timeout": said} if key == "read" else {"failed": said}
        if line is None:
            status = self._stop(grace=2.0)  # its output is closed: it is about to end
            if status == _TIMED_OUT:
                return {"timeout": "no answer within its seconds of the processor"}
            said = f"its process ended with status {status}"
            return {"crash": said} if key == "read" else {"failed": said}
        value: dict[str, Any] = json.loads(line)
        return value

    def _stop(self, grace: float = 0.0) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()
        return process.returncode

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
        quiet = {"OTEL_SDK_DISABLED": "true", "CREWAI_DISABLE_TELEMETRY": "true"}
        home = {"HOME": self._home.name, "TMPDIR": self._home.name}
        ours = {"PYTHONPATH": str(HERE.parents[1])} if self.parser.peer is None else {}
        text = {"PYTHONUTF8": "1", "LANG": "C.UTF-8"}
        return {**kept, **quiet, **home, **ours, **text, **self.parser.environment}


def _copy_lines(pipe: IO[str], lines: "queue.SimpleQueue[str | None]") -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in pipe:
            lines.put(line)
    lines.put(None)


def versions_of(peer: Peer, said: Mapping[str, Any]) -> str:
    """Write which versions a started parser named, of the packages that the peer requires."""
    names = [requirement.partition("==")[0] for requirement in peer.requires]
    found = said.get("versions", {})
    return ", ".join(f"{name} {found.get(name, '?')}" for name in names)


def installed(parsers: Sequence[Parser], environments: Path) -> tuple[Parser, ...]:
    """Return the parsers whose Python is there."""
    return tuple(p for p in parsers if find_python(p, environments).exists())
