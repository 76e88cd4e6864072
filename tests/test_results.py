"""The answer as a function: called, traced, differentiated, taken apart, saved and handed to other tools."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flm


@pytest.fixture(scope="module")
def heat():
    return flm.solve(flm.problems.heat(), tol=1e-9)


@pytest.fixture(scope="module")
def sound():
    return flm.solve(flm.problems.acoustics(), tol=1e-7)


def test_call_by_name_and_by_points(heat):
    x, t = np.linspace(0, 1, 5), 0.3
    by_name = heat(x=x[:, None], t=np.array([t, 0.5]))
    assert by_name.shape == (5, 2)
    np.testing.assert_allclose(by_name[:, 0], heat(np.stack([x, np.full(5, t)], axis=1)), atol=1e-14)
    assert heat(x=0.3, t=0.5).shape == ()
    np.testing.assert_allclose(heat(x=0.3, t=0.5), np.sin(0.3 * np.pi) * np.exp(-0.05 * np.pi**2), rtol=1e-7)


def test_traced_by_jit_and_grad(heat):
    value = lambda x: heat(x=x, t=0.5)
    np.testing.assert_allclose(jax.jit(value)(0.3), value(0.3), rtol=1e-12)
    np.testing.assert_allclose(jax.grad(value)(0.3), heat.d("x")(x=0.3, t=0.5), rtol=1e-9)
    np.testing.assert_allclose(jax.grad(jax.grad(value))(0.3), heat.d("xx")(x=0.3, t=0.5), rtol=1e-9)


def test_series_is_the_solution(heat):
    points = np.random.default_rng(0).uniform(size=(30, 2))
    np.testing.assert_allclose(heat.series(points), heat(points), atol=1e-12)
    np.testing.assert_allclose(heat.d("tx").series(points), heat.d((1, 0))(points), atol=1e-9)
    assert heat.pieces[0][1] is not None


def test_unknowns_of_a_system(sound):
    points = np.random.default_rng(1).uniform(size=(20, 2))
    both = sound(points)
    assert both.shape == (20, 2)
    np.testing.assert_array_equal(sound["v"](points), both[:, 1])
    np.testing.assert_allclose(sound["v"].series(points), both[:, 1], atol=1e-10)
    assert sound["u"].errors().relative_l2 < 1e-7
    with pytest.raises(KeyError, match="must be one of u, v; got 'w'"):
        sound["w"]


def test_save_and_load(heat, sound, tmp_path):
    points = np.random.default_rng(2).uniform(size=(20, 2))
    for solution in (heat, sound):
        solution.save(tmp_path / "s.safetensors")
        again = flm.load(tmp_path / "s.safetensors")
        np.testing.assert_array_equal(again(points), solution(points))
        assert again.status == solution.status
        assert again.error_estimate == solution.error_estimate


def test_to_tables(heat, sound):
    xarray = pytest.importorskip("xarray")
    grid = sound.to_xarray((5, 7))
    assert isinstance(grid, xarray.Dataset)
    assert grid["v"].shape == (5, 7)
    np.testing.assert_allclose(grid["u"].sel(x=0.5, t=0.5), sound(x=0.5, t=0.5)[0])
    frame = heat.to_pandas(5)
    assert list(frame.columns) == ["x", "t", "u"]
    assert len(frame) == 25


def test_refusals(heat):
    with pytest.raises(ValueError, match=r"every axis by name \(x, t\)"):
        heat(x=0.1)
    with pytest.raises(ValueError, match=r"shape \(P, 2\)"):
        heat(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="must name axes"):
        heat.d("z")
    with pytest.raises(ValueError, match="`reference` must return shape"):
        heat.errors(lambda p: jnp.zeros(3))


def test_errors_against_a_reference(heat):
    assert heat.errors(lambda p: heat(p)).max_error == 0
    assert "error estimate" in repr(heat)
    assert heat._repr_html_().startswith("<pre>")
