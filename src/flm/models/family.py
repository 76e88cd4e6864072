"""A family of functions over one or two parameters: functions at Chebyshev points of the parameters, interpolated."""

from collections.abc import Mapping, Sequence

import equinox as eqx
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from flm.models.base import AbstractModel, InputMap
from flm.models.pieces import AbstractSummed, PiecewiseFLM, unmapped
from flm.series import legendre
from flm.series.arrays import device
from flm.series.waves import Orders
from flm.wording import InputError


def chebyshev(count: int) -> np.ndarray:
    """The points cos(pi k / (count - 1)) in rising order, (count,); they are among the points for 2 count - 1."""
    return -np.cos(np.pi * np.arange(count) / (count - 1))


class FamilyFLM(AbstractSummed):
    """f(x, a) = sum of l_k(a) f_k(x): Lagrange's polynomials of the parameters times the functions at their nodes.

    The parameters are the last inputs.
    """

    members: tuple[AbstractSummed, ...]  # the functions, the last parameter fastest
    limits: Float[Array, "R 2"]  # of each parameter
    map: InputMap
    counts: tuple[int, ...] = eqx.field(static=True)  # nodes of each parameter
    num_outputs: int = eqx.field(static=True)

    def __init__(
        self, members: Sequence[AbstractModel], limits: npt.ArrayLike, counts: Sequence[int], names: Sequence[str]
    ):
        self.members, self.counts = tuple(m for m in members if isinstance(m, AbstractSummed)), tuple(counts)
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

    def _weights(self, j: int, values: np.ndarray, order: int = 0) -> np.ndarray:
        """A derivative of the Lagrange polynomials of parameter j at its values (P,): (P, nodes)."""
        count, (low, high) = self.counts[j], np.asarray(self.limits)[j]
        own = legendre.table(2 * (values - low) / (high - low) - 1, count, order) * (2 / (high - low)) ** order
        return own @ np.linalg.inv(legendre.values(chebyshev(count), count))

    def _jets(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        """The sum over the members, (A, P, K)."""
        cut = len(self.counts)
        inner = tuple(dict.fromkeys(alpha[:-cut] for alpha in orders))
        found = np.stack([member._jets(points[:, :-cut], inner) for member in self.members])  # (members, A, P, K)
        rows = []
        for alpha in orders:
            weights = np.ones((len(points), 1))
            for j, order in enumerate(alpha[-cut:]):
                own = self._weights(j, points[:, j - cut], order)
                weights = (weights[:, :, None] * own[:, None, :]).reshape(len(points), -1)
            rows.append(np.einsum("pn,npk->pk", weights, found[:, inner.index(alpha[:-cut])]))
        return np.stack(rows)

    def at(self, values: Mapping[str, float]) -> AbstractSummed:
        """The function at given values of some or all of the parameters."""
        names = (self.map.axes or ())[-len(self.counts) :]
        j = next((j for j, name in enumerate(names) if name in values), None)
        if j is None:
            return self
        row = self._weights(j, np.array([values[names[j]]], float))[0]
        lines = np.moveaxis(np.arange(len(self.members)).reshape(self.counts), j, -1).reshape(-1, self.counts[j])
        blends = [_blended([self.members[i] for i in line], row) for line in lines]
        rest = [i for i in range(len(names)) if i != j]
        if not rest:
            return blends[0]
        limits, counts = np.asarray(self.limits)[rest], [self.counts[i] for i in rest]
        return FamilyFLM(blends, limits, counts, [names[i] for i in rest]).at(values)


def _blended(members: Sequence[AbstractSummed], weights: np.ndarray) -> AbstractSummed:
    """A fixed linear combination of functions; where all are pieces on the same boxes, pieces again, with a series."""
    pieces = [member for member in members if isinstance(member, PiecewiseFLM)]
    first = pieces[0] if len(pieces) == len(members) else None
    same = lambda a, b: np.array_equal(np.asarray(a), np.asarray(b))
    if first is None or not all(same(p.lower, first.lower) and same(p.upper, first.upper) for p in pieces):
        return Blend(members, weights)
    # Orthonormal functions are nested: a shorter list of coefficients is a longer one that ends in zeros.
    summed = np.zeros(np.max([piece.coefficients.shape for piece in pieces], axis=0))
    for weight, piece in zip(weights, pieces, strict=True):
        summed[tuple(map(slice, piece.coefficients.shape))] += weight * np.asarray(piece.coefficients)
    return PiecewiseFLM(first.lower, first.upper, summed, first.map.axes or ())


class Blend(AbstractSummed):
    """A fixed linear combination of functions."""

    members: tuple[AbstractSummed, ...]
    weights: Float[Array, "n"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, members: Sequence[AbstractSummed], weights: npt.ArrayLike):
        self.members, self.weights = tuple(members), device(np.asarray(weights, float))
        self.map, self.num_outputs = self.members[0].map, self.members[0].num_outputs

    @property
    def num_parameters(self) -> int:
        """How many numbers all members have."""
        return sum(member.num_parameters for member in self.members)

    def _jets(self, points: np.ndarray, orders: Orders) -> np.ndarray:
        return np.tensordot(np.asarray(self.weights), [member._jets(points, orders) for member in self.members], 1)
