"""scikit-learn's own checks, and its metadata routing."""

import json
from functools import cache

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from dbmd import DBMD
from estimator.making import fitted, run_python

# They ask for manners, which solvers, starts and noise do not change; what these do is tested elsewhere.
CONFIGURATIONS = [
    DBMD(),
    DBMD(n_components=3, solver="cease", init="random", n_init=2, max_iter=5),
    DBMD(inference="map", alpha=2, noise="shared", max_iter=30),
]


OLD = parse_version(sklearn.__version__) < parse_version("1.9")


def not_expected(estimator):
    """Return the checks that are not about a fit of this kind, with the reason."""
    if estimator.inference == "map":
        return {}
    reason = "a start is drawn, and is another one for repeated samples; from the same start, weights are repetitions"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few samples of pure noise
@parametrize_with_checks(CONFIGURATIONS[:1], expected_failed_checks=not_expected)
def test_scikit_learn_checks(estimator, check):
    if check.func.__name__ == "check_array_api_input":
        # scikit-learn skips it unless a variable was set before SciPy was loaded: ask another interpreter.
        assert errors_under_array_api_dispatch()[str(estimator)] == ""
    else:
        check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(CONFIGURATIONS[1:], expected_failed_checks=not_expected)
def test_scikit_learn_checks_of_other_settings(estimator, check):
    test_scikit_learn_checks(estimator, check)


@cache
def errors_under_array_api_dispatch():
    code = """
import json, traceback, warnings
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_array_api_input
from estimator.test_scikit_learn import CONFIGURATIONS
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

    @pytest.mark.skipif(OLD, reason="pipelines of old releases of scikit-learn do not pass metadata on to score")
    def test_a_grid_search_over_a_pipeline_passes_it_to_fit_and_score(self, data):
        X, source = data
        step = DBMD(random_state=0).set_fit_request(source=True).set_score_request(source=True)
        pipeline = make_pipeline(FunctionTransformer(), step)
        search = GridSearchCV(pipeline, {"dbmd__n_components": [1, 3]}, cv=3, error_score="raise")
        search.fit(X, source=source)
        third = len(X) // 3
        model = DBMD(3, random_state=0).fit(X[third:], source=source[third:])
        by_hand = model.score(X[:third], source=source[:third])
        assert_allclose(search.cv_results_["split0_test_score"][1], by_hand, rtol=1e-9)

    @pytest.mark.skipif(OLD, reason="pipelines of old releases of scikit-learn do not pass metadata on to score")
    def test_a_grid_search_over_a_pipeline_passes_weights(self, data, rng):
        X, source = data
        weights = rng.integers(1, 4, len(X)).astype(float)
        requests = {"source": True, "sample_weight": True}
        step = DBMD(3, init=X[:3]).set_fit_request(**requests).set_score_request(**requests)
        pipeline = make_pipeline(FunctionTransformer(), step)
        search = GridSearchCV(pipeline, {"dbmd__lam": [0.0, 1.0]}, cv=3, error_score="raise")
        search.fit(X, source=source, sample_weight=weights)
        third = len(X) // 3
        model = DBMD(3, init=X[:3], lam=1.0)
        model.fit(X[third:], source=source[third:], sample_weight=weights[third:])
        by_hand = model.score(X[:third], source=source[:third], sample_weight=weights[:third])
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
