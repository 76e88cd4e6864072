"""Control solutions: shapes, symmetric images, the series, files, frames and figures."""

import html
from dataclasses import fields

import numpy as np
import pytest

import flm
from flm.control.law import ControlLaw, StateNetworks
from flm.control.solution import CostComparison
from flm.problems import rock_paper_scissors, van_der_pol

DISK = flm.Ball((0.2, 0.2, 0.6), 0.15)


@pytest.fixture(scope="module")
def bounded():
    problem = flm.OptimalControl(
        lambda x, v, a, b: (v + a, -x + b), lambda x, v, a, b: x**2 + v**2 + 0.1 * a**2 + 0.1 * b**2, 2.0, ("x", "v"),
        ("a", "b"), initial=(1.0, 0.5), bounds={"a": (-0.6, 0.2)},
    )  # fmt: skip
    return flm.solve(problem, tol=1e-6)


@pytest.mark.slow
def test_shapes(family, single, bounded):
    t, x0 = np.linspace(0, 6, 7), rock_paper_scissors(DISK).sample(4, seed=0)
    assert single.control(1.0).shape == ()
    assert single.control(t).shape == (7,)
    assert family.control(t, x0[0]).shape == (7,)
    assert family.control(t, x0).shape == (4, 7)
    assert family.control(2.0, x0).shape == (4,)
    assert family.trajectory(t, x0).shape == (4, 7, 3)
    assert family.trajectory(t, x0[0]).shape == (7, 3)
    assert family.trajectory(3.0, x0).shape == (4, 3)
    assert isinstance(single.cost(), float)
    assert family.cost(x0).shape == (4,)
    assert bounded.control([0.0, 1.0]).shape == (2, 2)
    np.testing.assert_array_equal(single(t), single.control(t))


@pytest.mark.slow
def test_the_series_is_the_control(family, single, bounded):
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 6, 20)
    np.testing.assert_allclose(single.series(t[:, None]), single.control(t), atol=1e-12)
    x0 = rock_paper_scissors(DISK).sample(20, seed=1)
    points = np.column_stack([t, x0[:, :2]])
    values = np.array([family.control(time, start) for time, start in zip(t, x0, strict=True)])
    np.testing.assert_allclose(family.series(points), values, atol=1e-9)
    assert family.series.axes == ("t", "u1_0", "u2_0")
    t = np.linspace(0, 2, 41)
    raw = np.asarray(bounded.series(t[:, None]))
    np.testing.assert_allclose(np.clip(raw, [-0.6, -np.inf], [0.2, np.inf]), bounded.control(t), atol=1e-10)


@pytest.mark.slow
def test_images_use_the_law_learned_on_the_disk(family):
    problem = rock_paper_scissors(DISK)
    t, x0 = np.linspace(0, 6, 5), problem.sample(3, seed=2)
    rolled = np.roll(x0, 1, axis=1)
    np.testing.assert_allclose(family.control(t, rolled), family.control(t, x0), atol=1e-12)
    np.testing.assert_allclose(family.cost(rolled), family.cost(x0), rtol=1e-10)
    np.testing.assert_allclose(family.trajectory(t, rolled), np.roll(family.trajectory(t, x0), 1, axis=2), atol=1e-9)


@pytest.mark.slow
def test_symmetry_with_a_sign():
    """The oscillator at -x uses the opposite control."""
    problem = van_der_pol(flm.Ball((0.0, 1.0), 0.05), horizon=2.0, bounds=None)
    solution = flm.solve(problem, tol=1e-2)  # what is asserted holds for any law
    t = np.linspace(0, 2, 9)
    np.testing.assert_allclose(solution.control(t, (0.0, -1.0)), -solution.control(t, (0.0, 1.0)), atol=1e-13)
    np.testing.assert_allclose(solution.cost((0.01, -1.0)), solution.cost((-0.01, 1.0)), rtol=1e-11)


def test_states_stay_on_the_simplex(family):
    x = family.trajectory(np.linspace(0, 6, 301), rock_paper_scissors(DISK).sample(5, seed=3))
    np.testing.assert_allclose(x.sum(axis=-1), 1.0, atol=1e-15)
    assert x.min() >= 0.0


def test_refusals(family, single):
    with pytest.raises(ValueError, match=r"^`x0` must be in the ball of radius 0.15 .* got \[0.4, 0.4, 0.2\]"):
        family.cost((0.4, 0.4, 0.2))
    with pytest.raises(
        ValueError, match=r"^`x0` must be in the initial state \[0.2, 0.2, 0.6\] or one of its symmetric"
    ):
        single.control(0.0, (0.3, 0.3, 0.4))
    with pytest.raises(ValueError, match=r"^`x0` must be given: the law is for the ball"):
        family.control(0.0)
    with pytest.raises(ValueError, match=r"^`t` must be from 0 to the horizon 6"):
        single.control(7.0)
    with pytest.raises(ValueError, match=r"^`t` must be from 0 to the horizon 6"):
        single.trajectory([-1.0, 2.0])
    with pytest.raises(ValueError, match=r"^`reference` must have one cost for each of 2 states; got shape \(1,\)\.$"):
        family.compare([0.3], rock_paper_scissors(DISK).sample(2, seed=0))


def arrays(model):
    return {f.name: value for f in fields(model) if isinstance(value := getattr(model, f.name), np.ndarray)}


def same_values(found, expected):
    """Equal but for the rounding of another instruction set."""
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_arrays_lie_in_rows_whatever_they_were_built_from():
    """A transposed view would round differently from the same numbers read from a file."""
    a = np.arange(24.0).reshape(1, 4, 2, 3).transpose(3, 2, 1, 0)
    law = ControlLaw(np.ones((3, 3)).T, a, *np.zeros((3, 1)), *np.ones((2, 2)), 1.0)
    networks = StateNetworks(
        np.ones((2, 3, 1)), np.arange(12.0).reshape(1, 2, 3, 2).T, np.zeros(0), np.ones(0), (1.0, 1.0)
    )
    for model in (law, networks):
        assert all(array.flags.c_contiguous for array in arrays(model).values())
    np.testing.assert_array_equal(law.coefficients, a)


def test_files_hold_the_law_but_not_the_problem(family, bounded, tmp_path):
    for number, solution in enumerate((family, bounded)):
        path = tmp_path / f"{number}.safetensors"
        solution.save(path)
        found = flm.load(path)
        x0 = solution.problem.sample(3, seed=5)
        t = np.linspace(0, 2, 5)
        for name, array in arrays(solution.law).items():
            np.testing.assert_array_equal(arrays(found.law)[name], array)
            assert array.flags.c_contiguous
            assert arrays(found.law)[name].flags.c_contiguous
        same_values(found.control(t, x0), solution.control(t, x0))
        assert found.status == solution.status
        assert found.history == {name: tuple(values) for name, values in solution.history.items()}
        with pytest.raises(ValueError, match=r"^this needs the problem, which a file does not hold"):
            found.cost(x0)
        same_values(found.attach(solution.problem).cost(x0), solution.cost(x0))
    with pytest.raises(ValueError, match=r"^`problem` must be the one that was solved"):
        flm.load(tmp_path / "0.safetensors").attach(rock_paper_scissors())


@pytest.mark.slow
def test_networks_are_stored_too(penalized, tmp_path):
    solution = penalized
    solution.save(tmp_path / "law.safetensors")
    found = flm.load(tmp_path / "law.safetensors").attach(solution.problem)
    same_values(found.network_cost(), solution.network_cost())


def test_frames(family, single):
    x0 = rock_paper_scissors(DISK).sample(2, seed=0)
    table = family.to_pandas(x0, num_times=11)
    assert list(table.columns) == ["start", "t", "u1", "u2", "u3", "gamma"]
    assert len(table) == 22
    t = table.t[:11].to_numpy()
    np.testing.assert_allclose(table.gamma, family.control(t, x0).ravel(), atol=1e-12)
    np.testing.assert_allclose(table.u3, family.trajectory(t, x0)[..., 2].ravel(), atol=1e-9)
    assert len(single.to_pandas()) == 101


def test_what_is_printed(single):
    text = repr(single)
    assert text.startswith("ControlSolution gamma(t): the best law of this size that was found; the error estimate is ")
    assert not single.converged
    shown = single._repr_html_()
    assert shown.startswith(
        '<pre style="border-left: 5px solid #d9a404'
    )  # the color of an estimate above the tolerance
    assert f">{html.escape(text)}" in shown
    assert shown.count("<iframe") == 1
    assert "<p>$$gamma(t) = " in shown


@pytest.mark.slow
def test_figures(family, single, bounded):
    figure = single.plot(reference="pontryagin")
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["states", "gamma", "on the simplex"]
    drawn = figure.axes[1].lines
    t, law = drawn[0].get_data()
    np.testing.assert_allclose(law, single.control(t), atol=1e-12)
    np.testing.assert_allclose(drawn[-1].get_ydata(), law, atol=0.05)  # three sub-networks only
    assert len(family.plot().axes) == 3
    assert len(bounded.plot().axes) == 2
    with pytest.raises(ValueError, match=r"^`reference` must be drawn for one initial state; got 3\.$"):
        family.plot(reference=flm.references.pontryagin(rock_paper_scissors()))


def test_comparisons_count_percent():
    found = CostComparison(np.zeros((2, 1)), np.array([1.01, 1.98]), np.array([0.99, 2.0]), np.array([1.0, 2.0]))
    np.testing.assert_allclose(found.percentage_errors, [1.0, -1.0])
    np.testing.assert_allclose([found.mape, found.mae, found.worst, found.network_mape], [1.0, 0.015, 1.0, 0.5])
