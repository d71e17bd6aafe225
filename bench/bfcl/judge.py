"""Two judges for the same calls: ours, and BFCL's own checker in a process of its own.

BFCL asks for all calls at once and looks at nothing else. So here a verdict is about calls alone:
every wanted call and no other, whatever the final answer says.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from bench.bfcl.data import Row, Source
from bench.peers.workers import Parser, Worker, default_environments
from bench.scoring import judge
from bench.types import Episode, Task
from parsers import Call, Reading, Tool

CHECKER = Path(__file__).resolve().parent / "checker.py"
SECONDS = 5.0
"""Of the processor, for one verdict."""

Scope = Literal["first", "all"]
"""The calls of the first reply (what BFCL scores), or of the episode to its end."""
Kept = Literal["abstained", "called", "malformed", "refused", "endpoint"]
"""What a first reply was where no call is wanted."""


@dataclass(frozen=True, slots=True)
class Official:
    """What BFCL's checker says; `valid` is None where it gave no verdict, and `why` says so."""

    valid: bool | None
    why: str = ""


class Checker:
    """BFCL's `ast_checker`: bounded in time and memory, without a network, started when asked."""

    def __init__(self, source: Source, seconds: float = SECONDS) -> None:
        environment = {"BFCL_PACKAGE": str(source.package)}
        parser = Parser("bfcl", source.judge, "native", "ast", environment=environment)
        self._known, self._seconds = source.package is not None, seconds
        self._worker = Worker(parser, environments=default_environments(), adaptors=CHECKER)

    def __enter__(self) -> Self:
        self._worker.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._worker.__exit__(kind, error, trace)

    def check(self, row: Row, calls: Sequence[Call]) -> Official:
        """Judge calls with their arguments."""
        if not self._known:
            return Official(None, "the checker is not there, only the data")
        request = {
            "tools": [],
            "functions": list(row.functions),
            "truth": list(row.truth or ()),
            "category": row.category,
            "calls": [[call.name, call.arguments] for call in calls],
        }
        read: Mapping[str, Any] = self._worker.ask(request, self._seconds)["read"]
        if isinstance(read.get("valid"), bool):
            return Official(read["valid"], str(read.get("why", ""))[:200])
        return Official(None, "; ".join(f"{key}: {value}" for key, value in read.items())[:200])


def is_right(task: Task, calls: Sequence[Call], tools: Sequence[Tool]) -> bool:
    """Tell whether our judge finds every wanted call among these, and no other."""
    verdict = judge(task, calls, (), "done", tools=tools)
    return verdict.success and verdict.wrong == 0 and len(calls) == verdict.wanted


def calls_of(episode: Episode, scope: Scope) -> tuple[Call, ...]:
    """Return the calls that are judged.

    Of the first reply all whose arguments are a JSON object, also where the name or the schema
    refuses them: BFCL asks neither before it judges. Of an episode those that were run; one that a
    later reply repeats counts once, since a model that is told "recorded" may ask again.
    """
    if scope == "first":
        reading = first_reading(episode)
        return tuple(filter(None, map(_as_written, reading.calls))) if reading else ()
    calls: list[Call] = []
    for turn in episode.turns:
        made = [(call.name, call.arguments) for call in calls]
        calls += [c for c in turn.reading.good_calls if (c.name, c.arguments) not in made]
    return tuple(calls)


def _as_written(call: Call) -> Call | None:
    """Return a call with the arguments that stand in it, None where they are no JSON object."""
    if call.failure is None:
        return call
    try:
        arguments = json.loads(call.raw)
    except (ValueError, RecursionError):
        return None
    return replace(call, arguments=arguments) if isinstance(arguments, dict) else None


def first_reading(episode: Episode) -> Reading | None:
    """Return how the first reply was read; None where none came."""
    return episode.turns[0].reading if episode.turns else None


def kept_quiet(episode: Episode) -> Kept:
    """Say what the first reply was where no call is wanted."""
    reading = first_reading(episode)
    if reading is None:
        return "endpoint"
    match reading.outcome:
        case "answer":
            return "abstained"
        case "call":
            return "called"
        case other:
            return other


@dataclass(frozen=True, slots=True)
class Judged:
    """One episode with both verdicts on its calls, of one scope."""

    task_id: str
    category: str
    driver: str
    endpoint: str
    trial: int
    variant: str
    scope: Scope
    ours: bool
    official: bool | None
    why: str = ""
    """The checker's reason, or why it gave no verdict."""
    outcome: Kept | None = None
    """Where no call is wanted: what the first reply was."""
    calls: tuple[tuple[str, Any], ...] = ()


def judge_episode(
    row: Row, task: Task, episode: Episode, tools: Sequence[Tool], checker: Checker, driver: str
) -> Iterator[Judged]:
    """Yield an episode's verdicts: of its first reply, and where calls are wanted of all of it."""
    arm = (row.id, row.category, driver, episode.endpoint, episode.trial, episode.variant)
    if row.truth is None:
        yield _judge_silence(arm, episode)
        return
    scopes: tuple[Scope, ...] = ("first", "all")
    for scope in scopes:
        if _is_lost(episode, scope):
            continue  # an endpoint's failure is never charged to the model
        calls = calls_of(episode, scope)
        official = checker.check(row, calls)
        sound = scope == "all" or _all_good(episode)
        ours = sound and is_right(task, calls, tools)
        shown = tuple((call.name, call.arguments) for call in calls)
        yield Judged(*arm, scope, ours, official.valid, official.why, calls=shown)


def _is_lost(episode: Episode, scope: Scope) -> bool:
    reading = first_reading(episode)
    never_came = reading is None or reading.outcome == "endpoint"
    return never_came or (scope == "all" and episode.stop in ("endpoint", "left_recording"))


def _all_good(episode: Episode) -> bool:
    reading = first_reading(episode)
    return reading is None or len(reading.good_calls) == len(reading.calls)


def _judge_silence(arm: tuple[str, str, str, str, int, str], episode: Episode) -> Judged:
    """Judge a first reply where no call is wanted.

    BFCL's rule: right unless a call can be decoded, so also where the reply is broken or missing.
    """
    outcome = kept_quiet(episode)
    calls = calls_of(episode, "first")
    shown = tuple((call.name, call.arguments) for call in calls)
    return Judged(*arm, "first", outcome == "abstained", not calls, outcome=outcome, calls=shown)
