"""The page of one fit: the table that was given, the curve with its band, the lines with their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flm.estimators import FLMRegressor
from flm.report.figures.data import plot_fit
from flm.report.pages.layout import Curves, Item, Page, Picture, Request, Section, Table, Text

LINES = 15
POINTS_PER_PERIOD, LEAST_POINTS, MOST_POINTS = 12, 401, 4001  # of the live curve


def fit_page(model: FLMRegressor, X: Any, y: npt.ArrayLike, request: Request) -> Page:
    """A page for a fitted `FLMRegressor` with one output, the table X (n, m) and the values y (n,) that it was fitted to."""
    mean, std = model.predict(X, return_std=True)
    values = np.asarray(y, float)
    wrong = values - mean
    share = 1.0 - float(np.sum(wrong**2)) / max(float(np.sum((values - values.mean()) ** 2)), np.finfo(float).tiny)
    inside = 100.0 * float(np.mean(np.abs(wrong) <= 1.96 * std))
    facts = [
        ("rows", f"{len(mean):,}"),
        ("frequency vectors", str(len(model.frequencies_))),
        ("noise", f"{model.noise_:.4g}"),
        ("explained, in sample", f"{100 * share:.4g} %"),
    ]
    sure = Text(f"{inside:.1f} % of the rows lie within 1.96 standard deviations of the fit; 95 % are expected.")
    picture = Picture(plot_fit(model, X, y), "The fit, its bands and its residuals.")
    sections = [
        Section("What was found", [picture, *_curve(model, X)]),
        Section("The lines", [_lines(model)]),
        Section("How sure", [sure]),
    ]
    kinds = {"lines": "lines found in the data", "lattice": "a lattice over the data's extent"}
    return request.page(f"A Fourier series on {kinds.get(model.kind_, 'given frequencies')}.", facts, sections)


def _lines(model: FLMRegressor) -> Table:
    """The strongest lines with their standard errors; frequencies that were not fitted have none."""
    spectrum = model.spectrum_
    headers = [
        "amplitude",
        "phase",
        *(f"{what} {a}" for a in spectrum.feature_names for what in ("frequency", "period")),
    ]
    rows = []
    for i in range(min(len(spectrum), LINES)):
        pairs = [(spectrum.amplitude[i], spectrum.amplitude_error[i]), (spectrum.phase[i], spectrum.phase_error[i])]
        for j in range(len(spectrum.feature_names)):
            pairs.append((spectrum.frequency[i, j], spectrum.frequency_error[i, j]))
            pairs.append((spectrum.period[i, j], spectrum.period_error[i, j]))
        rows.append([_with_error(*pair) for pair in pairs])
    middle = [float(t.amplitude * np.cos(t.phase)) for t in model.series_.terms() if not np.any(t.frequency)]
    constant = f" The constant is {middle[0]:.6g}." if middle else ""
    note = f"{len(rows)} of {len(spectrum)} lines A cos(k · x − φ), strongest first, with standard errors.{constant}"
    return Table(headers, rows, left=0, note=note)


def _with_error(value: float, error: float) -> str:
    text = f"{value:.6g}".replace("inf", "∞")
    return f"{text} ± {error:.2g}" if error else text


def _curve(model: FLMRegressor, X: Any) -> list[Item]:
    """The fit and its 95 % band under the pointer, over one feature."""
    x = np.asarray(X, float)
    if x.shape[1] != 1:
        return []
    low, high = x.min(), x.max()
    periods = np.abs(model.frequencies_).max() * (high - low) / (2 * np.pi)
    if POINTS_PER_PERIOD * periods > MOST_POINTS:
        return [Text(f"The fit has {periods:,.0f} periods over the data, too many for a curve to point at.")]
    line = np.linspace(low, high, max(LEAST_POINTS, round(POINTS_PER_PERIOD * periods)))
    mean, std = model.predict(
        type(X)({X.columns[0]: line}) if hasattr(X, "columns") else line[:, None], return_std=True
    )
    curves = {"lower": mean - 1.96 * std, "upper": mean + 1.96 * std, "fit": mean}
    return [Curves(line, curves, model._names[0], "The fit and the ends of its 95 % band.")]
