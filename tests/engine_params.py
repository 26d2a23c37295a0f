"""Engines as parameters of tests. One that needs a cluster has a fixture that starts it, and a mark of its own name.

A new engine needs no entry here if it can be made from nodes alone.
"""

import pytest

from dbmd.registry import names

FIXTURES = {"spark": "spark", "dask": "dask_client"}


def params(engines):
    """Return engines for ``pytest.mark.parametrize``, each with its mark."""
    return [pytest.param(name, marks=[getattr(pytest.mark, name)] if name in FIXTURES else []) for name in engines]


on_every_engine = pytest.mark.parametrize("engine", params(names("engines")))
on_clusters = pytest.mark.parametrize("engine", params(sorted(FIXTURES)))


def on_each_cluster(name, spark, dask):
    """Return a mark that parametrises "engine" and ``name``, with values for Spark, where a fit takes long, and Dask.

    What an engine is asked goes the same way in all fits: where they differ in nothing that the engine sees, Spark gets
    those that differ most.
    """
    pairs = [("spark", value) for value in spark] + [("dask", value) for value in dask]
    return pytest.mark.parametrize(
        ("engine", name), [pytest.param(engine, value, marks=getattr(pytest.mark, engine)) for engine, value in pairs]
    )
