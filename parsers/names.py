"""Which offered tool a written name means; no distance, no prefix, no guess.

A text's action line may say more than the name; a native `name` may not.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import regex

from parsers.types import Failure, Level, Repair, Tool

Where = Literal["text", "native"]

NAME_REPAIRS: dict[str, str] = {
    "name_decoration": "Quotes, backticks, bold or brackets around a tool's name were taken off.",
    "name_prefix": "The prefix functions. in front of a tool's name was taken off.",
    "name_index": "An index such as :0 behind a tool's name was taken off.",
    "control_token": "A control token glued to a tool's name was cut off.",
    "name_remark": "A remark or a full stop behind a tool's name was dropped.",
    "name_case": "A tool's name was matched without its case and separators.",
    "name_in_phrase": "A tool's name was found as the one whole word of a longer action line.",
}
"""Every repair that can be made to a name, with a sentence for people."""


@dataclass(slots=True)
class NameReading:
    """The tool that a name means, or the failure.

    `end` is the offset in the written text just behind the name and its decoration: what follows
    may be a value, a call form (`(…)`, `[…]`, also an empty `()`), an object, or a remark.
    """

    tool: Tool | None
    repairs: tuple[Repair, ...]
    failure: Failure | None
    end: int


_PREFIX = "functions."
_OPENERS = "\"'`*“”‘’„「『《【[(<（＂＇"
_CLOSERS = "\"'`*“”‘’」』》】])>）＂＇"
_VALUE_OPENERS = "([{（［｛"
_QUOTES = "\"'“”‘’„＂＇"
_SPACES = regex.compile(r"[\s\u200b-\u200d\u2060\ufeff]*+")
_SEPARATORS = regex.compile(r"[\s_\-./·]++")
_COMPOUND = regex.compile(r"[_\-0-9]")
_INDEX = regex.compile(r":[0-9]{1,4}\Z")
_CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
_NEGATION = regex.compile(
    r"(?i)\b(?:not|no|never|none|without|instead of|rather than|don't|dont|cannot|can't|avoid|skip)\b"
    r"|不|别|無|无|勿|没|未|非"
)
_OTHER_VALUE = regex.compile(r"[{｛]|(?<=[\p{L}\p{M}\p{N}_])[(\[（［]")
_REMARK_ONLY = regex.compile(r"[\s.。．,，;；:：!！?？…]*+\Z")
_MAX_LINE = 4000
"""A name is sought in so many characters of its line; no tool's name is near that long."""


def match_name(
    written: str,
    tools: Sequence[Tool],
    *,
    where: Where,
    level: Level = "hardened",
    field: str = "text",
    base: int = 0,
) -> NameReading:
    """Match what was written with the offered tools.

    `written` is an action line behind its label (where text) or a native call's name; `base` is
    its position in `field`. Level strict takes an exact name only, in a text with or without a
    form that begins with `(`, `[` or `{` behind it. Failures: missing_tool_name, unknown_tool,
    ambiguous_calls (two offered names on one action line).
    """
    match where:
        case "text":
            found = _match_text(written, tools)
        case "native":
            found = _match_native(written, tools)
        case _:
            assert_never(where)
    tool, names, failure, end = found
    if level == "strict" and tool is not None and names:
        failure = Failure("unknown_tool", None, _exact_wanted(tool))
        tool = None
    if failure is not None:
        start = _behind_spaces(written)
        failure = Failure(failure.kind, failure.detail, failure.message, base + start, field)
        return NameReading(None, (), failure, end)
    return NameReading(tool, tuple([Repair(name, base, field) for name in names]), None, end)


def _behind_spaces(text: str) -> int:
    found = _SPACES.match(text)
    return found.end() if found else 0


_Found = tuple[Tool | None, tuple[str, ...], Failure | None, int]


def _match_native(written: str, tools: Sequence[Tool]) -> _Found:
    offered = {tool.name: tool for tool in tools}
    if written in offered:
        return offered[written], (), None, len(written)
    repairs: list[str] = []
    name = written[:_MAX_LINE]
    if "<|" in name:
        name = name[: name.index("<|")]
        repairs.append("control_token")
    bare = name.strip().strip(_QUOTES).strip()
    if bare != name:
        repairs.append("name_decoration")
    if not bare:
        return None, (), _missing(), len(written)
    for piece in (bare, _INDEX.sub("", bare)):
        plain = piece.removeprefix(_PREFIX)
        if plain in offered:
            repairs += ["name_index"] if piece != bare else []
            repairs += ["name_prefix"] if plain != piece else []
            return offered[plain], tuple(repairs), None, len(written)
    return None, (), _unknown(bare, tools), len(written)


def _match_text(written: str, tools: Sequence[Tool]) -> _Found:
    line = written[:_MAX_LINE]
    stripped = line.strip()
    offered = {tool.name: tool for tool in tools}
    if stripped in offered:
        return offered[stripped], (), None, len(line.rstrip())
    if not stripped.strip(_OPENERS + _CLOSERS + ".。…"):
        return None, (), _missing(), len(line)
    start = _behind_spaces(line)
    found = (
        _at_start(line, start, offered)
        or _without_case(line, start, tools)
        or _in_phrase(line, offered)
    )
    return found or (None, (), _unknown(stripped, tools), len(line))


def _at_start(line: str, start: int, offered: dict[str, Tool]) -> _Found | None:
    """Read a name that begins the line, perhaps decorated."""
    inner = start
    while inner < len(line) and line[inner] in _OPENERS:
        inner += 1
    repairs = ["name_decoration"] if inner > start else []
    if line.startswith(_PREFIX, inner):
        inner += len(_PREFIX)
        repairs.append("name_prefix")
    name = _longest_at(line, inner, offered)
    if name is None:
        return None
    end = inner + len(name)
    if inner > start:
        end = _behind_closers(line, start, end)
    return _with_rest(line, end, offered[name], repairs, offered)


def _behind_closers(line: str, start: int, end: int) -> int:
    """Skip at most as many closing marks as were opened."""
    opened = sum(character in _OPENERS for character in line[start:end])
    stop = end
    while stop < len(line) and stop - end < opened and line[stop] in _CLOSERS:
        stop += 1
    return stop


def _with_rest(
    line: str, end: int, tool: Tool, repairs: list[str], offered: dict[str, Tool]
) -> _Found:
    """Judge what follows the name: a value is left alone, a remark is a repair."""
    rest = line[end:].lstrip()
    if rest.startswith("<|"):
        return tool, (*repairs, "control_token"), None, end
    remark = rest
    for opener in _VALUE_OPENERS:
        remark = remark.partition(opener)[0]
    if remark.strip():
        others = [name for name in _words(remark, offered) if name != tool.name]
        if others:
            return None, (), _two_names(tool.name, others[0]), end
        if _NEGATED_REST.match(remark):
            return None, (), _unknown(line.strip(), tuple(offered.values())), end
        repairs = [*repairs, "name_remark"]
    return tool, tuple(repairs), None, end


_NEGATED_REST = regex.compile(
    r"(?i)[\s,，(（—–-]*+(?:is|was|are|will|should|does|do|can)?\s*+"
    r"(?:not|n't|cannot|isn't|won't|不)(?:\b|(?<=不))"
)


def _without_case(line: str, start: int, tools: Sequence[Tool]) -> _Found | None:
    """Match the name, up to a value behind it, without case and separators."""
    cut = min((at for at in map(line.find, _VALUE_OPENERS, [start + 1] * 6) if at >= 0), default=-1)
    region = line[start : cut if cut >= 0 else len(line)]
    before, token, _ = region.partition("<|")
    bare = before.strip(_OPENERS + _CLOSERS + " \t\r\n.。,，:：;；")
    plain = bare.removeprefix(_PREFIX)
    wanted = _folded(plain)
    matches = [tool for tool in tools if wanted and _folded(tool.name) == wanted]
    if not matches:
        return None
    if len(matches) > 1:
        return None, (), _two_names(matches[0].name, matches[1].name), len(line)
    repairs = ["name_case"]
    repairs += ["name_prefix"] if plain != bare else []
    repairs += ["control_token"] if token else []
    repairs += ["name_decoration"] if bare != before.strip() else []
    end = start + region.rfind(bare) + len(bare)
    return matches[0], tuple(repairs), None, _past_marks(line, end)


def _past_marks(line: str, end: int) -> int:
    while end < len(line) and line[end] in "\"'`*“”‘’＂＇.。":
        end += 1
    return end


def _in_phrase(line: str, offered: dict[str, Tool]) -> _Found | None:
    """Find the one offered name that stands as a whole word in a line that says more.

    What stands in the arguments of something else is no name: `lookup("get_time")`.
    """
    value = _OTHER_VALUE.search(line)
    places = _words(line[: value.start()] if value else line, offered)
    if len(places) > 1:
        first, second = list(places)[:2]
        return None, (), _two_names(first, second), len(line)
    for name, (at, end) in places.items():
        if _NEGATION.search(line[:at]):
            return None, (), _unknown(line.strip(), tuple(offered.values())), end
        return offered[name], ("name_in_phrase",), None, _past_marks(line, end)
    return None


def _words(line: str, offered: dict[str, Tool]) -> dict[str, tuple[int, int]]:
    """Give the offered names that are whole words of the line, up to a value, with places."""
    found: dict[str, tuple[int, int]] = {}
    folded = line.casefold() if len(line.casefold()) == len(line) else line
    alike = Counter(map(str.casefold, offered))
    for name in offered:
        compound = alike[name.casefold()] == 1 and bool(_COMPOUND.search(name))
        text, word = (folded, name.casefold()) if compound else (line, name)
        at = text.find(word)
        while at >= 0:
            if _is_word(line, at, at + len(word), name):
                found[name] = (at, at + len(word))
                break
            at = text.find(word, at + 1)
    return {name: at for name, at in found.items() if not _covered(at, found)}


def _covered(place: tuple[int, int], found: dict[str, tuple[int, int]]) -> bool:
    return any(
        other != place and other[0] <= place[0] and place[1] <= other[1] for other in found.values()
    )


def _longest_at(line: str, start: int, offered: dict[str, Tool]) -> str | None:
    names = [
        name
        for name in offered
        if name and line.startswith(name, start) and _ends_word(line, start + len(name), name)
    ]
    return max(names, key=len, default=None)


def _is_word(line: str, start: int, end: int, name: str) -> bool:
    if not _ends_word(line, end, name):
        return False
    if start == 0 or line.endswith(_PREFIX, 0, start):
        return True
    return _breaks(line[start - 1], name[0]) and line[start - 1] not in "./-"


def _ends_word(line: str, end: int, name: str) -> bool:
    if end >= len(line):
        return True
    if line[end] in "./-" and end + 1 < len(line) and _is_ascii_word(line[end + 1]):
        return False
    return _breaks(line[end], name[-1])


def _breaks(character: str, edge: str) -> bool:
    """Tell whether a character ends a word; a Chinese one does, unless the name is Chinese."""
    if _CJK.match(character):
        return not _CJK.match(edge)
    return not (character.isalnum() or character == "_")


def _is_ascii_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _folded(name: str) -> str:
    return _SEPARATORS.sub("", name).casefold()


def _missing() -> Failure:
    return Failure("missing_tool_name", None, "The action names no tool; write one offered name.")


def _unknown(written: str, tools: Sequence[Tool]) -> Failure:
    names = ", ".join(tool.name[:40] for tool in tools[:12])
    return Failure(
        "unknown_tool", None, f'There is no tool "{written[:60]}"; the tools offered are: {names}.'
    )


def _two_names(first: str, second: str) -> Failure:
    return Failure(
        "ambiguous_calls",
        None,
        f"The action names two tools, {first[:60]} and {second[:60]}; write one action each.",
    )


def _exact_wanted(tool: Tool) -> str:
    return f"The tool's name must be written exactly: {tool.name[:60]}."
