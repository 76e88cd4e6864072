"""Models without a spectrum: straight lines between observed values, and a regression on the rows around a hole.

Lag regression: every channel by ridge regression on all channels within six rows, without itself at lag zero. Holes in the
regressors are straight lines at first, then as the round before filled them; each round has its own coefficients.

The ridge shrinks either all coefficients to zero or, for channels that wander, those of steps from row to row, so that what is left
is the straight line between both neighbors: a few hundred rows then fill such a channel no worse than lines do. Which one, and how
strong, generalized cross-validation chooses by channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flm.estimators.imputer.curve import Curve

_REACH, _ROUNDS = 6, 5
_LAGS = 2 * _REACH + 1
_CHOICES = (0, 2)  # rounds that choose the ridge: the first, and one that knows a better filling
_RIDGES = 10.0 ** np.arange(-1, 4.5, 0.5)  # on the coefficients; values and steps have unit variance
# Degrees of freedom count so much more, since rows nearby are alike, and may be at most this share of the rows.
_CAUTION, _MOST_FREEDOM = 1.3, 0.9
_SPANS = (1, 2, 4, 8, 16, 32)  # half-lengths of the lines that show what lines err by, in observed values
_MOST_CHANNELS = 12  # among the regressors: the most correlated ones
_MOST_ROWS = 20_000  # to learn a channel from, and to fill at a time
_MOST_CURVED = 6_000  # to learn a curve from


def straight(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The table with holes as straight lines by channel and segment, the nearest value at the ends; zero without observations."""
    filled = values.copy()
    for rows in _segments(steps):
        for column in filled[rows].T:  # views
            seen = ~np.isnan(column)
            if not seen.all():
                t = steps[rows]
                column[~seen] = np.interp(t[~seen], t[seen], column[seen]) if seen.any() else 0.0
    return filled


def line_deviations(steps: np.ndarray, values: np.ndarray, depths: np.ndarray) -> np.ndarray:
    """What straight lines expect to err by in holes of these depths, (n, C): as they do over observed values of the channel."""
    return np.stack([_line_deviations(steps, *both) for both in zip(values.T, depths.T, strict=True)], axis=1)


def _line_deviations(steps: np.ndarray, column: np.ndarray, depths: np.ndarray) -> np.ndarray:
    seen = ~np.isnan(column)
    t, v, places, sizes = steps[seen], column[seen], [], []
    for k in (k for k in _SPANS if 2 * k < len(v)):
        left, right = t[k:-k] - t[: -2 * k], t[2 * k :] - t[k:-k]
        whole = left + right
        near = (whole <= 4 * np.median(whole)) & (left * right > 0)  # between equal times there is no line
        if near.any():
            error = v[k:-k] - (v[: -2 * k] * right + v[2 * k :] * left) / np.where(near, whole, 1.0)
            places.append(np.log((left * right)[near] / whole[near]).mean())
            sizes.append(np.abs(error[near]).mean())
    if not sizes:
        return np.ones(depths.shape)
    grown = np.log(np.maximum(np.maximum.accumulate(sizes), 1e-9))
    # sqrt(pi / 2): a Gaussian's deviation over its mean absolute value
    return np.sqrt(np.pi / 2) * np.exp(np.interp(np.log(np.maximum(depths, 0.5)), places, grown))


def _segments(steps: np.ndarray) -> list[slice]:
    """Stretches of rows without a break longer than the reach."""
    ends = np.flatnonzero(np.diff(steps) > _REACH + 0.5) + 1
    return [slice(a, b) for a, b in zip([0, *ends], [*ends, len(steps)], strict=True)]


@dataclass(frozen=True, eq=False)
class LagRegression:
    """Coefficients of every round and channel."""

    neighbors: np.ndarray  # the channels that each channel is explained by, itself first, (C, c)
    coefficients: np.ndarray  # (rounds, C, lags c); zero for the channel itself at lag zero
    noise: np.ndarray  # variance of what the last round does not explain, (C,)
    num_rows: int  # how many rows it was learned from
    curve: Curve | None = None  # what is added to the last round

    @classmethod
    def learn(
        cls,
        steps: np.ndarray,
        values: np.ndarray,
        rng: np.random.Generator,
        start: np.ndarray | None = None,
        curved: bool = False,
    ) -> LagRegression:
        """Ridge regression in five rounds, each on the table as the one before filled it; one round from a given start.

        If `curved`, a curve is added to the last round.
        """
        missing, C = np.isnan(values), values.shape[1]
        filled = straight(steps, values) if start is None else np.where(missing, start, values)
        size = np.maximum(np.linalg.norm(filled, axis=0), 1e-300)
        likeness = np.abs(filled.T @ filled) / size / size[:, None] + np.eye(C)
        neighbors = np.argsort(-likeness, axis=1, kind="stable")[:, :_MOST_CHANNELS]
        around, ways, rounds, noise = _around(steps), {}, [], np.ones(C)
        num_columns = _LAGS * neighbors.shape[1]
        curve = Curve.empty(C, num_columns) if curved else None
        inside = (np.diff(around[:, _REACH - 1 : _REACH + 2], axis=1) > 0).all(axis=1)  # ends are their own neighbors
        num_rounds = _ROUNDS if start is None else 1
        for round_ in range(num_rounds):
            found = np.zeros((C, num_columns))
            for c in range(C):
                rows = np.flatnonzero(~missing[:, c] & inside)
                if len(rows) > _MOST_ROWS:
                    rows = np.sort(rng.choice(rows, _MOST_ROWS, replace=False))
                if not len(rows):
                    continue
                columns, target = _columns(filled, around[rows], neighbors[c]), values[rows, c]
                sums = _Sums.of(columns, target)
                ways[c] = sums.best_way() if round_ in _CHOICES else ways[c]
                found[c] = sums.coefficients(ways[c])
                if round_ == num_rounds - 1:
                    noise[c] = sums.expected(sums.left(found[c]), ways[c].freedom)
                    if curve is not None:
                        few = slice(None, None, 1 + len(rows) // _MOST_CURVED)
                        left = target[few] - columns[few] @ found[c]
                        noise[c] *= curve.learn(c, columns[few], found[c], left)
            rounds.append(found)
            if round_ < num_rounds - 1:
                filled = _predicted(filled, missing, around, neighbors, found)
        return cls(neighbors, np.array(rounds), noise, len(values), curve)

    def fill(self, steps: np.ndarray, values: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
        """The table filled, (n, C), from straight lines or from the start that the regression was learned with."""
        missing, around = np.isnan(values), _around(steps)
        filled = straight(steps, values) if start is None else np.where(missing, start, values)
        for coefficients in self.coefficients[:-1]:
            filled = _predicted(filled, missing, around, self.neighbors, coefficients)
        return _predicted(filled, missing, around, self.neighbors, self.coefficients[-1], self.curve)

    def deviations(self, steps: np.ndarray, values: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Standard deviations of the filled values, given those of the start: what is not explained, and errors of regressors.

        The errors of a channel are alike in neighboring rows, those of different channels independent.
        """
        missing, around = np.isnan(values), _around(steps)
        unsure = np.where(missing, start, 0.0)
        variances = np.tile(self.noise, (len(values), 1))
        for c, found in enumerate(self.coefficients[-1]):
            for rows in _parts(missing[:, c]):
                parts = _columns(unsure, around[rows], self.neighbors[c]) * found
                by_channel = parts.reshape(len(rows), around.shape[1], self.neighbors.shape[1]).sum(axis=1)
                variances[rows, c] += (by_channel**2).sum(axis=1)
        return np.sqrt(variances)

    def merged(self, other: LagRegression) -> LagRegression:
        """Coefficients averaged over two tables by their rows; the regressors and the curve are those of the first."""
        share = other.num_rows / (self.num_rows + other.num_rows)
        same = (self.neighbors == other.neighbors).all(axis=1)
        mixed = self.coefficients.copy()
        mixed[:, same] += share * (other.coefficients - self.coefficients)[:, same]
        noise = self.noise + share * (other.noise - self.noise)
        return LagRegression(self.neighbors, mixed, noise, self.num_rows + other.num_rows, self.curve)


class _Way(NamedTuple):
    """How to regress a channel."""

    steps: bool  # whether the ridge is on steps, and shrinks to a straight line; else on values, and shrinks to zero
    ridge: float
    freedom: float  # degrees of freedom, with caution


class _Ridge(NamedTuple):
    """A ridge regression in coordinates of its own."""

    size: np.ndarray  # deviations of the steps, (p,); empty where the coordinates are the columns
    toward: np.ndarray  # the columns' coefficients that it shrinks to, (p,)
    gram: np.ndarray  # of the coordinates, (p, p)
    along: np.ndarray  # sums of the coordinates times what `toward` leaves of the target, (p,)


class _Sums(NamedTuple):
    """Sums over rows of all that a regression needs: p columns, and a target."""

    gram: np.ndarray  # columns times columns, (p, p)
    along: np.ndarray  # columns times target, (p,)
    square: float  # target times target
    mean: np.ndarray  # of the columns, (p,)
    count: int  # of rows

    @classmethod
    def of(cls, columns: np.ndarray, target: np.ndarray) -> _Sums:
        return cls(columns.T @ columns, columns.T @ target, float(target @ target), columns.mean(axis=0), len(target))

    def best_way(self) -> _Way:
        """The way of the smallest error by generalized cross-validation."""
        best, least = _Way(False, _RIDGES[-1], 0.0), np.inf
        for steps in (False, True):
            ridge = self._ridge(steps)
            squares, vectors = np.linalg.eigh(ridge.gram)
            squares, along = np.maximum(squares, 0.0), vectors.T @ ridge.along
            shares = 1 / (squares + _RIDGES[:, None])  # (ridges, p)
            freedom = _CAUTION * shares @ squares
            left = self.left(ridge.toward) + shares**2 @ (squares * along**2) - 2 * shares @ along**2
            errors = np.where(freedom < _MOST_FREEDOM * self.count, self.expected(left, freedom), np.inf)
            i = int(np.argmin(errors))
            if errors[i] < least:
                best, least = _Way(steps, float(_RIDGES[i]), float(freedom[i])), errors[i]
        return best

    def coefficients(self, way: _Way) -> np.ndarray:
        """Of the columns, (p,)."""
        ridge = self._ridge(way.steps)
        found = np.linalg.solve(ridge.gram + way.ridge * np.eye(len(ridge.gram)), ridge.along)
        return ridge.toward + _by_channel(_OWN, _OTHER, found / ridge.size) if way.steps else found

    def left(self, coefficients: np.ndarray) -> float:
        """The sum of squares that coefficients leave."""
        return float(self.square - 2 * coefficients @ self.along + coefficients @ self.gram @ coefficients)

    def expected(self, left: np.ndarray | float, freedom: np.ndarray | float) -> np.ndarray:
        """The mean square error of rows that were not learned from, where `left` is the sum of those that were."""
        return np.maximum(left, 1e-9 * self.square) * self.count / np.maximum(self.count - freedom, 1.0) ** 2

    def _ridge(self, steps: bool) -> _Ridge:
        p = len(self.gram)
        if not steps:
            return _Ridge(np.zeros(0), np.zeros(p), self.gram, self.along)
        in_steps = lambda sums: _by_channel(_OWN.T, _OTHER.T, sums)
        gram, mean, toward = in_steps(in_steps(self.gram).T), in_steps(self.mean), np.zeros(p)
        variances = gram.diagonal() / self.count - mean**2
        size = np.where(variances > 1e-14, np.sqrt(np.maximum(variances, 1e-14)), np.inf)
        toward[[(_REACH - 1) * p // _LAGS, (_REACH + 1) * p // _LAGS]] = 0.5
        return _Ridge(size, toward, gram / size / size[:, None], in_steps(self.along - self.gram @ toward) / size)


def _by_channel(own: np.ndarray, other: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values (p, ...), by lag and then by channel, times a matrix in lags: another one for the channel itself, which is first."""
    blocks = values.reshape(_LAGS, len(values) // _LAGS, -1)
    moved = np.tensordot(other, blocks, 1)
    moved[:, 0] = own @ blocks[:, 0]
    return moved.reshape(values.shape)


# The value and the steps of a channel from its values; of the channel with the hole, the line over it, and one step for two.
_OTHER = np.c_[np.eye(_LAGS)[_REACH], np.diff(np.eye(_LAGS))]
_OWN = np.c_[(np.eye(_LAGS)[_REACH - 1] + np.eye(_LAGS)[_REACH + 1]) / 2, np.diff(np.eye(_LAGS))]
_OWN[:, _REACH] += _OWN[:, _REACH + 1]
_OWN[:, _REACH + 1] = 0.0


def _around(steps: np.ndarray) -> np.ndarray:
    """Rows within the reach of every row, (n, lags); beyond a segment's end, its last row."""
    around = np.arange(len(steps))[:, None] + np.arange(-_REACH, _REACH + 1)
    for rows in _segments(steps):
        around[rows] = np.clip(around[rows], rows.start, rows.stop - 1)
    return around


def _columns(filled: np.ndarray, around: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
    columns = filled[around[:, :, None], neighbors]  # (rows, lags, c)
    columns[:, _REACH, 0] = 0.0
    return columns.reshape(len(around), around.shape[1] * len(neighbors))


def _predicted(
    filled: np.ndarray,
    missing: np.ndarray,
    around: np.ndarray,
    neighbors: np.ndarray,
    coefficients: np.ndarray,
    curve: Curve | None = None,
) -> np.ndarray:
    """The table with its holes as predicted from the rows around them."""
    after = filled.copy()
    for c, found in enumerate(coefficients):
        for rows in _parts(missing[:, c]):
            columns = _columns(filled, around[rows], neighbors[c])
            after[rows, c] = predicted = columns @ found
            if curve is not None:
                after[rows, c] += curve.of(c, columns, predicted)
    return after


def _parts(missing: np.ndarray) -> list[np.ndarray]:
    """The rows of holes, as many at a time as memory should hold."""
    rows = np.flatnonzero(missing)
    return np.array_split(rows, 1 + len(rows) // _MOST_ROWS)
