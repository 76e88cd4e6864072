"""The paper's own imputation of a time series, exactly as its appendix describes it: for comparison, not a good imputer.

A single-input FLM with N = 8 sub-networks on the whole series: time mapped to [-pi, pi], frequencies started at 0 ... 7,
amplitudes at 0, phases from N(0, pi/3); Adam at 1e-4 on the mean squared error of the observed values of the first part,
10,000 full-batch steps, the parameters of the lowest validation loss kept. Missing values are read off the fit, and values
after the training part are an extrapolation. Such low frequencies do not reach a daily cycle in a long record.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax

from flm.domains import Box
from flm.models import FLM
from flm.numerics.descent import Objective, descend

EPOCHS, LEARNING_RATE = 10_000, 1e-4
VALIDATION_SHARE = 0.25  # the last part of the values, for early stopping: 20 of 60 + 20 per cent in the paper


def train_paper_recipe(
    times: np.ndarray,
    values: np.ndarray,
    span: tuple[float, float],
    *,
    num_subnets: int = 8,
    epochs: int = EPOCHS,
    seed: int = 0,
) -> FLM:
    """Train on the first part of the observed (standardized) values, in time order, and stop on the rest.

    `span` is the first and last time, which become -pi and pi.
    """
    free, fixed = eqx.partition(FLM(Box(t=span), num_subnets, key=seed), eqx.is_inexact_array)
    split = max(int(len(times) * (1 - VALIDATION_SHARE)), 1)

    def loss_on(rows: slice):
        return lambda free: jnp.mean((eqx.combine(free, fixed)(times[rows]) - values[rows]) ** 2)

    held_out = loss_on(slice(split, None)) if split < len(times) else None
    objective = Objective.of(loss_on(slice(split)), kept_by=held_out)
    return eqx.combine(descend(objective, free, optax.adam(LEARNING_RATE), epochs).best, fixed)
