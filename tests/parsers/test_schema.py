from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import schema
from parsers.schema import (
    MAX_CACHED,
    check,
    item_schema,
    properties,
    property_names,
    property_schema,
    required,
    single_text_parameter,
    takes,
)
from parsers.types import Tool


def tool(parameters: Any) -> Tool:
    return Tool("f", "", parameters)


FULL = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "unit": {"enum": ["m", "km"]},
        "fixed": {"const": 1},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "size": {"type": "number", "minimum": 1},
    },
    "required": ["count"],
    "additionalProperties": False,
}

# arguments, detail, a word of the message
VIOLATIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "a parameter is missing": ({}, "missing", "count"),
    "a nested parameter is missing": ({"count": 1, "place": {}}, "missing", "city"),
    "a parameter is not known": ({"count": 1, "days": 2}, "extra", "days"),
    "a nested parameter is not known": (
        {"count": 1, "place": {"city": "x", "zip": 1}},
        "extra",
        "zip",
    ),
    "a text stands for an integer": ({"count": "5"}, "type", "count"),
    "true stands for an integer": ({"count": True}, "type", "count"),
    "a fraction stands for an integer": ({"count": 1.5}, "type", "count"),
    "no branch of a union has the type": ({"count": 1, "note": 3}, "type", "note"),
    "a value is not in the list": ({"count": 1, "unit": "mile"}, "enum", "unit"),
    "a value is not the constant": ({"count": 1, "fixed": 2}, "enum", "fixed"),
    "a pattern does not match": ({"count": 1, "code": "eur"}, "other", "code"),
    "a number is too small": ({"count": 1, "size": 0}, "other", "size"),
    "missing comes before extra": ({"days": 2}, "missing", "count"),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_violations_have_a_detail_and_say_where(name: str) -> None:
    arguments, detail, word = VIOLATIONS[name]
    failure = check(tool(FULL), arguments)
    assert failure is not None
    assert (failure.kind, failure.detail) == ("schema_violation", detail)
    assert word in failure.message
    assert failure.message.endswith(".")
    assert len(failure.message) < 300


@pytest.mark.parametrize(
    "arguments",
    [{"count": 1}, {"count": 1.0}, {"count": 10**30, "note": None}, {"count": 1, "unit": "km"}],
)
def test_what_fits_is_taken(arguments: dict[str, Any]) -> None:
    assert check(tool(FULL), arguments) is None


BROKEN: dict[str, Any] = {
    "an unknown type": {"type": "strin", "required": ["q"], "additionalProperties": False},
    "a pattern that is none": {
        "properties": {"q": {"pattern": "("}},
        "required": ["q"],
        "additionalProperties": False,
    },
    "a reference that leads nowhere": {"$ref": "#/$defs/none", "required": ["q"]},
    "a reference into the network": {"$ref": "http://127.0.0.1:9/x.json", "required": ["q"]},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_schema_that_is_invalid_still_says_what_is_required(name: str) -> None:
    broken = tool(BROKEN[name])
    failure = check(broken, {})
    assert failure is not None
    assert failure.detail == "missing"
    assert required(broken) == ("q",)


@pytest.mark.parametrize(
    "parameters", [None, [], "x", 3, {}, {"required": "x"}, {"properties": []}]
)
def test_a_schema_of_the_wrong_kind_takes_anything(parameters: Any) -> None:
    assert check(tool(parameters), {"a": 1}) is None
    assert required(tool(parameters)) == ()
    assert properties(tool(parameters)) == ()
    assert single_text_parameter(tool(parameters)) is None


SINGLE: dict[str, tuple[Any, str | None]] = {
    "one text": ({"properties": {"q": {"type": "string"}}, "required": ["q"]}, "q"),
    "one text beside optional ones": (
        {"properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]},
        "q",
    ),
    "one text or null": (
        {"properties": {"q": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["q"]},
        "q",
    ),
    "one of some texts": ({"properties": {"q": {"enum": ["a", "b"]}}, "required": ["q"]}, "q"),
    "by reference": (
        {
            "$defs": {"t": {"type": "string"}},
            "properties": {"q": {"$ref": "#/$defs/t"}},
            "required": ["q"],
        },
        "q",
    ),
    "one integer": ({"properties": {"q": {"type": "integer"}}, "required": ["q"]}, None),
    "two texts": (
        {
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "required": ["a", "b"],
        },
        None,
    ),
    "none required": ({"properties": {"q": {"type": "string"}}}, None),
}


@pytest.mark.parametrize("name", SINGLE)
def test_the_one_text_parameter(name: str) -> None:
    parameters, wanted = SINGLE[name]
    assert single_text_parameter(tool(parameters)) == wanted


def test_parameters_keep_the_order_of_the_schema() -> None:
    assert properties(tool(FULL)) == tuple(FULL["properties"])  # type: ignore[arg-type]


def test_what_one_branch_requires_is_not_required() -> None:
    parameters = {
        "properties": {"a": {}, "b": {}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        "allOf": [{"properties": {"c": {}}, "required": ["c"]}],
    }
    assert required(tool(parameters)) == ("c",)
    assert properties(tool(parameters)) == ("a", "b", "c")


def test_names_are_found_through_references_and_lists() -> None:
    root = {
        "$defs": {"node": {"properties": {"id": {}, "next": {"$ref": "#/$defs/node"}}}},
        "properties": {"nodes": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    }
    items = item_schema(root, property_schema(root, root, "nodes"))
    assert property_names(root, items) == ("id", "next")
    assert property_names(root, property_schema(root, items, "next")) == ("id", "next")
    assert property_names(root, None) == ()


def test_references_in_a_circle_end() -> None:
    circle = tool({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}})
    assert properties(circle) == ()
    check(circle, {})


def test_types_that_a_parameter_takes() -> None:
    assert takes(tool(FULL), "note", "null")
    assert takes(tool(FULL), "unit", "string")
    assert not takes(tool(FULL), "count", "string")
    assert takes(tool(FULL), "unheard_of", "string")


def test_a_mapping_that_is_no_dict_is_a_schema_too() -> None:
    frozen = MappingProxyType({"required": ("q",), "properties": MappingProxyType({"q": {}})})
    failure = check(tool(frozen), {})
    assert failure is not None
    assert failure.detail == "missing"


def test_half_a_character_in_a_key_is_no_exception() -> None:
    assert check(tool(FULL), {"count": 1, "\ud800": 1}) is not None


def test_few_schemas_are_kept() -> None:
    for number in range(MAX_CACHED + 20):
        check(tool({"required": [str(number)]}), {})
    assert len(schema._cache) <= MAX_CACHED


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=5) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "properties", "required", "$ref", "anyOf", "items", "enum"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_schema_raises(parameters: Any) -> None:
    any_tool = tool(parameters)
    check(any_tool, {"a": "b"})
    required(any_tool), properties(any_tool), single_text_parameter(any_tool)
    takes(any_tool, "a", "string") if isinstance(parameters, dict) else None
