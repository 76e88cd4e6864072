"""Optimal control: accuracy beside the paper's, and the cost of one more initial state beside solve_bvp and IPOPT.

    python benchmarks/control.py                 (needs the extra `references` for IPOPT; a few minutes)
    python benchmarks/control.py --penalty 1500  (adds the paper's penalty method on the family, with that many epochs)

Errors are of the cost of the simulated dynamics against Pontryagin's principle (solve_bvp, tolerance 1e-8), on fresh
random initial states. Times are processor seconds of one process with one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import argparse
import importlib.util
import time
from unittest import mock

import numpy as np
from collocation import collocation
from scipy.integrate import solve_bvp

import flm
from flm import Adam, Penalty, Reduced
from flm.paper.printed import DISKS, FIVE_STRATEGIES, FIXED_STARTS
from flm.problems import rock_paper_scissors, rpssl
from flm.references import pontryagin

DISK = flm.Ball((0.2, 0.2, 0.6), 0.15)
HYPERDISK = flm.Ball((0.11, 0.11, 0.11, 0.11, 0.56), 0.045)
FIXED = dict(zip([(0.2, 0.2, 0.6), (0.1, 0.3, 0.6), (0.3, 0.15, 0.55)], FIXED_STARTS, strict=True))
PAPER = {f"disk {center}": printed for center, printed in DISKS.items()}


def timed(function, *arguments, **options):
    """The result and the processor seconds of a call."""
    began = time.process_time()
    result = function(*arguments, **options)
    return result, time.process_time() - began


def row(*cells):
    print("| " + " | ".join(f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells) + " |", flush=True)


def head(*cells):
    row(*cells)
    print("|" + "---|" * len(cells))


def fixed_starts():
    print("\n### Fixed start, N = 5\n")
    head("start", "error, %", "estimate, %", "s, warm", "paper, %")
    for start, paper in FIXED.items():
        problem = rock_paper_scissors(start)
        flm.solve(problem, num_subnets=5)
        solution, seconds = timed(flm.solve, problem, num_subnets=5)
        optimum = pontryagin(problem, tol=1e-10, max_nodes=20_000).cost
        row(start, 100 * (solution.cost() / optimum - 1), 100 * solution.error_estimate, seconds, paper)


def disks(count):
    """The family on the disk, three ways, scored on the three disks."""
    problem = rock_paper_scissors(DISK)
    # Image 2 is the disk around (0.2, 0.6, 0.2), image 1 the one around (0.6, 0.2, 0.2).
    starts = [problem.sample(count, seed=1000 + image, image=image) for image in (0, 2, 1)]
    truths, reference_seconds = timed(lambda: [problem.optimal_costs(x0) for x0 in starts])
    truths = dict(zip((name for name in PAPER), zip(starts, truths, strict=True), strict=True))
    print(f"\n### Varying start, {count} fresh states on each disk\n")
    head("method", "disk", "MAPE, %", "largest, %", "MAE", "s", "paper MAPE, %", "paper MAE")
    runs = {
        "tolerance 1e-8": {"tol": 1e-8},
        "tolerance 1e-5": {"tol": 1e-5},
        "N = 27, learned frequencies": {"num_subnets": 27},
        "N = 27, Adam 1e-2, 1000 epochs": {"num_subnets": 27, "method": Reduced(adam=Adam())},
    }
    first = None
    for name, options in runs.items():
        solution, seconds = timed(flm.solve, problem, **options)
        first = first or solution
        for place, (x0, truth) in truths.items():
            found = solution.compare(truth, x0)
            row(
                f"{name} (N = {solution.num_subnets})",
                place,
                found.mape,
                found.worst,
                found.mae,
                seconds,
                *PAPER[place],
            )
    return first, reference_seconds / (3 * count)


def five_strategies(count):
    problem = rpssl(HYPERDISK)
    x0 = problem.sample(count, seed=2000)
    truth = problem.optimal_costs(x0)
    print(f"\n### Five strategies, {count} fresh states\n")
    head("method", "MAPE, %", "largest, %", "MAE", "s", "paper MAPE, %", "paper MAE")
    for name, options in {"tolerance 1e-6": {"tol": 1e-6}, "tolerance 1e-8": {"tol": 1e-8}}.items():
        solution, seconds = timed(flm.solve, problem, **options)
        found = solution.compare(truth, x0)
        row(f"{name} (N = {solution.num_subnets})", found.mape, found.worst, found.mae, seconds, *FIVE_STRATEGIES)


def penalty(epochs):
    print(f"\n### The paper's penalty method, μ = 1e4; families: {epochs} epochs\n")
    head("start", "J_net, %", "predicted, %", "J_sim, %", "s")
    for start in FIXED:
        problem = rock_paper_scissors(start)
        optimum = pontryagin(problem).cost
        solution, seconds = timed(flm.solve, problem, method=Penalty.paper_fixed())
        values = solution.network_cost() - optimum, solution.predicted_bias(), solution.cost() - optimum
        row(start, *(100 * value / optimum for value in values), seconds)
    cases = {
        "disk": (rock_paper_scissors(DISK), Penalty.paper_family(epochs=epochs, nodes=41)),
        "five strategies": (rpssl(HYPERDISK), Penalty.paper_rpssl(epochs=epochs // 5, nodes=41)),
    }
    for name, (problem, method) in cases.items():
        x0 = problem.sample(20, seed=3000)
        truth = problem.optimal_costs(x0)
        solution, seconds = timed(flm.solve, problem, method=method)
        found = solution.compare(truth, x0)
        bias = 100 * np.abs(solution.predicted_bias(x0) / truth).mean()
        row(f"{name}, {method.epochs} epochs", found.network_mape, -bias, found.mape, seconds)


def amortized(solution, bvp_seconds, count):
    """One more initial state: the law against a solve for each."""
    problem = solution.problem
    t, x0 = np.linspace(0.0, 6.0, 101), problem.sample(20_000, seed=5)
    solution.control(t, x0[:2000])
    _, law = timed(lambda: [solution.control(t, x0[i : i + 2000]) for i in range(0, len(x0), 2000)])
    solution.cost(x0[:256])
    _, simulated = timed(solution.cost, x0[:2048])
    law, simulated = law / len(x0), simulated / 2048
    print("\n### One more initial state\n")
    print(f"The law has {solution.num_subnets} sub-networks and took {solution.seconds:.1f} s (wall) to find.\n")
    head("what", "s per state", "times the law", "break-even, states")
    row("the law: 101 controls, 20,000 states at once", law, 1.0, "")
    row("the law, simulated to 1e-12 for its cost and states", simulated, simulated / law, "")
    rivals = {"solve_bvp, tolerance 1e-8": bvp_seconds}
    by_hand(x0[0])
    costs, seconds = timed(lambda: [by_hand(x) for x in x0[:count]])
    np.testing.assert_allclose(costs, solution.cost(x0[:count]), rtol=1e-7)
    rivals["solve_bvp, tolerance 1e-8, right-hand side written by hand"] = seconds / count
    _, rivals["solve_bvp, tolerance 1e-4"] = timed(lambda: [pontryagin(problem, x, tol=1e-4) for x in x0[:count]])
    rivals["solve_bvp, tolerance 1e-4"] /= count
    if importlib.util.find_spec("casadi"):
        for label, size in {"IPOPT, Radau 4 × 60": 60, "IPOPT, Radau 4 × 15": 15}.items():
            collocation(problem, x0[0], elements=size)
            _, seconds = timed(lambda size=size: [collocation(problem, x, elements=size) for x in x0[:count]])
            rivals[label] = seconds / count
        rivals["IPOPT, Radau 4 × 60, solver time alone"] = ipopt_alone(problem, x0[:count])
    began = time.process_time()
    flm.solve(problem, tol=1e-8)
    family = time.process_time() - began
    for name, seconds in rivals.items():
        row(name, seconds, seconds / law, int(np.ceil(family / max(seconds - law, 1e-12))))


def by_hand(x0, r=0.2, horizon=6.0):
    """The cost by solve_bvp with the game's Hamiltonian system written out in NumPy: what an expert would do for one game."""
    L, M = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]), np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    lift = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])  # du/dv

    def slope(t, y):
        u, p = np.vstack([y[:2], 1 - y[:2].sum(axis=0)]), y[2:4]
        payoff_l, payoff_m = L @ u, M @ u
        mean_m = (u * payoff_m).sum(axis=0)
        G = (u * (payoff_m - mean_m))[:2]
        gamma = -(p * G).sum(axis=0) / r
        total = payoff_l + gamma * payoff_m
        mean = gamma * mean_m  # u'Lu = 0
        rates = (u * (total - mean))[:2]
        # d/du of sum_i p_i u_i ((Au)_i - u'Au), then along the simplex
        A = L[..., None] + gamma * M[..., None]
        weight = (p * u[:2]).sum(axis=0)
        inner = np.vstack([p * (total - mean)[:2], np.zeros_like(mean)])
        inner = inner + np.einsum("ijm,im->jm", A[:2], p * u[:2])
        inner = inner - weight * (total + np.einsum("ijm,im->jm", A, u))
        state = lift.T @ (u - 1 / 3)
        cost = 0.5 * ((u - 1 / 3) ** 2).sum(axis=0) + 0.5 * r * gamma**2
        return np.vstack([rates, -state - lift.T @ inner, cost])

    ends = lambda a, b: np.array([a[0] - x0[0], a[1] - x0[1], b[2], b[3], a[4]])
    mesh = np.linspace(0.0, horizon, 41)
    guess = np.zeros((5, 41))
    guess[:2] = x0[:2, None] + (1 / 3 - x0[:2, None]) * mesh / horizon
    found = solve_bvp(slope, ends, mesh, guess, tol=1e-8, max_nodes=20_000)
    assert found.status == 0
    return found.y[4, -1]


def ipopt_alone(problem, x0):
    """Processor seconds per state of IPOPT itself: each program, once built and solved, is solved again from its start."""
    import casadi

    spent, solve = [], casadi.Opti.solve

    def again(opti):
        solve(opti)
        found, seconds = timed(lambda: solve(opti))
        spent.append(seconds)
        return found

    with mock.patch.object(casadi.Opti, "solve", again):
        for x in x0:
            collocation(problem, x)
    return sum(spent) / len(spent)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--states", type=int, default=100, help="fresh states on each disk")
    parser.add_argument("--penalty", type=int, default=0, help="epochs of the paper's penalty method on the family")
    arguments = parser.parse_args()
    fixed_starts()
    law, seconds = disks(arguments.states)
    five_strategies(max(2, arguments.states // 2))
    amortized(law, seconds, min(20, arguments.states))
    if arguments.penalty:
        penalty(arguments.penalty)
