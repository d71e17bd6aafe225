"""Write a run's report: report.md, report.html and the figures, from the run folder alone.

A pure function of what the folder holds: no model, no network, no clock; twice from the same
folder gives the same bytes. What a report says stands in `bench.findings` and `bench.tables`; here
it is laid out as a `Document`, and a document is written as Markdown or as a page. All text of
models, tools and people is hostile: bounded, made visible, and escaped where it is written.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from bench import charts, findings, stats, tables
from bench.findings import KINDS, STOPS, Facts, name_way, percent, points
from bench.records import RunFolder, reading_from_json
from bench.tables import MEASURES, Arm, Line, Measure, Rate
from bench.types import WorkbenchError
from parsers import LEVELS
from parsers.types import PRECEDENCE

EXAMPLES = 5
"""Verbatim examples of each kind of failure, at most."""
_LONG = 1_600
"""Characters of a reply that are shown."""
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table; `note` is smaller (a denominator, an interval), `sort` its number."""

    text: str
    note: str = ""
    sort: float | None = None


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    kind: ClassVar[str] = "prose"
    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    kind: ClassVar[str] = "bullets"
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; the first cell of a row names it."""

    kind: ClassVar[str] = "grid"
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure."""

    kind: ClassVar[str] = "picture"
    chart: charts.Chart


@dataclass(frozen=True, slots=True)
class Quote:
    """A verbatim text: who said it, what was found in it, and the text itself."""

    kind: ClassVar[str] = "quote"
    title: str
    about: str
    text: str
    pointed: str = ""
    """The place in the text that a failure is about, with a caret under it."""
    folded: bool = False


Block = Prose | Bullets | Grid | Picture | Quote


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its blocks; `id` is its anchor, `short` its name in the page's index."""

    id: str
    short: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A report, not yet written in any form."""

    title: str
    about: str
    sections: tuple[Section, ...]

    @property
    def charts(self) -> tuple[charts.Chart, ...]:
        """The figures, in order."""
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(block.chart for block in blocks if isinstance(block, Picture))


@dataclass(frozen=True, slots=True)
class Analysis:
    """A run with its tables made; every page about it rests on this."""

    name: str
    manifest: Mapping[str, Any]
    lines: Sequence[Line] = field(repr=False)
    facts: Mapping[str, Facts] = field(repr=False)
    frame: Any = field(repr=False)
    """`tables.episode_table` of the lines."""

    @property
    def measures(self) -> dict[Arm, Mapping[str, Rate]]:
        """Every arm's measures."""
        return {key: table for f in self.facts.values() for key, table in f.measures.items()}

    @property
    def trials(self) -> int:
        """How often every task was tried."""
        return int(self.frame["trial"].max()) + 1


def analyse(folder: RunFolder) -> Analysis:
    """Read a run folder and make its tables; raises `WorkbenchError` where it holds no episode."""
    lines = list(folder.lines())
    if not lines:
        raise WorkbenchError(f"{folder.path}: holds no finished episode; resume the run first")
    frame = tables.episode_table(lines)
    return Analysis(folder.path.name, folder.manifest, lines, _facts(frame), frame)


def _facts(frame: Any) -> dict[str, Facts]:
    measures, levels = tables.measure_table(frame), tables.level_table(frame)
    kinds, costs = tables.count_kinds(frame), tables.cost_table(frame)
    compared, completion = tables.comparisons(frame), tables.completion_table(frame)
    models = frame.groupby("endpoint")["model"].unique()

    def own(table: Mapping[Arm, Any], endpoint: str) -> dict[Arm, Any]:
        return {key: value for key, value in table.items() if key[0] == endpoint}

    return {
        endpoint: Facts(
            endpoint,
            tuple(sorted(map(str, models[endpoint]))),
            own(measures, endpoint),
            own(levels, endpoint),
            own(kinds, endpoint),
            own(costs, endpoint),
            tuple(c for c in compared if c.endpoint == endpoint),
            completion[endpoint],
        )
        for endpoint in dict.fromkeys(key[0] for key in measures)
    }


def write_report(folder: RunFolder, analysis: Analysis | None = None) -> tuple[Path, Path]:
    """Write report.md, report.html and the figures into a run folder; return the two paths."""
    return write_document(folder.path, compose(analysis or analyse(folder)))


def write_document(path: Path, document: Document) -> tuple[Path, Path]:
    """Write a document and its figures into a folder; return the two paths."""
    try:
        for chart in document.charts:
            (path / f"{chart.name}.png").write_bytes(chart.png)
        markdown, page = path / "report.md", path / "report.html"
        markdown.write_text(to_markdown(document), encoding="utf-8", newline="\n")
        page.write_text(to_html(document), encoding="utf-8", newline="\n")
    except OSError as error:
        raise WorkbenchError(f"{path}: can't write the report here ({error.strerror})") from None
    return markdown, page


# ---------------------------------------------------------------- what a report holds


def compose(analysis: Analysis) -> Document:
    """Lay a run's report out: the answer first, the manifest last."""
    sections = (
        _answer(analysis),
        _measures(analysis),
        _levels(analysis),
        _failures(analysis),
        _confusion(analysis),
        _groups(analysis),
        _costs(analysis),
        _endings(analysis),
        _limits(analysis),
        _examples(analysis),
        _words(),
        manifest_section(analysis.manifest),
    )
    models = sorted({model for facts in analysis.facts.values() for model in facts.models})
    about = f"{', '.join(models)}: {len(analysis.lines)} episodes, run {analysis.name}"
    return Document("ReAct text or native tool calls?", about, sections)


def _answer(analysis: Analysis) -> Section:
    blocks: list[Block] = []
    for facts in analysis.facts.values():
        blocks.append(Prose(findings.headline(facts), strong=True))
        said = [findings.how_sure(facts), *findings.why(facts)]
        said += [findings.cost_sentence(facts), findings.others(facts)]
        blocks.append(Bullets(tuple(filter(None, said))))
    blocks += [Prose(f"Note: {note}") for note in _notes(analysis.manifest)]
    blocks.append(Picture(charts.draw_success(analysis.measures)))
    blocks += asked(analysis.manifest)
    return Section("answer", "Answer", "The answer", tuple(blocks))


def _notes(manifest: Mapping[str, Any]) -> list[str]:
    notes = manifest.get("notes") or []
    return [str(note) for note in ([notes] if isinstance(notes, str) else notes)]


def asked(manifest: Mapping[str, Any]) -> Iterator[Block]:
    """Say which endpoints were asked, and which of them serve the same weights."""
    listed = manifest.get("endpoints")
    entries = [e for e in listed if isinstance(e, Mapping)] if isinstance(listed, list) else []
    rows, weights = [], defaultdict(list)
    for entry in entries:
        recorded = entry.get("recorded") or {}
        notes = recorded.get("notes") or entry.get("notes") or {}
        notes = notes if isinstance(notes, Mapping) else {"note": notes}
        name = str(entry.get("name"))
        weights[str(notes.get("weights") or name)].append(name)
        told = "; ".join(f"{key}: {value}" for key, value in notes.items())
        machine = str(recorded.get("machine") or manifest.get("machine") or "")
        cells = (str(entry.get("model")), str(entry.get("host") or ""), machine, told)
        rows.append((Cell(name), *(Cell(_cut(text, 400) or "–") for text in cells)))
    for names in weights.values():
        if len(names) > 1:
            told = " and ".join(names)
            yield Prose(
                f"{told} serve the same weights. What differs between them is the server's part "
                "(chat template, call parser), not the model's."
            )
    if rows:
        header = ("endpoint", "model", "host", "machine", "notes")
        yield Grid("What was asked", header, tuple(rows))


def _rate_cell(rate: Rate) -> Cell:
    """Write a rate with its denominator and its interval."""
    if rate.value is None:
        return Cell("–", "0 of 0")
    note = f"{rate.top} of {rate.below}"
    if rate.interval is not None:
        note += f"; {rate.interval.low * 100:.1f} to {rate.interval.high * 100:.1f}"
    return Cell(percent(rate.value), note, rate.value)


def _measures(analysis: Analysis) -> Section:
    blocks: list[Block] = [
        Prose(
            "Each share stands with its count, its denominator and its 95 % interval in percent. "
            "The difference is the mean over units, in points. Parse measures count first attempts: "
            "replies that answer no correction."
        )
    ]
    blocks += [_measure_grid(facts) for facts in analysis.facts.values()]
    for endpoint, facts in analysis.facts.items():
        blocks += _pass_grid(endpoint, facts, analysis)
    return Section("measures", "Measures", "Both ways, measure by measure", tuple(blocks))


def _measure_grid(facts: Facts) -> Grid:
    main = facts.main
    header = ["measure", *(name_way(arm) for arm in facts.arms)]
    if main is not None:
        header += [f"{name_way(main.first)} minus {name_way(main.second)}", "what it shows"]
    rows = [_measure_row(facts, measure) for measure in MEASURES]
    return Grid(facts.endpoint, tuple(header), tuple(rows))


def _measure_row(facts: Facts, measure: Measure) -> tuple[Cell, ...]:
    main = facts.main
    cells = [Cell(measure.label, measure.meaning)]
    cells += [_rate_cell(facts.rate(arm, measure.name)) for arm in facts.arms]
    if main is None:
        return tuple(cells)
    pair = (main.first, main.second)
    compared = next(
        c
        for c in facts.comparisons
        if (c.first, c.second) == pair and c.measure == measure and not c.group
    )
    return (*cells, *_difference_cells(compared))


def _difference_cells(compared: tables.Comparison) -> tuple[Cell, Cell]:
    d = compared.difference
    if not d.units:
        return Cell("–", "no unit has both"), Cell("–")
    note = f"{d.units} units"
    if d.interval is not None:
        note += f"; {points(d.interval.low)} to {points(d.interval.high)}"
    return Cell(points(d.estimate), note, d.estimate), Cell(findings.surely(compared))


def _pass_grid(endpoint: str, facts: Facts, analysis: Analysis) -> list[Block]:
    if analysis.trials < 2:
        return []
    table = tables.pass_table(analysis.frame[analysis.frame["endpoint"] == endpoint])
    most = max(len(row) for row in table.values())
    header = ("way", *(f"pass^{k}" for k in range(1, most + 1)))
    rows = tuple(
        (Cell(name_way(arm)), *(Cell(percent(v), sort=v) for v in table[endpoint, arm].values()))
        for arm in facts.arms
    )
    return [Grid(f"{endpoint}: the chance that k trials of a task all succeed", header, rows)]


def _levels(analysis: Analysis) -> Section:
    blocks: list[Block] = [
        Prose(
            "The same first replies, read three times. Strict mends nothing. Hardened mends what has "
            "only one reading; the run acted on it unless a way says otherwise. Rescue also reads "
            "calls outside their channel. What changes from level to level is form; what stays is "
            "choice."
        )
    ]
    every = {key: t for facts in analysis.facts.values() for key, t in facts.levels.items()}
    if every:
        blocks.append(Picture(charts.draw_levels(every)))
    for facts in analysis.facts.values():
        told = findings.explain_levels(facts)
        blocks += [Bullets(tuple(told))] if told else []
        rows = tuple(
            (Cell(name_way(arm)), Cell(level), *map(_rate_cell, rates))
            for (_, arm), by_level in facts.levels.items()
            for level in LEVELS
            for rates in [
                (by_level[level].unreadable, by_level[level].right, by_level[level].attempts)
            ]
        )
        header = ("way", "read", "first replies unreadable", "right first move")
        blocks.append(Grid(facts.endpoint, (*header, "all first attempts unreadable"), rows))
    return Section("levels", "Levels", "The gap by level: form or choice", tuple(blocks))


def _failures(analysis: Analysis) -> Section:
    every = {key: t for facts in analysis.facts.values() for key, t in facts.kinds.items()}
    chart = charts.draw_failures(every, analysis.measures)
    blocks: list[Block] = (
        [Picture(chart)] if chart else [Prose("Every first attempt could be read.")]
    )
    later = tables.count_kinds(analysis.frame, "corrected_failures")
    repairs = tables.count_kinds(analysis.frame, "repairs")
    lost = tables.count_kinds(analysis.frame, "endpoint_failures", everything=True)
    for facts in analysis.facts.values():
        blocks += _count_grid(
            facts, facts.kinds, "parse failures of first attempts", "parse_failure"
        )
        blocks += _count_grid(facts, later, "of replies to a correction", "recovered")
        blocks += _count_grid(facts, repairs, "repairs in readable replies", "repaired")
        blocks += _count_grid(facts, lost, "failures of the endpoint, never charged", None)
    return Section("failures", "Failures", "Failures by kind, side by side", tuple(blocks))


def _count_grid(
    facts: Facts, table: Mapping[Arm, Mapping[str, int]], what: str, measure: str | None
) -> list[Block]:
    """Return a table of counts by name, each with the measure's denominator; none where empty."""
    own = {arm: table.get((facts.endpoint, arm), {}) for arm in facts.arms}
    names = list(dict.fromkeys(name for counts in own.values() for name in counts))
    if not names:
        return []
    rows = [
        (
            Cell(name, KINDS.get(name, "")),
            *(_count_cell(facts, arm, own[arm].get(name, 0), measure) for arm in facts.arms),
        )
        for name in sorted(names, key=_place)
    ]
    header = ("kind", *(name_way(arm) for arm in facts.arms))
    return [Grid(f"{facts.endpoint}: {what}", header, tuple(rows))]


def _count_cell(facts: Facts, arm: str, count: int, measure: str | None) -> Cell:
    below = facts.rate(arm, measure).below if measure else 0
    note = f"{percent(count / below)} of {below}" if below else ""
    return Cell(str(count), note, float(count))


def _place(kind: str) -> tuple[int, str]:
    order: Sequence[str] = PRECEDENCE
    return (order.index(kind) if kind in order else len(order), kind)


def _confusion(analysis: Analysis) -> Section:
    chart = charts.draw_confusion(analysis.frame)
    intro = (
        "Rows are the tools that a task wants, columns the tools that were picked. The last row holds "
        "calls where none was wanted, the last column wanted calls that were never made. Green is "
        "right. Only readable calls count."
    )
    blocks: list[Block] = [Prose(intro)]
    if chart is None:
        return Section(
            "confusion",
            "Tool picks",
            "Wanted tool and picked tool",
            (Prose("No tool was wanted."),),
        )
    blocks.append(Picture(chart))
    for key, rows in tables.arms(analysis.frame).items():
        blocks += _matrix_grids(key, tables.confusion(rows))
    return Section("confusion", "Tool picks", "Wanted tool and picked tool", tuple(blocks))


def _matrix_grids(key: Arm, matrix: Any) -> list[Block]:
    names, cells = [str(name) for name in matrix.index], matrix.to_numpy().tolist()
    title = f"{key[0]}, {name_way(key[1])}"
    wrong = sorted(
        (-count, names[y], names[x])
        for y, row in enumerate(cells)
        for x, count in enumerate(row)
        if count and x != y
    )
    listed = tuple((Cell(y), Cell(x), Cell(str(-n), sort=float(-n))) for n, y, x in wrong[:8])
    full = tuple(
        (Cell(name), *(Cell(str(n) if n else "·", sort=float(n)) for n in row))
        for name, row in zip(names, cells, strict=True)
    )
    grids: list[Block] = []
    if listed:
        grids.append(
            Grid(f"{title}: most frequent confusions", ("wanted", "picked", "times"), listed)
        )
    if len(names) > 1:
        header = ("wanted \\ picked", *names)
        grids.append(Grid(f"{title}: the whole matrix", header, full, folded=True))
    return grids


def _groups(analysis: Analysis) -> Section:
    by_category = tables.group_table(analysis.frame, "category")
    by_lang = tables.group_table(analysis.frame, "lang")
    blocks: list[Block] = []
    if by_category:
        blocks.append(Picture(charts.draw_categories(by_category)))
    for table, title in ((by_category, "by category"), (by_lang, "by language")):
        blocks += [_group_grid(facts, table, title) for facts in analysis.facts.values()]
    return Section("groups", "Categories", "Success by category and language", tuple(blocks))


def _group_grid(facts: Facts, table: Mapping[str, Mapping[Arm, Rate]], title: str) -> Grid:
    main = facts.main
    header = ["", *(name_way(arm) for arm in facts.arms)]
    if main is not None:
        header += [f"{name_way(main.first)} minus {name_way(main.second)}", "what it shows"]
    rows = []
    for group, rates in table.items():
        empty = Rate(0, 0, 0, None)
        cells = [_rate_cell(rates.get((facts.endpoint, arm), empty)) for arm in facts.arms]
        name = {"en": "English", "zh": "Chinese"}.get(group, group.replace("_", " "))
        rows.append((Cell(name), *cells, *_group_difference(facts, group)))
    return Grid(f"{facts.endpoint}: task success {title}", tuple(header), tuple(rows))


def _group_difference(facts: Facts, group: str) -> tuple[Cell, ...]:
    main = facts.main
    if main is None:
        return ()
    pair = (main.first, main.second)
    for compared in facts.comparisons:
        if compared.group == group and (compared.first, compared.second) == pair:
            return _difference_cells(compared)
    return (Cell("–"), Cell("–"))


def _costs(analysis: Analysis) -> Section:
    intro = (
        "Means over the tasks that every way finished. Failed replies and their corrections are in "
        "the sums. The first request holds the question, the tools and what the way adds to them."
    )
    blocks: list[Block] = [Prose(intro)]
    for facts in analysis.facts.values():
        blocks.append(_cost_grid(facts))
        blocks.append(Prose(_addition(facts)))
    blocks += _prompts(analysis)
    return Section(
        "cost", "Cost", "Tokens and seconds, and what each way adds to the prompt", tuple(blocks)
    )


_COST_ROWS = (
    ("prompt", "prompt tokens", "{:,.0f}"),
    ("cached", "of these, cached", "{:,.0f}"),
    ("completion", "completion tokens", "{:,.0f}"),
    ("reasoning", "of these, reasoning", "{:,.0f}"),
    ("first_prompt", "prompt tokens of the first request", "{:,.0f}"),
    ("replies", "replies", "{:.2f}"),
    ("seconds", "seconds of waiting for the model", "{:.2f}"),
    ("first_token", "seconds to the first token", "{:.2f}"),
    ("per_1000_tokens", "tasks solved per 1,000 tokens", "{:.3f}"),
    ("per_second", "tasks solved per second", "{:.3f}"),
    ("unmetered", "replies without a token count", "{:,.0f}"),
    ("retries", "requests sent again", "{:,.0f}"),
    ("episodes", "episodes", "{:,.0f}"),
)


def _cost_grid(facts: Facts) -> Grid:
    arms = [arm for arm in facts.arms if (facts.endpoint, arm) in facts.costs]
    rows = []
    for name, label, form in _COST_ROWS:
        values = [getattr(facts.costs[facts.endpoint, arm], name) for arm in arms]
        cells = [Cell("not told") if v is None else Cell(form.format(v), sort=v) for v in values]
        rows.append((Cell(label), *cells))
    header = ("an episode", *map(name_way, arms))
    return Grid(f"{facts.endpoint}: cost of an episode", header, tuple(rows))


def _addition(facts: Facts) -> str:
    """Say what the longer first prompt costs."""
    known = {
        arm: cost.first_prompt
        for (_, arm), cost in facts.costs.items()
        if cost.first_prompt is not None
    }
    if len(known) < 2:
        return f"{facts.endpoint}: the endpoint did not tell the prompt tokens of both ways."
    least = min(known, key=lambda arm: known[arm])
    more = "; ".join(
        f"{name_way(arm)} {tokens - known[least]:+,.0f}"
        for arm, tokens in known.items()
        if arm != least
    )
    return (
        f"{facts.endpoint}: the first request of a task takes {known[least]:,.0f} prompt tokens with "
        f"{name_way(least)}; against that, {more}. Only what a way adds differs: format rules, tool "
        "list and example in ReAct's text, the server's own rendering of the tools in native."
    )


def _prompts(analysis: Analysis) -> Iterator[Block]:
    """Show the system message of one task for every way and language."""
    seen: set[tuple[str, str]] = set()
    for line in analysis.lines:
        key = (tables.arm_label(line), str(line.get("lang")))
        text = _system_message(line)
        if key in seen or not text:
            continue
        seen.add(key)
        where = f"{name_way(key[0])}, {key[1]}: what is sent before the question"
        yield Quote(where, f"task {line['task_id']}, {len(text):,} characters", text, folded=True)


def _system_message(line: Line) -> str:
    turns = line.get("turns") or []
    sent = turns[0].get("sent") or [] if turns else []
    texts = [m.get("content") for m in sent if isinstance(m, Mapping) and m.get("role") == "system"]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _endings(analysis: Analysis) -> Section:
    stops = tables.stop_table(analysis.frame)
    blocks: list[Block] = [
        Bullets(tuple(findings.completion_sentence(f) for f in analysis.facts.values()))
    ]
    for facts in analysis.facts.values():
        own = {arm: stops.get((facts.endpoint, arm), {}) for arm in facts.arms}
        names = [name for name in STOPS if any(name in counts for counts in own.values())]
        rows = tuple(
            (Cell(name, STOPS[name]), *(Cell(str(own[arm].get(name, 0))) for arm in facts.arms))
            for name in names
        )
        total = (Cell("all episodes"), *(Cell(str(sum(own[arm].values()))) for arm in facts.arms))
        header = ("ended with", *(name_way(arm) for arm in facts.arms))
        blocks.append(Grid(facts.endpoint, header, (*rows, total)))
    return Section("endings", "Endings", "How the episodes ended, and which count", tuple(blocks))


def _limits(analysis: Analysis) -> Section:
    every = list(analysis.facts.values())
    said = findings.limits(every, analysis.manifest, analysis.trials)
    said += [findings.changes(name, *named) for name, named in _named(analysis.lines).items()]
    said = [text for text in said if text]
    return Section("limits", "Limits", "What these data can not say", (Bullets(tuple(said)),))


def _named(lines: Iterable[Line]) -> dict[str, tuple[set[str], set[str]]]:
    """Return for each endpoint the models and the fingerprints that its answers named."""
    named: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for line in lines:
        for turn in line.get("turns") or ():
            reply = turn.get("reply") or {}
            for seen, name in zip(
                named[str(line.get("endpoint"))], ("model", "fingerprint"), strict=True
            ):
                if reply.get(name):
                    seen.add(str(reply[name]))
    return named


# ---------------------------------------------------------------- examples


@dataclass(frozen=True, slots=True)
class _Found:
    line: Line
    step: int
    turn: Mapping[str, Any]


def _examples(analysis: Analysis) -> Section:
    found = _find_failures(analysis.lines)
    blocks: list[Block] = [
        Prose(
            f"Up to {EXAMPLES} replies of each kind, as they came; long ones are cut. Odd characters "
            "are written as their code points."
        )
    ]
    for kind in sorted(found, key=_place):
        total = sum(map(len, found[kind].values()))
        chosen = _take_turns(found[kind], EXAMPLES)
        meaning = KINDS.get(kind, "")
        text = f"{kind}: {meaning}. {len(chosen)} of {total} shown."
        blocks.append(Prose(text, strong=True))
        blocks += [_example(item) for item in chosen]
    if not found:
        blocks = [Prose("No reply failed.")]
    return Section("examples", "Examples", "Verbatim examples of each failure", tuple(blocks))


def _find_failures(lines: Iterable[Line]) -> dict[str, dict[Arm, list[_Found]]]:
    """Return every failed reply by kind, then by arm."""
    found: dict[str, dict[Arm, list[_Found]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        arm = (str(line.get("endpoint")), tables.arm_label(line))
        for step, turn in enumerate(line.get("turns") or ()):
            failure = (turn.get("reading") or {}).get("failure")
            if failure:
                found[str(failure.get("kind"))][arm].append(_Found(line, step, turn))
    return found


def _take_turns(groups: Mapping[Arm, Sequence[_Found]], most: int) -> list[_Found]:
    """Take examples from each arm in turn, and from different tasks of it."""
    rows = []
    for arm in sorted(groups):
        ordered = sorted(groups[arm], key=lambda item: (str(item.line["task_id"]), item.step))
        step = max(1, len(ordered) // most)
        rows.append(ordered[::step])
    taken = [row[turn] for turn in range(most) for row in rows if turn < len(row)]
    return taken[:most]


def _example(found: _Found) -> Quote:
    line, failure = found.line, found.turn["reading"]["failure"]
    way = name_way(tables.arm_label(line))
    title = f"{line['task_id']}, {line.get('endpoint')}, {way}, reply {found.step + 1}"
    text, finish = reply_text(found.turn.get("reply") or {})
    about = f"Finish reason: {finish}." if finish else ""
    return Quote(title, about, text, _cut(_explained(found, failure, text), 2 * _LONG))


def _explained(found: _Found, failure: Mapping[str, Any], text: str) -> str:
    """Say what the reader made of a reply, with a caret at the place where there is one."""
    from parsers.explain import explain  # noqa: PLC0415 (the readers take time to load)

    reading = reading_from_json(found.turn["reading"])
    own = [call for call in reading.calls if call.failure != reading.failure]
    told = explain(replace(reading, calls=tuple(own)), text)  # each finding is told once
    if failure.get("field", "text") == "text":
        return told
    pointed = point_at(_field(found, text), failure.get("position"))
    return f"{told}\n{pointed}" if pointed else told


def reply_text(reply: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return what a model wrote in a stored reply, and the finish reason; else the body."""
    from parsers.wire import open_response  # noqa: PLC0415 (the readers take time to load)

    body = str(reply.get("body") or "")
    wire = {"status": reply.get("status", 0), "headers": reply.get("headers", {}), "body": body}
    answer = open_response(wire)
    if not answer.message:
        return body or "(an empty body)", answer.finish_reason
    parts = []
    if answer.reasoning:
        parts.append(f"[reasoning]\n{answer.reasoning}")
    if answer.text:
        parts.append(answer.text)
    called = {name: answer.message.get(name) for name in ("tool_calls", "function_call")}
    parts += [
        f"[{name}]\n{json.dumps(value, ensure_ascii=False, indent=1)}"
        for name, value in called.items()
        if value
    ]
    return "\n".join(parts) or "(neither text nor calls)", answer.finish_reason


def _field(found: _Found, text: str) -> str:
    """Return the text that a failure's position counts in; "" where it is not at hand."""
    place = str(found.turn["reading"]["failure"].get("field", "text"))
    match = re.fullmatch(r"calls\[(\d+)\]\.arguments", place)
    if match:
        calls = found.turn["reading"].get("calls") or []
        number = int(match[1])
        return str(calls[number].get("raw", "")) if number < len(calls) else ""
    return text if place in ("text", "content") and not text.startswith("[") else ""


def point_at(text: str, position: int | None, width: int = 72) -> str:
    """Return the line of a text that holds a position, cut to a width, with a caret below it."""
    if position is None or not 0 <= position <= len(text) or not text:
        return ""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    left = max(start, position - width // 2)
    right = min(len(text) if end < 0 else end, left + width)
    before, after = visible(text[left:position]), visible(text[position:right])
    lead, tail = "…" * (left > start), "…" * (right < (len(text) if end < 0 else end))
    pad = sum(2 if _is_wide(c) else 1 for c in lead + before)
    return f"{lead}{before}{after}{tail}\n{' ' * pad}^"


def _is_wide(char: str) -> bool:
    return "\u1100" <= char <= "\uffdc" and char != "\u2026"


# ---------------------------------------------------------------- the rest


def _words() -> Section:
    items = [f"{measure.label}: {measure.meaning}." for measure in MEASURES]
    items += [
        (
            "unit: one question in both languages (a task without a twin is a unit of its own). "
            "Languages and trials are nested in it and never counted as independent."
        ),
        (
            "interval: 95 %. Wilson where a unit has one observation, Clopper-Pearson for none and all, "
            "else a BCa bootstrap over units."
        ),
        (
            f"p: sign-flip permutation over units ({stats.RESAMPLES:,} flips where planned, "
            f"{stats.QUICK:,} where exploratory), adjusted after Holm or Benjamini-Hochberg."
        ),
        (
            f"not enough data: no difference is shown, and a difference of {stats.MARGIN * 100:g} points "
            f"or more is not excluded. Under {stats.FEW} units only counts are told."
        ),
        (
            "right first move: the first reply calls right tools with acceptable arguments, or answers "
            "where no tool is wanted."
        ),
        (
            "wrong tool pick: calls are matched to wanted ones first by tool and arguments, then by tool, "
            "then in order, the rest with none. A further try at a right tool after an error is no wrong "
            "pick."
        ),
        (
            "left out: a task and trial that an endpoint's failure or the recording's end cut short in "
            "one way counts for success and cost in no way. Replies before a recording's end still count "
            "for the parse measures."
        ),
    ]
    return Section("words", "Method", "How it is counted", (Bullets(tuple(items)),))


def manifest_section(manifest: Mapping[str, Any]) -> Section:
    """Show the whole manifest."""
    rows = tuple((Cell(key), Cell(value)) for key, value in _flatten(manifest))
    return Section(
        "manifest", "Manifest", "Manifest", (Grid("manifest.json", ("key", "value"), rows[:400]),)
    )


def _flatten(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value and key.count(".") < 6:
        for name, inner in value.items():
            yield from _flatten(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and value and any(isinstance(v, (Mapping, list)) for v in value):
        for number, inner in enumerate(value[:100]):
            yield from _flatten(inner, f"{key}[{number}]")
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield _cut(key, 200), _cut(text, 500)


# ---------------------------------------------------------------- text


def _cut(text: str, limit: int) -> str:
    return (
        text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit:,} more characters)"
    )


_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Return a text with control, direction and lone surrogate characters as code points."""
    return _ODD.sub(lambda match: f"\\u{ord(match[0]):04x}", text.replace("\r\n", "\n"))


_MARKS = re.compile(r"([\\`*{}\[\]#!|~^$]|(?<![^\W_])_|_(?![^\W_])|^[-+=])")
_MENTION = re.compile(r"(?<!\w)@|@(?=[\w-]*\.)")


def escape_markdown(text: str) -> str:
    """Return a text that Markdown shows as it is, in a paragraph or in a table's cell."""
    flat = " ".join(visible(text).split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    flat = _MENTION.sub("&#64;", _MARKS.sub(r"\\\1", flat))
    flat = flat.replace("://", "&#58;//").replace("www.", "www&#46;")
    return re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", flat)


def _fence(text: str) -> str:
    """Put a text into a fence that is longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}text\n{text}\n{marks}"


def to_markdown(document: Document) -> str:
    """Write a document as Markdown, for code hosts; figures are files beside it."""
    parts = [f"# {escape_markdown(document.title)}", escape_markdown(document.about)]
    for section in document.sections:
        parts.append(f"## {escape_markdown(section.title)}")
        parts += [_block_to_markdown(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _block_to_markdown(block: Block) -> str:
    match block:
        case Prose():
            text = escape_markdown(block.text)
            return f"**{text}**" if block.strong else text
        case Bullets():
            return "\n".join(f"- {escape_markdown(item)}" for item in block.items)
        case Picture():
            alt = re.sub(r"[\[\]]", "", escape_markdown(block.chart.alt))
            return f"![{alt}]({block.chart.name}.png)"
        case Grid():
            return _fold(block.caption, _grid_to_markdown(block), folded=block.folded)
        case Quote():
            body = "\n\n".join(_fence(text) for text in _quoted(block) if text)
            about = f"{escape_markdown(block.about)}\n\n" if block.about else ""
            return _fold(block.title, about + body, folded=block.folded)


def _fold(title: str, body: str, *, folded: bool) -> str:
    if not folded:
        return f"**{escape_markdown(title)}**\n\n{body}"
    return f"<details><summary>{escape_markdown(title)}</summary>\n\n{body}\n\n</details>"


def _grid_to_markdown(grid: Grid) -> str:
    rows = [grid.header, *([_cell_to_text(cell) for cell in row] for row in grid.rows)]
    lines = ["| " + " | ".join(escape_markdown(text) for text in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(grid.header), *lines[1:]])


def _cell_to_text(cell: Cell) -> str:
    return f"{cell.text} ({cell.note})" if cell.note else cell.text


def _quoted(quote: Quote) -> tuple[str, str]:
    """Return the texts of a quotation as they are shown: the place pointed at, then all."""
    return quote.pointed, _cut(visible(quote.text), _LONG)


def to_html(document: Document) -> str:
    """Write a document as one page that needs nothing else: no script, no outside resource."""
    page: str = _page().render(document=document, quoted=_quoted, visible=visible)
    return page + "\n"


@cache
def _page() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415
    from markupsafe import Markup  # noqa: PLC0415 (pages only)

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = lambda chart: Markup(chart.svg)  # noqa: S704 (drawn by us)
    return environment.get_template("report.html.jinja")
