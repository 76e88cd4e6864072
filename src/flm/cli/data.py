"""`flm fit`, `flm impute`, `flm predict`: tables in files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flm.cli.output import COMMAND, Json, folder, remark, say, say_json, say_written, watching
from flm.wording import InputError, OutsideWarning, measured

if TYPE_CHECKING:
    from flm.cli.tables import FileTable

Table = Annotated[Path, typer.Argument(metavar="FILE.csv", help="A CSV file with a header, or a Parquet file.")]


def _read(path: Path) -> FileTable:
    """The table, and a line about what was assumed."""
    from flm.cli.tables import read_file

    found = read_file(path)
    if found.assumed:
        remark(f"{found.name} was read with {', '.join(found.assumed)}.")
    return found


def fit(
    table: Table,
    target: Annotated[str, typer.Option(help="The column to explain, by its name or the beginning of it.")],
    features: Annotated[str | None, typer.Option(help="Columns to explain it by, a,b,c; else all others.")] = None,
    time: Annotated[
        str | None, typer.Option(help="The clock of a series: the only feature, unless --features.")
    ] = None,
    subnets: Annotated[int | None, typer.Option(help="Number of frequency vectors; else by evidence.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for model, values, figure, page.")] = None,
    json: Json = False,
) -> None:
    """Fit a series with error bars to a table.

    Dates and durations count from the first row; rows without a target are left out.

    Example: flm fit examples/tables/tides.csv --target height --features hour --out fit
    """
    import numpy as np

    import flm
    from flm.report.files import write_fit
    from flm.report.pages.layout import Request
    from flm.results import Progress, within

    with watching(table.name) as listen:
        listen(Progress("reading", share=0.0))
        found = _read(table)
        (goal,) = found.match([target], "--target")
        clock = [] if time is None else found.match([time], "--time")
        names = _features(found, features, clock, goal)
        there = found.checked([goal], holes=True)[goal].notna().to_numpy()
        found = found.rows(there)
        if not there.all():
            remark(f"{np.sum(~there):,} of {len(there):,} rows have no {goal!r} and were left out.")
        X, y = found.checked(names, text=True), found.values[goal]
        if not len(y):
            raise InputError(f"`--target` must have values; got none in column {goal!r} of {found.name}.")
        model = flm.FLMRegressor(subnets, progress=within(listen, 0.1, 0.8)).fit(X, y)
        listen(Progress("evaluating", share=0.8))
        score, name = float(model.score(X, y)), f"{goal} by {', '.join(names)}"
        if out is not None:
            listen(Progress("writing", share=0.85))
            write_fit(model, X, y, folder(out), Request(name, f"{name}, from {table.name}", COMMAND.get()), goal)
    if json:
        record = {"target": goal, "features": names, "kind": model.kind_, "noise": model.noise_, "r2": score}
        say_json(record | {"rows": len(y), "frequencies": model.frequencies_})
        return
    say(f"{name}: {len(y):,} rows, {len(model.frequencies_)} frequency vectors ({model.kind_})", style="bold")
    kinds = {"ar1": ", correlated", "student": ", heavy-tailed", "growing": ", growing"}
    say(f"  noise           {measured(float(model.noise_))}{kinds.get(model.noise_kind_, '')}")
    if model.n_features_in_ == 1 and len(model.trend_) > 1:
        say(f"  trend           {'linear' if len(model.trend_) == 2 else 'quadratic'}")
    say(f"  explained       {100 * score:.4g} % of the variance, in sample")
    say(f"\n{model.spectrum_}")
    say_written(out)


def _features(found: FileTable, asked: str | None, clock: list[str], target: str) -> list[str]:
    """The columns asked for, else the clock, else all of numbers, dates and durations; text is left alone and told."""
    if asked is not None or clock:
        names = clock + [name for name in found.match(asked or [], "--features") if name not in clock]
        if target in names:
            raise InputError(f"`--features` must be columns besides the target; got {target!r}.")
        return names
    names = [name for name in found.of_kind("number", "mixed", "date", "duration") if name != target]
    left = [name for name in found.of_kind("text", "empty") if name != target]
    if left:
        remark(f"columns of text or without values were left alone: {', '.join(left)}.")
    if not names:
        raise InputError(f"`--features` must name a column besides {target!r}; {found.name} has no other of numbers.")
    return names


def impute(
    table: Table,
    out: Annotated[Path, typer.Option("--out", "-o", help="The filled table, a file; or a folder, with a page.")],
    time: Annotated[str | None, typer.Option(help="The clock; else a column of dates, else the row number.")] = None,
    window: Annotated[int | None, typer.Option(help="Samples per window of the coupled model.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns to fill, a,b,c; all of numbers by default.")] = None,
    deviations: Annotated[bool, typer.Option("--deviations", help="Add columns of standard deviations.")] = False,
    json: Json = False,
) -> None:
    """Fill the holes of a table over time. Other columns and observed cells are kept as they were written.

    Example: flm impute examples/tables/series.csv --time hour --out filled.csv
    """
    import numpy as np

    import flm
    from flm.results import Progress, within

    with watching(table.name) as listen:
        listen(Progress("reading", share=0.0))
        found = _read(table)
        dates = found.of_kind("date", "duration")
        head = found.match([time], "--time") if time is not None else dates[:1] if len(dates) == 1 else []
        if time is None and head:
            remark(f"the clock is {head[0]!r}.")
        if columns is None:
            names = [name for name in found.of_kind("number", "mixed") if name not in head]
            left = [name for name in found.of_kind("text", "empty", "date", "duration") if name not in head]
            if left:
                remark(f"columns of text, of dates or without values were left alone: {', '.join(left)}.")
        else:
            names = found.match(columns, "--columns")
        if not names:
            raise InputError(f"`--columns` must name a column of numbers; {found.name} has none.")
        X = found.checked(head).join(found.checked(names, holes=True))
        imputer = flm.FLMImputer(window, head[0] if head else None, progress=within(listen, 0.1, 0.8)).fit(X)
        imputation = imputer.set_params(progress=within(listen, 0.8, 0.9)).impute(X, fitted=True)
        listen(Progress("writing", share=0.9))
        values, std = (np.asarray(part)[:, len(head) :].astype(float) for part in imputation)
        holes, cells = X[names].isna().to_numpy(), found.cells.copy()
        for j, name in enumerate(names):
            cells.loc[cells.index[holes[:, j]], name] = [found.number(v) for v in values[holes[:, j], j]]
        for j, name in enumerate(names if deviations else ()):
            cells[f"{name}_standard_deviation"] = [found.number(v, 6) for v in std[:, j]]
        if not out.suffix:
            from flm.report.pages.answer import impute_page
            from flm.report.pages.layout import Request

            request = Request(f"{table.stem}, filled", f"{', '.join(names)}, from {table.name}", COMMAND.get())
            impute_page(imputation, names, request).write(folder(out) / "index.html")
            out = out / f"filled{table.suffix}"
        found.write(out, cells)
    counts = {name: int(holes[:, j].sum()) for j, name in enumerate(names)}
    if json:
        beyond = imputation.extrapolated[:, len(head) :].sum(axis=0)
        extrapolated = {name: int(beyond[j]) for j, name in enumerate(names)}
        say_json({"filled": counts, "extrapolated": extrapolated, "rows": len(X), "out": str(out)})
        return
    say(f"{table.name}: {sum(counts.values()):,} of {holes.size:,} cells filled", style="bold")
    for j, (name, count) in enumerate(counts.items()):
        if count:
            typical = measured(float(np.median(std[holes[:, j], j])))
            say(f"  {name}: {count:,} filled, standard deviation about {typical}")
    say(f"Written to {out}")


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL.safetensors", help="A model, solution or fitted estimator.")],
    table: Table,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a CSV file instead of printing.")] = None,
    json: Json = False,
) -> None:
    """Evaluate a saved model at the rows of a table: columns by the names of its inputs.

    Example: flm predict fit/model.safetensors examples/tables/later.csv --out values.csv
    """
    import numpy as np

    import flm
    from flm.results import Progress

    with watching(table.name) as listen:
        listen(Progress("reading", share=0.0))
        found, points = flm.load(model), _read(table)
        inputs = getattr(found, "input_names_", getattr(found, "axes", None)) or points.of_kind("number")
        names = points.match(inputs, "inputs of the model")
        X = points.checked(names, text=True).set_axis(list(inputs), axis=1)
        listen(Progress("evaluating", share=0.3))
        outside = 0
        if hasattr(found, "predict"):
            mean, std = found.predict(X, return_std=True)
            columns = {"value": mean, "standard_deviation": std}
        elif callable(found):
            numbers = X.to_numpy(float)
            with warnings.catch_warnings(action="ignore", category=OutsideWarning):  # said in the line below
                values = np.asarray(found(numbers))
            outputs = getattr(found, "unknowns", ("value",))
            columns = dict(zip(outputs, values.reshape(len(X), -1).T, strict=False))
            domain = getattr(found, "domain", None)
            outside = 0 if domain is None else int(np.sum(~domain.contains(numbers)))
        else:
            raise InputError(f"`MODEL` must be something that can be evaluated; got a {type(found).__name__}.")
        cells = points.cells.loc[:, names].copy()
        for name, values in columns.items():
            cells[name] = [points.number(v, 17 if out else 10) for v in np.asarray(values, float)]
        if out is not None:
            listen(Progress("writing", share=0.6))
            points.write(out, cells)
    if outside:
        remark(f"{outside:,} of {len(X):,} rows are outside of the domain of the solution: their values are NaN.")
    if json:
        say_json({name: np.asarray(values) for name, values in columns.items()})
    elif out is None:
        print(cells.to_csv(index=False, lineterminator="\n"), end="")
    else:
        say(f"{len(X):,} rows written to {out}")
