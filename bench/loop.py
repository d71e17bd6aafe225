"""One episode, from the question to its end: ask, read, run the tools, tell the results.

Knows no driver by name, no endpoint and no file. A model's mistakes are values here; what raises is
our own fault or a client's.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from bench.drivers import explain_call, label
from bench.types import (
    Budget,
    Client,
    Driver,
    Episode,
    Message,
    Reply,
    Request,
    StepKey,
    Stop,
    Task,
    ToolResult,
    Turn,
)
from parsers import Call, Failure, Reading, Tool

DEFAULT_BUDGET = Budget()
DEFAULT_SETTINGS: Mapping[str, Any] = {"temperature": 0, "max_tokens": 1024}
"""Sampling settings that every request carries, in OpenAI's names."""
_REPEATS = 3
_DEEPEST = 200
"""Levels of a value that goes back to a model: more can't be written, hashed or kept."""


class Toolbox(Protocol):
    """What offers tools and runs them."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools on offer, in order."""

    async def run(self, call: Call, leave: Any = ...) -> ToolResult:
        """Run one readable call within its time; what goes wrong becomes an error text."""


async def solve(
    task: Task,
    toolbox: Toolbox,
    driver: Driver,
    client: Client,
    *,
    budget: Budget = DEFAULT_BUDGET,
    settings: Mapping[str, Any] = DEFAULT_SETTINGS,
    variant: str = "full",
    trial: int = 0,
    leave: Any = None,
) -> Episode:
    r"""Let a model solve one task with one driver, to the end of its budget.

    `leave` is handed to the toolbox: what allows a call that changes something; None allows none.

    >>> import asyncio
    >>> from bench import ScriptedClient, load_tasks, load_tools, make_driver, solve
    >>> [task] = load_tasks(ids=["single-01-en"])
    >>> client = ScriptedClient([
    ...     'Action: get_weather\nAction Input: {"city": "Beijing"}',
    ...     "Final Answer: It is sunny.",
    ... ])
    >>> toolbox = load_tools(task.toolset)
    >>> episode = asyncio.run(solve(task, toolbox, make_driver("react"), client))
    >>> episode.stop, [result.tool for turn in episode.turns for result in turn.results]
    ('answered', ['get_weather'])
    """
    walk = _Walk(task, toolbox, driver, client, budget, settings, variant, trial, leave)
    walk.add(driver.open(task, toolbox.tools))
    while walk.stop is None:
        await walk.step()
    return walk.episode()


def ending_of(reading: Reading) -> Stop | None:
    """Return how a reply ends its episode whatever came before; None where it need not."""
    match reading.outcome:
        case "answer":
            return "answered"
        case "refused":
            return "refused"
        case "endpoint":
            kind = None if reading.failure is None else reading.failure.kind
            return "context_overflow" if kind == "context_overflow" else "endpoint"
    return None


@dataclass(slots=True)
class _Walk:
    """An episode under way."""

    task: Task
    toolbox: Toolbox
    driver: Driver
    client: Client
    budget: Budget
    settings: Mapping[str, Any]
    variant: str
    trial: int
    leave: Any
    stop: Stop | None = None
    history: list[Message] = field(default_factory=list)
    sent: tuple[Message, ...] = ()
    turns: list[Turn] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    made: list[str] = field(default_factory=list)
    """Every call run so far, written so that equal calls are equal texts."""
    corrections: int = 0
    corrects: bool = False

    def add(self, messages: tuple[Message, ...]) -> None:
        """Take messages into the history, and remember them as what the next request adds."""
        self.sent = tuple(_sendable(message) for message in messages)
        self.history.extend(self.sent)

    async def step(self) -> None:
        """Ask once, and do what the reply says."""
        if len(self.turns) >= self.budget.steps:
            self.stop = "step_limit"
            return
        reply = await self.client.complete(self.request())
        if reply is None:
            self.stop = "left_recording"
            return
        reading = self._with_own_ids(self.driver.read(reply, self.toolbox.tools))
        results = await self._run(reading.calls) if reading.outcome == "call" else ()
        self.turns.append(Turn(self.sent, reply, reading, results, self.corrects))
        self._go_on(reply, reading, results)

    def request(self) -> Request:
        """Make the next request."""
        settings = _settings_of_trial(self.settings, self.trial)
        options = {**settings, **self.driver.options(self.toolbox.tools)}
        key = StepKey(self.task.id, label(self.driver), self.variant, self.trial, len(self.turns))
        watch = self.driver.watch(self.toolbox.tools)
        return Request(tuple(self.history), options, key, watch)

    def _go_on(self, reply: Reply, reading: Reading, results: tuple[ToolResult, ...]) -> None:
        """Decide whether this was the end; if not, answer the reply."""
        self.stop = self._ending(reading)
        if self.stop is not None:
            return
        self.corrects = reading.outcome == "malformed"
        self.corrections += self.corrects
        self.add(self.driver.respond(self.task, reply, reading, results))

    def _ending(self, reading: Reading) -> Stop | None:
        if reading.outcome == "malformed":
            return "malformed" if self.corrections >= self.budget.corrections else None
        if reading.outcome == "call":
            return "no_progress" if self._stuck(reading.good_calls) else None
        return ending_of(reading)

    def _stuck(self, calls: Sequence[Call]) -> bool:
        """Say whether one call was made three times in a row, up to and within this reply."""
        before = self.made[-_REPEATS + 1 :]
        self.made += [json.dumps([c.name, c.arguments], sort_keys=True) for c in calls]
        recent = before + self.made[len(self.made) - len(calls) :]
        runs = zip(*(recent[start:] for start in range(_REPEATS)), strict=False)
        return any(len(set(run)) == 1 for run in runs)

    def _with_own_ids(self, reading: Reading) -> Reading:
        """Rename ids that an earlier turn used: an answer must belong to one call."""
        calls = tuple(self._own_id(call) for call in reading.calls)
        return replace(reading, calls=calls) if calls != reading.calls else reading

    def _own_id(self, call: Call) -> Call:
        if call.id is None:
            return call
        name, number = call.id, len(self.turns)
        while name in self.ids:
            name, number = f"{call.id}_{number}", number + 1
        self.ids.add(name)
        return call if name == call.id else replace(call, id=name)

    async def _run(self, calls: Sequence[Call]) -> tuple[ToolResult, ...]:
        """Run the readable calls at the same time; every call gets a result, in order."""
        return tuple(await asyncio.gather(*(self._answer(call) for call in calls)))

    async def _answer(self, call: Call) -> ToolResult:
        if call.failure is not None:
            return _refuse(call, call.failure, self.task)
        if self.leave is None:
            return await self.toolbox.run(call)
        return await self.toolbox.run(call, self.leave)

    def episode(self) -> Episode:
        """Give what happened."""
        task, driver = self.task, self.driver
        return Episode(
            task_id=task.id,
            pair=task.pair,
            lang=task.lang,
            category=task.category,
            driver=driver.name,
            dialect=driver.dialect,
            endpoint=self.client.name,
            model=self.client.model,
            variant=self.variant,
            trial=self.trial,
            level=driver.level,
            stop=self.stop or "step_limit",
            turns=tuple(self.turns),
            seconds=round(sum(turn.reply.seconds for turn in self.turns), 6),
        )


def _settings_of_trial(settings: Mapping[str, Any], trial: int) -> Mapping[str, Any]:
    """Give each trial a seed of its own: with the same one, trials would only repeat each other."""
    seed = settings.get("seed")
    return {**settings, "seed": seed + trial} if isinstance(seed, int) and trial else settings


def _refuse(call: Call, failure: Failure, task: Task) -> ToolResult:
    text = explain_call(failure, task.lang)
    return ToolResult(call.id, call.name, call.arguments, text, error=True)


def _sendable(value: Any, depth: int = 0) -> Any:
    """Return a message as JSON can carry it: no lone surrogate, no NUL, nothing without end."""
    if depth > _DEEPEST:
        return None
    match value:
        case str():
            if value.isascii() and "\0" not in value:
                return value
            return (
                value.replace("\0", "")
                .encode("utf-16", "surrogatepass")
                .decode("utf-16", "replace")
            )
        case Mapping():
            return {_sendable(key): _sendable(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [_sendable(item, depth + 1) for item in value]
        case _:
            return value
