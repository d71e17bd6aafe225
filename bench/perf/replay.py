"""Measure what `python -m bench` does before its report: the bundled recordings, replayed.

Each time in a process of its own, started as the command is, so that imports, reading the recording
and the memory of all that count. As a program (`python -m bench.perf.replay`) this is that process.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.types import WorkbenchError

if TYPE_CHECKING:
    from bench.plan import Plan
    from bench.types import Episode

TIMES = 3
_PROGRAM = "bench.perf.replay"


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay: what was run, seconds by the clock and of the process, bytes of memory."""

    names: Sequence[str]
    """Of the recordings."""
    episodes: int
    replies: int
    load: float
    """Seconds from the start of the process to the first episode."""
    run: float
    """Seconds for all episodes, each judged and kept."""
    cpu: float
    """Seconds of the processor for both."""
    peak: int
    """Bytes of memory at most; 0 where the system does not tell."""

    @property
    def rate(self) -> float:
        """Episodes in a second, once they run."""
        return self.episodes / self.run


def replay(started: float, limit: int | None = None) -> Replay:
    """Replay the bundled recordings of the comparison into a folder that is then removed.

    `started`: when this process was started, in seconds since 1970; `limit`: that many tasks only.
    """
    from bench.choice import Choice  # noqa: PLC0415 (what the command imports is measured too)
    from bench.plan import Order, make_plan  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as place:
        plan = make_plan(Choice(limit=limit), Order(results=Path(place)))
        load, began = time.time() - started, time.perf_counter()
        replies = asyncio.run(_run(plan, Path(place)))
        return Replay(
            names=[client.name for client in plan.clients],
            episodes=len(plan.jobs),
            replies=replies,
            load=load,
            run=time.perf_counter() - began,
            cpu=time.process_time(),
            peak=peak_memory(),
        )


async def _run(plan: "Plan", place: Path) -> int:
    """Run all episodes as the command does; return how many replies were replayed."""
    from bench.records import RunFolder  # noqa: PLC0415 (what the command imports is measured too)
    from bench.run import run_all  # noqa: PLC0415
    from bench.tools import leave_for  # noqa: PLC0415

    replies = 0

    def watch(episode: "Episode") -> None:
        nonlocal replies
        replies += len(episode.turns)

    folder = RunFolder.create(place, "perf", {})
    tally = await run_all(
        plan.jobs,
        folder,
        toolbox_for=plan.toolbox_for,
        budget=plan.choice.budget(),
        settings=plan.settings,
        leave=leave_for(plan.choice.allow),
        concurrency=plan.concurrency,
        watch=watch,
    )
    folder.finish()
    if tally.broken:
        raise WorkbenchError(f"an episode broke off: {tally.broken[0]}")
    return replies


def peak_memory() -> int:
    """Return the bytes of memory that this process has held at most; 0 where nothing tells.

    Linux counts in `ru_maxrss` also what the parent held when it started this process.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        found = re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(encoding="ascii"), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    try:
        import resource  # noqa: PLC0415 (not on every system)
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# ---------------------------------------------------------------- what is written down


def measure_replay(times: int = TIMES) -> str:
    """Write the section on replaying."""
    return "\n".join(replay_lines([replay_apart() for _ in range(times)]))


def replay_apart(limit: int | None = None) -> Replay:
    """Replay in a process of its own, which is given no key and no setting of the user's."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LLM_", "OPENAI_"))}
    command = [sys.executable, "-m", _PROGRAM, json.dumps([time.time(), limit])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=kept)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise WorkbenchError(f"the replay failed: {lines[-1][:300]}")
    return Replay(**json.loads(done.stdout))


def replay_lines(found: Sequence[Replay]) -> Iterator[str]:
    """Write what each replay took, and the medians."""
    first = found[0]
    yield "## Replay: the bundled recordings"
    yield ""
    yield (
        f"{first.episodes:,} episodes, {first.replies:,} recorded replies "
        f"({', '.join(first.names)}): what `python -m bench` does before its report. Each in a "
        "process of its own: imports, tasks and the recording are read, then every episode is "
        "replayed, its tools run, judged at three levels and kept on the disk. Memory is the most "
        "that the process held."
    )
    yield ""
    yield "| round | to the first episode, s | all episodes, s | episodes/s | CPU s | peak memory, MB |"
    yield "|---|---:|---:|---:|---:|---:|"
    for number, one in enumerate(found, 1):
        yield (
            f"| {number} | {one.load:.2f} | {one.run:.2f} | {one.rate:.0f} | {one.cpu:.2f} "
            f"| {one.peak / 1e6:.0f} |"
        )
    yield ""
    rate, cpu = median(one.rate for one in found), median(one.cpu for one in found)
    yield (
        f"- {rate:.0f} recorded episodes are replayed in a second, {first.episodes:,} of them in "
        f"{cpu:.1f} s of the processor with all that is read before (medians)"
    )
    yield f"- at most {max(one.peak for one in found) / 1e6:.0f} MB of memory are held while replaying"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(replay(*json.loads(sys.argv[1])))))
