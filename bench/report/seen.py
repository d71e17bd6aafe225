"""A run's lines for a report: read once from end to end, then only the few that are shown.

A line holds all that was said in an episode, so a large run's lines are never held together. What a
report tells beyond counts is noted while they go by: where to find it, not what it says.
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, overload

from bench import tables
from bench.tables import Arm, Line


class Lines(Sequence[Line]):
    """The lines of several runs, one run after the other; each is read when it is asked for."""

    def __init__(self, parts: Sequence[Sequence[Line]]) -> None:
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        """Count the episodes."""
        return self._ends[-1]

    @overload
    def __getitem__(self, number: int) -> Line: ...
    @overload
    def __getitem__(self, number: slice) -> list[Line]: ...
    def __getitem__(self, number: int | slice) -> Line | list[Line]:
        """Read one line, or some."""
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        place = self.part_of(number)
        return self._parts[place][number - self._ends[place]]

    def __iter__(self) -> Iterator[Line]:
        """Read every line, one after the other."""
        return chain.from_iterable(self._parts)

    def part_of(self, number: int) -> int:
        """Return which of the runs holds a line."""
        return bisect(self._ends, number)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reply stands: which line, and which of its turns."""

    task: str
    step: int
    line: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen in lines that went by."""

    named: dict[str, tuple[set[str], set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: (set(), set()))
    )
    """By endpoint: the models and the fingerprints that its answers named."""
    prompts: dict[tuple[str, str], int] = field(default_factory=dict)
    """By way and language: the first line in which a system message was sent."""
    failures: dict[str, dict[Arm, list[Place]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """Every failed reply, by kind, then by arm."""

    def watch(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield lines, and note what a report tells of them."""
        for number, line in enumerate(lines):
            self._note(number, line)
            yield line

    def _note(self, number: int, line: Line) -> None:
        endpoint, way = str(line.get("endpoint")), tables.arm_label(line)
        key = (way, str(line.get("lang")))
        if key not in self.prompts and system_message(line):
            self.prompts[key] = number
        for step, turn in enumerate(line.get("turns") or ()):
            self._note_names(endpoint, turn.get("reply") or {})
            if failure := (turn.get("reading") or {}).get("failure"):
                place = Place(str(line["task_id"]), step, number)
                self.failures[str(failure.get("kind"))][endpoint, way].append(place)

    def _note_names(self, endpoint: str, reply: Mapping[str, Any]) -> None:
        for known, name in zip(self.named[endpoint], ("model", "fingerprint"), strict=True):
            if reply.get(name):
                known.add(str(reply[name]))


def system_message(line: Line) -> str:
    """Return what is sent before the question."""
    turns = line.get("turns") or []
    sent = turns[0].get("sent") or [] if turns else []
    texts = [m.get("content") for m in sent if isinstance(m, Mapping) and m.get("role") == "system"]
    return "\n\n".join(text for text in texts if isinstance(text, str))
