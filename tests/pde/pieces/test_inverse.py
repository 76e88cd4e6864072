"""Parameters and functions from readings: found, with standard errors that are true, and the equation holds as without them."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid, solve_ivp
from scipy.stats import multivariate_normal

import flm
from flm.pde.pieces.elimination import PieceRows, eliminate, plan
from flm.pde.pieces.fields import FieldFunctions
from flm.pde.pieces.inverse import Linear
from flm.pde.pieces.marching import Marching
from flm.pde.pieces.newton import solve_system
from flm.pde.pieces.readings import Chain, Readings
from flm.pde.pieces.setup import can_serve, set_up
from flm.pde.pieces.slabs import LineSlabs
from flm.pde.pieces.tree import Cut, Tree
from flm.problems.text import read_problem
from flm.results import Record

STRIP = flm.Box(x=(0, 1), t=(0, 1))
UNIT = flm.Box(x=(0, 1))
COLD = [flm.dirichlet("x=0"), flm.dirichlet("x=1")]


def warm(points, alpha=0.1):
    return np.sin(np.pi * points[:, 0]) * np.exp(-alpha * np.pi**2 * points[:, 1])


def rod(seed=0, sigma=None, noise=0.01, count=200, **limits):
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(count, 2))
    readings = flm.data(points, warm(points) + noise * rng.normal(size=count), sigma=sigma)
    start = flm.initial(lambda x: jnp.sin(jnp.pi * x))
    learn = flm.Learn(0.5, **({"lower": 0.0} | limits))
    return flm.PDE(
        STRIP, lambda u_t, u_xx, alpha: u_t - alpha * u_xx, [start, *COLD, readings], parameters={"alpha": learn}
    )


def decay(values, times, equation=lambda u, u_t, k: u_t + k * u, learn=None, sigma=None):
    learn = {"k": flm.Learn(0.5)} if learn is None else learn
    return flm.PDE(flm.Box(t=(0, 3)), equation, [flm.initial(1.0), flm.data(times, values, sigma)], parameters=learn)


# --- numbers -----------------------------------------------------------------------------------------------------------


def test_diffusivity_from_noisy_readings():
    problem = rod()
    assert can_serve(problem)
    solution = flm.solve(problem, tol=1e-6)
    alpha = solution.parameters["alpha"]
    assert solution.converged
    assert abs(alpha.value - 0.1) <= min(0.001, 3 * alpha.standard_error)
    # the equation holds at the number that was found as it does without readings
    assert solution.errors(lambda points: warm(points, alpha.value)).relative_l2 <= 1e-6
    assert f"alpha = {alpha}" in repr(solution)


def test_standard_errors_are_those_of_the_closed_form():
    problem = rod(sigma=0.01)
    points = problem.conditions[-1].data.points
    alpha = flm.solve(problem, tol=1e-8).parameters["alpha"]
    slope = -(np.pi**2) * points[:, 1] * warm(points, alpha.value)
    np.testing.assert_allclose(alpha.standard_error, 0.01 / np.linalg.norm(slope), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("told", [True, False])
def test_two_standard_errors_cover_the_truth(told):
    times, sigma = np.linspace(0.1, 2.9, 15), 0.02 if told else None
    problem = decay(np.exp(-1.7 * times), times, sigma=sigma)
    *others, block = problem.conditions  # one problem, so that its residuals compile once; the readings are exchanged
    within = []
    for seed in range(14):
        values = np.exp(-1.7 * times) + 0.02 * np.random.default_rng(seed).normal(size=15)
        problem.conditions = (*others, replace(block, data=flm.data(times, values, sigma=sigma)))
        k = flm.solve(problem, tol=1e-4).parameters["k"]
        within.append(abs(k.value - 1.7) <= 2 * k.standard_error)
    assert 0.85 <= np.mean(within) <= 1.0


def test_precise_readings_ask_for_more_than_the_tolerance():
    problem = rod(sigma=1e-7, noise=1e-7)
    alpha = flm.solve(problem, tol=1e-3).parameters["alpha"]
    assert abs(alpha.value - 0.1) <= 3 * alpha.standard_error
    assert alpha.standard_error < 1e-7


def test_limits_are_kept():
    solution = flm.solve(rod(lower=0.2, upper=0.8), tol=1e-4)
    assert 0.2 <= solution.parameters["alpha"].value <= 0.2001


def test_a_start_at_which_everything_vanishes():
    points = np.random.default_rng(1).uniform(size=(30, 1))
    source = lambda u_xx, q: u_xx + q
    values = 1.5 * points[:, 0] * (1 - points[:, 0])
    problem = flm.PDE(UNIT, source, [*COLD, flm.data(points, values)], parameters={"q": flm.Learn(0.0)})
    solution = flm.solve(problem, tol=1e-8)
    assert solution.converged
    np.testing.assert_allclose(solution.parameters["q"].value, 3.0, rtol=1e-7)


def test_rates_of_a_system_from_readings_of_one_unknown():
    truth = {"a": 1.1, "b": 0.9, "c": 1.2}
    rates = lambda t, y: [1.1 * y[0] - 0.9 * y[0] * y[1], 0.8 * y[0] * y[1] - 1.2 * y[1]]
    times = np.linspace(0.1, 6, 80)
    exact = solve_ivp(rates, (0, 6), [1.0, 0.8], rtol=1e-11, atol=1e-12, dense_output=True).sol
    rng = np.random.default_rng(2)
    problem = flm.PDE(
        flm.Box(t=(0, 6)),
        [lambda u, v, u_t, a, b: u_t - a * u + b * u * v, lambda u, v, v_t, c: v_t - 0.8 * u * v + c * v],
        [
            flm.initial(1.0),
            flm.initial(0.8, unknown="v"),
            flm.data(times, exact(times)[0] + 0.01 * rng.normal(size=80), sigma=0.01, observe=lambda u: u),
        ],
        unknowns=("u", "v"),
        parameters={name: flm.Learn(1.0, lower=0) for name in truth},
    )
    solution = flm.solve(problem, tol=1e-6)
    assert solution.converged
    for name, value in truth.items():
        found = solution.parameters[name]
        assert abs(found.value - value) <= 3 * found.standard_error < 0.1


# --- what readings do not say ------------------------------------------------------------------------------------------

TIMES = np.linspace(0.1, 2.9, 20)


@pytest.mark.parametrize(
    ("problem", "names"),
    [
        (decay(np.exp(-TIMES), TIMES, lambda u, u_t, a, b: u_t + a * b * u, {n: flm.Learn(1.0) for n in "ab"}), "a, b"),
        (decay(np.exp(-TIMES), TIMES, lambda u, u_t, t, k: u_t + u + 0 * k, {"k": flm.Learn(1.0)}), "k"),
        (decay([0.5], [1.0], lambda u, u_t, a, b: u_t + a * u + b, {n: flm.Learn(1.0) for n in "ab"}), "a, b"),
    ],
    ids=["a product", "without effect", "one reading"],
)
def test_what_readings_do_not_determine(problem, names):
    solution = flm.solve(problem, tol=1e-6)
    assert solution.status.word == "undetermined"
    assert f"the readings do not determine {names}" in solution.status.sentence
    assert np.isinf(solution.error_estimate)
    assert all(np.isinf(p.standard_error) for p in solution.parameters.values())


def test_readings_without_anything_to_learn_leave_the_answer_and_are_compared_with_it():
    with_readings, plain = (
        flm.PDE(UNIT, lambda u_xx: u_xx + 2.0, [*COLD, *extra])
        for extra in ([flm.data([[0.5], [0.2], [0.7], [0.8]], [0.25, 0.5, 0.2, 0.1], sigma=0.01)], [])
    )
    solution = flm.solve(with_readings, tol=1e-8)
    np.testing.assert_allclose(solution(x=0.3), flm.solve(plain, tol=1e-8)(x=0.3), rtol=1e-12)
    assert solution.converged
    assert "the readings scatter about the solution by" in solution.status.sentence


def test_readings_may_stand_for_a_condition():
    problem = flm.PDE(
        flm.Box(t=(0, 1)), lambda u, u_t: u_t + u, [flm.data(np.linspace(0, 1, 5), 2 * np.exp(-np.linspace(0, 1, 5)))]
    )
    assert not can_serve(problem)
    np.testing.assert_allclose(float(flm.solve(problem, tol=1e-6)(t=0.5)), 2 * np.exp(-0.5), rtol=1e-4)


# --- derivatives by parameters -----------------------------------------------------------------------------------------


def test_many_right_hand_sides_are_eliminated_like_one():
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape)
    members, sizes = [(0, 1), (1, 2)], [2, 3]
    own, traces = [draw(7, 4), draw(9, 4), draw(7, 4)], [draw(7, 2), draw(9, 5), draw(7, 3)]
    names, rights = [(0,), (0, 1), (1,)], [draw(7, 3), draw(9, 3), draw(7, 3)]
    order = plan(members, sizes)
    solve = lambda pick: eliminate(
        [PieceRows(a.copy(), t, r[:, pick], n) for a, t, r, n in zip(own, traces, rights, names, strict=True)],
        sizes,
        order,
    )
    together = np.stack(solve(slice(None)))
    for side in range(3):
        np.testing.assert_allclose(together[..., side], np.stack(solve(side)), rtol=1e-10, atol=1e-12)


def reaction(**parameters):
    points = np.random.default_rng(3).uniform(size=(12, 2))
    return flm.PDE(
        STRIP,
        lambda x, u, u_t, u_xx, k, a, a_x: u_t - a * u_xx - a_x * u**2 + k * u**3,
        [
            flm.initial(lambda x: x * (1 - x)),
            flm.on("x=0", lambda u, t, k: u - 0.1 * k * t**2),
            flm.dirichlet("x=1"),
            flm.data(points, np.zeros(12), observe=lambda u, u_x, k, a: u + k * a * u_x),
        ],
        parameters={"k": flm.Learn(0.7), "a": flm.Learn(1.0, axes="x")},
    )


@pytest.mark.slow
@pytest.mark.parametrize("where", ["pieces", "slabs"])
def test_derivatives_by_parameters_are_differences(where):
    problem = reaction()
    setup = set_up(problem)
    if where == "pieces":
        tree = Tree.whole(setup.bounds, setup.periodic).split({0: [Cut(0, 0.4), Cut(1)]})[0].split({1: [Cut(0)]})[0]
        system = setup.system(tree, (6, 6))
        answers = [solve_system(system, None, setup.is_linear)]
    else:
        slabs = LineSlabs(setup, len(setup.orders), 1e-3, 10**6)
        answers = Marching(slabs, 1e-3, 10**6, Record()).run().answers
        assert len(answers) > 1
    chain = Chain(setup, answers, Readings.of(problem, setup))
    starts = [answer.coefficients for answer in answers]
    middle = chain.at(setup.parameters, starts)
    slopes = chain.slopes(middle, chain.derivatives(middle))
    learned = list(setup.known.learned)
    for column in (0, 1, 2, 5):  # the number, and some coefficients of the function
        step = np.zeros_like(setup.parameters)
        step[learned[column]] = 1e-5
        ahead, behind = (chain.at(setup.parameters + sign * step, starts).misfit for sign in (1, -1))
        np.testing.assert_allclose(slopes[:, column], (ahead - behind) / 2e-5, rtol=1e-5, atol=1e-8)


# --- functions ---------------------------------------------------------------------------------------------------------


def conductivity(x):
    return 1 + 0.5 * np.sin(2 * np.pi * x)


def stationary():
    """-(a u')' = 1 between cold ends: a u' = c - x."""
    x = np.linspace(0, 1, 20001)
    one, two = (cumulative_trapezoid(f / conductivity(x), x, initial=0) for f in (np.ones_like(x), x))
    return x, two[-1] / one[-1] * one - two


def measured(seed, told=True):
    x, u = stationary()
    rng = np.random.default_rng(seed)
    points, sigma = rng.uniform(size=200), 0.01 * u.max()
    return flm.data(points, np.interp(points, x, u) + sigma * rng.normal(size=200), sigma=sigma if told else None)


def bar(data):
    return flm.PDE(
        UNIT,
        lambda a, a_x, u_x, u_xx: -(a_x * u_x + a * u_xx) - 1.0,
        [*COLD, data],
        parameters={"a": flm.Learn(1.0, lower=0, axes=("x",))},
    )


@pytest.mark.slow
def test_a_function_from_readings_with_its_band(tmp_path):
    problem = bar(measured(0))
    *others, block = problem.conditions
    x, covered = np.linspace(0, 1, 101), []
    for seed in (14, 15):  # with and without the noise told; benchmarks judge twenty
        problem.conditions = (*others, replace(block, data=measured(seed, told=seed % 2 == 0)))
        solution = flm.solve(problem, tol=1e-5)
        assert solution.converged
        a = solution.parameters["a"]
        wrong = a.value(x) - conductivity(x)
        assert np.sqrt(np.mean(wrong**2) / np.mean(conductivity(x) ** 2)) <= 0.05
        covered.append(np.mean(np.abs(wrong) <= 1.96 * a.standard_error(x)))
    assert 0.90 <= np.mean(covered) <= 0.99
    solution.save(tmp_path / "bar.safetensors")
    again = flm.load(tmp_path / "bar.safetensors").parameters["a"]
    np.testing.assert_array_equal(again(x=x), a(x))
    np.testing.assert_array_equal(again.standard_error(x), a.standard_error(x))
    assert np.isnan(a(1.5))
    with pytest.raises(ValueError, match="call with one array for each of x"):
        a(0.1, 0.2)
    assert "a = a function of x from" in repr(solution)


def test_a_function_that_readings_do_not_see_is_undetermined():
    problem = flm.PDE(
        flm.Box(t=(0, 1)),
        [lambda u, u_t: u_t + u, lambda v, v_t, q: v_t - q],
        [flm.initial(1.0), flm.initial(0.0, unknown="v"), flm.data(TIMES / 3, np.exp(-TIMES / 3), 0.01, lambda u: u)],
        unknowns=("u", "v"),
        parameters={"q": flm.Learn(1.0, axes="t")},
    )
    solution = flm.solve(problem, tol=1e-4)
    assert "the readings do not determine q" in solution.status.sentence


@pytest.mark.slow
def test_a_function_of_two_axes_with_its_band():
    """-Δu = f on a square from 150 readings of u with noise of 1 %."""
    source = lambda x, y: 1 + x * np.sin(np.pi * y)
    square = flm.Box(x=(0, 1), y=(0, 1))
    held = flm.dirichlet("boundary")
    known = flm.PDE(square, lambda x, y, u_xx, u_yy: -u_xx - u_yy - 1 - x * jnp.sin(jnp.pi * y), [held])
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(150, 2))
    values = np.asarray(flm.solve(known, tol=1e-4)(points))
    sigma = 0.01 * values.max()
    readings = flm.data(points, values + sigma * rng.normal(size=150), sigma=sigma)
    parameters = {"f": flm.Learn(1.0, axes=("x", "y"))}
    problem = flm.PDE(square, lambda f, u_xx, u_yy: -u_xx - u_yy - f, [held, readings], parameters=parameters)
    solution = flm.solve(problem, tol=1e-3)
    assert solution.converged, solution.status
    x, y = np.meshgrid(*[np.linspace(0.1, 0.9, 17)] * 2)
    wrong = solution.parameters["f"].value(x, y) - source(x, y)
    assert np.sqrt(np.mean(wrong**2) / np.mean(source(x, y) ** 2)) < 0.2
    assert np.mean(np.abs(wrong) <= 1.96 * solution.parameters["f"].standard_error(x, y)) >= 0.85


def test_evidence_and_posterior_are_those_of_a_normal_distribution():
    rng, learn = np.random.default_rng(0), flm.Learn(1.5, axes="x")
    field = FieldFunctions("a", (0,), np.array([[0.0, 1.0]]), learn, slice(0, 24))
    J, b = rng.normal(size=(40, 24)), rng.normal(size=40)
    linear, found, exact = Linear(J, b, (field,)), [], []
    for prior in [(0.2, 0.5), (1.0, 2.0)]:
        C = field.halves(*prior) @ field.halves(*prior).T
        np.testing.assert_allclose(C, field.whitening(*prior) @ field.whitening(*prior).T, rtol=1e-9, atol=1e-8)
        all_readings = np.eye(40) + J @ C @ J.T
        posterior = linear.posterior((prior,))
        mean = C @ J.T @ np.linalg.solve(all_readings, b)
        np.testing.assert_allclose(posterior.mean(linear.y)[:, 0], mean, rtol=1e-6, atol=1e-7)
        found.append(posterior.evidence(linear.y)[0])
        exact.append(2 * multivariate_normal(cov=all_readings).logpdf(b))
    np.testing.assert_allclose(found[1] - found[0], exact[1] - exact[0], rtol=1e-6)


FILE = """
[domain]
x = [0, 1]
[parameters]
f = {learn = 1, axes = ["x"]}
[equation]
pde = "-u_xx = f"
[conditions]
"x=0" = "u = 0"
"x=1" = "u = 0"
[data]
file = "readings.csv"
sigma = 0.001
"""


@pytest.mark.slow
def test_a_function_in_a_file(tmp_path):
    points = np.linspace(0.02, 0.98, 60)
    rows = "".join(f"{p},{np.sin(np.pi * p) / np.pi**2}\n" for p in points)
    (tmp_path / "readings.csv").write_text("x,u\n" + rows)
    (tmp_path / "source.toml").write_text(FILE)
    solution = flm.solve(read_problem(tmp_path / "source.toml"), tol=1e-5)
    assert solution.converged
    np.testing.assert_allclose(solution.parameters["f"].value(0.5), 1.0, atol=0.1)
    (tmp_path / "source.toml").write_text(FILE.replace('["x"]', '["y"]'))
    with pytest.raises(ValueError, match="`axes` of the parameter 'f' must be among x"):
        read_problem(tmp_path / "source.toml")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: flm.Learn(1.0, axes=()), r"`axes` must be different names of axes"),
        (lambda: flm.Learn(1.0, axes=("x", "x")), r"`axes` must be different names of axes"),
        (
            lambda: flm.PDE(STRIP, lambda u_t, a_t: u_t - a_t, parameters={"a": flm.Learn(1.0, axes="x")}),
            "the argument 'a_t' of `equation` must be one of",
        ),
        (lambda: flm.solve(bar(measured(0)), method="sparse"), "only where pieces solve the problem"),
        (
            lambda: flm.train(bar(measured(0)), flm.FLM(UNIT, 2, key=0), None, 1, points={"equation": 8}),
            "`parameters` with functions",
        ),
    ],
)
def test_what_is_refused_about_functions(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_readings_where_the_solution_is_held_determine_nothing():
    where = np.array([[0.0, 0.3], [1.0, 0.5]])
    find = flm.PDE(
        STRIP,
        lambda u_t, u_xx, a: u_t - a * u_xx,
        [flm.initial(lambda x: jnp.sin(jnp.pi * x)), *COLD, flm.data(where, np.zeros(2), sigma=1e-3)],
        parameters={"a": flm.Learn(0.3, lower=0)},
    )
    solution = flm.solve(find, 1e-3)
    assert solution.status.word == "undetermined"
    assert solution.error_estimate == np.inf
