"""What every run returns: an answer with its error estimate, its record, and how it ended.

A solver says why it stopped (`Ending`); whether that is success follows from the error estimate and the tolerance alone,
here and nowhere else. A status is a word for programs and a sentence for people. What was learned from readings, numbers and
functions of some of the axes, has standard errors.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from flm.files import save
from flm.series import legendre
from flm.wording import InputError, with_error

SHOWN = 101  # points along each axis at which a function is summarized


class Word(StrEnum):
    """How a run can end; each word carries the clause that begins its sentence unless the solver gives a better one."""

    clause: str

    CONVERGED = "converged", "converged"
    SIZE = "size", "stopped at the size limit"
    STALLED = "stalled", "stalled: more functions no longer improve the answer"
    STOPPED = "stopped", "stopped before the end of time; beyond that the answer is NaN"
    INTERRUPTED = "interrupted", "interrupted; this is the best answer so far"
    NOT_FINITE = "not finite", "not finite: the residual or its solution overflowed"
    TRIVIAL = "trivial", "trivial: the equation and all conditions are homogeneous, so zero is a solution"
    UNDETERMINED = "undetermined", "undetermined: this answer is one of many, if there is one at all"
    INCONSISTENT = "inconsistent", "inconsistent conditions"
    SOLVED = "solved", "solved by least squares"
    EPOCHS = "epochs", "all epochs were run"
    DIVERGED = "diverged", "the training loss was no longer finite"

    def __new__(cls, word: str, clause: str) -> Word:
        """A word that carries its clause."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.clause = clause
        return member


# Endings that no estimate can turn into success.
DOUBTFUL = frozenset({Word.NOT_FINITE, Word.TRIVIAL, Word.UNDETERMINED, Word.INCONSISTENT, Word.DIVERGED})


# What to try next, by the word, where the sentence itself does not say it.
ADVICE = {
    Word.SIZE: "Raise the limit, `max_columns` or `num_subnets`, or ask for a looser tolerance.",
    Word.STALLED: "Ask for a looser tolerance; if the estimate is infinite, look for a front, a corner or data that disagree.",
    Word.STOPPED: "Use the answer up to that time; ask for a looser tolerance, or for a shorter time, to go further.",
    Word.INTERRUPTED: "Solve again to go on.",
    Word.NOT_FINITE: "Look for a division by zero or a root of a negative number in the equation.",
    Word.INCONSISTENT: "Leave out or correct the conditions that contradict each other.",
}


@dataclass(frozen=True)
class Ending:
    """Why a solver stopped."""

    word: Word
    clause: str = ""  # the beginning of the sentence, without estimate and tolerance; the word's own by default
    note: str = ""  # a further clause, such as what was left free
    estimate_until: float | None = None  # of a run that stopped on its way: the error estimate up to there


class Status(NamedTuple):
    """How a run ended: a word for programs and a sentence for people."""

    word: Word
    sentence: str
    clause: str  # how the sentence begins, without estimate and tolerance

    def __str__(self) -> str:
        return self.sentence

    @property
    def advice(self) -> str:
        """What to try next; empty after success, and where the sentence says it."""
        return ADVICE.get(self.word, "")


def conclude(ending: Ending, error_estimate: float, tolerance: float) -> Status:
    """The status of a run: converged if and only if the error estimate is within the tolerance and nothing casts doubt.

    The estimate is NaN where none was made (training): the ending then stands. The tolerance is NaN where none was given.
    """
    clause, note = ending.clause or ending.word.clause, f"; {ending.note}" if ending.note else ""
    if math.isnan(error_estimate):
        return Status(ending.word, f"{clause}{note}.", clause)
    if error_estimate <= tolerance and ending.word not in DOUBTFUL:
        how = clause if ending.word is Word.CONVERGED else "converged"
        met = f"the error estimate {error_estimate:.1e} is within the tolerance {tolerance:.1e}"
        return Status(Word.CONVERGED, f"{how}: {met}{note}.", how)
    word = Word.STALLED if ending.word is Word.CONVERGED else ending.word
    if ending.word is Word.CONVERGED:  # the last check of the answer, after rounding for example, raised the estimate
        clause = "stalled: the last check of the answer raised its error estimate"
    if math.isinf(error_estimate):
        if ending.estimate_until is None:
            return Status(word, f"{clause}{note}; there is no error estimate.", clause)
        so_far = f"up to there the error estimate is {ending.estimate_until:.1e}"
        return Status(word, f"{clause}; {so_far}{note}; there is none for the whole.", clause)
    asked = "" if math.isnan(tolerance) else f", the tolerance {tolerance:.1e}"
    return Status(word, f"{clause}{note}; the error estimate is {error_estimate:.1e}{asked}.", clause)


@dataclass(frozen=True)
class Parameter:
    """A learned parameter: its value, its standard error, and the correlations of its error with those of others."""

    value: float
    standard_error: float
    correlations: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def several(cls, values: Mapping[str, float], covariance: np.ndarray) -> dict[str, Parameter]:
        """Parameters by name from their values and the covariance of their errors, (Q, Q)."""
        errors, found = np.sqrt(np.diagonal(covariance)), {}
        sure = np.isfinite(errors).all() and bool(np.all(errors > 0))
        for i, (name, value) in enumerate(values.items()):
            shares = dict(zip(values, covariance[i] / (errors[i] * errors), strict=True)) if sure else {}
            found[name] = cls(value, float(errors[i]), {n: float(v) for n, v in shares.items() if n != name})
        return found

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return with_error(self.value, self.standard_error)

    def record(self) -> dict[str, object]:
        """The entry for this parameter in a file of results."""
        return {"value": self.value, "standard_error": self.standard_error, "correlations": dict(self.correlations)}


@dataclass(frozen=True, eq=False)
class LearnedFunction:
    """A learned function of some of a problem's axes, a sum of orthonormal Legendre functions, with its band.

    Call it, or `value`, with one array for each of `axes`; value ± 1.96 standard errors is its 95 % band, point by point.

    Example:
        >>> import numpy as np
        >>> from flm.results import LearnedFunction
        >>> line = LearnedFunction(("x",), np.array([[0.0, 1.0]]), np.array([2.0]), np.array([[0.01]]))
        >>> float(line(0.3)), round(float(line.standard_error(x=0.3)), 6)
        (2.0, 0.1)
    """

    axes: tuple[str, ...]
    bounds: np.ndarray  # (m, 2)
    coefficients: np.ndarray  # (n_1, ..., n_m)
    covariance: np.ndarray  # of all C coefficients, (C, C)

    def __post_init__(self) -> None:
        m, count = len(self.axes), int(np.size(self.coefficients))
        shapes = (np.shape(self.bounds), np.ndim(self.coefficients), self.covariance.shape)
        if shapes != ((m, 2), m, (count, count)):
            got = f"got shapes {np.shape(self.coefficients)} and {np.shape(self.covariance)}"
            raise InputError(f"`coefficients` must have {m} axes and `covariance` be square; {got}.")

    def value(self, *places: npt.ArrayLike, **named: npt.ArrayLike) -> np.ndarray:
        """Values at places, one array for each axis, in order or by name."""
        grids = self._grids(places, named)
        return (self._table(grids) @ self.coefficients.ravel()).reshape(grids[0].shape)

    def standard_error(self, *places: npt.ArrayLike, **named: npt.ArrayLike) -> np.ndarray:
        """Standard errors of the values at places, given as in `value`."""
        grids = self._grids(places, named)
        table = self._table(grids)
        variance = np.sum((table @ self.covariance) * table, axis=1)
        return np.sqrt(np.maximum(variance, 0.0)).reshape(grids[0].shape)

    __call__ = value

    def _grids(self, places: tuple[npt.ArrayLike, ...], named: dict[str, npt.ArrayLike]) -> list[np.ndarray]:
        given = dict(zip(self.axes, places, strict=False)) | named
        if len(places) + len(named) != len(self.axes) or set(given) != set(self.axes):
            got = f"got {len(places)} and {sorted(named)}"
            raise InputError(f"call with one array for each of {', '.join(self.axes)}; {got}.")
        return list(np.broadcast_arrays(*(np.asarray(given[axis], float) for axis in self.axes)))

    def _table(self, grids: list[np.ndarray]) -> np.ndarray:
        points = np.stack([grid.ravel() for grid in grids], axis=1)
        low, high = self.bounds.T
        inside = np.all((points >= low) & (points <= high), axis=1)
        table = legendre.box_table(points, low, high - low, self.coefficients.shape, (0,) * len(self.axes))
        return np.where(inside[:, None], table, np.nan)

    def record(self) -> dict[str, object]:
        """The entry for this function in a file of results: values on an even grid."""
        lines = [np.linspace(low, high, SHOWN if len(self.axes) == 1 else 21) for low, high in self.bounds]
        grids = np.meshgrid(*lines, indexing="ij")
        lined = dict(zip(self.axes, lines, strict=True))
        return {"axes": lined, "value": self.value(*grids), "standard_error": self.standard_error(*grids)}

    def __str__(self) -> str:
        found = self.record()
        values, errors = np.asarray(found["value"]), np.asarray(found["standard_error"])
        sure = f"standard error {errors.min():.2g} to {errors.max():.2g}"
        return f"a function of {', '.join(self.axes)} from {values.min():.4g} to {values.max():.4g}, {sure}"


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

    # Fields that are code or follow from it, and are not stored in files or pickles.
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
        """Write the answer and its record to a `.safetensors` file; the problem itself is not stored, nor in a pickle."""
        save(self, path)

    def _pack(self) -> dict[str, Any]:
        stored = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self.not_stored}
        return stored | {"ending": asdict(self.ending) | {"word": str(self.ending.word)}}

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> Self:
        ending = named.pop("ending")
        until = ending.get("estimate_until")
        return cls(ending=Ending(Word(ending["word"]), ending["clause"], ending["note"], until), **named)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self)._unpack, (self._pack(),)  # a pickle, like a file, is without what is code

    def __copy__(self) -> Self:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        stored = (f.name for f in fields(self) if f.name not in self.not_stored)
        return replace(self, **{name: deepcopy(getattr(self, name), memo) for name in stored})

    def live(self, units: Mapping[str, str] | None = None) -> Any:
        """The answer as a figure that a notebook evaluates: sliders, derivatives, values under the pointer.

        Args:
            units: the unit of each axis, by the axis's name.
        """
        from flm.report.live import live

        return live(self, units or {})

    def _repr_html_(self) -> str:
        """HTML for notebooks: the status, the live figure (a picture where that would be large), and the series."""
        from flm.report.files import in_notebook

        return in_notebook(self)


@dataclass(frozen=True)
class Errors:
    """Differences from a reference over the domain."""

    mse: float
    mae: float
    max_error: float
    relative_l2: float
