"""Conservation laws: tolerance in, series out; or the best series of N sub-networks.

The potential least squares (`potential`, `growth`) solves the law from its residual. A series of exactly N sub-networks is
then the distillation of a larger solution (`harmonics`).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from flm.conservation.growth import ShockGrowth
from flm.conservation.harmonics import distill_harmonics
from flm.conservation.law import ConservationLaw
from flm.conservation.moving import MovingSeries
from flm.conservation.moving_flm import MovingFLM
from flm.conservation.potential import Law
from flm.domains import Box
from flm.models import FLM
from flm.models.base import InputMap
from flm.numerics.least_squares import one_thread
from flm.results import Ending, Listener, Record, Solution, Word
from flm.series import sign_matrix
from flm.wording import InputError

METHODS = ("frame", "strict")
SMALLEST = 48  # columns of the first bank


def solve_law(
    problem: ConservationLaw,
    tol: float,
    *,
    num_subnets: int | None,
    method: str | None,
    max_columns: int,
    seed: int,
    progress: Listener,
) -> Solution:
    """Solve a conservation law by least squares on its potential residual with vanishing viscosity.

    Args:
        problem: The law.
        tol: Relative L1 error. A shock makes the error fall only like 1/columns; smooth solutions converge geometrically.
        num_subnets: The best series found of exactly this many sub-networks (the constant is one, unless it is zero),
            distilled from a larger solution.
        method: "frame" (default): sub-networks in the moving frame (x − ct, t), with c found from the law;
            "strict": sub-networks in (x, t), about twice as many for the same error; it needs `num_subnets`.
        max_columns: Largest number of linear unknowns.
        seed: Unused: nothing here is random.
        progress: Called with each level of growth.
    """
    if method not in (None, *METHODS):
        raise InputError(f"`method` must be one of {', '.join(METHODS)}, or None; got {method!r}.")
    if method == "strict" and num_subnets is None:
        raise InputError(f"`num_subnets` must be given with method={method!r}; got None.")
    if max_columns < SMALLEST:
        raise InputError(f"`max_columns` must be at least {SMALLEST} for a conservation law; got {max_columns}.")
    if num_subnets is not None:
        # Enough of a teacher: one with six times the columns of the student was within 3 % of the best on Burgers.
        max_columns = min(max_columns, max(1200, 24 * num_subnets))
    record = Record(progress)
    growth = growth_of(problem, tol, max_columns, record)
    try:
        ending = Ending(growth.run())
    except KeyboardInterrupt:
        if not growth.levels:
            raise
        ending = Ending(Word.INTERRUPTED)
    series, estimate = growth.series(), growth.best.estimate
    if num_subnets is not None:
        teacher = series
        with one_thread(0):  # many small factorizations
            series = _distilled(teacher, num_subnets, method == "strict", growth.law.horizon)
        points = problem.test_points((151, 61))
        values = teacher(points)
        estimate += float(np.mean(np.abs(series(points) - values)) / max(np.mean(np.abs(values)), 1e-300))
        count = "1 sub-network" if series.num_subnets == 1 else f"{series.num_subnets} sub-networks"
        ending = Ending(Word.SIZE, f"{count} {'in (x, t)' if method == 'strict' else 'in the moving frame'}")
    return Solution(
        model=as_model(series, problem.domain),
        axes=problem.axes,
        unknowns=problem.unknowns,
        bounds=problem.domain.bounds,
        ending=ending,
        error_estimate=estimate,
        tolerance=tol,
        history=record.history,
        num_columns=growth.best.fit.bank.num_columns,
        seconds=record.seconds,
        domain=problem.domain,
        exact=problem.exact_values if problem.exact is not None else None,
        error_points=problem.test_points(),
    )


def growth_of(problem: ConservationLaw, tol: float, max_columns: int, record: Record) -> ShockGrowth:
    """The growth of a law's potential least squares, to be run."""
    (left, right), (start, end) = problem.domain.intervals
    law = Law(problem.flux, problem.speed, problem.initial, left, right - left, end - start)
    return ShockGrowth(law, problem.breaking_time / law.horizon, start, tol, max_columns, record)


def _distilled(teacher: MovingSeries, num_subnets: int, strict: bool, duration: float) -> MovingSeries:
    if not strict and num_subnets >= teacher.num_subnets:
        return teacher
    return distill_harmonics(teacher, num_subnets, duration, speed=0.0 if strict else teacher.speed)


def as_model(series: MovingSeries, domain: Box) -> FLM | MovingFLM:
    """A series as a model on the domain: an FLM when its frame is at rest, else an FLM in the moving frame."""
    k = 2.0 * np.pi / series.period * series.wavenumbers
    (cc, cs), (sc, ss) = np.moveaxis(series.coefficients, 0, -1)
    # cos a cos b = (cos(a + b) + cos(a − b))/2, …: rows (+, +) and (+, −) of the sign matrix
    cosine = 0.5 * np.stack([cc - ss, cc + ss], axis=1)
    sine = 0.5 * np.stack([cs + sc, sc - cs], axis=1)
    frequencies = np.stack([k, series.frequencies], axis=1)
    if series.mean != 0.0:
        frequencies = np.concatenate([np.zeros((1, 2)), frequencies])
        cosine = np.concatenate([[[series.mean, 0.0]], cosine])
        sine = np.concatenate([np.zeros((1, 2)), sine])
    if len(frequencies) == 0:
        frequencies, cosine, sine = np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2))
    origin = np.array([series.left, series.start])
    if series.speed != 0.0:
        inner = FLM(2, len(frequencies), key=0, frequencies=frequencies)
        inner = inner.with_coefficients(jnp.concatenate([jnp.asarray(cosine).ravel(), jnp.asarray(sine).ravel()]))
        place = InputMap((series.left, series.start), (1.0, 1.0), domain.axes)
        return MovingFLM(inner, float(series.speed), place)
    # The FLM counts from the center of the domain: C cos θ + S sin θ with θ turned by n·(center − origin).
    turn = (frequencies[:, None, :] * np.asarray(sign_matrix(2))) @ (domain.center - origin)
    cosine, sine = (
        cosine * np.cos(turn) + sine * np.sin(turn),
        sine * np.cos(turn) - cosine * np.sin(turn),
    )
    model = FLM(domain, len(frequencies), key=0, frequencies=frequencies * domain.width / (2.0 * np.pi))
    return model.with_coefficients(jnp.concatenate([jnp.asarray(cosine).ravel(), jnp.asarray(sine).ravel()]))
