"""What a solver or a training run returns: a function that is its series, with an estimate of its error."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.core import Tracer
from jaxtyping import Array

from flm.domains import AbstractDomain, Box, Product
from flm.domains.base import EDGE
from flm.models import AbstractModel
from flm.models.family import FamilyFLM
from flm.models.pieces import AbstractPieces
from flm.results.result import AbstractResult, Errors
from flm.series import AbstractSeries, PhaseSeries
from flm.series.arrays import Numbers, as_points, axis_indices, device, host
from flm.wording import ExtraMissingError, InputError, NoSeriesError, OutsideWarning, UnknownNameError, short

Exact = Callable[[np.ndarray], np.ndarray]  # from points (P, m) to values
MAX_GRID = 50_000_000  # points of a grid for other tools


def frame_of(domain: AbstractDomain, unknowns: tuple[str, ...], exact: Exact | None) -> dict[str, Any]:
    """The facts about a problem that its answer keeps."""
    return {"axes": domain.axes, "unknowns": unknowns, "bounds": domain.bounds, "domain": domain, "exact": exact}


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution(AbstractResult):
    """A function of named axes found by `solve`, `train` or `distill`.

    Call it with every axis by name, `solution(x=0.3, t=0.5)` (arrays broadcast), or with points (P, m). It can be traced
    by `jax.jit` and `jax.grad`. Outside of its domain it is NaN, with an `OutsideWarning` where it is not traced;
    `extrapolate=True` evaluates the series there, where it was fitted to nothing.

    Attributes:
        model: the function itself; several unknowns are its outputs.
        error_estimate: estimated relative L2 error over the domain, worst unknown (conservation laws: relative L1).
        trusted_until: the time at which a march stopped (status "stopped"), beyond which values are NaN; None if it did not.
        estimate_until: the estimated error over the domain up to `trusted_until`.

    Example:
        >>> import flm
        >>> decay = flm.PDE(flm.Box(t=(0, 1)), lambda u, u_t: u_t + u, [flm.initial(1.0)])
        >>> solution = flm.solve(decay)
        >>> solution.converged, round(float(solution(t=1.0)), 6), round(float(solution.d("t")(t=0.0)), 6)
        (True, 0.367879, -1.0)
    """

    model: AbstractModel
    axes: tuple[str, ...]
    unknowns: tuple[str, ...]
    bounds: np.ndarray
    component: int | None = None
    alpha: tuple[int, ...] | None = None
    trusted_until: float | None = None
    estimate_until: float | None = None
    domain: AbstractDomain | None = field(default=None, repr=False)
    exact: Exact | None = field(default=None, repr=False)
    error_points: np.ndarray | None = field(default=None, repr=False)

    not_stored: ClassVar[tuple[str, ...]] = ("exact", "error_points")

    def _pack(self) -> dict[str, Any]:
        return super()._pack() | {"domain": None if self.domain is None else self.domain.stored()}

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> Solution:
        domain = named["domain"]
        if domain is not None and not (isinstance(domain, AbstractDomain) and domain.axes == named["axes"]):
            raise InputError(f"the domain of a solution has its axes {named['axes']}; the file has {short(domain)}")
        return super()._unpack(named)

    @property
    def frame(self) -> float:
        """The speed of the moving frame in which sub-networks are counted (conservation laws); 0 at rest."""
        return float(getattr(self.model, "speed", 0.0))

    @property
    def num_parameters(self) -> int:
        """How many numbers the function consists of: frequencies, amplitudes and phases, or weights."""
        return self.model.num_parameters

    def __call__(
        self, points: npt.ArrayLike | None = None, /, *, extrapolate: bool = False, **named: npt.ArrayLike
    ) -> Array:
        """Values at points (..., m) or at named coordinates; several unknowns stack last.

        Args:
            points: columns in the order of `axes`.
            extrapolate: whether to evaluate the series outside of the domain, too.
            named: the axes by name, instead of points.
        """
        m = len(self.axes)
        given = (getattr(value, "dtype", int) for value in (points, *named.values()))
        rounding = [8.0 * float(jnp.finfo(dtype).eps) for dtype in given if jnp.issubdtype(dtype, jnp.floating)]
        places = as_points(points, named, self.axes, m)
        if m == 1 and points is not None and np.ndim(points) == 1:
            places = places.reshape(-1, 1)  # (1,) is a list of one place
        if np.iscomplexobj(places):
            raise InputError(f"`points` must be real numbers; got {short(points if points is not None else named)}.")
        flat = places.astype(jnp.result_type(float)).reshape(-1, m)
        _, (jets,) = host(self.model.jets(flat, (self.alpha or (0,) * m,)))
        values = jets[0] if self.component is None or jets.ndim == 2 else jets[0, :, self.component]
        values = values if extrapolate else self._within(flat, values, max(EDGE, *rounding, 0.0))
        return device(values.reshape(places.shape[:-1] + values.shape[1:]))

    @cached_property
    def _region(self) -> AbstractDomain:
        return self.domain or Box(**{a: tuple(b) for a, b in zip(self.axes, self.bounds, strict=True)})

    @property
    def reach(self) -> np.ndarray:
        """The bounds of what has been solved, (m, 2): those of the domain, in time up to where a march stopped."""
        bounds = np.array(self.bounds, float)
        if self.trusted_until is not None:
            bounds[self.axes.index("t"), 1] = self.trusted_until
        return bounds

    def _inside(self, points: np.ndarray | Array, tolerance: float) -> np.ndarray | Array:
        """Whether each point is in the domain and within the time that a march reached."""
        if isinstance(points, Tracer):
            inside = self._region.contains_traced(points, tolerance=tolerance)
        else:
            inside = self._region.contains(np.asarray(points), tolerance=tolerance)
        if self.trusted_until is None:
            return inside
        t = self.axes.index("t")
        return inside & (points[:, t] <= self.trusted_until + tolerance * float(np.ptp(self.bounds[t])))

    def _within(self, points: Numbers, values: Numbers, tolerance: float) -> Numbers:
        """The values, with NaN at points outside of what has been solved; one warning tells of these unless traced."""
        inside, column = self._inside(points, tolerance), (-1, *(1,) * (values.ndim - 1))
        if isinstance(points, Tracer):
            # A product with 1 inside and NaN outside, because jnp.where would make the derivative outside zero.
            return values * jnp.where(inside, 1.0, jnp.nan).astype(values.dtype).reshape(column)
        if inside.all():
            return values
        outside = ~inside & ~np.isnan(points).any(axis=1)
        if outside.any():
            first = ", ".join(f"{a} = {v:.6g}" for a, v in zip(self.axes, points[outside.argmax()], strict=True))
            end = self.trusted_until
            place = f"what was solved, up to t = {end:.6g}" if end is not None else "the domain"
            told = f"{outside.sum():,} of {len(points):,} points are outside of {place}, where the solution is NaN"
            remedy = "Call it with extrapolate=True to evaluate the series there."
            warnings.warn(f"{told}; the first is {first}. {remedy}", OutsideWarning, stacklevel=3)
        return np.where(inside.reshape(column), values, np.nan)

    def d(self, axes: str | tuple[int, ...]) -> Solution:
        """The partial derivative as a function: `solution.d("xx")(x=0.3, t=0.5)`."""
        alpha = list(self.alpha or (0,) * len(self.axes))
        for j in axis_indices(axes, self.axes, len(self.axes)):
            alpha[j] += 1
        return replace(self, alpha=tuple(alpha), exact=None)

    def at(self, **values: float) -> Solution:
        """A family (`flm.Range`) at values of its parameters, `solution.at(alpha=0.1)`: a function of the axes left."""
        model = self.model
        if not isinstance(model, FamilyFLM):
            raise InputError("`at` must be called on a family, which flm.Range makes; this solution is not one.")
        limits = dict(zip(self.axes, self.bounds.tolist(), strict=True))
        known = self.axes[-len(model.counts) :]
        for name, value in values.items():
            if name not in known or not limits[name][0] <= value <= limits[name][1]:
                ranges = ", ".join(f"{n} in [{limits[n][0]:.6g}, {limits[n][1]:.6g}]" for n in known)
                rule = f"parameters of the family within their ranges, {ranges}"
                raise InputError(f"`at` must have {rule}; got {name}={value!r}.")
        kept = [j for j, axis in enumerate(self.axes) if axis not in values]
        axes, domain = tuple(self.axes[j] for j in kept), _without(self.domain, values)
        return replace(self, model=model.at(values), axes=axes, bounds=self.bounds[kept], domain=domain, exact=None)

    def __getitem__(self, unknown: str) -> Solution:
        """One unknown of a system."""
        if unknown not in self.unknowns:
            raise UnknownNameError(f"the unknown must be one of {', '.join(self.unknowns)}; got {unknown!r}.")
        k = self.unknowns.index(unknown)
        exact = self.exact
        one = exact if exact is None or len(self.unknowns) == 1 else (lambda points: np.asarray(exact(points))[:, k])
        return replace(self, unknowns=(unknown,), component=k, exact=one)

    @property
    def series(self) -> AbstractSeries:
        """The solution as a series in physical units; a solution in many pieces has one for each, see `pieces`."""
        count = self.model.num_pieces if isinstance(self.model, AbstractPieces) else 1
        if count > 1:
            raise NoSeriesError(f"this solution has one series for each of its {count} pieces: see `.pieces`.")
        return self.pieces[0][1]

    @property
    def pieces(self) -> tuple[tuple[AbstractDomain, AbstractSeries], ...]:
        """(box, series) for each piece; a solution in one piece has its whole domain and its series."""
        model, k = self.model, self.component
        if isinstance(model, AbstractPieces):  # the gap bounds a mean error: the largest error is larger
            gap = max(self.tolerance / 100, 1e-13) if self.tolerance > 0 else 1e-13
            region = None if isinstance(self._region, Box) else self._region
            found = [(box, model.piece_series(i, gap, region, k)) for i, box in enumerate(model.boxes)]
        elif (series := getattr(model, "series", None)) is not None:
            found = [(self._region, series)]
        else:
            kind = type(model).__name__
            raise NoSeriesError(f"{kind} is not a plain Fourier series; distill it with flm.distill.")
        if k is not None:
            one = lambda f: PhaseSeries(f.frequencies, f.amplitudes[..., k], f.phases[..., k], f.axes)
            several = lambda f: isinstance(f, PhaseSeries) and f.amplitudes.ndim > 2
            found = [(box, one(series) if several(series) else series) for box, series in found]
        along = tuple(j for j, order in enumerate(self.alpha or ()) for _ in range(order))
        return tuple((box, series.d(along) if along else series) for box, series in found)

    @cached_property
    def series_error(self) -> float:
        """The largest difference between the series and what is evaluated, over the largest value; NaN without a series."""
        worst, largest = 0.0, 0.0
        try:
            pieces = self.pieces
        except NoSeriesError:
            return np.nan
        for box, series in pieces if isinstance(self.model, AbstractPieces) else ():
            points = box.interior(64, seed=1, warp=False)
            points = points[self._region.contains(points)]
            values = np.asarray(self(points))
            largest = max(largest, float(np.abs(values).max(initial=0.0)))
            worst = max(worst, float(np.abs(np.asarray(series(points)) - values).max(initial=0.0)))
        return worst / largest if largest else 0.0

    def test_points(self) -> np.ndarray:
        """An even grid over the domain: 101 points per axis up to two axes, 31 for three, 20,000 Sobol points beyond.

        Conservation laws bring their own, 251 × 101 off the shock. A march that stopped has only the points that it reached.
        """
        if self.error_points is not None:
            return self.error_points
        grid = {1: 2001, 2: 101, 3: 31}.get(len(self.axes))
        points = self._region.grid(grid) if grid else self._region.interior(20_000, seed=99, warp=False)
        return points if self.trusted_until is None else points[self._inside(points, EDGE)]

    def errors(self, reference: Callable[[np.ndarray], npt.ArrayLike] | None = None) -> Errors:
        """Mean square, mean absolute, largest and relative L2 difference from the exact solution or a reference.

        Args:
            reference: a function of points (P, m), or another solution; the problem's exact solution by default.
        """
        reference = self.exact if reference is None else reference
        if reference is None:
            raise InputError("`reference` must be given: there is no exact solution, or a file or pickle left it out.")
        points = self.test_points()
        truth, found = np.asarray(reference(points)), np.asarray(self(points))
        if truth.shape != found.shape:
            raise InputError(f"`reference` must return shape {found.shape} at the test points; got {truth.shape}.")
        wrong = np.abs(found - truth)
        relative = np.sqrt(np.sum(wrong**2, axis=0) / np.maximum(np.sum(truth**2, axis=0), np.finfo(float).tiny))
        return Errors(float(np.mean(wrong**2)), float(np.mean(wrong)), float(np.max(wrong)), float(np.max(relative)))

    def on_grid(self, shape: int | tuple[int, ...] | None = None) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Coordinates per axis and values on an even grid over `reach`: (lines, values (n1, ..., nm[, K])).

        Points of the bounds that are outside of the domain are NaN. By default an answer of more than four variables is taken
        on a plane, with t where it has one, at the middle of the other axes; one point along an axis is its middle.
        """
        m = len(self.axes)
        few = tuple(21 if j < 2 or axis == "t" else 1 for j, axis in enumerate(self.axes))
        shape = {1: 101, 2: 101, 3: 21, 4: 21}.get(m, few) if shape is None else shape
        shape = tuple(shape) if isinstance(shape, tuple | list) else (shape,) * m
        if len(shape) != m or not all(isinstance(n, int | np.integer) and n >= 1 for n in shape):
            rule = f"a number of points, or one for each of {', '.join(self.axes)}"
            raise InputError(f"`shape` must be {rule}; got {shape}.")
        if np.prod(shape, dtype=float) > MAX_GRID:
            raise InputError(f"`shape` must be at most {MAX_GRID:,} points in all; got {shape}.")
        line = lambda low, high, n: np.linspace(low, high, n) if n > 1 else np.array([(low + high) / 2])
        lines = tuple(line(low, high, n) for (low, high), n in zip(self.reach, shape, strict=True))
        points = np.stack([g.ravel() for g in np.meshgrid(*lines, indexing="ij")], axis=1)
        with warnings.catch_warnings(action="ignore", category=OutsideWarning):  # NaN is what is wanted there
            values = np.array(self(points))
        return lines, values.reshape(*shape, *values.shape[1:])

    def to_pandas(self, shape: int | tuple[int, ...] | None = None) -> Any:
        """A `pandas.DataFrame` with one row per grid point."""
        import pandas

        lines, values = self.on_grid(shape)
        unknowns = values[None] if len(self.unknowns) == 1 else np.moveaxis(values, -1, 0)
        columns = zip((*self.axes, *self.unknowns), (*np.meshgrid(*lines, indexing="ij"), *unknowns), strict=True)
        return pandas.DataFrame({name: column.ravel() for name, column in columns})

    def to_xarray(self, shape: int | tuple[int, ...] | None = None) -> Any:
        """An `xarray.Dataset` of the unknowns on an even grid (extra `frames`)."""
        try:
            return self.to_pandas(shape).set_index(list(self.axes)).to_xarray()
        except ImportError:
            raise ExtraMissingError('Install xarray first: pip install "fourier-learning-machines[frames]"') from None

    def plot(
        self,
        *,
        axes: str | Sequence[str] | None = None,
        at: dict[str, float] | None = None,
        shape: int = 101,
        error: bool | None = None,
        spectrum: bool = False,
        ax: Any = None,
    ) -> Any:
        """A matplotlib figure: a row for each unknown, its error beside it where the exact solution is known.

        Args:
            axes, shape: the one or two axes to draw, the first two by default, and grid points along each.
            at: where to cut the other axes; the middle by default.
            error, spectrum: whether to add |found - exact| (where it is known by default) and the amplitudes of the series.
            ax: matplotlib axes to draw the first unknown into, and nothing else.
        """
        from flm.report.figures.fields import plot_solution

        return plot_solution(self, axes=axes, at=at, shape=shape, error=error, spectrum=spectrum, ax=ax)

    def animate(self, axis: str = "t", *, at: dict[str, float] | None = None, frames: int = 60) -> Any:
        """A matplotlib animation along one axis, six seconds long; `at` is where axes beyond two others are cut."""
        from flm.report.figures.fields import animate_solution

        return animate_solution(self, axis, at=at, frames=frames)

    def __repr__(self) -> str:
        note = self.domain.note if self.domain is not None else ""
        lines = [
            f"Solution {', '.join(self.unknowns)}({', '.join(self.axes)}): {self.status.sentence}",
            f"  error estimate {self.error_estimate:.1e}, {self.num_columns} columns, {self.seconds:.2f} s",
            *(f"  {k} = {p}" for k, p in self.parameters.items()),
        ]
        return "\n".join([*lines, f"  {note}"] if note else lines)


def _without(domain: AbstractDomain | None, names: Mapping[str, float]) -> AbstractDomain | None:
    """The domain without some axes of its boxes."""
    if isinstance(domain, Product):
        left, right = _without(domain.left, names), _without(domain.right, names)
        return left * right if left is not None and right is not None else left or right
    if isinstance(domain, Box):
        kept = {axis: pair for axis, pair in zip(domain.axes, domain.intervals, strict=True) if axis not in names}
        return Box(**kept) if kept else None
    return domain
