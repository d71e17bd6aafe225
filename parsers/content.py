"""What a message says in text: its parts sorted, its think blocks taken apart, its refusal.

Takes any mapping, however odd, and never raises. Judges no move and knows no tool.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parsers.types import Dropped, Failure

_REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_CALL_PARTS = {"tool_use", "tool_call", "function_call", "toolcall", "functioncall"}
_DEPTH = 12
_THINK = re.compile(
    r"(?<!`)(?:(?P<open><think(?:ing)?>|\[THINK\]|◁think▷)"
    r"|(?P<close></think(?:ing)?>|\[/THINK\]|◁/think▷))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Content:
    """What a message says in text, parts joined and sorted."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[Mapping[Any, Any], ...] = ()
    """Parts that are calls: calls in the wrong place."""
    dropped: tuple[Dropped, ...] = ()


def read_content(message: Mapping[Any, Any]) -> Content:
    """Join the parts of a message: text to text, thinking to reasoning; others are dropped."""
    texts: list[str] = []
    told = (_text_of(message[key]) for key in _REASONING if key in message)
    thoughts = [next((text for text in told if text.strip()), "")]
    refusals: list[str] = []
    calls: list[Mapping[Any, Any]] = []
    dropped: list[Dropped] = []
    length = 0
    content = message.get("content")
    for part in content if isinstance(content, list | tuple) else [content]:
        kind = str(part.get("type") or "text").lower() if isinstance(part, Mapping) else "text"
        said = _text_of(part)
        if part is None:
            continue
        if "think" in kind or "reason" in kind:
            thoughts.append(said)
        elif kind == "refusal":
            refusals.append(_text_of(part.get("refusal")) or said)
        elif kind in _CALL_PARTS:
            calls.append(part)
        elif kind.endswith("text") and (said or isinstance(part, str | Mapping)):
            texts.append(said)
            length += len(said)
        else:
            dropped.append(Dropped(length, length, "content_part", "content"))
    return Content(
        "".join(texts), join_thoughts(*thoughts), "".join(refusals), tuple(calls), tuple(dropped)
    )


def _text_of(value: Any, depth: int = _DEPTH) -> str:
    if isinstance(value, str):
        return value
    if depth == 0:
        return ""
    if isinstance(value, list | tuple):
        return "".join(_text_of(one, depth - 1) for one in value)
    if isinstance(value, Mapping):
        keys = ("text", "thinking", "reasoning", "content", "summary")
        return next((t for key in keys if (t := _text_of(value.get(key), depth - 1))), "")
    return ""


@dataclass(frozen=True, slots=True)
class Split:
    """A text without its think blocks."""

    thought: str
    answer: str
    masked: str
    """The text with its think blocks blanked, so that positions hold."""
    opened: int | None = None
    """Where a think block begins that nothing closes."""


def split_think(text: str) -> Split:
    """Take the think blocks out of a text; all before an orphan closer is one."""
    if "think" not in text.lower():
        return Split("", text, text)
    blocks, opened = _find_blocks(text)
    kept: list[str] = []
    masked: list[str] = []
    thoughts: list[str] = []
    end = 0
    for start, inner, inner_end, stop in blocks:
        kept.append(text[end:start])
        masked += [kept[-1], " " * (stop - start)]
        thoughts.append(text[inner:inner_end])
        end = stop
    kept.append(text[end:])
    masked.append(kept[-1])
    return Split(join_thoughts(*thoughts), "".join(kept), "".join(masked), opened)


def _find_blocks(text: str) -> tuple[list[tuple[int, int, int, int]], int | None]:
    """Return the think blocks, each with the span of its inside, and where one stays open.

    All before a closer that nothing opened is a block, if it is the first.
    """
    blocks: list[tuple[int, int, int, int]] = []
    opened: re.Match[str] | None = None
    for tag in _THINK.finditer(text):
        if tag["open"]:
            if opened is None and _begins_block(text, tag.start()):
                opened = tag
        elif opened is not None:
            blocks.append((opened.start(), opened.end(), tag.start(), tag.end()))
            opened = None
        elif not blocks:
            blocks.append((0, 0, tag.start(), tag.end()))
    if opened is None:
        return blocks, None
    return [*blocks, (opened.start(), opened.end(), len(text), len(text))], opened.start()


def _begins_block(text: str, position: int) -> bool:
    """Say whether a tag stands where a block begins; in the middle of a line it is prose."""
    before = text[max(0, position - 200) : position].rstrip(" \t")
    return not before or before[-1] in "\r\n>"


def find_refusal(message: Mapping[Any, Any]) -> Failure | None:
    """Return the failure of a message with a filled `refusal`, as field or as part."""
    return refusal_in(message, read_content(message))


def refusal_in(message: Mapping[Any, Any], content: Content) -> Failure | None:
    """Return the failure of a filled `refusal`, where the content is read already."""
    refusal = _text_of(message.get("refusal")) or content.refusal
    if not refusal.strip():
        return None
    shown = " ".join(refusal.split())[:200].rstrip(".")
    said = f"The model's refusal is marked as such: {shown}."
    return Failure("refused_or_filtered", "refusal", said, 0, "refusal")


def join_thoughts(*texts: str) -> str:
    """Join what is filled, a line each."""
    return "\n".join(text.strip() for text in texts if text.strip())
