"""Texts of models, tools and people made fit to be shown: cut, visible, pointed at.

Everything here is hostile until it has gone through these functions and an escape.
"""

import re

from bench.report.document import Quote

LONG = 1_600
"""Characters of a reply that are shown."""


def cut(text: str, limit: int) -> str:
    """Return at most so many characters, and how many more there are."""
    return (
        text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit:,} more characters)"
    )


_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Return a text with control, direction and lone surrogate characters as code points."""
    return _ODD.sub(lambda match: f"\\u{ord(match[0]):04x}", text.replace("\r\n", "\n"))


def point_at(text: str, position: int | None, width: int = 72) -> str:
    """Return the line of a text that holds a position, cut to a width, with a caret below it."""
    if position is None or not 0 <= position <= len(text) or not text:
        return ""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    left = max(start, position - width // 2)
    right = min(len(text) if end < 0 else end, left + width)
    before, after = visible(text[left:position]), visible(text[position:right])
    lead, tail = "…" * (left > start), "…" * (right < (len(text) if end < 0 else end))
    pad = sum(2 if _is_wide(c) else 1 for c in lead + before)
    return f"{lead}{before}{after}{tail}\n{' ' * pad}^"


def _is_wide(char: str) -> bool:
    return "\u1100" <= char <= "\uffdc" and char != "\u2026"


def quoted(quote: Quote) -> tuple[str, str]:
    """Return the texts of a quotation as they are shown: the place pointed at, then all."""
    return quote.pointed, cut(visible(quote.text), LONG)
