"""Independent answers to optimal control problems: Pontryagin's minimum principle, and Riccati's equation for linear ones.

The principle is a two-point boundary value problem. With normalized time s = t/T, coordinates v, Hamiltonian h = l + p.F and
u* = argmin h over the box of controls

    v' = F(s, v, u*),  v(0) = v0;        p' = -h_v(s, v, u*, p),  p(1) = phi_v + nu . dh/dv;        J' = l.

Terminal constraints h(v(1)) = 0 add unknown multipliers nu; a free horizon adds log T as an unknown and its own
transversality condition. y = (v, p, J) is solved for by scipy's `solve_bvp`; all derivatives are automatic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.integrate import OdeSolution, solve_bvp, solve_ivp
from scipy.interpolate import PPoly

from flm.control.equations import First, Last, Multipliers, finish, first_order, second_order
from flm.control.problem import OptimalControl
from flm.wording import InputError, UnsolvedError

_NEWTON_STEPS = 50
_GUESSES = 6  # that are tried before the problem counts as unsolved


@dataclass(frozen=True, eq=False)
class PontryaginSolution:
    """An extremal: a trajectory that satisfies the minimum principle.

    Example:
        >>> import flm
        >>> problem = flm.problems.linear_quadratic(A=-1.0, B=1.0, Q=1.0, R=1.0, initial=(1.0,), horizon=1.0)
        >>> answer = pontryagin(problem)
        >>> answer.controls([0.0]).round(4)
        array([[-0.3858]])
    """

    cost: float  # J
    horizon: float  # T
    residual: float  # the largest relative residual of the differential equations
    guess: str  # the name of the guess that led here
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
        return _minimize(self._problem, np.asarray(t, float) / self.horizon, self._at(t), self._unknowns).controls

    def _at(self, t: npt.ArrayLike) -> np.ndarray:
        return self._spline(np.asarray(t, float) / self.horizon)


def pontryagin(
    problem: OptimalControl,
    x0: npt.ArrayLike | None = None,
    *,
    tol: float = 1e-8,
    max_nodes: int = 5000,
) -> PontryaginSolution:
    """The optimal cost and trajectory of one initial state, independent of the solvers of this library.

    Six guesses are tried in turn until one converges: first the initial state at all times, then random costates. Corners of
    bounded controls can keep the residual above `tol`: the tolerance is then loosened by up to 100, and `residual` says
    what was reached. The principle is necessary, not sufficient: a problem can have several extremals.

    Args:
        problem: An `OptimalControl` without path constraints, whose Hamiltonian is smooth and strictly convex in the
            controls.
        x0: The initial state; the problem's own when it has one.
        tol: The tolerance of `solve_bvp`.
        max_nodes: The largest number of its mesh points.

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
    # `solve_bvp` passes unknowns, and wants derivatives with respect to them, only when there are any.
    asked = lambda unknowns: unknowns[0] if unknowns else first
    rates = lambda s, y, *unknowns: _rates(problem, s, y, asked(unknowns))
    jacobian = lambda s, y, *unknowns: _jacobian(problem, s, y, asked(unknowns))[slice(None) if unknowns else 0]
    ends = lambda start, end, *unknowns: np.concatenate(
        [start[:d] - v0, [start[2 * d]], _at_end(problem, end, asked(unknowns))]
    )
    reasons = []
    mesh = np.linspace(0.0, 1.0, 41)
    for name, guess in _guesses(v0, mesh):
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
        if np.linalg.eigvalsh(_minimize(problem, found.x, found.y, unknowns).h_uu).min() <= 0:
            reasons.append(f"{name}: the Hamiltonian is not strictly convex in the controls")
            continue
        horizon = float(np.exp(unknowns[-1])) if equations.free else float(numbers[-1])
        cost = float(found.y[2 * d, -1]) + float(_last(problem, found.y[:, -1], unknowns).cost[0])
        return PontryaginSolution(cost, horizon, float(found.rms_residuals.max()), name, found.sol, problem, unknowns)
    start = np.round(problem.starts.lift(v0), 6).tolist()
    raise UnsolvedError(
        f"Pontryagin's two-point problem was not solved from {start} ({'; '.join(reasons)}). "
        "Try another `tol` or more `max_nodes`."
    )


def _guesses(v0: np.ndarray, mesh: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Named guesses (2d + 1, len(mesh)) for v, p and the running cost."""
    d, rng = len(v0), np.random.default_rng(0)
    for i in range(_GUESSES):
        guess = np.zeros((2 * d + 1, len(mesh)))
        guess[:d] = v0[:, None]
        if i:  # costates that fall to zero, or stay as they are
            guess[d : 2 * d] = 2.0 ** (i % 3) * rng.standard_normal((d, 1)) * ((1 - mesh) if i % 2 else 1.0)
        yield f"random costates {i}" if i else "constant state", guess


class _Local(NamedTuple):
    """Controls (R, k), which of them h would push beyond a bound, and h with its derivatives there.

    The slope of h (R, z) and its curvature (R, z, z) are with respect to z = (v, u, log T); `system` is h_uu, with the identity
    for controls that are held at a bound and where it is singular.
    """

    controls: np.ndarray
    held: np.ndarray
    first: First
    slope: np.ndarray
    curvature: np.ndarray
    h_uu: np.ndarray
    system: np.ndarray


def _hamiltonian(problem: OptimalControl, s: np.ndarray, y: np.ndarray, u: np.ndarray, unknowns: np.ndarray) -> _Local:
    """h with its derivatives at normalized times s (R,), y (2d + 1, R) and controls u (R, k).

    The `unknowns` are terminal multipliers and log T, where there are any.
    """
    d, (count, k) = problem.equations.num_coordinates, u.shape
    v, p = y[:d].T, y[d:-1].T
    w = np.column_stack([u, np.full(count, unknowns[-1])]) if problem.free else u
    first, curvature = first_order(problem, s, v, w), second_order(problem, s, v, w, p)
    slope, h_uu = first.l_z + (p[:, None] @ first.F_z)[:, 0], curvature[:, d : d + k, d : d + k]
    push = slope[:, d : d + k]
    held = ((u <= problem.lower) & (push > 0)) | ((u >= problem.upper) & (push < 0))
    system = np.where(held[:, :, None] | held[:, None, :], np.eye(k), h_uu)
    singular = ~np.isfinite(system).all(axis=(1, 2)) | (np.abs(np.linalg.det(np.nan_to_num(system))) < 1e-280)
    system = np.where(singular[:, None, None], np.eye(k), system)
    return _Local(u, held, first, slope, curvature, h_uu, system)


def _minimize(problem: OptimalControl, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> _Local:
    """The controls within their bounds that make h least: a projected Newton method, one step when h is quadratic."""
    d, k, lower, upper = problem.equations.num_coordinates, len(problem.controls), problem.lower, problem.upper
    u = np.clip(np.zeros((len(s), k)), lower, upper)
    for _ in range(_NEWTON_STEPS):
        at = _hamiltonian(problem, s, y, u, unknowns)
        slope = np.where(at.held, 0.0, at.slope[:, d : d + k])
        u = np.clip(u - np.linalg.solve(at.system, slope[..., None])[..., 0], lower, upper)
        if not np.isfinite(u).all() or np.abs(u - at.controls).max() <= 1e-13 * (1 + np.abs(at.controls).max()):
            break
    return at


def _rates(problem: OptimalControl, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> np.ndarray:
    """The right-hand side of the two-point problem, (2d + 1, R)."""
    d, at = problem.equations.num_coordinates, _minimize(problem, s, y, unknowns)
    return np.vstack([at.first.rates.T, -at.slope[:, :d].T, at.first.running])


def _jacobian(
    problem: OptimalControl, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of `_rates` with respect to y, (2d + 1, 2d + 1, R), and to the unknowns, (2d + 1, q, R).

    u* moves with the others by the implicit function theorem, -h_uu^-1 h_uy, unless it is held at a bound.
    """
    d, at = problem.equations.num_coordinates, _minimize(problem, s, y, unknowns)
    own, F_z, h_zz = slice(d, d + at.controls.shape[1]), at.first.F_z, at.curvature
    turned, nothing = np.swapaxes(F_z, 1, 2), np.zeros((len(s), 2 * d + 1, d + 1))
    by_z = np.concatenate([F_z, -h_zz[:, :d], at.first.l_z[:, None]], axis=1)  # of v', p' and J'
    by_p = np.concatenate([nothing[:, :d, :d], -turned[:, :d], nothing[:, :1, :d]], axis=1)
    others = lambda z, p: np.concatenate([z[..., :d], p, z[..., own.stop :]], axis=2)  # (v, p, log T)
    coupling = np.where(at.held[..., None], 0.0, others(h_zz[:, own], turned[:, own]))
    whole = others(by_z, by_p) - by_z[..., own] @ np.linalg.solve(at.system, coupling)
    by_y = np.concatenate([whole[..., : 2 * d], nothing[..., :1]], axis=-1)
    by_unknowns = np.zeros((len(s), 2 * d + 1, len(unknowns)))
    if problem.free:
        by_unknowns[..., -1] = whole[..., -1]
    return np.ascontiguousarray(np.moveaxis(by_y, 0, -1)), np.ascontiguousarray(np.moveaxis(by_unknowns, 0, -1))


def _at_end(problem: OptimalControl, end: np.ndarray, unknowns: np.ndarray) -> np.ndarray:
    """The quantities that must vanish at s = 1: p - phi_v - nu . h_v, h, and h + d phi / d log T if T is free."""
    d, last = problem.equations.num_coordinates, _last(problem, end, unknowns)
    conditions = [end[d : 2 * d] - last.phi_z[0, :d], last.terminal[0]]
    if problem.free:
        first = _minimize(problem, np.ones(1), end[:, None], unknowns).first
        conditions.append(first.running + first.rates @ end[d : 2 * d] + last.phi_z[:, -1])
    return np.concatenate(conditions)


def _last(problem: OptimalControl, end: np.ndarray, unknowns: np.ndarray) -> Last:
    """The terminal cost, with the terminal constraints' multipliers in its derivatives, at y = `end`."""
    count = problem.equations.num_terminal
    w = np.append(np.zeros(len(problem.controls)), unknowns[count:])[None]
    multipliers = Multipliers(np.zeros(0), unknowns[None, :count], 0.0)
    return finish(problem, end[None, : problem.equations.num_coordinates], w, multipliers)


def _refuse_linear(problem: OptimalControl, v0: np.ndarray, unknowns: np.ndarray) -> None:
    """Refuse an h whose h_uu vanishes for some control, near v0 and for random costates."""
    d, rng = len(v0), np.random.default_rng(0)
    y = np.vstack([v0[:, None] + 0.1 * rng.standard_normal((d, 9)), rng.standard_normal((d, 9)), np.zeros((1, 9))])
    u = np.clip(rng.standard_normal((9, len(problem.controls))), problem.lower, problem.upper)
    h_uu = _hamiltonian(problem, np.linspace(0.0, 1.0, 9), y, u, unknowns).h_uu
    if (np.abs(np.einsum("rkk->rk", h_uu)).max(axis=0) < 1e-14).any():
        raise UnsolvedError(
            "Pontryagin's two-point problem needs a Hamiltonian that is strictly convex in the controls; got one that is "
            "linear in some of them (bang-bang or singular arcs). Add a small cost of control."
        )


@dataclass(frozen=True, eq=False)
class RiccatiSolution:
    """The optimal cost x'P(0)x / 2 and the feedback u = -R⁻¹B'P(t) x.

    Example:
        >>> answer = riccati(A=-1.0, B=1.0, Q=1.0, R=1.0, S=None, horizon=1.0, x0=[1.0])
        >>> answer.gain(0.0).round(6)  # u = -K x
        array([[0.385819]])
    """

    cost: np.ndarray  # of the given initial states, (P,)
    initial: np.ndarray  # P(0), (n, n)
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
