"""Solving control problems: the accuracy that is claimed, every kind of problem, statuses and interruption.

Errors are of the simulated cost against Pontryagin's principle, on fresh random initial states that no solver has seen.
The default tests use a few states; those of `make bench` the full counts.
"""

from dataclasses import replace
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import lsq_linear

import flm
from flm.control.solve import Adam, Penalty, Reduced
from flm.control.solve.networks import Networks
from flm.problems import (
    double_integrator,
    linear_quadratic,
    minimum_time,
    pendulum,
    rock_paper_scissors,
    rpssl,
    van_der_pol,
)
from flm.references import pontryagin, riccati
from flm.series import lattice

DISK = flm.Ball((0.2, 0.2, 0.6), 0.15)
HYPERDISK = flm.Ball((0.11, 0.11, 0.11, 0.11, 0.56), 0.045)
# Shooting with DOP853 at rtol 1e-12 (research), an independent code from solve_bvp.
SHOOTING = {(0.2, 0.2, 0.6): 0.232988434229, (0.1, 0.3, 0.6): 0.372353018597, (0.3, 0.15, 0.55): 0.215976312575}
SMALL = Penalty(epochs=1000, state_subnets=2, control_subnets=3, polish=0)  # two tests, one program


# --- the paper's game -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("start", SHOOTING)
def test_fixed_start_with_five_subnetworks(start):
    """At most 1e-5 % (the paper: 0.34 to 0.47 %)."""
    solution = flm.solve(rock_paper_scissors(start), tol=1e-8, num_subnets=5)
    assert solution.num_subnets == 5
    excess = solution.cost() / SHOOTING[start] - 1
    assert -1e-10 < excess <= 1e-7
    assert excess <= solution.error_estimate <= excess + 1e-9
    assert solution.converged == (solution.error_estimate <= 1e-8)


@lru_cache
def on_disks(count):
    """Fresh random states on each of the three disks, with their optimal costs."""
    problem = rock_paper_scissors(DISK)
    starts = [problem.sample(count, seed=100 + image, image=image) for image in range(3)]
    return [(x0, problem.optimal_costs(x0)) for x0 in starts]


def check_disks(solution, count, limit):
    errors = []
    for x0, truth in on_disks(count):
        comparison = solution.compare(truth, x0)
        assert comparison.mape <= limit
        assert comparison.percentage_errors.min() > -1e-6  # an achievable cost is never below the optimum
        errors.append(comparison)
    return errors


@pytest.mark.slow
def test_the_disk_and_its_images(family):
    """Mean at most 1e-3 % on each of the three disks (the paper: 0.81, 0.85, 0.72 %)."""
    assert family.converged
    for comparison in check_disks(family, 2, 1e-3):
        assert comparison.worst <= 100 * family.error_estimate * 3 + 1e-6


@pytest.mark.bench
def test_the_disk_and_its_images_in_full():
    check_disks(flm.solve(rock_paper_scissors(DISK), tol=1e-8), 100, 1e-3)


@pytest.mark.slow
def test_a_given_size_has_learned_frequencies():
    """N = 8: mean at most 1e-2 %, and the frequencies have moved off their lattice."""
    solution = flm.solve(rock_paper_scissors(DISK), num_subnets=8)
    assert solution.num_subnets == 8
    lattice = np.round(solution.law.frequencies / (np.pi / 8), 6)
    assert np.abs(lattice - np.round(lattice)).max() > 1e-4
    check_disks(solution, 2, 1e-2)


@pytest.mark.bench
def test_the_papers_size_with_learned_frequencies_in_full():
    """The paper's N = 27: mean at most 1e-4 %."""
    check_disks(flm.solve(rock_paper_scissors(DISK), num_subnets=27), 100, 1e-4)


@pytest.mark.slow
def test_five_strategies():
    """Within the tolerance in the hyperdisk (the paper: 0.67 %); the full test has 1e-6."""
    five = flm.solve(rpssl(HYPERDISK), tol=1e-3)
    assert five.compare("pontryagin", num_starts=1, seed=11).mape <= 1e-2
    assert five.converged


@pytest.mark.bench
def test_five_strategies_in_full():
    solution = flm.solve(rpssl(HYPERDISK), tol=1e-6)
    assert solution.compare("pontryagin", num_starts=50, seed=12).mape <= 1e-3


@pytest.mark.slow
def test_the_papers_penalty_method(penalized):
    """Network cost within 1 % of the optimum, and within 0.02 points of the bias law once converged."""
    solution, optimum = penalized, SHOOTING[0.2, 0.2, 0.6]
    network = 100 * (solution.network_cost() / optimum - 1)
    predicted = 100 * solution.predicted_bias() / optimum
    assert abs(network) < 1.0
    assert -0.7 < predicted < -0.5
    assert abs(network - predicted) < 0.02
    # The networks' own cost is below the optimum: it cannot be had.
    assert network < 0 < solution.cost() / optimum - 1 < 1e-4
    t = np.linspace(0, 6, 25)
    x = solution.networks.coordinates(t / 6, np.array([[0.2, 0.2]]))[0]
    np.testing.assert_allclose(x, solution.trajectory(t)[:, :2], atol=5e-3)


def test_the_papers_settings_have_names():
    family, five = Penalty.paper_family(), Penalty.paper_rpssl(epochs=10)
    assert (family.state_subnets, family.control_subnets, family.num_starts) == (27, 27, 250)
    assert (family.learning_rate, family.betas) == (5e-4, (0.95, 0.97))
    assert (five.state_subnets, five.control_subnets, five.betas, five.epochs) == (16, 32, (0.95, 0.97), 10)


@pytest.mark.slow
def test_the_penalty_method_on_a_disk():
    """A third of the paper's disk, with small networks at a higher rate: networks, simulation and bias law are of its size."""
    method = Penalty.paper_family(
        epochs=3000, nodes=21, num_starts=12, learning_rate=3e-3, state_subnets=9, control_subnets=8, polish=0
    )
    solution = flm.solve(rock_paper_scissors(flm.Ball((0.2, 0.2, 0.6), 0.05)), method=method)
    found = solution.compare(num_starts=2, seed=21)
    law = 100 * np.abs(solution.predicted_bias(found.x0) / found.reference).mean()
    assert solution.num_subnets == 8
    assert solution.networks.frequencies.shape == (2, 9, 3)
    assert solution.status.word == "size"
    assert found.network_mape < 2.0
    assert found.mape < 2.0
    assert 0.4 < law < 1.0


@pytest.mark.slow
def test_a_growing_penalty_finds_the_optimum_sooner():
    """With the whole penalty from the start, Adam creeps along the trajectories that it found first."""
    excess = {}
    for ramp in (0.9, 0.0):
        method = Penalty.paper_fixed(epochs=2000, ramp=ramp, polish=0)  # at 0.9 the program of `penalized`
        excess[ramp] = flm.solve(rock_paper_scissors(), method=method).cost() / SHOOTING[0.2, 0.2, 0.6] - 1
    assert 0 < excess[0.9] < 0.1 * excess[0.0]


def test_networks_are_their_series():
    rng = np.random.default_rng(0)
    networks = Networks.start(lattice(3, 6), 2, jax.random.key(0))._replace(amplitudes=rng.standard_normal((6, 4, 2)))
    s, z, units = np.linspace(0, 1, 5), rng.uniform(-1, 1, (4, 2)), np.arange(1, 4.0)
    series = flm.PhaseSeries(networks.frequencies * units, networks.amplitudes, networks.phases)
    points = np.array([[a, *b] for a in s for b in z])
    values, slopes = np.split(np.asarray(jax.jit(partial(networks.values, slopes=True))(units, s, z)), 2, axis=1)
    for found, known in ((values, series(points)), (slopes, series.d((0,))(points))):
        np.testing.assert_allclose(np.moveaxis(found, 0, -1).reshape(20, -1), known.reshape(20, -1), atol=1e-12)


@pytest.mark.slow
def test_the_penalty_method_keeps_terminal_constraints():
    tied = flm.solve(double_integrator(largest=None), method=SMALL)
    assert np.abs(tied.networks.coordinates(np.ones(1), np.array([[1.0, 0.0]]))).max() < 0.05


@pytest.mark.slow
def test_adam_on_the_reduced_problem():
    """A regulator for a whole interval of starts, with a terminal cost: near the Riccati answer, and it says how near."""
    matrices = -1.0, 1.0, 1.0, 1.0, 0.5
    problem = linear_quadratic(*matrices, initial=flm.Box(x1=(0.5, 1.5)), horizon=1.0)
    method = Reduced(adam=Adam(epochs=600, steps=10, num_starts=5))
    solution = flm.solve(problem, method=method, num_subnets=6)
    assert solution.num_subnets == 6
    assert solution.method == "reduced"
    x0 = problem.sample(5, seed=1)
    worst = solution.compare(riccati(*matrices, 1.0, x0).cost, x0).worst / 100
    assert 0 < worst < 1e-3
    assert worst <= 2 * solution.error_estimate


@pytest.mark.bench
def test_adam_on_a_family():
    """The paper's size in 1,000 epochs on 60 starts: mean at most 1e-2 %."""
    solution = flm.solve(rock_paper_scissors(DISK), method=Reduced(adam=Adam(num_starts=60)), num_subnets=27)
    assert solution.num_subnets == 27
    check_disks(solution, 4, 1e-2)


# --- problems with known answers --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_linear_quadratic_against_riccati():
    """Within 1e-8 of the Riccati cost, for one state and for a ball."""
    problem = linear_quadratic()
    matrices = ((0.0, 1.0), (-1.0, 0.5)), ((0.0,), (1.0,)), np.eye(2), ((0.5,),), None, 5.0
    solution = flm.solve(problem, tol=1e-10)
    np.testing.assert_allclose(solution.cost(), riccati(*matrices, (1.0, 0.0)).cost[0], rtol=1e-8)
    ball = flm.solve(linear_quadratic(initial=flm.Ball((1.0, 0.5), 0.5)), tol=1e-8)
    x0 = ball.problem.sample(20, seed=0)
    np.testing.assert_allclose(ball.cost(x0), riccati(*matrices, x0).cost, rtol=1e-8)


def test_two_controls_and_a_terminal_cost():
    A, B = ((0.0, 1.0), (0.5, -0.2)), ((1.0, 0.0), (0.2, 1.0))
    R, S = ((1.0, 0.1), (0.1, 2.0)), ((2.0, 0.3), (0.3, 1.0))
    solution = flm.solve(linear_quadratic(A, B, np.eye(2), R, S, horizon=2.0), tol=1e-8)
    assert solution.series.amplitudes.shape[-1] == 2
    truth = riccati(A, B, np.eye(2), R, S, 2.0, (1.0, 0.0))
    np.testing.assert_allclose(solution.cost(), truth.cost[0], rtol=1e-8)
    np.testing.assert_allclose(solution.control(0.0), -truth.gain(0.0) @ [1.0, 0.0], atol=2e-3)


def test_bounds_are_never_left_and_corners_are_exact():
    """The double integrator: u = clip(k (t - T/2))."""
    largest = 1.25
    solution = flm.solve(double_integrator(largest=largest), tol=1e-8)
    t = np.linspace(0, 2, 2001)
    u = solution.control(t)
    assert np.abs(u).max() <= largest
    assert (np.abs(u) == largest).sum() > 100
    a = np.sqrt(3 * (1 - 1 / largest))
    np.testing.assert_allclose(u, np.clip(largest * (t - 1) / a, -largest, largest), atol=2e-4)
    truth = largest**2 * (1 - a) + largest**2 * a / 3
    np.testing.assert_allclose(solution.cost(), truth, rtol=1e-8)
    assert solution.violation() < 1e-8
    np.testing.assert_allclose(solution.trajectory(2.0), [0.0, 0.0], atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [(None, 0.5), (-0.2, None)])
def test_one_sided_bounds(bounds):
    problem = van_der_pol(horizon=3.0, bounds=bounds)
    solution = flm.solve(problem, tol=1e-6)
    u = solution.control(np.linspace(0, 3, 1001))
    low, high = (-np.inf if bounds[0] is None else bounds[0]), (np.inf if bounds[1] is None else bounds[1])
    assert u.min() >= low
    assert u.max() <= high
    np.testing.assert_allclose(solution.cost(), pontryagin(problem, tol=1e-6).cost, rtol=1e-6)  # its cost: to 1e-8


@pytest.mark.slow
def test_a_free_final_time():
    """T⁴ = 18 effort x², cost 4T/3; for a set of starts the final time is a series of the start."""
    solution = flm.solve(minimum_time(), tol=1e-8)
    np.testing.assert_allclose(solution.horizon(), 1.8**0.25, rtol=1e-5)
    np.testing.assert_allclose(solution.cost(), 4 * 1.8**0.25 / 3, rtol=1e-8)
    family = flm.solve(minimum_time(flm.Box(x=(0.9, 1.1), v=(-0.02, 0.02))), tol=1e-4)
    x = np.array([0.92, 1.0, 1.07])
    starts = np.column_stack([x, np.zeros(3)])
    np.testing.assert_allclose(family.cost(starts), 4 * (1.8 * x**2) ** 0.25 / 3, rtol=2e-4)
    np.testing.assert_allclose(family.horizon(starts), (1.8 * x**2) ** 0.25, rtol=1e-3)
    assert family.violation(starts).max() < 1e-4


@pytest.mark.slow
def test_a_path_constraint():
    """Follow sin(3t) but stay at or below one half: against bounded least squares on 200 values of x."""
    problem = flm.OptimalControl(
        lambda u: (u,), lambda t, x, u: 0.5 * u**2 + 4.0 * (x - jnp.sin(3 * t)) ** 2, 1.0, ("x",), ("u",), initial=[0.0],
        path=lambda x: x - 0.5,
    )  # fmt: skip
    solution = flm.solve(problem, tol=3e-4)
    assert solution.violation() < 1e-3
    assert solution.trajectory(np.linspace(0, 1, 301)).max() < 0.501
    t, h = np.linspace(0, 1, 201), 1 / 200
    weights = 2 * np.sqrt(h * np.where((t == 0) | (t == 1), 0.5, 1.0))  # of the trapezoidal rule
    slopes = np.diff(np.eye(201), axis=0) / np.sqrt(2 * h)
    rows = np.vstack([slopes, np.diag(weights)])[:, 1:]  # x(0) = 0
    found = lsq_linear(rows, np.append(np.zeros(200), weights * np.sin(3 * t)), bounds=(-np.inf, 0.5))
    np.testing.assert_allclose(solution.cost(), 2 * found.cost, rtol=2e-4)


@pytest.mark.slow
def test_swinging_up_a_pendulum():
    """Many corners and several extremals: the guesses find a swing that direct collocation from rest does not."""
    solution = flm.solve(pendulum((1.0, 0.0)), tol=1e-5)
    assert solution.converged
    assert np.abs(solution.control(np.linspace(0, 8, 801))).max() <= 0.7
    assert solution.cost() < 4.7505


@pytest.mark.slow
def test_bounded_families():
    problem = van_der_pol(flm.Box(x1=(-0.02, 0.02), x2=(0.98, 1.02)), horizon=3.0)
    solution = flm.solve(problem, tol=1e-4)
    x0 = problem.sample(1, seed=4)
    u = solution.control(np.linspace(0, 3, 401), x0)
    assert np.abs(u).max() <= 1.0
    assert solution.compare("pontryagin", x0).worst < 1e-2


# --- tolerance, status, interruption ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_tolerance_is_what_is_got():
    for tol in (1e-3, 1e-10):
        solution = flm.solve(rock_paper_scissors((0.1, 0.3, 0.6)), tol=tol)
        excess = solution.cost() / SHOOTING[0.1, 0.3, 0.6] - 1
        assert solution.converged
        assert excess <= tol
        assert solution.error_estimate <= tol
        assert str(solution.status).endswith(f"is within the tolerance {tol:.1e}.")


def test_what_is_said_when_the_tolerance_is_not_met():
    solution = flm.solve(rock_paper_scissors((0.1, 0.3, 0.6)), tol=1e-10, max_columns=12)
    assert not solution.converged
    assert str(solution.status).startswith(
        "stopped at the allowed number of columns; raise `max_columns` or `tol`; the error"
    )
    with pytest.raises(
        ValueError, match=r"^`max_columns` must be at least 32 for 2 varying coordinates of the start and 1"
    ):
        flm.solve(rock_paper_scissors(DISK), max_columns=10)


def test_methods_by_name_and_refusals():
    with pytest.raises(ValueError, match=r"got 'reduce'\. Did you mean 'reduced'\?$"):
        flm.solve(rock_paper_scissors(), method="reduce")
    with pytest.raises(ValueError, match=r"^`method` must be 'reduced' for a free horizon; got 'penalty'\.$"):
        flm.solve(minimum_time(), method="penalty")
    with pytest.raises(
        ValueError, match=r"^`method` must be 'reduced', 'penalty' or settings such as flm\.Reduced\(\); got 3\.$"
    ):
        flm.solve(rock_paper_scissors(), method=3)
    with pytest.raises(ValueError, match=r"^`adam` must be used on problems with a fixed horizon"):
        flm.solve(minimum_time(), method=Reduced(adam=Adam()))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["reduced", "penalty"])
def test_an_interruption_returns_the_best_so_far(method):
    steps = []

    def stop(entry):
        steps.append(entry)
        if len(steps) == 2:
            raise KeyboardInterrupt

    chosen, problem = method, rock_paper_scissors((0.1, 0.3, 0.6))
    if method == "penalty":
        chosen, problem = replace(SMALL, polish=3000), double_integrator(largest=None)
    solution = flm.solve(problem, tol=1e-13, method=chosen, progress=stop)
    assert solution.status.word == "interrupted"
    assert str(solution.status).startswith("interrupted; this is the best answer so far")
    assert np.isfinite(solution.cost())
    if method == "penalty":
        assert solution.num_subnets == 3
        assert solution.networks.frequencies.shape == (2, 2, 1)


def test_an_interrupted_family_still_has_a_law():
    def stop(entry):
        raise KeyboardInterrupt

    solution = flm.solve(rock_paper_scissors(DISK), progress=stop)
    assert solution.status.word == "interrupted"
    assert solution.error_estimate == np.inf
    # The middle start's own control, rough but sensible for its neighbors.
    assert solution.cost((0.2, 0.2, 0.6)) / SHOOTING[0.2, 0.2, 0.6] - 1 < 0.05


@pytest.mark.slow
def test_history_has_lists_of_equal_length(family):
    assert set(family.history) == {"columns", "estimate", "error_estimate", "seconds", "stage"}
    assert {len(values) for values in family.history.values()} == {len(family.history["stage"])}
    assert family.history["seconds"] == sorted(family.history["seconds"])
    assert family.history["error_estimate"][-1] == family.error_estimate


@pytest.mark.slow
def test_progress_is_printed_when_asked_for_and_the_same_seed_gives_the_same_law(capsys):
    solution = flm.solve(rock_paper_scissors(), tol=1e-3, seed=3, progress=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(solution.history["stage"]) >= 2
    assert all(line.startswith("start, ") and " columns, estimate 2.3" in line for line in lines)
    again = flm.solve(rock_paper_scissors(), tol=1e-3, seed=3)
    np.testing.assert_array_equal(again.law.coefficients, solution.law.coefficients)
    assert capsys.readouterr().out == ""


def test_linear_controls_without_bounds_are_said_to_be_singular():
    problem = flm.OptimalControl(lambda u: (u,), lambda x, u: x**2 + 0.0 * u, 1.0, ("x",), ("u",), initial=[1.0])
    solution = flm.solve(problem, tol=1e-6, max_columns=30)
    assert not solution.converged
