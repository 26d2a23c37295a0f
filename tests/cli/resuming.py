"""Fits to be stopped and resumed."""

import json

import numpy as np

import dbmd
from dbmd.storage import from_npz


class Killed(Exception):
    """As if the process had ended here."""


def checkpoint_of(model):
    return model.with_name(f"{model.name}.checkpoint")


def assert_same_model(mine, other):
    mine, other = dbmd.load(mine), dbmd.load(other)
    np.testing.assert_array_equal(mine.components_, other.components_)
    np.testing.assert_array_equal(mine.noise_variance_, other.noise_variance_)
    assert mine.components_.dtype == other.components_.dtype
    assert mine.objective_ == other.objective_
    assert [record.objective for record in mine.history_] == [record.objective for record in other.history_]
    assert mine.n_iter_ == other.n_iter_
    assert mine.fit_info_["converged"] == other.fit_info_["converged"]
    for name, array in vars(mine.profile_).items():
        np.testing.assert_array_equal(array, vars(other.profile_)[name])


FITS = {
    "one source": ("float64.parquet", "--drop", "lab"),
    "float32": ("float32.parquet", "--source", "lab"),
    "a prior, and two starts": (
        "float64.parquet",
        "--source",
        "lab",
        "--inference",
        "map",
        "--alpha",
        "1.5",
        "--n-init",
        "2",
    ),
    "a prior, two starts, float32": (
        "float32.parquet",
        "--source",
        "lab",
        "--inference",
        "map",
        "--alpha",
        "2",
        "--n-init",
        "2",
    ),
    "streamed": ("float64.parquet", "--source", "lab", "--memory", "0"),
    "sparse": ("float64.parquet", "--source", "lab", "--lam", "5"),
    "over the nodes": ("float64.parquet", "--source", "lab", "--solver", "agd", "--nodes", "3"),
    "one noise": ("float64.parquet", "--source", "lab", "--noise", "shared", "--init", "random"),
}


# From random samples, and far: there are iterations to be killed in.
MANY = ("--init", "random", "--tol", "1e-9", "--max-iter", "47")


def command(data, name, *options):
    file, *rest = FITS[name]
    return ("fit", data / file, "-k", "4", *MANY, "--no-report", "-q", *rest, *options)


def reached(model):
    """Return how many iterations of the first start a checkpoint holds."""
    path = checkpoint_of(model)
    if not path.exists():
        return 0
    state = json.loads(str(from_npz(path)["record"]))["state"]
    return len(state["history"]) if state["attempt"] == 0 else -(10**6)  # there are more starts to come


FIT = ("-k", "4", "--source", "lab", "--inference", "map", "--tol", "1e-5", "--max-iter", "47")
BASE = (*FIT, "--no-report", "--dtype", "float64", "-q")


def resume(stopped, *options, data="data.parquet"):
    return ("fit", stopped / data, *BASE, "-o", stopped / "model", "--resume", *options)
