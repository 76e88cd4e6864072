"""Periodic functions of (x, t) as sub-networks in a moving frame: as a series in NumPy, and as a model.

The best series of N sub-networks has the time frequencies of each harmonic by variable projection, and N shared greedily.
Each harmonic's amplitude z_k(t) = p_k − i q_k is fitted by Σ_j (C, S) of cos w_j t, sin w_j t, one sub-network per w_j; by
Parseval the squared errors of harmonics add. The next sub-network goes to the harmonic whose error falls most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb

import equinox as eqx
import numpy as np
import numpy.typing as npt
from jaxtyping import Array

from flm.domains import Box
from flm.models.base import AbstractModel, InputMap
from flm.models.flm import FLM
from flm.numerics.newton import Nielsen
from flm.numerics.variable_projection import project
from flm.pde.waves.distillation import Waves
from flm.series import ExponentialSeries, PhaseSeries, SeparableSeries
from flm.series.arrays import device, host
from flm.series.tables import WaveTable
from flm.series.waves import Orders

RIDGE = 3e-6  # on unit columns: keeps amplitudes of coalescing frequencies bounded
STEPS = 30
LEAST_TIMES, TIMES_PER_RADIAN = 48, 0.7  # at which harmonics are fitted


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


def distill_harmonics(series: MovingSeries, num_subnets: int, horizon: float) -> MovingSeries:
    """The best series found with exactly `num_subnets` sub-networks, the constant included, in the same frame.

    The result has fewer when the large solution has no more harmonics; `horizon` is the length of time that matters.
    """
    budget = num_subnets - (series.mean != 0.0)
    harmonics = np.unique(series.wavenumbers)
    # Each harmonic that is used takes a sub-network, so only the strongest can be used.
    coarse = series.start + horizon * (np.arange(64) + 0.5) / 64
    energy = [np.sum(np.abs(series.amplitude(k, coarse)) ** 2) for k in harmonics]
    harmonics = np.sort(harmonics[np.argsort(energy, kind="stable")[::-1][: max(budget, 0)]])
    fastest = float(series.frequencies.max(initial=0.0))
    count = LEAST_TIMES + int(TIMES_PER_RADIAN * fastest * horizon)
    times = horizon * (np.arange(count) + 0.5) / count
    fits = []
    for k in harmonics:
        z = series.amplitude(k, series.start + times)
        fits.append(Waves(times[:, None], np.stack([np.real(z), -np.imag(z)], axis=1), np.zeros((0, 1)), RIDGE))
    # A harmonic gains at most what is left of it: one more frequency is looked for only where that may be the largest gain.
    gains, longer = [fit.value for fit in fits], dict[int, Waves]()
    while budget > 0 and max(gains, default=0.0) > 0.0:
        index = int(np.argmax(gains))
        if index in longer:
            fits[index], budget = longer.pop(index), budget - 1
            gains[index] = fits[index].value
        else:
            longer[index] = add_tone(fits[index], horizon)
            gains[index] = fits[index].value - longer[index].value
    counts = [len(fit.frequencies) for fit in fits]
    # A fit's coefficients (2J, 2) have rows cos wτ then sin wτ, columns cos κkξ and sin κkξ.
    tables = [fit.coefficients.reshape(2, -1, 2).transpose(1, 2, 0) for fit in fits]
    frequencies = np.concatenate([np.zeros(0), *(fit.frequencies[:, 0] for fit in fits)])
    coefficients = np.concatenate([np.zeros((0, 2, 2)), *tables])
    coefficients[frequencies < 0, :, 1] *= -1  # sin(-w τ) = -sin wτ
    return replace(
        series,
        wavenumbers=np.repeat(harmonics, counts),
        frequencies=np.abs(frequencies),
        coefficients=coefficients,
    )


def add_tone(fit: Waves, horizon: float) -> Waves:
    """The best fit found with one more frequency.

    Starts: the largest peaks of the residual's periodogram, and 2/horizon and 6/horizon, which a periodogram of less than a
    period cannot see.
    """
    known = np.abs(fit.frequencies[:, 0])
    top = 12.0 / horizon + known.max(initial=0.0)
    trial = np.linspace(0.5 / horizon, top, int(2 * top * horizon) + 16)
    power = np.sum((WaveTable.at(fit.points[:, 0], trial).columns().T @ fit.residual) ** 2, axis=1)
    power = power[: len(trial)] + power[len(trial) :]
    peaks = np.flatnonzero((power >= np.roll(power, 1)) & (power >= np.roll(power, -1)))
    starts = list(trial[peaks[np.argsort(power[peaks])[-2:]]])
    starts += [2.0 / horizon, 6.0 / horizon]
    best = fit
    for start in dict.fromkeys(np.round(np.array(starts) * horizon, 1)):
        start = max(float(start), 0.3) / horizon
        gap = 0.4 / horizon
        while np.any(np.abs(known - start) < gap):
            start += gap
        begun = Waves(fit.points, fit.values, np.append(fit.frequencies, [[start]], axis=0), fit.ridge)
        found = project(begun, Nielsen(), max_steps=STEPS, gain_tol=1e-3).point
        best = found if found.value < best.value else best
    return best
