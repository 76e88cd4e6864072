"""Partial and ordinary differential equations: residuals on a domain, found zero by least squares.

A problem (`problem`) is a domain, residuals that hold inside, and conditions (`conditions`) that hold on pieces of its
boundary, on opposite faces, or at measured points. Each becomes a block: a residual bound to names, and where it holds.
`text` and `shapes` read the same from a TOML file; `cole_hopf` is an exact solution to compare with.

The unknown is a sum of columns with coefficients, and so is every derivative of it; each point of each block is a row. A
linear problem is one least-squares solve, a nonlinear one a few (Gauss-Newton); parameters to be learned are further
columns. What is left of the residuals at points that were not used judges the answer. `waves/` has the columns, the solve
and the estimate.
"""
