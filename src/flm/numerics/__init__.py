"""Numerical methods that several rooms use, one of each kind; none of them knows about problems.

`least_squares` keeps the triangular factor of rows that may stream by, and solves with a tiny ridge; `newton` is one loop
for damped Newton and Levenberg-Marquardt with the damping by the gain; `variable_projection` eliminates linear unknowns
from a nonlinear fit; `descent` runs optax optimizers for many epochs per compiled call, by machine code that
runs of one process share. `elementwise` runs small traced functions by NumPy, and others, compiled, in few shapes.
"""
