"""`flm sweep`: a problem at many values of its parameters, on the studies' store and workers, with one page."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flm.cli.output import conclude, folder, table
from flm.cli.solve import Name, find_problem, read_setting
from flm.cli.study import Count, Dask, keep_runs, stopped, who_works
from flm.wording import InputError

if TYPE_CHECKING:
    from flm.study.store import Definition, Record

MOST_RUNS = 10_000
RUNNER = "flm.cli.sweep:solve_one"
KEPT = ("sentence", "converged", "error_estimate", "columns", "cost", "errors")  # of an answer's record


def sweep(
    problem: Name,
    settings: Annotated[list[str], typer.Option("--set", metavar="NAME=LOW:HIGH:COUNT", help="Even values.")],
    tol: Annotated[float | None, typer.Option(help="As for flm solve.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of page, table and runs.")] = Path("flm-sweep"),
    workers: Count = 0,
    dask: Dask = None,
) -> None:
    """Solve a problem at many values of its parameters, with one page.

    Runs are kept in the folder: what is solved is not solved again, and Ctrl-C leaves the page of what was found.

    Example: flm sweep heat --set alpha=0.05:0.3:20 --out sweep
    """
    from flm.report.pages.layout import write_page
    from flm.report.pages.study import sweep_page
    from flm.study import execute
    from flm.study.store import run_key

    lines = dict(read_setting(text, many=True) for text in settings)
    points = [dict(zip(lines, values, strict=True)) for values in itertools.product(*lines.values())]
    if len(points) > MOST_RUNS:
        raise InputError(f"`--set` must make at most {MOST_RUNS:,} runs; got {len(points):,}.")
    asked = find_problem(problem, points[0])  # refuses a wrong problem here, and not in every run
    base, text = {"runner": RUNNER, "problem": problem, "tol": tol}, f"flm.problems.{problem}"
    if problem.endswith(".toml"):
        file, text = Path(problem), asked.text
        base |= {"problem": file.name, "text": text, "folder": str(file.parent.resolve())}
    runs, who, path = [base | {"set": p} for p in points], who_works(workers, dask), folder(out)
    work = lambda store, report: execute(runs, store, workers=who, retry_failed=True, progress=report)
    kept, interrupted = keep_runs(path, asked.name, work)
    rows = [kept.get(run_key(run)) for run in runs]
    varied = [f"{name}: {len(v)} values from {v[0]:.6g} to {v[-1]:.6g}" for name, v in lines.items() if len(v) > 1]
    title = f"{asked.title or asked.name}, a sweep"
    page = sweep_page(lines, rows, replace(asked, title=title, text="\n".join([text, *varied])))
    written = write_page(page, path, "index")
    good = sum(row is not None and bool(row.outcome.get("converged")) for row in rows)
    found = [p | (row.outcome if row else {"sentence": "not solved yet"}) for p, row in zip(points, rows, strict=True)]
    record = {"runs": [{k: v for k, v in one.items() if k != "samples"} for one in found], "files": written}
    (shown,) = page.tables.values()
    said = f"{table(shown.headers, shown.rows, left=0)}\n{good} of {len(points)} converged. The page: {written[0]}"
    conclude(record, said, good=interrupted or good == len(points))
    if interrupted:
        raise stopped(f"{sum(row is not None for row in rows)} of {len(points)} runs are kept in {path}")


def solve_one(definition: Definition) -> Record:
    """Solve one problem of a sweep, as a worker does it, and return its record and samples of the answer."""
    import flm
    from flm.problems.text import named_problem, parse_problem
    from flm.report.facts import record
    from flm.report.pages.study import sampled

    name, values = definition["problem"], definition["set"]
    if "text" in definition:
        problem = parse_problem(definition["text"], name=name, folder=definition["folder"], parameters=values)
    else:
        problem = named_problem(name, values)
    solution = flm.solve(problem, definition["tol"])
    found = record(solution, name)
    outcome = {key: found[key] for key in KEPT if key in found}
    if "learned" in found:
        outcome["learned"] = {k: v["text"] for k, v in found["learned"].items()}
    return outcome | {"word": str(solution.status.word), "samples": sampled(solution)}
