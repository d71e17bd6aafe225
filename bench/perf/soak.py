"""Ask an endpoint that fails in every way, ten thousand episodes long, and account for all of it.

`python -m bench.perf.soak` (`make soak`). Every fault that the endpoint says it made must be one
that the client has on record, by kind and status; every episode must have an outcome, once; no
connection may stay open. A command, never a timed test.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from bench.clients import OpenAIClient, Patience, find_fault, probe
from bench.drivers import NativeDriver, ReactDriver
from bench.limits import Gate
from bench.perf.episodes import prepare
from bench.perf.replay import peak_memory
from bench.records import RunFolder, key_of, reply_from_json
from bench.run import Job, Tally, plan_jobs, run_all
from bench.status import FOUND, OK
from bench.types import Reply, Task, WorkbenchError
from parsers import Failure

EPISODES, IN_FLIGHT, SHARE, SECONDS = 10_000, 100, 0.05, 20.0
PATIENCE = Patience(tries=4, seconds=600.0, first_wait=0.05)
"""Quick, and never at its end before its tries are: how long a machine takes must not matter."""
_DRIVERS = (NativeDriver(), ReactDriver())
_MODEL = "scripted"

Seen = tuple[str, int]
"""A failure as a client has it on record: its kind, and the HTTP status."""

BROKEN: Seen = ("endpoint_error", 0)
"""No answer, or none to its end. Whether a stream that breaks has begun is a matter of moments, so
that its `CUT_STREAM` counts as the same."""
CUT_STREAM: Seen = ("stream_interrupted", 200)
_BAD: Seen = ("bad_envelope", 200)
HARMLESS = frozenset({"no_done", "no_done streamed", "no_finish", "no_finish streamed", "no_end"})
"""What a reader sees through: an answer that is whole but for its end mark, or for its finish word."""
SEEN: Mapping[str, Seen] = {
    "rate_limit": ("rate_limited", 429),
    "quota": ("rate_limited", 429),
    "no_credit": ("rate_limited", 402),
    "overloaded": ("rate_limited", 503),
    "overloaded_529": ("rate_limited", 529),
    "loading": ("endpoint_error", 503),
    "server_error": ("endpoint_error", 500),
    "unreadable_output": ("server_rejected_output", 400),
    "no_tool_support": ("request_rejected", 400),
    "no_template": ("request_rejected", 500),
    "no_auto_choice": ("request_rejected", 400),
    "context": ("context_overflow", 400),
    "bad_gateway": ("endpoint_error", 502),
    "empty_body": _BAD,
    "not_json": _BAD,
    "no_choices": _BAD,
    "hang": BROKEN,
    "stall": BROKEN,
    "reset": BROKEN,
    "drop": BROKEN,
    "cut": _BAD,
    "cut streamed": BROKEN,
    "error_event": ("endpoint_error", 200),
    "error_event streamed": BROKEN,
    "no_end streamed": BROKEN,
}
"""What each fault must be on record as; a streamed one where it differs."""


def seen_as(fault: str) -> Seen | None:
    """Return what a fault must be on record as; None where it does no harm."""
    if fault in HARMLESS:
        return None
    return SEEN.get(fault) or SEEN[fault.removesuffix(" streamed")]


# ------------------------------------------------------------ what the client has on record


@dataclass(slots=True)
class Account:
    """A run's episodes, requests and faults, as its folder holds them."""

    planned: int
    stops: Counter[str] = field(default_factory=Counter)
    failed: Counter[Seen] = field(default_factory=Counter)
    """Episodes without an outcome, by the failure that stayed."""
    requests: int = 0
    """Tries, each with an answer or none."""
    seen: Counter[Seen] = field(default_factory=Counter)
    missing: int = 0
    twice: int = 0

    @property
    def finished(self) -> int:
        """Episodes with an outcome."""
        return self.stops.total() - self.stops["endpoint"]


def take_account(folder: RunFolder, jobs: Iterable[Job]) -> Account:
    """Count what a run kept, from its lines alone."""
    planned = {job.key for job in jobs}
    account, keys = Account(len(planned)), Counter[Any]()
    for line in folder.lines():
        keys[key_of(line)] += 1
        account.stops[line["stop"]] += 1
        replies = [reply_from_json(turn["reply"]) for turn in line["turns"]]
        last = [_take(account, reply) for reply in replies][-1:]
        if line["stop"] == "endpoint":
            account.failed[last[0] or ("none", 0)] += 1
    account.missing = len(planned - keys.keys())
    with (folder.path / "episodes.jsonl").open("rb") as file:
        account.twice = sum(1 for _ in file) - len(keys)
    return account


def _take(account: Account, reply: Reply) -> Seen | None:
    """Count a reply and its tries; return its failure, if it is one."""
    account.requests += 1 + len(reply.attempts)
    account.seen.update(_class(attempt.kind, attempt.status) for attempt in reply.attempts)
    failure = find_fault(reply)
    if failure is None:
        return None
    seen = _class(failure.kind, reply.status)
    account.seen[seen] += 1
    return seen


def _class(kind: str, status: int) -> Seen:
    return BROKEN if (kind, status) == CUT_STREAM else (kind, status)


def find_problems(account: Account, told: Mapping[str, Any]) -> Iterator[str]:
    """Yield what does not add up between a run and what its endpoint says that it did."""
    if account.missing or account.twice:
        yield f"of {account.planned} episodes {account.missing} are missing, {account.twice} are twice"
    if account.finished + account.failed.total() != account.planned:
        yield f"{account.finished} finished and {account.failed.total()} failed are not {account.planned}"
    if account.requests != told["requests"]:
        yield f"{told['requests']} requests were answered, {account.requests} are on record"
    made = sum_by_record(told["injected"])
    for seen in sorted(made.keys() | account.seen.keys()):
        count, kept = made.get(seen, Counter()).total(), account.seen[seen]
        if count != kept:
            yield f"{seen[0]} ({seen[1]}): {count} were made, {kept} are on record"
    if told["open"]:
        yield f"{told['open']} connections are still open"


def sum_by_record(injected: Mapping[str, int]) -> dict[Seen, Counter[str]]:
    """Return how many faults were made that must be on record as the same, by fault."""
    made: dict[Seen, Counter[str]] = {}
    for fault, count in sorted(injected.items()):
        if seen := seen_as(fault):
            made.setdefault(seen, Counter())[fault.removesuffix(" streamed")] += count
    return made


# ------------------------------------------------------------ the run


class SteadyGate(Gate):
    """Lets everything through whatever the endpoint says, so that as many stay in flight as asked."""

    most = 0
    """The most requests that were in flight."""

    def _adapt(self, failure: Failure | None, era: int, crowd: int) -> None:
        del failure, era
        self.most = max(self.most, crowd)


@dataclass(frozen=True, slots=True)
class Soak:
    """How much is asked, how it fails, and how long a reply is waited for."""

    episodes: int = EPISODES
    in_flight: int = IN_FLIGHT
    share: float = SHARE
    seconds: float = SECONDS
    seed: str = "1"
    adaptive: bool = False
    """Ask less after an overload, as a run does."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a soak came to."""

    account: Account
    told: Mapping[str, Any]
    """By the endpoint."""
    most: int | None
    """In flight; None where that was adapted."""
    memory: int
    """The most that this process held, in bytes."""
    seconds: float

    @property
    def problems(self) -> tuple[str, ...]:
        """What does not add up."""
        return tuple(find_problems(self.account, self.told))


def soak(order: Soak, kind: type[OpenAIClient] = OpenAIClient) -> Found:
    """Run the episodes against a failing endpoint, and take account; `kind`: the client."""
    work = prepare()
    answers = {key: json.loads(text)["choices"][0]["message"] for key, text in work.answers.items()}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place, _serving(answers, order) as server:
        gate = Gate() if order.adaptive else SteadyGate()
        clients = [_connect(kind, server.url, order, gate, stream=way) for way in (False, True)]
        jobs = _plan(work.tasks, clients, order.episodes)
        folder = RunFolder.create(Path(place), "soak", {"format": 1})
        tally = asyncio.run(_run(jobs, folder, clients, order.in_flight))
        folder.close()
        told = server.stop()
        account = take_account(folder, jobs)
    _refuse_broken(tally)
    most = gate.most if isinstance(gate, SteadyGate) else None
    return Found(account, told, most, peak_memory(), time.monotonic() - began)


def _connect(
    kind: type[OpenAIClient], url: str, order: Soak, gate: Gate, *, stream: bool
) -> OpenAIClient:
    return kind(
        "streamed" if stream else "plain",
        _MODEL,
        base_url=url,
        api_key="not-needed",
        stream=stream,
        timeout=order.seconds,
        patience=PATIENCE,
        gate=gate,
    )


def _plan(tasks: Sequence[Task], clients: Sequence[OpenAIClient], episodes: int) -> list[Job]:
    trials = -(-episodes // (len(tasks) * len(_DRIVERS) * len(clients)))
    return list(islice(plan_jobs(tasks, _DRIVERS, clients, trials=trials), episodes))


async def _run(
    jobs: Sequence[Job], folder: RunFolder, clients: Sequence[OpenAIClient], in_flight: int
) -> Tally:
    try:
        for client in clients:
            await probe(client, {}, seconds=60.0)  # what is loaded at first takes its time
        return await run_all(jobs, folder, concurrency=in_flight)
    finally:
        for client in clients:
            await client.close()


def _refuse_broken(tally: Tally) -> None:
    if tally.broken:
        raise WorkbenchError(f"{len(tally.broken)} episodes broke off: {tally.broken[0]}")


@dataclass(frozen=True, slots=True)
class _Server:
    """The failing endpoint, in a process of its own."""

    url: str
    into: IO[str]
    out: IO[str]

    def stop(self) -> Mapping[str, Any]:
        """End it; return what it says that it did."""
        self.into.write("\n")
        self.into.flush()
        told: Mapping[str, Any] = json.loads(self.out.readline())
        return told


@contextmanager
def _serving(answers: Mapping[str, Any], order: Soak) -> Iterator[_Server]:
    command = [sys.executable, "-m", "bench.perf.faulty"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdin is not None  # noqa: S101 (both are pipes)
        assert process.stdout is not None  # noqa: S101
        try:
            wanted = {"answers": answers, "share": order.share, "seed": order.seed}
            process.stdin.write(json.dumps(wanted) + "\n")
            process.stdin.flush()
            port = process.stdout.readline().strip()
            yield _Server(f"http://127.0.0.1:{port}/v1", process.stdin, process.stdout)
        finally:
            process.stdin.close()


# ------------------------------------------------------------ the command


def lines_of(found: Found) -> Iterator[str]:
    """Write what a soak came to."""
    account, told = found.account, found.told
    stops = ", ".join(f"{count:,} {stop}" for stop, count in account.stops.most_common())
    yield (
        f"{account.planned:,} episodes planned = {account.finished:,} finished + "
        f"{account.failed.total():,} failed by the endpoint ({stops})"
    )
    for (kind, status), count in account.failed.most_common():
        yield f"  failed: {count:,} × {kind} ({status})"
    harmless = sum(told["injected"].get(fault, 0) for fault in HARMLESS)
    made = sum(told["injected"].values())
    yield (
        f"{told['requests']:,} requests; {made:,} faults were made, {harmless:,} of them harmless; "
        f"{account.seen.total():,} are on record"
    )
    for seen, faults in sorted(sum_by_record(told["injected"]).items()):
        named = ", ".join(f"{name} {count:,}" for name, count in faults.items())
        yield f"  {seen[0]} ({seen[1]}): {account.seen[seen]:,} on record, {faults.total():,} made: {named}"
    flight = "" if found.most is None else f"at most {found.most} requests in flight; "
    yield (
        f"{flight}{told['open']} connections left open; peak memory {found.memory / 1e6:,.0f} MB, of the "
        f"endpoint's process {told['memory'] / 1e6:,.0f} MB; {found.seconds:,.0f} s"
    )
    yield from (f"NOT ACCOUNTED FOR: {problem}" for problem in found.problems)
    if not found.problems:
        yield "all accounted for"


def main(argv: Sequence[str] | None = None) -> int:
    """Soak, and say what it came to; 1 where something does not add up."""
    parser = argparse.ArgumentParser(prog="python -m bench.perf.soak", description=__doc__)
    parser.add_argument("--episodes", type=int, default=EPISODES, metavar="N")
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, metavar="N")
    parser.add_argument("--share", type=float, default=SHARE, metavar="X", help="of each family")
    parser.add_argument("--timeout", type=float, default=SECONDS, metavar="S")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--adaptive", action="store_true", help="ask less after an overload")
    asked = parser.parse_args(argv)
    size = (asked.episodes, asked.in_flight, asked.share, asked.timeout)
    found = soak(Soak(*size, seed=asked.seed, adaptive=asked.adaptive))
    sys.stdout.write("\n".join(lines_of(found)) + "\n")
    return FOUND if found.problems else OK


if __name__ == "__main__":
    sys.exit(main())
