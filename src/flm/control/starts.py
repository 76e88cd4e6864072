"""The initial states that a control law is made for: a point, a ball, a box or a disk on the simplex, and its images.

Coordinates: a state x (n,) has independent coordinates v (d,), d = n, or d = n - 1 on the simplex where
x_n = 1 - sum v. A disk on the simplex is {x : sum x = 1, |x - c|_2 <= radius}, the Euclidean norm of R^n.
Normalized coordinates z = (v - center) / scale lie in [-1, 1]^d.

If f(Px, Qu) = P f(x, u) for signed permutations P of the states and Q of the controls, and the costs do not change, then the
optimal control from Px is Q u*(t; x), with the same cost: a law learned on one set of starts serves every image of that set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from flm.control.equations import Equations, stack, values_of
from flm.domains import AbstractDomain, Ball, Box
from flm.domains.sequences import unit_points
from flm.numerics.elementwise import at_rows
from flm.wording import InputError, did_you_mean

if TYPE_CHECKING:
    from flm.control.problem import OptimalControl

Initial = npt.ArrayLike | Ball | Box  # a state, or a set of them
Arrangement = Sequence[str]  # the names in another order, with "-" for a change of sign
Generator = str | Arrangement | tuple[Arrangement, Arrangement]
Symmetries = str | Sequence[Generator]

_CORNERS = 5  # a box of more coordinates is judged at 2^5 of its corners
_SLACK = 1e-9  # how far outside, relative to the size, a start still counts as inside


@dataclass(frozen=True, eq=False)
class Symmetry:
    """A pair (P, Q) of signed permutation matrices acting on states (n, n) and controls (k, k)."""

    states: np.ndarray
    controls: np.ndarray


@dataclass(frozen=True, eq=False)
class Starts:
    """A set of initial states and its images under symmetries, a group whose first member is the identity.

    `kind` is "point", "ball" or "box"; `center` and `scale` are the middle and the half widths of the independent
    coordinates (d,), zeros for a point; `radius` is the ball's, zero otherwise.
    """

    kind: str
    center: np.ndarray
    scale: np.ndarray
    radius: float
    on_simplex: bool
    states: tuple[str, ...]
    group: tuple[Symmetry, ...]

    @property
    def dimension(self) -> int:
        """The number of varying coordinates: zero for a point."""
        return 0 if self.kind == "point" else len(self.center)

    def coordinates(self, x0: npt.ArrayLike) -> np.ndarray:
        """Independent coordinates (P, d) of one state or several."""
        return as_coordinates("x0", x0, self.states, self.on_simplex)

    def one(self, x0: npt.ArrayLike | None) -> np.ndarray:
        """Coordinates (d,) of the one initial state that a reference solves for; the set's own when `x0` is left out."""
        if x0 is None:
            if self.dimension:
                raise InputError("`x0` must be given for a problem with a set of initial states.")
            return self.center
        v0 = self.coordinates(x0)
        if len(v0) != 1:
            raise InputError(f"`x0` must be one state; got {len(v0)}.")
        return v0[0]

    def lift(self, v: np.ndarray) -> np.ndarray:
        """All states (..., n) from independent coordinates (..., d)."""
        return np.concatenate([v, 1.0 - v.sum(axis=-1, keepdims=True)], axis=-1) if self.on_simplex else v

    def normalize(self, v: np.ndarray) -> np.ndarray:
        """z (P, dimension) of coordinates v (P, d)."""
        return (v - self.center)[:, : self.dimension] / np.where(self.scale > 0, self.scale, 1.0)[: self.dimension]

    def contains(self, v: np.ndarray) -> np.ndarray:
        """Whether each start v (P, d) belongs to the set itself, up to rounding, (P,)."""
        offset = v - self.center
        if self.kind != "ball":
            slack = _SLACK * (self.scale if self.dimension else np.maximum(1.0, np.abs(self.center).max()))
            return np.all(np.abs(offset) <= self.scale + slack, axis=1)
        last = offset.sum(axis=1) if self.on_simplex else 0.0  # minus the offset of the last state
        return np.hypot(np.linalg.norm(offset, axis=1), last) <= self.radius * (1 + _SLACK)

    def locate(self, x0: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates (P, d) of the starts' images inside the set, and the index of the symmetry that maps each there.

        A law made for the set is evaluated at the images; a start outside the set and its images is refused.
        """
        v = self.coordinates(x0)
        x, image, which = self.lift(v), v.copy(), np.full(len(v), -1)
        for index, member in enumerate(self.group):
            moved = (x @ member.states.T)[:, : v.shape[1]]
            new = (which < 0) & self.contains(moved)
            image[new], which[new] = moved[new], index
        if (which < 0).any():
            raise InputError(
                f"`x0` must be in {self}{' or one of its symmetric images' if len(self.group) > 1 else ''}; "
                f"got {np.round(x[which < 0][0], 12).tolist()}. Solve the problem for initial states that contain it."
            )
        return image, which

    def sample(self, n: int, *, seed: int) -> np.ndarray:
        """`n` random starts, uniform over the set, (n, d)."""
        rng = np.random.default_rng(seed)
        if self.kind == "ball":
            direction = rng.standard_normal((n, len(self.center)))
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
            return self._from_ball(direction * rng.random((n, 1)) ** (1 / len(self.center)))
        return self.center + self.scale * rng.uniform(-1.0, 1.0, (n, len(self.center)))

    def spread(self, n: int, *, seed: int, stretch: float = 1.0) -> np.ndarray:
        """`n` well-spread starts, denser towards the edge of the set as least squares wants them, (n, d).

        With `stretch` above one the outermost of them lie on the edge itself.
        """
        d = len(self.center)
        if self.kind != "ball":
            z = stretch * (2.0 * unit_points(n, (True,) * d, seed=seed, warp=True) - 1.0)
            return self.center + self.scale * np.clip(z, -1.0, 1.0)
        unit = unit_points(n, (True,) * (d + 1), seed=seed, warp=False)
        # sin(pi U^(1/d) / 2): the arcsine density in the radius.
        radius = np.sin(0.5 * np.pi * unit[:, d:] ** (1 / d))
        return self._from_ball(_directions(unit[:, :d]) * np.minimum(stretch * radius, 1.0))

    def held_out(self, *, seed: int) -> np.ndarray:
        """Starts to judge a law by, (P, d): the corners of a box, at most 32, or points of a ball's rim, and others."""
        d = len(self.center)
        if not self.dimension:
            return self.center[None]
        if self.kind == "box":
            signs = np.array(list(product((-1.0, 1.0), repeat=min(d, _CORNERS))))
            more = np.random.default_rng(seed).choice((-1.0, 1.0), (len(signs), d - signs.shape[1]))
            rim = self.center + self.scale * np.hstack([signs, more])
        else:
            others = _directions(unit_points(2 ** min(d + 1, _CORNERS), (True,) * d, seed=seed, warp=False))
            rim = self._from_ball(np.concatenate([np.eye(d), -np.eye(d), others]))
        inside = self.spread(16 * (1 + d), seed=seed)
        middle = self.center + 0.2 * (inside[: 4 * (1 + d)] - self.center)  # often near rest, where costs are small
        return np.concatenate([rim, inside, middle])

    def __str__(self) -> str:
        center = [float(f"{value:.12g}") for value in self.lift(self.center)]
        if self.kind == "point":
            return f"the initial state {center}"
        if self.kind == "ball":
            return f"the ball of radius {self.radius:.12g} around {center}"
        sides = zip(self.states, self.center - self.scale, self.center + self.scale, strict=False)
        return "the box " + ", ".join(f"{low:.12g} <= {name} <= {high:.12g}" for name, low, high in sides)

    def _from_ball(self, unit: np.ndarray) -> np.ndarray:
        """Starts from points of the unit ball of R^d."""
        if not self.on_simplex:
            return self.center + self.radius * unit
        return self.center + self.radius * (unit @ plane_basis(len(self.center) + 1).T)[:, :-1]


def _directions(unit: np.ndarray) -> np.ndarray:
    """Unit vectors (n, d) from points of the unit cube."""
    normal = ndtri(unit)
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)


def plane_basis(n: int) -> np.ndarray:
    """An orthonormal basis of {x in R^n : sum x = 0}, (n, n - 1)."""
    return np.linalg.qr(np.eye(n)[:, :-1] - 1.0 / n)[0]


def make_starts(initial: Initial, states: tuple[str, ...], on_simplex: bool, group: tuple[Symmetry, ...]) -> Starts:
    """`initial` as a set of starts, refused unless it fits the states and, if they are on the simplex, lies on it."""
    n, d = len(states), len(states) - on_simplex
    if isinstance(initial, Ball):
        center = as_coordinates("initial", initial.center, states, on_simplex)[0]
        radius = float(initial.radius)
        # On the simplex a coordinate's largest offset is |Q' e_i| radius = sqrt(1 - 1/n) radius.
        reach = radius * (np.sqrt(1 - 1 / n) if on_simplex else 1.0)
        _check_inside_simplex(center, reach, on_simplex)
        return Starts("ball", center, np.full(d, reach), radius, on_simplex, states, group)
    if isinstance(initial, Box):
        bounds = _box_bounds(initial, states, d)
        if on_simplex and (bounds.min() < 0 or bounds[:, 1].sum() > 1):
            raise InputError(f"`initial` must be a box inside the simplex; got {initial!r}.")
        return Starts("box", bounds.mean(axis=1), np.diff(bounds, axis=1)[:, 0] / 2, 0.0, on_simplex, states, group)
    if isinstance(initial, AbstractDomain):
        raise InputError(f"`initial` must be a state, an flm.Ball or an flm.Box; got {initial!r}.")
    center = as_coordinates("initial", initial, states, on_simplex)
    if len(center) != 1:
        raise InputError(f"`initial` must be one state, an flm.Ball or an flm.Box; got {len(center)} states.")
    _check_inside_simplex(center[0], 0.0, on_simplex)
    return Starts("point", center[0], np.zeros(d), 0.0, on_simplex, states, group)


def as_coordinates(role: str, x0: npt.ArrayLike, states: tuple[str, ...], on_simplex: bool) -> np.ndarray:
    """Independent coordinates (P, d) of one state (n,) or several (P, n); on the simplex the last may be left out."""
    n = len(states)
    try:
        array = np.atleast_2d(np.asarray(x0, float))
    except (TypeError, ValueError):
        raise InputError(f"`{role}` must be numbers, one for each state {', '.join(states)}; got {x0!r}.") from None
    allowed = (n, n - 1) if on_simplex else (n,)
    if array.ndim != 2 or array.shape[1] not in allowed:
        raise InputError(
            f"`{role}` must have one number for each state {', '.join(states)}, shape ({n},) or (P, {n}); "
            f"got shape {np.shape(x0)}."
        )
    if not np.isfinite(array).all():
        raise InputError(f"`{role}` must be finite; got {array[~np.isfinite(array).all(axis=1)][0].tolist()}.")
    if on_simplex and array.shape[1] == n:
        total = array.sum(axis=1)
        worst = int(np.argmax(np.abs(total - 1)))
        if abs(total[worst] - 1) > 1e-9:
            raise InputError(f"`{role}` must sum to one on the simplex; got {array[worst].tolist()}.")
        array = array[:, :-1]
    return array


def _box_bounds(initial: Box, states: tuple[str, ...], d: int) -> np.ndarray:
    needed = states[:d]
    for axis in [a for a in (*initial.axes, *needed) if (a in initial.axes) != (a in needed)]:
        hint = " On the simplex the last state's start is implied." if axis in states else did_you_mean(axis, needed)
        got = f"no interval for {axis!r}." if axis in needed else f"the axis {axis!r}.{hint}"
        raise InputError(f"`initial` must be a box over {', '.join(needed)}; got {got}")
    return np.asarray(initial.bounds, float)[[initial.axes.index(name) for name in needed]]


def _check_inside_simplex(center: np.ndarray, reach: float, on_simplex: bool) -> None:
    if on_simplex and min(center.min(), 1 - center.sum()) < reach - 1e-12:
        state = [float(f"{value:.12g}") for value in (*center, 1 - center.sum())]
        reaches = f", from which it reaches {reach:.3g} in each state" if reach else ""
        raise InputError(f"`initial` must be inside the simplex; got the center {state}{reaches}.")


def make_group(symmetries: Symmetries, states: tuple[str, ...], controls: tuple[str, ...]) -> tuple[Symmetry, ...]:
    """The group generated by `symmetries`, the identity first; see `OptimalControl` for how they are written."""
    symmetries = (symmetries,) if isinstance(symmetries, str) else tuple(symmetries)
    generators = [_generator(entry, states, controls) for entry in symmetries]
    group = [Symmetry(np.eye(len(states)), np.eye(len(controls)))]
    for old in group:  # the list grows on the way
        for new in generators:
            product = Symmetry(new.states @ old.states, new.controls @ old.controls)
            same = lambda g, p=product: np.array_equal(p.states, g.states) and np.array_equal(p.controls, g.controls)
            if not any(map(same, group)):
                group.append(product)
        if len(group) > 5000:
            raise InputError(f"`symmetries` must generate at most 5000 images; got more from {symmetries!r}.")
    return tuple(group)


def _generator(entry: Generator, states: tuple[str, ...], controls: tuple[str, ...]) -> Symmetry:
    keep = np.eye(len(controls))
    if isinstance(entry, str):
        if entry != "cyclic":
            raise InputError(
                f"`symmetries` must be 'cyclic' or arrangements of the names {', '.join(states)}; got {entry!r}."
                + did_you_mean(entry, ("cyclic",))
            )
        return Symmetry(np.roll(np.eye(len(states)), 1, axis=1), keep)
    if len(entry) == 2 and not any(isinstance(part, str) for part in entry):
        return Symmetry(_signed_permutation(entry[0], states), _signed_permutation(entry[1], controls))
    return Symmetry(_signed_permutation([str(name) for name in entry], states), keep)


def _signed_permutation(arrangement: Arrangement, names: tuple[str, ...]) -> np.ndarray:
    """The matrix with (Px)_i = ± x_j where entry i is "x_j" or "-x_j"."""
    matrix = np.zeros((len(names), len(names)))
    plain = [name.removeprefix("-") for name in arrangement]
    if sorted(plain) != sorted(names):
        raise InputError(
            f"`symmetries` must be arrangements of all the names {', '.join(names)}; got {tuple(arrangement)!r}."
        )
    for row, (name, bare) in enumerate(zip(arrangement, plain, strict=True)):
        matrix[row, names.index(bare)] = -1.0 if name.startswith("-") else 1.0
    return matrix


def check_invariances(problem: OptimalControl) -> None:
    """Refuse dynamics that leave the simplex, and claimed symmetries that the problem does not have, at a few random points."""
    group = problem.starts.group
    if not problem.on_simplex and len(group) == 1:
        return
    rng, n = np.random.default_rng(0), len(problem.states)
    x = rng.dirichlet(np.ones(n), 16) if problem.on_simplex else problem.starts.center + rng.standard_normal((16, n))
    u = np.clip(rng.standard_normal((16, len(problem.controls))), problem.lower, problem.upper)
    describe = partial(_invariants(problem.equations), problem.numbers[None])
    rates, same = describe(x, u)
    total = rates.sum(axis=1)
    if problem.on_simplex and np.abs(total).max() > 1e-9 * (1 + np.abs(rates).max()):
        raise InputError(
            "`dynamics` must keep the states on the simplex, their derivatives summing to zero; "
            f"got a sum of {total[np.abs(total).argmax()]:.3g}."
        )
    for member in group[1:]:
        moved, invariant = describe(x @ member.states.T, u @ member.controls.T)
        if _differ(moved, rates @ member.states.T):
            broken = "the dynamics do not have"
        elif _differ(invariant, same):
            broken = "the cost does not have"
        elif not _keeps_bounds(member, problem.lower, problem.upper):
            broken = "the bounds do not have"
        else:
            continue
        raise InputError(f"`symmetries` must leave the problem unchanged; got {problem.symmetries!r}, which {broken}.")


@lru_cache(maxsize=64)
def _invariants(equations: Equations) -> Callable[..., list[np.ndarray]]:
    """The dynamics (P, n) and everything that a symmetry must not change (P, q), of numbers (1, r), states and controls."""

    def at(numbers, x, u):
        w = jnp.append(u, jnp.log(numbers[-1]))
        known = equations.known(0.37, x[: equations.num_coordinates], w, numbers)
        costs = [equations.running_cost, *([equations.terminal_cost] if equations.terminal_cost else [])]
        same = [value for cost in costs for value in values_of(cost, known)]
        # Constraints may be exchanged among themselves.
        same += [jnp.sum(stack(values_of(named, known)) ** 2) for named in (*equations.path, *equations.terminal)]
        return stack(values_of(equations.dynamics, known)), stack(same)

    counts = len(equations.parameters) + 1, len(equations.states), len(equations.controls)
    return at_rows(at, *((count,) for count in counts), common=1)


def _differ(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(found - expected).max() > 1e-9 * (1 + np.abs(expected).max()))


def _keeps_bounds(member: Symmetry, lower: np.ndarray, upper: np.ndarray) -> bool:
    """Whether a symmetry maps the box of controls to itself."""
    # Row i of Q is ± e_j: control i of the image is ± control j.
    order, sign = np.abs(member.controls).argmax(axis=1), member.controls.sum(axis=1)
    turned = [np.where(sign > 0, a[order], -b[order]) for a, b in ((lower, upper), (upper, lower))]
    return np.array_equal(turned, [lower, upper])
