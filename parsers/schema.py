"""What a tool's JSON Schema says about its arguments; nothing here reads a model's text.

It may not fetch anything (a remote `$ref` is refused) and may not raise for a user's schema: one
that no validator takes is held to its `required` and `additionalProperties` only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jsonschema_rs

from parsers.types import Failure, Tool

MAX_CACHED = 512
"""Schemas kept compiled at once; the oldest goes first."""

_MAX_REFS = 32
_SHOWN = 60
_DETAILS: Mapping[str, str] = {
    "required": "missing",
    "dependentRequired": "missing",
    "additionalProperties": "extra",
    "unevaluatedProperties": "extra",
    "falseSchema": "extra",
    "type": "type",
    "enum": "enum",
    "const": "enum",
}
_ORDER = ("missing", "extra", "type", "enum", "other")


class _Validator(Protocol):
    def is_valid(self, instance: Any) -> bool: ...

    def iter_errors(self, instance: Any) -> Iterator[Any]: ...


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A schema with what is asked of it often; `source` keeps its identity from being reused."""

    source: Mapping[str, Any]
    validator: _Validator | None
    required: tuple[str, ...]
    properties: tuple[str, ...]
    single_text: str | None


_cache: dict[int, _Compiled] = {}


def check(tool: Tool, arguments: dict[str, Any]) -> Failure | None:
    """Give None if the tool's schema takes the arguments, else the `schema_violation`.

    `detail` is missing, extra, type, enum or other. A schema must not change after its first use.
    """
    compiled = _compiled(tool)
    if compiled.validator is None:
        return _check_loosely(tool, compiled, arguments)
    try:
        if compiled.validator.is_valid(arguments):
            return None
        faults = [_fault(error) for error in compiled.validator.iter_errors(arguments)]
    except (ValueError, RecursionError, OverflowError):
        faults = [("other", "they cannot be checked")]
    detail, words = min(faults, key=lambda fault: _ORDER.index(fault[0]))
    return _violation(tool, detail, words)


def required(tool: Tool) -> tuple[str, ...]:
    """Give the names of the parameters that must be there, in the schema's order."""
    return _compiled(tool).required


def properties(tool: Tool) -> tuple[str, ...]:
    """Give the names of the parameters in order: what positional arguments are matched with."""
    return _compiled(tool).properties


def single_text_parameter(tool: Tool) -> str | None:
    """Give the one required parameter if there is exactly one and it takes a string."""
    return _compiled(tool).single_text


def property_names(root: Mapping[str, Any], schema: Any) -> tuple[str, ...]:
    """Give the keys that an object under `schema` (a part of `root`) may have by name."""
    names: dict[str, None] = {}
    for part in _parts(root, schema):
        names.update(dict.fromkeys(str(key) for key in _mapping(part.get("properties"))))
    return tuple(names)


def property_schema(root: Mapping[str, Any], schema: Any, name: str) -> Any:
    """Give the schema of one property of an object under `schema`, or None."""
    for part in _parts(root, schema):
        known = _mapping(part.get("properties"))
        if name in known:
            return known[name]
    return None


def item_schema(root: Mapping[str, Any], schema: Any) -> Any:
    """Give the schema of the elements of a list under `schema`, or None."""
    for part in _parts(root, schema):
        if "items" in part:
            return part["items"]
    return None


def takes(tool: Tool, name: str, type_name: str) -> bool:
    """Tell whether a parameter may have a JSON type; one without a type takes any."""
    root = tool.parameters
    return type_name in _types(root, property_schema(root, root, name))


def _types(root: Mapping[str, Any], schema: Any) -> frozenset[str]:
    every = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
    parts = list(_parts(root, schema))
    found: set[str] = set()
    for part in parts:
        found.update(_own_types(part))
    return frozenset(found) if found else every


def _own_types(part: Mapping[str, Any]) -> set[str]:
    kinds = part.get("type")
    if isinstance(kinds, str):
        return {kinds}
    if isinstance(kinds, list):
        return {kind for kind in kinds if isinstance(kind, str)}
    values = part.get("enum", [part["const"]] if "const" in part else [])
    return {_type_of(value) for value in values} if isinstance(values, list) else set()


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _parts(root: Mapping[str, Any], schema: Any) -> Iterator[Mapping[str, Any]]:
    """Walk a schema and what it is made of by reference or combination, each once."""
    waiting, seen = [schema], 0
    while waiting and seen < _MAX_REFS:
        part = waiting.pop(0)
        seen += 1
        if not isinstance(part, Mapping):
            continue
        yield part
        if isinstance(part.get("$ref"), str):
            waiting.append(_resolve(root, part["$ref"]))
        for word in ("allOf", "anyOf", "oneOf"):
            branches = part.get(word)
            waiting.extend(branches if isinstance(branches, list) else ())


def _resolve(root: Mapping[str, Any], reference: str) -> Any:
    if not reference.startswith("#"):
        return None
    node: Any = root
    for piece in reference[1:].strip("/").split("/"):
        key = piece.replace("~1", "/").replace("~0", "~")
        if key:
            node = node.get(key) if isinstance(node, Mapping) else None
    return node


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _compiled(tool: Tool) -> _Compiled:
    source = tool.parameters
    found = _cache.get(id(source))
    if found is not None and found.source is source:
        return found
    made = _compile(source)
    while len(_cache) >= MAX_CACHED:
        _cache.pop(next(iter(_cache)), None)
    _cache[id(source)] = made
    return made


def _compile(source: Any) -> _Compiled:
    schema = _mapping(source)
    names = property_names(schema, schema)
    listed = dict.fromkeys(
        name for part in _certain_parts(schema) for name in _texts(part.get("required"))
    )
    needed = tuple(listed)
    single = None
    if len(needed) == 1 and "string" in _types(schema, property_schema(schema, schema, needed[0])):
        single = needed[0]
    return _Compiled(source, _validator(schema), needed, names, single)


def _certain_parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Leave the branches of anyOf and oneOf out: what one of them requires is not required."""
    without = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
    for part in _parts(schema, without):
        if part is without or not ({"anyOf", "oneOf"} & part.keys()):
            yield part


def _validator(schema: Mapping[str, Any]) -> _Validator | None:
    try:
        made: _Validator = jsonschema_rs.validator_for(_plain(schema), retriever=_refuse)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return None
    return made


def _plain(value: Any, depth: int = 0) -> Any:
    """Copy mappings and sequences to the dict and list that the validator takes."""
    if depth > _MAX_REFS * 4:
        raise ValueError("a schema nested too deep")
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    return value


def _refuse(uri: str) -> Any:
    raise ValueError(f"a schema is not fetched: {uri[:_SHOWN]}")


def _fault(error: Any) -> tuple[str, str]:
    """Name one fault in a word of the contract and a few words for people."""
    kind = error.kind
    where = ".".join(str(step) for step in error.instance_path)[:_SHOWN]
    at = f' in "{where}"' if where else ""
    match _DETAILS.get(kind.name, "other"):
        case "missing":
            return "missing", f"{_quoted(getattr(kind, 'property', ''))} is missing{at}"
        case "extra":
            names = getattr(kind, "unexpected", None) or [where]
            return "extra", f"{_quoted(names[0])} is not a parameter{at}"
        case "type":
            return "type", f'"{where}" has the wrong type: {_shortened(error.message)}'
        case "enum":
            return "enum", f'"{where}" is not one of the values allowed'
        case _:
            return _combined(kind), f"{_shortened(error.message)}{at}"


def _combined(kind: Any) -> str:
    """Call a union `type` where every branch of it refuses the type alone (a nullable value)."""
    branches = getattr(kind, "context", None)
    if not branches:
        return "other"
    names = {error.kind.name for branch in branches for error in branch}
    return "type" if names == {"type"} else "other"


def _check_loosely(tool: Tool, compiled: _Compiled, arguments: dict[str, Any]) -> Failure | None:
    for name in compiled.required:
        if name not in arguments:
            return _violation(tool, "missing", f"{_quoted(name)} is missing")
    if tool.parameters.get("additionalProperties") is False:
        for name in arguments:
            if name not in compiled.properties:
                return _violation(tool, "extra", f"{_quoted(name)} is not a parameter")
    return None


def _violation(tool: Tool, detail: str, words: str) -> Failure:
    message = f"The arguments do not fit the schema of {tool.name[:_SHOWN]}: {words}."
    return Failure("schema_violation", detail, message)


def _quoted(name: Any) -> str:
    return f'"{_shortened(str(name))}"'


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
