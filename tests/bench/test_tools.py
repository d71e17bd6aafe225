"""The bundled tools, the schema made from a function, and the toolbox that runs anything."""

import asyncio
import dataclasses
import json
import threading
import time
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from jsonschema_rs import validator_for
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from bench.tools import (
    FUNCTIONS,
    Toolbox,
    entry_from_function,
    leave_for,
    list_paths,
    list_toolsets,
    load_tools,
    needs_leave,
    tool_from_function,
    toolbox_from,
)
from bench.tools.data import load_table
from bench.tools.schema import Entry
from bench.tools.toolbox import LONGEST_RESULT, show_arguments
from bench.types import ToolResult, WorkbenchError
from parsers import Call, Tool

CHANGING = {"create_event", "send_message"}


def run(name: str, arguments: Any, *, toolbox: Toolbox | None = None, leave: Any = None):
    box = load_tools() if toolbox is None else toolbox
    call = Call(name, arguments, id="call_1")
    return asyncio.run(box.run(call, leave) if leave else box.run(call))


def answer(name: str, arguments: Any, **more: Any) -> Any:
    return json.loads(run(name, arguments, **more).content)


# ---------------------------------------------------------------- what the tools say

FIGURES = {
    "Beijing is sunny": ("get_weather", {"city": "Beijing"}, "condition_zh", "晴"),
    "Beijing has 25 degrees, by its Chinese name": (
        "get_weather",
        {"city": "北京"},
        "temperature",
        25,
    ),
    "a city with 市": ("get_weather", {"city": "北京市"}, "city", "Beijing"),
    "case and space do not matter": ("get_weather", {"city": " beijing "}, "city_zh", "北京"),
    "an enum": ("get_weather", {"city": "Beijing", "unit": "fahrenheit"}, "temperature", 77),
    "the air": ("get_air_quality", {"city": "西安"}, "level_zh", "中度污染"),
    "500 euros are 3910 yuan": (
        "get_exchange_rate",
        {"currency": "EUR", "amount": 500},
        "cny",
        3910,
    ),
    "a dollar": ("get_exchange_rate", {"currency": "usd"}, "rate", 7.16),
    "10,000 yen": ("get_exchange_rate", {"currency": "JPY", "amount": 10000}, "cny", 480),
    "the year's highest euro": ("get_rate_history", {"currency": "EUR"}, "highest", 8.39),
    "a boolean": (
        "find_exchange_banks",
        {"city": "Hangzhou", "open_saturday": False},
        "count",
        1,
    ),
    "a currency of a bank": (
        "find_exchange_banks",
        {"city": "杭州", "currency": "JPY"},
        "count",
        1,
    ),
    "equal payments": (
        "get_loan_payment",
        {"amount": 500000, "annual_rate": 3.6, "months": 240},
        "first_payment",
        2925.56,
    ),
    "a loan without interest": (
        "get_loan_payment",
        {"amount": 1200, "annual_rate": 0, "months": 12},
        "last_payment",
        100,
    ),
    "the local time": ("get_time", {}, "time", "09:30"),
    "the time of a zone": ("get_time", {"zone": "america/new_york"}, "date", "2026-03-15"),
    "the time in a city": ("get_time", {"zone": "东京"}, "utc_offset", "+09:00"),
    "miles": (
        "convert_units",
        {"value": 2, "from_unit": "mi", "to_unit": "km"},
        "result",
        3.218688,
    ),
    "degrees": ("convert_units", {"value": -40, "from_unit": "°F", "to_unit": "c"}, "result", -40),
    "free at noon": (
        "find_free_slots",
        {"attendees": ["张敏"], "date": "2026-03-18", "duration": 60},
        "free",
        [{"from": "12:00", "to": "18:00"}],
    ),
    "a day's events": ("list_events", {"date": "2026-03-17"}, "count", 3),
    "one person's events": (
        "list_events",
        {"date": "2026-03-16", "days": 5, "attendee": "孙娜"},
        "count",
        4,
    ),
    "two people of one name": ("find_contact", {"name": "Li Wei"}, "count", 2),
    "a department tells them apart": (
        "find_contact",
        {"name": "Li Wei", "department": "finance"},
        "count",
        1,
    ),
    "a nested filter": ("list_orders", {"filter": {"status": "shipped"}}, "count", 3),
    "all orders": ("list_orders", {}, "count", 12),
    "orders after a day": ("list_orders", {"filter": {"placed_after": "2026-03-13"}}, "count", 2),
    "a customer's orders": ("list_orders", {"filter": {"customer": "林浩"}}, "count", 3),
    "a refund of several items": (
        "quote_refund",
        {
            "order_id": "A1001",
            "items": [{"sku": "KB-10", "quantity": 1}, {"sku": "MS-22", "quantity": 2}],
            "reason": "damaged",
        },
        "refund",
        657,
    ),
    "bulk counts as weight": (
        "quote_shipping",
        {"parcel": {"weight_kg": 2, "size_cm": [40, 30, 20]}, "destination": "Wuhan"},
        "charged_kg",
        4,
    ),
    "words": ("count_text", {"text": "a b\nc", "unit": "words"}, "count", 3),
    "a checksum": (
        "hash_text",
        {"text": "abc", "algorithm": "md5"},
        "checksum",
        "900150983cd24fb0d6963f7d28e17f72",
    ),
    "a lone surrogate has a checksum": ("hash_text", {"text": "\ud800"}, "algorithm", "crc32"),
    "case ignored": (
        "replace_text",
        {"text": "aAa", "find": "a", "replacement": "b", "ignore_case": True},
        "text",
        "bbb",
    ),
    "a replacement is not searched again": (
        "replace_text",
        {"text": "ab", "find": "a", "replacement": "aa"},
        "text",
        "aab",
    ),
    "a URL's port": ("parse_url", {"url": "https://a.example:8443/x"}, "port", 8443),
    "a URL's parameters, decoded": (
        "parse_url",
        {"url": "https://a.example/?q=%E4%BD%A0"},
        "parameters",
        [{"name": "q", "value": "你"}],
    ),
    "JSON": ("check_json", {"text": '{"a": [1]}'}, "keys", ["a"]),
    "broken JSON": ("check_json", {"text": '{"a": 1}}'}, "valid", False),
    "a trailing comma, in every Python": ("check_json", {"text": "[1,\n 2,]"}, "column", 3),
    "a trailing comma, named": ("check_json", {"text": '{"a": 1,}'}, "problem", "trailing comma"),
    "deep JSON": ("check_json", {"text": "[" * 4000}, "valid", False),
}


@pytest.mark.parametrize(("name", "arguments", "key", "value"), FIGURES.values(), ids=FIGURES)
def test_a_tool_says(name, arguments, key, value):
    assert answer(name, arguments)[key] == value


FAULTS = {
    "a city that is none": ("get_weather", {"city": "北金"}, "did_you_mean", ["北京"]),
    "a misspelt city": ("get_weather", {"city": "Bejing"}, "did_you_mean", ["Beijing"]),
    "an unsupported currency": (
        "get_exchange_rate",
        {"currency": "KRW"},
        "supported_currencies",
        ["USD", "EUR", "JPY"],
    ),
    "no such history": (
        "get_rate_history",
        {"currency": "GBP"},
        "error",
        "unsupported currency: GBP",
    ),
    "days out of range": ("get_forecast", {"city": "Tokyo", "days": 8}, "maximum", 7),
    "months out of range": ("get_rate_history", {"currency": "USD", "months": 0}, "minimum", 1),
    "a bank in a city without": (
        "find_exchange_banks",
        {"city": "Tokyo"},
        "error",
        "unknown city: Tokyo",
    ),
    "a negative loan": (
        "get_loan_payment",
        {"amount": -1, "annual_rate": 3, "months": 12},
        "minimum",
        1,
    ),
    "an unknown field": (
        "get_weather",
        {"town": "Beijing", "city": "x"},
        "known_fields",
        ["city", "unit"],
    ),
    "a near field": ("get_weather", {"citty": "Beijing", "city": "x"}, "did_you_mean", ["city"]),
    "a missing field": ("get_weather", {}, "required", ["city"]),
    "a missing inner field": (
        "quote_refund",
        {"order_id": "A1001", "items": [{"sku": "x"}], "reason": "damaged"},
        "error",
        "missing field: quantity in items.0",
    ),
    "a text for an integer": (
        "get_forecast",
        {"city": "Tokyo", "days": "3"},
        "expected",
        "integer",
    ),
    "a value outside the enum": (
        "get_weather",
        {"city": "Beijing", "unit": "kelvin"},
        "allowed",
        ["celsius", "fahrenheit"],
    ),
    "an unknown tool": ("get_wether", {}, "did_you_mean", ["get_weather"]),
    "unreadable arguments": ("get_time", None, "expected", "one JSON object"),
    "an unknown zone": ("get_time", {"zone": "Mars/Base"}, "error", "unknown zone: Mars/Base"),
    "an unknown unit": (
        "convert_units",
        {"value": 1, "from_unit": "miles", "to_unit": "km"},
        "error",
        "unknown unit: miles",
    ),
    "units of two kinds": (
        "convert_units",
        {"value": 1, "from_unit": "kg", "to_unit": "km"},
        "error",
        "cannot convert mass to length",
    ),
    "a date in another form": ("list_events", {"date": "17.3.2026"}, "expected", "YYYY-MM-DD"),
    "a person nobody knows": (
        "find_free_slots",
        {"attendees": ["孙那"], "date": "2026-03-17"},
        "did_you_mean",
        ["孙娜"],
    ),
    "nobody to meet": (
        "find_free_slots",
        {"attendees": [], "date": "2026-03-17"},
        "example",
        ["Sun Na"],
    ),
    "an order's number is no parcel's": (
        "track_parcel",
        {"tracking_number": "A1004"},
        "hint",
        "get_order returns the tracking number",
    ),
    "too many pieces": (
        "quote_refund",
        {"order_id": "A1002", "items": [{"sku": "CH-90", "quantity": 3}], "reason": "damaged"},
        "maximum",
        2,
    ),
    "an order that cannot go back": (
        "quote_refund",
        {"order_id": "A1003", "items": [{"sku": "LP-14", "quantity": 1}], "reason": "damaged"},
        "error",
        "order A1003 is cancelled: nothing to return",
    ),
    "two sides are no parcel": (
        "quote_shipping",
        {"parcel": {"weight_kg": 1, "size_cm": [1, 2]}, "destination": "Wuhan"},
        "example",
        [40, 30, 20],
    ),
    "nothing to look for": (
        "replace_text",
        {"text": "a", "find": "", "replacement": ""},
        "error",
        "find is empty",
    ),
    "half a URL": ("parse_url", {"url": "example.com/x"}, "example", "https://example.com/a"),
    "a broken port": (
        "parse_url",
        {"url": "http://a:99999/"},
        "example",
        "https://example.com/a?b=1",
    ),
    "a department that is none": (
        "find_contact",
        {"name": "Li Wei", "department": "Finances"},
        "did_you_mean",
        ["Finance"],
    ),
}


@pytest.mark.parametrize(("name", "arguments", "key", "value"), FAULTS.values(), ids=FAULTS)
def test_a_fault_becomes_a_text_that_helps(name, arguments, key, value):
    result = run(name, arguments)
    told = json.loads(result.content)
    assert result.error
    assert told["error"]
    assert told[key] == value


SUMS = {
    "1 + 2 * 3": 7,
    "(3 + 4) * 2.5": 17.5,
    "2^10": 1024,
    "-3 ** 2": -9,
    "17 % 5 + 17 // 5": 5,
    "0.1 + 0.2": 0.3,
    "500 × 7.82": 3910,
    "（1＋2）": None,
    "sqrt(16) + max(1, 2, 3)": 7,
    "round(2.567, 2)": 2.57,
    "123456789 * 987654321": 121932631112635269,
    "1e3 / 8": 125,
    "pi": 3.14159265359,
    "1 / 0": None,
    "9**9**9**9": None,
    "10 ** -(10 ** 9)": 0,
    "2 ** 1e308": None,
    "0 ** -1": None,
    "(-8) ** 0.5": None,
    "factorial(99999)": None,
    "log(0)": None,
    "1e999": None,
    "1if 2else 3": None,
    "1,000 + 1": None,
    "15% of 2,480": None,
    "__import__('os').system('true')": None,
    "().__class__": None,
    "[1, 2]": None,
    "max(1, *(2, 3))": None,
    "round(1, ndigits=2)": None,
    "True + 1": None,
    "'a' * 9": None,
    "1 < 2": None,
    "x := 1": None,
    "lambda: 1": None,
    "": None,
    "(" * 290: None,
    "-" * 290 + "1": 1,
    "1" * 400: None,
    "9" * 299: None,
    "1\x00": None,
}


@pytest.mark.parametrize(("expression", "value"), SUMS.items(), ids=lambda x: str(x)[:30])
def test_the_calculator_works_out_arithmetic_and_nothing_else(expression, value):
    started = time.perf_counter()
    told = answer("calculate", {"expression": expression})
    assert told.get("result") == value
    assert ("error" in told) == (value is None)
    assert time.perf_counter() - started < 1


FOUND = {
    "a year tells near-duplicates apart": ("annual leave 2025", "D023"),
    "the same in Chinese": ("2025 年假", "D023"),
    "a model": ("X200 Pro battery", "D011"),
    "a place": ("Hangzhou office opening hours", "D035"),
    "a place in Chinese": ("杭州办公室开放时间", "D035"),
    "a quarter": ("third quarter revenue", "D043"),
}


@pytest.mark.parametrize(("query", "first"), FOUND.values(), ids=FOUND)
def test_the_search_finds(query, first):
    assert answer("search_documents", {"query": query})["documents"][0]["id"] == first


def test_the_search_filters_and_may_find_nothing():
    found = answer("search_documents", {"query": "laptop", "category": "product", "year": 2026})
    assert [row["id"] for row in found["documents"]] == ["D012"]
    assert answer("search_documents", {"query": "zebra"}) == {"count": 0, "documents": []}
    assert answer("search_documents", {"query": ""})["count"] == 0


def test_documents_are_many_and_alike():
    rows = load_table("documents.jsonl")
    assert len(rows) >= 60
    assert len({row["id"] for row in rows}) == len(rows)


def test_results_never_change():
    calls = [(name, arguments) for name, arguments, *_ in (*FIGURES.values(), *FAULTS.values())]
    first = [run(*call).content for call in calls]
    assert first == [run(*call).content for call in calls]


# ---------------------------------------------------------------- what a model is told


def test_there_are_enough_tools_and_every_kind_of_parameter():
    tools = load_tools().tools
    assert len(tools) == len(FUNCTIONS) >= 16
    text = json.dumps([tool.parameters for tool in tools])
    for kind in ("object", "array", "integer", "boolean", "number", "string"):
        assert f'"type": "{kind}"' in text
    assert '"enum"' in text
    assert any(
        not tool.parameters["properties"] or not tool.parameters["required"] for tool in tools
    )


def test_both_languages_describe_the_same_parameters():
    chinese = load_table("zh.json")
    assert list(chinese) == [function.__name__ for function in FUNCTIONS]
    for tool in load_tools("all", "en").tools:
        assert tuple(chinese[tool.name]["parameters"]) == list_paths(tool.parameters), tool.name


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_text_is_there_and_short(lang):
    for tool in load_tools("all", lang).tools:
        assert len(tool.description.split()) <= 60
        assert len(tool.description) <= 320
        for path in list_paths(tool.parameters):
            assert _at(tool.parameters, path)["description"], (tool.name, path)


def _at(schema, path):
    for part in path.split("."):
        schema = schema.get("items", schema)["properties"][part]
    return schema


def test_only_texts_differ_between_the_languages():
    def bare(schema):
        if isinstance(schema, dict):
            return {key: bare(value) for key, value in schema.items() if key != "description"}
        return schema

    for one, other in zip(
        load_tools("all", "en").tools, load_tools("all", "zh").tools, strict=True
    ):
        assert one.name == other.name
        assert bare(one.parameters) == bare(other.parameters)


def test_schemas_are_plain_and_closed():
    def check(schema):
        assert not {"$ref", "$defs", "title", "anyOf"} & schema.keys()
        if schema.get("type") == "object":
            assert schema["additionalProperties"] is False
            for inner in schema["properties"].values():
                check(inner)
        if "items" in schema:
            check(schema["items"])

    for tool in load_tools().tools:
        validator_for(dict(tool.parameters))
        check(tool.parameters)


def test_toolsets_are_few_and_small():
    sets = list_toolsets()
    names = [function.__name__ for function in FUNCTIONS]
    assert list(sets.pop("all")) == names
    assert 4 <= len(sets) <= 6
    for tools in sets.values():
        assert 5 <= len(tools) <= 8
        assert len(set(tools)) == len(tools)
    assert {tool for tools in sets.values() for tool in tools} == set(names)
    assert [tool.name for tool in load_tools("money_basic").tools] == list(sets["money_basic"])


def test_an_unknown_toolset_is_told_with_near_ones():
    with pytest.raises(WorkbenchError, match="no toolset 'mony': try one of money"):
        load_tools("mony")


def test_toolsets_meet_their_schema():
    folder = Path(__file__).parents[2] / "datasets"
    schema = json.loads((folder / "schema" / "toolsets.json").read_text(encoding="utf-8"))
    validator_for(schema).validate(load_table("toolsets.json"))
    schema = json.loads((folder / "schema" / "tool_texts.json").read_text(encoding="utf-8"))
    validator_for(schema).validate(load_table("zh.json"))
    schema = json.loads((folder / "schema" / "tools.json").read_text(encoding="utf-8"))
    validator_for(schema).validate([tool.to_openai() for tool in load_tools().tools])


# ---------------------------------------------------------------- a schema from a function


class Place(BaseModel):
    """A place; this text is not for the model."""

    city: str
    floor: int | None = None


@dataclasses.dataclass
class Size:
    """Two sides."""

    wide: float
    high: float = 1.0


class Tags(TypedDict, total=False):
    """Loose."""

    colour: Literal["red", "blue"]


def order_desk(
    title: str,
    place: Place,
    sizes: list[Size],
    tags: Tags | None = None,
    *,
    when: date | None = None,
    count: Annotated[int, Field(ge=1, le=9)] = 1,
    extra: dict[str, int] | None = None,
    json: bool = False,
    either: int | str = 0,
) -> dict[str, Any]:
    """Order a desk.

    Long
    text.

    Args:
        title: What to print on it.
        place: Where it goes.
        place.city: The town.
        sizes: The sizes.
        sizes.wide: In metres.
    """
    return {
        "title": title,
        "place": type(place).__name__,
        "sizes": [size.high for size in sizes],
        "tags": tags,
        "when": None if when is None else when.year,
        "rest": [count, extra, json, either],
    }


def test_a_tool_is_made_from_a_function():
    tool = tool_from_function(order_desk)
    assert (tool.name, tool.description) == ("order_desk", "Order a desk. Long text.")
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "What to print on it."},
            "place": {
                "type": "object",
                "description": "Where it goes.",
                "properties": {
                    "city": {"type": "string", "description": "The town."},
                    "floor": {"type": "integer"},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
            "sizes": {
                "type": "array",
                "description": "The sizes.",
                "items": {
                    "type": "object",
                    "properties": {
                        "wide": {"type": "number", "description": "In metres."},
                        "high": {"type": "number", "default": 1.0},
                    },
                    "required": ["wide"],
                    "additionalProperties": False,
                },
            },
            "tags": {
                "type": "object",
                "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
                "required": [],
                "additionalProperties": False,
            },
            "when": {"type": "string", "format": "date"},
            "count": {"type": "integer", "default": 1, "minimum": 1, "maximum": 9},
            "extra": {
                "type": "object",
                "properties": {},
                "required": [],
                "additionalProperties": {"type": "integer"},
            },
            "json": {"type": "boolean", "default": False},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 0},
        },
        "required": ["title", "place", "sizes"],
        "additionalProperties": False,
    }


def test_arguments_arrive_in_the_signature_s_types():
    box = toolbox_from([order_desk])
    arguments = {
        "title": "T",
        "place": {"city": "x"},
        "sizes": [{"wide": 1}],
        "tags": {"colour": "red"},
        "when": "2026-03-16",
        "count": 3.0,
        "extra": {"a": 1},
        "json": True,
    }
    assert answer("order_desk", arguments, toolbox=box) == {
        "title": "T",
        "place": "Place",
        "sizes": [1.0],
        "tags": {"colour": "red"},
        "when": 2026,
        "rest": [3, {"a": 1}, True, 0],
    }


REFUSED = {
    "a schema's bound": ({"count": 10}, "maximum"),
    "an extra inner field": ({"place": {"city": "x", "door": 1}}, "unknown field: door in place"),
    "an open map's value": ({"extra": {"a": "b"}}, "wrong type in extra.a"),
    "a date that is none": ({"when": "2026-02-31"}, "bad value for when"),
    "not a number": ({"sizes": [{"wide": float("nan")}]}, ""),
    "a boolean for a count": ({"count": True}, "wrong type in count"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_arguments_that_the_schema_refuses_do_not_reach_the_function(change, message):
    good = {"title": "T", "place": {"city": "x"}, "sizes": [{"wide": 1}]}
    result = run("order_desk", {**good, **change}, toolbox=toolbox_from([order_desk]))
    assert result.error
    assert message in json.loads(result.content)["error"]


class Knot(BaseModel):
    """Holds itself."""

    inner: "Knot | None" = None


def untyped(city):
    return city


def starred(*cities: str):
    return cities


def positional(city: str, /):
    return city


def strange(lock: threading.Thread):
    return lock


def unknown_name(city: "Nowhere"):  # noqa: F821 - the case
    return city


def knotted(knot: Knot):
    return knot


UNFIT = {
    "no type": (untyped, "parameter city has no type"),
    "any number of arguments": (starred, r"cannot fill \*cities"),
    "by position only": (positional, "take the / away"),
    "a type without schema": (strange, "no JSON Schema for its types"),
    "a name that is not there": (unknown_name, "cannot be read"),
    "a type that holds itself": (knotted, "holds itself"),
}


@pytest.mark.parametrize(("function", "message"), UNFIT.values(), ids=UNFIT)
def test_a_function_without_schema_is_told_with_its_line(function, message):
    with pytest.raises(WorkbenchError, match=message) as caught:
        tool_from_function(function)
    line = function.__code__.co_firstlineno
    assert f"test_tools.py:{line}: tool {function.__name__}: " in str(caught.value)


def test_none_without_a_default_may_be_left_out():
    def greet(name: str | None) -> str:
        return f"hello {name}"

    box = toolbox_from([greet])
    assert box.tools[0].parameters["required"] == []
    assert answer("greet", {}, toolbox=box) == "hello None"


# ---------------------------------------------------------------- running anything


def raises() -> str:
    raise KeyError("x" * 1000)


def leaves() -> str:
    raise SystemExit(3)


def hangs() -> str:
    time.sleep(30)
    return "never"


def huge() -> str:
    return "x" * 10_000_000


def huge_object() -> dict[str, Any]:
    return {"rows": ["x" * 1000] * 10_000}


def no_json() -> object:
    return object()


def circular() -> list[Any]:
    rows: list[Any] = []
    rows.append(rows)
    return rows


def not_a_number() -> float:
    return float("nan")


def surrogate() -> dict[str, str]:
    return {"text": "\ud800"}


def reports() -> dict[str, str]:
    return {"error": "sold out"}


def says_json() -> str:
    return '{"a": 1}'


def says_prose() -> str:
    return 'It is "fine"'


def gives_dataclass() -> Size:
    return Size(1.0)


async def waits() -> str:
    await asyncio.sleep(0)
    return "done"


def silent() -> None:
    return None


RESULTS = {
    "an exception": (raises, True, "the tool failed: KeyError"),
    "an exit": (leaves, True, "the tool failed: SystemExit"),
    "a hang": (hangs, True, "did not answer within 0.2 s"),
    "10 MB of text": (huge, True, "too long: 10000000 characters"),
    "10 MB of objects": (huge_object, True, "too long"),
    "no JSON": (no_json, True, "returned object, which is not JSON"),
    "a circle": (circular, True, "which is not JSON"),
    "not a number": (not_a_number, True, "which is not JSON"),
    "a lone surrogate": (surrogate, False, "\\ud800"),
    "its own error": (reports, True, "sold out"),
    "JSON text": (says_json, False, '{"a": 1}'),
    "prose": (says_prose, False, '"It is \\"fine\\""'),
    "a dataclass": (gives_dataclass, False, '{"wide": 1.0, "high": 1.0}'),
    "an async function": (waits, False, '"done"'),
    "nothing": (silent, False, "null"),
}


@pytest.mark.parametrize(("function", "error", "text"), RESULTS.values(), ids=RESULTS)
def test_any_tool_gives_a_bounded_json_text(function, error, text):
    result = run(function.__name__, {}, toolbox=toolbox_from([function], seconds=0.2))
    assert result.error is error
    assert text in result.content
    assert len(result.content) <= LONGEST_RESULT
    json.loads(result.content)
    result.content.encode()


def test_several_calls_run_at_once_and_keep_their_ids():
    def nap(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    calls = [Call("nap", {"seconds": s}, id=f"c{i}") for i, s in enumerate((0.3, 0.2, 0.1))]
    started = time.perf_counter()
    results = asyncio.run(toolbox_from([nap]).run_all(calls))
    assert time.perf_counter() - started < 0.55
    assert [(r.call_id, r.content) for r in results] == [
        ("c0", "0.3"),
        ("c1", "0.2"),
        ("c2", "0.1"),
    ]


def test_a_late_result_of_a_hung_tool_disturbs_nobody():
    def late() -> str:
        time.sleep(0.15)
        return "late"

    assert run("late", {}, toolbox=toolbox_from([late], seconds=0.05)).error
    time.sleep(0.2)


def test_a_tool_without_function_types_gets_its_arguments_as_they_are():
    tool = Tool("echo", "", {"type": "object", "properties": {"a": {"type": "integer"}}})
    box = Toolbox((Entry(tool, lambda **arguments: arguments),))
    assert answer("echo", {"a": 1, "b": [2]}, toolbox=box) == {"a": 1, "b": [2]}
    assert run("echo", {"a": "x"}, toolbox=box).error


def test_a_parameter_called_error_is_no_error():
    def note(error: str) -> str:
        return error

    assert answer("note", {"error": "E7"}, toolbox=toolbox_from([note])) == "E7"


# ---------------------------------------------------------------- leave

EVENT = {"title": "Tea", "date": "2026-03-20", "start": "15:00", "online": True}


def test_only_two_tools_change_something():
    assert {entry.tool.name for entry in load_tools().entries if entry.changes} == CHANGING


LEAVES = {
    "nobody asked": (None, True, None),
    "not on the list": (leave_for(["send_message"]), True, None),
    "on the list": (leave_for(["create_event"]), False, "flag"),
    "yes on the terminal": (leave_for([], lambda _what: True), False, "terminal"),
    "no on the terminal": (leave_for([], lambda _what: False), True, None),
    "a question that fails": (leave_for([], lambda _what: 1 / 0), True, None),
}


@pytest.mark.parametrize(("leave", "error", "who"), LEAVES.values(), ids=LEAVES)
def test_a_change_needs_leave_and_the_record_says_whose(leave, error, who):
    result = run("create_event", EVENT, leave=leave)
    assert isinstance(result, ToolResult)
    assert (result.error, result.leave) == (error, who)
    assert ("nobody gave leave" in result.content) is error


def test_a_tool_that_changes_nothing_is_not_asked_about():
    assert run("get_time", {}, leave=lambda *_: pytest.fail("asked")).leave is None


def test_arguments_that_are_refused_are_not_asked_about():
    result = run("create_event", {"title": "x"}, leave=lambda *_: pytest.fail("asked"))
    assert "missing field" in result.content


def test_the_user_s_own_tool_can_need_leave():
    @needs_leave
    def wipe() -> str:
        return "gone"

    box = toolbox_from([wipe])
    assert run("wipe", {}, toolbox=box).error
    assert entry_from_function(wipe, changes=False).changes is False


def test_a_question_shows_one_printable_line():
    shown = show_arguments({"text": "a\n\x1b[31m\u202e" + "b" * 900})
    assert shown.isprintable()
    assert len(shown) < 600


CHANGES = {
    "an event": ("create_event", EVENT, "event", "location", "Online"),
    "an event in the past": ("create_event", {**EVENT, "date": "2026-03-15"}, "today", None, None),
    "an event at no time": ("create_event", {**EVENT, "start": "25:00"}, "expected", None, None),
    "an event with strangers": (
        "create_event",
        {**EVENT, "attendees": ["Bo"]},
        "error",
        None,
        None,
    ),
    "an endless event": ("create_event", {**EVENT, "duration": 500}, "maximum", None, None),
    "a message to nobody": ("send_message", {"to": [], "text": "hi"}, "example", None, None),
    "an empty message": ("send_message", {"to": ["孙娜"], "text": ""}, "minimum", None, None),
    "a message to strangers": (
        "send_message",
        {"to": ["Bo"], "text": "hi"},
        "known_persons",
        None,
        None,
    ),
}


@pytest.mark.parametrize(
    ("name", "arguments", "key", "inner", "value"), CHANGES.values(), ids=CHANGES
)
def test_with_leave_a_change_is_checked_and_told(name, arguments, key, inner, value):
    told = answer(name, arguments, leave=leave_for(CHANGING))[key]
    assert inner is None or told[inner] == value


def test_a_message_arrives_as_written():
    text = 'He said "no",\n(maybe) {"a": 1} \\ 你好'
    told = answer("send_message", {"to": ["孙娜"], "text": text}, leave=leave_for(CHANGING))
    assert (told["text"], told["to"]) == (text, ["sun.na@example.com"])


# ---------------------------------------------------------------- other texts


def test_a_toolbox_takes_other_texts_and_drops_tools():
    box = load_tools("weather")
    named = [Tool("get_time", "clock", {"type": "object", "properties": {}})]
    changed = box.with_tools(named).without(["get_weather"])
    assert changed.table["get_time"].tool.description == "clock"
    assert "get_weather" not in changed.table
    assert box.table["get_time"].tool.description != "clock"
