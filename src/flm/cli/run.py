"""The commands and their help; options that may stand anywhere, exit codes, and errors in one line.

Nothing numerical is imported before a command runs.
"""

from __future__ import annotations

import inspect
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer

from flm.cli import begin, data, solve, study, sweep
from flm.cli.output import COMMAND, JSON, OPEN, QUIET, WRITTEN, open_page
from flm.wording import FLMError

BAD_INPUT = (FLMError, ValueError, OSError)  # ours, and those that other libraries raise for values and files
ANYWHERE = "Every command takes --json, --quiet, --debug and --open."

app = typer.Typer(
    name="flm",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Fourier Learning Machines: tolerance in, series out.",
    epilog=f"{ANYWHERE} Exit codes: 0 done, 1 not reached, 2 bad input. Start with: flm demo",
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
    json: bool = typer.Option(False, "--json", help="Print JSON."),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
    browser: bool = typer.Option(False, "--open", help="Show the page that was written in a browser."),
) -> None:
    pass


# In the order of `flm --help`, which shows the first line of each docstring; it must fit into 80 columns.
_first = (solve.solve, sweep.sweep, begin.problems, begin.new, solve.train, data.fit, data.impute, data.predict)
for _function in (*_first, begin.show, begin.demo, begin.doctor, begin.studio, study.paper):
    _line = (inspect.getdoc(_function) or "").partition("\n")[0]
    app.command(_function.__name__, short_help=_line, epilog=ANYWHERE)(_function)
app.add_typer(study.study_app, name="study", epilog=ANYWHERE)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    arguments = list(arguments)
    debug = _take(arguments, "--debug")
    QUIET.set(_take(arguments, "--quiet", "-q"))
    JSON.set(_take(arguments, "--json"))
    OPEN.set(_take(arguments, "--open"))
    WRITTEN.set(None)
    COMMAND.set("flm " + shlex.join(arguments))  # the command that a page tells the reader to type
    warnings.showwarning = _warn
    try:
        code = app(args=arguments or ["--help"], standalone_mode=False, prog_name="flm")
        sys.stdout.flush()
        if code == 130:  # the parser's code for Ctrl-C
            raise KeyboardInterrupt
        if OPEN.get():
            open_page()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return _say("interrupted.", 1)
    except (BrokenPipeError, SystemExit) as leave:
        if isinstance(leave, SystemExit) and not isinstance(leave.__context__, BrokenPipeError):  # the parser's way out
            return leave.code if isinstance(leave.code, int) else 1
        # This is success: `flm … | head` has what it needs. Nothing more is written, not even when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        return _explain(error)


def _take(arguments: list[str], *spellings: str) -> bool:
    """Remove an option that may stand anywhere, and return whether it was there."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found = [i for i, argument in enumerate(arguments[:end]) if argument in spellings]
    for i in reversed(found):
        del arguments[i]
    return bool(found)


def _explain(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: its help
        print(error.format_message())
        return 2
    if hasattr(error, "format_message"):  # the parser's own errors
        text, context = error.format_message(), getattr(error, "ctx", None)
        command = context.command_path if context is not None else "flm"
        return _say(f"{text if text.endswith(('.', '?')) else text + '.'} Try: {command} --help", 2)
    if isinstance(error, MemoryError):
        return _say("out of memory; ask for less accuracy or a smaller grid.", 1)
    if isinstance(error, BAD_INPUT):
        return _say(str(error.args[0] if isinstance(error, KeyError) and error.args else error), 2)
    return _say(f"{type(error).__name__}: {error} Run again with --debug for the traceback.", 1)


def _warn(message: Warning | str, category: type[Warning], *rest: object, **named: object) -> None:
    """Print a warning in one line; deprecations in other libraries are not shown."""
    if not (QUIET.get() or issubclass(category, DeprecationWarning | PendingDeprecationWarning)):
        _say(f"warning: {message}", 0)


def _say(text: str, code: int) -> int:
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
    print(f"flm: {line}", file=sys.stderr)
    return code
