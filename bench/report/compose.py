"""Lay a run's report out: which sections, in which order, and the short ones among them.

A pure function of what the folder holds: no model, no network, no clock. What a report says
stands in `bench.findings` and `bench.tables`; here it becomes a `Document`.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bench import charts, findings, stats
from bench.manifest import SCRIPTED
from bench.report import sections, side
from bench.report.analysis import Analysis, endpoint_notes, entries_of, notes_of
from bench.report.document import Block, Bullets, Cell, Document, Grid, Picture, Prose, Section
from bench.report.examples import examples_section
from bench.report.text import cut
from bench.report.viewer import gather
from bench.tables import MEASURES
from bench.texts import say

_KEYS = 400
"""Lines of a manifest that are shown."""


def compose(analysis: Analysis) -> Document:
    """Lay a run's report out: the answer first, the manifest last."""
    several = len(analysis.facts) > 1
    parts = (
        _answer(analysis),
        *([side.section(analysis)] if several else []),
        sections.measures(analysis),
        sections.levels(analysis),
        sections.failures(analysis),
        sections.confusion(analysis),
        sections.groups(analysis),
        sections.costs(analysis),
        sections.endings(analysis),
        _limits(analysis),
        examples_section(analysis),
        _words(),
        manifest_section(analysis.manifest),
    )
    models = sorted({model for facts in analysis.facts.values() for model in facts.models})
    about = say(
        "{models}: {n} episodes, run {name}",
        models=", ".join(models),
        n=len(analysis.lines),
        name=analysis.name,
    )
    title = say("ReAct text or native tool calls?")
    return Document(title, about, parts, gather(analysis.lines, analysis.frame))


def _answer(analysis: Analysis) -> Section:
    every = list(analysis.facts.values())
    notes = notes_of(analysis.manifest)
    # what is scripted says so in its first line
    blocks: list[Block] = [Prose(n, strong=True) for n in notes if n.startswith(SCRIPTED)]
    for facts in every:
        blocks.append(Prose(findings.headline(facts), strong=True))
        blocks += [_details(facts)] if len(every) == 1 else []
    blocks += side.same_weights(analysis)
    blocks.append(Picture(charts.draw_success(analysis.measures)))
    blocks.append(side.overview(analysis))
    for facts in every if len(every) > 1 else ():
        blocks += [Prose(facts.endpoint, strong=True), _details(facts)]
    rest = [note for note in notes if not note.startswith(SCRIPTED)]
    rest += [say(charts.NO_LETTERS)] if charts.lacks_letters() else []
    blocks += [Prose(say("Note: {note}", note=note)) for note in rest]
    blocks += _asked_grid(analysis.manifest)
    return Section("answer", say("Answer"), say("The answer"), tuple(blocks))


def _details(facts: findings.Facts) -> Bullets:
    said = [findings.how_sure(facts), *findings.why(facts)]
    said += [findings.cost_sentence(facts), findings.others(facts)]
    return Bullets(tuple(filter(None, said)))


def asked(manifest: Mapping[str, Any]) -> Iterator[Block]:
    """Say which endpoints were asked, and which of them serve the same weights."""
    yield from side.alike(manifest)
    yield from _asked_grid(manifest)


def _asked_grid(manifest: Mapping[str, Any]) -> Iterator[Grid]:
    rows = []
    for entry in entries_of(manifest):
        notes = endpoint_notes(entry)
        told = "; ".join(f"{key}: {value}" for key, value in notes.items())
        recorded = entry.get("recorded") or {}
        machine = str(recorded.get("machine") or manifest.get("machine") or "")
        cells = (str(entry.get("model")), str(entry.get("host") or ""), machine, told)
        row = (Cell(str(entry.get("name"))), *(Cell(cut(text, 400) or "–") for text in cells))
        rows.append(row)
    if rows:
        header = (say("endpoint"), say("model"), say("host"), say("machine"), say("notes"))
        yield Grid(say("What was asked"), header, tuple(rows))


def _limits(analysis: Analysis) -> Section:
    every = list(analysis.facts.values())
    said = findings.limits(every, analysis.manifest, analysis.trials)
    said += [findings.changes(name, *named) for name, named in analysis.seen.named.items()]
    said = [text for text in said if text]
    title = say("What these data can not say")
    return Section("limits", say("Limits"), title, (Bullets(tuple(said)),))


def _words() -> Section:
    items = [
        say("{name}: {meaning}.", name=say(measure.label), meaning=say(measure.meaning))
        for measure in MEASURES
    ]
    items += [
        say(
            "unit: one question in both languages (a task without a twin is a unit of its own). "
            "Languages and trials are nested in it and never counted as independent."
        ),
        say(
            "interval: 95 %. Wilson where a unit has one observation, Clopper-Pearson for none and "
            "all, else a BCa bootstrap over units."
        ),
        say(
            "p: sign-flip permutation over units ({planned} flips where planned, {quick} where "
            "exploratory), adjusted after Holm or Benjamini-Hochberg.",
            planned=f"{stats.RESAMPLES:,}",
            quick=f"{stats.QUICK:,}",
        ),
        say(
            "not enough data: no difference is shown, and a difference of {margin} points or more "
            "is not excluded. Under {few} units only counts are told.",
            margin=f"{stats.MARGIN * 100:g}",
            few=stats.FEW,
        ),
        say(
            "right first move: the first reply calls right tools with acceptable arguments, or "
            "answers where no tool is wanted."
        ),
        say(
            "wrong tool pick: calls are matched to wanted ones first by tool and arguments, then "
            "by tool, then in order, the rest with none. A further try at a right tool after an "
            "error is no wrong pick."
        ),
        say(
            "left out: a task and trial that an endpoint's failure or the recording's end cut "
            "short in one way counts for success and cost in no way. Replies before a recording's "
            "end still count for the parse measures."
        ),
    ]
    return Section("words", say("Method"), say("How it is counted"), (Bullets(tuple(items)),))


def manifest_section(manifest: Mapping[str, Any]) -> Section:
    """Show the whole manifest; of several runs, each of theirs."""
    runs = manifest.get("runs")
    named = runs if isinstance(runs, Mapping) else {"manifest.json": manifest}
    grids = tuple(_manifest_grid(str(name), own) for name, own in named.items())
    return Section("manifest", say("Manifest"), say("Manifest"), grids)


def _manifest_grid(name: str, manifest: Any) -> Grid:
    rows = tuple((Cell(key), Cell(value)) for key, value in _flatten(manifest))
    return Grid(name, (say("key"), say("value")), rows[:_KEYS], folded=True)


def _flatten(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value and key.count(".") < 6:
        for name, inner in value.items():
            yield from _flatten(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and value and any(isinstance(v, (Mapping, list)) for v in value):
        for number, inner in enumerate(value[:100]):
            yield from _flatten(inner, f"{key}[{number}]")
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield cut(key, 200), cut(text, 500)
