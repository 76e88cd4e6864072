"""Answers in pickles, as joblib and multiprocessing send them: like files, without the problem."""

import copy
import pickle

import numpy as np
import pytest

import flm
from flm.wording import InputError


def again(answer):
    return pickle.loads(pickle.dumps(answer))


def test_a_solution_is_pickled_without_its_problem():
    solution = flm.solve(flm.problems.heat())
    points = solution.domain.interior(20, seed=0)
    assert solution.domain.pieces  # made on first use, from functions
    found = again(solution)
    assert np.array_equal(found(points), solution(points))
    assert (found.status, found.axes, found.domain) == (solution.status, solution.axes, solution.domain)
    assert again(found["u"].d("x")).alpha == (1, 0)
    with pytest.raises(InputError, match="or a file or pickle left it out"):
        found.errors()
    assert copy.deepcopy(solution).errors() == copy.copy(solution).errors() == solution.errors()
    assert copy.deepcopy(solution).history is not solution.history


REGIONS = {
    "function": lambda: flm.Region(lambda x, y: x**2 + y**2 - 1, flm.Box(x=(-1.1, 1.1), y=(-1.1, 1.1))),
    "text": lambda: flm.Region("x^2 + y^2 - 1", flm.Box(x=(-1.1, 1.1), y=(-1.1, 1.1))),
    "combination": lambda: flm.Disk(x=0, y=0, radius=1) - flm.Disk(x=0, y=0, radius=0.5),
    "product": lambda: flm.Disk(x=0, y=0, radius=1) * flm.Box(t=(0, 1)),
    "ellipse": lambda: flm.Ellipse(x=0, y=0, a=1, b=2),
}


@pytest.mark.parametrize("name", REGIONS)
def test_regions_are_pickled_after_use(name):
    region = REGIONS[name]()
    points = region.interior(50, seed=0)
    assert region.pieces
    assert again(region.stored()).contains(points).all()


def test_a_control_solution_asks_for_its_problem():
    problem = flm.problems.linear_quadratic(A=-1.0, B=1.0, Q=1.0, R=1.0, initial=(1.0,), horizon=1.0)
    solution = flm.solve(problem, tol=1e-4)
    found = again(solution)
    assert np.array_equal(found.control([0.0, 0.5]), solution.control([0.0, 0.5]))
    with pytest.raises(InputError, match="this needs the problem"):
        found.cost()
    assert found.attach(problem).cost() == solution.cost()


def test_a_conservation_law_is_pickled():
    solution = flm.solve(flm.problems.burgers(), tol=1e-2)
    points = solution.test_points()[::100]
    assert np.array_equal(again(solution)(points), solution(points))
