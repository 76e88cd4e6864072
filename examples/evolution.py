"""Evolution equations marched in closed form: two solitons, Kuramoto-Sivashinsky, Gray-Scott, a vortex pair.

u_t + u u_x + 0.0025 u_xxx = 0, u_t + u u_x + u_xx + u_xxxx = 0, u_t = d Δu + f (1 - u) - u v^2 with its v, and
w_t + s_y w_x - s_x w_y = 0.005 Δw with Δs = -w, all periodic

python examples/evolution.py figures              about a minute: four figures and an animation in the folder `figures`
python examples/evolution.py figures solitons     one of solitons, chaos, spots, vortices: some seconds
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter

import flm

PI = np.pi


def solitons() -> flm.PDE:
    wave = lambda x, c, place: 3 * c / jnp.cosh(jnp.sqrt(c / 0.0025) / 2 * (x - place)) ** 2
    return flm.PDE(
        flm.Box(x=(0, 4), t=(0, 3)),
        lambda u, u_t, u_x, u_xxx: u_t + u * u_x + 0.0025 * u_xxx,
        [flm.initial(lambda x: wave(x, 0.6, 0.8) + wave(x, 0.2, 1.8)), flm.periodic("x")],
    )


def chaos() -> flm.PDE:
    return flm.PDE(
        flm.Box(x=(0, 32 * PI), t=(0, 60)),
        lambda u, u_t, u_x, u_xx, u_xxxx: u_t + u * u_x + u_xx + u_xxxx,
        [flm.initial(lambda x: jnp.cos(x / 16) * (1 + jnp.sin(x / 16))), flm.periodic("x")],
    )


def spots() -> flm.PDE:
    bump = lambda x, y: jnp.exp(-40 * ((x - 1) ** 2 + 2 * (y - 1) ** 2))
    return flm.PDE(
        flm.Box(x=(0, 2), y=(0, 2), t=(0, 400)),
        [
            lambda u, v, u_t, u_xx, u_yy: u_t - 1e-4 * (u_xx + u_yy) - 0.035 * (1 - u) + u * v**2,
            lambda u, v, v_t, v_xx, v_yy: v_t - 5e-5 * (v_xx + v_yy) + 0.1 * v - u * v**2,
        ],
        [
            flm.initial(lambda x, y: 1 - 0.5 * bump(x, y)),
            flm.initial(lambda x, y: 0.4 * bump(x, y), unknown="v"),
            flm.periodic("x"),
            flm.periodic("y"),
        ],
        unknowns=("u", "v"),
    )


def vortices() -> flm.PDE:
    eddy = lambda x, y, a, b: jnp.exp(-6 * ((x - a) ** 2 + (y - b) ** 2))
    # The mean of the vorticity must be zero for a stream function to exist on a torus.
    start = lambda x, y: 5 * (eddy(x, y, PI, PI + 0.5) + eddy(x, y, PI, PI - 0.5)) - 5 * 2 * PI / 6 / (4 * PI**2)
    return flm.PDE(
        flm.Box(x=(0, 2 * PI), y=(0, 2 * PI), t=(0, 4)),
        [
            lambda w_t, w_x, w_y, s_x, s_y, w_xx, w_yy: w_t + s_y * w_x - s_x * w_y - 0.005 * (w_xx + w_yy),
            lambda w, s_xx, s_yy: s_xx + s_yy + w,
        ],
        [flm.initial(start, unknown="w"), flm.periodic("x"), flm.periodic("y")],
        unknowns=("w", "s"),
    )


PROBLEMS = {"solitons": (solitons, 1e-4), "chaos": (chaos, 1e-2), "spots": (spots, 1e-2), "vortices": (vortices, 1e-2)}


def frames(solution: flm.Solution, unknown: str, times: np.ndarray, n: int = 121) -> np.ndarray:
    """An unknown of two space axes on a grid at some times, (times, n, n)."""
    (x0, x1), (y0, y1), _ = solution.bounds
    x, y = np.linspace(x0, x1, n), np.linspace(y0, y1, n)
    return np.stack([np.asarray(solution[unknown](x=x[:, None], y=y, t=t)).T for t in times])


def draw(name: str, solution: flm.Solution, folder: Path) -> None:
    if len(solution.axes) == 2:
        solution.plot(shape=201).savefig(folder / f"{name}.png", dpi=120)
        return
    unknown, times = solution.unknowns[0] if name == "vortices" else "v", np.linspace(0, solution.reach[2, 1], 4)
    shown = frames(solution, unknown, times)
    figure, panels = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
    for panel, values, t in zip(panels, shown, times, strict=True):
        panel.imshow(values, origin="lower", extent=solution.bounds[:2].ravel(), vmin=shown.min(), vmax=shown.max())
        panel.set_title(f"{unknown} at t = {t:.3g}")
    figure.savefig(folder / f"{name}.png", dpi=120)
    if name == "vortices":
        animate(frames(solution, unknown, np.linspace(0, solution.reach[2, 1], 32), 81), folder / f"{name}.gif")


def animate(shown: np.ndarray, path: Path) -> None:
    figure, panel = plt.subplots(figsize=(3, 3))
    panel.set_axis_off()
    figure.subplots_adjust(0, 0, 1, 1)
    image = panel.imshow(shown[0], origin="lower", vmin=shown.min(), vmax=shown.max())
    movie = FuncAnimation(figure, lambda i: image.set_data(shown[i]), frames=len(shown))
    movie.save(path, PillowWriter(fps=8), dpi=60)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "figures")
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or PROBLEMS:
        make, tol = PROBLEMS[name]
        solution = flm.solve(make(), tol, method="march")
        print(name, solution, sep="\n")
        draw(name, solution, folder)


if __name__ == "__main__":
    main()
