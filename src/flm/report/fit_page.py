"""The page of one fit: the table that was given, the curve with its band, the lines with their errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from flm.report.data import plot_fit
from flm.report.page import Code, Page, Picture, Section, Table, Text

LINES = 15


def fit_page(model: Any, X: Any, y: Any, *, title: str, asked: str, command: str = "") -> Page:
    """A page for a fitted `FLMRegressor` with one output.

    Args:
        model: The estimator.
        X: The table that it was fitted to, (n, m).
        y: What it was fitted to, (n,).
        title: The page's title.
        asked: The request as text.
        command: What to type to get the same again.
    """
    mean, std = model.predict(X, return_std=True)
    wrong = np.asarray(y, float) - mean
    share = 1.0 - float(np.sum(wrong**2)) / max(float(np.sum((y - np.mean(y)) ** 2)), np.finfo(float).tiny)
    inside = 100.0 * float(np.mean(np.abs(wrong) <= 1.96 * std))
    facts = [
        ("rows", f"{len(mean):,}"),
        ("frequency vectors", str(len(model.frequencies_))),
        ("noise", f"{model.noise_:.4g}"),
        ("explained, in sample", f"{100 * share:.4g} %"),
    ]
    sure = Text(f"{inside:.1f} % of the rows lie within 1.96 standard deviations of the fit; 95 % are expected.")
    sections = [
        Section("What was asked", [Code(asked)]),
        Section("What was found", [Picture(plot_fit(model, X, y), "The fit, its bands and its residuals.")]),
        Section("The lines", [_lines(model)]),
        Section("How sure", [sure]),
    ]
    if command:
        sections.append(Section("How to reproduce it", [Code(command)]))
    kinds = {"lines": "lines found in the data", "lattice": "a lattice over the data's extent"}
    return Page(title, f"A Fourier series on {kinds.get(model.kind_, 'given frequencies')}.", facts, sections)


def _lines(model: Any) -> Table:
    series, axes = model.series_, model._names
    terms = series.terms(LINES)
    headers = ["amplitude", "phase", *(f"{what} {a}" for a in axes for what in ("frequency", "period"))]
    rows = [
        [f"{t.amplitude:.6g}", f"{t.phase:.4f}"]
        + [f"{v:.6g}".replace("inf", "∞") for pair in zip(t.frequency, t.period, strict=True) for v in pair]
        for t in terms
    ]
    return Table(headers, rows, left=0, note=f"The {len(rows)} largest cosines.")
