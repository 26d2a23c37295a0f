"""Clones, pipelines, searches and warm starts."""

import inspect
import warnings
from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dbmd import DBMD
from dbmd.config import Config
from estimator.making import fitted, mixture


def test_the_signature_is_the_table_of_parameters():
    parameters = inspect.signature(DBMD).parameters
    assert {p.name: p.default for p in parameters.values()} == {f.name: f.default for f in fields(Config)}
    assert list(parameters) == [f.name for f in fields(Config)]
    assert [p.name for p in parameters.values() if p.kind is not p.KEYWORD_ONLY] == ["n_components"]


def test_a_clone_has_the_parameters_and_not_the_fit(model):
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "components_")


def test_in_a_pipeline(data):
    X, _ = data
    pipeline = make_pipeline(StandardScaler(), DBMD(3, random_state=0)).fit(X)
    scaled = StandardScaler().fit_transform(X)
    assert_array_equal(pipeline.transform(X), fitted(scaled).transform(scaled))
    assert_array_equal(pipeline.predict(X), pipeline[-1].labels_)
    assert pipeline.get_feature_names_out().tolist() == ["dbmd0", "dbmd1", "dbmd2"]


def test_a_grid_search_finds_the_number_of_components():
    X, _, _, _ = mixture(n=300, sigmas=(0.3,))
    search = GridSearchCV(DBMD(random_state=0), {"n_components": [1, 2, 3]}, cv=3).fit(X)
    assert search.best_params_ == {"n_components": 3}
    assert search.best_estimator_.components_.shape == (3, X.shape[1])


@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("noise", ["source", "shared", 0.5])
def test_a_warm_start_continues(noise, alpha, data):
    """Short fits, each from where the last one ended: the objective never rises, and ends where one long fit ends.

    By plain alternation: what is known of the way so far ends with a fit.
    """
    X, source = data
    plain = {"noise": noise, "alpha": alpha, "lam": 0.5, "tol": 0.0, "inference": "map", "random_state": 0}
    model = DBMD(3, warm_start=True, max_iter=2, **plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        values = [model.fit(X, source=source).objective_ for _ in range(20)]
    assert np.diff(values).max() <= 1e-9 * (np.abs(values).max() + X.size)
    long = fitted(X, source, max_iter=40, **plain)
    assert_allclose(values[-1], long.objective_, atol=1e-6 * X.size)


def test_without_a_warm_start_a_second_fit_begins_anew(data):
    X, source = data
    model = fitted(X, source)
    first = model.components_.copy()
    assert_array_equal(model.fit(X, source=source).components_, first)
