"""Profiles: chosen by host or name, read strictly, and applied without weakening a request."""

import json
from pathlib import Path

import pytest

from bench.choice import Choice, find_endpoints, profile_of
from bench.profiles import (
    FILE,
    adapt,
    adapt_history,
    adapt_options,
    find_usage,
    left_out,
    load_profile,
    load_profiles,
    make_id,
    profile_for,
    profile_record,
    resolve_base_url,
    shape_for,
)
from bench.types import Request, StepKey, Usage, WorkbenchError

PROFILES = load_profiles()
WANTED = [
    "generic",
    "strict",
    "openai",
    "deepseek-thinking",
    "deepseek-chat",
    "kimi",
    "glm",
    "dashscope",
    "mistral",
    "gemini",
    "groq",
    "openrouter",
    "vllm",
    "sglang",
    "llamacpp",
    "ollama",
    "lmstudio",
]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {}}}


def call(identity="call_1", arguments="{}", **extra):
    function = {"name": "get_weather", "arguments": arguments}
    return {"id": identity, "type": "function", "function": function, **extra}


def history(identity="call_1", **assistant):
    return (
        {"role": "user", "content": "How is it in Oslo?"},
        {"role": "assistant", "content": None, "tool_calls": [call(identity)], **assistant},
        {"role": "tool", "tool_call_id": identity, "content": "{}"},
    )


def test_every_endpoint_has_a_profile():
    assert list(PROFILES) == WANTED


@pytest.mark.parametrize("name", WANTED)
def test_a_profile_tells_what_it_is_and_can_be_recorded_as_json(name):
    assert PROFILES[name].about.endswith(".")
    assert json.loads(json.dumps(profile_record(PROFILES[name])))["name"] == name


CHOSEN = {
    "openai by its host": ("https://api.openai.com/v1", "gpt-4o", "openai"),
    "azure by the end of its host": ("https://me.openai.azure.com/openai/v1", "x", "openai"),
    "a host that only looks like it": ("https://api.openai.com.evil.example/v1", "x", "generic"),
    "a host with a user name in front": ("https://api.openai.com@evil.example/v1", "x", "generic"),
    "deepseek thinks by default": ("https://api.deepseek.com", "deepseek-v4", "deepseek-thinking"),
    "deepseek's chat model": ("https://api.deepseek.com/v1", "deepseek-chat", "deepseek-chat"),
    "kimi in China": ("https://api.moonshot.cn/v1", "kimi-k2", "kimi"),
    "glm": ("https://open.bigmodel.cn/api/paas/v4", "glm-4.6", "glm"),
    "dashscope abroad": (
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "q",
        "dashscope",
    ),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai/", "g", "gemini"),
    "capitals in a host": ("https://API.Groq.com/openai/v1", "x", "groq"),
    "ollama by its port": ("http://localhost:11434/v1", "qwen3", "ollama"),
    "lm studio by its port": ("http://127.0.0.1:1234/v1", "x", "lmstudio"),
    "ollama by its name": ("ollama", "x", "ollama"),
    "another port": ("http://127.0.0.1:9999/v1", "x", "generic"),
    "no address": (None, None, "generic"),
}


@pytest.mark.parametrize(("base_url", "model", "name"), CHOSEN.values(), ids=CHOSEN)
def test_a_profile_is_chosen_by_host(base_url, model, name):
    assert profile_for(base_url, model=model).name == name


def test_a_name_wins_over_the_host():
    assert profile_for("https://api.openai.com/v1", "mistral").name == "mistral"


def test_an_unknown_name_is_the_users_mistake():
    with pytest.raises(WorkbenchError, match=r"--profile mistrall.*one of.*mistral"):
        profile_for(None, "mistrall")


NAMED = {
    "--base-url ollama": (Choice(model="m", base_url="ollama"), "http://127.0.0.1:11434/v1"),
    "--base-url lmstudio": (Choice(model="m", base_url="lmstudio"), "http://127.0.0.1:1234/v1"),
    "--endpoint NAME=ollama,MODEL": (
        Choice(endpoint=("near=ollama,m",)),
        "http://127.0.0.1:11434/v1",
    ),
}


@pytest.mark.parametrize(("choice", "url"), NAMED.values(), ids=NAMED)
def test_an_endpoint_may_be_named_by_its_server(choice, url):
    (endpoint,) = find_endpoints(choice, {})

    assert endpoint.base_url == url
    assert profile_of(endpoint, choice).name in ("ollama", "lmstudio")


def test_the_environment_may_name_a_server_too():
    environment = {"LLM_BASE_URL": "lmstudio", "LLM_MODEL": "m"}
    (endpoint,) = find_endpoints(Choice(), environment)

    assert endpoint.base_url == "http://127.0.0.1:1234/v1"


def test_a_name_stands_for_an_address():
    assert resolve_base_url("ollama") == "http://127.0.0.1:11434/v1"
    assert resolve_base_url("LMStudio") == "http://127.0.0.1:1234/v1"
    assert resolve_base_url("http://x/v1") == "http://x/v1"
    with pytest.raises(WorkbenchError, match="not an address"):
        resolve_base_url("ollamma")


# ---------------------------------------------------------------- the file

BAD_FILES = {
    "not JSON": ('{\n "like": "vllm",\n oops}', r":3: not JSON"),
    "a list": ("[]", r":1: a profile is a JSON object"),
    "an unknown field": ('{\n "reasonning": "must"}', r":2: .*'reasonning' must be left out"),
    "a value that is none": (
        '{"reasoning": "maybe"}',
        r"'reasoning' must be one of must, must_not",
    ),
    "a boolean as text": ('{\n\n "list_content": "no"}', r":3: .*'list_content' must be true or"),
    "a true number": ('{"limits": {"stop": true}}', r"'stop' must be a whole number"),
    "a broken pattern": ('{"id_form": "("}', r"'id_form' must be a regular expression"),
    "ids that do not fit": ('{"id_form": "x+"}', r"'id_make' must be a template whose ids fit"),
    "an unknown base": ('{"like": "nobody"}', r"'like' must be one of generic"),
    "an unknown choice": ('{"choices": ["any"]}', r"'choices' must be a list of auto"),
    "a list that is none": ('{"hosts": "x"}', r"'hosts' must be a list of texts"),
    "a family without models": ('{"families": [{}]}', r"'models' must be a regular expression"),
    "a range upside down": ('{"limits": {"temperature": [2, 0]}}', r"'temperature' must be a list"),
    "an unknown server field": ('{"server": {"speed": 1}}', r"'speed' must be left out"),
    "a name that is no text": ('{"name": 3}', r"'name' must be a text"),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_profile_file_is_one_clear_line(tmp_path, text, message):
    path = tmp_path / "mine.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(WorkbenchError, match=message) as caught:
        load_profile(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_users_profile_is_like_another_one(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"like": "mistral", "server": {"window": 5}}', encoding="utf-8")
    mine = profile_for(None, str(path))
    assert (mine.name, mine.id_form) == ("mine", PROFILES["mistral"].id_form)
    assert (mine.hosts, mine.server.window, mine.server.errors) == ((), 5, "flat")


def test_a_missing_file_is_named():
    with pytest.raises(WorkbenchError, match=r"nowhere\.json: cannot be read"):
        profile_for(None, "nowhere.json")


def test_the_shipped_file_lies_in_the_package():
    assert FILE.parent == Path(__file__).parents[2] / "bench"


# ---------------------------------------------------------------- the history

REASONING = {"reasoning_content": "Thinking."}
HISTORIES = {
    "reasoning goes back where it must": (
        "deepseek-thinking",
        history(**REASONING),
        lambda m: m[1]["reasoning_content"] == "Thinking.",
    ),
    "reasoning under another name is renamed": (
        "deepseek-thinking",
        history(reasoning="Thinking."),
        lambda m: m[1]["reasoning_content"] == "Thinking." and "reasoning" not in m[1],
    ),
    "reasoning that was lost is not made up": (
        "deepseek-thinking",
        history(),
        lambda m: "reasoning_content" not in m[1],
    ),
    "reasoning stays away where it must not be": (
        "groq",
        history(**REASONING),
        lambda m: "reasoning_content" not in m[1],
    ),
    "reasoning stays as it came where it may": (
        "vllm",
        history(**REASONING),
        lambda m: m[1]["reasoning_content"] == "Thinking.",
    ),
    "null beside calls becomes empty": ("ollama", history(), lambda m: m[1]["content"] == ""),
    "empty beside calls becomes null": (
        "strict",
        history(content=""),
        lambda m: m[1]["content"] is None,
    ),
    "text beside calls stays": (
        "ollama",
        history(content="I look."),
        lambda m: m[1]["content"] == "I look.",
    ),
    "an answer without text is empty, not null": (
        "openai",
        ({"role": "assistant", "content": None},),
        lambda m: m[0]["content"] == "",
    ),
    "an empty list of calls is left out": (
        "openai",
        ({"role": "assistant", "content": "x", "tool_calls": []},),
        lambda m: "tool_calls" not in m[0],
    ),
    "text parts are joined": (
        "deepseek-chat",
        (
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
        ),
        lambda m: m[0]["content"] == "ab",
    ),
    "other parts are the endpoint's to refuse": (
        "deepseek-chat",
        ({"role": "user", "content": [{"type": "image_url"}]},),
        lambda m: isinstance(m[0]["content"], list),
    ),
    "a tool message gets its tool's name": (
        "gemini",
        history(),
        lambda m: m[2]["name"] == "get_weather",
    ),
    "a tool message loses its name": (
        "strict",
        ({"role": "tool", "tool_call_id": "a", "name": "x", "content": ""},),
        lambda m: "name" not in m[0],
    ),
    "an id that fits stays": (
        "mistral",
        history("Ab3dE6gH9"),
        lambda m: m[1]["tool_calls"][0]["id"] == m[2]["tool_call_id"] == "Ab3dE6gH9",
    ),
    "an id that does not fit is renamed on both sides": (
        "mistral",
        history("call_1"),
        lambda m: (
            m[1]["tool_calls"][0]["id"] == m[2]["tool_call_id"] and len(m[2]["tool_call_id"]) == 9
        ),
    ),
    "kimi's ids name the tool and count": (
        "kimi",
        history("call_1"),
        lambda m: m[2]["tool_call_id"] == "functions.get_weather:0",
    ),
    "kimi's own ids are counted too": (
        "kimi",
        (*history("functions.get_weather:0"), *history("call_2")),
        lambda m: m[5]["tool_call_id"] == "functions.get_weather:1",
    ),
    "a result's wrong id stays wrong": (
        "mistral",
        (*history("call_1")[:2], {"role": "tool", "tool_call_id": "call_2", "content": ""}),
        lambda m: m[1]["tool_calls"][0]["id"] != m[2]["tool_call_id"],
    ),
    "unknown fields of a call are kept": (
        "gemini",
        ({"role": "assistant", "tool_calls": [call(extra_content={"google": {"x": 1}})]},),
        lambda m: m[0]["tool_calls"][0]["extra_content"] == {"google": {"x": 1}},
    ),
    "a call without id stays without": (
        "mistral",
        ({"role": "assistant", "tool_calls": [{"function": {"name": "x"}}]},),
        lambda m: "id" not in m[0]["tool_calls"][0],
    ),
    "a call that is no object stays": (
        "mistral",
        ({"role": "assistant", "tool_calls": [None]},),
        lambda m: m[0]["tool_calls"] == [None],
    ),
}


@pytest.mark.parametrize(("name", "messages", "holds"), HISTORIES.values(), ids=HISTORIES)
def test_the_history_takes_the_endpoints_form(name, messages, holds):
    before = json.dumps(messages)
    adapted = adapt_history(messages, PROFILES[name])
    assert holds(adapted), adapted
    assert json.dumps(messages) == before
    assert adapt_history(adapted, PROFILES[name]) == adapted


@pytest.mark.parametrize("name", WANTED)
def test_ids_that_a_profile_makes_fit_and_differ(name):
    profile = PROFILES[name]
    made = [make_id(profile, str(number), "get_weather", number) for number in range(50)]
    assert len(set(made)) == 50
    fitting = adapt_history([{"role": "tool", "tool_call_id": one} for one in made], profile)
    assert [message["tool_call_id"] for message in fitting] == made


# ---------------------------------------------------------------- the options

OPTIONS = {
    "the token limit has its family's name": (
        "openai",
        "gpt-5-mini",
        {"max_tokens": 9},
        {"max_completion_tokens": 9},
    ),
    "the token limit of others": ("mistral", "m", {"max_completion_tokens": 9}, {"max_tokens": 9}),
    "a reasoning family takes no temperature and no stop words": (
        "openai",
        "o3",
        {"temperature": 0, "seed": 1, "stop": ["Observation:"]},
        {"seed": 1},
    ),
    "a family's name stands after the slash": (
        "openrouter",
        "openai/gpt-5",
        {"temperature": 0},
        {},
    ),
    "a chat model of that family takes it": (
        "openai",
        "gpt-5-chat-latest",
        {"temperature": 0},
        {"temperature": 0},
    ),
    "kimi's new models fix it": ("kimi", "kimi-k2.5", {"temperature": 0}, {}),
    "kimi's older ones take it": ("kimi", "kimi-k2-0905", {"temperature": 0}, {"temperature": 0}),
    "too high a temperature stays: the refusal is the finding": (
        "kimi",
        "kimi-k2-0905",
        {"temperature": 2},
        {"temperature": 2},
    ),
    "the seed has another name": ("mistral", "m", {"seed": 7}, {"random_seed": 7}),
    "too many stop words are cut": (
        "openai",
        "gpt-4o",
        {"stop": list("abcdef")},
        {"stop": list("abcd")},
    ),
    "one stop word stays a text": ("openai", "gpt-4o", {"stop": "a"}, {"stop": "a"}),
    "no tools, no tool_choice": (
        "openai",
        "m",
        {"tools": [], "tool_choice": "auto", "parallel_tool_calls": False},
        {},
    ),
    "tool_choice is always sent": (
        "vllm",
        "m",
        {"tools": [TOOL]},
        {"tools": [TOOL], "tool_choice": "auto"},
    ),
    "a tool_choice that is refused is sent": (
        "glm",
        "m",
        {"tools": [TOOL], "tool_choice": "required"},
        {"tools": [TOOL], "tool_choice": "required"},
    ),
    "a wish for one call at a time is sent, taken or not": (
        "ollama",
        "m",
        {"tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": False},
        {"tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": False},
    ),
    "a stream asks for its usage": (
        "openai",
        "m",
        {"stream": True},
        {"stream": True, "stream_options": {"include_usage": True}},
    ),
    "but not where that is unknown": (
        "mistral",
        "m",
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True},
    ),
    "thinking is switched off": ("deepseek-chat", "m", {}, {"thinking": {"type": "disabled"}}),
    "unless the user says otherwise": (
        "deepseek-chat",
        "m",
        {"thinking": {"type": "enabled"}},
        {"thinking": {"type": "enabled"}},
    ),
    "what is no sampling setting passes": (
        "deepseek-thinking",
        "m",
        {"reasoning_effort": "low", "x": 1},
        {"reasoning_effort": "low", "x": 1},
    ),
}


@pytest.mark.parametrize(("name", "model", "options", "wanted"), OPTIONS.values(), ids=OPTIONS)
def test_the_options_take_the_familys_form(name, model, options, wanted):
    before = json.dumps(options)
    assert adapt_options(options, PROFILES[name], model) == wanted
    assert json.dumps(options) == before


def test_what_is_left_out_is_named():
    options = {"temperature": 0, "seed": 1, "stop": ["x"], "max_tokens": 5, "tools": [TOOL]}
    assert left_out(options, PROFILES["openai"], "o3-mini") == ("temperature", "stop")
    assert left_out(options, PROFILES["mistral"], "mistral-large") == ()


def test_a_whole_request_is_adapted():
    key = StepKey("t", "native", "full", 0, 0)
    request = Request(history(), {"max_tokens": 9, "tools": [TOOL]}, key)
    adapted = adapt(request, PROFILES["mistral"], "mistral-large")
    assert adapted.key == key
    assert (adapted.messages, adapted.options) == shape_for(PROFILES["mistral"], "m")(request)


# ---------------------------------------------------------------- usage

COUNTS = {"prompt_tokens": 10, "completion_tokens": 5}
USAGES = {
    "OpenAI's names": (
        "openai",
        {
            "usage": COUNTS
            | {"prompt_tokens_details": {"cached_tokens": 3}}
            | {"completion_tokens_details": {"reasoning_tokens": 2}}
        },
        Usage(10, 5, 3, 2),
    ),
    "deepseek's cache": (
        "deepseek-chat",
        {"usage": COUNTS | {"prompt_cache_hit_tokens": 4}},
        Usage(10, 5, 4, None),
    ),
    "kimi's place": (
        "kimi",
        {"choices": [{"usage": COUNTS | {"cached_tokens": 1}}]},
        Usage(10, 5, 1, None),
    ),
    "none": ("openai", {"choices": []}, None),
    "null": ("openai", {"usage": None, "choices": [None]}, None),
    "not numbers": (
        "openai",
        {"usage": {"prompt_tokens": "ten", "completion_tokens": True, "prompt_tokens_details": []}},
        Usage(),
    ),
}


@pytest.mark.parametrize(("name", "payload", "wanted"), USAGES.values(), ids=USAGES)
def test_usage_is_found_where_the_endpoint_puts_it(name, payload, wanted):
    assert find_usage(payload, PROFILES[name]) == wanted
