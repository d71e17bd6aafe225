"""What the page's viewer shows: every episode in a line, and what was said in it.

One bounded JSON value: each text once, however many episodes share it; long ones cut with a note.
Where a run is too large for one page, episodes lose their messages, then their line: kept first are
some behind each number of the report, then failed ones, then a seeded choice of the others. Nothing
here is escaped for HTML: the page does that, and its script writes text only.
"""

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from bench.findings import name_way
from bench.report.examples import explain_turn, reply_text
from bench.report.text import cut, visible
from bench.tables import MEASURES, Line
from bench.texts import mark, say
from parsers import LEVELS

SPACE = 3_400_000
"""Bytes of JSON for a page's episodes, as they stand in the page."""
LONGEST = 12_000
"""Characters of one text."""
ROWS, LEAST = 6_000, 500
"""Episodes that have a line: at most, and even if the lines then take over half of the space."""
TRIED = 1_000
"""Episodes whose messages are taken as long as there is space."""
EACH = 5
"""Episodes behind each number of a way that come before all others."""
_SEED = 0
COLUMNS = (
    *("endpoint", "way", "task", "category", "lang", "variant", "trial", "stop", "success"),
    *("counts", "turns", "score"),
)
"""What an episode's line holds; counts and score are places in the tables of the same name."""
_KINDS = {
    "first": (mark("first attempt unreadable: {kind}"), "first_failures", "first_attempts"),
    "later": (mark("reply to a correction unreadable: {kind}"), "corrected_failures", "corrected"),
    "repair": (mark("repaired: {kind}"), "repairs", "replies_read"),
}
_LOST = mark("the endpoint failed: {kind}")
_PICK = mark("wanted {wanted}, picked {picked}")
_LEVEL = {
    "unreadable": (mark("first reply unreadable at {level}"), "unreadable", "first"),
    "right": (mark("right first move at {level}"), "right", "first"),
    "failed": (mark("first attempts unreadable at {level}"), "failed", "attempts"),
}
_COUNTED = tuple(
    dict.fromkeys(
        [(m.scope, name) for m in MEASURES for name in (m.top, m.below)]
        + [
            ("read", f"{at}_{name}")
            for at in LEVELS
            for _, *pair in _LEVEL.values()
            for name in pair
        ]
    )
)
"""Counts that numbers of the report are made of, each with the flag of the rows that it is over."""
_LISTED = (*(column for _, column, _ in _KINDS.values()), "endpoint_failures", "pairs")
KEPT = mark("whole in every way")

Counts = dict[str, tuple[int, int]]
"""By name: how often an episode has something, and how often it could."""


def gather(lines: Sequence[Line], frame: Any, *, space: int = SPACE) -> dict[str, Any]:
    """Return the viewer's value for `tables.episode_table` and the lines it was made of."""
    order = _order(frame)[:ROWS]
    rows = dict(zip(order, frame.iloc[order].to_dict("records"), strict=True))
    store = _Store()
    made = _list(rows, lines, store, space // 2)
    whole = _fill(((made[n], rows[n]["line"]) for n in list(made)[:TRIED]), lines, store, space)
    return {
        "columns": COLUMNS,
        "episodes": [made[place] for place in sorted(made)],
        "texts": store.texts,
        "counts": store.counts,
        "names": store.names,
        "labels": store.labels,
        "total": len(frame),
        "whole": whole,
    }


def _list(
    rows: Mapping[int, Any], lines: Sequence[Line], store: "_Store", space: int
) -> dict[int, list[Any]]:
    """Give episodes their line, in the order given, while there is space; `LEAST` in any case."""
    made: dict[int, list[Any]] = {}
    for place, row in rows.items():
        if store.size > space and len(made) >= LEAST:
            break
        made[place] = _episode(row, lines[row["line"]], store)
        store.size += _size(made[place])
    return made


def _order(frame: Any) -> list[int]:
    """Return the table's rows, the ones to keep first: a few behind each number, then failures.

    Among equals the choice is at random with a fixed seed.
    """
    order = list(range(len(frame)))
    random.Random(_SEED).shuffle(order)  # noqa: S311 (a repeatable choice, no secret)
    rows = frame.iloc[order]
    few = [list(islice(found, EACH)) for found in _behind_numbers(rows)]
    first = [found[turn] for turn in range(EACH) for found in few if turn < len(found)]
    failed = (rows["success"] == 0) | (rows["first_failed"] > 0)
    return list(dict.fromkeys([*first, *rows.index[failed], *order]))


def _behind_numbers(rows: Any) -> Iterator[Iterable[int]]:
    """Yield for each way the rows behind each of its numbers, in the order given."""
    for _, own in rows.groupby(["endpoint", "arm"], sort=True):
        for column in ("stop", "category", "lang"):
            yield from own.groupby(column).groups.values()
        for scope, name in _COUNTED:
            yield own.index[own[scope] & (own[name] > 0)]
        for column in _LISTED:
            found: dict[Any, list[int]] = {}
            for place, kinds in zip(own.index, own[column], strict=True):
                for kind in kinds:
                    found.setdefault(kind, []).append(place)
            yield from (found[kind] for kind in sorted(found))


class _Store:
    """Tables of texts and counts, each value once."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes that it takes in the page, with what is added from outside."""
        self.texts: list[str] = []
        self.counts: list[list[list[int]]] = []
        self.names: list[str] = []
        self.labels: list[str] = []
        self._places: dict[Any, int] = {}

    def place(self, text: str) -> int:
        """Return the place of a text, made fit to be shown and bounded."""
        shown = cut(visible(text), LONGEST)
        place = self._places.setdefault(("text", shown), len(self.texts))
        if place == len(self.texts):
            self.texts.append(shown)
            self.size += _size(shown)
        return place

    def forget(self, known: int) -> None:
        """Take back the texts behind the first so many."""
        for text in self.texts[known:]:
            del self._places["text", text]
            self.size -= _size(text)
        del self.texts[known:]

    def place_counts(self, counts: Counts) -> int:
        """Return the place of an episode's counts, many of which are alike."""
        value = [[self._name(name), *pair] for name, pair in sorted(counts.items()) if any(pair)]
        key = ("counts", json.dumps(value))
        place = self._places.setdefault(key, len(self.counts))
        if place == len(self.counts):
            self.counts.append(value)
            self.size += _size(value)
        return place

    def _name(self, name: str) -> int:
        place = self._places.setdefault(("name", name), len(self.names))
        if place == len(self.names):
            self.names.append(visible(name))
            self.labels.append(label_of(name))
            self.size += _size([self.names[-1], self.labels[-1]])
        return place


def _dumped(value: Any) -> str:
    """Write a value as the page will hold it, `<` and `>` as escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


def _size(value: Any) -> int:
    """Return the bytes that a value takes there, with its comma."""
    return len(_dumped(value).encode()) + 1


_ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def write_json(value: Any) -> str:
    """Write a value for a script element of a page: nothing in it can end the element."""
    return _dumped(value)


# ---------------------------------------------------------------- a line


def _episode(row: Any, line: Line, store: _Store) -> list[Any]:
    shown = [row["endpoint"], name_way(row["arm"]), row["task_id"], row["category"], row["lang"]]
    return [
        *(cut(visible(str(item)), 200) for item in (*shown, row["variant"])),
        *(int(row["trial"]), str(row["stop"]), int(row["success"])),
        store.place_counts(counts_of(row)),
        0,
        store.place(_told_score(line.get("score") or {})),
    ]


def counts_of(row: Any) -> Counts:
    """Return what an episode counts for: measures, levels, kinds of failure, repairs, picks.

    The sums over a way's episodes are the numbers of the report's tables.
    """
    counts: Counts = {"kept": (int(row["kept"]), 1)}
    for m in MEASURES:
        if row[m.scope]:
            counts[m.name] = (int(row[m.top]), int(row[m.below]))
    if row["read"]:
        for level in LEVELS:
            for name, (_, top, below) in _LEVEL.items():
                pair = (int(row[f"{level}_{top}"]), int(row[f"{level}_{below}"]))
                counts[f"{level}:{name}"] = pair
        for name, (_, column, below) in _KINDS.items():
            for kind, n in row[column].items():
                counts[f"{name}:{kind}"] = (int(n), int(row[below]))
    for kind, n in row["endpoint_failures"].items():
        counts[f"lost:{kind}"] = (int(n), 0)
    for pair in row["pairs"] if row["kept"] else ():
        name = f"pick:{pair[0]}:{pair[1]}"
        counts[name] = (counts.get(name, (0, 0))[0] + 1, 0)
    return counts


def label_of(name: str) -> str:
    """Name a count for people."""
    head, _, rest = name.partition(":")
    for measure in MEASURES:
        if measure.name == name:
            return say(measure.label)
    if head in _KINDS:
        return say(_KINDS[head][0], kind=cut(visible(rest), 80))
    if head in LEVELS and rest in _LEVEL:
        return say(_LEVEL[rest][0], level=head)
    if head == "lost":
        return say(_LOST, kind=cut(visible(rest), 80))
    if head == "pick":
        wanted, _, picked = rest.partition(":")
        return say(_PICK, wanted=cut(visible(wanted), 80), picked=cut(visible(picked), 80))
    return say(KEPT)


def _told_score(score: Mapping[str, Any]) -> str:
    """Write the counts of a score that are not 0."""
    plain = {k: v for k, v in score.items() if v not in (0, None, {}, []) and k != "levels"}
    return ", ".join(f"{k} {json.dumps(v, ensure_ascii=False)}" for k, v in plain.items())


# ---------------------------------------------------------------- what was said


def _fill(
    wanted: Iterable[tuple[list[Any], int]], lines: Sequence[Line], store: _Store, space: int
) -> int:
    """Put the turns into episodes' lines while there is space; return how many have them."""
    place, whole = COLUMNS.index("turns"), 0
    for made, number in wanted:
        known = len(store.texts)
        turns = [_turn(turn, store) for turn in lines[number].get("turns") or ()]
        size = _size(turns)
        if store.size + size > space:
            store.forget(known)
            continue
        store.size += size
        made[place] = turns
        whole += 1
    return whole


def _turn(turn: Mapping[str, Any], store: _Store) -> dict[str, Any]:
    reply = turn.get("reply") or {}
    text, finish = reply_text(reply)
    found: dict[str, Any] = {
        "sent": [[str(m.get("role", ""))[:40], store.place(_said(m))] for m in _messages(turn)],
        "reply": store.place(text),
        "facts": store.place(", ".join(_facts(reply, finish))),
        "read": store.place(explain_turn(turn, text)),
    }
    results = [_result(result, store) for result in turn.get("results") or ()]
    return {**found, "results": results} if results else found


def _messages(turn: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (m for m in turn.get("sent") or () if isinstance(m, Mapping))


def _said(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    if content is not None and not isinstance(content, str):
        text = json.dumps(content, ensure_ascii=False)
    if calls := message.get("tool_calls"):
        text += ("\n" if text else "") + f"[tool_calls]\n{_indented(calls)}"
    return text


def _indented(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _facts(reply: Mapping[str, Any], finish: str | None) -> Iterator[str]:
    usage = reply.get("usage") or {}
    yield say("status {status}", status=reply.get("status", 0))
    yield say("{seconds} s", seconds=f"{float(reply.get('seconds') or 0):.2f}")
    if usage.get("prompt") is not None:
        told = mark("{prompt} + {completion} tokens")
        yield say(told, prompt=usage["prompt"], completion=usage.get("completion", "?"))
    if finish:
        yield say("finish reason {finish}", finish=finish)


def _result(result: Mapping[str, Any], store: _Store) -> list[Any]:
    called = {"tool": result.get("tool"), "arguments": result.get("arguments")}
    text = f"{called['tool']} {json.dumps(called['arguments'], ensure_ascii=False)}"
    return [
        store.place(text),
        store.place(str(result.get("content", ""))),
        int(bool(result.get("error"))),
    ]
