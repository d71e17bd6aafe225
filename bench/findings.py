"""Say in sentences what a run's tables show: which way is better, how sure, why, and what not.

Pure functions of `bench.tables`. Sentences only: no layout, no files, no model. A sentence is made
where the numbers bear it, and left out where they don't.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import stats
from bench.tables import Arm, Comparison, Completion, Cost, LevelRates, Rate

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


def headline(facts: Facts) -> str:
    """Answer the question for one endpoint in one sentence."""
    main = facts.main
    models = ", ".join(facts.models)
    where = facts.endpoint if models == facts.endpoint else f"{facts.endpoint} ({models})"
    if main is None:
        told = "; ".join(_solved(facts, arm) for arm in facts.arms)
        return f"{where}: {told}. There is nothing to compare here."
    first, second = name_way(main.first), name_way(main.second)
    rates = (
        f"{first} solves {percent(facts.rate(main.first, 'success').value)} of the tasks, "
        f"{second} {percent(facts.rate(main.second, 'success').value)}"
    )
    match stats.judge(main.difference, main.p):
        case "better":
            verdict = f"{first} works better"
        case "worse":
            verdict = f"{second} works better"
        case "equivalent":
            verdict = f"both ways work equally well, within {stats.MARGIN * 100:g} points"
        case "not enough data":
            verdict = "not enough data to say which way works better"
    return f"{where}: {verdict}. {rates}."


def _solved(facts: Facts, arm: str) -> str:
    rate = facts.rate(arm, "success")
    return f"{name_way(arm)} solves {percent(rate.value)} of {rate.below} tasks"


def how_sure(facts: Facts) -> str:
    """Say how large the main difference is and how sure."""
    main = facts.main
    if main is None:
        return ""
    d, names = main.difference, f"{name_way(main.first)} minus {name_way(main.second)}"
    counts = (
        f"{name_way(main.first)} did better in {d.higher} of {d.units} units, "
        f"{name_way(main.second)} in {d.lower}"
    )
    if d.interval is None or main.p is None:
        return f"{names} is {points(d.estimate)} points. {counts}. No interval: {d.note}."
    exact = f", exact McNemar p {probability(main.mcnemar)}" if main.mcnemar is not None else ""
    return (
        f"{names} is {points(d.estimate)} points; the 95 % interval goes from "
        f"{points(d.interval.low)} to {points(d.interval.high)}; p {probability(d.p)} (sign-flip "
        f"permutation{exact}), after Holm {probability(main.p)}. {counts}. A unit is one question in both languages."
    )


def others(facts: Facts) -> str:
    """Say what the ways that are not in the main comparison solved."""
    main = facts.main
    rest = [arm for arm in facts.arms if main and arm not in (main.first, main.second)]
    return f"Also run: {'; '.join(_solved(facts, arm) for arm in rest)}." if rest else ""


def why(facts: Facts) -> list[str]:
    """Take the main difference apart: format or choice, from the same first replies."""
    main = facts.main
    if main is None:
        return []
    return [text for text in (_gap(facts, main), *explain_levels(facts)) if text]


def _gap(facts: Facts, main: Comparison) -> str:
    first = facts.levels.get((facts.endpoint, main.first))
    second = facts.levels.get((facts.endpoint, main.second))
    if first is None or second is None:
        return ""
    gaps = {
        level: (first[level].right.value or 0) - (second[level].right.value or 0)
        for level in ("strict", "hardened", "rescue")
    }
    names = f"{name_way(main.first)} minus {name_way(main.second)}"
    text = (
        f"Why: in right first moves {names} is {points(gaps['strict'])} points read strictly, "
        f"{points(gaps['hardened'])} hardened and {points(gaps['rescue'])} at rescue, all from the "
        "same replies. "
    )
    return text + _format_or_choice(gaps, main)


def _format_or_choice(gaps: Mapping[str, float], main: Comparison) -> str:
    run, rescued = gaps["hardened"], gaps["rescue"]
    if abs(run) < 0.03 and abs(rescued) < 0.03:
        return "So the first moves are about as good both ways."
    ahead = name_way(main.first if rescued > 0 else main.second)
    if abs(rescued) < 0.03:
        return "Once every call is read, wherever it stands, the gap is gone: it is format, not choice."
    if run * rescued < 0:
        return (
            f"Once every call is read, wherever it stands, the sign turns: {ahead} chooses better, "
            "and loses by the form of its calls."
        )
    if abs(run - rescued) < 0.03:
        return f"How much is mended changes little: {ahead} chooses better."
    share = abs(run - rescued) * 100
    if abs(rescued) < abs(run):
        return (
            f"{share:.1f} points of the gap are format (calls that only rescue reads); "
            f"the rest is choice, where {ahead} is ahead."
        )
    return (
        f"Format hides {share:.1f} points of it: {ahead} chooses better than its replies let show."
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
    right = {level: percent(levels[level].right.value) for level in levels}
    start = (
        f"{name_way(arm)}: {out} of {total} parse failures are {OUT}: the reply holds a call to an "
        "offered tool, but in the wrong place. "
    )
    told = (
        f"Read at rescue, where such calls count, {right['rescue']} of the first replies are a right "
        f"move; hardened reads {right['hardened']}."
    )
    if not arm.startswith("native"):
        return start + told
    return (
        start + "The model did ask for a tool; its call arrived as text in content and not in "
        "tool_calls. That is decided by the server's chat template and its tool-call parser, "
        "so try another template or parser before you judge the model. " + told
    )


def _mended(arm: str, levels: Mapping[str, LevelRates]) -> str:
    strict, hardened = levels["strict"].unreadable.value, levels["hardened"].unreadable.value
    if strict is None or hardened is None or strict - hardened < 0.02:
        return ""
    return (
        f"{name_way(arm)}: a reader that mends nothing can't read {percent(strict)} of the first "
        f"replies, the hardened one can't read {percent(hardened)}. The difference is form that has "
        "only one reading, so it says nothing about choice."
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
    return f"Cost of a task: {name_way(main.first)} {_cost(one)}; {name_way(main.second)} {_cost(two)}."


def _cost(cost: Cost) -> str:
    tokens = None if cost.prompt is None else cost.prompt + (cost.completion or 0)
    told = "tokens unknown" if tokens is None else f"{tokens:,.0f} tokens"
    bound = "at least " if cost.unmetered else ""
    return f"{bound}{told}, {cost.seconds:.1f} s, {cost.replies:.1f} replies"


def completion_sentence(facts: Facts) -> str:
    """Say which tasks are left out, in both ways, and what that may hide."""
    c = facts.completion
    if c.kept == c.planned:
        return (
            f"{facts.endpoint}: all {c.planned} tasks (with their trials) are whole in every way."
        )
    losses = {
        "lost to a failure of the endpoint": c.endpoint,
        "that left their recording": c.left_recording,
        "not run in every way": c.unfinished,
    }
    told = ", ".join(f"{n} {what}" for what, n in losses.items() if n)
    bounds = "; ".join(
        f"{name_way(arm)} between {percent(low)} and {percent(high)}"
        for arm, (low, high) in c.bounds.items()
    )
    return (
        f"{facts.endpoint}: {c.kept} of {c.planned} tasks (with their trials) count "
        f"({percent(c.kept / c.planned)}): {told}. They are left out of success and cost in all "
        f"ways. Had the missing ones all been wrong or all been right, task success would be: {bounds}."
    )


def limits(every: Sequence[Facts], manifest: Mapping[str, Any], trials: int) -> list[str]:
    """List what the data can not say."""
    said = [text for facts in every for text in _sizes(facts)]
    models = sorted({model for facts in every for model in facts.models})
    if len(models) == 1:
        said.append(f"One model was asked ({models[0]}). Another may behave the other way round.")
    if trials == 1:
        said.append(
            f"Every task was tried once{_temperature(manifest)}. How much a second try would differ "
            "is not measured."
        )
    said += [
        (
            "Tools and tasks are made for this benchmark. Your own may be easier or harder to tell "
            "apart: run your own before you decide."
        ),
        (
            "Native calls are made by model and server together: weights, chat template and the "
            "server's parser. These data can't tell their shares, unless two endpoints here differ in "
            "one of them only."
        ),
        (
            "Seconds and tokens are those of the replies as they were made. A replayed run repeats "
            f"them{_machine(manifest)}."
        ),
        (
            "Only task success, parse failures and wrong tool picks were planned as comparisons "
            "(Holm). Every other one is exploratory (Benjamini-Hochberg): a hint, not a finding."
        ),
    ]
    lost = sum(cost.unmetered for facts in every for cost in facts.costs.values())
    if lost:
        said.append(f"{lost} replies came without a token count: token figures are lower bounds.")
    return said


def changes(endpoint: str, models: set[str], fingerprints: set[str]) -> str:
    """Report a model or a server that changed while the run was made."""
    kinds = (("models", models), ("system fingerprints", fingerprints))
    told = [f"{what} {', '.join(sorted(names)[:5])}" for what, names in kinds if len(names) > 1]
    if not told:
        return ""
    return (
        f"{endpoint}: its answers name several {' and '.join(told)}; it may have changed mid-run."
    )


def _sizes(facts: Facts) -> list[str]:
    main = facts.main
    if main is None:
        return []
    d = main.difference
    if d.units < stats.FEW:
        return [
            f"{facts.endpoint}: {d.units} units are too few for any interval ({stats.FEW} at least)."
        ]
    if d.spread is None:
        return []
    least = stats.smallest_detectable(d.units, d.spread)
    return [
        (
            f"{facts.endpoint}: with {d.units} units, true differences in task success under about "
            f"{least * 100:.0f} points would often be missed (80 % power)."
        )
    ]


def _temperature(manifest: Mapping[str, Any]) -> str:
    found = _find(manifest, "temperature")
    return f" at temperature {found:g}" if isinstance(found, (int, float)) else ""


def _machine(manifest: Mapping[str, Any]) -> str:
    found = _find(manifest, "machine")
    return f" (machine: {found})" if isinstance(found, str) else ""


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
    kind = "planned" if comparison.planned else "exploratory"
    match word:
        case "better" | "worse":
            ahead = names[word == "worse"]
            return f"{ahead} better (p {probability(comparison.p)}, {kind})"
        case "equivalent":
            return f"within {stats.MARGIN * 100:g} points ({kind})"
        case "not enough data":
            reason = d.note or f"p {probability(comparison.p)}, {kind}"
            return f"not enough data ({reason})"
