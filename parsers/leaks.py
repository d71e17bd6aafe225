"""Calls to offered tools that stand outside their channel: native markup in a text.

Marker, offered name and payload must all be there; prose about markup is prose. Nothing here
knows ReAct labels or the fields of a message.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import regex

from parsers.arguments import ArgumentReading, read_arguments, read_form
from parsers.extents import value_end
from parsers.names import match_name
from parsers.region import INPUT_KEYS, SPACES, open_envelope
from parsers.relaxed import Cut, Scanner, Unread, span_end
from parsers.schema import takes
from parsers.types import Call, Failure, Level, Repair, Tool


@dataclass(slots=True)
class LeakReading:
    """Calls found in markup, the span [start, end) they stand in, and the markup's name.

    Below level rescue `failure` is out_of_channel_call and every call carries it. At rescue the
    calls stand for themselves; `failure` is set where none of them is good, and where the markup
    may be a quotation: with other text behind it, or in backticks.
    """

    calls: tuple[Call, ...]
    start: int
    end: int
    form: str
    failure: Failure | None = None
    repairs: tuple[Repair, ...] = ()


@dataclass(slots=True)
class _Found:
    """One call in markup: what was read of it, and where it stands."""

    name: str
    tool: Tool | None
    reading: ArgumentReading
    raw: str
    start: int
    end: int


@dataclass(slots=True)
class _Source:
    """A text, the tools offered, where its readings belong, and how much may still be looked at."""

    text: str
    tools: tuple[Tool, ...]
    field: str
    finish_reason: str | None
    budget: int

    def tool(self, name: str) -> Tool | None:
        """Give the offered tool that a native name means."""
        return match_name(name, self.tools, where="native").tool

    def spend(self, characters: int) -> None:
        """Keep the whole search linear, whatever the markers are."""
        self.budget -= characters + 64
        if self.budget < 0:
            raise _Exhausted


def begins_markup(text: str, start: int, end: int) -> bool:
    """Whether native markup of a call begins at a place."""
    return text[start : start + 1] in _FIRST and _MARKERS.match(text, start, end) is not None


class _Exhausted(Exception):  # noqa: N818
    """Too much of the text was looked at in vain."""


_Parse = Callable[[_Source, int, int], list[_Found]]
"""Reads the calls of one marker at [start, end); an empty list where it is prose."""

_BAR = r"[|｜│∣]"
_JOIN = r"[▁_ ]"
_VENDOR = rf"(?:antml:|minimax:|steptml:|{_BAR}?DSML{_BAR})?"
"""Before `invoke` and `parameter`: whose tags they are."""
_MARKERS = regex.compile(
    rf"(?P<box><(?:tool_calls?|function_calls?)>|<\|tool_calls?(?:_start)?\|>"
    rf"|<(?:minimax|antml):(?:tool_call|function_calls)>)"
    rf"|(?P<function><function(?:=|\s+name\s*=\s*)[\"']?)"
    rf"|(?P<invoke><{_VENDOR}invoke\s+name\s*=\s*[\"'])"
    rf"|(?P<mistral>\[TOOL_CALLS\])"
    rf"|(?P<llama><\|python_tag\|>)"
    rf"|(?P<kimi><\|tool_call_begin\|>)"
    rf"|(?P<deepseek><{_BAR}tool{_JOIN}call{_JOIN}begin{_BAR}>)"
    rf"|(?P<qwen>✿FUNCTION✿[ \t]*+[:：]?)"
    rf"|(?P<harmony>\bto=(?:functions\.)?(?=[\p{{L}}_]))"
    rf"|(?P<code>(?:`{{3,}}|~{{3,}})tool_code\b[ \t]*+\r?\n)"
)
_FIRST = frozenset("<[✿")
_SIGNS = ("<", "[TOOL_CALLS]", "✿FUNCTION✿", "to=", "tool_code")
"""One of these stands in every marker: most texts hold none, and need no search."""
_NAME = regex.compile(r"[\p{L}_][\p{L}\p{M}\p{N}_.:\-]*+")
_SPACE = regex.compile(r"\s*+")
_TAG_CLOSE = regex.compile(r"</?(?:tool_calls?|function_calls?)>|<\|/?tool_calls?(?:_end)?\|>")
_GLM_PAIR = regex.compile(r"\s*+<arg_key>([^<]{0,200})</arg_key>\s*+<arg_value>")
_PARAMETER = regex.compile(
    rf"\s*+<{_VENDOR}parameter"
    r"(?:=[\"']?(?P<plain>[^<>\"'\s]{1,200})[\"']?|\s++name\s*+=\s*+[\"'](?P<quoted>[^\"'<>]{1,200})[\"'])"
    r"(?:\s++string\s*+=\s*+[\"'](?P<string>true|false)[\"'])?\s*+>"
)
_PARAMETER_END = regex.compile(
    rf"</{_VENDOR}parameter>"
    rf"|(?=\s*+(?:</{_VENDOR}(?:invoke|function)>|</tool_call>"
    rf"|<{_VENDOR}parameter[ =]))"
)
_BLOCK_END = regex.compile(rf"\s*+</{_VENDOR}(?:invoke|function)>")
_DEEPSEEK_SEPARATOR = regex.compile(rf"<{_BAR}tool{_JOIN}sep{_BAR}>")
_HARMONY_HEAD = regex.compile(
    r"(?:\s*+<\|channel\|>)?\s*+(?:commentary|analysis)?\s*+(?:<\|constrain\|>)?\s*+(?:json)?\s*+"
    r"(?:code)?\s*+(?:<\|message\|>)?\s*+"
)
_CODE_HEAD = regex.compile(
    r"(?:[\p{L}_][\p{L}\p{N}_]*+[ \t]*+=[ \t]*+)?+(?:print[ \t]*+\([ \t]*+)?+(?:default_api\.)?+"
)
"""What stands before a call in a line of Gemini's code: a variable, `print(`, its module."""
_CODE_CLOSE = regex.compile(r"\s*+\)")
_QWEN_ARGUMENTS = regex.compile(r"\s*+✿ARGS✿[ \t]*+[:：]?\s*+")
_MISTRAL_HEAD = regex.compile(r"(?:\[CALL_ID\][\w\-]{1,40})?(?:\[ARGS\])?\s*+")
_OBJECT_START = regex.compile(
    r"[\[{]\s*+(?:\{\s*+)?[\"'](?:name|tool|tool_name|action|function|tool_call|tool_calls|arguments"
    r"|parameters|id|type|thought|reasoning)[\"']\s*+:"
)
_WRITTEN_NAME = regex.compile(
    r"[\"'](?:name|tool|tool_name|action|function)[\"']\s*+:\s*+[\"']([^\"'\n]{1,120})[\"']"
)
_WRITTEN_INPUT = regex.compile(rf"[\"'](?:{'|'.join(INPUT_KEYS)})[\"']\s*+:\s*+")
_FENCE_OPEN = regex.compile(r"(?:`{3,}|~{3,})[\w+\-.#]*+\s*+")
_RESIDUE = regex.compile(
    rf"(?:\s|`++|~{{3,}}|</?[\w:{_BAR[1:-1]}▁]{{1,40}}>|<{_BAR}[^<>]{{1,40}}{_BAR}>|[)\]}}.;。]"
    rf"|✿[A-Z]{{1,12}}✿[:：]?)++"
)
_IDENTIFIER = regex.compile(r"[\p{L}_][\p{L}\p{M}\p{N}_.:\-]{0,63}")
_KEYWORD = regex.compile(r"[(（]\s*+[\p{L}_][\p{L}\p{N}_]*+\s*+=(?!=)")
_PLACEHOLDERS = frozenset(
    {"name", "tool_name", "function_name", "tool", "function", "your_tool", "toolname", "example"}
)
_WRAPPERS = regex.compile(rf"(?:<[\w:{_BAR[1:-1]}▁]{{1,40}}>\s*+|`{{3,}}[a-z_]*+\s*+|\[(?=\Z))++\Z")
_ONE_CALL = "a call expression"
_MAX_CALLS = 64
_NEAR = 1000
"""Characters in which a tag must end: a bound, since a failed match may look far ahead."""
_BUDGET = 65_536


def find_leaks(
    text: str,
    tools: Sequence[Tool],
    *,
    level: Level = "hardened",
    field: str = "text",
    finish_reason: str | None = None,
) -> LeakReading | None:
    """Find the calls that stand in native markup in a text; None where there are none.

    `field` names where the text comes from and gives the failure's detail: text is `native`,
    a reasoning field is `reasoning`, any other is `content`. A call that is cut short is
    `truncated_output` where no other call is whole; markup that names only tools that are not
    offered is `unknown_tool`.
    """
    source = _Source(text, tuple(tools), field, finish_reason, 3 * len(text) + _BUDGET)
    for search in (_by_marker, _by_shape):
        form, found = search(source)
        if found:
            return _reading(source, form, found, level)
    return None


def _reading(source: _Source, form: str, found: list[_Found], level: Level) -> LeakReading:
    start, end = _span(source.text, found)
    calls = tuple(_call(source, item) for item in found)
    repairs = tuple(repair for item in found for repair in item.reading.repairs)
    good = [call for call in calls if call.failure is None]
    failure = None if good else _first_failure(calls)
    known = any(item.tool is not None for item in found)
    cut = failure is not None and failure.kind == "truncated_output"
    if known and not cut and (level != "rescue" or _is_quoted(source, form, found, end)):
        failure = _out_of_channel(source, form, start)
        calls = tuple(
            call if call.failure is not None else replace(call, failure=failure) for call in calls
        )
    return LeakReading(calls, start, end, form, failure, repairs)


def _call(source: _Source, item: _Found) -> Call:
    if item.tool is None:
        return Call(item.name, None, None, item.raw, _unknown(source, item))
    reading = item.reading
    return Call(item.tool.name, reading.arguments, None, item.raw, reading.failure)


def _first_failure(calls: tuple[Call, ...]) -> Failure | None:
    failures = [call.failure for call in calls if call.failure is not None]
    for kind in ("truncated_output",):
        for failure in failures:
            if failure.kind == kind:
                return failure
    return failures[0] if failures else None


def _out_of_channel(source: _Source, form: str, start: int) -> Failure:
    detail = "content"
    if source.field == "text":
        detail = "native"
    elif "reasoning" in source.field:
        detail = "reasoning"
    words = f"A tool call stands outside its channel, written as {form}."
    return Failure("out_of_channel_call", detail, words, start, source.field)


def _unknown(source: _Source, item: _Found) -> Failure:
    found = match_name(item.name, source.tools, where="native", field=source.field, base=item.start)
    return found.failure or Failure("unknown_tool", None, "", item.start, source.field)


def _span(text: str, found: list[_Found]) -> tuple[int, int]:
    """Give where the calls stand, with the tags and tokens directly around them."""
    start, end = found[0].start, max(item.end for item in found)
    around = _WRAPPERS.search(text, max(0, start - 200), start)
    behind = _RESIDUE.match(text, end)
    return int(around.start()) if around else start, int(behind.end()) if behind else end


def _is_quoted(source: _Source, form: str, found: list[_Found], end: int) -> bool:
    """Tell whether calls may be shown and not meant.

    So they may be in backticks, inside a sentence, or, without a marker or in reasoning, with
    other words behind them.
    """
    text, start = source.text, found[0].start
    line = text.rfind("\n", 0, start) + 1
    before = text[line:start].strip(" \t")
    rest = text[end:].strip(SPACES + "`")
    stop = text[found[-1].end : end].rstrip().endswith((".", "。"))
    inside = bool(before) and (stop or (bool(rest) and "\n" not in text[end - 1 : end + 1]))
    if (before.endswith("`") and before.strip("`")) or inside:
        return True
    draft = "reasoning" in source.field
    if draft and any(_has_words(text[a.end : b.start]) for a, b in pairwise(found)):
        return True
    by_shape = form not in _FORMS.values()
    if rest and (draft or by_shape) and not rest.startswith(("<|", "<｜")):
        return True
    return form == _ONE_CALL and _has_words(_FENCE_OPEN.sub("", text[:start]))


def _has_words(text: str) -> bool:
    return bool(_RESIDUE.sub("", text).strip())


def _by_marker(source: _Source) -> tuple[str, list[_Found]]:
    """Read every marker in turn; what one marker's calls cover is not looked at again."""
    found: list[_Found] = []
    form = ""
    at = 0 if any(sign in source.text for sign in _SIGNS) else len(source.text)
    while len(found) < _MAX_CALLS:
        marker = _MARKERS.search(source.text, at)
        if not marker or marker.lastgroup is None:
            break
        try:
            calls = _PARSERS[marker.lastgroup](source, marker.start(), marker.end())
        except _Exhausted:
            break
        calls = [call for call in calls if _may_be_meant(call)]
        if calls:
            form = form or _FORMS[marker.lastgroup]
            found += calls
        at = max([marker.end(), *(call.end for call in calls)])
    return form, found


def _may_be_meant(call: _Found) -> bool:
    """Take a name that is no identifier, or stands for any name, for prose about markup."""
    plain = call.name.removeprefix("functions.")
    return call.tool is not None or (
        bool(_IDENTIFIER.fullmatch(plain)) and plain.casefold() not in _PLACEHOLDERS
    )


def _skip(text: str, at: int) -> int:
    return span_end(_SPACE, text, at)


def _read(source: _Source, tool: Tool, start: int, end: int) -> ArgumentReading:
    """Read a payload's text as the arguments of a tool."""
    whole = end >= len(source.text)
    return read_arguments(
        source.text[start:end],
        tool,
        finish_reason=source.finish_reason if whole else None,
        field=source.field,
        base=start,
    )


def _read_decoded(source: _Source, tool: Tool, value: Any, at: int) -> ArgumentReading:
    """Read arguments that were decoded with the object around them."""
    if value is None:
        text = ""
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    reading = read_arguments(text, tool, field=source.field, base=0)
    failure = reading.failure and replace(reading.failure, position=at)
    return replace(reading, failure=failure, dropped=(), repairs=_real(reading.repairs))


def _real(repairs: tuple[Repair, ...]) -> tuple[Repair, ...]:
    return tuple(repair for repair in repairs if repair.name != "empty_as_object")


def _failed(failure: Failure) -> ArgumentReading:
    return ArgumentReading(None, failure)


def _truncated(source: _Source, at: int) -> ArgumentReading:
    words = "A tool call in the text ends before it is complete."
    return _failed(Failure("truncated_output", None, words, at, source.field))


def _payload_end(source: _Source, start: int) -> int:
    """Find where a payload that begins with a bracket or a fence ends."""
    text = source.text
    end = value_end(text, start)
    source.spend(end - start)
    close = _TAG_CLOSE.search(text, start) if end >= len(text) else None
    return int(close.start()) if close else end


def _named_payload(source: _Source, name: str, start: int, at: int) -> list[_Found]:
    """Read a payload behind a name, in a fence or bare."""
    text = source.text
    fence = _FENCE_OPEN.match(text, at)
    value = int(fence.end()) if fence else at
    tool = source.tool(name)
    if text[value : value + 1] != "{":
        return _without_payload(source, name, tool, start, at)
    end = _payload_end(source, value)
    if tool is None:
        return [_Found(name, None, ArgumentReading(None, None), text[value:end], start, end)]
    return [_Found(name, tool, _read(source, tool, value, end), text[value:end], start, end)]


def _without_payload(
    source: _Source, name: str, tool: Tool | None, start: int, at: int
) -> list[_Found]:
    """Take a name without payload for cut at the text's end, else for prose."""
    if tool is None or _skip(source.text, at) < len(source.text):
        return []
    return [_Found(name, tool, _truncated(source, at), "", start, at)]


def _objects(source: _Source, start: int, at: int) -> list[_Found]:
    """Read an object or a list of objects that name tools."""
    text = source.text
    scanner = Scanner(text, at, len(text), {})
    try:
        value = scanner.value(None)
    except Unread as unread:
        source.spend(scanner.position - at)
        return _broken_object(source, start, at, cut=isinstance(unread, Cut))
    end = scanner.position
    source.spend(end - at)
    named = list(_envelopes(value))
    if not scanner.closed and named and source.finish_reason == "length":
        return _broken_object(source, start, at, cut=True)
    found = []
    for name, arguments in named:
        tool = source.tool(name)
        reading = ArgumentReading(None, None)
        if tool is None and not isinstance(arguments, dict):
            continue
        if tool is not None:
            reading = _read_decoded(source, tool, arguments, at)
            marks = tuple(
                Repair(mark, place, source.field) for mark, place in scanner.marks.items()
            )
            reading = replace(reading, repairs=(*marks, *reading.repairs))
            if not scanner.closed and reading.failure is not None:
                reading = _truncated(source, end)
        found.append(_Found(name, tool, reading, text[at:end], start, end))
    return found


def _envelopes(value: Any) -> Iterator[tuple[str, Any]]:
    """Give the name and input of each call in an object, a list, or under tool_calls."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    for item in value if isinstance(value, list) else [value]:
        found = open_envelope(item)
        if found is not None:
            yield found


def _broken_object(source: _Source, start: int, at: int, *, cut: bool) -> list[_Found]:
    """Read an object that only the tool's own schema may settle, or that is cut short."""
    text = source.text
    end = _payload_end(source, at)
    name = _WRITTEN_NAME.search(text, at, end)
    tool = source.tool(name.group(1)) if name else None
    if name is None or tool is None:
        return []
    if cut:
        return [_Found(tool.name, tool, _truncated(source, at), text[at:end], start, end)]
    inside = _WRITTEN_INPUT.search(text, at, end)
    if not inside or text[inside.end() : inside.end() + 1] != "{":
        words = "A tool call in the text cannot be read."
        failure = Failure("bad_arguments_syntax", None, words, at, source.field)
        return [_Found(tool.name, tool, _failed(failure), text[at:end], start, end)]
    value = int(inside.end())
    stop = value_end(text, value)
    reading = _read(source, tool, value, stop)
    return [_Found(tool.name, tool, reading, text[value:stop], start, max(end, stop))]


def _parse_box(source: _Source, start: int, at: int) -> list[_Found]:
    """Read what stands in `<tool_call>`: an object, a list, calls, or a name with pairs."""
    text = source.text
    inside = _skip(text, at)
    fence = _FENCE_OPEN.match(text, inside)
    inside = int(fence.end()) if fence else inside
    here = text[inside : inside + 1]
    if here == "{":
        return _objects(source, start, inside)
    if here == "[":
        return _objects(source, start, inside) or _pythonic(source, start, inside)
    name = _NAME.match(text, inside)
    if not name:
        return []
    behind = _skip(text, name.end())
    if text.startswith("<arg_key>", behind):
        return _glm(source, name.group(), start, behind)
    if text.startswith("{", behind):
        return _named_payload(source, name.group(), start, behind)
    if text.startswith("(", behind):
        return _expression(source, start, inside)
    close = _TAG_CLOSE.match(text, behind)
    tool = source.tool(name.group())
    if close and tool is not None:
        reading = _read_decoded(source, tool, None, behind)
        return [_Found(tool.name, tool, reading, "", start, close.end())]
    return []


def _glm(source: _Source, name: str, start: int, at: int) -> list[_Found]:
    """Read GLM's pairs of arg_key and arg_value."""
    tool, text = source.tool(name), source.text
    values: dict[str, Any] = {}
    begin = at
    while pair := _GLM_PAIR.match(text, at, at + _NEAR):
        stop = text.find("</arg_value>", pair.end())
        if stop < 0:
            return [_Found(name, tool, _truncated(source, at), text[begin:], start, len(text))]
        key = pair.group(1).strip()
        if key in values:
            return [_Found(name, tool, _doubled(source, at), text[begin:stop], start, stop)]
        values[key] = _typed(tool, key, text[pair.end() : stop], None)
        at = stop + len("</arg_value>")
    if text.startswith("<arg_key", _skip(text, at)):
        return [_Found(name, tool, _truncated(source, at), text[begin:], start, len(text))]
    return [_from_values(source, name, tool, values, (start, begin, at))]


def _doubled(source: _Source, at: int) -> ArgumentReading:
    words = "A tool call in the text gives one parameter twice."
    return _failed(Failure("bad_arguments_syntax", "duplicate_key", words, at, source.field))


def _from_values(
    source: _Source,
    name: str,
    tool: Tool | None,
    values: dict[str, Any],
    places: tuple[int, int, int],
) -> _Found:
    start, begin, end = places
    raw = source.text[begin:end]
    if tool is None:
        return _Found(name, None, ArgumentReading(None, None), raw, start, end)
    return _Found(name, tool, _read_decoded(source, tool, values, begin), raw, start, end)


def _typed(tool: Tool | None, key: str, written: str, marked: str | None) -> Any:
    """Give a value in markup: text, or a JSON literal where the schema wants no string."""
    text = written
    for edge in ("\r\n", "\n"):
        if text.startswith(edge) or text.endswith(edge):
            text = text.removeprefix(edge).removesuffix(edge)
            break
    if "\n" not in text:
        text = text.strip(SPACES)
    is_text = tool is None or takes(tool, key, "string")
    if marked == "true" or (marked is None and is_text):
        return text
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _literal(text)


def _literal(text: str) -> Any:
    """Read a Python literal's True, False or None; leave any other text to the schema."""
    return {"True": True, "False": False, "None": None}.get(text.strip(), text)


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _parse_function(source: _Source, start: int, at: int) -> list[_Found]:
    """Read `<function=name>` with parameters in tags, or with an object."""
    text = source.text
    name = _NAME.match(text, at)
    if not name:
        return []
    close = text.find(">", name.end(), name.end() + 4)
    if close < 0:
        return _without_payload(source, name.group(), None, start, at)
    inside = _skip(text, close + 1)
    if text[inside : inside + 1] == "{":
        return _named_payload(source, name.group(), start, inside)
    return _parameters(source, name.group(), start, close + 1)


def _parse_invoke(source: _Source, start: int, at: int) -> list[_Found]:
    """Read `<invoke name="…">` with parameters in tags."""
    text = source.text
    name = _NAME.match(text, at)
    close = text.find(">", at, at + 200)
    if not name or close < 0:
        return []
    return _parameters(source, name.group(), start, close + 1)


def _parameters(source: _Source, name: str, start: int, at: int) -> list[_Found]:
    """Read parameters in tags, up to the tag that closes the call."""
    text, tool = source.text, source.tool(name)
    values: dict[str, Any] = {}
    begin = at
    while opening := _PARAMETER.match(text, at, at + _NEAR):
        end = _PARAMETER_END.search(text, opening.end())
        key = opening.group("plain") or opening.group("quoted")
        if not end:
            return [_Found(name, tool, _truncated(source, at), text[begin:], start, len(text))]
        if key in values:
            return [_Found(name, tool, _doubled(source, at), text[begin:at], start, end.end())]
        written = text[opening.end() : end.start()]
        values[key] = _typed(tool, key, written, opening.group("string"))
        at = end.end()
    return _closed_block(source, name, tool, values, (start, begin, at))


def _closed_block(
    source: _Source,
    name: str,
    tool: Tool | None,
    values: dict[str, Any],
    places: tuple[int, int, int],
) -> list[_Found]:
    start, begin, at = places
    text = source.text
    close = _BLOCK_END.match(text, at, at + _NEAR)
    if close:
        return [_from_values(source, name, tool, values, (start, begin, close.end()))]
    rest = text[at:].strip()
    if not values and rest and not rest.startswith("<"):
        return []
    found = _from_values(source, name, tool, values, (start, begin, at))
    cut = source.finish_reason == "length" or found.reading.failure is not None
    if tool is not None and (cut or (rest and not _TAG_CLOSE.match(rest))):
        return [replace(found, reading=_truncated(source, at))]
    return [found]


def _parse_mistral(source: _Source, start: int, at: int) -> list[_Found]:
    """Read `[TOOL_CALLS]` with a list of objects, or with a name and an object."""
    text = source.text
    inside = _skip(text, at)
    if text[inside : inside + 1] in ("[", "{") and not text.startswith("[TOOL_CALLS]", inside):
        return _objects(source, start, inside)
    name = _NAME.match(text, inside)
    if not name:
        return []
    head = span_end(_MISTRAL_HEAD, text, name.end())
    return _named_payload(source, name.group(), start, head)


def _parse_llama(source: _Source, start: int, at: int) -> list[_Found]:
    """Read what follows Llama's python tag: objects, or a call expression."""
    text = source.text
    found: list[_Found] = []
    at = _skip(text, at)
    while at < len(text) and len(found) < _MAX_CALLS:
        here = text[at]
        more = _objects(source, start, at) if here in "{[" else _expression(source, start, at)
        if not more and here == "[":
            more = _pythonic(source, start, at)
        if not more:
            break
        found += more
        at = _skip(text, more[-1].end)
        if text[at : at + 1] not in (";", ",", "{"):
            break
        at = _skip(text, at + 1) if text[at] in ";," else at
    return found


def _parse_deepseek(source: _Source, start: int, at: int) -> list[_Found]:
    """Read DeepSeek's tokens: `function`, a separator, a name and a fenced object, or a name first."""
    text = source.text
    separator = _DEEPSEEK_SEPARATOR.search(text, at, at + 300)
    if not separator:
        return []
    first = text[at : separator.start()].strip()
    behind = int(separator.end())
    if first == "function" and source.tool("function") is None:
        inside = _skip(text, behind)
        tag = _MARKERS.match(text, inside)
        if tag and tag.lastgroup == "invoke":
            return _parse_invoke(source, start, int(tag.end()))
        name = _NAME.match(text, inside)
        if not name:
            return []
        return _named_payload(source, name.group(), start, _skip(text, name.end()))
    return _named_payload(source, first, start, _skip(text, behind)) if first else []


def _parse_kimi(source: _Source, start: int, at: int) -> list[_Found]:
    """Read Kimi's `functions.NAME:INDEX` with an object."""
    text = source.text
    token = "<|tool_call_argument_begin|>"  # noqa: S105
    middle = text.find(token, at, at + 300)
    if middle < 0:
        return _parse_deepseek(source, start, at)
    name = text[at:middle].strip()
    return _named_payload(source, name, start, _skip(text, middle + len(token))) if name else []


def _parse_qwen(source: _Source, start: int, at: int) -> list[_Found]:
    """Read Qwen-Agent's `✿FUNCTION✿: name` and `✿ARGS✿: {…}`."""
    text = source.text
    name = _NAME.match(text, _skip(text, at))
    if not name:
        return []
    arguments = _QWEN_ARGUMENTS.match(text, name.end(), name.end() + _NEAR)
    if not arguments:
        return _without_payload(source, name.group(), None, start, at)
    return _named_payload(source, name.group(), start, int(arguments.end()))


def _parse_harmony(source: _Source, start: int, at: int) -> list[_Found]:
    """Read Harmony's `to=functions.NAME`, its channel and an object."""
    text = source.text
    name = _NAME.match(text, at)
    if not name:
        return []
    head = span_end(_HARMONY_HEAD, text, name.end())
    return _named_payload(source, name.group(), start, head)


def _parse_code(source: _Source, start: int, at: int) -> list[_Found]:
    """Read the lines of Gemini's `tool_code` fence, each a call, alone or in `print(…)`."""
    text = source.text
    found: list[_Found] = []
    at = _skip(text, at)
    while at < len(text) and len(found) < _MAX_CALLS:
        head = span_end(_CODE_HEAD, text, at)
        more = _expression(source, start, head, any_name=True)
        if not more:
            break
        close = _CODE_CLOSE.match(text, more[-1].end) if "print" in text[at:head] else None
        end = int(close.end()) if close else more[-1].end
        found.append(replace(more[-1], end=end))
        at = _skip(text, end)
    return found


_PARSERS: dict[str, _Parse] = {
    "box": _parse_box,
    "function": _parse_function,
    "invoke": _parse_invoke,
    "mistral": _parse_mistral,
    "llama": _parse_llama,
    "deepseek": _parse_deepseek,
    "kimi": _parse_kimi,
    "qwen": _parse_qwen,
    "harmony": _parse_harmony,
    "code": _parse_code,
}
_FORMS = {
    "box": "<tool_call> markup",
    "function": "<function=…> markup",
    "invoke": "<invoke> markup",
    "mistral": "[TOOL_CALLS]",
    "llama": "<|python_tag|>",
    "deepseek": "DeepSeek's call tokens",
    "kimi": "Kimi's call tokens",
    "qwen": "✿FUNCTION✿ markup",
    "harmony": "a Harmony channel",
    "code": "a tool_code fence",
}


def _by_shape(source: _Source) -> tuple[str, list[_Found]]:
    """Read calls without a marker: objects that name a tool, a list of calls, one call."""
    try:
        found = _by_object(source)
        if found:
            return "an object with a name and arguments", found
        text = source.text
        for at in dict.fromkeys((_whole_start(text), _last_line(text))):
            if text.startswith("[", at):
                form, found = "a list of calls", _pythonic(source, at, at)
            else:
                form, found = _ONE_CALL, _expression(source, at, at, any_name=True)
            if found and not text[found[-1].end :].strip(SPACES + "`~.;。"):
                return form, found
    except _Exhausted:
        pass
    return "", []


def _last_line(text: str) -> int:
    """Give where the last line that says something begins, behind marks of a list or a fence."""
    end = len(text.rstrip(SPACES + "`~"))
    at = _skip(text, text.rfind("\n", 0, end) + 1)
    return at + 1 if text.startswith("`", at) else at


def _by_object(source: _Source) -> list[_Found]:
    """Read every object that names a tool and holds its input."""
    found: list[_Found] = []
    at = 0
    while len(found) < _MAX_CALLS:
        candidate = _OBJECT_START.search(source.text, at)
        if not candidate:
            break
        start = int(candidate.start())
        calls = [call for call in _objects(source, start, start) if _may_be_meant(call)]
        found += calls
        at = max([candidate.end(), *(call.end for call in calls)])
    return found


def _whole_start(text: str) -> int:
    """Pass white space, a fence's opening, and prose that ends with the last line."""
    at = _skip(text, 0)
    fence = _FENCE_OPEN.match(text, at)
    if fence:
        return int(fence.end())
    return at + 1 if text.startswith("`", at) else at


def _pythonic(source: _Source, start: int, at: int) -> list[_Found]:
    """Read `[name(key=value), …]`."""
    text = source.text
    found: list[_Found] = []
    place = _skip(text, at + 1)
    while len(found) < _MAX_CALLS:
        more = _expression(source, start, place, any_name=True)
        if not more:
            return []
        found += more
        place = _skip(text, more[-1].end)
        here = text[place : place + 1]
        if here == ",":
            place = _skip(text, place + 1)
            here = text[place : place + 1]
        elif here != "]":
            return found if place >= len(text) else []
        if here == "]":
            found[-1] = replace(found[-1], end=place + 1)
            return found
    return found


def _expression(source: _Source, start: int, at: int, *, any_name: bool = False) -> list[_Found]:
    """Read `name(…)`, `name[…]` or `name {…}` for an offered name.

    With `any_name`, also `name(key=value)` for a name that is not offered.
    """
    text = source.text
    name = _NAME.match(text, at)
    if not name:
        return []
    behind = _skip(text, name.end())
    if text[behind : behind + 1] not in ("(", "（", "[", "{"):
        return []
    written = name.group().removesuffix(".call")
    tool = source.tool(written)
    if tool is None and not (any_name and _KEYWORD.match(text, behind)):
        return []
    end = value_end(text, behind)
    source.spend(end - behind)
    payload = text[behind:end]
    if tool is None:
        return [_Found(written, None, ArgumentReading(None, None), payload, start, end)]
    reading = _read_form(source, tool, behind, end)
    return [_Found(tool.name, tool, reading, payload, start, end)]


def _read_form(source: _Source, tool: Tool, start: int, end: int) -> ArgumentReading:
    """Read `(…)`, `[…]` or `{…}`; none of them is a repair here, where the form is the leak."""
    text = source.text
    cut = source.finish_reason if end >= len(text) else None
    if text[start] == "{":
        return _read(source, tool, start, end)
    return read_form(
        text[start:end],
        tool,
        dialect="bracket" if text[start] == "[" else "call",
        finish_reason=cut,
        field=source.field,
        base=start,
    )
