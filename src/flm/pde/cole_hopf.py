"""Viscous Burgers from -sin(pi x), by the Cole-Hopf transform and Gauss-Hermite quadrature."""

from typing import Any

import numpy as np

from flm.series.arrays import host


def viscous_burgers(x: Any, t: Any, nu: float, nodes: int = 100) -> Any:
    """The solution of u_t + u u_x = nu u_xx, u(x, 0) = -sin(pi x), elementwise in x and t > 0 (t = 0: the start).

    u = -∫ sin(pi (x - y)) f(x - y) g(y) dy / ∫ f(x - y) g(y) dy with f(y) = exp(-cos(pi y) / (2 pi nu)) and
    g(y) = exp(-y^2 / (4 nu t)): with y = 2 sqrt(nu t) z both integrals are Gauss-Hermite sums.
    """
    z, weights = np.polynomial.hermite.hermgauss(nodes)
    xp, (x, t) = host(x, t)
    x, t = xp.broadcast_arrays(xp.asarray(x, float), xp.asarray(t, float))
    y = x[..., None] - 2 * xp.sqrt(nu * t)[..., None] * z
    exponent = -xp.cos(np.pi * y) / (2 * np.pi * nu)
    f = xp.exp(exponent - exponent.max(axis=-1, keepdims=True)) * weights
    return -(xp.sin(np.pi * y) * f).sum(axis=-1) / f.sum(axis=-1)
