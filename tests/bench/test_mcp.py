"""Tools of a real MCP server, over stdio and over HTTP: listed, called with leave, closed."""

import asyncio
import json
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.mcp_tools import close_servers, connect, inline, open_server
from bench.own.tools import load_entries
from bench.status import FOUND, OK
from bench.tools import leave_for
from bench.tools.toolbox import Toolbox
from bench.types import WorkbenchError
from parsers import Call

pytest.importorskip("mcp", reason="the extra mcp is not installed")

SERVER = Path(__file__).parent / "mcp_server.py"
STDIO = f"mcp:{shlex.join([sys.executable, str(SERVER)])}"
SLOW = 120.0
"""Seconds that a call may take on a busy machine."""


@pytest.fixture(scope="module")
def http():
    """Serve over HTTP on a free port for as long as the module's tests run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(SERVER), str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, process)
        yield f"mcp:http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def _wait_for(port, process):
    for _ in range(1200):
        assert process.poll() is None, "the server ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the server does not listen")


@pytest.fixture(params=["stdio", "http"])
def target(request):
    yield STDIO if request.param == "stdio" else request.getfixturevalue("http")
    close_servers()


def run(toolbox, name, *allowed, **arguments):
    return asyncio.run(toolbox.run(Call(name, arguments), leave_for(allowed)))


def test_a_servers_tools_are_listed_called_and_closed(target, capsys):
    entries, files = load_entries([target], SLOW)
    toolbox = Toolbox(entries, SLOW)

    names = [tool.name for tool in toolbox.tools]
    assert names == ["add", "shop_buy", "refuse", "leave_a_note"]
    assert files == ()
    told = capsys.readouterr().err
    assert "till 1.2, 4 tools" in told
    assert "add (says that it only reads)" in told
    assert "shop_buy (says that it changes something)" in told

    assert run(toolbox, "add", "add", a=1, b=2).content == "3"
    bought = run(toolbox, "shop_buy", "shop_buy", item={"name": "tea"})
    assert json.loads(bought.content) == {"bought": "tea", "count": 1}
    failed = run(toolbox, "refuse", "refuse", why="no")
    assert failed.error
    assert "the tool failed" in failed.content
    assert run(toolbox, "add", "add", a="one", b=2).error  # told by the schema, never sent

    server = open_server(target)
    close_servers()
    after = run(toolbox, "add", "add", a=1, b=2)
    assert after.error
    with pytest.raises(RuntimeError):
        server.caller("add", SLOW)(a=1, b=2)


def test_a_call_needs_leave_whatever_the_server_says(target, tmp_path):
    entries, _ = load_entries([target], SLOW)
    toolbox = Toolbox(entries, SLOW)
    note = tmp_path / "note.txt"

    assert all(entry.changes for entry in entries)  # also the one that says that it only reads
    refused = run(toolbox, "leave_a_note", path=str(note))
    assert refused.error
    assert refused.leave is None
    assert not note.exists()

    allowed = run(toolbox, "leave_a_note", "leave_a_note", path=str(note))
    assert allowed.leave == "flag"
    assert note.read_text(encoding="utf-8") == "ran"


def test_a_started_server_is_ended(tmp_path):
    script = tmp_path / "server.sh"
    script.write_text(
        f'echo $$ > {tmp_path}/pid\nexec "{sys.executable}" "{SERVER}"\n', encoding="utf-8"
    )

    with connect(f"mcp:sh {script}"):
        pid = int((tmp_path / "pid").read_text())
        assert Path(f"/proc/{pid}").exists()

    assert not Path(f"/proc/{pid}").exists()


def test_nested_objects_are_shown_whole(target):
    entries, _ = load_entries([target], SLOW)
    item = entries[1].tool.parameters["properties"]["item"]

    assert item["properties"]["name"]["description"] == "What it is called."
    assert "$defs" not in entries[1].tool.parameters


SCHEMAS = {
    "nothing to put in": ({"type": "object"}, {"type": "object"}),
    "a definition": (
        {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
        {"properties": {"a": {"type": "string"}}},
    ),
    "what stands beside wins": (
        {"items": {"$ref": "#/$defs/A", "title": "x"}, "$defs": {"A": {"title": "y"}}},
        {"items": {"title": "x"}},
    ),
}
LEFT = {
    "one that holds itself": {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"items": {"$ref": "#/$defs/A"}}},
    },
    "one that points nowhere": {"items": {"$ref": "#/$defs/B"}, "$defs": {}},
    "one that grows without end": {
        "items": {"$ref": "#/$defs/D0"},
        "$defs": {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 8} for n in range(30)}
        | {"D30": {}},
    },
}


@pytest.mark.parametrize(("schema", "plain"), SCHEMAS.values(), ids=SCHEMAS)
def test_definitions_are_put_in(schema, plain):
    assert inline(schema) == plain


@pytest.mark.parametrize("schema", LEFT.values(), ids=LEFT)
def test_what_can_not_be_put_in_stays(schema):
    assert inline(schema) is schema


WRONG = {
    "no such command": ("mcp:no-such-command-here", "No such file or directory"),
    "a command that is no server": (
        f"mcp:{shlex.join([sys.executable, '-c', 'import sys; sys.exit(chr(98) * 3)'])}",
        "no MCP server answers there",
    ),
    "nobody listens": ("mcp:http://127.0.0.1:9/mcp", "no MCP server answers there"),
    "nothing named": ("mcp:", "name a command"),
    "an open quote": ("mcp:'x", "can't be split into words"),
    "a key in the address": ("mcp:http://127.0.0.1:9/mcp?api_key=x", "leave keys out"),
}


@pytest.mark.parametrize(("target", "words"), WRONG.values(), ids=WRONG)
def test_what_is_no_server_is_one_line(target, words):
    with pytest.raises(WorkbenchError, match=words) as told:
        load_entries([target])
    assert "\n" not in str(told.value)


def test_lint_reads_a_servers_tools(capsys):
    status = main(["lint", STDIO, "--json"])

    told = capsys.readouterr()
    assert status == FOUND
    assert {json.loads(line)["tool"] for line in told.out.splitlines()} <= {
        "add",
        "shop_buy",
        "refuse",
        "leave_a_note",
    }


def test_a_comparison_uses_a_servers_tools(tmp_path):
    tasks, script = tmp_path / "tasks.jsonl", tmp_path / "script.jsonl"
    wanted = {"t1": ("add", {"a": 1, "b": 2}), "t2": ("shop_buy", {"item": {"name": "tea"}})}
    tasks.write_text(
        _lines({"id": k, "question": f"{k}?", "expected_tool": t} for k, (t, _) in wanted.items())
    )
    script.write_text(
        _lines(
            {"task": k, "replies": [{"call": t, "arguments": a}, {"answer": "It is 3."}]}
            for k, (t, a) in wanted.items()
        )
    )
    words = ["compare", "--tools", STDIO, "--tasks", str(tasks), "--script", str(script)]
    words += ["--tool-timeout", str(SLOW), "--results", str(tmp_path / "runs"), "--allow", "add"]

    assert main(words) == OK

    (run,) = (tmp_path / "runs").iterdir()
    lines = map(json.loads, (run / "episodes.jsonl").read_text(encoding="utf-8").splitlines())
    results = [r for line in lines for turn in line["turns"] for r in turn.get("results", ())]
    assert [r["leave"] for r in results if r["content"] == "3"] == ["flag"] * 2
    assert [r["tool"] for r in results if "not allowed" in r["content"]] == ["shop_buy"] * 2


def _lines(rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)
