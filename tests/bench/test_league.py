"""Grading, the runner's protocol with a real process, and what the pages do with hostile texts."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench import league, league_report
from bench.hostile import HOSTILE
from bench.league import Answer, Case, League, Row, grade, load_cases, reads_as_given, same
from bench.peers import __main__ as peers_command
from bench.peers import runner
from bench.peers.workers import Parser, Peer, Worker, load_examples, load_parsers, load_peers
from bench.perf import readers as perf
from bench.perf.__main__ import main as perf_main
from bench.perf.readers import Growth
from bench.report import to_markdown
from bench.types import WorkbenchError

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "",
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
        },
    }
    for name, properties in (
        ("weather", {"city": {"type": "string"}}),
        ("rate", {"base": {"type": "string"}, "days": {"type": "integer"}}),
        ("clock", {}),
    )
]
PEER = Parser("peer", "A peer", "react", "peer", Peer("peer", "Peer", ()), one_call=True)
CALLS_ONLY = replace(PEER, one_call=False, calls_only=True)
OURS = Parser("rescue", "ours, rescue", "react", "react-rescue", level="rescue")
OSLO = [{"call": "weather", "arguments": {"city": "Oslo"}}]
TWO = [*OSLO, {"call": "clock", "arguments": {}}]
ANSWER = [{"final": "It rains."}]
CUT = [{"failure": "truncated_output"}]


def make_case(says, reads="react", raw=None, **more):
    levels = dict.fromkeys(("strict", "hardened", "rescue"), says)
    request = {"text": "…", "tools": TOOLS}
    return Case("lab-01", "kind", "lab", reads, request, says, levels, raw=raw, **more)


def call(name, value, *more):
    return {"calls": [[name, value], *more], "final": None}


def final(text):
    return {"calls": [], "final": text}


GRADES = {
    "the same call": (call("weather", {"city": "Oslo"}), OSLO, "right"),
    "another argument": (call("weather", {"city": "Os"}), OSLO, "wrong"),
    "a JSON object as a string": (call("weather", '{"city": "Oslo"}'), OSLO, "right"),
    "a Python dict as a string": (call("weather", "{'city': 'Oslo'}"), OSLO, "right"),
    "the only text of a tool": (call("weather", "Oslo"), OSLO, "right"),
    "another text for a tool's only one": (call("weather", "Oslo!"), OSLO, "wrong"),
    "a text where a tool takes two": (call("rate", "EUR"), OSLO, "refused"),
    "nothing for a tool that takes nothing": (call("clock", "None"), TWO[1:], "right"),
    "white space around the name": (call(" weather\n", {"city": "Oslo"}), OSLO, "right"),
    "a name that is not offered": (call("Weather", {"city": "Oslo"}), OSLO, "refused"),
    "no name": (call(None, {"city": "Oslo"}), OSLO, "refused"),
    "arguments against the schema": (call("weather", {}), OSLO, "refused"),
    "a list for arguments": (call("weather", ["Oslo"]), OSLO, "refused"),
    "the first of two from a parser of one": (call("weather", {"city": "Oslo"}), TWO, "right"),
    "the last of two from a parser of one": (call("clock", {}), TWO, "wrong"),
    "one call too many": (call("weather", {"city": "Oslo"}, ["clock", {}]), OSLO, "wrong"),
    "True is not 1": (
        call("rate", {"base": "EUR", "days": True}),
        [{"call": "rate", "arguments": {"base": "EUR", "days": 1}}],
        "refused",
    ),
    "1.0 is 1": (
        call("rate", {"base": "EUR", "days": 1.0}),
        [{"call": "rate", "arguments": {"base": "EUR", "days": 1}}],
        "right",
    ),
    "a call for an answer": (call("clock", {}), ANSWER, "wrong"),
    "an answer for a call": (final("weather: Oslo"), OSLO, "wrong"),
    "the answer": (final("It rains.\n"), ANSWER, "right"),
    "another answer": (final("** It rains."), ANSWER, "wrong"),
    "refused what says a call": ({"refused": "ValueError: no"}, OSLO, "refused"),
    "refused what is to be refused": ({"refused": "ValueError: no"}, CUT, "right"),
    "nothing from what is to be refused": (call("x", {}), CUT, "right"),
    "an unchecked call from what is to be refused": (call("weather", {}), CUT, "right"),
    "a call from what is to be refused": (call("weather", {"city": "Os"}), CUT, "wrong"),
    "an answer from what is to be refused": (final("Thought: x"), CUT, "wrong"),
    "a crash is never right": ({"crash": "status 3"}, CUT, "refused"),
    "a hang is never right": ({"timeout": "10 s"}, CUT, "refused"),
    "no call and no answer": (final(None), OSLO, "refused"),
}


@pytest.mark.parametrize(("read", "says", "verdict"), GRADES.values(), ids=GRADES)
def test_an_answer_is_graded(read, says, verdict):
    assert grade(read, make_case(says), PEER).verdict == verdict


def test_a_parser_of_calls_alone_may_find_none_in_an_answer():
    for read in (final(None), {"refused": "ToolError: no call"}):
        assert grade(read, make_case(ANSWER), CALLS_ONLY).verdict == "right"
    assert grade({"crash": "a panic"}, make_case(ANSWER), CALLS_ONLY).verdict == "refused"
    assert grade(final(None), make_case(ANSWER), PEER).verdict == "refused"


RAW = '{"base": "a "b" c", "days": 1}'
RAW_GRADES = {
    "the raw text": (call("rate", RAW), "text"),
    "the raw text in a fence": (call("rate", f"```\n{RAW}\n```"), "text"),
    "the raw text under another tool": (call("weather", RAW), "wrong"),
    "more than the raw text": (call("rate", RAW + " so be it"), "refused"),
}


@pytest.mark.parametrize(("read", "verdict"), RAW_GRADES.values(), ids=RAW_GRADES)
def test_the_right_tool_with_the_raw_text_is_counted_apart(read, verdict):
    says = [{"call": "rate", "arguments": {"base": 'a "b" c', "days": 1}}]
    assert grade(read, make_case(says, raw=RAW), PEER).verdict == verdict


def test_what_an_argument_parser_gives_is_not_decoded_again():
    case = make_case(OSLO, reads="arguments")
    assert grade(call("weather", "Oslo"), case, PEER).verdict == "refused"


def test_every_case_is_a_right_reading_of_itself():
    for case in load_cases():
        parts = [(p["call"], p["arguments"]) for p in case.says if "call" in p]
        read = {"calls": parts, "final": case.says[0].get("final")}
        if "failure" in case.says[0]:
            read = {"refused": "no", "kind": case.says[0]["failure"]}
        assert grade(read, case, OURS).verdict == "right", case.id
        assert reads_as_given(read, case, "rescue"), case.id


def test_another_kind_of_failure_is_not_as_given():
    read = {"refused": "no", "kind": "no_move"}
    assert not reads_as_given(read, make_case(CUT), "rescue")
    assert reads_as_given(read, make_case(CUT, also=[{"failure": "no_move"}]), "rescue")


def test_values_are_compared_as_json_does():
    assert same({"a": [1, "x"], "b": None}, {"b": None, "a": (1.0, "x")})
    assert not same([1], [True])
    assert not same([1], [1, 2])
    assert not same({"a": 1}, {"b": 1})


# ---------------------------------------------------------------- cases of a user


LINE = {"id": "mine-1", "text": "Action: clock", "hardened": [{"call": "clock", "arguments": {}}]}
MISTAKES = {
    "not JSON": ("{", "is not JSON"),
    "no id": (json.dumps({**LINE, "id": 1}), "has no id"),
    "no reply": (json.dumps({"id": "a", "hardened": CUT}), "neither `text` nor `wire`"),
    "no right reading": (json.dumps({**LINE, "hardened": []}), "no right reading"),
    "a call without arguments": (json.dumps({**LINE, "strict": [{"call": "x"}]}), "`strict`"),
    "tools that are no list": (json.dumps({**LINE, "tools": {}}), "no list of tools"),
    "a tool without a name": (json.dumps({**LINE, "tools": [{}]}), "has no name"),
    "no line": ("\n", "holds no case"),
}


@pytest.mark.parametrize(("text", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_file_of_cases_names_its_line(tmp_path, text, said):
    path = tmp_path / "mine.jsonl"
    path.write_text(f"\n{text}\n", encoding="utf-8")
    with pytest.raises(WorkbenchError, match=r"mine\.jsonl:[12]: ") as mistake:
        load_cases([path])
    assert said in str(mistake.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(WorkbenchError, match="cannot be read"):
        load_cases([tmp_path / "none.jsonl"])


def test_a_users_cases_take_the_users_tools(tmp_path):
    path, tools = tmp_path / "mine.jsonl", tmp_path / "tools.json"
    path.write_text(json.dumps(LINE), encoding="utf-8")
    tools.write_text(json.dumps(TOOLS), encoding="utf-8")
    (case,) = load_cases([path], tools)
    assert case.request["tools"] == TOOLS
    assert (case.group, case.reads) == ("mine", "react")


def test_argument_texts_stand_alone_behind_a_plain_name():
    found = {case.id: case for case in load_cases() if case.reads == "arguments"}
    assert found["ctl-01"].request["text"] == '{"city": "Lisbon"}'
    assert found["ctl-01"].request["tool"] == "get_weather"
    assert {"arg-04", "len-01", "thk-03", "seq-02"}.isdisjoint(found), "more than the text decides"


# ---------------------------------------------------------------- the runner


FAKE = """
import os, time
def make(tools):
    def read(request):
        text = request["text"]
        if text == "hang":
            time.sleep(600)
        if text == "die":
            os._exit(3)
        if text == "refuse":
            raise ValueError("no\\nsecond line")
        if text == "panic":
            raise SystemExit("a panic")
        print("noise")
        return {"calls": [[tools[0]["function"]["name"], {"home": os.environ["HOME"]}]]}
    return read
def broken(tools):
    raise ImportError("no module named it")
READERS = {"peer": make, "broken": broken}
"""


@pytest.fixture
def fake(tmp_path):
    path = tmp_path / "adaptors.py"
    path.write_text(FAKE, encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path):
    """Return a folder of environments in which the peer's Python is this one."""
    python = tmp_path / "envs" / "peer" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return tmp_path / "envs"


def ask_all(worker, *texts, limit=30.0):
    return [worker.ask({"text": text, "tools": TOOLS}, limit)["read"] for text in texts]


def test_a_worker_answers_refuses_and_is_started_again(fake, here):
    with Worker(PEER, environments=here, adaptors=fake) as worker:
        good, refused, panic, dead, again = ask_all(
            worker, "read", "refuse", "panic", "die", "read"
        )
    assert good["calls"][0][0] == "weather"
    assert good["calls"][0][1]["home"] != str(Path.home())
    assert refused == {"refused": "ValueError: no"}
    assert panic == {"crash": "SystemExit: a panic"}
    assert dead == {"crash": "its process ended with status 3"}
    assert again["calls"][0][0] == "weather"


def test_a_worker_ends_what_hangs(fake, here):
    with Worker(PEER, environments=here, adaptors=fake, patience=1.0) as worker:
        worker.start()
        (found,) = ask_all(worker, "hang", limit=0.3)
    assert "timeout" in found


def test_a_worker_holds_no_keys(monkeypatch, here, fake):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    with Worker(PEER, environments=here, adaptors=fake) as worker:
        assert "sk-planted" not in worker._environment().values()


def test_what_is_not_installed_or_does_not_start_says_so(fake, here, tmp_path):
    with Worker(PEER, environments=tmp_path / "none", adaptors=fake) as worker:
        assert "make peers" in worker.start()["failed"]
    broken = replace(PEER, reader="broken")
    with Worker(broken, environments=here, adaptors=fake) as worker:
        assert worker.start() == {"failed": "ImportError: no module named it"}


def test_the_runner_times_and_describes():
    found = runner.answer(lambda _: {"calls": []}, {"seconds": 0.001})
    assert found["read"] == {"calls": []}
    assert found["microseconds"] > 0
    with pytest.raises(PermissionError):
        runner._no_connection("socket.connect", ())
    refuses = runner._prepare(lambda _: 1 / 0, [])
    assert "ZeroDivisionError" in refuses({})["refused"]


def test_every_parser_of_the_table_has_a_reader_and_a_peer():
    from bench.peers.adaptors import READERS

    parsers = load_parsers()
    assert {parser.reader for parser in parsers} <= READERS.keys()
    used = {p.peer.name for p in parsers if p.peer} | set(load_examples()[0].values())
    assert used == {peer.name for peer in load_peers()}
    for peer in load_peers():
        assert all("==" in requirement for requirement in peer.requires), "peers are pinned"
    with pytest.raises(WorkbenchError, match="no peer is called x"):
        peers_command.choose(["x"])


# ---------------------------------------------------------------- the pages


HOSTILE_KIND = "a | <script>alert(1)</script> ` [x](http://e.x) \u202e"


def small_league():
    case = replace(make_case(OSLO), kind=HOSTILE_KIND)
    read = call("weather", {"city": "\x1b[31m"})
    wrong = Answer(case, read, "wrong", "", as_given=False, microseconds=12.5)
    right = replace(wrong, verdict="right", as_given=True)
    rows = (
        Row(OURS, "Python 3", "", (right,)),
        Row(PEER, "peer 1.0", "", (wrong,)),
        Row(replace(PEER, title="gone"), "", "not installed; make peers installs it", ()),
    )
    return League({"react": rows}, "a machine")


def test_the_report_escapes_and_counts():
    found = small_league()
    text = to_markdown(league_report.make_document(found, league_report.draw_league(found)))
    assert "<script>" not in text
    assert "\u202e" not in text
    assert r"\[x\]" in text
    rows = [line for line in text.splitlines() if "alert" in line]
    assert len(rows) == 1
    assert rows[0].count(" | ") == 2, "a bar in a kind makes no cell"
    assert "not installed" in text


def test_the_files_of_a_league(tmp_path):
    paths = league_report.write_league(small_league(), tmp_path / "league")
    assert [path.name for path in paths] == ["report.md", "league.png", "league.json"]
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    rows = json.loads(paths[2].read_text(encoding="utf-8"))["tables"]["react"]
    assert [row["problem"][:3] for row in rows] == ["", "", "not"]
    assert rows[1]["answers"][0]["verdict"] == "wrong"


def test_the_terminal_gets_a_line_for_each_parser():
    lines = list(league_report.describe(small_league()))
    assert any(
        "ours, rescue" in line and line.split()[-5:-1] == ["1", "0", "0", "0"] for line in lines
    )
    assert any("gone" in line and "make peers" in line for line in lines)


def test_a_league_of_ours_runs_from_a_file_to_the_report(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({**LINE, "tools": TOOLS}), encoding="utf-8")
    said = []
    paths = league.run_league([path], peers=tmp_path / "none", results=tmp_path, tell=said.append)
    assert all(written.is_file() for written in paths)
    tables = json.loads((tmp_path / "league" / "league.json").read_text(encoding="utf-8"))["tables"]
    verdicts = {row["id"]: [a["verdict"] for a in row["answers"]] for row in tables["react"]}
    assert verdicts["hardened"] == verdicts["rescue"] == ["right"]
    assert verdicts["crewai"] == []


# ---------------------------------------------------------------- measuring


GROWTHS = {
    "linear": ((0.1, 0.4), 2.0, True),
    "quadratic": ((0.02, 0.32), 4.0, False),
    "too short to tell": ((0.001, 0.015), None, True),
    "too long": ((0.5, 1.5), 1.73, False),
    "no reading": ((0.1, None), None, False),
}


@pytest.mark.parametrize(("seconds", "factor", "holds"), GROWTHS.values(), ids=GROWTHS)
def test_growth_is_for_twice_the_size(seconds, factor, holds):
    growth = Growth(seconds)
    assert growth.factor == (factor if factor is None else pytest.approx(factor, abs=0.01))
    assert growth.holds is holds


def test_speeds_are_measured_and_set_side_by_side(tmp_path):
    case = make_case(OSLO)
    found = perf.measure_speeds([case], tmp_path / "none")
    assert found.keys() == {"strict", "hardened", "rescue"}
    assert all(0 < speed.clean < 1e9 for speed in found.values())
    crewai = perf.Speed("CrewAI", "crewai 1", clean=1e-9, cases=1.0)
    llamaindex = perf.Speed("LlamaIndex", "llama 1", clean=1.0, cases=1e9)
    text = "\n".join(perf._speed_lines({**found, "crewai": crewai, "llamaindex": llamaindex}))
    assert text.count("of CrewAI's time; at most 1: **not met**") == 3
    assert text.count("of LlamaIndex's time; at most 1: met") == 3


def test_growth_is_measured_and_what_misses_is_marked(tmp_path):
    parser = perf._GROWN[0]
    texts = {"brackets | <b>": HOSTILE["open brackets"]}
    growth = perf.measure_growth(parser, TOOLS, tmp_path, texts)["brackets | <b>"]
    assert all(growth.seconds)
    slow = perf.Growth((0.1, 9.0))
    growths = {p.id: dict.fromkeys(HOSTILE, slow) for p in perf._GROWN}
    lines = list(perf._growth_lines(growths))
    assert any("9.000 s, 9.5× !" in line for line in lines)
    assert any(f"0 of {len(HOSTILE)} within both targets" in line for line in lines)


def test_a_peer_that_is_too_slow_or_dies_is_shown(fake, here):
    with Worker(PEER, environments=here, adaptors=fake, patience=0.5) as worker:
        cells = [perf._peer_cell(worker, text, TOOLS) for text in ("read", "hang", "die")]
    assert cells[0].endswith(" s")
    assert cells[1:] == ["over 1 s", "crash"]
    assert "make peers" in "".join(perf._peer_lines({}))


def test_an_unknown_part_is_a_mistake(capsys):
    assert perf_main(["nothing"]) == 2
    assert "there is no part" in capsys.readouterr().err


def test_a_peer_that_does_not_install_does_not_stop_the_rest(here, capsys):
    told = []
    peer = Peer("peer", "Peer", ())
    assert peers_command.install_all([peer, peer], here, told.append) == 1
    assert [line.partition(":")[2][:14] for line in told[1::2]] == [" not installed"] * 2
    assert peers_command.main(["nothing"]) == 2
    assert "no peer is called nothing" in capsys.readouterr().err


def test_hostile_texts_have_the_length_that_was_asked_for():
    for name, make in HOSTILE.items():
        assert abs(len(make(10_000)) - 10_000) < 200, name
