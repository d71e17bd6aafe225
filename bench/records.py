"""What a run keeps: values as JSON and back, and run folders.

Reads and writes files under the paths it is given; asks no model and judges nothing. Whatever is
read back is bounded: files come from other people.
"""

import hashlib
import json
import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from bench.types import (
    Attempt,
    Episode,
    Reply,
    ToolResult,
    Turn,
    Usage,
    WorkbenchError,
)
from parsers import Call, Dropped, Failure, Reading, Repair

FORMAT = 1
"""Version of the run folder and of recordings; a file of a later one is refused."""
MAX_LINE = 32 * 1024 * 1024
SYNC_SECONDS = 1.0
"""Between two waits for the disk: a wait takes as long as several quick episodes."""


_PLAIN = frozenset({str, int, float, bool, type(None)})


@cache
def _shape(kind: type) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a dataclass with what each is when left out."""
    shape = []
    for item in fields(kind):
        made = item.default_factory() if item.default_factory is not MISSING else item.default
        shape.append((item.name, made))
    return tuple(shape)


def to_json(value: Any) -> Any:
    """Turn a value of `bench.types` or `parsers` into plain JSON; what equals its default is left out."""
    if type(value) in _PLAIN:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {
            name: to_json(item)
            for name, default in _shape(type(value))
            if (item := getattr(value, name)) != default or default is MISSING
        }
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


def dump_line(value: Any) -> bytes:
    """Write one JSON value as a line of UTF-8; a lone surrogate is written as its escape."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def reading_from_json(data: Mapping[str, Any]) -> Reading:
    """Take back what `to_json` made of a reading."""
    return Reading(
        thought=data.get("thought", ""),
        calls=tuple(_call(item) for item in data.get("calls", ())),
        final=data.get("final"),
        failure=_failure(data.get("failure")),
        repairs=tuple(Repair(**item) for item in data.get("repairs", ())),
        dropped=tuple(Dropped(**item) for item in data.get("dropped", ())),
    )


def _failure(data: Mapping[str, Any] | None) -> Failure | None:
    return None if data is None else Failure(**data)


def _call(data: Mapping[str, Any]) -> Call:
    return Call(**{**data, "failure": _failure(data.get("failure"))})


def reply_from_json(data: Mapping[str, Any]) -> Reply:
    """Take back what `to_json` made of a reply."""
    usage = Usage(**data.get("usage", {}))
    attempts = tuple(Attempt(**item) for item in data.get("attempts", ()))
    return Reply(**{**data, "usage": usage, "attempts": attempts})


def turn_from_json(data: Mapping[str, Any]) -> Turn:
    """Take back what `to_json` made of a turn."""
    return Turn(
        sent=tuple(data["sent"]),
        reply=reply_from_json(data["reply"]),
        reading=reading_from_json(data["reading"]),
        results=tuple(ToolResult(**item) for item in data.get("results", ())),
        corrects=data.get("corrects", False),
    )


def episode_to_json(episode: Episode, score: Any = None) -> dict[str, Any]:
    """Give the line of episodes.jsonl: text and numbers at the top level, then turns and score."""
    line = {item.name: getattr(episode, item.name) for item in fields(episode)}
    line["dialect"] = episode.dialect or ""
    line["turns"] = to_json(episode.turns)
    line["score"] = to_json(score)
    return line


def episode_from_json(line: Mapping[str, Any]) -> Episode:
    """Take back an episode from its line; the score stays with the line."""
    values = {item.name: line[item.name] for item in fields(Episode) if item.name in line}
    values["dialect"] = line["dialect"] or None
    values["turns"] = tuple(turn_from_json(turn) for turn in line["turns"])
    return Episode(**values)


def canonical(value: Any) -> bytes:
    """Write a value the one way that hashes rest on: sorted keys, no white space, ASCII."""
    return json.dumps(to_json(value), sort_keys=True, separators=(",", ":")).encode()


def hash_of(value: Any) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value)).hexdigest()[:16]


def version_of(name: str) -> str | None:
    """Return the version of an installed distribution; of the checkout, what its file says."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        project = Path(__file__).parent.parent / "pyproject.toml"
        if name != "toolcall-workbench" or not project.is_file():
            return None
        version = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
        return f"{version} (a checkout)"


def now() -> str:
    """Return the time, in UTC and seconds; SOURCE_DATE_EPOCH stops this clock."""
    stopped = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(stopped), UTC) if stopped.isdigit() else datetime.now(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class RunFolder:
    """One run: manifest.json and episodes.jsonl, to which one line is added for each episode.

    A line is with the system before `append` returns: no end of this process loses it. It is on the
    disk too, unless another went there less than a second before: then it goes with the next, or
    when the folder is closed. Whoever appends holds the folder alone; reading needs no such right.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from bench import RunFolder
    >>> with tempfile.TemporaryDirectory() as root:
    ...     folder = RunFolder.create(Path(root), "mine", {"format": 1})
    ...     folder.close()
    ...     list(folder.episodes())
    []
    """

    def __init__(self, path: Path, kept: str = "episodes.jsonl") -> None:
        self.path = path
        self._kept = kept
        self._file: IO[bytes] | None = None
        self._synced = -SYNC_SECONDS

    @classmethod
    def create(
        cls, root: Path, name: str, manifest: Mapping[str, Any], kept: str = "episodes.jsonl"
    ) -> "RunFolder":
        """Make a new folder under `root` named after `name`, and write its manifest.

        `kept` is the file of lines: what is no comparison has other lines than episodes.
        """
        try:
            run = cls(_new_folder(root, name), kept)
            run.write_manifest(manifest)
            run._open()
        except OSError as error:
            raise WorkbenchError(
                f"{root}: can't write results here ({error.strerror}); choose a folder with --results DIR"
            ) from None
        return run

    @classmethod
    def find(cls, root: Path, name: str) -> "RunFolder":
        """Open an existing run for reading: a path, a name under `root`, or `latest`."""
        if name == "latest":
            runs = list_runs(root)
            if not runs:
                raise WorkbenchError(f"{root}: there is no run yet; python -m bench makes one")
            return cls(runs[-1])
        for path in (Path(name), root / name):
            if (path / "manifest.json").is_file():
                return cls(path)
        known = ", ".join(path.name for path in list_runs(root)[-5:]) or "none yet"
        raise WorkbenchError(f"{name}: no such run; runs in {root}: {known}")

    @property
    def manifest(self) -> dict[str, Any]:
        """Read the manifest."""
        path = self.path / "manifest.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise WorkbenchError(f"{path}: no manifest of a run ({error})") from None
        if not isinstance(data, dict) or data.get("format", 0) > FORMAT:
            raise WorkbenchError(
                f"{path}: not a manifest that this version reads; update the workbench"
            )
        return data

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest in one step."""
        text = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
        part = self.path / "manifest.json.part"
        part.write_text(text, encoding="utf-8")
        part.replace(self.path / "manifest.json")

    def _open(self) -> IO[bytes]:
        if self._file is None:
            file = (self.path / self._kept).open("ab")
            lock(file, self.path)
            self._file = file
        return self._file

    def resume(self) -> int:
        """Take the folder for appending; return how many bytes of a half-written line were dropped."""
        file = self._open()
        path = self.path / "episodes.jsonl"
        whole = _end_of_last_line(path)
        dropped = path.stat().st_size - whole
        if dropped:
            file.truncate(whole)
        return dropped

    def append(self, episode: Episode, score: Any = None) -> None:
        """Write one episode."""
        self.append_line(episode_to_json(episode, score))

    def append_line(self, line: Mapping[str, Any]) -> None:
        """Write one line."""
        file = self._open()
        file.write(dump_line(line))
        file.flush()
        if time.monotonic() - self._synced >= SYNC_SECONDS:
            os.fsync(file.fileno())
            self._synced = time.monotonic()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines as they were written; of one episode written twice, the last."""
        path = self.path / "episodes.jsonl"
        latest = {key_of(line): number for number, line in enumerate(json_lines(path))}
        wanted = set(latest.values())
        for number, line in enumerate(json_lines(path)):
            if number in wanted:
                yield line

    def episodes(self) -> Iterator[Episode]:
        """Yield the episodes."""
        return map(episode_from_json, self.lines())

    def finish(self, **values: Any) -> None:
        """Note the end in the manifest, and give the folder back."""
        self.write_manifest({**self.manifest, **values, "finished": now()})
        self.close()

    def close(self) -> None:
        """Give the folder back; what was appended is on the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None


EpisodeKey = tuple[str, str, str, str, str, int, str]


def key_of(line: Mapping[str, Any]) -> EpisodeKey:
    """Return what tells one episode of a run, by its line, from every other."""
    return (
        line["task_id"],
        line["driver"],
        line["dialect"],
        line["level"],
        line["variant"],
        line["trial"],
        line["endpoint"],
    )


def list_runs(root: Path) -> list[Path]:
    """Return the run folders under a results folder, oldest first."""
    return sorted(
        (path.parent for path in root.glob("*/manifest.json")),
        key=lambda path: (path.stat().st_mtime_ns, path.name),
    )


def _new_folder(root: Path, name: str) -> Path:
    stamp = now().replace("-", "").replace(":", "").removesuffix("Z")
    for number in range(1, 1000):
        path = root / (f"{stamp}-{name}" + (f"-{number}" if number > 1 else ""))
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not root.is_dir():
                raise
            continue
        return path
    raise WorkbenchError(
        f"{root}: a thousand runs of the same second; choose another --results DIR"
    )


def lock(file: IO[bytes], path: Path) -> None:
    """Keep a second process out; the system gives the lock back when this process ends."""
    try:
        import fcntl  # noqa: PLC0415 (not on Windows, where there is no lock)
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise WorkbenchError(
            f"{path}: another process is writing to this run; wait for it"
        ) from None


def _end_of_last_line(path: Path) -> int:
    """Return the offset behind the last newline."""
    end = path.stat().st_size
    with path.open("rb") as file:
        position = end
        while position > 0:
            step = min(position, 65536)
            file.seek(position - step)
            found = file.read(step).rfind(b"\n")
            if found >= 0:
                return position - step + found + 1
            position -= step
    return 0


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole lines of a file of objects; a half-written last line is left out."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise WorkbenchError(f"{path}: can't be read ({error.strerror})") from None
    with file:
        for number, line in enumerate(_bounded_lines(file, path), 1):
            yield object_of(line, path, number)


def _bounded_lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise WorkbenchError(f"{path}:{number}: a line over {MAX_LINE >> 20} MiB is refused")
        if not line.endswith(b"\n"):
            return
        if line.strip():
            yield line


def object_of(line: bytes, path: Path, number: int) -> dict[str, Any]:
    """Read a line that must hold one object."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WorkbenchError(f"{path}:{number}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise WorkbenchError(f"{path}:{number}: an object is needed, not {type(value).__name__}")
    return value
