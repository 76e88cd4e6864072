"""What `pde.py` compares with: Chebyshev collocation in NumPy, FastLSQ and DeepXDE, each on any `flm.PDE` with one unknown.

Chebyshev and FastLSQ are linear in their coefficients, so the rows of any problem come from the same pointwise
derivatives of its residual that our solver uses; bases, points, weights and factorizations are their own.
"""

import contextlib
import io

import numpy as np
from numpy.polynomial import chebyshev
from scipy.linalg import lstsq

from flm.pde.waves.fit import Fitter


def rows(problem, block, points, normals, partner, derivative, coefficients):
    """A and b of the Gauss-Newton system A c_new = b of one block, linearized at `coefficients`."""
    jets = block.residual.jets
    parts = [derivative(points, alpha) - (0 if partner is None else derivative(partner, alpha)) for _, alpha in jets]
    values = np.stack([part @ coefficients for part in parts])
    line = block.residual.linearize(points, values, problem.parameter_start, normals)
    matrix = sum(weight[:, None] * part for weight, part in zip(line.by_jet, parts, strict=True))
    return matrix, (line.by_jet * values).sum(axis=0) - line.value


def is_linear(problem) -> bool:
    return Fitter(problem).is_linear


# --- Chebyshev collocation -------------------------------------------------------------------------------------------


class Chebyshev:
    """Products of Chebyshev polynomials: a tensor product up to three axes, total degree beyond."""

    def __init__(self, problem, size):
        self.bounds, m = problem.domain.bounds, len(problem.axes)
        self.size = (size,) * m
        degrees = np.array(np.meshgrid(*map(np.arange, self.size), indexing="ij")).reshape(m, -1).T
        self.degrees = degrees if m <= 3 else degrees[degrees.sum(axis=1) < size]

    def __call__(self, points, alpha):
        """D^alpha of every column at points, (P, C)."""
        out = 1.0
        for j, (low, high) in enumerate(self.bounds):
            z = (2 * points[:, j] - low - high) / (high - low)
            line = (
                chebyshev.chebder(np.eye(self.size[j]), alpha[j], 2 / (high - low))
                if alpha[j]
                else np.eye(self.size[j])
            )
            out = out * chebyshev.chebval(z, line).T[:, self.degrees[:, j]]
        return out


def gauss(n, low, high):
    return (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(n) + 0.5) / n)


def collocation_points(problem, block, size):
    """Gauss points: on a face `size` per axis, inside fewer by the order of the equation, so that the system is nearly square."""
    bounds, m = problem.domain.bounds, len(problem.axes)
    if m > 3:  # total degree: least squares at scattered points instead
        return *block.sample(2 * len(Chebyshev(problem, size).degrees), seed=0), None
    orders = [max(alpha[j] for b in problem.equations for _, alpha in b.residual.jets) for j in range(m)]
    if block.piece is None:
        lines = [gauss(max(size - order, 1), *bound) for order, bound in zip(orders, bounds, strict=True)]
        points = np.stack([g.ravel() for g in np.meshgrid(*lines, indexing="ij")], axis=1)
        return points, np.zeros_like(points), None
    points, normals, partner = [], [], None
    for face in block.faces:
        lines = [
            np.array([face.fixed[a]]) if a in face.fixed else gauss(size, *b)
            for a, b in zip(problem.axes, bounds, strict=True)
        ]
        points.append(np.stack([g.ravel() for g in np.meshgrid(*lines, indexing="ij")], axis=1))
        normals.append(np.broadcast_to(face.sample(1, seed=0)[1], points[-1].shape))
        if block.partner is not None:
            partner = points[-1].copy()
            for axis, value in block.partner.fixed.items():
                partner[:, problem.axes.index(axis)] = value
    return np.concatenate(points), np.concatenate(normals), partner


def chebyshev_solve(problem, tol, max_columns=1700):
    """Sizes grow until two in a row agree to `tol`, or until `max_columns`; Newton from the size before when nonlinear."""
    linear = is_linear(problem)
    check = problem.domain.interior(500, seed=5, warp=False)
    sizes = (6, 8, 10, 12, 14, 18, 24, 32, 40) if len(problem.axes) <= 3 else (4, 5, 6, 7, 8, 9, 10)
    answer, before = None, None
    for size in sizes:
        basis = Chebyshev(problem, size)
        if len(basis.degrees) > max_columns:
            break
        place = {tuple(d): i for i, d in enumerate(basis.degrees)}
        coefficients = np.zeros(len(basis.degrees))
        if answer is not None:
            coefficients[[place[tuple(d)] for d in answer[0].degrees]] = answer[1]
        batches = [(block, *collocation_points(problem, block, size)) for block in problem.blocks]
        for _ in range(1 if linear else 12):
            found = [rows(problem, *batch, basis, coefficients) for batch in batches]
            matrix, target = np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])
            norms = np.linalg.norm(matrix, axis=1)
            new = lstsq(matrix / norms[:, None], target / norms, lapack_driver="gelsy", cond=1e-15)[0]
            step, coefficients = np.linalg.norm(new - coefficients), new
            if step <= 1e-13 * np.linalg.norm(new):
                break
        answer = basis, coefficients
        values = basis(check, (0,) * len(problem.axes)) @ coefficients
        if before is not None and np.linalg.norm(values - before) <= tol * np.linalg.norm(values):
            break
        before = values
    basis, coefficients = answer
    return (lambda points: basis(points, (0,) * points.shape[1]) @ coefficients), f"{len(coefficients)} polynomials"


# --- FastLSQ ---------------------------------------------------------------------------------------------------------

SCALES = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 12.0, 15.0)  # its default grid
BOUNDARY_WEIGHT = 100.0  # of its own problems


def fastlsq_solve(problem, features=900, rules=("exact", "blind")):
    """FastLSQ's sine features, solver and default scale grid; the scale by the exact solution (its rule) or a held-out residual.

    One scan, one seed per scale, serves both rules: {rule: (function, note)}. Nonlinear problems go through its Newton.
    """
    import torch
    from fastlsq.linalg import solve_lstsq
    from fastlsq.newton import newton_solve
    from fastlsq.solvers import FastLSQSolver

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    linear, m = is_linear(problem), len(problem.axes)
    count = 3 * features
    held = [
        (b, *b.sample(400, seed=17, warp=False), b.partner and b.partner.sample(400, seed=17, warp=False)[0])
        for b in problem.blocks
    ]
    test = problem.domain.interior(1000, seed=99, warp=False)
    truth = problem.exact_values(test)
    best = {}
    for scale in SCALES:
        torch.manual_seed(0)
        solver = FastLSQSolver(m)
        for _ in range(3):
            solver.add_block(hidden_size=features // 3, scale=scale)
        solver.beta = torch.zeros(solver.n_features, 1)
        derivative = lambda points, alpha, s=solver: s.basis.derivative(torch.as_tensor(points), alpha).numpy()
        batches = []
        for i, block in enumerate(
            problem.blocks
        ):  # Sobol points in place of its uniform random ones, in its proportions
            size = count if block.piece is None else max(count // 5, 200)
            points, normals = block.sample(size, seed=100 + i, warp=False)
            partner = block.partner.sample(size, seed=100 + i, warp=False)[0] if block.partner else None
            batches.append((block, points, normals, partner))

        def system(solver, *_, batches=batches, derivative=derivative):
            beta = solver.beta.numpy()[:, 0]
            parts = [rows(problem, *batch, derivative, beta) for batch in batches]
            weights = [1.0 if batch[0].piece is None else BOUNDARY_WEIGHT for batch in batches]
            matrix = np.concatenate([w * a for w, (a, _) in zip(weights, parts, strict=True)])
            target = np.concatenate([w * b for w, (_, b) in zip(weights, parts, strict=True)])
            return torch.as_tensor(matrix), torch.as_tensor(target - matrix @ beta)[:, None]

        if linear:
            solver.beta = solve_lstsq(*system(solver))
        else:
            step = type("Step", (), {"n_outputs": 1, "build_newton_step": staticmethod(system)})
            newton_solve(solver, step, torch.as_tensor(batches[0][1]), None, None, max_iter=15, verbose=False)
        beta = solver.beta.numpy()[:, 0]
        f = lambda points, d=derivative, b=beta: d(points, (0,) * m) @ b
        scores = {
            "exact": np.linalg.norm(f(test) - truth),
            "blind": sum(
                np.sqrt(np.mean((a @ beta - b) ** 2)) for a, b in (rows(problem, *h, derivative, beta) for h in held)
            ),
        }
        for rule in rules:
            if np.isfinite(scores[rule]) and scores[rule] < best.get(rule, (np.inf,))[0]:
                best[rule] = scores[rule], f, f"scale {scale:g}"
    return {rule: found[1:] for rule, found in best.items()}


# --- DeepXDE ---------------------------------------------------------------------------------------------------------


def deepxde_solve(problem, residual, *, adam=1000, lbfgs=250, width=32, depth=3):
    """A tanh network trained by Adam (rate 1e-3) and then L-BFGS, in float64, on the same conditions as point sets.

    Args:
        residual: the equation in torch, `residual(x, d)` with the columns x[0], x[1], ... and d() the unknown, d(0) and
            d(0, 0) its derivatives.
    """
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        import deepxde as dde
        import torch

        torch.set_num_threads(1)
        dde.config.set_default_float("float64")
        dde.config.set_random_seed(0)
        m = len(problem.axes)
        low, high = problem.domain.bounds.T
        geometry = dde.geometry.Interval(low[0], high[0]) if m == 1 else dde.geometry.Hypercube(low, high)

        def equation(x, y):
            def d(*axes):
                if len(axes) == 2:
                    return dde.grad.hessian(y, x, i=axes[0], j=axes[1])
                return dde.grad.jacobian(y, x, i=0, j=axes[0]) if axes else y

            return residual([x[:, j : j + 1] for j in range(m)], d)

        conditions = []
        for block in problem.conditions:
            points, normals = block.sample(100, seed=1, warp=False)
            ((_, alpha),) = block.residual.jets
            line = block.residual.linearize(points, np.zeros((1, len(points))), problem.parameter_start, normals)
            target = (-line.value / line.by_jet[0])[:, None]
            if any(alpha):
                axis = alpha.index(1)
                slope = lambda x, y, _, axis=axis: dde.grad.jacobian(y, x, i=0, j=axis)
                conditions.append(dde.icbc.PointSetOperatorBC(points, target, slope))
            else:
                conditions.append(dde.icbc.PointSetBC(points, target))
        data = dde.data.PDE(geometry, equation, conditions, num_domain=500)
        model = dde.Model(data, dde.nn.FNN([m, *[width] * depth, 1], "tanh", "Glorot normal"))
        model.compile("adam", lr=1e-3)
        model.train(iterations=adam, display_every=10**6, verbose=0)
        dde.optimizers.config.set_LBFGS_options(maxiter=lbfgs)
        model.compile("L-BFGS")
        model.train(display_every=10**6, verbose=0)
    return (lambda points: model.predict(points)[:, 0]), f"{adam} + {lbfgs} steps"
