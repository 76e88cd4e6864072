"""The sentences that users read: what can go wrong, checks of arguments, near misses of names, values in a message.

Every error that FLM raises by itself is an `FLMError`, and also the built-in error that Python programs expect there:

    FLMError
    ├── InputError (ValueError)              a value, a shape or a name that breaks a rule
    │   ├── ProblemError                     a problem as text, with file, table, key and column
    │   ├── ExpressionError                  an expression in it
    │   └── SpecError                        the specification of a study
    ├── InputTypeError (TypeError)           an argument of another kind than the one asked for
    ├── UnknownNameError (KeyError)          an axis or an unknown that is not there
    ├── NoSeriesError (AttributeError)       a part of an answer that this answer does not have
    ├── FileError (OSError)                  a file that cannot be read or written
    │   ├── FileMissingError (FileNotFoundError)
    │   └── StoreError                       the store of a study
    ├── ExtraMissingError (ImportError)      an optional package, with the command that installs it
    └── UnsolvedError (RuntimeError)         a reference that found no answer

A solve that does not reach its tolerance raises nothing: `solution.status` says how it ended.
"""

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real


class FLMError(Exception):
    """Whatever FLM refuses or cannot do; every other error of the package is one of its kinds.

    Example:
        >>> import flm
        >>> try:
        ...     flm.Box(x=(1, 0))
        ... except flm.FLMError as error:
        ...     print(type(error).__name__, isinstance(error, ValueError))
        InputError True
    """


class InputError(FLMError, ValueError):
    """A value, a shape or a name that breaks a rule."""


class InputTypeError(FLMError, TypeError):
    """An argument of another kind than the one asked for."""


class UnknownNameError(FLMError, KeyError):
    """An axis or an unknown that is not there."""


class NoSeriesError(FLMError, AttributeError):
    """A part of an answer that this answer does not have."""


class FileError(FLMError, OSError):
    """A file that cannot be read or written."""


class FileMissingError(FileError, FileNotFoundError):
    """A file that is not there."""


class ExtraMissingError(FLMError, ImportError):
    """An optional package that is not installed; the message has the command that installs it."""


class UnsolvedError(FLMError, RuntimeError):
    """A reference that found no answer."""


class OutsideWarning(UserWarning):
    """A solution was called outside of its domain, where its values are NaN."""


def check_count(name: str, value: object, least: int = 0) -> int:
    """The argument `name` as an integer, refused unless it is at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InputError(f"`{name}` must be an integer of at least {least}; got {value!r}.")
    return int(value)


def check_positive(name: str, value: object) -> float:
    """The argument `name` as a float, refused unless it is a finite number above zero."""
    if not isinstance(value, Real) or not (math.isfinite(value) and float(value) > 0):
        raise InputError(f"`{name}` must be a positive number; got {value!r}.")
    return float(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ " Did you mean 'x'?" when a known name is close to `name`, else nothing."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1) or [k for k in known if k.lower() == name.lower()]
    return f" Did you mean {close[0]!r}?" if close else ""


def counted(count: int, noun: str) -> str:
    """ "1 seed", "2 seeds"."""
    return f"{count} {noun}" + "s" * (count != 1)


def with_article(noun: str) -> str:
    """ "an MLP", "a Siren": by the sound of the first letter, which a name in capitals is spelled with."""
    spelled = noun[:2].isupper()
    return f"{'an' if noun[:1] in ('AEFHILMNORSX' if spelled else 'AEIOaeio') else 'a'} {noun}"


def short(value: object) -> str:
    """`value` as an error shows it: one line of at most sixty characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "…"


def number_text(value: float) -> str:
    """`value` as one would write it: 0, 1, 0.5, 1e-06; twelve digits."""
    return f"{value:.12g}" if value else "0"


def measured(value: float, unknown: str = "–") -> str:
    """A measured number in three digits; `unknown` for what is not finite."""
    if not math.isfinite(value):
        return unknown
    return f"{value:.3g}" if value == 0 or 1e-2 <= abs(value) < 1e4 else f"{value:.2e}"


def with_error(value: float, error: float) -> str:
    """ "0.1003 ± 0.0004": a value to the digits that its standard error supports, at most ten; without an error, to six."""
    if not (math.isfinite(value) and 0 < error < math.inf):
        text = f"{value:.6g}" if error == 0 or not math.isfinite(value) else f"{value:.3g} ± {error:.2g}"
        return text.replace("inf", "∞")
    place = math.floor(math.log10(error))
    place -= error < 3.5 * 10.0**place  # "0.012", but "0.04": rounding changes no error by more than a seventh
    least = math.floor(math.log10(max(abs(value), error))) - 9
    return f"{_to_place(value, max(place, least))} ± {_to_place(error, place)}"


def _to_place(value: float, place: int) -> str:
    """A number to the digit of 10^place."""
    value = round(value, -place)
    if 1e-4 <= abs(value) < 1e6 or value == 0:
        return f"{value:.{max(-place, 0)}f}" if place > -12 else "0"
    return f"{value:.{max(math.floor(math.log10(abs(value))) - place, 0)}e}"


def duration(seconds: float) -> str:
    """A time as people say it: "40 s", "12 min", "3.4 h", "2.1 days"."""
    if math.isnan(seconds):
        return "unknown"
    for unit, size, least, digits in (("days", 86_400, 172_800, 1), ("h", 3_600, 7_200, 1), ("min", 60, 120, 0)):
        if seconds >= least:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"
