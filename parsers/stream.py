"""Read a ReAct text piece by piece: the same `Reading` as of the whole text, as soon as it is sure.

It decides nothing on its own: it only knows when it is worth to ask the reader again.
"""

import codecs
from collections.abc import Sequence

from parsers.labels import TERMINATORS
from parsers.react import read_text
from parsers.types import Dialect, Level, Reading, ToolLike

_EFFORT = 2
"""Texts read in vain may together be so many times as long as the text: feeding stays linear."""
_SMALL = 100_000
_HEAD = 160
"""Characters at the start of a line in which a label may stand."""
_LONG = "\v"
_TOKEN = 40
"""Characters that the longest end token may have."""
_LAST = (">", ":", "：", "\n", "\r")
"""What the last sign of a terminator is one of."""


class ReactStream:
    """Take text or UTF-8 bytes as they come.

    >>> from parsers import ReactStream
    >>> stream = ReactStream([])
    >>> [stream.feed(piece) for piece in ("Final An", "swer: 3 euros")]
    [None, None]
    >>> stream.finish().final
    '3 euros'
    """

    def __init__(
        self,
        tools: Sequence[ToolLike],
        *,
        level: Level = "hardened",
        dialect: Dialect = "json",
    ) -> None:
        self._tools, self._level, self._dialect = tools, level, dialect
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: list[str] = []
        self._length = 0
        self._line = ""
        """The last line, or its last characters behind a sign that no line begins with."""
        self._waiting = False
        """A terminator was seen that has not been asked about."""
        self._seen: tuple[int, bool] = (-1, True)
        """Where the last terminator stood, and whether something followed it."""
        self._spent = 0
        self._reading: Reading | None = None

    def feed(self, piece: str | bytes) -> Reading | None:
        """Take a piece; give the reading once nothing that may follow can change it.

        That is at the first Observation or next Question, and at an end token behind a move; never
        at the end of an action's value, since another action may follow.
        """
        if self._reading is not None:
            return self._reading
        text = self._decoded(piece)
        if text:
            self._pieces.append(text)
            self._length += len(text)
            lines = self._line + text
            self._waiting = self._waiting or self._sees_terminator(lines, text)
            line = lines[lines.rfind("\n") + 1 :]
            self._line = line if len(line) <= _HEAD else _LONG + line[-_TOKEN:]
            if self._waiting and self._may_read():
                self._try()
        return self._reading

    def finish(self, finish_reason: str | None = None) -> Reading:
        """Give the reading of the whole text."""
        if self._reading is None:
            rest = self._decoder.decode(b"", final=True)
            text = "".join([*self._pieces, rest])
            self._reading = self._read(text, finish_reason)
        return self._reading

    def _decoded(self, piece: str | bytes) -> str:
        if isinstance(piece, str):
            left = self._decoder.decode(b"", final=True)
            self._decoder.reset()
            return left + piece
        return self._decoder.decode(piece)

    def _sees_terminator(self, lines: str, text: str) -> bool:
        """Look at the lines that a piece touches, the last of them again with the next piece."""
        base = self._length - len(lines)
        seen = self._seen
        if not seen[1] or any(sign in text for sign in _LAST):
            for match in TERMINATORS.finditer(lines):
                seen = max(seen, (base + match.start(), match.end() < len(lines)))
        found, self._seen = seen != self._seen, seen
        return found

    def _may_read(self) -> bool:
        return self._spent + self._length <= _EFFORT * self._length + _SMALL

    def _try(self) -> None:
        text = "".join(self._pieces)
        self._pieces = [text]
        self._spent += len(text)
        self._waiting = False
        found = read_text(
            text, self._tools, level=self._level, dialect=self._dialect, finish_reason=None
        )
        if found.settled:
            self._reading = found.reading

    def _read(self, text: str, finish_reason: str | None) -> Reading:
        return read_text(
            text,
            self._tools,
            level=self._level,
            dialect=self._dialect,
            finish_reason=finish_reason,
        ).reading
