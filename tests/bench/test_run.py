"""Many episodes: their order, their number at once, what is kept, and how a run ends early."""

import asyncio
import io
import json
import time
from collections import Counter
from dataclasses import replace

import pytest

from bench.clients import ScriptedClient, reply_with
from bench.drivers import NativeDriver, ReactDriver, label
from bench.records import RunFolder
from bench.run import HOPELESS, Progress, done_keys, plan_jobs, run_all
from bench.types import Gold, Reply, Task, WorkbenchError

DRIVERS = (ReactDriver(), NativeDriver())
BROKEN = Reply(500, {}, '{"error": {"message": "boom"}}')
REFUSED = Reply(401, {}, '{"error": {"message": "bad key"}}')


def make_tasks(count):
    gold = Gold()
    return [
        Task(f"t{n}-en", f"t{n}", "en", "no_tool", "weather", f"Question {n}?", gold)
        for n in range(count)
    ]


def answer(_):
    return "Final Answer: 25"


@pytest.fixture
def folder(tmp_path):
    run = RunFolder.create(tmp_path, "compare", {"format": 1})
    yield run
    run.close()


def run(folder, toolbox, jobs, **options):
    return asyncio.run(run_all(jobs, folder, toolbox_for=lambda *_: toolbox, **options))


def test_all_arms_of_a_task_come_before_the_next_task():
    clients = [ScriptedClient(answer, name=name) for name in ("a", "b")]
    jobs = list(plan_jobs(make_tasks(3), DRIVERS, clients, trials=2))
    assert len(jobs) == len({job.key for job in jobs}) == 3 * 2 * 2 * 2
    assert [job.task.id for job in jobs] == sorted(job.task.id for job in jobs)


def test_the_first_arm_changes_from_task_to_task():
    jobs = list(plan_jobs(make_tasks(3), DRIVERS, [ScriptedClient(answer)]))
    assert [job.driver.name for job in jobs] == [
        *("react", "native"),
        *("native", "react"),
        *("react", "native"),
    ]


def test_every_episode_is_kept_with_its_score(folder, toolbox):
    jobs = list(plan_jobs(make_tasks(4), DRIVERS, [ScriptedClient(answer)]))
    tally = run(folder, toolbox, jobs)
    lines = list(folder.lines())
    assert tally.stops == {"answered": 8}
    assert tally.missing == 0
    assert {(line["task_id"], line["driver"]) for line in lines} == {
        (job.task.id, job.driver.name) for job in jobs
    }
    assert all(line["score"]["answered"] == 1 for line in lines)


def test_no_more_than_so_many_run_at_once(folder, toolbox):
    class Slow(ScriptedClient):
        running = most = 0

        async def complete(self, request):
            Slow.running += 1
            Slow.most = max(Slow.most, Slow.running)
            await asyncio.sleep(0.01)
            Slow.running -= 1
            return await super().complete(request)

    run(folder, toolbox, plan_jobs(make_tasks(10), DRIVERS, [Slow(answer)]), concurrency=3)
    assert Slow.most == 3


def test_an_endpoint_failure_is_an_episode_without_outcome(folder, toolbox):
    script = [BROKEN, reply_with("Final Answer: 25")]
    jobs = plan_jobs(make_tasks(1), DRIVERS, [ScriptedClient(script)])
    tally = run(folder, toolbox, jobs, concurrency=1)
    assert tally.stops == {"endpoint": 1, "answered": 1}
    assert tally.missing == 1


def test_a_fault_of_ours_breaks_off_one_episode_and_is_noted(folder, toolbox):
    def script(request):
        if request.key.task_id == "t1-en":
            raise ZeroDivisionError("oops")
        return "Final Answer: 25"

    tally = run(folder, toolbox, plan_jobs(make_tasks(3), DRIVERS, [ScriptedClient(script)]))
    assert tally.stops == {"answered": 4}
    assert len(tally.broken) == tally.missing == 2
    assert "t1-en react: ZeroDivisionError: oops" in tally.broken
    notes = [json.loads(line) for line in (folder.path / "errors.jsonl").read_text().splitlines()]
    assert "Traceback" in notes[0]["trace"]


def test_an_arm_that_is_refused_again_and_again_ends_the_run(folder, toolbox):
    def script(request):
        return REFUSED if request.key.driver == "native" else "Final Answer: 25"

    jobs = plan_jobs(make_tasks(100), DRIVERS, [ScriptedClient(script)])
    with pytest.raises(WorkbenchError, match="native"):
        run(folder, toolbox, jobs, concurrency=1)
    stops = Counter(episode.stop for episode in folder.episodes())
    assert stops["endpoint"] == HOPELESS
    assert stops["answered"] >= HOPELESS - 1


def test_faults_that_may_pass_never_end_a_run(folder, toolbox):
    tally = run(
        folder, toolbox, plan_jobs(make_tasks(30), DRIVERS, [ScriptedClient(lambda _: BROKEN)])
    )
    assert tally.stops == {"endpoint": 60}


def test_a_full_disk_ends_the_run_in_one_line(folder, toolbox):
    class Full(RunFolder):
        def append(self, *_):
            raise OSError(28, "No space left on device")

    jobs = plan_jobs(make_tasks(3), DRIVERS, [ScriptedClient(answer)])
    with pytest.raises(WorkbenchError, match="No space left"):
        run(Full(folder.path), toolbox, jobs)


def test_what_is_done_is_not_run_again_but_endpoint_failures_are(folder, toolbox):
    script = [BROKEN] + [reply_with("Final Answer: 25")] * 9
    client = ScriptedClient(script)
    jobs = list(plan_jobs(make_tasks(2), DRIVERS, [client]))
    run(folder, toolbox, jobs, concurrency=1)
    assert len(client.requests) == 4
    tally = run(folder, toolbox, jobs, done=done_keys(folder))
    assert tally.stops == {"answered": 1}
    assert len(client.requests) == 5
    assert [line["stop"] for line in folder.lines()] == ["answered"] * 4


def test_the_watcher_sees_every_episode(folder, toolbox):
    seen = []
    run(
        folder,
        toolbox,
        plan_jobs(make_tasks(2), DRIVERS, [ScriptedClient(answer)]),
        watch=seen.append,
    )
    assert len(seen) == 4


def test_a_stopped_run_keeps_what_was_finished(folder, toolbox):
    async def go():
        class Slow(ScriptedClient):
            async def complete(self, request):
                await asyncio.sleep(0 if request.key.task_id == "t0-en" else 60)
                return await super().complete(request)

        jobs = plan_jobs(make_tasks(5), DRIVERS, [Slow(answer)])
        running = asyncio.ensure_future(run_all(jobs, folder, toolbox_for=lambda *_: toolbox))
        await asyncio.sleep(0.3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(go())
    assert {episode.task_id for episode in folder.episodes()} == {"t0-en"}


def test_a_level_of_its_own_replays_the_same_requests(toolbox, tmp_path):
    from bench.clients import RecordedClient, RecordingClient
    from bench.recordings import Recorder, Recording

    manifest = {"format": 1, "endpoint": "e", "model": "m", "settings": {}}
    path = tmp_path / "r.jsonl"
    client = RecordingClient(ScriptedClient(answer, name="e", model="m"), Recorder(path, manifest))
    live = RunFolder.create(tmp_path, "live", {})
    run(live, toolbox, plan_jobs(make_tasks(2), DRIVERS, [client]))
    asyncio.run(client.close())
    drivers = [replace(driver, level="rescue") for driver in DRIVERS]
    again = RunFolder.create(tmp_path, "again", {})
    jobs = list(plan_jobs(make_tasks(2), drivers, [RecordedClient(Recording.read(path))]))
    assert {label(job.driver) for job in jobs} == {"react@rescue", "native@rescue"}
    assert run(again, toolbox, jobs).stops == {"answered": 4}
    live.close()
    again.close()


# ------------------------------------------------------------ progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_nothing_moves_without_a_terminal(folder, toolbox):
    out = io.StringIO()
    progress = Progress(4, out)
    run(
        folder, toolbox, plan_jobs(make_tasks(2), DRIVERS, [ScriptedClient(answer)]), watch=progress
    )
    progress.end()
    assert out.getvalue() == ""


def test_a_terminal_shows_counts_and_the_time_left(folder, toolbox):
    out = Terminal()
    progress = Progress(100, out)
    progress._told = time.monotonic() - 1
    run(
        folder,
        toolbox,
        plan_jobs(make_tasks(1), DRIVERS[:1], [ScriptedClient(answer)]),
        watch=progress,
    )
    assert "1 of 100 episodes (1%)" in out.getvalue()
    progress.end()
    assert out.getvalue().endswith("\r\x1b[K")


TIMES = {
    "half of it": (50, 30.0, "50 of 100 episodes (50%), 0:30 left"),
    "hours": (1, 60.0, "1 of 100 episodes (1%), 1:39:00 left"),
    "nothing yet": (0, 5.0, "0 of 100 episodes (0%), 0:00 left"),
}


@pytest.mark.parametrize(("done", "spent", "line"), TIMES.values(), ids=TIMES)
def test_the_time_left_is_worked_out_from_what_is_done(done, spent, line):
    progress = Progress(100, io.StringIO())
    progress._counts["done"] = done
    assert progress.line(spent) == line
