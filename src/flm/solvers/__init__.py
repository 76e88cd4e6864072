"""How problems are solved: `solve` to a tolerance, `train` by gradient descent, `distill` to fewer sub-networks.

Importing a kind's module registers it with `solve`.
"""

from flm.solvers.conservation import solve_conservation as solve_conservation
from flm.solvers.dispatch import solve as solve
from flm.solvers.distill import distill as distill
