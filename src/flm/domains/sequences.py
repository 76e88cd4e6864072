"""Well-spread points of the unit cube: the one place where sampling is decided.

- one coordinate: an even grid, (i + δ)/n, whose offset δ depends on the seed;
- two coordinates of a closed surface: the Fibonacci lattice ((i + δ)/n, frac(i φ + δ'));
- otherwise scrambled Sobol points.

Coordinates that have ends can be *warped*: s → sin²(πs/2), the arcsine density of Chebyshev points.
"""

from collections.abc import Sequence

import numpy as np

from flm.domains.sobol import sobol

_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def unit_points(n: int, ends: Sequence[bool], *, seed: int, warp: bool) -> np.ndarray:
    """The first `n` points of the sequence for `len(ends)` coordinates, (n, d), strictly inside the cube.

    Args:
        n: How many points.
        ends: Per coordinate, whether it has ends (an interval) or closes on itself (an angle).
        seed: Different seeds give different points; the same seed gives the same points.
        warp: Whether coordinates with ends get denser towards them.
    """
    dimension = len(ends)
    if dimension == 0:
        return np.zeros((n, 0))
    if dimension == 1:
        unit = ((np.arange(n) + _offset(seed)) / max(n, 1))[:, None]
    elif dimension == 2 and not any(ends):
        index = np.arange(n)
        unit = np.stack([(index + _offset(seed)) / max(n, 1), (index * _GOLDEN + _offset(seed + 1)) % 1.0], axis=1)
    else:
        unit = sobol(n, dimension, seed=seed)
    if warp and any(ends):
        columns = np.flatnonzero(ends)
        unit[:, columns] = np.sin(0.5 * np.pi * unit[:, columns]) ** 2
    return unit


def _offset(seed: int) -> float:
    """An offset in [0.05, 0.95], 0.5 for seed 0; multiples of the golden ratio keep nearby seeds apart."""
    return 0.05 + 0.9 * ((0.5 + (seed % 2**32) * _GOLDEN) % 1.0)


def split(n: int, weights: Sequence[float]) -> list[int]:
    """`n` points shared in proportion to `weights`: largest remainders, at least one each when n allows."""
    weight = np.asarray(weights, float)
    least = 1 if n >= len(weight) else 0
    ideal = least + (n - least * len(weight)) * weight / weight.sum()
    counts = np.floor(ideal).astype(int)
    for index in np.argsort(counts - ideal, kind="stable")[: n - counts.sum()]:
        counts[index] += 1
    return counts.tolist()
