"""What a study runs, read from TOML: problems × models × sizes × optimizers × seeds. See the example in docs/studies.md.

A top-level `runner = "module:function"` replaces training altogether: it is called with a run's definition and returns
its scores; `[training]` may then hold any keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flm.language.outline import COUNT, POSITIVE, TEXT, Outline, Place, Rule, read_file
from flm.study.selection import METRICS
from flm.study.store import Record
from flm.wording import InputError, did_you_mean

RUNNER = "flm.study.runs:train"
KEYS = ("title", "runner", "problems", "seeds", "training", "final", "selection", "models", "optimizers")
LEG, POINT_SETS = ("epochs", "loss_tol"), ("equation", "initial", "boundary")
NAMES = Rule("a list of different names", lambda v: _different(v, lambda name: isinstance(name, str)))
SIZES = Rule("a list of different integers of at least 1", lambda v: _different(v, COUNT.holds))
SEEDS = Rule(
    "a number of at least 1 or a list of different integers of at least 0",
    lambda v: COUNT.holds(v) or _different(v, lambda seed: type(seed) is int and seed >= 0),
)
LOSS = Rule("a number of at least 0", lambda v: type(v) in (int, float) and v >= 0)
LEVEL = Rule("a number between 0 and 1", lambda v: type(v) is float and 0 < v < 1)
# Optimizers by name with the settings that each takes; the first is required (flm.study.runs builds them).
OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "adam": ("rate", "b1", "b2"),
    "adamw": ("rate", "b1", "b2", "weight_decay"),
    "nadam": ("rate", "b1", "b2"),
    "rmsprop": ("rate", "decay"),
    "sgd": ("rate", "momentum"),
    "lbfgs": ("memory",),
}


class SpecError(InputError):
    """A mistake in a specification, with its file, table and key."""


@dataclass(frozen=True)
class Configuration:
    """A model's size and the optimizer that trains it; selection chooses among configurations."""

    problem: str
    model: str
    size: int
    optimizer: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The name within the group: "25, adam 0.005"."""
        settings = [f"{v:g}" if k == "rate" else f"{k}={v:g}" for k, v in self.optimizer.items() if k != "name"]
        return f"{self.size}, " + " ".join([str(self.optimizer["name"]), *settings])


@dataclass(frozen=True)
class Group:
    """The configurations of one model on one problem: one selection, one table of the paper's appendix."""

    problem: str
    model: str
    configurations: tuple[Configuration, ...]


@dataclass(frozen=True)
class Spec:
    """A study: everything that defines its runs, and the text that it was read from."""

    path: Path
    text: str
    title: str
    problems: tuple[str, ...]
    models: tuple[tuple[str, tuple[int, ...]], ...]
    optimizers: tuple[Mapping[str, Any], ...]
    seeds: tuple[int, ...]
    training: Mapping[str, Any]
    final: Mapping[str, Any] | None
    metrics: tuple[str, ...]
    alpha: float
    runner: str
    fingerprints: Mapping[str, str]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups, one per problem and model."""
        return tuple(
            Group(p, m, tuple(Configuration(p, m, size, o) for size in sizes for o in self.optimizers))
            for p in self.problems
            for m, sizes in self.models
        )

    def definition(self, configuration: Configuration, seed: int, *, final: bool = False) -> Record:
        """Everything that defines a run, and so its key in the store."""
        c, training = configuration, dict(self.training)
        if self.runner == RUNNER:
            training["legs"] = [[training.pop("epochs"), training.pop("loss_tol")]]
            if final and self.final:
                training["legs"].append([self.final["epochs"], self.final["loss_tol"]])
        found = {"runner": self.runner, "problem": c.problem, "model": c.model, "size": c.size}
        found |= {"optimizer": dict(c.optimizer), "seed": seed, "training": training}
        if c.problem in self.fingerprints:
            found["problem_file"] = self.fingerprints[c.problem]
        return found

    def definitions(self) -> Iterator[Record]:
        """The definitions of all runs of the selection, seeds innermost."""
        every = (c for group in self.groups for c in group.configurations)
        return (self.definition(configuration, seed) for configuration in every for seed in self.seeds)

    @property
    def num_runs(self) -> int:
        """The number of runs of the selection."""
        return sum(len(g.configurations) for g in self.groups) * len(self.seeds)


def read_spec(path: str | Path) -> Spec:
    """Read and check a specification, a TOML file.

    Raises:
        SpecError: a mistake in the file; the message has file, table and key, and suggests a name close to an unknown one.
    """
    file = Path(path)
    return parse_spec(read_file(file, "specification", SpecError), file=file)


def parse_spec(text: str, *, file: Path) -> Spec:
    """The specification in `text`; errors name `file`, and paths of problem files are relative to it."""
    outline = Outline.of(text, Place(file.name, error=SpecError), file.parent)
    outline.keys(outline.tree, KEYS, outline.place)
    runner = outline.take("runner", TEXT, RUNNER)
    known = runner == RUNNER  # a user's own runner may give problems, models and metrics any names
    problems: list[str] = outline.take("problems", NAMES)
    files = {p: outline.folder / p for p in problems if known and p.endswith(".toml")}
    for problem in problems if known else ():
        if problem in files and not files[problem].is_file():
            wanted = "files that exist, relative to the specification, are wanted"
            raise outline.at("", "problems").refuse(f"{wanted}; got {problem!r}")
        if problem not in files and ":" not in problem:
            from flm.problems import catalogue

            makers = catalogue(("pde", "conservation"))
            _one_of(outline.at("", "problems"), problem, makers, ", a file or 'module:function'")
    absolute = {p: str(path.resolve()) for p, path in files.items()}
    seeds = outline.take("seeds", SEEDS)
    final, selection = outline.inner("final", LEG), outline.inner("selection", ("metrics", "alpha"))
    if final is not None and not known:
        raise final.place.refuse("a study with its own runner has no additional epochs: leave this table out")
    metrics = METRICS if selection is None else selection.take("metrics", NAMES, METRICS)
    for metric in metrics if known else ():
        _one_of(outline.at("selection", "metrics"), metric, METRICS)
    return Spec(
        path=file,
        text=text,
        title=outline.take("title", TEXT, file.stem),
        problems=tuple(absolute.get(p, p) for p in problems),
        models=_models(outline, known),
        optimizers=_optimizers(outline),
        seeds=tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        training=_training(outline) if known else dict(outline.table("training")),
        final=None if final is None else _leg(final),
        metrics=tuple(metrics),
        alpha=0.05 if selection is None else selection.take("alpha", LEVEL, 0.05),
        runner=runner,
        fingerprints={absolute[p]: hashlib.sha256(path.read_bytes()).hexdigest() for p, path in files.items()},
    )


def _different(values: object, holds: Callable[[object], bool]) -> bool:
    return isinstance(values, list) and bool(values) and all(map(holds, values)) and len(set(values)) == len(values)


def _one_of(place: Place, name: str, known: Iterable[str], also: str = "") -> None:
    if name not in (known := list(known)):
        raise place.refuse(f"one of {', '.join(known)}{also} is wanted; got {name!r}.{did_you_mean(name, known)}")


def _leg(table: Outline) -> Record:
    return {"epochs": table.take("epochs", COUNT), "loss_tol": float(table.take("loss_tol", LOSS, 0.0))}


def _training(outline: Outline) -> Record:
    table = outline.inner("training", (*LEG, "points"))
    points = None if table is None else table.inner("points", POINT_SETS)
    if table is None or points is None:
        example = "{equation = 1000, initial = 200, boundary = 200}"
        raise outline.at("training").refuse(f"epochs, loss_tol and points = {example} are wanted, and missing")
    return _leg(table) | {"points": {k: points.take(k, COUNT) for k in POINT_SETS if k in points.tree}}


def _models(outline: Outline, known: bool) -> tuple[tuple[str, tuple[int, ...]], ...]:
    from flm.models.classic import NAMED

    found: dict[str, tuple[int, ...]] = {}
    for table in outline.inners("models", ("name", "sizes")):
        name = table.take("name", TEXT)
        if known and ":" not in name:
            _one_of(table.place, name, NAMED, " or 'module:function'")
        if name in found:
            raise table.place.refuse(f"another name than above is wanted; got {name!r} again. Put its sizes together")
        found[name] = tuple(table.take("sizes", SIZES))
    return tuple(found.items())


def _optimizers(outline: Outline) -> tuple[Record, ...]:
    found: list[Record] = []
    for table in outline.inners("optimizers", ()):
        name = table.take("name", TEXT)
        _one_of(table.place, name, OPTIMIZERS)
        table.keys(table.tree, ("name", *OPTIMIZERS[name]), table.place)
        settings = [k for k in OPTIMIZERS[name] if k in table.tree or k == "rate"]
        number = lambda key: int if key == "memory" else float
        optimizer = {"name": name} | {k: number(k)(table.take(k, POSITIVE)) for k in settings}
        if optimizer in found:
            raise table.place.refuse("this optimizer is there already: change a setting, or leave it out")
        found.append(optimizer)
    return tuple(found)


def problem_name(problem: str) -> str:
    """A problem's short name for tables: the stem of a file, else itself."""
    return Path(problem).stem if problem.endswith(".toml") else problem
