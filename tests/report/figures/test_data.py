"""Figures of data: what is drawn are the fit's own numbers."""

import json

import numpy as np
import pandas as pd
import pytest

import flm
from flm.report.figures.data import plot_fit, plot_imputation, plot_spectrum
from flm.report.figures.style import to_svg
from flm.report.pages.answer import impute_page
from flm.report.pages.layout import Request

RNG = np.random.default_rng(0)
T = np.sort(RNG.uniform(0, 20, 150))[:, None]
Y = 2 * np.cos(1.7 * T[:, 0]) + 0.5 * np.cos(4.1 * T[:, 0]) + 0.2 * RNG.normal(size=150)


@pytest.fixture(scope="module")
def model():
    return flm.FLMRegressor(frequencies="lines").fit(pd.DataFrame(T, columns=["hour"]), Y)


def test_fit_with_band_and_residuals(model):
    upper, lower = model.plot(T, Y).axes
    data, curve = upper.lines
    at = pd.DataFrame({"hour": curve.get_xdata()})
    mean, std = model.predict(at, return_std=True)
    np.testing.assert_allclose(curve.get_ydata(), mean, rtol=1e-12)
    band = upper.collections[1].get_paths()[0].vertices  # 95 %
    assert band[:, 1].max() == pytest.approx((mean + 1.96 * std).max())
    assert len(data.get_xdata()) == 150
    at_data, spread = model.predict(pd.DataFrame(T, columns=["hour"]), return_std=True)
    np.testing.assert_allclose(lower.lines[-1].get_ydata(), (Y - at_data) / spread)
    assert lower.get_xlabel() == "hour"
    assert len(model.plot().axes) == 1


def test_fit_of_several_features_holds_the_others():
    X = RNG.uniform(0, 1, (100, 3))
    model = flm.FLMRegressor(max_columns=60).fit(X, X[:, 1] ** 2 + 0.1 * X[:, 0])
    figure = plot_fit(model, X, X[:, 1] ** 2, feature=1)
    curve = figure.axes[0].lines[1]
    grid = np.tile(np.median(X, axis=0), (len(curve.get_xdata()), 1))
    grid[:, 1] = curve.get_xdata()
    np.testing.assert_allclose(curve.get_ydata(), model.predict(grid), rtol=1e-12)
    assert "x0 = " in figure.axes[0].get_title(loc="left")
    with pytest.raises(ValueError, match="`feature` must be one of x0, x1, x2; got 'y'"):
        plot_fit(model, feature="y")
    with pytest.raises(ValueError, match="`feature` must be a position below 3; got 5"):
        plot_fit(model, feature=5)


def test_spectrum_has_stems_and_error_bars(model):
    spectrum = model.spectrum_
    (panel,) = spectrum.plot().axes
    dots = panel.lines[0]
    np.testing.assert_allclose(dots.get_xdata(), spectrum.frequency[:, 0])
    np.testing.assert_allclose(dots.get_ydata(), spectrum.amplitude)
    bars = next(
        c
        for c in panel.collections
        if len(c.get_segments()) == len(spectrum) and np.ptp(c.get_segments()[0][:, 1]) == 0
    )
    lengths = [np.ptp(segment[:, 0]) for segment in bars.get_segments()]
    np.testing.assert_allclose(lengths, 2 * spectrum.frequency_error[:, 0])
    (panel,) = plot_spectrum(spectrum, periods=True).axes
    assert panel.get_xscale() == "log"
    np.testing.assert_allclose(panel.lines[0].get_xdata(), spectrum.period[:, 0])
    assert "<svg" in to_svg(spectrum.plot())


def off_the_data(panel):
    panel.figure.draw_without_rendering()
    return panel.get_legend().get_window_extent().y0 >= panel.get_window_extent().y1 - 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::flm.estimators.imputer.imputation.ExtrapolationWarning")
def test_gaps_filled():
    index = pd.date_range("2024-01-01", periods=120, freq="h")
    frame = pd.DataFrame({"a": np.sin(np.arange(120) / 4), "b": np.cos(np.arange(120) / 4)}, index=index)
    frame.iloc[30:40, 0] = np.nan
    frame.iloc[110:] = np.nan
    found = flm.FLMImputer().fit(frame).impute(frame, fitted=True)
    first, second = found.plot().axes
    assert np.isnan(first.lines[0].get_ydata()[30:40]).all()
    filled = first.containers[0]
    np.testing.assert_allclose(filled.lines[0].get_ydata(), found.values["a"].iloc[30:40])
    lower, upper = found.interval(0.95)
    heights = [np.ptp(segment[:, 1]) for segment in filled.lines[2][0].get_segments()]
    np.testing.assert_allclose(heights, (upper - lower)["a"].iloc[30:40])
    assert [t.get_text() for t in first.get_legend().get_texts()] == ["observed", "filled", "extrapolated"]
    assert off_the_data(first)
    assert "10 of 120 filled" in second.get_title(loc="left")
    (panel,) = plot_imputation(found, columns=["b"], rows=slice(0, 50)).axes
    assert len(panel.lines[0].get_xdata()) == 50
    plain = flm.FLMImputer().fit(frame.to_numpy()).impute(frame.to_numpy())
    assert plain.plot(columns=[1]).axes[0].get_title(loc="left").startswith("column 1")
    assert plain.plot().axes[-1].get_xlabel() == "row"


def test_the_clock_is_named_as_the_table_names_it():
    t = np.arange(60.0)
    frame = pd.DataFrame({"y": np.where(t % 11 == 5, np.nan, np.sin(t / 4)), "hour": t})
    frame["when"] = pd.Timestamp("2024-03-01") + pd.to_timedelta(t, "h")
    for clock, label, unit in ((None, "row", ""), ("hour", "hour", ""), ("when", "when", "h from the first row")):
        X = frame[["y"] if clock is None else [clock, "y"]]
        found = flm.FLMImputer(time=clock).fit(X).impute(X, fitted=True)
        np.testing.assert_allclose(found.axis, t)
        assert found.plot().axes[-1].get_xlabel() == label
        shown = impute_page(found, ["y"], Request("y")).sections["What was found"][0]
        data = json.loads(shown.data)
        assert (data["axes"], data["units"], data["bounds"]) == ([label], [unit], [[0.0, 59.0]])
    texts = frame[["when", "y"]].assign(when=frame["when"].astype(str))
    assert flm.FLMImputer(time="when").fit(texts).impute(texts).clock == found.clock
