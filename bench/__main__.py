"""The command line: arguments in, one function call, an exit status out.

Nothing else is imported before a command is known, so that `--help` answers at once.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from bench import arguments
from bench.status import FAULT, FOUND, INTERRUPTED, MEANINGS, MISTAKE, OK, Interrupted

TRACE = "WORKBENCH_TRACE"
_LIVE = """\
live or recorded:
  A run asks a model only if one is named, with --model or LLM_MODEL; else it replays recorded
  replies of real models, whatever keys the shell holds. The address is --base-url, LLM_BASE_URL or
  OPENAI_BASE_URL, the key --api-key, LLM_API_KEY or OPENAI_API_KEY, in this order.
"""


class _UsageError(Exception):
    """Words that are no command line."""


class _Parser(argparse.ArgumentParser):
    """One line for a mistake, as everywhere else."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        options = _parser().parse_args(_with_command(words))
    except _UsageError as error:
        return _say(str(error), MISTAKE, words)
    options.command_line = words
    return _run(options, words)


def _run(options: argparse.Namespace, words: Sequence[str]) -> int:
    from bench.types import WorkbenchError  # noqa: PLC0415 (a command is known now)

    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except WorkbenchError as error:
        return _say(str(error), MISTAKE, words)
    except Interrupted as stop:
        return _say(str(stop), INTERRUPTED, words)
    except KeyboardInterrupt:
        return _say("stopped; what was finished is kept", INTERRUPTED, words)
    except BrokenPipeError:
        # what reads our output has gone; Python would complain once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if os.environ.get(TRACE):
            raise
        kind = type(error).__name__
        return _say(
            f"a fault of the workbench: {kind}: {error} ({TRACE}=1 shows where)", FAULT, words
        )
    return status


def _say(text: str, status: int, words: Sequence[str]) -> int:
    from bench.show import printable  # noqa: PLC0415 (only when something went wrong)

    print(f"bench: {hide_keys(printable(text), words)}", file=sys.stderr)
    return status


def hide_keys(text: str, words: Sequence[str]) -> str:
    """Take every key that this command was given out of a text."""
    keys = [value for name, value in os.environ.items() if name.endswith("_API_KEY")]
    for before, word in pairwise(["", *words]):
        if before == "--api-key" or word.startswith("--api-key="):
            keys.append(word.removeprefix("--api-key="))
        if before == "--header" or word.startswith("--header="):
            keys.append(word.removeprefix("--header=").partition("=")[2])
    for key in keys:
        text = text.replace(key, "[key]") if len(key) >= 6 else text
    return text


def _with_command(words: list[str]) -> list[str]:
    """Put in the command that is meant where none is said."""
    top = {"-h", "--help", "--version"}
    said = bool(words) and (not words[0].startswith("-") or words[0] in top)
    return words if said else ["compare", *words]


# ------------------------------------------------------------ the parsers


def _parser() -> argparse.ArgumentParser:
    statuses = "\n".join(f"  {status:>3}  {meaning}" for status, meaning in MEANINGS.items())
    parser = _Parser(
        prog="python -m bench",
        description="Compare ReAct text with native tool calls, for your model and endpoint.",
        epilog=f"{_LIVE}\nexit status:\n{statuses}\n\nWithout a command: compare.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (add, run, about) in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=about,
            description=about,
            epilog=_LIVE
            if add in (arguments.add_compare, arguments.add_experiment, arguments.add_doctor)
            else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add(command)
        command.set_defaults(run=run)
    return parser


class _Version(argparse.Action):
    def __call__(self, *_: Any) -> NoReturn:
        from bench.records import version_of  # noqa: PLC0415 (only here)

        print(version_of("toolcall-workbench"))
        raise SystemExit(OK)


# ------------------------------------------------------------ the commands


def _results(options: argparse.Namespace) -> Path:
    from bench.paths import default_results  # noqa: PLC0415 (a command is known now)

    return vars(options).get("results") or default_results()


def _run_compare(options: argparse.Namespace) -> int:
    from bench.compare import compare  # noqa: PLC0415 (a command is known now)

    return compare(vars(options), _order(options))


def _order(options: argparse.Namespace) -> Any:
    from bench.plan import Order  # noqa: PLC0415 (a command is known now)

    said = vars(options)
    return Order(
        results=_results(options),
        yes=said.get("yes", False),
        dry_run=said.get("dry_run", False),
        record=options.record,
        notes=tuple(options.note),
        headers=tuple(options.header),
        api_key=options.api_key,
        resume=said.get("resume"),
        probe_timeout=options.probe_timeout,
        command=_command(options.command_line),
    )


def _run_experiment(name: Any) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        from bench.experiments import run_experiment  # noqa: PLC0415 (a command is known now)

        return run_experiment(name, vars(options), _order(options), options.count)

    return run


def _run_doctor(options: argparse.Namespace) -> int:
    from bench.doctor import examine  # noqa: PLC0415 (a command is known now)

    order = _order(options)
    return examine(vars(options), order, context=options.context, as_json=options.json)


def _run_endpoint(options: argparse.Namespace) -> int:
    from bench.endpoint import run_endpoint  # noqa: PLC0415 (an extra)

    answered = run_endpoint(
        options.profile,
        options.port,
        options.script,
        key=options.key,
        window=options.window,
        latency=options.latency,
        announce=lambda line: print(line, flush=True),
    )
    print(f"requests answered: {answered}")
    return OK


def _command(words: Sequence[str]) -> str:
    return hide_keys(shlex.join(["python", "-m", "bench", *words]), words)


def _run_tasks(options: argparse.Namespace) -> int:  # noqa: ARG001 (a command's shape)
    from bench.check import check_tasks  # noqa: PLC0415 (a command is known now)
    from bench.tasks import load_tasks  # noqa: PLC0415

    check = check_tasks(load_tasks())
    print(f"{check.tasks} tasks; gold that scores 1: {check.gold_right}; ", end="")
    print(f"damaged gold that scores 0: {check.damaged_wrong} of {check.damaged}")
    for problem in check.problems:
        print(problem)
    return FOUND if check.problems else OK


def _run_lint(options: argparse.Namespace) -> int:
    from bench.lint import run_lint  # noqa: PLC0415 (a command is known now)

    return run_lint(options.target, as_json=options.json)


def _run_league(options: argparse.Namespace) -> int:
    from bench.league import run_league  # noqa: PLC0415 (a command is known now)

    written = run_league(
        options.cases,
        tools=options.tools,
        peers=options.peers,
        results=_results(options),
        tell=print,
    )
    for path in written:
        print(path)
    return OK


def _run_list(options: argparse.Namespace) -> int:
    from bench.paths import find_datasets  # noqa: PLC0415 (a command is known now)
    from bench.show import list_everything  # noqa: PLC0415

    for line in list_everything(_results(options), find_datasets() / "recordings"):
        print(line)
    return OK


def _run_show(options: argparse.Namespace) -> int:
    from bench.records import RunFolder  # noqa: PLC0415 (a command is known now)
    from bench.show import show_task  # noqa: PLC0415

    folder = RunFolder.find(_results(options), options.folder)
    for text in show_task(folder, options.task, arm=options.driver, endpoint=options.endpoint):
        print(text)
    return OK


def _run_report(options: argparse.Namespace) -> int:
    from bench.records import RunFolder  # noqa: PLC0415 (a command is known now)

    folder = RunFolder.find(_results(options), options.folder)
    for path in _write_report(folder):
        print(path)
    return OK


def _write_report(folder: Any) -> tuple[Path, Path]:
    """Write the report of a run's own kind."""
    if folder.manifest.get("experiment", "compare") == "compare":
        from bench.report import write_report  # noqa: PLC0415 (drawing takes time to load)

        return write_report(folder)
    from bench.wire_report import write_wire_report  # noqa: PLC0415

    return write_wire_report(folder)


_Command = tuple[
    Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int], str
]
_COMMANDS: dict[str, _Command] = {
    "compare": (
        arguments.add_compare,
        _run_compare,
        "run both ways on the tasks and write a report",
    ),
    "doctor": (
        arguments.add_doctor,
        _run_doctor,
        "find out in about a dozen requests why an endpoint calls no tool, and what to change",
    ),
    "pairing": (
        arguments.add_experiment,
        _run_experiment("pairing"),
        (
            "see what becomes of calls and results that don't belong together; with --profile NAME "
            "or all and no model: against the strict endpoint"
        ),
    ),
    "choice": (
        arguments.add_experiment,
        _run_experiment("choice"),
        "see whether tool_choice and parallel_tool_calls are honoured, ignored or refused",
    ),
    "streaming": (
        arguments.add_experiment,
        _run_experiment("streaming"),
        "see whether a streamed answer is the plain one, and what it takes",
    ),
    "endpoint": (
        arguments.add_endpoint,
        _run_endpoint,
        "serve the strict endpoint on this machine, to test an agent against",
    ),
    "lint": (
        arguments.add_lint,
        _run_lint,
        "check descriptions of tools; each finding says what to write",
    ),
    "league": (
        arguments.add_league,
        _run_league,
        "compare our readers with other projects' on the cases",
    ),
    "tasks": (
        arguments.add_nothing,
        _run_tasks,
        "check every task: gold must score 1, damaged gold 0",
    ),
    "list": (arguments.add_results, _run_list, "list experiments, recordings and runs"),
    "show": (
        arguments.add_show,
        _run_show,
        "show the episodes of a task: messages, replies, readings",
    ),
    "report": (arguments.add_report, _run_report, "write a run's report again"),
}


if __name__ == "__main__":
    sys.exit(main())
