"""From a problem and a tolerance to a function in pieces."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from flm.models.pieces import PiecewiseFLM
from flm.pde.pieces.adapt import PIVOT, Adaptation, memory_columns
from flm.pde.pieces.newton import Answer
from flm.pde.pieces.setup import Setup, set_up
from flm.pde.pieces.slabs import Marching, can_march
from flm.pde.problem import PDE
from flm.results import Ending, Listener, Record, Solution, Word


@dataclass
class Pieces:
    """Answers on boxes that tile the domain, and how sure they are."""

    answers: list[Answer]
    bar: float
    ending: Ending


def solve_in_pieces(problem: PDE, tol: float, *, max_columns: int | None, progress: Listener) -> Solution:
    """One piece by a short ladder; then slabs in time where the problem marches, or a tree of pieces.

    Args:
        problem: on a box or a region of up to three axes.
        tol: relative L2 error, worst unknown.
        max_columns: coefficients of all pieces; by default what half of the free memory holds.
        progress: called with each step.
    """
    began = time.perf_counter()
    setup, record = set_up(problem), Record(progress)
    max_columns = memory_columns(setup) if max_columns is None else max_columns
    found = _search(setup, problem, tol, max_columns, record)
    return Solution(
        model=as_model(found.answers, problem.axes),
        axes=problem.axes,
        unknowns=problem.unknowns,
        bounds=problem.domain.bounds,
        ending=found.ending,
        error_estimate=float(found.bar),
        tolerance=tol,
        history=record.history,
        num_columns=sum(answer.num_columns for answer in found.answers),
        seconds=time.perf_counter() - began,
        domain=problem.domain,
        exact=problem.exact_values if problem.exact is not None else None,
    )


def _search(setup: Setup, problem: PDE, tol: float, max_columns: int, record: Record) -> Pieces:
    search = Adaptation(setup, tol, max_columns, record)
    if setup.is_linear and search.is_homogeneous():
        return Pieces([search.zero()], 0.0, Ending(Word.TRIVIAL, note="give a source or data"))
    if setup.is_short:
        return Pieces([search.zero()], np.inf, Ending(Word.UNDETERMINED, note="add the conditions that are missing"))
    marching = Marching(setup, tol, max_columns, record) if can_march(setup, problem.axes) else None
    try:
        if not search.ladder():
            if search.found.answer is None:
                return Pieces([search.zero()], np.inf, Ending(Word.NOT_FINITE))
            # With all its initial data a problem is determined, however fast its solution grows.
            doubt = _doubt(search, 0.0 if marching is not None else PIVOT)
            if doubt is not None:
                return doubt
            if marching is not None:
                march = marching.run()
                if march.slabs and march.until >= setup.bounds[-1, 1]:
                    return Pieces(march.slabs, march.bar, march.ending)
            search.refine()
    except KeyboardInterrupt:
        if search.found.answer is None:
            raise
        search.found.ending = Ending(Word.INTERRUPTED)
    found = search.found
    if found.answer is None:
        return Pieces([search.zero()], np.inf, Ending(Word.NOT_FINITE))
    free = ", ".join(problem.unknowns[k] for k in setup.free)
    if found.bar <= tol:
        about = " to about three digits" if free and setup.shape is not None else ""
        note = f"nothing fixes the constant in {free}, so its mean is zero{about}" if free else ""
        return Pieces([found.answer], found.bar, Ending(Word.CONVERGED, note=note))
    return Pieces([found.answer], found.bar, found.ending)


def _doubt(search: Adaptation, least: float) -> Pieces | None:
    """An answer that is one of many, or none at all."""
    if search.found.answer is None:
        return None
    if search.contradiction:
        ending = Ending(Word.INCONSISTENT, note="no function satisfies the equation and all conditions")
    elif search.pivot <= least:
        ending = Ending(Word.UNDETERMINED, note="add the conditions that are missing")
    else:
        return None
    return Pieces([search.found.answer], np.inf, ending)


def as_model(answers: list[Answer], axes: tuple[str, ...]) -> PiecewiseFLM:
    """All pieces of all slabs as one function; unknowns with fewer functions are padded."""
    shapes = answers[0].functions.shapes
    largest = tuple(max(shape[j] for shape in shapes) for j in range(len(axes)))
    blocks = []
    for answer in answers:
        block = np.zeros((answer.tree.num_leaves, *largest, len(shapes)))
        for k, (columns, shape) in enumerate(zip(answer.functions.columns, shapes, strict=True)):
            inside = (slice(None), *(slice(0, n) for n in shape), k)
            block[inside] = answer.coefficients[:, columns].reshape(-1, *shape)
        blocks.append(block)
    lower = np.concatenate([answer.tree.lower for answer in answers])
    upper = np.concatenate([answer.tree.upper for answer in answers])
    return PiecewiseFLM(lower, upper, np.concatenate(blocks), axes)
