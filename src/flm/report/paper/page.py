"""The paper beside ours: every table and figure of it that can be computed, from stored runs, as one page."""

from __future__ import annotations

import math
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import jax

from flm._version import __version__
from flm.models.named import named_model
from flm.paper.plan import RECIPE, SOLVER, TOL, Plan, outcome, values
from flm.paper.printed import ARCHITECTURES, IMPUTATION, PARAMETER_FORMULAS, PARAMETERS, PDE_ERRORS
from flm.report.figures.data import size_figure
from flm.report.pages.demo import TITLES
from flm.report.pages.layout import Item, Page, Picture, Request, Section, Table, Text
from flm.report.pages.study import mean_and_deviation
from flm.report.paper.cells import WORDS, beside, mean, ratio, spread
from flm.report.paper.control import control_sections
from flm.report.paper.figures import surface_figure
from flm.study.results import choose
from flm.study.runs import Definition
from flm.study.store import DONE, FAILED, Row, run_key
from flm.wording import InputError, duration, measured

METRICS = {"mse": "MSE", "mae": "MAE", "max_error": "largest error"}


def paper_page(plan: Plan, rows: Mapping[str, Row], command: str) -> Page:
    """The page of the stored runs, the last attempt of each by its key, with dashes for those that are not there yet."""
    wanted = {run_key(d): d for d in [*plan.definitions(rows), *_finals(plan, rows)]}
    mine = [rows[key] for key in wanted if key in rows]
    budget = WORDS["quick" if plan.quick else "full"].format(epochs=plan.budget.epochs)
    sections = [
        Section("Table 1: the models compared", [_models()]),
        Section("Table 2: four PDEs", [Text(budget), *_pde_tables(plan, rows)]),
        *_surfaces(plan, rows),
        *control_sections(plan, rows),
        *_sizes(plan, rows),
        Section("Imputation of ETTh1", _imputation(plan, rows)),
        *_left_out(wanted, rows),
    ]
    spent = sum(float(row.outcome.get("processor_seconds", 0.0)) for row in mine)
    runs = ("runs", f"{len(mine):,} of {len(wanted):,}")
    facts = [("version", "quick" if plan.quick else "full"), runs, ("processor time", duration(spent)), *provenance()]
    request = Request("Fourier Learning Machines: the paper beside ours", command=command)
    return request.page(WORDS["summary"], facts, sections)


def provenance() -> list[tuple[str, str]]:
    """On what the numbers were measured: commit where there is one, machine, versions."""
    found = [("flm", __version__), ("Python, jax", f"{platform.python_version()}, {version('jax')}")]
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
        found.insert(0, ("commit", commit))
    except (OSError, subprocess.SubprocessError):
        pass
    return [*found, ("machine", f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}")]


def _finals(plan: Plan, rows: Mapping[str, Row]) -> Sequence[Definition]:
    try:
        return plan.final_definitions(rows)
    except InputError:  # selections that are not decided yet
        return []


def _models() -> Table:
    rows = []
    for name, printed in PARAMETERS.items():
        ours = {size: _count(name, size) for size in printed}
        counts = [", ".join(map(str, column)) for column in (printed, printed.values(), ours.values())]
        rows.append([name, ARCHITECTURES[name], PARAMETER_FORMULAS[name], *counts, "yes" if ours == printed else "no"])
    headers = ["model", "the paper's description", "formula", "sizes", "printed", "counted here", "equal"]
    return Table(headers, rows, left=6, note=WORDS["parameters"])


def _count(name: str, size: int) -> int:
    """The parameters of a model for two inputs, built in the abstract: shapes alone, nothing is computed."""
    found: list[int] = []
    jax.eval_shape(lambda key: found.append(named_model(name, 2, size, key=key).num_parameters), jax.random.key(0))
    return found[0]


def trained(plan: Plan, rows: Mapping[str, Row], problem: str, model: str) -> tuple[str, Sequence[Definition]]:
    """(size, runs) of a model by their recipe: final runs, else those of the selection's choice so far."""
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


def _pde_tables(plan: Plan, rows: Mapping[str, Row]) -> list[Item]:
    items: list[Item] = []
    for k, (metric, word) in enumerate(METRICS.items()):
        lines = []
        for problem, models in PDE_ERRORS.items():
            for model, errors in models.items():
                size, runs = trained(plan, rows, problem, model)
                solved = [plan.solve(problem, 49)] if model == "flm" else []
                means = [mean(values(rows, definitions, metric)) for definitions in (runs, solved)]
                pairs = [cell for ours in means for cell in beside(ours, errors[k])]
                lines.append([TITLES[problem], model, size, measured(errors[k]), *pairs])
        headers = ["problem", "model", "size", f"printed {word}", RECIPE, "ratio", SOLVER, "ratio"]
        note = WORDS["other_models"] if k == 0 else ""
        items += [Text(f"{word[:1].upper()}{word[1:]}:"), Table(headers, lines, left=2, note=note)]
    lines = []
    for problem, tol in TOL.items():
        found, printed = outcome(rows, plan.solve(problem, 0)), PDE_ERRORS[problem]["flm"][0]
        estimate, error, mse, spent = (
            float(found.get(k, math.nan)) for k in ("error_estimate", "relative_l2", "mse", "processor_seconds")
        )
        cells = [TITLES[problem], f"{tol:.0e}", measured(estimate), measured(error), measured(printed)]
        lines.append([*cells, *beside(mse, printed), measured(spent)])
    headers = ["problem", "tolerance asked", "estimate", "relative L2", "printed MSE", "our solver's MSE", "ratio"]
    table = Table([*headers, "processor s"], lines, left=1, note=WORDS["tolerance"])
    return [*items, Text("Our solver without a size:"), table]


def _surfaces(plan: Plan, rows: Mapping[str, Row]) -> list[Section]:
    items: list[Item] = []
    for problem in PDE_ERRORS:
        runs = {RECIPE: plan.recipe_surface(problem, rows), SOLVER: plan.solve(problem, 49)}
        drawn = {name: found["surface"] for name, d in runs.items() if (found := outcome(rows, d))}
        if drawn:
            caption = WORDS["surface"].format(problem=TITLES[problem])
            items.append(Picture(surface_figure(drawn), caption[:1].upper() + caption[1:]))
    return [Section("Solution surfaces", items)] if items else []


def _sizes(plan: Plan, rows: Mapping[str, Row]) -> list[Section]:
    """The figure of N against MSE, and its numbers."""
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
    return [Section("N against MSE", [Picture(size_figure(curves), caption), table])]


def _imputation(plan: Plan, rows: Mapping[str, Row]) -> list[Item]:
    printed_cell = lambda numbers: " ± ".join(f"{v:.2f}" for v in numbers)
    if plan.series is None:
        lines = [[f"{rate:.0%}", m, printed_cell(v)] for rate, models in IMPUTATION.items() for m, v in models.items()]
        return [Text(WORDS["no_series"]), Table(["missing", "model", "printed MAE"], lines, left=2)]
    oil, channels = [], []
    for rate, printed in IMPUTATION.items():
        runs = {model: plan.imputation(rate, model) for model in ("recipe", "solver", "channels")}
        recipe, solver, every = (values(rows, definitions, "mae") for definitions in runs.values())
        theirs, best = printed["FLM"][0], printed["SAITS"][0]
        both = [mean(values(rows, runs["recipe"] + runs["solver"], k)) for k in ("linear", "mean_of_observed")]
        cells = [f"{rate:.0%}", printed_cell(printed["FLM"]), spread(recipe), ratio(mean(recipe), theirs)]
        oil.append([*cells, spread(solver), ratio(mean(solver), theirs), *map(measured, both)])
        others = ", ".join(f"{m} {v[0]:.2f}" for m, v in printed.items() if m not in ("FLM", "SAITS"))
        cells = [f"{rate:.0%}", others, f"{best:.2f}", spread(every), ratio(mean(every), best)]
        channels.append([*cells, measured(mean(values(rows, runs["channels"], "linear")))])
    alone = Text(WORDS["oil"].format(masks=plan.budget.masks))
    headers = ["missing", "printed FLM", RECIPE, "ratio", SOLVER, "ratio", "straight lines", "mean of observed"]
    others = ["missing", "printed, others", "printed, SAITS (best)", SOLVER, "ratio to SAITS", "straight lines"]
    return [alone, Table(headers, oil), Text(WORDS["channels"]), Table(others, channels, left=2)]


def _left_out(wanted: Mapping[str, Definition], rows: Mapping[str, Row]) -> Iterable[Section]:
    missing = sum(key not in rows for key in wanted)
    items = [Text(f"{missing:,} of {len(wanted):,} runs are not done yet: their cells are dashes.")] if missing else []
    for row in (rows[key] for key in wanted if key in rows and rows[key].status == FAILED):
        run = "{problem}, {model}, size {size}, seed {seed} failed: ".format_map(row.definition)
        items.append(Text(run + str(row.outcome.get("reason"))))
    return [Section("Left out", items)] if items else []
