"""The fused sine and cosine: 2 units in the last place over the stated range, native functions beyond it."""

import importlib
import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flm.series import sincos

source = importlib.import_module("flm.series.waves")
DTYPES = (np.float64, np.float32)
TURNS = {np.float64: 2**17, np.float32: 2**10}


def bound(dtype):
    return source.RANGE[np.dtype(dtype).itemsize]


def ulps(dtype, values, exact):
    """Distance in units in the last place of the exact value."""
    unit = np.spacing(np.abs(exact).astype(dtype))
    return np.abs(np.asarray(values).astype(np.longdouble) - exact) / unit


def check(dtype, x):
    x = np.asarray(x, dtype)
    exact = x.astype(np.longdouble)
    sine, cosine = jax.jit(sincos)(x)
    assert sine.dtype == cosine.dtype == dtype
    assert ulps(dtype, sine, np.sin(exact)).max() <= 2
    assert ulps(dtype, cosine, np.cos(exact)).max() <= 2


@pytest.mark.slow
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs an extended-precision reference")
@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_range(dtype):
    rng = np.random.default_rng(0)
    R = bound(dtype)
    signs = rng.choice([-1.0, 1.0], 100_000)
    small = signs * np.exp(rng.uniform(np.log(1e-30), np.log(R), 100_000))
    check(dtype, np.concatenate([rng.uniform(-R, R, 200_000), small, [0.0, R, -R]]).clip(-R, R))


@pytest.mark.slow
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs an extended-precision reference")
@pytest.mark.parametrize("dtype", DTYPES)
def test_near_multiples_of_a_quarter_turn(dtype):
    # Every quarter turn of the range is one of these or has a neighbor within two of them.
    k = np.concatenate([np.arange(4096), np.arange(4096, TURNS[dtype], 5), [TURNS[dtype]]])
    k = np.concatenate([-k, k])
    near = [(k * np.pi / 2).astype(dtype)]
    for direction in (-np.inf, np.inf):
        step = near[0]
        for _ in range(3):
            step = np.nextafter(step, dtype(direction))
            near.append(step)
    x = np.concatenate([*near, (k * np.pi / 4).astype(dtype)])
    size = np.abs(x)
    check(dtype, x[(size <= bound(dtype)) & ((size == 0) | (size >= np.finfo(dtype).tiny))])


@pytest.mark.parametrize("dtype", DTYPES)
def test_against_mpmath_where_cancellation_is_worst(dtype):
    # The floats nearest to multiples of pi/2: there the reduced argument has the fewest correct digits.
    k = np.concatenate(
        [np.arange(1, 60), TURNS[dtype] - np.arange(60), np.geomspace(60, TURNS[dtype] - 60, 60).round()]
    )
    x = (k * np.pi / 2).astype(dtype)
    x = x[x <= bound(dtype)]
    sine, cosine = jax.jit(sincos)(x)
    with mpmath.workdps(50):
        for function, values in ((mpmath.sin, sine), (mpmath.cos, cosine)):
            for at, value in zip(x, np.asarray(values), strict=True):
                exact = function(mpmath.mpf(float(at)))
                unit = float(np.spacing(dtype(abs(float(exact)))))
                assert abs(mpmath.mpf(float(value)) - exact) <= 2 * unit


@pytest.mark.parametrize("dtype", DTYPES)
def test_beyond_the_range_native_functions_answer(dtype):
    R = bound(dtype)
    compiled = jax.jit(sincos)
    for x in ([1.0, 2 * R], [1e30, 1e30], [-1e30, 0.5], [np.inf, 1.0], [-np.inf, -np.inf], [np.nan, 2.0]):
        x = np.asarray(x, dtype)
        sine, cosine = compiled(x)
        np.testing.assert_array_max_ulp(np.asarray(sine), np.asarray(jnp.sin(x)), maxulp=2)
        np.testing.assert_array_max_ulp(np.asarray(cosine), np.asarray(jnp.cos(x)), maxulp=2)
    assert np.isnan(sincos(dtype(np.inf))[0])


@pytest.mark.slow
def test_shapes_and_other_types():
    for shape in ((), (0,), (3, 0), (2, 3, 4)):
        sine, cosine = sincos(np.full(shape, 0.5))
        assert sine.shape == cosine.shape == shape
    sine, cosine = sincos(2)
    assert float(sine) == pytest.approx(np.sin(2), abs=1e-7)
    assert complex(sincos(1 + 2j)[1]) == pytest.approx(np.cos(1 + 2j))
    assert sincos(jnp.float16(0.5))[0].dtype == jnp.float16


def test_batching_keeps_the_polynomial():
    x = np.linspace(-9, 9, 24).reshape(2, 3, 4)
    for function in (jax.vmap(sincos), jax.vmap(jax.vmap(sincos)), jax.jit(jax.vmap(sincos, in_axes=2, out_axes=2))):
        for batched, direct in zip(function(x), sincos(x), strict=True):
            np.testing.assert_allclose(batched, direct, rtol=0, atol=4.5e-16)  # two units in the last place
    # JAX's own rule would turn the branch into computing both sides and selecting.
    branches = [str(jax.make_jaxpr(function)(x)).count("cond[") for function in (sincos, jax.vmap(sincos))]
    assert branches[0] == branches[1] > 0


SLOPE = jax.jit(jax.grad(lambda x: 2 * sincos(x)[0] - 3 * sincos(x)[1]))
CURVE = jax.jit(jax.grad(SLOPE))


@given(st.floats(-1e4, 1e4))
def test_derivatives_reuse_the_pair(x):
    sine, cosine = map(float, sincos(x))
    assert float(SLOPE(x)) == pytest.approx(2 * cosine + 3 * sine, rel=1e-13, abs=1e-13)
    assert float(CURVE(x)) == pytest.approx(-2 * sine + 3 * cosine, rel=1e-13, abs=1e-13)
    value, slope = jax.jvp(sincos, (x,), (2.0,))
    assert tuple(map(float, value)) == (sine, cosine)
    assert tuple(map(float, slope)) == (2 * cosine, -2 * sine)


def test_outside_of_jit_a_shape_compiles_once():
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if "backend_compile" in event else None
    )
    x = np.linspace(0, 1, 17)
    sincos(x)
    first = len(compiled)
    assert first > 0
    sincos(x + 1)
    assert len(compiled) == first


def test_gradient_of_a_batch():
    x = np.linspace(-4, 4, 7)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(lambda x: sincos(x)[0])))(x), np.cos(x), rtol=0, atol=3e-16)
    np.testing.assert_allclose(jax.jit(jax.jacrev(lambda x: sincos(x)[1]))(x), np.diag(-np.sin(x)), rtol=0, atol=3e-16)


@pytest.mark.slow
def test_constants_are_those_of_the_script():
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "sincos_constants.py"))
    for size, degree, bits in ((8, 5, (36, 36, 53)), (4, 2, (13, 13, 13, 24))):
        with mpmath.workdps(35):  # the script's 60 digits are for a reader; these are enough for a float
            sine, cosine = script["polynomials"](degree, degree)
        for name, (coefficients, error), kept in (("sin", sine, source._SIN), ("cos", cosine, source._COS)):
            assert source.numbers(kept[size]) == [float(c) for c in coefficients], name
            assert error < np.finfo(f"f{size}").eps / 4
        assert source.numbers(source._HALF_PI[size]) == script["pieces"](bits)
