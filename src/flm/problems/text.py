"""Problems as text: a TOML file with the domain, the equation and the conditions as they are written on paper.

`read_problem("heat.toml")` gives what the same problem written in Python would be: a `PDE`, a `ConservationLaw` or an
`OptimalControl`. A file is safe to read from a stranger: expressions are compiled, never executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from flm.conservation.law import ConservationLaw
from flm.conservation.text import read_conservation
from flm.control.problem import OptimalControl
from flm.control.text import read_control
from flm.language.outline import Outline, Place, read_file, sentences
from flm.language.outline import ProblemError as ProblemError
from flm.pde.problem import PDE
from flm.pde.text import read_pde

Problem = PDE | ConservationLaw | OptimalControl
READERS = {"equation": read_pde, "conservation": read_conservation, "control": read_control}


def read_problem(path: str | PathLike[str], *, parameters: Mapping[str, float] | None = None) -> Problem:
    """The problem in a TOML file.

    Args:
        path: The file.
        parameters: Values that replace those of its [parameters].

    Raises:
        ProblemError: With file, table, key and column.

    Example:
        >>> text = '[domain]\\nt = [0, 1]\\n[equation]\\node = "u_t = -u"\\n[conditions]\\n"t=0" = "u = 1"\\n'
        >>> _ = Path("decay.toml").write_text(text)
        >>> read_problem("decay.toml").axes
        ('t',)
    """
    path = Path(path)
    return parse_problem(read_file(path, "problem"), name=path.name, folder=path.parent, parameters=parameters)


def parse_problem(
    text: str,
    *,
    name: str = "problem",
    folder: str | PathLike[str] = ".",
    parameters: Mapping[str, float] | None = None,
) -> Problem:
    """The problem in a TOML text; `name` stands in errors, `folder` is where its data files are.

    Example:
        >>> text = '[domain]\\nt = [0, 1]\\n[equation]\\node = "u_t = -u"\\n[conditions]\\n"t=0" = "u = 1"\\n'
        >>> parse_problem(text).axes
        ('t',)
    """
    build = read_outline(text, name=name, folder=folder, parameters=parameters)
    with sentences(Place(name)):
        return build()


def read_outline(
    text: str,
    *,
    name: str = "problem",
    folder: str | PathLike[str] = ".",
    parameters: Mapping[str, float] | None = None,
) -> Callable[[], Problem]:
    """Read and check a text; what is returned builds the problem. Up to there no compilation, no numerics."""
    outline = Outline.of(text, Place(name), Path(folder))
    outline.read_parameters(parameters or {})
    tree = outline.tree
    kinds = [kind for kind in READERS if kind in tree]
    if len(kinds) != 1:
        got = " and ".join(f"[{k}]" for k in kinds) or f"{', '.join(f'[{k}]' for k in list(tree)[:5]) or 'nothing'}"
        raise outline.place.refuse(f"one of the tables [equation], [conservation] and [control] is wanted; got {got}")
    return READERS[kinds[0]](outline)
