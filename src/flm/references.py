"""Independent answers to compare with: conservation laws by finite volumes and exactly, optimal control three ways."""

from flm.conservation.entropy import EntropySolution
from flm.conservation.godunov import FiniteVolumes, godunov
from flm.control.references.collocation import CollocationSolution, collocation
from flm.control.references.pontryagin import PontryaginSolution, pontryagin
from flm.control.references.riccati import RiccatiSolution, riccati

__all__ = [
    "CollocationSolution",
    "EntropySolution",
    "FiniteVolumes",
    "PontryaginSolution",
    "RiccatiSolution",
    "collocation",
    "godunov",
    "pontryagin",
    "riccati",
]
