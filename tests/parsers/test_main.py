import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "datasets" / "cases" / "react_tools.json"
STEP = 'Action: get_weather\nAction Input: {"city": "重庆"}'


def run(*words, given="", env=None):
    data = given if isinstance(given, bytes) else given.encode("utf-8", "surrogatepass")
    return subprocess.run(
        [sys.executable, "-m", "parsers", *map(str, words)],
        cwd=ROOT,
        input=data,
        capture_output=True,
        check=False,
        env={**os.environ, **(env or {})},
    )


def read(*words, **options):
    done = run(*words, **options)
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def test_one_reply_gives_one_reading():
    assert read("react", "--tools", TOOLS, given=STEP) == [
        {
            "thought": "",
            "calls": [{"name": "get_weather", "arguments": {"city": "重庆"}, "failure": None}],
            "final": None,
            "failure": None,
            "repairs": [],
        }
    ]


def test_a_failure_has_kind_detail_message_and_position():
    (got,) = read("react", "--tools", TOOLS, given='Action: get_weather\nAction Input: {"a": 1}')
    assert got["failure"]["kind"] == "schema_violation"
    assert got["failure"]["detail"] == "missing"
    assert got["failure"]["message"].endswith(".")
    assert got["failure"]["position"] == 34
    assert got["calls"][0]["failure"] == got["failure"]


def test_level_dialect_and_finish_reason_are_used():
    words = ("react", "--tools", TOOLS)
    assert read(*words, "--level", "strict", given="42")[0]["failure"]["kind"] == "no_move"
    call = "Action: get_weather[Oslo]"
    asked = ("--level", "strict", "--dialect")
    assert read(*words, *asked, "bracket", given=call)[0]["failure"] is None
    assert read(*words, *asked, "json", given=call)[0]["failure"] is not None
    assert read(*words, "--finish-reason", "length", given="42")[0]["repairs"][-1] == "answer_cut"


def test_cases_are_read_line_by_line_in_order():
    other = [{"type": "function", "function": {"name": "nap", "parameters": {"type": "object"}}}]
    cases = [
        {"id": "a", "text": STEP},
        {"id": "b", "text": "Final Answer: it", "finish_reason": "length"},
        {"id": 3, "text": "Action: nap()", "tools": other, "dialect": "call"},
    ]
    lines = "\n\n".join(json.dumps(case) for case in cases)
    got = read("react", "--tools", TOOLS, "--jsonl", given=lines)
    assert [one["id"] for one in got] == ["a", "b", 3]
    assert got[1]["repairs"] == ["answer_cut"]
    assert got[2]["calls"][0]["name"] == "nap"


MESSAGE = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
        }
    ],
}
BODY = {"choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}]}
EVENT = {"choices": [{"index": 0, "delta": MESSAGE, "finish_reason": "tool_calls"}]}
STREAM = f"data: {json.dumps(EVENT)}\n\ndata: [DONE]\n\n"
WIRES = {
    "a message": json.dumps(MESSAGE),
    "a body": json.dumps(BODY),
    "a body with its status": json.dumps({"status": 200, "headers": {}, "body": json.dumps(BODY)}),
    "a case's body": json.dumps({"_body": BODY}),
    "a case's events": json.dumps([EVENT, "data: [DONE]\n\n"]),
    "a stream as it came": STREAM,
}


@pytest.mark.parametrize("given", WIRES.values(), ids=WIRES)
def test_a_native_reply_may_come_as(given):
    (got,) = read("native", "--tools", TOOLS, given=given)
    assert [one["arguments"] for one in got["calls"]] == [{"city": "Oslo"}]


def test_a_native_case_carries_its_request():
    case = {"id": 1, "wire": BODY, "_request": {"tool_choice": "none"}, "_history": []}
    (got,) = read("native", "--tools", TOOLS, "--jsonl", given=json.dumps(case))
    assert got["failure"]["kind"] == "choice_violation"


def test_the_output_is_utf8_in_a_c_locale():
    env = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run("react", "--tools", TOOLS, given="Final Answer: 重庆", env=env)
    assert "重庆" in done.stdout.decode("utf-8")


def test_half_a_character_does_no_harm():
    case = '{"id": "a", "text": "Final Answer: \\ud800!"}'
    done = run("react", "--tools", TOOLS, "--jsonl", given=case)
    assert json.loads(done.stdout)["final"] == "\ud800!"
    assert run("react", "--tools", TOOLS, given=b"Final Answer: \xff").returncode == 0


BAD = {
    "no way": ([], "", "the following arguments are required"),
    "another way": (["speech", "--tools", TOOLS], "", "invalid choice"),
    "no tools": (["react"], "", "--tools"),
    "another level": (["react", "--tools", TOOLS, "--level", "soft"], "", "invalid choice"),
    "no such file": (["react", "--tools", "no.json"], "", "no.json: No such file"),
    "a folder": (["react", "--tools", "."], "", "directory"),
    "a line that is not JSON": (
        ["react", "--tools", TOOLS, "--jsonl"],
        '{"text": ""}\n{',
        "stdin:2: ",
    ),
    "a case that is a list": (["react", "--tools", TOOLS, "--jsonl"], "[]", "stdin:1: "),
    "a case without text": (
        ["react", "--tools", TOOLS, "--jsonl"],
        "{}",
        'stdin:1: a case needs "text"',
    ),
    "a case without wire": (
        ["native", "--tools", TOOLS, "--jsonl"],
        "{}",
        'stdin:1: a case needs "wire"',
    ),
    "a case with bad tools": (
        ["react", "--tools", TOOLS, "--jsonl"],
        '{"text": "x", "tools": [{}]}',
        "stdin:1: tool 1 needs",
    ),
    "a case with another dialect": (
        ["react", "--tools", TOOLS, "--jsonl"],
        '{"text": "x", "dialect": "yaml"}',
        "stdin:1: dialect",
    ),
}


@pytest.mark.parametrize(("words", "given", "said"), BAD.values(), ids=BAD)
def test_a_bad_use_is_one_line_and_exit_2(words, given, said):
    done = run(*words, given=given)
    error = done.stderr.decode()
    assert done.returncode == 2
    assert said in error
    assert error.count("\n") == 1
    assert "Traceback" not in error


FILES = {
    "not JSON": "[",
    "no list": "{}",
    "a tool without a name": '[{"type": "function"}]',
    "parameters that are no schema": '[{"function": {"name": "x", "parameters": [1]}}]',
    "not UTF-8": b"\xff\xfe",
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_bad_tools_file_is_named(tmp_path, content):
    path = tmp_path / "tools.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run("react", "--tools", path)
    assert done.returncode == 2
    assert done.stderr.decode().count("\n") == 1
    assert str(path) in done.stderr.decode()


def test_help_is_printed():
    done = run("--help")
    assert done.returncode == 0
    assert b"--jsonl" in done.stdout
