"""The commands and what their help says. Nothing numerical is imported before a command runs."""

from __future__ import annotations

import typer

from flm.cli import data, demo, doctor, paper, show, solve, study, train

app = typer.Typer(
    name="flm",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Fourier Learning Machines: tolerance in, series out.",
    epilog="Every command takes --quiet and --debug. Exit codes: 0 done, 1 not reached, 2 bad input. "
    "Start with: flm demo",
)


def _version(asked: bool) -> None:
    if asked:
        from flm._version import __version__

        print(f"flm {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Print errors and JSON only."),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
) -> None:
    pass


# The lines of `flm --help`, short enough for 80 columns; a command's own help says more.
for _function, _line in (
    (solve.solve, "Solve a PDE, conservation law or control problem."),
    (train.train, "Train a model on a PDE by gradient descent, as the paper does."),
    (data.fit, "Fit a series with error bars to a CSV table."),
    (data.impute, "Fill the holes of a CSV table over time."),
    (data.predict, "Evaluate a saved model at the rows of a CSV table."),
    (show.show, "List the largest terms of a saved file, draw its spectrum."),
    (demo.demo, "Take the tour: the paper's problems beside its numbers."),
    (doctor.doctor, "Report versions, device and precision, run a self-test."),
    (paper.paper, "Make the paper's tables and figures beside ours."),
):
    app.command(_function.__name__, short_help=_line)(_function)

app.add_typer(study.study_app, name="study")
