"""A function that was marched in time: on each window a polynomial in time whose coefficients are series in space.

Along a space axis the series is 1, cos, sin, cos 2, ... of the axis's own period ("fourier"), or sin or cos of half waves; values
and derivatives are evaluated in this form. Handed over, a window is a Fourier series in space and time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from operator import add
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from flm.domains import AbstractDomain, Box
from flm.models.base import InputMap
from flm.models.pieces import PERIOD, AbstractPieces, Line, export, to_series
from flm.series import PhaseSeries, legendre
from flm.series.arrays import device
from flm.series.waves import Orders
from flm.wording import InputError

MANY = 16  # points at one time from which time is summed first


class MarchedFLM(AbstractPieces):
    """A function of space and time in windows.

    Args:
        edges: the ends of the windows in time, (W + 1,).
        coefficients: one array per window, (K, outputs, n_1, ..., n_d): orthonormal Legendre functions in time by waves
            in space.
        kinds: "fourier", "sine" or "cosine" for each space axis.
        bounds: of the space axes, (d, 2).
        lift: what is added for each output along each space axis, (outputs, d, 3): c_0 + c_1 ξ + c_2 ξ², 0 ≤ ξ ≤ 1.
        axes: names of the inputs.
        time: which of them is time.
        least: coefficients below this share of the largest are no waves of a series.
    """

    edges: Float[Array, "W+1"]
    coefficients: tuple[Array, ...]
    bounds: Float[Array, "d 2"]
    lift: Float[Array, "K d 3"]
    map: InputMap
    kinds: tuple[str, ...] = eqx.field(static=True)
    time: int = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)
    least: float = eqx.field(static=True)

    def __init__(self, edges, coefficients, kinds, bounds, lift, axes, time: int, least: float = 0.0):
        self.edges, self.bounds, self.lift = (device(np.ascontiguousarray(a, float)) for a in (edges, bounds, lift))
        self.coefficients = tuple(device(np.ascontiguousarray(c)) for c in coefficients)
        self.map = InputMap((0.0,) * len(axes), (1.0,) * len(axes), tuple(axes))
        self.kinds, self.time, self.least = tuple(kinds), int(time), float(least)
        self.num_outputs = int(coefficients[0].shape[1])

    def __check_init__(self) -> None:
        fits = len(self.edges) == len(self.coefficients) + 1 and len(self.kinds) == len(self.map.center) - 1
        if not fits or any(c.ndim != len(self.kinds) + 2 for c in self.coefficients):
            raise InputError(
                f"`coefficients` must be one (K, outputs, n_1, ...) for each of {len(self.edges) - 1} windows."
            )

    @property
    def num_pieces(self) -> int:
        """How many windows."""
        return len(self.coefficients)

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The windows."""
        axes, edges = self.map.axes or (), np.asarray(self.edges)
        whole = [(float(a), float(b)) for a, b in np.asarray(self.bounds)]
        place = lambda w: [*whole[: self.time], (float(edges[w]), float(edges[w + 1])), *whole[self.time :]]
        return tuple(Box(**dict(zip(axes, place(w), strict=True))) for w in range(self.num_pieces))

    @property
    def num_parameters(self) -> int:
        """How many coefficients all windows have."""
        return sum(int(c.size) for c in self.coefficients)

    def jets(self, points: Any, orders: Orders) -> Array:
        """Values and derivatives; a time between two windows belongs to the first. See `AbstractModel.jets`."""
        wanted = self._orders(orders)
        points = self._checked(points)
        if isinstance(points, Tracer):
            found = jnp.stack([_traced(self, alpha, points) for alpha in wanted])
        else:
            found = device(self._jets(np.asarray(points), wanted))
        return found[..., 0] if self.num_outputs == 1 else found

    def _jets(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """All points of a window at once, (A, P, outputs)."""
        edges, bounds = np.asarray(self.edges), np.asarray(self.bounds)
        out = np.zeros((len(orders), len(points), self.num_outputs))
        place = np.clip(np.searchsorted(edges, points[:, self.time], side="left") - 1, 0, self.num_pieces - 1)
        space = np.delete(points, self.time, axis=1)
        for w in np.unique(place):
            rows = np.flatnonzero(place == w)
            width, block = edges[w + 1] - edges[w], np.asarray(self.coefficients[w])
            z = 2 * (points[rows, self.time] - edges[w]) / width - 1
            for a, alpha in enumerate(orders):
                along = np.delete(alpha, self.time)
                times = legendre.table(z, len(block), alpha[self.time]) * (2 / width) ** alpha[self.time]
                tables = [
                    wave_table(kind, space[rows, j], bounds[j], block.shape[j + 2], along[j])
                    for j, kind in enumerate(self.kinds)
                ]
                out[a, rows] = _contracted(block, times, tables)
        if np.any(self.lift):
            for own, alpha in zip(out, orders, strict=True):
                if alpha[self.time] == 0:
                    along, x = [*alpha[: self.time], *alpha[self.time + 1 :]], list(space.T)
                    own += np.stack([lift_jet(lift, bounds, along, x) for lift in np.asarray(self.lift)], axis=-1)
        return out

    # --- as waves --------------------------------------------------------------------------------------------------

    def piece_series(self, piece: int, gap: float = 1e-13, region: AbstractDomain | None = None) -> PhaseSeries:
        """The series of one window: in time waves of twice its length, within `gap`; small coefficients are dropped."""
        block, edges = np.asarray(self.coefficients[piece]), np.asarray(self.edges)
        waves = np.moveaxis(export(block, (0,), gap), (0, 1), (self.time, -1))
        lines = [
            Line(kind, low, (1 if kind == "fourier" else 2) * (high - low))
            for kind, (low, high) in zip(self.kinds, np.asarray(self.bounds), strict=True)
        ]
        begin, end = edges[piece], edges[piece + 1]
        lines.insert(self.time, Line("waves", (begin + end) / 2, PERIOD * (end - begin)))
        series = to_series(waves, lines, self.map.axes, self.least)
        return series + self._lift_series(gap) if np.any(self.lift) else series

    def _lift_series(self, gap: float) -> PhaseSeries:
        """The lift, one polynomial along each axis, as waves of twice the width."""
        m, nodes, parts = len(self.kinds) + 1, legendre.gauss(3)[0], []
        to_legendre = np.linalg.solve(legendre.values(nodes, 3), ((nodes + 1) / 2)[:, None] ** np.arange(3))
        for j, (low, high) in enumerate(np.asarray(self.bounds)):
            place = j + (j >= self.time)
            waves = export(to_legendre @ np.asarray(self.lift)[:, j].T, (0,), gap)
            waves = np.expand_dims(waves, tuple(i for i in range(m) if i != place))
            lines = [Line("waves", (low + high) / 2 if i == place else 0.0, PERIOD * (high - low)) for i in range(m)]
            parts.append(to_series(waves, lines, self.map.axes))
        return reduce(add, parts)


def lift_jet(lift: ArrayLike, bounds: ArrayLike, alpha: Sequence[int], coordinates: Sequence[np.ndarray]) -> np.ndarray:
    """A derivative of Σ_j c_j0 + c_j1 ξ_j + c_j2 ξ_j², ξ_j = (x_j − low) / width, with c (d, 3), at one array per axis."""
    total = np.zeros(np.broadcast_shapes(*map(np.shape, coordinates)))
    for own, (low, high), order, x in zip(np.asarray(lift), np.asarray(bounds), alpha, coordinates, strict=True):
        if sum(alpha) == order:
            slope = np.polynomial.polynomial.polyder(own, order) / (high - low) ** order
            total = total + np.polynomial.polynomial.polyval((x - low) / (high - low), slope)
    return total


def wave_table(kind: str, x: np.ndarray, bounds: np.ndarray, count: int, order: int) -> np.ndarray:
    """A derivative of the waves along one axis at points, (P, count)."""
    low, high = bounds
    k = np.arange(1, count + 1) if kind == "sine" else np.arange(count)
    k = (np.arange(count) + 1) // 2 if kind == "fourier" else k
    rate = (2 if kind == "fourier" else 1) * np.pi / (high - low) * k
    # A derivative is a quarter turn: cos θ, −sin θ, ...; sin θ = cos(θ − π/2).
    is_sine = (np.arange(count) % 2 == 0) & (k > 0) if kind == "fourier" else np.full(count, kind == "sine")
    phase = np.pi / 2 * (order - is_sine)
    return rate**order * np.cos((x - low)[:, None] * rate + phase)


def _contracted(block: np.ndarray, times: np.ndarray, tables: list[np.ndarray]) -> np.ndarray:
    """Coefficients (K, outputs, n_1, ...) at points whose functions of time (P, K) and of space (P, n_j) are given."""
    distinct, which = np.unique(times, axis=0, return_inverse=True)
    if len(distinct) * MANY > len(times):  # nearly every point has its own time
        found = np.tensordot(tables[0], np.moveaxis(block, 0, -1), (1, 1))  # (P, outputs, n_2, ..., K)
        for table in (*tables[1:], times):
            found = np.einsum("pn,pkn...->pk...", table, found)
        return found
    out = np.empty((len(times), block.shape[1]))
    for i, row in enumerate(distinct):
        rows = np.flatnonzero(which == i)
        found = np.tensordot(tables[0][rows], np.tensordot(row, block, 1), (1, 1))
        for table in tables[1:]:
            found = np.einsum("pn,pkn...->pk...", table[rows], found)
        out[rows] = found
    return out


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _traced(model: MarchedFLM, alpha: tuple[int, ...], points: Array) -> Array:
    """The derivative alpha at points within a traced program, (P, outputs)."""
    shape = jax.ShapeDtypeStruct((*points.shape[:-1], model.num_outputs), points.dtype)
    evaluate = lambda p: np.asarray(model._jets(np.asarray(p).reshape(-1, p.shape[-1]), (alpha,))[0], p.dtype)
    return jax.pure_callback(lambda p: evaluate(p).reshape(*p.shape[:-1], -1), shape, points, vmap_method="expand_dims")


@_traced.defjvp
def _traced_slope(model, alpha, primals, tangents):
    (points,), (moved,) = primals, tangents
    higher = [tuple(order + (i == j) for i, order in enumerate(alpha)) for j in range(len(alpha))]
    slope = sum(_traced(model, a, points) * moved[..., j, None] for j, a in enumerate(higher))
    return _traced(model, alpha, points), slope
