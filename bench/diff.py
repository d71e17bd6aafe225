"""What changed between two runs: better, worse, unchanged, on the tasks that both have.

Pairs the same way of both runs task by task, with the statistics of every report. Refuses runs
whose tasks or gold differ: their figures can't be held against each other. Asks no model.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import secret
from bench.records import RunFolder
from bench.show import printable
from bench.status import FOUND, OK, UNSURE
from bench.types import WorkbenchError

if TYPE_CHECKING:
    from bench.stats import Difference, LossWord
    from bench.tables import Comparison, Line

WayKey = tuple[str, str, str]
"""(endpoint, way, variant); "" where each run has only one of them."""
KINDS = ("compare", "descriptions")


@dataclass(frozen=True, slots=True)
class Change:
    """One task that one run solves more often than the other."""

    task_id: str
    before: float
    after: float
    """Shares of its trials that succeed, first run and second."""
    old: "Line" = field(repr=False)
    new: "Line" = field(repr=False)
    """An episode of each that shows it."""


@dataclass(frozen=True, slots=True)
class WayDiff:
    """One way of asking, in both runs; every difference is second run minus first."""

    name: str
    tasks: int
    comparisons: "tuple[Comparison, ...]"
    rates: Mapping[str, tuple[Any, Any]]
    """By measure: `tables.Rate` of the first run and of the second."""
    changes: tuple[Change, ...]
    loss_p: float | None
    """One-sided: that the second solves fewer tasks. None where there are counts only."""

    @property
    def success(self) -> "Difference":
        """The difference in task success."""
        return self.comparisons[0].difference

    @property
    def better(self) -> list[Change]:
        """Tasks that the second run solves more often."""
        return [change for change in self.changes if change.after > change.before]

    @property
    def worse(self) -> list[Change]:
        """Tasks that the second run solves less often."""
        return [change for change in self.changes if change.after < change.before]


@dataclass(frozen=True, slots=True)
class Diff:
    """Two runs, compared."""

    first: str
    second: str
    manifests: tuple[Mapping[str, Any], Mapping[str, Any]] = field(repr=False)
    ways: tuple[WayDiff, ...] = ()
    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()
    """Tasks that the other run does not have."""
    notes: tuple[str, ...] = ()


def run_diff(
    first: RunFolder,
    second: RunFolder,
    *,
    driver: str = "",
    limit: float | None = None,
    out: Path | None = None,
) -> int:
    """Compare two runs, write diff.md, print a summary; return the exit status.

    `limit`, in points: 1 where the second run is surely worse by as much, 3 where a loss of as much
    is neither shown nor excluded, else 0.
    """
    from bench.diff_page import compose, summarize  # noqa: PLC0415 (drawing takes time to load)
    from bench.report import to_markdown  # noqa: PLC0415

    found = compare_runs(first, second, driver=driver)
    path = out or second.path / "diff.md"
    try:
        text = secret.hide_keys(to_markdown(compose(found, limit)))
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise WorkbenchError(
            f"{path}: can't be written ({error.strerror}); choose --out FILE"
        ) from None
    print(printable(summarize(found, limit)))  # noqa: T201 (the answer)
    print(f"diff: {path}")  # noqa: T201
    return OK if limit is None else status_of(found, limit)


def status_of(found: Diff, limit: float) -> int:
    """Return the exit status for a loss of so many points: the worst of all ways."""
    words = [judge_way(way, limit) for way in found.ways]
    if "shown" in words:
        return FOUND
    return UNSURE if "not enough data" in words else OK


def judge_way(way: WayDiff, limit: float) -> "LossWord":
    """Say whether a way lost that many points: shown, excluded, or not enough data."""
    from bench.stats import judge_loss  # noqa: PLC0415 (scipy takes time to load)

    return judge_loss(way.success, limit / 100, way.loss_p)


def compare_runs(first: RunFolder, second: RunFolder, *, driver: str = "") -> Diff:
    """Compare two runs way by way; raises WorkbenchError where that would say nothing."""
    sides = (_Side.read(first), _Side.read(second))
    notes = _refuse_other_gold(*sides)
    shared = sides[0].tasks & sides[1].tasks
    old, new = (_keys(side, sides) for side in sides)
    ways = [
        _compare_way(_name(key), _only(old[key], shared), _only(new[key], shared), sides)
        for key in _shared_ways(sides, old, new, driver)
    ]
    return Diff(
        first=sides[0].name,
        second=sides[1].name,
        manifests=(sides[0].manifest, sides[1].manifest),
        ways=tuple(_adjust(ways)),
        only_first=tuple(sorted(sides[0].tasks - shared)),
        only_second=tuple(sorted(sides[1].tasks - shared)),
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two runs."""

    name: str
    manifest: Mapping[str, Any]
    lines: "Sequence[Line]"
    frame: Any

    @classmethod
    def read(cls, folder: RunFolder) -> "_Side":
        from bench.tables import episode_table  # noqa: PLC0415 (pandas takes time to load)

        manifest, name = folder.manifest, folder.path.name
        if manifest.get("experiment", "compare") not in KINDS:
            raise WorkbenchError(
                f"{name}: a run of {manifest['experiment']} has no tasks to compare"
            )
        lines = list(folder.lines())
        if not lines:
            raise WorkbenchError(f"{folder.path}: holds no finished episode; resume the run first")
        return cls(name, manifest, lines, episode_table(lines))

    @property
    def tasks(self) -> set[str]:
        """Ids of the tasks that it has episodes of."""
        return set(self.frame["task_id"])

    def several(self, column: str) -> bool:
        """Say whether it has more than one endpoint, or variant."""
        return int(self.frame[column].nunique()) > 1

    @property
    def golds(self) -> dict[str, str]:
        """A hash of each task with its gold, by id; {} where the manifest does not say."""
        listed = self.manifest.get("golds") or ()
        return dict(text.rsplit(":", 1) for text in listed)


# ---------------------------------------------------------------- what can be compared


def _refuse_other_gold(first: _Side, second: _Side) -> list[str]:
    """Raise where the two have no task in common, or other gold for one; return what else differs."""
    names = f"{first.name} and {second.name}"
    shared = sorted(first.tasks & second.tasks)
    if not shared:
        raise WorkbenchError(f"{names} have no task in common; there is nothing to compare")
    other = [task for task in shared if _wants(first)[task] != _wants(second)[task]]
    golds = first.golds, second.golds
    told = [task for task in shared if all(task in gold for gold in golds)]
    other += [task for task in told if golds[0][task] != golds[1][task]]
    if other:
        raise WorkbenchError(
            f"{names} were judged by other gold, for {_some(sorted(set(other)))}: their figures can't be "
            f"compared; run one of them again, or bring the older one up to date: "
            f"python -m bench rescore {first.name}"
        )
    if len(told) < len(shared):
        _refuse_other_files(first, second, [task for task in shared if task not in told])
    return _other_data(first, second)


def _wants(side: _Side) -> dict[str, tuple[int, ...]]:
    """Return what the scores say of each task's gold; it must be the same in both runs."""
    rows = side.frame.groupby("task_id")[["wanted", "no_tool"]].max()
    return {
        str(task): tuple(map(int, row))
        for task, row in zip(rows.index, rows.to_numpy(), strict=True)
    }


def _refuse_other_files(first: _Side, second: _Side, shared: Sequence[str]) -> None:
    """Raise where the files that hold these tasks differ, or nobody can tell."""
    frame = first.frame
    categories = set(frame[frame["task_id"].isin(list(shared))]["category"])
    hashes = [side.manifest.get("datasets") or {} for side in (first, second)]
    for category in sorted(categories):
        file = f"tasks/{category}.jsonl"
        one, two = (known.get(file) for known in hashes)
        if one is None or two is None:
            raise WorkbenchError(
                f"{first.name} or {second.name} does not say which gold it was judged by; "
                "rescore the older run, then compare"
            )
        if one != two:
            raise WorkbenchError(
                f"{first.name} and {second.name} were run on other versions of {file}; run one of them "
                "again, or rescore it"
            )


def _other_data(first: _Side, second: _Side) -> list[str]:
    """Return what differs in the tools' own files and texts, which may be what is being compared."""
    one, two = (side.manifest.get("datasets") or {} for side in (first, second))
    files = [
        name
        for name in sorted({*one, *two})
        if name.startswith("tools/") and one.get(name) != two.get(name)
    ]
    return [f"Files of the tools differ between the runs: {', '.join(files)}."] if files else []


def _some(names: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


# ---------------------------------------------------------------- the ways


def _key_of(row: Any, sides: Sequence[_Side]) -> WayKey:
    several = {name: any(side.several(name) for side in sides) for name in ("endpoint", "variant")}
    return (
        str(row["endpoint"]) if several["endpoint"] else "",
        str(row["arm"]).split(" · ", 1)[0],
        str(row["variant"]) if several["variant"] else "",
    )


def _keys(side: _Side, sides: Sequence[_Side]) -> dict[WayKey, Any]:
    """Return the rows of each way of a run."""
    groups = side.frame.groupby(["endpoint", "arm", "variant"])
    return {_key_of(rows.iloc[0], sides): rows for _, rows in groups}


def _shared_ways(
    sides: "tuple[_Side, _Side]",
    old: Mapping[WayKey, Any],
    new: Mapping[WayKey, Any],
    driver: str,
) -> list[WayKey]:
    found = [key for key in old if key in new and driver in ("", key[1])]
    if not found:
        told = "; ".join(
            f"{side.name} has {', '.join(map(_name, keys))}"
            for side, keys in zip(sides, (old, new), strict=True)
        )
        named = f" named {driver}" if driver else ""
        raise WorkbenchError(f"no way of asking{named} is in both runs: {told}")
    return sorted(found, key=lambda key: (key[0], not key[1].startswith("react"), key[1:]))


def _name(key: WayKey) -> str:
    endpoint, way, variant = key
    return way + (f" on {endpoint}" if endpoint else "") + (f" with {variant}" if variant else "")


def _only(rows: Any, tasks: set[str]) -> Any:
    return rows[rows["task_id"].isin(list(tasks))]


def _compare_way(name: str, old: Any, new: Any, sides: Sequence[_Side]) -> WayDiff:
    """Compare one way; both over the tasks that are whole in both runs."""
    from bench import stats, tables  # noqa: PLC0415 (pandas takes time to load)

    whole = [set(tables.scope(rows, "kept")["task_id"]) for rows in (old, new)]
    old, new = (_only(rows, whole[0] & whole[1]) for rows in (old, new))
    found, rates = [], {}
    for measure in tables.MEASURES:
        planned = measure.name in tables.PLANNED
        resamples = stats.RESAMPLES if planned else stats.QUICK
        difference = tables.compare(new, old, measure, resamples)
        exact = tables.mcnemar(new, old, measure, difference)
        found.append(
            tables.Comparison(
                *(name, sides[1].name, sides[0].name, measure, "", difference, planned),
                mcnemar=exact,
            )
        )
        rates[measure.name] = tables.rate(old, measure), tables.rate(new, measure)
    units = tables.paired_units([new, old], tables.MEASURES[0])
    loss_p = None
    if found[0].difference.p is not None:
        loss_p = stats.sign_flip((units[0] - units[1]).to_numpy(), side="less")
    changes = tuple(_changes(old, new, sides))
    return WayDiff(name, len(whole[0] & whole[1]), tuple(found), rates, changes, loss_p)


def _adjust(ways: Sequence[WayDiff]) -> Iterator[WayDiff]:
    """Adjust p values over all ways: Holm where planned, else Benjamini and Hochberg."""
    from bench.tables import adjust  # noqa: PLC0415 (pandas takes time to load)

    adjusted = iter(adjust([one for way in ways for one in way.comparisons]))
    for way in ways:
        yield replace(way, comparisons=tuple(next(adjusted) for _ in way.comparisons))


def _changes(old: Any, new: Any, sides: Sequence[_Side]) -> Iterator[Change]:
    """Yield the tasks whose share of successes differs, the largest change first."""
    from bench.tables import MEASURES, task_values  # noqa: PLC0415 (pandas takes time to load)

    before, after = (task_values(rows, MEASURES[0]).droplevel("pair") for rows in (old, new))
    moved = {task: after[task] - before[task] for task in before.index if task in after.index}
    kept = [
        {task: rows[rows["task_id"] == task] for task in moved if moved[task]}
        for rows in (old, new)
    ]
    lines = [_by_key(side) for side in sides]
    for task in sorted(kept[0], key=lambda name: (-abs(moved[name]), name)):
        rows = [_telling(kept[at][task], solved=(moved[task] > 0) == (at == 1)) for at in (0, 1)]
        shown = [lines[at][_line_key(rows[at])] for at in (0, 1)]
        yield Change(task, float(before[task]), float(after[task]), *shown)


def _telling(rows: Any, *, solved: bool) -> Any:
    """Return the first whole trial that was solved, or was not; any where there is none."""
    whole = rows[rows["kept"]]
    fitting = whole[whole["success"] == int(solved)]
    return (fitting if len(fitting) else whole).iloc[0]


def _line_key(row: Any) -> tuple[Any, ...]:
    names = ("endpoint", "task_id", "driver", "dialect", "level", "variant", "trial")
    return tuple(row[name] for name in names)


def _by_key(side: _Side) -> "dict[tuple[Any, ...], Line]":
    return {_line_key(defaultdict(str, line)): line for line in side.lines}
