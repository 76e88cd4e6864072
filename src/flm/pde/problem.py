"""Partial (and ordinary) differential equations, written the way they are on paper."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from flm.domains import AbstractDomain, Box
from flm.language.arguments import Named, Names, Residual, as_named, check_all, described, unique_jets
from flm.language.expressions import refuse_reserved
from flm.language.parameters import Learn, Piecewise, Range, at_points, names_of, parameter_values
from flm.pde.blocks import Block, bind_fluxes, unclaimed
from flm.pde.complex_unknowns import ComplexUnknowns
from flm.pde.conditions import Condition, Data, Periodic, shown
from flm.results import frame_of
from flm.wording import InputError, InputTypeError

SHOWN = 8  # conditions in the repr of a problem


class PDE:
    """Equations for unknown functions on a domain, with conditions.

    Args:
        domain: a box or region with named axes; one axis makes it an ODE.
        equation: a residual, or a list of them, by argument name: `lambda u_t, u_xx: u_t - 0.1 * u_xx`.
        conditions: what `on`, `initial`, `dirichlet`, `neumann`, `robin`, `periodic` and `data` return.
        unknowns: names of the unknown functions.
        complex_unknowns: the names of those that are complex; in the answer h becomes two real unknowns, h_re and h_im.
        parameters: numbers, `Range` for every value of an interval, `Learn` for numbers and functions to be found from data,
            `Piecewise` for those that jump; if a parameter `a` is a function of x, residuals may ask for `a` and for `a_x`.
        flux: what flows across the faces where a parameter jumps, by argument name, `lambda a, u_n: a * u_n`; `u_n` by
            default. For systems a dict by unknown.
        exact: the solution if known, by axis (and parameter) name; a dict by unknown for systems. Never used to solve.

    Raises:
        ValueError: a name is unknown or ambiguous, a face does not exist, a residual is not finite, ....

    Example:
        >>> import flm
        >>> decay = flm.PDE(flm.Box(t=(0, 1)), lambda u, u_t: u_t + u, [flm.initial(1.0)])
    """

    def __init__(
        self,
        domain: AbstractDomain,
        equation: Any,
        conditions: Iterable[Any] = (),
        *,
        unknowns: Iterable[str] = ("u",),
        complex_unknowns: Iterable[str] = (),
        parameters: Mapping[str, Any] | None = None,
        flux: Any = None,
        exact: Any = None,
    ):
        if not isinstance(domain, AbstractDomain):
            raise InputTypeError(f"`domain` must be a domain such as flm.Box(x=(0, 1), t=(0, 1)); got {domain!r}.")
        self.domain, self.axes = domain, domain.axes
        refuse_reserved(self.axes)
        if not isinstance(unknowns, str | tuple | list):
            raise InputTypeError(f'`unknowns` must be names such as ("u", "v"); got {unknowns!r}.')
        if parameters is not None and not isinstance(parameters, Mapping):
            raise InputTypeError(f"`parameters` must be a dict of numbers by name; got {parameters!r}.")
        parts = ComplexUnknowns(*((n,) if isinstance(n, str) else tuple(n) for n in (unknowns, complex_unknowns)))
        self.unknowns = parts.real_names()
        self.parameters = dict(parameters or {})
        self._check_names()
        names = names_of(domain.axes, self.unknowns, self.parameters)
        equations = equation if isinstance(equation, list | tuple) else [equation]
        if not equations:
            raise InputError("`equation` must be a function or a list of at least one; got an empty list.")
        equations = [part for i, f in enumerate(equations) for part in parts.split(f, f"`equation[{i}]`")]
        labels = ["`equation`"] if len(equations) == 1 else [f"`equation[{i}]`" for i in range(len(equations))]
        bound = [self.bind(f, names, label) for f, label in zip(equations, labels, strict=True)]
        self.equations = tuple(
            Block(f"equation {i + 1}" if len(bound) > 1 else "equation", "equation", r, domain)
            for i, r in enumerate(bound)
        )
        flat = _flatten(conditions)
        self.source = {"equation": equation, "conditions": flat, "flux": flux}
        self.source |= {"unknowns": unknowns, "complex_unknowns": complex_unknowns}
        each = enumerate(parts.conditions(flat))
        named = [block for i, c in each for block in self._blocks(c, f"`conditions[{i}]`")]
        self.conditions = tuple(unclaimed(block, named, self.equations) for block in named)
        self.fluxes = bind_fluxes(flux, self)
        self._check_values()
        self.exact = self._bind_exact(exact, parts)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks: the equations, then the conditions."""
        return self.equations + self.conditions

    @property
    def frame(self) -> dict[str, Any]:
        """The facts about the problem that an answer keeps."""
        return frame_of(self.domain, self.unknowns, None if self.exact is None else self.exact_values)

    @cached_property
    def parameter_start(self) -> np.ndarray:
        """The values of the parameters: for those to be learned, their start; for ranges, the middle."""
        plain = {name: v.value if isinstance(v, Piecewise) else v for name, v in self.parameters.items()}
        plain |= {name: (v.low + v.high) / 2 for name, v in plain.items() if isinstance(v, Range)}
        return parameter_values(plain)

    @property
    def learned(self) -> tuple[int, ...]:
        """The numbers of the parameters that are to be found."""
        return tuple(i for i, v in enumerate(self.parameters.values()) if isinstance(v, Learn))

    @property
    def free_constants(self) -> tuple[int, ...]:
        """The unknowns that enter only by their derivatives: any constant may be added to them, unless readings fix it."""
        conditions = [block for block in self.conditions if block.kind not in ("periodic", "data")]
        residuals = [*(block.residual for block in (*self.equations, *conditions)), *self.fluxes.values()]
        valued = {k for residual in residuals for k, alpha in residual.jets if not any(alpha)}
        return tuple(k for k in range(len(self.unknowns)) if k not in valued)

    @property
    def jumping(self) -> dict[str, Piecewise]:
        """The parameters that jump."""
        return {name: value for name, value in self.parameters.items() if isinstance(value, Piecewise)}

    @property
    def has_fields(self) -> bool:
        """Whether functions are to be found among the parameters."""
        return any(isinstance(v, Learn) and v.axes for v in self.parameters.values())

    @property
    def has_ranges(self) -> bool:
        """Whether some parameter takes every value of an interval."""
        return any(isinstance(v, Range) for v in self.parameters.values())

    def with_parameters(self, values: Mapping[str, float]) -> PDE:
        """The same problem with other values of some parameters; both use the same compiled programs."""
        other = copy.copy(self)
        other.__dict__.pop("parameter_start", None)
        other.parameters = self.parameters | dict(values)
        return other

    @cached_property
    def periodic_axes(self) -> tuple[bool, ...]:
        """Which axes are periodic for every unknown."""
        blocks = [b for b in self.conditions if b.kind == "periodic" and b.piece]
        joined = {(axis, k) for b in blocks if b.piece for axis in b.piece.fixed for k, _ in b.residual.jets}
        return tuple(all((axis, k) in joined for k in range(len(self.unknowns))) for axis in self.axes)

    def __repr__(self) -> str:
        equations, conditions = self.source["equation"], [shown(c) for c in self.source["conditions"]]
        equations = equations if isinstance(equations, list | tuple) else [equations]
        lines = [
            f"PDE of {', '.join(self.unknowns)} on {self.domain!r}",
            *(f"  equation: {described(e)}" for e in equations),
            *(f"  {c}" for c in conditions[:SHOWN]),
        ]
        lines += [f"  and {len(conditions) - SHOWN} more conditions"] * (len(conditions) > SHOWN)
        lines += [f"  {name} = {value!r}" for name, value in self.parameters.items()]
        return "\n".join(lines)

    def _check_names(self) -> None:
        taken: dict[str, str] = {}
        groups = {"axis": self.domain.axes, "unknown": self.unknowns, "parameter": tuple(self.parameters)}
        if not self.unknowns:
            raise InputError("`unknowns` must name at least one function; got none.")
        for kind, names in groups.items():
            for name in names:
                if not isinstance(name, str) or not name.isidentifier():
                    raise InputError(f"every {kind} must be a valid Python name; got {name!r}.")
                if name in taken:
                    raise InputError(
                        f"`{kind}s` must not reuse a name; got {name!r}, which is already an {taken[name]}."
                    )
                taken[name] = kind
        for name, value in self.parameters.items():
            real = isinstance(value, int | float | np.number) and not isinstance(value, complex | np.complexfloating)
            if isinstance(value, Piecewise):
                value.check(name, self.axes, np.asarray(self.domain.bounds, float))
            elif not isinstance(value, Learn | Range) and not (real and np.isfinite(value)):
                raise InputError(f"the parameter {name!r} must be a finite number or flm.Learn(start); got {value!r}.")
            if isinstance(value, Learn) and not set(value.axes or ()) <= set(self.domain.axes):
                raise InputError(
                    f"`axes` of the parameter {name!r} must be among {', '.join(self.domain.axes)}; got {value.axes!r}."
                )

    def bind(self, function: Any, names: Names, label: str) -> Residual:
        """The residual of a function; parameters that jump are looked up at its points."""
        return Residual.bind(at_points(function, self.jumping, label), names, label)

    def _blocks(self, condition: Any, label: str) -> list[Block]:
        names = names_of(self.axes, self.unknowns, self.parameters, normals=True)
        if isinstance(condition, Periodic):
            return self._periodic_blocks(condition, label)
        if isinstance(condition, Data):
            if condition.points.shape[1] != len(self.axes):
                raise InputError(
                    f"`points` of data must have one column per axis ({', '.join(self.axes)}); got "
                    f"{condition.points.shape[1]}."
                )
            if not self.domain.contains(condition.points).all():
                raise InputError("`points` of data must lie in the domain; remove the readings outside it.")
            observed = self.bind(self._observed(condition, label), names, f"`observe` of {label}")
            return [Block("data", "data", observed, self.domain, data=condition)]
        if not isinstance(condition, Condition):
            raise InputTypeError(
                f"{label} must come from on, initial, dirichlet, neumann, robin, periodic or data; got {condition!r}."
            )
        piece = self.domain.piece(condition.place)
        if condition.where is not None:
            piece = piece.restrict(condition.where)
        residual = self.bind(condition.residual, names, label)
        start = {"t": float(self.domain.bounds[self.axes.index("t"), 0])} if "t" in self.axes else None
        kind = "initial" if start is not None and piece.fixed == start else "boundary"
        return [Block(piece.name, kind, residual, self.domain, piece)]

    def _observed(self, condition: Data, label: str) -> Any:
        """The function that readings are of: the one given, or the only unknown."""
        if condition.observe is not None:
            return condition.observe
        if len(self.unknowns) > 1:
            first = self.unknowns[0]
            raise InputError(
                f"`observe` of {label} must say which of the unknowns {', '.join(self.unknowns)} was measured; got nothing. "
                f"Write flm.data(points, values, observe=lambda {first}: {first})."
            )
        return Named(lambda value: value, self.unknowns)

    def _periodic_blocks(self, condition: Periodic, label: str) -> list[Block]:
        axis = condition.axis
        if axis not in self.axes or not isinstance(self.domain, Box):
            raise InputError(
                f"{label}: `axis` of periodic must be an axis of a box ({', '.join(self.axes)}); got {axis!r}."
            )
        if condition.unknown not in (None, *self.unknowns):
            raise InputError(
                f"{label}: `unknown` must be one of {', '.join(self.unknowns)}; got {condition.unknown!r}."
            )
        j = self.axes.index(axis)
        names = names_of(self.axes, self.unknowns, self.parameters)
        low, high = self.domain.piece(f"{axis}=min"), self.domain.piece(f"{axis}=max")
        blocks = []
        for k, unknown in enumerate(self.unknowns):
            if condition.unknown in (None, unknown):
                orders = [alpha[j] for index, alpha in unique_jets(b.residual for b in self.equations) if index == k]
                for order in range(max([1, *orders])):
                    name = f"{unknown}_{axis * order}" if order else unknown
                    residual = Residual.bind(Named(lambda value: value, (name,)), names, label)
                    blocks.append(Block(f"{low.name} ~ {high.name}", "periodic", residual, self.domain, low, high))
        return blocks

    def _check_values(self) -> None:
        points = self.domain.interior(8, seed=12345, warp=False)
        normals = np.full_like(points, 1 / np.sqrt(points.shape[1]))
        for block in self.equations:
            if not any(k < len(self.unknowns) for k, _ in block.residual.jets):
                known = f"{', '.join(self.unknowns)} or their derivatives"
                raise InputError(f"{block.residual.label} must ask for an unknown ({known}); got a function of none.")
        residuals = [*(block.residual for block in self.blocks), *self.fluxes.values()]
        check_all(residuals, points, self.parameter_start, normals)
        if self.learned and not any(block.kind == "data" for block in self.conditions):
            raise InputError(
                "`parameters` with flm.Learn must come with measured values: add flm.data(points, values), or [data] in a file."
                + (" Eigenvalue problems are not supported." if self._homogeneous(points, normals) else "")
            )

    def _homogeneous(self, points: np.ndarray, normals: np.ndarray) -> bool:
        """Whether zero solves the equations and satisfies the conditions."""
        at_rest = lambda r: r(points, np.zeros((len(r.jets), len(points))), self.parameter_start, normals)
        return not any(np.any(at_rest(block.residual)) for block in self.blocks)

    def _bind_exact(self, exact: Any, parts: ComplexUnknowns) -> tuple[Residual, ...] | None:
        if exact is None:
            return None
        by_name = parts.exact(dict(exact) if isinstance(exact, Mapping) else {parts.unknowns[0]: exact})
        if set(by_name) != set(self.unknowns):
            raise InputError(f"`exact` must give {', '.join(self.unknowns)}; got {', '.join(map(str, by_name))}.")
        names = names_of(self.axes, self.unknowns, self.parameters)
        bound = tuple(self.bind(as_named(by_name[u], "`exact`"), names, "`exact`") for u in self.unknowns)
        if any(r.jets for r in bound):
            raise InputError("`exact` must be a function of axes and parameters only.")
        return bound

    def exact_values(self, points: np.ndarray) -> np.ndarray:
        """The exact solution at points, (P,) or (P, K)."""
        if self.exact is None:
            raise InputError("the problem must have an `exact` solution for this; give `reference` instead.")
        points, nothing = np.asarray(points, float), np.zeros((0, len(points)))
        columns = [r.linearize(points, nothing, self.parameter_start).value for r in self.exact]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=-1)


def _flatten(conditions: Any) -> list[Any]:
    if isinstance(conditions, Condition | Periodic | Data):
        return [conditions]
    if not isinstance(conditions, Iterable) or isinstance(conditions, str):
        raise InputTypeError(
            f"`conditions` must be a list of what flm.on, flm.dirichlet, ... return; got {conditions!r}."
        )
    return [c for entry in conditions for c in (_flatten(entry) if isinstance(entry, list | tuple) else [entry])]


@runtime_checkable
class HasStrongForm(Protocol):
    """A problem of another kind that can be written as equations which hold at points."""

    def strong(self) -> PDE:
        """Those equations, with their conditions."""
        ...


def strong_form(problem: PDE | HasStrongForm) -> PDE:
    """The problem as equations that hold at points; `train` minimizes the squares of their residuals."""
    if isinstance(problem, PDE):
        if problem.jumping:
            raise InputError(
                f"`parameters` must not jump for this method; got flm.Piecewise for {next(iter(problem.jumping))!r}. "
                "Use flm.solve, which keeps the flux continuous."
            )
        if problem.has_ranges:
            raise InputError("`parameters` must be numbers for this method; got flm.Range. Use flm.solve.")
        return problem
    if isinstance(problem, HasStrongForm):
        return problem.strong()
    raise InputTypeError(
        f"`problem` must be a flm.PDE or offer its strong residual; got {type(problem).__name__}. Use flm.solve."
    )
