"""Pontryagin's minimum principle as a two-point boundary value problem, solved by scipy's `solve_bvp`.

With normalized time s = t/T, coordinates v, Hamiltonian h = l + p.F and u* = argmin h over the box of controls

    v' = F(s, v, u*),  v(0) = v0;        p' = -h_v(s, v, u*, p),  p(1) = phi_v + nu . dh/dv;        J' = l.

Terminal constraints h(v(1)) = 0 add unknown multipliers nu; a free horizon adds log T as an unknown and its own
transversality condition. All derivatives come from automatic differentiation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.integrate import solve_bvp
from scipy.interpolate import PPoly

from flm.control.problem import OptimalControl
from flm.control.references.hamiltonian import Hamiltonian
from flm.wording import InputError, UnsolvedError


@dataclass(frozen=True, eq=False)
class PontryaginSolution:
    """An extremal: a trajectory that satisfies the minimum principle.

    Attributes:
        cost: J.
        horizon: T.
        residual: The largest relative residual of the differential equations.
        guess: Which guess led here.

    Example:
        >>> import flm
        >>> problem = flm.problems.linear_quadratic(A=-1.0, B=1.0, Q=1.0, R=1.0, initial=(1.0,), horizon=1.0)
        >>> answer = pontryagin(problem)
        >>> answer.controls([0.0]).round(4)
        array([[-0.3858]])
    """

    cost: float
    horizon: float
    residual: float
    guess: str
    _spline: PPoly
    _problem: OptimalControl
    _unknowns: np.ndarray

    def states(self, t: npt.ArrayLike) -> np.ndarray:
        """All states (R, n) at times t (R,)."""
        v = self._at(t)[: self._problem.equations.num_coordinates].T
        return self._problem.starts.lift(v)

    def costates(self, t: npt.ArrayLike) -> np.ndarray:
        """Costates (R, d) of the independent coordinates at times t (R,)."""
        d = self._problem.equations.num_coordinates
        return self._at(t)[d : 2 * d].T

    def controls(self, t: npt.ArrayLike) -> np.ndarray:
        """Controls (R, k) at times t (R,)."""
        s = np.asarray(t, float) / self.horizon
        return Hamiltonian(self._problem).minimize(s, self._at(t), self._unknowns).controls

    def _at(self, t: npt.ArrayLike) -> np.ndarray:
        return self._spline(np.asarray(t, float) / self.horizon)


def pontryagin(
    problem: OptimalControl,
    x0: npt.ArrayLike | None = None,
    *,
    tol: float = 1e-8,
    max_nodes: int = 5000,
    guesses: int = 6,
    compare_guesses: bool = False,
    seed: int = 0,
) -> PontryaginSolution:
    """The optimal cost and trajectory of one initial state, independent of the solvers of this library.

    Several guesses are tried in turn until one converges: a straight line to the state of least cost, the initial state,
    the uncontrolled trajectory, then random costates. Corners of bounded controls can keep the residual from `tol`: the
    tolerance is then loosened by up to 100, and `residual` says what was reached.

    Args:
        problem: An `OptimalControl` without path constraints, whose Hamiltonian is smooth and strictly convex in the
            controls.
        x0: The initial state; the problem's own when it has one.
        tol: Of `solve_bvp`.
        max_nodes: Of `solve_bvp`.
        guesses: How many to try.
        compare_guesses: Solve from every guess and return the cheapest extremal, not the first: the principle is
            necessary, not sufficient, and a problem can have several extremals.
        seed: For random guesses.

    Raises:
        ValueError: The problem has path constraints, or `x0` is not one state.
        RuntimeError: No guess converged; the message has each one's reason.

    Example:
        >>> from flm.problems import rock_paper_scissors
        >>> round(pontryagin(rock_paper_scissors()).cost, 9)
        0.232988434
    """
    equations = problem.equations
    if equations.path:
        raise InputError(
            "`problem` must have no path constraints for Pontryagin's principle; use flm.references.collocation."
        )
    v0 = problem.starts.one(x0)
    numbers, d = problem.numbers, equations.num_coordinates
    hamiltonian = Hamiltonian(problem)
    first = np.zeros(equations.num_terminal + equations.free)
    if equations.free:
        first[-1] = np.log(numbers[-1])
    if hamiltonian.is_linear(v0, first):
        raise UnsolvedError(
            "Pontryagin's two-point problem needs a Hamiltonian that is strictly convex in the controls; got one that is "
            "linear in some of them (bang-bang or singular arcs). Use flm.references.collocation, or add a small cost of control."
        )

    # `solve_bvp` passes unknowns, and wants derivatives by them, only when there are any.
    asked = lambda unknowns: unknowns[0] if unknowns else first
    rates = lambda s, y, *unknowns: hamiltonian.rates(s, y, asked(unknowns))
    jacobian = lambda s, y, *unknowns: hamiltonian.jacobian(s, y, asked(unknowns))[slice(None) if unknowns else 0]
    ends = lambda start, end, *unknowns: np.concatenate(
        [start[:d] - v0, [start[2 * d]], hamiltonian.at_end(end, asked(unknowns))]
    )
    reasons, extremals = [], []
    mesh = np.linspace(0.0, 1.0, 41)
    for name, guess in _guesses(hamiltonian, v0, mesh, first, guesses, seed):
        for loosened in (tol, 10 * tol, 100 * tol):
            with np.errstate(all="ignore"):
                found = solve_bvp(
                    rates, ends, mesh, guess, p=first if len(first) else None,
                    fun_jac=jacobian, tol=loosened, max_nodes=max_nodes,
                )  # fmt: skip
            if found.status != 1 or not problem.bounded:
                break
        if found.status != 0 or not np.isfinite(found.y).all():
            reasons.append(f"{name}: {found.message.lower().rstrip('.')}")
            continue
        unknowns = np.zeros(0) if found.p is None else found.p
        if hamiltonian.convexity(found.x, found.y, unknowns) <= 0:
            reasons.append(f"{name}: the Hamiltonian is not strictly convex in the controls")
            continue
        horizon = float(np.exp(unknowns[-1])) if equations.free else float(numbers[-1])
        residual = float(found.rms_residuals.max())
        cost = float(found.y[2 * d, -1]) + float(hamiltonian.last(found.y[:, -1], unknowns).cost[0])
        extremals.append(PontryaginSolution(cost, horizon, residual, name, found.sol, problem, unknowns))
        if not compare_guesses:
            break
    if extremals:
        return min(extremals, key=lambda extremal: extremal.cost)
    start = np.round(problem.starts.lift(v0), 6).tolist()
    raise UnsolvedError(
        f"Pontryagin's two-point problem was not solved from {start} ({'; '.join(reasons)}). "
        "Try another `tol`, more `guesses`, or flm.references.collocation."
    )


def _guesses(
    hamiltonian: Hamiltonian, v0: np.ndarray, mesh: np.ndarray, first: np.ndarray, count: int, seed: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Named guesses (2d + 1, len(mesh)) for v, p and the running cost."""
    d = len(v0)
    constant = np.zeros((2 * d + 1, len(mesh)))
    constant[:d] = v0[:, None]
    line = constant.copy()
    line[:d] += (_cheapest(hamiltonian, v0) - v0)[:, None] * mesh
    yield "straight line", line
    yield "constant state", constant
    rates = lambda s, y: hamiltonian.rates(s, y, first)[:d]
    uncontrolled = _driven(rates, mesh, constant, d)
    if np.isfinite(uncontrolled).all():
        yield "uncontrolled trajectory", uncontrolled
    rng = np.random.default_rng(seed)
    for i in range(max(0, count - 3)):
        random = constant.copy()
        # Costates fall to zero, or stay as they are.
        random[d : 2 * d] = 2.0 ** (i % 3) * rng.standard_normal((d, 1)) * ((1 - mesh) if i % 2 else 1.0)
        driven = _driven(rates, mesh, random, d)
        yield f"random costates {i + 1}", driven if np.isfinite(driven).all() else random


def _driven(
    rates: Callable[[np.ndarray, np.ndarray], np.ndarray], mesh: np.ndarray, guess: np.ndarray, d: int
) -> np.ndarray:
    """The guess with its states replaced by those that its costates drive, by explicit midpoint steps."""
    guess = guess.copy()
    with np.errstate(all="ignore"):
        for i in range(len(mesh) - 1):
            step, y = mesh[i + 1] - mesh[i], guess[:, i : i + 1].copy()
            y[:d] += 0.5 * step * rates(mesh[i : i + 1], y)
            guess[:d, i + 1] = guess[:d, i] + step * rates(mesh[i : i + 1] + 0.5 * step, y)[:, 0]
    return guess


def _cheapest(hamiltonian: Hamiltonian, v0: np.ndarray) -> np.ndarray:
    """A state of least running cost near v0 with controls at rest: where a trajectory may be going."""
    problem, d = hamiltonian.problem, len(v0)
    u = np.clip(np.zeros((1, len(problem.controls))), problem.lower, problem.upper)
    v = v0
    for _ in range(4):
        y = np.concatenate([v, np.zeros(d + 1)])[:, None]
        at = hamiltonian.derivatives(np.zeros(1), y, u, np.log(problem.numbers[-1:]))
        v = v - np.linalg.lstsq(at.h_zz[0, :d, :d], at.h_z[0, :d], rcond=1e-10)[0]
    return v if np.isfinite(v).all() else v0
