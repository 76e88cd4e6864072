"""Tolerance in, series out: grow a lattice of frequencies until two periods agree.

The period T of the lattice (in widths of the domain) is a nuisance: any T > 1 represents any smooth function, some better
than others. So it is chosen by the held-out residual, and the difference between the best two is an error bar that the
residual alone is not: near a resonance a small residual hides a large error, but not the same one at two periods.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flm.domains import Box
from flm.pde.problem import PDE
from flm.pde.waves.basis import AnyBasis
from flm.pde.waves.fit import Fit, Fitter
from flm.pde.waves.lattice_basis import LatticeBasis, lattice_set
from flm.pde.waves.learn_frequencies import FrequencyLearner
from flm.pde.waves.rounding import ROUNDING, rounding_lost
from flm.pde.waves.sampling import ROWS_PER_COLUMN
from flm.results import Ending, Listener, Record, Word

Periods = tuple[float, ...]
PERIODS = (1.0, 1.15, 1.3, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.5, 8.0)
GROWTH = 1.4
SLOW_GROWTH = 1.2  # of a radius, where the number of columns grows with a higher power of it
CALM = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7)  # ridges tried on a converged answer
CALM_SIZE = 5.0  # largest coefficient, relative to the answer, that needs no calming
PROBE = {1: 8, 2: 16, 3: 16, 4: 8}  # sub-networks of the probe for a short sum of sinusoids, by number of axes
PROBE_STARTS, PROBE_STEPS = 4, 40
START = {1: 8.0, 2: 4.0}  # lattice points per axis at first; 3 beyond two axes
UNRESOLVED = 0.03  # above this estimate a solution has not been met yet: no verdict on its convergence
PATIENCE = 3  # levels without halving the bar
FAR = 30.0  # ratio of estimates beyond which a second period has nothing to say


@dataclass
class Search:
    """The state of a growth: every fit so far, the best answer and its bar."""

    best: Fit | None = None
    bar: float = np.inf
    ending: Ending = field(default_factory=lambda: Ending(Word.INTERRUPTED))
    record: Record = field(default_factory=Record)

    @property
    def steps(self) -> int:
        """How many sizes have been tried."""
        return len(self.record.history.get("columns", ()))


class Growth:
    """Grows the lattice of one problem; every choice is blind to the exact solution."""

    def __init__(
        self,
        problem: PDE,
        *,
        tol: float,
        max_columns: int,
        seed: int,
        progress: Listener,
    ):
        self.problem, self.tol = problem, tol
        self.max_columns = min(max_columns, columns_in_memory())
        self.limit = "size limit" if self.max_columns == max_columns else "limit of the free memory, at a size"
        self.fitter = Fitter(problem, seed=seed)
        self.m = len(problem.axes)
        self.power = np.inf if self.m <= 2 and isinstance(problem.domain, Box) else 2.0
        self.periodic = np.array(problem.periodic_axes)
        self.search = Search(record=Record(progress))
        self._fits: dict[tuple[Any, ...], Fit] = {}
        self._probed = False
        self.seed = seed
        self.sizes: list[float] | None = None
        self.periods: Periods | None = None

    # --- one size --------------------------------------------------------------------------------------------------

    def columns(self, sizes: Sequence[float]) -> int:
        """Linear unknowns at these sizes."""
        lattice = lattice_set(sizes, self.power)
        per_point = 2 ** (lattice > 0).sum(axis=1)
        return int(per_point.sum()) * self.fitter.num_unknowns + len(self.problem.learned)

    def fit(self, sizes: Sequence[float], periods: Periods, start: Fit | None) -> Fit:
        """The fit at one size and one choice of periods, computed once."""
        key = (*np.round(sizes, 6), *periods)
        if key not in self._fits:
            basis: AnyBasis = LatticeBasis(self.problem.domain, lattice_set(sizes, self.power), periods)
            self._fits[key] = self.fitter.fit(basis, start)
        return self._fits[key]

    def _shifted(self, periods: Periods, step: int, axis: int | None = None) -> Periods:
        """The periods one entry along the list, on one axis or on all; an axis at the end of the list turns round."""
        out = list(periods)
        for j in range(self.m) if axis is None else (axis,):
            if not self.periodic[j]:
                place = PERIODS.index(out[j])
                out[j] = PERIODS[place + step if 0 <= place + step < len(PERIODS) else place - step]
        return tuple(out)

    def _scan(self, sizes: Sequence[float], start: Fit | None) -> Periods:
        """The best periods at a small size: all axes alike, then axis by axis."""
        common = [tuple(1.0 if joined else t for joined in self.periodic) for t in PERIODS]
        best = min(dict.fromkeys(common), key=lambda p: self.fit(sizes, p, start).estimate)
        if self.m > 1 and self._is_cheap(sizes):
            for j in np.flatnonzero(~self.periodic):
                choices = [(*best[:j], t, *best[j + 1 :]) for t in PERIODS]
                best = min(choices, key=lambda p: self.fit(sizes, p, start).estimate)
        return best

    def _is_cheap(self, sizes: Sequence[float]) -> bool:
        return self.columns(sizes) <= (400 if self.fitter.is_linear else 200)

    def level(self, sizes: Sequence[float], periods: Periods, start: Fit | None) -> tuple[Fit, Periods, float]:
        """The best fit near some periods at one size, its periods and its bar."""
        single = range(self.m) if self.m > 1 and self._is_cheap(sizes) else ()
        tried = {periods: self.fit(sizes, periods, start)}
        while True:
            best = min(tried, key=lambda p: tried[p].estimate)
            moves = [(step, axis) for step in (-1, 1) for axis in (None, *single)]
            beside = {self._shifted(best, step, axis) for step, axis in moves} - set(tried)
            if not beside:
                break
            tried |= {p: self.fit(sizes, p, start) for p in sorted(beside)}
        fit = tried[best]
        # Second opinions differ on every axis, so that they share no truncation error with the best.
        others = [
            f for p, f in tried.items() if all(a != b or c for a, b, c in zip(p, best, self.periodic, strict=True))
        ]
        second = min(others, key=lambda f: f.estimate, default=None)
        bar = self.bar_between(fit, second) if second is not None else np.inf
        if start is not None and (second is None or second.estimate > FAR * fit.estimate):
            bar = min(bar, self.bar_between(fit, start))  # the last, smaller lattice
        if fit.estimate <= self.tol < bar:
            # The second opinion is the worse one. Where it is far worse (a solution that repeats after `best` widths has
            # no second period), compare with another size; otherwise look between the two for a closer match.
            if second is None or second.estimate > FAR * fit.estimate:
                bar = min(bar, self._bar_by_size(fit, sizes, best, start))
            else:
                assert isinstance(second.basis, LatticeBasis)
                middle = tuple(
                    1.0 if c else float(np.sqrt(a * b))
                    for a, b, c in zip(best, second.basis.periods, self.periodic, strict=True)
                )
                bar = min(bar, self.bar_between(fit, self.fit(sizes, middle, start)))
        return fit, best, bar

    def bar_between(self, fit: Fit, other: Fit) -> float:
        """The larger of the held-out residual and the difference to another answer."""
        if not (fit.finite and other.finite):
            return np.inf
        return max(fit.estimate, fit.difference(other), ROUNDING)

    def _bar_by_size(self, fit: Fit, sizes: Sequence[float], periods: Periods, start: Fit | None) -> float:
        """The bar where there is one period only: compare with a larger lattice."""
        larger = [self._grown(s) for s in sizes]
        if self.columns(larger) > self.max_columns:
            larger = [s / SLOW_GROWTH for s in sizes]
        return self.bar_between(fit, self.fit(larger, periods, start))

    def _grown(self, size: float) -> float:
        """The next larger size of one axis: whole numbers for a box, a longer radius for a ball of frequencies."""
        return float(np.ceil(size * GROWTH)) if np.isinf(self.power) else size * SLOW_GROWTH

    # --- growth ----------------------------------------------------------------------------------------------------

    def zero(self) -> Search:
        """The zero function on the smallest lattice."""
        basis = LatticeBasis(self.problem.domain, np.zeros((1, self.m), int), (1.0,) * self.m)
        coefficients = np.zeros((1, self.fitter.num_unknowns))
        self.search.best = self.fitter.judge(basis, coefficients, self.problem.parameter_start, None, (), steps=0)
        self.search.bar = 0.0
        return self.search

    def run(self, sizes: list[float] | None = None, periods: Periods | None = None) -> Search:
        """Grow until the bar meets the tolerance, the size limit is reached or nothing helps any more.

        Args:
            sizes: where to begin; small by default.
            periods: likewise; found by a scan by default.
        """
        search = self.search
        resolved, idle = periods is not None, 0
        start: Fit | None = None
        if sizes is None:
            sizes = [START.get(self.m, 3.0) + (1.0 if self.m == 2 and not np.isinf(self.power) else 0.0)] * self.m
        while True:
            if self.columns(sizes) > self.max_columns:
                self._finish(Word.SIZE, f"stopped at the {self.limit} of {self.max_columns} columns")
                return search
            if periods is None or (self._is_cheap(sizes) and not resolved):
                periods = self._scan(sizes, start)
            fit, periods, bar = self.level(sizes, periods, start)
            self.sizes, self.periods = sizes, periods
            improved = self._record(fit, periods, bar)
            if bar <= self.tol:
                calm(self.fitter, search, self.tol)
                if search.bar + rounding_lost(self.problem, search.best or fit) <= self.tol:
                    self._finish(Word.CONVERGED)
                    return search
            resolved = fit.estimate < UNRESOLVED
            idle = 0 if improved or not resolved else idle + 1
            if idle >= PATIENCE:
                self._finish(Word.STALLED, "stalled: larger lattices no longer improve the answer")
                return search
            if not self._probed and (search.steps >= 2 or self.m >= 4):
                self._probed = True
                if self._probe(sizes, periods):
                    return search
            self._fits = {k: f for k, f in self._fits.items() if k[: self.m] != tuple(np.round(sizes, 6))}
            start = fit if fit.finite else None
            sizes = self._next(sizes, periods, fit, resolved)

    def _probe(self, sizes: Sequence[float], periods: Periods) -> bool:
        """Whether the answer is a short sum of sinusoids: two random starts of learned frequencies find the same one.

        Starts reach as far as the lattice does and stay away from zero, where the objective has no slope.
        """
        if self.problem.learned or self.fitter.num_unknowns * PROBE[min(self.m, 4)] * 2**self.m > 600:
            return False
        count = PROBE[min(self.m, 4)]
        fitter = Fitter(self.problem, seed=self.seed, periodic_basis=False) if self.periodic.any() else self.fitter
        learner = FrequencyLearner(fitter, count)
        reach = np.clip(1.5 * np.pi * (np.array(sizes) - 1) / np.array(periods), 3.0, 60.0)
        rng = np.random.default_rng(self.seed)
        found: list[Fit] = []
        for tried in range(PROBE_STARTS):
            start = rng.uniform(0.2, np.maximum(reach, 0.4), (count, self.m))
            fit = learner.run(start, max_steps=PROBE_STEPS)
            good = fit.estimate <= self.tol
            if not good and not found and tried == PROBE_STARTS // 2 - 1:
                break  # half of the starts say whether it is worth while
            found += [fit] if good else []
            if len(found) == 2:
                bar = self.bar_between(*sorted(found, key=lambda f: f.estimate))
                self._record(found[0], (0.0,) * self.m, bar)
                if bar <= self.tol:
                    self._finish(Word.CONVERGED, f"converged with {count} learned frequencies")
                    return True
                break
        return False

    def _next(self, sizes: list[float], periods: Periods, fit: Fit, resolved: bool) -> list[float]:
        """Grow all axes, or one axis alone where that buys more digits per column."""
        every = [self._grown(s) for s in sizes]
        single = [[self._grown(s) if i == j else s for i, s in enumerate(sizes)] for j in range(self.m)]
        if self.m == 1 or not resolved or self.search.steps < 2:
            return every
        candidates = [c for c in (every, *single) if self.columns(c) <= self.max_columns]
        if not candidates:
            return every

        def rate(candidate: list[float]) -> float:
            trial = self.fit(candidate, periods, fit)
            if not trial.finite:
                return -np.inf
            digits = np.log(max(fit.estimate, 1e-300) / max(trial.estimate, self.tol / 4, 1e-300))
            return digits / np.log(self.columns(candidate) / self.columns(sizes))

        return max(candidates, key=rate)

    def _record(self, fit: Fit, periods: Periods, bar: float) -> bool:
        """Keep the better answer; True when the bar halved."""
        search = self.search
        halved = bar < search.bar / 2
        if search.best is None or (bar, fit.estimate) < (search.bar, search.best.estimate):
            search.best, search.bar = fit, bar
        columns = fit.basis.num_columns * self.fitter.num_unknowns
        search.record.step("lattice", columns=columns, estimate=fit.estimate, error_estimate=bar, periods=periods)
        return halved

    def free_constants(self) -> list[int]:
        """Unknowns that only enter by their derivatives in a linear problem: any constant may be added to them."""
        if not self.fitter.is_linear:
            return []
        zero = (0,) * self.m
        seen = {u for b in self.problem.blocks if b.kind != "periodic" for u, alpha in b.residual.jets if alpha == zero}
        return [k for k in range(self.fitter.num_unknowns) if k not in seen]

    def _finish(self, word: Word, clause: str = "") -> None:
        search, note = self.search, ""
        free = ", ".join(self.problem.unknowns[k] for k in self.free_constants())
        if word is Word.CONVERGED and free:
            note = f"nothing fixes the constant in {free}, so the smallest was taken"
        if word is not Word.CONVERGED:
            if search.best is None:
                note = "no lattice fits within it: raise `max_columns`"
            elif not search.best.finite:
                word, clause, search.bar = Word.NOT_FINITE, "", np.inf
            elif search.best.estimate > UNRESOLVED and not self.fitter.is_linear:
                # Gauss-Newton may be at another solution, or at none: the residual of an answer that far off bounds nothing.
                search.bar = np.inf
                note = f"the solution was not resolved, its residual is {search.best.estimate:.0%}"
            elif search.best.estimate < 1e-2 * search.bar and search.bar > 1e-3:
                note = (
                    f"two answers that both satisfy the problem to {search.best.estimate:.0e} differ by {search.bar:.0e}: "
                    "the conditions do not determine the solution, or barely do"
                )
        search.ending = Ending(word, clause, note)


def calm(fitter: Fitter, search: Search, tol: float) -> float:
    """Trade accuracy beyond the tolerance for small amplitudes: raise the ridge until they are of the answer's size.

    Neighboring waves of a long period nearly cancel, with amplitudes of thousands; a series is read more easily, and
    stored in fewer digits, without that. The bar grows by the distance that the answer moves.
    """
    best, bar = search.best, search.bar
    assert best is not None
    for ridge in CALM:
        if np.abs(best.coefficients).max() <= CALM_SIZE * np.abs(best.inside).max():
            break
        calmer = fitter.fit(best.basis, search.best, ridge)
        moved = max(bar + best.difference(calmer), calmer.estimate)
        if not calmer.finite or moved > tol:
            break
        best, bar = calmer, moved
        search.best, search.bar = best, bar
    search.record.history["error_estimate"][-1] = search.bar
    return search.bar


def columns_in_memory() -> int:
    """How many columns a least-squares problem may have in half of the free memory."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 30
    # the buffer holds (rows + columns) x columns doubles; one more copy is made on the way
    return int(np.sqrt(free / 2 / (2 * 8 * (ROWS_PER_COLUMN + 1))))
