"""`flm fit`, `flm impute`, `flm predict`: tables in files."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flm.cli.output import COMMAND, JSON, conclude, folder, listing, remark, watching
from flm.wording import InputError, OutsideWarning, measured

if TYPE_CHECKING:
    from flm.cli.tables import FileTable

Table = Annotated[Path, typer.Argument(metavar="FILE.csv", help="A CSV file with a header, or a Parquet file.")]
_ORDER = "Read 05/02/2024 as 5 February, or as May 2; else as the clock runs most evenly."
DayFirst = Annotated[bool | None, typer.Option("--day-first/--month-first", help=_ORDER)]
_NOTHING = "What stands for nothing, a text or a number such as -200; a,b,c or once for each."
Missing = Annotated[list[str] | None, typer.Option(help=_NOTHING)]
_NO_SPREADSHEET = "Write a CSV file, which spreadsheets open."
LEAST = 3  # rows of a fit: two points are on a line, whatever they are


def _read(
    path: Path, day_first: bool | None, missing: list[str] | None, formats: dict[str, str] | None = None
) -> FileTable:
    """The table in a file; a line says what was assumed in reading it."""
    from flm.cli.tables import read_file

    found = read_file(path, day_first=day_first, formats=formats, missing=missing or ())
    if found.assumed:
        remark(f"{found.name} was read with {', '.join(found.assumed)}.")
    for sentence in found.remarks:
        remark(sentence)
    return found


def _chosen(found: FileTable, used: tuple[str, ...], apart: list[str], what: str) -> list[str]:
    """The columns whose kind is in `used`, without those in `apart`; a remark names the others."""
    every = [str(name) for name in found.cells if name not in apart]
    names = [name for name in every if name in found.of_kind(*used)]
    if left := [name for name in every if name not in names]:
        remark(f"columns {what} or without values were left alone: {', '.join(left)}.")
    return names


def fit(
    table: Table,
    target: Annotated[str, typer.Option(help="The column to explain, by its name or the beginning of it.")],
    features: Annotated[str | None, typer.Option(help="Columns to explain it by, a,b,c; else all others.")] = None,
    time: Annotated[str | None, typer.Option(help="The clock: the only feature, unless --features.")] = None,
    subnets: Annotated[int | None, typer.Option(help="Number of frequency vectors; else by evidence.")] = None,
    missing: Missing = None,
    day_first: DayFirst = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for model, values, figure, page.")] = None,
) -> None:
    """Fit a series with error bars to a table.

    Dates and durations count from the first row; rows without a target are left out.

    Example: flm fit examples/tables/tides.csv --target height --features hour --out fit
    """
    import pandas as pd

    import flm
    from flm.report.files import write_fit
    from flm.report.pages.answer import fit_facts
    from flm.report.pages.layout import Request
    from flm.results import Progress, within

    with watching(table.name) as listen:
        listen(Progress("reading", share=0.0))
        found = _read(table, day_first, missing)
        (goal,) = found.match([target], "--target")
        names = found.match([time], "--time") if time is not None else []
        names += [name for name in found.match(features or [], "--features") if name not in names]
        if goal in names:
            raise InputError(f"`--features` must be columns besides the target; got {goal!r}.")
        if goal in found.of_kind("date", "duration"):
            raise InputError(f"`--target` must be a column of numbers; got {goal!r} of {found.name}, which is a clock.")
        names = names or _chosen(found, ("number", "mixed", "date", "duration"), [goal], "of text, of row numbers")
        if not names:
            raise InputError(f"`--features` must name a column besides {goal!r}; {found.name} has no other of numbers.")
        there = found.checked([goal], holes=True)[goal].notna().to_numpy()
        found = replace(found, cells=found.cells[there], values=found.values[there])
        if not there.all():
            remark(f"{(~there).sum():,} of {len(there):,} rows have no {goal!r} and were left out.")
        found.checked(names[: time is not None])  # a clock is no category
        X, y = found.checked(names, text=True), found.values[goal]
        if not len(y):
            raise InputError(f"`--target` must have values; got none in column {goal!r} of {found.name}.")
        if len(y) < LEAST:
            raise InputError(f"{found.name} must have at least {LEAST} rows with a {goal!r}; got {len(y)}.")
        model = flm.FLMRegressor(subnets, progress=within(listen, 0.1, 0.8)).fit(X, y)
        listen(Progress("evaluating", share=0.8))
        score, name = float(model.score(X, y)), f"{goal} by {', '.join(names)}"
        if out is not None:
            listen(Progress("writing", share=0.85))
            request = Request(name, f"{name}, from {table.name}", COMMAND.get())
            zoned = [column for column in names if isinstance(X[column].dtype, pd.DatetimeTZDtype)]
            write_fit(model, X, y, folder(out), request, goal, found.cells.loc[:, zoned])
    record = {"target": goal, "features": names, "kind": model.kind_, "noise": model.noise_, "r2": score}
    lines = [name, *listing(fit_facts(model, X, y)), f"\n{model.spectrum_}"]
    lines += [f"\nWritten to {out}"] if out else []
    conclude(record | {"rows": len(y), "frequencies": model.frequencies_}, "\n".join(lines))


def impute(
    table: Table,
    out: Annotated[Path, typer.Option("--out", "-o", help="The filled table, a file; or a folder, with a page.")],
    time: Annotated[str | None, typer.Option(help="The clock; else a column of dates, else the row number.")] = None,
    window: Annotated[int | None, typer.Option(help="Samples per window of the coupled model.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns to fill, a,b,c; all of numbers by default.")] = None,
    deviations: Annotated[bool, typer.Option("--deviations", help="Add columns of standard deviations.")] = False,
    missing: Missing = None,
    day_first: DayFirst = None,
) -> None:
    """Fill the holes of a table over time.

    Other columns and observed cells are kept as they were written.

    Example: flm impute examples/tables/series.csv --time hour --out filled.csv
    """
    import numpy as np

    import flm
    from flm.cli.tables import refuse_spreadsheet
    from flm.report.pages.answer import impute_page
    from flm.report.pages.layout import Request
    from flm.results import Progress, within

    with watching(table.name) as listen:
        listen(Progress("reading", share=0.0))
        refuse_spreadsheet(out, _NO_SPREADSHEET)
        found = _read(table, day_first, missing)
        dates = found.of_kind("date") or found.of_kind("duration")
        steps = {name: found.values[name].diff().iloc[1:] for name in [*dates, *found.of_kind("number")]}
        steady = [name for name in steps if (steps[name] > 0 * steps[name]).all()]
        own = dates if len(dates) == 1 else [name for name in dates if name in steady][:1]
        head = found.match([time], "--time") if time is not None else own
        if time is None and head:
            remark(f"the clock is {head[0]!r}.")
        if head and (again := int(found.values[head[0]].duplicated().sum())):
            remedy = "Give a file for each series, if several stand below each other, or name a clock with --time."
            remark(f"{again:,} of {len(found.cells):,} rows have a time of {head[0]!r} that another row has. {remedy}")
        if not head:
            remedy = f"--time {' or '.join(map(repr, steady[:3]))}".strip() + " names a clock."
            remark(f"no column is the clock: rows are taken as equal steps of time. {remedy}")
        if columns is None:
            names = _chosen(found, ("number", "mixed"), head, "of text, of dates, of row numbers")
        else:
            names = found.match(columns, "--columns")
        if not names:
            raise InputError(f"`--columns` must name a column of numbers; {found.name} has none.")
        added = [f"{name}_standard_deviation" for name in names] if deviations else []
        for clash in [name for name in added if name in found.cells][:1]:
            told = f"{found.name} has {clash!r} already. Rename or remove that column."
            raise InputError(f"`--deviations` must add new columns; {told}")
        X = found.checked(head).join(found.checked(names, holes=True))
        imputer = flm.FLMImputer(window, head[0] if head else None, progress=within(listen, 0.1, 0.8)).fit(X)
        imputation = imputer.set_params(progress=within(listen, 0.8, 0.9)).impute(X, fitted=True)
        listen(Progress("writing", share=0.9))
        values, std = (np.asarray(part)[:, len(head) :].astype(float) for part in imputation)
        holes, cells = X[names].isna().to_numpy(), found.cells.copy()
        for j, name in enumerate(names):
            cells.loc[cells.index[holes[:, j]], name] = [found.number(v, column=name) for v in values[holes[:, j], j]]
        for j, name in enumerate(added):
            cells[name] = [found.number(v, 6) for v in std[:, j]]
        if not out.suffix:
            request = Request(f"{table.stem}, filled", f"{', '.join(names)}, from {table.name}", COMMAND.get())
            impute_page(imputation, names, request).write(folder(out) / "index.html")
            out = out / f"filled{table.suffix}"
        found.write(out, cells)
    masks = holes, imputation.extrapolated[:, len(head) :]
    counts, beyond = (dict(zip(names, mask.sum(axis=0), strict=True)) for mask in masks)
    lines = [f"{table.name}: {holes.sum():,} of {holes.size:,} cells filled"]
    for j in np.flatnonzero(holes.any(axis=0)):
        typical = measured(float(np.median(std[holes[:, j], j])))
        lines.append(f"  {names[j]}: {counts[names[j]]:,} filled, standard deviation about {typical}")
    record = {"filled": counts, "extrapolated": beyond, "rows": len(X), "out": str(out)}
    conclude(record, "\n".join([*lines, f"Written to {out}"]))


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL.safetensors", help="A model, solution or fitted estimator.")],
    table: Table,
    missing: Missing = None,
    day_first: DayFirst = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a CSV file instead of printing.")] = None,
) -> None:
    """Evaluate a saved model at the rows of a table.

    Columns are taken by the names of the model's inputs.

    Example: flm predict fit/model.safetensors examples/tables/later.csv --out values.csv
    """
    import numpy as np
    import pandas as pd

    import flm
    from flm.cli import clocks
    from flm.cli.joint import BESIDE
    from flm.cli.tables import refuse_spreadsheet
    from flm.estimators.table import Feature
    from flm.results import Progress

    with watching(table.name) as listen:
        listen(Progress("reading", share=0.0))
        refuse_spreadsheet(out, _NO_SPREADSHEET)
        found = flm.load(model)
        known = {f.name: f for f in getattr(getattr(found, "_state", None), "features", ())}
        inputs = getattr(found, "input_names_", getattr(found, "axes", None))
        features = [known.get(name, Feature(name)) for name in inputs or ()]
        points = _read(table, day_first, missing, {f.name: f.written or f.kind for f in features})
        inputs = inputs or points.of_kind("number")
        names = points.match(inputs, "inputs of the model", whole=True)
        apart, places = [], np.cumsum([0, *(len(feature.names) for feature in features)])
        for feature, name, place in zip(features, names, places, strict=False):
            if feature.name != name:
                remark(f"the input {feature.name!r} of the model was read from column {name!r}.")
            dates, beside = pd.Series(points.values[name]), feature.written.split(BESIDE)[1:]
            parts = points.values.attrs["formats"].get(name, "").split(BESIDE)[1:]
            if beside and not parts and not (dates.dtype.kind == "M" and dates.dt.hour.any()):
                rule = f"{', '.join(map(repr, beside))} beside {name!r} in every row"
                raise InputError(f"{points.name} must have {rule}, as was fitted; got none.")
            points.refuse_other(feature.kind, name)
            if "%y" in feature.written:
                middle = feature.back(found._state.fit.inputs.center[[place]])[0]
                points.values[name] = clocks.near(dates, middle)
            apart += [part for part in parts or beside if part in points.cells and part not in names]
            if feature.zone and not dates.dt.tz:
                remark(
                    f"the dates of {name!r} have no time zone and were taken in {feature.zone}, as those of the fit."
                )
        X = points.checked(names, text=True).set_axis(list(inputs), axis=1)
        listen(Progress("evaluating", share=0.3))
        outside = 0
        if hasattr(found, "predict"):
            mean, std = found.predict(X, return_std=True)
            columns: dict[str, np.ndarray] = {"value": mean, "standard_deviation": std}
        elif callable(found):
            numbers = X.to_numpy(float)
            with warnings.catch_warnings(action="ignore", category=OutsideWarning):  # said in the line below
                values = np.asarray(found(numbers))
            columns = dict(zip(getattr(found, "unknowns", ("value",)), values.reshape(len(X), -1).T, strict=False))
            domain = getattr(found, "domain", None)
            outside = 0 if domain is None else int(np.sum(~domain.contains(numbers)))
        else:
            raise InputError(f"`MODEL` must be something that can be evaluated; got a {type(found).__name__}.")
        cells = points.cells.loc[:, [*names, *apart]].copy()
        taken = {*cells, *(unit.header for unit in points.units.values())}
        for name, values in columns.items():
            new = next(new for k in itertools.count() if (new := "predicted " * k + name) not in taken)
            if new != name:
                remark(f"column {name!r} is kept: the new one is {new!r}.")
            cells[new] = [points.number(v, 17 if out else 10) for v in np.asarray(values, float)]
        if out is not None:
            points.write(out, cells)
    if outside:
        remark(f"{outside:,} of {len(X):,} rows are outside of the domain of the solution: their values are NaN.")
    if out is None and not JSON.get():
        print(cells.to_csv(index=False, lineterminator="\n"), end="")
    else:
        conclude(columns, f"{len(X):,} rows written to {out}")
