"""Selection against an independent computation by scipy's, statsmodels' and scikit-posthocs' own tests."""

import json
import warnings

import numpy as np
import pytest
from scipy import stats

from flm.files import to_json
from flm.study.selection import ANOVA, EQUAL, FRIEDMAN, METRICS, WILCOXON, compare, select, shapiro_wilk


def table(seed):
    """Random scores of the kinds that studies produce: normal, skewed, tied, capped, with and without real differences."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 9)), int(rng.integers(5, 13))
    shift = rng.choice([0.0, 0.3, 2.0]) * rng.random((k, 1))
    kind = rng.integers(4)
    if kind == 0:
        scores = 5 + shift + 0.5 * rng.normal(size=(k, n))
    elif kind == 1:
        scores = np.exp(2 * shift + rng.normal(size=(k, n))) * 10.0 ** rng.integers(-25, 1)
    elif kind == 2:
        scores = np.round(3 * shift + rng.normal(size=(k, n)))
    else:
        scores = np.minimum(10_000, np.round(8_000 * (1 + shift / 2) + 2_000 * rng.normal(size=(k, n))))
    return scores


def survivors(scores, alpha=0.05):
    """The rule again, in other people's code."""
    posthocs = pytest.importorskip("scikit_posthocs")
    multicomp = pytest.importorskip("statsmodels.stats.multicomp")
    k, n = scores.shape
    unit = scores / np.abs(scores).max()
    normal = all(np.ptp(row) > 0 and stats.shapiro(row).pvalue > alpha for row in unit)
    if normal:
        if stats.f_oneway(*unit).pvalue > alpha:
            return set(range(k))
        best = int(np.argmin(unit.mean(axis=1)))
        groups = np.repeat(np.arange(k), n)
        result = multicomp.pairwise_tukeyhsd(unit.ravel(), groups, alpha=alpha)
        pairs = zip(*np.triu_indices(k, 1), strict=True)
        differ = {
            b if a == best else a
            for (a, b), p in zip(pairs, result.pvalues, strict=True)
            if best in (a, b) and p <= alpha
        }
        return set(range(k)) - differ
    if np.all(scores == scores[0]):
        return set(range(k))
    if k == 2:
        d = unit[0] - unit[1]
        if stats.wilcoxon(d[d != 0]).pvalue > alpha:
            return {0, 1}
        ranks = stats.rankdata(np.abs(d[d != 0]))
        return {0} if ranks[d[d != 0] < 0].sum() > ranks[d[d != 0] > 0].sum() else {1}
    if stats.friedmanchisquare(*unit).pvalue > alpha:
        return set(range(k))
    p = posthocs.posthoc_nemenyi_friedman(unit.T).to_numpy()
    best = int(np.argmin(np.mean([stats.rankdata(block) for block in unit.T], axis=0)))
    return {i for i in range(k) if i == best or p[best, i] > alpha}


LATER = [pytest.param(i, marks=pytest.mark.bench) for i in range(10, 100, 10)]


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, *LATER])
def test_agrees_with_an_independent_computation(start):
    for seed in range(start, start + 10):
        tables = {"mse": table(seed)}
        k, n = tables["mse"].shape
        rng = np.random.default_rng(seed + 1000)
        for metric in METRICS[1:]:
            other = rng.gamma(2, size=(k, n))
            tables[metric] = other * (1 + rng.choice([0, 3]) * rng.random((k, 1)))
        sizes = rng.integers(1, 4, size=k)
        left = set(range(k))
        for metric in METRICS:
            if len(left) > 1:
                order = sorted(left)
                left = {order[i] for i in survivors(tables[metric][order])}
        expected = min(left, key=lambda i: (sizes[i], tables["mse"][i].mean(), i))
        found = select(tables, labels=[f"c{i}" for i in range(k)], sizes=sizes)
        assert set(found.finalists) == left, f"table {seed}"
        assert found.winner == expected, f"table {seed}"


def test_the_random_tables_exercise_every_branch():
    tests = {compare(table(seed)).test for seed in range(30)}
    assert {ANOVA, FRIEDMAN, WILCOXON} <= tests


def test_p_values_are_scipys():
    rng = np.random.default_rng(2)
    normal = rng.normal([[0.0], [0.2], [1.0], [3.0]], 0.5, (4, 10))
    found = compare(normal)
    assert found.test == ANOVA
    reference = stats.f_oneway(*normal)
    assert (found.statistic, found.p_value) == pytest.approx((reference.statistic, reference.pvalue), rel=1e-9)
    tukey = stats.tukey_hsd(*normal).pvalue[found.best]
    assert np.delete(found.p_best, found.best) == pytest.approx(np.delete(tukey, found.best), rel=1e-6, abs=1e-12)
    skewed = np.round(np.exp(4 * normal), 1)
    found = compare(skewed)
    assert found.test == FRIEDMAN
    reference = stats.friedmanchisquare(*skewed)
    assert (found.statistic, found.p_value) == pytest.approx((reference.statistic, reference.pvalue), rel=1e-9)
    posthocs = pytest.importorskip("scikit_posthocs")
    nemenyi = posthocs.posthoc_nemenyi_friedman(skewed.T).to_numpy()[found.best]
    assert np.delete(found.p_best, found.best) == pytest.approx(np.delete(nemenyi, found.best), rel=1e-4, abs=1e-8)


def test_unequal_numbers_of_normal_scores_are_tukey_kramer():
    rng = np.random.default_rng(3)
    scores = rng.normal([[0.0], [0.6], [2.0]], 0.5, (3, 12))
    scores[1, 8:] = np.nan
    scores[2, :3] = np.nan
    found = compare(scores)
    assert found.test == ANOVA
    samples = [row[~np.isnan(row)] for row in scores]
    assert found.p_value == pytest.approx(stats.f_oneway(*samples).pvalue, rel=1e-9)
    tukey = stats.tukey_hsd(*samples).pvalue[found.best]
    assert np.delete(found.p_best, found.best) == pytest.approx(np.delete(tukey, found.best), rel=1e-6)


def test_scale_does_not_matter_to_shapiro_wilk():
    sample = np.random.default_rng(0).normal(size=10)
    assert shapiro_wilk(sample * 1e-26) == pytest.approx(stats.shapiro(sample).pvalue, rel=1e-6)


@pytest.mark.parametrize(
    "scores", [np.full((4, 10), 10_000.0), np.full((2, 10), np.inf), np.tile(np.arange(10.0) ** 3, (3, 1))]
)
def test_equal_columns_do_not_differ(scores):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare(scores)
    assert found.kept == (True,) * len(scores)
    if found.test != ANOVA:
        assert (found.test, found.p_value) == (EQUAL, 1.0)


def test_a_constant_column_is_tested_by_ranks():
    rng = np.random.default_rng(0)
    scores = np.vstack([np.full(10, 10_000.0), rng.normal(5_000, 100, (2, 10))])
    found = compare(scores)
    assert found.test == FRIEDMAN
    assert np.isnan(found.normality[0])
    assert not found.kept[0]


def test_failed_runs_rank_last_and_missing_blocks_are_left_out():
    rng = np.random.default_rng(0)
    scores = rng.lognormal(size=(3, 12))
    scores[2, :] = np.inf
    scores[0, 11] = np.nan
    found = compare(scores)
    assert found.blocks == tuple(range(11))
    assert found.locations[2] == 3
    assert not found.kept[2]
    alone = compare(scores[:, :11])
    assert found.p_best == alone.p_best


def test_two_configurations_with_failures():
    better = np.arange(10.0)
    worse = np.where(np.arange(10) % 3, better + 1 + np.arange(10), np.inf)
    found = compare(np.stack([worse, better]))
    assert found.test == WILCOXON
    assert found.best == 1
    # Infinite distances tie at the top; scipy's test of the same signed ranks.
    distance = np.abs(better - worse)
    ranks = np.sign(np.where(np.isinf(worse), 1.0, worse - better)) * stats.rankdata(distance)
    reference = stats.wilcoxon(ranks)
    assert (found.statistic, found.p_value) == (reference.statistic, reference.pvalue)
    assert found.kept == (False, True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_two_configurations_are_scipys_wilcoxon_exactly(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 10))  # with ties scipy tries all 2^n signs
    pair = np.exp(rng.normal([[0.0], [rng.choice([0.0, 1.0])]], 1.5, (2, n)))
    if seed % 3 == 0:
        pair = np.round(2 * pair)  # ties, and pairs that are equal
    pair[0, 0] = pair.max() + 1000.0  # not normal
    found = compare(pair)
    differ = pair[0] != pair[1]
    reference = stats.wilcoxon(pair[0][differ], pair[1][differ])
    assert found.test == WILCOXON
    assert (found.statistic, found.p_value) == (reference.statistic, reference.pvalue)


def test_ties_go_to_the_smallest_then_to_the_lower_mean():
    same = np.random.default_rng(0).normal(1, 0.1, (3, 10))
    found = select(dict.fromkeys(METRICS, same), labels="abc", sizes=[294, 24, 24])
    assert found.winner == 1 + int(np.argmin(same[1:].mean(axis=1)))
    assert len(found.steps) == 4
    assert "smallest network (24 parameters), of 2 of that size the one with the lowest mean MSE" in found.reason


def test_the_result_explains_itself_and_is_json():
    rng = np.random.default_rng(4)
    mse = rng.lognormal(np.array([[0.0], [0.1], [3.0], [3.0]]), 0.4, (4, 10))
    mse[3] = np.nan
    found = select({"mse": mse, "mae": np.sqrt(mse)}, labels=["a", "b", "c", "d"], sizes=[3, 2, 1, 1])
    text = found.explain()
    assert text.splitlines()[0] == "3 configurations, 10 seeds, significance level 0.05."
    assert "Left out, because none of their runs is there: d." in text
    assert text.endswith(found.reason)
    assert f"{len(found.steps[0].kept)} of 3 go on." in text
    record = json.loads(to_json(found.record()))
    assert record["steps"][0]["comparison"]["p_value"] == found.steps[0].comparison.p_value
    assert record["label"] == found.label
    assert found.left_out == (3,)


def test_one_configuration_needs_no_test():
    found = select({"mse": [[1.0, 2.0]]}, labels=["only"], sizes=[1])
    assert (found.label, found.steps, found.reason) == ("only", (), "Chosen: only, the only one left.")


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.zeros(3), r"`scores` must have shape \(configurations >= 2, seeds\); got \(3,\)."),
        (np.zeros((2, 1)), r"at least 2 seeds that every configuration has, for a rank test; got 1"),
        (np.array([[1, np.nan, 1], [np.nan, 1, np.nan]]), r"got 0. Finish the runs"),
        (np.array([[1, -np.inf], [1, 1]]), r"greater than -inf; got -inf"),
    ],
)
def test_bad_tables(scores, message):
    with pytest.raises(ValueError, match=message):
        compare(scores)


def test_bad_selections():
    with pytest.raises(
        ValueError, match=r"`scores\['mae'\]` must have shape \(configurations, seeds\) = \(2, 3\); got \(2, 2\)"
    ):
        select({"mse": np.ones((2, 3)), "mae": np.ones((2, 2))}, labels="ab", sizes=[1, 2])
    with pytest.raises(ValueError, match=r"at least one run; got none\. Run the study first"):
        select({"mse": np.full((2, 3), np.nan)}, labels="ab", sizes=[1, 2])
    with pytest.raises(ValueError, match="`sizes` must have one entry per configuration, 2; got 1"):
        select({"mse": np.ones((2, 3))}, labels="ab", sizes=[1])
