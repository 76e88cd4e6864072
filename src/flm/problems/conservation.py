"""Named conservation laws: the paper's inviscid Burgers' equation and a nonconvex flux."""

import jax.numpy as jnp
import numpy as np

from flm.conservation.law import ConservationLaw
from flm.conservation.references import EntropySolution
from flm.domains import Box


def burgers(mean: float = 1.0, amplitude: float = 0.35) -> ConservationLaw:
    """The inviscid Burgers' equation of the paper: u_t + u u_x = 0, u(x, 0) = 1 + 0.35 sin 2πx, periodic on [0, 1].

    A shock forms at t* = 1/(2π amplitude) and moves with the mean, on x = 0.5 + t; the exact entropy solution is
    Lax–Oleinik's.
    """
    entropy = EntropySolution(lambda x: mean + amplitude * np.sin(2 * np.pi * x))
    return ConservationLaw(
        flux=lambda u: u**2 / 2,
        domain=Box(x=(0, 1), t=(0, 1)),
        initial=lambda x: mean + amplitude * jnp.sin(2 * jnp.pi * x),
        exact=lambda x, t: entropy(np.stack([x, t], axis=1)),
    )


def buckley_leverett(ratio: float = 0.5, horizon: float = 0.6) -> ConservationLaw:
    """Two-phase flow in rock: u_t + (u² / (u² + a (1 − u)²))_x = 0, u(x, 0) = 0.5 + 0.4 sin 2πx, periodic.

    The flux has an inflection, so that shocks and rarefactions join to compound waves; no exact solution is known here,
    `flm.references.godunov` is the reference. The ratio a is that of the two phases' mobilities.
    """
    return ConservationLaw(
        flux=lambda u, a: u**2 / (u**2 + a * (1 - u) ** 2),
        domain=Box(x=(0, 1), t=(0, horizon)),
        initial=lambda x: 0.5 + 0.4 * jnp.sin(2 * jnp.pi * x),
        parameters={"a": ratio},
    )
