"""The truth about damaged episodes, kept apart from the harness: what was injected, and its sums.

Nothing here reads a reply or judges a call. Every count follows from what the damaging client did.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.calibrate.damage import ANSWER, CALL, ENDPOINT, LEFT, REFUSED, Damaged
from bench.calibrate.moves import Script, Wanted
from bench.scoring import NONE, LevelScore, Pair, Score
from bench.types import Budget, Reply, Stop, Task
from parsers import LEVELS, Level

TRIES = frozenset(
    {
        "out_of_channel_call",
        "server_rejected_output",
        "missing_tool_name",
        "unknown_tool",
        "ambiguous_calls",
        "bad_arguments_syntax",
        "bad_arguments_shape",
        "schema_violation",
        "truncated_output",
    }
)
"""Failures in which a call was tried, as far as one is to be seen."""
_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """One reply that was sent, and the truth about it."""

    damage: str
    """Its kind, or "" where the right move was left whole."""
    sent: Damaged
    level: Level
    """The level that the loop acts on."""
    corrects: bool
    reply: Reply | None
    """As it was sent, with its tokens and seconds."""

    def at(self, level: Level) -> str:
        """Return what the reply is at a level."""
        return self.sent.reads[LEVELS.index(level)]

    @property
    def reads(self) -> str:
        """What the reply is at the level of the run."""
        return self.at(self.level)

    @property
    def malformed(self) -> bool:
        """Whether it is an emission failure there."""
        return is_malformed(self.reads)

    @property
    def calls(self) -> tuple[Wanted, ...]:
        """The calls that are to be run."""
        return self.sent.calls if self.reads == CALL else ()

    @property
    def tries(self) -> tuple[str | None, ...]:
        """Names of the calls that were tried unreadably."""
        if self.malformed and self.sent.calls:
            return tuple(name for name, _ in self.sent.calls)
        return self.sent.tries

    def repairs_at(self, level: Level) -> frozenset[str]:
        """Return the repairs that a level needs."""
        if self.at(level) not in (CALL, ANSWER):
            return frozenset()
        return self.sent.repairs | (self.sent.rescued if level == "rescue" else frozenset())


def is_malformed(reads: str) -> bool:
    """Say whether this is a failure of the model's emission."""
    return reads not in (CALL, ANSWER, REFUSED, ENDPOINT, LEFT)


def stop_of(entries: Sequence[Entry], budget: Budget) -> Stop | None:
    """Return how an episode ends after these replies; None: it goes on."""
    if not entries:
        return None
    last = entries[-1]
    match last.reads:
        case "left":
            return "left_recording"
        case "endpoint":
            overflow = last.sent.kind == "context_overflow"
            return "context_overflow" if overflow else "endpoint"
        case "refused":
            return "refused"
        case "answer":
            return "answered"
        case "call" if _is_stuck(entries):
            return "no_progress"
    if last.malformed and sum(entry.malformed for entry in entries) > budget.corrections:
        return "malformed"
    return "step_limit" if len(entries) >= budget.steps else None


def _is_stuck(entries: Sequence[Entry]) -> bool:
    made = [(name, dict(values)) for entry in entries for name, values in entry.calls]
    last = len(entries[-1].calls)
    starts = range(max(0, len(made) - last - _REPEATS + 1), len(made) - _REPEATS + 1)
    return any(made[at] == made[at + 1] == made[at + 2] for at in starts)


def score_of(task: Task, script: Script, entries: Sequence[Entry], stop: Stop) -> Score:
    """Return the counts that the harness must come to, `tool_failed` left out."""
    arrived = [entry for entry in entries if entry.reads not in (ENDPOINT, LEFT)]
    calls = [call for entry in arrived for call in entry.calls]
    tries = [name for entry in arrived for name in entry.tries]
    final = arrived[-1].sent.final if stop == "answered" else None
    right = final == script.final
    no_tool = not task.gold.calls and not task.gold.unsolvable
    return Score(
        success=int(right and _all_made(script, calls) and _held_back(task, calls, tries)),
        answered=int(final is not None),
        answer_right=int(right),
        calls=len(calls) + len(tries),
        readable=len(calls),
        invented=sum(entry.reads == "unknown_tool" for entry in arrived),
        **_matched(script, calls),
        forbidden=sum(name in task.gold.forbidden for name, _ in calls),
        no_tool=int(no_tool),
        needless=int(no_tool and bool(calls)),
        needless_attempt=int(no_tool and not calls and bool(tries)),
        **_replies(arrived),
        levels={level: _level(task, script, arrived, level) for level in LEVELS},
        **_costs(entries, arrived),
        **_outside(entries, stop),
    )


def _is_right(script: Script, call: Wanted) -> bool:
    return any(call[0] == name and dict(call[1]) == dict(v) for name, v in script.calls)


def _all_made(script: Script, calls: Sequence[Wanted]) -> bool:
    """Say whether each wanted call was made with its own arguments; a script keeps their order."""
    made = [(name, dict(values)) for name, values in calls]
    return all((name, dict(values)) in made for name, values in script.calls)


def _held_back(task: Task, calls: Sequence[Wanted], tries: Sequence[str | None]) -> bool:
    """Say whether nothing was called, or tried, that must not be."""
    forbidden = task.gold.forbidden
    if any(name in forbidden for name, _ in calls):
        return False
    if task.gold.unsolvable:
        return not any(name is None or name in forbidden for name in tries)
    return bool(task.gold.calls) or not (calls or tries)


def _matched(script: Script, calls: Sequence[Wanted]) -> dict[str, Any]:
    """Match by tool: whatever is damaged never makes a tool's calls more than are wanted."""
    wanted = Counter(name for name, _ in script.calls)
    made = Counter(name for name, _ in calls)
    right = sum(min(made[name], wanted[name]) for name in wanted)
    return {
        "pairs": _pairs(script, calls),
        "wanted": len(script.calls),
        "missed": len(script.calls) - right,
        "wrong": len(calls) - right,
        "right_tool": right,
        "acceptable": sum(_is_right(script, call) for call in calls),
    }


def _pairs(script: Script, calls: Sequence[Wanted]) -> tuple[Pair, ...]:
    """Give each call its wanted tool: its own, else the next that was never called, else none."""
    left = Counter(name for name, _ in calls)
    never = []
    for name, _ in script.calls:
        if left[name]:
            left[name] -= 1
        else:
            never.append(name)
    wanted = {name for name, _ in script.calls}
    rest = iter(never)
    pairs = [(name if name in wanted else next(rest, NONE), name) for name, _ in calls]
    return (*pairs, *((name, NONE) for name in rest))


def _replies(arrived: Sequence[Entry]) -> dict[str, Any]:
    first = [entry for entry in arrived if not entry.corrects]
    corrected = [entry for entry in arrived if entry.corrects]
    read = [entry for entry in arrived if entry.reads in (CALL, ANSWER)]
    repairs = [entry.repairs_at(entry.level) for entry in read]
    return {
        "replies": len(arrived),
        "first_attempts": len(first),
        "first_failures": _kinds(first),
        "corrected": len(corrected),
        "recovered": sum(entry.reads in (CALL, ANSWER) for entry in corrected),
        "corrected_failures": _kinds(corrected),
        "read": len(read),
        "repaired": sum(map(bool, repairs)),
        "repairs": dict(sorted(Counter(name for names in repairs for name in names).items())),
        "refused": sum(entry.reads == REFUSED for entry in arrived),
    }


def _kinds(entries: Iterable[Entry]) -> dict[str, int]:
    return dict(sorted(Counter(entry.reads for entry in entries if entry.malformed).items()))


def _level(task: Task, script: Script, arrived: Sequence[Entry], level: Level) -> LevelScore:
    first = [entry for entry in arrived if not entry.corrects]
    if not first:
        return LevelScore()
    opening = first[0].at(level)
    bad = is_malformed(opening)
    return LevelScore(
        first=1,
        unreadable=int(bad),
        kind=opening if bad else None,
        right=int(_opens_right(task, script, first[0], level)),
        attempts=len(first),
        failed=sum(is_malformed(entry.at(level)) for entry in first),
    )


def _opens_right(task: Task, script: Script, entry: Entry, level: Level) -> bool:
    if entry.at(level) == ANSWER:
        return not task.gold.calls
    whole = entry.at(level) == CALL and not (entry.sent.tries and entry.sent.calls)
    return whole and all(_is_right(script, call) for call in entry.sent.calls)


def _costs(entries: Sequence[Entry], arrived: Sequence[Entry]) -> dict[str, Any]:
    usages = [entry.reply.usage for entry in arrived if entry.reply is not None]
    names = ("prompt", "completion", "cached", "reasoning")
    told: dict[str, list[int]] = {
        name: [n for usage in usages if (n := getattr(usage, name)) is not None] for name in names
    }
    sent = [entry.reply for entry in entries if entry.reply is not None]
    return {
        **{name: sum(numbers) if numbers else None for name, numbers in told.items()},
        "first_prompt": usages[0].prompt if usages else None,
        "unmetered": sum(usage.prompt is None for usage in usages),
        "seconds": round(sum(reply.seconds for reply in sent), 6),
        "first_token": None,
    }


def _outside(entries: Sequence[Entry], stop: Stop) -> dict[str, Any]:
    lost = Counter(entry.sent.kind for entry in entries if entry.reads == ENDPOINT)
    return {
        "endpoint_failures": dict(lost),
        "retries": sum(len(entry.reply.attempts) for entry in entries if entry.reply is not None),
        "context_overflow": int(stop == "context_overflow"),
        "left_recording": int(stop == "left_recording"),
    }


def lost_trials(stops: Mapping[tuple[str, str, int], Stop]) -> set[tuple[str, int]]:
    """Return (task, trial) where an endpoint's failure takes the task out of every way.

    `stops` by (task, way, trial).
    """
    return {(task, trial) for (task, _, trial), stop in stops.items() if stop == "endpoint"}
