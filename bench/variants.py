"""Description variants: the same tools, told differently, for the experiment on descriptions.

Each is a file in `datasets/variants/` that holds its difference from another variant. A variant
changes texts and shown names only: never a schema's types, and never what a tool does. Tools that
are not the bundled ones, word for word, keep their texts, but for parameters left undescribed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from bench.paths import find_datasets
from bench.tools import load_tools
from bench.tools.schema import list_paths, with_texts
from bench.tools.toolbox import Toolbox
from bench.types import Lang, WorkbenchError
from parsers import Tool

FULL = "full"
"""The base, which every other experiment uses."""

VARIANTS = (
    FULL,
    "what+when",
    "what",
    "name",
    "bare-params",
    "bare",
    "verbose",
    "examples",
    "wrong-language",
    "assertive",
    "misleading",
    "scrambled-name",
)
"""All variants: the base, what is left of it step by step, then those of the look-alikes."""

LOOKALIKES = (
    "get_weather",
    "get_forecast",
    "get_air_quality",
    "get_exchange_rate",
    "get_rate_history",
    "find_exchange_banks",
)
"""The tools that the variants from `verbose` on are written for: two families of three."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Tools as a variant shows them, in their order."""

    name: str
    tools: tuple[Tool, ...]
    names: Mapping[str, str]
    """For each shown name the tool's own, for dispatch and gold."""
    changed: frozenset[str]
    """The own names of the tools that are told otherwise than in `full`."""


def list_variants() -> dict[str, str]:
    """Return for each variant, in a fixed order, what it is, in a sentence."""
    return {name: str(_load(name)["says"]) for name in VARIANTS}


def find_file(variant: str) -> Path:
    """Return the data file of a variant. Raises WorkbenchError for an unknown name."""
    if variant not in VARIANTS:
        known = ", ".join(VARIANTS)
        raise WorkbenchError(f"{variant[:80]!r}: no such description variant; known: {known}")
    return find_datasets() / "variants" / f"{variant}.json"


def apply_variant(tools: Sequence[Tool], variant: str, lang: Lang) -> Variant:
    """Return the tools as a variant shows them in a language.

    `full` returns them as they are. Raises WorkbenchError for an unknown variant.
    """
    shown = tuple(_apply(tool, variant, lang) for tool in tools)
    pairs = list(zip(shown, tools, strict=True))
    names = {told.name: tool.name for told, tool in pairs}
    return Variant(variant, shown, names, frozenset(t.name for told, t in pairs if told != t))


def apply_to_toolbox(toolbox: Toolbox, variant: str, lang: Lang) -> Toolbox:
    """Return the toolbox with the shown tools; a shown name runs the function behind it."""
    shown = apply_variant(toolbox.tools, variant, lang).tools
    entries = (replace(e, tool=tool) for e, tool in zip(toolbox.entries, shown, strict=True))
    return replace(toolbox, entries=tuple(entries))


def original_name(variant: str, name: str) -> str:
    """Return the tool's own name for a name that a model was shown, else the name as it is.

    A name that was hidden by another (`get_weather` where `func_7` was shown) was not offered,
    so it comes back with a mark that no tool's name has: `get_weather (not offered)`.
    """
    names: Mapping[str, str] = _load(variant).get("names", {})
    if name in names:
        return f"{name} (not offered)"
    return {shown: own for own, shown in names.items()}.get(name, name)


@cache
def _load(variant: str) -> Mapping[str, Any]:
    return json.loads(find_file(variant).read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def _apply(tool: Tool, variant: str, lang: Lang) -> Tool:
    recipe = _load(variant)
    shown = _apply(tool, recipe["based_on"], lang) if "based_on" in recipe else tool
    if _is_bundled(tool, lang):
        shown = _retell(shown, recipe, lang)
    if recipe.get("parameters") == "undescribed":
        shown = with_texts(shown, shown.description, {})
    return _rename(shown, recipe["names"]) if "names" in recipe else shown


def _is_bundled(tool: Tool, lang: Lang) -> bool:
    entry = load_tools(lang=lang).table.get(tool.name)
    return entry is not None and entry.tool == tool


def _retell(tool: Tool, recipe: Mapping[str, Any], lang: Lang) -> Tool:
    if tool.name in recipe.get("tools", ()):
        other: Lang = "en" if lang == "zh" else "zh"
        return load_tools(lang=other).table[tool.name].tool
    told = recipe.get("descriptions", {}).get(lang, {}).get(tool.name)
    if told is None:
        return tool
    return replace(tool, description=told.replace("{full}", tool.description))


def _rename(tool: Tool, names: Mapping[str, str]) -> Tool:
    """Return the tool with other names for itself and for the tools that its texts mention."""
    texts = {path: _rename_in(text, names) for path, text in read_texts(tool).items()}
    told = with_texts(tool, _rename_in(tool.description, names), texts)
    return replace(told, name=names.get(tool.name, tool.name))


def _rename_in(text: str, names: Mapping[str, str]) -> str:
    word = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z0-9_]+(?![A-Za-z0-9_])")
    return word.sub(lambda found: names.get(found[0], found[0]), text)


def read_texts(tool: Tool) -> dict[str, str]:
    """Return the description of each described parameter, by its path (`parcel.size_cm`)."""
    found = {path: _find(tool.parameters, path.split(".")) for path in list_paths(tool.parameters)}
    return {path: text for path, text in found.items() if text}


def _find(schema: Mapping[str, Any], path: Sequence[str]) -> str:
    for name in path:
        schema = schema.get("items", schema).get("properties", {})[name]
    return str(schema.get("description") or "")
