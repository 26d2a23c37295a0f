"""The fit is that of the scikit-learn face, from columns of a DataFrame."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dbmd
from spark.shared import KIND, MARKS, SOURCE, START, X, collected, memberships, quick

pytestmark = MARKS
ml = pytest.importorskip("dbmd.spark")
AGD = {"solver": "agd"}


@pytest.mark.parametrize(
    "params", [{}, {"inference": "map", "alpha": 2.0}, {"lam": 1.0, "noise": "shared"}, AGD], ids=str
)
def test_the_fit_is_that_of_the_other_face(frame, params):
    # The order of rows in the partitions of a DataFrame is not ours, so both start from the same place.
    options = {"tol": 1e-10, "max_rounds": 30} if params is AGD else None
    here = quick(init=START, sourceCol="where", numPartitions=2, solverOptions=options, **params).fit(frame)
    there = dbmd.DBMD(3, max_iter=2, init=START, solver_options=options, **params).fit(X, source=SOURCE)
    rtol = 1e-6 if params is AGD else 1e-8
    assert_allclose(np.array(here.clusterCenters()), there.components_, rtol=rtol)
    assert_allclose(here.noiseVariance, there.noise_variance_, rtol=rtol)
    assert_allclose(here.objective, there.objective_, rtol=rtol)
    assert_allclose(here.clusterSizes, there.cluster_sizes_, rtol=1e-6)
    assert here.sources == there.sources_.tolist() == ["field", "garden", "house"]
    assert len(here.history) == there.n_iter_
    assert here.numFeatures == 4


def test_every_kind_of_column_gives_the_same(frame):
    found = [
        np.array(quick(init=START, featuresCol=name).fit(frame).clusterCenters())
        for name in ("features", "dense", "sparse", "array")
    ]
    for W in found[1:]:
        assert_allclose(W, found[0], rtol=1e-8)


def test_one_column_of_known_classes_is_compared_and_plays_no_part(frame):
    without = quick(init=START).fit(frame)
    compared = quick(init=START, labelCol="kind").fit(frame)
    assert_allclose(np.array(compared.clusterCenters()), np.array(without.clusterCenters()), rtol=1e-12)
    assert compared.model.profile_.contingency.sum() == len(X)


def test_a_fit_with_other_params_leaves_the_estimator_alone(frame):
    estimator = quick(seed=0)
    two, four = estimator.fit(frame, [{estimator.k: 2}, {estimator.k: 4}])
    assert [len(two.clusterCenters()), len(four.clusterCenters())] == [2, 4]
    assert [two.getK(), four.getK(), estimator.getK()] == [2, 4, 3]
    assert two.uid == estimator.uid


def test_verbose_logs_a_line_for_each_iteration(frame, caplog):
    fitted = quick(seed=0, verbose=1).fit(frame)
    lines = [record for record in caplog.records if record.name == "dbmd" and "iteration" in record.getMessage()]
    assert len(lines) == len(fitted.history)


@pytest.mark.parametrize(
    "params",
    [
        {"scaling": "standard", "log": True, "weightCol": "kind"},
        {"brightness": True, "offsets": True, "nonnegative": True, "brightnessCol": "light"},
        {"known": {"a": START[0], "b": START[1]}, "scaling": "minmax", "missing": "drop"},
    ],
    ids=["scaled", "brightness", "known"],
)
def test_all_parts_of_the_model_are_those_of_the_other_face(frame, params, tmp_path):
    same = {name: value for name, value in params.items() if not name.endswith("Col")}
    here = quick(init=START, sourceCol="where", effectiveFeatures=4.0, **params).fit(frame)
    there = dbmd.DBMD(3, max_iter=2, init=START, effective_features=4.0, **same)
    there.fit(X, source=SOURCE, sample_weight=KIND if "weightCol" in params else None)
    assert_allclose(np.array(here.clusterCenters()), there.components_, rtol=1e-6)
    for name in ("scale_", "offsets_", "component_names_"):
        if hasattr(there, name):
            found, expected = (getattr(each, name) for each in (here.model, there))
            assert_array_equal(found, expected) if name == "component_names_" else assert_allclose(
                found, expected, rtol=1e-6
            )
    H, brightness, _ = there._transform(X, SOURCE)
    here.write().save(str(tmp_path / "model"))
    for model in (here, ml.DBMDModel.load(str(tmp_path / "model"))):
        added = model.transform(frame)
        assert_allclose(memberships(added), H, atol=1e-6)
        if "brightnessCol" in params:
            assert_allclose(collected(added, "light")[0], brightness, atol=1e-6)
        for name, value in here._estimator_params().items():
            assert model._estimator_params()[name] == value


def test_samples_with_missing_values_are_left_out(spark):
    rows = [(i, [float("nan") if i == 5 and j == 1 else float(v) for j, v in enumerate(x)]) for i, x in enumerate(X)]
    frame = spark.createDataFrame(rows, "row long, features array<double>").repartition(2)
    added = quick(init=START, missing="drop").fit(frame).transform(frame)
    (labels,) = collected(added, "prediction")
    assert np.flatnonzero(labels == -1).tolist() == [5]
    assert np.isnan(memberships(added)[5]).all()


def test_the_number_of_clusters_can_be_chosen(frame, tmp_path):
    model = quick(k="auto", seed=0).fit(frame)
    assert model.getK() == "auto"
    assert model.model.choice_.tried == (2, 3, 4, 5)
    assert len(model.clusterCenters()) == model.model.choice_.n_components
    model.save(str(tmp_path / "model"))
    again = ml.DBMDModel.load(str(tmp_path / "model"))
    assert again.model.choice_.asdict() == model.model.choice_.asdict()
    assert again.transform(frame).first()["probability"].size == model.model.n_components_
