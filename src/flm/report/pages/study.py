"""A study's report: the tables of the paper's appendix, critical-difference diagrams, figures, and the paper beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from flm.paper.printed import PDE_ERRORS
from flm.report.figures.style import COLORS, house_style, new_figure
from flm.report.pages.files import write_page
from flm.report.pages.layout import Code, Page, Picture, Section, Table, Text
from flm.study.results import Chosen, choose, num_parameters, score
from flm.study.selection import WORDS
from flm.study.spec import Spec, problem_name
from flm.study.statistics import FRIEDMAN, Comparison
from flm.study.store import DONE, Row, run_key
from flm.wording import InputError

ERRORS = ("mse", "mae", "max_error")


def mean_and_deviation(scores: Any) -> str:
    """ "1.2e-05 ± 3e-06": mean and standard deviation over the runs that ended well, with their number where some did not."""
    scores = np.asarray(scores, dtype=float)
    there = scores[~np.isnan(scores)]
    good = there[np.isfinite(there)]
    if not len(good):
        return "failed" if len(there) else "–"
    spread = np.std(good, ddof=1) if len(good) > 1 else math.nan
    mean = float(np.mean(good))
    show = (lambda v: f"{v:,.0f}") if mean >= 100 else (lambda v: f"{v:.2e}")
    text = show(mean) + (f" ± {show(spread)}" if spread == spread else "")
    return text + (f" ({len(good)} of {len(there)} runs)" if len(good) < len(there) else "")


def group_table(spec: Spec, rows: Mapping[str, Row], chosen: Chosen) -> Table:
    """One table of the appendix: a model on a problem, mean ± standard deviation per configuration, the chosen one marked."""
    metrics = list(spec.metrics)
    lines = []
    for i, configuration in enumerate(chosen.group.configurations):
        mark = "★" if i == chosen.selection.winner else "=" if i in chosen.selection.finalists else ""
        size = f"{num_parameters(spec, rows, configuration):g}"
        cells = [mean_and_deviation(chosen.scores[m][i]) for m in metrics]
        lines.append([mark, configuration.label, size, *cells])
    note = f"Mean ± standard deviation over {len(spec.seeds)} seeds. ★ chosen; = not different from it in any metric."
    return Table(["", "configuration", "parameters", *(WORDS.get(m, m) for m in metrics)], lines, left=2, note=note)


def final_tables(chosen: Sequence[Chosen]) -> list[Table]:
    """The chosen configurations after their final training, and the paper's Table 2 beside them where it has the row."""
    ours, beside = [], []
    for one in chosen:
        rows = [r for r in one.final if r.status == DONE]
        scores = [[score(r.outcome.get(m)) for r in rows] for m in ERRORS]
        name = problem_name(one.group.problem)
        start = [name, one.group.model]
        ours.append([*start, one.selection.label, f"{len(rows)}", *map(mean_and_deviation, scores)])
        if rows and (theirs := PDE_ERRORS.get(name, {}).get(one.group.model)) is not None:
            ratios = [float(np.mean(s)) / t for s, t in zip(scores, theirs, strict=True)]
            pairs = ((f"{t:.2e}", f"{r:.2g}" if r == r else "–") for t, r in zip(theirs, ratios, strict=True))
            beside.append([*start, *(cell for pair in pairs for cell in pair)])
    words = [WORDS[m] for m in ERRORS]
    note = "Means over the runs that neither failed nor diverged; their number is given."
    tables = [Table(["problem", "model", "configuration", "runs", *words], ours, left=3, note=note)]
    if beside:
        headers = ["problem", "model", *(h for w in words for h in (f"paper's {w}", f"ours / paper's {w}"))]
        tables.append(Table(headers, beside, left=2, note="The paper's Table 2."))
    return tables


def critical_difference(comparison: Comparison, labels: Sequence[str], title: str = "") -> Figure:
    """Demšar's diagram: average ranks on a line, a bar over those not different from the best by Nemenyi's test."""
    if comparison.test != FRIEDMAN:
        raise InputError(f"`comparison` must be by {FRIEDMAN}; got one by {comparison.test}.")
    ranks = list(comparison.locations)
    k = len(ranks)
    order = np.argsort(ranks, kind="stable").tolist()
    left, right = order[: (k + 1) // 2], order[(k + 1) // 2 :][::-1]
    with house_style():
        figure = new_figure(8.0, 1.3 + 0.22 * len(left))
        axes = figure.add_subplot()
        axes.grid(False)
        axes.set_axis_off()
        axes.plot([1, k], [0, 0], color="#444444", lw=1)
        for tick in range(1, k + 1, math.ceil(k / 12)):
            axes.plot([tick, tick], [0, 0.25], color="#444444", lw=1)
            axes.text(tick, 0.35, f"{tick:g}", ha="center", va="bottom")
        pad = 0.06 * (k - 1)
        for side, members in ((1 - pad, left), (k + pad, right)):
            for depth, i in enumerate(members):
                color = COLORS[0] if comparison.kept[i] else "#777777"
                y = -1.0 - 0.7 * depth
                axes.plot([ranks[i], ranks[i], side], [0, y, y], color=color, lw=0.9)
                text = f"{labels[i]}  ({ranks[i]:.2f})"
                gap = 0.01 * (k - 1) * (-1 if side < 1 else 1)
                axes.text(side + gap, y, text, ha="right" if side < 1 else "left", va="center", color=color, fontsize=8)
        low = ranks[comparison.best]
        high = max(r for r, kept in zip(ranks, comparison.kept, strict=True) if kept)
        axes.plot([low, max(high, low + 0.02 * k)], [-0.4, -0.4], color=COLORS[0], lw=4, solid_capstyle="butt")
        cd = comparison.critical_difference
        axes.plot([1, min(1 + cd, k)], [1.6, 1.6], color=COLORS[1], lw=2)
        axes.text(1, 1.75, f"critical difference {cd:.2f}", va="bottom", color=COLORS[1], fontsize=8)
        axes.set_xlim(1 - 0.6 * (k - 1), k + 0.6 * (k - 1))
        axes.set_ylim(-1.0 - 0.7 * len(left), 2.8)
        axes.set_title(title)
    return figure


def size_figure(spec: Spec, chosen: Sequence[Chosen]) -> Figure:
    """The MSE against the size, one panel per problem: at each size the optimizer with the lowest mean, ± its deviation."""
    problems = list(dict.fromkeys(c.group.problem for c in chosen))
    across = min(2, len(problems))
    down = math.ceil(len(problems) / across)
    with house_style():
        figure = new_figure(8.4 if across > 1 else 7.0, 2.9 * down)
        for panel, problem in enumerate(problems, 1):
            axes = figure.add_subplot(down, across, panel)
            for color, one in zip(COLORS * 9, (c for c in chosen if c.group.problem == problem), strict=False):
                sizes, means, spreads = _by_size(one)
                axes.errorbar(
                    sizes, means, yerr=_below(means, spreads), color=color, marker="o", ms=3, label=one.group.model
                )
            axes.set_yscale("log")
            axes.set_xlabel("sub-networks or neurons per layer")
            axes.set_ylabel("MSE")
            axes.set_title(problem_name(problem))
            axes.legend()
    return figure


def _by_size(one: Chosen) -> tuple[list[int], list[float], list[float]]:
    best: dict[int, tuple[float, float]] = {}
    for configuration, scores in zip(one.group.configurations, one.scores["mse"], strict=True):
        good = scores[np.isfinite(scores)]
        if len(good):
            found = (float(good.mean()), float(good.std(ddof=1)) if len(good) > 1 else 0.0)
            best[configuration.size] = min(found, best.get(configuration.size, (math.inf, 0.0)))
    sizes = sorted(best)
    return sizes, [best[s][0] for s in sizes], [best[s][1] for s in sizes]


def _below(means: Sequence[float], spreads: Sequence[float]) -> Any:
    """Error bars that stay above zero, for a logarithmic axis."""
    return [np.minimum(spreads, 0.9 * np.asarray(means)), spreads]


def convergence_figure(spec: Spec, rows: Mapping[str, Row], chosen: Sequence[Chosen]) -> Figure | None:
    """The lowest loss so far against the epoch of the chosen configurations, every seed; None without histories."""
    problems = list(dict.fromkeys(c.group.problem for c in chosen))
    across = min(2, len(problems))
    down = math.ceil(len(problems) / across)
    drawn = False
    with house_style():
        figure = new_figure(8.4 if across > 1 else 7.0, 2.9 * down)
        for panel, problem in enumerate(problems, 1):
            axes = figure.add_subplot(down, across, panel)
            for color, one in zip(COLORS * 9, (c for c in chosen if c.group.problem == problem), strict=False):
                selection = (rows.get(run_key(spec.definition(one.configuration, seed))) for seed in spec.seeds)
                label = one.group.model
                for row in one.final or [r for r in selection if r is not None]:
                    if history := row.outcome.get("history"):
                        losses = [score(v) for v in history["loss"]]
                        axes.plot(history["epoch"], losses, color=color, lw=0.8, alpha=0.7, label=label)
                        label, drawn = None, True
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("epoch")
            axes.set_ylabel("lowest loss so far")
            axes.set_title(problem_name(problem))
            if axes.get_legend_handles_labels()[0]:
                axes.legend()
    return figure if drawn else None


def study_page(spec: Spec, rows: Mapping[str, Row], command: str = "") -> Page:
    """The whole report of what is stored; groups without any run are named and left out. `command`: what to type for it."""
    chosen, empty = [], []
    for group in spec.groups:
        try:
            chosen.append(choose(spec, rows, group))
        except ValueError as error:
            empty.append(f"{problem_name(group.problem)}, {group.model}: {error}")
    if not chosen:
        raise InputError(
            "There is nothing to report yet: no group has enough runs. Start with: flm study run SPEC.toml"
        )
    sections = []
    if any(c.final for c in chosen):
        sections.append(Section("Final training", final_tables(chosen)))
    figures: list[Any] = []
    if "mse" in spec.metrics:
        figures.append(
            Picture(size_figure(spec, chosen), "MSE against size; bars are standard deviations over the seeds.")
        )
    if (curves := convergence_figure(spec, rows, chosen)) is not None:
        figures.append(Picture(curves, "Convergence of the chosen configurations, one line per seed."))
    sections += [Section("Figures", figures)] if figures else []
    for one in chosen:
        sections.append(Section(f"{problem_name(one.group.problem)}: {one.group.model}", _group_items(spec, rows, one)))
    if empty:
        sections.append(Section("Left out", [Text(line) for line in empty]))
    sections.append(Section("What was asked", [Code(spec.text.strip())]))
    if command:
        sections.append(Section("How to reproduce it", [Code(command)]))
    mine = {run_key(d) for d in spec.definitions()}
    stored = sum(key in rows for key in mine)
    facts = [("runs", f"{stored:,} of {len(mine):,}"), ("groups", f"{len(chosen)} of {len(spec.groups)}")]
    facts += [("seeds", f"{len(spec.seeds)}"), ("significance level", f"{spec.alpha:g}")]
    return Page(
        spec.title, "Selection by the paper's hierarchical tests; every decision is explained.", facts, sections
    )


def _group_items(spec: Spec, rows: Mapping[str, Row], one: Chosen) -> list[Any]:
    items: list[Any] = [group_table(spec, rows, one)]
    items += [Text(line) for line in one.selection.explain().splitlines()]
    for step in one.selection.steps:
        if step.comparison.test == FRIEDMAN and step.comparison.p_value <= spec.alpha:
            names = [one.selection.labels[i] for i in step.candidates]
            word = WORDS.get(step.metric, step.metric)
            items.append(Picture(critical_difference(step.comparison, names, word), f"Average ranks by {word}."))
    return items


def write_report(spec: Spec, rows: Mapping[str, Row], folder: Path, command: str = "") -> list[Path]:
    """Write `report.html`, `report.md` and one CSV per table into `folder`; returns their paths."""
    return write_page(study_page(spec, rows, command), folder, "report")
