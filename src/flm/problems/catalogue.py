"""The catalogue by name: the functions of `flm.problems` that make a problem without further help."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

from flm.conservation.law import ConservationLaw
from flm.control.problem import OptimalControl
from flm.pde.problem import PDE

Maker = Callable[..., PDE | ConservationLaw | OptimalControl]
KINDS = ("pde", "conservation", "control")  # modules of this folder


def catalogue(kinds: tuple[str, ...] = KINDS) -> dict[str, Maker]:
    """Makers of problems by name, sorted: those whose arguments all have defaults, of some kinds or of all."""
    found: dict[str, Maker] = {}
    for kind in kinds:
        module = importlib.import_module(f"flm.problems.{kind}")
        for name, value in inspect.getmembers(module, inspect.isfunction):
            own = value.__module__ == module.__name__ and not name.startswith("_")
            if own and all(p.default is not p.empty for p in inspect.signature(value).parameters.values()):
                found[name] = value
    return dict(sorted(found.items()))
