"""Draw a run's tables: PNG for files, SVG for pages. Nothing on a screen.

Pure functions of `bench.tables`; the same table gives the same bytes. Only this module uses
matplotlib, and none of its global state but its list of fonts. Labels are in the language that is
spoken if this machine has letters for it, else English; the words of a figure always are.
"""

import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import findSystemFonts, fontManager
from matplotlib.patches import Patch, Rectangle

from bench import tables
from bench.scoring import NONE
from bench.tables import Arm, LevelRates, Rate
from bench.texts import mark, say, spoken
from parsers import LEVELS

INK = "#1b1f24"
SOFT = "#8a9099"
_HUES = {
    "react": ("#c8591b", "#e39a3d", "#8a3b12", "#f0b67f"),
    "native": ("#2b6cb0", "#4fa3c7", "#1d3f72", "#9cc4e4"),
}
_RIGHT, _WRONG, _LOST = "#2f855a", "#d69e2e", "#9aa3ad"
_CALLED = {
    **{hue: f"{way}-{n}" for way, hues in _HUES.items() for n, hue in enumerate(hues, 1)},
    _RIGHT: "right",
    _WRONG: "wrong",
    _LOST: "lost",
}
"""What a page's style calls each colour, so that a dark one can set another."""
_GREENS = LinearSegmentedColormap.from_list("right", ["#d7eedf", "#1f7a4a"])
_REDS = LinearSegmentedColormap.from_list("wrong", ["#fbe3c8", "#b7410e"])
_STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": SOFT,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "workbench",
    "text.parse_math": False,
    "axes.unicode_minus": False,
}


_CHINESE = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC"),
    *("Source Han Sans CN", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Microsoft YaHei"),
    *("SimHei", "PingFang SC", "Hiragino Sans GB", "Arial Unicode MS"),
)
"""Fonts that hold Chinese, the best first."""
_FILES = re.compile(r"cjk|sourcehansans|wqy|notosanssc", re.IGNORECASE)
NO_LETTERS = mark(
    "This machine has no font for Chinese, so the labels in the figures are English. With one "
    "installed (such as Noto Sans CJK), write the report again."
)


def pick_font(names: Iterable[str]) -> str | None:
    """Return the best font for Chinese among some; None where there is none."""
    known = set(names)
    return next((name for name in _CHINESE if name in known), None)


@cache
def _chinese_font() -> str | None:
    """Find a font for Chinese, also one that is newer than matplotlib's list."""
    found = pick_font(font.name for font in fontManager.ttflist)
    if found is None:
        for path in sorted(findSystemFonts()):
            if _FILES.search(Path(path).name):
                fontManager.addfont(path)
        found = pick_font(font.name for font in fontManager.ttflist)
    return found


def lacks_letters() -> bool:
    """Say whether labels are English because no font has the letters of the language spoken."""
    return spoken() == "zh" and _chinese_font() is None


def label(text: str, **values: Any) -> str:
    """Say a text that is drawn, in a language that can be drawn."""
    if lacks_letters():
        return text.format(**values) if values else text
    return say(text, **values)


def _style() -> Any:
    font = _chinese_font() if spoken() == "zh" else None
    return {**_STYLE, "font.family": [*_STYLE["font.family"], font]} if font else _STYLE


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure: a file name without its ending, its words, and its bytes in both forms."""

    name: str
    title: str
    alt: str
    """What is to be seen, for those who can't see it."""
    png: bytes
    svg: str
    """Transparent, its text in the page's colour."""


@contextmanager
def canvas(width: float, height: float, layout: Any = "constrained") -> Iterator[Figure]:
    """Give an empty figure of so many inches in the house style."""
    with mpl.rc_context(_style()):
        figure = Figure(figsize=(width, height), layout=layout)
        FigureCanvasAgg(figure)
        yield figure


def finish(figure: Figure, name: str, title: str, alt: str) -> Chart:
    """Write a figure in both forms, without date, program or anything else that changes."""
    png, svg = io.BytesIO(), io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name may hold letters that the font lacks
        figure.savefig(png, format="png", dpi=144, facecolor="white", metadata={"Software": None})
        figure.set_layout_engine("none")  # it is laid out by now, and that takes long
        empty = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(svg, format="svg", transparent=True, metadata=empty)
    return Chart(name, title, alt, png.getvalue(), _page_svg(svg.getvalue(), name))


def _page_svg(text: str, name: str) -> str:
    """Fit an SVG for a page that holds several: own ids, the page's colour, no fixed size."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = text.replace(INK, "currentColor")
    for hue, called in _CALLED.items():
        text = text.replace(f": {hue}", f": var(--hue-{called}, {hue})")
    return text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif").strip()


def colours(ways: Sequence[str]) -> dict[str, str]:
    """Give every way its colour: warm for ReAct, cool for native."""
    used = {"react": 0, "native": 0}
    found = {}
    for way in ways:
        family = "react" if way.startswith("react") else "native"
        found[way] = _HUES[family][used[family] % len(_HUES[family])]
        used[family] += 1
    return found


def name_way(arm: str) -> str:
    """Write an arm's label for people: `react/call` is ReAct/call."""
    return _clean(arm.replace("react", "ReAct", 1))


def _clean(text: str, limit: int = 40) -> str:
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def _endpoints(keys: Sequence[Arm]) -> list[str]:
    return list(dict.fromkeys(endpoint for endpoint, _ in keys))


def _ways(keys: Sequence[Arm]) -> list[str]:
    return list(dict.fromkeys(arm for _, arm in keys))


def _percent(value: float | None) -> str:
    return say("no data") if value is None else f"{value * 100:.0f} %"


def _counts(found: Rate) -> dict[str, int]:
    return {"top": found.top, "below": found.below}


def _share_axis(axes: Axes, label: str) -> None:
    axes.set_xlim(0, 1)
    axes.set_xticks(np.linspace(0, 1, 6), [f"{v:.0f} %" for v in np.linspace(0, 100, 6)])
    axes.set_xlabel(label)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)


def _dot(axes: Axes, y: float, found: Rate, colour: str) -> None:
    """Draw a rate with its interval."""
    if found.value is None:
        return
    if found.interval is not None:
        span = [found.interval.low, found.interval.high]
        axes.plot(span, [y, y], color=colour, lw=2.4, alpha=0.55, solid_capstyle="butt")
    axes.plot([found.value], [y], "o", color=colour, ms=6.5)


def draw_success(measures: Mapping[Arm, Mapping[str, Rate]]) -> Chart:
    """Draw task success with its 95 % interval for every way and endpoint."""
    keys = list(measures)
    hues = colours(_ways(keys))
    several = len(_endpoints(keys)) > 1
    with canvas(7.2, 1.1 + 0.42 * len(keys) + 0.15 * len(_endpoints(keys))) as figure:
        axes = figure.subplots()
        places = _rows_with_gaps(keys)
        for (endpoint, arm), y in zip(keys, places, strict=True):
            found = measures[endpoint, arm]["success"]
            _dot(axes, y, found, hues[arm])
            text = label(
                "{share}  ({top} of {below})", share=_percent(found.value), **_counts(found)
            )
            axes.text(1.03, y, text, va="center", fontsize=9)
        names = [f"{_clean(e, 32)} · {name_way(a)}" if several else name_way(a) for e, a in keys]
        axes.set_yticks(places, names)
        axes.set_ylim(max(places) + 0.6, -0.6)
        _share_axis(axes, label("tasks solved; the bar is the 95 % interval"))
        said = "; ".join(
            f"{e}, {name_way(a)}: {_percent(measures[e, a]['success'].value)}" for e, a in keys
        )
        return finish(
            figure, "success", say("Task success"), say("Tasks solved. {said}.", said=said)
        )


def _rows_with_gaps(keys: Sequence[Arm]) -> list[float]:
    places, y = [], 0.0
    for number, (endpoint, _) in enumerate(keys):
        y += 0 if not number else (1.0 if keys[number - 1][0] == endpoint else 1.4)
        places.append(y)
    return places


def draw_levels(levels: Mapping[Arm, Mapping[str, LevelRates]]) -> Chart:
    """Draw the same first replies at each level: right move, readable but wrong, unreadable."""
    keys = list(levels)
    names = _endpoints(keys)
    rows = [(key, level) for key in keys for level in LEVELS]
    with canvas(7.2, 1.2 + 0.29 * len(rows) + 0.35 * len(names)) as figure:
        sizes = [sum(key[0] == name for key in keys) for name in names]
        panels = figure.subplots(
            len(names), 1, squeeze=False, sharex=True, gridspec_kw={"height_ratios": sizes}
        )[:, 0]
        for axes, name in zip(panels, names, strict=True):
            _draw_level_panel(axes, name, {k: v for k, v in levels.items() if k[0] == name})
        _share_axis(panels[-1], label("share of first replies"))
        patches = [
            Patch(color=_RIGHT, label=label("right first move")),
            Patch(color=_WRONG, label=label("readable, not right")),
            Patch(facecolor="none", edgecolor=_LOST, hatch="////", label=label("unreadable")),
        ]
        figure.legend(handles=patches, loc="outside upper left", ncols=3)
        return finish(figure, "levels", say("The gap by level"), _levels_alt(levels))


def _draw_level_panel(
    axes: Axes, name: str, levels: Mapping[Arm, Mapping[str, LevelRates]]
) -> None:
    y, ticks, words = 0.0, [], []
    for (_, arm), by_level in levels.items():
        for level in LEVELS:
            right = by_level[level].right.value or 0.0
            lost = by_level[level].unreadable.value or 0.0
            rest = max(0.0, 1 - right - lost) if by_level[level].right.below else 0.0
            axes.barh(y, right, color=_RIGHT, height=0.78)
            axes.barh(y, rest, left=right, color=_WRONG, height=0.78)
            style: dict[str, Any] = {"facecolor": "none", "edgecolor": _LOST, "hatch": "////"}
            axes.barh(y, lost, left=right + rest, height=0.78, linewidth=0.6, **style)
            if right >= 0.06:
                axes.text(
                    right / 2,
                    y,
                    _percent(right),
                    color="white",
                    ha="center",
                    va="center",
                    fontsize=8,
                )
            ticks.append(y)
            words.append(f"{name_way(arm)} · {level}")
            y += 1
        y += 0.5
    axes.set_yticks(ticks, words)
    axes.set_ylim(y - 0.9, -0.6)
    axes.set_title(_clean(name))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def _levels_alt(levels: Mapping[Arm, Mapping[str, LevelRates]]) -> str:
    parts = []
    for (endpoint, arm), by_level in levels.items():
        said = ", ".join(
            say(
                "{level} {right} right and {lost} unreadable",
                level=level,
                right=_percent(by_level[level].right.value),
                lost=_percent(by_level[level].unreadable.value),
            )
            for level in LEVELS
        )
        parts.append(f"{endpoint}, {name_way(arm)}: {said}")
    return say("The same first replies read at three levels. {said}.", said="; ".join(parts))


def draw_failures(
    kinds: Mapping[Arm, Mapping[str, int]], measures: Mapping[Arm, Mapping[str, Rate]]
) -> Chart | None:
    """Draw parse failures by kind as shares of first attempts; None where there are none."""
    order = list(dict.fromkeys(kind for table in kinds.values() for kind in table))
    if not order:
        return None

    def value(key: Arm, kind: str) -> float:
        below = measures[key]["parse_failure"].below
        return kinds[key].get(kind, 0) / below if below else 0.0

    return _grouped_bars("failures", list(kinds), order, value, label("share of first attempts"))


def _grouped_bars(
    name: str,
    keys: Sequence[Arm],
    order: Sequence[str],
    value: Callable[[Arm, str], float],
    axis: str,
) -> Chart:
    names, hues = _endpoints(keys), colours(_ways(keys))
    ways = _ways(keys)
    thick = 0.8 / len(ways)
    height = 1.0 + len(names) * (0.5 + len(order) * max(0.34, 0.19 * len(ways)))
    with canvas(7.2, height) as figure:
        panels = figure.subplots(len(names), 1, squeeze=False, sharex=True)[:, 0]
        most = max(value(key, kind) for key in keys for kind in order)
        for axes, endpoint in zip(panels, names, strict=True):
            for number, way in enumerate(ways):
                if (endpoint, way) not in keys:
                    continue
                shares = [value((endpoint, way), kind) for kind in order]
                places = np.arange(len(order)) + (number - (len(ways) - 1) / 2) * thick
                axes.barh(places, shares, height=thick * 0.92, color=hues[way])
                for y, share in zip(places, shares, strict=True):
                    text = f" {share * 100:.1f} %" if share else " 0"
                    axes.text(share, y, text, va="center", fontsize=8)
            axes.set_yticks(range(len(order)), order)
            axes.set_ylim(len(order) - 0.5, -0.5)
            axes.set_title(_clean(endpoint))
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="x")
            axes.xaxis.set_major_formatter(lambda x, _: f"{x * 100:.0f} %")
        panels[-1].set_xlim(0, min(1.12, most * 1.18))
        panels[-1].set_xlabel(axis)
        patches = [Patch(color=hues[way], label=name_way(way)) for way in ways]
        figure.legend(handles=patches, loc="outside upper left", ncols=min(4, len(ways)))
        said = "; ".join(
            f"{e}, {name_way(a)}: "
            + (
                ", ".join(f"{k} {value((e, a), k):.1%}" for k in order if value((e, a), k))
                or say("none")
            )
            for e, a in keys
        )
        alt = say("Parse failures by kind, as shares of first attempts. {said}.", said=said)
        return finish(figure, name, say("Parse failures by kind"), alt)


def draw_categories(groups: Mapping[str, Mapping[Arm, Rate]]) -> Chart:
    """Draw task success by category with its 95 % interval for every way and endpoint."""
    keys = list(dict.fromkeys(key for table in groups.values() for key in table))
    names, ways = _endpoints(keys), _ways(keys)
    hues = colours(ways)
    order = list(groups)
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    height = rows * (0.6 + 0.42 * len(order)) + 0.6
    with canvas(7.2 if columns == 1 else 3.6 * columns + 1.2, height) as figure:
        panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for axes in panels[len(names) :]:
            axes.set_visible(False)
        for axes, endpoint in zip(panels, names, strict=False):
            for number, way in enumerate(ways):
                shift = (number - (len(ways) - 1) / 2) * 0.7 / len(ways)
                for y, group in enumerate(order):
                    found = groups[group].get((endpoint, way))
                    if found is not None:
                        _dot(axes, y + shift, found, hues[way])
            _share_axis(axes, label("tasks solved"))
            axes.set_title(_clean(endpoint))
            axes.set_yticks(range(len(order)), [_clean(group.replace("_", " ")) for group in order])
            axes.set_ylim(len(order) - 0.5, -0.5)
        patches = [Patch(color=hues[way], label=name_way(way)) for way in ways]
        figure.legend(handles=patches, loc="outside upper left", ncols=min(4, len(ways)))
        alt = say(
            "Task success by category with 95 % intervals; the table below holds the numbers."
        )
        return finish(figure, "categories", say("Task success by category"), alt)


def draw_confusion(
    frame: pd.DataFrame, name: str = "confusion", title: str = mark("Wanted tool and picked tool")
) -> Chart | None:
    """Draw the wanted tool against the picked one, a panel for each way and endpoint."""
    found = {key: tables.confusion(rows) for key, rows in tables.arms(frame).items()}
    found = {key: matrix for key, matrix in found.items() if len(matrix) > 1}
    if not found:
        return None
    labels = [*sorted({str(name) for m in found.values() for name in m.index} - {NONE}), NONE]
    columns = min(2, max(sum(key[0] == e for key in found) for e in _endpoints(list(found))))
    rows = -(-len(found) // columns)
    side = 0.27 * len(labels)
    width, height = (side + 1.9) * columns, (side + 2.2) * rows
    with canvas(width, height, layout=None) as figure:
        panels = figure.subplots(rows, columns, squeeze=False)
        figure.subplots_adjust(
            left=1.75 / width,
            right=1 - 0.1 / width,
            bottom=1.8 / height,
            top=1 - 0.35 / height,
            wspace=1.85 / side,
            hspace=2.15 / side,
        )
        for axes in panels.ravel()[len(found) :]:
            axes.set_visible(False)
        for number, (key, matrix) in enumerate(found.items()):
            axes = panels.ravel()[number]
            full = matrix.reindex(index=labels, columns=labels, fill_value=0)
            _draw_matrix(axes, full.to_numpy(), labels)
            axes.set_title(f"{_clean(key[0], 24)} · {name_way(key[1])}")
            axes.set_xlabel(label("picked"))
            axes.set_ylabel(label("wanted") if number % columns == 0 else "")
        return finish(figure, name, say(title), _confusion_alt(found))


def _draw_matrix(axes: Axes, cells: "np.ndarray[Any, Any]", labels: Sequence[str]) -> None:
    """Colour the diagonal green and everything off it orange, by the count's root."""
    size = len(labels)
    top = float(np.sqrt(max(1, cells.max())))
    for y, x in zip(*np.nonzero(cells), strict=True):
        depth = float(np.sqrt(cells[y, x])) / top
        right = y == x and y < size - 1
        axes.add_patch(Rectangle((x, y), 1, 1, color=(_GREENS if right else _REDS)(depth), lw=0))
        ink = "#ffffff" if depth > 0.55 else "#101010"
        text = str(cells[y, x])
        axes.text(x + 0.5, y + 0.5, text, color=ink, ha="center", va="center", fontsize=7)
    middles = np.arange(size) + 0.5
    axes.set_xticks(middles, [_clean(name, 22) for name in labels], rotation=90, fontsize=8)
    axes.set_yticks(middles, [_clean(name, 22) for name in labels], fontsize=8)
    axes.set_xlim(0, size)
    axes.set_ylim(size, 0)
    axes.set_aspect("equal")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    edges = np.arange(size + 1)
    axes.hlines(edges, 0, size, color=SOFT, lw=0.3, alpha=0.5)
    axes.vlines(edges, 0, size, color=SOFT, lw=0.3, alpha=0.5)


def _confusion_alt(found: Mapping[Arm, pd.DataFrame]) -> str:
    parts = []
    for (endpoint, arm), matrix in found.items():
        right, all_cells = int(np.trace(matrix.to_numpy()[:-1, :-1])), int(matrix.to_numpy().sum())
        told = say("{right} of {all} on the diagonal", right=right, all=all_cells)
        parts.append(f"{endpoint}, {name_way(arm)}: {told}")
    return say("Wanted tool by row, picked tool by column. {said}.", said="; ".join(parts))
