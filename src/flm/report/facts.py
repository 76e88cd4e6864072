"""An answer in words and numbers: its facts, its record for machines, the series in it that can be read.

Nothing here draws: a command that only prints does not wait for the libraries of figures.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from flm.conservation.law import ConservationLaw
from flm.control.solution import ControlSolution
from flm.models.family import FamilyFLM
from flm.results import AbstractResult, Parameter, Solution, Status, Word
from flm.results.result import DOUBTFUL
from flm.series import AbstractSeries, PhaseSeries, ProductSeries
from flm.wording import NoSeriesError, measured, with_error

TERMS = 5  # the largest ones of each unknown in a record
READABLE = 10.0  # times the answer's size: terms with larger amplitudes cannot be read one by one
NEAR = 3.0  # estimated errors: values closer than this count as equal
ROUNDING = 1e-13  # times the largest value: smaller values are shown as zero


def facts_of(answer: AbstractResult, problem: object = None) -> dict[str, str]:
    """The first facts about a solution or a control law: how sure it is, its values, its size."""
    facts: dict[str, str] = {}
    if isinstance(answer, ControlSolution):
        start = answer.starts.lift(answer.starts.center)
        facts["estimated relative excess cost"] = measured(answer.error_estimate, "not known")
        label = "cost from the center" if answer.starts.dimension else "cost"
        cost = float(answer.cost(start))
        known, _, _ = with_error(cost, abs(cost) * answer.error_estimate).partition(" ±")
        facts |= {label: known, "sub-networks": str(answer.num_subnets)}
    elif isinstance(answer, Solution):
        norm = norm_of(problem)
        estimated = f"estimated relative {norm} error"
        facts[estimated] = measured(answer.error_estimate, "not known")
        if answer.trusted_until is not None and answer.estimate_until is not None:
            facts["trusted until"] = f"t = {answer.trusted_until:.4g}"
            facts[f"{estimated} until then"] = measured(answer.estimate_until)
        facts |= _extremes(answer)
        if answer.exact is not None:
            facts[f"true relative {norm} error"] = measured(_true_error(answer, norm))
    facts |= {name: str(found) for name, found in answer.parameters.items() if isinstance(found, Parameter)}
    return facts | {"numbers in the answer": f"{answer.num_parameters:,}", "seconds": f"{answer.seconds:.2f}"}


def norm_of(problem: object) -> str:
    """The norm that an error estimate is in."""
    return "L1" if isinstance(problem, ConservationLaw) else "L2"


def _true_error(solution: Solution, norm: str) -> float:
    """The relative error against the exact solution, in the norm of the estimate beside it."""
    errors, exact = solution.errors(), solution.exact
    if norm == "L2" or exact is None:
        return errors.relative_l2
    return errors.mae / float(np.mean(np.abs(exact(solution.test_points()))))


def _extremes(solution: Solution) -> dict[str, str]:
    """The range of each unknown on a grid, and where it is largest."""
    (lines, values), facts = solution.on_grid({1: 4001, 2: 201}.get(len(solution.axes))), {}
    columns = values[None] if len(solution.unknowns) == 1 else np.moveaxis(values, -1, 0)
    for name, column in list(zip(solution.unknowns, columns, strict=True))[:3]:
        if np.isfinite(column).any():
            top = np.unravel_index(np.nanargmax(column), column.shape)
            low, high = float(np.nanmin(column)), float(np.nanmax(column))
            error = solution.error_estimate if np.isfinite(solution.error_estimate) else 0.0
            slack = NEAR * max(error, ROUNDING) * max(abs(low), abs(high))
            low, peaks = 0.0 if abs(low) < slack else low, np.argwhere(column >= high - slack)
            # An axis is not named if the unknown is as large at all of its values.
            named = [j for j, x in enumerate(lines) if len(np.unique(peaks[:, j])) < len(x)]
            where = ", ".join(f"{solution.axes[j]} = {lines[j][top[j]]:.3g}" for j in named)
            facts[f"values of {name}"] = f"{low:.4g} to {high:.4g}{', largest at ' * bool(named)}{where}"
    return facts


def tone(status: Status, error_estimate: float) -> str:
    """The tone in which a page shows an ending: success, an answer with an estimate, or none."""
    if status.word in (Word.CONVERGED, Word.SOLVED):
        return "good"
    return "doubtful" if np.isfinite(error_estimate) and status.word not in DOUBTFUL else "failed"


def record(solution: Solution | ControlSolution, name: str) -> dict[str, Any]:
    """The record of the answer to the problem called `name`, for machines, to be written by `flm.files.to_json`."""
    found: dict[str, Any] = {"problem": name, "status": solution.status.word, "sentence": solution.status.sentence}
    found |= {key: getattr(solution, key) for key in ("converged", "error_estimate", "tolerance", "seconds")}
    found |= {"columns": solution.num_columns, "parameters": solution.num_parameters}
    if solution.parameters:
        found["learned"] = {k: p.record() | {"text": str(p)} for k, p in solution.parameters.items()}
    if isinstance(solution, ControlSolution):
        found["subnets"] = solution.num_subnets
        if solution.starts.dimension == 0 and solution.problem is not None:
            found["cost"] = float(solution.cost())
        return found
    found |= {"axes": list(solution.axes), "unknowns": list(solution.unknowns), "bounds": solution.bounds}
    found["terms"] = {one.label: [t._asdict() for t in one.series.terms(TERMS)] for one in labeled_series(solution)}
    if solution.trusted_until is not None:
        found |= {"trusted_until": solution.trusted_until, "estimate_until": solution.estimate_until}
    if solution.exact is not None:
        found["errors"] = asdict(solution.errors())
    return found


class LabeledSeries(NamedTuple):
    """A series of one output, what it is of, and in words the piece where it holds; empty where that is everywhere."""

    name: str
    series: AbstractSeries
    piece: str = ""

    @property
    def label(self) -> str:
        """The name, with the piece."""
        return f"{self.name} for {self.piece}" if self.piece else self.name


def readable(solution: Solution | ControlSolution) -> tuple[list[LabeledSeries], str]:
    """The series whose terms can be read, for a family at the middle of its ranges, and a sentence about them.

    Where amplitudes are far larger than the answer, single terms say nothing: the list is then empty.
    """
    if isinstance(solution, ControlSolution):
        series, laws = solution.series, []
        every = [np.reshape(part, (*np.shape(part)[:2], -1)) for part in (series.amplitudes, series.phases)]
        for k, name in enumerate(solution.controls):
            bounded = np.isfinite([solution.law.lower[k], solution.law.upper[k]]).any()
            label = f"{name}, before its bounds" if bounded else name
            own = PhaseSeries(series.frequencies, every[0][..., k], every[1][..., k], series.axes)
            laws.append(LabeledSeries(label, own))
        return laws, ""
    words, model = "", solution.model
    if isinstance(model, FamilyFLM):
        cut = len(model.counts)
        middle = dict(zip(solution.axes[-cut:], np.mean(solution.bounds[-cut:], axis=1).tolist(), strict=True))
        solution, at = solution.at(**middle), ", ".join(f"{name}={value:.4g}" for name, value in middle.items())
        words = f"Each value has a series of its own; this is solution.at({at}).series."
    found = labeled_series(solution)
    if found and found[0].piece:
        words = "Each piece of the domain has a series of its own; this is the first one's."
    if not found:
        return [], "This answer is not a plain Fourier series; flm.distill finds one that is near it."
    size = float(np.nanmax(np.abs(solution.on_grid()[1])))
    if max((term.amplitude for one in found for term in one.series.terms(1)), default=0.0) > READABLE * size:
        return [], "The waves of this series are far larger than their sum, so that its terms say nothing one by one."
    return found, words


def labeled_series(found: object) -> list[LabeledSeries]:
    """Every series with one output inside a solution, a model, an estimator or a series; empty if there is none to read.

    The labels of a solution name the unknown and, of several pieces, the first, whose series is taken.
    """
    if isinstance(found, Solution):
        try:
            every = [_of_unknown(found, unknown) for unknown in found.unknowns]
        except NoSeriesError:
            return []
    else:
        inside = (found, getattr(found, "series_", None), getattr(found, "series", None))
        every = [LabeledSeries("series", s) for s in inside if isinstance(s, AbstractSeries)][:1]
        every = [one for one in every if not one.series._outputs]
    # Thousands of products of many variables have no terms to list.
    return [one for one in every if not isinstance(one.series, ProductSeries) or one.series.is_short]


def _of_unknown(solution: Solution, unknown: str) -> LabeledSeries:
    one = solution[unknown] if len(solution.unknowns) > 1 else solution
    (box, series), *others = one.pieces
    ends = zip(box.axes, box.bounds, strict=True)
    where = ", ".join(f"{a} from {low:.4g} to {high:.4g}" for a, (low, high) in ends)
    return LabeledSeries(unknown, series, where if others else "")
