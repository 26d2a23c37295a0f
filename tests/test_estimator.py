"""The scikit-learn face: its own checks, every form of data in and out, and what the fitted attributes mean."""

import inspect
import json
import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import fields
from functools import cache
from importlib import import_module

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from dbmd import DBMD
from dbmd.config import Config
from dbmd.model.result import Iteration

has_callbacks = pytest.mark.skipif(
    not hasattr(DBMD, "set_callbacks"), reason="scikit-learn has no callbacks before 1.9"
)


def callback(name, **options):
    """Return one of scikit-learn's callbacks."""
    return getattr(import_module("sklearn.callback"), name)(**options)


@pytest.fixture(autouse=True, scope="module")
def _one_thread_for_k_means():
    """The k-means of a few candidates in scikit-learn mostly waits for its own threads; ours are not concerned."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def mixture(seed=0, n=150, m=8, r=3, sigmas=(0.1, 0.5, 2.0), concentration=0.4):
    """Return X, source, W of shape (m, r) and the memberships, of the model with a noise level for each source."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, len(sigmas), n)
    W = rng.normal(size=(m, r)) * 3
    Ht = rng.dirichlet(np.full(r, concentration), n)
    X = Ht @ W.T + rng.normal(size=(n, m)) * np.array(sigmas)[source, None]
    return X, source, W, Ht


def fitted(X, source=None, **parameters):
    """Return a fitted model, of map where there is a prior; that a short fit did not converge is not the point here."""
    if np.max(parameters.get("alpha", 1.0)) > 1.0:
        parameters = {"inference": "map"} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DBMD(**{"n_components": 3, "random_state": 0} | parameters).fit(X, source=source)


@pytest.fixture(scope="module")
def data():
    X, source, _, _ = mixture()
    return X, source


@pytest.fixture(scope="module")
def model(data):
    X, source = data
    return fitted(X, source, inference="map", alpha=1.5, lam=0.1)


# -- scikit-learn's own checks -------------------------------------------------------------------------------------

# They ask for manners, which solvers, starts and noise do not change; what these do is tested elsewhere.
CONFIGURATIONS = [
    DBMD(),
    DBMD(n_components=3, solver="cease", init="random", n_init=2, max_iter=5),
    DBMD(inference="map", alpha=2, noise="shared", max_iter=30),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few samples of pure noise
@parametrize_with_checks(CONFIGURATIONS[:1])
def test_scikit_learn_checks(estimator, check):
    if check.func.__name__ == "check_array_api_input":
        # scikit-learn skips it unless a variable was set before SciPy was loaded: ask another interpreter.
        assert errors_under_array_api_dispatch()[str(estimator)] == ""
    else:
        check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(CONFIGURATIONS[1:])
def test_scikit_learn_checks_of_other_settings(estimator, check):
    test_scikit_learn_checks(estimator, check)


@cache
def errors_under_array_api_dispatch():
    code = """
import json, traceback, warnings
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_array_api_input
from test_estimator import CONFIGURATIONS
warnings.simplefilter("ignore", ConvergenceWarning)
errors = {}
for estimator in CONFIGURATIONS:
    try:
        check_array_api_input("DBMD", clone(estimator), array_namespace="numpy", expect_only_array_outputs=False)
        errors[str(estimator)] = ""
    except Exception:
        errors[str(estimator)] = traceback.format_exc()
print(json.dumps(errors))
"""
    return json.loads(run_python(code, SCIPY_ARRAY_API="1"))


def run_python(code, **environment):
    """Return what a fresh interpreter prints, warnings being errors as they are here."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.path.dirname(__file__)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


# -- metadata routing ----------------------------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
class TestRoutingOfSource:
    def test_a_pipeline_passes_it_to_fit(self, data):
        X, source = data
        step = DBMD(3, random_state=0).set_fit_request(source=True)
        pipeline = make_pipeline(FunctionTransformer(), step).fit(X, source=source)
        assert_array_equal(pipeline[-1].components_, fitted(X, source).components_)
        assert_array_equal(pipeline[-1].sources_, [0, 1, 2])

    def test_a_pipeline_passes_it_to_transform_and_predict(self, data):
        X, source = data
        step = DBMD(3, inference="map", alpha=2.0, random_state=0)
        step.set_fit_request(source=True).set_transform_request(source=True).set_predict_request(source=True)
        pipeline = make_pipeline(FunctionTransformer(), step).fit(X, source=source)
        alone = fitted(X, source, inference="map", alpha=2.0)
        assert_array_equal(pipeline.transform(X, source=source), alone.transform(X, source=source))
        assert_array_equal(pipeline.predict(X, source=source), alone.predict(X, source=source))
        assert np.abs(alone.transform(X, source=source) - alone.transform(X)).max() > 1e-3  # it matters

    def test_a_pipeline_passes_it_to_fit_transform(self, data):
        X, source = data
        step = (
            DBMD(3, inference="map", alpha=2.0, random_state=0)
            .set_fit_request(source=True)
            .set_transform_request(source=True)
        )
        pipeline = make_pipeline(FunctionTransformer(), step)
        expected = fitted(X, source, inference="map", alpha=2.0).transform(X, source=source)
        assert_array_equal(pipeline.fit_transform(X, source=source), expected)

    def test_a_pipeline_passes_it_to_fit_predict(self, data):
        X, source = data
        step = DBMD(3, random_state=0).set_fit_request(source=True).set_predict_request(source=True)
        pipeline = make_pipeline(FunctionTransformer(), step)
        assert_array_equal(pipeline.fit_predict(X, source=source), fitted(X, source).labels_)

    def test_a_grid_search_passes_it_to_fit_and_score(self, data):
        X, source = data
        estimator = DBMD(random_state=0).set_fit_request(source=True).set_score_request(source=True)
        search = GridSearchCV(estimator, {"n_components": [1, 3]}, cv=3).fit(X, source=source)
        assert search.best_params_ == {"n_components": 3}
        assert_array_equal(search.best_estimator_.sources_, [0, 1, 2])
        # The same by hand, first fold: the labels are cut with the samples.
        third = len(X) // 3
        model = DBMD(3, random_state=0).fit(X[third:], source=source[third:])
        by_hand = model.score(X[:third], source=source[:third])
        assert_allclose(search.cv_results_["split0_test_score"][1], by_hand, rtol=1e-9)

    def test_what_was_not_requested_is_refused(self, data):
        X, source = data
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="source"):
            make_pipeline(FunctionTransformer(), DBMD(3)).fit(X, source=source)


def test_fit_predict_and_fit_transform_take_the_source(data):
    X, source = data
    model = fitted(X, source, inference="map", alpha=2.0)
    H = DBMD(3, inference="map", alpha=2.0, random_state=0).fit_transform(X, source=source)
    assert_array_equal(H, model.transform(X, source=source))
    assert_array_equal(DBMD(3, inference="map", alpha=2.0, random_state=0).fit_predict(X, source=source), model.labels_)


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


# -- being an estimator --------------------------------------------------------------------------------------------


def test_the_signature_is_the_table_of_parameters():
    parameters = inspect.signature(DBMD).parameters
    assert {p.name: p.default for p in parameters.values()} == {f.name: f.default for f in fields(Config)}
    assert list(parameters) == [f.name for f in fields(Config)]
    assert [p.name for p in parameters.values() if p.kind is not p.KEYWORD_ONLY] == ["n_components"]


def test_a_clone_has_the_parameters_and_not_the_fit(model):
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "components_")


def test_a_pickle_is_the_same_model(model, data):
    X, source = data
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.transform(X, source=source), model.transform(X, source=source))
    assert_array_equal(copy.noise_variance_, model.noise_variance_)
    assert copy.history_ == model.history_
    assert copy.score(X, source=source) == model.score(X, source=source)


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


def test_verbose_prints_a_line_for_each_iteration(capsys, data):
    X, source = data
    fitted(X, source)
    assert capsys.readouterr().out == ""
    model = fitted(X, source, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    for record, line in zip(model.history_, lines, strict=True):
        assert f"iteration {record.iteration}:" in line
        assert f"{record.objective:.8g}" in line


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


# -- callbacks -----------------------------------------------------------------------------------------------------


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


@has_callbacks
def test_a_callback_hears_of_the_fit_and_of_each_iteration(data):
    X, source = data
    recorder = Recorder()
    model = DBMD(3, random_state=0).set_callbacks(recorder).fit(X, source=source)
    iterations = ["begin iteration", "end iteration"] * model.n_iter_
    assert recorder.events == ["setup", "begin fit", *iterations, "end fit", "teardown"]
    assert_array_equal(recorder.X, X)


@has_callbacks
def test_a_callback_gets_a_model_that_can_be_used(data):
    X, source = data
    recorder = Recorder()
    model = DBMD(3, random_state=0, init=X[:3]).set_callbacks(recorder).fit(X, source=source)
    scores = [one.score(X, source=source) for one in recorder.models]
    assert_allclose(scores[-1], model.score(X, source=source), rtol=1e-12)
    assert scores[0] < scores[-1]
    assert recorder.models[0].transform(X, source=source).shape == (len(X), 3)


@has_callbacks
def test_a_callback_that_asks_to_stop_stops_the_fit(data):
    X, source = data
    model = DBMD(3, random_state=0, init=X[:3], tol=0.0).set_callbacks(Recorder(stop_after=2))
    model.fit(X, source=source)  # and does not warn: it was stopped, it did not run out
    assert model.n_iter_ == 2
    assert_array_equal(model.components_, fitted(X, source, init=X[:3], tol=0.0, max_iter=2).components_)


@has_callbacks
def test_a_callback_is_torn_down_when_the_fit_fails(data):
    X, source = data
    recorder = Recorder()

    def engine(nodes):
        raise RuntimeError("no nodes today")

    with pytest.raises(RuntimeError, match="no nodes today"):
        DBMD(3, engine=engine).set_callbacks(recorder).fit(X, source=source)
    assert recorder.events[-1] == "teardown"


@has_callbacks
@pytest.mark.parametrize("n_init", [1, 3])
def test_the_progress_bar_of_scikit_learn_works(n_init, data, capsys):
    X, source = data
    model = DBMD(3, random_state=0, n_init=n_init).set_callbacks(callback("ProgressBar")).fit(X, source=source)
    assert "DBMD" in capsys.readouterr().out
    assert_array_equal(model.components_, fitted(X, source, n_init=n_init).components_)


@has_callbacks
def test_the_progress_bar_of_a_grid_search_works(data, capsys):
    X, _ = data
    search = GridSearchCV(DBMD(random_state=0), {"n_components": [2, 3]}, cv=2).set_callbacks(callback("ProgressBar"))
    search.fit(X)
    assert "DBMD" in capsys.readouterr().out


def log_likelihood(model, X, y, source=None):
    return model.score(X, source=source)


@has_callbacks
def test_the_scoring_monitor_of_scikit_learn_logs_a_score_for_each_iteration(data):
    """It scores only where it is given y, which is ignored otherwise; the sources are metadata."""
    X, source = data
    monitor = callback("ScoringMonitor", scoring={"log-likelihood": log_likelihood})
    model = DBMD(3, random_state=0, init=X[:3]).set_callbacks(monitor)
    model.fit(X, np.zeros(len(X)), source=source)
    log = monitor.get_logs().data
    scores = [row["log-likelihood"] for row in log if row["task_name"] == "iteration"]
    assert len(scores) == model.n_iter_
    assert_allclose(scores[-1], model.score(X, source=source), rtol=1e-9)
    assert scores[-1] > scores[0]


@has_callbacks
def test_the_scoring_monitor_works_with_named_features_and_without_sources(data):
    X, _ = data
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    monitor = callback("ScoringMonitor", scoring={"log-likelihood": log_likelihood})
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


# -- what the attributes mean --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("n_nodes", [1, 4])
def test_labels_predictions_and_memberships_agree(form, alpha, n_nodes, data):
    X, source = data
    X = form(X)
    model = fitted(X, source, alpha=alpha, n_nodes=n_nodes)
    H = model.transform(X, source=source)
    assert_array_equal(model.labels_, H.argmax(axis=1))
    assert_array_equal(model.labels_, model.predict(X, source=source))
    assert (H >= 0).all()
    assert_allclose(H.sum(axis=1), 1.0, atol=1e-14)
    assert_allclose(model.cluster_sizes_, H.sum(axis=0), rtol=1e-6)
    if form is np.asarray:
        assert_array_equal(model.predict_proba(X, source=source), H)
        assert_array_equal(model.inverse_transform(H), H @ model.components_)


def negative_log_posterior(model, X, source, alpha, lam):
    """Return Eq. (opt1) at the components, noise levels and memberships of a model."""
    m = X.shape[1]
    H = model.transform(X, source=source)
    value = lam * np.abs(model.components_).sum() - (np.asarray(alpha) - 1.0) @ np.log(H).sum(axis=0)
    for label, sigma2 in zip(model.sources_, model.noise_variance_, strict=True):
        rows = source == label
        squares = ((X[rows] - H[rows] @ model.components_) ** 2).sum()
        value += squares / (2 * sigma2) + m * rows.sum() * np.log(np.sqrt(sigma2))
    return value


@pytest.mark.parametrize("solver", ["exact", "agd", "admm", "cease"])
@pytest.mark.parametrize("noise", ["source", "shared", 0.7])
@pytest.mark.parametrize("alpha", [(2.0, 2.0, 2.0), (1.5, 2.0, 3.0)], ids=["equal", "unequal"])
def test_the_objective_is_the_negative_log_posterior(solver, noise, alpha, data):
    X, source = data
    model = fitted(X, source, solver=solver, noise=noise, alpha=alpha, lam=0.8)
    assert_allclose(model.objective_, negative_log_posterior(model, X, source, alpha, 0.8), rtol=1e-9)
    last = model.history_[-1].objective
    assert model.objective_ <= last + 1e-9 * (abs(last) + X.size)


def test_the_history_has_a_record_with_all_names_for_each_iteration(data):
    X, source = data
    model = fitted(X, source, solver="admm")
    fixed = {"iteration", "objective", "seconds", "rounds", "floats_up", "floats_down"}
    assert len(model.history_) == model.n_iter_
    for number, record in enumerate(model.history_, 1):
        assert isinstance(record, Iteration)
        assert fixed <= set(record) == {field.name for field in fields(Iteration)}
        assert len(record) == len(dict(record)) == len(record.asdict())
        assert record["iteration"] == record.iteration == number
        assert record.seconds > 0
        assert "seconds" in record
        assert "hours" not in record
        with pytest.raises(KeyError, match="hours"):
            record["hours"]


def test_the_score_is_the_mean_log_likelihood(model, data):
    X, source = data
    residual = X - model.inverse_transform(model.transform(X, source=source))
    sigma2 = model.noise_variance_[source][:, None]
    by_hand = -0.5 * (residual**2 / sigma2 + np.log(2 * np.pi * sigma2)).sum(axis=1).mean()
    assert_allclose(model.score(X, source=source), by_hand, rtol=1e-9)


def test_fixed_noise_is_kept(data):
    X, source = data
    assert_array_equal(fitted(X, source, noise=0.7).noise_variance_, [0.7, 0.7, 0.7])


def test_shared_noise_is_one_level(data):
    X, source = data
    levels = fitted(X, source, noise="shared").noise_variance_
    assert levels[0] == levels[1] == levels[2]


def test_without_sources_there_is_one(data):
    X, _ = data
    model = fitted(X)
    assert model.sources_.shape == model.noise_variance_.shape == (1,)
    assert_array_equal(model.components_, fitted(X, np.full(len(X), "all")).components_)


# -- noise is found, and weighs ------------------------------------------------------------------------------------


def test_the_noise_that_was_put_in_is_found():
    """Tolerance 10 %: a sample's r - 1 free memberships explain (r - 1) / m = 5 % of its noise, the rest is chance."""
    sigmas = np.array([0.2, 0.6, 1.5, 4.0])
    for seed in range(5):
        X, source, _, _ = mixture(seed, n=1200, m=40, sigmas=sigmas)
        model = DBMD(3, random_state=0).fit(X, source=source)
        assert_allclose(model.noise_variance_, sigmas**2, rtol=0.1)


def error_of(model, W):
    """Return the relative error of the components, matched to the true ones."""
    distance = ((model.components_[:, None] - W.T[None]) ** 2).sum(axis=2)
    return np.sqrt(distance[linear_sum_assignment(distance)].sum()) / np.linalg.norm(W)


def test_clean_sources_count_for_more():
    """With a level for each source the components are much nearer to the truth than with one for all, in most draws."""
    better = 0
    for seed in range(10):
        X, source, W, _ = mixture(seed, n=300, sigmas=(0.1, 0.3, 4.0))
        one_each, one_for_all = (
            error_of(fitted(X, source, noise=noise, init=W.T, tol=0.0, max_iter=30), W)
            for noise in ("source", "shared")
        )
        better += one_each < 0.3 * one_for_all
    assert better >= 9


# -- new data ------------------------------------------------------------------------------------------------------


def level_used(model, X, source):
    """Return sigma^2 that the model takes for samples of one source, by its score: there sigma^2 = squares / (m n)."""
    m = X.shape[1]
    return np.exp(-2 * model.score(X, source=source) / m - 1) / (2 * np.pi)


def test_known_sources_keep_their_noise(model):
    """Memberships of a known source are those for its sigma^2, whatever the new samples look like."""
    X, source, _, _ = mixture(7, n=30)
    H = model.transform(X, source=source)
    for c in range(3):
        alone = fitted(
            X, init=model.components_, noise=float(model.noise_variance_[c]), inference="map", alpha=1.5, max_iter=1
        )
        alone.components_ = model.components_
        rows = source == c
        assert_allclose(alone.transform(X[rows]), H[rows], atol=1e-8)


def test_the_noise_of_an_unknown_source_is_estimated():
    X, source, W, _ = mixture(n=600, m=40)
    model = fitted(X, source, inference="map", alpha=1.2, lam=0.1)
    new_rng = np.random.default_rng(5)
    for sigma in (0.05, 0.3, 1.0):
        H = new_rng.dirichlet(np.ones(3), 400)
        new = H @ W.T + sigma * new_rng.normal(size=(400, 40))
        found = level_used(model, new, ["never seen"] * 400)
        # 5 % of the noise for the memberships, the rest for what the components are wrong by
        assert_allclose(found, sigma**2, rtol=0.15, atol=0.002)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_known_data_under_a_new_name_gets_its_old_noise(alpha, data):
    X, source = data
    model = fitted(X, source, inference="map", alpha=alpha, lam=0.1, tol=1e-7, max_iter=2000)
    for c in range(3):
        rows = source == c
        assert_allclose(level_used(model, X[rows], ["new"] * rows.sum()), model.noise_variance_[c], rtol=1e-3)
        H = model.transform(X[rows], source=["new"] * rows.sum())
        assert_allclose(H, model.transform(X[rows], source=source[rows]), atol=1e-3)


def test_known_and_unknown_sources_do_not_disturb_each_other(model, data):
    X, source = data
    labels = np.where(source == 2, 17, source)  # 17 was not in the fit
    H = model.transform(X, source=labels)
    assert_allclose(H[source < 2], model.transform(X, source=source)[source < 2], atol=1e-9)
    unknown = source == 2
    assert_allclose(H[unknown], model.transform(X[unknown], source=labels[unknown]), atol=1e-7)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_a_sample_is_transformed_alike_in_any_company(form, model, data):
    X, source = data
    H = model.transform(form(X), source=source)
    rng = np.random.default_rng(0)
    for size in (1, 2, 50, len(X)):
        rows = rng.permutation(len(X))[:size]
        assert_allclose(model.transform(form(X[rows]), source=source[rows]), H[rows], atol=1e-8)


def test_without_labels_samples_of_a_model_of_several_sources_are_of_an_unknown_one(model, data):
    X, _ = data
    H = model.transform(X)
    assert_allclose(H, model.transform(X, source=["anything"] * len(X)), atol=1e-9)
    assert_allclose(H.sum(axis=1), 1.0, atol=1e-12)
    assert_array_equal(model.predict(X), H.argmax(axis=1))
    assert np.isfinite(model.score(X))


def test_without_labels_samples_of_a_model_of_one_source_are_of_that_one(data):
    X, _ = data
    model = fitted(X, inference="map", alpha=2.0)
    some = X[:5] + 100.0  # far off: a level of their own would be very different
    assert_allclose(model.transform(some), model.transform(some, source=np.full(5, model.sources_[0])), atol=1e-12)


def test_the_prior_of_a_vector_alpha_is_used_in_transform(data):
    X, source = data
    model = fitted(X, source, inference="map", alpha=[1.0, 1.0, 4.0], lam=0.1)
    plain = fitted(X, source, alpha=1.0, lam=0.1)
    plain.components_, plain.noise_variance_ = model.components_, model.noise_variance_
    change = model.transform(X, source=source) - plain.transform(X, source=source)
    assert change[:, 2].min() > -1e-9
    assert change[:, 2].max() > 1e-2


def test_memberships_are_the_minimiser_given_the_components(model, data):
    """No other point of the simplex has a lower objective, sample by sample."""
    X, source = data
    H = model.transform(X, source=source)
    sigma2 = model.noise_variance_[source]

    def value(H):
        return ((X - H @ model.components_) ** 2).sum(axis=1) / (2 * sigma2) - 0.5 * np.log(H).sum(axis=1)

    rng = np.random.default_rng(0)
    here = value(H)
    for step in (1e-4, 1e-2, 0.3, 1.0):
        for _ in range(5):
            other = (1 - step) * H + step * rng.dirichlet(np.ones(3), len(X))
            assert (value(other) >= here - 1e-9 * (1 + np.abs(here))).all()


# -- bad input -----------------------------------------------------------------------------------------------------


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
    from dbmd.estimator._checks import check_finite

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
    "scalar": ("lab", ValueError, r"one label for each of the 150 samples.*Got shape \(\)"),
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
