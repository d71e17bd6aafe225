"""What an endpoint does when calls and results don't belong together.

Builds a right exchange and seven wrong ones, sends them through a client, and says of each answer
whether it is a refusal or silence, and what the model then does. Repairs nothing on the way: the
wrong histories are the experiment.
"""

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bench.drivers import NativeDriver
from bench.types import Client, Gold, Message, Reply, Request, StepKey, Task, ToolResult
from parsers import Call, Reading, Tool

Outcome = Literal[
    "refused",  # the endpoint refused the request
    "answered",  # accepted, and the model answered in words
    "asked_again",  # accepted, and the model asked for a call of the exchange once more
    "asked_in_text",  # accepted, and asked again in the text, where no loop looks for a call
    "called_other",  # accepted, and the model asked for another call
    "unreadable",  # accepted, and the model's move could not be read
    "failed",  # the endpoint failed: nothing is known
    "not_recorded",  # replaying, and this request was never recorded
]
ACCEPTED: frozenset[Outcome] = frozenset(
    {"answered", "asked_again", "asked_in_text", "called_other", "unreadable"}
)
SETTINGS: Mapping[str, Any] = {"temperature": 0, "max_tokens": 256}
MAX_TEXT = 400

TOOL = Tool(
    "get_temperature",
    "Get the temperature in a town right now, in degrees Celsius.",
    {
        "type": "object",
        "properties": {"town": {"type": "string", "description": "The town's name."}},
        "required": ["town"],
        "additionalProperties": False,
    },
)
TOWNS = (
    ("Oslo", "Bergen"),
    ("Lima", "Cusco"),
    ("Kyoto", "Osaka"),
    ("Graz", "Linz"),
    ("Porto", "Lisbon"),
    ("Perth", "Hobart"),
    ("Turin", "Naples"),
    ("Lyon", "Lille"),
    ("Gdansk", "Lodz"),
    ("Cork", "Galway"),
    ("Malmo", "Lund"),
    ("Ghent", "Bruges"),
    ("Tampere", "Turku"),
    ("Izmir", "Ankara"),
    ("Cairo", "Luxor"),
    ("Quito", "Cuenca"),
    ("Boston", "Denver"),
    ("Delhi", "Jaipur"),
    ("Hanoi", "Hue"),
    ("Basel", "Bern"),
)
CELSIUS = (4, 17)
"""The results, which name no town: an endpoint that mixes them up makes the model say so."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A right exchange of two calls and their results, in its parts."""

    opening: tuple[Message, ...]
    """Everything before the calls."""
    assistant: Message
    """The message with two calls."""
    results: tuple[Message, ...]
    """The two tool messages, in the order of the calls."""
    added: int = 0
    """How many of the two calls were added because the model made fewer."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the calls."""
        return tuple(str(call["id"]) for call in self.assistant["tool_calls"])


@dataclass(frozen=True, slots=True)
class Trial:
    """One exchange of one kind, and what came of it."""

    variant: str
    """The kind of exchange, a key of `VARIANTS`; `open`: the question itself got no answer."""
    number: int
    """Which question, from 0."""
    outcome: Outcome
    status: int
    """The HTTP status; 0: no answer came."""
    code: str | None = None
    """The code (or type) in the error's body."""
    said: str = ""
    """The error's text or the model's, cut to 400 characters."""
    added: int = 0
    """How many of the two calls the model had not made itself."""


@dataclass(frozen=True, slots=True)
class Row:
    """All trials of one kind of exchange, as counts."""

    variant: str
    trials: int
    counts: Mapping[Outcome, int]
    statuses: Mapping[int, int]
    codes: Mapping[str, int]
    example: str
    """What was said most often."""

    @property
    def known(self) -> int:
        """The trials of which something is known: those that neither failed nor were missing."""
        return self.trials - self.counts.get("failed", 0) - self.counts.get("not_recorded", 0)

    @property
    def accepted(self) -> int:
        """The trials that the endpoint let pass."""
        return sum(self.counts.get(outcome, 0) for outcome in ACCEPTED)

    @property
    def verdict(self) -> str:
        """Say in one word what the endpoint does."""
        if not self.known:
            return "unknown"
        if self.accepted == self.known:
            return "accepted"
        return "refused" if not self.accepted else "mixed"


# ---------------------------------------------------------------- the exchanges


def build_right(exchange: Exchange) -> tuple[Message, ...]:
    """Leave everything as it should be."""
    return (*exchange.opening, exchange.assistant, *exchange.results)


def build_changed_id(exchange: Exchange) -> tuple[Message, ...]:
    """Change one character of the last result's id."""
    first, last = exchange.results
    wrong = {**last, "tool_call_id": change_id(exchange.ids[1], exchange.ids)}
    return (*exchange.opening, exchange.assistant, first, wrong)


def build_missing_result(exchange: Exchange) -> tuple[Message, ...]:
    """Leave out the last result."""
    return build_right(exchange)[:-1]


def build_second_result(exchange: Exchange) -> tuple[Message, ...]:
    """Answer the last id twice, with another value."""
    second = {**exchange.results[1], "content": _result_text(CELSIUS[1] + 9)}
    return (*build_right(exchange), second)


def build_orphan_result(exchange: Exchange) -> tuple[Message, ...]:
    """Add a result that no call asked for."""
    ids = exchange.ids
    orphan = change_id(change_id(ids[1], ids), ids)
    return (*build_right(exchange), {**exchange.results[1], "tool_call_id": orphan})


def build_no_assistant(exchange: Exchange) -> tuple[Message, ...]:
    """Leave out the message with the calls."""
    return (*exchange.opening, *exchange.results)


def build_message_between(exchange: Exchange) -> tuple[Message, ...]:
    """Put a user's message between the calls and their results."""
    between = {"role": "user", "content": "Please be quick."}
    return (*exchange.opening, exchange.assistant, between, *exchange.results)


def build_reordered(exchange: Exchange) -> tuple[Message, ...]:
    """Give the results in the other order, each with its right id."""
    return (*exchange.opening, exchange.assistant, *reversed(exchange.results))


VARIANTS: Mapping[str, Callable[[Exchange], tuple[Message, ...]]] = {
    "right": build_right,
    "changed_id": build_changed_id,
    "missing_result": build_missing_result,
    "second_result": build_second_result,
    "orphan_result": build_orphan_result,
    "no_assistant": build_no_assistant,
    "message_between": build_message_between,
    "reordered": build_reordered,
}
"""Every kind of exchange; each takes a right one and gives the messages to send."""


def change_id(identity: str, taken: Iterable[str]) -> str:
    """Change the last letter or digit for another of its kind, so that the form stays right.

    The result is none of `taken`.
    """
    others = {*taken, identity}
    for at in range(len(identity) - 1, -1, -1):
        for character in _alternatives(identity[at]):
            changed = identity[:at] + character + identity[at + 1 :]
            if changed not in others:
                return changed
    return identity + "x"


def _alternatives(character: str) -> str:
    for alphabet in ("0123456789", "abcdef", "ghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"):
        if character in alphabet:
            at = alphabet.index(character)
            return alphabet[at + 1 :] + alphabet[:at]
    return ""


def _result_text(celsius: int) -> str:
    return json.dumps({"celsius": celsius})


# ---------------------------------------------------------------- the first turn


def make_task(number: int) -> Task:
    """Make the question about the two towns of this number."""
    first, second = TOWNS[number % len(TOWNS)]
    question = f"Which is warmer right now, {first} or {second}? Look both up, then answer."
    name = f"pairing-{number}"
    return Task(name, name, "en", "pairing", "pairing", question, Gold())


def make_exchange(
    number: int, opening: Sequence[Message], reply: Reply, reading: Reading
) -> Exchange:
    """Make a right exchange of the model's own calls; where it made fewer than two, add them.

    Ids, reasoning and unknown fields of the model's message are kept.
    """
    calls = reading.calls[:2]
    own = _own_message(make_task(number), reply, reading, calls)
    assistant = _with_two_calls(own, TOWNS[number % len(TOWNS)])
    paired = zip(assistant["tool_calls"], CELSIUS, strict=True)
    answers = [
        {"role": "tool", "tool_call_id": call["id"], "content": _result_text(value)}
        for call, value in paired
    ]
    return Exchange(tuple(opening), assistant, tuple(answers), added=2 - len(calls))


def _own_message(task: Task, reply: Reply, reading: Reading, calls: Sequence[Call]) -> Message:
    """Give the model's message as the native driver sends it back."""
    results = [ToolResult(call.id, call.name, call.arguments, "{}") for call in calls]
    read = Reading(thought=reading.thought, calls=tuple(calls))
    told = NativeDriver().respond(task, reply, read, results)
    if told and told[0].get("role") == "assistant":
        return told[0] if calls else {**told[0], "content": None}
    return {"role": "assistant", "content": None}


def _with_two_calls(message: Message, towns: tuple[str, str]) -> dict[str, Any]:
    """Give the message with two calls: its own first two, or copies about the other town."""
    calls = [dict(call) for call in message.get("tool_calls") or ()][:2]
    if not calls:
        calls.append(_call("call_1", towns[0]))
    if len(calls) < 2:
        other = towns[0] if towns[1] in str(calls[0].get("function")) else towns[1]
        second = copy.deepcopy(calls[0])
        second.update(_call(change_id(str(calls[0]["id"]), ()), other))
        calls.append(second)
    return {**message, "tool_calls": calls}


def _call(identity: str, town: str) -> dict[str, Any]:
    arguments = json.dumps({"town": town}, ensure_ascii=False)
    function = {"name": TOOL.name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


# ---------------------------------------------------------------- asking


async def run_pairing(
    client: Client,
    *,
    count: int = len(TOWNS),
    variants: Sequence[str] = tuple(VARIANTS),
    settings: Mapping[str, Any] = SETTINGS,
    at_once: int = 4,
) -> tuple[Trial, ...]:
    """Ask `count` questions, and after each try every kind of exchange.

    Makes `count * (1 + len(variants))` requests, `at_once` questions at a time.
    """
    gate = asyncio.Semaphore(at_once)

    async def ask(number: int) -> list[Trial]:
        async with gate:
            return await _ask_question(client, number, variants, settings)

    found = await asyncio.gather(*(ask(number) for number in range(count)))
    return tuple(trial for trials in found for trial in trials)


def count_requests(count: int, variants: int = len(VARIANTS)) -> int:
    """Return how many requests `run_pairing` makes."""
    return count * (1 + variants)


async def _ask_question(
    client: Client, number: int, variants: Sequence[str], settings: Mapping[str, Any]
) -> list[Trial]:
    driver = NativeDriver()
    opening = driver.open(make_task(number), [TOOL])
    options = {**settings, **driver.options([TOOL])}
    reply = await client.complete(_request(opening, options, "open", number, 0))
    if reply is None:
        return [Trial("open", number, "not_recorded", 0)]
    reading = driver.read(reply, [TOOL])
    if reading.outcome == "endpoint":
        return [read_trial("open", number, reply, None)]
    exchange = make_exchange(number, opening, reply, reading)
    return [await _try(client, exchange, name, number, options) for name in variants]


async def _try(
    client: Client, exchange: Exchange, variant: str, number: int, options: Mapping[str, Any]
) -> Trial:
    messages = VARIANTS[variant](exchange)
    reply = await client.complete(_request(messages, options, variant, number, 1))
    if reply is None:
        return Trial(variant, number, "not_recorded", 0, added=exchange.added)
    return read_trial(variant, number, reply, exchange)


def _request(
    messages: Sequence[Message], options: Mapping[str, Any], variant: str, number: int, step: int
) -> Request:
    key = StepKey(make_task(number).id, "native", variant, 0, step)
    return Request(tuple(messages), options, key)


# ---------------------------------------------------------------- reading the answers


def read_trial(variant: str, number: int, reply: Reply, exchange: Exchange | None) -> Trial:
    """Say what an answer is: a refusal, a failure, or what the model did."""
    reading = NativeDriver().read(reply, [TOOL])
    code = error_code(reply.body) if reading.outcome == "endpoint" else None
    return Trial(
        variant,
        number,
        _outcome(reading, reply, exchange),
        reply.status,
        code,
        _said(reading)[:MAX_TEXT],
        added=0 if exchange is None else exchange.added,
    )


def _outcome(reading: Reading, reply: Reply, exchange: Exchange | None) -> Outcome:
    match reading.outcome:
        case "endpoint":
            kind = None if reading.failure is None else reading.failure.kind
            return "refused" if kind in {"request_rejected", "context_overflow"} else "failed"
        case "answer":
            return "answered"
        case "call":
            return "asked_again" if _asks_again(reading, exchange) else "called_other"
        case "malformed":
            found = NativeDriver(level="rescue").read(reply, [TOOL])
            return "asked_in_text" if _asks_again(found, exchange) else "unreadable"
        case "refused":
            return "unreadable"


def _asks_again(reading: Reading, exchange: Exchange | None) -> bool:
    """Tell whether a call of the exchange is asked for once more."""
    if exchange is None:
        return False
    functions = [call.get("function") or {} for call in exchange.assistant["tool_calls"]]
    before = [(f.get("name"), _decoded(f.get("arguments"))) for f in functions]
    return any((call.name, call.arguments) in before for call in reading.good_calls)


def _decoded(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except (TypeError, ValueError, RecursionError):
        return None


def _said(reading: Reading) -> str:
    if reading.failure is not None:
        return reading.failure.message
    if reading.final is not None:
        return reading.final
    return "; ".join(f"{call.name}({call.raw})" for call in reading.calls)


def error_code(body: str) -> str | None:
    """Find the code of an error's body, else its type or status word; None where it has none."""
    error = _decoded(body)
    error = error[0] if isinstance(error, list) and error else error
    if isinstance(error, dict) and "error" in error:
        error = error["error"]
    error = error[0] if isinstance(error, list) and error else error
    if not isinstance(error, dict):
        return None
    words = (error.get(name) for name in ("code", "status", "type"))
    return next((str(word) for word in words if isinstance(word, str) and word), None)


def sum_up(trials: Sequence[Trial]) -> tuple[Row, ...]:
    """Count the trials of each kind of exchange, in the order of `VARIANTS`."""
    names = ["open", *VARIANTS]
    grouped = {name: [trial for trial in trials if trial.variant == name] for name in names}
    return tuple(_row(name, found) for name, found in grouped.items() if found)


def _row(variant: str, trials: Sequence[Trial]) -> Row:
    said = Counter(trial.said for trial in trials if trial.said)
    return Row(
        variant,
        len(trials),
        Counter(trial.outcome for trial in trials),
        Counter(trial.status for trial in trials),
        Counter(trial.code for trial in trials if trial.code is not None),
        said.most_common(1)[0][0] if said else "",
    )
