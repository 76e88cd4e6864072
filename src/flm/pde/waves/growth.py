"""Tolerance in, series out: a lattice of frequencies that grows until answers with two periods agree.

The period T of the lattice (in widths of the domain) is a nuisance: any T > 1 represents any smooth function. So every size
is solved with two of them, and their difference is an error bar that the residual alone is not: near a resonance a small
residual hides a large error, but not the same one at two periods. An answer that is a short sum of sinusoids is found at
once by learned frequencies.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

from flm.pde.problem import PDE
from flm.pde.waves.basis import WaveBasis, lattice_set
from flm.pde.waves.determined import NULL, SIZES, homogeneous_residual
from flm.pde.waves.fit import Fit, Fitter
from flm.pde.waves.learn_frequencies import FrequencyLearner
from flm.pde.waves.sampling import ROWS_PER_COLUMN
from flm.results import Ending, Listener, Record, Word

PERIODS = (
    2.0,
    4.0,
)  # the shorter repeats after a full sine, the longer after a quarter: sums of these are found exactly
GROWTH = 1.4  # of the points along each axis
SLOW_GROWTH = 1.2  # likewise where the number of columns grows with a higher power
CALM = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7)  # ridges tried on a converged answer
CALM_SIZE = 5.0  # largest coefficient, relative to the answer, that needs no calming
PROBE = {1: 8, 2: 16, 3: 16}  # sub-networks of the probe for a short sum of sinusoids, by number of axes; 8 beyond
PROBE_STARTS, PROBE_STEPS = 4, 40
START = {1: 8.0, 2: 4.0}  # lattice points per axis at first; 3 beyond two axes
UNRESOLVED = 0.03  # above this estimate a solution has not been met yet: no verdict on its convergence
FAR = 30.0  # ratio of estimates beyond which a second period has nothing to say
PATIENCE = 3  # levels without halving the bar
ROUNDING = 1e-15  # no loss, and no error bar, is smaller


@dataclass
class Search:
    """The best answer so far, its bar, and how the search ended."""

    best: Fit | None = None
    bar: float = np.inf
    ending: Ending = field(default_factory=lambda: Ending(Word.INTERRUPTED))
    record: Record = field(default_factory=Record)


def solve_to_tolerance(problem: PDE, tol: float, *, max_columns: int, seed: int, progress: Listener) -> Search:
    """The smallest lattice or short sum of sinusoids that meets the tolerance."""
    growth = Growth(problem, tol=tol, max_columns=max_columns, seed=seed, progress=progress)
    if growth.is_homogeneous():
        return growth.zero()
    try:
        growth.run()
        growth.doubt()
    except KeyboardInterrupt:
        if growth.search.best is None:
            raise
        growth.search.ending = Ending(Word.INTERRUPTED)
    return growth.search


class Growth:
    """Grows the lattice of one problem; every choice is blind to the exact solution."""

    def __init__(self, problem: PDE, *, tol: float, max_columns: int, seed: int, progress: Listener):
        self.problem, self.tol, self.seed = problem, tol, seed
        self.max_columns = min(max_columns, columns_in_memory())
        self.limit = "size limit" if self.max_columns == max_columns else "limit of the free memory, at a size"
        self.fitter = Fitter(problem, seed=seed)
        self.m = len(problem.axes)
        self.power = np.inf if self.m == 1 else 2.0
        self.search = Search(record=Record(progress))

    def columns(self, size: float) -> int:
        """Linear unknowns with so many points along each axis."""
        per_point = 2 ** (lattice_set([size] * self.m, self.power) > 0).sum(axis=1)
        return int(per_point.sum()) * self.fitter.num_unknowns + len(self.problem.learned)

    def fit(self, size: float, period: float, start: Fit | None) -> Fit:
        """The fit at one size and one period; axes that are joined repeat after their own width."""
        periods = np.where(self.problem.periodic_axes, 1.0, period)
        return self.fitter.fit(WaveBasis(self.problem.domain, lattice_set([size] * self.m, self.power), periods), start)

    def is_homogeneous(self) -> bool:
        """Whether the problem is linear and zero satisfies everything exactly."""
        if not self.fitter.is_linear or any(b.kind == "data" for b in self.problem.blocks):
            return False
        parameters = self.problem.parameter_start
        zero = lambda b: np.zeros((len(b.block.residual.jets), b.size))
        return not any(self.fitter.linearize(b, zero(b), parameters).value.any() for b in self.fitter.sampler.held())

    def zero(self) -> Search:
        """The zero function on the smallest lattice."""
        basis = WaveBasis(self.problem.domain, np.zeros((1, self.m), int), (1.0,) * self.m)
        nothing = np.zeros((1, self.fitter.num_unknowns))
        best = self.fitter.judge(basis, nothing, self.problem.parameter_start, None, (), steps=0)
        return Search(best, 0.0, Ending(Word.TRIVIAL, note="give a source or data"), self.search.record)

    def run(self) -> None:
        """Grow until the bar meets the tolerance, the size limit is reached or nothing helps any more."""
        search, size, idle, levels = self.search, START.get(self.m, 3.0), 0, 0
        last: Fit | None = None
        while self.columns(size) <= self.max_columns:
            fits = [self.fit(size, period, last) for period in PERIODS]
            if all(self.problem.periodic_axes):  # one period alone: the last, smaller lattice is the second opinion
                fits = [fits[0], last or fits[0]]
            fit, other = sorted(fits, key=lambda f: f.estimate)
            if fit.estimate <= self.tol and other.estimate > FAR * fit.estimate:
                # A solution that repeats after one of the periods has no second one: another size is the second opinion.
                near = self._grown(size) if self.columns(self._grown(size)) <= self.max_columns else size / SLOW_GROWTH
                other = self.fit(near, PERIODS[fits.index(fit)], fit)
            bar = np.inf if other is fit else self.bar_between(fit, other)
            improved = self._record(fit, bar)
            if bar <= self.tol:
                calm(self.fitter, search, self.tol)
                if search.best is not None and search.bar + rounding_lost(self.problem, search.best) <= self.tol:
                    self._finish(Word.CONVERGED)
                    return
            idle = 0 if improved or fit.estimate >= UNRESOLVED else idle + 1
            if idle >= PATIENCE:
                self._finish(Word.STALLED, "stalled: larger lattices no longer improve the answer")
                return
            levels += 1
            if levels == (1 if self.m >= 4 else 2) and self._probe(size):
                return
            last = fit if fit.finite else None
            size = self._grown(size)
        self._finish(Word.SIZE, f"stopped at the {self.limit} of {self.max_columns} columns")

    def _grown(self, size: float) -> float:
        return float(np.ceil(size * GROWTH)) if self.m <= 2 else size * SLOW_GROWTH

    def bar_between(self, fit: Fit, other: Fit) -> float:
        """The larger of the held-out residual and the difference to another answer."""
        return max(fit.estimate, fit.difference(other), ROUNDING) if fit.finite and other.finite else np.inf

    def _probe(self, size: float) -> bool:
        """Whether the answer is a short sum of sinusoids: two random starts of learned frequencies find the same one.

        Starts reach as far as the lattice does and stay away from zero, where the objective has no slope.
        """
        count = PROBE.get(self.m, 8)
        if self.problem.learned or self.fitter.num_unknowns * count * 2**self.m > 600:
            return False
        periodic = any(self.problem.periodic_axes)
        learner = FrequencyLearner(
            Fitter(self.problem, seed=self.seed, periodic_basis=False) if periodic else self.fitter, count
        )
        reach = np.clip(1.5 * np.pi * (size - 1) / np.where(self.problem.periodic_axes, 1.0, PERIODS[0]), 3.0, 60.0)
        rng = np.random.default_rng(self.seed)
        found: list[Fit] = []
        for tried in range(PROBE_STARTS):
            fit = learner.run(rng.uniform(0.2, reach, (count, self.m)), max_steps=PROBE_STEPS)
            found += [fit] if fit.estimate <= self.tol else []
            if not found and tried == PROBE_STARTS // 2 - 1:
                return False  # half of the starts say whether it is worth while
            if len(found) == 2:
                bar = self.bar_between(*sorted(found, key=lambda f: f.estimate))
                self._record(found[0], bar)
                if bar <= self.tol:
                    self._finish(Word.CONVERGED, f"converged with {count} learned frequencies")
                return bar <= self.tol
        return False

    def _record(self, fit: Fit, bar: float) -> bool:
        """Keep the better answer; True when the bar halved."""
        search = self.search
        halved = bar < search.bar / 2
        if search.best is None or (bar, fit.estimate) < (search.bar, search.best.estimate):
            search.best, search.bar = fit, bar
        columns = fit.basis.num_columns * self.fitter.num_unknowns
        search.record.step("lattice", columns=columns, estimate=fit.estimate, error_estimate=bar)
        return halved

    def free_constants(self) -> list[int]:
        """Unknowns that only enter by their derivatives in a linear problem: any constant may be added to them."""
        if not self.fitter.is_linear:
            return []
        zero = (0,) * self.m
        seen = {u for b in self.problem.blocks if b.kind != "periodic" for u, alpha in b.residual.jets if alpha == zero}
        return [k for k in range(self.fitter.num_unknowns) if k not in seen]

    def doubt(self) -> None:
        """Withdraw an answer that is one of many."""
        search, fit, problem = self.search, self.search.best, self.problem
        if fit is None or not fit.finite or fit.estimate > UNRESOLVED or self.m not in SIZES:
            return
        if problem.learned or any(b.kind == "data" for b in problem.blocks):
            return
        left = homogeneous_residual(self.fitter, fit, self.power, self.free_constants())
        if left < NULL:
            search.bar = np.inf
            search.ending = Ending(
                Word.UNDETERMINED,
                f"undetermined: something other than zero satisfies the problem without its right-hand sides to {left:.0e}, "
                "so this answer is one of many, if there is one at all",
                "add the conditions that are missing",
            )

    def _finish(self, word: Word, clause: str = "") -> None:
        search, note = self.search, ""
        free = ", ".join(self.problem.unknowns[k] for k in self.free_constants())
        if word is Word.CONVERGED:
            note = f"nothing fixes the constant in {free}, so the smallest was taken" if free else ""
        elif search.best is None:
            note = "no lattice fits within it: raise `max_columns`"
        elif not search.best.finite:
            word, clause, search.bar = Word.NOT_FINITE, "", np.inf
        elif max(search.best.estimate, search.bar) > UNRESOLVED:
            # Gauss-Newton may be at another solution, or at none, and a residual may grow: such a distance bounds nothing.
            note = f"the solution was not resolved, its residual is {search.best.estimate:.0%}"
            search.bar = np.inf
        search.ending = Ending(word, clause, note)


def calm(fitter: Fitter, search: Search, tol: float) -> None:
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


def rounding_lost(problem: PDE, fit: Fit) -> float:
    """The relative difference between an answer as coefficients and as a model, worst unknown; 0 below rounding.

    Amplitudes much larger than the answer lose digits in their phases.
    """
    points = problem.domain.interior(64, seed=1, warp=False)
    zero = (0,) * len(problem.axes)
    expected = fit.basis.evaluate(fit.basis.tables(points), fit.coefficients, (zero,))[0]
    gap = np.asarray(fit.basis.model(fit.coefficients).jets(points, (zero,))[0]).reshape(expected.shape) - expected
    size = np.sqrt(np.mean(expected**2, axis=0))
    lost = float(np.max(np.sqrt(np.mean(gap**2, axis=0)) / np.where(size > 0, size, 1.0)))
    return lost if lost > ROUNDING else 0.0


def columns_in_memory() -> int:
    """How many columns a least-squares problem may have in half of the free memory."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 30
    # the buffer holds (rows + columns) x columns doubles; one more copy is made on the way
    return int(np.sqrt(free / 2 / (2 * 8 * (ROWS_PER_COLUMN + 1))))
