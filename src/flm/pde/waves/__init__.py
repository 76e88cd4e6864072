"""One series on a lattice of long waves, or of N sub-networks with learned frequencies, by dense least squares.

Data walks so: `solve` takes a problem and a tolerance to `growth`, which enlarges a lattice of frequencies (`lattice_basis`),
has `fit` find its coefficients on the points of `sampling` for two periods, until held-out residuals and the difference of
the two are within the tolerance. `determined` doubts an answer where a condition is missing.

With a number of sub-networks, `fixed_size` compares lattices with learned frequencies (`free_basis`,
`learn_frequencies`); `distillation` does the same for a given function, and `linear_models` for the columns of any linear
model. All columns are an `AbstractBasis` (`basis`): a fit does not ask which.
"""
