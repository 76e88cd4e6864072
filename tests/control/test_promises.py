"""What a control law promises: true excess within twice the estimate on the whole set, constraints as met as is said, causes named."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import flm


def problem(dynamics, cost, horizon, states, initial, controls="u", **more):
    return flm.OptimalControl(dynamics, cost, horizon, states, controls, initial=initial, **more)


# --- families ---------------------------------------------------------------------------------------------------------


def test_held_out_starts_reach_the_edge():
    """All corners of a box of up to five coordinates, 32 of more; poles and more of a ball's rim; more starts for more coordinates."""
    counts = []
    for names in ("a", "abc", "abcdefg"):
        box = problem(lambda a, u: (u,) * len(names), lambda u: u**2, 1.0, tuple(names), flm.Box(**dict.fromkeys(names, (-1, 3))))  # fmt: skip
        found = box.starts.held_out(seed=1)
        corners = np.isin(found, (-1, 3)).all(axis=1)
        assert len(np.unique(found[corners], axis=0)) == min(2 ** len(names), 32)
        assert box.starts.contains(found).all()
        counts.append(len(found))
    assert counts == sorted(set(counts))
    ball = flm.problems.rock_paper_scissors(flm.Ball((0.2, 0.2, 0.6), 0.15)).starts
    distance = np.linalg.norm(ball.lift(ball.held_out(seed=1) - ball.center) - [0, 0, 1], axis=1)
    assert (np.abs(distance - 0.15) < 1e-12).sum() >= 8
    stretched = ball.lift(ball.spread(50, seed=0, stretch=1.05) - ball.center) - [0, 0, 1]
    assert (np.abs(np.linalg.norm(stretched, axis=1) - 0.15) < 1e-12).sum() >= 5


@pytest.mark.slow
def test_the_estimate_of_a_family_holds_in_the_corners():
    """Held-out starts that were all inside the box missed 3.7 times the estimate."""
    body = problem(
        lambda x, y, z, u, w: (y * z + u, -x * z + w, x * y - 0.5 * z), lambda x, y, z, u, w: x**2 + y**2 + z**2 + u**2 + w**2,
        2.0, "x y z", flm.Box(x=(-1, 1), y=(-1, 1), z=(0.5, 1.5)), "u w",
    )  # fmt: skip
    law = flm.solve(body, tol=1e-3)
    assert law.converged
    for corner in product((-1.0,), (-1.0, 1.0), (0.5, 1.5)):  # x -> -x, y -> -y, u -> -u, w -> -w changes nothing
        truth = flm.solve(replace(body, initial=corner), tol=1e-7).cost()
        assert law.cost(corner) / truth - 1 <= 2 * law.error_estimate
