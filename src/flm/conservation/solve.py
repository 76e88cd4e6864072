"""Conservation laws: tolerance in, series out; or the best series of N sub-networks.

The potential least squares (`potential`, `growth`) solves the law from its residual. A series of exactly N sub-networks is
then the distillation of a larger solution (`harmonics`).
"""

from __future__ import annotations

import numpy as np

from flm.conservation.growth import ShockGrowth
from flm.conservation.harmonics import distill_harmonics
from flm.conservation.law import ConservationLaw
from flm.conservation.potential import Law
from flm.numerics.least_squares import one_thread
from flm.results import Ending, Listener, Record, Solution, Word
from flm.wording import InputError

SMALLEST = 48  # columns of the first bank


def solve_law(
    problem: ConservationLaw,
    tol: float,
    *,
    num_subnets: int | None,
    method: str | None,
    max_columns: int,
    seed: int,
    progress: Listener,
) -> Solution:
    """Solve a conservation law by least squares on its potential residual with vanishing viscosity.

    A shock makes the relative L1 error fall only like 1/columns; smooth solutions converge geometrically. With `num_subnets`
    a larger solution is distilled to exactly so many sub-networks (the constant is one, unless it is zero) in the moving
    frame (x − ct, t), with c found from the law. Nothing here is random: `seed` is not used.
    """
    if method is not None:
        raise InputError(f"`method` must be None for a conservation law; got {method!r}.")
    if max_columns < SMALLEST:
        raise InputError(f"`max_columns` must be at least {SMALLEST} for a conservation law; got {max_columns}.")
    if num_subnets is not None:
        # Enough of a teacher: one with six times the columns of the student was within 3 % of the best on Burgers.
        max_columns = min(max_columns, max(1200, 24 * num_subnets))
    record = Record(progress)
    growth = growth_of(problem, tol, max_columns, record)
    try:
        ending = Ending(growth.run())
    except KeyboardInterrupt:
        if not growth.levels:
            raise
        ending = Ending(Word.INTERRUPTED)
    series, estimate = growth.series(), growth.best.estimate
    if num_subnets is not None:
        teacher = series
        if num_subnets < teacher.num_subnets:
            with one_thread(0):  # many small factorizations
                series = distill_harmonics(teacher, num_subnets, growth.law.horizon)
        points = problem.test_points((151, 61))
        values = teacher(points)
        estimate += float(np.mean(np.abs(series(points) - values)) / max(np.mean(np.abs(values)), 1e-300))
        count = "1 sub-network" if series.num_subnets == 1 else f"{series.num_subnets} sub-networks"
        ending = Ending(Word.SIZE, f"{count} in the moving frame")
    return Solution(
        model=series.model(problem.domain),
        axes=problem.axes,
        unknowns=problem.unknowns,
        bounds=problem.domain.bounds,
        ending=ending,
        error_estimate=estimate,
        tolerance=tol,
        history=record.history,
        num_columns=growth.best.fit.bank.num_columns,
        seconds=record.seconds,
        domain=problem.domain,
        exact=problem.exact_values if problem.exact is not None else None,
        error_points=problem.test_points(),
    )


def growth_of(problem: ConservationLaw, tol: float, max_columns: int, record: Record) -> ShockGrowth:
    """The growth of a law's potential least squares, to be run."""
    (left, right), (start, end) = problem.domain.intervals
    law = Law(problem.flux, problem.speed, problem.initial, left, right - left, end - start)
    return ShockGrowth(law, problem.breaking_time / law.horizon, start, tol, max_columns, record)
