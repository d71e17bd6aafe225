"""Run tools: whatever a model asks for comes back as a text, and nothing raises.

A tool's function may hang, raise, or return anything at all: unless it is one of ours, it runs in a
thread of its own with a time limit, and its result is bounded. What changes something runs only with
leave.
"""

import asyncio
import contextlib
import inspect
import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python

from bench.tools.data import Row, make_error, report_unknown
from bench.tools.schema import Entry, Function, entry_from_function
from bench.types import ToolResult
from parsers import Call, Tool

Leave = Callable[[str, Mapping[str, Any]], str | None]
"""Asked before a tool changes something: tool and arguments in; who gave leave out, or None."""

LONGEST_RESULT = 20_000
"""Characters of a result that a model is shown at most."""


def refuse_all(name: str, arguments: Mapping[str, Any]) -> str | None:  # noqa: ARG001 - a Leave
    """Give leave to nothing."""
    return None


def leave_for(allowed: Collection[str], ask: Callable[[str], bool] | None = None) -> Leave:
    """Return a Leave that grants the tools named on the command line and asks for the others.

    `ask` takes one line that says what is about to happen (bounded, control characters escaped)
    and runs in a thread; without it (no terminal) all other tools are refused.
    """
    one_at_a_time = threading.Lock()

    def leave(name: str, arguments: Mapping[str, Any]) -> str | None:
        if name in allowed:
            return "flag"
        if ask is None:
            return None
        with one_at_a_time:
            return "terminal" if ask(f"{name} {show_arguments(arguments)}") else None

    return leave


def show_arguments(arguments: Mapping[str, Any], longest: int = 500) -> str:
    """Return arguments as one printable line: a model's text must not steer a terminal."""
    text = json.dumps(dict(arguments), ensure_ascii=False, default=repr)
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text[:longest])
    return shown + ("…" if len(text) > longest else "")


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools that a task offers, in their order, and how each is run."""

    entries: tuple[Entry, ...]
    seconds: float = 20.0
    """Time limit of one call."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What a model is told."""
        return tuple(entry.tool for entry in self.entries)

    @property
    def table(self) -> dict[str, Entry]:
        """The entries by name."""
        return {entry.tool.name: entry for entry in self.entries}

    def with_tools(self, tools: Iterable[Tool]) -> "Toolbox":
        """Return the toolbox with other texts for the tools of the same names."""
        texts = {tool.name: tool for tool in tools}
        entries = (replace(e, tool=texts.get(e.tool.name, e.tool)) for e in self.entries)
        return replace(self, entries=tuple(entries))

    def without(self, names: Collection[str]) -> "Toolbox":
        """Return the toolbox less the tools named."""
        kept = tuple(entry for entry in self.entries if entry.tool.name not in names)
        return replace(self, entries=kept)

    async def run(self, call: Call, leave: Leave = refuse_all) -> ToolResult:
        """Run one call and return its result; every fault is an error text in it."""
        started = time.perf_counter()
        granted, value = await self._answer(call, leave)
        content, error = render(value)
        return ToolResult(
            call_id=call.id,
            tool=call.name,
            arguments=call.arguments,
            content=content,
            error=error,
            leave=granted,
            seconds=round(time.perf_counter() - started, 6),
        )

    async def run_all(self, calls: Iterable[Call], leave: Leave = refuse_all) -> list[ToolResult]:
        """Run several calls at once; the results come in the order of the calls."""
        return list(await asyncio.gather(*(self.run(call, leave) for call in calls)))

    async def _answer(self, call: Call, leave: Leave) -> tuple[str | None, Any]:
        entry = self.table.get(call.name)
        if entry is None:
            return None, report_unknown("tool", call.name, self.table)
        if call.arguments is None:
            return None, make_error("arguments could not be read", expected="one JSON object")
        problem, values = entry.prepare(call.arguments)
        if problem is not None:
            return None, problem
        granted = await _ask(leave, call) if entry.changes else None
        if entry.changes and granted is None:
            return None, _refuse(call.name)
        if entry.ends:
            return granted, _call(entry.function, values)
        return granted, await run_bounded(entry.function, values, self.seconds)


async def _ask(leave: Leave, call: Call) -> str | None:
    """Return who gives leave; the question waits for a person, so it has no time limit."""
    question = partial(leave, call.name, call.arguments or {})
    who = await run_bounded(question, {}, None)
    return who if isinstance(who, str) else None


def _refuse(name: str) -> Row:
    return make_error(
        f"{name} was not allowed to run: it changes something and nobody gave leave",
        hint="tell the user that this was not done",
    )


async def run_bounded(function: Function, values: Mapping[str, Any], seconds: float | None) -> Any:
    """Return what a function returns, or an error's value if it raises or takes too long.

    A thread cannot be stopped: one that hangs is left behind as a daemon, so that neither this
    run nor the end of the program waits for it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any) -> None:
        if not done.done():
            done.set_result(value)

    def work() -> None:
        value = _call(function, values)
        with contextlib.suppress(RuntimeError):  # the run is over and its loop is closed
            loop.call_soon_threadsafe(settle, value)

    threading.Thread(target=work, daemon=True).start()
    try:
        return await asyncio.wait_for(done, seconds)
    except TimeoutError:
        return make_error(f"the tool did not answer within {seconds:g} s")


def _call(function: Function, values: Mapping[str, Any]) -> Any:
    try:
        value = function(**values)
        return asyncio.run(_await(value)) if inspect.isawaitable(value) else value
    except BaseException as fault:  # noqa: BLE001 - a user's tool may raise anything, also SystemExit
        return make_error(f"the tool failed: {type(fault).__name__}: {str(fault)[:300]}")


async def _await(value: Any) -> Any:
    return await value


def render(value: Any) -> tuple[str, bool]:
    """Return a result as JSON text of bounded length, and whether it reports an error.

    A text that is JSON already is passed on as it is.
    """
    try:
        text, failed = _encode(value)
    except (TypeError, ValueError, RecursionError):
        kind = type(value).__name__
        text, failed = _dump(make_error(f"the tool returned {kind}, which is not JSON")), True
    if len(text) > LONGEST_RESULT:
        long = make_error(
            f"the result is too long: {len(text)} characters, at most {LONGEST_RESULT}",
            beginning=text[:500],
        )
        return _dump(long), True
    return text, failed


def _encode(value: Any) -> tuple[str, bool]:
    if isinstance(value, str):
        if len(value) > LONGEST_RESULT:
            return value, True
        try:
            return _checked(value), _has_error(json.loads(value))
        except ValueError:
            return _dump(value), False
    return _dump(value), _has_error(value)


def _checked(text: str) -> str:
    """Return the text if UTF-8 can carry it."""
    text.encode("utf-8")
    return text


def _dump(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except TypeError:  # a dataclass, a pydantic model, a date
        value = to_jsonable_python(value)
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        return _checked(text)
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False)


def _has_error(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.get("error"))


def toolbox_from(functions: Iterable[Function], seconds: float = 20.0) -> Toolbox:
    """Return a toolbox of the user's own functions, sync or async.

    >>> from bench import toolbox_from
    >>> def get_price(product: str) -> float:
    ...     '''Get a price.'''
    ...     return 3.5
    >>> toolbox_from([get_price]).tools[0].parameters["required"]
    ['product']
    """
    from bench.own.calls import OwnCall  # noqa: PLC0415 (it rests on this module)

    made = ((function, entry_from_function(function)) for function in functions)
    return Toolbox(
        tuple(replace(entry, function=OwnCall(function, seconds)) for function, entry in made),
        seconds,
    )
