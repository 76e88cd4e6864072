"""Named optimal control problems: the paper's two games, and three that control engineers know.

The games are replicator dynamics u_i' = u_i (e_i - u)' (L + gamma M) u of an odd-circulant game (paper, Eq. OCP_main):
a control gamma that changes the payoffs pushes a population towards equal shares, at the cost
integral of |u - u_eq|^2 / 2 + r gamma^2 / 2.

Every problem takes `initial`, a state, an `flm.Ball` or an `flm.Box` whose axes are the states, and most the final time as
`horizon`.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from flm.control.equations import Scalar
from flm.control.problem import Free, OptimalControl
from flm.control.starts import Initial
from flm.language.arguments import Named, argument_names
from flm.wording import InputError

Matrix = tuple[tuple[float, ...], ...]

# Functions of problems are made once, so that problems which differ in numbers alone share what is compiled.
_rps = lambda u1, u2, u3, gamma: _odd_circulant((u1, u2, u3), gamma)
_rps_cost = lambda u1, u2, u3, gamma, r: _unequal((u1, u2, u3)) + 0.5 * r * gamma**2
_rpssl = lambda u1, u2, u3, u4, u5, gamma: _odd_circulant((u1, u2, u3, u4, u5), gamma)
_rpssl_cost = lambda u1, u2, u3, u4, u5, gamma, r: _unequal((u1, u2, u3, u4, u5)) + 0.5 * r * gamma**2
_van_der_pol = lambda x1, x2, u: ((1 - x2**2) * x1 - x2 + u, x1)
_squares = lambda x1, x2, u: x1**2 + x2**2 + u**2
_mass = lambda v, u: (v, u)
_effort = lambda u: 0.5 * u**2
_time_and_effort = lambda u, effort: 1.0 + 0.5 * effort * u**2
_at_rest = lambda x, v: (x, v)
_pendulum = lambda theta, omega, u: (omega, -jnp.sin(theta) + u)
_upright = lambda theta, omega, u: 1 + jnp.cos(theta) + 0.1 * omega**2 + 0.1 * u**2


def rock_paper_scissors(initial: Initial = (0.2, 0.2, 0.6), *, horizon: float = 6.0, r: float = 0.2) -> OptimalControl:
    """Rock–Paper–Scissors: three strategies, one control that pays for winning moves, at the price r.

    The paper's set of initial states is `flm.Ball((0.2, 0.2, 0.6), 0.15)`.
    """
    return _game(_rps, _rps_cost, initial, horizon, r)


def rpssl(initial: Initial = (0.11, 0.11, 0.11, 0.11, 0.56), *, horizon: float = 6.0, r: float = 0.2) -> OptimalControl:
    """Rock–Paper–Scissors–Spock–Lizard: five strategies.

    The paper's set of initial states is `flm.Ball((0.11, 0.11, 0.11, 0.11, 0.56), 0.045)`.
    """
    return _game(_rpssl, _rpssl_cost, initial, horizon, r)


def linear_quadratic(
    A: npt.ArrayLike = ((0.0, 1.0), (-1.0, 0.5)),
    B: npt.ArrayLike = ((0.0,), (1.0,)),
    Q: npt.ArrayLike = ((1.0, 0.0), (0.0, 1.0)),
    R: npt.ArrayLike = ((0.5,),),
    S: npt.ArrayLike | None = None,
    *,
    initial: Initial = (1.0, 0.0),
    horizon: float = 5.0,
) -> OptimalControl:
    """The linear-quadratic regulator: x' = A x + B u, cost integral of (x'Qx + u'Ru)/2 plus x(T)'S x(T)/2.

    The default is an unstable oscillator. Q, R and S are symmetric, R positive definite. States are x1, x2, …, controls
    u1, u2, …; `flm.references.riccati(A, B, Q, R, S, horizon, x0)` has the exact answer.
    """
    given = {"A": A, "B": B, "Q": Q, "R": R} | ({} if S is None else {"S": S})
    matrices = {role: np.atleast_2d(np.asarray(matrix, float)) for role, matrix in given.items()}
    n, k = matrices["B"].shape
    for role, matrix in matrices.items():
        shape = {"B": (n, k), "R": (k, k)}.get(role, (n, n))
        if matrix.shape != shape:
            raise InputError(f"`{role}` must have shape {shape} to match B of shape {(n, k)}; got {matrix.shape}.")
    f = _linear_quadratic(**{role: tuple(map(tuple, matrix.tolist())) for role, matrix in matrices.items()})
    states, controls = tuple(f"x{i + 1}" for i in range(n)), tuple(f"u{i + 1}" for i in range(k))
    dynamics, cost = Named(f["dynamics"], states + controls), Named(f["running_cost"], states + controls)
    end = None if S is None else Named(f["terminal_cost"], states)
    return OptimalControl(dynamics, cost, horizon, states, controls, initial=initial, terminal_cost=end)


def van_der_pol(
    initial: Initial = (0.0, 1.0), *, horizon: float = 10.0, bounds: tuple[float, float] | None = (-1.0, 1.0)
) -> OptimalControl:
    """Bring a Van der Pol oscillator to rest: x1' = (1 - x2²) x1 - x2 + u, x2' = x1, cost integral of x1² + x2² + u²."""
    odd = bounds is None or (None not in bounds and bounds[0] == -bounds[1])
    make = partial(OptimalControl, _van_der_pol, _squares, horizon, ("x1", "x2"), ("u",), initial=initial)
    return make(bounds=bounds, symmetries=((("-x1", "-x2"), ("-u",)),) if odd else ())


def double_integrator(
    initial: Initial = (1.0, 0.0), *, horizon: float = 2.0, largest: float | None = 1.25
) -> OptimalControl:
    """Move a mass to rest at the origin with the least effort and a bounded force: x'' = u, cost integral of u²/2.

    From rest at distance 1 the answer is u = clip(k (t - T/2), -largest, largest), with the force 6/T² at the ends when
    it is unbounded (`largest=None`) and no answer below 4/T².
    """
    return _to_rest(_effort, horizon, initial=initial, bounds=None if largest is None else (-largest, largest))


def pendulum(initial: Initial = (0.0, 0.0), *, horizon: float = 8.0, largest: float = 0.7) -> OptimalControl:
    """Swing a pendulum up with a torque too weak to hold it sideways: theta'' = -sin theta + u, |u| <= largest < 1.

    Cost: integral of (1 + cos theta) + omega²/10 + u²/10, zero at rest upright (theta = ±pi).
    """
    bounds = (-largest, largest)
    return OptimalControl(_pendulum, _upright, horizon, ("theta", "omega"), ("u",), initial=initial, bounds=bounds)


def minimum_time(initial: Initial = (1.0, 0.0), *, effort: float = 0.1, guess: float = 2.0) -> OptimalControl:
    """Move a mass to rest at the origin soon and gently: x'' = u, cost T + effort integral of u²/2, T free.

    Without bounds the answer from rest at distance x is T⁴ = 18 effort x² at cost 4T/3. The search for T starts at `guess`.
    """
    return _to_rest(_time_and_effort, Free(guess), initial=initial, parameters={"effort": effort})


# A mass that a force brings to rest at the origin; a problem adds its cost, its horizon and the rest.
_to_rest = lambda cost, horizon, **rest: OptimalControl(
    _mass, cost, horizon, ("x", "v"), ("u",), terminal=_at_rest, symmetries=((("-x", "-v"), ("-u",)),), **rest
)


def _game(
    dynamics: Callable[..., tuple[Scalar, ...]], cost: Callable[..., Scalar], initial: Initial, horizon: float, r: float
) -> OptimalControl:
    """A game between strategies u1, u2, …; the strategies are all arguments of the dynamics but the last."""
    *states, control = argument_names(dynamics, "dynamics")
    make = partial(OptimalControl, dynamics, cost, horizon, tuple(states), (control,), initial=initial)
    return make(parameters={"r": r}, on_simplex=True, symmetries="cyclic")


def _odd_circulant(shares: Sequence[Scalar], gamma: Scalar) -> tuple[Scalar, ...]:
    """Replicator dynamics u_i ((A u)_i - u'A u) of the game in which i loses to i+1, beats i+2, loses to i+3, ….

    L_ij = (-1)^(j-i), and M is 1 where L is +1: A = L + gamma M has 1 + gamma on the winning entries and -1 on the others.
    """
    n = len(shares)
    wins = [sum(shares[(i + k) % n] for k in range(2, n, 2)) for i in range(n)]
    losses = [sum(shares[(i + k) % n] for k in range(1, n, 2)) for i in range(n)]
    gains = [(1 + gamma) * win - loss for win, loss in zip(wins, losses, strict=True)]
    mean = _dot(shares, gains)
    return tuple(share * (gain - mean) for share, gain in zip(shares, gains, strict=True))


def _unequal(shares: Sequence[Scalar]) -> Scalar:
    return 0.5 * sum((share - 1 / len(shares)) ** 2 for share in shares)


@lru_cache(maxsize=32)
def _linear_quadratic(A: Matrix, B: Matrix, Q: Matrix, R: Matrix, S: Matrix = ()) -> dict[str, Callable[..., object]]:
    """The functions for given matrices; the same numbers give the same objects, so that nothing is compiled twice."""
    n = len(A)
    form = lambda matrix, values: sum(value * _dot(row, values) for row, value in zip(matrix, values, strict=True))
    return {
        "dynamics": lambda *z: tuple(_dot(a, z[:n]) + _dot(b, z[n:]) for a, b in zip(A, B, strict=True)),
        "running_cost": lambda *z: 0.5 * (form(Q, z[:n]) + form(R, z[n:])),
        "terminal_cost": lambda *x: 0.5 * form(S, x),
    }


def _dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    return sum(x * y for x, y in zip(a, b, strict=True))
