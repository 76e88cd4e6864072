"""The training loss of the paper: a sum of mean squares over equation, initial and boundary points.

    L = sum over terms of w_term / N_term * sum over the term's points of |residual|^2        (paper, Section 5.1)

Points are random and drawn once; each term is averaged over its own points. Several residuals at one point add their squares.
Weights are 1 unless given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float
from scipy.special import logit

from flm.domains.sequences import split
from flm.language.arguments import Jet, unique_jets
from flm.language.parameters import Learn
from flm.models import AbstractModel
from flm.pde.conditions import Data
from flm.pde.problem import PDE, Block
from flm.wording import InputError, did_you_mean

# Which loss term a block of equations belongs to: all faces but the initial one share one mean.
TERMS = {kind: kind for kind in ("equation", "initial", "boundary", "data")} | {"periodic": "boundary"}
COUNTED = ("equation", "initial", "boundary")  # data come with their own points
MOST = 10_000_000  # points of one set
Place = tuple[int, np.ndarray]  # a set by its number, and its points or those of its periodic partner
T = TypeVar("T")
_OVERSAMPLING = 32  # uniform random points = a random subset of this many times as many well-spread ones


@dataclass(frozen=True, eq=False)
class PointSet:
    """Points that some residuals share."""

    term: str  # of the loss
    blocks: tuple[Block, ...]  # the residuals that hold here
    points: np.ndarray  # (P, m)
    normals: np.ndarray  # outward, (P, m); zero inside
    partner: np.ndarray | None = None  # the points opposite, for a periodic pair

    @property
    def places(self) -> list[np.ndarray]:
        """The points and, for a periodic pair, those opposite."""
        return [self.points] if self.partner is None else [self.points, self.partner]


def terms_of(problem: PDE) -> list[str]:
    """The loss terms of a problem."""
    return list(dict.fromkeys(TERMS[block.kind] for block in problem.blocks))


def by_term(
    role: str, given: Mapping[str, T], terms: Sequence[str], rule: str, holds: Callable[[T], bool]
) -> dict[str, T]:
    """The argument `role`, a value for some loss terms, refused with a sentence if something is wrong with it."""
    if not isinstance(given, Mapping):
        raise InputError(f"`{role}` must be a dict by term ({', '.join(terms)}); got {given!r}.")
    for name, value in given.items():
        if name not in terms:
            near = did_you_mean(str(name), terms)
            raise InputError(f"`{role}` must be for the loss terms {', '.join(terms)}; got {name!r}.{near}")
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not holds(value):
            raise InputError(f"`{role}[{name!r}]` must be {rule}; got {value!r}.")
    return dict(given)


def checked_counts(points: Mapping[str, int], problem: PDE) -> dict[str, int]:
    """The number of points of every term that does not bring its own points."""
    holds = lambda n: isinstance(n, int | np.integer) and bool(1 <= n <= MOST)
    found = by_term("points", points, COUNTED, f"an integer from 1 to {MOST:,}", holds)
    needed = [term for term in terms_of(problem) if term in COUNTED]
    if missing := [name for name in needed if name not in found]:
        raise InputError(
            f"`points` must count every set of the problem ({', '.join(needed)}); got no count for {', '.join(missing)}."
        )
    return {name: int(found[name]) for name in needed}


def draw(problem: PDE, counts: Mapping[str, int], seed: int) -> tuple[PointSet, ...]:
    """The training set of a seed: uniform random points, shared evenly among the places of a term."""
    sets: list[PointSet] = []
    for term in terms_of(problem):
        blocks = [block for block in problem.blocks if TERMS[block.kind] == term]
        if term == "data":
            sets += [PointSet(term, (block,), *block.sample(0, seed=0)) for block in blocks]
            continue
        by_place: dict[tuple[bool, bytes], list[Block]] = {}  # the same place: equal samples
        for block in blocks:
            probe, _ = block.sample(8, seed=1, warp=False)
            by_place.setdefault((block.partner is not None, probe.tobytes()), []).append(block)
        shares = split(counts[term], [1.0] * len(by_place))
        for i, (place, count) in enumerate(zip(by_place.values(), shares, strict=True)):
            rng = np.random.default_rng([seed, *term.encode(), i])
            sets.append(_uniform(term, tuple(place), max(count, 1), rng))
    return tuple(sets)


def _uniform(term: str, blocks: tuple[Block, ...], count: int, rng: np.random.Generator) -> PointSet:
    block, seed = blocks[0], int(rng.integers(2**31))
    points, normals = block.sample(_OVERSAMPLING * count, seed=seed, warp=False)
    chosen = rng.permutation(len(points))[:count]
    partner = None
    if block.partner is not None:  # equal seeds give equal free coordinates on opposite faces
        partner = block.partner.sample(_OVERSAMPLING * count, seed=seed, warp=False)[0][chosen]
    return PointSet(term, blocks, points[chosen], normals[chosen], partner)


class TrainingLoss:
    """The loss of a model on a training set, in the model's precision."""

    def __init__(self, sets: Sequence[PointSet], weights: Mapping[str, float], dtype: npt.DTypeLike):
        self.dtype = np.dtype(dtype)
        cast = lambda arrays: [np.asarray(array, self.dtype) for array in arrays]
        self.sets = [PointSet(s.term, s.blocks, *cast([s.points, s.normals, *s.places[1:]])) for s in sets]
        self.terms = tuple(dict.fromkeys(s.term for s in sets))  # in the order of `by_term` and of the weights
        self.weights = np.array([weights.get(term, 1.0) for term in self.terms], self.dtype)
        # Points that need the same derivatives are evaluated together: one sine-cosine table per evaluation.
        self._groups: dict[tuple[tuple[int, ...], ...], list[Place]] = {}
        for i, s in enumerate(self.sets):
            orders = tuple(sorted({alpha for _, alpha in unique_jets(b.residual for b in s.blocks)}))
            value = (0,) * s.points.shape[1]  # for a residual without the unknown: constant, but a legal one
            self._groups.setdefault(orders or (value,), []).extend((i, points) for points in s.places)

    def by_term(self, model: AbstractModel, parameters: Float[Array, "Q"]) -> Float[Array, "T"]:
        """The unweighted mean square of every term."""
        jets = self._jets(model)
        sums = dict.fromkeys(self.terms, jnp.zeros((), self.dtype))
        for s, own in zip(self.sets, jets, strict=True):
            for block in s.blocks:
                sums[s.term] = sums[s.term] + jnp.sum(self._residual(s, block, own, parameters) ** 2)
        counts = [sum(len(s.points) for s in self.sets if s.term == term) for term in self.terms]
        means = [sums[term] / count for term, count in zip(self.terms, counts, strict=True)]
        return jnp.stack(means).astype(self.dtype)

    def constants(self) -> list[np.ndarray]:
        """All arrays that the loss depends on, which distinguish one run from another."""
        return [array for s in self.sets for array in (*s.places, s.normals)] + [self.weights]

    def _jets(self, model: AbstractModel) -> list[list[dict[Jet, Array]]]:
        """The derivatives of every unknown at each set, and at its periodic partner."""
        found: list[list[dict[Jet, Array]]] = [[] for _ in self.sets]
        for orders, places in self._groups.items():
            stacked = model.jets(np.concatenate([points for _, points in places]), orders)
            stacked = stacked[..., None] if stacked.ndim == 2 else stacked  # (A, P, K)
            ends = np.cumsum([len(points) for _, points in places])[:-1]
            for (i, _), part in zip(places, jnp.split(stacked, ends, axis=1), strict=True):
                both = [(a, alpha, k) for a, alpha in enumerate(orders) for k in range(part.shape[2])]
                found[i].append({(k, alpha): part[a, :, k] for a, alpha, k in both})
        return found

    def _residual(self, s: PointSet, block: Block, jets: list[dict[Jet, Array]], parameters: Array) -> Array:
        here, *there = [
            block.residual(points, [known[jet] for jet in block.residual.jets], parameters, s.normals)
            for points, known in zip(s.places, jets, strict=True)
        ]
        if block.data is not None:
            misfit = here - np.asarray(block.data.values, self.dtype)
            return misfit if block.data.sigma is None else misfit * _relative_precision(block.data, self.dtype)
        return here - there[0] if there else here


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
    if np.isfinite([low, high]).all():
        return float(logit(np.clip((learn.start - low) / (high - low), 1e-6, 1 - 1e-6)))
    gap = max(min(learn.start - low, high - learn.start), 1e-6)
    return learn.start if np.isinf(gap) else float(gap + np.log(-np.expm1(-gap)))  # the inverse of softplus


def _from_free(learn: Learn, q: Array) -> Array:
    low, high = learn.limits
    if np.isfinite([low, high]).all():
        return low + (high - low) * jax.nn.sigmoid(q)
    if np.isinf([low, high]).all():
        return q
    return low + jax.nn.softplus(q) if np.isfinite(low) else high - jax.nn.softplus(q)
