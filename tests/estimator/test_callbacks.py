"""scikit-learn's callbacks are called for the fit and for each iteration."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV

from dbmd import DBMD
from estimator.making import fitted, run_python

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")


class Recorder:
    """A callback that notes what it is told, and asks to stop after some iterations."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.events = []
        self.models = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.events.append(f"end {context.task_name}")
        if context.task_name == "iteration":
            self.X, self.y, self.metadata = X, y, metadata
            self.models.append(fitted_estimator)
        return self.stop_after is not None and len(self.models) >= self.stop_after

    def teardown(self, estimator, context):
        self.events.append("teardown")


def test_a_callback_hears_of_the_fit_and_of_each_iteration(data):
    X, source = data
    recorder = Recorder()
    model = DBMD(3, random_state=0).set_callbacks(recorder).fit(X, source=source)
    iterations = ["begin iteration", "end iteration"] * model.n_iter_
    assert recorder.events == ["setup", "begin fit", *iterations, "end fit", "teardown"]
    assert_array_equal(recorder.X, X)


def test_a_callback_gets_a_model_that_can_be_used(data):
    X, source = data
    recorder = Recorder()
    model = DBMD(3, random_state=0, init=X[:3]).set_callbacks(recorder).fit(X, source=source)
    scores = [one.score(X, source=source) for one in recorder.models]
    assert_allclose(scores[-1], model.score(X, source=source), rtol=1e-12)
    assert scores[0] < scores[-1]
    assert recorder.models[0].transform(X, source=source).shape == (len(X), 3)


def test_a_callback_that_asks_to_stop_stops_the_fit(data):
    X, source = data
    model = DBMD(3, random_state=0, init=X[:3], tol=0.0).set_callbacks(Recorder(stop_after=2))
    model.fit(X, source=source)  # and does not warn: it was stopped, it did not run out
    assert model.n_iter_ == 2
    assert_array_equal(model.components_, fitted(X, source, init=X[:3], tol=0.0, max_iter=2).components_)


def test_a_callback_is_torn_down_when_the_fit_fails(data):
    X, source = data
    recorder = Recorder()

    def engine(nodes):
        raise RuntimeError("no nodes today")

    with pytest.raises(RuntimeError, match="no nodes today"):
        DBMD(3, engine=engine).set_callbacks(recorder).fit(X, source=source)
    assert recorder.events[-1] == "teardown"


@pytest.mark.parametrize("n_init", [1, 3])
def test_the_progress_bar_of_scikit_learn_works(n_init, data, capsys):
    X, source = data
    model = DBMD(3, random_state=0, n_init=n_init).set_callbacks(callback.ProgressBar()).fit(X, source=source)
    assert "DBMD" in capsys.readouterr().out
    assert_array_equal(model.components_, fitted(X, source, n_init=n_init).components_)


def test_the_progress_bar_of_a_grid_search_works(data, capsys):
    X, _ = data
    search = GridSearchCV(DBMD(random_state=0), {"n_components": [2, 3]}, cv=2).set_callbacks(callback.ProgressBar())
    search.fit(X)
    assert "DBMD" in capsys.readouterr().out


def log_likelihood(model, X, y, source=None):
    return model.score(X, source=source)


def test_the_scoring_monitor_of_scikit_learn_logs_a_score_for_each_iteration(data):
    """It scores only where it is given y, which is ignored otherwise; the sources are metadata."""
    X, source = data
    monitor = callback.ScoringMonitor(scoring={"log-likelihood": log_likelihood})
    model = DBMD(3, random_state=0, init=X[:3]).set_callbacks(monitor)
    model.fit(X, np.zeros(len(X)), source=source)
    log = monitor.get_logs().data
    scores = [row["log-likelihood"] for row in log if row["task_name"] == "iteration"]
    assert len(scores) == model.n_iter_
    assert_allclose(scores[-1], model.score(X, source=source), rtol=1e-9)
    assert scores[-1] > scores[0]


def test_the_scoring_monitor_works_with_named_features_and_without_sources(data):
    X, _ = data
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    monitor = callback.ScoringMonitor(scoring={"log-likelihood": log_likelihood})
    model = DBMD(3, random_state=0).set_callbacks(monitor).fit(frame, np.zeros(len(X)))
    assert_allclose(monitor.get_logs().data[-1]["log-likelihood"], model.score(frame), rtol=1e-9)


@pytest.mark.slow
def test_an_older_scikit_learn_without_callbacks_fits_all_the_same():
    code = """
import sys
import sklearn.callback, sklearn.datasets
real = sys.modules.pop("sklearn.callback")
sys.modules["sklearn.callback"] = None  # importing it is an ImportError now
import dbmd.estimator._callbacks
sys.modules["sklearn.callback"] = real  # scikit-learn itself needs it
assert dbmd.estimator._callbacks.CallbackSupportMixin.__module__ == "dbmd.estimator._callbacks"
from dbmd import DBMD
X = sklearn.datasets.load_iris().data
model = DBMD(3, random_state=0).fit(X)
assert not hasattr(model, "set_callbacks")
print(model.components_.tolist())
"""
    found = np.array(eval(run_python(code)))
    assert_allclose(found, fitted(load_iris().data).components_, rtol=1e-8)
