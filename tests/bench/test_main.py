"""The command line from its arguments to its exit status, against a server on 127.0.0.1."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.compare import RunFolder
from bench.records import list_runs
from bench.status import FOUND, INCOMPLETE, INTERRUPTED, MISTAKE, OK

ROOT = Path(__file__).parent.parent.parent
KEY = "sk-planted-0123456789"


def answer(handler):
    """Play a model that answers everything at once, in the form that it was asked for."""
    native = "tools" in handler.server.endpoint.requests[-1]
    text = "I can't say." if native else "Thought: so.\nFinal Answer: I can't say."
    message = {"role": "assistant", "content": text}
    body = {
        "model": "m-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7},
    }
    handler.send(200, json.dumps(body))


def fail(handler):
    handler.send(401, '{"error": {"message": "bad key ' + KEY + '"}}')


@pytest.fixture
def run(endpoint, capsys):
    """Run a command; give its status, its output and its complaints."""
    endpoint.answers = [answer]

    def go(*words):
        status = main([*words])
        out, err = capsys.readouterr()
        return status, out, err

    return go


@pytest.fixture
def live(run, endpoint, tmp_path):
    """Run a comparison on two tasks against the server."""

    def go(*words):
        here = ("--model", "m", "--base-url", endpoint.base_url, "--api-key", KEY, "--yes")
        return run("compare", *here, "--limit", "2", "--results", str(tmp_path), *words)

    return go


def the_run(tmp_path):
    (path,) = list_runs(tmp_path)
    return RunFolder(path)


@pytest.fixture(scope="module")
def finished(server, tmp_path_factory):
    """Run a comparison once, for the tests that only need one to be there."""
    server.endpoint.answers = [answer]
    root = tmp_path_factory.mktemp("finished")
    here = ["--model", "m", "--base-url", server.endpoint.base_url, "--yes", "--limit", "2"]
    record = ["--record", str(root / "r.jsonl.gz"), "--note", "server=a server on 127.0.0.1"]
    assert main(["compare", *here, "--results", str(root / "runs"), *record]) == OK
    return root


@pytest.fixture
def done(finished, tmp_path):
    """Give a finished run of one's own."""
    shutil.copytree(finished / "runs", tmp_path, dirs_exist_ok=True)
    return the_run(tmp_path)


# ------------------------------------------------------------ live runs


@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_a_live_run_ends_with_a_table_and_a_report(live, tmp_path, how):
    status, out, err = live(how)
    assert status == OK
    assert "success" in out
    assert "parse failures" in out
    run = the_run(tmp_path)
    assert str(run.path / "report.md") in out
    assert (run.path / "report.md").is_file()
    assert len(list(run.lines())) == 4
    assert "4 episodes" in err
    assert "prompt tokens" in err


def test_no_key_is_in_any_file(live, endpoint, tmp_path):
    live("--api-key=" + KEY)
    endpoint.answers = [fail]
    live()
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path


def test_a_refused_key_is_told_without_the_key_and_nothing_is_written(live, endpoint, tmp_path):
    endpoint.answers = [fail]
    status, out, err = live()
    assert status == MISTAKE
    assert out == ""
    assert "refuses the key" in err.splitlines()[-1]
    assert KEY not in err
    assert list_runs(tmp_path) == []


def test_the_manifest_says_what_was_run(live, tmp_path):
    live("--drivers", "react/call,native", "--seed", "3", "--trials", "2")
    manifest = the_run(tmp_path).manifest
    assert manifest["settings"] == {"temperature": 0, "max_tokens": 1024, "seed": 3}
    assert manifest["drivers"] == ["react/call", "native"]
    assert manifest["trials"] == 2
    assert manifest["budget"] == {"steps": 8, "corrections": 2}
    assert manifest["finished"]
    assert manifest["machine"]
    assert len(manifest["tasks"]) == 2
    assert all(len(digest) == 64 for digest in manifest["datasets"].values())
    (endpoint,) = manifest["endpoints"]
    assert (endpoint["name"], endpoint["model"]) == ("m", "m")
    assert "api-key" in manifest["command"]


STOPS = {
    "taken": ("llamacpp", "m", ["\nObservation:"]),
    "not taken by this family": ("openai", "o3", []),
}


@pytest.mark.parametrize(("profile", "model", "words"), STOPS.values(), ids=STOPS)
def test_the_stop_words_of_each_way_are_told(live, tmp_path, profile, model, words):
    live("--profile", profile, "--model", model)
    manifest = the_run(tmp_path).manifest
    assert manifest["stop"] == {model: {"react": words, "native": []}}
    assert manifest["endpoints"][0]["profile"]["name"] == profile
    told = f"Stop words sent to {model}: react " + (json.dumps(words[0]) if words else "none")
    assert any(note.startswith(told) for note in manifest["notes"])


def test_two_endpoints_side_by_side(run, endpoint, tmp_path):
    url = endpoint.base_url
    named = ("--endpoint", f"a={url},m1", "--endpoint", f"b={url},m2")
    status, out, _ = run(*named, "--limit", "1", "--results", str(tmp_path), "--yes")
    assert status == OK
    lines = list(the_run(tmp_path).lines())
    assert {(line["endpoint"], line["model"]) for line in lines} == {("a", "m1"), ("b", "m2")}
    assert {request["model"] for request in endpoint.requests} == {"m1", "m2"}
    assert "a  " in out


def test_a_dry_run_asks_nobody_and_writes_nothing(live, endpoint, tmp_path):
    status, _, err = live("--dry-run")
    assert (status, endpoint.requests) == (OK, [])
    assert "4 episodes" in err
    assert list(tmp_path.iterdir()) == []


def test_the_environment_names_a_model(run, endpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_MODEL", "m")
    monkeypatch.setenv("LLM_BASE_URL", endpoint.base_url)
    monkeypatch.setenv("LLM_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-key-0123")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    status, _, _ = run("--limit", "1", "--results", str(tmp_path))
    assert status == OK
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"


def test_flags_go_before_the_environment(live, endpoint, monkeypatch):
    monkeypatch.setenv("LLM_MODEL", "other")
    monkeypatch.setenv("LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("LLM_API_KEY", "sk-another-key-0123")
    assert live()[0] == OK
    assert {request["model"] for request in endpoint.requests} == {"m"}
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"


# ------------------------------------------------------------ recorded runs


@pytest.fixture
def replay(run, finished, tmp_path):
    def go(*words):
        where = ("--results", str(tmp_path / "again"), "--limit", "2")
        return run("compare", "--replay", str(finished / "r.jsonl.gz"), *where, *words)

    return go


def test_a_recorded_run_asks_nobody_whatever_keys_the_shell_holds(
    replay, endpoint, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    status, out, err = replay()
    assert (status, endpoint.requests) == (OK, [])
    assert "recorded replies" in err
    lines = list(the_run(tmp_path / "again").lines())
    assert [line["stop"] for line in lines] == ["answered"] * 4
    assert "success" in out


def test_a_recorded_run_names_its_recording(replay, tmp_path):
    replay()
    (entry,) = the_run(tmp_path / "again").manifest["endpoints"]
    assert entry["recording"] == "r.jsonl.gz"
    assert entry["recorded"]["notes"] == {"server": "a server on 127.0.0.1"}


def test_two_recorded_runs_have_the_same_report(replay, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    reports = []
    for _ in range(2):
        assert replay()[0] == OK
        run = the_run(tmp_path / "again")
        reports.append((run.path / "report.md").read_bytes())
        run.path.rename(tmp_path / f"kept-{len(reports)}")
    assert reports[0] == reports[1]


def test_a_recorded_run_leaves_its_recording_where_the_request_differs(replay, tmp_path):
    status, _, _ = replay("--temperature", "1")
    assert status == OK
    stops = {line["stop"] for line in the_run(tmp_path / "again").lines()}
    assert stops == {"left_recording"}


# ------------------------------------------------------------ going on


def cut(run, keep):
    """Leave a run as a kill would have left it."""
    path = run.path / "episodes.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:keep]) + lines[keep][:40])
    manifest = {**run.manifest, "finished": None}
    del manifest["record"]  # else what goes on is answered from there
    run.write_manifest(manifest)


@pytest.mark.parametrize("name", ["latest", "its name"])
def test_a_broken_off_run_goes_on(run, done, endpoint, tmp_path, name):
    whole = done
    before = sorted(line["task_id"] + line["driver"] for line in whole.lines())
    cut(whole, 2)
    chosen = whole.path.name if name == "its name" else name
    status, _, err = run("compare", "--resume", chosen, "--results", str(tmp_path), "--yes")
    assert status == OK
    assert "half-written" in err
    assert len(endpoint.requests) == 1 + 2  # the first question, and what was missing
    assert sorted(line["task_id"] + line["driver"] for line in whole.lines()) == before
    assert whole.manifest["finished"]


def test_a_finished_run_has_nothing_left_to_do(run, done, endpoint):
    status, out, _ = run("compare", "--resume", str(done.path), "--yes")
    assert (status, endpoint.requests) == (OK, [])
    assert "nothing left to do" in out


CHANGED = {
    "steps": ("--steps", "3"),
    "drivers": ("--drivers", "native"),
    "temperature": ("--temperature", "1"),
    "limit": ("--limit", "3"),
    "model": ("--model", "another"),
    "address": ("--base-url", "http://127.0.0.1:9/v1"),
}


@pytest.mark.parametrize("words", CHANGED.values(), ids=CHANGED)
def test_a_changed_run_does_not_go_on(run, done, tmp_path, words):
    cut(done, 1)
    status, _, err = run("compare", "--resume", "latest", "--results", str(tmp_path), *words)
    assert status == MISTAKE
    assert words[0] in err


def test_a_run_killed_before_its_report_gets_one(run, done, endpoint):
    (done.path / "report.md").unlink()
    done.write_manifest({**done.manifest, "finished": None})
    status, out, _ = run("compare", "--resume", str(done.path), "--yes")
    assert (status, endpoint.requests) == (OK, [])
    assert "report.md" in out
    assert (done.path / "report.md").is_file()
    assert done.manifest["finished"]


def test_an_unfinished_run_is_told_when_another_begins(live, done):
    cut(done, 1)
    _, _, err = live()
    assert f"--resume {done.path.name}" in err


def test_endpoint_failures_are_told_and_tried_again(live, run, endpoint, tmp_path):
    unclear = lambda handler: handler.send(400, '{"error": {"message": "no"}}')  # noqa: E731
    endpoint.answers = [answer, unclear, answer]
    status, _, err = live("--concurrency", "1")
    assert status == INCOMPLETE
    assert "1 episodes have no outcome" in err
    status, _, _ = run("compare", "--resume", "latest", "--results", str(tmp_path), "--yes")
    assert status == OK
    assert [line["stop"] for line in the_run(tmp_path).lines()] == ["answered"] * 4


def _take_ctrl_c():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(endpoint, tmp_path):
    def slow(handler):
        time.sleep(0.0 if len(endpoint.requests) < 4 else 5.0)
        answer(handler)

    endpoint.answers = [slow]
    words = ["--model", "m", "--base-url", endpoint.base_url, "--yes", "--results", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "bench", *words, "--limit", "9", "--concurrency", "1"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # a job in the background would hand down that it ignores Ctrl-C
        preexec_fn=_take_ctrl_c,  # noqa: PLW1509 (no thread of ours is running)
    )
    while len(endpoint.requests) < 4 and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(2)
    err = process.communicate(timeout=20)[1]
    assert process.returncode == INTERRUPTED
    run = the_run(tmp_path)
    assert len(list(run.lines())) >= 2
    assert f"--resume {run.path}" in err
    assert "Traceback" not in err


# ------------------------------------------------------------ mistakes

MISTAKES = {
    "an unknown command": (["nonsense"], "invalid choice"),
    "an unknown option": (["--nonsense"], "--nonsense"),
    "an unknown driver": (["--drivers", "agent"], "known: native, react"),
    "an unknown dialect": (["--dialect", "xml"], "known: json, call, bracket"),
    "an unknown level": (["--level", "soft"], "known: strict, hardened, rescue"),
    "an unknown category": (["--category", "nonsense"], "single"),
    "an unknown language": (["--lang", "fr"], "zh"),
    "an unknown task": (["--task", "nonsense"], "nonsense"),
    "an unknown toolset": (["--toolset", "nonsense"], "nonsense"),
    "an unknown variant": (["--variant", "nonsense"], "full"),
    "an unknown tool": (["--allow", "nonsense"], "send_message"),
    "an unknown recorded endpoint": (["--endpoint", "nonsense"], "no recording of that name"),
    "an endpoint without a model": (["--endpoint", "a=http://127.0.0.1/v1"], "NAME=BASE_URL,MODEL"),
    "two endpoints of one name": (
        ["--endpoint", "a=http://127.0.0.1/v1,m", "--endpoint", "a=http://127.0.0.1/v1,n"],
        "two of the same name",
    ),
    "an address that is none": (["--model", "m", "--base-url", "nonsense"], "--base-url"),
    "a key in the address": (
        ["--model", "m", "--base-url", "http://u:p@127.0.0.1/v1"],
        "LLM_API_KEY",
    ),
    "an address without a model": (["--base-url", "http://127.0.0.1/v1"], "export LLM_MODEL="),
    "a key without a model": (["--api-key", KEY], "export LLM_MODEL="),
    "a model without a key": (["--model", "m"], "LLM_API_KEY"),
    "a limit of none": (["--limit", "0"], "--limit"),
    "nobody there": (["--model", "m", "--base-url", "http://127.0.0.1:9/v1"], "can't be reached"),
    "a recording that is not there": (["--replay", "nowhere.jsonl"], "nowhere.jsonl"),
    "a recording of a recording": (["--record", "x.jsonl"], "--record"),
    "a run that is not there": (["--resume", "nowhere"], "no such run"),
    "a report of no run": (["report", "nowhere"], "no such run"),
    "an episode of no run": (["show", "nowhere", "t"], "no such run"),
}


@pytest.mark.parametrize(("words", "told"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_and_status_2(run, tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    if words[0].startswith("-"):
        words = ["compare", *words, "--results", str(tmp_path / "r")]
    status, out, err = run(*words)
    assert status == MISTAKE
    assert told in err.splitlines()[-1]
    assert KEY not in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_note_has_a_key_and_a_value(live, tmp_path):
    status, _, err = live("--record", str(tmp_path / "x.jsonl"), "--note", "nonsense")
    assert (status, "KEY=VALUE" in err) == (MISTAKE, True)


HALF = {
    "LLM_API_KEY": KEY,
    "LLM_BASE_URL": "http://127.0.0.1/v1",
}


@pytest.mark.parametrize("name", HALF)
def test_half_an_endpoint_in_the_environment_is_told(run, monkeypatch, name):
    monkeypatch.setenv(name, HALF[name])
    status, _, err = run("compare")
    assert (status, "export LLM_MODEL=NAME" in err) == (MISTAKE, True)


def test_results_that_cannot_be_written(live, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = live("--results", str(tmp_path / "file"))
    assert status == MISTAKE
    assert "choose a folder with --results DIR" in err


def test_a_fault_of_ours_is_one_line(monkeypatch, capsys):
    import bench.__main__ as command

    def broken(_):
        raise ZeroDivisionError("oops")

    commands = {**command._COMMANDS, "list": (command.arguments.add_nothing, broken, "")}
    monkeypatch.setattr(command, "_COMMANDS", commands)
    assert main(["list"]) == 70
    assert capsys.readouterr().err.splitlines() == [
        "bench: a fault of the workbench: ZeroDivisionError: oops (WORKBENCH_TRACE=1 shows where)"
    ]


# ------------------------------------------------------------ the other commands


def test_show_tells_one_episode(run, done, tmp_path):
    name = done.manifest["tasks"][0]
    words = ("show", "latest", name, "--results", str(tmp_path))
    status, out, _ = run(*words, "--driver", "native")
    assert status == OK
    assert out.count("===") == 1
    assert "I can't say." in out
    assert "answer: " in out
    _, both, _ = run(*words)
    assert both.count("===") == 2
    status, _, err = run("show", "latest", "nonsense", "--results", str(tmp_path))
    assert (status, "no such episode" in err) == (MISTAKE, True)


def test_show_lets_no_text_steer_the_terminal(live, run, endpoint, tmp_path):
    def hostile(handler):
        message = {"role": "assistant", "content": "\x1b[2J\x9b31m\u202e hi"}
        handler.send(200, json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}))

    endpoint.answers = [hostile]
    live()
    name = the_run(tmp_path).manifest["tasks"][0]
    _, out, _ = run("show", "latest", name, "--results", str(tmp_path))
    assert "hi" in out
    assert not set("\x1b\x9b\u202e") & set(out)


def test_list_names_experiments_recordings_and_runs(run, done, tmp_path):
    status, out, _ = run("list", "--results", str(tmp_path))
    assert status == OK
    assert "compare" in out
    assert done.path.name in out


def test_report_writes_a_report_again(run, done, tmp_path):
    report = done.path / "report.md"
    before = report.read_bytes()
    report.unlink()
    assert run("report", "latest", "--results", str(tmp_path))[0] == OK
    assert report.read_bytes() == before


def test_tasks_checks_every_gold(run):
    status, out, _ = run("tasks")
    assert status in (OK, FOUND)
    assert "damaged gold that scores 0" in out


def bench(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_help_answers_at_once_and_names_the_statuses():
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = bench("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode == OK
    assert "exit status" in done.stdout
    assert "130  stopped by Ctrl-C" in done.stdout
    assert spent < 0.6  # 0.3 without the measuring of coverage


def test_help_loads_nothing_heavy():
    code = (
        "import sys, bench.__main__ as m\n"
        "try: m.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'openai','pydantic','pandas','matplotlib','scipy','regex','asyncio'}"
        " & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"


def test_a_reader_that_goes_away_is_no_fault():
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "bench", "list"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), err) == (OK, "")


def test_the_version_is_told():
    done = bench("--version")
    assert done.returncode == OK
    assert done.stdout.strip()


def test_the_public_names_are_these_and_load():
    import bench as package

    assert len(package.__all__) <= 15
    assert package.__all__ == sorted(package._PLACES)
    for name in package.__all__:
        assert callable(getattr(package, name))
    with pytest.raises(AttributeError):
        _ = package.nonsense
