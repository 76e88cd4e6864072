"""Partial and ordinary differential equations: residuals on a domain, made zero by least squares.

A problem (`problem`) is a domain, residuals that hold inside, and conditions (`conditions`) that hold on pieces of its
boundary, on opposite faces, or at measured points. Each becomes a block: a residual bound to names, and where it holds.
`blocks` decides which pieces a condition on "boundary" gets and what flows where a coefficient jumps, `complex_unknowns` makes two
real unknowns of a complex one, `text` reads a problem from a TOML file, `cole_hopf` is an exact solution to compare with.

The unknown is a sum of columns with coefficients, and so is every derivative of it; each point of each block is a row. A
linear problem is one least-squares solve, a nonlinear one a few (Newton's method). `solve` chooses: `pieces/` cuts a box or a
region into as many small boxes as the solution needs and finds parameters from readings, `march/` moves the coefficients of a
series in space through time, `waves/` has one series on one lattice, for a given number of sub-networks and for the rest.
"""
