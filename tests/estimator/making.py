"""Data of the model, models fitted to it, and a fresh interpreter."""

import os
import subprocess
import sys
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD


def mixture(seed=0, n=150, m=8, r=3, sigmas=(0.1, 0.5, 2.0), concentration=0.4):
    """Return X, source, W of shape (m, r) and the memberships, of the model with a noise level for each source."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, len(sigmas), n)
    W = rng.normal(size=(m, r)) * 3
    Ht = rng.dirichlet(np.full(r, concentration), n)
    X = Ht @ W.T + rng.normal(size=(n, m)) * np.array(sigmas)[source, None]
    return X, source, W, Ht


def fitted(X, source=None, **parameters):
    """Return a fitted model, of map where there is a prior; that a short fit did not converge is not the point here."""
    if np.max(parameters.get("alpha", 1.0)) > 1.0:
        parameters = {"inference": "map"} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DBMD(**{"n_components": 3, "random_state": 0} | parameters).fit(X, source=source)


def run_python(code, **environment):
    """Return what a fresh interpreter prints, warnings being errors as they are here."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ
        | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout
