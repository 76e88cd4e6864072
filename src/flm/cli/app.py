"""The commands and what their help says. Nothing numerical is imported before a command runs."""

from __future__ import annotations

import importlib
import importlib.util

import typer

from flm.cli import data, demo, doctor, show, solve, train

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


for _name, _function in {
    "solve": solve.solve,
    "train": train.train,
    "fit": data.fit,
    "impute": data.impute,
    "predict": data.predict,
    "show": show.show,
    "demo": demo.demo,
    "doctor": doctor.doctor,
}.items():
    app.command(_name)(_function)

# The study and paper commands bring their own module: `add_to(app)`.
if importlib.util.find_spec("flm.cli.study") is not None:
    importlib.import_module("flm.cli.study").add_to(app)
