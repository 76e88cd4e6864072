"""Independent answers of optimal control: Pontryagin's minimum principle, and Riccati's equation for linear problems.

The principle is a two-point boundary value problem. With normalized time s = t/T, coordinates v, Hamiltonian h = l + p.F and
u* = argmin h over the box of controls

    v' = F(s, v, u*),  v(0) = v0;        p' = -h_v(s, v, u*, p),  p(1) = phi_v + nu . dh/dv;        J' = l.

Terminal constraints h(v(1)) = 0 add unknown multipliers nu; a free horizon adds log T as an unknown and its own
transversality condition. y = (v, p, J) is solved for by scipy's `solve_bvp`; all derivatives are automatic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from scipy.integrate import OdeSolution, solve_bvp, solve_ivp
from scipy.interpolate import PPoly

from flm.control.equations import Equations
from flm.control.problem import OptimalControl
from flm.numerics.chunks import in_chunks
from flm.wording import InputError, UnsolvedError

_NEWTON_STEPS = 50
_ROWS = (128, 2048)  # points per compiled call


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
        return _along(self._problem, np.asarray(t, float) / self.horizon, self._at(t), self._unknowns).controls

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

    Several guesses are tried in turn until one converges: the initial state all along, then random costates. Corners of
    bounded controls can keep the residual from `tol`: the tolerance is then loosened by up to 100, and `residual` says
    what was reached.

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
    equations, numbers = problem.equations, problem.numbers
    if equations.path:
        raise InputError("`problem` must have no path constraints for Pontryagin's principle.")
    v0, d = problem.starts.one(x0), equations.num_coordinates
    first = np.append(np.zeros(equations.num_terminal), np.log(numbers[-1:]) if equations.free else ())
    _refuse_linear(problem, v0, first)
    # `solve_bvp` passes unknowns, and wants derivatives by them, only when there are any.
    asked = lambda unknowns: unknowns[0] if unknowns else first
    rates = lambda s, y, *unknowns: _along(problem, s, y, asked(unknowns)).rates.T

    def slopes(s, y, *unknowns):
        found = _in_rows(_slopes, problem, s, y, asked(unknowns))
        by_y, by_unknowns = (np.ascontiguousarray(np.moveaxis(part, 0, -1)) for part in found)
        return (by_y, by_unknowns) if unknowns else by_y

    def ends(start, end, *unknowns):
        at_start = [*(start[:d] - v0), start[2 * d]]
        return np.append(at_start, _at_end(equations, numbers, problem.lower, problem.upper, end, asked(unknowns))[1])

    reasons, extremals = [], []
    mesh = np.linspace(0.0, 1.0, 41)
    for name, guess in _guesses(v0, mesh, guesses, seed):
        for loosened in (tol, 10 * tol, 100 * tol):
            with np.errstate(all="ignore"):
                found = solve_bvp(
                    rates, ends, mesh, guess, p=first if len(first) else None,
                    fun_jac=slopes, tol=loosened, max_nodes=max_nodes,
                )  # fmt: skip
            if found.status != 1 or not problem.bounded:
                break
        if found.status != 0 or not np.isfinite(found.y).all():
            reasons.append(f"{name}: {found.message.lower().rstrip('.')}")
            continue
        unknowns = np.zeros(0) if found.p is None else found.p
        if np.linalg.eigvalsh(_along(problem, found.x, found.y, unknowns).curvature).min() <= 0:
            reasons.append(f"{name}: the Hamiltonian is not strictly convex in the controls")
            continue
        final, _ = _at_end(equations, numbers, problem.lower, problem.upper, found.y[:, -1], unknowns)
        horizon = float(np.exp(unknowns[-1])) if equations.free else float(numbers[-1])
        cost, residual = float(found.y[2 * d, -1] + final), float(found.rms_residuals.max())
        extremals.append(PontryaginSolution(cost, horizon, residual, name, found.sol, problem, unknowns))
        if not compare_guesses:
            break
    if extremals:
        return min(extremals, key=lambda extremal: extremal.cost)
    start = np.round(problem.starts.lift(v0), 6).tolist()
    raise UnsolvedError(
        f"Pontryagin's two-point problem was not solved from {start} ({'; '.join(reasons)}). "
        "Try another `tol` or more `guesses`."
    )


def _guesses(v0: np.ndarray, mesh: np.ndarray, count: int, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """Named guesses (2d + 1, len(mesh)) for v, p and the running cost."""
    d, rng = len(v0), np.random.default_rng(seed)
    for i in range(count):
        guess = np.zeros((2 * d + 1, len(mesh)))
        guess[:d] = v0[:, None]
        if i:  # costates that fall to zero, or stay as they are
            guess[d : 2 * d] = 2.0 ** (i % 3) * rng.standard_normal((d, 1)) * ((1 - mesh) if i % 2 else 1.0)
        yield f"random costates {i}" if i else "constant state", guess


def _refuse_linear(problem: OptimalControl, v0: np.ndarray, unknowns: np.ndarray) -> None:
    """Refuse a Hamiltonian whose h_uu vanishes for some control, near v0 and for random costates."""
    d, rng = len(v0), np.random.default_rng(0)
    y = np.vstack([v0[:, None] + 0.1 * rng.standard_normal((d, 9)), rng.standard_normal((d, 9)), np.zeros((1, 9))])
    h_uu = _along(problem, np.linspace(0.0, 1.0, 9), y, unknowns).curvature
    if (np.abs(np.einsum("rkk->rk", h_uu)).max(axis=0) < 1e-14).any():
        raise UnsolvedError(
            "Pontryagin's two-point problem needs a Hamiltonian that is strictly convex in the controls; got one that is "
            "linear in some of them (bang-bang or singular arcs). Add a small cost of control."
        )


class _Extremal(NamedTuple):
    """The right-hand side of the two-point problem (2d + 1,), the best controls (k,) and h_uu (k, k), at a point or many."""

    rates: np.ndarray
    controls: np.ndarray
    curvature: np.ndarray


def _along(problem: OptimalControl, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> _Extremal:
    """At times s (R,) and y (2d + 1, R)."""
    return _Extremal(*_in_rows(_extremals, problem, s, y, unknowns))


def _in_rows(
    kernel: Callable[..., Sequence[jax.Array]],
    problem: OptimalControl,
    s: np.ndarray,
    y: np.ndarray,
    unknowns: np.ndarray,
) -> list[np.ndarray]:
    fixed = (problem.equations, problem.numbers, problem.lower, problem.upper, unknowns)
    return in_chunks(lambda s, y: kernel(*fixed, s, y), s, y.T, sizes=_ROWS)


@partial(jax.jit, static_argnums=0)
def _extremals(equations: Equations, numbers, lower, upper, unknowns, s, y):
    return jax.vmap(lambda s, y: _extremal(equations, numbers, lower, upper, unknowns, s, y))(s, y)


@partial(jax.jit, static_argnums=0)
def _slopes(equations: Equations, numbers, lower, upper, unknowns, s, y):
    """The rates' derivatives by y, (R, 2d + 1, 2d + 1), and by the unknowns, (R, 2d + 1, q)."""
    rates = lambda unknowns, s, y: _extremal(equations, numbers, lower, upper, unknowns, s, y)[0]
    return jax.vmap(jax.jacfwd(rates, (2, 0)), in_axes=(None, 0, 0))(unknowns, s, y)


@partial(jax.jit, static_argnums=0)
def _at_end(equations: Equations, numbers, lower, upper, end, unknowns):
    """The terminal cost, and what transversality demands to be zero: p - phi_v - nu . h_v, h, and h + dphi/dlog T if T is free."""
    d, rest = equations.num_coordinates, jnp.zeros(len(equations.controls))
    v, p, nu, time = end[:d], end[d : 2 * d], unknowns[: equations.num_terminal], unknowns[equations.num_terminal :]
    lagrangian = lambda v, time: equations.final_lagrangian(v, jnp.append(rest, time), numbers, nu, 0.0)
    by_state, by_time = jax.grad(lagrangian, (0, 1))(v, time)
    w = jnp.append(rest, time)
    conditions = [p - by_state, equations.terminal_values(v, w, numbers)]
    if equations.free:
        rates = _extremal(equations, numbers, lower, upper, unknowns, jnp.ones(()), end)[0]
        conditions.append(rates[-1] + p @ rates[:d] + by_time)
    return equations.final_cost(v, w, numbers), jnp.concatenate(conditions)


def _extremal(equations: Equations, numbers, lower, upper, unknowns, s, y) -> tuple[jax.Array, ...]:
    """An `_Extremal` at one point; u* is found by a projected Newton method, exact in one step when h is quadratic in u."""
    d, unit = equations.num_coordinates, jnp.eye(len(equations.controls))
    v, p, time = y[:d], y[d : 2 * d], unknowns[equations.num_terminal :]

    def hamiltonian(v, p, u):
        w = jnp.append(u, time)
        return equations.running(s, v, w, numbers) + p @ equations.rates(s, v, w, numbers)

    def newton(u):
        slope, h_uu = jax.grad(hamiltonian, 2)(v, p, u), jax.hessian(hamiltonian, 2)(v, p, u)
        held = ((u <= lower) & (slope > 0)) | ((u >= upper) & (slope < 0))
        system = jnp.where(held[:, None] | held, unit, h_uu)
        regular = jnp.isfinite(system).all() & (jnp.abs(jnp.linalg.det(system)) > 1e-280)
        system = jax.lax.stop_gradient(jnp.where(regular, system, unit))
        return jnp.clip(u - jnp.where(held, 0.0, jnp.linalg.solve(system, slope)), lower, upper)

    def going(state):
        step, u, moved = state
        return (step < _NEWTON_STEPS) & (jnp.abs(moved - u).max() > 1e-13 * (1 + jnp.abs(u).max()))

    still = jnp.clip(jnp.zeros(len(unit)), lower, upper)
    _, _, u = jax.lax.while_loop(
        going, lambda state: (state[0] + 1, state[2], newton(state[2])), (0, still - 1.0, still)
    )
    # One step more from a fixed u: its derivative by y is that of u*, -h_uu^-1 h_uy, where u* is not held at a bound.
    u = newton(jax.lax.stop_gradient(u))
    w = jnp.append(u, time)
    running, rates = equations.running(s, v, w, numbers), equations.rates(s, v, w, numbers)
    flow = jnp.concatenate([rates, -jax.grad(hamiltonian, 0)(v, p, u), running[None]])
    return flow, u, jax.hessian(hamiltonian, 2)(v, p, u)


@dataclass(frozen=True, eq=False)
class RiccatiSolution:
    """The optimal cost x'P(0)x / 2 and the feedback u = -R⁻¹B'P(t) x.

    Attributes:
        cost: Of the given initial states, (P,).
        initial: P(0), (n, n).

    Example:
        >>> answer = riccati(A=-1.0, B=1.0, Q=1.0, R=1.0, S=None, horizon=1.0, x0=[1.0])
        >>> answer.gain(0.0).round(6)  # u = -K x
        array([[0.385819]])
    """

    cost: np.ndarray
    initial: np.ndarray
    _gain: np.ndarray
    _dense: OdeSolution

    def gain(self, t: float) -> np.ndarray:
        """K(t) in u = -K(t) x, (k, n)."""
        n = len(self.initial)
        return self._gain @ self._dense(t).reshape(n, n)


def riccati(
    A: npt.ArrayLike,
    B: npt.ArrayLike,
    Q: npt.ArrayLike,
    R: npt.ArrayLike,
    S: npt.ArrayLike | None,
    horizon: float,
    x0: npt.ArrayLike,
) -> RiccatiSolution:
    """The optimal cost of x' = A x + B u with cost ∫ (x'Qx + u'Ru)/2 dt + x(T)'S x(T)/2.

    P solves -P' = A'P + PA - P B R⁻¹ B' P + Q, P(T) = S, integrated backwards by DOP853 with tolerance 1e-13.

    Args:
        A: (n, n).
        B: (n, k).
        Q: (n, n), symmetric.
        R: (k, k), symmetric positive definite.
        S: (n, n), symmetric, or None for zero.
        horizon: T.
        x0: One initial state (n,) or several (P, n).

    Example:
        >>> answer = riccati(A=-1.0, B=1.0, Q=1.0, R=1.0, S=None, horizon=1.0, x0=[1.0])
        >>> answer.cost.round(6)
        array([0.192909])
    """
    A, B, Q, R = (np.atleast_2d(np.asarray(matrix, float)) for matrix in (A, B, Q, R))
    n = len(A)
    end = np.zeros((n, n)) if S is None else np.atleast_2d(np.asarray(S, float))
    gain = np.linalg.solve(R, B.T)

    def backwards(t, flat):
        P = flat.reshape(n, n)
        return -(A.T @ P + P @ A - P @ B @ gain @ P + Q).ravel()

    found = solve_ivp(
        backwards, (float(horizon), 0.0), end.ravel(), method="DOP853", rtol=1e-13, atol=1e-14, dense_output=True
    )
    if not found.success:
        raise UnsolvedError(f"Riccati's equation was not solved: {found.message}")
    P = found.y[:, -1].reshape(n, n)
    x0 = np.atleast_2d(np.asarray(x0, float))
    return RiccatiSolution(0.5 * np.einsum("pi,ij,pj->p", x0, P, x0), P, gain, found.sol)
