import pytest

from parsers import correction, explain, parse_react
from parsers.arguments import ARGUMENT_REPAIRS
from parsers.explain import SENTENCES, shown
from parsers.moves import REPAIRS
from parsers.names import NAME_REPAIRS
from parsers.types import Call, Dropped, Failure, Reading, Repair, Tool

WEATHER = Tool(
    "get_weather",
    "",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)


def explained(text, **options):
    return explain(parse_react(text, [WEATHER], **options), text).split("\n")


def test_a_call_an_answer_and_a_refusal_are_told():
    assert explained('Action: get_weather\nAction Input: {"city": "Oslo"}') == [
        'call: get_weather {"city": "Oslo"}'
    ]
    assert explained("Thought: x\nFinal Answer: 42") == ["answer: 42"]
    assert explained("Thought: x")[0].startswith("refused: no_move at line 1, column 11. ")


def test_the_caret_stands_under_the_place():
    lines = explained("Action: get_weather\nAction Input: {'city': 'Oslo'}")
    at = next(n for n, line in enumerate(lines) if line.startswith("repaired: single_quotes"))
    assert "line 2, column 16" in lines[at]
    assert lines[at + 1][lines[at + 2].index("^")] == "'"


def test_the_caret_counts_wide_characters_as_two():
    text = "Action: get_weather\nAction Input: 城市城市{'city': 'x'}"
    caret = explain(Reading(repairs=(Repair("single_quotes", text.index("'")),)), text)
    assert caret.split("\n")[-1] == " " * (2 + len("Action Input: ") + 8 + 1) + "^"


def test_a_long_line_is_shown_as_a_window():
    text = "a" * 500 + "'" + "b" * 500
    lines = explain(Reading(repairs=(Repair("single_quotes", 500),)), text).split("\n")
    assert len(lines[1]) < 90
    assert lines[1][lines[2].index("^")] == "'"
    assert lines[1].startswith("  …")
    assert lines[1].endswith("…")


def test_what_a_terminal_would_act_on_is_escaped():
    text = "Final Answer: \x1b[31mred\x07\u202e\ud800"
    told = "\n".join(explained(text))
    assert "\\x1b[31mred\\x07\\u202e\\ud800" in told
    told.encode()


def test_dropped_text_is_told_with_its_reason():
    lines = explained('Action: get_weather\nAction Input: {"city": "Oslo"}\nObservation: 12')
    assert "dropped: all from here on (observation) at line 3, column 1" in lines
    told = explain(Reading(final="x", dropped=(Dropped(0, 1, "tail"),)), "y")
    assert "dropped: 1 character (tail)" in told


def test_a_place_in_another_field_is_named():
    failure = Failure("bad_arguments_syntax", None, "No.", 4, "calls[0].arguments")
    told = explain(Reading(failure=failure), "text")
    assert told == "refused: bad_arguments_syntax at calls[0].arguments, character 4. No."


def test_calls_that_failed_among_good_ones_are_told():
    failure = Failure("schema_violation", "missing", "Not so.", 2)
    reading = Reading(calls=(Call("a", {}), Call("b", None, failure=failure)))
    assert "call b: schema_violation (missing) at line 1, column 3. Not so." in explain(
        reading, "text"
    )


def test_a_flood_of_repairs_is_counted():
    reading = Reading(final="x", repairs=tuple(Repair("comments", n) for n in range(40)))
    assert explain(reading, "y" * 50).endswith("and 28 more")


CORRECTIONS = {
    "a failure is told": (Reading(failure=Failure("no_move", None, "Nothing.")), "Nothing."),
    "a failure told twice is told once": (
        Reading(
            calls=(Call("a", None, failure=Failure("no_move", None, "Nothing.")),),
            failure=Failure("no_move", None, "Nothing."),
        ),
        "Nothing.",
    ),
    "a failure without words is told by its kind": (
        Reading(failure=Failure("no_move")),
        "No move.",
    ),
    "nothing wrong": (Reading(final="x"), ""),
}


@pytest.mark.parametrize(("reading", "expected"), CORRECTIONS.values(), ids=CORRECTIONS)
def test_correction(reading, expected):
    assert correction(reading) == expected


def test_a_correction_is_one_line_and_short_whatever_the_model_wrote():
    text = "Action: \x1b[31m" + "x" * 100_000
    told = correction(parse_react(text, [WEATHER]))
    assert "\n" not in told
    assert "\x1b" not in told
    assert len(told) < 500


def test_every_repair_has_its_own_sentence():
    names = [*ARGUMENT_REPAIRS, *NAME_REPAIRS, *REPAIRS]
    assert len(set(names)) == len(names)
    assert set(names) < SENTENCES.keys()
    assert all(said.endswith(".") for said in SENTENCES.values())


def test_shown_shortens():
    assert shown("abc", 2) == "ab…"
