"""One dense least-squares problem: of a PDE in any columns, and of N sub-networks in values.

`fit` finds the coefficients of any columns (an `AbstractBasis`, `basis`) on the points of `sampling` and judges them at held-out
ones: for sparse sets (`pde/sparse`), and for the columns of any linear model (`linear_models`). `search` keeps the best answer and
makes a solution of it. `distillation` has N sub-networks, on a lattice or with learned frequencies, for a function that is known.
"""
