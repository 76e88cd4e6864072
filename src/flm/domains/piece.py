"""Pieces of a boundary: lists of patches, each a chart of the unit cube and, where it was cut, a rule that says what is kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from flm.domains.sequences import split, unit_points
from flm.language.arguments import argument_names
from flm.wording import InputError, InputTypeError

if TYPE_CHECKING:
    from flm.domains.base import AbstractDomain

Chart = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
Keep = Callable[[np.ndarray, np.ndarray], np.ndarray]

_PROBES = 4096  # points that estimate how much of a patch is kept
_LARGEST = 2**22  # points tried before a patch counts as too thin to sample


@dataclass(frozen=True)
class Patch:
    """A chart of part of a boundary: unit cube → (points (n, m), unit normals (n, m))."""

    chart: Chart  # area-preserving up to a constant, so that uniform coordinates give uniform points
    ends: tuple[bool, ...]  # for each coordinate of the chart, whether it has ends (see `unit_points`)
    measure: float  # length or area of the part that is kept
    keep: Keep | None = None  # which points belong to the patch, of (points, normals); None keeps all
    weight: float | None = None  # its share of the points of a piece; None: its measure

    def sample(self, n: int, *, seed: int, warp: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Exactly `n` points of the patch and their normals."""
        tried = n
        while True:
            points, normals = self.chart(unit_points(tried, self.ends, seed=seed, warp=warp))
            if self.keep is None:
                return points, normals
            kept = np.flatnonzero(self.keep(points, normals))
            if len(kept) >= n:
                # Few points are surplus, because `tried` grows to fit; drop them evenly.
                kept = kept[((np.arange(n) + 0.5) * (len(kept) / max(n, 1))).astype(int)]
                return points[kept], normals[kept]
            if tried >= _LARGEST:
                raise InputError(f"`n` must be at most what a thin part of a domain or boundary holds; got {n}.")
            tried = min(_LARGEST, 1 + int(1.02 * tried * max(1.0, n / max(len(kept), 1))))

    def cut(self, keep: Keep) -> "Patch | None":
        """The part of the patch where `keep` also holds, or None when nothing remains."""
        points, normals = self.chart(unit_points(_PROBES, self.ends, seed=0, warp=False))
        before = np.ones(len(points), bool) if self.keep is None else self.keep(points, normals)
        share = np.mean(keep(points[before], normals[before])) if before.any() else 0.0
        if share == 0.0:
            return None
        old = self.keep
        both = keep if old is None else lambda p, v: old(p, v) & keep(p, v)
        return replace(self, measure=self.measure * float(share), keep=both)


@dataclass(frozen=True)
class Piece:
    """A named part of a domain's boundary (or a plane, an edge or a point of it), with outward normals."""

    name: str  # canonical: "x=0", "x=0, t=1", "boundary"
    axes: tuple[str, ...]
    dimension: int  # free dimensions; 0 is a single point
    patches: tuple[Patch, ...] = field(repr=False, compare=False)
    fixed: dict[str, float] = field(default_factory=dict, hash=False)  # pinned axes; empty for curved pieces
    owner: "AbstractDomain | None" = field(default=None, repr=False, compare=False)  # the shape that it came from

    @property
    def measure(self) -> float:
        """Length or area; 1 for a single point."""
        return float(sum(patch.measure for patch in self.patches))

    def sample(self, n: int, *, seed: int, warp: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """`n` points on the piece and the outward unit normals there, both (n, m); always one where the piece is a point.

        Curves are sampled evenly by arc length, straight sides by Chebyshev points (with `warp`), spheres by a Fibonacci
        lattice, faces by Sobol points. The same seed gives the same free coordinates on opposite faces of a box.
        """
        if n < 1:
            raise InputError(f"`n` must be at least 1; got {n}.")
        weights = [patch.measure if patch.weight is None else patch.weight for patch in self.patches]
        counts = split(n, weights) if self.dimension else [1] * len(weights)  # the ends of a line: one point each
        parts = [p.sample(k, seed=seed, warp=warp) for p, k in zip(self.patches, counts, strict=True) if k]
        return np.concatenate([p for p, _ in parts]), np.concatenate([v for _, v in parts])

    def restrict(self, where: Callable[..., npt.ArrayLike]) -> "Piece":
        """The part of the piece where a predicate on named coordinates holds: `piece.restrict(lambda x: x < 0)`."""
        if not callable(where):
            raise InputTypeError(f"`where` must be a function of axes ({', '.join(self.axes)}); got {where!r}.")
        columns = [self.axes.index(name) for name in check_arguments(where, self.axes, "where")]

        def keep(points, normals):
            return np.broadcast_to(np.asarray(where(*points[:, columns].T), bool), len(points))

        cut = self.cut(keep, name=f"{self.name}, restricted")
        if cut is None:
            raise InputError(f"`where` must hold somewhere on {self.name!r}; got a predicate that never does.")
        return cut

    def cut(self, keep: Keep, *, name: str | None = None) -> "Piece | None":
        """The part of the piece where `keep(points, normals)` holds, or None when nothing remains."""
        left = tuple(cut for patch in self.patches if (cut := patch.cut(keep)) is not None)
        return replace(self, name=name or self.name, patches=left) if left else None


def join(name: str, pieces: Sequence[Piece], *, equal: bool = False) -> Piece:
    """The union of pieces of one domain, which share samples by measure, or equally."""
    first = pieces[0]
    if len(pieces) == 1 and first.name == name:
        return first
    owner = first.owner if all(piece.owner is first.owner for piece in pieces) else None
    parts = [(patch, len(piece.patches)) for piece in pieces for patch in piece.patches]
    patches = tuple(replace(patch, weight=1.0 / count) if equal else patch for patch, count in parts)
    return Piece(name, first.axes, max(piece.dimension for piece in pieces), patches, owner=owner)


def check_arguments(function: Callable[..., object], names: Sequence[str], what: str) -> tuple[str, ...]:
    """The arguments of `function` without defaults, refused unless all are among `names`."""
    arguments = argument_names(function, f"`{what}`")
    if unknown := [name for name in arguments if name not in names]:
        got = f"the argument{'s' * (len(unknown) > 1)} {', '.join(unknown)}"
        raise InputError(f"`{what}` must be a function of {', '.join(names)}; got {got}.")
    return arguments
