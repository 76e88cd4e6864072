"""Well-spread points of the unit cube: the one place where sampling is decided.

- one coordinate: an even grid, (i + δ)/n, whose offset δ depends on the seed;
- two coordinates of a closed surface: the Fibonacci lattice ((i + δ)/n, frac(i φ + δ'));
- otherwise scrambled Sobol points, and random ones beyond thirteen coordinates.

Coordinates that have ends can be *warped*: s → sin²(πs/2), the arcsine density of Chebyshev points.

Sobol points are our own, because importing scipy.stats takes a second. Direction numbers: S. Joe and F. Y. Kuo, "Constructing
Sobol sequences with better two-dimensional projections", SIAM J. Sci. Comput. 30 (2008). Scrambling: a random lower
triangular matrix over GF(2) and a digital shift (Matoušek, 1998).
"""

from collections.abc import Sequence

import numpy as np

from flm.wording import InputError

_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def unit_points(n: int, ends: Sequence[bool], *, seed: int, warp: bool) -> np.ndarray:
    """The first `n` points of the sequence for `len(ends)` coordinates, (n, d), strictly inside the cube.

    `ends` says whether each coordinate has ends (an interval) or closes on itself (an angle); with `warp`, those with ends get
    denser towards them. Different seeds give different points; the same seed gives the same points.
    """
    dimension, index = len(ends), np.arange(n)
    if dimension == 0:
        return np.zeros((n, 0))
    if dimension == 1:
        unit = ((index + _offset(seed)) / max(n, 1))[:, None]
    elif dimension == 2 and not any(ends):
        unit = np.stack([(index + _offset(seed)) / max(n, 1), (index * _GOLDEN + _offset(seed + 1)) % 1.0], axis=1)
    elif dimension <= MAX_DIMENSION:
        unit = sobol(n, dimension, seed=seed)
    else:  # a few points to try functions on; no fit uses points of so many coordinates
        unit = np.random.default_rng(seed).uniform(0.0, 1.0, (n, dimension))
    if warp and any(ends):
        columns = np.flatnonzero(ends)
        unit[:, columns] = np.sin(0.5 * np.pi * unit[:, columns]) ** 2
    return unit


def _offset(seed: int) -> float:
    """An offset in [0.05, 0.95], 0.5 for seed 0; multiples of the golden ratio keep nearby seeds apart."""
    return 0.05 + 0.9 * ((0.5 + (seed % 2**32) * _GOLDEN) % 1.0)


def split(n: int, weights: Sequence[float]) -> list[int]:
    """`n` points shared in proportion to `weights`, to within one, at least one each when n allows."""
    least = 1 if n >= len(weights) else 0
    shares = np.cumsum([0.0, *weights]) / np.sum(weights)
    ends = np.round((n - least * len(weights)) * shares).astype(int)
    return (least + np.diff(ends)).tolist()


BITS = 30

# For coordinates 2, 3, …: the primitive polynomial's inner coefficients as a number, then its initial m_1 … m_s.
_POLYNOMIALS = (
    (0, (1,)),
    (1, (1, 3)),
    (1, (1, 3, 1)),
    (2, (1, 1, 1)),
    (1, (1, 1, 3, 3)),
    (4, (1, 3, 5, 13)),
    (2, (1, 1, 5, 5, 17)),
    (4, (1, 1, 5, 5, 5)),
    (7, (1, 1, 7, 11, 19)),
    (11, (1, 1, 5, 1, 1)),
    (13, (1, 1, 1, 3, 11)),
    (14, (1, 3, 5, 5, 31)),
)
MAX_DIMENSION = len(_POLYNOMIALS) + 1


def sobol(n: int, dimension: int, *, seed: int | None) -> np.ndarray:
    """The first `n` points (at most 2^30) of a Sobol sequence, (n, dimension), strictly inside the unit cube.

    `seed` is for the scrambling: digits times a random lower triangular matrix, and a shift; None does not scramble.
    """
    if not 1 <= dimension <= MAX_DIMENSION:
        raise InputError(f"`dimension` must be between 1 and {MAX_DIMENSION}; got {dimension}.")
    directions = np.array([_directions(j) for j in range(dimension)], np.int64)  # (d, BITS)
    digits, index = np.zeros((n, dimension), np.int64), np.arange(n, dtype=np.int64)
    if seed is not None:
        rng = np.random.default_rng(seed)
        places = BITS - 1 - np.arange(BITS)  # digit 0 is the most significant
        lower = np.tril(rng.integers(0, 2, (dimension, BITS, BITS)), -1) + np.eye(BITS, dtype=np.int64)
        mixed = np.einsum("dij,dkj->dki", lower, (directions[:, :, None] >> places) & 1) & 1
        directions = (mixed << places).sum(axis=2)
        digits += rng.integers(0, 2**BITS, dimension)
    gray = index ^ (index >> 1)
    for bit in range(max(1, int(n).bit_length())):
        digits ^= ((gray >> bit) & 1)[:, None] * directions[:, bit]
    return (digits + 0.5) / 2.0**BITS


def _directions(coordinate: int) -> list[int]:
    """v_1 … v_30 of one coordinate as integers below 2^30: v_k = m_k 2^(30 − k)."""
    if coordinate == 0:
        return [1 << (BITS - 1 - k) for k in range(BITS)]
    inner, start = _POLYNOMIALS[coordinate - 1]
    s, v = len(start), [m << (BITS - 1 - k) for k, m in enumerate(start)]
    for k in range(s, BITS):
        # m_k = 2 a_1 m_{k−1} ⊕ … ⊕ 2^s m_{k−s} ⊕ m_{k−s}
        new = v[k - s] ^ (v[k - s] >> s)
        for j in range(1, s):
            if (inner >> (s - 1 - j)) & 1:
                new ^= v[k - j]
        v.append(new)
    return v
