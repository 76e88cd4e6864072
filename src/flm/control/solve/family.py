"""One control law for a whole set of starts: generalized Gauss–Newton on the amplitudes of a product lattice.

Controls are Σ_ab X_ab θ_a(s) ψ_b(z), both bases orthonormal. With H_j the exact Hessian of start j's cost in its own time
coefficients, the generalized Gauss–Newton matrix is Σ_j w_j H_j ⊗ ψ(z_j) ψ(z_j)', w_j = 1 / cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
import scipy.linalg

from flm.control.dynamics.simulation import Simulated
from flm.control.law import ControlLaw, space_products
from flm.control.problem import OptimalControl
from flm.control.solve.variation import Derivatives, TimeBasis, Transcription
from flm.numerics.newton import FixedFactors, Step, Trial, minimize

SPACE_UNIT = np.pi / 8  # the lowest wave repeats after eight widths: a Fourier extension, without zero components


@dataclass(frozen=True, eq=False)
class SpaceBasis:
    """Orthonormal combinations of products of waves in the normalized start, on training starts.

    `values` (P, B) have unit mean square; `transform` (n 2^d, B) are their coefficients in the products.
    """

    frequencies: np.ndarray
    values: np.ndarray
    transform: np.ndarray

    @classmethod
    def make(cls, frequencies: np.ndarray, z: np.ndarray) -> SpaceBasis:
        """The basis spanned by the waves with the given frequencies (n, d), on starts z (P, d)."""
        products = space_products(z, frequencies).reshape(len(z), -1)
        left, size, right = np.linalg.svd(products / np.sqrt(len(z)), full_matrices=False)
        keep = size > 1e-10 * size[0]
        return cls(frequencies, left[:, keep] * np.sqrt(len(z)), right[keep].T / size[keep])


def space_lattice(dimension: int, level: int) -> np.ndarray:
    """Frequencies SPACE_UNIT (1 + k), k in N_0^d with total degree below `level`, (n, d)."""
    points = [k for k in product(range(level), repeat=dimension) if sum(k) < level]
    points.sort(key=lambda k: (sum(k), k))
    return SPACE_UNIT * (1.0 + np.array(points, float).reshape(len(points), dimension))


def make_law(problem: OptimalControl, basis: TimeBasis, space: SpaceBasis, coordinates: np.ndarray) -> ControlLaw:
    """The law Σ X_kab θ_a ψ_b with coordinates X (M, B) on a product lattice."""
    (n, d), A, k = space.frequencies.shape, len(basis.frequencies), len(problem.controls)
    X = coordinates[: k * basis.size].reshape(k, basis.size, -1)
    a = np.einsum("tm,kmb,ib->tik", basis.transform, X, space.transform, optimize=True)  # (2A, n 2^d, K)
    return ControlLaw.of(
        problem,
        frequencies=np.hstack([np.repeat(basis.frequencies, n)[:, None], np.tile(space.frequencies, (A, 1))]),
        coefficients=a.reshape(A, 2, n, 2**d, k).transpose(0, 2, 1, 3, 4).reshape(A * n, 2, 2**d, k),
        duration_frequencies=space.frequencies if problem.free else None,
        duration_coefficients=(space.transform @ coordinates[-1]).reshape(n, 2**d) if problem.free else None,
    )


@dataclass(frozen=True, eq=False)
class FamilyPoint:
    """Coordinates X (M, B) of a law and the training trajectories under it: a point of Gauss–Newton's method, and its model."""

    transcription: Transcription
    space: SpaceBasis
    weight: np.ndarray
    X: np.ndarray
    run: Simulated

    @property
    def c(self) -> np.ndarray:
        """Each start's own time coefficients, (P, M)."""
        return self.space.values @ self.X.T

    @cached_property
    def derivatives(self) -> Derivatives:
        """Of each start's cost."""
        return self.transcription.derivatives(self.run, self.c)

    @property
    def value(self) -> float:
        """The mean relative cost."""
        return float(self.weight @ self.transcription.merit(self.run, self.c, self.derivatives))

    @cached_property
    def _system(self) -> tuple[np.ndarray, np.ndarray]:
        """The generalized Gauss–Newton matrix (M B, M B) and the gradient (M B,)."""
        gradient = (self.derivatives.gradient * self.weight[:, None]).T @ self.space.values
        hessian = convex(self.derivatives.hessian) * self.weight[:, None, None]
        return _kronecker_sum(hessian, self.space.values), gradient.reshape(-1)

    def step(self, damping: np.ndarray) -> Step:
        """The damped step."""
        matrix, gradient = self._system
        step = _damped_solve(matrix, gradient, float(damping))
        return Step(step, -0.5 * step @ gradient)

    def take(self, move: np.ndarray) -> Trial[FamilyPoint]:
        """The trajectories after a step, by Newton's iteration from those before it."""
        X = self.X + move.reshape(self.X.shape)
        c = self.space.values @ X.T
        run = self.transcription.run(c, guess=np.nan_to_num(self.run.stages))
        return Trial(
            replace(self, X=X, run=run), float(self.weight @ self.transcription.merit(run, c, self.derivatives))
        )


def fit_family(transcription: Transcription, space: SpaceBasis, X: np.ndarray, *, steps: int = 20) -> np.ndarray:
    """Minimize the mean relative cost over the training starts; X (M, B) to start from, the minimizer returned."""
    run = transcription.run(space.values @ X.T)
    start = FamilyPoint(transcription, space, start_weights(run.cost), X, run)
    rule = FixedFactors(start=0.0, least=1e-4, off=1e-8)
    return minimize(start, lambda point: point, rule, max_steps=steps, step_tol=1e-10).point.X


def fit_coordinates(c: np.ndarray, hessian: np.ndarray, weight: np.ndarray, space: SpaceBasis) -> np.ndarray:
    """X (M, B) that minimizes Σ_j w_j (X ψ_j - c_j)' H_j (X ψ_j - c_j), for solutions c (P, M) with Hessians H."""
    weighted = convex(hessian) * weight[:, None, None]
    right = (weighted @ c[..., None])[..., 0].T @ space.values
    matrix = _kronecker_sum(weighted, space.values)
    return -_damped_solve(matrix, right.reshape(-1), 0.0).reshape(right.shape)


def start_weights(cost: np.ndarray) -> np.ndarray:
    """1 / (number of starts × cost), costs floored at one percent of their mean."""
    return 1.0 / (cost_scale(cost) * len(cost))


def cost_scale(cost: np.ndarray) -> np.ndarray:
    """What an excess cost is relative to: |cost|, floored at one percent of the mean."""
    size = np.abs(cost[np.isfinite(cost)])
    mean = size.mean() if len(size) else 1.0
    return np.maximum(np.where(np.isfinite(cost), np.abs(cost), mean), max(0.01 * mean, 1e-300))


def convex(hessian: np.ndarray) -> np.ndarray:
    """Each start's Hessian with negative eigenvalues turned positive."""
    values, vectors = np.linalg.eigh(hessian)
    if (values >= 0).all():
        return hessian
    return (vectors * np.abs(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)


def _kronecker_sum(hessian: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """Σ_j H_j ⊗ ψ_j ψ_j', (M B, M B)."""
    m, b = hessian.shape[1], psi.shape[1]
    matrix = np.empty((m, b, m, b))
    for i in range(m):
        for j in range(i + 1):
            block = (psi * hessian[:, i, j, None]).T @ psi
            matrix[i, :, j] = block
            matrix[j, :, i] = block.T
    return matrix.reshape(m * b, m * b)


def _damped_solve(matrix: np.ndarray, gradient: np.ndarray, damping: float) -> np.ndarray:
    """-(matrix + damping)⁻¹ gradient, with more damping when rounding has made the matrix indefinite."""
    scale = np.trace(matrix) / len(matrix)
    shift = (damping + 1e-14) * scale
    while True:
        try:
            factor = scipy.linalg.cho_factor(matrix + shift * np.eye(len(matrix)), overwrite_a=True, check_finite=False)
            return -scipy.linalg.cho_solve(factor, gradient, check_finite=False)
        except scipy.linalg.LinAlgError:
            shift *= 100
