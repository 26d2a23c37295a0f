"""The interface for pyspark.ml: an Estimator and its Model, for pipelines, grids and cross-validation.

``DBMD(k=8, seed=0).fit(df).transform(df)`` adds the columns prediction and probability.
"""

from __future__ import annotations

from dbmd.errors import needs

with needs("module 'dbmd.spark'", "pyspark", "spark"):
    from dbmd.spark.estimator import DBMD
    from dbmd.spark.model import DBMDModel

__all__ = ["DBMD", "DBMDModel"]

# pyspark.ml writes the name of the class beside a saved stage: the public one, whatever file it is in today.
DBMD.__module__ = DBMDModel.__module__ = __name__
