"""Find the tools that somebody names: a file, a Python function or module, or a bundled toolset.

What is read is read by `bench.own.tools`, as for a run; here it is taken as it stands.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.lint.finding import Subject
from bench.own.tools import Item, find_tools
from bench.tools import list_toolsets, load_tools, tool_from_function
from bench.types import Lang
from parsers import Tool

_LANGS: tuple[Lang, ...] = ("en", "zh")


@dataclass(frozen=True, slots=True)
class Source:
    """Tools that are offered together, and what findings call the place they come from."""

    label: str
    subjects: tuple[Subject, ...]


def find_sources(target: str) -> tuple[Source, ...]:
    """Return the tools that a target names.

    A bundled toolset gives one source for each language. Raises WorkbenchError where the target
    cannot be read or holds no tools.
    """
    sets = list_toolsets()
    if target in sets:
        return tuple(_load_bundled(target, lang) for lang in _LANGS)
    found = find_tools(target, f", or one of {', '.join(sets)}")
    return (Source(found.label, tuple(map(_subject, found.items))),)


def _load_bundled(toolset: str, lang: Lang) -> Source:
    tools = load_tools(toolset, lang).tools
    return Source(f"{toolset}/{lang}", tuple(Subject.from_tool(tool) for tool in tools))


def _subject(item: Item) -> Subject:
    if isinstance(item, Tool | Mapping):
        return Subject.from_tool(item)
    return Subject.from_tool(tool_from_function(item))
