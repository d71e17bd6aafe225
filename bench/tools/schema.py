"""Make a tool from a Python function: schema from the signature, texts from the docstring.

A model sees nothing else of a tool. Runs no tool; pydantic and the docstring parser do the work,
and one pass over the schema makes it plain enough for every endpoint.
"""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar

from docstring_parser import parse as parse_docstring
from jsonschema_rs import validator_for
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

from bench.tools.data import Row, make_error, match_names
from bench.types import WorkbenchError
from parsers import Tool

Function = Callable[..., Any]
_Some = TypeVar("_Some", bound=Function)

_MARK = "needs_leave"
_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
_DEEPEST = 16


def needs_leave(function: _Some) -> _Some:
    """Mark a function as changing something: it runs only with leave."""
    setattr(function, _MARK, True)
    return function


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool and the function behind it; `tool` may carry other texts than the docstring's."""

    tool: Tool
    function: Function
    model: type[BaseModel] | None = None
    """Takes arguments to the types of the signature; None: they are passed as they are."""
    changes: bool = False
    """It changes something, so it needs leave."""
    ends: bool = False
    """It is known to end at once, as ours do: no thread of its own is needed to leave it behind."""

    def prepare(self, arguments: Mapping[str, Any]) -> tuple[Row | None, Row]:
        """Return what is wrong with the arguments (None: nothing), and what the function gets."""
        schema = self.tool.parameters
        try:
            fault = next(iter(validator_for(dict(schema)).iter_errors(dict(arguments))), None)
        except (TypeError, ValueError) as problem:  # no JSON: NaN, a lone surrogate
            return make_error(f"arguments are not JSON: {str(problem)[:200]}"), {}
        if fault is not None:
            return explain(fault, schema), {}
        return self._convert(arguments)

    def _convert(self, arguments: Mapping[str, Any]) -> tuple[Row | None, Row]:
        if self.model is None:
            return None, dict(arguments)
        try:
            model = self.model.model_validate(dict(arguments))
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            return make_error(f"bad value for {place}: {first['msg']}"), {}
        fields = type(model).model_fields
        # a default of the function's own stays with the function
        given = model.model_fields_set | {name for name in fields if fields[name].default is None}
        return None, {str(fields[name].alias): getattr(model, name) for name in given}


def explain(problem: Any, schema: Mapping[str, Any]) -> Row:
    """Return the error for the first fault that a schema finds, with what helps to mend it."""
    place = ".".join(str(part) for part in problem.instance_path)
    where = f" in {place}" if place else ""
    found = _descend(schema, problem.instance_path)
    match problem.kind.name:
        case "required":
            return make_error(
                f"missing field: {problem.kind.property}{where}", required=found.get("required")
            )
        case "additionalProperties":
            field = str(problem.kind.unexpected[0])
            return _explain_extra(field[:80], where, list(found.get("properties", {})))
        case "enum":
            return make_error(f"value not allowed{where}", allowed=found.get("enum"))
        case "type":
            return make_error(f"wrong type{where}", expected=found.get("type"))
        case kind:
            return make_error(f"{kind}: {problem.message[:200]}{where}")


def _explain_extra(field: str, where: str, known: list[str]) -> Row:
    near = match_names(field, known)
    hints = {"did_you_mean": near} if near else {}
    return make_error(f"unknown field: {field}{where}", **hints, known_fields=known)


def _descend(schema: Any, path: list[str | int]) -> Mapping[str, Any]:
    """Return the part of a schema that a place in a value has to meet, `{}` if none is known."""
    defs = schema.get("$defs", {})
    for part in path:
        down = schema.get("items") if isinstance(part, int) else None
        schema = _inline(down or schema.get("properties", {}).get(part, {}), defs)
    return typing.cast("Mapping[str, Any]", schema)


def tool_from_function(function: Function) -> Tool:
    """Return what a model is told of a function.

    Types come from the signature, the texts from the docstring: its description, and for each
    parameter the line under `Args:` (`filter.status:` for a field of a nested object or of a
    list's items). "Or None" means not required. Raises WorkbenchError for what has no schema.
    """
    return entry_from_function(function).tool


def entry_from_function(function: Function, *, changes: bool | None = None) -> Entry:
    """Return the tool with its function; `changes` overrides the mark of `needs_leave`."""
    model = _make_model(function)
    try:
        schema = model.model_json_schema(by_alias=True)
    except PydanticUserError as problem:
        raise _fault(function, f"no JSON Schema for its types: {problem}") from None
    text, parameters = _read_texts(function)
    plain = _simplify(schema, schema.get("$defs", {}), function)
    described = with_texts(Tool(function.__name__, text, plain), text, parameters)
    if changes is None:
        changes = bool(getattr(function, _MARK, False))
    return Entry(described, function, model, changes)


def _fault(function: Function, problem: str) -> WorkbenchError:
    code = getattr(inspect.unwrap(function), "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}: " if code else ""
    name = getattr(function, "__name__", repr(function))
    return WorkbenchError(f"{place}tool {name}: {problem}")


def _make_model(function: Function) -> type[BaseModel]:
    """Return a pydantic model of the parameters; its own field names clash with nothing."""
    hints = _read_hints(function)
    fields: dict[str, Any] = {}
    for at, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise _fault(function, f"a model cannot fill *{name}; name each parameter")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise _fault(function, f"parameter {name} must be allowed by name; take the / away")
        if name not in hints:
            raise _fault(function, f"parameter {name} has no type; write {name}: str or the like")
        bare = parameter.default is parameter.empty
        default = (None if _takes_none(hints[name]) else ...) if bare else parameter.default
        fields[f"p{at}"] = (hints[name], Field(default, alias=name))
    try:
        model: type[BaseModel] = create_model("Parameters", __config__=_CONFIG, **fields)
    except (PydanticUserError, TypeError) as problem:
        first = str(problem).splitlines()[0]
        raise _fault(function, f"no JSON Schema for its types: {first}") from None
    return model


def _read_hints(function: Function) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, SyntaxError) as problem:
        raise _fault(function, f"its types cannot be read: {problem}") from None


def _takes_none(hint: Any) -> bool:
    union = typing.get_origin(hint) in {typing.Union, UnionType}
    return hint is NoneType or (union and NoneType in typing.get_args(hint))


def _read_texts(function: Function) -> tuple[str, dict[str, str]]:
    """Return the docstring's description on one line, and the text of each parameter."""
    doc = parse_docstring(inspect.getdoc(function) or "")
    parts = [doc.short_description or "", doc.long_description or ""]
    texts = {p.arg_name: " ".join((p.description or "").split()) for p in doc.params}
    return " ".join(" ".join(parts).split()), {name: t for name, t in texts.items() if t}


# ---------------------------------------------------------------- the one pass


def _simplify(schema: Any, defs: Mapping[str, Any], function: Function, depth: int = 0) -> Any:
    """Return the schema without `$ref`, null, titles and classes' texts, every object closed."""
    if depth > _DEEPEST:
        raise _fault(function, "a type that holds itself has no plain JSON Schema")
    schema = _inline(_drop_null(_inline(schema, defs)), defs)
    plain = {k: v for k, v in schema.items() if k not in {"$defs", "title", "description"}}
    if plain.get("default", ...) is None:
        del plain["default"]
    for key in ("items", "additionalProperties"):
        if isinstance(plain.get(key), dict):
            plain[key] = _simplify(plain[key], defs, function, depth + 1)
    for key in ("anyOf", "oneOf", "prefixItems"):
        if key in plain:
            plain[key] = [_simplify(part, defs, function, depth + 1) for part in plain[key]]
    if plain.get("type") == "object":
        return _close(plain, defs, function, depth)
    return plain


def _inline(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with what its `$ref` points at put in; what stands beside it wins."""
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    while "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
        rest = {**{key: value for key, value in schema.items() if key != "$ref"}, **rest}
    return rest


def _drop_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of "X or None" as that of X: leaving it out says None."""
    parts = schema.get("anyOf")
    if not parts:
        return schema
    kept = [part for part in parts if part.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**kept[0], **rest} if len(kept) == 1 else {**rest, "anyOf": kept}


def _close(plain: Row, defs: Mapping[str, Any], function: Function, depth: int) -> Row:
    """Return an object's schema with its keys in the usual order, open only where it is a map."""
    fields = plain.get("properties", {})
    optional = {key for key, value in fields.items() if _is_nullable(value)}
    closed: Row = {
        "type": "object",
        "properties": {k: _simplify(v, defs, function, depth + 1) for k, v in fields.items()},
        "required": [key for key in plain.get("required", ()) if key not in optional],
        "additionalProperties": plain.get("additionalProperties", False),
    }
    return {**closed, **{key: value for key, value in plain.items() if key not in closed}}


def _is_nullable(schema: Mapping[str, Any]) -> bool:
    return any(part.get("type") == "null" for part in schema.get("anyOf", ()))


# ---------------------------------------------------------------- texts


def with_texts(tool: Tool, description: str, parameters: Mapping[str, str]) -> Tool:
    """Return the tool with other texts; parameters by path, those not named lose theirs."""
    return Tool(tool.name, description, _describe(dict(tool.parameters), "", parameters))


def _describe(schema: Any, path: str, texts: Mapping[str, str]) -> Any:
    schema = {key: value for key, value in schema.items() if key != "description"}
    if path in texts:
        schema = {**_put_type_first(schema, texts[path])}
    if "items" in schema:
        # a list's items have no text of their own: its fields go by the list's name
        schema["items"] = _describe(schema["items"], f"{path}[]", _shift(texts, path))
    if "properties" in schema:
        fields = schema["properties"].items()
        start = f"{path}." if path else ""
        schema["properties"] = {k: _describe(v, f"{start}{k}", texts) for k, v in fields}
    return schema


def _shift(texts: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the texts of a list's fields under the path that its items have."""
    start = f"{path}."
    return {f"{path}[].{k.removeprefix(start)}": v for k, v in texts.items() if k.startswith(start)}


def _put_type_first(schema: Row, text: str) -> Row:
    kind = {key: schema[key] for key in ("type",) if key in schema}
    return {**kind, "description": text, **{k: v for k, v in schema.items() if k not in kind}}


def list_paths(schema: Mapping[str, Any], path: str = "") -> tuple[str, ...]:
    """Return the paths of all parameters of a schema, nested ones as `parcel.size_cm`."""
    paths: list[str] = []
    for name, inner in schema.get("properties", {}).items():
        here = f"{path}{name}"
        deeper = inner.get("items", inner)
        paths += [here, *list_paths(deeper, f"{here}.")]
    return tuple(paths)
