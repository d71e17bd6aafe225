"""Exact accounting: what the harness counts over damaged replies, against what was injected.

Runs the loop, the readers, the tools and the judge as any run does; only the client is made up.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any

from bench import tables
from bench.calibrate.client import DamagingClient, EpisodeName
from bench.calibrate.damage import ANSWER, CALL, REFUSED
from bench.calibrate.ledger import Entry, score_of, stop_of
from bench.drivers import label, make_driver
from bench.loop import DEFAULT_BUDGET, solve
from bench.run import bundled_toolbox
from bench.scoring import Score, score
from bench.tasks import load_tasks
from bench.texts import mark
from bench.types import Driver, Episode, Task, Turn
from parsers import LEVELS, Level, Tool

WAYS = ("react", "native", "react@strict", "native@strict", "react@rescue", "native@rescue")
_TOLD = 20
"""Differences that are written out."""
_WHOLE = mark("left whole")


@dataclass(slots=True)
class Account:
    """What was injected, what was counted, and where the two differ."""

    episodes: int = 0
    replies: int = 0
    damaged: int = 0
    checks: int = 0
    """Comparisons of one count or one reading with the truth."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Damaged replies by way and kind, as `react: fence`."""
    wrong: Counter[str] = field(default_factory=Counter)
    """Differences by what differs."""
    examples: list[str] = field(default_factory=list)
    """Some of them, in words."""

    def check(self, what: str, where: str, counted: Any, injected: Any) -> None:
        """Compare one thing."""
        self.checks += 1
        if counted != injected:
            self.wrong[what] += 1
            if len(self.examples) < _TOLD:
                said = f"{where}: {what}: counted {counted!r}, injected {injected!r}"
                self.examples.append(said[:400])

    def add(self, other: "Account") -> None:
        """Take in the account of another part."""
        for name in ("episodes", "replies", "damaged", "checks"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.kinds.update(other.kinds)
        self.wrong.update(other.wrong)
        self.examples = [*self.examples, *other.examples][:_TOLD]

    @property
    def exact(self) -> bool:
        """Whether nothing differs."""
        return not self.wrong


def keep_account(
    replies: int, seed: int, *, tasks: Sequence[Task] | None = None, ways: Sequence[str] = WAYS
) -> Account:
    """Run trial after trial of all tasks, each way, until that many replies were damaged."""
    return asyncio.run(_keep(replies, seed, load_tasks() if tasks is None else tasks, ways))


async def _keep(replies: int, seed: int, tasks: Sequence[Task], ways: Sequence[str]) -> Account:
    account, trial = Account(), 0
    while account.damaged < replies:
        account.add(await _one_trial(tasks, [make_driver(way) for way in ways], seed, trial))
        trial += 1
    return account


async def _one_trial(
    tasks: Sequence[Task], drivers: Sequence[Driver], seed: int, trial: int
) -> Account:
    client = DamagingClient({task.id: task for task in tasks}, _tools, seed)
    account = Account()
    lines, truths = [], []
    for task in tasks:
        for driver in drivers:
            episode, found = await _run(task, driver, client, trial)
            entries = client.ledger[task.id, label(driver), trial]
            truth = _truth(client, task, entries)
            _check_episode(account, task, driver, episode, entries)
            _check_score(account, episode, found, truth)
            lines.append(_line(episode, found))
            truths.append(_line(episode, truth))
    _check_tables(account, lines, truths)
    account.episodes = len(lines)
    _count_damage(account, client.ledger)
    return account


def _tools(task: Task) -> Sequence[Tool]:
    return bundled_toolbox(task, "full").tools


async def _run(
    task: Task, driver: Driver, client: DamagingClient, trial: int
) -> tuple[Episode, Score]:
    toolbox = bundled_toolbox(task, "full")
    leave = lambda _name, _arguments: "flag"  # noqa: E731 (a Leave: the tools are made up)
    episode = await solve(task, toolbox, driver, client, trial=trial, leave=leave)
    return episode, score(task, episode, toolbox.tools, driver)


def _truth(client: DamagingClient, task: Task, entries: Sequence[Entry]) -> Score:
    stop = stop_of(entries, DEFAULT_BUDGET) or "step_limit"
    return score_of(task, client.script(task.id), entries, stop)


def _count_damage(account: Account, ledger: Mapping[EpisodeName, Sequence[Entry]]) -> None:
    for (_, way, _), entries in ledger.items():
        account.replies += len(entries)
        for entry in entries:
            account.damaged += bool(entry.damage)
            account.kinds[f"{way.partition('@')[0]}: {entry.damage or _WHOLE}"] += 1


# ---------------------------------------------------------------- reply by reply


def _check_episode(
    account: Account, task: Task, driver: Driver, episode: Episode, entries: Sequence[Entry]
) -> None:
    where = f"{task.id} {label(driver)} trial {episode.trial}"
    check = partial(account.check, where=where)
    check("stop", counted=episode.stop, injected=stop_of(entries, DEFAULT_BUDGET))
    sent = [entry for entry in entries if entry.reply is not None]
    check("replies in an episode", counted=len(episode.turns), injected=len(sent))
    for turn, entry in zip(episode.turns, sent, strict=False):
        _check_turn(account, f"{where}, {entry.damage or 'whole'}", task, driver, turn, entry)


def _check_turn(
    account: Account, where: str, task: Task, driver: Driver, turn: Turn, entry: Entry
) -> None:
    account.check("answers a correction", where, turn.corrects, entry.corrects)
    tools = _tools(task)
    for level in LEVELS:
        own = level == driver.level
        reading = turn.reading if own else driver.read(turn.reply, tools, level)
        place = f"{where}, {level}"
        account.check("reading", place, _outcome(reading), entry.at(level))
        account.check("calls read", place, _calls(reading), _wanted(entry, level))
        account.check("answer read", place, reading.final, _final(entry, level))
        repairs = {repair.name for repair in reading.repairs if _is_read(reading)}
        account.check("repairs", place, repairs, set(entry.repairs_at(level)))


def _is_read(reading: Any) -> bool:
    return reading.outcome in (CALL, ANSWER)


def _outcome(reading: Any) -> str:
    if reading.outcome == "malformed":
        return str(reading.failure.kind)
    return str(reading.outcome)


def _calls(reading: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in reading.good_calls]


def _wanted(entry: Entry, level: Level) -> list[tuple[str, Any]]:
    wanted = entry.sent.calls if entry.at(level) == CALL else ()
    return [(name, dict(values)) for name, values in wanted]


def _final(entry: Entry, level: Level) -> str | None:
    return entry.sent.final if entry.at(level) == ANSWER else None


# ---------------------------------------------------------------- episode by episode


def _check_score(account: Account, episode: Episode, found: Score, truth: Score) -> None:
    where = f"{episode.task_id} {episode.driver}@{episode.level} trial {episode.trial}"
    for item in fields(Score):
        counted, injected = getattr(found, item.name), getattr(truth, item.name)
        if item.name == "tool_failed":
            injected = _failed(episode)
        if item.name == "pairs":
            counted, injected = Counter(counted), Counter(injected)
        account.check(f"score: {item.name}", where, counted, injected)


def _failed(episode: Episode) -> int:
    """Count the readable calls whose tool said so: the tools' own word, nothing is injected there."""
    return sum(
        result.error
        for turn in episode.turns
        for call, result in zip(turn.reading.calls, turn.results, strict=False)
        if call.failure is None
    )


# ---------------------------------------------------------------- in the tables


def _line(episode: Episode, found: Score) -> dict[str, Any]:
    names = ("task_id", "pair", "lang", "category", "driver", "dialect", "endpoint", "model")
    names += ("variant", "trial", "level", "stop")  # type: ignore[assignment]
    return {**{name: getattr(episode, name) for name in names}, "score": asdict(found)}


def _check_tables(
    account: Account, lines: Sequence[Mapping[str, Any]], truths: Sequence[Mapping[str, Any]]
) -> None:
    """Compare every count that a report divides, over all episodes of a trial."""
    frame = tables.episode_table(lines)
    lost, left = (
        {(line["task_id"], line["trial"]) for line in truths if line["stop"] == stop}
        for stop in ("endpoint", "left_recording")
    )
    for key, rows in tables.arms(frame).items():
        own = [line for line in truths if tables.arm_label(line) == key[1]]
        read = [line for line in own if (line["task_id"], line["trial"]) not in lost]
        kept = [line for line in read if (line["task_id"], line["trial"]) not in left]
        for name, counted, injected in _sums(rows, read, kept):
            account.check(f"table: {name}", key[1], counted, injected)


def _sums(
    rows: Any, read: Sequence[Mapping[str, Any]], kept: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, int, int]]:
    for measure in tables.MEASURES:
        counted = tables.scope(rows, measure.scope)
        own = kept if measure.scope == "kept" else read
        for column in (measure.top, measure.below):
            yield column, int(counted[column].sum()), sum(_value(line, column) for line in own)


def _value(line: Mapping[str, Any], column: str) -> int:
    if column == "episodes":
        return 1
    if column == "first_failed":
        return sum(line["score"]["first_failures"].values())
    column = "read" if column == "replies_read" else column
    return int(line["score"][column])


__all__ = ["REFUSED", "Account", "keep_account", "replace"]
