"""Say in sentences what descriptions do. Pure functions of `bench.lab.effects`; no layout."""

from collections.abc import Iterable, Sequence

from bench import stats
from bench.findings import explain_note, name_way, percent, points, probability
from bench.lab.effects import MEANS, Effect, Interaction, Overall
from bench.texts import mark, say

_ENDS = {
    "better": mark("{n} surely better ({named})"),
    "worse": mark("{n} surely worse ({named})"),
    "equivalent": mark("{n} equal ({named})"),
}


def headline(endpoint: str, effects: Iterable[Effect], base: str) -> str:
    """Answer for one endpoint: which descriptions change task success, and with which way."""
    own = [
        effect
        for effect in effects
        if effect.endpoint == endpoint and effect.measure.name == "success" and not effect.group
    ]
    ways = list(dict.fromkeys(effect.way for effect in own))
    if not ways:
        text = mark("{where}: no description was held against {base}.")
        return say(text, where=endpoint, base=base)
    told = say("; ").join(_count_words(way, [e for e in own if e.way == way]) for way in ways)
    text = mark("{where}, task success against {base}: {told}.")
    return say(text, where=endpoint, base=base, told=told)


def _count_words(way: str, effects: Sequence[Effect]) -> str:
    parts = []
    for word, told in _ENDS.items():
        found = [effect for effect in effects if effect.word == word]
        if found:
            named = (f'"{e.variant}" {points(e.difference.estimate)}' for e in found)
            parts.append(say(told, n=len(found), named=say(", ").join(named)))
    rest = sum(effect.word == "not enough data" for effect in effects)
    if rest:
        parts.append(say("of {n} there is not enough data", n=rest))
    return say(
        "with {way}, of {n} descriptions {told}",
        way=name_way(way),
        n=len(effects),
        told=say(", ").join(parts),
    )


def tell_overall(overall: Overall) -> str:
    """Say whether the descriptions differ at all."""
    told = {
        "where": overall.endpoint,
        "way": name_way(overall.way),
        "measure": say(overall.measure.label),
        "many": len(overall.variants),
        "units": overall.units,
    }
    if overall.p is None:
        return say(
            "{where}, {way}, {measure}: {units} units are in {many} descriptions, too few for a test.",
            **told,
        )
    told |= {"names": ", ".join(overall.variants), "p": probability(overall.p)}
    if overall.p < stats.ALPHA:
        return say(
            "{where}, {way}, {measure}: the {many} descriptions of all tasks ({names}) differ as a "
            "whole (p {p}, permuted within {units} units).",
            **told,
        )
    return say(
        "{where}, {way}, {measure}: the {many} descriptions of all tasks ({names}) are not shown to "
        "differ as a whole (p {p}, permuted within {units} units).",
        **told,
    )


def tell_interaction(one: Interaction) -> str:
    """Say what a description does to each way, and whether that differs."""
    return say(
        '{where}, {measure}: {first} {one} from "{variant}", {second} {two}. {told}',
        where=one.endpoint,
        measure=say(one.measure.label),
        variant=one.variant,
        first=name_way(one.first),
        one=_moves(one, 0),
        second=name_way(one.second),
        two=_moves(one, 1),
        told=_tell_difference(one),
    )


def _moves(one: Interaction, at: int) -> str:
    value = one.effects[at] * 100
    moved = f"{abs(value):.1f}"
    if abs(value) < 0.05:
        return say("changes by 0.0 points")
    if one.measure.name == "success":
        text = mark("gains {points} points") if value > 0 else mark("loses {points} points")
        return say(text, points=moved)
    text = mark("has {points} points more") if value > 0 else mark("has {points} points less")
    return say(text, points=moved)


def _tell_difference(one: Interaction) -> str:
    shown = say(
        "the difference of differences is {estimate} points{interval} over {units} units",
        estimate=points(one.difference.estimate),
        interval=_interval(one),
        units=one.difference.units,
    )
    match one.differs:
        case "better" | "worse" as word:
            pair = (one.second, one.first) if word == "better" else (one.first, one.second)
            other, ahead = map(name_way, pair)
            text = mark("{other} comes off worse than {ahead}: {shown}, p {p}.")
            return say(text, other=other, ahead=ahead, shown=shown, p=probability(one.p))
        case "equivalent":
            text = mark("Both ways alike, within {margin} points: {shown}.")
            return say(text, margin=f"{stats.MARGIN * 100:g}", shown=shown)
        case "not enough data":
            note = explain_note(one.difference)
            why = say("; ") + note if note else say(", p {p}", p=probability(one.p))
            text = mark("Not enough data to say that the ways differ in this: {shown}{why}.")
            return say(text, shown=shown, why=why)


def _interval(one: Interaction) -> str:
    found = one.difference.interval
    if found is None:
        return ""
    return say(" ({low} to {high})", low=points(found.low), high=points(found.high))


def surely(effect: Effect, base: str) -> str:
    """Say in a few words what one effect shows, for a table's cell."""
    kind = say("planned") if effect.planned else say("exploratory")
    p = probability(effect.p)
    match effect.word:
        case "better":
            return say("better than {base} (p {p}, {kind})", base=base, p=p, kind=kind)
        case "worse":
            return say("worse than {base} (p {p}, {kind})", base=base, p=p, kind=kind)
        case "equivalent":
            margin = f"{stats.MARGIN * 100:g}"
            return say("equal within {margin} points ({kind})", margin=margin, kind=kind)
        case "not enough data":
            reason = explain_note(effect.difference) or say("p {p}, {kind}", p=p, kind=kind)
            return say("not enough data ({reason})", reason=reason)


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
