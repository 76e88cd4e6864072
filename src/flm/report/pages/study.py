"""A study's report: the tables of the paper's appendix, every decision, figures, and the paper beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from flm.paper.printed import PDE_ERRORS
from flm.report.figures.data import size_figure
from flm.report.pages.layout import Item, Page, Picture, Request, Sections, Table
from flm.study.results import Chosen, choose, score
from flm.study.selection import WORDS
from flm.study.spec import Spec, problem_name
from flm.study.store import DONE, Row, run_key
from flm.wording import InputError

ERRORS = ("mse", "mae", "max_error")


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


def group_table(spec: Spec, chosen: Chosen) -> Table:
    """One table of the appendix: a model on a problem, mean ± standard deviation per configuration, the chosen one marked."""
    metrics = list(spec.metrics)
    lines = []
    for i, configuration in enumerate(chosen.group.configurations):
        mark = "★" if i == chosen.selection.winner else "=" if i in chosen.selection.finalists else ""
        size = f"{chosen.selection.sizes[i]:g}"
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


def study_page(spec: Spec, rows: Mapping[str, Row], command: str = "") -> Page:
    """The whole report of what is stored; groups without any run are named and left out. `command`: what to type for it."""
    chosen: list[Chosen] = []
    empty: list[Item] = []
    for group in spec.groups:
        try:
            chosen.append(choose(spec, rows, group))
        except InputError as error:
            empty.append(f"{problem_name(group.problem)}, {group.model}: {error}")
    if not chosen:
        raise InputError(
            "There is nothing to report yet: no group has enough runs. Start with: flm study run SPEC.toml"
        )
    sections: Sections = {"Final training": [*final_tables(chosen)]} if any(c.final for c in chosen) else {}
    if "mse" in spec.metrics:
        curves: dict[str, dict[str, dict[int, np.ndarray]]] = {}
        for one in chosen:
            curves.setdefault(problem_name(one.group.problem), {})[one.group.model] = size_scores(one)
        words = "MSE against size: mean and range over the seeds, by the best optimizer."
        sections["Sizes"] = [Picture(size_figure(curves, "sub-networks or neurons per layer"), words)]
    for one in chosen:
        title = f"{problem_name(one.group.problem)}: {one.group.model}"
        sections[title] = [group_table(spec, one), *one.selection.explain().splitlines()]
    sections |= {"Left out": empty} if empty else {}
    stored = sum(run_key(d) in rows for d in spec.definitions())
    facts = {"runs": f"{stored:,} of {spec.num_runs:,}", "groups": f"{len(chosen)} of {len(spec.groups)}"}
    facts |= {"seeds": f"{len(spec.seeds)}", "significance level": f"{spec.alpha:g}"}
    summary = "Selection by the paper's hierarchical tests; every decision is explained."
    return Request(spec.title, spec.text.strip(), command).page(summary, facts, sections)
