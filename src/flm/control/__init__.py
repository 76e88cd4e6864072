"""Optimal control: minimize a cost subject to dynamics, for one initial state or for all states of a set.

A problem (`problem`, read from text by `text`) has dynamics, costs and constraints by argument name. `equations` turns them into
functions of normalized time, independent coordinates and controls; `starts` describes the initial states (a point, ball, box
or disk on the simplex) and their symmetric images. The answer is a law (`law`): each control as
a Fourier series in time and initial state, squashed to its bounds.

Data flow as follows. `solve/` proposes coefficients; `dynamics` follows the states under them, and their costates back, which
gives the cost with exact first and second derivatives; `solve/` improves the law until the excess cost, estimated from
the Hamiltonian along the trajectory, is within the tolerance. `solution` is the law with its simulated costs and, if asked
for, those of a reference; `references` finds such costs in two independent ways.
"""
