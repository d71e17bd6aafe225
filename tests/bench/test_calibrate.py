"""The calibration: the ledger says what the harness must count, and simulated scores have a truth."""

import asyncio
import json
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

from bench import tables
from bench.__main__ import main
from bench.calibrate import accounts, findings, page, simulate, summarize
from bench.calibrate.accounts import Account, keep_account
from bench.calibrate.client import DamagingClient
from bench.calibrate.damage import ANSWER, CALL, DAMAGES, LEFT, Scene, other_calls
from bench.calibrate.findings import Calibration, limits
from bench.calibrate.intervals import CONDITIONS, RUNS, Coverage, Runs, Share, cover, judge_runs
from bench.calibrate.moves import Move, script_of
from bench.calibrate.simulate import World
from bench.drivers import make_driver
from bench.report import to_markdown
from bench.run import bundled_toolbox
from bench.tasks import load_tasks
from bench.texts import speaking
from bench.types import Request, StepKey, WorkbenchError
from parsers import LEVELS

TASKS = load_tasks(limit=60)


@cache
def scenes(way):
    """Give every move of the tasks, one call and two at a time, and each final answer."""
    found = []
    for task in TASKS:
        tools = {tool.name: tool for tool in bundled_toolbox(task, "full").tools}
        script = script_of(task)
        moves = [*(Move((call,)) for call in script.calls), Move(final=script.final)]
        moves += [Move(script.calls[:2])] if len(script.calls) > 1 else []
        others = other_calls(task, tools)
        found += [Scene(task, tools, way, move, others, Random(3)) for move in moves]  # noqa: S311
    return found


def damaged(damage, way, most=4):
    found = ((scene, damage.make(scene)) for scene in scenes(way))
    done = [(scene, sent) for scene, sent in found if sent is not None]
    return done[:: max(1, len(done) // most)]


NOT_BOTH_WAYS = {
    *("ReAct text", "object as arguments", "no id", "streamed", "one of several broken"),
    *("invented observation", "Chinese labels", "no move", "unlabelled answer"),
}


@pytest.mark.parametrize("way", ["react", "native"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_a_damage_is_read_as_it_says_at_each_level(damage, way):
    done = damaged(damage, way)
    assert done or damage.name in NOT_BOTH_WAYS
    driver = make_driver(way)
    for scene, sent in done:
        if sent.reply is None:
            assert sent.reads == (LEFT, LEFT, LEFT)
            continue
        for level, says in zip(LEVELS, sent.reads, strict=True):
            reading = driver.read(sent.reply, tuple(scene.tools.values()), level)
            kind = reading.failure.kind if reading.failure else reading.outcome
            assert says in (reading.outcome, kind)
            if says == CALL:
                read = [(call.name, call.arguments) for call in reading.good_calls]
                assert read == [(name, dict(values)) for name, values in sent.calls]
            if says == ANSWER:
                assert reading.final == sent.final


def test_what_can_be_repaired_shows_as_that_repair_and_never_as_a_failure():
    driver = make_driver("native")
    named = {damage.name: damage for damage in DAMAGES}
    for name, repair in (("trailing comma", "trailing_comma"), ("fence", "fence_removed")):
        for scene, sent in damaged(named[name], "native"):
            reading = driver.read(sent.reply, tuple(scene.tools.values()))
            assert [found.name for found in reading.repairs] == [repair]
            assert reading.failure is None


def test_the_accounts_are_exact():
    account = keep_account(300, seed=5, tasks=TASKS[:30])
    assert account.exact, account.examples
    assert account.damaged >= 300
    assert account.checks > 20 * account.replies
    assert len(account.kinds) > 50


def one_episode(way="native", trial=0):
    client = DamagingClient({task.id: task for task in TASKS}, accounts._tools, seed=1)
    driver, task = make_driver(way), TASKS[0]
    episode, score = asyncio.run(accounts._run(task, driver, client, trial))
    return client, task, driver, episode, score, client.ledger[task.id, way, trial]


LIES = {
    "another outcome": {"reads": ("no_move", "no_move", "no_move")},
    "another call": {"reads": (CALL, CALL, CALL), "calls": (("get_weather", {"city": "Rome"}),)},
    "another answer": {"reads": (ANSWER, ANSWER, ANSWER), "final": "something else"},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_harness_that_reads_something_else_is_found_out(lie):
    _, task, driver, episode, _, entries = one_episode()
    account = Account()
    accounts._check_episode(account, task, driver, episode, entries)
    assert account.exact
    entries[0] = replace(entries[0], sent=replace(entries[0].sent, **lie))
    accounts._check_episode(account, task, driver, episode, entries)
    assert not account.exact
    assert "injected" in account.examples[0]


@pytest.mark.parametrize(
    "count", ["success", "replies", "calls", "readable", "missed", "read", "prompt", "levels"]
)
def test_a_score_that_miscounts_is_found_out(count):
    client, task, _, episode, score, entries = one_episode()
    truth = accounts._truth(client, task, entries)
    account = Account()
    accounts._check_score(account, episode, score, truth)
    assert account.exact
    accounts._check_score(account, episode, replace(score, **{count: 99}), truth)
    assert list(account.wrong) == [f"score: {count}"]


def test_a_table_that_drops_an_episode_is_found_out():
    *_, episode, score, _ = one_episode()
    line = accounts._line(episode, score)
    account = Account()
    accounts._check_tables(account, [line], [line])
    assert account.exact
    accounts._check_tables(account, [line], [line, line])
    assert "table: episodes" in account.wrong


def test_the_same_seed_says_the_same_whatever_the_order():
    def replies(names, seed):
        client = DamagingClient({task.id: task for task in TASKS}, accounts._tools, seed)
        keys = [StepKey(name, "react", "full", 0, 0) for name in names]
        said = {k.task_id: asyncio.run(client.complete(Request((), {}, k))) for k in keys}
        return [said[name] for name in sorted(said)]

    names = [task.id for task in TASKS[:20]]
    assert replies(names, 4) == replies(names[::-1], 4)
    assert replies(names, 4) != replies(names, 5)


# ------------------------------------------------------------ simulated scores


def test_the_truth_of_a_world_is_what_its_draws_tend_to():
    world = World(400, languages=2, trials=2)
    first, second = simulate.unit_means(simulate.draw(world, 0.2, 60, np.random.default_rng(1)))
    assert (first - second).mean() == pytest.approx(0.2, abs=0.012)
    one, _ = simulate.logits(world, 0.2)
    assert first.mean() == pytest.approx(simulate.mean_rate(one, world.scale), abs=0.015)


def test_units_of_a_simulated_run_are_those_of_the_tables():
    scores = simulate.draw(World(20, trials=2), 0.1, 1, np.random.default_rng(2))
    none = np.zeros(scores[0].shape)
    frame = tables.episode_table(simulate.lines_of(scores[0], none, none))
    arms = tables.arms(frame)
    units = tables.paired_units(list(arms.values()), tables.MEASURES[0])
    first, second = simulate.unit_means(scores)
    assert list(arms) == [("simulated", "react"), ("simulated", "native")]
    assert units[0].to_numpy() == pytest.approx(first[0])
    assert units[1].to_numpy() == pytest.approx(second[0])


def test_a_few_tables_cover_about_what_they_should():
    found = cover(World(20), 40, (1,))
    assert found.wide.of == found.rate.of == found.alarms.of == 40
    assert found.wide.hits >= 33
    assert found.narrow.hits <= found.wide.hits
    assert found.alarms.hits <= 7


def test_a_run_with_a_large_difference_is_judged_so():
    found = judge_runs(World(80, ability=0.5, lean=0.0, tongue=0.0, trials=8), 2, (1,))
    assert (found.found, found.reversed) == (Share(2, 2), Share(0, 2))
    assert found.alarms.of == 2


# ------------------------------------------------------------ what is written


def calibration(**changes):
    good = Coverage(Share(95, 100), Share(90, 100), Share(95, 100), Share(5, 100), Share(0, 100))
    runs = Runs(Share(85, 100), Share(0, 100), Share(3, 100), 45.0)
    account = Account(episodes=10, replies=30, damaged=25, checks=900)
    account.kinds.update({"react: fence": 3})
    found = Calibration(
        account, (good,) * len(CONDITIONS), (runs,) * len(RUNS), {"seed": 1, "tables": 100}
    )
    return replace(found, **changes)


def broken_account():
    account = Account(checks=10)
    account.check("score: calls", "somewhere", 1, 2)
    return account


POOR = Coverage(wide=Share(80, 100), alarms=Share(5, 100))
LOUD = Coverage(wide=Share(95, 100), alarms=Share(20, 100))
WEAK = Runs(Share(60, 100), Share(0, 100), Share(5, 100))
BROKEN = {
    "a count differs": {"account": broken_account()},
    "intervals too short": {"coverage": (POOR,) * len(CONDITIONS)},
    "too many false alarms": {"coverage": (LOUD,) * len(CONDITIONS)},
    "differences missed": {"runs": (WEAK,) * len(RUNS)},
    "nothing was run": {"runs": (Runs(),) * len(RUNS)},
}


def test_what_must_hold_does():
    assert all(one.kept for one in limits(calibration()))


@pytest.mark.parametrize("changes", BROKEN.values(), ids=BROKEN)
def test_what_does_not_hold_is_said(changes):
    found = calibration(**changes)
    assert not all(one.kept for one in limits(found))
    told = to_markdown(page.compose(found))
    assert "NO (" in told


def test_in_chinese_no_sentence_is_left_in_english(english_left):
    found = calibration()
    found.account.kinds.update({f"native: {damage.name}": 1 for damage in DAMAGES})
    assert english_left(to_markdown(page.compose(found)))
    with speaking("zh"):
        text = to_markdown(page.compose(found))
        assert english_left(summarize(found)) == []
    assert text.startswith("# 模拟：")
    assert english_left(text) == []


def test_the_file_is_read_again(tmp_path):
    path = tmp_path / "calibration.json"
    found = calibration()
    path.write_text(json.dumps(findings.to_json(found)))
    again = findings.read(path)
    assert findings.to_json(again) == findings.to_json(found)
    assert path.read_text().startswith('{"simulated": "Simulated: no model')


@pytest.mark.parametrize(
    "text", ["[]", "{}", "no JSON", '{"format": 99}'], ids=["list", "empty", "text", "later"]
)
def test_another_file_is_one_clear_line(tmp_path, text):
    path = tmp_path / "calibration.json"
    path.write_text(text)
    with pytest.raises(WorkbenchError, match=r"calibration\.json: no calibration of this version"):
        findings.read(path)


def test_the_appendix_says_first_that_it_is_simulated(tmp_path):
    path = tmp_path / "calibration.json"
    assert page.calibration_blocks(path) == []
    path.write_text(json.dumps(findings.to_json(calibration())))
    blocks = page.calibration_blocks(path)
    assert blocks[0].text == findings.SIMULATED
    assert "80 units" in repr(blocks)


def test_the_command_writes_the_figures_and_their_page(tmp_path, capsys):
    words = ["--replies", "60", "--tables", "4", "--seed", "3", "--processes", "1"]
    status = main(["calibrate", *words, "--results", str(tmp_path)])
    said = capsys.readouterr().out
    folder = tmp_path / "calibration"
    assert said.startswith("Simulated: ")
    assert "0 differences in" in said
    found = findings.read(folder / "calibration.json")
    assert found.account.exact
    assert found.account.damaged >= 60
    assert found.made["seed"] == 3
    assert status == (0 if all(one.kept for one in limits(found)) else 1)
    assert (folder / "report.md").read_text(encoding="utf-8").startswith("# Simulated: ")
    assert "no model said any of this" in (folder / "report.html").read_text(encoding="utf-8")
