"""Problems as text: a TOML file with the domain, the equation and the conditions as they are written on paper.

`read_problem("heat.toml")` gives what the same problem written in Python would be: a `PDE`, a `ConservationLaw` or an
`OptimalControl`. A file is safe to read from a stranger: expressions are compiled, never executed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from flm.conservation.law import ConservationLaw
from flm.conservation.text import read_conservation
from flm.control.problem import OptimalControl
from flm.control.text import read_control
from flm.language.outline import Outline, Place, ProblemError, sentences
from flm.pde.problem import PDE
from flm.pde.text import read_pde
from flm.wording import FileMissingError

MAX_BYTES = 65_536
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
            >>> from os import PathLike
    from pathlib import Path
            >>> text = '[domain]\\nt = [0, 1]\\n[equation]\\node = "u_t = -u"\\n[conditions]\\n"t=0" = "u = 1"\\n'
            >>> _ = Path("decay.toml").write_text(text)
            >>> decay = read_problem("decay.toml")
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ProblemError(f"{path.name}: a problem must have at most {MAX_BYTES} bytes; got {size}.")
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise FileMissingError(f"the problem file {str(path)!r} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise ProblemError(f"{path.name}: a problem must be text in UTF-8; got other bytes.") from None
    return parse_problem(text, name=path.name, folder=path.parent, parameters=parameters)


def parse_problem(
    text: str,
    *,
    name: str = "problem",
    folder: str | PathLike[str] = ".",
    parameters: Mapping[str, float] | None = None,
) -> Problem:
    """The problem in a TOML text; `name` stands in errors, `folder` is where its data files are."""
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
    place = Place(name)
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise place.refuse(f"a problem must have at most {MAX_BYTES} bytes")
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, bad dates, arrays in arrays in arrays …
        raise place.refuse(f"not a TOML file: {str(error)[:200]}") from None
    outline = Outline(place, tree, Path(folder))
    outline.read_parameters(parameters or {})
    kinds = [kind for kind in READERS if kind in tree]
    if len(kinds) != 1:
        got = " and ".join(f"[{k}]" for k in kinds) or f"{', '.join(f'[{k}]' for k in list(tree)[:5]) or 'nothing'}"
        raise place.refuse(f"one of the tables [equation], [conservation] and [control] is wanted; got {got}")
    return READERS[kinds[0]](outline)
