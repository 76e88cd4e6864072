"""Independent answers of optimal control, to compare with.

`pontryagin` solves the two-point problem of the minimum principle, in which the Hamiltonian is minimized over the controls
at every point; `collocation` is a sparse nonlinear program for IPOPT, with the problem's functions read from their JAX
traces (`casadi_functions`); `riccati` is exact for linear dynamics with quadratic costs.
"""
