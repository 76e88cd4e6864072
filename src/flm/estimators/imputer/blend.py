"""Several models that fill holes, blended by how well each fills values that were hidden for the purpose.

Values are hidden as holes of every kind (`holes`), in a small table several times. Every model is learned without them and fills
them, which gives the weights of the models and calibrates the error bars (`judge`). Every seventh block is kept out of learning
altogether: the errors there show how error bars of other tables differ from those of the table learned from. In the end the models
but the dense one are learned from all values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from flm.estimators.imputer.coupled import Coupled, Filled
from flm.estimators.imputer.dense import Dense
from flm.estimators.imputer.holes import FEW, NUM_DEPTHS, NUM_KINDS, Calibration, depths_of, hide, in_samples, kinds_of
from flm.estimators.imputer.judge import NAMES, Fillings, Trial, judge, mixed
from flm.estimators.imputer.lags import LagRegression, line_deviations, straight
from flm.results.progress import Listener, Progress, silent, within

if TYPE_CHECKING:
    from flm.estimators.imputer.estimator import FLMImputer

_MANY, _TRIALS = 3_000, 5  # a table with fewer observed values is tried several times, at most so often
_SERIES, _SERIES_TRIALS = (
    20,
    10,
)  # a single series of few values, but so many, is tried so often, with fewer hidden at a time
_ROWS, _LARGE = 768, 10_000  # twice with fewer rows, unless it has more values than this, observed or not
_HELD, _EVERY = 96, 7  # rows of a block that is held out, every seventh
_DENSE_VALUES = 6_000  # of a table with several channels: beyond, dense series take longer than they are worth
_ALONE = 5.0  # a regression expects to err by a fifth of its distance from the median of all models, or by more


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
        kept = (np.arange(len(values)) // _HELD) % _EVERY != _EVERY - 1
        num_trials = _num_trials(steps, values)
        trials: list[Trial] = []
        for turn in range(num_trials):
            told = within(listen, 0.8 * turn / num_trials, 0.8 * (turn + 1) / num_trials)
            hidden = hide(~np.isnan(values), rng, turn, not in_samples(steps))
            seen = np.where(hidden, np.nan, values)
            blend = cls._unjudged(steps, seen, kept, asked, rng, told)
            kinds = kinds_of(np.isnan(seen), steps)
            trials.append(Trial(hidden, kinds, blend._fillings(steps, seen, kinds, asked, within(told, 0.9, 1.0))))
        blend = replace(blend, **judge(trials, values, kept)._asdict())
        if not any(trial.hidden.any() for trial in trials):
            return blend
        blend = replace(blend, lags=LagRegression.learn(steps, values, rng, curved=blend.refined is None))
        if blend.coupled is not None:
            # As many rounds as in the trials: with every round a model expects smaller errors than it makes.
            coupled = replace(blend.coupled, spectra=blend.coupled.earlier)
            coupled = replace(coupled.learned(steps, values, within(listen, 0.8, 1.0)), earlier=())
            blend = replace(blend, coupled=coupled)
            if blend.refined is not None and np.isnan(values).any():
                start = coupled.fill(steps, values, asked.overlap and not in_samples(steps), silent).mean
                blend = replace(blend, refined=LagRegression.learn(steps, values, rng, start, curved=True))
        return blend

    @classmethod
    def _unjudged(
        cls,
        steps: np.ndarray,
        seen: np.ndarray,
        kept: np.ndarray,
        asked: FLMImputer,
        rng: np.random.Generator,
        listen: Listener,
    ) -> Mixture:
        """The models that are learned from what is seen of a table, the coupled one from the rows that are kept."""
        C = seen.shape[1]
        coupled = dense = refined = None
        apart, auto = in_samples(steps), asked.method == "auto"
        lags = LagRegression.learn(steps, seen, rng, curved=C == 1 and not apart)
        if asked.method == "coupled" or (auto and (C > 1 or apart)):
            guess = lags.fill(steps, seen) if C > 1 else seen
            coupled = Coupled.start(seen, asked.window).learned(steps, seen, within(listen, 0.0, 0.6), guess, kept)
            if auto:
                start = coupled.fill(steps, seen, asked.overlap and not apart, silent).mean
                refined = LagRegression.learn(steps, seen, rng, start, curved=True)
        if asked.method == "dense" or (auto and (C == 1 or seen.size <= _DENSE_VALUES) and not apart):
            dense = Dense.learn(steps, seen, asked.seed, within(listen, 0.6, 0.9))
        nothing = np.zeros((NUM_KINDS, C, len(NAMES), len(NAMES)))
        return cls(coupled, dense, refined, lags, nothing, (), (), 0.0, np.eye(C))

    def _fillings(
        self, steps: np.ndarray, values: np.ndarray, kinds: np.ndarray, asked: FLMImputer, listen: Listener
    ) -> Fillings:
        """The filling of a table with such kinds of holes by each model; where one was asked for by name, by that one alone."""
        found: dict[str, Filled] = {}
        of_lines = None
        if self.coupled is not None:
            found["coupled"] = self.coupled.fill(
                steps, values, asked.overlap and not in_samples(steps), within(listen, 0.0, 0.5)
            )
        if self.dense is not None:
            found["dense"] = self.dense.fill(steps, values, within(listen, 0.5, 1.0))
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
        # Learned again from all values, a regression may fill with large values where it was judged to be good.
        alone = np.abs(means - np.median(means, axis=-1, keepdims=True)) / _ALONE
        regression = np.isin(list(found), ("refined", "lags"))
        deviations = np.maximum(np.hypot(deviations, regression * alone), 1e-9)
        return Fillings([NAMES.index(name) for name in found], means, deviations, of_lines)

    def fill(
        self, steps: np.ndarray, values: np.ndarray, kinds: np.ndarray, asked: FLMImputer, listen: Listener
    ) -> Filled:
        """Every value of a table given its observed ones, with uncalibrated standard deviations; `kinds` of its holes."""
        fillings = self._fillings(steps, values, kinds, asked, listen)
        return mixed(self.products, fillings, kinds, np.isnan(values))

    def grown(self, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Mixture:
        """The mixture after another table, each model averaged by rows; products and error bars stay."""
        listen(Progress("learning on", share=0.0))
        lags = LagRegression.learn(steps, values, np.random.default_rng(asked.seed))
        grown = replace(self, lags=self.lags.merged(lags))
        if self.coupled is not None and len(values) >= self.coupled.window:
            grown = replace(grown, coupled=self.coupled.merged(self.coupled.learned(steps, values, listen)))
        return grown


def _num_trials(steps: np.ndarray, values: np.ndarray) -> int:
    """How often values are hidden: the fewer, the oftener. Short samples would lose too much, and very few values say nothing."""
    observed = int((~np.isnan(values)).sum())
    if values.shape[1] == 1 and _SERIES <= observed < FEW and not in_samples(steps):
        return _SERIES_TRIALS
    if in_samples(steps) or observed < FEW or values.size > _LARGE:
        return 1
    return min(max(-(-_MANY // observed), 1 + (len(values) < _ROWS)), _TRIALS)
