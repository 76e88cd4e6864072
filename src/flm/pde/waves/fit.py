"""Fit the coefficients of a basis to a problem, and judge from held-out points how well the result satisfies it.

A linear problem is one least-squares solve. A nonlinear one is Gauss-Newton with the ridge on the iterate rather than on
the step: solve A c_new = A c - F for the whole c_new, then backtrack along c_new - c. Parameters to be learned are extra
columns. Nothing here depends on which basis it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flm.language.arguments import Jet, Linearized
from flm.models.base import AbstractModel
from flm.numerics.least_squares import LeastSquares, Rows
from flm.pde.pieces.fields import Parameters
from flm.pde.pieces.functions import is_affine
from flm.pde.pieces.newton import distance
from flm.pde.problem import PDE
from flm.pde.waves.sampling import Batch, held_out_batches, training_batches
from flm.results import Ending, Parameter, Record, Solution

DATA_WEIGHT = 1e-6  # of measured rows against unit rows of the equation: the equation is then a near-exact constraint
MAX_STEPS = 20
FLAT = 0.1  # of |u| / width^order, per term: an equation's residual is compared with no less. |error| <= residual * width^order
ROUNDING = 1e-15  # the smallest loss and error bar
BLOCK = 512  # points whose columns are made at once
Alpha = tuple[int, ...]  # how often each input is differentiated


class Basis(NamedTuple):
    """Functions of points, called columns, whose weighted sum is the unknown."""

    num_columns: int
    # From points (P, m) and orders of derivatives to D^alpha of every column, (C, P) for one alpha after the other
    columns: Callable[[np.ndarray, Sequence[Alpha]], Iterable[np.ndarray]]
    model: Callable[[np.ndarray], AbstractModel]  # of coefficients (C, K)

    def combine(self, points: np.ndarray, weights: dict[Alpha, np.ndarray], out: np.ndarray) -> None:
        """Write the sum over alpha of weight_alpha (P,) * D^alpha column into `out` (C, P): rows of a least-squares problem."""
        out[...] = 0.0
        for start in range(0, len(points), BLOCK):
            rows = slice(start, start + BLOCK)
            for weight, column in zip(weights.values(), self.columns(points[rows], tuple(weights)), strict=True):
                out[:, rows] += column * weight[rows]

    def evaluate(self, points: np.ndarray, coefficients: np.ndarray, alphas: Sequence[Alpha]) -> np.ndarray:
        """D^alpha of the sum of coefficients times columns, (A, P, K)."""
        out = np.empty((len(alphas), len(points), coefficients.shape[1]))
        for start in range(0, len(points), BLOCK):
            rows = slice(start, start + BLOCK)
            for a, column in enumerate(self.columns(points[rows], alphas)):
                out[a, rows] = column.T @ coefficients
        return out


@dataclass(frozen=True, eq=False)
class Fit:
    """A basis with coefficients (C, K) and its quality at held-out points."""

    basis: Basis
    coefficients: np.ndarray
    parameters: np.ndarray
    covariance: np.ndarray  # of the learned parameters, (0, 0) where it is not known
    estimate: float  # the largest relative residual over the blocks, a guess at the relative error
    inside: np.ndarray  # values at the held-out interior points, (P, K)

    @property
    def finite(self) -> bool:
        """Whether the fit is an answer at all: its numbers are finite."""
        return bool(np.isfinite(self.estimate))

    def difference(self, other: Fit) -> float:
        """Relative L2 difference of two fits over the inside, worst unknown."""
        return distance(other.inside, self.inside)

    def solution(self, problem: PDE, bar: float, ending: Ending, record: Record, tol: float) -> Solution:
        """The fit as a solution with an error bar, to which is added what the model loses to rounding.

        Amplitudes much larger than the answer lose digits in their phases.
        """
        model, points = self.basis.model(self.coefficients), problem.domain.interior(64, seed=1, warp=False)
        zero = ((0,) * len(problem.axes),)
        expected = self.basis.evaluate(points, self.coefficients, zero)[0]
        lost = distance(np.asarray(model.jets(points, zero)[0]).reshape(expected.shape), expected)
        names, count = list(problem.parameters), len(problem.learned)
        covariance = self.covariance if self.covariance.size else np.full((count, count), np.nan)
        learned = Parameter.several({names[q]: float(self.parameters[q]) for q in problem.learned}, covariance)
        return Solution(
            model=model,
            ending=ending,
            error_estimate=float(bar) + (lost if lost > ROUNDING else 0.0),
            tolerance=tol,
            parameters={**learned},
            history=record.history,
            num_columns=self.basis.num_columns * len(problem.unknowns),
            seconds=record.seconds,
            **problem.frame,
        )


class Solved(NamedTuple):
    """Coefficients (C, K), parameters, the solve itself, and the factors of the rows of each batch."""

    coefficients: np.ndarray
    parameters: np.ndarray
    answer: LeastSquares
    factors: list[np.ndarray]


class Fitter:
    """Fits bases to one problem, sharing points and pointwise coefficients between them."""

    def __init__(self, problem: PDE, *, seed: int = 0):
        self.problem, self.seed, self.held = problem, seed, held_out_batches(problem, seed)
        self.num_unknowns = len(problem.unknowns)
        self._training: tuple[int, tuple[Batch, ...]] = (0, ())  # the last batches, with their number of columns
        self._gain = 0.0  # of data rows; 0: not set yet
        known = Parameters.of(problem)
        self.is_linear = not problem.learned and all(is_affine(b.block.residual, problem, known) for b in self.held)

    def training(self, num_columns: int) -> tuple[Batch, ...]:
        """The points at which `num_columns` columns are fitted."""
        if self._training[0] != num_columns:
            self._training = num_columns, training_batches(self.problem, num_columns, self.seed)
        return self._training[1]

    # --- pointwise quantities --------------------------------------------------------------------------------------

    def jets(self, basis: Basis, coefficients: np.ndarray, batch: Batch) -> np.ndarray:
        """The derivatives that a batch's residual needs, (A, P); for a periodic pair, those on one face less those on the other."""
        wanted = batch.block.residual.jets
        alphas = tuple(dict.fromkeys(alpha for _, alpha in wanted))
        out = np.zeros((len(wanted), batch.size))
        for points, sign in batch.sides if wanted else ():
            values = basis.evaluate(points, coefficients, alphas)
            for i, (unknown, alpha) in enumerate(wanted):
                out[i] += sign * values[alphas.index(alpha), :, unknown]
        return out

    # --- one least-squares solve -----------------------------------------------------------------------------------

    def solve(
        self,
        basis: Basis,
        batches: tuple[Batch, ...],
        jets: list[np.ndarray],
        parameters: np.ndarray,
        frozen: list[np.ndarray] | None = None,
    ) -> Solved:
        """The least-squares solution for these batches, linearized at jets; `frozen` are factors of its rows."""
        learned, size = list(self.problem.learned), basis.num_columns
        columns = self.num_unknowns * size
        rows, factors = Rows(columns + len(learned), sum(b.size for b in batches)), []
        for i, (batch, here) in enumerate(zip(batches, jets, strict=True)):
            start, line = rows.used, batch.linearize(here, parameters)
            view = rows.take(batch.size)
            for unknown in range(self.num_unknowns):
                jet_rows = zip(batch.block.residual.jets, line.by_jet, strict=True)
                weights = {alpha: row for (k, alpha), row in jet_rows if k == unknown}
                part = view[unknown * size : (unknown + 1) * size]
                basis.combine(batch.points, weights, part)
                if batch.partner is not None:
                    there = np.empty_like(part)
                    basis.combine(batch.partner, weights, there)
                    part -= there
            slopes = line.by_parameter[learned] if learned else np.zeros((0, batch.size))
            view[columns:-1] = slopes
            view[-1] = (line.by_jet * here).sum(axis=0) + parameters[learned] @ slopes
            view[-1] -= line.value if batch.block.data is None else line.value - batch.block.data.values
            if frozen is not None:
                view *= frozen[i]
            elif batch.block.data is None:
                factors.append(rows.scale_rows(start, batch.weight))
            else:
                # one gain for all readings, so that they keep their weights relative to one another
                if not any(b.block.data for b in batches[:i]):
                    typical = np.sqrt(np.mean((view[:columns] ** 2).sum(axis=0)))
                    self._gain = DATA_WEIGHT * float(np.sqrt(np.mean(batch.sigma**2))) / max(typical, 1e-300)
                factors.append(self._gain / batch.sigma)
                view *= factors[-1]
        answer = rows.solve()
        found = parameters.copy()
        found[learned] = answer.coefficients[columns:, 0]
        limits = [getattr(v, "limits", (-np.inf, np.inf)) for v in self.problem.parameters.values()]
        found = np.clip(found, *np.reshape(limits, (-1, 2)).T)
        coefficients = np.ascontiguousarray(answer.coefficients[:columns, 0].reshape(self.num_unknowns, -1).T)
        return Solved(coefficients, found, answer, frozen or factors)

    # --- the whole fit ---------------------------------------------------------------------------------------------

    def fit(self, basis: Basis, start: Fit | None = None) -> Fit:
        """The best coefficients of a basis; `start` is an earlier fit, in any basis, to linearize at first."""
        batches = self.training(self.num_unknowns * basis.num_columns + len(self.problem.learned))
        parameters = self.problem.parameter_start if start is None else start.parameters
        if start is None or self.is_linear:
            jets = [np.zeros((len(b.block.residual.jets), b.size)) for b in batches]
        else:
            jets = [self.jets(start.basis, start.coefficients, b) for b in batches]
        coefficients, found, answer, factors = self.solve(basis, batches, jets, parameters)
        if self.is_linear:
            return self.judge(basis, coefficients, found, answer, batches)

        # a start in another basis cannot be mixed with this one: its first step is taken in full
        old = np.zeros_like(coefficients) if start is None else None
        merit = self._merit(batches, jets, parameters, factors)
        for step in range(MAX_STEPS):
            new_jets, size = [self.jets(basis, coefficients, b) for b in batches], 1.0
            while True:
                mixed = [o + size * (n - o) for o, n in zip(jets, new_jets, strict=True)]
                mixed_parameters = parameters + size * (found - parameters)
                new_merit = self._merit(batches, mixed, mixed_parameters, factors)
                if old is None or new_merit < merit or size < 1e-3:
                    break
                size /= 2
            old = coefficients if old is None else old + size * (coefficients - old)
            drop, scale = merit - new_merit, max(np.sqrt(sum((j**2).sum() for j in mixed)), 1e-300)
            change = np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(mixed, jets, strict=True)))
            moved = np.abs(mixed_parameters - parameters).max(initial=0)
            settled = change <= 1e-12 * scale and moved <= 1e-10 * np.abs(mixed_parameters).max(initial=0)
            jets, parameters, merit = mixed, mixed_parameters, new_merit
            if not np.isfinite(merit) or (step and (settled or drop <= 0.02 * merit)):
                break
            coefficients, found, answer, factors = self.solve(
                basis, batches, jets, parameters, factors if step else None
            )
            if not step:
                merit = self._merit(batches, jets, parameters, factors)
        assert old is not None
        return self.judge(basis, old, parameters, answer, batches)

    def _merit(
        self, batches: tuple[Batch, ...], jets: list[np.ndarray], parameters: np.ndarray, factors: list[np.ndarray]
    ) -> float:
        rows = zip(batches, jets, factors, strict=True)
        total = sum(float(np.sum((factor * b.misfit(j, parameters)) ** 2)) for b, j, factor in rows)
        return np.sqrt(total) if np.isfinite(total) else np.inf

    def homogeneous(self, basis: Basis, coefficients: np.ndarray, at: Fit, free_constants: list[int]) -> float:
        """The relative residual of a function in the problem linearized at an answer, without its right-hand side.

        For unknowns in `free_constants`, the constant part does not count in their size.
        """
        inside = self._inside(basis, coefficients)
        inside[:, free_constants] -= inside[:, free_constants].mean(axis=0)
        typical: dict[Jet, float] = {}
        worst = 0.0
        for batch in self.held:
            line = batch.linearize(self.jets(at.basis, at.coefficients, batch), at.parameters)
            jets = self.jets(basis, coefficients, batch)
            terms = line.by_jet * jets
            # u_xx alone of a straight line is rounding: it is judged against the size of u, not against itself
            scale = max(sum(_rms(t) for t in terms), self.floor(batch, line, typical, inside))
            if batch.block.kind == "equation":
                typical |= {jet: _rms(j) for jet, j in zip(batch.block.residual.jets, jets, strict=True)}
            worst = max(worst, _rms(terms.sum(axis=0)) / scale if scale > 0 else 0.0)
        return worst

    def judge(
        self,
        basis: Basis,
        coefficients: np.ndarray,
        parameters: np.ndarray,
        answer: LeastSquares | None,
        batches: tuple[Batch, ...],
    ) -> Fit:
        """Relative residuals on held-out points: rms(F) / (sum_alpha rms(c_alpha D^alpha u) + rms(rhs)), block by block."""
        inside = self._inside(basis, coefficients)
        typical: dict[Jet, float] = {}
        estimate = 0.0 if np.isfinite(coefficients).all() else np.inf
        for batch in self.held if np.isfinite(estimate) else ():
            jets = self.jets(basis, coefficients, batch)
            line = batch.linearize(jets, parameters)
            terms = line.by_jet * jets
            given = _rms(line.value - terms.sum(axis=0))
            scale = sum(_rms(t) for t in terms) + given
            if batch.block.kind == "equation":
                # a flat answer's terms, as in u_t = 0, are rounding: they are judged by the size of u, not by themselves
                if not self.problem.learned:  # where a coefficient of zero would pass for a solution
                    scale = max(scale, FLAT * self.floor(batch, line, {}, inside))
                typical |= {jet: _rms(j) for jet, j in zip(batch.block.residual.jets, jets, strict=True)}
            elif batch.block.kind != "initial" or not given:  # a start that grows hands on its relative error
                scale = max(scale, self.floor(batch, line, typical, inside))
            ratio = _rms(line.value) / scale if scale > 0 else 0.0
            estimate = max(estimate, ratio) if np.isfinite(ratio) else np.inf
        covariance = np.zeros((0, 0))
        if self.problem.learned and answer is not None and any(b.block.data for b in batches):
            covariance = self._covariance(basis, coefficients, parameters, answer, batches)
        return Fit(basis, coefficients, parameters, covariance, estimate, inside)

    def _inside(self, basis: Basis, coefficients: np.ndarray) -> np.ndarray:
        """Values at the held-out interior points, (P, K)."""
        return basis.evaluate(self.held[0].points, coefficients, ((0,) * len(self.problem.axes),))[0]

    def floor(self, batch: Batch, line: Linearized, typical: dict[Jet, float], inside: np.ndarray) -> float:
        """The least size that a block is judged against, however small its terms: that of the unknown inside, per width^order."""
        size, width = np.sqrt(np.mean(inside**2, axis=0)), self.problem.domain.width
        jets = batch.block.residual.jets
        usual = [typical.get((k, alpha), float(size[k] / np.prod(width ** np.array(alpha)))) for k, alpha in jets]
        return float(sum(_rms(factor) * own for factor, own in zip(line.by_jet, usual, strict=True)))

    def _covariance(
        self,
        basis: Basis,
        coefficients: np.ndarray,
        parameters: np.ndarray,
        answer: LeastSquares,
        batches: tuple[Batch, ...],
    ) -> np.ndarray:
        """The covariance of the learned parameters, from the misfit of the readings.

        R of the scaled system ends in the learned parameters, so that block alone gives their covariance. A reading has
        standard deviation gain * sqrt(variance) in the units of its scaled row.
        """
        learned, data = len(self.problem.learned), [b for b in batches if b.block.data is not None]
        misfits = [b.misfit(self.jets(basis, coefficients, b), parameters) / b.sigma for b in data]
        variance = sum(float(np.sum(m**2)) for m in misfits) / max(sum(map(len, misfits)) - learned, 1)
        inverse = np.linalg.inv(answer.triangle[-learned:, -learned:]) / answer.column_norms[-learned:, None]
        return inverse @ inverse.T * variance * self._gain**2


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0
