"""The strict endpoint over real HTTP: every check, every fault, every knob, and the record."""

import asyncio
import copy
import email.utils
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import httpx2
import openai
import pytest

from bench.clients import OpenAIClient
from bench.drivers import make_driver
from bench.endpoint import StrictEndpoint, load_script, run_endpoint
from bench.endpoint.checks import cases, example, first_refusal, render_error
from bench.loop import solve
from bench.profiles import adapt_history, adapt_options, load_profiles, shape_for
from bench.run import bundled_toolbox
from bench.tasks import load_tasks
from bench.types import WorkbenchError
from parsers.wire import open_response

PROFILES = load_profiles()
KEY = "planted-key-0001"
CASES = Path(__file__).parents[2] / "datasets" / "cases" / "native.jsonl"


def tool(name="get_weather", **properties):
    properties = properties or {"city": {"type": "string"}}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {
        "type": "function",
        "function": {"name": name, "description": "A tool.", "parameters": parameters},
    }


def call(identity, city="Oslo", **extra):
    function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
    return {"id": identity, "type": "function", "function": function, **extra}


HISTORY = (
    {"role": "system", "content": "Use the tools."},
    {"role": "user", "content": "How is it in Oslo and 卑尔根?"},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Two calls.",
        "tool_calls": [
            call("call_1", extra_content={"google": {"thought_signature": "abc"}}),
            call("call_2", "Bergen"),
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": '{"celsius": 4}'},
    {"role": "tool", "tool_call_id": "call_2", "content": '{"celsius": 7}'},
)
OPTIONS = {
    "tools": [tool(), tool("list_towns", country={"type": "string", "enum": ["NO", "SE"]})],
    "temperature": 0,
    "max_tokens": 200,
    "seed": 1,
    "stop": ["Observation:"],
}


def good(name, **options):
    """Build a request that the profile takes."""
    profile = PROFILES[name]
    body = {
        "model": "m",
        "messages": list(adapt_history(HISTORY, profile)),
        **adapt_options({**OPTIONS, **options}, profile, "m"),
    }
    return json.loads(json.dumps(body))


@pytest.fixture(scope="module")
def endpoints():
    """Serve every profile once, for the whole module."""
    running = {name: StrictEndpoint(name).__enter__() for name in PROFILES}
    yield running
    for endpoint in running.values():
        endpoint.__exit__(None, None, None)


@pytest.fixture(scope="module")
def http():
    with httpx2.Client(headers={"authorization": f"Bearer {KEY}"}, timeout=5) as client:
        yield client


def ask(http, endpoint, body, **options):
    return http.post(f"{endpoint.base_url}/chat/completions", json=body, **options)


def events(text):
    """Give the decoded `data:` of a stream, and whether it was ended by [DONE]."""
    lines = re.findall(r"^data: ?(.*?)\r?$", text, re.MULTILINE)
    return [json.loads(line) for line in lines if line != "[DONE]"], lines[-1:] == ["[DONE]"]


def joined(chunks):
    """Join a stream of the usual form into content, reasoning and calls."""
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    parts = [part for delta in deltas for part in delta.get("tool_calls", [])]
    text = "".join(delta.get("content") or "" for delta in deltas)
    calls = {}
    for part in parts:
        entry = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
        entry["id"] = entry["id"] or part.get("id", "")
        entry["name"] += part["function"].get("name", "")
        entry["arguments"] += part["function"].get("arguments", "")
    return text, list(calls.values())


# ---------------------------------------------------------------- good requests


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("name", PROFILES)
def test_a_right_request_passes_under_its_own_profile(endpoints, http, name, stream):
    answer = ask(http, endpoints[name], good(name, stream=stream))
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-scripted"] == "policy"
    assert "scripted answer" in (answer.text if not stream else joined_text(answer.text))


def joined_text(text):
    return joined([{**chunk, "choices": bare(chunk)} for chunk in events(text)[0]])[0]


def bare(chunk):
    return [{"delta": {"content": c["delta"].get("content")}} for c in chunk["choices"]]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("name", PROFILES)
def test_a_whole_episode_passes_with_the_profiles_own_settings(endpoints, http, name, stream):
    profile, endpoint = PROFILES[name], endpoints[name]
    history = [{"role": "user", "content": "How is it?"}]
    for step in range(3):
        body = {
            "model": "m",
            "messages": list(adapt_history(history, profile)),
            **adapt_options({**OPTIONS, "stream": stream}, profile, "m"),
        }
        answer = ask(http, endpoint, body)
        assert answer.status_code == 200, answer.text
        message = message_of(answer.text, stream)
        history.append(message)
        if not message.get("tool_calls"):
            assert step == 1
            history.append({"role": "user", "content": "And now?"})
            continue
        for asked in message["tool_calls"]:
            assert json.loads(asked["function"]["arguments"]) == {"city": "text"}
            assert re.fullmatch(profile.id_form, asked["id"])
            history.append({"role": "tool", "tool_call_id": asked["id"], "content": "{}"})


def message_of(text, stream):
    """Read an answer in the way that a careful client does."""
    if not stream:
        return json.loads(text)["choices"][0]["message"]
    message = {"role": "assistant", "content": "", "tool_calls": []}
    for chunk in events(text)[0]:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            for field in ("reasoning_content", "reasoning"):
                if delta.get(field):
                    message[field] = message.get(field, "") + delta[field]
            for part in delta.get("tool_calls", []):
                add_piece(message["tool_calls"], part)
    return message


def add_piece(calls, part):
    if part.get("id"):
        calls.append({**part, "function": dict(part["function"])})
        calls[-1].pop("index", None)
    else:
        calls[-1]["function"]["arguments"] += part["function"].get("arguments", "")


# ---------------------------------------------------------------- every check


def put(*path, to):
    """Make a change of one place of a request."""

    def change(body):
        *way, last = path
        for step in way:
            body = body[step]
        body[last] = to

    return change


def drop(*path):
    def change(body):
        *way, last = path
        for step in way:
            body = body[step]
        del body[last]

    return change


def add(message, at=None):
    return lambda b: b["messages"].insert(len(b["messages"]) if at is None else at, message)


def copy_message(at):
    return lambda body: body["messages"].append(dict(body["messages"][at]))


def both(*changes):
    def change(body):
        for one in changes:
            one(body)

    return change


CALL = ("messages", 2, "tool_calls", 0)
PARAMETERS = ("tools", 0, "function", "parameters")
REFUSED = {
    "no model": ("strict", drop("model"), "model_missing"),
    "no messages": ("strict", put("messages", to=[]), "messages_missing"),
    "a message that is a text": ("strict", add("hi"), "message_form"),
    "a message without a role": ("strict", drop("messages", 1, "role"), "message_form"),
    "a role that is none": ("strict", put("messages", 1, "role", to="model"), "role_unknown"),
    "a role that is a list": ("strict", put("messages", 1, "role", to=[]), "role_unknown"),
    "a system message later": ("strict", add({"role": "system", "content": "x"}), "system_place"),
    "a user after a tool": ("mistral", add({"role": "user", "content": "x"}), "user_after_tool"),
    "an assistant last": ("strict", add({"role": "assistant", "content": "x"}), "last_role"),
    "a message without content": ("strict", drop("messages", 1, "content"), "content_missing"),
    "null content of a user": ("strict", put("messages", 1, "content", to=None), "content_null"),
    "an assistant turn with nothing": (
        "strict",
        add({"role": "assistant", "content": None}, 2),
        "content_null",
    ),
    "null beside calls for ollama": (
        "ollama",
        put("messages", 2, "content", to=None),
        "content_null_with_calls",
    ),
    "empty text beside calls": (
        "strict",
        put("messages", 2, "content", to=""),
        "content_empty_with_calls",
    ),
    "content that is a number": (
        "strict",
        put("messages", 1, "content", to=3),
        "content_type_wrong",
    ),
    "content that is a list": (
        "deepseek-chat",
        put("messages", 1, "content", to=[{"type": "text", "text": "x"}]),
        "content_list",
    ),
    "a part that is no text": (
        "openai",
        put("messages", 1, "content", to=[{"type": "text", "text": 3}]),
        "content_part",
    ),
    "an empty list of parts": ("openai", put("messages", 1, "content", to=[]), "content_part"),
    "a tool message without its name": ("gemini", drop("messages", 3, "name"), "name_required"),
    "a tool message with a name": ("strict", put("messages", 3, "name", to="x"), "name_refused"),
    "reasoning left out": (
        "deepseek-thinking",
        drop("messages", 2, "reasoning_content"),
        "reasoning_missing",
    ),
    "reasoning left out, kimi": (
        "kimi",
        drop("messages", 2, "reasoning_content"),
        "reasoning_missing",
    ),
    "reasoning sent back": (
        "groq",
        put("messages", 2, "reasoning_content", to="x"),
        "reasoning_refused",
    ),
    "calls that are an object": (
        "strict",
        put("messages", 2, "tool_calls", to={"a": 1}),
        "tool_calls_form",
    ),
    "a call that is null": ("strict", put(*CALL, to=None), "tool_calls_form"),
    "an empty list of calls": (
        "openai",
        both(put("messages", 2, "tool_calls", to=[]), put("messages", 2, "content", to="x")),
        "tool_calls_empty",
    ),
    "a call without type": ("llamacpp", drop(*CALL, "type"), "call_type"),
    "a name with a blank": (
        "strict",
        put(*CALL, "function", "name", to="get weather"),
        "call_name",
    ),
    "a name too long": ("strict", put(*CALL, "function", "name", to="x" * 65), "call_name"),
    "a call without function": ("strict", drop(*CALL, "function"), "call_name"),
    "arguments that are an object": (
        "strict",
        put(*CALL, "function", "arguments", to={}),
        "call_arguments_type",
    ),
    "arguments that are no JSON": (
        "llamacpp",
        put(*CALL, "function", "arguments", to="{oops"),
        "call_arguments_json",
    ),
    "arguments nested without end": (
        "strict",
        put(*CALL, "function", "arguments", to="[" * 100_000),
        "call_arguments_json",
    ),
    "arguments that are a list": (
        "dashscope",
        put(*CALL, "function", "arguments", to="[]"),
        "call_arguments_object",
    ),
    "no id": ("strict", drop(*CALL, "id"), "call_id_missing"),
    "an empty id": ("lmstudio", put(*CALL, "id", to=""), "call_id_missing"),
    "an id of 41 characters": ("openai", put(*CALL, "id", to="x" * 41), "call_id_long"),
    "an id of another form": ("mistral", put(*CALL, "id", to="call_1"), "call_id_form"),
    "an id of another form, kimi": ("kimi", put(*CALL, "id", to="call_1"), "call_id_form"),
    "the same id twice in a turn": (
        "strict",
        put("messages", 2, "tool_calls", 1, "id", to="call_1"),
        "call_id_repeated",
    ),
    "the id of an earlier turn": (
        "strict",
        lambda b: b["messages"].extend(copy.deepcopy(b["messages"][2:])),
        "call_id_reused",
    ),
    "a result without id": ("strict", drop("messages", 3, "tool_call_id"), "result_without_id"),
    "a missing result": ("openai", drop("messages", 4), "result_missing"),
    "no result at all": (
        "strict",
        lambda b: b["messages"].__delitem__(slice(3, 5)),
        "result_missing",
    ),
    "a message between": (
        "deepseek-chat",
        add({"role": "user", "content": "x"}, 3),
        "result_between",
    ),
    "a message between two results": (
        "openai",
        add({"role": "user", "content": "x"}, 4),
        "result_between",
    ),
    "an id with one character changed": (
        "openai",
        put("messages", 4, "tool_call_id", to="call_3"),
        "result_orphan",
    ),
    "a result without a call": (
        "openai",
        add({"role": "tool", "tool_call_id": "call_9", "content": "x"}, 2),
        "result_orphan",
    ),
    "the assistant message left out": ("dashscope", drop("messages", 2), "result_orphan"),
    "the assistant message left out, counted": ("mistral", drop("messages", 2), "result_orphan"),
    "two results for one id": ("openai", copy_message(3), "result_second"),
    "a missing result, counted": ("mistral", drop("messages", 4), "result_count"),
    "two results for one id, counted": ("gemini", copy_message(3), "result_count"),
    "a signature left out": ("gemini", drop(*CALL, "extra_content"), "signature_missing"),
    "tools that are an object": ("strict", put("tools", to={}), "tools_form"),
    "a tool that is a text": ("strict", put("tools", 0, to="x"), "tools_form"),
    "no tools in a list": (
        "vllm",
        both(put("tools", to=[]), drop("tool_choice")),
        "tools_empty",
    ),
    "a tool without type": ("strict", drop("tools", 0, "type"), "tool_type"),
    "a tool's name with a dot": (
        "strict",
        put("tools", 0, "function", "name", to="a.b"),
        "tool_name",
    ),
    "two tools of one name": (
        "strict",
        put("tools", 1, "function", "name", to="get_weather"),
        "tool_name_repeated",
    ),
    "a description that is a list": (
        "strict",
        put("tools", 0, "function", "description", to=[]),
        "tool_description",
    ),
    "parameters that are no object schema": (
        "strict",
        put(*PARAMETERS, to={"type": "string"}),
        "parameters_form",
    ),
    "parameters without properties": (
        "lmstudio",
        put(*PARAMETERS, to={"type": "object"}),
        "properties_missing",
    ),
    "required that is no property": (
        "strict",
        put(*PARAMETERS, "required", to=["town"]),
        "required_unknown",
    ),
    "a schema that is none": (
        "strict",
        put(*PARAMETERS, "properties", "city", to={"type": "text"}),
        "schema_invalid",
    ),
    "a reference to nowhere": (
        "strict",
        put(*PARAMETERS, "properties", "city", to={"$ref": "#/$defs/city"}),
        "ref_unknown",
    ),
    "strict without its rules": (
        "openai",
        put("tools", 0, "function", "strict", to=True),
        "strict_schema",
    ),
    "a tool_choice that is none": ("strict", put("tool_choice", to="any"), "choice_form"),
    "a tool_choice without tools": ("strict", drop("tools"), "choice_without_tools"),
    "a tool_choice of no tool": (
        "strict",
        put("tool_choice", to={"type": "function", "function": {"name": "other"}}),
        "choice_name",
    ),
    "required, thinking": (
        "deepseek-thinking",
        put("tool_choice", to="required"),
        "choice_refused",
    ),
    "required, kimi": ("kimi", put("tool_choice", to="required"), "choice_refused"),
    "none, glm": ("glm", put("tool_choice", to="none"), "choice_refused"),
    "a named tool, lm studio": (
        "lmstudio",
        put("tool_choice", to={"type": "function", "function": {"name": "get_weather"}}),
        "choice_refused",
    ),
    "parallel that is a text": ("strict", put("parallel_tool_calls", to="no"), "parallel_form"),
    "parallel without tools": (
        "strict",
        both(put("parallel_tool_calls", to=False), drop("tools"), drop("tool_choice")),
        "parallel_without_tools",
    ),
    "parallel where it is not known": (
        "no parallel",
        put("parallel_tool_calls", to=False),
        "parallel_refused",
    ),
    "the other name of the token limit": (
        "openai",
        both(put("model", to="o3"), drop("temperature"), drop("stop"), put("max_tokens", to=9)),
        "token_limit_name",
    ),
    "a token limit of nothing": (
        "strict",
        put("max_completion_tokens", to=0),
        "token_limit_value",
    ),
    "a temperature for a reasoning model": ("openai", put("model", to="gpt-5"), "setting_refused"),
    "a seed that has another name": ("mistral", put("seed", to=1), "setting_refused"),
    "a temperature that is a text": ("strict", put("temperature", to="0"), "setting_form"),
    "a temperature too high": ("strict", put("temperature", to=2.5), "setting_range"),
    "a temperature too high, kimi": ("kimi", put("temperature", to=1.5), "setting_range"),
    "two answers asked for": ("strict", put("n", to=2), "choices_count"),
    "a stop word that is empty": ("strict", put("stop", to=[""]), "stop_form"),
    "five stop words": ("strict", put("stop", to=list("abcde")), "stop_count"),
    "stop words for a reasoning model": (
        "openai",
        both(put("model", to="gpt-5"), drop("temperature")),
        "stop_refused",
    ),
    "stream that is a text": ("strict", put("stream", to="yes"), "stream_form"),
    "stream_options without stream": (
        "strict",
        put("stream_options", to={"include_usage": True}),
        "stream_options_alone",
    ),
    "stream_options where they are not known": (
        "mistral",
        both(put("stream", to=True), put("stream_options", to={"include_usage": True})),
        "stream_options_refused",
    ),
    "an unknown key": ("openai", put("max_new_tokens", to=1), "unknown_key"),
    "an unknown key of a message": (
        "strict",
        put("messages", 1, "cache_control", to={}),
        "unknown_message_key",
    ),
    "a prompt too long": (
        "llamacpp",
        put("messages", 1, "content", to="x" * 40_000),
        "context_length",
    ),
    "U+0000": ("strict", put("messages", 1, "content", to="a\0b"), "nul"),
    "a lone surrogate, escaped": (
        "strict",
        put("messages", 1, "content", to="a\ud83d"),
        "not_utf8",
    ),
}
ENVELOPE = {
    "not_json",
    "not_object",
    "content_type",
    "too_large",
    "no_key",
    "wrong_key",
    "model_unknown",
}


@pytest.mark.parametrize(("name", "change", "case"), REFUSED.values(), ids=REFUSED)
def test_a_check_refuses(endpoints, http, tmp_path, name, change, case):
    if name == "no parallel":
        path = tmp_path / "mine.json"
        path.write_text('{"parallel": false}', encoding="utf-8")
        with StrictEndpoint(str(path)) as endpoint:
            refused(http, endpoint, good("generic"), change, case)
        return
    refused(http, endpoints[name], good(name), change, case)


def refused(http, endpoint, body, change, case):
    change(body)
    data = json.dumps(body)
    url, headers = f"{endpoint.base_url}/chat/completions", {"content-type": "application/json"}
    answer = http.post(url, content=data, headers=headers)
    record = endpoint.requests[-1]
    assert record.case == case, answer.text
    assert record.source == answer.headers["x-scripted"] == "check"
    assert answer.status_code == record.status >= 400
    assert answer.json()


def test_every_check_has_a_case():
    told = {case for _, _, case in REFUSED.values()} | ENVELOPE
    assert told == {name for name, found in cases().items() if found.detail != "scripted"}


def test_a_check_comes_before_a_scripted_success(http):
    with StrictEndpoint("openai", [{"text": "Fine."}]) as endpoint:
        body = good("openai")
        del body["messages"][4]
        assert ask(http, endpoint, body).status_code == 400
        assert (
            ask(http, endpoint, good("openai")).json()["choices"][0]["message"]["content"]
            == "Fine."
        )


SILENT = {
    "a missing result": drop("messages", 4),
    "an orphan result": add({"role": "tool", "tool_call_id": "z", "content": "x"}, 2),
    "two results for one id": copy_message(3),
    "the assistant message left out": drop("messages", 2),
    "a message between": add({"role": "user", "content": "x"}, 3),
}


@pytest.mark.parametrize("change", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize("name", ["vllm", "sglang", "llamacpp", "ollama", "lmstudio"])
def test_local_servers_let_bad_pairing_pass(endpoints, http, name, change):
    body = good(name)
    change(body)
    assert ask(http, endpoints[name], body).status_code == 200


def test_results_may_come_in_another_order(endpoints, http):
    for name in PROFILES:
        body = good(name)
        body["messages"][3:] = body["messages"][:2:-1]
        assert ask(http, endpoints[name], body).status_code == 200, name


BODIES = {
    "OpenAI's": ("openai", drop("messages", 4), 400, ("error", "param"), "messages.[3].role"),
    "OpenAI's code": ("openai", put("tools", to=[]), 400, ("error", "code"), "empty_array"),
    "the missing ids": ("openai", drop("messages", 4), 400, ("error", "message"), "call_2"),
    "DeepSeek's code": (
        "deepseek-chat",
        drop("messages", 4),
        400,
        ("error", "code"),
        "invalid_request_error",
    ),
    "DeepSeek's 422": (
        "deepseek-chat",
        put("messages", 1, "content", to=[{"type": "text", "text": "x"}]),
        422,
        ("error", "message"),
        "expected a string",
    ),
    "Mistral's flat body": ("mistral", drop("messages", 4), 400, ("object",), "error"),
    "Mistral's code": ("mistral", put(*CALL, "id", to="call_1"), 400, ("code",), "3280"),
    "Mistral's 422": ("mistral", put("seed", to=1), 422, ("detail",), "Extra inputs"),
    "Gemini's list": (
        "gemini",
        drop("messages", 4),
        400,
        (0, "error", "status"),
        "INVALID_ARGUMENT",
    ),
    "llama.cpp's 500": (
        "llamacpp",
        put(*CALL, "function", "arguments", to="{oops"),
        500,
        ("error", "type"),
        "server_error",
    ),
    "llama.cpp's context": (
        "llamacpp",
        put("messages", 1, "content", to="x" * 40_000),
        400,
        ("error", "type"),
        "exceed_context_size_error",
    ),
    "Ollama's nil": (
        "ollama",
        put("messages", 2, "content", to=None),
        400,
        ("error", "message"),
        "<nil>",
    ),
    "LM Studio's text": ("lmstudio", put(*CALL, "id", to=""), 400, ("error",), "messages[2]"),
    "LM Studio's list": (
        "lmstudio",
        put(*PARAMETERS, to={"type": "object"}),
        400,
        ("error", 0, "message"),
        "Required",
    ),
    "DashScope's words": (
        "dashscope",
        drop("messages", 4),
        400,
        ("error", "message"),
        "<400> InternalError.Algo.InvalidParameter",
    ),
    "Kimi's words": (
        "kimi",
        put("messages", 4, "tool_call_id", to="functions.get_weather:9"),
        400,
        ("error", "message"),
        "functions.get_weather:9 not found",
    ),
    "OpenRouter's provider": (
        "openrouter",
        put("tool_choice", to="any"),
        400,
        ("error", "metadata", "provider_name"),
        "scripted",
    ),
    "vLLM's number": (
        "vllm",
        both(put("tools", to=[]), drop("tool_choice")),
        400,
        ("code",),
        "empty",
    ),
}


@pytest.mark.parametrize(("name", "change", "status", "path", "text"), BODIES.values(), ids=BODIES)
def test_a_refusal_has_the_endpoints_status_and_body(
    endpoints, http, name, change, status, path, text
):
    body = good(name)
    change(body)
    answer = ask(http, endpoints[name], body)
    found = answer.json()
    for step in path:
        found = found[step]
    assert (answer.status_code, text in str(found)) == (status, True), answer.text


def test_a_message_is_never_filled_from_a_strangers_text():
    body = good("mistral")
    body["messages"][2]["tool_calls"][0]["id"] = "{form} {where}"
    found = first_refusal(body, PROFILES["mistral"])
    assert "{form} {where}" in found.message


def test_every_profile_names_only_checks_that_exist():
    known = cases()
    groups = {found.detail for found in known.values()}
    for profile in PROFILES.values():
        assert profile.server.ignores <= known.keys() | groups, profile.name
        assert profile.server.says.keys() <= known.keys(), profile.name


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ('{"ignores": ["nothing"]}', "'ignores' names no check: 'nothing'"),
        ('{"says": {"nul": {"colour": 1}}}', "'says' has no place for 'colour'"),
        ('{"stream": {"colour": 1}}', "'stream' has no 'colour'"),
    ],
)
def test_a_profile_that_names_no_check_is_the_users_mistake(tmp_path, server, message):
    path = tmp_path / "mine.json"
    path.write_text(f'{{"server": {server}}}', encoding="utf-8")
    with pytest.raises(WorkbenchError, match=message):
        StrictEndpoint(str(path))


ROOT = ("messages", "tools", "tool_choice", "stop", "temperature", "parallel_tool_calls", "model")
ODD = (
    None,
    True,
    0,
    -1.5,
    "",
    "x",
    [],
    [None],
    [[]],
    {},
    {"type": []},
    [{"role": []}],
    [{"id": {}}],
)


def test_no_shape_of_request_makes_a_check_fail():
    for name, key, value in itertools.product(PROFILES, ROOT, ODD):
        first_refusal({**good(name), key: value}, PROFILES[name])
    for name, value, at in itertools.product(PROFILES, ODD, range(5)):
        body = good(name)
        for key in ("role", "content", "tool_calls", "tool_call_id", "name"):
            first_refusal(
                {
                    **body,
                    "messages": [*body["messages"][:at], {**body["messages"][at], key: value}],
                },
                PROFILES[name],
            )


# ---------------------------------------------------------------- through our own client

READERS_WORD = {
    "no result": ("openai", drop("messages", 4), "pairing"),
    "a wrong id": ("kimi", put("messages", 4, "tool_call_id", to="functions.a:9"), "pairing"),
    "a count": ("mistral", drop("messages", 4), "pairing"),
    "an id's form": ("mistral", put(*CALL, "id", to="call_1"), "ids"),
    "lost reasoning": ("deepseek-thinking", drop("messages", 2, "reasoning_content"), "reasoning"),
    "a lost signature": ("gemini", drop(*CALL, "extra_content"), "reasoning"),
    "null content": ("ollama", put("messages", 2, "content", to=None), "content"),
    "a tool_choice": ("glm", put("tool_choice", to="required"), "tool_choice"),
    "parallel calls": ("strict", put("parallel_tool_calls", to="no"), "tool_choice"),
    "a schema": ("lmstudio", put(*PARAMETERS, to={"type": "object"}), "schema"),
    "a stop word": ("strict", put("stop", to=list("abcde")), "stop"),
    "a temperature": ("kimi", put("temperature", to=1.5), "setting"),
}


@pytest.mark.parametrize(("name", "change", "detail"), READERS_WORD.values(), ids=READERS_WORD)
def test_a_refusal_is_read_as_what_it_is(name, change, detail):
    body = good(name)
    change(body)
    found = first_refusal(body, PROFILES[name])
    wire = {
        "status": found.status,
        "body": json.dumps(render_error(found, PROFILES[name].server.errors)),
    }
    failure = open_response({**wire, "headers": {"content-type": "application/json"}}).failure
    assert (failure.kind, failure.detail, found.detail) == ("request_rejected", detail, detail)


TASKS = load_tasks()[::15][:20]


async def episodes(endpoint, profile, driver, tasks, model="m", **settings):
    client = OpenAIClient(
        "strict", model, base_url=endpoint.base_url, api_key=KEY, shape=shape_for(profile, model)
    )
    settings = {"temperature": 0, "max_tokens": 256, "stop": ["Observation:"], **settings}
    solving = [
        solve(task, bundled_toolbox(task, "full"), driver, client, settings=settings)
        for task in tasks
    ]
    found = await asyncio.gather(*solving)
    await client.close()
    return found


RUNS = {
    "native": ("native", TASKS, {}),
    "native, streamed": ("native", TASKS[::4], {"stream": True}),
    "react": ("react", TASKS[::4], {}),
}


@pytest.mark.parametrize(("driver", "tasks", "settings"), RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("name", PROFILES)
def test_a_run_passes_with_the_matching_profile(endpoints, name, driver, tasks, settings):
    solving = episodes(endpoints[name], PROFILES[name], make_driver(driver), tasks, **settings)
    assert [episode.stop for episode in asyncio.run(solving)] == ["answered"] * len(tasks)


def test_the_run_has_twenty_tasks():
    assert len(TASKS) == 20


WRONG = {
    "reasoning left out": ("deepseek-thinking", {"reasoning": "must_not"}, "m", "reasoning"),
    "null content": ("ollama", {"content": "null"}, "m", "content"),
    "no name": ("gemini", {"tool_name": "refused"}, "m", "pairing"),
    "settings of another family": ("openai", {"families": ()}, "o3", "setting"),
    "ids of another form": ("mistral", {"id_form": "x{3}", "id_make": "xxx"}, "m", "ids"),
}


@pytest.mark.parametrize(("name", "other", "model", "detail"), WRONG.values(), ids=WRONG)
def test_the_wrong_profile_ends_as_a_rejected_request(endpoints, name, other, model, detail):
    profile = replace(PROFILES[name], **other)
    solving = episodes(endpoints[name], profile, make_driver("native"), TASKS[:2], model)
    for episode in asyncio.run(solving):
        failure = episode.turns[-1].reading.failure
        read = (episode.stop, failure.kind, failure.detail)
        assert read == ("endpoint", "request_rejected", detail)


# ---------------------------------------------------------------- the envelope, keys, other paths


def test_what_is_no_json_request_is_refused(endpoints, http):
    endpoint = endpoints["strict"]
    url, json_type = f"{endpoint.base_url}/chat/completions", {"content-type": "application/json"}
    for content, headers, case in (
        (b"{oops", json_type, "not_json"),
        (b"[" * 100_000, json_type, "not_json"),
        (b"[]", json_type, "not_object"),
        (b"{}", {"content-type": "text/plain"}, "content_type"),
        (b'{"a": "\xff"}', json_type, "not_utf8"),
        (b" " * (16 * 1024 * 1024 + 1), json_type, "too_large"),
    ):
        answer = http.post(url, content=content, headers=headers)
        assert (endpoint.requests[-1].case, answer.status_code // 100) == (case, 4)


KEYS = {
    "no key": ("strict", None, "", 401, "no_key"),
    "any key": ("strict", None, "Bearer x", 200, None),
    "another scheme": ("strict", None, "Basic x", 401, "no_key"),
    "a local server asks for none": ("llamacpp", None, "", 200, None),
    "the right key": ("openai", KEY, f"Bearer {KEY}", 200, None),
    "a wrong key": ("openai", KEY, "Bearer other", 401, "wrong_key"),
    "no key where one is set": ("llamacpp", KEY, "", 401, "wrong_key"),
    "a wrong key, gemini": ("gemini", KEY, "Bearer other", 400, "wrong_key"),
    "a wrong key, mistral": ("mistral", KEY, "Bearer other", 401, "wrong_key"),
}


@pytest.mark.parametrize(("name", "key", "sent", "status", "case"), KEYS.values(), ids=KEYS)
def test_keys_are_looked_at(name, key, sent, status, case):
    headers = {"authorization": sent} if sent else {}
    with StrictEndpoint(name, key=key) as endpoint, httpx2.Client(headers=headers) as client:
        answer = ask(client, endpoint, good(name))
        assert (answer.status_code, endpoint.requests[-1].case) == (status, case)


def test_models_are_listed_and_others_refused(http):
    with StrictEndpoint("openai", models=["one"]) as endpoint:
        listed = http.get(f"{endpoint.base_url}/models").json()
        assert [model["id"] for model in listed["data"]] == ["one"]
        answer = ask(http, endpoint, good("openai"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_health_says_that_it_is_scripted(endpoints, http):
    endpoint = endpoints["kimi"]
    health = http.get(endpoint.base_url.removesuffix("/v1") + "/health").json()
    assert health == {"status": "ok", "scripted": True, "profile": "kimi"}
    assert http.get(f"{endpoint.base_url}/nothing").status_code == 404


# ---------------------------------------------------------------- the record


def test_a_request_is_kept_without_its_key(http):
    with StrictEndpoint("strict") as endpoint:
        body = good("strict")
        body["messages"][1]["content"] = f"The key is {KEY}."
        ask(http, endpoint, body, headers={"x-api-key": "another", "x-title": f"by {KEY}"})
        record = endpoint.requests[0]
        assert (record.number, record.method, record.path) == (0, "POST", "/v1/chat/completions")
        assert record.body["messages"][1]["content"] == "The key is [redacted]."
        assert record.headers["x-api-key"] == record.headers["authorization"] == "[redacted]"
        assert record.headers["x-title"] == "by [redacted]"
        assert KEY not in repr(record)


def test_the_record_is_bounded(http):
    with StrictEndpoint("strict", keep=3) as endpoint:
        for _ in range(5):
            ask(http, endpoint, good("strict"))
        assert [record.number for record in endpoint.requests] == [2, 3, 4]


def test_what_is_no_json_has_no_body(endpoints, http):
    endpoint = endpoints["strict"]
    http.post(f"{endpoint.base_url}/chat/completions", content=b"{")
    assert (endpoint.requests[-1].text, endpoint.requests[-1].body) == ("{", None)


# ---------------------------------------------------------------- the policy


def policy_answer(http, endpoint, **options):
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi."}], **options}
    return ask(http, endpoint, body).json()["choices"][0]


NAMED = {"type": "function", "function": {"name": "list_towns"}}
POLICY = {
    "auto calls the first tool": ("strict", "auto", ["get_weather"]),
    "none answers": ("strict", "none", []),
    "required calls": ("strict", "required", ["get_weather"]),
    "a named tool is called": ("strict", NAMED, ["list_towns"]),
    "ollama ignores none": ("ollama", "none", ["get_weather"]),
    "llama.cpp takes a named tool for auto": ("llamacpp", NAMED, ["get_weather"]),
}


@pytest.mark.parametrize(("name", "choice", "called"), POLICY.values(), ids=POLICY)
def test_without_a_script_tool_choice_decides(endpoints, http, name, choice, called):
    tools = OPTIONS["tools"]
    found = policy_answer(http, endpoints[name], tools=tools, tool_choice=choice)
    calls = found["message"].get("tool_calls", [])
    assert [one["function"]["name"] for one in calls] == called
    assert found["finish_reason"] == ("tool_calls" if called else "stop")


def test_the_answer_says_that_it_is_scripted(endpoints, http):
    answer = ask(http, endpoints["strict"], good("strict"))
    assert answer.json()["model"] == "scripted:m"
    assert answer.headers["x-scripted"] == "policy"


def test_a_text_prompt_gets_a_text_form_answer(endpoints, http):
    messages = [{"role": "user", "content": "End with Final Answer: and the answer."}]
    answer = ask(http, endpoints["strict"], {"model": "m", "messages": messages})
    assert (
        "\nFinal Answer: This is a scripted answer."
        in answer.json()["choices"][0]["message"]["content"]
    )


def test_ollama_cuts_a_long_prompt_and_loses_the_tools(http):
    with StrictEndpoint("ollama", window=100) as endpoint:
        body = {
            "model": "m",
            "messages": [{"role": "user", "content": "x" * 1000}],
            "tools": OPTIONS["tools"],
            "tool_choice": "auto",
        }
        answer = ask(http, endpoint, body).json()
    assert answer["usage"]["prompt_tokens"] == 100
    assert "tool_calls" not in answer["choices"][0]["message"]


EXAMPLES = {
    "an enum": ({"enum": ["b", "a"]}, "b"),
    "a default": ({"type": "integer", "default": 7}, 7),
    "a minimum": ({"type": "number", "minimum": 3}, 3),
    "a nested object": (
        {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
        {"a": True},
    ),
    "a list": ({"type": "array", "items": {"type": "string"}, "minItems": 2}, ["text", "text"]),
    "one of several": ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
    "several types": ({"type": ["integer", "null"]}, 1),
    "a long text": ({"type": "string", "minLength": 6}, "textxx"),
    "a reference": ({"$ref": "#/$defs/a", "$defs": {"a": {"const": 5}}}, 5),
    "a reference to itself": ({"$ref": "#"}, "text"),
    "nonsense": ({"type": "object", "required": 3, "properties": []}, {}),
    "nonsense counts": ({"type": "array", "minItems": "many"}, []),
}


@pytest.mark.parametrize(("schema", "value"), EXAMPLES.values(), ids=EXAMPLES)
def test_arguments_are_made_from_the_schema(schema, value):
    assert example(schema) == value


# ---------------------------------------------------------------- scripted answers


def test_items_are_played_in_order_and_then_the_policy(http):
    script = [
        {"text": "One.", "times": 2},
        {"tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}, "id": "abc"}]},
        None,
    ]
    with StrictEndpoint("strict", script) as endpoint:
        found = [ask(http, endpoint, good("strict")) for _ in range(5)]
    messages = [answer.json()["choices"][0]["message"] for answer in found]
    assert [m["content"] for m in messages[:2]] == ["One.", "One."]
    assert messages[2]["tool_calls"] == [
        {
            "id": "abc",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
        }
    ]
    assert [a.headers["x-scripted"] for a in found] == ["script"] * 3 + ["policy"] * 2


def test_a_function_can_be_the_script(http):
    def choose(body, number):
        return {"text": f"{number}: {body['model']}"} if number else None

    with StrictEndpoint("strict", choose) as endpoint:
        first, second = (ask(http, endpoint, good("strict")) for _ in range(2))
    assert first.headers["x-scripted"] == "policy"
    assert second.json()["choices"][0]["message"]["content"] == "1: m"


def test_a_whole_message_is_played_as_it_is(http):
    message = {"role": "assistant", "content": None, "refusal": "No."}
    with StrictEndpoint(
        "strict", [{"message": message, "finish_reason": "content_filter"}]
    ) as endpoint:
        choice = ask(http, endpoint, good("strict")).json()["choices"][0]
    assert choice == {"index": 0, "message": message, "finish_reason": "content_filter"}


def test_usage_and_headers_are_the_scripts(http):
    item = {"text": "x", "usage": {"prompt_tokens": 1}, "headers": {"x-request-id": "r1"}}
    with StrictEndpoint("strict", [item]) as endpoint:
        answer = ask(http, endpoint, good("strict"))
    assert (answer.json()["usage"], answer.headers["x-request-id"]) == ({"prompt_tokens": 1}, "r1")


def test_reasoning_is_given_where_it_must_come_back(http):
    with StrictEndpoint(
        "deepseek-thinking", [{"text": "x"}, {"text": "x", "reasoning": ""}]
    ) as endpoint:
        first, second = (ask(http, endpoint, good("deepseek-thinking")).json() for _ in range(2))
    assert first["choices"][0]["message"]["reasoning_content"]
    assert "reasoning_content" not in second["choices"][0]["message"]


def test_latency_is_kept(http):
    with StrictEndpoint("strict", [{"text": "x", "latency": 0.15}], latency=0.1) as endpoint:
        started = time.monotonic()
        ask(http, endpoint, good("strict"))
        assert time.monotonic() - started >= 0.25


@pytest.mark.skipif(not CASES.exists(), reason="the cases are not there")
def test_any_case_can_be_played(http):
    rows = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    with StrictEndpoint("strict", rows) as endpoint:
        for row in rows:
            answer = ask(http, endpoint, good("strict"))
            wire = row["wire"]
            if isinstance(wire, list):
                assert answer.headers["content-type"].startswith("text/event-stream")
                assert answer.text.count("data:") >= sum(isinstance(item, dict) for item in wire)
            elif "_http" in wire:
                assert answer.status_code == wire["_http"]["status"], row["id"]
            else:
                body = wire.get("_body", wire)
                assert answer.json() == {k: v for k, v in body.items() if not k.startswith("_")}


BAD_SCRIPTS = {
    "not JSON": ("{}\n{oops", r":2: not JSON"),
    "not an object": ("3", r":1: an item of a script is an object"),
    "an unknown key": ('{"txt": "x"}', r":1: unknown key 'txt'; known are text"),
    "an unknown fault": ('{"text": "x"}\n\n{"fault": "slow"}', r":3: unknown fault 'slow'"),
    "an unknown knob": ('{"stream": {"colour": 1}}', r"'stream' has no 'colour'"),
    "a knob of another type": ('{"stream": {"chunk": "7"}}', r"takes int as 'chunk', not '7'"),
    "a knob below zero": ('{"stream": {"pace": -1}}', r"takes float as 'pace', not -1"),
    "a knob of another word": ('{"stream": {"index": "two"}}', r"takes 'normal', .* as 'index'"),
    "an unknown form": ('{"retry_after": "soon"}', r"unknown retry_after 'soon'"),
    "a wrong type": ('{"wait": "1"}', r"'wait' must be int or float, not str"),
}


@pytest.mark.parametrize(("text", "message"), BAD_SCRIPTS.values(), ids=BAD_SCRIPTS)
def test_a_bad_script_is_one_clear_line(tmp_path, text, message):
    path = tmp_path / "script.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(WorkbenchError, match=message):
        load_script(path)


def test_a_script_is_a_list_or_lines(tmp_path):
    for text in ('[{"text": "a"}, {"text": "b"}]', '{"text": "a"}\n\n{"text": "b"}\n'):
        path = tmp_path / "script"
        path.write_text(text, encoding="utf-8")
        assert [item.text for item in load_script(path)] == ["a", "b"]
    with pytest.raises(WorkbenchError, match="cannot be read"):
        load_script(tmp_path / "nowhere")


# ---------------------------------------------------------------- faults

ERRORS = {
    "rate_limit": ("openai", 429, "rate_limit_exceeded"),
    "quota": ("openai", 429, "insufficient_quota"),
    "no_credit": ("deepseek-chat", 402, "Insufficient Balance"),
    "overloaded": ("openai", 503, "server_is_overloaded"),
    "overloaded_529": ("openai", 529, "overloaded_error"),
    "loading": ("llamacpp", 503, "Loading model"),
    "server_error": ("openai", 500, "server_error"),
    "no_tool_support": ("ollama", 400, "m does not support tools"),
    "no_template": ("llamacpp", 500, "--jinja"),
    "no_auto_choice": ("vllm", 400, "--enable-auto-tool-choice"),
    "context": ("openai", 400, "context_length_exceeded"),
    "unreadable_output": ("groq", 400, "failed_generation"),
    "bad_gateway": ("openai", 502, "<html>"),
    "empty_body": ("openai", 200, ""),
    "not_json": ("openai", 200, "<html>"),
    "no_choices": ("openai", 200, '"choices": []'),
}


@pytest.mark.parametrize("fault", ERRORS)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_scripted_error_is_answered(http, fault, stream):
    name, status, text = ERRORS[fault]
    with StrictEndpoint(name, [{"fault": fault}]) as endpoint:
        answer = ask(http, endpoint, good(name, stream=stream))
        assert (answer.status_code, text in answer.text) == (status, True), answer.text
        assert ask(http, endpoint, good(name)).status_code == 200


def test_llamacpp_says_that_it_cannot_parse(http):
    with StrictEndpoint("llamacpp", [{"fault": "unreadable_output"}]) as endpoint:
        answer = ask(http, endpoint, good("llamacpp"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, 500)
    assert answer.json()["error"]["message"].startswith("Failed to parse input at pos")


@pytest.mark.parametrize("fault", ["rate_limit", "overloaded"])
def test_retry_after_has_every_form(http, fault):
    forms = ("seconds", "date", "ms", "body", "none")
    script = [{"fault": fault, "retry_after": form, "wait": 2} for form in forms]
    with StrictEndpoint("openai", script) as endpoint:
        seconds, date, ms, body, none = (ask(http, endpoint, good("openai")) for _ in forms)
    assert seconds.headers["retry-after"] == "2"
    wait = email.utils.parsedate_to_datetime(date.headers["retry-after"]).timestamp() - time.time()
    assert 0 < wait <= 2
    assert ms.headers["retry-after-ms"] == "2000"
    assert "try again in 2s" in body.json()["error"]["message"]
    assert "retry-after" not in {**none.headers, **body.headers}


def broken(http, endpoint, name, **options):
    """Read as much as comes, and the kind of error that ended it."""
    parts = []
    try:
        url = f"{endpoint.base_url}/chat/completions"
        with http.stream("POST", url, json=good(name, **options), timeout=0.4) as answer:
            parts.extend(answer.iter_raw())
    except httpx2.TransportError as error:
        return b"".join(parts), type(error).__name__
    return b"".join(parts), None


BROKEN = {
    "a hang": ("hang", 0, 0, "ReadTimeout"),
    "a stall after 40 bytes": ("stall", 40, 40, "ReadTimeout"),
    "a reset before anything": ("reset", 0, 0, "ReadError"),
    "a connection closed before anything": ("drop", 0, 0, "RemoteProtocolError"),
    "a connection closed after 40 bytes": ("drop", 40, 40, "RemoteProtocolError"),
    "an answer that ends after 40 bytes": ("cut", 40, 40, None),
}


@pytest.mark.parametrize(("fault", "after", "read", "kind"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_an_answer_breaks_off(http, fault, after, read, kind, stream):
    with StrictEndpoint("strict", [{"fault": fault, "after": after}]) as endpoint:
        data, error = broken(http, endpoint, "strict", stream=stream)
        assert (len(data), error) == (read, kind)
        assert ask(http, endpoint, good("strict")).status_code == 200


def test_a_reset_is_a_reset():
    with StrictEndpoint("strict", [{"fault": "reset", "after": 40}]) as endpoint:
        data = json.dumps(good("strict")).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer x\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", endpoint.port), timeout=5) as connection:
            connection.sendall(head.encode() + data)
            received = bytearray()
            with pytest.raises(ConnectionResetError):
                read_all(connection, received)
    assert b'{"id": "chatcmpl-scripted-0", "object": ' in received


def read_all(connection, received):
    while part := connection.recv(4096):
        received += part


STREAM_FAULTS = {
    "no [DONE]": ("no_done", True, False),
    "no finish_reason": ("no_finish", False, True),
    "neither": ("no_end", False, False),
}


@pytest.mark.parametrize(("fault", "finish", "done"), STREAM_FAULTS.values(), ids=STREAM_FAULTS)
def test_a_stream_lacks_its_end(http, fault, finish, done):
    with StrictEndpoint("strict", [{"text": "Hello.", "fault": fault}]) as endpoint:
        chunks, ended = events(ask(http, endpoint, good("strict", stream=True)).text)
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    assert (any(reasons), ended, joined(chunks)[0]) == (finish, done, "Hello.")


@pytest.mark.parametrize("name", ["openai", "gemini", "llamacpp"])
def test_an_error_comes_within_a_stream(http, name):
    with StrictEndpoint(name, [{"fault": "error_event", "after": 2}] * 2) as endpoint:
        chunks, ended = events(ask(http, endpoint, good(name, stream=True)).text)
        plain = ask(http, endpoint, good(name))
    assert (len(chunks), "error" in chunks[2], ended) == (3, True, False)
    assert (plain.status_code, "error" in plain.text) == (200, True)


def test_an_error_event_says_what_the_script_says(http):
    error = {"error": {"code": "tool_use_failed", "failed_generation": "x"}}
    with StrictEndpoint("groq", [{"fault": "error_event", "after": 1, "body": error}]) as endpoint:
        chunks, _ = events(ask(http, endpoint, good("groq", stream=True)).text)
    assert chunks[1:] == [error]


def test_deepseek_sends_empty_lines_before_a_plain_body(endpoints, http):
    text = ask(http, endpoints["deepseek-chat"], good("deepseek-chat")).text
    assert text.startswith("\n\n{")


# ---------------------------------------------------------------- the bytes of a stream

ITEM = {
    "text": "Grüße, 世界",
    "tool_calls": [
        {"name": "get_weather", "arguments": {"city": 'Zürich "\\ 北京'}, "id": "a"},
        {"name": "list_towns", "arguments": {"country": "NO"}, "id": "b"},
    ],
}


def streamed(http, **style):
    with StrictEndpoint("strict", [{**ITEM, "stream": style}, ITEM]) as endpoint:
        stream = ask(http, endpoint, good("strict", stream=True))
        plain = ask(http, endpoint, good("strict")).json()["choices"][0]["message"]
    return stream, plain


SAME = [
    {},
    {"pieces": 1},
    {"pieces": 0},
    {"chunk": 1},
    {"chunk": 7},
    {"crlf": True},
    {"space": False},
    {"comments": True},
    {"event_ids": True},
    {"first_empty": True},
    {"last_blank": False},
    {"done": False},
    {"usage": "choice"},
    {"usage": "none"},
    {"chunk": 3, "crlf": True, "space": False, "comments": True, "event_ids": True, "pieces": 2},
]


@pytest.mark.parametrize("style", SAME, ids=str)
def test_every_style_says_the_same_as_the_plain_answer(http, style):
    stream, plain = streamed(http, **style)
    text, calls = joined(events(stream.text)[0])
    assert text == plain["content"]
    assert calls == [{"id": c["id"], **c["function"]} for c in plain["tool_calls"]]


KNOBS = {
    "CR LF": ({"crlf": True}, lambda t: "\r\n\r\n" in t and "\n\n" not in t),
    "no space": ({"space": False}, lambda t: "data:{" in t and "data: " not in t),
    "comments": ({"comments": True}, lambda t: t.startswith(": keep-alive\n\n")),
    "event ids": ({"event_ids": True}, lambda t: "id: 1\ndata:" in t),
    "an unended last event": ({"last_blank": False}, lambda t: t.endswith("[DONE]\n")),
    "no [DONE]": ({"done": False}, lambda t: "[DONE]" not in t),
    "no finish": ({"finish": False}, lambda t: '"finish_reason": "tool_calls"' not in t),
    "no index": ({"index": "missing"}, lambda t: indexes(t) == {None}),
    "a null index": ({"index": "null"}, lambda t: '"index": null' in t),
    "an index from one": ({"index": "one"}, lambda t: indexes(t) == {1, 2}),
    "an index always zero": ({"index": "zero"}, lambda t: indexes(t) == {0}),
    "the usual index": ({}, lambda t: indexes(t) == {0, 1}),
    "ids repeated": ({"ids": "repeat"}, lambda t: ids(t) == {"a", "b"}),
    "ids empty later": ({"ids": "empty"}, lambda t: ids(t) == {"a", "b", ""}),
    "ids only first": ({}, lambda t: ids(t) == {"a", "b", None}),
    "usage last": ({}, lambda t: usage_places(t) == ["last"]),
    "usage in the choice": ({"usage": "choice"}, lambda t: usage_places(t) == ["choice"]),
    "usage in the last chunk with choices": (
        {"usage": "finish_chunk"},
        lambda t: usage_places(t) == ["finish"],
    ),
    "no usage": ({"usage": "none"}, lambda t: usage_places(t) == []),
    "a first chunk without choices": (
        {"first_empty": True},
        lambda t: events(t)[0][0]["choices"] == [],
    ),
}


def parts_of(text):
    for chunk in events(text)[0]:
        for choice in chunk["choices"]:
            yield from choice["delta"].get("tool_calls", [])


def indexes(text):
    return {part.get("index") for part in parts_of(text)}


def ids(text):
    return {part.get("id") for part in parts_of(text)}


def usage_places(text):
    places = []
    for chunk in events(text)[0]:
        if "usage" in chunk:
            places.append("finish" if chunk["choices"] else "last")
        places.extend("choice" for choice in chunk["choices"] if "usage" in choice)
    return places


@pytest.mark.parametrize(("style", "holds"), KNOBS.values(), ids=KNOBS)
def test_a_knob_changes_the_bytes(http, style, holds):
    stream, _ = streamed(http, **style)
    assert holds(stream.text), stream.text


def test_usage_comes_only_if_asked_for(http):
    with StrictEndpoint("openai", [ITEM]) as endpoint:
        body = good("openai", stream=True)
        del body["stream_options"]
        assert usage_places(ask(http, endpoint, body).text) == []


def test_writes_cut_through_characters(http):
    style = {"chunk": 1, "pace": 0.0005}
    with StrictEndpoint("strict", [{"text": "世", "stream": style}]) as endpoint:
        url = f"{endpoint.base_url}/chat/completions"
        with http.stream("POST", url, json=good("strict", stream=True)) as answer:
            parts = list(answer.iter_raw())
    assert len(parts) > 20
    assert any(not valid_utf8(part) for part in parts)


def valid_utf8(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


STREAMED_BY = {
    "kimi's usage is in the choice": ("kimi", lambda t: usage_places(t) == ["choice"]),
    "deepseek keeps alive": ("deepseek-chat", lambda t: ": keep-alive" in t),
    "gemini has no index": ("gemini", lambda t: indexes(t) == {None}),
    "gemini signs the first call": ("gemini", lambda t: t.count("thought_signature") == 1),
    "dashscope empties later ids": ("dashscope", lambda t: "" in ids(t)),
    "glm gives arguments in one piece": ("glm", lambda t: len(list(parts_of(t))) == 2),
    "mistral gives usage unasked": ("mistral", lambda t: usage_places(t) == ["finish"]),
}


@pytest.mark.parametrize(("name", "holds"), STREAMED_BY.values(), ids=STREAMED_BY)
def test_a_stream_looks_like_the_endpoints(http, name, holds):
    with StrictEndpoint(name, [ITEM]) as endpoint:
        stream = ask(http, endpoint, good(name, stream=True)).text
    assert holds(stream), stream


# ---------------------------------------------------------------- serving


def test_the_official_client_reads_it(endpoints):
    endpoint = endpoints["openai"]
    with openai.OpenAI(api_key=KEY, base_url=endpoint.base_url, max_retries=0) as client:
        answer = client.chat.completions.create(**good("openai"))
        assert "scripted answer" in answer.choices[0].message.content
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="m", messages=[], tools=[])
    assert caught.value.param == "messages"


def test_many_requests_at_once(endpoints):
    async def run():
        limits = httpx2.Limits(max_connections=50)
        async with httpx2.AsyncClient(
            headers={"authorization": "Bearer x"}, limits=limits
        ) as client:
            url = f"{endpoints['strict'].base_url}/chat/completions"
            asked = (client.post(url, json=good("strict")) for _ in range(200))
            return await asyncio.gather(*asked)

    found = asyncio.run(run())
    assert {answer.status_code for answer in found} == {200}
    assert len({answer.json()["id"] for answer in found}) == 200


def test_a_port_in_use_is_the_users_mistake(endpoints):
    with pytest.raises(WorkbenchError, match=r"--port \d+: cannot be served"):
        run_endpoint("strict", endpoints["strict"].port)


def test_an_unknown_profile_is_the_users_mistake():
    with pytest.raises(WorkbenchError, match="no such profile"):
        run_endpoint("nobody", 0)


def test_it_stops_while_an_answer_hangs(http):
    started = time.monotonic()
    with (
        StrictEndpoint("strict", [{"fault": "hang"}]) as endpoint,
        pytest.raises(httpx2.ReadTimeout),
    ):
        ask(http, endpoint, good("strict"), timeout=0.1)
    assert time.monotonic() - started < 3


def test_the_forms_of_an_error_are_all_told():
    found = first_refusal({"model": "m", "messages": []}, PROFILES["strict"])
    styles = ("openai", "flat", "gemini", "llamacpp", "openrouter", "text", "list", "detail")
    rendered = [json.dumps(render_error(found, style)) for style in styles]
    assert all("'messages' must be a list" in text for text in rendered)
    assert len(set(rendered)) == len(styles)


ROOT_FOLDER = Path(__file__).parents[2]
SERVE = """
import signal
# a runner in the background may have left Ctrl-C ignored, which children inherit
signal.signal(signal.SIGINT, signal.default_int_handler)
from bench.__main__ import main
words = "endpoint --profile mistral --port 0 --script script.jsonl"
raise SystemExit(main(words.split()))
"""
WITHOUT = """
import sys
from bench.types import WorkbenchError
sys.modules["uvicorn"] = None
try:
    import bench.endpoint
except WorkbenchError as error:
    print(error)
"""


def python(code, folder):
    environ = {**os.environ, "PYTHONPATH": str(ROOT_FOLDER)}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True)


def test_it_serves_until_interrupted(http, tmp_path):
    (tmp_path / "script.jsonl").write_text('{"text": "From the file."}', encoding="utf-8")
    with python(SERVE, tmp_path) as process:
        line = process.stdout.readline()
        assert "plays mistral at http://127.0.0.1:" in line
        url = line.split()[-1]
        answer = http.post(f"{url}/chat/completions", json=good("mistral"))
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().strip() == "requests answered: 1"
    assert (answer.json()["choices"][0]["message"]["content"], process.returncode) == (
        "From the file.",
        0,
    )


def test_a_missing_extra_is_named(tmp_path):
    with python(WITHOUT, tmp_path) as process:
        assert "toolcall-workbench[endpoint]" in process.stdout.read()
