"""From a choice to every episode that will be run: tasks, drivers, clients, and what they cost.

The user's mistakes are found here, before anything is asked or written.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import choice as chosen
from bench.choice import Choice, Endpoint, profile_of
from bench.clients import OpenAIClient, Patience, RecordedClient, RecordingClient
from bench.drivers import NativeDriver, ReactDriver, label
from bench.loop import DEFAULT_SETTINGS
from bench.manifest import LIMITED, describe_machine
from bench.paths import find_datasets
from bench.recordings import Recorder, Recording
from bench.records import FORMAT, now
from bench.run import Job, bundled_toolbox, plan_jobs
from bench.types import Client, Lang, Task, WorkbenchError

REPLIES = 2.5
"""Replies an episode takes on average, for estimates before a run."""
COMPLETION = 120
"""Completion tokens of a reply on average, for estimates before a run."""
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

    @property
    def live(self) -> bool:
        """Whether a model is asked."""
        return bool(self.endpoints)

    @property
    def concurrency(self) -> int:
        """How many episodes run at once."""
        return self.choice.concurrency or (LIVE_AT_ONCE if self.live else RECORDED_AT_ONCE)

    def outline(self) -> str:
        """Say what will be run, and what it will cost where it costs."""
        arms = ", ".join(label(driver) for driver in self.drivers)
        where = ", ".join(client.name for client in self.clients)
        units = len({task.pair for task in self.tasks})
        text = (
            f"{len(self.jobs)} episodes: {len(self.tasks)} tasks ({units} different questions) "
            f"× {arms} on {where}"
        )
        if self.choice.limit is not None:
            text += f"\n{LIMITED}"
        if not self.live:
            return text + " (recorded replies; no model is asked)"
        prompt, completion = estimate(self)
        return text + (
            f"\nabout {round(len(self.jobs) * REPLIES)} requests (at most "
            f"{len(self.jobs) * self.choice.steps}), {_thousands(prompt)} prompt tokens and "
            f"{_thousands(completion)} completion tokens; a rough estimate\n{_sureness(units)}"
        )


def _sureness(units: int) -> str:
    """Say what a comparison over so many questions can find, before it is paid for."""
    from bench.stats import FEW, smallest_detectable  # noqa: PLC0415 (scipy takes time to load)

    if units < FEW:
        return f"fewer than {FEW} different questions: counts only, no verdict"
    points = 100 * smallest_detectable(units)
    return f"a difference of about {points:.0f} points between two ways would be found (power 80 %)"


def make_plan(choice: Choice, order: Order) -> Plan:
    """Check a choice and work out every episode; the user's mistakes are found here."""
    drivers = tuple(choice.make_drivers())
    endpoints = chosen.find_endpoints(choice, os.environ, order.api_key)
    if order.record is not None and len(endpoints) != 1:
        raise WorkbenchError("--record: one live endpoint is needed; name it with --model")
    if choice.stop_early and not choice.stream:
        raise WorkbenchError("--stop-early: only a streamed reply can be broken off; add --stream")
    _check_allowed(choice)
    recordings = () if endpoints else _recordings(choice)
    tasks = _load_tasks(choice, recordings)
    for task in tasks:
        for variant in choice.variant:
            bundled_toolbox(task, variant)
    settings = choice.settings(_base_settings(recordings))
    trials = choice.trials or max([r.manifest.get("trials", 1) for r in recordings], default=1)
    clients = _clients(endpoints, recordings, choice, settings, trials, order)
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
    )


def _load_tasks(choice: Choice, recordings: Sequence[Recording]) -> Sequence[Task]:
    """Read the chosen tasks; a limit counts those that can be replayed."""
    from bench.tasks import choose_tasks, load_tasks  # noqa: PLC0415 (reading them takes time)

    named = load_tasks(categories=choice.category, langs=choice.lang, ids=choice.task)
    tasks = choose_tasks(_keep_recorded(named, recordings), limit=choice.limit)
    if choice.toolset is not None:
        tasks = tuple(replace(task, toolset=choice.toolset) for task in tasks)
    # The same tools one after the other: what their prompts share, an endpoint caches.
    return sorted(tasks, key=lambda task: (task.toolset, task.lang, task.id))


def _check_allowed(choice: Choice) -> None:
    from bench.tools import list_toolsets  # noqa: PLC0415 (pydantic takes time to load)

    known = list_toolsets()["all"]
    for name in choice.allow:
        if name not in known:
            raise WorkbenchError(f"--allow {name}: no such tool; known: {', '.join(known)}")


def _recordings(choice: Choice) -> tuple[Recording, ...]:
    if choice.replay:
        return tuple(Recording.read(Path(file)) for file in choice.replay)
    folder = find_datasets() / "recordings"
    return tuple(chosen.find_recordings(folder, [e for e in choice.endpoint if "=" not in e]))


def _keep_recorded(tasks: Sequence[Task], recordings: Sequence[Recording]) -> Sequence[Task]:
    """Leave out what a recording does not hold, such as one that was made of a part of the tasks."""
    for recording in recordings:
        held = {step.task_id for step in recording.steps.values()}
        tasks = [task for task in tasks if task.id in held]
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


def _clients(
    endpoints: Sequence[Endpoint],
    recordings: Sequence[Recording],
    choice: Choice,
    settings: Mapping[str, Any],
    trials: int,
    order: Order,
) -> tuple[Client, ...]:
    if recordings:
        return tuple(RecordedClient(recording) for recording in recordings)
    clients: list[Client] = []
    for endpoint in endpoints:
        client: Client = make_client(endpoint, choice, order)
        if order.record is not None and not order.dry_run:
            manifest = describe_recording(
                "compare", endpoint, choice, settings, trials, order.notes
            )
            client = RecordingClient(client, Recorder(order.record, manifest))
        clients.append(client)
    return tuple(clients)


def make_client(
    endpoint: Endpoint, choice: Choice, order: Order, patience: Patience = PATIENCE
) -> OpenAIClient:
    """Make the client of a live endpoint, which asks in its profile's form."""
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
        "settings": dict(settings),
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
    sizes: dict[tuple[str, Lang, str], float] = {}
    total = 0.0
    for job in plan.jobs:
        key = (job.task.toolset, job.task.lang, label(job.driver))
        if key not in sizes:
            tools = bundled_toolbox(job.task, job.variant).tools
            messages = job.driver.open(job.task, tools)
            sizes[key] = count_tokens(
                json.dumps([messages, job.driver.options(tools)], ensure_ascii=False)
            )
        total += sizes[key]
    growth = 1.25  # each further request repeats the history with what came since
    return round(total * REPLIES * growth), round(len(plan.jobs) * REPLIES * COMPLETION)


def count_tokens(text: str) -> float:
    """Estimate tokens: four ASCII characters each, or one and a half of others."""
    plain = sum(character.isascii() for character in text)
    return plain / 4 + (len(text) - plain) / 1.5


def _thousands(number: int) -> str:
    return f"{number:,}" if number < 1_000_000 else f"{number / 1e6:.1f} million"
