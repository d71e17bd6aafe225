"""Endpoints side by side: every endpoint and way in one table, and what differs between them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench import stats
from bench.findings import (
    Facts,
    level_gaps,
    minus,
    name_way,
    percent,
    points,
    probability,
    tokens_of,
)
from bench.report.analysis import RIGHT_MOVE, Analysis, Between, endpoint_notes, entries_of
from bench.report.cells import NONE, behind, difference_cell, rate_cell
from bench.report.document import Block, Bullets, Cell, Grid, Prose, Section
from bench.report.examples import place
from bench.report.sections import count_cell
from bench.tables import Cost
from bench.texts import mark, say
from parsers import LEVELS

_SHOWN = ("success", "parse_failure", "wrong_pick")


def overview(analysis: Analysis) -> Grid:
    """Return a row for each endpoint and way: success, failures, tokens, seconds."""
    several = len(analysis.facts) > 1
    head = (say("endpoint"), say("way")) if several else (say("way"),)
    header = (
        *head,
        say("task success"),
        say("parse failures"),
        say("wrong tool picks"),
        say("tokens an episode"),
        say("seconds an episode"),
    )
    rows = tuple(
        _overview_row(facts, arm, several=several)
        for facts in analysis.facts.values()
        for arm in facts.arms
    )
    return Grid(say("At a glance"), header, rows)


def _overview_row(facts: Facts, arm: str, *, several: bool) -> tuple[Cell, ...]:
    names = (facts.endpoint, name_way(arm)) if several else (name_way(arm),)
    rates = (
        rate_cell(rate, behind(facts.endpoint, arm, name, rate.top))
        for name in _SHOWN
        for rate in [facts.rate(arm, name)]
    )
    return (*map(Cell, names), *rates, *_cost_cells(facts, arm))


def _cost_cells(facts: Facts, arm: str) -> tuple[Cell, Cell]:
    cost = facts.costs.get((facts.endpoint, arm))
    if cost is None:
        return NONE, NONE
    found, tokens = behind(facts.endpoint, arm, "kept", 1), tokens_of(cost)
    told = Cell(say("not told"))
    if tokens is not None:
        note = say("a lower bound") if cost.unmetered else ""
        told = Cell(f"{tokens:,.0f}", note, tokens, found)
    if cost.seconds is None:
        return told, Cell(say("not told"))
    return told, Cell(f"{cost.seconds:.1f}", "", cost.seconds, found)


def section(analysis: Analysis) -> Section:
    """Compare the endpoints: for each way, level, kind of failure, tokens and seconds."""
    blocks: list[Block] = [
        Prose(
            say(
                "Differences between endpoints are of the same way on the same units, second "
                "endpoint minus first, in points. They are exploratory: p is adjusted over all of "
                "them (Benjamini-Hochberg)."
            )
        ),
        *_differences(analysis),
        _level_grid(analysis),
        *_kinds_grid(analysis),
    ]
    title = say("Endpoints side by side")
    return Section("side", say("Side by side"), title, tuple(blocks))


# ---------------------------------------------------------------- differences


def _differences(analysis: Analysis) -> Iterator[Grid]:
    groups: dict[tuple[str, str, str], dict[str, Between]] = {}
    for found in analysis.between:
        key = (found.way, found.first, found.second)
        groups.setdefault(key, {})[found.measure.name] = found
    if not groups:
        return
    head = (say("way"), say("first endpoint"), say("second endpoint"))
    measures = (say("task success"), say("parse failures"), say("wrong tool picks"))
    costs = (say("tokens an episode"), say("seconds an episode"))
    rows = tuple(_difference_row(analysis, *key, own) for key, own in groups.items())
    yield Grid(say("Second endpoint minus first"), (*head, *measures, *costs), rows)
    moves = (say("right first move at {level}", level=level) for level in LEVELS)
    rows = tuple(
        (*_named(*key), *(_between_cell(own[m.name]) for m in RIGHT_MOVE.values()))
        for key, own in groups.items()
    )
    yield Grid(say("Second endpoint minus first, by level"), (*head, *moves), rows)


def _named(way: str, first: str, second: str) -> tuple[Cell, ...]:
    return Cell(name_way(way)), Cell(first), Cell(second)


def _difference_row(
    analysis: Analysis, way: str, first: str, second: str, own: Mapping[str, Between]
) -> tuple[Cell, ...]:
    one, two = (analysis.facts[name].costs.get((name, way)) for name in (first, second))
    return (
        *_named(way, first, second),
        *(_between_cell(own[name]) for name in _SHOWN),
        *_cost_differences(one, two),
    )


def _between_cell(found: Between) -> Cell:
    d, name = found.difference, found.measure.name
    what = name if name in _SHOWN else name.replace("_", ":")
    cell = difference_cell(d, behind("", found.way, what) if d.units else None)
    p = say("p {p}", p=probability(found.p)) if found.p is not None else ""
    return Cell(cell.text, "; ".join(filter(None, (cell.note, p))), cell.sort, cell.behind)


def _cost_differences(one: Cost | None, two: Cost | None) -> tuple[Cell, Cell]:
    if one is None or two is None:
        return NONE, NONE
    tokens = [tokens_of(one), tokens_of(two)]
    told = Cell(say("not told"))
    if tokens[0] is not None and tokens[1] is not None:
        told = _signed(tokens[1] - tokens[0], "{:+,.0f}")
    if one.seconds is None or two.seconds is None:
        return told, Cell(say("not told"))
    return told, _signed(two.seconds - one.seconds, "{:+,.1f}")


def _signed(value: float, form: str) -> Cell:
    return Cell(form.format(value).replace("-", "−"), sort=value)


# ---------------------------------------------------------------- levels and kinds


def _level_grid(analysis: Analysis) -> Grid:
    header = (
        say("endpoint"),
        say("way"),
        *(say("right first move at {level}", level=x) for x in LEVELS),
    )
    rows: list[tuple[Cell, ...]] = []
    for facts in analysis.facts.values():
        for (endpoint, arm), by_level in facts.levels.items():
            cells = (
                rate_cell(rate, behind(endpoint, arm, f"{level}:right", rate.top))
                for level in LEVELS
                for rate in [by_level[level].right]
            )
            rows.append((Cell(endpoint), Cell(name_way(arm)), *cells))
        rows += _gap_row(facts)
    return Grid(say("The gap by level"), header, tuple(rows))


def _gap_row(facts: Facts) -> list[tuple[Cell, ...]]:
    gaps, main = level_gaps(facts), facts.main
    if not gaps or main is None:
        return []
    cells = (Cell(points(gaps[level]), say("points"), gaps[level]) for level in LEVELS)
    return [(Cell(facts.endpoint), Cell(minus(main.first, main.second)), *cells)]


def _kinds_grid(analysis: Analysis) -> Iterator[Grid]:
    tables = {key: t for facts in analysis.facts.values() for key, t in facts.kinds.items()}
    kinds = sorted({kind for table in tables.values() for kind in table}, key=place)
    if not kinds:
        return
    what = ("first", "parse_failure")
    rows = tuple(
        (
            Cell(facts.endpoint),
            Cell(name_way(arm)),
            *(
                count_cell(
                    facts, arm, kind, facts.kinds.get((facts.endpoint, arm), {}).get(kind, 0), what
                )
                for kind in kinds
            ),
        )
        for facts in analysis.facts.values()
        for arm in facts.arms
    )
    header = (say("endpoint"), say("way"), *kinds)
    yield Grid(say("Parse failures of first attempts, by kind"), header, rows)


# ---------------------------------------------------------------- the same weights


def alike(manifest: Mapping[str, Any]) -> Iterator[Prose]:
    """Say which endpoints serve the same weights."""
    for names, notes in _siblings(manifest):
        yield from _told_siblings(names, notes)


def _told_siblings(names: Sequence[str], notes: "_Notes") -> Iterator[Prose]:
    if _only_templates(notes):
        told = mark("Same weights, same server, {n} chat templates.")
        yield Prose(say(told, n=len(names)), strong=True)
    yield Prose(_told_alike(names, notes))


def same_weights(analysis: Analysis) -> Iterator[Block]:
    """Say which endpoints serve the same weights, and what differs between their numbers."""
    for names, notes in _siblings(analysis.manifest):
        yield from _told_siblings(names, notes)
        said = tuple(
            _told_difference(analysis, found)
            for found in analysis.between
            if found.measure.name == "success" and {found.first, found.second} <= set(names)
        )
        if said:
            yield Bullets(said)


_Notes = Sequence[Mapping[str, Any]]
_IGNORED = ("weights", "seconds", "note")


def _siblings(manifest: Mapping[str, Any]) -> Iterator[tuple[list[str], _Notes]]:
    """Yield the endpoints that name the same weights, with their notes."""
    groups: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for entry in entries_of(manifest):
        notes = endpoint_notes(entry)
        if weights := notes.get("weights"):
            groups.setdefault(str(weights), []).append((str(entry.get("name")), notes))
    for found in groups.values():
        if len(found) > 1:
            yield [name for name, _ in found], [notes for _, notes in found]


def _differing(notes: _Notes) -> list[str]:
    names = dict.fromkeys(name for own in notes for name in own if name not in _IGNORED)
    return [name for name in names if len({str(own.get(name)) for own in notes}) > 1]


def _only_templates(notes: _Notes) -> bool:
    """Say whether the chat template is all that is noted to differ, behind one server."""
    other = _differing(notes)
    known = all("server" in own for own in notes)
    return known and bool(other) and all("template" in name for name in other)


def _told_alike(names: Sequence[str], notes: _Notes) -> str:
    told = say(" and ").join(names)
    if _only_templates(notes):
        templates = say("; ").join(
            f"{name}: {own.get('template') or own.get('chat_template')}"
            for name, own in zip(names, notes, strict=True)
        )
        return say(
            "{names} serve the same weights ({weights}) on the same server. Only the chat template differs ({templates}), so what "
            "differs between their numbers is the template's doing, not the model's.",
            names=told,
            weights=notes[0].get("weights"),
            templates=templates,
        )
    text = say(
        "{names} serve the same weights. What differs between them is the server's part (chat "
        "template, call parser), not the model's.",
        names=told,
    )
    other = _differing(notes)
    return f"{text} {say('Noted to differ: {names}.', names=', '.join(other))}" if other else text


def _told_difference(analysis: Analysis, found: Between) -> str:
    one, two = (
        percent(analysis.facts[name].rate(found.way, "success").value)
        for name in (found.first, found.second)
    )
    d = found.difference
    text = say(
        "{way}: {first} solves {one} of the tasks, {second} {two}; over the {n} units that both "
        "have, {points} points",
        way=name_way(found.way),
        first=found.first,
        one=one,
        second=found.second,
        two=two,
        n=d.units,
        points=points(d.estimate),
    )
    return text + _told_interval(d, found.p)


def _told_interval(d: stats.Difference, p: float | None) -> str:
    if d.interval is None:
        return say(" (too little for an interval).")
    return say(
        " (95 % interval {low} to {high}; p {p}, exploratory).",
        low=points(d.interval.low),
        high=points(d.interval.high),
        p=probability(p),
    )
