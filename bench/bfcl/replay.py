"""Replay BFCL's own truth: what our pipeline or either judge refuses of it is a bad row or a fault.

Scripted: no model is asked. Each row's truth is said as a model would say it in either way, and
goes through the loop, the reader, the tools and both judges.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jsonschema_rs import validator_for

from bench.bfcl.data import Row, Source, load_known_bad, load_rows, make_task, make_toolbox
from bench.bfcl.judge import Checker, calls_of, is_right, kept_quiet
from bench.check import show_value
from bench.clients import ScriptedClient
from bench.drivers import NativeDriver, ReactDriver
from bench.loop import solve
from bench.show import printable
from bench.status import FOUND, OK
from bench.types import Episode, Task, WantedCall
from parsers import Call, Tool

ANSWER = "It was recorded."


@dataclass(slots=True)
class Count:
    """How the rows of a category went."""

    rows: int = 0
    react: int = 0
    """Truths that are right when they are said as ReAct text."""
    native: int = 0
    official: int = 0
    """Truths that BFCL's checker takes."""


@dataclass(frozen=True, slots=True)
class ReplayCheck:
    """What a replay found."""

    judge: str
    counts: Mapping[str, Count] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    """Rows whose truth is refused, with what refuses it."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Rows listed as bad for this version, of the replayed categories."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """Refused rows that are not listed."""
        return tuple(name for name in self.refused if name not in self.known)

    @property
    def passed(self) -> tuple[str, ...]:
        """Listed rows that nothing refuses."""
        return tuple(name for name in self.known if name not in self.refused)


def replay(source: Source, categories: Sequence[str]) -> ReplayCheck:
    """Replay the truth of every row of some categories."""
    rows = load_rows(source, categories)
    counts: dict[str, Count] = {name: Count() for name in categories}
    refused: dict[str, str] = {}
    with Checker(source) as checker:
        for row in rows:
            problems = list(_replay_row(row, checker, counts[row.category]))
            if problems:
                refused[row.id] = "; ".join(problems)
    ids = {row.id for row in rows}
    known = {k: v for k, v in load_known_bad(source.version).items() if k in ids}
    return ReplayCheck(source.judge, counts, refused, known)


def _replay_row(row: Row, checker: Checker, count: Count) -> Iterator[str]:
    """Yield what refuses a row's truth."""
    task, toolbox = make_task(row), make_toolbox(row)
    calls = truth_of(task, toolbox.tools)
    count.rows += 1
    if row.truth is not None:
        official = checker.check(row, calls)
        count.official += official.valid is True
        if official.valid is not True:
            yield f"BFCL's checker: {official.why}"
    else:
        count.official += 1
    for driver, say in _WAYS:
        script = [*([say(calls)] if calls else []), _answer(driver.name)]
        episode = asyncio.run(solve(task, toolbox, driver, ScriptedClient(script)))
        problem = _problem(row, task, episode)
        if driver.name == "react":
            count.react += not problem
        else:
            count.native += not problem
        if problem:
            yield f"{driver.name}: {problem}"


def truth_of(task: Task, tools: Sequence[Tool]) -> tuple[Call, ...]:
    """Return calls that the truth accepts, and if it can be the schema too.

    Of each parameter's acceptable values the first that its schema takes; where it takes none, the
    parameter is left out if it may be.
    """
    return tuple(_true_call(wanted, at, tools) for at, wanted in enumerate(task.gold.calls))


def _true_call(wanted: WantedCall, at: int, tools: Sequence[Tool]) -> Call:
    arguments: dict[str, Any] = {}
    for name, forms in wanted.arguments.items():
        said = [show_value(form) for form in forms]
        fitting = [value for value in said if _takes(wanted.tool, name, value, tools)]
        if fitting or name not in wanted.optional:
            arguments[name] = (fitting or said)[0]
    return Call(wanted.tool, arguments, id=f"call_{at}")


def _takes(tool: str, name: str, value: Any, tools: Sequence[Tool]) -> bool:
    """Tell whether a tool has a parameter, and its schema takes a value."""
    known = [t.parameters.get("properties", {}) for t in tools if t.name == tool]
    return any(name in p and validator_for(p[name]).is_valid(value) for p in known)


def _problem(row: Row, task: Task, episode: Episode) -> str:
    """Say why a replayed truth is not right; "" where it is."""
    for turn in episode.turns:
        for failure in (turn.reading.failure, *(call.failure for call in turn.reading.calls)):
            if failure is not None:
                return f"{failure.kind}: {failure.message}"
    if row.truth is None:
        outcome = kept_quiet(episode)
        return "" if outcome == "abstained" else f"an answer is read as {outcome}"
    tools = make_toolbox(row).tools
    return "" if is_right(task, calls_of(episode, "all"), tools) else "our judge finds it wrong"


def say_react(calls: Sequence[Call]) -> str:
    """Say calls as a model would in Thought/Action text."""
    moves = [
        f"Action: {call.name}\nAction Input: {json.dumps(call.arguments, ensure_ascii=False)}"
        for call in calls
    ]
    return "\n".join(["Thought: I make the calls.", *moves])


def say_native(calls: Sequence[Call]) -> dict[str, Any]:
    """Say calls as an assistant message."""
    entries = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": json.dumps(call.arguments, ensure_ascii=False),
            },
        }
        for number, call in enumerate(calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": entries}


def _answer(way: str) -> str:
    return f"Thought: I am done.\nFinal Answer: {ANSWER}" if way == "react" else ANSWER


_Say = Callable[[Sequence[Call]], Any]
_WAYS: tuple[tuple[ReactDriver | NativeDriver, _Say], ...] = (
    (ReactDriver(), say_react),
    (NativeDriver(), say_native),
)


def run_replay(source: Source, categories: Sequence[str], tell: Callable[[str], None]) -> int:
    """Replay, print the figures and every refused row; 0 where only listed rows are refused."""
    check = replay(source, categories)
    for line in describe(check):
        tell(printable(line))
    return FOUND if check.unknown else OK


def describe(check: ReplayCheck) -> Iterator[str]:
    """Yield the lines of a replay's figures."""
    yield "Scripted: BFCL's own truth is replayed; no model is asked."
    yield f"judges: ours, and {check.judge}"
    head = f"{'category':<24}{'rows':>6}{'ReAct':>8}{'native':>8}{'BFCL':>8}"
    yield head
    total = Count()
    for name, count in check.counts.items():
        yield _line(name, count)
        total.rows += count.rows
        total.react += count.react
        total.native += count.native
        total.official += count.official
    yield _line("all", total)
    for name, why in check.refused.items():
        listed = f"listed: {check.known[name]}" if name in check.known else "NOT LISTED"
        yield f"{name}: refused ({why}); {listed}"
    for name in check.passed:
        yield f"{name}: listed as bad, but nothing refuses it"
    yield (
        f"{len(check.refused)} rows refused, {len(check.unknown)} of them not listed in "
        "bfcl_known_bad.json"
    )


def _line(name: str, count: Count) -> str:
    return f"{name:<24}{count.rows:>6}{count.react:>8}{count.native:>8}{count.official:>8}"
