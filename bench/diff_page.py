"""Write down what changed between two runs: diff.md, and a summary for the terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench import stats
from bench.diff import Change, Diff, WayDiff, judge_way, status_of
from bench.drivers import open_reply
from bench.findings import explain_note, percent, points, probability, tell_note
from bench.records import reading_from_json, reply_from_json
from bench.report import Block, Bullets, Cell, Document, Grid, Prose, Section
from bench.report.cells import of, span
from bench.status import MEANINGS
from bench.tables import Comparison, Rate
from bench.texts import mark, retell, say

SHOWN = 20
"""Changed tasks of a way that are shown side by side; the others stand in the list."""
_LONG = 300
"""Characters of one cell."""


def compose(diff: Diff, limit: float | None = None) -> Document:
    """Lay a comparison of two runs out: the answer first."""
    ways = diff.ways
    sections = [
        _section("answer", say("Answer"), say("What changed"), _answer(diff, limit)),
        _section("measures", say("Measures"), say("Measure by measure"), map(_measures, ways)),
        _section("tasks", say("Tasks"), say("Tasks that changed"), map(_list_changes, ways)),
        _section("episodes", say("Episodes"), say("Side by side"), _episodes(diff)),
        _section("runs", say("Runs"), say("How the two runs were made"), _runs(diff)),
    ]
    title = say("From {first} to {second}", first=diff.first, second=diff.second)
    return Document(title, _about(diff), tuple(sections))


def _section(name: str, short: str, title: str, blocks: Iterable[Block]) -> Section:
    return Section(name, short, title, tuple(blocks))


def _about(diff: Diff) -> str:
    told = " ".join(dict.fromkeys(_scripted(diff.manifests)))
    return told or say(
        "The same tasks in both runs; every difference is the second minus the first."
    )


def _scripted(manifests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the notes that say that no model had a part: they come first wherever they belong."""
    for manifest in manifests:
        notes = manifest.get("notes") or []
        for note in [notes] if isinstance(notes, str) else notes:
            if str(note).startswith("SCRIPTED"):
                yield tell_note(str(note))


def _answer(diff: Diff, limit: float | None) -> Iterator[Block]:
    yield Bullets(tuple(describe_way(way) for way in diff.ways))
    if limit is not None:
        yield Bullets(tuple(describe_loss(way, limit) for way in diff.ways))
    yield from (Prose(say("Note: {note}", note=note)) for note in _notes(diff))


def _notes(diff: Diff) -> Iterator[str]:
    yield from (retell(note, _NOTES) for note in diff.notes)


_NOTES = (mark("Files of the tools differ between the runs: {names}."),)
"""The forms of what `bench.diff` notes."""
_WAYS = (
    mark("{way} on {endpoint} with {variant}"),
    mark("{way} on {endpoint}"),
    mark("{way} with {variant}"),
)
"""The forms of a way's name where a run has several endpoints or variants."""


def _name(way: WayDiff) -> str:
    return retell(way.name, _WAYS)


def describe_way(way: WayDiff) -> str:
    """Say in a sentence or two what became of one way."""
    one, d = way.comparisons[0], way.success
    old, new = way.rates["success"]
    return say(
        "{way}: {word}. Task success went from {old} to {new} ({points} points over {units} units; "
        "{sure}). Tasks: {better} better, {worse} worse, {same} unchanged.",
        way=_name(way),
        word=_word(one),
        old=percent(old.value),
        new=percent(new.value),
        points=points(d.estimate),
        units=d.units,
        sure=_sure(one),
        better=len(way.better),
        worse=len(way.worse),
        same=way.tasks - len(way.changes),
    )


def _word(one: Comparison) -> str:
    match stats.judge(one.difference, one.p):
        case "equivalent":
            return say("the same, within {margin} points", margin=f"{stats.MARGIN * 100:g}")
        case "not enough data":
            return say("not enough data to say")
        case word:
            return say(word)


def _sure(one: Comparison) -> str:
    d = one.difference
    if d.interval is None:
        return explain_note(d)
    return say(
        "95 % interval {low} to {high}, p {p} after Holm",
        low=points(d.interval.low),
        high=points(d.interval.high),
        p=probability(one.p),
    )


_LOSSES = {
    "shown": mark("a loss of {limit} points or more is shown"),
    "excluded": mark("a loss of {limit} points or more is excluded"),
    "not enough data": mark(
        "not enough data: a loss of {limit} points is neither shown nor excluded"
    ),
}


def describe_loss(way: WayDiff, limit: float) -> str:
    """Say whether a way lost that many points."""
    low = way.success.bound or way.success.narrow
    p, least = "", ""
    if way.loss_p is not None:
        p = say(", one-sided p {p}", p=probability(way.loss_p))
    if low is not None:
        least = say("; at 95 % it is no lower than {points} points", points=points(low.low))
    return say(
        "{way}: {said} (change {points}{p}{least}).",
        way=_name(way),
        said=say(_LOSSES[judge_way(way, limit)], limit=f"{limit:g}"),
        points=points(way.success.estimate),
        p=p,
        least=least,
    )


def summarize(diff: Diff, limit: float | None) -> str:
    """Return what is printed."""
    lines = [*dict.fromkeys(_scripted(diff.manifests))]
    lines.append(say("from {first} to {second}", first=diff.first, second=diff.second))
    lines += [describe_way(way) for way in diff.ways]
    lines += [say("note: {note}", note=note) for note in _notes(diff)]
    if limit is not None:
        lines += [describe_loss(way, limit) for way in diff.ways]
        status = status_of(diff, limit)
        text = mark("exit status {status}: {meaning}")
        lines.append(say(text, status=status, meaning=say(MEANINGS[status])))
    return "\n".join(lines).replace("\u00a0", " ")


# ---------------------------------------------------------------- the tables


def _measures(way: WayDiff) -> Grid:
    rows = tuple(_measure_row(way, one) for one in way.comparisons)
    header = (
        *(say("measure"), say("first run"), say("second run"), say("difference")),
        say("what it shows"),
    )
    return Grid(_name(way), header, rows)


def _measure_row(way: WayDiff, one: Comparison) -> tuple[Cell, ...]:
    d, measure = one.difference, one.measure
    word = stats.judge(d, one.p, higher_is_better=measure.higher_is_better)
    kind = say("planned") if one.planned else say("exploratory")
    told = explain_note(d) or say("p {p}, {kind}", p=probability(one.p), kind=kind)
    note = say("{n} units", n=d.units)
    if d.interval is not None:
        note += f"; {span(points(d.interval.low), points(d.interval.high))}"
    moved = Cell(points(d.estimate), note, d.estimate) if d.units else Cell("–")
    rates = way.rates[measure.name]
    name = Cell(say(measure.label), say(measure.meaning))
    return (name, *map(_rate, rates), moved, Cell(say(word), told))


def _rate(rate: Rate) -> Cell:
    return Cell(percent(rate.value), of(rate.top, rate.below), rate.value)


def _list_changes(way: WayDiff) -> Block:
    if not way.changes:
        return Prose(say("{way}: no task changed.", way=_name(way)))
    rows = tuple(
        (
            Cell(change.task_id),
            Cell(say("better") if change.after > change.before else say("worse")),
            *(Cell(percent(value, 0), sort=value) for value in (change.before, change.after)),
        )
        for change in way.changes
    )
    header = (say("task"), say("is"), say("solved in the first run"), say("in the second"))
    return Grid(_name(way), header, rows)


def _episodes(diff: Diff) -> Iterator[Block]:
    for way in diff.ways:
        shown = way.changes[:SHOWN]
        for change in shown:
            yield _side_by_side(diff, way, change)
        if len(way.changes) > len(shown):
            left = len(way.changes) - len(shown)
            text = mark("{way}: {n} more changed tasks are in the list above.")
            yield Prose(say(text, way=_name(way), n=left))
    if not any(way.changes for way in diff.ways):
        yield Prose(say("No task changed."))


def _side_by_side(diff: Diff, way: WayDiff, change: Change) -> Grid:
    lines = (change.old, change.new)
    replies = [list(_replies(line)) for line in lines]
    rows = [
        (Cell(say("solved")), *(Cell(_yes(_score(line).get("success"))) for line in lines)),
        (Cell(say("ended")), *(Cell(str(line["stop"])) for line in lines)),
    ]
    for step in range(max(map(len, replies))):
        told = (side[step] if step < len(side) else "–" for side in replies)
        rows.append((Cell(say("reply {n}", n=step + 1)), *(Cell(_cut(text)) for text in told)))
    title = f"{change.task_id}, {_name(way)}"
    return Grid(title, ("", diff.first, diff.second), tuple(rows), folded=True)


def _yes(value: Any) -> str:
    return say("yes") if value else say("no")


def _score(line: Mapping[str, Any]) -> Mapping[str, Any]:
    return line.get("score") or {}


def _replies(line: Mapping[str, Any]) -> Iterator[str]:
    """Yield what each reply of an episode says, as it was read, and what the tools said to it."""
    for turn in line.get("turns") or ():
        reading = reading_from_json(turn["reading"])
        if reading.final is not None:
            yield say("answers: {said}", said=reading.final)
        elif reading.failure is not None:
            said = open_reply(reply_from_json(turn["reply"])).text
            yield f"{reading.failure.kind}: {reading.failure.message} {said}"
        else:
            yield "; ".join(_calls(turn, reading))


def _calls(turn: Mapping[str, Any], reading: Any) -> Iterator[str]:
    results = list(turn.get("results") or ())
    for number, call in enumerate(reading.calls):
        came = results[number].get("content") if len(results) == len(reading.calls) else ""
        yield say(
            "calls {name} {arguments} → {came}",
            name=call.name,
            arguments=call.raw or call.arguments,
            came=_cut(str(came), _LONG // 2),
        )


def _cut(text: str, limit: int = _LONG) -> str:
    return text if len(text) <= limit else f"{text[:limit]} …"


# ---------------------------------------------------------------- the runs


_FIELDS = ("started", "mode", "version", "python", "trials", "stream", "example", "stop_early")


def _runs(diff: Diff) -> Iterator[Block]:
    rows = [(Cell(say("models")), *(Cell(_models(manifest)) for manifest in diff.manifests))]
    for name in _FIELDS:
        told = [manifest.get(name) for manifest in diff.manifests]
        rows.append((Cell(name), *(Cell(_cut(str(value))) for value in told)))
    for name in ("settings", "budget", "stop"):
        one, two = (manifest.get(name) for manifest in diff.manifests)
        second = say("the same") if one == two else _cut(str(two))
        rows.append((Cell(name), Cell(_cut(str(one))), Cell(second)))
    yield Grid(say("The two runs"), ("", diff.first, diff.second), tuple(rows))
    for name, tasks in ((diff.first, diff.only_first), (diff.second, diff.only_second)):
        if tasks:
            text = mark("Only in {run}, so left out: {n} tasks: {names}")
            names = _cut(", ".join(tasks), 2000)
            yield Prose(say(text, run=name, n=len(tasks), names=names))
    yield Prose(
        say(
            "A unit is one question in both languages. Success, parse failures and wrong picks are "
            "planned comparisons (Holm over all ways); everything else is exploratory "
            "(Benjamini-Hochberg). A loss is judged for each way by itself, one-sided at 5 %."
        )
    )


def _models(manifest: Mapping[str, Any]) -> str:
    entries = manifest.get("endpoints") or []
    named = [e for e in entries if isinstance(e, Mapping)] if isinstance(entries, list) else []
    return ", ".join(f"{entry.get('model')} ({entry.get('name')})" for entry in named)
