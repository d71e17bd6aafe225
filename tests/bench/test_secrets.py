"""Planted keys: said in every way, echoed from every side, and then looked for in all that is left."""

import asyncio
import base64
import gzip
import html
import json
import os
import shlex
import subprocess
import sys
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

from bench import secret
from bench.__main__ import main
from bench.clients import OpenAIClient, Patience, ScriptedClient
from bench.drivers import NativeDriver, ReactDriver, open_reply
from bench.recordings import Recording
from bench.records import RunFolder, list_runs, to_json
from bench.run import Job, run_all
from bench.status import FAULT, MISTAKE, OK
from bench.types import Request, StepKey
from parsers import Tool

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

# ------------------------------------------------------------ what is planted

ACCOUNT = "acct-471108-815"
"""What the user's own pattern finds."""
ENV_KEY = "sk-env-Q7wZx9Lm-R4tYu8Kp"
MAKER = "sk-oai/H2jNb5Vc+T6gFr3Ds"
OWN_KEY = "sk-own.M8nBv4Cx_Z1aSd7Fg"
FLAG = "sk-flag=W3eRt6Yu=I9oPa2Sd"
TOKEN = "ghp_J5kLz8Xc0Vb3Nm1QwE4r"
HEADER = "hdr-U7yTr4Ew-Q2aZs9Xd"
BEARER = "brr.E6rTy1Ui.O8pAs3Df"
COOKIE = "ck-G5hJk2Lz-X7cVb9Nm"
PASSWORD = "pw$K4jHg8Fd$S1aQw6Er"
FIELD = "fld-P9oIu3Yt-R5eWq7Za"
SERVER = "mcp-C2vBn6Mk-J8hGf4Ds"
PLANTED = {
    "the key in the environment": ENV_KEY,
    "another maker's key there": MAKER,
    "an endpoint's own key": OWN_KEY,
    "the key of the flag": FLAG,
    "another program's token": TOKEN,
    "a header's value": HEADER,
    "a bearer's token": BEARER,
    "a cookie": COOKIE,
    "a password": PASSWORD,
    "a further field's token": FIELD,
    "a server's argument": SERVER,
    "what a pattern finds": ACCOUNT,
}
WORDS = [
    *("--api-key", FLAG),
    *("--header", f"X-Api-Key={HEADER}"),
    *("--header", f"X-Auth=Bearer {BEARER}"),
    *("--header", f"X-Cookie=theme=dark; session={COOKIE}"),
    *(
        "--header",
        f"X-Basic=Basic {base64.b64encode(('joe:' + PASSWORD).encode()).decode()}",
    ),
    *("--extra-body", json.dumps({"auth": {"access_token": FIELD}})),
    *("--secret", "acct-[0-9]{6}-[0-9]{3}"),
]
ENVIRONMENT = {
    "LLM_API_KEY": ENV_KEY,
    "OPENAI_API_KEY": MAKER,
    "LLM_API_KEY_HERE": OWN_KEY,
    "OTHER_TOKEN": TOKEN,
}
SAID = [value for value in PLANTED.values() if value != SERVER]


def write_forms(text):
    """Return a text as programs write it into JSON, addresses, pages and headers.

    A pattern finds what it says, and not what that is in base64.
    """
    if text == ACCOUNT:
        return {text}
    coded = json.dumps(text)[1:-1]
    return {
        text,
        coded,
        json.dumps(coded)[1:-1],
        text.replace("/", "\\/"),
        "".join(c if c.isalnum() else f"\\u{ord(c):04X}" for c in text),
        quote(text, safe=""),
        quote(quote(text, safe=""), safe=""),
        html.escape(text),
        *(base64.b64encode((lead + text).encode()).decode() for lead in ("", "a:", "ab:", "abc:")),
        base64.urlsafe_b64encode(text.encode()).decode(),
    }


def fragments(text):
    """Return what must not be left of a secret in any form, not even its half."""
    middle = len(text) // 2
    found = {part for form in write_forms(text) if "\\u" not in form for part in _halves(form)}
    return found | {text[:middle], text[middle:]}


def _halves(form):
    return form[: len(form) // 2], form[len(form) // 2 :]


def texts_in(data):
    """Yield a file's or stream's text, and every text that a reader of JSON finds in it."""
    text = data.decode("utf-8", "replace")
    yield text
    lines = (line.strip().removeprefix("data:").rstrip(",") for line in text.split("\n"))
    for line in lines:
        if line[:1] in ("{", "["):
            try:
                yield from _texts_below(json.loads(line))
            except ValueError:
                continue


def _texts_below(value):
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts_below(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_below(item)
    elif isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            yield from texts_in(value.encode("utf-8", "surrogatepass"))


def leaks(folder, *said):
    """Return where a planted secret is left: in a file below a folder, or in what was printed."""
    places = {"the terminal": "\n".join(said).encode()}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "given" not in path.parts:
            data = path.read_bytes()
            places[path.name] = gzip.decompress(data) if path.suffix == ".gz" else data
    wanted = {part: name for name, text in PLANTED.items() for part in fragments(text)}
    return [
        (where, wanted[part], part)
        for where, data in places.items()
        for text in set(texts_in(data))
        for part in wanted
        if part in text
    ]


def test_the_search_finds_what_it_looks_for(tmp_path):
    key = MAKER
    (tmp_path / "plain").write_text(f"x {key} y")
    (tmp_path / "coded.jsonl").write_text(json.dumps({"a": json.dumps([key])}))
    (tmp_path / "half.gz").write_bytes(gzip.compress(f"data: {key[:14]}".encode()))
    (tmp_path / "basic").write_bytes(base64.b64encode(b"ab:" + key.encode()))
    escaped = "".join(f"\\u{ord(c):04x}" for c in key)
    (tmp_path / "escaped").write_text(f'{{"a": "{escaped}"}}')
    found = {where for where, *_ in leaks(tmp_path)}
    assert found == {"plain", "coded.jsonl", "half.gz", "basic", "escaped"}


# ------------------------------------------------------------ an endpoint that tells all it knows

ALL = " ".join(form for text in SAID for form in sorted(write_forms(text)))


def chat(message, **more):
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"model": "m-1", "choices": [choice], **more}


def call(arguments, **more):
    function = {"name": "look_up", "arguments": arguments}
    return {"id": "c1", "type": "function", "function": function, **more}


def say(**message):
    def answer(handler):
        handler.send(200, json.dumps(chat(message)))

    return answer


def say_whole(value):
    return lambda handler: handler.send(200, json.dumps(value))


def event(delta):
    return (
        f"data: {json.dumps({'id': 'x', 'choices': [{'index': 0, 'delta': delta}]})}\n\n".encode()
    )


def stream(deltas):
    """Stream what some deltas say, in pieces of a few characters."""
    end = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'

    def answer(handler):
        handler.send_open([b"".join([event({"role": "assistant"}), *map(event, deltas), end])])

    return answer


def cut(text, size=9):
    return [text[at : at + size] for at in range(0, len(text), size)]


def cut_call(text):
    first = {"index": 0, **call("")}
    rest = [{"index": 0, "function": {"arguments": piece}} for piece in cut(text)]
    return [{"tool_calls": [one]} for one in (first, *rest)]


def refuse(status, body, kind="application/json", **headers):
    return lambda handler: handler.send(status, body, kind, **headers)


def error(status, **headers):
    return refuse(status, json.dumps({"error": {"message": f"not with {ALL}"}}), **headers)


def tell_in_headers(handler):
    told = {"x_request_id": ENV_KEY, "set_cookie": COOKIE, "retry_after": MAKER}
    kind = f"application/json; of={quote(OWN_KEY, safe='')}"
    handler.send(200, json.dumps(chat({"content": "so"})), kind, **told)


def redirect(handler):
    """Lead to the same server with everything in the address, which then says the address."""
    if "?" in handler.path:
        handler.send(200, json.dumps(chat({"content": f"Final Answer: {handler.path}"})))
        return
    query = "&".join(f"key={quote(text, safe='')}" for text in SAID)
    handler.send(307, "", location=f"{handler.path}?{query}")


def stream_and_break_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    handler.wfile.write(b"".join(event({"content": piece}) for piece in cut(ALL)))
    handler.close_connection = True


def escape_all(text):
    return "".join(f"\\u{ord(c):04x}" for c in text)


def tell_escaped(handler):
    body = json.dumps(chat({"content": "HERE"}))
    handler.send(200, body.replace("HERE", " ".join(map(escape_all, SAID))))


STARRED = " ".join(f"{text[:6]}{'*' * 9}{text[-4:]}" for text in SAID)
ARGUMENTS = json.dumps({"name": ALL})
ECHOES = {
    "in the text": say(content=ALL),
    "in an answer": say(content=f"Thought: so.\nFinal Answer: {ALL}"),
    "in an action": say(content=f"Thought: so.\nAction: look_up\nAction Input: {ARGUMENTS}"),
    "in a call's arguments": say(content=None, tool_calls=[call(ARGUMENTS)]),
    "in a call's id and further fields": say(content=None, tool_calls=[call("{}", note=ALL, id=ENV_KEY)]),
    "in the name of a tool": say(content=None, tool_calls=[{**call("{}"), "function": {"name": MAKER, "arguments": "{}"}}]),
    "in the reasoning": say(content="so", reasoning_content=ALL),
    "as the model, the fingerprint and a name": say_whole(
        {**chat({"content": "so"}), "model": ENV_KEY, "system_fingerprint": MAKER, OWN_KEY: FLAG}
    ),
    "streamed in pieces": stream([{"content": piece} for piece in cut(ALL)]),
    "an answer streamed in pieces": stream([{"content": p} for p in cut(f"Final Answer: {ALL}")]),
    "a thought streamed in pieces": stream([{"reasoning_content": p} for p in cut(ALL)]),
    "arguments streamed in pieces": stream(cut_call(ARGUMENTS)),
    "streamed whole": stream([{"content": ALL}, {"content": "end"}]),
    "in a refusal": error(400),
    "in a refused key": error(401),
    "in faults that pass": error(503, retry_after="0"),
    "in a page": refuse(500, f"<html>{html.escape(ALL)}</html>", "text/html", retry_after="0"),
    "in no JSON": refuse(200, f"keys: {ALL}", "text/plain"),
    "in headers": tell_in_headers,
    "in a redirection": redirect,
    "in a stream that breaks off": stream_and_break_off,
    "escaped to the last letter": tell_escaped,
    "starred out in part": refuse(400, json.dumps({"error": {"message": STARRED}})),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _planted(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder of one's own; what a user hands over lies in `given` and is not searched."""
    given = tmp_path / "given"
    given.mkdir()
    (given / "tools.py").write_text(TOOLS, encoding="utf-8")
    rows = [
        {"question": f"Whose is {ACCOUNT}?", "expected_tool": "look_up", "id": "q-1"},
        {"question": "What fails?", "expected_tool": "fail", "id": "q-2"},
    ]
    (given / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    return tmp_path


TOOLS = f'''
import os


def look_up(name: str = "") -> dict:
    """Look an account up. Known: {ACCOUNT}."""
    print("a print of the tool", os.environ["OTHER_TOKEN"])
    return {{"owner": os.environ["OTHER_TOKEN"], "account": "{ACCOUNT}", "long": os.environ["OTHER_TOKEN"]}}


def fail() -> str:
    """Fail, and say too much."""
    raise RuntimeError("no way: " + "x" * 270 + os.environ["OTHER_TOKEN"])
'''
OWN = ("--tools", "given/tools.py", "--tasks", "given/tasks.jsonl")


def run(capsys, *words):
    status = main([*words])
    out, err = capsys.readouterr()
    return status, out + err


@pytest.fixture
def live(endpoint, capsys, folder):
    """Run a command against the endpoint; say what it printed, and look for every secret."""

    def go(command, *words):
        where = ("--endpoint", f"here={endpoint.base_url},m", "--record", "kept.jsonl.gz")
        status, said = run(capsys, command, *words, *where, *WORDS)
        assert leaks(folder, said) == []
        return status, said

    return go


def ask(endpoint, headers, *, stream=False):
    """Ask once through a client of one's own; return the reply."""
    client = OpenAIClient(
        *("here", "m"),
        base_url=endpoint.base_url,
        api_key=OWN_KEY,
        headers=headers,
        stream=stream,
        patience=Patience(tries=2),
    )
    key = StepKey("t", "native", "full", 0, 0)

    async def go():
        try:
            return await client.complete(Request(({"role": "user", "content": "?"},), {}, key))
        finally:
            await client.close()

    return asyncio.run(go())


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_a_reply_holds_no_key(endpoint, folder, echo):
    endpoint.answers = [echo]
    with secret.forgetting():
        secret.know_environment(ENVIRONMENT)
        secret.know_words(WORDS)
        secret.know((), [WORDS[-1]])
        reply = ask(endpoint, {"X-Api-Key": HEADER}, stream="stream" in echo.__qualname__)
    readings = [driver.read(reply, ()) for driver in (NativeDriver(), ReactDriver())]
    (folder / "reply").write_text(repr(to_json(reply)), encoding="utf-8")
    (folder / "body").write_text(reply.body, encoding="utf-8")
    (folder / "readings").write_text(repr([open_reply(reply), readings]), encoding="utf-8")
    assert "[key]" in repr(reply)
    assert leaks(folder) == []
    sent = endpoint.headers[-1]
    assert (sent["authorization"], sent["x-api-key"]) == (f"Bearer {OWN_KEY}", HEADER)


SIDES = {
    "answers": ([echo for echo in ECHOES.values() if echo.__qualname__.startswith("say")], ()),
    "streams": (
        [echo for echo in ECHOES.values() if echo.__qualname__.startswith("stream")],
        ("--stream",),
    ),
    "refusals and odd ones": (
        [echo for echo in ECHOES.values() if echo.__qualname__[:3] not in ("say", "str")],
        (),
    ),
}


def in_turn(echoes):
    numbers = count()

    def answer(handler):
        echoes[next(numbers) % len(echoes)](handler)

    return answer


@pytest.mark.parametrize(("echoes", "how"), SIDES.values(), ids=SIDES)
def test_a_comparison_keeps_no_key(live, endpoint, capsys, folder, echoes, how):
    endpoint.answers = [say(content="OK"), in_turn(echoes)]  # first: is it there?
    more = ("--trials", "2", "--steps", "3", "--yes", "--results", "runs")
    live("compare", *OWN, *more, *how)
    sent = endpoint.headers[-1]
    assert OWN_KEY in sent["authorization"]
    assert sent["x-api-key"] == HEADER
    assert FIELD in json.dumps(endpoint.requests[-1])
    assert ACCOUNT in json.dumps(endpoint.requests)
    (path,) = list_runs(folder / "runs")
    assert "[key]" in (path / "manifest.json").read_text(encoding="utf-8")
    for words in LOOKS:
        _, said = run(capsys, *words, "--results", "runs")
        assert leaks(folder, said) == []


LOOKS = [
    ("export", "latest", "--to", "csv"),
    ("show", "latest", "q-1"),
    ("diff", "latest", "latest"),
    ("list",),
]


def test_what_was_echoed_is_marked_and_the_rest_is_read(live, endpoint, folder):
    endpoint.answers = [say(content="OK"), say(content=None, tool_calls=[call(ARGUMENTS)])]
    more = ("--steps", "2", "--yes", "--results", "runs", "--drivers", "native")
    live("compare", *OWN, *more)
    (path,) = list_runs(folder / "runs")
    [episode, _] = sorted(RunFolder(path).episodes(), key=lambda one: one.task_id)
    [made] = episode.turns[0].reading.calls
    assert made.failure is None
    assert {"[key]", "[secret]"} <= set(made.arguments["name"].split())
    assert "[key]" in episode.turns[0].results[0].content
    assert "[secret]" in episode.turns[0].results[0].content


@pytest.mark.parametrize("how", [(), ("--stream",)], ids=["plain", "streamed"])
def test_a_recording_replays_what_was_hidden(live, endpoint, capsys, folder, how):
    answers = stream([{"content": p} for p in cut(ALL)]) if how else say(content=ALL)
    endpoint.answers = [say(content="OK"), answers]
    more = ("--steps", "2", "--yes", "--results", "runs", *how)
    live("compare", *OWN, *more)
    status, said = run(capsys, "compare", *OWN, "--replay", "kept.jsonl.gz", "--results", "again")
    assert status == OK, said
    live_run, again = (RunFolder(*list_runs(folder / name)) for name in ("runs", "again"))
    stops = [
        sorted((e.task_id, e.driver, e.stop) for e in one.episodes()) for one in (live_run, again)
    ]
    assert stops[0] == stops[1]
    assert "left_recording" not in str(stops)


EXPERIMENTS = {
    "doctor": ("doctor", "--context", "0"),
    "doctor, as JSON": ("doctor", "--context", "0", "--json"),
    "pairing": ("pairing", "--count", "3", "--yes", "--results", "runs"),
    "choice": ("choice", "--count", "2", "--yes", "--results", "runs"),
    "streaming": ("streaming", "--count", "2", "--yes", "--results", "runs"),
    "lint --ask": ("lint", "weather", "--ask", "--count", "2", "--yes", "--results", "runs"),
}


@pytest.mark.parametrize("words", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_an_experiment_keeps_no_key(live, endpoint, words):
    plain = [echo for name, echo in ECHOES.items() if "pass" not in name and "page" not in name]
    endpoint.answers = [say(content="OK"), say(content="OK"), in_turn(plain)]
    live(*words)
    assert len(endpoint.requests) > 6


def test_headers_of_ours_stay_home(endpoint):
    elsewhere = endpoint.base_url.replace("127.0.0.1", "localhost")
    endpoint.answers = [
        refuse(307, "", location=f"{elsewhere}/chat/completions"),
        say(content="here"),
    ]
    assert ask(endpoint, {"X-Api-Key": HEADER, "Cookie": COOKIE}).status == 200
    first, second = endpoint.headers
    assert first["x-api-key"] == HEADER
    assert second["host"].startswith("localhost")
    assert not {"x-api-key", "cookie", "authorization"} & set(second)


# ------------------------------------------------------------ mistakes and faults

KEYED = f"http://joe:{PASSWORD}@127.0.0.1:9/v1"
QUERIED = f"http://127.0.0.1:9/v1?key={quote(COOKIE)}"
MCP = f"mcp:no-such-server --token {SERVER}"
MISTAKES = {
    "a password in an address": ["compare", "--model", "m", "--base-url", KEYED],
    "a password in half an address": ["compare", "--model", "m", "--base-url", KEYED[:-3] + "x y"],
    "a key in an address": ["compare", "--model", "m", "--base-url", QUERIED],
    "an endpoint's address": ["compare", "--endpoint", f"here={KEYED},m"],
    "an endpoint of another form": ["compare", "--endpoint", f"={KEYED}"],
    "a server's command": ["lint", MCP],
    "a server's address": ["lint", f"mcp:{QUERIED}"],
    "a header without a value": ["doctor", "--model", "m", "--header", HEADER],
    "a header's value, too early": ["doctor", "--header", f"X-Key={HEADER}", "--nothing"],
    "further fields of no form": ["doctor", "--model", "m", "--extra-body", f'{{"token": "{FIELD}"'],
    "further fields that are no object": ["doctor", "--model", "m", "--extra-body", json.dumps([{"token": FIELD}])],
    "a flag that is none": ["compare", f"--api_kee={FLAG}", "--api-key", FLAG],
    "a key where none is asked": ["compare", "--api-key", FLAG],
    "nobody is there": ["compare", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--yes", *WORDS],
}  # fmt: skip


@pytest.mark.parametrize("words", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_in_one_line_without_the_key(capsys, folder, words):
    status, said = run(capsys, *words)
    assert status == MISTAKE
    assert said.splitlines()[-1].startswith("bench: ")
    assert leaks(folder, said) == []


PATTERNS = {
    "open": ("(", "no pattern"),
    "of a wrong range": ("[z-a]", "no pattern"),
    "that finds nothing at all": ("x*", "finds the empty text"),
    "that is no end": ("a" * 2_000, "2000 characters"),
}


@pytest.mark.parametrize(("pattern", "words"), PATTERNS.values(), ids=PATTERNS)
def test_a_bad_pattern_is_told_in_one_line(capsys, folder, pattern, words):
    (folder / "bench.toml").write_text(f"secret = [{json.dumps(pattern)}]\n", encoding="utf-8")
    for said in (["list", "--secret", pattern], ["list"], ["compare", "--dry-run"]):
        status, told = run(capsys, *said)
        assert status == MISTAKE
        assert len(told.splitlines()) == 1
        assert words in told
    assert "bench.toml:1: " in told


NUMBERED = json.dumps({"account": 471108815, "city": "Bonn", "of": {"471108815": [471108815, 7]}})
COUNTED = {"usage": {"prompt_tokens": 471108815, "completion_tokens": 2}, "created": 471108815}
ANSWERS = {
    "plain": say_whole({**chat({"content": None, "tool_calls": [call(NUMBERED)]}), **COUNTED}),
    "streamed": stream(cut_call(NUMBERED)),
}


@pytest.mark.parametrize("how", ANSWERS)
def test_a_pattern_that_finds_numbers_leaves_arguments_readable(endpoint, how):
    endpoint.answers = [ANSWERS[how]]
    tools = [Tool("look_up", "", {"type": "object", "properties": {}})]
    with secret.forgetting():
        secret.know((), ["[0-9]{9}"])
        reply = ask(endpoint, {}, stream=how == "streamed")
    [made] = NativeDriver().read(reply, tools).calls
    hidden = "[secret]"
    assert made.arguments == {"account": hidden, "city": "Bonn", "of": {hidden: [hidden, 7]}}
    assert reply.usage.prompt == (471108815 if how == "plain" else None)


def test_a_pattern_may_span_lines_and_quote_no_structure():
    with secret.forgetting():
        secret.know((), ["BEGIN.*?END", "(?s)OPEN.*?SHUT"])
        assert secret.hide("data: x\nOPEN a\nb SHUT y") == "data: x\n[secret] y"
        body = json.dumps([{"a": "BEGIN here"}, {"b": "not END"}, {"c": "BEGIN x END"}])
        assert json.loads(secret.hide(body))[2] == {"c": "[secret]"}
        assert json.loads(secret.hide(body))[:2] == json.loads(body)[:2]


def test_a_pattern_that_takes_too_long_is_told(capsys, endpoint):
    endpoint.answers = [say(content="a" * 5_000 + "!")]
    words = ("doctor", "--model", "m", "--base-url", endpoint.base_url, "--secret", "(a|aa)+$")
    status, told = run(capsys, *words)
    assert status == MISTAKE
    assert "write a simpler pattern" in told.splitlines()[-1]


def test_a_pattern_may_stand_in_the_file_of_options(endpoint, folder, capsys):
    (folder / "bench.toml").write_text('secret = "joker-[a-z]{4}"\n', encoding="utf-8")
    endpoint.answers = [say(content="OK"), say(content="Final Answer: joker-abcd")]
    where = ("--model", "m", "--base-url", endpoint.base_url, "--results", "runs")
    status, said = run(capsys, "compare", *OWN, *where, "--yes")
    assert status == OK, said
    (path,) = list_runs(folder / "runs")
    assert b"joker-abcd" not in (path / "episodes.jsonl").read_bytes()
    assert b"Final Answer: [secret]" in (path / "episodes.jsonl").read_bytes()
    _, told = run(capsys, "show", "latest", "q-1", "--results", "runs", "--secret", "Whose")
    assert "[secret] is" in told


def test_a_run_goes_on_only_with_its_secrets_said_again(endpoint, capsys, folder):
    endpoint.answers = [say(content="Final Answer: so")]
    where = ("--endpoint", f"here={endpoint.base_url},m", "--results", "runs", "--yes")
    fields = ("--extra-body", json.dumps({"token": "q1"}))
    status, said = run(capsys, "compare", *OWN, *where, *fields, *WORDS[:-4], *WORDS[-2:])
    assert status == OK, said
    (path,) = list_runs(folder / "runs")
    assert RunFolder(path).manifest["settings"]["token"] == "[key]"
    status, said = run(capsys, "compare", "--resume", str(path))
    assert (status, "--extra-body held something secret" in said) == (MISTAKE, True)
    other = ("--extra-body", json.dumps({"token": "q1", "n": 1}))
    status, said = run(capsys, "compare", "--resume", str(path), *other)
    assert (status, "was begun with --extra-body" in said) == (MISTAKE, True)
    assert '"q1"' not in said
    status, said = run(capsys, "compare", "--resume", str(path), *fields)
    assert (status, "nothing left to do" in said) == (OK, True)


def test_a_fault_of_ours_is_kept_without_the_key(folder, task, toolbox):
    def break_down(_):
        raise RuntimeError(f"{'x' * 250} {ENV_KEY}")

    run_folder = RunFolder.create(folder / "runs", "mine", {"format": 1})
    with secret.forgetting():
        secret.know([ENV_KEY])
        job = Job(task, NativeDriver(), ScriptedClient(break_down))
        tally = asyncio.run(run_all([job], run_folder, toolbox_for=lambda *_: toolbox))
    run_folder.close()
    assert len(tally.broken) == 1
    assert "Traceback" in (run_folder.path / "errors.jsonl").read_text()
    assert leaks(folder, *tally.broken) == []


def test_a_traceback_on_the_terminal_holds_no_key(folder):
    script = (
        "import bench.__main__ as b\n"
        "def broken(_): raise ZeroDivisionError(b.os.environ['LLM_API_KEY'])\n"
        "b._COMMANDS = {**b._COMMANDS, 'list': (b.arguments.add_nothing, broken, '')}\n"
        "raise SystemExit(b.main(['list']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **ENVIRONMENT, "WORKBENCH_TRACE": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == FAULT
    assert "ZeroDivisionError: [key]" in done.stderr
    assert leaks(folder, done.stdout, done.stderr) == []


def test_what_a_servers_command_holds_is_not_kept(endpoint, capsys, folder):
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    lines = ["import runpy, sys", "sys.argv = sys.argv[:1]"]
    lines += [f"runpy.run_path({str(HERE / 'mcp_server.py')!r}, run_name='__main__')"]
    (folder / "given" / "server.py").write_text("\n".join(lines))
    target = f"mcp:{shlex.join([sys.executable, 'given/server.py', '--token', SERVER])}"
    (folder / "given" / "mcp.jsonl").write_text('{"question": "1 + 1?", "expected_tool": "add"}\n')
    arguments = json.dumps({"why": f"because of {ALL}"})
    function = {"name": "refuse", "arguments": arguments}
    endpoint.answers = [
        say(content="OK"),
        say(content=None, tool_calls=[call("", function=function)]),
    ]
    own = ("--tools", target, "--tasks", "given/mcp.jsonl", "--allow", "refuse", "--steps", "2")
    where = ("--endpoint", f"here={endpoint.base_url},m", "--results", "runs", "--yes")
    status, said = run(capsys, "compare", *own, *where, *WORDS, "--record", "kept.jsonl")
    assert status == OK, said
    assert leaks(folder, said) == []
    (path,) = list_runs(folder / "runs")
    status, said = run(capsys, "compare", "--resume", str(path))
    assert (status, "say --tools again" in said) == (MISTAKE, True)


# ------------------------------------------------------------ what is no secret

WORDS_THAT_STAY = {
    "a word that stands for no key": "none",
    "a plain word": "weather",
    "a name of a plain header": "application/json",
    "a number": "4711",
    "four letters": "a1b2",
}


@pytest.mark.parametrize("key", WORDS_THAT_STAY.values(), ids=WORDS_THAT_STAY)
def test_a_word_of_ordinary_texts_is_no_key(key):
    with secret.forgetting():
        secret.know_words(["compare", "--api-key", key if "/" not in key else "none"])
        secret.know_words(["compare", "--header", f"Content-Type={key}"])
        assert secret.hide(f"a text of {key} and more") == f"a text of {key} and more"
    assert "a1b2" not in secret.mask(["compare", "--api-key", "a1b2"])


def test_keys_of_a_shell_change_nothing_in_a_replay(capsys, folder, monkeypatch):
    monkeypatch.delenv("LLM_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "get_weather")
    words = ("compare", "--task", "single-01", "--lang", "en", "--drivers", "native")
    status, said = run(capsys, *words, "--results", "runs")
    assert status == OK, said
    (path,) = list_runs(folder / "runs")
    assert [e.stop for e in RunFolder(path).episodes()] != ["left_recording"]


def test_a_task_whose_name_would_be_hidden_is_refused(capsys, folder):
    words = ("compare", *OWN, "--script", "nothing", "--secret", "q-[0-9]")
    rows = '{"task": "q-1", "replies": [{"answer": "x"}]}\n{"task": "q-2", "replies": [{"answer": "x"}]}\n'
    (folder / "nothing").write_text(rows)
    status, said = run(capsys, *words)
    assert (status, "stands in this name; rename it" in said) == (MISTAKE, True)


def test_a_recording_of_a_run_with_keys_in_it_is_whole(live, endpoint, folder):
    endpoint.answers = [say(content="OK"), say(content=f"Final Answer: {ALL}")]
    live("compare", *OWN, "--yes", "--results", "runs")
    recording = Recording.read(folder / "kept.jsonl.gz")
    assert not recording.damaged
    assert recording.manifest["settings"]["auth"] == "[key]"
    assert all("[key]" in step.reply.body for step in recording.steps.values())
