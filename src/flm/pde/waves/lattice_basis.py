"""The columns of an FLM with frequencies on a lattice, as products of one-dimensional tables.

On z in [-1, 1]^m (the bounding box) the frequencies are (pi / T_j) k_j, k in N_0^m; T_j is the period in widths. The span
of a sub-network is that of the 2^m products of cos and sin per axis, without the zero sin(0): each axis has the functions
1, cos w z, sin w z, cos 2 w z, ... and a column is a product of one per axis. A derivative along an axis only swaps and
scales rows of that axis' table, so m small tables give the value and every derivative of every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from flm.domains import AbstractDomain
from flm.models import FLM
from flm.pde.waves.basis import AbstractBasis, Alpha
from flm.series import SeparableSeries
from flm.series.tables import powers


class Tables:
    """One-dimensional tables of a basis at points: the value and any derivative of each axis' functions."""

    def __init__(self, basis: LatticeBasis, points: np.ndarray):
        z = (points - basis.center) * basis.scale  # one period is 2 pi
        self._base = []
        for j, top in enumerate(basis.top):
            waves = powers(z[:, j], top)[1:]
            table = np.empty((2 * top + 1, len(points)))
            table[0], table[1::2], table[2::2] = 1.0, np.real(waves), np.imag(waves)
            self._base.append(table)
        self._scale = basis.scale
        self._cache: dict[tuple[int, int], np.ndarray] = {}

    def __call__(self, axis: int, order: int) -> np.ndarray:
        """The order-th derivative of all functions of one axis, (functions, P)."""
        if order == 0:
            return self._base[axis]
        if (axis, order) not in self._cache:
            base = self._base[axis]
            k = (np.arange(1, len(base) // 2 + 1)[:, None] * self._scale[axis]) ** order
            table = np.empty_like(base)
            table[0] = 0.0
            # a quarter-turn per order: cos -> -sin -> -cos -> sin, sin -> cos -> -sin -> -cos
            cosine, sine = (base[1::2], base[2::2]) if order % 2 == 0 else (base[2::2], base[1::2])
            np.multiply(cosine, k if order % 4 in (0, 3) else -k, out=table[1::2])
            np.multiply(sine, k if order % 4 in (0, 1) else -k, out=table[2::2])
            self._cache[axis, order] = table
        return self._cache[axis, order]


class LatticeBasis(AbstractBasis[Tables]):
    """Products of sines and cosines over a set of lattice points.

    Args:
        domain: its bounding box is mapped to z in [-1, 1]^m.
        lattice: integer points (N, m) in N_0^m.
        periods: T_j, period of the frequency-1 wave in widths of the box, per axis.
    """

    def __init__(self, domain: AbstractDomain, lattice: np.ndarray, periods: Sequence[float]):
        self.axes = domain.axes
        self.lattice = np.asarray(lattice, int)
        self.periods = tuple(float(t) for t in periods)
        self.center, self.width = domain.bounds.mean(axis=1), domain.bounds[:, 1] - domain.bounds[:, 0]
        self.scale = 2 * np.pi / (self.width * np.array(self.periods))  # radians per unit of x
        self.top = self.lattice.max(axis=0)
        self.domain = domain

    @cached_property
    def functions(self) -> np.ndarray:
        """Which function of each axis makes each column, (C, m): 0 is 1, 2k - 1 is cos k, 2k is sin k."""
        m = self.lattice.shape[1]
        signs = np.array(np.meshgrid(*[[0, 1]] * m, indexing="ij")).reshape(m, -1).T  # (2^m, m), 1 = sine
        index = 2 * self.lattice[:, None, :] - 1 + signs
        index = np.where(self.lattice[:, None, :] == 0, np.where(signs == 0, 0, -1), index)  # no sin(0)
        index = index.reshape(-1, m)
        index = index[(index >= 0).all(axis=1)]
        return index[np.lexsort(index.T[::-1])]

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return len(self.functions)

    def tables(self, points: np.ndarray) -> Tables:
        """The one-dimensional tables at points."""
        return Tables(self, points)

    @cached_property
    def _is_box(self) -> bool:
        return self.num_columns == np.prod(2 * self.top + 1) and len(self.top) > 1

    def combine(self, tables: Tables, weights: dict[Alpha, np.ndarray], out: np.ndarray) -> None:
        """out (C, P) = sum over alpha of weight_alpha * D^alpha column."""
        if not weights:
            out[...] = 0.0
        elif self._is_box:
            self._combine_box(tables, weights, out)
        else:
            for i, (alpha, weight) in enumerate(weights.items()):
                block = tables(0, alpha[0])[self.functions[:, 0]]
                for j in range(1, len(alpha)):
                    block *= tables(j, alpha[j])[self.functions[:, j]]
                block *= weight
                np.add(out, block, out=out) if i else np.copyto(out, block)

    def _combine_box(self, tables: Tables, weights: dict[Alpha, np.ndarray], out: np.ndarray) -> None:
        """All products of a full box, in the lexicographic order of `functions`, one function of the first axis at a time.

        Terms that share their order along the first axis are added up before the products are formed, and one product
        fits in the cache.
        """
        inner: dict[int, np.ndarray] = {}
        for alpha, weight in weights.items():
            block = tables(len(alpha) - 1, alpha[-1]) * weight
            for j in range(len(alpha) - 2, 0, -1):
                block = (tables(j, alpha[j])[:, None, :] * block[None, :, :]).reshape(-1, block.shape[1])
            inner[alpha[0]] = inner[alpha[0]] + block if alpha[0] in inner else block
        first, *rest = inner
        size = len(inner[first])
        product = np.empty_like(inner[first])
        for f in range(2 * self.top[0] + 1):
            view = out[f * size : (f + 1) * size]
            np.multiply(inner[first], tables(0, first)[f], out=view)
            for order in rest:
                view += np.multiply(inner[order], tables(0, order)[f], out=product)

    def evaluate(self, tables: Tables, coefficients: np.ndarray, alphas: Sequence[Alpha]) -> np.ndarray:
        """D^alpha of the sum of coefficients (C, K) times columns: (A, P, K)."""
        size = tables(0, 0).shape[1]
        out = np.empty((len(alphas), size, coefficients.shape[1]))
        if len(self.top) == 2:  # dense in the box of functions: two small contractions instead of C columns
            dense = np.zeros((*(2 * self.top + 1), coefficients.shape[1]))
            dense[tuple(self.functions.T)] = coefficients
            for a, alpha in enumerate(alphas):
                right = np.einsum("fgk,gp->fpk", dense, tables(1, alpha[1]), optimize=True)
                out[a] = np.einsum("fp,fpk->pk", tables(0, alpha[0]), right)
            return out
        block = np.empty((self.num_columns, size))
        ones = np.ones(size)
        for a, alpha in enumerate(alphas):
            self.combine(tables, {alpha: ones}, block)
            out[a] = block.T @ coefficients
        return out

    def model(self, coefficients: np.ndarray) -> FLM:
        """The FLM that these coefficients (C, K) make, in the period of this basis."""
        n, m = self.lattice.shape
        outputs = coefficients.shape[1]
        place = {tuple(k): i for i, k in enumerate(self.lattice)}
        k = (self.functions + 1) // 2
        row = np.array([place[tuple(p)] for p in k])
        sine = (self.functions > 0) & (self.functions % 2 == 0)
        column = sine @ 2 ** np.arange(m)[::-1]
        separable = np.zeros((n, 2**m, outputs))
        separable[row, column] = coefficients
        phase = SeparableSeries(self.lattice.astype(float), separable).phase()
        model = FLM(
            self.domain,
            n,
            key=0,
            period=self.width * np.array(self.periods),
            num_outputs=outputs,
            frequencies=self.lattice.astype(float),
            train_frequencies=False,
        )
        shape = model.amplitudes.shape
        parts = (jnp.asarray(phase.amplitudes).reshape(shape), jnp.asarray(phase.phases).reshape(shape))
        return eqx.tree_at(lambda f: (f.amplitudes, f.phases), model, parts)


def lattice_set(sizes: Sequence[float], power: float) -> np.ndarray:
    """Points k of N_0^m with sum_j (k_j / (sizes_j - 1/2))^power <= 1: 1 total degree, 2 Euclidean, inf a box.

    Along axis j alone, sizes_j points: k_j = 0 ... sizes_j - 1.
    """
    reach = np.maximum(np.asarray(sizes, float) - 0.5, 0.5)
    lines = [np.arange(int(np.floor(r)) + 1) for r in reach]
    if np.isinf(power):
        return np.array(np.meshgrid(*lines, indexing="ij")).reshape(len(lines), -1).T
    points, used = np.zeros((1, 0), int), np.zeros(1)
    for line, r in zip(lines, reach, strict=True):
        total = used[:, None] + (line / r)[None, :] ** power
        i, k = np.nonzero(total <= 1.0)
        points, used = np.concatenate([points[i], line[k][:, None]], axis=1), total[i, k]
    return points
