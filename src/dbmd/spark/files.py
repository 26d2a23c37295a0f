"""A model of pyspark.ml on disk: a directory that :func:`dbmd.load` opens, too, with the metadata of pyspark.ml.

It is written by the driver, not by a job of Spark, under a temporary name and renamed: so it is on the driver's disk.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyspark
from pyspark.ml.util import DefaultParamsReader, MLReader, MLWriter

from dbmd._utils.model_files import SPARK_METADATA
from dbmd.estimator import load
from dbmd.saved import directory
from dbmd.storage import read_file


class ModelWriter(MLWriter):
    """Write a model: ``model.write().overwrite().save(path)``."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.instance = model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the directory.

        Parameters
        ----------
        path : str
            The directory, on the driver's file system.
        """
        # Not as pyspark.ml does it, which removes the old model before it writes the new one.
        directory.save(
            self.instance.model,
            local_path(path),
            overwrite=self.shouldOverwrite,
            beside={SPARK_METADATA: _metadata(self.instance)},
        )


class ModelReader(MLReader):
    """Read a model: ``DBMDModel.read().load(path)``."""

    def __init__(self, cls: Any) -> None:
        super().__init__()
        self._cls = cls

    def load(self, path: str | os.PathLike[str]) -> Any:
        """Read the directory, whichever interface of dbmd wrote it.

        Parameters
        ----------
        path : str
            The directory, on the driver's file system.

        Returns
        -------
        DBMDModel
        """
        folder = local_path(path)
        model = self._cls(load(folder))
        try:
            text = read_file(folder / SPARK_METADATA)
        except FileNotFoundError:  # another interface wrote it
            return model
        try:
            metadata = json.loads(text.decode())
            model._paramMap.clear()
            model._resetUid(metadata["uid"])
            DefaultParamsReader.getAndSetParams(model, metadata)
        except Exception as error:  # a damaged file may raise anything
            raise ValueError(f"{folder / SPARK_METADATA} cannot be read: {error}.") from error
        return model


def _metadata(stage: Any) -> bytes:
    """Return what pyspark.ml writes for each stage: one line of JSON."""
    record = {
        "class": f"{type(stage).__module__}.{type(stage).__name__}",
        "timestamp": round(time.time() * 1000),
        "sparkVersion": pyspark.__version__,
        "uid": stage.uid,
        "paramMap": {param.name: value for param, value in stage._paramMap.items()},
        "defaultParamMap": {param.name: value for param, value in stage._defaultParamMap.items()},
    }
    return (json.dumps(record, separators=(",", ":")) + "\n").encode()


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return a path, or a URI of Spark, as a path of the driver's file system."""
    text = os.fspath(path)
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", text):  # one letter is a drive
        return Path(text)
    address = urlsplit(text)
    if address.scheme != "file" or address.netloc not in ("", "localhost"):
        raise ValueError(
            f"{text}: a model is saved to and loaded from the driver's own file system: a path, or file:/path. "
            f"Save it there and copy the directory to {address.scheme}: with the tools of that system."
        )
    return Path(unquote(address.path))
