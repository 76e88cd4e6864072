"""Scalar fluxes on NumPy arrays: their values, derivatives and turning points."""

from collections.abc import Callable

import jax
import numpy as np
from jax.core import Tracer
from scipy.optimize import minimize_scalar, root_scalar

from flm.numerics.chunks import in_chunks
from flm.numerics.elementwise import Program, as_numpy
from flm.series.arrays import Numbers
from flm.wording import InputError

Elementwise = Callable[[Numbers], float | Numbers]  # NumPy or jax.numpy, written for one number
OnArrays = Callable[[np.ndarray], np.ndarray]

_SIZES = (256, 4096, 65536)  # numbers per call


def on_arrays(function: Elementwise) -> OnArrays:
    """A user's elementwise function of one variable, in NumPy or jax.numpy, as a function of float64 arrays.

    Traced arrays are passed on unchanged.
    """
    programs: list[Program | None] = []  # made at the first call
    padded = lambda u: [np.broadcast_to(np.asarray(function(u), float), u.shape)]

    def values(u: np.ndarray) -> np.ndarray:
        if isinstance(u, Tracer):
            return function(u)  # type: ignore[return-value]
        if not programs:
            programs.append(as_numpy(function, ()))
        u, program = np.asarray(u, float), programs[0]
        # without a program, on few shapes: each new one may compile
        found = in_chunks(padded, u.ravel(), sizes=_SIZES) if program is None else program.rows(u.ravel())
        return found[0].reshape(u.shape)

    return values


def derivative(flux: Elementwise, low: float, high: float) -> OnArrays:
    """f′ to rounding on an interval, by automatic differentiation; refused if divided differences of f disagree with it."""
    slope = on_arrays(jax.jit(lambda u: jax.jvp(lambda v: flux(v) + 0.0 * v, (u,), (jax.numpy.ones_like(u),))[1]))
    u = np.linspace(low, high, 65)[1:-1]
    step = 1e-5 * max(high - low, 1e-300)
    f = on_arrays(flux)
    rough = (f(u + step) - f(u - step)) / (2.0 * step)
    size = np.abs(rough).max() + np.abs(f(u)).max() * 1e-9 / max(high - low, 1e-300)
    try:
        fits = np.abs(slope(u) - rough).max() <= 1e-4 * size
    except Exception:  # whatever the user's function raises on traced numbers
        fits = False
    if not fits:
        raise InputError(
            f"`flux` must be smooth on [{low:.6g}, {high:.6g}], elementwise, and differentiable; got one whose derivative "
            "disagrees with divided differences. Write it with jax.numpy."
        )
    return slope


def breaking_time(wave: OnArrays, low: float, high: float) -> float:
    """When characteristics of speed wave(x) = f′(u0(x)) first meet, −1 / min wave′; infinite when they never do."""
    step, h = (high - low) / 2**14, 1e-4 * (high - low)
    x = low + step * np.arange(2**14)
    slope = (wave(x + 1e-3 * step) - wave(x - 1e-3 * step)) / (2e-3 * step)
    least = x[slope.argmin()]
    fourth_order = lambda x: np.array([1, -8, 8, -1]) @ wave(x + h * np.array([-2, -1, 1, 2])) / (12 * h)
    found = minimize_scalar(
        fourth_order, bounds=(least - step, least + step), method="bounded", options={"xatol": 1e-9 * step}
    )
    steepest = float(found.fun)
    return -1.0 / steepest if steepest < -1e-12 * np.abs(slope).max() - 1e-300 else np.inf


def turning_points(flux: Elementwise, low: float, high: float) -> np.ndarray:
    """The places of the local minima and maxima of f in (low, high): the zeros of f′ at which it changes its sign."""
    speed, u = derivative(flux, low, high), np.linspace(low, high, 4097)
    sign = np.sign(speed(u))
    inside = u[1:-1][(sign[1:-1] == 0) & (sign[:-2] * sign[2:] < 0)]
    between = np.flatnonzero(sign[:-1] * sign[1:] < 0)
    at = lambda v: float(speed(np.array([v]))[0])
    found = [root_scalar(at, bracket=(u[i], u[i + 1])).root for i in between]
    return np.sort(np.concatenate([inside, found]))
