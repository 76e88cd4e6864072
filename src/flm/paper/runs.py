"""The single computations behind the paper's tables and figures, as runners of a study, from a definition to numbers.

Each returns plain lists, so that the store holds all that a page draws and the page can be made again without computing.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from flm.study.runs import named_problem, train_solution
from flm.study.store import Definition, Record

if TYPE_CHECKING:
    from flm.control.problem import OptimalControl
    from flm.control.solution import ControlSolution
    from flm.results import Solution

SURFACE = 51  # points along each axis of a drawn surface
CURVE = 101  # points along a drawn trajectory


def train_surface(definition: Definition) -> Record:
    """The paper's recipe on a PDE: the scores of `flm.study.runs.train`, and the surfaces."""
    solution, scores = train_solution(definition)
    return scores | {"surface": surface(solution)}


def solve_pde(definition: Definition) -> Record:
    """Our solver on a PDE, with `size` sub-networks, or to the tolerance of `training` where the size is 0."""
    from flm.dispatch import solve

    problem = named_problem(definition["problem"])
    wanted = definition["training"]
    options = {"num_subnets": definition["size"]} if definition["size"] else {"tol": wanted["tol"]}
    solution = solve(problem, **options)
    found = asdict(solution.errors()) | {"error_estimate": float(solution.error_estimate)}
    return found | ({"surface": surface(solution)} if wanted.get("surface") else {})


def surface(solution: Solution) -> Record:
    """Exact values, found values and absolute errors on an even grid, with its two axes."""
    (first, second), found = solution.on_grid(SURFACE)
    points = np.stack([g.ravel() for g in np.meshgrid(first, second, indexing="ij")], axis=1)
    assert solution.exact is not None, "problems of the paper have exact solutions"
    exact = np.asarray(solution.exact(points)).reshape(found.shape)
    return {
        "axes": list(solution.axes),
        "lines": [_digits(first), _digits(second)],
        "exact": [_digits(row) for row in exact],
        "found": [_digits(row) for row in found],
        "error": [_digits(row) for row in np.abs(found - exact)],
    }


def control_fixed(definition: Definition) -> Record:
    """Rock–Paper–Scissors from one state: the cost against Pontryagin's principle, and the trajectories of both."""
    from flm.problems import rock_paper_scissors
    from flm.references import pontryagin

    wanted = definition["training"]
    problem = rock_paper_scissors(wanted["start"])
    reference = pontryagin(problem, tol=1e-10, max_nodes=20_000)
    solution = _solve_control(problem, definition)
    t = np.linspace(0.0, problem.numbers[-1], CURVE)
    return _costs(solution, wanted["start"], np.array([reference.cost])) | {
        "times": _digits(t),
        "states": [_digits(row) for row in solution.trajectory(t, wanted["start"])],
        "control": _digits(solution.control(t, wanted["start"]).ravel()),
        "reference_states": [_digits(row) for row in reference.states(t)],
        "reference_control": _digits(np.asarray(reference.controls(t)).ravel()),
    }


def control_family(definition: Definition) -> Record:
    """A law for a ball of initial states, scored on fresh random ones, for each symmetric image asked for."""
    wanted = definition["training"]
    family = definition["problem"], tuple(wanted["center"]), wanted["radius"]
    solution = _solve_control(_family(*family), definition)
    parts = []
    for image in wanted["images"]:
        x0, truth = _optimal(*family, wanted["states"], image)
        parts.append(_costs(solution, x0, truth) | {"starts": [_digits(row) for row in x0]})
    return {"parts": parts, "subnets": int(solution.num_subnets)}


def _family(name: str, center: tuple[float, ...], radius: float) -> OptimalControl:
    from flm import problems
    from flm.domains import Ball

    return getattr(problems, name)(Ball(center, radius))


@lru_cache(maxsize=8)  # seeds of one law are scored on the same states
def _optimal(
    name: str, center: tuple[float, ...], radius: float, states: int, image: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fresh random states of one symmetric image, and their optimal costs."""
    problem = _family(name, center, radius)
    x0 = problem.sample(states, seed=1000 + image, image=image)
    return x0, problem.optimal_costs(x0)


def _solve_control(problem: OptimalControl, definition: Definition) -> ControlSolution:
    """The paper's penalty method where `training` names its settings, else our solver."""
    from flm.control.solve import Penalty
    from flm.dispatch import solve

    wanted = definition["training"]
    if "recipe" in wanted:  # Adam alone, as in the paper: no Newton steps after it
        method = getattr(Penalty, wanted["recipe"])(polish=0, epochs=wanted["epochs"])
        return solve(problem, method=method, seed=definition["seed"])
    if definition["size"]:
        return solve(problem, num_subnets=definition["size"], seed=definition["seed"])
    return solve(problem, tol=wanted["tol"], seed=definition["seed"])


def _costs(solution: ControlSolution, x0: npt.ArrayLike, truth: np.ndarray) -> Record:
    found = solution.compare(truth, np.atleast_2d(np.asarray(x0, float)))
    return {
        "mape": float(found.mape),
        "mae": float(found.mae),
        "network_mape": float(found.network_mape),
        "network_mae": float(np.abs(found.network_cost - truth).mean()),
        "law_mape": float(100 * np.abs(solution.predicted_bias(found.x0) / truth).mean()),
        "percent": _digits(np.abs(found.percentage_errors)),
        "absolute": _digits(np.abs(found.cost - found.reference)),
    }


def _digits(values: npt.ArrayLike) -> list[float]:
    return [float(f"{v:.6g}") for v in np.asarray(values, float)]
