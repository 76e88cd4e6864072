"""One axis of a Kronecker sum: A u = -a u'' - b u' - c u on an interval, as its eigenfunctions.

With p = exp(int b / a) and the weight w = p / a the operator is symmetric: int p u' v' - w c u v = lambda int w u v. Trial
functions are integrals of orthonormal Legendre functions, whose slopes are orthonormal, so that the form is close to the unit
matrix and small eigenvalues keep all their digits. Values given at an end are essential conditions; slopes are natural ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from flm.pde.march.sides import Unfit
from flm.series import legendre

MORE = 180  # quadrature nodes beyond the number of functions: data may have narrow peaks


@dataclass(frozen=True)
class Ends:
    """The conditions at both ends: a value, a slope with u_n = -robin u, or the ends joined."""

    has_value: tuple[bool, bool] = (True, True)
    robin: tuple[float, float] = (0.0, 0.0)
    is_periodic: bool = False


class Line:
    """The eigenfunctions of one axis in at least 4 Legendre functions, from a, b and c at `nodes(bounds, count)`."""

    def __init__(self, bounds: np.ndarray, count: int, ends: Ends, a: np.ndarray, b: np.ndarray, c: np.ndarray):
        self.half, self.count, self.ends = float(np.ptp(bounds)) / 2, count, ends
        z, w = legendre.gauss(count + MORE)
        self.weights = w * 2 * self.half
        if (a <= 0).any():
            raise Unfit("the second derivatives must have factors of one sign")
        ratio = b / a
        p = np.ones(len(z) + 2)
        if ratio.any():
            slope = (legendre.values(z, count) * w[:, None]).T @ ratio[:-2]
            integral = np.polynomial.legendre.legint(slope * np.sqrt(2 * np.arange(count) + 1), lbnd=-1) * self.half
            p = np.exp(np.polynomial.legendre.legval(np.concatenate([z, [-1.0, 1.0]]), integral))
        self.p, self.weight = p, p / a
        functions = _integrals(count, ends)  # (count, n), slopes orthonormal
        values = legendre.values(z, count)
        slopes = values @ legendre.differentiation(count) / self.half
        self.values, self.slopes, self.c = values, slopes, c
        inner = lambda f, g, density: f.T @ (g * (self.weights * density[:-2])[:, None])
        V, D = values @ functions, slopes @ functions
        mass = inner(V, V, self.weight)
        form = inner(D, D, p) - inner(V, V, self.weight * c)
        edge = legendre.values(np.array([-1.0, 1.0]), count) @ functions
        for row, end, robin in zip(edge, (-2, -1), ends.robin, strict=True):
            form += robin * p[end] * np.outer(row, row)
        shift = 0.0 if all(ends.has_value) and not (c > 0).any() else 1 / self.half**2 + max(float(c.max()), 0.0)
        shift += sum(abs(min(robin, 0.0)) for robin in ends.robin) ** 2 * 4
        try:
            factor = cholesky(form + shift * mass, lower=True)
            inverse = solve_triangular(factor, solve_triangular(factor, mass, lower=True).T, lower=True)
            mu, vectors = eigh((inverse + inverse.T) / 2)
        except (np.linalg.LinAlgError, ValueError):
            mu = np.zeros(1)
        if mu[0] <= 0:
            raise Unfit(
                "the operator along each axis must be bounded from below, with first derivatives that do not outweigh the second"
            )
        mu, vectors = mu[::-1], vectors[:, ::-1]
        self.rates = 1 / mu - shift
        self.modes = functions @ solve_triangular(factor, vectors, lower=True, trans=1) / np.sqrt(mu)  # (count, n)

    @cached_property
    def _tests(self) -> np.ndarray:
        """Eigenfunctions at the quadrature nodes times their weights, (nodes, n)."""
        return (self.values @ self.modes) * self.weights[:, None]

    def against(self, values: np.ndarray) -> np.ndarray:
        """Integrals of w f with every eigenfunction, from values of f at the nodes and ends."""
        return self._tests.T @ (self.weight * values)[:-2]

    def form_against(self, values: np.ndarray) -> np.ndarray:
        """The symmetric form of f and every eigenfunction, without the terms of natural ends."""
        coefficients = self.coefficients(values)
        slope = (self.slopes @ self.modes) * self.weights[:, None]
        return slope.T @ (self.p[:-2] * (self.slopes @ coefficients)) - self.against(self.c * values)

    def at_end(self, end: int) -> np.ndarray:
        """p times every eigenfunction at an end, which tests a natural condition."""
        return self.p[end - 2] * (legendre.values(np.array([2.0 * end - 1]), self.count) @ self.modes)[0]

    def coefficients(self, values: np.ndarray) -> np.ndarray:
        """The Legendre coefficients of a function, from its values at the nodes and ends."""
        return (self.values * (self.weights / (2 * self.half))[:, None]).T @ values[:-2]


def nodes(bounds: np.ndarray, count: int) -> np.ndarray:
    """The quadrature nodes for `count` functions, then the two ends."""
    return bounds.mean() + np.ptp(bounds) / 2 * np.concatenate([legendre.gauss(count + MORE)[0], [-1.0, 1.0]])


def _integrals(count: int, ends: Ends) -> np.ndarray:
    """Integrals of Legendre functions that vanish where a value is given, and the constant where none is, (count, n)."""
    k = np.arange(count)
    columns = np.zeros((count, count - 1))
    for i in range(
        1, count - 1
    ):  # the integral of q_i is sqrt(2i + 1) (P_(i+1) - P_(i-1)) / (2i + 1), zero at both ends
        columns[i + 1, i], columns[i - 1, i] = 1.0, -1.0
        columns[:, i] *= np.sqrt(2 * i + 1) / (2 * i + 1) / np.sqrt(2 * k + 1)
    columns[1, 0] = 1 / np.sqrt(3)  # z, whose slope is one
    left, right = ends.has_value
    if (left and right) or ends.is_periodic:
        columns = columns[:, 1:]
    elif left or right:
        columns[0, 0] = 1.0 if left else -1.0
    one = np.eye(count)[:, :1]
    return columns if left or right else np.concatenate([one, columns], axis=1)
