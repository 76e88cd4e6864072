"""Periodic functions of (x, t) as sub-networks in a moving frame, and as the equal plain series in (x, t)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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

    def __call__(self, points: Any) -> np.ndarray:
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
            angle = np.outer(2.0 * np.pi / self.period * (x - self.left - self.speed * tau), k)
            turn = np.outer(tau, w)
            space, clock = np.hstack([np.cos(angle), np.sin(angle)]), np.hstack([np.cos(turn), np.sin(turn)])
            parts.append(self.mean + np.einsum("pa,pa->p", space, clock @ table.T))
        return np.concatenate(parts) if parts else np.zeros(0)

    def amplitudes(self, times: np.ndarray, num_harmonics: int) -> np.ndarray:
        """z_k(t), complex (K, M): u = mean + Re Σ_k z_k e^{iκkξ} in the frame."""
        turn = np.outer(times - self.start, self.frequencies)
        pair = np.stack([np.cos(turn), np.sin(turn)], axis=-1)  # (M, N, 2)
        p, q = np.einsum("nij,mnj->inm", self.coefficients, pair)
        z = np.zeros((num_harmonics + 1, len(times)), complex)
        inside = self.wavenumbers <= num_harmonics
        np.add.at(z, self.wavenumbers[inside], (p - 1j * q)[inside])
        return z[1:]

    def waves(self) -> tuple[np.ndarray, np.ndarray]:
        """Plain waves in (x, t): frequency vectors (T, 2) and complex z (T,), u = Re Σ z e^{i n·(x, t)}; equal ones merged.

        cos wτ = (e⁺ + e⁻)/2 and sin wτ = (e⁺ − e⁻)/2i turn each harmonic p cos κkξ + q sin κkξ = Re (p − iq) e^{iκkξ}
        into z± e^{i(κkξ ± wτ)}.
        """
        space = 2.0 * np.pi / self.period * self.wavenumbers
        (cc, cs), (sc, ss) = np.moveaxis(self.coefficients, 0, -1)
        sides = []
        for sign in (1.0, -1.0):
            z = 0.5 * ((cc - sign * 1j * cs) - 1j * (sc - sign * 1j * ss))
            turn = sign * self.frequencies - space * self.speed
            sides.append((space, turn, z * np.exp(-1j * (space * self.left + turn * self.start))))
        vectors = np.stack([np.concatenate([a for a, _, _ in sides]), np.concatenate([b for _, b, _ in sides])], axis=1)
        z = np.concatenate([c for _, _, c in sides])
        vectors, z = np.concatenate([np.zeros((1, 2)), vectors]), np.concatenate([[self.mean], z])
        merged, group = np.unique(vectors, axis=0, return_inverse=True)
        total = np.zeros(len(merged), complex)
        np.add.at(total, group.ravel(), z)
        kept = total != 0.0
        return merged[kept], total[kept]

    def plain(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The equal plain series as sub-networks: frequencies (N′, 2), C and S (N′, 2), rows (+, +) and (+, −) of the signs.

        N′ is at most 2N, because the frame leaves one of the two mirrored waves of each vector unused; N when c = 0.
        """
        vectors, z = self.waves()
        absolute, group = np.unique(np.abs(vectors), axis=0, return_inverse=True)
        row = (vectors[:, 1] < 0.0).astype(int)
        cosine, sine = np.zeros((len(absolute), 2)), np.zeros((len(absolute), 2))
        np.add.at(cosine, (group.ravel(), row), np.real(z))
        np.add.at(sine, (group.ravel(), row), -np.imag(z))
        return absolute, cosine, sine
