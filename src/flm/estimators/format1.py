"""Estimators in the first format of files, translated to the fields of the second."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from flm.estimators.evidence import Compressed
from flm.estimators.imputer.blend import NAMES, Mixture
from flm.estimators.imputer.coupled import Coupled
from flm.estimators.imputer.cross_spectrum import CrossSpectrum
from flm.estimators.imputer.dense import Dense, DenseSpectrum
from flm.estimators.imputer.estimator import ImputerState
from flm.estimators.imputer.holes import NUM_KINDS, Calibration
from flm.estimators.imputer.lags import LagRegression
from flm.estimators.imputer.units import Units
from flm.estimators.regressor.estimator import RegressorState
from flm.estimators.regressor.wave_fit import WaveFit
from flm.estimators.regressor.wave_model import WaveModel
from flm.estimators.waves import Scale, Waves


def renewed(kind: str, named: dict) -> dict:
    """The fields that the estimator of this kind reads in `_unpack`."""
    if kind == "FLMRegressor":
        return named | {"state": _regressor(named)}
    # The one model of an old imputer fills alone.
    return named | {"state": _imputer(named), "parameters": named["parameters"] | {"method": named["method"]}}


def _regressor(named: dict) -> RegressorState:
    old = named["design"]
    given = {field.name: f"waves_{field.name}" for field in fields(Waves)}
    waves = Waves(**{name: old[key] for name, key in given.items() if key in old})
    data = Compressed(named["factor"], len(old["gain"]), named["count"], old["known_noise"])
    plain = ("kind", "log_s", "reach", "is_learned", "joint")
    model = WaveModel(waves=waves, data=data, **{name: old[name] for name in plain if name in old})
    fit = WaveFit(Scale(old["center"], old["halfwidth"]), Scale(old["offset"], old["gain"]), model)
    return RegressorState(fit, named["repeats"], named["y_ndim"] == 1)


def _imputer(named: dict) -> ImputerState:
    old, C = named["model"], len(named["center"])
    coupled = dense = None
    if "parts" in old:
        parts = [{field.name: part[field.name] for field in fields(CrossSpectrum)} for part in old["parts"]]
        spectra = tuple(CrossSpectrum(**part) for part in parts)
        # The file does not say how many rows were learned from; windows are at most a quarter of them.
        coupled = Coupled(window=old["window"], groups=old["groups"], spectra=spectra, num_rows=4 * old["window"])
    else:
        dense = Dense(spectra=tuple(DenseSpectrum(**spectrum) for spectrum in old["spectra"]))
    others, own = (Calibration(**(old.get(name) or old["calibration"])) for name in ("calibration", "own_calibration"))
    nothing = LagRegression.learn(np.arange(2.0), np.zeros((2, C)), np.random.default_rng(0))  # of weight zero
    model = Mixture(
        coupled=coupled,
        dense=dense,
        refined=None,
        lags=nothing,
        products=np.ones((NUM_KINDS, C, len(NAMES), len(NAMES))),  # of one model, which `method` names
        calibrations=(others,) * NUM_KINDS,
        own_calibrations=(own,) * NUM_KINDS,
        persistence=0.0,
        together=np.eye(C),
    )
    return ImputerState(Units(named["step"], named["origin"], named["center"], named["spread"]), model)
