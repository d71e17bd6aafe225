"""Rates, gaps and comparisons from hand-made episodes with hand-counted numbers."""

import pytest

from bench import tables
from bench.tables import MEASURES

BY_NAME = {measure.name: measure for measure in MEASURES}


def line(task, arm="native", *, endpoint="e", stop="answered", variant="full", trial=0, **score):
    """Give a line of episodes.jsonl; `arm` is driver, dialect and level, as `react/call@rescue`."""
    way, _, level = arm.partition("@")
    driver, _, dialect = way.partition("/")
    pair, _, lang = task.rpartition("-")
    category = pair.rpartition("-")[0]
    return {
        "task_id": task,
        "pair": pair,
        "lang": lang,
        "category": category,
        "driver": driver,
        "dialect": dialect or ("json" if driver == "react" else ""),
        "endpoint": endpoint,
        "model": "m",
        "variant": variant,
        "trial": trial,
        "level": level or "hardened",
        "stop": stop,
        "turns": [],
        "score": score,
    }


def right(**more):
    return {"success": 1, "answer_right": 1, "first_attempts": 2, "read": 2, "replies": 2, **more}


def failed(kind="no_move", **more):
    counts = {"first_attempts": 1, "first_failures": {kind: 1}, "replies": 2, "corrected": 1}
    return {**counts, **more}


LABELS = {
    "native": {"driver": "native", "dialect": "", "level": "hardened"},
    "native@rescue": {"driver": "native", "dialect": None, "level": "rescue"},
    "react": {"driver": "react", "dialect": "json", "level": "hardened"},
    "react/call@strict": {"driver": "react", "dialect": "call", "level": "strict"},
}


@pytest.mark.parametrize(("label", "parts"), LABELS.items(), ids=LABELS)
def test_the_label_of_a_way(label, parts):
    assert tables.arm_label(parts) == label


def test_rates_stand_with_their_denominators():
    frame = tables.episode_table(
        [
            line("a-01-en", **right(readable=2, wrong=1, wanted=2, missed=1)),
            line("a-01-zh", **right(readable=1, wanted=1)),
            line("a-02-en", **failed(wanted=1, missed=1)),
            line("b-01-en", **failed("empty_turn", no_tool=1, recovered=1)),
        ]
    )
    found = tables.measure_table(frame)["e", "native"]
    counted = {name: (rate.top, rate.below, rate.units) for name, rate in found.items()}
    assert counted["success"] == (2, 4, 3)
    assert counted["parse_failure"] == (2, 6, 3)
    assert counted["wrong_pick"] == (1, 3, 1)
    assert counted["missed"] == (2, 4, 2)
    assert counted["recovered"] == (1, 2, 2)
    assert counted["needless"] == (0, 1, 1)
    assert counted["argument_accuracy"] == (0, 0, 0)
    assert found["argument_accuracy"].value is None
    assert found["success"].value == 0.5
    assert found["needless"].interval.high == pytest.approx(0.975)


def test_a_failed_endpoint_takes_its_task_out_of_every_way():
    frame = tables.episode_table(
        [
            *(line("a-01-en", arm, **right()) for arm in ("native", "react")),
            line("a-02-en", "native", stop="endpoint", endpoint_failures={"rate_limited": 1}),
            line("a-02-en", "react", **right()),
        ]
    )
    found = tables.measure_table(frame)
    assert found["e", "react"]["success"].below == found["e", "native"]["success"].below == 1
    assert found["e", "react"]["parse_failure"].below == 2
    done = tables.completion_table(frame)["e"]
    assert (done.planned, done.kept, done.endpoint, done.left_recording) == (2, 1, 1, 0)
    assert done.bounds == {"native": (0.5, 1.0), "react": (0.5, 1.0)}
    lost = tables.count_kinds(frame, "endpoint_failures", everything=True)
    assert lost["e", "native"] == {"rate_limited": 1}


def test_an_episode_that_left_its_recording_still_counts_for_reading():
    frame = tables.episode_table(
        [
            *(line("a-01-en", arm, **right()) for arm in ("native", "react")),
            line("a-02-en", "native", stop="left_recording", **failed()),
            line("a-02-en", "react", **right()),
        ]
    )
    found = tables.measure_table(frame)
    assert (found["e", "native"]["parse_failure"].top, found["e", "react"]["success"].below) == (
        1,
        1,
    )
    assert found["e", "native"]["parse_failure"].below == 3
    assert tables.completion_table(frame)["e"].left_recording == 1
    assert tables.cost_table(frame)["e", "react"].episodes == 1


def test_a_task_that_was_not_run_in_every_way_counts_in_none():
    frame = tables.episode_table(
        [
            line("a-01-en", "native", **right()),
            line("a-01-en", "react", **right()),
            line("a-02-en", "react", **right()),
        ]
    )
    done = tables.completion_table(frame)["e"]
    assert (done.planned, done.kept, done.unfinished) == (2, 1, 1)
    assert tables.measure_table(frame)["e", "react"]["success"].below == 1


def test_endpoints_do_not_take_tasks_from_each_other():
    frame = tables.episode_table(
        [line("a-01-en", endpoint="x", stop="endpoint"), line("a-01-en", endpoint="y", **right())]
    )
    assert tables.measure_table(frame)["y", "native"]["success"].below == 1
    assert tables.measure_table(frame)["x", "native"]["success"].below == 0


def test_levels_come_from_the_same_first_replies():
    def levels(strict, hardened, rescue):
        names = zip(("strict", "hardened", "rescue"), (strict, hardened, rescue), strict=True)
        return {
            name: {"first": 1, "attempts": 2, "unreadable": u, "right": r, "failed": u}
            for name, (u, r) in names
        }

    frame = tables.episode_table(
        [
            line("a-01-en", levels=levels((1, 0), (1, 0), (0, 1))),
            line("a-02-en", levels=levels((1, 0), (0, 1), (0, 1))),
            line("a-03-en", levels=levels((0, 0), (0, 0), (0, 0))),
        ]
    )
    found = tables.level_table(frame)["e", "native"]
    assert [found[name].unreadable.top for name in found] == [2, 1, 0]
    assert [found[name].right.top for name in found] == [0, 1, 2]
    assert {found[name].right.below for name in found} == {3}
    assert found["strict"].attempts.below == 6


def test_failures_by_kind_add_up_to_the_parse_failures():
    frame = tables.episode_table(
        [
            line(f"a-{n:02}-en", **failed(kind))
            for n, kind in enumerate(["no_move", "empty_turn"] * 3)
        ]
        + [line("a-09-en", **failed("truncated_output"))]
    )
    kinds = tables.count_kinds(frame)["e", "native"]
    assert kinds == {"truncated_output": 1, "no_move": 3, "empty_turn": 3}
    assert list(kinds) == ["truncated_output", "no_move", "empty_turn"]
    assert sum(kinds.values()) == tables.measure_table(frame)["e", "native"]["parse_failure"].top


def test_the_confusion_matrix_holds_every_pair_once():
    frame = tables.episode_table(
        [
            line("a-01-en", pairs=[["x", "x"], ["x", "none"]]),
            line("a-02-en", pairs=[["x", "y"], ["none", "y"]]),
        ]
    )
    found = tables.confusion(frame)
    assert list(found.index) == list(found.columns) == ["x", "y", "none"]
    assert found.to_numpy().tolist() == [[1, 1, 1], [0, 0, 0], [0, 1, 0]]


def test_a_unit_is_the_mean_of_its_languages_and_they_of_their_trials():
    frame = tables.episode_table(
        [line("a-01-en", trial=t, success=s) for t, s in enumerate((1, 0, 0, 0))]
        + [line("a-01-zh", trial=t, success=1) for t in range(2)]
        + [line("a-02-en", success=1)]
    )
    means = tables.unit_means(frame, BY_NAME["success"])
    assert means.to_dict() == {"a-01": (0.25 + 1) / 2, "a-02": 1.0}


def test_the_repair_rate_is_over_the_replies_read_not_over_episodes():
    """A table's flag `read` once took the place of the count of the same name."""
    lines = [line(f"a-{n:02}-en", read=4, repaired=1, replies=5) for n in range(3)]
    found = tables.measure_table(tables.episode_table(lines))["e", "native"]["repaired"]
    assert (found.top, found.below) == (3, 12)


def test_a_task_without_a_denominator_in_one_way_is_left_out_of_both():
    """Else a unit's mean would be over one language here and over two there."""
    frame = tables.episode_table(
        [
            line("a-01-en", "react", readable=1, wrong=1),
            line("a-01-zh", "react", readable=0),
            line("a-01-en", "native", readable=1, wrong=1),
            line("a-01-zh", "native", readable=1, wrong=0),
        ]
    )
    left, right = (frame[frame["driver"] == driver] for driver in ("react", "native"))
    measure = BY_NAME["wrong_pick"]
    assert tables.paired_units([left, right], measure).to_numpy().tolist() == [[1.0, 1.0]]
    assert tables.compare(left, right, measure).estimate == 0.0


def test_with_one_language_and_trial_mcnemar_is_exact_for_each_language_too():
    lines = [
        line(f"a-{n:02}-{lang}", arm, success=int(n < wins))
        for n in range(20)
        for lang in ("en", "zh")
        for arm, wins in (("react", 12), ("native", 4))
    ]
    found = {c.group: c for c in tables.comparisons(tables.episode_table(lines)) if c.group}
    assert found["en"].mcnemar == pytest.approx(2 / 2**8)
    assert found["en"].raw == found["en"].mcnemar
    assert (found["en"].difference.higher, found["en"].difference.lower) == (8, 0)
    assert found["a"].mcnemar is None


def test_several_ways_are_tested_at_once_then_pair_by_pair():
    lines = [
        line(f"a-{n:02}-{lang}", arm, success=int(n < wins))
        for n in range(40)
        for lang in ("en", "zh")
        for arm, wins in (("react", 30), ("react/call", 29), ("native", 10))
    ]
    (found,) = tables.several_ways(tables.episode_table(lines))
    assert found.ways == ("react", "react/call", "native")
    assert found.units == 40
    assert found.p < 0.01
    ps = {(c.first, c.second): c.p for c in found.pairs}
    assert ps["react", "react/call"] > 0.5
    assert ps["react", "native"] < 0.01
    assert all(c.p >= c.raw for c in found.pairs)
    assert tables.several_ways(tables.episode_table(run_of(20, 3, 4))) == []


def test_few_units_get_no_test_of_several_ways():
    lines = [
        line(f"a-{n:02}-en", arm, success=n % 2)
        for n in range(10)
        for arm in ("react", "react/call", "native")
    ]
    (found,) = tables.several_ways(tables.episode_table(lines))
    assert found.p is None
    assert all(c.p is None for c in found.pairs)


def test_planned_comparisons_can_be_had_alone():
    frame = tables.episode_table(run_of(20, 12, 4))
    alone = tables.comparisons(frame, planned_only=True)
    assert [c.measure.name for c in alone] == list(tables.PLANNED)
    among = [c for c in tables.comparisons(frame) if c.planned]
    assert alone == among


def run_of(units, react, native, **more):
    """Give both ways over so many units; success where the unit's number is below the way's."""
    return [
        line(f"a-{n:02}-{lang}", arm, success=int(n < wins), first_attempts=1, **more)
        for n in range(units)
        for lang in ("en", "zh")
        for arm, wins in (("react", react), ("native", native))
    ]


def test_the_main_comparison_is_planned_and_adjusted_after_holm():
    found = tables.comparisons(tables.episode_table(run_of(40, 30, 10)))
    main = next(c for c in found if c.planned and c.measure.name == "success")
    assert (main.first, main.second, main.group) == ("react", "native", "")
    assert (main.difference.estimate, main.difference.units) == (0.5, 40)
    assert (main.difference.higher, main.difference.lower) == (20, 0)
    assert main.p == pytest.approx(main.difference.p, rel=1e-9)  # the other two have no p
    assert main.mcnemar is None  # two languages a unit
    assert [c.measure.name for c in found if c.planned] == [
        "success",
        "parse_failure",
        "wrong_pick",
    ]
    assert {c.group for c in found if not c.planned} == {"", "a", "en", "zh"}


def test_mcnemar_is_told_for_one_trial_and_one_language():
    lines = [row for row in run_of(40, 30, 10) if row["lang"] == "en"]
    main = tables.comparisons(tables.episode_table(lines))[0]
    assert main.mcnemar == pytest.approx(2 / 2**20)


def test_units_without_a_denominator_in_both_ways_are_left_out():
    lines = [
        line("a-01-en", "react", readable=2, wrong=1),
        line("a-01-en", "native", readable=1),
        line("a-02-en", "react", readable=1),
        line("a-02-en", "native"),
    ]
    found = tables.comparisons(tables.episode_table(lines))
    wrong = next(c for c in found if c.measure.name == "wrong_pick")
    assert (wrong.difference.units, wrong.difference.estimate) == (1, 0.5)


def test_ways_read_at_another_level_are_exploratory():
    lines = [
        line(f"a-{n:02}-en", arm, success=n % 2)
        for n in range(20)
        for arm in ("react", "native", "native@rescue")
    ]
    found = tables.comparisons(tables.episode_table(lines))
    pairs = {(c.first, c.second) for c in found if c.planned}
    assert pairs == {("react", "native")}
    assert {(c.first, c.second) for c in found} == pairs | {
        ("react", "native@rescue"),
        ("native", "native@rescue"),
    }


def test_costs_are_means_and_unknown_stays_unknown():
    frame = tables.episode_table(
        [
            line("a-01-en", prompt=100, completion=10, seconds=2.0, success=1, replies=1),
            line("a-02-en", prompt=300, completion=30, seconds=6.0, replies=3, unmetered=1),
        ]
    )
    found = tables.cost_table(frame)["e", "native"]
    assert (found.prompt, found.completion, found.cached, found.first_token) == (
        200,
        20,
        None,
        None,
    )
    assert (found.seconds, found.replies, found.unmetered) == (4.0, 2.0, 1)
    assert found.per_1000_tokens == pytest.approx(1000 / 440)
    assert found.per_second == pytest.approx(1 / 8)


def test_pass_hat_over_trials():
    frame = tables.episode_table(
        [line("a-01-en", trial=t, success=s) for t, s in enumerate((1, 1, 0))]
        + [line("a-02-en", trial=t, success=1) for t in range(3)]
    )
    assert tables.pass_table(frame)["e", "native"] == pytest.approx({1: 5 / 6, 2: 2 / 3, 3: 0.5})


def test_variants_become_ways_of_their_own_where_there_are_several():
    lines = [line("a-01-en", variant=v, success=1) for v in ("full", "name")]
    frame = tables.episode_table([*lines, line("a-01-en", endpoint="f", variant="full")])
    keys = [("e", "native · full"), ("e", "native · name"), ("f", "native")]
    assert list(tables.arms(frame)) == keys
    assert all(tables.measure_table(frame)[key]["success"].below == 1 for key in keys)


def test_how_episodes_stopped_adds_up():
    frame = tables.episode_table(
        [line("a-01-en"), line("a-02-en", stop="malformed"), line("a-03-en", stop="malformed")]
    )
    assert tables.stop_table(frame) == {("e", "native"): {"answered": 1, "malformed": 2}}


def test_groups_hold_each_episode_once():
    frame = tables.episode_table([*run_of(5, 3, 1), line("b-01-en", "react"), line("b-01-en")])
    for column in ("category", "lang"):
        table = tables.group_table(frame, column)
        assert sum(table[group]["e", "react"].below for group in table) == 11
