"""Sources of different noise: the evidence ends at the truth, the peak of the posterior (map) far from it.

.venv/bin/python examples/several_levels.py
"""

from __future__ import annotations

import warnings
from itertools import permutations

import numpy as np

from dbmd import DBMD

SETTINGS = {
    "evidence, tol 1e-3": {"tol": 1e-3},
    "evidence": {},
    "evidence, tol 1e-7": {"tol": 1e-7},
    "map, stopped early": {"inference": "map", "tol": 1e-3},
    "map, tol 1e-4": {"inference": "map", "tol": 1e-4},
    "map, 2,000 iterations": {"inference": "map", "tol": 0.0, "max_iter": 2000},
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
    warnings.simplefilter("ignore")  # map does not converge in so many iterations, and that is the point
    for sigmas in ((0.1, 0.3, 4.0), (0.1, 0.5, 2.0), (0.1, 0.3, 1.0)):
        for name, parameters in SETTINGS.items():
            errors, levels = [], []
            for seed in range(6):
                X, source, patterns = mixtures(seed, sigmas)
                model = DBMD(len(patterns), random_state=0, **parameters).fit(X, source=source)
                errors.append(error(model.components_, patterns))
                levels.append(np.sqrt(model.noise_variance_))
            found = ", ".join(f"{level:.3g}" for level in np.median(levels, axis=0))
            print(f"sigma {sigmas}, {name}: error of W {np.median(errors):.3f}, sigma found {found}", flush=True)
