"""The paper's hierarchical selection of a configuration (appendix "Numerical Results for Hyperparameter Selection").

    for each metric in order (MSE, MAE, largest error, epochs):
        test the configurations that are left, and keep those that are not different from the best
    among those left after the last metric: the smallest network

The paper does not say what decides between configurations of one size; here it is the lower mean of the first metric, then
the order in which they are listed. The tests of one metric are

    every configuration normal (Shapiro-Wilk, p > α):  one-way ANOVA, then Tukey's HSD
    otherwise, three or more configurations:           Friedman, then Nemenyi; the seeds are the blocks
    otherwise, two configurations:                     Wilcoxon's signed-rank test

Scores are a table (configurations, seeds); lower is better. +inf is a run that failed: worse than any number, equal to
other failures. NaN is a missing run. Where the first test finds no difference (p > α), pairs are not tested.
A configuration with equal scores has no distribution to test and counts as not normal; so does one with fewer than three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from flm.study.store import Record
from flm.wording import InputError, counted

METRICS = ("mse", "mae", "max_error", "epochs")
WORDS = {"mse": "MSE", "mae": "MAE", "max_error": "max error", "epochs": "epochs"}
ANOVA, FRIEDMAN, WILCOXON, EQUAL = "ANOVA and Tukey's HSD", "Friedman and Nemenyi", "Wilcoxon signed-rank", "all equal"
# In sentences: the first test with its statistic, the test of pairs, what is lowest.
SPOKEN = {
    ANOVA: ("one-way ANOVA: F", "Tukey's HSD", "mean"),
    FRIEDMAN: ("Friedman's test: chi-square", "Nemenyi's test", "average rank"),
    WILCOXON: ("Wilcoxon's signed-rank test: W", "the same test", "average rank"),
}


@dataclass(frozen=True)
class Comparison:
    """The test of one metric over several configurations, with those that are not different from the best."""

    test: str  # the family used, one of the four above
    statistic: float  # F, Friedman's chi-square or Wilcoxon's smaller rank sum; NaN when all are equal
    p_value: float  # of that statistic; 1 when all are equal
    locations: tuple[float, ...]  # means (ANOVA), else average ranks over the seeds, 1 the best
    best: int  # index of the lowest location
    p_best: tuple[float, ...]  # of the comparison with the best; 1 for itself and where no pair was tested
    normality: tuple[float, ...] = ()  # p of Shapiro-Wilk; NaN where the test does not apply
    kept: tuple[bool, ...] = ()  # whether the configuration is not different from the best
    blocks: tuple[int, ...] = ()  # the seeds that every configuration has; rank tests use only these


def compare(scores: npt.ArrayLike, alpha: float = 0.05) -> Comparison:
    """The comparison of configurations by a table of scores (configurations, seeds): which are not different from the best.

    Example:
        >>> import numpy as np
        >>> table = np.random.default_rng(0).normal([[1.0], [1.1], [5.0]], 0.2, (3, 10))
        >>> compare(table).kept
        (True, True, False)
    """
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 2 or len(scores) < 2:
        raise InputError(f"`scores` must have shape (configurations >= 2, seeds); got {scores.shape}.")
    if np.any(np.isneginf(scores)):
        raise InputError("`scores` must be greater than -inf; got -inf. Lower is better, +inf is a failed run.")
    blocks = np.flatnonzero(~np.isnan(scores).any(axis=0))
    normality = tuple(shapiro_wilk(row[~np.isnan(row)]) for row in scores)
    if all(p > alpha for p in normality):
        found = _anova_tukey(scores, alpha)
    elif len(blocks) < 2:
        raise InputError(
            f"`scores` must have at least 2 seeds that every configuration has, for a rank test; got {len(blocks)}. "
            "Finish the runs, or leave out configurations."
        )
    else:
        found = _rank_test(scores[:, blocks], alpha)
    kept = tuple(p > alpha for p in found.p_best)
    return replace(found, normality=normality, kept=kept, blocks=tuple(blocks.tolist()))


def shapiro_wilk(sample: np.ndarray) -> float:
    """p of the Shapiro-Wilk test; NaN for fewer than three scores, equal scores or failed runs."""
    if len(sample) < 3 or not np.isfinite(sample).all() or np.ptp(sample) == 0:
        return math.nan
    # The statistic does not change under shift and scale, but scipy's does not resolve ranges below 1e-19.
    return float(stats.shapiro((sample - np.median(sample)) / np.ptp(sample)).pvalue)


def _anova_tukey(scores: np.ndarray, alpha: float) -> Comparison:
    samples = [row[~np.isnan(row)] / np.nanmax(np.abs(scores)) for row in scores]
    statistic, p_value = map(float, stats.f_oneway(*samples))
    means, n = np.array([sample.mean() for sample in samples]), np.array([len(sample) for sample in samples])
    best, freedom = int(np.argmin(means)), int(n.sum()) - len(scores)
    within = sum(((sample - sample.mean()) ** 2).sum() for sample in samples) / freedom
    # Tukey-Kramer: q = |mean_i - mean_j| / sqrt(within / 2 (1/n_i + 1/n_j)). scipy's tukey_hsd does all pairs: 20 times slower.
    q = (means - means[best]) / np.sqrt(within / 2 * (1 / n + 1 / n[best]))
    p_best = stats.studentized_range.sf(q, len(q), freedom) if p_value <= alpha else np.ones(len(q))
    locations = tuple(np.nanmean(scores, axis=1).tolist())
    return Comparison(ANOVA, statistic, p_value, locations, best, tuple(p_best.tolist()))


def _rank_test(scores: np.ndarray, alpha: float) -> Comparison:
    ranks = stats.rankdata(scores, axis=0)  # ties share their mean rank
    (k, n), means = ranks.shape, ranks.mean(axis=1)
    locations, best = tuple(means.tolist()), int(np.argmin(means))
    if np.all(scores == scores[0]):
        return Comparison(EQUAL, math.nan, 1.0, locations, 0, (1.0,) * k)
    if k == 2:
        return _wilcoxon(scores, ranks)
    statistic, p_value = map(float, stats.friedmanchisquare(*ranks))
    # Nemenyi: q = |r̄_i - r̄_j| / sqrt(k (k+1) / (6 n)); q √2 is a studentized range of k means
    q = (means - means[best]) / math.sqrt(k * (k + 1) / (12 * n))
    p_best = stats.studentized_range.sf(q, k, math.inf) if p_value <= alpha else np.ones(k)
    return Comparison(FRIEDMAN, statistic, p_value, locations, best, tuple(p_best.tolist()))


def _wilcoxon(pair: np.ndarray, ranks: np.ndarray) -> Comparison:
    """Wilcoxon's test; the best is the one that the rank sums favor. Seeds with equal scores are left out."""
    difference = np.subtract(*pair[:, pair[0] != pair[1]])
    signed = np.sign(difference) * stats.rankdata(np.abs(difference))
    statistic, p_value = map(float, stats.wilcoxon(signed))
    total, lower = signed.sum(), np.median(pair[1]) < np.median(pair[0])
    best = 1 if total > 0 or (total == 0 and lower) else 0
    p_best = (1.0, p_value) if best == 0 else (p_value, 1.0)
    return Comparison(WILCOXON, statistic, p_value, tuple(ranks.mean(axis=1).tolist()), best, p_best)


@dataclass(frozen=True)
class Step:
    """One metric's decision: which configurations were compared, the tests, and which went on, all by index."""

    metric: str
    candidates: tuple[int, ...]
    comparison: Comparison
    kept: tuple[int, ...]


@dataclass(frozen=True)
class Selection:
    """The chosen configuration with every test on the way to it."""

    labels: tuple[str, ...]  # names of the configurations, in the order given
    sizes: tuple[float, ...]  # their numbers of parameters
    steps: tuple[Step, ...]  # one per metric tested; fewer when one configuration was left early
    winner: int  # index of the chosen configuration
    reason: str  # the sentence that says what decided
    left_out: tuple[int, ...]  # configurations without any run
    finalists: tuple[int, ...]  # configurations left after the last metric
    alpha: float  # the level of significance
    num_seeds: int  # columns of the score tables

    @property
    def label(self) -> str:
        """The chosen configuration's name."""
        return self.labels[self.winner]

    def explain(self) -> str:
        """The whole decision in prose, one paragraph per metric."""
        count = len(self.labels) - len(self.left_out)
        lines = [
            f"{counted(count, 'configuration')}, {counted(self.num_seeds, 'seed')}, significance level {self.alpha:g}."
        ]
        if self.left_out:
            lines.append(f"Left out, because none of their runs is there: {self._names(self.left_out)}.")
        lines += [self._paragraph(step) for step in self.steps]
        return "\n".join([*lines, self.reason])

    def record(self) -> Record:
        """Everything as plain numbers, lists and strings, for `flm.files.to_json`."""
        return asdict(self) | {"label": self.label}

    def _names(self, indices: Sequence[int]) -> str:
        return "; ".join(self.labels[i] for i in indices)

    def _paragraph(self, step: Step) -> str:
        c, word, k = step.comparison, WORDS.get(step.metric, step.metric), len(step.candidates)
        if c.test == EQUAL:
            return f"{word}: the {k} configurations have equal scores on every seed: no difference, all go on."
        name, pairs, measure = SPOKEN[c.test]
        blocks = ""
        if c.test == ANOVA:
            who = "both" if k == 2 else f"all {k}"
            start = f"{who} configurations pass Shapiro-Wilk (lowest p {_p(min(c.normality))})"
        else:
            odd = [i for i, p in zip(step.candidates, c.normality, strict=True) if not p > self.alpha]
            shown = self._names(odd[:3]) + (f" and {len(odd) - 3} more" if len(odd) > 3 else "")
            start = f"{len(odd)} of {k} configurations do not pass Shapiro-Wilk ({shown})"
            if len(c.blocks) < self.num_seeds:
                blocks = f" on the {len(c.blocks)} seeds that all have"
        start = f"{word}: {start}, so {name} = {c.statistic:.3g}, p {_p(c.p_value)}{blocks}."
        if c.p_value > self.alpha:
            return f"{start} No difference: all go on."
        first = step.candidates[c.best]
        best = f"Lowest {measure}: {self.labels[first]} ({c.locations[c.best]:.3g})."
        others = self._names([i for i in step.kept if i != first]) or "none"
        return f"{start} {best} Not different from it by {pairs}: {others}. {len(step.kept)} of {k} go on."


def select(
    scores: Mapping[str, npt.ArrayLike], *, labels: Sequence[str], sizes: Sequence[float], alpha: float = 0.05
) -> Selection:
    """Choose a configuration by the paper's hierarchical procedure.

    Args:
        scores: for each metric, in the order of testing, a table (configurations, seeds), lower is better; +inf for a
            run that failed, NaN for a missing one.
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
    metric, first = next(iter(tables.items()))
    shape = (len(labels), first.shape[-1])
    for name, table in tables.items():
        if table.shape != shape:
            wanted = f"`scores[{name!r}]` must have shape (configurations, seeds) = {shape}"
            raise InputError(f"{wanted}; got {table.shape}.")
    if len(sizes) != len(labels):
        raise InputError(f"`sizes` must have one entry per configuration, {len(labels)}; got {len(sizes)}.")
    there = ~np.all([np.isnan(t).all(axis=1) for t in tables.values()], axis=0)
    left = tuple(np.flatnonzero(there).tolist())
    if not left:
        raise InputError("`scores` must have at least one run; got none. Run the study first.")
    steps: list[Step] = []
    for name, table in tables.items():
        if len(left) == 1:
            break
        found = compare(table[list(left)], alpha)
        steps.append(Step(name, left, found, tuple(np.array(left)[list(found.kept)].tolist())))
        left = steps[-1].kept
    means = [float(np.nanmean(row)) if not np.isnan(row).all() else np.inf for row in first]
    winner = min(left, key=lambda i: (sizes[i], means[i], i))
    reason = f"Chosen: {labels[winner]}, the only one left."
    if len(left) > 1:
        alike = sum(sizes[i] == sizes[winner] for i in left)
        tie = f", of {alike} of that size the one with the lowest mean {WORDS.get(metric, metric)}" if alike > 1 else ""
        reason = f"{len(left)} are equivalent in every metric; chosen: {labels[winner]}, the smallest network"
        reason += f" ({sizes[winner]:g} parameters){tie}."
    absent = tuple(np.flatnonzero(~there).tolist())
    return Selection(labels, sizes, tuple(steps), winner, reason, absent, left, alpha, shape[1])


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"= {value:.4f}"
