"""Partial derivatives of plane waves from one sine-cosine table.

A derivative is a quarter-turn per order times a product of frequency components:
D^alpha [C cos theta + S sin theta] = k^alpha [C cos(theta + |alpha| pi/2) + S sin(theta + |alpha| pi/2)], theta = k.x,
so a whole jet is the table (cos theta, sin theta) times one small matrix of turned coefficients. Networks map their inputs
first, z = scale * (x - center): angles are k . z, and derivatives by x bring the factors k * scale.
"""

import math
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flm.series.arrays import Numbers
from flm.series.sine_cosine import sincos

Orders = tuple[tuple[int, ...], ...]  # multi-indices: how often each input is differentiated
Coefficient = TypeVar("Coefficient", float, np.ndarray, Array)


class Waves(NamedTuple):
    """Plane waves: sum_i C_i cos(k_i . x) + S_i sin(k_i . x)."""

    k: Float[Numbers, "M m"]
    C: Float[Numbers, "M *K"]
    S: Float[Numbers, "M *K"]


class Frame(NamedTuple):
    """The map z = scale * (x - center) as arguments of compiled programs: another domain compiles nothing."""

    center: Float[np.ndarray, "m"]
    scale: Float[np.ndarray, "m"]

    def table(self, k: Array, points: Float[Array, "P m"]) -> tuple[Array, Array]:
        """Sines and cosines of k . z, (M, P): neuron-major is XLA's fastest layout."""
        z = (points - self.center.astype(points.dtype)) * self.scale.astype(points.dtype)
        return sincos(k @ z.T)


def quarter_turn(C: Coefficient, S: Coefficient, order: int) -> tuple[Coefficient, Coefficient]:
    """Coefficients of (cos theta, sin theta) in C cos(theta + order pi/2) + S sin(theta + order pi/2)."""
    return ((C, S), (S, -C), (-C, -S), (-S, C))[order % 4]


def _monomial(k: Float[Array, "M m"], alpha: tuple[int, ...]) -> Float[Array, "M"]:
    """k^alpha = prod_j k_j^alpha_j, one per wave."""
    return math.prod((k[:, j] ** order for j, order in enumerate(alpha)), start=jnp.ones_like(k[:, 0]))


@partial(jax.jit, static_argnames="orders")  # called outside of a larger program, compile once per shape
def wave_jets(waves: Waves, frame: Frame, points: Float[Array, "P m"], orders: Orders) -> Float[Array, "A P *K"]:
    """D^alpha by x of waves of the mapped inputs z, one order after another."""
    k, C, S = waves
    pairs = []
    for alpha in orders:
        factor = _monomial(k * frame.scale, alpha).reshape(-1, *(1,) * (C.ndim - 1))
        pairs.append([part * factor for part in quarter_turn(C, S, sum(alpha))])
    sine, cosine = frame.table(k, points)
    of_cosine, of_sine = (jnp.stack(part) for part in zip(*pairs, strict=True))
    return jnp.einsum("am...,mp->ap...", of_cosine, cosine) + jnp.einsum("am...,mp->ap...", of_sine, sine)


@partial(jax.jit, static_argnames="orders")
def wave_columns(
    k: Float[Array, "M m"], frame: Frame, points: Float[Array, "P m"], orders: Orders
) -> Float[Array, "A P 2M"]:
    """D^alpha by x of all cos(k_i . z), then of all sin(k_i . z)."""
    sine, cosine = frame.table(k, points)
    blocks = []
    for alpha in orders:
        factor = _monomial(k * frame.scale, alpha)[:, None]
        # of C cos + S sin, the column of C is its derivative at C = 1, S = 0, and likewise for S
        (cc, cs), (sc, ss) = quarter_turn(1.0, 0.0, sum(alpha)), quarter_turn(0.0, 1.0, sum(alpha))
        blocks.append(jnp.concatenate([factor * (cc * cosine + cs * sine), factor * (sc * cosine + ss * sine)]))
    return jnp.swapaxes(jnp.stack(blocks), 1, 2)
