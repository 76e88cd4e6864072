"""Looks between the nodes, for sources and data so narrow that no row saw them.

An answer whose coefficients fall fast may still have missed a peak that lies between all nodes. Where it did, an equation or a
condition is not met at all: its residual is as large as its largest term, and a source or a coefficient is larger there than
it mostly is. Residuals of answers that are merely not exact are small beside the terms, except where all terms are small, and
next to corners, where derivatives of the answer are unbounded although nothing was missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial

import numpy as np

from flm.pde.pieces.fields import AnyResidual, plain
from flm.pde.pieces.newton import Answer, scale
from flm.pde.pieces.places import Place
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.tree import Cut, Tree

LOOKS = {1: 20_000, 2: 4_000, 3: 4_000}  # points by number of axes
MISSED = 0.5  # of an equation's terms at a point; and of the residual, sources and coefficients there
PEAK = 2.0  # medians of a source or a coefficient
LEAST, ROUGH = 0.01, 1e3  # of the terms' mean size: residuals that count, and the same in units of the tolerance
CELLS, DENSE = {1: 1024, 2: 16, 3: 8}, 400_000  # along each axis; points at which sources alone are looked at
NARROW, FAINT = 0.05, 1e-3  # of a cell's largest source: the mean of a narrow one, and what is looked at of it
SMALL, CLOSE = 16.0, 4.0  # widths of a hole: pieces up to there resolve what it does; what they are cut to otherwise
PARTS = {1: 64, 2: 16, 3: 8}  # of the domain's widths: pieces around a peak are cut to these at once, then by halves


def looks(setup: Setup) -> np.ndarray:
    """Fixed random points of the whole domain, (P, m)."""
    count, low, high = LOOKS[len(setup.bounds)], setup.bounds[:, 0], setup.bounds[:, 1]
    return low + np.random.default_rng(7).uniform(size=(count, len(low))) * (high - low)


@lru_cache(maxsize=32)
def spots(setup: Setup, place: Place) -> tuple[np.ndarray, np.ndarray]:
    """Where a source or data alone are largest, or all over them where they are narrow, in each cell, (Q, m), and shares, (Q,).

    The sum of shares times sizes is the mean over the domain of the source, or over its faces of the data, zero elsewhere on them.
    """
    low, width, m = setup.bounds[:, 0], np.ptp(setup.bounds, axis=1), len(setup.bounds)
    free, count = [j for j in range(m) if j not in place.pinned], DENSE // (20 if place.pinned else 1)
    if not free or not any(reference.kind == "axis" for reference in plain(place.residual).references):
        return np.zeros((0, m)), np.zeros(0)
    unit = np.random.default_rng(8).uniform(size=(count, m))
    points, normals = low + unit * width, np.broadcast_to(place.normal, unit.shape)
    points[:, list(place.pinned)] = list(place.pinned.values())
    line = place.residual.linearize(points, np.zeros((len(place.residual.jets), count)), setup.parameters, normals)
    size = np.abs(np.nan_to_num(line.value, posinf=0.0))
    if setup.shape is not None:
        size *= setup.shape.inside(points[:, : len(setup.shape.bounds)])
    if place.keep is not None:
        size *= place.keep(points, normals)
    cells = (CELLS[len(free)],) * len(free)
    cell, number = np.ravel_multi_index(tuple((unit.T[free] * cells[0]).astype(int)), cells), int(np.prod(cells))
    total, most = np.bincount(cell, size, number), np.zeros(number)
    np.maximum.at(most, cell, size)
    narrow = total < NARROW * most * count / number
    kept = (size > 0) & (size >= np.where(narrow, FAINT, 1.0)[cell] * most[cell])
    share = np.where(narrow[cell], 1 / count, total[cell] / np.where(kept, size, 1.0) / count)
    return points[kept], share[kept]


def missed_sources(setup: Setup, answer: Answer, tol: float, places: Iterable[Place]) -> np.ndarray:
    """The points among the `spots` of equations and conditions at which an answer misses a source or data, (Q, m)."""
    low, high = answer.tree.bounds.T
    found = [np.zeros((0, len(low)))]
    for place in places:
        points, shares = spots(setup, place)
        here = np.all((points >= low) & (points <= high), axis=1)
        if here.any():
            normals = np.broadcast_to(place.normal, points[here].shape)
            found.append(_missed(setup, answer, tol, place.residual, points[here], normals, shares[here]))
    return np.concatenate(found)


def overlooked(setup: Setup, answer: Answer, tol: float) -> np.ndarray:
    """The points at which an answer misses a source or data that matter at this tolerance, (Q, m)."""
    low, high = answer.tree.bounds.T
    points = looks(setup)
    points = points[np.all((points >= low) & (points <= high), axis=1)]
    if setup.shape is not None:
        points = points[setup.shape.inside(points[:, : len(setup.shape.bounds)])]
    look = partial(_missed, setup, answer, tol)
    found = [look(residual, points, np.zeros_like(points)) for residual in setup.equations]
    found.append(missed_sources(setup, answer, tol, setup.everywhere))
    for place in setup.places:
        axes, values = list(place.pinned), np.array(list(place.pinned.values()))
        if np.all((values >= low[axes]) & (values <= high[axes])) and len(axes) < len(low):
            there, normals = points.copy(), np.broadcast_to(place.normal, points.shape)
            there[:, axes] = values
            kept = slice(None) if place.keep is None else place.keep(there, normals)
            found.append(look(place.residual, there[kept], normals[kept]))
    return np.concatenate(found)


def _missed(
    setup: Setup,
    answer: Answer,
    tol: float,
    residual: AnyResidual,
    points: np.ndarray,
    normals: np.ndarray,
    shares: np.ndarray | None = None,
) -> np.ndarray:
    """The points at which a residual is as large as its terms there, and matters; with `shares` of `spots`, where a source does."""
    if not len(points):
        return points
    leaf, jets = answer.tree.locate(points), np.zeros((len(residual.jets), len(points)))
    for row, (k, alpha) in zip(jets, residual.jets, strict=True):
        row[:] = answer.derivative(k, alpha, points, leaf)
    line = residual.linearize(points, jets, setup.parameters, normals)
    parts, left = line.by_jet * jets, np.abs(line.value)
    rest = np.abs(line.value - parts.sum(axis=0))
    # No derivative counts for less than its unknown's size over the widths of the domain: conditions may be homogeneous.
    sizes, widths = scale(answer.sizes) * answer.sizes.any(), np.ptp(setup.bounds, axis=1)
    least = [sizes[k] / np.prod(widths ** np.array(alpha, float)) for k, alpha in residual.jets]
    usual = np.maximum(np.sqrt(np.mean(jets**2, axis=1)), least)
    weights = np.full(len(points), 1 / len(points)) if shares is None else shares
    unit = np.mean(np.abs(line.by_jet), axis=1) @ usual + weights @ rest
    missed = (left > MISSED * (np.abs(parts).sum(axis=0) + rest)) & (left > np.clip(ROUGH * tol, LEAST, 1.0) * unit)
    # What the problem puts at a point: the source, and the coefficients of derivatives of their usual size.
    if shares is None:
        given = np.vstack([np.abs(line.by_jet) * usual[:, None], rest])
        missed &= ((given > MISSED * left) & (given > PEAK * np.median(given, axis=1, keepdims=True))).any(axis=0)
    else:
        missed &= rest > MISSED * left
    return points[missed] if (weights * left)[missed].sum() > tol * unit else points[:0]


def holes(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Points of holes and sides that are narrow beside their pieces, (Q, m), and how wide pieces there may be, (Q, 1).

    A polynomial meets the condition on a small hole and leaves a residual everywhere, which is small in rows of large derivatives.
    """
    if tree.shape is None:
        return np.zeros((0, tree.num_axes)), np.zeros((0, 1))
    points, widths = tree.shape.sides
    leaf = tree.locate(points)
    narrow = tree.is_cut[leaf] & np.any(tree.widths[leaf] > SMALL * widths, axis=1)
    return points[narrow], CLOSE * widths[narrow]


def cut_around(tree: Tree, points: np.ndarray, reach: np.ndarray | None = None) -> tuple[Tree, np.ndarray]:
    """A tree whose pieces at these points are cut, until none is wider than `reach`, and the old leaf of each new one."""
    reach = np.ptp(tree.bounds, axis=1) / PARTS[tree.num_axes] if reach is None else reach
    parents, leaf = np.arange(tree.num_leaves), tree.locate(points)
    wide = np.unique(leaf)
    while len(wide):
        tree, before = tree.split({int(leaf): [Cut(j) for j in range(tree.num_axes)] for leaf in wide})
        parents, leaf = parents[before], tree.locate(points)
        wide = np.unique(leaf[np.any(tree.widths[leaf] > reach, axis=1)])
    return tree, parents
