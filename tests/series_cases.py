"""Random series and brute-force sums, in plain numpy, that the tests compare with."""

import itertools

import numpy as np
from hypothesis import strategies as st

import flm


def signs(m):
    return np.array([(1, *tail) for tail in itertools.product((1, -1), repeat=m - 1)], float)


def parts(m, n, outputs=None, seed=0, zeros=True):
    """Frequencies with zero, negative, integer and repeated components; amplitudes of both signs; phases beyond a turn."""
    rng = np.random.default_rng([m, n, outputs or 0, seed])
    frequencies = np.where(rng.random((n, m)) < 0.3, rng.integers(-3, 4, (n, m)), rng.normal(size=(n, m)) * 2)
    if zeros:
        frequencies[rng.random((n, m)) < 0.25] = 0.0
    shape = (n, 2 ** (m - 1)) if outputs is None else (n, 2 ** (m - 1), outputs)
    return frequencies, rng.normal(size=shape), rng.uniform(-8, 8, shape)


def phase_series(m, n, outputs=None, seed=0, zeros=True, axes=None):
    return flm.PhaseSeries(*parts(m, n, outputs, seed, zeros), axes)


def points(m, count=7, seed=1):
    return np.random.default_rng([m, count, seed]).uniform(-2, 2, (count, m))


def phase_sum(frequencies, amplitudes, phases, x):
    """Sum A cos((e * n) . x - phi), term by term."""
    total = np.zeros((len(x), *amplitudes.shape[2:]))
    for n, A, phi in zip(frequencies, amplitudes, phases, strict=True):
        for e, a, p in zip(signs(len(n)), A, phi, strict=True):
            theta = (x @ (e * n)).reshape(-1, *(1,) * np.ndim(a))
            total += a * np.cos(theta - p)
    return total


def separable_sum(frequencies, coefficients, x):
    """Sum a_k prod cos prod sin, term by term; k - 1 in bits, leftmost = input 1, 1 = sine."""
    total = np.zeros((len(x), *coefficients.shape[2:]))
    for n, row in zip(frequencies, coefficients, strict=True):
        for bits, a in zip(itertools.product((0, 1), repeat=len(n)), row, strict=True):
            product = np.prod([(np.cos, np.sin)[b](n[j] * x[:, j]) for j, b in enumerate(bits)], axis=0)
            total += a * product.reshape(-1, *(1,) * np.ndim(a))
    return total


def exponential_sum(frequencies, coefficients, x):
    """Sum c exp(i k . x)."""
    return np.tensordot(np.exp(1j * (x @ np.asarray(frequencies).T)), np.asarray(coefficients), 1)


def numpy_values(series, x):
    """Values of any form by its own definition, without the library's evaluation (and without compiling)."""
    if isinstance(series, flm.PhaseSeries):
        return phase_sum(*(np.asarray(v) for v in (series.frequencies, series.amplitudes, series.phases)), x)
    if isinstance(series, flm.SeparableSeries):
        return separable_sum(*(np.asarray(v) for v in (series.frequencies, series.coefficients)), x)
    return exponential_sum(series.frequencies, series.coefficients, x)


# Few distinct shapes, so that XLA compiles few programs.
cases = st.tuples(
    st.integers(1, 6), st.sampled_from([1, 3]), st.sampled_from([None, 2]), st.integers(0, 10**6), st.booleans()
)
