"""Harmonic series and numpy's FFT are the same thing."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from series_cases import numpy_values, phase_series, points

import flm

BOUNDS = [(-np.pi, np.pi), (0.0, 2.0), (-1.0, 4.0)]


def grid(shape, bounds):
    axes = [lower + (upper - lower) * np.arange(n) / n for n, (lower, upper) in zip(shape, bounds, strict=True)]
    return np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)


def upsampled(samples, factor):
    """Trigonometric interpolation onto a finer grid by zero padding: numpy's own answer."""
    hat = np.fft.fftn(samples)
    for axis, n in enumerate(samples.shape):
        hat = np.fft.fftshift(hat, axes=axis)
        before = (factor * n) // 2 - n // 2
        pad = [(0, 0)] * hat.ndim
        pad[axis] = (before, factor * n - hat.shape[axis] - before)
        hat = np.fft.ifftshift(np.pad(hat, pad), axes=axis)
    return np.fft.ifftn(hat).real * factor**samples.ndim


def interpolant(samples, bounds):
    """The trigonometric interpolant of samples on a grid with an odd number of points per axis, from numpy's FFT."""
    width = [upper - lower for lower, upper in bounds]
    k = [2 * np.pi / w * np.fft.fftfreq(n, 1 / n) for n, w in zip(samples.shape, width, strict=True)]
    k = np.stack([g.ravel() for g in np.meshgrid(*k, indexing="ij")], axis=1)
    series = flm.ExponentialSeries(k, np.fft.fftn(samples).ravel() / samples.size)
    return series.shift([lower for lower, _ in bounds])


@pytest.mark.parametrize("shape", [(9,), (7, 5), (3, 5, 3)])
def test_interpolant_equals_numpys(shape):
    m = len(shape)
    samples = np.random.default_rng(0).normal(size=shape)
    series = interpolant(samples, BOUNDS[:m])
    assert series.is_real
    x = grid(tuple(3 * n for n in shape), BOUNDS[:m])
    want = upsampled(samples, 3).ravel()
    for form in (series, series.phase(), series.separable(), series.phase().exponential()):
        np.testing.assert_allclose(numpy_values(form, x), want, rtol=0, atol=1e-12)
    np.testing.assert_allclose(series(x), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(9,), (3, 5, 3)])
def test_harmonic_flm_equals_numpys_interpolant(shape):
    """Hardwired integer frequencies, amplitudes by least squares on the grid: the FFT's interpolant (paper, Section 3)."""
    m = len(shape)
    samples = np.random.default_rng(1).normal(size=shape)
    half = [n // 2 for n in shape]
    frequencies = np.stack([g.ravel() for g in np.meshgrid(*(np.arange(h + 1) for h in half), indexing="ij")], axis=1)
    box = flm.Box(**dict(zip("xyz"[:m], BOUNDS, strict=False)))
    model = flm.FLM(box, len(frequencies), key=0, frequencies=frequencies, train_frequencies=False)
    x = grid(shape, BOUNDS[:m])
    columns = np.asarray(model.basis(x, ((0,) * m,))[0])
    fitted = model.with_coefficients(np.linalg.lstsq(columns, samples.ravel(), rcond=1e-12)[0])
    fine = grid(tuple(3 * n for n in shape), BOUNDS[:m])
    want = upsampled(samples, 3).ravel()
    np.testing.assert_allclose(fitted(fine), want, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fitted.series(fine), want, rtol=0, atol=1e-12)
    # and the other way round: the FFT's series put into the model
    series = interpolant(samples, [(-np.pi, np.pi)] * m).phase()
    plain = flm.FLM(m, len(series.frequencies), key=0, frequencies=series.frequencies, train_frequencies=False)
    plain = eqx.tree_at(lambda f: (f.amplitudes, f.phases), plain, (series.amplitudes, series.phases))
    assert plain.num_parameters == 2**m * len(series.frequencies)
    np.testing.assert_allclose(
        plain(grid(tuple(3 * n for n in shape), [(-np.pi, np.pi)] * m)), want, rtol=0, atol=1e-12
    )


def test_merging_adds_up_equal_waves():
    f = flm.ExponentialSeries([[1.0, 0.0], [1.0, -0.0], [2.0, 1.0]], [1, 2j, 3])
    merged = f.merged()
    np.testing.assert_array_equal(merged.frequencies, [[1, 0], [2, 1]])
    np.testing.assert_array_equal(merged.coefficients, [1 + 2j, 3])
    zero = f - f
    assert not np.any(zero.merged().coefficients)
    x = points(2)
    np.testing.assert_allclose(numpy_values(zero, x), 0, rtol=0, atol=1e-15)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_zero_components_cost_one_wave(m):
    """Sign rows that a zero component makes equal are one wave: an axis point has two exponentials, not 2^m."""
    n = np.zeros((1, m))
    n[0, -1] = 2.0
    f = flm.PhaseSeries(n, np.ones((1, 2 ** (m - 1))), np.zeros((1, 2 ** (m - 1))))
    assert len(f.exponential().frequencies) == 2
    np.testing.assert_allclose(f.terms()[0].amplitude, 2 ** (m - 1))


def test_a_form_of_many_inputs():
    f = flm.ExponentialSeries(np.eye(20), np.ones(20)) + flm.ExponentialSeries(-np.eye(20), np.ones(20))
    assert f.is_real
    x = points(20, 3)
    np.testing.assert_allclose(f(x), 2 * np.cos(x).sum(axis=1), rtol=0, atol=1e-13)
    np.testing.assert_allclose((f + 1).d((3, 3))(x), -2 * np.cos(x[:, 3]), rtol=0, atol=1e-13)


def test_outputs_pass_through():
    f = phase_series(2, 3, 2)
    e = f.exponential()
    assert e.coefficients.shape[1:] == (2,)
    x = points(2)
    np.testing.assert_allclose(e(x), f(x), rtol=0, atol=1e-13)
    assert jnp.allclose(e.phase()(x), f(x), atol=1e-13)
