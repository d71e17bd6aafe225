"""The strict endpoint's HTTP side: reads a request, has it checked, writes what is to be played.

Checks run before any scripted answer, so a scripted success cannot hide a bad request. Every
request is kept for assertions, within bounds; a key never is.
"""

import asyncio
import contextlib
import hmac
import json
import re
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, assert_never, cast

from bench.endpoint.checks import (
    Refusal,
    check_profile,
    first_refusal,
    in_words_of,
    is_ignored,
    refusal,
    render_error,
    text_refusal,
)
from bench.endpoint.script import (
    CREATED,
    Played,
    Scripted,
    load_script,
    play,
    read_item,
    read_style,
)
from bench.profiles import Profile, profile_for
from bench.types import WorkbenchError

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route
    from starlette.types import Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise WorkbenchError(
        "the strict endpoint needs Starlette and uvicorn; "
        "install the extra `endpoint`: pip install 'toolcall-workbench[endpoint]'"
    ) from error

Source = Literal["check", "script", "policy"]
Item = Scripted | Mapping[str, Any] | None
Script = Sequence[Item] | Callable[[Mapping[str, Any], int], Item]
"""Items in the order of the requests, or a function of a request's body and its number.

None plays the policy; so does a script that is used up.
"""

MAX_BODY = 16 * 1024 * 1024
KEEP_BYTES = 64 * 1024 * 1024
HANG_SECONDS = 3600.0
SECRET = re.compile(r"auth|key|token|cookie|secret|credential", re.IGNORECASE)
REDACTED = "[redacted]"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request as it came, without keys, and what it was answered with."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    text: str
    """The body."""
    status: int
    """The HTTP status of the answer."""
    case: str | None
    """The check that refused it, or None."""
    source: Source
    """Whether a check, the script or the policy answered."""

    @property
    def body(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None


class StrictEndpoint:
    """A strict endpoint on a port of this machine, served from a thread inside `with`.

    `profile` is a name or a profile; `key` is the only key taken (None: any); `models` the only
    models (none: any); `window` the context in tokens (None: the profile's); `latency` seconds
    before every answer; `keep` the number of requests that are kept.
    """

    def __init__(
        self,
        profile: str | Profile = "strict",
        script: Script | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        key: str | None = None,
        models: Sequence[str] = (),
        window: int | None = None,
        latency: float = 0.0,
        keep: int = 10_000,
    ) -> None:
        self.profile = _playable(profile, window)
        self.host = host
        self.port = port
        self._key = key
        self._models = tuple(models)
        self._latency = latency
        self._log = _Log(keep)
        self._items: deque[tuple[Scripted | None, int]] = deque()
        self._choose = script if callable(script) else None
        self.play(*([] if script is None or callable(script) else script))
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------ outside

    @property
    def base_url(self) -> str:
        """What a client is given as its base URL."""
        return f"http://{self.host}:{self.port}/v1"

    @property
    def requests(self) -> tuple[Recorded, ...]:
        """Every chat request so far, refused ones too; the oldest go first when it grows long."""
        return self._log.records()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return 0 if self._server is None else len(self._server.server_state.connections)

    def play(self, *items: Item) -> None:
        """Add items to the end of the script."""
        for number, raw in enumerate(items, 1):
            item = None if raw is None else read_item(raw, f"script item {number}")
            self._items.append((item, 1 if item is None else item.times))

    def __enter__(self) -> Self:
        """Start serving on a thread of its own."""
        listener = self._listen()
        self._server = _Server(self._config())
        run = {"sockets": [listener]}
        self._thread = threading.Thread(target=self._server.run, kwargs=run, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.002)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop serving; answers that hang are broken off."""
        if self._server is not None and self._thread is not None:
            self._server.stop()
            self._thread.join(10)

    def serve(self, announce: Callable[[str], object] | None = None) -> None:
        """Serve until interrupted; `announce` is given the address once it is known."""
        listener = self._listen()
        listener.listen(2048)  # whoever reads the address may come before the server has started
        if announce is not None:
            announce(f"The strict endpoint plays {self.profile.name} at {self.base_url}")
        try:
            _Server(self._config()).run(sockets=[listener])
        except KeyboardInterrupt:
            return

    # ------------------------------------------------------------ serving

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # The protocol is named because asyncio switches Nagle's algorithm off only then, and with
        # it on every answer waits some 40 ms for an acknowledgement.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, self.port))
        except (OSError, OverflowError) as error:
            listener.close()
            raise WorkbenchError(
                f"--port {self.port}: cannot be served on {self.host} ({error}); give another port"
            ) from None
        self.port = listener.getsockname()[1]
        return listener

    def _config(self) -> uvicorn.Config:
        chats = ["/v1/chat/completions", "/chat/completions"]
        routes = [
            *(Route(path, self._chat, methods=["POST"]) for path in chats),
            *(Route(path, self._list_models) for path in ("/v1/models", "/models")),
            *(Route(path, self._tell_health) for path in ("/health", "/v1/health")),
        ]
        return uvicorn.Config(
            Starlette(routes=routes),
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
        )

    async def _tell_health(self, _request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "scripted": True, "profile": self.profile.name})

    async def _list_models(self, _request: Request) -> JSONResponse:
        names = self._models or (f"scripted-{self.profile.name}",)
        shared = {"object": "model", "created": CREATED, "owned_by": "scripted"}
        return JSONResponse({"object": "list", "data": [{"id": name, **shared} for name in names]})

    async def _chat(self, request: Request) -> "_Answer":
        raw = await _read_body(request)
        number = self._log.count()
        found, body = self._check(request, raw)
        played, source = self._answer(found, body, number)
        case = None if found is None else found.case
        self._log.add(_record(request, raw or b"", number, played.status, case, source))
        return _Answer(played, source, self._latency)

    def _answer(
        self, found: Refusal | None, body: Mapping[str, Any], number: int
    ) -> tuple[Played, Source]:
        if found is not None:
            error = render_error(found, self.profile.server.errors)
            data = json.dumps(error).encode()
            return Played(found.status, {"content-type": "application/json"}, (data,)), "check"
        item = self._next_item(body, number)
        source: Source = "policy" if item is None else "script"
        return play(item, body, self.profile, number), source

    def _next_item(self, body: Mapping[str, Any], number: int) -> Scripted | None:
        if self._choose is not None:
            chosen = self._choose(body, number)
            return None if chosen is None else read_item(chosen)
        if not self._items:
            return None
        item, times = self._items.popleft()
        if times > 1:
            self._items.appendleft((item, times - 1))
        return item

    def _check(
        self, request: Request, raw: bytes | None
    ) -> tuple[Refusal | None, Mapping[str, Any]]:
        """Give the first thing wrong with a request, and its body."""
        found = self._check_key(request)
        body: Any = {}
        if found is None or is_ignored(found, self.profile):
            found, body = _decode(raw, request.headers.get("content-type", ""))
        if found is None:
            return first_refusal(body, self.profile, self._models), body
        return in_words_of(found, self.profile), {}

    def _check_key(self, request: Request) -> Refusal | None:
        key = _key_of(request)
        if not key:
            return refusal("no_key" if self._key is None else "wrong_key")
        if self._key is not None and not hmac.compare_digest(key.encode(), self._key.encode()):
            return refusal("wrong_key")
        return None


def _playable(profile: str | Profile, window: int | None) -> Profile:
    """Give a profile whose rules are known to exist, with this context."""
    found = profile if isinstance(profile, Profile) else profile_for(None, profile)
    check_profile(found)
    read_style(found.server.stream, f"profile {found.name!r}")
    if window is None:
        return found
    return replace(found, server=replace(found.server, window=window))


def _key_of(request: Request) -> str:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    return request.headers.get("api-key", "")


async def _read_body(request: Request) -> bytes | None:
    """Read the body; None where it is too large."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= MAX_BODY:
            parts.append(part)
    return b"".join(parts) if size <= MAX_BODY else None


def _decode(raw: bytes | None, content_type: str) -> tuple[Refusal | None, Any]:
    if raw is None:
        return refusal("too_large"), None
    if content_type.split(";", maxsplit=1)[0].strip().lower() != "application/json":
        return refusal("content_type"), None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return refusal("not_utf8", None, where=f"byte {error.start}"), None
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        return refusal("not_json", None, value=str(error)), None
    if not isinstance(body, dict):
        return refusal("not_object"), None
    return text_refusal(text, body), body


# ---------------------------------------------------------------- the record


def _record(
    request: Request, raw: bytes, number: int, status: int, case: str | None, source: Source
) -> Recorded:
    key = _key_of(request)
    text = _without(raw.decode("utf-8", "replace"), key)
    headers = {
        name: REDACTED if SECRET.search(name) else _without(value, key)
        for name, value in request.headers.items()
    }
    return Recorded(number, request.method, request.url.path, headers, text, status, case, source)


def _without(text: str, key: str) -> str:
    """Take a key out of a text; a very short one is no secret, and would hit words."""
    return text.replace(key, REDACTED) if len(key) >= 8 else text


class _Log:
    """The last requests, by number and by size."""

    def __init__(self, keep: int) -> None:
        self._records: deque[Recorded] = deque()
        self._keep = keep
        self._bytes = 0
        self._count = 0
        self._lock = threading.Lock()

    def count(self) -> int:
        """Give the next request's number, from 0."""
        with self._lock:
            self._count += 1
            return self._count - 1

    def add(self, record: Recorded) -> None:
        with self._lock:
            self._records.append(record)
            self._bytes += len(record.text)
            while len(self._records) > self._keep or self._bytes > KEEP_BYTES:
                self._bytes -= len(self._records.popleft().text)

    def records(self) -> tuple[Recorded, ...]:
        with self._lock:
            return tuple(self._records)


# ---------------------------------------------------------------- writing


class _Server(uvicorn.Server):
    """Stop at once: tests start hundreds of these, and answers that hang on purpose never end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self._woken.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in list(self.server_state.connections):
            cast("_Protocol", connection).transport.abort()
        await asyncio.sleep(0.001)


class _Protocol(H11Protocol):
    """Hand the connection's transport to the answer, which may have to break it off."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


class _Answer:
    """An ASGI response that writes what is played, byte for byte, and ends as it says."""

    def __init__(self, played: Played, source: Source, latency: float) -> None:
        self._played = played
        self._source = source
        self._latency = latency + played.latency

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._latency:
            await asyncio.sleep(self._latency)
        if self._played.ending == "end" or self._played.writes:
            await send(self._head())
        last = len(self._played.writes) - 1 if self._played.ending == "end" else None
        for at, write in enumerate(self._played.writes):
            if at and self._played.pace:
                await asyncio.sleep(self._played.pace)
            await send({"type": "http.response.body", "body": write, "more_body": at != last})
        if last in {None, -1}:
            await self._end(scope, receive, send)

    def _head(self) -> dict[str, Any]:
        headers = {**self._played.headers, "x-scripted": self._source}
        pairs = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()]
        if self._played.ending == "end" and len(self._played.writes) == 1:
            size = len(self._played.writes[0])
            pairs.append((b"content-length", str(size).encode()))
        return {"type": "http.response.start", "status": self._played.status, "headers": pairs}

    async def _end(self, scope: Scope, receive: Receive, send: Send) -> None:
        transport = cast("asyncio.Transport", scope["state"]["transport"])
        match self._played.ending:
            case "end":
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            case "hang":
                await _wait_until_gone(receive)
                transport.abort()
            case "reset":
                await asyncio.sleep(0.02)
                _reset(transport)
                await asyncio.sleep(0.02)
            case "drop":
                transport.close()
                await asyncio.sleep(0.02)
            case unknown:
                assert_never(unknown)


async def _wait_until_gone(receive: Receive) -> None:
    try:
        async with asyncio.timeout(HANG_SECONDS):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return


def _reset(transport: asyncio.Transport) -> None:
    """Close with a TCP reset: a linger time of zero throws away what is not sent."""
    transport.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    transport.abort()


def run_endpoint(
    profile: str = "strict",
    port: int = 8089,
    script_path: Path | None = None,
    *,
    host: str = "127.0.0.1",
    key: str | None = None,
    models: Iterable[str] = (),
    window: int | None = None,
    latency: float = 0.0,
    announce: Callable[[str], object] | None = None,
) -> int:
    """Serve a profile until interrupted; give the number of requests answered.

    `script_path` is a JSON list or a JSONL file of items. `announce` is given one line with the
    address. Raises `WorkbenchError` for an unknown profile, a bad script or a port in use.
    """
    script = () if script_path is None else load_script(script_path)
    endpoint = StrictEndpoint(
        profile,
        script,
        host=host,
        port=port,
        key=key,
        models=tuple(models),
        window=window,
        latency=latency,
    )
    endpoint.serve(announce)
    return len(endpoint.requests)
