"""The workbench's own accuracy: exact accounting over damaged replies, intervals over made-up scores.

Nothing here asks a model; everything that is written says first that it is simulated.
"""

import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.status import FOUND, OK
from bench.texts import say
from bench.types import WorkbenchError

if TYPE_CHECKING:
    from bench.calibrate.accounts import Account
    from bench.calibrate.findings import Calibration

REPLIES, TABLES, RUNS = 100_000, 4_000, 300
"""Of a full calibration; runs are scaled with tables."""
_PART = 4_000
"""Damaged replies of one trial of all tasks, about."""
_A_TASK = 13
"""Damaged replies of one task in all ways, about."""

Tell = Callable[[str], None]


@dataclass(slots=True)
class _Sums:
    account: "Account"
    parts: dict[tuple[str, int], Any] = field(default_factory=dict)
    """By kind and place: coverage and runs."""

    def add(self, name: tuple[str, int], found: Any) -> None:
        """Take in one part."""
        if name[0] == "account":
            self.account.add(found)
        else:
            self.parts[name] = self.parts[name] + found if name in self.parts else found


def calibrate(
    *,
    replies: int = REPLIES,
    tables: int = TABLES,
    seed: int = 0,
    processes: int | None = None,
    tell: Tell = lambda _: None,
) -> "Calibration":
    """Measure both halves; about a quarter of an hour on two cores at the full size."""
    from bench.calibrate.accounts import Account  # noqa: PLC0415 (scipy takes time to load)
    from bench.calibrate.findings import Calibration  # noqa: PLC0415
    from bench.calibrate.intervals import CONDITIONS  # noqa: PLC0415
    from bench.calibrate.intervals import RUNS as WORLDS  # noqa: PLC0415

    started = time.monotonic()
    runs = max(1, round(tables * RUNS / TABLES))
    jobs = [*_account_jobs(replies, seed), *_interval_jobs(tables, runs, seed)]
    sums = _Sums(Account())
    for done, (name, found) in enumerate(_do(jobs, processes or _cores()), 1):
        sums.add(name, found)
        if done % 10 == 0 or done == len(jobs):
            tell(f"{done} of {len(jobs)} parts, {time.monotonic() - started:.0f} s")
    made = {"seed": seed, "replies": replies, "tables": tables, "runs": runs}
    return Calibration(
        sums.account,
        tuple(sums.parts["coverage", place] for place in range(len(CONDITIONS))),
        tuple(sums.parts["runs", place] for place in range(len(WORLDS))),
        {**made, **_describe(time.monotonic() - started)},
    )


Job = tuple[tuple[str, int], Callable[[], Any]]


def _account_jobs(replies: int, seed: int) -> Iterator[Job]:
    parts = max(1, math.ceil(replies / _PART))
    for part in range(parts):
        limit = None if parts > 1 else max(20, replies // _A_TASK)
        share = math.ceil(replies / parts)
        yield ("account", 0), partial(_account, share, seed * 10_000 + part, limit)


def _account(replies: int, seed: int, limit: int | None) -> "Account":
    from bench.calibrate.accounts import keep_account  # noqa: PLC0415 (in a process of its own)
    from bench.tasks import load_tasks  # noqa: PLC0415

    return keep_account(replies, seed, tasks=load_tasks(limit=limit))


def _interval_jobs(tables: int, runs: int, seed: int) -> Iterator[Job]:
    from bench.calibrate.intervals import CHUNK, CONDITIONS, run_chunk  # noqa: PLC0415
    from bench.calibrate.intervals import RUNS as WORLDS  # noqa: PLC0415

    listed = [("coverage", CONDITIONS, tables, CHUNK), ("runs", WORLDS, runs, CHUNK // 4)]
    for kind, conditions, size, chunk in listed:
        for place, condition in enumerate(conditions):
            left = max(1, size // condition.part)
            for number in range(math.ceil(left / chunk)):
                own = min(chunk, left - number * chunk)
                yield (kind, place), partial(run_chunk, kind, place, own, seed, number)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _do(jobs: list[Job], processes: int) -> Iterator[tuple[tuple[str, int], Any]]:
    """Do the jobs, in processes of their own where there are several; in any order."""
    if processes == 1:
        yield from ((name, work()) for name, work in jobs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        waiting: dict[Future[Any], tuple[str, int]] = {
            pool.submit(work): name for name, work in jobs
        }
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _describe(seconds: float) -> dict[str, Any]:
    from bench.manifest import describe_machine, describe_run  # noqa: PLC0415 (not for --help)

    run = describe_run("calibrate", "simulated", "")
    kept = {name: run[name] for name in ("version", "git", "python", "packages", "started")}
    return {**kept, "machine": describe_machine(), "seconds": round(seconds)}


def run_calibrate(
    results: Path, *, replies: int, tables: int, seed: int, processes: int | None
) -> int:
    """Calibrate, write it down, sum it up; return 1 where something that must hold does not."""
    from bench.calibrate.findings import limits  # noqa: PLC0415 (scipy takes time to load)

    found = calibrate(
        replies=replies,
        tables=tables,
        seed=seed,
        processes=processes,
        tell=lambda text: print(text, file=sys.stderr),  # noqa: T201 (progress, beside the answer)
    )
    paths = write(found, results)
    print(summarize(found), *paths, sep="\n")  # noqa: T201 (the answer)
    return OK if all(one.kept for one in limits(found)) else FOUND


def write(found: "Calibration", results: Path) -> tuple[Path, ...]:
    """Write calibration.json and its page into the results folder; return the files."""
    from bench.calibrate.findings import to_json  # noqa: PLC0415 (drawing takes time to load)
    from bench.calibrate.page import FILE, FOLDER, compose  # noqa: PLC0415
    from bench.report import write_document  # noqa: PLC0415

    folder = results / FOLDER
    text = json.dumps(to_json(found), ensure_ascii=False, indent=1) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise WorkbenchError(
            f"{folder}: can't write here ({error.strerror}); choose another --results DIR"
        ) from None
    return (folder / FILE, *write_document(folder, compose(found)))


def summarize(found: "Calibration") -> str:
    """Return what ends a calibration on the terminal."""
    from bench.calibrate.findings import SIMULATED, limits  # noqa: PLC0415 (scipy takes time to load)

    account = found.account
    counts = {"damaged": f"{account.damaged:,}", "replies": f"{account.replies:,}"}
    lines = [say(SIMULATED), say("{damaged} damaged replies of {replies}", **counts)]
    lines += [f"{'ok ' if one.kept else 'NOT'} {one.what}: {one.told}" for one in limits(found)]
    return "\n".join([*lines, *account.examples[:5]])
