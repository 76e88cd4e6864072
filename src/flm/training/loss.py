"""The training loss of the paper: a sum of mean squares over equation, initial and boundary points.

    L = sum over terms of w_term / N_term * sum over the term's points of |residual|^2        (paper, Section 5.1)

Points are random, drawn once; each term is averaged over its own. Several residuals at one point add their squares.
Weights are 1 unless given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float
from scipy.special import logit

from flm.domains.sequences import split
from flm.language.arguments import Jet, unique_jets
from flm.language.learn import Learn
from flm.models import AbstractModel
from flm.pde.conditions import Data
from flm.pde.problem import PDE, Block
from flm.wording import InputError, did_you_mean

# Which loss term a block of equations belongs to: all faces but the initial one share one mean.
TERMS = {kind: kind for kind in ("equation", "initial", "boundary", "data")} | {"periodic": "boundary"}
COUNTED = ("equation", "initial", "boundary")  # data come with their own points
MOST = 10_000_000  # points of one set
_OVERSAMPLING = 32  # uniform random points = a random subset of this many times as many well-spread ones


@dataclass(frozen=True, eq=False)
class PointSet:
    """Points that some residuals share."""

    term: str  # of the loss
    blocks: tuple[Block, ...]  # the residuals that hold here
    points: np.ndarray  # (P, m)
    normals: np.ndarray  # outward, (P, m); zero inside
    partner: np.ndarray | None = None  # the points opposite, for a periodic pair


def terms_of(problem: PDE) -> list[str]:
    """The loss terms of a problem."""
    return list(dict.fromkeys(TERMS[block.kind] for block in problem.blocks))


def checked_counts(points: Mapping[str, int], problem: PDE) -> dict[str, int]:
    """The counts by term, or a sentence about what is wrong with them."""
    if not isinstance(points, Mapping):
        raise InputError(
            f'`points` must be a dict such as {{"equation": 1000, "initial": 200, "boundary": 200}}; got {points!r}.'
        )
    for name, count in points.items():
        if name not in COUNTED:
            raise InputError(
                f"`points` must count {', '.join(COUNTED)}; got {name!r}.{did_you_mean(str(name), COUNTED)}"
            )
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or not 1 <= count <= MOST:
            raise InputError(f"`points[{name!r}]` must be an integer from 1 to {MOST:,}; got {count!r}.")
    needed = [term for term in terms_of(problem) if term in COUNTED]
    if missing := [name for name in needed if name not in points]:
        raise InputError(
            f"`points` must count every set of the problem ({', '.join(needed)}); got no count for {', '.join(missing)}."
        )
    return {name: int(points[name]) for name in needed}


def draw(problem: PDE, counts: Mapping[str, int], seed: int) -> tuple[PointSet, ...]:
    """The training set of a seed: uniform random points, shared evenly among the places of a term."""
    sets: list[PointSet] = []
    for term in terms_of(problem):
        blocks = [block for block in problem.blocks if TERMS[block.kind] == term]
        if term == "data":
            sets += [PointSet(term, (block,), *block.sample(0, seed=0)) for block in blocks]
            continue
        places = _places(blocks)
        shares = split(counts[term], [1.0] * len(places))
        for i, (place, count) in enumerate(zip(places, shares, strict=True)):
            rng = np.random.default_rng([seed, *term.encode(), i])
            sets.append(_uniform(term, place, max(count, 1), rng))
    return tuple(sets)


def _places(blocks: list[Block]) -> list[tuple[Block, ...]]:
    """The blocks of each place together: two places are the same when their samples are equal."""
    by_place: dict[tuple[bool, bytes], list[Block]] = {}
    for block in blocks:
        probe, _ = block.sample(8, seed=1, warp=False)
        by_place.setdefault((block.partner is not None, probe.tobytes()), []).append(block)
    return [tuple(group) for group in by_place.values()]


def _uniform(term: str, blocks: tuple[Block, ...], count: int, rng: np.random.Generator) -> PointSet:
    block, seed = blocks[0], int(rng.integers(2**31))
    points, normals = block.sample(_OVERSAMPLING * count, seed=seed, warp=False)
    chosen = rng.permutation(len(points))[:count]
    partner = None
    if block.partner is not None:  # equal seeds give equal free coordinates on opposite faces
        partner = block.partner.sample(_OVERSAMPLING * count, seed=seed, warp=False)[0][chosen]
    return PointSet(term, blocks, points[chosen], normals[chosen], partner)


# By set and whether at its periodic partner: the derivatives of every unknown.
Jets = dict[tuple[int, bool], dict[Jet, Array]]


class TrainingLoss:
    """The loss of a model on a training set, in the model's precision."""

    def __init__(self, problem: PDE, sets: Sequence[PointSet], weights: Mapping[str, float], dtype: npt.DTypeLike):
        self.problem = problem
        self.dtype = np.dtype(dtype)
        self.sets = tuple(sets)
        self.terms = tuple(dict.fromkeys(s.term for s in sets))  # in the order of `by_term` and of the weights
        self.weights = np.array([weights.get(term, 1.0) for term in self.terms], self.dtype)
        self._count = {t: sum(len(s.points) for s in sets if s.term == t) for t in self.terms}
        # Points that need the same derivatives are evaluated together: one sine-cosine table per evaluation.
        self._groups: dict[tuple[tuple[int, ...], ...], list[tuple[int, bool]]] = {}
        for i, s in enumerate(self.sets):
            orders = tuple(sorted({alpha for _, alpha in unique_jets(b.residual for b in s.blocks)}))
            both = (False,) if s.partner is None else (False, True)
            self._groups.setdefault(orders, []).extend((i, far) for far in both)
        self._points = [np.asarray(s.points, self.dtype) for s in self.sets]
        self._partner = {i: np.asarray(s.partner, self.dtype) for i, s in enumerate(sets) if s.partner is not None}
        self._normals = [np.asarray(s.normals, self.dtype) for s in self.sets]

    def by_term(self, model: AbstractModel, parameters: Float[Array, "Q"]) -> Float[Array, "T"]:
        """The unweighted mean square of every term."""
        jets = self._jets(model)
        sums = dict.fromkeys(self.terms, jnp.zeros((), self.dtype))
        for i, s in enumerate(self.sets):
            for block in s.blocks:
                sums[s.term] = sums[s.term] + jnp.sum(self._residual(i, block, jets, parameters) ** 2)
        return jnp.stack([sums[term] / self._count[term] for term in self.terms]).astype(self.dtype)

    def constants(self) -> list[np.ndarray]:
        """All arrays that the loss depends on: they tell one run from another."""
        return [*self._points, *self._partner.values(), *self._normals, self.weights]

    def _jets(self, model: AbstractModel) -> Jets:
        """The derivatives of every unknown at every set (and at its periodic partner)."""
        found = {}
        for orders, members in self._groups.items():
            places = [self._partner[i] if far else self._points[i] for i, far in members]
            if not orders:  # a residual without the unknown: constant, but a legal one
                found |= {member: {} for member in members}
                continue
            stacked = model.jets(np.concatenate(places), orders)
            stacked = stacked[..., None] if stacked.ndim == 2 else stacked  # (A, P, K)
            ends = np.cumsum([len(p) for p in places])
            for member, start, end in zip(members, [0, *ends[:-1]], ends, strict=True):
                part = stacked[:, start:end]
                found[member] = {
                    (k, alpha): part[a, :, k] for a, alpha in enumerate(orders) for k in range(part.shape[2])
                }
        return found

    def _residual(self, i: int, block: Block, jets: Jets, parameters: Array) -> Array:
        here = [jets[(i, False)][jet] for jet in block.residual.jets]
        value = block.residual(self._points[i], here, parameters, self._normals[i])
        if block.partner is not None:
            there = [jets[(i, True)][jet] for jet in block.residual.jets]
            return value - block.residual(self._partner[i], there, parameters, self._normals[i])
        if block.data is not None:
            misfit = value - np.asarray(block.data.values, self.dtype)
            return misfit if block.data.sigma is None else misfit * _relative_precision(block.data, self.dtype)
        return value


def _relative_precision(data: Data, dtype: np.dtype) -> np.ndarray:
    """1/sigma of each reading, scaled to mean square 1: readings are weighed against each other only."""
    inverse = np.broadcast_to(1 / np.asarray(data.sigma, float), data.values.shape)
    return np.asarray(inverse / np.sqrt(np.mean(inverse**2)), dtype)


class Unknowns:
    """Parameters to be learned as free numbers q: bounded ones through a sigmoid, half-bounded through a softplus."""

    def __init__(self, problem: PDE, dtype: npt.DTypeLike):
        self.values = np.asarray(problem.parameter_start, dtype)
        self.learned = {i: v for i, v in enumerate(problem.parameters.values()) if isinstance(v, Learn)}

    def start(self) -> Array:
        """The free numbers of the starting values; a start on a bound is moved inside by a millionth."""
        return jnp.asarray(np.array([_to_free(learn) for learn in self.learned.values()]), self.values.dtype)

    def all(self, free: Float[Array, "L"]) -> Float[Array, "Q"]:
        """Every parameter of the problem, the learned ones from their free numbers."""
        values = jnp.asarray(self.values)
        for q, (i, learn) in zip(free, self.learned.items(), strict=True):
            values = values.at[i].set(_from_free(learn, q))
        return values


def _to_free(learn: Learn) -> float:
    low, high = learn.limits
    if np.isfinite(low) and np.isfinite(high):
        return float(logit(np.clip((learn.start - low) / (high - low), 1e-6, 1 - 1e-6)))
    if np.isinf(low) and np.isinf(high):
        return learn.start
    gap = max(learn.start - low if np.isfinite(low) else high - learn.start, 1e-6)
    return float(gap + np.log(-np.expm1(-gap)))  # the inverse of softplus


def _from_free(learn: Learn, q: Array) -> Array:
    low, high = learn.limits
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) * jax.nn.sigmoid(q)
    if np.isinf(low) and np.isinf(high):
        return q
    return low + jax.nn.softplus(q) if np.isfinite(low) else high - jax.nn.softplus(q)
