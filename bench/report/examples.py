"""Verbatim examples of failures: which are shown, and what the reader made of each."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench import tables
from bench.findings import KINDS, name_way
from bench.records import reading_from_json
from bench.report.analysis import Analysis
from bench.report.document import Behind, Block, Prose, Quote, Section
from bench.report.seen import Place
from bench.report.text import LONG, cut, point_at
from bench.tables import Arm, Line
from bench.texts import say
from parsers.types import PRECEDENCE

EXAMPLES = 5
"""Verbatim examples of each kind of failure, at most."""


def examples_section(analysis: Analysis) -> Section:
    """Show up to `EXAMPLES` replies of each kind of failure."""
    found = analysis.seen.failures
    blocks: list[Block] = [
        Prose(
            say(
                "Up to {n} replies of each kind, as they came; long ones are cut. Odd characters "
                "are written as their code points.",
                n=EXAMPLES,
            )
        )
    ]
    for kind in sorted(found, key=place):
        total = sum(map(len, found[kind].values()))
        chosen = _take_turns(found[kind], EXAMPLES)
        told = say("{n} of {total} shown.", n=len(chosen), total=total)
        blocks.append(Prose(f"{kind}: {say(KINDS.get(kind, ''))}. {told}", strong=True))
        blocks += [_example(analysis.lines[item.line], item.step) for item in chosen]
    if not found:
        blocks = [Prose(say("No reply failed."))]
    title = say("Verbatim examples of each failure")
    return Section("examples", say("Examples"), title, tuple(blocks))


def _take_turns(groups: Mapping[Arm, Sequence[Place]], most: int) -> list[Place]:
    """Take examples from each arm in turn, and from different tasks of it."""
    rows = []
    for arm in sorted(groups):
        ordered = sorted(groups[arm], key=lambda item: (item.task, item.step))
        step = max(1, len(ordered) // most)
        rows.append(ordered[::step])
    taken = [row[turn] for turn in range(most) for row in rows if turn < len(row)]
    return taken[:most]


def _example(line: Line, step: int) -> Quote:
    way = name_way(tables.arm_label(line))
    title = say(
        "{task}, {endpoint}, {way}, reply {number}",
        task=line["task_id"],
        endpoint=line.get("endpoint"),
        way=way,
        number=step + 1,
    )
    turn = line["turns"][step]
    text, finish = reply_text(turn.get("reply") or {})
    about = say("Finish reason: {finish}.", finish=finish) if finish else ""
    behind = Behind(endpoint=str(line.get("endpoint")), way=way, task=str(line["task_id"]))
    pointed = cut(explain_turn(turn, text), 2 * LONG)
    return Quote(title, about, text, pointed, behind=behind)


def explain_turn(turn: Mapping[str, Any], text: str) -> str:
    """Say what the reader made of a stored reply, with a caret at the place where there is one.

    `text` is what `reply_text` gives for it.
    """
    from parsers.explain import explain  # noqa: PLC0415 (the readers take time to load)

    reading = reading_from_json(turn.get("reading") or {})
    own = [call for call in reading.calls if call.failure != reading.failure]
    told = explain(replace(reading, calls=tuple(own)), text)  # each finding is told once
    if reading.failure is None or reading.failure.field == "text":
        return told
    pointed = point_at(_field(turn, text), reading.failure.position)
    return f"{told}\n{pointed}" if pointed else told


def reply_text(reply: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return what a model wrote in a stored reply, and the finish reason; else the body."""
    from parsers.wire import open_response  # noqa: PLC0415 (the readers take time to load)

    body = str(reply.get("body") or "")
    wire = {"status": reply.get("status", 0), "headers": reply.get("headers", {}), "body": body}
    answer = open_response(wire)
    if not answer.message:
        return body or "(an empty body)", answer.finish_reason
    parts = []
    if answer.reasoning:
        parts.append(f"[reasoning]\n{answer.reasoning}")
    if answer.text:
        parts.append(answer.text)
    called = {name: answer.message.get(name) for name in ("tool_calls", "function_call")}
    parts += [
        f"[{name}]\n{json.dumps(value, ensure_ascii=False, indent=1)}"
        for name, value in called.items()
        if value
    ]
    return "\n".join(parts) or "(neither text nor calls)", answer.finish_reason


def _field(turn: Mapping[str, Any], text: str) -> str:
    """Return the text that a failure's position counts in; "" where it is not at hand."""
    place = str(turn["reading"]["failure"].get("field", "text"))
    match = re.fullmatch(r"calls\[(\d+)\]\.arguments", place)
    if match:
        calls = turn["reading"].get("calls") or []
        number = int(match[1])
        return str(calls[number].get("raw", "")) if number < len(calls) else ""
    return text if place in ("text", "content") and not text.startswith("[") else ""


def place(kind: str) -> tuple[int, str]:
    """Return what sorts kinds in the readers' order."""
    order: Sequence[str] = PRECEDENCE
    return (order.index(kind) if kind in order else len(order), kind)
