"""Measure what an episode costs beside its model: ours against inspect_ai's, on the same tasks.

The models of both answer at once from a script in their own process, so that what is left is the
harness. inspect_ai runs in an environment of its own, which is made when it is first measured.
"""

import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

from bench.check import gold_replay
from bench.clients import ScriptedClient
from bench.drivers import NativeDriver, ReactDriver, label
from bench.loop import DEFAULT_SETTINGS, solve
from bench.peers.__main__ import install
from bench.peers.workers import Parser, Peer, Worker, find_python, versions_of
from bench.perf.episodes import script_of
from bench.perf.readers import met
from bench.records import RunFolder
from bench.run import Job, bundled_toolbox, plan_jobs, run_all
from bench.tasks import load_tasks
from bench.types import Request, Task, WorkbenchError

HERE = Path(__file__).resolve().parent
RUNNER = HERE / "inspect_runner.py"
PASSES, ROUNDS = 2, 3
"""How often each task is solved in a round, with each driver, and how many rounds there are."""
WARM = 10
"""Episodes of each side before the first round."""
AT_ONCE = 4
LEAST = 25.0
"""The target: episodes of ours in the time of one of inspect_ai's."""
LIMIT = 900.0
"""Seconds of the processor that one round of inspect_ai may take."""
PATIENCE = 4.0

_CATEGORIES = ("single", "lookalike", "typed")
_DRIVERS = (ReactDriver(), NativeDriver())
OURS = "ours"
MODES: Mapping[str, Mapping[str, Any]] = {
    "inspect_ai's, as it comes": {},
    "inspect_ai's, logging as little as it can": {
        "log_samples": False,
        "log_realtime": False,
        "log_model_api": False,
        "log_level_transcript": "critical",
        "score_display": False,
        "ctl_server": False,
    },
}
"""What `inspect_ai.eval` is told beside `display="none"`."""


# ---------------------------------------------------------------- what both sides do


@dataclass(frozen=True, slots=True)
class Took:
    """One side in one round: seconds by the clock and of its process, and what it did."""

    wall: float
    cpu: float
    episodes: int
    turns: int
    calls: int

    def cost(self, clock: str) -> float:
        """Milliseconds of an episode by a clock, `wall` or `cpu`."""
        return 1000 * float(getattr(self, clock)) / self.episodes

    @property
    def work(self) -> tuple[int, int, int]:
        """What must be the same for all sides."""
        return self.episodes, self.turns, self.calls


Round = Mapping[str, Took]
"""What each side took, by its name."""


def choose_tasks() -> tuple[Task, ...]:
    """Return the bundled tasks that one call solves: 100 of them."""
    tasks = load_tasks(categories=_CATEGORIES)
    return tuple(task for task in tasks if len(gold_replay(task).calls) == 1)


def give_leave(_name: str, _arguments: Mapping[str, Any]) -> str:
    """Let every tool run: the bundled ones change nothing outside of an episode."""
    return "flag"


@dataclass(frozen=True, slots=True)
class Scripts:
    """What inspect_ai needs in order to do the same as ours, as JSON."""

    tools: tuple[Mapping[str, Any], ...]
    """OpenAI's entries; a name stands once for each language."""
    samples: tuple[Mapping[str, Any], ...]
    """`id`, `messages`, `tools` (places in the list of tools), `call`, `result`, `answer`."""


def write_scripts(tasks: Sequence[Task]) -> Scripts:
    """Play each task natively, and keep what was sent and what its tool gave."""
    places: dict[str, int] = {}
    samples = tuple(_sample(task, places) for task in tasks)
    return Scripts(tuple(json.loads(text) for text in places), samples)


def _sample(task: Task, places: dict[str, int]) -> Mapping[str, Any]:
    driver, toolbox = NativeDriver(), bundled_toolbox(task, "full")
    client = ScriptedClient(script_of(task, driver))
    episode = asyncio.run(solve(task, toolbox, driver, client, leave=give_leave))
    [result] = episode.turns[0].results
    texts = [json.dumps(tool.to_openai(), ensure_ascii=False) for tool in toolbox.tools]
    return {
        "id": task.id,
        "messages": list(client.requests[0].messages),
        "tools": [places.setdefault(text, len(places)) for text in texts],
        "call": {"name": result.tool, "arguments": dict(result.arguments or {})},
        "result": result.content,
        "answer": gold_replay(task).final,
    }


# ---------------------------------------------------------------- ours


def run_ours(tasks: Sequence[Task], count: int) -> Took:
    """Run so many episodes, both drivers in turn, into a run folder on the disk.

    Raises where one of them was not solved.
    """
    client = ScriptedClient(_Script(tasks))
    jobs = list(islice(_jobs(tasks, client), count))
    with tempfile.TemporaryDirectory() as place:
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        folder = RunFolder.create(Path(place), "perf", {})
        asyncio.run(run_all(jobs, folder, concurrency=AT_ONCE, leave=give_leave))
        folder.finish()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        lines = list(folder.lines())
    solved = sum(line["score"].get("success", 0) for line in lines)
    if solved != count:
        raise WorkbenchError(f"ours solved {solved} of {count} scripted episodes")
    turns = [turn for line in lines for turn in line["turns"]]
    return Took(wall, cpu, count, len(turns), sum(len(turn.get("results", ())) for turn in turns))


class _Script:
    """Says what each task's gold wants, in the form of the driver that asks."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._said = {(t.id, label(d)): script_of(t, d) for t in tasks for d in _DRIVERS}

    def __call__(self, request: Request) -> Mapping[str, Any] | str:
        return self._said[request.key.task_id, request.key.driver][request.key.step]


def _jobs(tasks: Sequence[Task], client: ScriptedClient) -> Iterator[Job]:
    planned = list(plan_jobs(tasks, _DRIVERS, [client]))
    for number, job in enumerate(cycle(planned)):
        yield Job(job.task, job.driver, client, trial=number // len(planned))


# ---------------------------------------------------------------- inspect_ai's


def load_peer() -> Peer:
    """Load what is installed of inspect_ai from the data file beside this module."""
    entry = json.loads((HERE / "harnesses.json").read_text(encoding="utf-8"))["inspect-ai"]
    return Peer("inspect-ai", entry["title"], tuple(entry["requires"]))


def parser_of(peer: Peer) -> Parser:
    """Return a peer as what a worker runs."""
    return Parser(peer.name, peer.title, "native", "inspect", peer)


def make_ready(peer: Peer, environments: Path) -> None:
    """Install the peer into its own environment, where that is missing."""
    if find_python(parser_of(peer), environments).exists():
        return
    sys.stderr.write(f"{peer.name}: installing {', '.join(peer.requires)} under {environments}\n")
    problem = install(peer, environments)
    if problem:
        raise WorkbenchError(f"{peer.name}: {problem}")


def run_inspect(worker: Worker, scripts: Scripts, count: int, options: Mapping[str, Any]) -> Took:
    """Have so many episodes evaluated; raise where one was not, or was not solved."""
    request = {
        "tools": scripts.tools,
        "samples": scripts.samples,
        "count": count,
        "options": options,
        "config": DEFAULT_SETTINGS,
    }
    found = worker.ask(request, LIMIT)["read"]
    if "wall" not in found:
        reason = next(iter(found.values()), "no reason given")
        raise WorkbenchError(f"inspect_ai did not run: {reason}"[:400])
    if found["solved"] != count:
        raise WorkbenchError(f"inspect_ai solved {found['solved']} of {count} scripted episodes")
    return Took(found["wall"], found["cpu"], count, found["turns"], found["calls"])


# ---------------------------------------------------------------- both, in rounds


def measure_rounds(
    environments: Path, episodes: int | None = None, rounds: int = ROUNDS
) -> tuple[str, tuple[Round, ...]]:
    """Time all sides in turn, after a warm-up; return inspect_ai's version and the rounds.

    Who is first changes from round to round. Raises where the sides did not do the same work.
    """
    peer, tasks = load_peer(), choose_tasks()
    scripts = write_scripts(tasks)
    count = episodes or PASSES * len(tasks)
    parser = parser_of(peer)
    with Worker(
        parser, environments=environments.absolute(), adaptors=RUNNER, patience=PATIENCE
    ) as worker:
        said = worker.start()
        if "failed" in said:
            raise WorkbenchError(f"{peer.title} does not start: {said['failed']}")
        sides = _sides(worker, tasks, scripts)
        for run in sides.values():
            run(min(WARM, count))
        turns = (_turned(list(sides), number) for number in range(rounds))
        found = tuple({name: sides[name](count) for name in names} for names in turns)
    for one in found:
        _check_same_work(one)
    return versions_of(peer, said), found


def _sides(
    worker: Worker, tasks: Sequence[Task], scripts: Scripts
) -> Mapping[str, Callable[[int], Took]]:
    peers = {
        name: partial(run_inspect, worker, scripts, options=options)
        for name, options in MODES.items()
    }
    return {OURS: partial(run_ours, tasks), **peers}


def _turned(names: Sequence[str], number: int) -> list[str]:
    start = number % len(names)
    return [*names[start:], *names[:start]]


def _check_same_work(one: Round) -> None:
    if len({took.work for took in one.values()}) > 1:
        counts = {name: took.work for name, took in one.items()}
        raise WorkbenchError(f"the sides did not do the same (episodes, turns, calls): {counts}")


# ---------------------------------------------------------------- what is written down


def measure_inspect(environments: Path) -> str:
    """Write the section on inspect_ai, which is installed where it is missing."""
    make_ready(load_peer(), environments)
    version, rounds = measure_rounds(environments)
    return "\n".join(inspect_lines(rounds, version))


def inspect_lines(rounds: Sequence[Round], version: str) -> Iterator[str]:
    """Write every side's milliseconds for an episode, and whether ours are few enough."""
    yield "## Overhead of an episode: beside inspect_ai"
    yield ""
    yield from _about(rounds, version)
    yield ""
    yield f"| side | CPU ms an episode, {len(rounds)} rounds | to ours | by the clock, ms | to ours |"
    yield "|---|---:|---:|---:|---:|"
    for name in rounds[0]:
        cells = (cell for clock in ("cpu", "wall") for cell in _cells(rounds, name, clock))
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""
    yield from _bullets(rounds)


def ratio_of(rounds: Sequence[Round], name: str, clock: str) -> float:
    """Return how many of our episodes take as long as one of a side: the median of the rounds."""
    return median(one[name].cost(clock) / one[OURS].cost(clock) for one in rounds)


def _about(rounds: Sequence[Round], version: str) -> Iterator[str]:
    episodes, turns, calls = rounds[0][OURS].work
    yield (
        f"{episodes:,} episodes a round, {turns:,} replies and {calls:,} tool calls on each side: "
        f"bundled tasks that one call solves ({', '.join(_CATEGORIES)}), their five to eight tools "
        "offered, a scripted call and a scripted answer, which come at once from the same process. "
        "Each side was warmed up; one after the other in each round, the first one in turn. "
        "CPU time is of the side's process with all its threads. The ratio is the median of the "
        "rounds' ratios."
    )
    yield ""
    yield (
        f"Ours: `run_all` with `ScriptedClient`, half of the episodes ReAct and half native, "
        f"{AT_ONCE} at once; tools are run, every episode is read and judged at three levels and "
        "kept in a run folder on the disk."
    )
    yield ""
    _, *others = MODES.values()
    told = ", ".join(f"{name}={value!r}" for name, value in others[0].items())
    yield (
        f"inspect_ai's ({version}): `eval` of the same system and user messages, every episode "
        "native, with `mockllm/model` and `custom_outputs` that name their usage (else the mock "
        "would count tokens), `generate()` as the solver, `includes()` as the scorer, tools that "
        'give the results that ours gave, `display="none"`, all else as it comes: 10 samples at '
        "once, an `.eval` log with samples, written in real time. Logging as little as it can: "
        f"also `{told}`."
    )


def _cells(rounds: Sequence[Round], name: str, clock: str) -> tuple[str, str]:
    each = ", ".join(f"{one[name].cost(clock):.2f}" for one in rounds)
    return each, f"{ratio_of(rounds, name, clock):.1f}"


def _bullets(rounds: Sequence[Round]) -> Iterator[str]:
    default, *others = MODES
    for clock, told in (("cpu", "in CPU time"), ("wall", "by the clock")):
        ratio = ratio_of(rounds, default, clock)
        yield (
            f"- {told}, an episode of ours takes 1/{ratio:.1f} of {default} (median); at most "
            f"1/{LEAST:g}: {met(ratio >= LEAST)}"
        )
    for name in others:
        ratio = ratio_of(rounds, name, "cpu")
        yield f"- in CPU time, an episode of ours takes 1/{ratio:.1f} of {name} (median)"
