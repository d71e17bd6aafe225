"""Write down what changed between two runs: diff.md, and a summary for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench import stats
from bench.diff import Change, Diff, WayDiff, judge_way, status_of
from bench.drivers import open_reply
from bench.findings import percent, points, probability
from bench.records import reading_from_json, reply_from_json
from bench.report import Block, Bullets, Cell, Document, Grid, Prose, Section
from bench.status import MEANINGS
from bench.tables import Comparison, Rate

SHOWN = 20
"""Changed tasks of a way that are shown side by side; the others stand in the list."""
_LONG = 300
"""Characters of one cell."""


def compose(diff: Diff, limit: float | None = None) -> Document:
    """Lay a comparison of two runs out: the answer first."""
    ways = diff.ways
    sections = [
        Section("answer", "Answer", "What changed", tuple(_answer(diff, limit))),
        Section("measures", "Measures", "Measure by measure", tuple(map(_measures, ways))),
        Section("tasks", "Tasks", "Tasks that changed", tuple(map(_list_changes, ways))),
        Section("episodes", "Episodes", "Side by side", tuple(_episodes(diff))),
        Section("runs", "Runs", "How the two runs were made", tuple(_runs(diff))),
    ]
    return Document(f"From {diff.first} to {diff.second}", _about(diff), tuple(sections))


def _about(diff: Diff) -> str:
    told = " ".join(dict.fromkeys(_scripted(diff.manifests)))
    return told or "The same tasks in both runs; every difference is the second minus the first."


def _scripted(manifests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the notes that say that no model had a part: they come first wherever they belong."""
    for manifest in manifests:
        notes = manifest.get("notes") or []
        for note in [notes] if isinstance(notes, str) else notes:
            if str(note).startswith("SCRIPTED"):
                yield str(note)


def _answer(diff: Diff, limit: float | None) -> Iterator[Block]:
    yield Bullets(tuple(describe_way(way) for way in diff.ways))
    if limit is not None:
        yield Bullets(tuple(describe_loss(way, limit) for way in diff.ways))
    yield from (Prose(f"Note: {note}") for note in diff.notes)


def describe_way(way: WayDiff) -> str:
    """Say in a sentence or two what became of one way."""
    one, d = way.comparisons[0], way.success
    word = {
        "better": "better",
        "worse": "worse",
        "equivalent": f"the same, within {stats.MARGIN * 100:g} points",
        "not enough data": "not enough data to say",
    }[stats.judge(d, one.p)]
    old, new = way.rates["success"]
    same = way.tasks - len(way.changes)
    text = (
        f"{way.name}: {word}. Task success went from {percent(old.value)} to {percent(new.value)} "
        f"({points(d.estimate)} points over {d.units} units"
    )
    if d.interval is not None:
        text += f"; 95 % interval {points(d.interval.low)} to {points(d.interval.high)}"
        text += f", p {probability(one.p)} after Holm"
    else:
        text += f"; {d.note}"
    return f"{text}). Tasks: {len(way.better)} better, {len(way.worse)} worse, {same} unchanged."


def describe_loss(way: WayDiff, limit: float) -> str:
    """Say whether a way lost that many points."""
    said = {
        "shown": f"a loss of {limit:g} points or more is shown",
        "excluded": f"a loss of {limit:g} points or more is excluded",
        "not enough data": f"not enough data: a loss of {limit:g} points is neither shown nor excluded",
    }[judge_way(way, limit)]
    p = "" if way.loss_p is None else f", one-sided p {probability(way.loss_p)}"
    low = way.success.bound or way.success.narrow
    least = "" if low is None else f"; at 95 % it is no lower than {points(low.low)} points"
    return f"{way.name}: {said} (change {points(way.success.estimate)}{p}{least})."


def summarize(diff: Diff, limit: float | None) -> str:
    """Return what is printed."""
    lines = [*dict.fromkeys(_scripted(diff.manifests)), f"from {diff.first} to {diff.second}"]
    lines += [describe_way(way) for way in diff.ways]
    lines += [f"note: {note}" for note in diff.notes]
    if limit is not None:
        lines += [describe_loss(way, limit) for way in diff.ways]
        status = status_of(diff, limit)
        lines.append(f"exit status {status}: {MEANINGS[status]}")
    return "\n".join(lines).replace("\u00a0", " ")


# ---------------------------------------------------------------- the tables


def _measures(way: WayDiff) -> Grid:
    rows = tuple(_measure_row(way, one) for one in way.comparisons)
    return Grid(
        way.name, ("measure", "first run", "second run", "difference", "what it shows"), rows
    )


def _measure_row(way: WayDiff, one: Comparison) -> tuple[Cell, ...]:
    d, measure = one.difference, one.measure
    word = stats.judge(d, one.p, higher_is_better=measure.higher_is_better)
    kind = "planned" if one.planned else "exploratory"
    told = d.note or f"p {probability(one.p)}, {kind}"
    note = f"{d.units} units"
    if d.interval is not None:
        note += f"; {points(d.interval.low)} to {points(d.interval.high)}"
    moved = Cell(points(d.estimate), note, d.estimate) if d.units else Cell("–")
    rates = way.rates[measure.name]
    return (Cell(measure.label, measure.meaning), *map(_rate, rates), moved, Cell(word, told))


def _rate(rate: Rate) -> Cell:
    return Cell(percent(rate.value), f"{rate.top} of {rate.below}", rate.value)


def _list_changes(way: WayDiff) -> Block:
    if not way.changes:
        return Prose(f"{way.name}: no task changed.")
    rows = tuple(
        (
            Cell(change.task_id),
            Cell("better" if change.after > change.before else "worse"),
            *(Cell(percent(value, 0), sort=value) for value in (change.before, change.after)),
        )
        for change in way.changes
    )
    return Grid(way.name, ("task", "is", "solved in the first run", "in the second"), rows)


def _episodes(diff: Diff) -> Iterator[Block]:
    for way in diff.ways:
        shown = way.changes[:SHOWN]
        for change in shown:
            yield _side_by_side(diff, way, change)
        if len(way.changes) > len(shown):
            left = len(way.changes) - len(shown)
            yield Prose(f"{way.name}: {left} more changed tasks are in the list above.")
    if not any(way.changes for way in diff.ways):
        yield Prose("No task changed.")


def _side_by_side(diff: Diff, way: WayDiff, change: Change) -> Grid:
    lines = (change.old, change.new)
    replies = [list(_replies(line)) for line in lines]
    rows = [
        (Cell("solved"), *(Cell("yes" if _score(line).get("success") else "no") for line in lines)),
        (Cell("ended"), *(Cell(str(line["stop"])) for line in lines)),
    ]
    for step in range(max(map(len, replies))):
        told = (side[step] if step < len(side) else "–" for side in replies)
        rows.append((Cell(f"reply {step + 1}"), *(Cell(_cut(text)) for text in told)))
    title = f"{change.task_id}, {way.name}"
    return Grid(title, ("", diff.first, diff.second), tuple(rows), folded=True)


def _score(line: Mapping[str, Any]) -> Mapping[str, Any]:
    return line.get("score") or {}


def _replies(line: Mapping[str, Any]) -> Iterator[str]:
    """Yield what each reply of an episode says, as it was read, and what the tools said to it."""
    for turn in line.get("turns") or ():
        reading = reading_from_json(turn["reading"])
        if reading.final is not None:
            yield f"answers: {reading.final}"
        elif reading.failure is not None:
            said = open_reply(reply_from_json(turn["reply"])).text
            yield f"{reading.failure.kind}: {reading.failure.message} {said}"
        else:
            yield "; ".join(_calls(turn, reading))


def _calls(turn: Mapping[str, Any], reading: Any) -> Iterator[str]:
    results = list(turn.get("results") or ())
    for number, call in enumerate(reading.calls):
        came = results[number].get("content") if len(results) == len(reading.calls) else ""
        yield f"calls {call.name} {call.raw or call.arguments} → {_cut(str(came), _LONG // 2)}"


def _cut(text: str, limit: int = _LONG) -> str:
    return text if len(text) <= limit else f"{text[:limit]} …"


# ---------------------------------------------------------------- the runs


_FIELDS = ("started", "mode", "version", "python", "trials", "stream", "example", "stop_early")


def _runs(diff: Diff) -> Iterator[Block]:
    rows = [(Cell("models"), *(Cell(_models(manifest)) for manifest in diff.manifests))]
    for name in _FIELDS:
        told = [manifest.get(name) for manifest in diff.manifests]
        rows.append((Cell(name), *(Cell(_cut(str(value))) for value in told)))
    for name in ("settings", "budget", "stop"):
        one, two = (manifest.get(name) for manifest in diff.manifests)
        rows.append(
            (Cell(name), Cell(_cut(str(one))), Cell("the same" if one == two else _cut(str(two))))
        )
    yield Grid("The two runs", ("", diff.first, diff.second), tuple(rows))
    for name, tasks in ((diff.first, diff.only_first), (diff.second, diff.only_second)):
        if tasks:
            listed = _cut(", ".join(tasks), 2000)
            yield Prose(f"Only in {name}, so left out: {len(tasks)} tasks: {listed}")
    yield Prose(
        "A unit is one question in both languages. Success, parse failures and wrong picks are planned "
        "comparisons (Holm over all ways); everything else is exploratory (Benjamini-Hochberg). A loss "
        "is judged for each way by itself, one-sided at 5 %."
    )


def _models(manifest: Mapping[str, Any]) -> str:
    entries = manifest.get("endpoints") or []
    named = [e for e in entries if isinstance(e, Mapping)] if isinstance(entries, list) else []
    return ", ".join(f"{entry.get('model')} ({entry.get('name')})" for entry in named)
