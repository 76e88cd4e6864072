"""An inverse problem: the diffusivity of a rod from noisy temperatures, with its standard error.

u_t = alpha u_xx,   u(x, 0) = sin(pi x),   u(0, t) = u(1, t) = 0,   200 readings with 1 % noise; alpha = ?

python examples/inverse_heat.py         3 CPU seconds
"""

import jax.numpy as jnp
import numpy as np

import flm

TRUTH = 0.1


def readings(seed: int = 0):
    """200 points inside and what a thermometer with 1 % noise reads there."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(200, 2))
    return points, flm.problems.heat(alpha=TRUTH).exact_values(points) + 0.01 * rng.normal(size=200)


def main() -> None:
    points, values = readings()
    problem = flm.PDE(
        domain=flm.Box(x=(0, 1), t=(0, 1)),
        equation=lambda u_t, u_xx, alpha: u_t - alpha * u_xx,
        conditions=[
            flm.initial(lambda x: jnp.sin(jnp.pi * x)),
            flm.dirichlet("x=0"),
            flm.dirichlet("x=1"),
            flm.data(points, values),  # sigma= where the noise is known; else it is estimated from the misfit
        ],
        parameters={"alpha": flm.Learn(0.5, lower=0)},
    )
    solution = flm.solve(problem, tol=1e-6)
    alpha = solution.parameters["alpha"]
    print(solution)
    print(f"alpha = {alpha.value:.5f} +- {alpha.standard_error:.5f}, in truth {TRUTH}")


if __name__ == "__main__":
    main()
