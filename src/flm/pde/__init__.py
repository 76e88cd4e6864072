"""Partial and ordinary differential equations: the problem, its conditions and its text, then the solvers."""
