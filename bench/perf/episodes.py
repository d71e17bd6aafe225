"""Measure what an episode costs beside its requests: ours against the bare SDK.

Both sides send the same requests from this process to the same server, in rounds that go from one
to the other. Ours does all that a run does: it reads, runs tools, judges at three levels and keeps
every episode.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from bench.check import gold_replay
from bench.clients import OpenAIClient, ScriptedClient
from bench.drivers import NativeDriver, ReactDriver
from bench.league import machine
from bench.loop import solve
from bench.perf.readers import met
from bench.perf.server import NUMBER, key_of
from bench.records import RunFolder
from bench.run import Job, bundled_toolbox, plan_jobs, run_all
from bench.tasks import load_tasks
from bench.types import Client, Driver, Request, Task, WorkbenchError

EPISODES, ROUNDS = 2_000, 3
FEW = 4
"""In flight where the endpoint answers at once, as many as a run has if nothing is said."""
MANY, LATENCY = 200, 0.2
MOST_OVERHEAD, LEAST_SHARE = 1.3, 0.9
"""The targets."""

_DRIVERS = (NativeDriver(), ReactDriver())
_MODEL = "scripted"
_KEY = "not-needed"
_SECONDS = 300.0
"""How long either side waits for an answer."""

Sent = Mapping[str, Any]
"""What the SDK is given for one request."""


# ---------------------------------------------------------------- what is asked and answered


@dataclass(frozen=True, slots=True)
class Work:
    """The episodes, the requests that each makes, and what the server answers."""

    tasks: tuple[Task, ...]
    requests: tuple[tuple[Sent, ...], ...]
    """For each task and driver, in the order of the jobs."""
    answers: Mapping[str, str]

    def jobs(self, client: Client, count: int) -> list[Job]:
        """Return this many episodes."""
        trials = -(-count // len(self.requests))
        jobs = (
            job
            for trial in range(trials)
            for job in (
                Job(one.task, one.driver, client, trial=trial)
                for one in plan_jobs(self.tasks, _DRIVERS, [client])
            )
        )
        return list(islice(jobs, count))


def prepare() -> Work:
    """Play every task of the category `single` once, and keep what was sent and answered."""
    tasks = load_tasks(categories=["single"])
    answers: dict[str, str] = {}
    requests = []
    for job in plan_jobs(tasks, _DRIVERS, [ScriptedClient(())]):
        client = ScriptedClient(script_of(job.task, job.driver))
        asyncio.run(solve(job.task, bundled_toolbox(job.task, "full"), job.driver, client))
        sent = tuple(_sent(request) for request in client.requests)
        said = script_of(job.task, job.driver)
        answers |= {key_of(one): _body(text) for one, text in zip(sent, said, strict=True)}
        requests.append(sent)
    return Work(tasks, tuple(requests), answers)


def _sent(request: Request) -> Sent:
    return {"model": _MODEL, "messages": request.messages, **request.options}


def script_of(task: Task, driver: Driver) -> list[Mapping[str, Any] | str]:
    """Give the calls and the answer of a task's gold, in the form of a driver."""
    way = gold_replay(task)
    if driver.name == "native":
        calls = [
            {
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for n, call in enumerate(way.calls)
        ]
        return [{"role": "assistant", "content": None, "tool_calls": calls}, way.final]
    steps = [
        f"Action: {call.name}\nAction Input: {json.dumps(call.arguments)}" for call in way.calls
    ]
    return [
        "\n".join(["Thought: I look it up.", *steps]),
        f"Thought: I know.\nFinal Answer: {way.final}",
    ]


def _body(said: Mapping[str, Any] | str) -> str:
    """Write a whole completion, as a hosted endpoint sends it."""
    own: Mapping[str, Any] = {"content": said} if isinstance(said, str) else said
    message = {"role": "assistant", "refusal": None, "annotations": [], **own}
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    usage = {
        "prompt_tokens": 812,
        "completion_tokens": 31,
        "total_tokens": 843,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
    body = {
        "id": f"chatcmpl-{NUMBER}",
        "object": "chat.completion",
        "created": 1_750_000_000,
        "model": _MODEL,
        "choices": [choice],
        "usage": usage,
        "system_fingerprint": "fp_scripted",
    }
    return json.dumps(body, ensure_ascii=False)


@contextmanager
def serving(answers: Mapping[str, str], latency: float) -> Iterator[str]:
    """Serve the answers from a process of its own; yield the base URL."""
    command = [sys.executable, "-m", "bench.perf.server"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None  # noqa: S101 (both are pipes)
        assert server.stdout is not None  # noqa: S101
        server.stdin.write(json.dumps({"latency": latency, "answers": answers}) + "\n")
        server.stdin.flush()
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        server.stdin.close()


# ---------------------------------------------------------------- the two sides


async def run_bare(url: str, work: Work, count: int, in_flight: int) -> int:
    """Send the requests of so many episodes through the SDK alone; return how many there were."""
    import openai  # noqa: PLC0415 (only this side needs it by name)

    episodes = iter([work.requests[n % len(work.requests)] for n in range(count)])
    answered = 0

    async def walk(sdk: openai.AsyncOpenAI) -> None:
        nonlocal answered
        for requests in episodes:
            for one in requests:
                create: Any = sdk.chat.completions.create
                answer = await create(**one)
                answered += bool(answer.choices[0].message)

    options: dict[str, Any] = {"base_url": url, "api_key": _KEY, "timeout": _SECONDS}
    try:
        async with openai.AsyncOpenAI(**options, max_retries=0) as sdk:
            await asyncio.gather(*(walk(sdk) for _ in range(in_flight)))
    except openai.APIError as error:
        raise WorkbenchError(f"the bare SDK got no answer ({error}); measure again") from None
    return answered


async def run_ours(url: str, work: Work, count: int, in_flight: int) -> int:
    """Run so many episodes into a run folder; return how many requests they made."""
    client = OpenAIClient("perf", _MODEL, base_url=url, api_key=_KEY, timeout=_SECONDS)
    requests = 0

    def watch(episode: Any) -> None:
        nonlocal requests
        if episode.stop != "answered" or any(turn.reply.attempts for turn in episode.turns):
            raise WorkbenchError(f"an episode ended as {episode.stop}; measure again")
        requests += len(episode.turns)

    try:
        with tempfile.TemporaryDirectory() as place:
            folder = RunFolder.create(Path(place), "perf", {})
            await run_all(work.jobs(client, count), folder, concurrency=in_flight, watch=watch)
            folder.close()
    finally:
        await client.close()
    return requests


Side = Callable[[str, Work, int, int], Coroutine[Any, Any, int]]


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of one side in one round, by the clock and of this process, and the requests."""

    wall: float
    cpu: float
    requests: int

    @property
    def rate(self) -> float:
        """Requests in a second."""
        return self.requests / self.wall

    @property
    def cost(self) -> float:
        """Milliseconds of the processor for a request."""
        return 1000 * self.cpu / self.requests


def measure(side: Side, url: str, work: Work, count: int, in_flight: int) -> Took:
    """Time one side once."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    requests = asyncio.run(side(url, work, count, in_flight))
    return Took(time.perf_counter() - wall, time.process_time() - cpu, requests)


@dataclass(frozen=True, slots=True)
class Round:
    """Both sides, one right after the other."""

    bare: Took
    ours: Took

    @property
    def wall(self) -> float:
        """Our time to the bare SDK's."""
        return self.ours.wall / self.bare.wall

    @property
    def cpu(self) -> float:
        """Our processor time to the bare SDK's."""
        return self.ours.cpu / self.bare.cpu

    def share(self, ideal: float) -> float:
        """Our rate, of the smaller of the bare SDK's and the ideal one."""
        return self.ours.rate / min(self.bare.rate, ideal)


def measure_rounds(
    latency: float, in_flight: int, episodes: int = EPISODES, rounds: int = ROUNDS
) -> tuple[Round, ...]:
    """Time both sides in turn; who is first changes from round to round."""
    work = prepare()
    found = []
    with serving(work.answers, latency) as url:
        for side in (run_bare, run_ours):
            measure(side, url, work, min(episodes, len(work.requests)), in_flight)
        for number in range(rounds):
            sides = (run_bare, run_ours) if number % 2 == 0 else (run_ours, run_bare)
            took = {side: measure(side, url, work, episodes, in_flight) for side in sides}
            found.append(Round(took[run_bare], took[run_ours]))
    return tuple(found)


# ---------------------------------------------------------------- what is written down


def measure_overhead() -> str:
    """Write the section on an endpoint that answers at once."""
    return "\n".join(overhead_lines(measure_rounds(0.0, FEW)))


def overhead_lines(rounds: Sequence[Round]) -> Iterator[str]:
    """Write both sides' seconds, and whether ours are few enough."""
    yield "## Overhead: an endpoint that answers at once"
    yield ""
    yield f"{_about(rounds, FEW)} The server answers at once."
    yield ""
    yield "| round | bare SDK, s | ours, s | ratio | bare SDK, CPU s | ours, CPU s | ratio |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for number, one in enumerate(rounds, 1):
        yield (
            f"| {number} | {one.bare.wall:.2f} | {one.ours.wall:.2f} | {one.wall:.2f} "
            f"| {one.bare.cpu:.2f} | {one.ours.cpu:.2f} | {one.cpu:.2f} |"
        )
    yield ""
    clocks = {
        "by the clock": median(one.wall for one in rounds),
        "in CPU time": median(one.cpu for one in rounds),
    }
    for name, ratio in clocks.items():
        yield (
            f"- {name}, ours is {ratio:.2f} of the bare SDK's (median); at most {MOST_OVERHEAD:g}: "
            f"{met(ratio <= MOST_OVERHEAD)}"
        )


def measure_throughput() -> str:
    """Write the section on many requests in flight."""
    return "\n".join(throughput_lines(measure_rounds(LATENCY, MANY)))


def throughput_lines(rounds: Sequence[Round], ideal: float = MANY / LATENCY) -> Iterator[str]:
    """Write both sides' rates, and whether ours is near enough to what can be reached."""
    yield f"## Throughput: {LATENCY * 1000:g} ms of latency, {MANY} in flight"
    yield ""
    yield (
        f"{_about(rounds, MANY)} The server waits {LATENCY * 1000:g} ms, so that no more than "
        f"{ideal:,.0f} requests a second could be answered: the ideal rate."
    )
    yield ""
    yield (
        "| round | bare SDK, requests/s | ours, requests/s | of the smaller "
        "| bare SDK, CPU ms/request | ours, CPU ms/request | ratio |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for number, one in enumerate(rounds, 1):
        yield (
            f"| {number} | {one.bare.rate:.0f} | {one.ours.rate:.0f} | {one.share(ideal):.0%} "
            f"| {one.bare.cost:.2f} | {one.ours.cost:.2f} | {one.cpu:.2f} |"
        )
    yield ""
    share = median(one.share(ideal) for one in rounds)
    yield (
        f"- ours is {share:.0%} of the smaller of the ideal rate and the bare SDK's (median); at "
        f"least {LEAST_SHARE:.0%}: {met(share >= LEAST_SHARE)}"
    )
    cpu = median(one.cpu for one in rounds)
    yield (
        f"- in CPU time a request of ours takes {cpu:.2f} of the bare SDK's (median); where the "
        f"processor is what limits both, at most {1 / LEAST_SHARE:.2f}: {met(cpu * LEAST_SHARE <= 1)}"
    )


def _about(rounds: Sequence[Round], in_flight: int) -> str:
    return (
        f"Machine: {machine()}, {_cores()} for client and server together. {EPISODES:,} episodes, "
        f"{rounds[0].ours.requests:,} requests, {in_flight} in flight, half of the episodes native "
        "and half ReAct. The bare SDK is `AsyncOpenAI` with `max_retries=0`, making the same "
        "requests one by one; ours also reads, runs the tools, judges at three levels and keeps "
        "every episode. One after the other in each round, the first one in turn. CPU time is of "
        "the client's process with all its threads; the server, whose answers are scripted, is a "
        "process of its own."
    )


def _cores() -> str:
    if not hasattr(os, "sched_getaffinity"):
        return "all of them"
    usable = len(os.sched_getaffinity(0))
    return f"{usable} of them" if usable != os.cpu_count() else "all of them"
