"""The paper's hierarchical selection of a configuration (appendix "Numerical Results for Hyperparameter Selection").

    for each metric in order (MSE, MAE, largest error, epochs):
        test the configurations that are left (flm.study.statistics)
        keep those that are not different from the best
    among those left after the last metric: the smallest network

The paper does not say what decides between configurations of one size; here: the lower mean of the first metric, then
the one listed first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from flm.study.statistics import ANOVA, EQUAL, FRIEDMAN, WILCOXON, Comparison, compare
from flm.study.store import Record
from flm.wording import InputError

METRICS = ("mse", "mae", "max_error", "epochs")
WORDS = {"mse": "MSE", "mae": "MAE", "max_error": "max error", "epochs": "epochs"}


@dataclass(frozen=True)
class Step:
    """One metric's decision: who was compared, the tests, who went on."""

    metric: str
    candidates: tuple[int, ...]
    comparison: Comparison

    @property
    def kept(self) -> tuple[int, ...]:
        """Indices of the configurations that went on."""
        return tuple(c for c, k in zip(self.candidates, self.comparison.kept, strict=True) if k)

    @property
    def best(self) -> int:
        """Index of the best configuration in this metric."""
        return self.candidates[self.comparison.best]


@dataclass(frozen=True)
class Selection:
    """The chosen configuration with every test on the way to it.

    Attributes:
        labels: names of the configurations, in the order given.
        sizes: their numbers of parameters.
        steps: one per metric tested; fewer than the metrics when one configuration was left early.
        winner: index of the chosen configuration.
        reason: the sentence that says what decided.
        left_out: configurations without any run, by index.
        alpha: the level of significance.
        num_seeds: columns of the score tables.
    """

    labels: tuple[str, ...]
    sizes: tuple[float, ...]
    steps: tuple[Step, ...]
    winner: int
    reason: str
    left_out: tuple[int, ...]
    alpha: float
    num_seeds: int

    @property
    def label(self) -> str:
        """The chosen configuration's name."""
        return self.labels[self.winner]

    @property
    def finalists(self) -> tuple[int, ...]:
        """Indices of the configurations left after the last metric."""
        if self.steps:
            return self.steps[-1].kept
        return tuple(i for i in range(len(self.labels)) if i not in self.left_out)

    def explain(self) -> str:
        """The whole decision in prose, one paragraph per metric."""
        count = len(self.labels) - len(self.left_out)
        lines = [f"{count} configurations, {self.num_seeds} seeds, significance level {self.alpha:g}."]
        if self.left_out:
            lines.append(f"Left out, because none of their runs is there: {self._names(self.left_out)}.")
        lines += [self._paragraph(step) for step in self.steps]
        return "\n".join([*lines, self.reason])

    def record(self) -> Record:
        """Everything as plain numbers, lists and strings, for `flm.files.to_json`."""
        record = asdict(self) | {"label": self.label, "finalists": list(self.finalists)}
        for step, found in zip(record["steps"], self.steps, strict=True):
            step |= {"kept": list(found.kept), "best": found.best}
        return record

    def _names(self, indices: Sequence[int]) -> str:
        return "; ".join(self.labels[i] for i in indices)

    def _paragraph(self, step: Step) -> str:
        c, word, k = step.comparison, WORDS.get(step.metric, step.metric), len(step.candidates)
        if c.test == EQUAL:
            return f"{word}: the {k} configurations have equal scores on every seed: no difference, all go on."
        if c.test == ANOVA:
            who = "both" if k == 2 else f"all {k}"
            start = (
                f"{word}: {who} configurations pass Shapiro-Wilk (lowest p {_p(min(c.normality))}), so one-way ANOVA: F"
            )
            pairs, measure = "Tukey's HSD", "mean"
        else:
            odd = [i for i, p in zip(step.candidates, c.normality, strict=True) if not p > self.alpha]
            shown = self._names(odd[:3]) + (f" and {len(odd) - 3} more" if len(odd) > 3 else "")
            name = {FRIEDMAN: "Friedman's test: chi-square", WILCOXON: "Wilcoxon's signed-rank test: W"}[c.test]
            start = f"{word}: {len(odd)} of {k} configurations do not pass Shapiro-Wilk ({shown}), so {name}"
            pairs, measure = ("Nemenyi's test" if c.test == FRIEDMAN else "the same test"), "average rank"
        some = c.test != ANOVA and len(c.blocks) < self.num_seeds
        blocks = f" on the {len(c.blocks)} seeds that all have" if some else ""
        start += f" = {c.statistic:.3g}, p {_p(c.p_value)}{blocks}."
        if c.p_value > self.alpha:
            return f"{start} No difference: all go on."
        best = f"Lowest {measure}: {self.labels[step.best]} ({c.locations[c.best]:.3g})."
        within = f" (critical difference {c.critical_difference:.3g})" if c.test == FRIEDMAN else ""
        others = self._names([i for i in step.kept if i != step.best]) or "none"
        return f"{start} {best} Not different from it by {pairs}{within}: {others}. {len(step.kept)} of {k} go on."


def select(
    scores: Mapping[str, npt.ArrayLike], *, labels: Sequence[str], sizes: Sequence[float], alpha: float = 0.05
) -> Selection:
    """Choose a configuration by the paper's hierarchical procedure.

    Args:
        scores: for each metric, in the order of testing, a table (configurations, seeds), lower is better; +inf for a
            run that failed, NaN for one that is not there.
        labels: a name per configuration.
        sizes: a number of parameters per configuration; the smallest wins a tie.
        alpha: the level of significance.

    Example:
        >>> import numpy as np
        >>> mse = np.random.default_rng(0).normal([[1.0], [1.0], [5.0]], 0.2, (3, 10))
        >>> select({"mse": mse}, labels=["big", "small", "bad"], sizes=[294, 24, 6]).label
        'small'
    """
    labels, sizes = tuple(map(str, labels)), tuple(float(s) for s in sizes)
    tables = {name: np.asarray(table, dtype=float) for name, table in scores.items()}
    if not tables:
        raise InputError("`scores` must have at least one metric; got none.")
    shape = (len(labels), next(iter(tables.values())).shape[-1])
    for name, table in tables.items():
        if table.shape != shape:
            raise InputError(
                f"`scores[{name!r}]` must have shape (configurations, seeds) = {shape}; got {table.shape}."
            )
    if len(sizes) != len(labels):
        raise InputError(f"`sizes` must have one entry per configuration, {len(labels)}; got {len(sizes)}.")
    first = next(iter(tables.values()))
    there = ~np.all([np.isnan(t).all(axis=1) for t in tables.values()], axis=0)
    left = tuple(np.flatnonzero(there).tolist())
    if not left:
        raise InputError("`scores` must have at least one run; got none. Run the study first.")
    steps: list[Step] = []
    for metric, table in tables.items():
        if len(left) == 1:
            break
        steps.append(Step(metric, left, compare(table[list(left)], alpha)))
        left = steps[-1].kept
    means = [float(np.nanmean(row)) if not np.isnan(row).all() else np.inf for row in first]
    winner = min(left, key=lambda i: (sizes[i], means[i], i))
    reason = f"Chosen: {labels[winner]}, the only one left."
    if len(left) > 1:
        alike = sum(sizes[i] == sizes[winner] for i in left)
        lower = WORDS.get(next(iter(tables)), next(iter(tables)))
        tie = f", of {alike} of that size the one with the lowest mean {lower}" if alike > 1 else ""
        reason = f"{len(left)} are equivalent in every metric; chosen: {labels[winner]}, the smallest network"
        reason += f" ({sizes[winner]:g} parameters){tie}."
    absent = tuple(np.flatnonzero(~there).tolist())
    return Selection(labels, sizes, tuple(steps), winner, reason, absent, alpha, shape[1])


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"= {value:.4f}"
