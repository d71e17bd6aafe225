"""The report: what it says for which data, the same bytes twice, nothing hostile alive."""

import json
import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from bench import findings, report
from bench.records import RunFolder
from bench.scoring import LevelScore, Score
from bench.types import Episode, Reply, Turn, Usage, WorkbenchError
from parsers import LEVELS, Failure, Reading

HOSTILE = (
    "<script>alert(1)</script> {{ 7*7 }} {% raw %} | `tick` ```` ![x](http://e.v/il) \u202e</pre>"
)
MANIFEST = {
    "format": 1,
    "started": "2026-01-01T00:00:00Z",
    "settings": {"temperature": 0},
    "machine": "two cores",
    "notes": ["a note of the run", HOSTILE],
    "endpoints": [
        {"name": "plain", "model": "m-1", "recorded": {"notes": {"weights": "w"}}},
        {"name": "fenced", "model": "m-1", "recorded": {"notes": {"weights": "w"}}},
    ],
    HOSTILE: {"deep": [HOSTILE]},
}


def body(text):
    message = {"role": "assistant", "content": text}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]})


def levels(strict, hardened, rescue, kind="no_move"):
    """Give the level scores; each level is whether the first reply is a right move."""
    return {
        name: LevelScore(1, int(not good), None if good else kind, int(good), 1, int(not good))
        for name, good in zip(LEVELS, (strict, hardened, rescue), strict=True)
    }


def episode(number, lang, driver, endpoint, good, *, kind="no_move", text="hello", stop="answered"):
    failure = None if good else Failure(kind, message=f"bad {HOSTILE}", position=3)
    reading = Reading(final="25") if good else Reading(failure=failure)
    sent = ({"role": "system", "content": f"rules {HOSTILE}"}, {"role": "user", "content": "?"})
    turn = Turn(sent, Reply(200, {}, body(text), Usage(100, 10), seconds=1.5), reading)
    pair = f"single-{number:02}"
    dialect = "json" if driver == "react" else None
    return Episode(
        *(f"{pair}-{lang}", pair, lang, "single", driver, dialect, endpoint, "m-1", "full", 0),
        *("hardened", stop if good else "malformed", (turn,)),
    )


def score(good, by_level, kind="no_move"):
    return Score(
        success=int(good),
        answered=int(good),
        answer_right=int(good),
        replies=1,
        first_attempts=1,
        first_failures={} if good else {kind: 1},
        read=int(good),
        readable=int(good),
        wanted=1,
        missed=int(not good),
        pairs=(("get_weather", "get_weather" if good else "none"),),
        right_tool=int(good),
        acceptable=int(good),
        levels=by_level,
        prompt=100,
        completion=10,
        first_prompt=100,
        seconds=1.5,
    )


def write_run(
    root, *, endpoints=("plain",), react=30, native=10, units=40, kind="out_of_channel_call"
):
    """Write a run in which each way solves that many of the units, in both languages."""
    folder = RunFolder.create(root, "compare", MANIFEST)
    for endpoint in endpoints:
        for number in range(units):
            for lang in ("en", "zh"):
                for driver, wins in (("react", react), ("native", native)):
                    good = number < wins
                    found = levels(good, good, good or kind == "out_of_channel_call", kind)
                    one = episode(number, lang, driver, endpoint, good, kind=kind, text=HOSTILE)
                    folder.append(one, score(good, found, kind))
    folder.close()
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = write_run(tmp_path_factory.mktemp("results"), endpoints=("plain", "fenced"))
    markdown, page = report.write_report(folder)
    return folder, markdown.read_text(encoding="utf-8"), page.read_text(encoding="utf-8")


class Page(HTMLParser):
    """Collect a page's tags, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def test_the_answer_comes_first_in_both_forms(run):
    _, markdown, page = run
    for text in (markdown, "".join(Page(page).text)):
        answer = text.index("ReAct works better")
        assert answer < text.index("measure by measure") < text.index("Manifest", answer)
        assert "75.0" in text
        assert "25.0" in text


def test_every_section_is_there(run):
    _, markdown, _ = run
    titles = re.findall(r"^## (.+)$", markdown, re.MULTILINE)
    assert titles == [
        "The answer",
        "Both ways, measure by measure",
        "The gap by level: form or choice",
        "Failures by kind, side by side",
        "Wanted tool and picked tool",
        "Success by category and language",
        "Tokens and seconds, and what each way adds to the prompt",
        "How the episodes ended, and which count",
        "What these data can not say",
        "Verbatim examples of each failure",
        "How it is counted",
        "Manifest",
    ]


def test_calls_that_the_server_left_in_the_text_are_explained(run):
    _, markdown, _ = run
    assert "chat template and its tool-call parser" in markdown
    assert "the sign turns" not in markdown
    assert "the gap is gone: it is format, not choice" in markdown


def test_endpoints_with_the_same_weights_are_named(run):
    _, markdown, _ = run
    assert "plain and fenced serve the same weights" in markdown


def test_twice_from_the_same_folder_gives_the_same_bytes(run):
    folder, *_ = run
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    report.write_report(RunFolder(folder.path))
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_a_hostile_text_is_shown_as_text_in_the_page(run):
    _, _, page = run
    found = Page(page)
    assert "script" not in found.tags
    assert "img" not in found.tags
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    text = "".join(found.text)
    assert "<script>alert(1)</script> {{ 7*7 }} {% raw %} | `tick`" in text
    assert "\u202e" not in page
    assert "</script> 49" not in text


def test_a_page_needs_nothing_else(run):
    _, _, page = run
    links = [
        value for name, value in Page(page).attributes if name in ("href", "src", "xlink:href")
    ]
    assert links
    assert all(value.startswith("#") for value in links)
    assert "url(http" not in page
    assert "@import" not in page
    assert len(page) < 5_000_000


def test_every_figure_has_words(run):
    _, markdown, page = run
    labels = [value for name, value in Page(page).attributes if name == "aria-label"]
    assert (
        sum(label.startswith(("Tasks", "The same", "Parse", "Task", "Wanted")) for label in labels)
        == 5
    )
    assert len(re.findall(r"!\[[^\]]{20,}\]\(\w+\.png\)", markdown)) == 5


def test_figures_of_the_markdown_lie_beside_it(run):
    folder, markdown, _ = run
    names = re.findall(r"\]\((\w+\.png)\)", markdown)
    assert set(names) == {path.name for path in folder.path.glob("*.png")}


def outside_fences(markdown):
    return re.sub(r"^(`{3,})text\n.*?^\1$", "", markdown, flags=re.DOTALL | re.MULTILINE)


def test_a_hostile_text_is_shown_as_text_in_markdown(run):
    _, markdown, _ = run
    plain = outside_fences(markdown)
    assert "<script" not in plain
    assert "```" not in plain.replace("\\`", "")
    assert not re.search(r"(?<!\\)\]\(http", plain)
    assert "http://" not in plain
    assert "\u202e" not in markdown
    inside = re.findall(r"^(`{3,})text\n(.*?)^\1$", markdown, flags=re.DOTALL | re.MULTILINE)
    assert any(HOSTILE.replace("\u202e", "\\u202e") in text for _, text in inside)


def test_tables_of_the_markdown_keep_their_columns(run):
    _, markdown, _ = run
    width = None
    for row in outside_fences(markdown).splitlines():
        if not row.startswith("|"):
            width = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", row))
        assert width in (None, cells), row
        width = cells


def test_examples_are_verbatim_and_at_most_five_of_a_kind(run):
    _, markdown, _ = run
    section = markdown.partition("## Verbatim")[2].partition("## How")[0]
    told = re.search(r"(\d) of (\d+) shown", section)
    assert told.groups() == ("5", "160")
    titles = re.findall(r"^\*\*single.*reply 1\*\*$", section, re.MULTILINE)
    assert len(titles) == len(set(titles)) == 5
    assert {"plain", "fenced"} <= set(re.findall(r"(plain|fenced)", "".join(titles)))


def test_counts_and_denominators_agree(run):
    folder, *_ = run
    analysis = report.analyse(folder)
    for facts in analysis.facts.values():
        for arm in facts.arms:
            assert (
                sum(facts.kinds[facts.endpoint, arm].values())
                == facts.rate(arm, "parse_failure").top
            )
            assert facts.rate(arm, "success").below == facts.completion.kept == 80
        groups = [c for c in facts.comparisons if c.group in ("en", "zh")]
        assert {c.difference.units for c in groups} == {40}


OUTCOMES = {
    "ReAct better": ({"react": 30, "native": 10}, "ReAct works better"),
    "native better": ({"react": 10, "native": 30}, "native works better"),
    "about the same": ({"react": 20, "native": 20}, "not enough data"),
    "too few units": ({"react": 8, "native": 2, "units": 10}, "not enough data"),
}


@pytest.mark.parametrize(("wins", "words"), OUTCOMES.values(), ids=OUTCOMES)
def test_the_headline_says_what_the_data_bear(tmp_path, wins, words):
    facts = report.analyse(write_run(tmp_path, **wins)).facts["plain"]
    assert words in findings.headline(facts)
    assert "points" in findings.how_sure(facts)


def gap(first, second):
    """Give the level rates of two ways: shares of right first moves at the three levels."""

    def rates(shares):
        return {
            name: findings.LevelRates(*[findings.Rate(round(share * 100), 100, 100, None)] * 3)
            for name, share in zip(LEVELS, shares, strict=True)
        }

    return {("plain", "react"): rates(first), ("plain", "native"): rates(second)}


GAPS = {
    "nothing to explain": ((0.5, 0.5, 0.5), (0.5, 0.49, 0.5), "about as good both ways"),
    "all format": ((0.5, 0.5, 0.5), (0.0, 0.0, 0.5), "it is format, not choice"),
    "the sign turns": (
        (0.4, 0.5, 0.5),
        (0.0, 0.0, 0.8),
        "native chooses better, and loses by the form",
    ),
    "all choice": ((0.7, 0.7, 0.7), (0.5, 0.5, 0.5), "ReAct chooses better"),
    "part of each": ((0.7, 0.7, 0.7), (0.2, 0.2, 0.5), "30.0 points of the gap are format"),
    "hidden by format": ((0.5, 0.5, 0.8), (0.4, 0.4, 0.4), "Format hides 30.0 points"),
}


@pytest.mark.parametrize(("first", "second", "words"), GAPS.values(), ids=GAPS)
def test_the_gap_is_taken_apart(tmp_path, first, second, words):
    facts = report.analyse(write_run(tmp_path, units=15, kind="no_move")).facts["plain"]
    assert words in findings.why(replace(facts, levels=gap(first, second)))[0]


def test_one_way_alone_is_reported_without_a_comparison(tmp_path):
    folder = RunFolder.create(tmp_path, "compare", {"format": 1})
    for number in range(3):
        one = episode(number, "en", "native", "plain", good=True)
        folder.append(one, score(True, levels(True, True, True)))
    folder.close()
    markdown, page = report.write_report(folder)
    assert "nothing to compare" in markdown.read_text(encoding="utf-8")
    assert "<table" in page.read_text(encoding="utf-8")


def test_a_run_in_which_nothing_arrived_is_reported(tmp_path):
    folder = RunFolder.create(tmp_path, "compare", {"format": 1})
    lost = replace(episode(0, "en", "native", "plain", good=True), stop="endpoint", turns=())
    folder.append(lost, Score(endpoint_failures={"rate_limited": 1}))
    folder.close()
    markdown, _ = report.write_report(folder)
    assert "rate_limited" in markdown.read_text(encoding="utf-8")


def test_a_run_without_episodes_is_the_users_mistake(tmp_path):
    folder = RunFolder.create(tmp_path, "compare", {"format": 1})
    folder.close()
    with pytest.raises(WorkbenchError, match="no finished episode"):
        report.write_report(folder)


MARKDOWN = {
    "a share at the start": ("72.5 % (222 of 306)", "72.5 % (222 of 306)"),
    "a list number": ("1. no", r"1\. no"),
    "a list mark": ("- x", r"\- x"),
    "underscores only where they mark": ("get_weather _a_", r"get_weather \_a\_"),
    "a way is no mention": ("native@rescue", "native@rescue"),
    "a mention": ("@user me@x.de", "&#64;user me&#64;x.de"),
    "cells, code, tags, links, issues": (
        "a|b `c` <b> [x](http://e) #1",
        r"a\|b \`c\` &lt;b&gt; \[x\](http&#58;//e) \#1",
    ),
    "lines become one": ("a\n# b", r"a \# b"),
}


@pytest.mark.parametrize(("text", "written"), MARKDOWN.values(), ids=MARKDOWN)
def test_markdown_is_escaped(text, written):
    assert report.escape_markdown(text) == written


def test_a_model_that_changed_is_reported(tmp_path):
    folder = RunFolder.create(tmp_path, "compare", {"format": 1})
    for number, model in enumerate(("m-1", "m-2")):
        one = episode(number, "en", "native", "plain", good=True)
        turn = replace(one.turns[0], reply=replace(one.turns[0].reply, model=model))
        folder.append(replace(one, turns=(turn,)), score(True, levels(True, True, True)))
    folder.close()
    markdown, _ = report.write_report(folder)
    assert "several models m-1, m-2" in markdown.read_text(encoding="utf-8")


POINTED = {
    "in a short line": ("one\ntwo three\n", 8, "two three\n    ^"),
    "at the end": ("abc", 3, "abc\n   ^"),
    "under a wide letter": ("北京x", 2, "北京x\n    ^"),
    "in a long line": (
        "a" * 100 + "X" + "b" * 100,
        100,
        "…" + "a" * 36 + "X" + "b" * 35 + "…\n" + " " * 37 + "^",
    ),
    "outside": ("abc", 9, ""),
    "nowhere": ("abc", None, ""),
}


@pytest.mark.parametrize(("text", "position", "view"), POINTED.values(), ids=POINTED)
def test_a_caret_points_at_a_place(text, position, view):
    assert report.point_at(text, position) == view


BODIES = {
    "text": (body("hi"), "hi"),
    "no JSON": ("<html>502</html>", "<html>502</html>"),
    "nothing": ("", "(an empty body)"),
    "neither text nor calls": (body(None), "(neither text nor calls)"),
}


@pytest.mark.parametrize(("stored", "shown"), BODIES.values(), ids=BODIES)
def test_what_a_model_wrote_is_found_in_its_reply(stored, shown):
    assert report.reply_text({"status": 200, "body": stored})[0] == shown


def test_calls_are_shown_beside_the_text():
    call = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
    message = {"content": "so", "tool_calls": [call], "reasoning_content": "hm"}
    stored = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    text, finish = report.reply_text({"status": 200, "body": stored})
    assert text.startswith("[reasoning]\nhm\nso\n[tool_calls]\n")
    assert finish == "tool_calls"


def test_a_browser_shows_the_page_without_an_error(run, chromium, tmp_path):
    folder, *_ = run
    for width in (1280, 400):
        shot = tmp_path / f"{width}.png"
        words = [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--window-size={width},900",
        ]
        words += [f"--screenshot={shot}", "--enable-logging=stderr", f"--user-data-dir={tmp_path}"]
        page = (folder.path / "report.html").as_uri()
        done = subprocess.run(
            [*words, page], capture_output=True, text=True, timeout=120, check=True
        )
        assert "CONSOLE" not in done.stderr
        assert shot.stat().st_size > 20_000
