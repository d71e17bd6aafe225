"""Write a league of readers for people (report.md, league.png) and for programs (league.json).

A pure function of a `League`. What parsers and cases say is hostile: bounded and escaped.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.charts import INK, SOFT, Chart, canvas, finish
from bench.league import GROUPS, Answer, League, Row, Verdict
from bench.peers.workers import Reads
from bench.report import (
    Block,
    Bullets,
    Cell,
    Document,
    Grid,
    Picture,
    Prose,
    Section,
    to_markdown,
)

_RULES = """
One right reading holds for every parser: what the text says, as the case's file gives it (its
reading at level rescue). So a lower level of ours loses the calls that it leaves alone.

Behind every parser stands an executor: it refuses a name that is not offered and arguments that
the tool's JSON Schema refuses. Such a call counts as refused, not as wrong.

A call is right if tool and arguments are equal (1 is 1.0, True is not 1); several calls, in
order. A parser whose interface holds one call is right with the first of several.

A parser that hands on the input as a string is right if the string is a JSON object or a Python
dict with the right arguments, or the only text that the tool takes. The right tool with exactly
the raw argument text, which nothing has decoded yet, is counted apart: text only.

An answer is right if it is the answer's text; white space around it is free.

Where the right reading is a failure, refusing is right: an error, no call, or a call that the
executor refuses. Its kind does not matter here.

A parser that reads calls only is right to find none in an answer, also if it raises to say so.

Silently wrong is a call that would run, or an answer, that the text does not say.

A parser that raises has refused. One that hangs or takes its process down counts as refused, and
never as right.

Peers are not told the form that the prompt asked for, nor the finish_reason: they have no
argument for them. Ours are.

A time is of the processor, inside the parser's own process and without its start: the mean over
the cases of the best of five rounds for each. Raising is part of it.
"""
RULES = tuple(" ".join(rule.split()) for rule in _RULES.strip().split("\n\n"))
"""How an answer is graded, a sentence or three each."""

_TITLES: Mapping[Reads, tuple[str, str, str]] = {
    "react": ("texts", "Texts", "Thought/Action texts"),
    "native": ("native", "Native", "Native answers"),
    "arguments": ("arguments", "Arguments", "Argument texts alone"),
}
_ABOUT: Mapping[Reads, str] = {
    "react": "Whole replies of models in text form: which tool, which arguments, or which answer.",
    "native": "Whole answers of endpoints, bodies and streams. No peer reads these as they come.",
    "arguments": "The argument texts of the cases above that stand alone behind a plainly named "
    "tool. Only the arguments are judged.",
}
_MARKS: Mapping[Verdict, str] = {"right": "✓", "text": "text", "refused": "–", "wrong": "✗"}


def describe(league: League) -> Iterator[str]:
    """Yield the tables as lines for a terminal."""
    for reads, rows in league.tables.items():
        if not rows:
            continue
        yield ""
        yield f"{_TITLES[reads][2]} ({_size(rows)} cases)"
        yield f"  {'':<34}{'right':>7}{'text':>6}{'refused':>9}{'wrong':>7}{'µs':>9}"
        yield from (_line(row) for row in rows)


def _line(row: Row) -> str:
    if row.problem:
        return f"  {row.parser.title:<34}{row.problem}"
    counts = [row.count(verdict) for verdict in ("right", "text", "refused", "wrong")]
    right, text, refused, wrong = counts
    return (
        f"  {row.parser.title:<34}{right:>7}{text:>6}{refused:>9}{wrong:>7}{_time(row.answers):>9}"
    )


def write_league(league: League, folder: Path) -> tuple[Path, ...]:
    """Write report.md, league.png and league.json into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    chart = draw_league(league)
    files: dict[str, bytes] = {
        "report.md": to_markdown(make_document(league, chart)).encode(),
        f"{chart.name}.png": chart.png,
        "league.json": _to_json(league).encode(),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return tuple(folder / name for name in files)


def make_document(league: League, chart: Chart) -> Document:
    """Lay the league out: the figure, a section for each table, the rules, and what ran."""
    filled = [(reads, rows) for reads, rows in league.tables.items() if rows]
    sections = [_section(reads, rows) for reads, rows in filled]
    first = Section("figure", "Figure", "At a glance", (Picture(chart),))
    rules = Section("rules", "Rules", "Rules", (Bullets(RULES), *_notes(league)))
    return Document(
        "League table of readers",
        "The same replies, read by this project's readers and by other projects' parsers. Right: "
        "as the text says. Refused: nothing to run, and known to be so. Silently wrong: a call or "
        "an answer that the text does not say, with no failure.",
        (first, *sections, rules, _about(league)),
    )


def _section(reads: Reads, rows: Sequence[Row]) -> Section:
    anchor, short, title = _TITLES[reads]
    blocks: tuple[Block, ...] = (
        Prose(_ABOUT[reads]),
        _standing(rows),
        *_contract(rows),
        _by_group(reads, rows),
        _by_kind(rows),
    )
    return Section(anchor, short, f"{title}: {_size(rows)} cases", blocks)


def _standing(rows: Sequence[Row]) -> Grid:
    header = ("parser", "version", "right", "calls", "answers", "refusals")
    more = ("text only", "refused", "silently wrong", "µs a reply")
    return Grid("Standing", (*header, *more), tuple(_standing_row(row) for row in rows))


def _standing_row(row: Row) -> tuple[Cell, ...]:
    if row.problem:
        return (Cell(row.parser.title), Cell(row.problem[:120]), *[Cell("")] * 8)
    parts = [[a for a in row.answers if key in a.case.says[0]] for key in _PARTS]
    shares = [Cell(f"{_right(part)}/{len(part)}" if part else "") for part in parts]
    counts = [Cell(str(row.count(verdict))) for verdict in ("text", "refused", "wrong")]
    right = Cell(f"{row.count('right')}/{len(row.answers)}")
    timing = Cell(_time(row.answers))
    return (Cell(row.parser.title), Cell(row.version), right, *shares, *counts, timing)


_PARTS = ("call", "final", "failure")


def _right(answers: Iterable[Answer]) -> int:
    return sum(answer.verdict == "right" for answer in answers)


def _time(answers: Sequence[Answer]) -> str:
    times = [answer.microseconds for answer in answers if answer.microseconds is not None]
    if not times:
        return ""
    mean = sum(times) / len(times)
    return f"{mean:,.0f}" if mean >= 10 else f"{mean:.1f}"


def _contract(rows: Sequence[Row]) -> tuple[Prose, ...]:
    """Say how many readings are the very ones that each level of ours promises."""
    ours = [row for row in rows if row.parser.level and row.answers]
    said = [
        f"{row.parser.level} {sum(a.as_given for a in row.answers)} of {len(row.answers)}"
        for row in ours
    ]
    text = "Ours against the reading that each level promises, to the kind of a failure: "
    return (Prose(f"{text}{', '.join(said)}."),) if said else ()


def _by_group(reads: Reads, rows: Sequence[Row]) -> Grid:
    shown = [row for row in rows if row.answers]
    groups = list(dict.fromkeys(a.case.group for row in shown[:1] for a in row.answers))
    grid = []
    for group in groups:
        parts = [[a for a in row.answers if a.case.group == group] for row in shown]
        cells = [Cell(_pair(part)) for part in parts]
        name = GROUPS[reads].get(group, group)[:40]
        grid.append((Cell(f"{name} ({len(parts[0])})"), *cells))
    header = ("group", *(row.parser.title for row in shown))
    return Grid(
        "By group: right, and silently wrong behind it where there are any", header, tuple(grid)
    )


def _pair(answers: Sequence[Answer]) -> str:
    wrong = sum(answer.verdict == "wrong" for answer in answers)
    return f"{_right(answers)}" + (f", {wrong} wrong" if wrong else "")


def _by_kind(rows: Sequence[Row]) -> Grid:
    shown = [row for row in rows if row.answers]
    grid = []
    for number, answer in enumerate(shown[0].answers if shown else ()):
        cells = [Cell(_mark(row.answers[number])) for row in shown]
        grid.append((Cell(f"{answer.case.id}: {answer.case.kind[:100]}"), *cells))
    header = ("case", *(row.parser.title for row in shown))
    caption = "By case: ✓ right, – refused, ✗ silently wrong, text: text only"
    return Grid(caption, header, tuple(grid), folded=True)


def _mark(answer: Answer) -> str:
    mark = _MARKS[answer.verdict]
    return f"{mark} {answer.why}" if answer.why in {"crash", "timeout"} else mark


def _notes(league: League) -> tuple[Block, ...]:
    rows = [row for table in league.tables.values() for row in table if row.parser.note]
    said = tuple(f"{row.parser.title}: {row.parser.note}." for row in rows)
    return (Prose("Notes on parsers:"), Bullets(said)) if said else ()


def _about(league: League) -> Section:
    rows = [row for table in league.tables.values() for row in table]
    peers = {row.parser.peer.title: row for row in rows if row.parser.peer}
    said = tuple(f"{title}: {row.version or row.problem}" for title, row in peers.items())
    what = Prose(
        f"Times are from one machine: {league.machine}. Compare them within a table. `python -m bench league` makes this page again; `make "
        "peers` installs the peers, each in an environment of its own. league.json holds every "
        "answer of every parser."
    )
    return Section("versions", "Versions", "Versions and machine", (what, Bullets(said)))


def _size(rows: Sequence[Row]) -> int:
    return max((len(row.answers) for row in rows), default=0)


# ---------------------------------------------------------------- for programs


def _to_json(league: League) -> str:
    tables = {reads: [_row_json(row) for row in rows] for reads, rows in league.tables.items()}
    value = {"machine": league.machine, "tables": tables}
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text.replace('{"id": ', '\n{"id": ') + "\n"


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "id": row.parser.id,
        "title": row.parser.title,
        "version": row.version,
        "problem": row.problem,
        "answers": [_answer_json(answer) for answer in row.answers],
    }


def _answer_json(answer: Answer) -> dict[str, Any]:
    timing = answer.microseconds
    return {
        "id": answer.case.id,
        "verdict": answer.verdict,
        "why": answer.why,
        "read": {key: value for key, value in answer.read.items() if key != "raw"},
        "microseconds": None if timing is None else round(timing, 1),
    }


# ---------------------------------------------------------------- the figure

_SHADES: Mapping[Verdict, tuple[str, str, str]] = {
    "right": ("#2f855a", "white", "right"),
    "text": ("#a9d5b9", INK, "right tool, input still raw text"),
    "refused": ("#d5d9de", INK, "refused"),
    "wrong": ("#b7410e", "white", "silently wrong"),
}


def draw_league(league: League) -> Chart:
    """Draw a panel for texts and one for arguments: a bar for each parser, ours on top."""
    tables = {reads: _ran(league.tables.get(reads, ())) for reads in _TITLES}
    shown = {reads: rows for reads, rows in tables.items() if rows}
    sizes = [len(rows) + 1.1 for rows in shown.values()] or [1.0]
    with canvas(8.2, 0.8 + 0.36 * sum(sizes)) as figure:
        panels = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=sizes)[:, 0]
        for axes, (reads, rows) in zip(panels, shown.items(), strict=False):
            _draw_panel(axes, f"{_TITLES[reads][2]} ({_size(rows)} cases)", rows)
        handles = [panels[0].barh(0, 0, color=shade) for shade, _, _ in _SHADES.values()]
        labels = [label for _, _, label in _SHADES.values()]
        figure.legend(handles, labels, loc="outside upper left", ncols=4)
        return finish(figure, "league", "League table of readers", _alt(shown))


def _ran(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.answers]


def _draw_panel(axes: Any, title: str, rows: Sequence[Row]) -> None:
    for y, row in enumerate(rows):
        left = 0
        for verdict, (shade, ink, _) in _SHADES.items():
            count = row.count(verdict)
            axes.barh(y, count, left=left, color=shade, height=0.74)
            if count >= 0.025 * len(row.answers):
                style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8.5}
                axes.text(left + count / 2, y, str(count), color=ink, **style)
            left += count
        said = f"{_time(row.answers)} µs"
        axes.text(left * 1.012, y, said, va="center", fontsize=8.5, color=INK)
    axes.set_yticks(range(len(rows)), [row.parser.title for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if row.parser.level else "normal")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, _size(rows) * 1.12)
    axes.set_title(title)
    axes.set_xticks([])
    axes.tick_params(length=0)
    for side in ("bottom", "left"):
        axes.spines[side].set_color(SOFT if side == "left" else "none")


def _alt(shown: Mapping[Reads, Sequence[Row]]) -> str:
    said = [
        f"{row.parser.title}: {row.count('right')} right, {row.count('wrong')} silently wrong"
        for rows in shown.values()
        for row in rows
    ]
    return f"Bars of right, refused and silently wrong for each parser. {'; '.join(said)}."
