"""Draw what descriptions do: each variant's difference to the base, with its interval.

In the style of `bench.charts`; pure functions of `bench.lab.effects`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bench import charts
from bench.charts import Chart, label, name_way
from bench.lab.effects import Effect, Interaction
from bench.tables import Measure
from bench.texts import mark, say

_ROW = 0.34


def draw_effects(effects: Sequence[Effect], measures: Sequence[Measure], base: str) -> Chart | None:
    """Draw every variant's difference to the base in points: a panel a measure and endpoint."""
    drawn = [e for e in effects if e.measure in measures and not e.group and e.difference.units]
    if not drawn:
        return None
    endpoints = list(dict.fromkeys(effect.endpoint for effect in drawn))
    variants = list(dict.fromkeys(effect.variant for effect in drawn))
    ways = list(dict.fromkeys(effect.way for effect in drawn))
    hues = charts.colours(ways)
    height = 1.0 + len(endpoints) * (0.5 + _ROW * len(variants) * max(1.0, len(ways) / 2))
    with charts.canvas(8.2, height) as figure:
        panels = figure.subplots(
            len(endpoints), len(measures), squeeze=False, sharey=True, sharex=True
        )
        for row, endpoint in zip(panels, endpoints, strict=True):
            for axes, measure in zip(row, measures, strict=True):
                own = [e for e in drawn if e.endpoint == endpoint and e.measure == measure]
                _draw_panel(axes, own, variants, ways, hues)
                axes.set_title(_title_of(measure))
            row[0].set_ylabel(endpoint[:24] if len(endpoints) > 1 else "")
        for axes in panels[-1]:
            axes.set_xlabel(label("points against {base}, 95 % interval", base=base))
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=min(4, len(ways)))
        title = say("Each description against {base}", base=base)
        return charts.finish(figure, "effects", title, _effects_alt(drawn, base))


def _title_of(measure: Measure) -> str:
    text = mark("{measure} (left is better)")
    if measure.higher_is_better:
        text = mark("{measure} (right is better)")
    return label(text, measure=label(measure.label))


def _draw_panel(
    axes: Any,
    effects: Sequence[Effect],
    variants: Sequence[str],
    ways: Sequence[str],
    hues: Mapping[str, str],
) -> None:
    axes.axvline(0, color=charts.SOFT, lw=1)
    for number, way in enumerate(ways):
        shift = (number - (len(ways) - 1) / 2) * 0.62 / len(ways)
        own = [effect for effect in effects if effect.way == way]
        places = [variants.index(effect.variant) + shift for effect in own]
        points = [effect.difference.estimate * 100 for effect in own]
        axes.plot(points, places, "o", color=hues[way], ms=5, label=name_way(way))
        for effect, y in zip(own, places, strict=True):
            if (found := effect.difference.interval) is not None:
                span = [found.low * 100, found.high * 100]
                axes.plot(span, [y, y], color=hues[way], lw=2.2, alpha=0.55)
    axes.set_yticks(range(len(variants)), [variant[:24] for variant in variants])
    axes.set_ylim(len(variants) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def _effects_alt(effects: Sequence[Effect], base: str) -> str:
    said = "; ".join(
        f"{e.endpoint}, {name_way(e.way)}, {e.variant}, {say(e.measure.label)} "
        f"{e.difference.estimate * 100:+.1f}"
        for e in effects
    )
    return say("Differences to {base} in points. {said}.", base=base, said=said)


def draw_interactions(interactions: Sequence[Interaction]) -> Chart | None:
    """Draw by how many points more a variant helps the first way than the second, in success."""
    drawn = [i for i in interactions if i.measure.name == "success" and i.difference.units]
    if not drawn:
        return None
    rows = [(one.endpoint, one.first, one.second) for one in drawn]
    several = len(set(rows)) > 1
    with charts.canvas(7.2, 1.1 + 0.3 * len(drawn)) as figure:
        axes = figure.subplots()
        axes.axvline(0, color=charts.SOFT, lw=1)
        for y, one in enumerate(drawn):
            found = one.difference.interval
            if found is not None:
                axes.plot([found.low * 100, found.high * 100], [y, y], color=charts.INK, lw=2)
            axes.plot([one.difference.estimate * 100], [y], "D", color=charts.INK, ms=5)
        names = [
            f"{one.variant[:24]} · {one.endpoint[:24]}" if several else one.variant[:24]
            for one in drawn
        ]
        axes.set_yticks(range(len(drawn)), names)
        axes.set_ylim(len(drawn) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        pair = {"first": name_way(drawn[0].first), "second": name_way(drawn[0].second)}
        ways = label("{first} minus {second}", **pair)
        text = mark("{ways}: points of task success that the description changes")
        axes.set_xlabel(label(text, ways=ways))
        return charts.finish(
            figure,
            "interaction",
            say("Way and description together"),
            _interactions_alt(drawn, pair),
        )


def _interactions_alt(drawn: Sequence[Interaction], pair: Mapping[str, str]) -> str:
    return say(
        "The difference of differences in task success, {ways}. {said}.",
        ways=say("{first} minus {second}", **pair),
        said="; ".join(f"{i.variant} {i.difference.estimate * 100:+.1f}" for i in drawn),
    )
