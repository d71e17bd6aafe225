"""Clients against a real server on 127.0.0.1, recordings, and scripts."""

import asyncio
import json
import time
from dataclasses import replace

import pytest

from bench.clients import (
    LANE,
    OpenAIClient,
    Patience,
    RecordedClient,
    RecordingClient,
    ScriptedClient,
    probe,
    reply_with,
)
from bench.drivers import NativeDriver, ReactDriver
from bench.recordings import Recorder, Recording
from bench.types import Reply, Request, StepKey, Usage, WorkbenchError
from parsers import Tool

KEY = "sk-planted-0123456789"
QUICK = Patience(tries=3, seconds=5.0, first_wait=0.01)


def completion(text="hello", **more):
    return {
        "object": "chat.completion",
        "model": "m-1",
        "system_fingerprint": "fp1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
        **more,
    }


def events(text="hello", *, done=True, finish=True):
    """Give the events of a streamed answer, one piece each."""
    deltas = [{"role": "assistant", "content": ""}, *({"content": char} for char in text)]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if finish:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        chunks.append(
            {"model": "m-1", "choices": [], "usage": completion()["usage"]},
        )
    pieces = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return [*pieces, b"data: [DONE]\n\n"] if done else pieces


def make_request(text="hi", trial=0):
    key = StepKey("t1", "native", "full", trial, 0)
    return Request(({"role": "user", "content": text},), {"temperature": 0}, key)


def ask(endpoint, answers, *, request=None, **options):
    """Ask the endpoint once with a fresh client."""
    endpoint.answers = answers

    async def go():
        client = OpenAIClient(
            "here",
            "m",
            base_url=endpoint.base_url,
            api_key=KEY,
            **{"timeout": 5.0, "patience": QUICK, **options},
        )
        try:
            return await client.complete(request or make_request())
        finally:
            await client.close()

    return asyncio.run(go())


def good(handler):
    handler.send(200, json.dumps(completion()))


def status(code, body='{"error": {"message": "no"}}', kind="application/json", **headers):
    return lambda handler: handler.send(code, body, kind, **headers)


def hang(handler):
    time.sleep(1.0)
    handler.close_connection = True


def reset(handler):
    handler.close_connection = True
    handler.connection.close()


def half(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def stream(**how):
    return lambda handler: handler.send_open(events(**how))


def test_a_plain_answer_is_kept_as_it_came(endpoint):
    reply = ask(endpoint, [good])
    assert json.loads(reply.body) == completion()
    assert (reply.status, reply.usage, reply.model) == (200, Usage(11, 3), "m-1")
    assert reply.fingerprint == "fp1"
    assert reply.first_token is None
    assert 0 < reply.seconds < 5
    assert endpoint.requests == [
        {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0}
    ]


def test_messages_are_sent_as_they_are_made(endpoint):
    signed = {"id": "c1", "type": "function", "extra_content": {"google": {"sign": "s"}}}
    call = {**signed, "function": {"name": "f", "arguments": "{}", "odd": [1, None]}}
    messages = (
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "{}", "name": "f"},
    )
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"x-own": True}}}]
    request = replace(make_request(), messages=messages, options={"tools": tools, "top_k": 1})
    ask(endpoint, [good], request=request)
    sent = {"model": "m", "messages": list(messages), "tools": tools, "top_k": 1}
    assert json.dumps(endpoint.requests) == json.dumps([sent])


def test_more_requests_than_share_a_pool_are_all_answered(endpoint):
    endpoint.answers = [good]

    async def go():
        client = OpenAIClient("here", "m", base_url=endpoint.base_url, api_key=KEY, patience=QUICK)
        asked = (client.complete(make_request(str(n))) for n in range(LANE + 5))
        try:
            return await asyncio.gather(*asked)
        finally:
            await client.close()

    replies = asyncio.run(go())
    assert [reply.status for reply in replies] == [200] * (LANE + 5)
    told = {request["messages"][0]["content"] for request in endpoint.requests}
    assert told == {str(n) for n in range(LANE + 5)}


def test_a_streamed_answer_is_kept_as_it_came(endpoint):
    reply = ask(endpoint, [lambda h: h.send_open(events(), pause=0.01)], stream=True)
    assert reply.body == b"".join(events()).decode()
    assert reply.usage == Usage(11, 3)
    assert 0 < reply.first_token < reply.seconds
    assert endpoint.requests[0]["stream"] is True
    assert endpoint.requests[0]["stream_options"] == {"include_usage": True}


def test_a_watched_stream_is_broken_off_where_no_more_is_needed(endpoint):
    tools = [Tool("get_rate", "", {"type": "object", "properties": {}})]
    said = "Thought: x\nAction: get_rate\nAction Input: {}\nObservation: "
    driver = ReactDriver(stop_early=True)
    request = replace(make_request(), enough=driver.watch(tools))
    endless = events(said + "1" * 200, finish=False, done=False)

    reply = ask(
        endpoint, [lambda h: h.send_open(endless, pause=0.002)], request=request, stream=True
    )

    assert reply.hung_up
    assert len(reply.body) < len(b"".join(endless))
    assert reply.usage == Usage()
    assert [call.name for call in driver.read(reply, tools).calls] == ["get_rate"]
    assert reply.attempts == ()


def test_a_driver_that_does_not_hang_up_watches_nothing():
    assert ReactDriver().watch([]) is None
    assert NativeDriver().watch([]) is None


def test_a_plain_answer_to_a_streamed_request_is_read(endpoint):
    reply = ask(endpoint, [good], stream=True)
    assert (reply.status, reply.usage) == (200, Usage(11, 3))


RETRIED = {
    "429 without a header": (status(429), "rate_limited", 429),
    "429 in seconds": (status(429, retry_after="0"), "rate_limited", 429),
    "429 in milliseconds": (status(429, retry_after_ms="5"), "rate_limited", 429),
    "429 as a date": (
        status(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
        "rate_limited",
        429,
    ),
    "500": (status(500), "endpoint_error", 500),
    "502 with HTML": (status(502, "<html>Bad Gateway</html>", "text/html"), "endpoint_error", 502),
    "503": (status(503), "rate_limited", 503),
    "529": (status(529), "rate_limited", 529),
    "a reset": (reset, "endpoint_error", 0),
    "a body cut short": (half, "endpoint_error", 0),
    "an empty choice": (status(200, '{"choices": []}'), "bad_envelope", 200),
}


@pytest.mark.parametrize(("fault", "kind", "code"), RETRIED.values(), ids=RETRIED)
def test_a_fault_that_may_pass_is_tried_again_and_told(endpoint, fault, kind, code):
    reply = ask(endpoint, [fault, good])
    assert reply.status == 200
    assert json.loads(reply.body) == completion()
    assert [(attempt.kind, attempt.status) for attempt in reply.attempts] == [(kind, code)]


KEPT = {
    "400": (status(400), 400),
    "401": (status(401), 401),
    "404": (status(404), 404),
    "402: no credit": (status(402), 402),
    "a 500 because the server couldn't read the model's move": (
        status(500, '{"error": {"message": "Failed to parse input at pos 0", "code": 500}}'),
        500,
    ),
    "the prompt is too long": (
        status(400, '{"error": {"code": "context_length_exceeded", "message": "too long"}}'),
        400,
    ),
}


@pytest.mark.parametrize(("fault", "code"), KEPT.values(), ids=KEPT)
def test_what_no_retry_mends_is_asked_once(endpoint, fault, code):
    reply = ask(endpoint, [fault])
    assert (reply.status, reply.attempts) == (code, ())
    assert len(endpoint.requests) == 1


def test_a_fault_that_stays_ends_after_the_last_try(endpoint):
    reply = ask(endpoint, [status(500)])
    assert reply.status == 500
    assert len(reply.attempts) == QUICK.tries - 1
    assert len(endpoint.requests) == QUICK.tries


def test_a_wait_beyond_the_patience_is_not_begun(endpoint):
    started = time.monotonic()
    reply = ask(endpoint, [status(429, retry_after="60"), good])
    assert (reply.status, reply.attempts) == (429, ())
    assert time.monotonic() - started < 3


def test_retry_after_is_kept_to(endpoint):
    reply = ask(endpoint, [status(429, retry_after_ms="300"), good])
    assert reply.attempts[0].waited == pytest.approx(0.3)


def test_a_hanging_endpoint_is_a_time_out(endpoint):
    reply = ask(endpoint, [hang], timeout=0.2, patience=Patience(tries=1))
    assert reply.status == 0
    assert reply.body.startswith("time-out")


def test_a_stream_that_drips_for_ever_is_a_time_out(endpoint):
    drip = lambda h: h.send_open(events(text="x" * 100), pause=0.05)  # noqa: E731
    reply = ask(endpoint, [drip], timeout=0.3, patience=Patience(tries=1), stream=True)
    assert reply.status == 0


def test_nobody_there_is_a_status_of_0():
    class Nobody:
        base_url = "http://127.0.0.1:9/v1"

    reply = ask(Nobody(), [], patience=Patience(tries=1))
    assert reply.status == 0
    assert reply.body.startswith("connection")


STREAMS = {
    "no DONE but a finish_reason": (stream(done=False), ()),
    "neither DONE nor finish_reason": (stream(done=False, finish=False), ("stream_interrupted",)),
    "an error in the middle": (
        lambda h: h.send_open([*events()[:3], b'data: {"error": {"message": "boom"}}\n\n']),
        ("stream_interrupted",),
    ),
}


@pytest.mark.parametrize(("fault", "kinds"), STREAMS.values(), ids=STREAMS)
def test_a_stream_that_ends_early_is_tried_again(endpoint, fault, kinds):
    reply = ask(endpoint, [fault, stream()], stream=True)
    assert tuple(attempt.kind for attempt in reply.attempts) == kinds
    assert "hello" not in reply.body
    assert '"content": "h"' in reply.body


ECHOED = {
    "in an error": status(401, json.dumps({"error": {"message": f"bad key {KEY}"}})),
    "in an answer": lambda h: h.send(200, json.dumps(completion(text=KEY))),
    "in a header": lambda h: h.send(200, json.dumps(completion()), x_request_id=KEY),
}


@pytest.mark.parametrize("answer", ECHOED.values(), ids=ECHOED)
def test_a_key_that_an_endpoint_echoes_is_hidden(endpoint, answer):
    reply = ask(endpoint, [answer])
    assert KEY not in repr(reply)
    assert "[key]" in repr(reply)


def test_the_key_is_sent_and_only_there(endpoint):
    ask(endpoint, [good])
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in json.dumps(endpoint.requests)


PROBES = {
    "a refused key": (status(401), "refuses the key"),
    "404 with HTML": (status(404, "<html>", "text/html"), "/v1"),
    "an unknown model": (
        status(404, '{"error": {"message": "The model `m` does not exist"}}'),
        "no model 'm'",
    ),
    "HTML": (status(200, "<!doctype html><p>hi", "text/html"), "web page"),
    "a hang": (hang, "does not answer"),
    "a setting that is refused": (
        status(400, '{"error": {"message": "max_tokens is not supported"}}'),
        "max_tokens is not supported",
    ),
}


def probe_endpoint(base_url, seconds=0.5):
    async def go():
        client = OpenAIClient("here", "m", base_url=base_url, api_key=KEY, patience=QUICK)
        try:
            await probe(client, {"max_tokens": 1024}, seconds)
        finally:
            await client.close()

    asyncio.run(go())


@pytest.mark.parametrize(("answer", "words"), PROBES.values(), ids=PROBES)
def test_an_endpoint_that_is_no_use_is_found_before_a_run(endpoint, answer, words):
    endpoint.answers = [answer]
    with pytest.raises(WorkbenchError, match=words) as caught:
        probe_endpoint(endpoint.base_url)
    assert "\n" not in str(caught.value)


def test_an_endpoint_that_is_not_there_is_found_before_a_run():
    with pytest.raises(WorkbenchError, match="can't be reached"):
        probe_endpoint("http://127.0.0.1:9/v1")


def test_an_endpoint_that_is_slow_but_there_is_waited_for(endpoint):
    def slow(handler):
        time.sleep(2.5)
        good(handler)

    endpoint.answers = [slow]
    endpoint.models = good
    probe_endpoint(endpoint.base_url, 3.0)


def test_an_endpoint_that_answers_passes(endpoint):
    endpoint.answers = [good]
    probe_endpoint(endpoint.base_url)
    assert endpoint.requests[0]["max_tokens"] <= 16


# ------------------------------------------------------------ recordings

MANIFEST = {"format": 1, "endpoint": "here", "model": "m", "settings": {"temperature": 0}}


def record(path, script, requests):
    """Ask through a recording client; return the replies and how many were asked live."""
    inner = ScriptedClient(script, name="here", model="m")

    async def go():
        client = RecordingClient(inner, Recorder(path, MANIFEST))
        replies = [await client.complete(request) for request in requests]
        await client.close()
        return replies

    return asyncio.run(go()), len(inner.requests)


def replay(path, request):
    return asyncio.run(RecordedClient(Recording.read(path)).complete(request))


@pytest.fixture(params=["r.jsonl", "r.jsonl.gz"])
def file(request, tmp_path):
    return tmp_path / request.param


def test_what_was_recorded_is_replayed(file):
    reply = replace(reply_with("hello", usage=Usage(5, 6)), seconds=1.5, first_token=0.5)
    replies, _ = record(file, [reply], [make_request()])
    assert replies == [reply]
    assert replay(file, make_request()) == reply


MISSED = {
    "another text": make_request("other"),
    "another trial": make_request(trial=1),
    "another option": replace(make_request(), options={"temperature": 1}),
}


@pytest.mark.parametrize("request_", MISSED.values(), ids=MISSED)
def test_what_was_not_recorded_is_none(file, request_):
    record(file, ["hello"], [make_request()])
    assert replay(file, request_) is None


def test_another_step_with_the_same_request_is_answered_alike(file):
    record(file, ["hello"], [make_request()])
    moved = replace(make_request(), key=StepKey("t9", "native@rescue", "full", 0, 3))
    assert replay(file, moved) is not None


def test_a_recording_is_taken_up_again(file):
    record(file, ["one"], [make_request("1")])
    replies, asked = record(file, ["two"], [make_request("1"), make_request("2")])
    assert asked == 1
    assert json.loads(replies[0].body)["choices"][0]["message"]["content"] == "one"
    assert replay(file, make_request("2")) is not None


def test_a_recording_cut_anywhere_is_taken_up_again(file):
    record(file, ["one", "two"], [make_request("1"), make_request("2")])
    whole = file.read_bytes()
    for cut in range(len(whole) - 30, len(whole), 3):
        file.write_bytes(whole[:cut])
        _, asked = record(file, ["again"] * 2, [make_request("1"), make_request("2")])
        assert asked <= 1
        assert replay(file, make_request("1")) is not None
        assert replay(file, make_request("2")) is not None


def test_a_message_is_stored_once(file):
    shared = {"role": "system", "content": "a long prompt"}
    asked = [
        replace(make_request(), messages=(shared, {"role": "user", "content": str(n)}))
        for n in range(5)
    ]
    record(file, ["x"] * 5, asked)
    assert len(Recording.read(file).parts) == 5 + 1 + 1  # questions, prompt, options


def test_an_endpoints_failure_is_not_recorded(file):
    fault = Reply(500, {}, '{"error": {"message": "boom"}}')
    replies, _ = record(file, [fault], [make_request()])
    assert replies == [fault]
    assert replay(file, make_request()) is None


class Together:
    """A client that answers two requests at once, each otherwise."""

    name = model = "m"

    def __init__(self):
        self.both, self.asked = asyncio.Barrier(2), 0

    async def complete(self, _):
        self.asked += 1
        text = f"answer {self.asked}"
        await self.both.wait()
        return reply_with(text)

    async def close(self):
        pass


def test_two_that_ask_the_same_at_once_get_the_answer_that_is_recorded(file):
    async def go():
        client = RecordingClient(Together(), Recorder(file, MANIFEST))
        replies = await asyncio.gather(*(client.complete(make_request()) for _ in range(2)))
        await client.close()
        return replies

    one, other = asyncio.run(go())
    assert one == other == replay(file, make_request())


REFUSED_MANIFESTS = {
    "another model": {"model": "other"},
    "other settings": {"settings": {"temperature": 1}},
    "another endpoint": {"endpoint": "there"},
}


@pytest.mark.parametrize("change", REFUSED_MANIFESTS.values(), ids=REFUSED_MANIFESTS)
def test_a_recording_of_something_else_is_not_added_to(file, change):
    record(file, ["one"], [make_request()])
    before = file.read_bytes()
    with pytest.raises(WorkbenchError, match="choose another file"):
        Recorder(file, {**MANIFEST, **change})
    assert file.read_bytes() == before


def test_a_scripted_function_sees_the_request():
    client = ScriptedClient(lambda request: request.messages[0]["content"].upper())
    reply = asyncio.run(client.complete(make_request("hi")))
    assert json.loads(reply.body)["choices"][0]["message"]["content"] == "HI"
