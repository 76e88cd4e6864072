"""Sparse sets: one sum of products of Legendre functions over a set of degrees that grows until two answers agree.

Sparse sets are for four to eight variables, and where pieces do not serve: undamped waves on regions, readings in place of
conditions. A set is downward closed: the degrees of smallest size, sum_j b_j k_j (total degree, stretched) or sum_j b_j
log(1 + k_j) (a hyperbolic cross), with b_j the decay rate of coefficients along axis j. Along an axis on which a problem is its own
mirror image, its solution has only even degrees. Coefficients are found by least squares at points (`waves/fit`).
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.linalg import eigh, solve_triangular

from flm.domains import AbstractDomain
from flm.models.products import SparseFLM, tensor_columns
from flm.numerics.least_squares import one_thread
from flm.pde.problem import PDE, Block
from flm.pde.waves.fit import ROUNDING, Basis, Fit, Fitter
from flm.pde.waves.peaks import missed_peak
from flm.pde.waves.sampling import Batch, columns_in_memory
from flm.results import Ending, Listener, Record, Solution, Word
from flm.series.lattices import by_size
from flm.wording import InputError

MAX_COLUMNS = 4000  # of one dense least-squares problem
START = {1: 8, 2: 15}  # functions at first, by number of axes; a full set of degree two and more beyond
UNRESOLVED = 0.03  # above this estimate a solution has not been resolved yet: no verdict on its convergence
GROWTH = 1.7  # of the number of functions
PATIENCE = 3  # sets in a row that do not halve the bar, after which the search ends
NULL = 1e-7  # a smaller residual is a solution of the homogeneous problem
AMPLIFIED = 4 * np.finfo(float).eps  # rounding of the rows, before the problem amplifies it
CHECK = 240  # functions with which missing conditions are looked for
POINTS, SAME = 48, 1e-9  # points at which a problem is compared with its mirror image, and the tolerance
SLOWEST, FASTEST = 0.15, 12.0  # limits to the rates of decay per degree


def sparse_columns(domain: AbstractDomain, degrees: np.ndarray) -> Basis:
    """Products of orthonormal Legendre functions with degrees (C, m) on the bounding box of a domain."""
    bounds = np.asarray(domain.bounds, float)
    columns = lambda points, alphas: tensor_columns(points, bounds, degrees, alphas)
    return Basis(len(degrees), columns, lambda coefficients: SparseFLM(bounds, degrees, coefficients, domain.axes))


def total_degree(steps: np.ndarray, count: int) -> np.ndarray:
    """The first `count` degrees by their sum, (count, m); multiples of `steps`, which is 2 along axes of even functions."""
    return _first(np.ones(len(steps)), steps, count, hyperbolic=False)


def next_set(degrees: np.ndarray, coefficients: np.ndarray, steps: np.ndarray, count: int) -> np.ndarray:
    """The next set: the degrees of the last one and `count` by the order and rates that its coefficients suggest."""
    sizes = np.abs(coefficients).max(axis=1)
    sizes = np.maximum(sizes / (sizes.max() or 1.0), 1e-17)
    rates, crossed = (np.array([_rate(column, sizes, kind) for column in degrees.T]) for kind in (False, True))
    left = lambda order: float(np.sum(sizes[np.argsort(order, kind="stable")[len(sizes) // 2 :]] ** 2))
    # the squares in the second half of the set, in each order
    hyperbolic = left(np.log1p(degrees) @ crossed) < 0.5 * left(degrees @ rates)
    wanted = _first(crossed if hyperbolic else rates, steps, count, hyperbolic)
    return np.unique(np.concatenate([degrees, wanted]), axis=0)


def _first(rates: np.ndarray, steps: np.ndarray, count: int, hyperbolic: bool) -> np.ndarray:
    m, along = len(rates), np.arange(count + 1) * steps[:, None]
    costs = (rates[:, None] * (np.log1p(along) if hyperbolic else along)).tolist()
    size = lambda k: sum(cost[i] for cost, i in zip(costs, k, strict=True))
    return np.array(list(itertools.islice(by_size(size, [((0,) * m, tuple(range(m)))]), count)), int) * steps


def _rate(degrees: np.ndarray, sizes: np.ndarray, hyperbolic: bool) -> float:
    """How fast the largest coefficients decay with the degree along one axis."""
    n = int(degrees.max())
    if n == 0:
        return 1.0
    fall = -np.log(sizes[degrees == n].max() / sizes.max()) / (np.log1p(n) if hyperbolic else n)
    return float(np.clip(fall, SLOWEST, FASTEST))


# --- axes along which the problem is its own mirror image ------------------------------------------------------------


def even_axes(problem: PDE, batches: tuple[Batch, ...]) -> np.ndarray:
    """Which axes may be mirrored about the middle of the domain without changing the equation or any condition, (m,)."""
    if len(problem.unknowns) > 1 or problem.learned or any(b.kind == "data" for b in problem.blocks):
        return np.zeros(len(problem.axes), bool)
    return np.array([all(_is_even(problem, batch, j) for batch in batches) for j in range(len(problem.axes))])


def _is_even(problem: PDE, batch: Batch, j: int) -> bool:
    if batch.partner is not None:
        return True  # opposite faces are joined either way
    block, flip = batch.block, np.where(np.arange(len(problem.axes)) == j, -1.0, 1.0)
    points, normals = batch.points[:POINTS], batch.normals[:POINTS]
    middle = problem.domain.center * (flip < 0)
    there = (points - middle) * flip + middle
    other = _mirror(problem, block, j)
    if other is None or other.residual.jets != block.residual.jets:
        return False
    kept = [p.keep(there, normals * flip) for p in (other.piece.patches if other.piece else ()) if p.keep is not None]
    if (kept and not np.any(kept, axis=0).all()) or not problem.domain.contains(there, tolerance=SAME).all():
        return False
    jets = np.random.default_rng(0).normal(size=(len(block.residual.jets), len(points)))
    turned = jets * np.array([[flip[j] ** alpha[j]] for _, alpha in block.residual.jets]).reshape(-1, 1)
    start = problem.parameter_start
    value = np.asarray(block.residual(points, jets, start, normals))
    found = np.asarray(other.residual(there, turned, start, normals * flip))
    return bool(np.abs(value - found).max() <= SAME * max(np.abs(value).max(), 1e-300))


def _mirror(problem: PDE, block: Block, j: int) -> Block | None:
    """The condition at the mirror image of this one's place: itself, or the condition on the opposite face."""
    axis, fixed = problem.axes[j], {} if block.piece is None else dict(block.piece.fixed)
    if axis not in fixed:
        return block
    fixed[axis] = float(2 * problem.domain.center[j] - fixed[axis])
    close = SAME * problem.domain.width[j]
    near = lambda other: other.keys() == fixed.keys() and all(abs(other[a] - fixed[a]) <= close for a in fixed)
    return next((b for b in problem.conditions if b.piece is not None and near(b.piece.fixed)), None)


# --- the search ------------------------------------------------------------------------------------------------------


def solve_by_sparse_sets(
    problem: PDE, tol: float, *, max_columns: int | None, seed: int, progress: Listener
) -> Solution:
    """One sum of products of Legendre functions: see `flm.pde.solve.solve_pde`."""
    growth = Growth(problem, tol, MAX_COLUMNS if max_columns is None else max_columns, seed, progress)
    try:
        growth.run()
        growth.doubt()
    except KeyboardInterrupt:
        if growth.best is None:
            raise
        growth.ending = Ending(Word.INTERRUPTED)
    if growth.best is None:
        raise InputError(
            f"`max_columns` must leave room for the smallest set of functions; got {max_columns}: {growth.ending.clause}. "
            "Raise it, or leave it out."
        )
    return growth.best.solution(problem, growth.bar, growth.ending, growth.record, tol)


class Growth:
    """Grows the set of one problem, and keeps the best answer so far with its error bar; no choice uses the exact solution."""

    def __init__(self, problem: PDE, tol: float, max_columns: int, seed: int, progress: Listener):
        self.problem, self.tol = problem, tol
        self.max_columns = min(max_columns, columns_in_memory())
        self.limit = "size limit" if self.max_columns == max_columns else "limit of the free memory, at a size"
        self.fitter = Fitter(problem, seed=seed)
        self.m, self.unknowns = len(problem.axes), len(problem.unknowns)
        self.has_data = any(b.kind == "data" for b in problem.blocks)
        self.steps = 1 + even_axes(problem, self.fitter.held).astype(int)
        self.best: Fit | None = None
        self.bar, self.ending, self.record = np.inf, Ending(Word.INTERRUPTED), Record(progress)

    def run(self) -> None:
        """Grow until the bar meets the tolerance, the size limit is reached or more functions no longer help."""
        idle, last = 0, None
        degrees = total_degree(self.steps, START.get(self.m, (self.m + 1) * (self.m + 2) // 2))
        while (columns := len(degrees) * self.unknowns + len(self.problem.learned)) <= self.max_columns:
            fit = self.fitter.fit(sparse_columns(self.problem.domain, degrees), last)
            bar = np.inf
            if last is not None and fit.finite:
                bar = max(fit.estimate, fit.difference(last), ROUNDING)
            halved = bar < self.bar / 2
            if self.best is None or (bar, fit.estimate) < (self.bar, self.best.estimate):
                self.best, self.bar = fit, bar
            self.record.step("sparse", columns=columns, estimate=fit.estimate, error_estimate=bar)
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
            if fit.finite and fit.estimate < UNRESOLVED:  # a poor fit does not show how the solution decays
                degrees = next_set(degrees, fit.coefficients, self.steps, wanted)
            else:
                degrees = total_degree(self.steps, wanted)
        return self._finish(Word.SIZE, f"stopped at the {self.limit} of {self.max_columns} columns")

    def free_constants(self) -> list[int]:
        """The unknowns of a linear problem to which any constant may be added; readings fix theirs."""
        return [] if self.has_data or not self.fitter.is_linear else list(self.problem.free_constants)

    def doubt(self) -> None:
        """Add to the bar what rounding becomes in the answer; withdraw one that is one of many, or that misses a narrow peak."""
        fit = self.best
        if fit is None or not fit.finite or fit.estimate > UNRESOLVED or self.problem.learned or self.has_data:
            return
        if self.fitter.is_linear and not fit.coefficients.any():
            self.bar, self.ending = 0.0, Ending(Word.TRIVIAL, note="give a source or data")
        else:
            self._doubt_conditions(fit)
        peak = missed_peak(self.fitter, fit, self.tol) if self.bar < np.inf else None
        if peak is not None:
            place = ", ".join(f"{axis} = {value:.3g}" for axis, value in zip(self.problem.axes, peak, strict=True))
            clause = f"not resolved: near {place} a source or data is too narrow for sparse sets"
            self.bar, self.ending = np.inf, Ending(Word.STALLED, clause)

    def _doubt_conditions(self, fit: Fit) -> None:
        """Add to the bar what rounding becomes in the answer, and withdraw one that too few conditions determine."""
        jets = [jet for b in self.problem.equations for jet in b.residual.jets]
        orders = [max((alpha[0] for u, alpha in jets if u == k), default=0) for k in range(self.unknowns)]
        # An initial value problem is determined, however fast it grows.
        determined = self.m == 1 and sum(b.kind == "initial" for b in self.problem.blocks) >= sum(orders)
        left = homogeneous_residual(self.fitter, fit, total_degree(np.ones(self.m, int), CHECK), self.free_constants())
        self.bar += AMPLIFIED / max(left, np.finfo(float).tiny)
        if determined and self.bar > UNRESOLVED:
            self.bar = np.inf
            self.ending = Ending(Word.STALLED, note="the problem amplifies rounding to the size of its solution")
        elif not determined and left < NULL:
            self.bar = np.inf
            self.ending = Ending(
                Word.UNDETERMINED,
                f"undetermined: something other than zero satisfies the problem without its right-hand sides to {left:.0e}, "
                "so this answer is one of many, if there is one at all",
                "add the conditions that are missing",
            )

    def _finish(self, word: Word, clause: str = "") -> None:
        note, best = "", self.best
        free = ", ".join(self.problem.unknowns[k] for k in self.free_constants())
        if word is Word.CONVERGED:
            note = f"nothing fixes the constant in {free}, so the smallest was taken" if free else ""
        elif best is not None and not best.finite:
            word, clause, self.bar = Word.NOT_FINITE, "", np.inf
        elif best is not None and max(best.estimate, self.bar) > UNRESOLVED:
            # Gauss-Newton may be near another solution, or near none, and a residual may grow: then the bar bounds nothing.
            note = f"the solution was not resolved, its residual is {best.estimate:.0%}"
            self.bar = np.inf
        self.ending = Ending(word, clause, note)


def homogeneous_residual(fitter: Fitter, fit: Fit, degrees: np.ndarray, free_constants: list[int]) -> float:
    """The smallest relative residual that a function of size one leaves in the homogeneous problem, linearized at an answer.

    Where conditions are missing, least squares picks one of many answers, the same on every set. With A = Q R the rows of the
    problem on a sparse set and V its values inside, the direction of largest |V c| / |A c|, the first singular vector of V R^-1,
    is the best candidate for a solution of the homogeneous problem. Its residual is 0.006 to 1 for well-posed problems, about half
    the relative distance of k^2 from an eigenvalue for Helmholtz' equation, below 1e-7 where a condition is missing.
    """
    problem, unknowns, count = fitter.problem, fitter.num_unknowns, len(degrees)
    basis = sparse_columns(problem.domain, degrees)
    batches = fitter.training(unknowns * count)
    jets = [fitter.jets(fit.basis, fit.coefficients, b) for b in batches]
    answer = fitter.solve(basis, batches, jets, fit.parameters).answer
    held = fitter.held[0]
    values = np.empty((count, held.size))
    basis.combine(held.points, {(0,) * len(problem.axes): np.ones(held.size)}, values)
    centered = values - values.mean(axis=1, keepdims=True)
    side = np.zeros((unknowns * count, unknowns * held.size))
    for k in range(unknowns):
        rows, columns = slice(k * count, (k + 1) * count), slice(k * held.size, (k + 1) * held.size)
        side[rows, columns] = (centered if k in free_constants else values) / answer.column_norms[rows, None]
    with one_thread(len(side)):
        matrix = solve_triangular(answer.triangle, side, trans=1, check_finite=False)
        last = len(matrix) - 1
        vector = eigh(matrix @ matrix.T, subset_by_index=[last, last])[1][:, 0]
        direction = solve_triangular(answer.triangle, vector, check_finite=False) / answer.column_norms
    return fitter.homogeneous(basis, direction.reshape(unknowns, count).T, fit, free_constants)
