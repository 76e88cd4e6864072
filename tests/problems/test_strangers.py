"""Problems that others posed: the file and the function say the same, and small versions are solved truly."""

import os
from pathlib import Path

import numpy as np
import pytest
import references
from scipy.integrate import solve_ivp

import flm

FOLDER = Path(__file__).parents[2] / "examples/problems/strangers"
KEYWORDS = {"burgers": ("viscous_burgers", {"viscosity": 0.01 / np.pi}), "wave": ("wave", {"speed": 2.0})}


@pytest.mark.parametrize(
    "path", sorted(set(FOLDER.glob("*.toml")) - {FOLDER / "pleiades.toml"}), ids=lambda path: path.stem
)
def test_the_file_is_the_function(path):
    name, options = KEYWORDS.get(path.stem, (path.stem, {}))
    made, read = getattr(flm.problems, name)(**options), flm.problems.read_problem(path)
    assert (read.axes, read.unknowns) == (made.axes, made.unknowns)
    np.testing.assert_allclose(read.domain.bounds, made.domain.bounds)
    draw = np.random.default_rng(3)
    points = made.domain.interior(5, seed=1, warp=False)
    pairs = [*zip(made.equations, read.equations, strict=True), *zip(made.conditions, read.conditions, strict=False)]
    for mine, theirs in pairs[: len(made.equations) + 2]:
        table = {jet: draw.uniform(0.5, 1.5, len(points)) for jet in (*mine.residual.jets, *theirs.residual.jets)}
        values = [
            np.asarray(block.residual(points, np.stack([table[j] for j in block.residual.jets]), start))
            for block, start in ((mine, made.parameter_start), (theirs, read.parameter_start))
        ]
        assert np.allclose(*values, rtol=1e-12) or np.allclose(values[0], -values[1], rtol=1e-12)


def honest(solution, error):
    assert solution.converged
    assert error <= solution.tolerance
    assert error <= 2 * solution.error_estimate


def worst(found, wanted):
    return float(np.max(np.sqrt(np.mean((found - wanted) ** 2, axis=0) / np.mean(wanted**2, axis=0))))


@pytest.mark.parametrize(
    ("name", "end", "method"),
    [
        ("lotka_volterra", 5.0, "DOP853"),
        ("brusselator", 5.0, "DOP853"),
        ("robertson", 100.0, "Radau"),
        ("three_body", 1.0, "DOP853"),
    ],
)
def test_systems_against_scipy(name, end, method):
    problem = getattr(flm.problems, name)(end=end)
    solution = flm.solve(problem, 1e-6)
    slopes = {
        "lotka_volterra": (lambda t, y: [1.5 * y[0] - y[0] * y[1], y[0] * y[1] - 3 * y[1]], [1.0, 1.0]),
        "brusselator": (lambda t, y: [1 + y[0] ** 2 * y[1] - 4 * y[0], 3 * y[0] - y[0] ** 2 * y[1]], [1.5, 3.0]),
        "robertson": (
            lambda t, y: [
                -0.04 * y[0] + 1e4 * y[1] * y[2],
                0.04 * y[0] - 1e4 * y[1] * y[2] - 3e7 * y[1] ** 2,
                3e7 * y[1] ** 2,
            ],
            [1.0, 0.0, 0.0],
        ),
        "three_body": (_arenstorf, [0.994, 0.0, 0.0, -2.00158510637908252]),
    }
    slope, start = slopes[name]
    times = np.linspace(0, end, 101)
    wanted = solve_ivp(slope, (0, end), start, method, times, rtol=1e-11, atol=1e-13).y[: len(problem.unknowns)].T
    honest(solution, worst(np.asarray(solution(times[:, None])), wanted))


def _arenstorf(t, y):
    mu, x, z, u, v = 0.012277471, *y
    near, far = ((x + mu) ** 2 + z**2) ** 1.5, ((x - 1 + mu) ** 2 + z**2) ** 1.5
    return [
        u,
        v,
        x + 2 * v - (1 - mu) * (x + mu) / near - mu * (x - 1 + mu) / far,
        z - 2 * u - (1 - mu) * z / near - mu * z / far,
    ]


@pytest.mark.bench  # half a minute of compilation
def test_seven_stars_keep_their_momentum():
    problem = flm.problems.pleiades(end=0.2)
    solution = flm.solve(problem, 1e-5)
    times = np.linspace(0, 0.2, 21)
    masses = np.arange(1, 8)
    center = np.asarray(solution(times[:, None]))[:, :7] @ masses
    assert solution.converged
    np.testing.assert_allclose(center, center[0], rtol=1e-5)  # Σ m x' = 6 · 1.75 − 7 · 1.5 = 0


def test_a_ring_of_allen_and_cahn_against_etdrk4():
    solution = flm.solve(flm.problems.allen_cahn_periodic(1e-3), 1e-4)
    ring = references.Ring((2.0,), 512)
    x = ring.grid[0] - 1
    start = (x**2 * np.cos(np.pi * x)).astype(complex)
    kept = ring.march(5 - 1e-3 * ring.k[0] ** 2, lambda u, d: -5 * u.real**3, start, 1.0, 400).real
    t, at = np.meshgrid(np.linspace(0, 1, 11), x, indexing="ij")
    found = np.asarray(solution(np.stack([at.ravel(), t.ravel()], axis=1)))
    honest(solution, worst(found[:, None], kept.reshape(-1, 1)))


def test_a_square_with_holes_against_harmonic_functions():
    problem = flm.problems.poisson_holes()
    solution = flm.solve(problem, 1e-3)
    reference, bound = references.holes(16)
    assert bound < 1e-6
    points = problem.domain.interior(500, seed=2, warp=False)
    honest(solution, worst(np.asarray(solution(points))[:, None], reference(*points.T)[:, None]))


@pytest.mark.skipif("FLM_PINNACLE" not in os.environ, reason="FLM_PINNACLE does not name the benchmark's folder")
def test_the_benchmarks_own_file_is_met_to_its_accuracy():
    table = np.loadtxt(Path(os.environ["FLM_PINNACLE"]) / "poisson1_cg_data.dat", comments="%")
    solution = flm.solve(flm.problems.poisson_holes(), 1e-3)
    inside = solution.domain.contains(table[:, :2])
    found = np.asarray(solution(table[inside, :2]))[:, None]
    assert inside.mean() > 0.9
    assert worst(found, table[inside, 2:3]) < 1e-3  # the file itself is off by 3e-5
