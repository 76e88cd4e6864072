"""Kronecker sums in any number of variables by exponential sums.

With A = sum_j A_j and 1/x = sum_q w_q exp(-t_q x) on all of the spectrum, the solution of A u = f is
sum_q w_q prod_j exp(-t_q A_j) f: as many products as f has, at some eighty times. u_t + A u = f needs no time step:
u(t) = U + exp(-t A) (u_0 - U) with A U = f. The estimate compares answers with ever more functions along each axis, at points
that are drawn where the answer is large: uniform points see nothing of a product in many variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flm.models.products import Part, ProductFLM
from flm.pde.march.sides import Unfit
from flm.pde.problem import PDE
from flm.pde.products.line import Line
from flm.pde.products.recognize import Kronecker, Reader
from flm.pde.products.sample import distance
from flm.pde.products.sums import Sum, Term
from flm.results import Ending, Listener, Record, Solution, Word
from flm.wording import InputError

COUNTS = (12, 17, 24, 34, 48, 68, 96, 136, 192)  # Legendre functions along each axis
STEPS = (0.25, 0.2)  # of the rule in log t, 1e-15 both: neighboring levels differ in it, and in the fits by EXTRA
EXTRA = (1.0, 1.25)
UNRESOLVED = 0.03
ROUNDING = 1e-15  # per axis
EIGEN = 1e-12  # a factor that is one mode up to this share
FEWEST = 3  # terms that differ in one axis each: from this many on, they become one term with slopes


def solve_by_products(problem: PDE, tol: float, progress: Listener) -> Solution:
    """The answer as a sum of products; a problem that does not fit is refused in one sentence."""
    found = try_products(problem, tol, progress)
    if isinstance(found, str):
        raise InputError(f"`method` must not be 'products' for this problem: {found}. Leave `method` out.")
    return found


def try_products(problem: PDE, tol: float, progress: Listener) -> Solution | str:
    """The answer as a sum of products, or the reason why there is none."""
    try:
        return _solve(problem, tol, progress)
    except Unfit as reason:
        return str(reason)


def _solve(problem: PDE, tol: float, progress: Listener) -> Solution:
    record, reader = Record(progress), Reader(problem)
    model, bar, ending = None, np.inf, Ending(Word.SIZE, f"stopped at {COUNTS[-1]} functions along each axis")
    for level, count in enumerate(COUNTS):
        found = reader.read(count, EXTRA[level % 2])
        new = _model(found, reader, STEPS[level % 2])
        if not new.parts:
            model, bar, ending = new, 0.0, Ending(Word.TRIVIAL, note="give a source or data")
            break
        if model is not None:
            gap = distance(new, model, reader.span)
            bar = max(gap, found.fit_error, ROUNDING * np.sqrt(len(reader.space)))
        model = new
        record.step("products", columns=model.num_parameters, estimate=bar, error_estimate=bar)
        if bar <= tol:
            ending = Ending(Word.CONVERGED)
            break
        if not np.isfinite(bar) and level > 0:
            ending = Ending(Word.NOT_FINITE)
            break
    assert model is not None
    if bar > max(UNRESOLVED, tol):
        bar, ending = np.inf, Ending(ending.word, ending.clause, "the solution was not resolved")
    return Solution(
        model=model,
        ending=ending,
        error_estimate=float(bar),
        tolerance=tol,
        history=record.history,
        num_columns=model.num_parameters,
        seconds=record.seconds,
        **problem.frame,
    )


Factors = tuple[np.ndarray, ...]  # one function along each axis, in modes; those that are equal are one array


class Forces(NamedTuple):
    """Right-hand sides: plain products, and sums over the axes of products in which that axis has another factor."""

    plain: list[Factors]
    sloped: list[tuple[Factors, Factors]]


class Projection:
    """Sums of products as products of integrals with the modes of each axis; each function is integrated once."""

    def __init__(self, lines: Sequence[Line]):
        self.lines = lines
        self._known: dict[tuple[int, int, bool], tuple[np.ndarray, np.ndarray]] = {}
        self._ones = [np.ones_like(line.p) for line in lines]

    def _along(self, j: int, values: np.ndarray, form: bool = False) -> np.ndarray:
        """The integrals of a function of one axis, or its symmetric form, with the modes."""
        key = (j, id(values), form)
        if key not in self._known:  # the function is kept, so that its id stays its own
            line = self.lines[j]
            found = line.form_against(values) if form else line.against(values)
            for end, robin in enumerate(line.ends.robin if form else ()):
                found = found + robin * values[end - 2] * line.at_end(end)
            self._known[key] = found, values
        return self._known[key][0]

    def term(self, term: Term, scale: complex = 1.0) -> Factors:
        """The factors of one product."""
        own = [self._along(j, term.factors.get(j, one)) for j, one in enumerate(self._ones)]
        return (own[0] * (term.c * scale), *own[1:]) if term.c * scale != 1.0 else tuple(own)

    def form(self, term: Term) -> tuple[Factors, Factors]:
        """Minus the symmetric form of one product: a sum over the axes."""
        own = [term.factors.get(j, one) for j, one in enumerate(self._ones)]
        slopes = [-term.c * self._along(j, values, form=True) for j, values in enumerate(own)]
        return tuple(self._along(j, values) for j, values in enumerate(own)), tuple(slopes)

    def face(self, axis: int, end: int, term: Term) -> Factors:
        """The factors of a slope that is given on a face."""
        value = term.c * term.factors.get(axis, self._ones[axis])[end - 2]
        own = list(self.term(term._replace(c=1.0, factors={j: v for j, v in term.factors.items() if j != axis})))
        own[axis] = value * self.lines[axis].at_end(end)
        return tuple(own)


def _grouped(plain: list[Factors]) -> Forces:
    """Forces in which products that differ from one of them in one axis each become one sum over the axes."""
    sloped, m = [], len(plain[0]) if plain else 0
    while len(plain) >= FEWEST:
        common = [Counter(id(f[j]) for f in plain).most_common(1)[0][0] for j in range(m)]
        off = [[j for j in range(m) if id(f[j]) != common[j]] for f in plain]
        near = [f for f, axes in zip(plain, off, strict=True) if len(axes) <= 1]
        if len(near) < FEWEST:
            break
        base = [next(f[j] for f in plain if id(f[j]) == common[j]) for j in range(m)]
        slopes = [np.zeros_like(b) for b in base]
        for f, axes in zip(plain, off, strict=True):
            if len(axes) <= 1:
                j = axes[0] if axes else 0
                slopes[j] = slopes[j] + f[j]
        sloped.append((tuple(base), tuple(slopes)))
        plain = [f for f, axes in zip(plain, off, strict=True) if len(axes) > 1]
    return Forces(plain, sloped)


def _parts(
    lines: Sequence[Line], forces: Forces, times: npt.ArrayLike, weights: npt.ArrayLike, moves=False
) -> list[Part]:
    """Parts of the answer from forces at times of the heat equation."""
    out, widest = [], max(len(line.rates) for line in lines)
    pad = lambda a: np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, widest - a.shape[-1])])
    modes, rates = np.stack([pad(line.modes) for line in lines]), np.stack([pad(line.rates) for line in lines])
    for first, slopes in ((forces.plain, []), ([f for f, _ in forces.sloped], [s for _, s in forces.sloped])):
        if first:
            known = [{id(f[j]): f[j] for f in (*first, *slopes)} for j in range(len(lines))]
            number = [{key: i for i, key in enumerate(own)} for own in known]
            index = lambda rows, n=number: np.array([[n[j][id(f[j])] for j in range(len(lines))] for f in rows], int)
            pools = [pad(np.stack(list(own.values()))) for own in known]
            other = index(slopes) if slopes else np.zeros((0, len(lines)), int)
            out.append(Part(modes, rates, pools, index(first), other, times, weights, moves))
    return out


def _lifted(lines: Sequence[Line], lift: Sum) -> Part:
    """The lift itself, in Legendre functions that do not decay."""
    count, ones = lines[0].count, [np.ones_like(line.p) for line in lines]
    rows = [[line.coefficients(t.factors.get(j, ones[j])) for j, line in enumerate(lines)] for t in lift.terms]
    pools = [
        np.stack([row[j] * (t.c if j == 0 else 1.0) for row, t in zip(rows, lift.terms, strict=True)])
        for j in range(len(lines))
    ]
    index = np.tile(np.arange(len(rows))[:, None], (1, len(lines)))
    modes = np.broadcast_to(np.eye(count), (len(lines), count, count))
    return Part(modes, np.zeros((len(lines), count)), pools, index, index[:0], [0.0], [1.0])


def _spectrum(lines: Sequence[Line]) -> tuple[float, float]:
    """The least and the largest eigenvalue of a positive sum."""
    low, high = (sum(float(line.rates[i]) for line in lines) for i in (0, -1))
    if low <= 1e-9 * high:
        raise Unfit("the operator must be positive, all its eigenvalues above zero; slopes alone leave a constant free")
    return low, high


def _rule(lines: Sequence[Line], step: float) -> tuple[np.ndarray, np.ndarray]:
    """Times and weights with 1/x = sum w exp(-t x) to 1e-15 between the least and the largest eigenvalue of the sum.

    The trapezoidal rule after t = exp(s - exp(-s)) / largest, whose integrand vanishes fast on both sides.
    """
    low, high = _spectrum(lines)
    s = np.arange(-3.7, np.log(40 * high / low) + step, step)
    t = np.exp(s - np.exp(-s)) / high
    return t, step * t * (1 + np.exp(-s))


def _eigenfunction(lines: Sequence[Line], force: Factors) -> tuple[Factors, float] | None:
    """The product of eigenfunctions near a force, with its eigenvalue; None if there is none."""
    places = [int(np.argmax(np.abs(factor))) for factor in force]
    value = sum(float(line.rates[k]) for line, k in zip(lines, places, strict=True))
    if value <= 0:
        return None
    for line, factor, k in zip(lines, force, places, strict=True):
        shares = factor * value / (value + line.rates - line.rates[k])  # of the answer
        if np.linalg.norm(np.delete(shares, k)) > EIGEN * np.abs(factor[k]):
            return None
    kept = zip(force, places, strict=True)
    return tuple(np.where(np.arange(len(factor)) == k, factor, 0.0) for factor, k in kept), value


def _model(found: Kronecker, reader: Reader, step: float) -> ProductFLM:
    """The answer at one number of functions, without any parts where it is zero."""
    lines, project, parts = found.lines, Projection(found.lines), []
    if reader.time is None:
        _spectrum(lines)  # a product of eigenfunctions, or nothing, needs no rule, but an answer that is the only one
    forces = [project.term(term) for term in found.source.terms]
    forces += [project.face(*place, term) for place, value in found.faces.items() for term in value.terms]
    pure = [(_eigenfunction(lines, force), force) for force in forces]
    for eigen, _ in pure:
        if eigen is not None:
            parts += _parts(lines, Forces([eigen[0]], []), [0.0], [1 / eigen[1]])
    others = _grouped([force for eigen, force in pure if eigen is None])
    others.sloped.extend(project.form(term) for term in found.lift.terms)
    if any(others):
        times, weights = _rule(lines, step)
        parts += _parts(lines, others, times, weights)
    if reader.time is not None:
        parts += [Part(p.modes, p.rates, p.pools, p.first, p.slopes, p.times, -p.weights, True) for p in parts]
        begin = [project.term(t, -1.0) for t in found.lift.terms]
        for start, scale in zip(found.starts, (1.0, 1j), strict=False):
            # where the answer is complex no real part is taken: Re T = (T + conj T) / 2
            halves = [(t, t.conjugate()) if t.is_complex and found.turn else (t,) for t in start.terms]
            begin += [project.term(t, scale / len(pair)) for pair in halves for t in pair]
        parts += _parts(lines, _grouped(begin), [0.0], [1.0], moves=True)
    if found.lift.terms:
        parts.append(_lifted(lines, found.lift))
    bounds = reader.bounds[list(reader.space)]
    return ProductFLM(parts, bounds, reader.problem.axes, reader.time, reader.span[0], found.turn)
