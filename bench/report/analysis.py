"""Read run folders and make their tables, once for every page about them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

from bench import stats, tables
from bench.findings import Facts
from bench.records import RunFolder, StoredLines
from bench.report.seen import Lines, Seen
from bench.tables import MEASURES, PLANNED, Arm, Line, Measure, Rate
from bench.texts import mark
from bench.types import WorkbenchError
from parsers import LEVELS

_ALIKE = ("tasks", "datasets", "trials", "variants")
"""What runs on one page must have in common."""
_TOLD = ("settings", "budget", "example", "stream", "stop_early")
"""What should be alike, and is told where it is not."""
_KEY = ("task_id", "driver", "dialect", "level", "variant", "trial", "endpoint")
"""What tells an episode from others (`records.key_of`)."""
_PAIRED = 4
"""So many endpoints are compared each with each; more only with the first."""


@dataclass(frozen=True, slots=True)
class Between:
    """One way on two endpoints, second minus first, over the same units.

    Exploratory: p is adjusted over all of these.
    """

    way: str
    first: str
    second: str
    measure: Measure
    difference: stats.Difference
    p: float | None


@dataclass(frozen=True, slots=True)
class Analysis:
    """One or several runs with their tables made; every page about them rests on this."""

    name: str
    manifest: Mapping[str, Any]
    """Of several runs: what they have in common, every endpoint and note, and `runs`."""
    lines: Sequence[Line] = field(repr=False)
    """Read from the run's file when asked for, so ask for few."""
    seen: Seen = field(repr=False)
    facts: Mapping[str, Facts] = field(repr=False)
    frame: Any = field(repr=False)
    """`tables.episode_table` of the lines."""
    between: tuple[Between, ...] = field(default=(), repr=False)

    @property
    def measures(self) -> dict[Arm, Mapping[str, Rate]]:
        """Every arm's measures."""
        return {key: table for f in self.facts.values() for key, table in f.measures.items()}

    @property
    def trials(self) -> int:
        """How often every task was tried."""
        return int(self.frame["trial"].max()) + 1


def analyse(*folders: RunFolder) -> Analysis:
    """Read run folders and make their tables.

    Raises `WorkbenchError` where one holds no episode, or where they can't stand on one page:
    other tasks or gold, or one endpoint's name for two things.
    """
    named = [folder.path.resolve() for folder in folders]
    if twice := next((path for path in named if named.count(path) > 1), None):
        raise WorkbenchError(f"{twice.name}: named twice; name each run once")
    lines, seen = Lines([_lines_of(folder) for folder in folders]), Seen()
    manifests = [folder.manifest for folder in folders]
    names = [folder.path.name for folder in folders]
    for one, other in pairwise(zip(names, manifests, strict=True)):
        _check_alike(*one, *other)
    _check_endpoints(names, manifests)
    frame = tables.episode_table(seen.watch(lines))
    if len(folders) > 1:
        _check_episodes(names, lines, frame)
    manifest = manifests[0] if len(folders) == 1 else _merge(names, manifests)
    between, facts = tuple(compare_endpoints(frame)), _facts(frame, untimed(manifest))
    return Analysis(" + ".join(names), manifest, lines, seen, facts, frame, between)


def _lines_of(folder: RunFolder) -> StoredLines:
    kind = folder.manifest.get("experiment", "compare")
    lines = folder.stored()
    if not lines:
        raise WorkbenchError(f"{folder.path}: holds no finished episode; resume the run first")
    if "score" not in lines[0]:
        raise WorkbenchError(f"{folder.path}: a run of {kind} has no scores to report")
    return lines


# ---------------------------------------------------------------- several runs


def _check_alike(one: str, first: Mapping[str, Any], other: str, second: Mapping[str, Any]) -> None:
    """Refuse runs of other tasks, gold, trials or descriptions."""
    for name in _ALIKE:
        here, there = first.get(name), second.get(name)
        if here == there or (name == "tasks" and _same_set(here, there)):
            continue
        raise WorkbenchError(
            f"{other}: other {name} than {one} ({_how_other(here, there)}); "
            "only runs of the same tasks, gold, variants and trials stand on one page"
        )


def _same_set(here: Any, there: Any) -> bool:
    return isinstance(here, list) and isinstance(there, list) and set(here) == set(there)


def _how_other(here: Any, there: Any) -> str:
    """Say in a few words what differs; the values may be long."""
    if isinstance(here, list) and isinstance(there, list):
        return f"{len(set(here) - set(there))} missing, {len(set(there) - set(here))} more"
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        changed = sorted(k for k in {*here, *there} if here.get(k) != there.get(k))
        return f"{', '.join(map(str, changed[:3]))}{' …' if len(changed) > 3 else ''}"
    return f"{here} and {there}"


def _check_endpoints(names: Sequence[str], manifests: Sequence[Mapping[str, Any]]) -> None:
    """Refuse one endpoint's name for two things."""
    seen: dict[str, tuple[str, Any]] = {}
    for name, manifest in zip(names, manifests, strict=True):
        for entry in entries_of(manifest):
            endpoint, source = str(entry.get("name")), entry.get("sha256")
            before = seen.setdefault(endpoint, (name, source))
            if before[0] != name and (source is None or before[1] != source):
                raise WorkbenchError(
                    f"{name}: its endpoint {endpoint} is not the {endpoint} of {before[0]}, which "
                    "has another recording or none; give each endpoint its own name"
                )


def _check_episodes(names: Sequence[str], lines: Lines, frame: Any) -> None:
    """Refuse one episode in two runs."""
    rows = frame.sort_values("line")
    again = rows[rows.duplicated(list(_KEY))].head(1)
    if again.empty:
        return
    both = rows.merge(again[list(_KEY)])
    there, here = (names[lines.part_of(number)] for number in both["line"][:2])
    raise WorkbenchError(
        f"{here}: holds the same episodes as {there} ({both['task_id'][0]}, "
        f"{both['driver'][0]}); leave one of the two out"
    )


def entries_of(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a manifest's endpoints, as far as they have the form of some."""
    listed = manifest.get("endpoints")
    return [e for e in listed if isinstance(e, Mapping)] if isinstance(listed, list) else []


def endpoint_notes(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what was noted of an endpoint when it was recorded, or asked."""
    recorded = entry.get("recorded") or {}
    notes = recorded.get("notes") or entry.get("notes") or {}
    return notes if isinstance(notes, Mapping) else {"note": notes}


def untimed(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Return the endpoints whose recorded seconds are noted as not to be compared."""
    noted = {str(entry.get("name")): endpoint_notes(entry) for entry in entries_of(manifest)}
    return frozenset(name for name, notes in noted.items() if notes.get("seconds"))


def notes_of(manifest: Mapping[str, Any]) -> list[str]:
    """Return a manifest's notes."""
    notes = manifest.get("notes") or []
    return [str(note) for note in ([notes] if isinstance(notes, str) else notes)]


def _merge(names: Sequence[str], manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several runs' manifests say together."""
    first = manifests[0]
    common = {k: v for k, v in first.items() if all(m.get(k) == v for m in manifests[1:])}
    entries = {str(e.get("name")): e for m in manifests for e in entries_of(m)}
    machines = dict.fromkeys(str(m["machine"]) for m in manifests if m.get("machine"))
    notes = dict.fromkeys(note for m in manifests for note in notes_of(m))
    other = [name for name in _TOLD if name not in common and any(name in m for m in manifests)]
    if other:
        notes[f"The runs differ in {', '.join(other)}: see their manifests."] = None
    return {
        **common,
        **({"machine": "; ".join(machines)} if machines else {}),
        "endpoints": list(entries.values()),
        "notes": list(notes),
        "runs": dict(zip(names, manifests, strict=True)),
    }


# ---------------------------------------------------------------- tables


def _facts(frame: Any, without_times: Collection[str]) -> dict[str, Facts]:
    measures, levels = tables.measure_table(frame), tables.level_table(frame)
    kinds, costs = tables.count_kinds(frame), tables.cost_table(frame)
    costs = {k: cost.untimed() if k[0] in without_times else cost for k, cost in costs.items()}
    compared, completion = tables.comparisons(frame), tables.completion_table(frame)
    models = frame.groupby("endpoint")["model"].unique()

    def own(table: Mapping[Arm, Any], endpoint: str) -> dict[Arm, Any]:
        return {key: value for key, value in table.items() if key[0] == endpoint}

    return {
        endpoint: Facts(
            endpoint,
            tuple(sorted(map(str, models[endpoint]))),
            own(measures, endpoint),
            own(levels, endpoint),
            own(kinds, endpoint),
            own(costs, endpoint),
            tuple(c for c in compared if c.endpoint == endpoint),
            completion[endpoint],
        )
        for endpoint in dict.fromkeys(key[0] for key in measures)
    }


RIGHT_MOVE: Mapping[str, Measure] = {
    level: Measure(
        f"{level}_right",
        mark("right first move"),
        *(f"{level}_right", f"{level}_first", "read", True),
        "",
    )
    for level in LEVELS
}
"""The share of right first moves at each level, as a measure."""
_COMPARED = (*(m for m in MEASURES if m.name in PLANNED), *RIGHT_MOVE.values())


def compare_endpoints(frame: Any) -> Iterator[Between]:
    """Compare each way on different endpoints, over the units that both have."""
    table = tables.arms(frame)
    found = [
        (way, first, second, measure)
        for way in dict.fromkeys(arm for _, arm in table)
        for first, second in _pairs([e for e, arm in table if arm == way])
        for measure in _COMPARED
    ]
    made = [tables.compare(table[b, w], table[a, w], m) for w, a, b, m in found]
    tested = [d.p for d in made if d.p is not None]
    adjusted = iter(stats.benjamini_hochberg(tested))
    for one, difference in zip(found, made, strict=True):
        yield Between(*one, difference, None if difference.p is None else next(adjusted))


def _pairs(endpoints: Sequence[str]) -> list[tuple[str, str]]:
    every = combinations(endpoints, 2)
    few = len(endpoints) <= _PAIRED
    return [pair for pair in every if few or pair[0] == endpoints[0]]
