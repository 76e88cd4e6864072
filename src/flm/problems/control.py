"""Named optimal control problems: the paper's two games, and three that control engineers know.

The games are replicator dynamics u_i' = u_i (e_i - u)' (L + gamma M) u of an odd-circulant game (paper, Eq. OCP_main):
a control gamma that changes the payoffs pushes a population towards equal shares, at the cost
integral of |u - u_eq|^2 / 2 + r gamma^2 / 2.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from flm.control.problem import Free, OptimalControl
from flm.language.arguments import Named
from flm.wording import InputError


def rock_paper_scissors(initial: Any = (0.2, 0.2, 0.6), *, horizon: float = 6.0, r: float = 0.2) -> OptimalControl:
    """Rock–Paper–Scissors: three strategies, one control that pays for winning moves.

    Args:
        initial: A state on the simplex, or a set of them: the paper's is `flm.Ball((0.2, 0.2, 0.6), 0.15)`.
        horizon: T.
        r: The price of control.

    Example:
        >>> problem = rock_paper_scissors(initial=(0.1, 0.3, 0.6))
    """
    return OptimalControl(
        dynamics=_rps,
        running_cost=_rps_cost,
        horizon=horizon,
        states=("u1", "u2", "u3"),
        controls=("gamma",),
        initial=initial,
        parameters={"r": r},
        on_simplex=True,
        symmetries="cyclic",
    )


def rpssl(initial: Any = (0.11, 0.11, 0.11, 0.11, 0.56), *, horizon: float = 6.0, r: float = 0.2) -> OptimalControl:
    """Rock–Paper–Scissors–Spock–Lizard: five strategies.

    Args:
        initial: A state on the simplex, or a set: the paper's is `flm.Ball((0.11, 0.11, 0.11, 0.11, 0.56), 0.045)`.
        horizon: T.
        r: The price of control.

    Example:
        >>> rpssl(horizon=4.0).states
        ('u1', 'u2', 'u3', 'u4', 'u5')
    """
    return OptimalControl(
        dynamics=_rpssl,
        running_cost=_rpssl_cost,
        horizon=horizon,
        states=("u1", "u2", "u3", "u4", "u5"),
        controls=("gamma",),
        initial=initial,
        parameters={"r": r},
        on_simplex=True,
        symmetries="cyclic",
    )


def linear_quadratic(
    A: Any = ((0.0, 1.0), (-1.0, 0.5)),
    B: Any = ((0.0,), (1.0,)),
    Q: Any = ((1.0, 0.0), (0.0, 1.0)),
    R: Any = ((0.5,),),
    S: Any = None,
    *,
    initial: Any = (1.0, 0.0),
    horizon: float = 5.0,
) -> OptimalControl:
    """The linear-quadratic regulator: x' = A x + B u, cost integral of (x'Qx + u'Ru)/2 plus x(T)'S x(T)/2.

    `flm.references.riccati(A, B, Q, R, S, horizon, x0)` has its exact answer. States are x1, x2, …, controls u1, u2, ….

    Args:
        A: (n, n). The default is an unstable oscillator.
        B: (n, k).
        Q: (n, n), symmetric.
        R: (k, k), symmetric positive definite.
        S: (n, n), symmetric; zero when left out.
        initial: A state, `flm.Ball` or `flm.Box`.
        horizon: T.

    Example:
        >>> linear_quadratic(A=-1.0, B=1.0, Q=1.0, R=1.0, initial=(1.0,)).controls
        ('u1',)
    """
    A, B, Q, R = (np.atleast_2d(np.asarray(matrix, float)) for matrix in (A, B, Q, R))
    n, k = B.shape
    shapes = {"A": (A, (n, n)), "Q": (Q, (n, n)), "R": (R, (k, k))}
    if S is not None:
        S = np.atleast_2d(np.asarray(S, float))
        shapes["S"] = (S, (n, n))
    for role, (matrix, shape) in shapes.items():
        if matrix.shape != shape:
            raise InputError(f"`{role}` must have shape {shape} to match B of shape {B.shape}; got {matrix.shape}.")
    states, controls = tuple(f"x{i + 1}" for i in range(n)), tuple(f"u{i + 1}" for i in range(k))
    entries = [None if matrix is None else tuple(map(tuple, matrix.tolist())) for matrix in (A, B, Q, R, S)]
    dynamics, running_cost, terminal_cost = _linear_quadratic(*entries)
    return OptimalControl(
        dynamics=Named(dynamics, states + controls),
        running_cost=Named(running_cost, states + controls),
        horizon=horizon,
        states=states,
        controls=controls,
        initial=initial,
        terminal_cost=None if S is None else Named(terminal_cost, states),
    )


def van_der_pol(
    initial: Any = (0.0, 1.0), *, horizon: float = 10.0, bounds: tuple[float, float] | None = (-1.0, 1.0)
) -> OptimalControl:
    """Bring a Van der Pol oscillator to rest: x1' = (1 - x2²) x1 - x2 + u, x2' = x1, cost integral of x1² + x2² + u².

    Args:
        initial: A state, `flm.Ball` or `flm.Box(x1=…, x2=…)`.
        horizon: T.
        bounds: Of the control, or None.

    Example:
        >>> van_der_pol(bounds=None).bounds is None
        True
    """
    return OptimalControl(
        dynamics=_van_der_pol,
        running_cost=_squares,
        horizon=horizon,
        states=("x1", "x2"),
        controls=("u",),
        initial=initial,
        bounds=bounds,
        symmetries=((("-x1", "-x2"), ("-u",)),) if bounds is None or bounds[0] == -bounds[1] else (),
    )


def double_integrator(
    initial: Any = (1.0, 0.0), *, horizon: float = 2.0, largest: float | None = 1.25
) -> OptimalControl:
    """Move a mass to rest at the origin with the least effort and a bounded force: x'' = u, cost integral of u²/2.

    From rest at distance 1 the answer is u = clip(k (t - T/2), -largest, largest), with the force 6/T² at the ends when
    it is unbounded and no answer below 4/T².

    Args:
        initial: Position and velocity, an `flm.Ball` or `flm.Box(x=…, v=…)`.
        horizon: T.
        largest: The bound on |u|, or None.

    Example:
        >>> double_integrator(largest=None).states
        ('x', 'v')
    """
    return OptimalControl(
        dynamics=_mass,
        running_cost=_effort,
        horizon=horizon,
        states=("x", "v"),
        controls=("u",),
        initial=initial,
        terminal=_at_rest,
        bounds=None if largest is None else (-largest, largest),
        symmetries=((("-x", "-v"), ("-u",)),),
    )


def pendulum(initial: Any = (0.0, 0.0), *, horizon: float = 8.0, largest: float = 0.7) -> OptimalControl:
    """Swing a pendulum up with a torque too weak to hold it sideways: theta'' = -sin theta + u, |u| <= largest < 1.

    Cost: integral of (1 + cos theta) + omega²/10 + u²/10, zero at rest upright (theta = ±pi).

    Args:
        initial: Angle and angular velocity, an `flm.Ball` or `flm.Box(theta=…, omega=…)`.
        horizon: T.
        largest: The bound on |u|.

    Example:
        >>> pendulum(largest=0.5).bounds
        (-0.5, 0.5)
    """
    return OptimalControl(
        dynamics=_pendulum,
        running_cost=_upright,
        horizon=horizon,
        states=("theta", "omega"),
        controls=("u",),
        initial=initial,
        bounds=(-largest, largest),
    )


def minimum_time(initial: Any = (1.0, 0.0), *, effort: float = 0.1, guess: float = 2.0) -> OptimalControl:
    """Move a mass to rest at the origin soon and gently: x'' = u, cost T + effort integral of u²/2, T free.

    Without bounds the answer from rest at distance x is T⁴ = 18 effort x² at cost 4T/3.

    Args:
        initial: Position and velocity, an `flm.Ball` or `flm.Box(x=…, v=…)`.
        effort: The price of control.
        guess: Where the search for T starts.

    Example:
        >>> minimum_time().horizon
        Free(guess=2.0)
    """
    return OptimalControl(
        dynamics=_mass,
        running_cost=_time_and_effort,
        horizon=Free(guess),
        states=("x", "v"),
        controls=("u",),
        initial=initial,
        parameters={"effort": effort},
        terminal=_at_rest,
        symmetries=((("-x", "-v"), ("-u",)),),
    )


def _replicator(payoff: Callable, shares: Sequence, gamma) -> tuple:
    """u_i ((A u)_i - u'A u) for the payoffs (A u)_i = payoff(i)."""
    gains = [payoff(i, gamma) for i in range(len(shares))]
    mean = sum(share * gain for share, gain in zip(shares, gains, strict=True))
    return tuple(share * (gain - mean) for share, gain in zip(shares, gains, strict=True))


def _odd_circulant(shares: Sequence, gamma) -> tuple:
    """Replicator dynamics of the circulant game in which i loses to i+1, beats i+2, loses to i+3, …: L_ij = (-1)^(j-i).

    M is 1 where L is +1, so L + gamma M has 1 + gamma on the winning entries and -1 on the losing ones.
    """
    n = len(shares)

    def payoff(i, gamma):
        wins = sum(shares[(i + k) % n] for k in range(2, n, 2))
        losses = sum(shares[(i + k) % n] for k in range(1, n, 2))
        return (1 + gamma) * wins - losses

    return _replicator(payoff, shares, gamma)


def _rps(u1, u2, u3, gamma):
    return _odd_circulant((u1, u2, u3), gamma)


def _rps_cost(u1, u2, u3, gamma, r):
    return 0.5 * sum((u - 1 / 3) ** 2 for u in (u1, u2, u3)) + 0.5 * r * gamma**2


def _rpssl(u1, u2, u3, u4, u5, gamma):
    return _odd_circulant((u1, u2, u3, u4, u5), gamma)


def _rpssl_cost(u1, u2, u3, u4, u5, gamma, r):
    return 0.5 * sum((u - 0.2) ** 2 for u in (u1, u2, u3, u4, u5)) + 0.5 * r * gamma**2


@lru_cache(maxsize=32)
def _linear_quadratic(A, B, Q, R, S) -> tuple[Callable, Callable, Callable]:
    """The functions for given matrices: the same objects for the same numbers, so that nothing is compiled twice."""
    n = len(A)

    def dynamics(*values):
        x, u = values[:n], values[n:]
        return tuple(_dot(A[i], x) + _dot(B[i], u) for i in range(n))

    def running_cost(*values):
        return 0.5 * (_form(Q, values[:n]) + _form(R, values[n:]))

    def terminal_cost(*x):
        return 0.5 * _form(S, x)

    return dynamics, running_cost, terminal_cost


def _van_der_pol(x1, x2, u):
    return (1 - x2**2) * x1 - x2 + u, x1


def _squares(x1, x2, u):
    return x1**2 + x2**2 + u**2


def _mass(v, u):
    return v, u


def _effort(u):
    return 0.5 * u**2


def _time_and_effort(u, effort):
    return 1.0 + 0.5 * effort * u**2


def _at_rest(x, v):
    return x, v


def _pendulum(theta, omega, u):
    return omega, -jnp.sin(theta) + u


def _upright(theta, omega, u):
    return 1 + jnp.cos(theta) + 0.1 * omega**2 + 0.1 * u**2


def _dot(row: Sequence, values: Sequence):
    return sum(a * value for a, value in zip(row, values, strict=True))


def _form(matrix: Sequence, values: Sequence):
    return sum(value * _dot(row, values) for row, value in zip(matrix, values, strict=True))
