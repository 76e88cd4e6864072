"""Periodic solutions as N sub-networks: variable projection on the time frequencies of each harmonic, N shared greedily.

Each harmonic's amplitude z_k(t) = p_k − i q_k is fitted by Σ_j (C, S) of cos w_j t, sin w_j t, one sub-network per w_j; by
Parseval the squared errors of harmonics add. The next sub-network goes to the harmonic whose error falls most.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from flm.conservation.moving import MovingSeries

_RIDGE = 1e-7  # on unit columns: keeps amplitudes of coalescing frequencies bounded
_STEPS = 30


@dataclass(frozen=True, eq=False)
class Tones:
    """A fit of one harmonic: frequencies (J,), coefficients (2J, 2) of cos then sin for p and q, squared error."""

    frequencies: np.ndarray
    coefficients: np.ndarray
    error: float


@dataclass(frozen=True, eq=False)
class Clock:
    """Gauss nodes on [0, horizon] with the square roots of their weights, normalized to a mean."""

    times: np.ndarray
    roots: np.ndarray
    horizon: float

    @classmethod
    def make(cls, horizon: float, fastest: float) -> Clock:
        """Enough nodes to integrate products of waves of frequencies up to `fastest`: half their angle, and a margin."""
        nodes, weights = _gauss(32 + 16 * int(0.04 * fastest * horizon))
        return cls(0.5 * horizon * (nodes + 1.0), np.sqrt(0.5 * weights), horizon)


def distill_harmonics(
    series: MovingSeries, num_subnets: int, horizon: float, *, speed: float, max_harmonics: int | None = None
) -> MovingSeries:
    """The best series found with exactly `num_subnets` sub-networks in a frame of the given speed.

    Args:
        series: The large solution.
        num_subnets: N, the constant included when it is not zero.
        horizon: The length of time that matters.
        speed: c of the new frame; 0 makes each term a sub-network of an FLM in (x, t).
        max_harmonics: Use only harmonics up to this one; all by default.

    Returns:
        A series of `num_subnets` sub-networks, or fewer when the large solution has no more harmonics to give.
    """
    budget = num_subnets - (series.mean != 0.0)
    harmonics = np.unique(series.wavenumbers)
    harmonics = harmonics[harmonics <= (max_harmonics or harmonics.max(initial=0))]
    # Each harmonic that is used takes a sub-network: only the strongest can be.
    coarse = series.start + horizon * (np.arange(64) + 0.5) / 64
    energy = np.sum(np.abs(series.amplitudes(coarse, int(harmonics.max(initial=0)))[harmonics - 1]) ** 2, axis=1)
    harmonics = np.sort(harmonics[np.argsort(energy, kind="stable")[::-1][: max(budget, 0)]])
    drift = 2.0 * np.pi / series.period * (series.speed - speed)  # z_k turns by −k · drift in the new frame
    clocks, targets = [], []
    for k in harmonics:
        mine = series.wavenumbers == k
        clock = Clock.make(horizon, float(series.frequencies[mine].max(initial=0.0)) + k * abs(drift))
        z = replace(
            series,
            wavenumbers=np.ones(mine.sum(), int),
            frequencies=series.frequencies[mine],
            coefficients=series.coefficients[mine],
        ).amplitudes(series.start + clock.times, 1)[0]
        z = z * np.exp(-1j * k * drift * clock.times) * clock.roots
        clocks.append(clock)
        targets.append(np.stack([z.real, -z.imag], axis=1))  # (M, 2): p and q
    fits = [Tones(np.zeros(0), np.zeros((0, 2)), float(np.sum(t**2))) for t in targets]
    queue: list[tuple[float, int, int, Tones]] = []

    def push(index):
        more = add_tone(clocks[index], targets[index], fits[index], float(harmonics[index] * abs(drift)))
        if more.error < fits[index].error:
            heapq.heappush(queue, (more.error - fits[index].error, index, len(more.frequencies), more))

    # A harmonic can gain at most its own energy: the smaller ones are fitted only when their turn can come.
    waiting = sorted(range(len(harmonics)), key=lambda index: fits[index].error)
    used = 0
    while used < budget:
        while waiting and (not queue or fits[waiting[-1]].error > -queue[0][0]):
            push(waiting.pop())
        if not queue:
            break
        _, index, _, fits[index] = heapq.heappop(queue)
        used += 1
        push(index)
    return _collect(series, harmonics, fits, speed)


def add_tone(clock: Clock, target: np.ndarray, fit: Tones, center: float) -> Tones:
    """The best fit found with one more frequency.

    Starts: the largest peaks of the residual's periodogram, and frequencies near the harmonic's own drift (`center`) at
    2/horizon and 6/horizon from it, which periodograms of less than a period cannot see.
    """
    residual = target - clock.roots[:, None] * (_tones(clock.times, fit.frequencies) @ fit.coefficients)
    top = center + 12.0 / clock.horizon + fit.frequencies.max(initial=0.0)
    trial = np.linspace(0.5 / clock.horizon, top, int(2 * top * clock.horizon) + 16)
    power = np.sum((_tones(clock.times, trial).T @ (clock.roots[:, None] * residual)) ** 2, axis=1)
    power = power[: len(trial)] + power[len(trial) :]
    peaks = np.flatnonzero((power >= np.roll(power, 1)) & (power >= np.roll(power, -1)))
    starts = list(trial[peaks[np.argsort(power[peaks])[-2:]]])
    starts += [abs(center + offset / clock.horizon) for offset in (2.0, -2.0, 6.0, -6.0)]
    best = fit
    for start in dict.fromkeys(np.round(np.array(starts) * clock.horizon, 1)):
        start = max(float(start), 0.3) / clock.horizon
        gap = 0.4 / clock.horizon
        while np.any(np.abs(fit.frequencies - start) < gap):
            start += gap
        found = project(clock, target, np.append(fit.frequencies, start))
        if found.error < best.error:
            best = found
    return best


def project(clock: Clock, target: np.ndarray, frequencies: np.ndarray) -> Tones:
    """Variable projection: Levenberg–Marquardt on the frequencies with Kaufman's Jacobian, amplitudes eliminated."""
    fit, basis, residual = _amplitudes(clock, target, frequencies)
    count, damping = len(frequencies), 1e-2
    for _ in range(_STEPS):
        angle = np.outer(clock.times, fit.frequencies)
        slope = clock.times[:, None] * clock.roots[:, None]
        # ∂/∂w_j of c cos w_j t + s sin w_j t is t (s cos − c sin); its part outside the span of the basis
        c, s = fit.coefficients[:count], fit.coefficients[count:]
        moved = slope[:, :, None] * (np.cos(angle)[:, :, None] * s - np.sin(angle)[:, :, None] * c)  # (M, J, 2)
        moved = moved.transpose(0, 2, 1).reshape(len(clock.times), -1)
        moved -= basis @ (basis.T @ moved)
        jacobian = moved.reshape(len(clock.times) * 2, count)
        gram, gradient = jacobian.T @ jacobian, jacobian.T @ residual.ravel()
        size = gram.diagonal().max()
        if size == 0.0:
            break
        while True:
            step = np.linalg.solve(gram + damping * size * np.eye(count), gradient)
            trial = np.abs(fit.frequencies + np.clip(step, -4.0 / clock.horizon, 4.0 / clock.horizon))
            new, new_basis, new_residual = _amplitudes(clock, target, trial)
            if new.error < fit.error:
                break
            damping *= 8.0
            if damping > 1e6:
                return fit
        gain = fit.error - new.error
        fit, basis, residual, damping = new, new_basis, new_residual, damping / 6.0
        if gain < 1e-3 * fit.error:
            break
    return fit


def _amplitudes(clock: Clock, target: np.ndarray, frequencies: np.ndarray) -> tuple[Tones, np.ndarray, np.ndarray]:
    """The linear fit for given frequencies, with an orthonormal basis of the columns and the residual (M, 2)."""
    columns = clock.roots[:, None] * _tones(clock.times, frequencies)
    basis, size, turn = np.linalg.svd(columns, full_matrices=False)
    kept = size / (size**2 + (_RIDGE * max(size[0], 1e-300)) ** 2)
    coefficients = turn.T @ (kept[:, None] * (basis.T @ target))
    residual = target - columns @ coefficients
    return Tones(frequencies, coefficients, float(np.sum(residual**2))), basis, residual


@lru_cache(maxsize=64)
def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(count)


def _tones(times: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    angle = np.outer(times, frequencies)
    return np.hstack([np.cos(angle), np.sin(angle)])


def _collect(series: MovingSeries, harmonics: np.ndarray, fits: list[Tones], speed: float) -> MovingSeries:
    wavenumbers, frequencies, coefficients = [], [], []
    for k, fit in zip(harmonics, fits, strict=True):
        count = len(fit.frequencies)
        for j in range(count):
            wavenumbers.append(k)
            frequencies.append(fit.frequencies[j])
            # rows cos κkξ and sin κkξ, columns cos wτ and sin wτ
            coefficients.append(np.stack([fit.coefficients[j], fit.coefficients[count + j]], axis=1))
    return replace(
        series,
        wavenumbers=np.array(wavenumbers, int),
        frequencies=np.array(frequencies, float),
        coefficients=np.array(coefficients).reshape(-1, 2, 2),
        speed=speed,
    )
