"""Run scripted tasks through inspect_ai: an adaptor that `bench.peers.runner` runs in its environment.

A request is `{"tools", "samples", "count", "options", "config"}` as `bench.perf.harness` writes it;
its answer `{"wall", "cpu"}` in seconds, and what was done: `turns`, `calls`, and how many episodes
were `solved`. Nothing of the workbench is installed where this runs.
"""

import gc
import itertools
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any

Data = dict[str, Any]
MODEL = "mockllm/model"
LOGS = "logs"


def make(tools: list[Data]) -> Callable[[Data], Data]:
    """Return what runs a request; `tools` are OpenAI's entries."""
    inspect_ai = import_module("inspect_ai")
    done: Counter[str] = Counter()
    results: dict[tuple[int, str], str] = {}
    defined = [_define(place, entry, results, done) for place, entry in enumerate(tools)]
    solver = [_offer(defined), import_module("inspect_ai.solver").generate()]
    scorer = import_module("inspect_ai.scorer").includes()

    def run(request: Data) -> Data:
        samples = list(itertools.islice(itertools.cycle(request["samples"]), request["count"]))
        done.clear()
        results.update({_key(tools, sample): sample["result"] for sample in samples})
        task = inspect_ai.Task(dataset=_dataset(samples), solver=solver, scorer=scorer, name="perf")
        mock = import_module("inspect_ai.model").get_model(
            MODEL, memoize=False, custom_outputs=_model(samples, done)
        )
        options = {**request["options"], **request["config"]}
        shutil.rmtree(LOGS, ignore_errors=True)
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        [log] = inspect_ai.eval(task, mock, display="none", log_dir=LOGS, **options)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return {"wall": wall, "cpu": cpu, "solved": _solved(log, len(samples)), **done}

    return run


def _dataset(samples: list[Data]) -> Any:
    """Make a sample for each; one that is there twice gets a number, since ids are unique."""
    dataset, model = import_module("inspect_ai.dataset"), import_module("inspect_ai.model")
    kinds = {"system": model.ChatMessageSystem, "user": model.ChatMessageUser}
    return dataset.MemoryDataset(
        [
            dataset.Sample(
                id=f"{sample['id']}.{number}",
                input=[kinds[said["role"]](content=said["content"]) for said in sample["messages"]],
                target=sample["answer"],
                metadata={"tools": sample["tools"]},
            )
            for number, sample in enumerate(samples)
        ]
    )


def _define(
    place: int, entry: Data, results: dict[tuple[int, str], str], done: Counter[str]
) -> Any:
    """Make a tool that gives what ours gave, so that running it costs nothing."""
    package, function = import_module("inspect_ai.tool"), entry["function"]

    async def tool(**kwargs: Any) -> str:
        done["calls"] += 1
        return results[place, _written(kwargs)]

    return package.ToolDef(
        tool,
        name=function["name"],
        description=function["description"],
        parameters=package.ToolParams(**function["parameters"]),
    ).as_tool()


def _offer(tools: list[Any]) -> Any:
    """Make a solver that offers each sample its tools, in their order."""

    def offer() -> Any:
        async def solve(state: Any, _generate: Any) -> Any:
            state.tools = [tools[place] for place in state.metadata["tools"]]
            return state

        return solve

    return import_module("inspect_ai.solver").solver(offer)()


def _model(samples: list[Data], done: Counter[str]) -> Callable[..., Any]:
    """Make the mock's script: a sample's call, then, when its result has come, its answer.

    Each answer tells what tokens were used, as an endpoint does; else the mock would count them.
    """
    package = import_module("inspect_ai.model")
    usage = {"input_tokens": 812, "output_tokens": 31, "total_tokens": 843}
    by_question = {sample["messages"][-1]["content"]: sample for sample in samples}

    def answer(messages: list[Any], *_: Any) -> Any:
        done["turns"] += 1
        sample = by_question[next(said.text for said in messages if said.role == "user")]
        call = sample["call"]
        if messages[-1].role == "tool":
            output = package.ModelOutput.from_content(MODEL, sample["answer"])
        else:
            output = package.ModelOutput.for_tool_call(MODEL, call["name"], call["arguments"])
        output.usage = package.ModelUsage(**usage)
        return output

    return answer


def _solved(log: Any, count: int) -> int:
    """Return how many episodes gave their answer, by the log that `eval` returns."""
    if log.status != "success":
        raise RuntimeError(f"{log.status}: {getattr(log.error, 'message', '')}")
    [score] = log.results.scores
    accuracy: float = score.metrics["accuracy"].value
    return round(accuracy * count)


def _key(tools: list[Data], sample: Data) -> tuple[int, str]:
    """Return what a call's result is found by: the tool's place, and its arguments as written."""
    call = sample["call"]
    place = next(p for p in sample["tools"] if tools[p]["function"]["name"] == call["name"])
    return place, _written(call["arguments"])


def _written(arguments: Data) -> str:
    return json.dumps(arguments, sort_keys=True)


READERS = {"inspect": make}
