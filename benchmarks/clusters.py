"""The engines on Spark and Dask beside the local one, all on the cores of this machine.

    python benchmarks/clusters.py                   # all of it, about 8 minutes on 2 cores
    python benchmarks/clusters.py passes            # a pass over 400,000 x 784 float32 in 4 partitions
    python benchmarks/clusters.py covtype           # a whole fit beside Spark MLlib's KMeans
    python benchmarks/clusters.py cost              # what a question costs, for the cost model of docs/cluster.md

Engines take turns in one process, so that what else goes on at the machine hits all alike; the table has medians.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dbmd import open_data
from dbmd.data import partition
from dbmd.data.datasets import load
from dbmd.engines._spark_session import OWN_SESSION
from dbmd.engines.dask import Engine as DaskEngine
from dbmd.engines.local import Engine as LocalEngine
from dbmd.engines.spark import Engine as SparkEngine
from dbmd.h_step import origin_of
from dbmd.model.node import Node
from dbmd.sweep import sweep

N, M, R, PARTITIONS = 400_000, 784, 10, 4


def start_spark(master: str = "local[2]") -> Any:
    """Start Spark as the engine itself would, with room for what MLlib caches."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.driver.memory", "4g")
    for name, value in OWN_SESSION.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def start_dask() -> Any:
    from distributed import Client, LocalCluster

    # Processes, as on a cluster; without one of the user's, dbmd takes threads of its own.
    alone = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    return Client(LocalCluster(n_workers=2, threads_per_worker=1, **alone))


def seconds(action: Callable[[], object]) -> float:
    clock = time.perf_counter()
    action()
    return time.perf_counter() - clock


def passes(spark: Any, client: Any) -> None:
    """Time passes over the same 1.25 GB on three engines, which take turns."""
    import dask
    import dask.array as da

    rng = np.random.default_rng(0)
    W = rng.normal(size=(M, R))
    Xt = rng.dirichlet(np.full(R, 0.3), N).astype(np.float32) @ W.T.astype(np.float32)
    Xt += 0.3 * rng.standard_normal(Xt.shape, dtype=np.float32)
    rows = N // PARTITIONS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i in range(PARTITIONS):
            block = Xt[i * rows : (i + 1) * rows]
            np.save(folder / f"{i}.npy", block)
            column = pa.FixedSizeListArray.from_arrays(block.ravel(), M).cast(pa.list_(pa.float32()))
            pq.write_table(
                pa.table({"features": column}), folder / f"{i}.parquet", use_dictionary=False, row_group_size=rows
            )
        spark.conf.set("spark.sql.files.maxPartitionBytes", "400m")  # a file of 314 MB is a partition
        frame = spark.read.parquet(*(str(folder / f"{i}.parquet") for i in range(PARTITIONS)))
        blocks = [da.from_delayed(dask.delayed(np.load)(folder / f"{i}.npy"), (rows, M), np.float32) for i in range(4)]
        for told, data in (("Spark", frame), ("Dask", da.concatenate(blocks))):
            clock = time.perf_counter()
            opened = open_data(data)
            print(f"first load, {told}: {time.perf_counter() - clock:.1f} s, {opened.description}", flush=True)
            if told == "Spark":
                on_spark = opened
            else:
                on_dask = opened
        step = partial(sweep, sigma2=np.ones(1), prior=np.zeros(R), origin=origin_of(W, Xt.dtype))
        with (
            LocalEngine(partition(Xt, 0, PARTITIONS)) as local,
            on_spark.on("spark", None, R) as of_spark,
            on_dask.on("dask", None, R) as of_dask,
        ):
            engines = {"local": local, "spark": of_spark, "dask": of_dask}
            found: dict[str, list[float]] = {name: [] for name in engines}
            for turn in range(12):
                V = W * (1.0 + 1e-3 * rng.normal(size=W.shape))  # as in a fit that is well on its way
                for name, engine in engines.items():
                    taken = seconds(partial(engine.ask, step, V))
                    if turn >= 2:
                        found[name].append(taken)
        on_spark.close()
        on_dask.close()
    for name, times in found.items():
        ratio = statistics.median(t / own for t, own in zip(times, found["local"], strict=True))
        print(f"a pass, {name}: {statistics.median(times):.3f} s, {ratio:.2f} times local (target 1.5)", flush=True)


def covtype(spark: Any, client: Any) -> None:
    """Time a whole fit beside MLlib's KMeans on the same session and the same cached DataFrame."""
    from pyspark.ml.clustering import KMeans
    from pyspark.ml.feature import VectorAssembler

    from dbmd.spark import DBMD as SparkDBMD

    raw = load("covtype").X.astype(np.float64)
    columns = [f"x{i}" for i in range(raw.shape[1])]
    for told, X in (("standardised", (raw - raw.mean(axis=0)) / raw.std(axis=0)), ("as it is", raw)):
        print(f"CoverType {told}, {X.shape[0]:,} x {X.shape[1]}, r = 7, {spark.sparkContext.master}")
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "covtype.parquet"
            pq.write_table(pa.table(list(X.T), names=columns), path, row_group_size=len(X) // 4 + 1)
            table = spark.read.parquet(str(path)).repartition(4)
            frame = VectorAssembler(inputCols=columns, outputCol="features").transform(table).select("features").cache()
            frame.count()
        for seed in range(3):
            clock = time.perf_counter()
            found = KMeans(k=7, initMode="k-means||", maxIter=100, seed=seed).fit(frame)
            k_means = time.perf_counter() - clock
            clock = time.perf_counter()
            model = SparkDBMD(k=7, seed=seed).fit(frame)
            taken = time.perf_counter() - clock
            print(
                f"seed {seed}: MLlib KMeans {k_means:.1f} s ({found.summary.numIter} rounds), "
                f"DBMD {taken:.1f} s ({len(model.history)} iterations)",
                flush=True,
            )
        frame.unpersist()


def echo(node: Any, payload: Any) -> tuple[Any, Any]:
    return node, payload


def cost(spark: Any, client: Any) -> None:
    """Fit what a question costs beside the computing, and print what that predicts for a cluster."""
    for name, make in (("spark", SparkEngine), ("dask", DaskEngine)):
        rows, times = [], []
        for n_nodes in (2, 4, 8, 16):
            with make([Node(f"node {i}") for i in range(n_nodes)]) as engine:
                for floats in (1, 10**5, 5 * 10**5):
                    payload = np.zeros(floats)
                    taken = statistics.median([seconds(partial(engine.ask, echo, payload)) for _ in range(9)][3:])
                    print(f"{name}, {n_nodes} nodes, {floats:,} floats both ways: {taken:.3f} s", flush=True)
                    rows.append([1.0, n_nodes, 8.0 * floats * n_nodes])
                    times.append(taken)
        # Relative errors count alike, whether a question takes 20 ms or a second.
        weights = 1.0 / np.array(times)
        fixed, by_node, by_byte = np.linalg.lstsq(np.array(rows) * weights[:, None], np.ones(len(times)), rcond=None)[0]
        print(f"{name}: {1e3 * fixed:.0f} ms, {1e3 * by_node:.1f} ms a node, {1e9 * by_byte:.1f} ns a byte and node")
        predict(name, fixed, by_node, by_byte)


def compute_rate() -> float:
    """Return how many bytes of float32 samples one core takes in a second: a pass with r = 10, by one thread."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(M, R))
    Xt = (rng.dirichlet(np.full(R, 0.3), 50_000) @ W.T).astype(np.float32)
    step = partial(sweep, sigma2=np.ones(1), prior=np.zeros(R), origin=origin_of(W, Xt.dtype))
    with LocalEngine(partition(Xt, 0, 1), 1) as engine:
        taken = min(seconds(partial(engine.ask, step, W)) for _ in range(5))
    return Xt.nbytes / taken


def predict(name: str, fixed: float, by_node: float, by_byte: float, network: float = 1e9) -> None:
    """Print seconds a pass of ``exact`` for clusters of nodes with one core each.

    compute     bytes of the samples / (nodes x rate)
    latency     fixed + by_node x nodes: what was measured here, where driver and workers share two cores
    traffic     messages of 8 (m r + r^2) bytes, each (by_byte + 1 / network) seconds: as many as one machine has to
                take one after the other. Spark: sqrt(nodes) at the executor that adds them, as many at the driver;
                Dask: 8 at each of log8(nodes) levels; both: log2(nodes) for W on its way down
    """
    rate = compute_rate()
    print(f"rate {rate / 1e9:.2f} GB/s a core, network {network / 1e9:g} GB/s assumed")
    counts = (1, 10, 100, 1000)
    for n, m in ((100_000_000, 784), (10_000_000, 20_000)):
        told = []
        for nodes in counts:
            message = 8 * (m * R + R * R) * (by_byte + 1.0 / network)
            up = 2 * nodes**0.5 if name == "spark" else 8 * np.ceil(np.log(nodes) / np.log(8)) if nodes > 1 else 1
            parts = 4 * n * m / (nodes * rate), fixed + by_node * nodes, message * (up + np.log2(max(nodes, 2)))
            told.append(f"{sum(parts):.3g} s ({', '.join(f'{part:.2g}' for part in parts)})")
        print(f"{name}, {n:,} x {m:,} ({4e-9 * n * m:.0f} GB), nodes {counts}: {' | '.join(told)}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.modules["clusters"] = sys.modules["__main__"]
    echo.__module__ = "clusters"  # workers import it by this name
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    chosen = sys.argv[1:] or ["passes", "covtype", "cost"]
    session, dask_client = start_spark(), start_dask()
    try:
        for name in chosen:
            globals()[name](session, dask_client)
    finally:
        dask_client.cluster.close()
        dask_client.close()
        session.stop()
