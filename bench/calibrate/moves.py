"""Right moves: what a model without fault would say, made from each task's own gold.

A script of right moves solves its task. It is written in the documented form of either way, so a
reader at any level reads it; what is done to it on purpose is in `bench.calibrate.damage`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.check import gold_replay
from bench.types import DriverName, Task

Wanted = tuple[str, Mapping[str, Any]]
"""A tool's name and its arguments."""


@dataclass(frozen=True, slots=True)
class Move:
    """One reply's worth: calls, or a final answer."""

    calls: tuple[Wanted, ...] = ()
    final: str | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A task's right moves: its calls in order, then its answer."""

    calls: tuple[Wanted, ...]
    final: str


def script_of(task: Task) -> Script:
    """Return the shortest way through a task that its gold describes."""
    way = gold_replay(task)
    return Script(tuple((call.name, call.arguments or {}) for call in way.calls), way.final)


def dump(arguments: Mapping[str, Any]) -> str:
    """Write arguments as a model would.

    >>> dump({"city": "北京"})
    '{"city": "北京"}'
    """
    return json.dumps(dict(arguments), ensure_ascii=False)


def write_action(name: str, value: str) -> str:
    """Write one action and its input as ReAct text."""
    return f"Action: {name}\nAction Input: {value}"


def write_entry(name: str, value: str, number: int) -> dict[str, Any]:
    """Write one entry of `tool_calls`."""
    function = {"name": name, "arguments": value}
    return {"id": f"call_{number}", "type": "function", "function": function}


def message_of(entries: Sequence[Mapping[str, Any]], content: str | None = None) -> dict[str, Any]:
    """Write an assistant message that calls tools."""
    return {"role": "assistant", "content": content, "tool_calls": list(entries)}


def write_calls(
    way: DriverName, calls: Sequence[tuple[str, str]], number: int = 0
) -> str | dict[str, Any]:
    """Write calls, their arguments as text already, in one reply; ids are numbered from `number`."""
    if way == "react":
        return "Thought: I look it up.\n" + "\n".join(write_action(*call) for call in calls)
    return message_of([write_entry(*call, number + at) for at, call in enumerate(calls)])


def write_answer(way: DriverName, final: str) -> str:
    """Write a final answer."""
    return f"Thought: I know enough.\nFinal Answer: {final}" if way == "react" else final


def write_move(way: DriverName, move: Move, number: int = 0) -> str | dict[str, Any]:
    """Write a move as it should be."""
    if move.final is not None:
        return write_answer(way, move.final)
    return write_calls(way, [(name, dump(values)) for name, values in move.calls], number)
