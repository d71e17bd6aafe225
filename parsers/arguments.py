"""The one argument reader of both drivers: a value's text and its tool in, the arguments out.

Each rung of the ladder is a named repair; what no rung reads is refused, never guessed. Nothing
here knows labels, moves or messages.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import regex

from parsers.extents import value_end
from parsers.forms import (
    holds_key,
    holds_program,
    read_bare,
    read_bracket,
    read_call,
    read_flat,
    read_pairs,
    read_quoted,
    says_nothing,
)
from parsers.region import SPACES, Refused, Region, decode_clean, decode_prefix, open_envelope
from parsers.relaxed import CLOSERS_OF, MAX_VALUES, Cut, Malformed, Scanner, Unread
from parsers.schema import check, single_text_parameter
from parsers.types import Dialect, Dropped, Failure, Level, Repair, Tool

__all__ = [
    "ARGUMENT_REPAIRS",
    "ArgumentReading",
    "open_envelope",
    "read_arguments",
    "read_form",
    "value_end",
]

ARGUMENT_REPAIRS: dict[str, str] = {
    "single_quotes": "Strings in single quotes were read as strings.",
    "curly_quotes": "Curly quotes around strings were read as quotes.",
    "triple_quotes": "A string in triple quotes was read as a string.",
    "fullwidth_punctuation": "Fullwidth punctuation between values was read as JSON's own.",
    "python_literals": "True, False and None were read as true, false and null.",
    "comments": "Comments between values were passed over.",
    "trailing_comma": "A comma before a closing bracket was passed over.",
    "unquoted_keys": "Keys without quotes were read as keys.",
    "raw_control": "Raw line ends or other control characters inside strings were kept.",
    "nbsp": "No-break and other special spaces between values were passed over.",
    "zero_width": "Zero-width characters or a BOM between values were passed over.",
    "escaped_whitespace": "Escaped white space between values was passed over.",
    "thousands_separator": "Commas inside a bare number were read as thousands separators.",
    "bare_backslash": "Backslashes that begin no escape were kept as they are.",
    "inner_quotes": "Quotes inside a string were kept as its content.",
    "double_encoded": "An object that was encoded as a string was decoded once more.",
    "list_unwrapped": "The one object in a list was taken out of it.",
    "wrapper_unwrapped": "The object under a wrapper key was taken out of it.",
    "envelope_unwrapped": "The arguments were taken out of an object that names the same tool.",
    "call_form": "The form name(key=value) was read.",
    "bracket_form": "The form name[text] was read.",
    "positional_arguments": "Arguments without names were matched by the parameters' order.",
    "key_value_form": "The form key=value was read.",
    "flat_lines": "Lines of the form key: value were read.",
    "bare_string": "Text without a key was read as the one parameter.",
    "empty_as_object": "Nothing was read as no arguments.",
    "repeat_collapsed": "The same object, given several times, was read once.",
    "trailing_text": "Text behind the value was dropped.",
    "leading_text": "Text before the value was dropped.",
    "extra_closers": "Closing brackets or quotes behind the value were dropped.",
    "template_token": "A template token or tag behind the value was dropped.",
    "fence_removed": "A fence around the value was taken off.",
    "backticks_removed": "Backticks around the value were taken off.",
    "closers_added": "Closing brackets that were missing at the end were added.",
    "surrogate_replaced": "Half a character was replaced by U+FFFD.",
    "nul_dropped": "A NUL inside a string was dropped.",
}
"""Every repair that can be made to arguments, with a sentence for people."""

_PLAIN_QUOTE = regex.compile(r"(?<!\\)\"")
_FENCE = regex.compile(r"(`{3,}|~{3,})[ \t]*+([\w+\-.#]*+)[ \t\r]*+(\n?)")
_FENCE_CLOSE = regex.compile(r"(?m)^[ \t]*+(?:`{3,}|~{3,})[ \t\r]*+$")
_CANDIDATES = 8


@dataclass(slots=True)
class ArgumentReading:
    """What a value's text says: `arguments` or `failure`, one of them None.

    `end` is the offset in the text that was given, just behind what was read as the value.
    """

    arguments: dict[str, Any] | None
    failure: Failure | None
    repairs: tuple[Repair, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    end: int = 0


def read_arguments(
    text: str,
    tool: Tool,
    *,
    level: Level = "hardened",
    finish_reason: str | None = None,
    text_forms: bool = False,
    field: str = "text",
    base: int = 0,
    offered: Collection[str] = (),
) -> ArgumentReading:
    """Read the arguments of one call from the text of its value.

    `text` is the value's region only; `base` is its position in `field`. Pass `finish_reason`
    only where the region runs to the end of the reply. With `text_forms` the forms that a ReAct
    prompt may ask for are read too. `offered` are the names of all tools: another tool's call in
    place of a value is `ambiguous_calls`.
    """
    value = decode_clean(text)
    if value is not None and check(tool, value) is None:
        return ArgumentReading(value, None, end=len(text))
    region = Region(text, tool, finish_reason, text_forms, offered)
    return _finish(region, _read, level, field, base)


def read_form(
    text: str,
    tool: Tool,
    *,
    level: Level = "hardened",
    finish_reason: str | None = None,
    dialect: Dialect = "json",
    field: str = "text",
    base: int = 0,
    offered: Collection[str] = (),
) -> ArgumentReading:
    """Read `(…)` or `[…]` as it stands behind a tool's name.

    With `dialect` call, `(…)` with keyword arguments and literals is the documented form, not a
    repair. With `dialect` bracket, `[…]` with text for a one-parameter tool, an object for another
    and nothing for none is.
    """
    region = Region(text, tool, finish_reason, True, offered, dialect)
    return _finish(region, _read_form, level, field, base)


def _finish(
    region: Region,
    read: Callable[[Region], dict[str, Any]],
    level: Level,
    field: str,
    base: int,
) -> ArgumentReading:
    """Run one reading and put it into the caller's coordinates and level."""
    arguments: dict[str, Any] | None = None
    failure: Failure | None = None
    try:
        arguments = read(region)
    except Refused as refused:
        failure = _failure(refused, field, base)
    ordered = sorted(region.repairs.items(), key=itemgetter(1))
    repairs = tuple([Repair(name, base + at, field) for name, at in ordered])
    if level == "strict" and repairs:
        failure = _strict_failure(failure, repairs, field)
        return ArgumentReading(None, failure, end=region.end)
    dropped = tuple(
        [Dropped(base + start, base + end, reason, field) for start, end, reason in region.dropped]
    )
    return ArgumentReading(arguments, failure, repairs, dropped, region.end)


def _failure(refused: Refused, field: str, base: int) -> Failure:
    return Failure(
        refused.kind, refused.detail, f"{refused.words}.", base + refused.position, field
    )


def _strict_failure(failure: Failure | None, repairs: tuple[Repair, ...], field: str) -> Failure:
    """Say what a value that needs mending is at level strict."""
    if failure is not None and failure.kind == "truncated_output":
        return failure
    names = {repair.name: repair for repair in repairs}
    if "closers_added" in names:
        at = names["closers_added"].position
        words = "The arguments end before they are complete: closing brackets are missing."
        return Failure("truncated_output", None, words, at, field)
    first = repairs[0]
    words = f"The arguments are not in the documented form: {ARGUMENT_REPAIRS[first.name]}"
    return Failure("bad_arguments_syntax", first.name, words, first.position, field)


def _read_form(region: Region) -> dict[str, Any]:
    region.cut_tail()
    match region.text[region.low : region.low + 1]:
        case "(" | "（":
            return read_call(region, region.low)
        case "[" | "［":
            return read_bracket(region, region.low)
    words = "a parenthesis or a bracket is wanted"
    raise region.malformed(Malformed(region.low, None, words))


def _read(region: Region) -> dict[str, Any]:
    """Go down the ladder: fences off, then the form that the first character shows."""
    region.cut_tail()
    if region.low < region.high:
        _take_off_fence(region)
    here = region.text[region.low] if region.low < region.high else ""
    if here and here in "{｛":
        return _read_object(region, region.low)
    if here and here in "[［":
        return _read_list(region)
    if here in CLOSERS_OF:
        return _read_quoted(region)
    if not here or says_nothing(region):
        return _read_nothing(region)
    return _read_text(region) if region.text_forms else _read_other(region)


def _read_nothing(region: Region) -> dict[str, Any]:
    if region.low < region.high:
        end = region.line_end(region.low)
        region.end = end
        region.after({}, end)
    return region.nothing(region.low)


def _take_off_fence(region: Region) -> None:
    """Narrow the window to what a fence or backticks hold."""
    text, low = region.text, region.low
    if text.startswith(("```", "~~~"), low):
        opening = _FENCE.match(text, low, region.high)
        if not opening:
            return
        inside = opening.end() if opening.group(3) else _behind_info(text, opening)
        close = _FENCE_CLOSE.search(text, inside, region.high)
        stop, behind = (close.start(), close.end()) if close else (region.high, region.high)
        inline = text.rfind(opening.group(1), inside, region.high)
        if not close and inline >= 0:
            stop, behind = inline, inline + len(opening.group(1))
        region.mark("fence_removed", low)
        region.narrow(inside, stop, behind)
    elif text[low] == "`":
        close_at = text.find("`", low + 1, region.high)
        rest = text[close_at + 1 : region.line_end(close_at)] if close_at > 0 else "?"
        if close_at > 0 and (
            not rest.strip(SPACES + ".。") or text.startswith(("{", "[", '"{', "'{"), low + 1)
        ):
            region.mark("backticks_removed", low)
            region.narrow(low + 1, close_at, close_at + 1)


def _behind_info(text: str, opening: Any) -> int:
    """Take the word behind an inline fence's marks for its language only before a value."""
    at = int(opening.end())
    if opening.group(2) and text[at : at + 1] in tuple("{[\"'(“"):
        return at
    return int(opening.end(1))


def _read_object(region: Region, at: int) -> dict[str, Any]:
    plain = decode_prefix(region.text, at, region.high)
    if plain is not None:
        return region.settle(plain[0], at, plain[1])
    try:
        value, end = region.scan(at, lambda scanner: scanner.value(region.tool.parameters))
    except Refused as refused:
        if refused.detail == "escaped_quotes":
            return _read_escaped(region, at)
        cumulated = _last_of_cumulative(region, at)
        if cumulated is None:
            raise
        region.mark("repeat_collapsed", at)
        region.end = region.high
        return region.checked(region.unwrap(cumulated, at), at)
    return region.settle(value, at, end)


def _read_escaped(region: Region, at: int) -> dict[str, Any]:
    """Read an object in which every quote is escaped: one that was encoded as a string."""
    closer = max(region.text.rfind(sign, at, region.high) for sign in "}｝") + 1
    stop = closer if closer > at else region.high
    written = region.text[at:stop]
    if _PLAIN_QUOTE.search(written):
        bad = Malformed(at, "escape", "escaped and plain quotes mix")
        raise region.malformed(bad)
    scanner = Scanner(f'"{written}"', 0, len(written) + 2, {})
    try:
        decoded = scanner.value(None)
    except Unread as bad:
        raise region.malformed(Malformed(at, bad.detail, bad.words)) from None
    region.mark("double_encoded", at)
    return region.settle(region.decode(decoded, at), at, stop)


def _last_of_cumulative(region: Region, at: int) -> dict[str, Any] | None:
    """Read pieces that each repeat all of the one before: the last one is whole."""
    text, high = region.text, region.high
    head = text[at : at + 2]
    starts: list[int] = []
    place = text.rfind(head, at + 1, high)
    while place > at and len(starts) < _CANDIDATES:
        starts.append(place)
        place = text.rfind(head, at + 1, place + len(head) - 1)
    for start in starts:
        value = decode_clean(text[start:high])
        if value is not None and _grows_to(text[at:start], text[start:high]):
            return value
    return None


def _grows_to(pieces: str, whole: str) -> bool:
    """Tell whether a text is prefixes of the whole, each at least as long as the one before."""
    at, last = 0, 1
    while at < len(pieces):
        length = _common(pieces, at, whole)
        if length < last:
            return False
        at, last = at + length, length
    return True


def _common(pieces: str, at: int, whole: str) -> int:
    """Give how much of the whole stands at a place."""
    low, high = 0, min(len(whole), len(pieces) - at)
    if pieces.startswith(whole[:high], at):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if pieces.startswith(whole[low:middle], at + low):
            low = middle
        else:
            high = middle
    return low


def _read_list(region: Region) -> dict[str, Any]:
    """Read a JSON list, which may hold the one object; in texts also text with brackets."""
    at = region.low
    bare = region.text_forms and single_text_parameter(region.tool) is not None
    try:
        value, end = region.scan(at, lambda scanner: scanner.value(region.tool.parameters))
    except Refused as refused:
        endless = refused.detail in ("too_deep", "too_long")
        if (
            bare
            and not endless
            and refused.kind == "bad_arguments_syntax"
            and _is_plain_text(region)
        ):
            return read_bare(region)
        raise
    follows = region.text[end : region.line_end(end)].strip(SPACES)
    if bare and follows and _is_plain_text(region):
        return read_bare(region)
    if not region.closed and not _one_object(value):
        raise region.cut(Cut(region.high, "closing brackets are missing"))
    return region.settle(value, at, end)


def _one_object(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict)


def _is_plain_text(region: Region) -> bool:
    """Tell whether text that begins with a bracket holds no quotes and no objects."""
    line = region.text[region.low : region.line_end(region.low)]
    return not any(mark in line for mark in "\"'{}｛｝“”")


def _read_quoted(region: Region) -> dict[str, Any]:
    """Read a text in quotes; a quoted key begins flat lines."""
    if region.text_forms:
        found = read_flat(region)
        if found is not None:
            return found
    try:
        return read_quoted(region)
    except Cut as cut:
        raise region.cut(cut) from None
    except Malformed as bad:
        raise region.malformed(bad) from None


def _read_text(region: Region) -> dict[str, Any]:
    """Read a text that begins with neither a bracket nor a quote."""
    found = _read_named_form(region)
    for read in (read_pairs, read_flat, _read_after_prose):
        if found is None:
            found = read(region)
    return read_bare(region) if found is None else found


def _read_named_form(region: Region) -> dict[str, Any] | None:
    """Read `name(…)` and `name[…]`, where the name is this tool's, or `(…)` alone."""
    text, low = region.text, region.low
    if text[low] in "(（":
        return read_call(region, low)
    start = low + len("functions.") if text.startswith("functions.", low) else low
    for name in sorted({*region.offered, region.tool.name}, key=len, reverse=True):
        if not name or not text.startswith(name, start, region.high):
            continue
        at = start + len(name)
        while at < region.high and text[at] in " \t":
            at += 1
        if at >= region.high or text[at] not in "(（[［{":
            continue
        if name != region.tool.name:
            words = f"The action names {region.tool.name[:40]}, but its input calls {name[:40]}"
            raise Refused("ambiguous_calls", words, low)
        if text[at] in "(（":
            return read_call(region, at)
        if text[at] in "[［":
            return read_bracket(region, at)
    return None


def _read_after_prose(region: Region) -> dict[str, Any] | None:
    """Read the one object of a text that begins with prose, if the schema takes it."""
    name = single_text_parameter(region.tool) if region.text_forms else None
    if name and holds_program(region) and not holds_key(region.text[region.low :], name):
        return None
    found = _find_object(region, region.low)
    if found is None:
        return None
    at, end = found
    text = region.text
    follows = text[end : region.line_end(end)].strip(SPACES + ".。`*")
    said = follows and not follows.startswith(("<!--", "//", "#", "<|", "</"))
    if name is not None and said:
        bad = Malformed(at, None, "an object stands inside a sentence")
        raise region.malformed(bad)
    second = _find_object(region, end)
    if second is not None and text[second[0] : second[1]] != text[at:end]:
        raise Refused("ambiguous_calls", "The text holds several objects", at)
    region.mark("leading_text", region.low)
    region.dropped.append((region.low, at, "leading_text"))
    return _read_object(region, at)


def _find_object(region: Region, start: int) -> tuple[int, int] | None:
    """Find the first object that can be scanned, with a bound on what is looked at."""
    text, high = region.text, region.high
    values, characters = 0, 0
    at = text.find("{", start, high)
    while at >= 0 and values < MAX_VALUES and characters <= 2 * (high - start):
        scanner = Scanner(text, at, high, region.tool.parameters)
        try:
            value = scanner.value(region.tool.parameters)
        except Unread as bad:
            stop = text.rfind("}", at, high) + 1 if bad.detail == "escaped_quotes" else 0
            if stop:
                return at, stop
            values += scanner.values + 8
            characters += scanner.position - at
        else:
            found = scanner.closed and isinstance(value, dict)
            return (at, scanner.position) if found else None
        at = text.find("{", at + 1, high)
    return None


def _read_other(region: Region) -> dict[str, Any]:
    """Read prose before an object in a native argument text; refuse anything else."""
    found = _read_after_prose(region)
    if found is not None:
        return found
    _, end = region.scan(region.low, lambda scanner: scanner.value(None))
    if region.text[end : region.high].strip(SPACES):
        bad = Malformed(end, None, "text follows a bare value")
        raise region.malformed(bad)
    raise region.shape(region.low, "a bare value")
