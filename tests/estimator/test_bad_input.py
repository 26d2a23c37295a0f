"""What cannot be used is refused, by name."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from dbmd import DBMD
from estimator.making import fitted


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csr_array], ids=["dense", "matrix", "array"])
@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_number_that_is_not_finite_is_named_with_its_place(form, value, name, dtype, data, model):
    X = data[0].astype(dtype)
    X[X < -3] = 0.0
    X[31, 5] = value
    X[77, 1] = np.nan  # the first is meant
    bad = form(X)
    with pytest.raises(ValueError, match=rf"X contains {name}.* row 31, column 5\. .*finite"):
        DBMD(3).fit(bad)
    for method in (model.transform, model.predict, model.score):
        with pytest.raises(ValueError, match="row 31, column 5"):
            method(bad)


def test_the_place_is_right_in_large_data_and_after_empty_rows():
    X = np.zeros((9000, 3))
    X[8500, 2] = np.nan
    with pytest.raises(ValueError, match="row 8500, column 2"):
        DBMD(2).fit(X)
    with pytest.raises(ValueError, match="row 8500, column 2"):
        DBMD(2).fit(sparse.csr_array(X))


def test_large_finite_numbers_are_no_infinity():
    """Their sum overflows; they do not."""
    X = np.full((40, 3), 3e38, np.float32)
    X[::2] = -3e38
    DBMD(2).fit(np.float64(1e-30) * X)
    from dbmd.dataset._finite import check_finite

    check_finite(np.full((40, 3), 3e38, np.float32))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(5), "Expected 2D array, got 1D array"),
        (np.zeros((2, 3, 4)), "dim 3"),
        (np.zeros((0, 3)), r"0 sample\(s\)"),
        (np.zeros((5, 0)), r"0 feature\(s\)"),
        ([["a", "b"]], "not compatible with arrays of bytes/strings"),
        (np.array([["a", 1.0]], dtype=object), "could not convert string to float"),
        (np.zeros((5, 2), complex), "Complex data not supported"),
    ],
    ids=["1D", "3D", "no samples", "no features", "text", "text among numbers", "complex"],
)
def test_data_of_a_wrong_shape_or_kind_is_refused(X, message):
    with pytest.raises(ValueError, match=message):
        DBMD(1).fit(X)


def test_more_components_than_samples_are_refused(data):
    with pytest.raises(
        ValueError, match=r"'n_components' parameter of DBMD must be at most the number of samples.*=6 .* = 5"
    ):
        DBMD(6).fit(data[0][:5])


WRONG_SOURCES = {
    "short": (np.zeros(149), ValueError, r"source must have one label for each of the 150 samples.*Got shape \(149,\)"),
    "column": (np.zeros((150, 1)), ValueError, r"one label for each of the 150 samples.*Got shape \(150, 1\)"),
    "scalar": ("lab", ValueError, r"'lab' is the name of a column, and ndarray has no columns"),
    "None": (["a"] * 149 + [None], ValueError, "no missing labels. Got None for sample 149"),
    "NaN": (np.r_[np.zeros(149), np.nan], ValueError, "no missing labels. Got nan for sample 149"),
    "NaN among text": (["a"] * 149 + [np.nan], ValueError, "no missing labels. Got nan for sample 149"),
    "NaN among objects": (
        np.array(["a"] * 149 + [np.nan], object),
        ValueError,
        "missing labels. Got nan for sample 149",
    ),
    "pandas text": (pd.Series(["a"] * 149 + [None]), ValueError, "no missing labels. Got .* for sample 149"),
    "pandas NA": (pd.Series(["a"] * 149 + [pd.NA], dtype="string"), ValueError, "no missing labels. .* for sample 149"),
    "pandas Int64": (pd.Series([1] * 149 + [None], dtype="Int64"), ValueError, "no missing labels. .* for sample 149"),
    "NaT": (pd.to_datetime(["2020-01-01"] * 149 + [None]), ValueError, "no missing labels. Got NaT for sample 149"),
    "polars null": (pl.Series(["a"] * 149 + [None]), ValueError, "no missing labels. Got None for sample 149"),
    "mixed": (["a"] * 149 + [3], TypeError, "source must have labels of one kind.*Got int, str"),
    "mixed objects": (np.array(["a"] * 149 + [3], object), TypeError, "labels of one kind.*Got int, str"),
}


@pytest.mark.parametrize("name", WRONG_SOURCES)
def test_a_wrong_source_is_refused(name, model, data):
    X, _ = data
    source, error, message = WRONG_SOURCES[name]
    for method in (clone(model).fit, model.transform):
        with pytest.raises(error, match=message):
            method(X, source=source)


@pytest.mark.parametrize("method", ["fit_predict", "fit_transform", "predict", "predict_proba", "score"])
def test_every_method_looks_at_the_source(method, model, data):
    X, _ = data
    with pytest.raises(ValueError, match="one label for each of the 150 samples"):
        getattr(clone(model) if method.startswith("fit") else model, method)(X, source=np.zeros(3))


def test_the_width_of_memberships_is_checked(model):
    with pytest.raises(ValueError, match=r"H must have n_components = 3 columns. Got shape \(4, 2\)"):
        model.inverse_transform(np.zeros((4, 2)))


@pytest.mark.parametrize("method", ["transform", "predict", "predict_proba", "score", "inverse_transform"])
def test_before_a_fit_there_is_nothing_to_use(method, data):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(DBMD(), method)(data[0])


@pytest.mark.parametrize("method", ["transform", "predict", "predict_proba", "score"])
def test_new_data_must_have_the_features_of_the_fit(method, model, data):
    with pytest.raises(ValueError, match="X has 7 features, but DBMD is expecting 8 features as input"):
        getattr(model, method)(data[0][:, :7])


def test_predict_proba_says_what_to_do_with_sparse_data(model, data):
    with pytest.raises(TypeError, match=r"predict_proba takes no sparse data\. Call transform"):
        model.predict_proba(sparse.csr_array(data[0]))


def test_a_wrong_parameter_is_named_when_fitting(data):
    """All of them in test_config.py; here, that a fit looks, and before it touches the data."""
    with pytest.raises(ValueError, match=r"'alpha' parameter of DBMD must be .* Got 0.5"):
        DBMD(alpha=0.5).fit("not data")


def test_a_start_of_the_wrong_shape_is_refused(data):
    with pytest.raises(ValueError, match=r"\(n_components, n_features\) = \(3, 8\). Got \(8, 3\)"):
        DBMD(3, init=np.zeros((8, 3))).fit(data[0])


def test_an_engine_may_be_a_callable_that_makes_one(data):
    from dbmd.engines.local import Engine

    X, source = data
    used = []

    def engine(nodes):
        used.append(len(nodes))
        return Engine(nodes)

    model = fitted(X, source, engine=engine, n_nodes=3)
    assert used == [3]
    assert_array_equal(model.components_, fitted(X, source, n_nodes=3).components_)
