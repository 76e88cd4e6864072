"""A function that was marched in time: on each window a polynomial in time whose coefficients are series in space.

Along a space axis the series is 1, cos, sin, cos 2, ... of the axis's own period ("fourier"), or sin or cos of half waves; values
and derivatives are evaluated in this form. As a series, a window is a Fourier series in space and time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from operator import add

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from flm.domains import AbstractDomain, Box
from flm.models.base import InputMap
from flm.models.pieces import AbstractPieces, Line, export, named_box, to_series, unmapped
from flm.series import PhaseSeries, legendre
from flm.series.arrays import device
from flm.series.waves import Orders
from flm.wording import InputError

MANY = 16  # points at one time: from this many on, the sum over time comes first


class MarchedFLM(AbstractPieces):
    """A function of space and time in windows."""

    edges: Float[Array, "W+1"]  # the ends of the windows in time
    # for each window (K, outputs, n_1, ..., n_d): orthonormal Legendre functions in time by waves in space
    coefficients: tuple[Array, ...]
    bounds: Float[Array, "d 2"]  # of the space axes
    lift: Float[Array, "K d 3"]  # what is added for each output along each space axis: c_0 + c_1 ξ + c_2 ξ², 0 ≤ ξ ≤ 1
    map: InputMap
    kinds: tuple[str, ...] = eqx.field(static=True)  # "fourier", "sine" or "cosine" for each space axis
    time: int = eqx.field(static=True)  # which input is time
    num_outputs: int = eqx.field(static=True)
    least: float = eqx.field(static=True)  # coefficients below this share of the largest are left out of the series

    def __init__(self, edges, coefficients, kinds, bounds, lift, axes, time: int, least: float = 0.0):
        self.edges, self.bounds, self.lift = (device(np.asarray(a, float)) for a in (edges, bounds, lift))
        self.coefficients, self.map = tuple(map(device, coefficients)), unmapped(axes)
        self.kinds, self.time, self.least = tuple(kinds), int(time), float(least)
        self.num_outputs = int(coefficients[0].shape[1])

    def __check_init__(self) -> None:
        fits = len(self.edges) == len(self.coefficients) + 1 and len(self.kinds) == len(self.map.center) - 1
        if not fits or any(c.ndim != len(self.kinds) + 2 for c in self.coefficients):
            raise InputError(
                f"`coefficients` must be one (K, outputs, n_1, ...) for each of {len(self.edges) - 1} windows."
            )

    @property
    def num_parameters(self) -> int:
        """How many coefficients all windows have."""
        return sum(int(block.size) for block in self.coefficients)

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The windows."""
        windows = pairwise(np.asarray(self.edges))
        sides = [np.insert(np.asarray(self.bounds), self.time, window, axis=0) for window in windows]
        return tuple(named_box(self.map.axes or (), bounds) for bounds in sides)

    def _jets(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Derivatives (A, P, outputs), window by window; a time between two windows belongs to the first."""
        edges, bounds = np.asarray(self.edges), np.asarray(self.bounds)
        out = np.zeros((len(orders), len(points), self.num_outputs))
        place = np.clip(np.searchsorted(edges, points[:, self.time], side="left") - 1, 0, len(self.coefficients) - 1)
        space = np.delete(points, self.time, axis=1)
        for w in np.unique(place):
            rows = np.flatnonzero(place == w)
            width, block = edges[w + 1] - edges[w], np.asarray(self.coefficients[w])
            z = 2 * (points[rows, self.time] - edges[w]) / width - 1
            for a, alpha in enumerate(orders):
                along = np.delete(alpha, self.time)
                times = legendre.table(z, len(block), alpha[self.time]) * (2 / width) ** alpha[self.time]
                tables = [
                    line.table(space[rows, j], block.shape[j + 2], along[j]) for j, line in enumerate(self._lines())
                ]
                out[a, rows] = _contracted(block, times, tables)
        if np.asarray(self.lift).any():
            for own, alpha in zip(out, orders, strict=True):
                if alpha[self.time] == 0:
                    along, x = [*alpha[: self.time], *alpha[self.time + 1 :]], list(space.T)
                    own += np.stack([lift_jet(lift, bounds, along, x) for lift in np.asarray(self.lift)], axis=-1)
        return out

    def _lines(self) -> list[Line]:
        """The waves along each space axis."""
        sides = zip(self.kinds, np.asarray(self.bounds), strict=True)
        return [Line(kind, low, (1 if kind == "fourier" else 2) * (high - low)) for kind, (low, high) in sides]

    # --- as waves --------------------------------------------------------------------------------------------------

    def piece_series(
        self, piece: int, gap: float = 1e-13, region: AbstractDomain | None = None, component: int | None = None
    ) -> PhaseSeries:
        """The series of one window, accurate to `gap`, with waves of twice its length in time; small coefficients are dropped."""
        block, lines = np.asarray(self.coefficients[piece]), self._lines()
        waves = np.moveaxis(export(block, (0,), gap), (0, 1), (self.time, -1))
        lines.insert(self.time, Line.over(*np.asarray(self.edges)[piece : piece + 2]))
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
            lines = [Line.over(low, high) if i == place else Line("waves", 0.0, 1.0) for i in range(m)]
            parts.append(to_series(waves, lines, self.map.axes))
        return reduce(add, parts)


def lift_jet(lift: ArrayLike, bounds: ArrayLike, alpha: Sequence[int], coordinates: Sequence[np.ndarray]) -> np.ndarray:
    """A derivative of Σ_j c_j0 + c_j1 ξ_j + c_j2 ξ_j², ξ_j = (x_j − low) / width, with c (d, 3); coordinates by axis."""
    total = np.zeros(np.broadcast_shapes(*map(np.shape, coordinates)))
    for own, (low, high), order, x in zip(np.asarray(lift), np.asarray(bounds), alpha, coordinates, strict=True):
        if sum(alpha) == order:
            slope = np.polynomial.polynomial.polyder(own, order) / (high - low) ** order
            total = total + np.polynomial.polynomial.polyval((x - low) / (high - low), slope)
    return total


def _contracted(block: np.ndarray, times: np.ndarray, tables: list[np.ndarray]) -> np.ndarray:
    """The values at points of coefficients (K, outputs, n_1, ...), given the functions of time (P, K) and space (P, n_j)."""
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
