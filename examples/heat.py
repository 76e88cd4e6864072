"""The heat equation, solved to a tolerance.

u_t = 0.1 u_xx on [0, 1] x [0, 1],   u(x, 0) = sin(pi x),   u(0, t) = u(1, t) = 0

python examples/heat.py                 8 CPU seconds, most of them imports and compilation
"""

import jax.numpy as jnp

import flm

heat = flm.PDE(
    domain=flm.Box(x=(0, 1), t=(0, 1)),
    equation=lambda u_t, u_xx: u_t - 0.1 * u_xx,
    conditions=[flm.initial(lambda x: jnp.sin(jnp.pi * x)), flm.dirichlet("x=0"), flm.dirichlet("x=1")],
    exact=lambda x, t: jnp.sin(jnp.pi * x) * jnp.exp(-0.1 * jnp.pi**2 * t),  # for errors() only: no solver sees it
)


def main() -> None:
    solution = flm.solve(heat, tol=1e-10)
    print(solution)
    print("true error ", solution.errors())
    print("u(0.3, 0.5)", solution(x=0.3, t=0.5), " u_xx", solution.d("xx")(x=0.3, t=0.5))
    print(solution.series)


if __name__ == "__main__":
    main()
