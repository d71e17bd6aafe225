"""Find the labels, fences, think blocks and end tokens of a text, and where a value hides them.

It only says what stands where. It names no tool, reads no value and decides no order.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Literal, NamedTuple

import regex

Kind = Literal[
    "thought",
    "action",
    "use",
    "input",
    "observation",
    "final",
    "answer",
    "question",
    "fence",
    "open",
    "close",
    "end",
]

_NAMES: dict[Kind, tuple[str, ...]] = {
    "thought": ("thought", "思考", "想法"),
    "input": (
        *("action input", "tool input", "input", "arguments"),
        *("行动 输入", "动作 输入", "输入", "参数", "行動 輸入", "動作 輸入", "輸入", "參數"),
    ),
    "action": ("action", "tool use", "tool", "行动", "动作", "工具", "行動", "動作"),
    "use": ("use",),
    "observation": ("observation", "观察 结果", "观察", "觀察 結果", "觀察"),
    "final": ("final answer", "最终 答案", "最終 答案"),
    "answer": ("answer", "答案"),
    "question": ("question", "问题", "問題"),
}
"""The names of the labels; a space stands for a space, an underscore or nothing."""

KINDS: dict[str, Kind] = {
    name.replace(" ", ""): kind for kind, names in _NAMES.items() for name in names
}
_EXACT = frozenset({"Thought:", "Action:", "Action Input:", "Final Answer:"})
MOVES: frozenset[Kind] = frozenset({"action", "use", "final", "answer"})
STEP: frozenset[Kind] = frozenset({*MOVES, "input"})

_GAP = r"[^\S\r\n\u2028\u2029]|[\u200b-\u200d\u2060\ufeff]"
_MARK = (
    rf"(?:{_GAP}|[>#*_•·●▪◦‣–—+\-\ufe0f]|\p{{So}}|\(?\d{{1,3}}[.)、．）:：]|（\d{{1,3}}）"
    r"|<\|\w{1,32}\|>)"
)
_NUMBER = rf"(?:(?:{_GAP}){{0,2}}[(#（]?\d{{1,3}}[)）]?)?"


def _spelled(name: str) -> str:
    return name.replace(" ", rf"{_NUMBER}(?:_|(?:{_GAP}){{0,3}})")


def _words(*kinds: Kind) -> str:
    names = [name for kind in kinds for name in _NAMES[kind]]
    return "|".join(_spelled(name) for name in sorted(names, key=len, reverse=True))


_TAIL = rf"{_NUMBER}[*_]{{0,3}}(?:{_GAP}){{0,64}}+(?:(?P<colon>[:：])\*{{0,2}}|[*_]{{0,3}}(?:{_GAP})*+$)"
_LINE = (
    rf"(?P<marks>{_MARK}{{0,64}}+)"
    rf"(?:(?P<word>{_words(*_NAMES)}){_TAIL}|(?P<fence>```+|~~~+)(?P<info>[^\n`]*+)$)"
)
_LABELS = regex.compile(rf"(?mi)^(?![^\S\n]*+$){_LINE}")
_LABELS_CR = regex.compile(
    r"(?mi)(?:^|(?<=[\r\u2028\u2029]))" + _LINE.replace("$", r"(?=[\r\n]|\Z)")
)
_BEHIND = regex.compile(rf"(?mi){_LINE}")
_TAGS = regex.compile(r"(?i)</?think(?:ing)?>")
TURN_END = (
    r"<\|(?:im_end|im_start|eot_id|eom_id|endoftext|end_of_text|end|return|call|user|observation)\|>"
    r"|<end_of_turn>|</s>|<｜end▁of▁sentence｜>"
)
_ENDS = regex.compile(TURN_END)
_INLINE = regex.compile(
    rf"(?i)(?<![\w\"'“‘「『`])(?P<word>{_words('input', 'action', 'final')})"
    rf"{_NUMBER}[*_]{{0,3}}(?:{_GAP}){{0,8}}+[:：][*_]{{0,2}}"
)
_TERMINATOR_TAIL = (
    rf"{_NUMBER}[*_]{{0,3}}(?:{_GAP}){{0,64}}+(?:[:：]|[*_]{{0,3}}(?:{_GAP})*+[\r\n])"
)
TERMINATORS = regex.compile(
    rf"(?mi)(?:^|(?<=[\r\u2028\u2029])){_MARK}{{0,64}}+"
    rf"(?:{_words('observation', 'question')}){_TERMINATOR_TAIL}|{TURN_END}"
)
"""What may end a reply before its text ends."""
MAX_MARKS = 20_000
_MAX_INLINE = 200
_SHORT_LINE = 12
_MAX_KNOWN = 4096
_NEAR = 400
"""Characters of a line that are looked at around a mark."""
_SQUEEZE = regex.compile(rf"(?:{_GAP}|[_\d()#（）])+")
_CUT = regex.compile(rf"(?i){_MARK}{{0,64}}+(?P<piece>[\p{{L}}\d _]{{1,20}}+)[*_]{{0,3}}\s*+\Z")
_CUT_TOKEN = regex.compile(r"<\|\w{0,32}+\|?\Z")
_PIECES = frozenset(
    word[:n] for word in KINDS for n in range(2 if word[0] > "\x7f" else 3, len(word) + 1)
) | {"观", "觀", "ob"}


ANSWER_NAME = regex.compile(
    r"(?i)\s*+[\"'`*_“‘「【]*+(?:(?P<finish>finish)|final[ _]?answer|answer|最[终終][ _]?答案|答案)"
    r"[\"'`*_”’」】]*+\s*+(?P<open>[\[(（［:：]|$)"
)
"""An action line that names the final answer instead of a tool."""
OBJECT = regex.compile(r"\s*+(?:(?:```|~~~|`)[\p{L}\d_+-]*+\s*+)?(?:[\[［]\s*+)?[{｛]")
"""An object, perhaps in a fence or a list."""


class Mark(NamedTuple):
    """One label, fence, think tag or end token; [start, end), marks of the line included."""

    kind: Kind
    start: int
    end: int
    exact: bool = False
    word: str = ""
    """The words as written; of a fence, its ticks."""
    bare: bool = False
    """A fence without a language, or a heading without a colon."""
    bold: bool = False
    """The label opened bold and did not close it."""


def find_marks(text: str) -> tuple[list[Mark], bool]:
    """List the marks of a text in order, in values and blocks too; also tell if there are more.

    Of each sort, `MAX_MARKS` are looked for: no reply has near so many.
    """
    marks: list[Mark] = []
    limit = len(text)
    found = 0
    for start, shape in islice(_labelled_lines(text), MAX_MARKS):
        found += 1
        if shape:
            marks.append(_mark(shape, start))
    if found >= MAX_MARKS:
        limit = marks[-1].start if marks else 0
    if "<" not in text:
        return marks, limit < len(text)
    tags = _think_tags(text)
    ends = [Mark("end", m.start(), m.end()) for m in islice(_ENDS.finditer(text), MAX_MARKS)]
    limit = min([limit, *(some[-1].start for some in (tags, ends) if len(some) >= MAX_MARKS)])
    glued = any(text.find("|>", mark.start, mark.end) >= 0 for mark in marks)
    order = (lambda mark: _behind_tokens(text, mark)) if glued else _start
    every = sorted([*ends, *marks, *tags], key=order)
    return [mark for mark in every if mark.start <= limit], limit < len(text)


_start = attrgetter("start")


def _behind_tokens(text: str, mark: Mark) -> int:
    """Order a label behind the tokens before its word: one of them may end the reply."""
    return max(mark.start, text.rfind("|>", mark.start, mark.end) if mark.word else -1)


def _labelled_lines(text: str) -> Iterator[tuple[int, "_Shape | None"]]:
    """Look at the start of each line; one by one where lines are long, since that is faster."""
    if "\r" in text or "\u2028" in text or "\u2029" in text:
        for match in _LABELS_CR.finditer(text):
            yield match.start(), _shape_of(match)
    elif text.count("\n") * _SHORT_LINE > len(text):
        for match in _LABELS.finditer(text):
            yield match.start(), _shape_of(match)
    else:
        line = 0
        while line >= 0:
            colon = text.find(":", line, line + _LONGEST)
            plain = _PLAIN.get(text[line : colon + 1]) if colon > 0 else None
            if plain and not text.startswith("*", colon + 1):
                yield line, plain
            elif label := _BEHIND.match(text, line):
                yield line, _shape_of(label)
            end = text.find("\n", line)
            line = end + 1 if end >= 0 else -1


_Shape = tuple[Kind, int, bool, str, bool, bool]
"""What a mark is apart from its place: kind, length, exact, word, bare, bold."""


_known: dict[str, _Shape | None] = {}
_PLAIN: dict[str, _Shape] = {
    f"{word}:": (KINDS[word.casefold().replace(" ", "")], len(word) + 1, exact, word, False, False)
    for word, exact in {
        "Thought": True,
        "Action": True,
        "Action Input": True,
        "Observation": False,
        "Final Answer": True,
    }.items()
}
"""The labels as asked for, which need no pattern."""
_LONGEST = max(map(len, _PLAIN))


def _shape_of(match: "regex.Match[str]") -> _Shape | None:
    """Remember shapes: replies write their labels the same way again and again."""
    written: str = match[0]
    if written not in _known:
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[written] = _shape(match)
    return _known[written]


def _mark(shape: _Shape, start: int) -> Mark:
    kind, length, exact, word, bare, bold = shape
    return Mark(kind, start, start + length, exact, word, bare, bold)


def _shape(match: "regex.Match[str]") -> _Shape | None:
    written: str = match[0]
    if match["fence"]:
        return "fence", len(written), False, match["fence"], not match["info"].strip(), False
    word: str = match["word"]
    marks: str = match["marks"]
    tail = written[len(marks) + len(word) :]
    kind = kind_of(word)
    if match["colon"] is None:
        heading = "#" in marks or ("*" in marks and "*" in tail)
        return (kind, len(written), False, word, True, False) if heading else None
    bold = marks.rstrip().endswith("*")
    closer = len(tail) - len(tail.rstrip("*"))
    length = len(written) if bold else len(written) - closer
    exact = written.removeprefix("\ufeff") in _EXACT
    return kind, length, exact, word, False, bold and "*" not in tail


def _think_tags(text: str) -> list[Mark]:
    """Give the tags, and a label that stands directly behind a closing one."""
    tags = []
    for match in islice(_TAGS.finditer(text), MAX_MARKS):
        start, end = match.span()
        closes = text[start + 1] == "/"
        tags.append(Mark("close" if closes else "open", start, end))
        label = _BEHIND.match(text, end) if closes else None
        shape = _shape(label) if label else None
        if shape:
            tags.append(_mark(shape, end))
    return tags


def has_marks(text: str, start: int, end: int) -> bool:
    """Whether a line of [start, end), which begins behind a label, may hold a mark."""
    while (line := text.find("\n", start, end)) >= 0:
        start = line + 1
        if _BEHIND.match(text, start, end):
            return True
    return False


def kind_of(word: str) -> Kind:
    """Tell the kind of a label from its words as written."""
    return KINDS[_SQUEEZE.sub("", word.casefold())]


def find_inline(text: str, start: int, end: int) -> list[Mark]:
    """List Action, Action Input and Final Answer with a colon, wherever in [start, end)."""
    if text.find(":", start, end) < 0 and text.find("：", start, end) < 0:
        return []
    return [
        Mark(kind_of(match["word"]), match.start(), match.end(), False, match["word"])
        for match in islice(_INLINE.finditer(text, start, end), _MAX_INLINE)
        if not is_in_string(text, match.start(), match.end())
    ]


def is_in_string(text: str, start: int, end: int) -> bool:
    """Whether [start, end) stands between the double quotes of a string on its line."""
    near = max(0, start - _NEAR)
    line = max(text.rfind("\n", near, start) + 1, near)
    quotes = text.count('"', line, start) - text.count('\\"', line, start)
    if quotes % 2 == 0:
        return False
    close = text.find('"', end, end + _NEAR)
    return close >= 0 and "\n" not in text[end:close]


def cut_label(text: str, start: int) -> int | None:
    """Tell where the last line begins if it is only the beginning of a label, from `start` on."""
    line = max(text.rfind("\n", start), text.rfind("\r", start)) + 1
    if line == 0 and start > 0:
        return None
    match = _CUT.match(text, line) if len(text) - line < 120 else None
    if match and _SQUEEZE.sub("", match["piece"].casefold()) in _PIECES:
        return line
    return None


def cut_token(text: str) -> int | None:
    """Tell where a control token begins that the end of the text cuts."""
    match = _CUT_TOKEN.search(text, max(0, len(text) - 40))
    return match.start() if match else None


_OPENERS = regex.compile(r"[{\[(（［｛]")
_TOKENS = regex.compile(r"\"\"\"|'''|[\"'“‘＂＇「]|[{\[(（［｛]++|[}\])）］｝]++")
_CLOSER = {
    quote: regex.compile(rf"(?s)(?:[^{close}\\]|\\.)*+[{close}]")
    for quote, close in {
        '"': '"',
        "'": "'",
        "“": "”“",
        "‘": "’‘",
        "＂": "＂",
        "＇": "＇",
        "「": "」",
    }.items()
}
_SPACES = regex.compile(r"\s*+")
_BEFORE = frozenset("{[(（［｛,，:：=“\"'")
_AFTER = frozenset(",，、:：}])）］｝/#<;；")


class Values:
    """Tell where the values of a text end, so that a label inside one is no label.

    A value that nothing closes ends at the first label or end token outside its strings: a reply
    is over at its end token, whatever brackets may still come. `open` is set where text that is
    still to come could change where a value ends.
    """

    def __init__(self, text: str, labels: Iterable[int], ends: Iterable[int]) -> None:
        self.text = text
        self.labels = [*labels, len(text)]
        """Where labels start, in order, and the end of the text."""
        self.stops = sorted({*self.labels, *ends})
        """Where labels and end tokens start, in order, and the end of the text."""
        self.open = False
        self._next = 0
        self._endless: set[str] = set()
        self._spent = 0

    def end(self, start: int) -> int:
        """Give the end of the value behind `start`, or `start` if there is none to guard."""
        self._next = bisect_left(self.stops, start)
        limit, pos = self.stops[self._next], start
        while match := _OPENERS.search(self.text, pos, limit):
            end, closed = self._close(match.start())
            if not closed:
                return end if end > match.start() else start
            if pos == start or end > limit:
                limit = min(self._line_end(end), self.stops[bisect_left(self.stops, end)])
            pos = end
        return pos if pos > start else self._quoted(start)

    def _line_end(self, pos: int) -> int:
        end = self.text.find("\n", pos)
        return len(self.text) if end < 0 else end

    def _close(self, begin: int) -> tuple[int, bool]:
        """Follow brackets and strings from an opener on: (end, whether it closed)."""
        text, depth, pos, stop = self.text, 0, begin, self._next
        while match := _TOKENS.search(text, pos):
            at, token = match.start(), match[0]
            while self.stops[stop] < at:
                if self.stops[stop] >= pos:
                    return self.stops[stop], False
                stop += 1
            if token[0] in "{[(（［｛":
                depth += len(token)
                pos = match.end()
            elif token[0] in "}])）］｝":
                if depth <= len(token):
                    return at + depth, True
                depth -= len(token)
                pos = match.end()
            else:
                pos = self._string(token, at, match.end(), begin)
                if pos < 0:
                    return begin, False
        stop = bisect_left(self.stops, pos)
        if self.stops[stop] < len(text):
            return self.stops[stop], False
        self.open = True
        return begin, False

    def _string(self, quote: str, at: int, start: int, begin: int) -> int:
        """Give the end of a string that opens at `at`; -1 where it has none."""
        before = self.text[max(begin, at - 16) : at].rstrip()
        if before and before[-1] not in _BEFORE:
            return start
        end = self._triple(quote, start) if len(quote) == 3 else self._plain(quote, start)
        self._spent += max(0, end - start)
        if end < 0 or self._spent > 8 * len(self.text):
            self.open = True
            return -1
        return end

    def _triple(self, quote: str, start: int) -> int:
        end = -1 if quote in self._endless else self.text.find(quote, start)
        if end < 0:
            self._endless.add(quote)
            return -1
        return end + 3

    def _plain(self, quote: str, start: int) -> int:
        if quote in self._endless:
            return -1
        match = _CLOSER[quote].match(self.text, start)
        if match is None:
            self._endless.add(quote)
            return -1
        if self._ends(match.end()):
            return match.end()
        return self._with_quotes_inside(quote, match.end())

    def _with_quotes_inside(self, quote: str, pos: int) -> int:
        """Pass quotes that are content, but never a label."""
        label = self.labels[bisect_left(self.labels, pos)]
        while match := _CLOSER[quote].match(self.text, pos, label):
            pos = match.end()
            if self._ends(pos):
                return pos
        return -1

    def _ends(self, pos: int) -> bool:
        """Whether what follows a quote says that a string ends there."""
        match = _SPACES.match(self.text, pos)
        follow = match.end() if match else pos
        if follow >= len(self.text) or self.text[follow] in _AFTER:
            return True
        return self.labels[bisect_left(self.labels, pos)] <= follow

    def _quoted(self, start: int) -> int:
        """Give the end of a quoted text that begins behind a label and ends its own line."""
        match = _SPACES.match(self.text, start)
        begin = match.end() if match else start
        quote = self.text[begin : begin + 1]
        if begin > self.stops[self._next] or quote not in _CLOSER or quote in self._endless:
            return start
        close = _CLOSER[quote].match(self.text, begin + 1)
        if close is None:
            self._endless.add(quote)
            self.open = True
            return start
        rest = self.text[close.end() : self._line_end(close.end())]
        return close.end() if not rest.strip() else start
