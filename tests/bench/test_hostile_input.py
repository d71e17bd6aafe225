"""What others wrote, at its worst: no crash, no traceback, bounded memory, nothing steers a terminal.

`pytest -s tests/bench/test_hostile_input.py` prints what each case took at its peak.
"""

import asyncio
import gzip
import io
import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

from bench import report
from bench.__main__ import main
from bench.clients import OpenAIClient, Patience, ScriptedClient
from bench.drivers import NativeDriver, ReactDriver
from bench.hostile import NAMES, TERMINAL
from bench.loop import solve
from bench.paths import find_datasets
from bench.records import MAX_LINE, RunFolder
from bench.run import Job, plan_jobs, run_all, score_episode
from bench.show import show_episode
from bench.status import FOUND, MISTAKE, OK, UNSURE
from bench.types import Budget, Gold, Reply, Task

pytest.importorskip("resource", reason="this system counts no process's memory")
MB = 1_000_000
DEEP = 100_000
BASE = 260
"""MiB that a command takes with everything loaded and nothing to do, at most."""
ALL = "".join(TERMINAL.values())
TOOL = {"name": "look_up", "description": "Look something up.", "parameters": {"type": "object", "properties": {}}}  # fmt: skip


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def task(**more):
    return lines({"question": "What?", "expected_tool": "none", **more})


def tool(**more):
    return json.dumps([{**TOOL, **more}])


def nest(depth, opening="[", closing="]"):
    return opening * depth + closing * depth


# ------------------------------------------------------------ files

SCRIPT = ("--script", "replies.jsonl")
"""A script that is read before its tasks are asked for: no model is needed."""
TASKS = ("compare", "--dry-run", *SCRIPT, "--tasks")
TOOLS = ("compare", "--dry-run", *SCRIPT, "--tasks", "plain.jsonl", "--tools")
LINT = ("lint",)
CONFIG = ("compare", "--dry-run", *SCRIPT, "--tasks", "plain.jsonl", "--config")
VARIANTS = ("compare", "--dry-run", *SCRIPT, "--tasks", "plain.jsonl", "--variants")
REPLAY = ("doctor", "--replay")
STORED = ("rescore", "--format", "openai-messages")
BFCL = ("tasks", "--tasks", "bfcl:simple_python", "--bfcl")
PROFILE = ("pairing", "--dry-run", "--profile")
ENDPOINT = ("endpoint", "--script")
ASK = ("lint", "weather", "--ask", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--yes")
QUESTIONS = (*ASK, "--questions")

RECORDING = find_datasets() / "recordings" / "doctor-smollm2-135m.jsonl.gz"
_LINES = gzip.decompress(RECORDING.read_bytes()).decode().splitlines()
MANIFEST = json.loads(_LINES[0])
STEP = next(row for row in map(json.loads, _LINES) if row["type"] == "step")


def recording(manifest=(), step=(), **reply):
    """Write a recording of one step, with other values in its parts."""
    answer = {**STEP["reply"], **reply}
    return lines({**MANIFEST, **dict(manifest)}, {**STEP, "reply": answer, **dict(step)})


def conversation(**more):
    said = {"role": "assistant", "content": "Thought: so.\nAction: look_up\nAction Input: {}"}
    return lines({"messages": [said], "tools": [TOOL], **more})


def reply_of(**message):
    return conversation(messages=[{"role": "assistant", **message}])


def bomb(size):
    """Pack so many MB of zeros, one gzip member after the other."""
    packer = zlib.compressobj(9, wbits=31)
    return (packer.compress(bytes(8 * MB)) + packer.flush()) * (size // 8)


START = "bfcl_eval/data/"
FILE = "BFCL_v4_simple_python.json"


def wheel(content, method=zipfile.ZIP_DEFLATED, names=(FILE, f"possible_answer/{FILE}")):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name in names:
            archive.writestr(START + name, content)
    return data.getvalue()


def understate(data, size):
    """Let every header of a wheel say that its files are small."""
    data = bytearray(data)
    for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.find(mark)
        while at >= 0:
            data[at + place : at + place + 4] = struct.pack("<I", size)
            at = data.find(mark, at + 4)
    return bytes(data)


def encrypt(data):
    """Mark every file of a wheel as encrypted."""
    data = bytearray(data)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + place] |= 1
            at = data.find(mark, at + 4)
    return bytes(data)


class Sparse(int):
    """A file of so many bytes of nothing."""


FILES = {
    # tasks
    "tasks, nested deeply": ("t.jsonl", '{"question": ' + nest(DEEP) + "}", TASKS),
    "tasks, nested objects": ("t.jsonl", '{"a":' * DEEP, TASKS),
    "tasks, nested less": ("t.jsonl", task(expected_arguments=json.loads(nest(900))), TASKS),
    "tasks, half a surrogate": ("t.jsonl", '{"question": "\\ud800", "expected_tool": "none"}', TASKS),
    "tasks, an id of half a surrogate": ("t.jsonl", '{"id": "\\ud800", "question": "Q", "expected_tool": "none"}', TASKS),
    "tasks, everything": ("t.jsonl", task(question=ALL, category=ALL, note=ALL), TASKS),
    "tasks, a column": ("t.jsonl", task(**{ALL: 1}), TASKS),
    "tasks, a toolset": ("t.jsonl", task(toolset=ALL * 500), TASKS),
    "tasks, a long number": ("t.jsonl", '{"question": ' + "9" * 6_000 + "}", TASKS),
    "tasks, no UTF-8": ("t.jsonl", b"\xff\xfe\x00", TASKS),
    "tasks, nothing but NUL": ("t.jsonl", bytes(1_000), TASKS),
    "tasks, a long line": ("t.jsonl", task(question="x" * 5 * MB), TASKS),
    "tasks, 100 MB": ("t.jsonl", Sparse(100 * MB), TASKS),
    "tasks, CSV with NUL": ("t.csv", "question,expected_tool\na\0b,none\n", TASKS),
    "tasks, CSV with everything": ("t.csv", f"question,expected_tool\n{ALL},{ALL}\n", TASKS),
    "tasks, a large cell": ("t.csv", f'question,expected_tool\n"{"x" * 200_000}",none\n', TASKS),
    **{f"tasks, named {name[:12]!r}": ("t.jsonl", task(id=name, pair=name), TASKS) for name in NAMES},
    # tools
    "tools, nested deeply": ("t.json", nest(DEEP), TOOLS),
    "tools, a schema nested deeply": ("t.json", '[{"name": "f", "parameters": ' + '{"a":' * DEEP, TOOLS),
    "tools, a schema nested less": ("t.json", tool(parameters={**TOOL["parameters"], "default": json.loads(nest(900))}), TOOLS),
    "tools, everything": ("t.json", tool(name=ALL, description=ALL), TOOLS),
    "tools, everything, to the linter": ("t.json", tool(name=ALL, description=ALL, parameters={"type": ALL, "properties": {ALL: {"description": ALL}}}), LINT),
    "tools, half a surrogate": ("t.json", tool(parameters={"type": "object", "properties": {"\ud800": {}}}), TOOLS),
    "tools, half a surrogate, to the linter": ("t.json", tool(description="\ud800"), LINT),
    "tools, a schema of elsewhere": ("t.json", tool(parameters={"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}), TOOLS),
    "tools, three hundred": ("t.json", json.dumps([{**TOOL, "name": f"f{n}"} for n in range(300)]), TOOLS),
    "tools, 100 MB": ("t.json", Sparse(100 * MB), TOOLS),
    "tools, YAML nested deeply": ("t.yaml", "[" * 5_000, TOOLS),
    "tools, YAML that runs code": ("t.yaml", "!!python/object/apply:os.system ['touch x']", TOOLS),
    "tools, YAML that multiplies": ("t.yaml", "a: &a [x, x]\nb: &b [*a, *a]\n", TOOLS),
    "tools, YAML with an escape": ("t.yaml", '- {name: "\\e[31m", description: "\\u202e"}\n', TOOLS),
    **{f"tools, named {name[:12]!r}": ("t.json", tool(name=name), TOOLS) for name in NAMES},
    # what else a user names
    "options, nested deeply": ("o.toml", "a = " + "[" * DEEP, CONFIG),
    "options, an escape": ("o.toml", 'limit = "\\u001b[31m\\u202e"', CONFIG),
    "options, a name with an escape": ("o.toml", '"\\u001b[31m" = 1', CONFIG),
    "options, a path with NUL": ("o.toml", 'variants = "a\\u0000b"', CONFIG),
    "options, 100 MB": ("o.toml", Sparse(100 * MB), CONFIG),
    "variants, nested deeply": ("v.json", '{"a":' * DEEP, VARIANTS),
    "variants, a name": ("v.json", json.dumps({ALL: {}}), VARIANTS),
    "a profile, nested deeply": ("p.json", "[" * DEEP, PROFILE),
    "a profile, everything": ("p.json", json.dumps({"name": ALL, ALL: ALL}), PROFILE),
    "a profile, 100 MB": ("p.json", Sparse(100 * MB), PROFILE),
    "an endpoint's script, nested deeply": ("e.jsonl", '{"a":' * DEEP, ENDPOINT),
    "an endpoint's script, 100 MB": ("e.jsonl", Sparse(100 * MB), ENDPOINT),
    "an endpoint's script, everything": ("e.jsonl", lines({ALL: ALL}), ENDPOINT),
    "questions, nested deeply": ("q.json", "[" * DEEP, QUESTIONS),
    "a script of replies, nested deeply": ("s.jsonl", "[" * DEEP, ("compare", "--tasks", "plain.jsonl", "--script")),
    # recordings
    "a recording, nested deeply": ("r.jsonl", lines(MANIFEST) + "[" * DEEP + "\n", REPLAY),
    "a recording, nested less": ("r.jsonl", recording({"notes": {"a": json.loads(nest(900))}}), REPLAY),
    "a recording, a body nested deeply": ("r.jsonl", recording(body=nest(DEEP)), REPLAY),
    "a recording, everything": ("r.jsonl", recording({"endpoint": ALL, "model": ALL, "host": ALL, "machine": ALL}, {"task_id": ALL}, body=ALL, model=ALL), REPLAY),
    "a recording, an answer of everything": ("r.jsonl", recording({"endpoint": ALL}, body=json.dumps({"choices": [{"message": {"content": ALL}}]})), REPLAY),
    "a recording, a body that is none": ("r.jsonl", recording(body=[ALL]), REPLAY),
    "a recording, headers that are none": ("r.jsonl", recording(headers="x"), REPLAY),
    "a recording, endless trials": ("r.jsonl", recording({"trials": 10**9}), REPLAY),
    "a recording, an endless context": ("r.jsonl", recording({"context": 10**9}), REPLAY),
    "a recording, settings that are none": ("r.jsonl", recording({"settings": ALL}), REPLAY),
    "a recording without an endpoint": ("r.jsonl", lines({"type": "manifest", "format": 1}), REPLAY),
    "a recording that is no gzip": ("r.jsonl.gz", ALL.encode("utf-8", "surrogatepass"), REPLAY),
    "a recording that is cut": ("r.jsonl.gz", RECORDING.read_bytes()[:3_000], REPLAY),
    "a recording, a gzip bomb": ("r.jsonl.gz", bomb(1_000), REPLAY),
    "a recording, a bomb of lines": ("r.jsonl.gz", gzip.compress(b"\n" * 80 * MB), REPLAY),
    "a recording, a packed bomb": ("r.jsonl.gz", gzip.compress(bomb(1_000)), REPLAY),
    "a recording, 100 MB of nothing": ("r.jsonl", Sparse(100 * MB), REPLAY),
    **{f"a recording, named {name[:12]!r}": ("r.jsonl", recording({"endpoint": name, "model": name}), REPLAY) for name in NAMES},
    # conversations
    "conversations, nested deeply": ("c.jsonl", nest(DEEP), STORED),
    "conversations, messages nested deeply": ("c.jsonl", '{"messages": ' + nest(DEEP) + "}", STORED),
    "conversations, a message nested less": ("c.jsonl", reply_of(content="x", more=json.loads(nest(900))), STORED),
    "conversations, arguments nested deeply": ("c.jsonl", reply_of(content=f"Action: look_up\nAction Input: {nest(DEEP)}"), STORED),
    "conversations, a call nested deeply": ("c.jsonl", reply_of(content=None, tool_calls=[{"function": {"name": "look_up", "arguments": '{"a":' * DEEP}}]), STORED),
    "conversations, everything": ("c.jsonl", conversation(id=ALL, driver="react") + reply_of(content=f"Action: {ALL}\nAction Input: {ALL}"), STORED),
    "conversations, an unreadable one of a long name": ("c.jsonl", conversation(id="x" * 10_000, messages=[{"role": "assistant", "content": "Action: "}]), STORED),
    "conversations, half a surrogate": ("c.jsonl", conversation(id="\ud800") + reply_of(content="Action: look_up\nAction Input: \ud800"), STORED),
    "conversations, a schema that loops": ("c.jsonl", conversation(tools=[{**TOOL, "parameters": {"type": "object", "properties": {"a": {"$ref": "#"}}}}]), STORED),
    "conversations, a schema of elsewhere": ("c.jsonl", conversation(tools=[{**TOOL, "parameters": {"$ref": "http://127.0.0.1:9/x"}}]), STORED),
    "conversations, small values without end": ("c.json", "[" + "[]," * 8 * MB + "[]]", STORED),
    "conversations, 100 MB of nothing": ("c.jsonl", Sparse(100 * MB), STORED),
    "conversations, 100 MB in one value": ("c.json", '[{"messages": [{"role": "assistant", "content": "' + "x" * 100 * MB + '"}]}]', STORED),
    # BFCL
    "BFCL, everything": ("bfcl_eval-1-py3-none-any.whl", wheel(lines({"id": ALL, ALL: ALL})), BFCL),
    "BFCL, nested deeply": ("bfcl_eval-1-py3-none-any.whl", wheel("[" * DEEP), BFCL),
    "BFCL, a zip bomb": ("bfcl_eval-1-py3-none-any.whl", wheel(bytes(39 * MB)), BFCL),
    "BFCL, a zip bomb whose header lies": ("bfcl_eval-1-py3-none-any.whl", understate(wheel(bytes(300 * MB)), 9_000), BFCL),
    "BFCL, a bomb of another packing": ("bfcl_eval-1-py3-none-any.whl", wheel(bytes(30 * MB), zipfile.ZIP_BZIP2), BFCL),
    "BFCL, encrypted": ("bfcl_eval-1-py3-none-any.whl", encrypt(wheel("x")), BFCL),
    "BFCL, cut": ("bfcl_eval-1-py3-none-any.whl", wheel(os.urandom(9_000))[:-4_000], BFCL),
    "BFCL, names that climb": ("bfcl_eval-1-py3-none-any.whl", wheel("{}", names=(f"../../{FILE}", f"possible_answer/../../{FILE}")), BFCL),
    "BFCL, 100 MB of nothing": ("bfcl_eval-1-py3-none-any.whl", Sparse(100 * MB), BFCL),
    "BFCL, 100 MB in a folder": (FILE, Sparse(100 * MB), (*BFCL, ".")),
}  # fmt: skip
PEAKS = {
    "conversations, 100 MB in one value": 120,
    "conversations, 100 MB of nothing": 120,
    "a recording, 100 MB of nothing": 120,
}
"""MiB beyond the base that a case may take; 60 where nothing is said."""

BROOD = """\
import contextlib, io, json, os, resource, sys, time
from bench.__main__ import main
import bench.doctor, bench.compare, bench.transcripts, bench.lint, bench.own.tasks, bench.own.tools
import bench.bfcl.replay, bench.tools, bench.experiments, bench.lab.ask, bench.endpoint, bench.own.check
for line in sys.stdin:
    folder, words = json.loads(line)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        os.chdir(folder)
        out = open("said", "w", encoding="utf-8", errors="surrogateescape")
        sys.stdin, sys.stdout, sys.stderr = open(os.devnull), out, out
        status = 99
        try:
            status = main(words)
        except BaseException as error:
            out.write("Traceback " + repr(error)[:500])
        finally:
            out.flush()
            os._exit(status)
    _, status, used = os.wait4(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_maxrss // 1024]), flush=True)
"""
"""Run commands, each in a process of its own that shares what is loaded; say what each took."""


@pytest.fixture(scope="module")
def brood():
    """Give a function that runs a command in a folder: status, what it said, MiB at the peak."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LLM_", "OPENAI_"))}
    environment["PYTHONPATH"] = str(Path(__file__).parent.parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", BROOD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )

    def run(folder, *words):
        process.stdin.write(json.dumps([str(folder), words]) + "\n")
        process.stdin.flush()
        status, peak = json.loads(process.stdout.readline())
        return status, (folder / "said").read_text(encoding="utf-8"), peak

    yield run
    process.stdin.close()
    process.wait()
    process.stdout.close()


@pytest.fixture(scope="module")
def idle(brood, tmp_path_factory):
    """Return what a command takes that has nothing to do, in MiB."""
    _, _, peak = brood(tmp_path_factory.mktemp("idle"), "list", "--results", "none")
    assert peak < BASE
    return peak


@pytest.fixture
def folder(tmp_path):
    """Work deep in a tree of one's own, so that what climbs out of it is seen."""
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "plain.jsonl").write_text(task(id="t-1"))
    (deep / "replies.jsonl").write_text(
        "".join(
            lines({"task": name, "replies": [{"answer": "x"}]}) for name in ("t-1", "own-01", "CON")
        )
    )
    return deep


def write(path, content):
    if isinstance(content, Sparse):
        with path.open("wb") as file:
            file.truncate(content)
    elif isinstance(content, str):
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
    else:
        path.write_bytes(content)


def harmless(text):
    """Tell whether a terminal shows a text as it stands: nothing moves, turns or hides."""
    return all(c.isprintable() or c in "\n\t\u00a0\u202f\u3000" for c in text)


@pytest.mark.parametrize(("name", "case"), FILES.items(), ids=FILES)
def test_a_hostile_file_is_refused_or_read(brood, idle, folder, tmp_path, name, case):
    file, content, words = case
    write(folder / file, content)
    status, said, peak = brood(folder, *words, *([] if words[-1] == "." else [file]))
    sys.stdout.write(f"{peak - idle:>6} MiB  exit {status}  {name}\n")
    assert status in (OK, FOUND, MISTAKE, UNSURE), said
    assert "Traceback" not in said
    assert "a fault of the workbench" not in said
    assert harmless(said)
    assert len(said) < 40_000
    assert status != MISTAKE or said.splitlines()[-1].startswith("bench: ")
    assert peak - idle < PEAKS.get(name, 60)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {file, "plain.jsonl", "replies.jsonl", "said"}


def test_a_large_recording_is_read_whole(brood, idle, folder):
    body = json.dumps({"choices": [{"message": {"role": "assistant", "content": "x" * 100_000}}]})
    with (folder / "r.jsonl").open("w") as file:
        file.write(lines(MANIFEST))
        for number in range(1_000):
            file.write(
                lines(
                    {**STEP, "request": f"{number:016x}", "reply": {**STEP["reply"], "body": body}}
                )
            )
    assert (folder / "r.jsonl").stat().st_size > 100 * MB
    status, said, peak = brood(folder, *REPLAY, "r.jsonl")
    sys.stdout.write(f"{peak - idle:>6} MiB  exit {status}  a recording of 100 MB of answers\n")
    assert (status, "holds no such question" in said) == (MISTAKE, True)
    assert peak - idle < 200


# ------------------------------------------------------------ an endpoint


def endless(piece, pieces, kind="application/json", status=200, start=b"", **headers):
    """Send a body in pieces, as long as somebody reads it."""

    def answer(handler):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(start)
        for _ in range(pieces):
            handler.wfile.write(piece)
        handler.close_connection = True

    return answer


EVENT = f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': 'x' * 1_000}}]})}\n\n".encode()
LARGE = {
    "an answer of 100 MB in small values": endless(b"[]," * (MB // 3), 100, start=b"["),
    "a redirection with a long body": endless(b"x" * MB, 2, status=307, location="/v1/x"),
    "a refusal that grows": endless(bomb(8), 200, status=400, content_encoding="gzip"),
    "a stream of 100 MB": endless(EVENT, 100_000, kind="text/event-stream"),
}


@pytest.mark.parametrize(("name", "answer"), LARGE.items(), ids=LARGE)
def test_an_endless_answer_is_cut(brood, idle, endpoint, folder, name, answer):
    endpoint.answers = [answer]
    where = ("--model", "m", "--base-url", endpoint.base_url)
    status, said, peak = brood(folder, "compare", *where, "--yes", "--limit", "1")
    sys.stdout.write(f"{peak - idle:>6} MiB  exit {status}  {name}\n")
    assert status == MISTAKE, said
    assert said.splitlines()[-1].startswith("bench: endpoint m: ")
    assert harmless(said)
    assert peak - idle < 400


def chat(message):
    return json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", **message}}]})


def calls(*made):
    entries = [
        {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
        for identity, name, arguments in made
    ]
    return chat({"content": None, "tool_calls": entries})


def raw(message):
    return f'{{"choices": [{{"index": 0, "message": {{"role": "assistant", {message}}}}}]}}'


GOOD = '{"city": "Bonn"}'
BODIES = {
    "everything": chat({"content": f"Thought: {ALL}\nAction: {ALL}\nAction Input: {ALL}"}),
    "everything, as an answer": chat({"content": f"Final Answer: {ALL}"}),
    "everything, in calls": calls((ALL, ALL, ALL), (ALL, "get_weather", json.dumps({"city": ALL}))),
    "paths as ids and names": calls(*[(name, name, GOOD) for name in NAMES]),
    "paths as arguments": calls(*[(f"c{n}", "get_weather", json.dumps({"city": name})) for n, name in enumerate(NAMES)]),
    "half surrogates": raw('"content": "\\ud800 Final Answer: \\udfff"'),
    "half surrogates in a call": raw('"content": null, "tool_calls": [{"id": "\\ud800", "\\ud800": 1, "type": "function", "function": {"name": "get_weather", "arguments": "{\\"city\\": \\"\\ud800\\", \\"\\udfff\\": 1}"}}]'),
    "a thousand calls": calls(*[(f"c{n}", "get_weather", GOOD) for n in range(1_000)]),
    "numbers that are none": '{"choices": [{"index": NaN, "message": {"content": "x"}}], "usage": {"prompt_tokens": 1e999}}',
    "a long number": raw('"content": ' + "9" * 6_000),
    "an empty list": "[]",
    **{f"{depth} deep": nest(depth) for depth in (300, 900, DEEP)},
    **{f"content {depth} deep": raw(f'"content": {nest(depth)}') for depth in (300, 900, DEEP)},
    **{f"a further field {depth} deep": raw(f'"content": "x", "more": {nest(depth)}') for depth in (300, 900, DEEP)},
    **{f"a call's field {depth} deep": raw(f'"content": null, "tool_calls": [{{"id": "c", "more": {nest(depth)}, "type": "function", "function": {{"name": "get_weather", "arguments": "{{}}"}}}}]') for depth in (300, 900, DEEP)},
    **{f"arguments {depth} deep": calls(("c", "get_weather", f'{{"city": {nest(depth)}}}')) for depth in (150, 900, DEEP)},
    **{f"an action {depth} deep": chat({"content": f'Action: get_weather\nAction Input: {{"city": {nest(depth)}}}'}) for depth in (150, 900, DEEP)},
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_hostile_reply_is_read_kept_and_shown(endpoint, folder, toolbox, body, way):
    endpoint.answers = [lambda handler: handler.send(200, body)]
    client = OpenAIClient(
        "here", "m", base_url=endpoint.base_url, api_key="none", patience=Patience(tries=1)
    )
    question = Task("t-1", "t-1", "en", "own", "own", "How warm is it in Bonn?", Gold())
    run = RunFolder.create(folder / "results", "mine", {"format": 1})

    async def go():
        try:
            return await solve(question, toolbox, way.driver, client, budget=Budget(steps=3))
        finally:
            await client.close()

    episode = asyncio.run(go())
    run.append(episode, score_episode(Job(question, way.driver, client), episode, toolbox))
    run.close()
    [stored] = run.episodes()
    assert stored.stop == episode.stop
    assert harmless(show_episode(stored))
    assert {path.name for path in folder.rglob("*.json*")} >= {"episodes.jsonl", "manifest.json"}
    assert [path.name for path in folder.parent.parent.iterdir()] == ["b"]


def test_an_episode_that_no_reader_would_take_is_noted_and_left_out(folder, task, toolbox):
    client = ScriptedClient(lambda _: Reply(0, {}, "x" * MAX_LINE))
    run = RunFolder.create(folder, "mine", {"format": 1})
    job = Job(task, NativeDriver(), client)
    tally = asyncio.run(run_all([job], run, toolbox_for=lambda *_: toolbox))
    run.close()
    assert len(tally.broken) == 1
    assert "at most 32 are read" in tally.broken[0]
    assert list(run.episodes()) == []


# ------------------------------------------------------------ the terminal and the page


@pytest.mark.parametrize("mark", TERMINAL.values(), ids=TERMINAL)
def test_nothing_steers_a_terminal(capsys, endpoint, folder, monkeypatch, mark):
    monkeypatch.chdir(folder)
    endpoint.answers = [
        lambda handler: handler.send(400, json.dumps({"error": {"message": f"no {mark} here"}}))
    ]
    where = ("--model", mark.replace("\0", ""), "--base-url", endpoint.base_url)
    for words in (
        ["doctor", *where],
        ["compare", *where, "--yes", "--results", "r"],
        ["compare", "--drivers", mark],
        ["show", mark, mark],
        [mark],
        ["list", f"--{mark}"],
    ):
        main(words)
        out, err = capsys.readouterr()
        assert harmless(out + err), words


@pytest.fixture(scope="module")
def page(tmp_path_factory, hostile_tools):
    """Report a run in which every name and text is hostile; give its address."""
    root = tmp_path_factory.mktemp("page")
    about = {"notes": [*NAMES, *TERMINAL.values(), *PAGE], "machine": ALL, "command": ALL}
    endpoints = [{"name": name, "model": name} for name in PAGE[:3]]
    manifest = {"format": 1, **about, "endpoints": endpoints, "settings": {ALL: ALL}}
    folder = RunFolder.create(root, "compare", manifest)
    clients = [ScriptedClient(_hostile_answer, name, name) for name in PAGE[:3]]
    names = (*PAGE, NAMES[0], "x" * 10_000)
    tasks = [Task(name, name, "en", name, "own", f"{name} {ALL}", Gold()) for name in names]
    jobs = plan_jobs(tasks, [ReactDriver(), NativeDriver()], clients)
    tally = asyncio.run(run_all(jobs, folder, toolbox_for=lambda *_: hostile_tools))
    folder.close()
    assert not tally.broken
    return report.write_report(folder)[1]


PAGE = (
    "<script>document.title='ran'</script>",
    "<img src=x onerror=\"document.title='ran'\">",
    "</script></style></textarea><svg onload=\"document.title='ran'\">",
    "javascript:document.title='ran'",
    "\"'><iframe srcdoc=\"<script>top.document.title='ran'</script>\">",
    "{{ 7*7 }} {% raw %} ${document.title='ran'}",
)
"""What runs in a page that does not escape: each says so in the page's title."""


def _hostile_answer(request):
    """Call a tool once, then answer, with everything in every place."""
    everything = " ".join((*PAGE, ALL))
    if request.key.step:
        return {"role": "assistant", "content": f"Final Answer: {everything}"}
    if "tools" in request.options:
        function = {"name": "get_weather", "arguments": json.dumps({"city": everything})}
        calls = [{"id": everything, "type": "function", "function": function}]
        return {"role": "assistant", "content": everything, "tool_calls": calls}
    arguments = json.dumps({"city": everything})
    return f"Thought: {everything}\nAction: get_weather\nAction Input: {arguments}"


@pytest.fixture(scope="module")
def hostile_tools():
    from bench.tools import toolbox_from

    def get_weather(city: str) -> dict:
        """Tell the weather.

        Args:
            city: A city.
        """
        return {"error": f"no {city}", "page": list(PAGE)}

    return toolbox_from([get_weather])


def test_no_script_runs_in_the_page_of_a_hostile_run(page, browser):
    text = page.read_text(encoding="utf-8")
    assert all(mark not in text for mark in ("\x1b", "\u202e", "\u2066", "\x00"))
    browser.look()
    browser.open(page.as_uri())
    title = browser.run("document.title")
    browser.open(page.as_uri() + "#episodes?open=0")
    browser.wait("document.querySelector('.episode')")
    for number in range(3):
        browser.run(f"document.querySelectorAll('.list a')[{number}]?.click()")
        browser.wait("document.querySelector('.episode')")
    browser.run("document.querySelectorAll('details').forEach((one) => {one.open = true})")
    shown = browser.run("document.querySelector('.episode').textContent")
    assert PAGE[0] in shown
    assert browser.run("document.title") == title
    assert "ran" not in title.split()
    assert browser.run("document.scripts.length") == 3
    assert (
        browser.run("document.querySelectorAll('iframe, img, svg [onload], [onerror]').length") == 0
    )
    assert browser.errors == []
    assert {path.name for path in page.parent.parent.iterdir()} == {page.parent.name}


def test_what_the_page_escapes_would_run(tmp_path, browser):
    page = tmp_path / "page.html"
    page.write_text(f"<title>x</title>{PAGE[1]}", encoding="utf-8")
    browser.ask("Page.navigate", url=page.as_uri())
    browser.wait("document.title === 'ran'")
