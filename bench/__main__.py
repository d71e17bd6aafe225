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
            epilog=_LIVE if add in (_add_compare, _add_experiment, _add_doctor) else None,
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


class _Names(argparse.Action):
    """Names with spaces or commas between them, the option repeated or not."""

    def __call__(self, _: Any, namespace: Any, values: Any, __: Any = None) -> None:
        names = [name for value in values for name in value.split(",") if name]
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), *names])


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", metavar="DIR", type=Path, help="where run folders are")


def _add_compare(parser: argparse.ArgumentParser) -> None:
    _add_what(parser.add_argument_group("what is run"))
    _add_where(parser.add_argument_group("which model"))
    how = parser.add_argument_group("how it is asked")
    _add_settings(how)
    _add_how(how)
    keeping = parser.add_argument_group("what is kept")
    keeping.add_argument(
        "--resume", metavar="RUN", help="go on with a run that was broken off; latest: the newest"
    )
    _add_keeping(keeping)


def _add_experiment(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what is run")
    what.add_argument(
        "--count", type=_count, metavar="N", default=20, help="questions of each kind (default: 20)"
    )
    _add_where(parser.add_argument_group("which model"))
    _add_settings(parser.add_argument_group("how it is asked"))
    _add_keeping(parser.add_argument_group("what is kept"))


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    _add_where(parser.add_argument_group("which model"))
    how = parser.add_argument_group("how it is asked")
    _add_settings(how)
    how.add_argument(
        *("--context",),
        type=_whole,
        metavar="N",
        default=5000,
        help="try a prompt of about N tokens (default: 5000; 0: don't)",
    )
    keeping = parser.add_argument_group("what is kept")
    keeping.add_argument("--json", action="store_true", help="print the findings as JSON")
    _add_record(keeping)


def _add_endpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        *("--profile",),
        metavar="NAME",
        default="strict",
        help="whose rules it plays, or a .json file (default: strict, stricter than any)",
    )
    parser.add_argument("--port", type=_whole, metavar="N", default=8089, help="(default: 8089)")
    parser.add_argument(
        "--script", metavar="FILE", type=Path, help="answers and faults, JSON Lines or a list"
    )
    parser.add_argument("--key", help="the only key taken (default: any)")
    parser.add_argument("--window", type=_count, metavar="N", help="context, in tokens")
    parser.add_argument(
        "--latency", type=float, metavar="S", default=0.0, help="seconds before every answer"
    )


def _add_what(group: Any) -> None:
    names: dict[str, Any] = {"nargs": "+", "action": _Names}
    group.add_argument(
        *("--drivers",),
        **names,
        help="react, native, react/call, react/bracket, each also with @strict or @rescue "
        "(default: react native)",
    )
    group.add_argument("--category", **names, help="only tasks of these categories")
    group.add_argument("--lang", **names, help="only tasks of these languages: en, zh")
    group.add_argument("--task", **names, help="only these tasks or pairs")
    group.add_argument(
        *("--limit",),
        type=_count,
        metavar="N",
        help="only N tasks: the first pair of every category, then the second, and so on",
    )
    group.add_argument("--toolset", metavar="NAME", help="offer this toolset in every task, or all")
    group.add_argument("--variant", **names, help="description variants (default: full)")
    group.add_argument("--trials", type=_count, metavar="N", help="repeat every episode N times")
    group.add_argument("--dialect", help="form of a ReAct action: json, call, bracket")
    group.add_argument("--level", help="how much the reader mends: strict, hardened, rescue")
    group.add_argument(
        *("--no-example",),
        dest="example",
        action="store_false",
        default=None,
        help="leave the worked example out of the ReAct prompt",
    )


def _add_where(group: Any) -> None:
    group.add_argument("--model", help="ask this model (LLM_MODEL)")
    group.add_argument(
        "--base-url",
        metavar="URL",
        help="address of the API, or a name such as ollama (LLM_BASE_URL, OPENAI_BASE_URL)",
    )
    group.add_argument("--api-key", metavar="KEY", help="(LLM_API_KEY, OPENAI_API_KEY)")
    group.add_argument(
        *("--endpoint",),
        action="append",
        metavar="NAME=URL,MODEL",
        help="a live endpoint, several side by side if repeated (its own key: LLM_API_KEY_NAME); "
        "a bare NAME is a recorded one",
    )
    group.add_argument(
        *("--replay",), action="append", metavar="FILE", help="ask no model: replay this recording"
    )


def _add_settings(group: Any) -> None:
    group.add_argument("--temperature", type=float, metavar="T", help="(default: 0)")
    group.add_argument(
        "--max-tokens", type=_count, metavar="N", help="of a reply (default: 1024; 256 if short)"
    )
    group.add_argument("--seed", type=int, metavar="N", help="send a seed (default: none)")
    group.add_argument("--reasoning-effort", metavar="WORD", help="of a reasoning model")
    group.add_argument("--extra-body", metavar="JSON", help="further fields of every request")
    group.add_argument(
        *("--header",), action="append", default=[], metavar="NAME=VALUE", help="a further header"
    )
    group.add_argument(
        "--profile", metavar="NAME", help="what the endpoint takes (default: by its host)"
    )
    group.add_argument("--timeout", type=float, metavar="S", help="of a request (default: 300 s)")
    group.add_argument("--concurrency", type=_count, metavar="N", help="how much goes on at once")
    group.add_argument(
        "--probe-timeout", type=float, metavar="S", default=10.0, help=argparse.SUPPRESS
    )


def _add_how(group: Any) -> None:
    group.add_argument(
        "--stream", action=argparse.BooleanOptionalAction, default=None, help="stream"
    )
    group.add_argument(
        *("--stop-early",),
        action="store_true",
        default=None,
        help="with --stream: hang up on a ReAct reply that is read for good; its token counts are "
        "then lower bounds",
    )
    group.add_argument("--steps", type=_count, metavar="N", help="replies an episode (default: 8)")
    group.add_argument(
        "--corrections", type=_whole, metavar="N", help="corrections an episode (default: 2)"
    )
    group.add_argument(
        *("--allow",),
        nargs="+",
        action=_Names,
        metavar="TOOL",
        help="let these tools change things without asking",
    )


def _add_keeping(group: Any) -> None:
    group.add_argument("--results", metavar="DIR", type=Path, help="where run folders go")
    _add_record(group)
    group.add_argument("--yes", action="store_true", help="don't ask before a live run")
    group.add_argument("--dry-run", action="store_true", help="say what would be run, and stop")


def _add_record(group: Any) -> None:
    group.add_argument(
        *("--record",),
        metavar="FILE",
        type=Path,
        help="keep the replies in a .jsonl or .jsonl.gz file, or go on with one",
    )
    group.add_argument(
        *("--note",),
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a fact for the recording's manifest: server, chat template, quantisation",
    )


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def _whole(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder, its name, or latest")
    parser.add_argument("task", metavar="TASK", help="a task or a pair")
    parser.add_argument("--driver", default="", help="only this driver")
    parser.add_argument("--endpoint", default="", help="only this endpoint")
    _add_results(parser)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder, its name, or latest")
    _add_results(parser)


def _add_lint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="a JSON file of tools, a module, module:function, or a bundled toolset",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def _add_league(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "cases", nargs="*", type=Path, metavar="CASES", help="JSONL files (default: the bundled)"
    )
    parser.add_argument("--tools", type=Path, metavar="FILE", help="the tools of the cases, JSON")
    parser.add_argument(
        "--peers", type=Path, metavar="DIR", help="the peers' environments (default: .peers)"
    )
    _add_results(parser)


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    del parser


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
    "compare": (_add_compare, _run_compare, "run both ways on the tasks and write a report"),
    "doctor": (
        _add_doctor,
        _run_doctor,
        "find out in about a dozen requests why an endpoint calls no tool, and what to change",
    ),
    "pairing": (
        _add_experiment,
        _run_experiment("pairing"),
        (
            "see what becomes of calls and results that don't belong together; with --profile NAME "
            "or all and no model: against the strict endpoint"
        ),
    ),
    "choice": (
        _add_experiment,
        _run_experiment("choice"),
        "see whether tool_choice and parallel_tool_calls are honoured, ignored or refused",
    ),
    "streaming": (
        _add_experiment,
        _run_experiment("streaming"),
        "see whether a streamed answer is the plain one, and what it takes",
    ),
    "endpoint": (
        _add_endpoint,
        _run_endpoint,
        "serve the strict endpoint on this machine, to test an agent against",
    ),
    "lint": (_add_lint, _run_lint, "check descriptions of tools; each finding says what to write"),
    "league": (_add_league, _run_league, "compare our readers with other projects' on the cases"),
    "tasks": (_add_nothing, _run_tasks, "check every task: gold must score 1, damaged gold 0"),
    "list": (_add_results, _run_list, "list experiments, recordings and runs"),
    "show": (_add_show, _run_show, "show the episodes of a task: messages, replies, readings"),
    "report": (_add_report, _run_report, "write a run's report again"),
}


if __name__ == "__main__":
    sys.exit(main())
