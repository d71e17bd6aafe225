"""The experiments about the wire, from a command to a report: pairing, choice, streaming.

Finds out who is asked (live endpoints, recordings, the strict endpoint), keeps what was found in a
run folder, and has the report written. Measures nothing itself.
"""

import asyncio
import os
import shlex
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench import choice as chosen
from bench import pairing, resume, secret, streaming, tool_choice
from bench.choice import Choice, Endpoint
from bench.clients import OpenAIClient, RecordedClient, RecordingClient, is_settled, probe
from bench.compare import confirm, hold, tell
from bench.manifest import describe_endpoints, describe_machines, describe_run, hash_datasets
from bench.paths import find_datasets
from bench.plan import LIVE_AT_ONCE, RECORDED_AT_ONCE, Order, describe_recording, make_client
from bench.profiles import load_profiles, profile_for, profile_record, shape_for
from bench.recordings import Recorder, Recording
from bench.records import RunFolder, to_json
from bench.status import INCOMPLETE, OK, Interrupted
from bench.types import Client, WorkbenchError

Name = Literal["pairing", "choice", "streaming", "ask"]
KEPT = "trials.jsonl"
"""The lines of an experiment's run folder."""
SETTINGS: Mapping[str, Any] = pairing.SETTINGS
"""What every request carries, unless told otherwise."""
NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class Experiment:
    """What one experiment asks, and how much."""

    run: Callable[..., Coroutine[Any, Any, Sequence[Any]]]
    """Takes a client, `count`, `settings` and `at_once`; gives trials."""
    requests: Callable[[int], int]
    """How many requests `count` questions take."""
    at_once: int = LIVE_AT_ONCE
    """Questions at a time, live: one where times are compared."""
    count: int = 20
    """Questions of each kind, unless told."""


EXPERIMENTS: Mapping[Name, Experiment] = {
    "pairing": Experiment(pairing.run_pairing, pairing.count_requests),
    "choice": Experiment(tool_choice.run_choice, tool_choice.count_requests),
    "streaming": Experiment(streaming.run_streaming, streaming.count_requests, at_once=1),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """Everybody that an experiment asks: only one of the three has members."""

    endpoints: tuple[Endpoint, ...] = ()
    recordings: tuple[Recording, ...] = ()
    profiles: tuple[str, ...] = ()
    """What the strict endpoint plays."""

    @property
    def mode(self) -> str:
        """Whether models are asked, recordings, or the strict endpoint."""
        return "live" if self.endpoints else "recorded" if self.recordings else "strict"

    @property
    def names(self) -> tuple[str, ...]:
        """The endpoints' names."""
        recorded = (str(recording.manifest["endpoint"]) for recording in self.recordings)
        return (*(endpoint.name for endpoint in self.endpoints), *recorded, *self.profiles)


@dataclass(frozen=True, slots=True)
class Job:
    """One experiment, ready to be run."""

    name: Name
    choice: Choice
    order: Order
    asked: Asked
    count: int
    experiment: Experiment

    @property
    def requests(self) -> int:
        """How many requests it takes in all."""
        return self.experiment.requests(self.count) * len(self.asked.names)

    @property
    def at_once(self) -> int:
        """How many questions are asked at a time."""
        live = self.experiment.at_once
        usual = live if self.asked.mode == "live" else RECORDED_AT_ONCE
        return self.choice.concurrency or usual

    def settings(self, base: Mapping[str, Any] = SETTINGS) -> dict[str, Any]:
        """Give what every request carries."""
        return self.choice.settings(base)

    def manifest(self) -> dict[str, Any]:
        """Write down all that a reader of the run needs in order to trust or repeat it."""
        asked = self.asked
        return {
            **describe_run(self.name, asked.mode, self.order.command),
            **describe_machines(asked.recordings),
            "endpoints": [
                *describe_endpoints(asked.endpoints, asked.recordings, self.choice),
                *map(_strict_entry, asked.profiles),
            ],
            "settings": secret.mask_options(self.settings()),
            "timeout": self.choice.timeout,
            "count": self.count,
            "concurrency": self.at_once,
            "datasets": hash_datasets(find_datasets()),
            "choice": chosen.to_manifest(self.choice, asked.endpoints),
            "notes": list(self.order.notes),
            **({} if self.order.record is None else {"record": str(self.order.record)}),
        }

    def how(self, folder: RunFolder) -> str:
        """Say what is typed to go on."""
        command = resume.command_of({"experiment": self.name})
        return f"python -m bench {command} --resume {shlex.quote(str(folder.path))}"


def _strict_entry(profile: str) -> dict[str, Any]:
    return {
        "name": profile,
        "model": "scripted",
        "host": "the strict endpoint of this workbench",
        "profile": profile_record(profile_for(None, profile)),
    }


def run_experiment(
    name: Name,
    values: Mapping[str, Any],
    order: Order,
    count: int | None = None,
    experiment: Experiment | None = None,
) -> int:
    """Run an experiment, or go on with a run, and write its report; return the exit status.

    `experiment`: the one of that name unless given; `count`: as it, or the run, has it.
    """
    folder = resume.find_run(order, name, KEPT)
    order = resume.recorded_into(folder, order)
    choice = chosen.choice_from(values) if folder is None else _choice_of(folder, values)
    one = experiment or EXPERIMENTS[name]
    count = count or (one.count if folder is None else folder.manifest.get("count", one.count))
    job = Job(name, choice, order, find_asked(name, choice, order), count, one)
    if folder is None:
        return _start(job)
    try:
        return _go_on(job, folder)
    finally:
        folder.close()


def _choice_of(folder: RunFolder, values: Mapping[str, Any]) -> Choice:
    stored = folder.manifest.get("choice")
    if stored is None:
        raise WorkbenchError(f"{folder.path.name}: an earlier version began it; start a new run")
    return chosen.resumed(stored, values, folder.path.name)


def _start(job: Job) -> int:
    unfinished = resume.tell_of_unfinished(job.order.results, job.name)
    if unfinished and not job.order.dry_run:
        tell(unfinished)
    return _confirm_and_run(job, None)


def _go_on(job: Job, folder: RunFolder) -> int:
    """Go on with a run: replies are kept, and what was found is read from them again."""
    same = ("mode", "settings", "count", "datasets", "endpoints")
    resume.refuse_changes(folder, secret.hide_value(job.manifest()), same)
    if not job.order.dry_run and not _is_done(folder):
        hold(folder)
    if _is_done(folder):
        print(f"{folder.path}: nothing left to do")  # noqa: T201 (the answer)
        return OK
    return _confirm_and_run(job, folder)


def _is_done(folder: RunFolder) -> bool:
    manifest = folder.manifest
    return bool(manifest.get("finished")) and not manifest.get("missing")


def _confirm_and_run(job: Job, folder: RunFolder | None) -> int:
    who = f"{', '.join(job.asked.names)} ({job.asked.mode})"
    tell(f"{job.name}: {job.count} questions of each kind, {job.requests} requests to {who}")
    if job.order.dry_run:
        return OK
    if job.asked.mode == "live" and not job.order.yes:
        confirm()
    made, missing = asyncio.run(_run(job, folder))
    with resume.saying_how(made, job.how(made)):
        made.end(missing=missing)
        status = _finish(job, made, missing)
        made.finish()
        return status


def find_asked(name: Name, choice: Choice, order: Order) -> Asked:
    """Find out who is asked: the models named, else the profiles named, else recordings."""
    endpoints = chosen.find_endpoints(choice, os.environ, order.api_key)
    if order.record is not None and len(endpoints) != 1:
        raise WorkbenchError("--record: one live endpoint is needed; name it with --model")
    if endpoints:
        return Asked(endpoints=endpoints)
    if name == "pairing" and choice.profile and not (choice.replay or choice.endpoint):
        return Asked(profiles=_list_profiles(choice.profile))
    return Asked(recordings=read_recordings(name, choice))


def _list_profiles(text: str) -> tuple[str, ...]:
    return tuple(load_profiles()) if text == "all" else (profile_for(None, text).name,)


def read_recordings(name: str, choice: Choice) -> tuple[Recording, ...]:
    """Read the recordings of an experiment: the files named, else the bundled ones."""
    if not choice.replay:
        folder = find_datasets() / "recordings"
        return tuple(chosen.find_recordings(folder, choice.endpoint, name))
    found = tuple(Recording.read(Path(file)) for file in choice.replay)
    for recording in found:
        kind = recording.manifest.get("experiment")
        if kind != name:
            raise WorkbenchError(f"{recording.path}: records {kind}, not {name}; name another file")
    return found


# ------------------------------------------------------------ running it


async def _run(job: Job, folder: RunFolder | None) -> tuple[RunFolder, int]:
    """Ask everybody; return the folder, which is still held, and how much is missing."""
    clients: list[Client] = []
    with ExitStack() as stack:
        try:
            clients.extend(_open(job, stack))
            for client in clients:
                if isinstance(client, OpenAIClient) and job.asked.mode == "live":
                    await probe(client, job.settings(), job.order.probe_timeout, tell)
            folder = _open_folder(job, folder)
            clients[:] = [_keep(job, folder, at, client) for at, client in enumerate(clients)]
            return folder, sum([await _ask(job, folder, at, c) for at, c in enumerate(clients)])
        except (asyncio.CancelledError, WorkbenchError) as error:
            raise _stopped(job, folder, error) from None
        finally:
            for client in clients:
                with suppress(Exception):
                    await client.close()


def _open_folder(job: Job, folder: RunFolder | None) -> RunFolder:
    """Open a new folder; one that goes on is emptied: its lines are made of the replies again."""
    if folder is None:
        return RunFolder.create(job.order.results, job.name, job.manifest(), KEPT)
    folder.write_manifest(resume.note_resumed(folder.manifest, job.order.command))
    folder.clear()
    return folder


def _stopped(job: Job, folder: RunFolder | None, error: BaseException) -> BaseException:
    """Say how a run goes on that was stopped after its folder was made."""
    if folder is None:
        return error
    folder.close()
    if isinstance(error, WorkbenchError):
        return WorkbenchError(f"{error}; go on with: {job.how(folder)}")
    return Interrupted(f"stopped; every reply is kept. Go on with:\n    {job.how(folder)}")


def _open(job: Job, stack: ExitStack) -> Iterator[Client]:
    """Open a client for everybody that is asked, in the order of their names."""
    for endpoint in job.asked.endpoints:
        yield make_client(endpoint, job.choice, job.order)
    for recording in job.asked.recordings:
        yield RecordedClient(recording)
    for name in job.asked.profiles:
        yield _open_strict(name, stack)


def _open_strict(name: str, stack: ExitStack) -> Client:
    from bench.endpoint import StrictEndpoint  # noqa: PLC0415 (an extra)

    profile = profile_for(None, name)
    served = stack.enter_context(StrictEndpoint(profile))
    shape = shape_for(profile, "scripted")
    return OpenAIClient(name, "scripted", base_url=served.base_url, api_key=NO_KEY, shape=shape)


def _keep(job: Job, folder: RunFolder, at: int, client: Client) -> Client:
    """Keep every reply of a live endpoint, refusals too: in the file named, else in the folder."""
    if job.asked.mode != "live":
        return client
    endpoint, order = job.asked.endpoints[at], job.order
    path = order.record or folder.path / f"replies-{at + 1}.jsonl.gz"
    manifest = describe_recording(job.name, endpoint, job.choice, job.settings(), 1, order.notes)
    return RecordingClient(client, Recorder(path, manifest), is_settled)


async def _ask(job: Job, folder: RunFolder, at: int, client: Client) -> int:
    """Run the experiment with one client, and keep what it finds; return what is missing."""
    recordings = job.asked.recordings
    settings = job.settings(recordings[at].manifest["settings"]) if recordings else job.settings()
    run = job.experiment.run
    trials = await run(client, count=job.count, settings=settings, at_once=job.at_once)
    for trial in trials:
        folder.append_line({"endpoint": client.name, "model": client.model, **to_json(trial)})
    return sum(trial.outcome in {"failed", "not_recorded"} for trial in trials)


def _finish(job: Job, folder: RunFolder, missing: int) -> int:
    """Write the report, print its first section, and say what is missing."""
    from bench.wire_report import summarize, write_wire_report  # noqa: PLC0415 (it loads pandas)

    paths = write_wire_report(folder)
    print(summarize(folder))  # noqa: T201 (the answer)
    print("\n".join(f"report: {path}" for path in paths))  # noqa: T201
    if missing:
        tell(f"{missing} requests have no outcome: the endpoint failed, or they were not recorded")
        if job.asked.mode == "live":
            tell(f"try them again with:\n    {job.how(folder)}")
    return INCOMPLETE if missing else OK
