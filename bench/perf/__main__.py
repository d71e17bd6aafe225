"""Measure, and write it down: `python -m bench.perf [PART …]`. A command, never a timed test.

Each part keeps its own section of `perf.md`, and measuring one leaves the others as they are; the
table at the top of the page is made anew from all of them.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.league import machine
from bench.paths import default_results
from bench.peers.workers import default_environments
from bench.perf.episodes import measure_overhead, measure_throughput
from bench.perf.harness import measure_inspect
from bench.perf.page import Stamp, keep_section
from bench.perf.readers import measure_parsers
from bench.perf.replay import measure_replay
from bench.perf.scale import measure_scale
from bench.records import version_of
from bench.status import MISTAKE, OK
from bench.types import WorkbenchError

PARTS: Mapping[str, Callable[[Path], str]] = {
    "inspect": measure_inspect,
    "overhead": lambda _: measure_overhead(),
    "throughput": lambda _: measure_throughput(),
    "replay": lambda _: measure_replay(),
    "scale": lambda _: measure_scale(),
    "parsers": measure_parsers,
}
"""What can be measured, as it stands on the page: a name, and the function that writes its section."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the named parts and keep them in `perf.md`."""
    parser = argparse.ArgumentParser(prog="python -m bench.perf", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="the peers' environments")
    parser.add_argument(
        "--episodes", type=int, action="append", metavar="N", help="a size that scale measures"
    )
    parser.add_argument("--results", type=Path, metavar="DIR", help="where perf.md is kept")
    options = parser.parse_args(argv)
    path = (options.results or default_results()) / "perf.md"
    try:
        chosen = {name: _part(name) for name in options.parts or PARTS}
        if options.episodes and "scale" in chosen:
            chosen["scale"] = lambda _: measure_scale(options.episodes)
        for name, measure in chosen.items():
            text = measure(options.peers or default_environments())
            keep(path, name, f"{text}\n\n{_stamp(name).line()}")
            sys.stdout.write(f"{text}\n")
    except WorkbenchError as mistake:
        sys.stderr.write(f"bench.perf: {mistake}\n")
        return MISTAKE
    sys.stdout.write(f"{path}\n")
    return OK


def _part(name: str) -> Callable[[Path], str]:
    if name not in PARTS:
        raise WorkbenchError(f"there is no part {name!r}; there are: {', '.join(PARTS)}")
    return PARTS[name]


def keep(path: Path, name: str, text: str) -> None:
    """Put a part's section into the page, in place of the one that it has there."""
    try:
        old = path.read_text(encoding="utf-8") if path.is_file() else ""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(keep_section(old, name, text, list(PARTS)), encoding="utf-8")
    except OSError as error:
        raise WorkbenchError(f"{path}: can't be written ({error.strerror})") from None


def _stamp(name: str) -> Stamp:
    """Say when, where and how a part was measured, and whether other work was going on."""
    version = f"toolcall-workbench {version_of('toolcall-workbench')}"
    load = f", load average {os.getloadavg()[1]:.1f}" if hasattr(os, "getloadavg") else ""
    command = shlex.join(["python", "-m", "bench.perf", name])
    return Stamp(f"{datetime.now(UTC):%Y-%m-%d}", f"{machine()}{load}; {version}", command)


if __name__ == "__main__":
    sys.exit(main())
