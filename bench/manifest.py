"""What a reader of a run needs in order to trust or repeat it. Describes; decides nothing."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import choice as chosen
from bench import secret
from bench.choice import Choice, Endpoint, profile_of
from bench.drivers import label
from bench.paths import find_datasets, is_checkout
from bench.recordings import Recording
from bench.records import FORMAT, now, to_json, version_of
from bench.types import Driver, Task

if TYPE_CHECKING:
    from bench.own import Own
    from bench.plan import Plan
    from bench.profiles import Profile

LIMITED = "Only a part of the tasks: the first pair of every category, then the second, and so on."
SCRIPTED = "SCRIPTED:"
"""What the note of a run begins with in which no model had a part; every page begins with it."""
_PACKAGES = ("openai", "pydantic", "regex", "jsonschema-rs", "scipy", "pandas", "matplotlib")


def make_manifest(plan: "Plan", command: str) -> dict[str, Any]:
    """Write down all that a reader of the run needs in order to trust or repeat it."""
    return {
        **describe_run(plan.experiment, plan.mode, command),
        **describe_machines(plan.recordings),
        "endpoints": [
            *describe_endpoints(plan.endpoints, plan.recordings, plan.choice),
            *_scripted_entry(plan),
        ],
        "settings": secret.mask_options(plan.settings),
        "timeout": plan.choice.timeout,
        "stream": plan.choice.stream,
        "budget": {"steps": plan.choice.steps, "corrections": plan.choice.corrections},
        "drivers": [label(driver) for driver in plan.drivers],
        "stop": stop_words(plan),
        "example": plan.choice.example,
        "stop_early": plan.choice.stop_early,
        "variants": list(plan.choice.variant),
        "trials": plan.trials,
        "concurrency": plan.concurrency,
        "tasks": [task.id for task in plan.tasks],
        "golds": hash_tasks(plan.tasks),
        "datasets": hash_datasets(find_datasets()),
        "own": describe_own(plan.own, plan.choice),
        "choice": chosen.to_manifest(plan.choice, plan.endpoints),
        "notes": list(_notes(plan)),
    }


def describe_own(own: "Own", choice: Choice) -> dict[str, Any]:
    """Describe what the user brought along, every file by its SHA-256; `{}` where nothing."""
    if not own and choice.config is None:
        return {}
    return {
        "files": dict(own.files),
        "config": {} if choice.config is None else {choice.config: hash_file(Path(choice.config))},
        "tools": [entry.tool.name for entry in own.entries],
        "changes": [entry.tool.name for entry in own.entries if entry.changes],
        "tool_timeout": own.seconds,
        "variants": list(own.variants),
    }


def scripted_note(path: str) -> str:
    """Say of a run that no model had a part in it."""
    return (
        f"{SCRIPTED} no model was asked. Every reply was written by hand, in {path}; the figures "
        "show how the workbench works, and nothing about any model."
    )


def _scripted_entry(plan: "Plan") -> Iterator[dict[str, Any]]:
    if plan.own.script is not None:
        for client in plan.clients:
            yield {"name": client.name, "model": client.model, "host": None}


def describe_run(experiment: str, mode: str, command: str) -> dict[str, Any]:
    """Say what is run, when, by which command, and with which versions."""
    return {
        "format": FORMAT,
        "experiment": experiment,
        "mode": mode,
        "started": now(),
        "finished": None,
        "command": command,
        "version": version_of("toolcall-workbench"),
        "git": describe_git(),
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in _PACKAGES},
    }


def describe_endpoints(
    endpoints: Sequence[Endpoint], recordings: Sequence[Recording], choice: Choice
) -> list[dict[str, Any]]:
    """Describe each endpoint asked, with its profile, and each recording replayed."""
    live = [_live_entry(endpoint, choice) for endpoint in endpoints]
    return live + [_recorded_entry(recording) for recording in recordings]


def _live_entry(endpoint: Endpoint, choice: Choice) -> dict[str, Any]:
    from bench.profiles import profile_record  # noqa: PLC0415 (only live runs need it)

    return {
        "name": endpoint.name,
        "model": endpoint.model,
        "host": endpoint.host,
        "profile": profile_record(profile_of(endpoint, choice)),
    }


def _notes(plan: "Plan") -> Iterator[str]:
    """Yield what a reader of the report must know of how it was run."""
    from bench.profiles import left_out  # noqa: PLC0415 (only live runs need it)

    if plan.own.script is not None:
        yield scripted_note(str(plan.own.script))
    free = sum(any(call.any_arguments for call in task.gold.calls) for task in plan.tasks)
    if free:
        yield (
            f"{free} of {len(plan.tasks)} tasks name no expected arguments: there any arguments count "
            "as acceptable, so success and argument accuracy say less."
        )
    if plan.choice.limit is not None:
        yield LIMITED
    for recording in plan.recordings:
        name = recording.manifest.get("endpoint", recording.path.name)
        held = len({step.task_id for step in recording.steps.values()})
        yield f"The recording of {name} holds {held} tasks; only recorded ones are replayed."
        if seconds := recording.manifest.get("notes", {}).get("seconds"):
            yield f"Seconds of {name}: {seconds}."
    for endpoint in plan.endpoints:
        for driver in plan.drivers:
            options = {**plan.settings, **driver.options(())}
            names = left_out(options, profile_of(endpoint, plan.choice), endpoint.model)
            if names:
                yield f"{endpoint.name} takes no {', '.join(names)}: not sent ({label(driver)})."
    for name, words in stop_words(plan).items():
        told = "; ".join(f"{arm} {_quoted(sent)}" for arm, sent in words.items())
        yield f"Stop words sent to {name}: {told}."


def _quoted(words: Sequence[str]) -> str:
    return " ".join(json.dumps(word, ensure_ascii=False) for word in words) or "none"


def stop_words(plan: "Plan") -> dict[str, dict[str, list[str]]]:
    """Return for each endpoint and driver the stop words that go out, or that went out."""
    known = {e.name: (profile_of(e, plan.choice), e.model) for e in plan.endpoints}
    known |= {str(r.manifest["endpoint"]): _recorded_profile(r) for r in plan.recordings}
    return {
        name: {label(driver): _stop_words(driver, *found) for driver in plan.drivers}
        for name, found in known.items()
    }


def _recorded_profile(recording: Recording) -> tuple["Profile", str]:
    from bench.profiles import profile_for  # noqa: PLC0415 (only runs need it)

    manifest = recording.manifest
    model, host = str(manifest["model"]), f"http://{manifest.get('host', '')}"
    return profile_for(host, manifest.get("profile"), model=model), model


def _stop_words(driver: Driver, profile: "Profile", model: str) -> list[str]:
    from bench.profiles import adapt_options  # noqa: PLC0415 (only runs need it)

    return list(adapt_options(driver.options(()), profile, model).get("stop", ()))


def _recorded_entry(recording: Recording) -> dict[str, Any]:
    manifest = recording.manifest
    return {
        "name": manifest["endpoint"],
        "model": manifest["model"],
        "host": manifest.get("host"),
        "recording": recording.path.name,
        "sha256": hash_file(recording.path),
        "recorded": manifest,
    }


def hash_tasks(tasks: Iterable[Task]) -> list[str]:
    """Return `ID:HASH` of each task with all that is asked and wanted, so that runs can be compared."""
    return [
        f"{task.id}:{hashlib.sha256(_canonical(task)).hexdigest()[:12]}"
        for task in sorted(tasks, key=lambda task: task.id)
    ]


def _canonical(task: Task) -> bytes:
    return json.dumps(to_json(task), sort_keys=True, default=sorted).encode()


def hash_datasets(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every task and tool file, by its path in the data folder."""
    files = [path for part in ("tasks", "tools") for path in (folder / part).glob("*.json*")]
    return {path.relative_to(folder).as_posix(): hash_file(path) for path in sorted(files)}


def hash_file(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_machines(recordings: Sequence[Recording]) -> dict[str, Any]:
    """Name the machine that was waited for: of a replay, the recorded one."""
    here = describe_machine()
    recorded = dict.fromkeys(str(r.manifest.get("machine")) for r in recordings)
    if not recordings:
        return {"machine": here}
    return {"machine": "; ".join(recorded), "replayed_on": here}


def describe_machine() -> str:
    """Name the processor, its cores and the system."""
    return f"{_cpu()}, {os.cpu_count()} cores, {platform.platform()}"


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def describe_git() -> dict[str, Any] | None:
    """Name the commit of a checkout, and whether files differ from it; None elsewhere."""
    if not is_checkout():
        return None
    commit, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain")
    return None if commit is None else {"commit": commit, "changed": bool(changes)}


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *words],  # noqa: S607 (the user's own git)
            cwd=find_datasets().parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
