"""One episode, with both drivers: the same script of moves must take the same course."""

import asyncio
import json
from dataclasses import replace

import pytest

from bench.clients import ScriptedClient, reply_with
from bench.loop import solve
from bench.tools import leave_for, toolbox_from
from bench.types import Budget, Reply

BEIJING = ("get_weather", {"city": "Beijing"})
PARIS = ("get_weather", {"city": "Paris"})
SUM = ("add", {"a": 1, "b": 2})


@pytest.fixture
def run(way, task, toolbox):
    """Solve the task with a script of replies; give the episode and the client."""

    def go(*script, **options):
        client = ScriptedClient(list(script))
        box = options.pop("toolbox", toolbox)
        episode = asyncio.run(solve(task, box, way.driver, client, **options))
        return episode, client

    return go


def contents(episode):
    return [json.loads(result.content) for turn in episode.turns for result in turn.results]


def test_a_call_and_then_an_answer(run, way):
    episode, client = run(way.calls(BEIJING), way.answer("25 degrees"))
    assert episode.stop == "answered"
    assert episode.turns[-1].reading.final == "25 degrees"
    assert contents(episode) == [{"city": "Beijing", "celsius": 25}]
    assert '"celsius": 25' in client.requests[1].messages[-1]["content"]


def test_an_answer_at_once(run, way):
    episode, _ = run(way.answer("I am a model."))
    assert (episode.stop, len(episode.turns)) == ("answered", 1)


def test_several_calls_run_at_once_and_answer_in_order(run, way):
    started = []

    async def get_weather(city: str) -> dict:
        """Tell the weather.

        Args:
            city: The city.
        """
        started.append(city)
        await asyncio.sleep(0.2 if city == "Beijing" else 0.0)
        return {"city": city, "running": len(started)}

    box = toolbox_from([get_weather])
    episode, _ = run(way.calls(BEIJING, PARIS), way.answer("done"), toolbox=box)
    assert [result["city"] for result in contents(episode)] == ["Beijing", "Paris"]
    assert contents(episode)[0]["running"] == 2


def test_the_answer_says_which_result_is_which(run, way):
    _, client = run(way.calls(BEIJING, SUM), way.answer("done"))
    added = client.requests[1].messages[3:]
    text = json.dumps(added)
    assert text.index("celsius") < text.index("sum")
    if way.driver.name == "native":
        assert [message["tool_call_id"] for message in added] == ["c0", "c1"]
    else:
        (message,) = added
        assert "action 1, get_weather" in message["content"]
        assert "action 2, add" in message["content"]


def test_an_unreadable_reply_is_corrected(run, way):
    episode, client = run(way.unreadable(), way.calls(BEIJING), way.answer("25"))
    assert episode.stop == "answered"
    assert [turn.corrects for turn in episode.turns] == [False, True, False]
    assert episode.turns[0].reading.outcome == "malformed"
    history = json.dumps(client.requests[1].messages)
    assert "one and two" in history or "add" in history  # the failed reply stays


def test_two_corrections_and_no_more(run, way):
    episode, client = run(*[way.unreadable()] * 5)
    assert episode.stop == "malformed"
    assert len(client.requests) == 3


def test_corrections_count_over_the_episode(run, way):
    script = [way.unreadable(), way.calls(BEIJING), way.unreadable(), way.calls(SUM)]
    episode, _ = run(*script, way.unreadable())
    assert episode.stop == "malformed"
    assert len(episode.turns) == 5


def test_no_corrections_if_so_chosen(run, way):
    episode, _ = run(way.unreadable(), budget=Budget(corrections=0))
    assert (episode.stop, len(episode.turns)) == ("malformed", 1)


def test_an_invented_tool_is_corrected(run, way):
    episode, _ = run(way.unknown_tool(), way.answer("25"))
    assert episode.turns[0].reading.failure.kind == "unknown_tool"
    assert episode.stop == "answered"


def test_a_tool_error_goes_back_to_the_model(run, way):
    episode, client = run(way.calls(("get_weather", {"city": "Atlantis"})), way.answer("unknown"))
    assert episode.turns[0].results[0].error
    assert "unknown city" in client.requests[1].messages[-1]["content"]
    assert episode.stop == "answered"


def test_arguments_that_the_schema_refuses_are_corrected(run, way):
    episode, _ = run(way.calls(("add", {"a": "one", "b": 2})), way.answer("3"))
    assert episode.turns[0].reading.failure.kind == "schema_violation"


def test_the_step_budget_ends_an_episode(run, way):
    script = [way.calls(("add", {"a": n, "b": 1})) for n in range(9)]
    episode, client = run(*script)
    assert (episode.stop, len(client.requests)) == ("step_limit", 8)


def test_the_same_call_three_times_in_a_row_is_no_progress(run, way):
    episode, _ = run(*[way.calls(BEIJING)] * 5)
    assert (episode.stop, len(episode.turns)) == ("no_progress", 3)


def test_another_call_in_between_is_progress(run, way):
    script = [BEIJING, BEIJING, SUM, BEIJING, BEIJING]
    episode, _ = run(*map(way.calls, script), way.answer("25"))
    assert episode.stop == "answered"


def test_the_same_call_with_other_arguments_is_progress(run, way):
    script = [("add", {"a": n, "b": 1}) for n in range(5)]
    episode, _ = run(*map(way.calls, script), way.answer("25"))
    assert episode.stop == "answered"


ENDINGS = {
    "a fault that stays": (Reply(500, {}, '{"error": {"message": "boom"}}'), "endpoint"),
    "a request that is refused": (Reply(400, {}, '{"error": {"message": "bad"}}'), "endpoint"),
    "no answer": (Reply(0, {}, "connection: refused"), "endpoint"),
    "a prompt too long": (
        Reply(400, {}, '{"error": {"code": "context_length_exceeded", "message": "x"}}'),
        "context_overflow",
    ),
    "a filter": (reply_with("I", finish_reason="content_filter"), "refused"),
    "a request that was not recorded": (None, "left_recording"),
}


@pytest.mark.parametrize(("reply", "stop"), ENDINGS.values(), ids=ENDINGS)
def test_what_is_not_the_models_move_ends_the_episode(run, way, reply, stop):
    episode, _ = run(way.calls(BEIJING), reply)
    assert episode.stop == stop
    assert len(episode.turns) == (1 if reply is None else 2)


def test_a_server_that_could_not_read_the_move_is_the_models_failure(run, way):
    reply = Reply(500, {}, '{"error": {"message": "Failed to parse input at pos 3"}}')
    episode, client = run(reply, way.answer("25"))
    assert episode.turns[0].reading.failure.kind == "server_rejected_output"
    assert (episode.stop, episode.turns[1].corrects) == ("answered", True)
    assert client.requests[1].messages[-1]["role"] == "user"


def test_an_empty_reply_is_corrected(run, way):
    episode, _ = run("", way.answer("25"))
    assert episode.turns[0].reading.failure.kind == "empty_turn"
    assert episode.stop == "answered"


def test_every_request_holds_the_settings(run, way):
    _, client = run(way.answer("25"), settings={"temperature": 0, "max_tokens": 7, "seed": 3})
    options = client.requests[0].options
    assert {name: options[name] for name in ("temperature", "max_tokens", "seed")} == {
        "temperature": 0,
        "max_tokens": 7,
        "seed": 3,
    }


def test_each_request_extends_the_one_before(run, way):
    _, client = run(way.calls(BEIJING), way.unreadable(), way.answer("25"))
    for before, after in zip(client.requests, client.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages
        assert after.options == before.options


def test_what_was_sent_is_in_the_turns(run, way):
    episode, client = run(way.calls(BEIJING), way.answer("25"))
    sent = [message for turn in episode.turns for message in turn.sent]
    assert tuple(sent) == client.requests[-1].messages


def test_a_call_that_changes_something_needs_leave(run, way):
    sent = []

    def send_note(text: str) -> dict:
        """Send a note.

        Args:
            text: The text.
        """
        sent.append(text)
        return {"sent": True}

    box = toolbox_from([send_note])
    box = replace(box, entries=tuple(replace(entry, changes=True) for entry in box.entries))
    script = (way.calls(("send_note", {"text": "x"})), way.answer("done"))
    refused, _ = run(*script, toolbox=box)
    assert (sent, refused.turns[0].results[0].error) == ([], True)
    allowed, _ = run(*script, toolbox=box, leave=leave_for(["send_note"]))
    assert (sent, allowed.turns[0].results[0].leave) == (["x"], "flag")


def test_the_episode_names_its_task_its_arm_and_its_model(run, way, task):
    episode, client = run(way.answer("25"), variant="name", trial=2)
    assert (episode.task_id, episode.pair, episode.lang) == (task.id, task.pair, task.lang)
    assert (episode.driver, episode.level) == (way.driver.name, "hardened")
    assert (episode.endpoint, episode.model) == (client.name, client.model)
    assert (episode.variant, episode.trial) == ("name", 2)


def test_what_json_cannot_carry_is_not_sent(run, way):
    _, client = run(way.calls(("get_weather", {"city": "\ud83d\0"})), way.answer("25"))
    text = json.dumps(client.requests[1].messages, ensure_ascii=False)
    assert "\0" not in text
    text.encode()


def test_good_calls_run_beside_an_unreadable_one(task, toolbox):
    from bench.drivers import NativeDriver

    def entry(name, arguments):
        function = {"name": "get_weather", "arguments": arguments}
        return {"id": name, "type": "function", "function": function}

    calls = [entry("a", '{"city": "Beijing"}'), entry("b", "Paris {"), entry("c", '{"city": "X"}')]
    script = [{"content": None, "tool_calls": calls}, "done"]
    client = ScriptedClient(script)
    episode = asyncio.run(solve(task, toolbox, NativeDriver(), client))
    assert [result.error for result in episode.turns[0].results] == [False, True, False]
    echo, *answers = client.requests[1].messages[2:]
    assert [call["function"]["arguments"] for call in echo["tool_calls"]] == [
        '{"city": "Beijing"}',
        "{}",
        '{"city": "X"}',
    ]
    assert [answer["tool_call_id"] for answer in answers] == ["a", "b", "c"]
    assert "not valid JSON" in answers[1]["content"]
    assert not episode.turns[1].corrects
