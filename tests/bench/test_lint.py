"""The linter: what it finds, what it lets pass, and how often it is right about real descriptions."""

import json
import sys
from collections import Counter

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.lint import POINTS, find_sources, lint, read_points, run_lint
from bench.lint.texts import estimate_tokens
from bench.paths import find_datasets
from bench.tools import list_toolsets, load_tools
from bench.types import WorkbenchError
from bench.variants import LOOKALIKES, apply_variant

LANGS = ("en", "zh")
GOOD = "Get the weather in a city. Use it for the present only. Not for forecasts. 20 cities only."


def make_tool(name="get_weather", description=GOOD, parameters=None, **more):
    """Return a tool in OpenAI's form that nothing is wrong with, but for what is given."""
    schema = {"type": "object", "properties": {}} if parameters is None else parameters
    function = {"name": name, "description": description, "parameters": schema, **more}
    return {"type": "function", "function": function}


def with_parameter(name="city", **schema):
    properties = {name: schema}
    return make_tool(
        parameters={"type": "object", "properties": properties, "additionalProperties": False}
    )


def says(tools, parameter="-"):
    """Return the texts of the findings about a parameter."""
    return " | ".join(f.says for f in lint(tools, "x") if f.parameter == parameter)


# ------------------------------------------------------------ the bundled tools


@pytest.mark.parametrize("toolset", list_toolsets())
def test_the_bundled_tools_pass_in_full(toolset, capsys):
    assert run_lint(toolset) == 0
    assert capsys.readouterr().out == ""


VARIANT_RULES = {
    "what+when": {"when-not"},
    "what": {"when", "when-not"},
    "name": {"what", "when", "when-not"},
    "bare-params": {"parameter"},
    "bare": {"what", "when", "when-not", "parameter"},
    "wrong-language": {"language"},
    "assertive": {"claim"},
    "misleading": {"alike"},
    "scrambled-name": {"name"},
    "verbose": set(),
    "examples": set(),
}


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize(("variant", "rules"), VARIANT_RULES.items(), ids=VARIANT_RULES)
def test_each_variant_is_found_for_what_it_is(variant, rules, lang):
    shown = apply_variant(load_tools("all", lang).tools, variant, lang)
    findings = lint(shown.tools, "x")
    assert {f.rule for f in findings} - {"alike"} == rules - {"alike"}
    if rules & {"when", "when-not"}:
        assert {f.tool for f in findings} >= {t.name for t in shown.tools} - {"find_free_slots"}
    if variant == "wrong-language":
        assert {f.tool for f in findings} == set(LOOKALIKES)
    if variant == "misleading":
        assert len(findings) == 1


# ------------------------------------------------------------ names and descriptions

NAMES = {
    "a dot": ("weather.get", "not ."),
    "a space": ("get weather", "letters, digits"),
    "Chinese": ("查询天气", "letters, digits"),
    "too long": ("x" * 65, "has 65 characters"),
    "a digit first": ("2fa_code", "begins with neither"),
    "a name that says nothing": ("func_7", "does not say what the tool does"),
    "no name": ("", "has no name"),
}


@pytest.mark.parametrize(("name", "expected"), NAMES.values(), ids=NAMES)
def test_a_name_that_an_endpoint_refuses_is_found(name, expected):
    findings = [f for f in lint([make_tool(name)], "x") if f.rule == "name"]
    assert len(findings) == 1
    assert expected in findings[0].says


def test_two_tools_of_one_name_are_found():
    tools = [make_tool(), make_tool(description=GOOD.replace("weather", "time"))]
    assert "two tools have this name" in says(tools)


DESCRIPTIONS = {
    "none": ("", "no description"),
    "only a name": ("Weather tool", "nothing says what it does"),
    "only what": ("Get the weather in a city.", "nothing says when to use it"),
    "what and when": ("Get the weather. Use it for the present.", "where it ends"),
    "a claim": (f"Always use this tool first. {GOOD}", "pulls calls"),
    "a claim in Chinese": (f"任何时候都要首先使用本工具。{GOOD}", "pulls calls"),
    "too long": (GOOD + " Rain is rain." * 100, "characters"),
}


@pytest.mark.parametrize(("text", "expected"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_a_description_that_leaves_something_out_is_found(text, expected):
    assert expected in says([make_tool(description=text)])


def test_a_description_with_the_four_points_passes():
    assert lint([with_parameter(type="string", description="City, such as Beijing.")], "x") == ()


def test_look_alikes_are_found_as_a_pair_and_told_apart_by_a_name():
    one = "Get the exchange rate of a currency today. Use it for conversions. EUR only."
    other = "Get the exchange rate of a currency last year. Use it for conversions. EUR only."
    tools = [make_tool("get_rate", one), make_tool("get_old_rate", other)]
    assert "reads like get_old_rate" in says(tools)
    told = [make_tool("get_rate", f"{one} Not for the past (get_old_rate)."), tools[1]]
    near = [f.says for f in lint(told, "x")]
    assert not any("neither names" in text for text in near)


# ------------------------------------------------------------ parameters

TEXTS = {
    "none": ({"type": "string"}, "no description"),
    "the name again": ({"type": "string", "description": "The city"}, "no more than its name"),
    "an enum without a text": ({"type": "string", "enum": ["a", "b"]}, "no description"),
}
FORMS = {
    "an open date": ("start_date", "string", "Date to begin.", "form of the date"),
    "an open time": ("departure_time", "string", "When the train leaves.", "form of the date"),
    "an open time in Chinese": ("date", "string", "出发的日期。", "form of the date"),
    "a number without unit": ("timeout", "integer", "How long to wait at most.", "unit is open"),
    "a code without example": ("order_id", "string", "Identifies the order.", "looks like"),
    "a list in words": ("mode", "string", "One of fast, slow.", "in words only"),
    "a list in Chinese": ("mode", "string", "模式，可选值为快、慢。", "in words only"),
}
CLEAN = {
    "a date with its form": ("start_date", "string", "First day, as YYYY-MM-DD."),
    "a date by example": ("date", "string", "日期，如 2026-03-16。"),
    "a unit in the text": ("timeout", "integer", "Seconds to wait, 1 to 60."),
    "a unit in the name": ("timeout_ms", "integer", "How long to wait at most."),
    "a unit in Chinese": ("duration", "integer", "时长，分钟。"),
    "a code by example": ("order_id", "string", "Order number, such as A1001."),
    "a code from a tool": ("order_id", "string", "Identifier returned by list_orders."),
    "plain text": ("query", "string", "Key words in English or Chinese."),
}


@pytest.mark.parametrize(("schema", "expected"), TEXTS.values(), ids=TEXTS)
def test_a_parameter_that_says_nothing_is_found(schema, expected):
    assert expected in says([with_parameter(**schema)], "city")


@pytest.mark.parametrize(("name", "kind", "text", "expected"), FORMS.values(), ids=FORMS)
def test_a_value_whose_form_is_open_is_found(name, kind, text, expected):
    assert expected in says([with_parameter(name, type=kind, description=text)], name)


@pytest.mark.parametrize(("name", "kind", "text"), CLEAN.values(), ids=CLEAN)
def test_a_value_whose_form_is_told_passes(name, kind, text):
    assert says([with_parameter(name, type=kind, description=text)], name) in {
        "",
        "it is described in another language than the tool",
    }


def test_nested_parameters_go_by_their_path():
    item = {"type": "object", "properties": {"sku": {"type": "string"}}}
    tool = with_parameter("items", type="array", description="What to send.", items=item)
    assert "no description" in says([tool], "items.sku")


def test_another_language_than_the_tools_is_found():
    tool = with_parameter(type="string", description="城市名，如 北京 或 上海。")
    assert "another language than the tool" in says([tool], "city")


# ------------------------------------------------------------ schemas

EMPTY = {"type": "object", "properties": {}}
SCHEMAS = {
    "no schema": (None, "-", "no parameter schema"),
    "not an object": ("string", "-", "is not an object"),
    "another type at the top": ({"type": "string"}, "-", "take object only"),
    "no properties": ({"type": "object"}, "-", "properties is missing"),
    "oneOf at the top": ({**EMPTY, "oneOf": [EMPTY]}, "-", "oneOf at the top"),
    "required but unknown": ({**EMPTY, "required": ["city"]}, "city", "not in properties"),
    "invalid": ({**EMPTY, "minProperties": -1}, "-", "no valid JSON Schema"),
    "open": ({"type": "object", "properties": {"a": {}}}, "-", "additionalProperties is not set"),
}
PARTS = {
    "no type": ({}, "no type"),
    "an empty enum": ({"type": "string", "enum": []}, "enum is empty"),
    "an enum of another type": ({"type": "integer", "enum": ["1"]}, "holds texts"),
    "a list of nothing": ({"type": "array"}, "no items"),
    "several types": ({"type": ["string", "null"]}, "several types"),
    "a reference": ({"$ref": "#/$defs/City"}, "$ref"),
    "patternProperties": ({"type": "object", "patternProperties": {}}, "patternProperties"),
    "a default outside the enum": ({"type": "string", "enum": ["a"], "default": "b"}, "default"),
    "a default of another type": ({"type": "integer", "default": "3"}, "default"),
}


@pytest.mark.parametrize(("schema", "parameter", "expected"), SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_that_an_endpoint_refuses_is_found(schema, parameter, expected):
    tool = {"type": "function", "function": {"name": "get_weather", "description": GOOD}}
    if schema is not None:
        tool["function"]["parameters"] = schema
    assert expected in says([tool], parameter)


@pytest.mark.parametrize(("part", "expected"), PARTS.values(), ids=PARTS)
def test_a_parameters_schema_that_an_endpoint_refuses_is_found(part, expected):
    assert expected in says([with_parameter(description="City, such as Beijing.", **part)], "city")


def test_strict_asks_for_closed_objects_and_every_property_required():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    told = says([make_tool(parameters=schema, strict=True)])
    assert "additionalProperties false" in told
    assert "missing: city" in told


def test_a_tool_that_costs_many_tokens_is_found():
    texts = {f"p{n}": {"type": "string", "description": "word " * 40} for n in range(30)}
    schema = {"type": "object", "properties": texts, "additionalProperties": False}
    assert "tokens in every request" in says([make_tool(parameters=schema)])


def test_tokens_are_estimated_by_script():
    assert estimate_tokens("a" * 40) == 11
    assert estimate_tokens("天" * 40) == 41


# ------------------------------------------------------------ sources


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


FILES = {
    "a list": [make_tool()],
    "an object with tools": {"tools": [make_tool()]},
    "one tool": make_tool(),
    "bare functions": [make_tool()["function"]],
    "what an MCP server lists": {
        "tools": [{"name": "get_weather", "description": GOOD, "inputSchema": EMPTY}]
    },
    "Anthropic's form": [{"name": "get_weather", "description": GOOD, "input_schema": EMPTY}],
}


@pytest.mark.parametrize("value", FILES.values(), ids=FILES)
def test_a_file_of_tools_is_read(value, folder):
    (folder / "tools.json").write_text(json.dumps(value), encoding="utf-8")
    [source] = find_sources("tools.json")
    assert (source.label, [subject.name for subject in source.subjects]) == (
        "tools.json",
        ["get_weather"],
    )
    assert run_lint("tools.json") == 0


MODULE = '''
"""Tools of a user."""
from json import dumps

def get_price(product: str, date: str) -> float:
    """Get a price.

    Args:
        product: Product code, such as KB-10.
    """
    return 1.0

def _hidden(x):
    return x

TOOLS = [get_price]
SCHEMAS = [{"type": "function", "function": {"name": "f7"}}]
NUMBER = 3

def untyped(x):
    """Do it."""
'''


@pytest.fixture
def module(folder):
    (folder / "shop_tools_for_lint.py").write_text(MODULE, encoding="utf-8")
    return "shop_tools_for_lint"


def test_a_python_function_is_read_from_its_signature_and_docstring(module, capsys):
    assert run_lint(f"{module}:get_price") == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"{module}:get_price:-: nothing says when to use it → add" in "\n".join(lines)
    assert any(
        line.startswith(f"{module}:get_price:date: it has no description →") for line in lines
    )
    assert not any(":product:" in line for line in lines)


def test_lists_in_a_module_are_read(module):
    for name, expected in (("TOOLS", "get_price"), ("SCHEMAS", "f7")):
        [source] = find_sources(f"{module}:{name}")
        assert [subject.name for subject in source.subjects] == [expected]


def test_json_lines_hold_every_field(folder, capsys):
    (folder / "tools.json").write_text(json.dumps([make_tool(description="")]), encoding="utf-8")
    assert run_lint("tools.json", as_json=True) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["tool"] == "get_weather"
    assert set(json.loads(line)) == {"source", "tool", "parameter", "rule", "says", "write"}


UNREADABLE = {
    "broken JSON": ("[1,\n2", "tools.json:2: not JSON"),
    "no list": ('"x"', "no tools in it"),
    "an empty list": ("[]", "no tools in it"),
    "another list": ('[{"a": 1}]', "entry 1 is no tool"),
    "tools that are none": ('{"tools": 3}', "no tools in it"),
    "too deep": ("[" * 100_000, "cannot be read"),
    "no UTF-8": (b"\xff\xfe\x00", "cannot be read"),
}


@pytest.mark.parametrize(("text", "expected"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_file_is_one_clear_line(text, expected, folder):
    data = text if isinstance(text, bytes) else text.encode()
    (folder / "tools.json").write_bytes(data)
    with pytest.raises(WorkbenchError) as raised:
        run_lint("tools.json")
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)


TARGETS = {
    "no such file": ("nothing.json", "no such file"),
    "no such module": ("no_such_module_here:f", "no such file"),
    "no such Python file": ("my_tools.py:f", "no such file"),
    "no such function": ("shop_tools_for_lint:get_prices", "its public functions: get_price"),
    "no tool": ("shop_tools_for_lint:NUMBER", "it is a int"),
    "no types": ("shop_tools_for_lint:untyped", "parameter x has no type"),
    "a module that fails": ("failing_tools_for_lint", "its import fails: ZeroDivisionError"),
    "a module that leaves": ("leaving_tools_for_lint", "its import fails: SystemExit"),
    "a module without functions": ("empty_tools_for_lint", "no tools in it"),
}


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(("target", "expected"), TARGETS.values(), ids=TARGETS)
def test_a_target_that_cannot_be_read_is_one_clear_line(target, expected, folder):
    for name, text in (("failing", "1 / 0"), ("leaving", "raise SystemExit(3)"), ("empty", "")):
        (folder / f"{name}_tools_for_lint.py").write_text(text, encoding="utf-8")
    with pytest.raises(WorkbenchError) as raised:
        run_lint(target)
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_finding_is_one_printable_line(folder, capsys):
    hostile = make_tool("get\x1b[31m\nweather", "")
    (folder / "tools.json").write_text(json.dumps([hostile]), encoding="utf-8")
    run_lint("tools.json")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all("→" in line and line.isprintable() for line in lines)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "enum", "required", "description", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(JSON, JSON, JSON)
def test_whatever_a_file_holds_nothing_raises(name, description, parameters):
    tool = {"name": name, "description": description, "parameters": parameters, "strict": True}
    for finding in lint([tool, tool], "x"):
        assert finding.line().isprintable()


# ------------------------------------------------------------ the labelled set

LABELLED = [
    json.loads(line)
    for line in (find_datasets() / "lint" / "descriptions.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


def test_the_labelled_set_keeps_to_its_schema():
    folder = find_datasets() / "schema"
    validator = jsonschema_rs.validator_for(json.loads((folder / "descriptions.json").read_text()))
    for row in LABELLED:
        validator.validate(row)
    splits = Counter(row["split"] for row in LABELLED)
    assert len(LABELLED) >= 60
    assert splits["held"] + splits["unseen"] >= 20
    assert len({row["text"] for row in LABELLED}) == len(LABELLED)


@pytest.mark.parametrize("point", POINTS)
def test_each_point_is_read_right_at_least_four_times_in_five(point, capsys):
    lines = [measure(point, split) for split in ("tune", "held", "unseen", "")]
    with capsys.disabled():
        sys.stdout.write("".join(f"\n{text}" for text, *_ in lines))
    _, precision, recall = lines[-1]
    assert precision >= 0.8
    assert recall >= 0.8


def measure(point, split):
    rows = [row for row in LABELLED if split in ("", row["split"])]
    found = Counter((point in row["points"], point in read_points(row["text"])) for row in rows)
    right, invented, missed = found[True, True], found[False, True], found[True, False]
    precision, recall = right / (right + invented), right / (right + missed)
    text = (
        f"lint {point:<8} {split or 'all':<6} n = {len(rows)}: precision {precision:.2f} "
        f"({right}/{right + invented}), recall {recall:.2f} ({right}/{right + missed})"
    )
    return text, precision, recall
