"""Any function or solution as a small FLM."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from flm.domains import AbstractDomain, Box
from flm.language.arguments import Named
from flm.pde.problem import PDE
from flm.pde.waves.fixed_size import best_of_size
from flm.pde.waves.search import to_solution
from flm.results import Listener, Solution, listener
from flm.wording import InputError, InputTypeError, check_count


def distill(
    f: Any,
    num_subnets: int,
    *,
    domain: AbstractDomain | None = None,
    tol: float = 1e-12,
    seed: int = 0,
    progress: bool | Listener = False,
) -> Solution:
    """The best FLM of `num_subnets` sub-networks for a function, frequencies learned.

    Args:
        f: a `Solution`, a series with named axes, or a function of points (P, m) with values (P,).
        num_subnets: N of the result.
        domain: where to fit; a solution's own domain by default.
        tol: relative L2 error that is good enough to stop searching.
        seed: fixes points and random starts.
        progress: True for a line per step, or a function that is called with a `flm.Progress` per step.

    Returns:
        A `Solution` whose `error_estimate` is the relative L2 distance to `f` on held-out points.

    Example:
        >>> import flm, numpy as np
        >>> small = flm.distill(lambda p: np.sin(3.3 * p[:, 0]), 2, domain=flm.Box(x=(0, 1)))
        >>> small.converged
        True
    """
    began = time.perf_counter()
    check_count("num_subnets", num_subnets, 1)
    check_count("seed", seed)
    if not (isinstance(tol, int | float | np.number) and tol > 0):
        raise InputError(f"`tol` must be a positive number; got {tol!r}.")
    if domain is None:
        domain = getattr(f, "domain", None)
        if domain is None and isinstance(f, Solution):
            domain = Box(**{a: tuple(b) for a, b in zip(f.axes, f.bounds, strict=True)})
        if domain is None:
            raise InputError("`domain` must be given for a plain function, such as flm.Box(x=(0, 1)); got none.")
    if not isinstance(domain, AbstractDomain):
        raise InputTypeError(f"`domain` must be a domain such as flm.Box(x=(0, 1)); got {domain!r}.")
    if not callable(f):
        raise InputTypeError(
            f"`f` must be a solution, a series or a function of points (P, m); got {type(f).__name__}."
        )
    unknowns = f.unknowns if isinstance(f, Solution) else ("u",)
    probe = np.asarray(f(domain.interior(4, seed=seed)))
    if probe.shape != ((4,) if len(unknowns) == 1 else (4, len(unknowns))):
        raise InputError(f"`f` must return one value per point, shape (4,) here; got {probe.shape}.")
    if probe.dtype.kind not in "biuf" or not np.isfinite(probe).all():
        raise InputError(
            f"`f` must return finite real numbers in `domain`; got {probe.ravel()[0]!r} at one of 4 points."
        )

    def misfit(k: int) -> Named:
        def residual(u: Any, *coordinates: Any) -> Any:
            values = np.asarray(f(np.stack([np.asarray(c) for c in coordinates], axis=1)))
            return u - (values if len(unknowns) == 1 else values[:, k])

        return Named(residual, (unknowns[k], *domain.axes))

    problem = PDE(domain, [misfit(k) for k in range(len(unknowns))], unknowns=unknowns)
    search = best_of_size(problem, num_subnets, tol=tol, seed=seed, progress=listener(progress), residual_is_error=True)
    return to_solution(problem, search, tol, began, exact=lambda points: np.asarray(f(points)))
