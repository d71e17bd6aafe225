"""BFCL's rows in a comparison: the plan before it, both judges' verdicts after it.

A run folder then also holds `bfcl.jsonl` (one line a verdict) and `bfcl.md`, made of it.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from bench import secret
from bench.bfcl.data import (
    Row,
    Source,
    find_file,
    find_source,
    load_known_bad,
    load_rows,
    make_task,
    make_toolbox,
    make_tools,
    read_categories,
)
from bench.bfcl.judge import Checker, Judged, Kept, judge_episode
from bench.choice import Choice
from bench.drivers import label, make_driver
from bench.plan import Order, Plan, make_plan
from bench.records import RunFolder, dump_line
from bench.run import ToolboxFor
from bench.show import printable
from bench.tools.toolbox import Toolbox
from bench.types import Episode, Task, WorkbenchError

LISTED = 50
"""Disagreements that the page shows at most; bfcl.jsonl holds all."""


def plan_run(choice: Choice, order: Order) -> Plan:
    """Work out a comparison on BFCL's rows."""
    for flag, said in {
        "--toolset": choice.toolset,
        "--tools": choice.tools,
        "--variants": choice.variants,
        "--variant": set(choice.variant) - {"full"},
    }.items():
        if said:
            raise WorkbenchError(f"{flag}: BFCL's rows bring their own tools; leave it out")
    tasks, toolbox_for = load_tasks_and_tools(choice)
    plan = make_plan(replace(choice, tasks=None), order, tasks=tasks, toolbox_for=toolbox_for)
    return replace(plan, choice=choice)


def load_tasks_and_tools(choice: Choice) -> tuple[tuple[Task, ...], ToolboxFor]:
    """Return the rows that a choice names as tasks, and what gives each its tools."""
    rows = _rows_of(choice, _source_of(choice))
    boxes = {row.id: make_toolbox(row) for row in rows}

    def toolbox_for(task: Task, _: str) -> Toolbox:
        return boxes[task.id]

    return tuple(map(make_task, rows)), toolbox_for


def _source_of(choice: Choice) -> Source:
    return find_source(Path(choice.bfcl) if choice.bfcl else None)


def _rows_of(choice: Choice, source: Source) -> tuple[Row, ...]:
    return load_rows(source, read_categories([choice.tasks or ""]))


def describe_data(plan: Plan) -> dict[str, Any]:
    """Return what a run's manifest says of BFCL: version, files, the bad rows among the tasks."""
    source = _source_of(plan.choice)
    names = [n for c in read_categories([plan.choice.tasks or ""]) for n in _files(source, c)]
    bad = load_known_bad(source.version)
    return {
        "bfcl": {
            "version": source.version,
            "judge": source.judge if source.package else None,
            "files": {name: hashlib.sha256(source.read(name)).hexdigest() for name in names},
            "known_bad": [task.id for task in plan.tasks if task.id in bad],
        }
    }


def _files(source: Source, category: str) -> list[str]:
    """Return the files of a category: its questions, and the answers where it has some."""
    file = find_file(source, category)
    return [name for name in (file, f"possible_answer/{file}") if name in source.names]


# ---------------------------------------------------------------- verdicts


def judge_run(folder: RunFolder, choice: Choice) -> tuple[str, Path]:
    """Judge every episode of a run twice; write bfcl.jsonl and bfcl.md; return a sum-up and the page."""
    source = _source_of(choice)
    rows = {row.id: row for row in _rows_of(choice, source)}
    with Checker(source) as checker:
        found = [
            judged for episode in folder.episodes() for judged in _judge(episode, rows, checker)
        ]
    path = folder.path / "bfcl.md"
    about = folder.manifest["bfcl"]
    text = "\n".join(compose(found, about))
    try:
        lines = b"".join(dump_line(asdict(judged)) for judged in found)
        (folder.path / "bfcl.jsonl").write_bytes(lines)
        path.write_text(secret.hide_keys(text) + "\n", encoding="utf-8", newline="\n")
    except OSError as error:
        raise WorkbenchError(f"{path}: can't be written ({error.strerror})") from None
    return printable(sum_up(found, about)), path


def _judge(episode: Episode, rows: Mapping[str, Row], checker: Checker) -> Iterator[Judged]:
    row = rows.get(episode.task_id)
    if row is not None:
        yield from judge_episode(
            row, make_task(row), episode, make_tools(row), checker, label_of(episode)
        )


def label_of(episode: Episode) -> str:
    """Return the arm that an episode belongs to."""
    dialect = f"/{episode.dialect}" if episode.dialect else ""
    return label(make_driver(f"{episode.driver}{dialect}@{episode.level}"))


def agreement(judged: Sequence[Judged]) -> tuple[int, int, float | None]:
    """Return how often both judges say the same, of how many, and Cohen's kappa.

    Kappa is None where both say the same of everything: then there is nothing to tell apart.
    """
    from bench.stats import kappa  # noqa: PLC0415 (scipy takes time to load)

    both = [j for j in judged if j.official is not None]
    same = sum(j.ours == j.official for j in both)
    if len({x for j in both for x in (j.ours, j.official)}) < 2:
        return same, len(both), None
    return same, len(both), kappa([j.ours for j in both], [bool(j.official) for j in both])


def sum_up(found: Sequence[Judged], about: Mapping[str, Any]) -> str:
    """Say in a few words how the judges agree."""
    wanted = [j for j in found if j.scope == "all" and j.task_id not in about["known_bad"]]
    same, count, value = agreement(wanted)
    told = "not defined: one verdict only" if value is None else f"{value:.3f}"
    return (
        f"BFCL's rows, judged twice: ours finds {sum(j.ours for j in wanted)} of {len(wanted)} right, "
        f"{about['judge'] or 'no checker there'} {sum(j.official is True for j in wanted)} of {count}; "
        f"they agree on {same} of {count}, Cohen's kappa {told}"
    )


# ---------------------------------------------------------------- the page


def compose(found: Sequence[Judged], about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of bfcl.md."""
    bad = set(about["known_bad"])
    good = [j for j in found if j.task_id not in bad]
    yield "# BFCL's rows, judged twice\n"
    yield (
        f"Ours, and BFCL's own checker (judge={about['judge'] or 'not there: data only'}) on the same "
        "calls. A verdict is about calls alone: every wanted call and no other, in any order. *first*: "
        "the calls of the first reply, which is all that BFCL scores; *all*: of the episode to its end, "
        'each call answered with "recorded", a repeated one counted once.\n'
    )
    yield f"Left out as bad rows: {', '.join(sorted(bad)) or 'none'}.\n"
    yield from _verdict_table([j for j in good if j.outcome is None])
    yield from _silence_table([j for j in good if j.outcome is not None])
    yield from _disagreements([j for j in found if j.outcome is None], bad)


def _verdict_table(judged: Sequence[Judged]) -> Iterator[str]:
    if not judged:
        return
    yield "## Right calls\n"
    yield "| endpoint | way | category | calls of | ours | BFCL's | agree | kappa |"
    yield "|---|---|---|---|---|---|---|---|"
    for (endpoint, driver, category, scope), part in _groups(
        judged, lambda j: (j.endpoint, j.driver, j.category, j.scope)
    ):
        yield _verdict_line((endpoint, driver, category, scope), part)
    for scope in ("first", "all"):
        part = [j for j in judged if j.scope == scope]
        yield _verdict_line(("all", "all", "all", scope), part)
    yield ""


def _verdict_line(names: Sequence[str], part: Sequence[Judged]) -> str:
    same, count, value = agreement(part)
    cells = [
        *map(_cell, names),
        f"{sum(j.ours for j in part)} of {len(part)}",
        f"{sum(j.official is True for j in part)} of {count}" if count else "–",
        f"{same} of {count}" if count else "–",
        "–" if value is None else f"{value:.3f}",
    ]
    return f"| {' | '.join(cells)} |"


def _silence_table(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield the rows that want no call: four outcomes, beside BFCL's rule for the same replies."""
    if not judged:
        return
    yield "## No call wanted: what the first reply was\n"
    yield (
        "BFCL's rule takes every reply from which it decodes no call for a right one, so also a "
        "malformed attempt and an endpoint's failure. Only *abstained* is right for us.\n"
    )
    kinds: tuple[Kept, ...] = get_args(Kept)
    yield f"| endpoint | way | category | rows | {' | '.join(kinds)} | right by BFCL's rule |"
    yield f"|{'---|' * (len(kinds) + 5)}"
    for names, part in _groups(judged, lambda j: (j.endpoint, j.driver, j.category)):
        counts = Counter(j.outcome for j in part)
        cells = [*map(_cell, names), str(len(part)), *(str(counts[kind]) for kind in kinds)]
        yield f"| {' | '.join([*cells, str(sum(j.official is True for j in part))])} |"
    yield ""


def _disagreements(judged: Sequence[Judged], bad: set[str]) -> Iterator[str]:
    apart = [j for j in judged if j.official is not None and j.ours != j.official]
    none = [j for j in judged if j.official is None and j.why]
    yield f"## Where they disagree: {len(apart)}\n"
    for j in apart[:LISTED]:
        flag = ", a bad row" if j.task_id in bad else ""
        said = "right, wrong" if j.ours else "wrong, right"
        reason = f" ({_cell(j.why)})" if j.why and j.ours else ""
        yield f"- {j.task_id}, {j.driver}, {j.scope}{flag}: ours and theirs {said}{reason}"
        yield f"  `{_code(json.dumps(j.calls, ensure_ascii=False))}`"
    if len(apart) > LISTED:
        yield f"- and {len(apart) - LISTED} more in bfcl.jsonl"
    if none:
        yield f"\nWithout a verdict of BFCL's checker: {len(none)}, such as: {_cell(none[0].why)}"


def _groups(
    judged: Iterable[Judged], key: Callable[[Judged], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], list[Judged]]]:
    groups: dict[tuple[str, ...], list[Judged]] = {}
    for one in judged:
        groups.setdefault(key(one), []).append(one)
    return sorted(groups.items())


def _cell(text: str) -> str:
    """Return a text for Markdown: nothing in it is markup."""
    line = printable(" ".join(text.split()))[:200]
    return "".join(f"\\{c}" if c in "\\`*_[]<>|&" else c for c in line)


def _code(text: str) -> str:
    return printable(text.replace("\n", " "))[:600].replace("`", "'")
