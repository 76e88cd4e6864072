"""Ordinary equations with their full initial data: they have one solution, and their answers can be checked step by step.

With z the derivatives below the highest order of each unknown and h those of that order, an answer with residuals F inside and
G at the start is wrong by e, to first order, where M h(e) + N z(e) = -F and C z(e) = -G at the start. If M and C are regular,
e follows by the midpoint rule. A residual alone hides how it grows: u_t = 5 u on [0, 5] multiplies an error at the start by 7e10.
"""

from __future__ import annotations

import numpy as np

from flm.language.arguments import Jet
from flm.pde.problem import PDE, Block
from flm.pde.waves.fit import Fit, Fitter
from flm.pde.waves.sampling import Batch

REGULAR = 1e-8  # smallest singular value of M and C, relative to the largest, of equations that can be solved for h
STEPS, STEPS_PER_COLUMN = 2000, 16
ROUNDING = 1e-14  # of a residual, relative to its terms: less than this is not known of it


def initial_value_error(fitter: Fitter, fit: Fit) -> float | None:
    """The relative L2 error of an answer, worst unknown; None where the problem is not given by its initial data.

    Args:
        fitter: of the problem.
        fit: the answer.
    """
    problem = fitter.problem
    start = _start(problem)
    if start is None:
        return None
    low, high = problem.domain.bounds[0]
    orders = [max(a[0] for j, a in _jets(problem.equations) if j == k) for k in range(fitter.num_unknowns)]
    state = [(k, (i,)) for k, order in enumerate(orders) for i in range(order)]
    top = [(k, (order,)) for k, order in enumerate(orders)]
    given = [b for b in start if all(jet in state for jet in b.residual.jets)]
    if len(given) != len(state) or len(problem.equations) != len(orders):
        return None
    steps = max(STEPS, STEPS_PER_COLUMN * fit.basis.num_columns)
    step = (high - low) / steps
    points = np.append(low + step * (np.arange(steps) + 0.5), low)[:, None]  # the middles of the steps, then the start
    rows = [_row(fitter, fit, block, points, top + state) for block in problem.equations]
    matrix, F = np.stack([r for r, _ in rows], axis=1), np.stack([f for _, f in rows], axis=1)
    M, N = matrix[:, :, : len(top)], matrix[:, :, len(top) :]
    sizes = np.linalg.svd(M, compute_uv=False)
    if not np.isfinite(matrix).all() or sizes.min() <= REGULAR * sizes.max():
        return None
    rows = [_row(fitter, fit, block, points[-1:], state) for block in given]
    C, G = np.array([r[0] for r, _ in rows]).reshape(-1, len(state)), np.array([f[0] for _, f in rows])
    if len(state) and np.linalg.matrix_rank(C, REGULAR * np.abs(C).max()) < len(state):
        return None
    by_state, shift = -np.linalg.solve(M, N)[:-1], -np.linalg.solve(M, F[..., None])[:-1, :, 0]
    # z' = A z + b: a derivative of z is the next one, or one of h
    A, b = np.zeros((steps, len(state), len(state))), np.zeros((steps, len(state)))
    for row, (k, (i,)) in enumerate(state):
        if i + 1 < orders[k]:
            A[:, row, row + 1] = 1.0
        else:
            A[:, row], b[:, row] = by_state[:, k], shift[:, k]
    half = 0.5 * step * A
    implicit = np.linalg.inv(np.eye(len(state)) - half)
    z, middle = -np.linalg.solve(C, G) if len(state) else np.zeros(0), np.empty((steps, len(state)))
    for n in range(steps):
        after = implicit[n] @ (z + half[n] @ z + step * b[n])
        z, middle[n] = after, 0.5 * (z + after)
    highest = np.einsum("nij,nj->ni", by_state, middle) + shift
    error = [middle[:, state.index((k, (0,)))] if orders[k] else highest[:, k] for k in range(len(orders))]
    found = fit.basis.evaluate(fit.basis.tables(points[:-1]), fit.coefficients, ((0,),))[0]
    wrong, rms = np.stack(error, axis=1), lambda values: np.sqrt(np.mean(values**2, axis=0))
    worst = float(np.max(rms(wrong) / np.maximum(rms(found + wrong), np.finfo(float).tiny)))
    return worst if np.isfinite(worst) else np.inf


def _start(problem: PDE) -> list[Block] | None:
    """The conditions at the least value of the only axis; None where there are several axes."""
    if len(problem.axes) != 1:
        return None
    first = {problem.axes[0]: float(problem.domain.bounds[0, 0])}
    return [b for b in problem.conditions if b.kind != "periodic" and b.piece is not None and b.piece.fixed == first]


def _jets(blocks: tuple[Block, ...]) -> list[Jet]:
    return [jet for block in blocks for jet in block.residual.jets]


def _row(fitter: Fitter, fit: Fit, block: Block, points: np.ndarray, jets: list[Jet]) -> tuple[np.ndarray, np.ndarray]:
    """A residual's derivatives by some jets along an answer, (P, len(jets)), and the residual itself less rounding, (P,)."""
    outward = np.full_like(points, -1.0)  # the normal at the start
    batch = Batch(block, points, outward, None, 1.0)
    found = fitter.jets(fit.basis, fit.coefficients, batch)
    line = block.residual.linearize(points, found, fit.parameters, outward)
    by_jet = dict(zip(block.residual.jets, line.by_jet, strict=True))
    terms = line.by_jet * found
    rounding = ROUNDING * (np.abs(terms).sum(axis=0) + np.abs(line.value - terms.sum(axis=0)))
    value = np.sign(line.value) * np.maximum(np.abs(line.value) - rounding, 0.0)
    return np.stack([by_jet.get(jet, np.zeros(len(points))) for jet in jets], axis=1), value
