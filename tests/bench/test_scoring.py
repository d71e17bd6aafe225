"""The judge and the counts: what is right, what is wrong, and what is never charged."""

import dataclasses
import json

import pytest

from bench import scoring
from bench.clients import reply_with
from bench.drivers import NativeDriver, ReactDriver
from bench.scoring import acceptable, first_move_is_right, judge, numbers, same, says_text, score
from bench.types import (
    AnswerPart,
    Attempt,
    Episode,
    Gold,
    Reply,
    Task,
    ToolResult,
    Turn,
    Usage,
    WantedCall,
    Wording,
)
from parsers import Call, Failure, Reading, Repair, Tool

WEATHER = Tool(
    "get_weather",
    "Weather now.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "days": {"type": "integer"},
            "options": {
                "type": "object",
                "properties": {"wind": {"type": "boolean", "default": False}},
            },
        },
        "required": ["city"],
    },
)
RATE = Tool("exchange_rate", "USD, EUR, JPY to CNY only.", {"type": "object", "properties": {}})
TOOLS = (WEATHER, RATE)


def wanted(city="Beijing", **more):
    return WantedCall("get_weather", {"city": (city, "北京"), **more})


def weather(city="Beijing", **more):
    return Call("get_weather", {"city": city, **more})


def rate(**arguments):
    return Call("exchange_rate", arguments)


def task(gold, question="Is it warm in Beijing?"):
    return Task("t-01-en", "t-01", "en", "single", "city", question, gold)


ONE = Gold(calls=(wanted(),), contains=(AnswerPart(number=25.0),))
TWO = Gold(
    calls=(wanted(), WantedCall("exchange_rate")),
    contains=(AnswerPart(number=25.0), AnswerPart(number=7.16, tolerance=0.005)),
)
NO_TOOL = Gold(contains=(AnswerPart(any=("assistant", "助手")),))
UNSOLVABLE = Gold(unsolvable=True, forbidden=("exchange_rate",))


NUMBERS = {
    "a number ends where its digits end": ("17.165", [17.165]),
    "thousands are joined": ("3,910 CNY and 1,234,567.5", [3910, 1234567.5]),
    "fullwidth digits are digits": ("７．１６ or ３，９１０", [7.16, 3910]),
    "a fullwidth comma between clauses joins nothing": ("汇率为7.16，500 美元", [7.16, 500]),
    "a list is no thousand": ("1,2,3", [1, 2, 3]),
    "LaTeX thousands are joined": ("3{,}910", [3910]),
    "a no-break space joins thousands": ("3\u202f910", [3910]),
    "wan and yi scale": ("1.2万, 3亿", [12000, 3e8]),
    "a kilogram is no thousand": ("5千克", [5]),
    "a share is said by its percentage": ("4.8 %", [4.8, 0.048]),
    "a minus sign, also the typographic one": ("-5, \u22125, 零下5, minus 5", [-5, -5, -5, -5]),
    "a dash between numbers is no minus": ("10-20", [10, 20]),
    "a date holds three numbers": ("2024-05-01", [2024, 5, 1]),
    "a unit may touch": ("7.16CNY ¥7.82", [7.16, 7.82]),
    "a full stop ends a sentence": ("It is 0.048.", [0.048]),
    "powers are read": ("2.5e3", [2500]),
    "a version is no decimal number": ("1.2.3", [1.2, 3]),
}


@pytest.mark.parametrize(("text", "found"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_in_text(text, found):
    assert list(numbers(text)) == pytest.approx(found)


TEXTS = {
    "case and width do not matter": ("It is ＳＵＮＮＹ.", "sunny", True),
    "a digit at the edge is the number's edge": ("room 17.165", "7.16", False),
    "nor may digits follow": ("A1023", "A102", False),
    "a full stop may follow": ("order A102.", "a102", True),
    "Chinese needs no space": ("今天晴。", "晴", True),
    "an empty text is said by nothing": ("anything", " ", False),
    "inner space is compared as it is": ("New  York", "New York", False),
}


@pytest.mark.parametrize(("text", "needle", "found"), TEXTS.values(), ids=TEXTS)
def test_texts_in_text(text, needle, found):
    assert says_text(text, needle) is found


SAME = {
    "one is one point nought": (1, 1.0, True),
    "true is not one": (True, 1, False),
    "false is not nought": (0, False, False),
    "a text of a number is no number": ("1", 1, False),
    "case, width and outer space": (" ＢＥＩＪＩＮＧ ", "beijing", True),
    "inner space counts": ("a b", "a  b", False),
    "lists in order": ([1, 2], [2, 1], False),
    "lists deep": ([{"a": ["X"]}], [{"a": ["x"]}], True),
    "objects by key": ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True),
    "a missing key": ({"a": 1}, {"a": 1, "b": None}, False),
    "null is null": (None, None, True),
    "null is not empty": (None, "", False),
    "great integers exactly": (10**400, 10**400 + 1, False),
    "an integer too great for a float": (10**400, 1.5, False),
    "a wording that fits": ("500*7.82", Wording("7.82 * 500", (("500",), ("7.82",))), True),
    "a wording that lacks a group": (
        "500*7.8",
        Wording("7.82 * 500", (("500",), ("7.82",))),
        False,
    ),
    "a wording deep inside": (
        [{"q": "visa fee"}],
        [{"q": Wording("fee", (("fee", "cost"),))}],
        True,
    ),
    "a wording takes texts only": (500, Wording("500", (("500",),)), False),
}


@pytest.mark.parametrize(("left", "right", "alike"), SAME.values(), ids=SAME)
def test_same_argument(left, right, alike):
    assert same(left, right) is alike


ACCEPTABLE = {
    "any of the values": (wanted(), weather("北京"), True),
    "another value": (wanted(), weather("Shanghai"), False),
    "another tool": (wanted(), rate(city="Beijing"), False),
    "an unnamed parameter at its default": (wanted(), weather(unit="C"), True),
    "an unnamed parameter off its default": (wanted(), weather(unit="F"), False),
    "an unnamed parameter without a default": (wanted(), weather(days=1), False),
    "a named one left out": (wanted(days=(3,)), weather(), False),
    "a named one whose default is acceptable, left out": (wanted(unit=("C",)), weather(), True),
    "a named one whose default is wrong, left out": (wanted(unit=("F",)), weather(), False),
    "an optional one left out": (
        WantedCall("get_weather", {"city": ("Beijing",), "days": (1,)}, frozenset({"days"})),
        weather(),
        True,
    ),
    "an optional one given wrong": (
        WantedCall("get_weather", {"city": ("Beijing",), "days": (1,)}, frozenset({"days"})),
        weather(days=2),
        False,
    ),
    "an inner default may be given": (
        wanted(options=({},)),
        weather(options={"wind": False}),
        True,
    ),
    "an inner default may be left out": (
        wanted(options=({"wind": False},)),
        weather(options={}),
        True,
    ),
    "unreadable arguments": (wanted(), Call("get_weather", None), False),
}


@pytest.mark.parametrize(("want", "call", "right"), ACCEPTABLE.values(), ids=ACCEPTABLE)
def test_acceptable_calls(want, call, right):
    assert acceptable(want, call, TOOLS) is right


def result(call, content='{"t": 25}', *, error=False):
    return ToolResult(call.id, call.name, call.arguments, content, error=error)


VERDICTS = {
    "right call, right answer": (ONE, [weather()], "It is 25°C.", True),
    "right call, wrong answer": (ONE, [weather()], "It is 26°C.", False),
    "right call, no answer": (ONE, [weather()], None, False),
    "right call, empty answer": (ONE, [weather()], "  \n", False),
    "wrong tool, right answer": (ONE, [rate()], "25", False),
    "wrong value, right answer": (ONE, [weather("Shanghai")], "25", False),
    "no call, right answer": (ONE, [], "25", False),
    "a needless call beside the right one": (ONE, [weather(), rate()], "25", True),
    "both of two calls, in any order": (TWO, [rate(), weather()], "25 and 7.16", True),
    "one of two calls": (TWO, [weather()], "25 and 7.16", False),
    "a number inside another": (TWO, [rate(), weather()], "25 and 17.165", False),
    "in order where the order matters": (
        dataclasses.replace(TWO, ordered=True),
        [weather(), rate()],
        "25 and 7.16",
        True,
    ),
    "out of order where it matters": (
        dataclasses.replace(TWO, ordered=True),
        [rate(), weather()],
        "25 and 7.16",
        False,
    ),
    "out of order, then again in order": (
        dataclasses.replace(TWO, ordered=True),
        [rate(), weather(), rate()],
        "25 and 7.16",
        True,
    ),
    "a forbidden call": (
        dataclasses.replace(ONE, forbidden=("exchange_rate",)),
        [weather(), rate()],
        "25",
        False,
    ),
    "an excluded text": (
        dataclasses.replace(ONE, excludes=("rain",)),
        [weather()],
        "25, rain",
        False,
    ),
    "no tool needed, none called": (NO_TOOL, [], "I am an assistant.", True),
    "no tool needed, one called": (NO_TOOL, [weather()], "I am an assistant.", False),
    "no tool needed, no answer": (NO_TOOL, [], "", False),
    "an allowed first try": (
        dataclasses.replace(NO_TOOL, also=(wanted(),)),
        [weather()],
        "I am an assistant.",
        True,
    ),
    "unsolvable, and said so": (UNSOLVABLE, [], "I can't look that up.", True),
    "unsolvable, with the question's figure": (UNSOLVABLE, [], "Not for 25 days.", True),
    "unsolvable, with a rounded figure of a tool": (
        UNSOLVABLE,
        [weather()],
        "Only 25.0 now.",
        True,
    ),
    "unsolvable, with list numbers": (UNSOLVABLE, [], "1. Ask a bank.\n2) Wait.", True),
    "unsolvable, with a figure out of thin air": (UNSOLVABLE, [], "It was 7.05.", False),
    "unsolvable, with a forbidden call": (UNSOLVABLE, [rate()], "I can't.", False),
    "unsolvable, with no answer": (UNSOLVABLE, [], None, False),
}


@pytest.mark.parametrize(("gold", "calls", "final", "success"), VERDICTS.values(), ids=VERDICTS)
def test_success(gold, calls, final, success):
    question = task(gold, "What was it 25 days ago?")
    verdict = judge(question, calls, [result(call) for call in calls], final, tools=TOOLS)
    assert verdict.success is success


def test_a_try_that_could_not_be_read_is_no_abstention():
    final = "I am an assistant."
    assert judge(task(NO_TOOL), [], [], final).success
    assert not judge(task(NO_TOOL), [], [], final, tries=[None]).success
    assert judge(task(UNSOLVABLE), [], [], final, tries=["get_weather"]).success
    assert not judge(task(UNSOLVABLE), [], [], final, tries=["exchange_rate"]).success
    assert not judge(task(UNSOLVABLE), [], [], final, tries=[None]).success


LOOK = Gold(calls=(wanted(), wanted("Paris")))
MATCHES = {
    # calls, errors, pairs, wrong, missed, right, acceptable
    "each call to its own wanted one": (
        *(LOOK, [weather("Paris"), weather()], ""),
        *([("get_weather", "get_weather")] * 2, 0, 0, 2, 2),
    ),
    "a wrong value is a right tool": (
        *(ONE, [weather("Rome")], ""),
        *([("get_weather", "get_weather")], 0, 0, 1, 0),
    ),
    "a wrong tool stands against the wanted one": (
        *(ONE, [rate()], ""),
        *([("get_weather", "exchange_rate")], 1, 1, 0, 0),
    ),
    "no call": (ONE, [], "", [("get_weather", "none")], 0, 1, 0, 0),
    "a call where none is wanted": (NO_TOOL, [rate()], "", [("none", "exchange_rate")], 1, 0, 0, 0),
    "a surplus call": (
        *(ONE, [weather(), rate()], ""),
        *([("get_weather", "get_weather"), ("none", "exchange_rate")], 1, 0, 1, 1),
    ),
    "the same call again for no reason": (
        *(ONE, [weather(), weather()], ""),
        *([("get_weather", "get_weather"), ("none", "get_weather")], 1, 0, 1, 1),
    ),
    "a second try after an error": (
        *(ONE, [weather("北金"), weather()], "E."),
        *([("get_weather", "get_weather")] * 2, 0, 0, 2, 1),
    ),
    "the same call again after an error": (
        *(ONE, [weather(), weather()], "E."),
        *([("get_weather", "get_weather")] * 2, 0, 0, 2, 2),
    ),
    "arguments before place": (
        *(LOOK, [weather("Rome"), weather("Paris")], ""),
        *([("get_weather", "get_weather")] * 2, 0, 0, 2, 1),
    ),
}


@pytest.mark.parametrize(
    ("gold", "calls", "errors", "pairs", "wrong", "missed", "right", "good"),
    MATCHES.values(),
    ids=MATCHES,
)
def test_matching(gold, calls, errors, pairs, wrong, missed, right, good):
    failed = [mark == "E" for mark in errors.ljust(len(calls), ".")]
    results = [result(call, error=bad) for call, bad in zip(calls, failed, strict=True)]
    verdict = judge(task(gold), calls, results, "x", tools=TOOLS)
    assert list(verdict.pairs) == pairs
    found = (verdict.wrong, verdict.missed, verdict.right_tool, verdict.acceptable)
    assert found == (wrong, missed, right, good)
    assert sum(picked != "none" for _, picked in verdict.pairs) == len(calls)
    assert sum(w != p != "none" for w, p in verdict.pairs) == verdict.wrong


def test_matching_is_as_large_as_can_be():
    gold = Gold(calls=(WantedCall("get_weather", {"city": ("A", "B")}), wanted("A")))
    verdict = judge(task(gold), [weather("A"), weather("B")], [], "x")
    assert verdict.acceptable == 2


FIRST_MOVES = {
    "a right call": (ONE, Reading(calls=(weather(),)), True),
    "a wrong value": (ONE, Reading(calls=(weather("Rome"),)), False),
    "an answer where a call is wanted": (ONE, Reading(final="25"), False),
    "an answer where none is wanted": (NO_TOOL, Reading(final="hi"), True),
    "an empty answer": (NO_TOOL, Reading(final=" "), False),
    "a call where none is wanted": (NO_TOOL, Reading(calls=(rate(),)), False),
    "a failure": (ONE, Reading(failure=Failure("no_move")), False),
    "the second step first": (
        dataclasses.replace(TWO, ordered=True),
        Reading(calls=(rate(),)),
        False,
    ),
    "both at once": (TWO, Reading(calls=(weather(), rate())), True),
    "one right, one needless": (ONE, Reading(calls=(weather(), rate())), False),
    "one right, one unreadable": (
        ONE,
        Reading(calls=(weather(), Call("x", None, failure=Failure("unknown_tool")))),
        False,
    ),
}


@pytest.mark.parametrize(("gold", "reading", "right"), FIRST_MOVES.values(), ids=FIRST_MOVES)
def test_right_first_moves(gold, reading, right):
    assert first_move_is_right(gold, reading, TOOLS) is right


class Reader:
    """A driver that reads a reply by its body from a table of readings by level."""

    def __init__(self, table, name="native", level="hardened"):
        self.table, self.name, self.level, self.dialect = table, name, level, None

    def read(self, reply, tools, level=None):
        assert tools == TOOLS
        return self.table[reply.body][level or self.level]


def turn(reading, body="?", *, corrects=False, results=(), **reply):
    return Turn((), Reply(200, {}, body, **reply), reading, tuple(results), corrects)


def episode(turns, stop="answered"):
    return Episode(
        *("t-01-en", "t-01", "en", "single", "native", None, "local", "m", "full", 0),
        *("hardened", stop, tuple(turns)),
    )


def reader_for(turns):
    return Reader(
        {t.reply.body: dict.fromkeys(("strict", "hardened", "rescue"), t.reading) for t in turns}
    )


def counted(gold, turns, stop="answered", driver=None):
    return score(task(gold), episode(turns, stop), TOOLS, driver or reader_for(turns))


def test_a_whole_episode_is_counted():
    out = Reading(failure=Failure("out_of_channel_call", "content"))
    call = weather()
    turns = [
        turn(out, "first", usage=Usage(100, 10), seconds=1.5, first_token=0.4),
        turn(
            Reading(calls=(call,), repairs=(Repair("fence"), Repair("fence"), Repair("comma"))),
            "second",
            corrects=True,
            results=[result(call)],
            usage=Usage(150, 12, cached=90),
            seconds=1.0,
            attempts=(Attempt("rate_limited", 429, 0.5),),
        ),
        turn(Reading(final="25"), "third", usage=Usage(None, 3), seconds=0.25),
    ]
    rescued = {"strict": out, "hardened": out, "rescue": Reading(calls=(call,))}
    driver = Reader({**reader_for(turns).table, "first": rescued})
    found = counted(ONE, turns, driver=driver)
    assert found.success == found.answered == found.answer_right == 1
    assert (found.replies, found.first_attempts, found.corrected, found.recovered) == (3, 2, 1, 1)
    assert found.first_failures == {"out_of_channel_call": 1}
    assert (found.read, found.repaired, found.repairs) == (2, 1, {"comma": 1, "fence": 1})
    assert (found.calls, found.readable, found.invented, found.wrong) == (2, 1, 0, 0)
    assert (found.wanted, found.missed, found.right_tool, found.acceptable) == (1, 0, 1, 1)
    assert (found.prompt, found.completion, found.cached, found.reasoning) == (250, 25, 90, None)
    assert (found.first_prompt, found.unmetered, found.retries) == (100, 1, 1)
    assert (found.seconds, found.first_token) == (2.75, 0.4)
    levels = {name: (s.first, s.unreadable, s.kind, s.right) for name, s in found.levels.items()}
    assert levels == {
        "strict": (1, 1, "out_of_channel_call", 0),
        "hardened": (1, 1, "out_of_channel_call", 0),
        "rescue": (1, 0, None, 1),
    }
    assert (found.levels["rescue"].attempts, found.levels["hardened"].failed) == (2, 1)


def test_a_score_is_json():
    found = counted(ONE, [turn(Reading(final="25"))])
    again = json.loads(json.dumps(dataclasses.asdict(found)))
    assert again["pairs"] == [["get_weather", "none"]]
    assert again["levels"]["strict"]["first"] == 1


def test_an_endpoint_failure_is_never_charged():
    lost = Reading(failure=Failure("rate_limited", retryable=True))
    found = counted(ONE, [turn(lost, seconds=2.0)], stop="endpoint")
    assert found.endpoint_failures == {"rate_limited": 1}
    assert (found.replies, found.first_attempts, found.first_failures) == (0, 0, {})
    assert (found.prompt, found.levels["strict"].first, found.success) == (None, 0, 0)
    assert found.seconds == 2.0


def test_a_prompt_that_is_too_long_is_no_parse_failure_but_counted():
    turns = [turn(Reading(failure=Failure("context_overflow")))]
    found = counted(ONE, turns, stop="context_overflow")
    assert (found.context_overflow, found.first_failures, found.success) == (1, {}, 0)


def test_a_refusal_is_in_the_denominator_only():
    found = counted(ONE, [turn(Reading(failure=Failure("refused_or_filtered")))], stop="refused")
    assert (found.refused, found.first_attempts, found.first_failures) == (1, 1, {})
    assert (found.read, found.success) == (0, 0)


def test_an_episode_that_left_its_recording_is_no_success():
    call = weather()
    turns = [turn(Reading(calls=(call,)), results=[result(call)])]
    found = counted(ONE, turns, stop="left_recording")
    assert (found.left_recording, found.first_attempts, found.answered, found.success) == (
        1,
        1,
        0,
        0,
    )


def test_invented_tools_count_among_all_calls():
    unknown = Failure("unknown_tool")
    turns = [
        turn(Reading(calls=(Call("foo", None, failure=unknown),), failure=unknown), "a"),
        turn(Reading(failure=unknown), "b", corrects=True),
        turn(Reading(calls=(weather(), Call("bar", {}, failure=unknown))), "c", corrects=True),
    ]
    found = counted(ONE, turns, stop="step_limit")
    assert (found.calls, found.readable, found.invented) == (4, 1, 3)


NEEDLESS = {
    "an answer at once": ([Reading(final="an assistant")], 1, 0, 0),
    "a call first": ([Reading(calls=(rate(),)), Reading(final="an assistant")], 0, 1, 0),
    "a call that could not be read": (
        [Reading(failure=Failure("bad_arguments_syntax")), Reading(final="an assistant")],
        *(0, 0, 1),
    ),
    "a slip of form that tried no call": (
        [Reading(failure=Failure("no_move")), Reading(final="an assistant")],
        *(1, 0, 0),
    ),
}


@pytest.mark.parametrize(
    ("readings", "success", "called", "tried"), NEEDLESS.values(), ids=NEEDLESS
)
def test_tasks_that_need_no_tool(readings, success, called, tried):
    turns = [turn(reading, str(at), corrects=at > 0) for at, reading in enumerate(readings)]
    found = counted(NO_TOOL, turns)
    assert found.no_tool == 1
    assert (found.success, found.needless, found.needless_attempt) == (success, called, tried)


def test_results_of_unreadable_calls_do_not_shift_the_others():
    bad = Call("get_weather", None, failure=Failure("bad_arguments_syntax"))
    wrong, right = weather("北金"), weather()
    turns = [
        turn(
            Reading(calls=(bad, wrong)),
            "a",
            results=[result(bad, error=True), result(wrong, error=True)],
        ),
        turn(Reading(calls=(right,)), "b", results=[result(right)]),
        turn(Reading(final="25"), "c"),
    ]
    found = counted(ONE, turns)
    assert (found.success, found.wrong, found.tool_failed, found.right_tool) == (1, 0, 1, 2)


def test_a_hostile_answer_is_judged_in_bounded_time():
    text = "1,234," * 60_000 + "9" * 200_000 + "e99999999"
    assert not judge(task(ONE), [weather()], [], text).success
    assert scoring.invented_figures("-" * 100_000 + "5", ["x"]) == (-5.0,)


@pytest.mark.parametrize("way", [ReactDriver(), NativeDriver()], ids=["react", "native"])
def test_a_call_out_of_its_channel_is_a_call_that_was_tried_both_ways(way):
    """It once counted in a ReAct run only, so that shares of all calls could not be compared."""
    markup = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    reply = reply_with(markup)
    reading = way.read(reply, TOOLS)
    assert reading.failure.kind == "out_of_channel_call"
    found = score(task(ONE), episode([Turn((), reply, reading)], "malformed"), TOOLS, way)
    assert (found.calls, found.readable, found.invented) == (1, 0, 0)
