"""The page of a calibration, and the blocks of it that other reports quote."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.calibrate.findings import (
    SIMULATED,
    Calibration,
    limits,
    mean_spread,
    read,
    say_share,
)
from bench.calibrate.intervals import CONDITIONS, DIFFERENCE, FLIPS, RUNS, Share, told_beforehand
from bench.paths import default_results
from bench.report import Block, Bullets, Cell, Document, Grid, Prose, Section, manifest_section
from bench.stats import guess_spread

FOLDER, FILE = "calibration", "calibration.json"


def compose(found: Calibration) -> Document:
    """Lay the page out: what must hold first, then both halves, then how it was made."""
    kept = list(limits(found))
    rows = tuple((Cell(one.what), Cell("yes" if one.kept else "NO", one.told)) for one in kept)
    answer = (
        Prose(SIMULATED, strong=True),
        Prose(
            f"{sum(one.kept for one in kept)} of {len(kept)} things that must hold do, each within "
            "two Monte-Carlo errors."
        ),
        Grid("What must hold", ("what", "does it"), rows),
    )
    return Document(
        "Simulated: how accurate the workbench itself is",
        "Exact accounting over damaged replies; intervals and tests over simulated scores.",
        (
            Section("answer", "Answer", "What was found", answer),
            Section("accounts", "Accounts", "Exact accounting", tuple(_accounts(found))),
            Section("intervals", "Intervals", "Intervals and tests", tuple(_intervals(found))),
            Section("method", "Method", "How it is done", (Bullets(METHOD),)),
            manifest_section(found.made),
        ),
    )


def calibration_blocks(path: Path | None = None) -> list[Block]:
    """Return the blocks that a report's appendix quotes; none where nothing was calibrated.

    `path` is a calibration.json; unless told, the one of the default results folder.
    """
    place = path or default_results() / FOLDER / FILE
    if not place.is_file():
        return []
    found = read(place)
    return [Prose(SIMULATED), *_accounts(found, short=True), *_intervals(found)]


def _accounts(found: Calibration, *, short: bool = False) -> Iterator[Block]:
    account = found.account
    yield Prose(
        f"{account.damaged:,} damaged replies among {account.replies:,}, in {account.episodes:,} "
        f"episodes: {account.checks:,} comparisons of a reading, a count of an episode or a sum of a "
        f"table with what was injected; {sum(account.wrong.values()):,} differ."
    )
    if account.wrong:
        rows = tuple((Cell(what), Cell(f"{n:,}")) for what, n in sorted(account.wrong.items()))
        yield Grid("What differs", ("what", "how often"), rows)
        yield Bullets(tuple(account.examples))
    if not short:
        yield _kinds(found)


def _kinds(found: Calibration) -> Grid:
    counts: dict[str, Counter[str]] = {}
    for name, n in found.account.kinds.items():
        way, _, kind = name.partition(": ")
        counts.setdefault(kind, Counter())[way] += n
    rows = tuple(
        (Cell(kind), *(Cell(f"{own[way]:,}" if own[way] else "–") for way in ("react", "native")))
        for kind, own in sorted(counts.items())
    )
    return Grid("Replies by what was done to them", ("damage", "ReAct", "native"), rows)


def _share(share: Share) -> Cell:
    return Cell(say_share(share), f"{share.hits:,} of {share.of:,}" if share.of else "")


def _intervals(found: Calibration) -> Iterator[Block]:
    header = ("size", "95 % intervals of a difference", "90 %", "95 % of a rate", "false alarms")
    rows = tuple(
        (Cell(c.name), _share(one.wide), _share(one.narrow), _share(one.rate), _share(one.alarms))
        for c, one in zip(CONDITIONS, found.coverage, strict=True)
    )
    yield Grid("How often an interval holds the truth, and a test cries wolf (5 %)", header, rows)
    header = ("size", "told beforehand", "found", "any planned false alarm", "spread, guessed")
    rows = tuple(
        (
            Cell(c.name),
            Cell(f"{told_beforehand(c.world) * 100:.0f} points"),
            _share(one.found),
            _share(one.alarms),
            Cell(f"{mean_spread(one):.2f}, {guess_spread(c.world.observations):.2f}"),
        )
        for c, one in zip(RUNS, found.runs, strict=True)
    )
    yield Grid("Pairs of runs at the smallest difference that is told before a run", header, rows)
    yield Prose(
        "± is one standard deviation of the simulation itself. Only the two main sizes (80 and 120 units "
        "of two languages) must keep the limits; the other rows show what becomes of fewer units, of "
        "other shapes, and of ways that are less alike than was guessed."
    )


METHOD = (
    (
        "Accounts: each task's gold is written as right moves, both ways, at all three levels. A "
        "seeded client damages most of them and keeps a ledger, which says by the readers' contract "
        "what each reply is at each level, which repairs it needs, and what every count must be."
    ),
    (
        "The loop, the readers, the tools, the judge and the tables are the ones of every run; only "
        "the client is made up. A repairable damage must show as that repair, never as a failure."
    ),
    (
        "Intervals: a logit model with an ability of each unit, a lean of each unit and way (the "
        "interaction), a turn of each unit and language, and trials nested in them. The truth is the "
        f"mean over all units that could be drawn; in the tables it is {DIFFERENCE * 100:g} points, or 0 "
        "for false alarms."
    ),
    (
        f"The intervals are those of every report (BCa bootstrap, all its resamples). Tests use {FLIPS:,} "
        "sign flips here instead of up to 131,072: that makes a p coarser, not smaller."
    ),
    (
        "Runs: whole episodes' scores, through the same tables, with success, parse failures and wrong "
        "picks and Holm's adjustment over the three; the last two don't differ between the ways."
    ),
)
