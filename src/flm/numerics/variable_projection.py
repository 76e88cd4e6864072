"""Variable projection: nonlinear unknowns by Levenberg–Marquardt, with the linear ones eliminated.

Conventions. A fit Φ(θ) c ≈ y has nonlinear unknowns θ (P,), for example frequencies, and linear ones c, its amplitudes.
At given θ the amplitudes are a least-squares solution, so that F(θ) = |y − Φ(θ) c(θ)|² depends on θ alone. Kaufman's
approximation (BIT 15, 1975) of the slopes of Φ(θ) c(θ) is (I − QQᵀ)(∂Φ/∂θ) c, where Q spans the columns of Φ: the part of a
change of θ that no change of amplitudes can replace. The step d minimizes |J d − r|² + λ s |d|² with J those slopes,
r = y − Φ c and s the largest squared norm of a column of J.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np

from flm.numerics.least_squares import triangular_factor
from flm.numerics.newton import Minimum, Nielsen, Step, Trial, minimize


class Projected(NamedTuple):
    """Kaufman's slopes J (rows, P) and the residual r (rows,); rows may be turned by any orthogonal matrix."""

    jacobian: np.ndarray
    residual: np.ndarray


class Projection(Protocol):
    """A fit at given θ, its amplitudes solved for."""

    @property
    def value(self) -> float:
        """F(θ)."""
        ...

    def projected(self) -> Projected:
        """The least-squares problem in θ alone near this fit."""
        ...

    def moved(self, step: np.ndarray) -> Self:
        """The fit at θ + step, or at the nearest θ that is allowed."""
        ...


Fit = TypeVar("Fit", bound=Projection)


def project(
    start: Fit,
    rule: Nielsen,
    *,
    max_steps: int,
    gain_tol: float = 0.0,
    step_tol: float = 0.0,
    settled: float = np.inf,
    refreshed: Callable[[Fit], Fit] = lambda fit: fit,
) -> Minimum[Fit]:
    """The fit of least F that Levenberg–Marquardt finds from a start, by the options of `flm.numerics.newton.minimize`.

    `refreshed` replaces each accepted fit by what it returns, for weights or a ridge that follow the fit.
    """
    near = lambda fit: _Local(refreshed(fit))
    found = minimize(start, near, rule, max_steps=max_steps, gain_tol=gain_tol, step_tol=step_tol, settled=settled)
    return replace(found, point=refreshed(found.point))


def trailing_block(factor: np.ndarray, num_columns: int, num_outputs: int = 1) -> Projected:
    """The problem in θ alone, read from the triangular factor of [Φ, (∂Φ/∂θ) c_1, …, (∂Φ/∂θ) c_K, r_1, …, r_K].

    Below its first `num_columns` rows stand the parts of slopes and residuals outside the span of Φ: Q is never formed.
    """
    below = factor[num_columns:, num_columns:]
    free = below.shape[1] // num_outputs - 1
    slopes, residual = below[:, : num_outputs * free], below[:, num_outputs * free :]
    return Projected(slopes.reshape(-1, free), residual.ravel())


class _Local:
    """F near a fit, by one R-only factorization of [J r]: a rejected step costs no new one."""

    def __init__(self, fit: Projection):
        self.fit, self.value = fit, fit.value
        factor = triangular_factor(np.column_stack(fit.projected()))
        self.J, self.r = factor[:, :-1], factor[:, -1]
        self.size = float(np.max((self.J**2).sum(axis=0), initial=0.0))

    def step(self, damping: np.ndarray) -> Step:
        count = self.J.shape[1]
        damped = np.concatenate([self.J, np.sqrt(damping * self.size) * np.eye(count)])
        step = np.linalg.lstsq(damped, np.concatenate([self.r, np.zeros(count)]), rcond=None)[0]
        # |r|² − |r − J d|² = |J d|² + 2 λ s |d|² by the normal equations, and this form does not cancel.
        return Step(step, np.sum((self.J @ step) ** 2) + 2 * damping * self.size * (step @ step))

    def take(self, move: np.ndarray) -> Trial:
        fit = self.fit.moved(move)
        return Trial(fit, fit.value)
