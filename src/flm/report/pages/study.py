"""A study's report: the tables of the paper's appendix, critical-difference diagrams, figures, and the paper beside ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from flm.paper.printed import PDE_ERRORS
from flm.report.figures.study import convergence_figure, critical_difference, size_figure
from flm.report.pages.layout import Code, Item, Page, Picture, Section, Table, Text
from flm.study.results import Chosen, choose, num_parameters, score
from flm.study.selection import WORDS
from flm.study.spec import Spec, problem_name
from flm.study.statistics import FRIEDMAN
from flm.study.store import DONE, Row, run_key
from flm.wording import InputError

ERRORS = ("mse", "mae", "max_error")
T = TypeVar("T")


def mean_and_deviation(scores: npt.ArrayLike) -> str:
    """ "1.2e-05 ± 3e-06": mean and standard deviation over the runs that ended well, with their number where some did not."""
    there = np.asarray(scores, dtype=float)
    there = there[~np.isnan(there)]
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


def size_scores(one: Chosen) -> dict[int, np.ndarray]:
    """The finite MSEs of a group by size, of the optimizer with the lowest mean."""
    best: dict[int, np.ndarray] = {}
    for configuration, scores in zip(one.group.configurations, one.scores["mse"], strict=True):
        good, size = scores[np.isfinite(scores)], configuration.size
        if len(good) and (size not in best or good.mean() < best[size].mean()):
            best[size] = good
    return best


def histories(spec: Spec, rows: Mapping[str, Row], one: Chosen) -> list[tuple[list[int], list[float]]]:
    """(epochs, lowest loss so far) of every run of the chosen configuration: the final ones, else those of the selection."""
    selection = (rows.get(run_key(spec.definition(one.configuration, seed))) for seed in spec.seeds)
    runs = one.final or [row for row in selection if row is not None]
    found = [row.outcome["history"] for row in runs if row.outcome.get("history")]
    return [(history["epoch"], [score(v) for v in history["loss"]]) for history in found]


def by_problem(chosen: Sequence[Chosen], values: Callable[[Chosen], T]) -> dict[str, dict[str, T]]:
    """What `values` says of each group, by problem and model."""
    found: dict[str, dict[str, T]] = {}
    for one in chosen:
        found.setdefault(problem_name(one.group.problem), {})[one.group.model] = values(one)
    return found


def study_page(spec: Spec, rows: Mapping[str, Row], command: str = "") -> Page:
    """The whole report of what is stored; groups without any run are named and left out. `command`: what to type for it."""
    chosen, empty = [], []
    for group in spec.groups:
        try:
            chosen.append(choose(spec, rows, group))
        except InputError as error:
            empty.append(f"{problem_name(group.problem)}, {group.model}: {error}")
    if not chosen:
        raise InputError(
            "There is nothing to report yet: no group has enough runs. Start with: flm study run SPEC.toml"
        )
    sections = []
    if any(c.final for c in chosen):
        sections.append(Section("Final training", final_tables(chosen)))
    figures: list[Item] = []
    if "mse" in spec.metrics:
        sizes = size_figure(by_problem(chosen, size_scores), "sub-networks or neurons per layer")
        figures.append(Picture(sizes, "MSE against size: mean and range over the seeds, by the best optimizer."))
    curves = by_problem(chosen, lambda one: histories(spec, rows, one))
    if any(lines for models in curves.values() for lines in models.values()):
        words = "Convergence of the chosen configurations, one line per seed."
        figures.append(Picture(convergence_figure(curves), words))
    sections += [Section("Figures", figures)] if figures else []
    for one in chosen:
        sections.append(Section(f"{problem_name(one.group.problem)}: {one.group.model}", _group_items(spec, rows, one)))
    if empty:
        sections.append(Section("Left out", [Text(line) for line in empty]))
    sections.append(Section("What was asked", [Code(spec.text.strip())]))
    sections.append(Section("How to reproduce it", [Code(command)]))
    mine = {run_key(d) for d in spec.definitions()}
    stored = sum(key in rows for key in mine)
    facts = [("runs", f"{stored:,} of {len(mine):,}"), ("groups", f"{len(chosen)} of {len(spec.groups)}")]
    facts += [("seeds", f"{len(spec.seeds)}"), ("significance level", f"{spec.alpha:g}")]
    return Page(
        spec.title, "Selection by the paper's hierarchical tests; every decision is explained.", facts, sections
    )


def _group_items(spec: Spec, rows: Mapping[str, Row], one: Chosen) -> list[Item]:
    items: list[Item] = [group_table(spec, rows, one)]
    items += [Text(line) for line in one.selection.explain().splitlines()]
    for step in one.selection.steps:
        if step.comparison.test == FRIEDMAN and step.comparison.p_value <= spec.alpha:
            names = [one.selection.labels[i] for i in step.candidates]
            word = WORDS.get(step.metric, step.metric)
            items.append(Picture(critical_difference(step.comparison, names, word), f"Average ranks by {word}."))
    return items
