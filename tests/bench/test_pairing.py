"""The pairing experiment: the exchanges as they are built, and what each endpoint makes of them."""

import asyncio
import json

import pytest

from bench.clients import OpenAIClient, ScriptedClient
from bench.endpoint import StrictEndpoint
from bench.pairing import (
    TOWNS,
    VARIANTS,
    Exchange,
    change_id,
    error_code,
    run_pairing,
    sum_up,
)
from bench.profiles import load_profiles, shape_for
from bench.types import Reply

PROFILES = load_profiles()


def call(identity, town="Oslo", **extra):
    function = {"name": "get_temperature", "arguments": json.dumps({"town": town})}
    return {"id": identity, "type": "function", "function": function, **extra}


RIGHT = Exchange(
    ({"role": "user", "content": "?"},),
    {"role": "assistant", "content": None, "tool_calls": [call("a1"), call("a2", "Bergen")]},
    (
        {"role": "tool", "tool_call_id": "a1", "content": "1"},
        {"role": "tool", "tool_call_id": "a2", "content": "2"},
    ),
)
SHAPES = {
    "right": ["user", "assistant", "a1", "a2"],
    "changed_id": ["user", "assistant", "a1", "a3"],
    "missing_result": ["user", "assistant", "a1"],
    "second_result": ["user", "assistant", "a1", "a2", "a2"],
    "orphan_result": ["user", "assistant", "a1", "a2", "a4"],
    "no_assistant": ["user", "a1", "a2"],
    "message_between": ["user", "assistant", "user", "a1", "a2"],
    "reordered": ["user", "assistant", "a2", "a1"],
}


@pytest.mark.parametrize("name", VARIANTS)
def test_an_exchange_is_built_as_it_is_called(name):
    messages = VARIANTS[name](RIGHT)
    assert [m.get("tool_call_id", m["role"]) for m in messages] == SHAPES[name]


CHANGED = {
    "a digit for a digit": ("call_7", (), "call_8"),
    "a letter for a letter": ("call_z", (), "call_g"),
    "hexadecimal stays so": ("call_f", (), "call_a"),
    "none that is taken": ("functions.x:0", ("functions.x:1",), "functions.x:2"),
    "the last that can be changed": ("a1___", (), "a2___"),
    "nothing that can be changed": ("___", (), "___x"),
    "no id at all": ("", (), "x"),
}


@pytest.mark.parametrize(("identity", "taken", "wanted"), CHANGED.values(), ids=CHANGED)
def test_one_character_of_an_id_changes(identity, taken, wanted):
    assert change_id(identity, taken) == wanted


# ---------------------------------------------------------------- every profile

BY_ID = dict.fromkeys(VARIANTS, "refused") | {"right": "accepted", "reordered": "accepted"}
BY_COUNT = BY_ID | {"changed_id": "accepted"}
SILENT = dict.fromkeys(VARIANTS, "accepted")
VERDICTS = {
    **dict.fromkeys(PROFILES, BY_ID),
    **dict.fromkeys(("mistral", "gemini"), BY_COUNT),
    **dict.fromkeys(("glm", "vllm", "sglang", "llamacpp", "ollama", "lmstudio"), SILENT),
}


async def probe(name, **options):
    with StrictEndpoint(name) as endpoint:
        client = OpenAIClient(
            name,
            "m",
            base_url=endpoint.base_url,
            api_key="planted-key",
            shape=shape_for(PROFILES[name], "m"),
        )
        trials = await run_pairing(client, **options)
        await client.close()
    return trials


@pytest.mark.parametrize("name", PROFILES)
def test_each_profile_refuses_what_its_endpoint_refuses(name):
    trials = asyncio.run(probe(name, count=2))
    rows = sum_up(trials)
    assert {row.variant: row.verdict for row in rows} == VERDICTS[name]
    assert {row.trials for row in rows} == {2}
    assert {trial.added for trial in trials} == {1}


def test_a_refusal_keeps_status_code_and_text():
    trials = asyncio.run(probe("mistral", count=1, variants=["missing_result"]))
    (trial,) = trials
    assert (trial.status, trial.code) == (400, "3230")
    assert "Not the same number" in trial.said


# ---------------------------------------------------------------- what the model does


def model(request):
    """Play a model that asks again where it sees no call of its own."""
    roles = [message["role"] for message in request.messages]
    if "tool" not in roles:
        calls = [call("x1", TOWNS[0][0]), call("x2", TOWNS[0][1])]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    if "assistant" not in roles:
        return {"role": "assistant", "content": None, "tool_calls": [call("x3", TOWNS[0][0])]}
    if roles.count("tool") == 1:
        return {"role": "assistant", "content": None, "tool_calls": [call("x3", "Paris")]}
    if roles.count("tool") == 3:
        return {"role": "assistant", "content": None, "tool_calls": [call("x3", 3)]}
    return "Bergen is warmer."


def run(script, **options):
    client = ScriptedClient(script)
    trials = asyncio.run(run_pairing(client, **{"count": 1, **options}))
    return client, {trial.variant: trial for trial in trials}


def test_what_the_model_then_does_is_told_apart():
    _, found = run(model)
    outcomes = {name: trial.outcome for name, trial in found.items()}
    assert outcomes == {
        "right": "answered",
        "changed_id": "answered",
        "missing_result": "called_other",
        "second_result": "unreadable",
        "orphan_result": "unreadable",
        "no_assistant": "asked_again",
        "message_between": "answered",
        "reordered": "answered",
    }
    assert found["right"].said == "Bergen is warmer."
    assert "Paris" in found["missing_result"].said


def test_a_call_asked_again_in_the_text_is_told_apart_from_what_cannot_be_read():
    def writer(request):
        if any(message["role"] == "assistant" for message in request.messages):
            return model(request)
        return json.dumps({"name": "get_temperature", "arguments": {"town": TOWNS[0][0]}})

    _, found = run(writer)
    assert found["no_assistant"].outcome == "asked_in_text"


def test_two_calls_of_the_models_own_are_kept():
    client, found = run(model)
    assert {trial.added for trial in found.values()} == {0}
    sent = client.requests[1].messages
    assert [entry["id"] for entry in sent[2]["tool_calls"]] == ["x1", "x2"]


def test_one_call_gets_a_second_about_the_other_town():
    own = call("x1", TOWNS[0][0], extra_content={"google": {"thought_signature": "s"}})
    message = {"role": "assistant", "content": None, "reasoning_content": "R", "tool_calls": [own]}
    client, found = run([message, "Done."], variants=["right"])
    assistant = client.requests[1].messages[2]
    assert found["right"].added == 1
    assert assistant["reasoning_content"] == "R"
    first, second = assistant["tool_calls"]
    assert first["extra_content"] == second["extra_content"]
    assert (first["id"], second["id"]) == ("x1", "x2")
    assert TOWNS[0][1] in second["function"]["arguments"]


def test_no_call_gets_two():
    client, found = run(["It is cold.", "Done."], variants=["right"])
    assistant = client.requests[1].messages[2]
    assert (found["right"].added, assistant["content"]) == (2, None)
    assert [TOWNS[0][at] in str(one) for at, one in enumerate(assistant["tool_calls"])] == [
        True
    ] * 2


def test_every_request_has_a_key_of_its_own():
    client, _ = run(model, count=3)
    keys = [request.key for request in client.requests]
    assert len(set(keys)) == len(keys) == 3 * 9


def test_a_failing_endpoint_is_told_apart_from_a_refusal():
    broken = Reply(502, {"content-type": "text/html"}, "<html>Bad Gateway</html>")
    _, found = run([broken])
    assert (found["open"].outcome, found["open"].status) == ("failed", 502)
    _, found = run([call_message(), broken], variants=["right"])
    assert found["right"].outcome == "failed"


def call_message():
    return {"role": "assistant", "content": None, "tool_calls": [call("x1")]}


def test_what_was_not_recorded_is_told():
    _, found = run([None])
    assert found["open"].outcome == "not_recorded"
    _client, found = run([call_message(), None], variants=["no_assistant"])
    assert found["no_assistant"].outcome == "not_recorded"
    (row,) = sum_up(list(found.values()))
    assert (row.known, row.verdict) == (0, "unknown")


def test_some_refused_and_some_not_is_mixed():
    refusal = Reply(400, {}, '{"error": {"message": "no", "code": "c"}}')
    rows = []
    for answer in (refusal, "Done."):
        _, found = run([call_message(), answer], variants=["right"])
        rows.extend(found.values())
    (row,) = sum_up(rows)
    assert (row.verdict, row.accepted, row.known, row.codes) == ("mixed", 1, 2, {"c": 1})


CODES = {
    "OpenAI's": ('{"error": {"code": "x", "type": "t"}}', "x"),
    "a type only": ('{"error": {"code": null, "type": "t"}}', "t"),
    "a number and a type": ('{"error": {"code": 500, "type": "server_error"}}', "server_error"),
    "Mistral's": ('{"object": "error", "code": "3230"}', "3230"),
    "Gemini's": ('[{"error": {"code": 400, "status": "INVALID_ARGUMENT"}}]', "INVALID_ARGUMENT"),
    "a list inside": ('{"error": [{"code": "invalid_type"}]}', "invalid_type"),
    "a text": ('{"error": "no"}', None),
    "no JSON": ("<html>", None),
}


@pytest.mark.parametrize(("body", "code"), CODES.values(), ids=CODES)
def test_a_code_is_found_in_every_body(body, code):
    assert error_code(body) == code
