"""Check what an endpoint may refuse: tool names and parameter schemas.

Nothing is sent and nothing is repaired. Which endpoint refuses what is told in the finding.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from bench.lint.finding import WHOLE, Finding, Subject, kind_of, properties_of, required_of

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
"""Characters: Azure refuses a longer description."""
DEEPEST = 5
MOST_PARAMETERS = 100
"""OpenAI's limits in strict mode: levels of nesting, and parameters in all."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_EMPTY_NAME = re.compile(
    r"(?:func(?:tion)?|tool|action|api|method|test|temp|tmp|my_?tool|foo|bar|fn|f)[_-]?\d*",
    re.IGNORECASE,
)
_COMBINED = ("anyOf", "oneOf", "allOf", "not", "enum", "const")
_RARE = {
    "$ref": "write the definition in its place",
    "patternProperties": "name the properties, or take a list of name and value",
    "propertyNames": "leave it out and say the form in the description",
    "if": "make two tools, or say the condition in the description",
    "dependentRequired": "say the condition in the description",
    "dependentSchemas": "say the condition in the description",
    "prefixItems": "use an object with named fields",
    "contains": "say it in the description",
    "unevaluatedProperties": "use additionalProperties: false",
    "not": "say in the description what is not allowed",
    "oneOf": "use one type, or anyOf below the top",
    "allOf": "write the parts as one schema",
}


# ---------------------------------------------------------------- names


def check_name(subject: Subject, source: str) -> Iterator[Finding]:
    """Find a name that an endpoint refuses or that says nothing."""

    def found(rule: str, says: str, write: str) -> Finding:
        return Finding(source, subject.name or "(no name)", WHOLE, rule, says, write)

    name = subject.name
    if not name:
        yield found("name", "it has no name", "give it one, such as get_weather")
    elif not _NAME.fullmatch(name[:LONGEST_NAME]):
        odd = " ".join(dict.fromkeys(re.findall(r"[^a-zA-Z0-9_-]", name)))
        yield found(
            "name",
            f"endpoints take letters, digits, _ and - in a name, not {odd}",
            f"rename it, such as {suggest_name(name)}",
        )
    elif len(name) > LONGEST_NAME:
        yield found(
            "name",
            f"the name has {len(name)} characters; endpoints take {LONGEST_NAME}",
            "shorten it to a verb and its object",
        )
    elif not re.match(r"[a-zA-Z_]", name):
        yield found(
            "name",
            "the name begins with neither a letter nor _, which Gemini refuses",
            f"rename it, such as {suggest_name(name)}",
        )
    elif _EMPTY_NAME.fullmatch(name):
        yield found(
            "name",
            "the name does not say what the tool does",
            "name it by a verb and its object, such as get_weather",
        )


def suggest_name(name: str) -> str:
    """Return the nearest name that every endpoint takes."""
    plain = re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_-")[:LONGEST_NAME]
    if not re.search(r"[a-zA-Z]", plain):
        return "get_weather"
    return plain if re.match(r"[a-zA-Z_]", plain) else f"tool_{plain}"[:LONGEST_NAME]


# ---------------------------------------------------------------- schemas


def check_schema(subject: Subject, source: str) -> Iterator[Finding]:
    """Find what an endpoint may refuse in a tool's parameter schema."""
    schema = subject.parameters

    def found(rule: str, says: str, write: str, at: str = "") -> Finding:
        return Finding(source, subject.name, at or WHOLE, rule, says, write)

    if not isinstance(schema, Mapping):
        says = "it has no parameter schema" if schema is None else "its schema is not an object"
        yield found("schema", says, 'write {"type": "object", "properties": {}} at least')
        return
    if schema.get("type") != "object":
        yield found(
            "schema",
            f"the schema's type is {schema.get('type')!r:.40}; endpoints take object only",
            'write "type": "object"',
        )
    if not isinstance(schema.get("properties"), Mapping):
        yield found(
            "schema",
            "properties is missing, which LM Studio and OpenAI refuse",
            'write "properties": {} for a tool without parameters',
        )
    for key in _COMBINED:
        if key in schema:
            yield found(
                "schema",
                f"{key} at the top, which OpenAI refuses",
                "put the choice into a parameter, or make a tool of each case",
            )
    yield from _check_validity(subject, source)
    for at, part in walk_schema(schema):
        yield from (found("schema", says, write, at) for says, write in _check_part(part, at))
    if subject.strict:
        yield from _check_strict(subject, source)
    elif schema.get("properties") and "additionalProperties" not in schema:
        yield found(
            "schema",
            "additionalProperties is not set: invented fields pass, and strict mode refuses it",
            'write "additionalProperties": false',
        )


def _check_validity(subject: Subject, source: str) -> Iterator[Finding]:
    try:
        jsonschema_rs.meta.validate(dict(subject.parameters))
    except (ValueError, RecursionError, TypeError) as problem:
        first = str(problem).split("\n", 1)[0]
        yield Finding(
            source, subject.name, WHOLE, "schema", f"no valid JSON Schema: {first}", "mend it there"
        )


def walk_schema(
    schema: Any, path: str = "", depth: int = 0
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every parameter's schema with its path, such as `parcel.size_cm`; lists are passed through."""
    if depth > 16:
        return
    for name, inner in properties_of(schema).items():
        here = f"{path}{name}"
        yield here, dict(inner) if isinstance(inner, Mapping) else {}
        for part in _inner_parts(inner):
            yield from walk_schema(part, f"{here}.", depth + 1)


def _inner_parts(schema: Any) -> Iterator[Any]:
    yield schema
    if isinstance(schema, Mapping):
        yield schema.get("items")
        for key in ("anyOf", "oneOf", "allOf"):
            parts = schema.get(key)
            yield from parts if isinstance(parts, list) else ()


def _check_part(part: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield for one parameter what is wrong with its schema, and what to write."""
    kinds = part.get("type")
    if not part or (
        kinds is None and not {"anyOf", "oneOf", "allOf", "$ref", "enum"} & part.keys()
    ):
        yield "it has no type", 'write a type, such as "type": "string"'
    if kinds == "array" and not isinstance(part.get("items"), Mapping):
        yield (
            "the list has no items, which OpenAI and Gemini refuse",
            'write "items": {"type": "string"} or what it holds',
        )
    if isinstance(kinds, list):
        yield (
            "it has several types, which Gemini and some templates refuse",
            "write one type; leave an optional one out of required instead of null",
        )
    yield from _check_values(part)
    for key, write in _RARE.items():
        if key in part:
            yield f"{key}, which some endpoints refuse or drop", write
    if path.count(".") >= DEEPEST:
        yield f"it is nested {path.count('.') + 1} deep; strict mode takes {DEEPEST}", "flatten it"


def _check_values(part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "enum" in part:
        values = part["enum"]
        if not isinstance(values, list) or not values:
            yield "the enum is empty, which endpoints refuse", "list the values, or leave enum out"
            return
        if kind_of(part) in {"integer", "number"} and any(isinstance(v, str) for v in values):
            yield "the enum holds texts, the type is a number", "make the type and the values agree"
    if part.get("default") is not None and not _accepts(part, part["default"]):
        yield (
            f"the default {part['default']!r:.40} is not a value that the schema takes",
            "give a default of the type and the enum, or none",
        )


def _accepts(schema: Mapping[str, Any], value: Any) -> bool:
    plain = {
        key: rule for key, rule in schema.items() if key in {"type", "enum", "minimum", "maximum"}
    }
    try:
        return bool(jsonschema_rs.is_valid(plain, value))
    except (ValueError, TypeError):
        return True


def _check_strict(subject: Subject, source: str) -> Iterator[Finding]:
    objects = [("", subject.parameters), *walk_schema(subject.parameters)]
    for path, part in objects:
        names = set(properties_of(part))
        if not names:
            continue
        missing = sorted(names - set(required_of(part)))
        if part.get("additionalProperties") is not False:
            yield Finding(
                source,
                subject.name,
                path or WHOLE,
                "schema",
                "strict needs additionalProperties false on every object",
                'write "additionalProperties": false',
            )
        if missing:
            yield Finding(
                source,
                subject.name,
                path or WHOLE,
                "schema",
                f"strict needs every property in required; missing: {', '.join(missing)[:120]}",
                'list them, and let an optional one be ["string", "null"]',
            )
    if sum(1 for _ in walk_schema(subject.parameters)) > MOST_PARAMETERS:
        yield Finding(
            source,
            subject.name,
            WHOLE,
            "schema",
            f"strict takes {MOST_PARAMETERS} parameters in all",
            "split the tool",
        )


def check_required(subject: Subject, source: str) -> Iterator[Finding]:
    """Find names in `required` that are no properties, at every level."""
    for path, part in [("", subject.parameters), *walk_schema(subject.parameters)]:
        for name in required_of(part):
            if name not in properties_of(part):
                at = f"{path}.{name}" if path else name
                yield Finding(
                    source,
                    subject.name,
                    at,
                    "schema",
                    "it is required but not in properties, which OpenAI refuses",
                    "add it to properties, or take it out of required",
                )
