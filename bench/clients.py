"""What answers a request: an endpoint, a recording, a script. Only this module uses the network.

Whatever an endpoint does comes back as a `Reply`: a status, a body, how long it took. Nothing is
read here beyond what retries and the accounts need, and a key never leaves this module.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from bench import secret
from bench.drivers import open_reply
from bench.limits import Gate
from bench.recordings import Recorder, Recording
from bench.types import Attempt, Client, Reply, Request, StepKey, Usage, WorkbenchError
from parsers import Failure

MAX_BODY = 8 * 1024 * 1024
"""Bytes of an answer that are read; what goes on beyond is cut off."""
MAX_REDIRECT = 64 * 1024
"""Bytes of a redirection's body; a longer one is an answer, and not followed."""
LANE = 20
"""Requests in flight that share a pool of connections."""
_KEPT_HEADERS = ("content-type", "x-request-id")
_TRANSPORT = ("httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio", "ssl")

Sent = tuple[Sequence[Mapping[str, Any]], Mapping[str, Any]]
Shape = Callable[[Request], Sent]
"""What an endpoint's profile makes of a request: the messages and the options to send."""


def _as_it_is(request: Request) -> Sent:
    return request.messages, request.options


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long a request is tried again."""

    tries: int = 4
    seconds: float = 120.0
    """Of tries and waits together; a wait that would end later is not begun."""
    first_wait: float = 0.5
    """Doubled with each try, with jitter, where the endpoint names no time."""


@dataclass(slots=True)
class _Lane:
    """Connections of their own: for each request the SDK's pool looks at all that it holds."""

    sdk: Any
    busy: int = 0
    """Requests in flight."""

    def __enter__(self) -> Any:
        self.busy += 1
        return self.sdk

    def __exit__(self, *_: object) -> None:
        self.busy -= 1


class OpenAIClient:
    """An OpenAI-compatible endpoint, asked through the SDK; its bytes are read by our own reader.

    >>> from bench import OpenAIClient
    >>> client = OpenAIClient("mine", "m", base_url="http://127.0.0.1:8080/v1", api_key="none")
    >>> client.name, client.model
    ('mine', 'm')
    """

    def __init__(
        self,
        name: str,
        model: str,
        *,
        base_url: str,
        api_key: str,
        stream: bool = False,
        timeout: float = 300.0,
        patience: Patience = Patience(),
        shape: Shape = _as_it_is,
        headers: Mapping[str, str] | None = None,
        gate: Gate | None = None,
    ) -> None:
        import openai  # noqa: PLC0415 (half a second that only live runs pay)

        self.name, self.model, self.base_url = name, model, base_url
        self._key, self._stream, self._timeout = api_key, stream, timeout
        self._patience, self._shape = patience, shape
        self.gate = gate or Gate()
        """What every try goes through in its turn."""
        self._openai = openai
        self._headers = headers
        secret.know([api_key, *secret.in_headers(headers or {}), *secret.in_address(base_url)])
        self._lanes = [_Lane(self._connect())]

    def _connect(self) -> Any:
        hooks: dict[str, Any] = {"request": [self._keep_home], "response": [_take_refusal]}
        return self._openai.AsyncOpenAI(
            http_client=self._openai.DefaultAsyncHttpxClient(event_hooks=hooks),
            api_key=self._key,
            base_url=self.base_url,
            timeout=self._timeout,
            max_retries=0,
            default_headers=self._headers,
        )

    async def _keep_home(self, request: Any) -> None:
        """Take our own headers off a request that a redirection leads to another place."""
        home, there = type(request.url)(self.base_url), request.url
        safer = (home.scheme, there.scheme) == ("http", "https")
        if there.host != home.host or (there.port != home.port and not safer):
            for name in self._headers or ():
                request.headers.pop(name, None)

    def _free_lane(self) -> "_Lane":
        """Return the lane with the fewest requests in flight, a new one where all are full."""
        lane = min(self._lanes, key=lambda one: one.busy)
        if lane.busy >= LANE:
            lane = _Lane(self._connect())
            self._lanes.append(lane)
        return lane

    async def complete(self, request: Request) -> Reply:
        """Answer a request, trying again where the kind of failure and the patience allow it."""
        spent = 0.0  # not at the gate: a turn that is long in coming costs no patience
        attempts: list[Attempt] = []
        while True:
            reply, failure = await self.gate.ask(request, self._try)
            spent += reply.seconds
            wait = self._next_wait(failure, reply, len(attempts), spent)
            if failure is None or wait is None:
                return replace(reply, attempts=tuple(attempts))
            attempts.append(Attempt(failure.kind, reply.status, round(wait, 3)))
            await asyncio.sleep(wait)
            spent += wait

    def _next_wait(
        self, failure: Failure | None, reply: Reply, tried: int, spent: float
    ) -> float | None:
        """Return the seconds to wait before another try; None: there will be none."""
        from parsers.wire import retry_after  # noqa: PLC0415 (the readers take time to load)

        if failure is None or not failure.retryable or tried + 1 >= self._patience.tries:
            return None
        asked = retry_after(reply.headers, reply.body, time.time())
        own = self._patience.first_wait * 2**tried * random.uniform(0.5, 1.0)  # noqa: S311 (jitter)
        wait = own if asked is None else asked
        return wait if spent + wait <= self._patience.seconds else None

    async def _try(self, request: Request) -> tuple[Reply, Failure | None]:
        """Ask once; every answer and every lack of one is a reply, some with a failure."""
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout):
                reply = await self._ask(request, started)
        except TimeoutError:
            reply = _no_answer("time-out", f"no answer within {self._timeout:g} s")
        except Exception as error:  # noqa: BLE001 (what is no endpoint's doing is raised again)
            reply = self._reply_to(error)
        seconds = round(time.perf_counter() - started, 4)
        return account(replace(self._clean(reply), seconds=seconds))

    async def _ask(self, request: Request, started: float) -> Reply:
        stream = self._stream or request.options.get("stream") is True
        more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        wanted = replace(request, options={**request.options, **more})
        messages, options = self._shape(wanted)
        # All goes in as `extra_body`, which the SDK sends as it stands; a value of `messages` it
        # would first walk through, to the last word, for what no plain value needs.
        body = {"messages": messages, **options}
        with self._free_lane() as sdk:
            create: Any = sdk.chat.completions.with_streaming_response.create
            async with create(model=self.model, messages=(), extra_body=body) as response:
                return await self._take(response, started, request, stream=stream)

    async def _take(
        self, response: Any, started: float, request: Request, *, stream: bool
    ) -> Reply:
        """Read an answer to its end, or as far as it is wanted."""
        watch = _TokenWatch(started, request.enough) if stream else None
        body = await _read_body(response.iter_bytes(), watch)
        return Reply(
            status=response.status_code,
            headers=_kept(response.headers),
            body=body,
            first_token=None if watch is None else watch.first,
            hung_up=watch is not None and watch.enough,
        )

    def _reply_to(self, error: Exception) -> Reply:
        """Make a reply of what the SDK raises; what is our own fault goes on rising."""
        match error:
            case _RefusedError() | self._openai.APIConnectionError(__cause__=_RefusedError()):
                refused: Any = error if isinstance(error, _RefusedError) else error.__cause__
                reply: Reply = refused.reply
                return reply
            case self._openai.APITimeoutError():
                return _no_answer("time-out", f"no answer within {self._timeout:g} s")
            case self._openai.APIConnectionError():
                return _no_answer("connection", _root_of(error))
            case _ if isinstance(error, OSError) or _module_of(error) in _TRANSPORT:
                return _no_answer("connection", _root_of(error))
            case _:
                raise error

    def _clean(self, reply: Reply) -> Reply:
        """Take what is secret out of whatever an endpoint says back."""
        headers = {name: secret.hide(value) for name, value in reply.headers.items()}
        return replace(reply, headers=headers, body=secret.hide(reply.body))

    async def is_there(self, seconds: float) -> bool:
        """Say whether the endpoint answers anything at all, such as the list of its models."""
        try:
            async with asyncio.timeout(seconds):
                await self._lanes[0].sdk.models.with_raw_response.list()
        except self._openai.APIConnectionError:
            return False
        except (self._openai.APIError, ValueError, _RefusedError):
            return True
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Give back the connections."""
        for lane in self._lanes:
            await lane.sdk.close()


class _RefusedError(Exception):
    """An answer that is no success, read as far as it may be: the SDK would read it to its end."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"status {reply.status}")
        self.reply = reply


async def _take_refusal(response: Any) -> None:
    """Take every answer but a success, and but a short redirection, before the SDK does."""
    length = response.headers.get("content-length", "")
    short = length.isdigit() and int(length) <= MAX_REDIRECT
    plain = "content-encoding" not in response.headers
    if response.status_code >= 300 and not (response.has_redirect_location and short and plain):
        body = await _read_body(response.aiter_bytes(), None)
        raise _RefusedError(Reply(response.status_code, _kept(response.headers), body))


async def _read_body(pieces: AsyncIterator[bytes], watch: "_TokenWatch | None") -> str:
    """Return the whole text, or as much of it as was wanted.

    A stream that breaks is kept as far as it came: the reader says what that means.
    """
    body = bytearray()
    try:
        async for piece in pieces:
            body += piece
            if watch is not None:
                watch.see(piece)
            if len(body) > MAX_BODY or (watch is not None and watch.enough):
                break
    except Exception as error:
        if watch is None or not body or _module_of(error) not in _TRANSPORT:
            raise
    return body.decode("utf-8", "replace")


class _TokenWatch:
    """Looks at a stream's events as they pass: when the first token comes, when to hang up."""

    def __init__(self, started: float, enough: Callable[[str], bool] | None) -> None:
        from parsers.wire import EventReader  # noqa: PLC0415 (the readers take time to load)

        self._events, self._started, self._asks = EventReader(), started, enough
        self.first: float | None = None
        """Seconds to the first token."""
        self.enough = False

    def see(self, piece: bytes) -> None:
        """Take bytes as they come."""
        if self.first is not None and self._asks is None:
            return
        for event in self._events.feed(piece):
            if self.first is None and _has_token(event):
                self.first = round(time.perf_counter() - self._started, 4)
            if self._asks is not None and not self.enough:
                self.enough = self._asks(_text_of(event))


def _text_of(event: Any) -> str:
    match event:
        case {"choices": [{"delta": {"content": str(text)}}, *_]}:
            return text
        case _:
            return ""


def _has_token(event: Any) -> bool:
    match event:
        case {"choices": [{"delta": {**delta}}, *_]}:
            return any(value for name, value in delta.items() if name != "role")
        case _:
            return False


def find_fault(reply: Reply) -> Failure | None:
    """Return the endpoint's failure, or None where the model said something."""
    return open_reply(reply).failure


def _no_answer(kind: str, words: str) -> Reply:
    return Reply(0, {}, f"{kind}: {words}")


def _root_of(error: BaseException) -> str:
    """Name the first cause: `All connection attempts failed` helps, `Connection error.` doesn't."""
    while error.__cause__ is not None:
        error = error.__cause__
    return secret.hide(f"{type(error).__name__}: {error}")[:300]  # half a key is not found


def _module_of(error: BaseException) -> str:
    return type(error).__module__.split(".")[0]


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    lower = {name.lower(): value for name, value in headers.items()}
    return {k: v for k, v in lower.items() if k in _KEPT_HEADERS or k.startswith("retry-after")}


def account(reply: Reply) -> tuple[Reply, Failure | None]:
    """Add what the answer says of tokens and model; return also why it is none, if it is none."""
    opened = open_reply(reply)
    known = replace(reply, usage=opened.usage, model=opened.model, fingerprint=opened.fingerprint)
    return known, opened.failure


# ------------------------------------------------------------ is anybody there?


async def probe(
    client: OpenAIClient,
    settings: Mapping[str, Any],
    seconds: float = 10.0,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Ask an endpoint one short question before a run; raise a WorkbenchError if that is no use.

    One that gives no answer in time, but is there, is waited for: it may be busy, or loading.
    """
    question = {"role": "user", "content": "Say OK."}
    options = {**settings, **{k: 8 for k in settings if k.startswith("max_")}}
    request = Request((question,), options, StepKey("probe", "probe", "full", 0, 0))
    asked = asyncio.ensure_future(client.complete(request))
    try:
        await asyncio.wait([asked], timeout=0.7 * seconds)
        if not asked.done() and await client.is_there(0.3 * seconds):
            tell(f"{client.base_url} is slow to answer; it may be busy, or loading the model …")
            await asked
        reply = asked.result() if asked.done() else _no_answer("time-out", "")
    finally:
        asked.cancel()
    failure = find_fault(reply)
    if failure is not None and failure.kind != "server_rejected_output":
        raise WorkbenchError(f"endpoint {client.name}: {complain(client, reply, failure)}")


def complain(client: OpenAIClient, reply: Reply, failure: Failure) -> str:
    """Say in one line what is wrong with an endpoint, and what to do."""
    where = client.base_url
    said = " ".join((failure.message or reply.body).split())[:200]
    html = reply.body.lstrip()[:1] == "<"
    match reply.status:
        case 0 if reply.body.startswith("time-out"):
            return f"{where} does not answer; is it the right address, and is the server well?"
        case 0:
            return f"{where} can't be reached ({said}); is the server running, is --base-url right?"
        case 401 | 403:
            return f"{where} refuses the key ({reply.status}); set LLM_API_KEY or --api-key"
        case 404 if html or "model" not in said.lower():
            return f"{where} answers 404; does --base-url end in /v1? ({said})"
        case _ if html:
            return f"{where} answers with a web page, not with the API; does --base-url end in /v1?"
        case 404:
            return f"{where} has no model {client.model!r}; see --model ({said})"
        case status:
            return f"{where} refuses a plain request ({status}, {failure.kind}): {said}"


# ------------------------------------------------------------ recordings


class RecordedClient:
    """The recorded replies of one endpoint: each request gets the answer that it once got.

    >>> from bench import RecordedClient
    >>> from bench.paths import find_datasets
    >>> from bench.recordings import Recording
    >>> file = find_datasets() / "recordings" / "doctor-smollm2-135m.jsonl.gz"
    >>> RecordedClient(Recording.read(file)).model
    'smollm2-135m'
    """

    def __init__(self, recording: Recording, name: str | None = None) -> None:
        self._recording = recording
        self.name = name or str(recording.manifest["endpoint"])
        self.model = str(recording.manifest["model"])

    async def complete(self, request: Request) -> Reply | None:
        """Return the recorded reply, or None where this request was never recorded."""
        return self._recording.answer(request)

    async def close(self) -> None:
        """Nothing is held open."""


def is_said(reply: Reply) -> bool:
    """Keep what a model said, and that a prompt was too long; any other fault may pass."""
    failure = find_fault(reply)
    return failure is None or failure.kind in ("context_overflow", "server_rejected_output")


def is_settled(reply: Reply) -> bool:
    """Keep also what an endpoint refuses for good: where that is the finding."""
    failure = find_fault(reply)
    return failure is None or not (failure.retryable or failure.detail == "access")


class RecordingClient:
    """Another client whose answers are kept; what is kept already is not asked again.

    `keep` says which answers: unless told, an endpoint's failures are not.
    """

    def __init__(
        self, inner: Client, recorder: Recorder, keep: Callable[[Reply], bool] = is_said
    ) -> None:
        self.inner, self._recorder, self._keep = inner, recorder, keep
        self.name, self.model = inner.name, inner.model

    async def complete(self, request: Request) -> Reply | None:
        """Answer from the recording, else ask, and keep what is to be kept."""
        known = self._recorder.recording.answer(request)
        if known is not None:
            return known
        reply = await self.inner.complete(request)
        known = self._recorder.recording.answer(request)
        if known is not None:  # another episode asked the same meanwhile: one answer holds for both
            return known
        if reply is not None and self._keep(reply):
            self._recorder.add(request, reply)
        return reply

    async def close(self) -> None:
        """End the recording and give back what the inner client holds."""
        self._recorder.close()
        await self.inner.close()


# ------------------------------------------------------------ scripts

Answer = Reply | Mapping[str, Any] | str
"""A whole reply, an assistant message, or its text."""


class _Script(Protocol):
    def __call__(self, request: Request) -> Answer | None: ...


def reply_with(
    answer: Answer, *, finish_reason: str | None = None, usage: Usage | None = None
) -> Reply:
    """Make the reply that a well-behaved endpoint would send."""
    if isinstance(answer, Reply):
        return answer
    message = {"role": "assistant", "content": answer} if isinstance(answer, str) else dict(answer)
    reason = finish_reason or ("tool_calls" if message.get("tool_calls") else "stop")
    choice = {"index": 0, "message": message, "finish_reason": reason}
    body = json.dumps({"object": "chat.completion", "choices": [choice]}, ensure_ascii=False)
    return Reply(200, {"content-type": "application/json"}, body, usage=usage or Usage())


@dataclass(slots=True)
class ScriptedClient:
    """Answers by a script: a list of answers in order, or a function of the request.

    >>> from bench import ScriptedClient
    >>> ScriptedClient(["Final Answer: 42"]).model
    'scripted'
    """

    script: Sequence[Answer | None] | _Script
    name: str = "scripted"
    model: str = "scripted"
    requests: list[Request] = field(default_factory=list)
    """Every request so far."""

    async def complete(self, request: Request) -> Reply | None:
        """Give the next answer; None in a script stands for a request that was not recorded."""
        self.requests.append(request)
        if callable(self.script):
            answer = self.script(request)
        else:
            answer = self.script[len(self.requests) - 1]
        return None if answer is None else reply_with(answer)

    async def close(self) -> None:
        """Nothing is held open."""
