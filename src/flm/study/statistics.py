"""Is a configuration different from the best one? The tests of the paper's appendix on hyperparameter selection.

Scores are a table (configurations, seeds), lower is better. +inf is a run that failed: worse than any number, equal to
other failures. NaN is a run that is not there.

    every configuration normal (Shapiro-Wilk, p > α):  one-way ANOVA, then Tukey's HSD
    otherwise, three or more configurations:           Friedman, then Nemenyi; the seeds are the blocks
    otherwise, two configurations:                     Wilcoxon's signed-rank test

Where the first test finds no difference (p > α), none is looked for between pairs. A constant column has no
distribution to test and counts as not normal; so do fewer than three scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from flm.wording import InputError

ANOVA, FRIEDMAN, WILCOXON, EQUAL = "ANOVA and Tukey's HSD", "Friedman and Nemenyi", "Wilcoxon signed-rank", "all equal"


@dataclass(frozen=True)
class Comparison:
    """One metric of several configurations, tested: which are not different from the best.

    Attributes:
        test: the family used, one of the four above.
        normality: p of Shapiro-Wilk per configuration; NaN where the test does not apply.
        statistic: F, Friedman's chi-square or Wilcoxon's smaller rank sum; NaN when all are equal.
        p_value: of that statistic; 1 when all are equal.
        locations: means (ANOVA), else average ranks over the seeds, 1 the best.
        best: index of the lowest location.
        p_best: p of the comparison with the best per configuration; 1 for itself and where no pair was tested.
        critical_difference: Nemenyi's, the least distance of average ranks that is significant; NaN for other tests.
        kept: whether the configuration is not different from the best.
        blocks: indices of the seeds that every configuration has; rank tests use only these.
    """

    test: str
    normality: tuple[float, ...]
    statistic: float
    p_value: float
    locations: tuple[float, ...]
    best: int
    p_best: tuple[float, ...]
    critical_difference: float
    kept: tuple[bool, ...]
    blocks: tuple[int, ...]


def compare(scores: np.ndarray, alpha: float = 0.05) -> Comparison:
    """The configurations of a table of scores (configurations, seeds) that are not different from the best.

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
    if not 0 < alpha < 1:
        raise InputError(f"`alpha` must be between 0 and 1; got {alpha}.")
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
    return Comparison(
        test=found.test,
        normality=normality,
        statistic=found.statistic,
        p_value=found.p_value,
        locations=tuple(found.locations.tolist()),
        best=found.best,
        p_best=tuple(found.p_best.tolist()),
        critical_difference=found.critical_difference,
        kept=tuple((found.p_best > alpha).tolist()),
        blocks=tuple(blocks.tolist()),
    )


class Tested(NamedTuple):
    """What a test finds, by the names of `Comparison`."""

    test: str
    statistic: float
    p_value: float
    locations: np.ndarray
    best: int
    p_best: np.ndarray
    critical_difference: float = math.nan


def shapiro_wilk(sample: np.ndarray) -> float:
    """p of the Shapiro-Wilk test; NaN for fewer than three scores, equal scores or failed runs."""
    if len(sample) < 3 or not np.isfinite(sample).all() or np.ptp(sample) == 0:
        return math.nan
    # The statistic does not change under shift and scale, but scipy's does not resolve ranges below 1e-19.
    return float(stats.shapiro((sample - np.median(sample)) / np.ptp(sample)).pvalue)


def _anova_tukey(scores: np.ndarray, alpha: float) -> Tested:
    present = ~np.isnan(scores)
    n = present.sum(axis=1)
    k, total = len(scores), int(n.sum())
    scale = np.nanmax(np.abs(scores))
    x = np.where(present, scores / scale, 0.0)
    means = x.sum(axis=1) / n
    within = np.sum(np.where(present, x - means[:, None], 0.0) ** 2) / (total - k)
    between = np.sum(n * (means - x.sum() / total) ** 2) / (k - 1)
    p_value = float(stats.f.sf(between / within, k - 1, total - k))
    best = int(np.argmin(means))
    p_best = np.ones(k)
    if p_value <= alpha:
        # Tukey-Kramer: q = |mean_i - mean_j| / sqrt(within / 2 (1/n_i + 1/n_j)), k means, total - k degrees of freedom
        q = (means - means[best]) / np.sqrt(within / 2 * (1 / n + 1 / n[best]))
        others = np.arange(k) != best
        p_best[others] = stats.studentized_range.sf(q[others], k, total - k)
    return Tested(ANOVA, float(between / within), p_value, means * scale, best, p_best)


def _rank_test(scores: np.ndarray, alpha: float) -> Tested:
    ranks = stats.rankdata(scores, axis=0)  # ties share their mean rank
    if np.all(scores == scores[0]):
        return Tested(EQUAL, math.nan, 1.0, ranks.mean(axis=1), 0, np.ones(len(scores)))
    return _wilcoxon(scores, ranks) if len(scores) == 2 else _friedman_nemenyi(ranks, alpha)


def _friedman_nemenyi(ranks: np.ndarray, alpha: float) -> Tested:
    k, n = ranks.shape
    locations = ranks.mean(axis=1)
    # χ² = (k-1) Σ_i n (r̄_i - (k+1)/2)² / mean over blocks of Σ_i (r_ib - (k+1)/2)²: without ties 12n/(k(k+1)) Σ ...
    spread = np.sum((ranks - (k + 1) / 2) ** 2) / n
    statistic = float((k - 1) * n * np.sum((locations - (k + 1) / 2) ** 2) / spread)
    p_value = float(stats.chi2.sf(statistic, k - 1))
    best, p_best = int(np.argmin(locations)), np.ones(k)
    if p_value <= alpha:
        # q = |r̄_i - r̄_j| / sqrt(k (k+1) / (6 n)); q √2 is a studentized range of k means
        q = (locations - locations[best]) / math.sqrt(k * (k + 1) / (6 * n)) * math.sqrt(2)
        others = np.arange(k) != best
        p_best[others] = stats.studentized_range.sf(q[others], k, math.inf)
    return Tested(FRIEDMAN, statistic, p_value, locations, best, p_best, nemenyi_difference(k, n, alpha))


def nemenyi_difference(num_configurations: int, num_seeds: int, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference of average ranks, q_α sqrt(k (k+1) / (6 n)).

    Example:
        >>> round(nemenyi_difference(4, 10), 3)
        1.483
    """
    k, n = num_configurations, num_seeds
    return float(stats.studentized_range.isf(alpha, k, math.inf) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n)))


def _wilcoxon(pair: np.ndarray, ranks: np.ndarray) -> Tested:
    """The best is the one that the rank sums favor. Seeds with equal scores are left out."""
    differ = pair[0] != pair[1]
    with np.errstate(invalid="ignore"):
        distance = np.abs(pair[0] - pair[1])[differ]
    signed = np.sign(ranks[0] - 1.5)[differ] * stats.rankdata(distance)
    result: Any = stats.wilcoxon(signed)
    total = signed.sum()
    lower = np.median(pair[1]) < np.median(pair[0])
    best = 1 if total > 0 or (total == 0 and lower) else 0
    p_best = np.ones(2)
    p_best[1 - best] = result.pvalue
    return Tested(WILCOXON, float(result.statistic), float(result.pvalue), ranks.mean(axis=1), best, p_best)
