"""Traced functions run by NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flm.numerics.elementwise import as_numpy


@pytest.mark.parametrize(
    "function",
    [
        lambda u, v: u * v + 3.0 * u**3 - v / u + u**-2,
        lambda u, v: jnp.where(u > v, jnp.tanh(u), jnp.exp(-v)) + jnp.maximum(u, v),
        lambda u, v: jax.nn.sigmoid(u) * jnp.hypot(u, v) + jnp.sqrt(u) ** 1.5 + jnp.arctan2(u, v),
        lambda u, v: jnp.real((u + 1j * v) * abs(u + 1j * v) ** 2),
        lambda u, v: jnp.imag(jnp.sqrt(jnp.complex128(u - 3.0)) + 1j * v),
        lambda u, v: jnp.asarray(1.234567891234) * u - jnp.asarray(1.234567895678) * v,
        lambda u, v: jnp.where((u > 1) & ~(v > 1) | (u == v), jnp.clip(u, 0.7, 1.5), jnp.mod(v, 0.4)) + jax.lax.erfc(u),
        lambda u, v: 2.0,
    ],
)
def test_programs_agree_with_jax(function):
    u, v = np.random.default_rng(0).uniform(0.5, 2.0, (2, 3, 4))
    program = as_numpy(function, (), ())
    assert program is not None
    np.testing.assert_allclose(
        np.broadcast_to(program(u, v)[0], u.shape), jnp.broadcast_to(function(u, v), u.shape), rtol=1e-13
    )


def test_what_is_not_elementwise_has_no_program():
    assert as_numpy(lambda u: jnp.interp(u, jnp.arange(3.0), jnp.arange(3.0)), ()) is None
    assert as_numpy(lambda u: jnp.sum(jnp.arange(1e3)) * u, ()) is None
    assert as_numpy(lambda u: np.sin(u), ()) is None
    assert as_numpy(lambda u: (10 * u).astype(int) // 3 + u, ()) is None  # whole numbers are divided in another way


def test_what_several_functions_share_is_computed_once():
    wave = lambda u, v: jnp.exp(u) * (u + 1j * v)
    program = as_numpy(lambda u, v: [jnp.real(wave(u, v)), jnp.imag(wave(u, v))], (), ())
    alone = as_numpy(lambda u, v: jnp.real(wave(u, v)), (), ())
    assert len(program.steps) == len(alone.steps) + 1
