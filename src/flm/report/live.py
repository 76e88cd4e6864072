"""A live figure: the answer itself as numbers that a page evaluates, instead of a picture of it.

The page's script (`pages/templates/live.js`) knows two forms. Pieces are boxes, each with a tensor of coefficients for one
family of functions along each axis: Legendre functions, waves of given rates and phases, or values on even nodes. Sub-networks
are sums of products of sines and cosines. Every model of ours is one of them, or is sampled where it would be too large.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from contourpy import contour_generator

from flm.control.solution import ControlSolution
from flm.domains import AbstractDomain, Box, Product
from flm.models import FLM, AbstractModel
from flm.models.family import FamilyFLM, chebyshev
from flm.models.march import MarchedFLM
from flm.models.pieces import PiecewiseFLM
from flm.results import AbstractResult, Solution
from flm.series import PhaseSeries, legendre

MOST_BYTES = 3_000_000  # of the numbers of one figure; beyond it the answer is sampled
MOST_TERMS = 4_000  # frequency vectors that a browser sums in good time
SAMPLES = 60_000  # values in all where the answer is sampled
NUM_TIMES = 201  # of a table of a control law
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
    """A file of the pages' folder of templates."""
    return (resources.files("flm.report.pages") / "templates" / name).read_text(encoding="utf-8")


def live(solution: AbstractResult, units: Mapping[str, str] = MappingProxyType({})) -> Live:
    """An answer as a live figure, `units` of its axes by name; of a control law, states and controls from the center."""
    if isinstance(solution, ControlSolution):
        names, table = control_table(solution)
        return curves(table[:, 0], dict(zip(names[1:], table.T[1:], strict=True)), "t", "")
    assert isinstance(solution, Solution)
    named = _formula(solution.model)
    sampled = named is None or len(json.dumps(named)) > MOST_BYTES
    named = _samples(solution) if named is None or sampled else named
    named |= {
        "axes": solution.axes,
        "unknowns": solution.unknowns,
        "bounds": np.asarray(solution.bounds).tolist(),
        "units": [units.get(axis, "") for axis in solution.axes],
        "ranges": _ranges(solution),
        "until": solution.trusted_until,
        "plain": sampled,
        "together": list(range(len(solution.unknowns))) if len(solution.axes) == 1 else [],
    }
    outline = _outline(solution.domain)
    named |= {"outline": outline} if outline else {}
    caption = "The formula itself is in this page: what it shows is evaluated, not read off a picture."
    note = "This figure has samples of the answer: values between them are interpolated."
    return Live(json.dumps(named), note if sampled else caption, sampled)


def curves(x: np.ndarray, named: Mapping[str, np.ndarray], label: str, caption: str) -> Live:
    """Curves by name over even points of one variable, drawn together."""
    values = np.column_stack(list(named.values()))
    box = [[float(x[0]), float(x[-1])]]
    piece = {"box": box, "axes": [{"family": "samples", "count": len(x)}], "coefficients": _packed(values)}
    data = {"axes": [label], "unknowns": list(named), "bounds": box, "pieces": [piece], "plain": True}
    ranges = [[float(np.nanmin(v)), float(np.nanmax(v))] for v in values.T]
    data |= {
        "ranges": [[a, b] if b > a else [a - 0.5, b + 0.5] for a, b in ranges],
        "together": list(range(len(named))),
    }
    return Live(json.dumps(data), caption, sampled=True)


def control_table(solution: ControlSolution) -> tuple[list[str], np.ndarray]:
    """Names and columns of time, states and controls from the center of the initial states."""
    start = solution.starts.lift(solution.starts.center)
    t = np.linspace(0.0, solution.horizon(start), NUM_TIMES)
    columns = [t, solution.trajectory(t, start), solution.control(t, start).reshape(NUM_TIMES, -1)]
    return ["t", *solution.starts.states, *solution.controls], np.column_stack(columns)


def _packed(values: npt.ArrayLike) -> str:
    """Numbers as text: float64, little endian, base64."""
    return base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()


def _formula(model: AbstractModel) -> dict[str, object] | None:
    """The model's own numbers; None where a browser cannot evaluate them."""
    if isinstance(model, FamilyFLM):
        members = [_formula(member) for member in model.members]
        inverse = [_packed(np.linalg.inv(legendre.values(chebyshev(n), n))) for n in model.counts]
        return None if None in members else {"members": members, "counts": model.counts, "inverse": inverse}
    if isinstance(model, PiecewiseFLM):
        return {"pieces": _pieces(model)}
    if isinstance(model, MarchedFLM):
        size = 8 * sum(c.size for c in model.coefficients) * 4 / 3
        return _windows(model) if size <= MOST_BYTES else None
    if (
        isinstance(model, FLM)
        and isinstance(series := model.series, PhaseSeries)
        and len(model.frequencies) <= MOST_TERMS
    ):
        waves = series.separable()
        return {"subnets": {"frequencies": _packed(waves.frequencies), "coefficients": _packed(waves.coefficients)}}
    return None


def _pieces(model: PiecewiseFLM) -> list[dict[str, object]]:
    lower, upper, blocks = (np.asarray(a) for a in (model.lower, model.upper, model.coefficients))
    axes = [{"family": "legendre", "count": n} for n in blocks.shape[1:-1]]
    return [
        {"box": np.stack([a, b], axis=1).tolist(), "axes": axes, "coefficients": _packed(block)}
        for a, b, block in zip(lower, upper, blocks, strict=True)
    ]


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
            axes.append({"family": "waves", "low": low, "rates": _packed(rates), "phases": _packed(phases)})
        axes.insert(model.time, {"family": "legendre", "count": len(block)})
        ordered = np.moveaxis(block, (0, 1), (model.time, -1))
        pieces.append({"box": box.bounds.tolist(), "axes": axes, "coefficients": _packed(ordered)})
    if not np.any(model.lift):
        return {"pieces": pieces}
    lift = np.insert(np.asarray(model.lift), model.time, 0.0, axis=1)
    return {"pieces": pieces, "lift": _packed(lift)}


def _samples(solution: Solution) -> dict[str, object]:
    """Values on an even grid; those outside of a region are left out by its outline."""
    m = len(solution.axes)
    count = max(3, int((SAMPLES / len(solution.unknowns)) ** (1 / m)))
    _, values = solution.on_grid(count)
    axes = [{"family": "samples", "count": count}] * m
    block = _packed(np.nan_to_num(values).reshape(*(count,) * m, -1))
    return {"pieces": [{"box": np.asarray(solution.reach).tolist(), "axes": axes, "coefficients": block}]}


def _ranges(solution: Solution) -> list[list[float]]:
    """The smallest and largest value of each unknown on a grid, a little wider where it is constant."""
    count = max(3, int(20_000 ** (1 / len(solution.axes))))
    _, values = solution.on_grid(min(count, 401))
    flat = values.reshape(-1, len(solution.unknowns))
    pairs = [(float(np.nanmin(column)), float(np.nanmax(column))) for column in flat.T]
    return [[low, high] if high > low else [low - 0.5, high + 0.5] for low, high in pairs]


def _outline(domain: AbstractDomain | None) -> dict[str, object] | None:
    """Closed lines around a planar region, traced on a grid, and the names of its two axes."""
    region = domain.left if isinstance(domain, Product) else domain
    if region is None or isinstance(region, Box) or len(region.axes) != 2:
        return None
    width = np.ptp(region.bounds, axis=1)
    x, y = (
        np.linspace(low - 0.02 * w, high + 0.02 * w, OUTLINE)
        for (low, high), w in zip(region.bounds, width, strict=True)
    )
    points = np.stack([g.ravel() for g in np.meshgrid(x, y)], axis=1)
    lines = contour_generator(x, y, region.level(points).reshape(OUTLINE, OUTLINE)).lines(0.0)
    return {"axes": region.axes, "loops": [np.asarray(line, float).round(6).tolist() for line in lines]}
