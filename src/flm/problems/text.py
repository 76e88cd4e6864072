"""Problems as text: a TOML file with the domain, the equation and the conditions as they are written on paper.

`read_problem("heat.toml")` returns the same object as the problem written in Python: a `PDE`, a `ConservationLaw` or an
`OptimalControl`. A file is safe to read from a stranger: expressions are compiled, never executed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from flm.conservation.law import ConservationLaw
from flm.conservation.text import read_conservation
from flm.control.problem import OptimalControl
from flm.control.text import read_control
from flm.language.outline import TEXT, Outline, Place, read_file, sentences
from flm.language.outline import ProblemError as ProblemError
from flm.pde.problem import PDE
from flm.pde.text import NOTES, read_pde
from flm.wording import InputError, did_you_mean, short

Problem = PDE | ConservationLaw | OptimalControl
Settings = Mapping[str, float]  # numbers by the names of parameters
READERS = {"equation": read_pde, "conservation": read_conservation, "control": read_control}


def read_problem(path: str | PathLike[str], *, parameters: Settings | None = None) -> Problem:
    """The problem in a TOML file.

    Args:
        path: The file.
        parameters: Values that replace those of its [parameters].

    Raises:
        ProblemError: The text is refused; the message has file, table, key and column.

    Example:
        >>> text = '[domain]\\nt = [0, 1]\\n[equation]\\node = "u_t = -u"\\n[conditions]\\n"t=0" = "u = 1"\\n'
        >>> _ = Path("decay.toml").write_text(text)
        >>> read_problem("decay.toml").axes
        ('t',)
    """
    path = Path(path)
    return parse_problem(read_file(path, "problem"), name=path.name, folder=path.parent, parameters=parameters)


def parse_problem(
    text: str, *, name: str = "problem", folder: str | PathLike[str] = ".", parameters: Settings | None = None
) -> Problem:
    """The problem in a TOML text; errors call it `name`, and its data files are in `folder`.

    Example:
        >>> text = '[domain]\\nt = [0, 1]\\n[equation]\\node = "u_t = -u"\\n[conditions]\\n"t=0" = "u = 1"\\n'
        >>> parse_problem(text).axes
        ('t',)
    """
    build = read_outline(text, name=name, folder=folder, parameters=parameters)
    with sentences(Place(name)):
        return build()


def read_outline(
    text: str, *, name: str = "problem", folder: str | PathLike[str] = ".", parameters: Settings | None = None
) -> Callable[[], Problem]:
    """Check a text and return a function that builds the problem; nothing is compiled or computed before that."""
    outline, parameters = Outline.of(text, Place(name), Path(folder)), parameters or {}
    tree = outline.tree
    for axis, unit in outline.table("units").items():
        if not isinstance(unit, str):
            raise outline.at("units", axis).refuse(f'a text in quotes is wanted, such as "m"; got {short(unit)}')
    for key in ("title", "description"):
        outline.take(key, TEXT, "")
    if "problem" in tree:
        return _with_units(outline, _of_catalogue(outline, parameters))
    outline.read_parameters(parameters)
    kinds = [kind for kind in READERS if kind in tree]
    if len(kinds) != 1:
        got = " and ".join(f"[{k}]" for k in kinds) or f"{', '.join(f'[{k}]' for k in list(tree)[:5]) or 'nothing'}"
        hints = (did_you_mean(k, READERS) for k in tree if k not in READERS)
        near = " A file has one problem: leave out the others." if kinds else next(filter(None, hints), "")
        wanted = f"one of the tables [equation], [conservation] and [control] is wanted; got {got}."
        raise outline.place.refuse(wanted + near)
    with sentences(outline.at(kinds[0])):
        return _with_units(outline, READERS[kinds[0]](outline))


def _with_units(outline: Outline, build: Callable[[], Problem]) -> Callable[[], Problem]:
    """The maker of a problem that refuses units of names that the problem does not have."""
    if not outline.table("units"):
        return build

    def made() -> Problem:
        problem = build()
        if isinstance(problem, OptimalControl):
            known = ("t", *problem.states, *(f"{state}_0" for state in problem.states), *problem.controls)
        else:
            known = (*problem.axes, *problem.unknowns, *problem.parameters)
        outline.keys(outline.table("units"), known, outline.at("units"))
        return problem

    return made


def _of_catalogue(outline: Outline, parameters: Settings) -> Callable[[], Problem]:
    """The maker of the catalogue's problem that the text names, with numbers for its arguments in [set]."""
    outline.keys(outline.tree, ("problem", "set", *NOTES), outline.place)
    settings = outline.table("set") | dict(parameters)
    for name, value in settings.items():
        if type(value) not in (int, float):
            raise outline.at("set", name).refuse(f"a number is wanted; got {short(value)}")
    return lambda: named_problem(str(outline.tree["problem"]), settings, "[set]")


def named_problem(name: str, settings: Settings, where: str = "settings") -> Problem:
    """A problem of the catalogue with numbers for some of its arguments; messages say `where` these were given."""
    from flm.problems import catalogue

    makers = catalogue()
    if name not in makers:
        near = did_you_mean(name.replace("-", "_"), makers)
        raise InputError(f"the problem must be a .toml file or one of {', '.join(makers)}; got {name!r}.{near}")
    known = inspect.signature(makers[name]).parameters
    for one in settings:
        if one not in known:
            takes = f"one of {', '.join(known)}" if known else "left out: there are none"
            raise InputError(f"`{where}` for {name} must be {takes}; got {one!r}.{did_you_mean(one, known)}")
    return makers[name](**settings)
