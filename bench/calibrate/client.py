"""A client that damages right moves on purpose, and keeps a ledger of what it did. Asks no model."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from bench.calibrate.damage import DAMAGES, Damage, Damaged, Scene, other_calls, whole
from bench.calibrate.ledger import Entry
from bench.calibrate.moves import Move, Script, Wanted, script_of
from bench.drivers import make_driver
from bench.types import Reply, Request, StepKey, Task, Usage
from parsers import Tool

EpisodeName = tuple[str, str, int]
"""(task, way, trial)."""
ToolsFor = Callable[[Task], Sequence[Tool]]


@dataclass(slots=True)
class DamagingClient:
    """Says the right moves of each task's script, most of them damaged; nothing here is a model's.

    The same seed gives the same replies, whatever the order of the requests: each is drawn from the
    seed and the step it belongs to.
    """

    tasks: Mapping[str, Task]
    """By id."""
    tools_for: ToolsFor
    seed: int = 0
    share: float = 0.85
    """Of the replies that are damaged."""
    damages: Sequence[Damage] = DAMAGES
    name: str = "damaged on purpose"
    model: str = "scripted moves"
    ledger: dict[EpisodeName, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    """Every reply, by episode."""
    _scripts: dict[str, Script] = field(default_factory=dict)
    _others: dict[str, Sequence[Wanted]] = field(default_factory=dict)

    async def complete(self, request: Request) -> Reply | None:
        """Say the next move of the episode that the request belongs to, damaged or not."""
        key = request.key
        entries = self.ledger[key.task_id, key.driver, key.trial]
        rng = Random(f"{self.seed} {key}")  # noqa: S311 (to be repeatable, not secret)
        damage, sent = self._choose(self._scene(key, entries, rng))
        reply = None if sent.reply is None else _with_costs(sent.reply, rng)
        corrects = bool(entries) and entries[-1].malformed
        entries.append(Entry(damage, sent, make_driver(key.driver).level, corrects, reply))
        return reply

    async def close(self) -> None:
        """Nothing is held open."""

    def script(self, task_id: str) -> Script:
        """Return a task's right moves."""
        if task_id not in self._scripts:
            self._scripts[task_id] = script_of(self.tasks[task_id])
        return self._scripts[task_id]

    def _scene(self, key: StepKey, entries: Sequence[Entry], rng: Random) -> Scene:
        task = self.tasks[key.task_id]
        tools = {tool.name: tool for tool in self.tools_for(task)}
        move = _next_move(self.script(task.id), entries, rng)
        way = make_driver(key.driver).name
        if task.id not in self._others:
            self._others[task.id] = other_calls(task, tools)
        return Scene(task, tools, way, move, self._others[task.id], rng, 10 * key.step)

    def _choose(self, scene: Scene) -> tuple[str, Damaged]:
        """Take the first damage, in a random order, that can be done to the move."""
        if scene.rng.random() < self.share:
            keys = {item.name: scene.rng.random() ** (1 / item.often) for item in self.damages}
            for damage in sorted(self.damages, key=lambda item: -keys[item.name]):
                done = damage.make(scene)
                if done is not None:
                    return damage.name, done
        return "", whole(scene)


def _next_move(script: Script, entries: Sequence[Entry], rng: Random) -> Move:
    """Return what a model without fault would do now; sometimes two calls at once.

    A call of a right tool counts as done, also with a wrong argument: nobody tries it again.
    """
    done = [name for entry in entries for name, _ in entry.calls]
    left: list[Wanted] = []
    for call in script.calls:
        if call[0] in done:
            done.remove(call[0])
        else:
            left.append(call)
    if not left:
        return Move(final=script.final)
    both = len(left) > 1 and rng.random() < 0.5
    return Move(tuple(left[: 2 if both else 1]))


def _with_costs(reply: Reply, rng: Random) -> Reply:
    """Give a reply tokens and seconds; one in twenty tells no tokens."""
    prompt, completion = rng.randrange(200, 2000), rng.randrange(5, 200)
    told = rng.random() < 0.95
    usage = Usage(prompt, completion, prompt // 2, completion // 3) if told else Usage()
    return replace(reply, usage=usage, seconds=rng.randrange(1, 5000) / 1000)
