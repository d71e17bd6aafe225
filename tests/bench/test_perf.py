"""What `bench.perf` measures of episodes: both sides do the same work, and the page tells how much."""

import json

import pytest

from bench.perf.episodes import (
    Round,
    Took,
    measure_rounds,
    overhead_lines,
    prepare,
    throughput_lines,
)


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
