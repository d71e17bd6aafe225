"""The recordings of a real server: the doctor's diagnoses and the experiments, replayed."""

import json

import pytest

from bench.__main__ import main
from bench.paths import find_datasets
from bench.records import json_lines, list_runs
from bench.status import OK

FOLDER = find_datasets() / "recordings"
ENTRIES = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))["recordings"]
DIAGNOSES = {"qwen2.5-coder-0.5b": "in_text", "smollm2-135m": "unseen"}


def recorded(experiment):
    """Give the endpoints that an experiment was recorded with; none: a test that is left out."""
    names = [entry["endpoint"] for entry in ENTRIES if entry["experiment"] == experiment]
    return names or [pytest.param("", marks=pytest.mark.skip(reason="nothing is recorded yet"))]


@pytest.mark.parametrize("endpoint", recorded("doctor"))
def test_a_recorded_visit_has_the_right_diagnosis(capsys, endpoint):
    main(["doctor", "--endpoint", endpoint, "--json"])
    (visit,) = json.loads(capsys.readouterr().out)["visits"]
    assert visit["diagnosis"] == DIAGNOSES.get(endpoint, visit["diagnosis"])
    missing = [f["check"] for f in visit["findings"] if "not recorded" in f["seen"]]
    assert not missing


@pytest.mark.parametrize("experiment", ["pairing", "choice", "streaming"])
def test_a_recorded_experiment_is_replayed_whole(tmp_path, experiment):
    if not any(entry["experiment"] == experiment for entry in ENTRIES):
        pytest.skip("nothing is recorded yet")
    assert main([experiment, "--results", str(tmp_path)]) == OK
    (run,) = list_runs(tmp_path)
    kinds = {"pairing": "variant", "choice": "setting", "streaming": "way"}
    counts: dict[tuple[str, str], int] = {}
    for line in json_lines(run / "trials.jsonl"):
        key = line["endpoint"], line[kinds[experiment]]
        counts[key] = counts.get(key, 0) + 1
    assert min(counts.values()) >= 20
