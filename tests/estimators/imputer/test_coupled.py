"""The windowed coupled model against Gaussian formulas written out, and its expectation maximization."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from flm.estimators.imputer import cross_spectrum
from flm.estimators.imputer.coupled import Coupled, cut, filling_windows, windows_of
from flm.estimators.imputer.cross_spectrum import CrossSpectrum, Pattern, Window, expectation_maximization, patterns
from flm.estimators.imputer.holes import Calibration, gaps_by_kind, hide, kinds_of
from flm.estimators.imputer.lags import straight


def random_spectrum(rng, window=8, C=2):
    start = CrossSpectrum.start(window, C)
    q = len(start.mean)
    A = rng.normal(size=(q, q)) / np.sqrt(q)
    return replace(start, mean=0.3 * rng.normal(size=q), covariance=A @ A.T, noise=rng.uniform(0.05, 0.2, C))


def random_window(rng, n=8, C=2, share=0.3, irregular=False):
    times = np.sort(rng.uniform(-4, 4, n)) if irregular else np.arange(n) - (n - 1) / 2
    observed = rng.random((C, n)) > share
    return Window(times, np.where(observed, rng.normal(size=(C, n)), 0.0), observed, np.arange(n))


def dense_moments(spectrum, times):
    """Mean and covariance of a window's values, channel by channel, from the definition."""
    C, F = len(spectrum.noise), len(spectrum.frequencies)
    rows = []
    for c in range(C):
        for t in times:
            row = np.zeros((C, F, 2))
            row[c, :, 0] = np.cos(2 * np.pi * spectrum.frequencies * t)
            row[c, :, 1] = np.sin(2 * np.pi * spectrum.frequencies * t)
            rows.append(row.ravel())
    Phi = np.array(rows)
    noise = np.repeat(spectrum.noise, len(times))
    return Phi @ spectrum.mean, Phi @ spectrum.covariance @ Phi.T, noise


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("share", [0.1, 0.7])
@pytest.mark.parametrize("irregular", [True, False])
def test_fill_is_the_conditional_gaussian(shared, share, irregular):
    rng = np.random.default_rng(0)
    spectrum = random_spectrum(rng)
    window = random_window(rng, share=share, irregular=irregular)
    mean, K, noise = dense_moments(spectrum, window.times)
    o, m = np.flatnonzero(window.observed), np.flatnonzero(~window.observed)
    G = np.linalg.inv((K + np.diag(noise))[np.ix_(o, o)])
    expected = mean[m] + K[np.ix_(m, o)] @ G @ (window.values.ravel() - mean)[o]
    variance = (K + np.diag(noise))[m, m] - np.einsum("ij,jk,ik->i", K[np.ix_(m, o)], G, K[np.ix_(m, o)])
    pattern = Pattern(spectrum, window.times, shared=shared)
    weighted, observed, missing, precision, inner = pattern.precision(window)
    np.testing.assert_array_equal(observed, o)
    np.testing.assert_array_equal(missing, m)
    if precision is None:
        precision = (pattern.inverse - pattern.inverse[:, m] @ inner @ pattern.inverse[m])[np.ix_(o, o)]
    np.testing.assert_allclose(weighted[o], G @ (window.values.ravel() - mean)[o], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(precision, G, rtol=1e-6, atol=1e-7 * np.abs(G).max())
    assert (weighted[m] == 0).all()
    found, std = pattern.fill(window)
    np.testing.assert_allclose(found.ravel()[m], expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(found[window.observed], window.values[window.observed])
    # the spread is scaled by how surprising the observed values of a channel are: one factor per channel and time
    ratio = std.ravel()[m] ** 2 / variance
    assert ratio.min() > 0
    quiet = replace(window, values=np.where(window.observed, mean.reshape(window.values.shape), 0.0))
    assert (pattern.fill(quiet)[1].ravel()[m] ** 2 < variance).all()


def log_likelihood(spectrum, windows):
    total = 0.0
    for window in windows:
        mean, K, noise = dense_moments(spectrum, window.times)
        o = np.flatnonzero(window.observed)
        density = multivariate_normal(mean[o], (K + np.diag(noise))[np.ix_(o, o)], allow_singular=True)
        total += density.logpdf(window.values.ravel()[o])
    return total


@pytest.mark.parametrize("irregular", [True, False])
def test_expectation_maximization_raises_the_likelihood(irregular, monkeypatch):
    # without shrinkage, where it is a theorem
    monkeypatch.setattr(cross_spectrum, "_SHRINKAGE", 0.0)
    rng = np.random.default_rng(1)
    truth = random_spectrum(rng)
    windows = []
    for _ in range(30):
        window = random_window(rng, irregular=irregular)
        mean, K, noise = dense_moments(truth, window.times)
        values = rng.multivariate_normal(mean, K + np.diag(noise)).reshape(2, 8)
        windows.append(replace(window, values=np.where(window.observed, values, 0.0)))
    spectrum = CrossSpectrum.start(8, 2)
    before = log_likelihood(spectrum, windows)
    for _ in range(5):
        spectrum = expectation_maximization(spectrum, windows)
        after = log_likelihood(spectrum, windows)
        assert after > before - 1e-6
        before = after
    np.testing.assert_allclose(spectrum.covariance, spectrum.covariance.T, atol=1e-10)


@pytest.mark.slow
def test_learning_finds_coupling():
    rng = np.random.default_rng(2)
    n = 2400
    common = np.convolve(rng.normal(size=n + 20), np.hanning(9), "valid")[:n]
    values = np.stack([common, -2 * common], axis=1) + 0.1 * rng.normal(size=(n, 2))
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    steps = np.arange(float(n))
    holed = np.where(rng.random(values.shape) < 0.1, np.nan, values)
    told = []
    (found,) = Coupled.start(holed, 24).learned(steps, holed, told.append, straight(steps, holed)).spectra
    shares = [event.share for event in told]
    assert shares == sorted(shares)
    assert shares[-1] <= 1
    window = cut(steps, values, 480.0, 24.0)
    one_missing = replace(window, observed=np.array([[False] * 24, [True] * 24]))
    filled, std = Pattern(found, window.times, shared=False).fill(one_missing)
    assert np.abs(filled[0] - window.values[0]).mean() < 0.12  # a channel that is wholly missing, from the other
    assert std[0].mean() < 0.25


def test_windows_of_a_table():
    steps = np.arange(500.0)
    windows = windows_of(steps, np.zeros((500, 2)), 20.0)
    assert len(windows) == 49
    assert len(list(patterns(CrossSpectrum.start(20, 2), windows))) == 1
    kept = np.arange(500) // 100 != 2
    some = windows_of(steps, np.zeros((500, 2)), 20.0, kept)
    assert all(kept[window.rows].all() for window in some)
    assert len(windows_of(steps, np.zeros((500, 2)), 20.0, np.zeros(500, bool))) == 49  # of no rows: of all


def test_two_distributions_merge_into_one():
    rng = np.random.default_rng(5)
    a, b = random_spectrum(rng), random_spectrum(rng)
    both = a.merged(b, 0.25)
    draws = [rng.multivariate_normal(s.mean, s.covariance, size=k) for s, k in ((a, 30_000), (b, 10_000))]
    np.testing.assert_allclose(both.mean, np.concatenate(draws).mean(axis=0), atol=0.03)
    np.testing.assert_allclose(both.covariance, np.cov(np.concatenate(draws).T), atol=0.08)


def test_kinds_of_holes():
    missing = np.zeros((200, 2), bool)
    missing[3, 0] = missing[20:26, 1] = missing[40:64, 0] = missing[100:124] = missing[150:199, 1] = True
    kinds = kinds_of(missing, np.arange(200.0))
    at = lambda row, channel: int(kinds[row, channel])
    # a point, the edge and the middle of gaps of 6, 24 and 49, and of one in all channels
    assert [at(3, 0), at(20, 1), at(40, 0), at(42, 0), at(52, 0), at(174, 1)] == [0, 1, 1, 2, 3, 4]
    assert [at(100, 0), at(112, 0), at(112, 1)] == [6, 13, 13]
    broken = np.arange(200.0) + 100 * (np.arange(200) >= 52)  # a break of the clock within the gap of 24
    assert kinds_of(missing, broken)[[40, 51, 52, 63], 0].tolist() == [1, 4, 4, 1]


def test_hidden_values_are_holes_of_every_kind():
    hidden = hide(np.ones((2000, 3), bool), np.random.default_rng(0), 0, True)
    found = np.bincount(kinds_of(hidden, np.arange(2000.0))[hidden], minlength=15)
    assert (found[[0, 1, 2, 3, 6, 12, 13]] >= 10).all()
    assert 0.05 < hidden.mean() < 0.3
    seen = np.random.default_rng(1).random((2000, 3)) < 0.5
    assert not (hide(seen, np.random.default_rng(0), 0, True) & ~seen).any()


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("n", [20, 55, 100])
@pytest.mark.parametrize("first", [0.0, -7.0])
def test_every_row_is_filled_once(overlap, n, first):
    steps = first + np.arange(float(n))
    values = np.full((n, 1), np.nan)
    pieces = filling_windows(steps, values, 20.0, overlap)
    targets = np.concatenate([window.rows[targets] for window, targets in pieces])
    assert sorted(targets) == list(range(n))
    starts = np.array([steps[window.rows[0]] - (window.times[0] + 9.5) for window, _ in pieces])  # where windows begin
    np.testing.assert_allclose(np.mod(starts + 5, 10), 5, atol=1e-9)
    if overlap and first == 0 and n == 100:
        # away from the ends there are five rows of context at least
        for window, rows in pieces[1:-1]:
            assert np.abs(window.times[rows]).max() <= 5


def test_irregular_rows_are_filled_once():
    rng = np.random.default_rng(3)
    steps = np.sort(rng.uniform(0, 300, 200))
    pieces = filling_windows(steps, np.full((200, 3), np.nan), 24.0, True)
    assert sorted(np.concatenate([window.rows[targets] for window, targets in pieces])) == list(range(200))
    assert all(np.abs(window.times).max() <= 12.5 for window, _ in pieces)


def test_calibration_makes_both_levels_cover():
    rng = np.random.default_rng(4)
    gaussian = Calibration.of(3 * rng.normal(size=20000))
    assert gaussian.factor == pytest.approx(3, rel=0.03)
    assert gaussian.half_width(0.95) == pytest.approx(1.96, rel=0.05)
    heavy = rng.standard_t(4, size=20000)
    found = Calibration.of(heavy)
    assert found.tail < 8
    for level in (0.68, 0.8, 0.95):
        assert (np.abs(heavy) / found.factor < found.half_width(level)).mean() == pytest.approx(level, abs=0.02)
    # one factor alone: as near to both as it can be
    covered = [(np.abs(heavy) < k * found.factor).mean() for k in (1, 1.96)]
    assert abs(covered[0] - 0.68) < 0.03
    assert abs(covered[1] - 0.95) < 0.03
    assert Calibration.of(np.ones(5)) is None
    assert set(Calibration.by_kind(np.ones(5), np.zeros(5, int))) == {Calibration()}
    with pytest.raises(ValueError, match="`level` must be between 0 and 1; got 1"):
        found.half_width(1)


def test_error_bars_that_few_gaps_calibrate_are_wider():
    """Errors within a gap are alike: 120 hidden values of four gaps say little more than four."""
    hidden = np.zeros((400, 4), bool)
    for channel in range(4):
        hidden[20 + 60 * channel : 50 + 60 * channel, channel] = True
    hidden[300:360] = True  # one gap of all channels
    kinds = kinds_of(hidden, np.arange(400.0))
    gaps = gaps_by_kind(hidden, kinds, 400)
    assert gaps[kinds[35, 0]] == 4
    assert gaps[kinds[330, 0]] == 1
    plain, wide, many = Calibration(), Calibration().known_from(4), Calibration().known_from(10_000)
    level = lambda found: found.factor * found.half_width(0.95)
    assert 1.1 < wide.factor < 1.2
    assert level(wide) > 1.4 * level(plain)
    assert level(many) == pytest.approx(level(plain), rel=1e-3)
