"""An answer in a notebook: its status, the live figure or a picture, and its series as a formula."""

from __future__ import annotations

import html

import numpy as np

from flm.control.solution import ControlSolution
from flm.report.figures.fields import labeled_series
from flm.report.live import MOST_AXES, live
from flm.report.pages.answer import readable, tone
from flm.report.pages.layout import Picture
from flm.results import AbstractResult, Solution
from flm.series import AbstractSeries

MOST_BYTES = 300_000  # of a live figure that a notebook shows by itself
TERMS = 6  # of a formula
COLORS = {"good": "#2e8b57", "doubtful": "#d9a404", "failed": "#c62828"}


def in_notebook(answer: AbstractResult) -> str:
    """The HTML of an answer."""
    color = COLORS[tone(answer.status, answer.error_estimate)]
    words = html.escape(f"{answer!r}\n{answer.status.advice}".strip())
    status = f'<pre style="border-left: 5px solid {color}; padding-left: 0.8em; white-space: pre-wrap">{words}</pre>'
    many = isinstance(answer, Solution) and len(answer.axes) > MOST_AXES
    figure = None if many else live(answer)
    if figure is None or len(figure.data) > MOST_BYTES:
        shown = f'<img src="{Picture(answer.plot()).address}" alt="The answer" style="max-width: 100%">'
    else:
        shown = figure._repr_html_()
    series: list[tuple[str, AbstractSeries]] = []  # none where the terms are far larger than their sum
    if isinstance(answer, ControlSolution):
        series = [(answer.controls[0], one) for _, one in labeled_series(answer)[:1]]
    elif isinstance(answer, Solution):
        series = [(label, one) for label, one in readable(answer)[0] if " for " not in label]
    return status + shown + "".join(f"<p>$${formula(label, one)}$$</p>" for label, one in series)


def formula(label: str, series: AbstractSeries) -> str:
    """ "u(x, t) = 0.71 \\cos(3.14 x - 1.57) + …", in LaTeX, the largest terms first."""
    axes = tuple(series.axes or (f"x_{j + 1}" for j in range(series.num_inputs)))
    terms, parts = series.terms(TERMS), []
    for term in terms:
        inner = " ".join(f"{k:+.4g} {_name(a)}" for k, a in zip(term.frequency, axes, strict=True) if k)
        wave = f"{term.amplitude:+.4g} \\cos({inner.removeprefix('+')} {-term.phase:+.4g})"
        parts.append(wave if inner else f"{term.amplitude * np.cos(term.phase):+.4g}")
    more = " + \\dots" if len(series.frequencies) * 2 ** (series.num_inputs - 1) > len(terms) else ""
    return f"{_name(label)}({', '.join(map(_name, axes))}) = {' '.join(parts).removeprefix('+')}{more}"


def _name(name: str) -> str:
    first, _, rest = name.partition("_")
    return f"{first}_{{{rest}}}" if rest else first
