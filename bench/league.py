"""Compare readers of replies on the same cases: ours at its three levels, and other projects'.

What a case says is fixed in its file; nobody's reading is the measure of another's. Grading is a
pure function of an answer and a case. No model, no network; peers run in processes of their own.
"""

import ast
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs

from bench.paths import default_results, find_datasets
from bench.peers.workers import (
    Parser,
    Reads,
    Worker,
    default_environments,
    load_parsers,
    versions_of,
)
from bench.types import WorkbenchError
from parsers.types import FailureKind

Verdict = Literal["right", "text", "refused", "wrong"]
"""As the text says; the right tool with its input as raw text; nothing to run; silently wrong."""

SECONDS = 0.02
"""How long one reply is read again and again to time it."""
LIMIT = 10.0
"""Seconds that one reply may take before its parser is ended."""
_LARGEST_FILE = 50_000_000

GROUPS: Mapping[str, Mapping[str, str]] = {
    "react": {
        "ctl": "controls",
        "lab": "labels and layout",
        "name": "tool names and call forms",
        "arg": "argument texts",
        "seq": "order and answers",
        "thk": "think blocks",
        "nat": "native markup in text",
        "cut": "cut replies",
        "len": "length reached",
        "dia": "other dialects",
        "seed": "the tutorials' broken lines",
    },
    "native": {
        "A": "arguments",
        "C": "content",
        "D": "schemas",
        "E": "endpoint errors",
        "F": "finish_reason",
        "H": "shapes of a call",
        "I": "ids",
        "K": "tool_choice",
        "N": "names",
        "R": "refused requests",
        "S": "streams",
        "T": "calls in text",
        "X": "index",
        "Z": "controls",
    },
    "arguments": {"react": "from texts", "native": "from native calls"},
}
"""For each table: the beginning of a case's id (or its group), and what the group is about."""


@dataclass(frozen=True, slots=True)
class Case:
    """One reply (or one argument text), what it says, and what each level must read."""

    id: str
    kind: str
    group: str
    reads: Reads
    request: Mapping[str, Any]
    """What a reader is asked: `text` or `wire`, `tools`, and what else the case gives."""
    says: Sequence[Mapping[str, Any]]
    """The fullest right reading: calls, an answer or a failure."""
    by_level: Mapping[str, Sequence[Mapping[str, Any]]]
    also: Sequence[Mapping[str, Any]] = ()
    """Failures that are right too."""
    raw: str | None = None
    """The argument text as it stands in the reply, where it is known."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one parser made of one case."""

    case: Case
    read: Mapping[str, Any]
    verdict: Verdict
    why: str
    """Why there was nothing to run, or ""."""
    as_given: bool
    """Ours: the very reading that its level asks for, a failure's kind included."""
    microseconds: float | None
    """For one reading; None where it never came back."""


@dataclass(frozen=True, slots=True)
class Row:
    """One parser's answers to one table's cases; `problem` says why there are none."""

    parser: Parser
    version: str
    problem: str
    answers: tuple[Answer, ...]

    def count(self, verdict: Verdict) -> int:
        """Count the answers with a verdict."""
        return sum(answer.verdict == verdict for answer in self.answers)


@dataclass(frozen=True, slots=True)
class League:
    """Every table's rows, and the machine that the times are from."""

    tables: Mapping[Reads, tuple[Row, ...]]
    machine: str


def run_league(
    paths: Sequence[Path] = (),
    *,
    tools: Path | None = None,
    peers: Path | None = None,
    results: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Path, ...]:
    """Compare all readers on cases and write `league/` below `results`; return what was written.

    `paths` are JSONL files in the form of the bundled cases (default: those); `tools` is the file
    with the tools that they offer, `peers` the folder with the peers' environments. Raises
    WorkbenchError for a file or line that cannot be used.
    """
    from bench.league_report import describe, write_league  # noqa: PLC0415 (it draws)

    cases = load_cases(paths, tools)
    league = measure_league(cases, peers or default_environments(), tell)
    for line in describe(league):
        tell(line)
    return write_league(league, (results or default_results()) / "league")


# ---------------------------------------------------------------- cases


def load_cases(paths: Sequence[Path] = (), tools: Path | None = None) -> tuple[Case, ...]:
    """Load cases, and make the argument texts that stand alone in them cases of their own."""
    folder = find_datasets() / "cases"
    chosen = paths or [folder / "react.jsonl", folder / "native.jsonl"]
    offered = {kind: folder / f"{kind}_tools.json" for kind in ("react", "native")}
    cases = [
        case
        for path in chosen
        for place, line in _read_lines(path)
        for case in [_read_case(line, place, {} if tools is None else {"": tools}, offered)]
    ]
    if not cases:
        raise WorkbenchError(f"{chosen[0]}:1: holds no case; put one JSON object on each line")
    return (*cases, *argument_cases(cases))


def _read_lines(path: Path) -> Iterator[tuple[str, str]]:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise WorkbenchError(f"{path}: is larger than 50 MB; split it")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise WorkbenchError(f"{path}: cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise WorkbenchError(f"{path}: is not UTF-8; save it as UTF-8") from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{path}:{number}", line


def _decode(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise WorkbenchError(f"{place}: is not JSON: {problem}; correct it") from None


def _read_case(
    line: str, place: str, given: Mapping[str, Path], offered: Mapping[str, Path]
) -> Case:
    row = _decode(line, place)
    reads = _check_case(row, place)
    path = given.get("", offered[reads])
    tools = row.get("tools")
    if tools is None:
        tools = _decode("\n".join(text for _, text in _read_lines(path)), str(path))
    _check_tools(tools, place if "tools" in row else str(path))
    levels = {level: row.get(level, row["hardened"]) for level in ("strict", "hardened", "rescue")}
    letters = row["id"].rstrip("0123456789-_")
    return Case(
        id=row["id"],
        kind=str(row.get("kind", "")),
        group=str(row.get("group", letters.partition("-")[0] or "other")),
        reads=reads,
        request=_request(row, reads, tools),
        says=levels["rescue"],
        by_level=levels,
        also=row.get("also", ()),
    )


def _check_case(row: Any, place: str) -> Literal["react", "native"]:
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        raise WorkbenchError(f"{place}: has no id; give each case an object with a text `id`")
    if "wire" not in row and not isinstance(row.get("text"), str):
        raise WorkbenchError(f"{place}: has neither `text` nor `wire`; give the reply in one")
    for level in ("hardened", "strict", "rescue"):
        if level in row or level == "hardened":
            _check_reading(row.get(level), f"{place}: `{level}`")
    return "native" if "wire" in row else "react"


def _check_reading(reading: Any, place: str) -> None:
    fix = "give a list of {call, arguments}, or one {final}, or one {failure}"
    if not isinstance(reading, list) or not reading:
        raise WorkbenchError(f"{place} is no right reading; {fix}")
    for part in reading:
        known = isinstance(part, dict) and {"call", "final", "failure"} & part.keys()
        if not known or ("call" in part and not isinstance(part.get("arguments"), dict)):
            raise WorkbenchError(f"{place} is no right reading; {fix}")


def _check_tools(tools: Any, place: str) -> None:
    fix = 'give a list of {"type": "function", "function": {"name", "parameters"}}'
    if not isinstance(tools, list):
        raise WorkbenchError(f"{place}: holds no list of tools; {fix}")
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise WorkbenchError(f"{place}: a tool has no name; {fix}")
        try:
            jsonschema_rs.validator_for(function.get("parameters") or {})
        except (ValueError, TypeError) as problem:
            said = str(problem).splitlines()[0]
            raise WorkbenchError(f"{place}: {function['name']}: no JSON Schema: {said}") from None


def _request(row: Mapping[str, Any], reads: Reads, tools: Any) -> dict[str, Any]:
    if reads == "react":
        kept = {key: row[key] for key in ("text", "dialect", "finish_reason") if key in row}
    else:
        asked = row.get("_request", {})
        options = {k: asked[k] for k in ("tool_choice", "parallel_tool_calls") if k in asked}
        if "finish_reason" in row:
            options["finish_reason"] = row["finish_reason"]
        kept = {"wire": row["wire"], "options": options}
    return {**kept, "tools": tools}


def argument_cases(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Take the argument texts that stand alone behind a plainly named tool."""
    found = []
    for case in cases:
        part = _from_text(case) if case.reads == "react" else _from_call(case)
        if part is not None and _is_about(case, part["tool"]):
            tools = case.request["tools"]
            request = {**part, "tools": tools, "text_forms": case.reads == "react"}
            found.append(replace(case, reads="arguments", group=case.reads, request=request))
    return tuple(found)


_OTHER_LABELS = ("\nThought", "\nAction", "\nObservation", "\n观察", "\nFinal Answer")


def _from_text(case: Case) -> dict[str, str] | None:
    """Split a text with one plain `Action:` line and one `Action Input:` behind it."""
    head, label, tail = case.request["text"].partition("\nAction Input:")
    line = head.rstrip().rpartition("\n")[2]
    if not label or not line.startswith("Action:") or "finish_reason" in case.request:
        return None
    if "<think>" in head or any(word in tail for word in _OTHER_LABELS):
        return None
    return {"tool": line.removeprefix("Action:").strip(), "text": tail.strip()}


def _from_call(case: Case) -> dict[str, str] | None:
    """Take the one call of a plain body that did not reach its length."""
    try:
        choice = case.request["wire"]["choices"][0]
        (call,) = choice["message"]["tool_calls"]
        name, text = call["function"]["name"], call["function"]["arguments"]
    except (LookupError, TypeError, ValueError):
        return None
    if choice.get("finish_reason") == "length" or case.request["options"]:
        return None
    if not isinstance(name, str) or not isinstance(text, str):
        return None
    return {"tool": name, "text": text}


_ARGUMENT_FAILURES: frozenset[FailureKind] = frozenset(
    {
        "truncated_output",
        "ambiguous_calls",
        "bad_arguments_syntax",
        "bad_arguments_shape",
        "schema_violation",
    }
)


def _is_about(case: Case, name: str) -> bool:
    """Say whether what the case says is decided by the argument text of this tool alone."""
    if name not in _schemas(case.request["tools"]) or len(case.says) != 1:
        return False
    part = case.says[0]
    return part.get("call") == name or part.get("failure") in _ARGUMENT_FAILURES


# ---------------------------------------------------------------- grading


@dataclass(frozen=True, slots=True)
class Grade:
    """A verdict, and why there was nothing to run."""

    verdict: Verdict
    why: str = ""


def grade(read: Mapping[str, Any], case: Case, parser: Parser) -> Grade:
    """Judge one answer; the rules stand in the report (`league_report.RULES`)."""
    should_refuse = "failure" in case.says[0]
    for reason in ("timeout", "crash"):
        if reason in read:
            return Grade("refused", reason)
    if read.get("final") is not None:
        return Grade("right" if _says_answer(case, read["final"]) else "wrong")
    calls = read.get("calls") or []
    if not calls:
        why = "refused" if "refused" in read else "no call"
        left_to_others = parser.calls_only and "final" in case.says[0]
        return Grade("right" if should_refuse or left_to_others else "refused", why)
    return _grade_calls(calls, case, parser, should_refuse=should_refuse)


def _says_answer(case: Case, final: Any) -> bool:
    wanted = case.says[0].get("final")
    return wanted is not None and str(final).strip() == wanted.strip()


def _grade_calls(
    calls: Sequence[Sequence[Any]], case: Case, parser: Parser, *, should_refuse: bool
) -> Grade:
    """Let an executor behind every parser refuse unknown names and what the schema refuses."""
    if not should_refuse and _is_raw_text(calls, case):
        return Grade("text")
    schemas = _schemas(case.request["tools"])
    decoded = case.reads == "arguments"  # what an argument parser gives is a value, not its text
    tried = [_executable(name, value, schemas, decoded=decoded) for name, value in calls]
    run = [call for call in tried if not isinstance(call, str)]
    if not run:
        return Grade("right" if should_refuse else "refused", str(tried[0]))
    wanted = [(p["call"], p["arguments"]) for p in case.says if "call" in p]
    if wanted and (same(run, wanted) or (parser.one_call and same(run, wanted[:1]))):
        return Grade("right")
    return Grade("wrong")


def _is_raw_text(calls: Sequence[Sequence[Any]], case: Case) -> bool:
    """Say whether the one call is the right tool with the raw argument text, not yet decoded."""
    name, value = calls[0]
    if not isinstance(value, str) or case.raw is None or case.says[0].get("call") != name:
        return False
    decoded = _executable(name, value, _schemas(case.request["tools"]))
    if not isinstance(decoded, str) and same(decoded[1], case.says[0]["arguments"]):
        return False
    return _bare(value) == _bare(case.raw)


def _bare(text: str) -> str:
    return text.strip(" \t\r\n\"'`")


def _executable(
    name: Any, value: Any, schemas: Mapping[str, Any], *, decoded: bool = False
) -> tuple[str, dict[str, Any]] | str:
    """Give the call as an executor would run it, or why it would not."""
    known = str(name).strip()
    if known not in schemas:
        return "unknown name"
    is_text = isinstance(value, str) and not decoded
    arguments = _decode_input(value, schemas[known]) if is_text else value
    if not isinstance(arguments, dict):
        return "no object"
    if not _fits(schemas[known], arguments):
        return "schema"
    return known, arguments


def _decode_input(text: str, schema: Mapping[str, Any]) -> Any:
    """Take a string input as JSON, as a Python literal, or as a tool's only text."""
    for decode in (json.loads, lambda raw: ast.literal_eval(raw.strip())):
        try:
            value = decode(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict):
            return value
    properties = schema.get("properties") or {}
    if not properties and text.strip() in {"", "None", "null", "N/A", "无"}:
        return {}
    needed = schema.get("required") or (list(properties) if len(properties) == 1 else [])
    if len(needed) == 1 and properties.get(needed[0], {}).get("type") == "string":
        return {needed[0]: text}
    return None


def _fits(schema: Any, arguments: dict[str, Any]) -> bool:
    try:
        return bool(jsonschema_rs.validator_for(schema).is_valid(arguments))
    except (ValueError, TypeError, OverflowError):
        return False


def _schemas(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    functions = [tool["function"] for tool in tools]
    return {f["name"]: f.get("parameters") or {"type": "object"} for f in functions}


def same(left: Any, right: Any) -> bool:
    """Compare values as JSON does: 1 is 1.0, True is not 1, and the order of keys is free."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    return bool(left == right)


def reads_as_given(read: Mapping[str, Any], case: Case, level: str) -> bool:
    """Say whether ours gave the reading that its level asks for, to the kind of a failure."""
    wanted = case.by_level.get(level, case.says)
    if "kind" in read:
        return any(read["kind"] == part.get("failure") for part in (*wanted, *case.also))
    if read.get("final") is not None:
        return bool(wanted[0].get("final") == read["final"])
    calls = [(part["call"], part["arguments"]) for part in wanted if "call" in part]
    return bool(calls) and same(read.get("calls") or [], calls)


# ---------------------------------------------------------------- measuring


def measure_league(
    cases: Sequence[Case],
    environments: Path,
    tell: Callable[[str], None],
    parsers: Sequence[Parser] | None = None,
) -> League:
    """Ask every parser about the cases of its table, one parser after the other."""
    tables: dict[Reads, tuple[Row, ...]] = {}
    for reads in ("react", "native", "arguments"):
        chosen = [case for case in cases if case.reads == reads]
        listed = load_parsers() if parsers is None else parsers
        rows = [p for p in listed if p.reads == reads] if chosen else []
        found = [_measure(parser, chosen, environments, tell) for parser in rows]
        tables[reads] = tuple(_grade_row(row, found) for row in found)
    return League(tables, machine())


def _measure(
    parser: Parser, cases: Sequence[Case], environments: Path, tell: Callable[[str], None]
) -> Row:
    tell(f"{parser.reads}: {parser.title}")
    with Worker(parser, environments=environments) as worker:
        said = worker.start()
        if "failed" in said:
            return Row(parser, "", said["failed"], ())
        version = versions_of(parser.peer, said) if parser.peer else f"Python {said['python']}"
        return Row(parser, version, "", tuple(_ask(worker, case) for case in cases))


def _ask(worker: Worker, case: Case) -> Answer:
    found = worker.ask({**case.request, "seconds": SECONDS}, LIMIT)
    return Answer(case, found["read"], "refused", "", False, found.get("microseconds"))


def _grade_row(row: Row, rows: Iterable[Row]) -> Row:
    """Grade a row; where ours has read a reply rightly, its raw argument text is known."""
    raw = {
        answer.case.id: answer.read["raw"][0]
        for other in rows
        if other.parser.level == "rescue"
        for answer in other.answers
        if answer.read.get("raw")
        and grade(answer.read, answer.case, other.parser).verdict == "right"
    }
    return replace(row, answers=tuple(_graded(answer, row.parser, raw) for answer in row.answers))


def _graded(answer: Answer, parser: Parser, raw: Mapping[str, str]) -> Answer:
    case = replace(answer.case, raw=raw.get(answer.case.id))
    found = grade(answer.read, case, parser)
    as_given = parser.level is not None and reads_as_given(answer.read, case, parser.level)
    return replace(answer, case=case, verdict=found.verdict, why=found.why, as_given=as_given)


def machine() -> str:
    """Describe the machine that the times are from."""
    name = platform.processor() or platform.machine()
    with_info = Path("/proc/cpuinfo")
    if with_info.is_file():
        lines = with_info.read_text(encoding="utf-8", errors="replace").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = models[0] if models else name
    cores = os.cpu_count() or 1
    return f"{name}, {cores} cores, {platform.system()}, Python {platform.python_version()}"
