"""The face for AnnData: the same numbers as DBMD's, put where single-cell people look for them."""

import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dbmd import DBMD, load, open_data, tl

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
        "obsm": "",
        "mask_var": "",
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
    with pytest.raises(ValueError, match="Row 7 of adata holds nan"):
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
    assert adata.uns["dbmd"]["batches"].tolist() == ["9", "10"]
    assert tl.model(adata).sources_.tolist() == [9, 10]  # as in files


# -- some of the variables, and other matrices ---------------------------------------------------------------------


def chosen(adata):
    """Mark all variables but the second as highly variable; return which they are."""
    mask = np.arange(M) != 1
    adata.var["highly_variable"] = mask
    return mask


@pytest.mark.parametrize("form", ["dense", "csr", "backed"])
def test_highly_variable_genes_are_fitted_if_they_are_known(form, tmp_path):
    adata = cells(FORMS.get(form, np.asarray))
    mask = chosen(adata)
    if form == "backed":
        adata.write_h5ad(tmp_path / "cells.h5ad")
        adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    tl.dbmd(adata, R, batch_key="batch", offsets=True, random_state=0, max_iter=300)
    own = cells()[:, mask].copy()
    tl.dbmd(own, R, batch_key="batch", offsets=True, random_state=0, max_iter=300)
    np.testing.assert_allclose(adata.obsm["X_dbmd"], own.obsm["X_dbmd"], atol=2e-3)
    assert adata.varm["dbmd"].shape == (M, R)
    np.testing.assert_allclose(adata.varm["dbmd"][mask], own.varm["dbmd"], atol=2e-2)
    assert not adata.varm["dbmd"][~mask].any()
    assert adata.uns["dbmd"]["offsets"].shape == (3, M)
    assert not adata.uns["dbmd"]["offsets"][:, ~mask].any()
    assert adata.uns["dbmd"]["params"]["mask_var"] == "highly_variable"
    assert tl.model(adata).feature_names_in_.tolist() == own.var_names.tolist()
    if form == "backed":
        adata.file.close()


def test_variables_are_chosen_by_a_column_or_an_array_or_not_at_all():
    adata = cells()
    mask = chosen(adata)
    adata.var["mine"] = pd.array(~mask | (np.arange(M) < 3), dtype="boolean")
    given = {"mine": np.arange(M) < 3, "none": np.ones(M, bool), "array": ~mask | (np.arange(M) > 2)}
    for name, mask_var in {"mine": "mine", "none": None, "array": given["array"]}.items():
        tl.dbmd(adata, 2, mask_var=mask_var, key_added=name, **PARAMS)
        np.testing.assert_array_equal(adata.varm[name].any(axis=1), given[name])
        assert adata.uns[name]["params"]["mask_var"] == ("mine" if name == "mine" else "")
    with pytest.raises(KeyError, match=r"adata.var has no column 'hvg'. It has 'highly_variable', 'mine'"):
        tl.dbmd(adata, 2, mask_var="hvg")
    with pytest.raises(
        ValueError, match=r"mask_var must be true or false for each of the 6 variables. Got bool .*\(5,\)"
    ):
        tl.dbmd(adata, 2, mask_var=mask[1:])
    with pytest.raises(ValueError, match="no genes are left to fit"):
        tl.dbmd(adata, 2, mask_var=np.zeros(M, bool))


def test_known_programs_of_all_genes_or_of_those_that_are_fitted():
    adata = cells()
    mask = chosen(adata)
    known = pd.DataFrame([np.arange(1.0, M + 1)], index=["stress"], columns=adata.var_names)
    for each in (known[known.columns[::-1]], known.loc[:, mask], known.to_numpy()):
        tl.dbmd(adata, R, known=each, **PARAMS)
        np.testing.assert_array_equal(adata.varm["dbmd"][:, 0], np.where(mask, np.arange(1, M + 1), 0))


def test_an_entry_of_obsm_has_programs_in_uns(tmp_path):
    adata = cells()
    chosen(adata)
    adata.obsm["X_pca"] = np.ascontiguousarray(adata.X[:, :4])
    adata.obsm["frame"] = pd.DataFrame(adata.X[:, :3], index=adata.obs_names, columns=["a", "b", "c"])
    tl.dbmd(adata, R, obsm="X_pca", **PARAMS)
    expected = DBMD(R, **PARAMS).fit(adata.obsm["X_pca"])
    np.testing.assert_array_equal(adata.obsm["X_dbmd"], expected.transform(adata.obsm["X_pca"]))
    np.testing.assert_array_equal(adata.uns["dbmd"]["components"], expected.components_.T)
    assert "dbmd" not in adata.varm
    assert tl.model(adata).feature_names_in_.tolist() == [f"X_pca-{i}" for i in range(4)]
    tl.dbmd(adata, 2, obsm="frame", key_added="frame", **PARAMS)
    assert tl.model(adata, "frame").feature_names_in_.tolist() == ["a", "b", "c"]
    # As in the fit, by default.
    other = cells()
    other.obsm["X_pca"] = adata.obsm["X_pca"][::-1]
    tl.transform(other, adata)
    np.testing.assert_array_equal(other.obsm["X_dbmd"], adata.obsm["X_dbmd"][::-1])
    with pytest.raises(KeyError, match=r"adata.obsm has no key 'X_umap'. It has 'X_pca', 'frame', 'X_dbmd', 'X_frame'"):
        tl.dbmd(adata, R, obsm="X_umap")
    with pytest.raises(ValueError, match="leave it out with obsm"):
        tl.dbmd(adata, R, obsm="X_pca", mask_var="highly_variable")


# -- the model -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference():
    """Cells with a model of their highly variable genes that has all parts, written and read."""
    import tempfile
    from pathlib import Path

    adata = cells(sparse.csr_matrix, dtype=np.float64)
    chosen(adata)
    tl.dbmd(adata, R, batch_key="batch", layer="logged", brightness=True, offsets=True, random_state=0, max_iter=300)
    with tempfile.TemporaryDirectory() as folder:
        adata.write_h5ad(Path(folder, "cells.h5ad"))
        return adata, anndata.read_h5ad(Path(folder, "cells.h5ad"))


def test_the_model_comes_back_from_a_file_as_it_was(reference, tmp_path):
    before, after = reference
    for adata in (before, after, after.copy(), after[:7]):
        model = tl.model(adata)
        np.testing.assert_array_equal(model.components_, before.varm["dbmd"][before.var["highly_variable"]].T)
        np.testing.assert_array_equal(model.offsets_[:, 1:], before.uns["dbmd"]["offsets"][:, 2:])
        assert model.sources_.tolist() == ["a", "b10", "c"]
        assert model.labels_.tolist() == before.obs["dbmd"].cat.codes.tolist()
        assert model.fit_info_["data"] == {"source": "batch", "layer": "logged"}
    loaded = load(tl.model(after).save(tmp_path / "model"))
    data = open_data(before, source="batch", layer="logged", hvg=True)
    H, brightness = loaded.transform(data, return_brightness=True)
    np.testing.assert_array_equal(H, before.obsm["X_dbmd"])
    np.testing.assert_array_equal(brightness, before.obs["dbmd_brightness"])


@pytest.mark.parametrize("kind", ["adata", "model", "path"])
def test_a_model_is_applied_to_other_cells_by_the_names_of_genes(kind, reference, tmp_path):
    before, after = reference
    model = {"adata": after, "model": tl.model(after), "path": tmp_path / "model"}[kind]
    if kind == "path":
        tl.model(after).save(model)
    order = np.random.default_rng(1).permutation(M)
    new = cells(dtype=np.float64)[::2, order].copy()  # all genes, in another order
    result = tl.transform(new, model, key_added="mapped", copy=True)
    assert "X_mapped" not in new.obsm
    np.testing.assert_allclose(result.obsm["X_mapped"], before.obsm["X_dbmd"][::2], atol=1e-7)
    np.testing.assert_allclose(result.obs["mapped_brightness"], before.obs["dbmd_brightness"][::2], atol=1e-7)
    assert result.obs["mapped"].tolist() == before.obs["dbmd"][::2].tolist()
    new.obs["lane"] = new.obs["batch"]
    del new.obs["batch"]  # then the batch is not known, unless it is named
    assert abs(tl.transform(new, model, copy=True).obsm["X_dbmd"] - before.obsm["X_dbmd"][::2]).max() > 1e-3
    assert tl.transform(new, model, batch_key="lane") is None
    np.testing.assert_allclose(new.obsm["X_dbmd"], before.obsm["X_dbmd"][::2], atol=1e-7)


def test_what_a_model_cannot_be_applied_to(reference):
    _, after = reference
    few = cells()[:, [0, 2, 3]].copy()
    with pytest.raises(ValueError, match=r"lacks 2 of 5 variables: 'gene4', 'gene5'\. Variables are matched by name"):
        tl.transform(few, after)
    with pytest.raises(KeyError, match=r"uns\['other'\] has no model of dbmd. Models are stored in 'dbmd'"):
        tl.transform(few, after, key="other")
    with pytest.raises(KeyError, match=r"stored in no key: fit one with dbmd.tl.dbmd"):
        tl.model(few)
    with pytest.raises(TypeError, match=r"model must be a DBMD, an AnnData with one, or a directory. Got int"):
        tl.transform(few, 3)
    with pytest.raises(TypeError, match=r"adata must be an AnnData. Got ndarray"):
        tl.transform(few.X, after)


# -- the estimator -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["dense", "csr", "csc", "backed"])
def test_the_estimator_takes_adata(form, tmp_path):
    adata = cells(FORMS.get(form, np.asarray))
    chosen(adata)
    X, batches = adata.X, adata.obs["batch"].to_numpy(dtype=str)
    if form == "backed":
        adata.write_h5ad(tmp_path / "cells.h5ad")
        adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    model, expected = DBMD(R, **PARAMS).fit(adata, source="batch"), DBMD(R, **PARAMS).fit(X, source=batches)
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-4, atol=1e-5)
    assert model.feature_names_in_.tolist() == adata.var_names.tolist()  # all of them
    assert model.sources_.tolist() == ["a", "b10", "c"]
    H = expected.transform(X, source=batches)
    np.testing.assert_allclose(model.transform(adata, source="batch"), H, atol=1e-4)
    np.testing.assert_allclose(model.transform(adata, source=batches), H, atol=1e-4)
    np.testing.assert_allclose(model.transform(adata), H, atol=1e-4)  # the source is as in the fit
    np.testing.assert_array_equal(model.predict(adata, source="batch"), H.argmax(axis=1))
    assert model.score(adata, source="batch") == pytest.approx(expected.score(X, source=batches), rel=1e-4)
    other = DBMD(R, **PARAMS).fit(open_data(adata, source="batch", layer="logged", hvg=True, label="batch"))
    assert other.n_features_in_ == M - 1
    assert other.fit_info_["classes"] == ["a", "b10", "c"]
    if form == "backed":
        adata.file.close()


def test_the_estimator_says_what_adata_has():
    adata = cells()
    with pytest.raises(KeyError, match=r"adata.obs has no column 'lab'. It has 'batch', 'depth'"):
        DBMD(R).fit(adata, source="lab")
    model = DBMD(R, random_state=0).fit(adata, sample_weight="depth")
    weighted = DBMD(R, random_state=0).fit(adata.X, sample_weight=adata.obs["depth"])
    np.testing.assert_array_equal(model.components_, weighted.components_)
    np.testing.assert_array_equal(model.transform(adata[:, ::-1]), model.transform(adata))
    with pytest.raises(ValueError, match="lacks 1 of 6 variables: 'gene0'"):
        model.predict(adata[:, 1:])
    adata.var_names = ["same"] * M
    with pytest.raises(ValueError, match=r"'same' occurs twice. Call adata.var_names_make_unique"):
        DBMD(R).fit(adata)
    adata.X = adata.X.astype(object)
    with pytest.raises(TypeError, match=r"must hold numbers. Got object"):
        DBMD(R).fit(adata)


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
    with pytest.raises(ValueError, match="must have a value for every cell"):
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
