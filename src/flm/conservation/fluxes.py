"""Scalar fluxes on NumPy arrays: their values, derivatives and turning points."""

from collections.abc import Callable

import numpy as np

from flm.numerics.chunks import in_chunks
from flm.series.arrays import Numbers
from flm.wording import InputError

Elementwise = Callable[[Numbers], float | Numbers]  # NumPy or jax.numpy, written for one number
OnArrays = Callable[[np.ndarray], np.ndarray]

_SIZES = (256, 4096, 65536)  # numbers per call
_STEP = 1e-30  # complex step: no subtraction, hence no rounding


def on_arrays(function: Elementwise) -> OnArrays:
    """An elementwise function of one variable, NumPy or jax.numpy, as one from float64 arrays to float64 arrays.

    Complex arrays stay complex, so that the complex step works through it.
    """
    call = _few_shapes(function)

    def values(u: np.ndarray) -> np.ndarray:
        if np.iscomplexobj(u):
            return call(np.asarray(u))
        return np.asarray(call(np.asarray(u, float)), float)

    return values


def _few_shapes(function: Elementwise) -> OnArrays:
    """An elementwise function that meets few shapes when it runs on jax, where each new one compiles."""
    on_numpy: list[bool] = []

    def some(u: np.ndarray) -> list[np.ndarray]:
        found = function(u)
        if isinstance(found, np.ndarray | float | int):
            on_numpy.append(True)
        return [np.broadcast_to(np.asarray(found), u.shape)]

    def call(u: np.ndarray) -> np.ndarray:
        if on_numpy:
            return np.broadcast_to(function(u), u.shape)
        return in_chunks(some, u.ravel(), sizes=_SIZES)[0].reshape(u.shape)

    return call


def derivative(flux: Elementwise, low: float, high: float) -> OnArrays:
    """f′ to rounding: the complex step Im f(u + ih)/h where f is analytic, automatic differentiation otherwise.

    Args:
        flux: f, elementwise, NumPy or jax.numpy.
        low: Lower end of the values of interest.
        high: Upper end.

    Raises:
        ValueError: Neither way agrees with divided differences, as for a flux that is not smooth.
    """
    u = np.linspace(low, high, 65)[1:-1]
    step = 1e-5 * max(high - low, 1e-300)
    rough = (on_arrays(flux)(u + step) - on_arrays(flux)(u - step)) / (2.0 * step)
    size = np.abs(rough).max() + np.abs(on_arrays(flux)(u)).max() * 1e-9 / max(high - low, 1e-300)
    for candidate in (_complex_step(flux), _automatic(flux)):
        try:
            fits = np.abs(candidate(u) - rough).max() <= 1e-4 * size
        except Exception:  # whatever the user's function raises on complex or traced numbers
            continue
        if fits:
            return candidate
    raise InputError(
        f"`flux` must be smooth on [{low:.6g}, {high:.6g}], elementwise, and differentiable; got one whose derivative "
        "disagrees with divided differences. Write it with jax.numpy."
    )


def _complex_step(flux: Elementwise) -> OnArrays:
    call = _few_shapes(flux)

    def slope(u: np.ndarray) -> np.ndarray:
        return np.imag(call(np.asarray(u, float) + 1j * _STEP)) / _STEP

    return slope


def _automatic(flux: Elementwise) -> OnArrays:
    def tangent(u: Numbers) -> Numbers:
        import jax  # imported here: only fluxes without a complex step need it

        return jax.jvp(lambda v: flux(v) + 0.0 * v, (u,), (np.ones_like(u),))[1]

    return on_arrays(tangent)


def breaking_time(wave: OnArrays, low: float, high: float) -> float:
    """When characteristics of speed wave(x) = f′(u0(x)) first meet, −1 / min wave′; infinite when they never do."""
    step, h = (high - low) / 2**14, 1e-4 * (high - low)
    x = low + step * np.arange(2**14)
    slope = (wave(x + 1e-3 * step) - wave(x - 1e-3 * step)) / (2e-3 * step)
    left, right = x[slope.argmin()] - step, x[slope.argmin()] + step
    for _ in range(80):  # ternary search with a fourth-order difference
        y = np.array([left + (right - left) / 3.0, right - (right - left) / 3.0])
        da, db = (8 * (wave(y + h) - wave(y - h)) - wave(y + 2 * h) + wave(y - 2 * h)) / (12 * h)
        left, right = (left, y[1]) if da <= db else (y[0], right)
    steepest = min(float(da), float(db))
    return -1.0 / steepest if steepest < -1e-12 * np.abs(slope).max() - 1e-300 else np.inf


def turning_points(flux: OnArrays, low: float, high: float) -> np.ndarray:
    """Where f has its local minima and maxima in (low, high), to √rounding, so that f there is exact to rounding."""
    u = np.linspace(low, high, 4097)
    f = flux(u)
    inner = np.arange(1, len(u) - 1)
    rise, fall = f[inner] - f[inner - 1], f[inner + 1] - f[inner]
    found = []
    for i in inner[(rise * fall < 0.0) | ((rise == 0.0) & (fall != 0.0))]:
        sign = 1.0 if f[i] <= min(f[i - 1], f[i + 1]) else -1.0
        a, b = u[i - 1], u[i + 1]
        for _ in range(60):  # ternary search
            left, right = a + (b - a) / 3.0, b - (b - a) / 3.0
            fl, fr = sign * flux(np.array([left, right]))
            a, b = (a, right) if fl <= fr else (left, b)
        found.append(0.5 * (a + b))
    return np.array(found)
