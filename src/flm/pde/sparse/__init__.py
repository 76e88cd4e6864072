"""Sparse sets: one sum of products of Legendre functions over a set of degrees that grows where the answer asks for it.

For four to eight variables, and where pieces do not serve: undamped waves on regions, readings in place of conditions. `basis`
has the functions, the sets and the axes of even functions, `solve` grows the sets and looks for missing conditions; coefficients
are found by least squares at points (`waves/fit`), linear or nonlinear, as for any other basis.
"""
