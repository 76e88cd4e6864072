"""Looks for sources and data so narrow that neither a fit nor its held-out points saw them.

In many variables no number of points hits a narrow peak, but its slopes reach far beyond it: where an answer is good, the
residual a few widths away from the peak is larger than elsewhere. From the largest of many residuals clouds of points climb,
smaller and smaller. Clouds also measure what lies there, as a share of the whole domain.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flm.pde.waves.fit import Fit, Fitter

LOOKS, WORK, FEWEST = 100_000, 20_000_000, 5_000  # points for each block; at most so many times columns
STARTS, CLOUD = 12, 64  # climbs, and points of each step
REACH, SHRINK, STEPS = 0.25, 0.8, 40  # half the width of the first clouds, of the domain's; 3e-5 in the last ones


def missed_peak(fitter: Fitter, fit: Fit, tol: float) -> np.ndarray | None:
    """A point (m,) around which an answer misses a source or data that matter at this tolerance; None where none is found."""
    rng, domain = np.random.default_rng(9), fitter.problem.domain
    for batch in (batch for batch in fitter.held if batch.partner is None):
        pinned = [] if batch.block.piece is None else [fitter.problem.axes.index(a) for a in batch.block.piece.fixed]

        def look(points: np.ndarray, normals: np.ndarray, batch=batch) -> tuple[np.ndarray, float]:
            here = replace(batch, points=points, normals=normals)
            jets = fitter.jets(fit.basis, fit.coefficients, here)
            line = here.linearize(jets, fit.parameters)
            terms = line.by_jet * jets
            size = np.abs(terms).sum(axis=0) + np.abs(line.value - terms.sum(axis=0))
            return np.abs(line.value), max(float(np.mean(size)), fitter.floor(here, line, {}, fit.inside))

        count = int(np.clip(WORK // fit.basis.num_columns, FEWEST, LOOKS))
        points, normals = batch.block.sample(count, seed=fitter.seed + 1, warp=False)
        left, unit = look(points, normals)
        first = np.argsort(left)[-STARTS:]
        points, normals, height = points[first], np.repeat(normals[first], CLOUD, axis=0), left[first]
        free = normals == 0  # along flat faces; on others a cloud is a point
        free[:, pinned] = False
        for reach in REACH * SHRINK ** np.arange(STEPS):
            step = reach * domain.width * rng.uniform(-1, 1, free.shape) * free
            cloud = np.clip(np.repeat(points, CLOUD, axis=0) + step, *np.asarray(domain.bounds).T)
            values = np.where(domain.contains(cloud), look(cloud, normals)[0], 0.0).reshape(-1, CLOUD)
            share = values.mean(axis=1) * (2 * reach) ** free.sum(axis=1)[::CLOUD]
            if (share > tol * unit).any():
                return points[np.argmax(share)]
            best = cloud.reshape(len(points), CLOUD, -1)[np.arange(len(points)), values.argmax(axis=1)]
            points = np.where((values.max(axis=1) > height)[:, None], best, points)
            height = np.maximum(height, values.max(axis=1))
    return None
