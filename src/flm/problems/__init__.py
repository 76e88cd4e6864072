"""What to solve: problems of all kinds, their conditions, a catalogue of named ones, and problems as text.

The names offered here live in other rooms. The catalogue has a function per problem: the paper's, with its values as
defaults (`pde`, `conservation`, `control`), and problems that others posed (`ordinary`, `strangers`): every public function
of these modules that can be called without arguments. `text` passes a TOML file to the reader of the table that it has:
[equation], [conservation] or [control].
"""

import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from flm.conservation.law import ConservationLaw as ConservationLaw
from flm.control.problem import Free as Free
from flm.control.problem import OptimalControl as OptimalControl
from flm.language.arguments import Named as Named
from flm.language.parameters import Learn as Learn
from flm.language.parameters import Piecewise as Piecewise
from flm.language.parameters import Range as Range
from flm.language.products import products as products
from flm.pde.conditions import Condition as Condition
from flm.pde.conditions import Data as Data
from flm.pde.conditions import Periodic as Periodic
from flm.pde.conditions import data as data
from flm.pde.conditions import dirichlet as dirichlet
from flm.pde.conditions import initial as initial
from flm.pde.conditions import neumann as neumann
from flm.pde.conditions import on as on
from flm.pde.conditions import periodic as periodic
from flm.pde.conditions import robin as robin
from flm.pde.problem import PDE as PDE
from flm.problems.text import parse_problem as parse_problem
from flm.problems.text import read_problem as read_problem

if TYPE_CHECKING:  # what `catalogue` finds, for the type checker
    from flm.problems.conservation import *
    from flm.problems.control import *
    from flm.problems.ordinary import *
    from flm.problems.pde import *
    from flm.problems.strangers import *

KINDS = ("pde", "conservation", "control", "ordinary", "strangers")  # modules of this folder, a function per problem


def catalogue(kinds: tuple[str, ...] = KINDS) -> dict[str, Callable[..., PDE | ConservationLaw | OptimalControl]]:
    """Functions that make problems, by name, sorted: those whose arguments all have defaults, of the given kinds.

    Example:
        >>> catalogue()["heat"](alpha=0.2).exact_values([[0.5, 0.0]])
        array([1.])
    """
    found = {}
    for kind in kinds:
        module = importlib.import_module(f"flm.problems.{kind}")
        for name, value in inspect.getmembers(module, inspect.isfunction):
            own = value.__module__ == module.__name__ and not name.startswith("_")
            if own and all(p.default is not p.empty for p in inspect.signature(value).parameters.values()):
                found[name] = value
    return dict(sorted(found.items()))


globals().update(catalogue())
