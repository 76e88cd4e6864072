"""Spectral lines: periodogram peaks, refined by variable projection, counted by evidence.

Amplitudes are linear least squares at given frequencies; the frequencies move with Kaufman's Jacobian
(I - Q Q^T) (dPhi/dn) c. One R-only QR of [Phi, D_1 ... D_K, y_1 ... y_K] in row blocks holds everything that a step
needs: below the first p rows stand the projected Jacobians and residuals, so Q is never formed and memory stays bounded.
The objective is F = sum_k (|r_k|^2 + n floor) / sigma_k^2 with the noise variances sigma_k^2 = |r_k|^2 / n + floor of the fit
before, so that one unit of F is a move by one standard error; the floor is that of `evidence`.

Evidence of N lines (Laplace, unit-information prior on amplitudes, frequencies uniform over G resolution cells):
log p = -(n/2) sum_k log(2 pi e sigma_k^2) - (p K / 2) log n - N m (log G + (log n) / 2). With G = n/2 this is the known
(5/2) log n per sinusoid (Djuric 1996).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dtrtrs  # pyright: ignore[reportAttributeAccessIssue]

from flm.estimators.evidence import NOISE_FLOOR, Sample
from flm.estimators.periodogram import OVERSAMPLING, lattice_power
from flm.estimators.waves import Waves
from flm.numerics.least_squares import triangular_factor
from flm.numerics.newton import Nielsen
from flm.numerics.variable_projection import Projected, project, trailing_block
from flm.results.progress import Listener, Progress, silent
from flm.series.tables import phasors

# The least ridge on unit-norm columns, for data without noise. Otherwise the ridge is that of amplitudes as large as the outputs
# (unit variance) in the noise at hand, sigma sqrt(2 / n): coalescing lines cannot grow huge opposite amplitudes.
_LEAST_RIDGE = 1e-9
_START = 1e-6  # damping, relative to the largest squared slope
_LEAST_ROWS = 100  # rows for which a correlation of the noise is estimated, at least
_STRETCHES = 6  # of the record, in which phases are compared
_PATIENCE = 2  # lines that may be tried in vain before the search stops


@dataclass(frozen=True, eq=False)
class Lines:
    """The least-squares fit of a sample at given frequencies."""

    sample: Sample
    waves: Waves  # the lines and the constant; frequency components that are zero stay zero, since F is even in them
    highest: float  # bound on the size of a frequency component
    ridge: float  # on columns of unit norm
    variance: np.ndarray  # of the noise, (K,): the units in which residuals count
    coefficients: np.ndarray  # (p, K)
    energy: np.ndarray  # weighted residual sums of squares with the penalty, (K,)
    lowest: float = 0.0  # bound on the size of a frequency from below
    prior: np.ndarray | None = None  # variances of the coefficients in units of the noise's, (p,), instead of the ridge

    @classmethod
    def at(cls, sample: Sample, waves: Waves, highest: float = np.inf, lowest: float = 0.0) -> Self:
        """The fit at these frequencies, with the ridge and the noise that follow from it."""
        nothing = np.zeros(0)
        return cls(sample, waves, highest, _LEAST_RIDGE, nothing, nothing, nothing, lowest)._solved().refreshed()

    def _stacked(self, factor: np.ndarray) -> np.ndarray:
        """The triangular factor with the prior or the ridge below it."""
        p = self.waves.num_columns
        norms = np.maximum(np.linalg.norm(factor[:, :p], axis=0), 1e-300)
        penalty = self.ridge * norms if self.prior is None else 1 / np.sqrt(self.prior)
        return triangular_factor(np.concatenate([factor, np.eye(p, factor.shape[1]) * penalty[:, None]]))

    def _solved(self) -> Self:
        """The fit with the best coefficients."""
        p = self.waves.num_columns
        R = self._stacked(self.sample.factor(self.waves.blocks(), p))
        coefficients = dtrtrs(R[:p, :p], R[:p, p:])[0]
        return replace(self, coefficients=coefficients, energy=(R[p:, p:] ** 2).sum(axis=0))

    def refreshed(self) -> Self:
        """The fit with its own noise, and with its own ridge if it has become much better."""
        count, fit = self.sample.count, self
        smaller = max(float(np.sqrt(2 * self.energy.max(initial=0.0)) / count), _LEAST_RIDGE)
        if self.prior is None and (not len(self.variance) or smaller < 0.5 * self.ridge):
            fit = replace(self, ridge=smaller)._solved()
        return replace(fit, variance=fit.energy / count + NOISE_FLOOR)

    @property
    def value(self) -> float:
        """F, which refinement lowers."""
        return float(((self.energy + self.sample.count * NOISE_FLOOR) / self.variance).sum())

    @property
    def movable(self) -> np.ndarray:
        """Which frequency components may move, (N m,)."""
        movable = self.waves.subnets != 0
        if self.waves.num_lines:  # beside a lattice, which stays
            movable[: -self.waves.num_lines] = False
        return movable.ravel()

    def _factor(self) -> np.ndarray:
        """The triangular factor of the columns, of the slopes of each output in the frequencies, and of the outputs."""
        p, K = self.coefficients.shape

        def both(z: np.ndarray) -> np.ndarray:
            columns, slopes = self.waves.columns_and_slopes(z, self.coefficients)
            return np.concatenate([columns, slopes.reshape(len(z), -1)], axis=1)

        return self.sample.factor(both, p + K * self.waves.subnets.size)

    def projected(self) -> Projected:
        """Kaufman's Jacobian with respect to the movable components, and the residual, in units of the noise."""
        p, K = self.coefficients.shape
        factor, root = self._stacked(self._factor()), np.sqrt(self.variance)
        factor[:, p:] /= np.concatenate([np.repeat(root, self.waves.subnets.size), root])
        jacobian, residual = trailing_block(factor, p, K)
        return Projected(jacobian[:, self.movable], residual)

    def moved(self, step: np.ndarray) -> Self:
        """The fit at other frequencies, with its ridge and its units kept."""
        subnets = self.waves.subnets.copy()
        subnets.ravel()[self.movable] += step
        subnets = np.clip(subnets, -self.highest, self.highest)
        if self.lowest:
            slow = (np.abs(subnets) < self.lowest) & (subnets != 0)
            subnets = np.where(slow, np.sign(subnets) * self.lowest, subnets)
        return replace(self, waves=self.waves.moved(subnets))._solved()

    def refined(self, steps: int, tolerance: float = 1e-8) -> Self:
        """The fit after at most `steps` steps of the frequencies, or when F is expected to fall by less than the tolerance.

        One unit of F is a move by one standard error, and 1e-8 is 1e-4 of it.
        """
        if not self.movable.any():
            return self
        least = tolerance / (self.sample.count * len(self.energy))  # F is n K
        refreshed = lambda fit: fit.refreshed()
        # At a bound of a frequency the decrease that is predicted never comes: the one that came decides as well.
        limits = {"step_tol": least, "gain_tol": least}
        return project(self, Nielsen(_START), max_steps=steps, refreshed=refreshed, **limits).point

    def covariance(self, variance: np.ndarray) -> np.ndarray:
        """Inverse Fisher information of all coefficients (of their prior, or else of unit variance) and frequencies.

        Coefficients of output 0, 1, ..., then frequencies: (K p + N m, K p + N m). Frequency components that cannot move
        get variance zero.
        """
        p, K = self.coefficients.shape
        free = self.waves.subnets.size
        size, factor = K * p + free, self._factor()
        precision = np.ones(K * p) if self.prior is None else 1 / np.outer(variance, self.prior).ravel()
        H = np.diag(np.r_[precision, np.zeros(free)])
        for k in range(K):
            part = factor[:, np.r_[:p, p + k * free : p + (k + 1) * free]]
            mine = np.r_[k * p : (k + 1) * p, K * p : size]
            H[np.ix_(mine, mine)] += part.T @ part / variance[k]
        live = np.flatnonzero(np.concatenate([np.ones(K * p, bool), self.movable]) & (H.diagonal() > 0))
        scale = 1 / np.sqrt(H.diagonal()[live])
        correlation = H[np.ix_(live, live)] * scale[:, None] * scale + 1e-12 * np.eye(len(live))
        covariance = np.zeros((size, size))
        covariance[np.ix_(live, live)] = cho_solve(cho_factor(correlation), np.diag(scale)) * scale[:, None]
        if self.waves.subnets.shape[1] == 1:
            covariance[np.diag_indices(size)] += np.r_[np.zeros(K * p), _wander(self, variance)]
        return covariance


def _wander(lines: Lines, variance: np.ndarray) -> np.ndarray:
    """The variances that wandering phases add to those of the frequencies, (N,); one feature.

    A line's phase in each of six stretches of the record is compared with that in the whole: where steps between stretches are
    larger than noise makes them, but for one case in a hundred, the phase is a random walk, and so is the error of its slope.
    """
    sample, waves, c = lines.sample, lines.waves, lines.coefficients
    z, extra = sample.z[:, 0], np.zeros(len(waves.subnets))
    known = c.copy()
    if waves.num_lines:  # the lattice beside the lines may be what wanders
        known[(waves.column_subnet > 0) & (waves.column_subnet < len(waves.subnets) - waves.num_lines)] = 0.0
    rest = sample.y - waves.values(sample.z, known)
    edges = np.linspace(-1, 1, _STRETCHES + 1)
    blocks = [np.flatnonzero((z >= low) & (z <= high)) for low, high in itertools.pairwise(edges)]
    C, S = waves.split(c)
    for g in np.flatnonzero(lines.movable):
        frequency, w = waves.subnets[g, 0], int(np.flatnonzero(waves.group == g)[0])
        if min(map(len, blocks)) < 6 or abs(frequency) < 2 * _STRETCHES / 3 * np.pi:
            continue  # too few rows or less than two thirds of a cycle in a stretch
        wave = C[w] + 1j * S[w]
        k = int(np.argmax(np.abs(wave) / np.sqrt(variance)))
        turn = phasors(frequency * z)
        columns = np.column_stack([np.real(turn), np.imag(turn)])
        one = rest[:, k] + columns @ [C[w, k], S[w, k]]
        found = np.array([np.linalg.lstsq(columns[b], one[b])[0] for b in blocks])
        steps = np.diff(np.unwrap(np.angle((found @ [1, 1j]) / wave[k])))
        level = variance[k] / np.abs(1 - sample.rho * np.exp(1j * np.pi * frequency / lines.highest)) ** 2
        expected = np.mean(
            [4 * level / (np.abs(wave[k]) ** 2 * len(b)) for b in blocks]
        )  # twice the variance of a phase
        walk = float((steps**2).mean())
        if walk > 3 * expected:
            extra[g] = (walk - expected) * _STRETCHES**2 / (4 * (_STRETCHES - 1))  # steps are 2 / 6 long
    return extra


class LineSearch:
    """Greedy search for lines with few nonzero components; z fills [-1, 1]^m, y is centered and of unit variance."""

    def __init__(self, sample: Sample, *, interactions: int = 2, degree: int = 0, slowest: float = 0.5):
        self.sample, self.degree, self.slowest = sample, degree, slowest  # `slowest` in cells
        self.m = sample.z.shape[1]
        self.interactions = min(interactions, self.m)
        if self.m == 1:
            self._scan = sample.scans[0]
            self.highest = float(self._scan.frequencies[-1])
            self.cell = self._scan.cell
            # Noise that is correlated has the spectrum 1 / |1 - rho exp(i omega)|^2.
            turn = np.exp(1j * np.pi * self._scan.frequencies / self.highest)
            self._flattening = np.abs(1 - sample.rho * turn) ** 2
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
        white = lines.coefficients.shape[1] * self.sample.log_scale - (half_log if self.sample.rho else 0.0)
        return float(-0.5 * count * np.log(2 * np.pi * np.e * variance).sum() - penalty + white)

    def peaks(self, residual: np.ndarray, variance: np.ndarray, taken: np.ndarray, how_many: int) -> np.ndarray:
        """The highest peaks of the periodogram, at least a cell apart and 0.7 cells from the lines taken: (q, m)."""
        if self.m == 1:
            candidates = self._scan.frequencies[:, None]
            power = (self._scan.power(residual) / variance).sum(axis=1) * self._flattening
            # The gradient in a frequency vanishes at zero: never start in the first half cell.
            power[self._scan.frequencies < self.slowest * self.cell] = 0.0
        else:
            weighted = residual * self.sample.weights[:, None]
            integers, squares = lattice_power(self.sample.z, weighted, self._base, self._counts, self.interactions)
            candidates = integers * self._base
            waves_each = 2.0 ** (np.count_nonzero(integers, axis=1) - 1)
            power = (2 * squares / self.sample.count / variance).sum(axis=1) / waves_each
        found: list[np.ndarray] = []
        for i in np.argsort(-power, kind="stable")[: 400 * how_many]:
            if len(found) == how_many or power[i] <= 0:
                break
            near_new = any(np.abs(candidates[i] - f).max() < self.cell for f in found)
            near_old = len(taken) and (np.abs(np.abs(taken) - candidates[i]).max(axis=1) < 0.7 * self.cell).any()
            if not near_new and not near_old:
                found.append(candidates[i])
        return np.array(found).reshape(-1, self.m)

    def at(self, subnets: np.ndarray, steps: int = 0, tolerance: float = 0.1) -> Lines:
        """The fit at these frequency vectors, or after at most `steps` steps from there."""
        lowest = self.slowest * self.cell if self.slowest > 0.5 else 0.0  # slower variations are a trend
        lines = Lines.at(self.sample, Waves.of(subnets, self.degree), self.highest, lowest)
        return lines.refined(steps, tolerance) if steps else lines

    def run(self, num_lines: int | None = None, *, max_lines: int = 64, listen: Listener = silent) -> Lines:
        """Add lines while the evidence grows, or exactly `num_lines`; then drop those that lower the evidence.

        The constant is always included and is not counted.
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
            # Refining all lines costs their number squared: after the first 16, only when a quarter more have come.
            due = more <= 16 or more >= 1.25 * last_refined or more >= target
            lines = self.at(np.concatenate([lines.waves.subnets, new]), 12 if due else 0)
            last_refined = more if due else last_refined
            value = self.evidence(lines)
            failures = 0 if value > best_value or num_lines is not None else failures + 1
            if failures > _PATIENCE:
                break
            if not failures:
                best, best_value = lines, value
        while num_lines is None and len(best.waves.subnets) > 1:  # drop the weakest while that raises the evidence
            strength = np.bincount(best.waves.column_subnet, (best.coefficients**2).sum(axis=1))
            weakest = 1 + int(np.argmin(strength[1 : len(best.waves.subnets)]))
            trial = self.at(np.delete(best.waves.subnets, weakest, axis=0), 12)
            if self.evidence(trial) <= best_value:
                break
            best, best_value = trial, self.evidence(trial)
        lines = self.at(best.waves.subnets, 40, tolerance=1e-8)
        # A line at the lower bound of frequencies is a trend.
        slow = (np.abs(lines.waves.subnets) <= lines.lowest * (1 + 1e-9)).all(axis=1) & lines.waves.subnets.any(axis=1)
        return self.at(lines.waves.subnets[~slow], 40, tolerance=1e-8) if slow.any() else lines

    def correlation(self) -> float:
        """rho of the noise from the level of the periodogram, in which lines are too few to move medians; zero on short records."""
        if len(self.sample.z) < _LEAST_ROWS:
            return 0.0
        without = self.at(np.zeros((1, 1)))
        residual = self.sample.y - without.waves.values(self.sample.z, without.coefficients)
        first = 1 + (4 * OVERSAMPLING if self.degree else 0)  # a trend absorbs the lowest frequencies
        power = self._scan.power(residual).mean(axis=1)[first:]
        turn = np.exp(1j * np.pi * self._scan.frequencies[first:] / self.highest)
        bands = np.array_split(np.arange(len(power)), 24)
        level = np.log([np.median(power[band]) + 1e-300 for band in bands])
        candidates = np.arange(0.0, 0.96, 0.01)
        shapes = -2 * np.log(np.abs(1 - candidates[:, None] * turn))
        misfit = np.var(level - np.stack([shapes[:, band].mean(axis=1) for band in bands], axis=1), axis=1)
        return float(candidates[np.argmin(misfit)])

    def noise_variance(self, lines: Lines) -> np.ndarray:
        """sigma_k^2 without the bias of the fitted amplitudes and frequencies, (K,)."""
        p, K = lines.coefficients.shape
        freedom = max(self.sample.count - p - lines.waves.subnets.size / K, 1.0)
        return np.maximum(lines.energy / freedom, NOISE_FLOOR)
