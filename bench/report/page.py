"""Write a document as one page that needs nothing else: its own script, no outside resource.

The content policy allows just that script, by its hash. Everything else is escaped by the
templates, and what the viewer shows stands in a script element of JSON that nothing can end.
"""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.report.document import Behind, Document
from bench.report.text import quoted, visible
from bench.report.viewer import write_json
from bench.texts import mark, say, speaking

_TEMPLATES = Path(__file__).parent.parent / "templates"
_WORDS = (
    mark("all"),
    mark("endpoint"),
    mark("way"),
    mark("category"),
    mark("language"),
    mark("ended with"),
    mark("counted for"),
    mark("which of them"),
    mark("those counted"),
    mark("those not counted"),
    mark("both"),
    mark("task"),
    mark("show all"),
    mark("{n} of {all} episodes."),
    mark("Together they count {top}."),
    mark("{top} of {below}"),
    mark("trial"),
    mark("solved"),
    mark("not solved"),
    mark("previous"),
    mark("next"),
    mark("page {page} of {last}"),
    mark("request {n}"),
    mark("reply {n}"),
    mark("as it came"),
    mark("read as"),
    mark("result of"),
    mark("error of"),
    mark("close"),
    mark("score"),
    mark(
        "The messages of this episode are not in this page, which would grow too large: "
        "python -m bench show RUN TASK prints them."
    ),
)
"""What the script says."""


def to_html(document: Document) -> str:
    """Write a document as one page."""
    from markupsafe import Markup  # noqa: PLC0415 (pages only)

    script = _script()
    with speaking(document.lang):
        page: str = _page().render(
            document=document,
            quoted=quoted,
            visible=visible,
            say=say,
            html_lang={"zh": "zh-CN"}.get(document.lang, document.lang),
            href=lambda found: _href(document, found),
            script=Markup(script),  # noqa: S704 (a file of ours)
            script_hash=_hash_of(script),
            episodes=Markup(write_json(document.episodes)),  # noqa: S704 (cannot end its element)
            words=Markup(write_json({text: say(text) for text in _WORDS})),  # noqa: S704 (the same)
            sampled=_told_sample(document.episodes),
        )
    return page + "\n"


def _told_sample(episodes: Mapping[str, Any] | None) -> str:
    """Say which episodes are left out of the page, if any are."""
    if episodes is None:
        return ""
    total, listed, whole = episodes["total"], len(episodes["episodes"]), episodes["whole"]
    said = []
    if listed < total:
        said.append(say("{n} of {total} episodes are in this page.", n=listed, total=total))
    if whole < listed:
        told = mark("{n} of {total} episodes have their messages here.")
        said.append(say(told, n=whole, total=total))
    if said:
        said.append(
            say(
                "Kept are some behind each number, then failed ones, then a seeded choice of the "
                "others; python -m bench show RUN TASK prints any."
            )
        )
    return " ".join(said)


def _href(document: Document, behind: Behind | None) -> str:
    """Return the address of the episodes behind a number; "" on a page without episodes."""
    if behind is None or document.episodes is None:
        return ""
    return "#episodes?" + urlencode([(name, visible(value)) for name, value in behind.items()])


def _script() -> str:
    """Return the page's script; the same characters are hashed and written."""
    return (_TEMPLATES / "report.js").read_text(encoding="utf-8").strip()


def _hash_of(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _page() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415
    from markupsafe import Markup  # noqa: PLC0415 (pages only)

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = lambda chart: Markup(chart.svg)  # noqa: S704 (drawn by us)
    return environment.get_template("report.html.jinja")
