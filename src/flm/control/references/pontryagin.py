"""Pontryagin's minimum principle as a two-point boundary value problem, solved by scipy's `solve_bvp`.

With normalized time s = t/T, coordinates v, Hamiltonian h = l + p.F and u* = argmin h over the box of controls

    v' = F(s, v, u*),  v(0) = v0;        p' = -h_v(s, v, u*, p),  p(1) = phi_v + nu . dh/dv;        J' = l.

Terminal constraints h(v(1)) = 0 add unknown multipliers nu; a free horizon adds log T as an unknown and its own
transversality condition. All derivatives come from automatic differentiation.

y = (v, p, J) are coordinates, costates and the running cost so far; z = (v, p, u, log T) is what h depends on. The minimization
over u is a projected Newton method at each point, exact in one step when h is quadratic in u; u* moves with (v, p) by
the implicit function theorem, du*/dy = -h_uu^-1 h_uy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.integrate import solve_bvp
from scipy.interpolate import PPoly

from flm.control.dynamics.kernels import Last, Multipliers, Points, finish
from flm.control.problem import OptimalControl
from flm.wording import InputError, UnsolvedError

_NEWTON_STEPS = 50


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


class Local(NamedTuple):
    """l (R,) with its gradient (R, z), and the gradient (R, z) and Hessian (R, z, z) of h."""

    running: np.ndarray
    running_z: np.ndarray
    h_z: np.ndarray
    h_zz: np.ndarray


class Minimized(NamedTuple):
    """The best controls (R, k), which of them are held at a bound, and the derivatives there."""

    controls: np.ndarray
    held: np.ndarray
    at: Local


@dataclass(frozen=True, eq=False)
class Hamiltonian:
    """h of a problem, at many points (R) at once; `unknowns` are terminal multipliers and log T, where there are any."""

    problem: OptimalControl

    @property
    def size(self) -> int:
        """The number of coordinates, d."""
        return self.problem.equations.num_coordinates

    @property
    def own(self) -> slice:
        """Where the controls are in z."""
        return slice(2 * self.size, 2 * self.size + len(self.problem.controls))

    def derivatives(self, s: np.ndarray, y: np.ndarray, u: np.ndarray, unknowns: np.ndarray) -> Local:
        """l and h with their derivatives at normalized times s (R,), y (2d + 1, R) and controls u (R, k)."""
        d, v, p, count = self.size, y[: self.size].T, y[self.size : -1].T, len(s)
        w = np.column_stack([u, np.full(count, unknowns[-1])]) if self.problem.free else u
        points = Points(self.problem, s, w)
        first, h_ww = points.first(v), points.second(v, p)  # by (v, w), w = (u, log T)
        h_w, nothing = first.l_z + (p[:, None] @ first.F_z)[:, 0], np.zeros((count, d, d))
        size = h_w.shape[1]
        order = [*range(d), *range(size, size + d), *range(d, size)]  # (v, w, p) -> (v, p, w)
        h_zz = np.block([[h_ww, np.swapaxes(first.F_z, 1, 2)], [first.F_z, nothing]])
        running_z, h_z = np.hstack([first.l_z, nothing[:, 0]]), np.hstack([h_w, first.rates])
        return Local(first.running, running_z[:, order], h_z[:, order], h_zz[:, order][:, :, order])

    def minimize(self, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> Minimized:
        """The controls within their bounds that make h least."""
        problem, own, k = self.problem, self.own, len(self.problem.controls)
        u = np.clip(np.zeros((len(s), k)), problem.lower, problem.upper)
        for _ in range(_NEWTON_STEPS):
            at = self.derivatives(s, y, u, unknowns)
            slope = at.h_z[:, own]
            held = ((u <= problem.lower) & (slope > 0)) | ((u >= problem.upper) & (slope < 0))
            step = -np.linalg.solve(self._curvature(at, held), np.where(held, 0.0, slope)[..., None])[..., 0]
            moved = np.clip(u + np.where(held, 0.0, step), problem.lower, problem.upper)
            if not np.isfinite(moved).all() or np.abs(moved - u).max() <= 1e-13 * (1 + np.abs(u).max()):
                break
            u = moved
        return Minimized(u, held, at)

    def _curvature(self, at: Local, held: np.ndarray) -> np.ndarray:
        """h_uu (R, k, k), with the identity for controls that are held and where it is singular."""
        k = held.shape[1]
        system = np.where(held[:, :, None] | held[:, None, :], np.eye(k), at.h_zz[:, self.own, self.own])
        singular = ~np.isfinite(system).all(axis=(1, 2)) | (np.abs(np.linalg.det(np.nan_to_num(system))) < 1e-280)
        return np.where(singular[:, None, None], np.eye(k), system)

    def rates(self, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> np.ndarray:
        """The right-hand side of the two-point problem, (2d + 1, R)."""
        d, at = self.size, self.minimize(s, y, unknowns).at
        return np.concatenate([at.h_z[:, d : 2 * d], -at.h_z[:, :d], at.running[:, None]], axis=1).T

    def jacobian(self, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Its derivatives by y, (2d + 1, 2d + 1, R), and by the unknowns, (2d + 1, q, R)."""
        d, own = self.size, self.own
        _, held, at = self.minimize(s, y, unknowns)
        others = [i for i in range(at.h_zz.shape[1]) if not own.start <= i < own.stop]
        coupling = np.where(held[..., None], 0.0, at.h_zz[:, own][:, :, others])
        moves = -np.linalg.solve(self._curvature(at, held), coupling)  # (R, k, others)
        rows = [*range(d, 2 * d), *range(d)]
        sign = np.repeat([1.0, -1.0], d)[:, None]
        total = sign * (at.h_zz[:, rows][:, :, others] + at.h_zz[:, rows][:, :, own] @ moves)
        cost = at.running_z[:, None, others] + at.running_z[:, None, own] @ moves
        whole = np.concatenate([total, cost], axis=1)  # (R, 2d + 1, 2d [+ 1])
        by_y = np.concatenate([whole[..., : 2 * d], np.zeros((len(s), 2 * d + 1, 1))], axis=-1)
        by_unknowns = np.zeros((len(s), 2 * d + 1, len(unknowns)))
        if self.problem.free:
            by_unknowns[..., -1] = whole[..., -1]
        return np.ascontiguousarray(np.moveaxis(by_y, 0, -1)), np.ascontiguousarray(np.moveaxis(by_unknowns, 0, -1))

    def at_end(self, end: np.ndarray, unknowns: np.ndarray) -> np.ndarray:
        """What transversality demands to be zero at s = 1: p - phi_v - nu . h_v, h, and h + d phi / d log T if T is free."""
        d, last = self.size, self.last(end, unknowns)
        conditions = [end[d : 2 * d] - last.phi_z[0, :d], last.terminal[0]]
        if self.problem.free:
            at = self.minimize(np.ones(1), end[:, None], unknowns).at
            along = at.running[0] + end[d : 2 * d] @ at.h_z[0, d : 2 * d]
            conditions.append(along + last.phi_z[:, -1])
        return np.concatenate(conditions)

    def last(self, end: np.ndarray, unknowns: np.ndarray) -> Last:
        """The terminal cost, with the terminal constraints' multipliers in its derivatives, at y = `end`."""
        free = self.problem.free
        w = np.zeros((1, self.problem.equations.num_inputs))
        if free:
            w[0, -1] = unknowns[-1]
        multipliers = Multipliers(np.zeros(0), unknowns[None, : len(unknowns) - free], 0.0)
        return finish(self.problem, end[None, : self.size], w, multipliers)

    def is_linear(self, v0: np.ndarray, unknowns: np.ndarray) -> bool:
        """Whether h_uu vanishes in the direction of some control, near v0 and for random costates."""
        d, rng = self.size, np.random.default_rng(0)
        y = np.vstack([v0[:, None] + 0.1 * rng.standard_normal((d, 9)), rng.standard_normal((d, 9)), np.zeros((1, 9))])
        u = np.clip(rng.standard_normal((9, len(self.problem.controls))), self.problem.lower, self.problem.upper)
        h_uu = self.derivatives(np.linspace(0.0, 1.0, 9), y, u, unknowns).h_zz[:, self.own, self.own]
        return bool((np.abs(np.einsum("rkk->rk", h_uu)).max(axis=0) < 1e-14).any())

    def convexity(self, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> float:
        """The smallest eigenvalue of h_uu over the mesh."""
        h_zz = self.minimize(s, y, unknowns).at.h_zz
        return float(np.linalg.eigvalsh(h_zz[:, self.own, self.own]).min())
