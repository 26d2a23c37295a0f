"""Small data of three sources, and a start: all fits of them differ in nothing but the engine."""

import numpy as np

import dbmd

N, M, R = 90, 4, 3
NAMES = [f"x{j}" for j in range(M)]
LABS = np.array(["a", "b", "c"])


def samples(seed=42, n=N, m=M, r=R):
    """Return Xt, shape (n, m), a quarter of it zeros; the source of each sample; W', shape (r, m), to start from."""
    rng = np.random.default_rng(seed)
    W = 4.0 * rng.normal(size=(m, r))
    codes = rng.integers(0, 3, n)
    Xt = rng.dirichlet(np.full(r, 0.5), n) @ W.T + np.array([0.1, 0.4, 0.8])[codes, None] * rng.normal(size=(n, m))
    Xt[rng.random((n, m)) < 0.25] = 0.0
    return Xt, LABS[codes], Xt[:r] + 0.1


def model(engine="local", **changes):
    """Return an estimator that makes two iterations, whatever it takes."""
    options = {"n_components": R, "init": samples()[2], "max_iter": 2, "tol": 0.0, "engine": engine, **changes}
    return dbmd.DBMD(**options)


def close_to(one, other, tolerance):
    """Say whether two fits have the same W and the same noise, relative to their size."""
    pairs = [(one.components_, other.components_), (one.noise_variance_, other.noise_variance_)]
    return all(np.abs(a - b).max() <= tolerance * np.abs(b).max() for a, b in pairs)
