"""What every run returns: an answer with its status, its error estimate and its record."""

from __future__ import annotations

import html
import importlib
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import ModuleType
from typing import Any, ClassVar, Self

from flm.files import save
from flm.results.learned import LearnedFunction, Parameter
from flm.results.status import Ending, Status, Word, conclude
from flm.wording import ExtraMissingError

IN_NOTEBOOK = 300_000  # bytes of a live figure that a notebook shows by itself


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
        text, figure = f"<pre>{html.escape(repr(self))}</pre>", self.live()
        return text + figure._repr_html_() if len(figure.data) <= IN_NOTEBOOK else text


def optional_module(module: str) -> ModuleType:
    """A package of the extra `frames`, or the sentence that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ExtraMissingError(
            f'{module} is not installed. Run: pip install "fourier-learning-machines[frames]"'
        ) from None
