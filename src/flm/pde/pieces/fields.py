"""Unknown functions among the parameters: a(x) as orthonormal functions on its axes, under a smoothness prior.

A residual sees `a`, `a_x`, ... as numbers at each point. Inside, all unknown numbers and the coefficients of all unknown
functions are one vector of parameters, so that the rest of the solver sees only numbers. A function is a priori an
unknown constant plus a Gaussian process with Matérn's covariance of smoothness 5/2,

    k(r) = s² (1 + √5 r/l + 5 r²/(3 l²)) exp(-√5 r/l),   r in widths of its axes;

its strength s and length l are those under which the readings are most probable (the evidence of the linearized problem).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from flm.language.arguments import Jet, Linearized, Residual
from flm.language.parameters import Learn
from flm.numerics.least_squares import triangular_factor
from flm.pde.problem import PDE
from flm.series import legendre

COUNTS = {1: 24, 2: 9, 3: 6}  # functions along each axis, by the number of axes
LENGTHS = tuple(0.1 * 1.5**k for k in range(8))  # of the prior, in widths
STRENGTHS = tuple(2.0 ** (k / 2) for k in range(-20, 13))  # of the prior, relative to the start of the function or 1
Prior = tuple[float, float]  # length and strength of one function
WIDE = 1e3  # prior standard deviation of the constant, likewise: nothing is known of it


@dataclass(frozen=True, eq=False)
class FieldFunctions:
    """The orthonormal functions of one unknown function."""

    name: str  # of the parameter
    axes: tuple[int, ...]  # numbers of its axes
    bounds: np.ndarray  # of these, (m, 2)
    learn: Learn  # where it starts and its limits
    columns: slice  # its coefficients among all parameters

    @property
    def shape(self) -> tuple[int, ...]:
        """Functions along each of its axes."""
        return (COUNTS[len(self.axes)],) * len(self.axes)

    @property
    def size(self) -> float:
        """The unit of the function's prior."""
        return abs(self.learn.start) or 1.0

    def table(self, points: np.ndarray, alpha: tuple[int, ...]) -> np.ndarray:
        """D^alpha of its functions at points of the domain, (P, C)."""
        (low, high), own = self.bounds.T, tuple(alpha[axis] for axis in self.axes)
        return legendre.box_table(points[:, list(self.axes)], low, high - low, self.shape, own)

    @cached_property
    def grid(self) -> np.ndarray:
        """Values of its functions on a grid on which its limits are kept, (P, C)."""
        return _on_grid(np.linspace(-1, 1, 4 * self.shape[0] + 1), self.shape)

    @cached_property
    def even(self) -> np.ndarray:
        """Values of its functions on an even grid of as many points, (C, C)."""
        return _on_grid((2 * np.arange(self.shape[0]) + 1) / self.shape[0] - 1, self.shape)

    def halves(self, length: float, strength: float) -> np.ndarray:
        """H with H Hᵀ the covariance of its coefficients under the prior: the process and the constant, (C, C + 1)."""
        process = _matern_half(self.shape, length)
        return self.size * np.hstack([strength * process, WIDE * np.eye(len(process), 1)])

    def whitening(self, length: float, strength: float) -> np.ndarray:
        """The same as a square, (C, C)."""
        return triangular_factor(self.halves(length, strength).T).T


def _points(nodes: np.ndarray, m: int) -> np.ndarray:
    """The points of a grid with the same nodes along each axis, (P, m)."""
    return np.stack(np.meshgrid(*[nodes] * m, indexing="ij"), axis=-1).reshape(-1, m)


def _on_grid(nodes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The orthonormal functions of the reference box on a grid, (P, C)."""
    m = len(shape)
    return legendre.box_table(_points(nodes, m), -np.ones(m), np.full(m, 2.0), shape, (0,) * m)


@lru_cache(maxsize=64)
def _matern_half(shape: tuple[int, ...], length: float) -> np.ndarray:
    """W with W Wᵀ Matérn's covariance of unit strength in the orthonormal functions of a box, (C, C), by Gauss quadrature."""
    nodes, weights = legendre.gauss(2 * shape[0])
    points = _points(nodes, len(shape))
    mean = _on_grid(nodes, shape) * np.prod(_points(weights, len(shape)), axis=1)[:, None]
    distance = np.linalg.norm(points[:, None] - points[None], axis=2) / 2  # in widths
    r = np.sqrt(5) * distance / length
    values, vectors = np.linalg.eigh(mean.T @ ((1 + r + r**2 / 3) * np.exp(-r)) @ mean)
    return vectors * np.sqrt(np.maximum(values, 1e-10 * values[-1]))


@dataclass(frozen=True, eq=False)
class FieldResidual:
    """A residual whose unknown functions are given by their coefficients among the parameters."""

    inner: Residual
    fields: tuple[FieldFunctions, ...]

    @cached_property
    def jets(self) -> tuple[Jet, ...]:
        """The derivatives of the problem's unknowns that it needs."""
        return tuple(jet for jet in self.inner.jets if jet[0] < len(self.inner.names.unknowns))

    def linearize(
        self, points: np.ndarray, jets: np.ndarray, parameters: npt.ArrayLike, normals: np.ndarray | None = None
    ) -> Linearized:
        """See `Residual.linearize`; derivatives in the coefficients of functions follow those in numbers."""
        parameters = np.asarray(parameters, float)
        num_unknowns, own = len(self.inner.names.unknowns), iter(jets)
        field = lambda k: self.fields[k - num_unknowns]
        tables = {(k, a): field(k).table(points, a) for k, a in self.inner.jets if k >= num_unknowns}
        values = [
            next(own) if jet not in tables else tables[jet] @ parameters[field(jet[0]).columns]
            for jet in self.inner.jets
        ]
        numbers = len(self.inner.names.parameters)
        found = self.inner.linearize(points, np.array(values), parameters[:numbers], normals)
        by_parameter = np.zeros((len(parameters), len(points)))
        by_parameter[:numbers] = found.by_parameter
        for slope, jet in zip(found.by_jet, self.inner.jets, strict=True):
            if jet in tables:
                by_parameter[field(jet[0]).columns] += slope * tables[jet].T
        mine = [i for i, jet in enumerate(self.inner.jets) if jet not in tables]
        return Linearized(found.value, found.by_jet[mine], by_parameter)


class Relabeled:
    """A residual whose jets stand for others, one for one, such as derivatives in space alone."""

    def __init__(self, inner: AnyResidual, jets: Iterable[Jet]):
        self.inner, self.jets, self.linearize = inner, tuple(jets), inner.linearize


AnyResidual = Residual | FieldResidual | Relabeled


def plain(residual: AnyResidual) -> Residual:
    """The user's function inside a residual."""
    return residual if isinstance(residual, Residual) else plain(residual.inner)


@dataclass(frozen=True, eq=False)
class Parameters:
    """All numbers of a problem and the coefficients of its unknown functions as one vector."""

    start: np.ndarray  # the vector to begin with, (Q,)
    lower: np.ndarray  # the least admissible values; functions keep theirs on a grid
    upper: np.ndarray  # likewise
    learned: tuple[int, ...]  # which of them are to be found, numbers before functions
    fields: tuple[FieldFunctions, ...]

    @classmethod
    def of(cls, problem: PDE) -> Parameters:
        """The parameters of a problem."""
        fields, start = [], np.asarray(problem.parameter_start, float)
        bounds, limits, numbers = np.asarray(problem.domain.bounds, float), np.full((2, len(start)), np.inf), []
        limits[0] *= -1
        for index, (name, value) in enumerate(problem.parameters.items()):
            if isinstance(value, Learn) and value.axes:
                axes = tuple(problem.axes.index(axis) for axis in value.axes)
                end = len(start) + COUNTS[len(axes)] ** len(axes)
                fields.append(FieldFunctions(name, axes, bounds[list(axes)], value, slice(len(start), end)))
                start = np.r_[start, value.start, np.zeros(end - len(start) - 1)]
            elif isinstance(value, Learn):
                numbers.append(index)
                limits[:, index] = value.limits
        more = np.full(len(start) - limits.shape[1], np.inf)
        learned = (*numbers, *range(limits.shape[1], len(start)))
        return cls(start, np.r_[limits[0], -more], np.r_[limits[1], more], learned, tuple(fields))

    @property
    def num_numbers(self) -> int:
        """How many parameters come before the coefficients of functions."""
        return self.fields[0].columns.start if self.fields else len(self.start)

    def bind(self, residual: Residual) -> AnyResidual:
        """A residual as a function of this vector."""
        return FieldResidual(residual, self.fields) if self.fields else residual

    def elsewhere(self) -> np.ndarray:
        """Admissible values at which equations are unlikely to be special, (Q,)."""
        away = self.start.copy()
        firsts = {field.columns.start for field in self.fields}
        for q in (q for q in self.learned if q in firsts or q < self.num_numbers):
            step = 0.037 * (1 + abs(away[q]))
            away[q] += step if away[q] + step <= self.upper[q] else max(-step, self.lower[q] - away[q])
        return away

    def limited(self, at: np.ndarray, move: np.ndarray, share: float = 0.9) -> np.ndarray:
        """The move, shortened where it would leave the limits: to at most `share` of the way to them."""
        room = np.where(move > 0, self.upper - at, self.lower - at)
        out = np.where(np.abs(move) > np.abs(room), share * room, move)
        for field in self.fields:
            low, high = field.learn.limits
            now, step = field.grid @ at[field.columns], field.grid @ out[field.columns]
            room = np.where(step > 0, high - now, now - low)
            with np.errstate(divide="ignore", invalid="ignore"):
                allowed = np.where(np.abs(step) > room, share * np.maximum(room, 0.0) / np.abs(step), 1.0)
            out[field.columns] *= allowed.min()
        return out
