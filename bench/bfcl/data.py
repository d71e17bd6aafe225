"""Find BFCL's data and turn its rows into tasks with tools. Imports nothing of BFCL."""

import importlib.util
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.paths import find_datasets
from bench.tools.schema import Entry
from bench.tools.toolbox import Toolbox
from bench.types import Fields, Gold, Spelling, Task, WantedCall, WorkbenchError
from parsers import Tool

PREFIX = "bfcl:"
CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
)
RECORDED = {"result": "recorded"}
"""What every call is answered with, in both ways: BFCL's functions do not exist."""
MAX_FILE = 40_000_000
"""Bytes of a file of questions; the largest of bfcl-eval 2026.3.23 has under a tenth of it."""
MAX_WHEEL = 40_000_000
MAX_RATIO = 100
"""A packed file that grows by more than this, past a first MB, is taken for a bomb."""
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How a wheel's files may be packed: these can be unpacked piece by piece."""
_CHECKER = "bfcl_eval/eval_checker/ast_eval/ast_checker.py"
_TYPES: Mapping[str, str] = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "list": "array",
    "bool": "boolean",
    "any": "string",
}
"""BFCL's names of types that JSON Schema calls otherwise."""
_LEFT_OUT = frozenset({"type", "optional", "properties", "items"})


def is_bfcl(words: Sequence[str]) -> bool:
    """Tell whether `--tasks` names BFCL's categories."""
    return bool(words) and words[0].startswith(PREFIX)


def read_categories(words: Sequence[str]) -> tuple[str, ...]:
    """Read `bfcl:simple_python,multiple`, also in several words; each category once."""
    names = [name.removeprefix(PREFIX) for word in words for name in word.split(",") if name]
    for name in names:
        if name not in CATEGORIES:
            known = ",".join(CATEGORIES)
            raise WorkbenchError(f"--tasks bfcl:{name}: no such category; known: {known}")
    return tuple(dict.fromkeys(names))


# ---------------------------------------------------------------- where it is


@dataclass(frozen=True, slots=True)
class Source:
    """A bfcl-eval that was found: how its data files are read, and where its checker is."""

    place: str
    """What a user calls it."""
    version: str | None
    """None: a folder that does not say."""
    names: tuple[str, ...]
    """The data files, as `BFCL_v4_multiple.json` and `possible_answer/BFCL_v4_multiple.json`."""
    read: Callable[[str], bytes] = field(repr=False)
    package: Path | None
    """What goes on Python's path for the checker; None: data only."""

    @property
    def judge(self) -> str:
        """The checker's name with its version."""
        return f"bfcl_eval=={self.version or 'unknown'}"


def find_source(path: Path | None) -> Source:
    """Find BFCL: a wheel, a checkout, a folder, or without a path the installed `bfcl-eval`."""
    if path is None:
        spec = importlib.util.find_spec("bfcl_eval")  # of a top-level name: imports nothing
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places:
            raise WorkbenchError(
                "--tasks bfcl:… needs BFCL's data: pip install --no-deps bfcl-eval, "
                "or name a wheel, a checkout or a folder with --bfcl PATH"
            )
        path = Path(places[0])
    if path.is_file() and zipfile.is_zipfile(path):
        return _open_wheel(path)
    return _open_folder(path)


def _open_wheel(path: Path) -> Source:
    if path.stat().st_size > MAX_WHEEL:
        raise WorkbenchError(f"--bfcl {path}: larger than {MAX_WHEEL // 1_000_000} MB; refused")
    try:
        archive = zipfile.ZipFile(path)
    except (*_BROKEN, ValueError, OverflowError) as error:
        raise WorkbenchError(f"--bfcl {path}: not a wheel ({error})") from None
    start = "bfcl_eval/data/"
    names = [name.removeprefix(start) for name in archive.namelist() if name.startswith(start)]

    def read(name: str) -> bytes:
        return _unpack(archive, archive.getinfo(start + name), path)

    found = re.match(r"bfcl_eval-([^-]+)-", path.name)
    package = path if _CHECKER in archive.namelist() else None
    return _checked(Source(str(path), found and found[1], tuple(names), read, package))


_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError)


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> bytes:
    """Unpack a file of a wheel, whatever its header says of it, within bounds."""
    if info.file_size > min(MAX_FILE, max(MAX_RATIO * info.compress_size, 1_000_000)):
        raise WorkbenchError(f"{path}: {info.filename} grows beyond all measure; refused")
    if info.compress_type not in _PACKED:
        raise WorkbenchError(f"{path}: {info.filename} is packed in a way that wheels are not")
    try:
        with archive.open(info) as file:
            return file.read(info.file_size)  # given a size, no more than that is unpacked
    except _BROKEN as error:
        raise WorkbenchError(f"{path}: {info.filename} can't be unpacked ({error})") from None


def _open_folder(path: Path) -> Source:
    below = ("", "data", "bfcl_eval/data", "berkeley-function-call-leaderboard/bfcl_eval/data")
    data = next((path / part for part in below if any((path / part).glob("BFCL_v*.json"))), None)
    if data is None:
        raise WorkbenchError(
            f"--bfcl {path}: no BFCL data there; give a bfcl-eval wheel, a checkout of gorilla, "
            "or the folder with BFCL_v4_simple_python.json"
        )
    names = [file.relative_to(data).as_posix() for file in data.rglob("BFCL_v*.json")]

    def read(name: str) -> bytes:
        if (data / name).stat().st_size > MAX_FILE:
            raise WorkbenchError(f"{data / name}: is larger than {MAX_FILE // 1_000_000} MB")
        return (data / name).read_bytes()

    above = data.resolve().parent.parent
    package = above if (above / _CHECKER).is_file() else None
    return _checked(Source(str(path), _version_beside(above), tuple(names), read, package))


def _version_beside(folder: Path) -> str | None:
    """Return the version of the distribution that a package folder belongs to."""
    for info in folder.glob("bfcl_eval-*.dist-info"):
        return metadata.PathDistribution(info).version
    return None


def _checked(source: Source) -> Source:
    if not any(Path(name).name.startswith("BFCL_v") for name in source.names):
        raise WorkbenchError(f"--bfcl {source.place}: holds no BFCL data; is it bfcl-eval's wheel?")
    return source


# ---------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class Row:
    """One question of BFCL as it stands in the data."""

    id: str
    category: str
    question: tuple[Mapping[str, Any], ...]
    functions: tuple[Mapping[str, Any], ...]
    truth: tuple[Mapping[str, Mapping[str, Sequence[Any]]], ...] | None
    """For each wanted call its parameters' acceptable values; None: no call is wanted."""


def load_rows(source: Source, categories: Sequence[str]) -> tuple[Row, ...]:
    """Read the rows of some categories, in the order of the files."""
    return tuple(row for name in categories for row in _read_category(source, name))


def _read_category(source: Source, category: str) -> Iterator[Row]:
    file = find_file(source, category)
    wanted = "irrelevance" not in category
    truths = dict(_read_truths(source, f"possible_answer/{file}")) if wanted else {}
    for place, line in _read_lines(source, file):
        match line:
            case {"id": str(name), "question": [[*question]], "function": [*functions]}:
                if wanted and name not in truths:
                    raise WorkbenchError(f"{place}: {name} has no possible answer")
                if not all(map(_is_function, functions)) or not all(map(_is_message, question)):
                    raise WorkbenchError(f"{place}: not a single-turn row of BFCL")
                yield Row(name, category, tuple(question), tuple(functions), truths.get(name))
            case _:
                raise WorkbenchError(f"{place}: not a single-turn row of BFCL")


def find_file(source: Source, category: str) -> str:
    """Return the file of a category's questions, of the latest version there."""
    pattern = re.compile(rf"BFCL_v(\d+)_{category}\.json")
    found = [(int(m[1]), name) for name in source.names if (m := pattern.fullmatch(name))]
    if not found:
        raise WorkbenchError(f"--bfcl {source.place}: holds no BFCL_v4_{category}.json")
    return max(found)[1]


def _read_truths(
    source: Source, file: str
) -> Iterator[tuple[str, tuple[Mapping[str, Mapping[str, Sequence[Any]]], ...]]]:
    if file not in source.names:
        raise WorkbenchError(f"--bfcl {source.place}: holds no {file}")
    for place, line in _read_lines(source, file):
        match line:
            case {"id": str(name), "ground_truth": [*calls]} if all(map(_is_wanted, calls)):
                yield name, tuple(calls)
            case _:
                raise WorkbenchError(f"{place}: not a possible answer of BFCL")


def _read_lines(source: Source, file: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(io.BytesIO(source.read(file)), 1):
        if not line.strip():
            continue
        place = f"{source.place}/{file}:{number}"
        try:
            yield place, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise WorkbenchError(f"{place}: not JSON ({error})") from None


def _is_function(value: Any) -> bool:
    match value:
        case {"name": str(), "parameters": {"properties": {}}}:
            return True
    return False


def _is_message(value: Any) -> bool:
    match value:
        case {"role": str(), "content": str()}:
            return True
    return False


def _is_wanted(value: Any) -> bool:
    match value:
        case {**calls} if len(calls) == 1:
            (values,) = calls.values()
            return isinstance(values, dict) and all(isinstance(v, list) for v in values.values())
    return False


# ---------------------------------------------------------------- tools


def wire_name(name: str) -> str:
    """Return a function's name as endpoints take it, as BFCL itself does for them."""
    return name.replace(".", "_")


def make_tools(row: Row) -> tuple[Tool, ...]:
    """Return the tools of a row: the same names and schemas in both ways."""
    return tuple(
        Tool(
            wire_name(function["name"]),
            str(function.get("description") or ""),
            to_schema(function["parameters"]),
        )
        for function in row.functions
    )


def make_toolbox(row: Row) -> Toolbox:
    """Return a toolbox whose tools run nothing and answer that the call was recorded."""
    return Toolbox(tuple(Entry(tool, _record) for tool in make_tools(row)))


def _record(**_: Any) -> Mapping[str, str]:
    return RECORDED


def to_schema(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a parameter's description as JSON Schema."""
    kind = str(part.get("type", "string"))
    schema: dict[str, Any] = {"type": _TYPES.get(kind, kind)}
    schema |= {k: v for k, v in part.items() if k not in _LEFT_OUT and _is_sound(k, v)}
    if isinstance(part.get("properties"), Mapping):
        schema["properties"] = {name: to_schema(p) for name, p in part["properties"].items()}
    if isinstance(part.get("items"), Mapping):
        schema["items"] = to_schema(part["items"])
    return schema


def _is_sound(key: str, value: Any) -> bool:
    """Leave out a default of null, which says that there is none, and lists that are none."""
    return value is not None and (key not in ("required", "enum") or isinstance(value, list))


# ---------------------------------------------------------------- tasks


def make_task(row: Row) -> Task:
    """Return a row as a task: its calls in any order; its language is not told apart."""
    return Task(
        id=row.id,
        pair=row.id,
        lang="en",
        category=row.category,
        toolset=PREFIX + row.id,
        question=flatten(row.question),
        gold=make_gold(row),
    )


def flatten(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return a question as one text: both ways have a system message of their own.

    A row's system message stands above the question; of several turns each says whose it is.
    """
    if [m["role"] for m in messages] in (["user"], ["system", "user"]):
        return "\n\n".join(m["content"] for m in messages)
    return "\n\n".join(f"{m['role']}: {m['content']}" for m in messages)


def make_gold(row: Row) -> Gold:
    """Return the calls that a row wants, with the values that BFCL accepts."""
    functions = {function["name"]: function for function in row.functions}
    calls = [next(iter(call.items())) for call in row.truth or ()]
    return Gold(calls=tuple(_wanted(n, values, functions.get(n, {})) for n, values in calls))


def _wanted(
    name: str, values: Mapping[str, Sequence[Any]], function: Mapping[str, Any]
) -> WantedCall:
    parameters = function.get("parameters", {})
    required = set(parameters.get("required") or ())
    kinds = {key: part.get("type") for key, part in parameters.get("properties", {}).items()}
    forms = {key: tuple(_forms(listed, kinds.get(key))) for key, listed in values.items()}
    return WantedCall(
        wire_name(name),
        {key: found for key, found in forms.items() if found},
        frozenset(key for key, listed in values.items() if "" in listed and key not in required),
    )


def _forms(listed: Sequence[Any], kind: Any) -> Iterator[Any]:
    """Yield what a parameter may be; "" says that it may be left out, but in texts it is one too."""
    for value in _last_empty(listed):
        if value != "" or kind in ("string", "any"):
            yield acceptable_form(value)


def _last_empty(listed: Sequence[Any]) -> list[Any]:
    """Put "" last: a replay takes the first."""
    return sorted(listed, key=lambda value: value == "")


def acceptable_form(value: Any, *, listed: bool = True) -> Any:
    """Return an acceptable value of BFCL's as our judge takes it.

    Texts are the same where only case, spaces and `,./-_*^` differ, which is how BFCL's answers are
    meant. An object gives a list of acceptable values for each key, but not one inside another.
    """
    match value:
        case str():
            return Spelling(value)
        case list():
            return [acceptable_form(item, listed=listed) for item in value]
        case dict() if listed and all(isinstance(item, list) for item in value.values()):
            forms = {k: tuple(_inner_forms(items)) for k, items in value.items()}
            return Fields(forms, frozenset(k for k, items in value.items() if "" in items))
        case dict():
            return {k: acceptable_form(item, listed=False) for k, item in value.items()}
    return value


def _inner_forms(items: Sequence[Any]) -> Iterator[Any]:
    return (acceptable_form(item, listed=False) for item in _last_empty(items))


# ---------------------------------------------------------------- rows known to be bad


def load_known_bad(version: str | None, path: Path | None = None) -> dict[str, str]:
    """Return id and reason of the rows whose own truth is refused, listed for this version.

    A BFCL that does not tell its version is held to the whole list.
    """
    file = path or find_datasets() / "bfcl_known_bad.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return {row["id"]: row["reason"] for row in rows if version in (None, row["version"])}
