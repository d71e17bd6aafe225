"""The experiment on descriptions: what is asked, what is found, how it is told. All replies scripted."""

import json
import zlib

import pytest

from bench.__main__ import main
from bench.choice import Choice, find_recordings
from bench.lab.descriptions import CATEGORIES, plan_descriptions
from bench.plan import Order
from bench.records import RunFolder, key_of, list_runs
from bench.status import MISTAKE, OK
from bench.types import WorkbenchError
from bench.variants import VARIANTS

NOBODY = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}
PLANTED = {("react", "name"): 60, ("native", "name"): 10}
"""Of a hundred questions, so many slip with this driver and description; 3 otherwise."""


def slips(task, driver, variant):
    return zlib.crc32(task.pair.encode()) % 100 < PLANTED.get((driver, variant), 3)


def plan(**options):
    return plan_descriptions(Choice(**{**NOBODY, **options}), Order("nowhere"))


# ---------------------------------------------------------------- the plan


@pytest.fixture(scope="module")
def everything():
    return plan()


def test_by_default_every_variant_is_asked_on_the_tasks_that_can_tell(everything):
    assert {job.variant for job in everything.jobs} == set(VARIANTS)
    assert {task.category for task in everything.tasks} == set(CATEGORIES)
    assert len(everything.tasks) >= 40
    assert everything.experiment == "descriptions"


def test_the_base_is_asked_once_for_each_task_and_driver(everything):
    asked = [(j.task.id, j.driver.name) for j in everything.jobs if j.variant == "full"]
    assert len(asked) == len(set(asked)) == 2 * len(everything.tasks)


def test_a_task_whose_tools_a_variant_tells_alike_is_left_out_for_it(everything):
    by_variant = {
        variant: {job.task.toolset for job in everything.jobs if job.variant == variant}
        for variant in VARIANTS
    }
    assert by_variant["verbose"] == {"weather", "money", "money_basic"}
    assert by_variant["assertive"] == {"weather"}
    assert by_variant["misleading"] == {"money"}
    assert by_variant["name"] == by_variant["full"] >= {"orders", "office", "text"}
    for job in everything.jobs:
        tools = [everything.toolbox_for(job.task, v).tools for v in ("full", job.variant)]
        assert job.variant == "full" or tools[0] != tools[1]


CHOICES = {
    "one variant, and the base": ({"variant": ("name",)}, {"full", "name"}, set(CATEGORIES)),
    "own categories": (
        {"variant": ("what",), "category": ("several",)},
        {"full", "what"},
        {"several"},
    ),
    "one task": ({"variant": ("what",), "task": ("several-01",)}, {"full", "what"}, {"several"}),
}


@pytest.mark.parametrize(("options", "variants", "categories"), CHOICES.values(), ids=CHOICES)
def test_what_is_named_is_run_and_nothing_else(options, variants, categories):
    made = plan(**options)
    assert {job.variant for job in made.jobs} == variants
    assert {job.task.category for job in made.jobs} == categories


# ---------------------------------------------------------------- a run on recorded replies


@pytest.fixture
def bench(tmp_path, capsys):
    def go(*words):
        status = main([*words, "--results", str(tmp_path / "runs")])
        out, err = capsys.readouterr()
        return status, out, err

    return go


def the_run(tmp_path):
    return RunFolder(list_runs(tmp_path / "runs")[-1])


FEW = {"variant": ("name", "verbose"), "limit": 80, "category": ("single", "lookalike")}


def test_a_recording_gives_the_planted_effects_and_the_interaction(record, bench, tmp_path):
    file, player = record(plan_descriptions, slips, **FEW)
    assert {key.variant for key in player.asked} == {"full", "name", "verbose"}
    status, out, err = bench("descriptions", "--replay", str(file), "--variant", "name", "verbose")
    assert status == OK
    assert "recorded replies; no model is asked" in err
    lines = out.splitlines()
    assert '"name"' in lines[0]
    assert "surely worse" in lines[0]
    assert "ReAct loses" in lines[1]
    assert "ReAct comes off worse than native" in lines[1]
    folder = the_run(tmp_path)
    text = (folder.path / "report.md").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert "worse than full (p" in text
    assert "Not enough data to say that the ways differ" in text
    assert "of 72;" in text, "figures stand with their denominators"
    for name in ("effects", "interaction", "confusion-full", "confusion-name"):
        assert (folder.path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    page = (folder.path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 5
    episodes = list(folder.lines())
    assert not [line for line in episodes if line["stop"] == "left_recording"]
    assert {line["variant"] for line in episodes} == {"full", "name", "verbose"}
    assert folder.manifest["experiment"] == "descriptions"
    assert set(folder.manifest["told"]) == {"full", "name", "verbose"}
    check_figures(folder, text)
    again = (folder.path / "report.md").read_bytes()
    (folder.path / "report.md").unlink()
    assert main(["report", str(folder.path)]) == OK
    assert (folder.path / "report.md").read_bytes() == again


def check_figures(folder, text):
    """Count success by hand, and look the figures up in the report."""
    for driver, variant in (("react", "name"), ("native", "full")):
        own = [
            line["score"].get("success", 0)
            for line in folder.lines()
            if (line["driver"], line["variant"]) == (driver, variant)
        ]
        assert f"{sum(own) / len(own) * 100:.1f} % ({sum(own)} of {len(own)};" in text


def test_scrambled_names_are_judged_and_told_by_their_own(record, bench, tmp_path):
    from bench.tools import load_tools
    from bench.variants import apply_variant

    def shown(task, variant):
        told = apply_variant(load_tools(task.toolset, task.lang).tools, variant, task.lang).names
        return {own: name for name, own in told.items()}

    options = {"variant": ("scrambled-name",), "category": ("lookalike",), "lang": ("en",)}
    file, _ = record(plan_descriptions, lambda *_: False, shown=shown, **options)
    words = ("--variant", "scrambled-name", "--category", "lookalike")
    status, out, _ = bench("descriptions", "--replay", str(file), *words)
    assert status == OK
    episodes = list(the_run(tmp_path).lines())
    assert all(line["score"]["success"] for line in episodes)
    picked = {pair[1] for line in episodes for pair in line["score"]["pairs"]}
    assert not any(name.startswith("func_") for name in picked)
    assert "+0.0" in out


def test_only_what_is_recorded_is_run(record, bench, tmp_path):
    options = {"variant": ("name",), "category": ("single",), "limit": 4}
    file, _ = record(plan_descriptions, slips, **options)
    status, _, _ = bench("descriptions", "--replay", str(file))
    assert status == OK
    lines = list(the_run(tmp_path).lines())
    assert {line["variant"] for line in lines} == {"full", "name"}
    assert {line["stop"] for line in lines} == {"answered"}
    status, _, err = bench("descriptions", "--replay", str(file), "--variant", "what")
    assert status == MISTAKE
    assert "another recording" in err.splitlines()[-1]


def test_a_broken_off_run_goes_on(record, bench, tmp_path):
    options = {"variant": ("name",), "category": ("single",), "limit": 4}
    file, _ = record(plan_descriptions, slips, **options)
    words = ("--variant", "name", "--category", "single", "--limit", "4")
    bench("descriptions", "--replay", str(file), *words)
    folder = the_run(tmp_path)
    path = folder.path / "episodes.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:3]))
    folder.write_manifest({**folder.manifest, "finished": None})
    status, _, err = bench("descriptions", "--resume", "latest")
    assert status == OK, err
    keys = sorted(key_of(json.loads(line)) for line in path.read_bytes().splitlines())
    assert keys == sorted(key_of(json.loads(line)) for line in whole)
    status, _, err = bench("compare", "--resume", "latest")
    assert status == MISTAKE


def test_in_chinese_no_sentence_is_left_in_english(record, bench, tmp_path, english_left):
    options = {"variant": ("name",), "category": ("single",), "limit": 6}
    file, _ = record(plan_descriptions, slips, **options)
    words = ("--variant", "name", "--category", "single", "--limit", "6")
    status, out, _ = bench("descriptions", "--replay", str(file), *words, "--report-lang", "zh")
    assert status == OK
    assert "数据不足" in out
    folder = the_run(tmp_path)
    text = (folder.path / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# 工具的描述有什么作用？\n")
    assert "用两三个词代替描述。" in text
    assert english_left(text, folder.manifest) == []
    assert main(["report", str(folder.path)]) == OK
    assert english_left((folder.path / "report.md").read_text(encoding="utf-8"), folder.manifest)


def test_without_a_recording_one_line_says_what_to_do(tmp_path):
    with pytest.raises(WorkbenchError) as raised:
        find_recordings(tmp_path, (), "descriptions")
    assert "no recording of descriptions" in str(raised.value)
    assert "--model NAME --base-url URL" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_dry_run_says_how_much_it_is(bench, tmp_path):
    here = ("--model", "m", "--base-url", NOBODY["base_url"])
    status, _, err = bench("descriptions", *here, "--dry-run", "--variant", "name", "--limit", "10")
    assert status == OK
    assert "40 episodes" in err
    assert "× 2 descriptions" in err
    assert not (tmp_path / "runs").exists()


def test_a_variant_of_ones_own_is_held_against_full(record, bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = {"short": {"descriptions": {"get_weather": "Weather."}}}
    (tmp_path / "variants.json").write_text(json.dumps(own), encoding="utf-8")
    options = {"variants": "variants.json", "category": ("single",), "limit": 12}
    file, player = record(plan_descriptions, slips, **options)
    assert {key.variant for key in player.asked} == {"full", "short"}
    words = ("--variants", "variants.json", "--category", "single")
    status, out, _ = bench("descriptions", "--replay", str(file), *words)
    assert status == OK
    assert "  short  " in out
    assert the_run(tmp_path).manifest["told"]["short"]["en"].startswith("get_weather: Weather. [")
