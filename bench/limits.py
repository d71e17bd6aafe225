"""How fast an endpoint is asked, and how much a run may use: the same for both drivers.

A `Gate` stands before each endpoint and lets every try of a request through in its turn; one
`Spending` counts what all endpoints of a run have used, against its budget and its time. Knows
nothing of HTTP and of files.
"""

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.types import Reply, Request
from parsers import Failure

COMPLETION = 120
"""Completion tokens of a reply on average, as long as no reply has told any."""
_FIRST = 1000.0
"""Prompt tokens of the reply that an estimate begins with."""
GROW_AFTER = 10
"""So many answers in a row without an overload let one more request be in flight."""
UNBOUNDED = 1_000_000
"""Requests in flight where no overload has told of a bound: episodes at once are the bound then."""
_MARGIN = 1.25
"""What a suggested limit has beyond the mean: the tasks that are left may be longer ones."""
_LARGEST = 10**12
"""A count of tokens beyond it is an endpoint's nonsense."""

Answered = tuple[Reply, Failure | None]
Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Numbers of tokens, counted or estimated."""

    prompt: float = 0.0
    completion: float = 0.0

    @property
    def total(self) -> float:
        """Both together."""
        return self.prompt + self.completion

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.prompt + other.prompt, self.completion + other.completion)

    def __sub__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.prompt - other.prompt, self.completion - other.completion)

    def __mul__(self, times: float) -> "Tokens":
        return Tokens(self.prompt * times, self.completion * times)


def count_tokens(text: str) -> float:
    """Estimate tokens: four ASCII characters each, or one and a half of others.

    >>> count_tokens("four chars, so")
    3.5
    """
    plain = len(text.encode("ascii", "ignore"))
    return plain / 4 + (len(text) - plain) / 1.5


# ------------------------------------------------------------ what a run may use


class UsedUp(Exception):  # noqa: N818 (not an error: the limit that was asked for)
    """The budget has no room for a request: its episode is cut, and not kept."""


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit of what tokens add up to: their number, or their money."""

    flag: str
    limit: float
    price: Tokens
    """What one token of each kind counts."""
    unit: str = ""

    def cost(self, tokens: Tokens) -> float:
        """Return what tokens count."""
        return tokens.prompt * self.price.prompt + tokens.completion * self.price.completion

    def show(self, value: float) -> str:
        """Write an amount."""
        if self.unit:
            return f"{value:,.0f} {self.unit}"
        return f"{value:,.2f}" if value >= 1 else f"{value:.3g}"


def make_caps(
    tokens: int | None, money: float | None, price: Sequence[float] | None
) -> tuple[Cap, ...]:
    """Return the limits of a budget; `price` is of a million prompt and completion tokens."""
    caps = [] if tokens is None else [Cap("--budget-tokens", tokens, Tokens(1, 1), "tokens")]
    if money is not None and price is not None:
        caps.append(Cap("--budget-money", money, Tokens(*price) * 1e-6))
    return tuple(caps)


class Spending:
    """What a run has used, in tokens and time, against what it may use.

    A request is sent only where its estimate fits in beside what is used and what is in flight. So
    a budget is passed by no more than what the requests in flight take beyond their estimates: at
    most `max_tokens` each, for a prompt's estimate is corrected by what earlier ones took. A time
    limit cuts what is in flight, and is passed by no more than the writing of the report.
    """

    def __init__(
        self,
        caps: Sequence[Cap] = (),
        *,
        seconds: float | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.caps, self.seconds = tuple(caps), seconds
        self.used = Tokens()
        """By this run so far, its earlier parts included."""
        self.full: tuple[Cap, ...] = ()
        """The limits that had no room, when that was last looked at."""
        self._clock = clock
        self._held, self._flying = Tokens(), 0
        self._bell = _Bell()
        self._closed = False
        self._started: float | None = None
        self._expected = Tokens()
        self._ended = self._running = self._timed = 0
        self._took = self._ran = 0.0

    def expect(self, tokens: Tokens, episodes: int) -> None:
        """Take an estimate of what so many episodes use, which holds until some have ended."""
        self._expected = tokens * (1 / max(episodes, 1))

    def add_earlier(self, used: Tokens, episodes: int) -> None:
        """Take what so many episodes used before this run went on."""
        self.used += used
        self._ended += episodes

    def start(self) -> float | None:
        """Begin to count time; return the seconds that there are, None where there is no limit."""
        self._started = self._clock()
        return self.seconds

    # -------------------------------------------------------- episodes

    def may_begin(self) -> bool:
        """Say whether another episode, if it takes what the others took, would end in time.

        Refused while others run, it may be let in when one of them has ended. The first one is
        always let in: what is known of it then is a rough estimate.
        """
        if self._closed:
            return False
        first = not self._ended and not self._running
        more = Tokens() if first else self._mean() * (self._running + 1)
        self.full = self._full(self.used + more)
        return not (self.full or self._too_late())

    @contextmanager
    def episode(self) -> Iterator[None]:
        """Count an episode from its beginning to its end; one that is cut tells no mean."""
        began = self._clock()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
        self._ended += 1
        self._timed += 1
        self._took += self._clock() - began

    def _mean(self) -> Tokens:
        """Return what an episode takes; those that run are taken to be half done."""
        if not self._ended:
            return self._expected
        return self.used * (1 / (self._ended + self._running / 2))

    def _too_late(self) -> bool:
        """Say whether an episode of mean length would go on beyond the time limit."""
        if self.seconds is None or self._started is None:
            return False
        mean = self._took / self._timed if self._timed else 0.0
        return self._clock() - self._started + mean >= self.seconds

    def stop(self, *, out_of_time: bool) -> None:
        """Take the time; note whether what ran was cut by the time limit."""
        self._ran = self._clock() - (self._started or 0.0)
        if out_of_time:
            self.full = ()

    # -------------------------------------------------------- requests

    async def hold(self, guess: Tokens) -> None:
        """Set tokens aside for a request; wait for those in flight where it might not fit in.

        Raises `UsedUp` where it does not even fit in beside what is used.
        """
        while self._full(self.used + self._held + guess):
            if full := self._full(self.used + guess):
                self.full, self._closed = full, True
                raise UsedUp
            await self._bell.wait()
        self._held += guess
        self._flying += 1

    def settle(self, guess: Tokens, used: Tokens) -> None:
        """Count what a request used in place of what was set aside."""
        self._flying -= 1
        # nothing in flight is nothing, not what is left of sums of fractions: someone may wait for it
        self._held = self._held - guess if self._flying else Tokens()
        self.used += used
        self._bell.ring()

    def _full(self, tokens: Tokens) -> tuple[Cap, ...]:
        return tuple(cap for cap in self.caps if cap.cost(tokens) > cap.limit)

    # -------------------------------------------------------- what is told

    def foresee(self, episodes: int) -> Iterator[str]:
        """Yield for each limit of the budget a line: for how many of so many episodes it is enough."""
        for cap in self.caps:
            used, each = cap.cost(self.used), cap.cost(self._mean())
            enough = int(max(cap.limit - used, 0.0) / each) if each else episodes
            before = f", {cap.show(used)} of it used" if used else ""
            yield (
                f"budget {cap.show(cap.limit)}{before}: enough for about "
                f"{min(enough, episodes)} of {episodes} episodes"
            )

    def tell(self) -> str:
        """Say which limit stopped the run, and what was used."""
        names = [f"{cap.flag} {_plain(cap.limit)}" for cap in self.full]
        if not names and self.seconds is not None:
            names = [f"--time-limit {_plain(self.seconds)}"]
        used, money = self.used, [cap for cap in self.caps if not cap.unit]
        cost = "".join(f", {cap.show(cap.cost(used))} in money" for cap in money)
        return (
            f"stopped by {' and '.join(names)}: {used.total:,.0f} tokens used "
            f"({used.prompt:,.0f} prompt, {used.completion:,.0f} completion{cost})"
        )

    def suggest(self, left: int) -> str:
        """Return the flags that are enough for so many more episodes, by the mean."""
        needed = self.used + self._mean() * left
        raised = {cap.flag: _MARGIN * cap.cost(needed) for cap in self.caps}
        limits = {cap.flag: cap.limit for cap in self.caps}
        if not self.full and self.seconds is not None:
            limits["--time-limit"] = self.seconds
            raised["--time-limit"] = _MARGIN * self._seconds_for(left)
        short = {cap.flag for cap in self.full} | {f for f in limits if raised[f] > limits[f]}
        return " ".join(
            f"{flag} {_plain(_round_up(max(raised[flag], 1.2 * limits[flag])))}"
            for flag in limits
            if flag in short or flag == "--time-limit"
        )

    def _seconds_for(self, left: int) -> float:
        """Return the time for so many more episodes, at the pace so far; twice as much if none ended."""
        return self._ran * left / self._timed if self._timed else 2 * (self.seconds or 0.0)


def _plain(value: float) -> str:
    """Write a number as a flag takes it back."""
    return f"{value:.0f}" if value == int(value) else f"{value:.6g}"


def _round_up(value: float) -> float:
    """Round up to two digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / step - 1e-9) * step


class _Bell:
    """Wakes all who wait for a change."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    def ring(self) -> None:
        self._event.set()
        self._event = asyncio.Event()


# ------------------------------------------------------------ how fast an endpoint is asked


# aiolimiter fits neither limit: its bucket lets twice the number through in the first minute (all
# at once, and again as it leaks), refuses an amount above the limit, and takes no correction.
@dataclass(slots=True)
class _Pace:
    """So much a minute, evenly spread: then no minute holds more."""

    seconds: float
    """Between two of what is counted."""
    free: float = 0.0
    """When the next may go."""

    def book(self, moment: float, amount: float) -> None:
        self.free = moment + amount * self.seconds

    def correct(self, amount: float) -> None:
        self.free += amount * self.seconds


def _pace(a_minute: int | None) -> _Pace:
    return _Pace(60.0 / a_minute if a_minute else 0.0)


class Gate:
    """Lets the tries of requests through to one endpoint, each in its turn.

    `rpm` and `tpm` are requests and tokens a minute. After an overload (429, 503, 529) half as many
    requests may be in flight, at least one; every ten answers let one more in.

    >>> import asyncio
    >>> from bench.clients import account, reply_with
    >>> from bench.limits import Gate
    >>> from bench.types import Request, StepKey
    >>> gate = Gate(rpm=60)
    >>> request = Request((), {}, StepKey("t", "react", "full", 0, 0))
    >>> async def send(_):
    ...     return account(reply_with("hi"))
    >>> reply, failure = asyncio.run(gate.ask(request, send))
    >>> gate.requests, gate.overloads
    (1, 0)
    """

    def __init__(
        self,
        *,
        rpm: int | None = None,
        tpm: int | None = None,
        spending: Spending | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.requests = self.overloads = 0
        self.lowest: int | None = None
        """The fewest requests that might be in flight; None where there was no overload."""
        self._spending = spending or Spending()
        self._paces = (_pace(rpm), _pace(tpm))
        self._estimator = _Estimator() if tpm or self._spending.caps else None
        self._clock, self._sleep = clock, sleep
        self._room, self._inside, self._bell = UNBOUNDED, 0, _Bell()
        self._era = self._answers = 0

    def describe(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return how often the endpoint was asked, added to what an earlier part of the run said."""
        lowest = [n for n in (self.lowest, before.get("lowest_in_flight")) if n is not None]
        return {
            "requests": self.requests + before.get("requests", 0),
            "overloads": self.overloads + before.get("overloads", 0),
            "lowest_in_flight": min(lowest, default=None),
        }

    async def ask(
        self, request: Request, send: Callable[[Request], Awaitable[Answered]]
    ) -> Answered:
        """Send a request once, when its turn has come; raise `UsedUp` where the budget has no room."""
        guess = Tokens() if self._estimator is None else self._estimator.guess(request)
        await self._enter()
        try:
            await self._spending.hold(guess)
            return await self._send(request, send, guess)
        finally:
            self._inside -= 1
            self._bell.ring()

    async def _send(
        self, request: Request, send: Callable[[Request], Awaitable[Answered]], guess: Tokens
    ) -> Answered:
        used = Tokens()
        try:
            await self._wait(guess)
            crowd, era, used = self._inside, self._era, guess  # if it is cut, the guess stands
            self.requests += 1
            reply, failure = await send(request)
            used = self._count(request, reply, failure, guess)
            self._adapt(failure, era, max(crowd, self._inside))
        finally:
            self._spending.settle(guess, used)
        return reply, failure

    async def _enter(self) -> None:
        while self._inside >= self._room:
            await self._bell.wait()
        self._inside += 1

    async def _wait(self, guess: Tokens) -> None:
        now = self._clock()
        moment = max(now, *(pace.free for pace in self._paces))
        for pace, amount in zip(self._paces, (1.0, guess.total), strict=True):
            pace.book(moment, amount)
        if moment > now:
            await self._sleep(moment - now)

    def _count(
        self, request: Request, reply: Reply, failure: Failure | None, guess: Tokens
    ) -> Tokens:
        """Return what a try used; where the endpoint does not say, what was estimated.

        A failure without a count used nothing, but for a time-out: the model may have worked.
        """
        if _is_told(reply):
            told = _told(reply, guess)
            if self._estimator is not None:
                self._estimator.learn(request, told)
            self._paces[1].correct(told.total - guess.total)
            return told
        unanswered = reply.status == 0 and reply.body.startswith("time-out")
        return guess if failure is None or unanswered else Tokens()

    def _adapt(self, failure: Failure | None, era: int, crowd: int) -> None:
        if failure is None:
            self._answers += 1
            if self._answers % GROW_AFTER == 0:
                self._room += 1
        elif failure.kind == "rate_limited" and failure.retryable:
            self.overloads += 1
            # Requests that were out already when it was last halved say nothing of the half.
            if era == self._era:
                self._halve(crowd)

    def _halve(self, crowd: int) -> None:
        self._era += 1
        self._answers = 0
        self._room = max(1, min(self._room, crowd) // 2)
        self.lowest = min(self._room, self.lowest or self._room)


class _Estimator:
    """What a request will use, by its length and by what earlier ones of its endpoint used."""

    def __init__(self) -> None:
        # It begins with a reply of the expected size: one short question must not tell the ratio.
        self._guessed = _FIRST
        self._told, self._replies = Tokens(_FIRST, COMPLETION), 1

    def guess(self, request: Request) -> Tokens:
        """Return the tokens of a request and of a reply of mean length."""
        ratio = self._told.prompt / self._guessed
        mean = self._told.completion / self._replies
        return Tokens(_length(request) * ratio, min(mean, _most(request.options)))

    def learn(self, request: Request, told: Tokens) -> None:
        """Take what a request was told to have used."""
        self._guessed += _length(request)
        self._told += told
        self._replies += 1


def _length(request: Request) -> float:
    sent = [request.messages, dict(request.options)]
    return count_tokens(json.dumps(sent, ensure_ascii=False, default=str))


def _most(options: Mapping[str, Any]) -> float:
    """Return the longest reply that a request allows."""
    named = (options.get(name) for name in ("max_tokens", "max_completion_tokens"))
    return next((n for n in named if isinstance(n, int)), math.inf)


def _is_told(reply: Reply) -> bool:
    return (reply.usage.prompt, reply.usage.completion) != (None, None)


def _told(reply: Reply, guess: Tokens) -> Tokens:
    """Return what an endpoint says that a reply took; what it leaves out is estimated."""
    prompt, completion = reply.usage.prompt, reply.usage.completion
    return Tokens(
        guess.prompt if prompt is None else min(prompt, _LARGEST),
        guess.completion if completion is None else min(completion, _LARGEST),
    )
