"""Does the problem determine its solution? A function of size one that nearly satisfies the homogeneous problem says no.

Residuals do not tell: where conditions are missing, least squares picks one of many answers, the same one at every period.
With A = Q R the rows of the problem on a lattice and V its values inside, the direction in which |V c| / |A c| is largest,
the first singular vector of V R^-1, is the best candidate for a solution of the homogeneous problem. How well it satisfies
that is judged as any answer is: 0.006 to 1 for well-posed problems, about half the relative distance of k^2 from an
eigenvalue for Helmholtz' equation, below 1e-7 where a condition is missing.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from flm.numerics.least_squares import one_thread
from flm.pde.waves.basis import WaveBasis, lattice_set
from flm.pde.waves.fit import Fit, Fitter

SIZES = {1: 24.0, 2: 9.0, 3: 4.4}  # points per axis, by number of axes: some 300 columns; sizes that growth visits
PERIOD = 4.0  # smooth candidates: a long period
NULL = 1e-7  # a smaller residual is a solution of the homogeneous problem
POWER_STEPS = 30


def homogeneous_residual(fitter: Fitter, fit: Fit, power: float, free_constants: list[int]) -> float:
    """The smallest relative residual of the problem, linearized at an answer, that a function of size one leaves.

    Args:
        fitter: of the problem.
        fit: the answer.
        power: shape of the lattice.
        free_constants: unknowns to which any constant may be added, which then does not count.
    """
    problem, m, unknowns = fitter.problem, len(fitter.problem.axes), fitter.num_unknowns
    periods = [1.0 if joined else PERIOD for joined in problem.periodic_axes]
    basis = WaveBasis(problem.domain, lattice_set([SIZES[m]] * m, power), periods)
    count = basis.num_columns
    batches = fitter.sampler.training(unknowns * count)
    jets = [fitter.jets(fit.basis, fit.coefficients, b) for b in batches]
    _, _, answer, _ = fitter.solve(basis, batches, jets, fit.parameters)
    held = fitter.sampler.held()[0]
    values = np.empty((count, held.size))
    basis.combine(basis.tables(held.points), {(0,) * m: np.ones(held.size)}, values)
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
