"""Check tool descriptions before a model reads them: each finding says what to write.

Reads texts and schemas; asks no model and sends nothing.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.lint.finding import WHOLE, Finding, Subject
from bench.lint.points import POINTS, Point, read_points
from bench.lint.schemas import check_name, check_required, check_schema
from bench.lint.sources import Source, find_sources
from bench.lint.texts import (
    check_alike,
    check_description,
    check_language,
    check_parameters,
    check_set_language,
    check_size,
    size_of,
)
from bench.status import FOUND, OK
from bench.types import WorkbenchError
from parsers import Tool

__all__ = [
    "POINTS",
    "Finding",
    "Point",
    "Source",
    "find_sources",
    "lint",
    "read_points",
    "run_lint",
]

_EACH = (
    check_name,
    check_description,
    check_parameters,
    check_language,
    check_schema,
    check_required,
    check_size,
)
_TOGETHER = (check_alike, check_set_language)


def lint(tools: Sequence[Tool | Mapping[str, Any]], source: str) -> tuple[Finding, ...]:
    """Return what to change in tools that are offered together, tool by tool, then in pairs.

    Tools may be entries in OpenAI's, Anthropic's or MCP's form, unchecked. `source` is what
    findings call the place they come from.
    """
    return _lint_subjects([Subject.from_tool(tool) for tool in tools], source)


def _lint_subjects(subjects: Sequence[Subject], source: str) -> tuple[Finding, ...]:
    found = [f for subject in subjects for check in _EACH for f in check(subject, source)]
    found += _check_repeated(subjects, source)
    found += [finding for check in _TOGETHER for finding in check(subjects, source)]
    return tuple(found)


def _check_repeated(subjects: Sequence[Subject], source: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for subject in subjects:
        if subject.name in seen:
            yield Finding(
                source,
                subject.name,
                WHOLE,
                "name",
                "two tools have this name, which endpoints refuse",
                "rename one",
            )
        seen.add(subject.name)


def run_lint(target: str, *, as_json: bool = False) -> int:
    """Print the findings for a file of tools, `module:function`, a module or a bundled toolset.

    One line each, `source:tool:parameter: finding → what to write`, then one line of sums on the
    error stream; with `as_json` one JSON object a line. Returns the exit status: 0 for none, 1 for
    findings. Raises WorkbenchError for what cannot be read.
    """
    sources = find_sources(target)
    if not any(source.subjects for source in sources):
        raise WorkbenchError(f"{target}: no tools in it; write public functions with types")
    count = 0
    for source in sources:
        findings = _lint_subjects(source.subjects, source.label)
        lines = map(_to_json, findings) if as_json else (f.line() for f in findings)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stderr.write(f"{_sum_up(source, len(findings))}\n")
        count += len(findings)
    return FOUND if count else OK


def _to_json(finding: Finding) -> str:
    return json.dumps(asdict(finding), ensure_ascii=False)


def _sum_up(source: Source, findings: int) -> str:
    tokens = sum(map(size_of, source.subjects))
    counted = f"{findings} finding{'' if findings == 1 else 's'}"
    return (
        f"{source.label}: {counted} in {len(source.subjects)} tools, about {tokens:,} tokens in each "
        "request (4 Latin characters or 1 Chinese one a token)"
    )
