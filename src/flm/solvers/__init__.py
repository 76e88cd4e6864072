"""How problems are solved: `solve` to a tolerance, `train` by gradient descent, `distill` to fewer sub-networks.

Importing a kind's module registers it with `solve`.
"""

from flm.solvers.conservation import solve_conservation as solve_conservation
from flm.solvers.control import AugmentedLagrangian as AugmentedLagrangian
from flm.solvers.control import Penalty as Penalty
from flm.solvers.control import Reduced as Reduced
from flm.solvers.control import solve_control as solve_control
from flm.solvers.control_adam import Adam as Adam
from flm.solvers.dispatch import solve as solve
from flm.solvers.distill import distill as distill
