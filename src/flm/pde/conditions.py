"""Conditions: what holds on a face, an edge, a curved boundary or at measured points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from flm.language.arguments import Named, as_named, described
from flm.wording import InputError, InputTypeError, short


@dataclass(frozen=True, eq=False)
class Condition:
    """A residual on part of the boundary (or on a plane, an edge or a point inside).

    Example:
        >>> import flm
        >>> isinstance(flm.dirichlet("x=0"), flm.problems.Condition)
        True
    """

    place: Any
    residual: Any
    where: Callable[..., Any] | None = None


@dataclass(frozen=True, eq=False)
class Periodic:
    """Values and derivatives that agree on two opposite faces.

    Example:
        >>> import flm
        >>> flm.periodic("x", unknown="v").axis
        'x'
    """

    axis: str
    unknown: str | None


@dataclass(frozen=True, eq=False)
class Data:
    """Measured values of an observable at points.

    Example:
        >>> import flm
        >>> flm.data([0.0, 1.0], [2.0, 3.0]).values
        array([2., 3.])
    """

    points: Any
    values: Any
    sigma: Any
    observe: Any


def on(place: Any, residual: Any, *, where: Callable[..., Any] | None = None) -> Condition:
    """The condition that a residual is zero on part of the domain.

    Args:
        place: "x=0", "x=min", "x=max", "x=0, y=0" (an edge, corner or point), an interior plane, "boundary", or a
            shape, for the part of the boundary that came from it.
        residual: a function by argument name; `u_n` is the outward normal derivative, `nx` a component of the normal.
        where: a predicate on named coordinates that keeps part of the place.

    Example:
        >>> import flm
        >>> outflow = flm.on("x=1", lambda u_t, u_x: u_t + u_x)
        >>> outflow.place
        'x=1'
        >>> hole = flm.Disk(x=0.5, y=0.5, radius=0.1)
        >>> held = flm.on(hole, lambda u: u - 1)
    """
    return Condition(place, residual, where)


def _combine(unknown: str, terms: dict[str, Any], value: Any, label: str) -> Named:
    """The residual sum_i factor_i * quantity_i - value, with factors and value numbers or functions of names."""
    if not isinstance(unknown, str):
        raise InputTypeError(f"`unknown` must be the name of an unknown; got {unknown!r}.")
    named = {quantity: as_named(factor, label) for quantity, factor in terms.items()}
    value = as_named(value, label)
    names = tuple(dict.fromkeys([*named, *(n for f in [*named.values(), value] for n in f.names)]))

    def residual(*arguments: Any) -> Any:
        at = dict(zip(names, arguments, strict=True))
        call = lambda f: f.function(*(at[n] for n in f.names))
        parts = (at[q] if terms[q] == 1.0 else call(factor) * at[q] for q, factor in named.items())
        return reduce(add, parts) - call(value)

    return Named(residual, names)


def initial(value: Any, velocity: Any = None, *, axis: str = "t", unknown: str = "u") -> list[Condition]:
    """The unknown, and its first derivative when `velocity` is given, at the least value of `axis`.

    Args:
        value: a number, or a function of the other axes and parameters by name.
        velocity: likewise, for the first derivative along `axis`.
        axis: the time axis.
        unknown: which unknown.

    Example:
        >>> import flm, jax.numpy as jnp
        >>> plucked = flm.initial(lambda x: jnp.sin(jnp.pi * x), velocity=0.0)
        >>> [condition.place for condition in plucked]
        ['t=min', 't=min']
    """
    conditions = [on(f"{axis}=min", _combine(unknown, {unknown: 1.0}, value, "`value` of initial"))]
    if velocity is not None:
        rate = _combine(unknown, {f"{unknown}_{axis}": 1.0}, velocity, "`velocity` of initial")
        conditions.append(on(f"{axis}=min", rate))
    return conditions


def dirichlet(place: Any, value: Any = 0.0, *, unknown: str = "u", where: Any = None) -> Condition:
    """The value of the unknown: u = value on `place`.

    Example:
        >>> import flm, jax.numpy as jnp
        >>> flm.dirichlet("x=0", lambda t: jnp.cos(t)).place
        'x=0'
    """
    return on(place, _combine(unknown, {unknown: 1.0}, value, "`value` of dirichlet"), where=where)


def neumann(place: Any, value: Any = 0.0, *, unknown: str = "u", where: Any = None) -> Condition:
    """The outward normal derivative of the unknown: u_n = value on `place`.

    Example:
        >>> import flm
        >>> insulated = flm.neumann("x=1")
        >>> insulated.residual.names
        ('u_n',)
    """
    return on(place, _combine(unknown, {f"{unknown}_n": 1.0}, value, "`value` of neumann"), where=where)


def robin(place: Any, a: Any, b: Any, value: Any = 0.0, *, unknown: str = "u", where: Any = None) -> Condition:
    """The mixed condition a u + b u_n = value on `place`; a, b and value are numbers or functions of names.

    Example:
        >>> import flm
        >>> cooling = flm.robin("x=1", a=2.0, b=1.0, value=0.5)  # 2 u + u_n = 1/2
        >>> cooling.residual.names
        ('u', 'u_n')
    """
    if all(isinstance(factor, int | float) and factor == 0 for factor in (a, b)):
        raise InputError("`a` and `b` of robin must not both be zero; got 0 and 0.")
    return on(
        place, _combine(unknown, {unknown: a, f"{unknown}_n": b}, value, "`a`, `b` or `value` of robin"), where=where
    )


def periodic(axis: str, *, unknown: str | None = None) -> Periodic:
    """The condition that opposite faces of `axis` agree: in value and derivatives, up to the equation's highest order less one.

    Args:
        axis: the periodic axis.
        unknown: one unknown; all of them by default.

    Example:
        >>> import flm
        >>> flm.periodic("x")
        Periodic(axis='x', unknown=None)
    """
    return Periodic(axis, unknown)


def data(points: Any, values: Any, sigma: Any = None, observe: Any = None) -> Data:
    """Measured values at points (P, m).

    Args:
        points: coordinates in the order of the domain's axes.
        values: one per point.
        sigma: standard deviation of a reading, one for all or one for each; estimated from the misfit when not given.
        observe: what was measured, a function by argument name (`lambda u_x: u_x`); by default the unknown, where there is
            only one.

    Example:
        >>> import flm
        >>> readings = flm.data([[0.5, 0.1], [0.5, 0.2]], [0.9, 0.7], sigma=0.01)
        >>> readings.points.shape
        (2, 2)
    """
    points, values = _floats("points", points), _floats("values", values)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or values.shape != points.shape[:1] or len(values) == 0:
        raise InputError(
            f"`values` must have one entry per row of `points` (P, m), at least one; got {values.shape} for {points.shape}."
        )
    if not (np.isfinite(points).all() and np.isfinite(values).all()):
        raise InputError("`points` and `values` of data must be finite; remove rows with NaN or infinity.")
    if sigma is not None:
        sigma = _floats("sigma", sigma)
        if sigma.shape not in ((), values.shape) or not (np.isfinite(sigma) & (sigma > 0)).all():
            raise InputError(f"`sigma` must be a positive number, or one per reading ({len(values)}); got {sigma!r}.")
    return Data(points, values, sigma, observe)


def _floats(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` of data must be real numbers; got {short(value)}.") from None


def shown(condition: Condition | Periodic | Data) -> str:
    """A condition as text, for the repr of its problem."""
    if isinstance(condition, Periodic):
        return f"periodic in {condition.axis}" + (f": {condition.unknown}" if condition.unknown else "")
    if isinstance(condition, Data):
        count = len(condition.values)
        return f"{count} reading{'s' * (count > 1)}" + (
            f": {described(condition.observe)}" if condition.observe else ""
        )
    return f"{condition.place}: {described(condition.residual)}" + (", on a part of it" if condition.where else "")
