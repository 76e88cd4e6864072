"""Well-spread points of the unit cube: the one place where sampling is decided.

- one coordinate: an even grid, (i + δ)/n, whose offset δ depends on the seed;
- two coordinates of a closed surface: the Fibonacci lattice ((i + δ)/n, frac(i φ + δ'));
- otherwise scrambled Halton points.

Coordinates that have ends can be *warped*: s → sin²(πs/2), the arcsine density of Chebyshev points.
"""

from collections.abc import Sequence

import numpy as np

from flm.wording import InputError

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)  # bases, one for each coordinate
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def unit_points(n: int, ends: Sequence[bool], *, seed: int, warp: bool) -> np.ndarray:
    """The first `n` points of the sequence for `len(ends)` coordinates, (n, d), strictly inside the cube.

    `ends` says whether each coordinate has ends (an interval) or closes on itself (an angle); with `warp`, those with ends get
    denser towards them. Different seeds give different points; the same seed gives the same points.
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
        unit = halton(n, dimension, seed=seed)
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


def halton(n: int, dimension: int, *, seed: int | None) -> np.ndarray:
    """The first `n` points of a Halton sequence, (n, dimension): coordinate j of point i is i's digits to base p_j, mirrored.

    `seed` permutes the digits at random, one permutation for each base and place (A. B. Owen, "A randomized Halton algorithm
    in R", arXiv:1706.02808), and shifts the points by less than a last digit; None leaves the sequence as it is. It is our
    own because importing scipy.stats takes a second.
    """
    if not 1 <= dimension <= len(PRIMES):
        raise InputError(f"`dimension` must be between 1 and {len(PRIMES)}; got {dimension}.")
    rng = np.random.default_rng(seed)
    unit = np.zeros((n, dimension))
    for column, prime in enumerate(PRIMES[:dimension]):
        index, place = np.arange(n), 1.0
        while index.any():
            index, digits = np.divmod(index, prime)
            place /= prime
            unit[:, column] += place * (digits if seed is None else rng.permutation(prime)[digits])
        unit[:, column] += 0.0 if seed is None else place * rng.uniform(0.0, 1.0 - 1e-9)
    return unit
