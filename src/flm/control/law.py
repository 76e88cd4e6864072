"""A control law as a nonharmonic Fourier series in (time, initial state)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from flm.control.problem import OptimalControl
from flm.series import PhaseSeries, SeparableSeries
from flm.series.tables import WaveTable


@dataclass(frozen=True, eq=False)
class ControlLaw:
    """u(t; x0) = clip(offset + Σ_n Σ_k a_nk Π cos/sin(n_p ζ_p), lower, upper), ζ = (s, z): normalized time and start.

    s = t/T in [0, 1], z = (v - center)/scale in [-1, 1]^d, with v the start's independent coordinates; d = 0 when the
    law is for one start. Because time is the first input and the sign matrix's first column is +1, a grid of times and
    starts splits into two matrix products:

        u(s, z) = Σ_n cos(ω_n s) α_n(z) + sin(ω_n s) β_n(z).

    Args:
        frequencies: (N, 1 + d), radians per unit of (s, z).
        coefficients: Separable form, (N, 2, 2^d, K): cosine or sine in time, the 2^d products in z, the K controls.
        offset: What the zero series stands for, (K,).
        lower: Bounds, (K,), infinite where there is none.
        upper: Likewise.
        center: (d,).
        scale: (d,).
        horizon: T, or the factor of exp(...) when it is free.
        duration_frequencies: (D, d), for a free horizon.
        duration_coefficients: (D, 2^d): T = horizon exp(Σ ...); None when the horizon is fixed.
    """

    frequencies: np.ndarray
    coefficients: np.ndarray
    offset: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    horizon: float
    duration_frequencies: np.ndarray | None = None
    duration_coefficients: np.ndarray | None = None

    def __post_init__(self):
        # In rows, as a file holds them: products of a transposed view may round differently.
        for name in (field.name for field in fields(self)):
            if isinstance(value := getattr(self, name), np.ndarray):
                object.__setattr__(self, name, np.ascontiguousarray(value, float))

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
    def num_subnets(self) -> int:
        """N."""
        return len(self.frequencies)

    @property
    def num_columns(self) -> int:
        """The number of linear unknowns."""
        return self.coefficients.size + (0 if self.duration_coefficients is None else self.duration_coefficients.size)

    @property
    def num_parameters(self) -> int:
        """Frequencies and, in phase form, amplitudes and phases."""
        return self.frequencies.size + self.num_columns

    def normalize(self, v: np.ndarray) -> np.ndarray:
        """z (P, d) of coordinates v (P, ...)."""
        d = len(self.center)
        return (v[:, :d] - self.center) / self.scale

    def amplitudes(self, v: np.ndarray) -> np.ndarray:
        """The series in time of each start, (P, 2N, K): α_n, β_n in turn."""
        products = space_products(self.normalize(v), self.frequencies[:, 1:])  # (P, N, 2^d)
        result = np.einsum("pni,ntik->pntk", products, self.coefficients, optimize=True)
        return result.reshape(len(v), -1, self.coefficients.shape[-1])

    def raw(self, s: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Controls before squashing, (P, R, K), at s (R,) for all starts or (P, R) for each its own."""
        return self.offset + time_waves(s, self.frequencies[:, 0]) @ self.amplitudes(v)

    def controls(self, s: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Controls (P, R, K), within their bounds."""
        return np.clip(self.raw(s, v), self.lower, self.upper)

    def duration(self, v: np.ndarray) -> np.ndarray:
        """T for each start, (P,)."""
        if self.duration_coefficients is None:
            return np.full(len(v), self.horizon)
        assert self.duration_frequencies is not None
        products = space_products(self.normalize(v), self.duration_frequencies)
        return self.horizon * np.exp(np.einsum("pni,ni->p", products, self.duration_coefficients))

    def inputs_at(self, v: np.ndarray) -> Callable[[np.ndarray, slice], np.ndarray]:
        """A function of times s (E, P, q) and a slice of the starts v: controls, and log T when it is free."""

        def inputs(s, part):
            flat = s.transpose(1, 0, 2).reshape(s.shape[1], -1)  # (P, E q)
            u = self.controls(flat, v[part]).reshape(s.shape[1], s.shape[0], s.shape[2], -1).transpose(1, 0, 2, 3)
            if self.duration_coefficients is None:
                return u
            log_duration = np.log(self.duration(v[part]))[:, None]
            return np.concatenate([u, np.broadcast_to(log_duration, s.shape)[..., None]], axis=-1)

        return inputs

    def breaks(self, v: np.ndarray) -> np.ndarray | None:
        """Normalized times (P, B) at which the controls of each start have corners."""
        if not (np.isfinite(self.lower).any() or np.isfinite(self.upper).any()):
            return None
        return crossings(lambda s: self.raw(s, v), self.lower, self.upper, len(v))

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

    @classmethod
    def _unpack(cls, named: dict[str, np.ndarray]) -> ControlLaw:
        return cls(**named)  # type: ignore[arg-type]


def time_waves(s: np.ndarray, frequencies: np.ndarray, order: int = 0) -> np.ndarray:
    """cos(ω s), sin(ω s) for each frequency in turn, differentiated `order` times, (..., 2N)."""
    return WaveTable.at(s, frequencies).pairs(order).reshape(*np.shape(s), -1)


def space_products(z: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Products of cos(k_p z_p) and sin(k_p z_p), (P, N, 2^d), leftmost bit the first coordinate, bit 1 = sine."""
    products = np.ones((len(z), len(frequencies), 1))
    for p in range(z.shape[1]):
        pair = WaveTable.at(z[:, p], frequencies[:, p]).pairs()  # (P, N, 2)
        products = (products[..., :, None] * pair[..., None, :]).reshape(len(z), len(frequencies), -1)
    return products


def crossings(
    raw: Callable[[np.ndarray], np.ndarray],
    lower: np.ndarray,
    upper: np.ndarray,
    num_starts: int,
    *,
    samples: int = 401,
) -> np.ndarray:
    """Normalized times at which controls meet their bounds, (P, B), nan where a start has fewer: corners of clip(w).

    Args:
        raw: Controls before squashing, (P, R, K), at times s (R,) or (P, R).
        lower: Bounds (K,).
        upper: Bounds (K,).
        num_starts: P.
        samples: Times that are searched for changes of sign.
    """
    bounds = [
        (k, bound) for k, pair in enumerate(zip(lower, upper, strict=True)) for bound in pair if np.isfinite(bound)
    ]
    if not bounds:
        return np.zeros((num_starts, 0))
    index, level = np.array([k for k, _ in bounds]), np.array([bound for _, bound in bounds])
    s = np.linspace(0.0, 1.0, samples)
    above = raw(s)[..., index] > level  # (P, samples, bounds)
    start, place, which = np.nonzero(above[:, 1:] != above[:, :-1])
    order = np.argsort(start, kind="stable")
    start, place, which = start[order], place[order], which[order]
    counts = np.bincount(start, minlength=num_starts)
    column = np.arange(len(start)) - np.repeat(np.cumsum(counts) - counts, counts)
    low = np.full((num_starts, counts.max(initial=0)), np.nan)
    high, bound = low.copy(), np.zeros(low.shape, int)
    low[start, column], high[start, column], bound[start, column] = s[place], s[place + 1], which
    rising = np.zeros(low.shape, bool)
    rising[start, column] = above[start, place + 1, which]
    for _ in range(34 if low.size else 0):
        middle = 0.5 * (low + high)
        values = np.take_along_axis(raw(np.nan_to_num(middle)), index[bound][..., None], axis=-1)[..., 0]
        late = (values > level[bound]) == rising
        low, high = np.where(late, low, middle), np.where(late, middle, high)
    return 0.5 * (low + high)
