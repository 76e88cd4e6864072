"""Least squares for conservation laws in their x-integrated (potential) form.

In nondimensional θ = 2π(x − x0)/L − c s, s = (t − t0)/T, with F = f · 2πT/L, the unknown is
u = mean + Σ_{k ≤ K} cos kθ p_k(s) + sin kθ q_k(s), and the residual is

    R = ∂_s D⁻¹u + F(u) − c u − ν u_θ − mean_θ(…),        D⁻¹ cos kθ = sin kθ / k.

Time functions: cos, sin of w_j s with w_j = 2.5 (j + ½), j < J (measured best among spacings 2.5, 3, 4.5, 6), replaced by
an orthonormal basis of their span. The Gauss–Newton matrix is a sum over times of Kronecker products, one 2K × 2K Gram
matrix per time: assembled without the long Jacobian.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from flm.conservation.law import ConservationLaw
from flm.numerics.least_squares import one_thread
from flm.numerics.newton import Minimum, Nielsen, Step, Trial
from flm.numerics.newton import minimize as descend
from flm.series.legendre import gauss
from flm.series.tables import WaveTable

SPACING = 2.5  # of the time frequencies
INITIAL_WEIGHT = 10.0  # of the initial condition against the residual; 1 to 100 made no difference
COMPRESSION_WEIGHT = 10.0  # how strongly rows in a shock are discounted
VISCOSITY = 0.01  # final ν as a multiple of 2π osc / K: the smallest that does not ring


class Law:
    """A conservation law in nondimensional variables: f, f′ and the initial state on arrays, one period of x, and T."""

    def __init__(self, problem: ConservationLaw):
        (self.left, right), (self.start, end) = problem.domain.intervals
        self.flux, self.speed = problem.flux, problem.speed
        self.period, self.horizon = right - self.left, end - self.start
        self.initial = lambda theta: problem.initial(self.left + self.period * (theta / (2.0 * np.pi) % 1.0))
        self.scale = 2.0 * np.pi * self.horizon / self.period  # from speeds to angles per horizon
        sample = self.initial(2.0 * np.pi * (np.arange(2**14) + 0.5) / 2**14)
        speeds, spread = self.speed(sample) * self.scale, float(np.ptp(sample))
        self.mean = float(sample.mean())  # conserved
        self.amplitude = spread if spread > 1e-14 * np.abs(sample).max() else 1.0  # the unit of errors
        self.oscillation = max(float(np.ptp(speeds)), 1e-3)  # the range of speeds; a linear flux has one
        self.mean_speed = float(speeds.mean())  # the first guess of the frame


class Waves(NamedTuple):
    """cos kθ then sin kθ for k = 1 … K at points, their derivatives and their antiderivatives, each (X, 2K)."""

    value: np.ndarray
    slope: np.ndarray
    integral: np.ndarray

    @classmethod
    def at(cls, theta: np.ndarray, num_harmonics: int) -> Waves:
        """The harmonics at angles."""
        table = WaveTable.at(theta, np.arange(1, num_harmonics + 1))
        return cls(table.columns(), table.columns(1), table.columns(-1))


class Clock(NamedTuple):
    """Orthonormal time functions at times (M, r), their derivatives, and their values at s = 0, (r,)."""

    value: np.ndarray
    slope: np.ndarray
    start: np.ndarray


class Bank:
    """Harmonics k ≤ K and J time frequencies in a frame of speed c, with their tables at collocation points.

    Coefficients are arrays (2K, 2J): rows cos kθ then sin kθ, columns cos w_j s then sin w_j s.
    """

    def __init__(self, law: Law, num_harmonics: int, num_times: int, frame: float):
        self.law, self.num_harmonics, self.num_times, self.frame = law, num_harmonics, num_times, frame
        self.num_columns = 4 * num_harmonics * num_times  # linear unknowns
        self.frequencies = SPACING * (np.arange(num_times) + 0.5)  # w_j
        count = 3 * num_harmonics + (num_harmonics + 1) % 2  # an odd number of angles: 2K would alias
        self.theta = 2.0 * np.pi * np.arange(count) / count
        self.waves = Waves.at(self.theta, num_harmonics)
        nodes, weights = gauss(max(20, 3 * num_times))
        self.times = 0.5 * (nodes + 1.0), weights
        # φE is orthonormal over the horizon, and E⁻ is the pseudo-inverse of E; directions below 1e-13 are dropped.
        table = WaveTable.at(self.times[0], self.frequencies)
        _, size, turn = np.linalg.svd(table.columns() * np.sqrt(weights)[:, None])
        kept = size > 1e-13 * size[0]
        E, self._inverse = turn[kept].T / size[kept], size[kept, None] * turn[kept]
        start = WaveTable.at(0.0, self.frequencies).columns()
        self.clock, self._orthonormal = Clock(table.columns() @ E, table.columns(1) @ E, start @ E), E

    def inner(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients of cos and sin → coefficients of the orthonormal time functions, (2K, r)."""
        return coefficients @ self._inverse.T

    def outer(self, inner: np.ndarray) -> np.ndarray:
        """Coefficients of the orthonormal time functions → coefficients of cos and sin, (2K, 2J)."""
        return inner @ self._orthonormal.T

    def residual(self, inner: np.ndarray, viscosity: float) -> tuple[np.ndarray, np.ndarray]:
        """u and R at the collocation points, both (X, M)."""
        phase, phase_s = inner @ self.clock.value.T, inner @ self.clock.slope.T
        u, r = self.at(self.waves, phase, phase_s)
        r = r - viscosity * (self.waves.slope @ phase)
        return u, r - r.mean(axis=0)

    def at(self, waves: Waves, phase: np.ndarray, phase_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """u and R at any points, without viscosity and mean, from the amplitudes (2K, M) of the harmonics and their slopes."""
        u = self.law.mean + waves.value @ phase
        return u, waves.integral @ phase_s + self.law.flux(u) * self.law.scale - self.frame * u

    def compression(self, inner: np.ndarray) -> np.ndarray:
        """Row weights 1/(1 + 10 max(−(f′(u))_x, 0) L/(osc K)), (X, M): characteristics that run together are a shock."""
        u = self.law.mean + self.waves.value @ (inner @ self.clock.value.T)
        waves = np.fft.rfft(self.law.speed(u) * self.law.scale, axis=0)
        order = 1j * np.arange(len(waves))[:, None]
        slope = np.fft.irfft(order * waves, n=len(self.theta), axis=0)
        steepness = 2.0 * np.pi * np.maximum(-slope, 0.0) / (self.law.oscillation * self.num_harmonics)
        return 1.0 / (1.0 + COMPRESSION_WEIGHT * steepness)


def minimize(
    bank: Bank, inner: np.ndarray, viscosity: float, weights: np.ndarray | float, *, steps: int, stop: float
) -> Minimum[Point]:
    """Levenberg–Marquardt on mean_θ ∫ (weights · R)² ds/(osc amp)² + 10 mean_θ (u − u0)²/amp² at s = 0, from `inner` (2K, r).

    It stops when a step lowers the cost by less than the share `stop`.
    """
    rule = Nielsen(1e-10, most=1e3)
    with one_thread(bank.num_columns):
        cost = _Cost(bank, viscosity, weights)
        return descend(cost.at(inner), lambda point: _Local(cost, point), rule, max_steps=steps, gain_tol=stop)


class Point(NamedTuple):
    """Coefficients of the orthonormal time functions (2K, r), with u, the weighted rows and the sum of their squares."""

    inner: np.ndarray
    u: np.ndarray
    rows: np.ndarray
    start_rows: np.ndarray
    cost: float


class _Cost:
    """The sum of squares that `minimize` lowers."""

    def __init__(self, bank: Bank, viscosity: float, weights: np.ndarray | float):
        self.bank, self.viscosity = bank, viscosity
        law, count = bank.law, len(bank.theta)
        phi, phi_s, _ = bank.clock
        scale = np.sqrt(bank.times[1] / count) / (law.oscillation * law.amplitude)
        self.row = np.broadcast_to(weights * scale, (count, len(phi)))  # (X, M)
        self.start_row = np.sqrt(INITIAL_WEIGHT / count) / law.amplitude
        self.start_target = law.initial(bank.theta) - law.mean
        products = ((phi_s, phi_s), (phi_s, phi), (phi, phi))
        self.pairs = [np.einsum("mi,mj->mij", a, b).reshape(len(phi), -1).T for a, b in products]

    def at(self, inner: np.ndarray) -> Point:
        u, r = self.bank.residual(inner, self.viscosity)
        start = self.start_row * (self.bank.waves.value @ (inner @ self.bank.clock.start) - self.start_target)
        weighted = self.row * r
        return Point(inner, u, weighted, start, float(np.sum(weighted**2) + start @ start))


class _Local:
    """The cost near a point: its Gauss–Newton matrix, a sum over times of Kronecker products, and half its slope."""

    def __init__(self, cost: _Cost, point: Point):
        self.cost, self.point, self.value = cost, point, point.cost
        bank, row = cost.bank, cost.row
        (value, slope, integral), (phi, phi_s, phi_0) = bank.waves, bank.clock
        rank, half = phi.shape[1], value.shape[1]
        speed = bank.law.speed(point.u) * bank.law.scale - bank.frame  # (X, M)
        # ∂R = φ′ ⊗ D⁻¹ + φ ⊗ Q,  Q = f′(u) − c − ν ∂_θ less its mean
        q = speed.T[:, :, None] * value - cost.viscosity * slope
        q -= q.mean(axis=1, keepdims=True)
        q *= row.T[:, :, None]
        p = row.T[:, :, None] * integral
        grams = [np.matmul(a.transpose(0, 2, 1), b).reshape(len(phi), -1) for a, b in ((p, p), (p, q), (q, q))]
        cross = (cost.pairs[1] @ grams[1]).reshape(rank, rank, half, half)
        hessian = (cost.pairs[0] @ grams[0] + cost.pairs[2] @ grams[2]).reshape(rank, rank, half, half)
        hessian += cross
        hessian += cross.transpose(1, 0, 3, 2)
        hessian += np.multiply.outer(np.outer(phi_0, phi_0), cost.start_row**2 * (value.T @ value))
        gradient = phi_s.T @ np.einsum("mxk,xm->mk", p, point.rows) + phi.T @ np.einsum("mxk,xm->mk", q, point.rows)
        gradient += np.outer(phi_0, cost.start_row * (value.T @ point.start_rows))
        self.hessian = hessian.transpose(0, 2, 1, 3).reshape(rank * half, rank * half)
        self.gradient = gradient.ravel()
        self.size = float(self.hessian.diagonal().max())

    def step(self, damping: np.ndarray) -> Step:
        damped, shift = self.hessian.copy(), self.size * max(float(damping), 1e-15)
        damped[np.diag_indices_from(damped)] += shift
        factor = scipy.linalg.cho_factor(damped, lower=True, overwrite_a=True, check_finite=False)
        step = -scipy.linalg.cho_solve(factor, self.gradient, check_finite=False)
        return Step(step, -self.gradient @ step + shift * (step @ step))

    def take(self, move: np.ndarray) -> Trial[Point]:
        inner = self.point.inner
        point = self.cost.at(inner + move.reshape(inner.shape[::-1]).T)
        return Trial(point, point.cost)
