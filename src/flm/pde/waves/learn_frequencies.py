"""Learned frequencies by variable projection.

The amplitudes are eliminated: at fixed frequencies they are a least-squares solution. One R-only QR factorization of
[A G r] (A the columns, G the slopes by frequency, r the residual) leaves in its trailing block the projected problem
min |R22 d - r2|, which is Kaufman's Gauss-Newton step for the frequencies alone; Levenberg-Marquardt damping acts on that
small block, so that a rejected step costs no new factorization.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flm.numerics.least_squares import triangular_factor
from flm.pde.waves.fit import Fit, Fitter
from flm.pde.waves.free_basis import FreeBasis

RIDGE = 1e-14
MAX_STEPS = 60
MAX_REJECTIONS = 8


class FrequencyLearner:
    """Moves the frequencies of one problem's FLM; row weights are frozen at the start, so the objective stays the same."""

    def __init__(self, fitter: Fitter, num_subnets: int):
        self.fitter = fitter
        self.problem = fitter.problem
        columns = num_subnets * 2 ** len(self.problem.axes) * fitter.num_unknowns
        self.batches = fitter.sampler.training(columns + num_subnets * len(self.problem.axes))

    def run(self, frequencies: np.ndarray, *, max_steps: int = MAX_STEPS) -> Fit:
        """The fit after Levenberg-Marquardt from the given start."""
        state = _State(self, FreeBasis(self.problem.domain, frequencies), None, None)
        damping, growth, rejected, small = 1e-2, 2.0, 0, False
        for _ in range(max_steps):
            if not np.isfinite(state.merit) or state.merit == 0:
                break
            block, side = state.projected()
            gram = np.max((block**2).sum(axis=0), initial=0.0)
            if gram <= 0:
                break
            while True:
                damped = np.concatenate([block, np.sqrt(damping * gram) * np.eye(block.shape[1])])
                step = np.linalg.lstsq(damped, np.concatenate([side, np.zeros(block.shape[1])]), rcond=None)[0]
                moved = state.basis.frequencies + step.reshape(state.basis.frequencies.shape)
                trial = _State(self, FreeBasis(self.problem.domain, moved), state, state.factors)
                predicted = np.sum(side**2) - np.sum((block @ step - side) ** 2)
                gained = state.merit**2 - trial.merit**2
                if np.isfinite(trial.merit) and gained > 0:
                    quality = min(gained / max(predicted, 1e-300), 1.0)  # a better step than foreseen is a good one
                    damping *= max(1 / 3, 1 - (2 * quality - 1) ** 3)  # Nielsen's update
                    growth, rejected = 2.0, 0
                    small = gained <= 1e-4 * state.merit**2 and damping < 1e-3
                    state = trial
                    break
                damping, growth, rejected = damping * growth, growth * 2, rejected + 1
                if rejected >= MAX_REJECTIONS:
                    break
            if rejected >= MAX_REJECTIONS or small:
                break
        return self.fitter.judge(
            state.basis, state.coefficients, self.problem.parameter_start, None, self.batches, steps=1
        )


class _State:
    """Amplitudes and objective at given frequencies."""

    def __init__(self, learner: FrequencyLearner, basis: FreeBasis, before: _State | None, factors: Any):
        self.learner, self.basis = learner, basis
        fitter, batches = learner.fitter, learner.batches
        parameters = learner.problem.parameter_start
        if before is None or fitter.is_linear:
            jets = [np.zeros((len(b.block.residual.jets), b.size)) for b in batches]
        else:
            jets = before.jets
        self.factors = factors
        for _ in range(1 if fitter.is_linear else (6 if before is None else 2)):
            self.coefficients, _, _, self.factors = fitter.solve(
                basis, batches, jets, parameters, self.factors, ridge=RIDGE
            )
            jets = [fitter.jets(basis, self.coefficients, b) for b in batches]
        self.jets = jets
        self.lines = [fitter._linearize(b, j, parameters) for b, j in zip(batches, jets, strict=True)]
        self.merit = float(
            np.sqrt(sum(np.sum((f * l.value) ** 2) for f, l in zip(self.factors, self.lines, strict=True)))
        )

    def projected(self) -> tuple[np.ndarray, np.ndarray]:
        """The trailing block R22 and right-hand side of the factorization: the problem of the frequencies alone."""
        fitter, basis, batches = self.learner.fitter, self.basis, self.learner.batches
        size, count = basis.num_columns, basis.frequencies.size
        columns = fitter.num_unknowns * size
        rows = sum(b.size for b in batches)
        system = np.zeros((columns + count + 1, rows + columns))
        used = 0
        for batch, line, factor in zip(batches, self.lines, self.factors, strict=True):
            view = system[:, used : used + batch.size]
            used += batch.size
            for sign, points in ((1.0, batch.points), (-1.0, batch.partner)):
                if points is None:
                    continue
                tables = basis.tables(points)
                for unknown in range(fitter.num_unknowns):
                    weights = {
                        alpha: sign * line.by_jet[i]
                        for i, (k, alpha) in enumerate(batch.block.residual.jets)
                        if k == unknown
                    }
                    part = np.empty((size, batch.size))
                    basis.combine(tables, weights, part)
                    view[unknown * size : (unknown + 1) * size] += part
                    basis.slopes(tables, self.coefficients[:, unknown], weights, view[columns : columns + count])
            view[columns + count] = -line.value
            view *= factor
        norms = np.sqrt((system[:columns, :rows] ** 2).sum(axis=1))
        system[:columns, :rows] /= np.where(norms > 1e-150, norms, 1.0)[:, None]
        np.fill_diagonal(system[:columns, rows:], RIDGE)
        factor = triangular_factor(system.T, overwrite=True)
        trailing = factor[columns : columns + count, columns : columns + count]
        return trailing, factor[columns : columns + count, columns + count]
