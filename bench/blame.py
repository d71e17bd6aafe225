"""Say whose fault it is where a run folder can't be worked with: ours, or a file's that is no run's.

A run may come from anybody. To check every line against its schema takes longer than to read it, so
that is done only after something went wrong.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.paths import find_datasets
from bench.records import RunFolder, json_lines
from bench.types import WorkbenchError

_KINDS: Mapping[str, tuple[str, ...]] = {
    "string": ("experiment", "mode", "started", "machine", "command"),
    "object": ("settings", "choice", "datasets", "own", "stop"),
    "integer": ("trials", "count", "concurrency"),
    "array": ("tasks", "drivers", "variants", "golds", "notes"),
}
_NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_MANIFEST: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        **{name: {"type": kind} for kind, names in _KINDS.items() for name in names},
        "endpoints": {"type": "array", "items": _NAMED},
        "finished": {"type": ["string", "null"]},
    },
}


_SCORE: Mapping[str, Any] = {
    "type": ["object", "null"],
    "properties": {
        "levels": {"type": "object", "additionalProperties": {"type": "object"}},
        "pairs": {"type": "array", "items": {"type": "array"}},
    },
    "additionalProperties": {"type": ["number", "null", "object"]},
}


@contextmanager
def blaming(*folders: RunFolder) -> Iterator[None]:
    """Turn a fault into a WorkbenchError where a file of these runs is not what a run writes."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        for folder in folders:
            refuse_odd(folder)
        raise


def refuse_odd(folder: RunFolder) -> None:
    """Raise a WorkbenchError for the first part of a run that does not hold to its schema."""
    _refuse(folder.manifest, _MANIFEST, f"{folder.path / 'manifest.json'}")
    schema = _episode_schema()
    path = folder.path / "episodes.jsonl"
    for number, line in enumerate(json_lines(path), 1):
        _refuse(line, schema, f"{path}: episode {number}")


def _episode_schema() -> dict[str, Any]:
    """Return the schema of an episode, with what is inside its counts and lists."""
    file = find_datasets() / "schema" / "episode.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    schema["properties"]["score"] = _SCORE
    reading = schema["$defs"]["turn"]["properties"]["reading"]["properties"]
    for name in ("repairs", "dropped"):
        reading[name]["items"] = {"type": "object"}
    return schema


def _refuse(value: Any, schema: Mapping[str, Any], place: str) -> None:
    from jsonschema_rs import validator_for  # noqa: PLC0415 (only where something went wrong)

    from bench.tasks import tell_fault  # noqa: PLC0415 (the same)
    from bench.tools.schema import explain  # noqa: PLC0415 (the same)

    try:
        fault = next(validator_for(dict(schema)).iter_errors(value), None)
    except ValueError as problem:
        raise WorkbenchError(f"{place}: can't be checked ({problem})") from None
    if fault is not None:
        raise WorkbenchError(f"{place}: {tell_fault(explain(fault, schema))}")
