"""The random training set: which points each loss term is averaged over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from flm.domains.sequences import split
from flm.pde.problem import PDE, Block
from flm.wording import InputError, did_you_mean

# Which loss term a block of equations belongs to: faces other than the initial one pool into one mean.
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
    """Blocks that hold at the same place, together: two places are the same when they are sampled alike."""
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
