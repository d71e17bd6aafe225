"""Write the report of an experiment about the wire, from its run folder alone.

A pure function of the lines and the manifest. What endpoints and models say is hostile: it is
bounded where it is kept, and escaped where it is written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from bench import pairing, stats, streaming, tool_choice
from bench.experiments import KEPT
from bench.findings import percent, tell_note
from bench.records import RunFolder, json_lines
from bench.report import (
    Block,
    Bullets,
    Cell,
    Document,
    Grid,
    Section,
    asked,
    manifest_section,
    write_document,
)
from bench.report.cells import of, span
from bench.show import printable
from bench.texts import mark, say
from bench.types import WorkbenchError

Line = Mapping[str, Any]

KINDS: Mapping[str, str] = {
    "open": mark("the question itself"),
    "right": mark("a right exchange of two calls and two results"),
    "changed_id": mark("one character of a result's tool_call_id changed"),
    "missing_result": mark("the second result left out"),
    "second_result": mark("a second result, with another value, for one id"),
    "orphan_result": mark("one more result, for an id that no call has"),
    "no_assistant": mark("the assistant message with the calls left out"),
    "message_between": mark("a user message between the calls and the results"),
    "reordered": mark("the results in the other order, each with its right id"),
}
WANTED: Mapping[str, str] = {
    "auto": mark("nothing: the model is free"),
    "none": mark("no call"),
    "named": mark("calls of the named tool only, which the question does not need"),
    "auto, no tool needed": mark("nothing: the model is free, on questions that need no tool"),
    "required": mark("a call, on questions that need no tool"),
    "parallel on": mark("nothing: on questions that need several calls"),
    "parallel off": mark("one call at most, on questions that need several"),
}
_NAMED = frozenset({mark("auto, no tool needed"), mark("parallel on"), mark("parallel off")})
"""The settings whose names are words; the others are the interface's own."""
_WAYS: Mapping[str, str] = {
    "plain": mark("plain"),
    "streamed": mark("streamed"),
    "again": mark("plain once more"),
}


def write_wire_report(folder: RunFolder) -> tuple[Path, Path]:
    """Write report.md and report.html into a run folder; return the two paths."""
    return write_document(folder.path, compose(folder))


def summarize(folder: RunFolder) -> str:
    """Return the report's answer as text for a terminal."""
    document = compose(folder)
    blocks = document.sections[0].blocks
    said = [block for block in blocks if isinstance(block, Bullets)]
    text = "\n".join(f"- {item}" for block in said for item in block.items)
    return printable(text.replace("\u00a0", " "))


def compose(folder: RunFolder) -> Document:
    """Lay a run's report out: the answer first, the manifest last."""
    manifest = folder.manifest
    lines = list(json_lines(folder.path / KEPT))
    if not lines:
        raise WorkbenchError(f"{folder.path}: holds nothing that was found; run it again")
    match manifest["experiment"]:
        case "pairing":
            title, sections = say("Do calls and results have to belong together?"), _pairing(lines)
        case "choice":
            title, sections = say("Is tool_choice honoured?"), _choice(lines)
        case "streaming":
            title, sections = say("Is a streamed answer the plain one?"), _streaming(lines)
        case "ask":
            from bench.lab.ask_report import report_ask  # noqa: PLC0415 (only that experiment)

            title = say("Is a description enough to know what a tool is for?")
            sections = report_ask(lines)
        case other:
            raise WorkbenchError(f"{folder.path}: {other} has no report of this kind")
    models = sorted({str(line.get("model")) for line in lines})
    about = say(
        "{models}: {n} answers, run {name}",
        models=", ".join(models),
        n=len(lines),
        name=folder.path.name,
    )
    last = (_asked(manifest), manifest_section(manifest))
    return Document(title, about, (*sections, *last))


def _asked(manifest: Mapping[str, Any]) -> Section:
    notes = tuple(tell_note(str(note)) for note in manifest.get("notes") or ())
    blocks: list[Block] = [*asked(manifest)]
    blocks += [Bullets(notes)] if notes else []
    return Section("asked", say("Asked"), say("Who was asked"), tuple(blocks))


def _by_endpoint(lines: Sequence[Line], kind: Any) -> dict[str, list[Any]]:
    """Take the trials of each endpoint back from their lines."""
    names = {item.name for item in fields(kind)}
    found: dict[str, list[Any]] = {}
    for line in lines:
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in line.items() if k in names}
        found.setdefault(str(line["endpoint"]), []).append(kind(**values))
    return found


def share(top: int, below: int) -> Cell:
    """Write a share with its count, its denominator and its 95 % interval in percent."""
    if not below:
        return Cell("–", of(0, 0))
    note = f"{of(top, below)}; {span(*_interval(top, below))}"
    return Cell(percent(top / below), note, top / below)


def _interval(top: int, below: int) -> tuple[str, str]:
    exact = top in (0, below)
    found = (stats.clopper_pearson if exact else stats.wilson)(top, below)
    return f"{found.low * 100:.1f}", f"{found.high * 100:.1f}"


def _told(top: int, below: int) -> str:
    if not below:
        return "0"
    low, high = _interval(top, below)
    return say(
        "{top} of {below} ({share}; {low} to {high})",
        top=top,
        below=below,
        share=percent(top / below),
        low=low,
        high=high,
    )


def _counts(counts: Mapping[Any, int]) -> str:
    """Write how often there was each of some kinds, which go by their own names."""
    return ", ".join(f"{name}: {number}" for name, number in counts.items() if number) or "–"


def _outcomes(counts: Mapping[Any, int]) -> str:
    """Write how often each thing happened, in words."""
    return _counts({say(name): number for name, number in counts.items()})


def _section(name: str, title: str, *blocks: Block) -> Section:
    return Section(name, title, title, blocks)


# ---------------------------------------------------------------- pairing


def _pairing(lines: Sequence[Line]) -> tuple[Section, ...]:
    found = {name: pairing.sum_up(t) for name, t in _by_endpoint(lines, pairing.Trial).items()}
    said = tuple(sentence for name, rows in found.items() for sentence in _pairing_said(name, rows))
    return (
        _section("answer", say("The answer"), Bullets(said), _overview(found)),
        _section("kinds", say("Kind by kind"), *(_pairing_grid(n, r) for n, r in found.items())),
        _section("meaning", say("What it means"), Bullets(tuple(map(say, _PAIRING_MEANS)))),
    )


_PAIRING_MEANS = (
    mark("An endpoint that refuses a wrong history tells you of a mistake in your loop at once."),
    mark(
        "One that accepts it leaves the mistake to the model: it may mix results up, or ask again."
    ),
    mark(
        "Where the assistant message is left out, the model does not see that it asked already. A "
        "model that then asks for the same call again can go round for ever: keep every assistant "
        "message in the history, with its ids, as it came."
    ),
    mark("Answer every id, in any order, right after the calls: that history is right everywhere."),
    mark(
        "The wrong histories are sent as they are. What a profile changes (the form of ids, the name "
        "on a tool message, null or empty content) is changed in right and wrong ones alike."
    ),
)


def _pairing_said(name: str, rows: Sequence[pairing.Row]) -> Iterator[str]:
    known = [row for row in rows if row.variant not in ("open", "right") and row.known]
    right = next((row for row in rows if row.variant == "right"), None)
    if right is None or not known:
        yield say("{where}: the questions themselves got no answer; nothing is known.", where=name)
        return
    if right.verdict != "accepted":
        yield say(
            "{where} does not accept the right exchange ({verdict}, {accepted} of {n}): {example}",
            where=name,
            verdict=say(right.verdict),
            accepted=right.accepted,
            n=right.known,
            example=right.example,
        )
    told = say("; ").join(filter(None, (_verdict_part(known, verdict) for verdict in _VERDICTS)))
    least = min(row.known for row in known)
    yield say("{where}: {told}. n = {n} each.", where=name, told=told, n=least)
    yield from _again_said(name, rows)


_VERDICTS = {
    "refused": mark("refuses {kinds}"),
    "accepted": mark("accepts without a word {kinds}"),
    "mixed": mark("sometimes takes {kinds}"),
}


def _verdict_part(rows: Sequence[pairing.Row], verdict: str) -> str:
    kinds = [row.variant for row in rows if row.verdict == verdict]
    return say(_VERDICTS[verdict], kinds=", ".join(kinds)) if kinds else ""


def _again_said(name: str, rows: Sequence[pairing.Row]) -> Iterator[str]:
    for row in rows:
        if row.variant == "no_assistant" and row.accepted:
            right = next(r for r in rows if r.variant == "right")
            again, before = (r.counts.get("asked_again", 0) for r in (row, right))
            yield say(
                "{where}, assistant message left out: asks for the same call again in {again}; after "
                "a right exchange in {before}.",
                where=name,
                again=_told(again, row.accepted),
                before=_told(before, right.accepted),
            )
            if in_text := row.counts.get("asked_in_text", 0):
                yield say(
                    "{where}, assistant message left out: writes the same call into the text, where "
                    "no loop looks for it, in {told}.",
                    where=name,
                    told=_told(in_text, row.accepted),
                )


def _overview(found: Mapping[str, Sequence[pairing.Row]]) -> Grid:
    kinds = [kind for kind in pairing.VARIANTS if any(_row(rows, kind) for rows in found.values())]
    rows = tuple(
        (Cell(name), *(_verdict_cell(_row(own, kind)) for kind in kinds))
        for name, own in found.items()
    )
    caption = say("What each endpoint does with each kind of exchange")
    return Grid(caption, (say("endpoint"), *kinds), rows)


def _row(rows: Sequence[pairing.Row], kind: str) -> pairing.Row | None:
    return next((row for row in rows if row.variant == kind), None)


def _verdict_cell(row: pairing.Row | None) -> Cell:
    return Cell("–") if row is None else Cell(say(row.verdict), f"n = {row.known}")


def _pairing_grid(name: str, rows: Sequence[pairing.Row]) -> Grid:
    header = (
        *(say("exchange"), "n", say("accepted"), say("status and code")),
        *(say("what then happened"), say("in its words")),
    )
    return Grid(name, header, tuple(map(_pairing_row, rows)))


def _pairing_row(row: pairing.Row) -> tuple[Cell, ...]:
    status = _counts(row.statuses) + (f"; {_counts(row.codes)}" if row.codes else "")
    return (
        Cell(row.variant, say(KINDS.get(row.variant, ""))),
        Cell(str(row.known), sort=row.known),
        share(row.accepted, row.known),
        Cell(status),
        Cell(_outcomes({name.replace("_", " "): n for name, n in row.counts.items()})),
        Cell(row.example),
    )


# ---------------------------------------------------------------- tool_choice


def _choice(lines: Sequence[Line]) -> tuple[Section, ...]:
    trials = _by_endpoint(lines, tool_choice.Trial)
    found = {name: tool_choice.sum_up(own) for name, own in trials.items()}
    said = tuple(_choice_said(name, rows) for name, rows in found.items())
    return (
        _section("answer", say("The answer"), Bullets(said)),
        _section(
            "settings", say("Setting by setting"), *(_choice_grid(n, r) for n, r in found.items())
        ),
        _section("meaning", say("What it means"), Bullets(tuple(map(say, _CHOICE_MEANS)))),
    )


_CHOICE_MEANS = (
    mark(
        "Honoured is worth something only where the model, left alone, does otherwise: the column "
        "'turned' counts the questions where it did, and of them those where the setting was heard."
    ),
    mark("Can't tell: the model did of itself what the setting wants, on every question."),
    mark(
        "Where a setting is ignored without a word, a loop that relies on it breaks in silence: check "
        "the calls that come back. Where it is refused, don't send it; the refusal is in the table."
    ),
    mark(
        "A call in the text is no call for whoever reads tool_calls: the reader's level rescue "
        "(native@rescue) and the ReAct driver see it."
    ),
    mark("The comparison always sends tool_choice auto."),
)


def _choice_said(name: str, rows: Sequence[tool_choice.Row]) -> str:
    parts = [
        say(
            "{setting} {verdict} ({turned} of {telling} turned, n = {n})",
            setting=_name_setting(row.setting),
            verdict=say(row.verdict),
            turned=row.turned,
            telling=row.telling,
            n=row.known,
        )
        for row in rows
        if tool_choice.SETTINGS[row.setting].against is not None
    ]
    text = say("{where}: {told}.", where=name, told=say("; ").join(parts))
    in_text = sum(row.in_text for row in rows)
    if in_text:
        text += say(" {n} calls stood in the text instead of tool_calls.", n=in_text)
    return text


def _name_setting(name: str) -> str:
    return say(name) if name in _NAMED else name


def _choice_grid(name: str, rows: Sequence[tool_choice.Row]) -> Grid:
    header = (
        *(say("setting"), "n", say("verdict"), say("honoured"), say("ignored"), say("refused")),
        *(say("turned"), say("called"), say("call in the text"), say("what was refused")),
    )
    return Grid(name, header, tuple(map(_choice_row, rows)))


def _choice_row(row: tool_choice.Row) -> tuple[Cell, ...]:
    free = tool_choice.SETTINGS[row.setting].against is None
    counts = [row.counts.get(name, 0) for name in ("honoured", "ignored", "refused")]
    shares = [Cell("–"), Cell("–")] if free else [share(top, row.known) for top in counts[:2]]
    answered = row.known - counts[2]
    return (
        Cell(_name_setting(row.setting), say(WANTED[row.setting])),
        Cell(str(row.known), sort=row.known),
        Cell(say(row.verdict)),
        *shares,
        share(counts[2], row.known),
        Cell("–") if free else share(row.turned, row.telling),
        share(row.called, answered),
        share(row.in_text, answered),
        Cell(row.example or "–"),
    )


# ---------------------------------------------------------------- streaming


def _streaming(lines: Sequence[Line]) -> tuple[Section, ...]:
    trials = _by_endpoint(lines, streaming.Trial)
    found = {name: streaming.sum_up(own) for name, own in trials.items()}
    said = tuple(_streaming_said(name, rows) for name, rows in found.items())
    return (
        _section("answer", say("The answer"), Bullets(said)),
        _section("ways", say("Way by way"), *(_streaming_grid(n, r) for n, r in found.items())),
        _section("meaning", say("What it means"), Bullets(tuple(map(say, _STREAMING_MEANS)))),
    )


_STREAMING_MEANS = (
    mark(
        "Two answers are equal if text, reasoning, calls (names and arguments) and finish reason are; "
        "ids are made up anew and left out. Each is held against the plain answer to its question."
    ),
    mark(
        "Plain once more is the control: what differs there differs without any stream. Only a "
        "streamed answer that differs more often than that is the stream's doing."
    ),
    mark(
        "The order of the three turns from question to question, so that none always meets a warm "
        "prompt cache."
    ),
    mark(
        "Times are medians, in seconds, from the request on; with several questions at a time they "
        "hold waiting too. They are the recorded ones where the run is a replay."
    ),
)


def _streaming_said(name: str, rows: Sequence[streaming.Row]) -> str:
    own = {row.way: row for row in rows}
    streamed, again = own.get("streamed"), own.get("again")
    if streamed is None or again is None or not streamed.compared:
        what = streamed.example if streamed is not None else ""
        text = mark("{where}: nothing to compare ({what}).")
        return say(text, where=name, what=what or say("no answer"))
    text = say(
        "{where}: streamed equals plain in {equal} pairs; plain once more in {again}.",
        where=name,
        equal=_told(streamed.equal, streamed.compared),
        again=_told(again.equal, again.compared),
    )
    return text + _times_said(own)


def _times_said(own: Mapping[streaming.Way, streaming.Row]) -> str:
    return say(
        " First token after {first}; whole answer {streamed} streamed, {plain} plain.",
        first=_seconds(own["streamed"].first_token),
        streamed=_seconds(own["streamed"].seconds),
        plain=_seconds(own["plain"].seconds),
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else say("{seconds} s", seconds=f"{value:.2f}")


def _streaming_grid(name: str, rows: Sequence[streaming.Row]) -> Grid:
    header = (
        *(say("way"), "n", say("answered"), say("equal to plain"), say("differs in")),
        *(say("tells its tokens"), say("counts other tokens"), say("first token")),
        *(say("whole answer"), say("what was refused")),
    )
    return Grid(name, header, tuple(map(_streaming_row, rows)))


def _streaming_row(row: streaming.Row) -> tuple[Cell, ...]:
    first = row.way == "plain"
    failed = {name: number for name, number in row.counts.items() if name != "answered"}
    return (
        Cell(say(_WAYS[row.way])),
        Cell(str(row.trials), sort=row.trials),
        Cell(str(row.answered), _outcomes(failed) if failed else ""),
        Cell("–") if first else share(row.equal, row.compared),
        Cell("–" if first else _outcomes(row.parts)),
        share(row.metered, row.answered),
        Cell("–") if first else share(row.counts_differ, row.compared),
        Cell(_seconds(row.first_token), sort=row.first_token),
        Cell(_seconds(row.seconds), f"n = {row.answered}", row.seconds),
        Cell(row.example or "–"),
    )
