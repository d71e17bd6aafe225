"""`python -m bench lint TARGET --ask`: whether a description is enough to know a tool's purpose.

A model is shown one tool's description and parameters, without its name, and six questions: one
that the tool is for, five that it is not for. It says which, and with which arguments. Measures the
description together with the model; says nothing of either alone.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from bench.drivers import NativeDriver
from bench.experiments import Experiment, run_experiment
from bench.lint import Source
from bench.lint.finding import Subject
from bench.lint.texts import is_chinese
from bench.own import files
from bench.paths import find_datasets
from bench.plan import Order
from bench.scoring import acceptable
from bench.tasks import wanted_from_row
from bench.tools.schema import explain
from bench.types import Client, Lang, Reply, Request, StepKey, WantedCall, WorkbenchError
from parsers import Call, Tool

Outcome = Literal[
    "right",  # the question that the tool is for
    "wrong",  # one of the five others
    "unreadable",  # no number of a question in the answer
    "failed",  # the endpoint failed: nothing is known
    "not_recorded",  # replaying, and this request was never recorded
]
QUESTIONS = 6
ORDERS = 6
"""In how many orders the six questions are put, unless told: each place is right once."""
MAX_TEXT = 400
_CHOICE = Tool(
    "choose",
    "",
    {
        "type": "object",
        "properties": {"question": {"type": ["integer", "string"]}, "arguments": {}},
        "required": ["question"],
    },
)
"""What an answer must look like, for the reader of arguments."""

_PROMPTS: Mapping[Lang, str] = {
    "en": (
        "This is all that is known of a tool.\n\nDescription: {description}\n\n"
        "Parameters (JSON Schema): {parameters}\n\nSix questions:\n{questions}\n\n"
        "Which one of them is the tool for? Give its number, and the arguments with which the tool "
        "must be called for it. Answer with one JSON object and nothing else: "
        '{{"question": NUMBER, "arguments": {{…}}}}'
    ),
    "zh": (
        "关于某个工具，已知的只有下面这些。\n\n描述：{description}\n\n"
        "参数（JSON Schema）：{parameters}\n\n六个问题：\n{questions}\n\n"
        "这个工具是用来回答其中哪一个问题的？请给出它的编号，以及为它调用该工具时的参数。"
        '只回答一个 JSON 对象，不要别的内容：{{"question": 编号, "arguments": {{…}}}}'
    ),
}


@dataclass(frozen=True, slots=True)
class Sheet:
    """A tool with six questions, one of which it is for."""

    tool: Tool
    lang: Lang
    """Of the questions."""
    fits: str
    others: tuple[str, ...]
    wanted: WantedCall | None = None
    """The acceptable arguments; None: they are not judged."""

    def order(self, number: int) -> tuple[tuple[str, ...], int]:
        """Return the questions in one of their orders, and the place of the right one, from 0."""
        turn, place = number % len(self.others), number % QUESTIONS
        turned = [*self.others[turn:], *self.others[:turn]]
        return (*turned[:place], self.fits, *turned[place:]), place


@dataclass(frozen=True, slots=True)
class Trial:
    """One sheet in one order, and what came of it."""

    tool: str
    lang: Lang
    order: int
    outcome: Outcome
    picked: int | None = None
    """The place of the question that was named, from 1."""
    place: int = 0
    """The place of the right one, from 1."""
    question: str = ""
    """The question that was named."""
    arguments: bool | None = None
    """Whether the arguments are acceptable; None where they are not judged."""
    said: str = ""
    """The answer, cut to 400 characters."""


# ---------------------------------------------------------------- the sheets


def find_sheets(sources: Sequence[Source], path: Path | None = None) -> tuple[Sheet, ...]:
    """Return a sheet for each tool and language that there are questions for.

    `path`: a file of questions for tools of one's own; without it the bundled ones, which go by
    the tools' names. Raises WorkbenchError where a file is faulty or no tool has questions.
    """
    rows = read_questions(path) if path else _bundled()
    sheets = [
        sheet
        for source in sources
        for subject in source.subjects
        for sheet in _sheets_of(subject, rows, any_lang=path is not None)
    ]
    if not sheets:
        names = ", ".join(s.name for source in sources for s in source.subjects)[:200]
        raise WorkbenchError(
            f"--ask: there are no questions for {names}; write them in a file and name it with "
            '--questions FILE: [{"tool": NAME, "fits": QUESTION, "arguments": {…}, "others": [five]}]'
        )
    return tuple(sheets)


def _sheets_of(
    subject: Subject, rows: Iterable[Mapping[str, Any]], *, any_lang: bool
) -> Iterable[Sheet]:
    own: Lang = "zh" if is_chinese(subject.description) else "en"
    parameters = subject.parameters if isinstance(subject.parameters, Mapping) else {}
    tool = Tool(subject.name, subject.description, parameters)
    for row in rows:
        lang: Lang = row.get("lang", "en")
        if row["tool"] == tool.name and (any_lang or lang == own):
            wanted = wanted_from_row(row) if "arguments" in row else None
            yield Sheet(tool, lang, row["fits"], tuple(row["others"]), wanted)


@cache
def _bundled() -> tuple[Mapping[str, Any], ...]:
    return read_questions(find_datasets() / "lint" / "questions.json")


def read_questions(path: Path) -> tuple[Mapping[str, Any], ...]:
    """Return the rows of a JSON or YAML file of questions; raises WorkbenchError with file and fix."""
    from jsonschema_rs import validator_for  # noqa: PLC0415 (only --ask needs it)

    text = files.read_text(path, "--questions")
    rows = files.parse(text, path, 'a list of {"tool", "fits", "arguments", "others"}')
    schema = json.loads((find_datasets() / "schema" / "questions.json").read_text(encoding="utf-8"))
    fault = next(validator_for(schema).iter_errors(rows), None)
    if fault is not None:
        place = [key for key in fault.instance_path if isinstance(key, int)][:1]
        where = f"{path}:{files.line_of(text, *place)}"
        told = explain(fault, schema)
        raise WorkbenchError(f"{where}: entry {place[0] + 1 if place else 0}: {told['error']}")
    return tuple(rows)


# ---------------------------------------------------------------- asking


def run_ask(
    sources: Sequence[Source],
    questions: Path | None,
    values: Mapping[str, Any],
    order: Order,
    count: int | None = None,
) -> int:
    """Ask about every tool that there are questions for, and report; return the exit status."""
    sheets = find_sheets(sources, questions)

    async def run(client: Client, **options: Any) -> tuple[Trial, ...]:
        return await ask_sheets(client, sheets, **options)

    experiment = Experiment(run, lambda orders: orders * len(sheets), count=ORDERS)
    return run_experiment("ask", values, order, count, experiment)


async def ask_sheets(
    client: Client,
    sheets: Sequence[Sheet],
    *,
    count: int = ORDERS,
    settings: Mapping[str, Any],
    at_once: int = 4,
) -> tuple[Trial, ...]:
    """Put every sheet to a model in `count` orders, `at_once` at a time."""
    gate = asyncio.Semaphore(at_once)

    async def ask(sheet: Sheet, number: int) -> Trial:
        async with gate:
            return await _ask(client, sheet, number, settings)

    asked = [ask(sheet, number) for sheet in sheets for number in range(count)]
    return tuple(await asyncio.gather(*asked))


async def _ask(client: Client, sheet: Sheet, number: int, settings: Mapping[str, Any]) -> Trial:
    key = StepKey(f"{sheet.tool.name}-{sheet.lang}", "ask", "full", number, 0)
    message = {"role": "user", "content": write_prompt(sheet, number)}
    reply = await client.complete(Request((message,), dict(settings), key))
    if reply is None:
        place = sheet.order(number)[1] + 1
        return Trial(sheet.tool.name, sheet.lang, number, "not_recorded", place=place)
    return read_trial(sheet, number, reply)


def write_prompt(sheet: Sheet, number: int) -> str:
    """Return what a model is asked: the description, the parameters, the questions in one order."""
    questions, _ = sheet.order(number)
    return _PROMPTS[sheet.lang].format(
        description=sheet.tool.description or "–",
        parameters=json.dumps(dict(sheet.tool.parameters), ensure_ascii=False),
        questions="\n".join(f"{at}. {text}" for at, text in enumerate(questions, 1)),
    )


def read_trial(sheet: Sheet, number: int, reply: Reply) -> Trial:
    """Say which question an answer names, and whether its arguments are acceptable."""
    questions, place = sheet.order(number)
    reading = NativeDriver().read(reply, ())
    text = reading.final or ""
    known = (sheet.tool.name, sheet.lang, number)
    if reading.outcome == "endpoint":
        said = reading.failure.message if reading.failure else ""
        return Trial(*known, "failed", place=place + 1, said=said[:MAX_TEXT])
    picked, arguments = read_choice(text)
    if picked is None or not 1 <= picked <= len(questions):
        return Trial(*known, "unreadable", place=place + 1, said=text[:MAX_TEXT])
    right = picked == place + 1
    return Trial(
        *known,
        "right" if right else "wrong",
        picked,
        place + 1,
        questions[picked - 1],
        _judge(sheet, arguments) if right else None,
        text[:MAX_TEXT],
    )


def read_choice(text: str) -> tuple[int | None, Any]:
    """Return the number of the question that an answer names, and its arguments."""
    from parsers.arguments import read_arguments  # noqa: PLC0415 (the readers take time to load)

    found = read_arguments(text, _CHOICE, level="rescue").arguments
    if found is None:
        return None, None
    number = str(found["question"]).strip().rstrip(".")
    return (int(number) if number.isdecimal() and len(number) < 3 else None), found.get("arguments")


def _judge(sheet: Sheet, arguments: Any) -> bool | None:
    if sheet.wanted is None:
        return None
    if not isinstance(arguments, Mapping):
        return False
    call = Call(sheet.tool.name, dict(arguments))
    return acceptable(sheet.wanted, call, (sheet.tool,))
