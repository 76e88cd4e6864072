"""Series along each kind of axis: round trips, derivatives, norms, sizes."""

import numpy as np
import pytest

from flm.models.pieces import Line
from flm.pde.march.space import Space

KINDS = [
    ("fourier",),
    ("sine",),
    ("cosine",),
    ("fourier", "fourier"),
    ("sine", "cosine"),
    ("cosine", "fourier", "sine"),
]


def space_of(kinds, sizes=(24, 30, 12)):
    bounds = tuple((0.3 * j - 1.0, 1.0 + j) for j in range(len(kinds)))
    return Space(kinds, bounds, sizes[: len(kinds)])


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_values_and_coefficients_are_inverse(kinds):
    space = space_of(kinds)
    zero = (0,) * len(kinds)
    found = space.coefficients(np.random.default_rng(0).normal(size=(2, *space.grid)))
    again = space.coefficients(space.values(found, zero))
    np.testing.assert_allclose(again, found, atol=1e-14)
    assert found.shape[1:] == space.shape
    larger = space.doubled((0,))
    np.testing.assert_allclose(space.padded(larger.padded(found, space), larger), found)
    np.testing.assert_allclose(larger.norms(larger.padded(found, space)), space.norms(found), rtol=1e-13)


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_real_coefficients_are_the_function_and_its_derivatives(kinds):
    space = space_of(kinds)
    found = space.coefficients(np.random.default_rng(1).normal(size=space.grid))
    real = space.real(found)
    for alpha in [(0,) * len(kinds), (1,) * len(kinds), (3, *(2,) * (len(kinds) - 1))]:
        values = real
        for j, (kind, order) in enumerate(zip(kinds, alpha, strict=True)):
            low, high = space.bounds[j]
            line = Line(kind, low, (1 if kind == "fourier" else 2) * (high - low))
            table = line.table(space.lines[j], real.shape[j], order)
            values = np.moveaxis(np.tensordot(table, values, (1, j)), 0, j)
        expected = space.values(found * space.symbol(alpha), alpha)
        np.testing.assert_allclose(values, expected, atol=1e-11 * np.abs(expected).max())


def test_norms_are_root_mean_squares_over_the_box():
    space = Space(("sine", "fourier"), ((0.0, 2.0), (0.0, 1.0)), (24, 24))
    x, y = np.meshgrid(*space.lines, indexing="ij")
    function = np.sin(np.pi * x) * (1 + 2 * np.cos(2 * np.pi * y))
    np.testing.assert_allclose(space.norms(space.coefficients(function)), np.sqrt(0.5 * (1 + 2)), rtol=1e-13)


def test_products_have_no_aliases_among_the_kept_waves():
    space = Space(("fourier",), ((0.0, 1.0),), (24,))
    k = space.cuts[0]
    wave = np.cos(2 * np.pi * k * space.lines[0])
    expected = np.zeros(space.shape)
    expected[0] = 0.5
    np.testing.assert_allclose(space.coefficients(wave**2), expected, atol=1e-15)


@pytest.mark.parametrize(("kind", "every"), [("fourier", 3), ("sine", 4), ("cosine", 5)])
def test_the_last_waves_of_a_symmetric_function_are_seen(kind, every):
    """Of a function with every fourth wave alone the last eighth may hold none: the last one that occurs counts."""
    space = Space((kind,), ((0.0, 1.0),), (48,))
    found = np.zeros(space.shape)
    found[np.mod(space.numbers[0], every) == 0] = 1.0
    assert space.tails(found)[0] > 0
