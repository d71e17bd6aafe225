"""How often intervals hold the truth and tests cry wolf, on simulated scores; with its own error.

The functions measured are the ones that reports use: `stats.paired_difference`, `stats.sign_flip`,
`stats.rate_interval`, and `tables.comparisons` with its Holm adjustment.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bench import stats, tables
from bench.calibrate.simulate import World, draw, lines_of, logits, mean_rate, unit_means

FLIPS = 1_999
"""Sign flips of a simulated test: fewer make it coarser, never more often wrong."""
DIFFERENCE = 0.10
"""The true difference in the tables whose intervals are looked at; a tenth is a usual one."""
CHUNK = 100
"""Tables that one process makes at a time; of runs a quarter."""
FAILURE, PICK = 0.15, 0.08
"""Parse failures and wrong picks in simulated runs: the same in both ways."""


@dataclass(frozen=True, slots=True)
class Share:
    """A counted share with its Monte-Carlo error (one standard deviation)."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        """The share; NaN where nothing was counted."""
        return self.hits / self.of if self.of else math.nan

    @property
    def error(self) -> float:
        """One standard deviation of it, by the number of tables.

        >>> round(Share(3800, 4000).error, 4)
        0.0035
        """
        rate = (self.hits + 1) / (self.of + 2)
        return math.sqrt(rate * (1 - rate) / self.of) if self.of else math.nan

    def __add__(self, other: "Share") -> "Share":
        """Count together."""
        return Share(self.hits + other.hits, self.of + other.of)


NOTHING = Share(0, 0)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What came of the tables of one world."""

    wide: Share = NOTHING
    """95 % intervals of a difference that hold the true one, of those that there are."""
    narrow: Share = NOTHING
    """The same for 90 %, which equivalence and a loss rest on."""
    rate: Share = NOTHING
    """95 % intervals of one way's rate."""
    alarms: Share = NOTHING
    """Tests below 5 % where there is no difference."""
    none: Share = NOTHING
    """Tables in which all units say the same, so that there is no interval."""

    def __add__(self, other: "Coverage") -> "Coverage":
        """Count together."""
        return Coverage(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class Condition:
    """One world and how many tables are drawn from it."""

    name: str
    world: World
    part: int = 4
    """One table in so many of the number asked for."""
    strict: bool = False
    """Whether it must keep the limits: the sizes that a real run has."""


CONDITIONS: tuple[Condition, ...] = (
    Condition("15 units, the fewest", World(15)),
    Condition("20 units", World(20)),
    Condition("40 units", World(40)),
    Condition("80 units", World(80), 1, strict=True),
    Condition("120 units", World(120), 1, strict=True),
    Condition("80 units, one language", World(80, languages=1)),
    Condition("80 units, three trials", World(80, trials=3)),
    Condition("80 units, nearly all solved", World(80, rate=0.945)),
)


def cover(world: World, tables_wanted: int, seed: Sequence[int]) -> Coverage:
    """Draw tables with a difference and as many without, and see what the statistics say."""
    rng = np.random.default_rng(list(seed))
    first, second = unit_means(draw(world, DIFFERENCE, tables_wanted, rng))
    truth = mean_rate(logits(world, DIFFERENCE)[0], world.scale)
    found = sum((_one(a, b, truth, world) for a, b in zip(first, second, strict=True)), Coverage())
    first, second = unit_means(draw(world, 0.0, tables_wanted, rng))
    ps = [stats.sign_flip(a - b, FLIPS) for a, b in zip(first, second, strict=True)]
    return found + Coverage(alarms=Share(sum(p < stats.ALPHA for p in ps), len(ps)))


def _one(first: Any, second: Any, rate: float, world: World) -> Coverage:
    # few flips: only the intervals are asked for
    found = stats.paired_difference(first, second, 99)
    own = stats.rate_interval(first * world.observations, np.full(world.units, world.observations))
    return Coverage(
        wide=_holds(found.interval, DIFFERENCE),
        narrow=_holds(found.narrow, DIFFERENCE),
        rate=_holds(own, rate),
        none=Share(int(found.interval is None), 1),
    )


def _holds(interval: stats.Interval | None, truth: float) -> Share:
    if interval is None:
        return NOTHING
    return Share(int(interval.low <= truth <= interval.high), 1)


# ---------------------------------------------------------------- whole runs


@dataclass(frozen=True, slots=True)
class Runs:
    """What came of simulated pairs of runs: ReAct and native, judged as a report judges them."""

    found: Share = NOTHING
    """Runs whose verdict on success is the true one, at the difference that is told beforehand."""
    reversed: Share = NOTHING
    """Runs whose verdict is the wrong way round."""
    alarms: Share = NOTHING
    """Runs without any difference in which any planned verdict says that there is one."""
    spread: float = 0.0
    """Summed over `found.of` runs: the standard deviation of the per-unit difference."""

    def __add__(self, other: "Runs") -> "Runs":
        """Count together."""
        return Runs(
            self.found + other.found,
            self.reversed + other.reversed,
            self.alarms + other.alarms,
            self.spread + other.spread,
        )


RUNS: tuple[Condition, ...] = (
    Condition("80 units", World(80), 1, strict=True),
    Condition("120 units", World(120), 1, strict=True),
    Condition("80 units, one language", World(80, languages=1), 1),
    Condition("80 units, ways less alike than guessed", World(80, lean=4.0), 1),
)


def told_beforehand(world: World) -> float:
    """Return the difference that a run of this size is told to find, before it begins."""
    return stats.foresee(world.units, world.observations)


def judge_runs(world: World, runs: int, seed: Sequence[int]) -> Runs:
    """Draw runs with the difference told beforehand and runs with none, and read the verdicts."""
    rng = np.random.default_rng(list(seed))
    total = Runs()
    for real in (told_beforehand(world), 0.0):
        for scores in draw(world, real, runs, rng):
            total += _judge(scores, real, rng)
    return total


def run_chunk(kind: str, place: int, size: int, seed: int, number: int) -> Coverage | Runs:
    """Do a part of a condition, in any process: the seed and its place say what is drawn."""
    if kind == "coverage":
        return cover(CONDITIONS[place].world, size, (seed, 1, place, number))
    return judge_runs(RUNS[place].world, size, (seed, 2, place, number))


def _judge(scores: Any, real: float, rng: np.random.Generator) -> Runs:
    failures, picks = (rng.random(scores.shape) < rate for rate in (FAILURE, PICK))
    frame = tables.episode_table(lines_of(scores, failures, picks))
    planned = tables.comparisons(frame, planned_only=True, resamples=FLIPS)
    words = {
        c.measure.name: stats.judge(c.difference, c.p, higher_is_better=c.measure.higher_is_better)
        for c in planned
    }
    if not real:
        loud = any(word in ("better", "worse") for word in words.values())
        return Runs(alarms=Share(int(loud), 1))
    spread = next(c.difference.spread or 0.0 for c in planned if c.measure.name == "success")
    word = words["success"]
    return Runs(
        found=Share(int(word == "better"), 1),
        reversed=Share(int(word == "worse"), 1),
        spread=spread,
    )
