"""One control law for a whole set of starts, fitted to the starts' own solutions.

Each training start j is solved by itself. Near its control u_j its cost is quadratic, with the exact Hessian H_j by the
control's values at the nodes of time, so that a law u(s; z) loses, to third order,

    ½ Σ_j w_j (u(·; z_j) - u_j)' H_j (u(·; z_j) - u_j),        w_j = 1 / (number of starts × cost):

weighted least squares, linear in the amplitudes. On a product lattice the law is Σ_ab X_ab θ_a(s) ψ_b(z), both bases
orthonormal, and its matrix Σ_j w_j θ'H_jθ ⊗ ψ(z_j) ψ(z_j)'. Frequencies are learned by variable projection.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy.linalg

from flm.control.dynamics import grid
from flm.control.law import ControlLaw, space_products
from flm.control.problem import OptimalControl
from flm.control.solve.levels import Batch
from flm.control.solve.search import cost_scale
from flm.control.solve.variation import TimeBasis
from flm.numerics.newton import Nielsen
from flm.numerics.variable_projection import Projected, project
from flm.series.tables import WaveTable

_SPACE_UNIT = np.pi / 8  # the lowest wave repeats after eight widths: a Fourier extension, without zero components
_RIDGE = 1e-9  # relative to the largest column, on the amplitudes of frequencies that are learned


@dataclass(frozen=True, eq=False)
class SpaceBasis:
    """Orthonormal combinations of products of waves in the normalized start, on training starts.

    `values` (P, B) have unit mean square; `transform` (n 2^d, B) are their coefficients in the products.
    """

    frequencies: np.ndarray
    values: np.ndarray
    transform: np.ndarray

    @classmethod
    def make(cls, frequencies: np.ndarray, z: np.ndarray) -> SpaceBasis:
        """The basis spanned by the waves with the given frequencies (n, d), on starts z (P, d)."""
        products = space_products(z, frequencies).reshape(len(z), -1)
        left, size, right = np.linalg.svd(products / np.sqrt(len(z)), full_matrices=False)
        keep = size > 1e-10 * size[0]
        return cls(frequencies, left[:, keep] * np.sqrt(len(z)), right[keep].T / size[keep])


def space_lattice(dimension: int, level: int) -> np.ndarray:
    """Frequencies _SPACE_UNIT (1 + k), k in N_0^d with total degree below `level`, (n, d)."""
    points = [k for k in product(range(level), repeat=dimension) if sum(k) < level]
    points.sort(key=lambda k: (sum(k), k))
    return _SPACE_UNIT * (1.0 + np.array(points, float).reshape(len(points), dimension))


def make_law(problem: OptimalControl, basis: TimeBasis, space: SpaceBasis, coordinates: np.ndarray) -> ControlLaw:
    """The law Σ X_kab θ_a ψ_b with coordinates X (M, B) on a product lattice."""
    (n, d), A, k = space.frequencies.shape, len(basis.frequencies), len(problem.controls)
    X = coordinates[: k * basis.size].reshape(k, basis.size, -1)
    a = np.einsum("tm,kmb,ib->tik", basis.transform, X, space.transform, optimize=True)  # (2A, n 2^d, K)
    return ControlLaw.of(
        problem,
        frequencies=np.hstack([np.repeat(basis.frequencies, n)[:, None], np.tile(space.frequencies, (A, 1))]),
        coefficients=a.reshape(A, 2, n, 2**d, k).transpose(0, 2, 1, 3, 4).reshape(A * n, 2, 2**d, k),
        duration_frequencies=space.frequencies if problem.free else None,
        duration_coefficients=(space.transform @ coordinates[-1]).reshape(n, 2**d) if problem.free else None,
    )


def fit_lattice(batch: Batch, space_frequencies: np.ndarray) -> ControlLaw:
    """The best law on the time basis of solved starts and on the given frequencies of the start (n, d)."""
    transcription, problem = batch.transcription, batch.transcription.problem
    space = SpaceBasis.make(space_frequencies, problem.starts.normalize(transcription.v0))
    hessian, psi = _weighted(batch, batch.derivatives.hessian), space.values
    right = (hessian @ batch.c[..., None])[..., 0].T @ psi  # (M, B)
    (count, m, _), b = hessian.shape, psi.shape[1]
    pairs = (psi[:, :, None] * psi[:, None, :]).reshape(count, -1)
    kronecker = (hessian.reshape(count, -1).T @ pairs).reshape(m, m, b, b)  # Σ_j H_j ⊗ ψ_j ψ_j'
    X = _solve(kronecker.transpose(0, 2, 1, 3).reshape(m * b, m * b), right.ravel()).reshape(m, b)
    return make_law(problem, transcription.basis, space, X)


def _weighted(batch: Batch, hessian: np.ndarray) -> np.ndarray:
    """Hessians (P, M, M) times w_j, with negative eigenvalues turned positive."""
    size, turn = np.linalg.eigh(hessian / (cost_scale(batch.run.cost) * len(hessian))[:, None, None])
    return (turn * np.abs(size)[:, None]) @ np.swapaxes(turn, 1, 2)


class _SolvedStarts(NamedTuple):
    """Normalized starts z (P, d), nodes s (P, R) of time, and the quadratic models of the costs around the starts' own controls.

    `roots` (k, P, k R, R) are square roots of the weighted Hessians by control: they turn values of a control at the nodes into
    rows of least squares; `target` (P k R,) is what they make of the own controls, before squashing and less their rest.
    """

    z: np.ndarray
    s: np.ndarray
    roots: np.ndarray
    target: np.ndarray


def learn_frequencies(batch: Batch, law: ControlLaw, *, steps: int) -> ControlLaw:
    """The law with frequencies moved, off any lattice, to where solved starts of a fixed horizon lose least by it."""
    transcription, problem, count = batch.transcription, batch.transcription.problem, len(batch.c)
    raw = transcription.raw(batch.c) - problem.rest  # (E, P, q, k)
    values = raw.transpose(1, 3, 0, 2).reshape(count, -1)
    nodal = replace(transcription, basis=transcription.basis.nodal())
    size, turn = np.linalg.eigh(_weighted(batch, nodal.derivatives(batch.run, values, batch.multipliers).hessian))
    rows = np.sqrt(np.maximum(size, 0.0))[..., None] * np.swapaxes(turn, 1, 2)
    roots = np.stack(np.split(rows, len(problem.controls), axis=2))
    s = np.swapaxes(grid(transcription.basis.edges, count)[0], 0, 1).reshape(count, -1)
    z = problem.starts.normalize(transcription.v0)
    starts = _SolvedStarts(z, s, roots, (rows @ values[..., None]).ravel())
    return project(_TunedLaw.at(starts, law), Nielsen(start=1e-3), max_steps=steps, gain_tol=1e-6).point.law


@dataclass(frozen=True, eq=False)
class _TunedLaw:
    """A law whose amplitudes are the best for its frequencies; `basis` spans its columns, `residual` is what they leave."""

    starts: _SolvedStarts
    law: ControlLaw
    basis: np.ndarray
    residual: np.ndarray

    @classmethod
    def at(cls, starts: _SolvedStarts, law: ControlLaw) -> _TunedLaw:
        products = space_products(starts.z, law.frequencies[:, 1:])  # (P, N, 2^d)
        pairs = WaveTable.at(starts.s, law.frequencies[:, 0]).pairs()  # (P, R, N, 2)
        waves = (pairs[..., None] * products[:, None, :, None]).reshape(*starts.s.shape, -1)
        columns = np.stack([root @ waves for root in starts.roots], axis=-1).reshape(len(starts.target), -1)
        basis, size, turn = np.linalg.svd(columns, full_matrices=False)
        kept = size / (size**2 + (_RIDGE * size[0]) ** 2)
        coefficients = turn.T @ (kept * (basis.T @ starts.target))
        law = replace(law, coefficients=coefficients.reshape(law.coefficients.shape))
        return cls(starts, law, basis, starts.target - columns @ coefficients)

    @property
    def value(self) -> float:
        """Twice what the law loses, relative to the cost, in the mean."""
        return float(self.residual @ self.residual)

    def projected(self) -> Projected:
        starts, law = self.starts, self.law
        products = space_products(starts.z, law.frequencies[:, 1:])
        pairs = WaveTable.at(starts.s, law.frequencies[:, 0]).pairs()
        turned = starts.s[..., None, None] * np.stack([-pairs[..., 1], pairs[..., 0]], axis=-1)
        sides = [(turned, products)]
        sides += [(pairs, z[:, None, None] * _quarter_turn(products, p)) for p, z in enumerate(starts.z.T)]
        # (P, R, N, k) each: Σ_t f_t(s) Σ_g products_g a_ntgk
        parts = [np.einsum("prnt,pntk->prnk", a, np.einsum("png,ntgk->pntk", b, law.coefficients)) for a, b in sides]
        slopes = np.stack(parts, axis=3).reshape(*starts.s.shape, -1, len(starts.roots))  # (P, R, N (1 + d), k)
        rows = np.sum([root @ slopes[..., i] for i, root in enumerate(starts.roots)], axis=0)
        rows = rows.reshape(len(self.residual), -1)
        return Projected(rows - self.basis @ (self.basis.T @ rows), self.residual)

    def moved(self, step: np.ndarray) -> _TunedLaw:
        law = self.law
        return _TunedLaw.at(
            self.starts, replace(law, frequencies=law.frequencies + step.reshape(law.frequencies.shape))
        )


def _quarter_turn(products: np.ndarray, p: int) -> np.ndarray:
    """Products with factor p differentiated: cos -> -sin, sin -> cos."""
    shaped = products.reshape(*products.shape[:2], 2**p, 2, -1)
    turned = np.stack([-shaped[..., 1, :], shaped[..., 0, :]], axis=-2)
    return turned.reshape(products.shape)


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """matrix⁻¹ right, with as much of a ridge as rounding asks for."""
    shift = 1e-14 * np.trace(matrix) / len(matrix)
    while True:
        try:
            factor = scipy.linalg.cho_factor(matrix + shift * np.eye(len(matrix)), overwrite_a=True, check_finite=False)
            return scipy.linalg.cho_solve(factor, right, check_finite=False)
        except scipy.linalg.LinAlgError:
            shift *= 100
