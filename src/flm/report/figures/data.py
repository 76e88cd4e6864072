"""Figures of data: a fit with its band and residuals, a spectrum with error bars, gaps filled, errors against sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from flm.estimators import FLMRegressor
from flm.estimators.imputer.imputation import Imputation
from flm.estimators.regressor.wave_fit import Spectrum
from flm.report.figures.style import BESIDE, COLORS, house_style, new_figure
from flm.wording import InputError, counted

FLOOR = 1e-34  # smaller mean squares are drawn as this
_POINTS = 1001  # of a curve
_MOST_DOTS = 5000  # more data are thinned evenly, so that files stay small
_BANDS = ((1.0, 0.30), (1.96, 0.15))  # half-widths in standard deviations, opacity: 68 % and 95 %


def plot_fit(
    model: FLMRegressor, X: Any = None, y: npt.ArrayLike | None = None, *, feature: int | str = 0, output: int = 0
) -> Figure:
    """A figure of the fitted curve over one feature; see `FLMRegressor.plot`."""
    names, fit = list(model._names), model._fitted.fit
    j, scale = _feature(feature, names), fit.inputs
    table = None if X is None else model.numbers(X)
    ends = [scale.center[j] - scale.halfwidth[j], scale.center[j] + scale.halfwidth[j]]
    ends += [] if table is None else [table[:, j].min(), table[:, j].max()]
    others = scale.center if table is None else np.median(table, axis=0)
    grid = np.tile(others, (_POINTS, 1))
    grid[:, j] = np.linspace(min(ends), max(ends), _POINTS)
    mean, std = fit.mean(grid)[:, output], fit.std(grid)[:, output]
    with house_style():
        if table is None or y is None:
            figure = new_figure(7.0, 3.4)
            upper = bottom = figure.subplots()
        else:
            figure = new_figure(7.0, 4.6)
            upper, bottom = figure.subplots(2, 1, height_ratios=[3, 1], sharex=True)
            values = np.asarray(y, float).reshape(len(table), -1)[:, output]
            dots = np.unique(np.linspace(0, len(table) - 1, min(len(table), _MOST_DOTS)).astype(int))
            upper.plot(table[dots, j], values[dots], ".", ms=3, color="#444444", alpha=0.6, label="data", zorder=1)
            scores = (values - fit.mean(table)[:, output]) / fit.std(table)[:, output]
            bottom.axhspan(-1.96, 1.96, color=COLORS[0], alpha=0.12, lw=0)
            bottom.axhline(0, color="#444444", lw=0.8)
            bottom.plot(table[dots, j], scores[dots], ".", ms=3, color=COLORS[0], alpha=0.7)
            bottom.set_ylabel("residual / σ")
        for width, opacity in _BANDS:
            ends = mean - width * std, mean + width * std
            upper.fill_between(grid[:, j], *ends, color=COLORS[0], alpha=opacity, lw=0)
        upper.plot(grid[:, j], mean, color=COLORS[0], label=f"fit, {len(fit.frequencies)} frequencies")
        held = [f"{names[i]} = {others[i]:.4g}" for i in range(len(names)) if i != j]
        upper.set_title("fit with 68 % and 95 % bands" + (f" at {', '.join(held[:4])}" if held else ""))
        upper.legend(**BESIDE)
        unit = model.spectrum_.units[j]
        bottom.set_xlabel(f"{names[j]}, {unit} from the first row" if unit else names[j])
        upper.set_ylabel(model._fitted.target)
    return figure


def plot_spectrum(spectrum: Spectrum, *, feature: int | str = 0, output: int = 0, periods: bool = False) -> Figure:
    """A figure of amplitudes as stems with one-sigma bars; `periods` replaces frequencies on the axis. See `Spectrum.plot`."""
    j = _feature(feature, list(spectrum.feature_names))
    height, error = (v if v.ndim == 1 else v[:, output] for v in (spectrum.amplitude, spectrum.amplitude_error))
    at = spectrum.period[:, j] if periods else np.abs(spectrum.frequency[:, j])
    aside = spectrum.period_error[:, j] if periods else spectrum.frequency_error[:, j]
    drawn = np.isfinite(at)
    with house_style():
        figure = new_figure(7.0, 3.4)
        panel = figure.subplots()
        panel.vlines(at[drawn], 0, height[drawn], color=COLORS[0], lw=1.2)
        look = {"fmt": "o", "ms": 3.5, "color": COLORS[0], "ecolor": COLORS[1], "elinewidth": 1.2, "capsize": 2}
        panel.errorbar(at[drawn], height[drawn], yerr=error[drawn], xerr=aside[drawn], **look)
        panel.set_ylim(bottom=0)
        unit = spectrum.units[j] if spectrum.units else ""
        if periods:
            panel.set_xscale("log")
            panel.xaxis.set_major_locator(MaxNLocator(8))
            panel.xaxis.set_major_formatter("{x:g}")
            panel.xaxis.set_minor_locator(NullLocator())
            panel.set_xlabel(f"period [{unit}]" if unit else f"period, in units of {spectrum.feature_names[j]}")
        else:
            panel.set_xlim(left=0)
            per = f" [rad / {unit}]" if unit else f", radians per unit of {spectrum.feature_names[j]}"
            panel.set_xlabel(f"frequency{per}")
        panel.set_ylabel("amplitude")
        panel.set_title(f"{counted(int(drawn.sum()), 'line')}, bars are standard errors")
    return figure


def plot_imputation(
    imputation: Imputation,
    *,
    columns: Sequence[int | str] | None = None,
    rows: slice | None = None,
    level: float = 0.95,
) -> Figure:
    """A figure of observed values as a line with gaps, filled ones as dots with intervals; see `Imputation.plot`."""
    numbers = lambda column: np.asarray(
        pd.to_numeric(column, errors="coerce"), float
    )  # dates too: they are never drawn
    parts = (imputation.values, *imputation.interval(level))
    values, lower, upper = (pd.DataFrame(part).apply(numbers).to_numpy() for part in parts)
    named, clock = getattr(imputation.values, "columns", None), imputation.clock
    labels = [f"column {j}" for j in range(values.shape[1])] if named is None else [str(c) for c in named]
    if columns is None:
        with_holes = np.flatnonzero(imputation.filled.any(axis=0))
        columns = list(with_holes[:4]) if len(with_holes) else [values.shape[1] - 1]
    places = [_feature(c, labels) for c in columns]
    logarithmic = imputation.standardized.logarithmic
    kept = slice(None) if rows is None else rows
    is_date = clock.kind == "date"
    times = pd.DatetimeIndex(clock.back(imputation.axis)).tz_localize(None) if is_date else imputation.axis
    times = np.asarray(times)[kept]
    with house_style():
        figure = new_figure(7.5, 1.9 * len(places) + 0.6)
        panels = figure.subplots(len(places), 1, sharex=True, squeeze=False)[:, 0]
        for panel, j in zip(panels, places, strict=True):
            y, ends = values[kept, j], np.abs(np.stack([lower, upper])[:, kept, j] - values[kept, j])
            filled, beyond = imputation.filled[kept, j], imputation.extrapolated[kept, j]
            panel.plot(times, np.where(filled, np.nan, y), color="#444444", lw=1.0, label="observed")
            style = {"fmt": ".", "ms": 3, "elinewidth": 0.8}
            for word, here, color in (("filled", filled & ~beyond, COLORS[0]), ("extrapolated", beyond, COLORS[1])):
                if word == "filled" or here.any():
                    panel.errorbar(times[here], y[here], yerr=ends[:, here], color=color, label=word, **style)
            panel.set_title(f"{labels[j]}: {int(filled.sum())} of {len(y)} filled, {level:.0%} intervals")
            if j in logarithmic and 0 < 1e3 * np.nanmin(lower[kept, j]) < np.nanmax(upper[kept, j]):
                panel.set_yscale("log")
        panels[0].legend(**BESIDE)
        panels[-1].set_xlabel(clock.name if is_date or not clock.unit else f"{clock.name} [{clock.unit}]")
    return figure


def size_figure(
    curves: Mapping[str, Mapping[str, Mapping[int, npt.ArrayLike]]], label: str = "sub-networks N"
) -> Figure:
    """A figure of the MSE against the size, mean and range over the seeds; curves[problem][model][size] are the scores.

    There is a panel for each problem, two in a row; each model has its color.
    """
    down, across = math.ceil(len(curves) / 2), min(2, len(curves))
    with house_style():
        figure = new_figure(8.6 if across > 1 else 7.0, 2.9 * down)
        for panel, (title, models) in enumerate(curves.items(), 1):
            axes = figure.add_subplot(down, across, panel)
            for color, (name, by_size) in zip(COLORS * 9, models.items(), strict=False):
                sizes = sorted(by_size)
                scores = [np.maximum(np.asarray(by_size[n], float), FLOOR) for n in sizes]
                if sizes:
                    axes.plot(sizes, [v.mean() for v in scores], "o-", color=color, markersize=3.5, label=name)
                    ends = [v.min() for v in scores], [v.max() for v in scores]
                    axes.fill_between(sizes, *ends, color=color, alpha=0.2, linewidth=0)
            axes.set(title=title, yscale="log", xlabel=label, ylabel="MSE")
            if axes.get_legend_handles_labels()[0]:
                axes.legend()
    return figure


def _feature(feature: int | str, names: list[str]) -> int:
    if isinstance(feature, str):
        if feature not in names:
            raise InputError(f"`feature` must be one of {', '.join(names)}; got {feature!r}.")
        return names.index(feature)
    if not -len(names) <= feature < len(names):
        raise InputError(f"`feature` must be a position below {len(names)}; got {feature!r}.")
    return int(feature) % len(names)
