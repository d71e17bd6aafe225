"""Going on with a run that was broken off: which one it is, whether it is still the same.

Reads run folders and says what to type; runs nothing.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.records import RunFolder, list_runs, now, version_of
from bench.status import Interrupted
from bench.types import WorkbenchError

if TYPE_CHECKING:
    from bench.plan import Order

CHANGED = "changed since it was begun"
NEW_RUN = "or start a new run without --resume"
MOST_RESUMES = 100
"""How many of its resumptions a manifest names."""
_SHOWN = 60
"""Characters of a value that a complaint repeats."""
_TYPED = {"ab": "ab OLD NEW", "ask": "lint TARGET --ask"}
"""What is typed for an experiment, where that is not its name."""


def find_run(order: "Order", experiment: str, kept: str = "episodes.jsonl") -> RunFolder | None:
    """Return the run that `--resume` names; None where it names none. `kept`: its file of lines.

    Raises WorkbenchError where that is no run of this experiment, or was made of another run.
    """
    if order.resume is None:
        return None
    folder = RunFolder.find(order.results, order.resume)
    manifest, name = folder.manifest, folder.path.name
    kind = manifest.get("experiment", "compare")
    made_of = manifest.get("rescored")
    if made_of:
        before = made_of.get("from") if isinstance(made_of, Mapping) else None
        raise WorkbenchError(
            f"{name}: was made by rescore, and nothing is asked for it; go on with the run it was made "
            f"of: --resume {before or 'NAME'}"
        )
    if kind != experiment:
        typed = shlex.join(["--resume", str(folder.path)])
        raise WorkbenchError(
            f"{name}: is a run of {kind}; go on with: python -m bench {command_of(manifest)} {typed}, "
            f"{NEW_RUN}"
        )
    return RunFolder(folder.path, kept)


def command_of(manifest: Mapping[str, Any]) -> str:
    """Return the command that goes on with a run, without its options."""
    kind = str(manifest.get("experiment", "compare"))
    return _TYPED.get(kind, kind.replace("exercise-", "exercise ", 1))


def tell_of_unfinished(results: Path, experiment: str) -> str | None:
    """Return a line where the newest run of an experiment was broken off; None else."""
    for path in reversed(list_runs(results)):
        folder = RunFolder(path)
        try:
            manifest = folder.manifest
        except WorkbenchError:
            continue
        if manifest.get("experiment") != experiment or "rescored" in manifest:
            continue
        if manifest.get("finished") is not None or folder.held:
            return None
        return f"{path.name} is unfinished; --resume {path.name} goes on with it"
    return None


def recorded_into(folder: RunFolder | None, order: "Order") -> "Order":
    """Go on recording into the file that a run was recorded into, unless another is named."""
    told = None if folder is None else folder.manifest.get("record")
    if order.record is not None or not isinstance(told, str) or not Path(told).is_file():
        return order
    return replace(order, record=Path(told))


@contextmanager
def saying_how(folder: RunFolder, how: str) -> Iterator[None]:
    """Say how a run goes on whose report can't be written to its end, or is stopped; then let go of it."""
    try:
        yield
    except KeyboardInterrupt:
        told = "stopped; every episode is kept, only the report is not. Write it with:"
        raise Interrupted(f"{told}\n    {how}") from None
    except OSError as error:
        told = f"{folder.path}: can't be written ({error.strerror})"
        raise WorkbenchError(f"{told}; go on with: {how}") from None
    except WorkbenchError as error:
        raise WorkbenchError(f"{error}; go on with: {how}") from None
    finally:
        folder.close()


def note_resumed(manifest: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Return the manifest of a run that goes on: unfinished again, and with when and by what."""
    from bench.manifest import describe_git  # noqa: PLC0415 (it needs what this module serves)

    today = {"version": version_of("toolcall-workbench"), "git": describe_git()}
    entry = {"at": now(), "command": command, **today}
    resumed = [*manifest.get("resumed", ()), entry][-MOST_RESUMES:]
    notes = list(manifest.get("notes", ()))
    begun, since = _told_version(manifest), _told_version(today)
    if begun != since:
        notes.append(f"Begun with version {begun}, gone on with version {since}.")
    kept = {"notes": list(dict.fromkeys(notes))} if notes else {}
    return {**manifest, **kept, "finished": None, "resumed": resumed}


def _told_version(manifest: Mapping[str, Any]) -> str:
    commit = (manifest.get("git") or {}).get("commit")
    return f"{manifest.get('version')}" + (f", commit {commit[:12]}" if commit else "")


# ------------------------------------------------------------ what changed


def refuse_changes(folder: RunFolder, fresh: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse to go on where a part of the manifest is another today; say which, and how."""
    stored, fresh = folder.manifest, json.loads(json.dumps(fresh))
    changes = [
        change
        for name in names
        for change in find_changes(name, _comparable(stored, name), _comparable(fresh, name))
    ]
    if changes:
        more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
        raise WorkbenchError(f"{folder.path.name}: {changes[0]}{more}; put it back, {NEW_RUN}")


def _comparable(manifest: Mapping[str, Any], name: str) -> Any:
    """Return a part of a manifest as it may be compared: endpoints by name, whatever is recorded."""
    value = manifest.get(name)
    if name != "endpoints" or not isinstance(value, list):
        return value
    return {
        str(entry.get("name")): {key: part for key, part in entry.items() if key != "recorded"}
        for entry in value
        if isinstance(entry, Mapping)
    }


def find_changes(name: str, before: Any, after: Any) -> Iterator[str]:
    """Yield what differs between two values of JSON, each with its place, cut to a line."""
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from find_changes(f"{name}.{key}"[:200], before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list):
        gone, came = _only_in(before, after), _only_in(after, before)
        told = [
            f"without {', '.join(gone)}" if gone else "",
            f"with {', '.join(came)}" if came else "",
        ]
        yield f"{name} {CHANGED}: now {' and '.join(filter(None, told)) or 'in another order'}"
    else:
        yield f"{name} {CHANGED}: was {_shorten(before)}, is {_shorten(after)}"


def _only_in(one: Sequence[Any], other: Sequence[Any]) -> list[str]:
    """Return the first values that only one of two lists has, each cut."""
    there = {json.dumps(value) for value in other}
    alone = [_shorten(value) for value in one if json.dumps(value) not in there]
    return alone[:3] + (["…"] if len(alone) > 3 else [])


def _shorten(value: Any) -> str:
    text = "not there" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
