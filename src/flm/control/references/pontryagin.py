"""Pontryagin's minimum principle as a two-point boundary value problem, solved by scipy's `solve_bvp`.

With normalized time s = t/T, coordinates v, Hamiltonian h = l + p.F and u* = argmin h over the box of controls

    v' = F(s, v, u*),  v(0) = v0;        p' = -h_v(s, v, u*, p),  p(1) = phi_v + nu . dh/dv;        J' = l.

Terminal constraints h(v(1)) = 0 add unknown multipliers nu; a free horizon adds log T as an unknown and its own
transversality condition. All derivatives come from automatic differentiation. The minimization over u is a projected
Newton method at each point, exact in one step when the Hamiltonian is quadratic in u; u* moves with (v, p) by the implicit
function theorem, du*/dy = -h_uu^-1 h_uy.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_bvp
from scipy.interpolate import PPoly

from flm.numerics.chunks import in_chunks
from flm.wording import InputError, UnsolvedError

_ROWS = (256,)  # points per compiled call: one shape, so one compilation per problem
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
    _problem: Any
    _unknowns: np.ndarray

    def states(self, t: Any) -> np.ndarray:
        """All states (R, n) at times t (R,)."""
        v = self._at(t)[: self._problem.equations.num_coordinates].T
        return self._problem.starts.lift(v)

    def costates(self, t: Any) -> np.ndarray:
        """Costates (R, d) of the independent coordinates at times t (R,)."""
        d = self._problem.equations.num_coordinates
        return self._at(t)[d : 2 * d].T

    def controls(self, t: Any) -> np.ndarray:
        """Controls (R, k) at times t (R,)."""
        s = np.asarray(t, float) / self.horizon
        return _Hamiltonian(self._problem).minimize(s, self._at(t), self._unknowns)[0]

    def _at(self, t: Any) -> np.ndarray:
        return self._spline(np.asarray(t, float) / self.horizon)


def pontryagin(
    problem: Any,
    x0: Any = None,
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
    if x0 is None:
        if problem.starts.dimension:
            raise InputError("`x0` must be given for a problem with a set of initial states.")
        x0 = problem.starts.lift(problem.starts.center)
    v0 = problem.starts.coordinates(x0)
    if len(v0) != 1:
        raise InputError(f"`x0` must be one state; got {len(v0)}.")
    numbers, d = problem.numbers, equations.num_coordinates
    hamiltonian = _Hamiltonian(problem)
    num_terminal = jax.eval_shape(equations.terminal_values, v0[0], np.zeros(equations.num_inputs), numbers).shape[0]
    num_unknowns = num_terminal + equations.free
    rates, jacobian = hamiltonian.rates, hamiltonian.jacobian if num_unknowns else hamiltonian.jacobian_only

    def ends(start, end, unknowns):
        along = hamiltonian.along(end, unknowns) if equations.free else 0.0
        final = np.asarray(_at_end(equations, end, unknowns, numbers, along))
        return np.concatenate([start[:d] - v0[0], [start[2 * d]], final])

    def by_kind(function):
        """`solve_bvp` passes unknown parameters only when there are any."""
        return function if num_unknowns else lambda a, b: function(a, b, np.zeros(0))

    reasons, extremals = [], []
    mesh = np.linspace(0.0, 1.0, 41)
    first = np.zeros(num_unknowns)
    if equations.free:
        first[-1] = np.log(numbers[-1])
    if hamiltonian.is_linear(v0[0], first):
        raise UnsolvedError(
            "Pontryagin's two-point problem needs a Hamiltonian that is strictly convex in the controls; got one that is "
            "linear in some of them (bang-bang or singular arcs). Use flm.references.collocation, or add a small cost of control."
        )
    for name, guess in _guesses(problem, v0[0], mesh, rates, first, guesses, seed):
        for loosened in (tol, 10 * tol, 100 * tol):
            with np.errstate(all="ignore"):
                found = solve_bvp(
                    by_kind(rates), by_kind(ends), mesh, guess, p=first if num_unknowns else None,
                    fun_jac=by_kind(jacobian), tol=loosened, max_nodes=max_nodes,
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
        final = float(_final_cost(equations, found.y[:d, -1], unknowns, numbers))
        horizon = float(np.exp(unknowns[-1])) if equations.free else float(numbers[-1])
        residual = float(found.rms_residuals.max())
        cost = float(found.y[2 * d, -1]) + final
        extremals.append(PontryaginSolution(cost, horizon, residual, name, found.sol, problem, unknowns))
        if not compare_guesses:
            break
    if extremals:
        return min(extremals, key=lambda extremal: extremal.cost)
    raise UnsolvedError(
        f"Pontryagin's two-point problem was not solved from {np.round(np.ravel(x0), 6).tolist()} ({'; '.join(reasons)}). "
        "Try another `tol`, more `guesses`, or flm.references.collocation."
    )


def _guesses(problem, v0, mesh, rates, first, count, seed):
    """Named guesses (2d + 1, len(mesh)) for v, p and the running cost."""
    d = len(v0)
    blank = np.zeros((2 * d + 1, len(mesh)))
    target = _cheapest(problem, v0)
    target = np.where(np.isfinite(target), target, v0)
    line = blank.copy()
    line[:d] = v0[:, None] + (target - v0)[:, None] * mesh
    constant = blank.copy()
    constant[:d] = v0[:, None]
    yield "straight line", line
    yield "constant state", constant
    uncontrolled = _driven(rates, mesh, constant, first, d)
    if np.isfinite(uncontrolled).all():
        yield "uncontrolled trajectory", uncontrolled
    rng = np.random.default_rng(seed)
    for i in range(max(0, count - 3)):
        random = constant.copy()
        # Costates fall to zero, or stay as they are.
        random[d : 2 * d] = 2.0 ** (i % 3) * rng.standard_normal((d, 1)) * ((1 - mesh) if i % 2 else 1.0)
        driven = _driven(rates, mesh, random, first, d)
        yield f"random costates {i + 1}", driven if np.isfinite(driven).all() else random


def _driven(rates, mesh: np.ndarray, guess: np.ndarray, unknowns: np.ndarray, d: int) -> np.ndarray:
    """The guess with its states replaced by those that its costates drive, by explicit midpoint steps."""
    guess = guess.copy()
    with np.errstate(all="ignore"):
        for i in range(len(mesh) - 1):
            step, y = mesh[i + 1] - mesh[i], guess[:, i : i + 1].copy()
            y[:d] += 0.5 * step * rates(mesh[i : i + 1], y, unknowns)[:d]
            guess[:d, i + 1] = guess[:d, i] + step * rates(mesh[i : i + 1] + 0.5 * step, y, unknowns)[:d, 0]
    return guess


@dataclass(frozen=True, eq=False)
class _Hamiltonian:
    """h = l + p.F of a problem, minimized over the controls, at many points (R) at once."""

    problem: Any

    def derivatives(self, s: np.ndarray, y: np.ndarray, u: np.ndarray, unknowns: np.ndarray) -> tuple[np.ndarray, ...]:
        """l (R,), its gradient (R, z) and h's gradient (R, z) and Hessian (R, z, z), z = (v, p, u, log T)."""
        rest = (np.asarray(unknowns, float), self.problem.numbers)
        run = lambda *rows: _derivatives(self.problem.equations, *rows, *rest)
        return tuple(in_chunks(run, s, y[:-1].T, u, sizes=_ROWS))

    def minimize(self, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple]:
        """The best controls (R, k), which of them are held at a bound, and the derivatives there."""
        problem, k = self.problem, len(self.problem.controls)
        own = slice(2 * problem.equations.num_coordinates, 2 * problem.equations.num_coordinates + k)
        u = np.clip(np.zeros((len(s), k)), problem.lower, problem.upper)
        for _ in range(_NEWTON_STEPS):
            values = self.derivatives(s, y, u, unknowns)
            slope, curvature = values[2][:, own], values[3][:, own, own]
            held = ((u <= problem.lower) & (slope > 0)) | ((u >= problem.upper) & (slope < 0))
            both = held[:, :, None] | held[:, None, :]
            system = np.where(both, np.eye(k), curvature)
            step = -np.linalg.solve(_regular(system), np.where(held, 0.0, slope)[..., None])[..., 0]
            moved = np.clip(u + np.where(held, 0.0, step), problem.lower, problem.upper)
            if not np.isfinite(moved).all() or np.abs(moved - u).max() <= 1e-13 * (1 + np.abs(u).max()):
                break
            u = moved
        return u, held, values

    def rates(self, s, y, unknowns):
        """The right-hand side of the two-point problem, (2d + 1, R)."""
        d = self.problem.equations.num_coordinates
        _, _, (running, _, gradient, _) = self.minimize(s, y, unknowns)
        return np.concatenate([gradient[:, d : 2 * d], -gradient[:, :d], running[:, None]], axis=1).T

    def jacobian(self, s, y, unknowns):
        """Its derivatives by y, (2d + 1, 2d + 1, R), and by the unknowns, (2d + 1, q, R)."""
        equations, k = self.problem.equations, len(self.problem.controls)
        d = equations.num_coordinates
        _, held, (_, l_z, _, hessian) = self.minimize(s, y, unknowns)
        own = slice(2 * d, 2 * d + k)
        both = held[:, :, None] | held[:, None, :]
        others = [i for i in range(hessian.shape[1]) if not 2 * d <= i < 2 * d + k]
        system = _regular(np.where(both, np.eye(k), hessian[:, own, own]))
        moves = -np.linalg.solve(
            system, np.where(held[..., None], 0.0, hessian[:, own][:, :, others])
        )  # (R, k, others)
        rows = [*range(d, 2 * d), *range(d)]
        sign = np.repeat([1.0, -1.0], d)[:, None]
        total = sign * (hessian[:, rows][:, :, others] + hessian[:, rows][:, :, own] @ moves)
        cost = l_z[:, None, others] + l_z[:, None, own] @ moves
        whole = np.concatenate([total, cost], axis=1)  # (R, 2d + 1, 2d [+ 1])
        by_y = np.concatenate([whole[..., : 2 * d], np.zeros((len(s), 2 * d + 1, 1))], axis=-1)
        by_unknowns = np.zeros((len(s), 2 * d + 1, len(unknowns)))
        if equations.free:
            by_unknowns[..., -1] = whole[..., -1]
        return np.ascontiguousarray(np.moveaxis(by_y, 0, -1)), np.ascontiguousarray(np.moveaxis(by_unknowns, 0, -1))

    def jacobian_only(self, s, y, unknowns):
        """The derivatives by y, for a problem without unknowns."""
        return self.jacobian(s, y, unknowns)[0]

    def along(self, end: np.ndarray, unknowns: np.ndarray) -> float:
        """h at the end, per unit of normalized time."""
        d = self.problem.equations.num_coordinates
        _, _, (running, _, gradient, _) = self.minimize(np.ones(1), end[:, None], unknowns)
        return float(running[0] + end[d : 2 * d] @ gradient[0, d : 2 * d])

    def is_linear(self, v0: np.ndarray, unknowns: np.ndarray) -> bool:
        """Whether h_uu vanishes in the direction of some control, near v0 and for random costates."""
        d, k = len(v0), len(self.problem.controls)
        rng = np.random.default_rng(0)
        y = np.vstack([v0[:, None] + 0.1 * rng.standard_normal((d, 9)), rng.standard_normal((d, 9)), np.zeros((1, 9))])
        u = np.clip(rng.standard_normal((9, k)), self.problem.lower, self.problem.upper)
        hessian = self.derivatives(np.linspace(0.0, 1.0, 9), y, u, unknowns)[3]
        return bool(
            (np.abs(np.einsum("rkk->rk", hessian[:, 2 * d : 2 * d + k, 2 * d : 2 * d + k])).max(axis=0) < 1e-14).any()
        )

    def convexity(self, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> float:
        """The smallest eigenvalue of h_uu over the mesh."""
        d, k = self.problem.equations.num_coordinates, len(self.problem.controls)
        hessian = self.minimize(s, y, unknowns)[2][3]
        return float(np.linalg.eigvalsh(hessian[:, 2 * d : 2 * d + k, 2 * d : 2 * d + k]).min())


def _regular(system: np.ndarray) -> np.ndarray:
    """The matrices, with the identity in place of singular ones."""
    singular = ~np.isfinite(system).all(axis=(1, 2)) | (np.abs(np.linalg.det(np.nan_to_num(system))) < 1e-280)
    return np.where(singular[:, None, None], np.eye(system.shape[1]), system)


@partial(jax.jit, static_argnums=0)
def _derivatives(equations, s, y, u, unknowns, numbers):
    d = equations.num_coordinates

    def running(z, s):
        return equations.running(s, z[:d], z[2 * d :], numbers)

    def hamiltonian(z, s):
        return running(z, s) + z[d : 2 * d] @ equations.rates(s, z[:d], z[2 * d :], numbers)

    def at(s, y, u):
        z = jnp.concatenate([y, u, unknowns[len(unknowns) - 1 :]]) if equations.free else jnp.concatenate([y, u])
        value, slope = jax.value_and_grad(running)(z, s)
        return value, slope, jax.grad(hamiltonian)(z, s), jax.hessian(hamiltonian)(z, s)

    return jax.vmap(at)(s, y, u)


@partial(jax.jit, static_argnums=0)
def _at_end(equations, end, unknowns, numbers, along):
    """Transversality at s = 1: p = phi_v + nu . h_v, h = 0, and for a free horizon h + d phi / d log T = 0."""
    d = equations.num_coordinates
    v, p = end[:d], end[d : 2 * d]
    nu = unknowns[: len(unknowns) - equations.free]

    def final(v, unknowns):
        w = _at_rest(equations, unknowns)
        value = equations.final_cost(v, w, numbers)
        return value + nu @ equations.terminal_values(v, w, numbers) if equations.terminal else value

    conditions = [p - jax.grad(final)(v, unknowns)]
    if equations.terminal:
        conditions.append(equations.terminal_values(v, _at_rest(equations, unknowns), numbers))
    if equations.free:
        by_unknowns = jax.grad(final, argnums=1)(v, unknowns)
        conditions.append((along + by_unknowns[-1])[None])
    return jnp.concatenate(conditions)


def _at_rest(equations, unknowns):
    """Zero controls, followed by log T when it is free."""
    u = jnp.zeros(len(equations.controls))
    return jnp.concatenate([u, unknowns[-1:]]) if equations.free else u


@partial(jax.jit, static_argnums=0)
def _final_cost(equations, v, unknowns, numbers):
    return equations.final_cost(v, _at_rest(equations, unknowns), numbers)


def _cheapest(problem: Any, v0: np.ndarray) -> np.ndarray:
    """A state of least running cost near v0 with controls at rest: where a trajectory may be going."""
    hamiltonian, d = _Hamiltonian(problem), len(v0)
    unknowns = np.log(problem.numbers[-1:])
    u = np.clip(np.zeros((1, len(problem.controls))), problem.lower, problem.upper)
    v = v0
    for _ in range(4):
        y = np.concatenate([v, np.zeros(d + 1)])[:, None]
        _, _, gradient, hessian = hamiltonian.derivatives(np.zeros(1), y, u, unknowns)
        v = v - np.linalg.lstsq(hessian[0, :d, :d], gradient[0, :d], rcond=1e-10)[0]
    return v if np.isfinite(v).all() else v0
