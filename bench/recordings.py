"""Recordings: the replies of a real model, each with the request that it answers.

One file for each endpoint and experiment, JSON Lines, packed where its name ends in `.gz`. Reads
and writes the files it is given, within bounds; asks no model.
"""

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any

from bench import secret
from bench.records import (
    FORMAT,
    MAX_LINE,
    dump_line,
    hash_of,
    lock,
    object_of,
    reply_from_json,
    to_json,
)
from bench.types import Reply, Request, WorkbenchError

MAX_FILE = 1024 * 1024 * 1024
MAX_RATIO = 400
"""A packed file that grows by more than this, past a first 64 MiB, is taken for a bomb."""
_PIECE = 256 * 1024
_GZIP = 31
"""What zlib calls a gzip member."""
_FIRST = b'{"type":"manifest",'
"""What our first line begins with."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded answer: what was asked, by hash, and the reply as it came."""

    task_id: str
    driver: str
    variant: str
    trial: int
    step: int
    request: str
    messages: tuple[str, ...]
    options: str
    reply: Reply


def request_hash(request: Request) -> str:
    """Return what a recorded answer is found by: all that is sent, but for the model's name."""
    options = secret.mask_options(request.options)  # as the manifest that is replayed keeps them
    return hash_of([[hash_of(message) for message in request.messages], hash_of(options)])


@dataclass(slots=True)
class Recording:
    """A file of recorded answers, read whole.

    The first line is a manifest; `part` lines hold each message and each set of options once;
    `step` lines hold an answer and the hashes of what was asked.
    """

    path: Path
    manifest: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    steps: dict[tuple[str, int], Recorded] = field(default_factory=dict)
    damaged: bool = False
    """The file ends in a half-written line, which was left out."""

    @classmethod
    def read(cls, path: Path) -> "Recording":
        """Read a `.jsonl` or `.jsonl.gz` file, within bounds."""
        recording = cls(path)
        for number, line in enumerate(recording._lines(), 1):
            try:
                recording._take(object_of(line, path, number))
            except (KeyError, TypeError, AttributeError, RecursionError) as error:
                raise WorkbenchError(
                    f"{path}:{number}: not a line of a recording ({error!r})"
                ) from None
        if not recording.manifest:
            raise WorkbenchError(f"{path}: not a recording: its manifest line is missing")
        _check_manifest(recording)
        return recording

    def _take(self, line: dict[str, Any]) -> None:
        match line["type"]:
            case "manifest":
                if line["format"] > FORMAT:
                    raise WorkbenchError(
                        f"{self.path}: made by a later version; update the workbench"
                    )
                self.manifest |= {k: v for k, v in line.items() if k != "type"}
            case "part":
                self.parts[line["hash"]] = line["value"]
            case "step":
                step = _step_from_json(line)
                self.steps.setdefault((step.request, step.trial), step)
            case _:
                raise KeyError(line["type"])

    def _lines(self) -> Iterator[bytes]:
        """Yield whole lines; note whether the end was cut off."""
        rest: list[bytes] = []
        try:
            for piece in self._pieces():
                if b"\n" in piece:
                    *lines, last = b"".join([*rest, piece]).split(b"\n")
                    yield from filter(None, lines)
                    rest = [last]
                else:
                    rest.append(piece)
                if sum(map(len, rest)) > MAX_LINE:
                    raise WorkbenchError(
                        f"{self.path}: a line over {MAX_LINE >> 20} MiB is refused"
                    )
        except OSError as error:
            raise WorkbenchError(f"{self.path}: can't be read ({error.strerror})") from None
        self.damaged |= any(rest)

    def _pieces(self) -> Iterator[bytes]:
        """Yield the bytes, unpacked where the name ends in .gz; refuse what grows without end."""
        total, size = 0, self.path.stat().st_size
        with self.path.open("rb") as file:
            unpacked = self._unpack(file) if self.path.suffix == ".gz" else _read(file)
            for piece in unpacked:
                total += len(piece)
                if total > MAX_FILE or total > max(MAX_RATIO * size, 64 * 1024 * 1024):
                    raise WorkbenchError(f"{self.path}: grows beyond all measure; refused")
                yield piece

    def _unpack(self, file: IO[bytes]) -> Iterator[bytes]:
        """Unpack one gzip member after the other, as far as the file goes."""
        member = zlib.decompressobj(_GZIP)
        rest = b""
        try:
            while rest or (rest := file.read(_PIECE)):
                if member.eof:
                    member = zlib.decompressobj(_GZIP)
                yield member.decompress(rest, _PIECE)
                rest = member.unconsumed_tail or member.unused_data
            yield member.flush()
        except zlib.error:
            self.damaged = True
        self.damaged |= not member.eof

    def answer(self, request: Request) -> Reply | None:
        """Return the recorded reply to this request in this trial, or None."""
        step = self.steps.get((request_hash(request), request.key.trial))
        return None if step is None else step.reply


_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("endpoint", "model", "host", "profile", "experiment"), str),
    **dict.fromkeys(("settings", "notes"), dict),
    **dict.fromkeys(("trials", "context"), int),
}


_MOST: Mapping[str, int] = {"trials": 1_000, "context": 1_000_000}
"""More would fill the memory before anything is replayed."""


def _check_manifest(recording: Recording) -> None:
    """Refuse a manifest that lacks what a replay needs, or has it in another kind."""
    known = recording.manifest
    for name, kind in _KINDS.items():
        needed = name in ("endpoint", "model", "settings")
        lacking = known.get(name) is None and not needed and kind is not int
        if (name in known or needed) and not lacking and not _is_kind(known.get(name), kind, name):
            told = {str: "a text", dict: "an object", int: f"0 to {_MOST.get(name)}"}[kind]
            raise WorkbenchError(f"{recording.path}: its manifest must have {told} as {name}")


def _is_kind(value: Any, kind: type, name: str) -> bool:
    if kind is int:
        return type(value) is int and 0 <= value <= _MOST[name]
    return type(value) is kind


def _read(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _step_from_json(line: Mapping[str, Any]) -> Recorded:
    names = (item.name for item in fields(Recorded))
    values = {name: line[name] for name in names}
    for name in ("task_id", "driver", "variant", "request", "options"):
        if not isinstance(values[name], str):
            raise TypeError(f"its {name} is no text")
    values["messages"] = tuple(values["messages"])
    values["reply"] = reply_from_json(values["reply"])
    return Recorded(**values)


class _TooLongError(Exception):
    """A line that no reader would take."""


class Recorder:
    """Writes a recording while a run goes on, and takes up one that was broken off.

    Each line is on the disk when `add` returns: a compressed file is flushed after each. What can't
    be written raises WorkbenchError, and nothing is written after it. A second process is kept out.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path = path
        manifest = secret.hide_value(manifest)
        self._torn: str | None = None
        """Why the last line could not be written whole."""
        self._raw = self._locked = self._open()  # before it is read: nobody else is writing to it
        try:
            self.recording = self._take_up(manifest)
        except BaseException:
            self._raw.close()
            raise
        self._file = _packed(self._raw) if path.suffix == ".gz" else self._raw
        if self.recording.manifest != manifest:
            notes = {**self.recording.manifest.get("notes", {}), **manifest.get("notes", {})}
            self.recording.manifest |= {**manifest, "notes": notes} if notes else manifest
            self._write({"type": "manifest", **self.recording.manifest})

    def _open(self) -> IO[bytes]:
        try:
            file = self.path.open("ab")
        except OSError as error:
            raise WorkbenchError(f"{self.path}: can't be written ({error.strerror})") from None
        lock(file, self.path)
        return file

    def _take_up(self, manifest: Mapping[str, Any]) -> Recording:
        if _is_only_begun(self.path):
            self._raw.truncate(0)
            return Recording(self.path)
        recording = Recording.read(self.path)
        for name in ("model", "endpoint", "settings"):
            if recording.manifest.get(name) != manifest.get(name):
                raise WorkbenchError(
                    f"{self.path}: records {name} {recording.manifest.get(name)!r}, not "
                    f"{manifest.get(name)!r}; choose another file with --record"
                )
        if recording.damaged:
            _rewrite(recording)
            self._raw = self._open()  # the new file; the old one stays locked, too
        return recording

    def add(self, request: Request, reply: Reply) -> None:
        """Keep an answer; a request that is there already in this trial is left alone.

        What no reader would take, for its length, is not kept.
        """
        digest = request_hash(request)
        if (digest, request.key.trial) not in self.recording.steps:
            with suppress(_TooLongError):
                self._keep(request, reply, digest)

    def _keep(self, request: Request, reply: Reply, digest: str) -> None:
        key = request.key
        messages = tuple(self._part(message) for message in request.messages)
        step = Recorded(
            task_id=key.task_id,
            driver=key.driver,
            variant=key.variant,
            trial=key.trial,
            step=key.step,
            request=digest,
            messages=messages,
            options=self._part(secret.mask_options(request.options)),
            reply=reply,
        )
        self._write({"type": "step", **to_json(step)})
        self.recording.steps[digest, key.trial] = step

    def _part(self, value: Any) -> str:
        digest = hash_of(value)
        if digest not in self.recording.parts:
            self._write({"type": "part", "hash": digest, "value": to_json(value)}, sync=False)
            self.recording.parts[digest] = to_json(value)
        return digest

    def _write(self, line: Mapping[str, Any], *, sync: bool = True) -> None:
        data = dump_line(line)
        if len(data) > MAX_LINE:
            raise _TooLongError
        try:
            self._put(data, sync=sync)
        except OSError as error:
            self._torn = error.strerror
            raise WorkbenchError(
                f"{self.path}: can't be written ({error.strerror}); what was recorded is kept"
            ) from None

    def _put(self, line: bytes, *, sync: bool) -> None:
        if self._torn is not None:
            raise OSError(0, self._torn)
        self._file.write(line)
        if sync:
            self._file.flush()
            self._raw.flush()
            os.fsync(self._raw.fileno())

    def close(self) -> None:
        """End the file properly."""
        for file in (self._file, self._raw, self._locked):
            try:
                file.close()
            except OSError:
                if self._torn is None:
                    raise


def _packed(raw: IO[bytes]) -> gzip.GzipFile:
    """Compress into an open file, without name and time: the same lines make the same bytes."""
    return gzip.GzipFile(filename="", mode="ab", fileobj=raw, mtime=0)


def _is_only_begun(path: Path) -> bool:
    """Say whether a file holds no more than a part of our first line: then nothing is lost."""
    with path.open("rb") as file:
        start = file.read(_PIECE)
    if path.suffix == ".gz" and start:
        member = zlib.decompressobj(_GZIP)
        try:
            start = member.decompress(start, _PIECE)
        except zlib.error:
            return False
    return b"\n" not in start and _FIRST.startswith(start[: len(_FIRST)])


def _rewrite(recording: Recording) -> None:
    """Write the whole lines of a broken-off file anew, in place of the broken one."""
    part = recording.path.with_name(recording.path.name + ".part")
    lines: list[Mapping[str, Any]] = [{"type": "manifest", **recording.manifest}]
    lines += [{"type": "part", "hash": k, "value": v} for k, v in recording.parts.items()]
    lines += [{"type": "step", **to_json(step)} for step in recording.steps.values()]
    write_lines(part, lines, packed=recording.path.suffix == ".gz")
    part.replace(recording.path)
    recording.damaged = False


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]], *, packed: bool) -> None:
    """Write lines of JSON to a new file, compressed or not."""
    with path.open("wb") as raw:
        file: IO[bytes] | gzip.GzipFile = _packed(raw) if packed else raw
        for line in lines:
            file.write(dump_line(line))
        if file is not raw:
            file.close()
        raw.flush()
        os.fsync(raw.fileno())
