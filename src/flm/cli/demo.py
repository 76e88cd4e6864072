"""`flm demo`: the tour, about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flm.cli.output import Json, folder, say, say_json, table, watching


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the page and the record go.")] = Path("flm-demo"),
    json: Json = False,
) -> None:
    """Solve the paper's problems, compare with its numbers and write a page; about a minute on two cores.

    Example: flm demo --out flm-demo
    """
    from flm.files import to_json, write_atomic
    from flm.report.pages.demo import HEADERS, run_demo

    path = folder(out)
    with watching("the tour", every=0.0) as report:
        tour = run_demo(report)
    write_atomic(path / "demo.json", to_json(tour.record()).encode())
    page = tour.page().write(path / "index.html")
    if json:
        say_json(tour.record())
    else:
        say()
        say(table(HEADERS, [stop.row() for stop in tour.stops], left=2))
        say(f"\n{tour.seconds:.0f} s in all. The page: {page}")
    if not tour.converged:
        raise typer.Exit(1)
