"""One series on a lattice of long waves, or of N sub-networks with learned frequencies, by dense least squares.

Data walks so: `solve` takes a problem and a tolerance to `growth`, which enlarges a lattice of frequencies (`basis`). `fit`
finds its coefficients on the points of `sampling` for two periods, until the held-out residuals and the difference of the two
answers are within the tolerance. `determined` recognizes a problem in which a condition is missing.

With a number of sub-networks, `fixed_size` compares lattices with learned frequencies (`learn_frequencies`);
`distillation` does the same for a given function, and `linear_models` solves with the columns of any linear model. All
columns are an `AbstractBasis`: a fit does not ask which.
"""
