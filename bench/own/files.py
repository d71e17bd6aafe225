"""Read the JSON and YAML files that a user hands over: bounded, plain values, faults with their line.

Knows nothing of what a file is for.
"""

import json
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from bench.types import WorkbenchError

YAML = (".yaml", ".yml")
_LARGEST = 10_000_000
_LONGEST_PLACED = 1_000_000
"""Characters of a text whose lines are found: to read the whole text for it takes long."""


def read_text(path: Path, flag: str = "") -> str:
    """Return a file's text, UTF-8 with or without a mark, at most 10 MB."""
    try:
        if path.stat().st_size > _LARGEST:
            raise WorkbenchError(f"{path}:1: is larger than {_LARGEST // 10**6} MB; split it")
        return path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        hint = f"; check {flag}" if flag else ""
        raise WorkbenchError(f"{path}: cannot be read: {problem.strerror}{hint}") from None
    except UnicodeDecodeError:
        raise WorkbenchError(f"{path}:1: cannot be read: it is not UTF-8; save it so") from None


def parse(text: str, path: Path, wanted: str) -> Any:
    """Return the value of a JSON text, or of a YAML text where the file's name says so.

    `wanted` says what to save instead where it is neither.
    """
    if path.suffix.lower() in YAML:
        return _parse_yaml(text, path, wanted)
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        where = f"{path}:{problem.lineno}"
        raise WorkbenchError(f"{where}: not JSON ({problem.msg}); save {wanted}") from None
    except (ValueError, RecursionError) as problem:
        raise WorkbenchError(f"{path}:1: cannot be read: {problem}; save {wanted}") from None


def _parse_yaml(text: str, path: Path, wanted: str) -> Any:
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 (only YAML files need it)

    try:
        return yaml.load(text, _loader())  # noqa: S506 (a safe loader, made stricter)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        said = getattr(problem, "problem", None) or str(problem).splitlines()[0]
        raise WorkbenchError(f"{path}:{line}: not YAML ({said}); save {wanted}") from None
    except (ValueError, RecursionError) as problem:
        first = str(problem).splitlines()[0]
        raise WorkbenchError(f"{path}:1: cannot be read: {first}; save {wanted}") from None


@cache
def _loader() -> Any:
    """Return a safe loader that gives what JSON has: dates stay texts, nothing is expanded."""
    import yaml  # noqa: PLC0415 (only YAML files need it)

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                mark = self.peek_event().start_mark
                told = "an alias such as *name is not taken; write the value out"
                raise yaml.composer.ComposerError(None, None, told, mark)
            return super().compose_node(parent, index)

    kept = {
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.yaml_implicit_resolvers = kept
    return Loader


def line_of(text: str, *keys: str | int) -> int:
    """Return the line, from 1, on which a part of a JSON or YAML text begins; 1 if it is not found."""
    node = _compose(text) if len(text) <= _LONGEST_PLACED else None
    for key in keys:
        found = next((inner for name, inner in _children(node) if name == key), None)
        if found is None:
            break
        node = found
    return 1 if node is None else int(node.start_mark.line) + 1


@lru_cache(maxsize=2)
def _compose(text: str) -> Any:
    import yaml  # noqa: PLC0415 (only where something is wrong)

    try:
        # JSON's white space may be a tab, YAML's not; inside a text JSON has none
        return yaml.compose(text.replace("\t", " "), yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _children(node: Any) -> Iterator[tuple[str | int, Any]]:
    match getattr(node, "id", None):
        case "sequence":
            yield from enumerate(node.value)
        case "mapping":
            yield from ((name.value, inner) for name, inner in node.value)
