"""A series is a function: algebra, derivatives, integrals, shifts and truncation against numpy and quadrature."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_cases import numpy_values, parts, phase_series, points

import flm

FORMS = ("phase", "separable", "exponential")
CLOSE = {"rtol": 0, "atol": 1e-12}


def quadrature(function, box, count=40):
    """Tensor Gauss-Legendre: exact to rounding for the smooth waves here."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    axes = [((b + a) / 2 + (b - a) / 2 * nodes, (b - a) / 2 * weights) for a, b in box]
    x = np.stack([g.ravel() for g in np.meshgrid(*(a for a, _ in axes), indexing="ij")], axis=1)
    w = np.prod([g.ravel() for g in np.meshgrid(*(w for _, w in axes), indexing="ij")], axis=0)
    return np.tensordot(w, np.asarray(function(x)), 1)


def form(name, m, outputs=None, seed=0, axes=None):
    return getattr(phase_series(m, 2, outputs, seed, axes=axes), name)()


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("outputs", [None, 2])
def test_algebra(name, m, outputs):
    f, g = form(name, m, outputs), form("phase", m, outputs, seed=1)
    x = points(m)
    F, G = numpy_values(f, x), numpy_values(g, x)
    for got, want in (
        (f + g, F + G),
        (f - g, F - G),
        (-f, -F),
        (2.5 * f, 2.5 * F),
        (f * np.float64(0.3), 0.3 * F),
        (f / 4, F / 4),
        (f + 1, F + 1),
        (1.5 - f, 1.5 - F),
        (f * g, F * G),
        (f * f, F**2),
        (sum([f, g, g]), F + 2 * G),
    ):
        assert type(got) is type(f)
        np.testing.assert_allclose(numpy_values(got, x), want, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("outputs", [None, 2])
def test_derivatives_equal_complex_sums(name, m, outputs):
    """D^alpha sum c exp(ikx) = sum c (ik)^alpha exp(ikx), from coefficients found by brute force."""
    f = form(name, m, outputs)
    x = points(m)
    e = f.exponential()
    k, c = np.asarray(e.frequencies), np.asarray(e.coefficients)
    for axes in [(), *((j,) for j in range(m)), (0, 0), (0, m - 1), (m - 1,) * 3, (0, 0, m - 1, m - 1)]:
        factor = np.prod([1j * k[:, j] for j in axes], axis=0) if axes else np.ones(len(k))
        want = np.tensordot(np.exp(1j * x @ k.T), c * factor.reshape(-1, *(1,) * (c.ndim - 1)), 1)
        assert np.abs(want.imag).max() < 1e-10
        got = f.d(axes)
        assert type(got) is type(f)
        np.testing.assert_allclose(numpy_values(got, x), want.real, rtol=1e-11, atol=1e-10)


def test_derivatives_equal_autodiff():  # the other forms: test_derivatives_equal_complex_sums
    f = form("phase", 2)
    x = points(2)
    scalar = lambda p: f(p[None])[0]
    first, second = jax.jit(jax.vmap(lambda p: (jax.grad(scalar)(p), jax.hessian(scalar)(p))))(x)
    np.testing.assert_allclose(f.d(0)(x), first[:, 0], **CLOSE)
    np.testing.assert_allclose(f.d((0, 1))(x), second[:, 0, 1], **CLOSE)


def test_derivatives_by_name():
    f = flm.PhaseSeries(*parts(2, 3), axes=("x", "t"))
    x = points(2)
    for by_name, by_number in (("x", 0), ("t", (1,)), ("xx", (0, 0)), ("xt", (0, 1)), (("x", "t", "t"), (0, 1, 1))):
        np.testing.assert_array_equal(f.d(by_name)(x), f.d(by_number)(x))
    long = flm.PhaseSeries(*parts(2, 3), axes=("time", "space"))
    np.testing.assert_array_equal(long.d("time")(x), long.d(0)(x))
    np.testing.assert_array_equal(long.d(("space", "time"))(x), long.d((1, 0))(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("outputs", [None, 2])
def test_integrals_inner_products_and_norms(name, m, outputs):
    f, g = form(name, m, outputs), form("separable", m, outputs, seed=1)
    box = [(-0.5, 1.5), (0.3, 2.0), (-2.0, -1.0)][:m]
    F, G = (lambda x: numpy_values(f, x)), (lambda x: numpy_values(g, x))
    count = 40 if m < 3 else 24
    np.testing.assert_allclose(f.integrate(box), quadrature(F, box, count).real, **CLOSE)
    np.testing.assert_allclose(f.inner(g, box), quadrature(lambda x: F(x) * G(x), box, count).real, **CLOSE)
    np.testing.assert_allclose(f.norm(box) ** 2, quadrature(lambda x: abs(F(x)) ** 2, box, count), rtol=1e-11)


def test_complex_series():
    rng = np.random.default_rng(3)
    k = rng.normal(size=(4, 2))
    c, d = rng.normal(size=(2, 4)) + 1j * rng.normal(size=(2, 4))
    f, g = flm.ExponentialSeries(k, c), flm.ExponentialSeries(k[::-1] + 0.5, d)
    assert not f.is_real
    x = points(2)
    F, G = numpy_values(f, x), numpy_values(g, x)
    np.testing.assert_allclose(f(x), F, **CLOSE)
    np.testing.assert_allclose((f * g)(x), F * G, **CLOSE)
    np.testing.assert_allclose((f + (1 + 2j) - 3j * g)(x), F + (1 + 2j) - 3j * G, **CLOSE)
    np.testing.assert_allclose(f.d((0, 1))(x), numpy_values(f.d((0, 1)), x), **CLOSE)
    box = [(-1, 0.5), (0, 2)]
    conjugate = lambda x: numpy_values(f, x) * numpy_values(g, x).conj()
    np.testing.assert_allclose(f.integrate(box), quadrature(lambda x: numpy_values(f, x), box), **CLOSE)
    np.testing.assert_allclose(f.inner(g, box), quadrature(conjugate, box), **CLOSE)
    np.testing.assert_allclose(f.norm(box) ** 2, quadrature(lambda x: abs(numpy_values(f, x)) ** 2, box), rtol=1e-12)
    # A conjugate pair is recognized as real, also when it comes about by addition.
    pair = flm.ExponentialSeries([[1.0], [-1.0]], [1 - 2j, 1 + 2j])
    assert pair.is_real
    assert pair([0.3]).dtype == jnp.float64
    halves = flm.ExponentialSeries([[1.0]], [1 - 2j]) + flm.ExponentialSeries([[-1.0]], [1 + 2j])
    assert halves.is_real
    np.testing.assert_allclose(halves.phase()([0.3]), pair([0.3]), **CLOSE)


@given(st.sampled_from(FORMS), st.integers(1, 3), st.integers(0, 99), st.floats(-3, 3), st.floats(0.1, 4))
def test_shift_and_rescale(name, m, seed, offset, factor):
    f = form(name, m, seed=seed)
    x = points(m)
    offsets, factors = offset * np.arange(1, m + 1), factor * np.arange(1, m + 1)
    close = {"rtol": 0, "atol": 1e-11}
    np.testing.assert_allclose(numpy_values(f.shift(offset), x), numpy_values(f, x - offset), **close)
    np.testing.assert_allclose(numpy_values(f.shift(offsets), x), numpy_values(f, x - offsets), **close)
    np.testing.assert_allclose(numpy_values(f.rescale(factor), x), numpy_values(f, x * factor), **close)
    np.testing.assert_allclose(numpy_values(f.rescale(factors), x), numpy_values(f, x * factors), **close)


@pytest.mark.parametrize("exponent", [-6, 6])
def test_rescaling_costs_no_digits(exponent):
    f = form("phase", 2)
    x = points(2)
    scale = 10.0**exponent
    moved = f.rescale(1 / scale)
    np.testing.assert_allclose(moved(x * scale), f(x), **CLOSE)
    np.testing.assert_allclose(moved.d((0, 1))(x * scale) * scale**2, f.d((0, 1))(x), **CLOSE)
    np.testing.assert_allclose(moved.integrate([(0, scale)] * 2) / scale**2, f.integrate([(0, 1)] * 2), **CLOSE)


@pytest.mark.parametrize("name", FORMS)
def test_truncation_keeps_the_largest(name):
    f = form(name, 2)
    whole = 2**10
    x = points(2)
    np.testing.assert_allclose(numpy_values(f.truncate(whole), x), numpy_values(f, x), **CLOSE)
    assert len(f.truncate(0).frequencies) == 0
    np.testing.assert_array_equal(numpy_values(f.truncate(0), x), np.zeros(len(x)))
    np.testing.assert_allclose(numpy_values(f.truncate(0) + 2, x), np.full(len(x), 2.0), **CLOSE)
    (term,) = f.terms(1)  # equal waves count once, in whatever form they come
    want = term.amplitude * np.cos(x @ term.frequency - term.phase)
    np.testing.assert_allclose(numpy_values(f.truncate(1), x), want, **CLOSE)


def test_terms_and_printing():
    f = flm.PhaseSeries([[np.pi, 2.0], [0, 0]], [[-3.0, 1.0], [-0.5, 0]], [[0.0, 0.5], [0, 0]], axes=("x", "t"))
    first, second, third = f.terms()
    assert (first.amplitude, first.phase) == pytest.approx((3.0, np.pi))
    np.testing.assert_allclose(first.frequency, [np.pi, 2])
    np.testing.assert_allclose(first.period, [2, np.pi])
    assert (second.amplitude, second.phase) == pytest.approx((1.0, 0.5))
    np.testing.assert_allclose(second.frequency, [np.pi, -2])
    assert (third.amplitude, third.phase) == pytest.approx((0.5, np.pi))
    assert np.isinf(third.period).all()
    assert [t.amplitude for t in f.terms(2)] == pytest.approx([3.0, 1.0])
    text = str(f)
    assert "PhaseSeries of (x, t), 2 frequency vectors" in text
    for word in ("amplitude", "phase", "freq x", "period t", "3.14159", "inf"):
        assert word in text
    assert "… and 1 smaller one" in f.describe(2)
    x = points(2)
    total = sum(t.amplitude * np.cos(x @ t.frequency - t.phase) for t in f.terms())
    np.testing.assert_allclose(total, f(x), **CLOSE)
    # Equal waves count once, in whatever form they come.
    twice = f.exponential() + f.exponential()
    assert [t.amplitude for t in twice.terms()] == pytest.approx([6.0, 2.0, 1.0])


def test_calls():
    f = flm.PhaseSeries(*parts(2, 3), axes=("x", "t"))
    grid = f(x=np.linspace(0, 1, 4)[:, None], t=np.linspace(0, 1, 3))
    assert grid.shape == (4, 3)
    np.testing.assert_allclose(grid[1, 2], f([[1 / 3, 1.0]])[0], **CLOSE)
    assert f(np.zeros((2, 5, 2))).shape == (2, 5)
    assert f([0.0, 1.0]).shape == ()
    many = flm.PhaseSeries(*parts(2, 3, 4))
    assert many(np.zeros((5, 2))).shape == (5, 4)
    one = flm.PhaseSeries(*parts(1, 3))
    assert one(0.5).shape == ()
    assert one([0.5, 1.0]).shape == (2,)
    assert one([[0.5], [1.0]]).shape == (2,)
    assert one([1, 2]).dtype == jnp.float64
    np.testing.assert_allclose(jax.jit(lambda x, t: f(x=x, t=t))(0.3, 0.4), f(x=0.3, t=0.4), **CLOSE)
    big = f.shift(1e5)(np.array([[1e5, 1e5 + 1e4]]))  # beyond the polynomial's range sincos falls back
    np.testing.assert_allclose(big, f(np.array([[0.0, 1e4]])), rtol=0, atol=1e-9)


def test_boxes_may_be_named_or_domains():
    f = flm.PhaseSeries(*parts(2, 3), axes=("x", "t"))
    want = f.integrate([(0, 1), (2, 3)])
    np.testing.assert_array_equal(f.integrate({"t": (2, 3), "x": (0, 1)}), want)
    np.testing.assert_array_equal(f.integrate(flm.Box(x=(0, 1), t=(2, 3))), want)
    one = flm.PhaseSeries(*parts(1, 3))
    np.testing.assert_array_equal(one.integrate((0, 1)), one.integrate([(0, 1)]))


def test_norms_are_differentiable():
    n, A, phi = parts(2, 2)
    norm = lambda A: flm.PhaseSeries(n, A, phi).norm([(0, 1), (0, 2)])
    slope = np.asarray(jax.jit(jax.grad(norm))(A))
    step = 1e-6
    for i, j in itertools.product(range(2), range(2)):
        bump = np.zeros_like(A)
        bump[i, j] = step
        assert float(slope[i, j]) == pytest.approx(float(norm(A + bump) - norm(A - bump)) / (2 * step), rel=1e-6)
