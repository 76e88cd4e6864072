"""Other solutions of a nonlinear problem, searched for near the one that was found, at a coarse size.

Let u be the answer, J the slopes of the residual F there, and w the response to a constant load, J w = 1. On the line u + s w the
mean of F has the sign of s near s = 0, and wherever it changes sign another solution may be near: Newton's method starts there. It
also starts at zero where it needed help before. A function found at two sizes, away from the
answer, is another solution; solutions that a single piece does not resolve are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from flm.pde.pieces.adapt import LADDER, Adaptation
from flm.pde.pieces.elimination import PieceRows, eliminate, plan
from flm.pde.pieces.newton import Answer, damp_system, evaluated, norms, scale, solve_system
from flm.pde.pieces.places import Sample
from flm.pde.pieces.refine import probes
from flm.pde.pieces.rows import System

SHARES = np.geomspace(0.05, 1000, 32)  # of the answer's size, along the line
LOOKS = 48  # points at which F is evaluated along the line, about
TRIES = 3  # starts along the line
APART = 1e-3  # relative distance from which two answers are two solutions
SAME = 0.1  # of that distance: how near the same solution is found again at the next size


def distance_to_another(search: Adaptation) -> float | None:
    """How far another solution is from the answer, relative to the answer's size, worst unknown; None where none is found."""
    answer, (first, *finer) = search.found.answer, LADDER[search.num_axes][-3:]
    assert answer is not None
    points = probes(search.whole, 400)
    here = answer.evaluate(points)
    sizes = scale(np.sqrt(np.mean(here**2, axis=0)))
    apart = lambda a, b: float(np.max(np.sqrt(np.mean((a - b) ** 2, axis=0)) / sizes))
    system = search.system(search.whole, first)
    for start in _starts(system, answer):
        twin = damp_system(system, start)
        for nodes in finer:
            values = twin.evaluate(points)
            away = apart(values, here)
            if not (twin.settled and twin.finite) or away < max(APART, 10 * search.found.bar):
                break
            next_system = search.system(search.whole, nodes)
            twin = solve_system(next_system, next_system.hull.fitted(twin.coefficients, twin.functions), False)
            if twin.settled and twin.finite and apart(twin.evaluate(points), values) < SAME * away:
                return away
    return None


def _starts(system: System, answer: Answer) -> Iterator[np.ndarray | None]:
    """Starts from which Newton's method may find another solution, (L, C) each; None is zero."""
    order = plan(system.members, system.sizes, system.tree.num_leaves)
    if answer.tree is system.tree:
        here = system.hull.fitted(answer.coefficients, answer.functions)
    else:
        yield None
        plain = solve_system(system, None, False, order)
        here = plain.coefficients if plain.settled else np.zeros_like(plain.coefficients)
    rows, size = system.assemble(here), float(np.sum(norms(system.hull, system.tree, here))) or 1.0
    for sample in system.samples[: len(system.equations)]:
        along = system.gathered(eliminate(_loaded(system, rows, sample), system.sizes, order))
        length = float(np.sum(norms(system.hull, system.tree, along)))
        if not 0 < length < np.inf:
            continue
        steps = SHARES * size / length
        for way in (steps, -steps):
            rises = _means(system, sample, here, along, way) * np.sign(way)
            turns = np.flatnonzero((rises[1:] < 0) != (rises[:-1] < 0))
            yield from (here + (way[i] + way[i + 1]) / 2 * along for i in turns[:TRIES])


def _loaded(system: System, rows: Sequence[PieceRows], sample: Sample) -> list[PieceRows]:
    """The rows with right-hand side one for one equation, and zero for all others."""
    index, loads = system.samples.index(sample), [np.zeros(len(piece.right)) for piece in rows]
    for part in sample.parts:  # a piece begins with its equations, all at the same points
        count = part.where.stop - part.where.start
        loads[part.leaf][index * count : (index + 1) * count] = 1.0
    return [replace(piece, right=load) for piece, load in zip(rows, loads, strict=True)]


def _means(system: System, sample: Sample, here: np.ndarray, along: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The mean of an equation's residual, weighted by |w|, at steps along a line, (S,); the last finite value replaces others."""
    thin = max(1, len(sample.points) // LOOKS)
    base, slope = (sample.jets(system.own(values))[:, ::thin] for values in (here, along))
    points = sample.points[::thin]
    weights = np.abs(evaluated(system.hull, system.tree, along, points)).sum(axis=1)
    jets = (base[:, None] + steps[:, None] * slope[:, None]).reshape(len(base), -1)
    where = np.tile(points, (len(steps), 1))
    line = sample.residual.linearize(where, jets, system.parameters, np.zeros_like(where))
    found = line.value.reshape(len(steps), -1) @ weights
    finite = np.isfinite(found)
    return np.where(finite, found, found[finite][-1] if finite.any() else 1.0)
