"""Partial derivatives of plane waves from one sine-cosine table.

A derivative is a quarter-turn per order times a product of frequency components:
D^alpha [C cos theta + S sin theta] = k^alpha [C cos(theta + |alpha| pi/2) + S sin(theta + |alpha| pi/2)], theta = k.x,
so a whole jet is the table (cos theta, sin theta) times one small matrix of turned coefficients.
"""

from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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


def turned_coefficients(
    k: Float[Array, "M m"], C: Float[Array, "M *K"], S: Float[Array, "M *K"], orders: Orders
) -> tuple[Float[Array, "A M *K"], Float[Array, "A M *K"]]:
    """The pairs (C_alpha, S_alpha) with D^alpha u = C_alpha cos theta + S_alpha sin theta, stacked over `orders`."""
    extra = (1,) * (C.ndim - 1)
    pairs = []
    for alpha in orders:
        factor = monomial(k, alpha).reshape(-1, *extra)
        turned = quarter_turn(C, S, sum(alpha))
        pairs.append((turned[0] * factor, turned[1] * factor))
    return jnp.stack([c for c, _ in pairs]), jnp.stack([s for _, s in pairs])
