"""`python -m bench descriptions`: every description variant with every driver, on the same tasks.

A comparison (`bench.compare`) whose arms are also descriptions: decides which tasks can tell, and
leaves out the episodes in which a variant would change nothing. The base is asked once.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.choice import Choice
from bench.compare import Ending, Kind, compare
from bench.manifest import hash_file
from bench.own import load_own
from bench.plan import Order, Plan, make_plan
from bench.records import RunFolder
from bench.run import Job
from bench.texts import mark
from bench.types import Lang, Task, WorkbenchError
from bench.variants import FULL, LOOKALIKES, VARIANTS, find_file, list_variants, read_texts
from parsers import Tool

NAME = "descriptions"
CATEGORIES = ("lookalike", "near_miss", "no_tool", "typed", "single")
"""The categories that can tell, unless others are asked for."""
_OWN_TOOLS = ("bare-params",)
"""The bundled variants that tell a user's own tools otherwise, too."""
_OWN = mark("A variant of one's own.")
_EXAMPLES = ("get_exchange_rate", *LOOKALIKES)


def run_descriptions(values: Mapping[str, Any], order: Order) -> int:
    """Run the experiment, or go on with a run of it, and write its report; return the exit status."""
    return compare(values, order, KIND)


def plan_descriptions(choice: Choice, order: Order) -> Plan:
    """Work out every episode: the base once, each variant where it changes something on offer."""
    plan = make_plan(_complete(choice), order, experiment=NAME)
    told, held = _Told(plan), _list_recorded(plan)
    jobs = [job for job in plan.jobs if told.changes(job) and _is_held(job, held)]
    if not any(job.variant != FULL for job in jobs):
        raise WorkbenchError(
            "no task here is told otherwise by these descriptions; choose other tasks, another "
            "--variant, or another recording"
        )
    asked = {job.task.id for job in jobs}
    tasks = tuple(task for task in plan.tasks if task.id in asked)
    return replace(plan, jobs=tuple(jobs), tasks=tasks)


def _complete(choice: Choice) -> Choice:
    """Put in what is not said: the tasks that can tell, all variants, and always the base."""
    named = choice.variant if choice.variant != (FULL,) else _all_variants(choice)
    variants = tuple(dict.fromkeys((FULL, *named)))
    free = choice.category or choice.task or choice.tasks
    return replace(choice, category=choice.category if free else CATEGORIES, variant=variants)


def _all_variants(choice: Choice) -> tuple[str, ...]:
    if choice.variants is not None:
        return tuple(load_own(choice).variants)
    return _OWN_TOOLS if choice.tools else VARIANTS


class _Told:
    """Which tools are told otherwise than in the base, looked up once for each toolset."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._found: dict[tuple[str, Lang, str], bool] = {}

    def changes(self, job: Job) -> bool:
        """Say whether a job is of the base, or of a variant that tells a tool on offer otherwise."""
        key = (job.task.toolset, job.task.lang, job.variant)
        if key not in self._found:
            self._found[key] = job.variant == FULL or any(
                told != base for base, told in self.pairs(job.task, job.variant)
            )
        return self._found[key]

    def pairs(self, task: Task, variant: str) -> list[tuple[Tool, Tool]]:
        """Return the tools of a task, each as the base and as the variant shows it."""
        shown = (self._plan.toolbox_for(task, name).tools for name in (FULL, variant))
        return list(zip(*shown, strict=True))


Held = Mapping[str, frozenset[tuple[str, str]]]
"""By client: the tasks and variants that its recording holds."""


def _list_recorded(plan: Plan) -> Held:
    return {
        client.name: frozenset((step.task_id, step.variant) for step in recording.steps.values())
        for client, recording in zip(plan.clients, plan.recordings, strict=False)
    }


def _is_held(job: Job, held: Held) -> bool:
    known = held.get(job.client.name)
    return known is None or (job.task.id, job.variant) in known


# ---------------------------------------------------------------- what a run keeps


def _tell_more(plan: Plan) -> dict[str, Any]:
    """Keep which texts were shown: the report shows them, and a run goes on only with the same."""
    says = list_variants()
    bundled = [name for name in plan.choice.variant if name in VARIANTS]
    return {
        "variant_files": {name: hash_file(find_file(name)) for name in bundled},
        "told": {
            name: {"says": says.get(name, _OWN), **_show(plan, name)}
            for name in plan.choice.variant
        },
    }


def _show(plan: Plan, variant: str) -> dict[str, Any]:
    """Return how many tools a variant tells otherwise, and one of them in each language."""
    told = _Told(plan)
    every: dict[Lang, dict[str, tuple[Tool, Tool]]] = {}
    for task in {(task.toolset, task.lang): task for task in plan.tasks}.values():
        pairs = {base.name: (base, shown) for base, shown in told.pairs(task, variant)}
        every.setdefault(task.lang, {}).update(pairs)
    changed = {
        name for own in every.values() for name, (base, shown) in own.items() if base != shown
    }
    known = changed or {name for own in every.values() for name in own}
    name = next((name for name in _EXAMPLES if name in known), min(known))
    texts = {str(lang): _write(own[name][1]) for lang, own in every.items() if name in own}
    return {"tools": len(changed), **texts}


def _write(tool: Tool) -> str:
    texts = "; ".join(f"{path}: {text}" for path, text in read_texts(tool).items())
    return f"{tool.name}: {tool.description} [{texts or 'no parameter is described'}]"


def _end(folder: RunFolder) -> Ending:
    from bench.lab.report import (  # noqa: PLC0415 (drawing takes time to load)
        find_out,
        summarize,
        write_lab_report,
    )

    found = find_out(folder)
    return Ending(summarize(found), write_lab_report(folder, found))


KIND = Kind(NAME, plan_descriptions, _end, _tell_more)
