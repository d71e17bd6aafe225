"""Measure reporting and rescoring of large runs: replicas of the sample run, never results.

A replica holds the sample's real episodes again and again, under new ids, with as many tasks and
trials as are asked for. It is written to a temporary folder and says in its manifest what it is.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

from bench.manifest import hash_file, hash_tasks
from bench.perf.readers import met
from bench.records import RunFolder, dump_line, json_lines
from bench.tasks import list_task_files, load_tasks
from bench.types import WorkbenchError

SIZES = (10_000, 30_000, 100_000)
TRIALS = 4
"""Of each task: a larger run has more trials, not only more tasks."""
WANTED = 100_000
MOST_SECONDS: Mapping[str, float] = {"report": 60.0, "rescore": 300.0}
MOST_MEGABYTES = 1_000
MOST_GROWTH = 1.2
"""The targets: of so many episodes, seconds and memory; seconds against episodes."""
_GLANCE = 0.05
"""Seconds between two looks at the memory."""

Line = Mapping[str, Any]


# ---------------------------------------------------------------- the replica


def replicate(base: RunFolder, path: Path, episodes: int, trials: int = TRIALS) -> RunFolder:
    """Make a run folder of so many episodes out of a run of bundled tasks.

    The run's lines follow one another as they are, again and again: every trial under one set of
    new ids, then the next set. Their tasks stand beside them, so that it can be rescored.
    """
    path.mkdir(parents=True)
    lines = list(base.lines())
    sets = -(-episodes // (len(lines) * trials))
    tasks = path / "tasks.jsonl"
    _write_lines(tasks, _copy_tasks({line["task_id"] for line in lines}, sets))
    _write_lines(path / "episodes.jsonl", _copy_lines(lines, episodes, trials))
    made = RunFolder(path)
    made.write_manifest(_manifest(base, tasks, len(lines), trials))
    return made


def _write_lines(path: Path, rows: Iterator[Line]) -> None:
    with path.open("wb") as file:
        file.writelines(map(dump_line, rows))


def _copy_lines(lines: Sequence[Line], episodes: int, trials: int) -> Iterator[Line]:
    for number in range(episodes):
        copy, place = divmod(number, len(lines))
        own, trial = divmod(copy, trials)
        yield {**_rename(lines[place], own, "task_id", "pair"), "trial": trial}


def _copy_tasks(ids: set[str], sets: int) -> Iterator[Line]:
    rows = [row for path in list_task_files() for row in json_lines(path) if row["id"] in ids]
    for own in range(sets):
        yield from (_rename(row, own, "id", "pair") for row in rows)


def _rename(row: Line, own: int, *names: str) -> dict[str, Any]:
    return {**row, **{name: f"{row[name]}.{own}" for name in names}}


def _manifest(base: RunFolder, tasks: Path, real: int, trials: int) -> dict[str, Any]:
    before, made = base.manifest, load_tasks([tasks])
    note = (
        f"A REPLICA, for measuring speed and memory: {real} real episodes of a run, copied under new "
        "ids. Never a result: nothing here says anything about a model."
    )
    return {
        **before,
        "trials": trials,
        "tasks": [task.id for task in made],
        "golds": hash_tasks(made),
        "own": {"files": {tasks.as_posix(): hash_file(tasks)}},
        "choice": {**before["choice"], "tasks": str(tasks), "trials": trials},
        "notes": [note, *before["notes"]],
    }


# ---------------------------------------------------------------- a command, watched


@dataclass(frozen=True, slots=True)
class Took:
    """What a command took: seconds by the clock and of the processors, bytes of memory."""

    seconds: float
    cpu: float
    peak: int
    """At most, of the command and all processes that it began; 0 where the system does not tell."""


def run_apart(*words: str) -> Took:
    """Run a command of the workbench as a process of its own, without the user's keys."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LLM_", "OPENAI_"))}
    began, before, peak = time.perf_counter(), _spent(), 0
    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-m", "bench", *words]
        with subprocess.Popen(command, stdout=said, stderr=said, env=kept) as process:
            while process.poll() is None:
                peak = max(peak, _held(process.pid))
                time.sleep(_GLANCE)
        said.seek(0)
        if process.returncode:
            lines = said.read().decode("utf-8", "replace").strip().splitlines()
            raise WorkbenchError(f"{words[0]} failed: {lines[-1][:300] if lines else ''}")
    return Took(time.perf_counter() - began, _spent() - before, peak)


def _spent() -> float:
    """Return the processors' seconds of all processes that have ended here."""
    spent = os.times()
    return spent.children_user + spent.children_system


def _held(process: int) -> int:
    """Return the bytes that a process and its children have held at most, each in its own time."""
    place = Path("/proc") / str(process)
    try:
        status = (place / "status").read_text(encoding="ascii", errors="replace")
        tasks = list((place / "task").iterdir())
        children = [pid for task in tasks for pid in (task / "children").read_text().split()]
    except OSError:  # it has just ended, or there is no such place on this system
        return 0
    found = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
    return (int(found[1]) * 1024 if found else 0) + sum(map(_held, map(int, children)))


# ---------------------------------------------------------------- what is written down


@dataclass(frozen=True, slots=True)
class Size:
    """A replica's size, and what each command took for it."""

    episodes: int
    bytes: int
    took: Mapping[str, Took]


def measure_scale(sizes: Sequence[int] = SIZES) -> str:
    """Write the section on large runs; takes two gigabytes of disk for 100,000 episodes."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        run_apart("compare", "--results", str(root / "base"))
        base = RunFolder.find(root / "base", "latest")
        return "\n".join(scale_lines([measure_size(base, root, size) for size in sorted(sizes)]))


def measure_size(base: RunFolder, root: Path, episodes: int) -> Size:
    """Report and rescore a replica, which is then removed."""
    folder = replicate(base, root / "replica", episodes).path
    took = {
        "report": run_apart("report", str(folder)),
        "rescore": run_apart("rescore", str(folder), "--results", str(root / "again")),
    }
    size = (folder / "episodes.jsonl").stat().st_size
    for path in (folder, root / "again"):
        rmtree(path)
    return Size(episodes, size, took)


def scale_lines(found: Sequence[Size]) -> Iterator[str]:
    """Write what each size took, also against the smallest, and whether the targets are met."""
    least = found[0]
    yield "## Large runs: report and rescore"
    yield ""
    yield (
        "Replicas of the bundled sample run: its real episodes again and again under new ids, "
        f"{TRIALS} trials of each task, {least.bytes / least.episodes / 1000:.1f} kB an episode. "
        "Each command is a process of its own; `rescore` also writes the new run's report, and "
        "shares its work with processes that it begins. Memory is the most that each process held, "
        f"added up. In brackets: times what {least.episodes:,} episodes take."
    )
    yield ""
    yield "| episodes | | seconds | CPU s | peak memory, MB |"
    yield "|---:|---|---:|---:|---:|"
    for size in found:
        yield from (_row(size, name, took, least.took[name]) for name, took in size.took.items())
    yield ""
    yield from _figures(found)


def _row(size: Size, name: str, took: Took, least: Took) -> str:
    cells = (
        _times(took.seconds, least.seconds, 1),
        _times(took.cpu, least.cpu, 1),
        _times(took.peak / 1e6, least.peak / 1e6, 0),
    )
    return f"| {size.episodes:,} | {name} | {' | '.join(cells)} |"


def _times(now: float, then: float, digits: int) -> str:
    return f"{now:.{digits}f} ({now / then:.1f})" if now and then else "–"


def _figures(found: Sequence[Size]) -> Iterator[str]:
    first, last = found[0], found[-1]
    for name, took in last.took.items():
        yield from _held_against(name, took, last.episodes)
        if len(found) > 1:
            times, more = took.seconds / first.took[name].seconds, last.episodes / first.episodes
            most = MOST_GROWTH * more
            yield (
                f"- {name}: {more:.1f} times the episodes take {times:.1f} times the seconds; at "
                f"most {most:.1f}: {met(times <= most)}"
            )


def _held_against(name: str, took: Took, episodes: int) -> Iterator[str]:
    """Write seconds and memory; the targets are of `WANTED` episodes."""
    most = {"s": (took.seconds, MOST_SECONDS[name]), "MB": (took.peak / 1e6, MOST_MEGABYTES)}
    for unit, (value, limit) in most.items():
        target = f"; at most {limit:,.0f} {unit}: {met(value <= limit)}"
        told = f"- {name} of {episodes:,} episodes takes {value:,.0f} {unit}"
        if value:
            yield told + (target if episodes >= WANTED else "")
