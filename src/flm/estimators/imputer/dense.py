"""One series, all harmonics: a Fourier series as dense as the clock, with a smooth spectral prior and sharp lines.

y(t) = mean + sum_j a_j cos w_j t + b_j sin w_j t + noise,  w_j = 2 pi j / (2 span), up to the highest frequency of the
clock; a_j, b_j ~ N(0, S_j) with S_j = A (1 + (w_j / w_0)^2)^(-b/2), plus free variance at lines that stand out. So
values have the covariance k(t - s) = sum_j S_j cos w_j (t - s), and the posterior mean is one linear system,

    (K + noise I) alpha = y - mean,   (a_j, b_j) = S_j (cos, sin)-sums of alpha,

solved by conjugate gradients with nonuniform FFTs. The nearest observed neighbors give all that is local: the likelihood of
A, w_0, b and the noise (product of one-step conditionals; Vecchia 1988), the preconditioner, and the error bars.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import fft
from scipy.linalg import cho_factor, cho_solve
from scipy.ndimage import median_filter
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator, cg

from flm.estimators.imputer.coupled import Filled
from flm.estimators.periodogram import Clock, NonuniformFFT
from flm.results.progress import Listener, Progress, silent, within
from flm.series.tables import WaveTable

_NEIGHBORS = 20  # before (preconditioner), and on each side (error bars)
_CONDITIONALS, _BEFORE = 500, 12  # of the likelihood: a sample of predictions, each from this many values before
_TABLE = 8  # points of the kernel table per shortest half-period
_MAX_LINES, _LINE_PASSES = 24, 3


@dataclass(frozen=True, eq=False)
class DenseSpectrum:
    """The prior: w_j = j * step, the variance of both coefficients, the harmonics of lines with theirs, noise and mean."""

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
    """k(lag) from a table over one period, interpolated by Lagrange's cubic; exact at the ticks of a regular clock."""

    def __init__(self, variances: np.ndarray, step: float):
        J = len(variances) - 1
        half = np.r_[variances, np.zeros((_TABLE - 1) * J)] * (_TABLE * J)
        table = np.asarray(fft.irfft(half, 2 * _TABLE * J))
        self._table = np.r_[table[-1], table, table[:2]]  # one point before zero, and around the period
        self._per_lag = _TABLE * J * step / np.pi
        self.at_zero = float(variances.sum())

    def __call__(self, lag: np.ndarray) -> np.ndarray:
        position = np.mod(np.abs(lag) * self._per_lag, len(self._table) - 3)
        place = position.astype(int)
        u = position - place
        a, b, c, d = (self._table[place + i] for i in range(4))  # at -1, 0, 1, 2
        return b + u * (c - a / 3 - b / 2 - d / 6 + u * ((a + c) / 2 - b + u * ((d - a) / 6 + (b - c) / 2)))


def _regressed(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From covariances (rows, 1 + q, 1 + q): coefficients (rows, q) of the first value on the others, and the variance left."""
    b = np.linalg.solve(K[:, 1:, 1:], K[:, 1:, :1])[:, :, 0]
    return b, K[:, 0, 0] - (b * K[:, 1:, 0]).sum(axis=1)


class DenseSeries:
    """The observed values of a series at increasing times: finds the prior and fills what is missing."""

    def __init__(self, times: np.ndarray, values: np.ndarray):
        self.times, self.values = times, values
        self.clock = Clock.of(times)

    def learn(self, *, seed: int = 0, listen: Listener = silent) -> DenseSpectrum:
        """The prior of largest neighbour likelihood, found again without the lines that stand out of the first one."""
        mean, scale, n = float(self.values.mean()), float(self.values.std()), len(self.times)
        span, none = self.clock.span, np.zeros(0, int)
        if n < 4 or span == 0 or scale == 0:
            return DenseSpectrum(np.pi / (span or 1.0), np.zeros(2), none, 0.0, max(scale**2, 1e-12), mean)
        # On a regular clock the period 2 span is a whole number of ticks.
        step = np.pi / (round(span / self.clock.step) * self.clock.step if self.clock.step else span)
        J = max(int(np.floor(self.clock.highest_frequency / step * (1 + 1e-9))), 2)
        frequencies = step * np.arange(J + 1)
        rows = np.arange(min(_BEFORE, n - 1), n)
        if len(rows) > _CONDITIONALS:
            rows = np.sort(np.random.default_rng(seed).choice(rows, _CONDITIONALS, replace=False))
        together = rows[:, None] - np.arange(min(_BEFORE, n - 1) + 1)  # a value and those before it
        y, of_lines = (self.values - mean) / scale, 0.0
        theta = np.array([0.0, np.log(8 * np.pi / span / frequencies[-1]), 2.0, -5.0])
        spectrum = DenseSpectrum(step, np.zeros(J + 1), none, 0.0, 0.0, 0.0)
        for pass_ in range(_LINE_PASSES + 1):
            theta = self._maximize(theta, frequencies, together, y - of_lines)
            spectrum = replace(spectrum, background=_shape(theta, frequencies)[0], noise=float(np.exp(theta[3])))
            listen(Progress(f"{len(spectrum.lines) // 3} lines", share=(1 + pass_) / (1 + _LINE_PASSES)))
            found = self._lines(spectrum, y) if pass_ < _LINE_PASSES else none
            if not len(found):
                break
            # A line between two harmonics is spread over its neighbors: free variance on three.
            harmonics = np.clip(np.add.outer(found, (-1, 0, 1)).ravel(), 1, J)
            spectrum = replace(spectrum, lines=np.union1d(spectrum.lines, harmonics), line_variance=1.0)
            U = spectrum.line_columns(self.times - self.times[0])
            of_lines = U @ (U.T @ self.weights(spectrum, y))  # their posterior mean
        unit = scale**2
        spectrum = replace(spectrum, background=unit * spectrum.background, line_variance=unit * spectrum.line_variance)
        return replace(spectrum, noise=unit * spectrum.noise, mean=mean)

    def _maximize(self, start: np.ndarray, frequencies: np.ndarray, together: np.ndarray, y: np.ndarray) -> np.ndarray:
        """A, w_0, b and the noise that make the first value of each row of `together`, given the others, most likely."""
        lags = np.abs(self.times[together][:, :, None] - self.times[together][:, None, :])
        apart, place = np.unique(lags, return_inverse=True)
        plan = NonuniformFFT(apart, frequencies[1], len(frequencies) - 1)
        targets, eye = y[together], np.eye(lags.shape[1])

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            """Minus the mean log likelihood, and its gradient: back from the errors over covariances and spectrum to theta."""
            S, slopes = _shape(theta, frequencies)
            jitter = 1e-8 * np.exp(theta[0])
            K = plan.backward(S)[place].reshape(lags.shape) + (np.exp(theta[3]) + jitter) * eye
            sides = np.stack([K[:, 1:, 0], targets[:, 1:]], axis=2)
            b, a = np.moveaxis(np.linalg.solve(K[:, 1:, 1:], sides), 2, 0)
            variance = np.maximum(K[:, 0, 0] - (b * K[:, 1:, 0]).sum(axis=1), 1e-12)
            error = targets[:, 0] - (b * targets[:, 1:]).sum(axis=1)
            value = 0.5 * (np.log(2 * np.pi * variance) + error**2 / variance).mean()
            # With w = (1, -b): d variance = w dK w and d error = -(0, a) dK w.
            first = np.ones((len(b), 1))
            w, own = np.concatenate([first, -b], axis=1), np.concatenate([0 * first, a], axis=1)
            left = (0.5 * (1 / variance - (error / variance) ** 2))[:, None] * w - (error / variance)[:, None] * own
            by_lag = np.bincount(place.ravel(), (left[:, :, None] * w[:, None, :]).ravel(), len(apart)) / len(w)
            by_noise = (left * w).sum() / len(w)
            gradient = np.append(slopes @ np.real(plan.forward(by_lag)), np.exp(theta[3]) * by_noise)
            gradient[0] += jitter * by_noise
            return float(value), gradient

        bounds = [(-8.0, 8.0), (np.log(0.5 * frequencies[1] / frequencies[-1]), 0.0), (0.0, 8.0), (-14.0, 1.0)]
        # The likelihood is a mean over rows: a hundredth of a natural logarithm in all is enough.
        options = {"maxiter": 30, "ftol": float(np.clip(1e-2 / len(together), 1e-6, 1e-4))}
        return minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x

    def _lines(self, spectrum: DenseSpectrum, y: np.ndarray) -> np.ndarray:
        """Harmonics where the whitened series has a peak above 2.5 log n times its local median level.

        Gaps give a strong peak weaker companions: in one pass only peaks of at least a third of the strongest count.
        """
        power = np.abs(self._plan(spectrum, self.times).forward(self.weights(spectrum, y))) ** 2
        level = median_filter(power, size=min(201, 2 * (len(power) // 4) + 1), mode="nearest") / np.log(2)
        ratio = power / np.maximum(level, 1e-300)
        ratio[:3] = 0.0
        least = max(2.5 * np.log(len(y)), ratio.max() / 3)
        found: list[int] = []
        for j in np.argsort(-ratio, kind="stable"):
            if ratio[j] < least or len(found) + len(spectrum.lines) // 3 == _MAX_LINES:
                break
            if all(abs(j - i) > 3 for i in found) and (np.abs(j - spectrum.lines) > 2).all():
                found.append(int(j))
        return np.array(sorted(found), int)

    def _plan(self, spectrum: DenseSpectrum, times: np.ndarray) -> NonuniformFFT:
        """The transform for sums over all harmonics at these times, counted from the first observed one."""
        return NonuniformFFT(times - self.times[0], spectrum.step, len(spectrum.background) - 1)

    def weights(self, spectrum: DenseSpectrum, centered: np.ndarray) -> np.ndarray:
        """alpha = (K + noise I)^-1 (y - mean), preconditioned by neighbors and, for the lines, Woodbury's identity."""
        n, plan, W = len(centered), self._plan(spectrum, self.times), self._whitening(spectrum)
        U = spectrum.line_columns(self.times - self.times[0])
        back, WU = W.T, W @ U
        small = _line_precision(spectrum, WU)

        def covariance(v: np.ndarray) -> np.ndarray:
            return plan.backward(spectrum.variances * plan.forward(v.ravel())) + spectrum.noise * v.ravel()

        def nearly_inverse(v: np.ndarray) -> np.ndarray:
            first = W @ v.ravel()
            return back @ (first - WU @ cho_solve(small, WU.T @ first))

        A = LinearOperator((n, n), covariance, dtype=float)  # pyright: ignore[reportCallIssue]
        M = LinearOperator((n, n), nearly_inverse, dtype=float)  # pyright: ignore[reportCallIssue]
        return cg(A, centered, rtol=1e-8, maxiter=500, M=M)[0]

    def _whitening(self, spectrum: DenseSpectrum) -> csr_matrix:
        """Rows (e_i - b_i) / sqrt(d_i), b_i the regression of value i on its neighbors before: W^T W ~ (K + noise)^-1."""
        n, q = len(self.times), min(_NEIGHBORS, len(self.times) - 1)
        kernel = _Kernel(spectrum.background, spectrum.step)
        index = np.arange(n)[:, None] - np.arange(q + 1)
        valid = index >= 0
        entries = np.zeros((n, q + 1))
        for start in range(0, n, 4096):
            part = slice(start, start + 4096)
            t = self.times[np.maximum(index[part], 0)]
            both = valid[part][:, :, None] & valid[part][:, None, :]
            K = np.where(both, kernel(t[:, :, None] - t[:, None, :]), 0.0)
            b, d = _regressed(K + (spectrum.noise + 1e-8 * kernel.at_zero) * np.eye(q + 1))
            row = np.concatenate([np.ones((len(b), 1)), -b * valid[part, 1:]], axis=1)
            entries[part] = row / np.sqrt(np.maximum(d, 1e-12 * kernel.at_zero + 1e-300))[:, None]
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
        """Standard deviations: of the background from the nearest values on both sides, of lines from the whole record."""
        n, kernel = len(self.times), _Kernel(spectrum.background, spectrum.step)
        width = min(2 * _NEIGHBORS, n)
        first = np.clip(np.searchsorted(self.times, times) - width // 2, 0, n - width)
        U = spectrum.line_columns(self.times - self.times[0])
        small = _line_precision(spectrum, self._whitening(spectrum) @ U)
        out = np.empty(len(times))
        for start in range(0, len(times), 2048):
            part = slice(start, start + 2048)
            index = first[part, None] + np.arange(width)
            near = np.concatenate([times[part, None], self.times[index]], axis=1)
            jitter = np.r_[0.0, np.full(width, spectrum.noise + 1e-8 * kernel.at_zero)]
            b, out[part] = _regressed(kernel(near[:, :, None] - near[:, None, :]) + np.diag(jitter))
            # The part that the neighbors do not already say about the lines at this time.
            left = spectrum.line_columns(times[part] - self.times[0]) - np.einsum("pw,pwl->pl", b, U[index])
            out[part] += (left * cho_solve(small, left.T).T).sum(axis=1)
        return np.sqrt(np.maximum(out + spectrum.noise, spectrum.noise))


def _line_precision(spectrum: DenseSpectrum, whitened: np.ndarray) -> tuple[np.ndarray, bool]:
    """The factored precision matrix of the lines' amplitudes, from their columns without the background."""
    return cho_factor(whitened.T @ whitened + np.eye(whitened.shape[1]) / max(spectrum.line_variance, 1e-300))


def _shape(theta: np.ndarray, frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """S_j of the background, of total variance exp(theta_0), and its derivatives in theta_0, theta_1 and theta_2, (3, J + 1)."""
    squares = (frequencies / (np.exp(theta[1]) * frequencies[-1])) ** 2
    S = (1 + squares) ** (-theta[2] / 2)
    S[0] = 0.0
    S *= np.exp(theta[0]) / S.sum()
    logs = np.stack([np.ones(len(S)), theta[2] * squares / (1 + squares), -0.5 * np.log1p(squares)])
    logs[1:] -= (logs[1:] @ S / S.sum())[:, None]  # the total stays
    return S, logs * S


@dataclass(frozen=True, eq=False, kw_only=True)
class Dense:
    """All harmonics of the record under a learned prior, channel by channel."""

    spectra: tuple[DenseSpectrum, ...]

    @classmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, seed: int, listen: Listener) -> Dense:
        """The prior of every channel."""
        spectra, C = [], values.shape[1]
        for c, column in enumerate(values.T):
            seen = ~np.isnan(column)
            told = within(listen, c / C, (c + 1) / C)
            spectra.append(DenseSeries(steps[seen], column[seen]).learn(seed=seed, listen=told))
        return cls(spectra=tuple(spectra))

    def fill(self, steps: np.ndarray, values: np.ndarray, listen: Listener) -> Filled:
        """The table filled channel by channel: one linear system each, by conjugate gradients."""
        filled = Filled(np.zeros(values.shape), np.zeros(values.shape))
        for c, (spectrum, column) in enumerate(zip(self.spectra, values.T, strict=True)):
            listen(Progress("filling", share=c / values.shape[1]))
            missing = np.isnan(column)
            if missing.all():
                filled.mean[:, c], filled.std[:, c] = spectrum.mean, np.sqrt(spectrum.variances.sum() + spectrum.noise)
            elif missing.any():
                series = DenseSeries(steps[~missing], column[~missing])
                filled.mean[missing, c], filled.std[missing, c] = series.fill(spectrum.stretched(steps), steps[missing])
        return filled
