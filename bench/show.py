"""Print runs, recordings and single episodes for people at a terminal. Reads, never writes.

Texts of models are hostile: whatever could steer a terminal is shown as its escape.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.drivers import make_driver, wire_of
from bench.records import RunFolder, episode_from_json, list_runs
from bench.resume import command_of
from bench.terminal import printable as printable  # noqa: PLC0414 (found here, too)
from bench.types import Episode, Turn, WorkbenchError

EXPERIMENTS: Mapping[str, str] = {
    "compare": "ReAct against native calls, task by task",
    "pairing": "what becomes of calls and results that don't belong together",
    "choice": "whether tool_choice and parallel_tool_calls are honoured",
    "streaming": "whether a streamed answer is the plain one, and what it takes",
    "exercise": "exercises of the field; exercise --list names them",
}


def list_everything(results: Path, recordings: Path) -> Iterator[str]:
    """Yield one line for each experiment, recording and run."""
    yield "experiments"
    yield from (f"  {name:<12} {about}" for name, about in EXPERIMENTS.items())
    yield f"recordings in {recordings}"
    yield from _recording_lines(recordings) or ["  none"]
    yield f"runs in {results}"
    yield from [_run_line(path) for path in list_runs(results)] or ["  none"]


def _recording_lines(folder: Path) -> list[str]:
    try:
        entries = json.loads((folder / "index.json").read_text(encoding="utf-8"))["recordings"]
    except (OSError, ValueError, KeyError):
        return []
    return [
        f"  {entry['endpoint']:<28} {entry['experiment']:<12} {entry['file']}"
        + ("  (default)" if entry.get("default") else "")
        for entry in entries
    ]


def _run_line(path: Path) -> str:
    try:
        return _told_run(path, RunFolder(path).manifest)
    except (WorkbenchError, AttributeError, KeyError, TypeError) as error:
        return printable(f"  {path.name:<36} {error}")


def _told_run(path: Path, manifest: Mapping[str, Any]) -> str:
    goes_on = "" if "rescored" in manifest else f": {command_of(manifest)} --resume {path.name}"
    state = "finished" if manifest.get("finished") else f"unfinished{goes_on}"
    names = ", ".join(str(entry["name"]) for entry in manifest.get("endpoints", ()))
    return printable(f"  {path.name:<36} {manifest.get('mode', ''):<9} {names:<28} {state}")


def show_task(folder: RunFolder, task: str, *, arm: str = "", endpoint: str = "") -> Iterator[str]:
    """Yield the text of each episode of a task: messages, replies, how each was read, results."""
    wanted = make_driver(arm) if arm else None
    found, known = False, set()
    for line in folder.lines():
        names = {line["task_id"], line["pair"]}
        known |= names
        if task not in names or (endpoint and line["endpoint"] != endpoint):
            continue
        episode = episode_from_json(line)
        ours = (episode.driver, episode.dialect, episode.level)
        if wanted is None or ours == (wanted.name, wanted.dialect, wanted.level):
            found = True
            yield show_episode(episode)
    if not found:
        near = ", ".join(sorted(known)[:10])
        raise WorkbenchError(
            f"{task}: no such episode in {folder.path.name}; tasks there: {near} …"
        )


def show_episode(episode: Episode) -> str:
    """Return an episode as text."""
    way = "/".join(filter(None, (episode.driver, episode.dialect)))
    head = (
        f"=== {episode.task_id}  {way}@{episode.level}  {episode.endpoint}  trial {episode.trial}"
        f"  → {episode.stop}"
    )
    turns = [_show_turn(number, turn) for number, turn in enumerate(episode.turns, 1)]
    return printable("\n".join([head, *turns]))


def _show_turn(number: int, turn: Turn) -> str:
    lines = [f"--- request {number}"]
    lines += [line for message in turn.sent for line in _show_message(message)]
    reply, usage = turn.reply, turn.reply.usage
    facts = f"status {reply.status}, {reply.seconds:g} s"
    if usage.prompt is not None:
        facts += f", {usage.prompt} + {usage.completion} tokens"
    lines += [f"--- reply {number} ({facts})", *_indent(reply.body)]
    lines += ["--- read as", *_indent(describe_reading(turn))]
    for result in turn.results:
        word = "error" if result.error else "result"
        lines += [f"--- {word} of {result.tool}", *_indent(result.content)]
    return "\n".join(lines)


def _show_message(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content")
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    lines = [f"[{message.get('role')}]", *_indent(text)]
    if message.get("tool_calls"):
        lines += _indent(json.dumps(message["tool_calls"], ensure_ascii=False, indent=1))
    return lines


def describe_reading(turn: Turn) -> str:
    """Say what a reply was read as, with a caret at each place of its text that matters."""
    from parsers import explain  # noqa: PLC0415 (the readers take time to load)
    from parsers.wire import open_response  # noqa: PLC0415

    reading = turn.reading
    thought = f"thought: {reading.thought}\n" if reading.thought else ""
    return thought + explain(reading, open_response(wire_of(turn.reply)).text)


def _indent(text: str) -> list[str]:
    return ["    " + line for line in text.splitlines() or [""]]
