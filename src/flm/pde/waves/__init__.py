"""N sub-networks with learned frequencies, and whatever else is one dense least-squares problem.

Data walks so: `fit` finds the coefficients of any columns (an `AbstractBasis`, `basis`) on the points of `sampling` and judges
them at held-out ones. With a number of sub-networks, `fixed_size` compares lattices with learned frequencies
(`learn_frequencies`); `distillation` does the same for a given function, and `linear_models` solves with the columns of any linear
model. `search` keeps the best answer and makes a solution of it. Sparse sets (`pde/sparse`) use the same fits.
"""
