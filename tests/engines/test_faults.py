"""Workers that are killed, functions that raise, users who interrupt: fits end as they should and leave nothing."""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

import dask
import numpy as np
import pytest
from distributed import Client

import dbmd
from dask_cluster import make_scheduler, make_worker
from dbmd.algorithm import fit
from dbmd.config import Config
from dbmd.engines.local import Engine as Local
from dbmd.errors import DataError, EngineError
from dbmd.model.node import Node
from dbmd.registry import load
from engine_params import on_clusters, on_each_cluster

from .asked import count, count_and_note, fail_at_two, fail_everywhere, name_of, sleep
from .data import LABS, NAMES, M, R, model, samples
from .harm import DieOnce, Disturbed, folders, interrupt_and_stay, kill, processes

on_spark, on_dask = pytest.mark.spark, pytest.mark.dask
SECONDS = 60  # that a disturbed fit may take, which alone takes two

X, LAB, START = samples()


def fitted(engine, solver, on_iteration=lambda state: None):
    options = {} if solver == "exact" else {"max_rounds": 4}
    config = Config(n_components=R, solver=solver, init=START, max_iter=2, tol=0.0, solver_options=options)
    return fit(engine, config, n_sources=3, n_features=M, dtype=np.dtype(float), seed=0, on_iteration=on_iteration)


def parts(n=3):
    from dbmd.data import partition

    return partition(X, np.searchsorted(LABS, LAB), n)


def frame(spark):
    rows = [(*map(float, x), str(lab)) for x, lab in zip(X, LAB, strict=True)]
    columns = ", ".join(f"{name} double" for name in NAMES)
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, 3), f"{columns}, lab string")


@contextmanager
def on(name, cluster, kind):
    """Give an engine with the samples: sent there from here, or living there."""
    there = cluster(name)
    if kind == "sent":
        with load("engines", name).Engine(parts()) as running:
            yield running
        return
    if name == "spark":
        data = dbmd.open_data(frame(there), source="lab")
    else:
        import dask.array as da

        data = dbmd.open_data(da.from_array(X, chunks=(30, -1)), source=LAB)
    with data, data.on(name, None, R) as running:
        yield running


def assert_same(found, expected):
    assert np.abs(found.W - expected.W).max() <= 1e-6 * np.abs(expected.W).max()


# -- workers that are killed ---------------------------------------------------------------------------------------


@on_each_cluster("case", spark=["cease, living there"], dask=["exact, sent", "cease, living there"])
def test_a_fit_survives_its_workers_killed_between_two_questions(engine, cluster, case):
    solver, kind = case.split(", ")
    expected = fitted(Local(parts()), solver)
    killed = []

    def harm(running, function):
        killed.extend(processes(running))
        kill(killed)  # all of them
        return function

    clock = time.monotonic()
    with on(engine, cluster, kind) as running:
        # exact: before the second sweep. cease: between gradient and local solution of a round.
        disturbed = Disturbed(running, 2 if solver == "exact" else 5, harm)
        found = fitted(disturbed, solver)
    assert killed
    assert_same(found, expected)
    assert time.monotonic() - clock < SECONDS


@on_each_cluster("solver", spark=["admm"], dask=["exact", "admm"])
def test_a_fit_survives_a_worker_killed_in_the_middle_of_its_work(engine, cluster, tmp_path, solver):
    expected = fitted(Local(parts()), solver)
    sign = tmp_path / "sign"
    clock = time.monotonic()
    with on(engine, cluster, "sent") as running:
        names = running.ask(name_of)
        disturbed = Disturbed(running, 1 if solver == "exact" else 4, lambda _, f: DieOnce(f, names[1], str(sign)))
        found = fitted(disturbed, solver)
    assert sign.exists()
    assert_same(found, expected)
    assert time.monotonic() - clock < SECONDS


@on_clusters
def test_a_fit_survives_a_kill_at_the_end_of_an_iteration(engine, cluster):
    expected = fitted(Local(parts()), "exact")
    with on(engine, cluster, "living there") as running:

        def strike(state):
            if len(state.history) == 1:
                kill(processes(running)[:1])

        found = fitted(running, "exact", on_iteration=strike)
    assert_same(found, expected)


@on_clusters
def test_after_a_loss_the_nodes_hold_again_what_they_held(engine, cluster, tmp_path):
    """So that not every question after it has to be asked twice."""
    cluster(engine)
    with load("engines", engine).Engine([Node(f"node {i}", block=float(i)) for i in range(3)]) as running:
        assert [running.ask(count) for _ in range(3)] == [3, 6, 9]
        kill(processes(running)[:1])
        assert running.ask(count) == 12
        assert [running.ask(count_and_note, str(tmp_path)) for _ in range(3)] == [15, 18, 21]
        assert len(list(tmp_path.iterdir())) == 3 * 3


@on_spark
@pytest.mark.parametrize(("master", "solver"), [("standalone", "cease")])
def test_a_fit_survives_an_executor_killed(tmp_path, master, solver):
    """In a process of its own: there is one SparkContext in each."""
    script = Path(__file__).with_name("executor_killed.py")
    tests = script.parents[1]
    path = os.pathsep.join([str(tests), str(tests.parent / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "engines.executor_killed", master, tmp_path, solver],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=180,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["killed"]
    assert told["difference"] <= 1e-6
    assert told["seconds"] < SECONDS
    assert told["left"] == []


# -- what does not answer ------------------------------------------------------------------------------------------


@on_dask
def test_a_worker_that_is_frozen_is_given_up_and_the_fit_ends_the_same(monkeypatch):
    monkeypatch.setattr(load("engines", "dask"), "TIDY", 0.5)
    expected = fitted(Local(parts()), "exact")
    # Dask makes ten heartbeats of it, 5 s.
    with (
        make_scheduler(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="2s") as (_, address),
        make_worker(address) as worker,
        Client(address, set_as_default=False) as client,
        client.as_current(),
    ):
        client.wait_for_workers(2)
        with load("engines", "dask").Engine(parts()) as running:
            other = load("engines", "dask").Engine(parts())

            def harm(running, function):
                assert worker.pid in processes(running)
                os.kill(worker.pid, signal.SIGSTOP)
                clock = time.monotonic()
                other.close()  # which the worker has no part in
                assert time.monotonic() - clock < 3
                return function

            clock = time.monotonic()
            found = fitted(Disturbed(running, 2, harm), "exact")
            assert worker.pid not in processes(running)
    assert_same(found, expected)
    assert time.monotonic() - clock < SECONDS


@on_dask
@pytest.mark.parametrize(("harm", "words"), [("SIGKILL", "lost its scheduler"), ("SIGSTOP", "not answered for 2 sec")])
def test_a_scheduler_that_is_lost_or_silent_is_one_error(harm, words, monkeypatch):
    import dask.array as da

    monkeypatch.setattr(load("engines", "dask"), "SILENCE", 2.0)
    monkeypatch.setattr(load("engines", "dask"), "TIDY", 0.5)
    raised = []

    def strike(running, function):
        os.kill(process.pid, getattr(signal, harm))
        return function

    def try_to_fit():
        try:
            with (
                client.as_current(),
                dbmd.open_data(da.from_array(X, chunks=(30, -1)), source=LAB) as data,
                data.on("dask", None, R) as running,
            ):
                fitted(Disturbed(running, 2, strike), "exact")
        except Exception as error:
            raised.append(error)

    with make_scheduler() as (process, address):
        client = Client(address, timeout=2, set_as_default=False)
        thread = threading.Thread(target=try_to_fit, daemon=True)  # it waited for ever
        thread.start()
        thread.join(SECONDS)
        process.kill()
        client.close()
    (error,) = raised
    assert isinstance(error, EngineError)
    assert words in str(error)
    assert address in str(error)


@on_dask
def test_a_connection_that_is_lost_and_found_again_does_no_harm(dask_client):
    expected = fitted(Local(parts()), "exact")

    def harm(running, function):
        mine = client.scatter(0)  # lost with the connection, as are the blocks
        client.loop.add_callback(client.scheduler_comm.comm.abort)
        end = time.monotonic() + 20
        while not mine.cancelled():
            assert time.monotonic() < end
            time.sleep(0.01)
        return function

    with (
        Client(dask_client.scheduler.address, set_as_default=False) as client,
        client.as_current(),
        load("engines", "dask").Engine(parts()) as running,
    ):
        assert_same(fitted(Disturbed(running, 2, harm), "exact"), expected)


@on_dask
def test_a_task_may_take_longer_than_silence_may_last(dask_client, monkeypatch):
    monkeypatch.setattr(load("engines", "dask"), "LOOK_EVERY", 0.1)
    monkeypatch.setattr(load("engines", "dask"), "SILENCE", 0.5)
    with load("engines", "dask").Engine([Node("a", block=1.0)]) as running:
        assert running.ask(sleep, 1.0) == 1.0


@on_dask
def test_a_cluster_without_workers_is_one_error(monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr(load("engines", "dask"), "LOOK_EVERY", 0.1)
    monkeypatch.setattr(load("engines", "dask"), "SILENCE", 0.5)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
        client.as_current(),
        pytest.raises(EngineError, match=r"no worker for 0\.5 seconds\. Start workers for the scheduler inproc://"),
    ):
        dbmd.open_data([dask.delayed(X)])


# -- functions that raise ------------------------------------------------------------------------------------------


@on_clusters
def test_an_error_at_a_node_is_one_error_without_a_page_of_the_machinery(engine, cluster, capfd):
    cluster(engine)
    capfd.readouterr()
    nodes = [Node(f"partition {i}", block=float(i)) for i in range(4)]
    with load("engines", engine).Engine(nodes) as running, pytest.raises(ZeroDivisionError) as caught:
        running.ask(fail_at_two, 1)
    lines = traceback.format_exception(caught.value, chain=True)
    text = "".join(lines)
    assert caught.value.__cause__ is None
    assert "partition 2" in text
    for word in ("Py4J", "java", "JVM", "scala", "distributed"):
        assert word not in text.replace("tests/", "")
    assert text.count("Traceback") == 1
    shown = capfd.readouterr()
    assert "Traceback" not in shown.err + shown.out


@on_clusters
def test_a_file_that_cannot_be_read_is_one_error(engine, cluster, tmp_path):
    cluster(engine)
    (tmp_path / "broken.parquet").write_text("PAR1 and nothing more")
    for name in ("nothing.parquet", "broken.parquet"):
        with pytest.raises(DataError, match=name) as caught:
            model(engine).fit(str(tmp_path / name))
        assert "Py4J" not in str(caught.value)


# -- what is left behind -------------------------------------------------------------------------------------------


def left(spark):
    """Return what dbmd has in the directories of the executor."""
    return spark.sparkContext.parallelize([0], 1).flatMap(lambda _: folders()).collect()


@on_spark
def test_a_fit_on_spark_leaves_no_files_whether_it_ends_or_fails(spark, tmp_path):
    class Stop(Exception):
        pass

    def stop(state):
        raise Stop

    assert left(spark) == []
    for kind in ("sent", "living there"):
        with on("spark", lambda _: spark, kind) as running:
            fitted(running, "exact")
            assert left(spark)
        assert left(spark) == []
    with dbmd.open_data(frame(spark), source="lab") as data:
        with data.on("spark", None, R) as running:
            fitted(running, "exact")
        with pytest.raises(Stop), data.on("spark", None, R) as running:
            fitted(running, "exact", on_iteration=stop)
        with pytest.raises(KeyError), data.on("spark", None, R) as running:
            running.ask(fail_everywhere)
        (folder,) = left(spark)
        assert not list(Path(folder).glob("*/held-*"))  # only blocks: they stay with the data
    assert left(spark) == []


@on_spark
def test_an_interrupt_between_questions_leaves_no_files(spark):
    def interrupt(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), load("engines", "spark").Engine(parts()) as running:
        fitted(running, "exact", on_iteration=interrupt)
    assert left(spark) == []


@on_spark
def test_an_interrupt_in_the_middle_of_a_question_leaves_no_files(spark):
    """Not even those of the task that was at work."""
    with pytest.raises(KeyboardInterrupt), load("engines", "spark").Engine([Node("a", block=1.0)]) as running:
        running.ask(interrupt_and_stay, os.getpid())
    assert spark.sparkContext.statusTracker().getActiveStageIds() == []
    assert left(spark) == []


@on_dask
def test_a_fit_on_dask_leaves_nothing_with_the_workers(dask_client):
    def held():
        gc.collect()
        return sum(isinstance(each, Node) for each in gc.get_objects())

    def ends_at_nothing(counts):
        """Wait, for futures are let go in the background."""
        gc.collect()  # errors of other tests hold on to the frames that they passed through
        end = time.monotonic() + 20
        while any(counts()) and time.monotonic() < end:
            time.sleep(0.05)
        return not any(counts())

    with load("engines", "dask").Engine(parts()) as running:
        fitted(running, "exact")
        assert max(dask_client.run(held).values()) >= 1
    assert ends_at_nothing(lambda: dask_client.run(held).values())
    with load("engines", "dask").Engine(parts()) as running:
        running.ask(count)
        with pytest.raises(KeyError):
            running.ask(fail_everywhere)
    del running
    assert ends_at_nothing(lambda: dask_client.run(held).values())
    assert ends_at_nothing(lambda: dask_client.has_what().values())
