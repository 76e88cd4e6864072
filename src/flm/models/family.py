"""A family of functions over one or two parameters: functions at Chebyshev points of the parameters, interpolated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.core import Tracer
from jaxtyping import Array, Float

from flm.models.base import AbstractModel, InputMap
from flm.models.pieces import PiecewiseFLM, unmapped
from flm.series import legendre
from flm.series.arrays import Numbers, device, host
from flm.series.waves import Orders
from flm.wording import InputError


def chebyshev(count: int) -> np.ndarray:
    """The points cos(pi k / (count - 1)) in rising order, (count,); those of 2 count - 1 contain them."""
    return -np.cos(np.pi * np.arange(count) / (count - 1))


def _line(z: Numbers, count: int) -> Numbers:
    """`legendre.values`, in operations that can be traced where points are."""
    if not isinstance(z, Tracer):
        return legendre.values(np.asarray(z), count)
    rows = [jnp.ones_like(z), z]
    for k in range(1, count - 1):
        rows.append(((2 * k + 1) * z * rows[k] - k * rows[k - 1]) / (k + 1))
    return jnp.stack(rows[:count], axis=1) * jnp.sqrt(2 * jnp.arange(count) + 1)


class FamilyFLM(AbstractModel):
    """f(x, a) = sum of l_k(a) f_k(x): Lagrange's polynomials of the parameters times the functions at their nodes.

    The parameters are the last inputs.
    """

    members: tuple[AbstractModel, ...]  # the functions, the last parameter fastest
    limits: Float[Array, "R 2"]  # of each parameter
    map: InputMap
    counts: tuple[int, ...] = eqx.field(static=True)  # nodes of each parameter
    num_outputs: int = eqx.field(static=True)

    def __init__(
        self, members: Sequence[AbstractModel], limits: npt.ArrayLike, counts: Sequence[int], names: tuple[str, ...]
    ):
        self.members, self.counts = tuple(members), tuple(counts)
        self.limits = device(np.asarray(limits, float).reshape(-1, 2))
        self.map = unmapped((*(self.members[0].map.axes or ()), *names))
        self.num_outputs = self.members[0].num_outputs

    def __check_init__(self) -> None:
        if len(self.members) != np.prod(self.counts, dtype=int) or len(self.limits) != len(self.counts):
            raise InputError(f"`members` must be one for each of {self.counts} nodes; got {len(self.members)}.")

    @property
    def num_parameters(self) -> int:
        """How many numbers all members have."""
        return sum(member.num_parameters for member in self.members)

    def weights(self, values: Numbers, orders: Sequence[int]) -> Numbers:
        """A derivative of Lagrange's polynomials at values of the parameters (P, R), one for each member, (P, members)."""
        xp, (values,) = host(values)
        out = xp.ones((len(values), 1))
        for j, (count, order) in enumerate(zip(self.counts, orders, strict=True)):
            low, high = np.asarray(self.limits)[j]
            to_coefficients = np.linalg.inv(legendre.values(chebyshev(count), count))
            matrix = legendre.differentiation(count, order) @ to_coefficients * (2 / (high - low)) ** order
            own = xp.asarray(_line(2 * (values[:, j] - low) / (high - low) - 1, count)) @ matrix
            out = (out[:, :, None] * own[:, None, :]).reshape(len(values), -1)
        return out

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """Values and derivatives: see `AbstractModel.jets`."""
        wanted, cut = self._orders(orders), len(self.counts)
        inner = tuple(dict.fromkeys(alpha[:-cut] for alpha in wanted))
        xp, (points,) = host(self._checked(points))
        found = xp.stack([xp.asarray(m.jets(points[:, :-cut], inner)) for m in self.members])  # (members, A, P, *K)
        rows = [
            xp.einsum(
                "pn,np...->p...", self.weights(points[:, -cut:], alpha[-cut:]), found[:, inner.index(alpha[:-cut])]
            )
            for alpha in wanted
        ]
        return device(xp.stack(rows))

    def at(self, values: Mapping[str, float]) -> AbstractModel:
        """The family with some of its parameters, or all, at given values."""
        names = (self.map.axes or ())[-len(self.counts) :]
        free = [j for j, name in enumerate(names) if name not in values]
        if len(free) == len(names):
            return self
        if not free:
            point = np.array([[values[name] for name in names]], float)
            weights = np.asarray(self.weights(point, (0,) * len(names)))[0]
            return blended(self.members, weights)
        (kept,), (fixed,) = free, [j for j in range(2) if j not in free]
        one = FamilyFLM(self.members[: self.counts[fixed]], self.limits[fixed], (self.counts[fixed],), ("-",))
        row = np.asarray(one.weights(np.array([[values[names[fixed]]]], float), (0,)))[0]
        grid = np.arange(len(self.members)).reshape(self.counts)
        lines = grid if fixed == 1 else grid.T
        blends = [blended([self.members[i] for i in line], row) for line in lines]
        return FamilyFLM(blends, self.limits[kept], (self.counts[kept],), (names[kept],))


def blended(members: Sequence[AbstractModel], weights: np.ndarray) -> AbstractModel:
    """A fixed linear combination of functions: pieces again, with a series, where all are pieces on the same boxes."""
    pieces = [member for member in members if isinstance(member, PiecewiseFLM)]
    first = pieces[0] if len(pieces) == len(members) else None
    same = lambda a, b: a.shape == b.shape and bool(np.all(np.asarray(a) == np.asarray(b)))
    if first is None or not all(same(p.lower, first.lower) and same(p.upper, first.upper) for p in pieces):
        return Blend(members, weights)
    # Orthonormal functions are nested: the coefficients of fewer are those of more with zeros behind.
    summed = np.zeros(np.max([piece.coefficients.shape for piece in pieces], axis=0))
    for weight, piece in zip(weights, pieces, strict=True):
        summed[tuple(map(slice, piece.coefficients.shape))] += weight * np.asarray(piece.coefficients)
    return PiecewiseFLM(first.lower, first.upper, summed, first.map.axes or ())


class Blend(AbstractModel):
    """A fixed linear combination of functions."""

    members: tuple[AbstractModel, ...]
    weights: Float[Array, "n"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, members: Sequence[AbstractModel], weights: npt.ArrayLike):
        self.members, self.weights = tuple(members), device(np.asarray(weights, float))
        self.map, self.num_outputs = self.members[0].map, self.members[0].num_outputs

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """The combination of the members' jets: see `AbstractModel.jets`."""
        xp, (points,) = host(self._checked(points))
        found = xp.stack([xp.asarray(member.jets(points, orders)) for member in self.members])
        return device(xp.tensordot(xp.asarray(self.weights), found, 1))

    @property
    def num_parameters(self) -> int:
        """How many numbers all members have."""
        return sum(member.num_parameters for member in self.members)
