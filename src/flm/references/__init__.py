"""Independent answers to compare with: conservation laws by finite volumes and exactly, optimal control three ways."""

from flm.references.collocation import CollocationSolution, collocation
from flm.references.entropy import EntropySolution
from flm.references.godunov import FiniteVolumes, godunov
from flm.references.pontryagin import PontryaginSolution, pontryagin
from flm.references.riccati import RiccatiSolution, riccati

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
