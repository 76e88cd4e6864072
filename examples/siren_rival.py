"""SIREN trained for a given processor time, for the image and sound examples."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import flm

OMEGAS = (10.0, 30.0, 100.0)
RATES = (3e-3, 1e-2)


def width_for(num_parameters, num_inputs, depth):
    """The largest width whose network has at most so many parameters."""
    size = lambda w: num_inputs * w + w + (depth - 1) * (w * w + w) + w + 1
    return max(w for w in range(1, 2000) if size(w) <= num_parameters)


def train_siren(z, y, num_parameters, seconds, *, depth=3):
    """Adam with cosine decay for so many processor seconds after compiling, at every first-layer factor and rate; the best is kept.

    Choosing among six runs by their final error favors SIREN: each of them gets the whole time.

    Args:
        z: inputs in [-1, 1], (n, m).
        y: values, (n,).
        num_parameters: at most.
        seconds: per run.
        depth: hidden layers.

    Returns:
        (relative root mean square error, description).
    """
    width = width_for(num_parameters, z.shape[1], depth)
    z, y = jnp.asarray(z), jnp.asarray((y - y.mean()) / y.std())
    best = (np.inf, "")
    for omega in OMEGAS:
        for rate in RATES:
            model = flm.Siren(z.shape[1], width, depth, key=0, omega=omega)
            error, steps = _run(model, z, y, rate, seconds)
            best = min(best, (error, f"width {width}, depth {depth}, omega {omega:g}, rate {rate:g}, {steps} steps"))
    return best


def _run(model, z, y, rate, seconds):
    optimizer = optax.inject_hyperparams(optax.adam)(learning_rate=rate)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    loss = lambda model: jnp.mean((model(z) - y) ** 2)

    @eqx.filter_jit
    def steps(model, state):
        dynamic, static = eqx.partition((model, state), eqx.is_array)

        def one(carry, _):
            model, state = eqx.combine(carry, static)
            gradient = eqx.filter_grad(loss)(model)
            updates, state = optimizer.update(gradient, state)
            return eqx.filter((eqx.apply_updates(model, updates), state), eqx.is_array), None

        return eqx.combine(jax.lax.scan(one, dynamic, None, length=10)[0], static)

    jax.block_until_ready(eqx.filter(steps(model, state), eqx.is_array))  # compile
    start, count = time.process_time(), 0
    while (share := (time.process_time() - start) / seconds) < 1:
        state.hyperparams["learning_rate"] = jnp.asarray(rate * (0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * share))))
        model, state = steps(model, state)
        jax.block_until_ready(eqx.filter(model, eqx.is_array))
        count += 10
    return float(jnp.sqrt(loss(model))), count
