"""Turn a run's lines into tables: one row an episode, then rates with their denominators.

Counts are divided here and nowhere else. Pure functions of the lines of episodes.jsonl: no model,
no network, no files.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd

from bench import stats
from bench.scoring import NONE, LevelScore, Score
from bench.types import WorkbenchError
from parsers import LEVELS
from parsers.types import PRECEDENCE

Line = Mapping[str, Any]
Scope = Literal["read", "kept"]
"""Which episodes count: `read` also has those that left their recording, `kept` has only tasks
and trials that every way of an endpoint has finished."""

IDENTITY = (
    *("endpoint", "arm", "task_id", "pair", "lang", "category", "driver", "dialect"),
    *("model", "variant", "trial", "level", "stop"),
)
_ARM_KEYS = ["endpoint", "arm"]
_TRIAL_KEYS = ["endpoint", "variant", "task_id", "trial"]
_COUNTS = tuple(item.name for item in fields(Score) if item.type in (int, float))
_OWN_NAMES = {"read": "replies_read"}
"""Counts whose name a table's flag has already."""
_COSTS = ("prompt", "completion", "cached", "reasoning", "first_prompt", "first_token")


@dataclass(frozen=True, slots=True)
class Measure:
    """One rate: which counts are divided, over which episodes, and what it means."""

    name: str
    label: str
    top: str
    below: str
    scope: Scope
    higher_is_better: bool
    meaning: str


MEASURES: tuple[Measure, ...] = (
    Measure(
        *("success", "task success", "success", "episodes", "kept", True),
        "the answer is right, every needed call was made, none was forbidden",
    ),
    Measure(
        *("parse_failure", "parse failures", "first_failed", "first_attempts", "read", False),
        "first attempts that could not be read as a call or an answer",
    ),
    Measure(
        *("wrong_pick", "wrong tool picks", "wrong", "readable", "kept", False),
        "readable calls to a tool that the task does not want at that point",
    ),
    Measure(
        *("answer_right", "answer right", "answer_right", "episodes", "kept", True),
        "the final answer says what it must, whatever was called",
    ),
    Measure(
        *("argument_accuracy", "arguments acceptable", "acceptable", "right_tool", "kept", True),
        "calls to a right tool whose arguments are acceptable too",
    ),
    Measure(
        *("missed", "missed calls", "missed", "wanted", "kept", False),
        "wanted calls that were never made",
    ),
    Measure(
        *("needless", "needless calls", "needless", "no_tool", "kept", False),
        "tasks that need no tool in which one was called",
    ),
    Measure(
        *("needless_attempt", "needless tries", "needless_attempt", "no_tool", "kept", False),
        "tasks that need no tool in which a call was only tried, unreadably",
    ),
    Measure(
        *("invented", "invented tools", "invented", "calls", "read", False),
        "calls to tools that were not offered",
    ),
    Measure(
        *("recovered", "recovered", "recovered", "corrected", "read", True),
        "replies to a correction that could be read",
    ),
    Measure(
        *("repaired", "repairs needed", "repaired", "replies_read", "read", False),
        "readable replies that the reader had to mend first",
    ),
    Measure(
        *("refused", "refusals", "refused", "replies", "read", False),
        "replies that the endpoint marked as refused or filtered",
    ),
    Measure(
        *("overflow", "prompt too long", "context_overflow", "episodes", "kept", False),
        "episodes that ended because the prompt outgrew the model",
    ),
)
PLANNED = ("success", "parse_failure", "wrong_pick")
"""The comparisons that were planned; everything else is exploratory and says so."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A count over its denominator, with a 95 % interval over units."""

    top: int
    below: int
    units: int
    interval: stats.Interval | None

    @property
    def value(self) -> float | None:
        """The rate; None where there is nothing to divide by."""
        return self.top / self.below if self.below else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two ways on the same units in one measure, with the adjusted p."""

    endpoint: str
    first: str
    second: str
    measure: Measure
    group: str
    """All tasks (""), or one category or language."""
    difference: stats.Difference
    planned: bool
    p: float | None = None
    """Adjusted: Holm where planned, else Benjamini and Hochberg."""
    mcnemar: float | None = None
    """Exact p; only with one trial and one language a unit, on a yes-or-no measure."""

    @property
    def raw(self) -> float | None:
        """The p before it is adjusted: McNemar's where it is exact, else of the permutation."""
        return self.difference.p if self.mcnemar is None else self.mcnemar


def arm_label(line: Line) -> str:
    """Return the name of a line's way, such as `native`, `native@rescue`, `react/call`."""
    dialect, level = line.get("dialect") or "json", line.get("level") or "hardened"
    text = str(line["driver"])
    text += f"/{dialect}" if dialect != "json" else ""
    return text + (f"@{level}" if level != "hardened" else "")


def episode_table(lines: Iterable[Line]) -> pd.DataFrame:
    """Return one row an episode: who, which task, how it stopped, and every count of its score.

    Columns beside those of the line and of `Score`: `arm`, `episodes` (1), `first_failed`, for each
    level `strict_first`, `strict_unreadable`, `strict_right` …, `line` (its place among the lines),
    and two flags: `read` (nothing of the endpoint's went wrong here) and `kept` (this task and
    trial is whole in every arm). The count `Score.read` is the column `replies_read`.

    Lines are read once and not kept: a row takes less than a kilobyte, whatever its episode held.

    >>> import asyncio, tempfile
    >>> from pathlib import Path
    >>> from bench import RunFolder, ScriptedClient, episode_table, load_tasks, make_driver
    >>> from bench import plan_jobs, run_all
    >>> client = ScriptedClient(lambda request: "Final Answer: I am a model.")
    >>> jobs = plan_jobs(load_tasks(ids=["no_tool-01"]), [make_driver("react")], [client])
    >>> with tempfile.TemporaryDirectory() as root:
    ...     folder = RunFolder.create(Path(root), "mine", {"format": 1})
    ...     _ = asyncio.run(run_all(jobs, folder))
    ...     folder.close()
    ...     frame = episode_table(folder.lines())
    >>> frame[["arm", "task_id", "answered"]].values.tolist()
    [['react', 'no_tool-01-en', 1], ['react', 'no_tool-01-zh', 1]]
    """
    frame = pd.DataFrame(_gather_columns(map(_row, lines)))
    frame["line"] = np.arange(len(frame))
    several = frame.groupby("endpoint")["variant"].transform("nunique") > 1
    frame["arm"] = frame["arm"].where(~several, frame["arm"] + " · " + frame["variant"])
    frame["read"], frame["kept"] = _flags(frame)
    order = ["endpoint", "arm", "task_id", "trial"]
    return frame.sort_values(order, kind="stable", ignore_index=True)


_Columns = dict[str, list[Any]]


def _gather_columns(rows: Iterable[Mapping[str, Any]]) -> _Columns:
    """Turn rows into columns, in which equal texts and equal tables are one object."""
    columns: _Columns = {name: [] for name in _columns()}
    texts: dict[str, str] = {}
    others: dict[str, Any] = {}
    for row in rows:
        for name, values in columns.items():
            value = row[name]
            if type(value) is str:
                value = texts.setdefault(value, value)
            elif type(value) not in _SMALL:
                value = others.setdefault(repr(value), value)
            values.append(value)
    return columns


_SMALL = frozenset({int, float, bool, type(None)})
"""Types of values that are not worth sharing."""


def frame_of(rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> pd.DataFrame:
    """Return rows as a table of columns of these pandas types, which stay so whatever is missing.

    Raises WorkbenchError for a value that is none of its column's type.

    >>> frame_of([{"n": 1}, {"n": None}], {"n": "Int64"})["n"].dtype
    Int64Dtype()
    """
    frame = pd.DataFrame(rows, columns=list(types), dtype=object)
    try:
        return frame.astype(dict(types))
    except (TypeError, ValueError) as error:
        raise WorkbenchError(f"a line of the run holds what is no number: {error}") from None


def plain_frame(frame: pd.DataFrame, plain: Callable[[Any], Any]) -> pd.DataFrame:
    """Return a table with `plain` of every value that is no number, in types that allow for gaps."""
    others = frame.select_dtypes(exclude="number").columns
    return frame.assign(**{name: frame[name].map(plain) for name in others}).convert_dtypes()


_COUNT_COLUMNS = tuple((name, _OWN_NAMES.get(name, name)) for name in _COUNTS)
_LEVEL_COLUMNS = {
    level: [
        (f.name, f"{level}_{f.name}", None if f.name == "kind" else 0) for f in fields(LevelScore)
    ]
    for level in LEVELS
}
"""A level's counts: the name in a score, the column, and what stands where the score is silent."""


def _columns() -> list[str]:
    levels = [column for level in LEVELS for _, column, _ in _LEVEL_COLUMNS[level]]
    maps = ["first_failures", "corrected_failures", "repairs", "endpoint_failures", "pairs"]
    counts = [column for _, column in _COUNT_COLUMNS]
    return [*IDENTITY, "episodes", "first_failed", *counts, *_COSTS, *maps, *levels]


def _row(line: Line) -> dict[str, Any]:
    """Flatten a line; what a score does not say is 0, what its costs do not say is unknown."""
    score = line.get("score") or {}
    row: dict[str, Any] = {name: line.get(name) for name in IDENTITY}
    row |= {"arm": arm_label(line), "variant": line.get("variant") or "full", "episodes": 1}
    row |= {"pair": line.get("pair") or line["task_id"], "trial": line.get("trial") or 0}
    row |= {column: score.get(name, 0) for name, column in _COUNT_COLUMNS}
    row |= {name: score.get(name) for name in _COSTS}
    for name in ("first_failures", "corrected_failures", "repairs", "endpoint_failures"):
        row[name] = score.get(name) or {}
    row["pairs"] = [tuple(pair) for pair in score.get("pairs") or ()]
    row["first_failed"] = sum(row["first_failures"].values())
    for level in LEVELS:
        found = (score.get("levels") or {}).get(level) or {}
        row |= {column: found.get(name, ground) for name, column, ground in _LEVEL_COLUMNS[level]}
    return row


def _flags(frame: pd.DataFrame) -> tuple["pd.Series[bool]", "pd.Series[bool]"]:
    """Say which rows count for the reading measures, and which for success and cost."""
    keys = [frame[name] for name in _TRIAL_KEYS]
    arms = frame.groupby(["endpoint", "variant"])["arm"].transform("nunique")
    present = frame.groupby(_TRIAL_KEYS)["arm"].transform("nunique")
    lost = (frame["stop"] == "endpoint").groupby(keys).transform("any")
    left = (frame["stop"] == "left_recording").groupby(keys).transform("any")
    whole = present == arms
    return ~lost & whole, ~lost & ~left & whole


def scope(frame: pd.DataFrame, which: Scope) -> pd.DataFrame:
    """Return the rows that count for a measure of that scope."""
    return frame[frame[which]]


def rate(frame: pd.DataFrame, measure: Measure) -> Rate:
    """Divide one measure over the rows given, which are one arm's."""
    return divide(_in_scope(frame, measure), measure.top, measure.below)


def divide(frame: pd.DataFrame, top: str, below: str) -> Rate:
    """Divide two count columns, with the interval over units."""
    if frame.empty:
        return Rate(0, 0, 0, None)
    sums = frame.groupby("pair")[[top, below]].sum()
    k, n = int(sums[top].sum()), int(sums[below].sum())
    units = int((sums[below] > 0).sum())
    interval = stats.rate_interval(sums[top].to_numpy(), sums[below].to_numpy()) if n else None
    return Rate(k, n, units, interval)


Arm = tuple[str, str]
"""(endpoint, arm)."""


def arms(frame: pd.DataFrame) -> dict[Arm, pd.DataFrame]:
    """Return each endpoint's ways with their rows: ReAct first, then by name."""
    groups = {(str(key[0]), str(key[1])): rows for key, rows in frame.groupby(_ARM_KEYS)}
    order = sorted(groups, key=lambda key: (key[0], not key[1].startswith("react"), key[1]))
    return {key: groups[key] for key in order}


def measure_table(frame: pd.DataFrame) -> dict[Arm, dict[str, Rate]]:
    """Return every measure of every arm, by the measure's name."""
    return {
        key: {measure.name: rate(rows, measure) for measure in MEASURES}
        for key, rows in arms(frame).items()
    }


def group_table(frame: pd.DataFrame, column: str) -> dict[str, dict[Arm, Rate]]:
    """Return task success by a column such as `category` or `lang`."""
    whole = scope(frame, "kept")
    return {
        str(group): {key: divide(rows, "success", "episodes") for key, rows in arms(part).items()}
        for group, part in whole.groupby(column)
    }


@dataclass(frozen=True, slots=True)
class LevelRates:
    """The same first replies, read at one level."""

    unreadable: Rate
    right: Rate
    attempts: Rate
    """Unreadable among all first attempts, not only the first of an episode."""


def level_table(frame: pd.DataFrame) -> dict[Arm, dict[str, LevelRates]]:
    """Return the gap by level for every arm."""
    return {
        key: {
            level: LevelRates(
                divide(rows, f"{level}_unreadable", f"{level}_first"),
                divide(rows, f"{level}_right", f"{level}_first"),
                divide(rows, f"{level}_failed", f"{level}_attempts"),
            )
            for level in LEVELS
        }
        for key, rows in arms(scope(frame, "read")).items()
    }


def count_kinds(
    frame: pd.DataFrame, column: str = "first_failures", *, everything: bool = False
) -> dict[Arm, dict[str, int]]:
    """Count failures (or repairs) by kind for every arm, in the readers' order of kinds.

    `everything` counts over all episodes, also over those that no measure counts.
    """
    place: dict[str, int] = {kind: number for number, kind in enumerate(PRECEDENCE)}
    table = {}
    for key, rows in arms(frame if everything else scope(frame, "read")).items():
        total: Counter[str] = Counter()
        for kinds in rows[column]:
            total.update(kinds)
        ordered = sorted(total.items(), key=lambda item: (place.get(item[0], 99), item[0]))
        table[key] = dict(ordered)
    return table


def confusion(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one arm's matrix: wanted tool (rows) against picked tool (columns), `none` last."""
    counts = Counter(pair for pairs in scope(rows, "kept")["pairs"] for pair in pairs)
    names = {name for pair in counts for name in pair} - {NONE}
    order = [*sorted(names), NONE]
    cells = [[counts[wanted, picked] for picked in order] for wanted in order]
    return pd.DataFrame(cells, index=order, columns=order, dtype=int)


def task_values(rows: pd.DataFrame, measure: Measure) -> "pd.Series[float]":
    """Return one value a task, over its trials; by (pair, task), where there is a denominator."""
    sums = _in_scope(rows, measure).groupby(["pair", "task_id"]).sum()
    sums = sums[sums[measure.below] > 0]
    return sums[measure.top] / sums[measure.below]


def unit_means(rows: pd.DataFrame, measure: Measure) -> "pd.Series[float]":
    """Return one value a unit: per task over its trials, then over the unit's tasks."""
    return task_values(rows, measure).groupby("pair").mean()


def paired_units(arms: Sequence[pd.DataFrame], measure: Measure) -> pd.DataFrame:
    """Return units x arms: each unit's mean over the tasks in which every arm has a denominator.

    A task that one arm has no denominator in is left out of all: else the mean of a unit would be
    over one language here and over two there.
    """
    values = [task_values(rows, measure) for rows in arms]
    return pd.concat(values, axis=1, join="inner", keys=range(len(arms))).groupby("pair").mean()


def compare(
    first: pd.DataFrame, second: pd.DataFrame, measure: Measure, resamples: int = stats.QUICK
) -> stats.Difference:
    """Compare two arms in one measure, over the tasks in which both have a denominator."""
    units = paired_units([first, second], measure)
    return stats.paired_difference(units[0].to_numpy(), units[1].to_numpy(), resamples)


def comparisons(
    frame: pd.DataFrame, *, planned_only: bool = False, resamples: int = stats.RESAMPLES
) -> list[Comparison]:
    """Compare the ways of each endpoint pair by pair, with adjusted p values.

    Planned (Holm over an endpoint): `PLANNED` measures, ReAct against native at the level that
    both were run, with `resamples` sign flips. The rest is exploratory (Benjamini and Hochberg over
    an endpoint), and left out with `planned_only`.
    """
    table = arms(frame)
    found: list[Comparison] = []
    for endpoint in sorted({key[0] for key in table}):
        ways = [arm for name, arm in table if name == endpoint]
        own: list[Comparison] = []
        for first, second in combinations(ways, 2):
            pair = table[endpoint, first], table[endpoint, second]
            own += _compare_arms(endpoint, first, second, *pair, resamples, planned_only)
        found += adjust(own)
    return found


def _compare_arms(
    endpoint: str,
    first: str,
    second: str,
    left: pd.DataFrame,
    right: pd.DataFrame,
    resamples: int,
    planned_only: bool,
) -> list[Comparison]:
    main = _is_main(left, right)
    found = []
    for measure in MEASURES:
        planned = main and measure.name in PLANNED
        if planned_only and not planned:
            continue
        difference = compare(left, right, measure, resamples if planned else stats.QUICK)
        exact = mcnemar(left, right, measure, difference)
        found.append(
            Comparison(endpoint, first, second, measure, "", difference, planned, mcnemar=exact)
        )
    if main and not planned_only:
        found += _compare_groups(endpoint, left, right, first, second)
    return found


def _is_main(left: pd.DataFrame, right: pd.DataFrame) -> bool:
    """Say whether this is the question: ReAct against native, read alike, same descriptions."""
    one, two = left.iloc[0], right.iloc[0]
    return bool(
        one["driver"] != two["driver"]
        and one["level"] == two["level"]
        and one["variant"] == two["variant"]
    )


def _compare_groups(
    endpoint: str, left: pd.DataFrame, right: pd.DataFrame, first: str, second: str
) -> list[Comparison]:
    success = MEASURES[0]
    found = []
    for column in ("category", "lang"):
        for group in sorted(set(left[column]) & set(right[column])):
            pair = left[left[column] == group], right[right[column] == group]
            difference = compare(*pair, success)
            exact = mcnemar(*pair, success, difference)
            found.append(
                Comparison(
                    *(endpoint, first, second, success, str(group), difference, False),
                    mcnemar=exact,
                )
            )
    return found


def mcnemar(
    left: pd.DataFrame, right: pd.DataFrame, measure: Measure, difference: stats.Difference
) -> float | None:
    """Return the exact p where every unit has one yes or no from each arm; None elsewhere.

    None also under `stats.FEW` units, where there are counts only.
    """
    single = all(
        part.groupby("pair").size().max() == 1 and part[measure.below].max() == 1
        for rows in (left, right)
        if len(part := _counted(rows, measure))
    )
    if not single or difference.units < stats.FEW:
        return None
    return stats.mcnemar(difference.higher, difference.lower)


def _counted(rows: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    found = _in_scope(rows, measure)
    return found[found[measure.below] > 0]


def _in_scope(rows: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Return the rows that count for a measure, with only what it needs: copies take memory."""
    return rows.loc[rows[measure.scope], ["pair", "task_id", measure.top, measure.below]]


def adjust(found: Sequence[Comparison]) -> list[Comparison]:
    """Return comparisons with adjusted p: Holm over the planned, else Benjamini and Hochberg."""
    planned = [c for c in found if c.planned and c.raw is not None]
    rest = [c for c in found if not c.planned and c.raw is not None]
    adjusted = {id(c): p for c, p in zip(planned, stats.holm(_ps(planned)), strict=True)}
    adjusted |= {id(c): p for c, p in zip(rest, stats.benjamini_hochberg(_ps(rest)), strict=True)}
    return [replace(c, p=adjusted.get(id(c))) for c in found]


def _ps(found: Sequence[Comparison]) -> list[float]:
    return [c.raw for c in found if c.raw is not None]


@dataclass(frozen=True, slots=True)
class Several:
    """More than two ways of one endpoint in task success: whether they differ, and which."""

    endpoint: str
    ways: tuple[str, ...]
    units: int
    p: float | None
    """That all are alike: permutation within units; None under `stats.FEW` units."""
    pairs: tuple[Comparison, ...]
    """Each pair, with Holm's p over these pairs."""


def several_ways(frame: pd.DataFrame) -> list[Several]:
    """Test every endpoint that has more than two ways, each in task success."""
    table = arms(frame)
    found = []
    for endpoint in sorted({key[0] for key in table}):
        own = {arm: rows for (name, arm), rows in table.items() if name == endpoint}
        if len(own) > 2:
            found.append(_several(endpoint, own))
    return found


def _several(endpoint: str, own: Mapping[str, pd.DataFrame]) -> Several:
    success = MEASURES[0]
    units = paired_units(list(own.values()), success)
    p = stats.omnibus(units.to_numpy()) if len(units) >= stats.FEW else None
    pairs = [
        Comparison(
            *(endpoint, first, second, success, ""),
            difference=(difference := compare(own[first], own[second], success)),
            planned=False,
            mcnemar=mcnemar(own[first], own[second], success, difference),
        )
        for first, second in combinations(own, 2)
    ]
    known = [c for c in pairs if c.raw is not None]
    adjusted = {id(c): q for c, q in zip(known, stats.holm(_ps(known)), strict=True)}
    told = tuple(replace(c, p=adjusted.get(id(c))) for c in pairs)
    return Several(endpoint, tuple(own), len(units), p, told)


@dataclass(frozen=True, slots=True)
class Cost:
    """What an arm used, an episode; None where the endpoint did not say."""

    episodes: int
    replies: float
    prompt: float | None
    completion: float | None
    cached: float | None
    reasoning: float | None
    first_prompt: float | None
    """Prompt tokens of the first request: what the way adds shows here."""
    seconds: float | None
    first_token: float | None
    per_1000_tokens: float | None
    """Tasks solved per 1,000 tokens, prompt and completion together."""
    per_second: float | None
    """Tasks solved per second of waiting for the model."""
    unmetered: int
    """Replies without usage: where it is not 0, tokens are lower bounds."""
    retries: int

    def untimed(self) -> "Cost":
        """Return it without times, where those that were taken are not to be compared."""
        return replace(self, seconds=None, first_token=None, per_second=None)


def cost_table(frame: pd.DataFrame) -> dict[Arm, Cost]:
    """Return tokens and seconds for every arm, over the tasks that all arms finished."""
    return {key: _cost(rows) for key, rows in arms(scope(frame, "kept")).items()}


def _cost(rows: pd.DataFrame) -> Cost:
    means = {name: _known_mean(rows[name]) for name in _COSTS}
    tokens = rows[["prompt", "completion"]].sum(axis=None, skipna=True)
    solved, seconds = float(rows["success"].sum()), float(rows["seconds"].sum())
    return Cost(
        episodes=len(rows),
        replies=float(rows["replies"].mean()),
        seconds=float(rows["seconds"].mean()),
        per_1000_tokens=1000 * solved / float(tokens) if tokens else None,
        per_second=solved / seconds if seconds else None,
        unmetered=int(rows["unmetered"].sum()),
        retries=int(rows["retries"].sum()),
        **means,
    )


def _known_mean(column: "pd.Series[Any]") -> float | None:
    known = pd.to_numeric(column, errors="coerce").dropna()
    return float(known.mean()) if len(known) else None


@dataclass(frozen=True, slots=True)
class Completion:
    """How many tasks and trials are whole in every arm of an endpoint, and what that may hide."""

    planned: int
    kept: int
    endpoint: int
    """Lost to a failure of the endpoint, in any arm."""
    left_recording: int
    """Lost because the recording did not hold a request, in any arm."""
    unfinished: int
    """Not run in every arm."""
    bounds: Mapping[str, tuple[float, float]]
    """By arm: task success if all the missing ones had been wrong, and if all had been right."""


def completion_table(frame: pd.DataFrame) -> dict[str, Completion]:
    """Return the completion of every endpoint."""
    return {str(name): _completion(rows) for name, rows in frame.groupby("endpoint")}


def _completion(rows: pd.DataFrame) -> Completion:
    keys = ["variant", "task_id", "trial"]
    by_trial = rows.assign(
        lost=rows["stop"] == "endpoint", left=rows["stop"] == "left_recording"
    ).groupby(keys)[["lost", "left", "kept"]]
    lost, left, kept = (by_trial.any()[name] for name in ("lost", "left", "kept"))
    bounds = {}
    for arm, part in rows.groupby("arm"):
        variant = part["variant"].iloc[0]
        planned = len(kept.loc[[variant]])
        solved = int(scope(part, "kept")["success"].sum())
        missing = planned - int(part["kept"].sum())
        bounds[str(arm)] = (solved / planned, (solved + missing) / planned)
    return Completion(
        planned=len(kept),
        kept=int(kept.sum()),
        endpoint=int(lost.sum()),
        left_recording=int((left & ~lost).sum()),
        unfinished=int((~kept & ~lost & ~left).sum()),
        bounds=bounds,
    )


def stop_table(frame: pd.DataFrame) -> dict[Arm, dict[str, int]]:
    """Count for every arm how its episodes stopped."""
    return {
        key: {str(stop): int(n) for stop, n in sorted(rows["stop"].value_counts().items())}
        for key, rows in arms(frame).items()
    }


def pass_table(frame: pd.DataFrame) -> dict[Arm, dict[int, float]]:
    """Return pass^k for every arm with several trials: the chance that k trials all succeed.

    Over tasks that have all their trials; per task the unbiased estimate, then the mean.
    """
    table = {}
    for key, rows in arms(scope(frame, "kept")).items():
        tries = rows.groupby("task_id")["success"].agg(["sum", "size"])
        most = int(tries["size"].max()) if len(tries) else 0
        whole = tries[tries["size"] == most]
        table[key] = {
            k: float(np.mean([stats.pass_hat(int(c), most, k) for c in whole["sum"]]))
            for k in range(1, most + 1)
        }
    return table
