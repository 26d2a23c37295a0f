"""Fits on a cluster of Spark of separate processes, an executor of which is killed: python -m engines.executor_killed.

Arguments: "local-cluster[...]" or "standalone", a folder, and a solver. Prints one line of JSON.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from spark_session import BRIEF


@contextmanager
def standalone(folder):
    """Start a master and a worker in processes of their own; give the address of the master."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    package = "org.apache.spark.deploy"
    log = open(folder / "log", "w+")  # noqa: SIM115
    began = []

    def start(*arguments):
        began.append(subprocess.Popen([program, *arguments], stdout=log, stderr=log))

    def told(start):
        """Return what the log says behind a text, as soon as it does."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            text = (folder / "log").read_text()
            if start in text:
                return text.split(start)[1].split()[0].rstrip(".")
            time.sleep(0.1)
        raise TimeoutError((folder / "log").read_text())

    try:
        start(f"{package}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        address = "spark://127.0.0.1:" + told("Starting Spark master at spark://127.0.0.1:")
        options = ["--host", "127.0.0.1", "--cores", "2", "--memory", "2g", "--webui-port", "0", "--work-dir", folder]
        start(f"{package}.worker.Worker", *options, address)
        told("Successfully registered with master ")
        yield address
    finally:
        for process in reversed(began):
            process.terminate()
            process.wait()
        log.close()


def session(master, folder):
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def executors():
    from engines.harm import children, command

    return [pid for pid in children(os.getpid()) if "CoarseGrainedExecutorBackend" in command(pid)]


def main(master, folder, solver):
    import dbmd
    from engines.data import R
    from engines.harm import Disturbed, children, kill, processes
    from engines.test_faults import Local, fitted, frame, parts

    spark = session(master, folder)
    end = time.monotonic() + 60
    while len(executors()) < 2:
        assert time.monotonic() < end
        time.sleep(0.1)
    expected = fitted(Local(parts()), solver)
    killed = []

    def harm(running, function):
        home = processes(running)[0]  # of the first node
        killed.extend(pid for pid in executors() if home in children(pid))
        kill(killed)
        return function

    clock = time.monotonic()
    with dbmd.open_data(frame(spark), source="lab") as data, data.on("spark", None, R) as running:
        # exact: before the second sweep. cease: between gradient and local solution of a round.
        found = fitted(Disturbed(running, 2 if solver == "exact" else 5, harm), solver)
    told = {
        "killed": killed,
        "difference": float(np.abs(found.W - expected.W).max() / np.abs(expected.W).max()),
        "seconds": time.monotonic() - clock,
        "left": [str(path) for path in folder.rglob("dbmd-*")],
    }
    spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["JAVA_TOOL_OPTIONS"] = BRIEF
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    place = Path(sys.argv[2])
    if sys.argv[1] == "standalone":
        with standalone(place) as address:
            main(address, place, sys.argv[3])
    else:
        main(sys.argv[1], place, sys.argv[3])
