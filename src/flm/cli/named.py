"""Problems by the name or the file that a command line gives."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any, NamedTuple

from flm.wording import InputError, did_you_mean


class Asked(NamedTuple):
    """A problem, its name, and the text or call that made it."""

    problem: Any
    name: str
    text: str


def find_problem(what: str, settings: list[str] | None = None) -> Asked:
    """A problem of the catalogue, or one written in a TOML file.

    Args:
        what: A name such as "heat", or the path of a file that ends in .toml.
        settings: "name=value" texts: arguments of the catalogue's function, or parameters of the file.
    """
    numbers = dict(_setting(text) for text in settings or [])
    if what.endswith(".toml") or Path(what).is_file():
        from flm.problems.text import read_problem

        path = Path(what)
        return Asked(read_problem(path, parameters=numbers), path.stem, path.read_text(encoding="utf-8"))
    from flm.problems import catalogue

    makers = catalogue()
    if what not in makers:
        near = did_you_mean(what.replace("-", "_"), makers)
        raise InputError(f"the problem must be a .toml file or one of {', '.join(makers)}; got {what!r}.{near}")
    known = inspect.signature(makers[what]).parameters
    for name in numbers:
        if name not in known:
            takes = f"one of {', '.join(known)}" if known else "left out: there are none"
            raise InputError(f"`--set` for {what} must be {takes}; got {name!r}.{did_you_mean(name, known)}")
    call = ", ".join(f"{k}={v!r}" for k, v in numbers.items())
    document = (inspect.getdoc(makers[what]) or "").splitlines()[:1]
    return Asked(makers[what](**numbers), what, "\n".join([f"flm.problems.{what}({call})", *document]))


def _setting(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not equals or not name.strip().isidentifier() or not math.isfinite(number):
        raise InputError(f"`--set` must be name=number; got {text!r}.")
    return name.strip(), number
