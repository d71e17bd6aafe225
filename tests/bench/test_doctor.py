"""The doctor's diagnoses, against scripted endpoints over HTTP, and its replay."""

import asyncio
import json
from dataclasses import replace

import pytest

from bench.__main__ import main
from bench.clients import OpenAIClient
from bench.doctor import BASE, CLOCK, FIGURE, SENTENCES, visit
from bench.endpoint import StrictEndpoint
from bench.pairing import TOOL
from bench.profiles import Limits, Profile, load_profiles, shape_for
from bench.status import FOUND, MISTAKE, OK, UNSURE

PROFILES = load_profiles()
FENCE = (
    '```json\n{"name": "get_temperature", "arguments": {"town": "Oslo"}}\n```'  # as small models do
)


def roles(body):
    return [message["role"] for message in body["messages"]]


def says(text, **more):
    """Play a model that answers every question that offers tools with this text."""

    def script(body, _number):
        return {"text": text, **more} if "tools" in body else None

    return script


def unseen(body, _number):
    """Play a server whose template has no place for tools: they cost no token."""
    count = 15 * len(body["messages"]) + 6000 * ("BLUEBIRD" in str(body))
    usage = {"prompt_tokens": count, "completion_tokens": 4, "total_tokens": count + 4}
    return {"text": "I can't look that up.", "usage": usage}


def unwilling(body, _number):
    """Play a model that calls only if it must."""
    return {"text": "It is cold there."} if body.get("tool_choice") == "auto" else None


def unmetered(body, number):
    """Play an endpoint that counts no tokens, and a model that calls nothing."""
    message = {"role": "assistant", "content": "It is cold there."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"body": {"choices": [choice]}} if not body.get("stream") else unwilling(body, number)


def garbled(body, _number):
    call = {"name": TOOL.name, "arguments": '{"town": "Os'}
    return {"tool_calls": [call], "finish_reason": "length"} if "tools" in body else None


def refusing(fault):
    def script(body, _number):
        return {"fault": fault} if "tools" in body else None

    return script


def look(name, script=None, *, profile=None, model="m", context=50, **served):
    """Visit a strict endpoint once."""
    chosen = profile if isinstance(profile, Profile) else PROFILES[profile or name]

    async def go(endpoint):
        client = OpenAIClient(
            name,
            model,
            base_url=endpoint.base_url,
            api_key="planted-key",
            shape=shape_for(chosen, model),
        )
        return await visit(client, chosen, BASE, context)

    with StrictEndpoint(served.pop("plays", name), script, **served) as endpoint:
        found = asyncio.run(go(endpoint))
    return found, {finding.check: finding for finding in found.findings}


DIAGNOSES = {
    "everything works": ("openai", None, "fine", OK, "calls", ""),
    "no place for tools": (
        *("llamacpp", unseen, "unseen", FOUND, "tools reach the model"),
        "--chat-template-file",
    ),
    "no place for tools, elsewhere": (
        *("ollama", unseen, "unseen", FOUND, "tools reach the model"),
        ".Tools",
    ),
    "calls in the text": (
        *("llamacpp", says(FENCE), "in_text", FOUND, "calls"),
        "native@rescue",
    ),
    "calls in the text, for want of a parser": (
        *("vllm", says(FENCE), "in_text", FOUND, "calls"),
        "--enable-auto-tool-choice --tool-call-parser",
    ),
    "calls in words": (
        *("openai", says("I would use get_temperature."), "in_text", FOUND, "calls"),
        "--drivers react",
    ),
    "no --jinja": ("llamacpp", refusing("no_template"), "refused", FOUND, "calls", "--jinja"),
    "no parser": (
        *("vllm", refusing("no_auto_choice"), "refused", FOUND, "calls"),
        "--enable-auto-tool-choice",
    ),
    "no tools at all": (
        *("ollama", refusing("no_tool_support"), "refused", FOUND, "calls"),
        "ollama show",
    ),
    "no will": ("openai", unwilling, "unwilling", FOUND, "calls", "it can call when it must"),
    "cut calls": ("openai", garbled, "unreadable", FOUND, "calls", "--max-tokens"),
    "no count and no call": ("openai", unmetered, "unknown", UNSURE, "calls", ""),
}


@pytest.mark.parametrize(
    ("name", "script", "diagnosis", "status", "check", "change"), DIAGNOSES.values(), ids=DIAGNOSES
)
def test_the_reason_is_found(name, script, diagnosis, status, check, change):
    found, findings = look(name, script)
    assert (found.diagnosis, found.status) == (diagnosis, status), found.findings
    assert change in findings[check].change


def test_a_refused_start_up_tells_the_servers_words():
    _, findings = look("llamacpp", refusing("no_template"))
    assert "requires --jinja" in findings["calls"].seen
    assert "set-up" in findings["calls"].seen


def test_the_same_prompt_with_and_without_tools_is_told_in_tokens():
    _, findings = look("llamacpp", unseen)
    assert "30 prompt tokens with two tools, 30 without" in findings["tools reach the model"].seen


def test_a_form_that_works_is_recommended():
    text = f'Thought: look.\nAction: {TOOL.name}\nAction Input: {{"town": "Oslo"}}'

    def script(body, number):
        return {"text": text} if "Observation" in str(body) else unseen(body, number)

    _, findings = look("llamacpp", script)
    assert findings["ReAct text"].verdict == "fine"
    assert "it works here" in findings["tools reach the model"].change


# ---------------------------------------------------------------- the other findings


def ignoring(_body, _number):
    """Play a server that calls whatever tool_choice says."""
    return {"tool_calls": [{"name": TOOL.name, "arguments": {"town": "Oslo"}}]}


def torn(body, _number):
    """Play a server that loses the calls in a stream."""
    return {"text": "Let me see."} if body.get("stream") else None


def deaf(body, _number):
    """Play a model that makes nothing of a result."""
    return {"text": "I don't know."} if roles(body)[-1] == "tool" else None


def lossy(body, _number):
    """Play a template that drops calls and results."""
    usage = {"prompt_tokens": 20 + 180 * ("tools" in body), "completion_tokens": 4}
    return (
        {"text": "No.", "usage": usage}
        if roles(body)[-1] == "tool" or "tools" not in body
        else {
            "tool_calls": [{"name": TOOL.name, "arguments": {"town": "Oslo"}}],
            "usage": usage,
        }
    )


OTHERS = {
    "ids are checked": ("openai", None, "ids are paired", "fine", "a wrong id is refused"),
    "ids are not checked": ("llamacpp", None, "ids are paired", "note", "without a word"),
    "a choice is honoured": ("openai", None, "tool_choice named", "fine", "honoured"),
    "a name is ignored": ("llamacpp", None, "tool_choice named", "note", f"ignored: {TOOL.name}"),
    "none is ignored": ("openai", ignoring, "tool_choice none", "note", f"ignored: {TOOL.name}"),
    "required is refused": ("glm", None, "tool_choice required", "note", "refused"),
    "streamed is the same": ("openai", None, "streaming", "fine", "the same as plain"),
    "a stream loses calls": ("openai", torn, "streaming", "problem", "calls"),
    "a result arrives": ("openai", None, "results reach the model", "fine", FIGURE),
    "a result is not used": ("openai", deaf, "results reach the model", "note", "did not use"),
    "a result is dropped": ("llamacpp", lossy, "results reach the model", "problem", "only 0"),
    "usage is given": ("openai", None, "usage", "fine", "given"),
    "usage is not given": ("openai", unmetered, "usage", "note", "plain"),
    "a stop word stops": (
        *("openai", lambda body, _: {"text": "Th"} if body.get("stop") else None),
        *("stop words", "fine", "taken"),
    ),
    "a stop word does not": ("openai", None, "stop words", "note", "ignored"),
    "the context is long enough": ("openai", None, "context", "fine", "of a prompt of about 50"),
}


@pytest.mark.parametrize(
    ("name", "script", "check", "verdict", "seen"), OTHERS.values(), ids=OTHERS
)
def test_what_else_is_found(name, script, check, verdict, seen):
    _, findings = look(name, script)
    finding = findings[check]
    assert (finding.verdict, seen in finding.seen) == (verdict, True), finding


def test_a_context_that_is_cut_without_a_word_is_a_problem():
    _, findings = look("ollama", context=5000)
    assert findings["context"].verdict == "problem"
    assert "num_ctx" in findings["context"].change


def test_a_context_that_is_refused_is_told():
    _, findings = look("llamacpp", context=5000, window=4096)
    assert findings["context"].verdict == "note"
    assert "larger -c" in findings["context"].change


def test_a_profile_that_does_not_fit_is_named():
    found, findings = look("gemini", profile="openai")
    assert found.status == FOUND
    assert "--profile" in findings["results reach the model"].change


def test_settings_that_are_refused_are_left_out_to_go_on():
    cool = replace(PROFILES["openai"], limits=Limits(settings=frozenset()), families=())
    found, findings = look("openai", plays=cool, profile=PROFILES["generic"])
    assert "'temperature' does not support 0" in findings["settings"].seen
    assert findings["settings"].verdict == "problem"
    assert (found.diagnosis, found.status) == ("fine", FOUND)


def test_an_endpoint_that_refuses_even_a_plain_request_is_told():
    found, findings = look("openai", profile="generic", model="o3")
    assert (found.diagnosis, found.status) == ("shut", FOUND)
    assert "max_tokens" in findings["settings"].seen
    assert "--profile" in findings["settings"].change


def test_a_family_that_takes_no_settings_is_told():
    _, findings = look("openai", model="o3")
    assert findings["settings"].verdict == "note"
    assert "temperature" in findings["settings"].seen
    assert "takes none" in findings["stop words"].seen


def test_the_tools_are_two_and_their_order_is_fixed():
    with StrictEndpoint("openai") as endpoint:

        async def go():
            profile = PROFILES["openai"]
            shape = shape_for(profile, "m")
            client = OpenAIClient(
                "e", "m", base_url=endpoint.base_url, api_key="planted-key", shape=shape
            )
            await visit(client, profile, BASE, 0)

        asyncio.run(go())
        bodies = [request.body for request in endpoint.requests]
    assert len(bodies) <= 14
    offered = {tuple(t["function"]["name"] for t in b["tools"]) for b in bodies if "tools" in b}
    assert offered == {(TOOL.name, CLOCK.name)}


# ---------------------------------------------------------------- the command


@pytest.fixture
def doctor(capsys):
    def go(*words):
        status = main(["doctor", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return go


RECORDED = {"in the text": says(FENCE), "unseen": unseen, "refused": refusing("no_template")}


@pytest.mark.parametrize("script", RECORDED.values(), ids=RECORDED)
def test_a_recorded_visit_says_the_same(doctor, tmp_path, script):
    file = tmp_path / "doctor.jsonl.gz"
    with StrictEndpoint("llamacpp", script) as endpoint:
        here = ("--model", "m", "--base-url", endpoint.base_url, "--profile", "llamacpp")
        first = doctor(*here, "--context", "50", "--record", str(file), "--json")
        asked = len(endpoint.requests)
        again = doctor(*here, "--context", "50", "--record", str(file), "--json")
        assert len(endpoint.requests) == asked
    replayed = doctor("--replay", str(file), "--json")
    assert first[0] == FOUND
    assert first[:2] == again[:2] == replayed[:2]
    (told,) = json.loads(replayed[1])["visits"]
    assert told["profile"] == "llamacpp"
    assert told["says"] in SENTENCES.values()


def test_the_table_says_what_to_change(doctor):
    with StrictEndpoint("llamacpp", says("\x1b[2J" + FENCE)) as endpoint:
        here = ("--model", "m", "--base-url", endpoint.base_url, "--profile", "llamacpp")
        status, out, _ = doctor(*here, "--context", "0")
    assert status == FOUND
    assert SENTENCES["in_text"] in out
    assert "→ start llama-server with --jinja" in out
    assert "\x1b" not in out


def test_nobody_there_is_the_users_mistake(doctor):
    status, _, err = doctor("--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    assert status == MISTAKE
    assert "can't be reached" in err


def test_a_wrong_key_is_the_users_mistake(doctor):
    with StrictEndpoint("openai", key="another-key") as endpoint:
        status, _, err = doctor(
            "--model", "m", "--base-url", endpoint.base_url, "--api-key", "planted-key"
        )
    assert status == MISTAKE
    assert "refuses the key" in err
    assert "planted-key" not in err
