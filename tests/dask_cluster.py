"""One cluster of Dask for all tests of a process: two workers in processes of their own, loopback only."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager

from spark_session import FOLDERS


def environment():
    """Return what workers are started with: this code, and one thread of BLAS each."""
    path = [*FOLDERS, *filter(None, [os.environ.get("PYTHONPATH")])]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(path)), **threads}


@contextmanager
def make_client():
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.nanny.pre-spawn-environ": environment(),
        "distributed.worker.multiprocessing-method": "spawn",
        "distributed.admin.tick.limit": "1h",  # a busy machine is not worth a warning
        # A worker that tests kill twice, 15 s apart, would be taken for one that is lost, and not started again.
        "distributed.deploy.lost-worker-timeout": "1h",
        "dataframe.convert-string": True,
    }
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as workers,
        Client(workers) as client,
    ):
        yield client


@contextmanager
def make_scheduler(**settings):
    """Start a scheduler, and a worker with it, in one other process; give that, and the address of the scheduler."""
    env = os.environ | environment() | settings
    with subprocess.Popen([sys.executable, __file__], env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def make_worker(address):
    """Start a worker in a process of its own; give that."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1"]
    with subprocess.Popen(command, env=os.environ | environment(), stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    from distributed import LocalCluster

    how = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "protocol": "tcp://", "host": "127.0.0.1"}
    with LocalCluster(**how, dashboard_address="127.0.0.1:0") as cluster:
        print(cluster.scheduler_address, flush=True)
        time.sleep(600)
