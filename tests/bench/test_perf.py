"""What `bench.perf` measures: all sides do the same work, and the page tells how much and keeps it."""

import json
from dataclasses import replace

import pytest

from bench.peers.workers import Worker
from bench.perf import harness
from bench.perf.__main__ import main
from bench.perf.episodes import (
    Round,
    Took,
    measure_rounds,
    overhead_lines,
    prepare,
    throughput_lines,
)
from bench.perf.page import Figure, Stamp, keep_section, read_figures, read_sections, read_stamp
from bench.perf.replay import Replay, replay_apart, replay_lines


def make_round(bare, ours, cpu=1.0):
    return Round(Took(bare, 1.0, 100), Took(ours, cpu, 100))


def test_both_sides_make_the_same_number_of_requests():
    (found,) = measure_rounds(0.0, 2, episodes=6, rounds=1)
    assert found.bare.requests == found.ours.requests == 12
    assert min(found.bare.wall, found.ours.wall, found.bare.cpu, found.ours.cpu) > 0


def test_every_request_has_its_answer_and_no_two_answers_are_alike():
    work = prepare()
    assert len(work.answers) == sum(map(len, work.requests))
    assert {"tools" in one for episode in work.requests for one in episode} == {True, False}
    assert all(json.loads(text)["usage"] for text in work.answers.values())


OVERHEADS = {
    "met": ([make_round(1.0, 1.3), make_round(1.0, 1.2)], "1.25", 2),
    "met by the median": ([make_round(1, 1), make_round(1, 1.1), make_round(1, 9)], "1.10", 2),
    "missed by the clock": ([make_round(1.0, 1.31)], "1.31", 1),
    "missed in both": ([make_round(1.0, 2.0, 2.0)], "2.00", 0),
}


@pytest.mark.parametrize(("rounds", "ratio", "count"), OVERHEADS.values(), ids=OVERHEADS)
def test_the_overhead_is_a_ratio_with_its_target(rounds, ratio, count):
    text = "\n".join(overhead_lines(rounds))
    assert f"by the clock, ours is {ratio} of" in text
    assert text.count(": met") == count
    assert text.count("**not met**") == 2 - count


THROUGHPUTS = {
    # seconds for 100 requests, bare and ours; the ideal rate; the share
    "the bare SDK limits": ((1.0, 1.0), 1000, "100%", True),
    "the ideal rate limits": ((0.05, 0.1), 1000, "100%", True),
    "just enough": ((0.9, 1.0), 1000, "90%", True),
    "too slow": ((0.5, 1.0), 1000, "50%", False),
}


@pytest.mark.parametrize(
    ("seconds", "ideal", "share", "met"), THROUGHPUTS.values(), ids=THROUGHPUTS
)
def test_the_rate_is_held_against_the_smaller_one(seconds, ideal, share, met):
    text = "\n".join(throughput_lines([make_round(*seconds)], ideal))
    assert f"ours is {share} of the smaller" in text
    assert ("least 90%: met" in text) is met


# ---------------------------------------------------------------- beside inspect_ai

DEFAULT, LITTLE = harness.MODES


def make_sides(ours, default, little=1.0):
    """Seconds of 10 episodes, by both clocks."""
    seconds = {harness.OURS: ours, DEFAULT: default, LITTLE: little}
    return {name: harness.Took(took, took, 10, 20, 10) for name, took in seconds.items()}


INSPECTS = {
    "met": ([make_sides(1.0, 25.0)], "1/25.0", 2),
    "met by the median": ([make_sides(1, 26), make_sides(1, 1), make_sides(1, 90)], "1/26.0", 2),
    "missed": ([make_sides(1.0, 24.9)], "1/24.9", 0),
}


@pytest.mark.parametrize(("rounds", "ratio", "count"), INSPECTS.values(), ids=INSPECTS)
def test_an_episode_of_ours_is_a_part_of_one_of_inspect_ais(rounds, ratio, count):
    text = "\n".join(harness.inspect_lines(rounds, "inspect-ai 1.2.3"))
    assert text.count(f"an episode of ours takes {ratio} of {DEFAULT}") == 2
    assert (text.count(": met"), text.count("**not met**")) == (count, 2 - count)
    assert "inspect-ai 1.2.3" in text
    assert all(f"{name}={value!r}" in text for name, value in harness.MODES[LITTLE].items())


def test_a_side_that_did_other_work_is_no_comparison():
    sides = make_sides(1.0, 30.0)
    harness._check_same_work(sides)
    with pytest.raises(harness.WorkbenchError, match="did not do the same"):
        harness._check_same_work({**sides, LITTLE: replace(sides[LITTLE], turns=19)})


def test_our_side_solves_every_task_with_one_call_and_one_answer():
    tasks = harness.choose_tasks()
    assert len(tasks) == 100
    took = harness.run_ours(tasks[:3], 8)  # more than three tasks both ways: another trial
    assert took.work == (8, 16, 8)
    assert min(took.wall, took.cpu) > 0


def test_inspect_ai_is_given_what_our_model_is_given_and_what_our_tools_gave():
    tasks = harness.choose_tasks()
    scripts = harness.write_scripts(tasks)
    texts = {json.dumps(tool, sort_keys=True) for tool in scripts.tools}
    assert len(texts) == len(scripts.tools)
    for task, sample in zip(tasks, scripts.samples, strict=True):
        names = [scripts.tools[place]["function"]["name"] for place in sample["tools"]]
        assert sample["call"]["name"] in names
        assert 5 <= len(names) <= 8
        assert [said["role"] for said in sample["messages"]] == ["system", "user"]
        assert task.question in sample["messages"][-1]["content"]
        assert sample["result"]
        assert sample["answer"]
    assert json.loads(json.dumps(scripts.samples))


def test_without_inspect_ai_the_runner_says_what_is_missing(tmp_path):
    ours = replace(harness.parser_of(harness.load_peer()), peer=None)
    with Worker(ours, environments=tmp_path, adaptors=harness.RUNNER) as worker:
        assert "inspect_ai" in worker.start()["failed"]


def test_inspect_ai_does_the_same_work_as_ours(inspect_ai):
    version, [found] = harness.measure_rounds(inspect_ai, episodes=4, rounds=1)
    assert [took.work for took in found.values()] == [(4, 8, 4)] * 3
    assert [version.replace(" ", "==")] == list(harness.load_peer().requires)


# ---------------------------------------------------------------- replaying

REPLAY = Replay(["a-model"], 500, 1600, load=2.0, run=5.0, cpu=6.0, peak=65_000_000)


def test_a_replay_is_told_by_its_medians_and_its_largest_memory():
    rounds = [REPLAY, replace(REPLAY, run=50.0, cpu=9.0, peak=66_000_000), replace(REPLAY, cpu=7.0)]
    first, second = read_figures("\n".join(replay_lines(rounds)))
    assert "100 recorded episodes are replayed in a second" in first.what
    assert "in 7.0 s of the processor" in first.what
    assert "at most 66 MB" in second.what


def test_a_replay_runs_apart_and_tells_its_own_memory():
    found = replay_apart(limit=2)
    assert found.episodes == 4
    assert found.replies >= 4
    assert found.names
    assert min(found.load, found.run, found.cpu) > 0
    assert 10e6 < found.peak < 1e9


# ---------------------------------------------------------------- the page

PARTS = ("inspect", "overhead", "replay")
FIGURES = {
    "with a target": ("- ours is 0.7 of it; at most 1.3: met", Figure("ours is 0.7 of it", "at most 1.3", "met")),
    "missed": ("- it is 2; at most 1: **not met**", Figure("it is 2", "at most 1", "**not met**")),
    "no target": ("- at most 65 MB are held", Figure("at most 65 MB are held")),
    "two parts, no target": ("- all hold; the slowest: a", Figure("all hold; the slowest: a")),
    "a verdict alone": ("- it holds: met", Figure("it holds", "", "met")),
}  # fmt: skip


@pytest.mark.parametrize(("line", "figure"), FIGURES.values(), ids=FIGURES)
def test_a_bullet_of_a_section_is_a_figure(line, figure):
    assert list(read_figures(f"## A\n\nMachine: - no bullet.\n\n{line}\n")) == [figure]


def test_measuring_one_part_leaves_the_others_as_they_are():
    page = keep_section("", "replay", "## Replay\n\n- 1 | 2\n", PARTS)
    page = keep_section(page, "soak", "## Soak\n\n- a part of a later version\n", PARTS)
    page = keep_section(page, "overhead", "## Old\n\n- 3; at most 4: met", PARTS)
    page = keep_section(page, "overhead", "## New \\1\n\n- 5; at most 4: **not met**", PARTS)
    assert read_sections(page) == {
        "overhead": "## New \\1\n\n- 5; at most 4: **not met**",
        "replay": "## Replay\n\n- 1 | 2",
        "soak": "## Soak\n\n- a part of a later version",
    }
    assert list(read_sections(page)) == ["overhead", "replay", "soak"]
    rows = [
        line for line in page.splitlines() if line.startswith(("| overhead", "| replay", "| soak"))
    ]
    assert rows == [
        "| overhead |  | 5 | at most 4 | **not met** |",
        "| replay |  | 1 &#124; 2 |  |  |",
        "| soak |  | a part of a later version |  |  |",
    ]
    assert keep_section(page, "replay", read_sections(page)["replay"], PARTS) == page


def test_the_table_tells_when_where_and_how_to_measure_again():
    stamp = Stamp("2026-01-02", "a CPU (R), 2 cores; workbench 0.1", "python -m bench.perf replay")
    text = f"## Replay\n\n- 1 a second\n\n{stamp.line()}"
    assert read_stamp(text) == stamp
    page = keep_section("", "replay", text, PARTS)
    assert "| replay | 2026-01-02 | 1 a second |  |  |" in page
    assert "- replay: `python -m bench.perf replay` on a CPU (R), 2 cores; workbench 0.1" in page


def test_a_part_that_there_is_not_is_one_line(capsys, tmp_path):
    assert main(["speed", "--results", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("bench.perf: there is no part 'speed'; there are: ")
    assert not list(tmp_path.iterdir())
