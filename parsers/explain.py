"""Say in plain words what a reading found in a text, and point at the place.

For people and for corrections to a model: it only words what the reading holds. The text is a
model's, so everything of it is shortened and escaped.
"""

import json
import unicodedata
from collections.abc import Iterator

from parsers.arguments import ARGUMENT_REPAIRS
from parsers.moves import REPAIRS
from parsers.names import NAME_REPAIRS
from parsers.native import NATIVE_REPAIRS
from parsers.types import Call, Dropped, Failure, Reading, Repair
from parsers.wire import WIRE_REPAIRS

SENTENCES: dict[str, str] = {
    **WIRE_REPAIRS,
    **NATIVE_REPAIRS,
    **ARGUMENT_REPAIRS,
    **NAME_REPAIRS,
    **REPAIRS,
}
"""What each repair did, by its name."""

_WINDOW = 72
_SHOWN = 200
_ENDS = frozenset({"observation", "question", "token"})
"""Reasons of a span that stands for all the text behind it too."""
_LISTED = 12
"""Repairs and dropped spans that are told one by one; the rest is counted."""


def explain(reading: Reading, text: str) -> str:
    r"""Tell in a few lines what was read, mended, dropped or refused, with a caret at each place.

    `text` is what was read; places in another field (`calls[0].arguments`) are named only.

    >>> from parsers import Tool, explain, parse_react
    >>> price = Tool("get_price", "Get a price.", {"type": "object", "properties": {}})
    >>> text = 'Action: get_price\nAction Input: {"product": "pen"}'
    >>> explain(parse_react(text, [price]), text)
    'call: get_price {"product": "pen"}'
    """
    lines = [*_outcome(reading)]
    for repair in reading.repairs[:_LISTED]:
        lines += _repaired(repair, text)
    for span in reading.dropped[:_LISTED]:
        lines += _left_out(span, text)
    left = max(0, len(reading.repairs) - _LISTED) + max(0, len(reading.dropped) - _LISTED)
    if left:
        lines.append(f"and {left} more")
    for call in reading.calls:
        if call.failure is not None and call.failure is not reading.failure:
            lines += _refused(call.failure, text, f"call {shown(call.name)}")
    if reading.failure is not None:
        lines += _refused(reading.failure, text, "refused")
    return "\n".join(lines)


def correction(reading: Reading) -> str:
    """Give the sentence that tells a model what was wrong with its reply; "" if nothing was.

    >>> from parsers import correction, parse_react
    >>> correction(parse_react("Final Answer: 3 euros", []))
    ''
    """
    failures = [reading.failure, *(call.failure for call in reading.calls)]
    told = dict.fromkeys(_sentence(failure) for failure in failures if failure is not None)
    return " ".join(list(told)[:_LISTED])


def shown(text: str, limit: int = _SHOWN) -> str:
    """Escape what a terminal would act on, and shorten."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return "".join(_escaped(character) for character in cut)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def _sentence(failure: Failure) -> str:
    return shown(failure.message) or f"{failure.kind.replace('_', ' ').capitalize()}."


def _outcome(reading: Reading) -> Iterator[str]:
    if reading.final is not None:
        yield f"answer: {shown(reading.final)}"
    for call in reading.good_calls:
        yield f"call: {_called(call)}"


def _called(call: Call) -> str:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return f"{shown(call.name)} {shown(arguments)}"


def _repaired(repair: Repair, text: str) -> Iterator[str]:
    said = SENTENCES.get(repair.name, "")
    yield f"repaired: {repair.name}{_where(repair.field, repair.position, text)}. {said}".rstrip()
    yield from _pointed(repair.field, repair.position, text)


def _left_out(span: Dropped, text: str) -> Iterator[str]:
    where = _where(span.field, span.start, text)
    if span.reason in _ENDS:
        yield f"dropped: all from here on ({span.reason}){where}"
    else:
        count = span.end - span.start
        yield f"dropped: {count} character{'' if count == 1 else 's'} ({span.reason}){where}"
    yield from _pointed(span.field, span.start, text)


def _refused(failure: Failure, text: str, word: str) -> Iterator[str]:
    kind = failure.kind if failure.detail is None else f"{failure.kind} ({failure.detail})"
    where = "" if failure.position is None else _where(failure.field, failure.position, text)
    yield f"{word}: {kind}{where}. {_sentence(failure)}"
    if failure.position is not None:
        yield from _pointed(failure.field, failure.position, text)


def _where(field: str, position: int, text: str) -> str:
    if field != "text":
        return f" at {shown(field)}, character {position}"
    line = text.count("\n", 0, position) + 1
    return f" at line {line}, column {position - text.rfind(chr(10), 0, position)}"


def _pointed(field: str, position: int, text: str) -> Iterator[str]:
    """Show the part of the line around a place, and a caret under it."""
    if field != "text" or not text:
        return
    position = min(max(position, 0), len(text))
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    left = max(begin, position - _WINDOW // 2)
    right = min(end, left + _WINDOW)
    before = shown(text[left:position], _WINDOW)
    head = "…" if left > begin else ""
    tail = "…" if right < end else ""
    yield f"  {head}{before}{shown(text[position:right], _WINDOW)}{tail}"
    yield f"  {' ' * _columns(head + before)}^"


def _columns(text: str) -> int:
    """Count the columns of a terminal that a text takes."""
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
