"""The fitted model of the pyspark.ml interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dbmd.engines.spark import for_arrow
from dbmd.estimator import DBMD as LocalDBMD
from dbmd.estimator._memberships import membership_model_of_fit
from dbmd.estimator.fitted import FittedArrays
from dbmd.model.result import Iteration
from dbmd.spark.files import ModelReader, ModelWriter
from dbmd.spark.params import NAMES, DBMDParams, with_setters
from dbmd.spark.projector import Projector
from dbmd.spark.schema import check_features, check_is_there, check_new

ADDED = ("prediction", "probability", "brightness")  # columns that a model can add


@with_setters("featuresCol", "predictionCol", "probabilityCol", "brightnessCol", "sourceCol")
class DBMDModel(Model, DBMDParams, MLReadable, MLWritable):
    """A fitted model: adds the cluster and the memberships of samples to a DataFrame.

    Parameters
    ----------
    model : dbmd.DBMD
        Fitted, by this or any other interface.

    Attributes
    ----------
    model : dbmd.DBMD
        The estimator that the model was made from: it takes arrays and files, and scores.
    """

    def __init__(self, model: LocalDBMD) -> None:
        super().__init__()
        self.model = model
        params = {param: getattr(model, name) for name, param in NAMES.items()}
        if not isinstance(params["seed"], int | np.integer | None):
            params["seed"] = None  # a generator cannot be saved
        self._set(**{name: value for name, value in params.items() if value is not None})

    def clusterCenters(self) -> list[NDArray[Any]]:
        """Return the basis: k arrays of numFeatures numbers."""
        return list(self.model.components_)

    @property
    def numFeatures(self) -> int:
        """Number of features."""
        return int(self.model.n_features_in_)

    @property
    def sources(self) -> list[Any]:
        """The labels of the sources."""
        return self.model.sources_.tolist()

    @property
    def noiseVariance(self) -> NDArray[np.float64]:
        """The sigma^2 of each source."""
        return self.model.noise_variance_

    @property
    def clusterSizes(self) -> NDArray[np.float64]:
        """Sums of the memberships in the data of the fit, of each cluster."""
        return self.model.cluster_sizes_

    @property
    def objective(self) -> float:
        """Negative log evidence (with ``map`` log posterior), up to constants."""
        return self.model.objective_

    @property
    def history(self) -> list[Iteration]:
        """What happened in each iteration: objective, seconds, rounds, numbers sent."""
        return self.model.history_

    def write(self) -> ModelWriter:
        """Return a writer."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> ModelReader:
        """Return a reader."""
        return ModelReader(cls)

    def __repr__(self) -> str:
        return f"{type(self).__name__}: uid={self.uid}, k={len(self.model.components_)}, numFeatures={self.numFeatures}"

    # -- inside ----------------------------------------------------------------------------------------------------

    def _transform(self, dataset: DataFrame) -> DataFrame:
        features = self._value("featuresCol")
        check_features(dataset, features)
        wanted = [name for name in (self._value(f"{each}Col") for each in ADDED) if name]
        for i, name in enumerate(wanted):
            check_new(dataset, name, wanted[:i])
        if self._value("brightnessCol") and not self.model.brightness:
            raise ValueError("The model has no brightness (brightnessCol): fit it with brightness=True.")
        found, r = self._memberships(dataset), len(self.model.components_)
        Ht = F.slice(found, 1, r)
        added = {}
        # All are made from the same expression, which Spark computes once.
        if self._value("predictionCol"):
            cluster = F.array_position(Ht, F.array_max(Ht)) - 1
            # Samples that are left out have memberships of NaN, which to Spark is larger than any number.
            added[self._value("predictionCol")] = F.when(F.isnan(found[0]), -1).otherwise(cluster).cast("int")
        if self._value("probabilityCol"):
            added[self._value("probabilityCol")] = array_to_vector(Ht)
        if self._value("brightnessCol"):
            added[self._value("brightnessCol")] = found[r]
        return dataset.withColumns(added) if added else dataset

    def _memberships(self, dataset: DataFrame) -> Column:
        """Return memberships and brightness as a column: arrays of k + 1 numbers."""
        features, source = self._value("featuresCol"), self._source_needed(dataset)
        fitted = FittedArrays.of(self.model)
        projector = Projector(
            membership_model_of_fit(fitted, knows_source=source is not None),
            fitted.preparation,
            features,
            self.model.missing,
            source,
            fitted.source_names,
        )

        # Only these columns pass through Python, and only this function and its closure are sent to the workers.
        def memberships(*columns: pa.Array) -> pa.Array:
            return projector(*columns)

        names = [features] if source is None else [features, source]
        return F.arrow_udf(memberships, "array<double>")(*(for_arrow(dataset, name) for name in names))

    def _source_needed(self, dataset: DataFrame) -> str | None:
        """Return the column of sources, None if the memberships do not depend on it."""
        source = self._value("sourceCol")
        if not FittedArrays.of(self.model).needs_source:
            return None
        if not source:
            raise ValueError(
                f"The model has {len(self.model.sources_)} sources of different noise, or with offsets, and "
                "memberships depend on it. Name the column of sources: model.setSourceCol(...)."
            )
        check_is_there(dataset, source, "sourceCol")
        return source
