"""Fourier Learning Machines: functions written as finite nonharmonic Fourier series, fitted to problems and data.

Names are imported on first use (PEP 562), so that `import flm` is instant and the first numerical name pays for jax.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from flm._version import __version__

if TYPE_CHECKING:
    from flm.control.solution import ControlSolution
    from flm.control.solve import Adam, Penalty, Reduced
    from flm.dispatch import solve
    from flm.domains import Ball, Box, Curve, Disk, Ellipse, Polygon, Region
    from flm.estimators import FLMImputer, FLMRegressor
    from flm.files import load, save
    from flm.models import FLM, MLP, Siren
    from flm.pde.waves.distillation import distill
    from flm.problems import (
        PDE,
        ConservationLaw,
        Free,
        Learn,
        OptimalControl,
        Piecewise,
        data,
        dirichlet,
        initial,
        neumann,
        on,
        periodic,
        robin,
    )
    from flm.results import Progress, Solution
    from flm.series import ExponentialSeries, PhaseSeries, SeparableSeries, lattice, sign_matrix
    from flm.training.run import train
    from flm.wording import FLMError

# Where each public name lives. Sorted; every name is documented (tests/test_design.py).
_HOMES = {
    "Adam": "flm.control.solve",
    "Ball": "flm.domains",
    "Box": "flm.domains",
    "ConservationLaw": "flm.problems",
    "ControlSolution": "flm.control.solution",
    "Curve": "flm.domains",
    "Disk": "flm.domains",
    "Ellipse": "flm.domains",
    "ExponentialSeries": "flm.series",
    "FLM": "flm.models",
    "FLMError": "flm.wording",
    "FLMImputer": "flm.estimators",
    "FLMRegressor": "flm.estimators",
    "Free": "flm.problems",
    "Learn": "flm.problems",
    "MLP": "flm.models",
    "OptimalControl": "flm.problems",
    "PDE": "flm.problems",
    "Penalty": "flm.control.solve",
    "PhaseSeries": "flm.series",
    "Piecewise": "flm.problems",
    "Polygon": "flm.domains",
    "Progress": "flm.results",
    "Reduced": "flm.control.solve",
    "Region": "flm.domains",
    "SeparableSeries": "flm.series",
    "Siren": "flm.models",
    "Solution": "flm.results",
    "data": "flm.problems",
    "dirichlet": "flm.problems",
    "distill": "flm.pde.waves.distillation",
    "initial": "flm.problems",
    "lattice": "flm.series",
    "load": "flm.files",
    "neumann": "flm.problems",
    "on": "flm.problems",
    "periodic": "flm.problems",
    "robin": "flm.problems",
    "save": "flm.files",
    "sign_matrix": "flm.series",
    "solve": "flm.dispatch",
    "train": "flm.training.run",
}
_MODULES = ("models", "problems", "references", "series", "study", "torch")

__all__ = ["__version__", *_HOMES, *(name for name in _MODULES if name != "torch")]  # torch is an extra


def _enable_float64() -> None:
    """Turn on 64-bit floats in JAX unless the user has spoken: JAX_ENABLE_X64 in the environment wins."""
    if "JAX_ENABLE_X64" in os.environ:
        return
    os.environ["JAX_ENABLE_X64"] = "1"
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)


_enable_float64()


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"flm.{name}")
    import difflib

    near = difflib.get_close_matches(name, [*_HOMES, *_MODULES], 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module 'flm' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
