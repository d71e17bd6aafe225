"""Call a user's own tool: whatever it does, a JSON text of bounded length or an error comes back.

All of it happens in the call's own thread, also turning the result into JSON: a result may be as
endless as a call. What stands in the environment as a key is taken out of what is shown.
"""

import asyncio
import inspect
import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import date, datetime
from datetime import time as clock
from decimal import Decimal
from enum import Enum
from typing import Any

from bench import secret
from bench.tools.data import Row, make_error
from bench.tools.schema import Function
from bench.tools.toolbox import LONGEST_RESULT

SECONDS = 30.0
"""Time limit of one call of an own tool, unless told."""
_STUCK = 4


@dataclass(eq=False, slots=True)
class OwnCall:
    """A user's function, called so that it can do no harm to a run.

    A thread cannot be stopped. So that a tool that never returns does not fill the machine with
    threads, it is not called again while four calls of it are overdue; a model is told the same
    then as of any call that took too long.
    """

    function: Function
    seconds: float = SECONDS
    started: dict[object, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, **values: Any) -> Any:
        """Return JSON text, or an error's value."""
        if self._overdue() >= _STUCK:
            return make_error(f"the tool did not answer within {self.seconds:g} s")
        me = object()
        with self.lock:
            self.started[me] = time.monotonic()
        try:
            return _hide(encode(_finish(self.function(**values))))
        except BaseException as fault:  # noqa: BLE001 - a user's tool may raise anything, also SystemExit
            said = f"{type(fault).__name__}: {_text_of(fault)}"
            return make_error(f"the tool failed: {_hide_keys(said)[:300]}")
        finally:
            with self.lock:
                del self.started[me]

    def _overdue(self) -> int:
        limit = time.monotonic() - self.seconds
        with self.lock:
            return sum(begun < limit for begun in self.started.values())


def _finish(value: Any) -> Any:
    return asyncio.run(_await(value)) if inspect.isawaitable(value) else value


async def _await(value: Any) -> Any:
    return await value


def _text_of(fault: BaseException) -> str:
    try:
        return " ".join(str(fault).split())
    except Exception:  # noqa: BLE001 - even its text is a stranger's code
        return "(it has no text)"


# ---------------------------------------------------------------- results


def encode(value: Any) -> Any:
    """Return a result as JSON text, or an error's value if it has none or a too long one.

    A text is passed on as it is. Dataclasses, pydantic models, dates, decimals, sets and enums are
    written as JSON; what is endless, such as a generator, is not JSON.
    """
    if isinstance(value, str):
        size = len(value)
        if size <= LONGEST_RESULT:
            return value
        return _too_long(f"{size} characters, at most {LONGEST_RESULT}", value[:500])
    try:
        return _join(json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain), value)
    except (TypeError, ValueError, RecursionError) as problem:
        told = f"the tool returned {type(value).__name__}, which is not JSON"
        return make_error(f"{told}: {str(problem)[:120]}")


def _join(encoder: json.JSONEncoder, value: Any) -> Any:
    """Join the pieces of a JSON text, and stop where it grows too long."""
    pieces, size = [], 0
    for piece in encoder.iterencode(value):
        pieces.append(piece)
        size += len(piece)
        if size > LONGEST_RESULT:
            return _too_long(f"more than {LONGEST_RESULT} characters", "".join(pieces)[:500])
    return "".join(pieces)


def _too_long(size: str, beginning: str) -> Row:
    return make_error(f"the result is too long: {size}", beginning=beginning)


def _plain(value: Any) -> Any:
    """Return what JSON has for a value that it does not know."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    match value:
        case datetime() | date() | clock():
            return value.isoformat()
        case Enum():
            return value.value
        case Decimal():
            return float(value)
        case Mapping():
            return dict(value)
        case set() | frozenset():
            return sorted(value, key=repr)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _hide(value: Any) -> Any:
    """Take keys out of a result, a text or an error's value: the environment's, and what is known."""
    if isinstance(value, Mapping):
        return {name: _hide(item) for name, item in value.items()}
    return _hide_keys(value) if isinstance(value, str) else value


def _hide_keys(text: str) -> str:
    return secret.hide_environment(text, os.environ)
