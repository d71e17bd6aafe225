"""Many episodes: which, in what order, how many at once, and where each is kept.

Decides nothing about an episode and reads no arguments. An episode that breaks off through a fault
of ours is noted and the run goes on; one that an endpoint refused for good stops the run.
"""

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TextIO

from bench import secret
from bench.drivers import explain_failure, label
from bench.limits import Spending, UsedUp
from bench.loop import DEFAULT_BUDGET, DEFAULT_SETTINGS, Toolbox, solve
from bench.records import EpisodeKey, RunFolder, dump_line, key_of
from bench.types import Budget, Client, Driver, Episode, Lang, Task, WantedCall, WorkbenchError

HOPELESS = 10
"""After so many refusals in a row that no retry can mend, an arm is given up, and the run with it."""

ToolboxFor = Callable[[Task, str], Toolbox]
"""Task and description variant in, tools out."""


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to be run."""

    task: Task
    driver: Driver
    client: Client
    variant: str = "full"
    trial: int = 0

    @property
    def key(self) -> EpisodeKey:
        """What tells this episode of a run from every other."""
        driver = self.driver
        own = (driver.name, driver.dialect or "", driver.level)
        return (self.task.id, *own, self.variant, self.trial, self.client.name)


def plan_jobs(
    tasks: Iterable[Task],
    drivers: Sequence[Driver],
    clients: Sequence[Client],
    *,
    variants: Sequence[str] = ("full",),
    trials: int = 1,
) -> Iterator[Job]:
    """Yield every episode, interleaved: all arms of a task before the next task.

    Which arm is first changes from task to task, so that none always meets a warm cache.

    >>> from bench import ScriptedClient, load_tasks, make_driver, plan_jobs
    >>> tasks = load_tasks(ids=["no_tool-01"])
    >>> ways = [make_driver("react"), make_driver("native")]
    >>> [job.driver.name for job in plan_jobs(tasks, ways, [ScriptedClient([])])]
    ['react', 'native', 'native', 'react']
    """
    for number, task in enumerate(tasks):
        start = number % max(len(drivers), 1)
        turned = [*drivers[start:], *drivers[:start]]
        for trial in range(trials):
            for variant in variants:
                for client in clients:
                    yield from (Job(task, driver, client, variant, trial) for driver in turned)


@dataclass(slots=True)
class Tally:
    """What became of a run's episodes."""

    stops: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    """One line for each episode that a fault of the workbench broke off."""
    left: int = 0
    """Episodes that a limit of the run cut or did not let begin; none of them is kept."""

    @property
    def ended(self) -> int:
        """Episodes that came to an end of any kind."""
        return self.stops.total() + len(self.broken)

    @property
    def missing(self) -> int:
        """Episodes without an outcome: the endpoint failed, or we did."""
        return self.stops["endpoint"] + len(self.broken)


def bundled_toolbox(task: Task, variant: str) -> Toolbox:
    """Return the tools that a task names, in its language, told as a variant tells them."""
    return _told_tools(task.toolset, task.lang, variant)


@cache
def _told_tools(toolset: str, lang: Lang, variant: str) -> Toolbox:
    from bench.tools import load_tools  # noqa: PLC0415 (pydantic takes time to load)

    toolbox = load_tools(toolset, lang)
    if variant == "full":
        return toolbox
    from bench.variants import apply_to_toolbox  # noqa: PLC0415 (only variants need it)

    return apply_to_toolbox(toolbox, variant, lang)


async def run_all(
    jobs: Iterable[Job],
    folder: RunFolder,
    *,
    toolbox_for: ToolboxFor = bundled_toolbox,
    budget: Budget = DEFAULT_BUDGET,
    settings: Mapping[str, Any] = DEFAULT_SETTINGS,
    leave: Any = None,
    concurrency: int = 4,
    done: Collection[EpisodeKey] = frozenset(),
    watch: Callable[[Episode], None] | None = None,
    spending: Spending | None = None,
) -> Tally:
    """Run every job that is not done yet, at most `concurrency` at once; keep each when it ends.

    Where the limits in `spending` are reached, the tally says how many episodes are left.
    Raises `WorkbenchError` where an endpoint refuses everything; what is finished is kept.

    >>> import asyncio, tempfile
    >>> from pathlib import Path
    >>> from bench import RunFolder, ScriptedClient, load_tasks, make_driver, plan_jobs, run_all
    >>> client = ScriptedClient(lambda request: "Final Answer: I am a model.")
    >>> jobs = plan_jobs(load_tasks(ids=["no_tool-01"]), [make_driver("react")], [client])
    >>> with tempfile.TemporaryDirectory() as root:
    ...     folder = RunFolder.create(Path(root), "mine", {"format": 1})
    ...     tally = asyncio.run(run_all(jobs, folder))
    ...     folder.close()
    >>> tally.stops["answered"], tally.missing
    (2, 0)
    """
    spending = spending or Spending()
    run = _Run(folder, toolbox_for, budget, settings, leave, watch, spending)
    wanted = [job for job in jobs if job.key not in done]
    waiting = iter(wanted)
    try:
        async with asyncio.timeout(spending.start()), asyncio.TaskGroup() as group:
            for _ in range(max(concurrency, 1)):
                group.create_task(run.work(waiting))
        spending.stop(out_of_time=False)
    except TimeoutError:
        spending.stop(out_of_time=True)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    run.tally.left = len(wanted) - run.tally.ended
    return run.tally


@dataclass(slots=True)
class _Run:
    folder: RunFolder
    toolbox_for: ToolboxFor
    budget: Budget
    settings: Mapping[str, Any]
    leave: Any
    watch: Callable[[Episode], None] | None
    spending: Spending
    tally: Tally = field(default_factory=Tally)
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def work(self, waiting: Iterator[Job]) -> None:
        """Take jobs until none is left, or the run's limits let none begin."""
        while self.spending.may_begin():
            job = next(waiting, None)
            if job is None:
                return
            with suppress(UsedUp), self.spending.episode():
                await self._do(job)

    async def _do(self, job: Job) -> None:
        try:
            toolbox = self.toolbox_for(job.task, job.variant)
            episode = await solve(
                job.task,
                toolbox,
                job.driver,
                job.client,
                budget=self.budget,
                settings=self.settings,
                variant=job.variant,
                trial=job.trial,
                leave=self.leave,
            )
            score = score_episode(job, episode, toolbox)
        except (WorkbenchError, UsedUp):
            raise
        except Exception as error:  # noqa: BLE001 (one broken episode must not end a paid run)
            self._note(job, error)
            return
        self._keep(job, episode, score)

    def _keep(self, job: Job, episode: Episode, score: Any) -> None:
        try:
            self.folder.append(episode, score)
        except OSError as error:
            raise WorkbenchError(
                f"{self.folder.path}: can't be written ({error.strerror}); what was finished is kept"
            ) from None
        except (RecursionError, ValueError) as error:  # too long, or nested too deeply
            self._note(job, error)
            return
        self.tally.stops[episode.stop] += 1
        if self.watch is not None:
            self.watch(episode)
        self._give_up_if_hopeless(job, episode)

    def _give_up_if_hopeless(self, job: Job, episode: Episode) -> None:
        arm = (job.client.name, label(job.driver))
        failure = episode.turns[-1].reading.failure if episode.turns else None
        if episode.stop != "endpoint" or failure is None or failure.retryable:
            self.refusals[arm] = 0
            return
        self.refusals[arm] += 1
        if self.refusals[arm] >= HOPELESS:
            raise WorkbenchError(
                f"endpoint {arm[0]} refused {HOPELESS} {arm[1]} episodes in a row ({failure.kind}): "
                f"{explain_failure(failure, 'en') or 'no reason given'}"[:400]
            )

    def _note(self, job: Job, error: Exception) -> None:
        """Keep the trace beside the episodes, for whoever mends the fault."""
        line = secret.hide(f"{job.task.id} {label(job.driver)}: {type(error).__name__}: {error}")[
            :300
        ]
        self.tally.broken.append(line)
        trace = "".join(traceback.format_exception(error))
        entry = {"task_id": job.task.id, "driver": label(job.driver), "trace": trace}
        with suppress(OSError), (self.folder.path / "errors.jsonl").open("ab") as file:
            file.write(dump_line(entry))


def score_episode(job: Job, episode: Episode, toolbox: Toolbox) -> Any:
    """Judge an episode; where a variant shows tools under other names, so does the gold."""
    from bench.scoring import score  # noqa: PLC0415 (only runs need it)

    own = _own_names(job)
    shown = {name: told for told, name in own.items()}
    found = score(_rename_gold(job.task, shown), episode, toolbox.tools, job.driver)
    if not own:
        return found
    pairs = tuple((own.get(wanted, wanted), own.get(got, got)) for wanted, got in found.pairs)
    return replace(found, pairs=pairs)


def _own_names(job: Job) -> Mapping[str, str]:
    """Return for each tool's shown name its own, where a variant has names of its own."""
    if job.variant == "full":
        return {}
    from bench.tools import load_tools  # noqa: PLC0415 (only variants need it)
    from bench.variants import VARIANTS, apply_variant  # noqa: PLC0415

    if job.variant not in VARIANTS:  # a variant of the user's own, which renames nothing
        return {}
    return apply_variant(load_tools(lang=job.task.lang).tools, job.variant, job.task.lang).names


def _rename_gold(task: Task, names: Mapping[str, str]) -> Task:
    def rename(calls: Sequence[WantedCall]) -> tuple[WantedCall, ...]:
        return tuple(replace(call, tool=names.get(call.tool, call.tool)) for call in calls)

    if not names:
        return task
    gold = replace(
        task.gold,
        calls=rename(task.gold.calls),
        also=rename(task.gold.also),
        forbidden=tuple(names.get(name, name) for name in task.gold.forbidden),
    )
    return replace(task, gold=gold)


def done_keys(folder: RunFolder) -> set[EpisodeKey]:
    """Return what need not be run again: every episode but those that an endpoint failed."""
    return set(kept_stops(folder))


def kept_stops(folder: RunFolder) -> dict[EpisodeKey, str]:
    """Return for each episode that need not be run again how it stopped."""
    return {key_of(line): line["stop"] for line in folder.lines() if line["stop"] != "endpoint"}


# ------------------------------------------------------------ progress


class Progress:
    """Counts and the time left, on a terminal in one line, else a line a minute."""

    def __init__(self, total: int, out: TextIO) -> None:
        self._total, self._out = total, out
        self._steer: Callable[[str], object] = getattr(out, "steer", out.write)
        self._started = self._told = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._live = out.isatty()

    def __call__(self, episode: Episode) -> None:
        """Count an episode, and show it."""
        self._counts["done"] += 1
        self._counts["failed"] += episode.stop == "endpoint"
        now = time.monotonic()
        if now - self._told >= (0.1 if self._live else 60.0):
            self._told = now
            self._show(now)

    def _show(self, now: float) -> None:
        begin, end = ("\r", "\x1b[K") if self._live else ("", "\n")
        self._steer(begin + self.line(now - self._started) + end)
        self._out.flush()

    def line(self, spent: float) -> str:
        """Return the line for a number of seconds since the start."""
        done = self._counts["done"]
        share = done / self._total if self._total else 1.0
        left = spent / share - spent if share else 0.0
        failed = self._counts["failed"]
        fault = f", {failed} endpoint failures" if failed else ""
        return f"{done} of {self._total} episodes ({share:.0%}){fault}, {_clock(left)} left"

    def end(self) -> None:
        """Clear the line."""
        if self._live:
            self._steer("\r\x1b[K")
            self._out.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
