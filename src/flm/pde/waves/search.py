"""The best answer of one dense least-squares problem so far, and how it becomes a solution."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

from flm.pde.problem import PDE
from flm.pde.waves.fit import Fit
from flm.pde.waves.sampling import ROWS_PER_COLUMN
from flm.results import Ending, LearnedFunction, Parameter, Record, Solution, Word

UNRESOLVED = 0.03  # above this estimate a solution has not been resolved yet: no verdict on its convergence
ROUNDING = 1e-15  # the smallest loss and error bar


@dataclass
class Search:
    """The best answer so far, its error bar, and how the search ended."""

    best: Fit | None = None
    bar: float = np.inf
    ending: Ending = field(default_factory=lambda: Ending(Word.INTERRUPTED))
    record: Record = field(default_factory=Record)


def to_solution(problem: PDE, search: Search, tol: float) -> Solution:
    """The answer of a search as a solution."""
    best, names, count = search.best, list(problem.parameters), len(problem.learned)
    assert best is not None
    covariance = best.covariance if best.covariance.size else np.full((count, count), np.nan)
    learned = {names[q]: float(best.parameters[q]) for q in problem.learned}
    parameters: dict[str, Parameter | LearnedFunction] = {**Parameter.several(learned, covariance)}
    return Solution(
        model=best.basis.model(best.coefficients),
        ending=search.ending,
        error_estimate=float(search.bar) + rounding_lost(problem, best),
        tolerance=tol,
        parameters=parameters,
        history=search.record.history,
        num_columns=best.basis.num_columns * len(problem.unknowns),
        seconds=search.record.seconds,
        **problem.frame,
    )


def rounding_lost(problem: PDE, fit: Fit) -> float:
    """The relative difference between an answer as coefficients and as a model, worst unknown; 0 below rounding.

    Amplitudes much larger than the answer lose digits in their phases.
    """
    points = problem.domain.interior(64, seed=1, warp=False)
    zero = (0,) * len(problem.axes)
    expected = fit.basis.evaluate(points, fit.coefficients, (zero,))[0]
    gap = np.asarray(fit.basis.model(fit.coefficients).jets(points, (zero,))[0]).reshape(expected.shape) - expected
    size = np.sqrt(np.mean(expected**2, axis=0))
    lost = float(np.max(np.sqrt(np.mean(gap**2, axis=0)) / np.where(size > 0, size, 1.0)))
    return lost if lost > ROUNDING else 0.0


def columns_in_memory() -> int:
    """The number of columns of a least-squares problem that fits in half of the free memory."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 30
    # the buffer holds (rows + columns) x columns doubles; one more copy is made on the way
    return int(np.sqrt(free / 2 / (2 * 8 * (ROWS_PER_COLUMN + 1))))
