"""`flm study` and `flm paper`: many runs from a specification, resumable, with the paper's selection, tables and figures."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flm.cli.output import COMMAND, conclude, folder, say, table, watching
from flm.wording import InputError, counted, duration, measured

if TYPE_CHECKING:
    from flm.results import Listener
    from flm.study.execution import Workers
    from flm.study.spec import Spec
    from flm.study.store import Row, Store

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
StoreFile = Annotated[Path | None, typer.Option("--store", help="Of the runs. Default: SPEC.sqlite beside SPEC.")]
Count = Annotated[int, typer.Option("--workers", help="Processes; 0 for one per core.")]
Dask = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on a Dask cluster: its scheduler.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the cost and stop.")]


@study_app.command()
def run(
    spec: SpecFile,
    store: StoreFile = None,
    workers: Count = 0,
    dask: Dask = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Do failed runs again.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Do every run that is not stored yet.

    Example: flm study run quick --workers 2
    """
    from flm import study
    from flm.study.results import estimate

    found, path = _found(spec, store)
    who = who_works(workers, dask)
    if dry_run:
        with study.Store(path) if path.exists() else contextlib.nullcontext() as kept:
            cost = estimate(found, who.count, kept.keys() if kept else ())
        seconds = cost.seconds / who.count
        record = {"runs": cost.runs, "final_runs": cost.final_runs, "workers": who.count, "seconds_at_most": seconds}
        final = f" and {cost.final_runs:,} final runs" if cost.final_runs else ""
        time = f"at most {duration(seconds)} on {counted(who.count, 'worker')}, from a measured sample"
        return conclude(record, f"{cost.runs:,} runs of the selection{final}, {time}.")
    with study.Store(path, write=True) as opened:
        say(f"{found.title}: {found.num_runs:,} runs, {counted(who.count, 'worker')}, kept in {path}")
        before = len(opened.keys())
        try:
            with watching(found.title, every=LINES) as report:
                results = study.run_study(found, opened, workers=who, retry_failed=retry_failed, progress=report)
        except KeyboardInterrupt:
            raise stopped(f"{len(opened.keys()) - before:,} new runs are kept in {path}") from None
    total, fresh, failed = (sum(getattr(r, key) for r in results) for key in ("total", "fresh", "failed"))
    seconds = sum(r.seconds for r in results)
    record = {"runs": total, "new": fresh, "failed": failed, "seconds": seconds}
    after = f" Next: flm study report {spec}" if fresh else ""
    return conclude(record, f"{fresh:,} new runs in {duration(seconds)}; {failed:,} failed.{after}", good=not failed)


@study_app.command()
def status(spec: SpecFile, store: StoreFile = None) -> None:
    """Print how far a study is; may be asked while it runs.

    Example: flm study status quick
    """
    from flm.study.results import status
    from flm.study.spec import problem_name

    with _opened(spec, store) as (found, opened):
        counts = status(found, opened)
    best = [{"problem": p, "model": m, "mse": s, "run": r} for (p, m), (s, r) in sorted(counts.best.items())]
    record = {"total": counts.total, "done": counts.done, "failed": counts.failed}
    lines = [f"{found.title}: {counts.done:,} of {counts.total:,} done, {counts.failed:,} failed."]
    lines += [f"About {duration(counts.seconds_left)} left."] if counts.seconds_left > 0 else []
    rows = [[problem_name(b["problem"]), b["model"], measured(b["mse"]), b["run"]] for b in best]
    lines += ["\n" + table(["problem", "model", "lowest MSE", "size and seed"], rows, left=2)] if best else []
    conclude(record | {"seconds_left": counts.seconds_left, "best": best}, "\n".join(lines))


@study_app.command()
def select(spec: SpecFile, store: StoreFile = None) -> None:
    """Choose a configuration per problem and model by the paper's tests, and say why.

    Example: flm study select quick
    """
    from flm import study
    from flm.study.spec import problem_name

    with _opened(spec, store) as (found, opened):
        rows = study.read_rows(opened)
    groups, texts = [], []
    for group in found.groups:
        try:
            selection = study.choose(found, rows, group).selection
            record, text = selection.record(), selection.explain()
        except InputError as error:  # too few runs yet
            record, text = {"label": None, "reason": str(error)}, f"Not decided: {error}"
        groups.append({"problem": group.problem, "model": group.model} | record)
        texts.append(f"{problem_name(group.problem)}: {group.model}\n{text}\n")
    conclude({"groups": groups}, "\n".join(texts), good=all(g["label"] is not None for g in groups))


@study_app.command()
def report(
    spec: SpecFile,
    store: StoreFile = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")] = Path("study-report"),
) -> None:
    """Write the tables and figures as HTML, Markdown, CSV and PNG.

    Example: flm study report quick --out report
    """
    from flm.report.pages.layout import write_page
    from flm.report.pages.study import study_page
    from flm.study.results import read_rows

    with _opened(spec, store) as (found, opened):
        rows = read_rows(opened)
    run_first = shlex.join(["flm", "study", "run", spec, *(["--store", str(store)] if store else [])])
    page = study_page(found, rows, f"{run_first}\n{COMMAND.get()}")
    _written(write_page(page, folder(out), "report"))


@study_app.command()
def audit(spec: SpecFile, store: StoreFile = None) -> None:
    """Check the store: every row whole, no run lost or stored twice.

    Example: flm study audit quick
    """
    with _opened(spec, store) as (_, opened):
        found = opened.audit()
    record = {"rows": found.rows, "done": found.done, "sound": found.sound, "problems": list(found.problems)}
    conclude(record, str(found), good=found.sound)


@study_app.command()
def export(
    spec: SpecFile, to: Annotated[Path, typer.Option("--to", help="A .csv file.")], store: StoreFile = None
) -> None:
    """Write every stored run as a line of a CSV file.

    Example: flm study export quick --to runs.csv
    """
    with _opened(spec, store) as (_, opened):
        _written([opened.export(to)])


def paper(
    quick: Annotated[bool, typer.Option("--quick", help="Minutes instead of hours: one seed, few epochs.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of page, files and runs.")] = Path("flm-paper"),
    ett: Annotated[Path | None, typer.Option("--ett", help="Folder of ETTh1.csv. Default: $FLM_ETT.")] = None,
    workers: Count = 0,
    dry_run: DryRun = False,
) -> None:
    """Make the paper's tables and figures beside ours.

    They are computed by its recipe and by our solver. Runs are kept in the folder: what is there is not computed again, and
    Ctrl-C leaves the page of what was found.

    Example: flm paper --quick --out flm-paper
    """
    from flm.paper.imputation import VARIABLE, find_series, fingerprint
    from flm.paper.plan import FULL, QUICK, Plan, cost, run_paper
    from flm.report.pages.layout import write_page
    from flm.report.paper.page import paper_page
    from flm.study import Store, read_rows

    who, series, mark = who_works(workers), find_series(ett), None
    if series is None:
        say(f"Imputation is left out: name the folder of ETTh1.csv with --ett FOLDER or in {VARIABLE}.")
    else:
        mark = fingerprint(series)
        os.environ[VARIABLE] = str(series.parent)  # for the worker processes
    plan, path = Plan(mark, QUICK if quick else FULL), folder(out)
    with Store(path / "runs.sqlite", write=True) as store:
        price = cost(plan, read_rows(store), who.count, measure=dry_run)
    told = f"{price} {counted(who.count, 'worker').capitalize()}."
    if dry_run:
        return conclude({"cost": price, "workers": who.count}, told)
    say(told)
    work = lambda store, report: run_paper(plan, store, workers=who, progress=report)
    rows, interrupted = keep_runs(path, "The paper", work)
    command = "flm paper" + " --quick" * quick + (" --ett FOLDER" if series is not None else "")
    page = paper_page(plan, rows, command)
    written = write_page(page, path, "paper")
    failed = sum(row.status == "failed" for row in rows.values())
    facts = dict(page.facts)
    tables = {stem: {"columns": t.headers, "rows": t.rows} for stem, t in page.tables.items()}
    record = {"facts": facts, "tables": tables, "files": written, "stopped": interrupted, "failed": failed}
    said = f"{facts['runs']} runs, {facts['processor time']} of processor time{f', {failed} failed' if failed else ''}."
    said += f"\nThe page: {written[0]}; its tables and figures are beside it as Markdown, CSV and PNG."
    conclude(record, said, good=interrupted or not failed)
    if interrupted:
        raise stopped(f"What was done is kept in {path}")
    return None


def who_works(count: int, address: str | None = None) -> Workers:
    """The workers of a Dask cluster if its address is given, else `count` processes, or one per core."""
    from flm.study import dask, local

    if address:
        return dask(address)
    if count < 0:
        raise InputError(f"`--workers` must be at least 0; got {count}.")
    return local(count or None)


def keep_runs(folder: Path, what: str, work: Callable[[Store, Listener], object]) -> tuple[dict[str, Row], bool]:
    """Do runs that the folder's store keeps; return the rows in it and whether Ctrl-C ended the work."""
    from flm.study import Store, read_rows

    with Store(folder / "runs.sqlite", write=True) as store:
        try:
            with watching(what, every=LINES) as report:
                work(store, report)
        except KeyboardInterrupt:
            return read_rows(store), True
        return read_rows(store), False


def stopped(kept: str) -> typer.Exit:
    """The exit after Ctrl-C, with a line that says what is kept and how to go on."""
    print(f"flm: stopped. {kept}; the same command goes on from there.", file=sys.stderr, flush=True)
    return typer.Exit(1)


def _found(spec: str, store: Path | None) -> tuple[Spec, Path]:
    from flm.paper.protocol import find_spec

    found = find_spec(spec)
    return found, store or found.path.with_suffix(".sqlite")


@contextlib.contextmanager
def _opened(spec: str, store: Path | None) -> Iterator[tuple[Spec, Store]]:
    """A specification, and the store of its runs for reading."""
    from flm.study.store import Store

    found, path = _found(spec, store)
    with Store(path) as opened:
        yield found, opened


def _written(paths: list[Path]) -> None:
    conclude({"written": paths}, f"Written: {', '.join(map(str, paths))}")
