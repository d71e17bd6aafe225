"""The parts of a run's report that are about one endpoint after the other.

Pure functions of an `Analysis`; every number knows the episodes behind it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench import charts, findings, tables
from bench.findings import KINDS, STOPS, Facts, minus, name_way, percent
from bench.report.analysis import Analysis
from bench.report.cells import NONE, behind, difference_cell, rate_cell, reason_cell
from bench.report.document import (
    Behind,
    Block,
    Bullets,
    Cell,
    Grid,
    Picture,
    Prose,
    Quote,
    Section,
)
from bench.report.examples import place
from bench.report.seen import system_message
from bench.tables import MEASURES, Arm, Measure, Rate
from bench.texts import mark, say
from parsers import LEVELS

LANGUAGES: Mapping[str, str] = {"en": mark("English"), "zh": mark("Chinese")}


def measures(analysis: Analysis) -> Section:
    """Show every measure of every way, with the main difference."""
    blocks: list[Block] = [
        Prose(
            say(
                "Each share stands with its count, its denominator and its 95 % interval in "
                "percent. The difference is the mean over units, in points. Parse measures count "
                "first attempts: replies that answer no correction."
            )
        )
    ]
    blocks += [_measure_grid(facts) for facts in analysis.facts.values()]
    for endpoint, facts in analysis.facts.items():
        blocks += _pass_grid(endpoint, facts, analysis)
    title = say("Both ways, measure by measure")
    return Section("measures", say("Measures"), title, tuple(blocks))


def _compared_header(facts: Facts, first: str) -> tuple[str, ...]:
    main = facts.main
    header = (first, *(name_way(arm) for arm in facts.arms))
    if main is None:
        return header
    return (*header, minus(main.first, main.second), say("what it shows"))


def _measure_grid(facts: Facts) -> Grid:
    rows = [_measure_row(facts, measure) for measure in MEASURES]
    return Grid(facts.endpoint, _compared_header(facts, say("measure")), tuple(rows))


def _measure_row(facts: Facts, measure: Measure) -> tuple[Cell, ...]:
    cells = [Cell(say(measure.label), say(measure.meaning))]
    for arm in facts.arms:
        rate = facts.rate(arm, measure.name)
        found = behind(facts.endpoint, arm, measure.name, rate.top)
        cells.append(rate_cell(rate, found))
    return (*cells, *_main_difference(facts, measure.name, ""))


def _main_difference(facts: Facts, measure: str, group: str) -> tuple[Cell, ...]:
    """Return the difference of the main ways and what it shows; nothing where there are none."""
    main = facts.main
    if main is None:
        return ()
    for c in facts.comparisons:
        same = (c.first, c.second) == (main.first, main.second)
        if same and c.measure.name == measure and c.group == group:
            found = behind(facts.endpoint, what=measure)
            cell = difference_cell(c.difference, found if not group else None)
            return (cell, reason_cell(c.difference, findings.surely(c)))
    return (NONE, NONE)


def _pass_grid(endpoint: str, facts: Facts, analysis: Analysis) -> list[Block]:
    if analysis.trials < 2:
        return []
    table = tables.pass_table(analysis.frame[analysis.frame["endpoint"] == endpoint])
    most = max(len(row) for row in table.values())
    header = (say("way"), *(f"pass^{k}" for k in range(1, most + 1)))
    rows = tuple(
        (
            Cell(name_way(arm)),
            *(
                Cell(percent(v), sort=v, behind=behind(endpoint, arm, "success"))
                for v in table[endpoint, arm].values()
            ),
        )
        for arm in facts.arms
    )
    caption = say("{where}: the chance that k trials of a task all succeed", where=endpoint)
    return [Grid(caption, header, rows)]


def levels(analysis: Analysis) -> Section:
    """Show the same first replies at three levels."""
    blocks: list[Block] = [
        Prose(
            say(
                "The same first replies, read three times. Strict mends nothing. Hardened mends "
                "what has only one reading; the run acted on it unless a way says otherwise. "
                "Rescue also reads calls outside their channel. What changes from level to level "
                "is form; what stays is choice."
            )
        )
    ]
    every = {key: t for facts in analysis.facts.values() for key, t in facts.levels.items()}
    if every:
        blocks.append(Picture(charts.draw_levels(every)))
    for facts in analysis.facts.values():
        told = findings.explain_levels(facts)
        blocks += [Bullets(tuple(told))] if told else []
        blocks.append(_level_grid(facts))
    title = say("The gap by level: form or choice")
    return Section("levels", say("Levels"), title, tuple(blocks))


def _level_grid(facts: Facts) -> Grid:
    header = (
        say("way"),
        say("read"),
        say("first replies unreadable"),
        say("right first move"),
        say("all first attempts unreadable"),
    )
    rows = []
    for (endpoint, arm), by_level in facts.levels.items():
        for number, level in enumerate(LEVELS):
            found = by_level[level]
            rates = (("unreadable", found.unreadable), ("right", found.right))
            cells = (
                rate_cell(rate, behind(endpoint, arm, f"{level}:{name}", rate.top))
                for name, rate in (*rates, ("failed", found.attempts))
            )
            rows.append((Cell(name_way(arm)), Cell(level, sort=float(number)), *cells))
    return Grid(facts.endpoint, header, tuple(rows))


def failures(analysis: Analysis) -> Section:
    """Show failures and repairs by kind."""
    every = {key: t for facts in analysis.facts.values() for key, t in facts.kinds.items()}
    chart = charts.draw_failures(every, analysis.measures)
    blocks: list[Block] = (
        [Picture(chart)] if chart else [Prose(say("Every first attempt could be read."))]
    )
    later = tables.count_kinds(analysis.frame, "corrected_failures")
    repairs = tables.count_kinds(analysis.frame, "repairs")
    lost = tables.count_kinds(analysis.frame, "endpoint_failures", everything=True)
    for facts in analysis.facts.values():
        where = facts.endpoint
        blocks += _count_grid(
            facts,
            facts.kinds,
            say("{where}: parse failures of first attempts", where=where),
            ("first", "parse_failure"),
        )
        caption = say("{where}: of replies to a correction", where=where)
        blocks += _count_grid(facts, later, caption, ("later", "recovered"))
        caption = say("{where}: repairs in readable replies", where=where)
        blocks += _count_grid(facts, repairs, caption, ("repair", "repaired"))
        caption = say("{where}: failures of the endpoint, never charged", where=where)
        blocks += _count_grid(facts, lost, caption, ("lost", ""))
    title = say("Failures by kind, side by side")
    return Section("failures", say("Failures"), title, tuple(blocks))


def _count_grid(
    facts: Facts, table: Mapping[Arm, Mapping[str, int]], caption: str, what: tuple[str, str]
) -> list[Block]:
    """Return a table of counts by name, each with the measure's denominator; none where empty."""
    own = {arm: table.get((facts.endpoint, arm), {}) for arm in facts.arms}
    names = list(dict.fromkeys(name for counts in own.values() for name in counts))
    if not names:
        return []
    rows = [
        (
            Cell(name, say(KINDS[name]) if name in KINDS else ""),
            *(count_cell(facts, arm, name, own[arm].get(name, 0), what) for arm in facts.arms),
        )
        for name in sorted(names, key=place)
    ]
    header = (say("kind"), *(name_way(arm) for arm in facts.arms))
    return [Grid(caption, header, tuple(rows))]


def count_cell(facts: Facts, arm: str, name: str, count: int, what: tuple[str, str]) -> Cell:
    """Write how often something was, with its share; `what` is the count's and the measure's name."""
    head, measure = what
    below = facts.rate(arm, measure).below if measure else 0
    note = say("{share} of {below}", share=percent(count / below), below=below) if below else ""
    found = behind(facts.endpoint, arm, f"{head}:{name}", count) if count else None
    return Cell(str(count), note, float(count), found)


def confusion(analysis: Analysis) -> Section:
    """Show wanted tools against picked ones."""
    title, short = say("Wanted tool and picked tool"), say("Tool picks")
    chart = charts.draw_confusion(analysis.frame)
    if chart is None:
        return Section("confusion", short, title, (Prose(say("No tool was wanted.")),))
    intro = say(
        "Rows are the tools that a task wants, columns the tools that were picked. The last row "
        "holds calls where none was wanted, the last column wanted calls that were never made. "
        "Green is right. Only readable calls count."
    )
    blocks: list[Block] = [Prose(intro), Picture(chart)]
    for key, rows in tables.arms(analysis.frame).items():
        blocks += _matrix_grids(key, tables.confusion(rows))
    return Section("confusion", short, title, tuple(blocks))


def _matrix_grids(key: Arm, matrix: Any) -> list[Block]:
    names, cells = [str(name) for name in matrix.index], matrix.to_numpy().tolist()
    title = f"{key[0]}, {name_way(key[1])}"
    wrong = sorted(
        (-count, names[y], names[x])
        for y, row in enumerate(cells)
        for x, count in enumerate(row)
        if count and x != y
    )
    listed = tuple((Cell(y), Cell(x), _pick(key, y, x, -n)) for n, y, x in wrong[:8])
    full = tuple(
        (Cell(name), *(_pick(key, name, to, n) for to, n in zip(names, row, strict=True)))
        for name, row in zip(names, cells, strict=True)
    )
    grids: list[Block] = []
    if listed:
        caption = say("{where}: most frequent confusions", where=title)
        grids.append(Grid(caption, (say("wanted"), say("picked"), say("times")), listed))
    if len(names) > 1:
        caption = say("{where}: the whole matrix", where=title)
        grids.append(Grid(caption, (say("wanted \\ picked"), *names), full, folded=True))
    return grids


def _pick(key: Arm, wanted: str, picked: str, count: int) -> Cell:
    found = behind(*key, f"pick:{wanted}:{picked}", count) if count else None
    return Cell(str(count) if count else "·", sort=float(count), behind=found)


def groups(analysis: Analysis) -> Section:
    """Show success by category and language."""
    by_category = tables.group_table(analysis.frame, "category")
    by_lang = tables.group_table(analysis.frame, "lang")
    blocks: list[Block] = []
    if by_category:
        blocks.append(Picture(charts.draw_categories(by_category)))
    for facts in analysis.facts.values():
        caption = say("{where}: task success by category", where=facts.endpoint)
        blocks.append(_group_grid(facts, by_category, caption, "category"))
    for facts in analysis.facts.values():
        caption = say("{where}: task success by language", where=facts.endpoint)
        blocks.append(_group_grid(facts, by_lang, caption, "lang"))
    title = say("Success by category and language")
    return Section("groups", say("Categories"), title, tuple(blocks))


def _group_grid(
    facts: Facts, table: Mapping[str, Mapping[Arm, Rate]], caption: str, column: str
) -> Grid:
    rows = []
    for group, rates in table.items():
        name = say(LANGUAGES[group]) if group in LANGUAGES else group.replace("_", " ")
        cells = (_group_cell(facts, arm, rates, column, group) for arm in facts.arms)
        rows.append((Cell(name), *cells, *_main_difference(facts, "success", group)))
    return Grid(caption, _compared_header(facts, ""), tuple(rows))


def _group_cell(facts: Facts, arm: str, rates: Mapping[Arm, Rate], column: str, group: str) -> Cell:
    rate = rates.get((facts.endpoint, arm), Rate(0, 0, 0, None))
    found: Behind = behind(facts.endpoint, arm, "success", rate.top)
    found = replace(found, **{column: group})
    return rate_cell(rate, found)


def costs(analysis: Analysis) -> Section:
    """Show tokens and seconds, and what each way adds to the prompt."""
    intro = say(
        "Means over the tasks that every way finished. Failed replies and their corrections are in "
        "the sums. The first request holds the question, the tools and what the way adds to them."
    )
    blocks: list[Block] = [Prose(intro)]
    for facts in analysis.facts.values():
        blocks.append(_cost_grid(facts))
        blocks.append(Prose(_addition(facts)))
    blocks += _prompts(analysis)
    title = say("Tokens and seconds, and what each way adds to the prompt")
    return Section("cost", say("Cost"), title, tuple(blocks))


_COST_ROWS = (
    ("prompt", mark("prompt tokens"), "{:,.0f}"),
    ("cached", mark("of these, cached"), "{:,.0f}"),
    ("completion", mark("completion tokens"), "{:,.0f}"),
    ("reasoning", mark("of these, reasoning"), "{:,.0f}"),
    ("first_prompt", mark("prompt tokens of the first request"), "{:,.0f}"),
    ("replies", mark("replies"), "{:.2f}"),
    ("seconds", mark("seconds of waiting for the model"), "{:.2f}"),
    ("first_token", mark("seconds to the first token"), "{:.2f}"),
    ("per_1000_tokens", mark("tasks solved per 1,000 tokens"), "{:.3f}"),
    ("per_second", mark("tasks solved per second"), "{:.3f}"),
    ("unmetered", mark("replies without a token count"), "{:,.0f}"),
    ("retries", mark("requests sent again"), "{:,.0f}"),
    ("episodes", mark("episodes"), "{:,.0f}"),
)


def _cost_grid(facts: Facts) -> Grid:
    arms = [arm for arm in facts.arms if (facts.endpoint, arm) in facts.costs]
    rows = []
    for name, label, form in _COST_ROWS:
        cells = [_cost_cell(facts, arm, name, form) for arm in arms]
        rows.append((Cell(say(label)), *cells))
    header = (say("an episode"), *map(name_way, arms))
    return Grid(say("{where}: cost of an episode", where=facts.endpoint), header, tuple(rows))


def _cost_cell(facts: Facts, arm: str, name: str, form: str) -> Cell:
    value = getattr(facts.costs[facts.endpoint, arm], name)
    if value is None:
        return Cell(say("not told"))
    return Cell(form.format(value), sort=value, behind=behind(facts.endpoint, arm, "kept", 1))


def _addition(facts: Facts) -> str:
    """Say what the longer first prompt costs."""
    known = {
        arm: cost.first_prompt
        for (_, arm), cost in facts.costs.items()
        if cost.first_prompt is not None
    }
    if len(known) < 2:
        told = mark("{where}: the endpoint did not tell the prompt tokens of both ways.")
        return say(told, where=facts.endpoint)
    least = min(known, key=lambda arm: known[arm])
    more = say("; ").join(
        f"{name_way(arm)} {tokens - known[least]:+,.0f}"
        for arm, tokens in known.items()
        if arm != least
    )
    return say(
        "{where}: the first request of a task takes {tokens} prompt tokens with {way}; against "
        "that, {more}. Only what a way adds differs: format rules, tool list and example in "
        "ReAct's text, the server's own rendering of the tools in native.",
        where=facts.endpoint,
        tokens=f"{known[least]:,.0f}",
        way=name_way(least),
        more=more,
    )


def _prompts(analysis: Analysis) -> Iterator[Block]:
    """Show the system message of one task for every way and language."""
    for (way, lang), number in analysis.seen.prompts.items():
        line = analysis.lines[number]
        text = system_message(line)
        told = mark("{way}, {lang}: what is sent before the question")
        where = say(told, way=name_way(way), lang=lang)
        size = f"{len(text):,}"
        about = say("task {task}, {size} characters", task=line["task_id"], size=size)
        yield Quote(where, about, text, folded=True)


def endings(analysis: Analysis) -> Section:
    """Show how the episodes ended."""
    stops = tables.stop_table(analysis.frame)
    every = list(analysis.facts.values())
    blocks: list[Block] = [Bullets(tuple(findings.completion_sentence(f) for f in every))]
    blocks += [_endings_grid(facts, stops) for facts in every]
    title = say("How the episodes ended, and which count")
    return Section("endings", say("Endings"), title, tuple(blocks))


def _endings_grid(facts: Facts, stops: Mapping[Arm, Mapping[str, int]]) -> Grid:
    own = {arm: stops.get((facts.endpoint, arm), {}) for arm in facts.arms}
    names: Sequence[str] = [n for n in STOPS if any(n in counts for counts in own.values())]
    rows = tuple(
        (
            Cell(name, say(STOPS[name])),
            *(_stop_cell(facts, arm, name, own[arm].get(name, 0)) for arm in facts.arms),
        )
        for name in names
    )
    sums = (_stop_cell(facts, arm, "", sum(own[arm].values())) for arm in facts.arms)
    total = (Cell(say("all episodes")), *sums)
    header = (say("ended with"), *(name_way(arm) for arm in facts.arms))
    return Grid(facts.endpoint, header, rows, total=total)


def _stop_cell(facts: Facts, arm: str, stop: str, count: int) -> Cell:
    found = replace(behind(facts.endpoint, arm), stop=stop) if count else None
    return Cell(str(count), sort=float(count), behind=found)
