"""Fourier Learning Machines: functions written as finite nonharmonic Fourier series, fitted to problems and data.

Names are imported on first use (PEP 562), so that `import flm` is instant and the first numerical name pays for jax.
"""

import os
import sys
from typing import TYPE_CHECKING

from flm._lazy import homes, on_first_use
from flm._version import __version__

if TYPE_CHECKING:
    from flm import models, problems, references, series, study, torch
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
        Named,
        OptimalControl,
        Piecewise,
        Range,
        data,
        dirichlet,
        initial,
        neumann,
        on,
        periodic,
        products,
        robin,
    )
    from flm.results import Progress, Solution
    from flm.series import ExponentialSeries, PhaseSeries, ProductSeries, SeparableSeries, lattice, sign_matrix
    from flm.training.run import train
    from flm.wording import FLMError
else:
    __getattr__ = on_first_use("flm")

_FOUND = homes("flm")
_HOMES = dict(sorted((name, module) for name, module in _FOUND.items() if module != "flm"))
_MODULES = tuple(name for name, module in _FOUND.items() if module == "flm")

__all__ = ["__version__", *_HOMES, *(name for name in _MODULES if name != "torch")]  # torch is an extra


# 64-bit floats in JAX unless the user has spoken: JAX_ENABLE_X64 in the environment wins.
if "JAX_ENABLE_X64" not in os.environ:
    os.environ["JAX_ENABLE_X64"] = "1"
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)


def __dir__() -> list[str]:
    return sorted(__all__)
