"""The paper's optimal control beside ours: fixed starts, and families of them (the disks, five strategies)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from flm.paper.plan import RECIPE, SOLVER, STARTS, Plan, outcome
from flm.paper.printed import DISKS, FIVE_STRATEGIES, FIXED_STARTS
from flm.report.pages.layout import Item, Picture, Section, Table, Text
from flm.report.paper.cells import WORDS, beside, mean
from flm.report.paper.figures import disk_figure, trajectory_figure
from flm.study.store import Row
from flm.wording import measured

ERRORS = {"network_mape": "networks, %", "mape": "simulated, %", "law_mape": "bias law, %", "mae": "MAE, simulated"}


def control_sections(plan: Plan, rows: Mapping[str, Row]) -> list[Section]:
    """Two sections; figures where their runs are there."""
    return [
        Section("Optimal control: fixed starts", _fixed(plan, rows)),
        Section("Optimal control: families", _families(plan, rows)),
    ]


def _point(center: Sequence[float]) -> str:
    return f"({', '.join(f'{v:g}' for v in center)})"


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


def _families(plan: Plan, rows: Mapping[str, Row]) -> list[Item]:
    budget, seeds = plan.budget, range(plan.budget.laws)
    disks = {
        RECIPE: [plan.disk(RECIPE, seed=seed) for seed in seeds],
        f"{SOLVER}, N = 27": [plan.disk(SOLVER)],
        f"{SOLVER}, tolerance 1e-8": [plan.disk(SOLVER, 0)],
    }
    five = {RECIPE: [plan.five(RECIPE, seed) for seed in seeds], f"{SOLVER}, tolerance 1e-6": [plan.five(SOLVER)]}
    lines, drawn = [], {}
    for runs, places in (
        (disks, {_point(c): v for c, v in DISKS.items()}),
        (five, {"five strategies": FIVE_STRATEGIES}),
    ):
        found = {name: [one for d in several if (one := outcome(rows, d))] for name, several in runs.items()}
        if runs is disks:
            drawn = {name: laws[0]["parts"] for name, laws in found.items() if laws and "tolerance" not in name}
        for k, (place, printed) in enumerate(places.items()):
            for name, laws in found.items():
                errors = [measured(mean([law["parts"][k][key] for law in laws])) for key in ERRORS]
                lines.append([place, name, f"{printed[0]:.2f}", measured(printed[1]), *errors])
    headers = ["disk around", "method", "printed MAPE, %", "printed MAE", *ERRORS.values()]
    epochs = {"epochs": budget.family_epochs, "five_epochs": budget.five_epochs}
    words = WORDS["families"].format(**epochs, seeds=budget.laws, states=budget.states)
    items: list[Item] = [Text(words), Table(headers, lines, left=2, note=WORDS["law"])]
    return items + ([Picture(disk_figure(drawn), WORDS["disks_figure"])] if drawn else [])
