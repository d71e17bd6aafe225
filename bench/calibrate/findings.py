"""What a calibration found, as a value that is written to calibration.json and read again."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from bench.calibrate.accounts import Account
from bench.calibrate.intervals import CONDITIONS, RUNS, Coverage, Runs, Share, told_beforehand
from bench.texts import mark, say
from bench.types import WorkbenchError

FORMAT = 1
SIMULATED = mark(
    "Simulated: no model said any of this. Replies were damaged on purpose and scores were drawn "
    "by lot, to see how far the workbench's own counts and statistics can be trusted."
)
"""The first line of whatever is written here."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """All that was found; coverage and runs in the order of `CONDITIONS` and `RUNS`."""

    account: Account
    coverage: tuple[Coverage, ...]
    runs: tuple[Runs, ...]
    made: Mapping[str, Any]
    """Seed, sizes asked for, versions, machine, seconds."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One thing that must hold."""

    what: str
    told: str
    """What was found, in words."""
    kept: bool


def limits(found: Calibration) -> Iterator[Limit]:
    """Yield what must hold, and whether it does, within two Monte-Carlo errors."""
    account = found.account
    told = say(
        "{wrong} differences in {checks} comparisons",
        wrong=sum(account.wrong.values()),
        checks=f"{account.checks:,}",
    )
    yield Limit(say("what is counted is what was injected"), told, account.exact)
    for condition, coverage in zip(CONDITIONS, found.coverage, strict=True):
        if condition.strict:
            size = say(condition.name)
            yield _within(
                say("{size}: 95 % intervals hold", size=size), coverage.wide, 0.925, 0.975
            )
            yield _within(say("{size}: false alarms", size=size), coverage.alarms, 0.0, 0.06)
    for condition, runs in zip(RUNS, found.runs, strict=True):
        if condition.strict:
            size, least = say(condition.name), f"{told_beforehand(condition.world) * 100:.0f}"
            what = say("{size}: a difference of {points} points found", size=size, points=least)
            yield _within(what, runs.found, 0.8, 1.0)
            what = say("{size}: any planned false alarm", size=size)
            yield _within(what, runs.alarms, 0.0, 0.06)


def _within(what: str, share: Share, low: float, high: float) -> Limit:
    kept = share.of > 0 and low - 2 * share.error <= share.value <= high + 2 * share.error
    told = {"share": say_share(share), "low": f"{low * 100:g}", "high": f"{high * 100:g}"}
    if not low:
        return Limit(what, say("{share}; must be at most {high} %", **told), kept)
    if high == 1:
        return Limit(what, say("{share}; must be at least {low} %", **told), kept)
    return Limit(what, say("{share}; must be {low} to {high} %", **told), kept)


def say_share(share: Share) -> str:
    """Write a share with its Monte-Carlo error.

    >>> say_share(Share(3804, 4000))
    '95.1 % ± 0.3'
    """
    return "–" if not share.of else f"{share.value * 100:.1f} % ± {share.error * 100:.1f}"


# ---------------------------------------------------------------- the file


def to_json(found: Calibration) -> dict[str, Any]:
    """Give a calibration as JSON; what is simulated says so first."""
    account = {item.name: getattr(found.account, item.name) for item in fields(Account)}
    account |= {name: dict(sorted(account[name].items())) for name in ("kinds", "wrong")}
    return {
        "simulated": SIMULATED,
        "format": FORMAT,
        "made": dict(found.made),
        "account": account,
        "coverage": [
            {"name": c.name, "world": asdict(c.world), **asdict(one)}
            for c, one in zip(CONDITIONS, found.coverage, strict=True)
        ],
        "runs": [
            {"name": c.name, "world": asdict(c.world), "told": told_beforehand(c.world)}
            | asdict(one)
            for c, one in zip(RUNS, found.runs, strict=True)
        ],
    }


def read(path: Path) -> Calibration:
    """Read calibration.json again; raises WorkbenchError where it is none of this version's."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return _from_json(data)
    except OSError as error:
        raise WorkbenchError(f"{path}: can't be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WorkbenchError(
            f"{path}: no calibration of this version ({error!r}); make it with: python -m bench "
            "calibrate"
        ) from None


def _from_json(data: Mapping[str, Any]) -> Calibration:
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']!r}")
    for known, told in ((CONDITIONS, data["coverage"]), (RUNS, data["runs"])):
        if [c.name for c in known] != [entry["name"] for entry in told]:
            raise ValueError("other conditions")
    account = Account(**{f.name: data["account"][f.name] for f in fields(Account)})
    coverage = tuple(
        Coverage(**{f.name: Share(**entry[f.name]) for f in fields(Coverage)})
        for entry in data["coverage"]
    )
    return Calibration(account, coverage, tuple(map(_runs, data["runs"])), data["made"])


def _runs(entry: Mapping[str, Any]) -> Runs:
    found, back, alarms = (Share(**entry[name]) for name in ("found", "reversed", "alarms"))
    return Runs(found, back, alarms, float(entry["spread"]))


def mean_spread(runs: Runs) -> float:
    """Return the mean standard deviation of the per-unit difference in simulated runs."""
    return runs.spread / runs.found.of if runs.found.of else math.nan
