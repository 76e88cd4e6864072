"""Slabs in time: pressing Ctrl-C, and kinks at the start over a plane."""

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.pde.pieces.marching import Marching
from flm.pde.pieces.planes import PlaneSlabs
from flm.pde.pieces.setup import set_up
from flm.pde.pieces.solve import as_model
from flm.results import Record


def front():
    """Fisher's front, which moves obliquely through a square."""
    rate = 0.07**2 / 6
    exact = lambda x, y, t: (1 + jnp.exp(((x + y) / np.sqrt(2) - 0.5 - 5 * np.sqrt(rate / 6) * t) / 0.07)) ** -2
    return flm.PDE(
        flm.Box(x=(0, 1), y=(0, 1), t=(0, 1)),
        lambda u, u_t, u_xx, u_yy: u_t - rate * (u_xx + u_yy) - u * (1 - u),
        [flm.initial(lambda x, y: exact(x, y, 0.0)), flm.dirichlet("boundary", exact)],
        exact=exact,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "tol"),
    [
        (flm.problems.lotka_volterra(10.0), 1e-8),
        (flm.problems.viscous_burgers(viscosity=0.05), 1e-4),
        (front(), 1e-3),
    ],
    ids=["time alone", "a line", "a plane"],
)
def test_control_c_keeps_what_was_marched(problem, tol):
    ends = []

    def progress(step):
        if step.stage == "slab":
            ends.append(step.extras["until"])
            if len(ends) == 2:
                raise KeyboardInterrupt

    solution = flm.solve(problem, tol, method="pieces", progress=progress)
    assert solution.status.word == "stopped"
    assert "interrupted" in solution.status.sentence
    assert solution.trusted_until == ends[-1] < problem.domain.bounds[-1, 1]
    assert solution.error_estimate == np.inf
    assert solution.estimate_until <= tol
    points = problem.domain.interior(200, seed=1, warp=False)
    with pytest.warns(UserWarning, match="outside of what was solved"):
        values = np.asarray(solution(points)).reshape(len(points), -1)
    assert np.array_equal(np.isnan(values).any(axis=1), points[:, -1] > ends[-1])


@pytest.mark.slow
def test_a_kink_at_the_start_spreads_over_a_plane():
    """A tent in x, its top where no cut by halves meets it, times a sine: both decay by the heat equation."""
    top, rate = 0.3, 0.1
    k = np.arange(1, 400)
    weights = 2 * np.sin(k * np.pi * top) / (k * np.pi) ** 2 / (top * (1 - top))

    def exact(x, y, t):
        x, y, t = (np.asarray(v, float) for v in (x, y, t))
        waves = np.sin(np.pi * np.multiply.outer(x, k)) * np.exp(-rate * np.pi**2 * np.multiply.outer(t, k**2 + 1))
        return waves @ weights * np.sin(np.pi * y)

    problem = flm.PDE(
        flm.Box(x=(0, 1), y=(0, 1), t=(0, 1)),
        lambda u_t, u_xx, u_yy: u_t - rate * (u_xx + u_yy),
        [
            flm.initial(lambda x, y: jnp.minimum(x / top, (1 - x) / (1 - top)) * jnp.sin(np.pi * y)),
            *(flm.dirichlet(side) for side in ("x=0", "x=1", "y=0", "y=1")),
        ],
    )
    pieces = Marching(PlaneSlabs(set_up(problem), 3e-3, 10**6), 3e-3, np.inf, Record()).run()
    assert pieces.ending.word == "converged"
    model = as_model(pieces.answers, problem.axes, 1, (0, 1, 2))
    points = problem.domain.interior(1500, seed=2, warp=False)
    truth = exact(*points.T)
    assert np.linalg.norm(np.asarray(model(points)) - truth) <= 2 * pieces.bar * np.linalg.norm(truth)
