"""The paper's optimal control beside ours: fixed starts, the disks, five strategies; and cells of such tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from flm.paper.plan import RECIPE, SOLVER, STARTS, Plan, outcome
from flm.paper.printed import DISKS, FIVE_STRATEGIES, FIXED_STARTS
from flm.report.pages.layout import Item, Picture, Section, Table, Text
from flm.report.paper.figures import Start, disk_figure, ternary_figure, trajectory_figure
from flm.study.store import Row
from flm.wording import measured

SIMULATED = (
    "Errors are of the cost of the simulated dynamics under the learned control, against Pontryagin's principle: a cost that can "
    "be had. The recipe's networks have a cost of their own, which may be below the optimum; it is given too, because the paper "
    "does not say which it prints."
)


def beside(ours: float, printed: float) -> list[str]:
    """Two cells: ours, and the ratio to the printed value."""
    return [measured(ours), ratio(ours, printed)]


def ratio(ours: float, printed: float) -> str:
    """Ours over the printed value, two digits."""
    if not math.isfinite(ours):
        return "–"
    found = ours / printed
    return f"{found:.2g}" if 1e-2 <= found < 100 else f"{found:,.0f}" if 100 <= found < 1e5 else f"{found:.1e}"


def mean(values: Sequence[float]) -> float:
    """The mean; NaN of nothing."""
    return sum(values) / len(values) if values else math.nan


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    if not values:
        return "–"
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else "")


def control_sections(plan: Plan, rows: Mapping[str, Row]) -> list[Section]:
    """Three sections; figures where their runs are there."""
    return [
        Section("Optimal control: fixed starts", _fixed(plan, rows)),
        Section("Optimal control: the disks", _disks(plan, rows)),
        Section("Optimal control: five strategies", _five(plan, rows)),
    ]


def _value(found: Mapping[str, float], key: str) -> float:
    return float(found.get(key, math.nan))


def _fixed(plan: Plan, rows: Mapping[str, Row]) -> list[Item]:
    lines, drawn = [], []
    for i, (start, printed) in enumerate(zip(STARTS, FIXED_STARTS, strict=True)):
        recipe, solver = (outcome(rows, plan.fixed(start, model)) for model in (RECIPE, SOLVER))
        label = f"({', '.join(f'{v:g}' for v in start)})"
        cells = [label + " *" * (i > 0), f"{printed:.2f}"]
        for found, key in ((recipe, "network_mape"), (recipe, "mape"), (solver, "mape")):
            cells += beside(_value(found, key), printed)
        lines.append(cells)
        if recipe or solver:
            drawn.append(Start(label, recipe, solver))
    headers = ["start", "printed, %", "recipe, networks, %", "ratio", "recipe, simulated, %", "ratio"]
    headers += [f"{SOLVER}, %", "ratio"]
    note = "* The paper does not name its second and third start: these are ours, beside its numbers in their order."
    items: list[Item] = [
        Text(SIMULATED),
        Text(
            f"Their recipe: three FLMs with N = 5, penalty 1e4, Adam at 0.001 for {plan.budget.fixed_epochs:,} epochs (the paper "
            "gives neither penalty nor epochs). Our solver: the control alone, N = 5."
        ),
        Table(headers, lines, note=note),
    ]
    if drawn:
        caption = (
            "States and control from three starts: Pontryagin (colored), their recipe (dotted), our solver (dashed)."
        )
        items.append(Picture(trajectory_figure(drawn), caption))
        items.append(Picture(ternary_figure(drawn[0]), "The path on the simplex, T = 6, r = 0.2."))
    return items


def _disks(plan: Plan, rows: Mapping[str, Row]) -> list[Item]:
    b = plan.budget
    runs = {
        RECIPE: plan.disk(RECIPE),
        f"{SOLVER}, N = 27": plan.disk(SOLVER),
        f"{SOLVER}, tolerance 1e-8": plan.disk(SOLVER, 0),
    }
    found = {name: outcome(rows, definition) for name, definition in runs.items()}
    lines = []
    for k, (center, (mape, mae)) in enumerate(DISKS.items()):
        for name, one in found.items():
            part = one["parts"][k] if one else {}
            cells = [
                f"({', '.join(f'{v:g}' for v in center)})",
                name,
                f"{mape:.2f}",
                *beside(_value(part, "mape"), mape),
            ]
            lines.append([*cells, measured(mae), *beside(_value(part, "mae"), mae)])
    recipe = found[RECIPE]
    own = ""
    if recipe:
        own = f" The networks' own cost is off by {measured(recipe['parts'][0]['network_mape'])} % on the first disk."
    items: list[Item] = [
        Text(
            f"Their recipe: three FLMs with N = 27, 250 starts, Adam at 5e-4 for {b.family_epochs:,} epochs, {b.nodes} time nodes. "
            f"All are scored on {b.states} fresh random states of each disk.{own}"
        ),
        Table(
            ["disk around", "method", "printed MAPE, %", "MAPE, %", "ratio", "printed MAE", "MAE", "ratio"],
            lines,
            left=2,
        ),
    ]
    drawn = {name: one["parts"] for name, one in found.items() if one and "tolerance" not in name}
    if drawn:
        caption = "Percentage errors (left) and absolute errors (right) of the cost at test states of the three disks."
        items.append(Picture(disk_figure(drawn), caption))
    return items


def _five(plan: Plan, rows: Mapping[str, Row]) -> list[Item]:
    lines = []
    mape, mae = FIVE_STRATEGIES
    for name in (RECIPE, SOLVER):
        found = outcome(rows, plan.five(name))
        part = found["parts"][0] if found else {}
        size = "4 × 16 + 32" if name == RECIPE else str(found.get("subnets", "–"))
        cells = [name, size, f"{mape:.2f}", *beside(_value(part, "mape"), mape)]
        lines.append([*cells, measured(mae), *beside(_value(part, "mae"), mae)])
    b = plan.budget
    words = (
        f"Rock–Paper–Scissors–Spock–Lizard on a hyperdisk of radius 0.045, {b.states} fresh states. Their recipe: Adam at 1e-4 for "
        f"{b.five_epochs:,} epochs, {b.nodes} time nodes. Our solver: tolerance 1e-6."
    )
    if plan.quick:
        words += " At that few epochs the recipe has hardly begun."
    headers = ["method", "sub-networks", "printed MAPE, %", "MAPE, %", "ratio", "printed MAE", "MAE", "ratio"]
    return [Text(words), Table(headers, lines, left=1)]
