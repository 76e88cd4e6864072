"""Tolerance in, sum of products out: a sparse set that grows until two answers agree and held-out residuals are small."""

from __future__ import annotations

import time

import numpy as np
from scipy.linalg import solve_triangular

from flm.numerics.least_squares import one_thread
from flm.pde.problem import PDE
from flm.pde.sparse.basis import SparseBasis, even_axes, next_set, total_degree
from flm.pde.waves.fit import Fit, Fitter
from flm.pde.waves.search import ROUNDING, UNRESOLVED, Search, columns_in_memory, to_solution
from flm.results import Ending, Listener, Record, Solution, Word
from flm.wording import InputError

MAX_COLUMNS = 4000  # of one dense least-squares problem
START = {1: 8, 2: 15}  # functions at first, by number of axes; a full set of degree two and more beyond
GROWTH = 1.7  # of the number of functions
PATIENCE = 3  # sets without halving the bar
NULL = 1e-7  # a smaller residual is a solution of the homogeneous problem
POWER_STEPS = 30
CHECK = 240  # functions with which missing conditions are looked for


def solve_by_sparse_sets(
    problem: PDE, tol: float, *, max_columns: int | None, seed: int, progress: Listener
) -> Solution:
    """One sum of products of Legendre functions: see `flm.pde.solve.solve_pde`."""
    began = time.perf_counter()
    growth = Growth(problem, tol, MAX_COLUMNS if max_columns is None else max_columns, seed, progress)
    if growth.is_homogeneous():
        return to_solution(problem, growth.zero(), tol, began)
    try:
        growth.run()
        growth.doubt()
    except KeyboardInterrupt:
        if growth.search.best is None:
            raise
        growth.search.ending = Ending(Word.INTERRUPTED)
    if growth.search.best is None:
        raise InputError(f"`max_columns` must leave room for the smallest set. {growth.search.ending.clause}.")
    return to_solution(problem, growth.search, tol, began)


class Growth:
    """Grows the set of one problem; every choice is blind to the exact solution."""

    def __init__(self, problem: PDE, tol: float, max_columns: int, seed: int, progress: Listener):
        self.problem, self.tol = problem, tol
        self.max_columns = min(max_columns, columns_in_memory())
        self.limit = "size limit" if self.max_columns == max_columns else "limit of the free memory, at a size"
        self.fitter = Fitter(problem, seed=seed, periodic_basis=False)
        self.m, self.unknowns = len(problem.axes), len(problem.unknowns)
        self.steps = 1 + even_axes(problem, self.fitter.sampler.held()).astype(int)
        self.search = Search(record=Record(progress))

    def is_homogeneous(self) -> bool:
        """Whether the problem is linear and zero satisfies everything exactly."""
        if not self.fitter.is_linear or any(b.kind == "data" for b in self.problem.blocks):
            return False
        zero = lambda b: np.zeros((len(b.block.residual.jets), b.size))
        held, start = self.fitter.sampler.held(), self.problem.parameter_start
        return not any(self.fitter.linearize(b, zero(b), start).value.any() for b in held)

    def zero(self) -> Search:
        """The zero function."""
        basis = SparseBasis(self.problem.domain, np.zeros((1, self.m), int))
        nothing = np.zeros((1, self.unknowns))
        best = self.fitter.judge(basis, nothing, self.problem.parameter_start, None, (), steps=0)
        return Search(best, 0.0, Ending(Word.TRIVIAL, note="give a source or data"), self.search.record)

    def run(self) -> None:
        """Grow until the bar meets the tolerance, the size limit is reached or nothing helps any more."""
        search, idle, last = self.search, 0, None
        degrees = total_degree(self.steps, START.get(self.m, (self.m + 1) * (self.m + 2) // 2))
        while (columns := len(degrees) * self.unknowns + len(self.problem.learned)) <= self.max_columns:
            fit = self.fitter.fit(SparseBasis(self.problem.domain, degrees), last)
            bar = np.inf
            if last is not None and fit.finite:
                bar = max(fit.estimate, fit.difference(last), ROUNDING)
            halved = bar < search.bar / 2
            if search.best is None or (bar, fit.estimate) < (search.bar, search.best.estimate):
                search.best, search.bar = fit, bar
            search.record.step("sparse", columns=columns, estimate=fit.estimate, error_estimate=bar)
            if bar <= self.tol:
                return self._finish(Word.CONVERGED)
            idle = 0 if halved or fit.estimate >= UNRESOLVED else idle + 1
            if idle >= PATIENCE:
                return self._finish(Word.STALLED)
            last = fit if fit.finite else None
            largest = self.max_columns // self.unknowns - len(self.problem.learned)
            wanted = int(np.ceil(GROWTH * len(degrees)))
            if wanted > largest > 1.2 * len(degrees):
                wanted = largest
            degrees = (
                next_set(degrees, fit.coefficients, self.steps, wanted)
                if fit.finite and fit.estimate < UNRESOLVED  # the decay of a poor fit says nothing of the solution's
                else total_degree(self.steps, wanted)
            )
        return self._finish(Word.SIZE, f"stopped at the {self.limit} of {self.max_columns} columns")

    def free_constants(self) -> list[int]:
        """Unknowns that only enter by their derivatives in a linear problem: any constant may be added to them."""
        if not self.fitter.is_linear:
            return []
        zero = (0,) * self.m
        seen = {u for b in self.problem.blocks if b.kind != "periodic" for u, alpha in b.residual.jets if alpha == zero}
        return [k for k in range(self.unknowns) if k not in seen]

    def _orders(self) -> list[int]:
        """The highest derivative of each unknown along the first axis."""
        jets = [jet for b in self.problem.equations for jet in b.residual.jets]
        return [max((alpha[0] for u, alpha in jets if u == k), default=0) for k in range(self.unknowns)]

    def doubt(self) -> None:
        """Withdraw an answer that is one of many."""
        search, fit = self.search, self.search.best
        if fit is None or not fit.finite or fit.estimate > UNRESOLVED:
            return
        starts = sum(b.kind == "initial" for b in self.problem.blocks)
        full = self.m == 1 and starts >= sum(
            self._orders()
        )  # an initial value problem is determined, however fast it grows
        if full or self.problem.learned or any(b.kind == "data" for b in self.problem.blocks):
            return
        left = homogeneous_residual(self.fitter, fit, total_degree(np.ones(self.m, int), CHECK), self.free_constants())
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
        elif search.best is not None and not search.best.finite:
            word, clause, search.bar = Word.NOT_FINITE, "", np.inf
        elif search.best is not None and max(search.best.estimate, search.bar) > UNRESOLVED:
            # Gauss-Newton may be at another solution, or at none, and a residual may grow: such a distance bounds nothing.
            note = f"the solution was not resolved, its residual is {search.best.estimate:.0%}"
            search.bar = np.inf
        search.ending = Ending(word, clause, note)


def homogeneous_residual(fitter: Fitter, fit: Fit, degrees: np.ndarray, free_constants: list[int]) -> float:
    """The smallest relative residual of the problem, linearized at an answer, that a function of size one leaves.

    Residuals do not tell: where conditions are missing, least squares picks one of many answers, the same one on every set.
    With A = Q R the rows of the problem on a sparse set and V its values inside, the direction in which |V c| / |A c| is largest,
    the first singular vector of V R^-1, is the best candidate for a solution of the homogeneous problem. How well it satisfies
    that is judged as any answer is: 0.006 to 1 for well-posed problems, about half the relative distance of k^2 from an
    eigenvalue for Helmholtz' equation, below 1e-7 where a condition is missing.

    Args:
        fitter: of the problem.
        fit: the answer.
        degrees: of the functions that are tried.
        free_constants: unknowns to which any constant may be added, which then does not count.
    """
    problem, m, unknowns = fitter.problem, len(fitter.problem.axes), fitter.num_unknowns
    basis = SparseBasis(problem.domain, degrees)
    count = basis.num_columns
    batches = fitter.sampler.training(unknowns * count)
    jets = [fitter.jets(fit.basis, fit.coefficients, b) for b in batches]
    answer = fitter.solve(basis, batches, jets, fit.parameters).answer
    held = fitter.sampler.held()[0]
    values = np.empty((count, held.size))
    basis.combine(held.points, {(0,) * m: np.ones(held.size)}, values)
    centered = values - values.mean(axis=1, keepdims=True)
    side = np.zeros((unknowns * count, unknowns * held.size))
    for k in range(unknowns):
        rows, columns = slice(k * count, (k + 1) * count), slice(k * held.size, (k + 1) * held.size)
        side[rows, columns] = (centered if k in free_constants else values) / answer.column_norms[rows, None]
    with one_thread(len(side)):
        matrix = solve_triangular(answer.triangle, side, trans=1, check_finite=False)
        vector = np.random.default_rng(0).normal(size=len(side))
        for _ in range(POWER_STEPS):
            vector = matrix @ (matrix.T @ vector)
            vector /= np.linalg.norm(vector)
        direction = solve_triangular(answer.triangle, vector, check_finite=False) / answer.column_norms
    return fitter.homogeneous(basis, direction.reshape(unknowns, count).T, fit, free_constants)
