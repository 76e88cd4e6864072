"""The plan of `flm paper`: the runs that the paper's tables and figures need, all in one store, and what they cost.

In full, the four PDEs are the ready protocols (selection, then the chosen configuration of every model for 30,000 more
epochs); in short, one configuration and one seed of each model for a few thousand epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from flm.paper.printed import IMPUTATION, PDE_ERRORS
from flm.paper.protocol import FIGURE, FIGURE_SIZES, read_protocol
from flm.results import Listener
from flm.study.execution import Counts, Workers, execute
from flm.study.results import choose, estimate, final_definitions, read_rows
from flm.study.spec import Configuration, Spec
from flm.study.store import DONE, Definition, Record, Row, Store, run_key
from flm.wording import duration

RECIPE, SOLVER = "their recipe", "our solver"
TOL = {"heat": 1e-10, "poisson": 1e-10, "black_scholes": 1e-10, "burgers": 1e-2}  # relative L2; Burgers relative L1
STARTS = ((0.2, 0.2, 0.6), (0.1, 0.3, 0.6), (0.3, 0.15, 0.55))  # the paper names the first only
DISK = {"center": [0.2, 0.2, 0.6], "radius": 0.15, "images": [0, 2, 1]}  # images in the order of printed.DISKS
ADAM = {"name": "adam", "rate": 5e-3}  # of what is trained in short
HYPERDISK = {"center": [0.11, 0.11, 0.11, 0.11, 0.56], "radius": 0.045, "images": [0]}


@dataclass(frozen=True)
class Budget:
    """The size of everything, which the page states beside its numbers."""

    seeds: int
    epochs: int  # of one leg of training in short; the protocols' own in full
    figure_sizes: tuple[int, ...]
    figure_epochs: int
    fixed_epochs: int
    family_epochs: int
    five_epochs: int
    laws: int  # seeds of the penalty method on families
    states: int  # fresh initial states on each disk
    masks: int


QUICK = Budget(1, 2_000, (4, 9, 16, 25, 49), 1_000, 20_000, 2_000, 500, 1, 20, 1)
FULL = Budget(10, 0, FIGURE_SIZES, 0, 20_000, 20_000, 5_000, 3, 100, 10)


@dataclass(frozen=True)
class Plan:
    """All runs of the paper's page."""

    series: str | None = None  # the fingerprint of ETTh1.csv, or None to leave imputation out
    budget: Budget = QUICK

    @property
    def quick(self) -> bool:
        """Whether the runs take minutes instead of hours."""
        return self.budget.epochs > 0

    @cached_property
    def protocols(self) -> dict[str, Spec]:
        """The study of each PDE; in short without the FLM, which `recipe_surface` trains."""
        found = {problem: read_protocol(problem) for problem in PDE_ERRORS}
        if not self.quick:
            return found
        options = {"training": {"epochs": self.budget.epochs, "loss_tol": 0.0}, "optimizers": (ADAM,), "final": None}
        others = lambda spec: tuple((name, (sizes[3],)) for name, sizes in spec.models if name != "flm")
        return {problem: self._short(spec, models=others(spec), **options) for problem, spec in found.items()}

    @cached_property
    def figure(self) -> Spec:
        """The study of the MSE against the number of sub-networks."""
        spec, models = read_protocol(FIGURE), (("flm", self.budget.figure_sizes),)
        return self._short(spec, {"epochs": self.budget.figure_epochs}, models=models) if self.quick else spec

    def _short(self, spec: Spec, training: Record, **changes: object) -> Spec:
        return replace(spec, training=dict(spec.training) | training, seeds=tuple(range(self.budget.seeds)), **changes)

    def recipe_surface(self, problem: str, rows: Mapping[str, Row]) -> Record | None:
        """The FLM by the paper's recipe, whose surface is drawn; in full it is known only when the selection is done."""
        spec = self.protocols[problem]
        chosen = Configuration(problem, "flm", 49, ADAM)
        if not self.quick:
            try:
                chosen = choose(spec, rows, next(g for g in spec.groups if g.model == "flm")).configuration
            except ValueError:
                return None
        return spec.definition(chosen, 0, final=True) | {"runner": "flm.paper.runs:train_surface"}

    def solve(self, problem: str, size: int) -> Record:
        """A run of our solver with `size` sub-networks, or to the tolerance if `size` is 0."""
        wanted = {"surface": True} if size == 49 else {} if size else {"tol": TOL[problem]}
        return _single("runs:solve_pde", problem, SOLVER, size, wanted)

    def fixed(self, start: Sequence[float], model: str) -> Record:
        """Rock–Paper–Scissors from one state, five sub-networks."""
        wanted = {"start": list(start)} | _recipe(model, "paper_fixed", self.budget.fixed_epochs)
        return _single("runs:control_fixed", "rock_paper_scissors", model, 5, wanted)

    def disk(self, model: str, size: int = 27, seed: int = 0) -> Record:
        """The family on the disk: 27 sub-networks, or a tolerance of 1e-8 with size 0."""
        recipe = _recipe(model, "paper_family", self.budget.family_epochs)
        wanted = DISK | {"states": self.budget.states} | recipe | ({} if size else {"tol": 1e-8})
        return _single("runs:control_family", "rock_paper_scissors", model, size, wanted, seed)

    def five(self, model: str, seed: int = 0) -> Record:
        """Five strategies: 32 sub-networks for the control by the paper's recipe, a tolerance of 1e-6 by our solver."""
        recipe = _recipe(model, "paper_rpssl", self.budget.five_epochs)
        wanted = HYPERDISK | {"states": self.budget.states} | (recipe or {"tol": 1e-6})
        return _single("runs:control_family", "rpssl", model, 32 if recipe else 0, wanted, seed)

    def control(self) -> list[Record]:
        """Optimal control by both methods; the families by the penalty method come first, since they are long."""
        found = [run(RECIPE, seed=seed) for run in (self.disk, self.five) for seed in range(self.budget.laws)]
        found += [self.fixed(start, model) for start in STARTS for model in (RECIPE, SOLVER)]
        return [*found, self.disk(SOLVER), self.disk(SOLVER, 0), self.five(SOLVER)]

    def imputation(self, rate: float, model: str) -> list[Record]:
        """The masks of one missing rate: "recipe" and "solver" on oil temperature alone, "channels" on all of them."""
        recipe = model == "recipe"
        wanted = {"rate": rate, "file": self.series} | ({"epochs": 10_000} if recipe else {})
        masks = range(self.budget.masks if self.series else 0)
        return [_single("imputation:impute", "etth1", model, 8 if recipe else 0, wanted, seed) for seed in masks]

    def definitions(self, rows: Mapping[str, Row]) -> list[Record]:
        """Every run that is known from what is stored, long ones first."""
        found = self.control()
        found += [d for rate in IMPUTATION for m in ("channels", "recipe", "solver") for d in self.imputation(rate, m)]
        found += [d for problem in PDE_ERRORS if (d := self.recipe_surface(problem, rows)) is not None]
        found += [self.solve(problem, n) for problem in PDE_ERRORS for n in (0, *self.budget.figure_sizes)]
        return found + [d for spec in self.studies() for d in spec.definitions()]

    def final_definitions(self, rows: Mapping[str, Row]) -> list[Record]:
        """The runs that follow from the selections; none in short."""
        if self.quick:
            return []
        found = [d for spec in self.protocols.values() for d in final_definitions(spec, rows)]
        return found + [d for problem in self.protocols if (d := self.recipe_surface(problem, rows)) is not None]

    def studies(self) -> Iterator[Spec]:
        """The studies of training."""
        yield from self.protocols.values()
        yield self.figure


def _recipe(model: str, name: str, epochs: int) -> Record:
    return {"recipe": name, "epochs": epochs} if model == RECIPE else {}


def _single(runner: str, problem: str, model: str, size: int, training: Record, seed: int = 0) -> Record:
    found = {"runner": f"flm.paper.{runner}", "problem": problem, "model": model, "size": size, "seed": seed}
    return found | {"training": training}


def run_paper(plan: Plan, store: Store, *, workers: Workers, progress: bool | Listener = False) -> list[Counts]:
    """Do the runs that are not stored yet; the final runs follow when every selection is decided."""
    run = partial(execute, store=store, workers=workers, progress=progress)
    found = [run(plan.definitions(read_rows(store)))]
    if final := plan.final_definitions(read_rows(store)):
        found.append(run(final))
    return found


def cost(plan: Plan, rows: Mapping[str, Row], workers: int, *, measure: bool = False) -> str:
    """A sentence that says how many runs are left and, with `measure`, at most how long training takes, from a measured sample."""
    left = sum(run_key(d) not in rows for d in plan.definitions(rows))
    if not left:
        return "Every run is there: only the page is made."
    if plan.quick:
        return f"{left:,} runs, about five minutes on two idle cores."
    if not measure:
        return f"{left:,} runs and the final ones; --dry-run measures what they take. Stop at any time and start again."
    costs = [estimate(spec, workers, rows) for spec in plan.studies()]
    seconds = sum(c.seconds for c in costs) / workers
    final = sum(c.final_runs for c in costs)
    return f"{left:,} runs and {final:,} final ones, at most {duration(seconds)} of training."


def outcome(rows: Mapping[str, Row], definition: Definition | None) -> Record:
    """The scores of a run that ended well; empty where there is none."""
    row = None if definition is None else rows.get(run_key(definition))
    return row.outcome if row is not None and row.status == DONE else {}


def values(rows: Mapping[str, Row], definitions: Iterable[Definition], key: str) -> list[float]:
    """One score of each of the runs that are stored."""
    return [float(found[key]) for d in definitions if (found := outcome(rows, d))]
