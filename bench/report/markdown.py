"""Write a document as Markdown, for code hosts; figures are files beside it."""

import re

from bench.report.document import Block, Bullets, Cell, Document, Grid, Picture, Prose, Quote
from bench.report.text import quoted, visible

_MARKS = re.compile(r"([\\`*{}\[\]#!|~^$]|(?<![^\W_])_|_(?![^\W_])|^[-+=])")
_MENTION = re.compile(r"(?<!\w)@|@(?=[\w-]*\.)")


def escape_markdown(text: str) -> str:
    """Return a text that Markdown shows as it is, in a paragraph or in a table's cell."""
    flat = " ".join(visible(text).split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    flat = _MENTION.sub("&#64;", _MARKS.sub(r"\\\1", flat))
    flat = flat.replace("://", "&#58;//").replace("www.", "www&#46;")
    return re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", flat)


def _fence(text: str) -> str:
    """Put a text into a fence that is longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}text\n{text}\n{marks}"


def to_markdown(document: Document) -> str:
    """Write a document as Markdown, for code hosts; figures are files beside it."""
    parts = [f"# {escape_markdown(document.title)}", escape_markdown(document.about)]
    for section in document.sections:
        parts.append(f"## {escape_markdown(section.title)}")
        parts += [_block_to_markdown(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _block_to_markdown(block: Block) -> str:
    match block:
        case Prose():
            text = escape_markdown(block.text)
            return f"**{text}**" if block.strong else text
        case Bullets():
            return "\n".join(f"- {escape_markdown(item)}" for item in block.items)
        case Picture():
            alt = re.sub(r"[\[\]]", "", escape_markdown(block.chart.alt))
            return f"![{alt}]({block.chart.name}.png)"
        case Grid():
            return _fold(block.caption, _grid_to_markdown(block), folded=block.folded)
        case Quote():
            body = "\n\n".join(_fence(text) for text in quoted(block) if text)
            about = f"{escape_markdown(block.about)}\n\n" if block.about else ""
            return _fold(block.title, about + body, folded=block.folded)


def _fold(title: str, body: str, *, folded: bool) -> str:
    if not folded:
        return f"**{escape_markdown(title)}**\n\n{body}"
    return f"<details><summary>{escape_markdown(title)}</summary>\n\n{body}\n\n</details>"


def _grid_to_markdown(grid: Grid) -> str:
    shown = (*grid.rows, grid.total) if grid.total else grid.rows
    rows = [grid.header, *([_cell_to_text(cell) for cell in row] for row in shown)]
    lines = ["| " + " | ".join(escape_markdown(text) for text in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(grid.header), *lines[1:]])


def _cell_to_text(cell: Cell) -> str:
    return f"{cell.text} ({cell.note})" if cell.note else cell.text
