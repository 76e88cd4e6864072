"""What the phase form of an answer costs: amplitudes much larger than the answer lose digits in their phases."""

from __future__ import annotations

import numpy as np

from flm.pde.problem import PDE
from flm.pde.waves.fit import Fit

ROUNDING = 1e-15  # no loss, and no error bar, is smaller


def rounding_lost(problem: PDE, fit: Fit) -> float:
    """The relative difference between an answer as coefficients and as a model, worst unknown; 0 below rounding."""
    points = problem.domain.interior(64, seed=1, warp=False)
    zero = (0,) * len(problem.axes)
    expected = fit.basis.evaluate(fit.basis.tables(points), fit.coefficients, (zero,))[0]
    gap = np.asarray(fit.basis.model(fit.coefficients).jets(points, (zero,))[0]).reshape(expected.shape) - expected
    size = np.sqrt(np.mean(expected**2, axis=0))
    lost = float(np.max(np.sqrt(np.mean(gap**2, axis=0)) / np.where(size > 0, size, 1.0)))
    return lost if lost > ROUNDING else 0.0
