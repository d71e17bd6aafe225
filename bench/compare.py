"""The comparison from a choice to a report: check, estimate, run, write, sum up.

Puts the other modules together and talks to the person at the terminal; measures nothing itself.
"""

import asyncio
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import choice as chosen
from bench import resume, secret
from bench.choice import Choice
from bench.clients import OpenAIClient, RecordingClient, probe
from bench.limits import Tokens, UsedUp
from bench.manifest import SCRIPTED, make_manifest
from bench.plan import Order, Plan, make_plan, record
from bench.records import RunFolder, json_lines
from bench.run import Progress, Tally, kept_stops, run_all
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
    folder = resume.find_run(order, kind.name)
    order = resume.recorded_into(folder, order)
    plan = kind.plan(_choice_of(values, folder), order)
    if folder is None:
        return _start(plan, order, kind)
    try:
        return _go_on(plan, order, folder, kind)
    finally:
        folder.close()


def _start(plan: Plan, order: Order, kind: Kind) -> int:
    unfinished = None if order.dry_run else resume.tell_of_unfinished(order.results, kind.name)
    if unfinished:
        tell(unfinished)
    return _ask_and_run(plan, order, None, kind, Counter())


def _go_on(plan: Plan, order: Order, folder: RunFolder, kind: Kind) -> int:
    _check_same(folder, plan, kind)
    rest, kept = _leave_out_kept(plan, folder)
    finished = folder.manifest.get("finished")
    if not order.dry_run and (rest.jobs or not finished):
        hold(folder)
        rest, kept = _leave_out_kept(plan, folder)  # again: nobody else writes to it from now on
        finished = folder.manifest.get("finished")
    if finished and not rest.jobs:
        print(f"{folder.path}: nothing left to do")  # noqa: T201 (the answer)
        return OK
    tell(f"{folder.path}: {kept.total()} of {len(plan.jobs)} episodes are kept")
    return _ask_and_run(rest, order, folder, kind, kept)


def _ask_and_run(
    plan: Plan,
    order: Order,
    folder: RunFolder | None,
    kind: Kind,
    kept: Counter[str],
) -> int:
    """Say what will be run, ask whether it shall be, run it, and report; `kept`: stops so far."""
    _take_stock(plan, folder)
    tell(plan.outline())
    if order.dry_run:
        return OK
    if plan.live and plan.jobs and not order.yes:
        confirm()
    plan = record(plan, order)
    made, tally = asyncio.run(_run(plan, order, folder, kind))
    with resume.saying_how(made, _how(made, kind)):
        return _end_run(plan, made, tally, kind, kept)


def _choice_of(values: Mapping[str, Any], folder: RunFolder | None) -> Choice:
    if folder is None:
        return chosen.choice_from(values)
    return chosen.resumed(folder.manifest.get("choice", {}), values, folder.path.name)


def _leave_out_kept(plan: Plan, folder: RunFolder) -> tuple[Plan, Counter[str]]:
    """Leave out the episodes that need not be run again; return also how those stopped."""
    kept = kept_stops(folder)
    jobs = tuple(job for job in plan.jobs if job.key not in kept)
    return replace(plan, jobs=jobs), Counter(kept.values())


def hold(folder: RunFolder) -> None:
    """Take a folder for writing; say what a kill left half-written."""
    dropped = folder.resume()
    if dropped:
        tell(f"{folder.path}: a half-written last line ({dropped} bytes) was dropped")


def _check_same(folder: RunFolder, plan: Plan, kind: Kind) -> None:
    """Refuse to go on with a run whose tasks, data or settings are no longer the same."""
    fresh = secret.hide_value(kind.manifest(plan, ""))
    told = ("mode", "settings", "drivers", "variants", "trials", "tasks", "golds", "datasets")
    _check_own(folder, fresh["own"])
    resume.refuse_changes(folder, fresh, (*told, *kind.more(plan), "endpoints"))


def _check_own(folder: RunFolder, fresh: Mapping[str, Any]) -> None:
    """Refuse to go on where a file of the user's own is another one, or is gone."""
    before = (folder.manifest.get("own") or {}).get("files", {})
    after = fresh.get("files", {})
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            raise WorkbenchError(
                f"{folder.path.name}: {name} {resume.CHANGED}; put it back, {resume.NEW_RUN}"
            )


def _take_stock(plan: Plan, folder: RunFolder | None) -> None:
    """Let the budget know what an episode takes, and what the run has used so far."""
    plan.expect()
    if folder is not None and plan.live:
        plan.spending.add_earlier(*_used_before(folder))


def _used_before(folder: RunFolder) -> tuple[Tokens, int]:
    """Return what a run has used, in how many episodes.

    The manifest's count holds what was cut, too; a run that was killed since has more by its lines.
    """
    used, episodes = Tokens(), 0
    for line in json_lines(folder.path / "episodes.jsonl"):
        episodes += 1
        for turn in line["turns"]:
            used += _tokens_of(turn["reply"].get("usage", {}))
    noted = _tokens_of(folder.manifest.get("spent", {}))
    return max(used, noted, key=lambda tokens: tokens.total), episodes


def _tokens_of(usage: Mapping[str, Any]) -> Tokens:
    return Tokens(usage.get("prompt") or 0, usage.get("completion") or 0)


# ------------------------------------------------------------ running it


async def _run(
    plan: Plan, order: Order, folder: RunFolder | None, kind: Kind
) -> tuple[RunFolder, Tally]:
    """Run what is left; return the folder, which is still held."""
    try:
        with suppress(UsedUp):  # the run then says so
            for client in plan.clients if plan.live and plan.jobs else ():
                await probe(_inner(client), plan.settings, order.probe_timeout, tell)
        folder = _open_folder(plan, order, folder, kind)
        return folder, await _run_jobs(plan, folder, kind)
    finally:
        for client in plan.clients:
            with suppress(Exception):
                await client.close()


def _end_run(
    plan: Plan, folder: RunFolder, tally: Tally, kind: Kind, kept: Mapping[str, int]
) -> int:
    """Report, and then note the end: who is killed before that finds the run unfinished."""
    if tally.left:
        return _stop(plan, folder, tally, kind)
    folder.end(stops=dict(tally.stops + Counter(kept)), broken=len(tally.broken))
    status = finish(folder, tally, kind, tuple(_overloads(plan)))
    folder.finish()
    return status


def _inner(client: Client) -> OpenAIClient:
    """Return the endpoint itself: a first question is no part of a recording."""
    inner = client.inner if isinstance(client, RecordingClient) else client
    assert isinstance(inner, OpenAIClient)  # noqa: S101 (a live plan has no other)
    return inner


def _open_folder(plan: Plan, order: Order, folder: RunFolder | None, kind: Kind) -> RunFolder:
    if folder is None:
        into = {} if order.record is None else {"record": str(order.record)}
        manifest = {**kind.manifest(plan, order.command), **into}
        return RunFolder.create(order.results, kind.name, manifest)
    folder.write_manifest(
        {**resume.note_resumed(folder.manifest, order.command), **_limits_of(plan)}
    )
    return folder


def _limits_of(plan: Plan) -> dict[str, Any]:
    """Return the limits as the manifest holds them: they may be said otherwise each time."""
    choice = chosen.to_manifest(plan.choice, plan.endpoints)
    return {"choice": choice, "timeout": plan.choice.timeout, "concurrency": plan.concurrency}


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
            spending=plan.spending,
        )
    except asyncio.CancelledError:
        folder.close()
        raise Interrupted(
            f"stopped; every finished episode is kept. Go on with:\n    {_how(folder, kind)}"
        ) from None
    except WorkbenchError as error:
        folder.close()
        raise WorkbenchError(f"{error}; go on with: {_how(folder, kind)}") from None
    finally:
        progress.end()
        with suppress(WorkbenchError):
            _note_use(plan, folder)


def _note_use(plan: Plan, folder: RunFolder) -> None:
    """Keep how often each endpoint was asked, whether that was too often, and what was used."""
    if not plan.live:
        return
    manifest, used = folder.manifest, plan.spending.used
    asked = manifest.get("asked", {})
    for client in plan.clients:
        asked[client.name] = _inner(client).gate.describe(asked.get(client.name, {}))
    spent = {"prompt": round(used.prompt), "completion": round(used.completion)}
    folder.write_manifest({**manifest, "asked": asked, "spent": spent})


def _overloads(plan: Plan) -> Iterator[str]:
    """Yield a line for each endpoint that was asked too much."""
    for client in plan.clients if plan.live else ():
        gate = _inner(client).gate
        if gate.overloads:
            yield (
                f"{client.name} was asked too much {gate.overloads} times (429, 503 or 529); requests in "
                f"flight went down to {gate.lowest}"
            )


def _stop(plan: Plan, folder: RunFolder, tally: Tally, kind: Kind) -> int:
    """Report what a run has that a limit stopped, and say how it goes on."""
    try:
        finish(folder, tally, kind, tuple(_overloads(plan)))
    except WorkbenchError as error:  # so little of a run has no report
        tell(str(error))
    tell(
        f"{plan.spending.tell()}; {tally.left} episodes are left, every finished one is kept. Go on with:\n"
        f"    {_how(folder, kind)} {plan.spending.suggest(tally.left)}"
    )
    return INCOMPLETE


def _how(folder: RunFolder, kind: Kind) -> str:
    path = shlex.quote(str(folder.path))
    return f"python -m bench {kind.command or kind.name} --resume {path}"


def finish(folder: RunFolder, tally: Tally, kind: Kind, notes: Sequence[str] = ()) -> int:
    """Write the report, print the summary, and say what is missing; `notes` are told as they are."""
    ending = kind.end(folder)
    print(ending.text)  # noqa: T201 (the answer)
    print("\n".join(f"report: {path}" for path in ending.paths))  # noqa: T201
    for note in notes:
        tell(note)
    for line in tally.broken[:5]:
        tell(f"broken off by a fault of the workbench: {line}")
    if tally.missing:
        tell(
            f"{tally.missing} episodes have no outcome; try them again with:\n    {_how(folder, kind)}"
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
