import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.names import NAME_REPAIRS, match_name
from parsers.types import Tool

NAMES = ["get_weather", "get_fx_rate", "search", "search_web", "get_time", "天气查询", "api.v2-x"]
TOOLS = [Tool(name, "", {"type": "object"}) for name in NAMES]

# written, tool, repairs, what follows the name
TEXTS: dict[str, tuple[str, str, set[str], str]] = {
    "exactly": ("get_weather", "get_weather", set(), ""),
    "exactly, with white space": ("  get_weather \t", "get_weather", set(), " \t"),
    "backticks": ("`get_weather`", "get_weather", {"name_decoration"}, ""),
    "bold": ("**get_weather**", "get_weather", {"name_decoration"}, ""),
    "bold and backticks": ("**`search`**", "search", {"name_decoration"}, ""),
    "Chinese quotes": ("「get_weather」", "get_weather", {"name_decoration"}, ""),
    "brackets": ("[get_weather]", "get_weather", {"name_decoration"}, ""),
    "quotes and a full stop": (
        '"get_fx_rate".',
        "get_fx_rate",
        {"name_decoration", "name_remark"},
        ".",
    ),
    "the prefix functions.": ("functions.get_weather", "get_weather", {"name_prefix"}, ""),
    "a glued control token": (
        "get_weather<|channel|>commentary",
        "get_weather",
        {"control_token"},
        "<|channel|>commentary",
    ),
    "empty parentheses": ("get_weather()", "get_weather", set(), "()"),
    "a call form": ('get_weather(city="x")', "get_weather", set(), '(city="x")'),
    "a bracket form": ("search[get_weather docs]", "search", set(), "[get_weather docs]"),
    "an object behind it": ('search {"q": "get_time"}', "search", set(), ' {"q": "get_time"}'),
    "fullwidth parentheses": ("get_weather（上海）", "get_weather", set(), "（上海）"),
    "a list around a call": (
        '[get_weather(city="x")]',
        "get_weather",
        {"name_decoration"},
        '(city="x")]',
    ),
    "a remark": (
        "get_weather - to see the sky",
        "get_weather",
        {"name_remark"},
        " - to see the sky",
    ),
    "a Chinese remark without a space": (
        "get_weather，查询天气",
        "get_weather",
        {"name_remark"},
        "，查询天气",
    ),
    "Title Case": ("Get Fx Rate", "get_fx_rate", {"name_case"}, ""),
    "upper case": ("GET_WEATHER", "get_weather", {"name_case"}, ""),
    "camel case with a call": ('getWeather(city="x")', "get_weather", {"name_case"}, '(city="x")'),
    "Title Case in backticks": (
        "`Get Weather`",
        "get_weather",
        {"name_case", "name_decoration"},
        "",
    ),
    "a verb phrase": ("Use get_weather", "get_weather", {"name_in_phrase"}, ""),
    "a verb phrase with more": (
        "I will call get_weather for Oslo",
        "get_weather",
        {"name_in_phrase"},
        " for Oslo",
    ),
    "a Chinese phrase around it": (
        "使用get_weather查询",
        "get_weather",
        {"name_in_phrase"},
        "查询",
    ),
    "a phrase with backticks": ("Call `search`.", "search", {"name_in_phrase"}, ""),
    "a phrase in upper case": ("call GET_WEATHER now", "get_weather", {"name_in_phrase"}, " now"),
    "a phrase with the prefix": ("Use functions.search", "search", {"name_in_phrase"}, ""),
    "a longer name that begins with another": (
        "Use search_web",
        "search_web",
        {"name_in_phrase"},
        "",
    ),
    "a Chinese name": ("天气查询", "天气查询", set(), ""),
    "a Chinese name in quotes": ("“天气查询”", "天气查询", {"name_decoration"}, ""),
    "a name with a point and a hyphen": ("api.v2-x", "api.v2-x", set(), ""),
}

# written, kind
TEXTS_REFUSED: dict[str, tuple[str, str]] = {
    "nothing": ("", "missing_tool_name"),
    "white space": (" \t ", "missing_tool_name"),
    "quotes around nothing": ('""', "missing_tool_name"),
    "another name": ("fly", "unknown_tool"),
    "a name cut short": ("get_weath", "unknown_tool"),
    "a longer name": ("get_weather_v2", "unknown_tool"),
    "a point and more": ("get_weather.v2", "unknown_tool"),
    "one letter off": ("get_wether", "unknown_tool"),
    "a Chinese name inside a word": ("天气查询工具", "unknown_tool"),
    "two names": ("get_weather and get_fx_rate", "ambiguous_calls"),
    "two names in a phrase": ("First search, then get_time", "ambiguous_calls"),
    "a phrase that says not to": ("Do not use get_weather", "unknown_tool"),
    "a Chinese phrase that says not to": ("无需使用 get_weather", "unknown_tool"),
    "a remark that says not to": ("get_weather is not needed", "unknown_tool"),
    "None": ("None", "unknown_tool"),
    "a name in another's call": ('fly("get_time")', "unknown_tool"),
    "a name in another's brackets": ("fly[get_time]", "unknown_tool"),
    "a name in another's object": ('fly {"to": "get_time"}', "unknown_tool"),
    "a sentence": ("look out of the window", "unknown_tool"),
}

# written, tool, repairs
NATIVE: dict[str, tuple[str, str, set[str]]] = {
    "exactly": ("get_weather", "get_weather", set()),
    "white space": (" get_weather\n", "get_weather", {"name_decoration"}),
    "quotes": ('"get_weather"', "get_weather", {"name_decoration"}),
    "the prefix": ("functions.get_weather", "get_weather", {"name_prefix"}),
    "the prefix and an index": (
        "functions.get_weather:0",
        "get_weather",
        {"name_prefix", "name_index"},
    ),
    "an index": ("get_weather:12", "get_weather", {"name_index"}),
    "a control token": ("get_weather<|channel|>commentary", "get_weather", {"control_token"}),
}
NATIVE_REFUSED: dict[str, tuple[str, str]] = {
    "nothing": ("", "missing_tool_name"),
    "a token alone": ("<|channel|>", "missing_tool_name"),
    "markup": ("get_weather</arg_key>", "unknown_tool"),
    "backticks": ("`get_weather`", "unknown_tool"),
    "a call": ("get_weather()", "unknown_tool"),
    "a phrase": ("use get_weather", "unknown_tool"),
    "a call id": ("call_123", "unknown_tool"),
    "another prefix": ("tools.get_weather", "unknown_tool"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_name_in_a_text(name: str) -> None:
    written, tool, repairs, rest = TEXTS[name]
    reading = match_name(written, TOOLS, where="text")
    assert reading.failure is None
    assert reading.tool is not None
    assert reading.tool.name == tool
    assert {repair.name for repair in reading.repairs} == repairs
    assert repairs <= NAME_REPAIRS.keys()
    assert written[reading.end :] == rest
    strict = match_name(written, TOOLS, where="text", level="strict")
    assert (strict.failure is None) == (not repairs)


@pytest.mark.parametrize("name", TEXTS_REFUSED)
def test_no_name_in_a_text(name: str) -> None:
    written, kind = TEXTS_REFUSED[name]
    for level in ("strict", "hardened"):
        reading = match_name(written, TOOLS, where="text", level=level)  # type: ignore[arg-type]
        assert reading.tool is None
        assert reading.failure is not None
        assert reading.failure.message.endswith(".")
    assert reading.failure is not None
    assert reading.failure.kind == kind


@pytest.mark.parametrize("name", NATIVE)
def test_a_native_name(name: str) -> None:
    written, tool, repairs = NATIVE[name]
    reading = match_name(written, TOOLS, where="native")
    assert reading.tool is not None
    assert reading.tool.name == tool
    assert {repair.name for repair in reading.repairs} == repairs
    strict = match_name(written, TOOLS, where="native", level="strict")
    assert (strict.failure is None) == (not repairs)


@pytest.mark.parametrize("name", NATIVE_REFUSED)
def test_no_native_name(name: str) -> None:
    written, kind = NATIVE_REFUSED[name]
    reading = match_name(written, TOOLS, where="native")
    assert reading.failure is not None
    assert reading.failure.kind == kind


def test_two_names_that_a_text_matches_equally_are_refused() -> None:
    tools = [Tool("get_weather", "", {}), Tool("getWeather", "", {})]
    assert match_name("getWeather", tools, where="text").tool is tools[1]
    reading = match_name("GET-WEATHER", tools, where="text")
    assert reading.failure is not None
    assert reading.failure.kind in ("ambiguous_calls", "unknown_tool")


def test_a_failure_has_the_callers_place() -> None:
    reading = match_name("  fly", TOOLS, where="text", field="content", base=10)
    assert reading.failure is not None
    assert (reading.failure.position, reading.failure.field) == (12, "content")


@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(
            st.sampled_from([*NAMES, " ", "(", "`", ".", "不", "<|", "use ", "İ"]), max_size=6
        ).map("".join),
    )
)
def test_matching_is_total_and_strict_is_part_of_it(written: str) -> None:
    for where in ("text", "native"):
        hardened = match_name(written, TOOLS, where=where)  # type: ignore[arg-type]
        strict = match_name(written, TOOLS, where=where, level="strict")  # type: ignore[arg-type]
        assert (hardened.tool is None) == (hardened.failure is not None)
        assert 0 <= hardened.end <= len(written)
        if strict.tool is not None:
            assert strict.tool is hardened.tool


@pytest.mark.parametrize("unit", ["get_weather", "a ", "`", "(", "İ", "use search "])
def test_a_long_line_ends_soon(unit: str) -> None:
    start = time.process_time()
    match_name(unit * (1_000_000 // len(unit)), TOOLS, where="text")
    match_name(unit * (1_000_000 // len(unit)), TOOLS, where="native")
    assert time.process_time() - start < 1
