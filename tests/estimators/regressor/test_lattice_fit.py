"""Lattices of several features: bands along one of them, where the residual is not white."""

from dataclasses import replace

import numpy as np
import pytest

import flm
from flm.estimators.regressor.spectral_prior import SpectralPrior, choose_lattice

ROWS = np.random.default_rng(0)
MONTH = np.arange(200.0)
SEASON = np.sin(2 * np.pi * MONTH / 12)
KIND = ROWS.integers(0, 3, 200)
OTHER = ROWS.normal(size=(200, 3))
SQUARE = ROWS.uniform(0, 1, (400, 2))


@pytest.mark.parametrize(
    ("X", "f", "periods"),
    [
        (np.column_stack([MONTH, KIND]), SEASON + KIND, {0: 12}),
        (np.column_stack([OTHER[:, 0], MONTH]), SEASON, {1: 12}),
        (np.column_stack([MONTH, OTHER]), SEASON, {0: 12}),
        (SQUARE, np.sin(22 * np.pi * SQUARE[:, 0]) + 0.8 * np.cos(14 * np.pi * SQUARE[:, 1]), {0: 1 / 11, 1: 1 / 7}),
    ],
    ids=["a category", "a column of noise", "three columns of noise", "two waves"],
)
def test_a_season_is_found_beside_other_features(X, f, periods, tmp_path):
    rng = np.random.default_rng(1)
    y, held = f + 0.1 * f.std() * rng.normal(size=len(f)), rng.permutation(len(f)) < len(f) // 4
    model = flm.FLMRegressor().fit(X[~held], y[~held])
    assert ((model.predict(X[held]) - f[held]) ** 2).mean() < 0.01 * f.var()
    spectrum = model.spectrum_
    for axis, period in periods.items():
        i = int(np.argmax(spectrum.amplitude * np.isfinite(spectrum.period[:, axis])))
        assert spectrum.period[i, axis] == pytest.approx(period, abs=4 * spectrum.period_error[i, axis])
        assert spectrum.period_error[i, axis] < 0.05 * period
    flm.save(model, tmp_path / "fit.safetensors")
    again = flm.load(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(again.spectrum_.period, spectrum.period)


def test_bands_of_one_of_many_features_keep_their_feature():
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 1, (400, 70))
    X[:, 66] = np.arange(400)
    y = np.sin(2 * np.pi * np.arange(400) / 200 * 1.2) + np.cos(2 * np.pi * np.arange(400) / 20)
    model = flm.FLMRegressor().fit(X, y + 0.1 * rng.normal(size=400))
    assert model.spectrum_.period[0, 66] == pytest.approx(20, rel=0.05)
    assert np.isinf(np.delete(model.spectrum_.period[0], 66)).all()


def test_bands_lie_along_their_feature_and_have_their_jacobian():
    prior = SpectralPrior.start(2).with_band(20.0, 1)
    plain = SpectralPrior.start(2)
    omega = np.array([[0, 0], [20.0, 0], [0, 20.0], [0, 24.0], [1.5, 20.0]])
    gained = prior.log_variances(omega)[0] - plain.log_variances(omega)[0]
    assert (gained[[1, 4]] == 0).all()
    assert (gained[[2, 3]] > 1).all()
    for i, slope in enumerate(prior.log_variances(omega)[1].T):
        ends = [replace(prior, theta=prior.theta + d * (np.arange(len(prior.theta)) == i)) for d in (1e-5, -1e-5)]
        up, down = (end.log_variances(omega)[0] for end in ends)
        np.testing.assert_allclose(slope, (up - down) / 2e-5, atol=1e-7)
    base = np.full(2, np.pi / 2)
    points = choose_lattice(prior, base, 2, max_columns=200)
    assert len(np.unique(points, axis=0)) == len(points)
    assert np.any((points == [0, 13]).all(axis=1))  # 13 pi / 2 = 20.4
