"""The workbench's values, from a task to its score. No behaviour beyond small properties.

Frozen throughout: a run is a list of values that are written once and read again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from parsers import Dialect, Level, Reading, Tool
from parsers.usage import Usage as Usage  # noqa: PLC0414 (one of the types that are found here)

NO_USAGE = Usage()
Message = Mapping[str, Any]
"""A chat message in OpenAI's form."""

Lang = Literal["en", "zh"]
DriverName = Literal["react", "native"]
Stop = Literal[
    "answered",  # a final answer was read
    "malformed",  # a malformed reply after the last correction
    "refused",  # the endpoint marked a refusal or a filter
    "context_overflow",  # the prompt grew too long: a property of the driver
    "step_limit",  # the step budget is used up
    "no_progress",  # the same call with the same arguments three times in a row
    "endpoint",  # an endpoint failure that stayed: never charged
    "left_recording",  # replay asked for a request that was not recorded
]


class WorkbenchError(Exception):
    """A user's mistake: one line that names the file, the line and the fix; exit status 2."""


# ---------------------------------------------------------------- tasks


@dataclass(frozen=True, slots=True)
class Wording:
    """An acceptable text argument whose wording is free, such as a query or an expression.

    Each group must occur in it, in one of its forms (as `scoring.says_text` finds them); the
    example is one such text, used where a gold is replayed.
    """

    example: str
    groups: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Spelling:
    """An acceptable text of which case, spaces and `,./-_*^` don't count.

    Two numbers must be the same number: "1.5" is not "15".
    """

    text: str


@dataclass(frozen=True, slots=True)
class Fields:
    """An acceptable object: for each key the acceptable values; an optional one may be left out."""

    forms: Mapping[str, tuple[Any, ...]]
    optional: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A call that a task needs: for each parameter the acceptable values.

    A parameter that is not named must be left out or equal its schema's default; one in
    `optional` may be left out.
    """

    tool: str
    arguments: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    any_arguments: bool = False
    """Whatever the tool takes will do: of an own task that names no arguments."""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """One thing that a final answer must contain: a number within a tolerance, or any text."""

    number: float | None = None
    tolerance: float = 0.0
    any: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gold:
    """What solving a task means."""

    calls: tuple[WantedCall, ...] = ()
    ordered: bool = False
    also: tuple[WantedCall, ...] = ()
    """Calls that are allowed without being needed (a first try that the tool refuses)."""
    contains: tuple[AnswerPart, ...] = ()
    excludes: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    """Tools that must not be called."""
    unsolvable: bool = False
    """The tools on offer cannot do it: no forbidden call and no figure out of thin air."""


@dataclass(frozen=True, slots=True)
class Task:
    """One question with its gold; `pair` is shared by the two languages of one question."""

    id: str
    pair: str
    lang: Lang
    category: str
    toolset: str
    question: str
    gold: Gold


# ---------------------------------------------------------------- the wire


@dataclass(frozen=True, slots=True)
class StepKey:
    """Which step of which episode a request belongs to. Never sent, never hashed."""

    task_id: str
    driver: str
    """The label of the arm, such as `native`, `native@rescue`, `react/call`."""
    variant: str
    trial: int
    step: int


@dataclass(frozen=True, slots=True)
class Request:
    """All that is sent but for the model's name: messages, and options in OpenAI's names."""

    messages: tuple[Message, ...]
    options: Mapping[str, Any]
    key: StepKey
    enough: Callable[[str], bool] | None = None
    """Takes the pieces of a streamed text; True: hang up. Never sent, never hashed."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A try that was repeated: what came back, and how long was waited, in seconds."""

    kind: str
    status: int
    waited: float


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, as it came and unread."""

    status: int
    """HTTP status; 0 where no answer came (connection, time-out: `body` says which)."""
    headers: Mapping[str, str]
    """Lower-case names; only content-type, retry-after* and x-request-id are kept."""
    body: str
    """The JSON body, or the whole text of an event stream."""
    usage: Usage = NO_USAGE
    first_token: float | None = None
    """Seconds from the request to the first token; None unless streamed."""
    seconds: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    model: str | None = None
    """The model that the answer names."""
    fingerprint: str | None = None
    hung_up: bool = False
    """We hung up on a stream that could no longer change its reading: tokens are lower bounds."""


class Client(Protocol):
    """The only thing that may use the network."""

    name: str
    """The endpoint's name, unique in a run."""
    model: str

    async def complete(self, request: Request) -> Reply | None:
        """Answer a request; None: replaying, and this request was never recorded."""

    async def close(self) -> None:
        """Give back connections and files."""


# ---------------------------------------------------------------- an episode


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back: the text that the model sees, and what happened."""

    call_id: str | None
    tool: str
    arguments: Mapping[str, Any] | None
    content: str
    """JSON text."""
    error: bool = False
    leave: str | None = None
    """Who allowed a call that changes something: flag, terminal, or None: not needed or refused."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply and what was made of it."""

    sent: tuple[Message, ...]
    """The messages added to the history since the last request."""
    reply: Reply
    reading: Reading
    results: tuple[ToolResult, ...] = ()
    corrects: bool = False
    """This reply answers a correction."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One task with one driver, to its end."""

    task_id: str
    pair: str
    lang: Lang
    category: str
    driver: DriverName
    dialect: Dialect | None
    """None for the native driver."""
    endpoint: str
    model: str
    variant: str
    trial: int
    level: Level
    stop: Stop
    turns: tuple[Turn, ...]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Budget:
    """What an episode may use."""

    steps: int = 8
    corrections: int = 2
    tool_seconds: float = 20.0


class Driver(Protocol):
    """Everything that differs between the two ways, and nothing else. Holds no state."""

    @property
    def name(self) -> DriverName:
        """The way: react or native."""

    @property
    def level(self) -> Level:
        """The level that the loop acts on."""

    @property
    def dialect(self) -> Dialect | None:
        """The form of an action, None where there is none."""

    def open(self, task: Task, tools: Sequence[Tool]) -> tuple[Message, ...]:
        """Return the first messages."""

    def options(self, tools: Sequence[Tool]) -> Mapping[str, Any]:
        """Return what the request adds to the sampling settings."""

    def watch(self, tools: Sequence[Tool]) -> Callable[[str], bool] | None:
        """Return what says of a streamed text's pieces when no more is needed; None: never."""

    def read(self, reply: Reply, tools: Sequence[Tool], level: Level | None = None) -> Reading:
        """Read a reply, at the driver's own level unless another is given."""

    def respond(
        self, task: Task, reply: Reply, reading: Reading, results: Sequence[ToolResult]
    ) -> tuple[Message, ...]:
        """Return what is added to the history: the reply's echo, then results or a correction."""
