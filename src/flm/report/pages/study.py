"""Pages of many runs: a study's report, with the tables of the paper's appendix and every decision, and that of a sweep.

A sweep's page has every solve in a table, and their answers in one live figure with a slider for each parameter.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from flm.control.problem import OptimalControl
from flm.control.solution import ControlSolution
from flm.paper.printed import PDE_ERRORS
from flm.report.facts import norm_of
from flm.report.figures.data import size_figure
from flm.report.live import from_the_center, packed, samples
from flm.report.pages.layout import Item, Page, Picture, Request, Sections, Table
from flm.results import Solution
from flm.study.results import Chosen, choose, score
from flm.study.selection import WORDS
from flm.study.spec import Spec, problem_name
from flm.study.store import DONE, Row, run_key
from flm.wording import InputError, measured

ERRORS = ("mse", "mae", "max_error")
SAMPLES = 2_500  # values of one answer that are kept
FEW = 6  # words of a table's cell for what went wrong


def mean_and_deviation(scores: npt.ArrayLike, shown: str | None = None) -> str:
    """ "1.2e-05 ± 3e-06": mean and standard deviation over the runs that ended well, with their number if others did not.

    Numbers are `shown` in a format such as ".3f", by default with three digits or, from 100 on, as whole ones.
    """
    there = np.asarray(scores, dtype=float)
    there = there[~np.isnan(there)]
    good = there[np.isfinite(there)]
    if not len(good):
        return "failed" if len(there) else "–"
    spread = np.std(good, ddof=1) if len(good) > 1 else math.nan
    mean = float(np.mean(good))
    shown = shown or (",.0f" if mean >= 100 else ".2e")
    text = f"{mean:{shown}}" + (f" ± {spread:{shown}}" if spread == spread else "")
    return text + (f" ({len(good)} of {len(there)} runs)" if len(good) < len(there) else "")


def ratio(ours: float, printed: float) -> str:
    """Our value over the printed one, to two digits."""
    if not math.isfinite(ours):
        return "–"
    found = ours / printed
    return f"{found:.2g}" if 1e-2 <= found < 100 else f"{found:,.0f}" if 100 <= found < 1e5 else f"{found:.1e}"


def group_table(spec: Spec, chosen: Chosen) -> Table:
    """One table of the appendix: a model on a problem, mean ± standard deviation per configuration, the chosen one marked."""
    metrics, lines = list(spec.metrics), []
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
            pairs = zip(scores, theirs, strict=True)
            beside.append([*start, *(cell for s, t in pairs for cell in (f"{t:.2e}", ratio(float(np.mean(s)), t)))])
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
    """The whole report of what is stored; groups without any run are named and left out. `command` is what to type for it."""
    chosen: list[Chosen] = []
    empty: list[Item] = []
    for group in spec.groups:
        try:
            chosen.append(choose(spec, rows, group))
        except InputError as error:
            empty.append(f"{problem_name(group.problem)}, {group.model}: {error}")
    if not chosen:
        raise InputError("There is nothing to report yet: too few runs. Start with: flm study run SPEC.toml")
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
    if empty:
        sections["Left out"] = empty
    stored = sum(run_key(d) in rows for d in spec.definitions())
    facts = {"runs": f"{stored:,} of {spec.num_runs:,}", "groups": f"{len(chosen)} of {len(spec.groups)}"}
    facts |= {"seeds": f"{len(spec.seeds)}", "significance level": f"{spec.alpha:g}"}
    summary = "Selection by the paper's hierarchical tests; every decision is explained."
    return Request(spec.title, spec.text.strip(), command).page(summary, facts, sections)


def sampled(solution: Solution | ControlSolution) -> dict[str, object]:
    """Values of an answer on an even grid over its domain, packed as text; for a control law, along its horizon."""
    if isinstance(solution, ControlSolution):
        table = from_the_center(solution)
        axes, bounds = ["t"], [[0.0, float(table.pop("t").iloc[-1])]]
        unknowns, values = list(table.columns), table.to_numpy()
    else:
        axes, unknowns = list(solution.axes), list(solution.unknowns)
        bounds = np.asarray(solution.reach).tolist()
        lines, values = solution.on_grid(max(5, int((SAMPLES / len(unknowns)) ** (1 / len(axes)))))
        values = values.reshape(*(len(line) for line in lines), len(unknowns))
    return {"axes": axes, "unknowns": unknowns, "bounds": bounds, "shape": values.shape[:-1], "values": packed(values)}


def sweep_page(lines: Mapping[str, Sequence[float]], rows: Sequence[Row | None], request: Request) -> Page:
    """The page of a sweep; `rows`, None for runs that are not solved yet, are in the order of the product of `lines`."""
    there = [row for row in rows if row is not None]
    good = sum(bool(row.outcome.get("converged")) for row in there)
    measure = "excess cost" if isinstance(request.problem, OptimalControl) else f"{norm_of(request.problem)} error"
    headers = [*lines, "status", f"estimated relative {measure}", "columns", "seconds"]
    points = itertools.product(*lines.values())
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
    frame = lambda one: one and [one[key] for key in ("axes", "unknowns", "bounds", "shape")]
    if not first or any(frame(one) != frame(first) for one in found):
        return "The live figure is left out: not every value has an answer on the same domain."
    varied = {name: values for name, values in lines.items() if len(values) > 1}
    blocks = [np.frombuffer(base64.b64decode(one["values"]), "<f8") for one in found if one]
    shape, outputs = tuple(first["shape"]), len(first["unknowns"])
    block = np.stack(blocks).reshape(*(len(v) for v in varied.values()), *shape, outputs)
    cut = len(varied)  # the parameters come last, as in a family
    block = np.moveaxis(block, range(cut), range(len(shape), len(shape) + cut))
    bounds = [*first["bounds"], *([values[0], values[-1]] for values in varied.values())]
    caption = "Samples of every answer; between the values that were solved, straight lines."
    return samples([*first["axes"], *varied], first["unknowns"], bounds, block, caption, {"parameters": cut})
