"""Other people's stored conversations: what is read of them at each level, against counts by hand."""

import json

import pytest

from bench.__main__ import main
from bench.status import MISTAKE, OK
from bench.transcripts import rescore_transcripts

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
WANTED = {"calls": [{"tool": "add", "arguments": {"a": [1], "b": [2]}}]}
GOOD = '{"a": 1, "b": 2}'
FENCED = f'```json\n{{"name": "add", "arguments": {GOOD}}}\n```'


def native(arguments, name="add"):
    function = {"name": name, "arguments": arguments}
    calls = [{"id": "c1", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def text(content):
    return {"role": "assistant", "content": content}


def react(*steps):
    return text("\n".join(("Thought: I add.", *steps)))


# what each kind of reply is, counted by hand: outcome at strict, hardened, rescue
REPLIES = {
    "a good native call": (native(GOOD), "ccc"),
    "a native call in a fence": (text(FENCED), "mmc"),
    "a native call behind chatter": (text(f"Sure, I add them now.\n\n{FENCED}"), "mmc"),
    "native arguments that are cut off": (native('{"a": 1, "b"'), "mmm"),
    "native arguments with a trailing comma": (native('{"a": 1, "b": 2,}'), "mcc"),
    "a native answer": (text("The sum is 3."), "aaa"),
    "a good ReAct call": (react("Action: add", f"Action Input: {GOOD}"), "ccc"),
    "a ReAct call in a fence": (
        react("Action: add", f"Action Input: ```json\n{GOOD}\n```"),
        "mcc",
    ),
    "a ReAct call with chatter behind it": (
        react("Action: add", f"Action Input: {GOOD}", "I hope that this helps you!"),
        "mcc",
    ),
    "a ReAct call that is cut off": (react("Action: add", 'Action Input: {"a": 1, "b'), "mmm"),
    "a ReAct answer": (react("Final Answer: It is 3."), "aaa"),
}
OUTCOMES = {"c": "call", "a": "answer", "m": "unreadable"}


def write(path, *rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def row(name, reply, **more):
    question = {"role": "user", "content": "What is 1 + 2?"}
    return {"id": name, "messages": [question, reply], "tools": [ADD], **more}


@pytest.mark.parametrize(("reply", "wanted"), REPLIES.values(), ids=REPLIES)
def test_a_reply_is_read_at_three_levels(tmp_path, reply, wanted):
    found = rescore_transcripts(write(tmp_path / "x.jsonl", row("x", reply)), "openai-messages")

    for count, outcome in zip(found.levels.values(), wanted, strict=True):
        got = {name: getattr(count, name) for name in OUTCOMES.values()}
        assert got == {name: int(name == OUTCOMES[outcome]) for name in got}


def test_a_file_of_all_of_them_is_what_was_counted_by_hand(tmp_path, capsys):
    rows = [row(name, reply, gold=WANTED) for name, (reply, _) in REPLIES.items()]
    path = write(tmp_path / "all.jsonl", *rows)

    status = main(["rescore", str(path), "--format", "openai-messages", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert status == OK
    assert (found["conversations"], found["replies"], found["gold"]) == (11, 11, 11)
    levels = found["levels"]
    assert {n: c["call"] for n, c in levels.items()} == {"strict": 2, "hardened": 5, "rescue": 7}
    assert {n: c["answer"] for n, c in levels.items()} == dict.fromkeys(levels, 2)
    assert {n: c["unreadable"] for n, c in levels.items()} == {
        "strict": 7,
        "hardened": 4,
        "rescue": 2,
    }
    assert {n: c["right"] for n, c in levels.items()} == {"strict": 2, "hardened": 5, "rescue": 7}
    assert levels["rescue"]["kinds"] == {"truncated_output": 2}
    assert found["unreadable_at_strict"] == {"hardened": 3, "rescue": 2, "never": 2}
    assert found["wrong_at_strict"] == {"hardened": 3, "rescue": 2, "never": 4}


def test_the_sum_up_says_how_much_was_formatting(tmp_path, capsys):
    rows = [row(name, reply) for name, (reply, _) in REPLIES.items()]
    status = main(
        ["rescore", str(write(tmp_path / "a.jsonl", *rows)), "--format", "openai-messages"]
    )

    told = capsys.readouterr().out
    assert status == OK
    assert "11 conversations, 11 replies; no model was asked" in told
    assert (
        "7 replies are unreadable at strict; 5 of these were formatting: 3 are read at hardened, "
        "2 only at rescue; 2 stay" in told
    )
    assert "right at strict" not in told  # no gold: parse figures only


def test_gold_of_no_call_and_of_a_tool_alone(tmp_path):
    path = write(
        tmp_path / "x.jsonl",
        row("called", native('{"a": 9, "b": 9}'), expected_tool="add"),
        row("other", text("The sum is 3."), expected_tool="add"),
        row("silent", text("The sum is 3."), gold={"calls": []}),
        row("needless", native(GOOD), gold={"calls": []}),
        row("says it", text("The sum is 3."), gold={"contains": [{"number": 3}]}),
    )

    found = rescore_transcripts(path, "openai-messages")

    assert found.gold == 5
    assert found.levels["strict"].right == 3


def test_a_folder_and_a_file_of_one_value(tmp_path):
    write(tmp_path / "a.jsonl", row("a", native(GOOD)))
    listed = [row("b", native(GOOD)), row("c", text("The sum is 3."))]
    (tmp_path / "b.json").write_text(json.dumps(listed, indent=1), encoding="utf-8")

    found = rescore_transcripts(tmp_path, "openai-messages")

    assert (found.conversations, found.levels["strict"].call) == (3, 2)


def test_a_last_line_without_its_end_counts(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(row("a", native(GOOD))), encoding="utf-8")

    assert rescore_transcripts(path, "openai-messages").conversations == 1


def test_what_cannot_be_read_is_left_out_and_told(tmp_path):
    bare = {k: v for k, v in row("x", native(GOOD)).items() if k != "tools"}
    path = write(tmp_path / "x.jsonl", row("a", native(GOOD)), bare, row("q", {"role": "user"}))

    found = rescore_transcripts(path, "openai-messages")

    assert found.conversations == 1
    assert found.left_out == {"no tools in it": 1, "no reply in it": 1}


MISTAKES = {
    "not JSON": ("{", "openai-messages", ":1: not JSON"),
    "no object": ("[1]\n2\n", "openai-messages", ":1: a list"),
    "no messages": ("{}", "openai-messages", 'has no "messages"'),
    "tools that are none": (
        '{"messages": [{"role": "assistant"}], "tools": [1]}',
        "openai-messages",
        "is no tool",
    ),
    "an unknown driver": (
        json.dumps({**row("x", native(GOOD)), "driver": "both"}),
        "openai-messages",
        "write react or native",
    ),
    "gold of another form": (
        json.dumps(row("x", native(GOOD), gold={"calls": [1]})),
        "openai-messages",
        "gold: wrong type in calls.0",
    ),
    "nothing to read": ("", "openai-messages", "no conversation that can be read"),
}


@pytest.mark.parametrize(("content", "form", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_users_mistake_is_one_line(tmp_path, capsys, content, form, words):
    path = tmp_path / "x.jsonl"
    path.write_text(content, encoding="utf-8")

    status = main(["rescore", str(path), "--format", form])

    told = capsys.readouterr().err
    assert status == MISTAKE
    assert words in told
    assert told.count("\n") == 1
