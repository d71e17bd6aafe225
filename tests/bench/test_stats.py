"""The statistics against published values and formulas written another way."""

import doctest
import math
from itertools import product

import numpy as np
import pytest

from bench import stats, tables
from bench.calibrate import findings, intervals, moves, simulate

RNG = np.random.default_rng(11)


def test_wilson_is_the_root_of_its_own_equation():
    for k, n in ((1, 10), (5, 10), (40, 100), (199, 200)):
        found = stats.wilson(k, n)
        for p in (found.low, found.high):
            assert abs(k / n - p) == pytest.approx(1.959964 * math.sqrt(p * (1 - p) / n), rel=1e-4)


EXACT = {
    "0 of 10 (published)": (0, 10, 0.0, 0.30850),
    "10 of 10": (10, 10, 0.69150, 1.0),
    "5 of 10": (5, 10, 0.18709, 0.81291),
    "1 of 20": (1, 20, 0.00127, 0.24873),
}


@pytest.mark.parametrize(("k", "n", "low", "high"), EXACT.values(), ids=EXACT)
def test_clopper_pearson(k, n, low, high):
    found = stats.clopper_pearson(k, n)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_no_data_is_told_as_such():
    assert stats.wilson(0, 0) == stats.Interval(0.0, 1.0, "no data")
    assert stats.clopper_pearson(0, 0) == stats.Interval(0.0, 1.0, "no data")


def test_the_rule_of_three_is_near_the_exact_bound():
    for n in (30, 100, 500):
        assert stats.rule_of_three(n) == pytest.approx(1 - 0.05 ** (1 / n), rel=0.06)
    assert stats.rule_of_three(0) == stats.rule_of_three(2) == 1.0


def test_mcnemar_is_a_coin_toss_over_the_discordant():
    assert stats.mcnemar(0, 0) == 1.0
    assert stats.mcnemar(8, 1) == pytest.approx(2 * (1 + 9) / 2**9)
    assert stats.mcnemar(1, 8) == stats.mcnemar(8, 1)


def test_holm_and_benjamini_hochberg_by_hand():
    ps = [0.01, 0.04, 0.03, 0.005]
    assert stats.holm(ps) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.benjamini_hochberg(ps) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert stats.holm([0.7, 0.6]) == [1.0, 1.0]
    assert stats.holm([]) == stats.benjamini_hochberg([]) == []


RATES = {
    "none of all: exact, with n the units": ([0, 0, 0], [2, 2, 2], "Clopper-Pearson"),
    "all of all": ([2, 2, 2], [2, 2, 2], "Clopper-Pearson"),
    "one observation a unit": ([1, 0, 1, 0], [1, 1, 1, 1], "Wilson"),
    "several observations a unit": ([2, 0, 1, 1], [2, 2, 2, 2], "BCa bootstrap over units"),
    "units without a denominator are no units": ([0, 1, 0], [0, 1, 1], "Wilson"),
}


@pytest.mark.parametrize(("top", "below", "method"), RATES.values(), ids=RATES)
def test_the_interval_of_a_rate(top, below, method):
    found = stats.rate_interval(top, below)
    assert found.method == method
    assert found.low <= sum(top) / sum(below) <= found.high


def test_zero_of_n_uses_units_not_replies():
    assert stats.rate_interval([0] * 10, [7] * 10).high == pytest.approx(0.3085, abs=1e-4)


def test_units_that_all_say_the_same_fall_back():
    found = stats.rate_interval([1] * 20, [2] * 20)
    assert found.low < 0.5 < found.high


def test_sign_flip_is_exact_up_to_17_units():
    moved = [1, 1, 1, -1, 0.5, 0.5, 1, 0, 0]
    real = [d for d in moved if d]
    seen = abs(sum(real))
    flips = [
        abs(sum(s * d for s, d in zip(signs, real, strict=True)))
        for signs in product((1, -1), repeat=7)
    ]
    assert stats.sign_flip(moved) == pytest.approx(sum(f >= seen for f in flips) / len(flips))


def test_sign_flip_agrees_with_mcnemar_on_yes_or_no():
    moved = [1] * 12 + [-1] * 3 + [0] * 40
    assert stats.sign_flip(moved) == pytest.approx(stats.mcnemar(12, 3))


@pytest.mark.parametrize("side", ["greater", "less"])
def test_sign_flip_to_one_side_by_hand(side):
    moved = [1, 1, 1, 1, -2]
    sums = [
        sum(s * d for s, d in zip(signs, moved, strict=True))
        for signs in product((1, -1), repeat=len(moved))
    ]
    as_far = [s >= sum(moved) if side == "greater" else s <= sum(moved) for s in sums]
    assert stats.sign_flip(moved, side=side) == pytest.approx(sum(as_far) / len(sums))


def test_sign_flip_without_a_difference():
    assert stats.sign_flip([0, 0, 0]) == stats.sign_flip([]) == stats.sign_flip([1]) == 1.0


def test_a_paired_difference_by_hand():
    first, second = (
        np.array([1.0] * 30 + [0.5] * 10),
        np.array([0.0] * 10 + [1.0] * 20 + [0.5] * 10),
    )
    found = stats.paired_difference(first, second)
    assert (found.estimate, found.units, found.higher, found.lower) == (0.25, 40, 10, 0)
    assert found.p == pytest.approx(2 / 2**10)
    assert found.interval.low > 0.1
    assert found.interval.high < 0.42
    assert found.interval.low < found.narrow.low < found.narrow.high < found.interval.high
    assert found.spread == pytest.approx(np.std(first - second, ddof=1))


def test_the_bootstrap_is_near_the_textbook_interval():
    moved = RNG.choice([-1, -0.5, 0, 0.5, 1], size=200)
    found = stats.paired_difference(moved, np.zeros(200))
    half = 1.972 * moved.std(ddof=1) / math.sqrt(200)
    assert found.interval.low == pytest.approx(moved.mean() - half, abs=0.01)
    assert found.interval.high == pytest.approx(moved.mean() + half, abs=0.01)


def test_the_same_data_give_the_same_answer():
    first, second = RNG.random(60), RNG.random(60)
    assert stats.paired_difference(first, second) == stats.paired_difference(first, second)


TOO_LITTLE = {
    "under fifteen units": ([1] * 14, [0] * 13 + [1], "14 units, under 15"),
    "no unit differs": ([1] * 30, [1] * 30, "up to 10.0 % of units still may"),
    "every unit differs alike": ([1] * 30, [0] * 30, "the same difference in every unit"),
    "no unit at all": ([], [], "0 units"),
}


@pytest.mark.parametrize(("first", "second", "note"), TOO_LITTLE.values(), ids=TOO_LITTLE)
def test_where_only_counts_are_told(first, second, note):
    found = stats.paired_difference(first, second)
    assert found.interval is found.narrow is found.p is None
    assert note in found.note
    assert (found.bound is None) == (len(first) < stats.FEW)


BOUNDS = {
    "no unit of 100 differs": ([0.0] * 100, -0.03, 0.03),
    "no unit of 300 differs": ([0.0] * 300, -0.01, 0.01),
    "every unit of 100 is lost": ([-1.0] * 100, -1.0, -0.94),
    "every unit of 60 is half better": ([0.5] * 60, 0.425, 0.525),
}


@pytest.mark.parametrize(("moved", "low", "high"), BOUNDS.values(), ids=BOUNDS)
def test_where_all_units_say_the_same_the_rule_of_three_bounds_the_difference(moved, low, high):
    found = stats.paired_difference(moved, [0.0] * len(moved))
    assert found.bound.method == "rule of three"
    assert (found.bound.low, found.bound.high) == (pytest.approx(low), pytest.approx(high))


def test_differences_that_differ_in_their_last_bits_only_are_the_same():
    found = stats.paired_difference([0.1 + 0.2] * 10 + [0.3] * 10, [0.0] * 20)
    assert found.interval is None
    assert found.bound is not None


def test_an_interaction_is_a_difference_of_differences():
    a, b, c, d = (RNG.random(40) for _ in range(4))
    found = stats.interaction((a, b), (c, d))
    assert found.estimate == pytest.approx((a - b).mean() - (c - d).mean())


def test_omnibus_sees_a_way_that_stands_out():
    noise = RNG.random((60, 3)) * 0.2
    assert stats.omnibus(noise, 499) > 0.05
    assert stats.omnibus(noise + np.array([0, 0, 0.2]), 499) == pytest.approx(1 / 500)


def test_pass_hat_counts_the_draws_without_a_failure():
    assert stats.pass_hat(3, 4, 1) == 0.75
    assert stats.pass_hat(3, 4, 2) == 0.5
    assert stats.pass_hat(3, 4, 4) == 0.0
    assert stats.pass_hat(4, 4, 4) == 1.0


def test_kappa_by_hand():
    first, second = ["y"] * 25 + ["n"] * 25, ["y"] * 20 + ["n"] * 5 + ["y"] * 10 + ["n"] * 15
    assert stats.kappa(first, second) == pytest.approx((0.7 - 0.5) / 0.5)
    assert math.isnan(stats.kappa(["y"], ["y"]))


def test_a_difference_of_the_detectable_size_is_found_four_times_in_five():
    units, spread = 80, 0.5
    least = stats.smallest_detectable(units, spread)
    assert least == pytest.approx((1.96 + 0.84) * spread / math.sqrt(units), rel=0.03)
    found = [
        abs(x.mean()) > 1.99 * x.std(ddof=1) / math.sqrt(units)
        for x in RNG.normal(least, spread, (2000, units))
    ]
    assert np.mean(found) == pytest.approx(0.8, abs=0.04)
    assert stats.smallest_detectable(10) == 1.0


def test_what_is_told_before_a_run_holds_for_holms_first_step():
    least = stats.smallest_detectable(80, stats.guess_spread(2), comparisons=3)
    assert least == pytest.approx((2.394 + 0.842) * stats.guess_spread(2) / 80**0.5, rel=0.03)
    assert least <= stats.foresee(80) < least + 0.01
    assert len(tables.PLANNED) == stats.PLANNED
    assert stats.foresee(10) == 1.0


def same_in_all(n, each=0.0):
    return stats.paired_difference([each] * n, [0.0] * n)


def difference(estimate, low, high, p):
    narrow = stats.Interval(low, high)
    return stats.Difference(estimate, 100, 1, 1, narrow, narrow, p)


WORDS = {
    "surely higher": (difference(0.2, 0.1, 0.3, 0.001), True, "better"),
    "surely higher, where lower is better": (difference(0.2, 0.1, 0.3, 0.001), False, "worse"),
    "surely lower": (difference(-0.2, -0.3, -0.1, 0.001), True, "worse"),
    "surely about the same": (difference(0.0, -0.02, 0.02, 0.9), True, "equivalent"),
    "surely better, however little": (difference(0.01, 0.005, 0.02, 0.01), True, "better"),
    "anything may be": (difference(0.02, -0.1, 0.14, 0.6), True, "not enough data"),
    "one side of the margin is open": (difference(0.02, -0.01, 0.04, 0.1), True, "not enough data"),
    "no interval": (stats.Difference(1.0, 5, 5, 0), True, "not enough data"),
    "no unit of 200 differs": (same_in_all(200), True, "equivalent"),
    "no unit of 40 differs": (same_in_all(40), True, "not enough data"),
    "every unit of 40 is lost": (same_in_all(40, -1.0), True, "worse"),
    "every unit of 40 is lost, where lower is better": (same_in_all(40, -1.0), False, "better"),
}


@pytest.mark.parametrize(("found", "higher", "word"), WORDS.values(), ids=WORDS)
def test_verdicts(found, higher, word):
    assert stats.judge(found, found.p, higher_is_better=higher) == word


LOSSES = {
    "as large as that, and sure": (difference(-0.05, -0.08, -0.02, None), 0.01, "shown"),
    "just as large": (difference(-0.03, -0.05, -0.01, None), 0.01, "shown"),
    "sure, but smaller": (difference(-0.02, -0.028, -0.01, None), 0.01, "excluded"),
    "sure, but perhaps as large": (difference(-0.02, -0.035, -0.01, None), 0.01, "not enough data"),
    "large, but not sure": (difference(-0.05, -0.15, 0.05, None), 0.2, "not enough data"),
    "a gain": (difference(0.05, 0.01, 0.09, None), 0.99, "excluded"),
    "no interval": (stats.Difference(-1.0, 5, 0, 5), None, "not enough data"),
    "no unit of 200 differs": (same_in_all(200), None, "excluded"),
    "no unit of 40 differs": (same_in_all(40), None, "not enough data"),
    "every unit of 40 is lost": (same_in_all(40, -1.0), None, "shown"),
}


@pytest.mark.parametrize(("found", "p", "word"), LOSSES.values(), ids=LOSSES)
def test_a_loss_of_three_points(found, p, word):
    assert stats.judge_loss(found, 0.03, p) == word


@pytest.mark.parametrize(
    "module", [stats, tables, findings, intervals, moves, simulate], ids=lambda m: m.__name__
)
def test_the_examples_hold(module):
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.attempted
    assert not found.failed
