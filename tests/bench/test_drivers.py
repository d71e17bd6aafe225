"""What each driver asks, how it reads, and what it puts into the history."""

import json
from dataclasses import replace

import pytest

from bench.clients import reply_with
from bench.drivers import (
    NativeDriver,
    ReactDriver,
    explain_failure,
    label,
    list_tools,
    make_driver,
    open_reply,
)
from bench.tools import FUNCTIONS, load_tools
from bench.types import Gold, Reply, Task, ToolResult, WorkbenchError
from parsers import DIALECTS, EMISSION_KINDS, Failure, Tool

TASK = Task("t-en", "t", "en", "single", "weather", "How warm?", Gold())
CHINESE = replace(TASK, id="t-zh", lang="zh", question="多少度？")
TOOLS = load_tools("all", "en").tools
WEATHER = Tool(
    "get_weather",
    "Tell the weather.",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The city."}},
        "required": ["city"],
        "additionalProperties": False,
    },
)


def result(content, tool="get_weather", call_id=None):
    return ToolResult(call_id, tool, {}, content)


# ------------------------------------------------------------ asking


@pytest.mark.parametrize("task", [TASK, CHINESE], ids=["en", "zh"])
@pytest.mark.parametrize("driver", [ReactDriver(), NativeDriver()], ids=label)
def test_both_begin_with_the_same_words_and_the_question(task, driver):
    system, question = driver.open(task, TOOLS)
    (neutral, _) = NativeDriver().open(task, TOOLS)
    assert system["content"].startswith(neutral["content"])
    assert question["role"] == "user"
    assert question["content"].removeprefix("Question: ") == task.question


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_react_prompt_names_everything_that_the_schemas_name(dialect, lang):
    tools = load_tools("all", lang).tools
    prompt = ReactDriver(dialect).additions(tools, lang)

    def check(schema):
        for name, part in schema.get("properties", {}).items():
            assert name in prompt
            assert " ".join(part.get("description", "").split()) in prompt
            for value in part.get("enum", ()):
                assert json.dumps(value, ensure_ascii=False) in prompt
            for keyword in ("minimum", "maximum", "default", "pattern", "minItems"):
                if keyword in part:
                    assert f"{keyword} {json.dumps(part[keyword], ensure_ascii=False)}" in prompt
            check(part)
            check(part.get("items", {}))

    for tool in tools:
        assert tool.name in prompt
        assert " ".join(tool.description.split()) in prompt
        check(tool.parameters)


def test_a_tool_list_is_read_like_this():
    nested = {
        "type": "object",
        "properties": {
            "mode": {"enum": ["a", "b"], "description": "Which."},
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"n": {"type": "integer", "minimum": 1}},
                    "required": ["n"],
                },
            },
        },
        "required": ["mode"],
    }
    tools = [WEATHER, Tool("order", "Order\nthings.", nested), Tool("now", "Tell.", {})]
    assert list_tools(tools, "en").splitlines() == [
        "get_weather: Tell the weather.",
        "  - city (string, required): The city.",
        "order: Order things.",
        '  - mode (one of "a" | "b", required): Which.',
        "  - items (list of object, optional)",
        "    - n (integer, required, minimum 1)",
        "now: Tell.",
        "  (no parameters)",
    ]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_example_uses_no_tool_of_a_task_and_reads_as_its_dialect(dialect, lang):
    prompt = ReactDriver(dialect).additions([WEATHER], lang)
    example = prompt[prompt.rindex("Question:") :]
    assert "get_river_length" in example
    assert "get_river_length" not in {function.__name__ for function in FUNCTIONS}
    river = Tool("get_river_length", "", {"properties": {"river": {"type": "string"}}})
    river.parameters["required"] = ["river"]
    first = example[example.index("Thought:") : example.index("\nObservation:")]
    reading = ReactDriver(dialect, "strict").read(reply_with(first), [river])
    assert [call.name for call in reading.calls] == ["get_river_length"]
    last = example[example.rindex("Thought:") :]
    assert "6650" in ReactDriver(dialect, "strict").read(reply_with(last), [river]).final


def test_the_example_can_be_left_out():
    assert "get_river_length" not in ReactDriver(example=False).additions([WEATHER])


def test_stop_words_are_sent_unless_they_are_not_taken():
    assert ReactDriver().options(TOOLS) == {"stop": ["\nObservation:"]}
    assert ReactDriver(stop_words=False).options(TOOLS) == {}


def test_native_sends_tools_and_always_the_choice():
    options = NativeDriver().options([WEATHER])
    assert options == {"tools": [WEATHER.to_openai()], "tool_choice": "auto"}
    assert NativeDriver().options([]) == {}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", sorted(EMISSION_KINDS))
def test_every_kind_of_failure_has_its_words(kind, lang):
    text = explain_failure(Failure(kind, message="At 3."), lang)
    assert len(text) > len("(At 3.)") + 5
    assert "At 3." in text


# ------------------------------------------------------------ history: react


def test_react_sends_the_text_back_and_then_the_observation():
    driver = ReactDriver()
    text = 'Thought: I look.\nAction: get_weather\nAction Input: {"city": "Paris"}'
    reply = reply_with(text)
    reading = driver.read(reply, [WEATHER])
    assert driver.respond(TASK, reply, reading, [result('{"celsius": 3}')]) == (
        {"role": "assistant", "content": text},
        {"role": "user", "content": 'Observation: {"celsius": 3}'},
    )


def test_an_invented_observation_is_not_sent_back():
    driver = ReactDriver(stop_words=False)
    text = 'Action: get_weather\nAction Input: {"city": "Paris"}'
    reply = reply_with(text + "\nObservation: 40 degrees\nFinal Answer: 40")
    reading = driver.read(reply, [WEATHER])
    assert [call.arguments for call in reading.calls] == [{"city": "Paris"}]
    echo, _ = driver.respond(TASK, reply, reading, [result("{}")])
    assert echo["content"] == text


def test_a_reply_that_is_nothing_but_an_invented_observation_goes_back_whole():
    """An empty assistant message is refused by some endpoints, and the correction points at it."""
    driver = ReactDriver(stop_words=False)
    reply = reply_with("Observation: 40 degrees")
    reading = driver.read(reply, [WEATHER])
    echo, _ = driver.respond(TASK, reply, reading, [])
    assert echo["content"] == "Observation: 40 degrees"


@pytest.mark.parametrize(
    ("task", "words"),
    [(TASK, "not valid JSON"), (CHINESE, "不是合法的 JSON")],
    ids=["en", "zh"],
)
def test_a_correction_is_worded_for_its_kind_in_the_tasks_language(task, words):
    driver = ReactDriver()
    reply = reply_with("Thought: x\nAction: get_weather\nAction Input: {Paris:: [}")
    reading = driver.read(reply, [WEATHER])
    assert reading.failure.kind == "bad_arguments_syntax"
    echo, correction = driver.respond(task, reply, reading, [])
    assert echo["role"] == "assistant"
    assert words in correction["content"]


def test_a_native_call_in_a_text_run_is_out_of_channel():
    reply = reply_with(native_message(("c1", "get_weather", '{"city": "Paris"}')))
    reading = ReactDriver().read(reply, [WEATHER])
    assert (reading.failure.kind, reading.failure.detail) == ("out_of_channel_call", "native")
    assert ReactDriver(level="rescue").read(reply, [WEATHER]).good_calls


# ------------------------------------------------------------ history: native


def native_message(*calls, **more):
    entries = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": entries, **more}


NATIVE = NativeDriver()


def native_history(message, *, task=TASK, driver=NATIVE, tools=(WEATHER,)):
    """Read a message, run every call, and give what is added to the history."""
    reply = message if isinstance(message, Reply) else reply_with(message)
    reading = driver.read(reply, tools)
    good = reading.failure is None
    results = [result('{"ok": 1}', c.name, c.id) for c in reading.calls] if good else []
    return driver.respond(task, reply, reading, results)


PARIS = ("c1", "get_weather", '{"city": "Paris"}')


def test_native_sends_the_message_back_unchanged_and_answers_by_id():
    message = native_message(PARIS, reasoning_content="hm")
    message["tool_calls"][0]["extra_content"] = {"signature": "s"}
    echo, answer = native_history(message)
    assert echo == message
    assert answer == {"role": "tool", "tool_call_id": "c1", "content": '{"ok": 1}'}


ECHOES = {
    "arguments with white space stay": ('{ "city":  "Paris" }', '{ "city":  "Paris" }'),
    "arguments that were mended go back mended": ("{'city': 'Paris'}", '{"city": "Paris"}'),
    "unreadable arguments go back as {}": ("Paris {", "{}"),
    "a list goes back as {}": ("[1, 2]", "{}"),
}


@pytest.mark.parametrize(("written", "sent"), ECHOES.values(), ids=ECHOES)
def test_arguments_in_the_history_are_an_object(written, sent):
    echo, answer = native_history(native_message(("c1", "get_weather", written)))
    assert echo["tool_calls"][0]["function"]["arguments"] == sent
    assert answer["tool_call_id"] == "c1"
    json.loads(answer["content"])


def test_arguments_that_came_as_an_object_go_back_as_text():
    message = native_message(PARIS)
    message["tool_calls"][0]["function"]["arguments"] = {"city": "Paris"}
    echo, _ = native_history(message)
    assert json.loads(echo["tool_calls"][0]["function"]["arguments"]) == {"city": "Paris"}


def test_made_and_renamed_ids_are_the_same_in_echo_and_answer():
    london = ("c1", "get_weather", '{"city": "London"}')
    nameless = ("", "get_weather", '{"city": "Rome"}')
    echo, *answers = native_history(native_message(PARIS, london, nameless))
    ids = [call["id"] for call in echo["tool_calls"]]
    assert ids == [answer["tool_call_id"] for answer in answers]
    assert len(set(ids)) == 3
    assert all(ids)


def test_a_name_that_no_endpoint_takes_goes_back_as_it_was_read():
    echo, _ = native_history(native_message(("c1", "functions.get_weather:0", '{"city": "x"}')))
    assert echo["tool_calls"][0]["function"]["name"] == "get_weather"


def test_an_unknown_tool_is_answered_by_its_id():
    echo, answer = native_history(native_message(("c1", "no such tool", "{}")))
    assert echo["tool_calls"][0]["function"]["name"] == "no_such_tool"
    assert answer["tool_call_id"] == "c1"
    assert "that you don't have" in answer["content"]


def test_a_reply_that_is_asked_for_again_stays_as_it_came():
    entry = {"function": {"name": "get_weather", "arguments": {"city": "Rome"}}}
    reply = reply_with({"content": None, "tool_calls": [entry], "note": ["x"]})
    driver = NativeDriver()
    first = driver.read(reply, (WEATHER,))
    before = json.dumps(open_reply(reply).message)
    driver.respond(TASK, reply, first, (result("{}", call_id=first.calls[0].id),))
    assert json.dumps(open_reply(reply).message) == before
    assert driver.read(replace(reply, seconds=9.0), (WEATHER,)) == first
    assert open_reply(replace(reply, status=500)).failure is not None


def test_an_empty_list_of_calls_is_not_sent_back():
    echo, correction = native_history({"role": "assistant", "content": "", "tool_calls": []})
    assert echo == {"role": "assistant", "content": ""}
    assert correction["role"] == "user"


def test_the_legacy_call_is_answered_as_a_tool_call():
    legacy = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    echo, answer = native_history({"role": "assistant", "content": None, "function_call": legacy})
    assert "function_call" not in echo
    (call,) = echo["tool_calls"]
    assert call["function"] == legacy
    assert answer["tool_call_id"] == call["id"]


LEAK = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def test_a_leaked_call_is_corrected_at_hardened():
    echo, correction = native_history(LEAK)
    assert echo == {"role": "assistant", "content": LEAK}
    assert "function-calling" in correction["content"]


def test_a_leaked_call_is_answered_as_text_at_rescue():
    echo, answer = native_history(LEAK, driver=NativeDriver("rescue"))
    assert echo == {"role": "assistant", "content": LEAK}
    assert answer == {"role": "user", "content": 'Result of get_weather: {"ok": 1}'}


def test_a_stream_goes_back_as_the_message_that_it_was():
    deltas = [
        {"role": "assistant", "content": None},
        {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "get_weather"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Paris"}'}}]},
    ]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    echo, answer = native_history(Reply(200, {"content-type": "text/event-stream"}, body))
    (call,) = echo["tool_calls"]
    assert call["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    assert (call["id"], answer["tool_call_id"]) == ("c1", "c1")
    assert "index" not in call


# ------------------------------------------------------------ names of arms

ARMS = ["react", "native", "react/call", "react/bracket", "native@rescue", "react/call@strict"]


@pytest.mark.parametrize("name", ARMS)
def test_an_arm_has_the_name_that_makes_it(name):
    assert label(make_driver(name)) == name


def test_options_hold_where_the_name_says_nothing():
    driver = make_driver("react", dialect="call", level="rescue", example=False)
    assert driver == ReactDriver("call", "rescue", example=False)
    assert make_driver("react/json@strict", dialect="call", level="rescue").level == "strict"
    assert label(make_driver("native", dialect="call")) == "native"


UNKNOWN = {"a driver": "agent", "a dialect": "react/xml", "a level": "react@soft", "junk": "a b@"}


@pytest.mark.parametrize("name", UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_arm_is_told_with_the_known_ones(name):
    with pytest.raises(WorkbenchError, match="known: "):
        make_driver(name)
