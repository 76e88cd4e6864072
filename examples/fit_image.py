"""An image as a series of two inputs, beside SIREN of as many parameters in as much time.

f(x, y) = sum_n sum_i A_i cos((e_i * n) . (x, y) - phi_i): 64 x 64 pixels of two gratings, a soft disk and a shaded ground.
Frequencies start at peaks of the periodogram of what is left and move by variable projection. A few minutes, most of
them SIREN's, which gets the processor time of the FLM six times over.

    python examples/fit_image.py [--out image.png]
"""

import argparse
import time

import numpy as np
from siren_rival import train_siren  # first: it keeps JAX to one thread

import flm


def picture(side=64):
    """Points (P, 2) in [0, 1]^2 and gray values (P,)."""
    grid = (np.arange(side) + 0.5) / side
    x, y = (v.ravel() for v in np.meshgrid(grid, grid, indexing="ij"))
    radius = np.hypot(x - 0.6, y - 0.45)
    disk = 1 / (1 + np.exp((radius - 0.22) / 0.012))
    gratings = 0.3 * np.sin(2 * np.pi * (7.3 * x + 3.1 * y)) + 0.2 * np.cos(2 * np.pi * (2.2 * x - 11.6 * y))
    return np.stack([x, y], axis=1), 0.4 + 0.3 * x * y + disk * 0.5 + gratings * (1 - 0.7 * disk)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subnets", type=int, default=32)
    parser.add_argument("--out", help="write the picture, the fit and the error")
    options = parser.parse_args()
    X, values = picture()
    start = time.process_time()
    model = flm.FLMRegressor(options.subnets, frequencies="lines").fit(X, values)
    seconds = time.process_time() - start
    fitted = model.predict(X)
    error = np.sqrt(((fitted - values) ** 2).mean())
    parameters = 6 * options.subnets  # m + 2^m
    noise_ratio = 20 * np.log10(np.ptp(values) / error)
    print(f"FLM    {parameters} parameters, {seconds:.1f} s: peak signal to noise {noise_ratio:.1f} dB")
    rival, how = train_siren(2 * X - 1, values, parameters, seconds)
    noise_ratio = 20 * np.log10(np.ptp(values) / (rival * values.std()))
    print(f"SIREN  {parameters} parameters at most, {seconds:.1f} s: peak signal to noise {noise_ratio:.1f} dB ({how})")
    if options.out:
        from matplotlib.figure import Figure

        side = int(np.sqrt(len(X)))
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        panels = {"picture": values, "fit": fitted, "error": fitted - values}
        for panel, (name, image) in zip(figure.subplots(1, 3), panels.items(), strict=True):
            drawn = panel.imshow(image.reshape(side, side).T, origin="lower", cmap="gray", extent=(0, 1, 0, 1))
            panel.set_title(name)
            figure.colorbar(drawn, ax=panel)
        figure.savefig(options.out)


if __name__ == "__main__":
    main()
