"""Read tasks, choose among them, and check that each can be solved and can be failed.

A task line is data: it is checked against `datasets/schema/task.json`, and a fault is told with
file, line and the fix. Nothing here asks a model.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema_rs import Validator, validator_for

from bench.paths import find_datasets
from bench.tools import list_toolsets
from bench.tools.data import match_names
from bench.tools.schema import explain
from bench.types import AnswerPart, Gold, Task, WantedCall, Wording, WorkbenchError

CATEGORIES: Mapping[str, int] = {
    "single": 16,
    "lookalike": 16,
    "repeated": 16,
    "several": 16,
    "near_miss": 16,
    "no_tool": 16,
    "multi_step": 8,
    "recovery": 8,
    "tricky": 8,
    "typed": 8,
}
"""The categories, with the fewest pairs that the bundled tasks have of each."""

_LONGEST_FILE = 50_000_000


def list_task_files() -> tuple[Path, ...]:
    """Return the files of the bundled tasks, in the order of the categories."""
    folder = find_datasets() / "tasks"
    return tuple(path for name in CATEGORIES if (path := folder / f"{name}.jsonl").is_file())


def load_tasks(
    paths: Iterable[Path] | None = None,
    *,
    categories: Collection[str] = (),
    langs: Collection[str] = (),
    ids: Collection[str] = (),
    limit: int | None = None,
    toolsets: Mapping[str, Collection[str]] | None = None,
) -> tuple[Task, ...]:
    """Return tasks, by default all bundled ones, in the order of their files.

    `ids` takes ids of tasks or of pairs. `limit` keeps that many tasks, spread over the
    categories, whole pairs first. `toolsets` replaces the bundled ones. Raises WorkbenchError
    with file, line and fix for a bad line, and for a filter that names nothing.

    >>> from bench import load_tasks
    >>> [task] = load_tasks(ids=["single-01"], langs=["en"])
    >>> task.question
    "What's the weather like in Beijing right now?"
    """
    known = list_toolsets() if toolsets is None else toolsets
    tasks: list[Task] = []
    for path in list_task_files() if paths is None else paths:
        tasks += _read_file(path, known)
    _refuse_repeats(tasks)
    return choose_tasks(tasks, categories=categories, langs=langs, ids=ids, limit=limit)


def _refuse_repeats(tasks: Iterable[Task]) -> None:
    for task_id, count in Counter(task.id for task in tasks).items():
        if count > 1:
            raise WorkbenchError(f"two task files have the id {task_id!r}; rename one of them")


def _read_file(path: Path, toolsets: Mapping[str, Collection[str]]) -> list[Task]:
    tasks: dict[str, Task] = {}
    for number, line in _read_lines(path):
        task = _read_task(line, f"{path}:{number}", toolsets)
        if task.id in tasks:
            raise WorkbenchError(f"{path}:{number}: id {task.id!r} is there already; rename it")
        tasks[task.id] = task
    if not tasks:
        raise WorkbenchError(f"{path}:1: holds no task; put one JSON object on each line")
    return list(tasks.values())


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        if path.stat().st_size > _LONGEST_FILE:
            raise WorkbenchError(f"{path}: is larger than 50 MB; split it")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise WorkbenchError(f"{path}: cannot be read: {problem.strerror}; check --tasks") from None
    except UnicodeDecodeError:
        raise WorkbenchError(f"{path}: is not UTF-8; save it as UTF-8") from None
    # splitlines() would also part a line at U+2028, which JSON allows inside a string
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line


def _read_task(line: str, place: str, toolsets: Mapping[str, Collection[str]]) -> Task:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise WorkbenchError(f"{place}: is not JSON: {problem}; write one object a line") from None
    return check_row(row, place, task_schema(), _validator(), toolsets)


def check_row(
    row: Any,
    place: str,
    schema: Mapping[str, Any],
    validator: Validator,
    toolsets: Mapping[str, Collection[str]],
) -> Task:
    """Make a task of a row that holds to its schema; raises WorkbenchError with the place."""
    try:
        fault = next(validator.iter_errors(row), None)
    except (ValueError, RecursionError) as problem:  # half a surrogate pair, nested without end
        raise WorkbenchError(f"{place}: can't be checked ({problem}); write plain texts") from None
    if fault is not None:
        raise WorkbenchError(f"{place}: {tell_fault(explain(fault, schema))}")
    task = task_from_row(row)
    if said := find_fault(task, toolsets):
        raise WorkbenchError(f"{place}: {said}")
    return task


@cache
def task_schema() -> dict[str, Any]:
    """Return the schema of a bundled task's line."""
    path = find_datasets() / "schema" / "task.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


@cache
def _validator() -> Validator:
    return validator_for(task_schema())


def tell_fault(error: Mapping[str, Any]) -> str:
    """Return an error's value on one line."""
    hints = {key: value for key, value in error.items() if key != "error" and value}
    listed = "; ".join(f"{key.replace('_', ' ')}: {_join(value)}" for key, value in hints.items())
    return f"{error['error']}{'; ' if listed else ''}{listed}"


def _join(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def find_fault(task: Task, toolsets: Mapping[str, Collection[str]]) -> str | None:
    """Return what a schema cannot see: a toolset or a tool that does not exist."""
    if task.toolset not in toolsets:
        return f"unknown toolset {task.toolset!r}; {_suggest(task.toolset, toolsets)}"
    offered = toolsets[task.toolset]
    for wanted in (*task.gold.calls, *task.gold.also):
        if wanted.tool not in offered:
            return (
                f"unknown tool {wanted.tool!r} in toolset {task.toolset!r}; "
                f"{_suggest(wanted.tool, offered)}"
            )
    everywhere = {name for names in toolsets.values() for name in names}
    for name in task.gold.forbidden:
        if name not in everywhere:
            return f"unknown tool {name!r} in forbidden; {_suggest(name, everywhere)}"
    return None


def _suggest(asked: str, known: Iterable[str]) -> str:
    names = list(known)
    return f"use one of {', '.join(match_names(asked, names) or sorted(names))}"


# ---------------------------------------------------------------- rows


def task_from_row(row: Mapping[str, Any]) -> Task:
    """Return the task of a decoded line that meets the schema."""
    return Task(
        id=row["id"],
        pair=row["pair"],
        lang=row["lang"],
        category=row["category"],
        toolset=row["toolset"],
        question=row["question"],
        gold=_gold_from_row(row["gold"]),
    )


def _gold_from_row(row: Mapping[str, Any]) -> Gold:
    return Gold(
        calls=tuple(map(wanted_from_row, row.get("calls", ()))),
        ordered=row.get("ordered", False),
        also=tuple(map(wanted_from_row, row.get("also", ()))),
        contains=tuple(
            AnswerPart(part.get("number"), part.get("tolerance", 0.0), tuple(part.get("any", ())))
            for part in row.get("contains", ())
        ),
        excludes=tuple(row.get("excludes", ())),
        forbidden=tuple(row.get("forbidden", ())),
        unsolvable=row.get("unsolvable", False),
    )


def wanted_from_row(row: Mapping[str, Any]) -> WantedCall:
    """Return a wanted call from its row: `tool`, `arguments`, `optional`."""
    values = row.get("arguments", {}).items()
    return WantedCall(
        tool=row["tool"],
        arguments={name: tuple(map(_value_from_row, forms)) for name, forms in values},
        optional=frozenset(row.get("optional", ())),
        any_arguments=row.get("any_arguments", False),
    )


def _value_from_row(value: Any) -> Any:
    """Return an acceptable value; `{"$like", "$words"}` at any depth becomes a Wording."""
    match value:
        case {"$like": str() as example, "$words": list() as words}:
            groups = tuple((word,) if isinstance(word, str) else tuple(word) for word in words)
            return Wording(example, groups)
        case dict():
            return {key: _value_from_row(inner) for key, inner in value.items()}
        case list():
            return [_value_from_row(inner) for inner in value]
    return value


# ---------------------------------------------------------------- choosing


def choose_tasks(
    tasks: Iterable[Task],
    *,
    categories: Collection[str] = (),
    langs: Collection[str] = (),
    ids: Collection[str] = (),
    limit: int | None = None,
) -> tuple[Task, ...]:
    """Return the tasks that pass every filter given; see `load_tasks`."""
    found = list(tasks)
    _refuse_unknown("category", categories, {task.category for task in found})
    _refuse_unknown("language", langs, {task.lang for task in found})
    _refuse_unknown("task", ids, {name for task in found for name in (task.id, task.pair)})
    kept = [
        task
        for task in found
        if (not categories or task.category in categories)
        and (not langs or task.lang in langs)
        and (not ids or task.id in ids or task.pair in ids)
    ]
    if not kept:
        raise WorkbenchError("no task passes these filters; leave one of them out")
    return _spread(kept, limit)


def _refuse_unknown(what: str, asked: Collection[str], known: Collection[str]) -> None:
    for name in asked:
        if name not in known:
            raise WorkbenchError(f"no {what} {name!r}; {_suggest(name, known)[:500]}")


def _spread(tasks: list[Task], limit: int | None) -> tuple[Task, ...]:
    """Return the first pair of each category, then the second of each, up to the limit."""
    if limit is None:
        return tuple(tasks)
    if limit < 1:
        raise WorkbenchError(f"--limit {limit} keeps no task; give 1 or more")
    pairs: dict[str, dict[str, int]] = {}
    for task in tasks:
        ranks = pairs.setdefault(task.category, {})
        ranks.setdefault(task.pair, len(ranks))
    order = {name: at for at, name in enumerate(pairs)}
    ranked = sorted(tasks, key=lambda t: (pairs[t.category][t.pair], order[t.category]))
    chosen = {task.id for task in ranked[:limit]}
    return tuple(task for task in tasks if task.id in chosen)
