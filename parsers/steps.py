"""Cut a text into its labelled parts: which label counts, and where the reply really ends.

It decides what is a label, a thought and an answer's own text. It reads no name and no arguments.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal, NamedTuple

import regex

from parsers.labels import (
    ANSWER_NAME,
    MOVES,
    OBJECT,
    TURN_END,
    Kind,
    Mark,
    Values,
    cut_label,
    find_inline,
    find_marks,
    is_in_string,
)

_QUOTES = frozenset("'\"`“”‘’「」『』")
_LABELS: frozenset[Kind] = frozenset(
    {"thought", "action", "use", "input", "observation", "final", "answer", "question"}
)
_ENDING: frozenset[Kind] = frozenset({"thought", "observation", "final", "question"})
"""The labels that end an answer, beside an action with an offered tool."""
_USUAL = frozenset({"Thought", "Action", "Action Input", "Observation", "Final Answer"})
"""Words that no parameter's name is taken for inside of an object."""
_ONLY_MARKS = regex.compile(r"[^\p{L}\p{N}{}\[\]()\"'`<]*+")
_ONLY_TOKENS = regex.compile(rf"(?:\s|{TURN_END})*+")
_start = attrgetter("start")
_FIRST_LINE = regex.compile(r"\s*+([^\r\n]*+)")

Offered = Callable[[str], Collection[str] | None]
"""Give the parameters' names of the tool that a line names, or None if it names no offered one."""

PartKind = Literal["prelude"] | Kind
Stop = Literal["observation", "question", "token", "think", "label", "flood", "end"]
"""Why reading stops: `think` is a block that nothing closes, `flood` more marks than are read."""


@dataclass(slots=True)
class Part:
    """A label with what stands behind it: [start, begin) is the label, [begin, end) the content."""

    kind: PartKind
    start: int
    begin: int
    end: int
    exact: bool = True
    bold: bool = False
    word: str = ""


class Span(NamedTuple):
    """[start, end) of the text, and why it is no content."""

    start: int
    end: int
    reason: str


@dataclass(slots=True)
class Layout:
    """The parts of a text up to where it is read."""

    parts: tuple[Part, ...]
    end: int
    """Where reading stops: an invented Observation, the next question, an end token, or the end."""
    stop: Stop
    stopper: int
    """Where the label or token that stops the reading ends."""
    blocks: tuple[Span, ...] = ()
    """Think blocks, and what an orphan closer makes thought."""
    fences: tuple[Span, ...] = ()
    """Fence lines around whole steps."""
    closed: tuple[Span, ...] = ()
    """Fences whose inside is text."""
    fenced_steps: bool = False
    """Whole steps stand in a fence that is not read."""
    settled: bool = False
    """Nothing that follows can change these parts."""


def lay_out(text: str, offered: Offered, keys: Callable[[], Collection[str]]) -> Layout:
    """Cut a text into parts; `keys` gives the parameters' names of all tools."""
    marks, more = find_marks(text)
    layout = _Walk(text, marks, offered, keys).run()
    return replace(layout, stop="flood") if more and layout.stop == "end" else layout


class _Walk:
    def __init__(
        self,
        text: str,
        marks: list[Mark],
        offered: Offered,
        keys: Callable[[], Collection[str]],
    ) -> None:
        self.text, self.marks, self.offered, self.keys = text, marks, offered, keys
        self._values: Values | None = None
        self.parts: list[Part] = []
        self.part = Part("prelude", 0, 0, 0)
        self.blocks: list[Span] = []
        self.fences: list[Span] = []
        self.closed: list[Span] = []
        self.pos = 0
        """Marks before it are inside of something."""
        self.value_end = -1
        self.end = len(text)
        self.stopper = 0
        self.stop: Stop = "end"
        self.moved = False
        self.answering = False
        """The current action, or the input of it, is the final answer."""
        self.fenced_steps = False
        self.unsure = False
        """In a fence of whole steps, whose end may still change what it is."""
        self._parameters: Collection[str] | None = None
        self._endless: set[tuple[bool, bool, str, int]] = set()

    def run(self) -> Layout:
        index = 0
        while index < len(self.marks) and self.stop == "end":
            mark = self.marks[index]
            index = index + 1 if mark.start < self.pos else self._take(index, mark)
        if self.stop == "end" and (cut := self._cut()) is not None:
            self.end, self.stop = cut, "label"
        self._close(self.end)
        settled = self.stop in ("observation", "question", "token")
        return Layout(
            tuple(self.parts),
            self.end,
            self.stop,
            max(self.stopper, self.end),
            tuple(self.blocks),
            tuple(self.fences),
            tuple(self.closed),
            self.fenced_steps,
            settled and not self.unsure and not (self._values and self._values.open),
        )

    def _cut(self) -> int | None:
        return cut_label(self.text, max(self.pos, self.part.begin))

    def _take(self, index: int, mark: Mark) -> int:
        match mark.kind:
            case "open":
                return self._think(index, mark)
            case "close":
                self._orphan(index, mark)
            case "fence":
                return self._fence(index, mark)
            case "end":
                self._token(mark)
            case _:
                self._label(mark)
        return index + 1

    def _close(self, end: int) -> None:
        self.part.end = max(end, self.part.begin)
        self.parts.append(self.part)

    def _halt(self, mark: Mark, stop: Stop) -> None:
        self.end, self.stop, self.stopper = mark.start, stop, mark.end
        while self.text[self.stopper - 1] == "*":
            self.stopper -= 1
        self.unsure = self.unsure or (mark.bare and mark.end >= len(self.text))

    def _label(self, mark: Mark) -> None:
        if not self._counts(mark):
            return
        if mark.kind == "observation":
            self._halt(mark, "observation")
        elif mark.kind == "question" and self.moved:
            self._halt(mark, "question")
        else:
            self._open(mark)

    def _open(self, mark: Mark) -> None:
        self._close(mark.start)
        kind: PartKind = "action" if mark.kind == "use" else mark.kind
        kind = "final" if kind == "answer" else kind
        self.part = Part(kind, mark.start, mark.end, mark.end, mark.exact, mark.bold, mark.word)
        self.moved = self.moved or mark.kind in MOVES
        self.pos = mark.end
        self.value_end = -1
        if kind in ("action", "input") and self.marks[-1].start >= mark.end:
            end = self._guard().end(mark.end)
            if end > mark.end:
                self.pos = self.value_end = end
        if kind == "action":
            self._parameters = None
        self.answering = (
            self._is_answer(mark.end) if kind == "action" else (self.answering and kind == "input")
        )

    def _guard(self) -> Values:
        if self._values is None:
            named = [m for m in self.marks if m.kind in _LABELS]
            odd = any(m.word not in _USUAL for m in named)
            keys = frozenset(self.keys()) - _USUAL if odd else ()
            labels = [m.start for m in named if m.word not in keys]
            ends = [m.start for m in self.marks if m.kind == "end"]
            self._values = Values(self.text, labels, ends)
        return self._values

    def _counts(self, mark: Mark) -> bool:
        """Whether this label is one here."""
        part = self.part
        if mark.kind == "use" and self._tool(mark.end) is None:
            return OBJECT.match(self.text, mark.end) is not None
        if (part.kind == "final" or self.answering) and mark.kind not in _ENDING:
            return self._ends_answer(part, mark)
        if part.kind == "input" and self.value_end < 0:
            return mark.word not in self._keys()
        return True

    def _ends_answer(self, part: Part, mark: Mark) -> bool:
        """Whether a label that is mostly an answer's own text ends it."""
        if mark.kind in ("action", "use"):
            return self._tool(mark.end) is not None
        if part.kind == "action":
            return mark.kind == "input" and not self._says_answer(part.begin)
        return mark.kind == "answer" and not self.text[part.begin : mark.start].strip()

    def _says_answer(self, start: int) -> bool:
        match = _FIRST_LINE.match(self.text, start)
        name = ANSWER_NAME.match(match[1][:400]) if match else None
        return name is not None and bool(name["open"])

    def _is_answer(self, start: int) -> bool:
        """Whether an action names the final answer, and no tool is called so."""
        match = _FIRST_LINE.match(self.text, start)
        name = ANSWER_NAME.match(match[1][:400]) if match else None
        return name is not None and self.offered(name[0][: name.start("open")]) is None

    def _tool(self, start: int) -> Collection[str] | None:
        """Look at the first line behind a label, unless it is a label itself."""
        match = _FIRST_LINE.match(self.text, start)
        if match is None or (match.start(1) > start and self._is_label(start, match.start(1))):
            return None
        return self.offered(match[1][:400])

    def _is_label(self, start: int, line: int) -> bool:
        """Whether a label other than `Use …` stands between a place and what a line says."""
        index = bisect_left(self.marks, start, key=_start)
        while index < len(self.marks) and self.marks[index].start <= line:
            if self.marks[index].kind in _LABELS and self.marks[index].kind != "use":
                return True
            index += 1
        return False

    def _keys(self) -> Collection[str]:
        """Name the parameters of the tool whose input this is: a line may begin with one."""
        if self._parameters is None:
            begin = next((p.begin for p in reversed(self.parts) if p.kind == "action"), None)
            self._parameters = () if begin is None else self._tool(begin) or ()
        return self._parameters

    def _token(self, mark: Mark) -> None:
        if self.part.kind in ("action", "input"):
            said = self.text[self.part.begin : mark.start].strip()
            if said and (self.part.kind == "input" or self.value_end >= 0):
                self._halt(mark, "token")
        elif self.part.kind == "final":
            rest = self._rest_of_line(mark.end)
            if not rest.strip() or rest.lstrip().startswith("<|"):
                self._halt(mark, "token")
                self.unsure = self.unsure or mark.end + len(rest) >= len(self.text)

    def _rest_of_line(self, pos: int) -> str:
        end = self.text.find("\n", pos, pos + 400)
        return self.text[pos : end if end >= 0 else pos + 400]

    def _begins(self, mark: Mark) -> bool:
        """Whether only marks stand before it on its line or behind its label."""
        near = max(0, mark.start - 400)
        line = max(self.text.rfind("\n", near, mark.start) + 1, near, self.part.begin)
        match = _ONLY_MARKS.fullmatch(self.text, line, mark.start)
        return match is not None

    def _is_quoted(self, mark: Mark) -> bool:
        around = self.text[max(0, mark.start - 1) : mark.start] + self.text[mark.end : mark.end + 1]
        return any(sign in _QUOTES for sign in around)

    def _is_content(self, mark: Mark) -> bool:
        return self._is_quoted(mark) or is_in_string(self.text, mark.start, mark.end)

    def _think(self, index: int, mark: Mark) -> int:
        """Take a block as thought; one that nothing closes ends the reading."""
        if not self._is_structural(mark):
            return index + 1
        for at in range(index + 1, len(self.marks)):
            if self.marks[at].kind == "close" and not self._is_content(self.marks[at]):
                self.blocks.append(Span(mark.start, self.marks[at].end, "think"))
                self.pos = self.marks[at].end
                return at + 1
        self._halt(mark, "think")
        return index + 1

    def _is_structural(self, mark: Mark) -> bool:
        if self._is_quoted(mark):
            return False
        if self._begins(mark):
            return True
        follow = self.text[mark.end : mark.end + 1]
        inside = self.part.kind in ("prelude", "thought", "question")
        return inside and follow not in ("", " ", ",", ".", ";", ":", ")", "，", "。")

    def _orphan(self, index: int, mark: Mark) -> None:
        """Make all before a closer thought that nothing opened."""
        if self._is_content(mark):
            return
        follows = self.marks[index + 1] if index + 1 < len(self.marks) else None
        label = follows is not None and follows.start == mark.end and follows.kind in _LABELS
        said = self.moved and not label and self._rest_of_line(mark.end).strip()
        if said and not self._begins(mark):
            return
        self.parts, self.fences, self.moved, self.answering = [], [], False, False
        self.blocks = [Span(0, mark.end, "orphan")]
        self.part = Part("prelude", mark.end, mark.end, mark.end)
        self.pos, self.value_end = mark.end, -1

    def _fence(self, index: int, mark: Mark) -> int:
        part = self.part
        if part.kind in ("action", "input") and self._is_leftover(mark):
            return index + 1
        close = self._closing(index, mark)
        if close is None:
            return index + 1
        steps = not self.moved and self._holds_steps(index, close)
        end = self.marks[close].end
        if steps and self._is_alone(mark, close):
            self.fences += [Span(mark.start, mark.end, "fence")]
            self.fences += [Span(self.marks[close].start, end, "fence")]
            self.unsure = True
            return index + 1
        self.fenced_steps = self.fenced_steps or steps
        self.closed.append(Span(mark.start, end, "fence"))
        self.pos = end
        return close + 1

    def _holds_steps(self, index: int, close: int) -> bool:
        inside = self.marks[index + 1 : close]
        if any(mark.kind in MOVES for mark in inside):
            return True
        inline = find_inline(self.text, self.marks[index].end, self.marks[close].start)
        first = inline[0] if inline else None
        if first is None or first.kind == "input":
            return False
        return first.kind == "final" or self._tool(first.end) is not None

    def _is_leftover(self, mark: Mark) -> bool:
        """Whether it closes the fence around a value whose opener the value's guard passed."""
        end = self.value_end
        return mark.bare and end >= 0 and not self.text[end : mark.start].strip()

    def _closing(self, index: int, mark: Mark) -> int | None:
        """Find the fence line that closes one, past fences inside it where there is one past."""
        for nested, outside in ((True, True), (True, False), (False, False)):
            key = (nested, outside, mark.word[0], len(mark.word))
            close = None
            if key not in self._endless:
                close = self._next_close(index, mark, nested, outside)
            if close is not None:
                return close
            self._endless.add(key)
            self.unsure = True
        return None

    def _next_close(self, index: int, mark: Mark, nested: bool, outside: bool) -> int | None:
        """Find a closing line; `outside` leaves out lines that stand between double quotes."""
        depth, quotes, before = 0, 0, mark.end
        for at in range(index + 1, len(self.marks)):
            other = self.marks[at]
            if other.kind != "fence" or other.word[0] != mark.word[0]:
                continue
            quotes += self._count_quotes(before, other.start) if outside else 0
            before = other.start
            if quotes % 2:
                continue
            if not other.bare:
                depth += nested
            elif depth > 0:
                depth -= 1
            elif len(other.word) >= len(mark.word):
                return at
        return None

    def _count_quotes(self, start: int, end: int) -> int:
        return self.text.count('"', start, end) - self.text.count('\\"', start, end)

    def _is_alone(self, mark: Mark, close: int) -> bool:
        """Whether nothing but thought stands outside a fence of whole steps."""
        part = self.part
        begin = max([part.begin, *(block.end for block in self.blocks)])
        if self.fenced_steps or part.kind not in ("prelude", "thought"):
            return False
        if part.kind == "prelude" and self.text[begin : mark.start].strip():
            return False
        end = self.marks[close].end
        for at in range(close + 1, len(self.marks)):
            label = self.marks[at]
            if label.kind in _LABELS:
                alone = _ONLY_TOKENS.fullmatch(self.text, end, max(end, label.start))
                return alone is not None and self._is_thought_from(at)
        return _ONLY_TOKENS.fullmatch(self.text, end) is not None

    def _is_thought_from(self, index: int) -> bool:
        for at in range(index, len(self.marks)):
            kind = self.marks[at].kind
            if kind in ("observation", "question"):
                return True
            if kind in _LABELS and kind != "thought":
                return False
        return True
