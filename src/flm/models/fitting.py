"""Linear models fitted to values at points."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from flm.models.base import AbstractLinearModel
from flm.wording import InputError, InputTypeError

Model = TypeVar("Model", bound=AbstractLinearModel)


def least_squares(model: Model, points: npt.ArrayLike, values: npt.ArrayLike) -> Model:
    """The model with the output weights of least squared error at points (and of least norm among those).

    Args:
        model: a model that is linear in its amplitudes; everything else of it is kept.
        points: (P, m).
        values: (P,) or (P, K).

    Example:
        >>> import flm
        >>> x = np.linspace(0, 1, 50)
        >>> network = flm.models.FourierSeriesNetwork(flm.Box(x=(0, 1)), 3)
        >>> fitted = flm.models.least_squares(network, x, np.sin(2 * np.pi * x))
        >>> bool(np.abs(fitted(x) - np.sin(2 * np.pi * x)).max() < 1e-12)
        True
    """
    if not isinstance(model, AbstractLinearModel):
        raise InputTypeError(f"`model` must be linear in its amplitudes; got {type(model).__name__}. Use flm.train.")
    columns = np.asarray(model.basis(points, ((0,) * model.num_inputs,))[0])
    targets = np.asarray(values, float)
    expected = (len(columns),) if model.num_outputs == 1 else (len(columns), model.num_outputs)
    if targets.shape != expected:
        raise InputError(f"`values` must have shape {expected}, one row per point; got {targets.shape}.")
    return model.with_coefficients(np.linalg.lstsq(columns, targets, rcond=1e-14)[0])
