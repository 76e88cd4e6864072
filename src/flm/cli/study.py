"""`flm study`: many runs from a specification, resumable, with the paper's selection and its tables."""

from __future__ import annotations

import contextlib
import math
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from flm.cli.output import COMMAND, QUIET, folder, say, say_json, table
from flm.wording import InputError, measured

study_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Many runs from a specification: run, watch, select, report. A study that was stopped goes on where it was.",
)

SpecFile = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="A TOML file, or a protocol of the paper: heat, poisson, black_scholes, burgers, n_versus_mse, quick, uztack20.",
    ),
]
StoreFile = Annotated[
    Path | None, typer.Option("--store", help="Where the runs are kept. Default: SPEC.sqlite beside the specification.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(app: typer.Typer) -> None:
    """Give the command line its `study` commands."""
    app.add_typer(study_app, name="study")


@study_app.command()
def run(
    spec: SpecFile,
    store: StoreFile = None,
    workers: Annotated[int, typer.Option(help="Processes; 0 for one per core.")] = 0,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on a Dask cluster: its scheduler.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Do failed runs again.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the number of runs and the time, and stop.")
    ] = False,
    json: Json = False,
) -> None:
    """Do every run that is not stored yet.

    Example: flm study run quick --workers 2
    """
    import os

    from flm.study.execution import dask as dask_cluster
    from flm.study.execution import dask_workers, local
    from flm.study.results import duration, estimate, run_study
    from flm.study.spec import read_spec
    from flm.study.store import Store

    found = read_spec(spec)
    path = store or found.path.with_suffix(".sqlite")
    if workers < 0:
        raise InputError(f"`--workers` must be at least 0; got {workers}.")
    count = dask_workers(dask) if dask else workers or os.cpu_count() or 1
    if dry_run:
        done = _stored(path)
        cost = estimate(found, count, done)
        record = {"runs": cost.runs, "final_runs": cost.final_runs, "workers": count}
        seconds = (cost.seconds + cost.final_seconds) / count
        say_json(record | {"seconds_at_most": seconds}) if json else say(str(cost))
        return
    make = (lambda: dask_cluster(dask)) if dask else (lambda: local(count))
    with Store(path, write=True) as opened:
        if not json:
            say(f"{found.title}: {found.num_runs:,} runs, {count} worker{'s' * (count > 1)}, kept in {path}")
        before = len(opened.keys())
        try:
            with live_view(found.title) as progress:
                results = run_study(
                    found, opened, make_executor=make, workers=count, retry_failed=retry_failed, progress=progress
                )
        except KeyboardInterrupt:
            fresh = len(opened.keys()) - before
            text = f"flm: stopped. {fresh:,} new runs are kept in {path}; the same command goes on from there."
            print(text, file=sys.stderr, flush=True)
            raise typer.Exit(1) from None
    fresh, failed = sum(r.fresh for r in results), sum(r.failed for r in results)
    seconds = sum(r.seconds for r in results)
    if json:
        say_json({"runs": sum(r.total for r in results), "new": fresh, "failed": failed, "seconds": seconds})
    else:
        after = f" Next: flm study report {spec}" if fresh else ""
        say(f"{fresh:,} new runs in {duration(seconds)}; {failed:,} failed.{after}")
    if failed:
        raise typer.Exit(1)


@study_app.command()
def status(spec: SpecFile, store: StoreFile = None, json: Json = False) -> None:
    """Print how far a study is; may be asked while it runs.

    Example: flm study status quick
    """
    from flm.study.results import duration
    from flm.study.results import status as where
    from flm.study.spec import problem_name, read_spec
    from flm.study.store import Store

    found = read_spec(spec)
    with Store(store or found.path.with_suffix(".sqlite")) as opened:
        live = where(found, opened)
    left = live.seconds_left
    if json:
        best = [{"problem": p, "model": m, "mse": s, "run": r} for (p, m), (s, r) in live.best.items()]
        record = {
            "total": live.total,
            "done": live.done,
            "failed": live.failed,
            "rate": live.rate,
            "seconds_left": left,
        }
        say_json(record | {"best": best})
        return
    say(f"{found.title}: {live.done:,} of {live.total:,} done, {live.failed:,} failed.")
    if live.fresh and live.done + live.failed < live.total:
        say(f"{live.rate:.3g} runs per second, about {duration(left)} left.")
    if live.best:
        rows = [[problem_name(p), m, measured(s), r] for (p, m), (s, r) in sorted(live.best.items())]
        say("\n" + table(["problem", "model", "lowest MSE", "size and seed"], rows, left=2))


@study_app.command()
def select(spec: SpecFile, store: StoreFile = None, json: Json = False) -> None:
    """Choose a configuration per problem and model by the paper's tests, and say why.

    Example: flm study select quick
    """
    from flm.study.results import choose, read_rows
    from flm.study.spec import problem_name, read_spec
    from flm.study.store import Store

    found = read_spec(spec)
    with Store(store or found.path.with_suffix(".sqlite")) as opened:
        rows = read_rows(opened)
    groups = []
    for group in found.groups:
        record = {"problem": group.problem, "model": group.model}
        try:
            selection = choose(found, rows, group).selection
            groups.append(record | selection.to_dict())
            text = selection.explain()
        except ValueError as error:  # too few runs yet
            groups.append(record | {"label": None, "reason": str(error)})
            text = f"Not decided: {error}"
        if not json:
            say(f"{problem_name(group.problem)}: {group.model}", style="bold")
            say(text + "\n")
    if json:
        say_json({"groups": groups})
    if any(g["label"] is None for g in groups):
        raise typer.Exit(1)


@study_app.command()
def report(
    spec: SpecFile,
    store: StoreFile = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")] = Path("study-report"),
    json: Json = False,
) -> None:
    """Write the tables and figures as HTML, Markdown and CSV.

    Example: flm study report quick --out report
    """
    from flm.report.pages.study import write_report
    from flm.study.results import read_rows
    from flm.study.spec import read_spec
    from flm.study.store import Store

    found = read_spec(spec)
    with Store(store or found.path.with_suffix(".sqlite")) as opened:
        rows = read_rows(opened)
    run_first = shlex.join(["flm", "study", "run", str(spec), *(["--store", str(store)] if store else [])])
    written = write_report(found, rows, folder(out), f"{run_first}\n{COMMAND.get()}")
    if json:
        say_json({"written": written})
    else:
        say(f"Written: {', '.join(map(str, written))}")


@study_app.command()
def audit(spec: SpecFile, store: StoreFile = None, json: Json = False) -> None:
    """Check the store: every row whole, no run lost or stored twice.

    Example: flm study audit quick
    """
    from flm.study.spec import read_spec
    from flm.study.store import Store

    with Store(store or read_spec(spec).path.with_suffix(".sqlite")) as opened:
        found = opened.audit()
    if json:
        say_json({"rows": found.rows, "done": found.done, "sound": found.sound, "problems": list(found.problems)})
    else:
        say(str(found))
    if not found.sound:
        raise typer.Exit(1)


@study_app.command()
def export(
    spec: SpecFile,
    to: Annotated[Path, typer.Option("--to", help="A .csv or .parquet file.")],
    store: StoreFile = None,
    json: Json = False,
) -> None:
    """Write every stored run as a line of a CSV or Parquet file.

    Example: flm study export quick --to runs.csv
    """
    from flm.study.spec import read_spec
    from flm.study.store import Store

    with Store(store or read_spec(spec).path.with_suffix(".sqlite")) as opened:
        written = opened.export(to)
    if json:
        say_json({"written": written})
    else:
        say(f"Written: {written}")


def _stored(path: Path) -> list[str]:
    from flm.study.store import Store

    if not path.exists():
        return []
    with Store(path) as opened:
        return list(opened.keys())


@contextlib.contextmanager
def live_view(title: str) -> Iterator[Callable[[Any], None] | None]:
    """Counts, rate, time left and the best so far: a table on stderr in a terminal, a line now and then elsewhere."""
    from flm.study.results import duration
    from flm.study.spec import problem_name

    if QUIET.get():
        yield None
        return

    def sentence(live: Any) -> str:
        text = f"{live.done:,} done, {live.failed:,} failed, {live.running:,} running of {live.total:,}"
        rate = "" if math.isnan(live.rate) else f"; {live.rate:.3g} per second"
        return text + rate + ("" if math.isnan(live.seconds_left) else f", {duration(live.seconds_left)} left")

    if not sys.stderr.isatty():
        last = [time.monotonic()]

        def print_now_and_then(live: Any) -> None:
            if time.monotonic() - last[0] > 30:
                last[0] = time.monotonic()
                print(sentence(live), file=sys.stderr, flush=True)

        yield print_now_and_then
        return
    from rich.console import Console, Group
    from rich.live import Live as Screen
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    with Screen(console=Console(stderr=True), refresh_per_second=4, transient=True) as screen:

        def draw(live: Any) -> None:
            best = Table("problem", "model", "lowest MSE", "size and seed", box=None, title_justify="left")
            for (problem, model), (score, label) in sorted(live.best.items()):
                best.add_row(problem_name(problem), model, measured(score), label)
            bar = ProgressBar(total=max(live.total, 1), completed=live.done + live.failed, width=60)
            screen.update(Group(Text(title, style="bold"), bar, Text(sentence(live)), best))

        yield draw
