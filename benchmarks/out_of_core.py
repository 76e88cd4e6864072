"""Least squares on more rows than memory holds: a stream of chunks through `FLMRegressor.fit`.

    python benchmarks/out_of_core.py                                  10^7 rows x 513 columns; minutes of one core
    python benchmarks/out_of_core.py --rows 200000 --subnets 33       a small one

The matrix would take 8 rows columns bytes (41 GB for the default); the peak printed is that of the whole process. Rows are
made chunk by chunk and never kept.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import resource
import time

import numpy as np

import flm


def chunks(rows, size, noise=0.5):
    """Rows of a signal with sixty harmonics and a kink, in noise."""
    for i in range(-(-rows // size)):
        rng = np.random.default_rng(i)
        n = min(size, rows - i * size)
        x = rng.uniform(0, 1, (n, 1))
        yield x, signal(x[:, 0]) + noise * rng.normal(size=n)


def signal(x):
    waves = sum(np.sin(2 * np.pi * k * x + k) / k for k in range(1, 61))
    return waves + np.abs(x - 0.3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--subnets", type=int, default=257)
    parser.add_argument("--chunk", type=int, default=100_000)
    options = parser.parse_args()
    start, cpu = time.perf_counter(), time.process_time()
    model = flm.FLMRegressor(options.subnets, frequencies="lattice", bounds=[[0, 1]], max_columns=2 * options.subnets)
    model.fit(chunks(options.rows, options.chunk))
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # KiB on Linux
    grid = np.linspace(0, 1, 5001)[:, None]
    error = np.sqrt(((model.predict(grid) - signal(grid[:, 0])) ** 2).mean())
    columns = model._fitted.design.waves.num_columns
    print(f"{options.rows:,} rows x {columns} columns ({8 * options.rows * columns / 1e9:.1f} GB as a matrix)")
    print(f"peak memory {peak:.2f} GiB, {wall:.0f} s ({cpu:.0f} s of the processor)")
    print(f"root mean square error of the function {error:.5f}, noise {model.noise_:.5f} (0.5 put in)")


if __name__ == "__main__":
    main()
