"""From a PDE and a tolerance to one series: a growing lattice, with learned frequencies where they help."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flm.pde.problem import PDE, Block
from flm.pde.waves.determined import NULL, SIZES, homogeneous_residual
from flm.pde.waves.growth import UNRESOLVED, Growth, Search
from flm.pde.waves.initial_value import initial_value_error
from flm.results import Ending, Listener, Word


def solve_to_tolerance(problem: PDE, tol: float, *, max_columns: int, seed: int, progress: Listener) -> Search:
    """The smallest lattice or short sum of sinusoids that meets the tolerance."""
    growth = Growth(problem, tol=tol, max_columns=max_columns, seed=seed, progress=progress)
    if growth.fitter.is_linear and _is_homogeneous(growth):
        search = growth.zero()
        search.ending = Ending(Word.TRIVIAL, note="give a source or data")
        return search
    try:
        growth.run()
        _doubt(growth, growth.search)
    except KeyboardInterrupt:
        if growth.search.best is None:
            raise
        growth.search.ending = Ending(Word.INTERRUPTED)
    search = growth.search
    if search.ending.word in (Word.STALLED, Word.SIZE):
        clash = contradiction(problem)
        if clash:
            search.ending = Ending(Word.INCONSISTENT, note=clash)
    return search


def _doubt(growth: Growth, search: Search) -> None:
    """Withdraw an answer that is one of many.

    Initial data determine the solution of an ordinary equation, however it grows: its error is then found step by step.
    """
    fitter, fit, problem = growth.fitter, growth.search.best, growth.problem
    if fit is None or not fit.finite or problem.learned or any(b.kind == "data" for b in problem.blocks):
        return
    if search.ending.word not in (Word.CONVERGED, Word.STALLED, Word.SIZE):
        return
    resolved = fit.estimate <= UNRESOLVED
    left = NULL
    if resolved and growth.m <= max(SIZES):
        left = homogeneous_residual(fitter, fit, growth.power, growth.free_constants())
    if resolved and left >= NULL:
        return
    wrong = initial_value_error(fitter, fit)
    if wrong is not None:
        search.bar = max(search.bar, wrong)
        if np.isfinite(search.bar):  # whatever growth said of conditions that barely determine a solution
            search.ending = replace(search.ending, note="")
    elif resolved:
        search.bar = np.inf
        search.ending = Ending(
            Word.UNDETERMINED,
            f"undetermined: something other than zero satisfies the problem without its right-hand sides to {left:.0e}, so "
            "this answer is one of many, if there is any",
            "add the conditions that are missing",
        )


def _is_homogeneous(growth: Growth) -> bool:
    """Whether zero satisfies everything exactly."""
    zero = lambda b: np.zeros((len(b.block.residual.jets), b.size))
    parameters = growth.problem.parameter_start
    values = [growth.fitter._linearize(b, zero(b), parameters).value for b in growth.fitter.sampler.held()]
    data = [b for b in growth.problem.blocks if b.kind == "data"]
    return not data and all(not v.any() for v in values)


def contradiction(problem: PDE) -> str | None:
    """A sentence on two conditions that ask for different values at one place of a box, or None."""
    asked = []
    for block in problem.conditions:
        if block.partner is None:
            for face in block.faces:
                found = _value(problem, block, *face.sample(16, seed=3)) if face.fixed else None
                if found is not None:
                    asked.append((block, face, found[0], np.abs(found[1]).max()))
    for i, (one, a, unknown, size) in enumerate(asked):
        for two, b, other, other_size in asked[i + 1 :]:
            if unknown != other or any(b.fixed.get(axis, value) != value for axis, value in a.fixed.items()):
                continue
            place = problem.domain.piece(", ".join(f"{axis}={value!r}" for axis, value in (a.fixed | b.fixed).items()))
            points, normals = place.sample(16, seed=3)
            values = [found[1] for block in (one, two) if (found := _value(problem, block, points, normals))]
            gap = np.abs(values[0] - values[-1]).max()
            if gap > 1e-9 * max(size, other_size):
                return f"{a.name!r} and {b.name!r} ask for values that differ by {gap:.2g} where they meet, at {place.name!r}"
    return None


def _value(problem: PDE, block: Block, points: np.ndarray, normals: np.ndarray) -> tuple[int, np.ndarray] | None:
    """(unknown, values) that a linear condition on one unknown's value asks for; None for other conditions."""
    jets = block.residual.jets
    if len(jets) != 1 or any(jets[0][1]):
        return None
    zero = block.residual.linearize(points, np.zeros((1, len(points))), problem.parameter_start, normals)
    if not zero.by_jet.all():
        return None
    return jets[0][0], -zero.value / zero.by_jet[0]
