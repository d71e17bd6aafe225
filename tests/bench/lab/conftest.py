"""A scripted model that plays the gold of the tasks, and slips where it is told to.

Nothing here was said by a model: what it writes is called scripted, in its name too.
"""

import asyncio
import json
from dataclasses import dataclass, field, replace

import pytest

from bench.choice import Choice
from bench.clients import RecordingClient, ScriptedClient, reply_with
from bench.plan import Order
from bench.recordings import Recorder
from bench.records import FORMAT, RunFolder
from bench.run import run_all
from bench.tools import load_tools
from bench.types import Usage, Wording
from bench.variants import apply_variant

NOBODY = "http://127.0.0.1:9/v1"


def plain(value):
    """Return an acceptable value as a model would write it."""
    match value:
        case Wording():
            return value.example
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
    return value


def sample(schema):
    """Return a value that a parameter's schema takes."""
    if schema.get("enum"):
        return schema["enum"][0]
    plainest = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": []}
    return plainest.get(schema["type"], {})


def say_parts(gold):
    """Return a final answer that says what the gold asks for."""
    said = [str(part.number) if part.any == () else part.any[0] for part in gold.contains]
    return "; ".join(said) or "That is all there is to say."


@dataclass
class Player:
    """Plays gold. `slips` takes task, driver and variant; True: it picks another tool first."""

    tasks: dict
    slips: object
    shown: object = None
    """Takes task and variant; gives for each own tool's name the name shown."""
    tools: tuple = ()
    """The tools on offer; none: those of each task's bundled toolset."""
    asked: list = field(default_factory=list)

    def __call__(self, request):
        key = request.key
        task = self.tasks[key.task_id]
        self.asked.append(key)
        calls = [(call.tool, self._arguments(call)) for call in task.gold.calls]
        if self.slips(task, key.driver, key.variant):
            calls = [self._other(task)] if key.step == 0 else []
        answer = self._answer(task, key, calls)
        tokens = sum(len(json.dumps(part)) for part in (request.messages, request.options)) // 4
        return reply_with(answer, usage=Usage(tokens, 20))

    def _arguments(self, call):
        named = {name: plain(values[0]) for name, values in call.arguments.items()}
        return {name: value for name, value in named.items() if value is not None}

    def _other(self, task):
        """Return a call to the first tool that is not wanted, with the plainest arguments."""
        wanted = {call.tool for call in task.gold.calls}
        tools = self.tools or load_tools(task.toolset, task.lang).tools
        tool = next(tool for tool in tools if tool.name not in wanted)
        needed = tool.parameters.get("required", ())
        return tool.name, {name: sample(tool.parameters["properties"][name]) for name in needed}

    def _answer(self, task, key, calls):
        final = say_parts(task.gold) if not task.gold.unsolvable else "I can't find that out."
        names = self.shown(task, key.variant) if self.shown else {}
        calls = [(names.get(name, name), arguments) for name, arguments in calls]
        if key.step or not calls:
            react = f"Thought: so.\nFinal Answer: {final}"
            return final if key.driver.startswith("native") else react
        if not key.driver.startswith("native"):
            lines = [f"Action: {name}\nAction Input: {json.dumps(args)}" for name, args in calls]
            return "Thought: I look.\n" + "\n".join(lines)
        entries = [
            {
                "id": f"c{at}",
                "type": "function",
                "function": {"name": n, "arguments": json.dumps(a)},
            }
            for at, (n, a) in enumerate(calls)
        ]
        return {"role": "assistant", "content": None, "tool_calls": entries}


def shown_names(task, variant):
    """Return for each own name the name that a bundled variant shows."""
    told = apply_variant(load_tools(task.toolset, task.lang).tools, variant, task.lang).names
    return {own: shown for shown, own in told.items()}


@pytest.fixture
def record(tmp_path):
    """Return what records a scripted model on the jobs of a plan, and gives the file and the player."""

    def go(plan_of, slips, *, name="scripted.jsonl.gz", shown=None, tools=(), **options):
        order = Order(tmp_path / "never")
        choice = Choice(**{"model": "scripted", "base_url": NOBODY, **options})
        plan = plan_of(choice, order)
        player = Player({task.id: task for task in plan.tasks}, slips, shown, tools)
        path = tmp_path / name
        manifest = {
            "format": FORMAT,
            "experiment": plan.experiment,
            "endpoint": "scripted",
            "model": "scripted",
            "host": "nowhere: a script",
            "settings": dict(plan.settings),
            "trials": plan.trials,
            "notes": {"server": "a script; no model was asked"},
        }
        client = RecordingClient(ScriptedClient(player), Recorder(path, manifest))
        jobs = [replace(job, client=client) for job in plan.jobs]
        folder = RunFolder.create(tmp_path / "recorded", "scripted", {})

        async def play():
            await run_all(jobs, folder, toolbox_for=plan.toolbox_for)
            await client.close()

        asyncio.run(play())
        folder.close()
        return path, player

    return go
