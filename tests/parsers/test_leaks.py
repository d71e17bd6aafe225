import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.leaks import find_leaks
from parsers.types import Tool


def tool(name: str, required: list[str], /, **properties: Any) -> Tool:
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return Tool(name, "", schema)


TEXT = {"type": "string"}
TOOLS = [
    tool("weather", ["city"], city=TEXT),
    tool("rate", ["base", "quote"], base=TEXT, quote=TEXT),
    tool(
        "find",
        ["query"],
        query=TEXT,
        limit={"type": "integer"},
        sites={"type": "array"},
        exact={"type": "boolean"},
    ),
    tool("time", []),
]
OSLO = [("weather", {"city": "Oslo"})]

# text, calls
CALLS: dict[str, tuple[str, list[tuple[str, dict[str, Any]]]]] = {
    "Hermes": (
        '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
        OSLO,
    ),
    "Hermes, never closed": (
        '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}',
        OSLO,
    ),
    "Hermes behind a thought": (
        'Thought: look\n<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>',
        OSLO,
    ),
    "Hermes twice": (
        (
            '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>\n'
            '<tool_call>{"name": "time", "arguments": {}}</tool_call>'
        ),
        [*OSLO, ("time", {})],
    ),
    "Hermes with arguments as text": (
        '<tool_call>{"name": "weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}</tool_call>',
        OSLO,
    ),
    "Hermes with single quotes": (
        "<tool_call>{'name': 'weather', 'arguments': {'city': 'Oslo'}}</tool_call>",
        OSLO,
    ),
    "Hermes with inner quotes": (
        '<tool_call>{"name": "find", "arguments": {"query": "the "old" town"}}</tool_call>',
        [("find", {"query": 'the "old" town'})],
    ),
    "Hermes with the tag inside a string": (
        '<tool_call>{"name": "find", "arguments": {"query": "what is <tool_call>"}}</tool_call>',
        [("find", {"query": "what is <tool_call>"})],
    ),
    "Hermes with an answer behind it": (
        '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>\nI will wait.',
        OSLO,
    ),
    "Hermes with a list": (
        '<tool_call>[{"name": "weather", "arguments": {"city": "Oslo"}}]</tool_call>',
        OSLO,
    ),
    "Hermes with a name and an object": (
        '<tool_call>weather\n{"city": "Oslo"}\n</tool_call>',
        OSLO,
    ),
    "GLM": (
        (
            "<tool_call>find\n<arg_key>query</arg_key>\n<arg_value>a b</arg_value>\n"
            "<arg_key>limit</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
        ),
        [("find", {"query": "a b", "limit": 3})],
    ),
    "GLM without arguments": ("<tool_call>time\n</tool_call>", [("time", {})]),
    "Qwen-Coder": (
        (
            "<tool_call>\n<function=find>\n<parameter=query>\n郑州\n</parameter>\n"
            "<parameter=exact>\ntrue\n</parameter>\n</function>\n</tool_call>"
        ),
        [("find", {"query": "郑州", "exact": True})],
    ),
    "Qwen-Coder without its outer tag": (
        "<function=weather><parameter=city>Oslo</parameter></function>",
        OSLO,
    ),
    "Qwen-Coder without a parameter's closing tag": (
        "<function=weather>\n<parameter=city>\nOslo\n</function>",
        OSLO,
    ),
    "a number stays text where the schema wants text": (
        "<function=find><parameter=query>2024</parameter></function>",
        [("find", {"query": "2024"})],
    ),
    "several lines of a parameter": (
        "<function=find><parameter=query>\na\n  b\n</parameter></function>",
        [("find", {"query": "a\n  b"})],
    ),
    "function with an object": ('<function=weather>{"city": "Oslo"}</function>', OSLO),
    "Mistral with a list": (
        '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Oslo"}}]',
        OSLO,
    ),
    "Mistral with a name": ('[TOOL_CALLS]weather{"city": "Oslo"}', OSLO),
    "Mistral with a name, an id and a mark": (
        '[TOOL_CALLS]weather[CALL_ID]abc123def[ARGS]{"city": "Oslo"}',
        OSLO,
    ),
    "Llama": ('<|python_tag|>{"name": "weather", "parameters": {"city": "Oslo"}}', OSLO),
    "Llama with a call": ('<|python_tag|>weather.call(city="Oslo")', OSLO),
    "Llama with two objects": (
        (
            '<|python_tag|>{"name": "weather", "parameters": {"city": "Oslo"}};'
            ' {"name": "time", "parameters": {}}'
        ),
        [*OSLO, ("time", {})],
    ),
    "DeepSeek with a fence": (
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n"
            '```json\n{"city": "Oslo"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
        ),
        OSLO,
    ),
    "DeepSeek with the name first": (
        '<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city": "Oslo"}<｜tool▁call▁end｜>',
        OSLO,
    ),
    "DeepSeek spelled with plain bars": (
        '<|tool_call_begin|>weather<|tool_sep|>{"city": "Oslo"}<|tool_call_end|>',
        OSLO,
    ),
    "DSML": (
        (
            '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="find">\n'
            '<｜DSML｜parameter name="query" string="true">7</｜DSML｜parameter>\n'
            '<｜DSML｜parameter name="limit" string="false">7</｜DSML｜parameter>\n'
            "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
        ),
        [("find", {"query": "7", "limit": 7})],
    ),
    "StepFun": (
        (
            '<steptml:toolcall>\n<steptml:invoke name="weather">\n'
            '<steptml:parameter name="city">Oslo</steptml:parameter>\n</steptml:invoke>\n'
            "</steptml:toolcall>"
        ),
        [("weather", {"city": "Oslo"})],
    ),
    "StepFun in call tokens": (
        (
            "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
            '<steptml:invoke name="weather"><steptml:parameter name="city">Oslo</steptml:parameter>'
            "</steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>"
        ),
        [("weather", {"city": "Oslo"})],
    ),
    "Gemini's code": (
        "```tool_code\nprint(default_api.weather(city='Oslo'))\n```",
        [("weather", {"city": "Oslo"})],
    ),
    "Gemini's code with a variable and two lines": (
        "```tool_code\na = weather(city='Oslo')\nprint(weather(city='Rome'))\n```",
        [("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})],
    ),
    "DSML spelled with plain bars": (
        (
            '<|DSML|invoke name="weather"><|DSML|parameter name="city">Oslo</|DSML|parameter>'
            "</|DSML|invoke>"
        ),
        OSLO,
    ),
    "Kimi": (
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
            '<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|>'
            "<|tool_calls_section_end|>"
        ),
        OSLO,
    ),
    "MiniMax": (
        (
            '<minimax:tool_call><invoke name="weather"><parameter name="city">Oslo</parameter>'
            "</invoke></minimax:tool_call>"
        ),
        OSLO,
    ),
    "plain invoke, twice": (
        (
            '<invoke name="weather"><parameter name="city">Oslo</parameter></invoke>\n'
            '<invoke name="time"></invoke>'
        ),
        [*OSLO, ("time", {})],
    ),
    "Qwen-Agent": ('✿FUNCTION✿: weather\n✿ARGS✿: {"city": "Oslo"}\n✿RESULT✿', OSLO),
    "Harmony": (
        (
            "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
            '{"city": "Oslo"}<|call|>'
        ),
        OSLO,
    ),
    "Harmony with the receiver first": (
        (
            "<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>"
            '{"city": "Oslo"}'
        ),
        OSLO,
    ),
    "Harmony with its tokens lost": (
        'commentary to=functions.weather json{"city": "Oslo"}',
        OSLO,
    ),
    "a list of calls": (
        '[weather(city="Oslo"), rate(base="EUR", quote="GBP")]',
        [*OSLO, ("rate", {"base": "EUR", "quote": "GBP"})],
    ),
    "a list of calls between tokens": (
        '<|tool_call_start|>[weather(city="Oslo")]<|tool_call_end|>',
        OSLO,
    ),
    "a list of calls behind a sentence": ('Let me look.\n[weather(city="Oslo")]', OSLO),
    "a fenced object behind a sentence": (
        '我来查询：\n```json\n{"name": "weather", "arguments": {"city": "Oslo"}}\n```',
        OSLO,
    ),
    "an object": ('{"name": "weather", "parameters": {"city": "Oslo"}}', OSLO),
    "an object under tool_calls": (
        (
            '{"tool_calls": [{"id": "1", "type": "function", "function":'
            ' {"name": "weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}}]}'
        ),
        OSLO,
    ),
    "a list of objects": (
        '[{"name": "weather", "arguments": {"city": "Oslo"}}, {"name": "time", "arguments": {}}]',
        [*OSLO, ("time", {})],
    ),
    "a reply that is one call": ('weather(city="Oslo")', OSLO),
    "a reply that is one call in a fence": ('```python\nweather(city="Oslo")\n```', OSLO),
    "a reply that is one call in brackets": ("weather[Oslo]", OSLO),
    "a reply that is a name and an object": ('weather {"city": "Oslo"}', OSLO),
}

PROSE = {
    "an answer": "It is sunny in Oslo.",
    "a tag in a sentence": "The tag <tool_call> opens a call in that template.",
    "a tag with dots for its payload": "Write <tool_call>{...}</tool_call> around a call.",
    "a tag with a placeholder": '<tool_call>{"name": "tool_name", "arguments": {}}</tool_call>',
    "a marker in a sentence": "Mistral's models write [TOOL_CALLS] before a call.",
    "a marker and an offered name": "After [TOOL_CALLS] comes weather, then the object.",
    "a call in a sentence": 'You could run weather(city="Oslo") for that.',
    "a call without keywords to another function": "print('hi')",
    "an object that names nothing": '{"city": "Oslo", "temperature": 7}',
    "an object with a name that is data": '{"name": "Ada", "age": 36}',
    "a list of numbers": "[1, 2, 3]",
    "a tool's name in a sentence": "I can use weather or find.",
    "a bracket link": "See [the page](https://a.example).",
    "an invoke tag in a sentence": "The <invoke> tag needs a name.",
}

# text, field, kind at hardened, kind at rescue
FAILURES: dict[str, tuple[str, str, str, str]] = {
    "cut inside the payload": (
        '<tool_call>{"name": "weather", "arguments": {"city": "Os',
        "content",
        "truncated_output",
        "truncated_output",
    ),
    "cut inside a parameter": (
        "<function=weather><parameter=city>Os",
        "content",
        "truncated_output",
        "truncated_output",
    ),
    "cut inside GLM's value": (
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Os",
        "content",
        "truncated_output",
        "truncated_output",
    ),
    "cut inside Kimi's object": (
        '<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{"city": "Os',
        "content",
        "truncated_output",
        "truncated_output",
    ),
    "cut inside a list of calls": (
        '[weather(city="Os',
        "content",
        "truncated_output",
        "truncated_output",
    ),
    "a tool that is not offered": (
        '<tool_call>{"name": "fly", "arguments": {"to": "x"}}</tool_call>',
        "content",
        "unknown_tool",
        "unknown_tool",
    ),
    "an object for a tool that is not offered": (
        '{"name": "fly", "arguments": {"to": "x"}}',
        "content",
        "unknown_tool",
        "unknown_tool",
    ),
    "a call of a tool that is not offered": (
        'fly(to="x")',
        "content",
        "unknown_tool",
        "unknown_tool",
    ),
    "arguments that the schema refuses": (
        '<tool_call>{"name": "weather", "arguments": {"town": "Oslo"}}</tool_call>',
        "content",
        "out_of_channel_call",
        "schema_violation",
    ),
    "arguments that cannot be read": (
        '<tool_call>{"name": "weather", "arguments": {"city": 1200*12}}</tool_call>',
        "content",
        "out_of_channel_call",
        "bad_arguments_syntax",
    ),
    "a parameter twice": (
        "<function=weather><parameter=city>a</parameter><parameter=city>b</parameter></function>",
        "content",
        "out_of_channel_call",
        "bad_arguments_syntax",
    ),
    "a value that is no number": (
        "<function=find><parameter=query>a</parameter><parameter=limit>three</parameter></function>",
        "content",
        "out_of_channel_call",
        "schema_violation",
    ),
    "markup shown in backticks": (
        'Write `<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>` then.',
        "content",
        "out_of_channel_call",
        "out_of_channel_call",
    ),
    "markup shown in a sentence": (
        'A call is <tool_call>{"name": "time", "arguments": {}}</tool_call> in that template.',
        "content",
        "out_of_channel_call",
        "out_of_channel_call",
    ),
    "an object shown in an answer": (
        'Such as {"name": "weather", "arguments": {"city": "Oslo"}}, for example.',
        "content",
        "out_of_channel_call",
        "out_of_channel_call",
    ),
    "a draft in the reasoning": (
        '<tool_call>{"name": "weather", "arguments": {"city": "Bergen"}}</tool_call> no, Oslo.',
        "reasoning_content",
        "out_of_channel_call",
        "out_of_channel_call",
    ),
    "two drafts in the reasoning": (
        (
            '<tool_call>{"name": "weather", "arguments": {"city": "Bergen"}}</tool_call> or rather '
            '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
        ),
        "reasoning_content",
        "out_of_channel_call",
        "out_of_channel_call",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_markup_is_read_at_rescue_and_named_below(name: str) -> None:
    text, calls = CALLS[name]
    rescue = find_leaks(text, TOOLS, level="rescue")
    assert rescue is not None
    assert rescue.failure is None
    assert [(call.name, call.arguments) for call in rescue.calls] == calls
    assert 0 <= rescue.start < rescue.end <= len(text)
    for level in ("strict", "hardened"):
        below = find_leaks(text, TOOLS, level=level)  # type: ignore[arg-type]
        assert below is not None
        assert below.failure is not None
        assert (below.failure.kind, below.failure.detail) == ("out_of_channel_call", "native")
        assert all(call.failure is not None for call in below.calls)


@pytest.mark.parametrize("name", PROSE)
def test_prose_about_markup_is_prose(name: str) -> None:
    for level in ("hardened", "rescue"):
        assert find_leaks(PROSE[name], TOOLS, level=level) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FAILURES)
def test_markup_that_is_no_sound_call(name: str) -> None:
    text, field, hardened, rescue = FAILURES[name]
    for level, kind in (("hardened", hardened), ("rescue", rescue)):
        reading = find_leaks(text, TOOLS, level=level, field=field)  # type: ignore[arg-type]
        assert reading is not None
        assert reading.failure is not None
        assert reading.failure.kind == kind
        assert reading.failure.message.endswith(".")
        assert all(call.failure is not None for call in reading.calls)


def test_among_several_calls_each_has_its_own_failure() -> None:
    text = (
        '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
        '<tool_call>{"name": "fly", "arguments": {}}</tool_call>'
        '<tool_call>{"name": "rate", "arguments": {"base": "EUR"}}</tool_call>'
    )
    reading = find_leaks(text, TOOLS, level="rescue")
    assert reading is not None
    assert reading.failure is None
    kinds = [call.failure.kind if call.failure else None for call in reading.calls]
    assert kinds == [None, "unknown_tool", "schema_violation"]


@pytest.mark.parametrize(
    ("field", "detail"),
    [("text", "native"), ("content", "content"), ("reasoning_content", "reasoning")],
)
def test_the_detail_says_where(field: str, detail: str) -> None:
    reading = find_leaks(CALLS["Hermes"][0], TOOLS, field=field)
    assert reading is not None
    assert reading.failure is not None
    assert (reading.failure.detail, reading.failure.field) == (detail, field)


def test_a_call_that_only_lacks_closers_is_cut_at_the_length_limit() -> None:
    text = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}'
    reading = find_leaks(text, TOOLS, level="rescue", finish_reason="length")
    assert reading is not None
    assert reading.failure is not None
    assert reading.failure.kind == "truncated_output"


def test_the_span_covers_the_tags_around() -> None:
    text = 'Look: <function_calls>\n<invoke name="time">\n</invoke>\n</function_calls>\n'
    reading = find_leaks(text, TOOLS)
    assert reading is not None
    assert text[: reading.start] == "Look: "
    assert text[reading.end :] == ""


UNITS = [
    "<tool_call>",
    "{",
    '{"name": "weather", "arguments": {',
    "<function=weather><parameter=city>",
    "✿FUNCTION✿: weather\n✿ARGS✿: ",
    "[TOOL_CALLS][",
    "to=functions.weather{",
    '<|tool_call_begin|>weather<|tool_sep|>{"',
    "<arg_key>a</arg_key><arg_value>",
    '[weather(city="',
    "</tool_call>",
    "`",
    "\n",
    '"',
    "}",
    "天",
    "\ud800",
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(UNITS), max_size=8).map("".join) | st.text(max_size=40))
def test_finding_is_total(text: str) -> None:
    for level in ("hardened", "rescue"):
        reading = find_leaks(text, TOOLS, level=level, field="content")  # type: ignore[arg-type]
        if reading is not None:
            good = [call for call in reading.calls if call.failure is None]
            assert bool(good) != (reading.failure is not None)


@pytest.mark.parametrize("unit", UNITS)
def test_hostile_markup_ends_soon(unit: str) -> None:
    start = time.process_time()
    find_leaks("x " + unit * (300_000 // len(unit)), TOOLS, level="rescue")
    assert time.process_time() - start < 3
