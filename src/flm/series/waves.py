"""Sine and cosine together, and partial derivatives of plane waves from one table of them.

x = k pi/2 + r with k = round(2x/pi) and |r| <= pi/4 (Cody and Waite: pi/2 in pieces short enough that k times a piece
is exact), then minimax polynomials for sin r and cos r, then a quarter-turn by k mod 4; fused and vectorized by XLA.

Range: |x| <= 2^17 pi/2 (about 2.0e5) in float64, |x| <= 2^10 pi/2 (about 1.6e3) in float32: within 2 units in the last
place there, subnormal numbers counting as zero. If any element lies outside, or is not finite, the whole array goes to
jnp.sin and jnp.cos instead. Accelerators have fast native functions and use those. All constants come from
scripts/sincos_constants.py.

A derivative is a quarter-turn per order times a product of frequency components:
D^alpha [C cos theta + S sin theta] = k^alpha [C cos(theta + |alpha| pi/2) + S sin(theta + |alpha| pi/2)], theta = k.x,
so a whole jet is the table (cos theta, sin theta) times one small matrix of turned coefficients. Networks map their inputs
first, z = scale * (x - center): angles are k . z, and derivatives by x bring the factors k * scale.
"""

import math
from collections.abc import Callable
from functools import partial, reduce
from types import ModuleType
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flm.series.arrays import Numbers, device, host

# By bytes per element.
_SIN = {
    8: "-0x1.5555555555548p-3 0x1.111111110f7d0p-7 -0x1.a01a019bfdf04p-13 0x1.71de3567d48d2p-19 -0x1.ae5e5a92914c0p-26 "
    "0x1.5d8fd1fc67498p-33",
    4: "-0x1.5555452689ed4p-3 0x1.11073afd1af3cp-7 -0x1.9943e10180ec0p-13",
}
_COS = {
    8: "0x1.555555555554bp-5 -0x1.6c16c16c14f91p-10 0x1.a01a019c844f6p-16 -0x1.27e4f7eac4c76p-22 0x1.1ee9d7b4ecfcap-29 "
    "-0x1.8fa49a0dadbd9p-37",
    4: "0x1.55554a115bea9p-5 -0x1.6c0c33a861efcp-10 0x1.99eb9c5af8866p-16",
}
_HALF_PI = {
    8: "0x1.921fb54440000p+0 0x1.68c234c4c0000p-39 0x1.98a2e03707344p-77",
    4: "0x1.921p+0 0x1.f6ap-13 0x1.11p-26 0x1.68c234p-39",
}
# k + 1.5 * 2^52 has k in its low bits; reading them costs a fraction of a conversion of floats to integers.
_SHIFT = {8: 1.5 * 2.0**52, 4: 1.5 * 2.0**23}
LARGE = 4_000_000  # sines and cosines of an evaluation: NumPy takes about as long for them as the compiler
RANGE = {8: 2**17 * np.pi / 2, 4: 2**10 * np.pi / 2}


def numbers(text: str) -> list[float]:
    """Constants from their hexadecimal digits."""
    return [float.fromhex(word) for word in text.split()]


def _horner(coefficients: str, z: Array) -> Array:
    return reduce(lambda value, c: value * z + c, [jnp.asarray(c, z.dtype) for c in numbers(coefficients)[::-1]])


def _polynomial(x: Array) -> tuple[Array, Array]:
    size = x.dtype.itemsize
    k = jnp.round(x * x.dtype.type(2 / np.pi))
    turn = jax.lax.bitcast_convert_type(k + x.dtype.type(_SHIFT[size]), jnp.int64 if size == 8 else jnp.int32)
    r = x
    for piece in numbers(_HALF_PI[size]):
        r = r - k * x.dtype.type(piece)
    z = r * r
    sine = r + r * z * _horner(_SIN[size], z)
    cosine = 1 - z / 2 + z * z * _horner(_COS[size], z)
    odd = (turn & 1) == 1
    s = jnp.where(odd, cosine, sine)
    c = jnp.where(odd, sine, cosine)
    return jnp.where((turn & 2) == 2, -s, s), jnp.where(((turn + 1) & 2) == 2, -c, c)


def _native(x: Array) -> tuple[Array, Array]:
    return jnp.sin(x), jnp.cos(x)


@jax.jit  # outside of a larger program too, compile once per shape and not per call
def _dispatch(x: Array) -> tuple[Array, Array]:
    within = lambda x: jnp.max(jnp.abs(x), initial=0) <= RANGE[x.dtype.itemsize]
    on_cpu = lambda x: jax.lax.cond(within(x), _polynomial, _native, x)
    return jax.lax.platform_dependent(x, cpu=on_cpu, default=_native)


@jax.custom_batching.custom_vmap
def _sincos(x: Array) -> tuple[Array, Array]:
    return _dispatch(x)


@_sincos.def_vmap
def _batched(axis_size, in_batched, x):
    # Elementwise: a batch is just a larger array. The default rule would turn the branch into computing both sides.
    return _sincos(x), (True, True)


@jax.custom_jvp
def sincos(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """(sin x, cos x), elementwise; the derivative rule reuses the pair: d sin x = cos x dx, d cos x = -sin x dx.

    Example:
        >>> sine, cosine = sincos(jnp.array([0.0, np.pi / 2]))
        >>> sine
        Array([0., 1.], dtype=float64)
        >>> cosine.round(15)
        Array([1., 0.], dtype=float64)
    """
    x = jnp.asarray(x)
    if x.dtype not in (jnp.float32, jnp.float64):
        return _native(x)
    return _sincos(x)


@sincos.defjvp
def _sincos_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    s, c = sincos(x)
    return (s, c), (c * dx, -s * dx)


Orders = tuple[tuple[int, ...], ...]  # multi-indices: how often each input is differentiated
Coefficient = TypeVar("Coefficient", float, np.ndarray, Array, Numbers)


class Waves(NamedTuple):
    """Plane waves: sum_i C_i cos(k_i . x) + S_i sin(k_i . x)."""

    k: Float[Numbers, "M m"]
    C: Float[Numbers, "M *K"]
    S: Float[Numbers, "M *K"]


class Frame(NamedTuple):
    """The map z = scale * (x - center), passed to compiled programs as arguments so that a new domain compiles nothing."""

    center: Float[np.ndarray, "m"]
    scale: Float[np.ndarray, "m"]

    def table(self, k: Numbers, points: Float[Numbers, "P m"]) -> tuple[Numbers, Numbers]:
        """Sines and cosines of k . z, (M, P): neuron-major is XLA's fastest layout."""
        z = (points - self.center.astype(points.dtype)) * self.scale.astype(points.dtype)
        angles = k @ z.T
        return (np.sin(angles), np.cos(angles)) if isinstance(angles, np.ndarray) else sincos(angles)


def quarter_turn(C: Coefficient, S: Coefficient, order: int) -> tuple[Coefficient, Coefficient]:
    """Coefficients of (cos theta, sin theta) in C cos(theta + order pi/2) + S sin(theta + order pi/2)."""
    return ((C, S), (S, -C), (-C, -S), (-S, C))[order % 4]


def _monomial(k: Float[Numbers, "M m"], alpha: tuple[int, ...]) -> Float[Numbers, "M"]:
    """k^alpha = prod_j k_j^alpha_j, one per wave."""
    return math.prod((k[:, j] ** order for j, order in enumerate(alpha)), start=0 * k[:, 0] + 1)


def wave_jets(waves: Waves, frame: Frame, points: Float[Numbers, "P m"], orders: Orders) -> Float[Array, "A P *K"]:
    """D^alpha with respect to x of waves of the mapped inputs z, one order after another."""
    return _by_size(_jets, waves, frame, points, orders)


def wave_columns(
    k: Float[Numbers, "M m"], frame: Frame, points: Float[Numbers, "P m"], orders: Orders
) -> Float[Array, "A P 2M"]:
    """D^alpha with respect to x of all cos(k_i . z), then of all sin(k_i . z)."""
    return _by_size(_columns, Waves(k, np.zeros(0), np.zeros(0)), frame, points, orders)


def _by_size(
    function: Callable[..., Numbers], waves: Waves, frame: Frame, points: Float[Numbers, "P m"], orders: Orders
) -> Array:
    """A function of waves by NumPy, unless they are traced or so many that compiling it takes less time."""
    xp, given = host(*waves, points)
    if xp is jnp or len(given[0]) * len(given[3]) > LARGE:
        return _compiled(function, waves, frame, points, orders)
    return device(function(np, Waves(*given[:3]), frame, given[3], orders))


@partial(jax.jit, static_argnames=("function", "orders"))  # outside of a larger program, compile once per shape
def _compiled(function: Callable[..., Array], waves: Waves, frame: Frame, points: Array, orders: Orders) -> Array:
    return function(jnp, Waves(*map(jnp.asarray, waves)), frame, points, orders)


def _jets(xp: ModuleType, waves: Waves, frame: Frame, points: Numbers, orders: Orders) -> Numbers:
    k, C, S = waves
    pairs = []
    for alpha in orders:
        factor = _monomial(k * frame.scale, alpha).reshape(-1, *(1,) * (C.ndim - 1))
        pairs.append([part * factor for part in quarter_turn(C, S, sum(alpha))])
    sine, cosine = frame.table(k, points)
    of_cosine, of_sine = (xp.stack(part) for part in zip(*pairs, strict=True))
    summed = partial(xp.einsum, "am...,mp->ap...", optimize=True)
    return summed(of_cosine, cosine) + summed(of_sine, sine)


def _columns(xp: ModuleType, waves: Waves, frame: Frame, points: Numbers, orders: Orders) -> Numbers:
    k, blocks = waves.k, []
    sine, cosine = frame.table(k, points)
    for alpha in orders:
        factor = _monomial(k * frame.scale, alpha)[:, None]
        # of C cos + S sin, the column of C is its derivative at C = 1, S = 0, and likewise for S
        (cc, cs), (sc, ss) = quarter_turn(1.0, 0.0, sum(alpha)), quarter_turn(0.0, 1.0, sum(alpha))
        blocks.append(xp.concatenate([factor * (cc * cosine + cs * sine), factor * (sc * cosine + ss * sine)]))
    return xp.swapaxes(xp.stack(blocks), 1, 2)
