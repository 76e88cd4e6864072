"""Nonharmonic Fourier series in (time, initial state): a control law, and the state networks of the penalty method."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from flm.control.dynamics import Simulated, follow, gauss, grid
from flm.control.equations import finish, first_order
from flm.control.problem import OptimalControl
from flm.series import PhaseSeries, SeparableSeries
from flm.series.tables import WaveTable

_SAMPLES = 401  # times at which controls are compared with their bounds
_ELEMENTS = 24  # of Gauss quadrature of the networks' own cost


class _InRows:
    """A base that stores arrays row by row, as a file holds them: products of a transposed view may round differently."""

    def __post_init__(self):
        for name in (field.name for field in fields(self)):  # type: ignore[arg-type]
            if isinstance(value := getattr(self, name), np.ndarray):
                object.__setattr__(self, name, np.ascontiguousarray(value, float))


@dataclass(frozen=True, eq=False)
class ControlLaw(_InRows):
    """u(t; x0) = clip(offset + Σ_n Σ_k a_nk Π cos/sin(n_p ζ_p), lower, upper), ζ = (s, z): normalized time and start.

    s = t/T in [0, 1], z = (v - center)/scale in [-1, 1]^d, with v the start's independent coordinates; d = 0 when the
    law is for one start. Because time is the first input and the sign matrix's first column is +1, a grid of times and
    starts splits into two matrix products:

        u(s, z) = Σ_n cos(ω_n s) α_n(z) + sin(ω_n s) β_n(z).
    """

    frequencies: np.ndarray  # (N, 1 + d), radians per unit of (s, z)
    # In separable form, (N, 2, 2^d, K): cosine or sine in time, the 2^d products in z, the K controls.
    coefficients: np.ndarray
    offset: np.ndarray  # the control that a zero series gives, (K,)
    lower: np.ndarray  # bounds, (K,), infinite where there is none
    upper: np.ndarray
    center: np.ndarray  # (d,)
    scale: np.ndarray  # (d,)
    horizon: float  # T, or the factor of exp(...) when it is free
    duration_frequencies: np.ndarray | None = None  # (D, d), for a free horizon
    duration_coefficients: np.ndarray | None = None  # (D, 2^d): T = horizon exp(Σ ...)

    @classmethod
    def of(
        cls,
        problem: OptimalControl,
        frequencies: np.ndarray,
        coefficients: np.ndarray,
        duration_frequencies: np.ndarray | None = None,
        duration_coefficients: np.ndarray | None = None,
    ) -> ControlLaw:
        """A law for the starts, bounds and horizon of a problem."""
        starts, d = problem.starts, problem.starts.dimension
        return cls(
            frequencies, coefficients, problem.rest, problem.lower, problem.upper, starts.center[:d], starts.scale[:d],
            float(problem.numbers[-1]), duration_frequencies, duration_coefficients,
        )  # fmt: skip

    @property
    def num_columns(self) -> int:
        """The number of linear unknowns."""
        return self.coefficients.size + (0 if self.duration_coefficients is None else self.duration_coefficients.size)

    def duration(self, v: np.ndarray) -> np.ndarray:
        """T for each start, (P,)."""
        if self.duration_coefficients is None or self.duration_frequencies is None:
            return np.full(len(v), self.horizon)
        products = self._products(v, self.duration_frequencies)
        return self.horizon * np.exp(np.einsum("pni,ni->p", products, self.duration_coefficients))

    def at(self, v: np.ndarray) -> Controls:
        """The controls of starts with coordinates v (P, d)."""
        log_duration = None if self.duration_coefficients is None else np.log(self.duration(v))
        products = self._products(v, self.frequencies[:, 1:])
        waves = np.einsum("pni,ntik->pntk", products, self.coefficients, optimize=True)
        amplitudes = waves.reshape(len(v), -1, waves.shape[-1])  # α_n, β_n in turn
        return Controls(self.frequencies[:, 0], amplitudes, self.offset, self.lower, self.upper, log_duration)

    def _products(self, v: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        return space_products((v[:, : len(self.center)] - self.center) / self.scale, frequencies)

    def series(self, axes: tuple[str, ...]) -> PhaseSeries:
        """The series before squashing, in physical units: radians per unit of time (of s, when T is free) and state."""
        n, m = self.frequencies.shape
        frequencies, coefficients = self.frequencies, self.coefficients.reshape(n, 2**m, -1)
        if self.offset.any():
            constant = np.zeros((1, 2**m, len(self.offset)))
            constant[0, 0] = self.offset
            frequencies = np.concatenate([np.zeros((1, m)), frequencies])
            coefficients = np.concatenate([constant, coefficients])
        if coefficients.shape[-1] == 1:
            coefficients = coefficients[..., 0]
        time = 1.0 if self.duration_coefficients is not None else self.horizon
        units = np.array([time, *self.scale])
        plain = SeparableSeries(frequencies, coefficients, axes).phase().rescale(1.0 / units)
        return plain.shift(np.array([0.0, *self.center]))


@dataclass(frozen=True, eq=False)
class Controls:
    """The controls of P starts, each a series in time with its own amplitudes (P, 2N, K), squashed to its bounds.

    `log_duration` (P,) is log T when the horizon is free.
    """

    frequencies: np.ndarray
    amplitudes: np.ndarray
    offset: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    log_duration: np.ndarray | None = None

    def __getitem__(self, part: slice) -> Controls:
        """The controls of some of the starts."""
        log_duration = None if self.log_duration is None else self.log_duration[part]
        return replace(self, amplitudes=self.amplitudes[part], log_duration=log_duration)

    def raw(self, s: np.ndarray) -> np.ndarray:
        """Controls before squashing, (P, R, K), at times s: (R,) for all starts, or (P, R) for each start its own."""
        return self.offset + time_waves(s, self.frequencies) @ self.amplitudes

    def squashed(self, s: np.ndarray) -> np.ndarray:
        """Controls (P, R, K), within their bounds."""
        return np.clip(self.raw(s), self.lower, self.upper)

    def inputs(self, s: np.ndarray) -> np.ndarray:
        """Controls, and log T when it is free, at times s (E, P, q), (E, P, q, k)."""
        num_elements, num_starts, q = s.shape
        u = self.squashed(np.swapaxes(s, 0, 1).reshape(num_starts, -1))
        return with_duration(np.swapaxes(u.reshape(num_starts, num_elements, q, -1), 0, 1), self.log_duration)

    def follow(self, problem: OptimalControl, v0: np.ndarray) -> Simulated:
        """The trajectories from v0 (P, d) under these controls, accurately integrated."""
        return follow(problem, v0, self.inputs, self.breaks())

    def breaks(self) -> np.ndarray | None:
        """Normalized times (P, B) at which controls meet their bounds, nan where a start has fewer; None without bounds."""
        bounds = [(k, b) for ends in (self.lower, self.upper) for k, b in enumerate(ends) if np.isfinite(b)]
        if not bounds:
            return None
        index, level = np.array([k for k, _ in bounds]), np.array([bound for _, bound in bounds])
        s = np.linspace(0.0, 1.0, _SAMPLES)
        above = self.raw(s)[..., index] > level  # (P, samples, bounds)
        start, place, which = np.nonzero(above[:, 1:] != above[:, :-1])  # in the order of the starts
        low, high, rising = s[place], s[place + 1], above[start, place + 1, which]
        offset, control = self.offset[index[which]], self.amplitudes[start, :, index[which]]
        for _ in range(34 if len(start) else 0):  # bisections, to less than a tenth of a billionth of the horizon
            middle = 0.5 * (low + high)
            values = offset + np.einsum("ia,ia->i", time_waves(middle, self.frequencies), control)
            late = (values > level[which]) == rising
            low, high = np.where(late, low, middle), np.where(late, middle, high)
        counts = np.bincount(start, minlength=len(self.amplitudes))
        found = np.full((len(counts), counts.max(initial=0)), np.nan)
        found[start, np.arange(len(start)) - np.repeat(np.cumsum(counts) - counts, counts)] = 0.5 * (low + high)
        return found


@dataclass(frozen=True, eq=False)
class StateNetworks(_InRows):
    """Series v_i(s, z) for the independent coordinates of the state, which the penalty method learns beside the control.

    `frequencies` (d, N, 1 + D) are radians per unit of normalized time and of the D varying coordinates of the start,
    `coefficients` (d, N, 2, 2^D) in separable form; `penalties` are (μ₁, μ₂), the weights of dynamics and initial state.
    """

    frequencies: np.ndarray
    coefficients: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    penalties: tuple[float, float]

    def coordinates(self, s: np.ndarray, v0: np.ndarray) -> np.ndarray:
        """Coordinates v (P, R, d) at times s (R,) or (P, R), from starts v0 (P, ...)."""
        z, values = (v0[:, : len(self.center)] - self.center) / self.scale, []
        for frequencies, coefficients in zip(self.frequencies, self.coefficients, strict=True):
            amplitudes = np.einsum("pni,nti->pnt", space_products(z, frequencies[:, 1:]), coefficients)
            values.append(time_waves(s, frequencies[:, 0]) @ amplitudes.reshape(len(z), -1, 1))
        return np.concatenate(values, axis=-1)

    def cost(self, problem: OptimalControl, law: ControlLaw, v0: np.ndarray) -> np.ndarray:
        """The cost of these states and the law's controls, (P,)."""
        nodes = grid(np.linspace(0.0, 1.0, _ELEMENTS + 1), 1)[0].ravel()
        s, end = np.broadcast_to(nodes, (len(v0), len(nodes))), self.coordinates(np.ones(1), v0)[:, 0]
        along = first_order(problem, s, self.coordinates(s, v0), law.at(v0).squashed(s))
        rest = np.zeros((len(v0), problem.equations.num_inputs))
        return along.running @ np.tile(gauss().weights / _ELEMENTS, _ELEMENTS) + finish(problem, end, rest).cost


def with_duration(u: np.ndarray, log_duration: np.ndarray | None) -> np.ndarray:
    """Inputs (E, P, q, k): controls (E, P, q, K), followed by log T (P,) when the horizon is free."""
    if log_duration is None:
        return u
    return np.concatenate([u, np.broadcast_to(log_duration[:, None, None], (*u.shape[:3], 1))], axis=-1)


def time_waves(s: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """cos(ω s), sin(ω s) for each frequency in turn, (..., 2N)."""
    return WaveTable.at(s, frequencies).pairs().reshape(*np.shape(s), -1)


def space_products(z: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Products of cos(k_p z_p) and sin(k_p z_p), (P, N, 2^d), leftmost bit the first coordinate, bit 1 = sine."""
    products = np.ones((len(z), len(frequencies), 1))
    for p in range(z.shape[1]):
        pair = WaveTable.at(z[:, p], frequencies[:, p]).pairs()  # (P, N, 2)
        products = (products[..., :, None] * pair[..., None, :]).reshape(len(z), len(frequencies), -1)
    return products
