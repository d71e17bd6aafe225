"""Read other people's stored conversations at the three levels: what was formatting, what not.

No model is asked and nothing is kept. Files are read line by line, whoever wrote them; a
conversation that names no gold gets parse figures only, and one that names no tools is left out,
since no name in it can be told right from wrong.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from jsonschema_rs import validator_for

from bench.bfcl.data import (
    CATEGORIES,
    Row,
    find_source,
    load_rows,
    make_task,
    make_tools,
    wire_name,
)
from bench.bfcl.judge import is_right
from bench.records import MAX_LINE, load_json
from bench.scoring import judge
from bench.show import printable
from bench.status import OK
from bench.types import Gold, Task, WorkbenchError
from parsers import LEVELS, Failure, Level, Reading, Tool, parse_native, parse_react

Format = Literal["openai-messages", "bfcl-results"]
FORMATS: tuple[Format, ...] = ("openai-messages", "bfcl-results")
MAX_FILES = 10_000
MAX_WHOLE = MAX_LINE
"""Bytes of a file that holds one JSON value instead of a line for each conversation."""
SHOWN = 5
"""Names of conversations that are shown as examples."""

_REACT = re.compile(r"(?m)^[ \t>*#-]*(?:Action|Final Answer|行动|动作|最终答案)[ \t*]*[:：]")
_BFCL_FAULT = "Error during inference:"
"""What BFCL writes where an endpoint gave no answer."""

Read = Callable[[Level], Reading]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A stored conversation: how each reply of it is read, and what would have been right."""

    id: str
    replies: tuple[Read, ...]
    right: Callable[[Sequence[Reading]], bool] | None = None
    """Takes the readings of one level; None: it names no gold."""


@dataclass(slots=True)
class LevelCount:
    """What all replies are, read at one level."""

    call: int = 0
    answer: int = 0
    unreadable: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    """Why the unreadable ones are."""
    right: int = 0
    """Conversations whose calls and answer are right, of those with gold."""


@dataclass(slots=True)
class Rescored:
    """Counts over many conversations."""

    conversations: int = 0
    replies: int = 0
    refused: int = 0
    """Replies that the endpoint marked as refused or filtered."""
    endpoint: int = 0
    """Replies that are an endpoint's failure: in no other figure."""
    gold: int = 0
    """Conversations that name what would have been right, and that no endpoint broke off."""
    levels: dict[Level, LevelCount] = field(
        default_factory=lambda: {level: LevelCount() for level in LEVELS}
    )
    unreadable: Counter[str] = field(default_factory=Counter)
    """Replies unreadable at strict, by the first level that reads them, or `never`."""
    wrong: Counter[str] = field(default_factory=Counter)
    """Conversations not right at strict, by the first level at which they are, or `never`."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, conversation: Conversation) -> None:
        """Count a conversation."""
        self.conversations += 1
        readings = {level: [read(level) for read in conversation.replies] for level in LEVELS}
        for at in range(len(conversation.replies)):
            self._add_reply({level: readings[level][at] for level in LEVELS}, conversation.id)
        lost = any(reading.outcome == "endpoint" for reading in readings["strict"])
        if conversation.right is not None and not lost:
            self.gold += 1
            right = {level: conversation.right(readings[level]) for level in LEVELS}
            for level in LEVELS:
                self.levels[level].right += right[level]
            if not right["strict"]:
                self.wrong[_first(right)] += 1

    def _add_reply(self, readings: Mapping[Level, Reading], name: str) -> None:
        self.replies += 1
        outcomes = {level: reading.outcome for level, reading in readings.items()}
        if outcomes["strict"] in ("endpoint", "refused"):
            self.endpoint += outcomes["strict"] == "endpoint"
            self.refused += outcomes["strict"] == "refused"
            return
        for level, reading in readings.items():
            count = self.levels[level]
            count.call += outcomes[level] == "call"
            count.answer += outcomes[level] == "answer"
            if outcomes[level] == "malformed" and reading.failure is not None:
                count.unreadable += 1
                count.kinds[reading.failure.kind] += 1
        if outcomes["strict"] == "malformed":
            first = _first({level: outcomes[level] != "malformed" for level in LEVELS})
            self.unreadable[first] += 1
            shown = self.examples.setdefault(first, [])
            if len(shown) < SHOWN and name not in shown:
                shown.append(name)


def _first(good: Mapping[Level, bool]) -> str:
    return next((level for level in LEVELS if good[level]), "never")


# ---------------------------------------------------------------- files


def list_files(target: Path, form: Format) -> list[Path]:
    """Return the file named, or a folder's files of a format, sorted."""
    if target.is_file():
        return [target]
    if not target.is_dir():
        raise WorkbenchError(f"{target}: no such file or folder; name stored conversations")
    patterns = ("*_result.json",) if form == "bfcl-results" else ("*.jsonl", "*.json")
    found = sorted(p for pattern in patterns for p in target.rglob(pattern) if p.is_file())
    if not found or len(found) > MAX_FILES:
        names = " or ".join(patterns)
        raise WorkbenchError(f"{target}: {len(found)} files {names}; 1 to {MAX_FILES} are read")
    return found


def read_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each object of a file with its place: a line each, or one JSON value in all."""
    whole = _read_whole(path)
    if whole is not None:
        for number, row in enumerate(whole, 1):
            yield f"{path}: entry {number}", _object(row, f"{path}: entry {number}")
        return
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = load_json(line)
        except (ValueError, RecursionError) as error:
            raise WorkbenchError(f"{place}: not JSON ({error}); one object a line") from None
        yield place, _object(row, place)


def _read_whole(path: Path) -> list[Any] | None:
    """Return the values of a `.json` file that is one value and not one a line."""
    try:
        if path.suffix != ".json" or path.stat().st_size > MAX_WHOLE:
            return None
        value = load_json(path.read_bytes())
    except OSError as error:
        raise WorkbenchError(f"{path}: can't be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else [value]


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise WorkbenchError(
                        f"{path}:{number}: a line over {MAX_LINE >> 20} MiB is refused; save one "
                        "conversation a line"
                    )
                yield line
    except OSError as error:
        raise WorkbenchError(f"{path}: can't be read ({error.strerror})") from None


def _object(row: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise WorkbenchError(f"{place}: a {type(row).__name__}; one object is needed")
    return row


# ---------------------------------------------------------------- OpenAI's messages


def read_messages(
    place: str, row: Mapping[str, Any], tools: Sequence[Tool] = ()
) -> Conversation | str:
    """Return the conversation of a row, or why it is left out.

    A row has `messages`, and if it likes `tools`, `id`, `driver` (react or native), `dialect`, and
    `gold` (as a task has it) or `expected_tool`.
    """
    messages = row.get("messages")
    if not isinstance(messages, list):
        raise WorkbenchError(f'{place}: has no "messages"; write {{"messages": […], "tools": […]}}')
    said = [m for m in messages if isinstance(m, dict) and m.get("role") == "assistant"]
    offered = _tools_of(row, place) or tuple(tools)
    if not said:
        return "no reply in it"
    if not offered:
        return "no tools in it"
    way = row.get("driver") or _way_of(messages)
    if way not in ("react", "native"):
        raise WorkbenchError(f"{place}: driver {way!r}; write react or native, or leave it out")
    read = _read_react if way == "react" else _read_native
    dialect = row.get("dialect", "json")
    if dialect not in ("json", "call", "bracket"):
        raise WorkbenchError(f"{place}: dialect {dialect!r}; write json, call or bracket")
    gold = _gold_of(row, place)
    return Conversation(
        id=str(row.get("id") or place),
        replies=tuple(partial(read, message, offered, dialect) for message in said),
        right=None if gold is None else partial(_is_solved, gold, offered),
    )


def _tools_of(row: Mapping[str, Any], place: str) -> tuple[Tool, ...]:
    listed = row.get("tools") or row.get("functions") or []
    if not isinstance(listed, list):
        raise WorkbenchError(f"{place}: tools is no list; write OpenAI's entries")
    tools = []
    for entry in listed:
        inner = entry.get("function", entry) if isinstance(entry, dict) else None
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            raise WorkbenchError(f"{place}: an entry of tools is no tool; write OpenAI's entries")
        schema = inner.get("parameters")
        sound = {**inner, "parameters": schema if isinstance(schema, dict) else None}
        tools.append(Tool.from_openai(sound))
    return tuple(tools)


def _way_of(messages: Sequence[Any]) -> str:
    """Tell how a model was asked: natively where a call or its result is a message's own."""
    for message in messages:
        if isinstance(message, dict) and (
            message.get("role") in ("tool", "function")
            or message.get("tool_calls")
            or message.get("function_call")
        ):
            return "native"
    said = (_text_of(m) for m in messages if isinstance(m, dict) and m.get("role") == "assistant")
    return "react" if any(_REACT.search(text) for text in said) else "native"


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _read_react(
    message: Mapping[str, Any], tools: Sequence[Tool], dialect: Any, level: Level
) -> Reading:
    return parse_react(_text_of(message), tools, level=level, dialect=dialect)


def _read_native(
    message: Mapping[str, Any], tools: Sequence[Tool], _: Any, level: Level
) -> Reading:
    return parse_native(message, tools, level=level)


def _gold_of(row: Mapping[str, Any], place: str) -> Gold | None:
    """Return what a row says would be right: a task's gold, or the names of tools."""
    from bench.tasks import task_from_row, tell_fault  # noqa: PLC0415 (only rows with gold)
    from bench.tools.schema import explain  # noqa: PLC0415 (the same)

    gold, names = row.get("gold"), row.get("expected_tool")
    if gold is not None:
        schema = _gold_schema()
        fault = next(validator_for(schema).iter_errors(gold), None)
        if fault is not None:
            raise WorkbenchError(f"{place}: gold: {tell_fault(explain(fault, schema))}")
    elif names is not None:
        listed = [names] if isinstance(names, str) else names
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise WorkbenchError(f"{place}: expected_tool is no name and no list of names")
        gold = {"calls": [{"tool": name, "any_arguments": True} for name in listed if name]}
    else:
        return None
    about = dict.fromkeys(("id", "pair", "category", "toolset", "question"), "-")
    return task_from_row({**about, "lang": "en", "gold": gold}).gold


@cache
def _gold_schema() -> dict[str, Any]:
    from bench.tasks import task_schema  # noqa: PLC0415 (only rows with gold need it)

    schema = task_schema()
    return {**schema["properties"]["gold"], "$defs": schema["$defs"]}


def _is_solved(gold: Gold, tools: Sequence[Tool], readings: Sequence[Reading]) -> bool:
    """Tell whether a conversation's calls and last answer are right.

    Where the gold says nothing of the answer, calls decide: stored conversations often end there.
    """
    calls = [call for reading in readings for call in reading.good_calls]
    finals = [reading.final for reading in readings if reading.final is not None]
    silent = not (gold.contains or gold.excludes or gold.unsolvable or not gold.calls)
    final = "done" if silent else (finals[-1] if finals else None)
    tries: list[str | None] = [None for r in readings if r.outcome == "malformed"]
    verdict = judge(
        _task(gold), calls, (), final, tools=tools, tries=tries, errors=[False] * len(calls)
    )
    return verdict.success


def _task(gold: Gold) -> Task:
    return Task("-", "-", "en", "-", "-", "", gold)


# ---------------------------------------------------------------- BFCL's results


@dataclass(frozen=True, slots=True)
class Answers:
    """BFCL's rows by id, to read and judge its results with."""

    rows: Mapping[str, Row]

    def find(self, name: str) -> Row | None:
        """Return the row of an id; `simple_N` is what `simple_python_N` was called."""
        renamed = re.sub(r"^simple_(?=\d)", "simple_python_", name)
        return self.rows.get(name) or self.rows.get(renamed)


def load_answers(path: Path | None) -> Answers:
    """Read BFCL's rows of every category that is there."""
    source = find_source(path)
    there = [name for name in CATEGORIES if any(f"_{name}.json" in n for n in source.names)]
    return Answers({row.id: row for row in load_rows(source, there)})


def read_result(
    place: str, entry: Mapping[str, Any], native: bool, answers: Answers
) -> Conversation | str:
    """Return the conversation of one of BFCL's results, or why it is left out.

    Where tools were called natively the result is a list of `{name: arguments}`, or what the model
    said instead; else it is a text that should be a list of calls.
    """
    name, result = entry.get("id"), entry.get("result")
    row = answers.find(name) if isinstance(name, str) else None
    if row is None:
        return "not one of the single-turn rows of these BFCL data"
    if not _is_result(result) or (isinstance(result, list) and not native):
        return "a result of another form"
    read = _reader_of(result, row, native)
    return Conversation(f"{place} {row.id}", (read,), partial(_is_bfcl_right, row))


def _reader_of(result: Any, row: Row, native: bool) -> Read:
    if isinstance(result, str) and result.startswith(_BFCL_FAULT):
        return partial(_failed, result)
    if native:
        return partial(_read_native, _message_of(result), make_tools(row), None)
    return partial(_read_list, result, _dotted(row))


def _is_result(result: Any) -> bool:
    return isinstance(result, str) or (
        isinstance(result, list)
        and all(isinstance(call, dict) and len(call) == 1 for call in result)
    )


def is_native(path: Path) -> bool:
    """Tell whether a file of BFCL's results is of native calls: a text file has no list in it."""
    results = (row.get("result") for _, row in read_rows(path))
    return any(isinstance(result, list) and _is_result(result) for result in results)


def _message_of(result: Any) -> dict[str, Any]:
    """Return the assistant message that a native result was made of."""
    if isinstance(result, str):
        return {"role": "assistant", "content": result}
    pairs = [next(iter(call.items())) for call in result]
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": wire_name(name), "arguments": arguments},
        }
        for number, (name, arguments) in enumerate(pairs)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _dotted(row: Row) -> tuple[Tool, ...]:
    """Return a row's tools under BFCL's own names, as its prompt shows them."""
    tools = zip(make_tools(row), row.functions, strict=True)
    return tuple(replace(tool, name=function["name"]) for tool, function in tools)


def _read_list(text: str, tools: Sequence[Tool], level: Level) -> Reading:
    """Read a text that should be `[name(key=value), …]` and nothing else.

    strict: it is. hardened: the one list in it is, whatever stands around it. rescue: also calls in
    any other form that our reader knows.
    """
    plain = text.strip()
    inner = plain[plain.find("[") : plain.rfind("]") + 1] if "[" in plain else ""
    pieces = {"strict": [plain], "hardened": [plain, inner], "rescue": [plain, inner]}[level]
    for piece in pieces:
        if piece.startswith("[") and piece.endswith("]"):
            reading = _rescue(piece, tools)
            if reading.outcome == "call" or piece == plain:
                return reading
    reading = _rescue(text, tools)
    if level == "rescue" or reading.outcome != "call":
        return reading
    said = "The call is not written as the list that was asked for."
    return Reading(failure=Failure("out_of_channel_call", "text", said))


def _rescue(text: str, tools: Sequence[Tool]) -> Reading:
    message = {"role": "assistant", "content": text}
    return parse_native(message, tools, level="rescue")


def _failed(result: str, _: Level) -> Reading:
    return Reading(failure=Failure("endpoint_error", None, result[:200]))


def _is_bfcl_right(row: Row, readings: Sequence[Reading]) -> bool:
    """Tell whether our judge finds a result right; where no call is wanted: an answer."""
    (reading,) = readings
    if row.truth is None:
        return reading.outcome == "answer"
    calls = [replace(call, name=wire_name(call.name)) for call in reading.good_calls]
    whole = len(calls) == len(reading.calls)
    return whole and is_right(make_task(row), calls, make_tools(row))


# ---------------------------------------------------------------- the command


def rescore_transcripts(
    target: Path, form: Format, *, bfcl: Path | None = None, tools: Sequence[Tool] = ()
) -> Rescored:
    """Read every conversation under a file or folder; raises WorkbenchError with file and line."""
    rescored = Rescored()
    answers = load_answers(bfcl) if form == "bfcl-results" else None
    for path in list_files(target, form):
        native = answers is not None and is_native(path)
        for place, row in read_rows(path):
            found = (
                read_messages(place, row, tools)
                if answers is None
                else read_result(place, row, native, answers)
            )
            if isinstance(found, str):
                rescored.left_out[found] += 1
            else:
                rescored.add(found)
    return rescored


def run_transcripts(
    target: Path,
    form: Format,
    *,
    bfcl: Path | None,
    tools: Iterable[str],
    as_json: bool,
    tell: Callable[[str], None],
) -> int:
    """Rescore stored conversations and print the figures."""
    from bench.own.tools import load_entries  # noqa: PLC0415 (only where tools are named)

    entries, _ = load_entries(tools)
    offered = [entry.tool for entry in entries]
    found = rescore_transcripts(target, form, bfcl=bfcl, tools=offered)
    if not found.conversations:
        why = "; ".join(f"{count} {reason}" for reason, count in found.left_out.items())
        raise WorkbenchError(f"{target}: no conversation that can be read ({why or 'it is empty'})")
    if as_json:
        tell(json.dumps(to_json(found), ensure_ascii=False, indent=1))
        return OK
    for line in describe(found):
        tell(printable(line))
    return OK


def to_json(found: Rescored) -> dict[str, Any]:
    """Return all counts as JSON."""
    return {
        "conversations": found.conversations,
        "replies": found.replies,
        "endpoint": found.endpoint,
        "refused": found.refused,
        "gold": found.gold,
        "levels": {
            level: {
                "call": count.call,
                "answer": count.answer,
                "unreadable": count.unreadable,
                "kinds": dict(sorted(count.kinds.items())),
                "right": count.right if found.gold else None,
            }
            for level, count in found.levels.items()
        },
        "unreadable_at_strict": _by_first(found.unreadable),
        "wrong_at_strict": _by_first(found.wrong) if found.gold else None,
        "left_out": dict(sorted(found.left_out.items())),
    }


def _by_first(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) for name in ("hardened", "rescue", "never")}


def describe(found: Rescored) -> Iterator[str]:
    """Yield the lines of a sum-up."""
    lost = f", {found.endpoint} of them an endpoint's failure" if found.endpoint else ""
    lost += f", {found.refused} refused" if found.refused else ""
    yield f"{found.conversations} conversations, {found.replies} replies{lost}; no model was asked"
    for reason, number in found.left_out.items():
        yield f"left out: {number} ({reason})"
    yield f"{'read at':<10}{'calls':>8}{'answers':>9}{'unreadable':>12}{'right':>8}"
    for level, count in found.levels.items():
        right = f"{count.right}/{found.gold}" if found.gold else "–"
        yield f"{level:<10}{count.call:>8}{count.answer:>9}{count.unreadable:>12}{right:>8}"
    yield from _formatting("replies are unreadable at strict", "read", found.unreadable)
    if found.gold:
        yield from _formatting("conversations are not right at strict", "right", found.wrong)
    kinds = found.levels["rescue"].kinds
    if kinds:
        told = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        yield f"unreadable at every level: {told}"
    for first, names in found.examples.items():
        word = "unreadable at every level" if first == "never" else f"first read at {first}"
        yield f"{word}, such as: {'; '.join(names)}"


def _formatting(what: str, word: str, counts: Mapping[str, int]) -> Iterator[str]:
    form = counts.get("hardened", 0) + counts.get("rescue", 0)
    yield (
        f"{sum(counts.values())} {what}; {form} of these were formatting: "
        f"{counts.get('hardened', 0)} are {word} at hardened, {counts.get('rescue', 0)} only at "
        f"rescue; {counts.get('never', 0)} stay"
    )
