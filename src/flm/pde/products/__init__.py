"""Many variables: Kronecker sums with data that are sums of products, on boxes of any number of axes.

Data flow: `separate` reads functions as sums of products of functions of one variable, `recognize` a problem as one operator
along each axis (`line`: its eigenfunctions) with such data, `solve` writes the answer as an exponential sum, and `sample`
compares two answers at points that are drawn where the answers are large.
"""
