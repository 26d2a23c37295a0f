"""The session of Spark: the user's own, or one that is started and stopped with an engine."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from dbmd.engines._java import find_java, tolerant
from dbmd.errors import EngineError, needs

with needs("engine 'spark'", "pyspark", "spark"):
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# For a session of our own on this machine. Nobody else may connect: it listens on loopback only, and asks for a secret
# that Spark makes for the run.
OWN_SESSION = {
    "spark.authenticate": "true",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Between the JVM and Python: over TCP, every task waits 80 ms for delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
}

# For temporary files instead of TMPDIR: the path of a socket may have some 100 characters only.
SHORT = "/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir()

# What Spark can read and dbmd cannot: formats by suffix, and addresses by scheme (Parquet if there is no suffix).
FORMATS = {".avro": "avro", ".json": "json", ".jsonl": "json", ".orc": "orc"}
SCHEMES = ("abfs", "abfss", "dbfs", "s3a", "s3n", "viewfs", "wasb", "wasbs")


class Session:
    """The session of the user, or one of our own, which :meth:`close` stops.

    Parameters
    ----------
    spark : SparkSession, optional
        The session of the user, if known.
    """

    def __init__(self, spark: Any = None) -> None:
        spark = spark or SparkSession.getActiveSession()
        if spark is None and SparkContext._active_spark_context is not None:
            spark = SparkSession.builder.getOrCreate()  # of the user, started in another thread
        self._owned = spark is None
        self.spark = spark or _start()
        if not hasattr(self.spark, "_jsparkSession"):
            raise EngineError(
                "The engine 'spark' needs a classic session: Spark Connect offers no RDDs. Run the driver on the "
                "cluster (spark-submit, or SparkSession.builder.master(...))."
            )

    @property
    def context(self) -> Any:
        """The SparkContext."""
        return self.spark.sparkContext

    @property
    def is_running(self) -> bool:
        """Whether the session has not been stopped."""
        return SparkContext._active_spark_context is self.context

    @property
    def n_cores(self) -> int:
        """Number of tasks that run at once."""
        return int(self.context.defaultParallelism)

    def read(self, data: Any) -> Any:
        """Return a DataFrame of what only Spark can read; return other paths as they are: dbmd reads them itself."""
        first = str(data[0] if isinstance(data, list | tuple) else data)
        kind = FORMATS.get(PurePosixPath(first).suffix.lower())
        if kind is None and first.split("://")[0] not in SCHEMES:
            return data
        paths = [str(path) for path in data] if isinstance(data, list | tuple) else first
        return self.spark.read.format(kind or "parquet").load(paths)

    def close(self) -> None:
        """Stop Spark if it is our own."""
        if self._owned:
            self.spark.stop()


def _start() -> Any:
    """Start Spark: as set by spark-submit, else on the cluster named in MASTER, else on all cores of this machine."""
    builder = SparkSession.builder.appName("dbmd")
    environment = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}  # with the packages of here
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # which spark-submit sets: then there is a JVM
        java_home = find_java()
        if java_home is not None:
            environment["JAVA_HOME"] = tolerant(java_home)
        master = os.environ.get("MASTER", "local[*]")
        builder = builder.master(master)
        if master.startswith("local"):
            environment["SPARK_LOCAL_IP"] = "127.0.0.1"
            # Spark's shuffle files are readable by all, and its sockets ask for no secret: both get a private folder.
            folders = filter(None, os.environ.get("SPARK_LOCAL_DIRS", "").split(","))
            environment["SPARK_LOCAL_DIRS"] = ",".join(map(_private_folder, list(folders) or [SHORT]))
            sockets = {"spark.python.unix.domain.socket.dir": _private_folder(SHORT)}
            for name, value in (OWN_SESSION | sockets).items():
                builder = builder.config(name, value)
    with _environment(environment):
        return builder.getOrCreate()


@cache
def _private_folder(parent: str) -> str:
    """Return a folder accessible to its owner only, for as long as this process and its JVM run."""
    folder = tempfile.mkdtemp(prefix="dbmd-", dir=parent)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def _environment(ours: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within a context."""
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
