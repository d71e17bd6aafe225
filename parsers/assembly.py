"""Put the pieces of a stream together into one assistant message.

Mends what the transport did (index, ids, null and whole pieces); may not judge names or arguments.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from parsers.events import DONE
from parsers.faults import decode_json, find_complaint, judge_finish
from parsers.types import Repair
from parsers.usage import Usage, as_usage, count_tokens

_OF_A_CALL = ("function", "name", "id", "arguments", "index", "type", "custom", "input")
_OF_AN_ENTRY = {"name", "index", "id", "type", "function"}
_JOINED = ("content", "reasoning_content", "reasoning", "thinking", "refusal")


@dataclass(frozen=True, slots=True)
class Assembled:
    """A stream put together: a message as `parse_native` takes it, and how the stream ended."""

    message: dict[str, Any]
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    fingerprint: str | None = None
    done: bool = False
    """`[DONE]` was seen."""
    choices: bool = False
    """At least one chunk held a choice."""
    broken: bool = False
    """A piece of the answer came that cannot be decoded."""
    error: Any = None
    """The body of the error event that ended the stream."""
    repairs: tuple[Repair, ...] = ()

    @property
    def complete(self) -> bool:
        """Say whether the stream told that it had ended."""
        return self.done or self.finish_reason is not None


@dataclass(slots=True)
class _Slot:
    """One call of a stream while it grows."""

    index: int | None
    id: Any = None
    name: str = ""
    odd_name: Any = None
    """What stood in the name's place and is no text."""
    odd: Any = None
    """An entry that is no object."""
    pieces: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    """Where, without an index, an entry named the slot again: pieces[mark:] may be a new call."""
    entry: dict[str, Any] = field(default_factory=dict)
    function: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Answer:
    """One choice of a stream while it grows."""

    texts: dict[str, list[Any]] = field(default_factory=dict)
    whole: dict[str, list[Any]] = field(default_factory=dict)
    """The same fields where a chunk carried `message` in place of `delta`."""
    other: dict[str, Any] = field(default_factory=dict)
    slots: list[_Slot] = field(default_factory=list)
    newest: dict[int, _Slot] = field(default_factory=dict)
    by_id: dict[Any, _Slot] = field(default_factory=dict)
    legacy: _Slot | None = None
    spelled: list[str] = field(default_factory=list)
    """The pieces of calls that came as a text of JSON."""
    legacy_spelled: list[str] = field(default_factory=list)
    by_delta: bool = False
    again: "_Answer | None" = None
    """The calls of a whole message that came behind those of deltas."""
    finish: str | None = None
    repairs: dict[str, None] = field(default_factory=dict)

    def take(self, choice: Mapping[Any, Any]) -> None:
        delta = choice.get("delta")
        message = choice.get("message")
        if isinstance(message, Mapping) and not (isinstance(delta, Mapping) and delta):
            self.repairs["message_in_chunk"] = None
            self._take_delta(message, self.whole)
        elif isinstance(delta, Mapping):
            self._take_delta(delta, self.texts)
        elif isinstance(choice.get("text"), str):
            self._take_delta({"content": choice["text"]}, self.texts)
        self.finish = later_finish(self.finish, finish_word(choice))

    def _take_delta(self, delta: Mapping[Any, Any], texts: dict[str, list[Any]]) -> None:
        for key, value in delta.items():
            if key in _JOINED:
                if value is not None and value != "":
                    texts.setdefault(key, []).append(value)
            elif key == "tool_calls":
                self._taker(whole=texts is self.whole).take_entries(value)
            elif key == "function_call":
                self._take_legacy(value)
            elif value is not None:
                self.other[str(key)] = _grown(self.other.get(str(key)), value)

    def _taker(self, *, whole: bool) -> "_Answer":
        """Return who takes calls: those of a whole message stand apart where deltas brought some."""
        if not whole:
            self.by_delta = True
            return self
        if not (self.by_delta and self.slots):
            return self
        self.again = self.again or _Answer()
        return self.again

    def take_entries(self, value: Any) -> None:
        if isinstance(value, str):
            self.spelled.append(value)
            return
        for one in as_entries(value):
            self._take_entry(one)

    def _take_legacy(self, value: Any) -> None:
        if isinstance(value, str):
            self.legacy_spelled.append(value)
        if isinstance(value, Mapping) and value:
            self.legacy = self.legacy or _Slot(None)
            _grow(self.legacy, {"function": value})

    def _take_entry(self, one: Any) -> None:
        if not isinstance(one, Mapping):
            self.repairs["null_entry" if one is None else "odd_entry"] = None
            if one is not None:
                self.slots.append(_Slot(None, odd=one))
            return
        slot = self._slot(one)
        _grow(slot, one)
        if slot.id is not None:
            self.by_id.setdefault(_key(slot.id), slot)

    def _slot(self, one: Mapping[Any, Any]) -> _Slot:
        index, given, name = as_index(one.get("index")), _id(one.get("id")), _name(one)
        if index is None:
            self.repairs["index_missing"] = None
            return self._slot_without_index(given, name)
        slot = self.newest.get(index)
        last = self.slots[-1] if self.slots else None
        if slot is None and last and last.index is None and given is None and not name:
            slot = self.newest[index] = last
        elif slot is not None and name and given is not None and slot.id not in {None, given}:
            self.repairs["index_reassigned"] = None
            slot = None
        return slot or self._open(index)

    def _slot_without_index(self, given: Any, name: str) -> _Slot:
        last = self.slots[-1] if self.slots else None
        if given is None and not name:
            return last or self._open(None)
        known = self.by_id.get(_key(given)) if given is not None else last
        same = known and (given is not None or known.id is None) and name in {"", known.name}
        if known is not None and same:
            known.marks.append(len(known.pieces))
            return known
        fits = last and (last.id is None if given is not None else last.id is not None)
        if last is not None and fits and bool(name) != bool(last.name):
            return last
        return self._open(None)

    def _open(self, index: int | None) -> _Slot:
        slot = _Slot(index)
        self.slots.append(slot)
        if index is not None:
            self.newest[index] = slot
        return slot

    def message(self) -> dict[str, Any]:
        """Return the message; `content` stays a list where it came in parts."""
        out: dict[str, Any] = {"role": "assistant", "content": None, **self.other}
        for key in _JOINED:
            pieces = self._pieces(key)
            if pieces:
                out[key] = _joined(pieces)
        calls = self.calls()
        if self.again is not None:
            calls += _not_said(self.again.calls(), calls)
        if calls:
            out["tool_calls"] = calls
        legacy = _decoded("".join(self.legacy_spelled))
        if isinstance(legacy, Mapping):
            self._take_legacy(legacy)
        if self.legacy is not None:
            out["function_call"] = _written(self.legacy, self.legacy.pieces)["function"]
        return out

    def calls(self) -> list[Any]:
        """Return the calls; an entry that is no object stands among them as it came."""
        told, self.spelled = "".join(self.spelled), []
        for one in as_entries(told):
            self._take_entry(one)
        return [call for slot in self.slots for call in self._calls(slot)]

    def _pieces(self, key: str) -> list[Any]:
        grown, whole = self.texts.get(key, []), self.whole.get(key, [])
        grown, whole = self._latest(grown), self._latest(whole, enough=2)
        if grown and whole and all(isinstance(one, str) for one in (*grown, *whole)):
            before, after = "".join(grown), "".join(whole)
            if after.startswith(before):
                return [after]
        return [*grown, *whole]

    def _latest(self, pieces: list[Any], enough: int = 3) -> list[Any]:
        """Where every piece repeats all before it, only the last one counts."""
        if len(pieces) < enough or not all(isinstance(one, str) for one in pieces):
            return pieces
        pairs = pairwise(pieces)
        if len(pieces[-1]) < 12 or not all(b.startswith(a) and len(b) > len(a) for a, b in pairs):
            return pieces
        self.repairs["content_cumulative"] = None
        return pieces[-1:]

    def _calls(self, slot: _Slot) -> list[Any]:
        if slot.odd is not None:
            return [slot.odd]
        if not slot.marks or _is_object(_arguments(slot.pieces)):
            return [_written(slot, slot.pieces)]
        edges = [0, *slot.marks, len(slot.pieces)]
        parts = [slot.pieces[a:b] for a, b in pairwise(edges) if a < b]
        if len(parts) > 1 and all(_is_object(_arguments(part)) for part in parts):
            return [_written(slot, part) for part in parts]
        return [_written(slot, slot.pieces)]


def assemble(chunks: Iterable[Any]) -> Assembled:
    """Put the payloads of a stream (see `sse_events`) together: by index, pieces joined first.

    Looks for `error` before `choices`; what comes after `[DONE]` only counts for usage.

    >>> from parsers import assemble
    >>> pieces = [{"choices": [{"delta": {"content": text}}]} for text in ("Hel", "lo.")]
    >>> assemble([*pieces, "[DONE]"]).message["content"]
    'Hello.'
    """
    answers: dict[int, _Answer] = {}
    usage: dict[str, int] = {}
    facts: dict[str, str] = {}
    state: dict[str, Any] = {}
    noise: dict[str, None] = {}
    for chunk in _flattened(chunks):
        if isinstance(chunk, str):
            _take_text(chunk, answers, state, noise)
            continue
        count_tokens(chunk, usage)
        if state.get("done"):
            continue
        take_facts(chunk, facts)
        if state.get("error") is None:
            state["error"] = find_error(chunk)
        for position, choice in enumerate(list_choices(chunk, noise)):
            count_tokens(choice, usage)
            index = as_index(choice.get("index"))
            answer = answers.setdefault(position if index is None else index, _Answer())
            answer.take(choice)
            if state.get("error") is None:
                state["error"] = find_error(choice)
    return _assembled(answers, usage, facts, state, noise)


def _assembled(
    answers: dict[int, _Answer],
    usage: dict[str, int],
    facts: dict[str, str],
    state: dict[str, Any],
    noise: dict[str, None],
) -> Assembled:
    answer = answers.get(0) or next(iter(answers.values()), _Answer())
    message = answer.message()
    if len(answers) > 1:
        noise["extra_choices"] = None
    if answers and answer.finish is None and state.get("done"):
        noise["finish_missing"] = None
    return Assembled(
        message,
        answer.finish,
        as_usage(usage),
        facts.get("model"),
        facts.get("system_fingerprint"),
        bool(state.get("done")),
        bool(answers),
        bool(state.get("broken")),
        state.get("error"),
        tuple(Repair(name, field="body") for name in {**noise, **answer.repairs}),
    )


def _flattened(chunks: Iterable[Any]) -> Iterator[Any]:
    for chunk in chunks:
        if isinstance(chunk, list | tuple):
            yield from (one for one in chunk if isinstance(one, str | Mapping))
        elif isinstance(chunk, str | Mapping):
            yield chunk


def _take_text(
    text: str, answers: dict[int, _Answer], state: dict[str, Any], noise: dict[str, None]
) -> None:
    if text == DONE:
        state["done"] = True
        return
    noise["sse_noise"] = None
    ended = state.get("done") or any(one.finish is not None for one in answers.values())
    if text[:1] in {"{", "[", '"'} and not ended:
        state["broken"] = True


def list_choices(chunk: Mapping[Any, Any], noise: dict[str, None]) -> list[Mapping[Any, Any]]:
    """Return the choices of a body or chunk that are any; null ones are noted in `noise`."""
    choices = chunk.get("choices")
    if isinstance(choices, Mapping):
        choices = [choices]
    if not isinstance(choices, list | tuple):
        return []
    kept = [one for one in choices if isinstance(one, Mapping)]
    if len(kept) < len(choices):
        noise["null_entry"] = None
    return kept


def find_error(holder: Mapping[Any, Any]) -> Any:
    """Return the error of a body, chunk or choice as `{"error": …}`; None where it has none."""
    error = holder.get("error")
    if not error:
        groq = holder.get("x_groq")
        error = groq.get("error") if isinstance(groq, Mapping) else None
    if not error:
        return None
    told = {"error": error}
    return told if error is True or find_complaint(told) is not None else None


def take_facts(chunk: Mapping[Any, Any], facts: dict[str, str]) -> None:
    """Note the model and the fingerprint that a body or chunk names first."""
    for key in ("model", "system_fingerprint"):
        value = chunk.get(key)
        if isinstance(value, str) and value:
            facts.setdefault(key, value)


def finish_word(choice: Mapping[Any, Any]) -> str | None:
    """Return why a choice ended, None while it has not (null, empty)."""
    reason, native = choice.get("finish_reason"), choice.get("native_finish_reason")
    if isinstance(native, str) and "malformed" in native.lower():
        return native
    return reason if isinstance(reason, str) and reason.strip() else None


def later_finish(before: str | None, now: str | None) -> str | None:
    """Return the later of two reasons; one that tells of a fault stays."""
    return before if now is None or judge_finish(before) is not None else now


def as_entries(value: Any) -> list[Any]:
    """Return a list of calls, also where one came without its list, in a mapping or as JSON text.

    A text that is none of these is an entry itself, since it may be a call that nothing can read.
    """
    if isinstance(value, str):
        value = _decoded(value)
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, Mapping):
        return [value] if any(key in value for key in _OF_A_CALL) else list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def _decoded(text: str) -> Any:
    """Return the object or list that a text holds, else the text."""
    if text.lstrip()[:1] not in {"[", "{"}:
        return text
    try:
        value = decode_json(text)
    except ValueError:
        return text
    return value if isinstance(value, Mapping | list) else text


def as_index(value: Any) -> int | None:
    """Return an index or status as a number; None where it is none (null, text, missing)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def _id(value: Any) -> Any:
    """Return an id as it came, None for what is none (null, empty)."""
    if isinstance(value, str):
        return value if value.strip() else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _key(given: Any) -> str:
    return str(given)


def _function(entry: Mapping[Any, Any]) -> Mapping[Any, Any]:
    inner = entry.get("function")
    if isinstance(inner, str) and inner.strip():
        decoded = _decoded(inner)
        inner = decoded if isinstance(decoded, Mapping) else {**entry, "name": inner}
    if isinstance(inner, Mapping):
        return inner
    custom = entry.get("custom")
    return custom if isinstance(custom, Mapping) else entry


def _name(entry: Mapping[Any, Any]) -> str:
    name = _function(entry).get("name")
    return name if isinstance(name, str) else ""


def _grow(slot: _Slot, entry: Mapping[Any, Any]) -> None:
    """Add an entry of a delta to its call; unknown fields are kept, to be sent back."""
    given, name, function = _id(entry.get("id")), _name(entry), _function(entry)
    slot.id = slot.id if slot.id is not None else given
    if name != slot.name:
        slot.name += name
    for key, value in function.items():
        if key in {"arguments", "input"}:
            slot.pieces += [] if value is None else [value]
            slot.function.setdefault(str(key), None)
        elif key == "name" and value is not None and not isinstance(value, str):
            slot.odd_name = value
        elif value is not None and key not in _OF_AN_ENTRY:
            slot.function[str(key)] = _grown(slot.function.get(str(key)), value)
    if function is not entry:
        for key, value in entry.items():
            if value is not None and key not in {"index", "id", "function", "custom"}:
                slot.entry[str(key)] = value
    elif isinstance(entry.get("type"), str):
        slot.entry["type"] = entry["type"]


def _grown(before: Any, value: Any) -> Any:
    """Return an unknown field's next value: lists grow, all else is replaced."""
    if not isinstance(value, list):
        return value
    grown = before if isinstance(before, list) else []
    grown += value
    return grown


def _written(slot: _Slot, pieces: list[Any]) -> dict[str, Any]:
    """Return the call as a plain answer would carry it."""
    function = {"name": slot.name or slot.odd_name, **slot.function}
    key = "input" if "input" in function and "arguments" not in function else "arguments"
    function[key] = _arguments(pieces)
    return {"id": slot.id, **slot.entry, "function": function}


def _not_said(again: list[Any], before: list[Any]) -> list[Any]:
    """Leave out the calls that repeat one of those before, one for one; an id may be lacking."""
    calls = Counter(_saying(call) for call in before)
    named = Counter((_saying(call), _id_of(call)) for call in before)
    new = []
    for call in again:
        said, id_ = _saying(call), _id_of(call)
        if calls[said] > 0 and (id_ is None or named[said, id_] > 0):
            calls[said] -= 1
            named[said, id_] -= 1
        else:
            new.append(call)
    return new


def _id_of(call: Any) -> Any:
    return call.get("id") if isinstance(call, Mapping) else None


def _saying(call: Any) -> tuple[str, str]:
    """Return name and arguments of a call in one spelling."""
    function = call.get("function") if isinstance(call, Mapping) else call
    if not isinstance(function, Mapping):
        return "", _dumped(function)
    arguments = function.get("arguments", function.get("input"))
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    return _dumped(function.get("name")), _dumped(arguments)


def _arguments(pieces: list[Any]) -> Any:
    if not pieces:
        return None
    objects = [one for one in pieces if not isinstance(one, str)]
    if not objects:
        return pair_surrogates("".join(pieces))
    text = "".join(one for one in pieces if isinstance(one, str))
    filled = [one for one in objects if one not in ({}, [])]
    if not text.strip():
        distinct = filled or objects
        if len({_dumped(one) for one in distinct}) == 1:
            return distinct[0]
    elif not filled:
        return pair_surrogates(text)
    return "".join(one if isinstance(one, str) else _dumped(one) for one in pieces)


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "?"


def _is_object(arguments: Any) -> bool:
    if isinstance(arguments, str):
        try:
            arguments = decode_json(arguments)
        except ValueError:
            return False
    return isinstance(arguments, Mapping)


def _joined(pieces: list[Any]) -> Any:
    if all(isinstance(one, str) for one in pieces):
        return pair_surrogates("".join(pieces))
    parts: list[Any] = []
    for one in pieces:
        if isinstance(one, str):
            parts.append({"type": "text", "text": one})
        else:
            parts += one if isinstance(one, list) else [one]
    return parts


def pair_surrogates(text: str) -> str:
    """Join surrogate pairs that were cut between two pieces; lone ones stay."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
