"""From a problem and a tolerance to a function in pieces."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from flm.domains import Box
from flm.models.pieces import PiecewiseFLM
from flm.pde.conditions import Data
from flm.pde.pieces.adapt import PIVOT, SHARED, Adaptation, Pieces, distance_to_another, memory_columns
from flm.pde.pieces.inverse import ParameterSearch
from flm.pde.pieces.marching import AbstractSlabs, Marching, can_march
from flm.pde.pieces.newton import Answer
from flm.pde.pieces.ordinary import OrdinarySlabs
from flm.pde.pieces.planes import PlaneSlabs
from flm.pde.pieces.refine import Refinement
from flm.pde.pieces.setup import Setup, has_readings, set_up
from flm.pde.pieces.slabs import LineSlabs, with_velocities
from flm.pde.problem import PDE
from flm.results import Ending, Listener, Record, Solution, Word

SEVERAL = "the problem has more than one solution"
MISSING = "add the conditions that are missing"


def solve_in_pieces(
    problem: PDE,
    tol: float,
    *,
    max_columns: int | None,
    progress: Listener,
    between: Callable[[], Solution | None] = lambda: None,
) -> Solution:
    """Solve on one piece by a short ladder; then by slabs in time where the problem marches, or on a tree of pieces.

    Without `max_columns` all pieces together may fill half of the free memory. Where one piece is not enough, `between` may
    return the answer of another method, or None.
    """
    began = time.perf_counter()
    turned = _time_last(problem)
    setup, record = set_up(turned), Record(progress)
    # Slabs are solved one at a time: the memory limits each of them, the user's number all of them together.
    total = np.inf if max_columns is None else max_columns
    max_columns = memory_columns(setup, tol) if max_columns is None else max_columns

    def forward(setup: Setup, tol: float) -> Pieces:
        found = _search(setup, turned, tol, max_columns, total, record, lambda: None)
        assert isinstance(found, Pieces)  # no other method was offered
        return found

    if has_readings(problem):
        found = ParameterSearch(turned, setup, tol, forward, record).run()
    else:
        found = _search(setup, turned, tol, max_columns, total, record, between)
        if not isinstance(found, Pieces):
            return found
    order = tuple(turned.axes.index(axis) for axis in problem.axes)
    return Solution(
        model=as_model(found.answers, problem.axes, len(problem.unknowns), order),
        ending=found.ending,
        error_estimate=float(found.bar),
        tolerance=tol,
        parameters=found.parameters,
        history=record.history,
        num_columns=sum(answer.num_columns for answer in found.answers),
        seconds=time.perf_counter() - began,
        trusted_until=found.until,
        estimate_until=found.ending.estimate_until,
        **problem.frame,
    )


def _time_last(problem: PDE) -> PDE:
    """The same problem with time as its last axis, as slabs need it."""
    if "t" not in problem.axes[:-1] or not isinstance(problem.domain, Box):
        return problem
    bounds = dict(zip(problem.axes, np.asarray(problem.domain.bounds, float).tolist(), strict=True))
    bounds["t"] = bounds.pop("t")
    order = [problem.axes.index(axis) for axis in bounds]
    turned = lambda given: replace(given, points=given.points[:, order]) if isinstance(given, Data) else given
    return PDE(
        Box(**{axis: (low, high) for axis, (low, high) in bounds.items()}),
        problem.source["equation"],
        [turned(given) for given in problem.source["conditions"]],
        parameters=problem.parameters,
        **{name: problem.source[name] for name in ("unknowns", "complex_unknowns", "flux")},
    )


def _search(
    setup: Setup,
    problem: PDE,
    tol: float,
    max_columns: int,
    total: float,
    record: Record,
    between: Callable[[], Solution | None],
) -> Pieces | Solution:
    """Pieces, or the answer that another method found after one piece was not enough."""
    if setup.shape is not None and len(setup.shape.bounds) < len(setup.bounds):
        return _over_region(setup, tol, max_columns, total, record)
    search = Adaptation(setup, tol, max_columns, record)
    if setup.is_linear and not setup.known.learned and search.is_homogeneous():
        return Pieces([search.zero()], 0.0, Ending(Word.TRIVIAL, note="give a source or data"))
    if setup.is_short:
        return Pieces([search.zero()], np.inf, Ending(Word.UNDETERMINED, note=MISSING))
    slabs = _slabs(setup, problem, tol, max_columns)
    in_plane, ordinary = (slabs is not None and len(problem.axes) == m for m in (3, 1))
    try:
        # A constant that nothing fixes is free at every time: slabs handle this, one piece of space and time does not.
        alone = not (in_plane and setup.free) and not (ordinary and not setup.is_linear)
        if alone and search.ladder(marches=slabs is not None):
            return _concluded(search, problem, tol, slabs is not None)
        answer = search.answer
        if answer is not None and search.contradiction:
            note = "no function satisfies the equation and all conditions"
            return Pieces([answer], np.inf, Ending(Word.INCONSISTENT, note=note))
        # With all its initial data a problem is determined, however fast its solution grows.
        if answer is not None and search.pivot <= (0.0 if slabs is not None else PIVOT):
            return Pieces([answer], np.inf, Ending(Word.UNDETERMINED, note=MISSING))
        other = between()
        if other is not None:
            return other
        march = Marching(slabs, tol, total, record).run() if slabs is not None else None
        if march is not None:
            return march
        if answer is None and setup.is_linear:
            return Pieces([search.zero()], np.inf, Ending(Word.NOT_FINITE))
        if not in_plane:
            Refinement(search).run()
    except KeyboardInterrupt:
        if search.answer is None:
            raise
        search.ending = Ending(Word.INTERRUPTED)
    return _concluded(search, problem, tol, slabs is not None)


def _over_region(setup: Setup, tol: float, max_columns: int, total: float, record: Record) -> Pieces:
    """Slabs in time over a region of the plane."""
    nothing = Adaptation(replace(setup, shape=None, along=()), tol, max_columns, record).zero()
    slabs = PlaneSlabs(setup, tol, max_columns)
    if setup.is_short or not slabs.initial.serves():
        return Pieces([nothing], np.inf, Ending(Word.UNDETERMINED, note=MISSING))
    march = Marching(slabs, tol, total, record).run()
    if march is None:
        return Pieces([nothing], np.inf, Ending(Word.STALLED, "stalled: not even a short slab could be solved"))
    if not any(slab.coefficients.any() for slab in march.answers):
        return Pieces([nothing], 0.0, Ending(Word.TRIVIAL, note="give a source or data"))
    return march


def _slabs(setup: Setup, problem: PDE, tol: float, max_columns: int) -> AbstractSlabs | None:
    """The slabs that fit a problem: in time alone, over a line, or over a plane; None where none do."""
    if not can_march(setup, problem.axes):
        return None
    if len(problem.axes) == 1:
        return OrdinarySlabs(setup)
    if len(problem.axes) == 2:
        return LineSlabs(with_velocities(setup), len(setup.orders), tol, max_columns)
    slabs = PlaneSlabs(setup, tol, max_columns)
    return slabs if setup.jumps is None and slabs.initial.serves() else None


def _concluded(search: Adaptation, problem: PDE, tol: float, marches: bool) -> Pieces:
    """The best answer of a search."""
    answer, bar, setup = search.answer, search.bar, search.setup
    if answer is None:
        ending = search.ending if search.ending.word is Word.STALLED else Ending(Word.NOT_FINITE)
        return Pieces([search.zero()], np.inf, ending)
    if setup.surplus and not (bar <= tol and SHARED * answer.residual <= tol):
        # Least squares comes closer and closer to conditions that contradict each other, and to no solution.
        clause = "not resolved: there are more conditions than the equations take, and they may contradict each other"
        return Pieces([answer], np.inf, Ending(search.ending.word, clause))
    ending = Ending(Word.CONVERGED) if bar <= tol else search.ending
    notes = [ending.note] if ending.note else []
    if setup.free and bar <= tol:
        free, about = ", ".join(problem.unknowns[k] for k in setup.free), " to about three digits" * bool(setup.shape)
        notes.append(f"nothing fixes the constant in {free}, so its mean is zero{about}")
    # A problem with all its initial data has one solution; with readings, the parameters decide which.
    if not (setup.is_linear or marches or has_readings(problem)) and bar < np.inf:
        away = distance_to_another(search)
        if away is not None:
            notes.append(
                f"{SEVERAL}: this one was reached from zero, another differs from it by {away:.2g} of its size"
            )
    return Pieces([answer], bar, replace(ending, note="; ".join(notes)))


def as_model(answers: list[Answer], axes: tuple[str, ...], outputs: int, order: tuple[int, ...]) -> PiecewiseFLM:
    """All pieces of all slabs as one function of the first unknowns, the answers' axes in this order.

    Unknowns with fewer functions than others are padded.
    """
    shapes = answers[0].functions.shapes[:outputs]
    largest = tuple(max(shape[j] for shape in shapes) for j in range(len(axes)))
    blocks = []
    for answer in answers:
        block = np.zeros((answer.tree.num_leaves, *largest, len(shapes)))
        for k, (columns, shape) in enumerate(zip(answer.functions.columns, shapes, strict=False)):
            inside = (slice(None), *(slice(0, n) for n in shape), k)
            block[inside] = answer.coefficients[:, columns].reshape(-1, *shape)
        blocks.append(block)
    lower = np.concatenate([answer.tree.lower for answer in answers])
    upper = np.concatenate([answer.tree.upper for answer in answers])
    coefficients = np.concatenate(blocks).transpose(0, *(1 + j for j in order), len(axes) + 1)
    return PiecewiseFLM(lower[:, order], upper[:, order], coefficients, axes)
