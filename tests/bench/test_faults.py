"""An endpoint's faults, over real HTTP, seen from a whole run: nothing lost, nothing charged."""

import asyncio
from collections import Counter

import pytest

from bench.clients import OpenAIClient, Patience
from bench.drivers import NativeDriver, ReactDriver
from bench.endpoint import StrictEndpoint
from bench.profiles import load_profiles, shape_for
from bench.records import RunFolder
from bench.run import plan_jobs, run_all
from bench.tasks import load_tasks

PROFILES = load_profiles()
TASKS = load_tasks(categories=["single"])[:4]
DRIVERS = [ReactDriver(), NativeDriver()]
QUICK = Patience(tries=3, seconds=20.0, first_wait=0.01)


def run(tmp_path, script, *, stream=False, name="openai", timeout=10.0, patience=QUICK):
    """Run four tasks both ways against an endpoint that plays a script, then its policy."""

    async def go(endpoint, folder):
        client = OpenAIClient(
            "here",
            "m",
            base_url=endpoint.base_url,
            api_key="planted-key",
            stream=stream,
            timeout=timeout,
            patience=patience,
            shape=shape_for(PROFILES[name], "m"),
        )
        try:
            return await run_all(plan_jobs(TASKS, DRIVERS, [client]), folder, concurrency=1)
        finally:
            await client.close()

    folder = RunFolder.create(tmp_path, "t", {"format": 1})
    with StrictEndpoint(name, script) as endpoint:
        tally = asyncio.run(go(endpoint, folder))
    folder.close()
    return tally, list(folder.episodes()), list(folder.lines())


PASSING = {
    "429, in seconds": ({"fault": "rate_limit", "retry_after": "seconds", "wait": 0.1}, False),
    "429, as a date": ({"fault": "rate_limit", "retry_after": "date", "wait": 0}, False),
    "429, in milliseconds": ({"fault": "rate_limit", "retry_after": "ms", "wait": 0.1}, False),
    "429, in the body": ({"fault": "rate_limit", "retry_after": "body", "wait": 0.1}, False),
    "429, without a word": ({"fault": "rate_limit"}, False),
    "503": ({"fault": "overloaded"}, False),
    "529": ({"fault": "overloaded_529"}, False),
    "loading": ({"fault": "loading"}, False),
    "500": ({"fault": "server_error"}, False),
    "502 with HTML": ({"fault": "bad_gateway"}, False),
    "an empty body": ({"fault": "empty_body"}, False),
    "no JSON": ({"fault": "not_json"}, False),
    "no choices": ({"fault": "no_choices"}, False),
    "a reset at once": ({"fault": "reset"}, False),
    "a reset after 60 bytes": ({"fault": "reset", "after": 60}, False),
    "a reset after 60 bytes of a stream": ({"fault": "reset", "after": 60}, True),
    "a reset after 400 bytes of a stream": ({"fault": "reset", "after": 400}, True),
    "a closed connection": ({"fault": "drop", "after": 60}, False),
    "a plain body that ends too soon": ({"fault": "cut", "after": 60}, False),
    "an error in a stream": ({"fault": "error_event", "after": 2}, True),
    "a stream without any end": ({"fault": "no_end"}, True),
}


@pytest.mark.parametrize(("fault", "stream"), PASSING.values(), ids=PASSING)
def test_a_fault_that_passes_loses_no_task_and_charges_nobody(tmp_path, fault, stream):
    tally, episodes, lines = run(tmp_path, [fault], stream=stream)
    assert tally.stops == {"answered": 8}
    assert tally.missing == 0
    attempts = [a for e in episodes for turn in e.turns for a in turn.reply.attempts]
    assert len(attempts) == 1, "the fault is on record, once"
    assert {turn.reading.outcome for e in episodes for turn in e.turns} <= {"call", "answer"}
    assert not any(line["score"].get("first_failures") for line in lines)


@pytest.mark.parametrize("name", ["mistral", "gemini", "llamacpp"])
def test_a_streamed_run_is_asked_in_the_profiles_form(tmp_path, name):
    tally, _, _ = run(tmp_path, [], stream=True, name=name)
    assert tally.stops == {"answered": 8}


def test_a_stream_without_done_is_whole_if_it_has_its_finish(tmp_path):
    tally, episodes, _ = run(tmp_path, [{"fault": "no_done"}], stream=True)
    assert tally.stops == {"answered": 8}
    assert not [a for e in episodes for turn in e.turns for a in turn.reply.attempts]


def test_a_hang_is_a_time_out_that_is_tried_again(tmp_path):
    tally, episodes, _ = run(tmp_path, [{"fault": "hang"}], timeout=1.5)
    assert tally.stops == {"answered": 8}
    (attempt,) = [a for e in episodes for turn in e.turns for a in turn.reply.attempts]
    assert (attempt.kind, attempt.status) == ("endpoint_error", 0)


STAYING = {
    "429": ({"fault": "rate_limit", "times": 3}, "rate_limited"),
    "500": ({"fault": "server_error", "times": 3}, "endpoint_error"),
    "502 with HTML": ({"fault": "bad_gateway", "times": 3}, "endpoint_error"),
    "a reset": ({"fault": "reset", "after": 10, "times": 3}, "endpoint_error"),
    "no credit": ({"fault": "no_credit"}, "rate_limited"),
    "a set-up fault": ({"fault": "no_tool_support"}, "request_rejected"),
}


@pytest.mark.parametrize(("fault", "kind"), STAYING.values(), ids=STAYING)
def test_a_fault_that_stays_is_the_endpoints_and_is_counted_apart(tmp_path, fault, kind):
    tally, episodes, lines = run(tmp_path, [fault])
    assert tally.stops == {"endpoint": 1, "answered": 7}
    assert tally.missing == 1
    assert not any(line["score"].get("first_failures") for line in lines)
    (failed,) = [episode for episode in episodes if episode.stop == "endpoint"]
    assert failed.turns[-1].reading.failure.kind == kind


def test_a_wait_beyond_the_patience_is_not_begun(tmp_path):
    fault = {"fault": "rate_limit", "retry_after": "seconds", "wait": 600}
    tally, _, _ = run(tmp_path, [fault])
    assert tally.stops == {"endpoint": 1, "answered": 7}


# ---------------------------------------------------------------- profiles

NINE = load_tasks()[::30][:9]
"""One fewer than so many refusals in a row as end a run."""
MISFITS = {
    "reasoning is not sent back": ("deepseek-thinking", "groq", "reasoning"),
    "tool messages have no name": ("gemini", "openai", "pairing"),
    "ids have another form": ("mistral", "openai", "setting"),
    "content is null": ("ollama", "openai", "content"),
}


async def run_nine(endpoint, profile, folder):
    client = OpenAIClient(
        "here",
        "m",
        base_url=endpoint.base_url,
        api_key="planted-key",
        patience=QUICK,
        shape=shape_for(PROFILES[profile], "m"),
    )
    try:
        jobs = plan_jobs(NINE, [NativeDriver()], [client])
        return await run_all(jobs, folder, concurrency=4, settings={"temperature": 0, "seed": 1})
    finally:
        await client.close()


@pytest.mark.parametrize(("name", "profile", "detail"), MISFITS.values(), ids=MISFITS)
def test_a_profile_that_does_not_fit_is_the_requests_fault_never_the_models(
    tmp_path, name, profile, detail
):
    folder = RunFolder.create(tmp_path, "t", {"format": 1})
    with StrictEndpoint(name) as endpoint:
        asyncio.run(run_nine(endpoint, profile, folder))
    folder.close()
    ends = Counter()
    for episode in folder.episodes():
        failure = episode.turns[-1].reading.failure
        ends[episode.stop, failure and failure.kind, failure and failure.detail] += 1
    assert ends == {("endpoint", "request_rejected", detail): 9}
