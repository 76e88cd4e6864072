"""A function of many variables as a sum of products, stored as the factors that its terms share.

Along each axis functions are sums of modes, and a term is a product over the axes; the solution of a Kronecker sum has the same
factors at many times of one heat equation:

    u = Re sum_parts sum_q w_q sum_d prod_j sum_n modes_jn(x_j) exp(-rate_jn (t_q [+ t])) pool_j[first_dj, n]

A term with slopes is a sum over the axes: in the summand of an axis, that axis has another factor, as in a Laplacian.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Inexact, Int
from numpy.typing import ArrayLike

from flm.domains import AbstractDomain, Box
from flm.models.base import InputMap
from flm.models.pieces import AbstractPieces, Line, as_waves, export, named_box, to_series, unmapped
from flm.series import AbstractSeries, ProductSeries, legendre
from flm.series.arrays import device
from flm.series.waves import Orders
from flm.wording import InputError, NoSeriesError

BLOCK = 1 << 22  # product of points, terms and times that is multiplied at once
FEW = 3  # up to this many inputs, products are multiplied out
LARGEST = 50_000_000  # numbers in a series, at the most
Taylor = list[float | np.ndarray]  # coefficients of a polynomial in time, for all terms and points
COUNTS = (25, 41, 61, 91, 131, 191)  # waves along each axis that are tried


class Part(eqx.Module):
    """Terms that share their times; the formula is in the module's docstring."""

    modes: Float[Array, "m N n"] = eqx.field(converter=device)  # Legendre coefficients
    rates: Float[Array, "m n"] = eqx.field(converter=device)
    pools: tuple[Inexact[Array, "U n"], ...] = eqx.field(converter=lambda pools: tuple(map(device, pools)))
    first: Int[Array, "D m"] = eqx.field(converter=device)  # the factors of term d among the pools of each axis
    slopes: Int[Array, "D m"] = eqx.field(converter=device)  # the other factors of sums over the axes, else empty
    times: Float[Array, "Q"] = eqx.field(converter=device)
    weights: Float[Array, "Q"] = eqx.field(converter=device)
    moves: bool = eqx.field(static=True, default=False)  # whether the answer's own time is added to t_q

    def functions(self, t: float) -> list[np.ndarray]:
        """Every factor at every time in Legendre functions, (U, Q, N) for each axis."""
        modes, rates, times = (np.asarray(v) for v in (self.modes, self.rates, self.times))
        decays = np.exp(-np.multiply.outer(rates, times + t * self.moves)).transpose(0, 2, 1)  # (m, Q, n)
        rows = zip(self.pools, decays, modes, strict=True)
        return [(np.asarray(pool)[:, None, :] * decay) @ own.T for pool, decay, own in rows]

    def evaluate(
        self, z: np.ndarray, half: np.ndarray, t: np.ndarray, turn: complex, along: Sequence[int], order: int
    ) -> np.ndarray:
        """A derivative, `along` in space and of some order in time, at points in [-1, 1]^m, (P,); it may be complex."""
        first, slopes, times = (np.asarray(v) for v in (self.first, self.slopes, self.times))
        product: Taylor = [1.0, *[0.0] * order]  # Taylor coefficients in time
        summed: Taylor = [0.0] * (order + 1)
        for j, (modes, rates) in enumerate(zip(np.asarray(self.modes), np.asarray(self.rates), strict=True)):
            table = legendre.table(z[:, j], modes.shape[0], along[j]) @ modes / half[j] ** along[j]
            if self.moves:
                table = table * np.exp(-turn * np.multiply.outer(t, rates))
            decay, pool = np.exp(-np.multiply.outer(rates, times)), np.asarray(self.pools[j])
            own = [
                np.matmul((table * (-turn * rates) ** r / math.factorial(r))[None] * pool[:, None, :], decay)
                for r in range(order * self.moves + 1)
            ]
            own += [np.zeros_like(own[0])] * (order + 1 - len(own))
            if len(slopes):
                both = _convolve(summed, own, first[:, j]), _convolve(product, own, slopes[:, j])
                summed = [a + b for a, b in zip(*both, strict=True)]
            product = _convolve(product, own, first[:, j])
        total = summed[order] if len(slopes) else product[order]  # (D, P, Q)
        return math.factorial(order) * (np.asarray(total).sum(axis=0) @ np.asarray(self.weights))


def _convolve(left: Taylor, own: list[np.ndarray], which: np.ndarray) -> Taylor:
    """The product of two Taylor polynomials, each term with its own factor."""
    return [sum(left[s] * own[r - s][which] for s in range(r + 1)) for r in range(len(left))]


class ProductFLM(AbstractPieces):
    """A sum of products, in space or in space and time."""

    parts: tuple[Part, ...]
    bounds: Float[Array, "m 2"]
    map: InputMap
    time: int | None = eqx.field(static=True)  # which input is time, if any
    start: float = eqx.field(static=True)  # the first time
    # where nonzero, modes oscillate as exp(-i turn rate t) and there are two real outputs; else they decay
    turn: int = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)

    def __init__(self, parts, bounds, axes, time: int | None = None, start: float = 0.0, turn: int = 0):
        self.parts, self.bounds, self.map = tuple(parts), device(np.asarray(bounds, float)), unmapped(axes)
        self.time, self.start, self.turn = time, float(start), int(turn)
        self.num_outputs = 2 if turn else 1

    def __check_init__(self) -> None:
        m = len(self.map.center) - (self.time is not None)
        if len(self.bounds) != m or any(len(part.rates) != m or len(part.pools) != m for part in self.parts):
            raise InputError(f"`parts` must have {m} axes; got {[len(part.rates) for part in self.parts]}.")

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The box of space; time is not bounded."""
        axes = tuple(a for i, a in enumerate(self.map.axes or ()) if i != self.time)
        return (named_box(axes, self.bounds),)

    @property
    def num_parameters(self) -> int:
        """How many numbers the factors of all parts have."""
        return sum(int(pool.size) for part in self.parts for pool in part.pools)

    def _jets(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """Derivatives (A, P, K), in blocks of points."""
        bounds, most = np.asarray(self.bounds), max([len(p.first) * len(p.times) for p in self.parts], default=1)
        step, half = max(1, BLOCK // most), np.ptp(bounds, axis=1) / 2
        out = np.zeros((len(orders), len(points), self.num_outputs))
        space = [i for i in range(points.shape[1]) if i != self.time]
        for i in range(0, len(points), step):
            rows = points[i : i + step]
            z = (rows[:, space] - bounds.mean(axis=1)) / half
            t = np.zeros(len(rows)) if self.time is None else rows[:, self.time] - self.start
            for a, alpha in enumerate(orders):
                along, order = [alpha[k] for k in space], 0 if self.time is None else alpha[self.time]
                total = sum(part.evaluate(z, half, t, 1j * self.turn or 1.0, along, order) for part in self.parts)
                out[a, i : i + step, 0] = np.real(total)
                if self.turn:
                    out[a, i : i + step, 1] = np.imag(total)
        return out

    def piece_series(
        self, piece: int = 0, gap: float = 1e-13, region: AbstractDomain | None = None, component: int | None = None
    ) -> ProductSeries:
        """The function as one series of products; for a function of time see `series_at`."""
        if self.time is not None:
            raise NoSeriesError(
                "a function of many variables and time has a series at each time: `.model.series_at(t)`."
            )
        return self.series_at(self.start, gap)

    def series_at(self, t: float, gap: float = 1e-13) -> ProductSeries:
        """The function at one time as a series of products, with its factors as waves of twice the width."""
        if self.turn:
            raise NoSeriesError("a complex function of many variables has no series of products; call it.")
        bounds, axes = np.asarray(self.bounds), self.boxes[0].axes
        rows: list[list[np.ndarray]] = []  # Legendre coefficients of the factors of each term
        for part in self.parts:
            own = part.functions(t - self.start)
            first, slopes, weights = (np.asarray(v) for v in (part.first, part.slopes, part.weights))
            choices = range(len(axes)) if len(slopes) else (-1,)  # the axes on which a term may have its other factor
            terms = list(itertools.product(range(len(first)), range(len(weights)), choices))
            if (len(rows) + len(terms)) * len(axes) * 2 * COUNTS[0] > LARGEST:
                raise NoSeriesError(
                    f"this function has more than {len(rows) + len(terms):,} products: too many for a series."
                )
            for d, q, k in terms:
                factors = [own[j][slopes[d, j] if j == k else first[d, j], q] for j in range(len(axes))]
                rows.append([factors[0] * weights[q], *factors[1:]])
        return _as_waves(rows, bounds, axes, gap)


def _as_waves(rows: list[list[np.ndarray]], bounds: np.ndarray, axes: tuple[str, ...], gap: float) -> ProductSeries:
    """Products of functions given by their Legendre coefficients as a series."""
    longest = max(len(factor) for row in rows for factor in row)
    block = np.zeros((len(rows), len(axes), longest), np.result_type(*(factor for row in rows for factor in row)))
    for r, row in enumerate(rows):
        for j, factor in enumerate(row):
            block[r, j, : len(factor)] = factor
    size = np.linalg.norm(block, axis=2, keepdims=True)
    waves, count = block, COUNTS[0]
    for count in [c for c in COUNTS if c * block.size / longest <= LARGEST]:
        matrix, back = as_waves(longest, count)
        waves = block @ matrix.T
        if (np.linalg.norm(block @ back.T - block, axis=2, keepdims=True) <= gap * size).all():
            break
    lines = [Line.over(low, high) for low, high in bounds]
    pairs = lines[0].split(waves, 2)  # (terms, axes, frequencies, cosine or sine)
    n = np.stack([line.frequencies(pairs.shape[2]) for line in lines])
    return ProductSeries(np.broadcast_to(n, pairs.shape[:-1]), pairs[..., 0], pairs[..., 1], axes).shift(
        bounds.mean(axis=1)
    )


class SparseFLM(AbstractPieces):
    """A sum of products of orthonormal Legendre functions over a set of degrees, on a box."""

    bounds: Float[Array, "m 2"]
    degrees: Int[Array, "C m"]
    coefficients: Float[Array, "C K"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, bounds: ArrayLike, degrees: ArrayLike, coefficients: ArrayLike, axes: Sequence[str]):
        self.bounds, self.degrees = device(np.asarray(bounds, float)), device(np.asarray(degrees, int))
        self.coefficients, self.map = device(np.asarray(coefficients, float)), unmapped(axes)
        self.num_outputs = int(np.shape(coefficients)[1])

    def __check_init__(self) -> None:
        if self.degrees.shape != (len(self.coefficients), len(self.map.center)) or len(self.bounds) != len(
            self.map.center
        ):
            raise InputError(f"`degrees` must be (C, m) for coefficients (C, K); got {self.degrees.shape}.")

    @property
    def num_parameters(self) -> int:
        """The number of coefficients."""
        return int(self.coefficients.size)

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The box."""
        return (named_box(self.map.axes or (), self.bounds),)

    def _jets(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        degrees, bounds, coefficients = (np.asarray(v) for v in (self.degrees, self.bounds, self.coefficients))
        out = np.empty((len(orders), len(points), self.num_outputs))
        step = max(1, BLOCK // len(degrees))
        for start in range(0, len(points), step):
            rows = slice(start, start + step)
            for a, column in enumerate(tensor_columns(points[rows], bounds, degrees, orders)):
                out[a, rows] = column.T @ coefficients
        return out

    def piece_series(
        self, piece: int = 0, gap: float = 1e-13, region: AbstractDomain | None = None, component: int | None = None
    ) -> AbstractSeries:
        """The function as one series: of cosines up to three inputs; beyond, of products and for one unknown of a system."""
        degrees, c, bounds = (np.asarray(v) for v in (self.degrees, self.coefficients, self.bounds))
        if len(bounds) <= FEW:
            block = np.zeros((*(degrees.max(axis=0) + 1), self.num_outputs))
            block[tuple(degrees.T)] = c
            return to_series(
                export(block, range(len(bounds)), gap), [Line.over(a, b) for a, b in bounds], self.map.axes
            )
        if self.num_outputs > 1 and component is None:
            raise NoSeriesError('a system has a series for each unknown: solution["u"].series.')
        c = c[:, component or 0]
        kept = np.flatnonzero(np.abs(c) > gap / 10 * np.abs(c).max(initial=0.0)) if c.any() else [0]
        unit = np.eye(degrees.max(initial=0) + 1)
        rows = [[unit[k] * (c[i] if j == 0 else 1.0) for j, k in enumerate(degrees[i])] for i in kept]
        return _as_waves(rows, bounds, self.map.axes or (), gap)


def tensor_columns(
    points: np.ndarray, bounds: np.ndarray, degrees: np.ndarray, orders: Sequence[Sequence[int]]
) -> Iterator[np.ndarray]:
    """D^alpha of the product of Legendre functions for each row of degrees, (C, P) for each alpha in turn."""
    half = np.ptp(bounds, axis=1) / 2
    z, sizes = ((points - bounds.mean(axis=1)) / half).T, degrees.max(axis=0, initial=0) + 1
    tables = [legendre.values(at, n) for at, n in zip(z, sizes, strict=True)]

    @cache
    def along(j: int, order: int) -> np.ndarray:
        slope = tables[j] @ legendre.differentiation(sizes[j], order) / half[j] ** order if order else tables[j]
        return np.ascontiguousarray(slope.T)

    for alpha in orders:
        out = along(0, alpha[0])[degrees[:, 0]]
        for j in range(1, len(alpha)):
            out *= along(j, alpha[j])[degrees[:, j]]
        yield out
