"""Optimal control problems, written by argument name."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flm.control.dynamics.following import Followed, follow
from flm.control.dynamics.kernels import evaluate, evaluate_end
from flm.control.equations import Equations, by_name, call, count_values, stack
from flm.control.starts import Starts, make_starts
from flm.control.symmetry import check_symmetries, make_group
from flm.language.arguments import Named
from flm.wording import InputError, did_you_mean


@dataclass(frozen=True)
class Free:
    """A final time to be found, as the `horizon` of an `OptimalControl`.

    Args:
        guess: Where the search starts, positive.
    """

    guess: float

    def __post_init__(self):
        if not (isinstance(self.guess, int | float | np.number) and np.isfinite(self.guess) and self.guess > 0):
            raise InputError(f"`guess` must be a positive time; got {self.guess!r}.")


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

    dynamics: Any
    running_cost: Any
    horizon: float | Free
    states: tuple[str, ...]
    controls: tuple[str, ...]
    _: KW_ONLY
    initial: Any
    terminal_cost: Any = None
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
            raise InputError(f"`states` must be at least two on the simplex; got {', '.join(self.states)}.")
        put("equations", self._make_equations())
        lower, upper = _bounds(self.bounds, self.controls)
        put("lower", lower)
        put("upper", upper)
        group = make_group(self.symmetries, self.states, self.controls)
        put("starts", make_starts(self.initial, self.states, self.on_simplex, group))
        self._check_invariances()

    equations: Equations = field(init=False, repr=False)
    starts: Starts = field(init=False, repr=False)
    lower: np.ndarray = field(init=False, repr=False)
    upper: np.ndarray = field(init=False, repr=False)

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

    def sample(self, n: int, *, seed: int, image: int = 0) -> np.ndarray:
        """`n` random initial states, uniform over `initial` or its `image`-th symmetric image, (n, number of states)."""
        x = self.starts.lift(self.starts.sample(n, seed=seed))
        return x @ self.starts.group[image].states

    def follow(
        self, inputs: Callable[[np.ndarray, slice], np.ndarray], x0: Any, breaks: np.ndarray | None = None
    ) -> Followed:
        """The trajectories from x0 under given inputs, tightly integrated.

        Args:
            inputs: Controls (and log T when it is free), (E, P, q, k), at normalized times s = t/T of shape (E, P, q) for a
                slice of the starts.
            x0: One initial state or several.
            breaks: Normalized times (P, B) at which the inputs are not smooth; nan for none.
        """
        return follow(self.equations, self.numbers, self.starts.coordinates(x0), inputs, breaks)

    def evaluate(self, s: np.ndarray, v: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rates of the coordinates (P, R, d) and running cost (P, R), per unit of normalized time, at s (R,)."""
        every = np.broadcast_to(s, v.shape[:2])
        rates, _, running, *_ = evaluate(self.equations, self.numbers, every, v, u)
        return rates, running

    def evaluate_end(self, v: np.ndarray) -> np.ndarray:
        """The terminal cost (P,) of final coordinates v (P, d); zero when there is none."""
        return evaluate_end(self.equations, self.numbers, v)

    def simulate(self, control: Callable[[np.ndarray], Any], x0: Any) -> Followed:
        """The trajectories from x0 under `control(t)`, a function of arrays of times: one array per control.

        Example:
            >>> from flm.problems import rock_paper_scissors
            >>> problem = rock_paper_scissors()
            >>> float(problem.simulate(lambda t: 0.0 * t, (0.2, 0.2, 0.6)).cost[0])  # doctest: +ELLIPSIS
            0.257182...
        """
        if self.free:
            raise InputError(
                "`simulate` must have a fixed horizon; got flm.Free. Build the problem with the T that you want."
            )
        horizon, k = float(self.numbers[-1]), len(self.controls)

        def inputs(s, part):
            values = control(s * horizon)
            values = values if isinstance(values, tuple | list) else (values,)
            if len(values) != k:
                raise InputError(
                    f"`control` must return one array for each of {', '.join(self.controls)}; got {len(values)}."
                )
            return np.stack([np.broadcast_to(np.asarray(value, float), s.shape) for value in values], axis=-1)

        return self.follow(inputs, x0)

    def optimal_costs(self, x0: Any, method: str = "pontryagin", **options: Any) -> np.ndarray:
        """Costs from an independent reference, (P,): "pontryagin" or "collocation" (flm.references), one solve a start."""
        from flm.control.references.collocation import collocation
        from flm.control.references.pontryagin import pontryagin

        if method not in ("pontryagin", "collocation"):
            raise InputError(f"`method` must be 'pontryagin' or 'collocation'; got {method!r}.")
        solve = pontryagin if method == "pontryagin" else collocation
        x = self.starts.lift(self.starts.coordinates(x0))
        return np.array([solve(self, state, **options).cost for state in x])

    def _make_equations(self) -> Equations:
        states, controls, parameters = self.states, self.controls, tuple(self.parameters)
        along = ("t", *states, *controls, *parameters)
        at_end = ("t", *states, *parameters)
        dynamics = by_name("dynamics", self.dynamics, along)
        if (count := count_values("dynamics", dynamics, "one value per state")) != len(states):
            raise InputError(
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
                raise InputError(f"`{role}` must return one value; got {count}.")
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
        if not self.on_simplex and len(self.starts.group) == 1:
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
            raise InputError(
                "`dynamics` must keep the states on the simplex, their derivatives summing to zero; "
                f"got a sum of {rates.sum(axis=1)[np.abs(rates.sum(axis=1)).argmax()]:.3g}."
            )
        broken = check_symmetries(self.starts.group, describe, x, u)
        for member in self.starts.group:
            # Row i of Q is ± e_j: control i of the image is ± control j.
            order, sign = np.abs(member.controls).argmax(axis=1), member.controls.sum(axis=1)
            low, high = self.lower[order], self.upper[order]
            turned = np.where(sign > 0, low, -high), np.where(sign > 0, high, -low)
            if not (np.array_equal(turned[0], self.lower) and np.array_equal(turned[1], self.upper)):
                broken = broken or "the bounds break"
        if broken:
            raise InputError(f"`symmetries` must leave the problem unchanged; got {self.symmetries!r}, which {broken}.")


@partial(jax.jit, static_argnums=0)
def _describe(equations: Equations, x, u, numbers):
    """The dynamics (P, n) and everything that a symmetry must not change (P, q), at states x (P, n), controls u (P, k)."""

    def at(x, u):
        known = dict(zip(equations.parameters, numbers, strict=False)) | {"t": 0.37 * numbers[-1]}
        known |= dict(zip(equations.states, x, strict=True)) | dict(zip(equations.controls, u, strict=True))
        rates = call(equations.dynamics, known)
        same = [call(equations.running_cost, known)]
        if equations.terminal_cost is not None:
            same.append(call(equations.terminal_cost, known))
        for named in (*equations.path, *equations.terminal):
            value = call(named, known)
            # Constraints may be exchanged among themselves.
            same.append(jnp.sum(stack(value if isinstance(value, tuple | list) else (value,)) ** 2))
        return stack(rates if isinstance(rates, tuple | list) else (rates,)), stack(same)

    return jax.vmap(at)(x, u)


def _names(role: str, value: Any) -> tuple[str, ...]:
    names = tuple(value.replace(",", " ").split()) if isinstance(value, str) else tuple(value)
    if not names or any(not isinstance(name, str) or not name.isidentifier() for name in names):
        raise InputError(f'`{role}` must be names like ("x1", "x2"); got {value!r}.')
    return names


def _numbers(parameters: Mapping[str, Any]) -> dict[str, float]:
    numbers = {}
    for name, value in dict(parameters).items():
        if not isinstance(value, int | float | np.number) or not np.isfinite(value):
            raise InputError(f"`parameters` must be finite numbers; got {name}={value!r}.")
        numbers[name] = float(value)
    return numbers


def _check_distinct(states: tuple[str, ...], controls: tuple[str, ...], parameters: tuple[str, ...]) -> None:
    seen: set[str] = {"t"}
    for role, names in (("states", states), ("controls", controls), ("parameters", parameters)):
        for name in names:
            if name in seen:
                what = "is the time" if name == "t" else "is used twice"
                raise InputError(f"`{role}` must have names of their own; got {name!r}, which {what}.")
            seen.add(name)


def _check_horizon(horizon: Any) -> None:
    if not isinstance(horizon, int | float | np.number) or not np.isfinite(horizon) or horizon <= 0:
        raise InputError(f"`horizon` must be a positive time, or flm.Free(guess); got {horizon!r}.")


def _bounds(bounds: Any, controls: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
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
            raise InputError(
                f"`bounds` must be for the controls {', '.join(controls)}; got {name!r}.{did_you_mean(name, controls)}"
            )
        try:
            low, high = (bound if bound is None else float(bound) for bound in interval)
        except (TypeError, ValueError):
            raise InputError(f"`bounds` must be intervals (lower, upper); got {interval!r} for {name!r}.") from None
        index = controls.index(name)
        lower[index] = -np.inf if low is None else low
        upper[index] = np.inf if high is None else high
        if not lower[index] < upper[index]:
            raise InputError(f"`bounds` must be intervals with lower < upper; got {interval!r} for {name!r}.")
    return lower, upper
