"""The calls of a message as they came, in whatever shape: listed, unpacked, each with an id.

Takes any value, however odd, and never raises. Reads no arguments and matches no name.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parsers.arguments import read_arguments
from parsers.assembly import as_entries
from parsers.faults import decode_json
from parsers.types import Dropped, Level, Repair, Tool

_PARALLEL = {"multi_tool_use.parallel", "functions.multi_tool_use.parallel"}
_USES = Tool("multi_tool_use.parallel", "", {"type": "object", "required": ["tool_uses"]})


@dataclass(frozen=True, slots=True)
class Entry:
    """A call as it came: anything may be anything."""

    name: Any
    arguments: Any
    id: str | None


@dataclass(slots=True)
class Notes:
    """What was mended and left out on the way."""

    repairs: list[Repair] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)

    def mend(self, name: str, where: str = "tool_calls") -> None:
        """Note a repair."""
        self.repairs.append(Repair(name, field=where))


def list_entries(message: Mapping[Any, Any], notes: Notes) -> list[Entry]:
    """Return the calls of a message, in whatever form; the legacy field's comes last."""
    found = [read_entry(one, notes) for one in _listed(message.get("tool_calls"), notes)]
    legacy = message.get("function_call")
    if isinstance(legacy, str):
        legacy = _decoded(legacy, None)
    if isinstance(legacy, Mapping) and legacy:
        one = read_entry({"function": legacy, "id": legacy.get("id")}, notes)
        said_else = bool(found) or not _blank(message.get("content"))
        if _blank(one.name) and _blank(one.arguments) and said_else:
            return found
        notes.mend("legacy_function_call", "function_call")
        if not any(one.name == other.name and _same(one, other) for other in found):
            found.append(one)
        else:
            notes.mend("duplicate_dropped", "function_call")
    return found


def _listed(value: Any, notes: Notes) -> list[Any]:
    if isinstance(value, str) and value.strip()[:1] in {"[", "{"}:
        notes.mend("calls_as_text")
    entries = as_entries(value)
    if None in entries:
        notes.mend("null_entry")
    return [one for one in entries if one is not None]


def read_entry(one: Any, notes: Notes) -> Entry:
    """Read one entry: function, custom tool or flat, any field of any type."""
    if isinstance(one, str):
        one = _decoded(one, {"arguments": one})
    if not isinstance(one, Mapping):
        return Entry(None, one, None)
    inner = _inner(one, notes)
    name = inner.get("name")
    name = one.get("name") if _blank(name) else name
    return Entry(name, _given(inner, one), _id(one, notes))


def _inner(one: Mapping[Any, Any], notes: Notes) -> Mapping[Any, Any]:
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


def _id(one: Mapping[Any, Any], notes: Notes) -> str | None:
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


def spell(arguments: Any) -> str:
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


def show_name(name: Any) -> str:
    """Return a name as text; what is none is encoded, and cut."""
    return name if isinstance(name, str) else "" if name is None else spell(name)[:200]


def drop_repeats(entries: list[Entry], notes: Notes) -> list[Entry]:
    """Drop a call that is given twice: equal in id, name and arguments."""
    alike = Counter((one.id, show_name(one.name)) for one in entries)
    seen: set[tuple[str | None, str, str]] = set()
    kept: list[Entry] = []
    for one in entries:
        name = show_name(one.name)
        if alike[one.id, name] > 1:
            key = (one.id, name, _plain(one.arguments))
            if key in seen:
                notes.mend("duplicate_dropped")
                continue
            seen.add(key)
        kept.append(one)
    return kept


def _same(one: Entry, other: Entry) -> bool:
    return _plain(one.arguments) == _plain(other.arguments)


def _plain(arguments: Any) -> str:
    """Return arguments in one spelling, whatever form, order and spacing they came in."""
    if isinstance(arguments, str):
        arguments = _decoded(arguments, arguments)
    if isinstance(arguments, str):
        return arguments.strip()
    return _encoded(arguments, ordered=True) or spell(arguments)


def unpack_parallel(
    entries: list[Entry], tools: Sequence[Tool], level: Level, notes: Notes
) -> list[Entry]:
    """Unpack `multi_tool_use.parallel`: a model's habit, so not at level strict."""
    offered = {tool.name for tool in tools}
    out: list[Entry] = []
    for one in entries:
        name = one.name.strip() if isinstance(one.name, str) else ""
        uses = None
        if name in _PARALLEL and name not in offered and level != "strict":
            read = read_arguments(spell(one.arguments), _USES, level=level)
            uses = (read.arguments or {}).get("tool_uses")
        if isinstance(uses, list) and uses:
            notes.mend("parallel_wrapper")
            out += [_use(use, one.id if n == 0 else None) for n, use in enumerate(uses)]
        else:
            out.append(one)
    return out


def _use(use: Any, id_: str | None) -> Entry:
    if not isinstance(use, Mapping):
        return Entry(None, use, id_)
    name = next((use[k] for k in ("recipient_name", "name", "tool_name") if use.get(k)), None)
    return Entry(
        name, _given({**use, "arguments": use.get("parameters", use.get("arguments"))}), id_
    )


def make_ids(entries: Sequence[Entry], notes: Notes, said: str = "") -> list[str]:
    """Return an id for each call: its own; made where it has none, or another call has it.

    `said` is what the message says beside its calls: it makes the ids of two turns differ.
    """
    taken: set[str] = {one.id for one in entries if one.id is not None}
    seen: set[str] = set()
    ids: list[str] = []
    told = ""
    for n, one in enumerate(entries):
        id_ = one.id
        if id_ is None or id_ in seen:
            notes.mend("id_made" if id_ is None else "id_renamed", f"calls[{n}].id")
            told = told or _digest(said)
            id_ = _made_id(one, f"{n}\0{told}", taken)
        taken.add(id_)
        seen.add(id_)
        ids.append(id_)
    return ids


def _made_id(one: Entry, place: str, taken: set[str]) -> str:
    """Make an id from what the call says, so that the same message gives the same id."""
    salt = 0
    while True:
        seed = f"{place}\0{salt}\0{show_name(one.name)}\0{spell(one.arguments)}"
        if (id_ := f"call_{_digest(seed)[:12]}") not in taken:
            return id_
        salt += 1


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
