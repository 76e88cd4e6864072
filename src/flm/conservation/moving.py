"""Periodic functions of (x, t) as sub-networks in a moving frame, in NumPy: what growth and distillation work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flm.series.tables import WaveTable

_CHUNK = 2**21  # numbers per table when evaluating


@dataclass(frozen=True, eq=False)
class MovingSeries:
    """u(x, t) = mean + Σ_n [cos κkξ, sin κkξ] C_n [cos wτ, sin wτ]ᵀ,  ξ = x − left − c τ,  τ = t − start,  κ = 2π/L.

    With c = 0 each term is a sub-network of an FLM in (x, t); otherwise it is one in the inputs (ξ, τ), a linear map of
    (x, t), and two plain waves with time frequencies −κkc ± w.

    Args:
        wavenumbers: k, whole numbers ≥ 1, (N,).
        frequencies: w ≥ 0, radians per unit of time, (N,).
        coefficients: C, (N, 2, 2).
        mean: The conserved mean.
        speed: c, the speed of the frame.
        left: Where the period starts.
        start: The first time.
        period: L.
    """

    wavenumbers: np.ndarray
    frequencies: np.ndarray
    coefficients: np.ndarray
    mean: float
    speed: float
    left: float
    start: float
    period: float

    @property
    def num_subnets(self) -> int:
        """Sub-networks in the frame, the constant included when it is not zero."""
        return len(self.wavenumbers) + (self.mean != 0.0)

    def __call__(self, points: npt.ArrayLike) -> np.ndarray:
        """Values at points (P, 2), columns x and t, (P,)."""
        points = np.asarray(points, float)
        k, which = np.unique(self.wavenumbers, return_inverse=True)
        w, when = np.unique(self.frequencies, return_inverse=True)
        # Terms share harmonics and often frequencies: one small matrix per cos/sin pair.
        table = np.zeros((2, len(k), 2, len(w)))
        for i in range(2):
            for j in range(2):
                np.add.at(table[i, :, j], (which, when), self.coefficients[:, i, j])
        table = table.reshape(2 * len(k), 2 * len(w))
        chunk = max(1, _CHUNK // max(len(k) + len(w), 1))
        parts = []
        for first in range(0, len(points), chunk):
            x, t = points[first : first + chunk].T
            tau = t - self.start
            space = WaveTable.at(2.0 * np.pi / self.period * (x - self.left - self.speed * tau), k).columns()
            clock = WaveTable.at(tau, w).columns()
            parts.append(self.mean + np.einsum("pa,pa->p", space, clock @ table.T))
        return np.concatenate(parts) if parts else np.zeros(0)

    def amplitudes(self, times: np.ndarray, num_harmonics: int) -> np.ndarray:
        """z_k(t), complex (K, M): u = mean + Re Σ_k z_k e^{iκkξ} in the frame."""
        pair = WaveTable.at(times - self.start, self.frequencies).pairs()  # (M, N, 2)
        p, q = np.einsum("nij,mnj->inm", self.coefficients, pair)
        z = np.zeros((num_harmonics + 1, len(times)), complex)
        inside = self.wavenumbers <= num_harmonics
        np.add.at(z, self.wavenumbers[inside], (p - 1j * q)[inside])
        return z[1:]
