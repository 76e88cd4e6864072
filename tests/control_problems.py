"""Trajectories under any control, for tests."""

from flm.control.dynamics import follow


def simulate(problem, control, x0):
    """Trajectories under the only control, a function of time, of a problem with a fixed horizon."""
    inputs = lambda s: control(s * problem.numbers[-1])[..., None]
    return follow(problem, problem.starts.coordinates(x0), inputs)
