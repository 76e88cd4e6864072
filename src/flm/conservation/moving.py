"""Periodic functions of (x, t) as sub-networks in a moving frame: as a series in NumPy, and as a model."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import equinox as eqx
import numpy as np
import numpy.typing as npt
from jaxtyping import Array

from flm.domains import Box
from flm.models.base import AbstractModel, InputMap
from flm.models.flm import FLM
from flm.series import ExponentialSeries, PhaseSeries, SeparableSeries
from flm.series.arrays import device, host
from flm.series.tables import WaveTable
from flm.series.waves import Orders


@dataclass(frozen=True, eq=False)
class MovingSeries:
    """u(x, t) = mean + Σ_n [cos κkξ, sin κkξ] C_n [cos wτ, sin wτ]ᵀ,  ξ = x − left − c τ,  τ = t − start,  κ = 2π/L.

    Each term is a sub-network of an FLM in the inputs (ξ, τ), a linear map of (x, t); as a function of (x, t) it is two
    plain waves with time frequencies −κkc ± w.
    """

    wavenumbers: np.ndarray  # k ≥ 1, (N,)
    frequencies: np.ndarray  # w ≥ 0, (N,)
    coefficients: np.ndarray  # C, (N, 2, 2)
    mean: float  # conserved
    speed: float  # c
    left: float
    start: float
    period: float  # L

    @property
    def num_subnets(self) -> int:
        """Sub-networks in the frame, the constant included when it is not zero."""
        return len(self.wavenumbers) + (self.mean != 0.0)

    def __call__(self, points: npt.ArrayLike) -> np.ndarray:
        """Values at points (P, 2), columns x and t, (P,)."""
        x, t = np.asarray(points, float).T
        # Terms share harmonics and times: z_k at the distinct times, then one harmonic after the other.
        times, when = np.unique(t - self.start, return_inverse=True)
        turn = np.exp(2j * np.pi / self.period * (x - self.left - self.speed * (t - self.start)))
        out = np.full(len(x), self.mean)
        for k in np.unique(self.wavenumbers):
            out += np.real(self.amplitude(k, self.start + times)[when] * turn**k)
        return out

    def amplitude(self, k: int, times: np.ndarray) -> np.ndarray:
        """z_k(t), complex (M,): u = mean + Re Σ_k z_k e^{iκkξ} in the frame."""
        mine = self.wavenumbers == k
        pairs = WaveTable.at(times - self.start, self.frequencies[mine]).pairs()  # (M, N, 2)
        p, q = np.einsum("nij,mnj->im", self.coefficients[mine], pairs)
        return p - 1j * q

    def model(self, domain: Box) -> MovingFLM:
        """The same function as an FLM in the moving frame."""
        frequencies = np.stack([2.0 * np.pi / self.period * self.wavenumbers, self.frequencies], axis=1)
        table = self.coefficients.reshape(-1, 4)
        if self.mean != 0.0 or not len(table):
            frequencies = np.concatenate([np.zeros((1, 2)), frequencies])
            table = np.concatenate([[[self.mean, 0.0, 0.0, 0.0]], table])
        inner = FLM(2, len(table), key=0, frequencies=frequencies)
        parts = SeparableSeries(frequencies, table).phase().linear()
        inner = inner.with_coefficients(np.concatenate([np.ravel(part) for part in parts]))
        return MovingFLM(inner, self.speed, InputMap((self.left, self.start), (1.0, 1.0), domain.axes))


class MovingFLM(AbstractModel):
    """f(x, t) = g(x - c t, t) with an FLM g of two inputs, both counted from the map's center."""

    inner: FLM  # g, without a map of its own
    speed: float = eqx.field(static=True)  # c, of the frame
    map: InputMap  # with scale 1
    num_outputs: int = eqx.field(static=True)

    def __init__(self, inner: FLM, speed: float, map: InputMap):
        self.inner, self.speed, self.map, self.num_outputs = inner, float(speed), map, 1

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """Values and derivatives by the chain rule, d_t = d_tau - c d_xi. See `AbstractModel.jets`."""
        wanted = self._orders(orders)
        xp, (z,) = host(self.map(self._checked(points)))
        moved = xp.stack([z[:, 0] - self.speed * z[:, 1], z[:, 1]], axis=1)
        # D^(a, b) f = sum_j binomial(b, j) (-c)^j D^(a + j, b - j) g
        terms = [[(comb(b, j) * (-self.speed) ** j, (a + j, b - j)) for j in range(b + 1)] for a, b in wanted]
        needed = tuple(dict.fromkeys(alpha for row in terms for _, alpha in row))
        xp, (jets,) = host(self.inner.jets(moved, needed))
        table = dict(zip(needed, jets, strict=True))
        return device(xp.stack([sum(factor * table[alpha] for factor, alpha in row) for row in terms]))

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
