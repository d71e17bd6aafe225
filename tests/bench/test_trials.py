"""Trials, from the request to pass^k: each asked by itself, kept by itself, counted in its task."""

import asyncio

import pytest

from bench import tables
from bench.clients import RecordedClient, RecordingClient, ScriptedClient
from bench.drivers import make_driver
from bench.recordings import Recorder, Recording
from bench.records import RunFolder
from bench.run import plan_jobs, run_all
from bench.tasks import load_tasks

TASKS = load_tasks(ids=["no_tool-01", "no_tool-02", "single-01"])
SETTINGS = {"temperature": 0.7, "max_tokens": 64, "seed": 11}
RIGHT = {"single-01-en": (1, 3), "single-01-zh": (2,)}
"""Of the tasks that want a call, the trials in which it is made."""


def model(request):
    """Say hello where nothing is wanted; else look the weather up, in the right trials only."""
    key = request.key
    if key.task_id.startswith("no_tool"):
        return "Final Answer: Hello."
    if key.step == 0 and key.trial in RIGHT[key.task_id]:
        return 'Action: get_weather\nAction Input: {"city": "Beijing"}'
    return "Final Answer: 25 degrees and sunny."


def run(client, root, settings=SETTINGS, trials=4):
    folder = RunFolder.create(root, "trials", {"format": 1})
    jobs = plan_jobs(TASKS, [make_driver("react")], [client], trials=trials)
    asyncio.run(run_all(jobs, folder, settings=settings, concurrency=1))
    folder.close()
    return folder


def test_every_trial_is_asked_with_a_seed_of_its_own(tmp_path):
    client = ScriptedClient(model)
    run(client, tmp_path)
    seeds = {(request.key.trial, request.options["seed"]) for request in client.requests}
    assert seeds == {(0, 11), (1, 12), (2, 13), (3, 14)}
    assert all(request.options["temperature"] == 0.7 for request in client.requests)


@pytest.mark.parametrize("seed", [{}, {"seed": None}], ids=["none", "null"])
def test_without_a_seed_none_is_made_up(tmp_path, seed):
    client = ScriptedClient(model)
    run(client, tmp_path, {"temperature": 0.7, **seed})
    assert all(request.options.get("seed") is None for request in client.requests)


def test_pass_at_1_and_pass_hat_k_come_from_the_trials(tmp_path):
    frame = tables.episode_table(run(ScriptedClient(model), tmp_path).lines())
    solved = frame.groupby("task_id")["success"].sum().to_dict()
    assert solved == {
        **{f"no_tool-0{n}-{lang}": 4 for n in (1, 2) for lang in ("en", "zh")},
        "single-01-en": 2,
        "single-01-zh": 1,
    }
    found = tables.pass_table(frame)["scripted", "react"]
    assert found[1] == pytest.approx((4 * 1 + 2 / 4 + 1 / 4) / 6)
    assert found[1] == tables.measure_table(frame)["scripted", "react"]["success"].value
    assert found[2] == pytest.approx((4 * 1 + 1 / 6 + 0) / 6)
    assert found[3] == found[4] == pytest.approx(4 / 6)


def test_each_trial_is_recorded_and_replayed_as_itself(tmp_path):
    """With the same request in every trial too: without a seed nothing tells them apart but this."""
    settings = {"temperature": 0.7}
    path = tmp_path / "r.jsonl"
    manifest = {"format": 1, "endpoint": "scripted", "model": "scripted", "settings": settings}
    recording = RecordingClient(ScriptedClient(model), Recorder(path, {**manifest, "trials": 4}))
    first = run(recording, tmp_path / "live", settings)
    asyncio.run(recording.close())
    second = run(RecordedClient(Recording.read(path)), tmp_path / "again", settings)
    tellable = [
        [(line["task_id"], line["trial"], line["stop"], line["score"]) for line in folder.lines()]
        for folder in (first, second)
    ]
    assert tellable[0] == tellable[1]
    assert {line["trial"] for line in second.lines()} == {0, 1, 2, 3}


def test_a_task_that_lacks_a_trial_is_in_no_pass_hat(tmp_path):
    lines = list(run(ScriptedClient(model), tmp_path).lines())
    short = [line for line in lines if (line["task_id"], line["trial"]) != ("single-01-zh", 0)]
    found = tables.pass_table(tables.episode_table(short))["scripted", "react"]
    assert found[1] == pytest.approx((4 + 2 / 4) / 5)
