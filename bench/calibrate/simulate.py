"""Made-up scores whose truth is known: units, languages, trials, and a unit x way interaction.

A logit model. Each unit has its own ability (shared by both ways), each unit and way its own lean
(the interaction), each unit and language its own turn; given these, every trial is a coin toss.
The truth is the mean over all units that could be drawn, not only over the ones that were.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class World:
    """What scores are drawn from; standard deviations are in logits."""

    units: int
    languages: int = 2
    trials: int = 1
    rate: float = 0.6
    """Share of the tasks that the two ways solve, in the middle between them."""
    ability: float = 1.5
    lean: float = 1.0
    tongue: float = 0.5

    @property
    def observations(self) -> int:
        """Of a unit and way."""
        return self.languages * self.trials

    @property
    def scale(self) -> float:
        """Standard deviation of one observation's logit."""
        return math.sqrt(self.ability**2 + self.lean**2 + self.tongue**2)


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def mean_rate(logit: float, scale: float) -> float:
    """Return the mean of the logistic function over a normal logit.

    >>> round(mean_rate(0.0, 2.0), 6)
    0.5
    """
    values = special.expit(logit + scale * _NODES)
    return float((values * _WEIGHTS).sum() / _WEIGHTS.sum())


def logits(world: World, difference: float) -> tuple[float, float]:
    """Return the two ways' mean logits, so that their rates differ by that much.

    >>> a, b = logits(World(80, rate=0.5), 0.2)
    >>> round(mean_rate(a, World(80).scale) - mean_rate(b, World(80).scale), 6)
    0.2
    """

    def solve(rate: float) -> float:
        return float(optimize.brentq(lambda x: mean_rate(x, world.scale) - rate, -40, 40))

    return solve(world.rate + difference / 2), solve(world.rate - difference / 2)


def draw(world: World, difference: float, tables: int, rng: np.random.Generator) -> Any:
    """Return successes of shape tables x ways x units x languages x trials, as 0 and 1."""
    shape = (tables, 2, world.units, world.languages, world.trials)
    logit = np.array(logits(world, difference)).reshape(1, 2, 1, 1, 1)
    logit = logit + world.ability * rng.normal(size=(tables, 1, world.units, 1, 1))
    logit = logit + world.lean * rng.normal(size=(tables, 2, world.units, 1, 1))
    logit = logit + world.tongue * rng.normal(size=(tables, 1, world.units, world.languages, 1))
    return (rng.random(shape) < special.expit(logit)).astype(np.float64)


def unit_means(scores: Any) -> tuple[Floats, Floats]:
    """Return for each table and unit the mean of each way: two arrays of tables x units."""
    means = scores.mean(axis=(3, 4))
    return means[:, 0], means[:, 1]


def lines_of(scores: Any, failures: Any, picks: Any) -> Iterator[dict[str, Any]]:
    """Yield lines as of episodes.jsonl for one table: ways x units x languages x trials.

    `failures` and `picks` have the same shape: 1 where the first attempt is unreadable, and where
    the wrong tool is picked.
    """
    for way, unit, lang, trial in np.ndindex(scores.shape):
        at = (way, unit, lang, trial)
        name, tongue = f"simulated-{unit:03}", ("en", "zh")[lang]
        yield {
            "task_id": f"{name}-{tongue}",
            "pair": name,
            "lang": tongue,
            "category": "simulated",
            "driver": ("react", "native")[way],
            "dialect": ("json", "")[way],
            "endpoint": "simulated",
            "model": "simulated",
            "variant": "full",
            "trial": trial,
            "level": "hardened",
            "stop": "answered",
            "score": _score(int(scores[at]), int(failures[at]), int(picks[at])),
        }


def _score(success: int, failed: int, wrong: int) -> dict[str, Any]:
    return {
        "success": success,
        "first_attempts": 1,
        "first_failures": {"no_move": 1} if failed else {},
        "readable": 1,
        "wrong": wrong,
    }
