"""A live figure: the answer itself, as numbers that a page evaluates, instead of a picture.

The page's script (`pages/templates/live.js`) knows two forms. Pieces are boxes, each with a tensor of coefficients for one
family of functions along each axis: Legendre functions, waves of given rates and phases, or values on even nodes. Sub-networks
are sums of products of sines and cosines. Every model of ours has one of these forms, or is sampled where it would be too large.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from contourpy import contour_generator

from flm.conservation.moving import MovingFLM
from flm.control.equations import values_of
from flm.control.problem import OptimalControl
from flm.control.solution import ControlSolution
from flm.domains import AbstractDomain, Box, Product
from flm.models import FLM, AbstractModel
from flm.models.family import FamilyFLM, chebyshev
from flm.models.march import MarchedFLM
from flm.models.pieces import PiecewiseFLM
from flm.numerics.elementwise import as_numpy
from flm.results import AbstractResult, Solution
from flm.series import PhaseSeries, SeparableSeries, legendre
from flm.wording import InputError, did_you_mean

MOST_BYTES = 3_000_000  # in one figure; a larger answer is sampled
MOST_TERMS = 4_000  # frequency vectors that a browser sums in good time
MOST_AXES = 8  # of a live figure: three samples along each
SAMPLES = 60_000  # values in all where the answer is sampled
NUM_TIMES = 201  # of a table of a control law
MOST_DOTS = 3_000  # readings that a figure shows
LAW = "The law itself is in this page: its series is evaluated and the dynamics are integrated"
UNKNOWN = ("erf", "erfc", "real", "imag", "conj", "complex")  # operations that NumPy has and a page does not
OUTLINE = 400  # points along each axis where a region's outline is traced


@dataclass(frozen=True)
class Live:
    """An answer that a page or a notebook evaluates as its reader moves sliders.

    Example:
        >>> import flm
        >>> flm.solve(flm.problems.heat(), 1e-4).live().sampled
        False
    """

    data: str
    caption: str = ""
    sampled: bool = False
    kind: ClassVar[str] = "live"

    def _repr_html_(self) -> str:
        figure = (
            f'<figure class="answer" data-values="{html.escape(self.data)}" hidden><div class="controls"></div>'
            '<canvas tabindex="0" role="img" aria-label="The answer"></canvas><output></output></figure>'
        )
        page = f"<!doctype html><style>{template('page.css')}</style>{figure}<script>{template('live.js')}</script>"
        return f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: 30rem; border: 0"></iframe>'


def template(name: str) -> str:
    """The text of a file in the pages' folder of templates."""
    return (resources.files("flm.report.pages") / "templates" / name).read_text(encoding="utf-8")


def live(
    solution: AbstractResult,
    units: Mapping[str, str] = MappingProxyType({}),
    readings: Mapping[str, object] | None = None,
) -> Live:
    """An answer as a live figure; `units` are those of its axes by name, `readings` are packed by `dots`."""
    if isinstance(solution, ControlSolution):
        states = solution.starts.states
        _check_units(units, ("t", *states, *(f"{state}_0" for state in states), *solution.controls))
        return _live_law(solution, units)
    assert isinstance(solution, Solution)
    _check_units(units, (*solution.axes, *solution.unknowns))
    formula = _formula(solution.model)
    more = {"readings": readings, "until": solution.trusted_until, "outline": _outline(solution.domain)}
    more["units"] = [units.get(axis, "") for axis in solution.axes]
    if isinstance(solution.model, FamilyFLM):
        more["parameters"] = len(solution.model.counts)
        if np.isfinite(solution.error_estimate):
            gap = float(solution.history["estimate"][-1]) if solution.history.get("estimate") else 0.0
            more |= {"estimate": solution.error_estimate, "single": max(solution.error_estimate - 2 * gap, 0.0)}
    m, K = len(solution.axes), len(solution.unknowns)
    named = (solution.axes, solution.unknowns, solution.bounds)
    if formula is None or len(json.dumps(formula)) > MOST_BYTES:
        count = max(3, int((SAMPLES / K) ** (1 / m)))
        values = solution.on_grid(count)[1].reshape(*(count,) * m, K)
        note = "This figure has samples of the answer: values between them are interpolated."
        return samples(*named, values, note, more, box=solution.reach)
    values = None  # of waves on a box: the page samples them faster
    if "subnets" not in formula or not isinstance(solution.domain, Box):
        count = min(max(3, int(20_000 ** (1 / m))), 401)
        values = solution.on_grid(count)[1].reshape(-1, K)
    caption = "The formula itself is in this page: what it shows is evaluated, not read off a picture."
    caption += " Circles are readings, in the color of their value; curves have them as dots." if readings else ""
    return _assembled(*named, values, caption, formula | more)


def _check_units(units: Mapping[str, str], known: Sequence[str]) -> None:
    for name in units:
        if name not in known:
            near = did_you_mean(name, known)
            raise InputError(f"`units` must be of names among {', '.join(known)}; got {name!r}.{near}")


def _assembled(
    axes: Sequence[str],
    unknowns: Sequence[str],
    bounds: npt.ArrayLike,
    values: np.ndarray | None,
    caption: str,
    more: Mapping[str, object],
) -> Live:
    """A live figure from its parts, as the page's script reads them; those of `more` that are None are left out.

    Colors and heights range over the `values`, whose last axis is that of the unknowns, else over what the page samples.
    """
    data = {"axes": axes, "unknowns": unknowns, "bounds": np.asarray(bounds).tolist(), "plain": False}
    if values is not None:
        columns = values.reshape(-1, len(unknowns)).T
        pairs = [(float(np.nanmin(column)), float(np.nanmax(column))) for column in columns]
        data["ranges"] = [[low, high] if high > low else [low - 0.5, high + 0.5] for low, high in pairs]
    parameters = more.get("parameters")
    is_curve = len(axes) - (parameters if isinstance(parameters, int) else 0) == 1
    data["together"] = list(range(len(unknowns))) if is_curve or "law" in more else []
    data |= {key: value for key, value in more.items() if value is not None}
    return Live(json.dumps(data), caption, sampled=bool(data["plain"]) and "law" not in data)


def samples(
    axes: Sequence[str],
    unknowns: Sequence[str],
    bounds: npt.ArrayLike,
    values: np.ndarray,
    caption: str,
    more: Mapping[str, object] = MappingProxyType({}),
    *,
    box: npt.ArrayLike | None = None,
) -> Live:
    """A live figure of values (n_1, ..., n_m, K) on an even grid over a box; without a box, over `bounds`."""
    filled = values if values.ndim == 2 else np.nan_to_num(values)  # curves have gaps; fields are cut by their outline
    families = [{"family": "samples", "count": n} for n in values.shape[:-1]]
    more = {"pieces": [_piece(bounds if box is None else box, families, filled)], "plain": True, **more}
    return _assembled(axes, unknowns, bounds, values, caption, more)


def dots(points: np.ndarray, values: np.ndarray, unknown: int = 0) -> dict[str, object]:
    """Readings (n, m) and (n,) of one unknown, packed for a live figure; many are thinned evenly."""
    kept = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_DOTS)).astype(int))
    return {"points": packed(points[kept]), "values": packed(values[kept]), "unknown": unknown}


def curves(
    x: np.ndarray,
    named: Mapping[str, np.ndarray],
    label: str,
    caption: str,
    *,
    unit: str = "",
    band: tuple[np.ndarray, np.ndarray] | None = None,
    readings: Mapping[str, object] | None = None,
) -> Live:
    """Curves by name over even points of one variable in its unit, in one live figure; `band` has both ends of the first one's."""
    named = dict(named) | ({} if band is None else dict(zip(("from", "to"), band, strict=True)))
    more = {"bands": [] if band is None else [(len(named) - 2, len(named) - 1)], "readings": readings, "units": [unit]}
    return samples([label], list(named), [[x[0], x[-1]]], np.column_stack(list(named.values())), caption, more)


def _live_law(solution: ControlSolution, units: Mapping[str, str]) -> Live:
    """A control law as a live figure: the page evaluates its series and integrates the dynamics from any start.

    Where the problem is not known, or a page cannot repeat its functions, states are left out or sampled.
    """
    law, starts, problem = solution.law, solution.starts, solution.problem
    names, along, end = (*starts.states, *solution.controls), None, None
    if problem is not None:
        along, end = _dynamics(problem)
        if along is None or end is None:
            table = from_the_center(solution)
            note = "States and controls from the center; pages do not know all functions of these dynamics."
            return curves(table.pop("t").to_numpy(), {name: table[name].to_numpy() for name in names}, "t", note)
    varied = starts.states[: starts.dimension]
    spread = starts.lift(np.concatenate([starts.center[None], starts.spread(8 * bool(varied), seed=0)]))
    if problem is None:
        names = solution.controls
        values = solution.control(np.linspace(0, float(np.min(solution.horizon(spread))), 50), spread)
    else:
        values = solution.to_pandas(spread)[list(names)].to_numpy()
    finite = lambda ends: [float(v) if np.isfinite(v) else None for v in ends]
    kept = {"lower": finite(law.lower), "upper": finite(law.upper), "along": along, "end": end}
    kept["horizon"] = law.horizon if varied else float(solution.horizon())
    kept |= {key: getattr(law, key).tolist() for key in ("offset", "center", "scale")}
    kept |= {"frequencies": packed(law.frequencies), "coefficients": packed(law.coefficients)}
    durations = law.duration_frequencies, law.duration_coefficients
    if varied and durations[0] is not None and durations[1] is not None:
        kept |= {"durationFrequencies": packed(durations[0]), "durationCoefficients": packed(durations[1])}
    center, simplex = starts.center.tolist(), starts.on_simplex
    kept["starts"] = {"kind": starts.kind, "radius": starts.radius, "center": center, "simplex": simplex}
    ends = np.stack([starts.center - starts.scale, starts.center + starts.scale], axis=1)[: len(varied)]
    bounds = [[0.0, float(np.max(solution.horizon(spread)))], *ends.tolist()]
    axes = ("t", *(f"{name}_0" for name in varied))
    more = {"law": kept, "plain": True, "units": [units.get(axis, "") for axis in axes]}
    caption = f"{LAW} as you move the initial state." if varied else f"{LAW}."
    return _assembled(axes, names, bounds, values, caption, more)


def _dynamics(problem: OptimalControl) -> list[dict[str, object] | None]:
    """The rates of the states with the running cost, of (t, states, controls), and the final cost, of (t, states)."""
    equations = problem.equations
    fixed = dict(zip(equations.parameters, problem.numbers.tolist(), strict=False))
    order = ("t", *equations.states, *equations.controls)
    values = lambda part, z: values_of(part, fixed | dict(zip(order, z, strict=False)))
    along = lambda *z: [*values(equations.dynamics, z), *values(equations.running_cost, z)]
    final = equations.terminal_cost
    end = lambda *z: [0.0 * z[0]] if final is None else values(final, z)
    return [tape(along, len(order)), tape(end, 1 + len(equations.states))]


def tape(function: Callable[..., Sequence[object]], count: int) -> dict[str, object] | None:
    """A function of `count` numbers as operations that a page repeats; None where a page does not know all of them.

    An operation is its name with the places of its arguments: the inputs come first, then the operations themselves.
    """
    program = as_numpy(function, *((),) * count)
    if program is None:
        return None
    places, operations = list(range(count)), []

    def add(name: str, *arguments: float) -> int:
        operations.append([name, *arguments])
        return count + len(operations) - 1

    for (name, *settings), run, arguments in program.steps:
        at = [places[i] for i in arguments]
        if name in UNKNOWN:
            return None
        if name == "constant":
            value = run()
            if np.iscomplexobj(value):
                return None
            places.append(add("number", float(value)))
        elif name == "convert_element_type":
            if "int" in str(settings[0]):  # it cuts
                return None
            places += at
        elif name == "integer_pow":
            places.append(add("pow", *at, add("number", float(str(settings[0])))))
        else:
            places.append(add(str(name), *at))
    return {"inputs": count, "operations": operations, "outputs": [places[i] for i in program.outputs]}


def from_the_center(solution: ControlSolution) -> pd.DataFrame:
    """Time, states and controls from the center of the initial states."""
    return solution.to_pandas(solution.starts.lift(solution.starts.center), NUM_TIMES).drop(columns="start")


def packed(values: npt.ArrayLike) -> str:
    """Numbers as text: float64, little endian, base64."""
    return base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()


def _formula(model: AbstractModel) -> dict[str, object] | None:
    """The model's own numbers; None where a browser cannot evaluate them."""
    if isinstance(model, FamilyFLM):
        members = [_formula(member) for member in model.members]
        inverse = lambda n: packed(np.linalg.inv(legendre.values(chebyshev(n), n)))
        named = {"members": members, "counts": model.counts, "inverse": [inverse(n) for n in model.counts]}
        if len(model.counts) == 1:
            named["coarse"] = inverse((model.counts[0] + 1) // 2)
        return None if None in members else named
    if isinstance(model, PiecewiseFLM):
        lower, upper, blocks = (np.asarray(a) for a in (model.lower, model.upper, model.coefficients))
        axes = [{"family": "legendre", "count": n} for n in blocks.shape[1:-1]]
        boxes = np.stack([lower, upper], axis=-1)
        return {"pieces": [_piece(box, axes, block) for box, block in zip(boxes, blocks, strict=True)]}
    if isinstance(model, MarchedFLM):
        size = 8 * sum(c.size for c in model.coefficients) * 4 / 3
        return _windows(model) if size <= MOST_BYTES else None
    if (waves := _waves(model)) is not None:
        return {"subnets": {"frequencies": packed(waves.frequencies), "coefficients": packed(waves.coefficients)}}
    return None


def _waves(model: AbstractModel) -> SeparableSeries | None:
    """The model as a sum of products of sines and cosines; None where it is none, or has too many."""
    series = model.series if isinstance(model, FLM | MovingFLM) else None
    return series.separable() if isinstance(series, PhaseSeries) and len(series.frequencies) <= MOST_TERMS else None


def _piece(box: npt.ArrayLike, axes: Sequence[object], block: npt.ArrayLike) -> dict[str, object]:
    """A box, the family of functions along each axis, and the tensor of their coefficients."""
    return {"box": np.asarray(box, float).tolist(), "axes": axes, "coefficients": packed(block)}


def _windows(model: MarchedFLM) -> dict[str, object]:
    pieces = []
    for box, block in zip(model.boxes, model.coefficients, strict=True):
        block, axes = np.asarray(block), []
        for kind, (low, high), n in zip(model.kinds, np.asarray(model.bounds), block.shape[2:], strict=True):
            index = np.arange(n)
            k = (index + 1) // 2 if kind == "fourier" else index + (kind == "sine")
            is_sine = (index % 2 == 0) & (index > 0) if kind == "fourier" else np.full(n, kind == "sine")
            rates = (2 if kind == "fourier" else 1) * np.pi / (high - low) * k
            phases = np.where(is_sine, -np.pi / 2, 0.0)
            axes.append({"family": "waves", "low": low, "rates": packed(rates), "phases": packed(phases)})
        axes.insert(model.time, {"family": "legendre", "count": len(block)})
        pieces.append(_piece(box.bounds, axes, np.moveaxis(block, (0, 1), (model.time, -1))))
    if not np.any(model.lift):
        return {"pieces": pieces}
    # c_0 + c_1 ξ + c_2 ξ² along each axis of space, in orthonormal Legendre functions of 2 ξ - 1.
    to_legendre = np.array([[1, 1 / 2, 1 / 3], [0, 1 / 2, 1 / 2], [0, 0, 1 / 6]]) / np.sqrt([[1], [3], [5]])
    m, lift = len(model.kinds) + 1, np.insert(np.asarray(model.lift), model.time, 0.0, axis=1)
    block = np.zeros((*(3,) * m, len(lift)))
    for j in range(m):
        np.moveaxis(block, j, 0)[(slice(None), *(0,) * (m - 1))] += to_legendre @ lift[:, j].T
    corners = np.stack([box.bounds for box in model.boxes])
    whole = np.stack([corners[:, :, 0].min(axis=0), corners[:, :, 1].max(axis=0)], axis=1)
    return {"pieces": pieces, "lift": _piece(whole, [{"family": "legendre", "count": 3}] * m, block)}


def _outline(domain: AbstractDomain | None) -> dict[str, object] | None:
    """Closed lines around a planar region, traced on a grid, and the names of its two axes."""
    region = domain.left if isinstance(domain, Product) else domain
    if region is None or isinstance(region, Box) or len(region.axes) != 2:
        return None
    margin = 0.02 * np.ptp(region.bounds, axis=1)
    x, y = (np.linspace(low, high, OUTLINE) for low, high in region.bounds + np.multiply.outer(margin, [-1.0, 1.0]))
    points = np.stack([g.ravel() for g in np.meshgrid(x, y)], axis=1)
    lines = contour_generator(x, y, region.level(points).reshape(OUTLINE, OUTLINE)).lines(0.0)
    return {"axes": region.axes, "loops": [np.asarray(line, float).round(6).tolist() for line in lines]}
