"""What the paper prints: every number of its tables, and of its text where it has no table, written down once."""

from __future__ import annotations

# Table 1: the models that the FLM is compared with (all with N_hidden neurons per hidden layer).
ARCHITECTURES = {
    "siren-1": "SIREN, 1 hidden layer, ω0 = 1",
    "siren-2": "SIREN, 2 hidden layers, ω0 = 1",
    "siren-3": "SIREN, 3 hidden layers, ω0 = 1",
    "relu": "feedforward, ReLU, 3 hidden layers",
    "leaky-relu": "feedforward, leaky ReLU, 3 hidden layers",
    "tanh": "feedforward, tanh, 3 hidden layers",
}

# Table 2: problem -> model -> (MSE, MAE, largest error), after the selection and 30,000 more epochs.
PDE_ERRORS = {
    "heat": {
        "flm": (6.24e-8, 2.01e-4, 7.37e-4),
        "siren-1": (5.07e-7, 5.29e-4, 1.97e-3),
        "siren-2": (3.07e-6, 1.18e-3, 8.06e-3),
        "siren-3": (5.40e-5, 3.90e-3, 2.00e-2),
        "relu": (6.39e-2, 2.03e-1, 6.72e-1),
        "tanh": (9.24e-6, 1.39e-3, 4.08e-3),
    },
    "poisson": {
        "flm": (1.34e-7, 2.04e-4, 6.74e-4),
        "siren-1": (2.01e-7, 3.95e-4, 1.86e-3),
        "siren-2": (8.07e-5, 7.09e-3, 3.43e-2),
        "relu": (2.45e-1, 3.97e-1, 9.99e-1),
        "tanh": (2.64e-4, 9.95e-3, 6.56e-2),
    },
    "black_scholes": {
        "flm": (3.80e-7, 4.44e-4, 4.53e-3),
        "siren-1": (4.09e-5, 4.84e-3, 3.44e-2),
        "siren-2": (8.37e-7, 7.39e-4, 2.91e-3),
        "leaky-relu": (6.53e-2, 1.75e-1, 9.85e-1),
        "tanh": (6.06e-6, 2.02e-3, 5.54e-3),
    },
    "burgers": {
        "flm": (6.55e-3, 4.07e-2, 3.73e-1),
        "siren-1": (2.13e-2, 1.15e-1, 3.89e-1),
        "siren-2": (9.80e-3, 5.86e-2, 3.59e-1),
        "siren-3": (6.96e-3, 4.34e-2, 3.68e-1),
        "relu": (3.09e-2, 1.46e-1, 3.74e-1),
        "tanh": (4.58e-3, 2.88e-2, 4.44e-1),
    },
}

# Optimal control: absolute percentage errors of the cost for three fixed starts, of which it names the first; mean absolute
# percentage error and mean absolute error over 100 random starts on each disk, and for five strategies.
FIXED_STARTS = (0.47, 0.37, 0.34)
DISKS = {
    (0.2, 0.2, 0.6): (0.81, 2.54e-3),
    (0.2, 0.6, 0.2): (0.85, 2.74e-3),
    (0.6, 0.2, 0.2): (0.72, 1.81e-3),
}
FIVE_STRATEGIES = (0.67, 2.10e-3)

# Appendix, imputation of ETTh1: missing rate -> model -> (MAE, standard deviation or None). Its FLM is scored on oil temperature
# alone; the other rows it takes from TSI-Bench (arXiv 2406.12747), where they are means over all seven channels.
IMPUTATION = {
    0.1: {
        "FLM": (0.57, 0.15),
        "MRNN": (0.79, 0.02),
        "mean": (0.74, None),
        "median": (0.71, None),
        "SAITS": (0.14, 0.01),
    },
    0.5: {
        "FLM": (0.66, 0.18),
        "AutoFormer": (0.98, 0.01),
        "mean": (0.74, None),
        "median": (0.71, None),
        "SAITS": (0.22, 0.01),
    },
}

# Appendix, trainable parameters for two inputs: model -> size -> number.
PARAMETERS = {
    "flm": {4: 24, 16: 96, 25: 150, 49: 294, 64: 384},
    "siren-1": {6: 25, 24: 97, 37: 149, 73: 293, 93: 373},
    "siren-2": {3: 25, 8: 105, 10: 151, 15: 301, 17: 375},
    **{name: {2: 21, 6: 109, 7: 141, 11: 309, 12: 361} for name in ("siren-3", "relu", "leaky-relu", "tanh")},
}
# The formula beside them, in N sub-networks or n neurons per hidden layer.
PARAMETER_FORMULAS = {
    "flm": "6 N",
    "siren-1": "4 n + 1",
    "siren-2": "n² + 5 n + 1",
    **dict.fromkeys(("siren-3", "relu", "leaky-relu", "tanh"), "2 n² + 6 n + 1"),
}
