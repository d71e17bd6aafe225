"""Where a value ends, without reading it: so that a label inside a value is no label.

This is a tolerant look at brackets and quotes. It decides nothing about what the value says.
"""

import json

import regex

from parsers.relaxed import CLOSERS_OF, MAX_DEPTH, MAX_INNER, ODD_SPACES, body_end, span_end

_PAIRS = {"{": "}｝", "｛": "}｝", "[": "]］", "［": "]］", "(": ")）", "（": ")）"}
_CLOSERS = frozenset("}｝]］)）")
_SEPARATORS = frozenset(",，:：=＝")
_STRUCTURAL = _CLOSERS | _SEPARATORS
_SPACES = " \t\r\n" + "".join(sorted(ODD_SPACES))
_SPACE = regex.compile(rf"[{_SPACES}]*+")
_TOKEN = regex.compile(
    rf"[^{_SPACES},，:：=＝{{}}｛｝\[\]［］()（）\"'“”„‘’＂＇\\]++|.", regex.DOTALL
)
_FENCE = regex.compile(r"(`{3,}|~{3,})[^\n`{\[]*+\n?")
_FENCE_CLOSE = regex.compile(r"(?m)^[ \t]*+(?:`{3,}|~{3,})[ \t\r]*+$")
_LABELS = regex.compile(
    r"(?i)(?:thought|action(?:[ _]?input)?|observation|final[ _]?answer|question"
    r"|思考|行动(?:输入)?|动作(?:输入)?|观察(?:结果)?|最终答案|问题)[ \t]*+[:：]"
)
_MAX_TOKENS = 100_000
_JSON = json.JSONDecoder(strict=False)


def value_end(text: str, start: int) -> int:
    """Give the offset just behind the value that begins at `start`.

    A value is a bracketed structure, a quoted string, a fence, or text in backticks; anything
    else has no extent and gives `start`. Strings are respected, in every kind of quote.

    The look is linear and careful with broken values, so that labels behind them stay visible:

    - a quote that is followed by something no value goes on with is taken for content, up to the
      last such quote of its line; the value then ends at the end of that line at the latest;
    - a new line of text behind a complete value inside brackets (only the closers are missing)
      ends the value in front of that line, and so does a line that begins with a label word
      and a colon outside of strings;
    - a string that never closes, brackets that never close, and a broken value that is nested
      too deep or has too many tokens to be read run to len(text).
    """
    if start >= len(text):
        return len(text)
    here = text[start]
    if text.startswith(("```", "~~~"), start):
        return _fence_end(text, start)
    if here == "`":
        return _line_quote_end(text, start, "`")
    if here in CLOSERS_OF:
        return _scalar_end(text, start)
    if here in "[［" and _is_bare(text, start):
        return _bracket_text_end(text, start)
    return _json_end(text, start) or _structure_end(text, start) if here in _PAIRS else start


def _json_end(text: str, start: int) -> int | None:
    """Give the end of a value that is plain JSON, the usual case."""
    if text[start] not in "{[":
        return None
    try:
        return _JSON.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None


def _fence_end(text: str, start: int) -> int:
    """Pass a fence; the value in it is passed first, since it may hold fence marks itself."""
    opening = _FENCE.match(text, start)
    if not opening:
        return start
    inside = span_end(_SPACE, text, opening.end())
    after = inside
    if text[inside : inside + 1] in tuple(_PAIRS):
        after = _structure_end(text, inside)
    close = _FENCE_CLOSE.search(text, after if after < len(text) else inside)
    if close:
        return int(close.end())
    inline = text.find(opening.group(1), after)
    line_end = _line_end(text, opening.end())
    if 0 <= inline < line_end or (inline >= 0 and after > inside):
        return inline + len(opening.group(1))
    return after if after > inside else len(text)


def _scalar_end(text: str, start: int) -> int:
    """Pass a quoted scalar; over line ends only if nothing follows its last quote's line."""
    quote = text[start]
    if quote in "\"'" and text.startswith(quote * 3, start):
        close = text.find(quote * 3, start + 3)
        return len(text) if close < 0 else close + 3
    end = body_end(text, start + 1, CLOSERS_OF[quote])
    line_end = _line_end(text, start)
    if end >= len(text):
        return line_end
    if end < line_end:
        return end + 1
    rest = text[end + 1 : _line_end(text, end)]
    return line_end if rest.strip() else end + 1


def _line_quote_end(text: str, start: int, quote: str) -> int:
    line_end = _line_end(text, start)
    close = text.find(quote, start + 1, line_end)
    if close < 0 and text[start + 1 : start + 2] in tuple(_PAIRS):
        inner = _structure_end(text, start + 1)
        return inner + 1 if text.startswith(quote, inner) else inner
    return line_end if close < 0 else close + 1


def _is_bare(text: str, start: int) -> bool:
    """Tell whether brackets hold bare text, where quotes are no strings."""
    inside = span_end(_SPACE, text, start + 1)
    first = text[inside : inside + 1]
    return not (first in CLOSERS_OF or first in _PAIRS or first in ("]", "］", ""))


def _bracket_text_end(text: str, start: int) -> int:
    """Pass bare text in brackets: its balanced end on the same line, else the line."""
    line_end = _line_end(text, start)
    depth = 0
    for at in range(start, line_end):
        if text[at] in "[［":
            depth += 1
        elif text[at] in "]］":
            depth -= 1
            if depth == 0:
                return at + 1
    close = max(text.rfind("]", start, line_end), text.rfind("］", start, line_end))
    return line_end if close < 0 else close + 1


def _structure_end(text: str, start: int) -> int:
    """Pass brackets and what is in them, token by token."""
    at, limit = start, len(text)
    open_: list[str] = []
    after_value = False
    last = start
    line_end = _line_end(text, start)
    tokens = 0
    while at < limit and len(open_) <= MAX_DEPTH and tokens < _MAX_TOKENS:
        tokens += 1
        here = text[at]
        if here in _SPACES:
            stop = span_end(_SPACE, text, at)
            if "\n" in text[at:stop] and stop < limit and _breaks(text, stop, after_value):
                return last
            at = stop
            continue
        if here in _PAIRS:
            open_.append(_PAIRS[here])
            at, after_value = at + 1, False
        elif here in _CLOSERS:
            if not open_ or here not in open_[-1]:
                return at
            open_.pop()
            at, after_value = at + 1, True
            if not open_:
                return at
        elif here in _SEPARATORS:
            at, after_value = at + 1, False
        elif here in CLOSERS_OF and not (here in "'’" and after_value):
            line_end = line_end if line_end >= at else _line_end(text, at)
            at = _string_end(text, at, line_end)
            after_value = True
        elif here == "\\" and at + 1 < limit:
            at += 2
        else:
            at, after_value = span_end(_TOKEN, text, at), True
        last = at
    return limit


def _breaks(text: str, at: int, after_value: bool) -> bool:
    """Tell whether a new line does not go on with the structure."""
    if _LABELS.match(text, at):
        return True
    return after_value and text[at] not in _STRUCTURAL and text[at] not in "/#<\\}"


def _string_end(text: str, start: int, line_end: int) -> int:
    """Pass a string in a structure; a quote that nothing structural follows is content."""
    quote = text[start]
    if quote in "\"'" and text.startswith(quote * 3, start):
        close = text.find(quote * 3, start + 3)
        return len(text) if close < 0 else close + 3
    closers = CLOSERS_OF[quote]
    end = body_end(text, start + 1, closers)
    if end >= len(text) or _goes_on(text, end + 1):
        return min(end + 1, len(text))
    if line_end < end:
        line_end = _line_end(text, end)
    for _ in range(MAX_INNER):
        if end >= line_end:
            break
        end = body_end(text, end + 1, closers, line_end)
        if end < line_end and _goes_on(text, end + 1):
            return end + 1
    return line_end


def _goes_on(text: str, at: int) -> bool:
    """Tell whether a string may have ended in front of `at`."""
    stop = span_end(_SPACE, text, at)
    if stop >= len(text) or "\n" in text[at:stop]:
        return True
    return text[stop] in _STRUCTURAL or text[stop] in "/#<\\"


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end
