"""Learned frequencies: generalized Gauss–Newton on frequencies and amplitudes together.

A sub-network's part of the control, Σ_t f_t(ω s) α_t(z) with f = (cos, sin), moves with its frequencies by

    du/dω   = -s sin(ω s) α_cos + s cos(ω s) α_sin,        du/dκ_p = Σ_t f_t(ω s) dα_t/dκ_p,

so that with the four time functions cos, sin, s cos, s sin of each sub-network the start's cost has all that is needed.
"""

from dataclasses import replace

import numpy as np
import scipy.linalg

from flm.control.dynamics.simulation import grid
from flm.control.law import ControlLaw, space_products
from flm.control.problem import OptimalControl
from flm.control.solve.family import convex, start_weights
from flm.control.solve.variation import TimeBasis, Transcription
from flm.series.tables import WaveTable


def fit_law(
    problem: OptimalControl,
    law: ControlLaw,
    v0: np.ndarray,
    *,
    num_elements: int,
    frequencies: bool = True,
    steps: int = 40,
    rtol: float = 1e-12,
) -> ControlLaw:
    """The law with amplitudes, and `frequencies`, that minimize the mean relative cost over the starts v0 (P, d).

    Levenberg–Marquardt with columns scaled to unit length: the damping is lowered after a good step and raised after a bad
    one. The frequencies need not form a product lattice. For problems with a fixed horizon and without constraints.
    """
    transcription = _transcribe(problem, law, v0, num_elements)
    c, jacobian = _coordinates(law, v0)
    run = transcription.run(c)
    weight = start_weights(run.cost)
    damping, growth = 1e-3, 2.0
    for _ in range(steps):
        current = transcription.derivatives(run, c)
        before = float(weight @ transcription.merit(run, c, current))
        gradient, matrix = _assemble(current.gradient, convex(current.hessian), jacobian, weight)
        if not frequencies:
            fixed = _frequency_columns(law)
            gradient[fixed], matrix[fixed], matrix[:, fixed] = 0.0, 0.0, 0.0
        size = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
        size = np.maximum(size, 1e-8 * size.max())
        scaled = matrix / size[:, None] / size
        improved = False
        while damping < 1e8 and not improved:
            try:
                factor = scipy.linalg.cho_factor(scaled + (damping + 1e-13) * np.eye(len(scaled)), check_finite=False)
            except scipy.linalg.LinAlgError:
                damping = 10 * max(damping, 1e-13)
                continue
            step = -scipy.linalg.cho_solve(factor, gradient / size, check_finite=False)
            predicted = -(step @ (gradient / size)) - 0.5 * step @ scaled @ step
            trial = _moved(law, step / size)
            trial_transcription = _transcribe(problem, trial, v0, num_elements)
            trial_c, trial_jacobian = _coordinates(trial, v0)
            trial_run = trial_transcription.run(trial_c, guess=np.nan_to_num(run.stages))
            after = float(weight @ trial_transcription.merit(trial_run, trial_c, current))
            improved = after < before
            if not improved:
                damping, growth = damping * growth, 2 * growth
                if predicted < rtol * abs(before):
                    return law
        if not improved:
            return law
        # H. B. Nielsen's rule (IMM-REP-1999-05) for the damping.
        damping *= max(1 / 5, 1 - (2 * (before - after) / predicted - 1) ** 3)
        growth = 2.0
        law, transcription, c, jacobian, run = trial, trial_transcription, trial_c, trial_jacobian, trial_run
        if before - after < rtol * abs(before):
            break
    return law


def _transcribe(problem: OptimalControl, law: ControlLaw, v0: np.ndarray, num_elements: int) -> Transcription:
    """The problem on the four time functions of each sub-network."""
    edges = np.linspace(0.0, 1.0, num_elements + 1)[:, None]
    s = grid(edges, 1)[0]  # (E, 1, q)
    pairs = WaveTable.at(s, law.frequencies[:, 0]).pairs()  # (E, 1, q, N, 2)
    nodes = np.concatenate([pairs, s[..., None, None] * pairs], axis=-1).reshape(*s.shape, -1)
    return Transcription(problem, TimeBasis(law.frequencies[:, 0], edges, nodes, np.zeros((0, 0))), v0)


def _coordinates(law: ControlLaw, v0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """c (P, K 4N), and dc/d(parameters of a sub-network), (P, N, K, 4, R) with R = 2 2^d K + 1 + d."""
    n, _, size, k = law.coefficients.shape
    d = len(law.center)
    z = law.normalize(v0)
    products = space_products(z, law.frequencies[:, 1:])  # (P, N, 2^d)
    alpha = np.einsum("pni,ntik->pntk", products, law.coefficients)  # (P, N, 2, K)
    c = np.zeros((len(v0), k, n, 4))
    c[..., :2] = alpha.transpose(0, 3, 1, 2)
    amplitudes = np.zeros((len(v0), n, k, 4, 2, size, k))
    for t in range(2):
        for i in range(k):
            amplitudes[:, :, i, t, t, :, i] = products
    columns = np.zeros((len(v0), n, k, 4, 1 + d))
    columns[:, :, :, 3, 0] = -alpha[:, :, 0]
    columns[:, :, :, 2, 0] = alpha[:, :, 1]
    for p in range(d):
        slope = z[:, None, None, p, None] * _quarter_turn(products, d, p)[:, :, None, :]  # (P, N, 1, 2^d)
        columns[:, :, :, :2, 1 + p] = np.einsum("pnti,ntik->pnkt", slope, law.coefficients)
    jacobian = np.concatenate([amplitudes.reshape(len(v0), n, k, 4, -1), columns], axis=-1)
    return c.reshape(len(v0), -1), jacobian


def _quarter_turn(products: np.ndarray, d: int, p: int) -> np.ndarray:
    """Products with factor p differentiated: cos -> -sin, sin -> cos."""
    shaped = products.reshape(*products.shape[:2], 2**p, 2, -1)
    turned = np.stack([-shaped[..., 1, :], shaped[..., 0, :]], axis=-2)
    return turned.reshape(products.shape)


def _assemble(gradient: np.ndarray, hessian: np.ndarray, jacobian: np.ndarray, weight: np.ndarray):
    """Gradient (N R,) and Gauss–Newton matrix (N R, N R) from those in the starts' time coordinates."""
    starts, n, k, _, r = jacobian.shape
    g = (gradient * weight[:, None]).reshape(starts, k, n, 4)
    total = np.einsum("pkna,pnkar->nr", g, jacobian, optimize=True).reshape(-1)
    h = (hessian * weight[:, None, None]).reshape(starts, k, n, 4, k, n, 4)
    h = h.transpose(0, 2, 1, 3, 5, 4, 6).reshape(starts, n, 4 * k, n, 4 * k)
    flat = jacobian.reshape(starts, n, 4 * k, r)
    matrix = np.empty((n, r, n, r))
    for i in range(n):
        left = np.swapaxes(flat[:, i], 1, 2)[:, None] @ h[:, i].transpose(0, 2, 1, 3)[:, :, :, :]  # (P, N, R, 4k)
        matrix[i] = np.einsum("pnra,pnas->rns", left, flat, optimize=True)
    return total, matrix.reshape(n * r, n * r)


def _frequency_columns(law: ControlLaw) -> np.ndarray:
    """Which parameters are frequencies."""
    amplitudes = law.coefficients[0].size
    return np.tile(np.arange(amplitudes + law.frequencies.shape[1]) >= amplitudes, law.num_subnets)


def _moved(law: ControlLaw, step: np.ndarray) -> ControlLaw:
    n = law.num_subnets
    step = step.reshape(n, -1)
    split = law.coefficients[0].size
    return replace(
        law,
        coefficients=law.coefficients + step[:, :split].reshape(law.coefficients.shape),
        frequencies=law.frequencies + step[:, split:],
    )
