"""The exercises' tasks: read from `datasets/exercises`, with what their tools answer instead.

Asks no model and judges nothing. The tools are the bundled ones; an exercise may lay a canned
answer over a tool's own, and nothing that changes something is ever run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from bench.loop import Toolbox
from bench.paths import find_datasets
from bench.tasks import task_from_row
from bench.types import Task, ToolResult, WorkbenchError
from parsers import Call, Tool

NAMES = (*("parallel", "two-tools", "result-form", "recovery", "who-are-you", "loop", "leave"),)
"""The exercises, in the order of a report."""
ALL = "all"
PREFIX = "exercise-"
"""What ids and categories begin with: no task of an exercise has the id of a bundled task."""

Form = Literal["json", "prose", "wrong-type", "error"]
FORMS: tuple[Form, ...] = ("json", "prose", "wrong-type", "error")
"""How a tool's result is worded in `result-form`; `json` is the tool's own."""
EXACT: tuple[Form, ...] = ("json", "wrong-type")
"""The forms that hold the exact figure."""


@dataclass(frozen=True, slots=True)
class Drill:
    """One task of an exercise."""

    task: Task
    exercise: str
    results: Mapping[str, Any] = field(default_factory=dict)
    """By tool: what it gives in place of its own result, where that is no error."""
    form: Form | None = None
    """Set in `result-form` only."""
    says: tuple[float, ...] = ()
    """Figures that a canned result says in words, so that an answer may say them too."""


@dataclass(frozen=True, slots=True)
class CannedToolbox:
    """A toolbox that gives canned results for some tools and leave to none."""

    inner: Toolbox
    results: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools on offer, in order."""
        return self.inner.tools

    async def run(self, call: Call, leave: Any = None) -> ToolResult:  # noqa: ARG002 (none is given)
        """Run one call without leave; put the canned result in the place of a good one."""
        from bench.tools import render  # noqa: PLC0415 (pydantic takes time to load)

        result = await self.inner.run(call)
        if call.name not in self.results or result.error:
            return result
        content, error = render(self.results[call.name])
        return replace(result, content=content, error=error)


def load_exercise(name: str) -> tuple[Drill, ...]:
    """Return the tasks of an exercise, or of `all`, in the order of their files."""
    return tuple(drill for each in names_of(name) for drill in _load(each))


def names_of(name: str) -> tuple[str, ...]:
    """Return the exercises that a name stands for."""
    if name == ALL:
        return NAMES
    if name not in NAMES:
        raise WorkbenchError(f"no exercise {name!r}; there are: {', '.join(NAMES)}, and {ALL}")
    return (name,)


@cache
def _load(name: str) -> tuple[Drill, ...]:
    path = find_datasets() / "exercises" / f"{name}.jsonl"
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return tuple(drill for row in rows for drill in _drills(name, row))


def _drills(name: str, row: Mapping[str, Any]) -> Sequence[Drill]:
    task = task_from_row(row)
    if "forms" not in row:
        return [Drill(task, name, row.get("results", {}))]
    return [_word(task, name, form, row["forms"].get(form, {})) for form in FORMS]


def _word(task: Task, name: str, form: Form, row: Mapping[str, Any]) -> Drill:
    """Make the task of one form: its own id, the same pair, and no figure where none is given."""
    number = task.pair.removeprefix(f"{PREFIX}{name}-")
    gold = task.gold if form in EXACT else replace(task.gold, contains=())
    own = replace(task, id=f"{PREFIX}{name}-{form}-{number}-{task.lang}", gold=gold)
    return Drill(own, name, row.get("results", {}), form, tuple(row.get("says", ())))


@cache
def list_drills() -> Mapping[str, Drill]:
    """Return every task of every exercise by its id."""
    return {drill.task.id: drill for drill in load_exercise(ALL)}


def toolbox_for(task: Task, variant: str) -> CannedToolbox:
    """Return the tools of an exercise's task, with what they answer there."""
    from bench.run import bundled_toolbox  # noqa: PLC0415 (only runs need it)

    return CannedToolbox(bundled_toolbox(task, variant), list_drills()[task.id].results)
