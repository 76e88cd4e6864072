"""Optimal control: the cost of one more initial state by a law, beside solve_bvp and IPOPT.

    python benchmarks/control.py                 (needs the extra `references` for IPOPT; a few minutes)

Times are processor seconds of one process with one thread. How good laws are beside the paper's: `paper.py control`.
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
from flm.problems import rock_paper_scissors
from flm.references import pontryagin


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


def amortized(count):
    """One more initial state: the law of the paper's disk against a solve for each of `count` states."""
    problem = rock_paper_scissors(flm.Ball((0.2, 0.2, 0.6), 0.15))
    solution = flm.solve(problem, tol=1e-8)
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
    pontryagin(problem, x0[0])
    _, seconds = timed(problem.optimal_costs, x0[:count])
    rivals = {"solve_bvp, tolerance 1e-8": seconds / count}
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
    parser.add_argument("--states", type=int, default=20, help="fresh states that each rival solves")
    amortized(parser.parse_args().states)
