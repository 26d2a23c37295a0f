"""Among other stages of pyspark.ml: pipelines and cross-validation."""

import pytest
from numpy.testing import assert_allclose

from spark.shared import MARKS, SOURCE, X, memberships, quick, same

pytestmark = MARKS
ml = pytest.importorskip("dbmd.spark")
from pyspark.ml import Pipeline, PipelineModel  # noqa: E402
from pyspark.ml.evaluation import ClusteringEvaluator  # noqa: E402
from pyspark.ml.feature import VectorAssembler  # noqa: E402
from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, ParamGridBuilder  # noqa: E402


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
