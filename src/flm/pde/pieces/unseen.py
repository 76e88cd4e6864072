"""Looks between the nodes, for sources and data so narrow that no row saw them.

An answer whose coefficients fall fast may still have missed a peak that lies between all nodes. Where it did, an equation or a
condition is not met at all: its residual is as large as its largest term. Residuals of answers that are merely not exact are
small beside the terms, except where all terms are small.
"""

from __future__ import annotations

import numpy as np

from flm.pde.pieces.fields import AnyResidual
from flm.pde.pieces.newton import Answer
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.tree import Cut, Tree

LOOKS = {1: 20_000, 2: 4_000, 3: 4_000}  # points by number of axes
MISSED = 0.5  # of an equation's terms at a point
LEAST, ROUGH = 0.01, 1e3  # of the terms' mean: residuals that count, and the same in units of the tolerance
NEAR = 4.0  # distances between looks: pieces around a peak are cut to this width at once


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
    inside = np.zeros_like(points)
    found = [_missed(setup, answer, residual, points, inside, tol) for residual in setup.equations]
    for place in setup.places:
        axes, values = list(place.pinned), np.array(list(place.pinned.values()))
        if np.all((values >= low[axes]) & (values <= high[axes])) and len(axes) < len(low):
            there, normals = points.copy(), np.broadcast_to(place.normal, points.shape)
            there[:, axes] = values
            kept = slice(None) if place.keep is None else place.keep(there, normals)
            found.append(_missed(setup, answer, place.residual, there[kept], normals[kept], tol))
    return np.concatenate(found)


def _missed(
    setup: Setup, answer: Answer, residual: AnyResidual, points: np.ndarray, normals: np.ndarray, tol: float
) -> np.ndarray:
    if not len(points):
        return points
    leaf = answer.tree.locate(points)
    jets = np.stack(
        [np.zeros(len(points)), *(answer.derivative(k, alpha, points, leaf) for k, alpha in residual.jets)]
    )[1:]
    line = residual.linearize(points, jets, setup.parameters, normals)
    parts = line.by_jet * jets
    left, terms = np.abs(line.value), np.abs(parts).sum(axis=0) + np.abs(line.value - parts.sum(axis=0))
    mean = terms.mean()
    missed = (left > MISSED * terms) & (left > np.clip(ROUGH * tol, LEAST, 1.0) * mean)
    return points[missed if left[missed].sum() > tol * terms.sum() else np.zeros_like(missed)]


def cut_around(tree: Tree, points: np.ndarray, bounds: np.ndarray) -> tuple[Tree, np.ndarray]:
    """A tree whose pieces at these points are cut, until they can see what is there, and the old leaf of each new one."""
    m, parents = len(bounds), np.arange(tree.num_leaves)
    reach = NEAR * np.ptp(bounds, axis=1) / LOOKS[m] ** (1 / m)
    wide = np.unique(tree.locate(points)) if len(points) else parents[:0]
    while len(wide):
        tree, before = tree.split({int(leaf): [Cut(j) for j in range(m)] for leaf in wide})
        parents = parents[before]
        wide = np.unique(tree.locate(points))
        wide = wide[np.any(tree.widths[wide] > reach, axis=1)]
    return tree, parents
