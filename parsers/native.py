"""Read an assistant message that came with native `tool_calls`: calls first, then its text.

Takes any mapping, however odd, and never raises. Names and arguments are read by the readers that
the text driver uses too; this module only knows the message's shape and what the request allowed.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parsers.arguments import read_arguments
from parsers.faults import decode_json, is_length, judge_finish
from parsers.leaks import LeakReading, find_leaks
from parsers.names import match_name
from parsers.react import parse_react
from parsers.types import (
    PRECEDENCE,
    Call,
    Dropped,
    Failure,
    FailureKind,
    Level,
    Reading,
    Repair,
    Tool,
    ToolLike,
    as_tools,
)

NATIVE_REPAIRS: dict[str, str] = {
    "answer_cut": "The token limit cut the answer short.",
    "calls_as_text": "The calls came as a text of JSON.",
    "custom_call": "The call came in the form of a custom tool.",
    "cut_after_call": "The token limit was reached behind a whole call; more may have been meant.",
    "duplicate_dropped": "A call that was given twice was taken once.",
    "finish_mismatch": "The endpoint announced calls, and none came.",
    "flat_call": "The call came without its function around it.",
    "id_coerced": "A call's id was no text.",
    "id_made": "A call had no id and was given one.",
    "id_renamed": "A call had another call's id and was given its own.",
    "legacy_function_call": "The call came in the old field function_call.",
    "null_entry": "A null among the entries was passed over.",
    "out_of_channel": "A call that stood outside its channel was taken as the move.",
    "parallel_wrapper": "The calls were unpacked from multi_tool_use.parallel.",
    "surrogate_replaced": "Half of a surrogate pair was replaced by U+FFFD.",
}
"""Every repair that can be made to a message, with a sentence for people."""

_PARALLEL = {"multi_tool_use.parallel", "functions.multi_tool_use.parallel"}
_USES = Tool("multi_tool_use.parallel", "", {"type": "object", "required": ["tool_uses"]})
_ANY = Tool("", "", {"type": "object"})
_REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_CALL_PARTS = {"tool_use", "tool_call", "function_call", "toolcall", "functioncall"}
_DEPTH = 12

_THINK = re.compile(
    r"(?<!`)(?:(?P<open><think(?:ing)?>|\[THINK\]|◁think▷)"
    r"|(?P<close></think(?:ing)?>|\[/THINK\]|◁/think▷))",
    re.IGNORECASE,
)
_LABELLED = re.compile(r"(?:action|tool|use|行动|动作|工具)[\s_*\d]{0,8}[:：]", re.IGNORECASE)
_TOKEN_BEHIND = re.compile(r"(?:<\|[^|<>\s]{1,40}\|>|<｜[^｜<>]{1,40}｜>|</s>)\Z")
_TOKEN_LENGTH = 48
_FENCE_LINES = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Content:
    """What a message says in text, parts joined and sorted."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[Mapping[Any, Any], ...] = ()
    """Parts that are calls: calls in the wrong place."""
    dropped: tuple[Dropped, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the request allowed, and how much is mended."""

    tools: tuple[Tool, ...]
    level: Level
    cut: bool
    finish: str | None
    mode: str
    names: frozenset[str] | None
    parallel: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    """A call as it came: anything may be anything."""

    name: Any
    arguments: Any
    id: str | None


@dataclass(slots=True)
class _Notes:
    """What was mended and left out on the way."""

    repairs: list[Repair] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)

    def mend(self, name: str, where: str = "tool_calls") -> None:
        self.repairs.append(Repair(name, field=where))


def parse_native(
    message: Any,
    tools: Sequence[ToolLike],
    *,
    level: Level = "hardened",
    finish_reason: str | None = None,
    tool_choice: Any = "auto",
    parallel_tool_calls: bool | None = True,
) -> Reading:
    """Read an assistant message: `content`, `tool_calls`, `reasoning_content`, `function_call`.

    Calls decide, not `finish_reason`, but for the words that say that a filter or the server
    failed. Every call of the reading has the id to echo: its own, or one made where it had none
    or a repeated one.
    """
    told = _as_message(message)
    asked = _asked(as_tools(tools), level, finish_reason, tool_choice, parallel_tool_calls)
    content = read_content(told)
    notes = _Notes(dropped=list(content.dropped))
    entries = _unpacked(_distinct(_entries(told, notes), notes), asked, notes)
    judged = _judge(told, content, finish_reason)
    if judged is not None:
        return _refuse(judged, entries, content, notes)
    if entries:
        return _read_calls(entries, content, asked, notes)
    return _read_text(content, asked, notes)


def find_refusal(message: Mapping[Any, Any]) -> Failure | None:
    """Return the failure of a message with a filled `refusal`, as field or as part."""
    return _refusal(message, read_content(message))


def _refusal(message: Mapping[Any, Any], content: Content) -> Failure | None:
    refusal = _text_of(message.get("refusal")) or content.refusal
    if not refusal.strip():
        return None
    shown = " ".join(refusal.split())[:200].rstrip(".")
    said = f"The model's refusal is marked as such: {shown}."
    return Failure("refused_or_filtered", "refusal", said, 0, "refusal")


def _judge(message: Mapping[Any, Any], content: Content, finish: str | None) -> Failure | None:
    judged = judge_finish(finish if isinstance(finish, str) else None)
    if judged is not None and judged.kind != "server_rejected_output":
        return judged
    return _refusal(message, content) or judged


def _as_message(message: Any) -> Mapping[Any, Any]:
    if isinstance(message, Mapping):
        return message
    return {"content": message} if isinstance(message, str | list | tuple) else {}


def _refuse(failure: Failure, entries: list[_Entry], content: Content, notes: _Notes) -> Reading:
    calls = [
        Call(_shown_name(one.name), None, id_, _raw(one.arguments), failure)
        for one, id_ in zip(entries, _ids(entries, notes), strict=True)
    ]
    return _reading(_thought(content.reasoning, content.text), notes, calls, failure=failure)


def _reading(
    thought: str,
    notes: _Notes,
    calls: Sequence[Call] = (),
    final: str | None = None,
    failure: Failure | None = None,
) -> Reading:
    thought = _clean(thought, notes, "reasoning_content")
    return Reading(
        thought, tuple(calls), final, failure, tuple(notes.repairs), tuple(notes.dropped)
    )


def _thought(*texts: str) -> str:
    return "\n".join(text.strip() for text in texts if text.strip())


def _clean(text: str, notes: _Notes, where: str) -> str:
    """Replace lone surrogates, which nothing can encode."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    mended = _SURROGATE.sub("\ufffd", paired)
    if mended != paired:
        notes.mend("surrogate_replaced", where)
    return mended


# ---- the message's text


def read_content(message: Mapping[Any, Any]) -> Content:
    """Join the parts of a message: text to text, thinking to reasoning; others are dropped."""
    texts: list[str] = []
    thoughts = [next((t for key in _REASONING if (t := _text_of(message.get(key))).strip()), "")]
    refusals: list[str] = []
    calls: list[Mapping[Any, Any]] = []
    dropped: list[Dropped] = []
    length = 0
    content = message.get("content")
    for part in content if isinstance(content, list | tuple) else [content]:
        kind = str(part.get("type") or "text").lower() if isinstance(part, Mapping) else "text"
        said = _text_of(part)
        if part is None:
            continue
        if "think" in kind or "reason" in kind:
            thoughts.append(said)
        elif kind == "refusal":
            refusals.append(_text_of(part.get("refusal")) or said)
        elif kind in _CALL_PARTS:
            calls.append(part)
        elif kind.endswith("text") and (said or isinstance(part, str | Mapping)):
            texts.append(said)
            length += len(said)
        else:
            dropped.append(Dropped(length, length, "content_part", "content"))
    return Content(
        "".join(texts), _thought(*thoughts), "".join(refusals), tuple(calls), tuple(dropped)
    )


def _text_of(value: Any, depth: int = _DEPTH) -> str:
    if isinstance(value, str):
        return value
    if depth == 0:
        return ""
    if isinstance(value, list | tuple):
        return "".join(_text_of(one, depth - 1) for one in value)
    if isinstance(value, Mapping):
        keys = ("text", "thinking", "reasoning", "content", "summary")
        return next((t for key in keys if (t := _text_of(value.get(key), depth - 1))), "")
    return ""


@dataclass(frozen=True, slots=True)
class _Split:
    """A text without its think blocks."""

    thought: str
    answer: str
    masked: str
    """The text with its think blocks blanked, so that positions hold."""
    opened: int | None = None
    """Where a think block begins that nothing closes."""


def _split_think(text: str) -> _Split:
    if "think" not in text.lower():
        return _Split("", text, text)
    blocks, opened = _find_blocks(text)
    kept: list[str] = []
    masked: list[str] = []
    thoughts: list[str] = []
    end = 0
    for start, inner, inner_end, stop in blocks:
        kept.append(text[end:start])
        masked += [kept[-1], " " * (stop - start)]
        thoughts.append(text[inner:inner_end])
        end = stop
    kept.append(text[end:])
    masked.append(kept[-1])
    return _Split(_thought(*thoughts), "".join(kept), "".join(masked), opened)


def _find_blocks(text: str) -> tuple[list[tuple[int, int, int, int]], int | None]:
    """Return the think blocks, each with the span of its inside, and where one stays open.

    All before a closer that nothing opened is a block, if it is the first.
    """
    blocks: list[tuple[int, int, int, int]] = []
    opened: re.Match[str] | None = None
    for tag in _THINK.finditer(text):
        if tag["open"]:
            if opened is None and _begins_block(text, tag.start()):
                opened = tag
        elif opened is not None:
            blocks.append((opened.start(), opened.end(), tag.start(), tag.end()))
            opened = None
        elif not blocks:
            blocks.append((0, 0, tag.start(), tag.end()))
    if opened is None:
        return blocks, None
    return [*blocks, (opened.start(), opened.end(), len(text), len(text))], opened.start()


def _begins_block(text: str, position: int) -> bool:
    """Say whether a tag stands where a block begins; in the middle of a line it is prose."""
    before = text[max(0, position - 200) : position].rstrip(" \t")
    return not before or before[-1] in "\r\n>"


# ---- the calls


def _entries(message: Mapping[Any, Any], notes: _Notes) -> list[_Entry]:
    found = [_entry(one, notes) for one in _listed(message.get("tool_calls"), notes)]
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping) and legacy:
        one = _entry({"function": legacy, "id": legacy.get("id")}, notes)
        if _blank(one.name) and _blank(one.arguments) and found:
            return found
        notes.mend("legacy_function_call", "function_call")
        if not any(one.name == other.name and _same(one, other) for other in found):
            found.append(one)
        else:
            notes.mend("duplicate_dropped", "function_call")
    return found


def _listed(value: Any, notes: _Notes) -> list[Any]:
    if isinstance(value, str) and value.strip()[:1] in {"[", "{"}:
        value = _decoded(value, value)
        notes.mend("calls_as_text")
    if isinstance(value, Mapping):
        whole = any(key in value for key in ("function", "name", "id", "arguments"))
        value = [value] if whole else list(value.values())
    if isinstance(value, str):
        return [value] if value.strip() else []
    if not isinstance(value, list | tuple):
        return []
    if any(one is None for one in value):
        notes.mend("null_entry")
    return [one for one in value if one is not None]


def _entry(one: Any, notes: _Notes) -> _Entry:
    if isinstance(one, str):
        one = _decoded(one, {"arguments": one})
    if not isinstance(one, Mapping):
        return _Entry(None, one, None)
    inner = _inner(one, notes)
    name = inner.get("name")
    name = one.get("name") if _blank(name) else name
    return _Entry(name, _given(inner, one), _id(one, notes))


def _inner(one: Mapping[Any, Any], notes: _Notes) -> Mapping[Any, Any]:
    for key in ("function", "custom"):
        inner = one.get(key)
        if isinstance(inner, str):
            inner = _decoded(inner, {"name": inner})
        if isinstance(inner, Mapping):
            if key == "custom":
                notes.mend("custom_call")
            return inner
    notes.mend("flat_call")
    return one


def _given(*holders: Mapping[Any, Any]) -> Any:
    for key in ("arguments", "input", "parameters", "args"):
        for holder in holders:
            if holder.get(key) is not None:
                return holder[key]
    return None


def _id(one: Mapping[Any, Any], notes: _Notes) -> str | None:
    for key in ("id", "tool_call_id", "call_id"):
        given = one.get(key)
        if isinstance(given, str) and given.strip():
            return given
        if isinstance(given, int | float) and not isinstance(given, bool):
            notes.mend("id_coerced")
            return str(given)
    return None


def _decoded(text: str, otherwise: Any) -> Any:
    try:
        value = decode_json(text)
    except ValueError:
        return otherwise
    return value if isinstance(value, Mapping | list) else otherwise


def _blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _raw(arguments: Any) -> str:
    """Return arguments as text: as written, or encoded where they came as a value."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return _encoded(arguments) or ""


def _encoded(value: Any, *, ordered: bool = False) -> str | None:
    """Encode a value that came decoded; None where nothing can (too deep, no JSON)."""
    if isinstance(value, Mapping) and not isinstance(value, dict):
        value = dict(value)
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=ordered)
    except (TypeError, ValueError, RecursionError):
        return None


def _shown_name(name: Any) -> str:
    return name if isinstance(name, str) else "" if name is None else _raw(name)[:200]


def _distinct(entries: list[_Entry], notes: _Notes) -> list[_Entry]:
    """Drop a call that is given twice: equal in id, name and arguments."""
    alike = Counter((one.id, _shown_name(one.name)) for one in entries)
    seen: set[tuple[str | None, str, str]] = set()
    kept: list[_Entry] = []
    for one in entries:
        name = _shown_name(one.name)
        if alike[one.id, name] > 1:
            key = (one.id, name, _plain(one.arguments))
            if key in seen:
                notes.mend("duplicate_dropped")
                continue
            seen.add(key)
        kept.append(one)
    return kept


def _same(one: _Entry, other: _Entry) -> bool:
    return _plain(one.arguments) == _plain(other.arguments)


def _plain(arguments: Any) -> str:
    """Return arguments in one spelling, whatever form, order and spacing they came in."""
    if isinstance(arguments, str):
        arguments = _decoded(arguments, arguments)
    if isinstance(arguments, str):
        return arguments.strip()
    return _encoded(arguments, ordered=True) or _raw(arguments)


def _unpacked(entries: list[_Entry], asked: _Asked, notes: _Notes) -> list[_Entry]:
    """Unpack `multi_tool_use.parallel`: a model's habit, so not at level strict."""
    offered = {tool.name for tool in asked.tools}
    out: list[_Entry] = []
    for one in entries:
        name = one.name.strip() if isinstance(one.name, str) else ""
        uses = None
        if name in _PARALLEL and name not in offered and asked.level != "strict":
            read = read_arguments(_raw(one.arguments), _USES, level=asked.level)
            uses = (read.arguments or {}).get("tool_uses")
        if isinstance(uses, list) and uses:
            notes.mend("parallel_wrapper")
            out += [_use(use, one.id if n == 0 else None) for n, use in enumerate(uses)]
        else:
            out.append(one)
    return out


def _use(use: Any, id_: str | None) -> _Entry:
    if not isinstance(use, Mapping):
        return _Entry(None, use, id_)
    name = next((use[k] for k in ("recipient_name", "name", "tool_name") if use.get(k)), None)
    return _Entry(
        name, _given({**use, "arguments": use.get("parameters", use.get("arguments"))}), id_
    )


def _ids(entries: Sequence[_Entry], notes: _Notes, said: str = "") -> list[str]:
    """Return an id for each call: its own; made where it has none, or another call has it.

    `said` is what the message says beside its calls: it makes the ids of two turns differ.
    """
    told = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
    taken: set[str] = {one.id for one in entries if one.id is not None}
    seen: set[str] = set()
    ids: list[str] = []
    for n, one in enumerate(entries):
        id_ = one.id
        if id_ is None or id_ in seen:
            notes.mend("id_made" if id_ is None else "id_renamed", f"calls[{n}].id")
            id_ = _made_id(one, f"{n}\0{told}", taken)
        taken.add(id_)
        seen.add(id_)
        ids.append(id_)
    return ids


def _made_id(one: _Entry, place: str, taken: set[str]) -> str:
    """Make an id from what the call says, so that the same message gives the same id."""
    salt = 0
    while True:
        seed = f"{place}\0{salt}\0{_shown_name(one.name)}\0{_raw(one.arguments)}"
        digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()
        if (id_ := f"call_{digest[:12]}") not in taken:
            return id_
        salt += 1


def _read_calls(entries: list[_Entry], content: Content, asked: _Asked, notes: _Notes) -> Reading:
    ids = _ids(entries, notes, content.reasoning + content.text)
    calls = [
        _read_call(entry, n, id_, asked, notes, last=n == len(entries) - 1)
        for n, (entry, id_) in enumerate(zip(entries, ids, strict=True))
    ]
    if asked.cut and calls[-1].failure is None:
        notes.mend("cut_after_call", "finish_reason")
    if content.calls:
        notes.dropped.append(Dropped(0, 0, "call_part", "content"))
    split = _split_think(content.text)
    reasoning = _without_leaks(content.reasoning, "reasoning_content", asked, notes)
    said = _without_leaks(split.masked, "content", asked, notes)
    return _decide(calls, _thought(reasoning, split.thought, said), asked, notes)


def _decide(calls: list[Call], thought: str, asked: _Asked, notes: _Notes) -> Reading:
    failure = _worst(calls)
    violation = _violation(calls, asked)
    if violation is not None and not (failure and failure.kind == "truncated_output"):
        calls = [replace(call, failure=call.failure or violation) for call in calls]
        failure = violation
    return _reading(thought, notes, calls, failure=failure)


def _worst(calls: Sequence[Call]) -> Failure | None:
    """Return the failure of calls none of which can be run."""
    failures = [call.failure for call in calls]
    if not failures or None in failures:
        return None
    return min((f for f in failures if f is not None), key=lambda f: PRECEDENCE.index(f.kind))


def _read_call(
    entry: _Entry, n: int, id_: str, asked: _Asked, notes: _Notes, *, last: bool
) -> Call:
    raw = _raw(entry.arguments)
    cut = asked.cut and last
    name = _shown_name(entry.name)
    where = f"calls[{n}]"
    tool, failure = _find_tool(name, where, asked, notes)
    if cut and not raw.strip():
        failure = _failure(
            "truncated_output", f"The call {name[:60]!r} is cut before its arguments", where
        )
    if tool is None or failure is not None:
        failure = _cut_text(raw, cut, where) or failure
        return Call(name, None, id_, raw, failure)
    text = "{}" if entry.arguments is None else raw
    if not raw and not isinstance(entry.arguments, str | None):
        said = "The arguments cannot be written as JSON"
        odd = _failure("bad_arguments_syntax", said, f"{where}.arguments", "too_deep", 0)
        return Call(tool.name, None, id_, raw, odd)
    read = read_arguments(
        text,
        tool,
        level=asked.level,
        finish_reason=_finish(asked, last),
        offered=[one.name for one in asked.tools],
        field=f"{where}.arguments",
    )
    notes.repairs += read.repairs
    notes.dropped += read.dropped
    return Call(tool.name, read.arguments, id_, raw, read.failure)


def _finish(asked: _Asked, last: bool) -> str | None:
    if asked.cut:
        return "length" if last else None
    return asked.finish


def _find_tool(
    name: str, where: str, asked: _Asked, notes: _Notes
) -> tuple[Tool | None, Failure | None]:
    if not name.strip():
        said = f"{where} has no name."
        return None, Failure("missing_tool_name", None, said, 0, f"{where}.name")
    named = match_name(name, asked.tools, where="native", level=asked.level, field=f"{where}.name")
    notes.repairs += named.repairs
    return named.tool, named.failure


def _cut_text(raw: str, cut: bool, where: str) -> Failure | None:
    """Say whether arguments of a tool that is not known are an unfinished text."""
    if not raw.strip():
        return None
    finish = "length" if cut else None
    read = read_arguments(
        raw, _ANY, level="strict", finish_reason=finish, field=f"{where}.arguments"
    )
    cut_off = read.failure is not None and read.failure.kind == "truncated_output"
    return read.failure if cut_off else None


def _failure(
    kind: FailureKind, said: str, where: str, detail: str | None = None, at: int | None = None
) -> Failure:
    place = where if at is None else f"{where}, position {at}"
    return Failure(kind, detail, f"{said} ({place}).", at, where)


# ---- what the request allowed


def _asked(
    tools: tuple[Tool, ...], level: Level, finish: Any, choice: Any, parallel: bool | None
) -> _Asked:
    finish = finish if isinstance(finish, str) else None
    mode, names = _choice(choice, tools)
    return _Asked(tools, level, is_length(finish), finish, mode, names, parallel is not False)


def _choice(choice: Any, tools: tuple[Tool, ...]) -> tuple[str, frozenset[str] | None]:
    """Return the mode (auto, none, required) and the only names allowed, if they are told."""
    if isinstance(choice, str):
        word = {"any": "required"}.get(choice, choice)
        if word in {"auto", "none", "required"}:
            return word, None
        named = word in {tool.name for tool in tools}
        return ("required", frozenset({word})) if named else ("auto", None)
    if not isinstance(choice, Mapping):
        return "auto", None
    if choice.get("type") == "allowed_tools":
        inner = choice.get("allowed_tools")
        inner = inner if isinstance(inner, Mapping) else choice
        listed = inner.get("tools")
        names = [_named(one) for one in listed] if isinstance(listed, list | tuple) else []
        mode = "required" if inner.get("mode") in {"required", "any"} else "auto"
        return mode, frozenset(name for name in names if name)
    name = _named(choice)
    if name:
        return "required", frozenset({name})
    return (
        _choice(choice.get("type"), ()) if isinstance(choice.get("type"), str) else ("auto", None)
    )


def _named(choice: Any) -> str:
    if not isinstance(choice, Mapping):
        return choice if isinstance(choice, str) else ""
    for holder in (choice.get("function"), choice.get("custom"), choice):
        if isinstance(holder, Mapping) and isinstance(holder.get("name"), str):
            return str(holder["name"])
    return ""


def _violation(calls: Sequence[Call], asked: _Asked) -> Failure | None:
    if not calls:
        if asked.mode != "required":
            return None
        what = "one of the named tools" if asked.names else "a tool"
        return _failure(
            "choice_violation", f"tool_choice asked for {what}, no call came", "message", "required"
        )
    if asked.mode == "none":
        return _failure(
            "choice_violation", "tool_choice was none, yet a call came", "tool_calls", "none"
        )
    if asked.names is not None:
        other = next((c.name for c in calls if c.name.strip() and c.name not in asked.names), None)
        if other is not None:
            said = f"tool_choice did not allow {other!r}"
            return _failure("choice_violation", said, "tool_calls", "named")
    if not asked.parallel and len(calls) > 1:
        said = f"parallel_tool_calls was off, yet {len(calls)} calls came"
        return _failure("choice_violation", said, "tool_calls", "parallel")
    return None


# ---- no calls: the text


def _read_text(content: Content, asked: _Asked, notes: _Notes) -> Reading:
    split = _split_think(content.text)
    thought = _thought(content.reasoning, split.thought)
    found = _out_of_channel(content, split, asked)
    if found is not None:
        return _read_leak(found, content, split, asked, notes)
    answer = _answer(split, notes)
    if split.opened is not None:
        said = "The think block is not closed"
        cut = _failure("truncated_output", said, "content", at=split.opened)
        return _reading(thought, notes, failure=cut)
    return _answered(answer, thought, asked, notes)


def _answered(answer: str, thought: str, asked: _Asked, notes: _Notes) -> Reading:
    if asked.cut and (not answer or asked.mode == "required"):
        said = "The reply reached the token limit before a call or an answer"
        cut = _failure("truncated_output", said, "content", at=len(answer))
        return _reading(thought, notes, failure=cut)
    violation = _violation((), asked)
    if violation is not None:
        if answer:
            notes.dropped.append(Dropped(0, len(answer), "answer_not_allowed", "content"))
        return _reading(thought, notes, failure=violation)
    if not answer:
        said = "The reply has neither a call nor an answer"
        return _reading(thought, notes, failure=_failure("empty_turn", said, "content"))
    if asked.cut:
        notes.mend("answer_cut", "content")
    elif (asked.finish or "").lower() in {"tool_calls", "function_call", "tool_use"}:
        notes.mend("finish_mismatch", "finish_reason")
    return _reading(thought, notes, final=_clean(answer, notes, "content"))


def _answer(split: _Split, notes: _Notes) -> str:
    """Return the answer without what a server or a fence left behind it, and white space around."""
    text = split.answer.rstrip()
    end = _without_tokens(text)
    fences = _FENCE_LINES.findall(text, 0, end) if text.endswith(("```", "~~~"), 0, end) else []
    reason = "template_token"
    if len(fences) % 2 and not fences[-1].strip("`~ \t"):
        end -= len(fences[-1])
        reason = "unpaired_fence"
    if end < len(text):
        last = len(split.masked.rstrip())
        notes.dropped.append(Dropped(last - (len(text) - end), last, reason, "content"))
    return text[:end].strip()


def _without_tokens(text: str) -> int:
    """Return where the template tokens begin that end a text."""
    end = len(text)
    while token := _TOKEN_BEHIND.search(text, max(0, end - _TOKEN_LENGTH), end):
        if token[0] == "</s>" and "<s>" in text:
            break
        end = token.start()
        while end and text[end - 1].isspace():
            end -= 1
    return end


# ---- calls outside their channel


@dataclass(frozen=True, slots=True)
class _Leak:
    """Calls found where none belong."""

    detail: str
    place: str
    start: int
    end: int
    calls: tuple[Call, ...]
    failure: Failure | None
    repairs: tuple[Repair, ...] = ()


def _out_of_channel(content: Content, split: _Split, asked: _Asked) -> _Leak | None:
    if content.calls:
        return _in_parts(content.calls, asked)
    leak = _in_text(split.masked, "content", "content", asked) or _in_steps(split, asked)
    if leak is not None or split.answer.strip():
        return leak
    leak = _in_text(content.reasoning, "reasoning_content", "reasoning", asked)
    if leak is None and split.thought and not (asked.cut and split.opened is not None):
        leak = _in_text(content.text, "content", "reasoning", asked)
    return leak


def _leak_level(asked: _Asked) -> Level:
    """Return the level of the search: what is found below rescue never depends on the level."""
    return "rescue" if asked.level == "rescue" else "hardened"


def _in_text(text: str, place: str, detail: str, asked: _Asked) -> _Leak | None:
    if not text.strip():
        return None
    found: LeakReading | None = find_leaks(
        text, asked.tools, level=_leak_level(asked), field=place, finish_reason=asked.finish
    )
    if found is None:
        return None
    return _Leak(detail, place, found.start, found.end, found.calls, found.failure, found.repairs)


def _in_steps(split: _Split, asked: _Asked) -> _Leak | None:
    """Find a ReAct step with an offered tool: only where labels stand is the text read as steps."""
    text = split.masked
    labelled = _LABELLED.search(text)
    if labelled is None:
        return None
    finish = "length" if asked.cut else asked.finish
    read = parse_react(text, asked.tools, level="hardened", finish_reason=finish)
    offered = {tool.name for tool in asked.tools}
    cut = read.failure is not None and read.failure.kind == "truncated_output"
    if not (cut and asked.cut) and not any(call.name in offered for call in read.calls):
        return None
    repairs = tuple(replace(one, field="content") for one in read.repairs)
    calls = tuple(
        replace(call, failure=replace(call.failure, field="content") if call.failure else None)
        for call in read.calls
    )
    failure = replace(read.failure, field="content") if read.failure else None
    return _Leak("text", "content", labelled.start(), len(text), calls, failure, repairs)


def _in_parts(parts: Iterable[Mapping[Any, Any]], asked: _Asked) -> _Leak:
    notes = _Notes()
    entries = [_entry(part, notes) for part in parts]
    ids = _ids(entries, _Notes())
    calls = tuple(
        _read_call(one, n, id_, asked, notes, last=False)
        for n, (one, id_) in enumerate(zip(entries, ids, strict=True))
    )
    return _Leak("content", "content", 0, 0, calls, _worst(calls), tuple(notes.repairs))


def _read_leak(
    leak: _Leak, content: Content, split: _Split, asked: _Asked, notes: _Notes
) -> Reading:
    thought = _thought(content.reasoning, split.thought)
    offered = {tool.name for tool in asked.tools}
    named = any(call.name in offered for call in leak.calls)
    if asked.level != "rescue":
        failure = leak.failure
        if failure is None or (named and failure.kind != "truncated_output"):
            failure = _leak_failure(leak)
        return _reading(_thought(thought, split.answer), notes, failure=failure)
    notes.mend("out_of_channel", leak.place)
    notes.repairs += leak.repairs
    if leak.place == "content" and leak.detail == "content":
        thought = _thought(thought, split.masked[: leak.start], split.masked[leak.end :])
    calls = _with_ids(leak.calls)
    if leak.failure is not None and not any(call.failure is None for call in calls):
        quoted = leak.failure.kind == "out_of_channel_call"
        return _reading(thought, notes, () if quoted else calls, failure=leak.failure)
    return _decide(calls, thought, asked, notes)


def _with_ids(calls: Sequence[Call]) -> list[Call]:
    entries = [_Entry(call.name, call.raw, call.id) for call in calls]
    ids = _ids(entries, _Notes())
    return [replace(call, id=id_) for call, id_ in zip(calls, ids, strict=True)]


def _leak_failure(leak: _Leak) -> Failure:
    names = ", ".join(call.name for call in leak.calls[:4])
    where = {"content": "the text", "reasoning": "the reasoning", "text": "a text step"}
    said = f"A call ({names}) stands in {where[leak.detail]}, not in tool_calls"
    return _failure("out_of_channel_call", said, leak.place, leak.detail, leak.start)


def _without_leaks(text: str, place: str, asked: _Asked, notes: _Notes) -> str:
    """Drop call-like text beside real calls: it is no second call and no commentary."""
    leak = _in_text(text, place, "content", asked)
    if leak is None:
        return text
    notes.dropped.append(Dropped(leak.start, leak.end, "call_text", place))
    return f"{text[: leak.start].rstrip()}\n{text[leak.end :].lstrip()}"
