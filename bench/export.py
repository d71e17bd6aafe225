"""Write a run as tables for other programs: episodes, turns, calls, readings; CSV or Parquet.

One row each, in columns of text and numbers; what is nested is JSON text. Texts of models are
written as they are, so open them with a program, not with a spreadsheet that runs formulas.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any

from bench import secret
from bench.drivers import open_reply
from bench.records import RunFolder, reply_from_json
from bench.types import WorkbenchError

FORMS = ("csv", "parquet")
KEYS = ("endpoint", "arm", "task_id", "pair", "lang", "category", "variant", "trial", "step")
"""What joins the tables: an episode's row has all of them but `step`."""

_PART = 1_000
"""Episodes whose rows are held at once."""

Line = Mapping[str, Any]
Row = dict[str, Any]


def export(folder: RunFolder, form: str, out: Path | None = None) -> list[Path]:
    """Write a run's tables into a folder (default: `export` in the run's); return the files.

    Raises WorkbenchError where the run holds no episode, where Parquet is asked for without
    pyarrow, and where nothing can be written.
    """
    if form not in FORMS:
        raise WorkbenchError(f"--to {form}: no such form; known: {', '.join(FORMS)}")
    if form == "parquet" and find_spec("pyarrow") is None:
        raise WorkbenchError(
            "--to parquet needs pyarrow: pip install 'toolcall-workbench[parquet]', or take --to csv"
        )
    lines = folder.stored()
    if not lines:
        raise WorkbenchError(f"{folder.path}: holds no finished episode; resume the run first")
    where = out or folder.path / "export"
    try:
        where.mkdir(parents=True, exist_ok=True)
        paths = [where / f"{name}.{form}" for name in ("episodes", *_TABLES)]
        _write_episodes(lines, paths[0])
        _write_rows(lines, paths[1:])
    except OSError as error:
        raise WorkbenchError(
            f"{where}: can't be written ({error.strerror}); choose --out DIR"
        ) from None
    return paths


def _write_episodes(lines: Sequence[Line], path: Path) -> None:
    from bench.tables import episode_table, plain_frame  # noqa: PLC0415 (pandas takes time to load)

    with _writer(path) as write:
        write(plain_frame(episode_table(lines).drop(columns="line"), _plain))


def _write_rows(lines: Sequence[Line], paths: Sequence[Path]) -> None:
    """Write the tables of what was said: never more than a part of them is held."""
    from bench.tables import frame_of  # noqa: PLC0415 (pandas takes time to load)

    with ExitStack() as stack:
        writers = [stack.enter_context(_writer(path)) for path in paths]
        for part in chain([[]], _parted(lines)):  # an empty table has its columns, too
            for write, (types, rows) in zip(writers, _TABLES.values(), strict=True):
                write(frame_of([_flat(row) for line in part for row in rows(line)], types))


def _parted(lines: Iterable[Line]) -> Iterator[list[Line]]:
    rest = iter(lines)
    while part := list(islice(rest, _PART)):
        yield part


@contextmanager
def _writer(path: Path) -> Iterator[Callable[[Any], None]]:
    """Open a file; yield what adds a table to it, each of the same columns and types."""
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            yield lambda frame: frame.to_csv(
                file, index=False, header=not file.tell(), lineterminator="\n"
            )
        return
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
    from pyarrow import parquet  # noqa: PLC0415

    with ExitStack() as stack:
        opened: list[Any] = []

        def write(frame: Any) -> None:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            if not opened:
                opened.append(stack.enter_context(parquet.ParquetWriter(path, table.schema)))
            if table.num_rows:
                opened[0].write_table(table)

        yield write


def _flat(row: Row) -> Row:
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """Return a value that every table can hold: what is nested as JSON, no lone surrogate."""
    if isinstance(value, (Mapping, list, tuple)):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return secret.hide(value).encode("utf-8", "backslashreplace").decode()
    return value


def _steps(line: Line) -> Iterator[tuple[Row, Mapping[str, Any]]]:
    """Yield each turn with what says where it belongs."""
    from bench.tables import arm_label  # noqa: PLC0415 (pandas takes time to load)

    known = {name: line.get(name) for name in KEYS if name not in ("arm", "step")}
    for step, turn in enumerate(line.get("turns") or ()):
        yield {**known, "arm": arm_label(line), "step": step}, turn


def turn_rows(line: Line) -> Iterator[Row]:
    """Yield a row for each reply of an episode: what was added to the history, and what came."""
    for key, turn in _steps(line):
        reply = reply_from_json(turn["reply"])
        answer = open_reply(reply)
        yield {
            **key,
            "corrects": bool(turn.get("corrects")),
            "sent": list(turn["sent"]),
            "status": reply.status,
            "text": answer.text,
            "reasoning": answer.reasoning,
            "finish_reason": answer.finish_reason,
            "body": reply.body,
            "seconds": reply.seconds,
            "first_token": reply.first_token,
            "prompt_tokens": reply.usage.prompt,
            "completion_tokens": reply.usage.completion,
            "cached_tokens": reply.usage.cached,
            "reasoning_tokens": reply.usage.reasoning,
            "retries": len(reply.attempts),
            "model": reply.model,
            "fingerprint": reply.fingerprint,
        }


def reading_rows(line: Line) -> Iterator[Row]:
    """Yield a row for each reply: what was read in it, at the level of the run."""
    from bench.records import reading_from_json  # noqa: PLC0415 (beside its only use)

    for key, turn in _steps(line):
        reading = reading_from_json(turn["reading"])
        failure = reading.failure
        yield {
            **key,
            "level": line.get("level"),
            "outcome": reading.outcome,
            "thought": reading.thought,
            "final": reading.final,
            "calls": len(reading.calls),
            "failure": failure.kind if failure else None,
            "detail": failure.detail if failure else None,
            "message": failure.message if failure else None,
            "position": failure.position if failure else None,
            "field": failure.field if failure else None,
            "repairs": [repair.name for repair in reading.repairs],
            "dropped": [[span.start, span.end, span.reason] for span in reading.dropped],
        }


def call_rows(line: Line) -> Iterator[Row]:
    """Yield a row for each call that was read or tried, with its result where it has one."""
    for key, turn in _steps(line):
        calls = turn["reading"].get("calls") or ()
        results = list(turn.get("results") or ())
        for number, call in enumerate(calls):
            result = results[number] if len(results) == len(calls) else {}
            failure = call.get("failure") or {}
            yield {
                **key,
                "number": number,
                "id": call.get("id"),
                "tool": call.get("name"),
                "arguments": call.get("arguments"),
                "raw": call.get("raw"),
                "failure": failure.get("kind"),
                "detail": failure.get("detail"),
                "result": result.get("content"),
                "error": result.get("error", False) if result else None,
                "leave": result.get("leave"),
                "seconds": result.get("seconds"),
            }


def _typed(text: str, **types: str) -> dict[str, str]:
    """Return the pandas type of each column: of the keys, of texts, and of those that are named."""
    keys = {name: "Int64" if name in ("trial", "step") else "string" for name in KEYS}
    return {**keys, **{name: types.get(name, "string") for name in text.split()}}


_WHOLE = "Int64"
_TABLES: Mapping[str, tuple[Mapping[str, str], Callable[[Line], Iterator[Row]]]] = {
    "turns": (
        _typed(
            "corrects sent status text reasoning finish_reason body seconds first_token "
            "prompt_tokens completion_tokens cached_tokens reasoning_tokens retries model fingerprint",
            **dict.fromkeys(("seconds", "first_token"), "Float64"),
            **dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens"), _WHOLE),
            **dict.fromkeys(("status", "reasoning_tokens", "retries"), _WHOLE),
            corrects="boolean",
        ),
        turn_rows,
    ),
    "calls": (
        _typed(
            "number id tool arguments raw failure detail result error leave seconds",
            number=_WHOLE,
            error="boolean",
            seconds="Float64",
        ),
        call_rows,
    ),
    "readings": (
        _typed(
            "level outcome thought final calls failure detail message position field repairs "
            "dropped",
            calls=_WHOLE,
            position=_WHOLE,
        ),
        reading_rows,
    ),
}
