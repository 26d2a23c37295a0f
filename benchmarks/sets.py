"""The data, prepared once: standardised or not, and written as arrays that a fresh process loads in a moment."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.cells import cells
from benchmarks.plan import Plan

VERSION = 1  # of what is done to the data: another one is prepared anew
QUICK = 1_000  # samples


@dataclass(frozen=True)
class Set:
    """A data set.

    Attributes
    ----------
    title : str
        For people.
    r : int
        Components that are asked for.
    make : callable
        Of a number of samples, or None for all: returns samples and classes.
    nonnegative : bool
        Whether NMF can take it.
    dense : bool
        Whether it is an array.
    """

    title: str
    r: int
    make: Callable[[int | None], tuple[Any, NDArray[Any]]]
    nonnegative: bool = False
    dense: bool = True


def _public(name: str, *, standardise: bool) -> Callable[[int | None], tuple[Any, NDArray[Any]]]:
    def make(n: int | None) -> tuple[Any, NDArray[Any]]:
        from dbmd.data.datasets import load
        from dbmd.experiments.clustering.run import standardised

        found = load(name, n=n)
        return (standardised(found.X) if standardise else found.X), found.y

    return make


def _cells(n: int | None) -> tuple[Any, NDArray[Any]]:
    return cells() if n is None else cells(n, 500)


SETS = {
    "covtype": Set("CoverType, standardised", 7, _public("covtype", standardise=True)),
    "kdd99": Set("KDD-99 surrogate, standardised", 11, _public("kdd99-full", standardise=True)),
    "mnist": Set("Deformed MNIST in [0, 1]", 10, _public("mnist-400k", standardise=False), nonnegative=True),
    "cells": Set("Sparse cells (made up)", 20, _cells, nonnegative=True, dense=False),
}


@dataclass(frozen=True)
class Samples:
    """Data as they are measured on.

    Attributes
    ----------
    X : array or CSR array of shape (n, m)
        The samples, in memory.
    y : array of int of shape (n,)
        Their classes.
    r : int
        Components that are asked for.
    """

    X: Any
    y: NDArray[np.intp]
    r: int


def folder_of(name: str, cache: Path, *, quick: bool) -> Path:
    return cache / f"{name}{'-quick' if quick else ''}-{VERSION}"


def prepare(name: str, cache: Path, *, quick: bool) -> None:
    """Write a data set into its folder, if it is not there."""
    folder = folder_of(name, cache, quick=quick)
    if folder.exists():
        return
    X, y = SETS[name].make(QUICK if quick else None)
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    unfinished.mkdir(parents=True)
    try:
        if sparse.issparse(X):
            for part in ("data", "indices", "indptr"):
                np.save(unfinished / f"{part}.npy", getattr(X, part))
        else:
            np.save(unfinished / "X.npy", X)
        np.save(unfinished / "y.npy", np.unique(y, return_inverse=True)[1])
        (unfinished / "shape.json").write_text(json.dumps([int(number) for number in X.shape]))
        os.replace(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def load(name: str, cache: Path | str, *, quick: bool) -> Samples:
    """Return a prepared data set, in memory."""
    folder = folder_of(name, Path(cache), quick=quick)
    if (folder / "X.npy").exists():
        X: Any = np.load(folder / "X.npy")
    else:
        parts = tuple(np.load(folder / f"{part}.npy") for part in ("data", "indices", "indptr"))
        X = sparse.csr_array(parts, shape=tuple(json.loads((folder / "shape.json").read_text())))
    return Samples(X, np.load(folder / "y.npy"), SETS[name].r)


def of_task(task: dict[str, Any]) -> Samples:
    """Return the data of a task."""
    return load(task["data"], task["cache"], quick=task["quick"])


def place(plan: Plan) -> dict[str, Any]:
    """Return what a task needs to find its data."""
    return {"cache": str(plan.cache), "quick": plan.quick}
