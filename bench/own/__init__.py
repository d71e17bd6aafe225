"""A user's own tools, tasks, descriptions and scripted replies, read together for one run.

Nothing of it is copied: a run holds each file's SHA-256, and goes on only with the same files.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.types import Lang, Task, WorkbenchError

if TYPE_CHECKING:
    from bench.choice import Choice
    from bench.own.variants import OwnVariant
    from bench.run import ToolboxFor
    from bench.tools import Entry, Toolbox

OWN = "own"
"""The toolset of own tools, and the category of own tasks unless told."""


@dataclass(frozen=True, slots=True)
class Own:
    """What a user brought along; all of it may be empty."""

    entries: "tuple[Entry, ...]" = ()
    tasks: tuple[Task, ...] = ()
    variants: "Mapping[str, OwnVariant]" = field(default_factory=dict)
    script: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of every file, by its path as seen from the working folder."""
    seconds: float = 30.0

    def __bool__(self) -> bool:
        return bool(self.files)

    @property
    def toolsets(self) -> dict[str, tuple[str, ...]]:
        """The names of the tools of each toolset, the own one included where there is one."""
        from bench.tools import list_toolsets  # noqa: PLC0415 (pydantic takes time to load)

        own = {OWN: tuple(entry.tool.name for entry in self.entries)} if self.entries else {}
        return {**list_toolsets(), **own}

    def toolbox_for(self) -> "ToolboxFor":
        """Return what gives a task its tools, each toolbox made once."""

        @cache
        def make(toolset: str, lang: Lang, variant: str) -> "Toolbox":
            told = self._tell(self._toolbox(toolset, lang), lang, variant)
            if toolset == OWN and variant != "full" and told == self._toolbox(toolset, lang):
                raise WorkbenchError(
                    f"--variant {variant}: changes nothing in these tools; write your own variants "
                    "in a file and name it with --variants"
                )
            return told

        return lambda task, variant: make(task.toolset, task.lang, variant)

    def _toolbox(self, toolset: str, lang: Lang) -> "Toolbox":
        from bench.tools import Toolbox, load_tools  # noqa: PLC0415 (pydantic takes time to load)

        if toolset == OWN and self.entries:
            return Toolbox(self.entries, self.seconds)
        return load_tools(toolset, lang)

    def _tell(self, toolbox: "Toolbox", lang: Lang, variant: str) -> "Toolbox":
        from bench.variants import FULL, VARIANTS, apply_to_toolbox  # noqa: PLC0415 (as above)

        if variant == FULL:
            return toolbox
        if variant in self.variants:
            own = self.variants[variant]
            return toolbox.with_tools(own.tell(tool, lang) for tool in toolbox.tools)
        if variant not in VARIANTS and self.variants:
            known = ", ".join((*self.variants, *VARIANTS))
            raise WorkbenchError(f"--variant {variant[:80]}: no such variant; known: {known}")
        return apply_to_toolbox(toolbox, variant, lang)


def load_own(choice: "Choice") -> Own:
    """Read what a choice names of the user's own; raises WorkbenchError for the first fault."""
    if not (choice.tools or choice.tasks or choice.variants or choice.script):
        return Own()
    if choice.tools and not choice.tasks:
        raise WorkbenchError(
            "--tools: bundled tasks can't be solved with other tools; name your own with --tasks FILE"
        )
    paths: list[Path] = []
    entries = _read_tools(choice, paths)
    own = Own(entries, seconds=_seconds(choice))
    tasks = _read_tasks(choice, own, paths)
    variants = _read_variants(choice, own, paths)
    script = Path(choice.script) if choice.script else None
    named = dict.fromkeys(paths if script is None else [*paths, script])
    return Own(entries, tasks, variants, script, _hash_all(named), own.seconds)


def _seconds(choice: "Choice") -> float:
    from bench.own.calls import SECONDS  # noqa: PLC0415 (pydantic takes time to load)

    seconds = SECONDS if choice.tool_timeout is None else choice.tool_timeout
    if not 0 < seconds < 86_400:
        raise WorkbenchError(f"--tool-timeout {seconds:g}: give seconds, more than 0")
    return seconds


def _read_tools(choice: "Choice", paths: list[Path]) -> "tuple[Entry, ...]":
    from bench.own.tools import load_entries  # noqa: PLC0415 (pydantic takes time to load)

    hint = "; a bundled toolset is named with --toolset"
    entries, found = load_entries(choice.tools, _seconds(choice), hint)
    paths += found
    return entries


def _read_tasks(choice: "Choice", own: Own, paths: list[Path]) -> tuple[Task, ...]:
    from bench.own.tasks import read_tasks  # noqa: PLC0415 (pydantic takes time to load)

    if choice.tasks is None:
        return ()
    path = Path(choice.tasks)
    tasks = read_tasks(path, own.toolsets, OWN if own.entries else "all")
    paths.append(path)
    return tasks


def _read_variants(choice: "Choice", own: Own, paths: list[Path]) -> "dict[str, OwnVariant]":
    if choice.variants is None:
        return {}
    from bench.own.variants import read_variants  # noqa: PLC0415 (pydantic takes time to load)
    from bench.tools import load_tools  # noqa: PLC0415 (the same)

    path = Path(choice.variants)
    tools = [entry.tool for entry in own.entries] or list(load_tools().tools)
    paths.append(path)
    return read_variants(path, tools)


def _hash_all(paths: Iterable[Path]) -> dict[str, str]:
    found = {}
    for path in paths:
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as problem:
            raise WorkbenchError(f"{path}: cannot be read: {problem.strerror}") from None
        found[_shown(path)] = digest
    return found


def _shown(path: Path) -> str:
    here = Path.cwd()
    near = path.relative_to(here) if path.is_relative_to(here) else path
    return near.as_posix()
