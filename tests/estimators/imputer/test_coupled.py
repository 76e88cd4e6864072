"""The windowed coupled model against Gaussian formulas written out, and its expectation maximization."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from flm.estimators.imputer import expectation_maximization as learning
from flm.estimators.imputer.cross_spectrum import CrossSpectrum, Pattern, Window, cut, filling_windows, patterns
from flm.estimators.imputer.expectation_maximization import expectation_maximization, learn, lessons_of
from flm.estimators.imputer.imputation import Calibration


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
    C, F = spectrum.num_channels, len(spectrum.frequencies)
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
    np.testing.assert_allclose(pattern.observed_inverse(o), G, rtol=1e-6, atol=1e-7)
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
    monkeypatch.setattr(learning, "_SHRINKAGE", 0.0)
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


def test_learning_finds_coupling_and_stops_on_hidden_values():
    rng = np.random.default_rng(2)
    n = 2400
    common = np.convolve(rng.normal(size=n + 20), np.hanning(9), "valid")[:n]
    values = np.stack([common, -2 * common], axis=1) + 0.1 * rng.normal(size=(n, 2))
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    lessons = lessons_of(np.arange(float(n)), values, 24.0, rng.random(values.shape) < 0.1)
    told = []
    found = learn(lessons, 24.0, max_rounds=20, listen=told.append)
    assert len(found.scores) > 500
    assert len(found.fresh_scores) > 100
    assert sum("hidden values" in event.stage for event in told) >= 2
    shares = [event.share for event in told]
    assert shares == sorted(shares)
    assert shares[-1] <= 1
    assert found.rounds <= 20
    window = cut(np.arange(float(n)), values, 480.0, 24.0)
    one_missing = replace(window, observed=np.array([[False] * 24, [True] * 24]))
    filled, std = Pattern(found.spectrum, window.times, shared=False).fill(one_missing)
    assert np.abs(filled[0] - window.values[0]).mean() < 0.12  # a channel that is wholly missing, from the other
    assert std[0].mean() < 0.25


def test_few_hidden_values_mean_eight_rounds_with_all():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(60, 2))
    lessons = lessons_of(np.arange(60.0), values, 20.0, np.zeros(values.shape, bool))
    found = learn(lessons, 20.0)
    assert (found.rounds, len(found.scores), len(found.fresh_scores)) == (8, 0, 0)


def test_lessons_of_a_table():
    steps = np.arange(500.0)
    hide = np.random.default_rng(0).random((500, 2)) < 0.1
    lessons = lessons_of(steps, np.zeros((500, 2)), 20.0, hide)
    assert len(lessons) == 49
    assert len(list(patterns(CrossSpectrum.start(20, 2), [lesson.window for lesson in lessons]))) == 1
    first = lessons[3]
    np.testing.assert_array_equal(first.hidden, hide[30:50].T)
    assert not (first.masked.observed & first.hidden).any()
    rows = {role: set() for role in ("kept", "held out", "between")}
    for i, lesson in enumerate(lessons):
        rows[lesson.role] |= set(range(10 * i, 10 * i + 20))
    assert not rows["kept"] & rows["held out"]
    assert len(rows["held out"]) == 80
    assert {lesson.role for lesson in lessons_of(steps[:60], np.zeros((60, 2)), 20.0, hide[:60])} == {"kept"}


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("n", [20, 55, 100])
@pytest.mark.parametrize("first", [0.0, -7.0])
def test_every_row_is_filled_once(overlap, n, first):
    steps = first + np.arange(float(n))
    values = np.full((n, 1), np.nan)
    pieces = filling_windows(steps, values, 20.0, overlap)
    targets = np.concatenate([p.window.rows[p.targets] for p in pieces])
    assert sorted(targets) == list(range(n))
    starts = np.array([steps[p.window.rows[0]] - (p.window.times[0] + 9.5) for p in pieces])  # where windows begin
    np.testing.assert_allclose(np.mod(starts + 5, 10), 5, atol=1e-9)
    if overlap and first == 0 and n == 100:
        # away from the ends there are five rows of context at least
        for piece in pieces[1:-1]:
            assert np.abs(piece.window.times[piece.targets]).max() <= 5


def test_irregular_rows_are_filled_once():
    rng = np.random.default_rng(3)
    steps = np.sort(rng.uniform(0, 300, 200))
    pieces = filling_windows(steps, np.full((200, 3), np.nan), 24.0, True)
    assert sorted(np.concatenate([p.window.rows[p.targets] for p in pieces])) == list(range(200))
    assert all(np.abs(p.window.times).max() <= 12.5 for p in pieces)


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
    assert Calibration.of(np.ones(5)) == Calibration()
    with pytest.raises(ValueError, match="`level` must be between 0 and 1; got 1"):
        found.half_width(1)
