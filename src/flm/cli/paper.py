"""`flm paper`: every table and figure of the paper beside ours, as one page."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flm.cli.output import Json, folder, say, say_json, watching
from flm.cli.study import LINES, Count, check_workers

if TYPE_CHECKING:
    from flm.report.pages.layout import Page


def paper(
    quick: Annotated[bool, typer.Option("--quick", help="Minutes instead of hours: one seed, few epochs.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the page, its files and its runs.")] = Path(
        "flm-paper"
    ),
    ett: Annotated[
        Path | None, typer.Option("--ett", help="Folder of ETTh1.csv, for imputation. Default: $FLM_ETT.")
    ] = None,
    workers: Count = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the cost and stop.")] = False,
    json: Json = False,
) -> None:
    """Compute every table and figure of the paper, by its recipe and by our solver, and write a page.

    Runs are kept in the folder: what is there is not computed again, and Ctrl-C leaves the page of what was found.

    Example: flm paper --quick --out flm-paper
    """
    from flm.paper.imputation import VARIABLE, find_series, fingerprint
    from flm.paper.plan import Plan, cost, full_plan, run_paper, store_path
    from flm.report.pages.layout import write_page
    from flm.report.paper.page import paper_page
    from flm.study import Store, local, read_rows

    who = local(check_workers(workers))
    series, mark = find_series(ett), None
    tell = (lambda text: None) if json else say
    if series is None:
        tell(f"Imputation is left out: name the folder of ETTh1.csv with --ett FOLDER or in {VARIABLE}.")
    else:
        mark = fingerprint(series)
        os.environ[VARIABLE] = str(series.parent)  # for the worker processes
    plan = Plan(series=mark) if quick else full_plan(mark)
    path = folder(out)
    stopped = False
    with Store(store_path(path), write=True) as store:
        price = cost(plan, store, who.count, tell)
        tell(price)
        if dry_run:
            say_json({"cost": price, "workers": who.count}) if json else None
            return
        try:
            with watching("The paper", every=LINES) as report:
                run_paper(plan, store, workers=who, progress=report)
        except KeyboardInterrupt:
            stopped = True
        rows = read_rows(store)
    command = "flm paper" + " --quick" * quick + (" --ett FOLDER" if series is not None else "")
    page = paper_page(plan, rows, command)
    written = write_page(page, path, "paper", pictures=True)
    failed = sum(row.status == "failed" for row in rows.values())
    facts = dict(page.facts)
    if json:
        found = {"facts": facts, "tables": _tables(page), "files": [str(p) for p in written]}
        say_json(found | {"stopped": stopped, "failed": failed})
    else:
        said = f"{facts['runs']} runs, {facts['processor time']} of processor time"
        say(f"{said}{f', {failed} failed' if failed else ''}.")
        say(f"The page: {written[0]}; its tables and figures are beside it as Markdown, CSV and PNG.")
    if stopped:
        print(f"flm: stopped. What was done is kept in {path}; the same command goes on from there.", file=sys.stderr)
    if stopped or failed:
        raise typer.Exit(1)


def _tables(page: Page) -> dict[str, object]:
    from flm.report.pages.layout import Table, named_items

    return {
        stem: {"columns": list(item.headers), "rows": [list(row) for row in item.rows]}
        for stem, item in named_items(page)
        if isinstance(item, Table)
    }
