"""The dense series against the exact Gaussian process with the same spectrum."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.sparse.linalg import cg

from flm.estimators.imputer import dense
from flm.estimators.imputer.dense import DenseSeries, DenseSpectrum


def exact(spectrum, times, values, at):
    """Posterior mean and deviation from full covariance matrices."""
    S, w = spectrum.variances, spectrum.frequencies
    kernel = lambda a, b: np.cos((a[:, None] - b)[..., None] * w) @ S
    K = kernel(times, times) + spectrum.noise * np.eye(len(times))
    k = kernel(at, times)
    mean = spectrum.mean + k @ np.linalg.solve(K, values - spectrum.mean)
    variance = S.sum() + spectrum.noise - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T))
    return mean, np.sqrt(variance)


def spectrum_of(span, highest, lines=()):
    step = np.pi / span
    w = step * np.arange(int(highest / step) + 1)
    S = 1 / (1 + (w / (6 * step)) ** 2) ** 1.2
    S[0] = 0
    return DenseSpectrum(step, S / S.sum(), np.array(lines, int), 0.8 if len(lines) else 0.0, 0.01, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [(), (40, 41, 42)])
@pytest.mark.parametrize("irregular", [True, False])
def test_fill_is_the_posterior(irregular, lines, monkeypatch):
    rng = np.random.default_rng(0)
    n = 300
    t = np.sort(rng.uniform(0, n, n)) if irregular else np.arange(float(n))
    spectrum = spectrum_of(n - 1.0, np.pi * (1 if not irregular else 0.8), lines)
    S, w = spectrum.variances, spectrum.frequencies
    a, b = rng.normal(size=(2, len(w))) * np.sqrt(S)
    y = 0.3 + np.cos(np.outer(t, w)) @ a + np.sin(np.outer(t, w)) @ b + 0.1 * rng.normal(size=n)
    hidden = rng.random(n) < 0.3
    hidden[100:130] = True
    series = DenseSeries(t[~hidden], y[~hidden])
    steps = []
    monkeypatch.setattr(dense, "cg", lambda *args, **options: cg(*args, **options, callback=steps.append))
    mean, std = series.fill(spectrum, t[hidden])
    expected, deviation = exact(spectrum, t[~hidden], y[~hidden], t[hidden])
    assert len(steps) < 60  # the preconditioner works; without one it takes hundreds
    np.testing.assert_allclose(mean, expected, atol=2e-5)
    np.testing.assert_allclose(std, deviation, rtol=0.05)


@pytest.mark.slow
def test_learning_recovers_slope_noise_and_lines():
    rng = np.random.default_rng(1)
    n = 3000
    walk = np.cumsum(0.1 * rng.normal(size=n))
    daily = 2 * np.sin(2 * np.pi * np.arange(n) / 24 + 1)
    y = walk - walk.mean() + daily + 0.2 * rng.normal(size=n)
    observed = rng.random(n) > 0.2
    observed[1000:1060] = False  # two and a half days
    series = DenseSeries(np.flatnonzero(observed).astype(float), y[observed])
    spectrum = series.learn()
    found = spectrum.step * spectrum.lines
    assert np.abs(found - 2 * np.pi / 24).min() < 2 * spectrum.step
    assert len(spectrum.lines) <= 9
    assert np.sqrt(spectrum.noise) == pytest.approx(0.2, rel=0.2)
    w = spectrum.frequencies
    high = (w > 0.1) & (w < 3)
    slope = np.polyfit(np.log(w[high]), np.log(spectrum.background[high]), 1)[0]
    assert slope == pytest.approx(-2, abs=0.5)
    gap = np.arange(1005.0, 1055.0)
    mean, std = series.fill(spectrum, gap)
    truth = y[1005:1055]
    assert np.abs(mean - truth).mean() < 0.6  # without the line it is 1.3: half a cycle cannot be guessed
    assert (np.abs(mean - truth) < 2.5 * std).mean() > 0.9
    assert std.max() < 1.5


@pytest.mark.slow
def test_the_gradient_of_the_likelihood_is_that_of_differences(monkeypatch):
    rng, asked = np.random.default_rng(3), []
    monkeypatch.setattr(dense, "minimize", lambda *args, **options: asked.append(args) or minimize(*args, **options))
    times = np.sort(rng.uniform(0, 200, 200))
    DenseSeries(times, 0.2 * np.cumsum(rng.normal(size=200)) + np.sin(0.3 * times)).learn()
    for objective, start in asked:
        value = lambda theta, objective=objective: objective(theta)[0]
        for theta in (start, start + np.array([0.3, 0.2, -0.4, 0.5])):
            differences = approx_fprime(theta, value, 1e-6)
            np.testing.assert_allclose(objective(theta)[1], differences, atol=1e-5)


def test_coefficients_are_the_series():
    rng = np.random.default_rng(2)
    t = np.sort(rng.choice(200, 150, replace=False)).astype(float)
    y = np.sin(0.2 * t) + 0.05 * rng.normal(size=150)
    series = DenseSeries(t, y)
    spectrum = series.learn()
    g = series.coefficients(spectrum)
    at = np.linspace(t[0], t[-1], 77)
    direct = spectrum.mean + (np.exp(1j * np.outer(at - t[0], spectrum.frequencies)) @ g).real
    np.testing.assert_allclose(series.fill(spectrum, at)[0], direct, atol=1e-8)
    assert np.abs(direct - np.sin(0.2 * at)).max() < 0.1


def test_a_spectrum_is_carried_to_a_longer_record():
    spectrum = spectrum_of(100.0, np.pi, (10,))
    longer = spectrum.stretched(np.arange(401.0))
    assert longer.step == pytest.approx(spectrum.step / 4)
    assert longer.background.sum() == pytest.approx(spectrum.background.sum(), rel=0.1)
    assert longer.lines[0] == 40
    assert spectrum.stretched(np.arange(102.0)) is spectrum


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_and_constant_series(n):
    series = DenseSeries(np.arange(float(n)), np.full(n, 5.0))
    mean, std = series.fill(series.learn(), np.array([0.5]))
    np.testing.assert_allclose(mean, 5.0)
    assert np.isfinite(std).all()
