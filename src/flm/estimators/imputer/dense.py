"""One series, all harmonics: a Fourier series as dense as the clock, with a smooth spectral prior and sharp lines.

y(t) = mean + sum_j a_j cos w_j t + b_j sin w_j t + noise,  w_j = 2 pi j / (2 span), up to the highest frequency of the
clock; a_j, b_j ~ N(0, S_j) with S_j = A (1 + (w_j / w_0)^2)^(-b/2), plus free variance at lines that stand out of it. So
values have the covariance k(t - s) = sum_j S_j cos w_j (t - s), and the posterior mean is one linear system,

    (K + noise I) alpha = y - mean,   (a_j, b_j) = S_j (cos, sin)-sums of alpha,

solved by conjugate gradients with nonuniform FFTs. Nearest observed neighbours give what is local: the likelihood for
A, w_0, b and the noise (product of one-step conditionals; Vecchia 1988), the preconditioner, and the error bars.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import fft
from scipy.linalg import cho_factor, cho_solve
from scipy.ndimage import median_filter
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator, cg

from flm.estimators.periodogram import Clock, NonuniformFFT, fast_length
from flm.results.progress import Listener, Progress, silent
from flm.series.tables import WaveTable

_NEIGHBOURS = 20  # before (preconditioner), and on each side (error bars)
_CONDITIONALS, _BEFORE = 500, 12  # of the likelihood: a sample of one-step predictions, each from so many values before
_TABLE = 8  # points of the kernel table per shortest half-period, irregular clocks
_MAX_LINES, _LINE_PASSES = 24, 3


@dataclass(frozen=True, eq=False)
class DenseSpectrum:
    """The prior: w_j = j * step, variances of both coefficients, harmonics of lines with theirs, noise, mean."""

    step: float
    background: np.ndarray  # (J + 1,), the first zero
    lines: np.ndarray  # (L,) harmonics j that belong to lines
    line_variance: float
    noise: float
    mean: float

    @property
    def variances(self) -> np.ndarray:
        """S_j, (J + 1,)."""
        total = self.background.copy()
        total[self.lines] += self.line_variance
        return total

    @property
    def frequencies(self) -> np.ndarray:
        """w_j, (J + 1,)."""
        return self.step * np.arange(len(self.background))

    def stretched(self, times: np.ndarray) -> DenseSpectrum:
        """The same spectral density for a record that is longer or shorter: as many harmonics as its span needs.

        A sum over twice as many frequencies is the same integral when each variance is halved.
        """
        span = float(times.max() - times.min())
        ratio = span * self.step / np.pi  # new span over the one learned from
        if span == 0 or abs(ratio - 1) < 0.05:
            return self
        old, step = self.frequencies, np.pi / span
        new = step * np.arange(max(int(np.floor(old[-1] / step * (1 + 1e-9))), 2) + 1)
        background = np.interp(new, old[1:], self.background[1:]) * (step / self.step)
        background[0] = 0.0
        lines = np.unique(np.clip(np.round(old[self.lines] / step), 1, len(new) - 1).astype(int))
        return replace(self, step=step, background=background, lines=lines)

    def line_columns(self, times: np.ndarray) -> np.ndarray:
        """cos and sin of the lines' harmonics at these times, (n, 2 L)."""
        return WaveTable.at(times, self.step * self.lines).columns()


class _Kernel:
    """k(lag) by a table and cubic interpolation; exact at the ticks of a regular clock."""

    def __init__(self, variances: np.ndarray, step: float, regular_step: float | None):
        J = len(variances) - 1
        ticks = 2 * np.pi / (step * regular_step) if regular_step else 0.0
        if ticks >= 2 * J - 0.5 and abs(ticks - round(ticks)) < 1e-6 * ticks / J:
            length = round(ticks)  # every lag is a point of the table
        else:
            length = fast_length(2 * _TABLE * J)
        half = np.zeros(length // 2 + 1, complex)
        half[: J + 1] = variances * (length / 2)
        if length == 2 * J:  # Nyquist's frequency stands alone
            half[J] *= 2
        self.table = np.asarray(fft.irfft(half, length))
        self.at_zero = float(variances.sum())
        self._per_lag = length * step / (2 * np.pi)

    def reader(self, lag: np.ndarray) -> csr_matrix:
        """The matrix that reads these lags off a table: a single entry per row where all are exact, else Lagrange's cubic."""
        position = np.abs(lag).ravel() * self._per_lag
        taps = np.rint(position)[:, None].astype(int)
        weights = np.ones(taps.shape)
        if np.abs(position - taps[:, 0]).max(initial=0.0) > 1e-5:
            taps = np.floor(position)[:, None].astype(int) + np.arange(-1, 3)
            u = position - taps[:, 1]
            products = (-u * (u - 1) * (u - 2) / 6, (u + 1) * (u - 1) * (u - 2) / 2)
            products += (-(u + 1) * u * (u - 2) / 2, (u + 1) * u * (u - 1) / 6)
            weights = np.stack(products, axis=1)
        ends = np.arange(0, taps.size + 1, taps.shape[1])
        size = len(self.table)
        return csr_matrix((weights.ravel(), np.mod(taps, size).ravel(), ends), shape=(len(taps), size))

    def __call__(self, lag: np.ndarray) -> np.ndarray:
        return (self.reader(lag) @ self.table).reshape(lag.shape)


class DenseSeries:
    """The observed values of a series at increasing times: finds the prior, fills what is missing."""

    def __init__(self, times: np.ndarray, values: np.ndarray):
        self.times, self.values = times, values
        self.clock = Clock.of(times)

    def learn(self, *, seed: int = 0, listen: Listener = silent) -> DenseSpectrum:
        """The prior of largest neighbour likelihood, then again without the lines that stand out of it."""
        mean = float(self.values.mean())
        scale = float(self.values.std())
        span = self.clock.span
        if len(self.times) < 4 or span == 0 or scale == 0:
            none = np.zeros(0, int)
            return DenseSpectrum(np.pi / (span or 1.0), np.zeros(2), none, 0.0, max(scale**2, 1e-12), mean)
        # On a regular clock the period 2 span is a whole number of ticks.
        step = np.pi / (round(span / self.clock.step) * self.clock.step if self.clock.step else span)
        J = max(int(np.floor(self.clock.highest_frequency / step * (1 + 1e-9))), 2)
        frequencies = step * np.arange(J + 1)
        # Rows of indices: a value and those before it.
        before, n = min(_BEFORE, len(self.times) - 1), len(self.times)
        rows = np.arange(before, n)
        if len(rows) > _CONDITIONALS:
            rows = np.sort(np.random.default_rng(seed).choice(rows, _CONDITIONALS, replace=False))
        together = rows[:, None] - np.arange(before + 1)
        y = (self.values - mean) / scale
        theta = np.array([0.0, np.log(8 * np.pi / span / frequencies[-1]), 2.0, -5.0])
        theta = self._maximize(theta, frequencies, together, y)
        background = DenseSpectrum(step, _shape(theta, frequencies), np.zeros(0, int), 0.0, np.exp(theta[3]), 0.0)
        for pass_ in range(_LINE_PASSES):
            listen(Progress(f"{len(background.lines) // 3} lines", share=(1 + pass_) / (1 + _LINE_PASSES)))
            found = self._lines(background, y)
            if not len(found):
                break
            # A line between two harmonics is spread over its neighbours: free variance on three.
            harmonics = np.clip(np.add.outer(found, (-1, 0, 1)).ravel(), 1, J)
            both = replace(background, lines=np.union1d(background.lines, harmonics), line_variance=1.0)
            U = both.line_columns(self.times - self.times[0])
            of_lines = both.line_variance * (U @ (U.T @ self.weights(both, y)))  # their posterior mean
            theta = self._maximize(theta, frequencies, together, y - of_lines)
            background = replace(both, background=_shape(theta, frequencies), noise=np.exp(theta[3]))
        unit, found = scale**2, background
        variances = {"background": unit * found.background, "line_variance": unit * found.line_variance}
        return replace(found, **variances, noise=unit * float(found.noise), mean=mean)

    def _maximize(self, start: np.ndarray, frequencies: np.ndarray, together: np.ndarray, y: np.ndarray) -> np.ndarray:
        lags = self.times[together][:, :, None] - self.times[together][:, None, :]
        targets = y[together]
        reader = _Kernel(_shape(start, frequencies), frequencies[1], self.clock.step).reader(lags)

        def objective(theta: np.ndarray) -> float:
            kernel = _Kernel(_shape(theta, frequencies), frequencies[1], self.clock.step)
            noise = float(np.exp(theta[3])) + 1e-8 * kernel.at_zero
            K = (reader @ kernel.table).reshape(lags.shape) + noise * np.eye(lags.shape[1])
            return -_conditional_likelihood(K, targets)

        bounds = [(-8.0, 8.0), (np.log(0.5 * frequencies[1] / frequencies[-1]), 0.0), (0.0, 8.0), (-14.0, 1.0)]
        found = minimize(objective, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 30, "ftol": 1e-8})
        return found.x

    def _lines(self, spectrum: DenseSpectrum, y: np.ndarray) -> np.ndarray:
        """Harmonics where the whitened series has a peak above 2.5 log n times its local median level.

        Gaps give a strong peak weaker companions: only peaks of at least a third of the strongest count in one pass.
        """
        power = np.abs(self._plan(spectrum, self.times).forward(self.weights(spectrum, y))) ** 2
        level = median_filter(power, size=min(201, 2 * (len(power) // 4) + 1), mode="nearest") / np.log(2)
        ratio = power / np.maximum(level, 1e-300)
        ratio[:3] = 0.0
        least = max(2.5 * np.log(len(y)), ratio.max() / 3)
        taken = list(spectrum.lines)
        found: list[int] = []
        for j in np.argsort(-ratio, kind="stable"):
            if ratio[j] < least or len(found) + len(taken) // 3 == _MAX_LINES:
                break
            if all(abs(int(j) - i) > 3 for i in found) and all(abs(int(j) - i) > 2 for i in taken):
                found.append(int(j))
        return np.array(sorted(found), int)

    def _plan(self, spectrum: DenseSpectrum, times: np.ndarray) -> NonuniformFFT:
        """Sums over all harmonics at these times, counted from the first observed one."""
        return NonuniformFFT(times - self.times[0], spectrum.step, len(spectrum.background) - 1)

    def weights(self, spectrum: DenseSpectrum, centered: np.ndarray) -> np.ndarray:
        """alpha = (K + noise I)^-1 (y - mean)."""
        n = len(centered)
        plan = self._plan(spectrum, self.times)

        def covariance(v: np.ndarray) -> np.ndarray:
            return plan.backward(spectrum.variances * plan.forward(v.ravel())) + spectrum.noise * v.ravel()

        A = LinearOperator((n, n), covariance, dtype=float)  # pyright: ignore[reportCallIssue]
        M = LinearOperator((n, n), self._preconditioner(spectrum), dtype=float)  # pyright: ignore[reportCallIssue]
        return cg(A, centered, rtol=1e-8, maxiter=500, M=M)[0]

    def _preconditioner(self, spectrum: DenseSpectrum) -> Callable[[np.ndarray], np.ndarray]:
        """(K + noise)^-1, nearly: neighbours for the background, Woodbury's identity for the lines."""
        W = self._whitening(spectrum)
        if not len(spectrum.lines):
            return lambda v: W.T @ (W @ v.ravel())
        U = spectrum.line_columns(self.times - self.times[0])
        small, MU = _line_precision(spectrum, W @ U), W.T @ (W @ U)

        def apply(v: np.ndarray) -> np.ndarray:
            first = W.T @ (W @ v.ravel())
            return first - MU @ cho_solve(small, U.T @ first)

        return apply

    def _whitening(self, spectrum: DenseSpectrum) -> csr_matrix:
        """Rows (e_i - b_i) / sqrt(d_i), b_i the regression of value i on its neighbours before: W^T W ~ (K + noise)^-1."""
        n, q = len(self.times), min(_NEIGHBOURS, len(self.times) - 1)
        kernel = _Kernel(spectrum.background, spectrum.step, self.clock.step)
        index = np.arange(n)[:, None] - np.arange(q + 1)
        valid = index >= 0
        entries = np.zeros((n, q + 1))
        for start in range(0, n, 4096):
            part = slice(start, start + 4096)
            t = self.times[np.maximum(index[part], 0)]
            K = kernel(t[:, :, None] - t[:, None, :])
            both = valid[part][:, :, None] & valid[part][:, None, :]
            K = np.where(both, K, 0.0) + (spectrum.noise + 1e-8 * kernel.at_zero) * np.eye(q + 1)
            b = np.linalg.solve(K[:, 1:, 1:], K[:, 1:, :1])[:, :, 0]
            d = K[:, 0, 0] - (b * K[:, 1:, 0]).sum(axis=1)
            root = 1 / np.sqrt(np.maximum(d, 1e-12 * kernel.at_zero + 1e-300))
            entries[part, 0] = root
            entries[part, 1:] = -b * root[:, None] * valid[part, 1:]
        rows = np.repeat(np.arange(n), q + 1)
        return csr_matrix((entries.ravel(), (rows, np.maximum(index, 0).ravel())), shape=(n, n))

    def coefficients(self, spectrum: DenseSpectrum) -> np.ndarray:
        """Complex g_j with y(t) = mean + Re sum_j g_j exp(i w_j (t - t_0)), t_0 the first observed time."""
        alpha = self.weights(spectrum, self.values - spectrum.mean)
        return spectrum.variances * self._plan(spectrum, self.times).forward(alpha)

    def fill(self, spectrum: DenseSpectrum, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and standard deviation of an observation (noise included) at other times."""
        mean = self._plan(spectrum, times).backward(self.coefficients(spectrum))
        return spectrum.mean + mean, self._deviation(spectrum, times)

    def _deviation(self, spectrum: DenseSpectrum, times: np.ndarray) -> np.ndarray:
        """Background from the nearest values on both sides; lines from the whole record."""
        n = len(self.times)
        clock = Clock.of(np.concatenate([self.times, times]))
        regular = self.clock.step if clock.step and self.clock.step else None
        kernel = _Kernel(spectrum.background, spectrum.step, regular)
        width = min(2 * _NEIGHBOURS, n)
        first = np.clip(np.searchsorted(self.times, times) - width // 2, 0, n - width)
        U = spectrum.line_columns(self.times - self.times[0])
        small = _line_precision(spectrum, self._whitening(spectrum) @ U) if len(spectrum.lines) else None
        out = np.empty(len(times))
        for start in range(0, len(times), 2048):
            part = slice(start, start + 2048)
            index = first[part, None] + np.arange(width)
            near = self.times[index]
            K = kernel(near[:, :, None] - near[:, None, :])
            K += (spectrum.noise + 1e-8 * kernel.at_zero) * np.eye(width)
            k = kernel(near - times[part, None])
            b = np.linalg.solve(K, k[:, :, None])[:, :, 0]
            out[part] = kernel.at_zero - (k * b).sum(axis=1) + spectrum.noise
            if small is not None:
                # What the neighbours do not already say about the lines at this time.
                left = spectrum.line_columns(times[part] - self.times[0]) - np.einsum("pw,pwl->pl", b, U[index])
                out[part] += (left * cho_solve(small, left.T).T).sum(axis=1)
        return np.sqrt(np.maximum(out, spectrum.noise))


def _line_precision(spectrum: DenseSpectrum, whitened: np.ndarray) -> tuple[np.ndarray, bool]:
    """The factored precision matrix of the lines' amplitudes, from their columns without the background."""
    return cho_factor(whitened.T @ whitened + np.eye(whitened.shape[1]) / spectrum.line_variance)


def _shape(theta: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """S_j of the background, of total variance exp(theta_0)."""
    corner = np.exp(theta[1]) * frequencies[-1]
    S = (1 + (frequencies / corner) ** 2) ** (-theta[2] / 2)
    S[0] = 0.0
    return np.exp(theta[0]) * S / S.sum()


def _conditional_likelihood(K: np.ndarray, targets: np.ndarray) -> float:
    """Mean log density of each first target given the others, covariances (rows, 1 + q, 1 + q)."""
    b = np.linalg.solve(K[:, 1:, 1:], K[:, 1:, :1])[:, :, 0]
    mean = (b * targets[:, 1:]).sum(axis=1)
    variance = np.maximum(K[:, 0, 0] - (b * K[:, 1:, 0]).sum(axis=1), 1e-12)
    return float(-0.5 * (np.log(2 * np.pi * variance) + (targets[:, 0] - mean) ** 2 / variance).mean())
