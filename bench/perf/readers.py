"""Measure the readers of replies against the peers', and on hostile texts.

Every figure comes with the peers' figure from the same rounds on the same machine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.hostile import HOSTILE
from bench.league import Case, load_cases, machine
from bench.peers.workers import (
    Parser,
    Worker,
    installed,
    load_parsers,
    versions_of,
)

ROUNDS = 3
SECONDS = 0.06
"""How long a reply is read in a round to time it."""
SIZES = (250_000, 1_000_000)
PEER_SIZE, PEER_LIMIT = 100_000, 1.0
LIMIT = 30.0
DOUBLINGS = 2
MOST_SECONDS, MOST_GROWTH, NOISE = 1.0, 2.5, 0.02
"""The targets, and the time below which growth is noise."""

_THOUGHT = (
    "The user asks how much a transfer of 1,850 euros to a supplier would come to in yuan, and "
    "whether waiting until tomorrow could be worth it. I know neither today's rate nor the bank's "
    "own margin, so I should not guess: a number from memory would be out of date. The tools offer "
    "a reference rate between two currencies, which is what I need first. After that I can "
    "multiply, add the fixed fee of 12.50 that the user mentioned, and say plainly that a "
    "reference rate is not the rate at which the order will be filled. The answer should name the "
    "date of the rate, so that nobody takes it for tomorrow's. "
)
CLEAN = (
    "Thought: "
    + _THOUGHT * 3
    + "So: euro to yuan, and nothing else for now; the rest can wait for the result of this call."
    + '\nAction: get_fx_rate\nAction Input: {"base": "EUR", "quote": "CNY"}'
)
"""A typical reply, clean: 1.9 KB, a long thought and one call."""

_GROWN = (
    Parser("hardened", "text, hardened", "react", "react-hardened"),
    Parser("rescue", "text, rescue", "react", "react-rescue"),
    Parser("content", "as content, rescue", "react", "message-rescue"),
    Parser("arguments", "as arguments, rescue", "react", "message-rescue"),
    Parser("pieces", "by pieces of 64", "react", "stream-hardened"),
)
_EXTRA: Mapping[str, Mapping[str, Any]] = {
    "arguments": {"tool": "search"},
    "pieces": {"piece": 64},
}
_SLOW = ("langchain-react", "llamaindex", "crewai", "agent-tool-parser-tuned")
_SPEED = ("strict", "hardened", "rescue")


def measure_parsers(environments: Path) -> str:
    """Measure the readers of replies: a clean one, the cases, and growth of hostile ones."""
    cases = [case for case in load_cases() if case.reads == "react"]
    tools = cases[0].request["tools"]
    speeds = measure_speeds(cases, environments)
    growths = {p.id: measure_growth(p, tools, environments, _texts(p)) for p in _GROWN}
    slow = measure_peers(tools, environments)
    return "\n".join(
        [
            "## Readers of replies",
            "",
            f"Machine: {machine()}. Times are of the processor, so that other work does not count.",
            "",
            *_speed_lines(speeds),
            "",
            *_growth_lines(growths),
            "",
            *_peer_lines(slow),
        ]
    )


@dataclass(frozen=True, slots=True)
class Speed:
    """The best of the rounds, in microseconds: a clean reply, and the mean over the cases."""

    title: str
    version: str
    clean: float
    cases: float


def measure_speeds(cases: Sequence[Case], environments: Path) -> dict[str, Speed]:
    """Time every installed parser of texts, in rounds that go from one to the next."""
    chosen = [p for p in installed(load_parsers(), environments) if p.reads == "react"]
    found: dict[str, Speed] = {}
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(p, environments=environments)) for p in chosen]
        for worker in workers:
            said = worker.start()
            if "failed" not in said:
                version = versions_of(worker.parser.peer, said) if worker.parser.peer else ""
                found[worker.parser.id] = Speed(worker.parser.title, version, 1e9, 1e9)
        for _ in range(ROUNDS):
            for worker in workers:
                if worker.parser.id in found:
                    old = found[worker.parser.id]
                    found[worker.parser.id] = _round(worker, cases, old)
    return found


def _round(worker: Worker, cases: Sequence[Case], old: Speed) -> Speed:
    tools = cases[0].request["tools"]
    clean = _time(worker, {"text": CLEAN, "tools": tools, "seconds": 5 * SECONDS})
    each = [_time(worker, {**case.request, "seconds": SECONDS / 6}) for case in cases]
    mean = sum(each) / len(each)
    return replace(old, clean=min(old.clean, clean), cases=min(old.cases, mean))


def _time(worker: Worker, request: Mapping[str, Any]) -> float:
    found = worker.ask(request, LIMIT)
    return float(found.get("microseconds", LIMIT * 1e6))


def _speed_lines(speeds: Mapping[str, Speed]) -> Iterator[str]:
    yield f"A clean reply of {len(CLEAN.encode()):,} bytes, and the mean over all cases: "
    yield f"the best of {ROUNDS} rounds, one parser after the other in each round."
    yield ""
    yield "| parser | version | clean, µs | to hardened | cases, µs | to hardened |"
    yield "|---|---|---:|---:|---:|---:|"
    base = speeds["hardened"]
    for speed in speeds.values():
        yield (
            f"| {speed.title} | {speed.version} | {speed.clean:,.1f} "
            f"| {speed.clean / base.clean:.2f} | {speed.cases:,.1f} | {speed.cases / base.cases:.2f} |"
        )
    yield ""
    yield from _speed_targets(speeds)


def _speed_targets(speeds: Mapping[str, Speed]) -> Iterator[str]:
    crewai, llamaindex = speeds.get("crewai"), speeds.get("llamaindex")
    for name in _SPEED:
        own = speeds[name]
        if crewai:
            yield _speed_target(own, "a clean reply", own.clean / crewai.clean, "CrewAI's")
        if llamaindex:
            ratio = own.cases / llamaindex.cases
            yield _speed_target(own, "the mean over all cases", ratio, "LlamaIndex's")


def _speed_target(own: Speed, what: str, ratio: float, whose: str) -> str:
    return f"- {own.title}: {what} takes {ratio:.2f} of {whose} time; at most 1: {met(ratio <= 1)}"


def met(holds: bool) -> str:
    """Say whether a target is met."""
    return "met" if holds else "**not met**"


# ---------------------------------------------------------------- growth


@dataclass(frozen=True, slots=True)
class Growth:
    """Seconds for one hostile text at each of `SIZES`; None where no reading came back."""

    seconds: tuple[float | None, ...]

    @property
    def longest(self) -> float:
        """Seconds at the largest size."""
        return self.seconds[-1] if self.seconds[-1] is not None else float("inf")

    @property
    def factor(self) -> float | None:
        """How much twice the size costs; None where the times are too short to say."""
        first, last = self.seconds[0], self.seconds[-1]
        if first is None or last is None or last < NOISE:
            return None
        return float((last / max(first, 1e-6)) ** (1 / DOUBLINGS))

    @property
    def holds(self) -> bool:
        """Whether both targets are met."""
        return self.longest <= MOST_SECONDS and (self.factor or 0.0) <= MOST_GROWTH


def _texts(parser: Parser) -> Mapping[str, Callable[[int], str]]:
    """Give a stream only those texts in which it may think again and again that all is said."""
    ends = ("Observ", "Question", "whole steps", "tokens", "<|", "section", "thought", "string")
    if parser.id != "pieces":
        return HOSTILE
    return {name: make for name, make in HOSTILE.items() if any(end in name for end in ends)}


def measure_growth(
    parser: Parser,
    tools: Sequence[Any],
    environments: Path,
    texts: Mapping[str, Callable[[int], str]] = HOSTILE,
) -> dict[str, Growth]:
    """Time one of our readers on every hostile text at every size."""
    with Worker(parser, environments=environments) as worker:
        request = {"tools": tools, **_EXTRA.get(parser.id, {})}
        return {name: _grow(worker, request, make) for name, make in texts.items()}


def _grow(worker: Worker, request: Mapping[str, Any], make: Callable[[int], str]) -> Growth:
    """Read at each size; what misses a target gets a second chance, as it may be chance."""
    tries = (_growth(worker, request, make) for _ in range(2))
    first = next(tries)
    return first if first.holds or first.seconds[-1] is None else min(first, next(tries), key=_last)


def _growth(worker: Worker, request: Mapping[str, Any], make: Callable[[int], str]) -> Growth:
    texts = ({**request, "text": make(size)} for size in SIZES)
    return Growth(tuple(worker.ask(asked, LIMIT).get("first") for asked in texts))


def _last(growth: Growth) -> float:
    return growth.longest


def _growth_lines(growths: Mapping[str, Mapping[str, Growth]]) -> Iterator[str]:
    yield "Growth: hostile texts of 250,000 and 1,000,000 characters, ours. A cell is the time at "
    yield "1,000,000 and, where it is long enough to tell, the factor for twice the size. "
    yield f"Targets: {MOST_SECONDS:g} s and {MOST_GROWTH:g}; `!` marks what misses one."
    yield ""
    titles = [parser.title for parser in _GROWN]
    yield f"| text | {' | '.join(titles)} |"
    yield "|---|" + "---:|" * len(titles)
    for name in HOSTILE:
        cells = [_growth_cell(growths[parser.id].get(name)) for parser in _GROWN]
        yield f"| {_cell(name)} | {' | '.join(cells)} |"
    yield ""
    yield from _growth_targets(growths)


def _growth_cell(growth: Growth | None) -> str:
    if growth is None:
        return ""
    if growth.seconds[-1] is None:
        return f"over {LIMIT:g} s or crashed !"
    factor = "" if growth.factor is None else f", {growth.factor:.1f}×"
    return f"{growth.longest:.3f} s{factor}" + ("" if growth.holds else " !")


def _growth_targets(growths: Mapping[str, Mapping[str, Growth]]) -> Iterator[str]:
    for parser in _GROWN:
        table = growths[parser.id]
        missed = [name for name, growth in table.items() if not growth.holds]
        slowest = max(table, key=lambda name: table[name].longest)
        yield (
            f"- growth, {parser.title}: {len(table) - len(missed)} of {len(table)} within both targets; "
            f"the slowest is {_cell(slowest)} with {table[slowest].longest:.2f} s"
        )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def measure_peers(tools: Sequence[Any], environments: Path) -> dict[str, dict[str, str]]:
    """Time one parser of each peer once on every hostile text, at a tenth of the size."""
    listed = [p for p in load_parsers() if p.id in _SLOW]
    chosen = installed(listed, environments)
    table: dict[str, dict[str, str]] = {}
    for parser in chosen:
        with Worker(parser, environments=environments) as worker:
            table[parser.title] = {
                name: _peer_cell(worker, make(PEER_SIZE), tools) for name, make in HOSTILE.items()
            }
    return table


def _peer_cell(worker: Worker, text: str, tools: Sequence[Any]) -> str:
    found = worker.ask({"text": text, "tools": tools}, PEER_LIMIT)
    if "timeout" in found["read"]:
        return f"over {PEER_LIMIT:g} s"
    if "crash" in found["read"]:
        return "crash"
    deep = " RecursionError" if "RecursionError" in str(found["read"].get("refused")) else ""
    return f"{found['first']:.3f} s{deep}"


def _peer_lines(table: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    if not table:
        return ["No peer is installed: `make peers`."]
    about = f"The peers on the same texts, of {PEER_SIZE:,} characters, with {PEER_LIMIT:g} s each."
    lines = [
        about,
        "",
        f"| text | {' | '.join(table)} |",
        "|---|" + "---:|" * len(table),
    ]
    rows = {name: " | ".join(row[name] for row in table.values()) for name in HOSTILE}
    return [*lines, *(f"| {_cell(name)} | {cells} |" for name, cells in rows.items())]
