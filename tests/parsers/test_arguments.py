import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.arguments import (
    ARGUMENT_REPAIRS,
    ArgumentReading,
    open_envelope,
    read_arguments,
    read_form,
    value_end,
)
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
TOOLS = {
    each.name: each
    for each in (
        tool("weather", ["city"], city=TEXT),
        tool("rate", ["base", "quote"], base=TEXT, quote=TEXT),
        tool(
            "search",
            ["query"],
            query=TEXT,
            sites={"type": "array", "items": TEXT},
            official={"type": "boolean"},
            since={"type": ["string", "null"]},
        ),
        tool("convert", ["amount", "unit"], amount={"type": ["number", "string"]}, unit=TEXT),
        tool("transfer", ["amount", "to"], amount={"type": "integer"}, to=TEXT),
        tool("time", []),
        tool("list", [], page={"type": "integer"}),
        tool("sql", ["statement"], statement=TEXT),
        tool("open", ["path"], path=TEXT),
        tool("天气", ["城市"], 城市=TEXT),
        tool("mode", ["mode"], mode={"enum": ["fast", "slow"]}),
        tool("tag", ["name", "input"], name=TEXT, input=TEXT),
        tool("note", ["text"], text={"anyOf": [TEXT, {"type": "null"}]}),
        Tool("free", "", {"type": "object", "properties": {"q": TEXT}, "required": ["q"]}),
        Tool(
            "route",
            "",
            {
                "type": "object",
                "$defs": {
                    "place": {
                        "type": "object",
                        "properties": {"city": TEXT, "note": TEXT},
                        "required": ["city"],
                        "additionalProperties": False,
                    }
                },
                "properties": {
                    "start": {"$ref": "#/$defs/place"},
                    "stops": {"type": "array", "items": {"$ref": "#/$defs/place"}},
                },
                "required": ["start"],
                "additionalProperties": False,
            },
        ),
    )
}


def read(text: str, name: str, **options: Any) -> ArgumentReading:
    options.setdefault("text_forms", True)
    return read_arguments(text, TOOLS[name], offered=tuple(TOOLS), **options)


def repairs(reading: ArgumentReading) -> set[str]:
    return {repair.name for repair in reading.repairs}


# text, tool, arguments, repairs
READ: dict[str, tuple[str, str, dict[str, Any], set[str]]] = {
    "a clean object needs no repair": ('{"city": "Oslo"}', "weather", {"city": "Oslo"}, set()),
    "white space around an object is no repair": (
        ' \n{"city": "Oslo"}\r\n',
        "weather",
        {"city": "Oslo"},
        set(),
    ),
    "escapes are decoded once": (
        '{"city": "\\u5e7f\\u5dde"}',
        "weather",
        {"city": "广州"},
        set(),
    ),
    "an escaped pair of halves is one character": (
        '{"city": "Reef \\ud83c\\udf0a"}',
        "weather",
        {"city": "Reef 🌊"},
        set(),
    ),
    "twice escaped text stays as it is written": (
        '{"city": "\\\\u897f"}',
        "weather",
        {"city": "\\u897f"},
        set(),
    ),
    "1.0 is an integer": (
        '{"amount": 1.0, "to": "a"}',
        "transfer",
        {"amount": 1.0, "to": "a"},
        set(),
    ),
    "single quotes": ("{'city': 'Turin'}", "weather", {"city": "Turin"}, {"single_quotes"}),
    "an apostrophe inside double quotes stays": (
        "{'city': \"L'Aquila\"}",
        "weather",
        {"city": "L'Aquila"},
        {"single_quotes"},
    ),
    "words that look like literals stay inside strings": (
        "{'query': 'None of the above is True', 'official': True}",
        "search",
        {"query": "None of the above is True", "official": True},
        {"single_quotes", "python_literals"},
    ),
    "Python literals": (
        '{"query": "x", "official": True, "since": None}',
        "search",
        {"query": "x", "official": True, "since": None},
        {"python_literals"},
    ),
    "curly quotes": ("{“city”: “成都”}", "weather", {"city": "成都"}, {"curly_quotes"}),
    "one kind of curly quote on both sides": (
        "{”city”: ”成都”}",
        "weather",
        {"city": "成都"},
        {"curly_quotes"},
    ),
    "curly single quotes": ("{‘city’: ‘Łódź’}", "weather", {"city": "Łódź"}, {"curly_quotes"}),
    "curly quotes inside a string stay": (
        '{"query": "the “old” town"}',
        "search",
        {"query": "the “old” town"},
        set(),
    ),
    "fullwidth punctuation": (
        '｛"base"：\u3000"EUR"，"quote"："CNY"｝',
        "rate",
        {"base": "EUR", "quote": "CNY"},
        {"fullwidth_punctuation", "nbsp"},
    ),
    "fullwidth quotes": (
        "{＂city＂: ＂Oslo＂}",
        "weather",
        {"city": "Oslo"},
        {"fullwidth_punctuation"},
    ),
    "fullwidth punctuation inside a string stays": (
        '{"query": "费率：多少，何时？"}',
        "search",
        {"query": "费率：多少，何时？"},
        set(),
    ),
    "a line comment": (
        '{\n  "city": "Oslo" // the capital\n}',
        "weather",
        {"city": "Oslo"},
        {"comments"},
    ),
    "a block comment behind a comma": (
        '{"query": "https://a.example//b", /* the page */ }',
        "search",
        {"query": "https://a.example//b"},
        {"comments", "trailing_comma"},
    ),
    "a hash comment": (
        '{"city": "Oslo" # capital\n}',
        "weather",
        {"city": "Oslo"},
        {"comments"},
    ),
    "a hash inside a string is no comment": (
        '{"query": "C# and F#"}',
        "search",
        {"query": "C# and F#"},
        set(),
    ),
    "an HTML comment behind the object": (
        '{"city": "无锡"} <!-- 目标 -->',
        "weather",
        {"city": "无锡"},
        {"trailing_text"},
    ),
    "trailing commas at two depths": (
        '{"query": "x", "sites": ["a", "b",],}',
        "search",
        {"query": "x", "sites": ["a", "b"]},
        {"trailing_comma"},
    ),
    "unquoted keys": ('{city: "Oslo"}', "weather", {"city": "Oslo"}, {"unquoted_keys"}),
    "unquoted Chinese keys": ('{城市: "兰州"}', "天气", {"城市": "兰州"}, {"unquoted_keys"}),
    "a raw line end inside a string": (
        '{"city": "Porto\nAlegre"}',
        "weather",
        {"city": "Porto\nAlegre"},
        {"raw_control"},
    ),
    "a raw tab inside a string": (
        '{"query": "a\tb"}',
        "search",
        {"query": "a\tb"},
        {"raw_control"},
    ),
    "no-break spaces between tokens": (
        '{"city":\u00a0"珠海"\u00a0}',
        "weather",
        {"city": "珠海"},
        {"nbsp"},
    ),
    "zero-width spaces between tokens": (
        '\ufeff{\u200b"city": "Oslo"}',
        "weather",
        {"city": "Oslo"},
        {"nbsp", "zero_width"},
    ),
    "a no-break space inside a string stays": (
        '{"city": "Den\u00a0Haag"}',
        "weather",
        {"city": "Den\u00a0Haag"},
        set(),
    ),
    "escaped line ends between tokens": (
        '{\\n  "city": "Oslo"\\n}',
        "weather",
        {"city": "Oslo"},
        {"escaped_whitespace"},
    ),
    "triple quotes": (
        '{"statement": """SELECT "a"\nFROM b"""}',
        "sql",
        {"statement": 'SELECT "a"\nFROM b'},
        {"triple_quotes", "raw_control"},
    ),
    "triple quotes behind a quote of the text": (
        '{"query": """he said "no""""}',
        "search",
        {"query": 'he said "no"'},
        {"triple_quotes"},
    ),
    "a thousands separator": (
        '{"amount": 12,500, "unit": "USD"}',
        "convert",
        {"amount": 12500, "unit": "USD"},
        {"thousands_separator"},
    ),
    "several thousands separators and a fraction": (
        '{"unit": "USD", "amount": 1,234,567.25}',
        "convert",
        {"amount": 1234567.25, "unit": "USD"},
        {"thousands_separator"},
    ),
    "a negative number with a separator": (
        '{"amount": -2,000, "unit": "USD"}',
        "convert",
        {"amount": -2000, "unit": "USD"},
        {"thousands_separator"},
    ),
    "a separator inside a string stays": (
        '{"amount": "12,500.00", "unit": "USD"}',
        "convert",
        {"amount": "12,500.00", "unit": "USD"},
        set(),
    ),
    "bare backslashes of a path": (
        '{"path": "D:\\Finance\\Week12.xlsx"}',
        "open",
        {"path": "D:\\Finance\\Week12.xlsx"},
        {"bare_backslash"},
    ),
    "a backslash u without four digits": (
        '{"path": "C:\\users\\x"}',
        "open",
        {"path": "C:\\users\\x"},
        {"bare_backslash"},
    ),
    "an escaped apostrophe in single quotes": (
        "{'city': 'L\\'Aquila'}",
        "weather",
        {"city": "L'Aquila"},
        {"single_quotes"},
    ),
    "inner quotes around a Chinese term": (
        '{"query": "什么是"碳账户"的开户条件"}',
        "search",
        {"query": '什么是"碳账户"的开户条件'},
        {"inner_quotes"},
    ),
    "inner quotes at both ends": (
        '{"query": ""carbon account""}',
        "search",
        {"query": '"carbon account"'},
        {"inner_quotes"},
    ),
    "inner quotes and a comma inside them": (
        '{"query": "say "yes, please" twice", "official": true}',
        "search",
        {"query": 'say "yes, please" twice', "official": True},
        {"inner_quotes"},
    ),
    "inner quotes before a comma and a word": (
        '{"query": "say "yes", "no" or "later" now"}',
        "search",
        {"query": 'say "yes", "no" or "later" now'},
        {"inner_quotes"},
    ),
    "inner quotes in the first of two values": (
        '{"base": "the "EUR" one", "quote": "CNY"}',
        "rate",
        {"base": 'the "EUR" one', "quote": "CNY"},
        {"inner_quotes"},
    ),
    "an inch mark": (
        '{"query": "a 24" monitor", "official": true}',
        "search",
        {"query": 'a 24" monitor', "official": True},
        {"inner_quotes"},
    ),
    "an apostrophe inside single quotes": (
        "{'query': 'what's new', 'official': False}",
        "search",
        {"query": "what's new", "official": False},
        {"inner_quotes", "single_quotes", "python_literals"},
    ),
    "inner quotes and unquoted keys": (
        '{query: "say "hi" now", since: "2024"}',
        "search",
        {"query": 'say "hi" now', "since": "2024"},
        {"inner_quotes", "unquoted_keys"},
    ),
    "inner quotes in a nested object with a name of its own": (
        '{"start": {"city": "the "old" town", "note": "x"}}',
        "route",
        {"start": {"city": 'the "old" town', "note": "x"}},
        {"inner_quotes"},
    ),
    "inner quotes beside a list of strings": (
        '{"query": "the "old" town", "sites": ["a", "b"]}',
        "search",
        {"query": 'the "old" town', "sites": ["a", "b"]},
        {"inner_quotes"},
    ),
    "an object encoded as a string": (
        '"{\\"city\\": \\"Turin\\"}"',
        "weather",
        {"city": "Turin"},
        {"double_encoded"},
    ),
    "an object with single quotes encoded as a string": (
        "\"{'city': 'Turin'}\"",
        "weather",
        {"city": "Turin"},
        {"double_encoded", "single_quotes"},
    ),
    "every quote escaped": (
        '{\\"city\\": \\"Turin\\"}',
        "weather",
        {"city": "Turin"},
        {"double_encoded"},
    ),
    "a list with the one object": (
        '[{"city": "Oslo"}]',
        "weather",
        {"city": "Oslo"},
        {"list_unwrapped"},
    ),
    "a wrapper key": (
        '{"arguments": {"city": "Oslo"}}',
        "weather",
        {"city": "Oslo"},
        {"wrapper_unwrapped"},
    ),
    "a wrapper key around an encoded object": (
        '{"input": "{\\"city\\": \\"Oslo\\"}"}',
        "weather",
        {"city": "Oslo"},
        {"wrapper_unwrapped", "double_encoded"},
    ),
    "an envelope with the same name": (
        '{"name": "weather", "parameters": {"city": "Oslo"}}',
        "weather",
        {"city": "Oslo"},
        {"envelope_unwrapped"},
    ),
    "an envelope of a function": (
        '{"type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}',
        "weather",
        {"city": "Oslo"},
        {"envelope_unwrapped"},
    ),
    "an envelope inside a list": (
        '[{"action": "weather", "action_input": {"city": "Oslo"}}]',
        "weather",
        {"city": "Oslo"},
        {"list_unwrapped", "envelope_unwrapped"},
    ),
    "a parameter named like a wrapper is no wrapper": (
        '{"name": "weather", "input": "x"}',
        "tag",
        {"name": "weather", "input": "x"},
        set(),
    ),
    "call form with keywords": (
        'weather(city="Oslo")',
        "weather",
        {"city": "Oslo"},
        {"call_form"},
    ),
    "call form with a prefix and positional arguments": (
        "functions.rate('EUR', \"CNY\")",
        "rate",
        {"base": "EUR", "quote": "CNY"},
        {"call_form", "positional_arguments", "single_quotes"},
    ),
    "call form without the name": ('(city="Oslo")', "weather", {"city": "Oslo"}, {"call_form"}),
    "call form with an object": (
        'weather({"city": "Oslo"})',
        "weather",
        {"city": "Oslo"},
        {"call_form", "positional_arguments"},
    ),
    "bracket form": ("search[two words]", "search", {"query": "two words"}, {"bracket_form"}),
    "pairs": (
        'base="GBP", quote="JPY"',
        "rate",
        {"base": "GBP", "quote": "JPY"},
        {"key_value_form"},
    ),
    "pairs with spaces and literals": (
        "query = 'x', official = True",
        "search",
        {"query": "x", "official": True},
        {"key_value_form", "single_quotes", "python_literals"},
    ),
    "pairs on two lines": (
        'base="GBP"\nquote="JPY"',
        "rate",
        {"base": "GBP", "quote": "JPY"},
        {"key_value_form"},
    ),
    "pairs with inner quotes": (
        'query="the "old" town", official=true',
        "search",
        {"query": 'the "old" town', "official": True},
        {"key_value_form", "inner_quotes"},
    ),
    "pairs with a thousands separator": (
        'amount=12,500, unit="USD"',
        "convert",
        {"amount": 12500, "unit": "USD"},
        {"key_value_form", "thousands_separator"},
    ),
    "flat lines": (
        "\n  base: USD\n  quote: KRW",
        "rate",
        {"base": "USD", "quote": "KRW"},
        {"flat_lines"},
    ),
    "flat lines with quotes and a blank line": (
        "base: \"USD\"\n\nquote: 'KRW'",
        "rate",
        {"base": "USD", "quote": "KRW"},
        {"flat_lines"},
    ),
    "flat lines with quoted keys": (
        '"base": "USD",\n"quote": "KRW"',
        "rate",
        {"base": "USD", "quote": "KRW"},
        {"flat_lines"},
    ),
    "flat lines with fullwidth colons": (
        "base：USD\nquote：KRW",
        "rate",
        {"base": "USD", "quote": "KRW"},
        {"flat_lines", "fullwidth_punctuation"},
    ),
    "a flat line is split at its first colon": (
        "query: rates: a history",
        "search",
        {"query": "rates: a history"},
        {"flat_lines"},
    ),
    "a comma inside an unquoted text is text": (
        "query: fees, limits and so on",
        "search",
        {"query": "fees, limits and so on"},
        {"flat_lines"},
    ),
    "a number is a literal where no string is allowed": (
        "amount: 5\nto: 007",
        "transfer",
        {"amount": 5, "to": "007"},
        {"flat_lines"},
    ),
    "a number is text where a string is allowed": (
        "amount: 5\nunit: m",
        "convert",
        {"amount": "5", "unit": "m"},
        {"flat_lines"},
    ),
    "flat list of a schema": (
        'query: x\nsites: ["a", "b"]',
        "search",
        {"query": "x", "sites": ["a", "b"]},
        {"flat_lines"},
    ),
    "a flat line and prose behind a blank line": (
        "city: Oslo\n\nThis gives the weather.",
        "weather",
        {"city": "Oslo"},
        {"flat_lines", "trailing_text"},
    ),
    "a bare string": (
        "São Paulo, Brazil",
        "weather",
        {"city": "São Paulo, Brazil"},
        {"bare_string"},
    ),
    "a bare number is text for a text parameter": (
        "2024",
        "search",
        {"query": "2024"},
        {"bare_string"},
    ),
    "a bare string in double quotes": (
        '"median delay 2024"',
        "search",
        {"query": "median delay 2024"},
        {"bare_string"},
    ),
    "a bare string in single quotes": (
        "'拉萨'",
        "weather",
        {"city": "拉萨"},
        {"bare_string", "single_quotes"},
    ),
    "a statement that ends in a quote keeps it": (
        'SELECT a FROM b WHERE c = "温州"',
        "sql",
        {"statement": 'SELECT a FROM b WHERE c = "温州"'},
        {"bare_string"},
    ),
    "a line that begins and ends with quoted words": (
        '"fees" and "limits"',
        "search",
        {"query": '"fees" and "limits"'},
        {"bare_string"},
    ),
    "a statement over several lines": (
        "SELECT a\n  FROM b\nWHERE c = 1",
        "sql",
        {"statement": "SELECT a\n  FROM b\nWHERE c = 1"},
        {"bare_string"},
    ),
    "a bare string and prose behind a blank line": (
        "Oslo\n\nI will wait for the result.",
        "weather",
        {"city": "Oslo"},
        {"bare_string", "trailing_text"},
    ),
    "a bare string that begins with a bracket": (
        "[2024] annual report",
        "search",
        {"query": "[2024] annual report"},
        {"bare_string"},
    ),
    "a bare address keeps its colon": (
        "https://bank.example/a?b=c",
        "search",
        {"query": "https://bank.example/a?b=c"},
        {"bare_string"},
    ),
    "a bare string with a colon in Chinese": (
        "跨境理财通：开户条件",
        "search",
        {"query": "跨境理财通：开户条件"},
        {"bare_string"},
    ),
    "a statement that is a call": (
        'lower("A")',
        "sql",
        {"statement": 'lower("A")'},
        {"bare_string"},
    ),
    "a flat line in backticks": (
        "city: `Oslo`",
        "weather",
        {"city": "Oslo"},
        {"flat_lines", "backticks_removed"},
    ),
    "curly quotes in pairs inside curly quotes": (
        "{“query”: “他说“你好”了”}",
        "search",
        {"query": "他说“你好”了"},
        {"curly_quotes", "inner_quotes"},
    ),
    "a bare string in other scripts": (
        "अहमदाबाद",
        "weather",
        {"city": "अहमदाबाद"},
        {"bare_string"},
    ),
    "nothing at all": ("", "time", {}, {"empty_as_object"}),
    "None": ("None", "time", {}, {"empty_as_object"}),
    "N/A with a full stop": ("N/A.", "time", {}, {"empty_as_object"}),
    "null": ("null", "time", {}, {"empty_as_object"}),
    "无": ("无", "time", {}, {"empty_as_object"}),
    "an empty text in quotes": ('""', "time", {}, {"empty_as_object"}),
    "None with a remark": ("None (no input needed)", "time", {}, {"empty_as_object"}),
    "nothing for a tool whose parameters are all optional": (
        "",
        "list",
        {},
        {"empty_as_object"},
    ),
    "None at the start of a bare text is text": (
        "None of the above",
        "search",
        {"query": "None of the above"},
        {"bare_string"},
    ),
    "the same object twice": (
        '{"city": "Oslo"}{"city": "Oslo"}',
        "weather",
        {"city": "Oslo"},
        {"repeat_collapsed"},
    ),
    "the same object three times, written differently": (
        '{"city": "Oslo"}\n{"city":"Oslo"}\n{ "city" : "Oslo" }',
        "weather",
        {"city": "Oslo"},
        {"repeat_collapsed"},
    ),
    "the same object and its envelope": (
        '{"city": "Oslo"}\n{"name": "weather", "arguments": {"city": "Oslo"}}',
        "weather",
        {"city": "Oslo"},
        {"repeat_collapsed", "envelope_unwrapped"},
    ),
    "pieces that each repeat the one before": (
        '{"ci{"city": "Os{"city": "Oslo"}',
        "weather",
        {"city": "Oslo"},
        {"repeat_collapsed"},
    ),
    "a word and a colon behind the object": (
        '{"city": "Oslo"}, note: it is cold',
        "weather",
        {"city": "Oslo"},
        {"trailing_text"},
    ),
    "closers behind the object": (
        '{"city": "Lyon"}]}',
        "weather",
        {"city": "Lyon"},
        {"extra_closers"},
    ),
    "a quote and a brace behind the object": (
        '{"city": "Lyon"}"}',
        "weather",
        {"city": "Lyon"},
        {"extra_closers"},
    ),
    "a template token behind the object": (
        '{"city": "Lyon"}<|im_end|>',
        "weather",
        {"city": "Lyon"},
        {"template_token"},
    ),
    "a closing tag behind the object": (
        '{"city": "Lyon"}\n</tool_call>',
        "weather",
        {"city": "Lyon"},
        {"template_token"},
    ),
    "a template token behind a bare string": (
        "Lyon<|im_end|>",
        "weather",
        {"city": "Lyon"},
        {"bare_string", "template_token"},
    ),
    "part of a stop word behind the object": (
        '{"city": "Lyon"}\nObserv',
        "weather",
        {"city": "Lyon"},
        {"trailing_text"},
    ),
    "a sentence behind the object": (
        '{"base": "THB", "quote": "CNY"}\n\n以上参数会返回报价。',
        "rate",
        {"base": "THB", "quote": "CNY"},
        {"trailing_text"},
    ),
    "an object inside a sentence behind the object is prose": (
        '{"city": "Oslo"} as in the example {"city": "Bath"} above',
        "weather",
        {"city": "Oslo"},
        {"trailing_text"},
    ),
    "braces inside a string": (
        '{"query": "placeholder {name} and a stray } brace"} done',
        "search",
        {"query": "placeholder {name} and a stray } brace"},
        {"trailing_text"},
    ),
    "prose before the object": (
        'Here is the input: {"city": "Oslo"}',
        "weather",
        {"city": "Oslo"},
        {"leading_text"},
    ),
    "the name before the object": (
        'weather {"city": "Oslo"}',
        "weather",
        {"city": "Oslo"},
        {"leading_text"},
    ),
    "prose on both sides for a tool with two parameters": (
        'Use {"base": "EUR", "quote": "CNY"} as the input.',
        "rate",
        {"base": "EUR", "quote": "CNY"},
        {"leading_text", "trailing_text"},
    ),
    "only the last brace is missing": (
        '{"city": "Ghent"',
        "weather",
        {"city": "Ghent"},
        {"closers_added"},
    ),
    "two closers are missing": (
        '{"query": "x", "sites": ["a", "b"',
        "search",
        {"query": "x", "sites": ["a", "b"]},
        {"closers_added"},
    ),
    "a closer is missing behind a literal": (
        '{"query": "x", "official": true',
        "search",
        {"query": "x", "official": True},
        {"closers_added"},
    ),
    "a closer is missing in front of a token": (
        '{"city": "Ghent"<|im_end|>',
        "weather",
        {"city": "Ghent"},
        {"closers_added", "template_token"},
    ),
    "a closer is missing inside a fence": (
        '```json\n{"city": "Ghent"\n```',
        "weather",
        {"city": "Ghent"},
        {"closers_added", "fence_removed"},
    ),
    "a fence": (
        '```json\n{\n  "city": "南昌"\n}\n```',
        "weather",
        {"city": "南昌"},
        {"fence_removed"},
    ),
    "a fence on one line": (
        '```json {"city": "Oslo"}```',
        "weather",
        {"city": "Oslo"},
        {"fence_removed"},
    ),
    "a fence of tildes with text behind it": (
        '~~~\n{"city": "Oslo"}\n~~~\nThat is the input.',
        "weather",
        {"city": "Oslo"},
        {"fence_removed", "trailing_text"},
    ),
    "an open fence": ('```\n{"city": "Oslo"}', "weather", {"city": "Oslo"}, {"fence_removed"}),
    "a fence around a statement": (
        "```sql\nSELECT a\nFROM b\n```",
        "sql",
        {"statement": "SELECT a\nFROM b"},
        {"fence_removed", "bare_string"},
    ),
    "backticks around an object": (
        '`{"city": "Oslo"}`',
        "weather",
        {"city": "Oslo"},
        {"backticks_removed"},
    ),
    "backticks around a bare string": (
        "`Oslo`",
        "weather",
        {"city": "Oslo"},
        {"backticks_removed", "bare_string"},
    ),
    "a lone half of a character": (
        '{"city": "a\\ud800b"}',
        "weather",
        {"city": "a\ufffdb"},
        {"surrogate_replaced"},
    ),
    "an escaped NUL": ('{"city": "a\\u0000b"}', "weather", {"city": "ab"}, {"nul_dropped"}),
    "nested objects with references": (
        "{'start': {'city': 'Ωμέγα'}, 'stops': [{'city': 'القاهرة'}, {'city': 'กรุงเทพ',},]}",
        "route",
        {"start": {"city": "Ωμέγα"}, "stops": [{"city": "القاهرة"}, {"city": "กรุงเทพ"}]},
        {"single_quotes", "trailing_comma"},
    ),
    "null for a nullable parameter": ('{"text": null}', "note", {"text": None}, set()),
    "three faults at once": (
        "```json\n{'query': 'a', 'official': True,}\n```\nThis will search.",
        "search",
        {"query": "a", "official": True},
        {
            "fence_removed",
            "single_quotes",
            "python_literals",
            "trailing_comma",
            "trailing_text",
        },
    ),
    "curly quotes, fullwidth colon and a comment": (
        "{“city”：“Kyiv” /* 首都 */}",
        "weather",
        {"city": "Kyiv"},
        {"curly_quotes", "fullwidth_punctuation", "comments"},
    ),
    "a wrapper in a fence with a token behind it": (
        '```\n{"args": {"city": "Oslo"}}\n```<|eot_id|>',
        "weather",
        {"city": "Oslo"},
        {"wrapper_unwrapped", "fence_removed", "template_token"},
    ),
    "a repeat with a trailing comma": (
        '{"city": "Oslo",}\n{"city": "Oslo"}',
        "weather",
        {"city": "Oslo"},
        {"trailing_comma", "repeat_collapsed"},
    ),
}

# text, tool, kind
REFUSED: dict[str, tuple[str, str, str]] = {
    "a duplicate key": ('{"city": "Oslo", "city": "Bergen"}', "weather", "bad_arguments_syntax"),
    "a duplicate key in relaxed form": (
        "{'city': 'Oslo', city: 'Bergen'}",
        "weather",
        "bad_arguments_syntax",
    ),
    "NaN": ('{"amount": NaN, "unit": "m"}', "convert", "bad_arguments_syntax"),
    "minus Infinity": ('{"amount": -Infinity, "unit": "m"}', "convert", "bad_arguments_syntax"),
    "an infinite number": ('{"amount": 1e999, "unit": "m"}', "convert", "bad_arguments_syntax"),
    "a number with too many digits": (
        '{"amount": ' + "9" * 4301 + ', "unit": "m"}',
        "convert",
        "bad_arguments_syntax",
    ),
    "arithmetic": ('{"amount": 1200*12, "unit": "m"}', "convert", "bad_arguments_syntax"),
    "a percentage": ('{"amount": 12%, "unit": "m"}', "convert", "bad_arguments_syntax"),
    "a leading zero": ('{"amount": 007, "unit": "m"}', "convert", "bad_arguments_syntax"),
    "a decimal comma": ('{"amount": 12,50, "unit": "m"}', "convert", "bad_arguments_syntax"),
    "a separator behind a zero": (
        '{"amount": 0,500, "unit": "m"}',
        "convert",
        "bad_arguments_syntax",
    ),
    "a separator group that is too long": (
        '{"amount": 12,5000, "unit": "m"}',
        "convert",
        "bad_arguments_syntax",
    ),
    "good and bad escapes in one string": (
        '{"path": "C:\\temp\\Files"}',
        "open",
        "bad_arguments_syntax",
    ),
    "an operator between strings": (
        '{"query": "a" + "b"}',
        "search",
        "bad_arguments_syntax",
    ),
    "strings side by side": ('{"query": "a" "b"}', "search", "bad_arguments_syntax"),
    "a word between strings": (
        '{"query": "rates" or "fees"}',
        "search",
        "bad_arguments_syntax",
    ),
    "a missing comma before a key": (
        '{"query": "x" "since": "2024"}',
        "search",
        "bad_arguments_syntax",
    ),
    "a missing comma on a new line": (
        '{"query": "x"\n"since": "2024"}',
        "search",
        "bad_arguments_syntax",
    ),
    "a missing comma before an unquoted key": (
        '{query: "x" since: "2024"}',
        "search",
        "bad_arguments_syntax",
    ),
    "two strings where one is wanted": ('{"query": "a", "b"}', "search", "bad_arguments_syntax"),
    "an inner quote before a key that the schema lacks": (
        '{"query": "say "hi"", "limit": "3"}',
        "search",
        "bad_arguments_syntax",
    ),
    "inner quotes that leave no object for the schema": (
        '{"base": "the "old" one"}',
        "rate",
        "bad_arguments_syntax",
    ),
    "inner quotes where the object may end twice": (
        '{"query": "the set {"a"} is"}',
        "search",
        "bad_arguments_syntax",
    ),
    "inner quotes in a list": (
        '{"query": "x", "sites": ["a "b" c"]}',
        "search",
        "bad_arguments_syntax",
    ),
    "two values with one odd quote each": (
        '{"query": "he wrote "x", "since": "y" in it"}',
        "search",
        "bad_arguments_syntax",
    ),
    "a second end behind the object": (
        '{"query": "foo"} bar"}',
        "search",
        "bad_arguments_syntax",
    ),
    "an unquoted text value": ("{city: Oslo}", "weather", "bad_arguments_syntax"),
    "braces that do not match": ('{"sites": ["a"}', "search", "bad_arguments_syntax"),
    "braces missing around keys": (
        '"base": "USD", "quote": "KRW"',
        "rate",
        "bad_arguments_syntax",
    ),
    "two keys on one flat line": (
        "base: USD, quote: KRW",
        "rate",
        "bad_arguments_syntax",
    ),
    "a second key inside the text of a flat line": (
        "query: rates, since: 2024",
        "search",
        "bad_arguments_syntax",
    ),
    "a bare word in a pair": ("base=GBP, quote=JPY", "rate", "bad_arguments_syntax"),
    "a bare word in a call": ("weather(Oslo)", "weather", "bad_arguments_syntax"),
    "a positional argument behind a named one": (
        'rate(base="EUR", "CNY")',
        "rate",
        "bad_arguments_syntax",
    ),
    "a parameter given twice": (
        'rate("EUR", base="CNY")',
        "rate",
        "bad_arguments_syntax",
    ),
    "more arguments than parameters": (
        'weather("Oslo", "Bergen")',
        "weather",
        "bad_arguments_syntax",
    ),
    "a label that is no parameter before a bare text": (
        "location: Oslo",
        "weather",
        "bad_arguments_syntax",
    ),
    "a pair whose key is no parameter": ('location="Oslo"', "weather", "schema_violation"),
    "a bare text over two lines": ("Oslo\n(waiting)", "weather", "bad_arguments_syntax"),
    "a quoted text with quotes inside": (
        '"say "hi" now"',
        "search",
        "bad_arguments_syntax",
    ),
    "an example object inside a question": (
        'how do I write {"query": "x"} in JSON',
        "search",
        "bad_arguments_syntax",
    ),
    "two objects in prose": (
        'Either {"base": "EUR", "quote": "CNY"} or maybe {"base": "USD", "quote": "CNY"}',
        "rate",
        "ambiguous_calls",
    ),
    "two different objects": (
        '{"city": "Oslo"}{"city": "Bergen"}',
        "weather",
        "ambiguous_calls",
    ),
    "two different objects with a comma": (
        '{"city": "Oslo"}, {"city": "Bergen"}',
        "weather",
        "ambiguous_calls",
    ),
    "two different objects on two lines": (
        '{"city": "Oslo"}\n\n{"city": "Bergen"}',
        "weather",
        "ambiguous_calls",
    ),
    "two different objects with a word between them": (
        '{"city": "Oslo"} and {"city": "Bergen"}',
        "weather",
        "ambiguous_calls",
    ),
    "an empty object and then another": ('{}{"city": "Oslo"}', "weather", "ambiguous_calls"),
    "another object that is cut": (
        '{"city": "Oslo"}\n{"city": "Ber',
        "weather",
        "ambiguous_calls",
    ),
    "another object that differs in a type alone": (
        '{"page": 1}{"page": true}',
        "list",
        "ambiguous_calls",
    ),
    "another call behind the object": (
        '{"city": "Oslo"}\nweather(city="Bergen")',
        "weather",
        "ambiguous_calls",
    ),
    "another tool's call as the value": ('search("Oslo")', "weather", "ambiguous_calls"),
    "another tool's envelope as the value": (
        '{"name": "search", "arguments": {"query": "x"}}',
        "weather",
        "ambiguous_calls",
    ),
    "a list of texts": ('["Oslo"]', "weather", "bad_arguments_shape"),
    "a list of two objects": (
        '[{"city": "Oslo"}, {"city": "Bergen"}]',
        "weather",
        "bad_arguments_shape",
    ),
    "an empty list": ("[]", "time", "bad_arguments_shape"),
    "a bare value for two parameters": ("USD to EUR", "rate", "bad_arguments_shape"),
    "a quoted value for two parameters": ('"USD"', "rate", "bad_arguments_shape"),
    "a bare value for a tool without parameters": ("Berlin", "time", "bad_arguments_shape"),
    "nothing for a tool that needs something": ("", "weather", "schema_violation"),
    "None for a tool that needs something": ("None", "weather", "schema_violation"),
    "None with a remark for a tool that needs something": (
        "None (not needed)",
        "weather",
        "schema_violation",
    ),
    "an empty text in quotes for a tool that needs something": (
        '""',
        "weather",
        "schema_violation",
    ),
    "a missing parameter": ('{"base": "EUR"}', "rate", "schema_violation"),
    "an extra parameter": ('{"city": "Oslo", "days": 3}', "weather", "schema_violation"),
    "a key in another case": ('{"City": "Oslo"}', "weather", "schema_violation"),
    "a number as text": ('{"amount": "5", "to": "a"}', "transfer", "schema_violation"),
    "a value that is not allowed": ('{"mode": "turbo"}', "mode", "schema_violation"),
    "a schema given back": (
        '{"city": {"type": "string", "description": "City name"}}',
        "weather",
        "schema_violation",
    ),
    "a wrapper around a bare text": ('{"input": "Oslo"}', "weather", "schema_violation"),
    "a call of an unknown function": ('dict(city="Oslo")', "weather", "bad_arguments_syntax"),
    "a call with a text": ('lookup("Oslo")', "weather", "bad_arguments_syntax"),
    "a tag around the text": ("<city>Oslo</city>", "weather", "bad_arguments_syntax"),
    "a key inside square brackets": ("[city: Oslo]", "weather", "bad_arguments_syntax"),
    "an arrow behind a key": ("city -> Oslo", "weather", "bad_arguments_syntax"),
    "a pair inside bracket form": ('weather[city="Oslo"]', "weather", "bad_arguments_syntax"),
    "a pair inside a text in quotes": ('"city=Oslo"', "weather", "bad_arguments_syntax"),
    "a pair inside the text of a call": ('weather("city=Oslo")', "weather", "bad_arguments_syntax"),
    "dots alone": ("...", "weather", "bad_arguments_syntax"),
    "bold text": ("**Oslo**", "weather", "bad_arguments_syntax"),
    "texts side by side": ('"fees", "limits"', "search", "bad_arguments_syntax"),
    "a brace that was not opened": ("Oslo}", "weather", "bad_arguments_syntax"),
    "a flat line with a brace that was not opened": (
        "city: Oslo}",
        "weather",
        "bad_arguments_syntax",
    ),
    "a token that may be part of the text": (
        "what is <|im_end|>",
        "search",
        "bad_arguments_syntax",
    ),
    "curly quotes that are no pairs": (
        "{“query”: “他说“你好”}",
        "search",
        "bad_arguments_syntax",
    ),
    "mixed curly and straight quotes": ('{“city": "Oslo”}', "weather", "bad_arguments_syntax"),
    "double braces": ('{{"city": "Oslo"}}', "weather", "bad_arguments_syntax"),
    "null in a flat line where null is allowed": (
        "text: null",
        "note",
        "bad_arguments_syntax",
    ),
    "a YAML block": ("query: |\n  two\n  lines", "search", "bad_arguments_syntax"),
    "a Chinese label that is no parameter": ("城市：北京", "weather", "bad_arguments_syntax"),
    "two calls with a word between them": (
        'weather("Oslo") and weather("Bergen")',
        "weather",
        "ambiguous_calls",
    ),
    "cut inside a string": ('{"city": "Os', "weather", "truncated_output"),
    "cut behind an escaped quote": ('{"city": "Os\\"', "weather", "truncated_output"),
    "cut behind a backslash": ('{"city": "Os\\', "weather", "truncated_output"),
    "cut inside a number": ('{"unit": "m", "amount": 12', "convert", "truncated_output"),
    "cut inside a literal": ('{"query": "x", "official": tr', "search", "truncated_output"),
    "cut inside a key": ('{"base": "EUR", "quo', "rate", "truncated_output"),
    "cut inside an unquoted key": ('{base: "EUR", quo', "rate", "truncated_output"),
    "cut behind a key": ('{"base": "EUR", "quote"', "rate", "truncated_output"),
    "cut behind a colon": ('{"base": "EUR", "quote":', "rate", "truncated_output"),
    "cut behind a comma": ('{"city": "Ghent",', "weather", "truncated_output"),
    "cut behind the first brace": ("{", "weather", "truncated_output"),
    "cut where a parameter is still missing": ('{"base": "EUR"', "rate", "truncated_output"),
    "cut at a quote that may open a word": (
        '{"query": "he said "',
        "search",
        "truncated_output",
    ),
    "cut behind inner quotes": (
        '{"query": "the "old" town',
        "search",
        "truncated_output",
    ),
    "cut inside a call": ('weather(city="Os', "weather", "truncated_output"),
    "cut inside an encoded object": ('"{\\"city\\": \\"Os', "weather", "truncated_output"),
    "an encoded object that is cut": ('"{\\"city\\": \\"Os"', "weather", "truncated_output"),
    "cut inside quotes around a text": ('"median del', "search", "truncated_output"),
    "cut inside bracket form": ("search[two wo", "search", "truncated_output"),
    "cut behind a flat key": ("base: EUR\nquote:", "rate", "truncated_output"),
    "brackets nested too deep": (
        '{"q": ' + "[" * 200 + "]" * 200 + "}",
        "free",
        "bad_arguments_syntax",
    ),
    "a flood of brackets": ("[" * 100_000, "weather", "bad_arguments_syntax"),
}


@pytest.mark.parametrize("name", READ)
def test_what_has_one_reading_is_read(name: str) -> None:
    text, tool_name, arguments, names = READ[name]
    reading = read(text, tool_name)
    assert reading.failure is None
    assert json.dumps(reading.arguments, sort_keys=True) == json.dumps(arguments, sort_keys=True)
    assert repairs(reading) == names
    assert names <= ARGUMENT_REPAIRS.keys()


@pytest.mark.parametrize("name", READ)
def test_at_level_strict_a_repair_is_a_failure(name: str) -> None:
    text, tool_name, arguments, names = READ[name]
    reading = read(text, tool_name, level="strict")
    if not names:
        assert reading.arguments == arguments
        return
    kind = "truncated_output" if "closers_added" in names else "bad_arguments_syntax"
    assert reading.failure is not None
    assert reading.failure.kind == kind
    assert reading.arguments is None


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_one_reading_is_refused(name: str) -> None:
    text, tool_name, kind = REFUSED[name]
    reading = read(text, tool_name)
    assert reading.arguments is None
    assert reading.failure is not None
    assert reading.failure.kind == kind
    assert reading.failure.message.endswith(".")
    assert reading.failure.position is not None
    assert 0 <= reading.failure.position <= len(text)
    assert read(text, tool_name, level="strict").arguments is None


@pytest.mark.parametrize(
    ("name", "text", "tool_name", "expected"),
    [
        ("an empty text for a tool that takes nothing", "", "time", {}),
        ("a fence", '```json\n{"city": "Oslo"}\n```', "weather", {"city": "Oslo"}),
        ("prose before the object", 'Sure: {"city": "Oslo"}', "weather", {"city": "Oslo"}),
        ("a text in quotes", '"Oslo"', "weather", "bad_arguments_shape"),
        (
            "an object closed before its last field",
            '{"city": "Oslo"},"unit":"C"}',
            "weather",
            "bad_arguments_syntax",
        ),
        (
            "an object closed before its last field, the name bare",
            '{"city": "Oslo"}, city: "Rome"}',
            "weather",
            "bad_arguments_syntax",
        ),
        ("a number", "5", "weather", "bad_arguments_shape"),
        ("a bare text", "Oslo", "weather", "bad_arguments_syntax"),
        ("a flat line", "city: Oslo", "weather", "bad_arguments_syntax"),
        ("a pair", 'city="Oslo"', "weather", "bad_arguments_syntax"),
        ("a call", 'weather(city="Oslo")', "weather", "bad_arguments_syntax"),
        ("braces missing", '"city": "Oslo"', "weather", "bad_arguments_syntax"),
        ("an empty text for a tool that needs something", "", "weather", "schema_violation"),
    ],
)
def test_native_arguments_have_no_text_forms(
    name: str, text: str, tool_name: str, expected: Any
) -> None:
    reading = read(text, tool_name, text_forms=False)
    got = reading.arguments if reading.failure is None else reading.failure.kind
    assert got == expected, name


LENGTH = {
    "a complete object stands": ('{"city": "Oslo"}', "weather", None),
    "missing closers are a cut": ('{"city": "Oslo"', "weather", "truncated_output"),
    "a bare text may go on": ("Osl", "weather", "truncated_output"),
    "a last flat line may go on": ("base: EUR\nquote: C", "rate", "truncated_output"),
    "a last bare number of pairs may go on": (
        'unit="m", amount=12',
        "convert",
        "truncated_output",
    ),
    "no value yet": ("", "time", "truncated_output"),
    "a quoted text is closed": ('"Oslo"', "weather", None),
    "a call is closed": ('weather(city="Oslo")', "weather", None),
    "a call without its parenthesis is a cut": (
        'weather(city="Oslo"',
        "weather",
        "truncated_output",
    ),
}


@pytest.mark.parametrize("name", LENGTH)
def test_at_the_length_limit_only_a_complete_value_is_read(name: str) -> None:
    text, tool_name, kind = LENGTH[name]
    reading = read(text, tool_name, finish_reason="length")
    assert (reading.failure.kind if reading.failure else None) == kind


# text behind the name, tool, dialect, arguments or kind, the same at level strict
FORMS: dict[str, tuple[str, str, str, Any, Any]] = {
    "call: keywords": ('(city="Oslo")', "weather", "call", {"city": "Oslo"}, {"city": "Oslo"}),
    "call: Python literals are literals": (
        "(query='x', official=True)",
        "search",
        "call",
        {"query": "x", "official": True},
        {"query": "x", "official": True},
    ),
    "call: nothing": ("()", "time", "call", {}, {}),
    "call: nothing where something is needed": (
        "()",
        "weather",
        "call",
        "schema_violation",
        "schema_violation",
    ),
    "call: punctuation inside a string": (
        '(query="fee (EUR), limit=5", sites=["a.example", "b"])',
        "search",
        "call",
        {"query": "fee (EUR), limit=5", "sites": ["a.example", "b"]},
        {"query": "fee (EUR), limit=5", "sites": ["a.example", "b"]},
    ),
    "call: positional arguments are a repair": (
        '("EUR", quote="CNY")',
        "rate",
        "call",
        {"base": "EUR", "quote": "CNY"},
        "bad_arguments_syntax",
    ),
    "call: an object is a repair": (
        '({"city": "Oslo"})',
        "weather",
        "call",
        {"city": "Oslo"},
        "bad_arguments_syntax",
    ),
    "call: inner quotes": (
        '(query="hello, "world"")',
        "search",
        "call",
        {"query": 'hello, "world"'},
        "bad_arguments_syntax",
    ),
    "call: inner quotes before another parameter": (
        '(query="the "old" town", since="2024")',
        "search",
        "call",
        {"query": 'the "old" town', "since": "2024"},
        "bad_arguments_syntax",
    ),
    "call: inner quotes before a name that is no parameter": (
        '(query="the "old" town", limit="3")',
        "search",
        "call",
        "bad_arguments_syntax",
        "bad_arguments_syntax",
    ),
    "call: fullwidth parentheses": (
        "（“上海”）",
        "weather",
        "json",
        {"city": "上海"},
        "bad_arguments_syntax",
    ),
    "call: the last parenthesis is missing": (
        '(city="Oslo"',
        "weather",
        "call",
        {"city": "Oslo"},
        "truncated_output",
    ),
    "call: cut inside a string": (
        '(city="北',
        "weather",
        "call",
        "truncated_output",
        "truncated_output",
    ),
    "call: cut behind a number": (
        '(to="a", amount=12',
        "transfer",
        "call",
        "truncated_output",
        "truncated_output",
    ),
    "call: a sentence behind it": (
        '(city="北京")\n这是因为用户问的是天气',
        "weather",
        "call",
        {"city": "北京"},
        "bad_arguments_syntax",
    ),
    "call: another call behind it": (
        '(city="Oslo"), weather(city="Bergen")',
        "weather",
        "call",
        "ambiguous_calls",
        "ambiguous_calls",
    ),
    "call: a comparison is no keyword": (
        '(city=="Oslo")',
        "weather",
        "call",
        "bad_arguments_syntax",
        "bad_arguments_syntax",
    ),
    "call: a nested call is refused": (
        "(city=lower('OSLO'))",
        "weather",
        "call",
        "bad_arguments_syntax",
        "bad_arguments_syntax",
    ),
    "call: separators in positional numbers are several arguments": (
        '(12,500, "USD")',
        "convert",
        "json",
        "bad_arguments_syntax",
        "bad_arguments_syntax",
    ),
    "call: another dialect was asked for": (
        '(city="Oslo")',
        "weather",
        "bracket",
        {"city": "Oslo"},
        "bad_arguments_syntax",
    ),
    "bracket: text": ("[南宁]", "weather", "bracket", {"city": "南宁"}, {"city": "南宁"}),
    "bracket: quotes around the whole text": (
        '["Stoke-on-Trent"]',
        "weather",
        "bracket",
        {"city": "Stoke-on-Trent"},
        {"city": "Stoke-on-Trent"},
    ),
    "bracket: an object for two parameters": (
        '[{"base": "SGD", "quote": "INR"}]',
        "rate",
        "bracket",
        {"base": "SGD", "quote": "INR"},
        {"base": "SGD", "quote": "INR"},
    ),
    "bracket: nothing": ("[]", "time", "bracket", {}, {}),
    "bracket: an object for one parameter": (
        '[{"city": "Oslo"}]',
        "weather",
        "bracket",
        {"city": "Oslo"},
        "bad_arguments_syntax",
    ),
    "bracket: brackets inside the text": (
        "[table [4] footnote]",
        "search",
        "bracket",
        {"query": "table [4] footnote"},
        {"query": "table [4] footnote"},
    ),
    "bracket: a bracket inside quotes": (
        '["a ] b"]',
        "search",
        "bracket",
        {"query": "a ] b"},
        {"query": "a ] b"},
    ),
    "bracket: an apostrophe is text": (
        "[what's new]",
        "search",
        "bracket",
        {"query": "what's new"},
        {"query": "what's new"},
    ),
    "bracket: a sentence behind it": (
        "[Oslo] is the city",
        "weather",
        "bracket",
        {"city": "Oslo"},
        "bad_arguments_syntax",
    ),
    "bracket: two ends": (
        "[fees] because [1]",
        "search",
        "bracket",
        "bad_arguments_syntax",
        "bad_arguments_syntax",
    ),
    "bracket: text for two parameters": (
        "[USD, EUR]",
        "rate",
        "bracket",
        "bad_arguments_shape",
        "bad_arguments_shape",
    ),
    "bracket: cut": (
        "[two wo",
        "search",
        "bracket",
        "truncated_output",
        "truncated_output",
    ),
    "bracket: None for a tool that needs something": (
        "[None]",
        "weather",
        "bracket",
        "schema_violation",
        "bad_arguments_syntax",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_behind_a_name(name: str) -> None:
    text, tool_name, dialect, hardened, strict = FORMS[name]
    for level, wanted in (("hardened", hardened), ("strict", strict)):
        reading = read_form(
            text,
            TOOLS[tool_name],
            level=level,  # type: ignore[arg-type]
            dialect=dialect,  # type: ignore[arg-type]
            offered=tuple(TOOLS),
        )
        got = reading.arguments if reading.failure is None else reading.failure.kind
        assert got == wanted, level


ENDS = {
    "an object": ('{"a": 1} tail', '{"a": 1}'),
    "a label inside a string": ('{"a": "b\nAction: c"}\nAction: d', '{"a": "b\nAction: c"}'),
    "inner quotes": ('{"q": "什么是"碳"的"}\nObservation: x', '{"q": "什么是"碳"的"}'),
    "a missing brace before a new line": ('{"a": "b"\nObservation: x', '{"a": "b"'),
    "a comma before a label": ('{"a": "b",\nObservation: {"c": 1}}', '{"a": "b",'),
    "single quotes with an apostrophe": ("{'q': 'what's up'}\nThought:", "{'q': 'what's up'}"),
    "a call": ('(city="x)")\nThought:', '(city="x)")'),
    "a call with inner quotes": ('(q="a, "b"")\nThought:', '(q="a, "b"")'),
    "bare text in brackets": ("[a [4] b]\nThought:", "[a [4] b]"),
    "bare text in an open bracket": ("[a\nObservation: b]", "[a"),
    "a quoted text": ('"a b" c', '"a b"'),
    "a quoted text over lines": ('"a\nAction: b"\nThought:', '"a\nAction: b"'),
    "an open quote": ('"a\nObservation: "b" c', '"a'),
    "a fence": ('```json\n{"a": 1}\n```\nThought:', '```json\n{"a": 1}\n```'),
    "a fence of text": ("```\nAction: x\n```\nThought:", "```\nAction: x\n```"),
    "backticks": ("`a` b", "`a`"),
    "a value that never closes": ('{"a": [1,', '{"a": [1,'),
    "anything else has no extent": ("abc", ""),
}


@pytest.mark.parametrize("name", ENDS)
def test_where_a_value_ends(name: str) -> None:
    text, value = ENDS[name]
    assert text[: value_end(text, 0)] == value
    assert value_end("ab" + text, 2) == 2 + len(value)


ENVELOPES = {
    "name and arguments": ({"name": "f", "arguments": {"a": 1}}, ("f", {"a": 1})),
    "action and action_input": ({"action": "f", "action_input": "x"}, ("f", "x")),
    "an outer tool_call": ({"tool_call": {"tool": "f", "args": {}}}, ("f", {})),
    "a function with its type": (
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        ("f", "{}"),
    ),
    "a name alone": ({"name": "f"}, ("f", None)),
    "another key beside them": ({"name": "f", "arguments": {}, "city": "x"}, None),
    "two inputs": ({"name": "f", "arguments": {}, "input": {}}, None),
    "no name": ({"arguments": {}}, None),
    "a list": ([1], None),
}


@pytest.mark.parametrize("name", ENVELOPES)
def test_envelopes(name: str) -> None:
    value, wanted = ENVELOPES[name]
    assert open_envelope(value) == wanted


def test_positions_and_fields_are_the_callers() -> None:
    reading = read('{"city": "Os', "weather", field="calls[1].arguments", base=100)
    assert reading.failure is not None
    assert (reading.failure.position, reading.failure.field) == (109, "calls[1].arguments")
    mended = read('{"city": "Oslo",} and so on', "weather", base=50)
    assert [(r.name, r.position) for r in mended.repairs] == [
        ("trailing_comma", 65),
        ("trailing_text", 67),
    ]
    assert [(d.start, d.end) for d in mended.dropped] == [(67, 77)]
    assert mended.end == 17


TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="{}[]()\"'“”‘：，,:=\\ \n`abc1.-tN\ud800\0", max_size=40),
    st.sampled_from([case[0] for case in READ.values() if len(case[0]) < 300]),
)
PIECES = st.lists(
    st.sampled_from(
        [
            '{"city": "Oslo"',
            "}",
            '"',
            "'",
            ",",
            "\n",
            '"query": "x"',
            ": ",
            "(",
            ")",
            "[",
            "]",
            "```",
            "<|im_end|>",
            "\\",
            "city=",
            "city: ",
            "None",
            "1,000",
            '"""',
            "{'a': 1}",
            "“",
            "//",
            "\u00a0",
        ]
    ),
    max_size=12,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.one_of(TEXTS, PIECES), st.sampled_from(sorted(TOOLS)), st.booleans())
def test_reading_is_total_and_strict_is_part_of_hardened(
    text: str, tool_name: str, text_forms: bool
) -> None:
    hardened = read(text, tool_name, text_forms=text_forms)
    strict = read(text, tool_name, text_forms=text_forms, level="strict")
    assert (hardened.arguments is None) == (hardened.failure is not None)
    assert 0 <= hardened.end <= len(text)
    if strict.failure is None:
        assert strict.arguments == hardened.arguments
        assert not strict.repairs
    for opener in ("", "(", "["):
        reading = read_form(opener + text, TOOLS[tool_name])
        assert (reading.arguments is None) == (reading.failure is not None)
    assert 0 <= value_end(text, 0) <= len(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abcß中"), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.text("abc中é", min_size=1), JSON, max_size=4), st.booleans())
def test_a_clean_object_is_read_as_it_is_at_every_level(
    arguments: dict[str, Any], ascii_only: bool
) -> None:
    anything = Tool("any", "", {"type": "object"})
    text = json.dumps(arguments, ensure_ascii=ascii_only)
    for level in ("strict", "hardened", "rescue"):
        reading = read_arguments(text, anything, level=level)  # type: ignore[arg-type]
        assert reading.failure is None
        assert json.dumps(reading.arguments) == json.dumps(arguments)
        assert not reading.repairs


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0\\'"), min_size=1, max_size=20),
    st.sampled_from(["{{'query': '{}'}}", "[{{'query': '{}',}}]", "```\n{{query: '{}'}}\n```"]),
)
def test_relaxed_syntax_never_changes_a_text(text: str, frame: str) -> None:
    reading = read(frame.format(text), "search")
    if reading.failure is None and "```" not in text:
        assert reading.arguments == {"query": text}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_prefix_of_an_object_is_read_as_another(data: st.DataObject) -> None:
    value = {"query": data.draw(st.sampled_from(['say "no"', "a, b", "x\\y", "12", "天 气"]))}
    value |= data.draw(st.sampled_from([{}, {"official": True}, {"sites": ["a", "b"]}]))
    text = json.dumps(value, ensure_ascii=False)
    cut = text[: data.draw(st.integers(1, len(text)))]
    reading = read(cut, "search", text_forms=data.draw(st.booleans()))
    if reading.failure is None:
        assert reading.arguments is not None
        assert all(
            value[key] == item or item == value[key][:1] for key, item in reading.arguments.items()
        )


HOSTILE = [
    "{",
    "[",
    '{"a":',
    '"',
    '\\"',
    "{'a': '",
    '{"query": "a "b" c", ',
    "(",
    'a="',
    "a: b\n",
    "```\n",
    "“",
    "1,",
    "{}\n",
    '" "',
    '"query": "a", ',
    " ",
    "\n",
    "/*",
    '"}',
    "`",
    "\0",
    "\ud800",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_input_ends_soon(unit: str) -> None:
    text = '{"query": "x" ' + unit * (200_000 // len(unit))
    for value in (text, text[14:]):
        start = time.process_time()
        read(value, "search")
        read(value, "search", text_forms=False)
        value_end(value, 0)
        assert time.process_time() - start < 3
