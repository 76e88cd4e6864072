"""Factors of single pieces, kept while trees change around them.

Pieces with the same rows have the same reflectors: those that a level of cuts did not touch, and those of the same shape where
coefficients are constant. Only the right-hand side has to be turned.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs


class Reflectors(NamedTuple):
    """A QR factorization as LAPACK leaves it."""

    packed: np.ndarray
    scales: np.ndarray


class Factors:
    """The reflectors of the pieces of the last two solves, by their rows."""

    def __init__(self) -> None:
        self._old: dict[bytes, Reflectors] = {}
        self._new: dict[bytes, Reflectors] = {}

    def turn(self) -> None:
        """Begin a new solve: forget what the one before the last had."""
        self._old, self._new = self._new, {}

    def triangle(self, rows: np.ndarray, right: np.ndarray) -> np.ndarray:
        """R of [rows | right], (min(height, width + 1), width + 1)."""
        height, width = rows.shape
        key = hashlib.sha1(rows.tobytes(), usedforsecurity=False).digest() + width.to_bytes(4, "little")
        found = self._new.get(key) or self._old.get(key)
        if found is None:
            (geqrf,) = get_lapack_funcs(("geqrf",), (rows,))
            found = Reflectors(*geqrf(np.asfortranarray(rows))[:2])
        self._new[key] = found
        (ormqr,) = get_lapack_funcs(("ormqr",), (rows,))
        turned = ormqr("L", "T", found.packed[:, : len(found.scales)], found.scales, right[:, None], lwork=64)[0][:, 0]
        inner = min(height, width)
        R = np.zeros((min(height, width + 1), width + 1))
        R[:inner, :width] = np.triu(found.packed[:inner])
        R[:inner, width] = turned[:inner]
        if height > width:
            R[width, width] = np.linalg.norm(turned[width:])
        return R
