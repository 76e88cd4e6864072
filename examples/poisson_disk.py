"""Poisson's equation on a disk with a hole: conditions on parts of a curved boundary.

    u_xx + u_yy = -4 inside,   u = 1 - x^2 - y^2 on the hole,   u_n = -2 on the outer circle

    python examples/poisson_disk.py         6 CPU seconds

The solution is 1 - x^2 - y^2. A polynomial is no sum of cosines, and the hole is off center: nothing favors the series here.
"""

import flm

outer = flm.Disk(x=0, y=0, radius=1)
hole = flm.Disk(x=0.3, y=0, radius=0.3)
truth = lambda x, y: 1 - x**2 - y**2

problem = flm.PDE(
    domain=outer - hole,
    equation=lambda u_xx, u_yy: u_xx + u_yy + 4,
    conditions=[flm.dirichlet(hole, truth), flm.neumann(outer, -2.0)],
    exact=truth,
)


def main() -> None:
    solution = flm.solve(problem, tol=1e-8)
    print(solution)
    print("true error", solution.errors())
    print("u(-0.5, 0.2) =", solution(x=-0.5, y=0.2), "against", truth(-0.5, 0.2))


if __name__ == "__main__":
    main()
