"""The command line with --engine gpu."""

import json

import numpy as np
from numpy.testing import assert_allclose

from cli.resuming import Killed, assert_same_model, checkpoint_of
from cli.running import run
from dbmd import load
from dbmd.algorithm import COLD_EVERY
from dbmd.saved.checkpoint import Checkpoint
from device.test_estimator import R, made


def test_fits_of_files_are_those_of_the_cores_with_maps_and_reports(device, tmp_path):
    X, _ = made(dtype=np.float32)
    np.save(tmp_path / "x.npy", X)
    fit = ("fit", tmp_path / "x.npy", "-k", R, "--seed", 0, "--map-shape", "20x20")
    for engine in ("local", "gpu"):
        run(*fit, "--engine", engine, "-o", tmp_path / engine)
    found, expected = load(tmp_path / "gpu"), load(tmp_path / "local")
    assert_allclose(found.components_, expected.components_, atol=1e-3)
    assert (tmp_path / "gpu" / "report.html").exists()
    assert (tmp_path / "gpu" / "map.npz").exists()
    run("transform", tmp_path / "gpu", tmp_path / "x.npy", "-o", tmp_path / "h.npy")
    assert_allclose(np.load(tmp_path / "h.npy"), found.transform(str(tmp_path / "x.npy")), atol=1e-5)


def test_files_that_are_read_in_every_pass(device, tmp_path):
    X, _ = made()
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header=",".join(f"f{i}" for i in range(X.shape[1])), comments="")
    fit = ("fit", tmp_path / "x.csv", "-k", R, "--seed", 0, "--memory", "0")
    for engine in ("local", "gpu"):
        run(*fit, "--engine", engine, "-o", tmp_path / engine)
    assert_allclose(load(tmp_path / "gpu").components_, load(tmp_path / "local").components_, atol=1e-5)


def test_a_fit_that_was_killed_on_a_gpu_is_resumed_there_or_without_one(device, tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", made()[0])
    fit = ("fit", tmp_path / "x.npy", "-k", R, "--init", "random", "--tol", 1e-9, "--max-iter", 16, "--checkpoint", 0)
    fit = (*fit, "--no-report", "-q")
    run(*fit, "--engine", "gpu", "-o", tmp_path / "whole")
    note = Checkpoint.__call__

    def note_and_die(self, state):
        note(self, state)
        if len(state.history) == COLD_EVERY + 3:
            raise Killed

    for engine in ("gpu", "local"):
        monkeypatch.setattr(Checkpoint, "__call__", note_and_die)
        run(*fit, "--engine", "gpu", "-o", tmp_path / engine, code=1)
        assert checkpoint_of(tmp_path / engine).exists()
        monkeypatch.setattr(Checkpoint, "__call__", note)
        run(*fit, "--engine", engine, "--resume", "-o", tmp_path / engine)
    assert_same_model(tmp_path / "gpu", tmp_path / "whole")
    found, expected = load(tmp_path / "local"), load(tmp_path / "whole")
    assert found.n_iter_ == expected.n_iter_
    assert_allclose(found.components_, expected.components_, atol=1e-6)


def test_rank_draws_from_samples_on_the_gpu(device, tmp_path):
    np.save(tmp_path / "x.npy", made()[0])
    rank = ("rank", tmp_path / "x.npy", "-k", "2:4", "--splits", 1, "--seed", 0)
    for engine in ("local", "gpu"):
        run(*rank, "--engine", engine, "-o", tmp_path / engine)
    found, expected = (json.loads((tmp_path / engine / "rank.json").read_text("utf-8")) for engine in ("gpu", "local"))
    assert found["n_components"] == expected["n_components"]
