"""Models without a spectrum: straight lines between observed values, and a regression on the rows around a hole.

Lag regression: every channel by ridge regression on all channels within six rows, without itself at lag zero. Holes in the
regressors are straight lines at first, then as the round before filled them; each round has its own coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_REACH, _ROUNDS = 6, 5
_RIDGE = 1.0  # on the coefficients; values have unit variance
_MOST_CHANNELS = 12  # among the regressors: the most correlated ones
_MOST_ROWS = 20_000  # to learn a channel from, and to fill at a time


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


def _segments(steps: np.ndarray) -> list[slice]:
    """Stretches of rows without a break longer than the reach."""
    ends = np.flatnonzero(np.diff(steps) > _REACH + 0.5) + 1
    return [slice(a, b) for a, b in zip([0, *ends], [*ends, len(steps)], strict=True)]


@dataclass(frozen=True, eq=False)
class LagRegression:
    """Coefficients of every round and channel."""

    neighbors: np.ndarray  # the channels that each channel is explained by, itself first, (C, c)
    coefficients: np.ndarray  # (rounds, C, (2 * reach + 1) c); zero for the channel itself at lag zero
    noise: np.ndarray  # variance of what the last round does not explain, (C,)
    num_rows: int  # how many rows it was learned from

    @classmethod
    def learn(
        cls, steps: np.ndarray, values: np.ndarray, rng: np.random.Generator, start: np.ndarray | None = None
    ) -> LagRegression:
        """Ridge regression in five rounds, each on the table as the one before filled it; one round from a given start."""
        missing, C = np.isnan(values), values.shape[1]
        filled = straight(steps, values) if start is None else np.where(missing, start, values)
        size = np.maximum(np.linalg.norm(filled, axis=0), 1e-300)
        likeness = np.abs(filled.T @ filled) / size / size[:, None] + np.eye(C)
        neighbors = np.argsort(-likeness, axis=1, kind="stable")[:, :_MOST_CHANNELS]
        around, rounds, noise = _around(steps), [], np.ones(C)
        for _ in range(_ROUNDS if start is None else 1):
            found, noise = [], np.zeros(C)
            for c in range(C):
                rows = np.flatnonzero(~missing[:, c])
                if len(rows) > _MOST_ROWS:
                    rows = np.sort(rng.choice(rows, _MOST_ROWS, replace=False))
                columns = _columns(filled, around[rows], neighbors[c])
                gram = columns.T @ columns + _RIDGE * np.eye(columns.shape[1])
                found.append(np.linalg.solve(gram, columns.T @ values[rows, c]))
                noise[c] = np.mean((columns @ found[-1] - values[rows, c]) ** 2) if len(rows) else 1.0
            rounds.append(np.array(found))
            filled = _predicted(filled, missing, around, neighbors, rounds[-1])
        return cls(neighbors, np.array(rounds), noise, len(values))

    def fill(self, steps: np.ndarray, values: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
        """The table filled, (n, C), from straight lines or from the start that the regression was learned with."""
        missing, around = np.isnan(values), _around(steps)
        filled = straight(steps, values) if start is None else np.where(missing, start, values)
        for coefficients in self.coefficients:
            filled = _predicted(filled, missing, around, self.neighbors, coefficients)
        return filled

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
        """Coefficients averaged over two tables by their rows; the regressors are those of the first."""
        share = other.num_rows / (self.num_rows + other.num_rows)
        same = (self.neighbors == other.neighbors).all(axis=1)
        mixed = self.coefficients.copy()
        mixed[:, same] += share * (other.coefficients - self.coefficients)[:, same]
        noise = self.noise + share * (other.noise - self.noise)
        return LagRegression(self.neighbors, mixed, noise, self.num_rows + other.num_rows)


def _around(steps: np.ndarray) -> np.ndarray:
    """Rows within the reach of every row, (n, 2 reach + 1); beyond a segment's end, its last row."""
    around = np.arange(len(steps))[:, None] + np.arange(-_REACH, _REACH + 1)
    for rows in _segments(steps):
        around[rows] = np.clip(around[rows], rows.start, rows.stop - 1)
    return around


def _columns(filled: np.ndarray, around: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
    columns = filled[around[:, :, None], neighbors]  # (rows, lags, c)
    columns[:, _REACH, 0] = 0.0
    return columns.reshape(len(around), around.shape[1] * len(neighbors))


def _predicted(
    filled: np.ndarray, missing: np.ndarray, around: np.ndarray, neighbors: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    """The table with its holes as predicted from the rows around them."""
    after = filled.copy()
    for c, found in enumerate(coefficients):
        for rows in _parts(missing[:, c]):
            after[rows, c] = _columns(filled, around[rows], neighbors[c]) @ found
    return after


def _parts(missing: np.ndarray) -> list[np.ndarray]:
    """The rows of holes, as many at a time as memory should hold."""
    rows = np.flatnonzero(missing)
    return np.array_split(rows, 1 + len(rows) // _MOST_ROWS)
