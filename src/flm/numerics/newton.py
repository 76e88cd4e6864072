"""Damped Newton and Levenberg–Marquardt: one loop.

Conventions. F is the objective, and smaller is better. A *model* is F near one point: its value there, the step that
it wants at a damping λ ≥ 0 (the larger λ, the shorter the step), and the decrease that it predicts for that step.
The *gain ratio* is (F before − F after) / predicted decrease. A step is accepted when F is finite after it and smaller
than before; otherwise λ rises and the same model is asked again, so that its derivatives are formed once per accepted
step. λ has no unit here: each subject multiplies it by the size of its own matrix.

Many independent problems may be solved at once: F, λ and the predicted decrease are then arrays of one entry per
problem, and `mix` joins the points of those that accepted with the old points of those that did not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

Point = TypeVar("Point")
Values = float | np.ndarray  # one number, or one per problem
Damping = tuple[np.ndarray, np.ndarray]  # λ, and the factor by which the next rejection raises it


class Step(NamedTuple):
    """A step, and the decrease of F that the model predicts for it."""

    move: np.ndarray
    predicted: Values


class Trial(NamedTuple, Generic[Point]):
    """The point that a step reaches, and F there."""

    point: Point
    value: Values


class Model(Protocol[Point]):
    """F near a point."""

    @property
    def value(self) -> Values:
        """F at the point."""
        ...

    def step(self, damping: np.ndarray) -> Step:
        """The step for this damping; `numpy.linalg.LinAlgError` asks for more of it."""
        ...

    def take(self, move: np.ndarray) -> Trial[Point]:
        """The point that the step leads to, and F there."""
        ...


@dataclass(frozen=True)
class Nielsen:
    """The damping follows the gain ratio ϱ (H. B. Nielsen, IMM-REP-1999-05).

    After an accepted step λ ← λ max(1/3, 1 − (2ϱ − 1)³); after rejected ones λ ← 2λ, 4λ, 8λ, ….
    """

    start: float = 1e-2  # the first λ
    most: float = 1e8  # beyond this λ no decrease is expected any more
    least: float = 0.0  # a smaller λ is zero, and a rejected step raises zero to this

    def update(self, damping: np.ndarray, growth: np.ndarray, accepted: np.ndarray, ratio: np.ndarray) -> Damping:
        """The next damping, and the factor by which the next rejection multiplies it."""
        lowered = damping * np.maximum(1 / 3, 1 - (2 * np.minimum(ratio, 1.0) - 1) ** 3)
        lowered = np.where(lowered < self.least, 0.0, lowered)
        raised = np.maximum(damping * growth, self.least)
        return np.where(accepted, lowered, raised), np.where(accepted, 2.0, 2 * growth)


@dataclass(frozen=True, eq=False)
class Minimum(Generic[Point]):
    """Where a minimization ended."""

    point: Point  # the best one found
    value: np.ndarray  # F there, () or one number per problem
    steps: int  # accepted ones
    converged: bool  # whether a tolerance was met; False when steps ran out or no step lowered F any more


def minimize(
    start: Point,
    model_at: Callable[[Point], Model[Point]],
    rule: Nielsen,
    *,
    max_steps: int,  # accepted ones
    gain_tol: float = 0.0,  # converged when an accepted step lowers F by less than this share of it
    step_tol: float = 0.0,  # or when no more than this share is predicted, before the step is tried
    settled: float = np.inf,  # a small gain counts as convergence only while λ is below this
    noise: float = 0.0,  # F may rise by this share of it in an accepted step: what rounding can do
    mix: Callable[[Point, Point, np.ndarray], Point] = lambda old, new, accepted: new,  # many problems
) -> Minimum[Point]:
    """Minimize F from a point of any type by damped steps.

    `model_at` gives F near a point; it is called once at the start and once after each accepted step but the last.
    """
    point, steps, converged = start, 0, False
    model = model_at(point)
    value = np.asarray(model.value, float)
    damping, growth = np.full(value.shape, rule.start), np.full(value.shape, 2.0)
    while steps < max_steps:
        try:
            step = model.step(damping)
        except np.linalg.LinAlgError:  # its equations have no solution: treated as a rejected step
            step = Step(np.full(1, np.nan), np.full(damping.shape, np.inf))
        arrived = step.predicted <= step_tol * np.abs(value)
        lost = ~np.isfinite(value) | (damping > rule.most)
        if np.all(arrived | lost):
            converged = bool(np.all(arrived & np.isfinite(value)))
            break
        try:
            trial = model.take(step.move) if np.isfinite(step.move).any() else Trial(point, np.nan)
        except np.linalg.LinAlgError:
            trial = Trial(point, np.nan)
        after = np.asarray(trial.value, float)
        gain = value - after
        accepted = np.isfinite(after) & ~np.isnan(step.predicted) & (gain > -noise * np.abs(value))
        with np.errstate(invalid="ignore", over="ignore"):
            ratio = gain / np.maximum(step.predicted, 1e-300)
            damping, growth = rule.update(damping, growth, accepted, ratio)
        if not accepted.any():
            continue
        steps += 1
        point = trial.point if accepted.all() else mix(point, trial.point, accepted)
        value = np.where(accepted, after, value)
        converged = bool(np.all(accepted & (gain < gain_tol * np.abs(value)) & (damping < settled)))
        if converged or steps == max_steps:
            break
        model = model_at(point)
        value = np.asarray(model.value, float)
    return Minimum(point, value, steps, converged)
