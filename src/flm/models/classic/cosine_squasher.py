"""The Fourier network of Gallant and White (1988): cosines built from clumps of squashing neurons."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from flm.domains import AbstractDomain
from flm.models.base import AbstractModel, InputMap, Key, input_map
from flm.models.classic.fixed_lattice import wave_vectors
from flm.series import PhaseSeries, sincos
from flm.series.waves import Orders
from flm.wording import InputError

MARGIN = 1e-3  # the cube is [margin, 2 pi - margin]^m: at its corners pre-activations meet the ends of their range


def cosine_squasher(net: Array) -> Array:
    """F(net) = (cos(net + 3 pi/2) + 1)/2 between -pi/2 and pi/2, 0 below and 1 above: monotone, from 0 to 1."""
    return (sincos(jnp.clip(net, -np.pi / 2, np.pi / 2))[0] + 1) / 2  # cos(net + 3 pi/2) = sin net


class GallantWhite(AbstractModel):
    """The Fourier network GW88: each cosine is a clump of 2 (2 M_i + 1) cosine-squashers with hardwired inputs.

    f(x) = delta_0 + sum_i sum_(m=-M_i..M_i) 2 theta_i [F(-net_i + pi/2 - 2 pi m) + F(net_i - 3 pi/2 + 2 pi m)],
    net_i = w_i . z + b_i,  delta_0 = theta_0 + sum_i theta_i (1 - 2 (2 M_i + 1)),

    which is theta_0 + sum_i theta_i cos(net_i) as long as every net_i stays in [-2 pi M_i, 2 pi (M_i + 1)]; outside it the
    clump is constant. Inputs are mapped to the cube [margin, 2 pi - margin]^m, w_i runs over the wave vectors of the
    integer lattice, b_i is 0 (cosine) and -pi/2 (sine), and M_i is the least that covers the cube.

    Args:
        num_inputs: m (inputs then lie in the cube themselves), or a domain, whose extent is mapped to it.
        num_terms: how many of the lattice's wave vectors; each gives a cosine and a sine.
        key: accepted for a uniform call; the start is fixed (all thetas zero).
        train_frequencies: True undoes the hardwiring of w and b. The M_i were chosen before, so the network is then a
            cosine series only while `covered` says so.
        check: whether calls with concrete points outside the covered range are refused.

    Raises:
        ValueError: from a call, when a pre-activation leaves the range that its M_i covers.

    Example:
        >>> import flm
        >>> model = flm.models.GallantWhite(flm.Box(x=(0, 1)), 3)
        >>> model.reach, model.num_parameters
        ((0, 1, 1, 1, 2, 2), 7)
        >>> model.covered([0.0, 0.5, 2.0])
        array([ True,  True, False])
    """

    frequencies: Float[Array, "terms m"]
    biases: Float[Array, "terms"]
    thetas: Float[Array, "terms"]
    constant: Float[Array, ""]
    reach: tuple[int, ...] = eqx.field(static=True)
    map: InputMap
    num_outputs: int = eqx.field(static=True)
    train_frequencies: bool = eqx.field(static=True)
    check: bool = eqx.field(static=True)

    def __init__(
        self,
        num_inputs: int | AbstractDomain,
        num_terms: int,
        *,
        key: Key | None = None,
        train_frequencies: bool = False,
        check: bool = True,
    ):
        plain = input_map(num_inputs, 2 * np.pi - 2 * MARGIN)
        if isinstance(num_inputs, AbstractDomain):  # the center goes to pi
            center = tuple(c - np.pi / s for c, s in zip(plain.center, plain.scale, strict=True))
            self.map = InputMap(center, plain.scale, plain.axes)
        else:
            self.map = InputMap(plain.center, (1.0,) * len(plain.center), None)
        dtype = jnp.result_type(float)
        waves = wave_vectors(len(self.map.center), num_terms)
        w = np.repeat(waves, 2, axis=0)
        b = np.tile([0.0, -np.pi / 2], len(waves))
        self.frequencies, self.biases = jnp.asarray(w, dtype), jnp.asarray(b, dtype)
        self.thetas, self.constant = jnp.zeros(len(w), dtype), jnp.zeros((), dtype)
        self.reach = tuple(_least_reach(w, b))
        self.num_outputs = 1
        self.train_frequencies, self.check = bool(train_frequencies), bool(check)

    def __check_init__(self):
        if len(self.reach) != len(self.frequencies) or self.thetas.shape != self.biases.shape:
            raise InputError(f"`reach` must have one entry per term ({len(self.frequencies)}); got {len(self.reach)}.")

    def pre_activations(self, points: npt.ArrayLike) -> Float[Array, "P terms"]:
        """net_i at points."""
        return self.map(self._checked(points)) @ self.frequencies.T + self.biases

    def covered(self, points: npt.ArrayLike) -> np.ndarray:
        """Whether every pre-activation of each point is in the range that its M_i covers, (P,)."""
        net, reach = np.asarray(self.pre_activations(points)), np.asarray(self.reach)
        return np.all((net >= -2 * np.pi * reach - 1e-9) & (net <= 2 * np.pi * (reach + 1) + 1e-9), axis=1)

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """Values and derivatives of the clumps; see `AbstractModel.jets`."""
        if self.check and not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((self, points))):
            outside = ~self.covered(points)
            if outside.any():
                raise InputError(
                    f"`points` must keep every pre-activation in the range that its M_i covers; got {outside.sum()} of "
                    f"{len(outside)} points outside, the first at {np.asarray(self._checked(points))[outside][0]}. "
                    "There the network is no longer a cosine series: stay in the domain, or build it with check=False."
                )
        return super().jets(points, orders)

    def values(self, points: Float[Array, "P m"]) -> Float[Array, "P *K"]:
        """The sum of all clumps."""
        net = self.pre_activations(points)
        reach = np.asarray(self.reach)
        owner = np.repeat(np.arange(len(reach)), 2 * reach + 1)  # the term of each pair of neurons
        turn = np.concatenate([2 * np.pi * np.arange(-M, M + 1) for M in reach])
        net = net[:, owner] + jnp.asarray(turn, net.dtype)
        pairs = cosine_squasher(-net + np.pi / 2) + cosine_squasher(net - 3 * np.pi / 2)
        delta = self.constant + jnp.sum(self.thetas * jnp.asarray(1.0 - 2 * (2 * reach + 1), net.dtype))
        return delta + pairs @ (2 * self.thetas[owner])

    def trainable(self) -> PyTree[bool]:
        """The thetas and the constant; also w and b when the hardwiring is undone."""
        spec = jax.tree.map(eqx.is_inexact_array, self)
        return eqx.tree_at(lambda f: (f.frequencies, f.biases), spec, (self.train_frequencies,) * 2)

    @property
    def series(self) -> PhaseSeries:
        """The cosine series that the network equals where `covered`, in physical units."""
        frequencies = jnp.concatenate([jnp.zeros((1, self.num_inputs)), self.frequencies])
        amplitudes = jnp.concatenate([self.constant[None], self.thetas])
        return self.map.cosines(frequencies, amplitudes, jnp.concatenate([jnp.zeros(1), -self.biases]))


def _least_reach(w: np.ndarray, b: np.ndarray) -> list[int]:
    """The least M with [min net, max net] inside [-2 pi M, 2 pi (M + 1)], over the cube [0, 2 pi]^m."""
    low = np.minimum(w, 0).sum(axis=1) + b / (2 * np.pi)
    high = np.maximum(w, 0).sum(axis=1) + b / (2 * np.pi)
    return [int(max(0, np.ceil(max(-lo, hi - 1) - 1e-12))) for lo, hi in zip(low, high, strict=True)]
