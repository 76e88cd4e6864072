"""`flm solve`: a problem by name or file, to a tolerance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from flm.cli.output import COMMAND, folder, number, progress_of, progress_to, say, say_json, to_json

Name = Annotated[str, typer.Argument(metavar="NAME|FILE.toml", help="A problem of the catalogue, or a file.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write model, record, CSV, figures and a page here.")]
Json = Annotated[bool, typer.Option("--json", help="Print a JSON record instead of text.")]
Setting = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=NUMBER", help="Set a parameter.")]


def solve(
    problem: Name,
    tol: Annotated[
        float | None, typer.Option(help="Relative error to reach; 1e-8, 1e-2 for conservation laws, 1e-4 for control.")
    ] = None,
    subnets: Annotated[int | None, typer.Option(help="The best series of this many sub-networks instead.")] = None,
    method: Annotated[str | None, typer.Option(help="How; chosen by itself.")] = None,
    max_columns: Annotated[int | None, typer.Option(help="Largest least-squares problem; 3000 columns.")] = None,
    seed: Annotated[int, typer.Option(help="Governs all random points.")] = 0,
    settings: Setting = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Solve a problem to a tolerance: PDEs, conservation laws, optimal control.

    Example: flm solve heat --tol 1e-10
    """
    import flm
    from flm.cli.named import find_problem
    from flm.dispatch import TOLERANCES

    asked = find_problem(problem, settings)
    tol = TOLERANCES[type(asked.problem)] if tol is None else tol
    with progress_to(tol, asked.name) as report:
        solution = flm.solve(
            asked.problem, tol, num_subnets=subnets, method=method, max_columns=max_columns, seed=seed, progress=report
        )
    found = record(solution, asked.name)
    if out is not None:
        with progress_of(asked.name) as tell:
            write_solution(solution, asked, found, folder(out), tell)
    if json:
        say_json(found)
    else:
        print_solution(solution, found)
        if out is not None:
            say(f"\nWritten to {out}: {', '.join(sorted(p.name for p in Path(out).iterdir() if p.is_file()))}")
    if not (solution.converged or subnets is not None):
        raise typer.Exit(1)


def record(solution: Any, name: str) -> dict[str, Any]:
    """What a machine wants to know of a solution."""
    found = {
        "problem": name,
        "status": solution.status.word,
        "sentence": solution.status.sentence,
        "converged": solution.converged,
        "error_estimate": solution.error_estimate,
        "num_columns": solution.num_columns,
        "seconds": solution.seconds,
    }
    if hasattr(solution, "axes"):
        found |= {"axes": list(solution.axes), "unknowns": list(solution.unknowns), "bounds": solution.bounds}
        found["terms"] = {u: [t._asdict() for t in terms] for u, terms in largest_terms(solution).items()}
    if getattr(solution, "exact", None) is not None:
        found["errors"] = asdict(solution.errors())
    if solution.parameters:
        found["parameters"] = {k: asdict(p) for k, p in solution.parameters.items()}
    return found


def largest_terms(solution: Any, count: int = 5) -> dict[str, list[Any]]:
    """The largest cosines of each unknown (of its first time window); empty for what is no plain series."""
    found = {}
    for unknown in solution.unknowns:
        one = solution[unknown] if len(solution.unknowns) > 1 else solution
        try:
            found[unknown] = one.pieces[0][1].terms(count)
        except AttributeError:
            found[unknown] = []
    return found


def print_solution(solution: Any, found: dict[str, Any]) -> None:
    """The summary that people read."""
    good = solution.converged
    say(f"{found['problem']}: {solution.status.sentence}", style="bold green" if good else "bold yellow")
    say(f"  error estimate  {number(solution.error_estimate)}")
    say(f"  size            {solution.num_columns:,} columns")
    say(f"  time            {solution.seconds:.2f} s")
    for parameter, value in solution.parameters.items():
        say(f"  {parameter:<14}  {value.value:.8g} ± {value.standard_error:.2g}")
    if "errors" in found:
        relative, mse, largest = (number(found["errors"][k]) for k in ("relative_l2", "mse", "max_error"))
        say(f"  against exact   relative L2 {relative}, MSE {mse}, largest {largest}")
    if not hasattr(solution, "axes"):
        say(f"  sub-networks    {solution.num_subnets}")
        if solution.starts.dimension == 0 and solution.problem is not None:
            say(f"  cost            {solution.cost():.10g}")
        return
    for unknown, terms in largest_terms(solution).items():
        if not terms:
            continue
        window = " in its first window" if solution.windows else ""
        say(f"\n  The largest terms of {unknown}{window}:")
        say(f"    {'amplitude':>12}  {'phase':>8}" + "".join(f"  {'period in ' + a:>14}" for a in solution.axes))
        for t in terms:
            say(f"    {t.amplitude:12.6g}  {t.phase:8.4f}" + "".join(f"  {p:14.6g}" for p in t.period))


def write_solution(
    solution: Any, asked: Any, found: dict[str, Any], path: Path, tell: Callable[[float, str], None]
) -> None:
    """The model, a record, the values on a grid, figures and a page; `tell` hears how far it is."""
    import numpy as np

    from flm.files import write_atomic
    from flm.report.figures.style import to_png, to_svg

    title, command = asked.name.replace("_", " "), COMMAND.get()
    tell(0.0, "writing the values")
    solution.save(path / "model.safetensors")
    write_atomic(path / "record.json", to_json(found).encode())
    if hasattr(solution, "axes"):
        from flm.report.figures.fields import plot_spectrum
        from flm.report.pages.solution import solution_page

        lines, values = solution.on_grid()
        columns = [g.ravel() for g in np.meshgrid(*lines, indexing="ij")]
        table = np.column_stack([*columns, values.reshape(len(columns[0]), -1)])
        write_csv(path / "solution.csv", [*solution.axes, *solution.unknowns], table)
        tell(0.2, "drawing")
        figures = {"solution": solution.plot(), "spectrum": plot_spectrum(solution)}
        page = solution_page(solution, title=title, asked=asked.text, command=command, errors=found.get("errors"))
    else:
        from flm.report.pages.control import control_page

        start = solution.starts.lift(solution.starts.center)
        t = np.linspace(0.0, solution.horizon(start), 201)
        x, u = solution.trajectory(t, start), solution.control(t, start).reshape(len(t), -1)
        write_csv(path / "solution.csv", ["t", *solution.starts.states, *solution.controls], np.column_stack([t, x, u]))
        figures = {"solution": solution.plot()}
        page = control_page(solution, title=title, asked=asked.text, command=command)
    tell(0.5, "writing the page")
    page.write(path / "index.html")
    for name, figure in figures.items():
        write_atomic(path / f"{name}.png", to_png(figure))
        write_atomic(path / f"{name}.svg", to_svg(figure).encode())


def write_csv(path: Path, headers: list[str], rows: Any) -> None:
    """A CSV file with all digits."""
    from flm.files import write_atomic

    lines = [",".join(headers), *(",".join(f"{v:.17g}" for v in row) for row in rows)]
    write_atomic(path, ("\n".join(lines) + "\n").encode())
