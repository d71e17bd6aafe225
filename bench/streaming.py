"""Whether an endpoint says the same when it streams, and what streaming takes.

Each question is asked three times: plain, streamed, and plain once more. The last one shows how
often two plain answers differ of themselves; only what goes beyond is the stream's doing.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal

from bench.drivers import NativeDriver, wire_of
from bench.run import bundled_toolbox
from bench.tool_choice import COUNT, pick_tasks
from bench.types import Client, Reply, Request, StepKey, Task
from parsers import Tool

Way = Literal["plain", "streamed", "again"]
Outcome = Literal[
    "answered",  # the endpoint answered
    "refused",  # it refused the request
    "failed",  # it failed: nothing is known
    "not_recorded",  # replaying, and this request was never recorded
]
WAYS: Mapping[Way, tuple[Mapping[str, Any], int]] = {
    "plain": ({}, 0),
    "streamed": ({"stream": True, "stream_options": {"include_usage": True}}, 0),
    "again": ({}, 1),
}
"""What each way adds to the request, and its trial: two equal requests are told apart by it."""
PARTS = ("text", "reasoning", "calls", "finish")
"""What two answers are compared by; ids, which are made up anew, are left out."""
MAX_TEXT = 400


@dataclass(frozen=True, slots=True)
class Trial:
    """One question asked in one way."""

    task_id: str
    way: Way
    outcome: Outcome
    status: int
    differs: tuple[str, ...] = ()
    """The parts of the answer that the plain answer to this question has otherwise."""
    compared: bool = False
    """There is a plain answer to compare with."""
    seconds: float = 0.0
    first_token: float | None = None
    metered: bool = False
    """The answer says how many tokens it took."""
    counts_differ: bool = False
    """It counts other numbers of tokens than the plain answer."""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """All trials of one way, as counts and times."""

    way: Way
    trials: int
    counts: Mapping[Outcome, int]
    compared: int
    equal: int
    parts: Mapping[str, int]
    """How often each part differed."""
    metered: int
    counts_differ: int
    seconds: float | None
    """Median of the whole answer."""
    first_token: float | None
    """Median, of the answers that have one."""
    example: str
    """What was said most often in refusing."""

    @property
    def answered(self) -> int:
        """The trials that the endpoint answered."""
        return self.counts.get("answered", 0)


async def run_streaming(
    client: Client, *, count: int = COUNT, settings: Mapping[str, Any], at_once: int = 1
) -> tuple[Trial, ...]:
    """Ask `count` questions in three ways each; `at_once` above 1 blurs the times."""
    gate = asyncio.Semaphore(at_once)

    async def ask(number: int, task: Task) -> list[Trial]:
        async with gate:
            return await _ask_question(client, number, task, settings)

    tasks = enumerate(pick_tasks("single", count))
    found = await asyncio.gather(*(ask(number, task) for number, task in tasks))
    return tuple(trial for trials in found for trial in trials)


def count_requests(count: int) -> int:
    """Return how many requests `run_streaming` makes."""
    return len(WAYS) * len(pick_tasks("single", count))


async def _ask_question(
    client: Client, number: int, task: Task, settings: Mapping[str, Any]
) -> list[Trial]:
    """Ask in an order that turns with the question, so that none always meets a warm cache."""
    driver, tools = NativeDriver(), bundled_toolbox(task, "full").tools
    options = {**settings, **driver.options(tools)}
    start = number % len(WAYS)
    order = [*WAYS][start:] + [*WAYS][:start]
    replies: dict[Way, Reply | None] = {}
    for step, way in enumerate(order):
        more, trial = WAYS[way]
        key = StepKey(task.id, "native", way, trial, step)
        request = Request(driver.open(task, tools), {**options, **more}, key)
        replies[way] = await client.complete(request)
    return [read_trial(task.id, way, replies[way], replies["plain"], tools) for way in WAYS]


def read_trial(
    task_id: str, way: Way, reply: Reply | None, plain: Reply | None, tools: Sequence[Tool]
) -> Trial:
    """Say what an answer is, and in which parts it differs from the plain one."""
    if reply is None:
        return Trial(task_id, way, "not_recorded", 0)
    outcome, said = _outcome(reply, tools)
    told = Trial(
        task_id,
        way,
        outcome,
        reply.status,
        seconds=reply.seconds,
        first_token=reply.first_token,
        metered=reply.usage.prompt is not None,
        said=said[:MAX_TEXT],
    )
    if way == "plain" or plain is None or {outcome, _outcome(plain, tools)[0]} != {"answered"}:
        return told
    return _compared(told, reply, plain)


def _compared(told: Trial, reply: Reply, plain: Reply) -> Trial:
    ours, theirs = read_parts(reply), read_parts(plain)
    counts = [(r.usage.prompt, r.usage.completion) for r in (reply, plain)]
    return replace(
        told,
        compared=True,
        differs=tuple(name for name in PARTS if ours[name] != theirs[name]),
        counts_differ=told.metered and counts[0] != counts[1],
    )


def _outcome(reply: Reply, tools: Sequence[Tool]) -> tuple[Outcome, str]:
    reading = NativeDriver().read(reply, tools)
    failure = reading.failure
    if reading.outcome != "endpoint" or failure is None:
        return "answered", ""
    refused = failure.kind in {"request_rejected", "context_overflow"}
    return ("refused" if refused else "failed"), failure.message


def read_parts(reply: Reply) -> dict[str, Any]:
    """Take an answer apart: text, reasoning, calls by name and arguments, finish reason."""
    from parsers.wire import open_response  # noqa: PLC0415 (the readers take time to load)

    opened = open_response(wire_of(reply))
    calls = (opened.message or {}).get("tool_calls")
    listed = calls if isinstance(calls, list) else []
    return {
        "text": opened.text,
        "reasoning": opened.reasoning,
        "calls": [_call(call) for call in listed],
        "finish": opened.finish_reason,
    }


def _call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return call
    return function.get("name"), _decoded(function.get("arguments"))


def _decoded(arguments: Any) -> Any:
    """Read arguments, so that white space between them makes no difference."""
    try:
        return json.loads(arguments)
    except (TypeError, ValueError, RecursionError):
        return arguments


def sum_up(trials: Sequence[Trial]) -> tuple[Row, ...]:
    """Count the trials of each way, in the order of `WAYS`."""
    grouped = {way: [trial for trial in trials if trial.way == way] for way in WAYS}
    return tuple(_row(way, found) for way, found in grouped.items() if found)


def _row(way: Way, trials: Sequence[Trial]) -> Row:
    answered = [trial for trial in trials if trial.outcome == "answered"]
    compared = [trial for trial in trials if trial.compared]
    firsts = [trial.first_token for trial in answered if trial.first_token is not None]
    refusals = Counter(trial.said for trial in trials if trial.outcome == "refused")
    return Row(
        way,
        len(trials),
        Counter(trial.outcome for trial in trials),
        len(compared),
        sum(not trial.differs for trial in compared),
        Counter(part for trial in compared for part in trial.differs),
        metered=sum(trial.metered for trial in answered),
        counts_differ=sum(trial.counts_differ for trial in compared),
        seconds=median([trial.seconds for trial in answered]) if answered else None,
        first_token=median(firsts) if firsts else None,
        example=refusals.most_common(1)[0][0] if refusals else "",
    )
