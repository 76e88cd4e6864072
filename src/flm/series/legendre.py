"""Legendre functions of one variable, orthonormal on [-1, 1].

Conventions: z in [-1, 1], q_k(z) = sqrt(2k + 1) P_k(z), k = 0, 1, ..., n - 1, with the mean ½∫ q_j q_k dz = δ_jk. A function
is its n coefficients; the mean of its square is the sum of their squares. A table is (points, n).
"""

from functools import lru_cache

import numpy as np
from scipy.special import roots_jacobi

from flm.series.tables import WaveTable


@lru_cache(maxsize=256)
def gauss(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The n Gauss nodes on [-1, 1] and their weights, which sum to 1, so that they give a mean and not an integral."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return nodes, weights / 2


@lru_cache(maxsize=32)
def radau(n: int) -> np.ndarray:
    """The n Radau nodes on [-1, 1], of which 1 is one: the zeros of P_n - P_(n-1)."""
    return np.append(roots_jacobi(n - 1, 1, 0)[0] if n > 1 else [], 1.0)


def values(z: np.ndarray, n: int) -> np.ndarray:
    """q_0 ... q_(n-1) at points z, (P, n), by the three-term recurrence."""
    z = np.asarray(z, float)
    table = np.empty((len(z), max(n, 2)))
    table[:, 0], table[:, 1] = 1.0, z
    for k in range(1, n - 1):
        # (k + 1) P_(k+1) = (2k + 1) z P_k - k P_(k-1)
        table[:, k + 1] = ((2 * k + 1) * z * table[:, k] - k * table[:, k - 1]) / (k + 1)
    return table[:, :n] * np.sqrt(2 * np.arange(n) + 1)


@lru_cache(maxsize=256)
def differentiation(n: int, order: int = 1) -> np.ndarray:
    """The matrix (n, n) that turns coefficients into those of the derivative of the given order in z."""
    if order == 0:
        return np.eye(n)
    k = np.arange(n)
    odd = (k[None, :] > k[:, None]) & ((k[None, :] - k[:, None]) % 2 == 1)
    size = np.sqrt(2 * k + 1)
    first = np.where(odd, size[:, None] * size[None, :], 0.0)  # P_k' = sum of (2j + 1) P_j over j = k-1, k-3, ...
    return first @ differentiation(n, order - 1)


def table(z: np.ndarray, n: int, order: int) -> np.ndarray:
    """The derivative of the given order of q_0 ... q_(n-1) at points z, (P, n)."""
    return values(z, n) @ differentiation(n, order)


def box_table(
    points: np.ndarray, lower: np.ndarray, width: np.ndarray, shape: tuple[int, ...], alpha: tuple[int, ...]
) -> np.ndarray:
    """D^alpha of the products of functions along each axis, orthonormal on a box, at points (P, m), (P, n_1 ... n_m).

    The box, its lower corner and width, is one for all points, (m,), or one for each, (P, m).
    """
    z = 2 * (points - lower) / width - 1
    found = np.ones((len(points), 1))
    for j, (n, order) in enumerate(zip(shape, alpha, strict=True)):
        found = (found[:, :, None] * table(z[:, j], n, order)[:, None, :]).reshape(len(points), found.shape[1] * n)
    return found * np.prod((2 / width) ** np.array(alpha), axis=-1, keepdims=True)


@lru_cache(maxsize=4096)
def node_table(nodes: int | float, n: int, order: int) -> np.ndarray:
    """`table` at `nodes` Gauss nodes, or at one point if `nodes` is a float."""
    return table(node_points(nodes), n, order)


def node_points(nodes: int | float) -> np.ndarray:
    """`nodes` Gauss nodes, or one point if `nodes` is a float."""
    return np.array([nodes]) if isinstance(nodes, float) else gauss(nodes)[0]


@lru_cache(maxsize=256)
def restriction(n: int, low: float, high: float) -> np.ndarray:
    """The matrix that turns coefficients on [-1, 1] into those of the same function on [low, high], stretched to [-1, 1]."""
    nodes, weights = gauss(n)
    there = low + (high - low) * (nodes + 1) / 2
    return (values(nodes, n) * weights[:, None]).T @ values(there, n)


def wave_table(z: np.ndarray, count: int, period: float) -> np.ndarray:
    """1, cos wz, sin wz, cos 2wz, ... at points z, (P, count), w = pi / period."""
    waves = WaveTable.at(z, np.arange(1, (count + 1) // 2) * np.pi / period).pairs()
    return np.column_stack([np.ones_like(z), waves.reshape(len(z), -1)])


@lru_cache(maxsize=64)
def to_waves(n: int, count: int, period: float) -> np.ndarray:
    """The matrix (count, n) that writes n Legendre functions in the waves of `wave_table`, by least squares at Gauss nodes.

    A period of twice the width of the piece, or a little more, keeps the amplitudes about as large as the function.
    """
    nodes, weights = gauss(2 * max(count, n))
    root = np.sqrt(weights)[:, None]
    return np.linalg.lstsq(root * wave_table(nodes, count, period), root * values(nodes, n), rcond=1e-13)[0]
