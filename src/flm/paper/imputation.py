"""The paper's imputation of ETTh1, as a runner of a study: oil temperature alone, and all channels by the benchmark's protocol.

The two are different problems with different scores. The paper hides values of oil temperature and splits 60 / 20 / 20 per
cent; the benchmark (TSI-Bench, arXiv 2406.12747), from which its other rows are, hides values of all seven channels, splits
14 / 5 / 5 months, and fills windows of 48 hours from their own observed values.
"""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd

from flm.domains import Box
from flm.models import FLM
from flm.numerics.descent import Objective, descend
from flm.study.store import Definition, Record
from flm.wording import FileMissingError

VARIABLE = "FLM_ETT"  # names the folder of ETTh1.csv
WINDOW = 48  # hours
MONTHS = (14, 19, 24)  # ends of the training, validation and test months


def find_series(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """ETTh1.csv in the given folder, else in the folder that FLM_ETT names; None where neither is given.

    Raises:
        FileNotFoundError: the folder does not have the file.
    """
    named = folder or os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named) / "ETTh1.csv"
    if not path.is_file():
        raise FileMissingError(f"`--ett` (or {VARIABLE}) must name the folder of ETTh1.csv; got {str(named)!r}.")
    return path


def fingerprint(path: Path) -> str:
    """The SHA-256 of the file, which identifies the series in the definition of a run."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def impute(definition: Definition) -> Record:
    """The scores of one mask: `model` is "recipe" or "solver" on oil temperature alone, "channels" by the benchmark's protocol."""
    path = find_series()
    wanted = definition["training"]
    if path is None or fingerprint(path) != wanted["file"]:
        raise FileMissingError(f"{VARIABLE} must name the folder of the ETTh1.csv that this run is about.")
    series, rng = pd.read_csv(path, index_col=0), np.random.default_rng(definition["seed"])
    if definition["model"] == "channels":
        return _channels(series, wanted["rate"], rng)
    return _oil(series[["OT"]].to_numpy(), definition, rng)


def train_recipe(
    times: np.ndarray,
    values: np.ndarray,
    span: tuple[float, float],
    *,
    num_subnets: int = 8,
    epochs: int = 10_000,
    seed: int = 0,
) -> FLM:
    """The paper's FLM of one input, `span` mapped to [-π, π]: Adam at 1e-4 on all observed (standardized) values at once.

    It is trained on the first three quarters of the values, in time order, and the parameters of the lowest loss on the
    others are kept. Values after them are an extrapolation; so few low frequencies do not reach a daily cycle in a long record.
    """
    free, fixed = eqx.partition(FLM(Box(t=span), num_subnets, key=seed), eqx.is_inexact_array)
    split = int(0.75 * len(times))  # 60 of 60 + 20 per cent
    loss = lambda rows, free: jnp.mean((eqx.combine(free, fixed)(times[rows]) - values[rows]) ** 2)
    objective = Objective.of(partial(loss, slice(split)), kept_by=partial(loss, slice(split, None)))
    return eqx.combine(descend(objective, free, optax.adam(1e-4), epochs).best, fixed)


def _oil(series: np.ndarray, definition: Definition, rng: np.random.Generator) -> Record:
    from flm.estimators.imputer.estimator import FLMImputer

    n = len(series)
    train, test = series[: int(0.6 * n)], np.arange(n) >= int(0.8 * n)
    series = (series - train.mean()) / train.std()
    hidden = rng.random(series.shape) < definition["training"]["rate"]
    holed, scored = np.where(hidden, np.nan, series), hidden[:, 0] & test
    seen, values, times = ~hidden[:, 0], series[:, 0], np.arange(n, dtype=float)
    if definition["model"] == "recipe":
        # Trained on the first 60 per cent, stopped on the next 20, read off on the last.
        known, epochs = seen & ~test, definition["training"]["epochs"]
        options = {"num_subnets": definition["size"], "epochs": epochs, "seed": definition["seed"]}
        filled = train_recipe(times[known], values[known], (0.0, n - 1.0), **options)(times)
    else:
        filled = np.asarray(FLMImputer().fit(holed).impute(holed).values)[:, 0]
    error = lambda found: float(np.abs(found - values)[scored].mean())
    return {
        "mae": error(filled),
        "linear": error(np.interp(times, times[seen], values[seen])),
        "mean_of_observed": error(values[seen & test].mean()),
        "parameters": 3 * definition["size"] if definition["model"] == "recipe" else None,
    }


def _channels(series: pd.DataFrame, rate: float, rng: np.random.Generator) -> Record:
    from flm.estimators.imputer.estimator import FLMImputer

    month, _ = pd.factorize(series.index.str[:7])
    values = series.to_numpy()
    parts = [values[(month >= a) & (month < b)] for a, b in zip((0, *MONTHS), MONTHS, strict=False)]
    center, spread = parts[0].mean(axis=0), parts[0].std(axis=0)
    parts = [(part - center) / spread for part in parts]
    hidden = [rng.random(part.shape) < rate for part in parts]
    train, _, test = (np.where(mask, np.nan, part) for part, mask in zip(parts, hidden, strict=True))
    imputer = FLMImputer(window=WINDOW).fit(train)
    whole = len(test) // WINDOW * WINDOW  # the benchmark drops a last, incomplete window
    test, truth, mask = test[:whole], parts[2][:whole], hidden[2][:whole]
    error = lambda found: float(np.abs(found - truth)[mask].mean())
    # Straight lines between the observed values of a window, the nearest value at its ends, zero without any.
    windows = pd.DataFrame(test).groupby(np.arange(whole) // WINDOW, group_keys=False)
    lines = windows.apply(lambda window: window.interpolate(limit_direction="both")).fillna(0.0)
    return {"mae": error(np.asarray(imputer.impute(test).values)), "linear": error(lines.to_numpy())}
