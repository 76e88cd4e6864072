"""Optimal control problems, written by argument name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from flm.control.equations import Constraints, Equations, Function, make_equations
from flm.control.starts import Initial, Starts, Symmetries, check_invariances, make_group, make_starts
from flm.wording import InputError, did_you_mean, number_text

Interval = tuple[float | None, float | None]  # None for an open end


@dataclass(frozen=True)
class Free:
    """A final time to be found, as the `horizon` of an `OptimalControl`.

    Args:
        guess: Where the search starts; positive.

    Example:
        >>> import flm
        >>> flm.problems.minimum_time(initial=(1.0, 0.0)).horizon
        Free(guess=2.0)
    """

    guess: float

    def __post_init__(self):
        if not _is_time(self.guess):
            raise InputError(f"`guess` must be a positive time; got {self.guess!r}.")


@dataclass(frozen=True, eq=False, repr=False)
class OptimalControl:
    """Minimize φ(x(T)) + ∫₀ᵀ L(t, x, u) dt subject to dx/dt = f(t, x, u), for one initial state or a whole set of them.

    All functions are elementwise `jax.numpy` functions whose arguments are picked by name: `t`, a state, a control or a
    parameter. An argument that has a default keeps it.

    Args:
        dynamics: f, one value per state.
        running_cost: L.
        horizon: T, or `flm.Free(guess)`.
        states: Names of the states.
        controls: Names of the controls.
        initial: A point, an `flm.Ball(center, radius)` or an `flm.Box` whose axes are the states.
        terminal_cost: φ, of the states (and `t`) at the final time.
        bounds: The interval of each bounded control by name; None for an open end. With one control, just the interval.
        parameters: Numbers that the functions use by name.
        path: g, or several: each must be ≤ 0 along the trajectory.
        terminal: h, or several: each must be 0 at the final time.
        on_simplex: Whether states are nonnegative with sum one. All of them are named, but the last one's initial value may
            be left out, and a Ball of initial states is the disk that it cuts from the plane of the simplex.
        symmetries: "cyclic", or arrangements of the states ("u2", "u3", "u1"), ("-x", "-v"), or pairs of arrangements of
            states and controls. The law for `initial` is then used on its symmetric images too.

    Raises:
        ValueError: A name is unknown, a function returns the wrong number of values, or the functions do not have the
            claimed symmetry or leave the simplex.

    Example:
        >>> problem = OptimalControl(
        ...     dynamics=lambda x, u: -x + u,
        ...     running_cost=lambda x, u: x**2 + u**2,
        ...     horizon=1.0,
        ...     states=("x",),
        ...     controls=("u",),
        ...     initial=[1.0],
        ... )
    """

    dynamics: Function
    running_cost: Function
    horizon: float | Free
    states: tuple[str, ...]
    controls: tuple[str, ...]
    _: KW_ONLY
    initial: Initial
    terminal_cost: Function | None = None
    bounds: Interval | Mapping[str, Interval] | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    path: Constraints = None
    terminal: Constraints = None
    on_simplex: bool = False
    symmetries: Symmetries = ()

    equations: Equations = field(init=False)
    starts: Starts = field(init=False)
    lower: np.ndarray = field(init=False)
    upper: np.ndarray = field(init=False)
    rest: np.ndarray = field(init=False)  # the control that a zero series gives, (k,)
    numbers: np.ndarray = field(init=False)  # the parameters' values and, last, the horizon (its guess when it is free)
    free: bool = field(init=False)  # whether the final time is to be found
    bounded: bool = field(init=False)  # whether some control has a bound
    constrained: bool = field(init=False)  # whether there are path or terminal constraints

    def __post_init__(self):
        put = partial(object.__setattr__, self)
        put("states", _names("states", self.states))
        put("controls", _names("controls", self.controls))
        put("parameters", _numbers(self.parameters))
        _check_distinct(states=self.states, controls=self.controls, parameters=tuple(self.parameters))
        horizon = self.horizon.guess if isinstance(self.horizon, Free) else self.horizon
        if not _is_time(horizon):
            raise InputError(f"`horizon` must be a positive time, or flm.Free(guess); got {self.horizon!r}.")
        put("free", isinstance(self.horizon, Free))
        put("numbers", np.array([*self.parameters.values(), float(horizon)]))
        if self.on_simplex and len(self.states) < 2:
            raise InputError(f"`states` must be at least two on the simplex; got {', '.join(self.states)}.")
        put("equations", make_equations(self))
        put("constrained", bool(self.equations.path or self.equations.terminal))
        lower, upper = _bounds(self.bounds, self.controls)
        put("lower", lower)
        put("upper", upper)
        put("bounded", bool(np.isfinite(lower).any() or np.isfinite(upper).any()))
        put("rest", _inside(lower, upper))
        group = make_group(self.symmetries, self.states, self.controls)
        put("starts", make_starts(self.initial, self.states, self.on_simplex, group))
        check_invariances(self)

    def sample(self, n: int, *, seed: int, image: int = 0) -> np.ndarray:
        """`n` random initial states, uniform over `initial` or its `image`-th symmetric image, (n, number of states)."""
        x = self.starts.lift(self.starts.sample(n, seed=seed))
        return x @ self.starts.group[image].states

    def optimal_costs(self, x0: npt.ArrayLike) -> np.ndarray:
        """Optimal costs (P,) by Pontryagin's principle, independent of `solve`: one two-point problem for each state."""
        from flm.control.references import pontryagin

        x = self.starts.lift(self.starts.coordinates(x0))
        return np.array([pontryagin(self, state).cost for state in x])

    def __repr__(self) -> str:
        says = self.equations
        functions = [("dynamics", says.dynamics), ("running_cost", says.running_cost)]
        functions += [("terminal_cost", says.terminal_cost)] if says.terminal_cost else []
        functions += [("path", named) for named in says.path] + [("terminal", named) for named in says.terminal]
        parts = [f"{role}({', '.join(named.names)})" for role, named in functions]
        horizon = f"Free({number_text(self.numbers[-1])})" if self.free else number_text(self.numbers[-1])
        parts += [f"horizon {horizon}", f"states {', '.join(self.states)}{' on the simplex' * self.on_simplex}"]
        parts += [f"controls {', '.join(map(self._bounded_name, range(len(self.controls))))}", f"from {self.starts}"]
        return f"OptimalControl({'; '.join(parts)})"

    def _bounded_name(self, index: int) -> str:
        """A control with its bounds, such as -1 <= u <= 1."""
        low, high = (number_text(float(bounds[index])) for bounds in (self.lower, self.upper))
        left, right = f"{low} <= " if low != "-inf" else "", f" <= {high}" if high != "inf" else ""
        return f"{left}{self.controls[index]}{right}"


def _names(role: str, value: str | Sequence[str]) -> tuple[str, ...]:
    names = tuple(value.replace(",", " ").split()) if isinstance(value, str) else tuple(value)
    if not names or any(not isinstance(name, str) or not name.isidentifier() for name in names):
        raise InputError(f'`{role}` must be names like ("x1", "x2"); got {value!r}.')
    return names


def _numbers(parameters: Mapping[str, float]) -> dict[str, float]:
    for name, value in dict(parameters).items():
        if not isinstance(value, int | float | np.number) or not np.isfinite(value):
            raise InputError(f"`parameters` must be finite numbers; got {name}={value!r}.")
    return {name: float(value) for name, value in dict(parameters).items()}


def _check_distinct(**roles: tuple[str, ...]) -> None:
    seen = {"t": "is the time"}
    for role, name in ((role, name) for role, names in roles.items() for name in names):
        if name in seen:
            raise InputError(f"`{role}` must have names of their own; got {name!r}, which {seen[name]}.")
        seen[name] = "is used twice"


def _is_time(value: object) -> bool:
    return isinstance(value, int | float | np.number) and bool(np.isfinite(value) and value > 0)


def _bounds(
    bounds: Interval | Mapping[str, Interval] | None, controls: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds (k,), infinite where there is none."""
    lower, upper = np.full(len(controls), -np.inf), np.full(len(controls), np.inf)
    if bounds is None:
        return lower, upper
    if not isinstance(bounds, Mapping):
        if len(controls) > 1:
            raise InputError(f"`bounds` must be a dict with an interval for each bounded control; got {bounds!r}.")
        bounds = dict.fromkeys(controls, bounds)
    for name, interval in bounds.items():
        if name not in controls:
            near = did_you_mean(name, controls)
            raise InputError(f"`bounds` must be for the controls {', '.join(controls)}; got {name!r}.{near}")
        index = controls.index(name)
        try:
            low, high = interval
            lower[index] = -np.inf if low is None else float(low)
            upper[index] = np.inf if high is None else float(high)
        except (TypeError, ValueError):
            raise InputError(f"`bounds` must be intervals (lower, upper); got {interval!r} for {name!r}.") from None
        if not lower[index] < upper[index]:
            raise InputError(f"`bounds` must be intervals with lower < upper; got {interval!r} for {name!r}.")
    return lower, upper


def _inside(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Zero, or numbers well inside the bounds where there are any."""
    low, high = np.isfinite(lower), np.isfinite(upper)
    with np.errstate(invalid="ignore"):
        open_end = np.where(low, np.maximum(0.0, lower + 1.0), np.where(high, np.minimum(0.0, upper - 1.0), 0.0))
        return np.where(low & high, 0.5 * (lower + upper), open_end)
