"""Plane waves as columns: the linear part of every estimator here.

Inputs are scaled to z = (x - center) / halfwidth, so that the data fill [-1, 1]^m. A sub-network with frequency vector n
holds the distinct waves k = e * n over sign vectors e: 2^(q-1) of them when q components of n are nonzero, and each
has the columns cos k.z and sin k.z (the zero wave only its cosine). Columns: all cosines, then all sines, then a trend:
the Legendre polynomials z_j and (3 z_j^2 - 1) / 2 of every feature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from flm.series.tables import phasors, powers

BLOCK_NUMBERS = 1 << 22  # numbers in one block of the design matrix: 32 MiB


@dataclass(frozen=True, eq=False)
class Scale:
    """The affine map z = (x - center) / halfwidth, per feature."""

    center: np.ndarray  # (m,)
    halfwidth: np.ndarray  # (m,)

    @classmethod
    def of(cls, lower: np.ndarray, upper: np.ndarray) -> Scale:
        """The map of the box [lower, upper] to [-1, 1]^m; a feature without extent keeps its unit."""
        width = (upper - lower) / 2
        return cls(lower + width, np.where(width > 0, width, 1.0))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """z of points x, (P, m)."""
        return (x - self.center) / self.halfwidth


@dataclass(frozen=True, eq=False)
class Waves:
    """All waves of a list of sub-networks, and a trend. On a lattice, tables need one sine and cosine per axis."""

    subnets: np.ndarray  # frequency vectors on scaled inputs, (N, m)
    signs: np.ndarray  # e of every wave, (M, m)
    group: np.ndarray  # sub-network of every wave, (M,)
    base: np.ndarray | None = None  # (m,); on a lattice, subnets = base * integers
    integers: np.ndarray | None = None  # (N, m)
    degree: int = 0  # of the trend
    num_lines: int = 0  # sub-networks at the end whose frequencies are not on the lattice

    @classmethod
    def of(cls, subnets: np.ndarray, degree: int = 0) -> Waves:
        """The waves of arbitrary frequency vectors."""
        on = subnets != 0
        count, so_far = on.sum(axis=1), np.cumsum(on, axis=1)
        group = np.repeat(np.arange(len(subnets)), 2 ** np.maximum(count - 1, 0))
        number = np.arange(len(group)) - np.searchsorted(group, group)  # of a wave within its sub-network
        # The binary digits of this number are the minus signs, from the last nonzero component on: none on the first or on zeros.
        digit = number[:, None] >> (count[:, None] - so_far)[group] & 1
        return cls(subnets, np.where(on[group] & (digit == 1), -1.0, 1.0), group, degree=degree)

    @classmethod
    def on_lattice(cls, base: np.ndarray, integers: np.ndarray, degree: int = 0) -> Waves:
        """The waves of the lattice points base * integers."""
        return replace(cls.of(base * integers, degree), base=base, integers=integers.astype(int))

    def moved(self, subnets: np.ndarray) -> Waves:
        """The waves with other frequencies."""
        return replace(self, subnets=subnets, base=None, integers=None)

    def with_lines(self, lines: np.ndarray) -> Waves:
        """These waves and those of more sub-networks, (L, m)."""
        both = Waves.of(np.concatenate([self.subnets, lines]), self.degree)
        return replace(both, num_lines=len(lines)) if len(lines) else self

    @cached_property
    def is_line(self) -> np.ndarray:
        """Which waves are lines, (M,)."""
        return self.group >= len(self.subnets) - self.num_lines

    @cached_property
    def vectors(self) -> np.ndarray:
        """k of every wave, (M, m)."""
        return self.signs * self.subnets[self.group]

    @cached_property
    def has_sine(self) -> np.ndarray:
        """Which waves have a sine column: all but the zero wave."""
        return np.asarray(self.subnets[self.group].any(axis=1))

    @cached_property
    def num_columns(self) -> int:
        """Columns of the design matrix."""
        return len(self.group) + int(self.has_sine.sum()) + self.num_powers

    @property
    def num_powers(self) -> int:
        """Columns of the trend."""
        return self.degree * self.subnets.shape[1]

    @property
    def num_blocks(self) -> int:
        """The number of prior variances: one for every sub-network and for every column of the trend."""
        return len(self.subnets) + self.num_powers

    @cached_property
    def column_subnet(self) -> np.ndarray:
        """The sub-network of every column; each column of the trend counts as one more."""
        trend = len(self.subnets) + np.arange(self.num_powers)
        return np.concatenate([self.group, self.group[self.has_sine], trend])

    def split(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(C, S) of every wave from one coefficient per column, leading axis columns."""
        M = len(self.group)
        S = np.zeros((M, *coefficients.shape[1:]))
        S[self.has_sine] = coefficients[M : len(coefficients) - self.num_powers]
        return coefficients[:M], S

    @cached_property
    def _steps(self) -> np.ndarray:
        """On a lattice, the integers of every wave with their signs, (M, m)."""
        assert self.integers is not None
        return self.signs.astype(int) * self.integers[self.group]

    def _phasors(self, z: np.ndarray, memory: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
        """exp(i k.z), wave-major (M, P); on a lattice, in `memory` if given, two such arrays."""
        if self.base is None:
            return phasors(self.vectors @ z.T)
        out, factor = memory or np.empty((2, len(self.group), len(z)), complex)
        for j, steps in enumerate(self._steps.T):
            rows = np.flatnonzero(steps)
            if j and not len(rows):
                continue
            table = powers(self.base[j] * z[:, j], int(np.abs(steps).max()))
            both = np.concatenate([table, table[:0:-1].conj()])  # the power -k is the k-th from the end
            if j and 2 * len(rows) < len(steps):
                out[rows] *= both[steps[rows]]
                continue
            np.take(both, steps, axis=0, out=factor if j else out, mode="wrap")
            if j:
                out *= factor
        return out

    def columns(self, z: np.ndarray) -> np.ndarray:
        """The design matrix (P, columns), column-major."""
        return self.blocks()(z)

    def blocks(self) -> Callable[[np.ndarray], np.ndarray]:
        """`columns` for one block of points after the other, each in the memory of the one before: fresh memory is slow to get."""
        memory: list[np.ndarray] = []

        def columns(z: np.ndarray) -> np.ndarray:
            if not memory or memory[-1].shape[1] != len(z):
                shape = len(self.group), len(z)
                memory[:] = np.empty(shape, complex), np.empty(shape, complex), np.empty((self.num_columns, len(z)))
            table, factor, out = memory
            return self._columns(self._phasors(z, (table, factor)), z, out)

        return columns

    def _columns(self, table: np.ndarray, z: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        out, M = np.empty((self.num_columns, len(z))) if out is None else out, len(table)
        out[:M] = np.real(table)
        row, first = M, 0
        for zero in (*np.flatnonzero(~self.has_sine), M):  # slices: picking rows would copy them
            out[row : row + zero - first] = np.imag(table)[first:zero]
            row, first = row + zero - first, zero + 1
        for power in (z.T, 1.5 * z.T**2 - 0.5)[: self.degree]:
            out[row : row + len(power)] = power
            row += len(power)
        return out.T

    def values(self, z: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """The sum of coefficients (columns, K) times columns, (P, K), some points at a time."""
        step = max(1, BLOCK_NUMBERS // self.num_columns)
        parts = [self.columns(z[i : i + step]) @ coefficients for i in range(0, len(z), step)]
        return np.concatenate([np.zeros((0, coefficients.shape[1])), *parts])

    def columns_and_slopes(self, z: np.ndarray, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The design matrix, and the derivatives of the fitted values in the frequencies, (P, K, N m), from one table.

        d/dn_gj sum C cos k.z + S sin k.z = sum_{waves of g} e_j z_j (S cos k.z - C sin k.z).
        """
        C, S = self.split(coefficients)  # (M, K)
        table = self._phasors(z)
        N, m = self.subnets.shape
        out = np.empty((len(z), C.shape[1], N, m))
        starts = np.searchsorted(self.group, np.arange(N))  # the waves of a sub-network are consecutive
        for k in range(C.shape[1]):
            turned = S[:, k, None] * np.real(table) - C[:, k, None] * np.imag(table)  # (M, P)
            for j in range(m):
                out[:, k, :, j] = np.add.reduceat(self.signs[:, j, None] * turned, starts, axis=0).T * z[:, j, None]
        return self._columns(table, z), out.reshape(len(z), C.shape[1], N * m)
