"""The face for pyspark.ml: the same model as the scikit-learn face, in Spark's manner."""

import html
import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

import dbmd
from dbmd.config import Config

pytestmark = [
    pytest.mark.spark,
    # A pass takes Spark a tenth of a second at least: most fits here are cut short.
    pytest.mark.filterwarnings("ignore:DBMD did not converge:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:The solver:sklearn.exceptions.ConvergenceWarning"),
]

ml = pytest.importorskip("dbmd.spark")
from pyspark.errors import PythonException  # noqa: E402
from pyspark.ml import Pipeline, PipelineModel  # noqa: E402
from pyspark.ml.evaluation import ClusteringEvaluator  # noqa: E402
from pyspark.ml.feature import VectorAssembler  # noqa: E402
from pyspark.ml.linalg import Vectors, VectorUDT  # noqa: E402
from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, ParamGridBuilder  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from pyspark.sql.types import (  # noqa: E402
    ArrayType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from dbmd.spark.files import local_path  # noqa: E402
from dbmd.spark.params import COLUMNS, LEFT_OUT, spark_name  # noqa: E402

X = load_iris().data
SOURCE = np.array(["field", "garden", "house"])[np.arange(len(X)) % 3]
KIND = load_iris().target
SCHEMA = StructType(
    [
        StructField("row", LongType()),
        StructField("features", VectorUDT()),
        StructField("dense", VectorUDT()),
        StructField("sparse", VectorUDT()),
        StructField("array", ArrayType(DoubleType())),
        StructField("where", StringType()),
        StructField("kind", LongType()),
        StructField("sepal.length", DoubleType()),
    ]
)


START = X[[0, 60, 120]]
AGD = {"solver": "agd"}


def quick(**params):
    return ml.DBMD(**{"k": 3, "maxIter": 2} | params)


def vector(x, *, is_sparse):
    places = np.flatnonzero(x)
    return Vectors.sparse(len(x), places, x[places]) if is_sparse else Vectors.dense(x)


@pytest.fixture(scope="module")
def frame(spark):
    """Iris in three partitions; column "features" has dense and sparse vectors by turns."""
    rows = [
        (
            i,
            vector(x, is_sparse=bool(i % 2)),
            vector(x, is_sparse=False),
            vector(x, is_sparse=True),
            x.tolist(),
            str(SOURCE[i]),
            int(KIND[i]),
            float(x[0]),
        )
        for i, x in enumerate(X)
    ]
    return spark.createDataFrame(rows, SCHEMA).repartition(3).cache()


@pytest.fixture(scope="module")
def model(frame):
    return quick(inference="map", alpha=2.0, seed=0, sourceCol="where").fit(frame)


def collected(added, *names):
    """Return columns as arrays, in the order of the rows of X."""
    rows = added.select("row", *names).orderBy("row").collect()
    return [np.array([row[name] for row in rows]) for name in names]


def memberships(added, name="probability"):
    return np.array([h.toArray() for h in np.array(added.select("row", name).orderBy("row").collect(), object)[:, 1]])


# -- fit -----------------------------------------------------------------------------------------------------------


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


# -- transform -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["features", "array"])  # vectors, dense and sparse by turns; arrays
def test_memberships_are_those_of_the_other_face(frame, model, column):
    added = model.copy().setFeaturesCol(column).transform(frame)
    H = memberships(added)
    assert_allclose(H, model.model.transform(X, source=SOURCE), rtol=1e-9, atol=1e-9)
    assert (H >= 0).all()
    assert_allclose(H.sum(axis=1), 1.0, rtol=1e-12)
    assert_array_equal(collected(added, "prediction")[0], H.argmax(axis=1))


def test_the_new_columns_come_last_with_spark_s_types(frame, model):
    added = model.transform(frame)
    assert added.columns == [*frame.columns, "prediction", "probability"]
    assert added.schema["prediction"].dataType == IntegerType()
    assert added.schema["probability"].dataType == VectorUDT()


def test_nothing_runs_before_it_is_asked_for_and_other_columns_stay_out_of_python(spark, model, capsys):
    rows = spark.range(3).selectExpr(
        "raise_error('read, though nobody asked for it') AS never",
        "array(double(id), 2D, 3D, 4D) AS features",
        "'field' AS where",
    )
    added = model.transform(rows)
    assert [len(row.probability) for row in added.select("prediction", "probability").collect()] == [3, 3, 3]
    added.explain()
    plan = capsys.readouterr().out
    assert plan.count("ArrowEvalPython") == 1  # both columns are computed at once
    assert "ArrowEvalPython [memberships(features#" in plan.replace("_extract_", "")


@pytest.mark.parametrize(
    ("prediction", "probability", "names"),
    [("", "", []), ("cluster", "", ["cluster"]), ("", "h", ["h"]), (None, "h", ["h"])],
)
def test_a_column_without_a_name_is_left_out(frame, model, prediction, probability, names):
    added = model.copy().setPredictionCol(prediction).setProbabilityCol(probability).transform(frame)
    assert added.columns == [*frame.columns, *names]
    assert added.count() == len(X)


def test_float_arrays_are_computed_with_as_floats(frame, model):
    added = model.transform(frame.withColumn("features", F.col("array").cast("array<float>")))
    assert_allclose(memberships(added), model.model.transform(X.astype(np.float32), source=SOURCE), atol=1e-6)


def test_names_may_have_dots_and_backticks(frame, model):
    renamed = frame.withColumnRenamed("array", "a.b`c").withColumnRenamed("where", "w.x")
    added = model.copy().setFeaturesCol("a.b`c").setSourceCol("w.x").transform(renamed)
    assert_allclose(memberships(added), model.model.transform(X, source=SOURCE), atol=1e-9)


def test_without_a_prior_sources_do_not_matter(frame):
    fitted = quick(seed=0, sourceCol="where").fit(frame)
    added = fitted.transform(frame.drop("where"))
    assert_allclose(memberships(added), fitted.model.transform(X), atol=1e-9)


def test_with_one_noise_for_all_sources_do_not_matter(frame):
    fitted = quick(seed=0, inference="map", alpha=2.0, noise="shared", sourceCol="where").fit(frame)
    added = fitted.transform(frame.drop("where"))
    assert_allclose(memberships(added), fitted.model.transform(X, source=SOURCE), atol=1e-9)


def test_a_model_of_one_source_needs_no_column_of_sources(frame):
    fitted = quick(seed=0, inference="map", alpha=2.0).fit(frame)
    assert_allclose(memberships(fitted.transform(frame)), fitted.model.transform(X), atol=1e-9)


def test_several_sources_with_a_prior_need_the_column(frame, model):
    unnamed = model.copy()
    unnamed.clear(unnamed.sourceCol)
    with pytest.raises(ValueError, match=r"3 sources of different noise.*setSourceCol"):
        unnamed.transform(frame)
    with pytest.raises(ValueError, match=r"no column 'where' \(sourceCol\)"):
        model.transform(frame.drop("where"))


def test_sources_may_be_numbers_or_text_and_stay_what_they_are(frame):
    for kind, dtype in (("int", int), ("string", str)):
        numbered = frame.withColumn("where", (F.col("row") % 3 + 9).cast(kind))
        fitted = quick(inference="map", alpha=2.0, init=START, sourceCol="where").fit(numbered)
        source = (np.arange(len(X)) % 3 + 9).astype(dtype)
        assert fitted.sources == np.unique(source).tolist()
        assert_allclose(memberships(fitted.transform(numbered)), fitted.model.transform(X, source=source), atol=1e-9)


@pytest.mark.parametrize(
    ("value", "message"),
    [("moon", "column 'where' has the source 'moon', which.*knows 'field', 'gar"), (None, "column 'where' is empty")],
)
def test_an_unknown_source_is_named_with_what_to_do(frame, model, value, message):
    changed = frame.withColumn("where", F.when(F.col("row") == 70, F.lit(value)).otherwise(F.col("where")))
    with pytest.raises(PythonException, match=message):
        model.transform(changed).collect()


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("array(1D)", r"'features' has vectors of size 1, the model has 4 features"),
        ("array(1D, double('nan'), 3D, 4D)", r"'features' has a vector with nan at place 1"),
        ("cast(null AS array<double>)", r"'features' is empty"),
    ],
)
def test_wrong_samples_are_named(frame, model, features, message):
    with pytest.raises(PythonException, match=message):
        model.transform(frame.withColumn("features", F.expr(features))).collect()


def test_wrong_columns_are_named_before_anything_runs(frame, model):
    for stage in (model.transform, ml.DBMD(k=3).fit):
        with pytest.raises(ValueError, match=r"no column 'features' \(featuresCol\)\. The columns are: row, dense"):
            stage(frame.drop("features"))
        with pytest.raises(ValueError, match=r"'features' \(featuresCol\) must hold vectors, array<float> .* bigint"):
            stage(frame.withColumn("features", F.col("kind")))
        with pytest.raises(ValueError, match=r"must hold vectors, .*Got array<string>"):
            stage(frame.withColumn("features", F.array(F.col("where"))))
    with pytest.raises(ValueError, match=r"no column 'nowhere' \(labelCol\)"):
        ml.DBMD(k=3, labelCol="nowhere").fit(frame)
    for name in ("prediction", "Probability"):
        with pytest.raises(ValueError, match=r"has a column 'pr\w+' already\. Drop it, or choose another name"):
            model.transform(frame.withColumn(name, F.lit(1)))
    with pytest.raises(ValueError, match="already"):
        model.copy().setPredictionCol("same").setProbabilityCol("same").transform(frame)


def test_empty_partitions_and_no_rows_at_all(frame, model):
    some = frame.filter("row < 2").repartition(5)
    assert model.transform(some).count() == 2
    assert len(model.transform(some).collect()) == 2
    assert model.transform(frame.filter("row < 0")).collect() == []


def test_a_model_fitted_elsewhere_is_wrapped(frame):
    fitted = dbmd.DBMD(3, random_state=np.random.RandomState(0), inference="map", alpha=2.0).fit(X, source=SOURCE)
    here = ml.DBMDModel(fitted).setSourceCol("where")
    assert here.getK() == 3
    assert here.getSeed() is None
    assert_allclose(memberships(here.transform(frame)), fitted.transform(X, source=SOURCE), atol=1e-9)


# -- Params --------------------------------------------------------------------------------------------------------


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


VALUES = {
    "k": 3,
    "solver": "admm",
    "noise": 0.5,
    "inference": "map",
    "alpha": [1.0, 2.0, 3.0],
    "lam": 0.25,
    "init": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.5]],
    "nInit": 2,
    "maxIter": 7,
    "tol": 0.125,
    "solverOptions": {"rho": 2.0, "max_rounds": 9},
    "numPartitions": 4,
    "seed": 11,
    "verbose": 1,
    "effectiveFeatures": 12.5,
    "scaling": "standard",
    "log": True,
    "brightness": True,
    "shares": "energy",
    "offsets": True,
    "missing": "allow",
    "nonnegative": True,
    "known": {"a": [1.0, 2.0]},
    "halves": True,
    "featuresCol": "f",
    "predictionCol": "p",
    "probabilityCol": "h",
    "brightnessCol": "b",
    "sourceCol": "s",
    "weightCol": "w",
    "labelCol": "l",
}


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


# -- files ---------------------------------------------------------------------------------------------------------


def test_an_estimator_is_saved_and_loaded(spark, tmp_path):
    estimator = ml.DBMD(**VALUES)
    estimator.save(str(tmp_path / "estimator"))
    loaded = ml.DBMD.load(str(tmp_path / "estimator"))
    assert loaded.uid == estimator.uid
    assert {p.name: v for p, v in loaded.extractParamMap().items()} == VALUES
    assert type(loaded) is ml.DBMD


def same(one, other, frame):
    assert_array_equal(np.array(one.clusterCenters()), np.array(other.clusterCenters()))
    assert_array_equal(one.noiseVariance, other.noiseVariance)
    assert one.sources == other.sources
    assert_array_equal(memberships(one.transform(frame)), memberships(other.transform(frame)))


def test_a_model_is_saved_and_loaded(frame, model, tmp_path):
    path = tmp_path / "model of iris"
    renamed = model.copy().setProbabilityCol("h").setPredictionCol("")
    renamed.save(str(path))
    assert sorted(entry.name for entry in path.iterdir()) == ["arrays.npz", "metadata", "model.json"]
    loaded = ml.DBMDModel.load(str(path))
    assert loaded.uid == model.uid
    assert loaded.extractParamMap() == renamed.extractParamMap()
    assert loaded.isSet("k")
    assert not loaded.isSet("tol")
    same(loaded.setProbabilityCol("probability"), model, frame)


@pytest.mark.parametrize("make", [lambda path: path.as_uri(), lambda path: f"file:{path}", lambda path: path])
def test_a_path_may_be_written_in_other_ways(model, tmp_path, make):
    path = tmp_path / "model of iris"
    model.save(make(path))
    assert (path / "model.json").exists()
    assert_array_equal(ml.DBMDModel.load(make(path)).clusterCenters(), model.clusterCenters())


def test_a_model_is_replaced_only_if_that_is_allowed(model, tmp_path):
    path = str(tmp_path / "model")
    model.save(path)
    with pytest.raises(FileExistsError):
        model.save(path)
    model.copy().setPredictionCol("cluster").write().overwrite().save(path)
    assert ml.DBMDModel.load(path).getPredictionCol() == "cluster"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    model.model.save(path, overwrite=True)  # and by the other face, which leaves no metadata of another model behind
    assert not (tmp_path / "model" / "metadata").exists()
    (tmp_path / "model" / "metadata").mkdir()
    (tmp_path / "model" / "metadata" / "mine").touch()
    with pytest.raises(FileExistsError, match="mine"):
        model.write().overwrite().save(path)


def test_each_face_opens_what_the_other_saved(frame, model, tmp_path):
    model.save(str(tmp_path / "here"))
    there = dbmd.load(tmp_path / "here")
    assert_array_equal(there.transform(X, source=SOURCE), model.model.transform(X, source=SOURCE))
    fitted = dbmd.DBMD(3, random_state=0, inference="map", alpha=[2.0, 1.0, 1.5]).fit(X, source=SOURCE)
    fitted.save(tmp_path / "there")
    here = ml.DBMDModel.load(str(tmp_path / "there")).setSourceCol("where")
    assert here.getAlpha() == [2.0, 1.0, 1.5]
    assert_allclose(memberships(here.transform(frame)), fitted.transform(X, source=SOURCE), atol=1e-9)


def test_metadata_gone_wrong_is_named(model, tmp_path):
    model.save(str(tmp_path / "model"))
    (tmp_path / "model" / "metadata" / "part-00000").write_text("{")
    with pytest.raises(ValueError, match="part-00000 cannot be read"):
        ml.DBMDModel.load(str(tmp_path / "model"))


def test_other_places_than_the_driver_s_files_are_refused_with_what_to_do(model):
    for path in ("hdfs:///models/a", "s3a://bucket/a", "file://elsewhere/a"):
        with pytest.raises(ValueError, match=r"driver's own file system: a path, or file:/path"):
            model.save(path)
        with pytest.raises(ValueError, match=r"driver's own file system"):
            ml.DBMDModel.load(path)
    assert str(local_path("file:/a%20b/c")) == "/a b/c"


def test_no_file_has_a_pickle_in_it(model, tmp_path):
    model.save(str(tmp_path / "model"))
    np.load(tmp_path / "model" / "arrays.npz", allow_pickle=False)
    metadata = json.loads((tmp_path / "model" / "metadata" / "part-00000").read_text())
    assert metadata["class"] == "dbmd.spark.DBMDModel"
    assert metadata["paramMap"]["k"] == 3


# -- among other stages --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def columns(spark):
    names = ["a", "b", "c", "d"]
    rows = [(i, *map(float, x), str(s)) for i, (x, s) in enumerate(zip(X, SOURCE, strict=True))]
    return spark.createDataFrame(rows, ["row", *names, "where"]).cache()


def test_a_pipeline_is_fitted_saved_and_loaded(columns, tmp_path):
    stages = [VectorAssembler(inputCols=["a", "b", "c", "d"], outputCol="features"), quick(seed=0, lam=1.0)]
    pipeline = Pipeline(stages=stages)
    pipeline.save(str(tmp_path / "pipeline"))
    fitted = Pipeline.load(str(tmp_path / "pipeline")).fit(columns)
    fitted.write().overwrite().save(str(tmp_path / "fitted"))
    fitted.write().overwrite().save(str(tmp_path / "fitted"))
    loaded = PipelineModel.load(str(tmp_path / "fitted"))
    H = memberships(loaded.transform(columns))
    assert_allclose(H, memberships(fitted.transform(columns)), atol=1e-12)
    assert_allclose(H, fitted.stages[1].model.transform(X), atol=1e-9)
    assert loaded.stages[1].getLam() == 1.0


def test_cross_validation_chooses_by_silhouette_and_is_saved(frame, tmp_path):
    estimator = ml.DBMD(seed=0, maxIter=2)
    grid = ParamGridBuilder().addGrid(estimator.k, [2, 6]).build()
    validator = CrossValidator(
        estimator=estimator, estimatorParamMaps=grid, evaluator=ClusteringEvaluator(), numFolds=2, seed=1, parallelism=2
    )
    chosen = validator.fit(frame)
    assert chosen.bestModel.getK() == 2  # two groups in iris stand far apart
    assert chosen.avgMetrics[0] > chosen.avgMetrics[1]
    chosen.save(str(tmp_path / "chosen"))
    loaded = CrossValidatorModel.load(str(tmp_path / "chosen"))
    same(loaded.bestModel, chosen.bestModel, frame)


# -- the page about it -----------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[1] / "docs" / "spark-ml.md").read_text("utf-8")


def test_the_code_on_the_page_runs(spark, tmp_path, capsys):
    names = {"spark": spark}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        # The JVM has a working directory of its own; and that it converges is shown elsewhere.
        block = block.replace("maxIter=500", "maxIter=1")
        exec(re.sub(r'"(flowers|digits|local)"', lambda name: repr(str(tmp_path / name[1])), block), names)
    assert capsys.readouterr().out.splitlines()[0] == "{'clean': 2.8, 'noisy': 8.3}"
    assert names["chosen"].bestModel.getK() in (5, 10)


def test_the_table_on_the_page_has_every_param_with_its_default():
    table = re.findall(r"^\| `(\w+)` \|(.*?)\|(.*?)\|", PAGE.split("## Params")[1], re.MULTILINE)
    rows = {name: (there.strip(), default.strip()) for name, there, default in table}
    estimator = ml.DBMD()
    assert set(rows) == {param.name for param in estimator.params}
    faces = {spark_name(field.name): f"`{field.name}`" for field in fields(Config)}
    for name, (there, default) in rows.items():
        assert there == faces.get(name, "")
        value = estimator.getOrDefault(name) if estimator.isDefined(name) else "unset"
        written = html.unescape(re.sub(r"`|\"|</?code>", "", default))
        assert written == ("none" if value is None else str(value))


# -- imports -------------------------------------------------------------------------------------------------------


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_pyspark_the_import_says_what_to_install():
    done = run("import sys; sys.modules['pyspark'] = None\nimport dbmd.spark")
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "ImportError: The module 'dbmd.spark' needs the package 'pyspark'. Install it with: pip install 'dbmd[spark]'"
    )


def test_dbmd_does_not_import_it():
    done = run("import sys, dbmd; dbmd.DBMD; print('dbmd.spark' in sys.modules, 'pyspark' in sys.modules)")
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_the_number_of_clusters_can_be_chosen(frame, tmp_path):
    model = quick(k="auto", seed=0).fit(frame)
    assert model.getK() == "auto"
    assert model.model.choice_.tried == (2, 3, 4, 5)
    assert len(model.clusterCenters()) == model.model.choice_.n_components
    model.save(str(tmp_path / "model"))
    again = ml.DBMDModel.load(str(tmp_path / "model"))
    assert again.model.choice_.asdict() == model.model.choice_.asdict()
    assert again.transform(frame).first()["probability"].size == model.model.n_components_
