"""What a description does, held against another on the same tasks: counts, differences, p values.

A pure function of a run's table: no model, no network, no files, no sentences. The unit is the pair
of languages of one question; two descriptions are compared on the tasks and trials that both have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from bench import stats, tables
from bench.tables import MEASURES as COMMON
from bench.tables import Measure, Rate

_ILL_FORMED = ("bad_arguments_syntax", "bad_arguments_shape", "schema_violation")
_SCOPES: tuple[tables.Scope, ...] = ("kept", "read")
_KNOWN = {measure.name: measure for measure in COMMON}

MEANS: tuple[Measure, ...] = (
    Measure(
        *("tokens", "tokens an episode", "tokens", "episodes", "kept", False),
        "prompt and completion tokens of all replies, corrections too, where the endpoint told them",
    ),
    Measure(
        *("first_prompt", "tokens of the first request", "first_prompt", "episodes", "kept", False),
        "what the question, the tools and the way's own rules take before anything is said",
    ),
)
"""Measures that are no shares: their differences are in tokens."""
MEASURES: tuple[Measure, ...] = (
    _KNOWN["success"],
    _KNOWN["wrong_pick"],
    _KNOWN["needless"],
    Measure(
        *("lured", "near misses called", "lured", "near_miss", "kept", False),
        "tasks that only look as if a tool could do them, in which a forbidden tool was called",
    ),
    _KNOWN["missed"],
    _KNOWN["invented"],
    Measure(
        *("ill_formed", "ill-formed arguments", "ill_formed", "tried", "kept", False),
        "tries whose arguments can't be read, or that the tool's schema refuses",
    ),
    Measure(
        *("wrong_arguments", "wrong arguments", "unacceptable", "right_tool", "kept", False),
        "readable calls to a right tool with a value that is invented, wrong or missing",
    ),
    _KNOWN["parse_failure"],
    *MEANS,
)
"""What is measured of every description."""
PLANNED = ("success", "wrong_pick")
"""The measures that were planned to be compared; all others are exploratory."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One description against the base, for one way and one measure, on the tasks of both."""

    endpoint: str
    way: str
    """The driver's label, such as `react` or `native@rescue`."""
    variant: str
    measure: Measure
    group: str
    """All tasks (""), or one category."""
    base: Rate
    told: Rate
    """With the variant."""
    difference: stats.Difference
    """Variant minus base."""
    planned: bool
    p: float | None = None
    """Adjusted: Holm over the variants of a way where planned, else Benjamini and Hochberg."""

    @property
    def word(self) -> stats.Word:
        """Say in a word what the variant does, held against the base."""
        better = self.measure.higher_is_better
        if self.measure in MEANS and not (self.p is not None and self.p < stats.ALPHA):
            return "not enough data"  # the margin of equivalence is one of shares
        return stats.judge(self.difference, self.p, higher_is_better=better)


@dataclass(frozen=True, slots=True)
class Interaction:
    """Whether a description does more to one way than to another: the difference of differences."""

    endpoint: str
    first: str
    second: str
    variant: str
    measure: Measure
    effects: tuple[float, float]
    """Variant minus base for the first way and for the second, over the units of all four arms."""
    difference: stats.Difference
    """The first way's effect minus the second's."""
    p: float | None = None
    """Adjusted after Benjamini and Hochberg."""

    @property
    def differs(self) -> stats.Word:
        """`better` or `worse`: the first way comes off so, surely; else what `judge` says."""
        return stats.judge(self.difference, self.p, higher_is_better=self.measure.higher_is_better)


@dataclass(frozen=True, slots=True)
class Overall:
    """Whether the descriptions differ at all: one test over all of them, permuted within units."""

    endpoint: str
    way: str
    measure: Measure
    variants: tuple[str, ...]
    """The base among them."""
    units: int
    p: float | None
    """None with fewer units than any interval is told of."""


# ---------------------------------------------------------------- the table


def widen(frame: Any) -> Any:
    """Return an episode table with the counts that are only divided here, and a column `way`."""
    arms = zip(frame["arm"], frame["variant"], strict=True)
    first, later = frame["first_failures"], frame["corrected_failures"]
    ill = [_ill_formed(one) + _ill_formed(two) for one, two in zip(first, later, strict=True)]
    near = frame["category"] == "near_miss"
    return frame.assign(
        way=[arm.removesuffix(f" · {variant}") for arm, variant in arms],
        ill_formed=ill,
        tried=frame["readable"] + ill,
        unacceptable=frame["right_tool"] - frame["acceptable"],
        near_miss=near.astype(int),
        lured=(near & (frame["forbidden"] > 0)).astype(int),
        tokens=frame["prompt"].astype(float) + frame["completion"].astype(float),
        first_prompt=frame["first_prompt"].astype(float),
    )


def _ill_formed(kinds: Mapping[str, int]) -> int:
    return sum(kinds.get(kind, 0) for kind in _ILL_FORMED)


Arms = Mapping[tuple[str, str, str], Any]
"""The rows of each (endpoint, way, variant)."""


def split(frame: Any, order: Sequence[str]) -> dict[tuple[str, str, str], Any]:
    """Return the rows of each endpoint, way and variant: ReAct first, variants in their order."""
    groups = {
        (str(key[0]), str(key[1]), str(key[2])): rows
        for key, rows in frame.groupby(["endpoint", "way", "variant"], sort=False)
    }
    place = {name: at for at, name in enumerate(order)}

    def rank(key: tuple[str, str, str]) -> tuple[Any, ...]:
        endpoint, way, variant = key
        return (endpoint, not way.startswith("react"), way, place.get(variant, len(place)))

    return {key: groups[key] for key in sorted(groups, key=rank)}


_COLUMNS = tuple(
    dict.fromkeys(
        name
        for names in (
            ("task_id", "trial", "pair", "category", "read", "kept"),
            *((measure.top, measure.below) for measure in MEASURES),
        )
        for name in names
    )
)


def share_tasks(every: Sequence[Any], scope: tables.Scope) -> list[Any]:
    """Return each arm's rows on the tasks and trials that all of them have whole."""
    keyed = [rows[list(_COLUMNS)].set_index(["task_id", "trial"], drop=False) for rows in every]
    shared = keyed[0].index
    for rows in keyed[1:]:
        shared = shared.intersection(rows.index)
    keyed = [rows.loc[shared].rename_axis([None, None]) for rows in keyed]
    return _keep_all(keyed, [rows[scope] for rows in keyed], scope)


def _keep_all(every: Sequence[Any], flags: Sequence[Any], scope: tables.Scope) -> list[Any]:
    """Return the rows with a flag that holds where all of these hold."""
    whole = flags[0]
    for flag in flags[1:]:
        whole = whole & flag
    return [rows.assign(**{scope: whole.astype(bool)}) for rows in every]


def _keep_metered(every: Sequence[Any], measure: Measure) -> list[Any]:
    """Return the rows with those kept whose tokens were told in all arms."""
    flags = [rows[measure.scope] & rows[measure.top].notna() for rows in every]
    return _keep_all(every, flags, measure.scope)


def _rate(rows: Any, measure: Measure) -> Rate:
    if measure not in MEANS:
        return tables.rate(rows, measure)
    counted = tables.scope(rows, measure.scope)
    top = round(float(counted[measure.top].sum()))
    return Rate(top, len(counted), int(counted["pair"].nunique()), None)


# ---------------------------------------------------------------- effects


def find_effects(
    arms: Arms,
    base: str,
    *,
    measures: Sequence[Measure] = MEASURES,
    planned: Sequence[str] = PLANNED,
    groups: Sequence[str] = (),
    resamples: int = stats.QUICK,
    together: bool = False,
) -> list[Effect]:
    """Hold every variant against the base, for each endpoint, way and measure.

    `groups` are categories in which success is counted besides. Planned p values are adjusted
    after Holm over the variants of one endpoint, way and measure (`together`: over all of an
    endpoint's); the rest after Benjamini and Hochberg over an endpoint.
    """
    found: list[Effect] = []
    for (endpoint, way, variant), rows in arms.items():
        against = arms.get((endpoint, way, base))
        if variant == base or against is None:
            continue
        shared = {scope: share_tasks([against, rows], scope) for scope in _SCOPES}
        for measure in measures:
            whole = shared[measure.scope]
            whole = _keep_metered(whole, measure) if measure in MEANS else whole
            effect = _effect(endpoint, way, variant, measure, whole, resamples)
            found.append(replace(effect, planned=measure.name in planned))
        found += _in_groups(endpoint, way, variant, shared[MEASURES[0].scope], groups)
    return _adjust(found, together=together)


def _effect(
    endpoint: str, way: str, variant: str, measure: Measure, every: Sequence[Any], resamples: int
) -> Effect:
    base, told = every
    difference = tables.compare(told, base, measure, resamples)
    rates = _rate(base, measure), _rate(told, measure)
    return Effect(endpoint, way, variant, measure, "", *rates, difference, planned=False)


def _in_groups(
    endpoint: str, way: str, variant: str, every: Sequence[Any], groups: Sequence[str]
) -> Iterable[Effect]:
    success = MEASURES[0]
    for group in groups:
        part = [rows[rows["category"] == group] for rows in every]
        if len(part[0]):
            rates = _rate(part[0], success), _rate(part[1], success)
            counted = _count(part[1], part[0], success)
            yield Effect(endpoint, way, variant, success, group, *rates, counted, planned=False)


def _count(told: Any, base: Any, measure: Measure) -> stats.Difference:
    """Compare a part of the tasks by counts alone: no part was planned, and most are small."""
    units = tables.paired_units([told, base], measure)
    moved = units[0] - units[1]
    higher, lower = int((moved > 0).sum()), int((moved < 0).sum())
    return stats.Difference(_mean(moved), len(units), higher, lower, note="counts only")


def _adjust(found: Sequence[Effect], *, together: bool) -> list[Effect]:
    families: dict[tuple[str, ...], list[int]] = {}
    for at, effect in enumerate(found):
        if effect.difference.p is not None:
            named = ("planned",) if together else (effect.way, effect.measure.name)
            own = named if effect.planned else ()
            families.setdefault((effect.endpoint, *own), []).append(at)
    adjusted: dict[int, float] = {}
    for family, places in families.items():
        adjust = stats.holm if len(family) > 1 else stats.benjamini_hochberg
        ps = [p for at in places if (p := found[at].difference.p) is not None]
        adjusted |= dict(zip(places, adjust(ps), strict=True))
    return [replace(effect, p=adjusted.get(at)) for at, effect in enumerate(found)]


# ---------------------------------------------------------------- the two ways together


def find_interactions(
    arms: Arms, base: str, measures: Sequence[Measure] = MEASURES[:2]
) -> list[Interaction]:
    """Compare what a variant does to ReAct with what it does to native, per unit."""
    found: list[Interaction] = []
    for endpoint in dict.fromkeys(key[0] for key in arms):
        own: list[Interaction] = []
        ways = list(dict.fromkeys(key[1] for key in arms if key[0] == endpoint))
        for first, second in combinations(ways, 2):
            own += _interactions(arms, endpoint, first, second, base, measures)
        found += _adjust_interactions(own)
    return found


def _interactions(
    arms: Arms, endpoint: str, first: str, second: str, base: str, measures: Sequence[Measure]
) -> Iterable[Interaction]:
    for variant in dict.fromkeys(key[2] for key in arms if key[:2] == (endpoint, first)):
        keys = [(endpoint, way, v) for way in (first, second) for v in (variant, base)]
        if variant == base or not all(key in arms for key in keys):
            continue
        if not _is_main(arms[keys[0]], arms[keys[2]]):
            continue
        for measure in measures:
            rows = share_tasks([arms[key] for key in keys], measure.scope)
            yield _interaction(endpoint, (first, second), variant, measure, rows)


def _is_main(left: Any, right: Any) -> bool:
    """Say whether this is the question: ReAct against native, read at the same level."""
    one, two = left.iloc[0], right.iloc[0]
    return bool(one["driver"] != two["driver"] and one["level"] == two["level"])


def _interaction(
    endpoint: str, ways: tuple[str, str], variant: str, measure: Measure, rows: Sequence[Any]
) -> Interaction:
    units = tables.paired_units(rows, measure)
    a, b, c, d = (units[at].to_numpy() for at in range(4))
    difference = stats.interaction((a, b), (c, d), stats.QUICK)
    effects = (_mean(a - b), _mean(c - d))
    return Interaction(endpoint, *ways, variant, measure, effects, difference)


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else 0.0


def _adjust_interactions(found: Sequence[Interaction]) -> list[Interaction]:
    known = [at for at, one in enumerate(found) if one.difference.p is not None]
    ps = [p for at in known if (p := found[at].difference.p) is not None]
    adjusted = dict(zip(known, stats.benjamini_hochberg(ps), strict=True))
    return [replace(one, p=adjusted.get(at)) for at, one in enumerate(found)]


def find_overall(
    arms: Arms, base: str, measures: Sequence[Measure] = MEASURES[:2]
) -> list[Overall]:
    """Test for each way whether the variants that were asked as much as the base differ at all."""
    found = []
    for endpoint, way in dict.fromkeys(key[:2] for key in arms):
        own = {key[2]: rows for key, rows in arms.items() if key[:2] == (endpoint, way)}
        most = len(own.get(base, ()))
        own = {variant: rows for variant, rows in own.items() if len(rows) == most}
        if len(own) > 2:
            found += [_overall(endpoint, way, own, measure) for measure in measures]
    return found


def _overall(endpoint: str, way: str, own: Mapping[str, Any], measure: Measure) -> Overall:
    units = tables.paired_units(share_tasks(list(own.values()), measure.scope), measure)
    p = stats.omnibus(units.to_numpy()) if len(units) >= stats.FEW else None
    return Overall(endpoint, way, measure, tuple(own), len(units), p)
