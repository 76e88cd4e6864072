"""A short sound as a nonharmonic Fourier series, beside SIREN of as many parameters in as much time.

y(t) = offset + sum_n A_n cos(w_n t - phi_n): three struck strings, each a handful of slightly inharmonic, decaying partials,
0.25 s at 8 kHz. Frequencies start at peaks of the periodogram and move by variable projection. A minute or two, most of it
SIREN's, which gets the processor time of the FLM six times over.

    python examples/fit_sound.py [--out sound.png]
"""

import argparse
import time

import numpy as np
from siren_rival import train_siren  # first: it keeps JAX to one thread

import flm

RATE = 8000


def strings(seconds=0.25):
    """Time and pressure of a chord: partial k of a string at f_0 k sqrt(1 + B k^2), decaying faster the higher it is."""
    t = np.arange(int(seconds * RATE)) / RATE
    rng = np.random.default_rng(0)
    y = np.zeros(len(t))
    for fundamental, onset in ((196.0, 0.0), (246.9, 0.02), (293.7, 0.04)):
        for k in range(1, 7):
            f = fundamental * k * np.sqrt(1 + 4e-4 * k**2)
            later = np.maximum(t - onset, 0)
            y += np.exp(-later * (4 + 3 * k)) * (t >= onset) * np.sin(2 * np.pi * f * later + rng.uniform(0, 6)) / k
    return t, y


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=64)
    parser.add_argument("--out", help="write a figure of the spectrum")
    options = parser.parse_args()
    t, y = strings()
    start = time.process_time()
    model = flm.FLMRegressor(options.lines + 1, frequencies="lines").fit(t[:, None], y)
    seconds = time.process_time() - start
    error = np.sqrt(((model.predict(t[:, None]) - y) ** 2).mean()) / y.std()
    parameters = 3 * options.lines + 1  # frequency, amplitude and phase of a line, and the offset
    print(
        f"FLM    {parameters} parameters, {seconds:.1f} s: relative error {error:.4f} ({-20 * np.log10(error):.1f} dB)"
    )
    print(model.spectrum_)
    z = (2 * (t - t.mean()) / np.ptp(t))[:, None]
    rival, how = train_siren(z, y, parameters, seconds)
    print(f"SIREN  {parameters} parameters at most, {seconds:.1f} s: relative error {rival:.4f} ({how})")
    if options.out:
        model.spectrum_.plot().savefig(options.out)


if __name__ == "__main__":
    main()
