"""A function in pieces: on each box a tensor product of Legendre functions, handed over as a plain Fourier series.

Values and derivatives are evaluated in the orthonormal form, where a derivative loses no digits; the waves of a piece have
a period of two of its widths and amplitudes of the size of the function.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float
from scipy.linalg import lstsq

from flm.domains import AbstractDomain, Box
from flm.models.base import AbstractModel, InputMap
from flm.series import PhaseSeries, SeparableSeries, legendre
from flm.series.arrays import device
from flm.series.waves import Orders
from flm.wording import InputError, NoSeriesError

PERIOD = 2.0  # of the waves, in widths of a piece
COUNTS = (13, 17, 21, 25, 31, 41, 51)  # waves along each axis that are tried
PART = 40  # nodes along each axis at which the waves of part of a box are fitted
BLOCK = 4096  # points that are compared with all boxes at once


class AbstractPieces(AbstractModel):
    """A function that has one Fourier series on each of many boxes."""

    @property
    @abc.abstractmethod
    def num_pieces(self) -> int:
        """How many boxes."""

    @property
    @abc.abstractmethod
    def boxes(self) -> tuple[Box, ...]:
        """The pieces."""

    @abc.abstractmethod
    def piece_series(self, piece: int, gap: float = 1e-13, region: AbstractDomain | None = None) -> PhaseSeries:
        """The series of one piece, within `gap` of the largest value there."""

    @property
    def series(self) -> PhaseSeries:
        """The function as one series in physical units; only for a single piece."""
        if self.num_pieces > 1:
            raise NoSeriesError(
                f"this function has one series for each of its {self.num_pieces} pieces: see `.pieces`."
            )
        return self.piece_series(0)


class PiecewiseFLM(AbstractPieces):
    """A function that has its own coefficients on each of many boxes.

    Args:
        lower: corners of the boxes, (L, m).
        upper: likewise.
        coefficients: of orthonormal Legendre functions, (L, n_1, ..., n_m, K).
        axes: names of the inputs.
    """

    lower: Float[Array, "L m"]
    upper: Float[Array, "L m"]
    coefficients: Array
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, lower: Any, upper: Any, coefficients: Any, axes: tuple[str, ...]):
        self.lower, self.upper = device(np.ascontiguousarray(lower)), device(np.ascontiguousarray(upper))
        self.coefficients = device(np.ascontiguousarray(coefficients))
        self.map = InputMap((0.0,) * len(axes), (1.0,) * len(axes), tuple(axes))
        self.num_outputs = int(coefficients.shape[-1])

    def __check_init__(self) -> None:
        count, m = self.lower.shape
        shape = self.coefficients.shape
        if self.upper.shape != (count, m) or len(shape) != m + 2 or shape[0] != count or len(self.map.center) != m:
            raise InputError(
                f"`coefficients` must be (L, n_1, ..., n_m, K) for {count} boxes of {m} axes; got shape {shape}."
            )

    @property
    def num_pieces(self) -> int:
        """L."""
        return len(self.lower)

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The pieces."""
        axes = self.map.axes or ()
        return tuple(
            Box(**{axis: (float(a), float(b)) for axis, a, b in zip(axes, low, high, strict=True)})
            for low, high in zip(np.asarray(self.lower), np.asarray(self.upper), strict=True)
        )

    @property
    def num_parameters(self) -> int:
        """How many coefficients all pieces have."""
        return int(self.coefficients.size)

    def jets(self, points: Any, orders: Orders) -> Array:
        """Values and derivatives; a point between two pieces belongs to the first. See `AbstractModel.jets`."""
        wanted = self._orders(orders)
        points = self._checked(points)
        if isinstance(points, Tracer) or isinstance(self.coefficients, Tracer):
            found = _traced_jets(self, points, wanted)
        else:
            found = device(self._jets(np.asarray(points), wanted))
        return found[..., 0] if self.num_outputs == 1 else found

    def _jets(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """All points of a piece at once, (A, P, K)."""
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        leaf = np.concatenate(
            [_locate(np, points[i : i + BLOCK], lower, upper) for i in range(0, len(points), BLOCK)]
            or [np.zeros(0, int)]
        )
        out = np.empty((len(orders), len(points), self.num_outputs))
        order = np.argsort(leaf, kind="stable")
        edges = np.flatnonzero(np.diff(leaf[order], prepend=-1, append=-1))
        coefficients = np.asarray(self.coefficients)
        for first, last in pairwise(edges):
            rows = order[first:last]
            own = leaf[rows[0]]
            width = upper[own] - lower[own]
            z = 2 * (points[rows] - lower[own]) / width - 1
            tables = [legendre.values(z[:, j], n) for j, n in enumerate(coefficients.shape[1:-1])]
            for a, alpha in enumerate(orders):
                out[a, rows] = _combined(np, _differentiated(np, coefficients[own], alpha, width), tables)
        return out

    # --- as waves --------------------------------------------------------------------------------------------------

    def piece_series(self, piece: int, gap: float = 1e-13, region: AbstractDomain | None = None) -> PhaseSeries:
        """The series of one piece, within `gap` of the largest value there, or in that part of it that a region leaves."""
        block = np.asarray(self.coefficients)[piece]
        lower, upper = np.asarray(self.lower)[piece], np.asarray(self.upper)[piece]
        waves = export(block, range(block.ndim - 1), gap)
        if region is not None and block.ndim == 3:
            nodes = legendre.gauss(PART)[0]
            z = np.stack([g.ravel() for g in np.meshgrid(nodes, nodes, indexing="ij")], axis=1)
            z = z[region.contains(lower + (z + 1) / 2 * (upper - lower))]
            values = _combined(np, block, [legendre.values(z[:, j], n) for j, n in enumerate(block.shape[:-1])])
            if len(z) < PART**2 and np.abs(waves).max() > 3 * np.abs(values).max(initial=0.0):
                waves = _fitted(z, values, gap)
        lines = [Line("waves", (a + b) / 2, PERIOD * (b - a)) for a, b in zip(lower, upper, strict=True)]
        return to_series(waves, lines, self.map.axes)


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
        if np.abs(matrix @ found - values).max() <= gap / 30 * size:  # between the points it is larger
            break
    return waves


def _export(n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The waves of n Legendre functions, and what these waves are as Legendre functions again."""
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
            matrix, back = _export(block.shape[j], count)
            waves = np.moveaxis(np.tensordot(matrix, waves, (1, j)), 0, j)
            error = np.moveaxis(np.tensordot(back, error, (1, j)), 0, j)
        if np.sqrt(np.sum((error - block) ** 2)) <= gap * size:
            break
    return waves


class Line(NamedTuple):
    """Waves along one axis: 1, cos, sin, cos 2, ... of a period about an origin; or sines, or cosines, alone."""

    kind: str
    origin: float
    period: float

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
        """In radians per unit."""
        return (np.arange(count) + (self.kind == "sine")) * (2 * np.pi / self.period)


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


@eqx.filter_jit
def _traced_jets(model: PiecewiseFLM, points: Array, orders: Orders) -> Array:
    leaf = _locate(jnp, jax.lax.stop_gradient(points), model.lower, model.upper)
    width = model.upper - model.lower
    z = 2 * (points - model.lower[leaf]) / width[leaf] - 1
    tables = [legendre_values(z[:, j], n) for j, n in enumerate(model.coefficients.shape[1:-1])]
    out = []
    for alpha in orders:
        scale = jnp.prod((2 / width) ** jnp.asarray(alpha), axis=1)
        turned = _differentiated(jnp, model.coefficients, alpha, jnp.full(len(alpha), 2.0), first=1)
        turned = turned * scale.reshape(-1, *(1,) * (turned.ndim - 1))
        combined = jax.vmap(lambda c, *rows: _combined(jnp, c, [row[None] for row in rows])[0])
        out.append(combined(turned[leaf], *tables))
    return jnp.stack(out)


def _locate(xp: Any, points: Any, lower: Any, upper: Any) -> Any:
    """The box of each point, the nearest where it is in none."""
    beyond = xp.maximum(lower[None] - points[:, None], points[:, None] - upper[None]) / (upper - lower)[None]
    return xp.argmin(beyond.max(axis=2), axis=1)


def legendre_values(z: Array, n: int) -> Array:
    """`legendre.values` in operations that can be traced."""
    rows = [jnp.ones_like(z), z]
    for k in range(1, n - 1):
        rows.append(((2 * k + 1) * z * rows[k] - k * rows[k - 1]) / (k + 1))
    return jnp.stack(rows[:n], axis=1) * jnp.sqrt(2 * jnp.arange(n) + 1)


def _differentiated(xp: Any, coefficients: Any, alpha: tuple[int, ...], width: Any, first: int = 0) -> Any:
    """Coefficients of a derivative, axes beginning at `first`."""
    for j, order in enumerate(alpha):
        if order:
            matrix = legendre.differentiation(coefficients.shape[j + first], order)
            coefficients = xp.moveaxis(xp.tensordot(matrix, coefficients, (1, j + first)), 0, j + first)
            coefficients = coefficients * (2 / width[j]) ** order
    return coefficients


def _combined(xp: Any, coefficients: Any, tables: list[Any]) -> Any:
    """The sum of coefficients (n_1, ..., n_m, K) times tables (P, n_j), (P, K)."""
    out = xp.tensordot(tables[0], coefficients, (1, 0))  # (P, n_2, ..., K)
    for table in tables[1:]:
        out = xp.einsum("pn,pn...->p...", table, out)
    return out
