"""Solving optimal control problems: tolerance in, control law out.

`methods` chooses and runs a method. The reduced one (`reduced`) has only the control as a series: `levels` solves starts one
by one on growing time bases by the derivatives of `variation`, `family` fits one law to many starts, `adam` trains it as the
paper would. The penalty method (`penalty`) is the paper's: states are series too. `search` keeps the best law.
"""

from flm.control.solve.adam import Adam as Adam
from flm.control.solve.methods import solve_control as solve_control
from flm.control.solve.penalty import Penalty as Penalty
from flm.control.solve.reduced import Reduced as Reduced
