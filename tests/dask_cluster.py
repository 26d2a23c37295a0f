"""One cluster of Dask for all tests of a process: two workers in processes of their own, loopback only."""

import os
from contextlib import contextmanager

from spark_session import FOLDERS


@contextmanager
def make_client():
    import dask
    from distributed import Client, LocalCluster

    # What workers are started with: this code, and one thread of BLAS each.
    path = [*FOLDERS, *filter(None, [os.environ.get("PYTHONPATH")])]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    settings = {
        "distributed.nanny.pre-spawn-environ": {"PYTHONPATH": os.pathsep.join(dict.fromkeys(path)), **threads},
        "distributed.worker.multiprocessing-method": "spawn",
        "distributed.admin.tick.limit": "1h",  # a busy machine is not worth a warning
        "dataframe.convert-string": True,
    }
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as workers,
        Client(workers) as client,
    ):
        yield client
