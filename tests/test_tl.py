"""The face for AnnData: the same numbers as DBMD's, put where single-cell people look for them."""

import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dbmd import DBMD, tl

N, M, R = 120, 6, 3


def cells(form=np.asarray, *, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.dirichlet(np.full(R, 0.4), N) @ rng.gamma(1.0, 3.0, (R, M)) * (rng.random((N, M)) < 0.8)
    X += rng.gamma(1.0, 0.2, (N, M)) * (X > 0)
    batch = np.array(["b10", "a", "c"])[np.arange(N) % 3]
    obs = pd.DataFrame({"batch": pd.Categorical(batch), "depth": X.sum(axis=1)}, index=[f"cell{i}" for i in range(N)])
    adata = anndata.AnnData(form(X.astype(dtype)), obs=obs, var=pd.DataFrame(index=[f"gene{i}" for i in range(M)]))
    adata.layers["logged"] = form(np.log1p(X).astype(dtype))
    return adata


FORMS = {"dense": np.asarray, "csr": sparse.csr_matrix, "csr array": sparse.csr_array, "csc": sparse.csc_matrix}
PARAMS = {"inference": "map", "alpha": 1.5, "random_state": 0}


def assert_is_fit(adata, model, X, source, key="dbmd"):
    """The results in adata are those of the model."""
    H = model.transform(X, source=source)
    np.testing.assert_array_equal(adata.obsm[f"X_{key}"], H)
    np.testing.assert_array_equal(adata.varm[key], model.components_.T)
    assert isinstance(adata.obs[key].dtype, pd.CategoricalDtype)
    assert adata.obs[key].cat.categories.tolist() == [str(k) for k in range(R)]
    np.testing.assert_array_equal(adata.obs[key].astype(int), H.argmax(axis=1))
    found = adata.uns[key]
    assert found["batches"].tolist() == model.sources_.astype(str).tolist()
    np.testing.assert_array_equal(found["noise_variance"], model.noise_variance_)
    assert found["objective"] == model.objective_
    assert found["n_iter"] == model.n_iter_
    assert found["explained_variance"] == model.fit_info_["explained"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layer", [None, "logged"])
@pytest.mark.parametrize("batch_key", [None, "batch"])
def test_results_are_those_of_dbmd_on_the_same_arrays(form, layer, batch_key):
    adata = cells(FORMS[form])
    assert tl.dbmd(adata, n_components=R, batch_key=batch_key, layer=layer, **PARAMS) is None
    X = adata.X if layer is None else adata.layers[layer]
    source = None if batch_key is None else adata.obs[batch_key].to_numpy(dtype=str)
    assert_is_fit(adata, DBMD(R, **PARAMS).fit(X, source=source), X, source)
    assert adata.obsm["X_dbmd"].dtype == np.float32
    np.testing.assert_allclose(adata.obsm["X_dbmd"].sum(axis=1), 1.0, rtol=1e-6)
    assert adata.uns["dbmd"]["params"] == {
        "n_components": R,
        "batch_key": batch_key or "",
        "layer": layer or "",
        **PARAMS,
    }


def test_another_key_puts_results_beside_the_first():
    adata = cells()
    tl.dbmd(adata, R, random_state=0)
    tl.dbmd(adata, 2, key_added="other", random_state=0)
    assert adata.obsm["X_dbmd"].shape == (N, R)
    assert adata.obsm["X_other"].shape == (N, 2)
    assert adata.varm["other"].shape == (M, 2)
    assert {"dbmd", "other"} <= set(adata.obs)
    assert {"dbmd", "other"} <= set(adata.uns)


def test_a_copy_leaves_the_original_alone():
    adata = cells(sparse.csr_matrix)
    before = adata.copy()
    result = tl.dbmd(adata, R, batch_key="batch", copy=True, **PARAMS)
    assert "X_dbmd" in result.obsm
    assert not adata.obsm
    assert not adata.varm
    assert not adata.uns
    assert list(adata.obs) == list(before.obs)
    assert (adata.X != before.X).nnz == 0


def test_a_view_gets_results_of_its_own_cells_and_its_parent_none():
    adata = cells()
    view = adata[adata.obs["batch"] != "c"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", anndata.ImplicitModificationWarning)  # AnnData says that it makes a copy
        tl.dbmd(view, R, batch_key="batch", **PARAMS)
    own = adata[adata.obs["batch"] != "c"].copy()
    assert_is_fit(view, DBMD(R, **PARAMS).fit(own.X, source=own.obs["batch"].astype(str)), own.X, own.obs["batch"])
    assert view.uns["dbmd"]["batches"].tolist() == ["a", "b10"]  # not c, which is a category without cells
    assert not adata.obsm


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("batch_key", [None, "batch"])
def test_what_is_in_a_file_is_read_from_it_and_gives_the_same(form, batch_key, tmp_path):
    cells(FORMS[form]).write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    tl.dbmd(backed, R, batch_key=batch_key, **PARAMS)
    assert backed.isbacked
    whole = cells(FORMS[form])
    tl.dbmd(whole, R, batch_key=batch_key, **PARAMS)
    np.testing.assert_allclose(backed.obsm["X_dbmd"], whole.obsm["X_dbmd"], atol=1e-5)
    np.testing.assert_allclose(backed.varm["dbmd"], whole.varm["dbmd"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(backed.uns["dbmd"]["noise_variance"], whole.uns["dbmd"]["noise_variance"], rtol=1e-4)
    assert backed.uns["dbmd"]["batches"].tolist() == whole.uns["dbmd"]["batches"].tolist()
    copied = tl.dbmd(backed, R, batch_key=batch_key, copy=True, **PARAMS)
    assert not copied.isbacked
    np.testing.assert_allclose(copied.obsm["X_dbmd"], whole.obsm["X_dbmd"], atol=1e-5)
    backed.file.close()


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_all_parts_of_the_model_are_there(form, tmp_path):
    adata = cells(FORMS[form], dtype=np.float64)
    known = pd.DataFrame([np.arange(1.0, M + 1)], index=["stress"], columns=adata.var_names)
    params = {"log": True, "brightness": True, "offsets": True, "random_state": 0, "max_iter": 300}
    tl.dbmd(adata, R, batch_key="batch", known=known[known.columns[::-1]], **params)
    batches = adata.obs["batch"].to_numpy(dtype=str)
    model = DBMD(R, known=known.to_numpy(), **params).fit(adata.X, source=batches)
    H, brightness = model.transform(adata.X, source=batches, return_brightness=True)
    np.testing.assert_array_equal(adata.obsm["X_dbmd"], H)
    np.testing.assert_array_equal(adata.obs["dbmd_brightness"], brightness)
    np.testing.assert_array_equal(adata.uns["dbmd"]["offsets"], model.offsets_)
    np.testing.assert_array_equal(adata.varm["dbmd"][:, 0], known.to_numpy()[0])
    assert adata.obs["dbmd"].cat.categories.tolist() == ["stress", "pattern 1", "pattern 2"]
    adata.write_h5ad(tmp_path / "out.h5ad")


def test_cells_with_missing_values_may_be_left_out(tmp_path):
    adata = cells()
    adata.X[7, 2] = np.nan
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    for each in (adata, backed):
        tl.dbmd(each, R, missing="drop", random_state=0)
        assert np.flatnonzero(each.obs["dbmd"].isna()).tolist() == [7]
    backed.file.close()


def test_a_file_with_what_is_no_number_is_refused(tmp_path):
    adata = cells()
    adata.X[7, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*row 7, column 2"):
        tl.dbmd(adata, R)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    with pytest.raises(ValueError, match="Row 7 of adata holds nan"):
        tl.dbmd(backed, R)
    assert not backed.obsm
    backed.file.close()


@pytest.mark.parametrize(
    "params", [{}, {"inference": "map", "alpha": [1.0, 1.5, 2.0]}, {"solver_options": {"tol": 1e-9}, "n_nodes": None}]
)
def test_results_can_be_written_and_read_back(params, tmp_path):
    adata = cells(sparse.csr_matrix)
    tl.dbmd(adata, R, batch_key="batch", random_state=0, **params)
    adata.write_h5ad(tmp_path / "out.h5ad")
    read = anndata.read_h5ad(tmp_path / "out.h5ad")
    np.testing.assert_array_equal(read.obsm["X_dbmd"], adata.obsm["X_dbmd"])
    np.testing.assert_array_equal(read.varm["dbmd"], adata.varm["dbmd"])
    assert read.obs["dbmd"].tolist() == adata.obs["dbmd"].tolist()
    assert read.uns["dbmd"]["batches"].tolist() == ["a", "b10", "c"]
    assert read.uns["dbmd"]["objective"] == adata.uns["dbmd"]["objective"]
    assert read.uns["dbmd"]["params"]["n_components"] == R


def test_batches_that_are_numbers_are_named_by_them():
    adata = cells()
    adata.obs["lane"] = np.arange(N) % 2 + 9
    tl.dbmd(adata, R, batch_key="lane", **PARAMS)
    assert adata.uns["dbmd"]["batches"].tolist() == ["10", "9"]


# -- errors --------------------------------------------------------------------------------------------------------


def test_unknown_keys_are_told_with_those_that_are_there():
    adata = cells()
    with pytest.raises(KeyError, match=r"no layer 'counts'. It has 'logged'"):
        tl.dbmd(adata, R, layer="counts")
    with pytest.raises(KeyError, match=r"no column 'lab'. It has 'batch', 'depth'"):
        tl.dbmd(adata, R, batch_key="lab")
    assert not adata.obsm


def test_a_batch_must_be_known_for_every_cell():
    adata = cells()
    adata.obs["batch"] = adata.obs["batch"].where(np.arange(N) != 5)
    with pytest.raises(ValueError, match="must name a batch for every cell"):
        tl.dbmd(adata, R, batch_key="batch")


def test_without_x_a_layer_must_be_named():
    adata = anndata.AnnData(obs=pd.DataFrame(index=["a", "b"]), var=pd.DataFrame(index=["x"]))
    with pytest.raises(ValueError, match="layer"):
        tl.dbmd(adata, 1)


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="alpha"):
        tl.dbmd(cells(), R, alpha=0.5)
    with pytest.raises(ValueError, match="n_components"):
        tl.dbmd(cells(), 1000)
    with pytest.raises(TypeError, match="n_cluster"):
        tl.dbmd(cells(), R, n_cluster=3)
