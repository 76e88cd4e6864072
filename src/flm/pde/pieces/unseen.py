"""Looks between the nodes, for sources and data so narrow that no row saw them.

An answer whose coefficients fall fast may still have missed a peak that lies between all nodes. Where it did, an equation or a
condition is not met at all: its residual is as large as its largest term, and a source or a coefficient is larger there than
it mostly is. Residuals of answers that are merely not exact are small beside the terms, except where all terms are small, and
next to corners, where derivatives of the answer are unbounded although nothing was missed.
"""

from __future__ import annotations

import numpy as np

from flm.language.arguments import Jet
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
    look = _Look(setup, answer, points, tol)
    found = [look.missed(residual, points, np.zeros_like(points)) for residual in setup.equations]
    for place in setup.places:
        axes, values = list(place.pinned), np.array(list(place.pinned.values()))
        if np.all((values >= low[axes]) & (values <= high[axes])) and len(axes) < len(low):
            there, normals = points.copy(), np.broadcast_to(place.normal, points.shape)
            there[:, axes] = values
            kept = slice(None) if place.keep is None else place.keep(there, normals)
            found.append(look.missed(place.residual, there[kept], normals[kept]))
    return np.concatenate(found)


class _Look:
    """An answer between its nodes."""

    def __init__(self, setup: Setup, answer: Answer, inside: np.ndarray, tol: float):
        self.setup, self.answer, self.tol = setup, answer, tol
        self.inside, self.leaf = inside, answer.tree.locate(inside) if len(inside) else None
        self.sizes: dict[Jet, float] = {}  # the root mean square of derivatives over the domain

    def size(self, jet: Jet) -> float:
        """The root mean square of a derivative at points inside, and no less than that of its unknown over the widths."""
        if jet not in self.sizes:
            own = float(np.sqrt(np.mean(self.answer.derivative(*jet, self.inside, self.leaf) ** 2)))
            widths = np.ptp(self.setup.bounds, axis=1) ** np.array(jet[1], float)
            self.sizes[jet] = max(own, float(scale(self.answer.sizes)[jet[0]] / np.prod(widths)))
        return self.sizes[jet]

    def missed(self, residual: AnyResidual, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """The points at which a residual is as large as its terms there, and matters."""
        if not len(points):
            return points
        leaf = self.answer.tree.locate(points)
        jets = np.zeros((len(residual.jets), len(points)))
        for row, (k, alpha) in zip(jets, residual.jets, strict=True):
            row[:] = self.answer.derivative(k, alpha, points, leaf)
        line = residual.linearize(points, jets, self.setup.parameters, normals)
        parts = line.by_jet * jets
        left, rest = np.abs(line.value), np.abs(line.value - parts.sum(axis=0))
        sizes = np.array([self.size((k, tuple(alpha))) for k, alpha in residual.jets])
        unit = np.mean(np.abs(line.by_jet), axis=1) @ sizes + np.mean(rest)
        given = np.vstack(
            [np.abs(line.by_jet) * sizes[:, None], rest]
        )  # what the problem puts there, whatever the answer
        narrow = (given > MISSED * left) & (given > NARROW * np.median(given, axis=1, keepdims=True))
        alone = left > MISSED * (np.abs(parts).sum(axis=0) + rest)
        missed = alone & narrow.any(axis=0) & (left > np.clip(ROUGH * self.tol, LEAST, 1.0) * unit)
        return points[missed] if left[missed].sum() > self.tol * unit * len(points) else points[:0]


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
