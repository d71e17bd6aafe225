"""The same figures from another package, statsmodels: on one recorded run, and on made-up scores."""

import asyncio
from dataclasses import asdict, fields

import numpy as np
import pytest
from statsmodels.stats import contingency_tables, inter_rater, multitest, power, proportion
from statsmodels.stats.weightstats import DescrStatsW

from bench import stats, tables
from bench.calibrate.simulate import World, draw, lines_of
from bench.choice import find_recordings
from bench.clients import RecordedClient
from bench.cross_check import gee_logit
from bench.drivers import make_driver
from bench.loop import solve
from bench.paths import find_datasets
from bench.run import bundled_toolbox
from bench.scoring import score
from bench.tables import MEASURES
from bench.tasks import load_tasks
from bench.types import Episode

PARSE = next(measure for measure in MEASURES if measure.name == "parse_failure")


@pytest.fixture(scope="module")
def frame():
    """Give the recorded run that comes with the project, up to 40 units of it, as a table."""
    recording = find_recordings(find_datasets() / "recordings")[0]
    held = {step.task_id for step in recording.steps.values()}
    tasks = [task for task in load_tasks() if task.id in held][:80]
    return tables.episode_table(asyncio.run(replay(tasks, recording)))


async def replay(tasks, recording):
    client, lines = RecordedClient(recording), []
    names = [item.name for item in fields(Episode) if item.name not in ("turns", "seconds")]
    for task in tasks:
        for way in ("react", "native"):
            driver, toolbox = make_driver(way), bundled_toolbox(task, "full")
            settings = recording.manifest["settings"]
            episode = await solve(task, toolbox, driver, client, settings=settings)
            counts = asdict(score(task, episode, toolbox.tools, driver))
            lines.append({**{name: getattr(episode, name) for name in names}, "score": counts})
    return lines


def test_single_rates_of_one_language_have_the_same_interval(frame):
    one = frame[frame["lang"] == "en"]
    for rows in tables.arms(one).values():
        found = tables.divide(rows, "strict_unreadable", "strict_first")
        method = "beta" if found.top in (0, found.below) else "wilson"
        low, high = proportion.proportion_confint(found.top, found.below, method=method)
        assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=1e-9)


def test_the_main_difference_is_that_of_a_paired_t_test(frame):
    """The bootstrap and the permutation assume less; on a run of this size they must be near."""
    arms = list(tables.arms(frame).values())
    units = tables.paired_units(arms, PARSE)
    found = tables.compare(*arms, PARSE, stats.RESAMPLES)
    other = DescrStatsW((units[0] - units[1]).to_numpy())
    low, high = other.tconfint_mean()
    assert found.estimate == pytest.approx(other.mean)
    assert found.spread == pytest.approx(other.std_ddof(1))
    assert found.interval.low == pytest.approx(low, abs=0.2 * (high - low))
    assert found.interval.high == pytest.approx(high, abs=0.2 * (high - low))
    assert found.p == pytest.approx(other.ttest_mean()[1], abs=0.03)


def test_the_rates_of_a_run_are_those_of_a_ratio_with_clustered_errors(frame):
    """The same share of first attempts, with the sandwich error of a weighted mean over units."""
    for rows in tables.arms(tables.scope(frame, "read")).values():
        found = tables.rate(rows, PARSE)
        sums = rows.groupby("pair")[["first_failed", "first_attempts"]].sum().to_numpy(dtype=float)
        if found.top in (0, found.below):
            continue
        rate, n = found.top / found.below, len(sums)
        error = np.sqrt(((sums[:, 0] - rate * sums[:, 1]) ** 2).sum() * n / (n - 1)) / found.below
        width = found.interval.high - found.interval.low
        assert width == pytest.approx(2 * 1.96 * error, rel=0.25)


def test_holm_and_benjamini_hochberg_on_the_ps_of_a_run(frame):
    found = tables.comparisons(frame)
    for planned, method in ((True, "holm"), (False, "fdr_bh")):
        own = [c for c in found if c.planned == planned and c.raw is not None]
        if own:
            other = multitest.multipletests([c.raw for c in own], method=method)[1]
            assert [c.p for c in own] == pytest.approx(list(other))


def test_mcnemar_on_the_languages_of_a_run(frame):
    seen = 0
    for found in tables.comparisons(frame):
        if found.mcnemar is not None:
            d = found.difference
            table = [[0, d.higher], [d.lower, 0]]
            other = contingency_tables.mcnemar(table, exact=True).pvalue
            assert found.mcnemar == pytest.approx(min(1.0, other))
            seen += 1
    assert seen


def test_kappa():
    first, second = list("aabbccab"), list("aabbcabb")
    table = np.zeros((3, 3))
    for one, two in zip(first, second, strict=True):
        table["abc".index(one), "abc".index(two)] += 1
    other = inter_rater.cohens_kappa(table, return_results=False)
    assert stats.kappa(first, second) == pytest.approx(other)


@pytest.mark.parametrize(("units", "spread"), [(40, 0.5), (80, 0.45), (120, 0.6)])
def test_the_smallest_detectable_difference(units, spread):
    """Ours adds two quantiles; theirs solves the noncentral t: a thousandth apart."""
    size = power.TTestPower().solve_power(nobs=units, alpha=0.05, power=0.8)
    assert stats.smallest_detectable(units, spread) == pytest.approx(size * spread, rel=0.01)


# ------------------------------------------------------------ the GEE logit


def simulated(difference, seed, *, variant="full", rate=0.5):
    scores = draw(World(120, rate=rate), difference, 1, np.random.default_rng(seed))[0]
    none = np.zeros(scores.shape)
    return [{**line, "variant": variant} for line in lines_of(scores, none, none)]


@pytest.mark.parametrize(
    ("difference", "sure"), [(0.25, True), (0.0, False)], ids=["a difference", "none"]
)
def test_gee_agrees_about_two_ways(difference, sure):
    frame = tables.episode_table(simulated(difference, 4))
    react, native = tables.arms(frame).values()
    ours = tables.compare(react, native, MEASURES[0])
    theirs = gee_logit({(1,): react, (0,): native})
    assert (theirs.p < 0.05) == (ours.p < 0.05) == sure
    assert theirs.p == pytest.approx(ours.p, abs=0.1)
    assert (theirs.estimate > 0) == (ours.estimate > 0)


@pytest.mark.parametrize(
    ("gain", "sure"), [(0.45, True), (0.0, False)], ids=["an interaction", "none"]
)
def test_gee_agrees_about_an_interaction(gain, sure):
    lines = [*simulated(0.0, 5), *simulated(gain, 6, variant="bare")]
    frame = tables.episode_table(lines)
    cells = {
        (int(driver == "react"), int(variant == "bare")): rows
        for (driver, variant), rows in frame.groupby(["driver", "variant"])
    }
    units = tables.paired_units([cells[1, 1], cells[0, 1], cells[1, 0], cells[0, 0]], MEASURES[0])
    a, b, c, d = (units[at].to_numpy() for at in range(4))
    ours = stats.interaction((a, b), (c, d), stats.QUICK)
    theirs = gee_logit(cells)
    assert (theirs.p < 0.05) == (ours.p < 0.05) == sure
    assert ours.estimate == pytest.approx((a - b - c + d).mean())


def test_gee_says_nothing_where_a_cell_is_empty_or_full():
    frame = tables.episode_table(simulated(0.0, 7))
    react, native = tables.arms(frame).values()
    assert gee_logit({(1,): react.assign(success=1), (0,): native}) is None
    assert gee_logit({(1,): react.assign(success=0), (0,): native}) is None
    assert gee_logit({(1,): react.iloc[:0], (0,): native}) is None
