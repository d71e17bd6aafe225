"""Cells that several tables of a report share: a rate, a difference, a count."""

from bench import stats
from bench.findings import explain_note, name_way, percent, points
from bench.report.document import Behind, Cell
from bench.tables import Rate
from bench.texts import say

NONE = Cell("–")


def behind(endpoint: str, way: str = "", what: str = "", top: int | None = None) -> Behind:
    """Name the episodes behind a number of one way; none of them counted: those that could be."""
    side = "" if not what or top is None else ("top" if top else "below")
    return Behind(endpoint=endpoint, way=name_way(way), what=what, side=side)


def of(top: int, below: int) -> str:
    """Write a count and its denominator."""
    return say("{top} of {below}", top=top, below=below)


def span(low: str, high: str) -> str:
    """Write an interval."""
    return say("{low} to {high}", low=low, high=high)


def rate_cell(rate: Rate, found: Behind | None = None) -> Cell:
    """Write a rate with its denominator and its interval in percent."""
    if rate.value is None:
        return Cell("–", of(0, 0))
    note = of(rate.top, rate.below)
    if rate.interval is not None:
        low, high = f"{rate.interval.low * 100:.1f}", f"{rate.interval.high * 100:.1f}"
        note += f"; {span(low, high)}"
    return Cell(percent(rate.value), note, rate.value, found)


def difference_cell(d: stats.Difference, found: Behind | None = None) -> Cell:
    """Write a difference in points with its units and its interval."""
    if not d.units:
        return Cell("–", say("no unit has both"))
    note = say("{n} units", n=d.units)
    if d.interval is not None:
        note += f"; {span(points(d.interval.low), points(d.interval.high))}"
    return Cell(points(d.estimate), note, d.estimate, found)


def reason_cell(d: stats.Difference, text: str) -> Cell:
    """Write what a difference shows; nothing where no unit has both."""
    return Cell(text or explain_note(d)) if d.units else NONE
