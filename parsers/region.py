"""The text of one value on its way to arguments: its window, what was mended, what is refused.

It holds the steps that every form of arguments goes through: scanning, unwrapping, judging what
stands behind the value, the schema. Which form it is decides `parsers.arguments`.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeVar

import regex

from parsers.relaxed import MAX_DEPTH, ODD_SPACES, Cut, Malformed, Scanner, Unread, to_number
from parsers.schema import check, properties, required
from parsers.types import Dialect, FailureKind, Tool

WRAPPER_KEYS = ("arguments", "parameters", "args", "input", "action_input", "kwargs")
NAME_KEYS = ("action", "tool", "tool_name", "name", "function")
INPUT_KEYS = ("action_input", "tool_input", "input", "arguments", "parameters", "args")
ENVELOPE_KEYS = ("tool_call", "function", "action")
SPACES = " \t\r\n" + "".join(sorted(ODD_SPACES))

_CUT = "The arguments end before they are complete"
_UNREADABLE = "The arguments cannot be read"
_FINAL = frozenset({"too_deep", "too_long", "duplicate_key", "not_a_number", "number", "escape"})
"""What no other reading of the quotes would mend."""

_TAG = (
    r"<\|[^<>|\s]{1,40}\|>|<｜[^<>｜\s]{1,40}｜>|</s>|<eos>|<end_of_turn>|</?(?:tool_call|function_call"
    r"|function|arguments|action_input|tool|action|parameters|parameter|output|response)>"
)
TOKENS: Final = regex.compile(_TAG)
_TAIL = regex.compile(rf"(?:\s*+(?:{_TAG}))++\s*+\Z")
_LONE_FENCE = regex.compile(r"\n[ \t]*+`{3,}\s*+\Z")
_TAIL_LOOK = 400
_MAX_REPEATS = 32
_OBJECT = regex.compile(r"[{｛]\s*+(?:[\"'“”‘＂＇}｝]|\\[\"']|[\p{L}_$][\p{L}\p{N}_$]*+\s*+[:：])")
_JOINED = regex.compile(
    r"(?i)(?:(?:and|or|then|also|plus|和|或者?|及|与|然后|再|以及)[\s:：,，]*+)++"
)
_CLOSERS = frozenset("]］}｝)）`'\"”’*")
_LOOSE = frozenset(SPACES) | _CLOSERS | frozenset(",，;；.。+&|>-:：/")
_SURROGATE = regex.compile(r"[\ud800-\udfff]")
_SUSPECT = regex.compile(r"\\u(?:[dD][89a-fA-F]|0000)")
_NEXT_KEY = regex.compile(
    r"[\s\]}｝］]*+[,，][\s\u200b]*+(?:[\"“”'‘’][^\"“”'‘’\r\n]{1,80}+[\"“”'‘’]|(?P<bare>[\p{L}_][\p{L}\p{M}\p{N}_]{0,80}+))"
    r"\s*+[:：](?!/)"
)
_LATE_END = regex.compile(r"[\"'”’]\s*+[}｝]")

T = TypeVar("T")


class Refused(Exception):  # noqa: N818
    """A reading that is not allowed; it becomes the failure."""

    def __init__(
        self, kind: FailureKind, words: str, position: int, detail: str | None = None
    ) -> None:
        super().__init__(words)
        self.kind: FailureKind = kind
        self.detail = detail
        self.words = words
        self.position = position


@dataclass(slots=True)
class Region:
    """A value's text, of which [low, high) is still to be read.

    `inner` tells that quotes were taken for content, `closed` that no closer had to be added,
    `loose_tail` that a token was dropped that a bare text may have ended with.
    """

    text: str
    tool: Tool
    finish_reason: str | None = None
    text_forms: bool = False
    offered: Collection[str] = ()
    dialect: Dialect = "json"
    low: int = 0
    high: int = 0
    end: int = 0
    inner: bool = False
    closed: bool = True
    loose_tail: bool = False
    outer: list[tuple[int, int]] = field(default_factory=list)
    repairs: dict[str, int] = field(default_factory=dict)
    dropped: list[tuple[int, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.high = self.end = len(self.text)
        self.trim()

    def trim(self) -> None:
        """Narrow the window by the white space at its ends."""
        text = self.text
        while self.low < self.high and text[self.low] in SPACES:
            if text[self.low] in ODD_SPACES:
                self.mark("nbsp", self.low)
            self.low += 1
        while self.high > self.low and text[self.high - 1] in SPACES:
            self.high -= 1

    def cut_tail(self) -> None:
        """Drop template tokens, and a fence that nothing opened, at the end of the window."""
        for pattern, last in ((_TAIL, ">"), (_LONE_FENCE, "`"), (_TAIL, ">")):
            if self.low >= self.high or self.text[self.high - 1] != last:
                continue
            if pattern is _LONE_FENCE and "```" in self.text[self.low : self.high - 3]:
                continue
            found = pattern.search(self.text, max(self.low, self.high - _TAIL_LOOK), self.high)
            if found:
                self.mark("template_token", found.start())
                self.dropped.append((found.start(), self.high, "template_token"))
                self.high = found.start()
                glued = not self.text[self.high].isspace() and self.text[self.high] == "<"
                known = self.text.startswith(("<|", "<｜", "</s>", "<eos>"), self.high)
                on_line = "\n" in self.text[self.high :].partition("<")[0]
                self.loose_tail |= not on_line and not (glued and known)
                self.trim()

    def narrow(self, low: int, high: int, behind: int) -> None:
        """Go into a fence or backticks; what stands `behind` it is judged later."""
        self.outer.append((behind, self.high))
        self.low, self.high = low, high
        self.trim()

    def mark(self, name: str, at: int) -> None:
        """Name a repair, with the place of its first use."""
        self.repairs.setdefault(name, at)

    def line_end(self, at: int) -> int:
        """Give the end of the line, inside the window."""
        end = self.text.find("\n", at, self.high)
        return self.high if end < 0 else end

    def scan(self, at: int, read: Callable[[Scanner], T]) -> tuple[T, int]:
        """Scan at a place; where plain quotes make no sense, let the schema's names settle them."""
        scanner = Scanner(self.text, at, self.high, self.tool.parameters)
        try:
            value = read(scanner)
        except Cut as cut:
            raise self.cut(cut) from None
        except Malformed as bad:
            value, scanner = self._scan_inner(at, read, bad)
        for name, place in scanner.marks.items():
            self.mark(name, place)
        self.closed = self.closed and scanner.closed
        if not scanner.closed:
            self._judge_last(scanner)
        return value, scanner.position

    def _scan_inner(
        self, at: int, read: Callable[[Scanner], T], bad: Malformed
    ) -> tuple[T, Scanner]:
        if bad.detail in _FINAL or bad.detail == "escaped_quotes":
            raise self.malformed(bad)
        scanner = Scanner(self.text, at, self.high, self.tool.parameters, inner=True)
        try:
            value = read(scanner)
        except Cut as cut:
            finished = self.text[self.high - 1] in "}｝]］)）"
            raise (self.malformed(bad) if finished else self.cut(cut)) from None
        except Malformed as other:
            raise self.malformed(other if other.detail else bad) from None
        if not scanner.closed or scanner.odd_strings > 1:
            raise self.malformed(bad)
        self.inner = True
        return value, scanner

    def _judge_last(self, scanner: Scanner) -> None:
        """Refuse to close a value whose last quote may as well have opened a word."""
        before = self.text[: scanner.marks["closers_added"]].rstrip()
        if len(before) > 1 and before[-1] in "\"'”’" and before[-2].isspace():
            raise Refused("truncated_output", f"{_CUT}: a string may be open", len(before))

    def cut(self, cut: Unread) -> Refused:
        """Make the refusal of a value that is cut short."""
        return Refused("truncated_output", f"{_CUT}: {cut.words}", cut.position)

    def malformed(self, bad: Unread) -> Refused:
        """Make the refusal of a value that cannot be read."""
        return Refused(
            "bad_arguments_syntax", f"{_UNREADABLE}: {bad.words}", bad.position, bad.detail
        )

    def shape(self, at: int, words: str) -> Refused:
        """Make the refusal of a value that is no object."""
        return Refused("bad_arguments_shape", f"The arguments are {words}, not an object", at)

    def nothing(self, at: int, *, documented: bool = False) -> dict[str, Any]:
        """Read nothing: no arguments, if the tool requires none."""
        if not documented:
            self.mark("empty_as_object", at)
        if self.finish_reason == "length" and not documented:
            raise Refused("truncated_output", f"{_CUT}: there is no value yet", at)
        needed = required(self.tool)
        if needed:
            words = f"There are no arguments, but {self.tool.name[:60]} needs {needed[0][:60]}"
            raise Refused("schema_violation", words, at, "missing")
        return self.checked({}, at)

    def settle(self, value: Any, at: int, end: int) -> dict[str, Any]:
        """Judge what follows a value that stood at [at, end), unwrap it and check it."""
        self.end = end
        self.after(value, end)
        return self.checked(self.unwrap(value, at), at)

    def checked(self, value: Any, at: int) -> dict[str, Any]:
        """Give the object, cleaned, if the schema takes it."""
        if not isinstance(value, dict):
            raise self.shape(at, _kind_of(value))
        arguments = self.clean(value, at)
        failure = check(self.tool, arguments)
        if not self.closed and (failure is not None or self.finish_reason == "length"):
            raise Refused("truncated_output", f"{_CUT}: closing brackets are missing", self.high)
        if failure is None:
            return arguments
        if self.inner:
            words = f"{_UNREADABLE}: quotes inside a string leave no object that fits the schema"
            raise Refused("bad_arguments_syntax", words, at, "inner_quotes")
        raise Refused("schema_violation", failure.message.rstrip("."), at, failure.detail)

    def unwrap(self, value: Any, at: int) -> Any:
        """Take the arguments out of what was put around them."""
        for _ in range(6):
            inner, repair = self._opened(value, at)
            if repair is None:
                return value
            self.mark(repair, at)
            value = inner
        return value

    def _opened(self, value: Any, at: int) -> tuple[Any, str | None]:
        match value:
            case str() if value.lstrip(SPACES).startswith(("{", "｛", "[{")):
                return self.decode(value, at), "double_encoded"
            case [dict() as only]:
                return only, "list_unwrapped"
            case dict() if value and check(self.tool, value) is not None:
                return self._opened_object(value, at)
        return value, None

    def _opened_object(self, value: dict[str, Any], at: int) -> tuple[Any, str | None]:
        known = properties(self.tool)
        if len(value) == 1:
            key, inner = next(iter(value.items()))
            if key in WRAPPER_KEYS and key not in known and _holds_object(inner):
                return inner, "wrapper_unwrapped"
        found = open_envelope(value)
        if found is None or any(key in known for key in value):
            return value, None
        name, inner = found
        if _plain_name(name) == self.tool.name:
            empty = inner is None or inner == ""
            return ({} if empty else inner), "envelope_unwrapped"
        if name in self.offered:
            words = f"The action names {self.tool.name[:40]}, but its arguments {name[:40]}"
            raise Refused("ambiguous_calls", words, at)
        return value, None

    def decode(self, encoded: str, at: int) -> Any:
        """Read an object that was encoded as a string; it must be the whole string."""
        region = Region(encoded, self.tool, None, self.text_forms, self.offered)
        try:
            value, end = region.scan(region.low, lambda s: s.value(self.tool.parameters))
        except Refused as refused:
            raise Refused(refused.kind, refused.words, at, refused.detail) from None
        if not region.closed:
            raise Refused("truncated_output", f"{_CUT}: closing brackets are missing", at)
        if encoded[end:].strip(SPACES):
            words = f"{_UNREADABLE}: text follows an object inside a string"
            raise Refused("bad_arguments_syntax", words, at)
        for name in region.repairs:
            self.mark(name, at)
        self.inner = self.inner or region.inner
        return value

    def clean(self, value: dict[str, Any], at: int) -> dict[str, Any]:
        """Replace halves of characters and drop NUL: the only edits inside strings."""
        if not (_may_hold_halves(self.text) or "\0" in self.text):
            return value
        cleaned: dict[str, Any] = self._cleaned(value, at)
        return cleaned

    def _cleaned(self, value: Any, at: int) -> Any:
        if isinstance(value, str):
            if "\0" in value:
                self.mark("nul_dropped", at)
                value = value.replace("\0", "")
            if _SURROGATE.search(value):
                self.mark("surrogate_replaced", at)
                value = _SURROGATE.sub("\ufffd", value)
            return value
        if isinstance(value, list):
            return [self._cleaned(item, at) for item in value]
        if not isinstance(value, dict):
            return value
        pairs = [(self._cleaned(key, at), self._cleaned(item, at)) for key, item in value.items()]
        if len(dict(pairs)) != len(pairs):
            raise Refused("bad_arguments_syntax", f"{_UNREADABLE}: a key stands twice", at)
        return dict(pairs)

    def after(self, value: Any, end: int) -> None:
        """Drop what stands behind the value; refuse another object or call there."""
        spans = [(end, self.high), *reversed(self.outer)]
        for start, stop in spans:
            if self.text[start:stop].strip(SPACES):
                self._after(value, start, stop)

    def _after(self, value: Any, start: int, stop: int) -> None:
        text = self.text
        self._refuse_going_on(start, stop)
        self._refuse_late_end(start, stop)
        reason, at, seen = None, start, 0
        first = self._pass_loose(start, stop)
        for place in self._starts(first, stop):
            if place < at:
                continue
            if place > first and self._rest_has_words(at, place):
                reason = "trailing_text"
            behind = self._another(value, place, stop)
            seen += behind > place
            if seen > _MAX_REPEATS:
                raise Refused("ambiguous_calls", "Too many objects stand under one action", place)
            at = max(at, behind)
        rest = text[at:stop]
        if reason or self._has_words(TOKENS.sub("", rest)):
            reason = "trailing_text"
        elif TOKENS.search(rest):
            reason = "template_token"
        elif rest.strip(SPACES):
            reason = "extra_closers"
        if reason:
            self.mark(reason, start)
            self.dropped.append((start, stop, reason))

    def _refuse_going_on(self, start: int, stop: int) -> None:
        """Refuse where a comma and a further key behind the value show that it was closed early."""
        where = _NEXT_KEY.match(self.text, start, stop)
        if where and (where["bare"] is None or where["bare"] in properties(self.tool)):
            words = f"{_UNREADABLE}: it goes on behind its closing bracket"
            raise Refused("bad_arguments_syntax", words, where.start(), "closed_early")

    def _refuse_late_end(self, start: int, stop: int) -> None:
        """Refuse where a quote and a brace further on may be the value's real end."""
        brace = self.text.find("{", start, stop)
        stop = stop if brace < 0 else brace
        line = self.text.find("\n", start, stop)
        line_stop = stop if line < 0 else line
        where = _LATE_END.search(self.text, start, stop if self.inner else line_stop)
        same_line = self.inner and '"' in self.text[start:line_stop].strip(SPACES)
        if (where and self._has_words(self.text[start : where.start()])) or same_line:
            words = f"{_UNREADABLE}: it is not clear where the value ends"
            raise Refused("bad_arguments_syntax", words, start, "inner_quotes")

    def _starts(self, first: int, stop: int) -> Iterator[int]:
        """Give the places where another object or call counts: directly behind, and line starts."""
        if first < stop:
            yield first
        joined = _JOINED.match(self.text, first, stop)
        if joined:
            yield joined.end()
        line = self.text.find("\n", first, stop)
        while line >= 0:
            at = self._pass_loose(line + 1, stop)
            if at < stop:
                yield at
            line = self.text.find("\n", max(line + 1, at), stop)

    def _pass_loose(self, at: int, stop: int) -> int:
        text = self.text
        while at < stop:
            if text[at] in _LOOSE:
                at += 1
            elif text[at] == "<" and (token := TOKENS.match(text, at, stop)):
                at = token.end()
            elif text.startswith("json", at):
                at += 4
            else:
                break
        return at

    def _another(self, value: Any, at: int, stop: int) -> int:
        """Pass the same object; refuse a different one, or a call; give where it ends."""
        text = self.text
        if _OBJECT.match(text, at, stop):
            scanner = Scanner(text, at, stop, self.tool.parameters)
            try:
                again = scanner.value(self.tool.parameters)
            except Unread:
                again = None
            if scanner.closed and again is not None and self._same(value, again, at):
                self.mark("repeat_collapsed", at)
                return scanner.position
            raise Refused("ambiguous_calls", "Two different objects stand under one action", at)
        if self._call_at(at, stop):
            raise Refused("ambiguous_calls", "Another call stands behind the arguments", at)
        return at

    def _same(self, value: Any, again: Any, at: int) -> bool:
        first = value if _equal(value, again) else self.unwrap(value, at)
        return _equal(first, again) or _equal(first, self.unwrap(again, at))

    def _call_at(self, at: int, stop: int) -> bool:
        text = self.text
        for name in {*self.offered, self.tool.name}:
            if name and text.startswith(name, at, stop):
                follows = text[at + len(name) : stop].lstrip(" \t")[:1]
                if follows and follows in "(（[{":
                    return True
        return False

    def _has_words(self, text: str) -> bool:
        return any(character not in _LOOSE or character in "-:" for character in text)

    def _rest_has_words(self, start: int, stop: int) -> bool:
        return self._has_words(TOKENS.sub("", self.text[start:stop]).strip(SPACES))


def open_envelope(value: Any) -> tuple[str, Any] | None:
    """Take an object that names a tool apart: the name as written, and its input or None.

    The object may stand inside one key tool_call, function or action. Give None for any other.
    """
    for _ in range(3):
        if not isinstance(value, dict) or len(value) != 1:
            break
        key, inner = next(iter(value.items()))
        if key not in ENVELOPE_KEYS or not isinstance(inner, dict):
            break
        value = inner
    return _named(value) if isinstance(value, dict) else None


def _named(value: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Find the one name and the one input among an object's keys."""
    nested = value.get("function")
    beside = {"id", "type", "index", "thought", "reasoning"}
    if isinstance(nested, dict):
        others = value.keys() - {"function"} - beside
        return None if others or isinstance(nested.get("function"), dict) else _named(nested)
    names = [key for key in NAME_KEYS if isinstance(value.get(key), str)]
    inputs = [key for key in INPUT_KEYS if key in value]
    if len(names) != 1 or len(inputs) > 1 or value.keys() - {*names, *inputs} - beside:
        return None
    return value[names[0]], value[inputs[0]] if inputs else None


def decode_clean(text: str) -> dict[str, Any] | None:
    """Decode a text that is one JSON object with nothing to mend, at C speed; else None."""
    if not text.lstrip(" \t\r\n").startswith("{") or _may_hold_halves(text):
        return None
    try:
        value = _STRICT.decode(text)
    except (ValueError, RecursionError, Unread):
        return None
    return value if isinstance(value, dict) and not _too_deep(text, value) else None


def decode_prefix(text: str, at: int, high: int) -> tuple[dict[str, Any], int] | None:
    """Decode the plain JSON object that begins at a place, if there is one before `high`."""
    try:
        value, end = _STRICT.raw_decode(text, at)
    except (ValueError, RecursionError, Unread):
        return None
    if end > high or not isinstance(value, dict) or _too_deep(text[at:end], value):
        return None
    return value, end


def _may_hold_halves(text: str) -> bool:
    """Whether half a character or a NUL may stand in a text, as it is or escaped."""
    if not text.isascii() and _SURROGATE.search(text):
        return True
    return "\\u" in text and _SUSPECT.search(text) is not None


def _too_deep(text: str, value: Any) -> bool:
    """Measure nesting without recursion, only where there are brackets enough for it."""
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    layer, depth = [value], 0
    while layer and depth <= MAX_DEPTH:
        depth += 1
        layer = [
            item
            for container in layer
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, (dict, list))
        ]
    return depth > MAX_DEPTH


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed(0, "duplicate_key", "a key stands twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise Malformed(0, "not_a_number", f"{name} is no JSON value")


_STRICT = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_refuse_constant,
    parse_int=to_number,
    parse_float=to_number,
)


def _equal(first: Any, second: Any) -> bool:
    """Compare as JSON does, where true is not 1."""
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def _holds_object(inner: Any) -> bool:
    return isinstance(inner, dict) or (isinstance(inner, str) and inner.lstrip().startswith("{"))


def _plain_name(name: str) -> str:
    return name.strip().removeprefix("functions.")


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case list():
            return "a list"
        case str():
            return "a text"
        case _:
            return "a number"
