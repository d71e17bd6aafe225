"""Find the tools that somebody names, and make them callable: a file of tools, or Python.

What is found is a stranger's: the linter takes it as it stands, a run only what every endpoint
takes. A fault is told with the file, the line and the fix.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema_rs

from bench.mcp_tools import is_mcp, open_server
from bench.own import files, python
from bench.own.calls import SECONDS, OwnCall
from bench.tools import entry_from_function
from bench.tools.data import make_error, match_names
from bench.tools.schema import Entry, Function
from bench.types import WorkbenchError
from parsers import Tool

Item = Function | Tool | Mapping[str, Any]
"""A tool as its source gives it: a function, a Tool, or an entry of a file, unchecked."""

CHANGES = "CHANGES"
"""The list in a user's module that names the functions which change something."""

_SHAPE = 'a list of OpenAI tools, or an object with "tools"'
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEEPEST = 16


@dataclass(frozen=True, slots=True)
class Row:
    """A canned result: of a tool, of these arguments or of any, and where it stands."""

    tool: str
    arguments: Mapping[str, Any] | None
    result: Any
    place: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a target holds: tools in their order, and all that says how to call them."""

    label: str
    """What findings call the place."""
    items: tuple[Item, ...]
    places: tuple[str, ...]
    """For each item what a complaint begins with: FILE:LINE, or the target."""
    paths: tuple[Path, ...] = ()
    """Every file that this rests on."""
    changes: frozenset[str] = frozenset()
    results: tuple[Row, ...] = ()


def find_tools(target: str, hint: str = "") -> Found:
    """Return what a target names: a file of tools, a Python file or module, or one name in it.

    `hint` is what else could have been named. Raises WorkbenchError where the target cannot be
    read or holds no tools.
    """
    if is_mcp(target):
        entries = open_server(target).entries
        return Found(target, entries, (target,) * len(entries))
    path = Path(target)
    if path.is_file() and path.suffix != ".py":
        return _from_file(path)
    python_target = python.split_target(target)
    if python_target is None or path.suffix.lower() in (".json", *files.YAML):
        raise WorkbenchError(_explain(target, hint))
    return _from_python(target, *python_target, missing=_explain(target, hint))


def _explain(target: str, hint: str) -> str:
    forms = f"{_SHAPE[2:]} as JSON or YAML, a Python file or module, module:function"
    return f"{target[:120]!r}: no such file; give {forms}{hint}"


# ---------------------------------------------------------------- Python


def _from_python(target: str, place: str, name: str, missing: str) -> Found:
    module = python.load_module(place, missing)
    if name and not hasattr(module, name):
        known = ", ".join(f.__name__ for f in python.list_functions(module)) or "none"
        raise WorkbenchError(f"{place}: no {name} in it; its public functions: {known}")
    items: Sequence[Item] = (
        _from_attribute(getattr(module, name), target) if name else python.list_functions(module)
    )
    return Found(
        label=place,
        items=tuple(items),
        places=(target,) * len(items),
        paths=python.files_of(module),
        changes=_read_changes(module, place),
    )


def _read_changes(module: ModuleType, place: str) -> frozenset[str]:
    names = getattr(module, CHANGES, ())
    if not isinstance(names, list | tuple | set | frozenset):
        where = python.place_of(module, CHANGES, place)
        raise WorkbenchError(f'{where}: {CHANGES} is no list; write {CHANGES} = ["name", …]')
    for name in names:
        if not isinstance(name, str) or not callable(getattr(module, name, None)):
            known = ", ".join(f.__name__ for f in python.list_functions(module))
            where = python.place_of(module, CHANGES, place)
            raise WorkbenchError(f"{where}: {CHANGES} names {name!r}; its functions: {known}")
    return frozenset(names)


def _from_attribute(value: Any, target: str) -> Sequence[Item]:
    if isinstance(value, Tool):
        return (value,)
    if isinstance(value, list | tuple) and any(callable(item) for item in value):
        return tuple(_function(item, target) for item in value if callable(item))
    if isinstance(value, Mapping | list | tuple):
        plain = [item.to_openai() if isinstance(item, Tool) else item for item in value]
        return _list_entries(value if isinstance(value, Mapping) else plain, lambda _: target)
    if callable(value):
        return (_function(value, target),)
    raise WorkbenchError(
        f"{target}: it is a {type(value).__name__}, not a function or a list of tools"
    )


def _function(value: Any, target: str) -> Function:
    if isinstance(value, type) or not hasattr(value, "__name__"):
        kind = "class" if isinstance(value, type) else type(value).__name__
        raise WorkbenchError(f"{target}: it is a {kind}; wrap it in a function with types")
    function: Function = value
    return function


# ---------------------------------------------------------------- files


def _from_file(path: Path) -> Found:
    text = files.read_text(path, "--tools")
    value = files.parse(text, path, _SHAPE)
    entries = _list_entries(value, lambda keys: f"{path}:{files.line_of(text, *keys)}")
    keys = _keys_of(value)
    places = tuple(f"{path}:{files.line_of(text, *key)}" for key in keys)
    beside = _results_beside(path)
    results = _read_results(value, text, path) + _read_beside(beside)
    return Found(str(path), entries, places, (path, *beside), results=results)


def _keys_of(value: Any) -> list[tuple[str | int, ...]]:
    if isinstance(value, Mapping) and "tools" in value:
        return [("tools", at) for at in range(len(value["tools"]))]
    return [(at,) for at in range(len(value))] if isinstance(value, list) else [()]


def _list_entries(
    value: Any, place: Callable[[tuple[str | int, ...]], str]
) -> tuple[Mapping[str, Any], ...]:
    """Return the entries of a list of tools, in whichever of the usual wrappings."""
    entries = value.get("tools", [value]) if isinstance(value, Mapping) else value
    if not isinstance(entries, list | tuple) or not entries:
        raise WorkbenchError(f"{place(())}: no tools in it; give {_SHAPE}")
    keys = _keys_of(value)
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, Mapping) or not (entry.get("function") or entry.get("name")):
            where = place(keys[number - 1] if len(keys) == len(entries) else ())
            raise WorkbenchError(f"{where}: entry {number} is no tool; give {_SHAPE}")
    return tuple(entries)


def _results_beside(path: Path) -> tuple[Path, ...]:
    names = (path.with_name(f"{path.stem}.results{end}") for end in (".json", *files.YAML))
    return tuple(name for name in names if name.is_file())[:1]


def _read_beside(paths: Iterable[Path]) -> tuple[Row, ...]:
    rows: tuple[Row, ...] = ()
    for path in paths:
        text = files.read_text(path)
        value = files.parse(text, path, "a list of {tool, arguments, result}")
        rows += _read_results(value if isinstance(value, Mapping) else {"": value}, text, path)
    return rows


def _read_results(value: Any, text: str, path: Path) -> tuple[Row, ...]:
    """Return the canned results under `results`, or those of a file that holds nothing else."""
    key = next(
        (name for name in ("results", "") if isinstance(value, Mapping) and name in value), None
    )
    if key is None:
        return ()
    listed, lead = value[key], (key,) if key else ()
    form = '{"tool": NAME, "arguments": {…}, "result": …}'
    if not isinstance(listed, list):
        where = f"{path}:{files.line_of(text, *lead)}"
        raise WorkbenchError(f"{where}: results is no list; write entries as {form}")
    for at, row in enumerate(listed):
        if not _is_result(row):
            where = f"{path}:{files.line_of(text, *lead, at)}"
            raise WorkbenchError(f"{where}: result {at + 1} can't be used; write it as {form}")
    return tuple(
        Row(r["tool"], r.get("arguments"), r["result"], f"{path}:{files.line_of(text, *lead, at)}")
        for at, r in enumerate(listed)
    )


def _is_result(row: Any) -> bool:
    known = isinstance(row, Mapping) and set(row) <= {"tool", "arguments", "result"}
    return (
        known
        and isinstance(row.get("tool"), str)
        and isinstance(row.get("arguments", {}), Mapping)
        and "result" in row
    )


# ---------------------------------------------------------------- entries


def load_entries(
    targets: Iterable[str], seconds: float = SECONDS, hint: str = ""
) -> tuple[tuple[Entry, ...], tuple[Path, ...]]:
    """Return the tools of all targets, ready to be called, and the files that they rest on.

    `seconds` is a call's time limit. Raises WorkbenchError for what no endpoint takes.
    """
    entries: dict[str, Entry] = {}
    paths: list[Path] = []
    for target in targets:
        found = find_tools(target, hint)
        if not found.items:
            raise WorkbenchError(f"{target}: no tools in it; write public functions with types")
        for made, place in _entries_of(found, seconds):
            entry = _over_mcp(made, target, seconds) if is_mcp(target) else made
            if entry.tool.name in entries:
                raise WorkbenchError(f"{place}: two tools are named {entry.tool.name}; rename one")
            entries[entry.tool.name] = entry
        paths += found.paths
    return tuple(entries.values()), tuple(dict.fromkeys(paths))


def _over_mcp(entry: Entry, target: str, seconds: float) -> Entry:
    """Return a tool that its server runs, with leave: whatever a server says of it is no proof."""
    function = open_server(target).caller(entry.tool.name, seconds)
    return replace(entry, function=OwnCall(function, seconds), changes=True)


def _entries_of(found: Found, seconds: float) -> list[tuple[Entry, str]]:
    made = []
    for item, place in zip(found.items, found.places, strict=True):
        entry = _make_entry(item, place, found, seconds)
        if not _NAME.fullmatch(entry.tool.name):
            told = "1 to 64 of A-Z, a-z, 0-9, _ and -"
            raise WorkbenchError(f"{place}: tool name {entry.tool.name[:80]!r}: use {told}")
        made.append((entry, place))
    _check_results(found.results, [entry.tool.name for entry, _ in made])
    return made


def _make_entry(item: Item, place: str, found: Found, seconds: float) -> Entry:
    if not isinstance(item, Tool | Mapping):
        changes = True if item.__name__ in found.changes else None
        entry = entry_from_function(item, changes=changes)
        return replace(entry, function=OwnCall(item, seconds))
    tool = item if isinstance(item, Tool) else _tool_from(item, place)
    changes = isinstance(item, Mapping) and _says_changes(item)
    rows = [row for row in found.results if row.tool == tool.name]
    return Entry(tool, _canned(rows), changes=changes)


def _says_changes(entry: Mapping[str, Any]) -> bool:
    """Say whether an entry is marked as changing something: `changes`, or MCP's hint."""
    inner, hints = entry.get("function"), entry.get("annotations")
    marks = [e.get("changes") for e in (entry, inner) if isinstance(e, Mapping)]
    writes = isinstance(hints, Mapping) and hints.get("readOnlyHint") is False
    return True in marks or writes


def _tool_from(entry: Mapping[str, Any], place: str) -> Tool:
    """Return the tool of an entry in OpenAI's, Anthropic's or MCP's form."""
    inner = entry.get("function")
    told: Mapping[str, Any] = inner if isinstance(inner, Mapping) else entry
    name, about = told.get("name"), told.get("description") or ""
    if not isinstance(name, str) or not isinstance(about, str):
        raise WorkbenchError(f"{place}: name and description of a tool must be texts")
    keys = ("parameters", "inputSchema", "input_schema")
    schema = next((told[key] for key in keys if told.get(key) is not None), None)
    schema = {"type": "object", "properties": {}} if schema is None else schema
    if fault := _find_fault(schema):
        raise WorkbenchError(f"{place}: tool {name[:80]}: {fault}")
    return Tool(name, about, {"properties": {}, **schema})


def _find_fault(schema: Any) -> str | None:
    """Return why a schema cannot be sent or checked, with the fix."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return 'its parameters are no JSON Schema of an object; write {"type": "object", "properties": {…}}'
    if fault := _find_odd(schema, "parameters", 0):
        return fault
    try:
        jsonschema_rs.validator_for(dict(schema))
    except (ValueError, TypeError, jsonschema_rs.ValidationError) as problem:
        first = str(getattr(problem, "message", problem)).splitlines()[0][:200]
        return f"its parameters are no JSON Schema: {first}"
    return None


def _find_odd(schema: Any, where: str, depth: int) -> str | None:
    """Return what a validator would take, but a prompt cannot tell or a file may not ask for."""
    if not isinstance(schema, Mapping):
        return f"{where} is no schema; write an object"
    if depth > _DEEPEST:
        return f"{where} is nested too deeply; at most {_DEEPEST} levels"
    pointer = schema.get("$ref")
    if isinstance(pointer, str) and not pointer.startswith("#"):
        return f"{where}: $ref {pointer[:80]} points outside; write the schema out"
    parts = (_find_odd(part, f"{where}.{name}", depth + 1) for name, part in _parts(schema))
    return next(filter(None, parts), None)


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas inside a schema, by a name."""
    for key in ("properties", "$defs", "definitions"):
        inner = schema.get(key, {})
        yield from inner.items() if isinstance(inner, Mapping) else [(key, inner)]
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        inner = schema.get(key, [])
        yield from ((key, part) for part in (inner if isinstance(inner, list) else [inner]))
    if "items" in schema:
        yield "items", schema["items"]
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield "additionalProperties", schema["additionalProperties"]


# ---------------------------------------------------------------- canned results


def _check_results(rows: Iterable[Row], names: Sequence[str]) -> None:
    for row in rows:
        if row.tool not in names:
            near = ", ".join(match_names(row.tool[:80], names) or names)
            raise WorkbenchError(f"{row.place}: no tool {row.tool[:80]!r}; use one of {near}")


def _canned(rows: Sequence[Row]) -> Function:
    """Return a function that answers from a table, or "ok" where the table has no such tool.

    The first row with these arguments counts, then the first without arguments.
    """

    def answer(**values: Any) -> Any:
        from bench.scoring import same  # noqa: PLC0415 (only runs need it)

        exact = (r for r in rows if r.arguments is not None and same(values, r.arguments))
        plain = (r for r in rows if r.arguments is None)
        row = next(exact, None) or next(plain, None)
        if row is not None:
            return row.result
        return make_error("there is no result for these arguments") if rows else "ok"

    return answer
