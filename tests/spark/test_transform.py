"""Columns that a model adds to a DataFrame."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dbmd
from spark.shared import MARKS, SOURCE, START, X, collected, memberships, quick

pytestmark = MARKS
ml = pytest.importorskip("dbmd.spark")
from pyspark.errors import PythonException  # noqa: E402
from pyspark.ml.linalg import VectorUDT  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from pyspark.sql.types import IntegerType  # noqa: E402


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
