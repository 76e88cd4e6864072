"""Time windows: where one series cannot hold the solution, a sequence of them, each started from the last.

The window length adapts: halved when a window does not converge within its share of columns, lengthened when it does with
few. The bar adds the windows' bars up and doubles the sum: what one window gets wrong, the next ones carry on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flm.domains import Box
from flm.language.arguments import Jet, Named
from flm.pde.conditions import Condition
from flm.pde.problem import PDE
from flm.pde.waves.growth import GROWTH, Growth, Search
from flm.results import Ending, Listener, Piece, Record, Word

WINDOW_COLUMNS = 1000
MAX_WINDOWS = 32
SAFETY = 2.0


def can_window(problem: PDE) -> bool:
    """Whether the problem marches in time: a box with an axis t, conditions at its start and none at its end."""
    if not isinstance(problem.domain, Box) or "t" not in problem.axes or len(problem.axes) < 2 or problem.learned:
        return False
    end = float(problem.domain.bounds[problem.axes.index("t"), 1])
    kinds = {b.kind for b in problem.conditions}
    ends = [b for b in problem.conditions if b.piece is not None and b.piece.fixed.get("t") == end]
    return "initial" in kinds and not ends and "data" not in kinds


def solve_in_windows(problem: PDE, tol: float, *, max_columns: int, seed: int, progress: Listener) -> Search:
    """March through time with windows that converge, until the end or until they become too many."""
    axis = problem.axes.index("t")
    first, last = problem.domain.bounds[axis]
    search = Search(window_axis=axis, record=Record(progress))
    columns = min(max_columns, WINDOW_COLUMNS)
    length, t, total = (last - first) / 2, float(first), 0.0
    pieces: list[Piece] = []
    before: Any = None
    near: tuple[Any, Any] = (None, None)  # a window resembles the last: begin a little below its size, at its periods
    while t < last - 1e-12 * (last - first):
        length = min(length, last - t)
        if last - (t + length) < 0.25 * length:
            length = last - t
        share = tol * length / (last - first) / SAFETY
        window = _window(problem, t, t + length, before)
        growth = Growth(window, tol=share, max_columns=columns, seed=seed, progress=progress)
        found = growth.run(*near)
        converged = found.bar <= share
        shortest = length <= (last - first) / MAX_WINDOWS
        if not converged and not shortest:
            length /= 2
            continue
        assert found.best is not None
        before = found.best.basis.model(found.best.coefficients)
        pieces.append(Piece(before, float(t), float(t + length)))
        total += found.bar
        columns_used, estimate = found.best.basis.num_columns * len(problem.unknowns), found.best.estimate
        search.record.step(
            "window", columns=columns_used, estimate=estimate, error_estimate=found.bar, until=t + length
        )
        t += length
        near = ([max(4.0, np.floor(size / GROWTH)) for size in growth.sizes or []], growth.periods)
        if not converged:
            search.best, search.bar = found.best, np.inf
            search.ending = Ending(Word.STALLED, f"stalled at t = {t:.3g}: windows of {length:.2g} are still too long")
            return search
        if found.best.basis.num_columns < columns / 3:
            length *= 1.5
        search.best = found.best
    search.windows, search.bar = tuple(pieces), SAFETY * total
    search.ending = Ending(Word.SIZE, f"{len(pieces)} time windows")
    return search


def _window(problem: PDE, lower: float, upper: float, before: Any) -> PDE:
    """The problem on one stretch of time, started from the end of the window before."""
    bounds = {a: tuple(b) for a, b in zip(problem.axes, problem.domain.bounds, strict=True)}
    domain = Box(**(bounds | {"t": (lower, upper)}))
    if before is None:
        conditions = list(problem.source["conditions"])
    else:
        conditions = [c for c, blocks in problem.condition_blocks if all(b.kind != "initial" for b in blocks)]
        starts: dict[Jet, None] = {}
        for block in problem.conditions:
            if block.kind == "initial":
                starts |= dict.fromkeys(block.residual.jets)
        conditions += [_continue(problem, jet, before) for jet in starts]
    return PDE(domain, problem.source["equation"], conditions, unknowns=problem.unknowns, parameters=problem.parameters)


def _continue(problem: PDE, jet: Jet, before: Any) -> Condition:
    """The condition that a value or derivative at the window's start is what the window before says."""
    unknown, alpha = jet
    name = problem.unknowns[unknown]
    suffix = "".join(axis * order for axis, order in zip(problem.axes, alpha, strict=True))

    def residual(value: Any, *coordinates: Any) -> Any:
        import jax.numpy as jnp

        there = before.jets(jnp.stack(coordinates, axis=1), (alpha,))[0]
        return value - (there[:, unknown] if there.ndim == 2 else there)

    return Condition("t=min", Named(residual, (f"{name}_{suffix}" if suffix else name, *problem.axes)))
