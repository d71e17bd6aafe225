"""From a choice to every episode that will be run: tasks, drivers, clients, and what they cost.

The user's mistakes are found here, before anything is asked or written.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench import choice as chosen
from bench import secret
from bench.choice import Choice, Endpoint, profile_of
from bench.clients import OpenAIClient, Patience, RecordedClient, RecordingClient
from bench.drivers import NativeDriver, ReactDriver, label
from bench.limits import COMPLETION, Gate, Spending, Tokens, count_tokens, make_caps
from bench.loop import DEFAULT_SETTINGS
from bench.manifest import LIMITED, describe_machine, scripted_note
from bench.own import Own, load_own
from bench.paths import find_datasets
from bench.recordings import Recorder, Recording
from bench.records import FORMAT, now
from bench.run import Job, ToolboxFor, bundled_toolbox, plan_jobs
from bench.types import Client, Lang, Task, WorkbenchError

REPLIES = 2.5
"""Replies an episode takes on average, for estimates before a run."""
RECORDED_AT_ONCE = 32
LIVE_AT_ONCE = 4
PATIENCE = Patience()


@dataclass(frozen=True, slots=True)
class Order:
    """What is said of a run beside the choice: it changes nothing in what is measured."""

    results: Path
    yes: bool = False
    dry_run: bool = False
    record: Path | None = None
    notes: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    api_key: str | None = None
    resume: str | None = None
    probe_timeout: float = 10.0
    command: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is decided before the first request."""

    choice: Choice
    tasks: tuple[Task, ...]
    drivers: tuple[ReactDriver | NativeDriver, ...]
    endpoints: tuple[Endpoint, ...]
    recordings: tuple[Recording, ...]
    clients: tuple[Client, ...]
    settings: Mapping[str, Any]
    trials: int
    jobs: tuple[Job, ...]
    experiment: str = "compare"
    toolbox_for: ToolboxFor = bundled_toolbox
    own: Own = field(default_factory=Own)
    spending: Spending = field(default_factory=Spending)
    """What the run uses, against its limits."""

    @property
    def live(self) -> bool:
        """Whether a model is asked."""
        return bool(self.endpoints)

    @property
    def mode(self) -> str:
        """Where replies come from: live, recorded, or scripted, which is no model at all."""
        return "live" if self.live else "scripted" if self.own.script else "recorded"

    @property
    def concurrency(self) -> int:
        """How many episodes run at once."""
        return self.choice.concurrency or (
            # own tools are run as often at once as a live run would
            LIVE_AT_ONCE if self.live or self.own else RECORDED_AT_ONCE
        )

    def outline(self) -> str:
        """Say what will be run, and what it will cost where it costs."""
        arms = ", ".join(label(driver) for driver in self.drivers)
        where = ", ".join(client.name for client in self.clients)
        units = len({task.pair for task in self.tasks})
        several = len(self.choice.variant)
        told = f" × {several} descriptions" if several > 1 else ""
        text = (
            f"{len(self.jobs)} episodes: {len(self.tasks)} tasks ({units} different questions) "
            f"× {arms}{told} on {where}"
        )
        if self.choice.limit is not None:
            text += f"\n{LIMITED}"
        if self.own.script is not None:
            return f"{scripted_note(str(self.own.script))}\n{text}"
        if not self.live:
            return text + " (recorded replies; no model is asked)"
        prompt, completion = estimate(self)
        return text + (
            f"\nabout {round(len(self.jobs) * REPLIES)} requests (at most "
            f"{len(self.jobs) * self.choice.steps}), {_thousands(prompt)} prompt tokens and "
            f"{_thousands(completion)} completion tokens; a rough estimate\n"
            + "".join(f"{line}\n" for line in self.spending.foresee(len(self.jobs)))
            + _sureness(units, len(self.tasks) * self.trials / units)
        )

    def expect(self) -> None:
        """Let the budget know what an episode takes by the estimate."""
        if self.live and self.spending.caps:
            self.spending.expect(Tokens(*estimate(self)), len(self.jobs))


def _sureness(units: int, observations: float) -> str:
    """Say what a comparison over so many questions can find, before it is paid for.

    `observations` of a question and way: its languages times trials.
    """
    from bench.stats import FEW, foresee  # noqa: PLC0415 (scipy takes time to load)

    if units < FEW:
        return f"fewer than {FEW} different questions: counts only, no verdict"
    points = 100 * foresee(units, observations)
    return f"a difference of about {points:.0f} points between two ways would be found (power 80 %)"


def make_plan(
    choice: Choice,
    order: Order,
    *,
    experiment: str = "compare",
    tasks: Sequence[Task] = (),
    toolbox_for: ToolboxFor = bundled_toolbox,
) -> Plan:
    """Check a choice and work out every episode; the user's mistakes are found here.

    `tasks` to choose from: the bundled ones unless given, or named by the choice.
    """
    own = load_own(choice)
    tasks = tasks or own.tasks
    if own and toolbox_for is bundled_toolbox:
        toolbox_for = own.toolbox_for()
    drivers = tuple(choice.make_drivers())
    endpoints = chosen.find_endpoints(choice, os.environ, order.api_key)
    if order.record is not None and len(endpoints) != 1:
        raise WorkbenchError("--record: one live endpoint is needed; name it with --model")
    if choice.stop_early and not choice.stream:
        raise WorkbenchError("--stop-early: only a streamed reply can be broken off; add --stream")
    _check_allowed(choice, own)
    recordings = () if endpoints or own.script else _recordings(choice, experiment)
    tasks = _load_tasks(choice, recordings, tasks)
    for task in tasks:
        for variant in choice.variant:
            toolbox_for(task, variant)
    for name in (*(task.id for task in tasks), *(endpoint.name for endpoint in endpoints)):
        secret.refuse_in_name(name)
    settings = choice.settings(_base_settings(recordings))
    trials = choice.trials or max([r.manifest.get("trials", 1) for r in recordings], default=1)
    spending = _spending(choice)
    clients = _scripted(own, tasks) or _clients(endpoints, recordings, choice, order, spending)
    jobs = tuple(plan_jobs(tasks, drivers, clients, variants=choice.variant, trials=trials))
    return Plan(
        choice=choice,
        tasks=tuple(tasks),
        drivers=drivers,
        endpoints=endpoints,
        recordings=recordings,
        clients=clients,
        settings=settings,
        trials=trials,
        jobs=jobs,
        experiment=experiment,
        toolbox_for=toolbox_for,
        own=own,
        spending=spending,
    )


def _spending(choice: Choice) -> Spending:
    if choice.budget_money is not None and choice.price is None:
        raise WorkbenchError(
            "--budget-money: needs --price PROMPT,COMPLETION (of a million tokens)"
        )
    caps = make_caps(choice.budget_tokens, choice.budget_money, choice.price)
    return Spending(caps, seconds=choice.time_limit)


def _load_tasks(
    choice: Choice, recordings: Sequence[Recording], own: Sequence[Task]
) -> Sequence[Task]:
    """Read the chosen tasks; a limit counts those that can be replayed."""
    from bench.tasks import choose_tasks, load_tasks  # noqa: PLC0415 (reading them takes time)

    named = choose_tasks(
        own or load_tasks(), categories=choice.category, langs=choice.lang, ids=choice.task
    )
    tasks = choose_tasks(_keep_recorded(named, recordings), limit=choice.limit)
    if choice.toolset is not None:
        tasks = tuple(replace(task, toolset=choice.toolset) for task in tasks)
    # The same tools one after the other: what their prompts share, an endpoint caches.
    return sorted(tasks, key=lambda task: (task.toolset, task.lang, task.id))


def _check_allowed(choice: Choice, own: Own) -> None:
    from bench.tools import list_toolsets  # noqa: PLC0415 (pydantic takes time to load)

    known = (*(entry.tool.name for entry in own.entries), *list_toolsets()["all"])
    for name in choice.allow:
        if name not in known:
            raise WorkbenchError(f"--allow {name}: no such tool; known: {', '.join(known)}")


def _recordings(choice: Choice, experiment: str) -> tuple[Recording, ...]:
    if choice.replay:
        return tuple(Recording.read(Path(file)) for file in choice.replay)
    if choice.tasks:
        raise WorkbenchError(
            f"--tasks {choice.tasks}: no recording holds your tasks; name a model with --model, a "
            "recording of yours with --replay, or replies of yours with --script"
        )
    folder = find_datasets() / "recordings"
    named = [e for e in choice.endpoint if "=" not in e]
    return tuple(chosen.find_recordings(folder, named, experiment))


def _keep_recorded(tasks: Sequence[Task], recordings: Sequence[Recording]) -> Sequence[Task]:
    """Leave out what a recording does not hold, such as one that was made of a part of the tasks.

    Where tasks ask the same with the same tools, what is recorded of one may answer all.
    """
    for recording in recordings:
        held = {step.task_id for step in recording.steps.values()}
        asked = {(task.toolset, task.lang, task.question) for task in tasks if task.id in held}
        tasks = [task for task in tasks if (task.toolset, task.lang, task.question) in asked]
        if not tasks:
            raise WorkbenchError(
                f"{recording.path}: none of the chosen tasks is recorded there; choose others, or "
                "name a model with --model"
            )
    return tasks


def _base_settings(recordings: Sequence[Recording]) -> Mapping[str, Any]:
    """Take the settings that were recorded: a request is found only as it was sent."""
    found = [recording.manifest.get("settings", {}) for recording in recordings]
    if any(settings != found[0] for settings in found):
        raise WorkbenchError(
            "the recordings were made with different settings; choose with --endpoint"
        )
    return found[0] if found else DEFAULT_SETTINGS


def _scripted(own: Own, tasks: Sequence[Task]) -> tuple[Client, ...]:
    """Return the client that plays a script, where one is named."""
    if own.script is None:
        return ()
    from bench.own.script import read_script  # noqa: PLC0415 (only scripted runs need it)

    return (read_script(own.script, tasks),)


def _clients(
    endpoints: Sequence[Endpoint],
    recordings: Sequence[Recording],
    choice: Choice,
    order: Order,
    spending: Spending,
) -> tuple[Client, ...]:
    if recordings:
        return tuple(RecordedClient(recording) for recording in recordings)
    return tuple(make_client(endpoint, choice, order, spending=spending) for endpoint in endpoints)


def record(plan: Plan, order: Order) -> Plan:
    """Let what the endpoint answers be kept in the file that is named, if one is."""
    if order.record is None or not plan.live:
        return plan
    [endpoint], [client] = plan.endpoints, plan.clients
    manifest = describe_recording(
        plan.experiment, endpoint, plan.choice, plan.settings, plan.trials, order.notes
    )
    manifest |= {"own": dict(plan.own.files)} if plan.own else {}
    kept = RecordingClient(client, Recorder(order.record, manifest))
    jobs = tuple(replace(job, client=kept) for job in plan.jobs)
    return replace(plan, clients=(kept,), jobs=jobs)


def make_client(
    endpoint: Endpoint,
    choice: Choice,
    order: Order,
    patience: Patience = PATIENCE,
    spending: Spending | None = None,
) -> OpenAIClient:
    """Make the client of a live endpoint, which asks in its profile's form and within its limits."""
    from bench.profiles import shape_for  # noqa: PLC0415 (only live runs need it)

    return OpenAIClient(
        endpoint.name,
        endpoint.model,
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        stream=choice.stream,
        timeout=choice.timeout,
        patience=patience,
        shape=shape_for(profile_of(endpoint, choice), endpoint.model),
        headers=dict(_pair(text, "--header") for text in order.headers),
        gate=Gate(rpm=choice.rpm, tpm=choice.tpm, spending=spending),
    )


def describe_recording(
    experiment: str,
    endpoint: Endpoint,
    choice: Choice,
    settings: Mapping[str, Any],
    trials: int,
    notes: Sequence[str],
) -> dict[str, Any]:
    """Give the first line of a recording."""
    return {
        "format": FORMAT,
        "experiment": experiment,
        "endpoint": endpoint.name,
        "model": endpoint.model,
        "host": endpoint.host,
        "profile": profile_of(endpoint, choice).name,
        "settings": secret.mask_options(settings),
        "trials": trials,
        "started": now(),
        "machine": describe_machine(),
        "notes": dict(_pair(text, "--note") for text in notes),
    }


def _pair(text: str, flag: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise WorkbenchError(f"{flag} {key}: write it KEY=VALUE")
    return key.strip(), value.strip()


def estimate(plan: Plan) -> tuple[int, int]:
    """Return roughly how many prompt and completion tokens the plan's requests will take."""
    sizes: dict[tuple[str, Lang, str, str], float] = {}
    total = 0.0
    for job in plan.jobs:
        key = (job.task.toolset, job.task.lang, label(job.driver), job.variant)
        if key not in sizes:
            tools = plan.toolbox_for(job.task, job.variant).tools
            messages = job.driver.open(job.task, tools)
            sizes[key] = count_tokens(
                json.dumps([messages, job.driver.options(tools)], ensure_ascii=False)
            )
        total += sizes[key]
    growth = 1.25  # each further request repeats the history with what came since
    return round(total * REPLIES * growth), round(len(plan.jobs) * REPLIES * COMPLETION)


def _thousands(number: int) -> str:
    return f"{number:,}" if number < 1_000_000 else f"{number / 1e6:.1f} million"
