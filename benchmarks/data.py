"""Data: FLMRegressor and FLMImputer beside scikit-learn's Gaussian processes, kernel ridge, random features, interpolation.

    python benchmarks/data.py                       regression and imputation of generated data, a minute or two of one core
    FLM_ETT=/folder/with/ETTh1.csv python benchmarks/data.py --etth1     adds one mask of ETTh1
    FLM_ETT=… python benchmarks/data.py --saits     instead: SAITS, iTransformer and BRITS of PyPOTS on the same masks

Every rival is tuned as its users would: the Gaussian process by marginal likelihood (one length scale per feature, three
starts), kernel ridge and random Fourier features by cross-validation over 24 pairs of width and ridge. FLMRegressor and
FLMImputer get no options. Errors are of the function without its noise, over held-out points, in units of the noise put in;
times are processor seconds of fit and prediction, one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib
import importlib.util
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import flm

WIDTHS, RIDGES = [0.05, 0.3, 1.0, 5.0, 30.0, 200.0], [1e-3, 1e-2, 1e-1, 1.0]
FIVE = 2 * np.pi * np.array([1.41, 4.28, 7.67, 18.8, 35.3])
MOST_ROWS = 2000  # for rivals that are cubic in the rows


def friedman(X):
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


# name: (features, function on the unit cube, noise, rows)
FUNCTIONS = {
    "five sinusoids, 0 dB": (1, lambda X: np.sqrt(0.4) * np.cos(X * FIVE + FIVE**2).sum(axis=1), 1.0, 400),
    "kink": (1, lambda X: np.abs(X[:, 0] - 0.4), 0.05, 300),
    "chirp": (1, lambda X: np.sin(40 * X[:, 0] ** 2), 0.2, 300),
    "surface": (2, lambda X: np.sin(5 * X[:, 0]) * np.cos(3 * X[:, 1] ** 2), 0.1, 300),
    "Friedman, 10 features": (10, friedman, 1.0, 400),
    "chirp, 20,000 rows": (1, lambda X: np.sin(40 * X[:, 0] ** 2), 0.2, 20_000),
}


def gaussian_process(m):
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.full(m, 0.3), (1e-3, 1e3)) + WhiteKernel(0.1, (1e-8, 10))
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0)
    return make_pipeline(StandardScaler(), model)


def kernel_ridge(m):
    grid = {"gamma": [w / m for w in WIDTHS], "alpha": RIDGES}
    return make_pipeline(StandardScaler(), GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=3))


def random_features(m):
    piped = make_pipeline(StandardScaler(), RBFSampler(n_components=400, random_state=0), Ridge())
    grid = {"rbfsampler__gamma": [w / m for w in WIDTHS], "ridge__alpha": RIDGES}
    return GridSearchCV(piped, grid, cv=3)


RIVALS = {
    "FLMRegressor": (lambda m: flm.FLMRegressor(), True, None),
    "GaussianProcessRegressor": (gaussian_process, True, MOST_ROWS),
    "KernelRidge": (kernel_ridge, False, MOST_ROWS),
    "random Fourier features": (random_features, False, None),
}


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def head(*cells):
    row(*cells)
    print("|" + "---|" * len(cells))


def regression(seeds):
    print("\n### Regression: error of the function over the noise (within 68 %, 95 % bands), processor seconds\n")
    head("data", *RIVALS)
    for name, (m, f, noise, n) in FUNCTIONS.items():
        cells = []
        for make, has_bars, most in RIVALS.values():
            if most is not None and n > most:
                cells.append("too many rows")
                continue
            runs = [_regression_run(make(m), m, f, noise, n, seed, has_bars) for seed in range(seeds)]
            error, one, two, seconds = np.mean(runs, axis=0)
            bars = f" ({one:.0%}, {two:.0%})" if has_bars else ""
            cells.append(f"{error:.3f}{bars}, {seconds:.2g} s")
        row(name, *cells)


def _regression_run(model, m, f, noise, n, seed, has_bars):
    rng = np.random.default_rng(seed)
    X, held = rng.uniform(0, 1, (n, m)), rng.uniform(0, 1, (2000, m))
    y = f(X) + noise * rng.normal(size=n)
    start = time.process_time()
    model.fit(X, y)
    mean, std = model.predict(held, return_std=True) if has_bars else (model.predict(held), np.full(2000, np.nan))
    seconds = time.process_time() - start
    surprise = np.abs(mean - f(held) - noise * rng.normal(size=2000)) / std
    error = np.sqrt(((mean - f(held)) ** 2).mean()) / noise
    return error, (surprise <= 1).mean(), (surprise <= 1.96).mean(), seconds


def channels(n, C, seed):
    """A daily cycle and a slow wave in every channel, the channels related, in noise of 0.1."""
    rng = np.random.default_rng(seed)
    t = np.arange(float(n))
    slow = np.convolve(rng.normal(size=n + 60), np.hanning(41) / 4, "valid")[:n]
    waves = [(1 + 0.3 * c) * np.sin(2 * np.pi * t / 24 + 0.4 * c) + (0.5 + c) * slow for c in range(C)]
    return np.stack(waves, axis=1) + 0.1 * rng.normal(size=(n, C))


def hidden_values(shape, kind, rng):
    """A fifth of the points, or one gap of 12 hours per channel and two days."""
    if kind == "points":
        hidden = rng.random(shape) < 0.2
    else:
        hidden = np.zeros(shape, bool)
        for start in range(0, shape[0] - 47, 48):
            for c in range(shape[1]):
                first = start + rng.integers(6, 30)
                hidden[first : first + 12, c] = True
    hidden[[0, -1]] = False
    return hidden


def interpolate(holed):
    rows = np.arange(len(holed))
    seen = ~np.isnan(holed)
    columns = [np.interp(rows, rows[ok], column[ok]) for column, ok in zip(holed.T, seen.T, strict=True)]
    return np.stack(columns, axis=1)


def gaussian_process_fill(holed):
    """A Gaussian process per channel, periodic part included: what a user of scikit-learn would write."""
    from sklearn.gaussian_process.kernels import ExpSineSquared

    filled, rows = holed.copy(), np.arange(float(len(holed)))[:, None]
    for column in filled.T:
        seen = ~np.isnan(column)
        kernel = ConstantKernel() * RBF(8.0) + ConstantKernel() * ExpSineSquared(1.0, 24.0, (1e-2, 1e2), (20, 30))
        kernel = kernel + WhiteKernel(0.1)
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(rows[seen], column[seen])
        column[~seen] = model.predict(rows[~seen])
    return filled


def imputation(seeds):
    print(
        "\n### Imputation, three related channels, 480 hours: mean absolute error over hidden values, processor seconds\n"
    )
    ways = {
        "FLMImputer": lambda holed: flm.FLMImputer().fit_transform(holed),
        "linear interpolation": interpolate,
        "GaussianProcessRegressor per channel": gaussian_process_fill,
    }
    head("method", "points, 20 %", "gaps of 12 h")
    for name, fill in ways.items():
        cells = []
        for kind in ("points", "gaps"):
            errors, seconds = [], []
            for seed in range(seeds):
                X = channels(480, 3, seed)
                hidden = hidden_values(X.shape, kind, np.random.default_rng(100 + seed))
                start = time.process_time()
                filled = fill(np.where(hidden, np.nan, X))
                seconds.append(time.process_time() - start)
                errors.append(np.abs(filled - X)[hidden].mean())
            cells.append(f"{np.mean(errors):.3f}, {np.mean(seconds):.2g} s")
        row(name, *cells)


def etth1(folder, rates, networks, epochs=0):
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    protocol = importlib.import_module("etth1")
    frame = protocol.load(folder)
    for rate in rates:
        print(
            f"\n### ETTh1, seven channels, windows of 48 h, {rate:.0%} of the values hidden, mask 0: mean absolute error\n"
        )
        head("method", "error", "s")
        hide = lambda shape, rng, r=rate: protocol.hide_points(shape, r, rng)
        run = protocol.seven_channels(frame, 0, hide)
        row("FLMImputer", f"{run['mae']:.4f}", f"{run['fit_seconds'] + run['fill_seconds']:.0f}")
        row("linear interpolation within windows", f"{run['linear']:.4f}", "0")
        rng, parts = np.random.default_rng(0), protocol.months(frame)
        hidden = [hide(part.shape, rng) for part in parts]  # the masks of `seven_channels`
        for name in networks:
            start = time.process_time()
            error, epoch = network_error(name, [p.to_numpy() for p in parts], hidden, protocol.WINDOW, epochs)
            row(
                f"{name} (PyPOTS), at most {epochs} epochs, best: {epoch}",
                f"{error:.4f}",
                f"{time.process_time() - start:.0f}",
            )


# Sizes as PyPOTS documents them; training ends when the validation months have not improved for PATIENCE epochs.
NETWORKS = {
    "SAITS": {"n_layers": 2, "d_model": 256, "n_heads": 4, "d_k": 64, "d_v": 64, "d_ffn": 128},
    "iTransformer": {"n_layers": 2, "d_model": 256, "n_heads": 4, "d_k": 64, "d_v": 64, "d_ffn": 256},
    "BRITS": {"rnn_hidden_size": 128},
}
PATIENCE = 10


def network_error(name, parts, hidden, window, epochs):
    """A network of PyPOTS trained on the holed training months: its error over hidden test values, and its best epoch."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    windows = lambda a: a[: len(a) // window * window].reshape(-1, window, a.shape[1])
    whole = [windows(part) for part in parts]
    holed = [np.where(windows(mask), np.nan, part) for part, mask in zip(whole, hidden, strict=True)]
    model = getattr(importlib.import_module("pypots.imputation"), name)(
        n_steps=window,
        n_features=parts[0].shape[1],
        epochs=epochs,
        patience=PATIENCE,
        device="cpu",
        verbose=False,
        **NETWORKS[name],
    )
    model.fit({"X": holed[0]}, {"X": holed[1], "X_ori": whole[1]})
    filled = model.impute({"X": holed[2]})
    return np.abs(filled - whole[2])[windows(hidden[2])].mean(), model.best_epoch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--etth1", action="store_true", help="needs FLM_ETT")
    parser.add_argument(
        "--saits", action="store_true", help="ETTh1 alone, with networks of PyPOTS: needs FLM_ETT, pypots"
    )
    parser.add_argument("--rates", default="0.5", help="shares of ETTh1 that are hidden")
    parser.add_argument("--epochs", type=int, default=200, help="the most epochs that a network is trained")
    options = parser.parse_args()
    if options.saits and importlib.util.find_spec("pypots") is None:
        parser.error("--saits must have PyPOTS to run; got no module named pypots. pip install pypots torch==2.13.0")
    if (options.etth1 or options.saits) and not os.environ.get("FLM_ETT"):
        parser.error("--etth1 and --saits must have FLM_ETT to name the folder of ETTh1.csv.")
    warnings.simplefilter("ignore", ConvergenceWarning)
    if not options.saits:
        regression(options.seeds)
        imputation(options.seeds)
    if options.etth1 or options.saits:
        networks = NETWORKS if options.saits else ()
        etth1(os.environ["FLM_ETT"], map(float, options.rates.split(",")), networks, options.epochs)


if __name__ == "__main__":
    main()
