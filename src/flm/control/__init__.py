"""Optimal control: the problem, its dynamics, the control law as a series, the solvers and independent references."""
