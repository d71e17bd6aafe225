"""Large runs: their figures are those of the run they repeat, memory holds a part of them at most."""

import asyncio
import json
import tracemalloc
from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from scipy import stats as scipy_stats

from bench import stats, tables
from bench.__main__ import main
from bench.choice import Choice
from bench.manifest import make_manifest
from bench.perf import scale
from bench.plan import Order, make_plan
from bench.records import RunFolder, StoredLines
from bench.report import analyse, compose, to_html
from bench.report.seen import Seen
from bench.report.viewer import COLUMNS, EACH, counts_of, gather, write_json
from bench.rescore import SEVERAL, rescore
from bench.run import run_all
from bench.types import WorkbenchError

TASKS, COPIES = 24, 62


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Replay recorded episodes of a real model."""
    root = tmp_path_factory.mktemp("base")
    plan = make_plan(Choice(limit=TASKS), Order(results=root))
    folder = RunFolder.create(root, "base", make_manifest(plan, "a test"))
    asyncio.run(run_all(plan.jobs, folder, budget=plan.choice.budget(), settings=plan.settings))
    folder.finish()
    return folder


@pytest.fixture(scope="module")
def large(base, tmp_path_factory):
    episodes = len(base.stored()) * COPIES
    return scale.replicate(base, tmp_path_factory.mktemp("large") / "replica", episodes)


@pytest.fixture(scope="module")
def analysis(large):
    return analyse(large)


@pytest.fixture(scope="module")
def document(analysis):
    return compose(analysis)


def counted(frame):
    return {
        (key, name): (rate.top, rate.below)
        for key, measures in tables.measure_table(frame).items()
        for name, rate in measures.items()
    }


def test_a_replica_has_the_figures_of_its_run_and_says_what_it_is(base, analysis, document):
    small = counted(tables.episode_table(base.lines()))
    assert len(analysis.lines) == 2 * TASKS * COPIES > SEVERAL
    assert counted(analysis.frame) == {
        key: (top * COPIES, below * COPIES) for key, (top, below) in small.items()
    }
    assert analysis.frame["trial"].nunique() == scale.TRIALS
    assert any("A REPLICA" in getattr(block, "text", "") for block in document.sections[0].blocks)


def test_a_rescored_replica_is_the_replica(large, tmp_path):
    made = rescore(large, tmp_path)
    for before, after in zip(large.lines(), made.lines(), strict=True):
        assert {**before, "seconds": 0} == {**after, "seconds": 0}
    told = made.manifest["rescored"]
    assert (told["episodes"], told["changed"], told["left"]) == (len(large.stored()), 0, 0)
    assert made.manifest["golds"] == large.manifest["golds"]
    assert sum(made.manifest["stops"].values()) == told["episodes"]


def test_a_mistake_found_by_another_process_is_one_line(base, tmp_path, capsys):
    large = scale.replicate(base, tmp_path / "replica", SEVERAL)
    tasks = large.path / "tasks.jsonl"
    tasks.write_bytes(tasks.read_bytes().split(b"\n", 1)[1])
    assert main(["rescore", str(large.path), "--results", str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "is not among today's, so it can't be judged" in said[0]


def test_a_table_of_lines_takes_less_memory_than_the_lines(large):
    lines, some = large.stored(), 1_000
    tracemalloc.start()
    frame = tables.episode_table(Seen().watch(islice(lines, some)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(frame) == some
    assert peak < lines.path.stat().st_size * some / len(lines)


# ------------------------------------------------------------ what the page holds


SPACE = 500_000


@pytest.fixture(scope="module")
def sample(analysis):
    return gather(analysis.lines, analysis.frame, space=SPACE)


def test_the_page_of_a_large_run_holds_a_sample_and_says_so(analysis, document, sample):
    assert sample == gather(analysis.lines, analysis.frame, space=SPACE)
    assert len(write_json(sample)) < SPACE * 1.1
    listed, total = len(sample["episodes"]), len(analysis.lines)
    assert 0 < sample["whole"] < listed < total == sample["total"]
    page = to_html(replace(document, episodes=sample))
    assert f"{listed} of {total} episodes are in this page." in page
    assert "python -m bench show RUN TASK prints any." in page


def test_some_episodes_behind_each_number_can_be_opened(analysis, sample):
    opened = Counter()
    for values in sample["episodes"]:
        one = dict(zip(COLUMNS, values, strict=True))
        names = [sample["names"][place] for place, top, _ in sample["counts"][one["counts"]] if top]
        opened.update((one["way"], name) for name in [*names, one["stop"]] if one["turns"])
    every = Counter()
    for row in analysis.frame.to_dict("records"):
        names = [name for name, (top, _) in counts_of(row).items() if top]
        every.update((row["arm"].replace("react", "ReAct"), name) for name in [*names, row["stop"]])
    assert len(every) > 50
    assert not {key: n for key, n in every.items() if opened[key] < min(n, EACH)}


def test_an_episode_that_the_page_leaves_out_is_shown(large, analysis, sample, capsys):
    held = {values[COLUMNS.index("task")] for values in sample["episodes"] if values[-2]}
    left = next(task for task in analysis.frame["task_id"] if task not in held)
    assert main(["show", str(large.path), left]) == 0
    assert capsys.readouterr().out.count(f"=== {left} ") == 2 * scale.TRIALS


# ------------------------------------------------------------ lines where they stand


def key(task, **more):
    own = {"driver": "react", "dialect": "json", "level": "hardened", "variant": "full"}
    return {"task_id": task, **own, "trial": 0, "endpoint": "e", **more}


LINES = {
    "as we write them": '{KEY,"turns":[],"score":1}\n',
    "turns first": '{"turns":[],KEY,"score":1}\n',
    "with spaces": '{ KEY, "turns": [], "score": 1}\n',
    "blank lines between": '\n{KEY,"turns":[],"score":1}\n \n',
    "written again": '{KEY,"turns":[],"score":0}\n{KEY,"turns":[],"score":1}\n',
    "turns in a text": '{"x":",\\"turns\\":[",KEY,"turns":[],"score":1}\n',
    "half a line behind": '{KEY,"turns":[],"score":1}\n{KEY,"tur',
}


@pytest.mark.parametrize("written", LINES.values(), ids=LINES)
def test_a_stored_line_is_found_and_read(written, tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_text(written.replace("KEY", json.dumps(key("t"))[1:-1]), encoding="utf-8")
    lines = StoredLines(path)
    assert len(lines) == 1
    assert lines[0] == lines[-1] == lines[:5][0] == next(iter(lines))
    assert (lines[0]["task_id"], lines[0]["score"]) == ("t", 1)


def test_a_line_that_is_no_json_is_named(tmp_path):
    path = tmp_path / "episodes.jsonl"
    good = json.dumps(key("t")).encode()
    path.write_bytes(good + b"\n" + good[:-1] + b',"turns":[}\n')
    with pytest.raises(WorkbenchError, match=r"episodes.jsonl:2: not JSON"):
        list(StoredLines(path))


# ------------------------------------------------------------ statistics of many units


def shares(units, seed=1):
    return np.random.default_rng(seed).choice(
        [-1, -0.5, 0, 0.25, 1], units, p=[0.1, 0.1, 0.5, 0.2, 0.1]
    )


@pytest.mark.parametrize("level", [0.95, 0.9])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_ends_are_scipys_for_the_same_resamples(level, seed):
    rng = np.random.default_rng(seed)
    top, below = rng.binomial(3, 0.1, 200).astype(float), rng.integers(3, 6, 200).astype(float)
    theirs = scipy_stats.bootstrap(
        *((top, below), lambda a, b, axis: a.sum(axis) / b.sum(axis)),
        paired=True,
        vectorized=True,
        n_resamples=999,
        confidence_level=level,
        rng=rng,
    )
    values, counts = np.unique(np.stack([top, below]), axis=1, return_counts=True)
    ours = stats._bca_ends(values, counts, theirs.bootstrap_distribution, level)
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=1e-12)


DRAWN = {
    "few values": shares(2_000),
    "a value a unit": np.random.default_rng(3).normal(0.1, 1, 2_000),
}


@pytest.mark.parametrize("values", DRAWN.values(), ids=DRAWN)
def test_many_units_are_resampled_as_few_are(values):
    """The interval of a mean is near the normal one where units are many."""
    (found,) = stats._bootstrap((values,), stats._mean, (0.95,))
    half = 1.96 * values.std() / len(values) ** 0.5
    assert found.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.1 * half)


@pytest.mark.parametrize("side", ["two-sided", "greater", "less"])
@pytest.mark.parametrize(
    "values", [shares(40), np.random.default_rng(3).normal(0.3, 1, 16)], ids=["few", "each its own"]
)
def test_flipping_counts_is_flipping_signs(values, side):
    moved = values[values != 0][:16]
    exact = stats.sign_flip(moved, side=side)
    assert stats._flip_values(moved, stats.RESAMPLES, side) == pytest.approx(exact, abs=0.005)


# ------------------------------------------------------------ the page of figures


def took(seconds, megabytes):
    return scale.Took(seconds, seconds, int(megabytes * 1e6))


def size(episodes, seconds, megabytes):
    return scale.Size(
        episodes, episodes * 9_000, {n: took(seconds, megabytes) for n in ("report", "rescore")}
    )


FIGURES = {
    # the sizes; how many targets are met, and how many not
    "all met": ([size(10_000, 6, 300), size(100_000, 59, 900)], 6, 0),
    "too slow for a report": ([size(10_000, 7, 300), size(100_000, 70, 900)], 5, 1),
    "too much memory": ([size(10_000, 6, 300), size(100_000, 59, 1_100)], 4, 2),
    "growth above linear": ([size(10_000, 4, 300), size(100_000, 59, 900)], 4, 2),
    "memory is not told": ([size(10_000, 6, 0), size(100_000, 59, 0)], 4, 0),
    "a small size has no target": ([size(10_000, 600, 3_000)], 0, 0),
}


@pytest.mark.parametrize(("found", "met", "missed"), FIGURES.values(), ids=FIGURES)
def test_each_size_stands_beside_its_targets(found, met, missed):
    text = "\n".join(scale.scale_lines(found))
    assert text.count(": met") == met
    assert text.count("**not met**") == missed
    assert text.count("| report |") == len(found)


def test_a_command_that_fails_is_named():
    with pytest.raises(WorkbenchError, match="report failed: bench: nowhere: no such run"):
        scale.run_apart("report", "nowhere")


def test_a_command_is_watched():
    found = scale.run_apart("--version")
    assert found.seconds >= 0
    assert found.cpu > 0
