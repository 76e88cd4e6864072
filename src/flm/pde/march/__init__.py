"""Marching in closed form: evolution equations as series in space whose coefficients move in time.

Where space is periodic, or a box whose sides fit a sine or cosine series, the series diagonalizes the part L of
u' = Lu + N(u, x, t) that has constant coefficients; this part is marched exactly, and the rest by collocation. Data flow:
recognize (with sides) → space → symbol → collocation → run → solve.
"""
