"""Scalar conservation laws u_t + f(u)_x = 0, periodic in x, whose solutions have shocks.

A strong residual is of no use across a shock. So the law (`law`, read from text by `text`) is integrated in x once: the
residual of the potential (`potential`) is finite there, and its least squares with a viscosity that goes to zero finds the
entropy solution. The unknown is a sum of harmonics in x whose amplitudes are functions of time, in a frame that moves with
the shock: `solve` finds its speed and adds harmonics until the error estimate, relative L1, meets the tolerance. `moving`
holds the answer as a series and as a model, and distills it to N sub-networks. `references` has the exact entropy solution
(Lax–Oleinik, convex flux) and Godunov's finite volumes for any flux.
"""
