"""Write the report of the experiment on descriptions, from its run folder alone.

A pure function of the lines and the manifest, laid out as a `Document` of `bench.report`. Texts of
models and of descriptions are hostile: bounded here, escaped where they are written.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import charts, stats, tables
from bench.findings import name_way, percent, tell_note
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
from bench.report.cells import of, span
from bench.show import printable
from bench.tables import Line, Measure, Rate
from bench.texts import say
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
    rest = [note for note in notes if note not in scripted]
    return list(map(tell_note, scripted)), list(map(tell_note, rest))


def summarize(found: Findings) -> str:
    """Return what ends a run: each endpoint's answer, then a row for each description."""
    told, _ = scripted_first(found.manifest)
    told += [words.headline(endpoint, found.effects, found.base) for endpoint in found.endpoints]
    told += [words.tell_interaction(one) for one in surest(found.interactions)]
    rows = [(e.endpoint, name_way(e.way), e.variant, *_summed(e)) for e in _successes(found)]
    head = (
        *(say("endpoint"), say("driver"), say("description"), found.base),
        *(say("so told"), say("points"), say("what it shows")),
    )
    text = "\n".join(told) + "\n\n" + align([head, *rows])
    return printable(text.replace("\u00a0", " "))


def _successes(found: Findings) -> list[Effect]:
    return [e for e in found.effects if e.measure.name == "success" and not e.group]


def _summed(effect: Effect) -> tuple[str, ...]:
    sums = [f"{rate.top}/{rate.below}" for rate in (effect.base, effect.told)]
    return (*sums, words.amount(effect, effect.difference.estimate), say(effect.word))


def align(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of texts as columns."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(_pad, row, widths)).rstrip() for row in rows)


def _width(text: str) -> int:
    """Return how many columns a text takes: a Chinese character takes two."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


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
    about = say(
        "{models}: {n} episodes, run {name}",
        models=", ".join(models),
        n=len(found.frame),
        name=found.name,
    )
    return Document(say("What does a tool's description do?"), about, sections)


def make_section(name: str, title: str, blocks: Sequence[Block], short: str = "") -> Section:
    """Make a section whose name in the index may be shorter."""
    return Section(name, short or title, title, tuple(blocks))


def lay_notes(notes: Sequence[str]) -> list[Block]:
    """Lay out what a run notes, and why its figures are not in the language spoken."""
    told = [*notes, *([say(charts.NO_LETTERS)] if charts.lacks_letters() else [])]
    return [Prose(say("Note: {note}", note=note)) for note in told]


def _answer(found: Findings) -> Section:
    scripted, notes = scripted_first(found.manifest)
    headlines = [words.headline(name, found.effects, found.base) for name in found.endpoints]
    blocks: list[Block] = [Prose(text, strong=True) for text in (*scripted, *headlines)]
    said = [words.tell_interaction(one) for one in surest(found.interactions)]
    said += [words.tell_overall(one) for one in found.overall]
    blocks += [Bullets(tuple(said))] if said else []
    blocks += lay_notes(notes)
    chart = draw_effects(found.effects, MEASURES[:2], found.base)
    blocks += [Picture(chart)] if chart else []
    blocks += asked(found.manifest)
    return make_section("answer", say("The answer"), blocks, say("Answer"))


def _variants(found: Findings) -> Section:
    told = found.manifest.get("told")
    told = told if isinstance(told, Mapping) else {}
    rows = []
    for variant in found.variants:
        entry = told.get(variant)
        entry = entry if isinstance(entry, Mapping) else {}
        tasks = _count_tasks(found.frame[found.frame["variant"] == variant])
        says, *texts = (str(entry.get(name) or "–")[:1500] for name in ("says", "en", "zh"))
        changed = str(entry.get("tools", "–"))
        rows.append((Cell(variant), *map(Cell, (say(says), changed, tasks, *texts))))
    header = (
        *(say("description"), say("what it is"), say("tools told otherwise"), say("tasks")),
        *(say("such as"), say("in Chinese")),
    )
    intro = say(
        "Every description is held against {base} on the same tasks. A task that offers no tool "
        "which the description tells otherwise is left out for it.",
        base=found.base,
    )
    grid = Grid(say("Their texts, by one of the tools"), header, tuple(rows), folded=True)
    blocks = (Prose(intro), grid)
    return make_section("descriptions", say("The descriptions"), blocks, say("Descriptions"))


def _count_tasks(rows: Any) -> str:
    tasks, units = rows["task_id"].nunique(), rows["pair"].nunique()
    return say("{n} ({units} units)", n=tasks, units=units)


def measure_sections(found: Findings) -> Iterator[Section]:
    """Lay out every measure of every way, then what it costs."""
    intro = Prose(
        say(
            "For each way: the share with {base} and with the description, each with its count, its "
            "denominator and its 95 % interval in percent, on the tasks that both have whole; then "
            "the difference, the mean over units, with its 95 % interval.",
            base=found.base,
        )
    )
    shares = [m for m in MEASURES if m not in MEANS]
    grids = [_measure_grid(found, e, m) for e in found.endpoints for m in shares]
    yield make_section("measures", say("Measure by measure"), (intro, *grids), say("Measures"))
    costs = [_measure_grid(found, e, m) for e in found.endpoints for m in MEANS]
    yield make_section("cost", say("What a description costs"), costs, say("Cost"))


def _measure_grid(found: Findings, endpoint: str, measure: Measure) -> Grid:
    header = [say("description")]
    for way in map(name_way, found.ways(endpoint)):
        header += [
            *(say("{way}: {base}", way=way, base=found.base), say("{way}: so told", way=way)),
            *(say("{way}: difference", way=way), say("what it shows")),
        ]
    rows = [
        (Cell(variant), *_measure_cells(found, endpoint, variant, measure))
        for variant in found.variants
        if variant != found.base
    ]
    caption = say(
        "{where}: {measure} ({meaning})",
        where=endpoint,
        measure=say(measure.label),
        meaning=say(measure.meaning),
    )
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
        return Cell("–", of(0, 0))
    if effect.measure in MEANS:
        note = say("{n} episodes", n=rate.below)
        return Cell(words.level(effect, told=told), note, rate.value)
    note = of(rate.top, rate.below)
    if rate.interval is not None:
        low, high = f"{rate.interval.low * 100:.1f}", f"{rate.interval.high * 100:.1f}"
        note += f"; {span(low, high)}"
    return Cell(words.level(effect, told=told), note, rate.value)


def _difference_cell(effect: Effect) -> Cell:
    d = effect.difference
    if not d.units:
        return Cell("–", say("no unit has both"))
    note = say("{n} units", n=d.units)
    if d.interval is not None:
        low, high = words.amount(effect, d.interval.low), words.amount(effect, d.interval.high)
        note += f"; {span(low, high)}"
    return Cell(words.amount(effect, d.estimate), note, d.estimate)


def interaction_section(found: Findings) -> Section:
    """Tell for every variant whether it does more to one way."""
    title = say("Does a description do more to one way than to the other?")
    short = say("Way and description")
    if not found.interactions:
        text = say("This takes ReAct and native side by side, read at the same level.")
        return make_section("interaction", title, (Prose(text),), short)
    chart = draw_interactions(found.interactions)
    told = Bullets(tuple(words.tell_interaction(one) for one in found.interactions))
    blocks: list[Block] = [Picture(chart)] if chart else []
    return make_section("interaction", title, (*blocks, told), short)


def confusion_section(found: Findings) -> Section:
    """Show wanted against picked tools, a figure a variant."""
    text = say(
        "Rows are the tools that a task wants, columns the tools that were picked; the last row "
        "holds calls where none was wanted, the last column wanted calls that were never made. "
        "Green is right. Tools go by their own names, whatever name was shown."
    )
    blocks: list[Block] = [Prose(text), _confusion_grid(found)]
    for variant in found.variants:
        rows = found.frame[found.frame["variant"] == variant]
        name = "confusion-" + variant.replace("+", "-")
        title = say("Wanted and picked tool, {variant}", variant=variant)
        chart = charts.draw_confusion(rows, name, title)
        blocks += [Picture(chart)] if chart else []
    title = say("Wanted tool and picked tool")
    return make_section("confusion", title, blocks, say("Tool picks"))


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
    header = (
        *(say("description"), say("way"), say("wanted"), say("picked"), say("times")),
        *(say("with {base}", base=found.base), say("endpoint")),
    )
    caption = say(
        "The most frequent confusions, and how often they occur with {base} on the same tasks",
        base=found.base,
    )
    return Grid(caption, header, tuple(rows))


def _same_tasks(base: Any, part: Any) -> Any:
    return base[base["task_id"].isin(set(part["task_id"]))]


def _wrong(rows: Any) -> Counter[tuple[str, str]]:
    pairs = (pair for found in tables.scope(rows, "kept")["pairs"] for pair in found)
    return Counter((wanted, picked) for wanted, picked in pairs if wanted != picked)


def category_section(found: Findings) -> Section:
    """Count what changes by category."""
    text = say(
        "Task success by category: counts, no tests. No part of the tasks was planned to be compared."
    )
    grids = [_category_grid(found, e, w) for e in found.endpoints for w in found.ways(e)]
    title = say("Which questions it changes")
    return make_section("groups", title, (Prose(text), *grids), say("Categories"))


def _category_grid(found: Findings, endpoint: str, way: str) -> Grid:
    own = [e for e in found.effects if (e.endpoint, e.way) == (endpoint, way) and e.group]
    groups = list(dict.fromkeys(effect.group for effect in own))
    rows = []
    for variant in found.variants[1:]:
        by_group = {effect.group: effect for effect in own if effect.variant == variant}
        rows.append((Cell(variant), *(_category_cell(by_group.get(group)) for group in groups)))
    header = (say("description"), *(group.replace("_", " ") for group in groups))
    caption = say(
        "{where}, {way}: points of task success against {base}",
        where=endpoint,
        way=name_way(way),
        base=found.base,
    )
    return Grid(caption, header, tuple(rows))


def _category_cell(effect: Effect | None) -> Cell:
    if effect is None:
        return Cell("–")
    value = effect.difference.estimate
    note = say(
        "{old} → {new} of {of}",
        old=effect.base.top,
        new=effect.told.top,
        of=effect.told.below,
    )
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
        *(say("description"), say("tasks, with trials"), say("whole in every way")),
        *(say("an endpoint failed"), say("left their recording"), say("not run in every way")),
        say("endpoint"),
    )
    text = say(
        "A task and trial that is not whole in every way is left out of success, picks and cost in all "
        "ways of that description, and in the base where the two are compared."
    )
    grid = Grid(say("What counts"), header, tuple(rows))
    return make_section("endings", say("What is left out"), (Prose(text), grid), say("Left out"))


def _completion_cells(rows: Any) -> Iterator[Cell]:
    done = next(iter(tables.completion_table(rows).values()))
    for number in (done.planned, done.kept, done.endpoint, done.left_recording, done.unfinished):
        share = f"{percent(done.kept / done.planned)}" if number is done.kept else ""
        yield Cell(str(number), share, float(number))


def _planned() -> tuple[str, ...]:
    told = say(
        "planned: task success and wrong tool picks, Holm over the descriptions of one way and measure "
        "({flips} flips).",
        flips=f"{stats.QUICK:,}",
    )
    return (told,)


def method_section(found: Findings, planned: Sequence[str] = ()) -> Section:
    """Say how everything is counted; `planned` says which comparisons were planned, and how."""
    items = [
        say("{name}: {meaning}.", name=say(measure.label), meaning=say(measure.meaning))
        for measure in MEASURES
    ]
    items += [*(planned or _planned()), *_method(found.base)]
    return make_section("words", say("How it is counted"), (Bullets(tuple(items)),), say("Method"))


def _method(base: str) -> Iterator[str]:
    yield say("unit: one question in both languages; languages and trials are nested in it.")
    yield say(
        "difference: description minus {base}, per unit, over the units in which both have a "
        "denominator; interval: BCa bootstrap over units, 95 %.",
        base=base,
    )
    yield say(
        "p: sign-flip permutation over units, exact where few of them differ. All that was not "
        "planned is exploratory: Benjamini-Hochberg over an endpoint."
    )
    yield say(
        "way and description together: the difference of the two ways' differences, per unit, with the "
        "same permutation and bootstrap; Benjamini-Hochberg over an endpoint."
    )
    yield say(
        "not enough data: no difference is shown, and one of {margin} points or more is not excluded. "
        "Under {few} units only counts are told.",
        margin=f"{stats.MARGIN * 100:g}",
        few=stats.FEW,
    )
    yield say(
        "The figures hold for these tools, tasks and models. A description that does nothing here may "
        "matter for tools that are harder to tell apart."
    )
