"""The options in a file: `bench.toml` holds what flags hold, under the same names.

Flags win over the environment, the environment over the file. What a flag would refuse is refused
here too, with file and line; a key (of an endpoint) never stands in a file.
"""

import argparse
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from bench.arguments import add_secret
from bench.types import WorkbenchError

NAME = "bench.toml"
"""What the file is called where it is found by itself: in the working folder."""

Add = Callable[[argparse.ArgumentParser], None]

_LARGEST = 1_000_000
_SECRET = re.compile(r"(^|[-_])(key|token|secret|password|authorization|cookie)$", re.IGNORECASE)
_NEVER = ("config", "resume", "help")
"""What is said of one run only."""
_SOURCES = ("model", "endpoint", "replay", "script")
_PATHS = ("tools", "tasks", "variants", "script", "replay", "record", "results")


class _FileParser(argparse.ArgumentParser):
    """Takes words made of a file's values; a fault names their place."""

    place = ""

    def error(self, message: str) -> NoReturn:
        raise WorkbenchError(f"{self.place}: {message}")


def find_config(said: Path | None) -> Path | None:
    """Return the file to read: the one named, else the working folder's, else None."""
    if said is not None and not said.is_file():
        raise WorkbenchError(f"{said}: no such file; check --config")
    here = Path(NAME)
    return said or (here if here.is_file() else None)


def apply_config(
    options: argparse.Namespace,
    words: Sequence[str],
    path: Path,
    commands: Mapping[str, Add],
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Put a file's values into the options, where neither flag nor environment says otherwise.

    `words` begin with the command; `commands` are those that take options from a file, each with
    what adds its flags. Keys of other commands are passed over. Raises WorkbenchError.
    """
    parsers = {name: _bare(add) for name, add in commands.items()}
    known = {flag for parser in parsers.values() for flag in _flags(parser)}
    parser = parsers.get(words[0])
    found: dict[str, Any] = {}
    for key, value, place in _read(path):
        flag = _flag_of(key, known, place)
        _refuse_secret(key, value, place)
        if parser is None or flag not in _flags(parser):
            found |= _for_any(flag, value, place, options) if parser is None else {}
            continue
        parser.place = place
        found |= vars(parser.parse_args(_words(parser, flag, value, place)))
    said = set() if parser is None else set(_said(parser, words[1:]))
    if "secret" in found:  # here nothing said wins: both are hidden
        found["secret"] = [*(options.secret or ()), *found["secret"]]
        said.discard("secret")
    for name, value in _unsaid(found, said, options, environ).items():
        setattr(options, name, _under(path.parent, name, value))
    if parser is not None and not getattr(options, "resume", None):
        options.config = str(path)


def _for_any(flag: str, value: Any, place: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what a file says to a command that takes no more of it: places, and what is secret."""
    if flag == "--results" and hasattr(options, "results"):
        return {"results": Path(str(value))}
    if flag == "--secret":
        parser = _bare(add_secret)
        parser.place = place
        return vars(parser.parse_args(_words(parser, flag, value, place)))
    return {}


def _bare(add: Add) -> _FileParser:
    """Return a parser that tells only what was said: no defaults, nothing required."""
    parser = _FileParser(add_help=False)
    add(parser)
    for action in parser._actions:  # noqa: SLF001 (argparse has no other way to ask)
        action.default, action.required = argparse.SUPPRESS, False
    return parser


def _flags(parser: _FileParser) -> dict[str, argparse.Action]:
    listed = parser._actions  # noqa: SLF001 (as above)
    return {flag: action for action in listed for flag in action.option_strings}


def _said(parser: _FileParser, words: Sequence[str]) -> dict[str, Any]:
    found, _ = parser.parse_known_args(list(words))
    return vars(found)


# ---------------------------------------------------------------- the file


def _read(path: Path) -> Iterator[tuple[str, Any, str]]:
    """Yield each key with its value and place."""
    try:
        if path.stat().st_size > _LARGEST:
            raise WorkbenchError(f"{path}:1: is larger than 1 MB; write options only")
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        values = tomllib.loads(text)
    except OSError as problem:
        raise WorkbenchError(f"{path}: cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise WorkbenchError(f"{path}:1: is not UTF-8; save it so") from None
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise WorkbenchError(_explain(path, text, str(problem))) from None
    for key, value in values.items():
        yield key.strip().replace("_", "-"), value, f"{path}:{_line_of(text, key)}"


def _explain(path: Path, text: str, problem: str) -> str:
    """Say where TOML is broken: the reader tells line and column in its sentence."""
    found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", problem)
    said = problem if found is None else problem[: found.start()]
    last = max(len(text.rstrip().split("\n")), 1)
    line = last if found is None or found[1] is None else int(found[1])
    return f'{path}:{line}: not TOML ({said}); write name = "text", name = 3 or name = ["a", "b"]'


def _line_of(text: str, key: str) -> int:
    form = re.compile(rf"[ \t]*\[{{0,2}}[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*[=.\]]")
    lines = enumerate(text.split("\n"), 1)
    return next((number for number, line in lines if form.match(line)), 1)


def _flag_of(key: str, known: set[str], place: str) -> str:
    from bench.tools.data import match_names  # noqa: PLC0415 (only where there is a file)

    names = {flag.removeprefix("--") for flag in known} - {*_NEVER, "api-key"}
    if key in names:
        return f"--{key}"
    if _SECRET.search(key):
        raise WorkbenchError(
            f"{place}: {key}: keys are never read from a file; set LLM_API_KEY in the environment"
        )
    if key in _NEVER:
        raise WorkbenchError(f"{place}: {key} is said of one run; give it as --{key}")
    near = match_names(key[:80], names)
    told = f"did you mean {near[0]}?" if near else "see python -m bench compare --help"
    raise WorkbenchError(f"{place}: no option {key[:80]!r}; {told}")


def _refuse_secret(key: str, value: Any, place: str) -> None:
    """Refuse headers and further fields that hold a key, wherever they stand."""
    names: list[str] = []
    if key == "header":
        listed = value if isinstance(value, list) else [value]
        names = [str(text).partition("=")[0].strip() for text in listed]
    elif key == "extra-body":
        names = list(_names_in(value))
    for name in names:
        if _SECRET.search(name):
            raise WorkbenchError(
                f"{place}: {key} holds {name!r}: keys are never read from a file; give it as "
                f"--{key} on the command line"
            )


def _names_in(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str) and depth == 0:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return
    if depth > 32:
        return
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, part in inner:
        if isinstance(name, str):
            yield name
        yield from _names_in(part, depth + 1)


# ---------------------------------------------------------------- values


def _words(parser: _FileParser, flag: str, value: Any, place: str) -> list[str]:
    """Return a value as the words that would say it on the command line."""
    action = _flags(parser)[flag]
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise WorkbenchError(f"{place}: {flag[2:]} is {value!r}; write true or false")
        return _switch(parser, flag, on=value)
    if isinstance(value, dict) and flag == "--extra-body":
        return [f"{flag}={json.dumps(value, default=str)}"]
    several = action.nargs == "+" or type(action).__name__ == "_AppendAction"
    if isinstance(value, list) and not several:
        raise WorkbenchError(f"{place}: {flag[2:]} takes one value, not a list")
    items = value if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            told = "a text or number" + (", or a list of them" if several else "")
            raise WorkbenchError(f"{place}: {flag[2:]} is {item!r}; write {told}")
    return [f"{flag}={item}" for item in items]


def _switch(parser: _FileParser, flag: str, *, on: bool) -> list[str]:
    if on:
        return [flag]
    opposite = f"--no-{flag[2:]}"
    return [opposite] if opposite in _flags(parser) else []


def _unsaid(
    found: Mapping[str, Any],
    said: set[str],
    options: argparse.Namespace,
    environ: Mapping[str, str],
) -> dict[str, Any]:
    """Return what of a file's values holds: where a reply comes from is one decision."""
    dropped = set(said)
    if said & set(_SOURCES) or environ.get("LLM_MODEL"):
        dropped |= set(_SOURCES)
    if {"model", "endpoint"} & set(found) - dropped:
        dropped.add("script")
    if environ.get("LLM_BASE_URL") or environ.get("OPENAI_BASE_URL"):
        dropped.add("base_url")
    if said & {"base_url", "api_key"} or environ.get("LLM_BASE_URL"):
        dropped |= {"endpoint", "replay", "script"}
    if getattr(options, "resume", None):
        dropped |= _choice_names()  # a run that goes on has its own options in its manifest
    return {name: value for name, value in found.items() if name not in dropped}


def _choice_names() -> set[str]:
    from dataclasses import fields  # noqa: PLC0415 (only where there is a file)

    from bench.choice import Choice  # noqa: PLC0415 (the same)

    return {item.name for item in fields(Choice)}


def _under(folder: Path, name: str, value: Any) -> Any:
    """Return a path as seen from the working folder: in the file it is seen from the file."""
    if name not in _PATHS or folder == Path():
        return value
    if isinstance(value, list):
        return [_under(folder, name, item) for item in value]
    if isinstance(value, Path):
        return folder / value
    # a module's name is no path
    is_path = name != "tools" or re.search(r"\.(py|json|ya?ml)(:\w+)?$", value)
    return str(folder / value) if is_path else value
