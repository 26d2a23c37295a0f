"""Iris for Spark, quick fits of it, and how results are compared."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris

MARKS = [
    pytest.mark.spark,
    # A pass takes Spark a tenth of a second at least: most fits here are cut short.
    pytest.mark.filterwarnings("ignore:DBMD did not converge:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:The solver:sklearn.exceptions.ConvergenceWarning"),
]

ml = pytest.importorskip("dbmd.spark")
from pyspark.ml.linalg import Vectors, VectorUDT  # noqa: E402
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType  # noqa: E402

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
VALUES = {  # of every Param
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


def quick(**params):
    return ml.DBMD(**{"k": 3, "maxIter": 2} | params)


def vector(x, *, is_sparse):
    places = np.flatnonzero(x)
    return Vectors.sparse(len(x), places, x[places]) if is_sparse else Vectors.dense(x)


def collected(added, *names):
    """Return columns as arrays, in the order of the rows of X."""
    rows = added.select("row", *names).orderBy("row").collect()
    return [np.array([row[name] for row in rows]) for name in names]


def memberships(added, name="probability"):
    return np.array([h.toArray() for h in np.array(added.select("row", name).orderBy("row").collect(), object)[:, 1]])


def same(one, other, frame):
    assert_array_equal(np.array(one.clusterCenters()), np.array(other.clusterCenters()))
    assert_array_equal(one.noiseVariance, other.noiseVariance)
    assert one.sources == other.sources
    assert_array_equal(memberships(one.transform(frame)), memberships(other.transform(frame)))
