"""Turn an episode into counts: what was asked for, what was done, and what it cost.

Pure functions of a task, an episode and the tools: no network, no files, no rates. Rates are
divided in `bench.tables`, from these counts. "Did not call" and "called, unreadably" never share
a branch, and an endpoint's failure is never charged to the model.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import regex

from bench.types import (
    AnswerPart,
    Driver,
    Episode,
    Fields,
    Gold,
    Spelling,
    Task,
    ToolResult,
    Turn,
    WantedCall,
    Wording,
)
from parsers import LEVELS, Call, Reading, Tool

NONE = "none"
"""What a confusion matrix says where no tool was wanted, or none was picked."""

Pair = tuple[str, str]
"""(wanted tool or `none`, picked tool or `none`)."""

_CALL_KINDS = frozenset(
    {
        "out_of_channel_call",
        "server_rejected_output",
        "missing_tool_name",
        "unknown_tool",
        "ambiguous_calls",
        "bad_arguments_syntax",
        "bad_arguments_shape",
        "schema_violation",
    }
)


@dataclass(frozen=True, slots=True)
class CallCounts:
    """The calls of one episode, matched to the ones that its gold wants."""

    pairs: tuple[Pair, ...] = ()
    """Every readable call once, as (wanted, picked); then (wanted, `none`) for each never made."""
    wanted: int = 0
    missed: int = 0
    """Wanted calls whose tool was never called for them."""
    wrong: int = 0
    """Readable calls to a tool that the gold does not allow at that point."""
    right_tool: int = 0
    acceptable: int = 0
    """Calls to a right tool whose arguments are acceptable too."""
    forbidden: int = 0


@dataclass(frozen=True, slots=True)
class Verdict(CallCounts):
    """What a judge finds in the calls and the answer of one episode."""

    success: bool = False
    """Answer right, every wanted call made acceptably and in order, nothing forbidden."""
    answer_right: bool = False


@dataclass(frozen=True, slots=True)
class LevelScore:
    """An episode's stored replies, read at one level."""

    first: int = 0
    """1 where the episode's first reply arrived: the denominator of the next three."""
    unreadable: int = 0
    kind: str | None = None
    """Why the first reply is unreadable, or None."""
    right: int = 0
    """1 where it is a right move: right tools with acceptable arguments, or an answer if no tool
    is wanted."""
    attempts: int = 0
    """First attempts (replies that answer no correction) that arrived."""
    failed: int = 0
    """Of these, unreadable."""


@dataclass(frozen=True, slots=True)
class Score(CallCounts):
    """Counts of one episode. No rates; `dataclasses.asdict` of it is JSON-able."""

    success: int = 0
    answered: int = 0
    answer_right: int = 0
    replies: int = 0
    """Replies that arrived: neither an endpoint failure nor outside the recording."""
    first_attempts: int = 0
    first_failures: Mapping[str, int] = field(default_factory=dict)
    """First attempts that are emission failures, by kind."""
    corrected: int = 0
    """Replies that answer a correction."""
    recovered: int = 0
    """Of these, the ones that are a call or an answer."""
    corrected_failures: Mapping[str, int] = field(default_factory=dict)
    read: int = 0
    """Replies read as a call or an answer: the denominator of the repair rate."""
    repaired: int = 0
    """Of these, the ones that needed a repair."""
    repairs: Mapping[str, int] = field(default_factory=dict)
    """Replies by the repair that they needed; one reply may need several."""
    refused: int = 0
    calls: int = 0
    """Calls made or tried: readable ones, and each that was tried unreadably."""
    readable: int = 0
    invented: int = 0
    """Calls to tools that were not offered."""
    tool_failed: int = 0
    """Readable calls whose tool reported an error."""
    no_tool: int = 0
    """1 where the task needs no tool: the denominator of the next two."""
    needless: int = 0
    """1 where a tool was called all the same, readably."""
    needless_attempt: int = 0
    """1 where a call was only tried, unreadably."""
    levels: Mapping[str, LevelScore] = field(default_factory=dict)
    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    first_prompt: int | None = None
    """Prompt tokens of the first request: question, tools and what the driver adds."""
    unmetered: int = 0
    """Replies whose usage the endpoint did not tell: where it is not 0, tokens are lower bounds."""
    seconds: float = 0.0
    """Of all requests, waiting between tries left out."""
    first_token: float | None = None
    """Seconds to the first token of the first reply; None unless streamed."""
    endpoint_failures: Mapping[str, int] = field(default_factory=dict)
    retries: int = 0
    context_overflow: int = 0
    left_recording: int = 0


def normal(text: str) -> str:
    """Return a text as it is compared: NFKC, no case, no surrounding white space."""
    return unicodedata.normalize("NFKC", text).casefold().strip()


def same(left: Any, right: Any) -> bool:
    """Tell whether two JSON values are the same argument.

    Strings after `normal`, numbers by value (1 is 1.0, True is not 1), lists in order, objects by
    key. On the right, at any depth, a `Wording`, a `Spelling` and `Fields` are the same as all that they
    take.
    """
    if type(left) is str and type(right) is str:  # the usual case, without all that follows
        return normal(left) == normal(right)
    if isinstance(right, Wording):
        return isinstance(left, str) and _fits(left, right)
    if isinstance(right, Spelling):
        return isinstance(left, str) and _is_spelled(left, right.text)
    if isinstance(right, Fields):
        return isinstance(left, Mapping) and _is_filled(left, right)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return _near(left, right)
    if isinstance(left, str) and isinstance(right, str):
        return normal(left) == normal(right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left is None and right is None


def _fits(text: str, wording: Wording) -> bool:
    return all(any(says_text(text, form) for form in group) for group in wording.groups)


_UNSPELLED = str.maketrans({**dict.fromkeys(" ,./-_*^"), "'": '"'})


def _is_spelled(text: str, wanted: str) -> bool:
    left, right = _figure_of(text), _figure_of(wanted)
    if left is not None and right is not None:
        return left == right
    return normal(text).translate(_UNSPELLED) == normal(wanted).translate(_UNSPELLED)


def _figure_of(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_filled(given: Mapping[str, Any], wanted: Fields) -> bool:
    """Tell whether an object has an acceptable value for each key that may not be left out."""
    forms = wanted.forms
    if not given.keys() <= forms.keys() or not forms.keys() - given.keys() <= wanted.optional:
        return False
    return all(any(same(value, form) for form in forms[key]) for key, value in given.items())


def _near(left: float, right: float, tolerance: float = 0.0) -> bool:
    try:
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=tolerance)
    except OverflowError:  # an int that no float can hold
        return left == right


_NUMBER = regex.compile(
    r"""(?P<sign>(?<![\p{L}\p{N}_.)\]])[-\u2212](?=\d)|\bminus\s|零下|负)?
        (?P<digits>\d{1,3}(?:,\d{3})++(?!\d)(?:\.\d++)?|\d++(?:\.\d++)?|(?<![\d.])\.\d++)
        (?P<power>e[-+]?\d{1,3}(?![\p{L}\d]))?
        \s?(?P<unit>%|万亿|亿|万|千(?![米克瓦卡赫帕焦字])|million\b|billion\b|thousand\b)?""",
    regex.VERBOSE | regex.IGNORECASE,
)
_SCALE = {
    "%": 0.01,
    "千": 1e3,
    "万": 1e4,
    "亿": 1e8,
    "万亿": 1e12,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
}
_LIST_MARK = regex.compile(r"(?m)^[ \t>*#-]*\(?\d{1,2}(?:[.):、](?!\d)|\))")
_SPACED = regex.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_COMMA = regex.compile(r"(?<![０-９])，|，(?![０-９])")
_TEXT_LIMIT = 200_000


def numbers(text: str) -> tuple[float, ...]:
    """Return every number that a text says, in order.

    Thousands separators, fullwidth digits, a minus sign or word, and 千, 万, 亿, thousand, million,
    billion are understood. A percentage stands twice, as it is written and as its share. Digits
    that are part of a longer number are no number: 7.16 is not in 17.165.
    """
    return tuple(value for found in _figures(text) for value in found.values)


@dataclass(frozen=True, slots=True)
class _Figure:
    values: tuple[float, ...]
    decimals: int


def _figures(text: str) -> list[_Figure]:
    plain = _COMMA.sub(", ", text[:_TEXT_LIMIT]).replace("{,}", ",").replace("\\,", ",")
    plain = unicodedata.normalize("NFKC", _SPACED.sub("", plain))
    return [_figure(match) for match in _NUMBER.finditer(plain)]


def _figure(match: "regex.Match[str]") -> _Figure:
    digits = match["digits"].replace(",", "")
    value = float(digits[:400] + (match["power"] or ""))
    value = -value if match["sign"] else value
    scale = _SCALE.get((match["unit"] or "").casefold())
    values: tuple[float, ...] = (value,) if scale is None else (value * scale,)
    if match["unit"] == "%":
        values = (value, value * 0.01)
    return _Figure(values, len(digits.partition(".")[2]))


def says_number(text: str, number: float, tolerance: float = 0.0) -> bool:
    """Tell whether a text says a number, within a tolerance."""
    return any(_near(found, number, tolerance + 1e-12) for found in numbers(text))


def says_text(text: str, wanted: str) -> bool:
    """Tell whether a text contains another; a digit at its edge must be the number's edge."""
    needle = normal(wanted)
    if not needle:
        return False
    before = r"(?<![\d])(?<!\d[.,])" if needle[0].isdigit() else ""
    after = r"(?!\d|[.,]\d)" if needle[-1].isdigit() else ""
    return regex.search(before + regex.escape(needle) + after, normal(text)) is not None


def _says(text: str, part: AnswerPart) -> bool:
    if part.number is not None and says_number(text, part.number, part.tolerance):
        return True
    return any(says_text(text, wanted) for wanted in part.any)


_ENGLISH = "zero one two three four five six seven eight nine ten eleven twelve"
_WORDS = {
    **{word: float(value) for value, word in enumerate(_ENGLISH.split())},
    **{sign: float(value) for value, sign in enumerate("零一二三四五六七八九十")},
    "两": 2.0,
}


def _known(texts: Iterable[str]) -> tuple[float, ...]:
    """Return the figures that were given, number words too."""
    found: list[float] = []
    for text in texts:
        found.extend(numbers(text))
        lower = normal(text[:_TEXT_LIMIT])
        found.extend(value for word, value in _WORDS.items() if word in lower)
    return tuple(found)


def invented_figures(answer: str, given: Iterable[str]) -> tuple[float, ...]:
    """Return the figures of an answer that stand in none of the given texts.

    A figure may be rounded; the number of a list item is no figure.
    """
    known = _known(given)
    text = _LIST_MARK.sub(" ", unicodedata.normalize("NFKC", _COMMA.sub(", ", answer)))
    return tuple(f.values[0] for f in _figures(text) if not _is_given(f, known))


def _is_given(figure: _Figure, known: Sequence[float]) -> bool:
    slack = 0.5 * 10.0**-figure.decimals * (1 + 1e-9) if figure.decimals else 1e-9
    return any(abs(abs(v) - abs(k)) <= slack for v in figure.values for k in known)


def acceptable(wanted: WantedCall, call: Call, tools: Sequence[Tool] = ()) -> bool:
    """Tell whether a call is the wanted one: its tool, and every parameter acceptable."""
    if call.name != wanted.tool or call.arguments is None:
        return False
    if wanted.any_arguments:
        return True
    parameters = _parameters(wanted.tool, tools)
    names = wanted.arguments.keys() | call.arguments.keys()
    return all(_acceptable(wanted, call.arguments, name, parameters.get(name)) for name in names)


def _parameters(name: str, tools: Sequence[Tool]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(
        (tool.parameters.get("properties") or {} for tool in tools if tool.name == name), {}
    )
    return found


def _acceptable(wanted: WantedCall, arguments: Mapping[str, Any], name: str, schema: Any) -> bool:
    values = wanted.arguments.get(name, ())
    may_lack = name in wanted.optional or name not in wanted.arguments
    has_default = isinstance(schema, Mapping) and "default" in schema
    if name in arguments:
        given = arguments[name]
        if any(_same_filled(given, value, schema) for value in values):
            return True
        return may_lack and has_default and same(given, schema["default"])
    return may_lack or (has_default and any(same(schema["default"], v) for v in values))


def _same_filled(left: Any, right: Any, schema: Any) -> bool:
    if same(left, right):
        return True
    nested = isinstance(left, (dict, list, tuple))  # nothing can be left out of anything else
    return nested and same(_filled(left, schema), _filled(right, schema))


def _filled(value: Any, schema: Any, depth: int = 0) -> Any:
    """Return a value with the defaults of its schema where inner keys are left out."""
    if not isinstance(schema, Mapping) or depth > 32:
        return value
    if isinstance(value, (list, tuple)):
        return [_filled(item, schema.get("items"), depth + 1) for item in value]
    if not isinstance(value, Mapping):
        return value
    inner = schema.get("properties") or {}
    given = {key: _filled(item, inner.get(key), depth + 1) for key, item in value.items()}
    defaults = {
        key: part["default"]
        for key, part in inner.items()
        if isinstance(part, Mapping) and "default" in part
    }
    return {**defaults, **given}


Fits = Callable[[WantedCall, Call], bool]


def _assign(
    wanted: Sequence[WantedCall], calls: Sequence[Call], fits: Fits, taken: Mapping[int, int]
) -> dict[int, int]:
    """Match as many free calls to free wanted ones as fit, earlier calls first.

    `taken` and the result map a wanted call's index to a call's.
    """
    owner: dict[int, int] = {}
    done = set(taken.values())
    rows = [
        [
            w
            for w in range(len(wanted))
            if w not in taken and c not in done and fits(wanted[w], call)
        ]
        for c, call in enumerate(calls)
    ]

    def place(call: int, tried: set[int]) -> bool:
        for slot in rows[call]:
            if slot in tried:
                continue
            tried.add(slot)
            if slot not in owner or place(owner[slot], tried):
                owner[slot] = call
                return True
        return False

    for call in range(len(calls)):
        if len(owner) == len(wanted):
            break
        place(call, set())
    return {**taken, **owner}


def _in_order(wanted: Sequence[WantedCall], calls: Sequence[Call], fits: Fits) -> bool:
    """Tell whether the wanted calls stand among the calls in their order."""
    rest = iter(calls)
    return all(any(fits(want, call) for call in rest) for want in wanted)


def _excused(index: int, calls: Sequence[Call], errors: Sequence[bool], tools: set[str]) -> bool:
    """Tell whether an extra call is a further try at a right tool, after or with an error."""
    name = calls[index].name
    return name in tools and any(errors[i] for i in range(index + 1) if calls[i].name == name)


@dataclass(frozen=True, slots=True)
class _Matched:
    pairs: tuple[Pair, ...]
    exact: bool
    missed: int
    right_tool: int
    acceptable: int


def _match(
    gold: Gold, calls: Sequence[Call], errors: Sequence[bool], tools: Sequence[Tool]
) -> _Matched:
    """Match calls to wanted ones: by tool and arguments, by tool, in order, then with `none`."""

    def fits(want: WantedCall, call: Call) -> bool:
        return acceptable(want, call, tools)

    exact = _assign(gold.calls, calls, fits, {})
    by_tool = _assign(gold.calls, calls, lambda want, call: want.tool == call.name, exact)
    right = set(by_tool.values())
    names = {want.tool for want in gold.calls}
    for index, call in enumerate(calls):
        also = any(fits(want, call) for want in gold.also)
        if index not in right and (also or _excused(index, calls, errors, names)):
            right.add(index)
    open_calls = iter([want.tool for i, want in enumerate(gold.calls) if i not in by_tool])
    pairs = [
        (call.name if index in right else next(open_calls, NONE), call.name)
        for index, call in enumerate(calls)
    ]
    pairs.extend((tool, NONE) for tool in open_calls)
    everything = (*gold.calls, *gold.also)
    good = sum(any(fits(want, calls[index]) for want in everything) for index in right)
    complete = len(exact) == len(gold.calls)
    ordered = not gold.ordered or _in_order(gold.calls, calls, fits)
    missed = len(gold.calls) - len(by_tool)
    return _Matched(tuple(pairs), complete and ordered, missed, len(right), good)


def answer_is_right(
    task: Task, final: str | None, results: Sequence[ToolResult], tools: Sequence[Tool] = ()
) -> bool:
    """Tell whether a final answer says what the gold asks for and nothing it must not."""
    if final is None or not final.strip():
        return False
    gold = task.gold
    if not all(_says(final, part) for part in gold.contains):
        return False
    if any(says_text(final, text) for text in gold.excludes):
        return False
    return not gold.unsolvable or not invented_figures(final, _given(task, results, tools))


def _given(task: Task, results: Sequence[ToolResult], tools: Sequence[Tool]) -> list[str]:
    told = [f"{tool.description} {dict(tool.parameters)}" for tool in tools]
    return [task.question, *(result.content for result in results), *told]


def _abstained(gold: Gold, calls: Sequence[Call], tries: Sequence[str | None], good: int) -> bool:
    """Tell whether no call was made, or tried, that the gold wants not to be made."""
    if any(call.name in gold.forbidden for call in calls):
        return False
    if gold.unsolvable:
        return not any(name is None or name in gold.forbidden for name in tries)
    return bool(gold.calls) or (not tries and good == len(calls))


def judge(
    task: Task,
    calls: Sequence[Call],
    results: Sequence[ToolResult],
    final: str | None,
    *,
    tools: Sequence[Tool] = (),
    tries: Sequence[str | None] = (),
    errors: Sequence[bool] | None = None,
) -> Verdict:
    """Judge the readable calls and the final answer of one episode.

    `tools` are the offered ones, for their schemas' defaults. `tries` names the calls that could
    not be read (None: no name to be seen): such a try is never a correct abstention. `errors`
    says for each call whether its tool failed; without it, `results` say so.
    """
    gold = task.gold
    found = _match(gold, calls, _errors(calls, results) if errors is None else errors, tools)
    answer = answer_is_right(task, final, results, tools)
    abstained = _abstained(gold, calls, tries, found.acceptable)
    return Verdict(
        success=answer and found.exact and abstained,
        answer_right=answer,
        pairs=found.pairs,
        wanted=len(gold.calls),
        missed=found.missed,
        wrong=len(calls) - found.right_tool,
        right_tool=found.right_tool,
        acceptable=found.acceptable,
        forbidden=sum(call.name in gold.forbidden for call in calls),
    )


def _errors(calls: Sequence[Call], results: Sequence[ToolResult]) -> list[bool]:
    """Join calls to results: by position if there are as many, else by id, else by what was run."""
    if len(calls) == len(results):
        return [result.error for result in results]
    failed = {result.call_id for result in results if result.error and result.call_id}
    loose = [result for result in results if result.error and not result.call_id]
    return [
        call.id in failed
        or any(r.tool == call.name and r.arguments == call.arguments for r in loose)
        for call in calls
    ]


def score(task: Task, episode: Episode, tools: Sequence[Tool], driver: Driver) -> Score:
    """Count everything that an episode says, at the level it was run and at all three levels.

    >>> import asyncio
    >>> from bench import ScriptedClient, load_tasks, load_tools, make_driver, score, solve
    >>> [task] = load_tasks(ids=["no_tool-01-en"])
    >>> toolbox, driver = load_tools(task.toolset), make_driver("native")
    >>> episode = asyncio.run(solve(task, toolbox, driver, ScriptedClient(["I am a model."])))
    >>> found = score(task, episode, toolbox.tools, driver)
    >>> found.answered, found.calls, found.needless
    (1, 0, 0)
    """
    turns = [turn for turn in episode.turns if turn.reading.outcome != "endpoint"]
    calls = [call for turn in turns for call in turn.reading.good_calls]
    results = [result for turn in turns for result in turn.results]
    errors = [error for turn in turns for error in _turn_errors(turn)]
    tries = _tries(turns, tools, driver)
    final = next((t.reading.final for t in reversed(turns) if t.reading.final is not None), None)
    final = final if episode.stop == "answered" else None
    verdict = judge(task, calls, results, final, tools=tools, tries=tries, errors=errors)
    no_tool = not task.gold.calls and not task.gold.unsolvable
    called = len(calls) > verdict.acceptable
    return Score(
        success=int(verdict.success),
        answered=int(final is not None),
        answer_right=int(verdict.answer_right),
        **_replies(turns),
        **_seen(turns, len(tries)),
        tool_failed=sum(errors),
        **{item.name: getattr(verdict, item.name) for item in fields(CallCounts)},
        no_tool=int(no_tool),
        needless=int(no_tool and called),
        needless_attempt=int(no_tool and not called and bool(tries)),
        levels=_levels(task.gold, turns, tools, driver),
        **_cost(episode.turns, turns),
        **_outside(episode),
    )


def _turn_errors(turn: Turn) -> list[bool]:
    calls = turn.reading.calls
    errors = _errors(calls, turn.results)
    if len(turn.results) == len(calls):
        return [error for call, error in zip(calls, errors, strict=True) if call.failure is None]
    return _errors(turn.reading.good_calls, turn.results)


def _tries(turns: Sequence[Turn], tools: Sequence[Tool], driver: Driver) -> list[str | None]:
    """Return the names of calls that were tried unreadably; None where none is to be seen."""
    tries: list[str | None] = []
    for turn in turns:
        reading = turn.reading
        tries.extend(call.name or None for call in reading.calls if call.failure)
        if reading.failure is None or reading.calls or reading.failure.kind not in _CALL_KINDS:
            continue
        rescued = driver.read(turn.reply, tools, "rescue").calls
        tries.extend([call.name or None for call in rescued] or [None])
    return tries


def _replies(turns: Sequence[Turn]) -> dict[str, Any]:
    first = [turn.reading for turn in turns if not turn.corrects]
    corrected = [turn.reading for turn in turns if turn.corrects]
    read = [turn.reading for turn in turns if turn.reading.outcome in ("call", "answer")]
    names = Counter(name for r in read for name in {repair.name for repair in r.repairs})
    return {
        "replies": len(turns),
        "first_attempts": len(first),
        "first_failures": _kinds(first),
        "corrected": len(corrected),
        "recovered": sum(reading.outcome in ("call", "answer") for reading in corrected),
        "corrected_failures": _kinds(corrected),
        "read": len(read),
        "repaired": sum(bool(reading.repairs) for reading in read),
        "repairs": dict(sorted(names.items())),
        "refused": sum(turn.reading.outcome == "refused" for turn in turns),
    }


def _kinds(readings: Iterable[Reading]) -> dict[str, int]:
    kinds = (r.failure.kind for r in readings if r.outcome == "malformed" and r.failure)
    return dict(sorted(Counter(kinds).items()))


def _seen(turns: Sequence[Turn], tried: int) -> dict[str, Any]:
    """Count calls: a reply may have tried one in a form that its reading can't list."""
    calls = [call for turn in turns for call in turn.reading.calls]
    bare = sum(
        turn.reading.failure is not None
        and turn.reading.failure.kind == "unknown_tool"
        and not turn.reading.calls
        for turn in turns
    )
    unknown = sum(
        call.failure is not None and call.failure.kind == "unknown_tool" for call in calls
    )
    readable = sum(call.failure is None for call in calls)
    return {"calls": readable + tried, "readable": readable, "invented": unknown + bare}


def _levels(
    gold: Gold, turns: Sequence[Turn], tools: Sequence[Tool], driver: Driver
) -> dict[str, LevelScore]:
    """Judge the first attempts at each level; most are read alike at all of them."""
    first = [turn for turn in turns if not turn.corrects]
    own = [turn.reading for turn in first]
    found = _level(gold, own, tools)
    levels: dict[str, LevelScore] = {}
    for level in LEVELS:
        other = level != driver.level
        read = [driver.read(turn.reply, tools, level) for turn in first] if other else own
        levels[level] = found if read == own else _level(gold, read, tools)
    return levels


def _level(gold: Gold, readings: Sequence[Reading], tools: Sequence[Tool]) -> LevelScore:
    if not readings:
        return LevelScore()
    opening = readings[0]
    malformed = opening.outcome == "malformed" and opening.failure is not None
    return LevelScore(
        first=1,
        unreadable=int(malformed),
        kind=opening.failure.kind if malformed and opening.failure else None,
        right=int(first_move_is_right(gold, opening, tools)),
        attempts=len(readings),
        failed=sum(reading.outcome == "malformed" for reading in readings),
    )


def first_move_is_right(gold: Gold, reading: Reading, tools: Sequence[Tool] = ()) -> bool:
    """Tell whether a first reply does what the gold wants first.

    Every readable call of it must be a wanted or an allowed one, the first one in turn where the
    order matters; where no tool is wanted, an answer that is not empty is the right move.
    """
    calls = reading.good_calls
    if not calls:
        return not gold.calls and bool((reading.final or "").strip())
    if len(calls) < len(reading.calls):
        return False
    in_turn = gold.calls[:1] if gold.ordered else gold.calls
    first_fits = any(acceptable(want, calls[0], tools) for want in (*in_turn, *gold.also))
    everything = (*gold.calls, *gold.also)
    return first_fits and all(
        any(acceptable(want, call, tools) for want in everything) for call in calls
    )


def _cost(every: Sequence[Turn], turns: Sequence[Turn]) -> dict[str, Any]:
    usages = [turn.reply.usage for turn in turns]
    return {
        "prompt": _total(usage.prompt for usage in usages),
        "completion": _total(usage.completion for usage in usages),
        "cached": _total(usage.cached for usage in usages),
        "reasoning": _total(usage.reasoning for usage in usages),
        "first_prompt": usages[0].prompt if usages else None,
        "unmetered": sum(usage.prompt is None or usage.completion is None for usage in usages),
        "seconds": round(sum(turn.reply.seconds for turn in every), 6),
        "first_token": turns[0].reply.first_token if turns else None,
    }


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _outside(episode: Episode) -> dict[str, Any]:
    lost = [
        t.reading.failure.kind
        for t in episode.turns
        if t.reading.outcome == "endpoint" and t.reading.failure
    ]
    return {
        "endpoint_failures": dict(sorted(Counter(lost).items())),
        "retries": sum(len(turn.reply.attempts) for turn in episode.turns),
        "context_overflow": int(episode.stop == "context_overflow"),
        "left_recording": int(episode.stop == "left_recording"),
    }
