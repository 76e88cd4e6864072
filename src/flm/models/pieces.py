"""A function in pieces: on each box a tensor product of Legendre functions, which becomes a plain Fourier series on request.

Values and derivatives are evaluated in the orthonormal form, where a derivative loses no digits; the waves of a piece have
a period of twice its width and amplitudes about as large as the function.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.custom_derivatives import SymbolicZero
from jax.tree_util import PyTreeDef
from jaxtyping import Array, Float
from numpy.typing import ArrayLike
from scipy.linalg import lstsq

from flm.domains import AbstractDomain, Box
from flm.models.base import AbstractModel, InputMap
from flm.series import AbstractSeries, PhaseSeries, SeparableSeries, legendre
from flm.series.arrays import device
from flm.series.tables import WaveTable
from flm.series.waves import Orders
from flm.wording import InputError

PERIOD = 2.0  # of the waves, in widths of a piece
COUNTS = (13, 17, 21, 25, 31, 41, 51)  # waves along each axis that are tried
PART = 40  # nodes along each axis, at which the waves are fitted where a region leaves part of a box
BLOCK = 4096  # points that are compared with all boxes at once


class AbstractSummed(AbstractModel):
    """A function that NumPy sums at points, in `_jets`; a traced program calls back to NumPy."""

    @abc.abstractmethod
    def _jets(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Derivatives at checked points, (A, P, K)."""

    def jets(self, points: ArrayLike, orders: Orders) -> Array:
        """Values and derivatives; a point between two pieces belongs to the first. See `AbstractModel.jets`."""
        wanted, points = self._orders(orders), self._checked(points)
        if isinstance(points, Tracer) or any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self)):
            leaves, kind = jax.tree.flatten(self)
            found = jnp.stack([_traced(kind, alpha, leaves, points) for alpha in wanted])
        else:
            found = self._jets(np.asarray(points), wanted)
        return device(found[..., 0] if self.num_outputs == 1 else found)


class AbstractPieces(AbstractSummed):
    """A function that has one Fourier series on each of many boxes."""

    @property
    @abc.abstractmethod
    def boxes(self) -> tuple[Box, ...]:
        """The pieces."""

    @abc.abstractmethod
    def piece_series(
        self, piece: int, gap: float = 1e-13, region: AbstractDomain | None = None, component: int | None = None
    ) -> AbstractSeries:
        """The series of one piece, within `gap` of the largest value there: for all outputs, or for one where there is a choice."""

    @property
    def num_pieces(self) -> int:
        """The number of boxes."""
        return len(self.boxes)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _traced(kind: PyTreeDef, alpha: tuple[int, ...], leaves: list[Array], points: Array) -> Array:
    """The derivative alpha of the model with these leaves at points within a traced program, (P, outputs)."""
    outputs = jax.tree.unflatten(kind, leaves).num_outputs
    own = [
        np.ndim(leaf) for leaf in leaves
    ]  # axes before these were put there by vmap, of length 1 where nothing varies

    def evaluate(leaves: list[np.ndarray], points: np.ndarray) -> np.ndarray:
        leaves, points = [np.asarray(leaf) for leaf in leaves], np.asarray(points)
        many = [leaf.shape[: leaf.ndim - axes] for leaf, axes in zip(leaves, own, strict=True)]
        models = np.broadcast_shapes(*many)
        if math.prod(models) == 1:  # one model for all points
            chosen = [leaf.reshape(leaf.shape[len(s) :]) for leaf, s in zip(leaves, many, strict=True)]
            here = points.reshape(-1, points.shape[-1])
            found = jax.tree.unflatten(kind, chosen)._jets(here, (alpha,))[0]
            return found.astype(points.dtype).reshape(*points.shape[:-1], outputs)
        batch = np.broadcast_shapes(models, points.shape[:-2])
        points = np.broadcast_to(points, (*batch, *points.shape[-2:]))
        full = [np.broadcast_to(leaf, (*batch, *leaf.shape[len(s) :])) for leaf, s in zip(leaves, many, strict=True)]
        each = [evaluate([leaf[i] for leaf in full], points[i]) for i in np.ndindex(batch)]
        return np.reshape(each, (*batch, points.shape[-2], outputs))

    shape = jax.ShapeDtypeStruct((*points.shape[:-1], outputs), points.dtype)
    return jax.pure_callback(evaluate, shape, leaves, points, vmap_method="expand_dims")


@partial(_traced.defjvp, symbolic_zeros=True)
def _traced_slope(kind, alpha, primals, tangents):
    (leaves, points), (changes, moved) = primals, tangents
    if not all(isinstance(change, SymbolicZero) for change in changes):
        name, remedy = (
            type(jax.tree.unflatten(kind, leaves)).__name__,
            "Differentiate or train an flm.FLM, such as flm.distill makes.",
        )
        raise InputError(
            f"derivatives of a {name} must be with respect to points; got one with respect to its numbers. {remedy}"
        )
    here = _traced(kind, alpha, leaves, points)
    if isinstance(moved, SymbolicZero):
        return here, jnp.zeros_like(here)
    higher = [tuple(order + (i == j) for i, order in enumerate(alpha)) for j in range(len(alpha))]
    return here, sum(_traced(kind, a, leaves, points) * moved[..., j, None] for j, a in enumerate(higher))


def unmapped(axes: Sequence[str]) -> InputMap:
    """The map that leaves inputs as they are."""
    return InputMap((0.0,) * len(axes), (1.0,) * len(axes), tuple(axes))


def named_box(axes: Iterable[str], bounds: ArrayLike) -> Box:
    """A box from its axes and their ends, (m, 2)."""
    return Box(**{axis: (float(a), float(b)) for axis, (a, b) in zip(axes, np.asarray(bounds), strict=True)})


class PiecewiseFLM(AbstractPieces):
    """A function that has its own coefficients on each of many boxes."""

    lower: Float[Array, "L m"]  # corners of the boxes
    upper: Float[Array, "L m"]
    coefficients: Array  # of orthonormal Legendre functions, (L, n_1, ..., n_m, K)
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, lower: ArrayLike, upper: ArrayLike, coefficients: ArrayLike, axes: Sequence[str]):
        self.lower, self.upper, self.coefficients = device(lower), device(upper), device(coefficients)
        self.map, self.num_outputs = unmapped(axes), int(np.shape(coefficients)[-1])

    def __check_init__(self) -> None:
        count, m = self.lower.shape
        shape = self.coefficients.shape
        if self.upper.shape != (count, m) or len(shape) != m + 2 or shape[0] != count or len(self.map.center) != m:
            raise InputError(
                f"`coefficients` must be (L, n_1, ..., n_m, K) for {count} boxes of {m} axes; got shape {shape}."
            )

    @property
    def num_parameters(self) -> int:
        """The number of coefficients."""
        return int(self.coefficients.size)

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The pieces."""
        sides = np.stack([self.lower, self.upper], axis=-1)
        return tuple(named_box(self.map.axes or (), bounds) for bounds in sides)

    def _jets(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Derivatives (A, P, K), piece by piece."""
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        leaf = np.zeros(len(points), int)  # the box that contains each point, or else the nearest
        for i in range(0, len(points), BLOCK):
            here = points[i : i + BLOCK, None]
            beyond = np.maximum(lower - here, here - upper) / (upper - lower)
            leaf[i : i + BLOCK] = beyond.max(axis=2).argmin(axis=1)
        out = np.empty((len(orders), len(points), self.num_outputs))
        by_leaf = np.argsort(leaf, kind="stable")
        edges = np.flatnonzero(np.diff(leaf[by_leaf], prepend=-1, append=-1))
        coefficients = np.asarray(self.coefficients)
        for first, last in pairwise(edges):
            rows = by_leaf[first:last]
            own = leaf[rows[0]]
            width = upper[own] - lower[own]
            z = 2 * (points[rows] - lower[own]) / width - 1
            tables = [legendre.values(z[:, j], n) for j, n in enumerate(coefficients.shape[1:-1])]
            for a, alpha in enumerate(orders):
                block = coefficients[own]
                for j, times in enumerate(alpha):
                    slope = legendre.differentiation(block.shape[j], times) * (2 / width[j]) ** times
                    block = _along(slope, block, j) if times else block
                out[a, rows] = _combined(block, tables)
        return out

    # --- as waves --------------------------------------------------------------------------------------------------

    def piece_series(
        self, piece: int, gap: float = 1e-13, region: AbstractDomain | None = None, component: int | None = None
    ) -> PhaseSeries:
        """The series of one piece, within `gap` of the largest value there, or in the part of it that is in `region`."""
        block = np.asarray(self.coefficients)[piece]
        lower, upper = np.asarray(self.lower)[piece], np.asarray(self.upper)[piece]
        waves = export(block, range(block.ndim - 1), gap)
        if region is not None and block.ndim == 3:
            nodes = legendre.gauss(PART)[0]
            z = np.stack([g.ravel() for g in np.meshgrid(nodes, nodes, indexing="ij")], axis=1)
            z = z[region.contains(lower + (z + 1) / 2 * (upper - lower))]
            values = _combined(block, [legendre.values(z[:, j], n) for j, n in enumerate(block.shape[:-1])])
            if len(z) < PART**2 and np.abs(waves).max() > 3 * np.abs(values).max(initial=0.0):
                waves = _fitted(z, values, gap)
        return to_series(waves, [Line.over(a, b) for a, b in zip(lower, upper, strict=True)], self.map.axes)


def _fitted(z: np.ndarray, values: np.ndarray, gap: float) -> np.ndarray:
    """Waves that agree with values (P, K) at points of part of a box and are small elsewhere, (count, count, K)."""
    waves, size = np.zeros((1, 1, values.shape[1])), float(np.abs(values).max(initial=0.0))
    for count in [c for c in COUNTS if c**2 < len(z)]:
        tables = [legendre.wave_table(z[:, j], count, PERIOD) for j in range(2)]
        matrix = (tables[0][:, :, None] * tables[1][:, None, :]).reshape(len(z), -1)
        solved = lstsq(matrix, values, cond=1e-13, lapack_driver="gelsy", check_finite=False)
        assert solved is not None
        found = np.asarray(solved[0])
        waves = found.reshape(count, count, -1)
        if np.abs(matrix @ found - values).max() <= gap / 30 * size:  # the error between the points is larger
            break
    return waves


def as_waves(n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The matrix (count, n) from n Legendre functions to waves, and the one (n, n) from them to waves and back."""
    matrix = legendre.to_waves(n, count, PERIOD)
    nodes, weights = legendre.gauss(n + 8)
    back = (legendre.values(nodes, n) * weights[:, None]).T @ legendre.wave_table(nodes, count, PERIOD) @ matrix
    return matrix, back


def export(block: np.ndarray, axes: Sequence[int], gap: float) -> np.ndarray:
    """Coefficients of Legendre functions along some axes as those of 1, cos, sin, cos 2, ..., within a relative gap."""
    size = float(np.sqrt(np.sum(block**2))) or 1.0
    waves = block
    for count in COUNTS:
        waves, error = block, block
        for j in axes:
            matrix, back = as_waves(block.shape[j], count)
            waves, error = _along(matrix, waves, j), _along(back, error, j)
        if np.sqrt(np.sum((error - block) ** 2)) <= gap * size:
            break
    return waves


class Line(NamedTuple):
    """Waves along one axis: 1, cos, sin, cos 2, ... of a period about an origin; or sines, or cosines, alone."""

    kind: str
    origin: float
    period: float

    @classmethod
    def over(cls, low: float, high: float) -> Line:
        """Waves that repeat after twice the interval, used to write a function on the interval as a series."""
        return cls("waves", (low + high) / 2, PERIOD * (high - low))

    def split(self, waves: np.ndarray, axis: int) -> np.ndarray:
        """Coefficients along an axis as (frequency, cosine or sine), two axes."""
        waves = np.moveaxis(waves, axis, -1)
        if self.kind in ("sine", "cosine"):
            pair = (np.zeros_like(waves), waves) if self.kind == "sine" else (waves, np.zeros_like(waves))
        else:
            first = waves[..., :1]
            pair = [np.concatenate([first, waves[..., 1::2]], -1), np.concatenate([0 * first, waves[..., 2::2]], -1)]
        return np.moveaxis(np.stack(pair, axis=-1), (-2, -1), (axis, axis + 1))

    def frequencies(self, count: int) -> np.ndarray:
        """Frequencies in radians per unit of the axis."""
        return (np.arange(count) + (self.kind == "sine")) * (2 * np.pi / self.period)

    def table(self, x: np.ndarray, count: int, order: int = 0) -> np.ndarray:
        """A derivative of the first `count` waves at points, (P, count)."""
        alone = self.kind in ("sine", "cosine")
        waves = WaveTable.at(x - self.origin, self.frequencies(count if alone else count // 2 + 1)).derivative(order)
        if alone:
            return waves.sine if self.kind == "sine" else waves.cosine
        return np.delete(waves.pairs().reshape(len(x), -1), 1, axis=1)[:, :count]  # without sin 0


def to_series(
    waves: np.ndarray, lines: Sequence[Line], axes: tuple[str, ...] | None, least: float = 0.0
) -> PhaseSeries:
    """Coefficients of waves along each axis, (count, ..., K), as a series; those below a share of the largest are dropped."""
    m, outputs, split = len(lines), waves.shape[-1], waves
    for j, line in enumerate(lines):  # axis j becomes (frequency, cosine or sine)
        split = line.split(split, 2 * j)
    counts = split.shape[0 : 2 * m : 2]
    order = [*range(0, 2 * m, 2), *range(1, 2 * m, 2), 2 * m]
    coefficients = split.transpose(order).reshape(int(np.prod(counts)), 2**m, outputs)
    grids = np.meshgrid(*(line.frequencies(n) for line, n in zip(lines, counts, strict=True)), indexing="ij")
    frequencies = np.stack([g.ravel() for g in grids], axis=1)
    if least:
        size = np.abs(coefficients).max(axis=(1, 2))
        kept = (size > least * size.max()) | (np.arange(len(size)) == size.argmax())
        frequencies, coefficients = frequencies[kept], coefficients[kept]
    coefficients = coefficients[..., 0] if outputs == 1 else coefficients
    return SeparableSeries(frequencies, coefficients, axes).phase().shift(np.array([line.origin for line in lines]))


def _along(matrix: np.ndarray, block: np.ndarray, axis: int) -> np.ndarray:
    """A matrix times an array along one of its axes."""
    return np.moveaxis(np.tensordot(matrix, block, (1, axis)), 0, axis)


def _combined(coefficients: np.ndarray, tables: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of coefficients (n_1, ..., n_m, K) times tables (P, n_j), (P, K)."""
    out = np.tensordot(tables[0], coefficients, (1, 0))  # (P, n_2, ..., K)
    for table in tables[1:]:
        out = np.einsum("pn,pn...->p...", table, out)
    return out
