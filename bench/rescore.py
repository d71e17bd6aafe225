"""Read a run's stored replies again, with today's readers and judge. Asks no model, runs no tool.

What the run kept is left as it is: the new readings and scores go into a run folder of their own,
whose manifest says what it was made from. Where today's reading of a reply leads elsewhere, the
episode ends there: what the model would have said next is known to nobody.
"""

import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from bench.drivers import make_driver
from bench.loop import DEFAULT_BUDGET, ending_of
from bench.records import RunFolder, episode_from_json, episode_to_json, now, version_of
from bench.types import Budget, Driver, Episode, Stop, Task, Turn, WorkbenchError
from parsers import Reading, Tool

if TYPE_CHECKING:
    from bench.choice import Choice
    from bench.run import ToolboxFor

KINDS = ("compare", "descriptions")
"""Experiments whose episodes can be read again."""

TaskFor = Callable[[str], Task]


@dataclass(frozen=True, slots=True)
class Reread:
    """An episode as it is read today."""

    episode: Episode
    changed: int
    """Replies whose reading is another one than the stored."""
    left: bool
    """Whether it ends early because today something else would have been said to the model."""


def reread(
    episode: Episode, driver: Driver, tools: Sequence[Tool], budget: Budget = DEFAULT_BUDGET
) -> Reread:
    """Read an episode's replies again, as far as the model would have been asked the same.

    Results and ids of calls that are read as before are the stored ones. A correction counts as the
    same whatever it said: only that one was sent decides how it went on.
    """
    turns: list[Turn] = []
    changed = 0
    for turn in episode.turns:
        today = driver.read(turn.reply, tools)
        changed += _told(today) != _told(turn.reading)
        if not _leads_on(today, turn.reading):
            turns.append(replace(turn, reading=today, results=()))
            stop = _ending(turns, budget)
            return Reread(_with(episode, turns, stop), changed, stop == "left_recording")
        turns.append(replace(turn, reading=_with_ids(today, turn.reading)))
    return Reread(_with(episode, turns, episode.stop), changed, left=False)


def _told(reading: Reading) -> tuple[Any, ...]:
    """Return what a score can depend on."""
    kind = reading.failure.kind if reading.failure else None
    repairs = sorted({repair.name for repair in reading.repairs})
    return (kind, _calls(reading), reading.final, repairs)


def _calls(reading: Reading) -> list[tuple[Any, ...]]:
    return [(c.name, c.arguments, c.failure.kind if c.failure else None) for c in reading.calls]


def _leads_on(today: Reading, before: Reading) -> bool:
    """Say whether the loop would have gone on, or ended, in the same way."""
    if today.outcome != before.outcome:
        return False
    match today.outcome:
        case "call":
            return _made(today) == _made(before)
        case "endpoint":
            return _kind(today) == _kind(before)
        case _:
            return True


def _made(reading: Reading) -> list[tuple[str, Any, bool]]:
    return [(call.name, call.arguments, call.failure is None) for call in reading.calls]


def _kind(reading: Reading) -> str | None:
    return reading.failure.kind if reading.failure else None


def _with_ids(today: Reading, before: Reading) -> Reading:
    """Keep the ids under which the calls were answered."""
    if len(today.calls) != len(before.calls):
        return today
    pairs = zip(today.calls, before.calls, strict=True)
    return replace(today, calls=tuple(replace(new, id=old.id) for new, old in pairs))


def _ending(turns: Sequence[Turn], budget: Budget) -> Stop:
    """Say how an episode ends at a reply that is read otherwise today."""
    if stop := ending_of(turns[-1].reading):
        return stop
    malformed = sum(turn.reading.outcome == "malformed" for turn in turns)
    if turns[-1].reading.outcome == "malformed" and malformed > budget.corrections:
        return "malformed"
    return "step_limit" if len(turns) >= budget.steps else "left_recording"


def _with(episode: Episode, turns: Sequence[Turn], stop: Stop) -> Episode:
    seconds = round(sum(turn.reply.seconds for turn in turns), 6)
    return replace(episode, turns=tuple(turns), stop=stop, seconds=seconds)


# ---------------------------------------------------------------- a whole run


def rescore(folder: RunFolder, results: Path, command: str = "") -> RunFolder:
    """Make a run folder NAME-rescored of a run; raises WorkbenchError where it can't be read again."""
    from bench.choice import choice_from  # noqa: PLC0415 (a command is known now)
    from bench.manifest import hash_tasks  # noqa: PLC0415

    manifest = folder.manifest
    if manifest.get("experiment", "compare") not in KINDS:
        raise WorkbenchError(
            f"{folder.path.name}: a run of {manifest['experiment']} has no scores to make again; "
            f"only {' and '.join(KINDS)} do"
        )
    choice, lines = choice_from(manifest.get("choice") or {}), folder.stored()
    judge, files = _make_judge(choice, Budget(**(manifest.get("budget") or {})), folder.path.name)
    if not lines:
        raise WorkbenchError(f"{folder.path}: holds no finished episode; resume the run first")
    made = _new_folder(results, folder.path.name)
    made.write_manifest({**manifest, "finished": None, "rescored": {"from": folder.path.name}})
    tally: Counter[str] = Counter()
    ids: dict[str, None] = {}
    for done in _read_all(lines, judge, choice):
        made.append_line(done.line)
        tally.update(done.counts)
        ids[str(done.line["task_id"])] = None
    fresh = _manifest(manifest, folder.path.name, command, tally, files)
    made.write_manifest({**fresh, "golds": hash_tasks(map(judge.task_for, ids))})
    made.finish(stops={k.removeprefix("stop "): n for k, n in tally.items() if " " in k})
    if "bfcl" in manifest:
        from bench.bfcl.run import judge_run  # noqa: PLC0415 (only BFCL's tasks need it)

        judge_run(made, choice)
    return made


@dataclass(frozen=True, slots=True)
class _Done:
    """An episode's new line, and what it adds to the run's tally."""

    line: dict[str, Any]
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Judge:
    """What a run's episodes are read and judged with."""

    task_for: TaskFor
    toolbox_for: "ToolboxFor"
    budget: Budget
    run: str

    def read(self, line: Mapping[str, Any]) -> _Done:
        """Read and judge one episode again."""
        from bench.clients import ScriptedClient  # noqa: PLC0415 (a command is known now)
        from bench.run import Job, score_episode  # noqa: PLC0415

        stored = episode_from_json(line)
        task = self.task_for(stored.task_id)
        toolbox = self.toolbox_for(task, stored.variant)
        dialect = f"/{stored.dialect}" if stored.dialect else ""
        driver = make_driver(f"{stored.driver}{dialect}@{stored.level}")
        found = reread(stored, driver, toolbox.tools, self.budget)
        nobody = ScriptedClient((), stored.endpoint, stored.model)
        job = Job(task, driver, nobody, stored.variant, stored.trial)
        score = score_episode(job, found.episode, toolbox)
        counts = {"episodes": 1, "replies": len(stored.turns), f"stop {found.episode.stop}": 1}
        counts |= {"changed": found.changed, "left": int(found.left)}
        return _Done(episode_to_json(found.episode, score), counts)


def _make_judge(choice: "Choice", budget: Budget, run: str) -> tuple[_Judge, Mapping[str, str]]:
    """Take what a run was made with: its tasks and tools; return its files too."""
    tasks, toolbox_for, files = _brought_along(choice)
    return _Judge(_task_finder(tasks, choice.toolset, run), toolbox_for, budget, run), files


def _brought_along(
    choice: "Choice",
) -> tuple[Sequence[Task], "ToolboxFor", Mapping[str, str]]:
    """Return the tasks that a run did not take from the bundled ones, its tools, and its files."""
    from bench.own import load_own  # noqa: PLC0415 (a command is known now)
    from bench.run import bundled_toolbox  # noqa: PLC0415

    if (choice.tasks or "").startswith("bfcl:"):
        from bench.bfcl.run import load_tasks_and_tools  # noqa: PLC0415 (only BFCL's tasks need it)

        return (*load_tasks_and_tools(choice), {})
    own = load_own(choice)
    return own.tasks, own.toolbox_for() if own else bundled_toolbox, own.files


# ---------------------------------------------------------------- several processes

SEVERAL = 2_000
"""Episodes from which on several processes share the work: each takes a second to begin."""
WORKERS = 4
"""Of these at most: each takes memory for the readers and the tasks."""
_CHUNK = 50


def _read_all(
    lines: Sequence[Mapping[str, Any]], judge: _Judge, choice: "Choice"
) -> Iterator[_Done]:
    """Read and judge every episode, in the order of the lines.

    A user's own tools are loaded once: what else their module does is done once, too.
    """
    workers = min(WORKERS, os.cpu_count() or 1)
    if len(lines) < SEVERAL or workers == 1 or choice.tools:
        yield from map(judge.read, lines)
        return
    with ProcessPoolExecutor(
        workers, get_context("spawn"), _begin_worker, (choice, judge.budget, judge.run)
    ) as pool:
        waiting: deque[Future[list[_Done]]] = deque()
        for chunk in _parted(lines):
            with _holding_interrupts():
                waiting.append(pool.submit(_read_chunk, chunk))
            if len(waiting) > 2 * workers:  # what is waited for is all that memory holds
                yield from waiting.popleft().result()
        for found in waiting:
            yield from found.result()


def _parted(lines: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    rest = iter(lines)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


@contextmanager
def _holding_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back meanwhile; in a process that begins meanwhile it is held back for good."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker: _Judge


def _begin_worker(choice: "Choice", budget: Budget, run: str) -> None:
    """Make a worker ready, and let it end with the process that began it, however that ends."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    _worker, _ = _make_judge(choice, budget, run)


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _read_chunk(lines: Sequence[Mapping[str, Any]]) -> list[_Done]:
    return [_worker.read(line) for line in lines]


# ---------------------------------------------------------------- tasks, folders and manifests


def _task_finder(own: Sequence[Task], toolset: str | None, run: str) -> TaskFor:
    from bench.tasks import load_tasks  # noqa: PLC0415 (reading them takes time)

    known = {task.id: task for task in own or load_tasks()}

    def find(task_id: str) -> Task:
        if task_id not in known:
            raise WorkbenchError(
                f"{run}: its task {task_id[:80]!r} is not among today's, so it can't be judged"
            )
        task = known[task_id]
        return task if toolset is None else replace(task, toolset=toolset)

    return find


def _new_folder(results: Path, name: str) -> RunFolder:
    for number in range(1, 1000):
        path = results / (f"{name}-rescored" + (f"-{number}" if number > 1 else ""))
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise WorkbenchError(
                f"{results}: can't write results here ({error.strerror}); choose a folder with "
                "--results DIR"
            ) from None
        return RunFolder(path)
    raise WorkbenchError(f"{results}: {name} was rescored a thousand times; remove some of them")


def _manifest(
    before: Mapping[str, Any],
    name: str,
    command: str,
    tally: Mapping[str, int],
    own: Mapping[str, str],
) -> dict[str, Any]:
    """Keep what was asked and how; say what was read again, by what, and with which gold."""
    from bench.manifest import describe_git, hash_datasets  # noqa: PLC0415 (a command is known now)
    from bench.paths import find_datasets  # noqa: PLC0415

    today = hash_datasets(find_datasets())
    changed = sorted(
        file
        for file, digest in {**today, **own}.items()
        if _hashes(before).get(file, digest) != digest
    )
    counts = {key: tally[key] for key in ("episodes", "replies", "changed", "left")}
    rescored = {"from": name, "at": now(), "command": command, **counts, "data_changed": changed}
    rescored |= {"version": version_of("toolcall-workbench"), "git": describe_git()}
    notes = before.get("notes") or []
    notes = [notes] if isinstance(notes, str) else list(notes)
    notes.append(_note(name, before, counts, changed))
    fresh = {"datasets": today, "notes": notes, "rescored": rescored}
    if own and isinstance(before.get("own"), Mapping):
        fresh["own"] = {**before["own"], "files": dict(own)}
    return {**before, **fresh}


def _hashes(manifest: Mapping[str, Any]) -> dict[str, str]:
    own = manifest.get("own") or {}
    return {**(manifest.get("datasets") or {}), **(own.get("files") or {})}


def _note(
    name: str, before: Mapping[str, Any], counts: Mapping[str, int], changed: Sequence[str]
) -> str:
    told = (
        f"Rescored: the replies are those of {name}, begun {before.get('started')}; readings and "
        f"scores were made again by version {version_of('toolcall-workbench')}, and no model was "
        f"asked. {counts['changed']} of {counts['replies']} readings are others than before; "
        f"{counts['left']} episodes end early, since today something else would have been said to the "
        "model."
    )
    if changed:
        told += f" Judged by today's files, which changed since: {', '.join(changed[:10])}."
    return told
