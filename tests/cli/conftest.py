import numpy as np
import pytest

from cli.resuming import BASE, Killed, checkpoint_of
from cli.running import run, samples, write_csv, write_parquet
from dbmd.cli import _phases
from dbmd.saved.checkpoint import Checkpoint


@pytest.fixture(autouse=True)
def no_lines_about_slow_phases(monkeypatch):
    """What a log has beyond iterations does not depend on how busy this machine is."""
    monkeypatch.setattr(_phases, "SECONDS_TO_A_LINE", float("inf"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sound files, and a model of them: tests write beside them."""
    folder = tmp_path_factory.mktemp("errors")
    X, source = samples(60)
    write_parquet(folder / "good.parquet", X, lab=source)
    write_csv(folder / "good.csv", X, lab=source)
    np.save(folder / "good.npy", X)
    run("fit", folder / "good.csv", "-k", "3", "--drop", "lab", "-o", folder / "model", "--no-report", "-q")
    return folder


@pytest.fixture
def kill_after(monkeypatch):
    """Return a function that makes fits end right after so many iterations were seen in all."""
    note = Checkpoint.__call__

    def set_limit(iterations):
        left = iterations

        def call(self, state):
            nonlocal left
            note(self, state)
            left -= 1
            if left == 0:
                raise Killed

        monkeypatch.setattr(Checkpoint, "__call__", call)

    return set_limit


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Files of three sources."""
    folder = tmp_path_factory.mktemp("data")
    for dtype in ("float32", "float64"):
        X, source = samples(600, m=6, r=4, dtype=dtype)
        write_parquet(folder / f"{dtype}.parquet", X, lab=source)
    return folder


@pytest.fixture
def stopped(data, tmp_path, kill_after):
    """A folder with data and the checkpoint of a fit of them."""
    X, source = samples(600, m=6, r=4)
    write_parquet(tmp_path / "data.parquet", X, lab=source)
    kill_after(15)
    run("fit", tmp_path / "data.parquet", *BASE, "--checkpoint", "0", "-o", tmp_path / "model", code=1)
    kill_after(10**6)
    assert checkpoint_of(tmp_path / "model").exists()
    return tmp_path
