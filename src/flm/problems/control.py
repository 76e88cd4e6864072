"""Optimal control problems, written by argument name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from flm.domains.where import did_you_mean
from flm.problems.control_equations import Equations, Named, by_name, count_values
from flm.problems.control_starts import Starts, as_coordinates, make_starts
from flm.problems.control_symmetry import Symmetry, check_symmetries, make_group


@dataclass(frozen=True)
class Free:
    """A final time to be found, as the `horizon` of an `OptimalControl`.

    Args:
        guess: Where the search starts, positive.
    """

    guess: float

    def __post_init__(self):
        if not (np.isfinite(self.guess) and self.guess > 0):
            raise ValueError(f"`guess` must be a positive time; got {self.guess!r}.")


@dataclass(frozen=True, eq=False)
class OptimalControl:
    """Minimize φ(x(T)) + ∫₀ᵀ L(t, x, u) dt subject to dx/dt = f(t, x, u), for one initial state or a whole set of them.

    All functions are elementwise `jax.numpy` functions whose arguments are picked by name: `t`, a state, a control or a
    parameter. Arguments with defaults are left alone.

    Args:
        dynamics: f, one value per state.
        running_cost: L.
        horizon: T, or `flm.Free(guess)`.
        states: Names of the states.
        controls: Names of the controls.
        initial: A point, an `flm.Ball(center, radius)` or an `flm.Box` whose axes are the states.
        terminal_cost: φ, of the states (and `t`) at the final time.
        bounds: For each bounded control its interval; None for an open end. With one control just the interval.
        parameters: Numbers that the functions use by name.
        path: g, or several: required to be ≤ 0 along the trajectory.
        terminal: h, or several: required to be 0 at the final time.
        on_simplex: The states are nonnegative with sum one; all are declared, the last one's start is implied, and a
            Ball is its disk in the plane of the simplex.
        symmetries: "cyclic", or arrangements of the states ("u2", "u3", "u1"), ("-x", "-v"), or pairs of arrangements of
            states and controls. A law is then used on every image of `initial`.

    Raises:
        ValueError: A name is unknown, a function returns the wrong number of values, the claimed symmetry or the
            simplex is not respected by the functions, ….

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

    dynamics: Callable
    running_cost: Callable
    horizon: float | Free
    states: Sequence[str]
    controls: Sequence[str]
    _: KW_ONLY
    initial: Any
    terminal_cost: Callable | None = None
    bounds: Any = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    path: Any = None
    terminal: Any = None
    on_simplex: bool = False
    symmetries: Any = ()

    def __post_init__(self):
        put = partial(object.__setattr__, self)
        put("states", _names("states", self.states))
        put("controls", _names("controls", self.controls))
        put("parameters", _numbers(self.parameters))
        _check_distinct(self.states, self.controls, tuple(self.parameters))
        if not isinstance(self.horizon, Free):
            _check_horizon(self.horizon)
        if self.on_simplex and len(self.states) < 2:
            raise ValueError(f"`states` must be at least two on the simplex; got {', '.join(self.states)}.")
        put("equations", self._make_equations())
        put("starts", make_starts(self.initial, self.states, self.on_simplex))
        lower, upper = _bounds(self.bounds, self.controls)
        put("lower", lower)
        put("upper", upper)
        put("group", make_group(self.symmetries, self.states, self.controls))
        self._check_invariances()

    equations: Equations = field(init=False, repr=False)
    starts: Starts = field(init=False, repr=False)
    lower: np.ndarray = field(init=False, repr=False)
    upper: np.ndarray = field(init=False, repr=False)
    group: tuple[Symmetry, ...] = field(init=False, repr=False)

    @property
    def free(self) -> bool:
        """Whether the final time is to be found."""
        return isinstance(self.horizon, Free)

    @property
    def bounded(self) -> bool:
        """Whether some control has a bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    @property
    def constrained(self) -> bool:
        """Whether there are path or terminal constraints."""
        return bool(self.equations.path or self.equations.terminal)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The parameters' values and, last, the horizon (its guess when it is free)."""
        horizon = self.horizon.guess if isinstance(self.horizon, Free) else float(self.horizon)
        return np.array([*self.parameters.values(), horizon])

    def coordinates(self, x0: Any) -> np.ndarray:
        """Independent coordinates (P, d) of one state or several."""
        return as_coordinates("x0", x0, self.states, self.on_simplex)

    def lift(self, v: np.ndarray) -> np.ndarray:
        """All states (..., n) from independent coordinates (..., d)."""
        return np.concatenate([v, 1.0 - v.sum(axis=-1, keepdims=True)], axis=-1) if self.on_simplex else v

    def locate(self, x0: Any) -> tuple[np.ndarray, np.ndarray]:
        """Where a law made for `initial` is to be asked about given starts.

        Returns:
            Coordinates (P, d) of the images inside `initial`, and the index of the symmetry that maps each start there.

        Raises:
            ValueError: A start is outside `initial` and its images under `symmetries`.
        """
        v = self.coordinates(x0)
        x, image, which = self.lift(v), v.copy(), np.full(len(v), -1)
        for index, member in enumerate(self.group):
            moved = (x @ member.states.T)[:, : v.shape[1]]
            new = (which < 0) & self.starts.contains(moved)
            image[new], which[new] = moved[new], index
        if (which < 0).any():
            raise ValueError(
                f"`x0` must be in `initial`{' or one of its symmetric images' if len(self.group) > 1 else ''}, "
                f"{self.initial!r}; got {np.round(x[which < 0][0], 12).tolist()}. "
                "Solve the problem for a set of initial states that contains it."
            )
        return image, which

    def sample(self, n: int, *, seed: int) -> np.ndarray:
        """`n` random initial states, uniform over `initial`, (n, number of states)."""
        return self.lift(self.starts.sample(n, seed=seed))

    def _make_equations(self) -> Equations:
        states, controls, parameters = self.states, self.controls, tuple(self.parameters)
        along = ("t", *states, *controls, *parameters)
        at_end = ("t", *states, *parameters)
        dynamics = by_name("dynamics", self.dynamics, along)
        if (count := count_values("dynamics", dynamics, "one value per state")) != len(states):
            raise ValueError(
                f"`dynamics` must return one value for each state {', '.join(states)}; got {count} "
                f"value{'s' if count > 1 else ''} for {len(states)} states."
            )
        scalars: dict[str, Named | None] = {"terminal_cost": None}
        roles = {"running_cost": (self.running_cost, along), "terminal_cost": (self.terminal_cost, at_end)}
        for role, (function, known) in roles.items():
            if function is None and role == "terminal_cost":
                continue
            scalars[role] = named = by_name(role, function, known)
            if (count := count_values(role, named, "one value")) != 1:
                raise ValueError(f"`{role}` must return one value; got {count}.")
        constraints = {}
        for role, value, known in (("path", self.path, along), ("terminal", self.terminal, at_end)):
            functions = () if value is None else tuple(value) if isinstance(value, list | tuple) else (value,)
            constraints[role] = tuple(by_name(role, function, known) for function in functions)
            for named in constraints[role]:
                count_values(role, named, "values")
        return Equations(
            dynamics,
            scalars["running_cost"],  # type: ignore[arg-type]
            scalars["terminal_cost"],
            constraints["path"],
            constraints["terminal"],
            states,
            controls,
            parameters,
            self.on_simplex,
            isinstance(self.horizon, Free),
        )

    def _check_invariances(self) -> None:
        """Refuse dynamics that leave the simplex, and symmetries that are none, at a few random points."""
        if not self.on_simplex and len(self.group) == 1:
            return
        rng = np.random.default_rng(0)
        n, k = len(self.states), len(self.controls)
        x = rng.dirichlet(np.ones(n), 16) if self.on_simplex else self.starts.center + rng.standard_normal((16, n))
        u = np.clip(rng.standard_normal((16, k)), self.lower, self.upper)

        def describe(x, u):
            values = _describe(self.equations, x, u, self.numbers)
            return np.asarray(values[0]), np.asarray(values[1])

        rates, _ = describe(x, u)
        if self.on_simplex and np.abs(rates.sum(axis=1)).max() > 1e-9 * (1 + np.abs(rates).max()):
            raise ValueError(
                "`dynamics` must keep the states on the simplex, their derivatives summing to zero; "
                f"got a sum of {rates.sum(axis=1)[np.abs(rates.sum(axis=1)).argmax()]:.3g}."
            )
        if broken := check_symmetries(self.group, describe, x, u):
            raise ValueError(f"`symmetries` must leave the problem unchanged; got {self.symmetries!r}, which {broken} breaks.")


@partial(jax.jit, static_argnums=0)
def _describe(equations: Equations, x, u, numbers):
    """The dynamics (P, n) and everything that a symmetry must not change (P, q), at states x (P, n), controls u (P, k)."""
    import jax.numpy as jnp

    from flm.problems.control_equations import stack

    def at(x, u):
        known = dict(zip(equations.parameters, numbers, strict=False)) | {"t": 0.37 * numbers[-1]}
        known |= dict(zip(equations.states, x, strict=True)) | dict(zip(equations.controls, u, strict=True))
        rates = equations.dynamics(known)
        same = [equations.running_cost(known)]
        if equations.terminal_cost is not None:
            same.append(equations.terminal_cost(known))
        for named in (*equations.path, *equations.terminal):
            value = named(known)
            # Constraints may be exchanged among themselves.
            same.append(jnp.sum(stack(value if isinstance(value, tuple | list) else (value,)) ** 2))
        return stack(rates if isinstance(rates, tuple | list) else (rates,)), stack(same)

    return jax.vmap(at)(x, u)


def _names(role: str, value: Any) -> tuple[str, ...]:
    names = tuple(value.replace(",", " ").split()) if isinstance(value, str) else tuple(value)
    if not names or any(not isinstance(name, str) or not name.isidentifier() for name in names):
        raise ValueError(f'`{role}` must be names like ("x1", "x2"); got {value!r}.')
    return names


def _numbers(parameters: Mapping[str, Any]) -> dict[str, float]:
    numbers = {}
    for name, value in dict(parameters).items():
        if not isinstance(value, int | float | np.number) or not np.isfinite(value):
            raise ValueError(f"`parameters` must be finite numbers; got {name}={value!r}.")
        numbers[name] = float(value)
    return numbers


def _check_distinct(states: tuple[str, ...], controls: tuple[str, ...], parameters: tuple[str, ...]) -> None:
    seen: set[str] = {"t"}
    for role, names in (("states", states), ("controls", controls), ("parameters", parameters)):
        for name in names:
            if name in seen:
                what = "is the time" if name == "t" else "is used twice"
                raise ValueError(f"`{role}` must have names of their own; got {name!r}, which {what}.")
            seen.add(name)


def _check_horizon(horizon: Any) -> None:
    if not isinstance(horizon, int | float | np.number) or not np.isfinite(horizon) or horizon <= 0:
        raise ValueError(f"`horizon` must be a positive time, or flm.Free(guess); got {horizon!r}.")


def _bounds(bounds: Any, controls: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds (k,), infinite where there is none."""
    lower, upper = np.full(len(controls), -np.inf), np.full(len(controls), np.inf)
    if bounds is None:
        return lower, upper
    if not isinstance(bounds, Mapping):
        if len(controls) > 1:
            raise ValueError(f"`bounds` must be a dict with an interval for each bounded control; got {bounds!r}.")
        bounds = {controls[0]: bounds}
    for name, interval in bounds.items():
        if name not in controls:
            raise ValueError(
                f"`bounds` must be for the controls {', '.join(controls)}; got {name!r}.{did_you_mean(name, controls)}"
            )
        try:
            low, high = (bound if bound is None else float(bound) for bound in interval)
        except (TypeError, ValueError):
            raise ValueError(f"`bounds` must be intervals (lower, upper); got {interval!r} for {name!r}.") from None
        index = controls.index(name)
        lower[index] = -np.inf if low is None else low
        upper[index] = np.inf if high is None else high
        if not lower[index] < upper[index]:
            raise ValueError(f"`bounds` must be intervals with lower < upper; got {interval!r} for {name!r}.")
    return lower, upper
