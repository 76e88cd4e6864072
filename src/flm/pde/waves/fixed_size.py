"""The best series of exactly N sub-networks: a lattice where one fits, learned frequencies where they do better."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from flm.pde.problem import PDE
from flm.pde.waves.basis import WaveBasis
from flm.pde.waves.fit import Fit, Fitter
from flm.pde.waves.learn_frequencies import FrequencyLearner
from flm.pde.waves.search import ROUNDING, UNRESOLVED, Search, columns_in_memory, to_solution
from flm.results import Ending, Listener, Record, Solution, Word
from flm.series import lattice
from flm.wording import InputError

ORDERS = ("euclid", "box", "total")
PERIODS = (1.0, 1.15, 1.3, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.5, 8.0)  # of a lattice, in widths of the domain
RANGES = (3.0, 6.0, 12.0)  # of random starts, in radians per half-width
LEAST = 0.2  # the projected objective is even in each component: its slope vanishes at zero, so never start there
STARTS = 2  # per range
FEWEST = 4  # further frequencies of a second look
EXACT = 1e-12  # a residual that is nothing but rounding
MAX_COLUMNS = 3000  # of one dense least-squares problem
LARGEST = 200  # columns beyond which learning frequencies costs minutes and a lattice does as well


def solve_by_waves(
    problem: PDE, tol: float, *, num_subnets: int, max_columns: int | None, seed: int, progress: Listener
) -> Solution:
    """Solve a PDE or ODE with so many sub-networks: see `flm.pde.solve.solve_pde`."""
    began, max_columns = time.perf_counter(), MAX_COLUMNS if max_columns is None else max_columns
    count = num_subnets * 2 ** len(problem.axes) * len(problem.unknowns)
    if count > max_columns:
        raise InputError(
            f"`num_subnets` must have at most `max_columns` = {max_columns} coefficients; got {num_subnets}, which has "
            f"{count}. Raise `max_columns`, or give a tolerance alone."
        )
    search = best_of_size(problem, num_subnets, tol=tol, seed=seed, progress=progress)
    return to_solution(problem, search, tol, began)


def best_of_size(
    problem: PDE,
    num_subnets: int,
    *,
    tol: float,
    seed: int,
    progress: Listener,
    residual_is_error: bool = False,
) -> Search:
    """The fit with the least held-out residual among lattices and learned frequencies, N sub-networks each.

    Where the equation is u - f = 0 the residual is the error itself; otherwise a second answer must agree.
    """
    columns, most = num_subnets * 2 ** len(problem.axes) * len(problem.unknowns), columns_in_memory()
    if columns > most:
        raise InputError(
            f"`num_subnets` must be at most {max(most * num_subnets // columns, 1):,}, so that the least-squares problem fits "
            f"in half of the free memory; got {num_subnets:,}, which has up to {columns:,} columns."
        )
    fitter = Fitter(problem, seed=seed)
    free = Fitter(problem, seed=seed, periodic_basis=False) if any(problem.periodic_axes) else fitter
    search = Search(record=Record(progress))
    fits: list[Fit] = []

    def keep(fit: Fit, how: str) -> None:
        fits.append(fit)
        fits.sort(key=lambda f: f.estimate)
        del fits[6:]
        search.best = fits[0]
        # rms(u - f) is judged against rms(u) + rms(f): twice that is relative to f
        search.bar = max(2 * fits[0].estimate, ROUNDING) if residual_is_error else _bar(fits)
        unknowns = fit.basis.num_columns * len(problem.unknowns)
        search.record.step(
            "sub-networks",
            columns=unknowns,
            estimate=fit.estimate,
            error_estimate=search.bar,
            start=how,
            steps=fit.steps,
        )

    m = len(problem.axes)
    try:
        frozen = []
        for order in ORDERS if m > 1 else ORDERS[:1]:
            points = lattice(m, num_subnets, order)
            for period in PERIODS:
                periods = np.where(problem.periodic_axes, 1.0, period)
                fit = fitter.fit(WaveBasis(problem.domain, points, tuple(periods)))
                frozen.append(fit)
                keep(fit, f"{order} lattice, period {period:g}")
        if search.bar > max(tol, 10 * ROUNDING) and columns <= LARGEST and not problem.learned:
            learner = FrequencyLearner(free, num_subnets)
            frozen.sort(key=lambda f: f.estimate)
            rng = np.random.default_rng(seed)
            starts: list[tuple[str, Any]] = [
                (
                    f"half a cell from period {f.basis.periods.max():g}",
                    (f.basis.frequencies + 0.5) * np.pi / f.basis.periods,
                )
                for f in frozen[:2]
            ]
            starts += [
                (f"random up to {r:g}", rng.uniform(LEAST, r, (num_subnets, m))) for r in RANGES for _ in range(STARTS)
            ]
            for how, start in starts:
                keep(learner.run(start), f"learned, {how}")
                if search.bar <= max(tol, 10 * ROUNDING):
                    break
        if search.bar > tol and columns <= LARGEST and not problem.learned:
            search.bar = _second_look(free, fits[0], num_subnets, search.bar)
        search.ending = Ending(Word.SIZE, f"the best of {num_subnets} sub-networks that was found")
    except KeyboardInterrupt:
        if search.best is None:
            raise
        search.ending = Ending(Word.INTERRUPTED)
    return search


def _bar(fits: list[Fit]) -> float:
    """The residual, and the difference to the closest runner-up; at least 1 where the residual is too large to bound anything."""
    best = fits[0]
    if best.estimate > UNRESOLVED:
        return max(best.estimate, 1.0)
    others = [best.difference(f) for f in fits[1:] if f.finite]
    if not best.finite or not others:
        return np.inf if not best.finite else max(best.estimate, ROUNDING)
    return max(best.estimate, min(others), ROUNDING)


def _second_look(fitter: Fitter, best: Fit, num_subnets: int, bar: float) -> float:
    """The difference to a fit on these frequencies and as many others, where that one has a much smaller residual.

    Runners-up of the same size may all be poor, which says nothing of an answer that happens to be exact.
    """
    basis, m = best.basis, len(fitter.problem.axes)
    assert isinstance(basis, WaveBasis)
    found = basis.frequencies * np.pi / basis.periods
    others = (lattice(m, max(num_subnets, FEWEST), "euclid") + 0.5) * np.pi / 2
    wider = fitter.fit(WaveBasis(fitter.problem.domain, np.concatenate([found, others])), best)
    if not wider.finite or wider.estimate > max(min(best.estimate / 4, UNRESOLVED), EXACT):
        return bar
    return max(best.estimate, best.difference(wider), ROUNDING)
