"""Independent answers to compare with: finite volumes and exact entropy solutions of conservation laws."""

from flm.references.entropy import EntropySolution
from flm.references.godunov import FiniteVolumes, godunov

__all__ = ["EntropySolution", "FiniteVolumes", "godunov"]
