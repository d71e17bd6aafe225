"""Write the report of a run of exercises, from its run folder and the exercises' frozen tasks.

One section an exercise; its first sentence answers, with n and the 95 % interval. What models say
is hostile: it is bounded and escaped where it is written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import tables
from bench.exercises.marks import Marks, mark
from bench.exercises.measures import COLUMN, EXERCISES, Exercise
from bench.exercises.tasks import PREFIX, list_drills
from bench.findings import minus, name_way, percent, points, tell_note
from bench.records import RunFolder, episode_from_json
from bench.report import (
    Block,
    Bullets,
    Cell,
    Document,
    Grid,
    Prose,
    Quote,
    Section,
    asked,
    manifest_section,
    write_document,
)
from bench.report.cells import of, rate_cell, span
from bench.show import printable
from bench.stats import Difference
from bench.tables import Line, Measure, Rate
from bench.texts import say
from bench.types import WorkbenchError

EXAMPLES = 3
"""Final answers that are quoted of each kind, at most."""
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A run of exercises with its tables made."""

    name: str
    manifest: Mapping[str, Any]
    lines: Sequence[Line] = field(repr=False)
    marks: Mapping[Key, Marks] = field(repr=False)
    frame: Any = field(repr=False)
    """`tables.episode_table` of the lines, with a column for each mark."""

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        """The exercises that were run."""
        ran = set(self.frame["category"])
        return tuple(e for name, e in EXERCISES.items() if PREFIX + name in ran)


def find_out(folder: RunFolder) -> Found:
    """Read a run folder and make its tables; raises `WorkbenchError` where it holds no episode."""
    lines = list(folder.lines())
    if not lines:
        raise WorkbenchError(f"{folder.path}: holds no finished episode; resume the run first")
    frame = tables.episode_table(lines)
    keys = _keys(frame)
    marks = {key: _mark_line(line, folder) for line in lines for key in [_key(line)]}
    names = dict.fromkeys(name for found in marks.values() for name in found)
    for name in names:
        frame[COLUMN + name] = [marks[key].get(name, 0) for key in keys]
    return Found(folder.path.name, folder.manifest, lines, marks, frame)


def _mark_line(line: Line, folder: RunFolder) -> Marks:
    drill = list_drills().get(line["task_id"])
    if drill is None:
        raise WorkbenchError(f"{folder.path}: {line['task_id']} is no task of an exercise")
    return mark(drill, episode_from_json(line))


def _key(line: Mapping[str, Any]) -> Key:
    """Name an episode of a run as its line does; a row of the table has the same."""
    names = ("endpoint", "task_id", "driver", "dialect", "level", "variant", "trial")
    return tuple(line[name] for name in names)


def _keys(frame: Any) -> list[Key]:
    return [_key(row) for row in frame.to_dict("records")]


# ---------------------------------------------------------------- the document


def write_exercise_report(folder: RunFolder, found: Found | None = None) -> tuple[Path, Path]:
    """Write report.md and report.html into a run folder; return the two paths."""
    return write_document(folder.path, compose(found or find_out(folder)))


def summarize(found: Found) -> str:
    """Return every exercise's answer as text for a terminal."""
    told = [
        f"{exercise.name}\n" + "\n".join(f"  {text}" for text in open_with(exercise, rows))
        for exercise in found.exercises
        for rows in [_rows(found, exercise)]
    ]
    return printable("\n".join(told).replace("\u00a0", " ") + "\n")


def compose(found: Found) -> Document:
    """Lay a run's report out: one section an exercise, the manifest last."""
    exercises = found.exercises
    alone = len(exercises) == 1
    title = say(exercises[0].title) if alone else say("The exercises of the field")
    models = sorted(set(map(str, found.frame["model"])))
    about = say(
        "{models}: {n} episodes, run {name}",
        models=", ".join(models),
        n=len(found.lines),
        name=found.name,
    )
    sections = [_section(found, exercise) for exercise in exercises]
    notes = tuple(tell_note(str(note)) for note in found.manifest.get("notes") or ())
    blocks: tuple[Block, ...] = (*asked(found.manifest), *([Bullets(notes)] if notes else []))
    method = Bullets(tuple(_method()))
    last = [
        Section("words", say("Method"), say("How it is counted"), (method,)),
        Section("asked", say("Asked"), say("Who was asked"), blocks),
        manifest_section(found.manifest),
    ]
    return Document(title, about, (*sections, *last))


def _method() -> Iterator[str]:
    yield say(
        "n is the number of units: one question in both languages. Each share stands with its count, "
        "its denominator and its 95 % interval in percent: Wilson where a unit has one observation, "
        "Clopper-Pearson for none and all, else a BCa bootstrap over units."
    )
    yield say(
        "The difference is the mean over units of the first way minus the second, in points. Every "
        "comparison here is exploratory; under 15 units only counts are told."
    )
    yield say(
        "A task that an endpoint's failure or the recording's end cut short in one way counts in no "
        "way, but for the parse measures."
    )


def _rows(found: Found, exercise: Exercise) -> Any:
    return found.frame[found.frame["category"] == PREFIX + exercise.name]


def _section(found: Found, exercise: Exercise) -> Section:
    rows = _rows(found, exercise)
    blocks: list[Block] = [Prose(text, strong=True) for text in open_with(exercise, rows)]
    blocks += [Prose(text) for text in _compared(exercise, rows)]
    blocks.append(Prose(say(exercise.about)))
    blocks += [_grid(exercise, name, own) for name, own in rows.groupby("endpoint")]
    blocks += [Bullets(tuple(map(say, exercise.meaning)))] if exercise.meaning else []
    blocks += _quotes(found, exercise)
    return Section(exercise.name, exercise.name, say(exercise.title), tuple(blocks))


def open_with(exercise: Exercise, rows: Any) -> list[str]:
    """Answer an exercise's question in one sentence for each endpoint."""
    return [_open(exercise, str(name), own) for name, own in rows.groupby("endpoint")]


def _open(exercise: Exercise, endpoint: str, rows: Any) -> str:
    units = tables.scope(rows, "kept")["pair"].nunique()
    ways = {arm: own for (_, arm), own in tables.arms(rows).items()}
    told = [_tell(measure, ways) for measure in exercise.measures[: exercise.headlines]]
    return say(
        "{where}, n = {n} questions in two languages; {told}.",
        where=endpoint,
        n=units,
        told=say("; ").join(told),
    )


def _tell(measure: Measure, ways: Mapping[str, Any]) -> str:
    told = say(", ").join(_told(arm, own, measure) for arm, own in ways.items())
    return say("{measure}: {told}", measure=say(measure.label), told=told)


def _compared(exercise: Exercise, rows: Any) -> Iterator[str]:
    """Say how far the two ways are apart in what the first sentence tells first."""
    measure = exercise.measures[0]
    for endpoint, own in rows.groupby("endpoint"):
        ways = {arm: part for (_, arm), part in tables.arms(own).items()}
        if len(ways) != 2:
            continue
        first, second = ways
        d = tables.compare(ways[first], ways[second], measure)
        if not d.units:
            continue
        told = {
            "where": endpoint,
            "measure": say(measure.label),
            "names": minus(first, second),
            "points": points(d.estimate),
        }
        yield _tell_apart(told, d, name_way(first))


def _tell_apart(told: Mapping[str, Any], d: Difference, way: str) -> str:
    if d.interval is None:
        return say(
            "{where}, {measure}: {names} is {points} points; {way} is higher in {higher} of {units} "
            "units, lower in {lower}.",
            **told,
            way=way,
            higher=d.higher,
            lower=d.lower,
            units=d.units,
        )
    return say(
        "{where}, {measure}: {names} is {points} points, 95 % interval {low} to {high}, over {units} "
        "units.",
        **told,
        low=points(d.interval.low),
        high=points(d.interval.high),
        units=d.units,
    )


def _told(arm: str, rows: Any, measure: Measure) -> str:
    rate = tables.rate(rows, measure)
    share = "–" if rate.value is None else percent(rate.value)
    return say("{way} {share} ({count})", way=name_way(arm), share=share, count=_counted(rate))


def _counted(rate: Rate) -> str:
    if rate.value is None:
        return of(0, 0)
    count = of(rate.top, rate.below)
    if rate.interval is None:
        return count
    return say(
        "{count}; 95 % interval {low} to {high}",
        count=count,
        low=f"{rate.interval.low * 100:.1f}",
        high=f"{rate.interval.high * 100:.1f}",
    )


def _grid(exercise: Exercise, endpoint: str, rows: Any) -> Grid:
    ways = {arm: own for (_, arm), own in tables.arms(rows).items()}
    header = [say("measure"), *map(name_way, ways)]
    first, second = (*ways, "", "")[:2]
    if len(ways) == 2:
        header.append(minus(first, second))
    lines = []
    for measure in exercise.measures:
        cells = [Cell(say(measure.label), say(measure.meaning))]
        cells += [rate_cell(tables.rate(own, measure)) for own in ways.values()]
        if len(ways) == 2:
            cells.append(_difference_cell(tables.compare(ways[first], ways[second], measure)))
        lines.append(tuple(cells))
    return Grid(str(endpoint), tuple(header), tuple(lines))


def _difference_cell(d: Difference) -> Cell:
    if not d.units:
        return Cell("–", say("no unit has both"))
    note = say(
        "{n} units; higher in {higher}, lower in {lower}",
        n=d.units,
        higher=d.higher,
        lower=d.lower,
    )
    if d.interval is not None:
        note += f"; {span(points(d.interval.low), points(d.interval.high))}"
    return Cell(points(d.estimate), note, d.estimate)


def _quotes(found: Found, exercise: Exercise) -> Iterator[Block]:
    """Quote final answers that a figure of this exercise is about."""
    for name in exercise.shown:
        chosen = [
            line
            for line in found.lines
            if line["category"] == PREFIX + exercise.name and found.marks[_key(line)].get(name)
        ]
        for line in chosen[:: max(1, len(chosen) // EXAMPLES)][:EXAMPLES]:
            kind = say(name.replace("_", " "))
            yield _quote(line, say("{kind}: {n} in all", kind=kind, n=len(chosen)))


def _quote(line: Line, about: str) -> Quote:
    drill = list_drills()[line["task_id"]]
    title = f"{line['task_id']}, {line['endpoint']}, {name_way(tables.arm_label(line))}"
    readings = [turn.get("reading") or {} for turn in line.get("turns") or ()]
    final = str(readings[-1].get("final") or "") if readings else ""
    said = final or say("(no final answer; ended with {stop})", stop=line["stop"])
    results = [r["content"] for turn in line.get("turns") or () for r in turn.get("results") or ()]
    told = [say("Question: {said}", said=drill.task.question)]
    told += [say("Result: {said}", said=text) for text in results]
    return Quote(title, about, "\n".join((*told, said)), folded=True)
