"""What a regression on the rows around a hole cannot say as a sum: a small Fourier series of its regressors.

For every channel, waves of one to three of the regressors that count most and of the regression's own prediction, with random
frequencies, explain what the regression leaves. The amplitudes are chosen by ridge regression and generalized cross-validation:
where waves explain nothing, they are zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_MOST_REGRESSORS = 12  # of a channel, those that its prediction changes most with
_NUM_WAVES = 150
_MOST_TOGETHER = 3  # regressors in a wave
_TAILS = 3.0  # degrees of freedom of the frequencies, which are in radians per standard deviation
_FEWEST_ROWS = 200
_RIDGES = 10.0 ** np.arange(-1, 5, 0.5)
_CAUTION, _WORTH = 1.3, 0.99  # degrees of freedom count so much more; errors expected must be smaller by such a factor


@dataclass(frozen=True, eq=False)
class Curve:
    """Waves of the regressors of every channel: cos and sin of ((regressors, prediction) - centers) / scales times frequencies."""

    regressors: np.ndarray  # which of the columns count, most important first, (C, k)
    centers: np.ndarray  # of these and of the prediction, (C, k + 1)
    scales: np.ndarray  # (C, k + 1)
    frequencies: np.ndarray  # of all channels, (k + 1, waves)
    amplitudes: np.ndarray  # of cosines and sines, (C, 2 waves)
    levels: np.ndarray  # what is added to the waves, (C,)

    @classmethod
    def empty(cls, num_channels: int, num_columns: int) -> Curve:
        """Waves without amplitudes, with random frequencies."""
        k, rng = min(_MOST_REGRESSORS, num_columns), np.random.default_rng(0)
        together = rng.integers(1, _MOST_TOGETHER + 1, _NUM_WAVES)
        inside = np.argsort(rng.random((k + 1, _NUM_WAVES)), axis=0) < together
        frequencies = np.where(inside, rng.standard_t(_TAILS, (k + 1, _NUM_WAVES)), 0.0) / np.sqrt(together)
        shape = (num_channels, k + 1)
        nothing = np.zeros((num_channels, 2 * _NUM_WAVES))
        regressors = np.tile(np.arange(k), (num_channels, 1))
        return cls(regressors, np.zeros(shape), np.ones(shape), frequencies, nothing, np.zeros(num_channels))

    def learn(self, c: int, columns: np.ndarray, coefficients: np.ndarray, left: np.ndarray) -> float:
        """Choose the waves of channel c, in place, from what the regression leaves of its rows; the share that remains of it."""
        if len(left) < _FEWEST_ROWS:
            return 1.0
        deviations = columns.std(axis=0)
        self.regressors[c] = np.argsort(-np.abs(coefficients) * deviations, kind="stable")[: self.regressors.shape[1]]
        inputs = self._inputs(c, columns, columns @ coefficients)
        self.centers[c], self.scales[c] = inputs.mean(axis=0), np.maximum(inputs.std(axis=0), 1e-9)
        waves = self._waves(c, inputs)
        center, level = waves.mean(axis=0), left.mean()
        waves, target = waves - center, left - level
        squares, vectors = np.linalg.eigh(waves.T @ waves)
        squares, along = np.maximum(squares, 0.0), vectors.T @ (waves.T @ target)
        shares = 1 / (squares + _RIDGES[:, None])
        freedom = np.minimum(_CAUTION * shares @ squares, 0.9 * len(left))
        total = max(float(target @ target), 1e-300)
        remains = (total + shares**2 @ (squares * along**2) - 2 * shares @ along**2) / total
        expected = remains / (1 - freedom / len(left)) ** 2
        i = int(np.argmin(expected))
        if expected[i] > _WORTH:
            return 1.0
        self.amplitudes[c] = vectors @ (shares[i] * along)
        self.levels[c] = level - center @ self.amplitudes[c]
        return float(expected[i])

    def of(self, c: int, columns: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """What the waves of channel c add to what is predicted from the columns (n, p), (n,)."""
        if not self.amplitudes[c].any():
            return np.zeros(len(columns))
        return self.levels[c] + self._waves(c, self._inputs(c, columns, predicted)) @ self.amplitudes[c]

    def _inputs(self, c: int, columns: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return np.column_stack([columns[:, self.regressors[c]], predicted])

    def _waves(self, c: int, inputs: np.ndarray) -> np.ndarray:
        angles = (inputs - self.centers[c]) / self.scales[c] @ self.frequencies
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
