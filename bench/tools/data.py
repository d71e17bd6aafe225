"""The tables behind the bundled tools, read once, and the look-ups that they share.

Nothing here depends on the clock or the machine: `NOW` is the tools' present for good.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from functools import cache
from typing import Any

from bench.paths import find_datasets

Row = dict[str, Any]

NOW = datetime.fromisoformat("2026-03-16T09:30:00+08:00")
"""The present, a Monday morning in Beijing."""

TODAY = NOW.date()


@cache
def load_table(name: str) -> Any:
    """Return the decoded table `datasets/tools/<name>`: a JSON file, or the rows of a JSONL file."""
    text = (find_datasets() / "tools" / name).read_text(encoding="utf-8")
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


def make_error(message: str, **hints: Any) -> Row:
    """Return what a tool gives back instead of a result, with what helps to ask again."""
    return {"error": message, **hints}


def tidy(value: float) -> float:
    """Return a float to 12 significant digits, a whole one without `.0`."""
    if isinstance(value, int):
        return value
    short = float(f"{value:.12g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def is_chinese(text: str) -> bool:
    """Say whether the text has a CJK ideograph."""
    return any("一" <= char <= "鿿" for char in text)


def fold(text: str) -> str:
    """Return the form in which names are compared."""
    return " ".join(text.replace("’", "'").casefold().split())


def match_names(asked: str, names: Iterable[str]) -> list[str]:
    """Return up to three names that look like the one asked for."""
    known = {fold(name): name for name in names}
    # one wrong character of two is half a Chinese name
    alike = 0.5 if is_chinese(asked) else 0.7
    return [known[near] for near in get_close_matches(fold(asked), known, n=3, cutoff=alike)]


def report_unknown(what: str, asked: str, names: Iterable[str]) -> Row:
    """Return the error for a name that is in no table: the near ones, and all known ones."""
    known = list(names)
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    hints: Row = {f"known_{plural}": known[:40]}
    if near := match_names(asked[:80], known):
        hints = {"did_you_mean": near, **hints}
    return make_error(f"unknown {what}: {asked[:80]}", **hints)


def find_row(rows: Iterable[Row], asked: str, *keys: str) -> Row | None:
    """Return the first row in which one of the keys holds the name asked for."""
    wanted = fold(asked)
    return next((row for row in rows if any(fold(str(row[k])) == wanted for k in keys)), None)


def find_city(city: str) -> Row | None:
    """Return a city's row by its English or Chinese name."""
    return find_row(load_table("cities.json"), city.removesuffix("市"), "name", "name_zh")


def unknown_city(city: str, known: Iterable[Mapping[str, Any]] | None = None) -> Row:
    """Return the error for an unknown city, with names in the script that was asked in."""
    key = "name_zh" if is_chinese(city) else "name"
    rows = load_table("cities.json") if known is None else known
    return report_unknown("city", city, [row[key] for row in rows])


def out_of_range(name: str, value: float, low: float, high: float) -> Row:
    """Return the error for a number outside its range."""
    return make_error(
        f"out of range: {name} is {value}, allowed {low} to {high}", minimum=low, maximum=high
    )


def read_date(text: str) -> date | None:
    """Return a date written as YYYY-MM-DD, or None."""
    try:
        return date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None


def bad_date(text: str) -> Row:
    """Return the error for a text that is no date."""
    return make_error(f"not a date: {text[:40]}", expected="YYYY-MM-DD", today=TODAY.isoformat())


def day_after(days: int) -> str:
    """Return the date that many days from today, as YYYY-MM-DD."""
    return (TODAY + timedelta(days=days)).isoformat()
