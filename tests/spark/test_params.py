"""Params: those of the scikit-learn face under Spark's names."""

from dataclasses import fields

import numpy as np
import pytest

from dbmd.config import Config
from spark.shared import MARKS, VALUES, quick

pytestmark = MARKS
ml = pytest.importorskip("dbmd.spark")
from pyspark.ml.linalg import Vectors  # noqa: E402

from dbmd.spark.params import COLUMNS, LEFT_OUT, spark_name  # noqa: E402


def test_both_faces_have_the_same_parameters_with_the_same_defaults():
    estimator = ml.DBMD()
    params = {param.name for param in estimator.params}
    expected = set(COLUMNS)
    for field in fields(Config):
        if field.name in LEFT_OUT:
            assert LEFT_OUT[field.name]
            assert not estimator.hasParam(spark_name(field.name))
            continue
        name = spark_name(field.name)
        expected.add(name)
        assert estimator.getOrDefault(name) == field.default
        assert estimator.getParam(name).doc == field.metadata["doc"]
    assert params == expected
    fixed = {"k", "maxIter", "tol", "seed", "featuresCol", "predictionCol", "probabilityCol", "sourceCol", "solver"}
    assert params >= fixed | {"noise", "alpha", "lam", "init", "nInit", "solverOptions", "numPartitions", "verbose"}


def test_every_param_has_a_getter_and_a_setter_that_returns_the_estimator():
    estimator = ml.DBMD()
    assert {param.name for param in estimator.params} == set(VALUES)
    for name, value in VALUES.items():
        suffix = name[0].upper() + name[1:]
        assert getattr(estimator, f"set{suffix}")(value) is estimator
        assert getattr(estimator, f"get{suffix}")() == value
    assert estimator.getSourceCol() == "s"
    assert ml.DBMD().getSourceCol() is None
    assert not ml.DBMD().isDefined("sourceCol")


def test_the_constructor_takes_names_only_and_knows_them():
    estimator = ml.DBMD(**VALUES)
    assert {param.name: value for param, value in estimator.extractParamMap().items()} == VALUES
    with pytest.raises(TypeError):
        ml.DBMD(3)
    with pytest.raises(TypeError, match=r"DBMD has no Param 'n_components'\. It has: k, inference, solver, noise"):
        ml.DBMD(n_components=3)
    assert ml.DBMD().setParams(k=2, tol=0.5).getK() == 2


def test_params_are_explained_and_copied():
    estimator = ml.DBMD(k=3)
    told = "k: Number of clusters, r; 'auto' chooses it: the most that two halves agree on. (default: 8, current: 3)"
    assert told in estimator.explainParams()
    other = estimator.copy({estimator.k: 5})
    assert [estimator.getK(), other.getK()] == [3, 5]


WRONG = [
    ({"k": 0}, ValueError, r"The 'k' parameter of DBMD must be an int >= 1 or 'auto'\. Got 0\."),
    ({"k": 2.5}, TypeError, r"The 'k' parameter of DBMD must be an int >= 1 or 'auto'\. Got 2\.5\."),
    ({"maxIter": -1}, ValueError, r"The 'maxIter' parameter of DBMD must be an int >= 0\. Got -1\."),
    ({"solver": "newton"}, ValueError, r"The 'solver' parameter of DBMD must be one of .*Got 'newton'\."),
    ({"noise": "each"}, ValueError, r"The 'noise' parameter of DBMD must be one of 'source'"),
    ({"alpha": 0.5}, ValueError, r"The 'alpha' .* or an array of k such floats\. Got 0\.5\."),
    ({"alpha": [1.0, 0.5]}, ValueError, r"The 'alpha' .* Got \[1\.0, 0\.5\]\."),
    ({"numPartitions": 0}, ValueError, r"The 'numPartitions' parameter of DBMD must be None or an int >= 1\. Got 0\."),
    ({"seed": 1.5}, TypeError, r"The 'seed' parameter of DBMD must be an int from 0 .*Got 1\.5\."),
    ({"seed": -1}, ValueError, r"The 'seed' parameter of DBMD must be an int from 0 .*Got -1\."),
    ({"featuresCol": 3}, TypeError, r"featuresCol"),
]


@pytest.mark.parametrize(("params", "error", "message"), WRONG, ids=[str(wrong[0]) for wrong in WRONG])
def test_a_wrong_value_is_named_as_soon_as_it_is_set(params, error, message):
    with pytest.raises(error, match=message):
        ml.DBMD(**params)


WRONG_TOGETHER = [
    ({"inference": "map", "alpha": [1.0, 2.0], "k": 3}, r"an array of shape \(2,\) with k=3"),
    ({"solver": "exact", "solverOptions": {"rho": 1.0}}, r"Unknown option 'rho' in 'solverOptions' for .*'exact'"),
    ({"k": 151}, r"The 'k' parameter of DBMD must be at most the number of samples\. Got k=151"),
    ({"k": 2, "init": [[1.0, 2.0]]}, r"must have shape \(k, n_features\) = \(2, 4\)\. Got \(1, 2\)"),
    ({"k": None}, r"The 'k' parameter of DBMD must be an int >= 1 or 'auto'\. Got None\."),
]


@pytest.mark.parametrize(("params", "message"), WRONG_TOGETHER, ids=[str(wrong[0]) for wrong in WRONG_TOGETHER])
def test_values_that_are_wrong_together_are_named_by_the_fit(frame, params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ml.DBMD(**params).fit(frame)


def test_values_of_numpy_and_of_pyspark_ml_become_plain():
    estimator = ml.DBMD(
        k=np.int64(2), inference="map", alpha=np.array([1.0, 2.0]), init=[Vectors.dense([1.0, 2.0]), np.zeros(2)]
    )
    assert type(estimator.getK()) is int
    assert estimator.getAlpha() == [1.0, 2.0]
    assert estimator.getInit() == [[1.0, 2.0], [0.0, 0.0]]


def test_the_last_centers_are_a_start(frame, model):
    again = quick(inference="map", alpha=2.0, sourceCol="where", init=model.clusterCenters()).fit(frame)
    assert again.objective < model.objective
