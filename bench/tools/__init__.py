"""The tools that tasks offer: deterministic, offline, and never raising towards a model.

Results are JSON texts with English keys; names and conditions come in both languages side by side
(`name`, `name_zh`), documents in the language of the query, and errors in English.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from bench.tools import money, office, orders, text, weather
from bench.tools.data import load_table, match_names
from bench.tools.schema import (
    Entry,
    Function,
    entry_from_function,
    list_paths,
    needs_leave,
    tool_from_function,
    with_texts,
)
from bench.tools.toolbox import Leave, Toolbox, leave_for, refuse_all, render, toolbox_from
from bench.types import Lang, WorkbenchError

__all__ = [
    "FUNCTIONS",
    "Entry",
    "Leave",
    "Toolbox",
    "entry_from_function",
    "leave_for",
    "list_paths",
    "list_toolsets",
    "load_tools",
    "needs_leave",
    "refuse_all",
    "render",
    "tool_from_function",
    "toolbox_from",
    "with_texts",
]

FUNCTIONS: tuple[Function, ...] = (
    weather.get_weather,
    weather.get_forecast,
    weather.get_air_quality,
    weather.get_time,
    money.get_exchange_rate,
    money.get_rate_history,
    money.find_exchange_banks,
    money.get_loan_payment,
    money.calculate,
    money.convert_units,
    office.list_events,
    office.find_free_slots,
    office.create_event,
    office.find_contact,
    office.send_message,
    office.search_documents,
    orders.get_order,
    orders.list_orders,
    orders.track_parcel,
    orders.quote_refund,
    orders.quote_shipping,
    text.count_text,
    text.hash_text,
    text.replace_text,
    text.parse_url,
    text.check_json,
)
"""The functions behind the bundled tools."""

ALL = "all"
"""The toolset that offers every tool."""


def list_toolsets() -> dict[str, tuple[str, ...]]:
    """Return the names of the tools of each toolset, in their fixed order, `all` last."""
    sets = {name: tuple(tools) for name, tools in load_table("toolsets.json").items()}
    return {**sets, ALL: tuple(function.__name__ for function in FUNCTIONS)}


@cache
def load_tools(toolset: str = ALL, lang: Lang = "en") -> Toolbox:
    """Return the toolbox of a toolset, described in a language.

    >>> from bench import load_tools
    >>> [tool.name for tool in load_tools("weather").tools][:2]
    ['get_weather', 'get_forecast']
    """
    sets = list_toolsets()
    if toolset not in sets:
        near = match_names(toolset, sets) or sorted(sets)
        raise WorkbenchError(f"no toolset {toolset!r}: try one of {', '.join(near)}")
    entries = _load_entries()
    return Toolbox(tuple(_translate(entries[name], lang) for name in sets[toolset]))


@cache
def _load_entries() -> dict[str, Entry]:
    made = {function.__name__: entry_from_function(function) for function in FUNCTIONS}
    return {name: replace(entry, ends=True) for name, entry in made.items()}


def _translate(entry: Entry, lang: Lang) -> Entry:
    if lang == "en":
        return entry
    texts: Mapping[str, Any] = load_table("zh.json")[entry.tool.name]
    tool = with_texts(entry.tool, texts["description"], texts["parameters"])
    return replace(entry, tool=tool)
