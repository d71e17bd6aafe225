"""What stands between a command and the terminal: nothing that steers it, nothing that is secret.

Texts of models, tools, files and servers are hostile: a control character, a turn of the writing
direction or half a surrogate pair is shown as its escape. Knows nothing of what is printed.
"""

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from bench import secret

LONGEST = 4_000
"""Characters of one complaint that are shown."""


def printable(text: str) -> str:
    """Return a text whose control characters are written as escapes; line ends stay."""
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs"
        else _escape(char)
        for char in text
    )


def _escape(char: str) -> str:
    """Return a character as JSON escapes it, so that a line of JSON stays one."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


class Guarded:
    """A stream of text through which everything goes that a command says."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        """Write a text, made harmless; return how many characters were given."""
        self._out.write(printable(secret.hide(text)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def steer(self, text: str) -> None:
        """Write a text of our own that moves the cursor."""
        self._out.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Let everything that is printed meanwhile, by whomever, go through a guard."""
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Guarded(out), Guarded(err)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err
