"""References of conservation laws: the exact entropy solution for convex f (Lax–Oleinik), and Godunov's finite volumes for any.

u(x, t) = u0(y) where y minimizes G(y) = U0(y) + t f*((x − y)/t), U0′ = u0, f* the Legendre transform. The minimizers are
feet of characteristics, y + t f′(u0(y)) = x, where G = U0(y) + t (u f′(u) − f(u)), u = u0(y): neither f* nor the inverse of
f′ is needed, except inside a rarefaction fan, where y sits at a jump of u0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from flm.conservation.law import Elementwise, breaking_time, derivative, on_arrays, turning_points
from flm.wording import InputError

_SEARCH = 256  # intervals of y in which feet of characteristics are looked for
_CHUNK = 4096  # points at a time: 8 MiB per temporary
_BISECTIONS = 54
_CELLS = 2048  # cells of the table of U0
_CFL = 0.9  # Δt max|f′| / Δx of Godunov's method
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


class EntropySolution:
    """The entropy solution as a function of points (x, t), exact to rounding away from shocks.

    Args:
        initial: u0, elementwise; periodic continuation of its values in `period`.
        flux: A convex f, elementwise; Burgers' u²/2 by default.
        period: The interval in x.

    Raises:
        ValueError: f is not convex on the range of u0. Use `godunov`.

    Example:
        >>> exact = EntropySolution(lambda x: 1 + 0.35 * np.sin(2 * np.pi * x))
        >>> round(exact.breaking_time * 0.7 * np.pi, 9)
        1.0
        >>> exact.shocks(0.75).round(12)
        array([0.25])
    """

    def __init__(
        self,
        initial: Elementwise,
        flux: Elementwise = lambda u: 0.5 * u**2,
        period: tuple[float, float] = (0.0, 1.0),
    ):
        self.initial, self.flux, self.period = initial, flux, period
        self._initial, self._flux = on_arrays(initial), on_arrays(flux)
        u = self._initial(np.linspace(*period, 2**14 + 1)[:-1])
        if not np.all(np.isfinite(u)):
            raise InputError("`initial` must be finite in the period; got values that are not.")
        # The true extrema may lie between samples: widen by what second differences suggest (too much at a jump).
        room = min(0.25 * np.abs(np.diff(u, 2)).max(), 1e-3 * np.ptp(u)) + 1e-12 * np.abs(u).max()
        self._range = float(u.min() - room), float(u.max() + room)
        self._speed = derivative(flux, *self._range)
        speeds = self._speed(np.linspace(*self._range, 1025))
        if np.any(np.diff(speeds) < -1e-12 * np.abs(speeds).max()):
            raise InputError(
                f"`flux` must be convex on the range of the initial state, [{self._range[0]:.6g}, {self._range[1]:.6g}]; "
                "got one that is not. Use `flm.references.godunov`."
            )
        width = (period[1] - period[0]) / _CELLS
        nodes = period[0] + width * (np.arange(_CELLS)[:, None] + 0.5 + 0.5 * _NODES)
        self._table = np.append(0.0, np.cumsum(self._start(nodes) @ _WEIGHTS * (0.5 * width)))  # of U0

    def __call__(self, points: npt.ArrayLike) -> np.ndarray:
        """u at points (P, 2), columns x and t ≥ 0, (P,); at a shock, one of the two limits."""
        points = np.asarray(points, float)
        if points.ndim != 2 or points.shape[1] != 2:
            raise InputError(f"`points` must have shape (P, 2), columns x and t; got {points.shape}.")
        if np.any(points[:, 1] < 0.0):
            raise InputError(f"`points` must have t >= 0; got {points[:, 1].min():.6g}.")
        parts = [self._evaluate(chunk)[0] for chunk in np.array_split(points, max(1, -(-len(points) // _CHUNK)))]
        return np.concatenate(parts)

    @cached_property
    def breaking_time(self) -> float:
        """When the first shock forms, t* = −1 / min (f′(u0))′; infinite when characteristics never meet."""
        return breaking_time(self._wave, *self.period)

    def shocks(self, t: float) -> np.ndarray:
        """Positions of the shocks at time t, in the period and in order: where the foot of the characteristic jumps."""
        low, high = self.period
        x = np.linspace(low, high, 2049)
        _, feet = self._evaluate(np.stack([x, np.full_like(x, t)], axis=1))
        # y is nondecreasing in x; a shock makes it jump by more than the compression of smooth parts could.
        i = np.flatnonzero(np.diff(feet) > 20.0 * (x[1] - x[0]))
        between = 0.5 * (feet[i] + feet[i + 1])
        behind = lambda x: self._evaluate(np.stack([x, np.full_like(x, t)], axis=1))[1] >= between
        return np.unique(np.round(low + (_bisect(behind, x[i], x[i + 1]) - low) % (high - low), 14))

    def _evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values and feet y, both (P,)."""
        x, t = points.T
        slow, fast = self._speed(np.array(self._range))
        slack = 1e-9 * (self.period[1] - self.period[0])
        first, last = x - t * fast - slack, x - t * slow + slack
        y = first[:, None] + (last - first)[:, None] * (np.arange(_SEARCH + 1) / _SEARCH)
        arrives = y + t[:, None] * self._wave(y)
        # G′ has the sign of y + t f′(u0(y)) − x: local minima are where it turns from − to +.
        late = arrives > x[:, None]
        point, cell = np.nonzero(~late[:, :-1] & late[:, 1:])
        px, pt = x[point], t[point]
        foot = _bisect(lambda y: y + pt * self._wave(y) > px, y[point, cell], y[point, cell + 1])
        u = self._start(foot)
        # In a fan the foot sits at an upward jump of u0, and f′(u) = (x − y)/t picks u between its limits.
        miss = np.abs(foot + pt * self._speed(u) - px)
        fan = miss > 1e-9 * (self.period[1] - self.period[0]) + 1e-6 * pt * (fast - slow)
        if fan.any():
            u = u.copy()
            q = (px[fan] - foot[fan]) / pt[fan]
            u[fan] = _bisect(lambda u: self._speed(u) > q, *(np.full_like(q, end) for end in self._range))
        goal = self._integral(foot) + pt * (u * self._speed(u) - self._flux(u))
        best = np.full(len(x), np.inf)
        np.minimum.at(best, point, goal)
        value, feet = np.empty(len(x)), np.empty(len(x))
        winners = np.flatnonzero(goal == best[point])
        value[point[winners]], feet[point[winners]] = u[winners], foot[winners]
        return value, feet

    def _start(self, y: np.ndarray) -> np.ndarray:
        low, high = self.period
        return self._initial(low + (y - low) % (high - low))

    def _wave(self, y: np.ndarray) -> np.ndarray:
        """f′(u0(y)), the speed of the characteristic from y."""
        return self._speed(self._start(y))

    def _integral(self, y: np.ndarray) -> np.ndarray:
        """U0(y) = ∫ u0 from the left end of the period to y."""
        low, high = self.period
        width = (high - low) / _CELLS
        turns, rest = np.divmod(y - low, high - low)
        cell = np.minimum((rest / width).astype(int), _CELLS - 1)
        part = rest - cell * width
        nodes = low + (cell * width)[:, None] + part[:, None] * (0.5 + 0.5 * _NODES)
        return turns * self._table[-1] + self._table[cell] + self._start(nodes) @ _WEIGHTS * (0.5 * part)


def _bisect(beyond: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where `beyond` turns from false to true, between `low` and `high`, elementwise to rounding."""
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        after = beyond(middle)
        low, high = np.where(after, low, middle), np.where(after, middle, high)
    return 0.5 * (low + high)


@dataclass(frozen=True)
class FiniteVolumes:
    """Cell averages at output times; callable at points (x, t), linear between cell centers and between times.

    Example:
        >>> answer = godunov(lambda u: u, lambda x: np.sin(2 * np.pi * x), times=[0.0, 1.0], cells=100)
        >>> answer([[0.25, 0.0]]).round(2)
        array([1.])
    """

    centers: np.ndarray  # of the cells, (C,)
    times: np.ndarray  # of output, (T,)
    values: np.ndarray  # cell averages, (T, C)
    period: tuple[float, float]  # the interval in x

    def __call__(self, points: npt.ArrayLike) -> np.ndarray:
        """Values at points (P, 2), columns x and t, (P,)."""
        from scipy.interpolate import RegularGridInterpolator  # imported here: every command reads this module

        x, t = np.asarray(points, float).T
        low, high = self.period
        width = (high - low) / len(self.centers)
        # Pad by one cell on either side, and by a second time where there is only one.
        x_line = np.concatenate([self.centers[:1] - width, self.centers, self.centers[-1:] + width])
        t_line = self.times if len(self.times) > 1 else self.times[0] + np.array([0.0, 1.0])
        values = np.broadcast_to(
            np.hstack([self.values[:, -1:], self.values, self.values[:, :1]]), (len(t_line), len(x_line))
        )
        at = RegularGridInterpolator((t_line, x_line), values)
        return at(np.stack([np.clip(t, t_line[0], t_line[-1]), low + (x - low) % (high - low)], axis=1))


def godunov(
    flux: Elementwise,
    initial: Elementwise,
    *,
    times: Sequence[float] | float,
    period: tuple[float, float] = (0.0, 1.0),
    cells: int = 1000,
) -> FiniteVolumes:
    """Godunov's method: u_i ← u_i − (Δt/Δx)(F_{i+½} − F_{i−½}) with the exact Riemann flux (Osher's formula)

        F(a, b) = min f over [a, b] if a ≤ b, max f over [b, a] otherwise,

    valid for any smooth flux, convex or not. The extrema are at a, b or at the turning points of f in between, which are
    found once; so values never leave the range of the initial state.

    Args:
        flux: f, elementwise.
        initial: u(x, 0), elementwise.
        times: Output times ≥ 0; a number means 101 even times from 0 to it.
        period: The interval in x.
        cells: Number of cells.

    Returns:
        Cell averages at the output times.

    Example:
        >>> answer = godunov(lambda u: u**2 / 2, lambda x: 1 + 0.35 * np.sin(2 * np.pi * x), times=0.5, cells=200)
        >>> answer.values.shape
        (101, 200)
    """
    if cells < 3:
        raise InputError(f"`cells` must be at least 3; got {cells}.")
    outputs = np.linspace(0.0, float(times), 101) if isinstance(times, int | float) else np.array(times, float)
    if np.any(np.diff(outputs) <= 0.0) or outputs[0] < 0.0:
        raise InputError("`times` must be increasing and not negative.")
    low, high = map(float, period)
    width = (high - low) / cells
    centers = low + width * (np.arange(cells) + 0.5)
    f, start = on_arrays(flux), on_arrays(initial)
    u = start(centers[:, None] + 0.5 * width * _NODES) @ (0.5 * _WEIGHTS)
    range_ = u.min(), u.max()
    turns = turning_points(flux, *range_) if range_[0] < range_[1] else np.zeros(0)
    turn_values = f(turns)
    sample = np.linspace(*range_, 4097)
    fastest = np.abs(np.diff(f(sample)) / max(sample[1] - sample[0], 1e-300)).max()

    def riemann_flux(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        fa, fb = f(a), f(b)
        smallest, largest = np.minimum(fa, fb), np.maximum(fa, fb)
        lower, upper = np.minimum(a, b), np.maximum(a, b)
        for turn, value in zip(turns, turn_values, strict=True):
            between = (lower < turn) & (turn < upper)
            smallest = np.where(between, np.minimum(smallest, value), smallest)
            largest = np.where(between, np.maximum(largest, value), largest)
        return np.where(a <= b, smallest, largest)

    values = np.empty((len(outputs), cells))
    now = 0.0
    for index, time in enumerate(outputs):
        steps = max(1, int(np.ceil((time - now) * fastest / (_CFL * width) - 1e-9)))
        ratio = (time - now) / steps / width
        for _ in range(steps):
            right = riemann_flux(u, np.roll(u, -1))
            u = u - ratio * (right - np.roll(right, 1))
        values[index], now = u, time
    return FiniteVolumes(centers, outputs, values, (low, high))
