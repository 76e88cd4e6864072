"""Control problems that several files ask about, solved once."""

import pytest

import flm
from flm.problems import rock_paper_scissors


@pytest.fixture(scope="session")
def family():
    """The paper's game on its disk of initial states."""
    return flm.solve(rock_paper_scissors(flm.Ball((0.2, 0.2, 0.6), 0.15)), tol=1e-5)


@pytest.fixture(scope="session")
def single():
    """The paper's game from one initial state, with three sub-networks."""
    return flm.solve(rock_paper_scissors(), tol=1e-8, num_subnets=3)


@pytest.fixture(scope="session")
def penalized():
    """The paper's penalty method from one initial state, converged: with so few epochs BFGS has to finish what Adam began."""
    return flm.solve(rock_paper_scissors(), method=flm.Penalty.paper_fixed(epochs=2000, polish=350))
