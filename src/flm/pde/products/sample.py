"""Distances between sums of products, from points that are drawn where the products are large.

In many variables a product is nearly zero almost everywhere: of uniform points a few or none would decide. Points are
drawn from a mixture of the squares of the largest products, axis by axis, and a share of uniform ones; each is weighted by
one over the density of all.
"""

from __future__ import annotations

import numpy as np

from flm.models.products import Part, ProductFLM
from flm.series import legendre

POINTS = 240  # at one time
TIMES = 5
COMPONENTS = 24  # of the mixture
CELLS = 256  # along each axis
UNIFORM = 0.1
AXES = 3  # of a sum over the axes, whose factors are drawn from too


def distance(model: ProductFLM, other: ProductFLM, span: tuple[float, float] = (0.0, 0.0), seed: int = 0) -> float:
    """The relative L2 distance of two functions over box and time, worst output."""
    begin, end = span
    z, shares = legendre.gauss(TIMES) if end > begin else (np.zeros(1), np.ones(1))
    squares, sizes = np.zeros((2, model.num_outputs))
    for t, share in zip(begin + (end - begin) * (z + 1) / 2, shares, strict=True):
        points, weights = draw(model, float(t), POINTS, seed)
        first, second = (np.asarray(f(points)).reshape(len(points), -1) for f in (model, other))
        squares += share * (weights @ np.abs(first - second) ** 2)
        sizes += share * (weights @ np.abs(first) ** 2)
    return float(np.sqrt(np.max(squares / np.where(sizes > 0, sizes, 1.0))))


def draw(model: ProductFLM, t: float, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points (P, number of inputs) at one time, and weights that turn sums over them into means over the box."""
    rng, bounds = np.random.default_rng(seed), np.asarray(model.bounds)
    found = [item for part in model.parts for item in _components(part, t - model.start)]
    found = sorted(found, key=lambda item: -item[0])[:COMPONENTS]
    scores = np.array([score for score, _ in found])
    shares = np.exp(2 * (scores - scores.max(initial=0.0)))
    shares = (1 - UNIFORM) * shares / shares.sum() if len(found) else shares
    middles, longest = (np.arange(CELLS) + 0.5) * 2 / CELLS - 1, max((len(c) for _, f in found for c in f), default=1)
    table = legendre.values(middles, longest)
    densities = [_densities(table, factors) for _, factors in found]
    cells = rng.integers(0, CELLS, (count, len(bounds)))
    which = rng.choice(len(found) + 1, count, p=np.append(shares, 1 - shares.sum()))
    for i, density in enumerate(densities):
        rows = np.flatnonzero(which == i)
        for j, own in enumerate(density):
            cells[rows, j] = np.searchsorted(np.cumsum(own), rng.uniform(0, own.sum(), len(rows)))
    cells = np.minimum(cells, CELLS - 1)
    total = np.full(count, 1 - shares.sum())
    for share, density in zip(shares, densities, strict=True):
        total += share * np.prod(density[np.arange(len(bounds)), cells], axis=1)
    unit = (cells + rng.uniform(0, 1, cells.shape)) / CELLS
    points = bounds[:, 0] + np.ptp(bounds, axis=1) * unit
    return (points if model.time is None else np.insert(points, model.time, t, axis=1)), 1 / (total * count)


def _densities(table: np.ndarray, factors: list[np.ndarray]) -> np.ndarray:
    """The square of each factor in the cells of its axis, of mean one."""
    values = np.abs(np.stack([table[:, : len(c)] @ c for c in factors])) ** 2
    return values / values.mean(axis=1, keepdims=True)


def _components(part: Part, t: float) -> list[tuple[float, list[np.ndarray]]]:
    """The largest products of a part: the logarithm of their norm, and their factors in Legendre functions."""
    own = part.functions(t)
    with np.errstate(divide="ignore"):
        norms = [np.log(np.linalg.norm(factor, axis=2)) for factor in own]
        weights = np.log(np.abs(np.asarray(part.weights)))
    first, slopes = np.asarray(part.first), np.asarray(part.slopes)
    scores = weights + sum(norm[first[:, j]] for j, norm in enumerate(norms))  # (D, Q)
    out = []
    for place in np.argsort(-scores, axis=None)[:COMPONENTS]:
        d, q = np.unravel_index(place, scores.shape)
        factors = [own[j][first[d, j], q] for j in range(len(own))]
        choices = [(0.0, -1)]
        if len(slopes):
            gains = np.array([norm[slopes[d, j], q] - norm[first[d, j], q] for j, norm in enumerate(norms)])
            choices += [(float(gains[j]), int(j)) for j in np.argsort(-np.nan_to_num(gains, nan=-np.inf))[:AXES]]
        for gain, j in choices:
            changed = [own[i][slopes[d, i], q] if i == j else factor for i, factor in enumerate(factors)]
            if np.isfinite(scores[d, q] + gain):
                out.append((float(scores[d, q] + gain), changed))
    return out
