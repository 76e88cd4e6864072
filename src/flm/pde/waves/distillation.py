"""The best FLM of N sub-networks for a function, or for the solution of a problem, which is found to a tolerance first.

Only values are fitted, as functions of z in [-1, 1]^m. Wave i of sub-network q has k = e_i * n_q, and u = sum C cos(k . z) +
S sin(k . z): given frequencies, the amplitudes are least squares. Frequencies are those of a lattice with one of some periods, or
learned by variable projection, du/dn_qj = sum_i e_ij z_j (S_i cos(k_i . z) - C_i sin(k_i . z)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from flm.domains import AbstractDomain, Box
from flm.models import FLM
from flm.numerics.least_squares import RIDGE, Rows, one_thread, triangular_factor
from flm.numerics.newton import Nielsen
from flm.numerics.variable_projection import Projected, project, trailing_block
from flm.pde.problem import PDE
from flm.pde.sparse import solve_by_sparse_sets
from flm.pde.waves.fit import ROUNDING
from flm.pde.waves.sampling import columns_in_memory
from flm.results import Ending, Listener, Record, Solution, Word, frame_of, listener
from flm.series import lattice, sign_matrix
from flm.wording import InputError, InputTypeError, check_count

ORDERS = ("euclid", "box", "total")
PERIODS = (1.0, 1.15, 1.3, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.5, 8.0)  # of a lattice, in widths of the domain
RANGES = (3.0, 6.0, 12.0)  # of random starts, in radians per half-width
LEAST = 0.2  # the projected objective is even in each component, so its slope vanishes at zero: never start there
STARTS = 2  # per range
MAX_STEPS = 60
MAX_COLUMNS = 3000  # of one dense least-squares problem
LARGEST = 200  # columns; beyond, learning frequencies takes minutes and a lattice does as well
ROWS_PER_COLUMN, FEWEST, HELD_OUT = 3, 200, 600  # points that are fitted, and points that are held out
FINEST, LARGEST_WHOLE = 1e-13, 1000  # the solution that is distilled: its tolerance, and its columns


def distill(
    f: Any,
    num_subnets: int,
    *,
    domain: AbstractDomain | None = None,
    tol: float = 1e-12,
    seed: int = 0,
    progress: bool | Listener = False,
) -> Solution:
    """The best FLM of `num_subnets` sub-networks for a function, with learned frequencies.

    Args:
        f: a `Solution`, a series with named axes, or a function of points (P, m) with values (P,).
        num_subnets: N of the result.
        domain: where to fit; a solution's own domain by default.
        tol: relative L2 error that is good enough to stop searching.
        seed: fixes points and random starts.
        progress: True for a line per step, or a function that is called with a `flm.Progress` per step.

    Returns:
        A `Solution` whose `error_estimate` is the relative L2 distance to `f` on held-out points.

    Example:
        >>> import flm, numpy as np
        >>> small = flm.distill(lambda p: np.sin(3.3 * p[:, 0]), 2, domain=flm.Box(x=(0, 1)))
        >>> small.converged
        True
    """
    check_count("num_subnets", num_subnets, 1)
    check_count("seed", seed)
    if not (isinstance(tol, int | float | np.number) and tol > 0):
        raise InputError(f"`tol` must be a positive number; got {tol!r}.")
    if domain is None:
        domain = getattr(f, "domain", None)
        if domain is None and isinstance(f, Solution):
            domain = Box(**{a: tuple(b) for a, b in zip(f.axes, f.bounds, strict=True)})
        if domain is None:
            raise InputError("`domain` must be given for a plain function, such as flm.Box(x=(0, 1)); got none.")
    if not isinstance(domain, AbstractDomain):
        raise InputTypeError(f"`domain` must be a domain such as flm.Box(x=(0, 1)); got {domain!r}.")
    if not callable(f):
        raise InputTypeError(
            f"`f` must be a solution, a series or a function of points (P, m); got {type(f).__name__}."
        )
    unknowns = f.unknowns if isinstance(f, Solution) else ("u",)
    probe = np.asarray(f(domain.interior(4, seed=seed)))
    if probe.shape != ((4,) if len(unknowns) == 1 else (4, len(unknowns))):
        raise InputError(f"`f` must return one value per point, shape (4,) here; got {probe.shape}.")
    if probe.dtype.kind not in "biuf" or not np.isfinite(probe).all():
        raise InputError(
            f"`f` must return finite real numbers in `domain`; got {probe.ravel()[0]!r} at one of 4 points."
        )
    values = lambda points: np.asarray(f(points))
    return _distilled(values, domain, unknowns, num_subnets, tol=tol, seed=seed, record=Record(listener(progress)))


def solve_by_waves(
    problem: PDE,
    tol: float,
    solve_otherwise: Callable[[float], Solution],
    *,
    num_subnets: int,
    max_columns: int | None,
    seed: int,
    progress: Listener,
) -> Solution:
    """The solution of a problem with `num_subnets` sub-networks.

    What few sub-networks can express is smooth, so that one sum of Legendre functions finds it to rounding; where that fails,
    `solve_otherwise` solves to a tolerance. The estimate is that of the whole solution plus the distance to it. A solution
    of which nothing is known, or that was interrupted, is returned as it is.
    """
    columns, most = num_subnets * 2 ** len(problem.axes) * len(problem.unknowns), columns_in_memory()
    if columns > (limit := MAX_COLUMNS if max_columns is None else max_columns):
        raise InputError(
            f"`num_subnets` must have at most `max_columns` = {limit} coefficients; got {num_subnets}, which has "
            f"{columns}. Raise `max_columns`, or give a tolerance alone."
        )
    if columns > most:
        raise InputError(
            f"`num_subnets` must be at most {max(most * num_subnets // columns, 1):,}, so that the least-squares problem fits "
            f"in half of the free memory; got {num_subnets:,}, which has up to {columns:,} columns."
        )
    record = Record(progress)
    whole = solve_by_sparse_sets(problem, FINEST, max_columns=LARGEST_WHOLE, seed=seed, progress=progress)
    if whole.error_estimate > tol / 3 and whole.status.word is not Word.INTERRUPTED:
        whole = min(whole, solve_otherwise(tol / 3), key=lambda solution: solution.error_estimate)
    if whole.status.word is Word.INTERRUPTED or not np.isfinite(whole.error_estimate):
        return whole
    small = _distilled(
        lambda points: np.asarray(whole.model(points)),
        problem.domain,
        problem.unknowns,
        num_subnets,
        tol=tol,
        seed=seed,
        record=record,
        known_to=whole.error_estimate,
        joined=problem.periodic_axes,
    )
    return replace(small, parameters=whole.parameters, exact=whole.exact)


def _distilled(
    f: Callable[[np.ndarray], np.ndarray],
    domain: AbstractDomain,
    unknowns: tuple[str, ...],
    num_subnets: int,
    *,
    tol: float,
    seed: int,
    record: Record,
    known_to: float = 0.0,
    joined: tuple[bool, ...] | bool = False,
) -> Solution:
    """The fit with the least error at held-out points.

    `known_to` is the error of the function itself, which is fitted as well as possible; 0 where it is exact.
    """
    m, outputs = len(domain.axes), len(unknowns)
    columns = num_subnets * 2**m
    count = max(ROWS_PER_COLUMN * (columns + num_subnets * m), FEWEST)
    fitted, held = domain.interior(count, seed=seed), domain.interior(HELD_OUT, seed=seed + 7919, warp=False)
    values, expected = (np.asarray(f(points), float).reshape(len(points), -1) for points in (fitted, held))
    size = np.sqrt(np.mean(expected**2, axis=0))
    size = np.where(size > 0, size, 1.0)
    mapped = lambda points: (points - domain.center) * 2 / domain.width
    points, targets = mapped(fitted), values / size
    error = lambda found: float(np.sqrt(np.mean((found - expected / size) ** 2, axis=0)).max())
    fits: list[tuple[float, Waves]] = []  # with their errors at the points held out
    shifted: list[tuple[float, str, np.ndarray]] = []  # lattices moved by half a cell, with their errors

    def keep(fit: Waves, how: str) -> float:
        fits.append((error(fit(mapped(held))), fit))
        now, best = fits[-1][0], min(each for each, _ in fits)
        bar = max(best, ROUNDING) + known_to
        record.step("sub-networks", columns=columns * outputs, estimate=now, error_estimate=bar, start=how)
        return now

    good = max(known_to or tol, 10 * ROUNDING)
    ending = Ending(Word.SIZE, f"the best of {num_subnets} sub-networks that was found")
    try:
        for order in ORDERS if m > 1 else ORDERS[:1]:
            for period in PERIODS:
                numbers, cell = lattice(m, num_subnets, order), np.pi / np.where(joined, 1.0, period)
                how = f"{order} lattice, period {period:g}"
                found = keep(Waves(points, targets, numbers * cell), how)
                shifted.append((found, f"half a cell from {how}", (numbers + 0.5) * cell))
        if columns * outputs <= LARGEST and min(shifted)[0] > good:
            rng = np.random.default_rng(seed)
            starts = [(how, start) for _, how, start in sorted(shifted, key=lambda entry: entry[0])[:2]]
            starts += [(f"random up to {r:g}", rng.uniform(LEAST, r, (num_subnets, m))) for r in RANGES * STARTS]
            for how, start in starts:
                # A small gain under heavy damping says little: the search goes on until λ is small as well.
                begun = Waves(points, targets, start)
                learned = project(begun, Nielsen(), max_steps=MAX_STEPS, gain_tol=1e-4, settled=1e-3).point
                if keep(learned, f"learned, {how}") <= good:
                    break
    except KeyboardInterrupt:
        if not fits:
            raise
        ending = Ending(Word.INTERRUPTED)
    best, period = min(fits, key=lambda fit: fit[0])[1], np.pi * domain.width  # of the wave of frequency 1 on [-1, 1]
    model = FLM(domain, num_subnets, key=0, period=period, num_outputs=outputs, frequencies=best.frequencies)
    coefficients = best.coefficients * size
    model = model.with_coefficients(coefficients if outputs > 1 else coefficients[:, 0])
    left = error(np.asarray(model(held)).reshape(expected.shape) / size)  # phases of large amplitudes lose digits
    return Solution(
        model=model,
        ending=ending,
        error_estimate=max(left, ROUNDING) + known_to,
        tolerance=tol,
        history=record.history,
        num_columns=columns * outputs,
        seconds=record.seconds,
        **frame_of(domain, unknowns, f),
    )


class Waves:
    """The least-squares fit of values (P, K) at points (P, m) by waves of frequencies (N, m), which can be moved to others.

    A larger `ridge` keeps the amplitudes of frequencies small that come close to one another (`numerics/variable_projection`).
    """

    def __init__(self, points: np.ndarray, values: np.ndarray, frequencies: np.ndarray, ridge: float = RIDGE):
        self.points, self.values, self.frequencies, self.ridge = points, values, frequencies, ridge
        self.columns = self._columns(points)
        rows = Rows(len(self.columns), *values.shape)
        rows.take(len(points))[...] = np.concatenate([self.columns, values.T])
        self.coefficients = rows.solve(ridge).coefficients  # (C, K)
        self.residual = values - self.columns.T @ self.coefficients
        self.value = float(np.sum(self.residual**2))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """The fit at other points, (P, K)."""
        return self._columns(points).T @ self.coefficients

    def _columns(self, points: np.ndarray) -> np.ndarray:
        """All cosines, then all sines, (C, P)."""
        waves = (self.frequencies[:, None, :] * sign_matrix(points.shape[1])).reshape(-1, points.shape[1])
        angles = waves @ points.T
        return np.concatenate([np.cos(angles), np.sin(angles)])

    def moved(self, step: np.ndarray) -> Waves:
        """The fit at other frequencies."""
        return Waves(self.points, self.values, self.frequencies + step.reshape(self.frequencies.shape), self.ridge)

    def projected(self) -> Projected:
        """The least-squares problem in the frequencies alone, from one factorization."""
        points, (count, m), size = self.points, self.frequencies.shape, len(self.columns)
        signs, (cosine, sine) = sign_matrix(m), np.split(self.columns, 2)
        parts = [self.columns / np.maximum(np.linalg.norm(self.columns, axis=1), 1e-150)[:, None]]
        for C, S in zip(*np.split(self.coefficients.T[..., None], 2, axis=1), strict=True):
            turned = (S * cosine - C * sine).reshape(count, len(signs), -1)
            parts.append(((signs.T @ turned) * points.T).reshape(count * m, -1))
        system = np.concatenate([*parts, self.residual.T])
        system = np.concatenate([system, self.ridge * np.eye(len(system), size)], axis=1)
        with one_thread(size):
            return trailing_block(triangular_factor(system.T, overwrite=True), size, self.residual.shape[1])
