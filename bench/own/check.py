"""Check own tasks without running a tool: what a gold wants must be possible, and be told apart.

A gold must score 1, damaged golds 0, as of the bundled tasks; but a user's tools may do anything, so
none is called here, and results are taken as given.
"""

from collections.abc import Iterator

from bench.check import Replay, TaskCheck, damage, gold_replay
from bench.own import Own
from bench.scoring import judge
from bench.tasks import tell_fault
from bench.tools import Toolbox
from bench.types import Task, ToolResult


def check_own(own: Own) -> TaskCheck:
    """Replay the gold and the damaged golds of a user's tasks against their tools' schemas."""
    toolbox_for = own.toolbox_for()
    problems: list[str] = []
    gold = damaged = wrong = 0
    for task in own.tasks:
        toolbox = toolbox_for(task, "full")
        assert isinstance(toolbox, Toolbox)  # noqa: S101 (the only kind that is made of tools)
        right = _succeeds(task, gold_replay(task), toolbox)
        gold += right
        problems += [] if right else [f"{task.id}: its own gold scores 0"]
        problems += _check_arguments(task, toolbox)
        for harm in damage(task, toolbox):
            damaged += 1
            solved = _succeeds(task, harm, toolbox)
            wrong += not solved
            problems += [f"{task.id}: scores 1 with {harm.name}"] if solved else []
    return TaskCheck(len(own.tasks), gold, damaged, wrong, tuple(problems))


def _succeeds(task: Task, way: Replay, toolbox: Toolbox) -> bool:
    results = [ToolResult(call.id, call.name, call.arguments, '"ok"') for call in way.calls]
    return judge(task, way.calls, results, way.final, tools=toolbox.tools).success


def _check_arguments(task: Task, toolbox: Toolbox) -> Iterator[str]:
    """Yield what a tool would refuse of a task's expected arguments."""
    wanted = [call.any_arguments for call in task.gold.calls]
    for free, call in zip(wanted, gold_replay(task).calls, strict=True):
        entry = toolbox.table[call.name]
        problem = None if free else entry.prepare(call.arguments or {})[0]
        if problem is not None:
            told = tell_fault(problem)
            yield f"{task.id}: {call.name} would refuse its expected arguments: {told}"
