"""The page that `bench.perf` keeps: a section for each part, and one table of all their figures.

Pure functions of texts. A section's figures are its bullets, `- what; target: met` or `- what`; the
table is made from them, so no figure stands in two places that could differ.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

TITLE = "# How fast"
_SUMMARY = "in short"
_SECTION = re.compile(
    r"<!-- (?P<name>[a-z ]+) -->\n(?P<text>.*?)\n<!-- end of (?P=name) -->\n", re.DOTALL
)
_FIGURE = re.compile(r"^- (?P<what>.+?)(?:; (?P<target>[^;]+?))?: (?P<held>met|\*\*not met\*\*)$")
_STAMP = re.compile(
    r"^Measured on (?P<date>\S+) \((?P<machine>.*)\) by `(?P<command>.*)`\.$", re.MULTILINE
)
_ABOUT = (
    "Every figure of every section, and its target where it has one. How it was measured, beside "
    "what, and with which versions is in its section; the command of a section measures it again."
)


@dataclass(frozen=True, slots=True)
class Stamp:
    """When, where and by which command a section was measured."""

    date: str
    machine: str
    command: str

    def line(self) -> str:
        """Write it as a section ends with it."""
        return f"Measured on {self.date} ({self.machine}) by `{self.command}`."


@dataclass(frozen=True, slots=True)
class Figure:
    """A bullet of a section: what was found, what was asked for, and whether that is met."""

    what: str
    target: str = ""
    held: str = ""


def keep_section(page: str, name: str, text: str, order: Sequence[str]) -> str:
    """Return a page with a part's section in place of the one that it has, and its table made anew.

    `order`: the names of all parts, as they stand on the page; an empty page is begun.
    """
    sections = {**read_sections(page), name: text.strip()}
    known = [part for part in order if part in sections]
    ordered = {part: sections[part] for part in [*known, *sections]}
    parts = {_SUMMARY: "\n".join(summary_lines(ordered)), **ordered}
    return "\n".join([f"{TITLE}\n", *(_mark(*part) for part in parts.items())])


def read_sections(page: str) -> dict[str, str]:
    """Return the text of each part on a page, without the table."""
    found = {match["name"]: match["text"] for match in _SECTION.finditer(page)}
    found.pop(_SUMMARY, None)
    return found


def _mark(name: str, text: str) -> str:
    return f"<!-- {name} -->\n{text}\n<!-- end of {name} -->\n"


def read_figures(section: str) -> Iterator[Figure]:
    """Yield the bullets of a section."""
    for line in section.splitlines():
        if line.startswith("- "):
            match = _FIGURE.match(line)
            yield (
                Figure(line[2:])
                if match is None
                else Figure(match["what"], match["target"] or "", match["held"])
            )


def read_stamp(section: str) -> Stamp | None:
    """Return when and where a section was measured, if it says so."""
    found = _STAMP.search(section)
    return None if found is None else Stamp(**found.groupdict())


def summary_lines(sections: Mapping[str, str]) -> Iterator[str]:
    """Write the table of all figures, and by which command each part is measured again."""
    yield "## In short"
    yield ""
    yield _ABOUT
    yield ""
    yield "| part | measured | figure | target | |"
    yield "|---|---|---|---|---|"
    stamps = {name: read_stamp(text) for name, text in sections.items()}
    for name, text in sections.items():
        stamp = stamps[name]
        for one in read_figures(text):
            date = "" if stamp is None else stamp.date
            yield _row(name, date, one.what, one.target, one.held)
    yield ""
    yield from (f"- {name}: `{s.command}` on {s.machine}" for name, s in stamps.items() if s)


def _row(*cells: str) -> str:
    return f"| {' | '.join(re.sub(r'[|]', '&#124;', cell) for cell in cells)} |"
