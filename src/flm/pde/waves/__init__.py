"""One dense least-squares problem: for a PDE in any columns, or for the values of N sub-networks.

`fit` finds the coefficients of any columns (a `Basis`) on the points of `sampling` and judges them at held-out ones: for sparse
sets (`pde/sparse`), and for the columns of any linear model (`linear_models`). `distillation` fits N sub-networks, on a lattice
or with learned frequencies, to a known function.
"""
