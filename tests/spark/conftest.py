"""A DataFrame and a model of it, which are made once for all tests here, if there is pyspark."""

import pytest


@pytest.fixture(scope="session")
def frame(spark):
    """Iris in three partitions; column "features" has dense and sparse vectors by turns."""
    from spark.shared import KIND, SCHEMA, SOURCE, X, vector

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


@pytest.fixture(scope="session")
def model(frame):
    from spark.shared import quick

    return quick(inference="map", alpha=2.0, seed=0, sourceCol="where").fit(frame)
