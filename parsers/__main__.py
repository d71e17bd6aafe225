"""Read replies from a pipe: `python -m parsers react|native --tools FILE`.

It reads standard input, prints readings as JSON, and decides nothing about them.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from parsers.native import parse_native
from parsers.react import parse_react
from parsers.types import DIALECTS, LEVELS, Failure, Reading, Tool, as_tools
from parsers.wire import parse_response

_MESSAGE_KEYS = {"role", "content", "tool_calls", "function_call", "reasoning_content"}
_WIRE_KEYS = {"choices", "error", "_body", "_http", "body", "status", "object"}


class Refused(Exception):  # noqa: N818
    """What the user asked for cannot be done; the words are one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message} (see python -m parsers --help)")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; give the exit status."""
    try:
        asked = _ask(arguments)
        tools = _load_tools(asked.tools)
        if asked.jsonl:
            for line in _read_cases(asked, tools):
                _print(line)
        else:
            _print(_read_one(asked, tools))
    except Refused as refused:
        _say(str(refused))
        return 2
    except BrokenPipeError:
        sys.stderr.close()
    return 0


def _ask(arguments: list[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m parsers",
        description="Read a model's reply from standard input and print what it says as JSON.",
    )
    parser.add_argument("way", choices=("react", "native"), help="how the model was asked")
    parser.add_argument(
        "--tools", metavar="FILE", required=True, help="a JSON list of tools in OpenAI's format"
    )
    parser.add_argument("--level", choices=LEVELS, default="hardened", help="how much is mended")
    parser.add_argument(
        "--dialect", choices=DIALECTS, default="json", help="the form that the prompt asked for"
    )
    parser.add_argument("--finish-reason", metavar="REASON", help="why the model stopped")
    parser.add_argument(
        "--jsonl", action="store_true", help="one case a line (id, and text or wire)"
    )
    return parser.parse_args(arguments)


def _load_tools(name: str) -> tuple[Tool, ...]:
    try:
        text = Path(name).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise Refused(f"{_line(name)}: {error.strerror or 'cannot be read'}") from None
    except (UnicodeDecodeError, ValueError):
        raise Refused(f"{_line(name)}: is not UTF-8 text") from None
    return _as_tools(_decode(text, _line(name)), _line(name))


def _as_tools(value: Any, where: str) -> tuple[Tool, ...]:
    if not isinstance(value, list):
        raise Refused(f"{where}: the tools must be a list in OpenAI's format")
    for number, entry in enumerate(value, 1):
        function = entry.get("function", entry) if isinstance(entry, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise Refused(f"{where}: tool {number} needs a function with a name")
        if not isinstance(function.get("parameters") or {}, Mapping):
            raise Refused(f"{where}: the parameters of tool {number} must be a JSON Schema object")
    return as_tools(value)


def _decode(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Refused(
            f"{where}: is not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
        ) from None
    except (ValueError, RecursionError):
        raise Refused(f"{where}: is JSON with a number too long or nested too deep") from None


def _read_one(asked: argparse.Namespace, tools: tuple[Tool, ...]) -> dict[str, Any]:
    data = sys.stdin.buffer.read()
    if asked.way == "react":
        case: dict[str, Any] = {"text": data.decode("utf-8", "replace")}
    else:
        case = {"wire": _wire(data)}
    return _shape(_read(case, asked, tools))


def _wire(data: bytes) -> Any:
    """Take JSON as a message, a body or a list of events, anything else as a stream's bytes."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    return value if isinstance(value, dict | list) else data


def _read_cases(asked: argparse.Namespace, tools: tuple[Tool, ...]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        text = line.decode("utf-8", "replace").removeprefix("\ufeff")
        if text.strip():
            where = f"stdin:{number}"
            case = _check(_decode(text, where), asked.way, where)
            offered = _as_tools(case["tools"], where) if "tools" in case else tools
            yield {"id": case.get("id"), **_shape(_read(case, asked, offered))}


def _check(case: Any, way: str, where: str) -> dict[str, Any]:
    if not isinstance(case, dict):
        raise Refused(f"{where}: a case must be a JSON object")
    if way == "react" and not isinstance(case.get("text"), str):
        raise Refused(f'{where}: a case needs "text", a string')
    if way == "native" and "wire" not in case:
        raise Refused(f'{where}: a case needs "wire"')
    if case.get("dialect", "json") not in DIALECTS:
        raise Refused(f"{where}: dialect must be one of {', '.join(DIALECTS)}")
    return case


def _read(case: Mapping[str, Any], asked: argparse.Namespace, tools: tuple[Tool, ...]) -> Reading:
    finish = case.get("finish_reason", asked.finish_reason)
    finish = finish if isinstance(finish, str) else None
    if asked.way == "react":
        dialect = case.get("dialect", asked.dialect)
        return parse_react(
            case["text"], tools, level=asked.level, dialect=dialect, finish_reason=finish
        )
    given = case.get("_request")
    request = given if isinstance(given, Mapping) else {}
    wire = case["wire"]
    bare = (
        isinstance(wire, Mapping) and _MESSAGE_KEYS & wire.keys() and not _WIRE_KEYS & wire.keys()
    )
    read = parse_native if bare else parse_response
    return read(
        wire,
        tools,
        level=asked.level,
        finish_reason=finish,
        tool_choice=request.get("tool_choice", "auto"),
        parallel_tool_calls=request.get("parallel_tool_calls", True),
    )


def _shape(reading: Reading) -> dict[str, Any]:
    return {
        "thought": reading.thought,
        "calls": [
            {"name": call.name, "arguments": call.arguments, "failure": _failure(call.failure)}
            for call in reading.calls
        ],
        "final": reading.final,
        "failure": _failure(reading.failure),
        "repairs": [repair.name for repair in reading.repairs],
    }


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "kind": failure.kind,
        "detail": failure.detail,
        "message": failure.message,
        "position": failure.position,
        "field": failure.field,
    }


def _print(value: dict[str, Any]) -> None:
    """Write UTF-8 whatever the locale is; half a character is written as its escape."""
    line = json.dumps(value, ensure_ascii=False)
    if any("\ud800" <= sign <= "\udfff" for sign in line):
        line = json.dumps(value)
    sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
    sys.stdout.buffer.flush()


def _line(name: str) -> str:
    return name.encode("unicode_escape").decode("ascii") if not name.isprintable() else name


def _say(words: str) -> None:
    sys.stderr.buffer.write(f"python -m parsers: {words}\n".encode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    sys.exit(main())
