"""Control problems with known answers, and trajectories under any control, for tests."""

from flm import OptimalControl
from flm.control.dynamics.following import follow

_van_der_pol = lambda x1, x2, u: ((1 - x2**2) * x1 - x2 + u, x1)
_squares = lambda x1, x2, u: x1**2 + x2**2 + u**2
_mass = lambda v, u: (v, u)
_effort = lambda u: 0.5 * u**2
_at_rest = lambda x, v: (x, v)


def van_der_pol(initial=(0.0, 1.0), *, horizon=10.0, bounds=(-1.0, 1.0)):
    """Bring a Van der Pol oscillator to rest: x1' = (1 - x2²) x1 - x2 + u, x2' = x1, cost integral of x1² + x2² + u²."""
    return OptimalControl(
        dynamics=_van_der_pol,
        running_cost=_squares,
        horizon=horizon,
        states=("x1", "x2"),
        controls=("u",),
        initial=initial,
        bounds=bounds,
        symmetries=((("-x1", "-x2"), ("-u",)),) if bounds in (None, (-1.0, 1.0)) else (),
    )


def double_integrator(initial=(1.0, 0.0), *, horizon=2.0, largest=1.25):
    """Move a mass to rest at the origin with the least effort and a bounded force: x'' = u, cost integral of u²/2."""
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


def simulate(problem, control, x0):
    """Trajectories under the only control, a function of time, of a problem with a fixed horizon."""
    inputs = lambda s, part: control(s * problem.numbers[-1])[..., None]
    return follow(problem, problem.starts.coordinates(x0), inputs)
