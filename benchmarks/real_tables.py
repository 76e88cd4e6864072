"""Series and tables as people have them: FLMRegressor and FLMImputer beside rivals, with identical masks and seeds.

    python benchmarks/real_tables.py series          trend, outliers, growing and colored noise, sunspots
    python benchmarks/real_tables.py sunspots        a quarter held out, by --seeds masks, beside autoregressions of their roots
    python benchmarks/real_tables.py tables          imputation: generated, macroeconomic (statsmodels) and, with FLM_ETT, ETTh1
    python benchmarks/real_tables.py gaps            gaps of 6 and 24 rows in single series (statsmodels, generated, ETTh1)
    python benchmarks/real_tables.py wide            60 channels x 2,000 rows
    python benchmarks/real_tables.py cluster         10^8 rows x 257 columns on one and two workers of Dask; --rows for fewer

Rivals: scikit-learn's Gaussian process (a quasi-periodic kernel for series; by channel), boosted trees (of three rows to both
sides), IterativeImputer with lags of three rows, a lag ridge (six rows to both sides, five rounds), straight lines and, with
--saits, SAITS of PyPOTS. Times are processor seconds, one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections import Counter

import numpy as np
import pandas as pd
from data import MOST_ROWS, NETWORKS, PATIENCE, gaussian_process_fill
from scipy.signal import lfilter
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, WhiteKernel
from sklearn.impute import IterativeImputer

import flm
from flm.estimators.imputer.lags import straight


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def head(*cells):
    row(*cells)
    print("|" + "---|" * len(cells))


def gaussian_process(period):
    smooth = ConstantKernel() * RBF(1.0, (1e-2, 1e3))
    seasonal = (
        ConstantKernel() * RBF(10.0, (1e-1, 1e4)) * ExpSineSquared(1.0, period, (0.1, 10), (0.8 * period, 1.2 * period))
    )
    return GaussianProcessRegressor(smooth + seasonal + WhiteKernel(0.1), normalize_y=True, random_state=0)


def predictions(x, y, held, period):
    """Means and deviations by each method, boosted trees without deviations, and processor seconds."""
    models = {
        "FLMRegressor": flm.FLMRegressor(),
        "Gaussian process": gaussian_process(period),
        "boosted trees": HistGradientBoostingRegressor(random_state=0),
    }
    for name, model in models.items():
        start = time.process_time()
        model.fit(x[:, None], y)
        if name == "boosted trees":
            mean, std = model.predict(held[:, None]), np.full(len(held), np.nan)
        else:
            mean, std = model.predict(held[:, None], return_std=True)
        yield name, mean, std, time.process_time() - start


def two_waves(x):
    return np.sin(9 * x) + 0.5 * np.cos(31 * x)


def cases(seed):
    """Name: times, values, held times, their truth, noisy truth, period."""
    rng = np.random.default_rng(seed)
    t = np.arange(300) / 12
    f = 300 + 1.5 * t + 0.015 * t**2 + 3 * np.cos(2 * np.pi * t - 1) + 0.8 * np.cos(4 * np.pi * t)
    y = f + 0.3 * rng.normal(size=300)
    yield "trend and season, five years ahead", t[:240], y[:240], t[240:], f[240:], y[240:], 1.0
    x, held = np.sort(rng.uniform(0, 1, 400)), rng.uniform(0, 1, 2000)
    y, new = two_waves(x) + 0.2 * rng.normal(size=400), two_waves(held) + 0.2 * rng.normal(size=2000)
    yield "two waves", x, y, held, two_waves(held), new, 0.7
    spoiled = y + np.where(rng.random(400) < 0.05, 6 * rng.normal(size=400), 0)
    yield "two waves, 5 % outliers", x, spoiled, held, two_waves(held), new, 0.7
    from statsmodels.datasets import sunspots

    table = sunspots.load_pandas().data
    years, number = table["YEAR"].to_numpy(), table["SUNACTIVITY"].to_numpy()
    out = np.isin(np.arange(309), rng.choice(309, 77, replace=False))
    yield "sunspots, a quarter held out", years[~out], number[~out], years[out], number[out], number[out], 11.0


def series(seeds):
    print("\n### Series: error over the deviation of the values (share within the 95 % band), processor seconds\n")
    found = {}
    for seed in range(seeds):
        for name, x, y, held, truth, new, period in cases(seed):
            for method, mean, std, seconds in predictions(x, y, held, period):
                inside = (np.abs(new - mean) <= 1.96 * std).mean() if np.isfinite(std).all() else np.nan
                error = np.sqrt(((mean - truth) ** 2).mean()) / y.std()
                found.setdefault((name, method), []).append((error, inside, seconds))
    methods = list(dict.fromkeys(method for _, method in found))
    head("series", *methods)
    for name in dict.fromkeys(name for name, _ in found):
        means = [np.mean(found[name, method], axis=0) for method in methods]
        row(name, *(f"{e:.3f} ({i:.0%}), {s:.2g} s" if np.isfinite(i) else f"{e:.3f}, {s:.2g} s" for e, i, s in means))
    print(
        "\n### A line in AR(1) noise of its amplitude, 500 samples: false lines per series; true line within two errors\n"
    )
    head("correlation", "false lines", "within two errors")
    for rho in (0.0, 0.5, 0.7, 0.9):
        false, hits = 0, 0
        for seed in range(4 * seeds):
            rng = np.random.default_rng(seed)
            noise = np.zeros(500)
            noise[0] = rng.normal()
            for i in range(1, 500):
                noise[i] = rho * noise[i - 1] + np.sqrt(1 - rho**2) * rng.normal()
            t = np.arange(500.0)
            spectrum = flm.FLMRegressor().fit(t[:, None], np.cos(2 * np.pi * t / 17.3 + 1) + noise).spectrum_
            apart = np.abs(spectrum.frequency[:, 0] - 2 * np.pi / 17.3)
            false += int((apart > 0.01).sum())
            hits += bool(len(apart)) and bool(apart.min() < 2 * spectrum.frequency_error[int(np.argmin(apart)), 0])
        row(rho, f"{false / (4 * seeds):.2f}", f"{hits / (4 * seeds):.0%}")


def sunspots(seeds):
    """Beside autoregressions of order 9 of the square roots, one of which has seen the whole record, hidden values included."""
    from statsmodels.datasets import sunspots
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    table = sunspots.load_pandas().data
    years, number = table["YEAR"].to_numpy(), table["SUNACTIVITY"].to_numpy()
    roots = lambda values: SARIMAX(np.sqrt(values), order=(9, 0, 0), trend="c")
    smooth = lambda model, parameters: np.maximum(model["design"] @ model.smooth(parameters).smoothed_state, 0)[0] ** 2
    everything, found = roots(number).fit(disp=0, maxiter=300).params, {}
    for seed in range(seeds):
        out = np.isin(np.arange(309), np.random.default_rng(seed).choice(309, 77, replace=False))
        model = roots(np.where(out, np.nan, number))
        ways = {
            "FLMRegressor": flm.FLMRegressor().fit(years[~out, None], number[~out]).predict(years[:, None]),
            "autoregression of roots": smooth(model, model.fit(disp=0, maxiter=100).params),
            "the same, fitted to the whole record": smooth(model, everything),
            "straight lines": np.interp(years, years[~out], number[~out]),
        }
        for way, filled in ways.items():
            found.setdefault(way, []).append(np.sqrt(((filled - number)[out] ** 2).mean()) / number.std())
    head("sunspots, a quarter held out", "mean", "median", "least", "most")
    for way, errors in found.items():
        row(way, *(f"{f(errors):.3f}" for f in (np.mean, np.median, np.min, np.max)))


def tables():
    """Name: values (n, C), standardized."""
    rng = np.random.default_rng(0)
    t = np.arange(600)
    walk, slow = np.cumsum(rng.normal(size=600)), np.cumsum(rng.normal(size=600)) / 10
    waves = [np.sin(2 * np.pi * t / 24 + phase) + 0.3 * rng.normal(size=600) for phase in (0, 1)]
    found = {"random walks and days, 600 x 4": np.stack([walk, *waves, slow + np.cos(2 * np.pi * t / 24)], axis=1)}
    from statsmodels.datasets import macrodata

    found["macroeconomics, 203 x 12"] = macrodata.load_pandas().data.drop(columns=["year", "quarter"]).to_numpy(float)
    if os.environ.get("FLM_ETT"):
        frame = pd.read_csv(os.path.join(os.environ["FLM_ETT"], "ETTh1.csv"))
        found["ETTh1, the first 3,000 x 7"] = frame.iloc[:3000, 1:].to_numpy(float)
    return {name: (X - X.mean(axis=0)) / X.std(axis=0) for name, X in found.items()}


def hidden(shape, kind, rng):
    """A tenth or half of the values; or gaps of 24 rows, of each channel by itself or of all at once, with random starts."""
    out = np.zeros(shape, bool)
    if kind in ("10 %", "50 %"):
        out = rng.random(shape) < (0.1 if kind == "10 %" else 0.5)
    else:
        for start in range(12, shape[0] - 36, 72):
            first = start + rng.integers(0, 36, 1 if kind == "gaps of all" else shape[1])
            rows = np.arange(shape[0])[:, None]
            out |= (rows >= first) & (rows < first + 24)
    out[[0, -1]] = False
    return out


def with_lags(holed):
    """IterativeImputer on the table beside itself three rows earlier and later."""
    frame = pd.DataFrame(holed)
    wide = pd.concat([frame.shift(lag) for lag in (0, -3, -2, -1, 1, 2, 3)], axis=1).to_numpy()
    with warnings.catch_warnings(action="ignore"):
        return IterativeImputer(max_iter=5, random_state=0).fit_transform(wide)[:, : holed.shape[1]]


def boosted_trees(holed):
    """Every channel by boosted trees on all channels within three rows, holes as they are, but for two straight lines at first."""
    frame, filled = pd.DataFrame(holed), holed.copy()
    wide = pd.concat([frame.shift(lag) for lag in (0, -3, -2, -1, 1, 2, 3)], axis=1).to_numpy()
    lines = straight(np.arange(float(len(holed))), holed)
    for c, column in enumerate(holed.T):
        gone, columns = np.isnan(column), wide.copy()
        columns[:, c] = np.r_[lines[:1, c], (lines[:-2, c] + lines[2:, c]) / 2, lines[-1:, c]]
        trees = HistGradientBoostingRegressor(random_state=0).fit(columns[~gone], column[~gone])
        filled[gone, c] = trees.predict(columns[gone])
    return filled


def saits(holed, width=48):
    """SAITS of PyPOTS on windows of 48 rows, every 24; a tenth of the observed values tells when training ends."""
    import torch
    from pypots.imputation import SAITS

    torch.set_num_threads(1)
    torch.manual_seed(0)
    starts = sorted({*range(0, len(holed) - width, width // 2), len(holed) - width})
    windows = np.stack([holed[s : s + width] for s in starts])
    held = ~np.isnan(windows) & (np.random.default_rng(0).random(windows.shape) < 0.1)
    common = {"epochs": 200, "patience": PATIENCE, "device": "cpu", "verbose": False}
    model = SAITS(n_steps=width, n_features=holed.shape[1], **common, **NETWORKS["SAITS"])
    model.fit({"X": windows}, {"X": np.where(held, np.nan, windows), "X_ori": windows})
    filled = holed.copy()
    for start, window in zip(starts, model.impute({"X": windows}), strict=True):
        filled[start : start + width] = window
    return np.where(np.isnan(holed), filled, holed)


def lag_ridge(holed):
    """Every channel by ridge regression on all channels within six rows, five rounds, beginning with straight lines."""
    n, C = holed.shape
    missing, filled = np.isnan(holed), straight(np.arange(float(n)), holed)
    around = np.clip(np.arange(n)[:, None] + np.arange(-6, 7), 0, n - 1)
    for _ in range(5):
        after = filled.copy()
        for c in range(C):
            columns = filled[around]  # (n, lags, C)
            columns[:, 6, c] = 0.0
            columns, gone = columns.reshape(n, -1), missing[:, c]
            gram = columns[~gone].T @ columns[~gone] + np.eye(columns.shape[1])
            after[gone, c] = columns[gone] @ np.linalg.solve(gram, columns[~gone].T @ holed[~gone, c])
        filled = after
    return filled


def imputation(kinds, seeds, networks):
    """Several masks: one hides twenty values of a channel of a short table."""
    rivals = {"lag ridge": lag_ridge, "IterativeImputer with lags": with_lags, "boosted trees": boosted_trees}
    rivals |= {"Gaussian process": gaussian_process_fill} | ({"SAITS": saits} if networks else {})
    rivals["straight lines"] = lambda holed: straight(np.arange(float(len(holed))), holed)
    print("\n### Imputation: mean absolute error over hidden values, processor seconds of a mask\n")
    last = "worst channel over straight lines"
    head("table", "hidden", "FLMImputer (within 68 %, 95 % intervals)", *rivals, last)
    for name, X in tables().items():
        for kind in kinds:
            errors, seconds, inside = {way: [] for way in ("ours", *rivals)}, Counter(), []
            for seed in range(1, seeds + 1):
                mask = hidden(X.shape, kind, np.random.default_rng(seed))
                holed = np.where(mask, np.nan, X)
                for way in errors:
                    start = time.process_time()
                    if way == "ours":
                        found = flm.FLMImputer().fit(holed).impute(holed, fitted=True)
                        filled = np.asarray(found.values)
                        ends = [found.interval(level) for level in (0.68, 0.95)]
                        inside.append([((low <= X) & (high >= X))[mask].mean() for low, high in ends])
                    elif way == "Gaussian process" and len(X) > MOST_ROWS:
                        filled = np.full(X.shape, np.nan)
                    else:
                        filled = rivals[way](holed)
                    seconds[way] += (time.process_time() - start) / seeds
                    errors[way].append(np.where(mask, np.abs(filled - X), np.nan))
            every = {way: np.concatenate(of_way) for way, of_way in errors.items()}
            cells = {
                way: f"{np.nanmean(e):.4f}, {seconds[way]:.2g} s" if np.isfinite(e).any() else "too many rows"
                for way, e in every.items()
            }
            cover = "({:.0%}, {:.0%})".format(*np.mean(inside, axis=0))
            worst = np.max(np.nanmean(every["ours"], axis=0) / np.nanmean(every["straight lines"], axis=0))
            row(name, kind, cells.pop("ours").replace(",", f" {cover},"), *cells.values(), f"{worst:.2f}")


def single_series():
    """Name: values (n, 1), standardized."""
    from statsmodels.datasets import co2, elnino, macrodata, sunspots

    macro = macrodata.load_pandas().data
    found = {
        "El Niño by months": elnino.load_pandas().data.iloc[:, 1:].to_numpy(float).ravel(),
        "carbon dioxide by months": co2.load_pandas().data["co2"].resample("MS").mean().interpolate().to_numpy(),
        "sunspots by years": sunspots.load_pandas().data["SUNACTIVITY"].to_numpy(),
        "inflation by quarters": macro["infl"].to_numpy(),
        "unemployment by quarters": macro["unemp"].to_numpy(),
    }
    for rho in (0.5, 0.9, 0.99):
        found[f"AR(1) of {rho}"] = lfilter([1], [1, -rho], np.random.default_rng(3).normal(size=700))
    if os.environ.get("FLM_ETT"):
        frame = pd.read_csv(os.path.join(os.environ["FLM_ETT"], "ETTh1.csv"))
        found |= {"ETTh1, OT, 3,000 hours": frame["OT"][:3000], "ETTh1, HUFL, 3,000 hours": frame["HUFL"][3000:6000]}
        found |= {"ETTh1, OT, 800 hours": frame["OT"][6000:6800], "ETTh1, HUFL, 800 hours": frame["HUFL"][7000:7800]}
    return {name: ((x - np.mean(x)) / np.std(x))[:, None] for name, x in ((n, np.asarray(x)) for n, x in found.items())}


def gaps(seeds):
    print(
        "\n### Gaps of a single series, a third of its rows: mean absolute error, share within 68 % and 95 % intervals\n"
    )
    head("series", "rows", "gaps", "FLMImputer", "68 %, 95 %", "straight lines")
    for name, X in single_series().items():
        for gap in (6, 24):
            found = []
            for seed in range(seeds):
                rng, mask = np.random.default_rng(seed), np.zeros(X.shape, bool)
                for start in range(gap // 2, len(X) - gap - gap // 2, 3 * gap):
                    first = start + rng.integers(0, gap + gap // 2)
                    mask[first : first + gap] = True
                mask[[0, -1]] = False
                holed = np.where(mask, np.nan, X)
                ours = flm.FLMImputer().fit(holed).impute(holed, fitted=True)
                inside = [((low < X) & (high > X))[mask].mean() for low, high in map(ours.interval, (0.68, 0.95))]
                lines = straight(np.arange(float(len(X))), holed)
                found.append([*(np.abs(f - X)[mask].mean() for f in (ours.values, lines)), *inside])
            ours, lines, *inside = np.mean(found, axis=0)
            row(name, len(X), gap, f"{ours:.3f}", "{:.0%}, {:.0%}".format(*inside), f"{lines:.3f}")


def wide():
    rng = np.random.default_rng(0)
    t = np.arange(2000.0)
    base = np.stack([np.sin(2 * np.pi * t / p + rng.uniform(0, 6)) for p in (24, 12, 168, 31, 55, 400)], axis=1)
    X = base @ rng.normal(size=(6, 60)) + 0.3 * rng.normal(size=(2000, 60))
    mask = hidden(X.shape, "10 %", rng)
    start = time.process_time()
    filled = flm.FLMImputer().fit_transform(np.where(mask, np.nan, X))
    error = np.abs(filled - X)[mask].mean()
    print(
        f"60 channels x 2,000 rows: {time.process_time() - start:.1f} processor seconds, error {error:.3f} (noise 0.3)"
    )


def cluster(rows):
    import dask.array as da
    from distributed import Client, LocalCluster

    for workers in (1, 2):
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as local,
            Client(local) as client,
        ):
            X = da.random.default_rng(0).uniform(size=(rows, 2), chunks=(min(200_000, rows // 8), 2))
            y = da.sin(40 * X[:, 0]) * da.cos(9 * X[:, 1]) + 0.1 * da.random.default_rng(1).normal(
                size=rows, chunks=X.chunks[0]
            )
            start = time.time()
            model = flm.FLMRegressor(max_columns=257).fit(X, y)
            seconds = time.time() - start
            peak = max(client.run(lambda: __import__("resource").getrusage(0).ru_maxrss).values()) / 2**20
            print(
                f"{rows:,} rows, {workers} workers: {seconds:.0f} s, {peak:.2f} GiB a worker, noise {model.noise_:.4f}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["series", "sunspots", "tables", "gaps", "wide", "cluster"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kinds", default="10 %,50 %,gaps of one,gaps of all")
    parser.add_argument("--saits", action="store_true", help="tables beside SAITS too: needs pypots, torch==2.13.0")
    parser.add_argument("--rows", type=int, default=100_000_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.part == "series":
        series(options.seeds)
    elif options.part == "sunspots":
        sunspots(options.seeds)
    elif options.part == "tables":
        imputation(options.kinds.split(","), options.seeds, options.saits)
    elif options.part == "gaps":
        gaps(options.seeds)
    elif options.part == "wide":
        wide()
    else:
        cluster(options.rows)


if __name__ == "__main__":
    main()
