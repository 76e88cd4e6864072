"""Finding spectral lines: periodogram peaks, refined by variable projection, counted by evidence.

Evidence of N lines (Laplace, unit-information prior on amplitudes, frequencies uniform over G resolution cells):
log p = -(n/2) sum_k log(2 pi e sigma_k^2) - (p K / 2) log n - N m (log G + (log n) / 2). With G = n/2 this is the known
(5/2) log n per sinusoid (Djuric 1996).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flm.estimators.evidence import NOISE_FLOOR, Sample
from flm.estimators.periodogram import LombScargle, lattice_power
from flm.estimators.regressor.variable_projection import Lines
from flm.estimators.waves import Waves
from flm.results.progress import Listener, Progress, silent

_PATIENCE = 2  # lines that may be tried in vain before the search stops


@dataclass(frozen=True, eq=False)
class LineFit:
    """Lines found: waves, evidence, noise, and the joint covariance of coefficients and frequencies."""

    waves: Waves
    variance: np.ndarray  # (K,) noise
    evidence: float
    covariance: np.ndarray  # see `Lines.covariance`


class LineSearch:
    """Greedy search for lines in data on scaled inputs.

    Args:
        sample: the rows; z fills [-1, 1]^m, y is centered and of unit variance.
        interactions: most nonzero components of a line (m > 1).
    """

    def __init__(self, sample: Sample, *, interactions: int = 2):
        self.sample = sample
        self.m = sample.z.shape[1]
        self.interactions = min(interactions, self.m)
        if self.m == 1:
            self._scan = LombScargle(sample.z[:, 0], sample.weights)
            self.highest = float(self._scan.frequencies[-1])
            self.cell = self._scan.cell
        else:
            self.cell = np.pi  # 2 pi over the width 2
            budget = {2: 64, 3: 16}.get(self.m, 12)
            resolved = max(int(len(np.unique(sample.z, axis=0)) ** (1 / self.m)), 2)
            counts = min(budget, 2 * resolved)
            self._base, self._counts = np.full(self.m, self.cell / 2), np.full(self.m, counts)
            self.highest = counts * self.cell / 2
        self.cells = max(self.highest / self.cell, 2.0)

    def evidence(self, lines: Lines) -> float:
        """log p of the lines, see the top of this file."""
        p, K = lines.coefficients.shape
        N, count = int(lines.movable.sum()), self.sample.count
        variance = np.maximum(lines.energy / count, NOISE_FLOOR)
        half_log = 0.5 * np.log(max(count, 2.0))
        penalty = p * K * half_log + N * (np.log(self.cells) + half_log)
        return float(-0.5 * count * np.log(2 * np.pi * np.e * variance).sum() - penalty)

    def peaks(self, residual: np.ndarray, variance: np.ndarray, taken: np.ndarray, how_many: int) -> np.ndarray:
        """The highest peaks of the periodogram, at least a cell apart and 0.7 cells from the lines taken: (q, m)."""
        if self.m == 1:
            candidates = self._scan.frequencies[:, None]
            power = (self._scan.power(residual) / variance).sum(axis=1)
            # The gradient by a frequency vanishes at zero: never start in the first half cell.
            power[self._scan.frequencies < 0.5 * self.cell] = 0.0
        else:
            weighted = residual * self.sample.weights[:, None]
            integers, squares = lattice_power(self.sample.z, weighted, self._base, self._counts, self.interactions)
            candidates = integers * self._base
            waves_each = 2.0 ** (np.count_nonzero(integers, axis=1) - 1)
            power = (2 * squares / self.sample.count / variance).sum(axis=1) / waves_each
        order = np.argsort(-power, kind="stable")
        found: list[np.ndarray] = []
        for i in order[: 400 * how_many]:
            if len(found) == how_many or power[i] <= 0:
                break
            near_new = any(np.abs(candidates[i] - f).max() < self.cell for f in found)
            near_old = len(taken) and (np.abs(np.abs(taken) - candidates[i]).max(axis=1) < 0.7 * self.cell).any()
            if not near_new and not near_old:
                found.append(candidates[i])
        return np.array(found).reshape(-1, self.m)

    def at(self, subnets: np.ndarray, steps: int = 0, tolerance: float = 1e-2) -> Lines:
        """The fit at these frequency vectors, or after so many steps from there."""
        lines = Lines.at(self.sample, Waves.of(subnets), self.highest)
        return lines.refined(steps, tolerance) if steps else lines

    def run(self, *, num_lines: int | None = None, max_lines: int = 64, listen: Listener = silent) -> LineFit:
        """Add lines while the evidence grows, or exactly `num_lines`; then drop those that do not pay.

        The constant is always there and is not counted.
        """
        lines = self.at(np.zeros((1, self.m)))
        best, best_value = lines, self.evidence(lines)
        paying = max(int((self.sample.count - 2) // 3), 0)
        target = min(max_lines, paying) if num_lines is None else num_lines
        failures, last_refined = 0, 0
        while (N := len(lines.waves.subnets) - 1) < target:
            listen(Progress(f"line {N + 1} of at most {target}", share=(N / target) ** 2))
            residual = self.sample.y - lines.waves.values(self.sample.z, lines.coefficients)
            batch = min(max(1, N // 8), target - N)
            new = self.peaks(residual, lines.variance, lines.waves.subnets[1:], batch)
            if not len(new):
                break
            more = N + len(new)
            # Refining all lines costs their square: after the first 16, only when a quarter more have come.
            due = more <= 16 or more >= 1.25 * last_refined or more >= target
            lines = self.at(np.concatenate([lines.waves.subnets, new]), 12 if due else 0)
            last_refined = more if due else last_refined
            value = self.evidence(lines)
            if value > best_value or num_lines is not None:
                best, best_value, failures = lines, value, 0
            else:
                failures += 1
                if failures > _PATIENCE:
                    break
        if num_lines is None:
            best = self._pruned(best)
        lines = self.at(best.waves.subnets, 40, tolerance=1e-8)
        p, K = lines.coefficients.shape
        freedom = max(self.sample.count - p - lines.waves.subnets.size / K, 1.0)
        variance = np.maximum(lines.energy / freedom, NOISE_FLOOR)
        return LineFit(lines.waves, variance, self.evidence(lines), lines.covariance(variance))

    def _pruned(self, lines: Lines) -> Lines:
        """Drop, one at a time, the line whose removal raises the evidence most."""
        value = self.evidence(lines)
        while len(lines.waves.subnets) > 1:
            energy = (lines.coefficients**2).sum(axis=1)
            strength = np.bincount(lines.waves.column_subnet, energy, len(lines.waves.subnets))
            weakest = 1 + int(np.argmin(strength[1:]))
            trial = self.at(np.delete(lines.waves.subnets, weakest, axis=0), 12)
            trial_value = self.evidence(trial)
            if trial_value <= value:
                return lines
            lines, value = trial, trial_value
        return lines
