"""Read one move of a ReAct text: an action with its input, or an answer.

Names are `parsers.names`', values `parsers.arguments`'. It knows one move at a time: which of them
count is for `parsers.react` to say.
"""

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import regex

from parsers import schema
from parsers.arguments import ArgumentReading, open_envelope, read_arguments, read_form
from parsers.labels import ANSWER_NAME, OBJECT, TURN_END, Mark, cut_token, find_inline
from parsers.leaks import begins_markup
from parsers.names import NameReading, match_name
from parsers.steps import Layout, Offered, Part, Span
from parsers.types import Call, Dialect, Dropped, Failure, FailureKind, Repair, Tool

REPAIRS: dict[str, str] = {
    "label_form": "A label was not written as asked for.",
    "one_line": "Labels were found inside of a line.",
    "quote_marks": "Every line was quoted; the marks were taken off.",
    "step_fence": "The whole step stood in a code fence.",
    "unlabelled_final": "A text without any label was taken as the final answer.",
    "answer_cut": "The token limit was reached inside of the answer.",
    "answer_as_action": "The final answer was written as an action.",
    "answer_residue": "A control token or an unpaired fence around the answer was dropped.",
    "answer_again": "A second answer was dropped.",
    "no_action": "An action line that says that there is no action was skipped.",
    "action_object": "The action was an object that names the tool and holds its input.",
    "empty_parentheses": "Empty parentheses behind the tool's name were dropped.",
    "unlabelled_input": "The input stood behind the action without its label.",
    "no_input": "There was no input, and the tool needs none.",
    "repeated_input": "The same input was given more than once.",
    "several_calls": "More than one action was read.",
    "repeated_call": "The same action with the same input stands twice.",
    "action_as_thought": "An action without an offered tool before another was taken as thought.",
    "stray_input": "An input without an action before it was taken as thought.",
    "text_before_input": "Text between the action's name and its input was dropped.",
    "thought_inside": "A thought stood between an action and its input.",
    "text_after_move": "What followed the move was dropped.",
    "invented_observation": "The reply went on with an observation of its own; it was dropped.",
    "invented_question": "The reply went on with a next question; it was dropped.",
    "after_end_token": "What followed an end token was dropped.",
    "cut_label": "A piece of a label at the end was dropped.",
    "out_of_channel": "A call in native markup was taken as the move.",
}
"""The repairs of labels and order, each with a sentence for people."""

_UNCHARGED = frozenset({"answer_cut", "out_of_channel"})
"""Repairs that level strict makes too, or that only level rescue makes."""
_CHARGED: dict[str, FailureKind] = {
    "action_object": "unknown_tool",
    "empty_parentheses": "unknown_tool",
    "unlabelled_input": "bad_arguments_syntax",
    "no_input": "bad_arguments_syntax",
    "repeated_input": "bad_arguments_syntax",
}
"""What a repair is at level strict, where it is not `no_move`."""

_ANY_OBJECT = Tool("", "", {"type": "object"})
_DECORATION = regex.compile(r"[\s_\-\"'`*“”‘’「」【】.]++")
_SPACE = regex.compile(r"[\s\u200b-\u200d\u2060\ufeff]*+")
_LINE = regex.compile(r"[^\r\n]*+")
_NO_ACTION = regex.compile(
    r"(?i)[\s\"'`*_(（\[【<-]*+(?:"
    r"(?:none|n\s?/\s?a|null|nil|nothing)(?![\p{L}\p{N}_])"
    r"|no(?:t)?[ _-](?:further |more |other |external )?(?:tools?|actions?|needed|required|necessary"
    r"|applicable|calls?)(?![\p{L}\p{N}_])"
    r"|(?:无|没有)(?![\p{L}\p{N}_])|(?:无需|不需要|不必|不用|没有必要|无须|无可用)"
    r"|(?:无|没有)(?:工具|行动|动作|操作|合适))"
)
_CLOSERS = {"[": "]］", "(": ")）", "（": ")）", "［": "]］"}
_BRACKETS = {
    opens: regex.compile(f"[{regex.escape(opens + closes)}]") for opens, closes in _CLOSERS.items()
}
_LEADING_FENCE = regex.compile(r"(?:```+|~~~+)[^\n`{\[]*+\n(?!\s*+[{｛\[])")
_TRAILING = regex.compile(rf"(?:{TURN_END}|<\|\w{{1,40}}\|>|<｜[^｜\n]{{1,40}}｜>)\s*+")
_FENCE_LINE = regex.compile(r"(?m)^[ \t]*+(?:```+|~~~+)([^\n`]*+)$")
_EMPTY_FORM = regex.compile(r"[(（\[［][^\S\r\n]*+[)）\]］][^\S\r\n]*+[.。]?[^\S\r\n]*+\Z")
_BRACE = regex.compile(r"[{｛]")
_PAIR = regex.compile(
    r"(?m)(?:^|[\s,，(（])[\"'`]?([\p{L}_$][\p{L}\p{M}\p{N}_$.\-]*+)[\"'`]?\s*+[:：=＝]"
)
_QUOTED = regex.compile(
    r"(?s)(?:[\p{L}_][\p{L}\p{N}_]*+\s*+=\s*+)?+"
    r"(?:(?P<json>\".*\"|\{.*\})|'(?P<text>[^'\\]*+)'|“(?P<text>[^“”]*+)”)"
)
_NOTHING = frozenset({"", "none", "n/a", "na", "null", "无", "{}"})
_SHOWN = 80
_NEAR = 60
_MAX_PAIRS = 20_000
_REMARK = regex.compile(r"\s*+[(（\[【—–\-,，.。;；:：#/!！…]")
_MAX_LINES = 1000

Kind = Literal["call", "answer", "none"]


def offer(tools: Sequence[Tool]) -> Offered:
    """Make a function that gives the parameters of the tool that a line names, or None."""
    known: dict[str, Collection[str] | None] = {}

    def parameters(line: str) -> Collection[str] | None:
        if line not in known:
            if len(known) >= _MAX_LINES:
                return None
            found = match_name(line, tools, where="text").tool
            known[line] = None if found is None else schema.properties(found)
        return known[line]

    return parameters


@dataclass(slots=True)
class Notes:
    """What was mended, left out, and which kind each is at level strict."""

    repairs: list[Repair] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    strict: set[FailureKind] = field(default_factory=set)

    def order(self, name: str, position: int) -> None:
        """Note a repair of labels, order or form."""
        self.repairs.append(Repair(name, position))
        if name not in _UNCHARGED:
            self.strict.add(_CHARGED.get(name, "no_move"))

    def name(self, repairs: Iterable[Repair]) -> None:
        """Note repairs of a tool's name."""
        before = len(self.repairs)
        self.repairs += repairs
        if len(self.repairs) > before:
            self.strict.add("unknown_tool")

    def value(self, reading: ArgumentReading) -> None:
        """Note what was mended in a value."""
        self.repairs += reading.repairs
        self.dropped += reading.dropped
        if reading.repairs or reading.dropped:
            self.strict.add("bad_arguments_syntax")
        if any(repair.name == "closers_added" for repair in reading.repairs):
            self.strict.add("truncated_output")

    def drop(self, start: int, end: int, reason: str) -> None:
        """Note text that is left out."""
        self.dropped.append(Dropped(start, end, reason))

    def add(self, other: "Notes") -> None:
        """Take over the notes of a move that counts."""
        self.repairs += other.repairs
        self.dropped += other.dropped
        self.strict |= other.strict


@dataclass(slots=True)
class Move:
    """One action or answer of the text, read."""

    kind: Kind
    start: int
    end: int
    call: Call | None = None
    answer: str = ""
    answer_end: int = 0
    notes: Notes = field(default_factory=Notes)
    cut: bool = False
    """Nothing complete stands behind the label."""

    @property
    def failure(self) -> Failure | None:
        """Why the call of this action cannot be run, if so."""
        return self.call.failure if self.call else None

    @property
    def is_whole(self) -> bool:
        """Whether an answer is not just announced."""
        return bool(self.answer) or self.cut


@dataclass(slots=True)
class _Value:
    """One input of an action: [start, end) of the text, its form, and what it says."""

    form: Literal["json", "call", "bracket", "other"]
    start: int
    end: int
    reading: ArgumentReading


class MoveReader:
    """Reads the moves of one text, one by one."""

    def __init__(
        self,
        text: str,
        tools: tuple[Tool, ...],
        dialect: Dialect,
        finish_reason: str | None,
        layout: Layout,
        offered: Offered,
    ) -> None:
        self.text, self.tools, self.dialect = text, tools, dialect
        self.finish, self.layout, self.offered = finish_reason, layout, offered
        self.by_name = {tool.name: tool for tool in tools}
        self.names = tuple(self.by_name)
        self.spans = sorted([*layout.blocks, *layout.fences])
        self.plain = blank(text, self.spans)
        """The text with think blocks and the fence around a step as spaces."""

    @property
    def at_limit(self) -> bool:
        """Whether the token limit ended the reply, as far as it is read."""
        return self.finish == "length" and self.layout.stop in ("end", "label")

    def _region(self, part: Part) -> tuple[int, int]:
        """Give where the content of a part stands, without the bold marks around it."""
        start, end = part.begin, part.end
        if part.bold:
            while end > start and self.plain[end - 1].isspace():
                end -= 1
            while end > start and self.plain[end - 1] == "*":
                end -= 1
        return start, end

    def _finish(self, end: int) -> str | None:
        """Give the finish reason where a region runs to the end of the reply."""
        return self.finish if self.layout.stop == "end" and end >= len(self.text) else None

    def read_action(self, part: Part, inputs: list[Part]) -> Move:
        """Read an action label's content with the inputs that follow it."""
        start, end = self._region(part)
        begin = skip(_SPACE, self.plain, start, end)
        stop = skip(_LINE, self.plain, begin, end)
        move = Move("call", part.start, end)
        if "\n" in self.plain[start:begin] or not all(item.exact for item in inputs):
            move.notes.order("label_form", part.start)
        tool = self.by_name.get(self.plain[begin:stop].rstrip())
        if tool is not None:
            return self._value(move, tool, (begin + len(tool.name), stop, end), inputs)
        return self._read_odd_action(move, (begin, stop, end), inputs)

    def _read_odd_action(self, move: Move, place: tuple[int, int, int], inputs: list[Part]) -> Move:
        """Read an action whose line is not just an offered name."""
        begin, stop, end = place
        if fence := _LEADING_FENCE.match(self.plain, begin, end):
            begin = skip(_SPACE, self.plain, fence.end(), end)
            stop = skip(_LINE, self.plain, begin, end)
            move.notes.name([Repair("name_decoration", fence.start())])
        if inline := self._inline_input(begin, stop):
            move.notes.order("one_line", inline.start)
            inputs = [Part("input", inline.start, inline.end, end), *inputs]
            stop = end = inline.start
        line = self.plain[begin:stop]
        found = ANSWER_NAME.match(line)
        if found and not self._is_offered(line[: found.start("open")]):
            return self._answer_action(move, found, (begin, end), inputs)
        if _NO_ACTION.match(line) and not any(name in line for name in self.names):
            move.kind = "none"
            move.end = max([end, *(item.end for item in inputs)])
            move.notes.order("no_action", move.start)
            return move
        if OBJECT.match(self.plain, begin, end):
            return self._object_action(move, (begin, end), inputs)
        if not line.strip() and len(inputs) == 1 and self._holds_object(inputs[0]):
            return self._object_action(move, self._region(inputs[0]), [])
        name = match_name(line, self.tools, where="text", base=begin)
        if name.tool is None or begins_markup(self.plain, begin, stop):
            return self._nameless(move, name, line, (begin, stop, end), inputs)
        move.notes.name(name.repairs)
        return self._value(move, name.tool, (begin + name.end, stop, end), inputs)

    def _holds_object(self, part: Part) -> bool:
        return OBJECT.match(self.plain, part.begin, part.end) is not None

    def _is_offered(self, name: str) -> bool:
        folded = _folded(name)
        return any(folded == _folded(other) for other in self.names)

    def _inline_input(self, begin: int, end: int) -> Mark | None:
        """Find an input's label on an action line, behind the name of an offered tool."""
        marks = find_inline(self.plain, begin, end)
        if not marks or marks[0].kind != "input":
            return None
        name = self.plain[begin : marks[0].start]
        if any(sign in name for sign in "{[=\"'") or "(" in name.replace("()", ""):
            return None
        return marks[0] if self.offered(name) is not None else None

    def _nameless(
        self,
        move: Move,
        name: NameReading,
        line: str,
        place: tuple[int, int, int],
        inputs: list[Part],
    ) -> Move:
        """Refuse an action whose name means no offered tool."""
        begin, stop, end = place
        failure = name.failure or Failure("unknown_tool", position=begin)
        if self.at_limit and not inputs and not self.plain[stop:].strip():
            failure = cut(begin, "inside of an action")
        move.call = Call(line.strip()[:_SHOWN], None, failure=failure)
        move.end = max([end, *(item.end for item in inputs)])
        return move

    def _value(
        self, move: Move, tool: Tool, place: tuple[int, int, int], inputs: list[Part]
    ) -> Move:
        """Read the value of an action whose tool is known."""
        _, stop, end = place
        on_line = self._on_line(move, tool, place, bool(inputs))
        readings = [self._labelled(tool, item) for item in inputs]
        if on_line is None and not inputs:
            return self._unlabelled(move, tool, place)
        if inputs and on_line is None and self.plain[stop:end].strip():
            move.notes.order("text_before_input", stop)
            move.notes.drop(stop, end, "text_before_input")
        if on_line is not None:
            readings = [on_line, *(item for item in readings if not self._is_nothing(item))]
        move = self._merged(move, tool, readings)
        if inputs and (other := self._name_alone(tool, stop, end)) is not None:
            self.refuse_another(move, other)
        return move

    def _name_alone(self, tool: Tool, start: int, end: int) -> int | None:
        """Find another tool's name that has a line to itself between a name and its input."""
        between = self.plain[start:end]
        if not between.strip():
            return None
        lines = {line.strip(" \t-*`") for line in between.splitlines()}
        other = next((name for name in self.names if name in lines and name != tool.name), None)
        return None if other is None else start + between.find(other)

    def _labelled(self, tool: Tool, part: Part) -> _Value:
        start, end = self._region(part)
        reading = read_arguments(
            self.plain[start:end],
            tool,
            finish_reason=self._finish(end),
            text_forms=True,
            base=start,
            offered=self.names,
        )
        return _Value("json", start, end, reading)

    def _is_nothing(self, value: _Value) -> bool:
        written = self.plain[value.start : value.end].strip().strip("`\"'")
        return written.casefold() in _NOTHING

    def _on_line(
        self, move: Move, tool: Tool, place: tuple[int, int, int], labelled: bool
    ) -> _Value | None:
        """Read a call or bracket form behind a name; empty ones and remarks are no value."""
        behind, stop, end = place
        start = skip(_SPACE, self.plain, behind, stop)
        sign = self.plain[start : start + 1]
        if not sign or sign not in "(（[［":
            return None
        if labelled and _EMPTY_FORM.match(self.plain, start, stop):
            move.notes.order("empty_parentheses", start)
            return None
        reading = read_form(
            self.plain[start:end],
            tool,
            finish_reason=self._finish(end),
            dialect=self.dialect,
            base=start,
            offered=self.names,
        )
        unsure = labelled or (reading.failure is not None and start > behind)
        if unsure and _is_remark(self.plain[start:stop]):
            move.notes.name([Repair("name_remark", start)])
            return None
        return _Value("bracket" if sign in "[［" else "call", start, end, reading)

    def _unlabelled(self, move: Move, tool: Tool, place: tuple[int, int, int]) -> Move:
        """Read an object or pairs behind the name without a label, or nothing at all."""
        behind, stop, end = place
        rest = self.plain[behind:end]
        if _BRACE.search(rest) or self._holds_pairs(tool, rest):
            reading = read_arguments(
                rest,
                tool,
                finish_reason=self._finish(end),
                text_forms=True,
                base=behind,
                offered=self.names,
            )
            move.notes.order("unlabelled_input", behind)
            return self._merged(move, tool, [_Value("other", behind, end, reading)])
        if self.at_limit and (self._finish(end) or self.layout.stop == "label"):
            reading = ArgumentReading(None, cut(end, "before the input of an action"))
        elif self._says_more(tool, self.plain[behind:stop]):
            words = f"What stands behind {tool.name[:_SHOWN]} names no parameter."
            reading = ArgumentReading(None, Failure("bad_arguments_shape", None, words, behind))
        else:
            reading = read_arguments("", tool, text_forms=True, base=end, offered=self.names)
        move.notes.order("no_input", behind)
        if self.plain[stop:end].strip():
            move.notes.drop(stop, end, "text_after_move")
        return self._merged(move, tool, [_Value("other", behind, behind, reading)])

    def _holds_pairs(self, tool: Tool, rest: str) -> bool:
        names = schema.properties(tool)
        return any(match[1] in names for match in _PAIR.finditer(rest[:_MAX_PAIRS]))

    def _says_more(self, tool: Tool, remark: str) -> bool:
        """Whether words behind a name could be a value that a parameter is there for."""
        words = remark.strip().strip("\"'`*")
        optional = schema.properties(tool) and not schema.required(tool)
        return bool(words and optional and not _REMARK.match(words))

    def _merged(self, move: Move, tool: Tool, values: list[_Value]) -> Move:
        """Take several inputs as one where they say the same."""
        last = values[-1]
        failures = [value.reading.failure for value in values if value.reading.failure]
        raw = self.plain[last.start : last.start + last.reading.end].strip()
        move.end = last.start + last.reading.end
        if len(values) > 1:
            move.notes.order("repeated_input", last.start)
        if (failures and len(failures) < len(values)) or (
            not failures and not _is_cumulative([value.reading.arguments for value in values])
        ):
            failures = [_two_inputs(tool, last.start)]
        for value in values:
            move.notes.value(value.reading)
            if value.form != self.dialect:
                move.notes.strict.add("bad_arguments_syntax")
        arguments = None if failures else last.reading.arguments
        move.call = Call(tool.name, arguments, None, raw, failures[0] if failures else None)
        for mark in find_inline(self.plain, move.end, skip(_LINE, self.plain, move.end, last.end)):
            if mark.kind == "action" and self.line_offers(mark.end, last.end) is not None:
                self.refuse_another(move, mark.start)
        return move

    def _object_action(self, move: Move, place: tuple[int, int], inputs: list[Part]) -> Move:
        """Read an object that names the tool and holds its input."""
        start, end = place
        read = read_arguments(
            self.plain[start:end], _ANY_OBJECT, finish_reason=self._finish(end), base=start
        )
        move.notes.value(read)
        move.notes.order("action_object", start)
        move.end = end
        envelope = open_envelope(read.arguments) if read.arguments is not None else None
        raw = self.plain[start:end].strip()
        if envelope is None:
            words = "The action is an object that names no tool."
            failure = read.failure or Failure("missing_tool_name", None, words, start)
            move.call = Call("", None, None, raw, failure)
            return move
        return self._opened(move, envelope, (start, end), inputs)

    def _opened(
        self, move: Move, envelope: tuple[str, Any], place: tuple[int, int], inputs: list[Part]
    ) -> Move:
        """Read the name and the input that an object holds."""
        start, end = place
        written, inner = envelope
        found = ANSWER_NAME.fullmatch(written)
        if found and not self._is_offered(written):
            answer = inner if isinstance(inner, str) else _one_text(inner)
            move.kind = "answer"
            move.answer, move.answer_end = (answer or "").strip(), end
            move.notes.order("answer_as_action", start)
            return move
        if _NO_ACTION.match(written) and not any(name in written for name in self.names):
            move.kind = "none"
            move.notes.order("no_action", start)
            return move
        name = match_name(written, self.tools, where="text", base=start)
        if name.tool is None:
            move.call = Call(written.strip()[:_SHOWN], None, failure=name.failure)
            return move
        move.notes.name(name.repairs)
        value = inner if isinstance(inner, str) else as_json(inner)
        reading = read_arguments(
            value, name.tool, text_forms=isinstance(inner, str), base=start, offered=self.names
        )
        values = [_Value("other", start, end, replace(reading, end=end - start))]
        labelled = [self._labelled(name.tool, item) for item in inputs]
        values += [item for item in labelled if not self._is_nothing(item)]
        return self._merged(move, name.tool, values)

    def _answer_action(
        self,
        move: Move,
        found: "regex.Match[str]",
        place: tuple[int, int],
        inputs: list[Part],
    ) -> Move:
        """Read `Finish[…]`, or Final Answer given as an action's name."""
        begin, end = place
        move.kind = "answer"
        move.notes.order("answer_as_action", begin)
        opener = found["open"]
        start = begin + found.end()
        if opener in _CLOSERS and opener:
            close = _closing(self.plain, start, end, opener)
            if close is None:
                move.cut = True
                return move
            end = close
        given = [item for item in inputs if self.plain[item.begin : item.end].strip()]
        if given and self.plain[start:end].strip():
            move.kind = "call"
            move.call = Call("", None, failure=_two_answers(begin))
            return move
        if given:
            start, end = self._region(given[0])
        self._take_answer(move, start, end)
        move.answer = _unquoted(move.answer)
        return move

    def read_answer(self, part: Part) -> Move:
        """Read the content of a final answer's label."""
        move = Move("answer", part.start, part.end)
        start, end = self._region(part)
        self._take_answer(move, start, end)
        return move

    def _take_answer(self, move: Move, start: int, end: int) -> None:
        """Take the text of an answer: think blocks, control tokens and an odd fence left out."""
        answer = self.without_blocks(start, end)
        kept = without_residue(answer)
        if kept != answer.strip():
            move.notes.order("answer_residue", start)
            move.notes.drop(start, end, "answer_residue")
        move.answer, move.answer_end, move.end = kept, end, end

    def without_blocks(self, start: int, end: int) -> str:
        """Give [start, end) of the text without the think blocks in it."""
        pieces, at = [], start
        for span in self.spans[bisect_left(self.spans, (start,)) : bisect_left(self.spans, (end,))]:
            pieces.append(self.text[at : span.start])
            at = span.end
        return "".join([*pieces, self.text[at:end]])

    def line_offers(self, start: int, end: int) -> Collection[str] | None:
        """Give the parameters of the tool that the line at `start` names, up to a label in it."""
        line = self.plain[start : skip(_LINE, self.plain, start, end)]
        inline = find_inline(line, 0, len(line))
        return self.offered(line[: inline[0].start] if inline else line)

    def refuse_another(self, move: Move, position: int) -> None:
        """Refuse a readable action behind which another stands on the same line."""
        if move.call is not None and move.call.failure is None:
            tool = move.call.name
            words = f"More than one action stands on one line, the first of them {tool[:_SHOWN]}."
            failure = Failure("ambiguous_calls", None, words, position)
            move.call = replace(move.call, arguments=None, failure=failure)


def skip(pattern: "regex.Pattern[str]", text: str, start: int, end: int) -> int:
    """Give the end of what a pattern matches at `start`, or `start`."""
    match = pattern.match(text, start, end)
    return match.end() if match else start


def cut(position: int, where: str) -> Failure:
    """Make the failure of a reply that ends too early."""
    return Failure("truncated_output", None, f"The reply ends {where}.", position)


def _two_inputs(tool: Tool, position: int) -> Failure:
    words = f"The action {tool.name[:_SHOWN]} has two inputs that differ; write one action each."
    return Failure("ambiguous_calls", None, words, position)


def _two_answers(position: int) -> Failure:
    words = "The final answer stands on the action line and in the input as well."
    return Failure("ambiguous_calls", None, words, position)


def _is_cumulative(values: list[dict[str, Any] | None]) -> bool:
    """Whether each of several inputs holds all of the one before it."""
    if len(values) == 1:
        return True
    texts = [
        {key: as_json(item) for key, item in value.items()} for value in values if value is not None
    ]
    return all(first.items() <= second.items() for first, second in pairwise(texts))


def as_json(value: Any) -> str:
    """Write a decoded value as JSON again."""
    return json.dumps(value, ensure_ascii=False, sort_keys=False)


def _folded(name: str) -> str:
    return _DECORATION.sub("", name).casefold()


def _is_remark(written: str) -> bool:
    """Whether what stands in brackets behind a name is words, not a value."""
    return not any(sign in written for sign in "=\"'“‘{:＝")


def _one_text(value: Any) -> str | None:
    """Take the one text of an object that stands for an answer, or the object as it is."""
    if isinstance(value, dict) and len(value) == 1:
        only = next(iter(value.values()))
        if isinstance(only, str):
            return only
    return None if value is None else as_json(value)


def _closing(text: str, start: int, end: int, opener: str) -> int | None:
    """Find the bracket that closes an answer: the matching one, else the last one."""
    closes = _CLOSERS[opener]
    depth = 1
    for match in _BRACKETS[opener].finditer(text, start, end):
        depth += 1 if match[0] == opener else -1
        if depth == 0:
            return match.start()
    last = max(text.rfind(sign, start, end) for sign in closes)
    return last if last >= 0 and not text[last + 1 : end].strip() else None


def _unquoted(answer: str) -> str:
    """Take quotes off that stand around the whole of an answer given as an action's input."""
    match = _QUOTED.fullmatch(answer)
    if match is None:
        return answer
    if match["text"] is not None:
        return str(match["text"]).strip()
    with suppress(ValueError, RecursionError):
        value = json.loads(match["json"])
        text = value if isinstance(value, str) else _one_text(value)
        return (text or "").strip()
    return answer


def without_residue(answer: str) -> str:
    """Take off control tokens at the end, and a fence line that has no partner."""
    answer = answer.strip()
    end = len(answer)
    while (start := answer.rfind("<", max(0, end - _NEAR), end)) >= 0:
        if not _TRAILING.fullmatch(answer, start, end):
            break
        end = start
    answer = answer[:end].rstrip()
    piece = cut_token(answer)
    answer = answer if piece is None else answer[:piece].rstrip()
    fences = list(_FENCE_LINE.finditer(answer))
    if len(fences) % 2 == 0:
        return answer
    last, first = fences[-1], fences[0]
    if not last[1].strip() and last.end() == len(answer):
        return answer[: last.start()].rstrip()
    return answer[first.end() :].lstrip() if first.start() == 0 else answer


def blank(text: str, spans: list[Span]) -> str:
    """Put spaces in the place of spans, so that positions stay."""
    if not spans:
        return text
    pieces, at = [], 0
    for span in spans:
        pieces += [text[at : span.start], " " * (span.end - max(at, span.start))]
        at = max(at, span.end)
    return "".join([*pieces, text[at:]])
