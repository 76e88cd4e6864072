"""The answer as a function: called, traced, differentiated, taken apart, saved and handed to other tools."""

import itertools
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from answers import answer

import flm
from flm.results import Ending, Word
from flm.wording import OutsideWarning


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
    np.testing.assert_allclose(jax.jit(jax.grad(value))(0.3), heat.d("x")(x=0.3, t=0.5), rtol=1e-9)
    np.testing.assert_allclose(jax.jit(jax.grad(jax.grad(value)))(0.3), heat.d("xx")(x=0.3, t=0.5), rtol=1e-9)


def test_series_is_the_solution(heat):
    points = np.random.default_rng(0).uniform(size=(30, 2))
    assert heat.series_error <= max(heat.tolerance / 10, 1e-12)
    np.testing.assert_allclose(heat.series(points), heat(points), atol=2 * heat.series_error + 1e-14)
    # two derivatives of waves lose some digits that the values keep
    np.testing.assert_allclose(heat.d("tx").series(points), heat.d((1, 0))(points), atol=1e4 * heat.series_error + 1e-9)
    assert heat.pieces[0][1] is not None


@pytest.mark.slow
def test_unknowns_of_a_system(sound):
    points = np.random.default_rng(1).uniform(size=(20, 2))
    both = sound(points)
    assert both.shape == (20, 2)
    np.testing.assert_allclose(sound["v"](points), both[:, 1], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(sound["v"].series(points), both[:, 1], atol=1e-10)
    assert sound["u"].errors().relative_l2 < 1e-7
    with pytest.raises(KeyError, match="must be one of u, v; got 'w'"):
        sound["w"]


@pytest.mark.slow
def test_save_and_load(heat, sound, tmp_path):
    points = np.random.default_rng(2).uniform(size=(20, 2))
    for solution in (heat, sound):
        solution.save(tmp_path / "s.safetensors")
        again = flm.load(tmp_path / "s.safetensors")
        np.testing.assert_allclose(again(points), solution(points), rtol=1e-12, atol=1e-14)
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


def test_converged_follows_from_estimate_and_tolerance():
    """Whatever raises the estimate after the solver stopped, status and sentence follow."""
    met = answer(flm.Box(x=(0, 1)), error_estimate=1e-9, tolerance=1e-8)
    assert met.converged
    assert met.status.sentence == "converged: the error estimate 1.0e-09 is within the tolerance 1.0e-08."
    raised = replace(met, error_estimate=2e-8)
    assert not raised.converged
    assert raised.status.word is Word.STALLED
    assert raised.status.sentence.endswith(
        "raised its error estimate; the error estimate is 2.0e-08, the tolerance 1.0e-08."
    )
    assert repr(raised).startswith("Solution u(x): stalled: ")
    assert replace(raised, tolerance=1e-7).converged
    assert replace(met, ending=Ending(Word.SIZE)).converged  # the limit was met, and so was the tolerance
    assert not replace(met, ending=Ending(Word.UNDETERMINED)).converged
    unresolved = replace(met, error_estimate=np.inf)
    assert not unresolved.converged
    assert unresolved.status.sentence.endswith("; there is no error estimate.")
    trained = replace(met, ending=Ending(Word.EPOCHS), error_estimate=np.nan, tolerance=np.nan)
    assert (trained.converged, trained.status.sentence) == (False, "all epochs were run.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "options"),
    [
        (flm.problems.oscillator(), {"tol": 1e-6}),
        (flm.problems.oscillator(), {"tol": 1e-6, "num_subnets": 3}),
        (flm.problems.burgers(), {"tol": 0.05}),
        (flm.problems.rock_paper_scissors(initial=(0.3, 0.3, 0.4)), {"tol": 0.1}),
    ],
    ids=["pde", "num_subnets", "conservation", "control"],
)
def test_history_has_one_schema(problem, options):
    """columns, estimate, error_estimate and seconds are what they say, whoever wrote them."""
    told = []
    solution = flm.solve(problem, **options, progress=told.append)
    history = solution.history
    assert list(history)[:4] == ["columns", "estimate", "error_estimate", "seconds"]
    assert len({len(column) for column in history.values()}) == 1
    assert len(history["columns"]) > 0
    columns, seconds = history["columns"], history["seconds"]
    assert all(isinstance(n, int) and n >= 0 for n in columns)
    assert max(columns) >= 1
    assert all(0 < a <= b for a, b in itertools.pairwise([*seconds, solution.seconds]))
    assert all(isinstance(v, float) for name in ("estimate", "error_estimate") for v in history[name])
    best = [v for v in history["error_estimate"] if np.isfinite(v)]
    assert not best or min(best) <= 10 * solution.error_estimate
    remembered = [(e.columns, e.seconds) for e in told]
    assert all(step in remembered for step in zip(columns, seconds, strict=True))


def test_refusals(heat):
    with pytest.raises(ValueError, match=r"every axis by name \(x, t\)"):
        heat(x=0.1)
    with pytest.raises(ValueError, match=r"must have 2 columns"):
        heat(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="must name axes"):
        heat.d("z")
    with pytest.raises(ValueError, match="`reference` must return shape"):
        heat.errors(lambda p: jnp.zeros(3))


def test_errors_against_a_reference(heat):
    assert heat.errors(lambda p: heat(p)).max_error == 0
    assert "error estimate" in repr(heat)
    assert heat._repr_html_().startswith("<pre ")


L_SHAPE = flm.Box(x=(0, 2), y=(0, 2)) - flm.Box(x=(1, 2), y=(1, 2))
WHERE = {  # a domain, two points inside (one on its edge), two outside
    "box": (flm.Box(x=(0, 1), t=(0, 2)), [[0.3, 0.4], [1, 2]], [[1.1, 0.5], [0.5, -1e-6]]),
    "interval": (flm.Box(t=(0, 5)), [[0.1], [5.0]], [[-1.0], [5.1]]),
    "disk": (flm.Disk(radius=1), [[0.3, 0.4], [1, 0]], [[0.9, 0.9], [0, 1.001]]),
    "boolean": (L_SHAPE, [[0.3, 0.4], [1, 1.5]], [[1.5, 1.5], [2, 2]]),
    "product": (flm.Disk(radius=1) * flm.Box(t=(0, 1)), [[0.3, 0.4, 1], [1, 0, 0]], [[1, 1, 0.5], [0, 0, 1.5]]),
    "region": (
        flm.Region(lambda x, y: x**4 + y**4 - 1, flm.Box(x=(-2, 2), y=(-2, 2))),
        [[0.3, 0.4], [1, 0]],
        [[0.9, 0.9], [0, -1.1]],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WHERE)
def test_outside_of_the_domain_it_is_nan(name):
    domain, inside, outside = WHERE[name]
    solution = answer(domain, ("u", "v"))
    points = np.array(inside + outside, float)
    with pytest.warns(
        OutsideWarning, match="^2 of 4 points are outside of the domain, where the solution is NaN"
    ) as told:
        values = np.asarray(solution(points))
    assert len(told) == 1
    assert np.isnan(values).tolist() == [[False] * 2] * 2 + [[True] * 2] * 2
    with warnings.catch_warnings(action="error"):  # none for what is inside, traced or asked for
        series = np.asarray(solution(points, extrapolate=True))
        np.testing.assert_allclose(series, np.asarray(solution.model(points)), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(values[:2], series[:2], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(np.asarray(solution(points[:2])), series[:2], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(
            jax.jit(solution)(points), np.where(np.isnan(values), np.nan, series), rtol=1e-12, atol=1e-13
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["box", "disk"])  # the others ask for what is inside as the disk does
def test_derivatives_outside_of_the_domain_are_nan_when_traced(name):
    domain, inside, outside = WHERE[name]
    solution, points = answer(domain, ("u", "v")), np.array(inside + outside, float)
    value = lambda point: solution["v"](point[None])[0]
    by_hand = np.stack([solution["v"].d((j,))(points[:2]) for j in range(len(domain.axes))], axis=1)
    with warnings.catch_warnings(action="error"):
        slopes = np.asarray(jax.jit(jax.vmap(jax.grad(value)))(points))
        mixed = np.asarray(jax.jit(jax.grad(lambda p: jnp.nansum(solution["v"](p))))(points))
        second = np.asarray(jax.jit(jax.hessian(value))(points[0]))
    np.testing.assert_allclose(slopes[:2], by_hand, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(mixed[:2], by_hand, rtol=1e-9, atol=1e-11)
    assert np.isnan(slopes[2:]).all()
    assert np.isfinite(second).all()
    with pytest.warns(OutsideWarning):
        assert np.isnan(solution.d((0, 0))(points)).any(axis=1).tolist() == [False, False, True, True]


def test_one_point_outside_by_name(heat):
    with pytest.warns(
        OutsideWarning, match=r"^1 of 1 points are outside .* the first is x = 1\.5, t = 0\.5\. Call it with"
    ):
        assert np.isnan(heat(x=1.5, t=0.5))
    assert np.isfinite(heat(x=1.5, t=0.5, extrapolate=True))
    with warnings.catch_warnings(action="error"):
        assert np.isfinite(heat(x=-1e-13, t=1 + 1e-13))  # within the tolerance of `contains`
        assert np.isnan(heat(x=np.nan, t=0.5))  # a missing number is not a place outside


def test_points_of_any_shape():
    line, plane = answer(flm.Box(t=(0, 5))), answer(flm.Box(x=(0, 1), t=(0, 2)), ("u", "v"))
    assert [line(np.ones(shape)).shape for shape in ((1,), (3,), (3, 1), (2, 3, 1))] == [(1,), (3,), (3,), (2, 3)]
    points = np.random.default_rng(0).uniform(size=(2, 3, 2))
    np.testing.assert_allclose(plane(points), np.stack([plane(row) for row in points]), rtol=1e-12)


def test_numbers_of_single_precision_on_the_edge():
    solution = answer(flm.Box(x=(0.1, 0.3), t=(0, 0.7)))
    with warnings.catch_warnings(action="error"):
        assert np.isfinite(solution(np.array([[0.1, 0.7], [0.3, 0.0]], np.float32))).all()
        assert np.isfinite(solution(x=jnp.float32(0.3), t=np.float32(0.7)))


def test_grids_of_an_l_shape_hold_nothing_outside():
    """A solution cut out of a square by a boolean: the removed part and its edges are NaN, without a word."""
    solution = answer(L_SHAPE)
    with warnings.catch_warnings(action="error"):
        (x, y), values = solution.on_grid(21)
    removed = (x[:, None] > 1 + 1e-9) & (y > 1 + 1e-9)
    np.testing.assert_array_equal(np.isnan(values), removed)
    assert len(solution.test_points()) == np.sum(np.isfinite(solution.on_grid(101)[1]))
    assert solution.errors(lambda p: solution(p)).max_error == 0.0


@pytest.mark.slow
def test_a_march_that_stopped_is_nan_beyond(heat, tmp_path):
    """Values, grids, figures and test points end where the march did; the file keeps how far and how well."""
    ending = Ending(Word.STOPPED, "stopped at t = 0.4", estimate_until=1e-9)
    short = replace(heat, ending=ending, error_estimate=np.inf, trusted_until=0.4, estimate_until=1e-9)
    assert short.status.word == "stopped"
    assert not short.converged
    with pytest.warns(OutsideWarning, match=r"^1 of 2 points are outside of what was solved, up to t = 0\.4"):
        values = short(x=0.3, t=np.array([0.4, 0.41]))
    np.testing.assert_allclose(values, [heat(x=0.3, t=0.4), np.nan])
    assert np.isnan(jax.jit(lambda t: short(x=0.3, t=t))(0.5))
    assert np.isfinite(jax.jit(lambda t: short(x=0.3, t=t))(0.3))
    with warnings.catch_warnings(action="error"):
        (_, t), values = short.on_grid(11)
    assert t[-1] == 0.4
    assert np.isfinite(values).all()
    assert short.test_points()[:, 1].max() <= 0.4
    assert short.errors().relative_l2 < 1e-8
    assert short.plot().axes[0].get_xlim()[1] == pytest.approx(0.4)
    short.save(tmp_path / "short.safetensors")
    again = flm.load(tmp_path / "short.safetensors")
    assert (again.trusted_until, again.estimate_until) == (0.4, 1e-9)
    assert again.status == short.status
    assert heat.trusted_until is heat.estimate_until is None
