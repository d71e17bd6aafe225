"""Texts that make careless readers slow, deep or wrong, at any length. Data and one function."""

from collections.abc import Callable, Mapping

_STEP = "Thought: x\nAction: search\nAction Input: "
_STRING = _STEP + '{"query": "'
_CALL = "Thought: x\nAction: search("

Flood = tuple[str, str, str]
"""A beginning, what is repeated, and an end."""

FLOODS: Mapping[str, Flood] = {
    "spaces behind Action:": ("Thought: x\nAction:", " ", ""),
    "Action: on one line": ("", "Action: ", ""),
    "Action: on every line": ("", "\nAction: a", ""),
    "empty lines, then Action:": ("Thought: x", "\n", "Action: a"),
    "Action Input: again and again": ("Action: search", '\nAction Input: {"query": "x"}', ""),
    "another input each line": ("Action: search", "\nAction Input: x y", ""),
    "Final Answer: again and again": ("", "\nFinal Answer: a", ""),
    "Thought: again and again": ("", "Thought: x\n", ""),
    "Observation: again and again": ("Thought: x\n", "Observation: x\n", ""),
    "pieces of Observation": ("Thought: x\n", "Observ\n", ""),
    "Action: None again and again": ("", "Action: None\n", ""),
    "whole steps": ("", _STEP + '{"query": "x"}\n', ""),
    "steps with other tools": ("", "Action: nothing\nAction Input: {}\n", ""),
    "labels inside one line": ("", "Action: search Action Input: x ", ""),
    "bold and quoted labels": ("", "> **Action**: search\n", ""),
    "list and heading marks": ("", "- # 1. > ", "Action: search"),
    "Chinese labels": ("", "行动：search\n输入：x\n", ""),
    "names on the action line": ("Action: ", "get_weather ", ""),
    "functions. before a name": ("Action: ", "functions.", "search"),
    "quotes around a name": ("Action: ", '"', "search"),
    "open braces": (_STEP, "{", ""),
    "open brackets": (_STEP, "[", ""),
    "open parentheses": (_CALL, "(", ""),
    "nested objects, open": (_STEP, '{"a":', ""),
    "nested lists, open": (_STRING + 'x", "sites": ', "[", ""),
    "closing braces": (_STEP + '{"query": "x"}', "}", ""),
    "braces and brackets in turn": (_STEP, "{[", ""),
    "open and closed braces": (_STEP, "{}", ""),
    "objects glued together": (_STEP, '{"query": "x"}', ""),
    "objects on lines": (_STEP, '{"query": "x"}\n', ""),
    "quotes": (_STEP, '"', ""),
    "single quotes": (_STEP + "{", "'", "}"),
    "both quotes in turn": (_STEP + "{", "\"'", "}"),
    "curly quotes": (_STEP + "{", "“", ""),
    "triple quotes": (_STEP, '"""', ""),
    "escaped quotes, unclosed": (_STRING, '\\"', ""),
    "quoted words inside a string": (_STRING, 'a "b" ', '"}'),
    "ends of strings inside a string": (_STRING, '", "', '"}'),
    "keys inside a string": (_STRING, '", "query": "', '"}'),
    "keys and colons inside a string": (_STRING, '":', '"}'),
    "backslashes": (_STRING, "\\", '"}'),
    "good and bad escapes": (_STRING, "\\n\\q", '"}'),
    "escaped line ends between tokens": (_STEP + "{", "\\n", '"query": "x"}'),
    "unicode escapes": (_STRING, "\\u4e2d", '"}'),
    "half surrogates": (_STRING, "\\ud800", '"}'),
    "real half surrogates": (_STRING, "\ud800", '"}'),
    "NUL": (_STRING, "\x00", '"}'),
    "commas": (_STEP + "{", ",", "}"),
    "colons": (_STEP + "{", ":", "}"),
    "fullwidth punctuation": (_STEP + "｛", "：，", ""),
    "one key again and again": (_STEP + "{", '"query": "x", ', '"query": "x"}'),
    "keys without quotes": (_STEP + "{", "query: x, ", "}"),
    "comments": (_STEP + "{", "/*", "}"),
    "line comments": (_STEP + "{", "// x\n", '"query": "x"}'),
    "HTML comments": (_STEP, "<!--", ""),
    "digits": (_STEP + '{"amount": ', "9", "}"),
    "thousands": (_STEP + '{"amount": ', "100,", "}"),
    "key=value": (_STEP, 'a="b", ', ""),
    "key=value in a call": (_CALL, 'a="b", ', ""),
    "one parameter in a call": (_CALL, 'query="b", ', ")"),
    "parentheses in a string": (_CALL + '"', '")', '")'),
    "flat lines": (_STEP + "\n", "query: x\n", ""),
    "brackets behind a name": ("Thought: x\nAction: search[", "]", ""),
    "fences": (_STEP, "```\n", ""),
    "fences around steps": ("", "```\n" + _STEP + "{}\n```\n", ""),
    "backticks": (_STEP, "`", ""),
    "zero-width spaces": (_STEP + "{", "\u200b", '"query": "x"}'),
    "no-break spaces": (_STEP + "{", "\u00a0", '"query": "x"}'),
    "BOMs": ("", "\ufeff", "Action: search"),
    "carriage returns": (_STEP, "\r", ""),
    "think blocks, open": ("", "<think>", ""),
    "think blocks, closed": ("", "<think>a</think>", ""),
    "ends of think blocks": ("", "a</think>", ""),
    "control tokens": ("Thought: x\n", "<|", ""),
    "whole control tokens": ("Thought: x\n", "<|im_end|>", ""),
    "<tool_call>": ("", "<tool_call>", ""),
    "whole <tool_call>": ("", '<tool_call>{"name": "search", "arguments": {}}</tool_call>', ""),
    "<tool_call> with an open object": ("", '<tool_call>{"name": "search", "arguments": {', ""),
    "<function=…>": ("", "<function=search><parameter=query>", ""),
    "[TOOL_CALLS]": ("", "[TOOL_CALLS]", ""),
    "[TOOL_CALLS] with an open list": ("[TOOL_CALLS]", '[{"name": "search", ', ""),
    "<|python_tag|>": ("", "<|python_tag|>search.call(", ""),
    "Kimi's sections": ("", "<|tool_calls_section_begin|><|tool_call_begin|>", ""),
    "DeepSeek's tokens": ("", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", ""),
    "<invoke>": ("", '<invoke name="search"><parameter name="query">', ""),
    "arg_key": ("<tool_call>search\n", "<arg_key>query</arg_key><arg_value>", ""),
    "Qwen-Agent's marks": ("", "✿FUNCTION✿: search\n✿ARGS✿: ", ""),
    "Harmony channels": ("", "<|channel|>commentary to=functions.search<|message|>", ""),
    "a pythonic list, cut": ("[", 'search(query="x"), ', ""),
    "call expressions": ("", "search(", ""),
    "objects with a name": ("", '{"name": "search", "arguments": {', ""),
    "fenced objects with a name": ("", '```json\n{"name": "search", "arguments": {}}\n```\n', ""),
    "a long thought, then a call": (
        "Thought: ",
        "汉字 and words. ",
        "\n" + _STEP + '{"query": "x"}',
    ),
    "a long answer": ("Thought: x\nFinal Answer: ", "words and Action, ", ""),
    "a long string in a good call": (_STRING, "words, ", '"}'),
    "prose without a label": ("", "words, and more of them. ", ""),
}


def _spaced_labels(size: int) -> str:
    gap = "\n\t" * (size // 8)
    return f"Action{gap}:{gap}Action{gap}Input{gap}"


def _closed(opening: str, middle: str, closing: str) -> Callable[[int], str]:
    unit = len(opening) + len(closing)
    return lambda size: _STEP + opening * (size // unit) + middle + closing * (size // unit)


def _flood(head: str, unit: str, tail: str) -> Callable[[int], str]:
    return lambda size: head + unit * (size // len(unit)) + tail


HOSTILE: Mapping[str, Callable[[int], str]] = {
    **{name: _flood(*parts) for name, parts in FLOODS.items()},
    "white space between labels": _spaced_labels,
    "nested brackets, closed": _closed("[", "", "]"),
    "nested parentheses, closed": _closed("(", "", ")"),
    "nested objects, closed": _closed('{"a":', "1", "}"),
}
"""For each name a text of about so many characters."""

NAMES: tuple[str, ...] = (
    *("../../x", "/etc/passwd", "C:\\Windows\\x", "CON", "x" * 10_000, "a\0b", "a\nb"),
    *("-rf", "$(touch x)"),
)
"""Names that careless writers take for a path, a flag or a command."""

TERMINAL: Mapping[str, str] = {
    "a colour": "\x1b[31mred",
    "a title": "\x1b]0;title\x07",
    "the 8-bit escape": "\x9b31m",
    "a turn of the line": "a\rb\x08\x08c",
    "a turn of the direction": "\u202egnihton\u202c",
    "an isolate": "\u2066x\u2069",
    "what is not seen": "a\u200bb\u2060c\U000e0041",
    "a line of another kind": "a\u2028b\u2029c\x85d",
    "NUL": "a\x00b",
    "half a surrogate": "a\ud800b",
}
"""Texts that steer a terminal, or make it show something else than what is there."""
