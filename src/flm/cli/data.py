"""`flm fit`, `flm impute`, `flm predict`: tables in CSV files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from flm.cli.output import COMMAND, Json, folder, remark, say, say_json, say_written, watching
from flm.wording import InputError, OutsideWarning, measured

Table = Annotated[Path, typer.Argument(metavar="FILE.csv", help="A CSV file with a header.")]


def fit(
    table: Table,
    target: Annotated[str, typer.Option(help="The column to explain.")],
    features: Annotated[str | None, typer.Option(help="Columns to explain it by, a,b,c; else all others.")] = None,
    subnets: Annotated[int | None, typer.Option(help="Number of frequency vectors; else by evidence.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for model, values, figure, page.")] = None,
    json: Json = False,
) -> None:
    """Fit a series with error bars to a table.

    Example: flm fit examples/tables/tides.csv --target height --features hour --out fit
    """
    import flm
    from flm.cli.csv_table import columns as named
    from flm.cli.csv_table import numbers, read_csv
    from flm.report.files import write_fit
    from flm.report.pages.layout import Request
    from flm.results import Progress, within

    with watching(table.name) as listen:
        listen(Progress("reading", share=0.0))
        found = read_csv(table)
        named(found, [target], "--target")
        names = named(found, features, "--features", but=target)
        X, y = numbers(found, names), numbers(found, [target])[target].to_numpy()
        model = flm.FLMRegressor(subnets, progress=within(listen, 0.1, 0.8)).fit(X, y)
        listen(Progress("evaluating", share=0.8))
        score, name = float(model.score(X, y)), f"{target} by {', '.join(names)}"
        if out is not None:
            listen(Progress("writing", share=0.85))
            write_fit(model, X, y, folder(out), Request(name, f"{name}, from {table.name}", COMMAND.get()), target)
    if json:
        record = {"target": target, "features": names, "kind": model.kind_, "noise": model.noise_, "r2": score}
        say_json(record | {"rows": len(y), "frequencies": model.frequencies_})
        return
    say(f"{name}: {len(y):,} rows, {len(model.frequencies_)} frequency vectors ({model.kind_})", style="bold")
    say(f"  noise           {measured(float(model.noise_))}")
    say(f"  explained       {100 * score:.4g} % of the variance, in sample")
    say(f"\n{model.spectrum_}")
    say_written(out)


def impute(
    table: Table,
    out: Annotated[Path, typer.Option("--out", "-o", help="The filled table, a CSV file.")],
    time: Annotated[str | None, typer.Option(help="The clock, numbers or dates; else the row number.")] = None,
    window: Annotated[int | None, typer.Option(help="Samples per window of the coupled model.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns to fill, a,b,c; all but the clock by default.")] = None,
    deviations: Annotated[bool, typer.Option("--deviations", help="Add columns of standard deviations.")] = False,
    json: Json = False,
) -> None:
    """Fill the holes of a table over time. Other columns and observed cells are kept as they were written.

    Example: flm impute examples/tables/series.csv --time hour --out filled.csv
    """
    import numpy as np

    import flm
    from flm.cli.csv_table import columns as named
    from flm.cli.csv_table import numbers, read_csv
    from flm.files import write_atomic
    from flm.results import Progress, within

    with watching(table.name) as listen:
        listen(Progress("reading", share=0.0))
        found = read_csv(table)
        head = [] if time is None else named(found, [time], "--time")
        names = named(found, columns, "--columns", but=time)
        X = numbers(found, [*head, *names], missing=True, dates=time).to_numpy()
        imputer = flm.FLMImputer(window, None if time is None else 0, progress=within(listen, 0.1, 0.8)).fit(X)
        imputation = imputer.set_params(progress=within(listen, 0.8, 0.9)).impute(X, fitted=True)
        listen(Progress("writing", share=0.9))
        values, std, holes = (np.asarray(v)[:, len(head) :] for v in (*imputation, np.isnan(X)))
        for j, name in enumerate(names):
            found.loc[holes[:, j], name] = [f"{v:.10g}" for v in values[holes[:, j], j]]
        for j, name in enumerate(names if deviations else ()):
            found[f"{name}_standard_deviation"] = [f"{v:.6g}" for v in std[:, j]]
        write_atomic(out, found.to_csv(index=False, lineterminator="\n").encode())
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
    from flm.cli.csv_table import columns as named
    from flm.cli.csv_table import numbers, read_csv
    from flm.files import write_csv
    from flm.results import Progress

    with watching(table.name) as listen:
        listen(Progress("reading", share=0.0))
        found, points = flm.load(model), read_csv(table)
        inputs = getattr(found, "feature_names_in_", getattr(found, "axes", None))
        names = named(points, inputs, "inputs of the model")
        table_of_points = numbers(points, names)
        X = table_of_points.to_numpy()
        listen(Progress("evaluating", share=0.3))
        if hasattr(found, "predict"):
            mean, std = found.predict(table_of_points, return_std=True)
            columns = {"value": mean, "standard_deviation": std}
        elif callable(found):
            with warnings.catch_warnings(action="ignore", category=OutsideWarning):  # said in the line below
                values = np.asarray(found(X))
            outputs = getattr(found, "unknowns", ("value",))
            columns = dict(zip(outputs, values.reshape(len(X), -1).T, strict=False))
        else:
            raise InputError(f"`MODEL` must be something that can be evaluated; got a {type(found).__name__}.")
        domain = getattr(found, "domain", None)
        outside = 0 if domain is None else int(np.sum(~domain.contains(X)))
        headers, rows = [*names, *columns], np.column_stack([X, *columns.values()])
        if out is not None:
            listen(Progress("writing", share=0.6))
            write_csv(out, [headers, *rows])
    if outside:
        remark(f"{outside:,} of {len(X):,} rows are outside of the domain of the solution: their values are NaN.")
    if json:
        say_json({name: np.asarray(values) for name, values in columns.items()})
    elif out is None:
        print(",".join(headers))
        for row in rows:
            print(",".join(f"{v:.10g}" for v in row))
    else:
        say(f"{len(rows):,} rows written to {out}")
