"""What a study runs, read from TOML: problems × models × sizes × optimizers × seeds.

    title = "FLM and SIREN on the heat equation"
    problems = ["heat"]            # the catalogue's names, problem files, or "module:function"
    seeds = 10                     # 0, ..., 9; or a list
    [training]
    epochs = 10000
    loss_tol = 1e-4
    points = {equation = 1000, initial = 200, boundary = 200}
    [final]                        # optional: the chosen configuration goes on from its best parameters
    epochs = 30000
    loss_tol = 1e-8
    [selection]                    # optional
    metrics = ["mse", "mae", "max_error", "epochs"]
    alpha = 0.05
    [[models]]
    name = "flm"                   # flm.models.NAMED, or "module:function" of (domain, size, key=...)
    sizes = [4, 16, 25]
    [[optimizers]]
    name = "adam"
    rate = 1e-3

A top-level `runner = "module:function"` replaces training altogether: it is called with a run's definition and returns
its scores; `[training]` may then hold any keys.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from flm.study.selection import METRICS
from flm.wording import InputError, did_you_mean

RUNNER = "flm.study.runs:train"
POINT_SETS = ("equation", "initial", "boundary")
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
    """A model's size and the optimizer that trains it: what selection chooses among."""

    problem: str
    model: str
    size: int
    optimizer: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Its name within the group: "25, adam 0.005"."""
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
    """A study: everything that defines its runs, and the text that said so."""

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
        """One per problem and model."""
        return tuple(
            Group(p, m, tuple(Configuration(p, m, size, o) for size in sizes for o in self.optimizers))
            for p in self.problems
            for m, sizes in self.models
        )

    def definition(self, configuration: Configuration, seed: int, *, final: bool = False) -> dict[str, Any]:
        """All that defines a run, and so its key in the store."""
        c = configuration
        training = dict(self.training)
        legs = [[training.pop("epochs"), training.pop("loss_tol")]] if self.runner == RUNNER else []
        if final and self.final:
            legs.append([self.final["epochs"], self.final["loss_tol"]])
        found = {"runner": self.runner, "problem": c.problem, "model": c.model, "size": c.size}
        found |= {"optimizer": dict(c.optimizer), "seed": seed, "training": training | ({"legs": legs} if legs else {})}
        if c.problem in self.fingerprints:
            found["problem_file"] = self.fingerprints[c.problem]
        return found

    def definitions(self) -> Iterator[dict[str, Any]]:
        """Every run of the selection: seeds innermost."""
        for group in self.groups:
            for configuration in group.configurations:
                for seed in self.seeds:
                    yield self.definition(configuration, seed)

    @property
    def num_runs(self) -> int:
        """How many runs the selection has."""
        return sum(len(g.configurations) for g in self.groups) * len(self.seeds)


def protocol_names() -> list[str]:
    """The ready specifications that come with the package: the paper's protocols."""
    return sorted(p.name.removesuffix(".toml") for p in resources.files("flm.study").joinpath("protocols").iterdir())


def read_spec(path: str | Path) -> Spec:
    """Read and check a specification, a TOML file or the name of a ready protocol.

    Raises:
        SpecError: with file, table and key, and a suggestion where a name is close to a known one.
    """
    name = str(path)
    file = Path(path)
    if file.suffix != ".toml" and (not file.is_file() or name in protocol_names()):
        return read_protocol(name)
    if not file.is_file():
        raise SpecError(f"`SPEC` must be a TOML file that exists; got {name!r}.")
    return parse_spec(file.read_text(encoding="utf-8"), file=file)


def read_protocol(name: str) -> Spec:
    """A ready protocol by its name, whatever files there are."""
    ready = resources.files("flm.study").joinpath("protocols", f"{name}.toml")
    if not ready.is_file():
        known = protocol_names()
        raise SpecError(
            f"`SPEC` must be a TOML file or one of {', '.join(known)}; got {name!r}.{did_you_mean(name, known)}"
        )
    return parse_spec(ready.read_text(encoding="utf-8"), file=Path(f"{name}.toml"))


def parse_spec(text: str, *, file: Path) -> Spec:
    """The specification in `text`; `file` is named in errors, and problem files are relative to it."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{file.name}: not valid TOML: {error}.") from None
    top = _Table(file.name, "", document)
    runner = top.take("runner", str, "a string", RUNNER)
    problems = _names(top, "problems")
    fingerprints = {}
    for problem in problems:
        fingerprints |= _check_problem(top, problem, file.parent) if runner == RUNNER else {}
    seeds = _seeds(top)
    training = _training(top, runner)
    final = _final(top, runner)
    metrics, alpha = _selection(top, runner)
    models = _models(top, runner)
    optimizers = _optimizers(top)
    title = top.take("title", str, "a string", file.stem)
    top.done()
    absolute = {p: str((file.parent / p).resolve()) for p in problems if p in fingerprints}
    return Spec(
        path=file,
        text=text,
        title=title,
        problems=tuple(absolute.get(p, p) for p in problems),
        models=models,
        optimizers=optimizers,
        seeds=seeds,
        training=training,
        final=final,
        metrics=metrics,
        alpha=alpha,
        runner=runner,
        fingerprints={absolute[p]: digest for p, digest in fingerprints.items()},
    )


class _Table:
    """A TOML table that is taken apart key by key, so that what is left over is a mistake."""

    def __init__(self, file: str, name: str, entries: Mapping[str, Any]):
        self.place = f"{file} [{name}]" if name else file
        self.file, self.entries, self.known = file, dict(entries), []

    def error(self, sentence: str) -> SpecError:
        return SpecError(f"{self.place}: {sentence}")

    def take(self, key: str, kind: Any, rule: str, *default: Any, check: Any = None) -> Any:
        self.known.append(key)
        if key not in self.entries:
            if default:
                return default[0]
            near = did_you_mean(key, list(self.entries)).replace("Did you mean", "Is that")
            raise self.error(f"`{key}` must be given: {rule}.{near}")
        value = self.entries.pop(key)
        if not isinstance(value, kind) or isinstance(value, bool) or (check is not None and not check(value)):
            raise self.error(f"`{key}` must be {rule}; got {value!r}.")
        return value

    def table(self, key: str) -> _Table | None:
        value = self.take(key, dict, "a table", None)
        return None if value is None else _Table(self.file, key, value)

    def done(self) -> None:
        for key in self.entries:
            hint = did_you_mean(key, self.known) or f" Known keys: {', '.join(self.known)}."
            raise self.error(f"`{key}` is not a key of this table.{hint}")


def _names(top: _Table, key: str) -> tuple[str, ...]:
    rule = "a list of different names"
    value = top.take(
        key, list, rule, check=lambda v: v and all(isinstance(x, str) for x in v) and len(set(v)) == len(v)
    )
    return tuple(value)


def _check_problem(top: _Table, problem: str, folder: Path) -> dict[str, str]:
    """The fingerprint of a problem file, or nothing for other problems; raises where there is no such problem."""
    if problem.endswith(".toml"):
        file = folder / problem
        if not file.is_file():
            raise top.error(f"`problems` must name files that exist, relative to the specification; got {problem!r}.")
        return {problem: hashlib.sha256(file.read_bytes()).hexdigest()}
    if ":" not in problem:
        from flm.problems.catalogue import catalogue

        known = catalogue(("pde", "conservation"))
        if problem not in known:
            raise top.error(
                f"`problems` must be of {', '.join(known)}, a file or 'module:function'; got {problem!r}."
                f"{did_you_mean(problem, known)}"
            )
    return {}


def _seeds(top: _Table) -> tuple[int, ...]:
    rule = "a number of at least 1 or a list of different integers of at least 0"

    def right(value: Any) -> bool:
        if isinstance(value, int):
            return value >= 1
        return bool(value) and all(type(s) is int and s >= 0 for s in value) and len(set(value)) == len(value)

    seeds = top.take("seeds", int | list, rule, check=right)
    return tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)


def _leg(table: _Table) -> dict[str, Any]:
    epochs = table.take("epochs", int, "an integer of at least 1", check=lambda v: v >= 1)
    loss_tol = table.take("loss_tol", int | float, "a number of at least 0", 0.0, check=lambda v: v >= 0)
    return {"epochs": epochs, "loss_tol": float(loss_tol)}


def _training(top: _Table, runner: str) -> dict[str, Any]:
    table = top.table("training")
    if runner != RUNNER:
        return {} if table is None else dict(table.entries)
    if table is None:
        raise top.error("`training` must be given: a table with epochs, loss_tol and points.")
    leg = _leg(table)
    counts = table.table("points")
    if counts is None:
        raise table.error("`points` must be given: a table like {equation = 1000, initial = 200, boundary = 200}.")
    counts.place = f"{table.place} points"
    points = {k: counts.take(k, int, "an integer of at least 1", None, check=lambda v: v >= 1) for k in POINT_SETS}
    counts.done()
    table.done()
    return leg | {"points": {k: v for k, v in points.items() if v is not None}}


def _final(top: _Table, runner: str) -> dict[str, Any] | None:
    table = top.table("final")
    if table is None:
        return None
    if runner != RUNNER:
        raise top.error("`final` must be left out: a study with its own runner has no additional epochs.")
    leg = _leg(table)
    table.done()
    return leg


def _selection(top: _Table, runner: str) -> tuple[tuple[str, ...], float]:
    table = top.table("selection")
    if table is None:
        return METRICS, 0.05
    metrics = METRICS
    if "metrics" in table.entries:
        metrics = _names(table, "metrics")
        for metric in metrics if runner == RUNNER else ():
            if metric not in METRICS:
                near = did_you_mean(metric, METRICS)
                raise table.error(f"`metrics` must be of {', '.join(METRICS)}; got {metric!r}.{near}")
    table.known.append("metrics")
    alpha = table.take("alpha", float, "a number between 0 and 1", 0.05, check=lambda v: 0 < v < 1)
    table.done()
    return metrics, alpha


def _tables(top: _Table, key: str) -> list[_Table]:
    rule = f"one or more tables, each headed [[{key}]]"
    entries = top.take(key, list, rule, check=lambda v: v and all(isinstance(x, dict) for x in v))
    return [_Table(top.file, f"{key} {i}", entry) for i, entry in enumerate(entries, 1)]


def _models(top: _Table, runner: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    found: dict[str, tuple[int, ...]] = {}
    for table in _tables(top, "models"):
        name = table.take("name", str, "a string")
        rule = "a list of different integers of at least 1"
        sizes = table.take(
            "sizes",
            list,
            rule,
            check=lambda v: v and all(type(s) is int and s > 0 for s in v) and len(set(v)) == len(v),
        )
        table.done()
        if runner == RUNNER and ":" not in name:
            from flm.models.named import NAMED

            if name not in NAMED:
                near = did_you_mean(name, list(NAMED))
                raise table.error(f"`name` must be of {', '.join(NAMED)} or 'module:function'; got {name!r}.{near}")
        if name in found:
            raise table.error(
                f"`name` must be another one than those above; got {name!r} again. Put its sizes together."
            )
        found[name] = tuple(sizes)
    return tuple(found.items())


def _optimizers(top: _Table) -> tuple[dict[str, Any], ...]:
    found: list[dict[str, Any]] = []
    for table in _tables(top, "optimizers"):
        name = table.take("name", str, "a string")
        if name not in OPTIMIZERS:
            near = did_you_mean(name, list(OPTIMIZERS))
            raise table.error(f"`name` must be of {', '.join(OPTIMIZERS)}; got {name!r}.{near}")
        optimizer: dict[str, Any] = {"name": name}
        for i, key in enumerate(OPTIMIZERS[name]):
            rule = "a positive number"
            value = table.take(key, int | float, rule, *([None] if i or key != "rate" else []), check=lambda v: v > 0)
            optimizer |= {} if value is None else {key: value if key == "memory" else float(value)}
        table.done()
        if optimizer in found:
            raise table.error("this optimizer is there already. Change a setting, or leave it out.")
        found.append(optimizer)
    return tuple(found)


def problem_name(problem: str) -> str:
    """A problem's short name for tables: the stem of a file, else itself."""
    return Path(problem).stem if problem.endswith(".toml") else problem
