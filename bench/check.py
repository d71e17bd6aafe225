"""Check tasks: every gold is replayed and must score 1, every damaged gold must score 0.

Replays go through the real tools and the judge, so a task that nobody can solve, or that anything
solves, is found before a model is asked. The rules of the bundled data set are checked here too.
"""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from bench.scoring import judge, numbers, says_number, says_text
from bench.tasks import CATEGORIES
from bench.tools import Toolbox, list_paths, list_toolsets, load_tools
from bench.tools.data import fold, load_table
from bench.types import AnswerPart, Fields, Spelling, Task, ToolResult, WantedCall, Wording
from parsers import Call

_NOTHING_SAID = {"en": "I cannot do that.", "zh": "这个我做不到。"}
_INVENTED = 83517.25
"""A figure that no table holds."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A way to go through a task: the calls and the final answer."""

    name: str
    calls: tuple[Call, ...]
    final: str


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """What a check of tasks found; no problems means that the tasks hold."""

    tasks: int
    gold_right: int
    """Golds that scored 1, of `tasks`."""
    damaged: int
    damaged_wrong: int
    """Damaged golds that scored 0, of `damaged`."""
    problems: tuple[str, ...]


def check_tasks(tasks: Sequence[Task], *, complete: bool = True) -> TaskCheck:
    """Replay the gold and the damaged golds of the tasks; `complete` adds the data set's rules.

    The rules: both languages of each pair, enough pairs of each category, no two questions that
    differ only in names and numbers, every tool wanted and distracting often enough, no answer in
    its question.
    """
    problems, gold, damaged, wrong = [], 0, 0, 0
    for task in tasks:
        toolbox = load_tools(task.toolset, task.lang)
        right, results = _replay(task, gold_replay(task), toolbox)
        gold += right
        problems += [] if right else [f"{task.id}: its own gold scores 0"]
        problems += check_results(task, results)
        problems += _check_refusal(task, toolbox)
        for harm in damage(task, toolbox):
            damaged += 1
            solved, _ = _replay(task, harm, toolbox)
            wrong += not solved
            problems += [f"{task.id}: scores 1 with {harm.name}"] if solved else []
    problems += check_each(tasks)
    if complete:
        problems += check_rules(tasks)
    return TaskCheck(len(tasks), gold, damaged, wrong, tuple(problems))


def _replay(task: Task, way: Replay, toolbox: Toolbox) -> tuple[bool, list[ToolResult]]:
    results = asyncio.run(toolbox.run_all(way.calls, lambda _name, _arguments: "flag"))
    return judge(task, way.calls, results, way.final, tools=toolbox.tools).success, results


def _check_refusal(task: Task, toolbox: Toolbox) -> list[str]:
    """Return a fault if nothing that the gold expects is refused by a tool, though it should be."""
    if task.category != "recovery":
        return []
    tries = [make_call(wanted) for wanted in task.gold.also]
    results = asyncio.run(toolbox.run_all(tries, lambda _name, _arguments: "flag"))
    refused = any(result.error for result in results)
    return [] if refused else [f"{task.id}: none of the calls in `also` is refused by its tool"]


# ---------------------------------------------------------------- replays


def gold_replay(task: Task) -> Replay:
    """Return the shortest way that the gold describes."""
    calls = tuple(make_call(wanted, at) for at, wanted in enumerate(task.gold.calls))
    return Replay("the gold", calls, make_answer(task))


def make_call(wanted: WantedCall, at: int = 0) -> Call:
    """Return a wanted call with the first acceptable value of each parameter."""
    arguments = {name: show_value(forms[0]) for name, forms in wanted.arguments.items()}
    return Call(wanted.tool, arguments, id=f"call_{at}")


def show_value(value: Any) -> Any:
    """Return an acceptable value as a model would write it: a Wording by its example."""
    match value:
        case Wording(example=example) | Spelling(text=example):
            return example
        case Fields(forms=forms):
            return {key: show_value(listed[0]) for key, listed in forms.items() if listed}
        case Mapping():
            return {key: show_value(inner) for key, inner in value.items()}
        case list() | tuple():
            return [show_value(inner) for inner in value]
    return value


def make_answer(task: Task, parts: Iterable[AnswerPart] | None = None) -> str:
    """Return an answer that says each part and nothing else."""
    told = [_say(part) for part in (task.gold.contains if parts is None else parts)]
    return " ; ".join(told) or _NOTHING_SAID[task.lang]


def _say(part: AnswerPart) -> str:
    if part.number is None:
        return part.any[0]
    return f"{part.number:.10g}" if part.number < 1e10 else str(part.number)


def damage(task: Task, toolbox: Toolbox) -> Iterator[Replay]:
    """Yield ways that must fail: wrong tool, wrong value, missing call, no or a wrong answer."""
    way = gold_replay(task)
    yield replace(way, name="an empty answer", final="  ")
    if task.gold.contains:
        wrong = make_answer(task, map(_spoil_part, task.gold.contains))
        yield replace(way, name="a wrong answer", final=wrong)
    if task.gold.unsolvable:
        yield replace(way, name="an invented figure", final=f"{way.final} {_INVENTED}")
    for name in task.gold.forbidden:
        call = Call(name, {}, id="call_x")
        yield replace(way, name=f"a call to {name}", calls=(*way.calls, call))
    if not way.calls and not task.gold.unsolvable:
        call = Call(toolbox.tools[0].name, {}, id="call_x")
        yield replace(way, name="a needless call", calls=(call,))
    yield from _damage_calls(way, task.gold.calls, toolbox)


def _damage_calls(way: Replay, wanted: Sequence[WantedCall], toolbox: Toolbox) -> Iterator[Replay]:
    if not way.calls:
        return
    *rest, last = way.calls
    yield replace(way, name="a missing call", calls=tuple(rest))
    right = {call.name for call in way.calls}
    other = next((t.name for t in toolbox.tools if t.name not in right), "no_such_tool")
    yield replace(way, name="a wrong tool", calls=(*rest, replace(last, name=other)))
    for at, call in enumerate(way.calls):
        for name, value in (call.arguments or {}).items():
            wrong = spoil(value)
            if wrong in wanted[at].arguments[name]:
                continue
            spoiled = replace(call, arguments={**(call.arguments or {}), name: wrong})
            calls = (*way.calls[:at], spoiled, *way.calls[at + 1 :])
            yield replace(way, name=f"a wrong {name} in call {at + 1}", calls=calls)


def spoil(value: Any) -> Any:
    """Return another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 7
        case str():
            return "zzqx"
        case {**fields} if fields:
            first = next(iter(fields))
            return {**fields, first: spoil(fields[first])}
        case [first, *rest]:
            return [spoil(first), *rest]
    return "zzqx"


def _spoil_part(part: AnswerPart) -> AnswerPart:
    if part.number is None:
        return AnswerPart(any=("zzqx",))
    return AnswerPart(part.number + 7 * (1 + part.tolerance) + abs(part.number))


# ---------------------------------------------------------------- one task


def check_each(tasks: Iterable[Task]) -> list[str]:
    """Return the faults that a task has by itself."""
    return [
        f"{task.id}: {problem}"
        for task in tasks
        for check in (_check_name, _check_parameters, _check_leak)
        for problem in check(task)
    ]


def _check_name(task: Task) -> Iterator[str]:
    if task.id != f"{task.pair}-{task.lang}":
        yield f"its id must be {task.pair}-{task.lang}"
    if not re.fullmatch(rf"{task.category}-\d\d", task.pair):
        yield f"its pair must be {task.category}-NN"


def _check_parameters(task: Task) -> Iterator[str]:
    parameters = {
        tool.name: {path.partition(".")[0] for path in list_paths(tool.parameters)}
        for tool in load_tools(task.toolset, "en").tools
    }
    for wanted in (*task.gold.calls, *task.gold.also):
        for name in (*wanted.arguments, *wanted.optional):
            if name not in parameters[wanted.tool]:
                yield f"{wanted.tool} has no parameter {name}"


def _check_leak(task: Task) -> Iterator[str]:
    for part in task.gold.contains:
        if part.number is not None and says_number(task.question, part.number, part.tolerance):
            yield f"the answer {part.number:g} stands in the question"
        for text in part.any:
            if says_text(task.question, text):
                yield f"the answer {text!r} stands in the question"


def check_results(task: Task, results: Sequence[ToolResult]) -> list[str]:
    """Return answers that neither a result nor one step of arithmetic on it gives."""
    failed = [f"{task.id}: {r.tool} fails: {r.content[:120]}" for r in results if r.error]
    if not results:
        return failed
    told = "\n".join([*(result.content for result in results), task.question])
    given = list(dict.fromkeys(numbers(told)))[:80]
    for part in task.gold.contains:
        if part.number is not None and not _follows(part, given):
            failed.append(f"{task.id}: {part.number:g} is in no result of its calls")
        elif part.number is None and not any(says_text(told, text) for text in part.any):
            failed.append(f"{task.id}: {part.any} is in no result of its calls")
    return failed


def _follows(part: AnswerPart, given: Sequence[float]) -> bool:
    wanted, slack = part.number or 0.0, part.tolerance + 1e-6
    if any(abs(a - wanted) <= slack for a in given) or abs(sum(given) - wanted) <= slack:
        return True
    steps: tuple[Callable[[float, float], float], ...] = (
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b if b else a,
    )
    return any(abs(step(a, b) - wanted) <= slack for a in given for b in given for step in steps)


# ---------------------------------------------------------------- the data set


def check_rules(tasks: Sequence[Task]) -> list[str]:
    """Return the breaches of the data set's rules, over all tasks."""
    rules = (_check_pairs, _check_counts, _check_alike, _check_use, _check_order)
    return [problem for rule in rules for problem in rule(tasks)]


def _check_pairs(tasks: Sequence[Task]) -> Iterator[str]:
    pairs = defaultdict(list)
    for task in tasks:
        pairs[task.pair].append(task)
    for name, both in pairs.items():
        if sorted(task.lang for task in both) != ["en", "zh"]:
            yield f"{name}: needs one task in English and one in Chinese"
        elif len({(task.toolset, task.category, _sketch(task)) for task in both}) > 1:
            yield f"{name}: its two languages want different things"


def _sketch(task: Task) -> Any:
    """Return what the two languages of a pair must share: tools wanted, figures, flags."""
    gold = task.gold
    figures = tuple(sorted(part.number for part in gold.contains if part.number is not None))
    wanted = tuple(call.tool for call in gold.calls)
    flags = (gold.ordered, gold.unsolvable, gold.forbidden)
    return wanted, figures, len(gold.contains), flags


def _check_counts(tasks: Sequence[Task]) -> Iterator[str]:
    pairs = Counter(category for category, _ in {(task.category, task.pair) for task in tasks})
    for category, fewest in CATEGORIES.items():
        if pairs[category] < fewest:
            yield f"{category}: has {pairs[category]} pairs, needs {fewest}"


def _check_alike(tasks: Sequence[Task]) -> Iterator[str]:
    alike = defaultdict(list)
    for task in tasks:
        alike[task.category, task.lang, mask(task.question)].append(task.id)
    for ids in alike.values():
        if len(ids) > 2:
            yield f"{', '.join(ids)}: differ only in names and numbers"


_QUOTED = re.compile(r"\"[^\"]+\"|'[^']{2,}'|`[^`]+`|“[^”]+”|「[^」]+」|《[^》]+》")
_FIGURE = re.compile(r"\d[\d.,:/%-]*|[A-Z]{2,}-?\d+|[零〇一二两三四五六七八九十百千万亿]+")


def mask(question: str) -> str:
    """Return a question without quoted texts, names, numbers, punctuation and case."""
    text = _QUOTED.sub("#", question)
    text = _name_pattern().sub("#", text.casefold())
    text = _FIGURE.sub("#", text)
    return " ".join(re.sub(r"[^\w#]+", " ", text).split())


@cache
def _name_pattern() -> re.Pattern[str]:
    """Return a pattern of every name that the tables hold, longest first."""
    rows = [
        *load_table("cities.json"),
        *load_table("contacts.json"),
        *load_table("rates.json").values(),
    ]
    orders = load_table("orders.json")
    rows += [order["customer"] for order in orders]
    rows += [item for order in orders for item in order["items"]]
    names = {row[key] for row in rows for key in ("name", "name_zh")}
    names |= {item["sku"] for order in orders for item in order["items"]}
    names |= {order["order_id"] for order in orders} | set(load_table("rates.json"))
    names |= {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
    names |= {f"{start}{day}" for start in ("周", "星期") for day in "一二三四五六日天"}
    longest = sorted(map(fold, names), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest)))


FEWEST_WANTED, FEWEST_DISTRACTING = 4, 8


def _check_use(tasks: Sequence[Task]) -> Iterator[str]:
    sets = list_toolsets()
    wanted: Counter[str] = Counter()
    distracting: Counter[str] = Counter()
    for task in tasks:
        right = {call.tool for call in task.gold.calls}
        wanted.update(right)
        distracting.update(set(sets[task.toolset]) - right)
    for name in sets["all"]:
        if wanted[name] < FEWEST_WANTED:
            yield f"{name}: is wanted by {wanted[name]} tasks, needs {FEWEST_WANTED}"
        if distracting[name] < FEWEST_DISTRACTING:
            yield f"{name}: distracts in {distracting[name]} tasks, needs {FEWEST_DISTRACTING}"


def _check_order(tasks: Sequence[Task]) -> Iterator[str]:
    for category in CATEGORIES:
        ids = [task.id for task in tasks if task.category == category]
        if ids != sorted(ids):
            yield f"{category}: its lines are not sorted by id"
