"""An FLM in a moving frame: the same sub-networks in the inputs (x - c t, t)."""

from __future__ import annotations

from math import comb

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array

from flm.models.base import AbstractModel, InputMap
from flm.models.flm import FLM
from flm.series import ExponentialSeries, PhaseSeries
from flm.series.waves import Orders
from flm.wording import InputError


class MovingFLM(AbstractModel):
    """f(x, t) = g(x - c t, t) with an FLM g of two inputs, both counted from the map's center.

    Args:
        inner: g, an FLM of two inputs without a map of its own.
        speed: c, the speed of the frame.
        map: The center from which x and t are counted, with scale 1.
    """

    inner: FLM
    speed: float = eqx.field(static=True)
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, inner: FLM, speed: float, map: InputMap, num_outputs: int = 1):
        self.inner = inner
        self.speed = float(speed)
        self.map = map
        self.num_outputs = num_outputs

    def __check_init__(self):
        if self.inner.num_inputs != 2 or len(self.map.center) != 2 or self.map.scale != (1.0, 1.0):
            raise InputError(
                f"`inner` must have two inputs and `map` scale 1; got {self.inner.num_inputs}, {self.map!r}."
            )

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """Values and derivatives by the chain rule, d_t = d_tau - c d_xi. See `AbstractModel.jets`."""
        wanted = self._orders(orders)
        moved = self.map(self._checked(points))
        moved = jnp.stack([moved[:, 0] - self.speed * moved[:, 1], moved[:, 1]], axis=1)
        # D^(a, b) f = sum_j binomial(b, j) (-c)^j D^(a + j, b - j) g
        terms = [[(comb(b, j) * (-self.speed) ** j, (a + j, b - j)) for j in range(b + 1)] for a, b in wanted]
        needed = tuple(dict.fromkeys(alpha for row in terms for _, alpha in row))
        table = self.inner.jets(moved, needed)
        place = {alpha: i for i, alpha in enumerate(needed)}
        return jnp.stack([sum(factor * table[place[alpha]] for factor, alpha in row) for row in terms])

    @property
    def num_subnets(self) -> int:
        """N, the number of sub-networks in the frame."""
        return self.inner.num_subnets

    @property
    def series(self) -> PhaseSeries:
        """The same function as a plain series in (x, t), at most 2N sub-networks."""
        waves = self.inner.series.exponential()
        n = np.asarray(waves.frequencies)
        sheared = np.stack([n[:, 0], n[:, 1] - self.speed * n[:, 0]], axis=1)
        plain = ExponentialSeries(sheared, waves.coefficients, self.map.axes, is_real=True).shift(self.map.center)
        return plain.nonzero().phase()
