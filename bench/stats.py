"""Say how sure a figure is: intervals, tests, verdicts. Small pure functions on arrays.

The unit is the pair: the two languages of one question. Trials and languages are nested in it, so
every array here has one entry a unit; values are shares from 0 to 1, so 0.05 is five points.
Nothing here reads a file, a clock or a model; random draws use a fixed seed, so the same numbers
give the same answer. How often the intervals and tests are wrong is measured in `bench.calibrate`.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special, stats

Floats = npt.NDArray[np.float64]
Word = Literal["better", "worse", "equivalent", "not enough data"]
LossWord = Literal["shown", "excluded", "not enough data"]
Side = Literal["two-sided", "greater", "less"]

SEED = 20_240_229
RESAMPLES = 131_072
"""Sign flips of a planned test: every one of them up to 17 units that differ."""
QUICK = 9_999
"""Sign flips of an exploratory test, and bootstrap resamples of a difference."""
ROUGH = 2_999
"""Bootstrap resamples of a single rate: a report holds hundreds."""
FEW = 15
"""Under so many units nothing but counts is told."""
LARGE = 500
"""More units than these are resampled by their distinct values: a unit has few, and to draw how
often each comes up is to draw the units. Memory and time then hardly grow with the units."""
MARGIN = 0.03
"""Two ways count as equivalent where they differ by less, surely (the 90 % interval)."""
ALPHA = 0.05
"""What a p must be below, after it was adjusted, to be called a difference."""


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` to `high`, and how it was made."""

    low: float
    high: float
    method: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """First minus second, over units that both have."""

    estimate: float
    """Mean over units of the per-unit difference; a share, so 0.05 is five points."""
    units: int
    higher: int
    """Units in which the first has the higher value."""
    lower: int
    interval: Interval | None = None
    """95 %; None where there is too little to say."""
    narrow: Interval | None = None
    """90 %, for equivalence."""
    p: float | None = None
    spread: float | None = None
    """Standard deviation of the per-unit difference."""
    note: str = ""
    """Why there is no interval."""
    bound: Interval | None = None
    """Where all units say the same: what the rule of three still allows, at worst (95 %)."""


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Return Wilson's score interval for a rate with one observation a unit.

    >>> wilson(8, 10)
    Interval(low=0.49016..., high=0.94331..., method='Wilson')
    """
    if n == 0:
        return Interval(0.0, 1.0, "no data")
    z = float(stats.norm.ppf(0.5 + confidence / 2))
    rate, weight = successes / n, z * z / n
    middle = (rate + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(rate * (1 - rate) / n + weight / (4 * n))
    return Interval(max(0.0, middle - half), min(1.0, middle + half), "Wilson")


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Return the exact interval for a rate; the one to use for 0 of n and n of n.

    >>> clopper_pearson(0, 80).high
    0.04506...
    """
    if n == 0:
        return Interval(0.0, 1.0, "no data")
    tail = (1 - confidence) / 2
    low = stats.beta.ppf(tail, successes, n - successes + 1) if successes else 0.0
    high = stats.beta.ppf(1 - tail, successes + 1, n - successes) if successes < n else 1.0
    return Interval(float(low), float(high), "Clopper-Pearson")


def rule_of_three(n: int) -> float:
    """Return the highest rate that n observations without a single case still allow (95 %).

    >>> rule_of_three(100)
    0.03
    """
    return min(1.0, 3 / n) if n else 1.0


def mcnemar(higher: int, lower: int) -> float:
    """Return the exact two-sided p of two discordant counts.

    >>> mcnemar(8, 1)
    0.0390625
    """
    if higher + lower == 0:
        return 1.0
    return float(stats.binomtest(higher, higher + lower).pvalue)


def holm(ps: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p values, in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(ps)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = highest
    return adjusted


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """Return Benjamini and Hochberg's adjusted p values, in the order given."""
    return [float(p) for p in stats.false_discovery_control(ps)] if ps else []


def rate_interval(
    numerators: npt.ArrayLike, denominators: npt.ArrayLike, confidence: float = 0.95
) -> Interval:
    """Return the interval of sum(numerators) / sum(denominators), each with one entry a unit.

    0 of n and n of n: exact, with n the units. One observation a unit: Wilson. Else a BCa
    bootstrap over units.
    """
    top, below = _floats(numerators), _floats(denominators)
    top, below = top[below > 0], below[below > 0]
    k, n, units = round(top.sum()), round(below.sum()), len(below)
    if k in (0, n):
        return clopper_pearson(units if k and n else 0, units, confidence)
    if n == units:
        return wilson(k, n, confidence)
    found = _bootstrap((top, below), _ratio, (confidence,), ROUGH)
    return found[0] if found else wilson(round(units * k / n), units, confidence)


def _floats(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _ratio(top: Floats, below: Floats, axis: int = -1) -> Any:
    return top.sum(axis) / below.sum(axis)


def _sum(values: Floats, axis: int = -1) -> Any:
    return values.sum(axis)


def _mean(values: Floats, axis: int = -1) -> Any:
    return values.mean(axis)


def _bootstrap(
    data: tuple[Floats, ...],
    statistic: Callable[..., Any],
    levels: Sequence[float],
    resamples: int = QUICK,
) -> list[Interval]:
    """Return a BCa interval over units for each level; none where all units say the same."""
    each = statistic(*(values[:, np.newaxis] for values in data))
    if len(each) < 2 or np.ptp(each) == 0:
        return []
    if len(each) > LARGE:
        return _bootstrap_values(data, levels, resamples)
    found: list[Interval] = []
    drawn: Any = None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        for level in levels:
            drawn = stats.bootstrap(
                data,
                statistic,
                n_resamples=0 if drawn else resamples,
                bootstrap_result=drawn,
                paired=True,
                vectorized=True,
                batch=500,  # as many as a processor's cache holds: a third faster
                confidence_level=level,
                method="BCa",
                rng=np.random.default_rng(SEED),
            )
            ends = drawn.confidence_interval
            found.append(Interval(float(ends.low), float(ends.high), "BCa bootstrap over units"))
    return found if all(math.isfinite(i.low) and math.isfinite(i.high) for i in found) else []


def _bootstrap_values(
    data: tuple[Floats, ...], levels: Sequence[float], resamples: int
) -> list[Interval]:
    """Return what `_bootstrap` does, for many units: of values their mean, of two rows their ratio."""
    pairs = np.stack(data if len(data) == 2 else (data[0], np.ones_like(data[0])))
    values, counts = np.unique(pairs, axis=1, return_counts=True)
    drawn = _draw_ratios(values, counts, resamples)
    ends = [_bca_ends(values, counts, drawn, level) for level in levels]
    found = [Interval(*pair, "BCa bootstrap over units") for pair in ends]
    return found if np.isfinite(ends).all() else []


def _draw_ratios(values: Floats, counts: npt.NDArray[np.int64], resamples: int) -> Floats:
    """Resample the units, of which each pair of values has a count; return each sample's ratio."""
    rng, units = np.random.default_rng(SEED), int(counts.sum())
    few = _are_few(counts)
    every = values if few else np.repeat(values, counts, axis=1)
    batch = max(1, _CELLS // every.shape[1])
    found = []
    for done in range(0, resamples, batch):
        size = min(batch, resamples - done)
        if few:
            sums = every @ rng.multinomial(units, counts / units, size=size).T
        else:
            sums = every[:, rng.integers(units, size=(size, units))].sum(axis=2)
        found.append(sums[0] / sums[1])
    return np.concatenate(found)


_CELLS = 2_100_000
"""Numbers that are drawn at once: bounds the memory, and is 4,096 samples of `LARGE` units."""


def _are_few(counts: npt.NDArray[np.int64]) -> bool:
    """Say whether to draw how often each value comes up is less work than to draw every unit."""
    return 10 * len(counts) < int(counts.sum())


def _bca_ends(
    values: Floats, counts: npt.NDArray[np.int64], drawn: Floats, level: float
) -> tuple[float, float]:
    """Return the ends of a BCa interval for a ratio of sums, from resampled ratios.

    The formulas are those of `scipy.stats.bootstrap`, whose jackknife takes the square of the
    units; here it is over distinct values, each as often as it is there.
    """
    sums = values @ counts
    seen = sums[0] / sums[1]
    with np.errstate(all="ignore"):
        shift = special.ndtri(((drawn < seen).mean() + (drawn <= seen).mean()) / 2)
        left_out = (sums[0] - values[0]) / (sums[1] - values[1])
        pull = (left_out @ counts) / counts.sum() - left_out
        bend = (pull**3 @ counts) / (pull**2 @ counts) ** 1.5 / 6
        z = shift + special.ndtri([0.5 - level / 2, 0.5 + level / 2])
        places = special.ndtr(shift + z / (1 - bend * z))
    if not np.isfinite(places).all():
        return math.nan, math.nan
    low, high = np.percentile(drawn, 100 * places)
    return float(low), float(high)


def sign_flip(
    differences: npt.ArrayLike, resamples: int = RESAMPLES, side: Side = "two-sided"
) -> float:
    """Return the p of paired differences under flipped signs; `greater`: that they are above 0.

    Units without a difference are left out: flipping them changes nothing. The test is exact where
    `resamples` covers every way of flipping the rest.

    >>> sign_flip([1, 1, 1, 0, 1, 1, 1, 0])
    0.03125
    """
    moved = _floats(differences)
    moved = moved[moved != 0]
    if len(moved) < 2:
        return 1.0
    if len(moved) > LARGE:
        return _flip_values(moved, resamples, side)
    found = stats.permutation_test(
        (moved,),
        _mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=4096,
        alternative=side,
        rng=np.random.default_rng(SEED),
    )
    return float(found.pvalue)


def _flip_values(moved: Floats, resamples: int, side: Side) -> float:
    """Return what `sign_flip` does, for many units.

    Of the units that moved as far, a binomial number moves upwards under flipped signs.
    """
    sizes, kinds, counts = np.unique(np.abs(moved), return_inverse=True, return_counts=True)
    risen, few = np.bincount(kinds, moved > 0), _are_few(counts)
    if not few:
        sizes, counts, risen = np.abs(moved), np.ones(len(moved), int), (moved > 0).astype(int)
    rng = np.random.default_rng(SEED)

    def total(rising: Any) -> Any:
        return (2 * rising - counts) @ sizes

    def draw(*, size: tuple[int, ...]) -> Any:
        cells = (size[0], len(counts))
        drawn = rng.binomial(counts, 0.5, cells) if few else rng.integers(0, 2, cells, np.int8)
        return total(drawn)[:, np.newaxis]

    found = stats.monte_carlo_test(
        [float(total(risen))],
        draw,
        _sum,
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _CELLS // len(counts)),
        alternative=side,
    )
    return float(found.pvalue)


def paired_difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    resamples: int = RESAMPLES,
    *,
    reach: float = 1.0,
) -> Difference:
    """Compare two ways over the same units, one value a unit each; first minus second.

    `reach` is the largest difference that one unit can show: 1 for shares. Under `FEW` units, and
    where all units say the same, there are counts only, with the rule of three.
    """
    moved = _floats(first) - _floats(second)
    units, higher, lower = len(moved), int((moved > 0).sum()), int((moved < 0).sum())
    estimate = float(moved.mean()) if units else 0.0
    if units < FEW:
        note = f"{units} units, under {FEW}: counts only"
        if units > 3 and not higher and not lower:
            note += f"; {_still(units)} may differ"
        return Difference(estimate, units, higher, lower, note=note)
    if np.ptp(moved) < _SAME:
        note = f"no unit differs; {_still(units)} may"
        if estimate:
            note = (
                f"the same difference in every unit: counts only; {_still(units)} may show another"
            )
        bound = _bound(estimate, units, reach)
        return Difference(estimate, units, higher, lower, note=note, bound=bound)
    wide, narrow = _bootstrap((moved,), _mean, (0.95, 0.90)) or (None, None)
    p, spread = sign_flip(moved, resamples), float(moved.std(ddof=1))
    return Difference(estimate, units, higher, lower, wide, narrow, p, spread)


_SAME = 1e-12
"""Differences of means that are equal but for their last bits."""


def _still(units: int) -> str:
    return f"up to {rule_of_three(units) * 100:.1f} % of units still"


def _bound(estimate: float, units: int, reach: float) -> Interval:
    """Let as many units as the rule of three allows differ as much as they can."""
    share = rule_of_three(units)
    low, high = ((1 - share) * estimate + share * end for end in (-reach, reach))
    return Interval(low, high, "rule of three")


def interaction(
    first: tuple[npt.ArrayLike, npt.ArrayLike],
    second: tuple[npt.ArrayLike, npt.ArrayLike],
    resamples: int = RESAMPLES,
) -> Difference:
    """Compare two differences per unit: (a - b) at `first` minus (a - b) at `second`."""
    return paired_difference(
        _floats(first[0]) - _floats(first[1]),
        _floats(second[0]) - _floats(second[1]),
        resamples,
        reach=2.0,
    )


def omnibus(values: npt.ArrayLike, resamples: int = QUICK) -> float:
    """Return the p of "all ways are alike" for an array of units x ways.

    The ways are permuted within units; the statistic is the variance of their means.
    """
    table = _floats(values)
    rng = np.random.default_rng(SEED)
    seen = table.mean(axis=0).var()
    hits, batch = 0, max(1, 2_000_000 // max(table.size, 1))
    for done in range(0, resamples, batch):
        shuffled = np.broadcast_to(table, (min(batch, resamples - done), *table.shape))
        spread = rng.permuted(shuffled, axis=2).mean(axis=1).var(axis=1)
        hits += int((spread >= seen - 1e-12).sum())
    return (hits + 1) / (resamples + 1)


def pass_hat(successes: int, trials: int, k: int) -> float:
    """Return the unbiased estimate that k trials all succeed, from `successes` of `trials`.

    pass^1 is pass@1: the share of trials that succeed.

    >>> [pass_hat(3, 4, k) for k in (1, 2, 3, 4)]
    [0.75, 0.5, 0.25, 0.0]
    """
    return math.comb(successes, k) / math.comb(trials, k)


def kappa(first: Sequence[Any], second: Sequence[Any]) -> float:
    """Return Cohen's kappa of two judges' labels, in the same order; NaN if only one label."""
    labels = sorted(set(first) | set(second), key=str)
    n = len(first)
    agree = sum(a == b for a, b in zip(first, second, strict=True)) / n
    chance = sum(list(first).count(x) * list(second).count(x) for x in labels) / n**2
    return (agree - chance) / (1 - chance) if chance < 1 else math.nan


DISCORDANT, ALIKE = 0.36, 0.4
"""Before a run: the share of single observations in which two ways are taken to differ, and how
alike the observations of one unit are taken to be. What data really show is told after a run."""


def guess_spread(observations: float = 2) -> float:
    """Return a cautious guess of the standard deviation of the per-unit difference.

    `observations` of a unit and way: languages times trials. A run tells its own afterwards.

    >>> [round(guess_spread(n), 2) for n in (1, 2, 6)]
    [0.6, 0.5, 0.42]
    """
    return math.sqrt(DISCORDANT * (1 + (observations - 1) * ALIKE) / observations)


def smallest_detectable(
    units: int,
    spread: float = 0.5,
    confidence: float = 0.95,
    power: float = 0.8,
    comparisons: int = 1,
) -> float:
    """Return the smallest true difference that a run would find, with that power.

    `spread` is the standard deviation of the per-unit difference: before a run `guess_spread`,
    after it the data's own. `comparisons` that are adjusted together (Holm) make it larger, since
    the first of them must pass at the error's share. 1.0 at most.

    >>> round(smallest_detectable(80), 3)
    0.159
    >>> round(smallest_detectable(80, comparisons=3), 3)
    0.184
    """
    if units < FEW:
        return 1.0
    freedom, error = units - 1, (1 - confidence) / comparisons
    quantiles = stats.t.ppf(1 - error / 2, freedom) + stats.t.ppf(power, freedom)
    return min(1.0, float(quantiles) * spread / math.sqrt(units))


PLANNED = 3
"""Planned comparisons of two ways, adjusted together: success, parse failure, wrong pick."""


def foresee(units: int, observations: float = 2) -> float:
    """Return the smallest difference that is told before a run, rounded up to a whole point.

    The spread is guessed, and the error is the share that Holm's first step allows.

    >>> [foresee(units) for units in (40, 80, 120)]
    [0.27, 0.19, 0.15]
    """
    least = smallest_detectable(units, guess_spread(observations), comparisons=PLANNED)
    return math.ceil(100 * least) / 100


def judge(
    difference: Difference,
    p: float | None,
    *,
    higher_is_better: bool = True,
    margin: float = MARGIN,
) -> Word:
    """Say in a word what first minus second shows; `p` is the adjusted one.

    A surely different pair is better or worse however small the difference; one whose 90 %
    interval lies within the margin is equivalent; of all else there is not enough data. Where all
    units say the same, the rule of three stands for test and interval.
    """
    bound = difference.bound
    surely = p is not None and p < ALPHA if bound is None else bound.low * bound.high > 0
    narrow = bound or difference.narrow
    if surely:
        return "better" if (difference.estimate > 0) == higher_is_better else "worse"
    if narrow is not None and -margin < narrow.low and narrow.high < margin:
        return "equivalent"
    return "not enough data"


def judge_loss(difference: Difference, limit: float, p: float | None) -> LossWord:
    """Say whether first minus second is a loss of `limit` (a share) or more.

    `p` is one-sided: that the first is below the second. Shown: the estimate is that large, and
    surely a loss. Excluded: the lower end of the 90 % interval, so one-sided 95 %, is above it.
    """
    bound, narrow = difference.bound, difference.narrow
    surely = bound.high < 0 if bound is not None else p is not None and p < ALPHA
    if surely and difference.estimate <= -limit + _SAME:
        return "shown"
    least = bound or narrow
    return "excluded" if least is not None and least.low > -limit else "not enough data"
