"""Finding spectral lines: periodogram peaks, refined by variable projection, counted by evidence.

Evidence of N lines (Laplace, unit-information prior on amplitudes, frequencies uniform over G resolution cells):
log p = -(n/2) sum_k log(2 pi e sigma_k^2) - (p K / 2) log n - N m (log G + (log n) / 2). With G = n/2 this is the known
(5/2) log n per sinusoid (Djuric 1996).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flm.estimators.evidence import NOISE_FLOOR
from flm.estimators.periodogram import LombScargle, lattice_power
from flm.estimators.progress import tell
from flm.estimators.regressor.variable_projection import (
    System,
    joint_covariance,
    linearize,
    noise_ridge,
    refine,
    solve_amplitudes,
)
from flm.estimators.waves import Waves

_PATIENCE = 2  # lines that may be tried in vain before the search stops


def line_evidence(system: System, count: float, cells: float) -> float:
    """log p of the lines, see the top of this file."""
    K, p = len(system.energy), len(system.coefficients)
    N = int((system.waves.subnets != 0).sum())
    variance = np.maximum(system.energy / count, NOISE_FLOOR)
    penalty = 0.5 * p * K * np.log(max(count, 2.0)) + N * (np.log(max(cells, 2.0)) + 0.5 * np.log(max(count, 2.0)))
    return float(-0.5 * count * np.log(2 * np.pi * np.e * variance).sum() - penalty)


@dataclass(frozen=True, eq=False)
class LineFit:
    """Lines found: the fit, its evidence, and the joint covariance of coefficients and frequencies."""

    waves: Waves
    coefficients: np.ndarray  # (p, K)
    variance: np.ndarray  # (K,) noise
    evidence: float
    covariance: np.ndarray | None  # (K p + N m, K p + N m): coefficients of output 0, 1, ..., then frequencies


class LineSearch:
    """Greedy search for lines in data on scaled inputs.

    Args:
        z: (n, m), filling [-1, 1]^m.
        y: (n, K), centered, unit variance.
        weights: (n,).
        interactions: most nonzero components of a line (m > 1).
        highest: highest frequency, on scaled inputs.
    """

    def __init__(
        self, z: np.ndarray, y: np.ndarray, weights: np.ndarray, *, interactions: int = 2, highest: float | None = None
    ):
        self.z, self.y, self.weights = z, y, weights
        self.count = float(weights.sum())
        self.m = z.shape[1]
        self.interactions = min(interactions, self.m)
        if self.m == 1:
            self._scan = LombScargle(z[:, 0], weights, highest=highest)
            self.highest = float(self._scan.frequencies[-1])
            self.cell = self._scan.cell
        else:
            self.cell = np.pi  # 2 pi over the width 2
            budget = {2: 64, 3: 16}.get(self.m, 12)
            resolved = max(int(len(np.unique(z, axis=0)) ** (1 / self.m)), 2)
            counts = min(budget, 2 * resolved)
            self._base, self._counts = np.full(self.m, self.cell / 2), np.full(self.m, counts)
            self.highest = counts * self.cell / 2 if highest is None else highest
        self.cells = max(self.highest / self.cell, 2.0)

    def _residual(self, waves: Waves, coefficients: np.ndarray) -> np.ndarray:
        step = max(1, (1 << 22) // max(waves.num_columns, 1))
        parts = [waves.columns(self.z[i : i + step]) @ coefficients for i in range(0, len(self.z), step)]
        return self.y - np.concatenate(parts)

    def peaks(self, residual: np.ndarray, variance: np.ndarray, taken: np.ndarray, how_many: int) -> np.ndarray:
        """The highest peaks of the periodogram, at least a cell apart and 0.7 cells from the lines taken: (q, m)."""
        if self.m == 1:
            candidates = self._scan.frequencies[:, None]
            power = (self._scan.power(residual) / variance).sum(axis=1)
            # The gradient by a frequency vanishes at zero: never start in the first half cell.
            power[self._scan.frequencies < 0.5 * self.cell] = 0.0
        else:
            integers, squares = lattice_power(
                self.z, residual * self.weights[:, None], self._base, self._counts, self.interactions
            )
            candidates = integers * self._base
            waves_each = 2.0 ** (np.count_nonzero(integers, axis=1) - 1)
            power = (2 * squares / self.count / variance).sum(axis=1) / waves_each
            power[(candidates > self.highest).any(axis=1)] = 0.0
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

    def _refined(self, subnets: np.ndarray, steps: int, tolerance: float = 1e-2) -> System:
        waves = Waves.of(subnets)
        if not steps:
            _, energy = solve_amplitudes(waves, self.z, self.y, self.weights)
            ridge = noise_ridge(energy, self.count)
            coefficients, energy = solve_amplitudes(waves, self.z, self.y, self.weights, ridge)
            K = self.y.shape[1]
            return System(waves, coefficients, energy, np.zeros((0, K, subnets.size)), np.zeros((0, K)))
        return refine(
            waves,
            self.z,
            self.y,
            self.weights,
            steps=steps,
            tolerance=tolerance,
            highest=self.highest,
        )

    def run(self, *, num_lines: int | None = None, max_lines: int = 64, refined: bool = True) -> LineFit:
        """Add lines while the evidence grows, or exactly `num_lines`; then drop those that do not pay.

        The constant is always there and is not counted.
        """
        constant = np.zeros((1, self.m))
        system = linearize(Waves.of(constant), self.z, self.y, self.weights)
        best, best_value = system, line_evidence(system, self.count, self.cells)
        target = max_lines if num_lines is None else num_lines
        target = min(target, max(int((self.count - 2) // 3), 0)) if num_lines is None else target
        failures, last_refined = 0, 0
        while (N := len(system.waves.subnets) - 1) < target:
            tell((N / target) ** 2, f"line {N + 1} of at most {target}")
            variance = np.maximum(system.energy / self.count, NOISE_FLOOR)
            residual = self._residual(system.waves, system.coefficients)
            batch = min(max(1, N // 8), target - N)
            new = self.peaks(residual, variance, system.waves.subnets[1:], batch)
            if not len(new):
                break
            subnets = np.concatenate([system.waves.subnets, new])
            # Refining all lines costs their square: after the first 16, only when a quarter more have come.
            due = refined and (
                len(subnets) - 1 <= 16 or len(subnets) - 1 >= 1.25 * last_refined or N + len(new) >= target
            )
            system = self._refined(subnets, 12 if due else 0)
            last_refined = len(subnets) - 1 if due else last_refined
            value = line_evidence(system, self.count, self.cells)
            if value > best_value or num_lines is not None:
                best, best_value, failures = system, value, 0
            else:
                failures += 1
                if failures > _PATIENCE:
                    break
        if num_lines is None:
            best = self._pruned(best, refined)
        if refined:
            best = self._refined(best.waves.subnets, 40, tolerance=1e-8)
        return self.finish(best, joint=refined)

    def _pruned(self, system: System, refined: bool) -> System:
        """Drop, one at a time, the line whose removal raises the evidence most."""
        value = line_evidence(system, self.count, self.cells)
        while len(system.waves.subnets) > 1:
            weakest = 1 + int(np.argmin(_strengths(system)[1:]))
            fewer = np.delete(system.waves.subnets, weakest, axis=0)
            trial = self._refined(fewer, 12 if refined else 0)
            trial_value = line_evidence(trial, self.count, self.cells)
            if trial_value <= value:
                return system
            system, value = trial, trial_value
        return system

    def finish(self, system: System, *, joint: bool = True) -> LineFit:
        """Noise and, when `joint`, the covariance of amplitudes and frequencies together."""
        freedom = max(self.count - len(system.coefficients) - system.waves.subnets.size / len(system.energy), 1.0)
        variance = np.maximum(system.energy / freedom, NOISE_FLOOR)
        covariance = None
        if joint:
            covariance = joint_covariance(system.waves, system.coefficients, variance, self.z, self.weights)
        evidence = line_evidence(system, self.count, self.cells)
        return LineFit(system.waves, system.coefficients, variance, evidence, covariance)


def _strengths(system: System) -> np.ndarray:
    """Energy of every sub-network's own coefficients, summed over outputs."""
    energy = (system.coefficients**2).sum(axis=1)
    return np.bincount(system.waves.column_subnet, energy, len(system.waves.subnets))
