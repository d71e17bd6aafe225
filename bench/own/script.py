"""Play replies that somebody wrote by hand, where no model is asked. Nothing here is a model's.

One line for each task (`script.jsonl`): its replies in order, the same for every way of asking, or
with `driver` those of one way. A reply is `{"call": TOOL, "arguments": {…}}`, `{"calls": [those]}`,
`{"answer": TEXT}`, written in the form that was asked for; `{"text": TEXT}` and `{"message": {…}}`
are given as they stand, so that a script can also play mistakes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.clients import Answer, ScriptedClient
from bench.own.files import read_text
from bench.types import Request, Task, WorkbenchError

NAME = "scripted"
MODEL = "no model"

_FORM = '{"task": ID, "replies": [{"call": TOOL, "arguments": {…}}, {"answer": TEXT}]}'
_LINE_KEYS = {"task", "driver", "replies", "note"}
_WAYS = ("react", "native")

Key = tuple[str, str]
"""Task, and way of asking ("" for both)."""


def read_script(path: Path, tasks: Sequence[Task]) -> ScriptedClient:
    """Return a client that plays a script; every task must have replies in it.

    Raises WorkbenchError with file, line and fix.
    """
    replies: dict[Key, Sequence[Mapping[str, Any]]] = {}
    for at, line in enumerate(read_text(path, "--script").split("\n"), 1):
        if line.strip():
            key, told = _read_line(line, f"{path}:{at}")
            if key in replies:
                raise WorkbenchError(f"{path}:{at}: {key[0]} is there already; drop one")
            replies[key] = told
    for task in tasks:
        if any(not _find(replies, task.id, way) for way in _WAYS):
            raise WorkbenchError(f"{path}:1: no replies for task {task.id}; add {_FORM}")
    return ScriptedClient(_Player(replies), NAME, MODEL)


def _read_line(line: str, place: str) -> tuple[Key, Sequence[Mapping[str, Any]]]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as problem:
        said = getattr(problem, "msg", problem)
        raise WorkbenchError(f"{place}: is not JSON ({said}); write {_FORM}") from None
    if not isinstance(row, dict) or not isinstance(row.get("task"), str) or set(row) - _LINE_KEYS:
        raise WorkbenchError(f"{place}: is no line of a script; write {_FORM}")
    way, told = row.get("driver", ""), row.get("replies")
    if way not in ("", *_WAYS):
        raise WorkbenchError(f"{place}: driver {way!r}; write react or native, or leave it out")
    if not isinstance(told, list) or not told:
        raise WorkbenchError(f"{place}: has no replies; write {_FORM}")
    for number, reply in enumerate(told, 1):
        if not _is_reply(reply):
            raise WorkbenchError(f"{place}: reply {number} can't be played; write {_FORM}")
    return (row["task"], way), told


def _is_reply(reply: Any) -> bool:
    match reply:
        case {"call": str(), **rest}:
            return set(rest) <= {"arguments", "thought"} and isinstance(
                rest.get("arguments", {}), dict
            )
        case {"calls": [_, *_] as calls, **rest}:
            return set(rest) <= {"thought"} and all(
                isinstance(c, dict) and "call" in c and _is_reply(c) for c in calls
            )
        case {"answer": str(), **rest}:
            return set(rest) <= {"thought"}
        case {"text": str(), **rest}:
            return not rest
        case {"message": dict(), **rest}:
            return not rest
    return False


def _find(
    replies: Mapping[Key, Sequence[Mapping[str, Any]]], task: str, way: str
) -> Sequence[Mapping[str, Any]]:
    return replies.get((task, way)) or replies.get((task, "")) or ()


class _Player:
    """Gives the reply of a step, in the form that was asked for."""

    def __init__(self, replies: Mapping[Key, Sequence[Mapping[str, Any]]]) -> None:
        self._replies = replies

    def __call__(self, request: Request) -> Answer | None:
        """Return the answer; None where the script has no further reply."""
        way, _, rest = request.key.driver.partition("@")[0].partition("/")
        told = _find(self._replies, request.key.task_id, way)
        if request.key.step >= len(told):
            return None
        reply = told[request.key.step]
        if "text" in reply or "message" in reply:
            message: Answer = reply["text"] if "text" in reply else reply["message"]
            return message
        return _as_message(reply) if way == "native" else _as_text(reply, rest or "json")


def _calls(reply: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    listed: Iterable[Mapping[str, Any]] = reply.get("calls", [reply])
    return listed


def _as_message(reply: Mapping[str, Any]) -> dict[str, Any]:
    if "answer" in reply:
        return {"role": "assistant", "content": reply["answer"]}
    calls = [
        {
            "id": f"call_{at}",
            "type": "function",
            "function": {
                "name": call["call"],
                "arguments": json.dumps(call.get("arguments", {}), ensure_ascii=False),
            },
        }
        for at, call in enumerate(_calls(reply), 1)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _as_text(reply: Mapping[str, Any], dialect: str) -> str:
    thought = f"Thought: {reply.get('thought', 'I go on.')}\n"
    if "answer" in reply:
        return f"{thought}Final Answer: {reply['answer']}"
    return thought + "\n".join(_as_action(call, dialect) for call in _calls(reply))


def _as_action(call: Mapping[str, Any], dialect: str) -> str:
    name, arguments = call["call"], call.get("arguments", {})
    told = json.dumps(arguments, ensure_ascii=False)
    if dialect == "call":
        given = (f"{key}={json.dumps(v, ensure_ascii=False)}" for key, v in arguments.items())
        return f"Action: {name}({', '.join(given)})"
    if dialect == "bracket":
        return f"Action: {name}[{_bracketed(arguments, told)}]"
    return f"Action: {name}\nAction Input: {told}"


def _bracketed(arguments: Mapping[str, Any], told: str) -> str:
    """Write plain text where there is one argument that is a text, as that form asks."""
    values = list(arguments.values())
    if not values:
        return ""
    return values[0] if len(values) == 1 and isinstance(values[0], str) else told
