"""`solve`: the tolerance and the methods of each kind of problem."""

import re

import pytest

import flm
from flm import dispatch

PROBLEMS = {
    "PDE": (flm.problems.heat(), 1e-8, "a name, a model that is linear in its amplitudes or None for a PDE"),
    "ConservationLaw": (flm.problems.burgers(), 1e-2, "None for a conservation law, which has one method"),
    "OptimalControl": (flm.problems.rock_paper_scissors(), 1e-4, None),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_tolerance_is_that_of_the_kind_of_problem_unless_it_is_given(name, monkeypatch):
    problem, tolerance, _ = PROBLEMS[name]
    kind = dispatch.kind_of(problem)._replace(solver=lambda problem, tol, **options: tol)
    monkeypatch.setattr(dispatch, "kind_of", lambda problem: kind)
    assert flm.solve(problem) == tolerance
    assert flm.solve(problem, 0.3) == 0.3


@pytest.mark.parametrize("kind", [kind for kind in PROBLEMS if PROBLEMS[kind][2]])
def test_settings_of_another_kind_of_problem_are_refused(kind):
    problem, _, words = PROBLEMS[kind]
    with pytest.raises((TypeError, ValueError), match=rf"^`method` must be {re.escape(words)}; got Reduced\("):
        flm.solve(problem, method=flm.Reduced())
