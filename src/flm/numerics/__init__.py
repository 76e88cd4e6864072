"""One of each: least squares that keep R only, and what solvers of every subject share."""
