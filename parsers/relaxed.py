"""One linear scanner for JSON and call arguments as models write them.

It knows the names that a schema gives and nothing else of the tool; whether a reading may be used
is decided by `parsers.arguments`. It evaluates nothing, changes no type, never recurses, and looks
at each character a bounded number of times.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import regex

from parsers.schema import item_schema, property_names, property_schema

MAX_DEPTH = 200
MAX_DIGITS = 4300
MAX_VALUES = 20_000
"""Values in one text that needs mending; plain JSON may hold any number."""
MAX_INNER = 200
"""Quotes inside one string that are still taken for content."""
_MAX_KEY = 160

Role = Literal["object", "list", "call", "pairs", "top"]
"""Where a value stands: what may follow a string there is what ends it."""

OPENERS = {"{": "}｝", "｛": "}｝", "[": "]］", "［": "]］"}
CLOSERS_OF = {
    '"': '"',
    "'": "'",
    "“": "”“",
    "”": "”“",
    "„": "”“",
    "‘": "’‘",
    "’": "’‘",
    "＂": "＂",
    "＇": "＇",
}
"""Quotes that may open a string, each with the quotes that may close it."""

_SINGLE = "'‘’＇"
_COMMAS = ",，"
_COLONS = ":："
_EQUALS = "=＝"
_CLOSE_CALL = ")）"
_FULLWIDTH = frozenset("｛｝［］：，（）＝＂＇")
_NARROW = frozenset("\u00a0\u1680\u202f\u205f\u3000\u2028\u2029\x0b\x0c\x85") | frozenset(
    map(chr, range(0x2000, 0x200B))
)
ZERO_WIDTH = frozenset("\u200b\u200c\u200d\u2060\ufeff")
ODD_SPACES = _NARROW | ZERO_WIDTH
_PASSED = ODD_SPACES | frozenset(" \t\r\n\\/#<")
"""What white space, a comment or escaped white space may begin with."""
_LITERALS: Mapping[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_PYTHON = frozenset({"True", "False", "None"})
_NOT_NUMBERS = frozenset({"NaN", "nan", "Infinity", "inf", "Inf", "undefined"})

_SPACE = regex.compile(r"[ \t\r\n]*+")
_ODD_RUN = regex.compile(rf"[{''.join(sorted(ODD_SPACES))}]*+")
_WORD = regex.compile(r"[\p{L}_$][\p{L}\p{M}\p{N}_$]*+")
_KEY = regex.compile(r"[\p{L}_$][\p{L}\p{M}\p{N}_$.\-]*+")
_NUMBER = regex.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+\-]?[0-9]++)?")
_THOUSANDS = regex.compile(r"-?[1-9][0-9]{0,2}(?:,[0-9]{3})++(?:\.[0-9]++)?(?![0-9.eE]|,[0-9])")
_AFTER_NUMBER = frozenset(" \t\r\n,，}｝]］)）/#\\<") | ODD_SPACES
_CONTROL = regex.compile(r"[\x00-\x1f]")
_ESCAPE = regex.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|\Z)", regex.DOTALL)
_ESCAPES = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_JSON = json.JSONDecoder(strict=False)
_BODIES = {
    closers: regex.compile(rf"(?:[^{closers}\\]++|\\.)*+", regex.DOTALL)
    for closers in set(CLOSERS_OF.values())
}


def span_end(pattern: regex.Pattern[str], text: str, start: int, limit: int | None = None) -> int:
    """Give the end of a pattern that also matches nothing."""
    found = pattern.match(text, start, len(text) if limit is None else limit)
    return found.end() if found else start


def body_end(text: str, start: int, closers: str, limit: int | None = None) -> int:
    """Give the place of the first closing quote that is not escaped, or where there is none."""
    return span_end(_BODIES[closers], text, start, limit)


class Unread(Exception):  # noqa: N818
    """The text is no value: where, one word why, and a sentence without its end."""

    def __init__(self, position: int, detail: str | None, words: str) -> None:
        super().__init__(words)
        self.position = position
        self.detail = detail
        self.words = words


class Cut(Unread):
    """The text ends inside the value; with `closable` only brackets are missing."""

    def __init__(self, position: int, words: str, *, closable: bool = False) -> None:
        super().__init__(position, None, words)
        self.closable = closable


class Malformed(Unread):
    """The text goes on, but not as a value does."""


@dataclass(slots=True)
class _Frame:
    """An object or list that is still open."""

    container: Any
    closers: str
    schema: Any
    key: str = ""


class Scanner:
    """Reads one value, or the arguments of a call, from `position` up to `limit`.

    `marks` names each relaxation that was needed, with the place of its first use. With `inner`,
    a quote ends a value's string only where the names of the schema show it. `closed` is False
    where only closers were missing at the end.
    """

    __slots__ = (
        "_last_is_number",
        "_thousands",
        "closed",
        "inner",
        "limit",
        "marks",
        "odd_strings",
        "position",
        "root",
        "text",
        "values",
    )

    def __init__(
        self,
        text: str,
        position: int,
        limit: int,
        root: Mapping[str, Any],
        *,
        inner: bool = False,
    ) -> None:
        self.text = text
        self.position = position
        self.limit = limit
        self.root = root
        self.inner = inner
        self.marks: dict[str, int] = {}
        self.closed = True
        self.odd_strings = 0
        self.values = 0
        self._last_is_number = False
        self._thousands = False

    def value(self, schema: Any, role: Role = "top") -> Any:
        """Read one value; raise Cut or Malformed where there is none."""
        stack: list[_Frame] = []
        try:
            return self._value(schema, role, stack)
        except Cut as cut:
            if not cut.closable or self._last_is_number or not stack:
                raise
            self._mark("closers_added", cut.position)
            self.closed = False
            return stack[0].container

    def arguments(self, role: Literal["call", "pairs"]) -> tuple[list[Any], dict[str, Any]]:
        """Read positional and keyword arguments, up to `)` or, as pairs, to the end."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        try:
            self._arguments(role, positional, named)
        except Cut as cut:
            if not cut.closable or self._last_is_number:
                raise
            self._mark("closers_added", cut.position)
            self.closed = False
        return positional, named

    def _value(self, schema: Any, role: Role, stack: list[_Frame]) -> Any:
        while True:
            opened, item = self._start(schema, role, stack)
            if opened:
                continue
            while stack:
                frame = stack[-1]
                self._attach(frame, item)
                if self._goes_on(frame):
                    break
                item = stack.pop().container
            else:
                return item

    def _start(self, schema: Any, role: Role, stack: list[_Frame]) -> tuple[bool, Any]:
        """Read a scalar or an empty container whole; open one that holds something."""
        self.skip()
        here = self._here("a value")
        self._count()
        if here not in OPENERS:
            return False, self._scalar(here, schema, role, stack)
        if len(stack) >= MAX_DEPTH:
            raise Malformed(self.position, "too_deep", f"values are nested deeper than {MAX_DEPTH}")
        self._note_width(here)
        frame = _Frame(
            {} if here in "{｛" else [], OPENERS[here], self._inner_schema(stack, schema)
        )
        if stack:
            self._attach(stack[-1], frame.container)
        stack.append(frame)
        self.position += 1
        self._last_is_number = False
        self.skip()
        if self._here("a closing bracket") in frame.closers:
            self._take()
            return False, stack.pop().container
        if isinstance(frame.container, dict):
            self._key(frame)
        return True, None

    def _inner_schema(self, stack: list[_Frame], schema: Any) -> Any:
        """Follow the schema into the place where the next value stands."""
        if not self.inner or not stack:
            return schema
        frame = stack[-1]
        if isinstance(frame.container, dict):
            return property_schema(self.root, frame.schema, frame.key)
        return item_schema(self.root, frame.schema)

    def _attach(self, frame: _Frame, item: Any) -> None:
        container = frame.container
        if isinstance(container, dict):
            container[frame.key] = item
        elif not container or container[-1] is not item or not isinstance(item, (dict, list)):
            container.append(item)

    def _goes_on(self, frame: _Frame) -> bool:
        """Read what stands behind a value: a comma and the next key, or the closer."""
        self.skip()
        if self.position >= self.limit:
            raise Cut(self.position, "the closing brackets are missing", closable=True)
        here = self.text[self.position]
        if here in frame.closers:
            self._take()
            self._last_is_number = False
            return False
        if here not in _COMMAS:
            raise Malformed(self.position, None, "a comma or a closing bracket is wanted")
        comma = self.position
        self._take()
        self.skip()
        if self._here("what follows a comma") in frame.closers:
            self._mark("trailing_comma", comma)
            self._take()
            self._last_is_number = False
            return False
        if isinstance(frame.container, dict):
            self._key(frame)
        return True

    def _key(self, frame: _Frame) -> None:
        """Read a key and its colon."""
        at = self.position
        here = self.text[at]
        if here in CLOSERS_OF:
            key = self._string(here, "top", ())
        else:
            if here == "\\" and self.text[at + 1 : at + 2] in ('"', "'"):
                raise Malformed(at, "escaped_quotes", "its quotes are escaped")
            found = _KEY.match(self.text, at, self.limit)
            if not found:
                raise Malformed(at, None, "a key in quotes is wanted")
            key = found.group()
            self.position = found.end()
            self._mark("unquoted_keys", at)
        self.skip()
        if self._here("a colon") not in _COLONS:
            raise Malformed(self.position, None, "a colon is wanted behind a key")
        self._take()
        if key in frame.container:
            raise Malformed(at, "duplicate_key", f'the key "{key[:40]}" stands twice')
        frame.key = key

    def _scalar(self, here: str, schema: Any, role: Role, stack: list[_Frame]) -> Any:
        if stack:
            frame = stack[-1]
            role = "object" if isinstance(frame.container, dict) else "list"
            schema = frame.schema
        self._last_is_number = False
        if here in CLOSERS_OF:
            names = property_names(self.root, schema) if self.inner else ()
            return self._string(here, role, names)
        if here == "-" or "0" <= here <= "9":
            may_group = role == "object" or (self._thousands and not stack)
            return self._number(may_group=may_group)
        return self._literal()

    def _literal(self) -> Any:
        at = self.position
        if self.text[at] == "\\" and self.text[at + 1 : at + 2] in ('"', "'"):
            raise Malformed(at, "escaped_quotes", "its quotes are escaped")
        found = _WORD.match(self.text, at, self.limit)
        word = found.group() if found else self.text[at]
        if word in _NOT_NUMBERS:
            raise Malformed(at, "not_a_number", f"{word} is no JSON value")
        if word not in _LITERALS:
            if found and found.end() == self.limit and _begins_literal(word):
                raise Cut(at, "the text ends inside a literal")
            raise Malformed(at, None, f'"{word[:30]}" is no value; text stands in double quotes')
        self.position = at + len(word)
        if word in _PYTHON:
            self._mark("python_literals", at)
        return _LITERALS[word]

    def _number(self, *, may_group: bool) -> int | float:
        at = self.position
        stop = min(self.limit, at + 2 * MAX_DIGITS)
        grouped = _THOUSANDS.match(self.text, at, stop) if may_group else None
        found = grouped or _NUMBER.match(self.text, at, self.limit)
        if not found:
            if at + 1 >= self.limit:
                raise Cut(at, "the text ends inside a number")
            raise Malformed(at, _infinite(self.text, at), "this is no number as JSON has them")
        end = found.end()
        if end < self.limit and self.text[end] not in _AFTER_NUMBER:
            if end + 1 >= self.limit and self.text[end] in ".eE+-":
                raise Cut(at, "the text ends inside a number")
            raise Malformed(at, None, "this is no plain number; nothing is calculated or converted")
        digits = found.group()
        if grouped:
            self._mark("thousands_separator", at)
            digits = digits.replace(",", "")
        self.position = end
        self._last_is_number = True
        return to_number(digits, at)

    def _string(self, quote: str, role: Role, names: tuple[str, ...]) -> str:
        at = self.position
        self._note_quote(quote, at)
        if quote in "\"'" and self.text.startswith(quote * 3, at, self.limit):
            return self._triple(quote)
        closers = CLOSERS_OF[quote]
        if self.inner and role in ("object", "call", "pairs"):
            end = self._inner_end(at, closers, role, names)
        else:
            end = self._plain_end(at + 1, closers, at)
        self._note_quote(self.text[end], end)
        self.position = end + 1
        return self._decode(at + 1, end, single=quote in _SINGLE)

    def _plain_end(self, start: int, closers: str, opened: int) -> int:
        end = body_end(self.text, start, closers, self.limit)
        if end >= self.limit or self.text[end] == "\\":
            raise Cut(opened, "the text ends inside a string")
        return end

    def _triple(self, quote: str) -> str:
        at = self.position
        end = self.text.find(quote * 3, at + 3, self.limit)
        if end < 0:
            raise Cut(at, "the text ends inside a string")
        while end + 3 < self.limit and self.text[end + 3] == quote:
            end += 1
        self._mark("triple_quotes", at)
        self.position = end + 3
        return self._decode(at + 3, end, single=quote in _SINGLE)

    def _decode(self, start: int, end: int, *, single: bool) -> str:
        raw = self.text[start:end]
        if _CONTROL.search(raw):
            self._mark("raw_control", start)
        if "\\" not in raw:
            return raw
        plain = None if single else _plain_text(self.text, start, end)
        if plain is not None:
            return plain
        return self._unescape(raw, start, single=single)

    def _unescape(self, raw: str, start: int, *, single: bool) -> str:
        """Decode escapes; leave a string alone in which no backslash begins one."""
        if raw.count("\\") > MAX_VALUES:
            raise Malformed(start, "too_long", f"there are more than {MAX_VALUES} escapes")
        known = {**_ESCAPES, "'": "'"} if single else _ESCAPES
        good = bad = 0
        for found in _ESCAPE.finditer(raw):
            if found.group(1) or found.group(2) in known:
                good += 1
            else:
                bad += 1
            if good and bad:
                where = start + found.start()
                raise Malformed(where, "escape", "good and bad escapes mix in one string")
        if bad:
            self._mark("bare_backslash", start)
            return raw
        text = _ESCAPE.sub(
            lambda m: chr(int(m.group(1), 16)) if m.group(1) else known[m.group(2)], raw
        )
        if "\\u" in raw:
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return text

    def _inner_end(self, at: int, closers: str, role: Role, names: tuple[str, ...]) -> int:
        """Find the quote that ends a value's string by what follows it."""
        start, inside, closing_first = at + 1, 0, False
        while True:
            end = self._plain_end(start, closers, at)
            opening = inside % 2 == 0
            if self._ends_here(end, role, names, opening=opening):
                break
            closing_first |= opening and self._looks_closing(end)
            inside += 1
            if inside > MAX_INNER:
                raise Malformed(end, "inner_quotes", "too many quotes stand inside a string")
            start = end + 1
        if closing_first and inside > 1:
            raise Malformed(at, "inner_quotes", "several strings stand where one is wanted")
        content = self.text[at + 1 : end]
        if len(closers) > 1 and content.count(closers[0]) != content.count(closers[1]):
            raise Malformed(at, "inner_quotes", "curly quotes inside a string are no pairs")
        if inside:
            self._mark("inner_quotes", at)
            self.odd_strings += inside % 2
        return end

    def _ends_here(self, end: int, role: Role, names: tuple[str, ...], *, opening: bool) -> bool:
        """Judge a quote; raise where it could be both an end and content."""
        separators = _COLONS if role == "object" else _EQUALS
        at = self._peek(end + 1)
        here = self.text[at] if at < self.limit else ""
        if not here:
            if role == "pairs":
                return True
            raise Cut(end, "the text may end inside a string")
        if role == "object" and here in "}｝":
            return True
        if role == "call" and here in _CLOSE_CALL and self._closes_line(at + 1):
            return True
        if role == "pairs" and "\n" in self.text[end + 1 : at]:
            return True
        own = self._name_at(end, separators)
        if own in names and own is not None:
            raise Malformed(end, "inner_quotes", "a comma before a key is missing")
        if here in _COMMAS:
            return self._ends_at_comma(at, role, names, opening=opening)
        following = self._name_at(at, separators)
        if following is not None and following in names:
            raise Malformed(end, "inner_quotes", "a comma before a key is missing")
        if opening and self._joins(end + 1, at):
            raise Malformed(end, "inner_quotes", "several strings stand where one is wanted")
        return False

    def _ends_at_comma(
        self, comma: int, role: Role, names: tuple[str, ...], *, opening: bool
    ) -> bool:
        at = self._peek(comma + 1)
        if at >= self.limit:
            raise Cut(comma, "the text ends behind a comma")
        if role == "object" and self.text[at] in "}｝":
            return True
        if role == "call" and self.text[at] in _CLOSE_CALL and self._closes_line(at + 1):
            return True
        name = self._name_at(at, _COLONS if role == "object" else _EQUALS)
        if name is not None and name in names:
            return True
        if name is not None and (self.text[at] in CLOSERS_OF or role != "object"):
            raise Malformed(at, "inner_quotes", f'"{name[:40]}" is no name of the schema')
        if opening and self.text[at] in CLOSERS_OF:
            raise Malformed(comma, "inner_quotes", "several strings stand where one is wanted")
        return False

    def _looks_closing(self, at: int) -> bool:
        """Tell whether a quote that should open a word has it before and white space behind."""
        before, behind = self.text[at - 1], self.text[at + 1 : at + 2]
        return behind.isspace() and not before.isspace() and not before.isdigit()

    def _joins(self, start: int, at: int) -> bool:
        """Tell whether another string follows, behind white space or an operator."""
        text = self.text
        if text[at] in "+.&|" and at + 1 < self.limit:
            after = self._peek(at + 1)
            return after < self.limit and text[after] in CLOSERS_OF
        return at > start and text[at] in CLOSERS_OF

    def _name_at(self, at: int, separators: str) -> str | None:
        """Give the key or parameter that begins here, if its separator follows."""
        text = self.text
        stop = min(self.limit, at + _MAX_KEY)
        if at >= self.limit:
            return None
        if text[at] in CLOSERS_OF:
            closers = CLOSERS_OF[text[at]]
            end = body_end(text, at + 1, closers, stop)
            if end >= stop or text[end] not in closers:
                return None
            name, end = text[at + 1 : end], end + 1
        else:
            found = _KEY.match(text, at, stop)
            if not found:
                return None
            name, end = found.group(), found.end()
        after = self._peek(end)
        if after >= self.limit or text[after] not in separators:
            return None
        return None if text.startswith("==", after) else name

    def _closes_line(self, at: int) -> bool:
        """Tell whether nothing but closers stands between here and the end of the line."""
        text = self.text
        while at < self.limit and text[at] in " \t\r)）]］}｝`.。;；":
            at += 1
        return at >= self.limit or text[at] == "\n"

    def _arguments(
        self, role: Literal["call", "pairs"], positional: list[Any], named: dict[str, Any]
    ) -> None:
        while True:
            self.skip()
            if role == "call" and self._here("an argument") in _CLOSE_CALL:
                self._take()
                return
            self._argument(role, positional, named)
            if not self._another(role):
                return

    def _argument(self, role: Role, positional: list[Any], named: dict[str, Any]) -> None:
        at = self.position
        found = _KEY.match(self.text, at, self.limit)
        after = self._peek(found.end()) if found else at
        is_named = (
            found is not None
            and self.text[after : after + 1] in tuple(_EQUALS)
            and not self.text.startswith("==", after)
        )
        if not is_named:
            if named or role == "pairs":
                raise Malformed(at, None, "an argument without a name stands behind named ones")
            self._thousands = False
            positional.append(self.value_in_call(self.root, role))
            return
        name = self.text[at : found.end()] if found else ""
        self.position = after
        self._take()
        if name in named:
            raise Malformed(at, "duplicate_key", f'the parameter "{name[:40]}" stands twice')
        self._thousands = True
        named[name] = self.value_in_call(self.root, role)

    def value_in_call(self, schema: Any, role: Role) -> Any:
        """Read one argument; a cut one is not completed where a number is last."""
        stack: list[_Frame] = []
        try:
            return self._value(schema, role, stack)
        except Cut as cut:
            if not cut.closable or self._last_is_number or not stack:
                raise
            self._mark("closers_added", cut.position)
            self.closed = False
            return stack[0].container

    def _another(self, role: Role) -> bool:
        """Read what stands behind an argument; tell whether one more follows."""
        start = self.position
        self.skip()
        if self.position >= self.limit:
            if role == "pairs":
                return False
            raise Cut(self.position, "the closing parenthesis is missing", closable=True)
        here = self.text[self.position]
        if role == "call" and here in _CLOSE_CALL:
            self._take()
            return False
        if here in _COMMAS:
            comma = self.position
            self._take()
            self.skip()
            if self.position >= self.limit:
                raise Cut(comma, "the text ends behind a comma")
            if role == "call" and self.text[self.position] in _CLOSE_CALL:
                self._mark("trailing_comma", comma)
            return True
        if role == "pairs" and "\n" in self.text[start : self.position]:
            if self._name_at(self.position, _EQUALS) is not None:
                return True
            self.position = start
            return False
        raise Malformed(self.position, None, "a comma or the closing parenthesis is wanted")

    def _count(self) -> None:
        self.values += 1
        if self.values > MAX_VALUES:
            raise Malformed(self.position, "too_long", f"there are more than {MAX_VALUES} values")

    def skip(self) -> None:
        """Pass white space, comments and escaped white space between tokens."""
        text, limit = self.text, self.limit
        while self.position < limit and text[self.position] in _PASSED:
            at = span_end(_SPACE, text, self.position, limit)
            self.position = at
            if at >= limit:
                return
            here = text[at]
            if here in ODD_SPACES:
                self._mark("zero_width" if here in ZERO_WIDTH else "nbsp", at)
                self.position = span_end(_ODD_RUN, text, at, limit)
            elif here == "\\" and text[at + 1 : at + 2] in ("n", "r", "t"):
                self._mark("escaped_whitespace", at)
                self._count()
                self.position += 2
            elif here in "/#<":
                end = self._comment_end(at)
                if end == at:
                    return
                self._mark("comments", at)
                self._count()
                self.position = end
            elif here == "\\":
                return

    def _comment_end(self, at: int) -> int:
        text, limit = self.text, self.limit
        for opener, closer in (("/*", "*/"), ("<!--", "-->")):
            if text.startswith(opener, at, limit):
                end = text.find(closer, at + len(opener), limit)
                return limit if end < 0 else end + len(closer)
        if text.startswith("//", at, limit) or text[at] == "#":
            end = text.find("\n", at, limit)
            return limit if end < 0 else end
        return at

    def _peek(self, at: int) -> int:
        """Give the place of the next character that is no white space, without a mark."""
        text, limit = self.text, self.limit
        at = min(at, limit)
        while True:
            at = span_end(_SPACE, text, at, limit)
            if at >= limit or text[at] not in ODD_SPACES:
                return at
            at = span_end(_ODD_RUN, text, at, limit)

    def _here(self, wanted: str) -> str:
        if self.position >= self.limit:
            raise Cut(self.position, f"the text ends where {wanted} is wanted")
        return self.text[self.position]

    def _take(self) -> None:
        self._note_width(self.text[self.position])
        self.position += 1

    def _note_width(self, character: str) -> None:
        if character in _FULLWIDTH:
            self._mark("fullwidth_punctuation", self.position)

    def _note_quote(self, quote: str, at: int) -> None:
        if quote == "'":
            self._mark("single_quotes", at)
        elif quote in "＂＇":
            self._mark("fullwidth_punctuation", at)
        elif quote != '"':
            self._mark("curly_quotes", at)

    def _mark(self, name: str, at: int) -> None:
        self.marks.setdefault(name, at)


def _plain_text(text: str, start: int, end: int) -> str | None:
    """Decode a string in double quotes with the standard library, if it ends where it should."""
    if text[start - 1] != '"':
        return None
    try:
        decoded, stop = _JSON.raw_decode(text, start - 1)
    except (ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, str) and stop == end + 1 else None


def to_number(digits: str, at: int = 0) -> int | float:
    """Convert JSON digits; raise Malformed for an infinite or an endless number."""
    if len(digits) > MAX_DIGITS:
        raise Malformed(at, "number", f"a number has more than {MAX_DIGITS} digits")
    if digits.lstrip("-").isdigit():
        return int(digits)
    number = float(digits)
    if math.isinf(number):
        raise Malformed(at, "number", "a number is too large to be finite")
    return number


def _begins_literal(word: str) -> bool:
    return any(literal.startswith(word) for literal in _LITERALS)


def _infinite(text: str, at: int) -> str | None:
    return "not_a_number" if text.startswith(("-Inf", "-inf"), at) else None
