"""The report: what it says for which data, the same bytes twice, nothing hostile alive."""

import base64
import hashlib
import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from bench import findings, report
from bench.__main__ import main
from bench.charts import lacks_letters
from bench.records import RunFolder
from bench.report.viewer import COLUMNS, gather, write_json
from bench.scoring import LevelScore, Score
from bench.texts import catalogue, speaking
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
    root,
    *,
    endpoints=("plain",),
    react=30,
    native=10,
    units=40,
    kind="out_of_channel_call",
    manifest=MANIFEST,
):
    """Write a run in which each way solves that many of the units, in both languages."""
    folder = RunFolder.create(root, "compare", manifest)
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
        self.tags, self.attributes, self.text, self.scripts = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self.scripts.append((dict(attrs), []))

    def handle_data(self, data):
        if self.cdata_elem == "script":
            self.scripts[-1][1].append(data)
        else:
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
        "Endpoints side by side",
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


def test_seconds_that_are_not_to_be_compared_are_not_told(tmp_path):
    notes = {"weights": "w", "seconds": "a busy machine"}
    entry = {"name": "plain", "model": "m-1", "recorded": {"notes": notes}}
    folder = write_run(tmp_path, units=2, manifest={**MANIFEST, "endpoints": [entry]})
    markdown = report.write_report(folder)[0].read_text(encoding="utf-8")
    assert "1.5 s" not in markdown
    assert "| seconds of waiting for the model | not told | not told |" in markdown


def test_twice_from_the_same_folder_gives_the_same_bytes(run):
    folder, *_ = run
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    report.write_report(RunFolder(folder.path))
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_a_hostile_text_is_shown_as_text_in_the_page(run):
    _, _, page = run
    found = Page(page)
    kinds = [attributes.get("type") for attributes, _ in found.scripts]
    assert kinds == ["application/json", "application/json", None]
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
    labels = re.findall(r'role="img" aria-label="([^"]{20,})"', page)
    assert [label.split()[0] for label in labels] == ["Tasks", "The", "Parse", "Wanted", "Task"]
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


def test_only_the_pages_own_script_may_run(run):
    _, _, page = run
    attributes, parts = Page(page).scripts[-1]
    digest = base64.b64encode(hashlib.sha256("".join(parts).encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert attributes == {}
    assert f"script-src &#39;sha256-{digest}&#39;;".replace("&#39;", "'") in policy
    assert "default-src 'none'" in policy


# ------------------------------------------------------------ what is behind the numbers


@pytest.fixture(scope="module")
def document(run):
    return report.compose(report.analyse(run[0]))


def episodes_of(document):
    """Return the viewer's episodes as mappings, their counts by name."""
    held = document.episodes
    for values in held["episodes"]:
        one = dict(zip(COLUMNS, values, strict=True))
        counts = held["counts"][one["counts"]]
        yield {**one, "has": {held["names"][n]: (top, below) for n, top, below in counts}}


def linked_cells(document):
    for section in document.sections:
        for block in section.blocks:
            if isinstance(block, report.Grid):
                yield from (c for row in (*block.rows, block.total) for c in row if c.behind)


def add_up(episodes, behind):
    """Add up what the viewer finds for a link: counted, and where it could be counted."""
    top = below = number = 0
    for one in episodes:
        asked = dict(behind.items())
        what, _ = asked.pop("what", ""), asked.pop("side", "")
        if all(str(one[name]) == value for name, value in asked.items()):
            a, b = one["has"].get(what, (0, 0))
            top, below, number = top + a, below + b, number + 1
    return top, below, number


def test_every_linked_number_is_the_sum_of_the_episodes_behind_it(document):
    episodes, checked = list(episodes_of(document)), Counter()
    for cell in linked_cells(document):
        top, below, number = add_up(episodes, cell.behind)
        assert number
        if not cell.behind.what:
            assert cell.behind.endpoint
            checked["ending"] += cell.text == str(number)
        elif found := re.match(r"(\d+) of (\d+)", cell.note):
            assert (top, below) == tuple(map(int, found.groups())), cell
            checked["rate"] += 1
        elif cell.behind.what == "kept":
            assert top == number
        elif cell.text.isdigit():
            assert top == int(cell.text), cell
            checked["count"] += 1
    assert checked["rate"] > 60
    assert checked["count"] >= 4
    assert checked["ending"] >= 8


def test_an_episode_holds_what_was_said_and_how_it_was_read(document):
    texts = document.episodes["texts"]
    one = next(e for e in episodes_of(document) if not e["success"])
    (turn,) = one["turns"]
    assert [role for role, _ in turn["sent"]] == ["system", "user"]
    assert texts[turn["reply"]] == HOSTILE.replace("\u202e", "\\u202e")
    assert "refused: out_of_channel_call" in texts[turn["read"]]
    assert "\n     ^" in texts[turn["read"]]
    assert "status 200, 1.50 s, 100 + 10 tokens, finish reason stop" in texts[turn["facts"]]
    assert "first_failures" in texts[one["score"]]


def test_a_text_that_many_episodes_share_is_there_once(document):
    texts = document.episodes["texts"]
    assert len(texts) == len(set(texts)) < 20


def test_a_large_run_keeps_its_failures_and_says_what_is_left_out(tmp_path):
    folder = write_run(tmp_path, units=12, react=9, native=6)
    analysis = report.analyse(folder)
    whole = gather(analysis.lines, analysis.frame)
    space = len(write_json(whole)) - 1_000
    held = gather(analysis.lines, analysis.frame, space=space)
    assert held == gather(analysis.lines, analysis.frame, space=space)
    rows = [dict(zip(COLUMNS, values, strict=True)) for values in held["episodes"]]
    assert len(rows) == held["total"] == 48
    assert 0 < held["whole"] == sum(bool(row["turns"]) for row in rows) < 48
    assert all(row["turns"] for row in rows if not row["success"])
    page = report.to_html(replace(report.compose(analysis), episodes=held))
    assert f"{held['whole']} of 48 episodes have their messages here" in page


def test_what_ends_a_script_never_stands_in_the_data():
    found = write_json({"a": "</script><!--<script>&\u2028\u2029"})
    assert not re.search("[<>&\u2028\u2029]", found)
    assert json.loads(found) == {"a": "</script><!--<script>&\u2028\u2029"}


# ------------------------------------------------------------ several runs


NOTES = {"weights": "W-1.5B", "server": "a server, --jinja"}


def manifest_of(name, template, **more):
    entry = {
        "name": name,
        "model": "m-1",
        "sha256": name,
        "recorded": {"notes": {**NOTES, "template": template}},
    }
    return {**MANIFEST, "tasks": ["b", "a"], "trials": 1, "endpoints": [entry], **more}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Write two runs of one model, once with another template."""
    root = tmp_path_factory.mktemp("pair")
    own = manifest_of("own", "the model's own")
    fenced = manifest_of("fenced", "fenced calls", tasks=["a", "b"], settings={"temperature": 1})
    few = {"units": 18, "react": 12}
    return (
        write_run(root, endpoints=("own",), native=2, manifest=own, **few),
        write_run(root, endpoints=("fenced",), native=16, manifest=fenced, **few),
    )


def test_several_runs_stand_on_one_page(pair, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["report", *(str(folder.path) for folder in pair), "--out", str(out)]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines() == [
        str(out / "report.md"),
        str(out / "report.html"),
    ]
    text = (out / "report.md").read_text(encoding="utf-8")
    assert "Same weights, same server, 2 chat templates." in text
    assert "own: the model's own; fenced: fenced calls" in text
    assert "native: fenced solves 88.9 % of the tasks, own 11.1 %" in text.replace("\xa0", " ")
    assert "−77.8 points (95 % interval" in text
    assert "The runs differ in settings" in text
    assert text.count("manifest.json") == 0
    for folder in pair:
        assert f"<summary>{folder.path.name}</summary>" in text
    assert re.search(r"\| native \| fenced \| own \| −77.8 \(18 units", text)


REFUSED = {
    "other tasks": ({"tasks": ["a", "c"]}, r"other tasks than .* \(1 missing, 1 more\)"),
    "other gold": ({"datasets": {"tasks/a.jsonl": "1"}}, r"other datasets than .*tasks/a.jsonl"),
    "other trials": ({"trials": 3}, r"other trials than .* \(1 and 3\)"),
    "one name for two recordings": ({}, "its endpoint own is not the own of"),
}


@pytest.mark.parametrize(("more", "words"), REFUSED.values(), ids=REFUSED)
def test_runs_that_cannot_be_combined_are_refused(pair, tmp_path, more, words):
    manifest = manifest_of("own", "x", **more)
    manifest["endpoints"][0]["sha256"] = "another"
    other = write_run(tmp_path, endpoints=("own",), units=2, manifest=manifest)
    with pytest.raises(WorkbenchError, match=words):
        report.write_together([pair[0], other], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_named_twice_is_refused(pair, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(pair[0].path, copy)
    with pytest.raises(WorkbenchError, match="holds the same episodes as"):
        report.analyse(pair[0], RunFolder(copy))
    with pytest.raises(WorkbenchError, match="named twice"):
        report.analyse(pair[0], pair[0])


def test_what_is_no_comparison_is_not_put_together(pair, tmp_path):
    folder = RunFolder.create(tmp_path, "choice", {"format": 1, "experiment": "choice"})
    folder.close()
    with pytest.raises(WorkbenchError, match="a run of choice; only comparisons"):
        report.write_together([pair[0], folder], tmp_path / "out")


def test_a_report_in_chinese_leaves_no_fixed_text_in_english(pair, tmp_path, capsys):
    out = tmp_path / "zh"
    assert main(["report", str(pair[0].path), "--lang", "zh", "--out", str(out)]) == 0
    capsys.readouterr()
    page = (out / "report.html").read_text(encoding="utf-8")
    with speaking("zh"):
        lacking = lacks_letters()
    if lacking:  # without a font for them, a figure's words stay as they are
        page = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    text = "".join(Page(page).text)
    assert '<html lang="zh-CN">' in page
    assert "native 效果更好" in text or "ReAct 效果更好" in text
    fixed = [key for key in catalogue("zh") if len(key) > 30 and "{" not in key]
    assert len(fixed) > 50
    assert not [key for key in fixed if key in text and key not in texts_of_models(pair[0])]


def texts_of_models(folder):
    return (folder.path / "manifest.json").read_text(encoding="utf-8")


# ------------------------------------------------------------ in a browser


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Write a small run whose replies try to break out of the page."""
    folder = write_run(tmp_path_factory.mktemp("shown"), units=4, react=3, native=1)
    return report.write_report(folder)[1].as_uri()


def seen(browser, script):
    """Return a value of the page; no script may have failed by then."""
    value = browser.run(script)
    assert browser.errors == []
    return value


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_the_page(shown, browser, width, colours):
    browser.look(width, 900, colours)
    browser.open(shown + "#episodes?way=native&what=parse_failure&side=top&open=0")
    assert seen(browser, "document.querySelector('.episode h3').textContent")
    assert seen(browser, "document.documentElement.scrollWidth <= innerWidth")
    paper = seen(browser, "getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(251, 251, 249)" if colours == "light" else "rgb(20, 23, 26)")
    assert len(browser.shoot()) > 10_000


def test_a_number_opens_the_episodes_that_it_counts(shown, browser):
    browser.look()
    browser.open(shown)
    number = "#measures td a[href*='way=native'][href*='what=parse_failure']"
    assert seen(browser, f'document.querySelector("{number}").textContent') == "75.0\u00a0%"
    browser.run(f'document.querySelector("{number}").click()')
    browser.wait("document.querySelectorAll('.list li').length === 6")
    assert seen(browser, "document.querySelector('.told').textContent") == (
        "6 of 16 episodes. Together they count 6."
    )
    browser.run("document.querySelector('.list a').click()")
    browser.wait("document.querySelector('.episode')")
    text = seen(browser, "document.querySelector('.episode').textContent")
    assert HOSTILE.replace("\u202e", "\\u202e") in text
    assert "refused: out_of_channel_call" in text
    assert seen(browser, "document.querySelectorAll('.episode script').length") == 0
    assert seen(browser, "document.scripts.length") == 3
    browser.run("document.querySelector('.close').click()")
    browser.wait("!document.querySelector('.episode')")


COLUMN = (
    "[...document.querySelectorAll('#measures tbody tr')].map((row) => row.cells[1].dataset.sort)"
)
HEAD = "document.querySelectorAll('#measures thead th')[1]"


def test_a_table_is_sorted_by_click_and_by_key(shown, browser):
    browser.look()
    browser.open(shown)
    before = seen(browser, COLUMN)
    browser.run(f"{HEAD}.querySelector('button').click()")
    down = seen(browser, COLUMN)
    known = [float(value) for value in down if value is not None]
    assert known == sorted(known, reverse=True)
    assert down != before
    assert seen(browser, f"{HEAD}.getAttribute('aria-sort')") == "descending"
    browser.run(f"{HEAD}.querySelector('button').focus()")
    browser.press("Enter", 13)
    browser.wait(f"{HEAD}.getAttribute('aria-sort') === 'ascending'")
    up = [float(value) for value in seen(browser, COLUMN) if value is not None]
    assert up == sorted(known)


def test_the_page_prints(shown, browser):
    browser.look(media="print", colours="dark")
    browser.open(shown)
    assert seen(browser, "getComputedStyle(document.querySelector('nav')).display") == "none"
    assert seen(browser, "getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert seen(browser, "getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert seen(browser, "document.querySelectorAll('details:not([open])').length") == 0
    paper = base64.b64decode(browser.ask("Page.printToPDF")["data"])
    assert paper.startswith(b"%PDF")
    assert browser.errors == []
