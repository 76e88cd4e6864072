"""Least squares from R alone: against numpy, the same factor whatever the blocks, memory that does not grow with the rows."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flm
from flm.numerics import least_squares
from flm.numerics.least_squares import RowAccumulator, Rows, block_rows, triangular_factor


@pytest.mark.parametrize("panel", [None, 6])
def test_least_squares_agrees_with_numpy(panel, monkeypatch):
    if panel is not None:  # as large systems are factored
        monkeypatch.setattr(least_squares, "ONE_THREAD", 1)
        monkeypatch.setattr(least_squares, "PANEL", panel)
    rng = np.random.default_rng(0)
    rows = Rows(20, 70)
    view = rows.take(70)
    view[...] = rng.normal(size=view.shape)
    A, b = view[:20].T.copy(), view[20].copy()
    answer = rows.solve()
    expected, *_ = np.linalg.lstsq(A, b, rcond=None)
    np.testing.assert_allclose(answer.coefficients[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(answer.residual[0], np.linalg.norm(A @ expected - b), rtol=1e-12)


def test_rank_deficient_and_dead_columns_stay_small():
    rng = np.random.default_rng(1)
    rows = Rows(6, 30)
    view = rows.take(30)
    view[:3] = rng.normal(size=(3, 30))
    view[3] = view[0]  # a repeated column
    view[4] = 0.0  # a dead one
    view[5] = 1.0
    view[6] = view[0] + 2 * view[1]
    answer = rows.solve().coefficients[:, 0]
    assert answer[4] == 0
    assert np.abs(answer).max() < 10
    np.testing.assert_allclose(answer[0] + answer[3], 1, atol=1e-8)


def test_scaled_rows_have_unit_norm():
    rows = Rows(5, 10)
    view = rows.take(10)
    view[...] = np.random.default_rng(2).normal(size=view.shape) * 1e6
    rows.scale_rows(0, 0.1)
    np.testing.assert_allclose(np.linalg.norm(rows.buffer[:5, :10], axis=0), 0.1)


@pytest.mark.parametrize("shape", [(50, 20), (9, 20), (20, 20)])
def test_panels_give_the_same_triangle(shape, monkeypatch):
    matrix = np.asfortranarray(np.random.default_rng(3).normal(size=shape))
    whole = triangular_factor(matrix)
    monkeypatch.setattr(least_squares, "ONE_THREAD", 1)
    monkeypatch.setattr(least_squares, "PANEL", 6)
    panels = triangular_factor(matrix)
    np.testing.assert_allclose(np.abs(panels), np.abs(whole), atol=1e-13)
    np.testing.assert_array_equal(panels, np.triu(panels))


def test_large_systems_are_factored_in_place():
    rows = Rows(200, 3000)
    rows.take(3000)[...] = np.random.default_rng(4).normal(size=(201, 3000))
    tracemalloc.start()
    rows.solve()
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert top < rows.buffer.nbytes / 2


@given(st.integers(1, 60), st.integers(1, 12), st.lists(st.integers(0, 60), max_size=4), st.integers(0, 99))
def test_factor_does_not_depend_on_the_blocks(n, p, cuts, seed):
    rows = np.random.default_rng(seed).normal(size=(n, p))
    accumulator = RowAccumulator(p)
    for block in np.split(rows, sorted(min(c, n) for c in cuts)):
        accumulator.add(block)
    R = accumulator.factor
    assert R.shape == (min(n, p), p)
    np.testing.assert_array_equal(R, np.triu(R))
    np.testing.assert_allclose(R.T @ R, rows.T @ rows, atol=1e-12 * n)


def test_parts_and_scales():
    rng = np.random.default_rng(1)
    left, right, scale = rng.normal(size=(9, 2)), rng.normal(size=(9, 1)), rng.uniform(1, 2, 9)
    accumulator = RowAccumulator(3)
    accumulator.add(left, right, scale=scale)
    whole = np.column_stack([left, right]) * scale[:, None]
    np.testing.assert_allclose(accumulator.factor.T @ accumulator.factor, whole.T @ whole, rtol=1e-12)


def test_factor_keeps_digits_that_normal_equations_lose():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(500, 6)) * 10.0 ** -np.arange(0, 12, 2)
    A[:, 5] = A[:, 0] + 1e-9 * A[:, 5] / np.abs(A[:, 5]).max()
    truth = np.ones(6)
    R = triangular_factor(np.column_stack([A, A @ truth]))
    c = np.linalg.lstsq(R[:6, :6], R[:6, 6], rcond=None)[0]
    assert np.abs(A @ (c - truth)).max() < 1e-13
    assert np.linalg.cond(A) > 1e9


def test_blocks_are_bounded():
    for columns in (1, 10, 500, 5000, 50000):
        assert block_rows(columns) >= 1024
        assert block_rows(columns) * columns * 8 <= max(1 << 26, 1024 * columns * 8)


def test_wrong_width_is_said():
    with pytest.raises(ValueError, match="`parts` must have 3 columns together; got 4"):
        RowAccumulator(3).add(np.zeros((2, 3)), np.zeros((2, 1)))


def chunks(rows, per_chunk=5000):
    """Generated on the fly: a stream has no beginning to go back to."""
    for i in range(rows // per_chunk):
        rng = np.random.default_rng(i)
        X = rng.uniform(-1, 1, (per_chunk, 1))
        yield X, np.sin(9 * X[:, 0]) + 0.1 * rng.normal(size=per_chunk)


def peak(rows):
    fit = lambda count: flm.FLMRegressor(33, frequencies="lattice", bounds=[[-1, 1]]).fit(chunks(count))
    fit(5000)  # what is imported on first use is not the memory of a fit
    tracemalloc.start()
    fit(rows)
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows():
    small, large = peak(10_000), peak(40_000)
    assert large < 1.1 * small
    assert large < 40_000 * 66 * 8 / 2  # less than half of the matrix that was fitted


@pytest.mark.slow
def test_stream_gives_the_answer_of_memory():
    X = np.concatenate([x for x, _ in chunks(20_000)])
    y = np.concatenate([y for _, y in chunks(20_000)])
    frequencies = np.pi / 2 * np.arange(40)[:, None]
    whole = flm.FLMRegressor(frequencies=frequencies).fit(X, y)
    # the first chunk scales inputs and outputs, and with them what a ridge means: a small one
    stream = flm.FLMRegressor(frequencies=frequencies, ridge=1e-9).fit(chunks(20_000))
    plain = flm.FLMRegressor(frequencies=frequencies, ridge=1e-9).fit(X, y)
    grid = np.linspace(-1, 1, 500)[:, None]
    assert np.abs(stream.predict(grid) - plain.predict(grid)).max() < 1e-8
    assert stream.noise_ == pytest.approx(plain.noise_, rel=1e-8)
    assert whole.noise_ == pytest.approx(0.1, rel=0.03)
