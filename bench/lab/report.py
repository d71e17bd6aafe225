"""Write the report of the experiment on descriptions, from its run folder alone.

A pure function of the lines and the manifest, laid out as a `Document` of `bench.report`. Texts of
models and of descriptions are hostile: bounded here, escaped where they are written.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import charts, stats, tables
from bench.findings import name_way, percent
from bench.lab import words
from bench.lab.charts import draw_effects, draw_interactions
from bench.lab.effects import (
    MEANS,
    MEASURES,
    Arms,
    Effect,
    Interaction,
    Overall,
    find_effects,
    find_interactions,
    find_overall,
    split,
    widen,
)
from bench.manifest import SCRIPTED
from bench.records import RunFolder
from bench.report import (
    Block,
    Bullets,
    Cell,
    Document,
    Grid,
    Picture,
    Prose,
    Section,
    asked,
    manifest_section,
    write_document,
)
from bench.show import printable
from bench.tables import Line, Measure, Rate
from bench.types import WorkbenchError
from bench.variants import FULL

_CONFUSIONS = 4
"""Confusions that are listed for each description and way."""
_LONG = 300
"""Characters of a question that are shown."""


@dataclass(frozen=True, slots=True)
class Findings:
    """A run with its tables made: what every page about it rests on."""

    name: str
    base: str
    manifest: Mapping[str, Any]
    frame: Any = field(repr=False)
    arms: Arms = field(repr=False)
    effects: Sequence[Effect] = field(repr=False)
    interactions: Sequence[Interaction] = field(repr=False)
    overall: Sequence[Overall] = ()
    questions: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The question of each task, cut."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The endpoints' names, in order."""
        return tuple(dict.fromkeys(key[0] for key in self.arms))

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants that were run, the base first."""
        return tuple(dict.fromkeys(key[2] for key in self.arms))

    def ways(self, endpoint: str) -> tuple[str, ...]:
        """Return the ways of an endpoint, ReAct first."""
        return tuple(dict.fromkeys(key[1] for key in self.arms if key[0] == endpoint))

    def find(self, endpoint: str, way: str, variant: str, measure: Measure) -> Effect | None:
        """Return one effect over all tasks, if there is one."""
        wanted = (endpoint, way, variant, measure, "")
        for e in self.effects:
            if (e.endpoint, e.way, e.variant, e.measure, e.group) == wanted:
                return e
        return None


def find_out(
    folder: RunFolder, base: str = FULL, resamples: int = stats.QUICK, *, together: bool = False
) -> Findings:
    """Make a run's tables, as `find_effects` does; raises `WorkbenchError` where it holds no episode."""
    lines = list(folder.lines())
    if not lines:
        raise WorkbenchError(f"{folder.path}: holds no finished episode; resume the run first")
    manifest = folder.manifest
    frame = widen(tables.episode_table(lines))
    arms = split(frame, [str(name) for name in manifest.get("variants") or ()])
    groups = sorted({str(line["category"]) for line in lines})
    return Findings(
        folder.path.name,
        base,
        manifest,
        frame,
        arms,
        find_effects(arms, base, groups=groups, resamples=resamples, together=together),
        find_interactions(arms, base),
        find_overall(arms, base),
        _read_questions(lines),
    )


def _read_questions(lines: Sequence[Line]) -> dict[str, str]:
    """Return what was asked in each task: the shortest form, without what a way adds."""
    found: dict[str, str] = {}
    for line in lines:
        turns = line.get("turns") or ()
        sent = (turns[0].get("sent") or ()) if turns else ()
        texts = [str(m.get("content")) for m in sent if m.get("role") == "user"]
        told = " ".join(texts[-1].split())[:_LONG] if texts else ""
        known = found.get(str(line["task_id"]))
        if told and (known is None or len(told) < len(known)):
            found[str(line["task_id"])] = told
    return found


def write_lab_report(folder: RunFolder, found: Findings | None = None) -> tuple[Path, Path]:
    """Write report.md, report.html and the figures into a run folder; return the two paths."""
    return write_document(folder.path, compose(found or find_out(folder)))


def scripted_first(manifest: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return a manifest's notes: first those that say that no model was asked, then the rest."""
    notes = [str(note) for note in manifest.get("notes") or ()]
    scripted = [note for note in notes if note.startswith(SCRIPTED)]
    return scripted, [note for note in notes if note not in scripted]


def summarize(found: Findings) -> str:
    """Return what ends a run: each endpoint's answer, then a row for each description."""
    told, _ = scripted_first(found.manifest)
    told += [words.headline(endpoint, found.effects, found.base) for endpoint in found.endpoints]
    told += [words.tell_interaction(one) for one in surest(found.interactions)]
    rows = [(e.endpoint, name_way(e.way), e.variant, *_summed(e)) for e in _successes(found)]
    head = ("endpoint", "driver", "description", found.base, "so told", "points", "what it shows")
    text = "\n".join(told) + "\n\n" + align([head, *rows])
    return printable(text.replace("\u00a0", " "))


def _successes(found: Findings) -> list[Effect]:
    return [e for e in found.effects if e.measure.name == "success" and not e.group]


def _summed(effect: Effect) -> tuple[str, ...]:
    sums = [f"{rate.top}/{rate.below}" for rate in (effect.base, effect.told)]
    return (*sums, words.amount(effect, effect.difference.estimate), effect.word)


def align(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of texts as columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def surest(interactions: Sequence[Interaction]) -> list[Interaction]:
    """Return what is worth a sentence first: the sure ones, else the largest one in success."""
    sure = [one for one in interactions if one.differs in ("better", "worse")]
    if sure:
        return sure
    success = [one for one in interactions if one.measure.name == "success"]
    return sorted(success, key=lambda one: -abs(one.difference.estimate))[:1]


# ---------------------------------------------------------------- what the report holds


def compose(found: Findings) -> Document:
    """Lay a run's report out: the answer first, the manifest last."""
    sections = (
        _answer(found),
        _variants(found),
        *measure_sections(found),
        interaction_section(found),
        confusion_section(found),
        category_section(found),
        left_out_section(found),
        method_section(found),
        manifest_section({k: v for k, v in found.manifest.items() if k != "told"}),
    )
    models = sorted({str(name) for name in found.frame["model"]})
    about = f"{', '.join(models)}: {len(found.frame)} episodes, run {found.name}"
    return Document("What does a tool's description do?", about, sections)


def make_section(name: str, title: str, blocks: Sequence[Block], short: str = "") -> Section:
    """Make a section whose name in the index may be shorter."""
    return Section(name, short or title, title, tuple(blocks))


def _answer(found: Findings) -> Section:
    scripted, notes = scripted_first(found.manifest)
    headlines = [words.headline(name, found.effects, found.base) for name in found.endpoints]
    blocks: list[Block] = [Prose(text, strong=True) for text in (*scripted, *headlines)]
    said = [words.tell_interaction(one) for one in surest(found.interactions)]
    said += [words.tell_overall(one) for one in found.overall]
    blocks += [Bullets(tuple(said))] if said else []
    blocks += [Prose(f"Note: {note}") for note in notes]
    chart = draw_effects(found.effects, MEASURES[:2], found.base)
    blocks += [Picture(chart)] if chart else []
    blocks += asked(found.manifest)
    return make_section("answer", "The answer", blocks, "Answer")


def _variants(found: Findings) -> Section:
    told = found.manifest.get("told")
    told = told if isinstance(told, Mapping) else {}
    rows = []
    for variant in found.variants:
        entry = told.get(variant)
        entry = entry if isinstance(entry, Mapping) else {}
        tasks = _count_tasks(found.frame[found.frame["variant"] == variant])
        texts = [str(entry.get(name) or "–")[:1500] for name in ("says", "en", "zh")]
        changed = str(entry.get("tools", "–"))
        rows.append((Cell(variant), *map(Cell, (texts[0], changed, tasks, *texts[1:]))))
    header = ("description", "what it is", "tools told otherwise", "tasks", "such as", "in Chinese")
    intro = (
        f"Every description is held against {found.base} on the same tasks. A task that offers no tool "
        "which the description tells otherwise is left out for it."
    )
    grid = Grid("Their texts, by one of the tools", header, tuple(rows), folded=True)
    return make_section("descriptions", "The descriptions", (Prose(intro), grid), "Descriptions")


def _count_tasks(rows: Any) -> str:
    return f"{rows['task_id'].nunique()} ({rows['pair'].nunique()} units)"


def measure_sections(found: Findings) -> Iterator[Section]:
    """Lay out every measure of every way, then what it costs."""
    intro = Prose(
        f"For each way: the share with {found.base} and with the description, each with its count, its "
        "denominator and its 95 % interval in percent, on the tasks that both have whole; then the "
        "difference, the mean over units, with its 95 % interval."
    )
    shares = [m for m in MEASURES if m not in MEANS]
    grids = [_measure_grid(found, e, m) for e in found.endpoints for m in shares]
    yield make_section("measures", "Measure by measure", (intro, *grids), "Measures")
    costs = [_measure_grid(found, e, m) for e in found.endpoints for m in MEANS]
    yield make_section("cost", "What a description costs", costs, "Cost")


def _measure_grid(found: Findings, endpoint: str, measure: Measure) -> Grid:
    header = ["description"]
    for way in map(name_way, found.ways(endpoint)):
        header += [f"{way}: {found.base}", f"{way}: so told", f"{way}: difference", "what it shows"]
    rows = [
        (Cell(variant), *_measure_cells(found, endpoint, variant, measure))
        for variant in found.variants
        if variant != found.base
    ]
    caption = f"{endpoint}: {measure.label} ({measure.meaning})"
    return Grid(caption, tuple(header), tuple(rows))


def _measure_cells(
    found: Findings, endpoint: str, variant: str, measure: Measure
) -> Iterator[Cell]:
    for way in found.ways(endpoint):
        effect = found.find(endpoint, way, variant, measure)
        yield from [Cell("–")] * 4 if effect is None else effect_cells(effect, found.base)


def effect_cells(effect: Effect, base: str) -> tuple[Cell, ...]:
    """Write an effect: base, variant, difference, what it shows."""
    return (
        _rate_cell(effect, told=False),
        _rate_cell(effect, told=True),
        _difference_cell(effect),
        Cell(words.surely(effect, base) if effect.difference.units else "–"),
    )


def _rate_cell(effect: Effect, *, told: bool) -> Cell:
    rate: Rate = effect.told if told else effect.base
    if rate.value is None:
        return Cell("–", "0 of 0")
    if effect.measure in MEANS:
        return Cell(words.level(effect, told=told), f"{rate.below} episodes", rate.value)
    note = f"{rate.top} of {rate.below}"
    if rate.interval is not None:
        note += f"; {rate.interval.low * 100:.1f} to {rate.interval.high * 100:.1f}"
    return Cell(words.level(effect, told=told), note, rate.value)


def _difference_cell(effect: Effect) -> Cell:
    d = effect.difference
    if not d.units:
        return Cell("–", "no unit has both")
    note = f"{d.units} units"
    if d.interval is not None:
        low, high = words.amount(effect, d.interval.low), words.amount(effect, d.interval.high)
        note += f"; {low} to {high}"
    return Cell(words.amount(effect, d.estimate), note, d.estimate)


def interaction_section(found: Findings) -> Section:
    """Tell for every variant whether it does more to one way."""
    title = "Does a description do more to one way than to the other?"
    if not found.interactions:
        text = "This takes ReAct and native side by side, read at the same level."
        return make_section("interaction", title, (Prose(text),), "Way and description")
    chart = draw_interactions(found.interactions)
    told = Bullets(tuple(words.tell_interaction(one) for one in found.interactions))
    blocks: list[Block] = [Picture(chart)] if chart else []
    return make_section("interaction", title, (*blocks, told), "Way and description")


def confusion_section(found: Findings) -> Section:
    """Show wanted against picked tools, a figure a variant."""
    blocks: list[Block] = [
        Prose(
            "Rows are the tools that a task wants, columns the tools that were picked; the last row "
            "holds calls where none was wanted, the last column wanted calls that were never made. "
            "Green is right. Tools go by their own names, whatever name was shown."
        ),
        _confusion_grid(found),
    ]
    for variant in found.variants:
        rows = found.frame[found.frame["variant"] == variant]
        name = "confusion-" + variant.replace("+", "-")
        chart = charts.draw_confusion(rows, name, f"Wanted and picked tool, {variant}")
        blocks += [Picture(chart)] if chart else []
    return make_section("confusion", "Wanted tool and picked tool", blocks, "Tool picks")


def _confusion_grid(found: Findings) -> Grid:
    rows = []
    for (endpoint, way, variant), part in found.arms.items():
        base = found.arms.get((endpoint, way, found.base))
        usual = Counter() if base is None else _wrong(_same_tasks(base, part))
        for (wanted, picked), times in _wrong(part).most_common(_CONFUSIONS):
            named = (variant, name_way(way), wanted, picked)
            here = str(usual[wanted, picked])
            cells = (Cell(str(times), sort=times), Cell(here, sort=usual[wanted, picked]))
            rows.append((*map(Cell, named), *cells, Cell(endpoint)))
    header = ("description", "way", "wanted", "picked", "times", f"with {found.base}", "endpoint")
    caption = f"The most frequent confusions, and how often they occur with {found.base} on the same tasks"
    return Grid(caption, header, tuple(rows))


def _same_tasks(base: Any, part: Any) -> Any:
    return base[base["task_id"].isin(set(part["task_id"]))]


def _wrong(rows: Any) -> Counter[tuple[str, str]]:
    pairs = (pair for found in tables.scope(rows, "kept")["pairs"] for pair in found)
    return Counter((wanted, picked) for wanted, picked in pairs if wanted != picked)


def category_section(found: Findings) -> Section:
    """Count what changes by category."""
    text = "Task success by category: counts, no tests. No part of the tasks was planned to be compared."
    grids = [_category_grid(found, e, w) for e in found.endpoints for w in found.ways(e)]
    return make_section("groups", "Which questions it changes", (Prose(text), *grids), "Categories")


def _category_grid(found: Findings, endpoint: str, way: str) -> Grid:
    own = [e for e in found.effects if (e.endpoint, e.way) == (endpoint, way) and e.group]
    groups = list(dict.fromkeys(effect.group for effect in own))
    rows = []
    for variant in found.variants[1:]:
        by_group = {effect.group: effect for effect in own if effect.variant == variant}
        rows.append((Cell(variant), *(_category_cell(by_group.get(group)) for group in groups)))
    header = ("description", *(group.replace("_", " ") for group in groups))
    caption = f"{endpoint}, {name_way(way)}: points of task success against {found.base}"
    return Grid(caption, header, tuple(rows))


def _category_cell(effect: Effect | None) -> Cell:
    if effect is None:
        return Cell("–")
    value = effect.difference.estimate
    note = f"{effect.base.top} → {effect.told.top} of {effect.told.below}"
    return Cell(words.amount(effect, value), note, value)


def left_out_section(found: Findings) -> Section:
    """Say which tasks count."""
    rows = []
    for endpoint in found.endpoints:
        for variant in found.variants:
            frame = found.frame
            own = frame[(frame["endpoint"] == endpoint) & (frame["variant"] == variant)]
            rows.append((Cell(variant), *_completion_cells(own), Cell(endpoint)))
    header = (
        *("description", "tasks, with trials", "whole in every way", "an endpoint failed"),
        *("left their recording", "not run in every way", "endpoint"),
    )
    text = (
        "A task and trial that is not whole in every way is left out of success, picks and cost in all "
        "ways of that description, and in the base where the two are compared."
    )
    grid = Grid("What counts", header, tuple(rows))
    return make_section("endings", "What is left out", (Prose(text), grid), "Left out")


def _completion_cells(rows: Any) -> Iterator[Cell]:
    done = next(iter(tables.completion_table(rows).values()))
    for number in (done.planned, done.kept, done.endpoint, done.left_recording, done.unfinished):
        share = f"{percent(done.kept / done.planned)}" if number is done.kept else ""
        yield Cell(str(number), share, float(number))


_PLANNED = (
    (
        "planned: task success and wrong tool picks, Holm over the descriptions of one way and measure "
        f"({stats.QUICK:,} flips)."
    ),
)


def method_section(found: Findings, planned: Sequence[str] = _PLANNED) -> Section:
    """Say how everything is counted; `planned` says which comparisons were planned, and how."""
    items = [f"{measure.label}: {measure.meaning}." for measure in MEASURES]
    items += [
        *planned,
        "unit: one question in both languages; languages and trials are nested in it.",
        (
            f"difference: description minus {found.base}, per unit, over the units in which both have a "
            "denominator; interval: BCa bootstrap over units, 95 %."
        ),
        (
            "p: sign-flip permutation over units, exact where few of them differ. All that was not "
            "planned is exploratory: Benjamini-Hochberg over an endpoint."
        ),
        (
            "way and description together: the difference of the two ways' differences, per unit, with the "
            "same permutation and bootstrap; Benjamini-Hochberg over an endpoint."
        ),
        (
            f"not enough data: no difference is shown, and one of {stats.MARGIN * 100:g} points or more is "
            f"not excluded. Under {stats.FEW} units only counts are told."
        ),
        (
            "The figures hold for these tools, tasks and models. A description that does nothing here may "
            "matter for tools that are harder to tell apart."
        ),
    ]
    return make_section("words", "How it is counted", (Bullets(tuple(items)),), "Method")
