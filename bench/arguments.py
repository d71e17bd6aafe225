"""What may be said behind each command: one function a command, built of shared groups.

Names options and their types; decides nothing and imports nothing that takes time to load.
"""

import argparse
import math
from pathlib import Path
from typing import Any


class _Names(argparse.Action):
    """Names with spaces or commas between them, the option repeated or not."""

    def __call__(self, _: Any, namespace: Any, values: Any, __: Any = None) -> None:
        parts = ([v] if v.startswith("mcp:") else v.split(",") for v in values)
        names = [name for part in parts for name in part if name]
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest, None) or []), *names])


def add_results(parser: argparse.ArgumentParser) -> None:
    """Take where run folders are."""
    parser.add_argument("--results", metavar="DIR", type=Path, help="where run folders are")


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Take everything that may be said of a comparison."""
    _add_what(parser.add_argument_group("what is run"))
    _add_own_run(parser.add_argument_group("your own tools and tasks"))
    _add_run(parser)


def add_exercise(parser: argparse.ArgumentParser) -> None:
    """Take which exercise is run, and what may be said of a comparison with tasks of its own."""
    what = parser.add_argument_group("what is run")
    what.add_argument(
        "name", nargs="?", metavar="NAME", help="an exercise, or all: one run, one recording"
    )
    what.add_argument("--list", action="store_true", help="list the exercises, and stop")
    _add_chosen(what)
    _add_run(parser)


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_where(parser.add_argument_group("which model"))
    how = parser.add_argument_group("how it is asked")
    _add_settings(how)
    _add_how(how)
    _add_limits(parser.add_argument_group("how much it may use"))
    keeping = parser.add_argument_group("what is kept")
    _add_resume(keeping)
    _add_report_lang(keeping)
    _add_keeping(keeping)


def add_own(group: Any) -> None:
    """Take own tools and tasks."""
    group.add_argument(
        *("--tools",),
        nargs="+",
        action=_Names,
        metavar="TARGET",
        help="your own tools: a module, module:function, a .py file, a JSON or YAML file of tools, or an "
        'MCP server: "mcp:COMMAND …", mcp:http://…',
    )
    group.add_argument(
        "--tasks",
        metavar="FILE",
        help="your own tasks: JSON Lines or CSV, question and expected_tool; or BFCL's: "
        "bfcl:simple_python,multiple,…",
    )
    group.add_argument(
        *("--bfcl",),
        metavar="PATH",
        help="for --tasks bfcl:simple_python,…: a bfcl-eval wheel, a checkout or a folder (default: "
        "the installed bfcl-eval)",
    )


def _add_own_run(group: Any) -> None:
    add_own(group)
    group.add_argument(
        "--variants", metavar="FILE", help="your own description variants, JSON or YAML"
    )
    group.add_argument(
        "--script", metavar="FILE", help="ask no model: play these replies, written by hand"
    )
    group.add_argument(
        *("--tool-timeout",),
        type=float,
        metavar="S",
        help="time limit of a call of your tools (default: 30 s)",
    )


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """Take what may be said of an experiment on the wire."""
    what = parser.add_argument_group("what is run")
    what.add_argument(
        "--count", type=_count, metavar="N", help="questions of each kind (default: 20)"
    )
    _add_where(parser.add_argument_group("which model"))
    _add_settings(parser.add_argument_group("how it is asked"))
    keeping = parser.add_argument_group("what is kept")
    _add_resume(keeping)
    _add_report_lang(keeping)
    _add_keeping(keeping)


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Take what may be said of the doctor."""
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


def add_endpoint(parser: argparse.ArgumentParser) -> None:
    """Take what the strict endpoint may be told."""
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
    _add_chosen(group)
    group.add_argument("--category", **names, help="only tasks of these categories")
    group.add_argument("--toolset", metavar="NAME", help="offer this toolset in every task, or all")
    group.add_argument("--variant", **names, help="description variants (default: full)")


def _add_chosen(group: Any) -> None:
    names: dict[str, Any] = {"nargs": "+", "action": _Names}
    group.add_argument(
        *("--drivers",),
        **names,
        help="react, native, react/call, react/bracket, each also with @strict or @rescue "
        "(default: react native)",
    )
    group.add_argument("--lang", **names, help="only tasks of these languages: en, zh")
    group.add_argument("--task", **names, help="only these tasks or pairs")
    group.add_argument(
        *("--limit",),
        type=_count,
        metavar="N",
        help="only N tasks: the first pair of every category, then the second, and so on",
    )
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
    group.add_argument(
        "--seed", type=int, metavar="N", help="send a seed, each trial one more (default: none)"
    )
    group.add_argument("--reasoning-effort", metavar="WORD", help="of a reasoning model")
    group.add_argument("--extra-body", metavar="JSON", help="further fields of every request")
    group.add_argument(
        *("--header",), action="append", default=[], metavar="NAME=VALUE", help="a further header"
    )
    group.add_argument(
        "--profile", metavar="NAME", help="what the endpoint takes (default: by its host)"
    )
    group.add_argument("--timeout", type=_amount, metavar="S", help="of a request (default: 300 s)")
    group.add_argument("--concurrency", type=_count, metavar="N", help="how much goes on at once")
    group.add_argument("--rpm", type=_count, metavar="N", help="requests a minute, each endpoint")
    group.add_argument("--tpm", type=_count, metavar="N", help="tokens a minute, each endpoint")
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


def _add_limits(group: Any) -> None:
    group.add_argument(
        *("--budget-tokens",),
        type=_count,
        metavar="N",
        help="stop when N tokens are used, retries too; --resume with a larger N goes on",
    )
    group.add_argument(
        *("--budget-money",),
        type=_amount,
        metavar="X",
        help="stop when X is spent, at the --price",
    )
    group.add_argument(
        *("--price",),
        type=_price,
        metavar="P,C",
        help="of a million prompt tokens and a million completion tokens, in any currency",
    )
    group.add_argument(
        *("--time-limit",),
        type=_amount,
        metavar="S",
        help="stop after S seconds; what is not finished then is run again by --resume",
    )


def _add_resume(group: Any) -> None:
    group.add_argument(
        "--resume", metavar="RUN", help="go on with a run that was broken off; latest: the newest"
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


def _amount(text: str) -> float:
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def _price(text: str) -> tuple[float, ...]:
    values = tuple(map(_number, text.split(",")))
    if len(values) != 2 or not all(0 <= value < math.inf for value in values) or not any(values):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no price; write PROMPT,COMPLETION as 0.15,0.6"
        )
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _whole(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def add_show(parser: argparse.ArgumentParser) -> None:
    """Take which episodes are shown."""
    parser.add_argument("folder", metavar="RUN", help="a run folder, its name, or latest")
    parser.add_argument("task", metavar="TASK", help="a task or a pair")
    parser.add_argument("--driver", default="", help="only this driver")
    parser.add_argument("--endpoint", default="", help="only this endpoint")
    add_results(parser)


def add_report(parser: argparse.ArgumentParser) -> None:
    """Take which runs are reported, where to, and in which language."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a run folder, its name, or latest; several runs of the same tasks: on one page",
    )
    parser.add_argument(
        *("--out",),
        metavar="DIR",
        type=Path,
        help="where the report goes (default: into the run's folder; of several runs: side-by-side "
        "beside them)",
    )
    _add_report_lang(parser, "--lang")
    add_results(parser)


def _add_report_lang(group: Any, *names: str) -> None:
    group.add_argument(
        *(*names, "--report-lang"),
        dest="report_lang",
        choices=("en", "zh"),
        help="language of the report (default: en)",
    )


def add_lint(parser: argparse.ArgumentParser) -> None:
    """Take what is to be checked, and which model is asked about it."""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="a JSON or YAML file of tools, a module, module:function, a .py file, a bundled toolset, or an "
        'MCP server: "mcp:COMMAND …", mcp:http://…',
    )
    parser.add_argument(
        *("--tools",),
        nargs="+",
        action=_Names,
        metavar="TARGET",
        help="the same, as for other commands",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    asked = parser.add_argument_group("asking a model")
    asked.add_argument(
        "--ask",
        action="store_true",
        help="show a model each description with six questions: which one is the tool for?",
    )
    asked.add_argument(
        "--questions",
        metavar="FILE",
        type=Path,
        help="questions for your own tools, JSON or YAML (default: the bundled ones, by name)",
    )
    asked.add_argument(
        *("--count",),
        type=_count,
        metavar="N",
        help="orders in which the six questions are put (default: 6)",
    )
    _add_where(parser.add_argument_group("which model"))
    _add_settings(parser.add_argument_group("how it is asked"))
    keeping = parser.add_argument_group("what is kept")
    _add_resume(keeping)
    _add_report_lang(keeping)
    _add_keeping(keeping)


def add_ab(parser: argparse.ArgumentParser) -> None:
    """Take two versions of descriptions, the tasks, and what may be said of a comparison."""
    parser.add_argument(
        "old", metavar="OLD", help="a JSON or YAML file of tools as they are told now"
    )
    parser.add_argument("new", metavar="NEW", help="the same tools, told otherwise")
    what = parser.add_argument_group("what is run")
    what.add_argument(
        *("--tasks",),
        metavar="FILE",
        help="your own tasks, JSON Lines or CSV (default: the bundled tasks that the tools can solve)",
    )
    what.add_argument(
        *("--category",), nargs="+", action=_Names, help="only tasks of these categories"
    )
    _add_chosen(what)
    _add_run(parser)


def add_rescore(parser: argparse.ArgumentParser) -> None:
    """Take what is read again."""
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="a run folder, its name, or latest; with --format a file or folder of conversations",
    )
    group = parser.add_argument_group("other people's conversations")
    group.add_argument(
        *("--format",),
        choices=("openai-messages", "bfcl-results"),
        help="lines of {messages, tools, gold or expected_tool}, or BFCL's result files",
    )
    group.add_argument(
        *("--tools",),
        nargs="+",
        action=_Names,
        metavar="FILE",
        help="the tools of conversations that name none",
    )
    group.add_argument(
        "--bfcl",
        metavar="PATH",
        help="BFCL's data for its results: a wheel, a checkout or a folder",
    )
    group.add_argument("--json", action="store_true", help="print all counts as JSON")
    _add_report_lang(parser, "--lang")
    add_results(parser)


def add_league(parser: argparse.ArgumentParser) -> None:
    """Take which cases and peers are compared."""
    parser.add_argument(
        "cases", nargs="*", type=Path, metavar="CASES", help="JSONL files (default: the bundled)"
    )
    parser.add_argument("--tools", type=Path, metavar="FILE", help="the tools of the cases, JSON")
    parser.add_argument(
        "--peers", type=Path, metavar="DIR", help="the peers' environments (default: .peers)"
    )
    add_results(parser)


def add_diff(parser: argparse.ArgumentParser) -> None:
    """Take two runs, and what counts as too much of a loss."""
    parser.add_argument("old", metavar="RUN_A", help="a run folder, its name, or latest")
    parser.add_argument("new", metavar="RUN_B", help="the run that may be better or worse")
    parser.add_argument("--driver", default="", metavar="WAY", help="only this way, as react")
    parser.add_argument(
        *("--fail-if-worse",),
        type=_points,
        metavar="N",
        help="exit 1 if RUN_B solves N points less or worse and that is significant (one-sided 5 %%), 3 "
        "if a loss of N is neither shown nor excluded, 0 if it is excluded",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="where it is written (default: RUN_B/diff.md)"
    )
    _add_report_lang(parser, "--lang")
    add_results(parser)


def _points(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of points from 0 to 100")
    return value


def add_export(parser: argparse.ArgumentParser) -> None:
    """Take which run is exported, in which form, and where to."""
    parser.add_argument("run_name", metavar="RUN", help="a run folder, its name, or latest")
    parser.add_argument("--to", required=True, metavar="FORM", help="csv or parquet")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="where the tables go (default: RUN/export)"
    )
    add_results(parser)


def add_calibrate(parser: argparse.ArgumentParser) -> None:
    """Take how much is simulated."""
    parser.add_argument(
        *("--replies",),
        type=_count,
        metavar="N",
        default=100_000,
        help="replies that are damaged, at least (default: 100000)",
    )
    parser.add_argument(
        *("--tables",),
        type=_count,
        metavar="N",
        default=4_000,
        help="tables of scores of each main size; 300 pairs of runs for 4000 (default: 4000)",
    )
    parser.add_argument("--seed", type=_whole, metavar="N", default=0, help="(default: 0)")
    parser.add_argument(
        "--processes", type=_count, metavar="N", help="at once (default: one for each core)"
    )
    _add_report_lang(parser, "--lang")
    add_results(parser)


def add_tasks(parser: argparse.ArgumentParser) -> None:
    """Take which tasks are checked."""
    add_own(parser)


def add_init(parser: argparse.ArgumentParser) -> None:
    """Take where the example goes."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="a folder that is made")


def add_config(parser: argparse.ArgumentParser) -> None:
    """Take a file of options."""
    parser.add_argument(
        *("--config",),
        metavar="FILE",
        type=Path,
        help="options in a file (default: bench.toml in this folder, if there is one)",
    )


def add_secret(parser: argparse.ArgumentParser) -> None:
    """Take what is never to be shown or kept."""
    parser.add_argument(
        *("--secret",),
        action="append",
        type=_pattern,
        metavar="REGEX",
        help="write [secret] for what this finds: in replies before they are read, in every file and at the terminal",
    )


def _pattern(text: str) -> str:
    from bench.secret import read_pattern  # noqa: PLC0415 (only where one is named)
    from bench.types import WorkbenchError  # noqa: PLC0415 (the same)

    try:
        read_pattern(text)
    except WorkbenchError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def add_nothing(parser: argparse.ArgumentParser) -> None:
    """Take nothing."""
    del parser
