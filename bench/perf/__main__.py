"""Measure, and write it down: `python -m bench.perf [PART …]`. A command, never a timed test.

Each part keeps its own section of `perf.md`; measuring one leaves the others as they are.
"""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.paths import default_results
from bench.peers.workers import default_environments
from bench.perf.episodes import measure_overhead, measure_throughput
from bench.perf.readers import measure_parsers
from bench.status import MISTAKE, OK
from bench.types import WorkbenchError

PARTS: Mapping[str, Callable[[Path], str]] = {
    "parsers": measure_parsers,
    "overhead": lambda _: measure_overhead(),
    "throughput": lambda _: measure_throughput(),
}
"""What can be measured: a name, and the function that writes its section."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the named parts and keep them in `perf.md`."""
    parser = argparse.ArgumentParser(prog="python -m bench.perf", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="the peers' environments")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where perf.md is kept")
    options = parser.parse_args(argv)
    path = (options.results or default_results()) / "perf.md"
    try:
        chosen = {name: _part(name) for name in options.parts or PARTS}
        for name, measure in chosen.items():
            text = measure(options.peers or default_environments())
            keep_section(path, name, text)
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


def keep_section(path: Path, name: str, text: str) -> None:
    """Put a part's section into the page, in place of the one that it has there."""
    section = f"<!-- {name} -->\n{text.strip()}\n<!-- end of {name} -->\n"
    old = path.read_text(encoding="utf-8") if path.is_file() else "# How fast\n"
    pattern = re.compile(rf"<!-- {name} -->\n.*?<!-- end of {name} -->\n", re.DOTALL)
    new = pattern.sub(lambda _: section, old) if pattern.search(old) else f"{old}\n{section}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
