"""Running a command: options that may stand anywhere, exit codes, errors in one line."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from typing import Any

from flm.cli.output import COMMAND, QUIET
from flm.wording import FLMError

BAD_INPUT = (FLMError, ValueError, OSError)  # ours, and what other libraries say of values and files


def run(arguments: list[str]) -> int:
    """The exit code of one command line."""
    debug = _take(arguments, "--debug")
    QUIET.set(_take(arguments, "--quiet", "-q"))
    COMMAND.set("flm " + shlex.join(word for word in arguments if word != "--json"))  # what a page says to type
    warnings.showwarning = _warn
    try:
        from flm.cli.app import app

        code = app(args=arguments or ["--help"], standalone_mode=False, prog_name="flm")
        sys.stdout.flush()
        if code == 130:  # the parser's word for Ctrl-C
            return _say("interrupted.", 1)
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        return _reader_left()
    except KeyboardInterrupt:
        return _say("interrupted.", 1)
    except SystemExit as leave:
        if isinstance(leave.__context__, BrokenPipeError):  # the parser's own way out
            return _reader_left()
        return leave.code if isinstance(leave.code, int) else 1
    except Exception as error:
        if debug:
            raise
        return _explain(error)


def _reader_left() -> int:
    """Success: `flm … | head` has what it wanted. Nothing more is written, not even at the interpreter's end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _take(arguments: list[str], *spellings: str) -> bool:
    """Remove an option that may stand anywhere; whether it was there."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found = [i for i, argument in enumerate(arguments[:end]) if argument in spellings]
    for i in reversed(found):
        del arguments[i]
    return bool(found)


def _explain(error: Any) -> int:
    if hasattr(error, "format_message"):  # the parser's own errors
        return _usage(error)
    if type(error).__name__ == "Abort":
        return _say("interrupted.", 1)
    if isinstance(error, MemoryError):
        return _say("out of memory; ask for less accuracy or a smaller grid.", 1)
    if isinstance(error, BAD_INPUT):
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        return _say(str(text), 2)
    return _say(f"{type(error).__name__}: {error} Run again with --debug for the traceback.", 1)


def _usage(error: Any) -> int:
    text = error.format_message()
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: its help
        print(text)
        return 2
    command = context.command_path if context is not None else "flm"
    return _say(f"{text if text.endswith(('.', '?')) else text + '.'} Try: {command} --help", 2)


def _warn(message: Warning | str, category: type[Warning], *rest: object, **named: object) -> None:
    """A warning in one line; what libraries deprecate is not for the one who types."""
    if not (QUIET.get() or issubclass(category, DeprecationWarning | PendingDeprecationWarning)):
        _say(f"warning: {message}", 0)


def _say(text: str, code: int) -> int:
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
    print(f"flm: {line}", file=sys.stderr)
    return code
