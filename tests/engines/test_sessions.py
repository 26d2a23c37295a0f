"""Whose cluster it is: the user's own is left running, one that an engine began ends with it."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from dbmd.model.node import Node
from dbmd.registry import load
from engine_params import on_clusters

from .asked import count, name_of
from .data import samples

TESTS = Path(__file__).parents[1]
NODES = [Node("a"), Node("b")]

ALONE = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
os.umask(0o000)  # the worst
import dbmd
from engines.asked import blas_threads
from engines.data import model
from engines.doors import doors, within_reach
from threadpoolctl import threadpool_limits

def is_running(engine):
    if engine == "spark":
        from pyspark import SparkContext
        return SparkContext._active_spark_context is not None
    import distributed
    try:
        return distributed.get_client() is not None
    except ValueError:
        return False

engine, path = sys.argv[1:]
before = dict(os.environ)
threadpool_limits(2, user_api="blas")
blas = blas_threads()
told = {"before": is_running(engine)}
with dbmd.open_data(path, engine=engine) as data:
    told["components"] = model(engine, max_iter=1).fit(data).components_.tolist()
    told["while"] = is_running(engine)
    told["doors"] = doors()
    told["within reach"] = within_reach()
told["after"] = is_running(engine)
ours = ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS")  # what is set to start a cluster
told["changed"] = [name for name in ours if os.environ.get(name) != before.get(name)]
told["blas"] = blas_threads() | blas == blas_threads()
print(json.dumps(told))
"""


@on_clusters
def test_who_has_no_cluster_gets_one_for_as_long_as_it_is_needed(engine, tmp_path):
    """In a process of its own, which has none."""
    Xt, _, _ = samples()
    np.save(tmp_path / "x.npy", Xt)
    (tmp_path / "alone.py").write_text(ALONE)
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "alone.py", engine, tmp_path / "x.npy"],
        env=os.environ | {"PYTHONPATH": path, "MASTER": "local[1]", "DBMD_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["before"], told["while"], told["after"]) == (False, True, False)
    assert np.shape(told["components"]) == (3, Xt.shape[1])
    assert told["changed"] == []
    assert told["blas"]  # it is let go, even if the workers are threads of the process
    # Nobody else gets in: no port is open but on loopback, where who has no secret is turned away; no file is in reach.
    assert len(told["doors"]) == {"spark": 3, "dask": 0}[engine]
    for address, answer in told["doors"]:
        assert address in ("127.0.0.1", "::ffff:127.0.0.1")
        assert "Expected SaslMessage" in answer or "Authentication error" in answer
    assert told["within reach"] == []


@pytest.mark.spark
def test_a_session_of_the_user_is_left_running_and_as_it_was(spark):
    from pyspark import SparkContext

    before = spark.conf.getAll
    with load("engines", "spark").Engine(NODES) as running:
        assert running.ask(name_of) == ("a", "b")
    assert SparkContext._active_spark_context is spark.sparkContext
    assert spark.range(3).count() == 3
    assert spark.conf.getAll == before


@pytest.mark.spark
def test_a_session_is_found_from_another_thread(spark):
    found = []

    def ask():
        with load("engines", "spark").Engine(NODES) as running:
            found.append(running.ask(name_of))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [("a", "b")]
    assert spark.range(3).count() == 3


@pytest.mark.dask
def test_a_client_of_the_user_is_left_open(dask_client):
    with load("engines", "dask").Engine(NODES) as running:
        assert running.ask(name_of) == ("a", "b")
    assert dask_client.status == "running"
    assert dask_client.submit(sum, (1, 2)).result() == 3


@on_clusters
def test_engines_side_by_side_do_not_see_each_other(engine, cluster):
    cluster(engine)
    make = load("engines", engine).Engine
    with make(NODES) as one, make(NODES) as other:
        assert one.ask(count) == 2
        assert other.ask(count) == 2
        assert one.ask(count) == 4
        other.close()
        assert one.ask(count) == 6
