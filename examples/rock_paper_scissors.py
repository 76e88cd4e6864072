"""Optimal control of a Rock-Paper-Scissors population: one law for a whole disk of initial states, and its images.

    u_i' = u_i ((e_i - u)' (L + gamma M) u),   minimize integral of |u - 1/3|^2 / 2 + gamma^2 / 10 over [0, 6]

    python examples/rock_paper_scissors.py              20 CPU seconds

The problem is written out here; `flm.problems.rock_paper_scissors` has it ready.
"""

import numpy as np

import flm


def dynamics(u1, u2, u3, gamma):
    """Replicator dynamics: a strategy grows as much as it earns more than the mean; gamma raises the price of a win."""
    win = 1 + gamma
    earn = (win * u3 - u2, win * u1 - u3, win * u2 - u1)
    mean = u1 * earn[0] + u2 * earn[1] + u3 * earn[2]
    return u1 * (earn[0] - mean), u2 * (earn[1] - mean), u3 * (earn[2] - mean)


game = flm.OptimalControl(
    dynamics=dynamics,
    running_cost=lambda u1, u2, u3, gamma, r: sum((u - 1 / 3) ** 2 for u in (u1, u2, u3)) / 2 + r / 2 * gamma**2,
    horizon=6.0,
    states=("u1", "u2", "u3"),
    controls=("gamma",),
    initial=flm.Ball((0.2, 0.2, 0.6), 0.15),
    parameters={"r": 0.2},
    on_simplex=True,
    symmetries="cyclic",
)


def main() -> None:
    solution = flm.solve(game, tol=1e-8)
    print(solution)
    for image, center in enumerate(((0.2, 0.2, 0.6), (0.2, 0.6, 0.2), (0.6, 0.2, 0.2))):
        x0 = game.sample(5, seed=image, image=image)
        print(f"fresh states near {np.round(x0.mean(axis=0), 1)}:", solution.compare("pontryagin", x0))
        print(
            f"  from {center}: cost {solution.cost(center):.12f}, control at t = 0 {solution.control(0.0, center):.8f}"
        )
    small = flm.solve(game, num_subnets=27)
    print("the paper's size:", small.compare("pontryagin", num_starts=5))
    t, many = np.linspace(0, 6, 101), game.sample(10_000, seed=9)
    print("controls of 10,000 initial states:", solution.control(t, many).shape)


if __name__ == "__main__":
    main()
