"""Conservation laws solved to a tolerance as a series, or as the best series of N sub-networks.

The potential least squares (`potential`) is solved on growing banks of harmonics until an error estimate meets the
tolerance. A series of exactly N sub-networks is then the distillation of a larger solution (`moving`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flm.conservation.law import ConservationLaw
from flm.conservation.moving import MovingSeries, distill_harmonics
from flm.conservation.potential import VISCOSITY, Bank, Law, Waves, minimize
from flm.numerics.least_squares import one_thread
from flm.results import Ending, Listener, Record, Solution, Word, frame_of
from flm.series.legendre import gauss
from flm.series.tables import WaveTable
from flm.wording import InputError

SMALLEST = 48  # columns of the first bank
# The grid on which levels are compared: angles that no lattice of collocation points shares, and Gauss times.
_ANGLES = 2.0 * np.pi * (np.arange(1009) + 1.0 / 3.0) / 1009
_NODES, _NODE_WEIGHTS = 0.5 * (gauss(65)[0] + 1.0), gauss(65)[1]

# The ratio of the error to the held-out potential residual, both L1: 2.2–6.1 over Burgers with one and two shocks, fans,
# cubic and Buckley–Leverett fluxes.
_RESIDUAL_FACTOR = 5.0


def solve_law(
    problem: ConservationLaw,
    tol: float,
    *,
    num_subnets: int | None,
    method: str | None,
    max_columns: int,
    seed: int,
    progress: Listener,
) -> Solution:
    """Solve a conservation law by least squares on its potential residual with vanishing viscosity.

    A shock makes the relative L1 error fall only like 1/columns; smooth solutions converge geometrically. With `num_subnets`
    a larger solution is distilled to exactly so many sub-networks (the constant is one, unless it is zero) in the moving
    frame (x − ct, t), with c found from the law. Nothing here is random: `seed` is not used.
    """
    if method is not None:
        raise InputError(f"`method` must be None for a conservation law, which has one method; got {method!r}.")
    if max_columns < SMALLEST:
        raise InputError(f"`max_columns` must be at least {SMALLEST} for a conservation law; got {max_columns}.")
    if num_subnets is not None:
        # A larger solution of this size is enough: with six times the columns the result was within 3 % of the best on Burgers.
        max_columns = min(max_columns, max(1200, 24 * num_subnets))
    record = Record(progress)
    growth = ShockGrowth(problem, tol, max_columns, record)
    try:
        ending = Ending(growth.run())
    except KeyboardInterrupt:
        if not growth.levels:
            raise
        ending = Ending(Word.INTERRUPTED)
    series, estimate = growth.series(), growth.best.estimate
    if num_subnets is not None:
        teacher = series
        if num_subnets < teacher.num_subnets:
            with one_thread(0):  # many small factorizations
                series = distill_harmonics(teacher, num_subnets, growth.law.horizon)
        points = problem.test_points((151, 61))
        values = teacher(points)
        estimate += float(np.mean(np.abs(series(points) - values)) / max(np.mean(np.abs(values)), 1e-300))
        count = "1 sub-network" if series.num_subnets == 1 else f"{series.num_subnets} sub-networks"
        ending = Ending(Word.SIZE, f"{count} in the moving frame")
    return Solution(
        model=series.model(problem.domain),
        ending=ending,
        error_estimate=estimate,
        tolerance=tol,
        history=record.history,
        num_columns=growth.best.bank.num_columns,
        seconds=record.seconds,
        error_points=problem.test_points(),
        **frame_of(problem.domain, problem.unknowns, None if problem.exact is None else problem.exact_values),
    )


class Level(NamedTuple):
    """A solved bank: coefficients (2K, 2J), least-squares cost, relative L1 error estimate and values on the grid of comparison."""

    bank: Bank
    coefficients: np.ndarray
    cost: float
    estimate: float = np.inf
    values: np.ndarray = np.zeros(0)


class ShockGrowth:
    """The growth of banks on which the law is solved with vanishing viscosity.

    A bank (K harmonics, J time frequencies) starts from the one before it, so that only the smallest pays for the
    continuation in ν. K doubles; J grows while that lowers the cost by a quarter. Before characteristics meet
    (horizon < breaking time) the solution is smooth: the last stage has ν = 0 and convergence is geometric.
    """

    def __init__(self, problem: ConservationLaw, tol: float, max_columns: int, record: Record):
        self.law = Law(problem)
        self.smooth = problem.breaking_time > self.law.horizon  # no shock forms before the end
        self.tol, self.max_columns, self.record = tol, max_columns, record
        self.frame, self.levels = 0.0, list[Level]()

    @property
    def best(self) -> Level:
        """The last level: each is finer than the one before."""
        return self.levels[-1]

    def run(self) -> Word:
        """Grow, and return how that ended: converged, at the size limit or stalled. `levels` has every step, also after Ctrl-C."""
        self.frame = find_frame(self.law)
        times = 4 if self.smooth else 3
        bank = Bank(self.law, min(12, self.max_columns // (4 * times)), times, self.frame)
        fit = self._polish(bank, bank.outer(continuation(bank)))
        while True:
            if not self.smooth:
                fit = self._grow_times(fit)
            self._record(fit)
            if self.best.estimate <= self.tol:
                return Word.CONVERGED
            if len(self.levels) > 4 and all(v.estimate > 0.5 * self.levels[-5].estimate for v in self.levels[-4:]):
                return Word.STALLED
            larger = self._next(fit.bank)
            if larger is None:
                return Word.SIZE
            fit = self._polish(larger, pad(fit.coefficients, fit.bank, larger))

    def series(self) -> MovingSeries:
        """The best level as a series in physical units, in the moving frame."""
        law, bank, coefficients = self.law, self.best.bank, self.best.coefficients
        k, j = bank.num_harmonics, bank.num_times
        table = coefficients.reshape(2, k, 2, j).transpose(1, 3, 0, 2).reshape(k * j, 2, 2)
        return MovingSeries(
            wavenumbers=np.repeat(np.arange(1, k + 1), j),
            frequencies=np.tile(bank.frequencies / law.horizon, k),
            coefficients=table,
            mean=law.mean,
            speed=self.frame / law.scale,
            left=law.left,
            start=law.start,
            period=law.period,
        )

    def _polish(self, bank: Bank, coefficients: np.ndarray) -> Level:
        inner = bank.inner(coefficients)
        if self.smooth:
            found = minimize(bank, inner, 0.0, 1.0, steps=12, stop=1e-2)
        else:
            viscosity = VISCOSITY * 2.0 * np.pi * self.law.oscillation / bank.num_harmonics
            for _ in range(2):  # row weights from the solution
                found = minimize(bank, inner, viscosity, bank.compression(inner), steps=6, stop=1e-3)
                inner = found.point.inner
        return Level(bank, bank.outer(found.point.inner), float(found.value))

    def _grow_times(self, fit: Level) -> Level:
        """The fit with more time frequencies, added while they lower the cost by a quarter; none if doubling K halved the cost."""
        if self.levels and fit.cost < 0.5 * self.levels[-1].cost:
            return fit
        while True:
            bank = fit.bank
            more = Bank(self.law, bank.num_harmonics, max(bank.num_times + 1, round(1.5 * bank.num_times)), self.frame)
            if more.num_columns > self.max_columns:
                return fit
            trial = self._polish(more, pad(fit.coefficients, bank, more))
            if trial.cost > 0.75 * fit.cost:
                return trial if trial.cost < fit.cost and not self.levels else fit
            fit = trial

    def _next(self, bank: Bank) -> Bank | None:
        """The next bank, or None when it would be too large or hardly larger."""
        now = bank.num_times
        factor, times = (1.5, max(round(1.25 * now), now + 1)) if self.smooth else (2.0, now)
        most = self.max_columns // (4 * times)
        count = min(int(factor * bank.num_harmonics), most)
        return Bank(self.law, count, times, self.frame) if count >= 1.2 * bank.num_harmonics else None

    def _record(self, fit: Level) -> None:
        """Estimate the error of a level and keep it.

        Shocks make the error fall like 1/K: e ≈ |u_K − u_K′| / (K/K′ − 1), with K′ about K/2, and e is at least what the
        held-out residual says. Smooth solutions converge geometrically: e ≈ d_n²/d_{n−1}, with d_n the
        change at level n.
        """
        bank = fit.bank
        values, residual = evaluate(bank, fit.coefficients)
        size = max(float(np.mean(np.abs(values) @ _NODE_WEIGHTS)), 1e-300)
        by_residual = _RESIDUAL_FACTOR * residual * self.law.amplitude / size
        changes = [float(np.mean(np.abs(values - old.values) @ _NODE_WEIGHTS)) / size for old in self.levels]
        if not changes:
            estimate = max(by_residual, 0.05)
        elif self.smooth:
            now, before = changes[-1], self.record.history["change"][-1]
            estimate = max(now if len(changes) < 2 else min(now, 3.0 * now * now / max(before, 1e-300)), 1e-15)
        else:
            ratios = [bank.num_harmonics / old.bank.num_harmonics for old in self.levels]
            pick = max((i for i, ratio in enumerate(ratios) if ratio >= 1.9), default=int(np.argmax(ratios)))
            estimate = max(1.2 * changes[pick] / max(ratios[pick] - 1.0, 0.2), by_residual)
        self.levels.append(fit._replace(estimate=float(estimate), values=values))
        self.record.step(
            "shock" if not self.smooth else "smooth",
            columns=bank.num_columns,
            estimate=residual,
            error_estimate=estimate,
            change=changes[-1] if changes else np.inf,
            harmonics=bank.num_harmonics,
            times=bank.num_times,
        )


def find_frame(law: Law) -> float:
    """The speed of the frame, nondimensional: mean f′(u0), then the phase speed of coarse solutions in that frame.

    The phase speed δ minimizes Σ_k ∫ |∂_s z_k + i k δ z_k|² / k².
    """
    frame = law.mean_speed
    for _ in range(5):
        bank = Bank(law, 8, 3, frame)
        coefficients = bank.outer(continuation(bank))
        s, weights = bank.times
        waves, z = WaveTable.at(s, bank.frequencies), coefficients[:8] - 1j * coefficients[8:]
        z, dz = z @ waves.columns().T, z @ waves.columns(1).T
        k = np.arange(1, 9)[:, None]
        weight = float(np.sum(np.abs(z) ** 2 * weights))
        if weight == 0.0:
            break
        shift = -float(np.sum(np.real(dz * np.conj(1j * k * z)) / k**2 * weights)) / weight
        frame += shift
        if abs(shift) < 0.01 * law.oscillation:
            break
    return frame


def continuation(bank: Bank) -> np.ndarray:
    """Coefficients at the final viscosity, from zero: ν falls from 0.045 · 2π osc; the last two stages have row weights."""
    inner = np.zeros((2 * bank.num_harmonics, bank.clock.value.shape[1]))
    unit = 2.0 * np.pi * bank.law.oscillation
    for index, viscosity in enumerate(np.geomspace(0.045 * unit, VISCOSITY * unit / bank.num_harmonics, 4)):
        weights = bank.compression(inner) if index >= 2 else 1.0
        inner = minimize(bank, inner, float(viscosity), weights, steps=8, stop=1e-3).point.inner
    return inner


def pad(coefficients: np.ndarray, old: Bank, new: Bank) -> np.ndarray:
    """The coefficients of a bank as coefficients of a larger bank in the same frame."""
    table = np.zeros((2, new.num_harmonics, 2, new.num_times))
    table[:, : old.num_harmonics, :, : old.num_times] = coefficients.reshape(2, old.num_harmonics, 2, old.num_times)
    return table.reshape(2 * new.num_harmonics, 2 * new.num_times)


def evaluate(bank: Bank, coefficients: np.ndarray) -> tuple[np.ndarray, float]:
    """u on the comparison grid (A, M), and the mean of |R|/(osc amp) there at ν = 0."""
    clock = WaveTable.at(_NODES, bank.frequencies)
    phase, phase_s = coefficients @ clock.columns().T, coefficients @ clock.columns(1).T
    u, r = bank.at(Waves.at(_ANGLES, bank.num_harmonics), phase, phase_s)
    r = np.abs(r - r.mean(axis=0)) @ _NODE_WEIGHTS
    return u, float(np.mean(r)) / (bank.law.oscillation * bank.law.amplitude)
