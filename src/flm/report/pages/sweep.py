"""The page of a sweep: every solve in a table, and their answers in one live figure with a slider for each parameter."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence

import numpy as np

from flm.control.solution import ControlSolution
from flm.report.live import control_table, packed, samples
from flm.report.pages.layout import Item, Page, Request, Table
from flm.results import Solution
from flm.study.store import Row
from flm.wording import measured

SAMPLES = 2_500  # values of one answer that are kept
FEW = 6  # words of a table's cell for what went wrong


def sampled(solution: Solution | ControlSolution) -> dict[str, object]:
    """Values of an answer on an even grid over its domain, as text holds them; of a control law, along its horizon."""
    if isinstance(solution, ControlSolution):
        names, rows = control_table(solution)
        axes, unknowns, bounds, values = ["t"], names[1:], [[0.0, float(rows[-1, 0])]], rows[:, 1:]
    else:
        axes, unknowns = list(solution.axes), list(solution.unknowns)
        bounds = np.asarray(solution.reach).tolist()
        lines, values = solution.on_grid(max(5, int((SAMPLES / len(unknowns)) ** (1 / len(axes)))))
        values = values.reshape(*(len(line) for line in lines), len(unknowns))
    return {"axes": axes, "unknowns": unknowns, "bounds": bounds, "shape": values.shape[:-1], "values": packed(values)}


def sweep_page(lines: Mapping[str, Sequence[float]], rows: Sequence[Row | None], request: Request) -> Page:
    """The page of all runs, None for those that are not solved yet, in the order of the product of `lines`."""
    there = [row for row in rows if row is not None]
    good = sum(bool(row.outcome.get("converged")) for row in there)
    headers = [*lines, "status", "estimated relative error", "columns", "seconds"]
    points = np.stack([g.ravel() for g in np.meshgrid(*lines.values(), indexing="ij")], axis=1)
    cells = [[*(f"{v:.6g}" for v in point), *_cells(row)] for point, row in zip(points, rows, strict=True)]
    facts = {"solved to the tolerance": f"{good} of {len(rows)}"}
    facts["processor time"] = f"{sum(row.outcome['processor_seconds'] for row in there):.1f} s"
    tone = "good" if good == len(rows) else "doubtful" if good else "failed"
    summary, left = f"{good} of {len(rows)} values were solved to the tolerance.", len(rows) - len(there)
    summary += f" {left} are not solved yet: the same command goes on." if left else ""
    found = [_figure(lines, rows), Table(headers, cells, left=0)]
    return request.page(summary, facts, {"What was found": found}, tone)


def _cells(row: Row | None) -> list[str]:
    if row is None:
        return ["not solved yet", "", "", ""]
    found = row.outcome
    estimate = float(found.get("error_estimate", math.nan))
    word = found.get("word") or " ".join(str(found.get("reason", row.status)).split()[:FEW])
    return [word, measured(estimate, "not known"), f"{found.get('columns', 0):,}", f"{found['seconds']:.2f}"]


def _figure(lines: Mapping[str, Sequence[float]], rows: Sequence[Row | None]) -> Item:
    """All answers as one function of the axes and the parameters, where they were sampled alike."""
    found = [row.outcome.get("samples") if row is not None else None for row in rows]
    first = next((one for one in found if one), None)
    alike = first and all(
        one and all(one[k] == first[k] for k in ("axes", "unknowns", "bounds", "shape")) for one in found
    )
    if not first or not alike:
        return "The live figure is left out: not every value has an answer on the same domain."
    varied = {name: values for name, values in lines.items() if len(values) > 1}
    blocks = [np.frombuffer(base64.b64decode(one["values"]), "<f8") for one in found if one]
    shape, outputs = tuple(first["shape"]), len(first["unknowns"])
    block = np.stack(blocks).reshape(*(len(v) for v in varied.values()), *shape, outputs)
    cut = len(varied)  # the parameters come last, as in a family
    block = np.moveaxis(block, range(cut), range(len(shape), len(shape) + cut))
    bounds = [*first["bounds"], *([values[0], values[-1]] for values in varied.values())]
    caption = "Samples of every answer; between the values that were solved, straight lines."
    more = {"parameters": cut, "together": list(range(outputs)) if len(shape) == 1 else []}
    return samples([*first["axes"], *varied], first["unknowns"], bounds, block, caption, more)
