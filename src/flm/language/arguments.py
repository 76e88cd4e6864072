"""Residuals: functions whose argument names say which derivatives, coordinates and parameters they need.

`lambda x, u, u_xx, alpha: ...` asks for the coordinate x, the unknown u, its second derivative and the parameter alpha.
A residual is elementwise: one backward pass gives its derivatives in all jets and parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from flm.numerics.elementwise import Program, as_numpy, in_chunks
from flm.series.arrays import Numbers
from flm.wording import InputError, InputTypeError, did_you_mean

LINEARIZED = 3  # axes up to which functions are linearized when checked: a hundred faces would be traced for seconds
TINY = np.finfo(float).tiny
Jet = tuple[int, tuple[int, ...]]  # (which unknown, how often differentiated along each axis)
Value = float | Numbers  # what a function of named arguments takes and returns
Columns = Numbers | Sequence[Numbers]  # one entry for each axis, jet or parameter


@dataclass(frozen=True)
class Names:
    """The names that arguments may have in one problem."""

    axes: tuple[str, ...]
    unknowns: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    normals: bool = False  # whether u_n and nx, ny, ... are known, as they are only on the boundary
    fields: tuple[Field, ...] = ()  # parameters that are functions: counted as further unknowns

    def resolve(self, name: str, where: str) -> Reference:
        """What the name stands for; refused when nothing fits, or more than one thing."""
        numbers = set(self.parameters) - {field.name for field in self.fields}
        found = []
        if name in self.axes:
            found.append(Reference("axis", self.axes.index(name), ()))
        if name in numbers:
            found.append(Reference("parameter", self.parameters.index(name), ()))
        functions = [Field(unknown, self.axes) for unknown in self.unknowns] + list(self.fields)
        for index, function in enumerate(functions):
            if name != function.name and not name.startswith(f"{function.name}_"):
                continue
            suffix = name[len(function.name) + 1 :]
            for alpha in sorted(splits(suffix, function.axes)):
                along = dict(zip(function.axes, alpha, strict=True))
                found.append(Reference("jet", index, tuple(along.get(axis, 0) for axis in self.axes)))
            if self.normals and suffix == "n" and index < len(self.unknowns):
                found.append(Reference("normal derivative", index, ()))
        if self.normals and name[:1] == "n" and name[1:] in self.axes:
            found.append(Reference("normal", self.axes.index(name[1:]), ()))
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                f"the argument {name!r} of {where} must have one meaning; got {len(found)}: "
                f"{', '.join(sorted({r.kind for r in found}))}. Rename an axis, an unknown or a parameter."
            )
        unknown, axis = self.unknowns[0], self.axes[0]
        parts = [
            f"an axis ({', '.join(self.axes)})",
            f"an unknown ({', '.join(self.unknowns)}) or a derivative of one (such as {unknown}_{axis})",
            f"a parameter ({', '.join(self.parameters) or 'none declared'})",
            *([f"a normal ({unknown}_n, n{axis})"] if self.normals else []),
        ]
        derivatives = [f"{u}_{a}{b}" for u in self.unknowns for a in self.axes for b in ("", *self.axes)]
        known = f"{', '.join(parts[:-1])} or {parts[-1]}"
        raise InputError(
            f"the argument {name!r} of {where} must be one of {known}; it is none of these. "
            "A number of your own goes into `parameters`, in a file into [parameters]."
            f"{did_you_mean(name, [*self.axes, *self.unknowns, *self.parameters, *derivatives])}"
        )


class Field(NamedTuple):
    """A parameter that is a function of some axes."""

    name: str
    axes: tuple[str, ...]


class Reference(NamedTuple):
    """What one argument stands for: kind, index of the axis, parameter or unknown, and multi-index of a derivative."""

    kind: str
    index: int
    alpha: tuple[int, ...]


def splits(suffix: str, axes: tuple[str, ...]) -> set[tuple[int, ...]]:
    """All multi-indices that a derivative suffix can mean: "xxy" over axes x, y is {(2, 1)}."""
    if not suffix:
        return {(0,) * len(axes)}
    return {
        (*alpha[:j], alpha[j] + 1, *alpha[j + 1 :])
        for j, axis in enumerate(axes)
        if suffix.startswith(axis)
        for alpha in splits(suffix[len(axis) :], axes)
    }


@dataclass(frozen=True)
class Named:
    """A function with explicit argument names, for functions that are built rather than written.

    Args:
        function: takes its arguments by position.
        names: the names of the arguments.

    Example:
        >>> axes = [f"x{j}" for j in range(1, 101)]
        >>> laplacian = Named(lambda *second: sum(second), tuple(f"u_{a}{a}" for a in axes))
        >>> laplacian.names[-1]
        'u_x100x100'
    """

    function: Callable[..., Any]  # a residual's is one value per point; dynamics have one per state
    names: tuple[str, ...]

    def __call__(self, *values: Value) -> Value:
        """The function's value."""
        return self.function(*values)


def argument_names(function: Callable[..., object] | Named, where: str) -> tuple[str, ...]:
    """Names of the arguments without defaults."""
    if isinstance(function, Named):
        return function.names
    if not callable(function):
        raise InputTypeError(
            f"{where} must be a function of named arguments, such as `lambda u, u_x: ...`; got {function!r}."
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # max, dict.get, ...
        raise InputError(f"{where} must name its arguments; got {function!r}. Wrap it: `lambda u: ...`.") from None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise InputError(f"{where} must name its arguments one by one; got `*args` or `**kwargs`.")
    return tuple(p.name for p in parameters if p.default is p.empty)


def described(function: object) -> str:
    """A function as its problem shows it: its text, or the names of its arguments; a number as it is."""
    text = getattr(function, "text", None)
    if text is not None or not (callable(function) or isinstance(function, Named)):
        return str(text if text is not None else function)
    return f"a function of {', '.join(argument_names(function, '')) or 'nothing'}"


def as_named(value: float | Callable[..., Value] | Named, where: str) -> Named:
    """A number or a function of named arguments as a `Named` function."""
    if isinstance(value, Named):
        return value
    if callable(value):
        return Named(value, argument_names(value, where))
    if isinstance(value, int | float | np.number):
        return Named(lambda: float(value), ())
    raise InputTypeError(f"{where} must be a number or a function of named arguments; got {value!r}.")


class Linearized(NamedTuple):
    """A residual at points, and its derivatives with respect to each of its jets and each parameter of the problem."""

    value: Float[np.ndarray, "P"]
    by_jet: Float[np.ndarray, "A P"]
    by_parameter: Float[np.ndarray, "Q P"]


class Slopes(NamedTuple):
    """The same at one point, traced: a value, and a derivative for each jet and each parameter."""

    value: Numbers
    by_jet: Columns
    by_parameter: Columns


@dataclass(frozen=True, eq=False)
class Residual:
    """A user's function bound to the names of a problem."""

    function: Callable[..., Value]
    references: tuple[Reference, ...]
    names: Names
    label: str

    @classmethod
    def bind(cls, function: Callable[..., Value] | Named, names: Names, label: str) -> Residual:
        """The residual with every argument name resolved; a name that cannot be is refused."""
        references = tuple(names.resolve(n, label) for n in argument_names(function, label))
        return cls(function.function if isinstance(function, Named) else function, references, names, label)

    @cached_property
    def jets(self) -> tuple[Jet, ...]:
        """The (unknown, multi-index) pairs that the function needs, in the order in which arrays of jets are stacked.

        Numbers beyond those of the unknowns stand for parameters that are unknown functions.
        """
        wanted: list[Jet] = []
        for r in self.references:
            if r.kind == "jet":
                wanted.append((r.index, r.alpha))
            elif r.kind == "normal derivative":
                wanted += self._gradient(r.index)
        return tuple(dict.fromkeys(wanted))

    def _gradient(self, unknown: int) -> list[Jet]:
        return [(unknown, tuple(map(int, unit))) for unit in np.eye(len(self.names.axes))]

    def __call__(
        self,
        points: Float[Numbers, "P m"],
        jets: Float[Numbers, "A P"] | Sequence[Float[Numbers, "P"]],
        parameters: Float[Numbers, "Q"],
        normals: Float[Numbers, "P m"] | None = None,
    ) -> Float[Array, "P"]:
        """The residual at points, from jets in the order of `jets`, all parameters, and normals on the boundary."""
        normals = jnp.zeros_like(points) if normals is None else normals
        value = self._value(points.T, jets, parameters, normals.T)
        several = isinstance(value, tuple | list)
        if several or jnp.shape(value) not in ((), (len(points),)):
            shape = f"{len(value)} values" if several else f"shape {jnp.shape(value)}"
            raise InputError(
                f"{self.label} must return one number per point, shape ({len(points)},); got {shape}. "
                "Several equations go in a list of functions."
            )
        return jnp.broadcast_to(value, (len(points),))

    def _value(self, axes: Columns, jets: Columns, parameters: Columns, normals: Columns) -> Value:
        place, arguments = {jet: i for i, jet in enumerate(self.jets)}, []
        for r in self.references:
            if r.kind == "axis":
                arguments.append(axes[r.index])
            elif r.kind == "parameter":
                arguments.append(parameters[r.index])
            elif r.kind == "jet":
                arguments.append(jets[place[(r.index, r.alpha)]])
            elif r.kind == "normal":
                arguments.append(normals[r.index])
            else:
                arguments.append(sum(normals[j] * jets[place[d]] for j, d in enumerate(self._gradient(r.index))))
        return self.function(*arguments)

    def slopes(self, axes: Columns, jets: Columns, parameters: Columns, normals: Columns) -> Slopes:
        """The value at one point, and its derivatives by all jets and by all parameters."""
        at = lambda j, p: jnp.asarray(self._value(axes, j, p, normals), float)
        value, back = jax.vjp(at, jets, parameters)
        by_jet, by_parameter = back(jnp.ones(()))
        return Slopes(value, by_jet, by_parameter)

    @cached_property
    def _program(self) -> Program | None:
        """`slopes` by NumPy: the compiler takes longer than most problems."""
        m, A, Q = len(self.names.axes), len(self.jets), len(self.names.parameters)
        ends = list(accumulate((m, A, Q, m), initial=0))
        # Numbers one by one: to take them out of arrays makes up half of the tracing.
        every = lambda *given: self.slopes(*(given[a:b] for a, b in pairwise(ends)))
        program = as_numpy(every, *[()] * ends[-1])
        if program is not None:
            program.shapes = [(), (A,), (Q,)]
        return program

    @cached_property
    def _compiled(self) -> Callable[..., Sequence[Numbers]]:
        """The same at points (P, m) from jets (P, A), for functions that look up tables or use NumPy on the coordinates."""

        def slopes(points: Numbers, jets: Numbers, parameters: Numbers, normals: Numbers) -> list[Numbers]:
            value, back = jax.vjp(lambda j: self(points, j, parameters, normals), jnp.asarray(jets.T, float))
            by_parameter = jax.jacfwd(lambda q: self(points, jets.T, q, normals))(parameters)
            return [value, back(jnp.ones_like(value))[0].T, by_parameter]

        return jax.jit(slopes) if self.traceable else slopes

    @cached_property
    def traceable(self) -> bool:
        """Whether the coordinates may be traced; a function that uses NumPy on them gets concrete arrays instead."""
        jets, parameters = jnp.zeros((len(self.jets), 3)), jnp.zeros(len(self.names.parameters))
        points = jnp.zeros((3, len(self.names.axes)))
        try:
            jax.eval_shape(lambda p, n: self(p, jets, parameters, n), points, points)
        except jax.errors.TracerArrayConversionError:
            return False
        return True

    def linearize(
        self, points: np.ndarray, jets: np.ndarray, parameters: npt.ArrayLike, normals: np.ndarray | None = None
    ) -> Linearized:
        """Value and derivatives at any number of points."""
        jets, parameters = np.asarray(jets, float).T, np.asarray(parameters, float)
        normals = np.zeros_like(points) if normals is None else normals
        if self._program is not None:
            found = self._program.rows(points, jets, parameters[None], normals)
        else:
            run = lambda p, j, n: self._compiled(p, j, parameters, n)
            found = in_chunks(run, points, jets, normals)
        value = np.where(np.abs(found[0]) < TINY, 0.0, found[0])  # a series could not hold it
        return Linearized(value, found[1].T, found[2].T)

    def tried(self, points: np.ndarray, parameters: np.ndarray, normals: np.ndarray) -> Linearized:
        """Value and derivatives at a few interior points with jets near 1; a function that cannot work is refused in a sentence."""
        # No two jets are equal: in 1 / |x - y| two bodies would collide.
        jets = np.tile(1 - np.arange(len(self.jets))[:, None] / 64, len(points))
        try:
            if points.shape[1] <= LINEARIZED:
                return self.linearize(points, jets, parameters, normals)
            jax.eval_shape(lambda j: self(points, j, parameters, normals), jets)
            value = np.asarray(self(points, jets, parameters, normals))
            return Linearized(value, value[None], value[None])
        except jax.errors.TracerArrayConversionError:
            raise InputTypeError(
                f"{self.label} must use jax.numpy on the unknown and its derivatives; got a NumPy function. "
                "Write `import jax.numpy as jnp` and use jnp.sin, jnp.exp, ..."
            ) from None
        except (TypeError, ArithmeticError, IndexError) as error:
            raise InputTypeError(f"{self.label} must work elementwise on arrays; it failed with: {error}") from None
        except ValueError as error:
            if str(error).startswith(self.label):
                raise
            raise InputError(
                f"{self.label} must work elementwise on arrays; it failed with: {error} Use jnp.where instead of if."
            ) from None


def check_all(residuals: list[Residual], points: np.ndarray, parameters: np.ndarray, normals: np.ndarray) -> None:
    """Try functions at a few interior points; those that cannot work are refused in a sentence."""
    for residual in residuals:
        found = residual.tried(points, parameters, normals)
        bad = found.value[~np.isfinite(found.value)]
        if len(bad) or not np.isfinite(found.by_jet).all():
            raise InputError(
                f"{residual.label} must be finite at interior points when the unknown and its derivatives are near 1; got "
                f"{bad[0] if len(bad) else 'a derivative that is not'}."
            )


def unique_jets(residuals: Iterable[Residual]) -> tuple[Jet, ...]:
    """All derivatives that any of the residuals needs."""
    return tuple(dict.fromkeys(jet for residual in residuals for jet in residual.jets))
