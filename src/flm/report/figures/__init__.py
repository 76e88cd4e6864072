"""Figures drawn with matplotlib: `fields` of solutions, `control` laws, `data` with their fits, and sizes of studies.

Each function takes an answer and returns a figure in the look of `style`; the `.plot()` of an answer calls it.
"""
