"""Why does this endpoint not call my tool? About a dozen short requests, and what to change.

Asks through a client and reads what comes back; what a finding means follows from the replies
alone, so that a recorded visit says today what it said then. Mends nothing and starts no server.
"""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bench import choice as chosen
from bench.choice import Choice
from bench.clients import (
    OpenAIClient,
    Patience,
    RecordedClient,
    RecordingClient,
    complain,
    find_fault,
    is_settled,
)
from bench.drivers import NativeDriver, ReactDriver, list_calls, wire_of
from bench.experiments import read_recordings
from bench.pairing import TOOL, change_id
from bench.plan import Order, describe_recording, make_client
from bench.profiles import SETTINGS, Profile, left_out, profile_for
from bench.recordings import Recorder
from bench.show import printable
from bench.status import FOUND, OK, UNSURE
from bench.streaming import read_parts
from bench.types import (
    Client,
    Gold,
    Message,
    Reply,
    Request,
    StepKey,
    Task,
    ToolResult,
    WorkbenchError,
)
from parsers import Failure, Reading, Tool

Verdict = Literal["fine", "note", "problem", "unknown"]
Diagnosis = Literal[
    "fine", "unseen", "in_text", "refused", "shut", "unreadable", "unwilling", "unknown"
]

SENTENCES: Mapping[Diagnosis, str] = {
    "fine": "Tools work: the model sees them and calls them in tool_calls.",
    "unseen": "The tools never reach the model.",
    "in_text": "The calls come out in the text, not in tool_calls.",
    "refused": "The server refuses requests with tools.",
    "shut": "The server refuses even a plain request.",
    "unreadable": "The model calls, but its calls can't be read.",
    "unwilling": "The tools reach the model, but it does not want to call them.",
    "unknown": "What the endpoint does with tools can't be told from its answers.",
}
BASE: Mapping[str, Any] = {"temperature": 0, "max_tokens": 256}
CONTEXT = 5000
"""Tokens of the long prompt: more than the 4,096 that local servers start with."""
CLOCK = Tool(
    "get_local_time",
    "Get the local time in a town right now.",
    {
        "type": "object",
        "properties": {"town": {"type": "string", "description": "The town's name."}},
        "required": ["town"],
        "additionalProperties": False,
    },
)
TOOLS = (TOOL, CLOCK)
TOWNS = ("Oslo", "Lima", "Kyoto")
FIGURE = "17.3"
_FEW = 8
"""Tokens: two tools take well over a hundred; fewer more than this are none of them."""
_RESULT = 12
"""Tokens that a call and its result add at the least."""
_STOP = ("a", "e", "i", "o")
"""Stop words that no answer can do without: what holds one was not stopped."""
_QUOTED = 160


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    verdict: Verdict
    seen: str
    change: str = ""
    """What to do about it."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What was found out about one endpoint."""

    endpoint: str
    model: str
    profile: str
    diagnosis: Diagnosis
    findings: tuple[Finding, ...]
    requests: int

    @property
    def status(self) -> int:
        """The exit status: findings, or not enough to tell, or fine."""
        if any(finding.verdict == "problem" for finding in self.findings):
            return FOUND
        return UNSURE if self.diagnosis == "unknown" else OK


# ---------------------------------------------------------------- asking


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply and what the native side reads in it."""

    reply: Reply
    reading: Reading
    calls: tuple[str, ...]
    """The names in the answer's own field for calls."""
    text: str

    @property
    def fault(self) -> Failure | None:
        """Why there is no answer of a model, if there is none."""
        return self.reading.failure if self.reading.outcome == "endpoint" else None

    @property
    def in_text(self) -> bool:
        """A call stands in the text, in a form that is known or at least by the tool's name."""
        failure = self.reading.failure
        if self.fault is not None or self.calls:
            return False
        known = failure is not None and failure.kind == "out_of_channel_call"
        return known or any(tool.name in self.text for tool in TOOLS)

    @property
    def prompt(self) -> int | None:
        """The tokens of the prompt, as the endpoint counted them."""
        return self.reply.usage.prompt


Answers = Mapping[str, Answer]


def read_answer(reply: Reply) -> Answer:
    """Read a reply as the native driver does."""
    from parsers.wire import open_response  # noqa: PLC0415 (the readers take time to load)

    text = open_response(wire_of(reply)).text
    return Answer(reply, NativeDriver().read(reply, TOOLS), list_calls(reply), text)


def make_task(town: str) -> Task:
    """Make the question about a town."""
    question = f"How warm is it in {town} right now, in degrees Celsius?"
    name = f"doctor-{town.lower()}"
    return Task(name, name, "en", "doctor", "doctor", question, Gold())


@dataclass(slots=True)
class _Round:
    """The requests of one visit, one after the other."""

    client: Client
    settings: dict[str, Any]
    answers: dict[str, Answer]

    async def ask(
        self, name: str, messages: Sequence[Message], options: Mapping[str, Any], **more: Any
    ) -> Answer | None:
        """Ask once; None where a replay has no such answer."""
        key = StepKey(f"doctor-{name}", "native", name, 0, 0)
        sent = {**self.settings, **options, **more}
        reply = await self.client.complete(Request(tuple(messages), sent, key))
        if reply is None:
            return None
        self.answers[name] = read_answer(reply)
        return self.answers[name]


async def ask_all(client: Client, settings: Mapping[str, Any], context: int = CONTEXT) -> Answers:
    """Ask everything; the key of each answer says what was asked.

    Raises `WorkbenchError` where the endpoint can't be reached or gives no access.
    """
    visit = _Round(client, dict(settings), {})
    if not await _ask_plain(visit):
        return visit.answers
    await _ask_with_tools(visit)
    await _ask_with_result(visit)
    await _ask_the_rest(visit, context)
    return visit.answers


async def _ask_plain(visit: _Round) -> bool:
    """Ask without tools; where the sampling settings are refused, go on without them."""
    messages = NativeDriver().open(make_task(TOWNS[0]), ())
    plain = await visit.ask("plain", messages, {})
    if plain is None:
        raise WorkbenchError(
            f"{visit.client.name}: the recording holds no such question; record it anew"
        )
    _raise_if_absent(visit.client, plain)
    if plain.fault is not None:
        visit.settings = {k: v for k, v in visit.settings.items() if k not in SETTINGS}
        plain = await visit.ask("bare", messages, {})
    return plain is not None and plain.fault is None


def _raise_if_absent(client: Client, plain: Answer) -> None:
    failure = find_fault(plain.reply)
    inner = client.inner if isinstance(client, RecordingClient) else client
    if failure is None or not isinstance(inner, OpenAIClient):
        return
    if failure.retryable or failure.detail == "access" or plain.reply.status in (0, 404):
        raise WorkbenchError(f"endpoint {client.name}: {complain(inner, plain.reply, failure)}")


async def _ask_with_tools(visit: _Round) -> None:
    driver = NativeDriver()
    options = driver.options(TOOLS)
    for at, town in enumerate(TOWNS):
        await visit.ask(f"auto {at + 1}", driver.open(make_task(town), TOOLS), options)
    opening = driver.open(make_task(TOWNS[0]), TOOLS)
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    await visit.ask("streamed", opening, options, **stream)
    await visit.ask("none", opening, options, tool_choice="none")
    named = {"type": "function", "function": {"name": CLOCK.name}}
    await visit.ask("named", opening, options, tool_choice=named)
    hello = (opening[0], _user("Say hello."))
    await visit.ask("required", hello, options, tool_choice="required")


async def _ask_with_result(visit: _Round) -> None:
    """Give a result back, then once more under an id that no call has."""
    driver = NativeDriver()
    opening = driver.open(make_task(TOWNS[0]), TOOLS)
    exchange = _exchange(visit.answers.get("auto 1"))
    await visit.ask("result", (*opening, *exchange), driver.options(TOOLS))
    last = exchange[-1]
    wrong = {**last, "tool_call_id": change_id(str(last["tool_call_id"]), ())}
    await visit.ask("wrong id", (*opening, *exchange[:-1], wrong), driver.options(TOOLS))


def _exchange(answer: Answer | None) -> tuple[Message, ...]:
    """Give the model's own calls with results, as a run would; else a call of our own."""
    task, content = make_task(TOWNS[0]), json.dumps({"celsius": float(FIGURE)})
    calls = answer.reading.calls if answer is not None else ()
    if answer is not None and answer.calls and answer.reading.failure is None:
        results = [ToolResult(call.id, call.name, call.arguments, content) for call in calls]
        told = NativeDriver().respond(task, answer.reply, answer.reading, results)
        if told[-1].get("role") == "tool":
            return told
    function = {"name": TOOL.name, "arguments": json.dumps({"town": TOWNS[0]})}
    call = {"id": "call_1", "type": "function", "function": function}
    return (
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": content},
    )


async def _ask_the_rest(visit: _Round, context: int) -> None:
    await visit.ask("stop", (_user("Name three animals."),), {"stop": list(_STOP)})
    react, task = ReactDriver(), make_task(TOWNS[0])
    await visit.ask("react", react.open(task, TOOLS), react.options(TOOLS))
    if context:
        text = "The code word is BLUEBIRD." + " apple" * context + "\nWhat is the code word?"
        short = {name: 16 for name in visit.settings if name.startswith("max_")}
        await visit.ask("context", (_user(text),), short)


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


# ---------------------------------------------------------------- what it means


def diagnose(
    answers: Answers, profile: Profile, model: str, settings: Mapping[str, Any], context: int
) -> tuple[Diagnosis, tuple[Finding, ...]]:
    """Say what the answers mean: the diagnosis, and every finding with what to change."""
    case = _Case(answers, profile, model, settings, context)
    return case.diagnosis(), tuple(case.findings())


@dataclass(frozen=True, slots=True)
class _Case:
    answers: Answers
    profile: Profile
    model: str
    settings: Mapping[str, Any]
    context: int

    # what was seen

    @property
    def plain(self) -> Answer:
        return self.answers.get("bare", self.answers["plain"])

    @property
    def autos(self) -> list[Answer]:
        return [answer for name, answer in self.answers.items() if name.startswith("auto")]

    @property
    def added(self) -> int | None:
        """Tokens that the tools add to the prompt; None where the endpoint does not count."""
        first = self.answers.get("auto 1")
        if first is None or first.prompt is None or self.plain.prompt is None:
            return None
        return first.prompt - self.plain.prompt

    def diagnosis(self) -> Diagnosis:
        """Choose the one sentence that explains the most."""
        if self.plain.fault is not None:
            return "shut"
        heard = [answer for answer in self.autos if answer.fault is None]
        if not heard:
            return "refused" if self._refusal() is not None else "unknown"
        good = sum(answer.reading.outcome == "call" for answer in heard)
        if 2 * good > len(heard):
            return "fine"
        if self.added is not None and self.added <= _FEW:
            return "unseen"
        if any(answer.in_text for answer in heard):
            return "in_text"
        if any(_is_unreadable(answer) for answer in heard):
            return "unreadable"
        return "unwilling" if self.added is not None else "unknown"

    def _refusal(self) -> Answer | None:
        return next((a for a in self.autos if a.fault and a.fault.kind in _REFUSALS), None)

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each thing looked at, the ones about tools first."""
        yield self._settings()
        if self.plain.fault is not None:
            return
        yield self._reach()
        yield self._calls()
        yield self._react()
        yield self._stream()
        yield from self._choices()
        yield self._result()
        yield self._ids()
        yield self._stop()
        yield self._usage()
        if self.context:
            yield self._window()

    # one check each

    def _settings(self) -> Finding:
        name, first = "settings", self.answers["plain"]
        dropped = left_out(self.settings, self.profile, self.model)
        if first.fault is not None:
            after = "without the sampling settings it answers" if "bare" in self.answers else ""
            how = f"{_said(first)}; {after}" if self.plain.fault is None else _said(self.plain)
            return Finding(name, "problem", how, self._change_refused(first))
        if dropped:
            seen = f"profile {self.profile.name} leaves out {', '.join(dropped)} for this model"
            return Finding(name, "note", seen)
        return Finding(name, "fine", f"taken: {', '.join(self.settings)}")

    def _reach(self) -> Finding:
        name, added = "tools reach the model", self.added
        called = sum(answer.reading.outcome == "call" for answer in self.autos)
        if self._refusal() is not None:
            return Finding(name, "unknown", "the request with tools was refused")
        if added is None:
            seen = "the endpoint counts no prompt tokens"
            return Finding(name, "fine" if called else "unknown", seen)
        with_tools = self.answers["auto 1"].prompt
        seen = f"{with_tools} prompt tokens with two tools, {self.plain.prompt} without"
        if added > _FEW or called:
            return Finding(name, "fine", seen)
        return Finding(name, "problem", seen, self._change_unseen())

    def _calls(self) -> Finding:
        name, diagnosis = "calls", self.diagnosis()
        heard = [answer for answer in self.autos if answer.fault is None]
        match diagnosis:
            case "refused" | "unknown" | "shut":
                bad = self._refusal() or next(iter(self.autos), self.plain)
                problem: Verdict = "problem" if diagnosis == "refused" else "unknown"
                change = self._change_refused(bad) if diagnosis == "refused" else ""
                seen = _said(bad) if bad.fault else f"no call; it wrote: {_quote(bad)}"
                return Finding(name, problem, seen, change)
            case "fine":
                good = sum(answer.reading.outcome == "call" for answer in heard)
                return Finding(name, "fine", f"{good} of {len(heard)} questions")
            case "in_text":
                texts = [answer for answer in heard if answer.in_text]
                seen = f"{len(texts)} of {len(heard)} in the text, such as: {_quote(texts[0])}"
                return Finding(name, "problem", seen, self._change_in_text(texts))
            case "unreadable":
                bad = next(answer for answer in heard if _is_unreadable(answer))
                return Finding(name, "problem", _said(bad), self._change_unreadable())
            case "unseen" | "unwilling":
                seen = f"no call in {len(heard)} questions; it wrote: {_quote(heard[0])}"
                change = self._change_unwilling() if diagnosis == "unwilling" else ""
                return Finding(name, "problem", seen, change or "see above: show it the tools")

    def _react(self) -> Finding:
        name, answer = "ReAct text", self.answers.get("react")
        if answer is None or answer.fault is not None:
            return _missing(name, answer)
        reading = ReactDriver().read(answer.reply, TOOLS)
        if reading.outcome == "call":
            return Finding(name, "fine", "it follows the Thought/Action form")
        seen = f"it does not follow the form; it wrote: {_quote(answer)}"
        return Finding(name, "note", seen, "choose a larger model if neither way works")

    def _stream(self) -> Finding:
        name, streamed = "streaming", self.answers.get("streamed")
        plain = self.answers.get("auto 1")
        if streamed is None or plain is None or plain.fault is not None:
            return Finding(name, "unknown", "nothing to compare")
        if streamed.fault is not None:
            return Finding(name, "problem", _said(streamed), "leave out --stream")
        ours, theirs = read_parts(streamed.reply), read_parts(plain.reply)
        parts = [part for part in ours if ours[part] != theirs[part]]
        if not parts:
            return Finding(name, "fine", "the same as plain")
        change = "compare with python -m bench streaming; leave out --stream if it stays so"
        verdict: Verdict = "problem" if bool(ours["calls"]) != bool(theirs["calls"]) else "note"
        return Finding(name, verdict, f"differs from plain in {', '.join(parts)}", change)

    def _choices(self) -> Iterator[Finding]:
        for choice in ("none", "required", "named"):
            name, answer = f"tool_choice {choice}", self.answers.get(choice)
            if answer is None or (answer.fault and answer.fault.kind not in _REFUSALS):
                yield _missing(name, answer)
            elif answer.fault is not None:
                yield Finding(name, "note", f"refused: {_said(answer)}", "don't send it here")
            elif _holds(choice, answer.calls):
                yield Finding(name, "fine", "honoured")
            else:
                calls = ", ".join(answer.calls) or "no call"
                yield Finding(name, "note", f"ignored: {calls}", "don't rely on it here")

    def _result(self) -> Finding:
        name, answer = "results reach the model", self.answers.get("result")
        if answer is None or (answer.fault and answer.fault.kind not in _REFUSALS):
            return _missing(name, answer)
        if answer.fault is not None:
            return Finding(name, "problem", _said(answer), self._change_refused(answer))
        if FIGURE in answer.text or FIGURE.replace(".", ",") in answer.text:
            return Finding(name, "fine", f"the answer holds its figure, {FIGURE}")
        return self._unused_result(name, answer)

    def _unused_result(self, name: str, answer: Answer) -> Finding:
        """Tell a result that was lost from one that the model made nothing of, by the tokens."""
        did = "it called again" if answer.calls or answer.in_text else "it did not use the figure"
        first = self.answers.get("auto 1")
        if answer.prompt is None or first is None or first.prompt is None:
            return Finding(name, "unknown", f"{did}: {_quote(answer)}")
        more = answer.prompt - first.prompt
        if more >= _RESULT:
            seen = f"{more} prompt tokens more with call and result, but {did}: {_quote(answer)}"
            return Finding(name, "note", seen, "choose a larger model if answers stay wrong")
        seen = f"only {more} prompt tokens more with call and result; {did}"
        return Finding(name, "problem", seen, self._change_unseen())

    def _ids(self) -> Finding:
        name, answer = "ids are paired", self.answers.get("wrong id")
        if answer is None or (answer.fault and answer.fault.kind not in _REFUSALS):
            return _missing(name, answer)
        right = self.answers.get("result")
        if answer.fault is None:
            seen = "a result for an id that no call has is accepted without a word"
            return Finding(name, "note", seen, "check the pairing in your own loop")
        if right is None or right.fault is not None:
            return Finding(name, "unknown", "right and wrong ids are refused alike")
        return Finding(name, "fine", f"a wrong id is refused: {_said(answer)}")

    def _stop(self) -> Finding:
        name, answer = "stop words", self.answers.get("stop")
        if left_out({"stop": list(_STOP)}, self.profile, self.model):
            return Finding(name, "note", f"not sent: profile {self.profile.name} takes none here")
        if answer is None or (answer.fault and answer.fault.kind not in _REFUSALS):
            return _missing(name, answer)
        if answer.fault is not None:
            change = "give a --profile file whose family takes none ('stop': 0)"
            return Finding(name, "problem", _said(answer), change)
        if any(word in answer.text for word in _STOP):
            seen = f"ignored: it went on to {_quote(answer)}"
            return Finding(name, "note", seen, "nothing: the reader cuts at an invented result")
        return Finding(name, "fine", "taken")

    def _usage(self) -> Finding:
        names = {"plain": self.plain, "streamed": self.answers.get("streamed")}
        lacking = [
            name
            for name, answer in names.items()
            if answer is not None and answer.fault is None and answer.prompt is None
        ]
        if not lacking:
            return Finding("usage", "fine", "given")
        seen = f"not given: {', '.join(lacking)}"
        return Finding("usage", "note", seen, "token costs are lower bounds in the report")

    def _window(self) -> Finding:
        name, answer = "context", self.answers.get("context")
        if answer is None or (answer.fault and answer.fault.kind not in _REFUSALS):
            return _missing(name, answer)
        if answer.fault is not None:
            seen = f"a prompt of about {self.context} tokens is refused: {_said(answer)}"
            return Finding(name, "note", seen, self._change_window())
        if answer.prompt is None:
            kept = "BLUEBIRD" in answer.text.upper()
            return Finding(name, "fine" if kept else "unknown", "the endpoint counts no tokens")
        seen = f"{answer.prompt} tokens counted of a prompt of about {self.context}"
        if answer.prompt >= 0.9 * self.context:
            return Finding(name, "fine", seen)
        cut = f"{seen}: its front was cut without a word, and the tools stand there"
        return Finding(name, "problem", cut, self._change_window())

    # what to change

    def _or_react(self) -> str:
        answer = self.answers.get("react")
        if answer is None or answer.fault is not None:
            return "or use the ReAct driver: --drivers react"
        works = ReactDriver().read(answer.reply, TOOLS).outcome == "call"
        tried = "it works here" if works else "tried once here, without success"
        return f"or use the ReAct driver: --drivers react ({tried})"

    def _change_unseen(self) -> str:
        return f"{_of(_TEMPLATE, self.profile)}; {self._or_react()}"

    def _change_in_text(self, texts: Sequence[Answer]) -> str:
        readable = any(
            NativeDriver().read(answer.reply, TOOLS, "rescue").good_calls for answer in texts
        )
        rescue = "; or read them there: --drivers native@rescue" if readable else ""
        return f"{_of(_PARSER, self.profile)}{rescue}; {self._or_react()}"

    def _change_unreadable(self) -> str:
        return f"{_of(_PARSER, self.profile)}; or raise --max-tokens; {self._or_react()}"

    def _change_unwilling(self) -> str:
        required = self.answers.get("required")
        able = required is not None and required.fault is None and bool(required.calls)
        can = "it can call when it must (tool_choice required)" if able else "it can't be made to"
        return (
            f"{can}: say in the tools' descriptions when to use them (python -m bench lint), "
            f"or choose a larger model; {self._or_react()}"
        )

    def _change_refused(self, answer: Answer) -> str:
        failure = answer.fault
        detail = None if failure is None else failure.detail
        match detail:
            case "set-up":
                return f"{_of(_SWITCH, self.profile)}; {self._or_react()}"
            case "setting" | "stop":
                return "name the right --profile, or a .json file of one that leaves it out"
            case "tool_choice":
                return f"the server takes no tool_choice auto: {_of(_SWITCH, self.profile)}"
            case "schema":
                return "the server takes no such JSON Schema: simplify it (python -m bench lint)"
            case "reasoning" | "ids" | "content" | "pairing":
                return (
                    f"profile {self.profile.name} does not fit ({detail}): name the right one with "
                    "--profile"
                )
            case _:
                return f"name the right --profile; {self._or_react()}"

    def _change_window(self) -> str:
        return _of(_WINDOW, self.profile)


_REFUSALS = frozenset({"request_rejected", "context_overflow"})

_TEMPLATE: Mapping[str, str] = {
    "": "serve the model with a chat template that has a place for tools",
    "llamacpp": "start llama-server with --jinja and a template that has a place for tools: "
    "--chat-template-file FILE",
    "ollama": "choose a model for which `ollama show` lists tools, or give its Modelfile a "
    "TEMPLATE that uses .Tools",
    "vllm": "start vllm serve with --chat-template FILE, one that has a place for tools",
    "sglang": "start the server with --chat-template FILE, one that has a place for tools",
    "lmstudio": "choose a model that LM Studio marks for tool use",
}
_PARSER: Mapping[str, str] = {
    "": "have the server read this form of call: another tool-call parser or chat template",
    "llamacpp": "start llama-server with --jinja and a template that makes the model write calls "
    "in a form that it reads: --chat-template-file FILE",
    "ollama": "choose a model for which `ollama show` lists tools; its template says how calls look",
    "vllm": "start vllm serve with --enable-auto-tool-choice --tool-call-parser NAME, the parser "
    "of this model's form (hermes, llama3_json, mistral …)",
    "sglang": "start the server with --tool-call-parser NAME, the parser of this model's form",
    "lmstudio": "choose a model that LM Studio marks for tool use",
}
_SWITCH: Mapping[str, str] = {
    "": "switch tool calling on in the server, or choose a model that it serves with tools",
    "llamacpp": "start llama-server with --jinja",
    "ollama": "choose a model for which `ollama show` lists tools",
    "vllm": "start vllm serve with --enable-auto-tool-choice --tool-call-parser NAME",
    "sglang": "start the server with --tool-call-parser NAME",
}
_WINDOW: Mapping[str, str] = {
    "": "choose a larger context in the server",
    "llamacpp": "start llama-server with a larger -c",
    "ollama": "set a larger num_ctx (OLLAMA_CONTEXT_LENGTH, or PARAMETER num_ctx in a Modelfile)",
    "vllm": "start vllm serve with a larger --max-model-len",
    "sglang": "start the server with a larger --context-length",
    "lmstudio": "load the model with a larger context",
}


def _of(texts: Mapping[str, str], profile: Profile) -> str:
    return texts.get(profile.name, texts[""])


def _holds(choice: str, calls: Sequence[str]) -> bool:
    """Tell whether calls are as a tool_choice wants them."""
    match choice:
        case "none":
            return not calls
        case "named":
            return set(calls) == {CLOCK.name}
        case _:
            return bool(calls)


def _is_unreadable(answer: Answer) -> bool:
    """Tell whether the model tried to call, and the call could not be read."""
    failure = answer.reading.failure
    if failure is None or answer.fault is not None:
        return False
    return bool(answer.calls) or failure.kind in ("server_rejected_output", "truncated_output")


def _missing(name: str, answer: Answer | None) -> Finding:
    seen = "not asked, or not recorded" if answer is None else _said(answer)
    return Finding(name, "unknown", seen)


def _said(answer: Answer) -> str:
    failure = answer.reading.failure
    if failure is None:
        return _quote(answer)
    kind = failure.kind if failure.detail is None else f"{failure.kind}, {failure.detail}"
    return f"{failure.message or 'no reason given'} ({kind})"


def _quote(answer: Answer) -> str:
    text = " ".join(answer.text.split()) or "nothing"
    return text if len(text) <= _QUOTED else text[:_QUOTED] + " …"


# ---------------------------------------------------------------- the command


def examine(
    values: Mapping[str, Any], order: Order, *, context: int = CONTEXT, as_json: bool = False
) -> int:
    """Visit the endpoint named, or the recorded ones, and print what was found."""
    choice = chosen.choice_from(values)
    endpoints = chosen.find_endpoints(choice, os.environ, order.api_key)
    if len(endpoints) > 1 or (order.record is not None and not endpoints):
        raise WorkbenchError("doctor: one live endpoint is needed; name it with --model")
    visits = asyncio.run(_visit_live(choice, order, context)) if endpoints else None
    if visits is None:
        visits = asyncio.run(_visit_recorded(choice, context))
    print(to_json_text(visits) if as_json else to_text(visits))  # noqa: T201 (the answer)
    return max((visit.status for visit in visits), key=(OK, UNSURE, FOUND).index)


async def _visit_live(choice: Choice, order: Order, context: int) -> list[Visit]:
    (endpoint,) = chosen.find_endpoints(choice, os.environ, order.api_key)
    settings, profile = choice.settings(BASE), chosen.profile_of(endpoint, choice)
    client: Client = make_client(endpoint, choice, order, Patience(tries=2, seconds=30.0))
    if order.record is not None:
        manifest = describe_recording("doctor", endpoint, choice, settings, 1, order.notes)
        manifest |= {"context": context}
        client = RecordingClient(client, Recorder(order.record, manifest), is_settled)
    return [await visit(client, profile, settings, context)]


async def _visit_recorded(choice: Choice, context: int) -> list[Visit]:
    visits = []
    for recording in read_recordings("doctor", choice):
        said = recording.manifest
        model, host = str(said["model"]), f"http://{said.get('host', '')}"
        profile = profile_for(host, choice.profile or said.get("profile"), model=model)
        tokens = int(said.get("context", context))
        settings = choice.settings(said["settings"])
        visits.append(await visit(RecordedClient(recording), profile, settings, tokens))
    return visits


async def visit(
    client: Client, profile: Profile, settings: Mapping[str, Any], context: int = CONTEXT
) -> Visit:
    """Ask an endpoint everything and say what it means; the client is closed."""
    try:
        answers = await ask_all(client, settings, context)
    finally:
        with suppress(Exception):
            await client.close()
    diagnosis, findings = diagnose(answers, profile, client.model, settings, context)
    return Visit(client.name, client.model, profile.name, diagnosis, findings, len(answers))


def to_json_text(visits: Sequence[Visit]) -> str:
    """Write visits as JSON, for programs."""
    told = [
        {**asdict(visit), "says": SENTENCES[visit.diagnosis], "status": visit.status}
        for visit in visits
    ]
    return json.dumps({"visits": told}, ensure_ascii=True, indent=2)


def to_text(visits: Sequence[Visit]) -> str:
    """Write visits as tables, for people at a terminal."""
    return printable("\n\n".join("\n".join(_lines(visit)) for visit in visits))


def _lines(visit: Visit) -> Iterator[str]:
    who = visit.endpoint if visit.endpoint == visit.model else f"{visit.endpoint} ({visit.model})"
    yield f"{who}, profile {visit.profile}, {visit.requests} requests"
    yield SENTENCES[visit.diagnosis]
    yield ""
    for finding in visit.findings:
        seen = " ".join(finding.seen.split())
        yield f"  {finding.verdict:<8} {finding.check:<24} {seen}"
        if finding.change and finding.verdict != "fine":
            yield f"  {'':<8} {'':<24} → {finding.change}"
