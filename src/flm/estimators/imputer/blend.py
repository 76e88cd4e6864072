"""Several models that fill holes, blended by how well each fills values that were hidden for the purpose.

Values are hidden as holes of every kind (`holes`), and every model is learned without them and fills them. By channel and kind
of hole this gives the mean products of the models' errors, in units of the errors that they expect. A hole is filled with the
weights, nonnegative and of sum one, of the smallest squared error by these products and by what the models expect of themselves
there; in gaps, lags and lines take what lines err by between observed values. The errors that then remain calibrate the error bars,
by kind. Every seventh block is kept out of learning altogether: the errors there show how error bars of other tables differ from
those of the table learned from. In the end the models are learned from all values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from flm.estimators.imputer.coupled import Coupled, Filled
from flm.estimators.imputer.dense import Dense
from flm.estimators.imputer.holes import (
    NUM_DEPTHS,
    NUM_KINDS,
    Calibration,
    depths_of,
    gaps_by_kind,
    hide,
    in_samples,
    is_like,
    kinds_of,
)
from flm.estimators.imputer.lags import LagRegression, line_deviations, straight
from flm.results.progress import Listener, Progress, silent, within

if TYPE_CHECKING:
    from flm.estimators.imputer.estimator import FLMImputer

NAMES = ("coupled", "dense", "refined", "lags", "lines")
_FEW = 30  # hidden values: with fewer, the first model fills alone
# Hidden values with errors of more than so many medians count alike, however far off the models are: a table of so many rows, and
# the fewest and the most medians.
_ROWS, _EVEN = 2_000, (0.1, 3.0)
_BELIEF = 200.0  # values' worth of belief in the errors of a hole's kind times the skills in its channel
_HELD, _EVERY = 96, 7  # rows of a block that is held out, every seventh
_DENSE_VALUES = 6_000  # of a table with several channels: beyond, dense series take longer than they are worth
_ELSEWHERE = 300.0  # values' worth of belief that a model fills blocks that it did not learn from as well as others
_MOST_HOLES = 50_000  # to weigh at a time
_DEEP = 2  # the first kind of depth that is deep in a gap
_LAGS = (1, 2, 4, 8)  # at which errors within a gap are compared


class _Fillings(NamedTuple):
    """The fillings of a table by e models."""

    known: list[int]  # the models' places in `NAMES`
    means: np.ndarray  # (n, C, e)
    deviations: np.ndarray  # (n, C, e)
    of_lines: np.ndarray | None  # what straight lines expect to err by, (n, C), where they are among the models


@dataclass(frozen=True, eq=False)
class Mixture:
    """The models, the products of their errors, and the calibration of the errors of the blend."""

    coupled: Coupled | None
    dense: Dense | None
    refined: LagRegression | None  # learned on the table as the coupled model fills it
    lags: LagRegression
    products: np.ndarray  # mean products of the models' errors in units of their standard deviations, (kinds, C, 5, 5)
    calibrations: tuple[Calibration, ...]  # by kind, for other tables
    own_calibrations: tuple[Calibration, ...]  # by kind, for the table that was learned from
    persistence: float  # correlation of the errors of neighboring rows in a gap
    together: np.ndarray  # correlations of the errors of channels at one time, (C, C)

    @classmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Mixture:
        """Hide values, learn, fill, weigh and calibrate; then go on learning with all values."""
        # The random stream is our own: a user who hides values with the same seed must not hide the same ones.
        rng = np.random.default_rng([asked.seed, 20240607])
        n, C = values.shape
        hidden = hide(~np.isnan(values), rng)
        seen = np.where(hidden, np.nan, values)
        kept = (np.arange(n) // _HELD) % _EVERY != _EVERY - 1
        lags = LagRegression.learn(steps, seen, rng)
        coupled = dense = refined = None
        apart, auto = in_samples(steps), asked.method == "auto"
        if asked.method == "coupled" or (auto and (C > 1 or apart)):
            guess = lags.fill(steps, seen) if C > 1 else seen
            coupled = Coupled.start(seen, asked.window).learned(steps, seen, within(listen, 0.0, 0.5), guess, kept)
            if auto:
                start = coupled.fill(steps, seen, asked.overlap and not apart, silent).mean
                refined = LagRegression.learn(steps, seen, rng, start)
        if asked.method == "dense" or (auto and (C == 1 or values.size <= _DENSE_VALUES) and not apart):
            dense = Dense.learn(steps, seen, asked.seed, within(listen, 0.5, 0.7))
        blank = cls(
            coupled, dense, refined, lags, np.zeros((NUM_KINDS, C, len(NAMES), len(NAMES))), (), (), 0.0, np.eye(C)
        )
        blend = blank._judged(steps, values, hidden, kept, asked, within(listen, 0.7, 0.8))
        if not hidden.any():
            return blend
        blend = replace(blend, lags=LagRegression.learn(steps, values, rng))
        if coupled is not None:
            coupled = coupled.learned(steps, values, within(listen, 0.8, 1.0))
            blend = replace(blend, coupled=coupled)
            if refined is not None and np.isnan(values).any():
                start = coupled.fill(steps, values, asked.overlap and not apart, silent).mean
                blend = replace(blend, refined=LagRegression.learn(steps, values, rng, start))
        return blend

    def _fillings(
        self, steps: np.ndarray, values: np.ndarray, kinds: np.ndarray, asked: FLMImputer, listen: Listener
    ) -> _Fillings:
        """The filling of a table with such kinds of holes by each model; where one was asked for by name, by that one alone."""
        found: dict[str, Filled] = {}
        of_lines = None
        if self.coupled is not None:
            found["coupled"] = self.coupled.fill(steps, values, asked.overlap and not in_samples(steps), listen)
        if self.dense is not None:
            found["dense"] = self.dense.fill(steps, values, listen)
        if asked.method not in found:
            # What a regression expects of single points shows whether their partners are observed; in gaps it expects too much.
            single = kinds % NUM_DEPTHS == 0
            if self.refined is not None:
                mean, std = found["coupled"]
                own = np.where(single, self.refined.deviations(steps, values, std), std)
                found["refined"] = Filled(self.refined.fill(steps, values, mean), own)
            # In gaps, these count their errors in units of what the first model expects.
            unit = next(iter(found.values())).std
            of_lines = line_deviations(steps, values, depths_of(np.isnan(values), steps))
            own = np.where(single, self.lags.deviations(steps, values, of_lines), unit)
            found["lags"] = Filled(self.lags.fill(steps, values), own)
            found["lines"] = Filled(straight(steps, values), np.where(single, of_lines, unit))
        means, deviations = (np.stack(parts, axis=-1) for parts in zip(*found.values(), strict=True))
        return _Fillings([NAMES.index(name) for name in found], means, np.maximum(deviations, 1e-9), of_lines)

    def _judged(
        self,
        steps: np.ndarray,
        values: np.ndarray,
        hidden: np.ndarray,
        kept: np.ndarray,
        asked: FLMImputer,
        listen: Listener,
    ) -> Mixture:
        """The mixture with products and calibrations from the hidden values."""
        seen = np.where(hidden, np.nan, values)
        kinds = kinds_of(np.isnan(seen), steps)
        fillings = self._fillings(steps, seen, kinds, asked, listen)
        sizes = _sizes_in_gaps(fillings, np.isnan(seen), kinds)
        errors = (fillings.means - values[:, :, None]) / fillings.deviations / sizes[kinds, np.arange(values.shape[1])]
        # A value that no model expects, at which all of them err, says little about which is better.
        if hidden.any():
            size = np.median(np.abs(errors), axis=2, keepdims=True)
            even = np.clip(len(values) / _ROWS, *_EVEN) * np.median(size[hidden])
            errors /= np.hypot(1.0, size / max(even, 1e-12))
        products = self._error_products(errors, hidden, kinds, fillings.known)
        known = np.ix_(range(NUM_KINDS), range(values.shape[1]), fillings.known, fillings.known)
        products[known] *= sizes[:, :, :, None] * sizes[:, :, None]
        blend = replace(self, products=products)
        filled = blend._mixed(fillings, kinds, np.isnan(seen))
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
        gaps = gaps_by_kind(hidden, kinds)
        return replace(
            blend,
            calibrations=tuple(found.times(other).known_from(g) for found, g in zip(by_kind, gaps, strict=True)),
            own_calibrations=tuple(found.times(own).known_from(g) for found, g in zip(by_kind, gaps, strict=True)),
            persistence=persistence,
            together=together,
        )

    def _error_products(
        self, errors: np.ndarray, hidden: np.ndarray, kinds: np.ndarray, known: list[int]
    ) -> np.ndarray:
        """Mean products of the errors of the `known` models at the hidden values, by kind and channel."""
        products = np.zeros(self.products.shape)
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
        return products

    def _mixed(self, fillings: _Fillings, kinds: np.ndarray, missing: np.ndarray) -> Filled:
        """Every hole by its own weights: those of the smallest expected error."""
        known, means, deviations = fillings.known, fillings.means[missing], fillings.deviations[missing]  # (k, e)
        kinds_here, channels = kinds[missing], np.nonzero(missing)[1]
        weights = np.zeros(means.shape)
        for part in np.array_split(np.arange(len(means)), 1 + len(means) // _MOST_HOLES):
            expected = deviations[part]
            products = self.products[kinds_here[part], channels[part]][:, known][:, :, known]
            weights[part] = _simplex(products * expected[:, :, None] * expected[:, None])
        mean, std = np.zeros(kinds.shape), np.ones(kinds.shape)
        mean[missing], std[missing] = (weights * means).sum(axis=1), (weights * deviations).sum(axis=1)
        return Filled(mean, std)

    def fill(
        self, steps: np.ndarray, values: np.ndarray, kinds: np.ndarray, asked: FLMImputer, listen: Listener
    ) -> Filled:
        """Every value of a table given its observed ones, with uncalibrated standard deviations; `kinds` of its holes."""
        return self._mixed(self._fillings(steps, values, kinds, asked, listen), kinds, np.isnan(values))

    def grown(self, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Mixture:
        """The mixture after another table, each model averaged by rows; products and error bars stay."""
        listen(Progress("learning on", share=0.0))
        lags = LagRegression.learn(steps, values, np.random.default_rng(asked.seed))
        grown = replace(self, lags=self.lags.merged(lags))
        if self.coupled is not None and len(values) >= self.coupled.window:
            grown = replace(grown, coupled=self.coupled.merged(self.coupled.learned(steps, values, listen)))
        return grown


def _products(errors: np.ndarray, belief: float = 0.0, others: np.ndarray | float = 0.0) -> np.ndarray:
    """Mean products (e, e) of the models' errors (k, e), mixed with those of `others`, worth `belief` values."""
    return (errors.T @ errors + belief * others) / max(len(errors) + belief, 1)


def _sizes_in_gaps(fillings: _Fillings, missing: np.ndarray, kinds: np.ndarray) -> np.ndarray:
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
            found.append(np.clip(product[both].mean() / size, 0.0, 0.99) ** (1 / lag))
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
