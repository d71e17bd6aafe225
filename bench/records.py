"""What a run keeps: values as JSON and back, and run folders.

Reads and writes files under the paths it is given; asks no model and judges nothing. Whatever is
read back is bounded: files come from other people.
"""

import hashlib
import io
import json
import os
import re
import time
import tomllib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import IO, Any, overload

from bench import secret
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
MAX_VALUES = 4_000_000
"""Values of one line; commas in texts count too."""
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
    """Write one JSON value as a line of UTF-8; a lone surrogate is written as its escape.

    What is secret is hidden: whatever a run keeps line by line is written here.
    """
    value = secret.hide_found(value)
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return secret.hide_keys(text).encode() + b"\n"
    except UnicodeEncodeError:
        text = json.dumps(value, separators=(",", ":"))
        return secret.hide_keys(text).encode() + b"\n"


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
    """Take back what `to_json` made of a reply; raises TypeError where a part is of another kind."""
    for name, kinds in _REPLY.items():
        if not isinstance(data.get(name), kinds):
            raise TypeError(f"the {name} of a reply is {type(data.get(name)).__name__}")
    usage = Usage(**data.get("usage", {}))
    attempts = tuple(Attempt(**item) for item in data.get("attempts", ()))
    return Reply(**{**data, "usage": usage, "attempts": attempts})


_NONE = type(None)
_REPLY: Mapping[str, tuple[type, ...]] = {
    "status": (int,),
    "headers": (dict,),
    "body": (str,),
    "usage": (dict, _NONE),
    "first_token": (int, float, _NONE),
    "seconds": (int, float, _NONE),
    "attempts": (list, _NONE),
    "model": (str, _NONE),
    "fingerprint": (str, _NONE),
}


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
    What can't be written raises WorkbenchError, and nothing is appended after it.

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
        self._file: io.FileIO | None = None
        self._synced = -SYNC_SECONDS
        self._torn: str | None = None
        """Why the last line could not be written whole."""
        self._last: Mapping[str, Any] | None = None
        """The manifest of a finished run, until it is written."""

    @classmethod
    def create(
        cls, root: Path, name: str, manifest: Mapping[str, Any], kept: str = "episodes.jsonl"
    ) -> "RunFolder":
        """Make a new folder under `root` named after `name`, and write its manifest.

        `kept` is the file of lines: what is no comparison has other lines than episodes.
        """
        try:
            run = cls(_new_folder(root, name), kept)
            run._open()  # nobody finds a folder before it has a manifest, and then it is held
            run._put_manifest(manifest)
            _sync_folder(root)
        except OSError as error:
            raise WorkbenchError(
                f"{root}: can't write results here ({error.strerror}); choose a folder with --results DIR"
            ) from None
        return run

    @classmethod
    def find(cls, root: Path, name: str) -> "RunFolder":
        """Open an existing run for reading: a path, a name under `root`, or `latest`."""
        if name == "latest":
            newest = next((run for run in reversed(list_runs(root)) if _is_whole(run)), None)
            if newest is None:
                raise WorkbenchError(f"{root}: there is no run yet; python -m bench makes one")
            return cls(newest)
        for path in (Path(name), root / name):
            if (path / "manifest.json").is_file():
                return cls(path)
        known = ", ".join(path.name for path in list_runs(root)[-5:]) or "none yet"
        raise WorkbenchError(f"{name}: no such run; runs in {root}: {known}")

    @property
    def manifest(self) -> dict[str, Any]:
        """Read the manifest; of a run that `end` was said of, what it will be."""
        if self._last is not None:
            return dict(self._last)
        path = self.path / "manifest.json"
        try:
            if path.stat().st_size > MAX_LINE:
                raise WorkbenchError(f"{path}: larger than {MAX_LINE >> 20} MiB; refused")
            data: Any = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise WorkbenchError(f"{path}: no manifest of a run ({error})") from None
        version = data.get("format", 0) if isinstance(data, dict) else None
        if not isinstance(version, int) or version > FORMAT:
            raise WorkbenchError(
                f"{path}: not a manifest that this version reads; update the workbench"
            )
        return dict(data)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest in one step, which is on the disk when this returns."""
        try:
            self._put_manifest(manifest)
        except OSError as error:
            raise self._refused(error) from None

    def _put_manifest(self, manifest: Mapping[str, Any]) -> None:
        told = secret.hide_value(manifest)
        text = json.dumps(told, ensure_ascii=False, indent=2) + "\n"
        part = self.path / "manifest.json.part"
        # half a surrogate pair is written as JSON escapes it
        with part.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path / "manifest.json")
        _sync_folder(self.path)

    def _refused(self, error: OSError) -> WorkbenchError:
        return WorkbenchError(
            f"{self.path}: can't be written ({error.strerror}); what was finished is kept"
        )

    def _open(self) -> io.FileIO:
        if self._file is None:
            # without a buffer: what a full disk refused must not come back behind the next line
            file = (self.path / self._kept).open("ab", buffering=0)
            lock(file, self.path)
            self._file = file
        return self._file

    @property
    def held(self) -> bool:
        """Whether some process holds the folder in order to write."""
        for path in self.path.glob("*.jsonl"):
            try:
                with path.open("rb", buffering=0) as file:
                    lock(file, self.path, shared=True)
            except WorkbenchError:
                return True
            except OSError:
                continue
        return False

    def resume(self) -> int:
        """Take the folder for appending; return how many bytes of a half-written line were dropped.

        A last line that can't be read is dropped too: after a loss of power it may be of NULs.
        """
        path = self.path / self._kept
        try:
            file = self._open()
            whole = _end_of_good_lines(path)
            dropped = path.stat().st_size - whole
            if dropped:
                file.truncate(whole)
        except OSError as error:
            raise self._refused(error) from None
        self._torn = None
        return dropped

    def clear(self) -> None:
        """Drop every line, of a folder that is held."""
        self._open().truncate(0)

    def append(self, episode: Episode, score: Any = None) -> None:
        """Write one episode."""
        self.append_line(episode_to_json(episode, score))

    def append_line(self, line: Mapping[str, Any]) -> None:
        """Write one line; raises ValueError where it could not be read again."""
        data = dump_line(line)
        if len(data) > MAX_LINE:
            raise ValueError(f"a line of {len(data) >> 20} MiB; at most {MAX_LINE >> 20} are read")
        try:
            file = self._open()
            _write_whole(file, data, self._torn)
            if time.monotonic() - self._synced >= SYNC_SECONDS:
                os.fsync(file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            self._torn = error.strerror
            raise self._refused(error) from None

    def stored(self) -> "StoredLines":
        """Return the lines as a sequence that reads each when it is asked for."""
        return StoredLines(self.path / self._kept)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines as they were written; of one episode written twice, the last."""
        yield from self.stored()

    def episodes(self) -> Iterator[Episode]:
        """Yield the episodes."""
        return map(episode_from_json, self.lines())

    def end(self, **values: Any) -> None:
        """Say what the manifest holds from the end on: whoever reads it here, such as a report.

        It is written by `finish`, the last of all: a run that is killed before goes on there.
        """
        self._last = secret.hide_value({**self.manifest, **values, "finished": now()})

    def finish(self, **values: Any) -> None:
        """Note the end in the manifest, and give the folder back."""
        if self._last is None or values:
            self.end(**values)
        try:
            self._sync()
        except OSError as error:
            raise self._refused(error) from None
        self.write_manifest(self.manifest)
        self._last = None
        self.close()

    def _sync(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Give the folder back; what was appended is on the disk."""
        try:
            self._sync()
        except OSError as error:
            if self._torn is None:
                raise self._refused(error) from None
        finally:
            file, self._file = self._file, None
            if file is not None:
                file.close()


class StoredLines(Sequence[dict[str, Any]]):
    """A run's lines as they were written, each read from the file when it is asked for.

    Of one episode written twice, the last. At hand is only where each line begins.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        latest: dict[EpisodeKey, tuple[int, int]] = {}
        for place, number, line in _placed_lines(path):
            latest[_key_of_bytes(line, path, number)] = place, number
        found = sorted(latest.values())
        self._places = array("Q", (place for place, _ in found))
        self._numbers = array("Q", (number for _, number in found))

    def __len__(self) -> int:
        """Count the episodes."""
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Read one line, or some."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        with _open_lines(self.path) as file:
            return self._read(file, self._places[index], self._numbers[index])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Read every line, one after the other."""
        with _open_lines(self.path) as file:
            for place, number in zip(self._places, self._numbers, strict=True):
                yield self._read(file, place, number)

    def _read(self, file: IO[bytes], place: int, number: int) -> dict[str, Any]:
        file.seek(place)
        return secret.hide_found(object_of(file.readline(MAX_LINE), self.path, number))  # type: ignore[no-any-return]


def _key_of_bytes(line: bytes, path: Path, number: int) -> "EpisodeKey":
    """Return `key_of` a line; of one of ours, only what stands before the turns is parsed for it."""
    end = line.find(b',"turns":[')
    with suppress(ValueError, RecursionError, KeyError, TypeError):
        return key_of(json.loads(line[:end] + b"}"))
    return key_of(object_of(line, path, number))


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


_STAMP = re.compile(r"(\d{8}T\d{6})-(?!.*-rescored)")
"""What the name of a run folder begins with: when the run was begun."""


def list_runs(root: Path) -> list[Path]:
    """Return the run folders under a results folder, oldest first, by when they were begun."""
    return sorted((path.parent for path in root.glob("*/manifest.json")), key=_begun)


def _begun(path: Path) -> tuple[str, int, str]:
    """Say when a run was begun: by its name, else by its folder."""
    changed = path.stat().st_mtime_ns if path.is_dir() else 0
    stamp = _STAMP.match(path.name)
    told = stamp[1] if stamp else f"{datetime.fromtimestamp(changed / 1e9, UTC):%Y%m%dT%H%M%S}"
    return told, changed, path.name


def _is_whole(path: Path) -> bool:
    """Say whether a folder's manifest can be read at all, of whatever version."""
    file = path / "manifest.json"
    try:
        return file.stat().st_size <= MAX_LINE and isinstance(json.loads(file.read_bytes()), dict)
    except (OSError, ValueError, RecursionError):
        return False


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


def lock(file: IO[bytes] | io.FileIO, path: Path, *, shared: bool = False) -> None:
    """Keep a second process out; the system gives the lock back when this process ends.

    Where the system has no locks (Windows, some network drives) nothing is kept out.
    """
    try:
        import fcntl  # noqa: PLC0415 (not on Windows, where there is no lock)
    except ImportError:
        return
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise WorkbenchError(
            f"{path}: another process is writing to this run; wait for it"
        ) from None
    except OSError:
        return


def _write_whole(file: io.FileIO, data: bytes, torn: str | None) -> None:
    """Write all of it: near the end of a disk a single write takes less. Nothing goes behind a torn line."""
    if torn is not None:
        raise OSError(0, torn)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _sync_folder(path: Path) -> None:
    """Put a folder's entries on the disk, where the system can do that."""
    with suppress(OSError):
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _end_of_good_lines(path: Path) -> int:
    """Return the offset behind the last whole line that is JSON."""
    with path.open("rb") as file:
        end = _last_newline(file, file.seek(0, os.SEEK_END)) + 1
        while end:
            start = _last_newline(file, end - 1) + 1
            file.seek(start)
            if end - start > MAX_LINE or _is_json(file.read(end - start)):
                return end
            end = start
    return 0


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line or b"0")
    except (ValueError, RecursionError):
        return False
    return True


def _last_newline(file: IO[bytes], position: int) -> int:
    """Return the offset of the last newline before a position; -1 where there is none."""
    while position > 0:
        step = min(position, 65536)
        file.seek(position - step)
        found = file.read(step).rfind(b"\n")
        if found >= 0:
            return position - step + found
        position -= step
    return -1


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole lines of a file of objects; a half-written last line is left out."""
    for _, number, line in _placed_lines(path):
        yield secret.hide_found(object_of(line, path, number))


def _placed_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield the whole lines of a file, each with the byte and the line at which it stands."""
    place = 0
    with _open_lines(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
            if len(line) > MAX_LINE:
                raise WorkbenchError(
                    f"{path}:{number}: a line over {MAX_LINE >> 20} MiB is refused"
                )
            if not line.endswith(b"\n"):
                return
            if line.strip():
                yield place, number, line
            place += len(line)


def _open_lines(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise WorkbenchError(f"{path}: can't be read ({error.strerror})") from None


def load_json(data: bytes) -> Any:
    """Read one JSON value that comes from others; raises ValueError, also where it is too much.

    Small values take many times the memory of their text: their number is bounded before any is
    made.
    """
    if sum(map(data.count, (b"[", b"{", b",", b":"))) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} values")
    return json.loads(data)


def object_of(line: bytes, path: Path, number: int) -> dict[str, Any]:
    """Read a line that must hold one object."""
    try:
        value = load_json(line)
    except (ValueError, RecursionError) as error:
        raise WorkbenchError(f"{path}:{number}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise WorkbenchError(f"{path}:{number}: an object is needed, not {type(value).__name__}")
    return value
