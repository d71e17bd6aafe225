"""The sections of the report of `lint --ask`: how often each tool's own question was found.

Pure functions of the lines of a run. Answers and descriptions are hostile: bounded where they are
kept, escaped where they are written.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench import stats
from bench.findings import percent
from bench.report import Bullets, Cell, Grid, Prose, Quote, Section
from bench.report.cells import of
from bench.texts import mark, say

Line = Mapping[str, Any]
_READ = ("right", "wrong", "unreadable")
_EXAMPLES = 5


def report_ask(lines: Sequence[Line]) -> tuple[Section, ...]:
    """Lay out what was found: the answer first, then tool by tool."""
    endpoints = list(dict.fromkeys(str(line["endpoint"]) for line in lines))
    found = {name: [line for line in lines if line["endpoint"] == name] for name in endpoints}
    said = tuple(text for name, own in found.items() for text in _answer(name, own))
    grids = tuple(_tool_grid(name, own) for name, own in found.items())
    places = tuple(_place_grid(name, own) for name, own in found.items())
    quotes, method = _examples(lines), tuple(map(say, _METHOD))
    return (
        Section("answer", say("Answer"), say("The answer"), (Bullets(said),)),
        Section("tools", say("Tool by tool"), say("Tool by tool"), grids),
        Section("places", say("Places"), say("Which place in the list was named"), places),
        Section("examples", say("Examples"), say("Answers that name another question"), quotes),
        Section("method", say("Method"), say("How it is counted"), (Bullets(method),)),
    )


_METHOD = (
    mark(
        "A model is shown one tool's description and parameters, without its name, and six questions: "
        "one that the tool is for, five that it is not for, some of them near misses."
    ),
    mark(
        "The questions are put in several orders, so that the right one stands in each place: a model "
        "that always names the same place is right once in six."
    ),
    mark(
        "Right: the number of the tool's own question. An answer without such a number counts as not "
        "right."
    ),
    mark("Arguments are judged only where the question is right, as in a task's gold."),
    mark(
        "The interval is over tools: orders and languages are nested in a tool. A description that "
        "fails here may still work beside others, and the other way round."
    ),
)


def _answer(endpoint: str, lines: Sequence[Line]) -> Iterator[str]:
    read = [line for line in lines if line["outcome"] in _READ]
    if not read:
        yield say("{where}: no answer; nothing is known.", where=endpoint)
        return
    tools = _by_tool(read)
    right, judged, good = (sum(column) for column in zip(*map(_count, tools.values()), strict=True))
    interval = stats.rate_interval(
        [_count(own)[0] for own in tools.values()], [len(own) for own in tools.values()]
    )
    yield say(
        "{where} names the tool's own question in {right} of {n} answers ({share}; 95 % interval over "
        "{tools} tools {low} to {high} %); by chance it would be one in six. Arguments acceptable: "
        "{arguments}.",
        where=endpoint,
        right=right,
        n=len(read),
        share=percent(right / len(read)),
        tools=len(tools),
        low=f"{interval.low * 100:.1f}",
        high=f"{interval.high * 100:.1f}",
        arguments=_of(good, judged),
    )
    for name, own in tools.items():
        yield _tool_words(endpoint, name, own)


def _by_tool(lines: Sequence[Line]) -> dict[str, list[Line]]:
    tools: dict[str, list[Line]] = {}
    for line in lines:
        tools.setdefault(str(line["tool"]), []).append(line)
    return tools


def _count(lines: Sequence[Line]) -> tuple[int, int, int]:
    """Return the right answers, those whose arguments were judged, and the acceptable ones."""
    right = [line for line in lines if line["outcome"] == "right"]
    judged = [line for line in right if line.get("arguments") is not None]
    return len(right), len(judged), sum(line["arguments"] for line in judged)


def _of(top: int, below: int) -> str:
    if not below:
        return of(0, 0)
    text = mark("{top} of {below} ({share})")
    return say(text, top=top, below=below, share=percent(top / below))


def _tool_words(endpoint: str, name: str, lines: Sequence[Line]) -> str:
    right, judged, good = _count(lines)
    told = {
        "where": endpoint,
        "tool": name,
        "right": _of(right, len(lines)),
        "arguments": _of(good, judged),
    }
    taken = _taken(lines).most_common(1)
    if not taken:
        return say("{where}, {tool}: right {right}; arguments {arguments}.", **told)
    question, times = taken[0]
    return say(
        "{where}, {tool}: right {right}; arguments {arguments}; {times} times taken for "
        '"{question}": say that it is not for this.',
        **told,
        times=times,
        question=question[:120],
    )


def _taken(lines: Sequence[Line]) -> Counter[str]:
    return Counter(str(line.get("question")) for line in lines if line["outcome"] == "wrong")


def _tool_grid(endpoint: str, lines: Sequence[Line]) -> Grid:
    langs = sorted({str(line["lang"]) for line in lines})
    rows = []
    for name, own in _by_tool(lines).items():
        by_lang = [[line for line in own if line["lang"] == lang] for lang in langs]
        taken = "; ".join(f"{text[:160]} ({n})" for text, n in _taken(own).most_common(2))
        missing = sum(line["outcome"] not in _READ for line in own)
        cells = [_share_cell(part) for part in by_lang]
        rows.append(
            (Cell(name), *cells, _argument_cell(own), Cell(taken or "–"), Cell(str(missing)))
        )
    named = [_LANGS.get(lang, lang) for lang in langs]
    header = (
        *(say("tool"), *(say("right, {lang}", lang=say(lang)) for lang in named)),
        *(say("arguments acceptable"), say("taken for"), say("no answer")),
    )
    return Grid(endpoint, header, tuple(rows))


_LANGS = {"en": mark("English"), "zh": mark("Chinese")}


def _share_cell(lines: Sequence[Line]) -> Cell:
    read = [line for line in lines if line["outcome"] in _READ]
    if not read:
        return Cell("–", of(0, 0))
    right = sum(line["outcome"] == "right" for line in read)
    unreadable = sum(line["outcome"] == "unreadable" for line in read)
    note = of(right, len(read))
    if unreadable:
        note += say("; {n} unreadable", n=unreadable)
    return Cell(percent(right / len(read)), note, right / len(read))


def _argument_cell(lines: Sequence[Line]) -> Cell:
    _, judged, good = _count(lines)
    return Cell(percent(good / judged), of(good, judged), good / judged) if judged else Cell("–")


def _place_grid(endpoint: str, lines: Sequence[Line]) -> Grid:
    named = Counter(line.get("picked") for line in lines if line["outcome"] in ("right", "wrong"))
    stood = Counter(line["place"] for line in lines if line["outcome"] in ("right", "wrong"))
    rows = tuple(
        (
            Cell(str(place)),
            Cell(str(named[place]), say("right one there {n} times", n=stood[place])),
        )
        for place in range(1, 7)
    )
    caption = say("{where}: how often each place was named", where=endpoint)
    return Grid(caption, (say("place"), say("named")), rows)


def _examples(lines: Sequence[Line]) -> tuple[Prose | Quote, ...]:
    wrong = [line for line in lines if line["outcome"] in ("wrong", "unreadable")]
    quotes = tuple(
        Quote(
            f"{line['tool']}, {line['lang']}, {line['endpoint']}",
            say("Named: {question}", question=line.get("question") or say("none")),
            str(line.get("said") or say("(nothing)")),
        )
        for line in wrong[:: max(1, len(wrong) // _EXAMPLES)][:_EXAMPLES]
    )
    return quotes or (Prose(say("None.")),)
