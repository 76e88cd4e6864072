"""The paper beside our results: each of its tables and figures that can be computed from stored runs, as one page."""

from __future__ import annotations

import math
import os
import platform
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.metadata import version
from typing import Any

import jax
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from flm._version import __version__
from flm.models.classic import named_model
from flm.paper import printed
from flm.paper.plan import RECIPE, SOLVER, STARTS, TOL, Plan, outcome, values
from flm.report.figures.control import frame, overlay, ternary
from flm.report.figures.data import size_figure
from flm.report.figures.style import COLORS, ERROR, FIELD, house_style, new_figure
from flm.report.pages.demo import TITLES
from flm.report.pages.layout import Item, Page, Picture, Request, Sections, Table
from flm.report.pages.study import mean_and_deviation, ratio
from flm.study.results import choose
from flm.study.runs import Definition
from flm.study.store import DONE, FAILED, Row, run_key
from flm.wording import InputError, duration, measured

METRICS = {"mse": "MSE", "mae": "MAE", "max_error": "largest error"}
COSTS = {"network_mape": "networks, %", "mape": "simulated, %", "law_mape": "bias law, %", "mae": "MAE, simulated"}
WORDS: dict[str, str] = tomllib.loads((resources.files("flm.report.paper") / "words.toml").read_text("utf-8"))
FLOOR = 1e-17  # smaller errors are drawn as this
STYLES = {RECIPE: ":", SOLVER: "--"}
STATES = ("u1", "u2", "u3")
Rows = Mapping[str, Row]


def paper_page(plan: Plan, rows: Rows, command: str) -> Page:
    """The page of the stored runs, the last attempt of each by its key, with dashes for runs that are missing."""
    try:
        finals = plan.final_definitions(rows)
    except InputError:  # selections that are not decided yet
        finals = []
    wanted = {run_key(d): d for d in [*plan.definitions(rows), *finals]}
    mine = [rows[key] for key in wanted if key in rows]
    budget = WORDS["quick" if plan.quick else "full"].format(epochs=plan.budget.epochs)
    sections: Sections = {
        "Table 1: the models compared": [_models()],
        "Table 2: four PDEs": [budget, *_pde_tables(plan, rows)],
        "Solution surfaces": _surfaces(plan, rows),
        "Optimal control: fixed starts": _fixed(plan, rows),
        "Optimal control: families": _families(plan, rows),
        "N against MSE": _sizes(plan, rows),
        "Imputation of ETTh1": _imputation(plan, rows),
        "Left out": _left_out(wanted, rows),
    }
    spent = sum(float(row.outcome.get("processor_seconds", 0.0)) for row in mine)
    facts = {"version": "quick" if plan.quick else "full", "runs": f"{len(mine):,} of {len(wanted):,}"}
    facts |= {"processor time": duration(spent), "flm": __version__}
    facts |= {"Python, jax": f"{platform.python_version()}, {version('jax')}"}
    facts |= {"machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"}
    request = Request("Fourier Learning Machines: the paper beside ours", command=command)
    return request.page(WORDS["summary"], facts, {title: items for title, items in sections.items() if items})


def beside(ours: float, printed: float) -> list[str]:
    """Two cells: our value, and its ratio to the printed value."""
    return [measured(ours), ratio(ours, printed)]


def mean(numbers: Sequence[float]) -> float:
    """The mean; NaN if there are no numbers."""
    return sum(numbers) / len(numbers) if numbers else math.nan


def _models() -> Table:
    rows = []
    for name, sizes in printed.PARAMETERS.items():
        ours = {size: _count(name, size) for size in sizes}
        counts = [", ".join(map(str, column)) for column in (sizes, sizes.values(), ours.values())]
        words = [name, printed.ARCHITECTURES[name], printed.PARAMETER_FORMULAS[name]]
        rows.append([*words, *counts, "yes" if ours == sizes else "no"])
    headers = ["model", "the paper's description", "formula", "sizes", "printed", "counted here", "equal"]
    return Table(headers, rows, left=6, note=WORDS["parameters"])


def _count(name: str, size: int) -> int:
    """The number of parameters of a model for two inputs, built in the abstract: only shapes, nothing is computed."""
    found: list[int] = []
    jax.eval_shape(lambda key: found.append(named_model(name, 2, size, key=key).num_parameters), jax.random.key(0))
    return found[0]


def _trained(plan: Plan, rows: Rows, problem: str, model: str) -> tuple[str, Sequence[Definition]]:
    """(size, runs) of a model by the paper's recipe: final runs, else those of the selection's choice so far."""
    if plan.quick and model == "flm":
        return "49", [d for d in [plan.recipe_surface(problem, rows)] if d is not None]
    spec = plan.protocols[problem]
    group = next(g for g in spec.groups if g.model == model)
    chosen, final = group.configurations[0], []
    if len(group.configurations) > 1:
        try:
            found = choose(spec, rows, group)
        except InputError:  # not decided yet
            return "–", []
        chosen, final = found.configuration, [row.definition for row in found.final if row.status == DONE]
    return f"{chosen.size}", final or [spec.definition(chosen, seed) for seed in spec.seeds]


def _pde_tables(plan: Plan, rows: Rows) -> list[Item]:
    items: list[Item] = []
    for k, (metric, word) in enumerate(METRICS.items()):
        lines = []
        for problem, models in printed.PDE_ERRORS.items():
            for model, errors in models.items():
                size, runs = _trained(plan, rows, problem, model)
                solved = [plan.solve(problem, 49)] if model == "flm" else []
                means = [mean(values(rows, definitions, metric)) for definitions in (runs, solved)]
                pairs = [cell for ours in means for cell in beside(ours, errors[k])]
                lines.append([TITLES[problem], model, size, measured(errors[k]), *pairs])
        headers = ["problem", "model", "size", f"printed {word}", RECIPE, "ratio", SOLVER, "ratio"]
        note = WORDS["other_models"] if k == 0 else ""
        items += [f"{word[:1].upper()}{word[1:]}:", Table(headers, lines, left=2, note=note)]
    lines = []
    for problem, tol in TOL.items():
        found, theirs = outcome(rows, plan.solve(problem, 0)), printed.PDE_ERRORS[problem]["flm"][0]
        number = lambda key, found=found: float(found.get(key, math.nan))
        cells = [measured(v) for v in (number("error_estimate"), number("relative_l2"), theirs)]
        last = [*beside(number("mse"), theirs), measured(number("processor_seconds"))]
        lines.append([TITLES[problem], f"{tol:.0e}", *cells, *last])
    headers = ["problem", "tolerance asked", "estimate", "relative L2", "printed MSE", "our solver's MSE", "ratio"]
    table = Table([*headers, "processor s"], lines, left=1, note=WORDS["tolerance"])
    return [*items, "Our solver without a size:", table]


def _surfaces(plan: Plan, rows: Rows) -> list[Item]:
    items: list[Item] = []
    for problem in printed.PDE_ERRORS:
        runs = {RECIPE: plan.recipe_surface(problem, rows), SOLVER: plan.solve(problem, 49)}
        drawn = {name: found["surface"] for name, d in runs.items() if (found := outcome(rows, d))}
        if drawn:
            caption = WORDS["surface"].format(problem=TITLES[problem])
            items.append(Picture(_surface_figure(drawn), caption[:1].upper() + caption[1:]))
    return items


def _point(center: Sequence[float]) -> str:
    return f"({', '.join(f'{v:g}' for v in center)})"


def _fixed(plan: Plan, rows: Rows) -> list[Item]:
    lines, drawn = [], {}
    for i, (start, theirs) in enumerate(zip(STARTS, printed.FIXED_STARTS, strict=True)):
        runs = {model: outcome(rows, plan.fixed(start, model)) for model in (RECIPE, SOLVER)}
        cells = [_point(start) + " *" * (i > 0), f"{theirs:.2f}"]
        for model, key in ((RECIPE, "network_mape"), (RECIPE, "mape"), (SOLVER, "mape")):
            cells += beside(float(runs[model].get(key, math.nan)), theirs)
        lines.append(cells)
        if any(runs.values()):
            drawn[_point(start)] = {model: run for model, run in runs.items() if run}
    headers = ["start", "printed, %", "recipe, networks, %", "ratio", "recipe, simulated, %", "ratio"]
    table = Table([*headers, f"{SOLVER}, %", "ratio"], lines, note=WORDS["fixed_note"])
    items: list[Item] = [WORDS["simulated"], WORDS["fixed"].format(epochs=plan.budget.fixed_epochs), table]
    return items + ([Picture(_trajectory_figure(drawn), WORDS["fixed_figure"])] if drawn else [])


def _families(plan: Plan, rows: Rows) -> list[Item]:
    budget, seeds = plan.budget, range(plan.budget.laws)
    disks = {
        RECIPE: [plan.disk(RECIPE, seed=seed) for seed in seeds],
        f"{SOLVER}, N = 27": [plan.disk(SOLVER)],
        f"{SOLVER}, tolerance 1e-8": [plan.disk(SOLVER, 0)],
    }
    five = {RECIPE: [plan.five(RECIPE, seed) for seed in seeds], f"{SOLVER}, tolerance 1e-6": [plan.five(SOLVER)]}
    centers = {_point(center): theirs for center, theirs in printed.DISKS.items()}
    lines, drawn = [], {}
    for runs, places in ((disks, centers), (five, {"five strategies": printed.FIVE_STRATEGIES})):
        found = {name: [one for d in several if (one := outcome(rows, d))] for name, several in runs.items()}
        if runs is disks:
            drawn = {name: laws[0]["parts"] for name, laws in found.items() if laws and "tolerance" not in name}
        for k, (place, theirs) in enumerate(places.items()):
            for name, laws in found.items():
                errors = [measured(mean([law["parts"][k][key] for law in laws])) for key in COSTS]
                lines.append([place, name, f"{theirs[0]:.2f}", measured(theirs[1]), *errors])
    headers = ["disk around", "method", "printed MAPE, %", "printed MAE", *COSTS.values()]
    epochs = {"epochs": budget.family_epochs, "five_epochs": budget.five_epochs}
    words = WORDS["families"].format(**epochs, seeds=budget.laws, states=budget.states)
    items: list[Item] = [words, Table(headers, lines, left=2, note=WORDS["law"])]
    return items + ([Picture(_disk_figure(drawn), WORDS["disks_figure"])] if drawn else [])


def _sizes(plan: Plan, rows: Rows) -> list[Item]:
    """The figure of the MSE against N, and its numbers."""
    spec, curves, lines = plan.figure, {}, []
    scores = lambda runs: {n: found for n, ds in runs.items() if (found := values(rows, ds, "mse"))}
    for group in spec.groups:
        recipe = scores({c.size: [spec.definition(c, seed) for seed in spec.seeds] for c in group.configurations})
        solver = scores({n: [plan.solve(group.problem, n)] for n in plan.budget.figure_sizes})
        curves[TITLES[group.problem]] = {RECIPE: recipe, SOLVER: solver}
        for n in sorted({*recipe, *solver}):
            both = [mean_and_deviation(found.get(n, [])) for found in (recipe, solver)]
            lines.append([TITLES[group.problem], f"{n}", *both])
    if not lines:
        return []
    caption = WORDS["sizes"].format(epochs=spec.training["epochs"], seeds=len(spec.seeds))
    table = Table(["problem", "N", f"MSE, {RECIPE}", f"MSE, {SOLVER}"], lines, left=1, note=WORDS["sizes_note"])
    return [Picture(size_figure(curves), caption), table]


def _imputation(plan: Plan, rows: Rows) -> list[Item]:
    theirs = lambda numbers: " ± ".join(f"{v:.2f}" for v in numbers)
    if plan.series is None:
        models = [(f"{rate:.0%}", *one) for rate, several in printed.IMPUTATION.items() for one in several.items()]
        lines = [[rate, model, theirs(numbers)] for rate, model, numbers in models]
        return [WORDS["no_series"], Table(["missing", "model", "printed MAE"], lines, left=2)]
    oil, channels = [], []
    for rate, models in printed.IMPUTATION.items():
        runs = {model: plan.imputation(rate, model) for model in ("recipe", "solver", "channels")}
        recipe, solver, every = (values(rows, definitions, "mae") for definitions in runs.values())
        flm, saits = models["FLM"][0], models["SAITS"][0]
        pairs = [
            cell for ours in (recipe, solver) for cell in (mean_and_deviation(ours, ".3f"), ratio(mean(ours), flm))
        ]
        both = [mean(values(rows, runs["recipe"] + runs["solver"], k)) for k in ("linear", "mean_of_observed")]
        oil.append([f"{rate:.0%}", theirs(models["FLM"]), *pairs, *map(measured, both)])
        others = ", ".join(f"{m} {v[0]:.2f}" for m, v in models.items() if m not in ("FLM", "SAITS"))
        cells = [f"{rate:.0%}", others, f"{saits:.2f}", mean_and_deviation(every, ".3f"), ratio(mean(every), saits)]
        channels.append([*cells, measured(mean(values(rows, runs["channels"], "linear")))])
    headers = ["missing", "printed FLM", RECIPE, "ratio", SOLVER, "ratio", "straight lines", "mean of observed"]
    others = ["missing", "printed, others", "printed, SAITS (best)", SOLVER, "ratio to SAITS", "straight lines"]
    alone = WORDS["oil"].format(masks=plan.budget.masks)
    return [alone, Table(headers, oil), WORDS["channels"], Table(others, channels, left=2)]


def _left_out(wanted: Mapping[str, Definition], rows: Rows) -> list[Item]:
    items: list[Item] = []
    if missing := sum(key not in rows for key in wanted):
        items.append(f"{missing:,} of {len(wanted):,} runs are not done yet: their cells are dashes.")
    for row in (rows[key] for key in wanted if key in rows and rows[key].status == FAILED):
        run = "{problem}, {model}, size {size}, seed {seed} failed: ".format_map(row.definition)
        items.append(run + str(row.outcome.get("reason")))
    return items


def _surface_figure(surfaces: Mapping[str, Mapping[str, Any]]) -> Figure:
    """For each name a row: exact solution, approximation and absolute error over the domain, as surfaces."""
    with house_style():
        figure = new_figure(9.6, 3.1 * len(surfaces))
        for i, (name, surface) in enumerate(surfaces.items()):
            grid = np.meshgrid(*(np.asarray(line) for line in surface["lines"]), indexing="ij")
            titles = ("exact", name, f"|error|, largest {np.max(surface['error']):.1e}")
            for j, (key, colors) in enumerate((("exact", FIELD), ("found", FIELD), ("error", ERROR))):
                axes: Any = figure.add_subplot(len(surfaces), 3, 3 * i + j + 1, projection="3d")
                look = {"cmap": colors, "linewidth": 0, "rcount": 51, "ccount": 51, "rasterized": True}
                axes.plot_surface(*grid, np.asarray(surface[key]), **look)
                axes.set(xlabel=surface["axes"][0], ylabel=surface["axes"][1], title=titles[j])
                axes.view_init(elev=24, azim=-128)
                axes.tick_params(labelsize=7, pad=0)
                axes.locator_params(nbins=5)
                axes.ticklabel_format(axis="z", style="sci", scilimits=(-2, 3))
                axes.zaxis.get_offset_text().set_size(7)
                axes.set_box_aspect(None, zoom=0.86)
    return figure


def _trajectory_figure(starts: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Figure:
    """For each start a row: states, control and the path on the simplex by Pontryagin's principle, their recipe and our solver.

    starts[label][method] is a stored run; all runs of a start have the same reference.
    """
    with house_style():
        figure = new_figure(11.4, 2.9 * len(starts))
        grid = figure.subplots(len(starts), 3, squeeze=False, width_ratios=[1.25, 1.25, 1.0])
        for (label, runs), (left, right, simplex) in zip(starts.items(), grid, strict=True):
            one = next(iter(runs.values()))
            t, path = one["times"], ternary(one["reference_states"])
            for i, states in enumerate(np.transpose(one["reference_states"])):
                left.plot(t, states, color=COLORS[i], label=STATES[i])
            right.plot(t, one["reference_control"], color=COLORS[0], label="Pontryagin")
            simplex.plot(*path.T, color=COLORS[0], linewidth=2.4)
            simplex.plot(*path[0], "o", color=COLORS[0], markersize=5)
            for name, run in runs.items():
                overlay((left, right, simplex), t, run["states"], run["control"], name, STYLES[name])
            left.set(title=f"from {label}", xlabel="t")
            right.set(title="control γ", xlabel="t")
            left.legend(ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
            right.legend()
            frame(simplex, STATES)
    return figure


def _disk_figure(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """For each method a row: percentage and absolute errors of the cost at the test states of the three disks."""
    titles = {"percent": "error of cost, %", "absolute": "absolute error of cost"}
    with house_style():
        figure = new_figure(9.4, 4.0 * len(runs))
        for (name, parts), row in zip(runs.items(), figure.subplots(len(runs), 2, squeeze=False), strict=True):
            points = ternary(np.concatenate([part["starts"] for part in parts]))
            for axes, (key, title) in zip(row, titles.items(), strict=True):
                values = np.maximum(np.concatenate([part[key] for part in parts]), FLOOR)
                norm = LogNorm(values.min(), max(values.max(), values.min() * 1.0001))
                shown = axes.scatter(*points.T, c=values, norm=norm, cmap=ERROR, s=16)
                figure.colorbar(shown, ax=axes, shrink=0.8)
                axes.set_title(f"{name}: {title}, mean {values.mean():.2g}")
                frame(axes, STATES)
    return figure
