"""The paper's optimal control beside ours: fixed starts, the disks, five strategies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from flm.paper.plan import RECIPE, SOLVER, STARTS, Plan, outcome
from flm.paper.printed import DISKS, FIVE_STRATEGIES, FIXED_STARTS
from flm.report.pages.layout import Item, Picture, Section, Table, Text
from flm.report.paper.cells import WORDS, beside
from flm.report.paper.figures import disk_figure, trajectory_figure
from flm.study.store import Record, Row
from flm.wording import measured

ERRORS = ("printed MAPE, %", "MAPE, %", "ratio", "printed MAE", "MAE", "ratio")


def control_sections(plan: Plan, rows: Mapping[str, Row]) -> list[Section]:
    """Three sections; figures where their runs are there."""
    return [
        Section("Optimal control: fixed starts", _fixed(plan, rows)),
        Section("Optimal control: the disks", _disks(plan, rows)),
        Section("Optimal control: five strategies", _five(plan, rows)),
    ]


def _point(center: Sequence[float]) -> str:
    return f"({', '.join(f'{v:g}' for v in center)})"


def _errors(part: Record, printed: Sequence[float]) -> list[str]:
    """The cells under `ERRORS` of a law on one set of starts, where it is there."""
    mape, mae = (beside(float(part.get(k, math.nan)), v) for k, v in zip(("mape", "mae"), printed, strict=True))
    return [f"{printed[0]:.2f}", *mape, measured(printed[1]), *mae]


def _fixed(plan: Plan, rows: Mapping[str, Row]) -> list[Item]:
    lines, drawn = [], {}
    for i, (start, printed) in enumerate(zip(STARTS, FIXED_STARTS, strict=True)):
        runs = {model: outcome(rows, plan.fixed(start, model)) for model in (RECIPE, SOLVER)}
        cells = [_point(start) + " *" * (i > 0), f"{printed:.2f}"]
        for model, key in ((RECIPE, "network_mape"), (RECIPE, "mape"), (SOLVER, "mape")):
            cells += beside(float(runs[model].get(key, math.nan)), printed)
        lines.append(cells)
        if any(runs.values()):
            drawn[_point(start)] = {model: run for model, run in runs.items() if run}
    headers = ["start", "printed, %", "recipe, networks, %", "ratio", "recipe, simulated, %", "ratio"]
    table = Table([*headers, f"{SOLVER}, %", "ratio"], lines, note=WORDS["fixed_note"])
    words = WORDS["fixed"].format(epochs=plan.budget.fixed_epochs)
    items: list[Item] = [Text(WORDS["simulated"]), Text(words), table]
    return items + ([Picture(trajectory_figure(drawn), WORDS["fixed_figure"])] if drawn else [])


def _disks(plan: Plan, rows: Mapping[str, Row]) -> list[Item]:
    runs = {RECIPE: plan.disk(RECIPE), f"{SOLVER}, N = 27": plan.disk(SOLVER)}
    runs[f"{SOLVER}, tolerance 1e-8"] = plan.disk(SOLVER, 0)
    found = {name: outcome(rows, definition) for name, definition in runs.items()}
    lines = [
        [_point(center), name, *_errors(one["parts"][k] if one else {}, printed)]
        for k, (center, printed) in enumerate(DISKS.items())
        for name, one in found.items()
    ]
    b, own = plan.budget, ""
    if recipe := found[RECIPE]:
        own = WORDS["own_cost"].format(error=measured(recipe["parts"][0]["network_mape"]))
    words = WORDS["disks"].format(epochs=b.family_epochs, nodes=b.nodes, states=b.states, own=own)
    items: list[Item] = [Text(words), Table(["disk around", "method", *ERRORS], lines, left=2)]
    drawn = {name: one["parts"] for name, one in found.items() if one and "tolerance" not in name}
    return items + ([Picture(disk_figure(drawn), WORDS["disks_figure"])] if drawn else [])


def _five(plan: Plan, rows: Mapping[str, Row]) -> list[Item]:
    lines, b = [], plan.budget
    for name in (RECIPE, SOLVER):
        found = outcome(rows, plan.five(name))
        size = "4 × 16 + 32" if name == RECIPE else str(found.get("subnets", "–"))
        lines.append([name, size, *_errors(found["parts"][0] if found else {}, FIVE_STRATEGIES)])
    words = WORDS["five"].format(epochs=b.five_epochs, nodes=b.nodes, states=b.states)
    words += WORDS["five_quick"] if plan.quick else ""
    return [Text(words), Table(["method", "sub-networks", *ERRORS], lines)]
