"""Partial derivatives of plane waves from one sine-cosine table.

A derivative is a quarter-turn per order times a product of frequency components:
D^alpha [C cos theta + S sin theta] = k^alpha [C cos(theta + |alpha| pi/2) + S sin(theta + |alpha| pi/2)], theta = k.x,
so a whole jet is the table (cos theta, sin theta) times one small matrix of turned coefficients. Networks map their inputs
first, z = scale * (x - center): angles are k . z, and derivatives by x bring the factors k * scale.
"""

from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flm.series.sine_cosine import sincos

Orders = tuple[tuple[int, ...], ...]  # multi-indices: how often each input is differentiated
Coefficient = TypeVar("Coefficient", float, np.ndarray, Array)


def monomial(k: Float[Array, "M m"], alpha: tuple[int, ...]) -> Float[Array, "M"]:
    """k^alpha = prod_j k_j^alpha_j, one per wave."""
    value = jnp.ones_like(k[:, 0])
    for j, order in enumerate(alpha):
        for _ in range(order):
            value = value * k[:, j]
    return value


def quarter_turn(C: Coefficient, S: Coefficient, order: int) -> tuple[Coefficient, Coefficient]:
    """Coefficients of (cos theta, sin theta) in C cos(theta + order pi/2) + S sin(theta + order pi/2)."""
    return ((C, S), (S, -C), (-C, -S), (-S, C))[order % 4]


def wave_jets(
    k: Float[Array, "M m"],
    z: Float[Array, "P m"],
    scale: Float[np.ndarray, "m"],
    C: Float[Array, "M *K"],
    S: Float[Array, "M *K"],
    orders: Orders,
) -> Float[Array, "A P *K"]:
    """D^alpha of sum_i C_i cos(k_i . z) + S_i sin(k_i . z) by x, for z = scale * (x - center), one order after another."""
    pairs = []
    for alpha in orders:
        factor = monomial(k * scale, alpha).reshape(-1, *(1,) * (C.ndim - 1))
        pairs.append([part * factor for part in quarter_turn(C, S, sum(alpha))])
    sine, cosine = sincos(k @ z.T)  # neuron-major: XLA's fastest layout
    of_cosine, of_sine = (jnp.stack(part) for part in zip(*pairs, strict=True))
    return jnp.einsum("am...,mp->ap...", of_cosine, cosine) + jnp.einsum("am...,mp->ap...", of_sine, sine)


def wave_columns(
    k: Float[Array, "M m"], z: Float[Array, "P m"], scale: Float[np.ndarray, "m"], orders: Orders
) -> Float[Array, "A P 2M"]:
    """D^alpha of all cos(k_i . z), then of all sin(k_i . z), by x, for z = scale * (x - center)."""
    sine, cosine = sincos(k @ z.T)
    blocks = []
    for alpha in orders:
        factor = monomial(k * scale, alpha)[:, None]
        # of C cos + S sin, the column of C is its derivative at C = 1, S = 0, and likewise for S
        (cc, cs), (sc, ss) = quarter_turn(1.0, 0.0, sum(alpha)), quarter_turn(0.0, 1.0, sum(alpha))
        blocks.append(jnp.concatenate([factor * (cc * cosine + cs * sine), factor * (sc * cosine + ss * sine)]))
    return jnp.swapaxes(jnp.stack(blocks), 1, 2)
