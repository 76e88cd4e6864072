"""Filling holes in the ETTh1 data: seven channels by the benchmark's protocol, and oil temperature alone.

Protocol of TSI-Bench (arXiv 2406.12747): 14 / 5 / 5 months for training, validation and test, scaled by the training months,
windows of 48 hours without overlap, every value hidden with the same probability in all three parts, a window filled from
its own observed values, mean absolute error over the hidden test values of all seven channels.

    FLM_ETT=/folder/with/ETTh1.csv python examples/etth1.py            # about ten minutes on one core
    FLM_ETT=… python examples/etth1.py --seeds 1 --rates 0.5 --quick   # one fit

Seconds are those of the processor. The numbers of oil temperature alone are another problem and stand in a table of their own,
which `flm paper` has for the paper's recipe too.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd

import flm

WINDOW = 48


def load(folder):
    """The table of ETTh1.csv with its clock."""
    return pd.read_csv(Path(folder) / "ETTh1.csv", parse_dates=["date"]).set_index("date")


def months(frame):
    """Training, validation and test months, scaled by the training months."""
    month = frame.index.to_period("M")
    unique = month.unique()
    parts = [frame[month.isin(unique[a:b])] for a, b in ((0, 14), (14, 19), (19, 24))]
    center, spread = parts[0].mean(), parts[0].std(ddof=0)
    return [(part - center) / spread for part in parts]


def hide_points(shape, rate, rng):
    """Each value with probability `rate`."""
    return rng.random(shape) < rate


def hide_blocks(shape, hours, rng):
    """In every window of 48 hours and every channel, one gap of so many hours at a random place."""
    hidden = np.zeros(shape, bool)
    for start in range(0, shape[0], WINDOW):
        for channel in range(shape[1]):
            first = start + rng.integers(0, WINDOW - hours + 1)
            hidden[first : first + hours, channel] = True
    return hidden


def linear(frame, width=None):
    """Linear interpolation per channel (within windows of `width` rows), the nearest value at the ends, else zero."""
    values = frame.to_numpy().copy()
    width = width or len(values)
    for start in range(0, len(values), width):
        block = values[start : start + width]
        rows = np.arange(len(block))
        for column in block.T:
            seen = ~np.isnan(column)
            column[~seen] = np.interp(rows[~seen], rows[seen], column[seen]) if seen.any() else 0.0
    return values


def seven_channels(frame, seed, hide, overlap=False):
    """One run of the benchmark's protocol."""
    rng = np.random.default_rng(seed)
    parts = months(frame)
    hidden = [hide(part.shape, rng) for part in parts]
    train, _, test = (part.mask(mask) for part, mask in zip(parts, hidden, strict=True))
    start = time.process_time()
    imputer = flm.FLMImputer(window=WINDOW, overlap=overlap).fit(train)
    fitted = time.process_time()
    filled = imputer.impute(test)
    whole = len(test) // WINDOW * WINDOW  # the benchmark drops a last, incomplete window
    mask = hidden[2].copy()
    mask[whole:] = False
    truth = parts[2].to_numpy()
    error = np.abs(filled.values.to_numpy() - truth)[mask]
    std = filled.std.to_numpy()[mask]
    result = {
        "mae": error.mean(),
        "linear": np.abs(linear(test, WINDOW) - truth)[mask].mean(),
        "fit_seconds": fitted - start,
        "fill_seconds": time.process_time() - fitted,
        "within_1_std": (error <= std).mean(),
        "within_1.96_std": (error <= 1.96 * std).mean(),
    }
    for level in (0.68, 0.95):
        low, high = (end.to_numpy() for end in filled.interval(level))
        result[f"interval_{level}"] = ((low <= truth) & (truth <= high))[mask].mean()
    return result


def oil_temperature(frame, seed, rate):
    """Oil temperature alone, 60 / 20 / 20 per cent as in the paper, scored on hidden values of the last part."""
    series = frame[["OT"]]
    n = len(series)
    train = series.iloc[: int(0.6 * n)]
    series = (series - train.mean()) / train.std(ddof=0)
    rng = np.random.default_rng(seed)
    hidden = hide_points(series.shape, rate, rng)
    test = np.arange(n) >= int(0.8 * n)
    mask = hidden[:, 0] & test
    holed = series.mask(hidden)
    truth = series["OT"].to_numpy()[mask]
    start = time.process_time()
    filled = flm.FLMImputer().fit(holed).impute(holed).values["OT"].to_numpy()[mask]
    seconds = time.process_time() - start
    seen = (~hidden[:, 0]) & test
    return {
        "mae": np.abs(filled - truth).mean(),
        "linear": np.abs(linear(holed)[mask, 0] - truth).mean(),
        "mean_of_observed": np.abs(series["OT"].to_numpy()[seen].mean() - truth).mean(),
        "seconds": seconds,
    }


def table(title, rows):
    """Print runs as mean (standard deviation over seeds)."""
    print(f"\n{title}")
    for name, runs in rows:
        cells = {key: np.array([run[key] for run in runs]) for key in runs[0]}
        text = "  ".join(f"{key} {v.mean():.4f} ({v.std(ddof=1) if len(v) > 1 else 0:.4f})" for key, v in cells.items())
        print(f"  {name:<24} {text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("FLM_ETT"), help="folder with ETTh1.csv (default: FLM_ETT)")
    parser.add_argument("--seeds", type=int, default=5, help="mask seeds")
    parser.add_argument("--rates", default="0.1,0.5,0.9", help="missing rates")
    parser.add_argument("--quick", action="store_true", help="seven channels only")
    options = parser.parse_args()
    if not options.data:
        parser.error("--data or FLM_ETT must name the folder with ETTh1.csv.")
    frame = load(options.data)
    rates = [float(rate) for rate in options.rates.split(",")]
    seeds = range(options.seeds)

    for rate in rates:
        runs = [seven_channels(frame, seed, lambda shape, rng, r=rate: hide_points(shape, r, rng)) for seed in seeds]
        table(f"Seven channels, windows of 48 h, {rate:.0%} of points hidden", [("coupled FLM", runs)])
    if options.quick:
        return
    for hours in (12, 24):
        runs = [seven_channels(frame, seed, lambda shape, rng, h=hours: hide_blocks(shape, h, rng)) for seed in seeds]
        table(f"Seven channels, one gap of {hours} h per window and channel", [("coupled FLM", runs)])
    runs = [seven_channels(frame, s, lambda shape, rng: hide_points(shape, 0.5, rng), overlap=True) for s in seeds]
    table("Seven channels, 50% hidden, windows that overlap (beyond the protocol)", [("coupled FLM", runs)])
    for rate in rates:
        runs = [oil_temperature(frame, seed, rate) for seed in seeds]
        table(f"Oil temperature alone, 60/20/20, {rate:.0%} of points hidden", [("dense FLM", runs)])


if __name__ == "__main__":
    main()
