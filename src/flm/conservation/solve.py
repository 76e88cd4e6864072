"""Conservation laws: tolerance in, series out; or the best series of N sub-networks.

The potential least squares (`potential`, `shock_growth`) solves the law from its residual. A series of exactly N
sub-networks is then the distillation of a larger solution (`harmonics`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from flm.conservation.growth import ShockGrowth
from flm.conservation.harmonics import distill_harmonics
from flm.conservation.law import ConservationLaw
from flm.conservation.moving import MovingSeries
from flm.conservation.moving_flm import MovingFLM
from flm.conservation.potential import Law
from flm.conservation.tail import CompletedSeries, complete_tail
from flm.domains import Box
from flm.models import FLM
from flm.models.base import InputMap
from flm.numerics.least_squares import one_thread
from flm.results import Solution, Status
from flm.series import sign_matrix

METHODS = ("frame", "strict", "tail")


@dataclass(frozen=True, eq=False)
class ConservationResult:
    """A solved conservation law.

    Args:
        series: The solution in the moving frame (speed 0 for method "strict").
        teacher: The least-squares solution that it was distilled from; the same as `series` without `num_subnets`.
        status: How it ended.
        error_estimate: Estimated relative L1 error.
        history: One list per quantity, an entry for each level of growth.
        num_columns: Linear unknowns of the least-squares solution.
        completed: With method "tail", the series with its tail continued: not a plain FLM.
    """

    series: MovingSeries
    teacher: MovingSeries
    status: Status
    error_estimate: float
    history: dict[str, list[float]]
    num_columns: int
    completed: CompletedSeries | None = None

    @property
    def frame(self) -> float:
        """The speed of the frame in which sub-networks are counted."""
        return self.series.speed

    def __call__(self, points: Any) -> np.ndarray:
        """Values at points (P, 2), columns x and t, (P,)."""
        return self.series(points) if self.completed is None else self.completed(points)


def solve_conservation(
    problem: ConservationLaw,
    tol: float = 1e-3,
    *,
    num_subnets: int | None = None,
    method: str | None = None,
    max_columns: int = 3000,
    seed: int = 0,
    progress: Callable[[dict[str, Any]], None] | bool = False,
) -> ConservationResult:
    """Solve a conservation law by least squares on its potential residual with vanishing viscosity.

    Args:
        problem: The law.
        tol: Relative L1 error. A shock makes the error fall only like 1/columns; smooth solutions converge geometrically.
        num_subnets: The best series found of exactly this many sub-networks (the constant is one, unless it is zero),
            distilled from a larger solution.
        method: "frame" (default): sub-networks in the moving frame (x − ct, t), with c found from the law;
            "strict": sub-networks in (x, t), about twice as many for the same error; "tail": as "frame", with the missing
            harmonics continued by a few poles, which is no longer a plain FLM. The last two need `num_subnets`.
        max_columns: Largest number of linear unknowns.
        seed: Unused: nothing here is random.
        progress: Called with a dict for each level of growth; True prints it.
    """
    if method not in (None, *METHODS):
        raise ValueError(f"`method` must be one of {', '.join(METHODS)}, or None; got {method!r}.")
    if method in ("strict", "tail") and num_subnets is None:
        raise ValueError(f"`num_subnets` must be given with method={method!r}; got None.")
    if max_columns < 48:
        raise ValueError(f"`max_columns` must be at least 48 for a conservation law; got {max_columns}.")
    report = progress if callable(progress) else (print if progress else (lambda step: None))
    (left, right), (start, end) = problem.domain.intervals
    law = Law(problem.flux, problem.speed, problem.initial, left, right - left, end - start)
    if num_subnets is not None:
        # Enough of a teacher: one with six times the columns of the student was within 3 % of the best on Burgers.
        max_columns = min(max_columns, max(1200, 24 * num_subnets))
    growth = ShockGrowth(law, problem.breaking_time / (end - start), start, tol, max_columns, report)
    try:
        word = growth.run()
    except KeyboardInterrupt:
        if not growth.levels:
            raise
        word = "interrupted"
    teacher, estimate, columns = growth.series(), growth.best.estimate, growth.best.bank.num_columns
    base = ConservationResult(
        teacher, teacher, _status(word, tol, estimate, columns), estimate, growth.history, columns
    )
    if num_subnets is None:
        return base
    with one_thread(0):  # many small factorizations
        return _distilled(base, problem, tol, num_subnets, method)


def _distilled(
    base: ConservationResult, problem: ConservationLaw, tol: float, num_subnets: int, method: str | None
) -> ConservationResult:
    start, end = problem.domain["t"]
    teacher, points = base.teacher, problem.test_points((151, 61))
    speed = 0.0 if method == "strict" else teacher.speed
    completed = None
    if method == "tail":
        completed = complete_tail(teacher, num_subnets, end - start, speed=speed, points=points)
        series = completed.series
    elif method != "strict" and num_subnets >= teacher.num_subnets:
        series = teacher
    else:
        series = distill_harmonics(teacher, num_subnets, end - start, speed=speed)
    values = teacher(points)
    distance = float(np.mean(np.abs((completed or series)(points) - values)) / max(np.mean(np.abs(values)), 1e-300))
    estimate = base.error_estimate + distance
    kind = {"strict": "in (x, t)", "tail": "in the moving frame, with its tail continued"}.get(
        method or "", "in the moving frame"
    )
    word = "converged" if estimate <= tol else "size"
    count = "1 sub-network" if series.num_subnets == 1 else f"{series.num_subnets} sub-networks"
    sentence = f"{count} {kind}: the error estimate is {estimate:.1e} (relative L1)."
    return replace(base, series=series, status=Status(word, sentence), error_estimate=estimate, completed=completed)


def _status(word: str, tol: float, estimate: float, columns: int) -> Status:
    sentences = {
        "converged": f"converged: the error estimate {estimate:.1e} is within the tolerance {tol:.1e}.",
        "size": f"stopped at the size limit with {columns} columns; the error estimate is {estimate:.1e} (relative L1).",
        "stalled": f"stalled: larger banks no longer improve the answer; the error estimate is {estimate:.1e}.",
        "interrupted": f"interrupted; the best answer so far has the error estimate {estimate:.1e}.",
    }
    return Status(word, sentences[word])


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


def solve_law(problem: ConservationLaw, tol: float, *, method: str | None, **options: Any) -> Solution:
    """Solve a conservation law: see `flm.solve`."""
    began = time.perf_counter()
    if method == "tail":
        raise ValueError(
            "`method` must be frame, strict or None for flm.solve; got 'tail', whose answer is not a series. "
            "Use flm.solvers.solve_conservation(problem, method='tail', ...)."
        )
    result = solve_conservation(problem, tol, method=method, **options)
    return Solution(
        model=as_model(result.series, problem.domain),
        axes=problem.axes,
        unknowns=problem.unknowns,
        bounds=problem.domain.bounds,
        status=result.status,
        error_estimate=result.error_estimate,
        history={name: np.asarray(column) for name, column in result.history.items()},
        num_columns=result.num_columns,
        seconds=time.perf_counter() - began,
        domain=problem.domain,
        exact=problem.exact_values if problem.exact is not None else None,
        error_points=problem.test_points(),
    )
