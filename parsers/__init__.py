"""Read what a language model says when it asks for tools: text in, `Reading` out."""

from parsers.types import (
    DIALECTS,
    EMISSION_KINDS,
    ENDPOINT_KINDS,
    LEVELS,
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
)

__all__ = [
    "DIALECTS",
    "EMISSION_KINDS",
    "ENDPOINT_KINDS",
    "LEVELS",
    "Call",
    "Dialect",
    "Dropped",
    "Failure",
    "FailureKind",
    "Level",
    "Outcome",
    "Reading",
    "Repair",
    "Tool",
]
