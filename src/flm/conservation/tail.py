"""Tail completion: the harmonics that a short series leaves out, continued from those that it has.

A jump of size A at θ0 has z_k ~ A e^{−ikθ0}/(iπk): k z_k is a sum of a few powers ζ^k, |ζ| ≤ 1. At each time the upper part
of the band k0 … K is fitted by at most three of them (matrix pencil), and Σ_{k > K} A ζ^k e^{ikθ}/k is added in closed form,
−A log(1 − ζe^{iθ}) less its first K terms. There are no new parameters, but the sum is no longer a plain FLM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flm.conservation.harmonics import distill_harmonics
from flm.conservation.moving import MovingSeries

_LOWER = 0.4  # the band starts at this share of K
_MOST_POLES = 3
_FEWEST = 8  # harmonics from which a tail is continued


@dataclass(frozen=True, eq=False)
class CompletedSeries:
    """A series and the continuation of its harmonics beyond K by a few poles: not a plain FLM.

    Args:
        series: Harmonics up to K.
        num_poles: Powers ζ^k that continue them.
    """

    series: MovingSeries
    num_poles: int

    @property
    def num_harmonics(self) -> int:
        """K."""
        return int(self.series.wavenumbers.max())

    def __call__(self, points: Any) -> np.ndarray:
        """Values at points (P, 2), columns x and t, (P,)."""
        points = np.asarray(points, float)
        times, which = np.unique(points[:, 1], return_inverse=True)
        poles, sizes = self._continue(times)
        tau = points[:, 1] - self.series.start
        theta = 2.0 * np.pi / self.series.period * (points[:, 0] - self.series.left - self.series.speed * tau)
        tail = np.zeros(len(points))
        for p in range(self.num_poles):
            w = poles[which, p] * np.exp(1j * theta)
            head = np.zeros(len(points), complex)
            for k in range(self.num_harmonics, 0, -1):  # Horner for Σ_{k ≤ K} w^k / k
                head = w * (head + 1.0 / k)
            gap = 1.0 - w
            gap = np.where(np.abs(gap) < 1e-12, 1e-12, gap)
            tail += np.real(sizes[which, p] * (-np.log(gap) - head))
        return self.series(points) + tail

    def _continue(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Poles ζ and sizes A at each time, both (M, P), by the matrix pencil on k z_k, k0 ≤ k ≤ K."""
        count, rank = self.num_harmonics, self.num_poles
        k = np.arange(max(1, int(np.ceil(_LOWER * count))), count + 1)
        y = (self.series.amplitudes(times, count)[k - 1] * k[:, None]).T  # (M, n)
        half = len(k) // 2
        rows = np.arange(len(k) - half)[:, None] + np.arange(half)
        left, right = y[:, rows], y[:, rows + 1]
        u, size, v = np.linalg.svd(left, full_matrices=False)
        u, size, v = u[:, :, :rank], np.maximum(size[:, :rank], 1e-300), v[:, :rank]
        pencil = (u.conj().transpose(0, 2, 1) @ right @ v.conj().transpose(0, 2, 1)) / size[:, :, None]
        poles = np.linalg.eigvals(pencil)
        poles = poles / np.maximum(np.abs(poles), 1.0)
        powers = poles[:, None, :] ** k[:, None]  # (M, n, P)
        sizes = np.linalg.pinv(powers, rcond=1e-8) @ y[:, :, None]
        return poles, sizes[:, :, 0]


def complete_tail(
    teacher: MovingSeries, num_subnets: int, horizon: float, *, speed: float, points: np.ndarray
) -> CompletedSeries:
    """The completed series of `num_subnets` sub-networks that is nearest to a larger solution.

    Fewer harmonics leave more sub-networks to each, so that they are more accurate and can be continued further: the
    number of harmonics and of poles are scanned.

    Args:
        teacher: The large solution; the exact one is never used.
        num_subnets: N, the constant included when it is not zero.
        horizon: The length of time that matters.
        speed: c of the frame.
        points: Where series are compared in L1, (P, 2).
    """
    truth = teacher(points)
    most = min(num_subnets, int(teacher.wavenumbers.max()))
    best, least = None, np.inf
    for count in np.unique(np.round(np.geomspace(max(_FEWEST, most / 5), most, 5)).astype(int)).tolist():
        short = distill_harmonics(teacher, num_subnets, horizon, speed=speed, max_harmonics=count)
        top = int(short.wavenumbers.max(initial=0))
        if top < _FEWEST:
            continue
        band = top - int(np.ceil(_LOWER * top)) + 1
        for poles in range(1, min(_MOST_POLES, band // 2 - 1) + 1):
            trial = CompletedSeries(short, poles)
            distance = float(np.mean(np.abs(trial(points) - truth)))
            if distance < least:
                best, least = trial, distance
    if best is None:
        raise ValueError(f"`num_subnets` must be at least {_FEWEST + 1} for a tail to continue; got {num_subnets}.")
    return best
