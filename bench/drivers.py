"""The two ways of asking a model for tools: everything that differs between them, and no more.

A driver holds no state, calls nobody and decides nothing about an episode: it makes messages,
request options and readings. Its texts are data, in `bench/prompts`.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.types import Driver, DriverName, Lang, Message, Reply, Task, ToolResult, WorkbenchError
from parsers import DIALECTS, LEVELS, Call, Dialect, Failure, Level, Reading, Tool

if TYPE_CHECKING:
    from parsers.wire import Envelope

_PROMPTS = Path(__file__).parent / "prompts"
_STOP_WORDS = ("\nObservation:",)
_LONGEST_KEPT = 64 * 1024
"""Characters of a reply that is kept opened."""
_WIRE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@cache
def _texts(lang: Lang) -> dict[str, Any]:
    return tomllib.loads((_PROMPTS / f"{lang}.toml").read_text(encoding="utf-8"))


def explain_failure(failure: Failure, lang: Lang) -> str:
    """Say what is wrong in a sentence of the task's language, and in the reader's own words."""
    from parsers import correction  # noqa: PLC0415 (the readers take time to load)

    reason: str = _texts(lang)["correction"]["reason"].get(failure.kind, "")
    return f"{reason} ({correction(Reading(failure=failure))})" if failure.message else reason


def explain_call(failure: Failure, lang: Lang) -> str:
    """Give the JSON text that answers a call which could not be read."""
    text = _texts(lang)["correction"]["unreadable_call"]
    return json.dumps(
        {"error": text.format(reason=explain_failure(failure, lang))}, ensure_ascii=False
    )


def _correct(failure: Failure, lang: Lang, name: DriverName) -> str:
    texts = _texts(lang)["correction"]
    return str(texts["frame"].format(reason=explain_failure(failure, lang), remedy=texts[name]))


# ------------------------------------------------------------ tools as text


def list_tools(tools: Sequence[Tool], lang: Lang) -> str:
    """Write tools for a prompt: name and description, then one line a parameter."""
    words = _texts(lang)["words"]
    return "\n".join(line for tool in tools for line in _tool_lines(tool, words))


def _tool_lines(tool: Tool, words: Mapping[str, str]) -> list[str]:
    parameters = _parameter_lines(tool.parameters, words, "  ")
    return [
        f"{tool.name}: {_flat(tool.description)}",
        *(parameters or [f"  ({words['no_parameters']})"]),
    ]


def _parameter_lines(schema: Mapping[str, Any], words: Mapping[str, str], indent: str) -> list[str]:
    required = schema.get("required", ())
    lines = []
    for name, part in schema.get("properties", {}).items():
        need = words["required"] if name in required else words["optional"]
        facts = ", ".join([_kind(part, words), need, *_limits(part)])
        about = f": {_flat(part['description'])}" if part.get("description") else ""
        lines.append(f"{indent}- {name} ({facts}){about}")
        lines += _parameter_lines(_inner(part), words, indent + "  ")
    return lines


def _inner(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema whose properties are listed one level deeper."""
    items = schema.get("items")
    return items if isinstance(items, Mapping) else schema


def _kind(schema: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """Name the values that a schema takes."""
    if "enum" in schema:
        return f"{words['one_of']} " + " | ".join(_json(value) for value in schema["enum"])
    if "anyOf" in schema:
        return f" {words['or']} ".join(_kind(part, words) for part in schema["anyOf"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"{words['list_of']} {_kind(schema.get('items', {}), words)}"
    return f" {words['or']} ".join(kind) if isinstance(kind, list) else str(kind)


_TOLD = {"type", "enum", "anyOf", "items", "properties", "required", "description", "title"}
_TOLD |= {"additionalProperties"}


def _limits(schema: Mapping[str, Any]) -> list[str]:
    """Give every other keyword as it stands: a prompt must not know less than `tools` does."""
    own = [f"{name} {_json(value)}" for name, value in schema.items() if name not in _TOLD]
    items = schema.get("items")
    return own + (_limits(items) if isinstance(items, Mapping) else [])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _flat(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------ the two drivers


@dataclass(frozen=True, slots=True)
class ReactDriver:
    """Ask for Thought/Action text and read it."""

    dialect: Dialect = "json"
    level: Level = "hardened"
    example: bool = True
    """Show one worked example."""
    stop_words: bool = True
    """Send stop words; the reader cuts at an invented Observation anyway."""
    stop_early: bool = False
    """Hang up on a stream once nothing that may still come can change the reading."""
    name: DriverName = field(default="react", init=False)

    def open(self, task: Task, tools: Sequence[Tool]) -> tuple[Message, ...]:
        """Return the system message with the tools and the format, and the question in that form."""
        texts = _texts(task.lang)
        system = texts["system"].strip() + "\n\n" + self.additions(tools, task.lang)
        question = texts["react"]["question"].replace("{question}", task.question)
        return ({"role": "system", "content": system}, _user(question))

    def additions(self, tools: Sequence[Tool], lang: Lang = "en") -> str:
        """Return what this way adds to the prompt: tool list, format rules, example."""
        texts = _texts(lang)["react"]
        names = ", ".join(tool.name for tool in tools)
        form = texts["form"][self.dialect].strip().replace("{names}", names)
        parts = [
            texts["tools"] + "\n\n" + list_tools(tools, lang),
            texts["rules"].strip().replace("{form}", form),
        ]
        if self.example:
            parts.append(texts["example_intro"] + "\n\n" + texts["example"][self.dialect].strip())
        return "\n\n".join(parts)

    def options(self, tools: Sequence[Tool]) -> Mapping[str, Any]:  # noqa: ARG002 (the seam's)
        """Return the stop words."""
        return {"stop": list(_STOP_WORDS)} if self.stop_words else {}

    def watch(self, tools: Sequence[Tool]) -> Callable[[str], bool] | None:
        """Return what says when a streamed text is read for good, if we hang up there."""
        from parsers.stream import ReactStream  # noqa: PLC0415 (the readers take time to load)

        if not self.stop_early:
            return None
        stream = ReactStream(tools, level=self.level, dialect=self.dialect)
        return lambda piece: stream.feed(piece) is not None

    def read(self, reply: Reply, tools: Sequence[Tool], level: Level | None = None) -> Reading:
        """Read the text of a reply; a fault of the endpoint is read as on the native side."""
        answer = open_reply(reply)
        if answer.failure is not None:
            return Reading(failure=answer.failure)
        chosen = level or self.level
        if not answer.text.strip():
            return _read_elsewhere(answer, tools, chosen)
        return self._parse(answer.text, tools, chosen, answer.finish_reason)

    def _parse(
        self, text: str, tools: Sequence[Tool], level: Level, finish_reason: str | None
    ) -> Reading:
        from parsers.react import parse_react  # noqa: PLC0415 (the readers take time to load)

        return parse_react(
            text, tools, level=level, dialect=self.dialect, finish_reason=finish_reason
        )

    def respond(
        self, task: Task, reply: Reply, reading: Reading, results: Sequence[ToolResult]
    ) -> tuple[Message, ...]:
        """Return the reply as text, then the Observations, or a correction."""
        echo = _echo_text(reply, reading)
        if reading.failure is not None:
            return (*echo, _user(_correct(reading.failure, task.lang, self.name)))
        return (*echo, _user(_observe(results, task.lang)))


def _read_elsewhere(answer: "Envelope", tools: Sequence[Tool], level: Level) -> Reading:
    """Read a reply without text: a native call, if a server made one of what it saw, or nothing."""
    from parsers.native import parse_native  # noqa: PLC0415 (the readers take time to load)

    message = answer.message or {}
    reading = parse_native(message, tools, level=level, finish_reason=answer.finish_reason)
    if level == "rescue" or not reading.good_calls:
        return reading
    said = "The reply is a native tool call, where text was asked for."
    return Reading(failure=Failure("out_of_channel_call", "native", said, field="tool_calls"))


def _observe(results: Sequence[ToolResult], lang: Lang) -> str:
    """Write one Observation an action, in order."""
    texts = _texts(lang)
    if len(results) == 1:
        return str(texts["observation"].format(content=results[0].content))
    form = texts["observation_of_several"]
    return "\n".join(
        form.format(number=number, tool=result.tool, content=result.content)
        for number, result in enumerate(results, 1)
    )


@dataclass(frozen=True, slots=True)
class NativeDriver:
    """Offer `tools` and read `tool_calls`."""

    level: Level = "hardened"
    dialect: Dialect | None = field(default=None, init=False)
    name: DriverName = field(default="native", init=False)

    def open(self, task: Task, tools: Sequence[Tool]) -> tuple[Message, ...]:  # noqa: ARG002 (the seam's)
        """Return the system message and the question; the tools go into the options."""
        return (
            {"role": "system", "content": _texts(task.lang)["system"].strip()},
            {"role": "user", "content": task.question},
        )

    def additions(self, tools: Sequence[Tool], lang: Lang = "en") -> str:  # noqa: ARG002 (the seam's)
        """Return what this way adds to the request; the server's template makes a prompt of it."""
        return json.dumps(self.options(tools), ensure_ascii=False)

    def options(self, tools: Sequence[Tool]) -> Mapping[str, Any]:
        """Return the tools, and `tool_choice` always: some servers drop the tools without it."""
        if not tools:
            return {}
        return {"tools": [tool.to_openai() for tool in tools], "tool_choice": "auto"}

    def watch(self, tools: Sequence[Tool]) -> Callable[[str], bool] | None:  # noqa: ARG002 (the seam's)
        """Return None: a further call may always come."""
        return None

    def read(self, reply: Reply, tools: Sequence[Tool], level: Level | None = None) -> Reading:
        """Read the answer as it came, faults of the endpoint included."""
        from parsers.wire import read_envelope  # noqa: PLC0415 (the readers take time to load)

        return read_envelope(open_reply(reply), tools, level=level or self.level)

    def respond(
        self, task: Task, reply: Reply, reading: Reading, results: Sequence[ToolResult]
    ) -> tuple[Message, ...]:
        """Return the assistant message as it came, then an answer to every id, or a correction."""
        message = _message(reply)
        entries = _entries(message)
        if entries and reading.calls:
            return (_echo_calls(message, entries, reading.calls), *_answers(task, reading, results))
        echo = _echo_message(message)
        if reading.failure is not None:
            return (*echo, _user(_correct(reading.failure, task.lang, self.name)))
        return (*echo, _user(_tell_results(results, task.lang)))


def _answers(task: Task, reading: Reading, results: Sequence[ToolResult]) -> tuple[Message, ...]:
    """Answer every call by its id, in order; one that was not run gets the reason."""
    texts = [result.content for result in results]
    if len(texts) != len(reading.calls):
        failures = [call.failure or reading.failure for call in reading.calls]
        texts = [explain_call(failure, task.lang) for failure in failures if failure is not None]
    return tuple(
        {"role": "tool", "tool_call_id": call.id or "", "content": text}
        for call, text in zip(reading.calls, texts, strict=True)
    )


def _tell_results(results: Sequence[ToolResult], lang: Lang) -> str:
    """Answer calls that came as text: where no id was given, none can be answered."""
    form = _texts(lang)["rescued_result"]
    return "\n".join(form.format(tool=r.tool, content=r.content) for r in results)


# ------------------------------------------------------------ history


def wire_of(reply: Reply) -> dict[str, Any]:
    """Give a reply in the form that the readers take; a stream that we broke off is at its end."""
    body = reply.body + ("\n\ndata: [DONE]\n\n" if reply.hung_up else "")
    return {"status": reply.status, "headers": dict(reply.headers), "body": body}


def open_reply(reply: Reply) -> "Envelope":
    """Take a reply out of its wrapping; what it gives is shared, and not to be changed.

    The loop, the history and the scores all ask for the same few replies, so the last are kept.
    """
    from parsers.wire import open_response  # noqa: PLC0415 (the readers take time to load)

    keepable = isinstance(reply.status, int) and isinstance(reply.body, str)
    if not keepable or len(reply.body) > _LONGEST_KEPT:
        return open_response(wire_of(reply))
    kind = str(reply.headers.get("content-type", ""))
    return _opened(reply.status, kind, reply.body, hung_up=bool(reply.hung_up))


@lru_cache(maxsize=256)
def _opened(status: int, kind: str, body: str, *, hung_up: bool) -> "Envelope":
    from parsers.wire import open_response  # noqa: PLC0415 (the readers take time to load)

    reply = Reply(status, {"content-type": kind}, body, hung_up=hung_up)
    return open_response(wire_of(reply))


def _message(reply: Reply) -> Mapping[str, Any]:
    """Return the assistant message, put together from a stream if need be; {} where there is none."""
    return open_reply(reply).message or {}


def _entries(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the raw calls of a message, the legacy one too."""
    listed, legacy = message.get("tool_calls"), message.get("function_call")
    entries: list[Mapping[str, Any]] = []
    if isinstance(listed, list):
        entries += (item for item in listed if isinstance(item, Mapping))
    if not entries and isinstance(legacy, Mapping):
        entries.append({"function": legacy})
    return entries


def list_calls(reply: Reply) -> tuple[str, ...]:
    """Return the names in a reply's own field for calls, as they came, readable or not."""
    functions = (entry.get("function", entry) for entry in _entries(_message(reply)))
    named = (f.get("name") if isinstance(f, Mapping) else None for f in functions)
    return tuple(str(name or "") for name in named)


def _echo_message(message: Mapping[str, Any]) -> tuple[Message, ...]:
    """Send a message back unchanged, without what is null or empty in it."""
    if not message:
        return ()
    kept = {k: v for k, v in message.items() if v not in (None, []) and k != "function_call"}
    kept.pop("tool_calls", None)
    return ({**kept, "role": "assistant", "content": message.get("content") or ""},)


def _echo_calls(
    message: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], calls: Sequence[Call]
) -> Message:
    """Send a message with calls back: unknown fields kept, ids as the results will name them."""
    kept = {k: v for k, v in message.items() if v not in (None, []) and k != "function_call"}
    left = list(entries)
    echoed = [_echo_call(_take_entry(left, call), call) for call in calls]
    return {**kept, "role": "assistant", "content": message.get("content"), "tool_calls": echoed}


def _take_entry(left: list[Mapping[str, Any]], call: Call) -> Mapping[str, Any]:
    """Find the raw entry that a call was read from: by its arguments, else the next one."""
    for index, entry in enumerate(left):
        function = entry.get("function", entry)
        if isinstance(function, Mapping) and function.get("arguments") == call.raw:
            return left.pop(index)
    return left.pop(0) if left else {}


def _echo_call(entry: Mapping[str, Any], call: Call) -> dict[str, Any]:
    function = entry.get("function")
    own = dict(function) if isinstance(function, Mapping) else {}
    flat = {} if own else {"name", "arguments", "parameters"}
    kept = {k: v for k, v in entry.items() if v is not None and k not in flat}
    own |= {"name": _wire_name(own.get("name"), call.name), "arguments": _wire_arguments(call)}
    return {**kept, "id": call.id or "", "type": "function", "function": own}


def _wire_name(raw: Any, read: str) -> str:
    """Keep the name as it was written, unless endpoints would refuse its form in a history."""
    for name in (raw, read):
        if isinstance(name, str) and _WIRE_NAME.fullmatch(name):
            return name
    return re.sub(r"[^a-zA-Z0-9_-]", "_", read)[:64] or "unnamed"


def _wire_arguments(call: Call) -> str:
    """Keep the arguments as they were written, if they are an object that any server can read."""
    try:
        if isinstance(json.loads(call.raw), dict):
            return call.raw
    except (ValueError, RecursionError):
        pass
    return json.dumps(call.arguments or {}, ensure_ascii=False)


def _echo_text(reply: Reply, reading: Reading) -> tuple[Message, ...]:
    """Send the text back up to an Observation that the model invented.

    One that is nothing else goes back whole: the correction points at it, and an empty message is
    refused by some endpoints.
    """
    answer = open_reply(reply)
    if answer.message is None:
        return ()
    text = answer.text
    cuts = [
        item.start for item in reading.dropped if item.reason in _INVENTED and item.field == "text"
    ]
    kept = text[: min(cuts, default=len(text))].rstrip()
    return ({"role": "assistant", "content": kept or text},)


_INVENTED = frozenset({"observation", "question"})
"""Why a reader drops the rest of a text: from there on the model wrote the tools' and user's part."""


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


# ------------------------------------------------------------ arms


def label(driver: Driver) -> str:
    """Return the name of an arm, as the command line takes it: `react/call@rescue`."""
    dialect = f"/{driver.dialect}" if driver.dialect not in (None, "json") else ""
    level = f"@{driver.level}" if driver.level != "hardened" else ""
    return f"{driver.name}{dialect}{level}"


def make_driver(
    text: str,
    *,
    dialect: str = "json",
    level: str = "hardened",
    example: bool = True,
    stop_early: bool = False,
) -> ReactDriver | NativeDriver:
    """Make a driver from an arm's name: driver, `/dialect`, `@level`.

    >>> from bench import make_driver
    >>> driver = make_driver("react/call@rescue")
    >>> driver.name, driver.dialect, driver.level
    ('react', 'call', 'rescue')
    """
    words = re.fullmatch(r"(\w+)(?:/(\w+))?(?:@(\w+))?", text)
    name, own_dialect, own_level = words.groups() if words else (text, None, None)
    chosen = _one_of("level", own_level or level, LEVELS)
    if name == "native" and own_dialect is None:
        return NativeDriver(level=chosen)
    if name == "react":
        form = _one_of("dialect", own_dialect or dialect, DIALECTS)
        return ReactDriver(form, chosen, example=example, stop_early=stop_early)
    raise WorkbenchError(
        f"{text}: no such driver; known: native, react, react/call, react/bracket, each also with "
        "@strict or @rescue"
    )


def _one_of(what: str, text: str, known: Sequence[Any]) -> Any:
    if text not in known:
        raise WorkbenchError(f"{text}: no such {what}; known: {', '.join(known)}")
    return text
