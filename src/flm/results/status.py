"""How a run ended: a word for programs, a sentence for people, both decided in one place.

A solver says why it stopped (`Ending`); whether that is success follows from the error estimate and the tolerance alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Word(StrEnum):
    """How a run can end; each word has the clause that begins its sentence unless the solver has a better one."""

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


class Status(NamedTuple):
    """How a run ended: a word for programs and a sentence for people."""

    word: Word
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    @property
    def advice(self) -> str:
        """What to try next; empty after success, and where the sentence says it."""
        return ADVICE.get(self.word, "")


def conclude(ending: Ending, error_estimate: float, tolerance: float) -> Status:
    """The status of a run: converged if and only if the error estimate is within the tolerance and nothing casts doubt.

    The estimate is NaN where none was made (training): the ending then stands. So is the tolerance where none was asked for.
    """
    clause, note = ending.clause or ending.word.clause, f"; {ending.note}" if ending.note else ""
    if math.isnan(error_estimate):
        return Status(ending.word, f"{clause}{note}.")
    if error_estimate <= tolerance and ending.word not in DOUBTFUL:
        how = clause if ending.word is Word.CONVERGED else "converged"
        return Status(
            Word.CONVERGED,
            f"{how}: the error estimate {error_estimate:.1e} is within the tolerance {tolerance:.1e}{note}.",
        )
    word = Word.STALLED if ending.word is Word.CONVERGED else ending.word
    if ending.word is Word.CONVERGED:  # the solver's last look at its answer, such as rounding, raised the estimate
        clause = "stalled: the last check of the answer raised its error estimate"
    if math.isinf(error_estimate):
        return Status(word, f"{clause}{note}; there is no error estimate.")
    asked = "" if math.isnan(tolerance) else f", the tolerance {tolerance:.1e}"
    return Status(word, f"{clause}{note}; the error estimate is {error_estimate:.1e}{asked}.")
