"""Independent answers to compare with: conservation laws by finite volumes and exactly, optimal control by
Pontryagin's principle and by Riccati's equation."""

from flm.conservation.references import EntropySolution as EntropySolution
from flm.conservation.references import FiniteVolumes as FiniteVolumes
from flm.conservation.references import godunov as godunov
from flm.control.references import PontryaginSolution as PontryaginSolution
from flm.control.references import RiccatiSolution as RiccatiSolution
from flm.control.references import pontryagin as pontryagin
from flm.control.references import riccati as riccati
