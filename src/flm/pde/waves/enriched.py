"""An FLM with singular functions beside it, for corners and holes of planar regions.

The functions are real and imaginary parts of w^a or w^a log w, w = (z - v) / b with z = x + i y, v the vertex of a corner
(or a point in a hole) and b the inner bisector, so that the branch cut lies outside. They are harmonic, hence the right
leading terms wherever the principal part of the equation is the Laplacian. Derivatives stay in the family:
d/dz [w^a (c log w + e)] = w^(a-1) [a c log w + (a e + c)] / b,  d/dx = d/dz,  d/dy = i d/dz.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flm.domains import AbstractDomain
from flm.models.base import AbstractModel, InputMap
from flm.models.flm import FLM
from flm.series.waves import Orders
from flm.wording import InputError


class SingularFunctions(eqx.Module):
    """Harmonic functions that are singular at given points: column by column a point, a direction and an exponent."""

    points: Float[Array, "F 2"]
    directions: Float[Array, "F 2"]
    exponents: Float[Array, "F"]
    logs: Float[Array, "F"]
    imaginary: Float[Array, "F"]

    @classmethod
    def of(cls, domain: AbstractDomain, *, powers: float = 8.0, multipoles: int = 8) -> SingularFunctions:
        """For each corner of angle omega the exponents k pi / omega < `powers`; for each hole a log and multipoles."""
        if len(domain.axes) != 2:
            raise InputError(f"`domain` must be planar for singular functions; got the axes {', '.join(domain.axes)}.")
        rows: list[tuple[Any, ...]] = []
        for corner in domain.corners:
            count = int(np.ceil(powers * corner.angle / np.pi)) - 1
            for a in np.arange(1, count + 1) * np.pi / corner.angle:
                whole = abs(a - round(a)) < 1e-9  # w^a is then a polynomial: the singular partner has a logarithm
                exponent = float(round(a)) if whole else float(a)
                rows += [(corner.vertex, corner.bisector, exponent, float(whole), part) for part in (0.0, 1.0)]
        for hole in np.asarray(domain.holes):
            rows.append((tuple(hole), (1.0, 0.0), 0.0, 1.0, 0.0))
            rows += [(tuple(hole), (1.0, 0.0), -float(k), 0.0, p) for k in range(1, multipoles + 1) for p in (0.0, 1.0)]
        if not rows:
            raise InputError("`domain` must have corners or holes for singular functions; got one with neither.")
        columns = [jnp.asarray(np.array(column, float)) for column in zip(*rows, strict=True)]
        return cls(*columns)

    @property
    def count(self) -> int:
        """Number of functions."""
        return len(self.exponents)

    def derivative(self, xp: Any, points: Any, alpha: tuple[int, ...]) -> Any:
        """D^alpha of every function at points (P, 2), (F, P), in numpy or jax.numpy."""
        point, direction, a, c, imaginary = (
            xp.asarray(v) for v in (self.points, self.directions, self.exponents, self.logs, self.imaginary)
        )
        b = direction[:, 0] + 1j * direction[:, 1]
        w = (points[None, :, 0] - point[:, :1] + 1j * (points[None, :, 1] - point[:, 1:])) / b[:, None]
        e = 1.0 - c  # either w^a or w^a log w
        for _ in range(sum(alpha)):
            c, e, a = a * c, a * e + c, a - 1
        log = xp.log(xp.where(w == 0, 1e-200, w))  # at the vertex itself: powers vanish, poles stay finite
        value = xp.exp(a[:, None] * log) * (c[:, None] * log + e[:, None]) / (b ** sum(alpha))[:, None]
        value = value * 1j ** alpha[1]
        return xp.where(imaginary[:, None] > 0, value.imag, value.real)


class EnrichedFLM(AbstractModel):
    """An FLM plus singular functions: no longer a plain Fourier series, and it says so.

    Attributes:
        flm: the series part.
        singular: the functions beside it.
        weights: their coefficients, (F, K).
    """

    flm: FLM
    singular: SingularFunctions
    weights: Float[Array, "F K"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, flm: FLM, singular: SingularFunctions, weights: Any):
        self.flm, self.singular, self.weights = flm, singular, jnp.asarray(weights)
        self.map, self.num_outputs = flm.map, flm.num_outputs

    def jets(self, points: Any, orders: Orders) -> Array:
        """Values and derivatives: (A, P) or (A, P, K)."""
        points = self._checked(points)
        extra = jnp.stack([self.singular.derivative(jnp, points, a).T @ self.weights for a in self._orders(orders)])
        return self.flm.jets(points, orders) + (extra[..., 0] if self.num_outputs == 1 else extra)
