"""Every form of data goes in and comes out."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from estimator.making import fitted

# -- data in -------------------------------------------------------------------------------------------------------

FORMS = {
    "list": lambda X: X.tolist(),
    "Fortran order": np.asfortranarray,
    "every second row of a larger array": lambda X: np.repeat(X, 2, axis=0)[::2],
    "CSR matrix": sparse.csr_matrix,
    "CSR array": sparse.csr_array,
    "CSC array": sparse.csc_array,
    "pandas": lambda X: pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])]),
    "polars": lambda X: pl.DataFrame(X, schema=[f"f{i}" for i in range(X.shape[1])]),
    "object": lambda X: X.astype(object),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_the_data_does_not_matter(form, data):
    X, source = data
    X = np.where(np.abs(X) < 1.0, 0.0, X)  # zeros, so that a sparse matrix is one
    dense = fitted(X, source)
    model = fitted(FORMS[form](X), source)
    assert_allclose(model.components_, dense.components_, rtol=1e-7, atol=1e-8)
    assert_allclose(model.noise_variance_, dense.noise_variance_, rtol=1e-8)
    assert_array_equal(model.labels_, dense.labels_)
    expected = dense.transform(X, source=source)
    assert_allclose(model.transform(FORMS[form](X), source=source), expected, atol=1e-6)
    assert_allclose(model.score(FORMS[form](X), source=source), dense.score(X, source=source), rtol=1e-7)


@pytest.mark.parametrize(
    "form",
    [list, np.array, pd.Series, pl.Series, lambda s: pd.Series(s, dtype="category"), lambda s: np.array(s, object)],
    ids=["list", "array", "pandas", "polars", "category", "object"],
)
def test_the_form_of_the_source_does_not_matter(form, data):
    X, source = data
    labels = [("lab A", "lab B", "lab C")[c] for c in source]
    model = fitted(X, form(labels))
    assert model.sources_.tolist() == ["lab A", "lab B", "lab C"]
    assert_array_equal(model.components_, fitted(X, source).components_)


def test_a_memory_map_goes_in(tmp_path, data):
    X, source = data
    file = np.memmap(tmp_path / "X", dtype=np.float64, mode="w+", shape=X.shape)
    file[:] = X
    file.flush()
    mapped = np.memmap(tmp_path / "X", dtype=np.float64, mode="r", shape=X.shape)
    model = fitted(mapped, source)
    assert_array_equal(model.components_, fitted(X, source).components_)
    assert_array_equal(model.transform(mapped, source=source), model.transform(X, source=source))


def test_fitting_and_transforming_leave_the_data_alone(data):
    X, source = data
    for form in (np.array, sparse.csr_array):
        given, labels, init = form(X), source.copy(), X[:3].copy()
        for array in (given if isinstance(given, np.ndarray) else given.data, labels, init):
            array.flags.writeable = False
        model = fitted(given, labels, init=init)
        model.transform(given, source=labels)
        assert_array_equal(init, X[:3])
        assert_array_equal(np.asarray(given.todense() if sparse.issparse(given) else given), X)


def test_integers_are_taken_as_numbers():
    X = np.random.default_rng(0).integers(0, 10, (40, 4))
    assert_array_equal(fitted(X).components_, fitted(X.astype(float)).components_)


# -- data out ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output(name, frame, data):
    X, source = data
    model = fitted(X, source)
    H = model.transform(X, source=source)
    model.set_output(transform=name)
    out = model.transform(X, source=source)
    assert isinstance(out, frame)
    assert list(out.columns) == ["dbmd0", "dbmd1", "dbmd2"]
    assert_array_equal(out.to_numpy(), H)
    assert isinstance(model.fit_transform(X, source=source), frame)
    assert isinstance(model.predict_proba(X, source=source), np.ndarray)
    assert_array_equal(model.predict(X, source=source), H.argmax(axis=1))


def test_set_output_keeps_the_index(data):
    X, _ = data
    frame = pd.DataFrame(X, index=np.arange(len(X)) + 1000)
    frame.columns = frame.columns.astype(str)
    model = fitted(frame).set_output(transform="pandas")
    assert_array_equal(model.transform(frame).index, frame.index)


def test_feature_names(data):
    X, _ = data
    names = [f"feature {i}" for i in range(X.shape[1])]
    model = fitted(pd.DataFrame(X, columns=names))
    assert model.feature_names_in_.tolist() == names
    assert model.n_features_in_ == len(names)
    assert model.get_feature_names_out().tolist() == ["dbmd0", "dbmd1", "dbmd2"]
    assert not hasattr(fitted(X), "feature_names_in_")
    with pytest.raises(ValueError, match="feature names"):
        model.transform(pd.DataFrame(X, columns=names[::-1]))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_float32_stays_float32_and_near_to_float64(form, data):
    """Tolerances: components 1e-3, memberships 1e-2, relative to their size, after as many iterations."""
    X, source = data
    parameters = {"init": X[:3], "max_iter": 8, "tol": 0.0}
    double = fitted(form(X), source, **parameters)
    single = fitted(form(X.astype(np.float32)), source, **parameters)
    H = single.transform(form(X.astype(np.float32)), source=source)
    assert single.components_.dtype == H.dtype == np.float32
    assert single.predict_proba(X.astype(np.float32), source=source).dtype == np.float32
    assert single.inverse_transform(H).dtype == np.float32
    assert double.components_.dtype == np.float64
    error = np.linalg.norm(single.components_ - double.components_) / np.linalg.norm(double.components_)
    assert 0.0 < error < 1e-3
    assert_allclose(single.noise_variance_, double.noise_variance_, rtol=1e-3)
    assert_allclose(H, double.transform(form(X), source=source), atol=1e-2)
    assert_allclose(H.sum(axis=1), 1.0, atol=1e-6)
