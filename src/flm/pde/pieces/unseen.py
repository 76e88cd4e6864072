"""Looks between the nodes, for sources and data so narrow that no row saw them.

An answer whose coefficients fall fast may still have missed a peak that lies between all nodes. Where it did, an equation or a
condition is not met at all: its residual is as large as its largest term, and a source or a coefficient is larger there than
it mostly is. Residuals of answers that are merely not exact are small beside the terms, except where all terms are small, and
next to corners, where derivatives of the answer are unbounded although nothing was missed.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from flm.pde.pieces.fields import AnyResidual
from flm.pde.pieces.newton import Answer, scale
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.tree import Cut, Tree

LOOKS = {1: 20_000, 2: 4_000, 3: 4_000}  # points by number of axes
MISSED = 0.5  # of an equation's terms at a point; and of the residual, sources and coefficients there
NARROW = 2.0  # medians of a source or a coefficient
LEAST, ROUGH = 0.01, 1e3  # of the terms' mean size: residuals that count, and the same in units of the tolerance
PARTS = {1: 64, 2: 16, 3: 8}  # of the domain's widths: pieces around a peak are cut to these at once, then by halves


def looks(setup: Setup) -> np.ndarray:
    """Fixed random points of the whole domain, (P, m)."""
    count, low, high = LOOKS[len(setup.bounds)], setup.bounds[:, 0], setup.bounds[:, 1]
    return low + np.random.default_rng(7).uniform(size=(count, len(low))) * (high - low)


def overlooked(setup: Setup, answer: Answer, tol: float) -> np.ndarray:
    """The points at which an answer misses a source or data that matter at this tolerance, (Q, m)."""
    low, high = answer.tree.bounds.T
    points = looks(setup)
    points = points[np.all((points >= low) & (points <= high), axis=1)]
    if setup.shape is not None:
        points = points[setup.shape.inside(points[:, : len(setup.shape.bounds)])]
    look = partial(_missed, setup, answer, tol)
    found = [look(residual, points, np.zeros_like(points)) for residual in setup.equations]
    for place in setup.places:
        axes, values = list(place.pinned), np.array(list(place.pinned.values()))
        if np.all((values >= low[axes]) & (values <= high[axes])) and len(axes) < len(low):
            there, normals = points.copy(), np.broadcast_to(place.normal, points.shape)
            there[:, axes] = values
            kept = slice(None) if place.keep is None else place.keep(there, normals)
            found.append(look(place.residual, there[kept], normals[kept]))
    return np.concatenate(found)


def _missed(
    setup: Setup, answer: Answer, tol: float, residual: AnyResidual, points: np.ndarray, normals: np.ndarray
) -> np.ndarray:
    """The points at which a residual is as large as its terms there, and matters."""
    if not len(points):
        return points
    leaf, jets = answer.tree.locate(points), np.zeros((len(residual.jets), len(points)))
    for row, (k, alpha) in zip(jets, residual.jets, strict=True):
        row[:] = answer.derivative(k, alpha, points, leaf)
    line = residual.linearize(points, jets, setup.parameters, normals)
    parts, left = line.by_jet * jets, np.abs(line.value)
    rest = np.abs(line.value - parts.sum(axis=0))
    terms = np.abs(parts).sum(axis=0) + rest
    # No term counts for less than its unknown's size over the widths of the domain: conditions may be homogeneous.
    sizes, widths = scale(answer.sizes), np.ptp(setup.bounds, axis=1)
    least = [sizes[k] / np.prod(widths ** np.array(alpha, float)) for k, alpha in residual.jets]
    unit = max(np.mean(terms), np.mean(np.abs(line.by_jet), axis=1) @ least)
    # What the problem puts at a point: the source, and the coefficients of derivatives of their usual size.
    usual = np.maximum(np.sqrt(np.mean(jets**2, axis=1)), least)
    given = np.vstack([np.abs(line.by_jet) * usual[:, None], rest])
    narrow = (given > MISSED * left) & (given > NARROW * np.median(given, axis=1, keepdims=True))
    large = (left > MISSED * terms) & (left > np.clip(ROUGH * tol, LEAST, 1.0) * unit)
    missed = large & narrow.any(axis=0)
    return points[missed] if left[missed].sum() > tol * unit * len(points) else points[:0]


def cut_around(tree: Tree, points: np.ndarray, bounds: np.ndarray) -> tuple[Tree, np.ndarray]:
    """A tree whose pieces at these points are cut, until they can see what is there, and the old leaf of each new one."""
    m, parents = len(bounds), np.arange(tree.num_leaves)
    reach = np.ptp(bounds, axis=1) / PARTS[m]
    wide = np.unique(tree.locate(points)) if len(points) else parents[:0]
    while len(wide):
        tree, before = tree.split({int(leaf): [Cut(j) for j in range(m)] for leaf in wide})
        parents = parents[before]
        wide = np.unique(tree.locate(points))
        wide = wide[np.any(tree.widths[wide] > reach, axis=1)]
    return tree, parents
