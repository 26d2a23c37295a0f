"""The estimator of the pyspark.ml interface."""

from __future__ import annotations

from typing import Any

from pyspark.ml import Estimator
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
from pyspark.sql import DataFrame

from dbmd.config import Config
from dbmd.dataset import open_data
from dbmd.estimator import DBMD as LocalDBMD
from dbmd.spark.model import DBMDModel
from dbmd.spark.params import COLUMNS, NAMES, SIGNATURE, DBMDParams, spark_names, with_setters
from dbmd.spark.schema import check_features, check_is_there


@with_setters(*NAMES.values(), *COLUMNS)
class DBMD(Estimator, DBMDParams, DefaultParamsReadable, DefaultParamsWritable):
    """Distributed Bayesian matrix decomposition of the rows of a DataFrame: the estimator of pyspark.ml.

    The model, the algorithm and the result are those of :class:`dbmd.DBMD`. Partitions are nodes: the samples stay
    where they are, and only sums over them travel.

    Parameters
    ----------
    **params
        By name: k, solver, noise, alpha, lam, init, nInit, maxIter, tol, solverOptions, numPartitions, seed, verbose,
        scaling, log, brightness, shares, offsets, missing, nonnegative, known, which are those of :class:`dbmd.DBMD`
        (n_components is k, random_state is seed, n_nodes is numPartitions), and the columns featuresCol, predictionCol,
        probabilityCol, brightnessCol, sourceCol, weightCol and labelCol. ``explainParams()`` has a line on each.
    """

    __signature__ = SIGNATURE

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self.setParams(**params)

    def setParams(self, **params: Any) -> DBMD:
        """Set Params by name, and return self."""
        for name in params:
            if name not in SIGNATURE.parameters:
                raise TypeError(f"DBMD has no Param {name!r}. It has: {', '.join(SIGNATURE.parameters)}.")
        return self._set(**params)

    def _fit(self, dataset: DataFrame) -> DBMDModel:
        check_features(dataset, self._value("featuresCol"))
        for param in ("sourceCol", "weightCol", "labelCol"):
            if self._value(param):
                check_is_there(dataset, self._value(param), param)
        with spark_names():
            estimator = LocalDBMD(engine="spark", **self._estimator_params())
            Config.of(estimator)  # checks the parameters before anything is read
            with open_data(
                dataset,
                columns=[self._value("featuresCol")],
                source=self._value("sourceCol") or None,
                sample_weight=self._value("weightCol") or None,
                label=self._value("labelCol") or None,
                missing=self._value("missing"),
                n_nodes=self._value("numPartitions"),
            ) as data:
                estimator.fit(data)
        # The model has the uid of its estimator, as those of pyspark.ml have: a map of Params is for both.
        model = DBMDModel(estimator)
        model._paramMap.clear()
        return self._copyValues(model._resetUid(self.uid))
