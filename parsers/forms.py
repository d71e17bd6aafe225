"""The forms of arguments that a ReAct prompt may ask for instead of a JSON object.

Calls, brackets, key=value pairs, flat lines and bare text: each function reads one form at the
start of a region's window, or gives None where the text has another form.
"""

from typing import Any

import regex

from parsers.region import SPACES, Refused, Region
from parsers.relaxed import CLOSERS_OF, Cut, Malformed, Scanner, Unread
from parsers.schema import properties, single_text_parameter, takes

_IDENTIFIER = regex.compile(r"[\p{L}_][\p{L}\p{M}\p{N}_.\-]*+")
_PAIR = regex.compile(r"([\p{L}_][\p{L}\p{M}\p{N}_.\-]*+)\s*+[=＝](?!=)")
_FLAT = regex.compile(
    r"[ \t]*+(?:[-*•][ \t]++)?+(?P<quote>[\"'“`]?)(?P<key>[\p{L}_][\p{L}\p{M}\p{N}_.\-]*+)"
    r"[\"'”`]?[ \t\u3000]*+(?P<colon>[:：])[ \t\u3000]*+(?P<value>[^\n]*+)"
)
_LABEL_LIKE = regex.compile(
    r"(?:[A-Za-z_][A-Za-z0-9_]*+|[\p{L}_][\p{L}\p{M}\p{N}_]{0,3}+)\s*+(?:：|:\s|=(?!=)\s*+[\"'“])"
)
_CALL_LIKE = regex.compile(r"[\p{L}_][\p{L}\p{N}_.]*+\([^\n]*+\Z")
_CALLED = regex.compile(r"\(\s*+(?:[\"'“]|[\p{L}_][\p{L}\p{N}_]*+\s*+=(?!=))")
_DATA_FENCE = regex.compile(r"(?i)[`~](?:json|ya?ml|toml|xml)\w*+\s*+\Z")
_ASSIGNED = regex.compile(r"[\p{L}_][\p{L}\p{M}\p{N}_]++ ?=(?!=) ?[^\s=]")
_TAGGED = regex.compile(r"<[\p{L}_][^<>\n]{0,60}>[^\n]*+\Z")
_QUOTED_LIST = regex.compile(r"(?:(?:\"[^\"\n]*+\"|'[^'\n]*+'|“[^“”\n]*+”)\s*+[,，、]?\s*+)++\Z")
_ASSIGNS = (":", "：", "=", "＝", "->", "→")
_CODE = frozenset(
    ("code", "expression", "statement", "command", "script", "sql", "formula", "source", "program")
)
_NEXT_KEY = regex.compile(r"[,，;；][ \t]*+[\"'“]?([\p{L}_][\w\-]*+)[\"'”]?[ \t]*+[:：=]")
_BLANK_LINE = regex.compile(r"\n[ \t\r\u3000]*+\n")
_SQL_HEAD = regex.compile(r"(?i)(?:select|with|insert|update|delete|explain)\b")
_SQL_LINE = regex.compile(
    r"(?i)(?:[ \t]++\S|[);,]|(?:select|from|where|and|or|on|inner|left|right|full|cross|join|group"
    r"|order|having|limit|offset|union|values|set|case|when|else|end|with|returning)\b)"
)
_PUNCTUATION = frozenset(".。,，;；!！:：" + SPACES)


def read_call(region: Region, at: int) -> dict[str, Any]:
    """Read `(…)`: keyword and positional arguments, or one object that holds them all."""
    (positional, named), end = region.scan(at + 1, lambda scanner: scanner.arguments("call"))
    if region.text[at] == "（":
        region.mark("fullwidth_punctuation", at)
    if region.dialect != "call":
        region.mark("call_form", at)
    else:
        for name in ("single_quotes", "python_literals"):
            region.repairs.pop(name, None)
    if not positional and not named:
        region.end = end
        region.after({}, end)
        return region.nothing(at, documented=True)
    if positional:
        region.mark("positional_arguments", at)
    return region.settle(_matched(region, positional, named, at), at, end)


def _matched(region: Region, positional: list[Any], named: dict[str, Any], at: int) -> Any:
    """Match positional arguments with the parameters' order; one object stands for all."""
    if len(positional) == 1 and not named:
        only = positional[0]
        if isinstance(only, dict):
            return only
        if isinstance(only, str) and only.lstrip().startswith("{"):
            return _perhaps_encoded(region, only, at)
        if isinstance(only, str) and _assigns(only, properties(region.tool)):
            words = "a parameter's name stands inside the text"
            raise region.malformed(Malformed(at, "text_form", words))
    names = properties(region.tool)
    if len(positional) > len(names):
        words = f"There are {len(positional)} arguments for {len(names)} parameters"
        raise Refused("bad_arguments_syntax", words, at)
    matched = dict(zip(names, positional, strict=False))
    twice = matched.keys() & named.keys()
    if twice:
        words = f"The parameter {min(twice)[:60]} is given twice"
        raise Refused("bad_arguments_syntax", words, at, "duplicate_key")
    return matched | named


def _perhaps_encoded(region: Region, only: str, at: int) -> Any:
    value = region.decode(only, at)
    region.mark("double_encoded", at)
    return value


def read_bracket(region: Region, at: int) -> dict[str, Any]:
    """Read `[…]`: an object, nothing, or text for a tool with one parameter."""
    text = region.text
    inside = at + 1
    while inside < region.high and text[inside] in SPACES:
        inside += 1
    documented = region.dialect == "bracket" and text[at] == "["
    if text[at] == "［":
        region.mark("fullwidth_punctuation", at)
    if region.dialect != "bracket":
        region.mark("bracket_form", at)
    if inside >= region.high:
        raise region.cut(Cut(at, "the bracket is open"))
    if text[inside] in "]］":
        region.end = inside + 1
        region.after({}, inside + 1)
        return region.nothing(at, documented=True)
    name = single_text_parameter(region.tool)
    if text[inside] in "{｛":
        return _object_in_bracket(region, at, inside, needs_mark=documented and name is not None)
    if name is None:
        raise region.shape(at, "a bare value")
    return _text_in_bracket(region, at, name)


def _object_in_bracket(region: Region, at: int, inside: int, *, needs_mark: bool) -> dict[str, Any]:
    if needs_mark:
        region.mark("bracket_form", at)
    value, end = region.scan(inside, lambda scanner: scanner.value(region.tool.parameters))
    scanner = Scanner(region.text, end, region.high, {})
    scanner.skip()
    if scanner.position >= region.high:
        region.mark("closers_added", end)
        region.closed = False
        return region.settle(value, inside, end)
    if region.text[scanner.position] not in "]］":
        bad = Malformed(scanner.position, None, "a closing bracket is wanted")
        raise region.malformed(bad)
    return region.settle(value, inside, scanner.position + 1)


def _text_in_bracket(region: Region, at: int, name: str) -> dict[str, Any]:
    end = _bracket_end(region, at)
    inner = region.text[at + 1 : end - 1].strip(SPACES)
    value = _unquoted(region, inner, at)
    if not value.strip():
        raise Refused("schema_violation", f"The parameter {name[:60]} is empty", at, "missing")
    if _is_nothing(value):
        return region.nothing(at)
    return region.settle(_as_text(region, name, value, at), at, end)


def _bracket_end(region: Region, at: int) -> int:
    """Find the bracket that ends bare text: the balanced one, or the last of its line."""
    text, line_end = region.text, region.line_end(at)
    quoted = _quoted_bracket_end(region, at)
    if quoted is not None:
        return quoted
    depth, balanced = 0, -1
    for place in range(at, region.high):
        if text[place] in "[［":
            depth += 1
        elif text[place] in "]］":
            depth -= 1
            if depth == 0:
                balanced = place
                break
    if balanced >= line_end:
        return balanced + 1
    last = max(text.rfind("]", at, line_end), text.rfind("］", at, line_end))
    if last < 0:
        raise region.cut(Cut(at, "the bracket is open"))
    if balanced in (-1, last):
        return last + 1
    if text[balanced + 1 : last].strip(SPACES + "]］"):
        bad = Malformed(balanced, None, "it is not clear which bracket ends the text")
        raise region.malformed(bad)
    return last + 1 if "[" not in text[at + 1 : last] else balanced + 1


def _quoted_bracket_end(region: Region, at: int) -> int | None:
    """Find the end of `["text"]`, where brackets inside the quotes are content."""
    text = region.text
    start = at + 1
    while start < region.high and text[start] in " \t":
        start += 1
    if text[start : start + 1] not in CLOSERS_OF:
        return None
    scanner = Scanner(text, start, region.high, {})
    try:
        scanner.value(None)
        scanner.skip()
    except Unread:
        return None
    closes = text[scanner.position : scanner.position + 1] in ("]", "］")
    return scanner.position + 1 if closes else None


def _unquoted(region: Region, inner: str, at: int) -> str:
    """Take the quotes around a whole text off."""
    if inner[:1] not in CLOSERS_OF or len(inner) < 2 or inner[0] in "’”„":
        return inner
    scanner = Scanner(inner, 0, len(inner), {})
    try:
        value = scanner.value(None)
    except Malformed as bad:
        raise region.malformed(Malformed(at, bad.detail, bad.words)) from None
    except Cut:
        value = None
    if isinstance(value, str) and scanner.position == len(inner):
        return value
    if inner[-1] not in CLOSERS_OF[inner[0]]:
        return inner
    return _whole_or_refused(region, inner, scanner.position, at)


def _as_text(region: Region, name: str, value: str, at: int) -> dict[str, Any]:
    """Take text as the one parameter, unless it may be written in a form of its own."""
    words = _other_form(region, name, value)
    if words is not None:
        raise region.malformed(Malformed(at, "text_form", words))
    return {name: value}


def _other_form(region: Region, name: str, value: str) -> str | None:
    """Say what a text looks like, where it looks like more than text."""
    if not any(character.isalnum() for character in value):
        return "it holds no word"
    if value.startswith("**") and value.endswith("**"):
        return "it is not clear whether the marks belong to the text"
    if _assigns(value, properties(region.tool)):
        return "a parameter's name stands inside the text"
    is_code = name.casefold() in _CODE
    if not is_code and _ASSIGNED.match(value):
        return "it looks like a key, but the tool has no such parameter"
    if not is_code and _CALL_LIKE.match(value) and value.endswith(")") and _CALLED.search(value):
        return "it looks like a call"
    if not is_code and _TAGGED.match(value) and "</" in value:
        return "it looks like markup"
    return _unbalanced(value)


def _assigns(value: str, names: tuple[str, ...]) -> bool:
    """Tell whether a parameter's name stands in a text with a colon or an equals sign."""
    for name in names:
        at = value.find(name)
        while at >= 0:
            rest = value[at + len(name) : at + len(name) + 4].lstrip(" \"'")
            alone = at == 0 or not (value[at - 1].isalnum() or value[at - 1] == "_")
            if alone and rest.startswith(_ASSIGNS) and rest[:2] != "==":
                return True
            at = value.find(name, at + 1)
    return False


def _unbalanced(value: str) -> str | None:
    """Say that a closing bracket ends a text in which none was opened."""
    if (value[-1] in "}｝" and not {"{", "｛"} & set(value)) or (
        value[-1] in "]］" and not {"[", "［"} & set(value)
    ):
        return "a bracket is closed that was not opened"
    return None


def _whole_or_refused(region: Region, line: str, second: int, at: int) -> str:
    """Take a line of several quoted words as it stands, unless its outer quotes may be a pair."""
    if _QUOTED_LIST.match(line):
        raise region.malformed(Malformed(at, "inner_quotes", "several texts stand side by side"))
    before, behind = line[second - 2 : second - 1], line[second : second + 1]
    if before.isspace() or not (behind.isspace() or behind in ",，.;)"):
        words = "quotes inside a quoted text leave several readings"
        raise region.malformed(Malformed(at, "inner_quotes", words))
    return line


def read_pairs(region: Region) -> dict[str, Any] | None:
    """Read `key="…", key=…`."""
    found = _PAIR.match(region.text, region.low, region.high)
    if not found:
        return None
    known = found.group(1) in properties(region.tool)
    alone = single_text_parameter(region.tool) is not None
    try:
        (_, named), end = region.scan(region.low, lambda scanner: scanner.arguments("pairs"))
    except Refused:
        if known or not alone or _LABEL_LIKE.match(region.text, region.low, region.high):
            raise
        return None
    if holds_program(region) and not named.keys() & {*properties(region.tool)}:
        return None
    region.mark("key_value_form", region.low)
    if region.finish_reason == "length" and region.text[end - 1] not in "\"'”’]}":
        raise region.cut(Cut(end, "the last value may go on"))
    return region.settle(named, region.low, end)


def read_flat(region: Region) -> dict[str, Any] | None:
    """Read lines of the form `key: value`, each split at its first colon."""
    text, known = region.text, properties(region.tool)
    first = _FLAT.match(text, region.low, region.high)
    if not first:
        return None
    if first.group("key") not in known and not _all_flat(region):
        return None
    values: dict[str, Any] = {}
    at, end = region.low, region.low
    while at < region.high:
        line = _FLAT.match(text, at, region.high)
        if line is None or (values and line.group("key") not in known and _blank(text, end, at)):
            if not _blank(text, end, at):
                bad = Malformed(at, None, "a line of the form key: value is wanted")
                raise region.malformed(bad)
            break
        _add_flat(region, values, line)
        end = line.end()
        at = _next_line(region, end)
    region.mark("flat_lines", region.low)
    if region.finish_reason == "length" and end >= region.high:
        raise region.cut(Cut(end, "the last value may go on"))
    return region.settle(values, region.low, end)


def _all_flat(region: Region) -> bool:
    """Tell whether every line names a key, for a tool that no bare text can be meant for."""
    if single_text_parameter(region.tool) is not None:
        return False
    lines = region.text[region.low : region.high].split("\n")
    return len(lines) > 1 and all(_FLAT.match(line) for line in lines if line.strip())


def _blank(text: str, start: int, stop: int) -> bool:
    return text.count("\n", start, stop) > 1


def _next_line(region: Region, at: int) -> int:
    while at < region.high and region.text[at] in SPACES:
        at += 1
    while at > 0 and region.text[at - 1] in " \t":
        at -= 1
    return at


def _add_flat(region: Region, values: dict[str, Any], line: Any) -> None:
    key, at = line.group("key"), line.start("value")
    if key in values:
        words = f'the key "{key[:40]}" stands twice'
        raise region.malformed(Malformed(line.start(), "duplicate_key", words))
    if line.group("colon") == "：":
        region.mark("fullwidth_punctuation", line.start("colon"))
    written = line.group("value").strip(SPACES)
    if not written:
        if line.end() >= region.high:
            raise region.cut(Cut(at, "a key has no value"))
        raise region.malformed(Malformed(at, None, f'the key "{key[:40]}" has no value'))
    values[key] = _flat_value(region, key, written, at)


def _flat_value(region: Region, key: str, written: str, at: int) -> Any:
    """Read one line's value: quoted, a string where the schema allows one, else a literal."""
    if len(written) > 2 and written[0] == written[-1] == "`" and "`" not in written[1:-1]:
        region.mark("backticks_removed", at)
        written = written[1:-1]
    if written[0] in CLOSERS_OF and written[0] not in "’”":
        return _flat_quoted(region, written, at)
    if takes(region.tool, key, "string"):
        return _flat_text(region, key, written, at)
    scanner = Scanner(written, 0, len(written), {})
    try:
        value = scanner.value(None)
    except Cut as cut:
        raise region.cut(Cut(at, cut.words)) from None
    except Malformed as bad:
        raise region.malformed(Malformed(at, bad.detail, bad.words)) from None
    if not scanner.closed:
        raise region.cut(Cut(at, "closing brackets are missing"))
    if written[scanner.position :].strip(SPACES + ",，"):
        raise region.malformed(Malformed(at, None, f"text follows the value of {key[:40]}"))
    for name in scanner.marks:
        region.mark(name, at)
    return value


def _flat_quoted(region: Region, written: str, at: int) -> str:
    scanner = Scanner(written, 0, len(written), {})
    try:
        value = scanner.value(None)
    except Cut as cut:
        raise region.cut(Cut(at, cut.words)) from None
    except Malformed as bad:
        raise region.malformed(Malformed(at, bad.detail, bad.words)) from None
    if written[scanner.position :].strip(SPACES + ",，"):
        words = "text follows a quoted value on its line"
        raise region.malformed(Malformed(at, "inner_quotes", words))
    text: str = value
    return text


def _flat_text(region: Region, key: str, written: str, at: int) -> str:
    """Take a line as text, unless it holds another key, goes on, or is written as null."""
    for found in _NEXT_KEY.finditer(written):
        if found.group(1) in properties(region.tool):
            words = f'the key "{found.group(1)[:40]}" stands on the line of "{key[:40]}"'
            raise region.malformed(Malformed(at + found.start(), None, words))
    nullish = written in ("null", "None", "~") and takes(region.tool, key, "null")
    unclear = nullish or written in ("|", ">", "|-", ">-") or written[-1] in ",，\\"
    marked = written.startswith("**") and written.endswith("**")
    if unclear or marked or _unbalanced(written) or (region.loose_tail and not region.outer):
        raise region.malformed(Malformed(at, None, f'the value of "{key[:40]}" is not clear'))
    return written


def read_bare(region: Region) -> dict[str, Any]:
    """Read bare text as the one parameter of a tool that has one."""
    name = single_text_parameter(region.tool)
    text, low = region.text, region.low
    if name is None:
        raise region.shape(low, "a bare value")
    label = _LABEL_LIKE.match(text, low, region.high)
    if label and not ("=" in label[0] and holds_program(region)):
        words = "it looks like a key, but the tool has no such parameter"
        raise region.malformed(Malformed(low, None, words))
    end = _paragraph_end(region)
    if holds_key(text[low:end], name):
        raise region.malformed(Malformed(low, None, "an object stands inside a sentence"))
    if region.finish_reason == "length" and end >= region.high and not region.outer:
        raise region.cut(Cut(end, "the text may go on"))
    if region.loose_tail:
        bad = Malformed(end, "text_form", "it is not clear whether the last token is text")
        raise region.malformed(bad)
    region.mark("bare_string", low)
    value = text[low:end].rstrip(SPACES)
    return region.settle(_as_text(region, name, value, low), low, end)


def holds_program(region: Region) -> bool:
    """Tell whether the window is a fence, not said to hold data, for a tool that takes code."""
    name = single_text_parameter(region.tool)
    if not region.text_forms or not region.outer or name is None or name.casefold() not in _CODE:
        return False
    return _DATA_FENCE.search(region.text, max(0, region.low - 20), region.low) is None


def holds_key(text: str, name: str) -> bool:
    """Tell whether text that would be the parameter's value has the parameter's own key in it."""
    brace = min((at for at in map(text.find, "{｛") if at >= 0), default=-1)
    return brace >= 0 and any(f"{mark}{name}{mark}" in text[brace:] for mark in ('"', "'", '\\"'))


def _paragraph_end(region: Region) -> int:
    """Find where bare text ends: with its line, its fence, or the lines of a statement."""
    low, high, text = region.low, region.high, region.text
    if region.outer:
        return high
    blank = _BLANK_LINE.search(text, low, high)
    end = blank.start() if blank else high
    first, *others = text[low:end].split("\n")
    if others and not (_SQL_HEAD.match(first) and all(map(_SQL_LINE.match, others))):
        bad = Malformed(low + len(first), None, "it is not clear where the text ends")
        raise region.malformed(bad)
    return end


def read_quoted(region: Region) -> dict[str, Any]:
    """Read a value that begins with a quote: an encoded object, or text in quotes."""
    text, low = region.text, region.low
    scanner = Scanner(text, low, region.high, {})
    value = scanner.value(None)
    end = scanner.position
    rest = text[end : region.line_end(end)].strip(SPACES)
    if isinstance(value, str) and value.lstrip(SPACES).startswith(("{", "｛", "[{")):
        return _settled(region, scanner, value, low)
    if rest.startswith((":", "：", "=")):
        raise region.malformed(Malformed(low, None, "the braces around the keys are missing"))
    name = single_text_parameter(region.tool)
    if not value.strip() or _is_nothing(value):
        return region.nothing(low)
    if name is None or not region.text_forms:
        raise region.shape(low, "a bare value")
    if not rest:
        region.mark("bare_string", low)
        return _settled(region, scanner, _as_text(region, name, value, low), low)
    if all(character in _PUNCTUATION for character in rest):
        words = "it is not clear whether the quotes belong to the text"
        raise region.malformed(Malformed(low, "inner_quotes", words))
    line = text[low : region.line_end(low)].rstrip(SPACES)
    if line[-1] in CLOSERS_OF[line[0]]:
        _whole_or_refused(region, line, end - low, low)
    return read_bare(region)


def _settled(region: Region, scanner: Scanner, value: Any, at: int) -> dict[str, Any]:
    for name, place in scanner.marks.items():
        region.mark(name, place)
    return region.settle(value, at, scanner.position)


_NOTHING = regex.compile(
    r"(?i)(?:none|null|n/a|nil|无需参数|无参数|无|no (?:input|arguments?|parameters?))"
    r"(?:[ \t.。]*+\Z|[ \t]*+[(（\-–—,，;；][^\n]*+\Z)"
)


def _is_nothing(text: str) -> bool:
    return bool(_NOTHING.match(text.strip(SPACES)))


def says_nothing(region: Region) -> bool:
    """Tell whether the window holds only a word for no arguments, perhaps with a remark."""
    line = region.text[region.low : region.line_end(region.low)]
    return _is_nothing(line)
