"""An FLM as the network inside DeepXDE: the heat equation u_t = 0.1 u_xx on [0, 1]^2, u(x, 0) = sin(pi x).

    pip install 'fourier-learning-machines[torch]' deepxde
    python examples/deepxde_flm.py            # about a minute; --epochs 10000 for a better answer

DeepXDE differentiates the network by nested autograd; afterwards the weights go back to flm, where the same function
is a series that can be read, differentiated and saved. (`flm.solve` is the direct way to this problem's solution.)
"""

import argparse
import os

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import numpy as np
import torch

import flm.torch


class Network(dde.nn.NN):
    """What DeepXDE asks of a network: values (P, 1) at points (P, m), and its transforms applied."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, points):
        x = points if self._input_transform is None else self._input_transform(points)
        u = self.module(x)[:, None]
        return u if self._output_transform is None else self._output_transform(points, u)


def heat(x, u):
    """The residual u_t - 0.1 u_xx."""
    return dde.grad.jacobian(u, x, j=1) - 0.1 * dde.grad.hessian(u, x, i=0, j=0)


def main(epochs: int = 2000, subnets: int = 25) -> float:
    """Train and return the mean squared error on a grid."""
    dde.config.set_default_float("float64")
    dde.config.set_random_seed(0)
    geometry = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1))
    exact = lambda x: np.sin(np.pi * x[:, :1]) * np.exp(-0.1 * np.pi**2 * x[:, 1:])
    data = dde.data.TimePDE(
        geometry,
        heat,
        [
            dde.icbc.DirichletBC(geometry, lambda x: 0.0, lambda _, on_boundary: on_boundary),
            dde.icbc.IC(geometry, exact, lambda _, on_initial: on_initial),
        ],
        num_domain=1000,
        num_boundary=200,
        num_initial=200,
    )
    network = Network(flm.torch.FLM(flm.Box(x=(0, 1), t=(0, 1)), subnets, key=0, period=4.0, dtype=torch.float64))
    model = dde.Model(data, network)
    model.compile("adam", lr=1e-2, decay=("inverse time", max(1, epochs // 10), 1.0))
    model.train(iterations=epochs, display_every=max(1, epochs // 5))

    solution = network.module.to_flm()  # back in flm: a series
    axis = np.linspace(0, 1, 101)
    grid = np.stack([g.ravel() for g in np.meshgrid(axis, axis, indexing="ij")], axis=1)
    error = float(np.mean((np.asarray(solution(grid)) - exact(grid)[:, 0]) ** 2))
    print(solution.series.describe(5))
    print(f"mean squared error on 101 x 101 points: {error:.2e}")
    return error


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--subnets", type=int, default=25)
    main(**vars(parser.parse_args()))
