"""A second opinion on a difference, from another package: a GEE logit of statsmodels.

Only a check beside the permutation tests that every report rests on, never instead of them: it
models the log odds, and says nothing where a cell is 0 or 100 %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from bench import tables
from bench.types import WorkbenchError

Cell = tuple[int, ...]
"""Which level of each factor: (way,) or (way, variant), as 0 and 1."""


@dataclass(frozen=True, slots=True)
class Odds:
    """A difference in log odds: of two ways, or of two such differences."""

    estimate: float
    error: float
    """Standard error, robust to whatever correlation the observations of a unit have."""
    p: float


def gee_logit(
    cells: Mapping[Cell, Any], measure: tables.Measure = tables.MEASURES[0]
) -> Odds | None:
    """Fit one yes-or-no measure over two cells (ways) or four (ways x variants), grouped by unit.

    `cells` holds rows of `tables.episode_table`. Returns the term of the highest order: with two
    factors the interaction. None where a cell is 0 or 100 %, or has no row. Raises WorkbenchError
    without statsmodels.
    """
    known = {cell: _counted(rows, measure) for cell, rows in cells.items()}
    rates = [float(rows[measure.top].mean()) if len(rows) else 0.0 for rows in known.values()]
    if any(rate in (0.0, 1.0) for rate in rates):
        return None
    outcome = np.concatenate([rows[measure.top].to_numpy(dtype=float) for rows in known.values()])
    terms = np.concatenate([[_terms(cell)] * len(rows) for cell, rows in known.items()])
    units = np.concatenate([rows["pair"].to_numpy(dtype=object) for rows in known.values()])
    return _fit(outcome, terms, units)


def _counted(rows: Any, measure: tables.Measure) -> Any:
    found = tables.scope(rows, measure.scope)
    return found[found[measure.below] == 1]


def _terms(cell: Cell) -> Sequence[float]:
    """Return the row of the design: 1, each factor, and their product."""
    product = [float(np.prod(cell))] if len(cell) > 1 else []
    return [1.0, *map(float, cell), *product]


def _fit(outcome: Any, terms: Any, units: Any) -> Odds:
    api = _statsmodels()
    groups = np.unique(units.astype(str), return_inverse=True)[1]
    order = np.argsort(groups, kind="stable")
    model = api.GEE(
        outcome[order],
        terms[order],
        groups=groups[order],
        family=api.families.Binomial(),
        cov_struct=api.cov_struct.Exchangeable(),
    )
    found = model.fit()
    return Odds(float(found.params[-1]), float(found.bse[-1]), float(found.pvalues[-1]))


def _statsmodels() -> Any:
    try:
        return import_module("statsmodels.api")
    except ImportError:
        raise WorkbenchError(
            "the cross-check needs statsmodels: pip install 'toolcall-workbench[check]'"
        ) from None
