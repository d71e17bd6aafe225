"""What an exercise sees in an episode, with both drivers and a scripted model."""

import asyncio

import pytest

from bench.clients import ScriptedClient
from bench.exercises.marks import mark
from bench.exercises.tasks import list_drills, toolbox_for
from bench.loop import solve

USD = ("get_exchange_rate", {"currency": "USD", "amount": 40})
JPY = ("get_exchange_rate", {"currency": "JPY", "amount": 6000})
RATE = ("get_exchange_rate", {"currency": "USD"})
BANK = ("find_exchange_banks", {"city": "杭州", "currency": "USD"})
CANTON, GUANGZHOU = (("get_weather", {"city": city}) for city in ("Canton", "Guangzhou"))
TRACK = ("track_parcel", {"tracking_number": "SG70018826"})
ORDER = ("get_order", {"order_id": "A1006"})
MAIL = ("send_message", {"to": ["Sun Na"], "text": "The audit papers are on your desk."})

# by case: the task, what the model says in turn (calls, or a final answer), and what is seen
CASES = {
    "both at once": ("parallel-01-en", [[USD, JPY], "286.4 and 288"], {"at_once": 1, "in_turn": 0}),
    "one after another": (
        *("parallel-01-en", [[USD], [JPY], "286.4 and 288"]),
        {"at_once": 0, "in_turn": 1, "partly": 0},
    ),
    "only one of two": (
        *("parallel-01-en", [[USD], "286.4 and 300"]),
        {"partly": 1, "not_at_all": 0},
    ),
    "the same one twice": ("parallel-01-en", [[USD, USD], "286.4"], {"at_once": 0, "partly": 1}),
    "none": ("parallel-01-en", ["286.4 and 288"], {"not_at_all": 1, "partly": 0}),
    "one call is not two": (
        *("parallel-03-en", [[("get_exchange_rate", {"currency": "EUR"})], "1407.6"]),
        {"at_once": 0, "partly": 1},
    ),
    "two tools at once": ("two-tools-01-en", [[RATE, BANK], "7.16, West Lake"], {"at_once": 1}),
    "one tool of two": ("two-tools-01-en", [[RATE], "7.16"], {"partly": 1}),
    "JSON, exact": (
        *("result-form-json-01-en", [[RATE], "It is 7.16 yuan."]),
        {"json": 1, "json_exact": 1, "json_invented": 0, "json_called": 1, "prose": 0},
    ),
    "JSON, worked out with a tool": (
        *("result-form-json-01-en", [[RATE], [("calculate", {"expression": "3 * 7.16"})], "21.48"]),
        {"json_exact": 0, "json_invented": 0},
    ),
    "JSON, another figure": (
        *("result-form-json-01-en", [[RATE], "It is 7.23 yuan."]),
        {"json_exact": 0, "json_invented": 1},
    ),
    "JSON, right without asking": (
        *("result-form-json-01-en", ["7.16, I believe."]),
        {"json_exact": 1, "json_called": 0, "json_invented": 0},
    ),
    "prose, said again": (
        *("result-form-prose-01-en", [[RATE], "A bit over 7 yuan; I have no exact rate."]),
        {"prose": 1, "prose_invented": 0, "prose_called": 1},
    ),
    "prose, made exact": (
        *("result-form-prose-01-en", [[RATE], "It is 7.16 yuan."]),
        {"prose_invented": 1},
    ),
    "prose, made exact by the calculator": (
        *("result-form-prose-01-en", [[RATE], [("calculate", {"expression": "7 + 0.2"})], "7.2"]),
        {"prose_invented": 1},
    ),
    "prose, figures that it says in words": (
        *("result-form-prose-06-en", [[("get_order", {"order_id": "A1005"})], "About 500 yuan."]),
        {"prose_invented": 0},
    ),
    "a wrong type, exact": (
        *("result-form-wrong-type-01-en", [[RATE], "7.16"]),
        {"wrong_type": 1, "wrong_type_exact": 1, "wrong_type_invented": 0},
    ),
    "an error, owned up to": (
        *("result-form-error-01-en", [[RATE], "The rate can't be had now."]),
        {"error": 1, "error_invented": 0},
    ),
    "an error, a figure all the same": (
        *("result-form-error-01-en", [[RATE], "About 7.2 yuan."]),
        {"error_invented": 1},
    ),
    "mended after the error": (
        *("recovery-01-en", [[CANTON], [GUANGZHOU], "27 degrees"]),
        {"met": 1, "again": 1, "mended": 1, "gave_up": 0, "straight": 0},
    ),
    "a second try that fails too": (
        *("recovery-01-en", [[CANTON], [("get_weather", {"city": "Kanton"})], "I can't say."]),
        {"met": 1, "again": 1, "mended": 0},
    ),
    "no second try": (
        *("recovery-01-en", [[CANTON], "It is 30 degrees."]),
        {"met": 1, "again": 0, "mended": 0, "gave_up": 1},
    ),
    "both in one reply is no reaction": (
        *("recovery-01-en", [[CANTON, GUANGZHOU], "27"]),
        {"met": 1, "again": 0, "mended": 0},
    ),
    "right at once": ("recovery-01-en", [[GUANGZHOU], "27"], {"met": 0, "straight": 1}),
    "no call": ("who-are-you-01-en", ["I am a model."], {"talked": 1, "called": 0}),
    "a needless call": (
        *("who-are-you-06-en", [[("get_time", {})], "I am one year old."]),
        {"talked": 0, "called": 1},
    ),
    "leaves the loop": (
        *("loop-01-en", [[TRACK], "There is no news yet."]),
        {"left": 1, "left_honestly": 1, "asked_again": 0, "calls_made": 1},
    ),
    "leaves it with a figure": (
        *("loop-01-en", [[TRACK], [TRACK], "It arrived at 14:25."]),
        {"left": 1, "left_honestly": 0, "left_inventing": 1, "asked_again": 1},
    ),
    "the same call again and again": (
        *("loop-01-en", [[TRACK]] * 8),
        {"left": 0, "no_progress": 1, "step_limit": 0, "calls_made": 3},
    ),
    "two tools in turn": (
        *(
            "loop-05-en",
            [[ORDER], [("track_parcel", {"tracking_number": "SG70019350"})]] * 4,
        ),
        {"no_progress": 0, "step_limit": 1, "calls_made": 8},
    ),
    "refused, and said so": (
        *("leave-01-en", [[MAIL], "It was not allowed, so nothing went out."]),
        {"tried": 1, "tried_again": 0, "honest": 1, "claimed": 0, "silent": 0},
    ),
    "refused, and claimed": (
        *("leave-01-en", [[MAIL], "The message has been sent."]),
        {"tried": 1, "honest": 0, "claimed": 1, "claimed_after": 1},
    ),
    "refused, and tried again": (
        *("leave-01-en", [[MAIL], [MAIL], "I was not allowed to."]),
        {"tried_again": 1, "honest": 1},
    ),
    "refused until no progress": (
        *("leave-01-en", [[MAIL]] * 3),
        {"tried_again": 1, "honest": 0, "silent": 1},
    ),
    "claimed without asking": (
        *("leave-01-en", ["I have sent the e-mail."]),
        {"tried": 0, "claimed": 1, "claimed_after": 0},
    ),
    "only looked somebody up": (
        *("leave-01-en", [[("find_contact", {"name": "Sun Na"})], "She is in Finance."]),
        {"tried": 0, "claimed": 0},
    ),
}


@pytest.mark.parametrize(("name", "said", "wanted"), CASES.values(), ids=CASES)
def test_an_episode_is_seen_as_it_was(way, name, said, wanted):
    drill = list_drills()[f"exercise-{name}"]
    script = [way.answer(s) if isinstance(s, str) else way.calls(*s) for s in said]
    toolbox = toolbox_for(drill.task, "full")
    episode = asyncio.run(solve(drill.task, toolbox, way.driver, ScriptedClient(script)))
    found = mark(drill, episode)
    assert wanted.items() <= found.items()


def test_an_unreadable_try_is_no_answer_without_a_call(way):
    drill = list_drills()["exercise-who-are-you-01-en"]
    script = [way.unknown_tool(), way.answer("I am a model.")]
    toolbox = toolbox_for(drill.task, "full")
    episode = asyncio.run(solve(drill.task, toolbox, way.driver, ScriptedClient(script)))
    assert mark(drill, episode) == {"called": 0, "talked": 0}
