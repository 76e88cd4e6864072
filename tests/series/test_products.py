"""Series of products: against brute force, quadrature and the other forms."""

import numpy as np
import pytest

import flm
from flm.series import to_products
from flm.wording import InputError


def random_series(R=3, m=3, F=2, seed=0, is_complex=True, axes=None):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(2, R, m, F)) for _ in range(2)]
    C, S = (a + 1j * b if is_complex else a for a, b in parts)
    return flm.ProductSeries(rng.uniform(-2, 2, (R, m, F)), C, S, axes)


def brute(series, points):
    n, C, S = (np.asarray(v) for v in (series.frequencies, series.cosines, series.sines))
    angle = points[:, None, :, None] * n
    return np.real((np.cos(angle) * C + np.sin(angle) * S).sum(-1).prod(-1).sum(-1))


@pytest.mark.parametrize("is_complex", [False, True])
def test_values_sums_shifts_and_scales(is_complex):
    first, second = random_series(is_complex=is_complex), random_series(R=2, F=4, seed=1)
    points = np.random.default_rng(2).uniform(-1, 1, (40, 3))
    offset, factors = np.array([0.3, -0.2, 0.5]), np.array([2.0, 0.5, -1.0])
    assert np.allclose(first(points), brute(first, points), rtol=1e-12)
    assert np.allclose((2 * first - second + 0.7)(points), 2 * brute(first, points) - brute(second, points) + 0.7)
    assert np.allclose(first.shift(offset)(points), brute(first, points - offset))
    assert np.allclose(first.rescale(factors)(points), brute(first, points * factors))


def test_derivatives_are_those_of_the_values():
    series, h = random_series(axes=("x", "y", "z")), 1e-5
    points = np.random.default_rng(2).uniform(-1, 1, (20, 3))
    step = np.array([0.0, h, 0.0])
    assert np.allclose(series.d("y")(points), (series(points + step) - series(points - step)) / (2 * h), atol=1e-6)
    assert np.allclose(series.d("xy")(points), series.exponential().d("xy")(points).real, atol=1e-10)


@pytest.mark.parametrize("is_complex", [False, True])
def test_integrals_norms_and_inner_products_agree_with_gauss_points(is_complex):
    first, second = random_series(is_complex=is_complex), random_series(R=2, F=1, seed=5)
    box = [(-1.0, 0.5), (0.0, 2.0), (0.3, 1.0)]
    z, w = np.polynomial.legendre.leggauss(24)
    lines = [(a + b) / 2 + (b - a) / 2 * z for a, b in box]
    points = np.stack([g.ravel() for g in np.meshgrid(*lines, indexing="ij")], axis=1)
    weights = np.prod([(b - a) / 2 for a, b in box]) * np.einsum("i,j,k->ijk", w, w, w).ravel()
    f, g = brute(first, points), brute(second, points)
    assert np.isclose(first.integrate(box), weights @ f, rtol=1e-10)
    assert np.isclose(first.inner(second, box), weights @ (f * g), rtol=1e-10)
    assert np.isclose(first.norm(box), np.sqrt(weights @ f**2), rtol=1e-10)


def test_conversions_to_and_from_the_other_forms_are_the_same_function():
    series = random_series(axes=("x", "y", "z"))
    points = np.random.default_rng(3).uniform(-2, 2, (30, 3))
    for other in (series.phase(), series.separable(), series.exponential()):
        assert np.allclose(np.real(other(points)), series(points), atol=1e-9)
        assert np.allclose(to_products(other)(points), series(points), atol=1e-9)
    phases = flm.ProductSeries.from_phases([[1.0, 2.0]], [[0.3, -0.4]], [5.0])
    here = np.array([[0.2, 0.9]])
    assert np.isclose(phases(here)[0], 5 * np.cos(0.2 - 0.3) * np.cos(1.8 + 0.4))


@pytest.mark.slow
def test_a_hundred_inputs_keep_their_digits():
    rng = np.random.default_rng(0)
    n, psi = rng.uniform(0.5, 3, (2, 100)), rng.uniform(-1, 1, (2, 100))
    series = flm.ProductSeries.from_phases(n, psi, [2.0, -1.0])
    box = [(-1.0, 1.0)] * 100
    # int cos(n x - a) cos(q x - b) = sin((n - q)) / (n - q) cos(a - b) + sin(n + q) / (n + q) cos(a + b)
    gram = np.empty((2, 2))
    for i, j in np.ndindex(2, 2):
        less, more = n[i] - n[j], n[i] + n[j]
        along = np.sinc(less / np.pi) * np.cos(psi[i] - psi[j]) + np.sinc(more / np.pi) * np.cos(psi[i] + psi[j])
        gram[i, j] = np.prod(along)
    c = np.array([2.0, -1.0])
    assert np.isclose(float(series.norm(box)) ** 2, c @ gram @ c, rtol=1e-11)
    laplacian = sum((series.d((j, j)) for j in range(1, 100)), series.d((0, 0)))
    again = flm.ProductSeries.from_phases(n, psi, -c * (n**2).sum(axis=1))
    assert float((laplacian - again).norm(box)) < 1e-7 * float(again.norm(box))  # a difference of squares
    with pytest.raises(InputError, match="multiplied out"):
        series.phase()
    assert "2 terms of 100 factors" in str(series)


def test_truncation_keeps_the_largest_terms_and_bad_shapes_are_refused():
    series = flm.ProductSeries.from_phases([[1.0], [2.0], [3.0]], np.zeros((3, 1)), [1.0, 5.0, 2.0])
    assert np.asarray(series.truncate(2).frequencies).ravel().tolist() == [2.0, 3.0]
    with pytest.raises(InputError, match="`sines` must have the shape"):
        flm.ProductSeries(np.ones((1, 2, 1)), np.ones((1, 2, 1)), np.ones((1, 2, 2)))
    with pytest.raises(InputError, match="one output"):
        to_products(flm.PhaseSeries([[1.0]], [[[1.0, 2.0]]], [[[0.0, 0.0]]]))


def test_saved_and_loaded(tmp_path):
    series = random_series(axes=("x", "y", "z"))
    flm.save(series, tmp_path / "products.safetensors")
    again = flm.load(tmp_path / "products.safetensors")
    points = np.random.default_rng(3).uniform(-2, 2, (5, 3))
    assert again.axes == series.axes
    assert np.allclose(again(points), series(points), rtol=1e-13)
