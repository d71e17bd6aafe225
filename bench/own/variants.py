"""Read a user's own description variants: the same tools, told differently, under names of one's own.

A variant changes texts only: never a name, a type, or what a tool does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.own import files
from bench.tools.data import match_names
from bench.tools.schema import list_paths, with_texts
from bench.types import Lang, WorkbenchError
from bench.variants import VARIANTS, read_texts
from parsers import Tool

FULL = "{full}"
"""Stands in a text for what the tool says itself."""

_FORM = 'an object such as {"short": {"descriptions": {"get_weather": "The weather."}}}'
_KEYS = ("says", "descriptions", "parameters")
_LANGS = ("en", "zh")


@dataclass(frozen=True, slots=True)
class OwnVariant:
    """How a variant tells tools: by tool a description, and by tool and parameter a text."""

    name: str
    descriptions: Mapping[str, Any]
    """A text, or one for each language."""
    parameters: Mapping[str, Mapping[str, str]]
    undescribed: bool = False
    """Parameters lose their texts."""

    def tell(self, tool: Tool, lang: Lang) -> Tool:
        """Return the tool as this variant tells it."""
        said = self.descriptions.get(tool.name, FULL)
        text = said if isinstance(said, str) else said.get(lang, FULL)
        told = replace(tool, description=text.replace(FULL, tool.description))
        if self.undescribed:
            return with_texts(told, told.description, {})
        if own := self.parameters.get(tool.name):
            return with_texts(told, told.description, {**read_texts(tool), **own})
        return told


def read_variants(path: Path, tools: Sequence[Tool]) -> dict[str, OwnVariant]:
    """Return the variants of a JSON or YAML file by name; `tools` are those that they may tell.

    Raises WorkbenchError with file, line and fix.
    """
    text = files.read_text(path, "--variants")
    value = files.parse(text, path, _FORM)
    if not isinstance(value, Mapping) or not value:
        raise WorkbenchError(f"{path}:1: holds no variants; write {_FORM}")
    table = {tool.name: tool for tool in tools}
    for keys, fault in _find_faults(value, table):
        raise WorkbenchError(f"{path}:{files.line_of(text, *keys)}: {fault}")
    return {name: _make(name, recipe) for name, recipe in value.items()}


def _make(name: str, recipe: Mapping[str, Any]) -> OwnVariant:
    parameters = recipe.get("parameters", {})
    undescribed = parameters == "undescribed"
    texts = {} if undescribed else parameters
    return OwnVariant(name, recipe.get("descriptions", {}), texts, undescribed)


_Fault = tuple[tuple[str, ...], str]


def _find_faults(value: Mapping[Any, Any], table: Mapping[str, Tool]) -> Iterator[_Fault]:
    """Yield what is wrong, each with the keys of its place."""
    for name, recipe in value.items():
        if not isinstance(name, str) or not name or not name.isprintable() or set(name) & set(" ,"):
            yield (), f"{name!r} is no name of a variant; use letters, digits and -"
        elif name in VARIANTS:
            yield (name,), f"a bundled variant is named {name!r}; name yours otherwise"
        elif not isinstance(recipe, Mapping):
            yield (name,), f"variant {name} is no object; write {_FORM}"
        else:
            yield from _find_in_recipe(name, recipe, table)


def _find_in_recipe(
    name: str, recipe: Mapping[Any, Any], table: Mapping[str, Tool]
) -> Iterator[_Fault]:
    for key, inner in recipe.items():
        if key not in _KEYS:
            yield (name,), f"variant {name} has no {key!r}; known: {', '.join(_KEYS)}"
        elif key == "says" or (key == "parameters" and inner == "undescribed"):
            continue
        elif not isinstance(inner, Mapping):
            yield (name, key), f"{key} is no object with a text for each tool"
        else:
            for tool, told in inner.items():
                if fault := _find_in_tool(key, tool, told, table):
                    yield (name, key, tool), fault


def _find_in_tool(key: str, tool: Any, told: Any, table: Mapping[str, Tool]) -> str | None:
    if tool not in table:
        near = ", ".join(match_names(str(tool)[:80], table) or table)
        return f"no tool {str(tool)[:80]!r}; use one of {near}"
    if key == "descriptions":
        by_lang = isinstance(told, Mapping) and set(told) <= set(_LANGS)
        texts = list(told.values()) if by_lang else [told]
        good = all(isinstance(text, str) for text in texts)
        return None if good else f"the description of {tool} is no text (or one under en and zh)"
    paths = list_paths(table[tool].parameters)
    if not isinstance(told, Mapping):
        return f"the parameters of {tool} are no object with a text for each parameter"
    for name, text in told.items():
        if name not in paths or not isinstance(text, str):
            return (
                f"{tool} takes no text for {str(name)[:80]!r}; it has {', '.join(paths) or 'none'}"
            )
    return None
