"""`python -m bench ab OLD NEW`: two versions of the same tools' descriptions, on the same tasks.

A comparison (`bench.compare`) with two descriptions, `old` and `new`. Tools that go by a bundled
tool's name run its function and bring its tasks; others answer from their file's canned results.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.choice import Choice
from bench.compare import Ending, Kind, compare, tell
from bench.lint import lint
from bench.lint.finding import Subject
from bench.lint.texts import size_of
from bench.manifest import hash_file
from bench.own import OWN
from bench.own.tasks import read_tasks
from bench.own.tools import load_entries
from bench.plan import Order, Plan, make_plan
from bench.records import RunFolder
from bench.status import OK
from bench.tasks import load_tasks
from bench.tools import Entry, Toolbox, list_toolsets, load_tools
from bench.types import Task, WorkbenchError

OLD, NEW = "old", "new"
VERSIONS = (OLD, NEW)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two versions of the same tools, ready to be run, with the tasks that they are tried on."""

    paths: tuple[Path, Path]
    old: Toolbox
    new: Toolbox
    tasks: tuple[Task, ...]

    def toolbox_for(self, _: Task, version: str) -> Toolbox:
        """Return the tools as a version tells them; they are offered in every task."""
        return self.new if version == NEW else self.old

    @property
    def told_otherwise(self) -> tuple[str, ...]:
        """The names of the tools that the two versions tell differently."""
        pairs = zip(self.old.tools, self.new.tools, strict=True)
        return tuple(before.name for before, after in pairs if before != after)


def run_ab(old: str, new: str, values: Mapping[str, Any], order: Order) -> int:
    """Compare two files of tools; return the exit status.

    0: the new one is better, or surely no worse; 1: it is worse; 3: not enough data.
    """
    tasks = values.get("tasks")
    pair = read_pair(Path(old), Path(new), Path(tasks) if tasks else None)
    if not pair.told_otherwise:
        tell(f"{old} and {new} tell the same tools in the same words; nobody need be asked")
        return OK
    rest = {name: value for name, value in values.items() if name not in ("tasks", "tools")}
    return compare(rest, order, kind_of(pair, tasks))


def read_pair(old: Path, new: Path, tasks: Path | None = None) -> Pair:
    """Read both files and the tasks; raises WorkbenchError for what cannot be compared."""
    before, after = (_read_entries(path) for path in (old, new))
    _refuse_others(before, after, old, new)
    after = {name: after[name] for name in before}  # in the same order: only texts may differ
    told_old, told_new = (Toolbox(tuple(entries.values())) for entries in (before, after))
    names = tuple(before)
    found = _read_own(tasks, names) if tasks else pick_tasks(names)
    if not found:
        raise WorkbenchError(
            f"{old}: no bundled task fits these tools; name your own with --tasks FILE"
        )
    return Pair((old, new), told_old, told_new, found)


def _read_entries(path: Path) -> dict[str, Entry]:
    entries, _ = load_entries([str(path)])
    bundled = load_tools().table
    return {
        entry.tool.name: replace(bundled[entry.tool.name], tool=entry.tool)
        if entry.tool.name in bundled
        else entry
        for entry in entries
    }


def _refuse_others(
    before: Mapping[str, Entry], after: Mapping[str, Entry], old: Path, new: Path
) -> None:
    for path, here, there in ((new, after, before), (old, before, after)):
        missing = ", ".join(name for name in there if name not in here)
        if missing:
            raise WorkbenchError(
                f"{path}: lacks {missing[:200]}; two versions must hold the same tools, told differently"
            )


def _read_own(path: Path, names: Sequence[str]) -> tuple[Task, ...]:
    toolsets = dict.fromkeys((*list_toolsets(), OWN), names)
    return tuple(replace(task, toolset=OWN) for task in read_tasks(path, toolsets, OWN))


def pick_tasks(names: Sequence[str]) -> tuple[Task, ...]:
    """Return the bundled tasks that these tools can solve, or surely can't where none is to help.

    A task that needs calls needs its tools on offer. One that needs none (no tool needed, near
    misses) holds only where no bundled tool is offered that its own toolset lacks.
    """
    sets, offered = list_toolsets(), set(names)
    bundled = offered & set(sets["all"])
    if not bundled:
        return ()
    return tuple(
        replace(task, toolset=OWN)
        for task in load_tasks()
        if _fits(task, offered, bundled, set(sets[task.toolset]))
    )


def _fits(task: Task, offered: set[str], bundled: set[str], toolset: set[str]) -> bool:
    needed = {call.tool for call in task.gold.calls}
    return needed <= offered if needed else bundled <= toolset


# ---------------------------------------------------------------- the run


def kind_of(pair: Pair, tasks: str | None = None) -> Kind:
    """Return what a run of this pair has of its own; `tasks`: the file of its tasks."""

    def plan(choice: Choice, order: Order) -> Plan:
        chosen = replace(choice, variant=VERSIONS)
        tasks, toolbox_for = pair.tasks, pair.toolbox_for
        return make_plan(chosen, order, experiment="ab", tasks=tasks, toolbox_for=toolbox_for)

    words = ["ab", *map(str, pair.paths), *(["--tasks", tasks] if tasks else [])]
    return Kind("ab", plan, end, lambda _: _describe(pair), shlex.join(words))


def _describe(pair: Pair) -> dict[str, Any]:
    """Keep both files' texts: the report shows what was changed."""
    boxes = zip(VERSIONS, pair.paths, (pair.old, pair.new), strict=True)
    return {
        "versions": {
            version: {
                "file": path.name,
                "sha256": hash_file(path),
                "tokens": sum(size_of(Subject.from_tool(tool)) for tool in box.tools),
                "findings": len(lint(box.tools, path.name)),
                "descriptions": {tool.name: tool.description[:2000] for tool in box.tools},
            }
            for version, path, box in boxes
        },
        "told_otherwise": list(pair.told_otherwise),
    }


def end(folder: RunFolder) -> Ending:
    """Write the report, and turn its verdict into an exit status."""
    from bench.lab.ab_report import (  # noqa: PLC0415 (drawing takes time to load)
        find_out_ab,
        judge,
        summarize_ab,
        write_ab_report,
    )

    found = find_out_ab(folder)
    paths = write_ab_report(folder, found)
    return Ending(summarize_ab(found), paths, judge(found).status)
