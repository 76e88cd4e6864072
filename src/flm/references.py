"""Independent answers to compare with: conservation laws by finite volumes and exactly, optimal control by
Pontryagin's principle and by Riccati's equation."""

from flm.conservation.references import EntropySolution, FiniteVolumes, godunov
from flm.control.references import PontryaginSolution, RiccatiSolution, pontryagin, riccati

__all__ = [
    "EntropySolution",
    "FiniteVolumes",
    "PontryaginSolution",
    "RiccatiSolution",
    "godunov",
    "pontryagin",
    "riccati",
]
