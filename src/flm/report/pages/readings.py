"""Readings beside what was found: residuals, and the misfit with what is expected of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flm.pde.problem import PDE
from flm.report.figures.style import COLORS, house_style, new_figure
from flm.report.live import dots
from flm.report.pages.layout import Item, Picture, Text
from flm.results import Parameter, Solution


@dataclass(frozen=True)
class Readings:
    """The readings of a problem; none where it has no `flm.data`."""

    problem: PDE

    @classmethod
    def of(cls, problem: object) -> Readings | None:
        """Of a problem of any kind, where it has some."""
        has = isinstance(problem, PDE) and any(block.kind == "data" for block in problem.conditions)
        return cls(problem) if has and isinstance(problem, PDE) else None

    def dots(self, solution: Solution) -> dict[str, object] | None:
        """The first readings that are of an unknown itself, for the live figure."""
        for block in self.problem.conditions:
            jets = block.residual.jets
            plain = len(jets) == 1 and not any(jets[0][1]) and jets[0][0] < len(solution.unknowns)
            if (
                block.kind == "data"
                and plain
                and block.data is not None
                and len(solution.axes) == len(self.problem.axes)
            ):
                return dots(block.data.points, np.asarray(block.data.values, float), jets[0][0])
        return None

    def items(self, solution: Solution) -> list[Item]:
        """A sentence on the misfit and a picture of the residuals, for all readings with a known deviation."""
        values, found, sigma = self._compared(solution)
        away = found - values
        rms = float(np.sqrt(np.mean(away**2)))
        words = f"{len(values):,} readings; the root mean square of their residuals is {rms:.3g}."
        scores = away
        if np.isfinite(sigma).all():
            scores, left = away / sigma, len(values) - len(solution.parameters)
            square, slack = float(np.sum(scores**2)), 2 * np.sqrt(2 * max(left, 1))
            words += f" Squares of residuals in their standard deviations add to {square:.4g}; {left} ± {slack:.2g} is expected."
        with house_style():
            figure = new_figure(7.0, 2.4)
            panel = figure.subplots()
            panel.axhline(0, color="#444444", lw=0.8)
            panel.plot(scores, ".", ms=4, color=COLORS[0])
            panel.set(xlabel="reading", ylabel="residual / σ" if scores is not away else "residual")
        return [Text(words), Picture(figure, "Residuals of the readings.")]

    def _compared(self, solution: Solution) -> Sequence[np.ndarray]:
        """Readings, what was found for them, and their standard deviations, NaN where none was given."""
        numbers = self.problem.parameter_start.copy()
        for place, name in enumerate(self.problem.parameters):
            learned = solution.parameters.get(name)
            if isinstance(learned, Parameter):
                numbers[place] = learned.value
        columns: list[list[np.ndarray]] = [[], [], []]
        for block in self.problem.conditions:
            if block.kind != "data" or block.data is None:
                continue
            points, values = np.asarray(block.data.points, float), np.asarray(block.data.values, float)
            jets = [
                np.asarray(solution.model.jets(points, (alpha,))[0]).reshape(len(points), -1)[:, k]
                for k, alpha in block.residual.jets
            ]
            sigma = np.nan if block.data.sigma is None else block.data.sigma
            columns[0].append(values)
            columns[1].append(np.asarray(block.residual(points, jets, numbers)))
            columns[2].append(np.broadcast_to(np.asarray(sigma, float), values.shape))
        return [np.concatenate(column) for column in columns]
