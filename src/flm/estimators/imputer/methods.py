"""The ways of filling a standardized table: coupled windows, dense and greedy series per channel, the paper's recipe.

Each is a class with `learn(steps, values, options)`, `fill(steps, values, options)` -> (mean, std) of shape (n, C), `pack`
and `unpack`. Steps are times in units of the clock's step, increasing; values have NaN where missing. Standard deviations
are the model's own; the imputer multiplies them by the factor of `calibration`, or of `own_calibration` for the table that
was learned from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from flm.estimators.imputer.calibration import Calibration
from flm.estimators.imputer.coupled import CrossSpectrum, Learned, Pattern, group_by_times, learn
from flm.estimators.imputer.dense import DenseSeries, DenseSpectrum
from flm.estimators.imputer.paper_recipe import PaperFit, train_paper_recipe
from flm.estimators.imputer.windows import filling_windows, lessons_of
from flm.estimators.progress import part, tell
from flm.wording import NoSeriesError

_WINDOW, _LEAST_WINDOW = 48, 8
_MAX_VALUES = 2000  # in a window: beyond, a solve takes seconds
_MAX_CHANNELS = 48  # coupled together; wider tables are split into groups of correlated channels
_HIDDEN_SHARE = 0.1  # of the observed values, to stop the learning and to calibrate the error bars
_HIDDEN = 2000  # most of them in the dense model


@dataclass(frozen=True, eq=False)
class Coupled:
    """Windowed coupled model: one cross-spectrum per group of channels."""

    window: int
    groups: list[np.ndarray]
    parts: list[Learned]
    calibration: Calibration  # of other tables
    own_calibration: Calibration  # of the table that was learned from

    @property
    def learned(self) -> Learned:
        """The only group's."""
        if len(self.parts) > 1:
            raise NoSeriesError(f"the table was split into {len(self.parts)} groups of channels, each with its own.")
        return self.parts[0]

    @classmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, options: Any) -> Coupled:
        """Cut the table into windows and learn from them."""
        n = len(values)
        groups = _groups(values)
        widest = max(len(group) for group in groups)
        if options.window is None:
            # At least about eight half-overlapping windows; a solve of at most 2,000 values.
            window = max(min(_WINDOW, n // 4, _MAX_VALUES // widest), min(_LEAST_WINDOW, n))
        else:
            window = min(int(options.window), n)
        hide = (_generator(options.seed).random(values.shape) < _HIDDEN_SHARE) & ~np.isnan(values)
        parts = []
        for i, group in enumerate(groups):
            lessons = lessons_of(steps, values[:, group], float(window), hide[:, group])
            with part(i / len(groups), (i + 1) / len(groups)):
                parts.append(learn(lessons, float(window), shrinkage=options.shrinkage, max_rounds=options.max_rounds))
        own = Calibration.of(np.concatenate([p.scores for p in parts]))
        fresh = np.concatenate([p.fresh_scores for p in parts])
        return cls(window, groups, parts, Calibration.of(fresh) if len(fresh) else own, own)

    def fill(self, steps: np.ndarray, values: np.ndarray, options: Any) -> tuple[np.ndarray, np.ndarray]:
        """One linear solve per window."""
        mean, std = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
        for g, (group, learned) in enumerate(zip(self.groups, self.parts, strict=True)):
            pieces = filling_windows(steps, values[:, group], float(self.window), 0.0, options.overlap)
            done = 0
            for same in group_by_times([piece.window for piece in pieces]):
                pattern = Pattern(learned.spectrum, pieces[same[0]].window.times, shared=len(same) > 2)
                for i in same:
                    tell((g + done / len(pieces)) / len(self.groups), "filling")
                    done += 1
                    piece = pieces[i]
                    m, s = pattern.fill(piece.window)
                    place = np.ix_(piece.rows[piece.targets], group)
                    mean[place], std[place] = m.T[piece.targets], s.T[piece.targets]
        return mean, std

    def pack(self) -> dict[str, Any]:
        """Plain arrays and numbers."""
        return {
            "window": self.window,
            "groups": self.groups,
            "calibration": _pack_calibration(self.calibration),
            "own_calibration": _pack_calibration(self.own_calibration),
            "parts": [
                {
                    "rounds": part.rounds,
                    "scores": part.scores,
                    "fresh_scores": part.fresh_scores,
                    "frequencies": part.spectrum.frequencies,
                    "mean": part.spectrum.mean,
                    "covariance": part.spectrum.covariance,
                    "noise": part.spectrum.noise,
                }
                for part in self.parts
            ],
        }

    @classmethod
    def unpack(cls, named: dict[str, Any]) -> Coupled:
        """The inverse of `pack`."""
        parts = [
            Learned(
                CrossSpectrum(p["frequencies"], p["mean"], p["covariance"], p["noise"]),
                p["rounds"],
                p["scores"],
                p["fresh_scores"],
            )
            for p in named["parts"]
        ]
        calibrations = (_unpack_calibration(named[name]) for name in ("calibration", "own_calibration"))
        return cls(named["window"], list(named["groups"]), parts, *calibrations)


def _groups(values: np.ndarray) -> list[np.ndarray]:
    """Channels in groups of at most 48, correlated ones together."""
    C = values.shape[1]
    if C <= _MAX_CHANNELS:
        return [np.arange(C)]
    filled = np.where(np.isnan(values), 0.0, values)
    covariance = filled.T @ filled
    size = np.sqrt(np.maximum(covariance.diagonal(), 1e-300))
    distance = 1 - np.abs(covariance) / size[:, None] / size
    np.fill_diagonal(distance, 0.0)
    order = leaves_list(linkage(squareform(np.maximum(distance, 0.0), checks=False), "average"))
    return [np.sort(part) for part in np.array_split(order, -(-C // _MAX_CHANNELS))]


@dataclass(frozen=True, eq=False)
class Dense:
    """All harmonics of the record under a learned prior, channel by channel."""

    spectra: tuple[DenseSpectrum, ...]
    calibration: Calibration

    @classmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, options: Any) -> Dense:
        """The prior of every channel; error bars calibrated on values hidden from it."""
        spectra, scores = [], []
        rng = _generator(options.seed)
        for c, column in enumerate(values.T):
            observed = np.flatnonzero(~np.isnan(column))
            with part(c / values.shape[1], (c + 1) / values.shape[1]):
                spectrum = DenseSeries(steps[observed], column[observed]).learn(seed=options.seed)
            spectra.append(spectrum)
            inner = observed[1:-1]
            if len(inner) >= 200:
                hidden = np.sort(rng.choice(inner, min(_HIDDEN, len(inner) // 10), replace=False))
                rest = np.setdiff1d(observed, hidden)
                mean, std = DenseSeries(steps[rest], column[rest]).fill(spectrum, steps[hidden])
                scores.append((mean - column[hidden]) / std)
        return cls(tuple(spectra), Calibration.of(np.concatenate(scores) if scores else np.zeros(0)))

    def fill(self, steps: np.ndarray, values: np.ndarray, options: Any) -> tuple[np.ndarray, np.ndarray]:
        """One system per channel, by conjugate gradients."""
        mean, std = np.zeros(values.shape), np.zeros(values.shape)
        for c, (column, spectrum) in enumerate(zip(values.T, self.spectra, strict=True)):
            tell(c / len(self.spectra), "filling")
            observed, missing = np.flatnonzero(~np.isnan(column)), np.flatnonzero(np.isnan(column))
            if not len(missing):
                continue
            if not len(observed):
                mean[:, c], std[:, c] = spectrum.mean, np.sqrt(spectrum.variances.sum() + spectrum.noise)
                continue
            series = DenseSeries(steps[observed], column[observed])
            mean[missing, c], std[missing, c] = series.fill(spectrum.stretched(steps), steps[missing])
        return mean, std

    def pack(self) -> dict[str, Any]:
        """Plain arrays and numbers."""
        named = [{name: getattr(s, name) for name in DenseSpectrum.__dataclass_fields__} for s in self.spectra]
        return {"spectra": named, "calibration": _pack_calibration(self.calibration)}

    @classmethod
    def unpack(cls, named: dict[str, Any]) -> Dense:
        """The inverse of `pack`."""
        spectra = tuple(DenseSpectrum(**s) for s in named["spectra"])
        return cls(spectra, _unpack_calibration(named["calibration"]))


@dataclass(frozen=True, eq=False)
class Greedy:
    """A few lines per channel, found one after the other; their amplitudes are fitted to each table anew."""

    frequencies: tuple[np.ndarray, ...]
    calibration: Calibration

    @classmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, options: Any) -> Greedy:
        """Find the lines of every channel."""
        from flm.estimators.regressor.estimator import FLMRegressor

        found = []
        for c, column in enumerate(values.T):
            observed = np.flatnonzero(~np.isnan(column))
            lines = FLMRegressor(options.num_subnets, frequencies="lines")
            with part(c / values.shape[1], (c + 1) / values.shape[1]):
                found.append(lines.fit(steps[observed, None], column[observed]).frequencies_)
        return cls(tuple(found), Calibration())

    def fill(self, steps: np.ndarray, values: np.ndarray, options: Any) -> tuple[np.ndarray, np.ndarray]:
        """Ridge regression on the lines, its strength by marginal likelihood."""
        from flm.estimators.regressor.estimator import FLMRegressor

        mean, std = np.zeros(values.shape), np.zeros(values.shape)
        for c, (column, frequencies) in enumerate(zip(values.T, self.frequencies, strict=True)):
            tell(c / len(self.frequencies), "filling")
            observed, missing = np.flatnonzero(~np.isnan(column)), np.flatnonzero(np.isnan(column))
            if not len(missing) or not len(observed):
                std[missing, c] = 1.0
                continue
            fit = FLMRegressor(frequencies=frequencies).fit(steps[observed, None], column[observed])
            mean[missing, c], std[missing, c] = fit.predict(steps[missing, None], return_std=True)
        return mean, std

    def pack(self) -> dict[str, Any]:
        """Plain arrays."""
        return {"frequencies": list(self.frequencies), "calibration": _pack_calibration(self.calibration)}

    @classmethod
    def unpack(cls, named: dict[str, Any]) -> Greedy:
        """The inverse of `pack`."""
        return cls(tuple(named["frequencies"]), _unpack_calibration(named["calibration"]))


@dataclass(frozen=True, eq=False)
class Paper:
    """The recipe of the paper's appendix, channel by channel; see `paper_recipe`."""

    fits: tuple[PaperFit, ...]
    trained_until: float
    calibration: Calibration

    @classmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, options: Any) -> Paper:
        """Adam on the first three quarters of the observed values, stopped on the rest."""
        fits = []
        for c, column in enumerate(values.T):
            tell(c / values.shape[1], "Adam")
            observed = np.flatnonzero(~np.isnan(column))
            fits.append(
                train_paper_recipe(
                    steps[observed],
                    column[observed],
                    (float(steps[0]), float(steps[-1])),
                    num_subnets=options.num_subnets or 8,
                    seed=options.seed,
                )
            )
        return cls(tuple(fits), float(steps[0] + 0.75 * (steps[-1] - steps[0])), Calibration())

    def fill(self, steps: np.ndarray, values: np.ndarray, options: Any) -> tuple[np.ndarray, np.ndarray]:
        """Read off the fit; the standard deviation is the root of the validation loss."""
        mean = np.stack([fit(steps) for fit in self.fits], axis=1)
        deviation = np.sqrt([fit.validation_loss for fit in self.fits])
        return mean, np.broadcast_to(np.where(np.isfinite(deviation), deviation, 1.0), values.shape)

    def pack(self) -> dict[str, Any]:
        """Plain arrays and numbers."""
        named = [{name: getattr(f, name) for name in PaperFit.__dataclass_fields__} for f in self.fits]
        return {"fits": named, "trained_until": self.trained_until, "calibration": _pack_calibration(self.calibration)}

    @classmethod
    def unpack(cls, named: dict[str, Any]) -> Paper:
        """The inverse of `pack`."""
        fits = tuple(PaperFit(**f) for f in named["fits"])
        return cls(fits, named["trained_until"], _unpack_calibration(named["calibration"]))


def _pack_calibration(calibration: Calibration) -> dict[str, float]:
    return {"factor": calibration.factor, "tail": calibration.tail, "unit": calibration.unit}


def _unpack_calibration(named: dict[str, float]) -> Calibration:
    return Calibration(named["factor"], named["tail"], named["unit"])


def _generator(seed: int) -> np.random.Generator:
    """A stream of its own: a user who hides values with the same seed must not have hidden ours."""
    return np.random.default_rng([seed, 20240607])


METHODS = {"coupled": Coupled, "dense": Dense, "greedy": Greedy, "paper": Paper}
