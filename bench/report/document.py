"""The parts of a report, not yet written in any form: values, no layout."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from bench import charts
from bench.texts import spoken


@dataclass(frozen=True, slots=True)
class Behind:
    """Which episodes are behind a number: those that fit all that is said here.

    `what` names a count of the viewer (`viewer.counts_of`), and `side` says whether the episodes
    are wanted that have it (`top`), the ones that could (`below`), or those of the latter without
    it (`rest`).
    """

    endpoint: str = ""
    way: str = ""
    what: str = ""
    side: str = ""
    category: str = ""
    lang: str = ""
    stop: str = ""
    task: str = ""

    def items(self) -> Iterator[tuple[str, str]]:
        """Yield what is said."""
        for item in fields(self):
            if value := getattr(self, item.name):
                yield item.name, value


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table; `note` is smaller (a denominator, an interval), `sort` its number."""

    text: str
    note: str = ""
    sort: float | None = None
    behind: Behind | None = None
    """Makes the text a link to these episodes, on a page that holds them."""


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    kind: ClassVar[str] = "prose"
    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    kind: ClassVar[str] = "bullets"
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; the first cell of a row names it."""

    kind: ClassVar[str] = "grid"
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = False
    total: tuple[Cell, ...] = ()
    """A last row that stays last however the others are sorted."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure."""

    kind: ClassVar[str] = "picture"
    chart: charts.Chart


@dataclass(frozen=True, slots=True)
class Quote:
    """A verbatim text: who said it, what was found in it, and the text itself."""

    kind: ClassVar[str] = "quote"
    title: str
    about: str
    text: str
    pointed: str = ""
    """The place in the text that a failure is about, with a caret under it."""
    folded: bool = False
    behind: Behind | None = None
    """Makes the title a link to this episode, on a page that holds it."""


Block = Prose | Bullets | Grid | Picture | Quote


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its blocks; `id` is its anchor, `short` its name in the page's index."""

    id: str
    short: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A report, not yet written in any form."""

    title: str
    about: str
    sections: tuple[Section, ...]
    episodes: Mapping[str, Any] | None = field(default=None, repr=False)
    """What the page's viewer shows (`viewer.gather`); None: the page has no viewer."""
    lang: str = field(default_factory=spoken)
    """The language that its texts are in."""

    @property
    def charts(self) -> tuple[charts.Chart, ...]:
        """The figures, in order."""
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(block.chart for block in blocks if isinstance(block, Picture))
