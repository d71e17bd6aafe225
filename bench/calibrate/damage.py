"""Kinds of damage: each takes a right move and says beforehand how the harness must read it.

What is said here follows from the contract of the readers, not from running them: a reply's
outcome at each level, the repairs it needs, the calls that come of it.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any

from jsonschema_rs import validator_for

from bench.calibrate.moves import (
    Move,
    Wanted,
    dump,
    message_of,
    write_action,
    write_answer,
    write_calls,
    write_entry,
    write_move,
)
from bench.clients import reply_with
from bench.types import Attempt, DriverName, Reply, Task
from parsers import Tool

CALL, ANSWER, REFUSED, ENDPOINT, LEFT = "call", "answer", "refused", "endpoint", "left"
Reads = tuple[str, str, str]
"""What a reply is at strict, hardened and rescue: `call`, `answer`, `refused`, or a failure's kind."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a move is damaged: the task, the tools on offer, the way, and what else could be called."""

    task: Task
    tools: Mapping[str, Tool]
    way: DriverName
    move: Move
    others: Sequence[Wanted]
    """Calls that the schemas accept, to tools that this task does not want."""
    rng: Random
    number: int = 0
    """Of the reply in its episode; ids are made of it."""

    @property
    def call(self) -> Wanted:
        """The move's first call."""
        return self.move.calls[0]

    def schema(self) -> Mapping[str, Any]:
        """Return the schema of the move's first call."""
        return self.tools[self.call[0]].parameters


@dataclass(frozen=True, slots=True)
class Damaged:
    """A reply, and the truth about it."""

    reply: Reply | None
    """None: a replayed run does not hold this request."""
    reads: Reads
    calls: tuple[Wanted, ...] = ()
    """The calls that can be read, where the reply can."""
    final: str | None = None
    repairs: frozenset[str] = frozenset()
    """What hardened needs to read it; rescue needs the same."""
    rescued: frozenset[str] = frozenset()
    """What rescue needs beside."""
    tries: tuple[str | None, ...] = ()
    """Names of the calls that no level can read; None: no name is to be seen."""
    kind: str = ""
    """The endpoint's failure, where it is one."""


Make = Callable[[Scene], Damaged | None]
"""None: this damage can't be done to this move."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind of damage."""

    name: str
    about: str
    make: Make = field(repr=False)
    often: int = 4
    """How often it is chosen, against the others."""


ALL_READ: Reads = (CALL, CALL, CALL)
ALL_ANSWER: Reads = (ANSWER, ANSWER, ANSWER)


def unreadable(kind: str) -> Reads:
    """Return the reads of what no level can read."""
    return (kind, kind, kind)


def whole(scene: Scene) -> Damaged:
    """Return the right move itself, undamaged."""
    reply = reply_with(write_move(scene.way, scene.move, scene.number))
    if scene.move.final is not None:
        return Damaged(reply, ALL_ANSWER, final=scene.move.final)
    if scene.way == "react" and len(scene.move.calls) > 1:
        # strict reads one action a reply
        reads = ("no_move", CALL, CALL)
        return Damaged(reply, reads, scene.move.calls, repairs=frozenset({"several_calls"}))
    return Damaged(reply, ALL_READ, scene.move.calls)


# ---------------------------------------------------------------- damage to the arguments


def _with_value(scene: Scene, value: str, finish: str | None = None) -> Reply:
    name = scene.call[0]
    written = write_calls(scene.way, [(name, value)], scene.number)
    return reply_with(written, finish_reason=finish)


def _single(scene: Scene) -> bool:
    return len(scene.move.calls) == 1


_WORDS = re.compile(r"\b(True|False|None)\b")
_PLAIN = re.compile(r"[\w ./:@+-]*")


def _is_plain(value: Any) -> bool:
    """Say whether no text in a value has a character that could be taken for syntax."""
    match value:
        case str():
            return _PLAIN.fullmatch(value) is not None
        case Mapping():
            return all(_is_plain(inner) for inner in value.values())
        case list() | tuple():
            return all(map(_is_plain, value))
    return True


def _mended(
    spoil: Callable[[str, Mapping[str, Any]], str | None],
    repair: str,
    strict: str = "bad_arguments_syntax",
) -> Make:
    """Damage the text of the arguments so that one reading is left."""

    def make(scene: Scene) -> Damaged | None:
        if not _single(scene) or not scene.call[1] or not _is_plain(scene.call[1]):
            return None
        value = spoil(dump(scene.call[1]), scene.call[1])
        if value is None:
            return None
        repairs = {repair, "python_literals"} if _WORDS.search(value) else {repair}
        reads = (strict, CALL, CALL)
        return Damaged(
            _with_value(scene, value), reads, scene.move.calls, repairs=frozenset(repairs)
        )

    return make


def _curly(text: str, _: Mapping[str, Any]) -> str:
    pieces = text.split('"')
    marks = ("“", "”")
    return pieces[0] + "".join(marks[at % 2] + piece for at, piece in enumerate(pieces[1:]))


def _unclosed(text: str, _: Mapping[str, Any]) -> str | None:
    return text[:-1] if text[-2] in '"]}' else None


def _bare_keys(text: str, values: Mapping[str, Any]) -> str:
    for name in values:
        text = text.replace(f'"{name}": ', f"{name}: ", 1)
    return text


def _literals(_: str, values: Mapping[str, Any]) -> str:
    return str(json.loads(dump(values)))


def _refused(kind: str, spoil: Callable[[Scene], str | None], finish: str | None = None) -> Make:
    """Damage the arguments so that nothing can be read."""

    def make(scene: Scene) -> Damaged | None:
        if not _single(scene):
            return None
        value = spoil(scene)
        if value is None:
            return None
        reply = _with_value(scene, value, finish)
        return Damaged(reply, unreadable(kind), tries=(scene.call[0],))

    return make


def _cut(scene: Scene) -> str | None:
    text = dump(scene.call[1])
    return text[: text.index(":") + 1] if ":" in text else None


def _broken(scene: Scene) -> str | None:
    text = dump(scene.call[1])
    return text[: text.index(":") + 1] + " 3 * 4 +}" if ":" in text else None


def _lacking(scene: Scene) -> str | None:
    needed = [name for name in scene.schema().get("required", ()) if name in scene.call[1]]
    if not needed:
        return None
    left_out = scene.rng.choice(needed)
    return dump({name: value for name, value in scene.call[1].items() if name != left_out})


def _mistyped(scene: Scene) -> str | None:
    values, properties = dict(scene.call[1]), scene.schema().get("properties", {})
    texts = [name for name in values if properties[name].get("type") == "string"]
    if not texts:
        return None
    return dump({**values, scene.rng.choice(texts): 7})


def _glued(scene: Scene) -> Damaged | None:
    """Collapse two calls of one tool into one call that holds both objects."""
    calls = scene.move.calls
    if len(calls) != 2 or calls[0][0] != calls[1][0] or calls[0][1] == calls[1][1]:
        return None
    value = "\n".join(dump(values) for _, values in calls)
    reply = _with_value(scene, value)
    return Damaged(reply, unreadable("ambiguous_calls"), tries=(calls[0][0],))


def _half_broken(scene: Scene) -> Damaged | None:
    """Break the last call of several: the others are to be run all the same."""
    calls = scene.move.calls
    if len(calls) < 2 or scene.way == "react" or not calls[-1][1]:
        return None
    broken = _broken(replace(scene, move=Move((calls[-1],))))
    if broken is None:
        return None
    texts = [*((name, dump(values)) for name, values in calls[:-1]), (calls[-1][0], broken)]
    reply = reply_with(write_calls(scene.way, texts, scene.number))
    return Damaged(reply, ALL_READ, calls[:-1], tries=(calls[-1][0],))


# ---------------------------------------------------------------- another call than the right one


def _wrong_tool(scene: Scene) -> Damaged | None:
    if not scene.move.calls and (scene.task.gold.calls or scene.task.gold.unsolvable):
        return None
    if not scene.others:
        return None
    wanted = scene.rng.choice(scene.others)
    written = write_calls(scene.way, [(wanted[0], dump(wanted[1]))], scene.number)
    return Damaged(reply_with(written), ALL_READ, (wanted,))


def _needless_try(scene: Scene) -> Damaged | None:
    """Try a tool, unreadably, where none is needed."""
    if scene.move.calls or scene.task.gold.calls or scene.task.gold.unsolvable:
        return None
    name, values = scene.rng.choice(scene.others)
    broken = _broken(replace(scene, move=Move(((name, values),))))
    if broken is None:
        return None
    written = write_calls(scene.way, [(name, broken)], scene.number)
    return Damaged(reply_with(written), unreadable("bad_arguments_syntax"), tries=(name,))


def _forbidden(scene: Scene) -> Damaged | None:
    names = [name for name in scene.task.gold.forbidden if name in scene.tools]
    wanted = [other for other in _known_calls() if other[0] in names]
    wanted = [other for other in wanted if accepts(scene.tools[other[0]], other[1])]
    if not wanted:
        return None
    call = scene.rng.choice(wanted)
    written = write_calls(scene.way, [(call[0], dump(call[1]))], scene.number)
    return Damaged(reply_with(written), ALL_READ, (call,))


def _wrong_argument(scene: Scene) -> Damaged | None:
    if not _single(scene):
        return None
    name, values = scene.call
    for key in scene.rng.sample(sorted(values), len(values)):
        wrong = {**values, key: _other_value(values[key])}
        if _is_allowed(scene.task, name, key, wrong[key]):
            continue
        if accepts(scene.tools[name], wrong):
            written = write_calls(scene.way, [(name, dump(wrong))], scene.number)
            return Damaged(reply_with(written), ALL_READ, ((name, wrong),))
    return None


def _is_allowed(task: Task, tool: str, key: str, value: Any) -> bool:
    """Say whether a gold lists this value, for any call of the tool."""
    gold = task.gold
    return any(
        value in wanted.arguments.get(key, ())
        for wanted in (*gold.calls, *gold.also)
        if wanted.tool == tool
    )


def _other_value(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1009
        case str():
            return "qqzx"
    return None


@cache
def _validator(name: str, schema: str) -> Any:
    del name
    return validator_for(json.loads(schema))


def accepts(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Say whether a tool's schema takes these arguments."""
    valid: bool = _validator(tool.name, json.dumps(tool.parameters)).is_valid(dict(arguments))
    return valid


@cache
def _known_calls() -> tuple[Wanted, ...]:
    """Return a call of every tool that any task wants, by the golds of all tasks."""
    from bench.calibrate.moves import script_of  # noqa: PLC0415 (tasks are read when needed)
    from bench.tasks import load_tasks  # noqa: PLC0415

    return tuple(call for task in load_tasks() for call in script_of(task).calls)


def other_calls(task: Task, tools: Mapping[str, Tool]) -> tuple[Wanted, ...]:
    """Return calls to offered tools that the task neither wants, allows nor forbids."""
    gold = task.gold
    named = {wanted.tool for wanted in (*gold.calls, *gold.also)} | set(gold.forbidden)
    return tuple(
        (name, values)
        for name, values in _known_calls()
        if name in tools and name not in named and accepts(tools[name], values)
    )


def _invented(scene: Scene) -> Damaged | None:
    if not _single(scene):
        return None
    name = "consult_the_oracle"
    written = write_calls(scene.way, [(name, dump(scene.call[1]))], scene.number)
    return Damaged(reply_with(written), unreadable("unknown_tool"), tries=(name,))


def _nameless(scene: Scene) -> Damaged | None:
    if not _single(scene):
        return None
    written = write_calls(scene.way, [("", dump(scene.call[1]))], scene.number)
    return Damaged(reply_with(written), unreadable("missing_tool_name"), tries=(None,))


def _marked_up(scene: Scene) -> Damaged | None:
    """Write the call as markup in the text, where only rescue looks for it."""
    if not _single(scene):
        return None
    name, values = scene.call
    body = json.dumps({"name": name, "arguments": dict(values)}, ensure_ascii=False)
    text = f"<tool_call>\n{body}\n</tool_call>"
    kind = "out_of_channel_call"
    return Damaged(
        reply_with(text),
        (kind, kind, CALL),
        scene.move.calls,
        rescued=frozenset({"out_of_channel"}),
    )


def _react_on_native(scene: Scene) -> Damaged | None:
    """Answer a native request with a ReAct step."""
    if not _single(scene) or scene.way == "react":
        return None
    name, values = scene.call
    text = "Thought: I look it up.\n" + write_action(name, dump(values))
    kind = "out_of_channel_call"
    return Damaged(
        reply_with(text),
        (kind, kind, CALL),
        scene.move.calls,
        rescued=frozenset({"out_of_channel"}),
    )


# ---------------------------------------------------------------- damage around the move


def _around(before: str, after: str, **more: Any) -> Make:
    """Put text around a ReAct step or beside a native call; the move stays readable."""

    def make(scene: Scene) -> Damaged | None:
        if not _single(scene):
            return None
        name, values = scene.call
        strict = more.get("strict", CALL)
        repairs = frozenset(more.get("repairs", ()))
        if scene.way == "react":
            text = before + str(write_calls("react", [(name, dump(values))])) + after
            return Damaged(
                reply_with(text), (strict, CALL, CALL), scene.move.calls, repairs=repairs
            )
        entry = write_entry(name, dump(values), scene.number)
        return Damaged(reply_with(message_of([entry], before + after)), ALL_READ, scene.move.calls)

    return make


def _relabelled(scene: Scene) -> Damaged | None:
    if not _single(scene) or scene.way == "native":
        return None
    name, values = scene.call
    text = f"思考：我查一下。\n行动：{name}\n行动输入：{dump(values)}"
    return Damaged(
        reply_with(text),
        ("no_move", CALL, CALL),
        scene.move.calls,
        repairs=frozenset({"label_form"}),
    )


def _dressed_name(scene: Scene) -> Damaged | None:
    if not _single(scene):
        return None
    name, values = scene.call
    react = scene.way == "react"
    dressed = f"`{name}`" if react else f"functions.{name}"
    written = write_calls(scene.way, [(dressed, dump(values))], scene.number)
    reads = ("unknown_tool", CALL, CALL)
    repairs = frozenset({"name_decoration" if react else "name_prefix"})
    return Damaged(reply_with(written), reads, scene.move.calls, repairs=repairs)


def _open_think(_: Scene) -> Damaged:
    return Damaged(
        reply_with("<think>I wonder which of the tools", finish_reason="length"),
        unreadable("truncated_output"),
    )


def _think(scene: Scene) -> Damaged | None:
    thought = "<think>\nThe user wants a fact.\n</think>\n"
    if scene.move.final is not None:
        text = thought + write_answer(scene.way, scene.move.final)
        return Damaged(reply_with(text), ALL_ANSWER, final=scene.move.final)
    return _around(thought, "")(scene)


def _no_move(scene: Scene) -> Damaged | None:
    if scene.way == "native":
        return None
    text = "Thought: I should look at this more closely before I do anything."
    return Damaged(reply_with(text), unreadable("no_move"))


def _empty(_: Scene) -> Damaged:
    return Damaged(reply_with(""), unreadable("empty_turn"))


def _as_object(scene: Scene) -> Damaged | None:
    """Give native arguments as an object, not as text: legal, no repair of the model."""
    if scene.way == "react" or not _single(scene):
        return None
    name, values = scene.call
    entry = write_entry(name, "", scene.number)
    entry["function"]["arguments"] = dict(values)
    return Damaged(reply_with(message_of([entry])), ALL_READ, scene.move.calls)


def _without_id(scene: Scene) -> Damaged | None:
    if scene.way == "react" or not _single(scene):
        return None
    entry = write_entry(scene.call[0], dump(scene.call[1]), 0)
    del entry["id"]
    return Damaged(
        reply_with(message_of([entry])),
        ALL_READ,
        scene.move.calls,
        repairs=frozenset({"id_made"}),
    )


def _streamed(scene: Scene) -> Damaged | None:
    """Send a native call as a stream, its arguments in pieces."""
    if scene.way == "react" or not _single(scene):
        return None
    entry = {**write_entry(scene.call[0], "", scene.number), "index": 0}
    text = dump(scene.call[1])
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "tool_calls": [entry]}]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": p}}]} for p in pieces]
    choices: list[dict[str, Any]] = [{"delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"delta": {}, "finish_reason": "tool_calls"})
    lines = [f"data: {json.dumps({'choices': [{'index': 0, **c}]})}\n\n" for c in choices]
    body = "".join([*lines, "data: [DONE]\n\n"])
    reply = Reply(200, {"content-type": "text/event-stream"}, body)
    return Damaged(reply, ALL_READ, scene.move.calls)


# ---------------------------------------------------------------- damage to answers


def _answer(scene: Scene) -> str | None:
    return scene.move.final


def _unlabelled(scene: Scene) -> Damaged | None:
    final = _answer(scene)
    if final is None or scene.way == "native":
        return None
    return Damaged(
        reply_with(final),
        ("no_move", ANSWER, ANSWER),
        final=final,
        repairs=frozenset({"unlabelled_final"}),
    )


def _answer_cut(scene: Scene) -> Damaged | None:
    final = _answer(scene)
    if final is None:
        return None
    reply = reply_with(write_answer(scene.way, final), finish_reason="length")
    return Damaged(reply, ALL_ANSWER, final=final, repairs=frozenset({"answer_cut"}))


def _wrong_answer(scene: Scene) -> Damaged | None:
    gold = scene.task.gold
    if _answer(scene) is None or not (gold.contains or gold.unsolvable):
        return None
    text = "83517.25 qqzx"
    return Damaged(reply_with(write_answer(scene.way, text)), ALL_ANSWER, final=text)


def _given_up(scene: Scene) -> Damaged | None:
    """Answer before everything was called."""
    if not scene.move.calls or not scene.task.gold.contains:
        return None
    text = "qqzx"
    return Damaged(reply_with(write_answer(scene.way, text)), ALL_ANSWER, final=text)


def _observed(scene: Scene) -> Damaged | None:
    """Write the tool's part too, and an answer that follows from it."""
    if scene.way == "native" or not _single(scene):
        return None
    after = '\nObservation: {"value": 4711}\nThought: I know.\nFinal Answer: 4711'
    return _around("", after, strict="no_move", repairs=("invented_observation",))(scene)


# ---------------------------------------------------------------- the endpoint


def _rejected(_: Scene) -> Damaged:
    """Let the server fail to parse the model's move: the model's reply, never a fault to retry."""
    body = json.dumps({"error": {"message": "Failed to parse tool call arguments", "code": 500}})
    reply = Reply(500, {"content-type": "application/json"}, body)
    return Damaged(reply, unreadable("server_rejected_output"), tries=(None,))


def _filtered(_: Scene) -> Damaged:
    reply = reply_with("", finish_reason="content_filter")
    return Damaged(reply, (REFUSED, REFUSED, REFUSED))


def _down(_: Scene) -> Damaged:
    reply = Reply(
        503,
        {"content-type": "application/json"},
        '{"error": {"message": "overloaded"}}',
        attempts=(Attempt("rate_limited", 503, 0.5), Attempt("rate_limited", 503, 1.0)),
    )
    return Damaged(reply, (ENDPOINT, ENDPOINT, ENDPOINT), kind="rate_limited")


def _overflow(_: Scene) -> Damaged:
    body = '{"error": {"message": "This model\'s maximum context length is 4096 tokens"}}'
    reply = Reply(400, {"content-type": "application/json"}, body)
    return Damaged(reply, (ENDPOINT, ENDPOINT, ENDPOINT), kind="context_overflow")


def _unrecorded(_: Scene) -> Damaged:
    return Damaged(None, (LEFT, LEFT, LEFT))


DAMAGES: tuple[Damage, ...] = (
    Damage(
        "fence",
        "arguments in a code fence",
        _mended(lambda t, _: f"```json\n{t}\n```", "fence_removed"),
    ),
    Damage(
        "trailing comma",
        "a comma before the last brace",
        _mended(lambda t, _: t[:-1] + ",}", "trailing_comma"),
    ),
    Damage("curly quotes", "typographic quotes as syntax", _mended(_curly, "curly_quotes")),
    Damage(
        "Python literals", "a Python dict, with single quotes", _mended(_literals, "single_quotes")
    ),
    Damage("bare keys", "keys without quotes", _mended(_bare_keys, "unquoted_keys")),
    Damage(
        "encoded twice",
        "the object as a JSON text",
        _mended(lambda t, _: json.dumps(t, ensure_ascii=False), "double_encoded"),
    ),
    Damage(
        "wrapped",
        "the object inside `arguments`",
        _mended(lambda t, _: f'{{"arguments": {t}}}', "wrapper_unwrapped"),
    ),
    Damage(
        "missing closer",
        "without the last brace",
        _mended(_unclosed, "closers_added", "truncated_output"),
    ),
    Damage("cut", "cut off in the arguments", _refused("truncated_output", _cut, "length")),
    Damage(
        "broken arguments",
        "an expression where a value should be",
        _refused("bad_arguments_syntax", _broken),
    ),
    Damage(
        "no object",
        "a list of numbers as arguments",
        _refused("bad_arguments_shape", lambda _: "[1, 2]"),
    ),
    Damage(
        "missing parameter", "without a required parameter", _refused("schema_violation", _lacking)
    ),
    Damage(
        "wrong type", "a number where a text is required", _refused("schema_violation", _mistyped)
    ),
    Damage("collapsed parallel call", "two calls' objects in one call", _glued, 40),
    Damage("one of several broken", "the last of several calls can't be read", _half_broken, 12),
    Damage("wrong tool", "a sound call to a tool that is not wanted", _wrong_tool),
    Damage("needless try", "an unreadable call where none is needed", _needless_try),
    Damage("forbidden tool", "a sound call to a tool that is forbidden", _forbidden),
    Damage("wrong argument", "a sound call with a wrong value", _wrong_argument),
    Damage("invented tool", "a tool that is not offered", _invented),
    Damage("no name", "a call without a name", _nameless),
    Damage("markup", "the call as markup in the text", _marked_up),
    Damage("ReAct text", "a ReAct step where a native call was asked for", _react_on_native),
    Damage(
        "chatter before",
        "friendly words before the move",
        _around("Sure, I am happy to help!\n", ""),
    ),
    Damage(
        "chatter after",
        "words after the move",
        _around(
            "",
            "\n\nPlease wait while I look this up.",
            strict="bad_arguments_syntax",
            repairs=("trailing_text",),
        ),
    ),
    Damage("invented observation", "the tool's result and an answer, made up", _observed),
    Damage("Chinese labels", "labels in the other language", _relabelled),
    Damage("dressed name", "the name in backticks, or with functions.", _dressed_name),
    Damage("think tag", "a think block before the move", _think, 2),
    Damage("open think tag", "cut off inside a think block", _open_think, 1),
    Damage("no move", "a thought and nothing else", _no_move, 1),
    Damage("empty", "nothing at all", _empty, 1),
    Damage("object as arguments", "native arguments as an object", _as_object, 2),
    Damage("no id", "a native call without an id", _without_id, 2),
    Damage("streamed", "a native call in pieces", _streamed, 2),
    Damage("unlabelled answer", "an answer without its label", _unlabelled),
    Damage("cut answer", "an answer that the limit cut", _answer_cut),
    Damage("wrong answer", "an answer that says something else", _wrong_answer),
    Damage("given up", "an answer before the calls", _given_up, 1),
    Damage("rejected by the server", "the server can't parse the move", _rejected, 1),
    Damage("filtered", "marked as filtered by the endpoint", _filtered, 1),
    Damage("endpoint down", "no answer after retries", _down, 1),
    Damage("not recorded", "a request that a recording does not hold", _unrecorded, 1),
    Damage("prompt too long", "the context is full", _overflow, 1),
)
