"""What hidden values say of models that filled them: how to weigh the models, and how large the errors of the blend are.

Hidden values give the mean products of the models' errors, by channel and kind of hole, in units of the errors that the models
expect. A hole is filled with the weights, nonnegative and of sum one, of the smallest squared error by these products and by what
the models expect of themselves there; in gaps, lags and lines take what lines err by between observed values. The errors that
then remain calibrate the error bars, by kind; the weights for them come from other stretches of rows.
"""

from __future__ import annotations

from itertools import chain, combinations, product
from typing import NamedTuple

import numpy as np

from flm.estimators.imputer.coupled import Filled
from flm.estimators.imputer.holes import (
    NUM_DEPTHS,
    NUM_KINDS,
    Calibration,
    gaps_by_kind,
    is_like,
    num_gaps,
    stretches,
)

NAMES = ("coupled", "dense", "refined", "lags", "lines")
_FEW = 30  # hidden values: with fewer, the first model fills alone
# Hidden values with errors of more than so many medians count alike, however far off the models are: so many rows, of all trials
# together, and the fewest and the most medians.
_ROWS, _EVEN = 2_000, (0.1, 3.0)
_BELIEF = 200.0  # values' worth of belief in the errors of a hole's kind times the skills in its channel
# In gaps of all channels, models are expected to err by 1 + 8 / (1 + gaps hidden) times what the hidden ones say, squared.
_CAUTION = 8.0
_ELSEWHERE = 300.0  # values' worth of belief that a model fills blocks that it did not learn from as well as others
_MOST_HOLES = 50_000  # to weigh at a time
_PARTS = 5  # of the stretches, each calibrated with the weights of the others
_DEEP = 2  # the first kind of depth that is deep in a gap
_SURE = 2.0  # standard errors by which a single model must be better than the blend
_LAGS = (1, 2, 4, 8)  # at which errors within a gap are compared


class Fillings(NamedTuple):
    """The fillings of a table by e models."""

    known: list[int]  # the models' places in `NAMES`
    means: np.ndarray  # (n, C, e)
    deviations: np.ndarray  # (n, C, e)
    of_lines: np.ndarray | None  # what straight lines expect to err by, (n, C), where they are among the models

    @classmethod
    def stacked(cls, parts: list[Fillings]) -> Fillings:
        """Fillings one after the other, as if of a longer table."""
        means, deviations = (
            np.concatenate(of_all) for of_all in zip(*((p.means, p.deviations) for p in parts), strict=True)
        )
        of_lines = [p.of_lines for p in parts if p.of_lines is not None]
        return cls(parts[0].known, means, deviations, np.concatenate(of_lines) if of_lines else None)


class Trial(NamedTuple):
    """Values that were hidden, and how models that were learned without them fill the table."""

    hidden: np.ndarray  # (n, C)
    kinds: np.ndarray  # of all holes, (n, C)
    fillings: Fillings


class Verdict(NamedTuple):
    """What the hidden values say."""

    products: np.ndarray  # mean products of the models' errors in units of their standard deviations, (kinds, C, 5, 5)
    calibrations: tuple[Calibration, ...]  # by kind, for other tables
    own_calibrations: tuple[Calibration, ...]  # by kind, for the table that was learned from
    persistence: float  # correlation of the errors of neighboring rows in a gap
    together: np.ndarray  # correlations of the errors of channels at one time, (C, C)


def judge(trials: list[Trial], values: np.ndarray, kept: np.ndarray) -> Verdict:
    """The verdict of all trials with a table; the coupled model was learned from its rows that are `kept`."""
    hidden, kinds = (np.concatenate(parts) for parts in zip(*((t.hidden, t.kinds) for t in trials), strict=True))
    fillings, num_rows = Fillings.stacked([t.fillings for t in trials]), len(values)
    values, kept = np.tile(values, (len(trials), 1)), np.tile(kept, len(trials))
    seen = np.where(hidden, np.nan, values)
    sizes = _sizes_in_gaps(fillings, np.isnan(seen), kinds)
    errors = (fillings.means - values[:, :, None]) / fillings.deviations / sizes[kinds, np.arange(values.shape[1])]
    # A value that no model expects, at which all of them err, says little about which is better.
    if hidden.any():
        size = np.median(np.abs(errors), axis=2, keepdims=True)
        even = np.clip(len(values) / _ROWS, *_EVEN) * np.median(size[hidden])
        errors /= np.hypot(1.0, size / max(even, 1e-12))
    known = np.ix_(range(NUM_KINDS), range(values.shape[1]), fillings.known, fillings.known)
    stretch = np.tile(stretches(num_rows), len(trials)) % _PARTS
    others = np.zeros((NUM_KINDS, values.shape[1], len(NAMES)), bool)  # models that fill nothing there

    def products_of(chosen: np.ndarray) -> np.ndarray:
        products = _error_products(errors, chosen, kinds, fillings.known, num_rows)
        products[known] *= sizes[:, :, :, None] * sizes[:, :, None]
        return products + 1e12 * others[:, :, None] * np.eye(len(NAMES))

    # Values are filled too well by weights that were chosen for them: weights of the other stretches show what a blend is worth.
    def filled_from_others() -> Filled:
        parts = [hidden & (stretch == part)[:, None] for part in range(_PARTS)]
        found = [mixed(products_of(hidden & ~inside), fillings, kinds, inside) for inside in parts]
        return Filled(*(np.select(parts, of_all, np.nan) for of_all in zip(*found, strict=True)))

    filled = filled_from_others()
    others[:, :, fillings.known] = _better_alone(
        filled.mean - values, fillings.means - values[:, :, None], hidden, kinds, num_rows
    )
    if others.any():
        filled = filled_from_others()
    scores = (filled.mean - values) / filled.std
    pooled = Calibration.by_kind(scores[hidden], kinds[hidden])
    # Deep in a gap a model may trust the other channels too much or too little: the larger errors count, of few or of many.
    lacking = np.broadcast_to(np.isnan(seen).mean(axis=1, keepdims=True), values.shape)
    many = lacking > np.median(lacking[hidden]) if hidden.any() else hidden
    parts = [some for some in (hidden & many, hidden & ~many) if Calibration.of(scores[some])]
    halves = [Calibration.by_kind(scores[some], kinds[some]) for some in parts]
    by_kind = tuple(
        found[0].widest(found[1:]) if _DEEP <= kind < NUM_DEPTHS else found[0]
        for kind, found in enumerate(zip(pooled, *halves, strict=True))
    )
    # Values learned from are filled too well. The more is learned from, the smaller the excess: in the end, everything is.
    relative = scores / np.array([found.factor for found in pooled])[kinds]
    factor = lambda chosen: (Calibration.of(relative[chosen]) or Calibration()).factor
    elsewhere = hidden & ~kept[:, None]
    learned, other = factor(hidden & kept[:, None]), factor(elsewhere)
    other = learned * (other / learned) ** (elsewhere.sum() / (elsewhere.sum() + _ELSEWHERE))
    share = (~np.isnan(seen[kept])).sum() / max(int((~np.isnan(values)).sum()), 1)
    own = max(learned, float(np.sqrt(other**2 + share * (learned**2 - other**2))))
    persistence, together = _correlations(np.where(hidden, scores, np.nan))
    gaps = gaps_by_kind(hidden, kinds, num_rows)
    return Verdict(
        products=products_of(hidden),
        calibrations=tuple(found.times(other).known_from(g) for found, g in zip(by_kind, gaps, strict=True)),
        own_calibrations=tuple(found.times(own).known_from(g) for found, g in zip(by_kind, gaps, strict=True)),
        persistence=persistence,
        together=together,
    )


def _better_alone(
    blended: np.ndarray, errors: np.ndarray, hidden: np.ndarray, kinds: np.ndarray, num_rows: int
) -> np.ndarray:
    """Which models (kinds, C, e) give way to one that alone has surely smaller absolute errors than the blend.

    A blend has the smallest squared error, but where most values are equal and some are far off, it comes near to few of them.
    """
    give_way = np.zeros((NUM_KINDS, *errors.shape[1:]), bool)
    of_points = np.arange(NUM_KINDS) % NUM_DEPTHS == 0
    for group, c in product((of_points, ~of_points), range(hidden.shape[1])):
        here = hidden[:, c] & group[kinds[:, c]]
        gain = np.abs(blended[here, c, None]) - np.abs(errors[here, c])  # (k, e)
        chosen = np.zeros(hidden.shape, bool)
        chosen[:, c] = here
        count = num_gaps(chosen, num_rows, False)
        if count >= _FEW:
            sure = gain.mean(axis=0) - _SURE * gain.std(axis=0) / np.sqrt(count)
            best = int(np.argmax(sure))
            give_way[np.ix_(group, [c])] = (sure[best] > 0) & (np.arange(len(sure)) != best)
    return give_way


def _error_products(
    errors: np.ndarray, hidden: np.ndarray, kinds: np.ndarray, known: list[int], num_rows: int
) -> np.ndarray:
    """Mean products of the errors of the `known` models at the hidden values, by kind and channel.

    Errors in gaps of all channels are those of a few gaps, and a model that fills one well may fill the next badly; lines do
    no such harm. The fewer gaps were hidden, the larger the errors that are expected of models in others.
    """
    products = np.zeros((NUM_KINDS, hidden.shape[1], len(NAMES), len(NAMES)))
    products[:, :, known, known] = np.where(np.arange(len(known)) == 0, 1.0, 1e12)  # the first model fills alone
    if hidden.sum() < _FEW:
        return products
    overall = _products(errors[hidden])
    skills = [_skills(errors[mine, c], overall) for c, mine in enumerate(hidden.T)]
    for kind in range(NUM_KINDS):
        # Few holes of a kind can be hidden in a table full of others: then those of the same depth stand in, then all.
        alike = hidden & (kinds == kind)
        of_depth = _products(errors[hidden & is_like(kinds, kind)], _FEW, overall)
        of_kind = _products(errors[alike], _BELIEF, of_depth)
        for c, mine in enumerate(alike.T):
            own = _products(errors[mine, c], _BELIEF, of_kind * np.outer(skills[c], skills[c]))
            products[kind, c][np.ix_(known, known)] = own
    in_gaps = (np.arange(NUM_KINDS) >= NUM_DEPTHS) & (np.arange(NUM_KINDS) % NUM_DEPTHS > 0)
    caution = _CAUTION / (1 + num_gaps(hidden & in_gaps[kinds], num_rows, True))
    models = np.arange(NAMES.index("lines"))
    products[:, :, models, models] *= np.where(in_gaps, 1 + caution, 1.0)[:, None, None]
    return products


def mixed(products: np.ndarray, fillings: Fillings, kinds: np.ndarray, missing: np.ndarray) -> Filled:
    """Every hole by its own weights: those of the smallest expected error."""
    known, means, deviations = fillings.known, fillings.means[missing], fillings.deviations[missing]  # (k, e)
    kinds_here, channels = kinds[missing], np.nonzero(missing)[1]
    weights = np.zeros(means.shape)
    for part in np.array_split(np.arange(len(means)), 1 + len(means) // _MOST_HOLES):
        expected = deviations[part]
        among = products[kinds_here[part], channels[part]][:, known][:, :, known]
        weights[part] = _simplex(among * expected[:, :, None] * expected[:, None])
    mean, std = np.zeros(kinds.shape), np.ones(kinds.shape)
    mean[missing], std[missing] = (weights * means).sum(axis=1), (weights * deviations).sum(axis=1)
    return Filled(mean, std)


def _products(errors: np.ndarray, belief: float = 0.0, others: np.ndarray | float = 0.0) -> np.ndarray:
    """Mean products (e, e) of the models' errors (k, e), mixed with those of `others`, worth `belief` values."""
    return (errors.T @ errors + belief * others) / max(len(errors) + belief, 1)


def _sizes_in_gaps(fillings: Fillings, missing: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """What lags and lines err by in the gaps of a channel and depth, in units of what the first model expects, (kinds, C, e).

    Lines show it between all observed values, of which there are more than can be hidden in gaps; one for models and single points.
    """
    C = missing.shape[1]
    if fillings.of_lines is None:
        return np.ones((NUM_KINDS, C, len(fillings.known)))
    ratio = np.log(fillings.of_lines / fillings.deviations[:, :, 0])[missing]
    group = (kinds % NUM_DEPTHS * C + np.arange(C))[missing]
    count = np.bincount(group, minlength=NUM_DEPTHS * C)
    mean = np.bincount(group, ratio, minlength=NUM_DEPTHS * C) / np.maximum(count, 1)
    by_depth = np.exp(mean).reshape(NUM_DEPTHS, C, 1)
    by_depth[0] = 1.0
    simple = np.array(fillings.known) >= NAMES.index("lags")
    return np.where(simple, np.tile(by_depth, (NUM_KINDS // NUM_DEPTHS, 1, 1)), 1.0)


def _skills(errors: np.ndarray, overall: np.ndarray) -> np.ndarray:
    """How much larger the models' errors (k, e) are in one channel than in all, (e,); few errors say little."""
    own = np.mean(errors**2, axis=0) if len(errors) else overall.diagonal()
    ratio = np.maximum(own, 1e-12) / np.maximum(overall.diagonal(), 1e-12)
    return ratio ** (0.5 * len(errors) / (len(errors) + _FEW))


def _simplex(products: np.ndarray) -> np.ndarray:
    """Nonnegative weights w (k, e) of sum one that minimize w^T G w for every G (k, e, e).

    The minimum lies on one face of the simplex, inside which w is G^-1 1 over its sum and the minimum is one over that sum.
    """
    k, e, _ = products.shape
    weights, largest = np.zeros((k, e)), np.zeros(k)
    for face in chain.from_iterable(combinations(range(e), size) for size in range(1, e + 1)):
        part = products[:, face][:, :, face]
        # A model may fill every hidden value exactly.
        part = part + np.maximum(1e-9 * np.einsum("kii->k", part), 1e-30)[:, None, None] * np.eye(len(face))
        found = np.linalg.solve(part, np.ones((k, len(face), 1)))[:, :, 0]
        total = found.sum(axis=1)
        better = (found >= 0).all(axis=1) & (total > largest)
        weights[better] = 0.0
        weights[np.ix_(better, face)] = found[better] / total[better, None]
        largest[better] = total[better]
    return weights


def _correlations(scores: np.ndarray) -> tuple[float, np.ndarray]:
    """Correlations of errors from row to row in a gap, and between channels; `scores` in deviations, NaN where none was hidden.

    The first is the rho of rho^lag, from lags of one to eight rows.
    """
    found = []
    clipped = np.clip(scores, -4, 4)
    for lag in _LAGS:
        product = clipped[lag:] * clipped[:-lag]
        both = np.isfinite(product)
        if both.sum() >= 100:
            size = np.sqrt(np.nanmean(clipped[lag:][both] ** 2) * np.nanmean(clipped[:-lag][both] ** 2))
            found.append(np.clip(product[both].mean() / max(size, 1e-300), 0.0, 0.99) ** (1 / lag))
    there = np.isfinite(clipped)
    safe = np.where(there, clipped, 0.0)
    pairs = (there.T.astype(float) @ there) + 20.0  # a belief, worth twenty pairs, that channels err independently
    size = np.sqrt(np.maximum((safe**2).sum(axis=0) / np.maximum(there.sum(axis=0), 1), 1e-12))
    together = safe.T @ safe / pairs / size / size[:, None]
    np.fill_diagonal(together, 1.0)
    values, vectors = np.linalg.eigh(np.clip(together, -0.99, 0.99))
    together = (vectors * np.maximum(values, 1e-3)) @ vectors.T
    scale = np.sqrt(together.diagonal())
    return (float(np.mean(found)) if found else 0.0), together / scale / scale[:, None]
