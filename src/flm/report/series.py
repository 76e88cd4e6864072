"""The Fourier series inside an answer, with labels: what spectra draw and tables of terms list."""

from __future__ import annotations

from typing import Any

from flm.results import Solution
from flm.series import AbstractSeries
from flm.wording import NoSeriesError

MOST_PIECES = 4  # whose series are listed and drawn


def labeled_series(found: Any) -> list[tuple[str, AbstractSeries]]:
    """Every series with one output inside a solution, a model, an estimator or a series; none where it is no series.

    The labels of a solution name the unknown, and the piece where there are several, of which the first few are taken.
    """
    if isinstance(found, Solution):
        try:
            return [pair for unknown in found.unknowns for pair in _of_unknown(found, unknown)]
        except NoSeriesError:
            return []
    inside = (found, getattr(found, "series_", None), getattr(found, "series", None))
    series = next((s for s in inside if isinstance(s, AbstractSeries)), None)
    return [] if series is None or series._outputs else [("series", series)]


def _of_unknown(solution: Solution, unknown: str) -> list[tuple[str, AbstractSeries]]:
    one = solution[unknown] if len(solution.unknowns) > 1 else solution
    pieces = one.pieces[:MOST_PIECES]
    where = lambda box: f" on {box}" if len(pieces) > 1 else ""
    return [(f"{unknown}{where(box)}", series) for box, series in pieces]
