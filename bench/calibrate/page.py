"""The page of a calibration, and the blocks of it that other reports quote."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.calibrate.findings import (
    SIMULATED,
    Calibration,
    Limit,
    limits,
    mean_spread,
    read,
    say_share,
)
from bench.calibrate.intervals import CONDITIONS, DIFFERENCE, FLIPS, RUNS, Share, told_beforehand
from bench.paths import default_results
from bench.report import Block, Bullets, Cell, Document, Grid, Prose, Section, manifest_section
from bench.stats import guess_spread
from bench.texts import say

FOLDER, FILE = "calibration", "calibration.json"


def compose(found: Calibration) -> Document:
    """Lay the page out: what must hold first, then both halves, then how it was made."""
    kept = list(limits(found))
    rows = tuple((Cell(one.what), _kept_cell(one)) for one in kept)
    answer = (
        Prose(say(SIMULATED), strong=True),
        Prose(
            say(
                "{kept} of {n} things that must hold do, each within two Monte-Carlo errors.",
                kept=sum(one.kept for one in kept),
                n=len(kept),
            )
        ),
        Grid(say("What must hold"), (say("what"), say("does it")), rows),
    )
    accounts, intervals = tuple(_accounts(found)), tuple(_intervals(found))
    return Document(
        say("Simulated: how accurate the workbench itself is"),
        say("Exact accounting over damaged replies; intervals and tests over simulated scores."),
        (
            Section("answer", say("Answer"), say("What was found"), answer),
            Section("accounts", say("Accounts"), say("Exact accounting"), accounts),
            Section("intervals", say("Intervals"), say("Intervals and tests"), intervals),
            Section("method", say("Method"), say("How it is done"), (Bullets(tuple(_method())),)),
            manifest_section(found.made),
        ),
    )


def _kept_cell(one: Limit) -> Cell:
    return Cell(say("yes") if one.kept else say("NO"), one.told)


def calibration_blocks(path: Path | None = None) -> list[Block]:
    """Return the blocks that a report's appendix quotes; none where nothing was calibrated.

    `path` is a calibration.json; unless told, the one of the default results folder.
    """
    place = path or default_results() / FOLDER / FILE
    if not place.is_file():
        return []
    found = read(place)
    return [Prose(say(SIMULATED)), *_accounts(found, short=True), *_intervals(found)]


def _accounts(found: Calibration, *, short: bool = False) -> Iterator[Block]:
    account = found.account
    yield Prose(
        say(
            "{damaged} damaged replies among {replies}, in {episodes} episodes: {checks} comparisons "
            "of a reading, a count of an episode or a sum of a table with what was injected; {wrong} "
            "differ.",
            damaged=f"{account.damaged:,}",
            replies=f"{account.replies:,}",
            episodes=f"{account.episodes:,}",
            checks=f"{account.checks:,}",
            wrong=f"{sum(account.wrong.values()):,}",
        )
    )
    if account.wrong:
        rows = tuple((Cell(what), Cell(f"{n:,}")) for what, n in sorted(account.wrong.items()))
        yield Grid(say("What differs"), (say("what"), say("how often")), rows)
        yield Bullets(tuple(account.examples))
    if not short:
        yield _kinds(found)


def _kinds(found: Calibration) -> Grid:
    counts: dict[str, Counter[str]] = {}
    for name, n in found.account.kinds.items():
        way, _, kind = name.partition(": ")
        counts.setdefault(kind, Counter())[way] += n
    rows = tuple(
        (
            Cell(say(kind)),
            *(Cell(f"{own[way]:,}" if own[way] else "–") for way in ("react", "native")),
        )
        for kind, own in sorted(counts.items())
    )
    header = (say("damage"), "ReAct", "native")
    return Grid(say("Replies by what was done to them"), header, rows)


def _share(share: Share) -> Cell:
    if not share.of:
        return Cell(say_share(share))
    note = say("{top} of {below}", top=f"{share.hits:,}", below=f"{share.of:,}")
    return Cell(say_share(share), note)


def _intervals(found: Calibration) -> Iterator[Block]:
    header = (
        *(say("size"), say("95 % intervals of a difference"), say("90 %")),
        *(say("95 % of a rate"), say("false alarms")),
    )
    rows = tuple(
        (
            Cell(say(c.name)),
            *map(_share, (one.wide, one.narrow, one.rate, one.alarms)),
        )
        for c, one in zip(CONDITIONS, found.coverage, strict=True)
    )
    caption = say("How often an interval holds the truth, and a test cries wolf (5 %)")
    yield Grid(caption, header, rows)
    yield _runs_grid(found)
    yield Prose(
        say(
            "± is one standard deviation of the simulation itself. Only the two main sizes (80 and 120 "
            "units of two languages) must keep the limits; the other rows show what becomes of fewer "
            "units, of other shapes, and of ways that are less alike than was guessed."
        )
    )


def _runs_grid(found: Calibration) -> Grid:
    header = (
        *(say("size"), say("told beforehand"), say("found")),
        *(say("any planned false alarm"), say("spread, guessed")),
    )
    rows = tuple(
        (
            Cell(say(c.name)),
            Cell(say("{n} points", n=f"{told_beforehand(c.world) * 100:.0f}")),
            _share(one.found),
            _share(one.alarms),
            Cell(f"{mean_spread(one):.2f}, {guess_spread(c.world.observations):.2f}"),
        )
        for c, one in zip(RUNS, found.runs, strict=True)
    )
    caption = say("Pairs of runs at the smallest difference that is told before a run")
    return Grid(caption, header, rows)


def _method() -> Iterator[str]:
    yield say(
        "Accounts: each task's gold is written as right moves, both ways, at all three levels. A "
        "seeded client damages most of them and keeps a ledger, which says by the readers' contract "
        "what each reply is at each level, which repairs it needs, and what every count must be."
    )
    yield say(
        "The loop, the readers, the tools, the judge and the tables are the ones of every run; only "
        "the client is made up. A repairable damage must show as that repair, never as a failure."
    )
    yield say(
        "Intervals: a logit model with an ability of each unit, a lean of each unit and way (the "
        "interaction), a turn of each unit and language, and trials nested in them. The truth is the "
        "mean over all units that could be drawn; in the tables it is {points} points, or 0 for false "
        "alarms.",
        points=f"{DIFFERENCE * 100:g}",
    )
    yield say(
        "The intervals are those of every report (BCa bootstrap, all its resamples). Tests use {flips} "
        "sign flips here instead of up to 131,072: that makes a p coarser, not smaller.",
        flips=f"{FLIPS:,}",
    )
    yield say(
        "Runs: whole episodes' scores, through the same tables, with success, parse failures and wrong "
        "picks and Holm's adjustment over the three; the last two don't differ between the ways."
    )
