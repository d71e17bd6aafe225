"""Find the tools that somebody names: a file, a Python function or module, or a bundled toolset.

Importing a module runs it: that is what its owner asks for. Nothing else is run.
"""

import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.lint.finding import Subject
from bench.tools import list_toolsets, load_tools, tool_from_function
from bench.types import Lang, WorkbenchError
from parsers import Tool

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?::[A-Za-z_]\w*)?")
_SHAPE = 'a list of OpenAI tools, or an object with "tools"'
_LANGS: tuple[Lang, ...] = ("en", "zh")


@dataclass(frozen=True, slots=True)
class Source:
    """Tools that are offered together, and what findings call the place they come from."""

    label: str
    subjects: tuple[Subject, ...]


def find_sources(target: str) -> tuple[Source, ...]:
    """Return the tools that a target names.

    A bundled toolset gives one source for each language. Raises WorkbenchError where the target
    cannot be read or holds no tools.
    """
    if target in list_toolsets():
        return tuple(_load_bundled(target, lang) for lang in _LANGS)
    path = Path(target)
    if path.is_file() and path.suffix != ".py":
        return (_read_file(path),)
    if _MODULE.fullmatch(target):
        return (_read_module(target),)
    raise WorkbenchError(_explain(target))


def _explain(target: str) -> str:
    shown = repr(target[:120])
    if ".py" in target:
        return f"{shown}: name a module, not its file, such as my_tools:get_weather"
    sets = ", ".join(list_toolsets())
    return f"{shown}: no such file; give {_SHAPE[2:]} as JSON, module:function, or one of {sets}"


def _load_bundled(toolset: str, lang: Lang) -> Source:
    tools = load_tools(toolset, lang).tools
    return Source(f"{toolset}/{lang}", tuple(Subject.from_tool(tool) for tool in tools))


# ---------------------------------------------------------------- files


def _read_file(path: Path) -> Source:
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as problem:
        where = f"{path}:{problem.lineno}"
        raise WorkbenchError(f"{where}: not JSON ({problem.msg}); save {_SHAPE}") from None
    except (OSError, ValueError, RecursionError) as problem:
        raise WorkbenchError(f"{path}: cannot be read: {problem}") from None
    return Source(str(path), _read_entries(value, str(path)))


def _read_entries(value: Any, where: str) -> tuple[Subject, ...]:
    entries = value.get("tools", [value]) if isinstance(value, Mapping) else value
    if not isinstance(entries, list | tuple) or not entries:
        raise WorkbenchError(f"{where}: no tools in it; give {_SHAPE}")
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, Mapping) or not (entry.get("function") or entry.get("name")):
            raise WorkbenchError(f"{where}: entry {number} is no tool; give {_SHAPE}")
    return tuple(Subject.from_tool(entry) for entry in entries)


# ---------------------------------------------------------------- Python


def _read_module(target: str) -> Source:
    module_name, _, wanted = target.partition(":")
    module = _import(module_name)
    if not wanted:
        return Source(module_name, tuple(map(_from_function, _list_functions(module))))
    if not hasattr(module, wanted):
        known = ", ".join(function.__name__ for function in _list_functions(module)) or "none"
        raise WorkbenchError(f"{module_name}: no {wanted} in it; its public functions: {known}")
    return Source(module_name, _from_attribute(getattr(module, wanted), target))


def _import(name: str) -> ModuleType:
    try:
        with _working_folder_first():
            return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name and (name == problem.name or name.startswith(f"{problem.name}.")):
            raise WorkbenchError(_explain(name)) from None
        raise WorkbenchError(f"{name}: its import fails: {problem}") from None
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a stranger's module may raise anything
        kind = type(problem).__name__
        first = (str(problem).splitlines() or [""])[0][:200]
        raise WorkbenchError(f"{name}: its import fails: {kind}: {first}") from None


@contextmanager
def _working_folder_first() -> Iterator[None]:
    """Let modules beside the user be found, as `python -m` does."""
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - a path entry is a text
    try:
        yield
    finally:
        sys.path.remove(os.getcwd())  # noqa: PTH109


def _list_functions(module: ModuleType) -> list[Callable[..., Any]]:
    """Return the public functions that a module defines itself, in its order."""
    return [
        value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def _from_attribute(value: Any, target: str) -> tuple[Subject, ...]:
    if isinstance(value, Tool):
        return (Subject.from_tool(value),)
    if isinstance(value, list | tuple) and any(callable(item) for item in value):
        return tuple(_from_function(item) for item in value if callable(item))
    if isinstance(value, Mapping | list | tuple):
        plain = [item.to_openai() if isinstance(item, Tool) else item for item in value]
        return _read_entries(value if isinstance(value, Mapping) else plain, target)
    if callable(value):
        return (_from_function(value),)
    raise WorkbenchError(
        f"{target}: it is a {type(value).__name__}, not a function or a list of tools"
    )


def _from_function(function: Callable[..., Any]) -> Subject:
    return Subject.from_tool(tool_from_function(function))
