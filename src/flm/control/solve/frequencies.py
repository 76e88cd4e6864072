"""Learned frequencies: generalized Gauss–Newton on frequencies and amplitudes together.

A sub-network's part of the control, Σ_t f_t(ω s) α_t(z) with f = (cos, sin), moves with its frequencies by

    du/dω   = -s sin(ω s) α_cos + s cos(ω s) α_sin,        du/dκ_p = Σ_t f_t(ω s) dα_t/dκ_p,

so that with the four time functions cos, sin, s cos, s sin of each sub-network the start's cost has all that is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from flm.control.dynamics.simulation import Simulated, grid
from flm.control.law import ControlLaw, space_products
from flm.control.problem import OptimalControl
from flm.control.solve.family import convex, start_weights
from flm.control.solve.variation import Derivatives, TimeBasis, Transcription
from flm.numerics.newton import Nielsen, Step, Trial, minimize
from flm.series.tables import WaveTable


def fit_law(
    problem: OptimalControl,
    law: ControlLaw,
    v0: np.ndarray,
    *,
    num_elements: int,
    frequencies: bool = True,
    steps: int = 40,
) -> ControlLaw:
    """The law with amplitudes, and `frequencies`, that minimize the mean relative cost over the starts v0 (P, d).

    The frequencies need not form a product lattice. For problems with a fixed horizon and without constraints.
    """
    transcription = _transcribe(problem, law, v0, num_elements)
    run = transcription.run(_coordinates(law, v0))
    start, rule = LawPoint(law, transcription, start_weights(run.cost), frequencies, run), Nielsen(start=1e-3)
    return minimize(start, lambda point: point, rule, max_steps=steps, gain_tol=1e-12, step_tol=1e-12).point.law


@dataclass(frozen=True, eq=False)
class LawPoint:
    """A law and the trajectories under it: a point of Levenberg–Marquardt's method, and its model there.

    Without `moving` the frequencies stay where they are.
    """

    law: ControlLaw
    transcription: Transcription
    weight: np.ndarray
    moving: bool
    run: Simulated

    @cached_property
    def c(self) -> np.ndarray:
        """Each start's own time coefficients, (P, M)."""
        return _coordinates(self.law, self.transcription.v0)

    @cached_property
    def derivatives(self) -> Derivatives:
        """Of each start's cost."""
        return self.transcription.derivatives(self.run, self.c)

    @property
    def value(self) -> float:
        """The mean relative cost."""
        return float(self.weight @ self.transcription.merit(self.run, self.c, self.derivatives))

    @cached_property
    def _system(self) -> tuple[np.ndarray, np.ndarray]:
        """The Gauss–Newton matrix (N R, N R) and the gradient (N R,)."""
        jacobian = _jacobian(self.law, self.transcription.v0)
        gradient, matrix = _assemble(self.derivatives, jacobian, self.weight)
        if not self.moving:
            amplitudes = self.law.coefficients[0].size
            fixed = np.tile(np.arange(jacobian.shape[-1]) >= amplitudes, self.law.num_subnets)
            gradient[fixed], matrix[fixed], matrix[:, fixed] = 0.0, 0.0, 0.0
        return matrix, gradient

    def step(self, damping: np.ndarray) -> Step:
        """The damped step, columns scaled to unit length."""
        matrix, gradient = self._system
        size = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
        size = np.maximum(size, 1e-8 * size.max())
        scaled, slope = matrix / size[:, None] / size, gradient / size
        factor = scipy.linalg.cho_factor(scaled + (float(damping) + 1e-13) * np.eye(len(size)), check_finite=False)
        step = -scipy.linalg.cho_solve(factor, slope, check_finite=False)
        return Step(step / size, -(step @ slope) - 0.5 * step @ scaled @ step)

    def take(self, move: np.ndarray) -> Trial[LawPoint]:
        """The trajectories after a step, by Newton's iteration from those before it."""
        move, split = move.reshape(self.law.num_subnets, -1), self.law.coefficients[0].size
        law = replace(
            self.law,
            coefficients=self.law.coefficients + move[:, :split].reshape(self.law.coefficients.shape),
            frequencies=self.law.frequencies + move[:, split:],
        )
        before = self.transcription
        after = _transcribe(before.problem, law, before.v0, len(before.basis.edges) - 1)
        run = after.run(_coordinates(law, before.v0), guess=np.nan_to_num(self.run.stages))
        point = replace(self, law=law, transcription=after, run=run)
        return Trial(point, float(self.weight @ after.merit(run, point.c, self.derivatives)))


def _transcribe(problem: OptimalControl, law: ControlLaw, v0: np.ndarray, num_elements: int) -> Transcription:
    """The problem on the four time functions cos, sin, s cos, s sin of each sub-network."""
    edges = np.linspace(0.0, 1.0, num_elements + 1)[:, None]
    s = grid(edges, 1)[0]  # (E, 1, q)
    pairs = WaveTable.at(s, law.frequencies[:, 0]).pairs()  # (E, 1, q, N, 2)
    nodes = np.concatenate([pairs, s[..., None, None] * pairs], axis=-1).reshape(*s.shape, -1)
    return Transcription(problem, TimeBasis(law.frequencies[:, 0], edges, nodes, np.zeros((0, 0))), v0)


def _coordinates(law: ControlLaw, v0: np.ndarray) -> np.ndarray:
    """c (P, K 4N): the amplitudes of cos and sin, and zeros."""
    alpha = law.amplitudes(v0).reshape(len(v0), law.num_subnets, 2, -1)
    c = np.zeros((len(v0), alpha.shape[-1], law.num_subnets, 4))
    c[..., :2] = alpha.transpose(0, 3, 1, 2)
    return c.reshape(len(v0), -1)


def _jacobian(law: ControlLaw, v0: np.ndarray) -> np.ndarray:
    """dc/d(parameters of a sub-network), (P, N, K, 4, R) with R = 2 2^d K + 1 + d."""
    n, _, size, k = law.coefficients.shape
    d, z = len(law.center), law.normalize(v0)
    products = space_products(z, law.frequencies[:, 1:])  # (P, N, 2^d)
    alpha = law.amplitudes(v0).reshape(len(v0), n, 2, k)
    amplitudes = np.zeros((len(v0), n, k, 4, 2, size, k))
    for t in range(2):
        for i in range(k):
            amplitudes[:, :, i, t, t, :, i] = products
    columns = np.zeros((len(v0), n, k, 4, 1 + d))
    columns[:, :, :, 3, 0] = -alpha[:, :, 0]
    columns[:, :, :, 2, 0] = alpha[:, :, 1]
    for p in range(d):
        slope = z[:, None, None, p, None] * _quarter_turn(products, p)[:, :, None, :]  # (P, N, 1, 2^d)
        columns[:, :, :, :2, 1 + p] = np.einsum("pnti,ntik->pnkt", slope, law.coefficients)
    return np.concatenate([amplitudes.reshape(len(v0), n, k, 4, -1), columns], axis=-1)


def _quarter_turn(products: np.ndarray, p: int) -> np.ndarray:
    """Products with factor p differentiated: cos -> -sin, sin -> cos."""
    shaped = products.reshape(*products.shape[:2], 2**p, 2, -1)
    turned = np.stack([-shaped[..., 1, :], shaped[..., 0, :]], axis=-2)
    return turned.reshape(products.shape)


def _assemble(found: Derivatives, jacobian: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (N R,) and Gauss–Newton matrix (N R, N R) from those in the starts' time coordinates."""
    starts, n, k, _, r = jacobian.shape
    g = (found.gradient * weight[:, None]).reshape(starts, k, n, 4)
    total = np.einsum("pkna,pnkar->nr", g, jacobian, optimize=True).reshape(-1)
    h = (convex(found.hessian) * weight[:, None, None]).reshape(starts, k, n, 4, k, n, 4)
    h = h.transpose(0, 2, 1, 3, 5, 4, 6).reshape(starts, n, 4 * k, n, 4 * k)
    flat = jacobian.reshape(starts, n, 4 * k, r)
    matrix = np.empty((n, r, n, r))
    for i in range(n):
        left = np.swapaxes(flat[:, i], 1, 2)[:, None] @ h[:, i].transpose(0, 2, 1, 3)  # (P, N, R, 4k)
        matrix[i] = np.einsum("pnra,pnas->rns", left, flat, optimize=True)
    return total, matrix.reshape(n * r, n * r)
