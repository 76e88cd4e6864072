"""The one initial state that a reference solves for."""

import numpy as np
import numpy.typing as npt

from flm.control.problem import OptimalControl
from flm.wording import InputError


def one_start(problem: OptimalControl, x0: npt.ArrayLike | None) -> np.ndarray:
    """Coordinates (d,) of an initial state; of the problem's own when it is left out.

    Raises:
        ValueError: There is none, or more than one.
    """
    if x0 is None:
        if problem.starts.dimension:
            raise InputError("`x0` must be given for a problem with a set of initial states.")
        return problem.starts.center
    v0 = problem.starts.coordinates(x0)
    if len(v0) != 1:
        raise InputError(f"`x0` must be one state; got {len(v0)}.")
    return v0[0]
