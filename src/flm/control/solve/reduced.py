"""The reduced method: the control is the series, the states follow from the dynamics.

One start: the time basis grows until the estimated excess cost and the change on enlarging it are below the tolerance.

A family: held-out starts are first solved one by one, which gives the optimum to judge the law by and the number of
time frequencies that it needs; then one law is fitted to training starts, its lattice in the start growing until
the law's excess cost on the held-out starts is below the tolerance. Near a training start's own control u_j its cost is
quadratic, with the exact Hessian H_j in the control's values at the nodes of time, so that a law u(s; z) loses, to third order,

    ½ Σ_j w_j (u(·; z_j) - u_j)' H_j (u(·; z_j) - u_j),        w_j = 1 / (number of starts × cost):

weighted least squares, linear in the amplitudes. On a product lattice the law is Σ_ab X_ab θ_a(s) ψ_b(z), both bases
orthonormal, and its matrix Σ_j w_j θ'H_jθ ⊗ ψ(z_j) ψ(z_j)'. Frequencies are learned by variable projection.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from flm.control.dynamics import grid
from flm.control.law import ControlLaw, space_products
from flm.control.problem import OptimalControl
from flm.control.solve.levels import FIRST, Batch, Level, best_controls, explore, solve_starts, stalled, transcribe
from flm.control.solve.search import COLUMNS, MET, NO_GAIN, OF_THIS_SIZE, Found, Search, cost_scale
from flm.control.solve.variation import TimeBasis
from flm.numerics.newton import Nielsen
from flm.numerics.variable_projection import Projected, project
from flm.results import Ending, Word
from flm.series.tables import WaveTable
from flm.wording import InputError

_STRETCH = 1.05  # of training starts, so that some lie on the edge of the set
_SPACE_UNIT = np.pi / 8  # the lowest wave repeats after eight widths: a Fourier extension, without zero components
_RIDGE = 1e-9  # relative to the largest column, on the amplitudes of frequencies that are learned


def solve_reduced(search: Search) -> Ending:
    """The law of one initial state or of a family, grown to the tolerance or of a given size."""
    starts, tol, size = search.problem.starts, search.tol, search.num_subnets
    if starts.dimension and size is None:
        _refuse_few_columns(search)
    first = explore(search.problem, search.seed)
    search.keep(Found(_law(first), np.inf, float(first.run.violation.max()), "it was not judged yet"))
    if not starts.dimension and size is None:
        keep = lambda level: search.keep(
            Found(_law(level.batch), level.error, float(level.violation.max()), level.doubt)
        )
        return solve_starts(search, starts.center[None], first, tol=tol, keep=keep)[1]
    held_out = starts.held_out(seed=search.seed + 1)
    # The best law of a given size is sought whatever the tolerance.
    tol = 0.25 * (tol if size is None else min(tol, 1e-8))
    levels, ending = solve_starts(search, held_out, first, tol=tol)
    losses = {level.count: float((level.excess / cost_scale(level.cost)).max()) for level in levels}
    enough = next((count for count, loss in losses.items() if loss <= tol), levels[-1].count)
    fit = _FamilyFit(search, levels[-1], losses, enough)
    if ending.word is Word.STALLED and not np.isfinite(levels[-1].error):  # there is nothing to judge laws by
        fit.note(fit.on_lattice(1, enough))
        return ending
    return fit.to_tolerance() if size is None else fit.of_size(size)


def _law(batch: Batch) -> ControlLaw:
    """The control of a batch's only start as the law of all starts."""
    problem, starts = batch.transcription.problem, batch.transcription.problem.starts
    v0 = starts.spread(4 * 2**starts.dimension, seed=0)
    space = SpaceBasis.make(space_lattice(starts.dimension, 1), starts.normalize(v0))
    return make_law(problem, batch.transcription.basis, space, batch.c.T @ space.values.mean(axis=0, keepdims=True))


@dataclass(frozen=True, eq=False)
class _FamilyFit:
    """Fits of laws to training starts, judged on held-out ones.

    `losses` are the relative costs that the held-out starts lose by number of time frequencies; with `enough` they lose little.
    """

    search: Search
    judge: Level
    losses: dict[int, float]
    enough: int

    def to_tolerance(self) -> Ending:
        """Grow the lattice in the start until the law is good enough."""
        problem, max_columns = self.search.problem, self.search.max_columns
        losses, enough = self.losses, self.enough
        law, errors, level = None, [], 1
        while True:
            # Within the allowed size, fewer time frequencies are better than a poor lattice in the start.
            fitting = [c for c in sorted(losses) if c <= enough and _columns(problem, c, level) <= max_columns]
            if not fitting or (fitting[-1] < enough and errors and losses[fitting[-1]] > 0.5 * min(errors)):
                return COLUMNS
            law = self.on_lattice(level, fitting[-1], law)
            errors.append(self.note(law))
            if errors[-1] <= self.search.tol:
                return MET
            if stalled(errors):
                return NO_GAIN
            level += 1

    def of_size(self, num_subnets: int) -> Ending:
        """The best law with `num_subnets` sub-networks: every way to split them between time and start is tried."""
        problem, d = self.search.problem, self.search.problem.starts.dimension
        levels = [1]
        while d and num_subnets // len(space_lattice(d, levels[-1] + 1)) >= 2:
            levels.append(levels[-1] + 1)
        laws = []
        for level in levels:
            count = min(num_subnets // len(space_lattice(d, level)), self.enough) if d else num_subnets
            law = self.on_lattice(level, count)
            laws.append((self.note(law), level, law))
        _, level, law = min(laws, key=lambda entry: entry[0])
        if not (problem.constrained or problem.free):
            law = _widened(law, num_subnets, d, level)
            solved = self.solved(max(100, 3 * 2**d * level**2) if d else 1, self.enough)
            self.note(learn_frequencies(solved, law, steps=20 if law.coefficients.size <= 512 else 6))
        return OF_THIS_SIZE

    def on_lattice(self, level: int, count: int, before: ControlLaw | None = None) -> ControlLaw:
        """The law with `count` time frequencies on a level of the lattice in the start, from the controls of a law."""
        d = self.search.problem.starts.dimension
        lattice = space_lattice(d, level)
        # 2.5 training starts for each function of the start, and some more.
        num_starts = int(2.5 * len(lattice) * 2**d) + 8 if d else 1
        return fit_lattice(self.solved(num_starts, count, before), lattice)

    def solved(self, num_starts: int, count: int, before: ControlLaw | None = None) -> Batch:
        """A batch of `num_starts` training starts, solved one by one on `count` time frequencies from the controls of a law."""
        problem, starts = self.search.problem, self.search.problem.starts
        transcription = transcribe(problem, starts.spread(num_starts, seed=self.search.seed, stretch=_STRETCH), count)
        controls = self.judge.batch.controls if before is None else before.at(transcription.v0)
        return best_controls(transcription, transcription.coordinates(controls))[0]

    def note(self, law: ControlLaw) -> float:
        """Judge a law, remember it, and return its error."""
        error = self.search.keep(Found(law, *self.judge.error_of(law), self.judge.doubt))
        mean = float(self.judge.cost.mean())
        stage = "family" if self.search.problem.starts.dimension else "start"
        self.search.record.step(stage, columns=law.num_columns, estimate=mean, error_estimate=error)
        return error


def _columns(problem: OptimalControl, count: int, level: int) -> int:
    """The columns of a law with `count` time frequencies and the lattice of a level in the start."""
    d = problem.starts.dimension
    return 2 * count * len(space_lattice(d, level)) * 2**d * len(problem.controls)


def _refuse_few_columns(search: Search) -> None:
    problem, least = search.problem, _columns(search.problem, FIRST, 1)
    if least > search.max_columns:
        k = len(problem.controls)
        raise InputError(
            f"`max_columns` must be at least {least} for {problem.starts.dimension} varying coordinates of the start and "
            f"{k} control{'s' if k > 1 else ''}; got {search.max_columns}."
        )


def _widened(law: ControlLaw, num_subnets: int, dimension: int, level: int) -> ControlLaw:
    """The law with sub-networks of zero amplitude added, on the next level of the lattice in the start, up to `num_subnets`."""
    missing = num_subnets - len(law.frequencies)
    if not missing:
        return law
    waves = space_lattice(dimension, level + 1)[len(space_lattice(dimension, level)) :]
    times = np.unique(law.frequencies[:, 0])
    pairs = np.array([[time, *wave] for time in times for wave in waves])[:missing]
    while len(pairs) < missing:
        pairs = np.concatenate([pairs, pairs[: missing - len(pairs)] + np.pi / 4])
    return replace(
        law,
        frequencies=np.concatenate([law.frequencies, pairs]),
        coefficients=np.concatenate([law.coefficients, np.zeros((missing, *law.coefficients.shape[1:]))]),
    )


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
    matrix = kronecker.transpose(0, 2, 1, 3).reshape(m * b, m * b)
    ridge = 1e-14 * np.trace(matrix) / len(matrix) + 1e-300
    X = np.linalg.solve(matrix + ridge * np.eye(len(matrix)), right.ravel()).reshape(m, b)
    return make_law(problem, transcription.basis, space, X)


def _weighted(batch: Batch, hessian: np.ndarray) -> np.ndarray:
    """Hessians (P, M, M) times w_j, with negative eigenvalues turned positive; zero for starts that failed."""
    good = np.isfinite(batch.run.cost) & np.isfinite(hessian).all(axis=(1, 2))
    hessian = np.where(good[:, None, None], hessian, 0.0)
    size, turn = np.linalg.eigh(hessian / (cost_scale(batch.run.cost) * len(hessian))[:, None, None])
    return (turn * np.abs(size)[:, None]) @ np.swapaxes(turn, 1, 2)


class _SolvedStarts(NamedTuple):
    """Normalized starts z (P, d), time nodes s (P, R), and the quadratic models of the costs around the starts' own controls.

    `roots` (k, P, k R, R) are square roots of the weighted Hessians by control: they turn values of a control at the nodes into
    rows of least squares; `target` (P k R,) are the rows of the own controls, before squashing and less their rest.
    """

    z: np.ndarray
    s: np.ndarray
    roots: np.ndarray
    target: np.ndarray


def learn_frequencies(batch: Batch, law: ControlLaw, *, steps: int) -> ControlLaw:
    """The law with its frequencies moved, off any lattice, to where solved starts of a fixed horizon lose least."""
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
    """A law whose amplitudes are the best for its frequencies; `basis` spans its columns, `residual` is what they do not fit."""

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
        """Twice the mean relative cost that the law loses."""
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
        frequencies = self.law.frequencies + step.reshape(self.law.frequencies.shape)
        return _TunedLaw.at(self.starts, replace(self.law, frequencies=frequencies))


def _quarter_turn(products: np.ndarray, p: int) -> np.ndarray:
    """Products with factor p differentiated: cos -> -sin, sin -> cos."""
    shaped = products.reshape(*products.shape[:2], 2**p, 2, -1)
    turned = np.stack([-shaped[..., 1, :], shaped[..., 0, :]], axis=-2)
    return turned.reshape(products.shape)
