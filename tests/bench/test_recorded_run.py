"""The run that comes with the project: `python -m bench`, on the recorded replies of real models."""

import json

import pytest

from bench.__main__ import main
from bench.choice import find_recordings
from bench.paths import find_datasets

RECORDINGS = find_datasets() / "recordings"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    status = main(["--results", str(folder)])
    (path,) = folder.iterdir()
    return status, path


@pytest.fixture(scope="module")
def episodes(run):
    lines = (run[1] / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_it_ends_well_and_writes_a_report(run):
    status, path = run

    assert status == 0
    assert "## The answer" in (path / "report.md").read_text(encoding="utf-8")
    assert json.loads((path / "manifest.json").read_text(encoding="utf-8"))["mode"] == "recorded"


def test_hardly_an_episode_leaves_its_recording(episodes):
    left = [line["task_id"] for line in episodes if line["stop"] == "left_recording"]

    assert len(left) < 0.05 * len(episodes), left


def test_both_drivers_ran_every_recorded_task(episodes):
    ran = {
        driver: {e["task_id"] for e in episodes if e["driver"] == driver}
        for driver in ("react", "native")
    }

    assert ran["react"] == ran["native"]


@pytest.mark.parametrize(
    "recording", find_recordings(RECORDINGS), ids=lambda recording: recording.path.name
)
def test_a_recording_says_where_it_comes_from(recording):
    notes = recording.manifest["notes"]

    assert {"server", "weights", "quantisation", "chat_template_sha256"} <= set(notes)
    assert not recording.damaged
