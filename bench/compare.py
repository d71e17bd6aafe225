"""The comparison from a choice to a report: check, estimate, run, write, sum up.

Puts the other modules together and talks to the person at the terminal; measures nothing itself.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import choice as chosen
from bench.choice import Choice
from bench.clients import OpenAIClient, RecordingClient, probe
from bench.manifest import SCRIPTED, make_manifest
from bench.plan import Order, Plan, make_plan
from bench.records import RunFolder, list_runs
from bench.run import Progress, Tally, done_keys, run_all
from bench.show import printable
from bench.status import INCOMPLETE, OK, Interrupted
from bench.types import Client, WorkbenchError

if TYPE_CHECKING:
    from bench.report import Analysis
    from bench.tables import Cost, Rate


@dataclass(frozen=True, slots=True)
class Ending:
    """What a finished run says: a text for the terminal, its report's files, an exit status."""

    text: str
    paths: tuple[Path, ...]
    status: int = OK


@dataclass(frozen=True, slots=True)
class Kind:
    """What differs between the experiments that are run as a comparison is."""

    name: str
    plan: Callable[[Choice, Order], Plan]
    end: Callable[[RunFolder], Ending]
    """Writes the report."""
    more: Callable[[Plan], Mapping[str, Any]] = lambda _: {}
    """What its manifest holds beside a comparison's; the same in every part of a run."""
    command: str = ""
    """What is typed to run it, where that is not its name."""

    def manifest(self, plan: Plan, command: str) -> dict[str, Any]:
        """Write down all that a reader of the run needs."""
        return {**make_manifest(plan, command), **self.more(plan)}


def compare(values: Mapping[str, Any], order: Order, kind: Kind | None = None) -> int:
    """Run a comparison, or go on with one, and write its report; return the exit status."""
    kind = kind or COMPARE
    folder = RunFolder.find(order.results, order.resume) if order.resume else None
    choice = _choice_of(values, folder)
    plan = kind.plan(choice, order)
    if folder is not None:
        _check_same(folder, plan, kind)
        done = done_keys(folder)
        plan = replace(plan, jobs=tuple(job for job in plan.jobs if job.key not in done))
        if not plan.jobs and folder.manifest.get("finished"):
            print(f"{folder.path}: nothing left to do")  # noqa: T201 (the answer)
            return OK
    elif not order.dry_run:
        _tell_of_unfinished(order.results, kind)
    tell(plan.outline())
    if order.dry_run:
        return OK
    if plan.live and plan.jobs and not order.yes:
        confirm()
    return asyncio.run(_run(plan, order, folder, kind))


def _choice_of(values: Mapping[str, Any], folder: RunFolder | None) -> Choice:
    if folder is None:
        return chosen.choice_from(values)
    return chosen.resumed(folder.manifest.get("choice", {}), values, folder.path.name)


def _check_same(folder: RunFolder, plan: Plan, kind: Kind) -> None:
    """Refuse to go on with a run whose tasks, data or settings are no longer the same."""
    stored = folder.manifest
    fresh = kind.manifest(plan, "")
    told = ("mode", "settings", "drivers", "variants", "trials", "tasks", "datasets")
    for name in ("experiment", *told, *kind.more(plan)):
        if stored.get(name) != fresh[name]:
            raise WorkbenchError(
                f"{folder.path.name}: {name} changed since it was begun; start a new run without --resume"
            )
    _check_own(folder, fresh["own"])
    for before, after in zip(stored["endpoints"], fresh["endpoints"], strict=True):
        if {**before, "recorded": 0} != {**after, "recorded": 0}:
            raise WorkbenchError(
                f"{folder.path.name}: endpoint {before['name']} changed; start a new run"
            )


def _check_own(folder: RunFolder, fresh: Mapping[str, Any]) -> None:
    """Refuse to go on where a file of the user's own is another one, or is gone."""
    before = (folder.manifest.get("own") or {}).get("files", {})
    after = fresh.get("files", {})
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            raise WorkbenchError(
                f"{folder.path.name}: {name} changed since it was begun; put it back, or start a new "
                "run without --resume"
            )


# ------------------------------------------------------------ running it


async def _run(plan: Plan, order: Order, folder: RunFolder | None, kind: Kind) -> int:
    try:
        for client in plan.clients if plan.live and plan.jobs else ():
            await probe(_inner(client), plan.settings, order.probe_timeout, tell)
        folder = _open_folder(plan, order, folder, kind)
        tally = await _run_jobs(plan, folder, kind)
    finally:
        for client in plan.clients:
            with suppress(Exception):
                await client.close()
    folder.finish(stops=dict(tally.stops), broken=len(tally.broken))
    return finish(folder, tally, kind)


def _inner(client: Client) -> OpenAIClient:
    """Return the endpoint itself: a first question is no part of a recording."""
    inner = client.inner if isinstance(client, RecordingClient) else client
    assert isinstance(inner, OpenAIClient)  # noqa: S101 (a live plan has no other)
    return inner


def _open_folder(plan: Plan, order: Order, folder: RunFolder | None, kind: Kind) -> RunFolder:
    if folder is None:
        return RunFolder.create(order.results, kind.name, kind.manifest(plan, order.command))
    dropped = folder.resume()
    if dropped:
        tell(f"{folder.path}: a half-written last line ({dropped} bytes) was dropped")
    return folder


async def _run_jobs(plan: Plan, folder: RunFolder, kind: Kind) -> Tally:
    from bench.tools import leave_for  # noqa: PLC0415 (pydantic takes time to load)

    progress = Progress(len(plan.jobs), sys.stderr)
    ask = _ask_leave if plan.live and sys.stdin.isatty() and sys.stderr.isatty() else None
    try:
        return await run_all(
            plan.jobs,
            folder,
            toolbox_for=plan.toolbox_for,
            budget=plan.choice.budget(),
            settings=plan.settings,
            leave=leave_for(plan.choice.allow, ask),
            concurrency=plan.concurrency,
            watch=progress,
        )
    except asyncio.CancelledError:
        raise Interrupted(
            f"stopped; every finished episode is kept. Go on with:\n{_how(folder, kind)}"
        ) from None
    except WorkbenchError as error:
        raise WorkbenchError(f"{error}\nGo on with: {_how(folder, kind)}") from None
    finally:
        progress.end()
        folder.close()


def _how(folder: RunFolder, kind: Kind) -> str:
    return f"    python -m bench {kind.command or kind.name} --resume {folder.path}"


def finish(folder: RunFolder, tally: Tally, kind: Kind) -> int:
    """Write the report, print the summary, and say what is missing."""
    ending = kind.end(folder)
    print(ending.text)  # noqa: T201 (the answer)
    print("\n".join(f"report: {path}" for path in ending.paths))  # noqa: T201
    for line in tally.broken[:5]:
        tell(f"broken off by a fault of the workbench: {line}")
    if tally.missing:
        tell(
            f"{tally.missing} episodes have no outcome; try them again with:\n{_how(folder, kind)}"
        )
    return INCOMPLETE if tally.missing else ending.status


def _plan(choice: Choice, order: Order) -> Plan:
    if not _is_bfcl(choice):
        return make_plan(choice, order)
    from bench.bfcl.run import plan_run  # noqa: PLC0415 (only BFCL's tasks need it)

    return plan_run(choice, order)


def _more(plan: Plan) -> Mapping[str, Any]:
    if not _is_bfcl(plan.choice):
        return {}
    from bench.bfcl.run import describe_data  # noqa: PLC0415 (as above)

    return describe_data(plan)


def _is_bfcl(choice: Choice) -> bool:
    return (choice.tasks or "").startswith("bfcl:")


def _end(folder: RunFolder) -> Ending:
    from bench.report import analyse, write_report  # noqa: PLC0415 (drawing takes time to load)

    analysis = analyse(folder)
    ending = Ending(summarize(analysis), write_report(folder, analysis))
    choice = chosen.choice_from(folder.manifest.get("choice", {}))
    if not _is_bfcl(choice):
        return ending
    from bench.bfcl.run import judge_run  # noqa: PLC0415 (as above)

    told, path = judge_run(folder, choice)
    return Ending(f"{ending.text}\n{told}", (*ending.paths, path))


COMPARE = Kind("compare", _plan, _end, _more)


def _ask_leave(what: str) -> bool:
    print(f"\nThe model wants to run: {what}", file=sys.stderr)  # noqa: T201 (a question)
    return input("Allow it? [y/N] ").strip().lower() in ("y", "yes")


def confirm() -> None:
    """Ask before money is spent, where somebody is there to answer."""
    if not sys.stdin.isatty():
        return
    if input("Start? [Y/n] ").strip().lower() not in ("", "y", "yes"):
        raise Interrupted("nothing was sent")


def tell(text: str) -> None:
    """Say something beside the answer."""
    print(text, file=sys.stderr)  # noqa: T201 (beside the answer)


def _tell_of_unfinished(results: Path, kind: Kind) -> None:
    runs = list_runs(results)
    manifest = RunFolder(runs[-1]).manifest if runs else {}
    if manifest.get("experiment") == kind.name and manifest.get("finished") is None:
        tell(f"{runs[-1].name} is unfinished; --resume {runs[-1].name} goes on with it")


# ------------------------------------------------------------ summary


def summarize(analysis: "Analysis") -> str:
    """Return what ends a run: each endpoint's answer, then a row for each endpoint and driver."""
    from bench.findings import headline, name_way  # noqa: PLC0415 (pandas takes time to load)

    head = ("endpoint", "driver", "success", "parse failures", "wrong picks", "tokens an episode")
    rows: list[tuple[str, ...]] = [head]
    for facts in analysis.facts.values():
        for arm in facts.arms:
            rates = (facts.rate(arm, name) for name in ("success", "parse_failure", "wrong_pick"))
            tokens = _tokens(facts.costs.get((facts.endpoint, arm)))
            rows.append((facts.endpoint, name_way(arm), *map(_share, rates), tokens))
    answers = "\n".join(headline(facts) for facts in analysis.facts.values())
    notes = analysis.manifest.get("notes", ())
    told = "".join(f"{note}\n\n" for note in notes if note.startswith(SCRIPTED))
    return printable(f"{told}{answers}\n\n{_table(rows)}\n".replace("\u00a0", " "))


def _tokens(cost: "Cost | None") -> str:
    """Write prompt and completion tokens; a lower bound where replies came without a count."""
    if cost is None or cost.prompt is None:
        return "–"
    bound = "≥ " if cost.unmetered else ""
    return f"{bound}{cost.prompt + (cost.completion or 0):,.0f}"


def _share(rate: "Rate") -> str:
    return "–" if rate.value is None else f"{rate.top}/{rate.below} ({rate.value:.1%})"


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (map(str.ljust, row, widths) for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)
