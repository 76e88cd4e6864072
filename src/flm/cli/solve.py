"""`flm solve` and `flm train`: a problem by name or file, to a tolerance, or by the paper's recipe."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flm.cli.output import COMMAND, OPEN, conclude, folder, listing, say, table, watching
from flm.wording import InputError, measured

if TYPE_CHECKING:
    from flm.control.solution import ControlSolution
    from flm.report.pages.layout import Request
    from flm.results import Solution

MOST_TABLES = 4  # of largest terms, one for each unknown and window, at the most
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
) -> None:
    """Solve a PDE, conservation law or control problem to a tolerance.

    Example: flm solve heat --tol 1e-10
    """
    import flm
    from flm.dispatch import kind_of

    if method == "list":
        say(table(["--method", "for", "what it does"], METHODS, left=3))
        return
    asked = find_problem(problem, settings)
    tol = kind_of(asked.problem).tol if tol is None else tol
    with watching(asked.name, tol=tol) as report:
        options = {"num_subnets": subnets, "method": method, "max_columns": max_columns, "seed": seed}
        solution = flm.solve(asked.problem, tol, progress=report, **options)
    _keep(solution, asked, out, {}, solution.converged or subnets is not None)


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
) -> None:
    """Train a model on a PDE by gradient descent, as the paper does.

    Random points, Adam, the parameters of the lowest training loss kept.

    Example: flm train heat --model flm --size 25 --epochs 2000
    """
    import optax

    import flm
    from flm.paper.protocol import POINTS
    from flm.pde.problem import strong_form
    from flm.study.runs import build_model
    from flm.training.loss import TERMS

    asked = find_problem(problem, settings)
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
    history = solution.history["loss"]
    more = {"model": model, "loss": float(min(history)), "epochs": len(history)}
    _keep(solution, asked, out, more, solution.status.word != "diverged")


def _keep(
    solution: Solution | ControlSolution, asked: Request, out: Path | None, more: dict[str, Any], good: bool
) -> None:
    """Write the files of an answer where a folder is given or a page is to be opened, and print what was found."""
    from flm.report.facts import TERMS, facts_of, readable, record

    shown = {name: measured(value) if isinstance(value, float) else str(value) for name, value in more.items()}
    lines = [f"{asked.name}: {solution.status.sentence}", *listing(facts_of(solution, asked.problem) | shown)]
    series, words = readable(solution)
    lines += [f"\n{words}"] if words else []
    lines += [f"\nThe largest terms of {one.label}:\n{one.series.describe(TERMS)}" for one in series[:MOST_TABLES]]
    out = Path(f"flm-{asked.name}") if out is None and OPEN.get() else out
    if out is None:
        found = record(solution, asked.name)
    else:
        from flm.report.files import write_solution

        with watching(asked.name) as report:
            found = write_solution(solution, folder(out), asked, report)
        lines.append(f"\nWritten to {out}: {', '.join(sorted(p.name for p in out.iterdir() if p.is_file()))}")
    conclude(found | more, "\n".join(lines), good=good)


def find_problem(what: str, settings: list[str] | Mapping[str, float] | None) -> Request:
    """The request for a problem of the catalogue by its name, or for one in a file that ends in .toml, with what its page says.

    `settings` change arguments of the catalogue's function, or parameters of the file.
    """
    from flm.language.outline import Outline, Place, read_file
    from flm.problems import catalogue
    from flm.problems.text import named_problem, parse_problem
    from flm.report.pages.layout import Request

    if not isinstance(settings, Mapping):
        settings = {name: values[0] for name, values in map(read_setting, settings or [])}
    if what.endswith(".toml") or Path(what).is_file():
        path = Path(what)
        text = read_file(path, "problem")
        problem = parse_problem(text, name=path.name, folder=path.parent, parameters=settings)
        outline = Outline.of(text, Place(path.name), path.parent)
        title, units = str(outline.tree.get("title", "")), outline.table("units")
        return Request(path.stem, text, COMMAND.get(), title=title, units=units, problem=problem)
    problem = named_problem(what, settings, "--set")
    call = ", ".join(f"{k}={v!r}" for k, v in settings.items())
    document = (inspect.getdoc(catalogue()[what]) or "").splitlines()[:1]
    text = "\n".join([f"flm.problems.{what}({call})", *document])
    return Request(what, text, COMMAND.get(), problem=problem)


def read_setting(text: str, *, many: bool = False) -> tuple[str, list[float]]:
    """A name and its values: name=number or, where there may be many, name=low:high:count for even ones."""
    name, _, rest = text.partition("=")
    try:
        numbers = [float(part) for part in rest.split(":")]
    except ValueError:
        numbers = []
    even = many and len(numbers) == 3 and numbers[2].is_integer() and numbers[2] >= 2 and numbers[0] < numbers[1]
    if not name.strip().isidentifier() or not all(map(math.isfinite, numbers)) or not (len(numbers) == 1 or even):
        wanted = "name=number" + " or name=low:high:count with a count from 2 on" * many
        raise InputError(f"`--set` must be {wanted}; got {text!r}.")
    if even:
        low, high, last = numbers[0], numbers[1], int(numbers[2]) - 1
        numbers = [low + (high - low) * i / last for i in range(last)] + [high]
    return name.strip(), numbers
