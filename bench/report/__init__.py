"""Write a run's report: report.md, report.html and the figures, from the run folder alone.

A pure function of what the folder holds: no model, no network, no clock; twice from the same
folder gives the same bytes. What a report says stands in `bench.findings` and `bench.tables`; here
it is laid out as a `Document`, and a document is written as Markdown or as a page. All text of
models, tools and people is hostile: bounded, made visible, and escaped where it is written.
"""

from collections.abc import Sequence
from pathlib import Path

from bench import secret
from bench.records import RunFolder
from bench.report.analysis import Analysis, analyse
from bench.report.compose import asked, compose, manifest_section
from bench.report.document import (
    Behind,
    Block,
    Bullets,
    Cell,
    Document,
    Grid,
    Picture,
    Prose,
    Quote,
    Section,
)
from bench.report.examples import EXAMPLES, reply_text
from bench.report.markdown import escape_markdown, to_markdown
from bench.report.page import to_html
from bench.report.text import point_at, visible
from bench.types import WorkbenchError

__all__ = [
    "EXAMPLES",
    "Analysis",
    "Behind",
    "Block",
    "Bullets",
    "Cell",
    "Document",
    "Grid",
    "Picture",
    "Prose",
    "Quote",
    "Section",
    "analyse",
    "asked",
    "compose",
    "escape_markdown",
    "manifest_section",
    "point_at",
    "reply_text",
    "to_html",
    "to_markdown",
    "visible",
    "write_document",
    "write_report",
    "write_together",
]


def write_report(folder: RunFolder, analysis: Analysis | None = None) -> tuple[Path, Path]:
    """Write report.md, report.html and the figures into a run folder; return the two paths.

    >>> import asyncio, tempfile
    >>> from pathlib import Path
    >>> from bench import RunFolder, ScriptedClient, load_tasks, make_driver, plan_jobs, run_all
    >>> from bench import write_report
    >>> client = ScriptedClient(lambda request: "Final Answer: I am a model.")
    >>> jobs = plan_jobs(load_tasks(ids=["no_tool-01"]), [make_driver("react")], [client])
    >>> with tempfile.TemporaryDirectory() as root:
    ...     folder = RunFolder.create(Path(root), "mine", {"format": 1})
    ...     _ = asyncio.run(run_all(jobs, folder))
    ...     folder.close()
    ...     [path.name for path in write_report(folder)]
    ['report.md', 'report.html']
    """
    return write_document(folder.path, compose(analysis or analyse(folder)))


def write_together(folders: Sequence[RunFolder], out: Path) -> tuple[Path, Path]:
    """Write one report of several comparisons into a folder, which is made; return the two paths.

    Raises `WorkbenchError` where the runs can't stand on one page.
    """
    for folder in folders:
        kind = folder.manifest.get("experiment", "compare")
        if kind != "compare":
            raise WorkbenchError(
                f"{folder.path.name}: a run of {kind}; only comparisons are put together or "
                "reported elsewhere: report it alone, without --out"
            )
    document = compose(analyse(*folders))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkbenchError(f"{out}: can't be made ({error.strerror})") from None
    return write_document(out, document)


def write_document(path: Path, document: Document) -> tuple[Path, Path]:
    """Write a document and its figures into a folder; return the two paths."""
    try:
        for chart in document.charts:
            (path / f"{chart.name}.png").write_bytes(chart.png)
        markdown, page = path / "report.md", path / "report.html"
        for file, text in ((markdown, to_markdown(document)), (page, to_html(document))):
            file.write_text(secret.hide_keys(text), encoding="utf-8", newline="\n")
    except OSError as error:
        raise WorkbenchError(f"{path}: can't write the report here ({error.strerror})") from None
    return markdown, page
