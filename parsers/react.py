"""Read a ReAct text: which moves it makes, in which order, and which of them count.

The labels come from `parsers.steps`, names from `parsers.names`, values from `parsers.arguments`,
native markup from `parsers.leaks`. It may not mend a value or a name itself, and never raises for
a text.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Any

import regex

from parsers import schema
from parsers.labels import MAX_MARKS, OBJECT, Mark, cut_label, find_inline, has_marks
from parsers.leaks import LeakReading, find_leaks
from parsers.moves import Move, MoveReader, Notes, as_json, cut, offer, skip, without_residue
from parsers.region import decode_clean
from parsers.steps import Part, lay_out
from parsers.types import (
    PRECEDENCE,
    Call,
    Dialect,
    Failure,
    Level,
    Reading,
    Repair,
    Tool,
    ToolLike,
    as_tools,
)

_LINE = regex.compile(r"[^\r\n]*+")
_SUSPECT = regex.compile(
    r"(?mi)(?:^[^\p{L}\p{N}\n]{0,12}+(?:action|tool|行动|动作|工具|行動|動作)[^\p{L}\p{N}\n]{1,8}+"
    r"|(?:action|tool|行动|动作|工具|行動|動作)[\"'”’`*_)\]】]{0,3}+[ \t]{0,3}+[:：][ \t]{0,3}+"
    r"[\"'“‘`*(\[【]{0,3}+)(?P<name>[\p{L}\p{N}_.\-]++)"
)
_OTHER_LABEL = regex.compile(
    r"(?m)^[^\p{L}\n]{0,12}+\p{L}[\p{L}\p{M} _]{1,24}+[:：][ \t]*+[\"'“‘`*(\[【]{0,3}+"
    r"(?P<name>[\p{L}_][\p{L}\p{M}\p{N}_.\-]*+)[\"'”’`*)\]】]{0,3}+"
    r"(?:[(（［\[]|[ \t]*+[{｛]|[ \t]*+\n\s*+(?:[^\n:：]{1,24}+[:：][ \t]*+)?\n?[ \t]*+(?:[{｛]|```))"
)
"""A step whose labels are of another language than those that are read."""
_TAG = regex.compile(r"(?i)</?think(?:ing)?>")
_WHOLE_FENCE = regex.compile(r"(?ms)^[^\S\n]*+(```|~~~).*?^[^\S\n]*+\1[^\S\n]*+$")
_QUOTED_TEXT = regex.compile(r"(?:[^\S\n]*+(?:>[^\n]*+)?(?:\n|\Z))*+\Z")
_QUOTED_LINE = regex.compile(r"[^\S\n]*+(?:>[ \t]?)?(?P<rest>[^\n]*+(?:\n|\Z))")
_STOPS = {
    "observation": "invented_observation",
    "question": "invented_question",
    "token": "after_end_token",
    "label": "cut_label",
}
_SHOWN = 80
_start, _position = attrgetter("start"), attrgetter("position")
_MAX_INPUTS = 64
_MAX_MOVES = 1000


def parse_react(
    text: str,
    tools: Sequence[ToolLike],
    *,
    level: Level = "hardened",
    dialect: Dialect = "json",
    finish_reason: str | None = None,
) -> Reading:
    r"""Read a Thought/Action/Action Input or Final Answer text; total, pure, linear in its length.

    `dialect` is the form that the prompt asked for; it matters to level strict only. Positions are
    character offsets into `text`.

    >>> from parsers import Tool, parse_react
    >>> price = Tool("get_price", "Get a price.", {"type": "object", "properties": {}})
    >>> reading = parse_react('Action: get_price\nAction Input: {"product": "pen",}', [price])
    >>> reading.calls[0].arguments, reading.repairs[0].name
    ({'product': 'pen'}, 'trailing_comma')
    """
    if level != "strict" or dialect == "json":
        reading = _read_clean(text, tools, finish_reason)
        if reading is not None:
            return reading
    return read_text(text, tools, level=level, dialect=dialect, finish_reason=finish_reason).reading


def _read_clean(text: str, tools: Sequence[ToolLike], finish_reason: str | None) -> Reading | None:
    """Read a step that is just as asked for, the usual case, without the scanner; else None."""
    if not text.startswith("Thought: ") or _has_odd_signs(text):
        return None
    value = text.rfind("\nAction Input: ")
    if value >= 0:
        return _read_clean_action(text, tools, value)
    final = text.rfind("\nFinal Answer: ")
    answer = text[final + len("\nFinal Answer: ") :].strip()
    odd = final < 0 or not answer or finish_reason == "length" or "```" in answer or "~~~" in answer
    thought = text[len("Thought: ") : max(final, 0)]
    odd = odd or ":" in thought or "：" in thought
    if odd or has_marks(text, len("Thought: "), final) or has_marks(text, final + 1, len(text)):
        return None
    if cut_label(text, final + len("\nFinal Answer: ")) is not None:
        return None
    return Reading(thought.strip(), final=answer)


def _has_odd_signs(text: str) -> bool:
    """Whether a text may hold a tag, a token or a line end that the scanner alone knows."""
    return "<" in text or "\r" in text or "\u2028" in text or "\u2029" in text


def _read_clean_action(text: str, tools: Sequence[ToolLike], value: int) -> Reading | None:
    raw = text[value + len("\nAction Input: ") :].strip()
    action = text.rfind("\nAction: ", 0, value)
    if action < 0 or raw[:1] != "{" or has_marks(text, len("Thought: "), action):
        return None
    name = text[action + len("\nAction: ") : value].strip()
    tool = next((one for one in tools if _name_of(one) == name), None)
    if tool is None or "\n" in name:
        return None
    arguments = decode_clean(raw)
    offered = as_tools([tool])[0]
    if arguments is None or schema.check(offered, arguments) is not None:
        return None
    return Reading(text[len("Thought: ") : action].strip(), (Call(name, arguments, None, raw),))


def _name_of(tool: ToolLike) -> Any:
    return tool.name if isinstance(tool, Tool) else tool.get("function", tool).get("name")


@dataclass(slots=True)
class Settled:
    """A reading, and whether nothing that may still follow the text could change it."""

    reading: Reading
    settled: bool


def read_text(
    text: str,
    tools: Sequence[ToolLike],
    *,
    level: Level,
    dialect: Dialect,
    finish_reason: str | None,
) -> Settled:
    """Read a text that may not be complete yet."""
    offered = as_tools(tools)
    reply = _Reply(text, offered, level, dialect, finish_reason)
    quoted = len(reply.parts) > 1 and text.lstrip().startswith(">")
    if quoted and _QUOTED_TEXT.match(text):
        plain, places = _without_quote_marks(text)
        reply = _Reply(plain, offered, level, dialect, finish_reason)
        reply.notes.order("quote_marks", 0)
        return Settled(_moved(reply.read(), places), settled=False)
    return Settled(reply.read(), reply.layout.settled)


class _Reply:
    """One reading of one text."""

    def __init__(
        self,
        text: str,
        tools: tuple[Tool, ...],
        level: Level,
        dialect: Dialect,
        finish_reason: str | None,
    ) -> None:
        self.text, self.tools, self.level, self.finish = text, tools, level, finish_reason
        offered = offer(tools)
        self.layout = lay_out(text, offered, lambda: _keys_of(tools))
        self.moves = MoveReader(text, tools, dialect, finish_reason, self.layout, offered)
        self.plain = self.moves.plain
        self.parts = self.layout.parts
        self.closed = [span.start for span in self.layout.closed]
        self.notes = Notes()

    def read(self) -> Reading:
        """Read the moves, then say which of them count."""
        if self.layout.stop == "flood":
            words = f"The reply has more than {MAX_MARKS} labels."
            return self._reading("", failure=Failure("ambiguous_calls", None, words, 0))
        moves = self._moves()
        calls = [move for move in moves if move.kind == "call"]
        if not calls:
            moves = self._with_inline(moves)
            calls = [move for move in moves if move.kind == "call"]
        self._note_labels()
        if calls:
            reading = self._called(moves, calls)
        elif answers := [move for move in moves if move.kind == "answer"]:
            reading = self._answered(moves, answers)
        else:
            reading = self._unmoved(moves)
        return self._graded(reading)

    def _moves(self) -> list[Move]:
        """Read actions up to the first answer; an action before it leaves the answer out."""
        moves: list[Move] = []
        called = False
        for index, part in enumerate(self.parts):
            if part.kind == "action":
                if len(moves) >= _MAX_MOVES:
                    return [*moves, _too_many(part)]
                moves.append(self._read_action(index))
                called = called or moves[-1].kind == "call"
            elif part.kind == "input" and not moves and part.exact:
                self.notes.order("stray_input", part.start)
            elif part.kind == "final" and called:
                break
            elif part.kind == "final":
                moves.append(self.moves.read_answer(part))
            if moves and moves[-1].kind == "answer" and moves[-1].is_whole:
                break
        return moves

    def _read_action(self, index: int) -> Move:
        inputs = self._inputs(index)
        move = self.moves.read_action(self.parts[index], inputs)
        behind = self.parts[index + 1 : index + 2]
        if inputs and behind and behind[0].kind == "thought":
            move.notes.order("thought_inside", behind[0].start)
        return move

    def _inputs(self, index: int) -> list[Part]:
        """Collect the inputs that stand before the next move."""
        found = []
        for part in self.parts[index + 1 : index + 1 + _MAX_INPUTS]:
            if part.kind in ("action", "final"):
                break
            if part.kind == "input":
                found.append(part)
        return found

    def _with_inline(self, moves: list[Move]) -> list[Move]:
        """Read labels inside of a line: each once, in order, and an action of an offered tool.

        Before an answer on a line of its own, only a whole step that ends its line counts.
        """
        answer = next((move for move in moves if move.kind == "answer"), None)
        end = self.layout.end if answer is None else answer.start
        marks = [
            (mark, part)
            for part in self.parts
            if part.kind in ("prelude", "thought") and part.start < end
            for mark in self._inline(part.begin, part.end)
        ]
        if not marks:
            return moves
        first, part = marks[0]
        if first.kind == "final" and len(marks) == 1 and answer is None and self._leak() is None:
            move = self.moves.read_answer(Part("final", first.start, first.end, part.end))
            move.notes.order("one_line", first.start)
            return [*moves, move] if move.answer else moves
        if first.kind != "action" or self.moves.line_offers(first.end, part.end) is None:
            return moves
        move = self._inline_action([mark for mark, _ in marks], part)
        if answer is not None and (move.failure or self._line_goes_on(move.end)):
            return moves
        return [*moves, move] if answer is None else [move]

    def _line_goes_on(self, end: int) -> bool:
        while end > 0 and self.plain[end - 1].isspace():
            end -= 1
        return bool(self.plain[end : skip(_LINE, self.plain, end, self.layout.end)].strip())

    def _inline(self, start: int, end: int) -> list[Mark]:
        """Find labels inside of lines, but not in a fence whose inside is text."""
        marks = find_inline(self.plain, start, end)
        return [mark for mark in marks if not self._is_in_fence(mark.start)]

    def _inline_action(self, marks: list[Mark], part: Part) -> Move:
        first = marks[0]
        inputs = self._inputs(self.parts.index(part))
        end = part.end
        if len(marks) > 1 and marks[1].kind == "input" and marks[1].start < part.end:
            end = marks[1].start
            inputs = [Part("input", marks[1].start, marks[1].end, part.end), *inputs]
        move = self.moves.read_action(
            Part("action", first.start, first.end, end), inputs[:_MAX_INPUTS]
        )
        move.notes.order("one_line", first.start)
        behind = [mark for mark in marks[1:] if mark.start >= move.end]
        if any(mark.kind in ("action", "input") for mark in behind):
            self.moves.refuse_another(move, behind[0].start)
        return move

    def _note_labels(self) -> None:
        """Note the labels that are not as asked for, and why the text was not read to its end."""
        for part in self.parts:
            if not part.exact and part.kind not in ("prelude", "input", "question"):
                self.notes.order("label_form", part.start)
                break
        for span in self.layout.fences[:1]:
            self.notes.order("step_fence", span.start)
        for span in self.layout.fences:
            self.notes.drop(span.start, span.end, span.reason)
        end = self.layout.end
        if name := _STOPS.get(self.layout.stop):
            if name == "after_end_token":
                self.notes.repairs.append(Repair(name, end))
            else:
                self.notes.order(name, end)
            until = len(self.text) if self.layout.stop == "label" else self.layout.stopper
            self.notes.drop(end, until, self.layout.stop)

    def _called(self, moves: list[Move], calls: list[Move]) -> Reading:
        """Take the actions; those without an offered tool before another are thought."""
        if len(calls) > _MAX_MOVES:
            return self._reading("", failure=calls[-1].failure)
        real = _real(calls)
        chosen = {id(move) for move in real}
        for move in moves:
            if move.kind == "none" or id(move) in chosen:
                self.notes.add(move.notes)
        if len(real) < len(calls):
            self.notes.order("action_as_thought", calls[0].start)
        if len(real) > 1:
            self._note_several(real)
        self._note_after(real[-1].end)
        if self.layout.stop == "token":
            self.notes.strict.add("bad_arguments_syntax")
        found = tuple([move.call for move in real if move.call is not None])
        thought = self._thought(real[-1].start, [move for move in calls if id(move) not in chosen])
        failures = [call.failure for call in found if call.failure is not None]
        if len(failures) < len(found):
            return self._reading(thought, calls=found)
        failure = _first(failures)
        if self.layout.stop == "think":
            failure = cut(self.layout.end, "inside of a think block")
        if failure.kind in ("unknown_tool", "missing_tool_name"):
            leak = self._leak()
            if leak is not None:
                return self._leaked(leak, thought)
        return self._reading(thought, calls=found, failure=failure)

    def _note_several(self, real: list[Move]) -> None:
        self.notes.order("several_calls", real[1].start)
        seen: set[tuple[str, str]] = set()
        for move in real:
            if move.call is not None and move.call.arguments is not None:
                key = (move.call.name, as_json(move.call.arguments))
                if key in seen:
                    self.notes.order("repeated_call", move.start)
                seen.add(key)

    def _note_after(self, end: int) -> None:
        """Note the labels that stand behind the last move that counts."""
        index = bisect_right(self.parts, end - 1, key=_start)
        if index < len(self.parts):
            start = self.parts[index].start
            self.notes.order("text_after_move", start)
            self.notes.drop(start, self.layout.end, "text_after_move")

    def _answered(self, moves: list[Move], answers: list[Move]) -> Reading:
        """Take the first answer that says something."""
        first = answers[0]
        answer = next((move for move in answers if move.answer), first)
        for move in moves:
            if move.kind == "none" or move is answer:
                self.notes.add(move.notes)
        if answer is not first:
            self.notes.order("answer_again", first.start)
        thought = self._thought(answer.start, [])
        if answer.cut or (
            not answer.answer and (self.moves.at_limit or self.layout.stop == "think")
        ):
            return self._reading(thought, failure=cut(answer.start, "inside of an answer"))
        if not answer.answer:
            words = "A final answer was announced, but nothing stands behind the label."
            return self._reading(thought, failure=Failure("empty_turn", None, words, answer.start))
        self._note_after(answer.answer_end)
        if self.layout.stop == "token":
            self.notes.strict.add("no_move")
        if self.moves.at_limit and answer.answer_end >= self.layout.end:
            self.notes.order("answer_cut", answer.answer_end)
        return self._reading(thought, final=answer.answer)

    def _unmoved(self, moves: list[Move]) -> Reading:
        """Say what a text is that makes no move of its own."""
        for move in moves:
            self.notes.add(move.notes)
        end = self.layout.end
        thought = self._thought(end, [])
        if self.layout.stop == "think":
            return self._reading(thought, failure=cut(end, "inside of a think block"))
        leak = self._leak()
        if leak is not None:
            return self._leaked(leak, thought)
        labelled = len(self.parts) > 1 or bool(moves) or self.layout.stop == "observation"
        if not labelled and (written := self._answer_object()) is not None:
            return self._answered([written], [written])
        labelled = labelled or self._is_suspect()
        answer = without_residue(self.moves.without_blocks(self.parts[0].begin, end))
        if self.moves.at_limit and (labelled or not answer or self.layout.stop == "label"):
            return self._reading(thought, failure=cut(end, "before a move"))
        if not labelled and not answer:
            words = "The reply is empty: neither an action nor an answer."
            return self._reading(thought, failure=Failure("empty_turn", None, words, 0))
        if labelled:
            words = "The reply has a thought or a label, but neither an action nor a final answer."
            return self._reading(thought, failure=Failure("no_move", None, words, end))
        self.notes.order("unlabelled_final", self.parts[0].begin)
        if self.moves.at_limit:
            self.notes.order("answer_cut", end)
            if self.level == "strict":
                return self._reading(thought, failure=cut(end, "before a move"))
        if answer != self.plain[self.parts[0].begin : end].strip():
            self.notes.order("answer_residue", end)
        return self._reading(self._thought(self.parts[0].begin, []), final=answer)

    def _answer_object(self) -> Move | None:
        """Read an object that names the final answer where a tool's name would stand."""
        part = self.parts[0]
        if not OBJECT.match(self.plain, part.begin, self.layout.end):
            return None
        move = self.moves.read_action(replace(part, end=self.layout.end), [])
        move.notes.strict = {"no_move"}
        return move if move.kind == "answer" and move.answer else None

    def _is_suspect(self) -> bool:
        """Whether a text without labels still looks like a step: then it is no answer."""
        if self.layout.fenced_steps and not self._prose():
            return True
        end = self.layout.end
        for mark in self._inline(0, end):
            if mark.kind == "action" and self.moves.line_offers(mark.end, end) is not None:
                return True
        return any(
            match["name"] in self.moves.names and not self._is_in_fence(match.start())
            for pattern in (_SUSPECT, _OTHER_LABEL)
            for match in islice(pattern.finditer(self.plain, 0, end), _MAX_MOVES)
        )

    def _is_in_fence(self, position: int) -> bool:
        """Whether a place is inside of a fence whose inside is text."""
        index = bisect_right(self.closed, position) - 1
        return index >= 0 and position < self.layout.closed[index].end

    def _prose(self) -> str:
        return _WHOLE_FENCE.sub("", self.plain[: self.layout.end]).strip()

    def _leak(self) -> LeakReading | None:
        return find_leaks(
            self.plain[: self.layout.end],
            self.tools,
            level=self.level,
            finish_reason=self.finish if self.layout.stop == "end" else None,
        )

    def _leaked(self, leak: LeakReading, thought: str) -> Reading:
        """Take native markup as the move at level rescue, else refuse it."""
        thought = self._thought(leak.start, [])
        if self.level == "rescue" and leak.failure is None:
            self.notes.order("out_of_channel", leak.start)
            self.notes.repairs += leak.repairs
            return self._reading(thought, calls=leak.calls)
        words = f"A tool was called in native markup ({leak.form}), not by an Action line."
        failure = leak.failure or Failure("out_of_channel_call", "native", words, leak.start)
        return self._reading(thought, calls=leak.calls, failure=failure)

    def _thought(self, until: int, skipped: list[Move]) -> str:
        """Join the thoughts, think blocks and plain text that stand before a position."""
        pieces = [
            (block.start, _TAG.sub("", self.text[block.start : block.end]).strip())
            for block in self.layout.blocks
            if block.start < until
        ]
        for part in self.parts:
            if part.start >= until:
                break
            begin = part.begin if part.kind in ("prelude", "thought") else part.start
            if part.kind in ("prelude", "thought", "question"):
                pieces.append((part.begin, self.plain[begin : min(part.end, until)].strip()))
        pieces += [(move.start, self.plain[move.start : move.end].strip()) for move in skipped]
        return "\n".join([piece for _, piece in sorted(pieces) if piece])

    def _reading(
        self,
        thought: str,
        *,
        calls: tuple[Call, ...] = (),
        final: str | None = None,
        failure: Failure | None = None,
    ) -> Reading:
        once = {
            (one.name, one.name == "label_form" or one.position): one
            for one in reversed(self.notes.repairs)
        }
        repairs = sorted(once.values(), key=_position)
        dropped = sorted(self.notes.dropped, key=_start)
        return Reading(thought, calls, final, failure, tuple(repairs), tuple(dropped))

    def _graded(self, reading: Reading) -> Reading:
        """At level strict, make every repair the failure that it is there."""
        if self.level != "strict":
            return reading
        kinds = set(self.notes.strict) | ({reading.failure.kind} if reading.failure else set())
        if not kinds:
            return reading
        kind = min(kinds, key=PRECEDENCE.index)
        failure = reading.failure
        if failure is None or failure.kind != kind:
            names = ", ".join(dict.fromkeys(repair.name for repair in reading.repairs))
            words = f"The step is not written as asked for: {names or 'another form'}."
            position = min((repair.position for repair in reading.repairs), default=0)
            failure = Failure(kind, None, words, position)
        calls = tuple(
            call if call.failure else replace(call, arguments=None, failure=failure)
            for call in reading.calls
        )
        return Reading(reading.thought, calls, None, failure)


def _keys_of(tools: tuple[Tool, ...]) -> frozenset[str]:
    """Give the parameters' names of all tools."""
    return frozenset(key for tool in tools for key in schema.properties(tool))


def _real(calls: list[Move]) -> list[Move]:
    """Leave out actions without an offered tool that one with an offered tool follows."""
    if len(calls) == 1:
        return calls
    last = max((at for at, move in enumerate(calls) if not _is_nameless(move)), default=-1)
    return [move for at, move in enumerate(calls) if at > last or not _is_nameless(move)]


def _is_nameless(move: Move) -> bool:
    kind = move.failure.kind if move.failure else None
    return kind in ("unknown_tool", "missing_tool_name")


def _too_many(part: Part) -> Move:
    words = f"The reply has more than {_MAX_MOVES} actions."
    failure = Failure("ambiguous_calls", None, words, part.start)
    return Move("call", part.start, part.end, Call("", None, failure=failure))


def _first(failures: list[Failure]) -> Failure:
    return min(failures, key=lambda failure: PRECEDENCE.index(failure.kind))


def _without_quote_marks(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Take `>` off every line; also give (new, old) offsets of the lines' starts."""
    pieces, places, at = [], [], 0
    for match in _QUOTED_LINE.finditer(text):
        piece = match["rest"]
        places.append((at, match.start("rest")))
        pieces.append(piece)
        at += len(piece)
    return "".join(pieces), places


def _moved(reading: Reading, places: list[tuple[int, int]]) -> Reading:
    """Give the positions of a reading in the text as it came."""
    starts = [new for new, _ in places]

    def old(position: int) -> int:
        new, before = places[max(0, bisect_right(starts, position) - 1)]
        return before + position - new

    def fail(failure: Failure | None) -> Failure | None:
        if failure is None or failure.position is None:
            return failure
        return replace(failure, position=old(failure.position))

    return replace(
        reading,
        calls=tuple(replace(call, failure=fail(call.failure)) for call in reading.calls),
        failure=fail(reading.failure),
        repairs=tuple(replace(item, position=old(item.position)) for item in reading.repairs),
        dropped=tuple(
            replace(item, start=old(item.start), end=old(item.end)) for item in reading.dropped
        ),
    )
