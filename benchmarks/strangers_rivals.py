"""Rivals on problems that others posed, each on its own ground and beside `flm.solve` in the same run.

    python benchmarks/strangers_rivals.py experts              a hand-written ETDRK4, and the hand-written Chebyshev method
    python benchmarks/strangers_rivals.py chebyshev            of this name alone
    python benchmarks/strangers_rivals.py deepxde fastlsq jinns where they are installed (the first two need torch)
    python benchmarks/strangers_rivals.py deepxde --seconds 90

DeepXDE trains the networks of its own examples of Burgers' and Allen and Cahn's equations (2, 20, 20, 20, 1 units, tanh,
Glorot's normal start, Adam at 1e-3 for 15,000 or 40,000 steps, then L-BFGS), at most so many CPU seconds, of which L-BFGS has the
last third. jinns trains a network of that shape on as many points with its own Burgers equation and Adam for so many CPU
seconds. FastLSQ solves the problems that it ships and that are rows here too, with its own defaults. The experts'
sizes are chosen by the true error: the cheapest within the tolerance. Times are CPU seconds of one thread; ours of a second solve.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("DDE_BACKEND", "pytorch")

import argparse
import time
from functools import partial

import jax.numpy as jnp
import numpy as np
import references
import strangers
from scipy.integrate import solve_ivp

import flm

PI = np.pi


def told(name, who, error, seconds, more=""):
    print(f"| {name} | {who} | {error:.1e} | {seconds:.3g} | {more} |", flush=True)


def timed(call):
    """What a second call gives, and its CPU seconds."""
    call()
    began = time.process_time()
    return call(), time.process_time() - began


def ours(name, problem, tol, points, truth):
    solution, seconds = timed(lambda: flm.solve(problem, tol))
    error = strangers.apart(np.asarray(solution(points)).reshape(len(points), -1), truth)
    told(
        name, f"flm.solve, {tol:.0e}", error, seconds, f"estimate {solution.error_estimate:.1e}, {solution.status.word}"
    )


# --- DeepXDE's two examples -------------------------------------------------------------------------------------------


def allen_cahn_between_ends():
    """The Allen-Cahn problem of DeepXDE's example: d = 1e-3 and u = -1 at both ends."""
    return flm.PDE(
        flm.Box(x=(-1, 1), t=(0, 1)),
        lambda u, u_t, u_xx: u_t - 1e-3 * u_xx + 5 * u**3 - 5 * u,
        [flm.initial(lambda x: x**2 * jnp.cos(PI * x)), flm.dirichlet("x=-1", -1.0), flm.dirichlet("x=1", -1.0)],
    )


def chebyshev_allen_cahn(n, rtol, times):
    """Values at n + 1 Chebyshev points and given times: collocation in space, scipy's Radau in time."""
    x = np.cos(PI * np.arange(n + 1) / n)
    weights = np.where((np.arange(n + 1) == 0) | (np.arange(n + 1) == n), 2.0, 1.0) * (-1.0) ** np.arange(n + 1)
    matrix = np.outer(weights, 1 / weights) / (x[:, None] - x + np.eye(n + 1))
    matrix -= np.diag(matrix.sum(axis=1))
    second = (matrix @ matrix)[1:-1]
    whole = lambda u: np.concatenate([[-1.0], u, [-1.0]])
    slope = lambda t, u: 1e-3 * second @ whole(u) + 5 * u - 5 * u**3
    slopes = lambda t, u: 1e-3 * second[:, 1:-1] + np.diag(5 - 15 * u**2)
    start = (x**2 * np.cos(PI * x))[1:-1]
    found = solve_ivp(slope, (0, 1), start, "Radau", times, rtol=rtol, atol=rtol, jac=slopes).y
    return x, np.stack([whole(u) for u in found.T])


def deepxde(seconds):
    import deepxde as dde
    import torch

    torch.set_num_threads(1)

    class Bound(dde.callbacks.Callback):
        """Stops training after so many CPU seconds."""

        def __init__(self, most):
            super().__init__()
            self.most = most

        def on_train_begin(self):
            self.began = time.process_time()

        def on_epoch_end(self):
            self.model.stop_training = time.process_time() - self.began > self.most

    def train(residual, conditions, points, steps, transform=None):
        box = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 1))
        made = conditions(box)
        data = dde.data.TimePDE(
            box, residual, made, num_domain=points[0], num_boundary=points[1], num_initial=points[2]
        )
        net = dde.nn.FNN([2] + [20] * 3 + [1], "tanh", "Glorot normal")
        if transform is not None:
            net.apply_output_transform(transform)
        model, began = dde.Model(data, net), time.process_time()
        model.compile("adam", lr=1e-3)
        model.train(iterations=steps, callbacks=[Bound(seconds * 2 / 3)], display_every=5000, verbose=0)
        taken = model.train_state.step
        dde.optimizers.set_LBFGS_options(maxiter=15000)
        model.compile("L-BFGS")
        model.train(callbacks=[Bound(seconds / 3)], display_every=5000, verbose=0)
        more = f"{taken:,} steps of Adam, then L-BFGS to step {model.train_state.step:,}"
        return model, time.process_time() - began, more

    dde.config.set_random_seed(0)
    slope = lambda x, y, j: dde.grad.jacobian(y, x, i=0, j=j)
    bend = lambda x, y: dde.grad.hessian(y, x, i=0, j=0)
    model, spent, more = train(
        lambda x, y: slope(x, y, 1) + y * slope(x, y, 0) - 0.01 / PI * bend(x, y),
        lambda box: [
            dde.icbc.DirichletBC(box, lambda x: 0, lambda _, on: on),
            dde.icbc.IC(box, lambda x: -np.sin(PI * x[:, 0:1]), lambda _, on: on),
        ],
        (2540, 80, 160),
        15000,
    )
    truth = strangers.burgers_1d()
    told("Burgers 1d-C", "DeepXDE's example", strangers.apart(model.predict(truth.points), truth.values), spent, more)
    ours("Burgers 1d-C", flm.problems.viscous_burgers(viscosity=0.01 / PI), 1e-6, truth.points, truth.values)

    square, wave = lambda x: 1 - x[:, 0:1] ** 2, lambda x: x[:, 0:1] ** 2 * torch.cos(PI * x[:, 0:1])
    model, spent, more = train(
        lambda x, y: slope(x, y, 1) - 1e-3 * bend(x, y) - 5 * (y - y**3),
        lambda box: [],
        (8000, 400, 800),
        40000,
        lambda x, y: wave(x) + x[:, 1:2] * square(x) * y,
    )
    points, values, _ = between_ends()
    told("Allen–Cahn between ends", "DeepXDE's example", strangers.apart(model.predict(points), values), spent, more)
    ours("Allen–Cahn between ends", allen_cahn_between_ends(), 1e-4, points, values)


def between_ends(n=256, rtol=1e-10):
    """Points, values and the expert's own error of the Allen-Cahn problem between ends."""
    times = np.linspace(0, 1, 41)
    x, values = chebyshev_allen_cahn(n, rtol, times)
    _, fewer = chebyshev_allen_cahn(n // 2, rtol * 100, times)
    t, at = np.meshgrid(times, x, indexing="ij")
    points = np.stack([at.ravel(), t.ravel()], axis=1)
    own = strangers.apart(fewer.reshape(-1, 1), values[:, ::2].reshape(-1, 1))
    return points, values.reshape(-1, 1), own


# --- jinns with its own Burgers equation ---------------------------------------------------------------------------------


def jinns_(seconds):
    import equinox as eqx
    import jax
    import jinns
    import optax
    from jinns.loss import Dirichlet

    key = jax.random.PRNGKey(0)
    pinn = jinns.nn.PINN(eqx_network=eqx.nn.MLP(2, 1, 20, 3, jnp.tanh, key=key), eq_type="PDENonStatio")
    params = jinns.parameters.Params(nn_params=pinn.init_params, eq_params={"nu": jnp.asarray(0.01 / PI)})
    loss = jinns.loss.LossPDENonStatio(
        u=pinn,
        dynamic_loss=jinns.loss.BurgersEquation(Tmax=1.0),
        loss_weights=jinns.loss.LossWeightsPDENonStatio(dyn_loss=1.0, initial_condition=1.0, boundary_loss=1.0),
        initial_condition_fun=lambda x: -jnp.sin(PI * x[:1]),
        boundary_condition=Dirichlet(),
        params=params,
    )
    data = jinns.data.CubicMeshPDENonStatio(
        key=key, n=2540, nb=80, ni=160, dim=1, min_pts=(-1.0,), max_pts=(1.0,), tmin=0.0, tmax=1.0
    )
    optimizer, batch = optax.adam(1e-3), data.get_batch()[1]
    weights, fixed = eqx.partition(params, jinns.parameters.Params(nn_params=True, eq_params=False))

    @jax.jit
    def block(weights, state):
        def step(carry, _):
            weights, state = carry
            value = lambda w: loss.evaluate(eqx.combine(w, fixed), batch)[0]
            update, state = optimizer.update(jax.grad(value)(weights), state, weights)
            return (optax.apply_updates(weights, update), state), None

        return jax.lax.scan(step, (weights, state), length=100)[0]

    began, steps, state = time.process_time(), 0, optimizer.init(weights)
    while time.process_time() - began < seconds:
        weights, state = jax.block_until_ready(block(weights, state))
        steps += 100
    spent, truth = time.process_time() - began, strangers.burgers_1d()
    trained = eqx.combine(weights, fixed)
    values = jax.vmap(lambda point: pinn(point[::-1], trained))(jnp.asarray(truth.points))
    error = strangers.apart(np.asarray(values).reshape(-1, 1), truth.values)
    told("Burgers 1d-C", "jinns, the same network", error, spent, f"{steps:,} steps of Adam")
    ours("Burgers 1d-C", flm.problems.viscous_burgers(viscosity=0.01 / PI), 1e-6, truth.points, truth.values)


# --- FastLSQ on what it ships ---------------------------------------------------------------------------------------------


def fastlsq(seconds):
    import torch
    from fastlsq import solve_linear
    from fastlsq.problems.linear import PoissonND, Wave1D

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    for name, theirs, make in (
        ("Wave 1d-C", Wave1D, lambda: flm.problems.wave(speed=2.0)),
        ("PNd", PoissonND, flm.problems.poisson_sines),
    ):
        truth = strangers.exact(make)
        torch.manual_seed(0)
        began = time.process_time()
        found = solve_linear(theirs(), verbose=False)
        spent = time.process_time() - began
        values = found["u_fn"](torch.tensor(truth.points)).detach().numpy().reshape(-1, 1)
        told(
            name, "FastLSQ, its defaults", strangers.apart(values, truth.values), spent, f"its scale: {found['scale']}"
        )
        ours(name, make(), 1e-10, truth.points, truth.values)


# --- what an expert would write ---------------------------------------------------------------------------------------------

# name: problem, tolerance, length, left end, symbol, source, start, points and steps from coarse to fine, the reference
EXPERTS = {
    "Kuramoto–Sivashinsky": (
        flm.problems.kuramoto_sivashinsky, 1e-6, 2 * PI, 0.0, lambda k: 100 / 16**2 * k**2 - 100 / 16**4 * k**4,
        lambda u, d: -100 / 16 * u.real * d(0).real, lambda x: np.cos(x) * (1 + np.sin(x)),
        [(256, 1000), (256, 2000), (256, 4000), (256, 8000)], (512, 16000),
    ),
    "Korteweg–de Vries": (
        flm.problems.korteweg_de_vries, 1e-8, 2.0, -1.0, lambda k: 0.0025j * k**3, lambda u, d: -u.real * d(0).real,
        lambda x: np.cos(PI * x), [(256, 1000), (256, 2000), (256, 4000)], (512, 8000),
    ),
    "Allen–Cahn": (
        flm.problems.allen_cahn_periodic, 1e-4, 2.0, -1.0, lambda k: 5 - 1e-4 * k**2, lambda u, d: -5 * u.real**3,
        lambda x: x**2 * np.cos(PI * x), [(256, 100), (512, 100), (512, 200)], (4096, 1000),
    ),
}  # fmt: skip


def etdrk4(length, low, symbol, source, start, n, steps):
    """Points of a ring and values there at eleven times up to 1."""
    ring = references.Ring((length,), n)
    x = ring.grid[0] + low
    return x, ring.march(symbol(ring.k[0]), source, start(x).astype(complex), 1.0, steps).real


def experts(seconds):
    for name, (make, tol, length, low, symbol, source, start, sizes, fine) in EXPERTS.items():
        march = partial(etdrk4, length, low, symbol, source, start)
        x, values = march(*fine)
        every = len(x) // 256
        t, at = np.meshgrid(np.linspace(0, 1, 11), x[::every], indexing="ij")
        points, truth = np.stack([at.ravel(), t.ravel()], axis=1), values[:, ::every].reshape(-1, 1)
        for n, steps in sizes:
            began = time.process_time()
            found = march(n, steps)[1]
            spent = time.process_time() - began
            error = strangers.apart(found[:, :: n // 256].reshape(-1, 1), truth)
            if error <= tol:
                break
        told(name, "ETDRK4 by hand", error, spent, f"{n} points, {steps:,} steps")
        ours(name, make(), tol, points, truth)
    chebyshev()


def chebyshev(seconds=0.0):
    points, values, own = between_ends()
    for n, rtol in ((64, 1e-5), (96, 1e-5), (128, 1e-5), (160, 1e-5), (192, 1e-6)):
        (_, found), spent = timed(lambda n=n, rtol=rtol: chebyshev_allen_cahn(n, rtol, np.linspace(0, 1, 41)))
        fine = chebyshev_allen_cahn(2 * n, 1e-9, np.linspace(0, 1, 41))[1][:, ::2]
        error = strangers.apart(found.reshape(-1, 1), fine.reshape(-1, 1))
        if error <= 1e-4:
            break
    told("Allen–Cahn between ends", "Chebyshev and Radau by hand", error, spent, f"{n + 1} points, rtol {rtol:.0e}")
    ours("Allen–Cahn between ends", allen_cahn_between_ends(), 1e-4, points, values)
    print(f"\nThe Chebyshev reference's own error: {own:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rivals", nargs="+", choices=("experts", "chebyshev", "deepxde", "fastlsq", "jinns"))
    parser.add_argument("--seconds", type=float, default=90.0, help="CPU seconds of training")
    options = parser.parse_args()
    print("| row | who | error | CPU s | more |\n|---|---|---|---|---|")
    for rival in options.rivals:
        runs = {"experts": experts, "chebyshev": chebyshev, "deepxde": deepxde, "fastlsq": fastlsq, "jinns": jinns_}
        runs[rival](options.seconds)


if __name__ == "__main__":
    main()
