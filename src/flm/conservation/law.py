"""Scalar conservation laws u_t + f(u)_x = 0, periodic in x, and what is to be known of their fluxes."""

from collections.abc import Callable, Mapping
from functools import cached_property

import jax
import numpy as np
import numpy.typing as npt
from jax.core import Tracer

from flm.domains import Box
from flm.language.arguments import Named, Value, argument_names, described
from flm.language.expressions import refuse_reserved
from flm.numerics.elementwise import Program, as_numpy, in_chunks
from flm.pde.conditions import initial, periodic
from flm.pde.problem import PDE
from flm.series.arrays import Numbers
from flm.wording import InputError, InputTypeError, number_text, short

Elementwise = Callable[[Numbers], float | Numbers]  # NumPy or jax.numpy, written for one number
OnArrays = Callable[[np.ndarray], np.ndarray]


class ConservationLaw:
    """A scalar conservation law u_t + f(u)_x = 0, periodic in x, whose solution is the entropy solution.

    Args:
        flux: f, a function of the unknown and of parameters by name, smooth, convex or not: `lambda u: u**2 / 2`.
        domain: A box of space and time, `Box(x=(0, 1), t=(0, 1))`; the interval in x is one period.
        initial: u at the first time, a function of x (jumps are allowed) or a number.
        parameters: Numbers by name, for `flux` and `initial`.
        exact: The solution if known, a function of x and t by name. Never used to solve.

    Attributes:
        flux: f on float64 arrays.
        speed: f′ on float64 arrays, the speed of characteristics.
        initial: The initial state on float64 arrays.
        state_range: The least and the largest initial value, which bound the solution at all times.
        axes: Names of space and time.

    Raises:
        ValueError: The domain is not space and time, a name is unknown, or a function is not finite or not smooth.

    Example:
        >>> from flm.domains import Box
        >>> law = ConservationLaw(lambda u: u**2 / 2, Box(x=(0, 1), t=(0, 1)), lambda x: np.sin(2 * np.pi * x))
        >>> round(law.breaking_time, 4)
        0.1592
    """

    def __init__(
        self,
        flux: Callable[..., Value],
        domain: Box,
        initial: float | Callable[..., Value],
        *,
        parameters: Mapping[str, float] | None = None,
        exact: Callable[..., Value] | None = None,
    ):
        if not isinstance(domain, Box) or len(domain) != 2 or domain.axes[1] != "t":
            raise InputError(f"`domain` must be a box of space and then time, Box(x=(0, 1), t=(0, 1)); got {domain!r}.")
        self.domain, self.axes = domain, domain.axes
        self.parameters = dict(parameters or {})
        if odd := [name for name, v in self.parameters.items() if not isinstance(v, int | float | np.number)]:
            got = short(self.parameters[odd[0]])
            raise InputError(f"`parameters` of a conservation law must be numbers; got {got} for {odd[0]!r}.")
        unknown = [name for name in argument_names(flux, "`flux`") if name not in self.parameters]
        if len(unknown) != 1 or unknown[0] in domain.axes:
            raise InputError(
                f"`flux` must be a function of the unknown alone, as in `lambda u: u**2 / 2` (and of parameters, "
                f"{', '.join(self.parameters) or 'none declared'}); got the arguments {', '.join(unknown) or 'none'}."
            )
        stem, _, along = unknown[0].rpartition("_")
        if stem and along and set(along) <= set("".join(domain.axes)):
            raise InputError(
                f"`flux` must be a function of the unknown itself, as in `lambda {stem}: {stem}**2 / 2`; got {unknown[0]}, a "
                "derivative."
            )
        refuse_reserved(domain.axes)
        self.unknowns = (unknown[0],)
        self._flux, self._initial = flux, initial
        if not callable(initial) and not isinstance(initial, int | float | np.floating | np.integer):
            raise InputTypeError(f"`initial` must be a number or a function of {domain.axes[0]}; got {initial!r}.")
        if callable(initial):
            space = domain.axes[0]
            if odd := [n for n in argument_names(initial, "`initial`") if n not in (space, *self.parameters)]:
                raise InputError(f"`initial` must be a function of {space}; got the argument {odd[0]!r}.")
        self.flux, self.initial = on_arrays(self._plain_flux), on_arrays(lambda x: self._plain_initial(x) + 0.0 * x)
        line = np.linspace(*domain.intervals[0], 257)
        sample = _tried(self.initial, line, "`initial`")
        if not np.all(np.isfinite(sample)):
            raise InputError("`initial` must be finite on the domain; got values that are not.")
        if not np.all(np.isfinite(_tried(self.flux, sample, "`flux`"))):
            raise InputError("`flux` must be finite on the range of the initial state; got values that are not.")
        values = self.initial(np.linspace(*domain.intervals[0], 2**14 + 1)[:-1])
        low, high = self.state_range = float(values.min()), float(values.max())
        room = 0.05 * (high - low) + 1e-6 * max(abs(low), abs(high), 1e-300)
        self.speed = derivative(self._plain_flux, low - room, high + room)
        self.exact = exact
        if exact is not None and (odd := [n for n in argument_names(exact, "`exact`") if n not in domain.axes]):
            raise InputError(f"`exact` must be a function of {' and '.join(domain.axes)}; got the argument {odd[0]!r}.")

    @cached_property
    def breaking_time(self) -> float:
        """How long the solution stays smooth, −1 / min (f′(u0))_x; infinite when no characteristics meet."""
        low, high = self.domain.intervals[0]
        return breaking_time(lambda x: self.speed(self.initial(low + (x - low) % (high - low))), low, high)

    def strong(self) -> PDE:
        """The law as a strong residual, u_t + f′(u) u_x = 0, for gradient training: the paper's form."""
        u, (x, _) = self.unknowns[0], self.axes

        def residual(value: Numbers, by_time: Numbers, by_space: Numbers) -> Numbers:
            slope = jax.jvp(self._plain_flux, (value,), (jax.numpy.ones_like(value),))[1]
            return by_time + slope * by_space

        return PDE(
            self.domain,
            Named(residual, (u, f"{u}_t", f"{u}_{x}")),
            [initial(Named(self._plain_initial, (x,)), unknown=u), periodic(x)],
            unknowns=self.unknowns,
            exact=self.exact,
        )

    def exact_values(self, points: npt.ArrayLike) -> np.ndarray:
        """The exact solution at points (P, 2), (P,)."""
        if self.exact is None:
            raise InputError("the problem must have an `exact` solution for this; give `reference` instead.")
        points = self.domain.as_points(points)
        columns = dict(zip(self.axes, points.T, strict=True))
        values = self.exact(**{name: columns[name] for name in argument_names(self.exact, "`exact`")})
        return np.broadcast_to(np.asarray(values, float), (len(points),))

    def test_points(self, shape: tuple[int, int] = (251, 101)) -> np.ndarray:
        """A grid over the period and the whole time, (P, 2), shifted by a third of a cell in x.

        A shock on a line of simple slope then passes between the nodes: an error at a node on the shock would mean nothing.
        """
        (low, high), (start, end) = self.domain.intervals
        x = low + (high - low) * (np.arange(shape[0]) + 1.0 / 3.0) / shape[0]
        t = np.linspace(start, end, shape[1])
        return np.stack([g.ravel() for g in np.meshgrid(x, t, indexing="ij")], axis=1)

    def __repr__(self) -> str:
        u, x = self.unknowns[0], self.axes[0]
        lines = [
            f"ConservationLaw of {u} on {self.domain!r}, periodic in {x}",
            f"  {u}_t + f({u})_{x} = 0, f: {described(self._flux)}",
            f"  t={number_text(self.domain['t'][0])}: {u} = {described(self._initial)}",
            *(f"  {name} = {value!r}" for name, value in self.parameters.items()),
        ]
        return "\n".join(lines)

    def _plain_flux(self, value: Numbers) -> Value:
        fixed = {name: v for name, v in self.parameters.items() if name in argument_names(self._flux, "`flux`")}
        return self._flux(**{self.unknowns[0]: value}, **fixed)

    def _plain_initial(self, x: Numbers) -> Value:
        if not callable(self._initial):
            return float(self._initial)
        known = {self.axes[0]: x, **self.parameters}
        return self._initial(**{name: known[name] for name in argument_names(self._initial, "`initial`")})


def _tried(function: OnArrays, values: np.ndarray, label: str) -> np.ndarray:
    try:
        return function(values)
    except (TypeError, ValueError, ArithmeticError) as error:
        said = " ".join(str(error).split())
        raise InputTypeError(f"{label} must return numbers, elementwise on arrays; it failed with: {said}") from None


def on_arrays(function: Elementwise) -> OnArrays:
    """A user's elementwise function of one variable, in NumPy or jax.numpy, as a function of float64 arrays.

    Traced arrays are passed on unchanged.
    """
    programs: list[Program | None] = []  # made at the first call
    padded = lambda u: [np.broadcast_to(np.asarray(function(u), float), u.shape)]

    def values(u: np.ndarray) -> np.ndarray:
        if isinstance(u, Tracer):
            return function(u)  # type: ignore[return-value]
        if not programs:
            programs.append(as_numpy(function, ()))
        u, program = np.asarray(u, float), programs[0]
        # without a program, on few shapes: each new one may compile
        found = in_chunks(padded, u.ravel()) if program is None else program.rows(u.ravel())
        return found[0].reshape(u.shape)

    return values


def derivative(flux: Elementwise, low: float, high: float) -> OnArrays:
    """f′ to rounding on an interval, by automatic differentiation; refused if divided differences of f disagree with it."""
    slope = on_arrays(jax.jit(lambda u: jax.jvp(lambda v: flux(v) + 0.0 * v, (u,), (jax.numpy.ones_like(u),))[1]))
    u = np.linspace(low, high, 65)[1:-1]
    step = 1e-5 * max(high - low, 1e-300)
    f = on_arrays(flux)
    rough = (f(u + step) - f(u - step)) / (2.0 * step)
    size = np.abs(rough).max() + np.abs(f(u)).max() * 1e-9 / max(high - low, 1e-300)
    try:
        fits = np.abs(slope(u) - rough).max() <= 1e-4 * size
    except Exception:  # whatever the user's function raises on traced numbers
        fits = False
    if not fits:
        raise InputError(
            f"`flux` must be smooth on [{low:.6g}, {high:.6g}], elementwise, and differentiable; got one whose derivative "
            "disagrees with divided differences. Write it with jax.numpy."
        )
    return slope


def breaking_time(wave: OnArrays, low: float, high: float) -> float:
    """When characteristics of speed wave(x) = f′(u0(x)) first meet, −1 / min wave′; infinite when they never do."""
    from scipy.optimize import minimize_scalar  # imported here: every command reads this module

    step, h = (high - low) / 2**14, 1e-4 * (high - low)
    x = low + step * np.arange(2**14)
    slope = (wave(x + 1e-3 * step) - wave(x - 1e-3 * step)) / (2e-3 * step)
    least = x[slope.argmin()]
    fourth_order = lambda x: np.array([1, -8, 8, -1]) @ wave(x + h * np.array([-2, -1, 1, 2])) / (12 * h)
    found = minimize_scalar(
        fourth_order, bounds=(least - step, least + step), method="bounded", options={"xatol": 1e-9 * step}
    )
    steepest = float(found.fun)
    return -1.0 / steepest if steepest < -1e-12 * np.abs(slope).max() - 1e-300 else np.inf


def turning_points(flux: Elementwise, low: float, high: float) -> np.ndarray:
    """The places of the local minima and maxima of f in (low, high): the zeros of f′ at which it changes its sign."""
    from scipy.optimize import root_scalar  # imported here: every command reads this module

    speed, u = derivative(flux, low, high), np.linspace(low, high, 4097)
    sign = np.sign(speed(u))
    inside = u[1:-1][(sign[1:-1] == 0) & (sign[:-2] * sign[2:] < 0)]
    between = np.flatnonzero(sign[:-1] * sign[1:] < 0)
    at = lambda v: float(speed(np.array([v]))[0])
    found = [root_scalar(at, bracket=(u[i], u[i + 1])).root for i in between]
    return np.sort(np.concatenate([inside, found]))
