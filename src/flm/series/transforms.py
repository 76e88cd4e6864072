"""The exact map between the linear and the separable coefficients of a sub-network: a signed Walsh-Hadamard transform.

Expanding exp(i theta_i) = prod_j (cos n_j x_j + i e_ij sin n_j x_j) gives the paper's relation
a_k = Re[i^|I_k| sum_i s_ik (C_i - i S_i)], s_ik = prod_{j in I_k} e_ij: a Walsh-Hadamard transform over i, O(m 2^m).
"""

import numpy as np
from jaxtyping import Float

from flm.series.arrays import Numbers, host


def _hadamard(values: Float[Numbers, "N l *K"]) -> Float[Numbers, "N l *K"]:
    """Sum_i s_ib values_i for every subset b of inputs 2..m (bit 1 = in the subset): its own inverse times l."""
    xp, (values,) = host(values)
    shape = values.shape
    depth = shape[1].bit_length() - 1
    values = values.reshape(shape[0], *(2,) * depth, *shape[2:])
    for axis in range(1, depth + 1):
        plus, minus = xp.split(values, 2, axis=axis)
        values = xp.concatenate([plus + minus, plus - minus], axis=axis)
    return values.reshape(shape)


def _signs(m: int, like: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """|I_k| of every k, and the sign of a_k by |I_k| mod 4 (+, +, -, -), shaped to multiply arrays (N, 2^m, ...)."""
    counts = np.array([k.bit_count() for k in range(2**m)])
    sign = np.where(counts % 4 < 2, 1, -1).astype(like.dtype)
    return counts, sign.reshape(-1, *(1,) * (like.ndim - 2))


def separable_from_linear(C: Float[Numbers, "N l *K"], S: Float[Numbers, "N l *K"]) -> Float[Numbers, "N 2l *K"]:
    """Coefficients a_k of products of sines and cosines from those of cos theta_i and sin theta_i."""
    xp, (C, S) = host(C, S)
    counts, sign = _signs(C.shape[1].bit_length(), C)
    hat = xp.stack([_hadamard(C), _hadamard(S)])  # (2, N, l, ...)
    subset = np.arange(len(counts)) % C.shape[1]  # the bits of inputs 2..m
    return xp.moveaxis(hat[counts % 2, :, subset], 0, 1) * sign


def linear_from_separable(a: Float[Numbers, "N 2l *K"]) -> tuple[Float[Numbers, "N l *K"], Float[Numbers, "N l *K"]]:
    """The inverse of `separable_from_linear`: (C, S)."""
    xp, (a,) = host(a)
    l = a.shape[1] // 2
    counts, sign = _signs(l.bit_length(), a)
    signed = (sign * a).reshape(a.shape[0], 2, l, *a.shape[2:])  # (N, bit of input 1, subset, ...)
    even = (counts[:l] % 2 == 0).reshape(-1, *(1,) * (a.ndim - 2))
    C = xp.where(even, signed[:, 0], signed[:, 1])
    S = xp.where(even, signed[:, 1], signed[:, 0])
    return _hadamard(C) / l, _hadamard(S) / l
