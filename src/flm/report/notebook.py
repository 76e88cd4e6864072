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
    shown = "" if figure is None else figure._repr_html_()
    if figure is None or len(figure.data) > MOST_BYTES:
        picture = Picture(answer.plot())
        shown = f'<img src="{picture.address}" alt="The answer" style="max-width: 100%">'
    return status + shown + "".join(f"<p>$${line}$$</p>" for line in formulas(answer))


def formulas(answer: AbstractResult) -> list[str]:
    """Each series in LaTeX, its largest terms first; none where the terms are far larger than their sum."""
    if isinstance(answer, ControlSolution):
        series = labeled_series(answer) or []
        return [formula(answer.controls[0], one) for _, one in series[:1]]
    if not isinstance(answer, Solution):
        return []
    return [formula(label, one) for label, one in readable(answer)[0] if " for " not in label]


def formula(label: str, series: AbstractSeries) -> str:
    """ "u(x, t) = 0.71 \\cos(3.14 x - 1.57) + …"."""
    axes = tuple(series.axes or (f"x_{j + 1}" for j in range(series.num_inputs)))
    terms = series.terms(TERMS)
    parts = []
    for term in terms:
        inner = " ".join(f"{k:+.4g} {_name(a)}" for k, a in zip(term.frequency, axes, strict=True) if k)
        if not inner:
            parts.append(f"{term.amplitude * np.cos(term.phase):+.4g}")
        else:
            parts.append(f"{term.amplitude:+.4g} \\cos({inner.removeprefix('+')} {-term.phase:+.4g})")
    more = " + \\dots" if len(series.frequencies) * 2 ** (series.num_inputs - 1) > len(terms) else ""
    return f"{_name(label)}({', '.join(map(_name, axes))}) = {' '.join(parts).removeprefix('+')}{more}"


def _name(name: str) -> str:
    first, _, rest = name.partition("_")
    return f"{first}_{{{rest}}}" if rest else first
