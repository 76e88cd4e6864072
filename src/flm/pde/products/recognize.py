"""Recognition of sums over the axes: A u = f or u_t + A u = f on a box, with A = sum_j A_j along one axis each.

Equation and conditions are read as sums of products (`separate`). The factors of u_jj and u_j must be functions of x_j, that of
u a sum of functions of one variable; every face has one condition, a u + b u_n = g with constants a and b, or the axis is
joined. Values g are lifted by one function that has them on all faces, or by one for each face that vanishes on the others. A
complex unknown rotates, h_t + i A h = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from flm.domains import Box
from flm.language.arguments import Jet, Residual
from flm.pde.march.sides import Unfit, whole_faces
from flm.pde.problem import PDE, Block
from flm.pde.products.line import Ends, Line, nodes
from flm.pde.products.separate import Separation
from flm.pde.products.sums import Sum, Term, constant

SAME = 1e-10
PROBES = 24  # points of a face at which the lift is compared with the values there
NOTHING = Sum()
Place = tuple[int, int, int]  # unknown, axis, end


class Given(NamedTuple):
    """A condition a u + b u_n = value on one face."""

    a: float
    b: float
    value: Sum


class Operator(NamedTuple):
    """A u = -a u'' - b u' - c u at the nodes of each space axis, and f."""

    a: list[np.ndarray]
    b: list[np.ndarray]
    c: list[np.ndarray]
    source: Sum


@dataclass(frozen=True, eq=False)
class Kronecker:
    """A problem read at the nodes of a number of functions along each axis; axes are numbered among those of space."""

    lines: tuple[Line, ...]
    source: Sum
    lift: Sum
    faces: dict[tuple[int, int], Sum]  # nonzero values of u_n + robin u by (axis, end)
    starts: tuple[Sum, ...]  # of u, or of its real and its imaginary part
    turn: int  # the sign of a complex unknown's rotation, 0 where the unknown is real
    fit_error: float


class Reader:
    """Reads a problem at any number of nodes; raises `Unfit` with the reason if it does not fit."""

    def __init__(self, problem: PDE):
        if not isinstance(problem.domain, Box):
            raise Unfit("the domain must be a box")
        if problem.learned or problem.jumping or any(b.kind == "data" for b in problem.conditions):
            raise Unfit("there must be nothing to learn, no readings and no coefficients that jump")
        self.problem, axes = problem, problem.axes
        self.bounds = np.asarray(problem.domain.bounds, float)
        jets = [alpha for block in problem.equations for _, alpha in block.residual.jets]
        rates = {alpha[axes.index("t")] for alpha in jets} - {0} if "t" in axes else set()
        self.time = axes.index("t") if rates == {1} else None
        self.space = tuple(j for j in range(len(axes)) if j != self.time)
        complex_one = len(problem.unknowns) == len(problem.equations) == 2 and self.time is not None
        if not complex_one and len(problem.unknowns) * len(problem.equations) != 1:
            raise Unfit("there must be one unknown, or a complex one that evolves")
        self._traced: dict[int, ClosedJaxpr] = {}

    @property
    def span(self) -> tuple[float, float]:
        """First and last time."""
        low, high = (0.0, 0.0) if self.time is None else self.bounds[self.time].tolist()
        return low, high

    def read(self, count: int, extra: float) -> Kronecker:
        """The problem at the nodes of `count` functions; fits of functions of a sum are finer by `extra`."""
        parts = Separation(tuple(nodes(b, count) for b in self.bounds), extra)
        given = self._conditions(parts)
        operator, turn = self._operator(parts)
        ends, faces, lift = [], {}, self._lift(given, parts)
        for i, j in enumerate(self.space):
            if self.problem.periodic_axes[j]:
                ends.append(Ends((False, False), is_periodic=True))
                continue
            for k in range(len(self.problem.unknowns)):
                if (k, j, 0) not in given or (k, j, 1) not in given:
                    raise Unfit(f"{self.problem.unknowns[k]} must have one condition on each face")
            pair = low, high = given[0, j, 0], given[0, j, 1]
            robin = (low.a / low.b if low.b else 0.0, high.a / high.b if high.b else 0.0)
            ends.append(Ends((low.b == 0, high.b == 0), robin))
            faces |= {(i, end): g.value for end, g in enumerate(pair) if g.b and g.value.terms}
        known: dict[tuple[object, ...], Line] = {}  # axes that are alike share their eigenfunctions
        lines = []
        for i, (j, end) in enumerate(zip(self.space, ends, strict=True)):
            factors = (operator.a[i], operator.b[i], operator.c[i])
            key = (float(np.ptp(self.bounds[j])), end, *(v.tobytes() for v in factors))
            known[key] = known.get(key) or Line(self.bounds[j], count, end, *factors)
            lines.append(known[key])
        starts = self._starts(parts) if self.time is not None else ()
        everything = [operator.source, lift, *faces.values()]
        if any(self.time in value.axes for value in everything):
            raise Unfit("sources and values on faces must not depend on t")
        if turn and any(value.terms for value in everything):
            raise Unfit("a complex unknown must have neither sources nor values on faces")
        number = {j: i for i, j in enumerate(self.space)}
        place = lambda s: Sum(*(t._replace(factors={number[j]: v for j, v in t.factors.items()}) for t in s.terms))
        return Kronecker(
            tuple(lines),
            place(operator.source),
            place(lift),
            {key: place(value) for key, value in faces.items()},
            tuple(map(place, starts)),
            turn,
            parts.error,
        )

    # --- reading functions --------------------------------------------------------------------------------------------

    def _read(self, residual: Residual, parts: Separation, normal: np.ndarray | None = None) -> dict[Jet | None, Sum]:
        """A residual as sums of products: the factor of each derivative of an unknown, and under None the terms without one."""
        key = id(residual)
        try:
            if key not in self._traced:
                self._traced[key] = jax.make_jaxpr(residual.function)(*(0.5,) * len(residual.references))
        except (TypeError, ValueError, jax.errors.JAXTypeError) as error:
            raise Unfit(f"{residual.label} must be written with jax.numpy ({type(error).__name__})") from None
        inputs, place = [], {jet: i for i, jet in enumerate(residual.jets)}
        normal = np.zeros(len(self.bounds)) if normal is None else normal
        for r in residual.references:
            if r.kind == "axis":
                inputs.append(Sum(Term(1.0, {r.index: parts.nodes[r.index]})))
            elif r.kind == "parameter":
                inputs.append(constant(float(self.problem.parameter_start[r.index])))
            elif r.kind == "normal":
                inputs.append(constant(float(normal[r.index])))
            elif r.kind == "jet":
                inputs.append(Sum(Term(1.0, {}, place[r.index, r.alpha])))
            else:
                along = np.flatnonzero(normal).tolist()
                inputs.append(Sum(*(Term(float(normal[j]), {}, place[r.index, self._alpha(j)]) for j in along)))
        (found,) = parts.run(self._traced[key], inputs)
        out: dict[Jet | None, list[Term]] = {}
        for term in found.terms:
            out.setdefault(residual.jets[term.jet] if term.jet >= 0 else None, []).append(term._replace(jet=-1))
        return {jet: Sum(*terms) for jet, terms in out.items()}

    def _alpha(self, *along: int) -> tuple[int, ...]:
        out = [0] * len(self.problem.axes)
        for axis in along:
            out[axis] += 1
        return tuple(out)

    def _operator(self, parts: Separation) -> tuple[Operator, int]:
        """A and f of A u = f, u_t + A u = f or h_t + i A h = 0, and the sign of i."""
        rows = [self._read(block.residual, parts) for block in self.problem.equations]
        if len(rows) == 1:
            (row,), scale = rows, 1.0
            if self.time is not None:
                scale = -1.0 / _number(row.pop((0, self._alpha(self.time)), NOTHING), "u_t must have a constant factor")
            else:
                curved = row.get((0, self._alpha(self.space[0], self.space[0])), NOTHING)
                like = np.zeros_like(parts.nodes[self.space[0]])
                scale = -1.0 if (curved.along(self.space[0], like) + curved.along(-1, like)).sum() < 0 else 1.0
            return self._along_axes(row, 0, scale, parts), 0
        found, t = [], self.time or 0
        for row in rows:  # u_t = A v and v_t = -A u
            own = next((k for k in (0, 1) if (k, self._alpha(t)) in row), None)
            if own is None:
                raise Unfit("each part of the complex unknown must have an equation for its rate")
            rate = _number(row.pop((own, self._alpha(t))), "u_t must have a constant factor")
            found.append(self._along_axes(row, 1 - own, (1.0 if own == 0 else -1.0) / rate, parts))
        one, two = found
        pairs = [(x, y) for k in range(3) for x, y in zip(one[k], two[k], strict=True)]
        if not all(np.allclose(x, y, atol=1e-12 * np.abs(x).max()) for x, y in pairs):
            raise Unfit("the two parts of the complex unknown must turn into each other")
        turn = 1 if one.a[0][0] > 0 else -1
        a, b, c = ([turn * v for v in values] for values in one[:3])
        return Operator(a, b, c, one.source + two.source), turn

    def _along_axes(self, row: dict[Jet | None, Sum], unknown: int, scale: float, parts: Separation) -> Operator:
        """The factors of the derivatives of one unknown, times a number."""
        row, a, b, c = dict(row), [], [], []
        zero = lambda j: np.zeros_like(parts.nodes[j])
        for j in self.space:
            for order, out in ((2, a), (1, b)):
                value = row.pop((unknown, self._alpha(*[j] * order)), NOTHING)
                if not value.is_plain or value.axes - {j}:
                    raise Unfit("the factors of u_jj and u_j must be functions of x_j alone")
                out.append(scale * (value.along(j, zero(j)) + value.along(-1, zero(j))))
        value, source = row.pop((unknown, self._alpha()), NOTHING), row.pop(None, NOTHING)
        if row or not value.is_plain or self.time in value.axes:
            raise Unfit("the equation must be a sum over the axes of u_jj, u_j and u times functions of one variable")
        for i, j in enumerate(self.space):
            c.append(scale * (value.along(j, zero(j)) + (value.along(-1, zero(j)) if i == 0 else 0.0)))
        return Operator(a, b, c, constant(scale) * source)

    def _conditions(self, parts: Separation) -> dict[Place, Given]:
        """The conditions by unknown, axis and end."""
        out: dict[Place, Given] = {}
        for block in self.problem.conditions:
            if block.kind == "periodic" or (self.time is not None and block.kind == "initial"):
                continue
            has_normal = any(r.kind.startswith("normal") for r in block.residual.references)
            row = None
            for j, end in whole_faces(self.problem, block, self.space):
                normal = np.zeros(len(self.problem.axes))
                normal[j] = 2.0 * end - 1
                if row is None or has_normal:
                    row = self._read(block.residual, parts, normal)
                unknown, given = self._given(dict(row), j, normal[j], block)
                if (unknown, j, end) in out:
                    raise Unfit("there must be one condition on each face")
                out[unknown, j, end] = given
        return out

    def _given(self, row: dict[Jet | None, Sum], axis: int, outward: float, block: Block) -> tuple[int, Given]:
        what = f"the condition on {block.name} must be a u + b u_n = g with numbers a and b"
        value = constant(-1.0) * row.pop(None, NOTHING)
        unknown = next((jet[0] for jet in row if jet), 0)
        a = _number(row.pop((unknown, self._alpha()), NOTHING), what, or_none=True)
        b = _number(row.pop((unknown, self._alpha(axis)), NOTHING), what, or_none=True) * outward
        if row or not (a or b):
            raise Unfit(what)
        return unknown, Given(a, b, constant(1 / (b or a)) * value)

    def _starts(self, parts: Separation) -> tuple[Sum, ...]:
        found: dict[int, Sum] = {}
        for block in self.problem.conditions:
            if block.kind == "initial":
                row = self._read(block.residual, parts)
                unknown = next((jet[0] for jet in row if jet), 0)
                what = "an initial condition must give the unknown on all of space"
                scale = _number(row.pop((unknown, self._alpha()), NOTHING), what)
                if unknown in found or set(row) - {None} or any(face.patches[0].keep for face in block.faces):
                    raise Unfit(what)
                found[unknown] = constant(-1 / scale) * row.pop(None, NOTHING)
        if len(found) != len(self.problem.unknowns):
            raise Unfit("there must be one initial condition for each unknown")
        return tuple(found[k] for k in sorted(found))

    def _lift(self, given: dict[Place, Given], parts: Separation) -> Sum:
        """A function that takes the given values on every face that has them."""
        values = {(axis, end): face.value for (_, axis, end), face in given.items() if not face.b}
        lift = next((value for value in values.values() if value.terms), NOTHING)
        if self._keeps(lift, values, parts):
            return lift
        lift = NOTHING
        for (axis, end), value in values.items():
            ramp = np.ones_like(parts.nodes[axis])
            if (axis, 1 - end) in values:
                low, high = self.bounds[axis]
                ramp = np.abs(parts.nodes[axis] - (low if end else high)) / (high - low)
            ones = [(t, t.factors.get(axis, np.ones(2))[end - 2]) for t in value.terms]
            here = [t._replace(c=t.c * at, factors={j: v for j, v in t.factors.items() if j != axis}) for t, at in ones]
            lift = lift + Sum(Term(1.0, {axis: ramp})) * Sum(*here)
        if not self._keeps(lift, values, parts):
            raise Unfit("the values on faces must be those of one function, or vanish where faces meet")
        return lift

    def _keeps(self, lift: Sum, values: dict[tuple[int, int], Sum], parts: Separation) -> bool:
        rng = np.random.default_rng(0)
        drawn = np.stack([rng.integers(0, len(own) - 2, PROBES) for own in parts.nodes], axis=1)
        size = np.abs(_at(lift, drawn)).max()
        for (axis, end), value in values.items():
            places = drawn.copy()
            places[:, axis] = len(parts.nodes[axis]) - 2 + end
            wanted, found = (_at(v, places) for v in (value, lift))
            if value is not lift and (np.abs(wanted - found) > SAME * np.maximum(np.abs(wanted), size)).any():
                return False
        return True


def _number(value: Sum, what: str, or_none: bool = False) -> float:
    """The value of a factor that must be a number."""
    if value.axes or not (value.terms or or_none):
        raise Unfit(what)
    return float(value.along(-1, np.zeros(())))


def _at(value: Sum, places: np.ndarray) -> np.ndarray:
    """Values at nodes given by their numbers, (P, m)."""
    out = np.zeros(len(places))
    for term in value.terms:
        product = np.full(len(places), term.c)
        for axis, values in term.factors.items():
            product = product * values[places[:, axis]]
        out += np.real(product)
    return out
