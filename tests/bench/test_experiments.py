"""Choice, streaming and pairing: what is read from the answers, and the way to a report."""

import asyncio
import json

import pytest

from bench import streaming, tool_choice
from bench.__main__ import main
from bench.clients import OpenAIClient, ScriptedClient, reply_with
from bench.endpoint import StrictEndpoint
from bench.profiles import load_profiles, shape_for
from bench.records import RunFolder, json_lines, list_runs
from bench.status import INCOMPLETE, MISTAKE, OK
from bench.types import Reply

PROFILES = load_profiles()
SETTINGS = {"temperature": 0, "max_tokens": 64}


def over_http(run, name, script=None, **options):
    """Run an experiment against a strict endpoint."""

    async def go(endpoint):
        client = OpenAIClient(
            name,
            "m",
            base_url=endpoint.base_url,
            api_key="planted-key",
            shape=shape_for(PROFILES[name], "m"),
        )
        try:
            return await run(client, count=2, settings=SETTINGS, **options)
        finally:
            await client.close()

    with StrictEndpoint(name, script) as endpoint:
        return asyncio.run(go(endpoint))


# ---------------------------------------------------------------- tool_choice


def in_words(body, _number):
    """Play a model that calls only if it must, and then what it must."""
    return {"text": "I know that."} if body.get("tool_choice") == "auto" else None


def twice(body, _number):
    """Play a model that always makes two calls, whatever is said of parallel ones."""
    if "parallel_tool_calls" not in body:
        return None
    name = body["tools"][0]["function"]["name"]
    return {"tool_calls": [{"name": name, "arguments": {}}] * 2}


def obedient(body, number):
    """Play the same model where it heeds `parallel_tool_calls`."""
    if body.get("parallel_tool_calls") is False:
        return {"tool_calls": twice(body, number)["tool_calls"][:1]}
    return twice(body, number)


VERDICTS = {
    "none and named, honoured": ("openai", None, {"none": "honoured", "named": "honoured"}),
    "a name, ignored": ("llamacpp", None, {"none": "honoured", "named": "ignored"}),
    "none, ignored": ("ollama", None, {"none": "ignored", "named": "ignored"}),
    "all but auto, refused": (
        "glm",
        None,
        {"auto": "taken", "none": "refused", "named": "refused", "required": "refused"},
    ),
    "what the model does of itself": ("openai", None, {"required": "can't tell"}),
    "required, honoured": ("openai", in_words, {"required": "honoured", "none": "can't tell"}),
    "parallel off, ignored": ("openai", twice, {"parallel off": "ignored"}),
    "parallel off, honoured": ("openai", obedient, {"parallel off": "honoured"}),
    "parallel off, nothing to see": ("openai", None, {"parallel off": "can't tell"}),
}


@pytest.mark.parametrize(("name", "script", "wanted"), VERDICTS.values(), ids=VERDICTS)
def test_a_setting_is_honoured_ignored_or_refused(name, script, wanted):
    rows = tool_choice.sum_up(over_http(tool_choice.run_choice, name, script))
    assert wanted.items() <= {row.setting: row.verdict for row in rows}.items()
    assert {row.trials for row in rows} == {2}


def test_a_call_in_the_text_is_no_call_but_counted():
    text = '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'
    trials = asyncio.run(
        tool_choice.run_choice(ScriptedClient(lambda _: text), count=1, settings=SETTINGS)
    )
    rows = {row.setting: row for row in tool_choice.sum_up(trials)}
    assert (rows["auto"].called, rows["auto"].in_text) == (0, 1)
    assert rows["required"].verdict == "ignored"


def test_the_tool_named_is_one_that_the_question_does_not_need():
    for task in tool_choice.pick_tasks("single", 20):
        tools = tool_choice.bundled_toolbox(task, "full").tools
        needed = {call.tool for call in (*task.gold.calls, *task.gold.also)}
        assert tool_choice.other_tool(task, tools) not in needed


def test_the_default_asks_twenty_questions_of_each_kind_with_the_same_tools_in_a_row():
    for setting in tool_choice.SETTINGS.values():
        tasks = tool_choice.pick_tasks(setting.category, tool_choice.COUNT)
        toolsets = [task.toolset for task in tasks]
        assert len(tasks) == 20
        assert toolsets == sorted(toolsets)


# ---------------------------------------------------------------- streaming

PLAIN = reply_with("It is cold.")
OUGHT = {
    "the same": (PLAIN, ()),
    "another text": (reply_with("It is warm."), ("text",)),
    "a call": (
        reply_with(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
            }
        ),
        ("text", "calls", "finish"),
    ),
    "another finish": (reply_with("It is cold.", finish_reason="length"), ("finish",)),
}


@pytest.mark.parametrize(("reply", "differs"), OUGHT.values(), ids=OUGHT)
def test_two_answers_are_compared_part_by_part(reply, differs):
    trial = streaming.read_trial("t", "streamed", reply, PLAIN, ())
    assert (trial.compared, trial.differs) == (True, differs)


def test_white_space_and_ids_make_no_difference():
    def reply(identity, arguments):
        call = {"id": identity, "function": {"name": "f", "arguments": arguments}}
        return reply_with({"role": "assistant", "content": None, "tool_calls": [call]})

    parts = [
        streaming.read_parts(reply("a", '{"x":1}')),
        streaming.read_parts(reply("b", '{"x": 1}')),
    ]
    assert parts[0] == parts[1]


@pytest.mark.parametrize("name", ["openai", "mistral", "llamacpp", "gemini"])
def test_a_streamed_answer_is_the_plain_one(name):
    trials = over_http(streaming.run_streaming, name)
    plain, streamed, again = streaming.sum_up(trials)
    assert [row.answered for row in (plain, streamed, again)] == [2, 2, 2]
    assert (streamed.equal, streamed.compared) == (again.equal, again.compared) == (2, 2)
    assert (plain.first_token, again.first_token) == (None, None)
    assert 0 < streamed.first_token <= streamed.seconds


def test_a_stream_that_says_something_else_is_seen():
    def script(body, _number):
        return {"text": "Let me see."} if body.get("stream") else None

    _, streamed, again = streaming.sum_up(over_http(streaming.run_streaming, "openai", script))
    assert (streamed.equal, again.equal) == (0, 2)
    assert {"calls", "text", "finish"} <= set(streamed.parts)


def test_a_failure_is_compared_with_nothing():
    trial = streaming.read_trial("t", "streamed", Reply(502, {}, "<html>"), PLAIN, ())
    assert (trial.outcome, trial.compared) == ("failed", False)


def test_the_order_turns_with_the_question():
    client = ScriptedClient(lambda _: "It is cold.")
    asyncio.run(streaming.run_streaming(client, count=3, settings=SETTINGS))
    firsts = [client.requests[at] for at in (0, 3, 6)]
    ways = [(r.options.get("stream", False), r.key.trial) for r in firsts]
    assert ways == [(False, 0), (True, 0), (False, 1)]


# ---------------------------------------------------------------- the commands


@pytest.fixture
def bench(tmp_path, capsys):
    """Run an experiment's command on few questions."""

    def go(*words):
        status = main([*words, "--count", "2", "--results", str(tmp_path / "runs")])
        out, err = capsys.readouterr()
        return status, out, err

    return go


def the_run(tmp_path):
    return RunFolder(list_runs(tmp_path / "runs")[-1])


ANSWERS = {
    "pairing": ("refuses changed_id", "Do calls and results have to belong together?"),
    "choice": ("none honoured", "Is tool_choice honoured?"),
    "streaming": ("streamed equals plain in 2 of 2", "Is a streamed answer the plain one?"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_live_run_is_recorded_and_replayed_with_the_same_report(bench, tmp_path, name):
    said, title = ANSWERS[name]
    file = tmp_path / "r.jsonl.gz"
    with StrictEndpoint("openai") as endpoint:
        here = ("--model", "m", "--base-url", endpoint.base_url, "--profile", "openai", "--yes")
        status, out, _ = bench(name, *here, "--record", str(file), "--note", "server=a script")
        asked = len(endpoint.requests)
        assert bench(name, *here, "--record", str(file))[0] == OK
        assert len(endpoint.requests) == asked + 1, "only the first question is asked again"
    assert status == OK
    assert said in out
    live = the_run(tmp_path)
    status, replayed, _ = bench(name, "--replay", str(file))
    assert status == OK
    assert replayed.splitlines()[0] == out.splitlines()[0]
    folder = the_run(tmp_path)
    lines = [list(json_lines(run.path / "trials.jsonl")) for run in (live, folder)]
    assert lines[0] == lines[1]
    assert title in (folder.path / "report.md").read_text()
    assert title in (folder.path / "report.html").read_text()
    assert folder.manifest["endpoints"][0]["recorded"]["notes"] == {"server": "a script"}


@pytest.mark.parametrize("name", ANSWERS)
def test_in_chinese_no_sentence_is_left_in_english(bench, tmp_path, english_left, name):
    with StrictEndpoint("openai") as endpoint:
        here = ("--model", "m", "--base-url", endpoint.base_url, "--profile", "openai", "--yes")
        assert bench(name, *here, "--report-lang", "zh")[0] == OK
    folder = the_run(tmp_path)
    trials = [line.get("said", "") for line in json_lines(folder.path / "trials.jsonl")]
    text = (folder.path / "report.md").read_text(encoding="utf-8")
    assert "\n## 意味着什么\n" in text
    assert english_left(text, folder.manifest, trials) == []


def test_a_report_is_written_again(bench, tmp_path, capsys):
    assert bench("pairing", "--profile", "mistral")[0] == OK
    report = the_run(tmp_path).path / "report.md"
    before = report.read_bytes()
    report.unlink()
    assert main(["report", "latest", "--results", str(tmp_path / "runs")]) == OK
    assert str(report) in capsys.readouterr().out
    assert report.read_bytes() == before


def test_pairing_goes_through_the_strict_endpoint_without_a_model(bench, tmp_path):
    status, out, _ = bench("pairing", "--profile", "llamacpp")
    assert status == OK
    assert "accepts without a word" in out
    assert "asks for the same call again in 0 of 2" in out
    manifest = the_run(tmp_path).manifest
    assert (manifest["mode"], manifest["experiment"]) == ("strict", "pairing")
    assert manifest["endpoints"][0]["profile"]["name"] == "llamacpp"


def test_a_run_keeps_its_replies_also_without_a_file_named(bench, tmp_path):
    with StrictEndpoint("mistral") as endpoint:
        here = ("--model", "m", "--base-url", endpoint.base_url, "--yes")
        assert bench("pairing", *here, "--profile", "mistral")[0] == OK
    folder = the_run(tmp_path)
    kept = folder.path / "replies-1.jsonl.gz"
    assert bench("pairing", "--replay", str(kept))[0] == OK
    assert "3230" in (the_run(tmp_path).path / "trials.jsonl").read_text()


def test_what_was_not_recorded_is_told(bench, tmp_path):
    file = tmp_path / "r.jsonl"
    with StrictEndpoint("openai") as endpoint:
        here = ("--model", "m", "--base-url", endpoint.base_url, "--yes")
        bench("streaming", *here, "--record", str(file), "--profile", "openai")
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[:-1]) + "\n")
    status, _, err = bench("streaming", "--replay", str(file))
    assert status == INCOMPLETE
    assert "not recorded" in err


def test_a_recording_of_something_else_is_refused(bench, tmp_path):
    file = tmp_path / "r.jsonl"
    manifest = {"type": "manifest", "format": 1, "endpoint": "e", "model": "m", "settings": {}}
    file.write_text(json.dumps({**manifest, "experiment": "compare"}) + "\n")
    status, _, err = bench("choice", "--replay", str(file))
    assert status == MISTAKE
    assert "records compare, not choice" in err


def test_a_dry_run_asks_nobody(bench, tmp_path):
    status, _, err = bench("pairing", "--profile", "all", "--dry-run")
    assert status == OK
    assert f"{18 * len(PROFILES)} requests" in err
    assert not (tmp_path / "runs").exists()
