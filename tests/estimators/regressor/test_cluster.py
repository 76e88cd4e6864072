"""Tables of Dask: the same fit as from memory, block by block, factors merged on a cluster."""

from dataclasses import replace

import numpy as np
import pytest

import flm

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


def rows(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (n, 2))
    return X, np.sin(9 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=n)


def test_blocks_on_a_cluster_are_the_whole():
    X, y = rows(6000)
    asked = flm.FLMRegressor(max_columns=64, frequencies="lattice")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        model = asked.fit(da.from_array(X, chunks=(1000, 1)), da.from_array(y, chunks=700))
    fit = model._state.fit
    assert fit.model.data.count == 6000
    # the same frequencies and prior, all rows at once
    sample = fit.sample(X, y[:, None], np.ones(6000), is_first=True)
    whole = replace(fit, model=fit.model.with_rows(sample.compressed(fit.model.waves)))
    np.testing.assert_allclose(model.predict(X[:200]), whole.mean(X[:200])[:, 0], rtol=1e-8, atol=1e-8)
    truth = np.sin(9 * X[:, 0]) + X[:, 1] ** 2
    assert np.sqrt(((model.predict(X) - truth) ** 2).mean()) < 0.04
    assert model.noise_ == pytest.approx(0.2, rel=0.05)


def test_what_blocks_cannot_have_is_refused():
    X, y = rows(100)
    blocks = da.from_array(X, chunks=(50, 2))
    with pytest.raises(ValueError, match=r"^`y` must be of Dask where `X` is; got ndarray\."):
        flm.FLMRegressor().fit(blocks, y)
    with pytest.raises(ValueError, match=r"^`sample_weight` must be None for tables of Dask"):
        flm.FLMRegressor().fit(blocks, da.from_array(y, chunks=50), sample_weight=np.ones(100))
    X[70, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN"):
        flm.FLMRegressor().fit(da.from_array(X, chunks=(50, 2)), da.from_array(y, chunks=50))


def test_data_frames_of_dask():
    frames = pytest.importorskip("dask.dataframe", reason="needs pyarrow", exc_type=ImportError)
    import pandas as pd

    X, y = rows(4000)
    table = frames.from_pandas(pd.DataFrame(X, columns=["a", "b"]).assign(y=y), npartitions=3)
    model = flm.FLMRegressor(max_columns=64).fit(table[["a", "b"]], table["y"])
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.noise_ == pytest.approx(0.2, rel=0.05)
