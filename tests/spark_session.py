"""One session of Spark for all tests of a process: two cores, loopback only."""

import os
import sys
from pathlib import Path

# For JVMs that do not live long: compile quickly rather than well.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
FOLDERS = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]


def make_session():
    from pyspark.sql import SparkSession

    # What Python workers are started with: this interpreter, this code, and one thread each.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    path = [*FOLDERS, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path))
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": "true",  # saves 80 ms a task
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": BRIEF,
    }
    builder = SparkSession.builder.master("local[2]").appName("dbmd tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
