"""Count the tokens that an answer says it took, under whatever names and wherever it says so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply as the endpoint counted them; None where it did not say."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    reasoning: int | None = None


_PLACES: dict[str, tuple[tuple[str, ...], ...]] = {
    "prompt": (
        ("prompt_tokens",),
        ("input_tokens",),
        ("promptTokenCount",),
        ("prompt_eval_count",),
    ),
    "completion": (
        ("completion_tokens",),
        ("output_tokens",),
        ("candidatesTokenCount",),
        ("eval_count",),
    ),
    "cached": (
        ("prompt_tokens_details", "cached_tokens"),
        ("input_tokens_details", "cached_tokens"),
        ("prompt_cache_hit_tokens",),
        ("cached_tokens",),
        ("cache_read_input_tokens",),
        ("cachedContentTokenCount",),
    ),
    "reasoning": (
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
        ("reasoning_tokens",),
        ("thoughtsTokenCount",),
    ),
}


def count_tokens(holder: Mapping[Any, Any], counts: dict[str, int]) -> None:
    """Note the usage that a body, chunk or choice carries; counts grow, they are never summed."""
    groq = holder.get("x_groq")
    inner = groq.get("usage") if isinstance(groq, Mapping) else None
    for usage in (holder.get("usage"), holder.get("usageMetadata"), inner):
        if isinstance(usage, Mapping):
            for name, places in _PLACES.items():
                value = next(
                    (n for place in places if (n := _number(usage, place)) is not None), None
                )
                if value is not None:
                    counts[name] = max(value, counts.get(name, 0))
    timings = holder.get("timings")
    if isinstance(timings, Mapping):
        _count_timings(timings, counts)


def _count_timings(timings: Mapping[Any, Any], counts: dict[str, int]) -> None:
    """Read llama.cpp's timings, whose `prompt_n` leaves the cached tokens out."""
    cached = _number(timings, ("cache_n",))
    prompt, predicted = _number(timings, ("prompt_n",)), _number(timings, ("predicted_n",))
    if prompt is not None:
        counts.setdefault("prompt", prompt + (cached or 0))
    if predicted is not None:
        counts["completion"] = max(predicted, counts.get("completion", 0))
    if cached is not None:
        counts["cached"] = max(cached, counts.get("cached", 0))


def _number(usage: Mapping[Any, Any], place: tuple[str, ...]) -> int | None:
    value: Any = usage
    for key in place:
        value = value.get(key) if isinstance(value, Mapping) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def as_usage(counts: dict[str, int]) -> Usage:
    """Return what was counted."""
    return Usage(*(counts.get(name) for name in ("prompt", "completion", "cached", "reasoning")))
