"""Compare ReAct text with native tool calls; `python -m bench --help`.

The names below are the public interface; each is loaded when it is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.clients import OpenAIClient, RecordedClient, ScriptedClient
    from bench.drivers import make_driver
    from bench.loop import solve
    from bench.own.tasks import read_tasks
    from bench.records import RunFolder
    from bench.report import write_report
    from bench.run import plan_jobs, run_all
    from bench.scoring import score
    from bench.tables import episode_table
    from bench.tasks import load_tasks
    from bench.tools import load_tools, toolbox_from

_PLACES = {
    "OpenAIClient": "clients",
    "RecordedClient": "clients",
    "RunFolder": "records",
    "ScriptedClient": "clients",
    "episode_table": "tables",
    "load_tasks": "tasks",
    "load_tools": "tools",
    "make_driver": "drivers",
    "plan_jobs": "run",
    "read_tasks": "own.tasks",
    "run_all": "run",
    "score": "scoring",
    "solve": "loop",
    "toolbox_from": "tools",
    "write_report": "report",
}

__all__ = [
    "OpenAIClient",
    "RecordedClient",
    "RunFolder",
    "ScriptedClient",
    "episode_table",
    "load_tasks",
    "load_tools",
    "make_driver",
    "plan_jobs",
    "read_tasks",
    "run_all",
    "score",
    "solve",
    "toolbox_from",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'bench' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 (nothing is loaded before it is used)

    return getattr(import_module(f"bench.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
