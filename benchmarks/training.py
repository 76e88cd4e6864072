"""Time per Adam epoch on the heat equation, same network and number of points, against torch, DeepXDE and jinns.

    python benchmarks/training.py            (needs the extra `bench`; a minute)

The network is the FLM with N = 25 sub-networks, 150 parameters; 1,000 interior, 200 initial, 200 boundary points; one
thread each. Rivals get the same network written the way their users would, with derivatives by their autodiff. Every
figure is the best of several blocks, blocks of all candidates interleaved, so that a busy machine slows all of them alike.
The roofline is what the sine-cosine pairs of one epoch cost by themselves; of the penalty method on the paper's disk of
starts (250 starts, 41 times, three networks of 27 sub-networks), the pairs and the products of matrices.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("DDE_BACKEND", "pytorch")

import argparse
import contextlib
import io
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import flm
from flm.control.solve import networks
from flm.control.solve.networks import Networks
from flm.numerics.descent import Objective, Stage, enter_stage, initial_state, program_of
from flm.series import lattice, sign_matrix, sincos
from flm.training.loss import TrainingLoss, draw

N, RATE, BLOCK = 25, 1e-3, 40
POINTS = {"equation": 1000, "initial": 200, "boundary": 200}
HEAT = flm.problems.heat()


def start(dtype=jnp.float64):
    model = flm.FLM(HEAT.domain, N, key=0)
    return jax.tree.map(lambda leaf: leaf.astype(dtype), model)


def ours(dtype):
    """Epochs per call of the loop that flm.train runs."""
    model = start(dtype)
    free, fixed = eqx.partition(model, model.trainable())
    loss = TrainingLoss(draw(HEAT, POINTS, 0), {}, dtype)
    alpha = jnp.asarray(HEAT.parameter_start, dtype)
    terms = lambda f, epoch: loss.by_term(eqx.combine(f, fixed), alpha)
    stage = Stage(optax.with_extra_args_support(optax.adam(RATE)), BLOCK)
    state, tolerance = enter_stage(initial_state(free, dtype), stage), np.asarray(0, dtype)
    count = jnp.asarray(BLOCK, jnp.int32)
    chunk = program_of(Objective(terms, loss.weights), stage, state).compile()
    return lambda: jax.block_until_ready(chunk(state, count, tolerance))


def roofline(dtype):
    """The table alone: N l waves at all points, as often as BLOCK epochs need it."""
    shape = (N * 2, sum(POINTS.values()))
    angle = jnp.asarray(np.random.default_rng(0).normal(size=shape), dtype)

    @jax.jit
    def tables(angle):
        def step(carry, _):
            sine, cosine = sincos(angle + carry)
            return (sine[0, 0] + cosine[0, 0]) * 1e-9, sine.sum() + cosine.sum()

        return jax.lax.scan(step, jnp.zeros((), dtype), length=BLOCK)

    jax.block_until_ready(tables(angle))
    return lambda: jax.block_until_ready(tables(angle))


def penalty_epochs():
    """Epochs of the penalty method on the disk, as flm.solve runs them."""
    problem, settings = flm.problems.rock_paper_scissors(flm.Ball((0.2, 0.2, 0.6), 0.15)), flm.Penalty.paper_family()
    v0 = jnp.asarray(problem.starts.sample(settings.num_starts, seed=0))
    units = jnp.asarray([2 * np.pi, np.pi / 2, np.pi / 2])
    keys = jax.random.split(jax.random.key(0), 3)
    make = lambda key: Networks.start(lattice(3, 27), 1, key)
    start = networks.Parameters((make(keys[0]), make(keys[1])), make(keys[2]))
    terms = lambda p, epoch: networks.penalty_loss(problem, settings, units, v0, epoch / 1e4, p)[None]
    stage = Stage(optax.with_extra_args_support(optax.flatten(optax.adam(5e-4, b1=0.95, b2=0.97))), BLOCK)
    state, tolerance = enter_stage(initial_state(start, jnp.float64), stage), np.asarray(0.0)
    count = jnp.asarray(BLOCK, jnp.int32)
    chunk = program_of(Objective(terms, np.ones(1)), stage, state).compile()
    return lambda: jax.block_until_ready(chunk(state, count, tolerance))


def penalty_roofline():
    """The pairs of the penalty epoch, and its products forward and backward: values and slopes of two states, one control."""
    rng = np.random.default_rng(0)
    angle = jnp.asarray(rng.normal(size=(3 * 27 * 4, 250)))
    rows, sides = jnp.asarray(rng.normal(size=(5, 41, 54))), jnp.asarray(rng.normal(size=(5, 54, 250)))

    @jax.jit
    def tables(angle):
        def step(carry, _):
            sine, cosine = sincos(angle + carry)
            total = sine.sum() + cosine.sum()
            for left, right in zip(rows, sides, strict=True):
                found = left @ (right + carry)
                total = total + (left.T @ found)[0, 0] + (found @ right.T)[0, 0]
            return total * 1e-12, total

        return jax.lax.scan(step, jnp.zeros(()), length=BLOCK)

    jax.block_until_ready(tables(angle))
    return lambda: jax.block_until_ready(tables(angle))


def torch_network(dtype):
    import torch

    class Network(torch.nn.Module):
        """The same FLM in torch; inputs (P, 2)."""

        def __init__(self):
            super().__init__()
            model, tensor = start(), lambda v: torch.tensor(np.array(v), dtype=dtype)
            self.frequencies = torch.nn.Parameter(tensor(model.frequencies))
            self.amplitudes = torch.nn.Parameter(tensor(model.amplitudes))
            self.phases = torch.nn.Parameter(tensor(model.phases))
            self.signs = tensor(sign_matrix(2))
            self.regularizer = None

        def forward(self, points):
            z = 2 * np.pi * (points - 0.5)
            k = (self.frequencies[:, None, :] * self.signs).reshape(-1, 2)
            return torch.cos(z @ k.T - self.phases.reshape(-1)) @ self.amplitudes.reshape(-1, 1)

    torch.set_num_threads(1)
    return Network()


def torch_loop(name):
    import torch

    dtype = getattr(torch, name)
    network = torch_network(dtype)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    sets = {s.term: [] for s in draw(HEAT, POINTS, 0)}
    for s in draw(HEAT, POINTS, 0):
        sets[s.term].append(s.points)
    inside, first, edge = (torch.tensor(np.concatenate(p), dtype=dtype) for p in sets.values())
    inside.requires_grad_()
    target = torch.sin(np.pi * first[:, :1])

    def block():
        for _ in range(BLOCK):
            optimizer.zero_grad()
            u = network(inside)
            slope = torch.autograd.grad(u.sum(), inside, create_graph=True)[0]
            curve = torch.autograd.grad(slope[:, 0].sum(), inside, create_graph=True)[0][:, 0]
            loss = ((slope[:, 1] - 0.1 * curve) ** 2).mean()
            loss = loss + ((network(first) - target) ** 2).mean() + (network(edge) ** 2).mean()
            loss.backward()
            optimizer.step()

    return block


def deepxde_loop():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        import deepxde as dde
        import torch

        dde.config.set_default_float("float64")
        geometry = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1))
        residual = lambda x, y: dde.grad.jacobian(y, x, i=0, j=1) - 0.1 * dde.grad.hessian(y, x, i=0, j=0)
        edge = dde.icbc.DirichletBC(geometry, lambda x: 0, lambda _, on: on)
        first = dde.icbc.IC(geometry, lambda x: np.sin(np.pi * x[:, :1]), lambda _, on: on)
        data = dde.data.TimePDE(geometry, residual, [edge, first], num_domain=1000, num_boundary=200, num_initial=200)
        network = torch_network(torch.float64)
        network.auxiliary_vars = None
        model = dde.Model(data, network)
        model.compile("adam", lr=RATE)

    def block():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            # the display interval is longer than the block: nothing is evaluated beside the steps
            model.train(iterations=BLOCK, display_every=10**6, verbose=0)

    return block


def jinns_loop():
    import jinns
    from jinns.loss import Dirichlet

    model = start()
    signs = jnp.asarray(sign_matrix(2))

    class Network(eqx.Module):
        """The same FLM for one point (t, x), as jinns calls networks."""

        frequencies: jax.Array
        amplitudes: jax.Array
        phases: jax.Array

        def __call__(self, t_x):
            z = 2 * jnp.pi * (t_x[::-1] - 0.5)
            angle = (self.frequencies[:, None, :] * signs) @ z
            return jnp.sum(self.amplitudes * jnp.cos(angle - self.phases))[None]

    class Heat(jinns.loss.PDENonStatio):
        def equation(self, t_x, u, params):
            value = lambda p: u(p, params)[0]
            along_x = jnp.array([0.0, 1.0])
            slope = lambda p: jax.jvp(value, (p,), (along_x,))[1]
            curve = jax.jvp(slope, (t_x,), (along_x,))[1]
            return (jax.grad(value)(t_x)[0] - 0.1 * curve)[None]

    network = Network(model.frequencies, model.amplitudes, model.phases)
    pinn = jinns.nn.PINN(eqx_network=network, eq_type="PDENonStatio")
    params = jinns.parameters.Params(nn_params=pinn.init_params, eq_params={})
    loss = jinns.loss.LossPDENonStatio(
        u=pinn,
        dynamic_loss=Heat(),
        loss_weights=jinns.loss.LossWeightsPDENonStatio(dyn_loss=1.0, initial_condition=1.0, boundary_loss=1.0),
        initial_condition_fun=lambda x: jnp.sin(jnp.pi * x[:1]),
        boundary_condition=Dirichlet(),
        params=params,
    )
    data = jinns.data.CubicMeshPDENonStatio(
        key=jax.random.PRNGKey(0), n=1000, nb=200, ni=200, dim=1, min_pts=(0.0,), max_pts=(1.0,), tmin=0.0, tmax=1.0
    )
    optimizer = optax.adam(RATE)
    batch = data.get_batch()[1]

    # jinns.solve compiles anew at each call; its own loss in a compiled loop is at least as fast per epoch.
    @jax.jit
    def epochs(params, state):
        def step(carry, _):
            params, state = carry
            (value, _), slope = jax.value_and_grad(loss.evaluate, has_aux=True)(params, batch)
            update, state = optimizer.update(slope, state, params)
            return (optax.apply_updates(params, update), state), value

        return jax.lax.scan(step, (params, state), length=BLOCK)

    state = optimizer.init(params)
    jax.block_until_ready(epochs(params, state))
    return lambda: jax.block_until_ready(epochs(params, state))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    candidates = {
        "flm float64": lambda: ours(jnp.float64),
        "flm float32": lambda: ours(jnp.float32),
        "sincos table alone, float64 (roofline)": lambda: roofline(jnp.float64),
        "sincos table alone, float32 (roofline)": lambda: roofline(jnp.float32),
        "penalty method on the disk, float64": penalty_epochs,
        "its pairs and products alone (roofline)": penalty_roofline,
        "torch float64": lambda: torch_loop("float64"),
        "torch float32": lambda: torch_loop("float32"),
        "DeepXDE (torch) float64": deepxde_loop,
        "jinns float64": jinns_loop,
    }
    blocks, best = {}, {}
    for name, build in candidates.items():
        try:
            blocks[name] = build()
            blocks[name]()
        except ImportError as error:
            blocks.pop(name, None)
            print(f"{name}: not installed ({error.name})")
    for _ in range(options.rounds):
        for name, block in blocks.items():
            tick = time.process_time()
            block()
            best[name] = min(best.get(name, np.inf), (time.process_time() - tick) / BLOCK)
    pairs = N * 2 * sum(POINTS.values())
    print(f"{'':42}{'ms/epoch':>10}{'against ours':>14}    ({pairs:,} sine-cosine pairs per epoch)")
    for name, seconds in best.items():
        ratio = seconds / best["flm float32" if "float32" in name else "flm float64"]
        print(f"{name:42}{1e3 * seconds:10.3f}{ratio:13.2f}x")


if __name__ == "__main__":
    main()
