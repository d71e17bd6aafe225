"""The values that every reader takes and returns; nothing here reads anything.

Positions are character offsets from 0, into the text or into the field that `field` names
(`calls[1].arguments`, `content`, `reasoning_content`, `body`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

Level = Literal["strict", "hardened", "rescue"]
"""How much is mended: nothing, what has one reading, and calls outside their channel too."""

Dialect = Literal["json", "call", "bracket"]
"""The form of an action that a ReAct prompt asked for."""

EndpointKind = Literal[
    "endpoint_error",
    "rate_limited",
    "request_rejected",
    "context_overflow",
    "bad_envelope",
    "stream_interrupted",
]
EmissionKind = Literal[
    "empty_turn",
    "no_move",
    "truncated_output",
    "out_of_channel_call",
    "server_rejected_output",
    "missing_tool_name",
    "unknown_tool",
    "bad_arguments_syntax",
    "bad_arguments_shape",
    "schema_violation",
    "ambiguous_calls",
    "choice_violation",
]
OutcomeKind = Literal["refused_or_filtered", "tool_failed", "no_progress"]
FailureKind = Literal[EndpointKind, EmissionKind, OutcomeKind]

LEVELS: tuple[Level, ...] = get_args(Level)
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
ENDPOINT_KINDS: frozenset[str] = frozenset(get_args(EndpointKind))
EMISSION_KINDS: frozenset[str] = frozenset(get_args(EmissionKind))
OUTCOME_KINDS: frozenset[str] = frozenset(get_args(OutcomeKind))

PRECEDENCE: tuple[FailureKind, ...] = (
    *get_args(EndpointKind),
    "refused_or_filtered",
    "server_rejected_output",
    "truncated_output",
    "out_of_channel_call",
    "choice_violation",
    "missing_tool_name",
    "unknown_tool",
    "ambiguous_calls",
    "bad_arguments_syntax",
    "bad_arguments_shape",
    "schema_violation",
    "no_move",
    "empty_turn",
)
"""Where several kinds apply, the first of these is the reading's failure."""

Outcome = Literal["call", "answer", "malformed", "refused", "endpoint"]
"""What a reply was: the four outcomes of a step, and a refusal."""


_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model is told of a tool; `parameters` is a JSON Schema of type object.

    >>> from parsers import Tool
    >>> Tool.from_openai({"type": "function", "function": {"name": "get_price"}}).parameters
    {'type': 'object', 'properties': {}}
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    @classmethod
    def from_openai(cls, entry: Mapping[str, Any]) -> "Tool":
        """Take `{"type": "function", "function": {"name", "description", "parameters"}}`."""
        function = entry.get("function", entry)
        return cls(
            function["name"],
            function.get("description") or "",
            function.get("parameters") or _NO_PARAMETERS,
        )

    def to_openai(self) -> dict[str, Any]:
        """Give the entry of a request's `tools`."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": dict(self.parameters),
            },
        }


ToolLike = Tool | Mapping[str, Any]


def as_tools(tools: Sequence[ToolLike]) -> tuple[Tool, ...]:
    """Take tools in either form."""
    if set(map(type, tools)) <= {Tool}:
        return tuple(cast("Sequence[Tool]", tools))
    return tuple(t if isinstance(t, Tool) else Tool.from_openai(t) for t in tools)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a reply, or one call of it, cannot be acted on: a finding, not an error."""

    kind: FailureKind
    detail: str | None = None
    """One word that narrows the kind (`missing`, `native`, `too_deep` …), or None."""
    message: str = ""
    """One sentence for people and models: what is wrong and where."""
    position: int | None = None
    field: str = "text"
    retryable: bool = False
    """Endpoint kinds only: the same request may go through later."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A step that mended what was written, where it was the one possible reading."""

    name: str
    position: int = 0
    field: str = "text"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A span of text left out of the reading: [start, end), and why."""

    start: int
    end: int
    reason: str
    field: str = "text"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the model asked for; `arguments` is None where they could not be read."""

    name: str
    arguments: dict[str, Any] | None
    id: str | None = None
    raw: str = ""
    """The arguments as they were written."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reply says. Exactly one holds: a call without failure, `final`, or `failure`."""

    thought: str = ""
    calls: tuple[Call, ...] = ()
    final: str | None = None
    failure: Failure | None = None
    repairs: tuple[Repair, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    @property
    def good_calls(self) -> tuple[Call, ...]:
        """The calls that can be run."""
        return tuple(call for call in self.calls if call.failure is None)

    @property
    def outcome(self) -> Outcome:
        """Which of the four outcomes this is, or a refusal."""
        if self.failure is None:
            return "answer" if self.final is not None else "call"
        if self.failure.kind in ENDPOINT_KINDS:
            return "endpoint"
        return "refused" if self.failure.kind == "refused_or_filtered" else "malformed"
