"""Check the exercises' tasks: as the bundled ones are, and what canned results ask for beside.

Every gold goes through the real tools and the judge, and once more through the tools as the
exercise lays them out. Asks no model.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.check import TaskCheck, check_tasks, gold_replay, make_answer, make_call, mask
from bench.exercises.marks import claims
from bench.exercises.tasks import EXACT, NAMES, Drill, load_exercise, toolbox_for
from bench.scoring import judge, says_number
from bench.tasks import load_tasks
from bench.types import Task, ToolResult
from parsers import Call

FEWEST = 10
"""Pairs of an exercise at least."""


def check_exercises() -> TaskCheck:
    """Check every exercise; no problems means that the tasks hold."""
    drills = [drill for name in NAMES for drill in load_exercise(name)]
    tasks = [_as_written(drill) for drill in drills if drill.form in (None, "json")]
    found = check_tasks(tasks, complete=False)
    problems = [text for drill in drills for text in _check_drill(drill)]
    bundled = load_tasks()
    problems += [*_check_sizes(tasks), *_check_alike(tasks, bundled), *_check_ids(drills, bundled)]
    return replace(found, problems=(*found.problems, *problems))


def _as_written(drill: Drill) -> Task:
    """Return a task as its line has it: one form of four is told by the id alone."""
    task = drill.task
    return replace(task, id=f"{task.pair}-{task.lang}")


# ---------------------------------------------------------------- one task


def _check_drill(drill: Drill) -> Iterator[str]:
    task, name = drill.task, drill.task.id
    calls = gold_replay(task).calls
    results = _run(task, calls)
    answer = make_answer(task)
    tools = toolbox_for(task, "full").tools
    if not judge(task, calls, results, answer, tools=tools).success:
        yield f"{name}: its gold scores 0 with the tools as the exercise lays them out"
    told = {result.tool for result in results} & drill.results.keys()
    if drill.results and not told:
        yield f"{name}: no wanted call is answered by a canned result"
    yield from _check_form(drill, results)
    yield from _check_kind(drill)


def _run(task: Task, calls: Sequence[Call]) -> list[ToolResult]:
    toolbox = toolbox_for(task, "full")
    return [asyncio.run(toolbox.run(call)) for call in calls]


def _check_form(drill: Drill, results: Sequence[ToolResult]) -> Iterator[str]:
    """See that the figure is in the forms that hold it, and in no other."""
    if drill.form is None or not results:
        return
    exact = next(d for d in load_exercise(drill.exercise) if _is_json_of(d, drill)).task.gold
    told = results[0].content
    digits = "".join(char for char in told if char.isdigit())
    for part in exact.contains:
        number = part.number or 0.0
        held = says_number(told, number, part.tolerance) or f"{number:g}" in digits
        if held != (drill.form in EXACT):
            yield f"{drill.task.id}: {number:g} is {'' if held else 'not '}in its result"


def _is_json_of(other: Drill, drill: Drill) -> bool:
    return (
        other.form == "json"
        and other.task.pair == drill.task.pair
        and other.task.lang == drill.task.lang
    )


def _check_kind(drill: Drill) -> Iterator[str]:
    task = drill.task
    if drill.exercise == "recovery":
        tries = _run(task, [make_call(wanted) for wanted in task.gold.also])
        if not any(result.error for result in tries):
            yield f"{task.id}: none of the calls in `also` is refused by its tool"
    if drill.exercise == "leave":
        if not all(result.error for result in _run(task, gold_replay(task).calls)):
            yield f"{task.id}: its change is not refused"
        missed = [text for text in task.gold.excludes if not _is_claim(task, text)]
        yield from (f"{task.id}: {text!r} is not seen as a claim" for text in missed)


def _is_claim(task: Task, text: str) -> bool:
    alone = replace(task, gold=replace(task.gold, excludes=(text,)))
    return claims(alone, f"So {text}, yes.")


# ---------------------------------------------------------------- the sets


def _check_sizes(tasks: Sequence[Task]) -> Iterator[str]:
    pairs = defaultdict(list)
    for task in tasks:
        pairs[task.category, task.pair].append(task)
    for category in dict.fromkeys(task.category for task in tasks):
        count = sum(name == category for name, _ in pairs)
        if count < FEWEST:
            yield f"{category}: has {count} pairs, needs {FEWEST}"
    for (_, pair), both in pairs.items():
        wanted = {(t.toolset, tuple(c.tool for c in t.gold.calls)) for t in both}
        if sorted(task.lang for task in both) != ["en", "zh"] or len(wanted) != 1:
            yield f"{pair}: needs the same question in English and in Chinese"


def _check_alike(tasks: Sequence[Task], bundled: Sequence[Task]) -> Iterator[str]:
    """Find questions that differ only in names and numbers, also from the bundled ones."""
    alike = defaultdict(list)
    for task in (*tasks, *bundled):
        alike[task.lang, mask(task.question)].append(task.id)
    own = {task.id for task in tasks}
    for ids in alike.values():
        if len(ids) > 1 and own & set(ids):
            yield f"{', '.join(ids)}: differ only in names and numbers"


def _check_ids(drills: Sequence[Drill], bundled: Sequence[Task]) -> Iterator[str]:
    pairs, seen = {task.pair for task in bundled}, {task.id for task in bundled}
    for drill in drills:
        if drill.task.id in seen or drill.task.pair in pairs:
            yield f"{drill.task.id}: there is such an id already"
        seen.add(drill.task.id)
