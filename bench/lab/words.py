"""Say in sentences what descriptions do. Pure functions of `bench.lab.effects`; no layout."""

from collections.abc import Iterable, Sequence

from bench import stats
from bench.findings import name_way, percent, points, probability
from bench.lab.effects import MEANS, Effect, Interaction, Overall

_ENDS = {"better": "surely better", "worse": "surely worse", "equivalent": "equal"}


def headline(endpoint: str, effects: Iterable[Effect], base: str) -> str:
    """Answer for one endpoint: which descriptions change task success, and with which way."""
    own = [
        effect
        for effect in effects
        if effect.endpoint == endpoint and effect.measure.name == "success" and not effect.group
    ]
    ways = list(dict.fromkeys(effect.way for effect in own))
    if not ways:
        return f"{endpoint}: no description was held against {base}."
    told = "; ".join(_count_words(way, [e for e in own if e.way == way]) for way in ways)
    return f"{endpoint}, task success against {base}: {told}."


def _count_words(way: str, effects: Sequence[Effect]) -> str:
    parts = []
    for word, told in _ENDS.items():
        found = [effect for effect in effects if effect.word == word]
        if found:
            named = ", ".join(f'"{e.variant}" {points(e.difference.estimate)}' for e in found)
            parts.append(f"{len(found)} {told} ({named})")
    rest = sum(effect.word == "not enough data" for effect in effects)
    if rest:
        parts.append(f"of {rest} there is not enough data")
    return f"with {name_way(way)}, of {len(effects)} descriptions {', '.join(parts)}"


def tell_overall(overall: Overall) -> str:
    """Say whether the descriptions differ at all."""
    way, many = name_way(overall.way), len(overall.variants)
    start = f"{overall.endpoint}, {way}, {overall.measure.label}"
    if overall.p is None:
        return f"{start}: {overall.units} units are in {many} descriptions, too few for a test."
    sure = "differ" if overall.p < stats.ALPHA else "are not shown to differ"
    return (
        f"{start}: the {many} descriptions of all tasks ({', '.join(overall.variants)}) {sure} as a "
        f"whole (p {probability(overall.p)}, permuted within {overall.units} units)."
    )


def tell_interaction(one: Interaction) -> str:
    """Say what a description does to each way, and whether that differs."""
    first, second = name_way(one.first), name_way(one.second)
    moved = f'{first} {_moves(one, 0)} from "{one.variant}", {second} {_moves(one, 1)}'
    return f"{one.endpoint}, {one.measure.label}: {moved}. {_tell_difference(one)}"


def _moves(one: Interaction, at: int) -> str:
    value = one.effects[at] * 100
    if abs(value) < 0.05:
        return "changes by 0.0 points"
    if one.measure.name == "success":
        return f"{'gains' if value > 0 else 'loses'} {abs(value):.1f} points"
    return f"has {abs(value):.1f} points {'more' if value > 0 else 'less'}"


def _tell_difference(one: Interaction) -> str:
    difference, ahead = one.difference, {"better": one.first, "worse": one.second}
    shown = (
        f"the difference of differences is {points(difference.estimate)} points{_interval(one)} "
        f"over {difference.units} units"
    )
    match one.differs:
        case "better" | "worse" as word:
            other = one.second if word == "better" else one.first
            return (
                f"{name_way(other)} comes off worse than {name_way(ahead[word])}: {shown}, "
                f"p {probability(one.p)}."
            )
        case "equivalent":
            return f"Both ways alike, within {stats.MARGIN * 100:g} points: {shown}."
        case "not enough data":
            why = f"; {difference.note}" if difference.note else f", p {probability(one.p)}"
            return f"Not enough data to say that the ways differ in this: {shown}{why}."


def _interval(one: Interaction) -> str:
    found = one.difference.interval
    return "" if found is None else f" ({points(found.low)} to {points(found.high)})"


def surely(effect: Effect, base: str) -> str:
    """Say in a few words what one effect shows, for a table's cell."""
    kind = "planned" if effect.planned else "exploratory"
    match effect.word:
        case "better" | "worse" as word:
            return f"{word} than {base} (p {probability(effect.p)}, {kind})"
        case "equivalent":
            return f"equal within {stats.MARGIN * 100:g} points ({kind})"
        case "not enough data":
            reason = effect.difference.note or f"p {probability(effect.p)}, {kind}"
            return f"not enough data ({reason})"


def amount(effect: Effect, value: float) -> str:
    """Write a difference in the measure's own unit: points, or tokens."""
    if effect.measure in MEANS:
        return f"{value:+,.0f}".replace("-", "−")
    return points(value)


def level(effect: Effect, *, told: bool) -> str:
    """Write the rate or mean of the variant (`told`) or of the base."""
    rate = effect.told if told else effect.base
    if rate.value is None:
        return "–"
    return f"{rate.value:,.0f}" if effect.measure in MEANS else percent(rate.value)
