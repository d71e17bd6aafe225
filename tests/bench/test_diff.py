"""Two runs compared: paired over shared tasks, three ways to end, and what is refused."""

import pytest

from bench.__main__ import main
from bench.diff import compare_runs
from bench.records import RunFolder
from bench.tasks import load_tasks
from bench.types import WorkbenchError

GOLD = {"tasks/single.jsonl": "aaa", "tools/zh.json": "bbb"}
HOSTILE = "<script>alert(1)</script> | [x](http://e.v/il) `tick`"


def line(task, success, *, arm="react", endpoint="m", variant="full", trial=0, **more):
    driver, _, level = arm.partition("@")
    final = f"answer of {task} {HOSTILE}"
    turn = {"sent": [], "reply": {"status": 200, "headers": {}, "body": "{}"}}
    return {
        "task_id": task,
        "pair": task.rsplit("-", 1)[0],
        "lang": task[-2:],
        "category": "single",
        "driver": driver,
        "dialect": "json" if driver == "react" else "",
        "endpoint": endpoint,
        "model": endpoint,
        "variant": variant,
        "trial": trial,
        "level": level or "hardened",
        "stop": "answered",
        "turns": [{**turn, "reading": {"final": final}}],
        "score": {"success": success, "answered": 1, "first_attempts": 1, "wanted": 1},
    } | more


def tasks(units):
    return [f"single-{unit:03}-{lang}" for unit in range(units) for lang in ("en", "zh")]


def folder_of(root, name, lines, **manifest):
    folder = RunFolder.create(root, name, {"format": 1, "datasets": GOLD, **manifest})
    for one in lines:
        folder.append_line(one)
    folder.close()
    return folder


def solved(units, losses=0, gains=0, arm="react", **more):
    """Give a run of which a third is solved; the first units lose and the next ones gain."""
    for task in tasks(units):
        unit = int(task.split("-")[1])
        success = int(unit % 3 == 0)
        success = 0 if unit < losses else 1 if unit < losses + gains else success
        yield line(task, success, arm=arm, **more)


def all_right(units, wrong=0):
    return [line(task, int(int(task.split("-")[1]) >= wrong)) for task in tasks(units)]


@pytest.fixture
def bench(tmp_path, capsys):
    def run(first, second, *words, **manifests):
        folder_of(tmp_path, "a", first, **manifests.get("a", {}))
        folder_of(tmp_path, "b", second, **manifests.get("b", {}))
        names = sorted(path.name for path in tmp_path.iterdir())
        status = main(["diff", *names, "--results", str(tmp_path), *words])
        return status, capsys.readouterr(), tmp_path / names[1]

    return run


WAYS_TO_END = {
    "worse by as much, surely": (all_right(60), all_right(60, wrong=12), "10", 1, "is shown"),
    "every unit lost": (all_right(60), all_right(60, wrong=60), "10", 1, "is shown"),
    "no unit differs, and there are enough": (all_right(150), all_right(150), "3", 0, "excluded"),
    "a loss, surely smaller": (all_right(150), all_right(150, wrong=3), "10", 0, "excluded"),
    "better": (all_right(60, wrong=12), all_right(60), "3", 0, "excluded"),
    "worse, but not surely": (all_right(30), all_right(30, wrong=2), "3", 3, "not enough data"),
    "no unit differs, but there are few": (all_right(20), all_right(20), "3", 3, "not enough"),
    "too few units for any interval": (
        all_right(10),
        all_right(10, wrong=10),
        "3",
        3,
        "not enough",
    ),
}


@pytest.mark.parametrize(
    ("first", "second", "limit", "status", "told"), WAYS_TO_END.values(), ids=WAYS_TO_END
)
def test_fail_if_worse(bench, first, second, limit, status, told):
    found, said, path = bench(first, second, "--fail-if-worse", limit)
    assert found == status
    assert told in said.out
    assert f"exit status {status}" in said.out
    assert told in (path / "diff.md").read_text(encoding="utf-8")


def test_without_a_limit_a_loss_is_told_and_no_failure(bench):
    status, said, _ = bench(all_right(60), all_right(60, wrong=12))
    assert status == 0
    assert "react: worse." in said.out
    assert "0 better, 24 worse, 96 unchanged" in said.out
    assert "exit status" not in said.out


def test_the_worst_way_decides(bench):
    first = [*all_right(60), *(line(task, 1, arm="native") for task in tasks(60))]
    second = [*all_right(60), *(line(task, 0, arm="native") for task in tasks(60))]
    status, said, _ = bench(first, second, "--fail-if-worse", "10")
    assert status == 1
    assert "native: a loss of 10 points or more is shown" in said.out
    assert "react: a loss of 10 points or more is excluded" in said.out


def test_one_way_can_be_chosen(bench):
    first = [*all_right(60), *(line(task, 1, arm="native") for task in tasks(60))]
    second = [*all_right(60), *(line(task, 0, arm="native") for task in tasks(60))]
    status, said, _ = bench(first, second, "--fail-if-worse", "10", "--driver", "react")
    assert status == 0
    assert "native" not in said.out


def test_only_tasks_that_both_have_are_paired(tmp_path):
    first = folder_of(tmp_path, "a", solved(30))
    second = folder_of(tmp_path, "b", [*solved(20, gains=4), line("single-900-en", 1)])
    found = compare_runs(first, second)
    (way,) = found.ways
    assert way.tasks == 40
    assert len(found.only_first) == 20
    assert found.only_second == ("single-900-en",)
    assert {change.task_id for change in way.better} == {
        f"single-{unit:03}-{lang}" for unit in (1, 2) for lang in ("en", "zh")
    }
    assert way.success.estimate == pytest.approx(2 / 20)
    assert way.success.units == 20


def test_a_task_that_one_run_lost_is_paired_in_neither(tmp_path):
    lost = [line("single-000-en", 0, stop="endpoint"), *list(solved(20))[1:]]
    (way,) = compare_runs(folder_of(tmp_path, "a", solved(20)), folder_of(tmp_path, "b", lost)).ways
    assert way.tasks == 39
    assert not way.changes


def test_trials_are_averaged_and_a_telling_one_is_shown(tmp_path):
    first = [line(task, 1, trial=trial) for task in tasks(20) for trial in range(3)]
    second = [
        line(task, int(task != "single-004-zh" or trial != 1), trial=trial)
        for task in tasks(20)
        for trial in range(3)
    ]
    (way,) = compare_runs(folder_of(tmp_path, "a", first), folder_of(tmp_path, "b", second)).ways
    (change,) = way.changes
    assert (change.task_id, change.before, change.after) == ("single-004-zh", 1.0, 2 / 3)
    assert (change.old["score"]["success"], change.new["trial"]) == (1, 1)


def test_models_of_other_names_and_other_variants_are_compared(tmp_path):
    """One endpoint and one variant in each run: that is what is being compared."""
    first = folder_of(tmp_path, "a", solved(20, endpoint="old", variant="full"))
    second = folder_of(tmp_path, "b", solved(20, endpoint="new", variant="bare"))
    assert [way.name for way in compare_runs(first, second).ways] == ["react"]


def test_several_endpoints_are_matched_by_name(tmp_path):
    first = folder_of(tmp_path, "a", [*solved(20, endpoint="x"), *solved(20, endpoint="y")])
    second = folder_of(tmp_path, "b", solved(20, endpoint="y"))
    assert [way.name for way in compare_runs(first, second).ways] == ["react on y"]


def golds(changed=()):
    return [f"{task}:{'new' if task in changed else 'old'}" for task in tasks(30)]


REFUSED = {
    "no task in common": ({}, {}, solved(3), [line("other-001-en", 1)], "no task in common"),
    "other gold of a task": (
        {"golds": golds()},
        {"golds": golds({"single-001-en"})},
        solved(20),
        solved(20),
        "judged by other gold, for single-001-en",
    ),
    "another version of its file": (
        {},
        {"datasets": {"tasks/single.jsonl": "ccc"}},
        solved(20),
        solved(20),
        "other versions of tasks/single.jsonl",
    ),
    "nobody says which gold": (
        {"datasets": {}},
        {},
        solved(20),
        solved(20),
        "does not say which gold",
    ),
    "scores that want other calls": (
        {"golds": golds()},
        {"golds": golds()},
        solved(20),
        [one | {"score": {**one["score"], "wanted": 2}} for one in solved(20)],
        "judged by other gold",
    ),
    "no way in common": (
        {},
        {},
        solved(20),
        solved(20, arm="native"),
        "no way of asking is in both",
    ),
    "another experiment": (
        {"experiment": "pairing"},
        {},
        solved(3),
        solved(3),
        "no tasks to compare",
    ),
    "no episode": ({}, {}, [], solved(3), "holds no finished episode"),
}


@pytest.mark.parametrize(("a", "b", "first", "second", "why"), REFUSED.values(), ids=REFUSED)
def test_what_can_not_be_compared_is_refused_in_one_line(bench, a, b, first, second, why):
    status, said, path = bench(list(first), list(second), "--fail-if-worse", "5", a=a, b=b)
    assert status == 2
    assert why in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert not (path / "diff.md").exists()


def test_gold_of_a_task_that_only_one_run_has_may_change(tmp_path):
    first = folder_of(tmp_path, "a", solved(20), golds=golds())
    second = folder_of(tmp_path, "b", solved(10), golds=golds({"single-015-en"}))
    assert compare_runs(first, second).ways[0].tasks == 20


def test_other_texts_of_tools_are_told_since_they_may_be_what_is_compared(bench):
    datasets = {"datasets": {**GOLD, "tools/zh.json": "ccc"}}
    _, said, _ = bench(list(solved(20)), list(solved(20)), b=datasets)
    assert "note: Files of the tools differ between the runs: tools/zh.json." in said.out


def test_changed_episodes_stand_side_by_side_with_nothing_alive(bench):
    _, _, path = bench(list(solved(20)), list(solved(20, losses=1)))
    text = (path / "diff.md").read_text(encoding="utf-8")
    assert "single-000-en, react" in text
    assert "answers: answer of single-000-zh" in text
    assert "<script>" not in text
    assert "[x](http://" not in text


def test_a_scripted_run_is_said_to_be_one_first(bench):
    notes = {"notes": ["SCRIPTED: no model was asked."]}
    _, said, path = bench(list(solved(20)), list(solved(20)), b=notes)
    assert said.out.startswith("SCRIPTED: no model was asked.")
    text = (path / "diff.md").read_text(encoding="utf-8")
    assert text.splitlines()[2].startswith("SCRIPTED")


def test_in_chinese_no_sentence_is_left_in_english(bench, english_left):
    first = [*solved(20), *solved(20, arm="native")]
    second = [*solved(20, losses=9), *solved(22, arm="native"), *solved(1, endpoint="other")]
    datasets = {"datasets": {**GOLD, "tools/zh.json": "ccc"}}
    _, said, path = bench(first, second, "--fail-if-worse", "3", "--lang", "zh", b=datasets)
    text = (path / "diff.md").read_text(encoding="utf-8")
    assert text.startswith("# 从 ")
    assert "说明：两次运行的工具文件不同：tools/zh.json。" in text
    assert english_left(text) == []
    assert english_left(said.out) == []


def test_where_it_is_written_can_be_told(bench, tmp_path):
    out = tmp_path / "x.md"
    _, said, path = bench(list(solved(20)), list(solved(20)), "--out", str(out))
    assert out.is_file()
    assert str(out) in said.out
    assert not (path / "diff.md").exists()


@pytest.mark.parametrize("limit", ["-1", "101", "many"])
def test_a_limit_is_a_number_of_points(bench, limit):
    status, said, _ = bench(list(solved(3)), list(solved(3)), "--fail-if-worse", limit)
    assert status == 2
    assert "points" in said.err


def test_the_bundled_tasks_hash_the_same_twice_and_each_otherwise():
    from bench.manifest import hash_tasks

    every = load_tasks()
    found = hash_tasks(every)
    assert found == hash_tasks(reversed(every))
    assert len({text.rsplit(":", 1)[1] for text in found}) == len(every)


def test_compare_runs_raises_for_users_of_the_library_too(tmp_path):
    first = folder_of(tmp_path, "a", solved(3))
    second = folder_of(tmp_path, "b", [line("other-001-en", 1)])
    with pytest.raises(WorkbenchError, match="no task in common"):
        compare_runs(first, second)
