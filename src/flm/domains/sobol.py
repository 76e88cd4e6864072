"""Scrambled Sobol points, without the second that importing scipy.stats takes.

Direction numbers: S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections", SIAM J. Sci.
Comput. 30 (2008). Scrambling: a random lower triangular matrix over GF(2) and a digital shift (Matoušek, 1998).
"""

import numpy as np

from flm.wording import InputError

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
    """The first `n` points of a Sobol sequence, (n, dimension), strictly inside the unit cube.

    Args:
        n: How many points, at most 2^30.
        dimension: Coordinates, at most 13.
        seed: Of the scrambling; None leaves the sequence as it is.
    """
    if not 1 <= dimension <= MAX_DIMENSION:
        raise InputError(f"`dimension` must be between 1 and {MAX_DIMENSION}; got {dimension}.")
    directions = np.array([_directions(j) for j in range(dimension)], np.int64)  # (d, BITS)
    shift = np.zeros(dimension, np.int64)
    if seed is not None:
        rng = np.random.default_rng(seed)
        directions = _scramble(directions, rng)
        shift = rng.integers(0, 2**BITS, dimension)
    index = np.arange(n, dtype=np.int64)
    gray = index ^ (index >> 1)
    digits = np.tile(shift, (n, 1))
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


def _scramble(directions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each coordinate's digits multiplied by a random lower triangular matrix with ones on the diagonal."""
    places = BITS - 1 - np.arange(BITS)  # digit 0 is the most significant
    digits = (directions[:, :, None] >> places) & 1  # (d, BITS, digit)
    lower = np.tril(rng.integers(0, 2, (len(directions), BITS, BITS)), -1) + np.eye(BITS, dtype=np.int64)
    mixed = np.einsum("dij,dkj->dki", lower, digits) & 1
    return (mixed << places).sum(axis=2)
