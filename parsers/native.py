"""Read an assistant message that came with native `tool_calls`: calls first, then its text.

Takes any mapping, however odd, and never raises. Names and arguments are read by the readers that
the text driver uses too; this module only knows which of them is asked, and what the request
allowed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from parsers.arguments import read_arguments
from parsers.content import Content, Split, join_thoughts, read_content, refusal_in, split_think
from parsers.entries import (
    Entry,
    Notes,
    drop_repeats,
    list_entries,
    make_ids,
    read_entry,
    show_name,
    spell,
    unpack_parallel,
)
from parsers.faults import is_length, judge_finish
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

_ANY = Tool("", "", {"type": "object"})
_LABELLED = re.compile(r"(?:action|tool|use|行动|动作|工具)[\s_*\d]{0,8}[:：]", re.IGNORECASE)
_UNSEEN = " \t\r\n\u200b\u200c\u200d\u2060\ufeff"
_TOKEN_BEHIND = re.compile(r"(?:<\|[^|<>\s]{1,40}\|>|<｜[^｜<>]{1,40}｜>|</s>)\Z")
_TOKEN_LENGTH = 48
_FENCE_LINES = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_SURROGATE = re.compile("[\ud800-\udfff]")


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

    >>> from parsers import Tool, parse_native
    >>> price = Tool("get_price", "Get a price.", {"type": "object", "properties": {}})
    >>> function = {"name": "get_price", "arguments": '{"product": "pen"}'}
    >>> message = {"tool_calls": [{"id": "a", "type": "function", "function": function}]}
    >>> [(call.id, call.arguments) for call in parse_native(message, [price]).calls]
    [('a', {'product': 'pen'})]
    """
    told = _as_message(message)
    asked = _asked(as_tools(tools), level, finish_reason, tool_choice, parallel_tool_calls)
    content = read_content(told)
    notes = Notes(dropped=list(content.dropped))
    entries = drop_repeats(list_entries(told, notes), notes)
    entries = unpack_parallel(entries, asked.tools, asked.level, notes)
    judged = _judge(told, content, finish_reason)
    if judged is not None:
        return _refuse(judged, entries, content, notes)
    if entries:
        return _read_calls(entries, content, asked, notes)
    return _read_text(content, asked, notes)


def _judge(message: Mapping[Any, Any], content: Content, finish: str | None) -> Failure | None:
    judged = judge_finish(finish if isinstance(finish, str) else None)
    if judged is not None and judged.kind != "server_rejected_output":
        return judged
    return refusal_in(message, content) or judged


def _as_message(message: Any) -> Mapping[Any, Any]:
    if isinstance(message, Mapping):
        return message
    return {"content": message} if isinstance(message, str | list | tuple) else {}


def _refuse(failure: Failure, entries: list[Entry], content: Content, notes: Notes) -> Reading:
    calls = [
        Call(show_name(one.name), None, id_, spell(one.arguments), failure)
        for one, id_ in zip(entries, make_ids(entries, notes), strict=True)
    ]
    return _reading(join_thoughts(content.reasoning, content.text), notes, calls, failure=failure)


def _reading(
    thought: str,
    notes: Notes,
    calls: Sequence[Call] = (),
    final: str | None = None,
    failure: Failure | None = None,
) -> Reading:
    thought = _clean(thought, notes, "reasoning_content")
    return Reading(
        thought, tuple(calls), final, failure, tuple(notes.repairs), tuple(notes.dropped)
    )


def _clean(text: str, notes: Notes, where: str) -> str:
    """Replace lone surrogates, which nothing can encode."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    mended = _SURROGATE.sub("\ufffd", paired)
    if mended != paired:
        notes.mend("surrogate_replaced", where)
    return mended


# ---- the calls


def _read_calls(entries: list[Entry], content: Content, asked: _Asked, notes: Notes) -> Reading:
    ids = make_ids(entries, notes, content.reasoning + content.text)
    calls = [
        _read_call(entry, n, id_, asked, notes, last=n == len(entries) - 1)
        for n, (entry, id_) in enumerate(zip(entries, ids, strict=True))
    ]
    if asked.cut and calls[-1].failure is None:
        notes.mend("cut_after_call", "finish_reason")
    if content.calls:
        notes.dropped.append(Dropped(0, 0, "call_part", "content"))
    split = split_think(content.text)
    reasoning = _without_leaks(content.reasoning, "reasoning_content", asked, notes)
    said = _without_leaks(split.masked, "content", asked, notes)
    return _decide(calls, join_thoughts(reasoning, split.thought, said), asked, notes)


def _decide(calls: list[Call], thought: str, asked: _Asked, notes: Notes) -> Reading:
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


def _read_call(entry: Entry, n: int, id_: str, asked: _Asked, notes: Notes, *, last: bool) -> Call:
    raw = spell(entry.arguments)
    cut = asked.cut and last
    name = show_name(entry.name)
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
    name: str, where: str, asked: _Asked, notes: Notes
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


def _read_text(content: Content, asked: _Asked, notes: Notes) -> Reading:
    split = split_think(content.text)
    thought = join_thoughts(content.reasoning, split.thought)
    found = _out_of_channel(content, split, asked)
    if found is not None:
        return _read_leak(found, content, split, asked, notes)
    answer = _answer(split, notes)
    if split.opened is not None:
        said = "The think block is not closed"
        cut = _failure("truncated_output", said, "content", at=split.opened)
        return _reading(thought, notes, failure=cut)
    return _answered(answer, thought, asked, notes)


def _answered(answer: str, thought: str, asked: _Asked, notes: Notes) -> Reading:
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


def _answer(split: Split, notes: Notes) -> str:
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
    answer = text[:end].strip()
    return answer if answer.strip(_UNSEEN) else ""


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


def _out_of_channel(content: Content, split: Split, asked: _Asked) -> _Leak | None:
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


def _in_steps(split: Split, asked: _Asked) -> _Leak | None:
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
    notes = Notes()
    entries = [read_entry(part, notes) for part in parts]
    ids = make_ids(entries, Notes())
    calls = tuple(
        _read_call(one, n, id_, asked, notes, last=False)
        for n, (one, id_) in enumerate(zip(entries, ids, strict=True))
    )
    return _Leak("content", "content", 0, 0, calls, _worst(calls), tuple(notes.repairs))


def _read_leak(leak: _Leak, content: Content, split: Split, asked: _Asked, notes: Notes) -> Reading:
    thought = join_thoughts(content.reasoning, split.thought)
    offered = {tool.name for tool in asked.tools}
    named = any(call.name in offered for call in leak.calls)
    if asked.level != "rescue":
        failure = leak.failure
        if failure is None or (named and failure.kind != "truncated_output"):
            failure = _leak_failure(leak)
        return _reading(join_thoughts(thought, split.answer), notes, failure=failure)
    notes.mend("out_of_channel", leak.place)
    notes.repairs += leak.repairs
    if leak.place == "content" and leak.detail == "content":
        thought = join_thoughts(thought, split.masked[: leak.start], split.masked[leak.end :])
    calls = _with_ids(leak.calls)
    if leak.failure is not None and not any(call.failure is None for call in calls):
        quoted = leak.failure.kind == "out_of_channel_call"
        return _reading(thought, notes, () if quoted else calls, failure=leak.failure)
    return _decide(calls, thought, asked, notes)


def _with_ids(calls: Sequence[Call]) -> list[Call]:
    entries = [Entry(call.name, call.raw, call.id) for call in calls]
    ids = make_ids(entries, Notes())
    return [replace(call, id=id_) for call, id_ in zip(calls, ids, strict=True)]


def _leak_failure(leak: _Leak) -> Failure:
    names = ", ".join(call.name for call in leak.calls[:4])
    where = {"content": "the text", "reasoning": "the reasoning", "text": "a text step"}
    said = f"A call ({names}) stands in {where[leak.detail]}, not in tool_calls"
    return _failure("out_of_channel_call", said, leak.place, leak.detail, leak.start)


def _without_leaks(text: str, place: str, asked: _Asked, notes: Notes) -> str:
    """Drop call-like text beside real calls: it is no second call and no commentary."""
    leak = _in_text(text, place, "content", asked)
    if leak is None:
        return text
    notes.dropped.append(Dropped(leak.start, leak.end, "call_text", place))
    return f"{text[: leak.start].rstrip()}\n{text[leak.end :].lstrip()}"
