"""Products of Legendre functions over a set of degrees, and sets that follow the decay of coefficients.

A set is downward closed: the degrees of smallest size, sum_j b_j k_j (total degree, stretched) or sum_j b_j log(1 + k_j) (a
hyperbolic cross), b_j the rate at which coefficients decay along axis j. Along axes on which a problem is its own mirror
image, its solution has even degrees alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from flm.domains import AbstractDomain
from flm.models.products import SparseFLM, tensor_columns
from flm.pde.problem import PDE, Block
from flm.pde.waves.basis import AbstractBasis, Alpha
from flm.pde.waves.sampling import Batch
from flm.series.lattices import by_size

POINTS, SAME = 48, 1e-9  # where a problem is compared with its mirror image, and how
SLOWEST, FASTEST = 0.15, 12.0  # rates of decay per degree that are believed


class SparseBasis(AbstractBasis):
    """Products of orthonormal Legendre functions on the bounding box of a domain.

    Args:
        domain: whose bounds they live on.
        degrees: (C, m).
    """

    def __init__(self, domain: AbstractDomain, degrees: np.ndarray):
        self.domain, self.degrees = domain, np.asarray(degrees, int)

    @property
    def num_columns(self) -> int:
        """One per row of degrees."""
        return len(self.degrees)

    def columns(self, points: np.ndarray, alphas: Sequence[Alpha]) -> Iterator[np.ndarray]:
        """D^alpha of every product, (C, P) each."""
        return tensor_columns(points, np.asarray(self.domain.bounds, float), self.degrees, alphas)

    def model(self, coefficients: np.ndarray) -> SparseFLM:
        """The function with these coefficients."""
        return SparseFLM(self.domain.bounds, self.degrees, coefficients, self.domain.axes)


def total_degree(steps: np.ndarray, count: int) -> np.ndarray:
    """The first degrees in the order of their sum, (count, m); multiples of `steps`, 2 along axes of even functions."""
    return _first(np.ones(len(steps)), steps, count, hyperbolic=False)


def next_set(degrees: np.ndarray, coefficients: np.ndarray, steps: np.ndarray, count: int) -> np.ndarray:
    """So many degrees, of the shape and with the rates that the coefficients of the last set have, and its degrees."""
    sizes = np.abs(coefficients).max(axis=1)
    sizes = np.maximum(sizes / (sizes.max() or 1.0), 1e-17)
    rates = np.array([_rate(degrees[:, j], sizes, hyperbolic=False) for j in range(degrees.shape[1])])
    crossed = np.array([_rate(degrees[:, j], sizes, hyperbolic=True) for j in range(degrees.shape[1])])
    left = lambda order: float(np.sum(sizes[np.argsort(order, kind="stable")[len(sizes) // 2 :]] ** 2))
    straight, cross = degrees @ rates, np.log1p(degrees) @ crossed
    hyperbolic = left(cross) < 0.5 * left(straight)  # what the second half of the set would hold in each order
    wanted = _first(crossed if hyperbolic else rates, steps, count, hyperbolic)
    return np.unique(np.concatenate([degrees, wanted]), axis=0)


def _first(rates: np.ndarray, steps: np.ndarray, count: int, hyperbolic: bool) -> np.ndarray:
    m, along = len(rates), np.arange(1024) * steps[:, None]
    costs = (rates[:, None] * (np.log1p(along) if hyperbolic else along)).tolist()
    size = lambda k: sum(cost[i] for cost, i in zip(costs, k, strict=True))
    return np.array(list(itertools.islice(by_size(size, [((0,) * m, tuple(range(m)))]), count)), int) * steps


def _rate(degrees: np.ndarray, sizes: np.ndarray, hyperbolic: bool) -> float:
    """How fast the largest coefficients decay with the degree along one axis."""
    largest = np.array([sizes[degrees >= n].max() for n in range(int(degrees.max()) + 1)])
    n = len(largest) - 1
    if n == 0:
        return 1.0
    fall = -np.log(largest[n] / largest[0]) / (np.log1p(n) if hyperbolic else n)
    return float(np.clip(fall, SLOWEST, FASTEST))


# --- axes along which the problem is its own mirror image ------------------------------------------------------------


def even_axes(problem: PDE, batches: tuple[Batch, ...]) -> np.ndarray:
    """Which axes may be mirrored about the middle of the domain without changing the equation or any condition, (m,)."""
    if len(problem.unknowns) > 1 or problem.learned or any(b.kind == "data" for b in problem.blocks):
        return np.zeros(len(problem.axes), bool)
    return np.array([all(_is_even(problem, batch, j) for batch in batches) for j in range(len(problem.axes))])


def _is_even(problem: PDE, batch: Batch, j: int) -> bool:
    if batch.partner is not None:
        return True  # opposite faces are joined either way
    block, flip = batch.block, np.where(np.arange(len(problem.axes)) == j, -1.0, 1.0)
    points, normals = batch.points[:POINTS], batch.normals[:POINTS]
    middle = problem.domain.center * (flip < 0)
    there = (points - middle) * flip + middle
    other = _mirror(problem, block, j)
    if (
        other is None
        or other.residual.jets != block.residual.jets
        or not problem.domain.contains(there, tolerance=SAME).all()
    ):
        return False
    kept = [p.keep(there, normals * flip) for p in (other.piece.patches if other.piece else ()) if p.keep is not None]
    if kept and not np.any(kept, axis=0).all():
        return False
    jets = np.random.default_rng(0).normal(size=(len(block.residual.jets), len(points)))
    turned = jets * np.array([[flip[j] ** alpha[j]] for _, alpha in block.residual.jets]).reshape(-1, 1)
    start = problem.parameter_start
    value = np.asarray(block.residual(points, jets, start, normals))
    found = np.asarray(other.residual(there, turned, start, normals * flip))
    return bool(np.abs(value - found).max() <= SAME * max(np.abs(value).max(), 1e-300))


def _mirror(problem: PDE, block: Block, j: int) -> Block | None:
    """The condition that holds where this one is mirrored to: itself, or that on the opposite face."""
    if block.piece is None:
        return block
    axis, fixed = problem.axes[j], dict(block.piece.fixed)
    if axis not in fixed:
        return block
    fixed[axis] = float(2 * problem.domain.center[j] - fixed[axis])
    width = problem.domain.width[j]
    near = lambda other: other.keys() == fixed.keys() and all(abs(other[a] - fixed[a]) <= SAME * width for a in fixed)
    return next((b for b in problem.conditions if b.piece is not None and near(b.piece.fixed)), None)
