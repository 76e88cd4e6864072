"""Exponential collocation: u' = λu + N on a window, exact for λ and a polynomial in time for N.

With nodes s_m on [0, 1] and z = hλ, variation of constants for N interpolated at the nodes is

    u(s_m) = e^{z s_m} u(0) + h Σ_j w_mj(z) N(s_j),    w_mj(z) = ∫_0^{s_m} e^{z (s_m − s)} ℓ_j(s) ds.

Nodes are Chebyshev–Lobatto points, so that a window holds its own start and end.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from flm.series import legendre

STIFF = 40.0  # |z| from which the closed form of the weights loses no digits; below, 40 Gauss nodes integrate exactly
GAUSS = 40
CACHED = 6  # propagators that are kept: steps double and halve


class Collocation:
    """Nodes, weights and what follows from them for one number of nodes, which is the order in time."""

    def __init__(self, num_nodes: int):
        self.num_nodes = num_nodes
        self.nodes = (1 - np.cos(np.pi * np.arange(num_nodes) / (num_nodes - 1))) / 2
        # From values at the nodes to coefficients of orthonormal Legendre functions on the window.
        self.to_legendre = np.linalg.inv(legendre.values(2 * self.nodes - 1, num_nodes))
        self.halves = self.at(self.nodes / 2), self.at((1 + self.nodes) / 2)
        self.propagators: dict[tuple[int, float], Propagator] = {}

    def at(self, s: np.ndarray) -> np.ndarray:
        """ℓ_j(s), (len(s), K): from values at the nodes to values of their polynomial elsewhere."""
        return legendre.values(2 * s - 1, self.num_nodes) @ self.to_legendre

    def last(self, values: np.ndarray) -> np.ndarray:
        """The last two coefficients in time of values (K, ...): the error of the polynomial is about as large."""
        return np.tensordot(self.to_legendre[-2:], values, (1, 0))

    def propagator(self, rates: np.ndarray, step: float) -> Propagator:
        """Exponentials and weights for rates λ and a step h; the latest ones are kept."""
        key = (id(rates), step)
        found = self.propagators.pop(key, None) or Propagator(self, rates, step)
        self.propagators[key] = found  # the last one used is kept longest
        if len(self.propagators) > CACHED:
            self.propagators.pop(next(iter(self.propagators)))
        return found

    def weights(self, z: np.ndarray) -> np.ndarray:
        """w_mj(z), (len(z), K, K)."""
        out, stiff = np.zeros((len(z), self.num_nodes, self.num_nodes), z.dtype), np.abs(z) > STIFF
        x, g = legendre.gauss(GAUSS)
        for m, s in enumerate(self.nodes[1:], 1):
            there = s * (x + 1) / 2
            out[~stiff, m] = np.exp(np.multiply.outer(z[~stiff], s - there)) @ (s * g[:, None] * self.at(there))
        # q' − zq = ℓ_j has the polynomial solution q = −Σ_i ℓ_j^(i) / z^(i+1); the weight is q(s_m) − e^{z s_m} q(0).
        large = z[stiff, None, None]
        q = np.zeros((len(large), self.num_nodes, self.num_nodes), z.dtype)
        for i in range(self.num_nodes):
            q -= 2.0**i * legendre.table(2 * self.nodes - 1, self.num_nodes, i) @ self.to_legendre / large ** (i + 1)
        out[stiff] = q - np.exp(large * self.nodes[:, None]) * q[:, :1]
        return out


class Propagator:
    """e^{z s_m}, (K, ...), and, once they are asked for, h w_mj(z), (K, K, all rates), for the rates of a symbol."""

    def __init__(self, rule: Collocation, rates: np.ndarray, step: float):
        self.rule, self.rates, self.step = rule, rates, step  # holding the rates keeps their identity
        self.exponentials = np.exp(np.multiply.outer(step * rule.nodes, rates))

    @cached_property
    def weights(self) -> np.ndarray:
        """h w_mj(hλ), computed once for equal rates; rates are the last axis, along which sums over nodes are fast."""
        z, place = np.unique(self.step * self.rates, return_inverse=True)
        return np.take(np.moveaxis(self.step * self.rule.weights(z), 0, -1), place.ravel(), axis=-1)

    def __call__(self, start: np.ndarray, forcing: np.ndarray | None, now: slice = slice(None)) -> np.ndarray:
        """u at the nodes, (K, ...), or at some of them, from u at the start and N at all nodes."""
        out = self.exponentials[now] * start
        if forcing is not None:
            flat, total = forcing.reshape(len(forcing), -1), lambda f: np.einsum("mjn,jn->mn", self.weights[now], f)
            split = np.iscomplexobj(flat) and not np.iscomplexobj(self.weights)
            out += (total(np.real(flat)) + 1j * total(np.imag(flat)) if split else total(flat)).reshape(out.shape)
        return out
