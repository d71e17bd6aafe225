"""The figures: the same bytes for the same table, harmless whatever a name holds."""

import re
import xml.etree.ElementTree as ET

import matplotlib as mpl
import pytest

from bench import charts, tables
from bench.texts import speaking

HOSTILE = "<script>$x_1$</script>&\x00\n" + "n" * 80


def lines(endpoint):
    levels = {
        name: {"first": 1, "attempts": 1, "right": 1} for name in ("strict", "hardened", "rescue")
    }
    score = {
        "success": 1,
        "first_attempts": 2,
        "first_failures": {"no_move": 1},
        "levels": levels,
        "pairs": [["get_weather", "exchange_rate"], ["none", HOSTILE]],
    }
    return [
        {
            "task_id": f"a-0{n}-en",
            "pair": f"a-0{n}",
            "lang": "en",
            "category": "a_b",
            "driver": driver,
            "dialect": "",
            "level": "hardened",
            "endpoint": endpoint,
            "model": "m",
            "stop": "answered",
            "score": score if n else {},
        }
        for n in range(2)
        for driver in ("react", "native")
    ]


def draw_all(endpoint):
    frame = tables.episode_table(lines(endpoint))
    measures = tables.measure_table(frame)
    return [
        charts.draw_success(measures),
        charts.draw_levels(tables.level_table(frame)),
        charts.draw_failures(tables.count_kinds(frame), measures),
        charts.draw_categories(tables.group_table(frame, "category")),
        charts.draw_confusion(frame),
    ]


@pytest.fixture(scope="module")
def drawn():
    return draw_all(HOSTILE)


def test_every_figure_is_a_png_and_a_whole_svg(drawn):
    assert [chart.name for chart in drawn] == [
        *("success", "levels", "failures", "categories", "confusion")
    ]
    for chart in drawn:
        assert chart.png.startswith(b"\x89PNG")
        root = ET.fromstring(chart.svg)  # noqa: S314 (our own)
        assert root.tag.endswith("svg")
        assert root.get("viewBox")


def test_a_figure_in_a_page_runs_and_loads_nothing(drawn):
    for chart in drawn:
        assert "<script" not in chart.svg
        assert "<image" not in chart.svg
        tags = {node.tag.rpartition("}")[2] for node in ET.fromstring(chart.svg).iter()}  # noqa: S314
        assert not tags & {"script", "image", "foreignObject", "a"}
        assert "currentColor" in chart.svg


def test_ids_of_several_figures_in_a_page_do_not_clash(drawn):
    ids = [
        node.get("id")
        for chart in drawn
        for node in ET.fromstring(chart.svg).iter()  # noqa: S314
        if node.get("id")
    ]
    assert len(ids) == len(set(ids))


def test_the_same_table_gives_the_same_bytes(drawn):
    for first, second in zip(drawn, draw_all(HOSTILE), strict=True):
        assert first == second


def test_figures_have_words_for_those_who_cannot_see_them(drawn):
    assert "ReAct: 50 %" in drawn[0].alt
    assert "strict 50 %" in drawn[1].alt or "strict 100 %" in drawn[1].alt
    assert "no_move 50.0%" in drawn[2].alt
    assert "0 of 2 on the diagonal" in drawn[4].alt


def test_nothing_of_matplotlib_is_left_changed(drawn):
    assert drawn
    assert mpl.rcParams["svg.hashsalt"] != "workbench"


def test_where_there_is_nothing_to_draw_nothing_is_drawn():
    assert charts.draw_failures({("e", "native"): {}}, {}) is None
    frame = tables.episode_table([{**lines("e")[0], "score": {}}])
    assert charts.draw_confusion(frame) is None


def test_every_way_has_a_colour_of_its_own():
    found = charts.colours(["react", "react/call", "native", "native@rescue"])
    assert len(set(found.values())) == 4


FONTS = {
    "the best of several": (["DejaVu Sans", "SimHei", "Noto Sans CJK JP"], "Noto Sans CJK JP"),
    "another": (["WenQuanYi Zen Hei"], "WenQuanYi Zen Hei"),
    "none": (["DejaVu Sans"], None),
}


@pytest.mark.parametrize(("names", "picked"), FONTS.values(), ids=FONTS)
def test_a_font_for_chinese_is_picked(names, picked):
    assert charts.pick_font(names) == picked


def test_words_of_a_figure_are_chinese_and_its_labels_where_there_are_letters():
    measures = tables.measure_table(tables.episode_table(lines("e")))
    with speaking("zh"):
        chart, lacking = charts.draw_success(measures), charts.lacks_letters()
    assert chart.alt.startswith("完成的任务")
    assert chart.title == "任务成功率"
    assert ("横条为" in chart.svg) is not lacking
    assert ("tasks solved" in chart.svg) is lacking


def test_a_page_may_set_another_colour_for_each(drawn):
    for hue in charts.colours(["react", "native"]).values():
        assert re.search(rf"var\(--hue-\w+-1, {hue}\)", drawn[0].svg)
