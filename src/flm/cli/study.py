"""`flm study`: many runs from a specification, resumable, with the paper's selection and its tables."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flm.cli.output import COMMAND, Json, folder, say, say_json, table, watching
from flm.wording import InputError, duration, measured

if TYPE_CHECKING:
    from flm.study.spec import Spec
    from flm.study.store import Store

LINES = 30.0  # seconds between lines where there is no terminal

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
Count = Annotated[int, typer.Option("--workers", help="Processes; 0 for one per core.")]


@study_app.command()
def run(
    spec: SpecFile,
    store: StoreFile = None,
    workers: Count = 0,
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
    from flm import study
    from flm.paper.protocol import find_spec

    found = find_spec(spec)
    path = store or found.path.with_suffix(".sqlite")
    who = study.dask(dask) if dask else study.local(check_workers(workers))
    if dry_run:
        with study.Store(path) if path.exists() else contextlib.nullcontext() as kept:
            cost = study.estimate(found, who.count, kept.keys() if kept else ())
        record = {"runs": cost.runs, "final_runs": cost.final_runs, "workers": who.count}
        seconds = (cost.seconds + cost.final_seconds) / who.count
        say_json(record | {"seconds_at_most": seconds}) if json else say(str(cost))
        return
    with study.Store(path, write=True) as opened:
        if not json:
            say(f"{found.title}: {found.num_runs:,} runs, {who.count} worker{'s' * (who.count > 1)}, kept in {path}")
        before = len(opened.keys())
        try:
            with watching(found.title, every=LINES) as report:
                results = study.run_study(found, opened, workers=who, retry_failed=retry_failed, progress=report)
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


def check_workers(count: int) -> int | None:
    """The number of processes that was asked for; None for one per core."""
    if count < 0:
        raise InputError(f"`--workers` must be at least 0; got {count}.")
    return count or None


@study_app.command()
def status(spec: SpecFile, store: StoreFile = None, json: Json = False) -> None:
    """Print how far a study is; may be asked while it runs.

    Example: flm study status quick
    """
    from flm import study
    from flm.study.spec import problem_name

    with _opened(spec, store) as (found, opened):
        counts = study.status(found, opened)
    best = [{"problem": p, "model": m, "mse": s, "run": r} for (p, m), (s, r) in sorted(counts.best.items())]
    if json:
        record = {"total": counts.total, "done": counts.done, "failed": counts.failed, "rate": counts.rate}
        say_json(record | {"seconds_left": counts.seconds_left, "best": best})
        return
    say(f"{found.title}: {counts.done:,} of {counts.total:,} done, {counts.failed:,} failed.")
    if counts.fresh and counts.done + counts.failed < counts.total:
        say(f"{counts.rate:.3g} runs per second, about {duration(counts.seconds_left)} left.")
    if best:
        rows = [[problem_name(b["problem"]), b["model"], measured(b["mse"]), b["run"]] for b in best]
        say("\n" + table(["problem", "model", "lowest MSE", "size and seed"], rows, left=2))


@study_app.command()
def select(spec: SpecFile, store: StoreFile = None, json: Json = False) -> None:
    """Choose a configuration per problem and model by the paper's tests, and say why.

    Example: flm study select quick
    """
    from flm import study
    from flm.study.spec import problem_name

    with _opened(spec, store) as (found, opened):
        rows = study.read_rows(opened)
    groups = []
    for group in found.groups:
        record = {"problem": group.problem, "model": group.model}
        try:
            selection = study.choose(found, rows, group).selection
            groups.append(record | selection.record())
            text = selection.explain()
        except InputError as error:  # too few runs yet
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
    from flm.report.pages.layout import write_page
    from flm.report.pages.study import study_page
    from flm.study.results import read_rows

    with _opened(spec, store) as (found, opened):
        rows = read_rows(opened)
    run_first = shlex.join(["flm", "study", "run", spec, *(["--store", str(store)] if store else [])])
    page = study_page(found, rows, f"{run_first}\n{COMMAND.get()}")
    _say_written(write_page(page, folder(out), "report"), json)


@study_app.command()
def audit(spec: SpecFile, store: StoreFile = None, json: Json = False) -> None:
    """Check the store: every row whole, no run lost or stored twice.

    Example: flm study audit quick
    """
    with _opened(spec, store) as (_, opened):
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
    with _opened(spec, store) as (_, opened):
        _say_written(opened.export(to), json)


@contextlib.contextmanager
def _opened(spec: str, store: Path | None) -> Iterator[tuple[Spec, Store]]:
    """A specification, and the store of its runs for reading."""
    from flm.paper.protocol import find_spec
    from flm.study.store import Store

    found = find_spec(spec)
    with Store(store or found.path.with_suffix(".sqlite")) as opened:
        yield found, opened


def _say_written(written: Path | list[Path], json: bool) -> None:
    paths = [written] if isinstance(written, Path) else written
    say_json({"written": written}) if json else say(f"Written: {', '.join(map(str, paths))}")
