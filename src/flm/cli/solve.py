"""`flm solve` and `flm train`: a problem by name or file, to a tolerance, or by the paper's recipe."""

from __future__ import annotations

import inspect
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from flm.cli.output import COMMAND, Json, folder, page_folder, say, say_json, say_written, table, watching
from flm.wording import InputError, measured

if TYPE_CHECKING:
    from flm.control.solution import ControlSolution
    from flm.report.pages.layout import Request
    from flm.results import Solution

MOST_TABLES = 4  # of largest terms, one for each unknown and window
METHODS = (
    ("pieces", "PDEs", "many small series on a tree of boxes, up to three axes"),
    ("march", "PDEs", "a series in space whose coefficients move in time"),
    ("products", "PDEs", "a sum of products in any number of variables"),
    ("sparse", "PDEs", "one sum over a growing set of products, up to eight variables"),
    ("waves", "PDEs", "with --subnets: sub-networks on a lattice or with learned frequencies"),
    ("reduced", "control", "the control is a series, the states are simulated"),
    ("penalty", "control", "states are series too, and the dynamics a penalty, as in the paper"),
)

Name = Annotated[str, typer.Argument(metavar="NAME|FILE.toml", help="A problem of the catalogue, or a file.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write model, record, CSV, figures and a page here.")]
Setting = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=NUMBER", help="Set a parameter.")]


def solve(
    problem: Name,
    tol: Annotated[float | None, typer.Option(help="Relative error; 1e-8, laws 1e-2, control 1e-4.")] = None,
    subnets: Annotated[int | None, typer.Option(help="The best series of this many sub-networks instead.")] = None,
    method: Annotated[str | None, typer.Option(help='A name; "list" prints them; chosen if left out.')] = None,
    max_columns: Annotated[int | None, typer.Option(help="Linear unknowns at the most; PDEs: by memory.")] = None,
    seed: Annotated[int, typer.Option(help="Fixes all random points.")] = 0,
    settings: Setting = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Solve a problem to a tolerance: PDEs, conservation laws, optimal control.

    Example: flm solve heat --tol 1e-10
    """
    import flm
    from flm.dispatch import TOLERANCES

    if method == "list":
        say(table(["--method", "for", "what it does"], METHODS, left=3))
        return
    asked = find_problem(problem, dict(map(_setting, settings or [])))
    out = page_folder(out, asked.name)
    tol = TOLERANCES[type(asked.problem)] if tol is None else tol
    with watching(asked.name, tol=tol) as report:
        solution = flm.solve(
            asked.problem, tol, num_subnets=subnets, method=method, max_columns=max_columns, seed=seed, progress=report
        )
    found = keep(solution, asked, out)
    if json:
        say_json(found)
    else:
        print_solution(found)
        if out is not None:
            say(f"\nWritten to {out}: {', '.join(sorted(p.name for p in out.iterdir() if p.is_file()))}")
    if not (solution.converged or subnets is not None):
        raise typer.Exit(1)


def train(
    problem: Name,
    model: Annotated[str, typer.Option(help="flm, siren-1, tanh, relu, …; flm.models.NAMED has them all.")] = "flm",
    size: Annotated[int, typer.Option(help="Sub-networks, terms or neurons per layer.")] = 25,
    epochs: Annotated[int, typer.Option(help="Most epochs of Adam.")] = 10_000,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    loss_tol: Annotated[float, typer.Option(help="Stop at this training loss.")] = 1e-4,
    seed: Annotated[int, typer.Option(help="Fixes points and start.")] = 0,
    settings: Setting = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Train a model on a PDE as the paper does: random points, Adam, the lowest training loss kept.

    Example: flm train heat --model flm --size 25 --epochs 2000
    """
    import optax

    import flm
    from flm.paper.protocol import POINTS
    from flm.pde.strong import strong_form
    from flm.study.runs import build_model
    from flm.training.loss import TERMS

    asked = find_problem(problem, dict(map(_setting, settings or [])))
    out = page_folder(out, asked.name)
    strong = strong_form(asked.problem)
    terms = {TERMS[block.kind] for block in strong.blocks}
    if not rate > 0:
        raise InputError(f"`--rate` must be positive; got {rate:g}.")
    with watching(asked.name) as report:
        solution = flm.train(
            asked.problem,
            lambda key: build_model(model, strong, size, key),
            optax.adam(rate),
            epochs,
            points={k: v for k, v in POINTS.items() if k in terms},
            loss_tol=loss_tol,
            seed=seed,
            progress=report,
        )
    loss, spent = float(min(solution.history["loss"])), len(solution.history["loss"])
    found = keep(solution, asked, out) | {"model": model, "loss": loss}
    if json:
        say_json(found)
    else:
        print_solution(found)
        say(f"  training loss   {loss:.3e} after {spent:,} epochs")
        say_written(out)
    if solution.status.word == "diverged":
        raise typer.Exit(1)


def keep(solution: Solution | ControlSolution, asked: Asked, out: Path | None) -> dict[str, Any]:
    """The record of an answer, written with its other files where a folder is given."""
    from flm.report.files import record, write_solution

    if out is None:
        return record(solution, asked.name)
    with watching(asked.name) as report:
        return write_solution(solution, folder(out), asked.request, progress=report)


def print_solution(found: Mapping[str, Any]) -> None:
    """The record that people read."""
    say(f"{found['problem']}: {found['sentence']}", style="bold green" if found["converged"] else "bold yellow")
    say(f"  error estimate  {measured(found['error_estimate'])}")
    if "trusted_until" in found:
        say(f"  trusted until   t = {found['trusted_until']:.6g}, error estimate {measured(found['estimate_until'])}")
    say(f"  size            {found['columns']:,} columns, {found['parameters']:,} parameters")
    say(f"  time            {found['seconds']:.2f} s")
    for name, value in found.get("learned", {}).items():
        say(f"  {name:<14}  {value['text']}")
    if "errors" in found:
        relative, mse, largest = (measured(found["errors"][k]) for k in ("relative_l2", "mse", "max_error"))
        say(f"  against exact   relative L2 {relative}, MSE {mse}, largest {largest}")
    if "subnets" in found:
        say(f"  sub-networks    {found['subnets']}")
    if "cost" in found:
        say(f"  cost            {found['cost']:.10g}")
    for label, terms in list(found.get("terms", {}).items())[:MOST_TABLES]:
        say(f"\n  The largest terms of {label}:")
        say(f"    {'amplitude':>12}  {'phase':>8}" + "".join(f"  {'period in ' + a:>14}" for a in found["axes"]))
        for t in terms:
            say(f"    {t['amplitude']:12.6g}  {t['phase']:8.4f}" + "".join(f"  {p:14.6g}" for p in t["period"]))


class Asked(NamedTuple):
    """A problem, and what its page says of it: name, text or call, title, units."""

    problem: Any  # of any kind: what a command does not take is refused by what it calls
    request: Request

    @property
    def name(self) -> str:
        """What it is called."""
        return self.request.name


def find_problem(what: str, numbers: Mapping[str, float]) -> Asked:
    """A problem of the catalogue by its name, or one written in a file that ends in .toml.

    `numbers` are arguments of the catalogue's function, or parameters of the file.
    """
    from flm.problems import catalogue
    from flm.problems.text import named_problem, read_problem
    from flm.report.pages.layout import Request
    from flm.report.pages.readings import Readings

    if what.endswith(".toml") or Path(what).is_file():
        path = Path(what)
        problem, text = read_problem(path, parameters=numbers), path.read_text(encoding="utf-8")
        tree = tomllib.loads(text)
        notes = {"title": str(tree.get("title", "")), "units": tree.get("units", {}), "readings": Readings.of(problem)}
        return Asked(problem, Request(path.stem, text, COMMAND.get(), **notes))
    problem = named_problem(what, numbers, "--set")
    call = ", ".join(f"{k}={v!r}" for k, v in numbers.items())
    document = (inspect.getdoc(catalogue()[what]) or "").splitlines()[:1]
    text = "\n".join([f"flm.problems.{what}({call})", *document])
    return Asked(problem, Request(what, text, COMMAND.get(), readings=Readings.of(problem)))


def _setting(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not equals or not name.strip().isidentifier() or not math.isfinite(number):
        raise InputError(f"`--set` must be name=number; got {text!r}.")
    return name.strip(), number
