"""Marginal likelihood and posterior against the Gaussian formulas written out."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from flm.estimators import evidence
from flm.estimators.evidence import Posterior, Sample, best_scale, log_evidence
from flm.estimators.regressor.lattice_fit import snapped_periods
from flm.estimators.regressor.spectral_prior import SpectralPrior, choose_lattice, maximize_evidence
from flm.estimators.waves import Waves


def problem(n=40, K=2, seed=0):
    rng = np.random.default_rng(seed)
    waves = Waves.on_lattice(np.array([1.1, 0.8]), np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 0]]))
    z, y = rng.uniform(-1, 1, (n, 2)), rng.normal(size=(n, K))
    weights = rng.integers(1, 4, n).astype(float)
    return waves, Sample(z, y, weights)


@pytest.mark.parametrize("n", [6, 40])
def test_evidence_is_the_gaussian_density_of_repeated_rows(n):
    waves, sample = problem(n)
    rng = np.random.default_rng(1)
    s = np.exp(rng.normal(size=waves.num_columns))
    repeat = np.repeat(np.arange(n), sample.weights.astype(int))
    Phi = waves.columns(sample.z)[repeat]
    variance = np.array([0.3, 2.0])
    expected = sum(
        multivariate_normal(np.zeros(len(Phi)), v * (np.eye(len(Phi)) + (Phi * s) @ Phi.T)).logpdf(sample.y[repeat, k])
        for k, v in enumerate(variance)
    )
    value, _ = log_evidence(replace(sample, known_noise=variance).compressed(waves), s)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("known", [None, np.array([0.5, 1.5])])
def test_gradient_and_best_noise(known):
    waves, sample = problem()
    data = replace(sample, known_noise=known).compressed(waves)
    log_s = np.random.default_rng(2).normal(size=waves.num_columns)
    value, gradient = log_evidence(data, np.exp(log_s))
    for i in range(len(log_s)):
        step = np.zeros(len(log_s))
        step[i] = 1e-5
        ends = [log_evidence(data, np.exp(log_s + sign * step))[0] for sign in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)
    if known is None:
        found = Posterior.of(data, np.exp(log_s)).variance
        fixed = [replace(data, known_noise=factor * found) for factor in (1.0, 0.9, 1.1)]
        values = [log_evidence(one, np.exp(log_s))[0] for one in fixed]
        assert values[0] == pytest.approx(value, rel=1e-10)
        assert max(values[1:]) < value


def test_a_factorization_that_rounding_stops_is_tried_with_more_jitter(monkeypatch):
    """As 2,225 weeks of carbon dioxide under 512 columns do at some steps of the search."""
    waves, sample = problem()
    data, s = sample.compressed(waves), np.ones(waves.num_columns)
    value, gradient = log_evidence(data, s)
    factorize, stopped = evidence.dpotrf, []

    def stops_at_first(A, **options):
        stopped.append(len(stopped) < 2)
        return (A, 3) if stopped[-1] else factorize(A, **options)

    monkeypatch.setattr(evidence, "dpotrf", stops_at_first)
    again = log_evidence(data, s)
    assert stopped == [True, True, False]
    assert again[0] == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(again[1], gradient, rtol=1e-6, atol=1e-8)


def test_scan_agrees_with_the_evidence():
    waves, sample = problem()
    data = sample.compressed(waves)
    s = np.ones(waves.num_columns)
    factors = np.exp(np.linspace(-8, 3, 23))
    best, value = best_scale(data, s, factors)
    values = [log_evidence(data, f * s)[0] for f in factors]
    assert best == factors[int(np.argmax(values))]
    assert value == pytest.approx(max(values), rel=1e-9)


def test_posterior_is_ridge_regression_with_its_covariance():
    waves, sample = problem(60, 1)
    s = np.exp(np.random.default_rng(3).normal(size=waves.num_columns))
    posterior = Posterior.of(sample.compressed(waves), s)
    Phi, w = waves.columns(sample.z), sample.weights[:, None]
    H = Phi.T @ (w * Phi) + np.diag(1 / s)
    np.testing.assert_allclose(posterior.mean, np.linalg.solve(H, Phi.T @ (w * sample.y)), rtol=1e-9)
    np.testing.assert_allclose(posterior.factor.T @ posterior.factor, H, rtol=1e-8, atol=1e-12)


def test_prior_has_its_jacobian():
    rng = np.random.default_rng(4)
    prior = SpectralPrior(rng.normal(size=2 + 3 * 2), 2)
    omega = np.array([[0, 0], [1.3, 0], [0, 2.0], [1.3, 2.0]])
    _, jacobian = prior.log_variances(omega)
    for i in range(len(prior.theta)):
        step = np.zeros(len(prior.theta))
        step[i] = 1e-6
        ends = [SpectralPrior(prior.theta + sign * step, 2).log_variances(omega)[0] for sign in (1, -1)]
        np.testing.assert_allclose(jacobian[:, i], (ends[0] - ends[1]) / 2e-6, atol=1e-7)


def test_best_first_search_is_a_sort():
    prior = SpectralPrior.start(3)
    base = np.array([1.0, 0.5, 2.0])
    found = choose_lattice(prior, base, 2, num_subnets=40)
    box = np.stack(np.meshgrid(*[np.arange(40)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    box = box[(np.count_nonzero(box, axis=1) <= 2) & box.any(axis=1)]
    size = prior.log_variances(box * base)[0]
    best = box[np.argsort(-size, kind="stable")[:39]]
    assert sorted(map(tuple, found[1:].astype(int))) == sorted(map(tuple, best))
    limited = choose_lattice(prior, base, 3, max_columns=100)
    assert 2.0 ** np.count_nonzero(limited, axis=1) @ np.ones(len(limited)) <= 100


def test_irrelevant_features_lose_their_relevance():
    rng = np.random.default_rng(5)
    z = rng.uniform(-1, 1, (150, 2))
    y = np.sin(3 * z[:, :1]) + 0.05 * rng.normal(size=(150, 1))
    y = (y - y.mean()) / y.std()
    base = np.full(2, np.pi / 2)
    waves = Waves.on_lattice(base, choose_lattice(SpectralPrior.start(2), base, 2, max_columns=60))
    data = Sample(z, y, np.ones(150)).compressed(waves)
    start = SpectralPrior.start(2)
    found, value = maximize_evidence(data, waves, start)
    log_s, _ = found.log_variances(np.array([[base[0], 0], [0, base[1]]]))
    assert log_s[0] > log_s[1] + 5
    assert value > log_evidence(data, np.exp(start.log_variances(waves.subnets)[0])[waves.column_subnet])[0]


def test_periods_grow_with_length_scales():
    np.testing.assert_array_equal(snapped_periods(np.array([0.01, 0.5, 1.0, 50.0])), [1.25, 2.0, 3.0, 6.0])
