"""What an endpoint does with `tool_choice` and `parallel_tool_calls`: honours, ignores, refuses.

Asks the same questions with and without each setting, and counts the calls as they came. Weakens
no request on the way: a refusal is the finding.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from bench.drivers import NativeDriver, list_calls
from bench.pairing import error_code
from bench.run import bundled_toolbox
from bench.tasks import load_tasks
from bench.types import Client, Reply, Request, StepKey, Task
from parsers import Reading, Tool

Outcome = Literal[
    "honoured",  # the calls are as the setting wants them
    "ignored",  # they are not
    "refused",  # the endpoint refused the request
    "failed",  # the endpoint failed: nothing is known
    "not_recorded",  # replaying, and this request was never recorded
]
COUNT = 20
"""Questions for each setting, unless told."""
MAX_TEXT = 400
_MAX_NAMES = 20


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to say which calls are wanted, and how to see whether it was heard."""

    name: str
    category: str
    """The tasks whose questions are asked."""
    options: Callable[[str], Mapping[str, Any]]
    """What is sent; takes the name of a tool that the question does not need."""
    holds: Callable[[Sequence[str], str], bool]
    """Whether calls (their names) fit; takes that name too."""
    against: str | None = None
    """The setting that shows what the model does of itself."""


def _named(tool: str) -> Mapping[str, Any]:
    return {"tool_choice": {"type": "function", "function": {"name": tool}}}


def _is_only(calls: Sequence[str], tool: str) -> bool:
    return bool(calls) and set(calls) == {tool}


SETTINGS: Mapping[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("auto", "single", lambda _: {"tool_choice": "auto"}, lambda *_: True),
        Setting(
            "none", "single", lambda _: {"tool_choice": "none"}, lambda calls, _: not calls, "auto"
        ),
        Setting("named", "single", _named, _is_only, "auto"),
        Setting(
            "auto, no tool needed",
            "no_tool",
            lambda _: {"tool_choice": "auto"},
            lambda *_: True,
        ),
        Setting(
            "required",
            "no_tool",
            lambda _: {"tool_choice": "required"},
            lambda calls, _: bool(calls),
            "auto, no tool needed",
        ),
        Setting(
            "parallel on",
            "several",
            lambda _: {"tool_choice": "auto", "parallel_tool_calls": True},
            lambda *_: True,
        ),
        Setting(
            "parallel off",
            "several",
            lambda _: {"tool_choice": "auto", "parallel_tool_calls": False},
            lambda calls, _: len(calls) <= 1,
            "parallel on",
        ),
    )
}
"""Every setting that is tried, by name, each after the one that it is held against."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One question with one setting, and what came of it."""

    setting: str
    task_id: str
    outcome: Outcome
    status: int
    calls: tuple[str, ...] = ()
    """The names of the tools called in the answer's own field."""
    wanted: str = ""
    """The tool that `named` names: one that the question does not need."""
    in_text: bool = False
    """A call stands in the text instead."""
    code: str | None = None
    said: str = ""
    """The error's text or the model's, cut to 400 characters."""


@dataclass(frozen=True, slots=True)
class Row:
    """All trials of one setting, as counts."""

    setting: str
    trials: int
    counts: Mapping[Outcome, int]
    called: int
    """Answers with a call in its own field."""
    in_text: int
    """Answers with a call in the text instead."""
    telling: int
    """Questions where the model, left alone, did not do what the setting wants."""
    turned: int
    """Those of them where the setting was honoured."""
    example: str
    """What was said most often in refusing."""

    @property
    def known(self) -> int:
        """The trials of which something is known: those that neither failed nor were missing."""
        return self.trials - self.counts.get("failed", 0) - self.counts.get("not_recorded", 0)

    @property
    def verdict(self) -> str:
        """Say in a word or two what the endpoint does."""
        if not self.known:
            return "unknown"
        if self.counts.get("refused", 0) == self.known:
            return "refused"
        if SETTINGS[self.setting].against is None:
            return "taken"
        if self.counts.get("ignored", 0) == 0:
            return "honoured" if self.telling else "can't tell"
        return "sometimes honoured" if self.turned else "ignored"


@cache
def pick_tasks(category: str, count: int) -> tuple[Task, ...]:
    """Return the first tasks of a category, the same tools in a row: local servers cache prompts."""
    tasks = sorted(load_tasks(categories=[category]), key=lambda t: (t.toolset, t.lang, t.id))
    return tuple(tasks[:count])


async def run_choice(
    client: Client, *, count: int = COUNT, settings: Mapping[str, Any], at_once: int = 4
) -> tuple[Trial, ...]:
    """Ask `count` questions with every setting, `at_once` at a time."""
    gate = asyncio.Semaphore(at_once)

    async def ask(setting: Setting, task: Task) -> Trial:
        async with gate:
            return await _ask(client, setting, task, settings)

    asked = [
        ask(setting, task)
        for setting in SETTINGS.values()
        for task in pick_tasks(setting.category, count)
    ]
    return tuple(await asyncio.gather(*asked))


def count_requests(count: int) -> int:
    """Return how many requests `run_choice` makes."""
    return sum(len(pick_tasks(setting.category, count)) for setting in SETTINGS.values())


async def _ask(client: Client, setting: Setting, task: Task, settings: Mapping[str, Any]) -> Trial:
    driver, tools = NativeDriver(), bundled_toolbox(task, "full").tools
    other = other_tool(task, tools)
    options = {**settings, **driver.options(tools), **setting.options(other)}
    key = StepKey(task.id, "native", setting.name, 0, 0)
    reply = await client.complete(Request(driver.open(task, tools), options, key))
    if reply is None:
        return Trial(setting.name, task.id, "not_recorded", 0, wanted=other)
    return read_trial(setting, task.id, reply, tools, other)


def other_tool(task: Task, tools: Sequence[Tool]) -> str:
    """Return the first tool on offer that the task has no use for."""
    needed = {call.tool for call in (*task.gold.calls, *task.gold.also)}
    return next(tool.name for tool in tools if tool.name not in needed)


def read_trial(
    setting: Setting, task_id: str, reply: Reply, tools: Sequence[Tool], other: str
) -> Trial:
    """Say what an answer is: a refusal, a failure, or calls that fit or don't."""
    reading = NativeDriver().read(reply, tools)
    calls = list_calls(reply)[:_MAX_NAMES]
    faulty = reading.outcome == "endpoint"
    failure = reading.failure
    return Trial(
        setting.name,
        task_id,
        _outcome(setting, reading, calls, other),
        reply.status,
        calls,
        other,
        in_text=failure is not None and failure.kind == "out_of_channel_call",
        code=error_code(reply.body) if faulty else None,
        said=(failure.message if failure is not None else reading.final or "")[:MAX_TEXT],
    )


def _outcome(setting: Setting, reading: Reading, calls: Sequence[str], other: str) -> Outcome:
    if reading.outcome != "endpoint":
        return "honoured" if setting.holds(calls, other) else "ignored"
    kind = None if reading.failure is None else reading.failure.kind
    return "refused" if kind in {"request_rejected", "context_overflow"} else "failed"


def sum_up(trials: Sequence[Trial]) -> tuple[Row, ...]:
    """Count the trials of each setting, in the order of `SETTINGS`."""
    alone = {(trial.setting, trial.task_id): trial for trial in trials}
    grouped = {name: [t for t in trials if t.setting == name] for name in SETTINGS}
    return tuple(_row(name, found, alone) for name, found in grouped.items() if found)


def _row(name: str, trials: Sequence[Trial], alone: Mapping[tuple[str, str], Trial]) -> Row:
    telling = [trial for trial in trials if _is_telling(trial, alone)]
    refusals = Counter(trial.said for trial in trials if trial.outcome == "refused")
    return Row(
        name,
        len(trials),
        Counter(trial.outcome for trial in trials),
        called=sum(bool(trial.calls) for trial in trials),
        in_text=sum(trial.in_text for trial in trials),
        telling=len(telling),
        turned=sum(trial.outcome == "honoured" for trial in telling),
        example=refusals.most_common(1)[0][0] if refusals else "",
    )


def _is_telling(trial: Trial, alone: Mapping[tuple[str, str], Trial]) -> bool:
    """Tell whether the model, left alone with this question, did something else."""
    setting = SETTINGS[trial.setting]
    before = alone.get((setting.against or "", trial.task_id))
    if before is None or before.outcome != "honoured":
        return False
    heard = trial.outcome in {"honoured", "ignored"}
    return heard and not setting.holds(before.calls, trial.wanted)
