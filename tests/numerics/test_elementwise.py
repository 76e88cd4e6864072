"""Traced functions run by NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flm.numerics.elementwise import as_numpy, at_rows, in_chunks


@pytest.mark.slow
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


def lagrangian(z, p):
    rates = jnp.stack([z[1], (1 - z[0] ** 2) * z[1] - z[0] + z[2], jnp.maximum(z[0], 0.2) * jnp.sin(z[3])])
    return jnp.append(rates, jnp.sum(z[::-1] ** 2)) @ jnp.append(p, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        lambda z, p: (lagrangian(z, p), jax.grad(lagrangian)(z, p), jax.hessian(lagrangian)(z, p)),
        lambda z, p: jax.jacfwd(lambda q: jnp.outer(q, z).reshape(2, 6).T @ jnp.array([1.0, 2.0]))(p),
        lambda z, p: (jnp.prod(z), jnp.max(p), jnp.zeros((0,)), jnp.where(z[0] > 1, jnp.concatenate([p, z]), 3.0)),
        lambda z, p: jnp.interp(z, jnp.arange(3.0), jnp.array([1.0, 0.0, 4.0])),  # a lookup: compiled
    ],
    ids=["second derivatives", "products of matrices", "folds", "lookups"],
)
def test_functions_of_vectors_at_many_points(function):
    z, p = np.random.default_rng(1).uniform(0.5, 2.0, (3000, 4)), np.array([[0.3, -1.0, 2.0]])
    found = at_rows(function, (4,), (3,), common=0)(z, np.repeat(p, 3000, axis=0))
    wanted = jax.tree.leaves(jax.jit(jax.vmap(function, (0, None)))(z, p[0]))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_what_is_zero_in_all_points_is_no_step():
    diagonal = as_numpy(lambda z: jax.hessian(lambda z: jnp.sum(z**3))(z), (6,))
    assert diagonal is not None
    assert len(diagonal.steps) <= 2 * 6 + 3  # 6 z on the diagonal, zeros elsewhere


@pytest.mark.parametrize("count", [0, 1, 32, 33, 2048, 2049, 5000])
def test_all_rows_in_few_shapes(count):
    shapes = set()

    def rows(a, b):
        shapes.add((a.shape, b.shape))
        assert np.all(a == a[:, :1]), "a row is filled up with another row, never with parts of two"
        return a * b[:, None], (a.sum(axis=1) - b)

    a, b = np.repeat(np.arange(1.0, count + 1)[:, None], 3, axis=1), np.arange(count) / 7
    product, difference = in_chunks(rows, a, b)
    np.testing.assert_array_equal(product, a * b[:, None])
    np.testing.assert_array_equal(difference, a.sum(axis=1) - b)
    assert shapes == ({((32, 3), (32,))} if count <= 32 else {((2048, 3), (2048,))})
