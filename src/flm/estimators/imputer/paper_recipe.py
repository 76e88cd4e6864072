"""The paper's own imputation of a time series, exactly as its appendix describes it.

A single-input FLM with N = 8 sub-networks on the whole series: time mapped to [-pi, pi], frequencies started at 0 ... 7,
amplitudes at 0, phases from N(0, pi/3); Adam at 1e-4 on the mean squared error of the observed values of the first part,
10,000 full-batch steps, the parameters of the lowest validation loss kept. Missing values are read off the fit, and values
after the training part are an extrapolation. Such low frequencies do not reach a daily cycle in a long record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

EPOCHS, LEARNING_RATE = 10_000, 1e-4
VALIDATION_SHARE = 0.25  # the last part of the values, for early stopping: 20 of 60 + 20 per cent in the paper


@dataclass(frozen=True, eq=False)
class PaperFit:
    """f(t) = sum_n A_n cos(n z - phi_n), z = 2 pi (t - center) / period, in units of the standardized values."""

    frequencies: np.ndarray  # (N,)
    amplitudes: np.ndarray  # (N,)
    phases: np.ndarray  # (N,)
    center: float
    period: float
    step: int  # Adam step of the lowest validation loss
    validation_loss: float

    def __call__(self, times: np.ndarray) -> np.ndarray:
        """Values at times, (n,)."""
        z = 2 * np.pi * (times - self.center) / self.period
        return np.cos(np.outer(z, self.frequencies) - self.phases) @ self.amplitudes


def train_paper_recipe(
    times: np.ndarray,
    values: np.ndarray,
    span: tuple[float, float],
    *,
    num_subnets: int = 8,
    epochs: int | None = None,
    seed: int = 0,
) -> PaperFit:
    """Train on the first part of the observed (standardized) values, in time order, and stop on the rest.

    `span` is the first and last time, which become -pi and pi.
    """
    import jax
    import jax.numpy as jnp
    import optax

    from flm.models import FLM
    from flm.numerics.descent import Objective, descend
    from flm.series import sincos

    center, period = sum(span) / 2, max(span[1] - span[0], 1e-300)
    split = max(int(len(times) * (1 - VALIDATION_SHARE)), 1)
    z, y = 2 * np.pi * (times - center) / period, np.asarray(values, float)
    model = FLM(1, num_subnets, key=seed, frequencies=np.arange(num_subnets)[:, None])
    start = (model.frequencies[:, 0], model.amplitudes[:, 0], model.phases[:, 0])

    def loss_on(rows):
        def loss(parameters):
            n, A, phi = parameters
            _, cosine = sincos(n[:, None] * z[rows] - phi[:, None])  # neuron-major, as FLM.jets
            return jnp.mean((A @ cosine - y[rows]) ** 2)

        return loss

    held_out = loss_on(slice(split, None)) if split < len(times) else None
    objective = Objective.of(loss_on(slice(split)), kept_by=held_out)
    found = descend(objective, start, optax.adam(LEARNING_RATE), EPOCHS if epochs is None else epochs)
    n, A, phi = jax.device_get(found.best)
    return PaperFit(n, A, phi, float(center), float(period), int(found.best_epoch), float(found.best_loss))
