"""Following the dynamics under a control, forward for the states and backward for the costates.

`kernels` compiles the problem's functions and their derivatives for a few numbers of points. `simulation` integrates by
Gauss collocation on the elements of a time grid, for many initial states at once; its adjoint is the exact gradient of
the discrete cost. `following` does so for a given law with tight elements: the cost that a user is told.
"""
