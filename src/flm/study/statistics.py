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
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from flm.wording import InputError

ANOVA, FRIEDMAN, WILCOXON, EQUAL = "ANOVA and Tukey's HSD", "Friedman and Nemenyi", "Wilcoxon signed-rank", "all equal"


@dataclass(frozen=True)
class Comparison:
    """One metric of several configurations, tested: which are not different from the best.

    Attributes:
        test: the family used, one of the four above.
        statistic: F, Friedman's chi-square or Wilcoxon's smaller rank sum; NaN when all are equal.
        p_value: of that statistic; 1 when all are equal.
        locations: means (ANOVA), else average ranks over the seeds, 1 the best.
        best: index of the lowest location.
        p_best: p of the comparison with the best per configuration; 1 for itself and where no pair was tested.
        critical_difference: Nemenyi's, the least distance of average ranks that is significant; NaN for other tests.
        normality: p of Shapiro-Wilk per configuration; NaN where the test does not apply.
        kept: whether the configuration is not different from the best.
        blocks: indices of the seeds that every configuration has; rank tests use only these.
    """

    test: str
    statistic: float
    p_value: float
    locations: tuple[float, ...]
    best: int
    p_best: tuple[float, ...]
    critical_difference: float = math.nan
    normality: tuple[float, ...] = ()
    kept: tuple[bool, ...] = ()
    blocks: tuple[int, ...] = ()


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
    freedom = int(n.sum()) - len(scores)
    within = sum(((sample - sample.mean()) ** 2).sum() for sample in samples) / freedom
    best = int(np.argmin(means))
    # Tukey-Kramer: q = |mean_i - mean_j| / sqrt(within / 2 (1/n_i + 1/n_j))
    q = (means - means[best]) / np.sqrt(within / 2 * (1 / n + 1 / n[best]))
    p_best = _studentized(q, best, freedom) if p_value <= alpha else np.ones(len(q))
    locations = np.nanmean(scores, axis=1)
    return Comparison(ANOVA, statistic, p_value, tuple(locations.tolist()), best, tuple(p_best.tolist()))


def _studentized(q: np.ndarray, best: int, freedom: float) -> np.ndarray:
    """p of the distances from the best of k means or ranks; 1 for the best itself."""
    p = np.ones(len(q))
    others = np.arange(len(q)) != best
    p[others] = stats.studentized_range.sf(q[others], len(q), freedom)
    return p


def _rank_test(scores: np.ndarray, alpha: float) -> Comparison:
    ranks = stats.rankdata(scores, axis=0)  # ties share their mean rank
    (k, n), means = ranks.shape, ranks.mean(axis=1)
    locations = tuple(means.tolist())
    if np.all(scores == scores[0]):
        return Comparison(EQUAL, math.nan, 1.0, locations, 0, (1.0,) * k)
    if k == 2:
        return _wilcoxon(scores, ranks)
    statistic, p_value = map(float, stats.friedmanchisquare(*ranks))
    best = int(np.argmin(means))
    # q = |r̄_i - r̄_j| / sqrt(k (k+1) / (6 n)); q √2 is a studentized range of k means
    q = (means - means[best]) / math.sqrt(k * (k + 1) / (6 * n)) * math.sqrt(2)
    p_best = _studentized(q, best, math.inf) if p_value <= alpha else np.ones(k)
    critical = nemenyi_difference(k, n, alpha)
    return Comparison(FRIEDMAN, statistic, p_value, locations, best, tuple(p_best.tolist()), critical)


def nemenyi_difference(num_configurations: int, num_seeds: int, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference of average ranks, q_α sqrt(k (k+1) / (6 n)).

    Example:
        >>> round(nemenyi_difference(4, 10), 3)
        1.483
    """
    k, n = num_configurations, num_seeds
    return float(stats.studentized_range.isf(alpha, k, math.inf) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n)))


def _wilcoxon(pair: np.ndarray, ranks: np.ndarray) -> Comparison:
    """The best is the one that the rank sums favor. Seeds with equal scores are left out."""
    differ = pair[0] != pair[1]
    with np.errstate(invalid="ignore"):
        distance = np.abs(pair[0] - pair[1])[differ]
    signed = np.sign(ranks[0] - 1.5)[differ] * stats.rankdata(distance)
    statistic, p_value = map(float, stats.wilcoxon(signed))
    total, lower = signed.sum(), np.median(pair[1]) < np.median(pair[0])
    best = 1 if total > 0 or (total == 0 and lower) else 0
    p_best = (1.0, p_value) if best == 0 else (p_value, 1.0)
    return Comparison(WILCOXON, statistic, p_value, tuple(ranks.mean(axis=1).tolist()), best, p_best)
