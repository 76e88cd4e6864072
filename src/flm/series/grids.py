"""A series on a grid: sines and cosines along each of its lines, which are far fewer than at each of its points."""

from collections.abc import Sequence

import numpy as np

from flm.series.forms import SeparableSeries
from flm.series.tables import WaveTable


def on_lines(waves: SeparableSeries, lines: Sequence[np.ndarray]) -> np.ndarray:
    """Values on the grid of some lines, (n_1, ..., n_m, K): a sum of products of tables, one for each line."""
    frequencies, m = np.asarray(waves.frequencies), len(lines)
    summed = np.asarray(waves.coefficients).reshape(1, len(frequencies), *(2,) * m, -1)  # (points, N, 2, ..., 2, K)
    for j, line in enumerate(lines):
        pairs = WaveTable.at(line, frequencies[:, j]).pairs()  # (n, N, 2)
        if j < m - 1:
            summed = np.einsum("xnc,pnc...->pxn...", pairs, summed)
            summed = summed.reshape(-1, *summed.shape[2:])
        else:
            summed = np.tensordot(summed, pairs, ((1, 2), (1, 2)))  # (points, K, n)
    return np.moveaxis(summed, 1, -1).reshape(*map(len, lines), -1)
