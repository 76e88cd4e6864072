"""The forms are the same function, to rounding, in every direction."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from series_cases import cases, numpy_values, parts, phase_series, phase_sum, points, separable_sum, signs

import flm
from flm.series.forms import linear_from_separable, separable_from_linear

TIGHT = {"rtol": 0, "atol": 1e-13}


def scale(series):
    """Sum of the absolute amplitudes: the size that rounding errors are relative to."""
    return max(1.0, float(np.abs(series.phase().amplitudes).sum()))


@pytest.mark.slow
@given(cases)
def test_round_trips(case):
    series = phase_series(*case)
    x = points(case[0])
    values = numpy_values(series, x)
    size = scale(series)
    separable, exponential = series.separable(), series.exponential()
    assert exponential.is_real
    forms = {
        "phase": series,
        "separable": separable,
        "exponential": exponential,
        "phase -> separable -> phase": separable.phase(),
        "phase -> exponential -> phase": exponential.phase(),
        "exponential -> separable": exponential.separable(),
        "separable -> exponential": separable.exponential(),
        "normalized": series.normalized(),
    }
    for name, form in forms.items():
        np.testing.assert_allclose(numpy_values(form, x) / size, values / size, **TIGHT, err_msg=name)
    np.testing.assert_allclose(series(x) / size, values / size, **TIGHT)
    # Coefficients, too, where the form is unique: (C, S) given the frequencies, and c given merged waves.
    for got, want in zip(separable.phase().linear(), series.linear(), strict=True):
        np.testing.assert_allclose(got, want, **TIGHT)
    np.testing.assert_allclose(separable.phase().separable().coefficients, separable.coefficients, **TIGHT)
    again = exponential.phase().exponential()
    rows = np.abs(np.asarray(again.coefficients)).reshape(len(again.frequencies), -1).max(axis=1) > 1e-12
    assert {tuple(k) for k in np.asarray(again.frequencies)[rows]} <= {
        tuple(k) for k in np.asarray(exponential.frequencies)
    }


@given(cases)
def test_separable_form_equals_its_brute_sum(case):
    m, n, outputs, seed, zeros = case
    frequencies = parts(m, n, outputs, seed, zeros)[0]
    shape = (n, 2**m) if outputs is None else (n, 2**m, outputs)
    coefficients = np.random.default_rng(seed).normal(size=shape)
    series = flm.SeparableSeries(frequencies, coefficients)
    x = points(m)
    values = separable_sum(frequencies, coefficients, x)
    size = np.abs(coefficients).sum()
    for form in (series.phase(), series.exponential()):
        np.testing.assert_allclose(numpy_values(form, x) / size, values / size, **TIGHT)
    np.testing.assert_allclose(series(x) / size, values / size, **TIGHT)
    phase = series.phase()
    amplitudes, phases = np.asarray(phase.amplitudes), np.asarray(phase.phases)
    assert amplitudes.min() >= 0
    assert -np.pi < phases.min() <= phases.max() <= np.pi


@pytest.mark.parametrize("m", range(1, 7))
def test_the_papers_formula_for_the_coefficients(m):
    """a_k = +-sum_i A_i s_ik cos phi_i or sin phi_i, in the four cases of |I_k| mod 4 (paper, Section 3)."""
    n, A, phi = parts(m, 2)
    S = signs(m)
    expected = np.zeros((2, 2**m))
    seen = set()
    for k in range(1, 2**m + 1):
        bits = format(k - 1, f"0{m}b")
        I = [j for j in range(m) if bits[j] == "1"]
        s = np.prod(S[:, I], axis=1)
        case = len(I) % 4
        seen.add(case)
        expected[:, k - 1] = [
            (A * s * np.cos(phi)).sum(axis=1),
            (A * s * np.sin(phi)).sum(axis=1),
            -(A * s * np.cos(phi)).sum(axis=1),
            -(A * s * np.sin(phi)).sum(axis=1),
        ][case]
    assert seen == set(range(min(m, 3) + 1))
    np.testing.assert_allclose(flm.PhaseSeries(n, A, phi).separable().coefficients, expected, **TIGHT)


def test_the_papers_appendix_for_two_inputs():
    A1, A2, phi1, phi2 = 1.3, -0.7, 0.4, 2.5
    series = flm.PhaseSeries([[2.0, 3.0]], [[A1, A2]], [[phi1, phi2]])
    expected = [
        A1 * np.cos(phi1) + A2 * np.cos(phi2),
        A1 * np.sin(phi1) - A2 * np.sin(phi2),
        A1 * np.sin(phi1) + A2 * np.sin(phi2),
        -A1 * np.cos(phi1) + A2 * np.cos(phi2),
    ]
    np.testing.assert_allclose(series.separable().coefficients[0], expected, **TIGHT)


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_flipping_a_component_is_a_reflection(m):
    """n_j -> -n_j: the same function of x with x_j -> -x_j, and the same span: coefficients permuted and signed."""
    series = phase_series(m, 3, zeros=False)
    x = points(m)
    for j in range(m):
        flip = np.where(np.arange(m) == j, -1.0, 1.0)
        flipped = flm.PhaseSeries(series.frequencies * flip, series.amplitudes, series.phases)
        np.testing.assert_allclose(flipped(x), series(x * flip), **TIGHT)
        a = series.separable().coefficients
        sines = np.array([(k >> (m - 1 - j)) & 1 for k in range(2**m)])
        same = flm.SeparableSeries(series.frequencies * flip, a * (1 - 2 * sines))
        np.testing.assert_allclose(same(x), series(x), **TIGHT)


def test_float32_stays_float32():
    m = 2
    single = [np.asarray(v, np.float32) for v in parts(m, 3)]
    double = [v.astype(np.float64) for v in single]
    series, reference = flm.PhaseSeries(*single), flm.PhaseSeries(*double)
    x = points(m).astype(np.float32)
    box = [(-1.0, 2.0)] * m
    for form in (
        series,
        series.separable(),
        series.exponential(),
        series.separable().phase(),
        series.exponential().phase(),
    ):
        assert form.frequencies.dtype == jnp.float32
        for other in (
            form,
            form + 1,
            2.5 * form,
            form / 3,
            form - form,
            form.d((0, 0)),
            form.shift(0.5),
            form.shift([0.5] * m),
            form.rescale([2.0] * m),
            form.truncate(2),
            form * form,
        ):
            assert other(x).dtype == jnp.float32
        np.testing.assert_allclose(form(x), reference(x.astype(float)), rtol=0, atol=2e-5)
        np.testing.assert_allclose(form.d((0,))(x), reference.d((0,))(x.astype(float)), rtol=0, atol=2e-4)
        assert form.integrate(box).dtype == form.norm(box).dtype == jnp.float32
        np.testing.assert_allclose(form.integrate(box), reference.integrate(box), rtol=0, atol=1e-3)
        np.testing.assert_allclose(form.norm(box), reference.norm(box), rtol=1e-4)


@pytest.mark.slow
def test_batches_of_series():
    m = 2
    batch = [parts(m, 2, seed=seed) for seed in range(4)]
    stacked = [np.stack(v) for v in zip(*batch, strict=True)]
    x = points(m)

    @jax.jit
    @jax.vmap
    def through_forms(n, A, phi):
        series = flm.PhaseSeries(n, A, phi)
        back = series.separable().phase()
        return series(x), back(x), series.separable().d((0,))(x), series.norm([(0, 1)] * m), (series + 1.0)(x)

    value, back, slope, norm, plus = through_forms(*stacked)
    for b, (n, A, phi) in enumerate(batch):
        series = flm.PhaseSeries(n, A, phi)
        np.testing.assert_allclose(value[b], phase_sum(n, A, phi, x), **TIGHT)
        np.testing.assert_allclose(back[b], phase_sum(n, A, phi, x), **TIGHT)
        np.testing.assert_allclose(slope[b], series.d((0,))(x), rtol=0, atol=1e-12)
        np.testing.assert_allclose(norm[b], series.norm([(0, 1)] * m), rtol=1e-10)
        np.testing.assert_allclose(plus[b], series(x) + 1, **TIGHT)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_the_transform_is_exactly_invertible(m):
    rng = np.random.default_rng(m)
    C, S = rng.integers(-9, 10, (2, 3, 2 ** (m - 1), 2)).astype(float)
    back = linear_from_separable(separable_from_linear(jnp.asarray(C), jnp.asarray(S)))
    np.testing.assert_array_equal(back, (C, S))  # integers and powers of two: no rounding at all


def test_series_are_pytrees_and_differentiable():
    n, A, phi = parts(2, 2)
    x = points(2)
    loss = jax.jit(lambda series: jnp.sum(series(x) ** 2))
    gradient = jax.jit(jax.grad(loss))(flm.PhaseSeries(n, A, phi))
    assert isinstance(gradient, flm.PhaseSeries)
    step = 1e-6
    for i in range(2):
        bump = np.zeros_like(A)
        bump[i, 1] = step
        slope = (loss(flm.PhaseSeries(n, A + bump, phi)) - loss(flm.PhaseSeries(n, A - bump, phi))) / (2 * step)
        assert float(gradient.amplitudes[i, 1]) == pytest.approx(float(slope), rel=1e-6)


def test_many_inputs_stay_affordable():
    series = phase_series(12, 1)
    assert series.separable().coefficients.shape == (1, 4096)
    x = points(12, 3)
    np.testing.assert_allclose(series.separable()(x) / 64, series(x) / 64, **TIGHT)
