"""What every run returns: an answer with its status, its error estimate and its record."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from flm.files import save
from flm.results.learned import LearnedFunction, Parameter
from flm.results.status import Ending, Status, Word, conclude
from flm.wording import InputError, InputTypeError

if TYPE_CHECKING:
    from flm.results.solution import Solution


@dataclass(frozen=True, kw_only=True, eq=False)
class AbstractResult(ABC):
    """The answer of a run and how sure it is.

    Attributes:
        ending: why the run stopped; `status` is what follows from it.
        error_estimate: the estimated error in the norm that `tolerance` is in; infinite where the answer is not resolved,
            NaN where none was made (training).
        tolerance: what was asked for; NaN where nothing was.
        parameters: learned numbers (`.value`, `.standard_error`) and functions (`.value(x)`, `.standard_error(x)`).
        history: what happened on the way, lists of equal length by name: columns, estimate, error_estimate, seconds, and
            what the kind of run adds; for training, the loss and its terms.
        num_columns: linear unknowns of the final least-squares problem; 0 for training.
        seconds: time spent.
    """

    ending: Ending
    error_estimate: float
    tolerance: float = math.nan
    parameters: dict[str, Parameter | LearnedFunction] = field(default_factory=dict)
    history: dict[str, Any] = field(default_factory=dict)
    num_columns: int = 0
    seconds: float = 0.0

    # Fields that are code or follow from it, and are not stored in files.
    not_stored: ClassVar[tuple[str, ...]] = ()

    @property
    def status(self) -> Status:
        """How the run ended, `.word` for programs and `.sentence` for people."""
        return conclude(self.ending, self.error_estimate, self.tolerance)

    @property
    def converged(self) -> bool:
        """Whether the error estimate is within the tolerance; for training, whether the loss is within its own."""
        return self.status.word is Word.CONVERGED

    @property
    @abstractmethod
    def num_parameters(self) -> int:
        """How many numbers the answer consists of: frequencies, amplitudes and phases, or weights."""

    @abstractmethod
    def plot(self, **options: Any) -> Any:
        """A matplotlib figure of the answer."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the answer and its record to a `.safetensors` file; the problem itself is not stored."""
        save(self, path)

    def _pack(self) -> dict[str, Any]:
        stored = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self.not_stored}
        return stored | {"ending": {k: str(v) for k, v in asdict(self.ending).items()}}

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> Self:
        ending = named.pop("ending")
        return cls(ending=Ending(Word(ending["word"]), ending["clause"], ending["note"]), **named)

    def live(self, units: Mapping[str, str] | None = None) -> Any:
        """The answer as a figure that a notebook evaluates: sliders, derivatives, values under the pointer.

        Args:
            units: the unit of each axis, by the axis's name.
        """
        from flm.report.live import live

        return live(self, units or {})

    def _repr_html_(self) -> str:
        """The status, the live figure or a picture where that would be large, and the series."""
        from flm.report.notebook import in_notebook

        return in_notebook(self)


@dataclass(frozen=True)
class Errors:
    """Differences from a reference over the domain."""

    mse: float
    mae: float
    max_error: float
    relative_l2: float


def compare(solution: Solution, reference: Callable[[np.ndarray], npt.ArrayLike] | None) -> Errors:
    """The differences of a solution from a function of points (P, m) at the solution's test points."""
    if reference is None:
        raise InputError("`reference` must be given: the problem came without an exact solution.")
    points = solution.test_points()
    if not callable(reference):
        raise InputTypeError(f"`reference` must be a function of points (P, {len(solution.axes)}); got {reference!r}.")
    truth = np.asarray(reference(points))
    found = np.asarray(solution(points))
    if truth.shape != found.shape:
        raise InputError(f"`reference` must return shape {found.shape} at the test points; got {truth.shape}.")
    wrong = np.abs(found - truth)
    relative = np.sqrt(np.sum(wrong**2, axis=0) / np.maximum(np.sum(truth**2, axis=0), np.finfo(float).tiny))
    return Errors(float(np.mean(wrong**2)), float(np.mean(wrong)), float(np.max(wrong)), float(np.max(relative)))
