"""With several noise levels the minimum of the objective is far from the truth; stopping alternation early is near it.

.venv/bin/python examples/several_levels.py
"""

from __future__ import annotations

import warnings
from itertools import permutations

import numpy as np

from dbmd import DBMD

SETTINGS = {
    "default": {},
    "alternation to 1e-4": {"tol": 1e-4},
    "extrapolated to 1e-5": {"tol": 1e-5, "extrapolate": True},
}


def mixtures(seed, sigmas, n=3000, m=8, r=3):
    """Return samples, their sources, and the patterns that they are mixtures of, shape (r, m)."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, len(sigmas), n)
    patterns = 3.0 * rng.normal(size=(m, r))
    memberships = rng.dirichlet(np.full(r, 0.4), n)
    noise = rng.normal(size=(n, m)) * np.array(sigmas)[source, None]
    return memberships @ patterns.T + noise, source, patterns.T


def error(found, truth):
    """Return the relative error of patterns, in the order that suits them best."""
    return min(
        np.linalg.norm(found[list(order)] - truth) for order in permutations(range(len(truth)))
    ) / np.linalg.norm(truth)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # some do not converge in 200 iterations, and that is the point
    for sigmas in ((0.1, 0.3, 4.0), (0.1, 0.5, 2.0), (0.1, 0.3, 1.0)):
        for name, parameters in SETTINGS.items():
            errors = []
            for seed in range(6):
                X, source, patterns = mixtures(seed, sigmas)
                model = DBMD(len(patterns), random_state=0, **parameters).fit(X, source=source)
                errors.append(error(model.components_, patterns))
            print(f"sigma {sigmas}, {name}: error of W {np.median(errors):.3f}", flush=True)
