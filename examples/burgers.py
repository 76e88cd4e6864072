"""A shock: the inviscid Burgers' equation of the paper, as a series.

    u_t + (u^2 / 2)_x = 0, periodic on [0, 1],   u(x, 0) = 1 + 0.35 sin(2 pi x)

    python examples/burgers.py              11 CPU seconds

The shock forms at t = 1 / (0.7 pi) = 0.4547 and moves on x = 0.5 + t. Errors are against the exact entropy solution.
"""

import jax.numpy as jnp
import numpy as np

import flm

start = lambda x: 1 + 0.35 * jnp.sin(2 * jnp.pi * x)
law = flm.ConservationLaw(flux=lambda u: u**2 / 2, domain=flm.Box(x=(0, 1), t=(0, 1)), initial=start)
entropy = flm.references.EntropySolution(lambda x: 1 + 0.35 * np.sin(2 * np.pi * x))


def main() -> None:
    print(f"smooth until t = {law.breaking_time:.4f}")
    solution = flm.solve(law, tol=1e-2)  # relative L1: with a shock the error falls like 1 / columns
    print(solution)
    print("against the exact entropy solution", solution.errors(entropy))
    small = flm.solve(law, num_subnets=64)
    print(f"64 sub-networks in a frame that moves at {small.frame:g}:", small.errors(entropy))
    for t in (0.25, 0.75):
        x = np.linspace(0, 1, 6, endpoint=False) + 0.05
        print(f"t = {t}:", np.round(solution(x=x, t=t), 3), "exact", np.round(entropy(np.stack([x, 0 * x + t], 1)), 3))


if __name__ == "__main__":
    main()
