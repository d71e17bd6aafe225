"""`python -m bench exercise NAME`: the exercises of the field, each with a section of a report.

A comparison (`bench.compare`) of both ways on an exercise's own tasks. Their recordings are one
file for all exercises, under the experiment's name `exercise`.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from bench.choice import Choice
from bench.compare import Ending, Kind, compare
from bench.exercises.tasks import ALL, NAMES, PREFIX, load_exercise, names_of, toolbox_for
from bench.manifest import hash_file
from bench.paths import find_datasets
from bench.plan import Order, Plan, make_plan
from bench.records import RunFolder

__all__ = ["ALL", "EXPERIMENT", "NAMES", "list_exercises", "run_exercise"]

EXPERIMENT = "exercise"
"""The name under which recordings of any exercise stand."""


def run_exercise(name: str, values: Mapping[str, Any], order: Order) -> int:
    """Run an exercise or all of them, or go on with a run; return the exit status."""
    names_of(name)
    return compare(values, order, make_kind(name))


def make_kind(name: str) -> Kind:
    """Return what differs between a comparison and the run of an exercise."""
    return Kind(
        PREFIX + name,
        partial(_plan, name),
        _end,
        partial(_more, name),
        command=f"{EXPERIMENT} {name}",
    )


def _plan(name: str, choice: Choice, order: Order) -> Plan:
    tasks = [drill.task for drill in load_exercise(name)]
    return make_plan(choice, order, experiment=EXPERIMENT, tasks=tasks, toolbox_for=toolbox_for)


def _more(name: str, plan: Plan) -> dict[str, Any]:
    """Name the exercise, and keep which file its tasks came from."""
    del plan
    folder = find_datasets() / "exercises"
    files = {f"exercises/{each}.jsonl": folder / f"{each}.jsonl" for each in names_of(name)}
    return {
        "experiment": PREFIX + name,
        "exercise_files": {key: hash_file(path) for key, path in files.items()},
    }


def _end(folder: RunFolder) -> Ending:
    from bench.exercises.report import (  # noqa: PLC0415 (pandas takes time to load)
        find_out,
        summarize,
        write_exercise_report,
    )

    found = find_out(folder)
    return Ending(summarize(found), write_exercise_report(folder, found))


def list_exercises() -> Iterator[str]:
    """Yield a line for each exercise: its name, its size, what it asks."""
    from bench.exercises.measures import EXERCISES  # noqa: PLC0415 (pandas takes time to load)

    for name in NAMES:
        drills = load_exercise(name)
        pairs = len({drill.task.pair for drill in drills})
        yield f"{name:<12} {pairs} questions, {len(drills)} tasks: {EXERCISES[name].title}"
    yield f"{ALL:<12} all of them, in one run and one recording"
