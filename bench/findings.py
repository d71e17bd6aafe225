"""Say in sentences what a run's tables show: which way is better, how sure, why, and what not.

Pure functions of `bench.tables`. Sentences only: no layout, no files, no model. A sentence is made
where the numbers bear it, and left out where they don't.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import stats
from bench.tables import Arm, Comparison, Completion, Cost, LevelRates, Rate
from bench.texts import mark, retell, say

OUT = "out_of_channel_call"

KINDS: Mapping[str, str] = {
    "endpoint_error": "the endpoint gave no answer",
    "rate_limited": "the endpoint asked to wait",
    "request_rejected": "the endpoint refused the request",
    "context_overflow": "the prompt outgrew the model",
    "bad_envelope": "an answer without a completion in it",
    "stream_interrupted": "a stream that broke off",
    "refused_or_filtered": "marked by the endpoint as refused or filtered",
    "server_rejected_output": "the server could not parse the model's move",
    "truncated_output": "cut off before the move was complete",
    "out_of_channel_call": "a call to an offered tool, written in the wrong place",
    "choice_violation": "more calls, or another call, than the request allowed",
    "missing_tool_name": "an action without a tool's name",
    "unknown_tool": "a tool that was not offered",
    "ambiguous_calls": "several readings, none of them safe",
    "bad_arguments_syntax": "arguments that can't be read",
    "bad_arguments_shape": "arguments that are no object",
    "schema_violation": "arguments that the tool's schema refuses",
    "no_move": "text without an action and without an answer",
    "empty_turn": "neither a call nor text",
}
"""What each kind of failure means, for people."""

STOPS: Mapping[str, str] = {
    "answered": "a final answer",
    "malformed": "unreadable after the last correction",
    "refused": "refused or filtered",
    "context_overflow": "prompt too long",
    "step_limit": "step budget used up",
    "no_progress": "the same call three times in a row",
    "endpoint": "the endpoint failed",
    "left_recording": "a request that the recording does not hold",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is said about one endpoint rests on these."""

    endpoint: str
    models: tuple[str, ...]
    measures: Mapping[Arm, Mapping[str, Rate]]
    levels: Mapping[Arm, Mapping[str, LevelRates]]
    kinds: Mapping[Arm, Mapping[str, int]]
    costs: Mapping[Arm, Cost]
    comparisons: Sequence[Comparison]
    completion: Completion

    @property
    def arms(self) -> tuple[str, ...]:
        """The ways that were run here."""
        return tuple(arm for _, arm in self.measures)

    def rate(self, arm: str, measure: str) -> Rate:
        """Return one measure of one way."""
        return self.measures[self.endpoint, arm][measure]

    @property
    def main(self) -> Comparison | None:
        """ReAct against native in task success, at the level that both were run."""
        planned = (c for c in self.comparisons if c.planned and c.measure.name == "success")
        return next(planned, None)


def name_way(arm: str) -> str:
    """Write an arm's label for people: `react/call` is ReAct/call."""
    return arm.replace("react", "ReAct", 1)


def percent(value: float | None, digits: int = 1) -> str:
    """Write a share, such as 43.4 %."""
    return "–" if value is None else f"{value * 100:.{digits}f}\u00a0%"


def points(value: float) -> str:
    """Write a difference of shares in points, with its sign."""
    return f"{value * 100:+.1f}".replace("-", "−")


def probability(p: float | None) -> str:
    """Write a p value."""
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def minus(first: str, second: str) -> str:
    """Name a difference of two ways."""
    return say("{first} minus {second}", first=name_way(first), second=name_way(second))


def headline(facts: Facts) -> str:
    """Answer the question for one endpoint in one sentence."""
    main = facts.main
    models = ", ".join(facts.models)
    where = facts.endpoint if models == facts.endpoint else f"{facts.endpoint} ({models})"
    if main is None:
        told = say("; ").join(_solved(facts, arm) for arm in facts.arms)
        return say("{where}: {told}. There is nothing to compare here.", where=where, told=told)
    first, second = name_way(main.first), name_way(main.second)
    return say(
        "{where}: {verdict}. {first} solves {one} of the tasks, {second} {two}.",
        where=where,
        verdict=_verdict(main, first, second),
        first=first,
        one=percent(facts.rate(main.first, "success").value),
        second=second,
        two=percent(facts.rate(main.second, "success").value),
    )


def _verdict(main: Comparison, first: str, second: str) -> str:
    match stats.judge(main.difference, main.p):
        case "better":
            return say("{way} works better", way=first)
        case "worse":
            return say("{way} works better", way=second)
        case "equivalent":
            margin = f"{stats.MARGIN * 100:g}"
            return say("both ways work equally well, within {margin} points", margin=margin)
        case "not enough data":
            return say("not enough data to say which way works better")


def _solved(facts: Facts, arm: str) -> str:
    rate = facts.rate(arm, "success")
    value = percent(rate.value)
    return say("{way} solves {value} of {n} tasks", way=name_way(arm), value=value, n=rate.below)


def how_sure(facts: Facts) -> str:
    """Say how large the main difference is and how sure."""
    main = facts.main
    if main is None:
        return ""
    d, names = main.difference, minus(main.first, main.second)
    counts = say(
        "{first} did better in {higher} of {units} units, {second} in {lower}",
        first=name_way(main.first),
        second=name_way(main.second),
        higher=d.higher,
        lower=d.lower,
        units=d.units,
    )
    if d.interval is None or main.p is None:
        told = mark("{names} is {estimate} points. {counts}. No interval: {note}.")
        return say(
            told, names=names, estimate=points(d.estimate), counts=counts, note=explain_note(d)
        )
    exact = ""
    if main.mcnemar is not None:
        exact = say(", exact McNemar p {p}", p=probability(main.mcnemar))
    return say(
        "{names} is {estimate} points; the 95 % interval goes from {low} to {high}; p {p} "
        "(sign-flip permutation{exact}), after Holm {adjusted}. {counts}. A unit is one question "
        "in both languages.",
        names=names,
        estimate=points(d.estimate),
        low=points(d.interval.low),
        high=points(d.interval.high),
        p=probability(d.p),
        exact=exact,
        adjusted=probability(main.p),
        counts=counts,
    )


_NOTES = (
    mark("{n} units, under {few}: counts only"),
    mark("no unit differs"),
    mark("the same difference in every unit: counts only"),
    mark("up to {share} % of units still may"),
    mark("up to {share} % of units still may differ"),
    mark("up to {share} % of units still may show another"),
)
"""The forms of `stats.Difference.note`, between semicolons; any other stays as it is."""


def explain_note(d: stats.Difference) -> str:
    """Say why a difference has no interval."""
    return say("; ").join(retell(part, _NOTES) for part in d.note.split("; ")) if d.note else ""


_RUN_NOTES = (
    mark(
        "SCRIPTED: no model was asked. Every reply was written by hand, in {path}; the figures show "
        "how the workbench works, and nothing about any model."
    ),
    mark(
        "{n} of {total} tasks name no expected arguments: there any arguments count as acceptable, so "
        "success and argument accuracy say less."
    ),
    mark("Only a part of the tasks: the first pair of every category, then the second, and so on."),
    mark("The recording of {name} holds {n} tasks; only recorded ones are replayed."),
    mark("Seconds of {name}: {told}."),
    mark("{name} takes no {options}: not sent ({way})."),
    mark("Stop words sent to {name}: {told}."),
    mark("Begun with version {begun}, gone on with version {since}."),
    mark(
        "Rescored: the replies are those of {name}, begun {started}; readings and scores were made "
        "again by version {version}, and no model was asked. {changed} of {n} readings are others than "
        "before; {left} episodes end early, since today something else would have been said to the "
        "model."
    ),
    mark(
        "Rescored: the replies are those of {name}, begun {started}; readings and scores were made "
        "again by version {version}, and no model was asked. {changed} of {n} readings are others than "
        "before; {left} episodes end early, since today something else would have been said to the "
        "model. Judged by today's files, which changed since: {files}."
    ),
)
"""The forms of the notes that a manifest holds; any other stays as it is."""
_LONGEST_NOTE = 2_000


def tell_note(note: str) -> str:
    """Say what a run's manifest notes of how it was made."""
    return note if len(note) > _LONGEST_NOTE else retell(note, _RUN_NOTES)


def others(facts: Facts) -> str:
    """Say what the ways that are not in the main comparison solved."""
    main = facts.main
    rest = [arm for arm in facts.arms if main and arm not in (main.first, main.second)]
    told = say("; ").join(_solved(facts, arm) for arm in rest)
    return say("Also run: {told}.", told=told) if rest else ""


def why(facts: Facts) -> list[str]:
    """Take the main difference apart: format or choice, from the same first replies."""
    main = facts.main
    if main is None:
        return []
    return [text for text in (_gap(facts, main), *explain_levels(facts)) if text]


def level_gaps(facts: Facts) -> dict[str, float]:
    """Return by level how far the main comparison's first way is ahead in right first moves."""
    main = facts.main
    if main is None:
        return {}
    first = facts.levels.get((facts.endpoint, main.first))
    second = facts.levels.get((facts.endpoint, main.second))
    if first is None or second is None:
        return {}
    return {
        level: (first[level].right.value or 0) - (second[level].right.value or 0)
        for level in ("strict", "hardened", "rescue")
    }


def _gap(facts: Facts, main: Comparison) -> str:
    gaps = level_gaps(facts)
    if not gaps:
        return ""
    text = say(
        "Why: in right first moves {names} is {strict} points read strictly, {hardened} hardened "
        "and {rescue} at rescue, all from the same replies.",
        names=minus(main.first, main.second),
        **{level: points(gap) for level, gap in gaps.items()},
    )
    return text + say(" ") + _format_or_choice(gaps, main)


def _format_or_choice(gaps: Mapping[str, float], main: Comparison) -> str:
    run, rescued = gaps["hardened"], gaps["rescue"]
    if abs(run) < 0.03 and abs(rescued) < 0.03:
        return say("So the first moves are about as good both ways.")
    ahead = name_way(main.first if rescued > 0 else main.second)
    if abs(rescued) < 0.03:
        return say(
            "Once every call is read, wherever it stands, the gap is gone: it is format, not choice."
        )
    if run * rescued < 0:
        return say(
            "Once every call is read, wherever it stands, the sign turns: {ahead} chooses better, "
            "and loses by the form of its calls.",
            ahead=ahead,
        )
    if abs(run - rescued) < 0.03:
        return say("How much is mended changes little: {ahead} chooses better.", ahead=ahead)
    share = f"{abs(run - rescued) * 100:.1f}"
    if abs(rescued) < abs(run):
        return say(
            "{share} points of the gap are format (calls that only rescue reads); the rest is "
            "choice, where {ahead} is ahead.",
            share=share,
            ahead=ahead,
        )
    return say(
        "Format hides {share} points of it: {ahead} chooses better than its replies let show.",
        share=share,
        ahead=ahead,
    )


def explain_levels(facts: Facts) -> list[str]:
    """Say for each way what the reading level changes, where it changes something."""
    return [
        text
        for (_, arm), levels in facts.levels.items()
        for text in (_out_of_channel(facts, arm, levels), _mended(arm, levels))
        if text
    ]


def _out_of_channel(facts: Facts, arm: str, levels: Mapping[str, LevelRates]) -> str:
    """Explain calls that the server left in the text, where they are most of the failures."""
    kinds = facts.kinds.get((facts.endpoint, arm), {})
    total, out = sum(kinds.values()), kinds.get(OUT, 0)
    if not out or out * 2 < total:
        return ""
    parts = [
        say(
            "{way}: {out} of {total} parse failures are {kind}: the reply holds a call to an "
            "offered tool, but in the wrong place.",
            way=name_way(arm),
            out=out,
            total=total,
            kind=OUT,
        )
    ]
    if arm.startswith("native"):
        parts.append(
            say(
                "The model did ask for a tool; its call arrived as text in content and not in "
                "tool_calls. That is decided by the server's chat template and its tool-call "
                "parser, so try another template or parser before you judge the model."
            )
        )
    parts.append(
        say(
            "Read at rescue, where such calls count, {rescue} of the first replies are a right "
            "move; hardened reads {hardened}.",
            rescue=percent(levels["rescue"].right.value),
            hardened=percent(levels["hardened"].right.value),
        )
    )
    return say(" ").join(parts)


def _mended(arm: str, levels: Mapping[str, LevelRates]) -> str:
    strict, hardened = levels["strict"].unreadable.value, levels["hardened"].unreadable.value
    if strict is None or hardened is None or strict - hardened < 0.02:
        return ""
    return say(
        "{way}: a reader that mends nothing can't read {strict} of the first replies, the hardened "
        "one can't read {hardened}. The difference is form that has only one reading, so it says "
        "nothing about choice.",
        way=name_way(arm),
        strict=percent(strict),
        hardened=percent(hardened),
    )


def cost_sentence(facts: Facts) -> str:
    """Compare the cost of the two ways in one sentence."""
    main = facts.main
    if main is None:
        return ""
    one = facts.costs.get((facts.endpoint, main.first))
    two = facts.costs.get((facts.endpoint, main.second))
    if one is None or two is None:
        return ""
    return say(
        "Cost of a task: {first} {one}; {second} {two}.",
        first=name_way(main.first),
        one=_cost(one),
        second=name_way(main.second),
        two=_cost(two),
    )


def tokens_of(cost: Cost) -> float | None:
    """Return prompt and completion tokens of an episode; None where the endpoint did not say."""
    return None if cost.prompt is None else cost.prompt + (cost.completion or 0)


def _cost(cost: Cost) -> str:
    tokens = tokens_of(cost)
    if tokens is None:
        told = say("tokens unknown")
    elif cost.unmetered:
        told = say("at least {tokens} tokens", tokens=f"{tokens:,.0f}")
    else:
        told = say("{tokens} tokens", tokens=f"{tokens:,.0f}")
    replies = f"{cost.replies:.1f}"
    if cost.seconds is None:
        return say("{told}, {replies} replies", told=told, replies=replies)
    seconds = f"{cost.seconds:.1f}"
    return say(
        "{told}, {seconds} s, {replies} replies", told=told, seconds=seconds, replies=replies
    )


def completion_sentence(facts: Facts) -> str:
    """Say which tasks are left out, in both ways, and what that may hide."""
    c = facts.completion
    if c.kept == c.planned:
        return say(
            "{where}: all {n} tasks (with their trials) are whole in every way.",
            where=facts.endpoint,
            n=c.planned,
        )
    bounds = say("; ").join(
        say("{way} between {low} and {high}", way=name_way(a), low=percent(lo), high=percent(hi))
        for a, (lo, hi) in c.bounds.items()
    )
    return say(
        "{where}: {kept} of {planned} tasks (with their trials) count ({share}): {losses}. They "
        "are left out of success and cost in all ways. Had the missing ones all been wrong or all "
        "been right, task success would be: {bounds}.",
        where=facts.endpoint,
        kept=c.kept,
        planned=c.planned,
        share=percent(c.kept / c.planned),
        losses=say(", ").join(_losses(c)),
        bounds=bounds,
    )


def _losses(c: Completion) -> list[str]:
    told = (
        (c.endpoint, say("{n} lost to a failure of the endpoint", n=c.endpoint)),
        (c.left_recording, say("{n} that left their recording", n=c.left_recording)),
        (c.unfinished, say("{n} not run in every way", n=c.unfinished)),
    )
    return [text for count, text in told if count]


def limits(every: Sequence[Facts], manifest: Mapping[str, Any], trials: int) -> list[str]:
    """List what the data can not say."""
    said = [text for facts in every for text in _sizes(facts)]
    models = sorted({model for facts in every for model in facts.models})
    if len(models) == 1:
        told = mark("One model was asked ({model}). Another may behave the other way round.")
        said.append(say(told, model=models[0]))
    if trials == 1:
        said.append(_one_trial(manifest))
    said += [
        say(
            "Tools and tasks are made for this benchmark. Your own may be easier or harder to tell "
            "apart: run your own before you decide."
        ),
        say(
            "Native calls are made by model and server together: weights, chat template and the "
            "server's parser. These data can't tell their shares, unless two endpoints here differ "
            "in one of them only."
        ),
        _replayed(manifest),
        say(
            "Only task success, parse failures and wrong tool picks were planned as comparisons "
            "(Holm). Every other one is exploratory (Benjamini-Hochberg): a hint, not a finding."
        ),
    ]
    lost = sum(cost.unmetered for facts in every for cost in facts.costs.values())
    if lost:
        told = mark("{n} replies came without a token count: token figures are lower bounds.")
        said.append(say(told, n=lost))
    return said


def _one_trial(manifest: Mapping[str, Any]) -> str:
    found = _find(manifest, "temperature")
    if not isinstance(found, (int, float)):
        return say("Every task was tried once. How much a second try would differ is not measured.")
    return say(
        "Every task was tried once at temperature {t}. How much a second try would differ is not "
        "measured.",
        t=f"{found:g}",
    )


def _replayed(manifest: Mapping[str, Any]) -> str:
    text = say(
        "Seconds and tokens are those of the replies as they were made. A replayed run repeats them."
    )
    machine = _find(manifest, "machine")
    return f"{text} {say('Machine: {name}.', name=machine)}" if isinstance(machine, str) else text


def changes(endpoint: str, models: set[str], fingerprints: set[str]) -> str:
    """Report a model or a server that changed while the run was made."""
    told = []
    if len(models) > 1:
        told.append(say("several models {names}", names=", ".join(sorted(models)[:5])))
    if len(fingerprints) > 1:
        names = ", ".join(sorted(fingerprints)[:5])
        told.append(say("several system fingerprints {names}", names=names))
    if not told:
        return ""
    text = mark("{where}: its answers name {told}; it may have changed mid-run.")
    return say(text, where=endpoint, told=say(" and ").join(told))


def _sizes(facts: Facts) -> list[str]:
    main = facts.main
    if main is None:
        return []
    d = main.difference
    if d.units < stats.FEW:
        told = mark("{where}: {n} units are too few for any interval ({few} at least).")
        return [say(told, where=facts.endpoint, n=d.units, few=stats.FEW)]
    if d.spread is None:
        return []
    least = stats.smallest_detectable(d.units, d.spread, comparisons=stats.PLANNED)
    return [
        say(
            "{where}: with {n} units, true differences in task success under about {least} points "
            "would often be missed (80 % power).",
            where=facts.endpoint,
            n=d.units,
            least=f"{least * 100:.0f}",
        )
    ]


def _find(value: Any, key: str, depth: int = 4) -> Any:
    """Return the first value of that name in nested mappings."""
    if not isinstance(value, Mapping) or depth == 0:
        return None
    if key in value:
        return value[key]
    found = (_find(inner, key, depth - 1) for inner in value.values())
    return next((item for item in found if item is not None), None)


def surely(comparison: Comparison) -> str:
    """Say in a few words what one comparison shows, for a table's cell."""
    d, measure = comparison.difference, comparison.measure
    word = stats.judge(d, comparison.p, higher_is_better=measure.higher_is_better)
    names = name_way(comparison.first), name_way(comparison.second)
    kind = say("planned") if comparison.planned else say("exploratory")
    p = probability(comparison.p)
    match word:
        case "better" | "worse":
            ahead = names[word == "worse"]
            return say("{way} better (p {p}, {kind})", way=ahead, p=p, kind=kind)
        case "equivalent":
            margin = f"{stats.MARGIN * 100:g}"
            return say("within {margin} points ({kind})", margin=margin, kind=kind)
        case "not enough data":
            reason = explain_note(d) or say("p {p}, {kind}", p=p, kind=kind)
            return say("not enough data ({reason})", reason=reason)
