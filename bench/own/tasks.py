"""Read a user's own tasks: JSON Lines or CSV, with as little as a question and the expected tool.

What is left out is made: an id, the language, the category `own`. A line may also hold all that a
bundled task holds. A fault is told with file, line and the fix; nothing here asks a model.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema_rs import Validator, validator_for

from bench.own.files import read_text
from bench.tasks import check_row, task_schema
from bench.tools.data import is_chinese
from bench.types import Task, WorkbenchError

OWN = "own"
"""The category of own tasks, and the toolset of own tools, unless told."""

_NONE = ("none", "-", "no tool", "无")
_ALIKE = 0.82
"""How much of a column's name must be right; less is a name of something else."""
_IGNORED = ("note", "notes", "comment", "comments", "source")
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "question": ("query", "prompt", "input", "问题"),
    "expected_tool": ("tool", "tools", "expected_tools", "expected", "expected_function", "工具"),
    "expected_arguments": ("arguments", "args", "expected_args", "parameters", "参数"),
    "expected_answer": ("answer", "expected_output", "答案"),
    "forbidden": ("forbidden_tool", "forbidden_tools"),
    "id": ("task_id",),
    "pair": (),
    "lang": ("language", "语言"),
    "category": (),
    "toolset": (),
    "gold": (),
}
_FORMS = "question and expected_tool, and if you like " + ", ".join(list(_COLUMNS)[2:])


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a file: where it stands, and its cells under the columns' own names."""

    place: str
    number: int
    """Of the task in its file, from 1."""
    cells: Mapping[str, Any]


def read_tasks(
    path: Path, toolsets: Mapping[str, Sequence[str]], toolset: str = OWN
) -> tuple[Task, ...]:
    r"""Return the tasks of a `.jsonl` or `.csv` file.

    `toolsets` names the tools of each toolset, `toolset` the one offered where a line names none.
    Raises WorkbenchError with file, line and fix for the first bad line.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from bench import read_tasks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tasks.csv"
    ...     _ = path.write_text("question,expected_tool\nWhat is a pen?,get_price\n")
    ...     [task] = read_tasks(path, {"own": ["get_price"]})
    >>> task.id, task.toolset, task.gold.calls[0].tool
    ('own-01', 'own', 'get_price')
    """
    text = read_text(path, "--tasks")
    tasks: dict[str, Task] = {}
    for line in _reader(path)(text, path):
        task = _make_task(line, toolsets, toolset)
        if task.id in tasks:
            raise WorkbenchError(f"{line.place}: id {task.id!r} is there already; rename it")
        tasks[task.id] = task
    if not tasks:
        raise WorkbenchError(f"{path}:1: holds no task; write {_FORMS}")
    return tuple(tasks.values())


_Reader = Callable[[str, Path], Iterator[_Line]]


def _reader(path: Path) -> _Reader:
    readers: Mapping[str, _Reader] = {".jsonl": _read_jsonl, ".csv": _read_csv, ".tsv": _read_csv}
    try:
        return readers[path.suffix.lower()]
    except KeyError:
        raise WorkbenchError(
            f"{path}:1: tasks are read from a .jsonl or .csv file; save it so"
        ) from None


# ---------------------------------------------------------------- lines


def _read_jsonl(text: str, path: Path) -> Iterator[_Line]:
    number = 0
    for at, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place, number = f"{path}:{at}", number + 1
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            said = getattr(problem, "msg", problem)
            raise WorkbenchError(
                f"{place}: is not JSON ({said}); write one object a line"
            ) from None
        if not isinstance(row, dict):
            kind = type(row).__name__
            raise WorkbenchError(f"{place}: is a {kind}; write one object a line") from None
        columns = _match_columns(list(row), place)
        cells = {columns[name]: value for name, value in row.items() if name in columns}
        yield _Line(place, number, {k: v for k, v in cells.items() if v is not None})


def _read_csv(text: str, path: Path) -> Iterator[_Line]:
    header: list[str] | None = None
    columns: dict[str, str] = {}
    number = 0
    for place, row in _csv_rows(text, path):
        if header is None:
            header, columns = row, _match_columns(row, place)
            continue
        if len(row) != len(header):
            told = f"has {len(row)} cells, the header {len(header)}"
            raise WorkbenchError(f'{place}: {told}; put texts with a comma in "quotes"')
        number += 1
        given = zip(header, row, strict=True)
        cells = {columns[name]: cell.strip() for name, cell in given if name in columns}
        yield _Line(place, number, {k: _from_cell(k, v, place) for k, v in cells.items() if v})


def _csv_rows(text: str, path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield rows that are not empty, each with the place where it begins."""
    head = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        place = f"{path}:{rows.line_num + 1}"
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as problem:
            raise WorkbenchError(f'{place}: is not CSV ({problem}); close its "quotes"') from None
        if any(cell.strip() for cell in row):
            yield place, row


def _from_cell(column: str, cell: str, place: str) -> Any:
    """Return the value of a CSV cell: JSON where the column holds objects."""
    if column not in ("expected_arguments", "gold"):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError) as problem:
        told = f"{column} is not JSON ({getattr(problem, 'msg', problem)})"
        example = '{"city": "Paris"}, in a CSV cell "{""city"": ""Paris""}"'
        raise WorkbenchError(f"{place}: {told}; write {example}") from None


def _match_columns(names: Sequence[str], place: str) -> dict[str, str]:
    """Return for each name in a file the column that it means; names of notes are left out."""
    found: dict[str, str] = {}
    for name in names:
        column = _match_column(name, place)
        if column in found.values():
            other = next(n for n, c in found.items() if c == column)
            raise WorkbenchError(f"{place}: {other!r} and {name!r} both mean {column}; drop one")
        if column is not None:
            found[name] = column
    return found


def _match_column(name: str, place: str) -> str | None:
    folded = re.sub(r"[\s_-]+", "_", name.strip().casefold())
    if folded in _IGNORED or not folded:
        return None
    known = {alias: column for column, more in _COLUMNS.items() for alias in (column, *more)}
    if folded in known:
        return known[folded]
    meant = {known[near] for near in get_close_matches(folded, known, cutoff=_ALIKE)}
    if len(meant) == 1:
        return meant.pop()
    raise WorkbenchError(f"{place}: no column {name[:80]!r}; known: {', '.join(_COLUMNS)}, note")


# ---------------------------------------------------------------- from a line to a task


def _make_task(line: _Line, toolsets: Mapping[str, Sequence[str]], toolset: str) -> Task:
    cells = line.cells
    if "gold" not in cells and "expected_tool" not in cells:
        raise WorkbenchError(
            f"{line.place}: says no expected_tool; name a tool, or write none where none is needed"
        )
    name = str(cells.get("id") or f"{OWN}-{line.number:02}")
    question = cells.get("question", "")
    row = {
        "id": name,
        "pair": str(cells.get("pair") or name),
        "lang": cells.get("lang") or ("zh" if is_chinese(str(question)) else "en"),
        "category": cells.get("category") or OWN,
        "toolset": cells.get("toolset") or toolset,
        "question": question,
        "gold": cells["gold"] if "gold" in cells else _make_gold(line),
    }
    return check_row(row, line.place, _schema(), _validator(), toolsets)


def _make_gold(line: _Line) -> dict[str, Any]:
    cells = line.cells
    tools = _list_names(cells["expected_tool"], line.place)
    gold: dict[str, Any] = {"calls": _make_calls(tools, line)}
    if "expected_answer" in cells:
        gold["contains"] = _make_parts(cells["expected_answer"], line.place)
    if "forbidden" in cells:
        gold["forbidden"] = _list_names(cells["forbidden"], line.place)
    return gold


def _list_names(value: Any, place: str) -> list[str]:
    """Return the tools that a text (commas between them) or a list names; `none` names none."""
    names = re.split(r"[,;\s]+", value.strip()) if isinstance(value, str) else value
    if isinstance(value, str) and value.strip().casefold() in _NONE:
        return []
    if value == []:
        return []
    if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
        raise WorkbenchError(f"{place}: {str(value)[:80]!r} names no tool; write a name, or none")
    return names


def _make_calls(tools: Sequence[str], line: _Line) -> list[dict[str, Any]]:
    if "expected_arguments" not in line.cells:
        return [{"tool": tool, "any_arguments": True} for tool in tools]
    given = line.cells["expected_arguments"]
    sets = given if isinstance(given, list) else [given]
    if len(sets) != len(tools) or not all(isinstance(one, dict) for one in sets):
        told = "one object" if len(tools) == 1 else f"a list of {len(tools)} objects"
        raise WorkbenchError(
            f"{line.place}: expected_arguments must be {told}, one for each expected tool; "
            "leave it out where any arguments will do"
        )
    return [
        {"tool": tool, "arguments": {name: [value] for name, value in one.items()}}
        for tool, one in zip(tools, sets, strict=True)
    ]


def _make_parts(value: Any, place: str) -> list[dict[str, Any]]:
    """Return what an answer must say: a number, a text (forms with | between), or a list, all of it."""
    parts = []
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            parts.append(one)
        elif _is_number(one):
            parts.append({"number": float(one)})
        elif isinstance(one, str) and one.strip():
            parts.append({"any": [form.strip() for form in one.split("|") if form.strip()]})
        else:
            raise WorkbenchError(f"{place}: expected_answer {one!r}: write a number or a text")
    return parts


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return bool(re.fullmatch(r"[-+]?\d{1,15}(\.\d{1,15})?", value.strip()))
    return isinstance(value, int | float) and not isinstance(value, bool)


@cache
def _schema() -> dict[str, Any]:
    """Return the schema of bundled tasks, with a category of one's own and any arguments allowed."""
    schema: dict[str, Any] = json.loads(json.dumps(task_schema()))
    schema["properties"]["category"] = {"type": "string", "pattern": "^[^\\s,]{1,40}$"}
    schema["$defs"]["call"]["properties"]["any_arguments"] = {"type": "boolean"}
    return schema


@cache
def _validator() -> Validator:
    return validator_for(_schema())
