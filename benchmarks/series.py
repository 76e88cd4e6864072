"""The sine-cosine table, the jets and the gradient of the heat loss against the usual ways, as ratios in one run.

    python benchmarks/series.py        (half a minute; torch and jinns, of the extra `bench`, are left out if absent)

One core, processor time. Candidates take turns and each figure is the best turn, so that a busy machine slows all alike.
The FLM has N = 25 sub-networks of two inputs (150 parameters).
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import argparse
import time
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import flm
from flm.series import sign_matrix, sincos

BOX = flm.Box(x=(0, 1), t=(0, 1))
N, INSIDE, FIRST, EDGE = 25, 1000, 200, 200
ORDERS = ((0, 0), (1, 0), (0, 1), (2, 0))


def best_times(candidates, turns, minimum=2e-3):
    """Processor seconds per call: the best of several turns, each long enough to time."""
    repeats, best = {}, {}
    for name, call in candidates.items():
        call()
        tick = time.process_time()
        call()
        repeats[name] = max(1, int(minimum / max(time.process_time() - tick, 1e-9)))
    for _ in range(turns):
        for name, call in candidates.items():
            tick = time.process_time()
            for _ in range(repeats[name]):
                call()
            best[name] = min(best.get(name, np.inf), (time.process_time() - tick) / repeats[name])
    return best


def table(title, best, ours, unit):
    print(f"\n{title}\n{'':44}{unit:>10}{'against ours':>14}")
    scale = {"ns": 1e9, "ms": 1e3}[unit.split("/")[0]]
    for name, seconds in best.items():
        print(f"{name:44}{scale * seconds:10.3f}{seconds / best[ours]:13.2f}x")


def compiled(function, *arguments):
    function = jax.jit(function)
    return lambda: jax.block_until_ready(function(*arguments))


def pairs(dtype, size):
    x = jnp.asarray(np.random.default_rng(0).uniform(-100, 100, size), dtype)
    return {
        "flm.series.sincos": compiled(sincos, x),
        "jnp.sin and jnp.cos": compiled(lambda x: (jnp.sin(x), jnp.cos(x)), x),
        "a copy into two arrays": compiled(lambda x: (x + 1, x - 1), x),
    }


def model_and_points(dtype):
    rng = np.random.default_rng(0)
    model = flm.FLM(BOX, N, key=0)
    model = eqx.tree_at(lambda f: f.amplitudes, model, jnp.asarray(rng.normal(size=model.amplitudes.shape)))
    model = jax.tree.map(lambda leaf: leaf.astype(dtype), model)
    inside, first, edge = (jnp.asarray(rng.random((count, 2)), dtype) for count in (INSIDE, FIRST, EDGE))
    return model, inside, first.at[:, 1].set(0), edge.at[:, 0].set(jnp.round(edge[:, 0]))


def one_point(model, p):
    """The FLM at one point by its definition, as autodiff users would write it."""
    z = 2 * np.pi * (p - 0.5)
    k = (model.frequencies[:, None, :] * sign_matrix(2).astype(p.dtype)) @ z
    return jnp.sum(model.amplitudes * jnp.cos(k - model.phases))


def one_point_jet(model, p):
    u = partial(one_point, model)
    gradient = jax.grad(u)
    curvature = jax.jvp(gradient, (p,), (jnp.array([1.0, 0.0], p.dtype),))[1][0]
    return jnp.stack([u(p), *gradient(p), curvature])


def torch_jet(network, points):
    import torch

    u = network(points)
    slope = torch.autograd.grad(u.sum(), points, create_graph=True)[0]
    curve = torch.autograd.grad(slope[:, 0].sum(), points, create_graph=True)[0][:, 0]
    return u, slope[:, 0], slope[:, 1], curve


def torch_parts(dtype):
    """The network and the three sets of points in torch."""
    import torch

    import flm.torch

    torch.set_num_threads(1)
    model, *points = model_and_points(dtype)
    inside, first, edge = (torch.tensor(np.asarray(p)) for p in points)
    return flm.torch.FLM.from_flm(model), inside.requires_grad_(), first, edge


def jets(dtype):
    model, inside, _, _ = model_and_points(dtype)
    candidates = {
        "flm: jets from one table": compiled(lambda model, x: model.jets(x, ORDERS), model, inside),
        "jax: nested autodiff, vmapped": compiled(jax.vmap(one_point_jet, in_axes=(None, 0)), model, inside),
    }
    try:
        network, points, _, _ = torch_parts(dtype)
        candidates["torch: nested autograd"] = lambda: torch_jet(network, points)
    except ImportError:
        print("torch is not installed: left out")
    return candidates


def heat_gradients(dtype):
    model, inside, first, edge = model_and_points(dtype)
    start = jnp.sin(np.pi * first[:, 0])

    def ours(model):
        u_t, u_xx = model.jets(inside, ((0, 1), (2, 0)))
        terms = (u_t - 0.1 * u_xx, model(first) - start, model(edge))
        return sum(jnp.mean(r**2) for r in terms)

    def autodiff(model):
        _, _, u_t, u_xx = jax.vmap(one_point_jet, in_axes=(None, 0))(model, inside).T
        at = jax.vmap(partial(one_point, model))
        return sum(jnp.mean(r**2) for r in (u_t - 0.1 * u_xx, at(first) - start, at(edge)))

    np.testing.assert_allclose(jax.jit(ours)(model), jax.jit(autodiff)(model), rtol=1e-3)
    candidates = {
        "flm: jets from one table": compiled(jax.value_and_grad(ours), model),
        "jax: nested autodiff, vmapped": compiled(jax.value_and_grad(autodiff), model),
    }
    try:
        network, *points = torch_parts(dtype)
        candidates["torch: nested autograd"] = partial(torch_gradient, network, *points)
    except ImportError:
        print("torch is not installed: left out")
    try:
        candidates["jinns"] = jinns_gradient(model, inside, first, edge)
    except ImportError:
        print("jinns is not installed: left out")
    return candidates


def torch_gradient(network, inside, first, edge):
    import torch

    network.zero_grad()
    _, _, u_t, u_xx = torch_jet(network, inside)
    loss = ((u_t - 0.1 * u_xx) ** 2).mean() + (network(edge) ** 2).mean()
    loss = loss + ((network(first) - torch.sin(np.pi * first[:, 0])) ** 2).mean()
    loss.backward()
    return loss


def jinns_gradient(model, inside, first, edge):
    """The loss that jinns builds from a network and an equation for one point (t, x), compiled, on a fixed batch."""
    import jinns
    from jinns.loss import Dirichlet, LossPDENonStatio, LossWeightsPDENonStatio, PDENonStatio

    class Network(eqx.Module):
        flm: flm.FLM

        def __call__(self, t_x):
            return one_point(self.flm, t_x[::-1])[None]

    class Heat(PDENonStatio):
        def equation(self, t_x, u, params):
            value = lambda p: u(p, params)[0]
            along_x = jnp.array([0.0, 1.0], t_x.dtype)
            return (jax.grad(value)(t_x)[0] - 0.1 * jax.jvp(jax.grad(value), (t_x,), (along_x,))[1][1])[None]

    pinn = jinns.nn.PINN(eqx_network=Network(model), eq_type="PDENonStatio")
    params = jinns.parameters.Params(nn_params=pinn.init_params, eq_params={})
    loss = LossPDENonStatio(
        u=pinn,
        dynamic_loss=Heat(),
        loss_weights=LossWeightsPDENonStatio(dyn_loss=1.0, initial_condition=1.0, boundary_loss=1.0),
        initial_condition_fun=lambda x: jnp.sin(np.pi * x[:1]),
        boundary_condition=Dirichlet(),
        params=params,
    )
    data = jinns.data.CubicMeshPDENonStatio(
        key=jax.random.PRNGKey(0),
        n=INSIDE,
        nb=EDGE,
        ni=FIRST,
        dim=1,
        min_pts=(0.0,),
        max_pts=(1.0,),
        tmin=0.0,
        tmax=1.0,
    )
    batch = jax.tree.map(lambda leaf: leaf.astype(inside.dtype), data.get_batch()[1])
    return compiled(jax.value_and_grad(loss.evaluate, has_aux=True), params, batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=30)
    turns = parser.parse_args().turns
    for dtype in (jnp.float64, jnp.float32):
        name = jnp.dtype(dtype).name
        for size in (70_000, 1_000_000):
            best = {key: seconds / size for key, seconds in best_times(pairs(dtype, size), turns).items()}
            table(f"sine-cosine pairs, {name}, {size:,} at once", best, "flm.series.sincos", "ns/pair")
    for dtype in (jnp.float64, jnp.float32):
        name = jnp.dtype(dtype).name
        ours = "flm: jets from one table"
        table(f"value and three derivatives, 1,000 points, {name}", best_times(jets(dtype), turns), ours, "ms")
        table(f"gradient of the heat loss, {name}", best_times(heat_gradients(dtype), turns), ours, "ms")


if __name__ == "__main__":
    main()
