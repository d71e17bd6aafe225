"""Write the report of `python -m bench ab`, from its run folder alone: which version, and for what.

A pure function of the lines and the manifest. Descriptions, questions and answers are hostile:
bounded here, escaped where they are written.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench import stats, tables
from bench.findings import explain_note, name_way, percent, points, probability
from bench.lab.charts import draw_effects
from bench.lab.effects import MEASURES, Effect
from bench.lab.report import (
    Findings,
    align,
    category_section,
    confusion_section,
    find_out,
    lay_notes,
    left_out_section,
    make_section,
    measure_sections,
    method_section,
    scripted_first,
)
from bench.records import RunFolder
from bench.report import (
    Block,
    Bullets,
    Cell,
    Document,
    Grid,
    Picture,
    Prose,
    Quote,
    Section,
    asked,
    manifest_section,
    write_document,
)
from bench.report.cells import of
from bench.scoring import NONE
from bench.show import printable
from bench.status import FOUND, OK, UNSURE
from bench.texts import mark, say

OLD, NEW = "old", "new"
Word = Literal["better", "worse", "no worse", "not enough data"]
_CHANGED = 60
"""Questions that are listed as won or lost, at most."""
_TEXT = 1_500
_LISTED, _WIDE = 12, 90
"""Of these, on a terminal, and how much of each."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the run says of the new version: for each endpoint and way, and as a whole."""

    by_way: Mapping[tuple[str, str], Word]

    @property
    def word(self) -> Word:
        """Say it in a word: worse if it is so anywhere, better or no worse only if everywhere."""
        found = set(self.by_way.values())
        if "worse" in found:
            return "worse"
        if "not enough data" in found or not found:
            return "not enough data"
        return "better" if "better" in found else "no worse"

    @property
    def status(self) -> int:
        """Give the exit status: 0, 1 or 3."""
        return {"worse": FOUND, "not enough data": UNSURE}.get(self.word, OK)


def judge(found: Findings) -> Verdict:
    """Judge every way by its task success; by its wrong picks where success says nothing."""
    ways = [(endpoint, way) for endpoint in found.endpoints for way in found.ways(endpoint)]
    return Verdict({key: _judge_way(found, *key) for key in ways})


def _judge_way(found: Findings, endpoint: str, way: str) -> Word:
    effects = [found.find(endpoint, way, NEW, measure) for measure in MEASURES[:2]]
    for effect in effects:
        if effect is not None and effect.word in ("better", "worse"):
            return "better" if effect.word == "better" else "worse"
    success = effects[0]
    if success is not None and is_no_worse(success):
        return "no worse"
    return "not enough data"


def is_no_worse(effect: Effect) -> bool:
    """Say whether a loss of the margin or more is excluded: by the lower end of the 90 % interval."""
    return stats.judge_loss(effect.difference, stats.MARGIN, None) == "excluded"


# ---------------------------------------------------------------- what is said


def find_out_ab(folder: RunFolder) -> Findings:
    """Make a run's tables: the new version held against the old."""
    return find_out(folder, OLD, stats.RESAMPLES, together=True)


def write_ab_report(folder: RunFolder, found: Findings | None = None) -> tuple[Path, Path]:
    """Write report.md, report.html and the figures into a run folder; return the two paths."""
    return write_document(folder.path, compose(found or find_out_ab(folder)))


def summarize_ab(found: Findings) -> str:
    """Return what ends a run: the verdict, each way's figures, and the questions that changed."""
    scripted, _ = scripted_first(found.manifest)
    told = [*scripted, headline(found), *_tell_ways(found)]
    changed = list_changed(found)[:_LISTED]
    rows = [(name_way(r.way), r.category, r.counts, r.question[:_WIDE]) for r in changed]
    head = (say("driver"), say("category"), "old → new", say("question"))
    text = "\n".join(told) + ("\n\n" + align([head, *rows]) if rows else "")
    return printable(text.replace("\u00a0", " "))


def headline(found: Findings) -> str:
    """Say which version is better."""
    match judge(found).word:
        case "better":
            return say("The new descriptions are better.")
        case "worse":
            return say("The new descriptions are worse.")
        case "no worse":
            return say(
                "The new descriptions are no worse: a loss of {margin} points of task success or more "
                "is excluded.",
                margin=_margin(),
            )
        case "not enough data":
            return say("Not enough data to say which descriptions are better.")


def _margin() -> str:
    return f"{stats.MARGIN * 100:g}"


def _tell_ways(found: Findings) -> Iterator[str]:
    for (endpoint, way), word in judge(found).by_way.items():
        effects = [found.find(endpoint, way, NEW, measure) for measure in MEASURES[:2]]
        told = say("; ").join(_tell_effect(effect) for effect in effects if effect is not None)
        text = mark("{where}, {way}: {word}; {told}.")
        yield say(text, where=endpoint, way=name_way(way), word=say(word), told=told)


def _tell_effect(effect: Effect) -> str:
    d = effect.difference
    told = {
        "measure": say(effect.measure.label),
        "rates": " → ".join(_tell_rate(rate) for rate in (effect.base, effect.told)),
        "points": points(d.estimate),
    }
    if d.interval is None:
        note = explain_note(d) or say("no interval")
        return say("{measure} {rates}, {points} points ({note})", **told, note=note)
    return say(
        "{measure} {rates}, {points} points (95 % {low} to {high}; {units} units; p {p})",
        **told,
        low=points(d.interval.low),
        high=points(d.interval.high),
        units=d.units,
        p=probability(effect.p),
    )


def _tell_rate(rate: tables.Rate) -> str:
    text = mark("{share} ({top} of {below})")
    return say(text, share=percent(rate.value), top=rate.top, below=rate.below)


# ---------------------------------------------------------------- which questions


@dataclass(frozen=True, slots=True)
class Changed:
    """One question that a version solves more often than the other, with one way."""

    endpoint: str
    way: str
    category: str
    pair: str
    question: str
    old: int
    new: int
    of: int
    picks: tuple[str, str]
    """What was picked in place of what, with each version."""

    @property
    def counts(self) -> str:
        """Write how often each version solved it."""
        return say("{old} → {new} of {of}", old=self.old, new=self.new, of=self.of)


def list_changed(found: Findings) -> list[Changed]:
    """Return the questions that one version solves more often, lost ones first."""
    rows = [
        row
        for endpoint in found.endpoints
        for way in found.ways(endpoint)
        for row in _changed(found, endpoint, way)
    ]
    return sorted(rows, key=lambda row: (row.new - row.old, row.pair, row.way))


def _changed(found: Findings, endpoint: str, way: str) -> Iterator[Changed]:
    first, second = (found.arms.get((endpoint, way, version)) for version in (OLD, NEW))
    if first is None or second is None:
        return
    old, new = tables.scope(first, "kept"), tables.scope(second, "kept")
    for pair in sorted(set(old["pair"]) & set(new["pair"])):
        before, after = (rows[rows["pair"] == pair] for rows in (old, new))
        solved = int(before["success"].sum()), int(after["success"].sum())
        if solved[0] != solved[1]:
            task = str(before["task_id"].iloc[0])
            yield Changed(
                *(endpoint, way, str(before["category"].iloc[0]), str(pair)),
                found.questions.get(task, task),
                *solved,
                len(before),
                (_tell_picks(before), _tell_picks(after)),
            )


def _tell_picks(rows: Any) -> str:
    pairs = Counter(tuple(pair) for listed in rows["pairs"] for pair in listed)
    wrong = [f"{w} → {p}" for w, p in pairs if w != p]
    return ", ".join(wrong[:3]) or say("right tools")


# ---------------------------------------------------------------- the report


def compose(found: Findings) -> Document:
    """Lay a run's report out: the answer first, the manifest last."""
    sections = (
        _answer(found),
        _texts(found),
        _questions(found),
        _tools(found),
        *measure_sections(found),
        category_section(found),
        confusion_section(found),
        left_out_section(found),
        method_section(found, tuple(_method())),
        manifest_section({k: v for k, v in found.manifest.items() if k != "versions"}),
    )
    models = sorted({str(name) for name in found.frame["model"]})
    about = say(
        "{models}: {n} episodes, run {name}",
        models=", ".join(models),
        n=len(found.frame),
        name=found.name,
    )
    return Document(say("Which descriptions are better, the old or the new?"), about, sections)


def _method() -> Iterator[str]:
    yield say(
        "verdict: each way is judged by its task success; where that says nothing, by its wrong picks. The "
        "new version is worse if it is so with any way; better or no worse only if it is so with every "
        "way. No worse: a loss of {margin} points of task success or more is excluded (90 % interval).",
        margin=_margin(),
    )
    yield say(
        "planned: task success and wrong tool picks with every way, Holm over all of an endpoint's "
        "({flips} flips).",
        flips=f"{stats.RESAMPLES:,}",
    )


def _answer(found: Findings) -> Section:
    scripted, notes = scripted_first(found.manifest)
    blocks: list[Block] = [Prose(text, strong=True) for text in (*scripted, headline(found))]
    blocks.append(Bullets((*_tell_ways(found), *_tell_size(found))))
    blocks += lay_notes(notes)
    chart = draw_effects(found.effects, MEASURES[:2], OLD)
    blocks += [Picture(chart)] if chart else []
    blocks += asked(found.manifest)
    return make_section("answer", say("The answer"), blocks, say("Answer"))


def _versions(found: Findings) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    told = found.manifest.get("versions")
    told = told if isinstance(told, Mapping) else {}
    return told.get(OLD) or {}, told.get(NEW) or {}


def _tell_size(found: Findings) -> Iterator[str]:
    old, new = _versions(found)
    if old and new:
        tokens, findings = (
            [version[name] for version in (old, new)] for name in ("tokens", "findings")
        )
        yield say(
            "{files}: about {tokens} tokens in each request, {findings} findings of the linter.",
            files=f"{old['file']} → {new['file']}",
            tokens=f"{tokens[0]:,} → {tokens[1]:,}",
            findings=f"{findings[0]} → {findings[1]}",
        )


def _texts(found: Findings) -> Section:
    old, new = _versions(found)
    before, after = old.get("descriptions") or {}, new.get("descriptions") or {}
    quotes: list[Block] = []
    for name in found.manifest.get("told_otherwise") or ():
        texts = [str(told.get(name, "–"))[:_TEXT] for told in (before, after)]
        if texts[0] == texts[1]:
            texts[1] = say("(the same; its parameters are told otherwise)")
        quotes += [
            Quote(f"{name}, {version}", "", text, folded=len(text) > 400)
            for version, text in zip((OLD, NEW), texts, strict=True)
        ]
    blocks = quotes or [Prose(say("Nothing."))]
    return make_section("texts", say("What was changed"), blocks, say("Changes"))


def _questions(found: Findings) -> Section:
    changed = list_changed(found)
    won = sum(row.new > row.old for row in changed)
    intro = say(
        "{won} questions are solved more often with the new descriptions, {lost} less often, counted "
        "for each way. Picks are told as wanted → picked.",
        won=won,
        lost=len(changed) - won,
    )
    rows = tuple(_changed_row(row) for row in changed[:_CHANGED])
    header = (
        *(say("question"), say("category"), say("way"), say("solved, old → new")),
        *(say("picks, old"), say("picks, new")),
    )
    grid = Grid(say("Questions that one version solves more often"), header, rows)
    blocks = (Prose(intro), grid)
    return make_section("questions", say("For which questions"), blocks, say("Questions"))


def _changed_row(row: Changed) -> tuple[Cell, ...]:
    gained = float(row.new - row.old)
    return (
        Cell(row.question, row.pair),
        Cell(row.category.replace("_", " ")),
        Cell(name_way(row.way), row.endpoint),
        Cell(row.counts, sort=gained),
        *map(Cell, row.picks),
    )


def _tools(found: Findings) -> Section:
    changed = {str(name) for name in found.manifest.get("told_otherwise") or ()}
    rows = []
    for endpoint in found.endpoints:
        for way in found.ways(endpoint):
            counts = [_picked(found.arms.get((endpoint, way, v))) for v in (OLD, NEW)]
            names = sorted(set(counts[0]) | set(counts[1]), key=lambda n: (n == NONE, n))
            for name in names:
                told = say("yes") if name in changed else ""
                cells = [_pick_cell(found_in.get(name)) for found_in in counts]
                rows.append((Cell(name), Cell(told), Cell(name_way(way), endpoint), *cells))
    header = (
        *(say("wanted tool"), say("told otherwise"), say("way")),
        *(say("picked, old"), say("picked, new")),
    )
    caption = say("How often the wanted tool was picked; none: calls where no tool was wanted")
    grid = Grid(caption, header, tuple(rows))
    return make_section("tools", say("For which tools"), (grid,), say("Tools"))


def _picked(rows: Any) -> dict[str, tuple[int, int]]:
    """Return by wanted tool how often it was picked, and how often it was wanted."""
    found: dict[str, tuple[int, int]] = {}
    if rows is not None:
        pairs: Sequence[Any] = tables.scope(rows, "kept")["pairs"].tolist()
        for wanted, picked in (pair for listed in pairs for pair in listed):
            right, of = found.get(wanted, (0, 0))
            found[wanted] = (right + (wanted == picked), of + 1)
    return found


def _pick_cell(counted: tuple[int, int] | None) -> Cell:
    if counted is None:
        return Cell("–", of(0, 0))
    right, every = counted
    return Cell(percent(right / every), of(right, every), right / every)
