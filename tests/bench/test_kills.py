"""A run that is killed again and again ends as one that never was: nothing twice, nothing missing.

`python tests/bench/test_kills.py` (`make kills`) kills a run of 400 episodes 50 times. Replies come
from the strict endpoint, scripted: they depend on the request alone, so that runs can be compared.
"""

import argparse
import hashlib
import json
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.endpoint import StrictEndpoint
from bench.recordings import Recording
from bench.records import RunFolder, key_of, list_runs

ROOT = Path(__file__).parents[2]
LATENCY = 0.01
SECONDS = 600
"""How long a run may take at most, on a machine however busy."""
PRELOADED = ["bench.__main__", "bench.compare", "bench.report", "bench.tools", "bench.scoring"]

# ------------------------------------------------------------ the replies


def reply(body, _number):
    """Answer by what is asked alone: some calls, now and then an unreadable one, then an answer."""
    messages, native = body["messages"], "tools" in body
    said = json.dumps([messages[-1]["content"] if len(messages) == 1 else messages[1], native])
    chance = int(hashlib.sha256(said.encode()).hexdigest()[:8], 16)
    step = sum(message["role"] == "assistant" for message in messages)
    call = "{" if chance % 5 == 0 and step == 0 else json.dumps({"city": "Beijing"})
    wanted = None if step >= chance % 4 else call
    message = {"role": "assistant", **(say_native if native else say_react)(wanted, chance, step)}
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": len(said), "completion_tokens": 1 + chance % 99, "total_tokens": 0}
    return {"body": {"object": "chat.completion", "choices": [choice], "usage": usage}}


def say_native(arguments, chance, step):
    if arguments is None:
        return {"content": f"It is {chance % 40} degrees."}
    function = {"name": "get_weather", "arguments": arguments}
    return {
        "content": None,
        "tool_calls": [{"id": f"call_{chance}_{step}", "type": "function", "function": function}],
    }


def say_react(arguments, chance, _step):
    if arguments is None:
        return {"content": f"Thought: I know.\nFinal Answer: It is {chance % 40} degrees."}
    return {"content": f"Thought: I look.\nAction: get_weather\nAction Input: {arguments}"}


# ------------------------------------------------------------ a process


class Fork:
    """The command in a process of its own, forked from one in which all is loaded."""

    begins = 1.0
    """Seconds in which it is certain not to end."""

    def __init__(self, words):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._process = context.Process(target=main, args=(words,))
        self._process.start()

    def is_alive(self):
        return self._process.is_alive()

    def kill(self):
        self._process.kill()
        self._process.join()


class Command:
    """The command as it is typed."""

    begins = 2.5

    def __init__(self, words):
        words = [sys.executable, "-m", "bench", *words]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(words, cwd=ROOT, **silent)

    def is_alive(self):
        return self._process.poll() is None

    def kill(self):
        self._process.kill()
        self._process.wait()


# ------------------------------------------------------------ kills


@dataclass
class Broken:
    """A run that is killed at seeded moments, and resumed."""

    url: str
    root: Path
    tasks: int
    start: type
    seed: str = "1"
    record: Path | None = None
    process: object = None
    began: float = 0.0
    kills: Counter = field(default_factory=Counter)
    """By when they fell; `torn`: how often the last line was cut, too, as a loss of power would."""

    @property
    def total(self):
        return self.tasks * 2 * 2

    @property
    def folder(self):
        runs = list_runs(self.root)
        return RunFolder(runs[0]) if runs else None

    @property
    def file(self):
        return self.folder.path / "episodes.jsonl"

    def lines(self):
        return self.file.read_bytes().count(b"\n") if self.folder else 0

    def begin(self):
        """Start the run, or go on with it."""
        here = ["--model", "m", "--base-url", self.url, "--limit", str(self.tasks), "--trials", "2"]
        here += ["--record", str(self.record)] if self.record else []
        words = ["--resume", "latest"] if self.folder else here
        self.began = time.time()
        self.process = self.start(["compare", *words, "--yes", "--results", str(self.root)])

    def is_under_way(self):
        """Say whether this process has taken the run's folder."""
        folder = self.folder
        return folder and (folder.path / "manifest.json").stat().st_mtime >= self.began

    def break_off(self, kills):
        """Kill it so many times, early and late and most often in between."""
        chance = random.Random(self.seed)  # noqa: S311 (moments, not keys)
        for left in range(kills, 0, -1):
            before = self.lines()
            share = 2 * (self.total - before) // left
            wanted = min(before + chance.randint(0, max(share - 4, 0)), self.total)
            early = (kills - left) % 7 == 0 and before < 0.8 * self.total
            self.begin()
            if early:
                when, spread = "while it began", self.start.begins
            else:
                self.wait(lambda wanted=wanted: self.is_under_way() and self.lines() >= wanted)
                late = self.lines() >= self.total
                when, spread = ("while it reported", 0.3) if late else ("while it ran", 0.03)
            time.sleep(chance.uniform(0, spread))
            assert self.process.is_alive(), f"it ended before it was killed, {left} kills before"
            self.process.kill()
            self.kills[when] += 1
            self.tear(chance)

    def tear(self, chance):
        """Take a part of the last line away, now and then."""
        lines = self.file.read_bytes().splitlines(keepends=True) if self.folder else []
        if lines and chance.random() < 0.25:
            lines[-1] = lines[-1][: chance.randrange(1, len(lines[-1]))]
            self.file.write_bytes(b"".join(lines))
            self.kills["torn"] += 1

    def finish(self):
        """Let it end."""
        self.begin()
        self.wait(lambda: not self.process.is_alive())
        assert len(list_runs(self.root)) == 1
        assert self.folder.manifest["finished"]
        assert (self.folder.path / "report.html").stat().st_size > 10_000

    def wait(self, until):
        end = time.monotonic() + SECONDS
        while not until():
            assert time.monotonic() < end
            assert self.process.is_alive() or until(), "the process ended"
            time.sleep(0.002)


# ------------------------------------------------------------ what is the same


def without_times(value):
    if isinstance(value, dict):
        times = ("seconds", "first_token")
        return {name: without_times(item) for name, item in value.items() if name not in times}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def read_lines(run):
    """Return every line by its episode; none may be there twice."""
    lines = [json.loads(line) for line in run.file.read_bytes().splitlines()]
    found = {key_of(line): without_times(line) for line in lines}
    assert len(found) == len(lines), "an episode is there twice"
    return found


SAME = ("mode", "settings", "drivers", "trials", "tasks", "golds", "stops", "broken", "budget")


def compare_runs(broken, whole):
    """Fail where a run that was killed is another than the one that was not; count its episodes."""
    found, wanted = read_lines(broken), read_lines(whole)
    assert found.keys() == wanted.keys()
    assert [key for key in wanted if found[key] != wanted[key]] == []
    told = [[run.folder.manifest[name] for name in SAME] for run in (broken, whole)]
    assert told[0] == told[1]
    assert len(found) == whole.total
    return Counter(line["stop"] for line in found.values())


def kill_and_compare(root, tasks, kills, start, seed="1", *, record=False):
    """Run once unbroken and once killed; return the kills, the stops, the recordings' steps."""
    with StrictEndpoint("openai", reply, latency=LATENCY) as endpoint:
        broken, whole = (
            Broken(endpoint.base_url, root / name, tasks, start, seed) for name in ("a", "b")
        )
        if record:
            broken.record, whole.record = root / "a.jsonl.gz", root / "b.jsonl.gz"
        whole.finish()
        broken.break_off(kills)
        broken.finish()
    stops = compare_runs(broken, whole)
    resumed = len(broken.folder.manifest.get("resumed", ()))
    files = [Recording.read(run.record) for run in (broken, whole)] if record else []
    return broken.kills, stops, resumed, [(file.damaged, set(file.steps)) for file in files]


@pytest.mark.parametrize(("kills", "record"), [(6, False), (3, True)], ids=["run", "recording"])
def test_a_run_that_is_killed_ends_as_one_that_is_not(tmp_path, kills, record):
    kept = kill_and_compare(tmp_path, 12, kills, Fork, record=record)
    found, stops, resumed, files = kept
    torn = found.pop("torn", 0)
    assert found.total() == kills
    assert torn <= kills
    assert found["while it ran"] >= 1
    assert 1 <= resumed <= kills + 1
    assert set(stops) > {"answered"}, "some episodes are more than one answer"
    if record:
        assert files[0] == files[1]
        assert not files[0][0]
        assert files[0][1]


def run_command():
    """Kill a large run many times, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--tasks", type=int, default=100, help="four episodes each (default: 100)")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--record", action="store_true", help="record the replies meanwhile")
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        kills, stops, resumed, _ = kill_and_compare(
            Path(root), asked.tasks, asked.kills, Command, asked.seed, record=asked.record
        )
    torn = kills.pop("torn", 0)
    told = ", ".join(f"{count} {when}" for when, count in kills.items())
    lines = [
        f"{kills.total()} kills ({told}); the last line torn after {torn}; resumed {resumed} times",
        f"{stops.total()} episodes, none twice, none missing, each as in the unbroken run: {dict(stops)}",
        f"{time.monotonic() - began:.0f} s, seed {asked.seed}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    run_command()
