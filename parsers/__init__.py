"""Read what a language model says when it asks for tools: text in, `Reading` out."""

from parsers.explain import correction, explain
from parsers.native import parse_native
from parsers.react import parse_react
from parsers.stream import ReactStream
from parsers.types import (
    DIALECTS,
    EMISSION_KINDS,
    ENDPOINT_KINDS,
    LEVELS,
    OUTCOME_KINDS,
    PRECEDENCE,
    Call,
    Dialect,
    Dropped,
    Failure,
    FailureKind,
    Level,
    Outcome,
    Reading,
    Repair,
    Tool,
    ToolLike,
)
from parsers.wire import assemble, parse_response, sse_events

__all__ = [
    "DIALECTS",
    "EMISSION_KINDS",
    "ENDPOINT_KINDS",
    "LEVELS",
    "OUTCOME_KINDS",
    "PRECEDENCE",
    "Call",
    "Dialect",
    "Dropped",
    "Failure",
    "FailureKind",
    "Level",
    "Outcome",
    "ReactStream",
    "Reading",
    "Repair",
    "Tool",
    "ToolLike",
    "assemble",
    "correction",
    "explain",
    "parse_native",
    "parse_react",
    "parse_response",
    "sse_events",
]
