"""What the paper prints, read from `printed.toml`: the numbers of its tables, and of its text where it has no table."""

from __future__ import annotations

import tomllib
from importlib import resources

_PRINTED = tomllib.loads(resources.files("flm.paper").joinpath("printed.toml").read_text(encoding="utf-8"))

# Table 1 and the appendix: model -> words; model -> the formula of its parameters; model -> size -> number of them.
ARCHITECTURES: dict[str, str] = {name: model["words"] for name, model in _PRINTED["models"].items()}
PARAMETER_FORMULAS: dict[str, str] = {name: model["formula"] for name, model in _PRINTED["models"].items()}
_by_size = lambda parameters: {int(size): number for size, number in parameters.items()}
PARAMETERS: dict[str, dict[int, int]] = {n: _by_size(m["parameters"]) for n, m in _PRINTED["models"].items()}

# Table 2: problem -> model -> [MSE, MAE, largest error].
PDE_ERRORS: dict[str, dict[str, list[float]]] = _PRINTED["errors"]

# Errors of the cost of optimal control, in per cent from three starts; [MAPE, MAE] by the center of a disk, for five strategies.
FIXED_STARTS: list[float] = _PRINTED["control"]["fixed_starts"]
DISKS: dict[tuple[float, ...], list[float]] = {tuple(d["center"]): d["errors"] for d in _PRINTED["control"]["disks"]}
FIVE_STRATEGIES: list[float] = _PRINTED["control"]["five_strategies"]

# Missing rate -> model -> [MAE, standard deviation where it is given].
IMPUTATION: dict[float, dict[str, list[float]]] = {float(rate): v for rate, v in _PRINTED["imputation"].items()}
