"""Learned frequencies by variable projection, on the rows of a PDE.

One R-only QR factorization of [A G r] (A the columns, G the slopes by frequency, r the residual) leaves in its trailing
block the problem of the frequencies alone (`flm.numerics.variable_projection`).
"""

from __future__ import annotations

import numpy as np

from flm.numerics.least_squares import one_thread, triangular_factor
from flm.numerics.newton import Nielsen
from flm.numerics.variable_projection import Projected, project, trailing_block
from flm.pde.waves.basis import WaveBasis
from flm.pde.waves.fit import Fit, Fitter

RIDGE = 1e-14
MAX_STEPS = 60


class FrequencyLearner:
    """Moves the frequencies of one problem's FLM; row weights are frozen at the start, so the objective stays the same."""

    def __init__(self, fitter: Fitter, num_subnets: int):
        self.fitter = fitter
        self.problem = fitter.problem
        columns = num_subnets * 2 ** len(self.problem.axes) * fitter.num_unknowns
        self.batches = fitter.sampler.training(columns + num_subnets * len(self.problem.axes))

    def run(self, frequencies: np.ndarray, *, max_steps: int = MAX_STEPS) -> Fit:
        """The fit after Levenberg-Marquardt from the given start."""
        start = _State(self, WaveBasis(self.problem.domain, frequencies), None)
        # A small gain under heavy damping says little: the search goes on until λ is small as well.
        state = project(start, Nielsen(), max_steps=max_steps, gain_tol=1e-4, settled=1e-3).point
        return self.fitter.judge(
            state.basis, state.coefficients, self.problem.parameter_start, None, self.batches, steps=1
        )


class _State:
    """Amplitudes and objective at given frequencies."""

    def __init__(self, learner: FrequencyLearner, basis: WaveBasis, before: _State | None):
        self.learner, self.basis = learner, basis
        fitter, batches = learner.fitter, learner.batches
        parameters = learner.problem.parameter_start
        if before is None or fitter.is_linear:
            jets = [np.zeros((len(b.block.residual.jets), b.size)) for b in batches]
        else:
            jets = before.jets
        self.factors = [] if before is None else before.factors
        for _ in range(1 if fitter.is_linear else (6 if before is None else 2)):
            self.coefficients, _, _, self.factors = fitter.solve(
                basis, batches, jets, parameters, self.factors or None, ridge=RIDGE
            )
            jets = [fitter.jets(basis, self.coefficients, b) for b in batches]
        self.jets = jets
        self.lines = [fitter.linearize(b, j, parameters) for b, j in zip(batches, jets, strict=True)]
        self.value = float(sum(np.sum((f * l.value) ** 2) for f, l in zip(self.factors, self.lines, strict=True)))

    def moved(self, step: np.ndarray) -> _State:
        """The state at other frequencies."""
        frequencies = self.basis.frequencies + step.reshape(self.basis.frequencies.shape)
        return _State(self.learner, WaveBasis(self.learner.problem.domain, frequencies), self)

    def projected(self) -> Projected:
        """The problem of the frequencies alone, from one factorization."""
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
                for unknown in range(fitter.num_unknowns):
                    weights = {
                        alpha: sign * line.by_jet[i]
                        for i, (k, alpha) in enumerate(batch.block.residual.jets)
                        if k == unknown
                    }
                    part = np.empty((size, batch.size))
                    basis.combine(points, weights, part)
                    view[unknown * size : (unknown + 1) * size] += part
                    basis.slopes(points, self.coefficients[:, unknown], weights, view[columns : columns + count])
            view[columns + count] = -line.value
            view *= factor
        norms = np.sqrt((system[:columns, :rows] ** 2).sum(axis=1))
        system[:columns, :rows] /= np.where(norms > 1e-150, norms, 1.0)[:, None]
        np.fill_diagonal(system[:columns, rows:], RIDGE)
        with one_thread(columns):
            return trailing_block(triangular_factor(system.T, overwrite=True), columns)
