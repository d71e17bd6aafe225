"""The command line: arguments in, one function call, an exit status out.

Nothing else is imported before a command is known, so that `--help` answers at once.
"""

import argparse
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from errno import EACCES, EDQUOT, ELOOP, ENAMETOOLONG, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path
from typing import Any, NoReturn

from bench import arguments, secret
from bench.status import FAULT, FOUND, INTERRUPTED, MEANINGS, MISTAKE, OK, Interrupted
from bench.terminal import LONGEST, guarded

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
    with secret.forgetting(), guarded():
        secret.know_environment(os.environ)
        secret.know_words(words)
        return _main(words)


def _main(words: list[str]) -> int:
    said = _with_command(words)
    try:
        options = _parser().parse_args(said)
    except _UsageError as error:
        return _say(str(error), MISTAKE)
    options.config_words = said
    options.command_line = words
    try:
        return _run(options)
    finally:
        _close_servers()


def _close_servers() -> None:
    """End the MCP servers that a command's tools started."""
    tools = sys.modules.get("bench.mcp_tools")  # loaded only where tools are the user's own
    if tools is not None:
        tools.close_servers()


def _run(options: argparse.Namespace) -> int:
    from bench.texts import speaking  # noqa: PLC0415 (a command is known now)
    from bench.types import WorkbenchError  # noqa: PLC0415 (a command is known now)

    try:
        _take_config(options)
        _refuse_nul(options)
        secret.know_options(vars(options))
        with speaking(vars(options).get("report_lang") or "en"):
            status: int = options.run(options)
        sys.stdout.flush()
    except WorkbenchError as error:
        return _say(str(error), MISTAKE)
    except Interrupted as stop:
        return _say(str(stop), INTERRUPTED)
    except KeyboardInterrupt:
        return _say("stopped; what was finished is kept", INTERRUPTED)
    except BrokenPipeError:
        # what reads our output has gone; Python would complain once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (RecursionError, UnicodeEncodeError, MemoryError) as error:
        return _say(f"what was read can't be worked with ({_why(error)})", MISTAKE)
    except OSError as error:
        if error.errno not in _OUTSIDE:
            return _fault(error)
        return _say(f"{str(error.filename or '')[:200]}: {error.strerror}", MISTAKE)
    except Exception as error:  # noqa: BLE001 (a traceback is no answer to a user)
        return _fault(error)
    return status


_OUTSIDE = (ENOSPC, EDQUOT, EACCES, EPERM, EROFS, ENAMETOOLONG, ENOTDIR, ELOOP)
"""What no program can help: a full disk, a place that is not ours, a name that is none."""


def _fault(error: Exception) -> int:
    if os.environ.get(TRACE):
        traceback.print_exc()
    kind = type(error).__name__
    return _say(f"a fault of the workbench: {kind}: {error} ({TRACE}=1 shows where)", FAULT)


def _refuse_nul(options: argparse.Namespace) -> None:
    """Refuse what a file of options can say, but no name of a file can hold."""
    from bench.types import WorkbenchError  # noqa: PLC0415 (a command is known now)

    for name, value in vars(options).items():
        if any("\0" in str(item) for item in (value if isinstance(value, list) else [value])):
            raise WorkbenchError(f"--{name.replace('_', '-')}: holds a NUL character; take it out")


def _why(error: Exception) -> str:
    if os.environ.get(TRACE):
        traceback.print_exc()
    match error:
        case RecursionError():
            return "it is nested too deeply"
        case MemoryError():
            return "it does not fit into memory"
    return f"half of a surrogate pair: {error}"


def _take_config(options: argparse.Namespace) -> None:
    """Let a file of options speak where no flag does."""
    from bench.config import apply_config, find_config  # noqa: PLC0415 (a command is known now)

    said = vars(options).get("config")
    options.config = None
    path = find_config(said) if options.config_words[0] != "init" else None
    if path is not None:
        commands = {name: _configured(_COMMANDS[name][0]) for name in _CONFIGURED}
        apply_config(options, options.config_words, path, commands)


def _configured(add: Callable[[argparse.ArgumentParser], None]) -> Any:
    """Return what adds a command's flags, with those that every command has."""

    def add_all(parser: argparse.ArgumentParser) -> None:
        add(parser)
        arguments.add_secret(parser)

    return add_all


def _say(text: str, status: int) -> int:
    text = secret.hide(text)  # before it is cut: half a key would not be found
    told = text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
    print(f"bench: {told}", file=sys.stderr)
    return status


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
            if add
            in (
                arguments.add_compare,
                arguments.add_experiment,
                arguments.add_doctor,
                arguments.add_lint,
                arguments.add_ab,
            )
            else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add(command)
        arguments.add_config(command)
        arguments.add_secret(command)
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


def _run_descriptions(options: argparse.Namespace) -> int:
    from bench.lab.descriptions import run_descriptions  # noqa: PLC0415 (a command is known now)

    return run_descriptions(vars(options), _order(options))


def _run_ab(options: argparse.Namespace) -> int:
    from bench.lab.ab import run_ab  # noqa: PLC0415 (a command is known now)

    return run_ab(options.old, options.new, vars(options), _order(options))


def _run_exercise(options: argparse.Namespace) -> int:
    from bench.exercises import list_exercises, run_exercise  # noqa: PLC0415 (as above)

    if options.list or options.name is None:
        print("\n".join(list_exercises()))
        return OK
    return run_exercise(options.name, vars(options), _order(options))


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
    return shlex.join(["python", "-m", "bench", *secret.mask(words)])


def _run_init(options: argparse.Namespace) -> int:
    from bench.init import init  # noqa: PLC0415 (a command is known now)

    for line in init(options.folder):
        print(line)
    return OK


def _run_tasks(options: argparse.Namespace) -> int:
    if (options.tasks or "").startswith("bfcl:"):
        return _run_bfcl_tasks(options)
    from bench.check import check_tasks  # noqa: PLC0415 (a command is known now)
    from bench.choice import choice_from  # noqa: PLC0415
    from bench.own import load_own  # noqa: PLC0415
    from bench.own.check import check_own  # noqa: PLC0415
    from bench.tasks import load_tasks  # noqa: PLC0415

    own = load_own(choice_from({name: vars(options).get(name) for name in ("tools", "tasks")}))
    check = check_own(own) if own else check_tasks(load_tasks())
    print(f"{check.tasks} tasks; gold that scores 1: {check.gold_right}; ", end="")
    print(f"damaged gold that scores 0: {check.damaged_wrong} of {check.damaged}")
    for problem in check.problems:
        print(problem)
    return FOUND if check.problems else OK


def _run_bfcl_tasks(options: argparse.Namespace) -> int:
    from bench.bfcl.data import find_source, read_categories  # noqa: PLC0415 (a command is known now)
    from bench.bfcl.replay import run_replay  # noqa: PLC0415

    source = find_source(Path(options.bfcl) if options.bfcl else None)
    return run_replay(source, read_categories([options.tasks]), print)


def _run_lint(options: argparse.Namespace) -> int:
    from bench.lint import find_sources, run_lint  # noqa: PLC0415 (a command is known now)
    from bench.types import WorkbenchError  # noqa: PLC0415

    targets = [*options.targets, *(options.tools or ())]
    if not targets:
        raise WorkbenchError("lint: name tools: a file, module:function, or a bundled toolset")
    status = max(run_lint(target, as_json=options.json) for target in targets)
    if not options.ask:
        return status
    from bench.lab.ask import run_ask  # noqa: PLC0415 (it loads the readers)

    values = {name: value for name, value in vars(options).items() if name != "tools"}
    sources = [source for target in targets for source in find_sources(target)]
    asked = run_ask(sources, options.questions, values, _order(options), options.count)
    return asked or status


def _run_rescore(options: argparse.Namespace) -> int:
    """Rescore a run; other people's conversations where --format names their form."""
    if options.format is None:
        return _rescore_run(options)
    from bench.transcripts import run_transcripts  # noqa: PLC0415 (a command is known now)

    return run_transcripts(
        Path(options.target),
        options.format,
        bfcl=Path(options.bfcl) if options.bfcl else None,
        tools=options.tools or (),
        as_json=options.json,
        tell=print,
    )


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
    from bench.blame import blaming  # noqa: PLC0415 (a command is known now)
    from bench.records import RunFolder  # noqa: PLC0415 (a command is known now)
    from bench.show import show_task  # noqa: PLC0415

    folder = RunFolder.find(_results(options), options.folder)
    with blaming(folder):
        for text in show_task(folder, options.task, arm=options.driver, endpoint=options.endpoint):
            print(text)
    return OK


def _run_report(options: argparse.Namespace) -> int:
    from bench.blame import blaming  # noqa: PLC0415 (a command is known now)
    from bench.records import RunFolder  # noqa: PLC0415 (a command is known now)

    folders = [RunFolder.find(_results(options), name) for name in options.runs]
    with blaming(*folders):
        if len(folders) == 1 and options.out is None:
            paths = _write_report(folders[0])
        else:
            from bench.report import write_together  # noqa: PLC0415 (drawing takes time to load)

            paths = write_together(folders, options.out or _results(options) / "side-by-side")
    for path in paths:
        print(path)
    return OK


_REPORTS = {
    "compare": ("bench.report", "write_report"),
    "descriptions": ("bench.lab.report", "write_lab_report"),
    "ab": ("bench.lab.ab_report", "write_ab_report"),
    "exercise": ("bench.exercises.report", "write_exercise_report"),
}
"""What writes a run's report, by what its experiment's name begins with; else the wire's."""


def _write_report(folder: Any) -> tuple[Path, Path]:
    """Write the report of a run's own kind."""
    from importlib import import_module  # noqa: PLC0415 (drawing takes time to load)

    kind = folder.manifest.get("experiment", "compare").partition("-")[0]
    module, name = _REPORTS.get(kind, ("bench.wire_report", "write_wire_report"))
    paths: tuple[Path, Path] = getattr(import_module(module), name)(folder)
    return paths


def _rescore_run(options: argparse.Namespace) -> int:
    from bench.blame import blaming  # noqa: PLC0415 (a command is known now)
    from bench.records import RunFolder  # noqa: PLC0415 (a command is known now)
    from bench.rescore import rescore  # noqa: PLC0415

    folder = RunFolder.find(_results(options), options.target)
    with blaming(folder):
        made = rescore(folder, _results(options), _command(options.command_line))
    print(made.manifest["notes"][-1])
    for path in (made.path, *_write_report(made)):
        print(path)
    return OK


def _run_diff(options: argparse.Namespace) -> int:
    from bench.blame import blaming  # noqa: PLC0415 (a command is known now)
    from bench.diff import run_diff  # noqa: PLC0415 (a command is known now)
    from bench.records import RunFolder  # noqa: PLC0415

    runs = [RunFolder.find(_results(options), name) for name in (options.old, options.new)]
    limit, out = options.fail_if_worse, options.out
    with blaming(*runs):
        return run_diff(*runs, driver=options.driver, limit=limit, out=out)


def _run_export(options: argparse.Namespace) -> int:
    from bench.blame import blaming  # noqa: PLC0415 (a command is known now)
    from bench.export import export  # noqa: PLC0415 (a command is known now)
    from bench.records import RunFolder  # noqa: PLC0415

    folder = RunFolder.find(_results(options), options.run_name)
    with blaming(folder):
        paths = export(folder, options.to, options.out)
    for path in paths:
        print(path)
    return OK


def _run_calibrate(options: argparse.Namespace) -> int:
    from bench.calibrate import run_calibrate  # noqa: PLC0415 (a command is known now)

    return run_calibrate(
        _results(options),
        replies=options.replies,
        tables=options.tables,
        seed=options.seed,
        processes=options.processes,
    )


_Command = tuple[
    Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int], str
]
_COMMANDS: dict[str, _Command] = {
    "compare": (
        arguments.add_compare,
        _run_compare,
        "run both ways on the tasks and write a report",
    ),
    "descriptions": (
        arguments.add_compare,
        _run_descriptions,
        "see what the description variants do, with both ways, on the tasks that can tell",
    ),
    "exercise": (
        arguments.add_exercise,
        _run_exercise,
        "run an exercise of the field, or all of them; --list names them",
    ),
    "ab": (
        arguments.add_ab,
        _run_ab,
        "compare two versions of your tools' descriptions on the same tasks; exits 1 if the new is worse",
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
        (
            "check descriptions of tools; each finding says what to write; with --ask a model says "
            "what each tool is for"
        ),
    ),
    "league": (
        arguments.add_league,
        _run_league,
        "compare our readers with other projects' on the cases",
    ),
    "rescore": (
        arguments.add_rescore,
        _run_rescore,
        "read stored replies again with today's reader and judge; no model is asked",
    ),
    "tasks": (
        arguments.add_tasks,
        _run_tasks,
        "check every task: gold must score 1, damaged gold 0; with --tasks FILE your own",
    ),
    "init": (
        arguments.add_init,
        _run_init,
        "write a small example to start from: tools, tasks, variants, options",
    ),
    "diff": (
        arguments.add_diff,
        _run_diff,
        "compare two runs of the same tasks; with --fail-if-worse N it exits 1 for a loss, 3 if unsure",
    ),
    "export": (
        arguments.add_export,
        _run_export,
        "write a run as tables for pandas and others: episodes, turns, calls, readings",
    ),
    "calibrate": (
        arguments.add_calibrate,
        _run_calibrate,
        (
            "measure the workbench itself: exact accounting over damaged replies, intervals and tests "
            "over simulated scores"
        ),
    ),
    "list": (arguments.add_results, _run_list, "list experiments, recordings and runs"),
    "show": (
        arguments.add_show,
        _run_show,
        "show the episodes of a task: messages, replies, readings",
    ),
    "report": (arguments.add_report, _run_report, "write a run's report again"),
}


_CONFIGURED = (
    *("compare", "descriptions", "exercise", "ab", "doctor"),
    *("pairing", "choice", "streaming", "tasks"),
)
"""The commands that take every option from bench.toml; the others take where results are."""


if __name__ == "__main__":
    sys.exit(main())
