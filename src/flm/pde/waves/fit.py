"""Fit the coefficients of a basis to a problem, and say from held-out points how well the result satisfies it.

A linear problem is one least-squares solve. A nonlinear one is Gauss-Newton with the ridge on the iterate rather than on
the step: solve A c_new = A c - F for the whole c_new, then backtrack along c_new - c. Parameters to be learned are extra
columns. Nothing here asks which basis it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flm.language.arguments import Linearized
from flm.numerics.least_squares import RIDGE, LeastSquares, Rows
from flm.pde.problem import PDE
from flm.pde.waves.basis import AbstractBasis
from flm.pde.waves.sampling import Batch, Sampler

DATA_WEIGHT = 1e-6  # of measured rows against unit rows of the equation: the equation is then a near-exact constraint
MAX_STEPS = 20
FLAT = 0.1  # of |u| / width^order, per term: an equation's residual is compared with no less. |error| <= residual * width^order


@dataclass(frozen=True, eq=False)
class Fit:
    """A basis with coefficients (C, K) and what held-out points say of it.

    Attributes:
        estimate: the largest relative residual over the blocks, a guess at the relative error.
        inside: values at the held-out interior points, (P, K).
    """

    basis: AbstractBasis
    coefficients: np.ndarray
    parameters: np.ndarray
    covariance: np.ndarray
    estimate: float
    inside: np.ndarray
    misfit: float
    finite: bool = True
    steps: int = 1

    def difference(self, other: Fit) -> float:
        """Relative L2 difference of two fits over the inside, worst unknown."""
        gap = np.sqrt(np.mean((self.inside - other.inside) ** 2, axis=0))
        size = np.sqrt(np.mean(self.inside**2, axis=0))
        return float(np.max(gap / np.where(size > 0, size, 1.0)))


class Solved(NamedTuple):
    """Coefficients (C, K), parameters, the solve itself, and the factors of the rows of each batch."""

    coefficients: np.ndarray
    parameters: np.ndarray
    answer: LeastSquares
    factors: list[np.ndarray]


class Fitter:
    """Fits bases to one problem, sharing points and pointwise coefficients between them."""

    def __init__(self, problem: PDE, *, seed: int = 0, periodic_basis: bool = True):
        self.problem = problem
        self.sampler = Sampler(problem, seed=seed, periodic_basis=periodic_basis)
        self.num_unknowns = len(problem.unknowns)
        self._coefficients: dict[int, Linearized] = {}
        self._gain = 0.0  # of data rows; 0: not set yet
        self.is_linear = not problem.learned and all(self._is_linear(b) for b in self.sampler.held())

    # --- pointwise quantities --------------------------------------------------------------------------------------

    def _is_linear(self, batch: Batch) -> bool:
        """Whether the derivatives by the jets do not depend on the jets."""
        rng = np.random.default_rng(0)
        points, normals = batch.points[:64], batch.normals[:64]
        shape = (len(batch.block.residual.jets), len(points))
        passes = [
            batch.block.residual.linearize(
                points, scale * rng.normal(size=shape), self.problem.parameter_start, normals
            )
            for scale in (1.0, 3.0)
        ]
        size = np.abs(passes[0].by_jet).max(axis=1, keepdims=True, initial=0)
        return bool((np.abs(passes[0].by_jet - passes[1].by_jet) <= 1e-12 * size).all())

    def linearize(self, batch: Batch, jets: np.ndarray, parameters: np.ndarray) -> Linearized:
        """A batch's residual and its derivatives at these jets; those of a linear problem are found once."""
        residual = batch.block.residual
        if not self.is_linear:
            return residual.linearize(batch.points, jets, parameters, batch.normals)
        key = id(batch)
        if key not in self._coefficients:
            if len(self._coefficients) > 64:
                self._coefficients.clear()
            self._coefficients[key] = residual.linearize(batch.points, np.zeros_like(jets), parameters, batch.normals)
            self._keep = [*getattr(self, "_keep", [])[-64:], batch]  # ids stay valid while the batch lives
        at_zero = self._coefficients[key]
        return Linearized(at_zero.value + (at_zero.by_jet * jets).sum(axis=0), at_zero.by_jet, at_zero.by_parameter)

    def jets(
        self, basis: AbstractBasis, coefficients: np.ndarray, batch: Batch, points: np.ndarray | None = None
    ) -> np.ndarray:
        """The derivatives that a batch's residual needs, (A, P); for a periodic pair, here less there."""
        wanted = batch.block.residual.jets
        alphas = tuple(dict.fromkeys(alpha for _, alpha in wanted))
        out = np.zeros((len(wanted), batch.size))
        for where, sign in ((batch.points if points is None else points, 1.0), (batch.partner, -1.0)):
            if where is None or not wanted:
                continue
            values = basis.evaluate(where, coefficients, alphas)
            for i, (unknown, alpha) in enumerate(wanted):
                out[i] += sign * values[alphas.index(alpha), :, unknown]
        return out

    # --- one least-squares solve -----------------------------------------------------------------------------------

    def _fill(
        self, basis: AbstractBasis, batch: Batch, line: Linearized, jets: np.ndarray, parameters: np.ndarray, view: Any
    ) -> None:
        """Rows of one batch: columns of every unknown, columns of learned parameters, right-hand side."""
        size, learned = basis.num_columns, self.problem.learned
        wanted = batch.block.residual.jets
        for unknown in range(self.num_unknowns):
            weights = {alpha: line.by_jet[i] for i, (k, alpha) in enumerate(wanted) if k == unknown}
            part = view[unknown * size : (unknown + 1) * size]
            basis.combine(batch.points, weights, part)
            if batch.partner is not None:
                there = np.empty_like(part)
                basis.combine(batch.partner, weights, there)
                part -= there
        start = self.num_unknowns * size
        for i, q in enumerate(learned):
            view[start + i] = line.by_parameter[q]
        target = (line.by_jet * jets).sum(axis=0) - line.value
        target += sum(line.by_parameter[q] * parameters[q] for q in learned)
        if batch.block.data is not None:
            target += batch.block.data.values
        view[start + len(learned)] = target

    def _weights(self, basis: AbstractBasis, batch: Batch, rows: Rows, start: int) -> np.ndarray:
        """Scale the newest rows: unit norm, and data rows by their standard deviation."""
        if batch.block.data is None:
            return rows.scale_rows(start, batch.weight)
        sigma = _sigma(batch)
        view = rows.buffer[:, start : rows.used]
        if not self._gain:  # one gain for all readings, so that they keep their weights relative to one another
            count = self.num_unknowns * basis.num_columns
            typical = np.sqrt(np.mean(np.einsum("ij,ij->j", view[:count], view[:count])))
            self._gain = DATA_WEIGHT * float(np.sqrt(np.mean(sigma**2))) / max(typical, 1e-300)
        view *= self._gain / sigma
        return self._gain / sigma

    def solve(
        self,
        basis: AbstractBasis,
        batches: tuple[Batch, ...],
        jets: list[np.ndarray],
        parameters: np.ndarray,
        frozen: Any = None,
        ridge: float = RIDGE,
    ) -> Solved:
        """The least squares of these batches, linearized at jets; with `frozen` factors of its rows."""
        learned = self.problem.learned
        columns = self.num_unknowns * basis.num_columns
        rows = Rows(columns + len(learned), sum(b.size for b in batches))
        factors = []
        if frozen is None:
            self._gain = 0.0
        for i, batch in enumerate(batches):
            start = rows.used
            line = self.linearize(batch, jets[i], parameters)
            view = rows.take(batch.size)
            self._fill(basis, batch, line, jets[i], parameters, view)
            if frozen is None:
                factors.append(self._weights(basis, batch, rows, start))
            else:
                view *= frozen[i]
        answer = rows.solve(ridge)
        coefficients = answer.coefficients[:columns, 0].reshape(self.num_unknowns, -1).T
        found = parameters.copy()
        found[list(learned)] = answer.coefficients[columns:, 0]
        return Solved(np.ascontiguousarray(coefficients), self._bounded(found), answer, frozen or factors)

    def _bounded(self, parameters: np.ndarray) -> np.ndarray:
        limits = [getattr(v, "limits", (-np.inf, np.inf)) for v in self.problem.parameters.values()]
        return np.clip(parameters, [a for a, _ in limits], [b for _, b in limits]) if limits else parameters

    # --- the whole fit ---------------------------------------------------------------------------------------------

    def fit(self, basis: AbstractBasis, start: Fit | None = None, ridge: float = RIDGE) -> Fit:
        """The best coefficients of a basis; `start` is an earlier fit, in any basis, to linearize at first."""
        problem = self.problem
        batches = self.sampler.training(self.num_unknowns * basis.num_columns + len(problem.learned))
        parameters = problem.parameter_start if start is None else start.parameters
        zero = np.zeros((basis.num_columns, self.num_unknowns))
        if start is None or self.is_linear:
            jets = [np.zeros((len(b.block.residual.jets), b.size)) for b in batches]
        else:
            jets = [self.jets(start.basis, start.coefficients, b) for b in batches]
        coefficients, found, answer, factors = self.solve(basis, batches, jets, parameters, ridge=ridge)
        if self.is_linear:
            return self.judge(basis, coefficients, found, answer, batches, steps=1)

        old_jets, old, old_parameters = jets, (zero if start is None else None), parameters
        merit = self._merit(batches, jets, parameters, factors)
        steps = 1
        for steps in range(1, MAX_STEPS + 1):
            new_jets = [self.jets(basis, coefficients, b) for b in batches]
            size = 1.0
            while True:
                mixed = [o + size * (n - o) for o, n in zip(old_jets, new_jets, strict=True)]
                mixed_parameters = old_parameters + size * (found - old_parameters)
                new_merit = self._merit(batches, mixed, mixed_parameters, factors)
                # a start in another basis cannot be mixed with this one: its first step is taken whole
                if old is None or new_merit < merit or size < 1e-3:
                    break
                size /= 2
            if old is not None:
                coefficients = old + size * (coefficients - old)
            found = mixed_parameters
            drop = merit - new_merit
            scale = max(np.sqrt(sum((j**2).sum() for j in mixed)), 1e-300)
            change = np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(mixed, old_jets, strict=True)))
            moved = np.abs(found - old_parameters).max(initial=0) / max(np.abs(found).max(initial=0), 1e-300)
            old_jets, old, old_parameters, merit = mixed, coefficients, found, new_merit
            if not np.isfinite(merit):
                break
            settled = change <= 1e-12 * scale and moved <= 1e-10
            if steps > 1 and (settled or drop <= 0.02 * merit):
                break
            frozen = None if steps <= 1 else factors
            coefficients, found, answer, factors = self.solve(basis, batches, old_jets, old_parameters, frozen, ridge)
            if frozen is None:
                merit = self._merit(batches, old_jets, old_parameters, factors)
        coefficients = old if old is not None else coefficients
        return self.judge(basis, coefficients, old_parameters, answer, batches, steps=steps)

    def _merit(self, batches: tuple[Batch, ...], jets: list[np.ndarray], parameters: np.ndarray, factors: Any) -> float:
        total = 0.0
        for batch, j, factor in zip(batches, jets, factors, strict=True):
            value = self.linearize(batch, j, parameters).value
            if batch.block.data is not None:
                value = value - batch.block.data.values
            total += float(np.sum((factor * value) ** 2))
        return np.sqrt(total) if np.isfinite(total) else np.inf

    def homogeneous(self, basis: AbstractBasis, coefficients: np.ndarray, at: Fit, free_constants: list[int]) -> float:
        """The relative residual of a function in the problem linearized at an answer, without its right-hand side.

        Unknowns in `free_constants` are as large as what they have beside a constant.
        """
        held, zero = self.sampler.held(), (0,) * len(self.problem.axes)
        inside = basis.evaluate(held[0].points, coefficients, (zero,))[0]
        inside[:, free_constants] -= inside[:, free_constants].mean(axis=0)
        typical: dict[Any, float] = {}
        worst = 0.0
        for batch in held:
            line = self.linearize(batch, self.jets(at.basis, at.coefficients, batch), at.parameters)
            jets = self.jets(basis, coefficients, batch)
            terms = line.by_jet * jets
            # u_xx alone of a straight line is rounding: judged against the size of u, not against itself
            scale = max(sum(_rms(t) for t in terms), self._floor(batch, line, typical, inside))
            if batch.block.kind == "equation":
                typical |= {jet: _rms(j) for jet, j in zip(batch.block.residual.jets, jets, strict=True)}
            worst = max(worst, _rms(terms.sum(axis=0)) / scale if scale > 0 else 0.0)
        return worst

    def judge(
        self,
        basis: AbstractBasis,
        coefficients: np.ndarray,
        parameters: np.ndarray,
        answer: Any,
        batches: Any,
        steps: int,
    ) -> Fit:
        """Relative residuals on held-out points: rms(F) / (sum_alpha rms(c_alpha D^alpha u) + rms(rhs)), block by block."""
        held = self.sampler.held()
        inside = basis.evaluate(held[0].points, coefficients, ((0,) * len(self.problem.axes),))[0]
        typical: dict[Any, float] = {}
        estimate = 0.0
        finite = bool(np.isfinite(coefficients).all())
        for batch in held if finite else ():
            jets = self.jets(basis, coefficients, batch)
            line = self.linearize(batch, jets, parameters)
            terms = line.by_jet * jets
            given = _rms(line.value - terms.sum(axis=0))
            scale = sum(_rms(t) for t in terms) + given
            if batch.block.kind == "equation":
                # a flat answer's terms, as in u_t = 0, are rounding: judged by the size of u, not by themselves
                if not self.problem.learned:  # where a coefficient of zero would pass for a solution
                    scale = max(scale, FLAT * self._floor(batch, line, {}, inside))
                typical |= {jet: _rms(j) for jet, j in zip(batch.block.residual.jets, jets, strict=True)}
            elif (
                batch.block.kind != "initial" or not given
            ):  # the answer inherits the relative error of a start that grows
                scale = max(scale, self._floor(batch, line, typical, inside))
            estimate = max(estimate, _rms(line.value) / scale if scale > 0 else 0.0)
        misfit, covariance = self._data_misfit(basis, coefficients, parameters, answer, batches)
        finite = finite and np.isfinite(estimate)
        estimate = estimate if finite else np.inf
        return Fit(basis, coefficients, parameters, covariance, estimate, inside, misfit, finite, steps)

    def _floor(self, batch: Batch, line: Linearized, typical: dict[Any, float], inside: np.ndarray) -> float:
        """What a block is judged against however small its terms are: the size of the unknown inside, per width^order."""
        size = np.sqrt(np.mean(inside**2, axis=0))
        width = self.problem.domain.width
        total = 0.0
        for factor, jet in zip(line.by_jet, batch.block.residual.jets, strict=True):
            unknown, alpha = jet
            total += np.sqrt(np.mean(factor**2)) * typical.get(jet, size[unknown] / np.prod(width ** np.array(alpha)))
        return float(total)

    def _data_misfit(
        self, basis: AbstractBasis, coefficients: Any, parameters: Any, answer: Any, batches: Any
    ) -> tuple[float, Any]:
        """Root mean square of the data residual in standard deviations, and the covariance of the learned parameters."""
        data = [b for b in batches if b.block.data is not None]
        learned = len(self.problem.learned)
        if not data:
            return 0.0, np.zeros((0, 0))
        squares, count = 0.0, 0
        for batch in data:
            value = (
                self.linearize(batch, self.jets(basis, coefficients, batch), parameters).value - batch.block.data.values
            )
            squares += float(np.sum((value / _sigma(batch)) ** 2))
            count += batch.size
        variance = squares / max(count - learned, 1)
        if not learned or answer is None:
            return float(np.sqrt(variance)), np.zeros((0, 0))
        # R of the scaled system ends in the learned parameters: that block alone inverts to their covariance. A reading
        # has standard deviation gain * sqrt(variance) in the units of its scaled row.
        block = answer.triangle[-learned:, -learned:]
        inverse = np.linalg.inv(block) / answer.column_norms[-learned:, None]
        return float(np.sqrt(variance)), inverse @ inverse.T * variance * self._gain**2


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0


def _sigma(batch: Batch) -> np.ndarray:
    sigma = 1.0 if batch.block.data is None or batch.block.data.sigma is None else batch.block.data.sigma
    return np.broadcast_to(sigma, batch.size)
